//! Sizes that fill K bins almost exactly, and on which greedy packers need more.
//!
//! Problem: items that K = D·rows bins of capacity C hold, with Σ sizes > (K − 1)·C so that fewer cannot, a fraction of
//! at most `max_slack` free, and first-fit and best-fit decreasing beyond K but within K + D bins: one row more.
//! Method: each bin is filled with draws of the length law, and drawn anew as a whole until it ends within its share of
//! the slack, so no size is trimmed; then both greedy packers are run, and the whole is drawn anew until both fail.
//! The planted bins are the witness that K suffices: no packer's ability enters.
//! Complexity: O(C / mean size / share) expected draws a bin, O(n·bins) for the packers. Reference: ours; for the
//! packers D. S. Johnson, Near-optimal bin packing algorithms, MIT, 1973. Deviations: the packers are the plain
//! quadratic ones: they are the judges here, and share nothing with the code that is judged.

use routepack_anneal::stream::Stream;

use crate::recipe::within;
use crate::{GenerateError, KnifeEdgeRecipe};

/// Most bins of one instance.
const MAX_BINS: u64 = 1 << 16;
/// Most items of one instance.
const MAX_ITEMS: u64 = 1 << 20;

/// Draws of a bin before the whole attempt is given up.
const BIN_DRAWS: u32 = 20_000;

/// What is to be filled.
pub(crate) struct Edge<'a> {
    pub(crate) recipe: &'a KnifeEdgeRecipe,
    /// DP slots D: bins per row.
    pub(crate) slots: u64,
    /// Capacity of a bin.
    pub(crate) capacity: u64,
    /// Sizes count rounded up to a multiple of this.
    pub(crate) multiple: u64,
}

/// Bins of sizes drawn with `draw`, each bin within the capacity, with the property of this file's header.
pub(crate) fn plant(
    edge: &Edge<'_>,
    draw: &mut dyn FnMut(&mut Stream) -> u64,
    stream: &Stream,
) -> Result<Vec<Vec<u64>>, GenerateError> {
    edge.recipe.validate()?;
    let num_bins = edge.slots * u64::from(edge.recipe.rows);
    within("slots·knife_edge.rows", num_bins, MAX_BINS)?;
    for attempt in 0..edge.recipe.attempts {
        let mut stream = stream.child(u64::from(attempt));
        let (mut bins, mut items) = (Vec::new(), 0);
        for _ in 0..num_bins {
            let Some(sizes) = fill(edge, draw, &mut stream, MAX_ITEMS - items)? else { break };
            items += sizes.len() as u64;
            bins.push(sizes);
        }
        if (bins.len() as u64) < num_bins {
            continue;
        }
        let padded: Vec<u64> = bins.iter().flatten().map(|&size| edge.padded(size)).collect();
        if edge.is_sharp(&padded) {
            return Ok(bins);
        }
    }
    Err(GenerateError::Exhausted {
        what: "knife_edge: cells full within the slack, greedy packers one row beyond them",
        attempts: edge.recipe.attempts,
    })
}

impl Edge<'_> {
    fn padded(&self, size: u64) -> u64 {
        size.next_multiple_of(self.multiple)
    }

    /// Tokens a bin may leave free, so that on average all together leave what is allowed and less than one bin.
    fn share(&self) -> u64 {
        let bins = (self.slots * u64::from(self.recipe.rows)) as f64;
        let fraction = (1.5 * self.recipe.max_slack).min(1.5 / bins);
        ((self.capacity as f64 * fraction) as u64).max(self.multiple - 1)
    }

    /// Whether the padded sizes need exactly the planted bins by volume, within the slack, and greedy packers fail.
    fn is_sharp(&self, padded: &[u64]) -> bool {
        let num_bins = self.slots * u64::from(self.recipe.rows);
        let (volume, space) = (padded.iter().sum::<u64>(), num_bins * self.capacity);
        let fails = |bins: u64| bins > num_bins && bins <= num_bins + self.slots;
        volume.div_ceil(self.capacity) == num_bins
            && ((space - volume) as f64) < self.recipe.max_slack * space as f64
            && fails(greedy_decreasing(padded, self.capacity, Fit::First))
            && fails(greedy_decreasing(padded, self.capacity, Fit::Best))
    }
}

