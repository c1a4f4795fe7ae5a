//! Diving: from the linear program of a case to a packing, by filling bins and generating anew.
//!
//! Problem: pack all items into K bins. K bins waste K·C − V in all, so only patterns whose waste is within what is
//! left of that are allowed. Repeat: solve the linear program over such patterns of the items left, generating
//! patterns until its value is at most the bins left, and adding cuts; fill what is left by [`crate::subset_sum_fill`],
//! which may end it; else fill bins by the patterns of value 1 or more, then by those above 0.6, at least one by the
//! pattern of largest value, and by no more patterns than a share of the bins left; then, for good, the bins that what is
//! left forces (forced_bins.rs). Where the program needs more than the bins left, half of what was filled last is taken
//! back, and where it was one bin only, another pattern is tried, a few times in a dive. The first dive takes the
//! largest values, later ones draw among those near it; some take only patterns with an item whose size has the finest
//! grain, the power of two in a size that is least among all left. What is decided in the case (items glued or apart,
//! its cuts) holds in the dive, but not for the fills: any packing will do.
//! Complexity: O(K · (rounds · (pricing table + linear program))).
//! References: C. Joncour, S. Michel, R. Sadykov, D. Sverdlov, F. Vanderbeck, Electronic Notes in Discrete Math. 36
//! (2010), doi:10.1016/j.endm.2010.05.088; relax and fix, also within a case: R. L. F. da Silva, R. C. S. Schouery,
//! INFORMS J. on Computing (2025), repository 2023.0399.

use std::ops::Range;

use routepack_anneal::Stream;

use crate::case::Case;
use crate::column_generation::{IMPROVING, one};
use crate::error::PackError;
use crate::forced_bins::forced_bins;
use crate::pattern_master::{Mark, PatternMaster, UNCOVERED};
use crate::pricing::Pricing;
use crate::pricing_table::Prices;
use crate::rank_one_cuts::rank_one_cuts;
use crate::subset_sum_fill::{FillTry, fill_tries, subset_sum_fill};
use crate::types::{Pattern, Types};

/// Patterns of larger values fill bins at once.
const FIXED: f64 = 0.6;
/// Linear programs between two fillings.
const ROUNDS: u32 = 100;
/// Fills of what is left after every filling.
const FILLS: usize = 3;
/// Words of bits that one search for bins filled for good may fill.
const FORCED_WORDS: u64 = 50_000_000;
/// How often another pattern than the best is tried.
const OTHERS: usize = 3;

/// One dive for a packing with at most so many bins.
#[derive(Debug)]
pub(crate) struct Dive<'a> {
    pub(crate) types: &'a Types,
    /// At most so many bins.
    pub(crate) bins: u64,
    /// Whether to draw among nearly largest values.
    pub(crate) random: bool,
    /// Whether items of the finest grain, the least power of two in a size, are packed first.
    pub(crate) finest: bool,
    /// At most so many patterns fill bins at once, as a part of the bins left.
    pub(crate) share: f64,
    /// Most rounds of cuts between two fillings.
    pub(crate) cut_rounds: u32,
    pub(crate) table_bytes: u64,
}

