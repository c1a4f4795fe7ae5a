//! Placement that stays: from where the weights are, with few experts moved.
//!
//! Problem: per layer, loads and the resident placement; moving an expert costs its weights, master copy and moments over
//! a link. Find placements between staying and the best one: fewest moves for a peak within (1 + ε) of the bound, the
//! best peaks within a budget of moves, or the least sum of peaks and moves.
//! Method: per layer a *trade-off curve* of (moved experts, peak): for falling targets the fewest moves found
//! (`least_moves.rs`), plain best swaps after every swap, and the placement from scratch started at home, each with
//! whom the target does not need sent home; dominated points dropped. The goal then picks one point a layer: of one
//! layer at a time, or of all under one budget by dynamic programming over moves (exact for the curves).
//! Unmoved experts keep their very slot.
//! Complexity: targets × that of `least_moves.rs` a layer, layers in parallel; O(layers · budget · points) for a common
//! budget.
//! Reference: DESIGN §1.4; PLACEMENT §2.2.

use rayon::prelude::*;
use routepack_bounds::{PeakBounds, peak_bounds};
use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::least_moves::{ease_once, meet_target, moves_bound, num_moved, send_home};
use crate::place::check_loads;
use crate::ranks::Ranks;
use crate::slots::keep_slots;
use crate::{PlaceError, PlaceOptions, Transfer, place, transfers};

/// Targets of the curve, in parts per million above the bound.
const TARGETS_PPM: [u64; 16] = [
    0, 1_000, 2_500, 5_000, 10_000, 15_000, 20_000, 30_000, 50_000, 75_000, 100_000, 150_000, 200_000,
    300_000, 450_000, 700_000,
];

/// What an incremental placement is to achieve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub enum MoveGoal {
    /// Fewest moved experts for a peak of at most (1 + `tolerance_ppm`/10⁶) × bound on every layer.
    Within {
        /// ε in parts per million.
        tolerance_ppm: u32,
    },
    /// The least sum of peaks, each times the weight of its layer, with at most so many moved experts.
    Budget {
        /// Moved experts of a layer at most; unlimited when absent.
        #[serde(default)]
        per_layer: Option<u32>,
        /// Moved experts of all layers at most; unlimited when absent.
        #[serde(default)]
        total: Option<u32>,
    },
    /// The least `steps` × peak + `move_cost` × moved experts: an expert moves only if that pays.
    Cost {
        /// Cost of moving one expert, in routed rows of peak.
        move_cost: u64,
        /// Optimizer steps that the placement will serve.
        steps: u32,
    },
}

/// An incremental placement and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Slot of every expert of every layer.
    pub placement: Placement,
    /// Outcome of every layer, `[layers]`.
    pub layers: Vec<MovedLayer>,
    /// Who moves from where to where.
    pub transfers: Vec<Transfer>,
    /// Whether all curves were computed in full; false when stopped before.
    pub finished: bool,
}

/// One layer's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MovedLayer {
    /// Largest rank load, in routed rows.
    pub peak: u64,
    /// Lower bounds on it, over all placements.
    pub bounds: PeakBounds,
    /// Largest rank load where the experts are now.
    pub resident_peak: u64,
    /// Experts that change ranks.
    pub moved: u32,
    /// At least so many must, for a peak no greater.
    pub moved_bound: u32,
}

/// A point of a layer's curve.
#[derive(Clone, Debug)]
struct Point {
    moved: u32,
    peak: u64,
    members: Vec<u32>,
}

/// Moves as few of the experts of `resident` as `goal` allows, for `loads` `[layers][experts]` (routed rows).
///
/// Layers where the goal cannot be met get the lowest peak found.
///
/// # Errors
/// As [`place`]; a resident placement of another shape than the loads; `layer_weights` of other layers, or beyond the exact
/// range.
pub fn place_incrementally(
    loads: &[Vec<u64>],
    resident: &Placement,
    goal: MoveGoal,
    options: &PlaceOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Moved, PlaceError> {
    let given = options.layer_weights.len();
    if given > 0 && given != loads.len() {
        return Err(PlaceError::LayerWeights { found: given, expected: loads.len() });
    }
    let Curves { points: curves, bounds, finished } = curves(loads, resident, goal, options, stop)?;
    let weights = weights(&curves, &options.layer_weights)?;
    let chosen = choose(&curves, &bounds, &weights, goal);
    let mut slots = Vec::with_capacity(loads.len());
    let mut layers = Vec::with_capacity(loads.len());
    for (layer, point) in chosen.into_iter().enumerate() {
        let home = Ranks::new(&loads[layer], resident.num_ranks(), resident.experts(layer));
        slots.push(keep_slots(&point.members, resident.slots_per_rank(), resident.slots(layer)));
        layers.push(MovedLayer {
            peak: point.peak,
            bounds: bounds[layer],
            resident_peak: home.peak(),
            moved: point.moved,
            moved_bound: moves_bound(&home, point.peak) as u32,
        });
    }
    let placement = Placement::new(resident.num_ranks(), slots).expect("every layer is a bijection");
    let transfers = transfers(resident, &placement);
    Ok(Moved { placement, layers, transfers, finished })
}

/// What moves buy on one layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TradeOff {
    /// No placement has a smaller peak.
    pub bound: u64,
    /// (moved experts, peak in routed rows), moves rising, peaks falling; the first is to stay.
    pub points: Vec<(u32, u64)>,
    /// The same for the yardstick: best swaps against the heaviest rank, one after the other.
    pub greedy: Vec<(u32, u64)>,
}

