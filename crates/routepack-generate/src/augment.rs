//! Zero-slack bin packing whose optimum is known by proof: one bin above the linear relaxation, or exactly on it.
//!
//! Problem: sizes with Σ = K·c where K bins do not suffice although the linear relaxation says they do (the integer
//! round-up property fails), or do suffice. Symbols: c capacity, K bins by volume.
//! Method: the *base* is 15 items, the edges of the Petersen graph, with sizes w(uv) = x(u) + x(v) for random vertex
//! weights of sum c. Each of its six perfect matchings then fills a bin exactly; every edge lies in two of them, so half
//! of each solves the relaxation with 3 bins; but no three of them cover the 15 edges (the graph needs four colours).
//! An exhaustive search over sets of items makes sure that other sets of sum c do not pack them into 3 bins either.
//! *Layers* then: everything is doubled, and t triples (aᵢ, bᵢ, dᵢ) of sum c are added with b₁ < b₂ < … odd, dᵢ even,
//! dᵢ < bᵢ₊₁ − bᵢ, aᵢ = c − bᵢ − dᵢ > c/2 (hence odd).
//! *Proof that a layer keeps the refutation*: suppose K bins hold everything, all exactly full. c is even and only aᵢ
//! and bᵢ are odd, so each bin has an even number of them; no two aᵢ fit together; so each aᵢ shares its bin with
//! exactly one bⱼ, j = σ(i), and no other odd item. aᵢ + bⱼ ≤ c means bⱼ ≤ bᵢ + dᵢ < bᵢ₊₁, so σ(i) ≤ i for all i: σ is
//! the identity. The rest of bin i is even items of sum dᵢ: exchange them for the item dᵢ, of the same size. Now the t
//! triples fill t bins, and the other bins are a packing of the items before the layer: a contradiction. The relaxation
//! keeps its solution (add the t triples as bins), and K + 1 bins suffice as before.
//! Complexity: O(2¹⁵·15) a base tried, O(items) a layer. References: A. Caprara, M. Dell'Amico, J. C. Díaz-Díaz, M. Iori
//! and R. Rizzi, Friendly bin packing instances without integer round-up property, Math. Program. 150, 2015, doi
//! 10.1007/s10107-014-0791-z (graphs without a 3-edge-colouring); M. Delorme, M. Iori and S. Martello, Bin packing and
//! cutting stock problems, EJOR 255(1), 2016, doi 10.1016/j.ejor.2016.04.030 (the published classes AI and ANI).
//! Deviations: the layers and their proof are ours, and so are the vertex weights.

use routepack_anneal::stream::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::knife_edge::{Fit, greedy_decreasing};
use crate::recipe::whole;
use crate::{Bins, GenerateError};

/// Bins of a base.
const BASE_BINS: usize = 3;
/// Items of a base.
const BASE_ITEMS: usize = 15;
/// Edges of the Petersen graph: an outer ring, an inner star, and the spokes between them.
const PETERSEN: [(usize, usize); BASE_ITEMS] = [
    (0, 1),
    (1, 2),
    (2, 3),
    (3, 4),
    (4, 0),
    (5, 7),
    (7, 9),
    (9, 6),
    (6, 8),
    (8, 5),
    (0, 5),
    (1, 6),
    (2, 7),
    (3, 8),
    (4, 9),
];

/// Zero-slack instances in doubling layers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Augmented {
    /// Bins by volume, the 3 of the base included.
    pub bins: u32,
    /// Capacity of the base, 100 to 2^20 (gaps are rare below 400); the instance's is this · 2^`layers`.
    pub base_capacity: u32,
    /// Layers of triples, 1 to 16.
    pub layers: u32,
    /// Whether one bin more than the volume bound is needed (ANI-like), or the volume bound suffices (AI-like).
    pub gap: bool,
    /// Bases tried at most.
    pub attempts: u32,
}

impl Default for Augmented {
    fn default() -> Self {
        Self { bins: 65, base_capacity: 600, layers: 2, gap: true, attempts: 10_000 }
    }
}

