//! Instance: one window ready to plan, checked once and for all.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::cost::{ChargeInputs, scaled};
use crate::{
    Attribution, Batch, Charges, OversizePolicy, Pace, PadRoutes, ProblemError, ResolvedCost, RowsPolicy,
    Setting, Steps, Topology,
};

/// Most dummies of a step: what bounds the cells where samples do not.
const MAX_DUMMIES: usize = 1 << 16;

/// One window (optimizer step) with everything the objective needs, in integers.
///
/// Samples are numbered `0..n` in input order within the window; dummies, if any, follow them.
#[derive(Clone, Debug)]
pub struct Instance {
    batch: Arc<Batch>,
    setting: Arc<Setting>,
    topology: Topology,
    cost: ResolvedCost,
    pad_experts: Option<Vec<u32>>,
    step: i64,
    /// Batch index of every recorded sample of this window.
    members: Vec<u32>,
    num_dummies: usize,
    padded: Vec<u32>,
    units: Vec<Vec<u32>>,
    charges: Charges,
    /// What dummies may add to the totals.
    room: i128,
    row_cost: u64,
    /// Counts over the window, all parts, `[layers][experts]`.
    expert_loads: Arc<[Vec<u64>]>,
}

/// A sample left out under `oversize = "drop"`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Oversize {
    /// Index in the batch.
    pub sample: u32,
    /// Padded tokens of the sample, or of its atomic group.
    pub length: u64,
}

/// The instances of a batch and what was left out.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// One instance per optimizer step, steps ascending.
    pub instances: Vec<Instance>,
    /// Samples left out, in input order.
    pub dropped: Vec<Oversize>,
}

/// Turns a recorded batch into one instance per optimizer step, all at one cost scale.
///
/// # Errors
/// Whatever [`Batch::check`], [`Setting::check`] or [`Topology::new`] refuse; counts per part that do not match the
/// topology; a sample or atomic group longer than a cell unless they are dropped; totals beyond 2^62.
pub fn prepare(batch: Arc<Batch>, setting: &Setting) -> Result<Prepared, ProblemError> {
    prepare_without(batch, setting, &[])
}

/// [`prepare`] without some samples: those a filter took away after the batch was made, ascending.
///
/// # Errors
/// As [`prepare`]; `filtered` not ascending, out of range or left out already; a step without samples.
pub fn prepare_without(
    batch: Arc<Batch>,
    setting: &Setting,
    filtered: &[u32],
) -> Result<Prepared, ProblemError> {
    setting.check()?;
    batch.check_shapes(setting.routing.top_k)?;
    let topology = Topology::new(&setting.topology, batch.num_layers())?;
    check_experts(&batch, setting, &topology)?;
    let (top_k, layers) = (setting.routing.top_k, batch.num_layers());
    let cost = setting.cost.resolve(&setting.topology, &topology, setting.packing.capacity, layers, top_k)?;
    if let Some(table) = &batch.cost {
        if table.kinds != cost.kinds.len() {
            return Err(ProblemError::shape(
                "cost",
                &[batch.num_samples(), table.kinds],
                format!("[{}, {} attention kinds]", batch.num_samples(), cost.kinds.len()),
            ));
        }
    }
    let num_experts = batch.expert_counts.as_ref().map_or(0, crate::ExpertCounts::experts);
    let pad_experts = if num_experts == 0 { None } else { setting.pad_experts(num_experts)? };
    let multiple = u64::from(setting.packing.sample_multiple);
    let padded: Vec<u64> =
        batch.lengths.iter().map(|&length| u64::from(length).next_multiple_of(multiple)).collect();
    let (mut keep, dropped) = split_oversize(&batch, setting, &padded)?;
    filter(&batch, setting, &mut keep, filtered)?;
    // What is kept fits a cell; what was dropped is never looked at again.
    let padded: Vec<u32> =
        padded.into_iter().map(|length| u32::try_from(length).unwrap_or(u32::MAX)).collect();
    let left_out: Vec<u32> =
        dropped.iter().map(|oversize| oversize.sample).chain(filtered.iter().copied()).collect();
    batch.sum_counts(&left_out, top_k)?;
    let kept_padded: Vec<u32> = keep.iter().map(|&sample| padded[sample as usize]).collect();
    let table = batch.cost.as_ref().map(|table| {
        let of = |&sample: &u32| sample as usize * table.kinds..(sample as usize + 1) * table.kinds;
        keep.iter().flat_map(|sample| &table.values[of(sample)]).copied().collect::<Vec<u32>>()
    });
    let charges = Charges::choose(&ChargeInputs {
        cost: &cost,
        padded: &kept_padded,
        table: table.as_deref(),
        capacity: setting.packing.capacity,
        parts: topology.num_parts(),
        routed_rows: routed_rows_bound(&kept_padded, setting),
    })?;
    let row_cost = row_cost(setting, charges.scale_bits())?;

    // Positions in `keep` of every step's samples.
    let mut windows: BTreeMap<i64, Vec<u32>> = BTreeMap::new();
    for (position, &sample) in keep.iter().enumerate() {
        windows.entry(step_of(&batch, setting, sample)).or_default().push(position as u32);
    }
    let num_steps = windows.len() as i128;
    let setting = Arc::new(setting.clone());
    let instances = windows
        .into_iter()
        .map(|(step, positions)| {
            let members: Vec<u32> = positions.iter().map(|&position| keep[position as usize]).collect();
            Ok(Instance {
                step,
                num_dummies: 0,
                padded: members.iter().map(|&sample| padded[sample as usize]).collect(),
                units: group_units(&batch, &members),
                charges: charges.of(&positions),
                room: charges.room() / num_steps,
                row_cost,
                expert_loads: batch.sum_counts(&members, top_k)?.into(),
                members,
                batch: Arc::clone(&batch),
                setting: Arc::clone(&setting),
                topology: topology.clone(),
                cost: cost.clone(),
                pad_experts: pad_experts.clone(),
            })
        })
        .collect::<Result<Vec<_>, ProblemError>>()?;
    if instances.is_empty() {
        let (samples, capacity) = (dropped.len(), setting.packing.cell_capacity());
        return Err(ProblemError::AllDropped { samples, capacity });
    }
    Ok(Prepared { instances, dropped })
}

