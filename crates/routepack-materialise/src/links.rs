//! What a move costs: bytes per link, and an estimate of its time.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Holdings, MaterialiseError, Materialised};

/// Speeds of the links between ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Links {
    /// Ranks of a node.
    pub ranks_per_node: u32,
    /// Bytes a second one way between two ranks of a node.
    pub within_node: f64,
    /// Bytes a second one way between two ranks of different nodes.
    pub between_nodes: f64,
    /// Bytes a second of a copy within a rank.
    pub within_rank: f64,
    /// Seconds a round takes beside its bytes.
    pub round_seconds: f64,
}

impl Default for Links {
    /// H800: NVLink 200 GB/s, one 400 Gb/s network card a rank, memory read and written at 3.3 TB/s, 20 µs a round.
    fn default() -> Self {
        Self {
            ranks_per_node: 8,
            within_node: 200e9,
            between_nodes: 50e9,
            within_rank: 1.65e12,
            round_seconds: 20e-6,
        }
    }
}

impl Links {
    /// Bytes a second between two ranks.
    pub(crate) fn speed(&self, from: u32, to: u32) -> f64 {
        let node = |rank: u32| rank / self.ranks_per_node.max(1);
        if node(from) == node(to) { self.within_node } else { self.between_nodes }
    }

    pub(crate) fn validate(&self) -> Result<(), MaterialiseError> {
        let wrong = |field: &str, value: f64, why| {
            Err(MaterialiseError::state(format!("options.links.{field}"), value, why))
        };
        if self.ranks_per_node == 0 {
            return wrong("ranks_per_node", 0.0, "expected at least 1");
        }
        for (field, speed) in [
            ("within_node", self.within_node),
            ("between_nodes", self.between_nodes),
            ("within_rank", self.within_rank),
        ] {
            if !(speed.is_finite() && speed > 0.0) {
                return wrong(field, speed, "expected bytes a second above 0");
            }
        }
        if !(self.round_seconds.is_finite() && self.round_seconds >= 0.0) {
            return wrong("round_seconds", self.round_seconds, "expected seconds, at least 0");
        }
        Ok(())
    }
}

/// Bytes and time of a move. Bytes are exact; times are estimates.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct MoveCost {
    /// Bytes over every link (from rank, to rank) that carries any.
    pub links: BTreeMap<(u32, u32), u64>,
    /// Bytes that change ranks.
    pub sent_bytes: u64,
    /// Bytes that stay on their rank and change places.
    pub local_bytes: u64,
    /// Most bytes one rank sends or receives.
    pub busiest_bytes: u64,
    /// Rounds of all passes.
    pub num_rounds: usize,
    /// Seconds: every round as long as its slowest message, and every pass's bytes written once more, to their places.
    pub seconds: f64,
    /// Seconds the busiest rank's messages alone take: no order of rounds is faster.
    pub busiest_seconds: f64,
}

/// Bytes and time of a move over these links.
pub fn move_cost(holdings: &Holdings, moved: &Materialised, speeds: &Links) -> MoveCost {
    let seconds = |from, to, bytes: u64| bytes as f64 / speeds.speed(from, to);
    let mut links: BTreeMap<(u32, u32), u64> = BTreeMap::new();
    let (mut total, mut local_bytes) = (0.0, 0);
    for pass in &moved.passes {
        for round in &pass.rounds {
            let mut slowest = 0.0f64;
            for block in round {
                *links.entry((block.from, block.to)).or_default() += block.num_bytes;
                slowest = slowest.max(seconds(block.from, block.to, block.num_bytes));
            }
            total += slowest + speeds.round_seconds;
        }
        let mut written: BTreeMap<u32, u64> = BTreeMap::new();
        for transfer in pass.transfers() {
            *written.entry(holdings.grid.rank(transfer.to.owner)).or_default() += transfer.len();
        }
        local_bytes += pass.local.iter().map(crate::Transfer::len).sum::<u64>();
        total += written.into_values().max().unwrap_or(0) as f64 / speeds.within_rank;
    }
    let (mut sent, mut received) = (BTreeMap::<u32, (u64, f64)>::new(), BTreeMap::<u32, (u64, f64)>::new());
    for (&(from, to), &bytes) in &links {
        for busy in [sent.entry(from).or_default(), received.entry(to).or_default()] {
            busy.0 += bytes;
            busy.1 += seconds(from, to, bytes);
        }
    }
    let busy = || sent.values().chain(received.values());
    MoveCost {
        sent_bytes: links.values().sum(),
        local_bytes,
        busiest_bytes: busy().map(|busy| busy.0).max().unwrap_or(0),
        busiest_seconds: busy().map(|busy| busy.1).fold(0.0, f64::max),
        num_rounds: moved.passes.iter().map(|pass| pass.rounds.len()).sum(),
        seconds: total,
        links,
    }
}
