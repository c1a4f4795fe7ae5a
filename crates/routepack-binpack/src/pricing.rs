//! Pricing by whichever way fits: the table where it fits into memory, else the search.

use crate::pattern_space::PatternSpace;
use crate::pricing_search::search_patterns;
use crate::pricing_table::{Collect, Collected, Prices, PricingTable};
use crate::types::Pattern;

/// Patterns of one table that may use a type, per item demanded.
const USAGE: u32 = 3;
/// Patterns that exceed the threshold by this part of what the best does are good.
const GOOD: i64 = 3;
/// Less than one good pattern for so many types is too few.
const FEW: usize = 20;
/// Steps of one walk for many patterns, and of one for the best.
const MANY_STEPS: u64 = 1_000_000;
const BEST_STEPS: u64 = 20_000_000;

/// Improving patterns, and what no pattern exceeds.
#[derive(Debug, Clone, Default)]
pub(crate) struct Priced {
    /// Patterns worth more than the threshold, many and different.
    pub(crate) patterns: Vec<Pattern>,
    /// No pattern is worth more, if that is known.
    pub(crate) most: Option<i64>,
    /// Whether there are no patterns worth more than the threshold.
    pub(crate) none_left: bool,
}

/// A way to price, with the memory of its tables.
#[derive(Debug, Default)]
pub(crate) struct Pricing {
    memory: Vec<i64>,
    /// Most bytes of a table.
    max_bytes: u64,
}

impl Pricing {
    pub(crate) fn new(max_bytes: u64) -> Self {
        Self { memory: Vec::new(), max_bytes }
    }

    /// Looks for patterns worth more than the threshold. Where `stop` ends it, little is known.
    pub(crate) fn price(
        &mut self,
        space: &PatternSpace,
        prices: &Prices<'_>,
        threshold: i64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Priced {
        let many = Collect { threshold, usage: Some(USAGE), max_steps: MANY_STEPS };
        let best = Collect { threshold, usage: None, max_steps: BEST_STEPS };
        let Some(mut table) = PricingTable::new(space, self.max_bytes, &mut self.memory) else {
            return concluded(threshold, None, many, best, |how| search_patterns(space, prices, how, stop));
        };
        let Some(top) = table.build(prices, stop) else {
            self.memory = table.into_memory();
            return Priced::default();
        };
        let priced = if top <= threshold {
            Priced { patterns: Vec::new(), most: Some(top), none_left: true }
        } else {
            // The better patterns first: with them the master improves in fewer rounds.
            let good = Collect { threshold: threshold + (top - threshold) / GOOD, ..many };
            let found = table.collect(prices, good, stop);
            if found.patterns.len() * FEW >= space.order.len() {
                Priced { patterns: patterns(found), most: Some(top), none_left: false }
            } else if table.is_exact() && prices.cuts.is_empty() {
                let found = table.collect(prices, many, stop);
                Priced { patterns: patterns(found), most: Some(top), none_left: false }
            } else {
                concluded(threshold, Some(top), many, best, |how| table.collect(prices, how, stop))
            }
        };
        self.memory = table.into_memory();
        priced
    }
}

fn patterns(found: Collected) -> Vec<Pattern> {
    found.patterns.into_iter().map(|pattern| pattern.0).collect()
}

/// Walks for many patterns; where that leaves open what no pattern exceeds, also for the best.
fn concluded(
    threshold: i64,
    top: Option<i64>,
    many: Collect,
    best: Collect,
    walk: impl Fn(Collect) -> Collected,
) -> Priced {
    let mut found = walk(many);
    if found.patterns.is_empty() && found.complete {
        return Priced { patterns: Vec::new(), most: Some(threshold), none_left: true };
    }
    if !found.patterns.is_empty() && top.is_some() {
        return Priced { patterns: patterns(found), most: top, none_left: false };
    }
    let single = walk(best);
    let value = single.patterns.first().map_or(threshold, |pattern| pattern.1);
    found.patterns.extend(single.patterns);
    let none_left = single.complete && found.patterns.is_empty();
    Priced { patterns: patterns(found), most: if single.complete { Some(value) } else { top }, none_left }
}