impl Instance {
    /// The instance of a batch that holds a single step, nothing dropped: for tests and embedders.
    ///
    /// # Errors
    /// As [`prepare`]; also when the batch holds several steps.
    pub fn single(batch: Batch, setting: &Setting) -> Result<Self, ProblemError> {
        let mut prepared = prepare(Arc::new(batch), setting)?;
        if prepared.instances.len() != 1 {
            return Err(ProblemError::setting("step", prepared.instances.len(), "expected a single step"));
        }
        prepared.instances.pop().ok_or(ProblemError::Empty)
    }

    /// The same window with `count` dummies of the stated length behind its samples.
    ///
    /// # Errors
    /// Dummies are not allowed by the setting, longer than a cell, more than 2^16, or overflow a total.
    pub fn with_dummies(&self, count: usize) -> Result<Self, ProblemError> {
        let Some(dummies) = self.setting.packing.dummies else {
            return Err(ProblemError::setting("packing.dummies", "absent", "dummies are not allowed"));
        };
        let length = pad(dummies.length, self.setting.packing.sample_multiple)
            .filter(|&length| length <= self.cell_capacity())
            .ok_or_else(|| {
                ProblemError::setting(
                    "packing.dummies.length",
                    dummies.length,
                    format!("at most the capacity {}", self.cell_capacity()),
                )
            })?;
        let one = Charges::at_scale(
            &ChargeInputs {
                cost: &self.cost,
                padded: &[length],
                table: self.batch.cost.as_ref().map(|_| vec![0; self.cost.kinds.len()]).as_deref(),
                capacity: self.setting.packing.capacity,
                parts: self.topology.num_parts(),
                routed_rows: routed_rows_bound(&[length], &self.setting),
            },
            self.charges.scale_bits(),
        )?;
        if count > MAX_DUMMIES {
            let limit = format!("at most {MAX_DUMMIES} = 2^16 dummies in a step");
            return Err(ProblemError::setting("packing.dummies", format!("{count} cells to fill"), limit));
        }
        if one.total() * count as i128 >= self.room {
            return Err(ProblemError::overflow("total cost", format!("that of {count} dummies")));
        }
        let mut with = self.clone();
        let recorded = self.members.len();
        with.num_dummies = count;
        with.padded.truncate(recorded);
        with.padded.resize(recorded + count, length);
        with.units.retain(|unit| unit[0] < recorded as u32);
        with.units.extend((recorded..recorded + count).map(|sample| vec![sample as u32]));
        let positions: Vec<u32> = (0..recorded as u32).collect();
        with.charges = self.charges.of(&positions).followed_by(&one, count);
        Ok(with)
    }

