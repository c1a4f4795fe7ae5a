//! The demand of every unit, laid out for the kernels.

use rayon::prelude::*;
use routepack_problem::{Instance, Placement};

use crate::PeaksError;
use crate::kernels::{Chunk, LANES, Rows, Weights};
use crate::pads::Pads;

/// q of every unit under a placement, with the layer weights Γ and the rules for padding: all that loads depend on.
///
/// A *share* is what is charged apart: the layers of one part that one pipeline stage has, if the slowest stage paces,
/// else all; share = part · stages + stage.
///
/// Layout `[unit][share][chunk of 16 layers][rank][16 layers]`, in routed rows, 16 bits each where every value fits,
/// else 32; one more unit of zeros stands in for "nobody". Memory: units · shares · P · 16·⌈L/16⌉ · 2 or 4 bytes, L
/// being the most layers of a share.
#[derive(Clone, Debug)]
pub struct Demand {
    pub(crate) shape: Shape,
    pub(crate) values: Values,
    /// Γ, by stage.
    pub(crate) weights: Vec<Weights>,
    pub(crate) pads: Pads,
    /// Stage of every layer, and its place among the layers of that stage.
    pub(crate) places: Vec<(usize, usize)>,
    /// `Σ_l Γ_l · Σ_p q` of every unit and share.
    floors: Vec<u64>,
}

/// Dimensions shared by demands and loads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub(crate) units: usize,
    pub(crate) parts: usize,
    pub(crate) stages: usize,
    /// Most layers of a stage.
    pub(crate) depth: usize,
    pub(crate) ranks: usize,
}

impl Shape {
    fn of(instance: &Instance, places: &[(usize, usize)]) -> Self {
        let topology = instance.topology();
        Self {
            units: instance.num_units(),
            parts: topology.num_parts(),
            stages: instance.paced_stages(),
            depth: places.iter().map(|&(_, place)| place + 1).max().unwrap_or(0),
            ranks: topology.num_ranks(),
        }
    }

    pub(crate) fn shares(&self) -> usize {
        self.parts * self.stages
    }

    pub(crate) fn chunks(&self) -> usize {
        self.depth.div_ceil(LANES)
    }

    /// Chunks of values per unit (or block) and share.
    pub(crate) fn stride(&self) -> usize {
        self.chunks() * self.ranks
    }

    /// Where the layer at `place` of its stage and a rank lie within a unit and share: chunk and lane.
    pub(crate) fn place(&self, place: usize, rank: usize) -> (usize, usize) {
        (place / LANES * self.ranks + rank, place % LANES)
    }
}