impl Augmented {
    pub(crate) fn draw(&self, stream: &Stream) -> Result<Bins, GenerateError> {
        whole("bins", self.bins, BASE_BINS as u32..=1 << 20)?;
        whole("base_capacity", self.base_capacity, 100..=1 << 20)?;
        whole("layers", self.layers, 1..=16)?;
        let mut sizes = (0..u64::from(self.attempts))
            .find_map(|attempt| self.base(&mut stream.child(0).child(attempt)))
            .ok_or(GenerateError::Exhausted {
                what: "a base of 15 items with the gap asked for",
                attempts: self.attempts,
            })?;
        let mut capacity = u64::from(self.base_capacity);
        let triples = self.bins as usize - BASE_BINS;
        // Triples by capacity: 1, 2, 4, … parts of 2^layers − 1, so that each has the same room.
        let upto = |layer: u32| triples * ((1 << layer) - 1) / ((1 << self.layers) - 1);
        for layer in 0..self.layers {
            capacity *= 2;
            for size in &mut sizes {
                *size *= 2;
            }
            let count = upto(layer + 1) - upto(layer);
            add_layer(&mut sizes, capacity, count, &mut stream.child(1).child(u64::from(layer)))?;
        }
        Ok(Bins { capacity, sizes, optimum: Some(u64::from(self.bins) + u64::from(self.gap)) })
    }

    /// 15 sizes of sum 3·capacity, if this draw has the property asked for.
    fn base(&self, stream: &mut Stream) -> Option<Vec<u64>> {
        // Ten vertex weights of sum c, each from 0.4 to 1.6 of their mean.
        let capacity = u64::from(self.base_capacity);
        let range = capacity * 4 / 100..capacity * 16 / 100 + 1;
        let mut weights: Vec<u64> = (0..9).map(|_| stream.range(range.clone())).collect();
        weights.push(capacity.checked_sub(weights.iter().sum()).filter(|last| range.contains(last))?);
        let sizes: Vec<u64> = PETERSEN.iter().map(|&(u, v)| weights[u] + weights[v]).collect();
        let bins = greedy_decreasing(&sizes, capacity, Fit::Best);
        (bins <= BASE_BINS as u64 + 1 && fills_three_bins(&sizes, capacity) != self.gap).then_some(sizes)
    }
}

/// Adds `count` triples that keep every refutation (see the header) to even sizes of even capacity.
fn add_layer(
    sizes: &mut Vec<u64>,
    capacity: u64,
    count: usize,
    stream: &mut Stream,
) -> Result<(), GenerateError> {
    if count == 0 {
        return Ok(());
    }
    // Odd b in count stretches of equal width below c/2, at least 4 apart, and room for d ≥ 2 behind the last.
    let width = (capacity / 2 - 3) / count as u64;
    if width < 8 {
        return Err(GenerateError::field(
            "bins",
            count,
            format!("at most {} triples in the layer of capacity {capacity}", (capacity / 2 - 3) / 8),
        ));
    }
    let smalls: Vec<u64> = (0..count as u64).map(|i| (i * width + stream.below(width - 4)) | 1).collect();
    for (i, &small) in smalls.iter().enumerate() {
        let next = smalls.get(i + 1).copied().unwrap_or((capacity / 2 - 1) / 2 * 2 + 1);
        let even = 2 + 2 * stream.below((next - small - 2) / 2);
        sizes.extend([capacity - small - even, small, even]);
    }
    Ok(())
}