    /// Cost of one more row under `rows = { row_cost }`, scaled; 0 under the other policies.
    pub fn row_cost(&self) -> u64 {
        self.row_cost
    }

    /// The same window with the expert term charged at a percentage of its weight: what a search may walk on when a
    /// placement made for its layout will lower that term afterwards. Never what a plan reports.
    ///
    /// # Panics
    /// More than 100 percent.
    #[must_use]
    pub fn with_expert_percent(&self, percent: u32) -> Self {
        assert!(percent <= 100, "{percent} percent");
        let mut light = self.clone();
        light.charges.discount_expert(percent);
        light
    }

    /// What was recorded, all steps.
    pub fn batch(&self) -> &Arc<Batch> {
        &self.batch
    }

    /// The problem's definition.
    pub fn setting(&self) -> &Setting {
        &self.setting
    }

    /// Slots, ranks and shards.
    pub fn topology(&self) -> &Topology {
        &self.topology
    }

    /// Weights in force.
    pub fn cost(&self) -> &ResolvedCost {
        &self.cost
    }

    /// Exact charges.
    pub fn charges(&self) -> &Charges {
        &self.charges
    }

    /// Optimizer step as recorded; 0 when steps were not.
    pub fn step(&self) -> i64 {
        self.step
    }

    /// Samples n, dummies included.
    pub fn num_samples(&self) -> usize {
        self.padded.len()
    }

    /// Dummies among the samples.
    pub fn num_dummies(&self) -> usize {
        self.num_dummies
    }

    /// Index in the batch of a sample; `None` for a dummy.
    pub fn batch_index(&self, sample: usize) -> Option<usize> {
        self.members.get(sample).map(|&index| index as usize)
    }

    /// Raw tokens of a sample.
    pub fn length(&self, sample: usize) -> u32 {
        match self.batch_index(sample) {
            Some(index) => self.batch.lengths[index],
            None => self.setting.packing.dummies.map_or(0, |dummies| dummies.length),
        }
    }

    /// Padded tokens of a sample.
    pub fn padded_length(&self, sample: usize) -> u32 {
        self.padded[sample]
    }

    /// Tokens of a sample whose routes were recorded; 0 for a dummy.
    pub fn routed_rows(&self, sample: usize) -> u32 {
        self.batch_index(sample).map_or(0, |index| self.batch.rows_of(index, self.setting.routing.top_k))
    }

    /// Loss-mask tokens of a sample, if recorded; 0 for a dummy.
    pub fn loss_tokens(&self, sample: usize) -> Option<u32> {
        let loss_tokens = self.batch.loss_tokens.as_ref()?;
        Some(self.batch_index(sample).map_or(0, |index| loss_tokens[index]))
    }

    /// The id of a sample outside, as text.
    pub fn id_text(&self, sample: usize) -> String {
        match self.batch_index(sample) {
            Some(index) => self.batch.id_text(index),
            None => format!("dummy-{}", sample - self.members.len()),
        }
    }

    /// Tokens the trainer routes as padding for a sample: its padding, or the whole of a dummy.
    pub fn pad_tokens(&self, sample: usize) -> u32 {
        match self.batch_index(sample) {
            Some(index) => self.padded[sample] - self.batch.lengths[index],
            None => self.padded[sample],
        }
    }

    /// Padding tokens behind the samples of a cell that holds this many padded tokens.
    pub fn cell_padding(&self, tokens: u64) -> u64 {
        tokens.next_multiple_of(u64::from(self.setting.packing.cell_multiple)) - tokens
    }

    /// Usable tokens of a cell, m·⌊C/m⌋.
    pub fn cell_capacity(&self) -> u32 {
        self.setting.packing.cell_capacity()
    }

    /// Units: atomic groups and free samples, by first sample; dummies last.
    pub fn num_units(&self) -> usize {
        self.units.len()
    }