impl Dive<'_> {
    /// A packing, or `None`, from a case and its master, which comes back as it was.
    pub(crate) fn run(
        &self,
        case: &Case,
        master: &mut PatternMaster,
        stream: &Stream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Pattern>>, PackError> {
        let (top, patterns) = (master.mark()?, master.len());
        let found = self.descend(case, master, stream, stop)?;
        master.truncate(patterns)?;
        master.return_to(&top)?;
        Ok(found)
    }

    fn descend(
        &self,
        case: &Case,
        master: &mut PatternMaster,
        stream: &Stream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Vec<Pattern>>, PackError> {
        let mut draws = stream.child(0);
        let mut dived = Dived::new(case, self.types, self.bins);
        let mut pricing = Pricing::new(self.table_bytes);
        let mut last: Option<Step> = None;
        let (mut fills, mut others) = (0, OTHERS);
        while dived.left.num_items() > 0 {
            if self.converge(&dived, master, &mut pricing, stop)? {
                for attempt in fill_tries(&stream.child(1 + fills), 60).take(FILLS) {
                    if let Some(rest) = fill(&dived.left, attempt, dived.bins_left(), stop) {
                        return Ok(Some([dived.bins(), rest].concat()));
                    }
                }
                fills += 1;
                let most = (dived.bins_left() as f64 * self.share).ceil() as usize;
                let ranked = self.rank(&dived.case, master.solution()?.0, &mut draws);
                let chosen = ranked
                    .iter()
                    .take_while(|chosen| chosen.1 > 0)
                    .count()
                    .min(most)
                    .max(1)
                    .min(ranked.len());
                last = Some(Step { dived, mark: master.mark()?, ranked, chosen: 0..chosen });
            } else if let Some(step) = &mut last {
                if stop() || !step.less(&mut others) {
                    return Ok(None);
                }
                master.return_to(&step.mark)?;
            }
            let Some(step) = &last else { return Ok(None) };
            dived = step.dived.clone();
            dived.fill(&step.ranked[step.chosen.clone()], master)?;
            if dived.taken.len() == step.dived.taken.len() {
                return Ok(None);
            }
            dived.fill_forced(master, stop)?;
            master.bar_unless(|column| dived.case.pattern(column).is_some())?;
        }
        Ok(Some(dived.bins()))
    }

    /// Generates patterns until the linear program needs no more than the bins left, with cuts; false if it does need more.
    fn converge(
        &self,
        dived: &Dived,
        master: &mut PatternMaster,
        pricing: &mut Pricing,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, PackError> {
        let space = &dived.case.space;
        let one = one(space.capacity, self.types.sizes.last().copied().unwrap_or(1));
        let mut cut_rounds = 0;
        for _ in 0..ROUNDS {
            let Some(solved) = master.solve(stop)? else { return Ok(false) };
            if solved.objective <= dived.bins_left() as f64 + 1e-6 {
                let (mut solution, uncovered) = master.solution()?;
                if uncovered > UNCOVERED {
                    if !master.raise_costs()? {
                        return Ok(false);
                    }
                    continue;
                }
                if cut_rounds == self.cut_rounds {
                    return Ok(true);
                }
                solution.extend(dived.taken.iter().map(|column| (column.clone(), 1.0)));
                let cuts = rank_one_cuts(solution, &self.types.demands);
                if cuts.is_empty() {
                    return Ok(true);
                }
                for cut in cuts {
                    master.add_cut(cut, &self.types.demands, &dived.taken)?;
                }
                cut_rounds += 1;
                continue;
            }
            let leaf = dived.case.leaf(&solved, &master.cuts, one);
            let prices = Prices { weights: &leaf.weights, cuts: &leaf.cuts };
            let priced = pricing.price(space, &prices, one + (one >> IMPROVING), stop);
            let columns = priced.patterns.iter().map(|pattern| dived.case.column(pattern));
            if stop() || master.add(columns)? == 0 {
                return Ok(false);
            }
        }
        Ok(false)
    }

    /// Patterns of the case with the bins to fill by each, best first.
    fn rank(&self, case: &Case, solution: Vec<(Pattern, f64)>, draws: &mut Stream) -> Vec<(Pattern, u64)> {
        let read = solution.into_iter().filter_map(|(column, value)| Some((case.pattern(&column)?, value)));
        let mut ranked: Vec<(f64, Pattern, f64)> = read
            .map(|(pattern, value)| {
                (value + if self.random { 0.3 * draws.unit() } else { 0.0 }, pattern, value)
            })
            .collect();
        if self.finest {
            let grain = |&kind: &u32| case.space.sizes[kind as usize].trailing_zeros();
            let finest = ranked.iter().flat_map(|chosen| &chosen.1).map(grain).min();
            ranked.retain(|chosen| chosen.1.iter().map(grain).min() == finest);
        }
        ranked.sort_by(|a, b| b.0.total_cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
        let copies = |value: f64| ((value + 1e-6) as u64).max(u64::from(value > FIXED));
        let mut ranked: Vec<_> =
            ranked.into_iter().map(|(_, pattern, value)| (pattern, copies(value))).collect();
        ranked.sort_by_key(|chosen| chosen.1 == 0);
        ranked
    }
}

/// What was filled last, and from where.
#[derive(Debug)]
struct Step {
    dived: Dived,
    mark: Mark,
    /// Patterns of the case with the bins to fill by each, best first; where it says none, one if it must be.
    ranked: Vec<(Pattern, u64)>,
    chosen: Range<usize>,
}

impl Step {
    /// Half of the bins, or another one as often as `others` says; false if there is nothing else.
    fn less(&mut self, others: &mut usize) -> bool {
        if self.chosen.len() > 1 {
            self.chosen.end = self.chosen.len() / 2;
        } else if *others > 0 {
            *others -= 1;
            self.chosen = self.chosen.end..self.chosen.end + 1;
        } else {
            return false;
        }
        self.chosen.end <= self.ranked.len()
    }
}

/// What is filled and what is left.
#[derive(Debug, Clone)]
struct Dived {
    /// The items left as a case, with the patterns the bins left allow.
    case: Case,
    /// The same by type.
    left: Types,
    /// Columns of the bins filled.
    taken: Vec<Pattern>,
    /// Bins in all.
    bins: u64,
}

impl Dived {
    fn new(case: &Case, types: &Types, bins: u64) -> Self {
        Self { case: case.clone(), left: types.clone(), taken: Vec::new(), bins }
    }

    fn bins_left(&self) -> u64 {
        self.bins - self.taken.len() as u64
    }

    /// The bins filled, by type.
    fn bins(&self) -> Vec<Pattern> {
        self.taken.iter().map(|column| self.by_type(column)).collect()
    }

    fn by_type(&self, column: &[u32]) -> Pattern {
        column.iter().copied().filter(|&row| (row as usize) < self.left.len()).collect()
    }

    /// Fills bins by patterns, with copies, as far as items and volume allow.
    fn fill(&mut self, chosen: &[(Pattern, u64)], master: &mut PatternMaster) -> Result<(), PackError> {
        for (pattern, copies) in chosen {
            for _ in 0..(*copies).max(1) {
                let available = available(&self.case.node.demands, pattern);
                let column = self.case.column(&available);
                let taken = self.by_type(&column);
                let rest = self.left.total() - u128::from(self.left.load(&taken));
                let bins = self.bins_left();
                if available.is_empty()
                    || bins == 0
                    || rest > u128::from(bins - 1) * u128::from(self.left.capacity)
                {
                    break;
                }
                self.case.take(&available);
                taken.iter().for_each(|&kind| self.left.demands[kind as usize] -= 1);
                master.take(&column)?;
                self.taken.push(column);
            }
        }
        let waste = u128::from(self.bins_left()) * u128::from(self.left.capacity) - self.left.total();
        self.case = self.case.clone().within(waste.min(self.left.capacity.into()) as u64);
        Ok(())
    }

    /// Fills bins for good, as far as their items are neither glued nor gone.
    fn fill_forced(
        &mut self,
        master: &mut PatternMaster,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<(), PackError> {
        for mut bin in forced_bins(&self.left, self.bins_left(), FORCED_WORDS, stop) {
            bin.sort_unstable();
            if available(&self.case.node.demands, &bin) != bin {
                break;
            }
            self.fill(&[(bin, 1)], master)?;
        }
        Ok(())
    }
}

/// A fill of the items left, types numbered as before.
fn fill(left: &Types, attempt: FillTry, bins: u64, stop: &(dyn Fn() -> bool + Sync)) -> Option<Vec<Pattern>> {
    let (part, kinds) = left.part((0..).zip(left.demands.iter().copied()));
    let filled = subset_sum_fill(&part, attempt, bins, stop)?;
    Some(filled.into_iter().map(|bin| bin.into_iter().map(|place| kinds[place as usize]).collect()).collect())
}

/// The part of a pattern that is left.
fn available(left: &[u32], pattern: &[u32]) -> Pattern {
    let same = pattern.chunk_by(|a, b| a == b);
    same.flat_map(|same| &same[..same.len().min(left[same[0] as usize] as usize)]).copied().collect()
}

#[cfg(test)]
mod tests {
    use routepack_certificate::Statement;

    use super::*;

    /// Full bins of 100 cut into items at random: sizes, and the types of each bin.
    fn full_bins(bins: usize, stream: &mut Stream) -> (Statement, Types, Vec<Pattern>) {
        let mut cut = || {
            let first = 15 + stream.below(40);
            let second = 15 + stream.below(60 - first.min(45));
            vec![first, second, 100 - first - second]
        };
        let bins: Vec<Vec<u64>> = (0..bins).map(|_| cut()).collect();
        let statement = Statement::bins(bins.concat(), 100);
        let types = Types::new(&statement).unwrap();
        let items: Vec<Vec<u32>> =
            (0..bins.len() as u32).map(|bin| (3 * bin..3 * bin + 3).collect()).collect();
        let patterns = types.patterns_of(&items);
        (statement, types, patterns)
    }

    #[test]
    fn dives_find_packings_and_leave_the_master_as_it_was() {
        let mut found = 0;
        for seed in 0..60 {
            let mut stream = Stream::new(seed);
            let (statement, types, planted) = full_bins(12, &mut stream);
            let root = Case::root(&statement, &types, 0);
            let mut master = PatternMaster::new(&root.space).unwrap();
            // Glue two items of a planted bin, and keep two types apart that no planted bin joins.
            let (i, j) = (planted[0][0], planted[0][1]);
            let row = root.needs_row(i, j).then(|| master.add_row().unwrap());
            let kinds = 0..types.len() as u32;
            let joined = |a, b| planted.iter().any(|bin| bin.contains(&a) && bin.contains(&b));
            let (a, b) = kinds
                .clone()
                .flat_map(|a| kinds.clone().map(move |b| (a, b)))
                .find(|&(a, b)| {
                    a < b && types.sizes[a as usize] + types.sizes[b as usize] < 85 && !joined(a, b)
                })
                .unwrap();
            let case = root.together(i, j, row).apart(a, b);
            let dive = Dive {
                types: &types,
                bins: 12,
                random: seed % 2 > 0,
                finest: seed % 3 > 0,
                share: 0.1 + (seed % 3) as f64 / 3.0,
                cut_rounds: 2,
                table_bytes: 1 << 20,
            };
            let dived = Dived::new(&case, &types, 12);
            assert!(dive.converge(&dived, &mut master, &mut Pricing::new(1 << 20), &|| false).unwrap());
            let before = master.solve(&|| false).unwrap().unwrap();
            let bins = dive.run(&case, &mut master, &Stream::new(seed), &|| false).unwrap();
            let after = master.solve(&|| false).unwrap().unwrap();
            assert!(
                (before.objective - after.objective).abs() < 1e-6,
                "{} {}",
                before.objective,
                after.objective
            );
            assert_eq!(before.cut_duals.len(), after.cut_duals.len());
            let Some(bins) = bins else { continue };
            found += 1;
            let mut packed = bins.concat();
            packed.sort_unstable();
            let mut all = planted.concat();
            all.sort_unstable();
            assert_eq!((packed, bins.len()), (all, 12));
        }
        assert!(found > 40, "{found}");
    }

    #[test]
    fn too_much_is_halved_and_one_alone_gives_way_to_others() {
        let (statement, types, planted) = full_bins(5, &mut Stream::new(1));
        let case = Case::root(&statement, &types, 0);
        let mut master = PatternMaster::new(&case.space).unwrap();
        master.solve(&|| false).unwrap().unwrap();
        let ranked = planted.into_iter().map(|pattern| (pattern, 1)).collect();
        let (dived, mark) = (Dived::new(&case, &types, 5), master.mark().unwrap());
        let (mut step, mut others) = (Step { dived, mark, ranked, chosen: 0..4 }, 2);
        let mut chosen = Vec::new();
        while step.less(&mut others) {
            chosen.push(step.chosen.clone());
        }
        assert_eq!(chosen, [0..2, 0..1, 1..2, 2..3]);
    }
}
