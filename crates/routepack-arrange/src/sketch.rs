//! Sketch of a layout: a short vector in which alike layouts are near each other.
//!
//! Problem: tell near-duplicates among layouts, whatever their rows and slots are called.
//! Method: a layout is the set of its blocks' features (attention and largest cell per kind, expert cost per share, padded
//! tokens), each relative to its mean. The sliced Wasserstein distance of two such sets is the mean, over directions, of
//! the distance between the sorted projections; the sketch holds the sorted projections on [`DIRECTIONS`] fixed random
//! directions, so that distances of sketches are (up to a factor) those distances.
//! Complexity: O(DIRECTIONS·blocks·(features + log blocks)).
//! Reference: J. Rabin, G. Peyré, J. Delon and M. Bernot, Wasserstein barycenter and its application to texture mixing,
//! SSVM 2011, doi 10.1007/978-3-642-24785-9_37; arXiv 2608.12146 uses it for rows.

use routepack_anneal::Stream;

use crate::grid::Grid;
use crate::units::Units;

/// Random directions.
const DIRECTIONS: usize = 16;
/// Their seed: part of the definition, not of a run.
const SEED: u64 = 0x5347_5773_6b65_7463;

/// Sorted projections, `[directions, blocks]`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sketch(Vec<f64>);

impl Sketch {
    pub(crate) fn new(units: &Units, grid: &Grid) -> Self {
        let blocks = units.num_blocks();
        let features = features(units, grid);
        let width = features.len() / blocks;
        let mut stream = Stream::new(SEED);
        let mut projections = Vec::with_capacity(DIRECTIONS * blocks);
        for _ in 0..DIRECTIONS {
            let direction: Vec<f64> = (0..width).map(|_| stream.normal()).collect();
            let mut projected: Vec<f64> = features
                .chunks_exact(width)
                .map(|block| block.iter().zip(&direction).map(|(feature, weight)| feature * weight).sum())
                .collect();
            projected.sort_by(f64::total_cmp);
            projections.extend(projected);
        }
        Self(projections)
    }

    /// Mean distance of the sorted projections.
    pub(crate) fn distance(&self, other: &Self) -> f64 {
        let sum: f64 = self.0.iter().zip(&other.0).map(|(a, b)| (a - b).abs()).sum();
        sum / self.0.len() as f64
    }
}

/// Features of every block, each divided by its mean, `[blocks, features]`.
fn features(units: &Units, grid: &Grid) -> Vec<f64> {
    let blocks = units.num_blocks();
    let mut rows: Vec<Vec<f64>> = (0..blocks)
        .map(|block| {
            let tokens: u64 = units.cells_of(block).map(|cell| u64::from(grid.tokens[cell])).sum();
            let mut row = vec![tokens as f64];
            row.extend(
                grid.attention_of_kinds(units, block)
                    .into_iter()
                    .flat_map(|(sum, largest)| [sum as f64, largest as f64]),
            );
            row.extend((0..units.shares()).map(|share| units.demand.cost(&grid.loads, block, share) as f64));
            row
        })
        .collect();
    for feature in 0..rows[0].len() {
        let mean = rows.iter().map(|row| row[feature]).sum::<f64>() / blocks as f64;
        if mean > 0.0 {
            rows.iter_mut().for_each(|row| row[feature] /= mean);
        }
    }
    rows.concat()
}