/// Stage of every layer that is charged, and its place there.
fn places(instance: &Instance, layers: usize) -> Vec<(usize, usize)> {
    let mut filled = vec![0; instance.paced_stages()];
    (0..layers)
        .map(|layer| {
            let stage = instance.paced_stage(layer);
            filled[stage] += 1;
            (stage, filled[stage] - 1)
        })
        .collect()
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
        Ok(Self::new_unless(instance, placement, &|| false)?.expect("nothing stops it"))
    }

    /// [`Demand::new`], or `None` as soon as `stop` says so, which is asked every few units.
    ///
    /// # Errors
    /// As [`Demand::new`].
    pub fn new_unless(
        instance: &Instance,
        placement: &Placement,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, PeaksError> {
        check(instance, placement)?;
        let places = places(instance, instance.num_layers());
        let shape = Shape::of(instance, &places);
        let Some(values) = Values::lay_out(instance, placement, shape, &places, stop) else {
            return Ok(None);
        };
        let by_stage = |stage: usize| -> Vec<u64> {
            let weights = instance.charges().expert().iter().zip(&places);
            weights.filter(|(_, place)| place.0 == stage).map(|(&weight, _)| weight).collect()
        };
        let by_stage: Vec<Vec<u64>> = (0..shape.stages).map(by_stage).collect();
        let pads = Pads::new(instance, placement, shape, &places, &by_stage);
        let weights = by_stage.iter().map(|weights| Weights::new(weights, shape.chunks())).collect();
        let mut demand = Self { shape, values, weights, pads, places, floors: Vec::new() };
        demand.floors = (0..shape.units * shape.shares())
            .into_par_iter()
            .with_min_len(64)
            .map(|index| demand.weigh(index / shape.shares(), index % shape.shares()))
            .collect();
        Ok(Some(demand))
    }

    /// A demand without layers for the units of an instance: every cost is 0.
    pub fn none(instance: &Instance) -> Self {
        let shape = Shape::of(instance, &[]);
        let floors = vec![0; shape.units * shape.shares()];
        Self {
            shape,
            values: Values::Narrow(Vec::new()),
            weights: vec![Weights::new(&[], 0); shape.stages],
            pads: Pads::None,
            places: Vec::new(),
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

    /// Shares that are charged apart: parts · paced pipeline stages.
    pub fn num_shares(&self) -> usize {
        self.shape.shares()
    }

    /// Pipeline stages charged apart; 1 unless the slowest stage paces.
    pub fn num_stages(&self) -> usize {
        self.shape.stages
    }

    /// The stage that a layer is charged to.
    pub fn stage(&self, layer: usize) -> usize {
        self.places[layer].0
    }

    /// Layers L; 0 without counts.
    pub fn num_layers(&self) -> usize {
        self.places.len()
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
        self.num_layers() > 0 && self.pads.are_charged()
    }

    /// Demand of one unit on one rank, in routed rows.
    pub fn of(&self, unit: usize, part: usize, layer: usize, rank: usize) -> u32 {
        let (share, chunk, lane) = self.find(part, layer, rank);
        let chunk = (unit * self.shape.shares() + share) * self.shape.stride() + chunk;
        match &self.values {
            Values::Narrow(values) => u32::from(values[chunk][lane]),
            Values::Wide(values) => values[chunk][lane],
        }
    }

    /// Share, chunk within it, and lane of one part, layer and rank.
    pub(crate) fn find(&self, part: usize, layer: usize, rank: usize) -> (usize, usize, usize) {
        let (stage, place) = self.places[layer];
        let (chunk, lane) = self.shape.place(place, rank);
        (part * self.shape.stages + stage, chunk, lane)
    }

    /// Γ of a layer.
    pub fn weight(&self, layer: usize) -> u64 {
        let (stage, place) = self.places[layer];
        self.weights[stage].of(place)
    }

    /// `Σ_l Γ_l · Σ_p q[l,p]` of a unit and share: divided by P and added up over a block, it is the cost the block
    /// would have if its recorded demand were perfectly balanced, and never more than its cost.
    pub fn floor(&self, unit: usize, share: usize) -> u64 {
        self.floors[unit * self.shape.shares() + share]
    }

    fn weigh(&self, unit: usize, share: usize) -> u64 {
        let (range, weights) = (self.range(Some(unit), share), self.weights_of(share));
        match &self.values {
            Values::Narrow(values) => self.weigh_rows(&values[range], weights),
            Values::Wide(values) => self.weigh_rows(&values[range], weights),
        }
    }

    fn weigh_rows<T: Rows>(&self, values: &[Chunk<T>], weights: &Weights) -> u64 {
        let mut cost = 0;
        for (chunk, values) in values.chunks_exact(self.shape.ranks).enumerate() {
            for lane in 0..LANES {
                let rows: u64 = values.iter().map(|values| u64::from(values[lane].widen())).sum();
                cost += weights.of(chunk * LANES + lane) * rows;
            }
        }
        cost
    }

    /// Γ of the layers of a share.
    #[inline]
    pub(crate) fn weights_of(&self, share: usize) -> &Weights {
        // No division where there is nothing to divide.
        if let [weights] = &self.weights[..] { weights } else { &self.weights[share % self.shape.stages] }
    }

    /// The range of a unit and share in the values; the unit behind the last one is all zeros.
    #[inline]
    pub(crate) fn range(&self, unit: Option<usize>, share: usize) -> std::ops::Range<usize> {
        let stride = self.shape.stride();
        let start = (unit.unwrap_or(self.shape.units) * self.shape.shares() + share) * stride;
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

impl Values {
    /// The values of every unit, and a unit of zeros; `None` when stopped.
    fn lay_out(
        instance: &Instance,
        placement: &Placement,
        shape: Shape,
        places: &[(usize, usize)],
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Option<Self> {
        let experts: Vec<Vec<u32>> = (0..places.len()).map(|layer| placement.experts(layer)).collect();
        let projection = Projection { instance, experts, shape, places, stop };
        match projection.lay_out::<u16>() {
            Ok(values) => Some(Self::Narrow(values)),
            Err(Halt::Stopped) => None,
            // Demands are below the checked bound 2^32.
            Err(Halt::TooLarge) => projection.lay_out::<u32>().ok().map(Self::Wide),
        }
    }
}

/// Why no values were laid out.
#[derive(Clone, Copy)]
enum Halt {
    /// One does not fit.
    TooLarge,
    /// From outside.
    Stopped,
}

/// Units between two looks at `stop`.
const BETWEEN_LOOKS: usize = 8;

/// What a pass over the counts needs.
struct Projection<'a> {
    instance: &'a Instance,
    /// Expert in every slot, `[layers][slots]`.
    experts: Vec<Vec<u32>>,
    shape: Shape,
    places: &'a [(usize, usize)],
    stop: &'a (dyn Fn() -> bool + Sync),
}

impl Projection<'_> {
    fn lay_out<T: Rows>(&self) -> Result<Vec<Chunk<T>>, Halt> {
        let shape = self.shape;
        let per_unit = shape.shares() * shape.stride();
        let mut values = vec![[T::default(); LANES]; (shape.units + 1) * per_unit];
        if per_unit > 0 {
            values[..shape.units * per_unit]
                .par_chunks_mut(per_unit * BETWEEN_LOOKS)
                .enumerate()
                .try_for_each(|(batch, values)| {
                    if (self.stop)() {
                        return Err(Halt::Stopped);
                    }
                    values.chunks_exact_mut(per_unit).enumerate().try_for_each(|(offset, values)| {
                        self.gather(batch * BETWEEN_LOOKS + offset, values).ok_or(Halt::TooLarge)
                    })
                })?;
        }
        Ok(values)
    }

    /// Every rank gathers the counts of its experts; `None` if a sum does not fit.
    fn gather<T: Rows>(&self, unit: usize, values: &mut [Chunk<T>]) -> Option<()> {
        let shape = self.shape;
        let mut rows = vec![0u32; shape.ranks];
        for part in 0..shape.parts {
            for (layer, (&(stage, place), experts)) in self.places.iter().zip(&self.experts).enumerate() {
                rows.fill(0);
                for &sample in self.instance.unit(unit) {
                    let counts = self.instance.counts(sample as usize, part, layer);
                    if counts.is_empty() {
                        continue;
                    }
                    for (rows, experts) in
                        rows.iter_mut().zip(experts.chunks_exact(experts.len() / shape.ranks))
                    {
                        *rows += experts.iter().map(|&expert| counts[expert as usize]).sum::<u32>();
                    }
                }
                let values = &mut values[(part * shape.stages + stage) * shape.stride()..];
                for (rank, &rows) in rows.iter().enumerate() {
                    let (chunk, lane) = shape.place(place, rank);
                    values[chunk][lane] = T::try_from(rows).ok()?;
                }
            }
        }
        Some(())
    }
}
