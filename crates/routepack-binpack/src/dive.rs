//! Diving: from the linear program to a packing, by fixing patterns and generating anew.
//!
//! Problem: pack all items into K bins. K bins waste K·C − V in all, so only patterns whose waste is within what is
//! left of that are allowed. Repeat: solve the linear program over such patterns of the items left, generating
//! patterns until its value is at most the bins left; where it is above, take back half of what was fixed last, or give up; fill what is left by
//! [`crate::subset_sum_fill`], which may end it; else fix all patterns of value 1 or more, then those above 0.6, then at
//! least the largest. The first dive takes the largest values, later ones draw among those near it.
//! Complexity: O(K · (rounds · (pricing table + linear program))).
//! References: C. Joncour, S. Michel, R. Sadykov, D. Sverdlov, F. Vanderbeck, Electronic Notes in Discrete Math. 36
//! (2010), doi:10.1016/j.endm.2010.05.088; relax and fix: R. L. F. da Silva, R. C. S. Schouery, INFORMS J. on
//! Computing (2025), repository 2023.0399.

use routepack_anneal::Stream;

use crate::column_generation::{IMPROVING, one, scaled};
use crate::error::PackError;
use crate::pattern_master::{Mark, PatternMaster, UNCOVERED};
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
    /// At most so many bins.
    pub(crate) bins: u64,
    /// Whether to draw among nearly largest values.
    pub(crate) random: bool,
    pub(crate) table_bytes: u64,
}

impl Dive<'_> {
    fn start(&self) -> Dived {
        Dived { left: self.types.clone(), fixed: Vec::new(), bins: self.bins }
    }

    /// The patterns that may be fixed first.
    pub(crate) fn space(&self) -> PatternSpace {
        self.start().space()
    }

    /// A packing, or `None`. `master`: of the space of this dive, with patterns to begin with.
    pub(crate) fn run(
        &self,
        mut master: PatternMaster,
        stream: &Stream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Pattern>>, PackError> {
        let mut draws = stream.child(0);
        let (mut dived, mut space) = (self.start(), self.space());
        let mut pricing = Pricing::new(self.table_bytes);
        // What was fixed last, and from where.
        let mut last: Option<(Dived, Mark, Chosen)> = None;
        let mut fills = 0;
        while dived.left.num_items() > 0 {
            let bins = dived.bins_left();
            if self.converge(&space, &mut master, &mut pricing, bins, stop)? {
                for attempt in fill_tries(&stream.child(1 + fills), 60).take(FILLS) {
                    if let Some(rest) = fill(&dived.left, attempt, bins, stop) {
                        dived.fixed.extend(rest);
                        return Ok(Some(dived.fixed));
                    }
                }
                fills += 1;
                let chosen = self.choose(master.solution()?.0, &mut draws);
                last = Some((dived, master.mark()?, chosen));
            } else {
                // Too much at once, it seems: half of it.
                let Some((before, mark, mut chosen)) = last.take().filter(|last| last.2.len() > 1 && !stop())
                else {
                    return Ok(None);
                };
                chosen.truncate(chosen.len() / 2);
                master.return_to(&mark)?;
                last = Some((before, mark, chosen));
            }
            let (before, _, chosen) = last.as_ref().expect("just set");
            dived = before.clone();
            dived.fix(chosen);
            if dived.fixed.len() == before.fixed.len() {
                return Ok(None);
            }
            space = dived.space();
            master.set_demands(&dived.left.demands)?;
            master.bar_unless(|pattern| space.holds(pattern))?;
        }
        Ok(Some(dived.fixed))
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
                let uncovered = master.solution()?.1 > UNCOVERED;
                if !uncovered || !master.raise_costs()? {
                    return Ok(!uncovered);
                }
                continue;
            }
            let weights: Vec<i64> = solved.duals.iter().map(|&dual| scaled(dual, one)).collect();
            let prices = Prices { weights: &weights, cuts: &[] };
            let priced = pricing.price(space, &prices, one + (one >> IMPROVING), stop);
            if stop() || master.add(priced.patterns)? == 0 {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// The patterns to fix, with copies.
    fn choose(&self, solution: Vec<(Pattern, f64)>, draws: &mut Stream) -> Chosen {
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
        ranked.into_iter().enumerate().map(copies).filter(|(_, copies)| *copies > 0).collect()
    }
}

/// Patterns to fix, with copies.
type Chosen = Vec<(Pattern, u64)>;

/// What is fixed and what is left.
#[derive(Debug, Clone)]
struct Dived {
    left: Types,
    fixed: Vec<Pattern>,
    /// Bins in all.
    bins: u64,
}

impl Dived {
    fn bins_left(&self) -> u64 {
        self.bins - self.fixed.len() as u64
    }

    /// Patterns of the items left, in the bins left.
    fn space(&self) -> PatternSpace {
        let waste = u128::from(self.bins_left()) * u128::from(self.left.capacity) - self.left.total();
        let slack = waste.min(self.left.capacity.into()) as u64;
        PatternSpace { slack, ..PatternSpace::of_types(&self.left) }
    }

    /// Fixes patterns, with copies, as far as items and volume allow.
    fn fix(&mut self, chosen: &[(Pattern, u64)]) {
        for (pattern, copies) in chosen {
            for _ in 0..*copies {
                let taken = available(&self.left, pattern);
                let rest = self.left.total() - u128::from(self.left.load(&taken));
                let bins = self.bins_left();
                if taken.is_empty()
                    || bins == 0
                    || rest > u128::from(bins - 1) * u128::from(self.left.capacity)
                {
                    break;
                }
                taken.iter().for_each(|&kind| self.left.demands[kind as usize] -= 1);
                self.fixed.push(taken);
            }
        }
    }
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
