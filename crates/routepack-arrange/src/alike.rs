//! Blocks made alike: loads that one placement can level together.
//!
//! Problem: one placement serves all blocks, so it levels their peaks the better the less the loads of experts differ
//! among them, whatever placement that will be. V\[b,l,e\] are the routed rows of expert e, layer l, in block b, and T\[l,e\]
//! its share of the window's. Exchange units of nearly equal tokens and attention between blocks of a slot group so that the
//! unlikeness Σ_b Σ_l Γ_l²·Σ_e (V\[b,l,e\] − T\[l,e\]·Σ_e V\[b,l,e\])² is least.
//! Method: simulated annealing by such exchanges. What a unit adds to the differences of its block is sketched: every (part,
//! layer, expert) goes to one of [`DIMENSIONS`] sums with a random sign, which keeps lengths and angles on average (count
//! sketch), so an exchange is judged in O(DIMENSIONS), whatever the model. Layers whose busiest expert is more than an even
//! rank cannot be levelled and do not count. Blocks that a long unit paces keep their units, chosen for what fits beside it
//! ([`crate::rich_cells`]).
//! Complexity: O(U·parts·L·(E + DIMENSIONS)) to sketch, O(DIMENSIONS) a proposal; memory U·DIMENSIONS floats.
//! References: M. Charikar, K. Chen and M. Farach-Colton, Finding frequent items in data streams, ICALP 2002,
//! doi 10.1007/3-540-45465-9_59 (sketch); annealing as in [`crate::balance`].

use rayon::prelude::*;
use routepack_anneal::{Stream, accepts, elementary};
use routepack_problem::Instance;

use crate::grid::Grid;
use crate::units::Units;

/// Sums of a sketch.
const DIMENSIONS: usize = 512;
/// Floats summed side by side.
const LANES: usize = 16;
/// Units sketched between two looks at `stop`.
const BETWEEN_LOOKS: usize = 8;
/// Proposals per unit.
const PROPOSALS: usize = 800;
/// Steps of temperature.
const TEMPERATURES: usize = 24;
/// First and last temperature as a fraction of the unlikeness at first.
const HOTTEST: f64 = 2e-3;
const COLDEST: f64 = 2e-6;
/// Units are exchanged with one of the next so many by tokens.
const REACH: usize = 8;
/// They differ by less than one part in so many, or balancing could not make up for it.
const PRECISION: u64 = 150;