/// Whether items of total size 3·capacity fill 3 bins: whether two sets of them that fill a bin each are disjoint.
fn fills_three_bins(sizes: &[u64], capacity: u64) -> bool {
    let mut totals = vec![0u64; 1 << sizes.len()];
    for set in 1..totals.len() {
        totals[set] = totals[set & (set - 1)] + sizes[set.trailing_zeros() as usize];
    }
    let full: Vec<usize> = (1..totals.len()).filter(|&set| totals[set] == capacity).collect();
    full.iter().any(|set| set & 1 == 1 && full.iter().any(|other| set & other == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether items of total size K·capacity fill K bins exactly: over all sets of items, which can be laid down one by
    /// one, bin after bin, without ever crossing the end of a bin.
    fn packs_exactly(sizes: &[u64], capacity: u64) -> bool {
        let mut levels: Vec<Option<u64>> = vec![None; 1 << sizes.len()];
        levels[0] = Some(0);
        for mask in 0..levels.len() {
            let Some(level) = levels[mask] else { continue };
            for (item, &size) in sizes.iter().enumerate() {
                if mask >> item & 1 == 0 && level + size <= capacity {
                    levels[mask | 1 << item] = Some((level + size) % capacity);
                }
            }
        }
        levels[levels.len() - 1] == Some(0)
    }

    #[test]
    fn exhaustive_search_on_known_cases() {
        assert!(packs_exactly(&[6, 4, 5, 5], 10));
        assert!(!packs_exactly(&[6, 6, 4, 4], 20 / 2 + 1));
        assert!(!packs_exactly(&[7, 7, 6], 10));
        assert!(!packs_exactly(&[6, 3, 6, 5], 10));
        assert!(fills_three_bins(&[6, 4, 5, 5, 7, 3], 10));
        assert!(!fills_three_bins(&[7, 7, 6, 4, 4, 2], 10) && !packs_exactly(&[7, 7, 6, 4, 4, 2], 10));
    }

    #[test]
    fn a_base_has_its_property_and_layers_keep_it() {
        // Up to 5 bins are 21 items: few enough for the exhaustive search to judge the proof.
        for seed in 0..4 {
            for (bins, layers) in [(3, 1), (4, 1), (4, 2), (5, 1), (5, 2)] {
                for gap in [false, true] {
                    let recipe = Augmented { bins, layers, base_capacity: 700, gap, ..Augmented::default() };
                    let made = recipe.draw(&Stream::new(seed)).expect("found");
                    assert_eq!(made.sizes.iter().sum::<u64>(), u64::from(bins) * made.capacity);
                    assert_eq!(packs_exactly(&made.sizes, made.capacity), !gap, "{made:?}");
                    assert_eq!(made.optimum, Some(u64::from(bins) + u64::from(gap)));
                }
            }
        }
    }

    /// Every inequality of the header's proof, on a large layer.
    #[test]
    fn layers_meet_the_premises_of_the_proof() {
        let (mut sizes, capacity) = (Vec::new(), 2400);
        add_layer(&mut sizes, capacity, 60, &mut Stream::new(9)).expect("fits");
        let triples = sizes.as_chunks::<3>().0;
        assert_eq!(triples.len(), 60);
        for (i, &[a, b, d]) in triples.iter().enumerate() {
            assert_eq!(a + b + d, capacity);
            assert!(b % 2 == 1 && d % 2 == 0 && d >= 2 && 2 * a > capacity, "{a} {b} {d}");
            if let Some(&[_, next, _]) = triples.get(i + 1) {
                assert!(d < next - b, "{d} {b} {next}");
            }
        }
        assert!(add_layer(&mut sizes, 100, 60, &mut Stream::new(9)).is_err());
    }

    /// Half of each perfect matching solves the relaxation of every base.
    #[test]
    fn six_matchings_fill_a_bin_each_and_cover_every_item_twice() {
        let recipe = Augmented::default();
        let sizes = (0..2000).find_map(|seed| recipe.base(&mut Stream::new(seed))).expect("one in 200 does");
        let matchings: Vec<u32> = (0u32..1 << BASE_ITEMS)
            .filter(|set| {
                let mut degrees = [0; 10];
                for (item, &(u, v)) in PETERSEN.iter().enumerate().filter(|(item, _)| set >> item & 1 == 1) {
                    assert!(u != v && item < BASE_ITEMS);
                    degrees[u] += 1;
                    degrees[v] += 1;
                }
                degrees == [1; 10]
            })
            .collect();
        assert_eq!(matchings.len(), 6);
        for item in 0..BASE_ITEMS {
            assert_eq!(matchings.iter().filter(|&&set| set >> item & 1 == 1).count(), 2);
        }
        for &set in &matchings {
            let total: u64 =
                (0..BASE_ITEMS).filter(|item| set >> item & 1 == 1).map(|item| sizes[item]).sum();
            assert_eq!(total, u64::from(recipe.base_capacity));
        }
    }
}
