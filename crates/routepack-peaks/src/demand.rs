//! The demand of every unit, laid out for the kernels.

use rayon::prelude::*;
use routepack_problem::{Instance, Placement};

use crate::PeaksError;
use crate::kernels::{Chunk, LANES, Rows, Weights};
use crate::pads::Pads;

/// q of every unit under a placement, with the layer weights Γ and the rules for padding: all that loads depend on.
///
/// Layout `[unit][part][chunk of 16 layers][rank][16 layers]`, in routed rows, 16 bits each where every value fits,
/// else 32; one more unit of zeros stands in for "nobody". Memory: units · parts · P · 16·⌈L/16⌉ · 2 or 4 bytes.
#[derive(Clone, Debug)]
pub struct Demand {
    pub(crate) shape: Shape,
    pub(crate) values: Values,
    /// Γ.
    pub(crate) weights: Weights,
    pub(crate) pads: Pads,
    /// `Σ_l Γ_l · Σ_p q` of every unit and part.
    floors: Vec<u64>,
}

/// Dimensions shared by demands and loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) units: usize,
    pub(crate) parts: usize,
    pub(crate) layers: usize,
    pub(crate) ranks: usize,
}

impl Shape {
    pub(crate) fn chunks(&self) -> usize {
        self.layers.div_ceil(LANES)
    }

    /// Chunks of values per unit (or block) and part.
    pub(crate) fn stride(&self) -> usize {
        self.chunks() * self.ranks
    }

    /// Where `(layer, rank)` lies within a unit and part: chunk and lane.
    pub(crate) fn place(&self, layer: usize, rank: usize) -> (usize, usize) {
        (layer / LANES * self.ranks + rank, layer % LANES)
    }
}

#[derive(Clone, Debug)]
pub(crate) enum Values {
    Narrow(Vec<Chunk<u16>>),
    Wide(Vec<Chunk<u32>>),
}

impl Demand {
    /// Projects the counts of an instance through a placement, on the threads of the current rayon pool.
    ///
    /// Complexity O(n · parts · L · E). An instance without counts gives a demand without layers: every cost is 0.
    ///
    /// # Errors
    /// A full row could overflow 32 bits, or the placement has other dimensions than the instance.
    pub fn new(instance: &Instance, placement: &Placement) -> Result<Self, PeaksError> {
        let topology = instance.topology();
        let shape = Shape {
            units: instance.num_units(),
            parts: topology.num_parts(),
            layers: instance.num_layers(),
            ranks: topology.num_ranks(),
        };
        check(instance, placement)?;
        let rank_of: Vec<u32> = (0..shape.layers)
            .flat_map(|layer| (0..instance.num_experts()).map(move |expert| (layer, expert)))
            .map(|(layer, expert)| placement.rank_of(layer, expert) as u32)
            .collect();
        let values = match lay_out::<u16>(instance, &rank_of, shape) {
            Some(values) => Values::Narrow(values),
            None => Values::Wide(
                lay_out::<u32>(instance, &rank_of, shape).expect("demands are below the checked bound 2^32"),
            ),
        };
        let weights = Weights::new(&instance.charges().expert()[..shape.layers]);
        let pads = Pads::new(instance, placement, shape);
        let mut demand = Self { shape, values, weights, pads, floors: Vec::new() };
        demand.floors = (0..shape.units * shape.parts)
            .into_par_iter()
            .with_min_len(64)
            .map(|index| demand.weigh(index / shape.parts, index % shape.parts))
            .collect();
        Ok(demand)
    }

    /// A demand without layers for the units of an instance: every cost is 0.
    pub fn none(instance: &Instance) -> Self {
        let topology = instance.topology();
        let shape = Shape {
            units: instance.num_units(),
            parts: topology.num_parts(),
            layers: 0,
            ranks: topology.num_ranks(),
        };
        let floors = vec![0; shape.units * shape.parts];
        Self {
            shape,
            values: Values::Narrow(Vec::new()),
            weights: Weights::new(&[]),
            pads: Pads::None,
            floors,
        }
    }

    /// Units: atomic groups and free samples, numbered as in the instance.
    pub fn num_units(&self) -> usize {
        self.shape.units
    }

    /// Parts a DP slot's tokens are cut into; 1 unless m < 1.
    pub fn num_parts(&self) -> usize {
        self.shape.parts
    }

    /// Layers L; 0 without counts.
    pub fn num_layers(&self) -> usize {
        self.shape.layers
    }

    /// EP ranks P.
    pub fn num_ranks(&self) -> usize {
        self.shape.ranks
    }

    /// Whether demands take 16 bits each.
    pub fn is_narrow(&self) -> bool {
        matches!(self.values, Values::Narrow(_))
    }