/// Exchanges units between the blocks of a layout; the cell of every unit then.
pub(crate) fn make_alike(
    instance: &Instance,
    units: &Units,
    cell_of: &[u32],
    stream: &mut Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<u32> {
    let grid = Grid::new(units, cell_of.to_vec());
    let is_paced = paced_blocks(units, &grid);
    let mut order: Vec<u32> = (0..units.num_units() as u32)
        .filter(|&unit| !is_paced[units.block_of[cell_of[unit as usize] as usize] as usize])
        .collect();
    order.sort_by_key(|&unit| (units.tokens[unit as usize], unit));
    let sketches = Sketches::new(instance, units, &mut stream.child(0), stop);
    let (Some(sketches), true) = (sketches, order.len() > 1) else { return grid.cell_of };
    let mut blocks = Blocks::new(units, &sketches, grid);
    let start = blocks.unlikeness;
    let (mut least, mut best) = (start, blocks.cell_of.clone());
    for step in 0..TEMPERATURES {
        if stop() {
            break;
        }
        let fraction = step as f64 / (TEMPERATURES - 1) as f64;
        let temperature = start * HOTTEST * elementary::exp(fraction * elementary::ln(COLDEST / HOTTEST));
        for _ in 0..order.len() * PROPOSALS / TEMPERATURES {
            let place = stream.index(order.len());
            let Some(&j) = order.get(place + 1 + stream.index(REACH)) else { continue };
            let pair = [order[place] as usize, j as usize];
            if blocks.may_exchange(pair) && accepts(blocks.change(pair), temperature, stream) {
                blocks.exchange(pair);
                if blocks.unlikeness < least {
                    least = blocks.unlikeness;
                    best.clone_from(&blocks.cell_of);
                }
            }
        }
    }
    best
}

/// Whether cells of a block have attention left beside that of its longest unit, of every block.
fn paced_blocks(units: &Units, grid: &Grid) -> Vec<bool> {
    let mut longest = vec![0; units.num_blocks() * units.kinds];
    for (unit, &cell) in grid.cell_of.iter().enumerate() {
        let of_block = &mut longest[units.block_of[cell as usize] as usize * units.kinds..];
        of_block
            .iter_mut()
            .zip(units.attention(unit))
            .for_each(|(longest, &cost)| *longest = cost.max(*longest));
    }
    let is_paced = |(block, longest): (usize, &[u64])| {
        let sums = grid.attention_of_kinds(units, block);
        sums.iter()
            .zip(longest)
            .any(|((sum, _), longest)| *sum < longest.saturating_mul(units.slots_per_group as u64))
    };
    longest.chunks(units.kinds).enumerate().map(is_paced).collect()
}

/// Sketches of what every unit adds to the differences of its block, `[units][DIMENSIONS]`.
struct Sketches(Vec<f32>);

/// How the rows of a layer's experts, in one part, are sketched.
struct Hashed {
    part: usize,
    layer: usize,
    /// Sum of every expert, and the weight of the layer with a random sign.
    experts: Vec<(u32, f32)>,
    /// Sketch of one row at the window's shares.
    mean: Vec<f32>,
}

impl Sketches {
    /// `None` if stopped.
    fn new(
        instance: &Instance,
        units: &Units,
        stream: &mut Stream,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let hashed = hash(instance, units, stream);
        let mut sketches = vec![0.0; units.num_units() * DIMENSIONS];
        let finished =
            sketches.par_chunks_mut(BETWEEN_LOOKS * DIMENSIONS).enumerate().all(|(chunk, sketches)| {
                for (index, sketch) in sketches.chunks_exact_mut(DIMENSIONS).enumerate() {
                    let members = instance.unit(chunk * BETWEEN_LOOKS + index);
                    hashed.iter().for_each(|hashed| hashed.add(instance, members, sketch));
                }
                !stop()
            });
        finished.then_some(Self(sketches))
    }

    fn of(&self, unit: usize) -> &[f32] {
        &self.0[unit * DIMENSIONS..][..DIMENSIONS]
    }
}

impl Hashed {
    /// Adds some samples to a sketch.
    fn add(&self, instance: &Instance, samples: &[u32], sketch: &mut [f32]) {
        let mut rows = 0;
        for &sample in samples {
            instance.for_each_count(sample as usize, self.part, self.layer, |expert, count| {
                let (sum, weight) = self.experts[expert];
                sketch[sum as usize] += weight * count as f32;
                rows += count;
            });
        }
        sketch.iter_mut().zip(&self.mean).for_each(|(value, mean)| *value -= rows as f32 * mean);
    }
}

/// The layers that can be levelled.
fn hash(instance: &Instance, units: &Units, stream: &mut Stream) -> Vec<Hashed> {
    let demand = &units.demand;
    let layers = 0..demand.num_layers();
    let heaviest = layers.clone().map(|layer| demand.weight(layer)).max().unwrap_or(0).max(1) as f32;
    let loads = &instance.expert_loads()[layers];
    let mut hashed = Vec::new();
    for (layer, loads) in loads.iter().enumerate() {
        let all: u64 = loads.iter().sum();
        let busiest = loads.iter().copied().max().unwrap_or(0);
        if busiest.saturating_mul(demand.num_ranks() as u64) > all {
            continue;
        }
        let weight = demand.weight(layer) as f32 / heaviest;
        for part in 0..units.parts() {
            let experts: Vec<(u32, f32)> = loads
                .iter()
                .map(|_| {
                    let sign = if stream.index(2) == 0 { weight } else { -weight };
                    (stream.index(DIMENSIONS) as u32, sign)
                })
                .collect();
            let mut mean = vec![0.0; DIMENSIONS];
            for (&(sum, weight), &load) in experts.iter().zip(loads) {
                mean[sum as usize] += weight * (load as f64 / all.max(1) as f64) as f32;
            }
            hashed.push(Hashed { part, layer, experts, mean });
        }
    }
    hashed
}

/// The blocks of a layout, and how unlike they are.
struct Blocks<'a> {
    units: &'a Units,
    sketches: &'a Sketches,
    cell_of: Vec<u32>,
    /// Tokens and samples of every cell.
    tokens: Vec<u32>,
    samples: Vec<u32>,
    /// Sketched differences, `[blocks][DIMENSIONS]`.
    sums: Vec<f32>,
    unlikeness: f64,
}