    /// Samples of a unit, ascending.
    pub fn unit(&self, unit: usize) -> &[u32] {
        &self.units[unit]
    }

    /// Padded tokens of a unit.
    pub fn unit_tokens(&self, unit: usize) -> u64 {
        self.units[unit].iter().map(|&sample| u64::from(self.padded[sample as usize])).sum()
    }

    /// Recorded layers L; 0 without counts.
    pub fn num_layers(&self) -> usize {
        self.batch.num_layers()
    }

    /// Pipeline stages that are charged apart: all with [`Pace::SlowestStage`], else 1.
    pub fn paced_stages(&self) -> usize {
        match self.setting.cost.pace {
            Pace::AllLayers => 1,
            Pace::SlowestStage => self.topology.num_stages(),
        }
    }

    /// The stage a layer is charged to, below [`Self::paced_stages`].
    pub fn paced_stage(&self, layer: usize) -> usize {
        if self.paced_stages() == 1 { 0 } else { self.topology.layer_stage()[layer] as usize }
    }

    /// Experts E per layer; 0 without counts.
    pub fn num_experts(&self) -> usize {
        self.batch.expert_counts.as_ref().map_or(0, crate::ExpertCounts::experts)
    }

    /// Logical experts every padding token is routed to, if it is routed to fixed ones.
    pub fn pad_experts(&self) -> Option<&[u32]> {
        self.pad_experts.as_deref()
    }

    /// Whether padding tokens are charged at all.
    pub fn charges_padding(&self) -> bool {
        self.num_layers() > 0 && self.setting.routing.pad_routes != PadRoutes::None
    }

    /// Recorded counts `[experts]` of one sample, part and layer, in routed rows; empty for a dummy.
    ///
    /// Under `attribution = "spread"`, part k of a count a gets ⌊(a + k)/parts⌋: the parts add up to a (Hermite).
    pub fn counts(&self, sample: usize, part: usize, layer: usize) -> Cow<'_, [u32]> {
        let (Some(index), Some(counts)) = (self.batch_index(sample), &self.batch.expert_counts) else {
            return Cow::Borrowed(&[]);
        };
        let parts = self.topology.num_parts();
        if counts.parts() == parts {
            return Cow::Borrowed(counts.of(index, part, layer));
        }
        let share = |&count: &u32| ((u64::from(count) + part as u64) / parts as u64) as u32;
        Cow::Owned(counts.of(index, 0, layer).iter().map(share).collect())
    }

    /// Calls `visit(expert, routed rows)` for [`Instance::counts`]; nothing for a dummy.
    pub fn for_each_count(
        &self,
        sample: usize,
        part: usize,
        layer: usize,
        mut visit: impl FnMut(usize, u32),
    ) {
        self.counts(sample, part, layer).iter().enumerate().for_each(|(expert, &count)| visit(expert, count));
    }

    /// Total load of every expert over the window, all parts: `[layers][experts]` in routed rows.
    pub fn expert_loads(&self) -> &[Vec<u64>] {
        &self.expert_loads
    }
}

fn pad(length: u32, multiple: u32) -> Option<u32> {
    length.checked_next_multiple_of(multiple)
}

fn check_experts(batch: &Batch, setting: &Setting, topology: &Topology) -> Result<(), ProblemError> {
    let Some(counts) = &batch.expert_counts else { return Ok(()) };
    if counts.experts() % topology.num_ranks() != 0 {
        return Err(ProblemError::setting(
            "topology.ep",
            topology.num_ranks(),
            format!("experts not divisible by ranks: {} experts", counts.experts()),
        ));
    }
    let spread = setting.routing.attribution == Attribution::Spread && counts.parts() == 1;
    if counts.parts() != topology.num_parts() && !spread {
        return Err(ProblemError::shape(
            "expert_counts",
            &counts.shape(),
            format!(
                "{} parts, one per EP group of a DP slot (or attribution = \"spread\")",
                topology.num_parts()
            ),
        ));
    }
    Ok(())
}

