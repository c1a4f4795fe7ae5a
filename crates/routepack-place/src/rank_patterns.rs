//! Column generation over rank patterns: a better bound and better peaks for few slots a rank.
//!
//! Problem: E loads onto P ranks of exactly s = E/P slots, least largest rank load; and a bound on it that sees more than
//! the formulas of `routepack-bounds`.
//! Method: for a target T, can P sets of s experts that share a rank (*patterns*) cover every expert? A linear program says
//! (`pattern_cover.rs`). If more than P are needed, its duals, scaled to integers, are weights that prove a peak above T;
//! bisection finds the largest T so proved. Above that T, *dives* fix the largest patterns of the program's solution and
//! solve for the rest, until all experts are dealt; swaps and re-splits mend what the last ranks got.
//! A bound is claimed only where `Patterns::proves` says so, in integers; what a solver says decides nothing else than
//! where to look. Never worse than the start.
//! Complexity: log(peak − bound) + dives·P linear programs by column generation, at most.
//! References: P. C. Gilmore and R. E. Gomory, A linear programming approach to the cutting-stock problem, Operations
//! Research 9, 1961, doi 10.1287/opre.9.6.849; for makespan by bisection over bin packings E. G. Coffman, M. R. Garey and
//! D. S. Johnson, An application of bin-packing to multiprocessor scheduling, SIAM J. Comput. 7(1), 1978, doi
//! 10.1137/0207001. Deviations: cardinality, loads of patterns bounded from below too, integer proofs.

use rayon::prelude::*;
use routepack_bounds::{Patterns, peak_bounds};
use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::lpt::longest_first;
use crate::pattern_cover::{Answer, Cover, Solves};
use crate::place::{Tables, check_loads, improve};
use crate::ranks::Ranks;
use crate::relabel::relabel;
use crate::slots::keep_slots;
use crate::{PlaceError, PlaceOptions};

/// Patterns of at least this value are fixed together in a dive.
const NEARLY_ONE: f64 = 0.95;

/// Options of [`place_by_patterns`]; limits are counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PatternOptions {
    /// Linear programs solved for one target, or between two fixings of a dive, at most.
    pub max_solves: u32,
    /// Targets between bound and peak that are dived at, at most; 0 to 1024.
    pub dives: u32,
}

impl Default for PatternOptions {
    fn default() -> Self {
        Self { max_solves: 300, dives: 4 }
    }
}