impl<'a> Blocks<'a> {
    fn new(units: &'a Units, sketches: &'a Sketches, grid: Grid) -> Self {
        let mut sums = vec![0.0; units.num_blocks() * DIMENSIONS];
        for (unit, &cell) in grid.cell_of.iter().enumerate() {
            let block = units.block_of[cell as usize] as usize;
            let of_block = sums[block * DIMENSIONS..].iter_mut().zip(sketches.of(unit));
            of_block.for_each(|(sum, value)| *sum += value);
        }
        let unlikeness = sums.iter().map(|&sum| f64::from(sum) * f64::from(sum)).sum();
        let Grid { cell_of, tokens, samples, .. } = grid;
        Self { units, sketches, cell_of, tokens, samples, sums, unlikeness }
    }

    fn block_of(&self, unit: usize) -> usize {
        self.units.block_of[self.cell_of[unit] as usize] as usize
    }

    /// Whether two units are of different blocks of one slot group, nearly equal, and fit in each other's cells.
    fn may_exchange(&self, [i, j]: [usize; 2]) -> bool {
        let units = self.units;
        let [a, b] = [i, j].map(|unit| self.block_of(unit));
        let near = |x: u64, y: u64| x.abs_diff(y) <= x.max(y) / PRECISION;
        let fits = |unit: usize, other: usize| {
            let cell = self.cell_of[other] as usize;
            self.tokens[cell] - units.tokens[other] + units.tokens[unit] <= units.capacity
                && self.samples[cell] - units.samples[other] + units.samples[unit] <= units.max_samples
        };
        a != b
            && a % units.groups == b % units.groups
            && near(units.tokens[i].into(), units.tokens[j].into())
            && units.attention(i).iter().zip(units.attention(j)).all(|(&x, &y)| near(x, y))
            && fits(i, j)
            && fits(j, i)
    }

    /// What an exchange changes the unlikeness by.
    fn change(&self, [i, j]: [usize; 2]) -> f64 {
        let of_block = |unit: usize| &self.sums[self.block_of(unit) * DIMENSIONS..][..DIMENSIONS];
        let change = half_change([of_block(i), of_block(j)], [self.sketches.of(i), self.sketches.of(j)]);
        2.0 * f64::from(change)
    }

    fn exchange(&mut self, [i, j]: [usize; 2]) {
        self.unlikeness += self.change([i, j]);
        let [a, b] = [i, j].map(|unit| self.block_of(unit) * DIMENSIONS);
        for at in 0..DIMENSIONS {
            let shift = self.sketches.of(j)[at] - self.sketches.of(i)[at];
            self.sums[a + at] += shift;
            self.sums[b + at] -= shift;
        }
        let cells = [i, j].map(|unit| self.cell_of[unit] as usize);
        for (unit, [from, to]) in [(i, cells), (j, [cells[1], cells[0]])] {
            self.tokens[from] -= self.units.tokens[unit];
            self.samples[from] -= self.units.samples[unit];
            self.tokens[to] += self.units.tokens[unit];
            self.samples[to] += self.units.samples[unit];
            self.cell_of[unit] = to as u32;
        }
    }
}

