//! The units of an instance as the search sees them: what they take of a cell, what they cost, what they demand.

use routepack_peaks::Demand;
use routepack_problem::{Instance, Layout, Placement};

use crate::{ArrangeError, ArrangeOptions};

/// Everything about an instance, a placement and a number of rows that the moves consult; shared by all replicas.
///
/// Units are numbered as in the instance. Cell r·D + d is DP slot d in row r; block r·(slot groups) + k is slot group k
/// in row r. What is charged apart is a *share* of a block: the layers of one part (and of one pipeline stage, if the
/// slowest paces); share = part · stages + stage, and shards are numbered slot group · parts + part, as in the topology.
#[derive(Clone, Debug)]
pub(crate) struct Units {
    pub(crate) demand: Demand,
    pub(crate) rows: usize,
    pub(crate) slots: usize,
    pub(crate) groups: usize,
    pub(crate) slots_per_group: usize,
    pub(crate) kinds: usize,
    pub(crate) capacity: u32,
    pub(crate) max_samples: u32,
    /// Each cell is padded to a multiple of this many tokens.
    cell_multiple: u32,
    /// Block of every cell.
    pub(crate) block_of: Vec<u32>,
    /// Padded tokens of every unit.
    pub(crate) tokens: Vec<u32>,
    /// Samples of every unit.
    pub(crate) samples: Vec<u32>,
    /// Padding tokens within every unit.
    pub(crate) pads: Vec<u32>,
    /// φ of every unit, `[units, kinds]`.
    attention: Vec<u64>,
    /// What every unit adds to the cost of its block beside, `[units, shares]`; empty if nothing. See
    /// [`Units::with_light_peaks`].
    level: Vec<u64>,
}

/// A sweep takes about as long; with [`PROPOSAL_NANOSECONDS`] it only decides how often `stop` is looked at.
const SWEEP_NANOSECONDS: u64 = 1_000_000;
/// A proposal takes about as long, and a nanosecond more per four values of a demand.
const PROPOSAL_NANOSECONDS: u64 = 60;

/// How many sweeps a replica makes at each temperature, and of how many proposals.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SweepPlan {
    pub(crate) sweeps: u32,
    pub(crate) proposals: u32,
}

impl Units {
    /// The units of an instance under a placement, for layouts of `rows` rows.
    ///
    /// # Errors
    /// Fewer units than cells, or demands out of the kernels' range.
    pub(crate) fn new(instance: &Instance, placement: &Placement, rows: usize) -> Result<Self, ArrangeError> {
        Ok(Self { demand: Demand::new(instance, placement)?, ..Self::without_demand(instance, rows)? })
    }

