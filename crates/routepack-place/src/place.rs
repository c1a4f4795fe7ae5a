//! Experts onto EP ranks, every layer on its own (DESIGN §1.4, stage 1).
//!
//! Problem: per layer, E loads onto P ranks of exactly s = E/P slots, least largest rank load; NP-hard from s = 3 on.
//! Method: start → best swaps → re-splits of pairs → re-splits of triples, the last two in turns until neither helps.
//! A layer is left as soon as its peak meets the bound: then it is proved optimal. Else it is searched once more from
//! LPT (at least if LPT alone is better), so the outcome is never worse than LPT; groups found from there go to the
//! ranks that hold most of their experts. Layers without load are not touched. Slots: who stays on its rank stays in its
//! slot.
//! Deterministic: layers are independent, every method is, and `stop` only ends a layer between methods.

use rayon::prelude::*;
use routepack_bounds::{PeakBounds, peak_bounds};
use routepack_problem::Placement;

use crate::best_swap::swap_best;
use crate::exchange::{Exchanges, Subsets};
use crate::lpt::longest_first;
use crate::node_groups::Grouped;
use crate::ranks::Ranks;
use crate::relabel::relabel;
use crate::resplit::resplit_pairs;
use crate::slots::keep_slots;
use crate::triple::{Deals, MAX_SLOTS, resplit_triple};
use crate::{PlaceError, PlaceOptions, Start};

/// A placement and what is known of every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Slot of every expert of every layer.
    pub placement: Placement,
    /// Peak and bounds of every layer, `[layers]`.
    pub layers: Vec<PlacedLayer>,
    /// Whether every method ran to its end; false when stopped before.
    pub finished: bool,
}

/// One layer's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedLayer {
    /// Largest rank load, in routed rows.
    pub peak: u64,
    /// Lower bounds on it.
    pub bounds: PeakBounds,
    /// What the heaviest node leaves at best on its ranks, where groups stay whole on nodes; 0 elsewhere.
    pub node_bound: u64,
    /// Whether the peak meets a bound.
    pub proved_optimal: bool,
}

impl PlacedLayer {
    /// The largest lower bound on the peak.
    pub fn bound(&self) -> u64 {
        self.bounds.best().max(self.node_bound)
    }
}

/// Tables shared by all layers.
pub(crate) struct Tables {
    swaps: Subsets,
    subsets: Subsets,
    deals: Option<Deals>,
}

impl Tables {
    /// Tables for ranks of so many slots.
    pub(crate) fn new(slots: usize, options: &PlaceOptions) -> Self {
        Self {
            swaps: Subsets::new(slots, slots),
            subsets: Subsets::new(slots, options.max_subsets as usize),
            deals: (options.max_triples > 0 && (3..=MAX_SLOTS).contains(&slots)).then(|| Deals::new(slots)),
        }
    }
}

