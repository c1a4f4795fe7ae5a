//! What trainers run today, by name.

use routepack_problem::{Instance, Placement};

use crate::{
    BaselineError, BaselineLayout, areal, dp_local_ffd, miles, open_instruct, prime_rl, slime, trl, verl_0_8,
    verl_0_9,
};

/// A packing rule of a trainer.
#[derive(Clone, Copy)]
pub struct Peer {
    /// Name in tables.
    pub name: &'static str,
    /// The trainers that run it, with the version it was described from.
    pub trainers: &'static str,
    /// Packs a window into at least so many rows; most rules do not look at experts.
    pub pack: fn(&Instance, &Placement, usize) -> Result<BaselineLayout, BaselineError>,
}

/// Every rule, those of trainers first.
pub const PEERS: [Peer; 9] = [
    Peer {
        name: "verl 0.8",
        trainers: "verl to 0.8, slime with flops balance, ROLL, OpenRLHF: no limit on tokens of a micro-batch",
        pack: |instance, _, rows| verl_0_8(instance, rows),
    },
    Peer { name: "verl 0.9", trainers: "verl 0.9.1", pack: |instance, _, rows| verl_0_9(instance, rows) },
    Peer { name: "AReaL", trainers: "AReaL 1.0.4", pack: |instance, _, rows| areal(instance, rows) },
    Peer {
        name: "miles",
        trainers: "miles 31f1ca96, NeMo-RL with first-fit decreasing",
        pack: |instance, _, rows| miles(instance, rows),
    },
    Peer { name: "slime", trainers: "slime 624b824a", pack: |instance, _, rows| slime(instance, rows) },
    Peer {
        name: "prime-rl",
        trainers: "prime-rl 559b4477",
        pack: |instance, _, rows| prime_rl(instance, rows),
    },
    Peer { name: "TRL", trainers: "TRL f2cd5771", pack: |instance, _, rows| trl(instance, rows) },
    Peer {
        name: "open-instruct",
        trainers: "open-instruct, branch files e2d13914 and 4f85f21a",
        pack: open_instruct,
    },
    Peer {
        name: "DP-local FFD",
        trainers: "the RoutePack paper's comparison arm",
        pack: |instance, _, rows| dp_local_ffd(instance, rows),
    },
];