    /// The same, or `None` as soon as `stop` says so.
    pub(crate) fn new_unless(
        instance: &Instance,
        placement: &Placement,
        rows: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, ArrangeError> {
        let units = Self::without_demand(instance, rows)?;
        Ok(Demand::new_unless(instance, placement, stop)?.map(|demand| Self { demand, ..units }))
    }

    /// The same with an empty demand: nothing that depends on a placement.
    pub(crate) fn without_demand(instance: &Instance, rows: usize) -> Result<Self, ArrangeError> {
        let topology = instance.topology();
        let (slots, groups) = (topology.num_slots(), topology.num_groups());
        let units = instance.num_units();
        if rows == 0 || units < rows.saturating_mul(slots) {
            return Err(ArrangeError::TooFewUnits { units, rows, slots });
        }
        let charges = instance.charges();
        let kinds = charges.num_kinds();
        let mut attention = vec![0; units * kinds];
        let (mut samples, mut pads) = (Vec::with_capacity(units), Vec::with_capacity(units));
        for unit in 0..units {
            let members = instance.unit(unit);
            samples.push(members.len() as u32);
            pads.push(members.iter().map(|&sample| instance.pad_tokens(sample as usize)).sum());
            for &sample in members {
                for (sum, &cost) in
                    attention[unit * kinds..].iter_mut().zip(charges.attention(sample as usize))
                {
                    *sum += cost;
                }
            }
        }
        Ok(Self {
            demand: Demand::none(instance),
            rows,
            slots,
            groups,
            slots_per_group: topology.slots_per_shard(),
            kinds,
            capacity: instance.cell_capacity(),
            max_samples: instance.setting().packing.max_samples.unwrap_or(u32::MAX),
            cell_multiple: instance.setting().packing.cell_multiple,
            block_of: (0..rows * slots)
                .map(|cell| (cell / slots * groups + topology.group_of(cell % slots)) as u32)
                .collect(),
            tokens: (0..units).map(|unit| instance.unit_tokens(unit) as u32).collect(),
            samples,
            pads,
            attention,
            level: Vec::new(),
        })
    }

    /// The cell of every unit in a layout.
    pub(crate) fn cells_of_units(&self, instance: &Instance, layout: &Layout) -> Vec<u32> {
        (0..self.num_units()).map(|unit| layout.cell_of()[instance.unit(unit)[0] as usize]).collect()
    }

    /// How the proposals of a round are cut into sweeps of about a millisecond.
    pub(crate) fn plan_sweeps(&self, options: &ArrangeOptions, round: u32) -> SweepPlan {
        let shorter = 2 * (options.rounds - 1 - round);
        let replicas = u64::from(options.population) * u64::from(options.temperatures);
        let all = (u64::from(options.proposals_per_unit) * self.num_units() as u64) >> shorter;
        let each = (all / replicas).max(1);
        let values = self.parts() * self.demand.num_layers().next_multiple_of(16) * self.demand.num_ranks();
        let most = (SWEEP_NANOSECONDS / (PROPOSAL_NANOSECONDS + values as u64 / 4)).clamp(64, 8192);
        let sweeps = each.div_ceil(most);
        SweepPlan { sweeps: sweeps as u32, proposals: each.div_ceil(sweeps) as u32 }
    }

    /// Units U.
    pub(crate) fn num_units(&self) -> usize {
        self.tokens.len()
    }

    /// Cells R·D.
    pub(crate) fn num_cells(&self) -> usize {
        self.block_of.len()
    }

    /// Blocks: rows × slot groups.
    pub(crate) fn num_blocks(&self) -> usize {
        self.rows * self.groups
    }

    /// Parts.
    pub(crate) fn parts(&self) -> usize {
        self.demand.num_parts()
    }

    /// Shares of a block that are charged apart: parts · paced stages.
    #[inline]
    pub(crate) fn shares(&self) -> usize {
        self.demand.num_shares()
    }

    /// What each paced stage is charged of an A.
    #[inline]
    pub(crate) fn of_stage(&self, attention: u64) -> u64 {
        let stages = self.demand.num_stages() as u64;
        if stages == 1 { attention } else { attention.div_ceil(stages) }
    }

    /// `U_g` of every shard, of the costs of its stages.
    pub(crate) fn paced(&self, stage_cost: &[u64]) -> impl Iterator<Item = u64> {
        stage_cost.chunks(self.demand.num_stages()).map(|stages| stages.iter().copied().max().unwrap_or(0))
    }

    /// The same with peaks that count only `percent` of what they exceed even loads by: W is charged
    /// percent·max_p + (100 − percent)·mean_p, and the mean is a sum over units.
    pub(crate) fn with_light_peaks(
        instance: &Instance,
        placement: &Placement,
        rows: usize,
        percent: u32,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Self>, ArrangeError> {
        let light = instance.with_expert_percent(percent);
        let Some(mut units) = Self::new_unless(&light, placement, rows, stop)? else { return Ok(None) };
        let demand = &units.demand;
        let (shares, stages, ranks) = (demand.num_shares(), demand.num_stages(), demand.num_ranks());
        let rests = instance.charges().expert().iter().zip(light.charges().expert());
        let rests: Vec<u64> = rests.map(|(whole, light)| whole - light).take(demand.num_layers()).collect();
        let mut level = vec![0; units.num_units() * shares];
        for (unit, level) in level.chunks_exact_mut(shares).enumerate() {
            for part in 0..demand.num_parts() {
                for (layer, rest) in rests.iter().enumerate() {
                    let all = (0..ranks).map(|rank| u64::from(demand.of(unit, part, layer, rank)));
                    level[part * stages + demand.stage(layer)] += rest * all.sum::<u64>();
                }
            }
            level.iter_mut().for_each(|level| *level /= ranks as u64);
        }
        units.level = level;
        Ok(Some(units))
    }

    /// What a unit adds to the cost of its block in a share, wherever it is.
    #[inline]
    pub(crate) fn level(&self, unit: usize, share: usize) -> u64 {
        if self.level.is_empty() { 0 } else { self.level[unit * self.shares() + share] }
    }

    /// Whether units add to the cost of their block beside attention and experts.
    #[inline]
    pub(crate) fn has_level(&self) -> bool {
        !self.level.is_empty()
    }

    /// φ of a unit, `[kinds]`.
    #[inline]
    pub(crate) fn attention(&self, unit: usize) -> &[u64] {
        &self.attention[unit * self.kinds..(unit + 1) * self.kinds]
    }

    /// The cells of a block.
    #[inline]
    pub(crate) fn cells_of(&self, block: usize) -> std::ops::Range<usize> {
        let start = block / self.groups * self.slots + block % self.groups * self.slots_per_group;
        start..start + self.slots_per_group
    }

    /// Padding tokens behind the samples of a cell that holds `tokens` padded tokens.
    #[inline]
    pub(crate) fn cell_padding(&self, tokens: u32) -> u64 {
        u64::from(tokens.next_multiple_of(self.cell_multiple) - tokens)
    }
}