/// At most `max_items` sizes that fill one bin up to its share of the slack, if they can be drawn.
fn fill(
    edge: &Edge<'_>,
    draw: &mut dyn FnMut(&mut Stream) -> u64,
    stream: &mut Stream,
    max_items: u64,
) -> Result<Option<Vec<u64>>, GenerateError> {
    let enough = edge.capacity - edge.share().min(edge.capacity - 1);
    for _ in 0..BIN_DRAWS {
        let (mut sizes, mut level) = (Vec::new(), 0);
        while level < enough {
            let size = draw(stream);
            level += edge.padded(size);
            sizes.push(size);
            if sizes.len() as u64 > max_items {
                let limit = format!("more than {MAX_ITEMS} items of these lengths would fill the cells");
                return Err(GenerateError::field("capacity", edge.capacity, limit));
            }
        }
        if level <= edge.capacity {
            return Ok(Some(sizes));
        }
    }
    Ok(None)
}

/// Which of the open bins an item that fits several goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fit {
    /// The one opened first.
    First,
    /// The fullest.
    Best,
}

/// Bins that first-fit or best-fit decreasing uses.
pub(crate) fn greedy_decreasing(sizes: &[u64], capacity: u64, fit: Fit) -> u64 {
    let mut sizes = sizes.to_vec();
    sizes.sort_unstable_by(|a, b| b.cmp(a));
    let mut levels: Vec<u64> = Vec::new();
    for size in sizes {
        let mut fitting = levels.iter_mut().filter(|level| **level + size <= capacity);
        let chosen = match fit {
            Fit::First => fitting.next(),
            Fit::Best => fitting.max_by_key(|level| **level),
        };
        match chosen {
            Some(level) => *level += size,
            None => levels.push(size),
        }
    }
    levels.len() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greedy_packers_on_known_cases() {
        // First fit puts 3 and 2 into the first bins they fit; by hand: {6,4} {5,5} {3,…}.
        assert_eq!(greedy_decreasing(&[5, 4, 6, 5], 10, Fit::First), 2);
        assert_eq!(greedy_decreasing(&[6, 4, 4, 3, 3], 10, Fit::First), 2);
        // 2 bins suffice ({6,2,2}, {5,3,2}); first-fit decreasing: {6,3} {5,2,2} {2}; best fit the same.
        assert_eq!(greedy_decreasing(&[6, 5, 3, 2, 2, 2], 10, Fit::First), 3);
        // 5 and 4 open bins of 10 with 6: {6} {5,5}: best fit sends 4 to {6}, so does first fit here.
        assert_eq!(greedy_decreasing(&[7, 6, 4, 3], 10, Fit::Best), 2);
        // Where the two differ: levels 7 and 8 (capacity 10), a 2: first fit → 9 and 8, best fit → 7 and 10.
        assert_eq!(greedy_decreasing(&[8, 7, 2, 1, 1, 1], 10, Fit::First), 2);
        assert_eq!(greedy_decreasing(&[], 10, Fit::Best), 0);
    }

    #[test]
    fn planted_bins_are_a_witness_and_greedy_packers_fail() {
        let recipe = KnifeEdgeRecipe { rows: 3, max_slack: 0.02, attempts: 200 };
        for (seed, multiple) in [(1, 1), (2, 1), (3, 64)] {
            let edge = Edge { recipe: &recipe, slots: 4, capacity: 8192, multiple };
            let bins =
                plant(&edge, &mut |stream| 1300 + stream.below(2700), &Stream::new(seed)).expect("found");
            assert_eq!(bins.len(), 12);
            let padded: Vec<Vec<u64>> = bins
                .iter()
                .map(|bin| bin.iter().map(|size| size.next_multiple_of(multiple)).collect())
                .collect();
            assert!(padded.iter().all(|bin| bin.iter().sum::<u64>() <= 8192));
            let sizes = padded.concat();
            let volume: u64 = sizes.iter().sum();
            assert_eq!(volume.div_ceil(8192), 12);
            assert!(volume as f64 > 0.98 * 12.0 * 8192.0);
            for fit in [Fit::First, Fit::Best] {
                assert!((13..=16).contains(&greedy_decreasing(&sizes, 8192, fit)));
            }
        }
    }

    #[test]
    fn gives_up_where_greedy_packers_cannot_fail() {
        let recipe = KnifeEdgeRecipe { rows: 2, max_slack: 0.1, attempts: 3 };
        let edge = Edge { recipe: &recipe, slots: 2, capacity: 100, multiple: 1 };
        let error = plant(&edge, &mut |_| 1, &Stream::new(1)).expect_err("items of 1 always fit");
        assert!(matches!(error, GenerateError::Exhausted { attempts: 3, .. }));
    }
}