/// ½·(|a + d|² − |a|² + |b − d|² − |b|²) = Σ d·(a − b + d) for d = y − x.
fn half_change([a, b]: [&[f32]; 2], [x, y]: [&[f32]; 2]) -> f32 {
    let mut sums = [0.0f32; LANES];
    let [a, b, x, y] = [a, b, x, y].map(|values| values.as_chunks::<LANES>().0);
    for (((a, b), x), y) in a.iter().zip(b).zip(x).zip(y) {
        for lane in 0..LANES {
            let shift = y[lane] - x[lane];
            sums[lane] += shift * (a[lane] - b[lane] + shift);
        }
    }
    sums.iter().sum()
}

#[cfg(test)]
pub(crate) mod tests {
    use proptest::prelude::*;
    use routepack_generate::{Preset, window};
    use routepack_problem::{Placement, prepare};

    use super::*;
    use crate::spread_bins::layout_of;
    use crate::support::recipes;

    /// A window whose cells are filled first-fit decreasing: many are full, of tokens or samples.
    pub(crate) fn filled(seed: u64) -> (Instance, Units, Vec<u32>) {
        let mut recipe = Preset::Tiny.recipe();
        recipe.prompts = 24;
        recipe.routing.as_mut().expect("routes").layers = 4;
        let mut generated = window(&recipe, seed).expect("valid");
        generated.setting.packing.max_samples = Some(10);
        let instance =
            prepare(generated.batch.into(), &generated.setting).expect("valid").instances.remove(0);
        let (ranks, slots) = (instance.topology().num_ranks(), instance.topology().num_slots());
        let placement =
            Placement::identity(instance.num_layers(), instance.num_experts(), ranks).expect("divisible");
        let tokens = |unit: usize| instance.unit_tokens(unit);
        let mut order: Vec<usize> = (0..instance.num_units()).collect();
        order.sort_by_key(|&unit| std::cmp::Reverse(tokens(unit)));
        let (mut cells, mut cell_of) = (Vec::<(u64, u32)>::new(), vec![0; order.len()]);
        for unit in order {
            let fits = |&(filled, samples): &(u64, u32)| {
                filled + tokens(unit) <= u64::from(instance.cell_capacity()) && samples < 10
            };
            let cell = cells.iter().position(fits).unwrap_or(cells.len());
            if cell == cells.len() {
                cells.push((0, 0));
            }
            cells[cell].0 += tokens(unit);
            cells[cell].1 += 1;
            cell_of[unit] = cell as u32;
        }
        let rows = cells.len().div_ceil(slots);
        // The last row's empty cells take one sample each of fuller ones.
        let used = cells.len();
        cells.resize(rows * slots, (0, 1));
        for cell in used..cells.len() {
            let fuller = |&unit: &usize| cells[cell_of[unit] as usize].1 > 1 && tokens(unit) < 1000;
            let unit = (0..cell_of.len()).find(fuller).expect("many samples are short");
            cells[cell_of[unit] as usize].1 -= 1;
            cell_of[unit] = cell as u32;
        }
        // Full cells and others in every row.
        cell_of.iter_mut().for_each(|cell| *cell = *cell % rows as u32 * slots as u32 + *cell / rows as u32);
        let units = Units::new(&instance, &placement, rows).expect("enough units");
        (instance, units, cell_of)
    }

    /// What is wrong with a layout, if anything.
    pub(crate) fn flaw(instance: &Instance, units: &Units, cell_of: &[u32]) -> Option<String> {
        let layout = layout_of(instance, units, cell_of);
        routepack_problem::check_layout(instance, &layout).err().map(|error| error.to_string())
    }