impl PatternOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// More than 1024 dives.
    pub fn validate(&self) -> Result<(), PlaceError> {
        if self.dives > 1024 {
            let (value, limit) = (self.dives.to_string(), "expected at most 1024");
            return Err(PlaceError::Option { field: "patterns.dives", value, limit });
        }
        Ok(())
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

/// Proves bounds and seeks lower peaks for `loads` `[layers][experts]` (routed rows), from `start`, whose experts keep their
/// slots where they stay on their ranks; `options` are those of the swaps and re-splits that mend.
///
/// Layers with too many patterns to price (2^20 halves of a rank) stay as they are, and so do layers whose peak meets a
/// bound.
///
/// ```
/// use routepack_place::{PatternOptions, PlaceOptions, place, place_by_patterns};
///
/// let loads = [vec![97, 83, 61, 59, 47, 43, 31, 29, 23, 19, 17, 13]];
/// let placed = place(&loads, 4, &PlaceOptions::default(), &|| false)?;
/// let again = place_by_patterns(
///     &loads,
///     &placed.placement,
///     &PatternOptions::default(),
///     &PlaceOptions::default(),
///     &|| false,
/// )?;
/// assert!(again.layers[0].peak <= placed.layers[0].peak);
/// assert!(again.layers[0].bound >= placed.layers[0].bound());
/// # Ok::<(), routepack_place::PlaceError>(())
/// ```
///
/// # Errors
/// As [`crate::place`]; a start of another shape than the loads, patterns' options out of range, or groups of experts that
/// are to stay whole on their nodes: patterns know nothing of nodes.
pub fn place_by_patterns(
    loads: &[Vec<u64>],
    start: &Placement,
    patterns: &PatternOptions,
    options: &PlaceOptions,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<PatternPlaced, PlaceError> {
    patterns.validate()?;
    options.validate()?;
    if options.node_groups.is_some() {
        return Err(PlaceError::GroupedPatterns);
    }
    let num_ranks = start.num_ranks();
    let experts = check_loads(loads, num_ranks)?;
    if (start.num_layers(), start.num_experts()) != (loads.len(), experts) {
        let describe = |layers, experts| format!("{layers} layers, {experts} experts");
        let found = describe(start.num_layers(), start.num_experts());
        return Err(PlaceError::Placement { name: "start", found, expected: describe(loads.len(), experts) });
    }
    let tables = Tables::new(experts / num_ranks, options);
    let outcomes: Vec<(Vec<u32>, PatternLayer, bool)> = loads
        .par_iter()
        .enumerate()
        .map(|(layer, loads)| {
            let mut search = Search {
                best: Ranks::new(loads, num_ranks, start.experts(layer)),
                bound: peak_bounds(loads, num_ranks).best(),
                proof: None,
                solves: Solves { most: patterns.max_solves, done: 0, stop },
            };
            let finished = search.run(loads, patterns.dives, options, &tables);
            let Search { best, bound, proof, solves: Solves { done: solves, .. } } = search;
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
    solves: Solves<'a>,
}

/// What a program said, and the patterns it had met by then.
type Told = (Answer, Vec<(u64, Vec<u32>)>);

impl<'a> Search<'a> {
    /// Bound, then peaks; false if stopped.
    fn run(&mut self, loads: &'a [u64], dives: u32, options: &PlaceOptions, tables: &Tables) -> bool {
        if self.best.peak() == self.bound {
            return true;
        }
        let num_ranks = self.best.sums().len();
        let Some(patterns) = Patterns::new(loads, num_ranks) else { return true };
        let stop = self.solves.stop;
        let of_start = |rank| (self.best.sums()[rank], self.best.members(rank).to_vec());
        let mut cover = Cover { patterns, num_ranks, pool: (0..num_ranks).map(of_start).collect() };
        // The last target of the bisection is the first that is dived at.
        let mut told = self.raise_bound(&mut cover);
        let mut targets = Vec::new();
        for dive in 0..dives {
            let room = self.best.peak() - self.bound;
            let target = self.bound + (u128::from(room) * u128::from(dive) / u128::from(dives)) as u64;
            if room == 0 || stop() {
                break;
            }
            if targets.contains(&target) {
                continue;
            }
            targets.push(target);
            let answer = if let Some((answer, pool)) = told.take() {
                cover.pool = pool;
                answer
            } else {
                cover.afresh().answer(target, &mut self.solves)
            };
            let Answer::Met(found) = answer else { continue };
            let members = self.dive(&mut cover, loads, target, found);
            let mut ranks = Ranks::new(loads, num_ranks, members);
            improve(&mut ranks, self.bound, options, tables, stop);
            if ranks.peak() < self.best.peak() {
                self.best = ranks;
            }
        }
        self.best.peak() == self.bound || !stop()
    }

    /// The largest bound that a program proves: the least T that is not proved out of reach, by bisection; and what was said
    /// of that T, unless it is the peak.
    fn raise_bound(&mut self, cover: &mut Cover) -> Option<Told> {
        let (mut open, mut told) = (self.best.peak(), None);
        // Mostly nothing is proved: the bound itself is asked about first.
        let mut target = self.bound;
        while self.bound < open {
            match cover.afresh().answer(target, &mut self.solves) {
                Answer::Proved(weights) => {
                    self.bound = target + 1;
                    self.proof = Some(weights);
                }
                answer => {
                    open = target;
                    told = Some((answer, cover.pool.clone()));
                }
            }
            target = self.bound + (open - self.bound) / 2;
        }
        told
    }

    /// Experts of every rank `[ranks · slots]`, most of them by patterns with loads up to `target`, of which `found` meet
    /// the first program.
    fn dive(
        &mut self,
        cover: &mut Cover,
        loads: &[u64],
        target: u64,
        mut found: Vec<(f64, Vec<u32>)>,
    ) -> Vec<u32> {
        let mut members: Vec<u32> = Vec::with_capacity(loads.len());
        let mut left: Vec<u32> = (0..loads.len() as u32).collect();
        let slots = loads.len() / cover.num_ranks;
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
                let pool = cover.pool.iter().filter_map(|(load, pattern)| {
                    Some((*load, pattern.iter().map(place).collect::<Option<Vec<u32>>>()?))
                });
                let mut rest = Cover { patterns, num_ranks: ranks_left, pool: pool.collect() };
                let known = rest.pool.len();
                let answer = rest.answer(target, &mut self.solves);
                let named = |pattern: &[u32]| pattern.iter().map(|&place| left[place as usize]).collect();
                cover.pool.extend(rest.pool[known..].iter().map(|(load, pattern)| (*load, named(pattern))));
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
            return members;
        }
    }
}
