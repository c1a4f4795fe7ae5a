//! Packs lengths by a rule: `pack RULE CAPACITY SLOTS ROWS_MULTIPLE < LENGTHS`, lengths by spaces, a case a line. Answers
//! with a line a case: cells of every slot as JSON, `[slots][rows]` of positions in the line, or `null` for no layout.
//!
//! What `tests/peers/beside_packages.py` compares with the trainers' packages.

#![allow(clippy::print_stdout, reason = "an example answers there")]

use std::io::Read;

use routepack_baselines::PEERS;
use routepack_problem::{Batch, Instance, Placement, Setting};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [rule, numbers @ ..] = &arguments[..] else { return Err("RULE CAPACITY SLOTS ROWS_MULTIPLE".into()) };
    let numbers: Vec<u32> = numbers.iter().map(|text| text.parse()).collect::<Result<_, _>>()?;
    let &[capacity, slots, multiple] = &numbers[..] else {
        return Err("CAPACITY SLOTS ROWS_MULTIPLE".into());
    };
    let peer = PEERS.iter().find(|peer| peer.name == rule).ok_or("no such rule")?;
    let mut setting = Setting::new(slots, 1, capacity);
    setting.packing.rows_multiple = multiple;
    let placement = Placement::new(1, Vec::new())?;
    let mut text = String::new();
    std::io::stdin().read_to_string(&mut text)?;
    for line in text.lines() {
        let lengths = line.split_whitespace().map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        let instance = Instance::single(Batch::from_lengths(lengths), &setting)?;
        let Ok(packed) = (peer.pack)(&instance, &placement, 1) else {
            println!("null");
            continue;
        };
        let cells = packed.layout.cells();
        let of_slot = |slot: usize| cells.iter().skip(slot).step_by(slots as usize).collect::<Vec<_>>();
        println!("{:?}", (0..slots as usize).map(of_slot).collect::<Vec<_>>());
    }
    Ok(())
}