    /// Whether padding tokens are charged: if so, exchanges must state the padding tokens of both blocks.
    pub fn charges_padding(&self) -> bool {
        self.shape.layers > 0 && self.pads.are_charged()
    }

    /// Demand of one unit on one rank, in routed rows.
    pub fn of(&self, unit: usize, part: usize, layer: usize, rank: usize) -> u32 {
        let (chunk, lane) = self.shape.place(layer, rank);
        let chunk = (unit * self.shape.parts + part) * self.shape.stride() + chunk;
        match &self.values {
            Values::Narrow(values) => u32::from(values[chunk][lane]),
            Values::Wide(values) => values[chunk][lane],
        }
    }

    /// Γ of a layer.
    pub fn weight(&self, layer: usize) -> u64 {
        self.weights.of(layer)
    }

    /// `Σ_l Γ_l · Σ_p q[l,p]` of a unit and part: divided by P and added up over a block, it is the cost the block
    /// would have if its recorded demand were perfectly balanced, and never more than its cost.
    pub fn floor(&self, unit: usize, part: usize) -> u64 {
        self.floors[unit * self.shape.parts + part]
    }

    fn weigh(&self, unit: usize, part: usize) -> u64 {
        let range = self.range(Some(unit), part);
        match &self.values {
            Values::Narrow(values) => self.weigh_rows(&values[range]),
            Values::Wide(values) => self.weigh_rows(&values[range]),
        }
    }

    fn weigh_rows<T: Rows>(&self, values: &[Chunk<T>]) -> u64 {
        let mut cost = 0;
        for (chunk, values) in values.chunks_exact(self.shape.ranks).enumerate() {
            for lane in 0..LANES.min(self.shape.layers - chunk * LANES) {
                let rows: u64 = values.iter().map(|values| u64::from(values[lane].widen())).sum();
                cost += self.weight(chunk * LANES + lane) * rows;
            }
        }
        cost
    }

    /// The range of a unit and part in the values; the unit behind the last one is all zeros.
    #[inline]
    pub(crate) fn range(&self, unit: Option<usize>, part: usize) -> std::ops::Range<usize> {
        let stride = self.shape.stride();
        let start = (unit.unwrap_or(self.shape.units) * self.shape.parts + part) * stride;
        start..start + stride
    }
}

fn check(instance: &Instance, placement: &Placement) -> Result<(), PeaksError> {
    let topology = instance.topology();
    let layers = instance.num_layers();
    if layers == 0 {
        return Ok(());
    }
    for (what, found, expected) in [
        ("layers", placement.num_layers(), layers),
        ("experts per layer", placement.num_experts(), instance.num_experts()),
        ("EP ranks", placement.num_ranks(), topology.num_ranks()),
    ] {
        if found != expected {
            return Err(PeaksError::Placement { what, found, expected });
        }
    }
    let (slots, capacity) = (topology.slots_per_shard(), instance.cell_capacity());
    let top_k = instance.setting().routing.top_k;
    let bound = slots as u128 * u128::from(capacity) * u128::from(top_k);
    if bound >= 1 << 32 {
        return Err(PeaksError::LoadOverflow { slots, capacity, top_k, bound });
    }
    Ok(())
}

/// The values of every unit, and a unit of zeros; `None` when one does not fit `T`.
fn lay_out<T: Rows>(instance: &Instance, rank_of: &[u32], shape: Shape) -> Option<Vec<Chunk<T>>> {
    let per_unit = shape.parts * shape.stride();
    let mut values = vec![[T::default(); LANES]; (shape.units + 1) * per_unit];
    if per_unit == 0 {
        return Some(values);
    }
    let experts = instance.num_experts();
    let fits =
        values[..shape.units * per_unit].par_chunks_exact_mut(per_unit).with_min_len(8).enumerate().all(
            |(unit, values)| {
                let mut rows = vec![0u32; shape.ranks];
                for part in 0..shape.parts {
                    for layer in 0..shape.layers {
                        rows.fill(0);
                        let rank_of = &rank_of[layer * experts..(layer + 1) * experts];
                        for &sample in instance.unit(unit) {
                            instance.for_each_count(sample as usize, part, layer, |expert, count| {
                                let rows = &mut rows[rank_of[expert] as usize];
                                *rows = rows.wrapping_add(count);
                            });
                        }
                        for (rank, &rows) in rows.iter().enumerate() {
                            let (chunk, lane) = shape.place(layer, rank);
                            let Ok(rows) = T::try_from(rows) else { return false };
                            values[part * shape.stride() + chunk][lane] = rows;
                        }
                    }
                }
                true
            },
        );
    fits.then_some(values)
}
