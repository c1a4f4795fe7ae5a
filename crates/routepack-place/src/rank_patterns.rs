//! Column generation over rank patterns: a better bound and better peaks for few slots a rank.
//!
//! Problem: E loads onto P ranks of exactly s = E/P slots, least largest rank load; and a bound on it that sees more than
//! the formulas of `routepack-bounds`.
//! Method: for a target T, which s experts can share a rank? Cover every expert by P such *patterns*: the linear program
//! of `models/rank_patterns.md`, its columns priced by an exact cardinality knapsack ([`routepack_bounds::Patterns`]). If
//! more than P are needed, the duals, scaled to integers, are weights that prove a peak above T; bisection finds the
//! largest T so proved. Above that T, *dives* fix the largest patterns of the program's solution and solve for the rest,
//! until all experts are dealt; swaps and re-splits mend what the last ranks got.
//! A bound is claimed only where `Patterns::proves` says so, in integers; what a solver says decides nothing else than
//! where to look. Never worse than the start.
//! Complexity: C(E, ⌈s/2⌉)·log a pricing; no bound on the number of columns but that of `PatternOptions`.
//! References: P. C. Gilmore and R. E. Gomory, A linear programming approach to the cutting-stock problem, Operations
//! Research 9, 1961, doi 10.1287/opre.9.6.849; for makespan by bisection over bin packings E. G. Coffman, M. R. Garey and
//! D. S. Johnson, An application of bin-packing to multiprocessor scheduling, SIAM J. Comput. 7(1), 1978, doi
//! 10.1137/0207001. Deviations: cardinality, loads of patterns bounded from below too, integer proofs.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use rayon::prelude::*;
use routepack_bounds::{Patterns, peak_bounds};
use routepack_lp::{Backend, Column, CoverMaster, MasterStatus};
use routepack_problem::Placement;

use crate::lpt::longest_first;
use crate::place::{Tables, check_loads, improve};
use crate::ranks::Ranks;
use crate::relabel::relabel;
use crate::slots::keep_slots;
use crate::{PlaceError, PlaceOptions};

/// Duals are scaled to integers by this.
const UNIT: u64 = 1 << 40;
/// What covering one expert alone costs: more than the share 1/s of a pattern, so that no solution needs it.
const ALONE: f64 = 1.0;
/// A program is met by P patterns if its value is within this of P.
const NEAR: f64 = 1e-6;
/// Patterns of at least this value are fixed together in a dive.
const NEARLY_ONE: f64 = 0.95;
/// A program that takes more simplex iterations than this is given up: some of them stall.
const MOST_ITERATIONS: u32 = 20_000;
/// Columns added after a solve, at most.
const MOST_COLUMNS: usize = 128;

/// Options of [`place_by_patterns`]; limits are counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternOptions {
    /// Linear programs solved for one target, or between two fixings of a dive, at most.
    pub max_solves: u32,
    /// Targets between bound and peak that are dived at, at most.
    pub dives: u32,
}

impl Default for PatternOptions {
    fn default() -> Self {
        Self { max_solves: 300, dives: 4 }
    }
}

/// A placement, and a proved bound for every layer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternPlaced {
    /// Slot of every expert of every layer.
    pub placement: Placement,
    /// Outcome of every layer, `[layers]`.
    pub layers: Vec<PatternLayer>,
    /// Whether nothing was cut short by `stop`.
    pub finished: bool,
}

/// One layer's outcome.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatternLayer {
    /// Largest rank load, in routed rows.
    pub peak: u64,
    /// No placement has a smaller one.
    pub bound: u64,
    /// Weights `[experts]` with which [`Patterns::proves`] that no peak is at most `bound` − 1; absent where
    /// `peak_bounds` says as much.
    pub proof: Option<Vec<u64>>,
    /// Linear programs solved.
    pub solves: u32,
}