/// Places `loads` `[layers][experts]` (routed rows of the window or batch) on `num_ranks` EP ranks.
///
/// # Errors
/// Experts not divisible by ranks, layers of different width, a layer's total of 2^62 or more, a resident placement of
/// another shape, options out of range, or groups that do not fit the nodes or are split now.
pub fn place(
    loads: &[Vec<u64>],
    num_ranks: usize,
    options: &PlaceOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Placed, PlaceError> {
    options.validate()?;
    let num_experts = check_loads(loads, num_ranks)?;
    let reference = reference(loads.len(), num_experts, num_ranks, options)?;
    let groups = options.node_groups.filter(|_| num_experts > 0);
    let grouped = groups.map(|sizes| Grouped::new(sizes, &reference, options)).transpose()?;
    let tables = Tables::new(num_experts / num_ranks, options);
    let outcomes: Vec<(Vec<u32>, PlacedLayer, bool)> = loads
        .par_iter()
        .enumerate()
        .map(|(layer, loads)| match &grouped {
            Some(grouped) => grouped.place_layer(loads, reference.slots(layer), options, stop),
            None => place_layer(loads, num_ranks, &reference, layer, options, &tables, stop),
        })
        .collect();
    let mut slots = Vec::with_capacity(loads.len());
    let mut layers = Vec::with_capacity(loads.len());
    let mut finished = true;
    for (layer_slots, layer, layer_finished) in outcomes {
        slots.push(layer_slots);
        layers.push(layer);
        finished &= layer_finished;
    }
    let placement = Placement::new(num_ranks, slots).expect("every layer is a bijection by construction");
    Ok(Placed { placement, layers, finished })
}

pub(crate) fn check_loads(loads: &[Vec<u64>], num_ranks: usize) -> Result<usize, PlaceError> {
    let experts = loads.first().map_or(0, Vec::len);
    if num_ranks == 0 || !experts.is_multiple_of(num_ranks) {
        return Err(PlaceError::Indivisible { experts, ranks: num_ranks });
    }
    for (layer, loads) in loads.iter().enumerate() {
        if loads.len() != experts {
            return Err(PlaceError::Shape { layer, found: loads.len(), expected: experts });
        }
        let sum: u128 = loads.iter().map(|&load| u128::from(load)).sum();
        if sum >= 1 << 62 {
            return Err(PlaceError::Overflow { layer, sum });
        }
    }
    Ok(experts)
}

/// Where the weights are.
fn reference(
    num_layers: usize,
    num_experts: usize,
    num_ranks: usize,
    options: &PlaceOptions,
) -> Result<Placement, PlaceError> {
    let Some(resident) = &options.resident else {
        return Ok(Placement::identity(num_layers, num_experts, num_ranks).expect("divisibility is checked"));
    };
    check_resident(resident, num_layers, num_experts, num_ranks)?;
    Ok(resident.clone())
}

/// Checks that a resident placement is of a model with these layers, experts a layer and EP ranks.
///
/// # Errors
/// It is not.
pub fn check_resident(
    resident: &Placement,
    num_layers: usize,
    num_experts: usize,
    num_ranks: usize,
) -> Result<(), PlaceError> {
    let describe = |layers, experts, ranks| format!("{layers} layers, {experts} experts, {ranks} ranks");
    let found = describe(resident.num_layers(), resident.num_experts(), resident.num_ranks());
    let expected = describe(num_layers, num_experts, num_ranks);
    if found == expected { Ok(()) } else { Err(PlaceError::Resident { found, expected }) }
}

/// Places one layer without groups; slots, outcome and whether every method ran to its end.
pub(crate) fn place_layer(
    loads: &[u64],
    num_ranks: usize,
    reference: &Placement,
    layer: usize,
    options: &PlaceOptions,
    tables: &Tables,
    stop: &(dyn Fn() -> bool + Sync),
) -> (Vec<u32>, PlacedLayer, bool) {
    let bounds = peak_bounds(loads, num_ranks);
    let bound = bounds.best();
    let lpt = || Ranks::new(loads, num_ranks, longest_first(loads, num_ranks));
    let mut ranks = match options.start {
        Start::Lpt if bound > 0 => lpt(),
        Start::Identity if bound > 0 => Ranks::new(loads, num_ranks, (0..loads.len() as u32).collect()),
        _ => Ranks::new(loads, num_ranks, reference.experts(layer)),
    };
    let mut finished = improve(&mut ranks, bound, options, tables, stop);
    let mut relabels = options.start == Start::Lpt && bound > 0;
    if options.start != Start::Lpt && ranks.peak() > bound {
        let mut again = lpt();
        if options.second_start || again.peak() < ranks.peak() {
            finished &= improve(&mut again, bound, options, tables, stop);
            if again.peak() < ranks.peak() {
                ranks = again;
                relabels = true;
            }
        }
    }
    let reference = reference.slots(layer);
    let members = if relabels {
        relabel(ranks.all_members(), ranks.slots(), reference)
    } else {
        ranks.all_members().to_vec()
    };
    let peak = ranks.peak();
    let slots = keep_slots(&members, ranks.slots(), reference);
    let proved_optimal = peak == bound;
    (slots, PlacedLayer { peak, bounds, node_bound: 0, proved_optimal }, finished || proved_optimal)
}

/// Runs the methods on one layer; false if stopped.
pub(crate) fn improve(
    ranks: &mut Ranks<'_>,
    bound: u64,
    options: &PlaceOptions,
    tables: &Tables,
    stop: &(dyn Fn() -> bool + Sync),
) -> bool {
    if ranks.peak() == bound {
        return true;
    }
    if stop() {
        return false;
    }
    swap_best(ranks, &tables.swaps, bound, options.max_swaps);
    let (mut resplits, mut triples) = (options.max_resplits, options.max_triples);
    let mut exchanges = Exchanges::new(&tables.subsets, ranks.sums().len());
    let mut best = ranks.clone();
    let finished = loop {
        if stop() {
            break false;
        }
        resplits -= resplit_pairs(ranks, &mut exchanges, bound, resplits);
        if ranks.peak() < best.peak() {
            best.clone_from(ranks);
        }
        let Some(deals) = tables.deals.as_ref().filter(|_| triples > 0) else { break true };
        let Some(triple) = resplit_triple(ranks, deals, bound) else { break true };
        for rank in triple {
            exchanges.forget(rank);
        }
        triples -= 1;
    };
    *ranks = best;
    finished
}