/// Sample index and padded size of every atomic group or free sample that is too long, dropped or refused.
fn split_oversize(
    batch: &Batch,
    setting: &Setting,
    padded: &[u64],
) -> Result<(Vec<u32>, Vec<Oversize>), ProblemError> {
    let capacity = setting.packing.cell_capacity();
    let everything: Vec<u32> = (0..padded.len() as u32).collect();
    let (mut keep, mut dropped) = (Vec::new(), Vec::new());
    for unit in group_units(batch, &everything) {
        let length: u64 = unit.iter().map(|&sample| padded[sample as usize]).sum();
        if length <= u64::from(capacity) {
            if let Some(limit) = setting.packing.max_samples.filter(|&limit| unit.len() > limit as usize) {
                return Err(ProblemError::value(
                    "atomic_groups",
                    unit[0],
                    format!("a group of {} samples", unit.len()),
                    format!("at most max_samples = {limit} share a cell"),
                ));
            }
            keep.extend(unit);
        } else if setting.packing.oversize == OversizePolicy::Drop {
            dropped.extend(unit.into_iter().map(|sample| Oversize { sample, length }));
        } else {
            return Err(ProblemError::Oversize { sample: unit[0] as usize, length, capacity });
        }
    }
    keep.sort_unstable();
    dropped.sort_unstable_by_key(|oversize| oversize.sample);
    Ok((keep, dropped))
}

/// The step a sample is planned in.
fn step_of(batch: &Batch, setting: &Setting, sample: u32) -> i64 {
    match setting.packing.steps {
        Steps::Apart => batch.step.as_ref().map_or(0, |step| step[sample as usize]),
        Steps::Together => 0,
    }
}

/// Takes the filtered samples out of `keep`; both ascending. Every step keeps a sample.
fn filter(
    batch: &Batch,
    setting: &Setting,
    keep: &mut Vec<u32>,
    filtered: &[u32],
) -> Result<(), ProblemError> {
    if filtered.is_empty() {
        return Ok(());
    }
    let wrong = filtered.iter().enumerate().find(|&(place, sample)| {
        (place > 0 && filtered[place - 1] >= *sample) || keep.binary_search(sample).is_err()
    });
    if let Some((place, &sample)) = wrong {
        let limit = "expected samples of the plan, ascending, each once";
        return Err(ProblemError::value("filtered", place, sample, limit));
    }
    let step_of = |&sample: &u32| step_of(batch, setting, sample);
    keep.retain(|sample| filtered.binary_search(sample).is_err());
    let left: BTreeSet<i64> = keep.iter().map(step_of).collect();
    match filtered.iter().find(|sample| !left.contains(&step_of(sample))) {
        None => Ok(()),
        Some(sample) => {
            let limit = format!("step {} would be left without a sample", step_of(sample));
            Err(ProblemError::value("filtered", filtered.len(), "all samples of a step", limit))
        }
    }
}

/// Units of the given batch samples, as positions in `members`; a group never spans two steps.
fn group_units(batch: &Batch, members: &[u32]) -> Vec<Vec<u32>> {
    let mut units: Vec<Vec<u32>> = Vec::with_capacity(members.len());
    let mut of_group: BTreeMap<(i64, i64), usize> = BTreeMap::new();
    for (position, &sample) in members.iter().enumerate() {
        let group = batch.atomic_groups.as_ref().map_or(-1, |groups| groups[sample as usize]);
        let step = batch.step.as_ref().map_or(0, |step| step[sample as usize]);
        if group < 0 {
            units.push(vec![position as u32]);
        } else {
            let unit = *of_group.entry((step, group)).or_insert_with(|| {
                units.push(Vec::new());
                units.len() - 1
            });
            units[unit].push(position as u32);
        }
    }
    units
}

/// No layer of any layout routes more rows than this: recorded tokens and all padding that could occur.
fn routed_rows_bound(padded: &[u32], setting: &Setting) -> u128 {
    let tokens: u128 = padded.iter().map(|&tokens| u128::from(tokens)).sum();
    let cell_padding = padded.len() as u128 * u128::from(setting.packing.cell_multiple);
    (tokens + cell_padding + 1) * u128::from(setting.routing.top_k)
}

/// S times the cost of one more row, 0 where rows are not searched by it.
fn row_cost(setting: &Setting, scale_bits: u32) -> Result<u64, ProblemError> {
    let RowsPolicy::Search { row_cost: Some(row_cost), .. } = setting.packing.rows else { return Ok(0) };
    scaled(row_cost, scale_bits)
        .ok_or_else(|| ProblemError::overflow("packing.rows.row_cost at the scale of the costs", row_cost))
}