/// Proves bounds and seeks lower peaks for `loads` `[layers][experts]` (routed rows), from `start`.
///
/// Layers with too many patterns to price (2^20 halves of a rank) stay as they are, and so do layers whose peak meets a
/// bound.
///
/// ```
/// use routepack_place::{PatternOptions, PlaceOptions, place, place_by_patterns};
///
/// let loads = [vec![97, 83, 61, 59, 47, 43, 31, 29, 23, 19, 17, 13]];
/// let placed = place(&loads, 4, &PlaceOptions::default(), &|| false)?;
/// let again = place_by_patterns(&loads, &placed.placement, &PatternOptions::default(), &|| false)?;
/// assert!(again.layers[0].peak <= placed.layers[0].peak);
/// assert!(again.layers[0].bound >= placed.layers[0].bound());
/// # Ok::<(), routepack_place::PlaceError>(())
/// ```
///
/// # Errors
/// As [`crate::place`]; a start of another shape than the loads.
pub fn place_by_patterns(
    loads: &[Vec<u64>],
    start: &Placement,
    options: &PatternOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<PatternPlaced, PlaceError> {
    let num_ranks = start.num_ranks();
    let experts = check_loads(loads, num_ranks)?;
    if (start.num_layers(), start.num_experts()) != (loads.len(), experts) {
        let describe = |layers, experts| format!("{layers} layers, {experts} experts");
        let found = describe(start.num_layers(), start.num_experts());
        return Err(PlaceError::Placement { name: "start", found, expected: describe(loads.len(), experts) });
    }
    let of_place = PlaceOptions::default();
    let tables = Tables::new(experts / num_ranks, &of_place);
    let outcomes: Vec<(Vec<u32>, PatternLayer, bool)> = loads
        .par_iter()
        .enumerate()
        .map(|(layer, loads)| {
            let mut search = Search {
                best: Ranks::new(loads, num_ranks, start.experts(layer)),
                bound: peak_bounds(loads, num_ranks).best(),
                proof: None,
                solves: 0,
                options: *options,
                stop,
            };
            let finished = search.run(loads, &of_place, &tables);
            let Search { best, bound, proof, solves, .. } = search;
            let members = relabel(best.all_members(), best.slots(), start.slots(layer));
            let slots = keep_slots(&members, best.slots(), start.slots(layer));
            (slots, PatternLayer { peak: best.peak(), bound, proof, solves }, finished)
        })
        .collect();
    let finished = outcomes.iter().all(|(_, _, finished)| *finished);
    let (slots, layers) = outcomes.into_iter().map(|(slots, layer, _)| (slots, layer)).unzip();
    let placement = Placement::new(num_ranks, slots).expect("every layer is a bijection by construction");
    Ok(PatternPlaced { placement, layers, finished })
}

/// The search of one layer.
struct Search<'a> {
    best: Ranks<'a>,
    bound: u64,
    proof: Option<Vec<u64>>,
    solves: u32,
    options: PatternOptions,
    stop: &'a (dyn Fn() -> bool + Sync),
}

/// What a program says about a target.
enum Answer {
    /// Weights that prove it out of reach.
    Proved(Vec<u64>),
    /// Patterns and how much of each, P in all.
    Met(Vec<(f64, Vec<u32>)>),
    /// Neither, within the limits.
    Open,
}

impl<'a> Search<'a> {
    /// Bound, then peaks; false if stopped.
    fn run(&mut self, loads: &'a [u64], options: &PlaceOptions, tables: &Tables) -> bool {
        if self.best.peak() == self.bound {
            return true;
        }
        let num_ranks = self.best.sums().len();
        let Some(patterns) = Patterns::new(loads, num_ranks) else { return true };
        let mut program = Program { patterns, num_ranks, pool: Vec::new() };
        program
            .pool
            .extend((0..num_ranks).map(|rank| (self.best.sums()[rank], self.best.members(rank).to_vec())));
        self.raise_bound(&mut program);
        for dive in 0..u64::from(self.options.dives) {
            let room = self.best.peak() - self.bound;
            let target =
                self.bound + (u128::from(room) * u128::from(dive) / u128::from(self.options.dives)) as u64;
            if room == 0 || (self.stop)() {
                break;
            }
            let Some(members) = self.dive(&mut program, loads, target) else { continue };
            let mut ranks = Ranks::new(loads, num_ranks, members);
            improve(&mut ranks, self.bound, options, tables, self.stop);
            if ranks.peak() < self.best.peak() {
                self.best = ranks;
            }
        }
        self.best.peak() == self.bound || !(self.stop)()
    }

    /// The largest bound that a program proves: the least T that is not proved out of reach, by bisection.
    fn raise_bound(&mut self, program: &mut Program) {
        let mut open = self.best.peak();
        // Mostly nothing is proved: the bound itself is asked about first.
        let mut target = self.bound;
        while self.bound < open {
            match program.afresh().answer(target, self) {
                Answer::Proved(weights) => {
                    self.bound = target + 1;
                    self.proof = Some(weights);
                }
                Answer::Met(_) | Answer::Open => open = target,
            }
            target = self.bound + (open - self.bound) / 2;
        }
    }

