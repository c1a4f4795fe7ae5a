//! Bound on a layer's charged peaks from long units that cannot be levelled by what fits beside them.
//!
//! Problem: given a placement, Σ over the row-groups b of one part of max_p W_b\[p\] for one layer, m cells of C' tokens
//! to a row-group (DESIGN §1.3).
//! Symbols: q_u\[p\] rank demand of unit u (tokens t_u); P ranks; K units no two of which fit one cell.
//! Bound: ⌈(Σ_p Σ_i q + Σ_k ω_{m(k−1)+1}) / P⌉, where ω_1 ≥ ω_2 ≥ … are the
//! ω_u = (P·max_p q_u − Σ_p q_u − top_k·(m·C' − t_u))⁺ of the units of K.
//! Proof: P·max_p W_b = Σ_p W_b + (P·max_p W_b − Σ_p W_b). If u is in b, everything else in b routes f ≤
//! top_k·(m·C' − t_u) rows, so Σ_p W_b ≤ Σ_p q_u + f, while max_p W_b ≥ max_p q_u: the bracket is at least ω_u.
//! (Padding that goes to every rank alike changes no bracket; other padding of u's own tokens is part of f, see below.)
//! A row-group holds at most m units of K, so the k-th largest bracket is at least ω_{m(k−1)+1}. ∎
//! Matters where a row-group holds few samples (m = 1, long context); elsewhere every ω is 0.
//! Complexity: O(n·(P + log n)) per layer and part.

use routepack_problem::{Instance, RankDemand};

/// Σ_k ω_{m(k−1)+1} for one part and layer, in routed rows times P.
///
/// `alone` marks the units of K. Rows that u's own padding tokens may route to fixed experts count as filling.
pub(crate) fn unlevelled(
    instance: &Instance,
    demand: &RankDemand,
    alone: &[bool],
    part: usize,
    layer: usize,
) -> u128 {
    let topology = instance.topology();
    let (width, ranks) = (topology.slots_per_shard(), topology.num_ranks());
    let group_tokens = width as u64 * u64::from(instance.cell_capacity());
    let top_k = u128::from(instance.setting().routing.top_k);
    let mut excesses: Vec<u128> = (0..instance.num_units())
        .filter(|&unit| alone[unit])
        .map(|unit| {
            let mut load = vec![0u64; ranks];
            let mut pad_tokens = 0;
            for &sample in instance.unit(unit) {
                pad_tokens += u64::from(instance.pad_tokens(sample as usize));
                for (load, &rows) in load.iter_mut().zip(demand.of(sample as usize, part, layer)) {
                    *load += u64::from(rows);
                }
            }
            let peak = u128::from(load.iter().copied().max().unwrap_or(0)) * ranks as u128;
            let own: u128 = load.iter().map(|&load| u128::from(load)).sum();
            let filling = top_k * u128::from(group_tokens - instance.unit_tokens(unit) + pad_tokens);
            peak.saturating_sub(own + filling)
        })
        .collect();
    excesses.sort_unstable_by(|a, b| b.cmp(a));
    excesses.iter().step_by(width).sum()
}