    /// Σ_b Σ_l Σ_e (V − T·ΣV)² of one part and equal weights, layer by layer, from the counts.
    fn unlikeness(instance: &Instance, units: &Units, cell_of: &[u32]) -> f64 {
        let mut sum = 0.0;
        for (layer, loads) in instance.expert_loads().iter().enumerate() {
            let all = loads.iter().sum::<u64>() as f64;
            for block in 0..units.num_blocks() {
                let mut rows = vec![0.0; loads.len()];
                for unit in (0..units.num_units())
                    .filter(|&unit| units.block_of[cell_of[unit] as usize] as usize == block)
                {
                    for &sample in instance.unit(unit) {
                        instance.for_each_count(sample as usize, 0, layer, |expert, count| {
                            rows[expert] += f64::from(count);
                        });
                    }
                }
                let total: f64 = rows.iter().sum();
                let difference = |(&rows, &load): (&f64, &u64)| (rows - total * load as f64 / all).powi(2);
                sum += rows.iter().zip(loads).map(difference).sum::<f64>();
            }
        }
        sum
    }

    #[test]
    fn blocks_come_out_alike() {
        for seed in 0..3 {
            let (instance, units, cell_of) = filled(seed);
            assert_eq!(flaw(&instance, &units, &cell_of), None);
            let before = unlikeness(&instance, &units, &cell_of);
            let alike = make_alike(&instance, &units, &cell_of, &mut Stream::new(seed), &|| false);
            let after = unlikeness(&instance, &units, &alike);
            assert!(after < 0.99 * before, "{after} of {before}");
            assert_eq!(flaw(&instance, &units, &alike), None);
        }
    }

    #[test]
    fn sketches_keep_what_is_searched_by() {
        let (instance, units, cell_of) = filled(3);
        let sketches = Sketches::new(&instance, &units, &mut Stream::new(1), &|| false).expect("not stopped");
        let mut blocks = Blocks::new(&units, &sketches, Grid::new(&units, cell_of.clone()));
        let exact = unlikeness(&instance, &units, &cell_of);
        assert!((blocks.unlikeness / exact - 1.0).abs() < 0.2, "{} for {exact}", blocks.unlikeness);
        // Kept up to date by exchanges, as by a new start.
        let mut stream = Stream::new(2);
        let mut made = 0;
        while made < 300 {
            let pair = [(); 2].map(|()| stream.index(units.num_units()));
            if blocks.block_of(pair[0]) != blocks.block_of(pair[1]) {
                blocks.exchange(pair);
                made += 1;
            }
        }
        let anew = Blocks::new(&units, &sketches, Grid::new(&units, blocks.cell_of.clone()));
        assert!((blocks.unlikeness / anew.unlikeness - 1.0).abs() < 1e-3);
        assert_eq!((&blocks.tokens, &blocks.samples), (&anew.tokens, &anew.samples));
    }

    proptest! {
        /// Blocks hold as many units of every length as before, within the precision; paced ones those they had.
        #[test]
        fn layouts_stay_feasible(recipe in recipes(12)) {
            let case = recipe.build();
            let Ok(units) = Units::new(&case.instance, &case.placement, recipe.rows) else { return Ok(()) };
            let first = units.cells_of_units(&case.instance, &case.first);
            let alike = make_alike(&case.instance, &units, &first, &mut Stream::new(recipe.seed), &|| false);
            prop_assert_eq!(flaw(&case.instance, &units, &alike), None);
            let is_paced = paced_blocks(&units, &Grid::new(&units, first.clone()));
            for unit in 0..units.num_units() {
                let block = |cell_of: &[u32]| units.block_of[cell_of[unit] as usize] as usize;
                let [was, is] = [block(&first), block(&alike)];
                prop_assert_eq!(was % units.groups, is % units.groups);
                prop_assert!(was == is || !is_paced[was] && !is_paced[is]);
            }
        }
    }
}
