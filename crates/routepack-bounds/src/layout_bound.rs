//! Lower bounds on every component of the score of a layout with R rows (DESIGN §1.3).
//!
//! Symbols: G shards = slot groups × parts; A attention, X expert cost; U_g = Σ_r (A + X).
//! 1. Attention: per kind the best of [`attention_bounds`]; the parts of a slot group are charged the same attention, so
//!    Σ_{r,g} A ≥ parts × their sum over kinds.
//! 2. Expert: Σ_{r,g} X ≥ Σ over parts and layers of Γ_l × the bound on the charged peaks ([`ExpertPeaks`]).
//! 3. Total: of each part and paced pipeline stage, of S, the slot groups' U sum to at least ⌈A/S⌉ (A of one part, as
//!    Σ⌈·⌉ ≥ ⌈Σ·⌉) + X (that part, that stage's layers), and Σ_g U_g of the part to at least the largest of its stages'.
//!    With `pace = all-layers` S = 1, and this is 1 + 2.
//! 4. Worst shard: the largest of a part's slot groups is at least their average; or one slot's units decide
//!    ([`slot_pigeonhole`]); or, with few units a cell, one unit does, under a placement with the peaks of its own rows
//!    ([`ExpertPeaks::heaviest_unit`]).
//! 5. Worst row-shard: ⌈worst shard / R⌉, or the heaviest unit.
//!
//! Complexity: that of its terms. Every term is a function of the inputs alone, so a report can recompute it.

use routepack_problem::Instance;

use crate::peak_bounds::saturate;
use crate::{AttentionBound, ExpertPeaks, attention_bounds, slot_pigeonhole};

/// Lower bounds on the score of any layout with the given number of rows, in scaled integers, and their terms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LayoutBound {
    /// On Σ over rows and shards of attention A.
    pub attention: u64,
    /// On Σ over rows and shards of expert cost X.
    pub expert: u64,
    /// On `Σ_g U_g`.
    pub total: u64,
    /// On `max_g U_g`: the best of `average_shard`, `heaviest_slot` and `heaviest_unit`.
    pub worst_shard: u64,
    /// On `max_{r,g} J`.
    pub worst_row: u64,
    /// Terms of `attention`, one a kind, one part.
    pub attention_kinds: Vec<AttentionBound>,
    /// On `max_g U_g`, as the average over the shards of the worst part.
    pub average_shard: u64,
    /// On `max_g U_g`, from the units of one DP slot.
    pub heaviest_slot: u64,
    /// On `max_{r,g} J`, from single units.
    pub heaviest_unit: u64,
}

/// The bounds for layouts of R = `rows` rows whose charged peaks are at least `peaks`.
///
/// With `peaks` from [`crate::given_placement`] they hold for that placement, from [`crate::placement_free`] for any.
///
/// # Panics
/// `peaks` has other dimensions than the instance, or `rows` is 0.
pub fn layout_bound(instance: &Instance, peaks: &ExpertPeaks, rows: usize) -> LayoutBound {
    layout_bound_with(instance, peaks, attention_bounds(instance, rows), rows)
}

/// [`layout_bound`] with the [`attention_bounds`] of these rows at hand.
///
/// # Panics
/// As [`layout_bound`].
pub fn layout_bound_with(
    instance: &Instance,
    peaks: &ExpertPeaks,
    attention_kinds: Vec<AttentionBound>,
    rows: usize,
) -> LayoutBound {
    let topology = instance.topology();
    let (parts, groups) = (topology.num_parts(), topology.num_groups());
    assert_eq!((peaks.num_parts(), peaks.num_layers()), (parts, instance.num_layers()), "[parts][layers]");
    let attention: u128 = attention_kinds.iter().map(|bound| u128::from(bound.best())).sum();
    let stages = instance.paced_stages();
    let mut expert = vec![vec![0u128; stages]; parts];
    for (part, expert) in expert.iter_mut().enumerate() {
        for (layer, &gamma) in instance.charges().expert().iter().enumerate() {
            expert[instance.paced_stage(layer)] += u128::from(gamma) * u128::from(peaks.best(part, layer));
        }
    }
    let all_expert: u128 = expert.iter().flatten().sum();
    let of_stage = attention.div_ceil(stages as u128);
    // Σ over the slot groups of U, of every part.
    let part_totals: Vec<u128> =
        expert.iter().map(|stages| of_stage + stages.iter().copied().max().unwrap_or(0)).collect();
    let average_shard = part_totals.iter().map(|total| total.div_ceil(groups as u128)).max().unwrap_or(0);
    let (heaviest_slot, spread_unit) = slot_pigeonhole(instance, rows);
    let heaviest_unit = spread_unit.max(peaks.heaviest_unit);
    let worst_shard = saturate(average_shard).max(heaviest_slot).max(heaviest_unit);
    LayoutBound {
        attention: saturate(attention * parts as u128),
        expert: saturate(all_expert),
        total: saturate(part_totals.iter().sum()),
        worst_shard,
        worst_row: worst_shard.div_ceil(rows as u64).max(heaviest_unit),
        attention_kinds,
        average_shard: saturate(average_shard),
        heaviest_slot,
        heaviest_unit,
    }
}
