//! What moving experts costs for two published shapes: `cargo run --release -p routepack-materialise --example move_cost`.
//!
//! Weights in BF16, FP32 masters and Adam moments over the EDP group. Experts trade places of equal number on two ranks
//! (as the incremental placement makes them), or all are shuffled.

#![allow(clippy::print_stdout, reason = "a table")]

use routepack_materialise::{ExpertState, Holdings, Links, MoveOptions, materialise, move_cost};
use routepack_problem::{Parallelism, Placement};

struct Model {
    name: &'static str,
    layers: usize,
    experts: u32,
    hidden: u64,
    ffn: u64,
    parallelism: Parallelism,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let models = [
        Model {
            name: "Qwen3-30B-A3B, 32 ranks: DP 32, EP 8, EDP 4",
            layers: 48,
            experts: 128,
            hidden: 2048,
            ffn: 768,
            parallelism: Parallelism::new(32, 8),
        },
        Model {
            name: "DeepSeek-V3, 256 ranks: PP 8, DP 32, EP 16, EDP 2",
            layers: 58,
            experts: 256,
            hidden: 7168,
            ffn: 2048,
            parallelism: Parallelism { pp: 8, ..Parallelism::new(32, 16) },
        },
    ];
    println!(
        "| experts moved | GB sent | GB of the busiest rank | rounds | GB aside | ms | ms, no order is faster |"
    );
    println!("|---|---|---|---|---|---|---|");
    for model in &models {
        println!("| **{}** | | | | | | |", model.name);
        let state = ExpertState::mixed_precision_adam(model.experts, model.hidden, model.ffn, 1);
        let holdings = Holdings::new(&model.parallelism, model.layers, state)?;
        let (ranks, experts) = (model.parallelism.ep as usize, model.experts as usize);
        let resident = Placement::identity(model.layers, experts, ranks)?;
        for (share, staging) in [(3, None), (15, None), (15, Some(1 << 30)), (100, None)] {
            let target = placement(model, share)?;
            let options = MoveOptions { staging_bytes: staging, ..MoveOptions::default() };
            let moved = materialise(&holdings, &resident, &target, &options)?;
            let cost = move_cost(&holdings, &moved, &Links::default());
            let giga = |bytes: u64| bytes as f64 / 1e9;
            println!(
                "| {share} % | {:.1} | {:.2} | {} | {:.2} | {:.1} | {:.1} |",
                giga(cost.sent_bytes),
                giga(cost.busiest_bytes),
                cost.num_rounds,
                giga(moved.staging_bytes),
                1e3 * cost.seconds,
                1e3 * cost.busiest_seconds,
            );
        }
    }
    Ok(())
}

/// So many percent of the experts of every layer trade ranks; at 100 all slots are shuffled.
fn placement(model: &Model, share: usize) -> Result<Placement, Box<dyn std::error::Error>> {
    let (ranks, experts) = (model.parallelism.ep as usize, model.experts as usize);
    let per_rank = experts / ranks;
    let mut state = 1u64;
    let mut below = |limit: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize) % limit
    };
    let layers = (0..model.layers).map(|_| {
        let mut slots: Vec<u32> = (0..experts as u32).collect();
        if share == 100 {
            (1..experts).rev().for_each(|last| slots.swap(last, below(last + 1)));
        }
        let mut moved = if share == 100 { experts } else { 0 };
        while moved * 100 < share * experts {
            let (place, one, other) = (below(per_rank), below(ranks), below(ranks));
            let (one, other) = (one * per_rank + place, other * per_rank + place);
            if one != other && slots[one] as usize == one && slots[other] as usize == other {
                slots.swap(one, other);
                moved += 2;
            }
        }
        slots
    });
    Ok(Placement::new(ranks, layers.collect())?)
}
