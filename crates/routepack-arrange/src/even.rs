//! What a window costs at least: every row-group even.
//!
//! Problem: a lower bound on the score (DESIGN §1.3) of every layout of R rows and k slot groups, quickly.
//! Bounds: per kind, Σ over blocks of the largest cell ≥ ⌈Σφ/|D_g|⌉; per part and layer, Σ over blocks of the peak ≥ the
//! largest load of a rank over the window. Without padding each of them is a sum of single φ, or of single demands: it is
//! rounded up to a multiple of their greatest common divisor, so that windows of equal samples (dummies, say) are bounded
//! by what they cost. Then per part, of S paced stages, Σ_g U_g ≥ max_s (⌈A/S⌉ + Σ_{l on s} Γ_l·peak), the worst shard is
//! at least the average, and the worst row at least the average of that.
//! Complexity: O(n·parts·L·P).

use routepack_problem::{Instance, Score};

use crate::units::Units;

/// Sums over blocks, at least.
#[derive(Clone, Debug)]
pub(crate) struct Even {
    /// Σ of the largest cells, `[kinds]`.
    pub(crate) attention: Vec<u64>,
    /// Σ of the peaks, `[parts, layers]`.
    pub(crate) peaks: Vec<u64>,
}

impl Even {
    /// The bounds of a window, with `demand(unit, part, layer, rank)` in routed rows.
    pub(crate) fn new(
        instance: &Instance,
        units: &Units,
        demand: impl Fn(usize, usize, usize, usize) -> u64,
    ) -> Self {
        let (count, width) = (units.num_units(), units.slots_per_group as u64);
        let attention = (0..units.kinds).map(|kind| {
            let of = |unit: usize| units.attention(unit)[kind];
            let (total, divisor) =
                (0..count).fold((0, 0), |(sum, gcd), unit| (sum + of(unit), divisor(gcd, of(unit))));
            up_to_multiple(total.div_ceil(width), divisor)
        });
        let (parts, layers) = (instance.topology().num_parts(), instance.num_layers());
        let ranks = instance.topology().num_ranks();
        let (mut loads, mut gcds) = (vec![0u64; parts * layers * ranks], vec![0u64; parts * layers]);
        for unit in 0..count {
            for (place, (loads, gcd)) in loads.chunks_exact_mut(ranks).zip(&mut gcds).enumerate() {
                for (rank, load) in loads.iter_mut().enumerate() {
                    let rows = demand(unit, place / layers, place % layers, rank);
                    *load += rows;
                    *gcd = divisor(*gcd, rows);
                }
            }
        }
        let peaks = loads.chunks_exact(ranks).zip(gcds).map(|(loads, gcd)| {
            let largest = loads.iter().copied().max().unwrap_or(0);
            if instance.charges_padding() { largest } else { up_to_multiple(largest, gcd) }
        });
        let peaks = peaks.collect();
        Self { attention: attention.collect(), peaks }
    }

    /// Bounds on Σ_g U_g of every part whose sums over blocks are at least these, and at least the even ones.
    pub(crate) fn totals(&self, instance: &Instance, attention: &[u64], peaks: &[u64]) -> Vec<u64> {
        let (stages, layers) = (instance.paced_stages(), instance.num_layers());
        let attention: u64 = attention.iter().zip(&self.attention).map(|(&sum, &even)| sum.max(even)).sum();
        (0..instance.topology().num_parts())
            .map(|part| {
                let mut of_stage = vec![attention.div_ceil(stages as u64); stages];
                for (layer, gamma) in instance.charges().expert()[..layers].iter().enumerate() {
                    let place = part * layers + layer;
                    of_stage[instance.paced_stage(layer)] += gamma * peaks[place].max(self.peaks[place]);
                }
                of_stage.into_iter().max().unwrap_or(0)
            })
            .collect()
    }

    /// A score that no layout is below.
    pub(crate) fn least(&self, instance: &Instance, units: &Units) -> Score {
        let totals = self.totals(instance, &self.attention, &self.peaks);
        let average = totals.iter().map(|total| total.div_ceil(units.groups as u64)).max().unwrap_or(0);
        Score {
            worst_shard: average,
            total: totals.iter().sum(),
            worst_row: average.div_ceil(units.rows as u64),
        }
    }
}

/// Greatest common divisor (Euclid).
fn divisor(mut a: u64, mut b: u64) -> u64 {
    if a == 1 {
        return 1;
    }
    while b > 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn up_to_multiple(value: u64, divisor: u64) -> u64 {
    if divisor == 0 { value } else { value.next_multiple_of(divisor) }
}
