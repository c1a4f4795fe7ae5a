//! Diving: from the linear program to a packing, by fixing patterns and generating anew.
//!
//! Problem: pack all items into K bins. K bins waste K·C − V in all, so only patterns whose waste is within what is
//! left of that are allowed. Repeat: solve the linear program over such patterns of the items left, generating
//! patterns until its value is at most the bins left; give up where it is above; fill what is left by
//! [`crate::subset_sum_fill`], which may end it; else fix all patterns of value 1 or more, then those above 0.6, then at
//! least the largest. The first dive takes the largest values, later ones draw among those near it.
//! Complexity: O(K · (rounds · (pricing table + linear program))).
//! References: C. Joncour, S. Michel, R. Sadykov, D. Sverdlov, F. Vanderbeck, Electronic Notes in Discrete Math. 36
//! (2010), doi:10.1016/j.endm.2010.05.088; relax and fix: R. L. F. da Silva, R. C. S. Schouery, INFORMS J. on
//! Computing (2025), repository 2023.0399.

use routepack_anneal::Stream;

use crate::column_generation::{IMPROVING, one, scaled};
use crate::error::PackError;
use crate::pattern_master::PatternMaster;
use crate::pattern_space::PatternSpace;
use crate::pricing::Pricing;
use crate::pricing_table::Prices;
use crate::subset_sum_fill::{FillTry, fill_tries, subset_sum_fill};
use crate::types::{Pattern, Types};

/// Values above this are fixed at once.
const FIXED: f64 = 0.6;
/// Linear programs between two fixings.
const ROUNDS: u32 = 100;
/// Fills of what is left after every fixing.
const FILLS: usize = 3;

/// One dive for a packing with at most so many bins.
#[derive(Debug)]
pub(crate) struct Dive<'a> {
    pub(crate) types: &'a Types,
    /// Patterns to begin with.
    pub(crate) patterns: &'a [Pattern],
    /// At most so many bins.
    pub(crate) bins: u64,
    /// Whether to draw among nearly largest values.
    pub(crate) random: bool,
    pub(crate) table_bytes: u64,
}

impl Dive<'_> {
    /// A packing, or `None`.
    pub(crate) fn run(
        &self,
        stream: &Stream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Pattern>>, PackError> {
        let (mut draws, mut fixed) = (stream.child(0), Vec::new());
        let mut left = self.types.clone();
        let mut space = patterns_of(&left, self.bins);
        let mut master = PatternMaster::new(&space)?;
        master.add(self.patterns.iter().filter(|pattern| space.holds(pattern)).cloned())?;
        let mut pricing = Pricing::new(self.table_bytes);
        while left.num_items() > 0 {
            let bins = self.bins - fixed.len() as u64;
            if !self.converge(&space, &mut master, &mut pricing, bins, stop)? {
                return Ok(None);
            }
            for attempt in fill_tries(&stream.child(1 + fixed.len() as u64), 60).take(FILLS) {
                if let Some(rest) = fill(&left, attempt, bins, stop) {
                    fixed.extend(rest);
                    return Ok(Some(fixed));
                }
            }
            let chosen = self.choose(master.solution()?.0, &mut draws);
            let before = fixed.len();
            for (pattern, copies) in chosen {
                for _ in 0..copies {
                    let taken = available(&left, &pattern);
                    let rest = left.total() - u128::from(left.load(&taken));
                    let bins = self.bins - fixed.len() as u64;
                    if taken.is_empty()
                        || bins == 0
                        || rest > u128::from(bins - 1) * u128::from(left.capacity)
                    {
                        break;
                    }
                    taken.iter().for_each(|&kind| left.demands[kind as usize] -= 1);
                    fixed.push(taken);
                }
            }
            if fixed.len() == before {
                return Ok(None);
            }
            space = patterns_of(&left, self.bins - fixed.len() as u64);
            master.restrict(&space)?;
        }
        Ok(Some(fixed))
    }

    /// Generates patterns until the linear program needs no more than so many bins; false if it does need more.
    fn converge(
        &self,
        space: &PatternSpace,
        master: &mut PatternMaster,
        pricing: &mut Pricing,
        bins: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, PackError> {
        let one = one(space.capacity, self.types.sizes.last().copied().unwrap_or(1));
        for _ in 0..ROUNDS {
            let Some(solved) = master.solve(stop)? else { return Ok(false) };
            if solved.objective <= bins as f64 + 1e-6 {
                return Ok(true);
            }
            let weights: Vec<i64> = solved.duals.iter().map(|&dual| scaled(dual, one)).collect();
            let priced = pricing.price(
                space,
                &Prices { weights: &weights, cuts: &[] },
                one + (one >> IMPROVING),
                stop,
            );
            if stop() || master.add(priced.patterns)? == 0 {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The patterns to fix, with copies.
    fn choose(&self, solution: Vec<(Pattern, f64)>, draws: &mut Stream) -> Vec<(Pattern, u64)> {
        let mut ranked: Vec<(f64, Pattern, f64)> = solution
            .into_iter()
            .map(|(pattern, value)| {
                (value + if self.random { 0.3 * draws.unit() } else { 0.0 }, pattern, value)
            })
            .collect();
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let copies = |(place, (_, pattern, value)): (usize, (f64, Pattern, f64))| {
            let least = u64::from(value > FIXED || place == 0);
            (pattern, ((value + 1e-6) as u64).max(least))
        };
        ranked.into_iter().enumerate().map(copies).collect()
    }
}

/// Patterns of the items left, in so many bins.
fn patterns_of(left: &Types, bins: u64) -> PatternSpace {
    let waste = u128::from(bins) * u128::from(left.capacity) - left.total();
    let slack = waste.min(left.capacity.into()) as u64;
    PatternSpace { slack, ..PatternSpace::of_types(left) }
}

/// A fill of the items left, types numbered as before.
fn fill(left: &Types, attempt: FillTry, bins: u64, stop: &(dyn Fn() -> bool + Sync)) -> Option<Vec<Pattern>> {
    let (part, kinds) = left.part((0..).zip(left.demands.iter().copied()));
    let filled = subset_sum_fill(&part, attempt, bins, stop)?;
    Some(filled.into_iter().map(|bin| bin.into_iter().map(|place| kinds[place as usize]).collect()).collect())
}

/// The part of a pattern that is left.
fn available(left: &Types, pattern: &[u32]) -> Pattern {
    let same = pattern.chunk_by(|a, b| a == b);
    same.flat_map(|same| &same[..same.len().min(left.demands[same[0] as usize] as usize)]).copied().collect()
}