    /// Experts of every rank `[ranks · slots]`, most of them by patterns with loads up to `target`; none where the first
    /// program says nothing.
    fn dive(&mut self, program: &mut Program, loads: &[u64], target: u64) -> Option<Vec<u32>> {
        let Answer::Met(mut found) = program.afresh().answer(target, self) else { return None };
        let mut members: Vec<u32> = Vec::with_capacity(loads.len());
        let mut left: Vec<u32> = (0..loads.len() as u32).collect();
        let slots = loads.len() / program.num_ranks;
        loop {
            // Of equals the first.
            found.sort_by(|a, b| b.0.total_cmp(&a.0));
            for (index, (value, pattern)) in found.iter().enumerate() {
                if index == 0 || (*value >= NEARLY_ONE && pattern.iter().all(|expert| left.contains(expert)))
                {
                    members.extend_from_slice(pattern);
                    left.retain(|expert| !pattern.contains(expert));
                }
            }
            let of_left: Vec<u64> = left.iter().map(|&expert| loads[expert as usize]).collect();
            let ranks_left = left.len() / slots;
            let rest = if ranks_left > 2 { Patterns::new(&of_left, ranks_left) } else { None };
            let answer = rest.map_or(Answer::Open, |patterns| {
                let place = |expert: &u32| left.binary_search(expert).ok().map(|place| place as u32);
                let pool = program.pool.iter().filter_map(|(load, pattern)| {
                    Some((*load, pattern.iter().map(place).collect::<Option<Vec<u32>>>()?))
                });
                let mut rest = Program { patterns, num_ranks: ranks_left, pool: pool.collect() };
                let known = rest.pool.len();
                let answer = rest.answer(target, self);
                let named = |pattern: &[u32]| pattern.iter().map(|&place| left[place as usize]).collect();
                program.pool.extend(rest.pool[known..].iter().map(|(load, pattern)| (*load, named(pattern))));
                match answer {
                    Answer::Met(found) => {
                        Answer::Met(found.iter().map(|(value, pattern)| (*value, named(pattern))).collect())
                    }
                    answer => answer,
                }
            });
            if let Answer::Met(next) = answer {
                found = next;
                continue;
            }
            if ranks_left > 0 {
                let dealt = longest_first(&of_left, ranks_left);
                members.extend(dealt.iter().map(|&place| left[place as usize]));
            }
            return Some(members);
        }
    }
}

/// Patterns of a layer or of part of it, and those met so far.
struct Program {
    patterns: Patterns,
    num_ranks: usize,
    /// Load and experts.
    pool: Vec<(u64, Vec<u32>)>,
}

impl Program {
    /// Without all patterns but the first P, for another target: a few solves find as many as it needs, while a first
    /// solve over a thousand takes long.
    fn afresh(&mut self) -> &mut Self {
        self.pool.truncate(self.num_ranks);
        self
    }

    /// Whether P patterns with loads up to `target` cover every expert, as a linear program.
    fn answer(&mut self, target: u64, search: &mut Search<'_>) -> Answer {
        let range = self.patterns.rank_loads(target);
        if range.is_empty() {
            return Answer::Proved(vec![1; self.patterns.num_experts()]);
        }
        self.generate(target, search).unwrap_or(Answer::Open)
    }

    /// Column generation; nothing if the solver fails or the limits are met.
    fn generate(&mut self, target: u64, search: &mut Search<'_>) -> Option<Answer> {
        let range = self.patterns.rank_loads(target);
        let experts = self.patterns.num_experts();
        let column = |pattern: &[u32]| {
            Column::new(1.0, pattern.iter().map(|&expert| (expert as usize, 1.0)).collect())
        };
        let mut master = CoverMaster::new(Backend::default(), &vec![1.0; experts]).ok()?;
        master
            .add_columns((0..experts).map(|expert| Column::new(ALONE, vec![(expert, 1.0)])).collect())
            .ok()?;
        let mut used: Vec<usize> =
            (0..self.pool.len()).filter(|&index| range.contains(&self.pool[index].0)).collect();
        master.add_columns(used.iter().map(|&index| column(&self.pool[index].1)).collect()).ok()?;
        for _ in 0..search.options.max_solves {
            let asked = AtomicU32::new(0);
            let is_over = || asked.fetch_add(1, Relaxed) >= MOST_ITERATIONS || (search.stop)();
            let solved = master.solve_until(&is_over).ok()?;
            search.solves += 1;
            if solved.status != MasterStatus::Optimal {
                return None;
            }
            if solved.objective <= self.num_ranks as f64 + NEAR {
                let values = master.values().ok()?;
                let values = values[experts..].iter().zip(&used);
                let found = values.filter(|(value, _)| **value > NEAR);
                return Some(Answer::Met(
                    found.map(|(&value, &index)| (value, self.pool[index].1.clone())).collect(),
                ));
            }
            let weights: Vec<u64> =
                solved.duals.iter().map(|dual| (dual.clamp(0.0, 2.0) * UNIT as f64).round() as u64).collect();
            let mut found = self.patterns.heaviest(&weights, &range, UNIT);
            found.sort_by_key(|(weight, _)| std::cmp::Reverse(*weight));
            let most = found.first().map_or(UNIT, |(weight, _)| *weight);
            let sum: u128 = weights.iter().map(|&weight| u128::from(weight)).sum();
            if sum > u128::from(most) * self.num_ranks as u128 && self.patterns.proves(&weights, target) {
                return Some(Answer::Proved(weights));
            }
            // Within the solver's tolerance: patterns that are in already.
            if most <= UNIT + (UNIT >> 26) {
                return None;
            }
            found.truncate(MOST_COLUMNS);
            master.add_columns(found.iter().map(|(_, pattern)| column(pattern)).collect()).ok()?;
            for (_, pattern) in found {
                used.push(self.pool.len());
                self.pool.push((self.patterns.load(&pattern), pattern));
            }
        }
        None
    }
}
