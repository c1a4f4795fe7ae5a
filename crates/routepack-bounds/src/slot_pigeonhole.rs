//! Bound on the slowest shard from the units one DP slot must take.
//!
//! Problem: `max_g U_g` (DESIGN §1.3) when a few heavy units decide it, where averages over shards say nothing.
//! Symbols: D slots, R rows, P ranks, `parts`; unit u costs φ̄(u) = Σ over kinds of φ and ρ(u) routed rows.
//! Bound: every slot d of a slot group has U ≥ Σ_{u on d} φ̄(u), as Σ_s max_d ≥ the sum of slot d's own kinds. Of the
//! parts' shards, the worst has Σ_l Γ_l·max_p W ≥ Σ_l Γ_l·(mean over parts and ranks) ≥
//! Σ_l Γ_l·top_k·Σ_{u on d} ρ(u)/(P·parts). So with the weight w(u) = P·parts·φ̄(u) + (Σ_l Γ_l)·top_k·ρ(u) the worst
//! shard costs at least the heaviest slot's weight / (P·parts). Every slot takes at least R units, one a cell, and
//! [`pigeonhole`] bounds the heaviest of D slots. For one row-shard (`max J`) the heaviest unit alone is the bound, here with
//! its rows even over the ranks.
//! Where the slowest of S pipeline stages paces, the stage with the largest Σ Γ of its layers is looked at, with that Σ
//! instead of the sum over all layers and φ̄/S instead of φ̄. ∎
//! Complexity: O(n log n).

use routepack_problem::Instance;

use crate::peak_bounds::saturate;
use crate::pigeonhole;

/// Lower bounds on `max_g U_g` and on `max_{r,g} J`, in scaled integers, from single units for R = `rows`.
pub fn slot_pigeonhole(instance: &Instance, rows: usize) -> (u64, u64) {
    let topology = instance.topology();
    let charges = instance.charges();
    let share = (topology.num_ranks() * topology.num_parts()) as u128;
    let stages = instance.paced_stages();
    let mut stage_gamma = vec![0u128; stages];
    for (layer, &gamma) in charges.expert().iter().enumerate() {
        stage_gamma[instance.paced_stage(layer)] += u128::from(gamma);
    }
    let gamma = stage_gamma.into_iter().max().unwrap_or(0) * stages as u128;
    let gamma_k = gamma * u128::from(instance.setting().routing.top_k);
    let mut costs: Vec<u64> = (0..instance.num_units())
        .map(|unit| {
            let weight: u128 = instance
                .unit(unit)
                .iter()
                .map(|&sample| {
                    let attention: u128 =
                        charges.attention(sample as usize).iter().map(|&phi| u128::from(phi)).sum();
                    share * attention + gamma_k * u128::from(instance.routed_rows(sample as usize))
                })
                .sum();
            // Rounded down: pigeonhole adds the weights of several units.
            saturate(weight / (share * stages as u128))
        })
        .collect();
    costs.sort_unstable();
    let worst_row = costs.last().copied().unwrap_or(0);
    (saturate(pigeonhole(&costs, topology.num_slots(), rows)), worst_row)
}