/// The trade-off of every layer between moves from `resident` and peak, for `loads` `[layers][experts]` (routed rows).
///
/// Points are those that [`place_incrementally`] chooses from.
///
/// # Errors
/// As [`place_incrementally`].
pub fn trade_off(
    loads: &[Vec<u64>],
    resident: &Placement,
    options: &PlaceOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Vec<TradeOff>, PlaceError> {
    let goal = MoveGoal::Budget { per_layer: None, total: None };
    let curves = curves(loads, resident, goal, options, stop)?;
    let layer = |(layer, (points, bounds)): (usize, (&Vec<Point>, &PeakBounds))| {
        let home: Vec<u32> =
            (0..resident.num_experts()).map(|expert| resident.rank_of(layer, expert) as u32).collect();
        let mut ranks = Ranks::new(&loads[layer], resident.num_ranks(), resident.experts(layer));
        let mut greedy = vec![(0, ranks.peak())];
        while ease_once(&mut ranks) {
            greedy.push((num_moved(&ranks, &home) as u32, ranks.peak()));
        }
        let points = points.iter().map(|point| (point.moved, point.peak)).collect();
        TradeOff { bound: bounds.best(), points, greedy }
    };
    Ok(curves.points.iter().zip(&curves.bounds).enumerate().map(layer).collect())
}

/// The trade-off curves of all layers.
struct Curves {
    /// `[layers]`.
    points: Vec<Vec<Point>>,
    /// `[layers]`.
    bounds: Vec<PeakBounds>,
    finished: bool,
}

fn curves(
    loads: &[Vec<u64>],
    resident: &Placement,
    goal: MoveGoal,
    options: &PlaceOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Curves, PlaceError> {
    check_loads(loads, resident.num_ranks())?;
    if options.node_groups.is_some() {
        return Err(PlaceError::GroupedMoves);
    }
    let options = PlaceOptions { resident: Some(resident.clone()), second_start: false, ..options.clone() };
    // Checks everything, and is the low end of every curve.
    let scratch = place(loads, resident.num_ranks(), &options, stop)?;
    let curves: Vec<(Vec<Point>, bool)> = (0..loads.len())
        .into_par_iter()
        .map(|layer| curve(&loads[layer], resident, layer, scratch.placement.experts(layer), goal, stop))
        .collect();
    Ok(Curves {
        finished: scratch.finished && curves.iter().all(|(_, finished)| *finished),
        points: curves.into_iter().map(|(points, _)| points).collect(),
        bounds: scratch.layers.iter().map(|layer| layer.bounds).collect(),
    })
}

/// The points of one layer that no other dominates, by rising moves and falling peak; the first is to stay.
fn curve(
    loads: &[u64],
    resident: &Placement,
    layer: usize,
    scratch: Vec<u32>,
    goal: MoveGoal,
    stop: &(dyn Fn() -> bool + Sync),
) -> (Vec<Point>, bool) {
    let num_ranks = resident.num_ranks();
    let bound = peak_bounds(loads, num_ranks).best();
    let above = |ppm: u64| {
        let above = u128::from(bound) * (1_000_000 + u128::from(ppm)) / 1_000_000;
        u64::try_from(above).unwrap_or(u64::MAX)
    };
    let home: Vec<u32> = (0..loads.len()).map(|expert| resident.rank_of(layer, expert) as u32).collect();
    let start = Ranks::new(loads, num_ranks, resident.experts(layer));
    let scratch = Ranks::new(loads, num_ranks, scratch);
    let point = |ranks: &Ranks<'_>| Point {
        moved: num_moved(ranks, &home) as u32,
        peak: ranks.peak(),
        members: ranks.all_members().to_vec(),
    };
    let mut points = vec![point(&start), point(&scratch)];
    // The lowest peak is asked for last: by every other goal, or if the one target of `Within` cannot be met.
    let targets: Vec<u64> = match goal {
        MoveGoal::Within { tolerance_ppm } => vec![above(u64::from(tolerance_ppm)).max(scratch.peak())],
        _ => TARGETS_PPM.iter().map(|&ppm| above(ppm)).chain([scratch.peak()]).collect(),
    };
    if !matches!(goal, MoveGoal::Within { .. }) {
        let mut eased = start.clone();
        while ease_once(&mut eased) {
            points.push(point(&eased));
        }
    }
    let mut finished = true;
    for target in targets.into_iter().filter(|&target| target < start.peak()) {
        if stop() {
            finished = false;
            break;
        }
        if scratch.peak() <= target {
            let mut ranks = scratch.clone();
            send_home(&mut ranks, target, &home);
            points.push(point(&ranks));
        }
        points.extend(meet_target(&start, target, &home).as_ref().map(point));
    }
    points.sort_by_key(|point| (point.moved, point.peak));
    let mut lowest = u64::MAX;
    points.retain(|point| {
        let better = point.peak < lowest;
        lowest = lowest.min(point.peak);
        better
    });
    (points, finished)
}

/// What a routed row of every layer's peak costs, `[layers]`; `given` is of as many layers or none.
fn weights(curves: &[Vec<Point>], given: &[u64]) -> Result<Vec<u64>, PlaceError> {
    if given.is_empty() {
        return Ok(vec![1; curves.len()]);
    }
    // Peaks are highest where nothing moves.
    let cost = |(points, &weight): (&Vec<Point>, &u64)| u128::from(points[0].peak) * u128::from(weight);
    let total = curves.iter().zip(given).map(cost).try_fold(0u128, u128::checked_add);
    match total {
        Some(total) if total < 1 << 127 => Ok(given.to_vec()),
        _ => Err(PlaceError::WeightedOverflow),
    }
}

/// One point a layer.
fn choose(curves: &[Vec<Point>], bounds: &[PeakBounds], weights: &[u64], goal: MoveGoal) -> Vec<Point> {
    let lowest = |points: &[Point]| points.last().expect("staying is a point").clone();
    match goal {
        MoveGoal::Within { tolerance_ppm } => curves
            .iter()
            .zip(bounds)
            .map(|(points, bounds)| {
                let limit = u128::from(bounds.best()) * (1_000_000 + u128::from(tolerance_ppm));
                let met = points.iter().find(|point| u128::from(point.peak) * 1_000_000 <= limit);
                met.cloned().unwrap_or_else(|| lowest(points))
            })
            .collect(),
        MoveGoal::Budget { per_layer, total } => {
            let limit = per_layer.unwrap_or(u32::MAX);
            let within: Vec<&[Point]> = curves
                .iter()
                .map(|points| &points[..points.partition_point(|point| point.moved <= limit)])
                .collect();
            match total {
                None => within.into_iter().map(lowest).collect(),
                Some(total) => share(&within, weights, total),
            }
        }
        MoveGoal::Cost { move_cost, steps } => curves
            .iter()
            .map(|points| {
                let cost = |point: &&Point| {
                    u128::from(point.peak) * u128::from(steps)
                        + u128::from(move_cost) * u128::from(point.moved)
                };
                points.iter().min_by_key(cost).expect("staying is a point").clone()
            })
            .collect(),
    }
}

/// The points with the least weighted sum of peaks and at most `total` moves in all (ties: fewer moves).
fn share(curves: &[&[Point]], weights: &[u64], total: u32) -> Vec<Point> {
    let most: u64 = curves.iter().map(|points| u64::from(points.last().map_or(0, |point| point.moved))).sum();
    let budget = u64::from(total).min(most) as usize;
    // best[m]: least weighted sum of peaks of the layers so far with at most m moves; the choice of every layer and m.
    let mut best = vec![0u128; budget + 1];
    let mut choices: Vec<Vec<u16>> = Vec::with_capacity(curves.len());
    for (points, &weight) in curves.iter().zip(weights) {
        let mut next = vec![u128::MAX; budget + 1];
        let mut choice = vec![0u16; budget + 1];
        for moves in 0..=budget {
            for (index, point) in points.iter().enumerate() {
                let Some(rest) = moves.checked_sub(point.moved as usize) else { break };
                let sum = best[rest] + u128::from(point.peak) * u128::from(weight);
                if sum < next[moves] {
                    next[moves] = sum;
                    choice[moves] = index as u16;
                }
            }
        }
        best = next;
        choices.push(choice);
    }
    let mut moves = budget;
    while moves > 0 && best[moves - 1] == best[moves] {
        moves -= 1;
    }
    let mut chosen: Vec<Point> = Vec::with_capacity(curves.len());
    for (points, choice) in curves.iter().zip(&choices).rev() {
        let point = &points[usize::from(choice[moves])];
        moves -= point.moved as usize;
        chosen.push(point.clone());
    }
    chosen.reverse();
    chosen
}
