//! Co-refinement: placement and layout, each for the other (DESIGN §1.4, stage 4).
//!
//! Problem: a layout is charged Σ_{r,g} max_p W\[r,g,l,p\] a layer, which its placement, fixed beforehand, only bounds from
//! below. Find a placement π of all steps and a layout x of each, so that the steps' scores, summed, are least together.
//! Method: *starts* and *turns*. A start is a layout searched from the packing with what peaks exceed even loads by charged
//! at a part of its weight (`routepack_arrange::arrange_to_place`): what a placement can level afterwards need not cost
//! attention now; what it asks of experts is made alike in all rows. At all of its weight, it is the first draft. Every start
//! is placed for on its row peaks (`routepack_place::place_on_row_peaks`) and arranged again from there, cold; the best goes
//! on, placed for and arranged in turns until they gain nothing or the budget ends, each placing with more swaps than the one
//! before. In turns the blocks of slow shards count more (`slow_shards.rs`). The outcome is the best met by the exact scores,
//! hence never worse than the first draft. That one had a share of the arrange budget only (`refine_options.rs`), so a plan of
//! one stage after the other with all of it can be better where placing has nothing to gain.
//! Complexity: the arrange budget in all, and one placement for every start and turn.
//! References: J. C. Bezdek and R. J. Hathaway, Convergence of alternating optimization, Neural, Parallel and Scientific
//! Computations 11, 2003; what it leaves to gain: PLACEMENT §2.3. Deviations: either half is a search that may fail, so a turn
//! counts only if the exact score falls.

use routepack_anneal::{Peers, Stream};
use routepack_arrange::{ArrangeError, ArrangeOptions, Arranged, arrange_among, arrange_to_place};
use routepack_place::{RowLoads, RowPeakOptions, place_on_row_peaks};
use routepack_problem::{Instance, Layout, Placement, Score};

use crate::moves::Tether;
use crate::slow_shards::{WEIGHTS, block_weights, weighted};
use crate::{Job, PlanError};

/// A placement and a layout of every step, with the scores they have together.
#[derive(Clone)]
pub(crate) struct Draft {
    pub(crate) placement: Placement,
    pub(crate) layouts: Vec<Layout>,
    pub(crate) scores: Vec<Score>,
}

impl Draft {
    /// Scores summed over the steps, to be compared lexicographically, without charges for moves.
    fn score(&self) -> [u128; 3] {
        let sum = |of: fn(&Score) -> u64| self.scores.iter().map(|score| u128::from(of(score))).sum();
        [sum(|score| score.worst_shard), sum(|score| score.total), sum(|score| score.worst_row)]
    }
}

/// What the drafts of a batch have in common.
pub(crate) struct Search<'a> {
    /// Windows of the steps.
    pub(crate) instances: &'a [&'a Instance],
    /// Their layouts as packed, before any search.
    pub(crate) packed: Vec<&'a Layout>,
    pub(crate) job: &'a Job,
    /// How far placements may leave the resident one, if they may not at will.
    pub(crate) tether: Option<&'a Tether>,
    /// Other processes that share the search.
    pub(crate) peers: Option<&'a dyn Peers>,
}

/// A turn looks at so many times the swaps of the one before, up to the second: what is short comes first, as time may end.
const MORE_SWAPS: u32 = 4;

/// Whether to stop after one of so many equal shares of the time left; of 1, whether to stop at all.
pub(crate) type Stops<'a> = &'a dyn Fn(usize) -> Box<dyn Fn() -> bool + Sync + 'a>;

/// The best draft met from `first`, and whether the search ended by itself.
///
/// # Errors
/// As [`arrange`] and [`place_on_row_peaks`].
pub(crate) fn co_refine(
    search: &Search<'_>,
    first: Draft,
    stops: Stops<'_>,
    observe: &mut dyn FnMut(f64, &Draft),
) -> Result<(Draft, bool), PlanError> {
    let job = search.job;
    // The first draft is started from where there is nothing else.
    let percents = match &job.refine.expert_percent[..] {
        [] => &[100],
        percents => percents,
    };
    let starts = job.num_starts();
    let stages = starts + job.refine.turns as usize;
    let over = stops(1);
    let mut tell = |done: usize, best: &Draft| observe(done as f64 / stages as f64, best);

    let mut best = first.clone();
    for (index, &percent) in percents.iter().enumerate() {
        // Half of the time left for the layouts to start from; whatever they took, there is time to place for them.
        let left = starts - index;
        let start = search.start(&first, percent, index, &stops(2 * left))?;
        let turned = search.turn(&start, index, &stops(2 * left), &over)?;
        best = turned.into_iter().chain([best]).min_by_key(|draft| search.score(draft)).expect("two at most");
        tell(index + 1, &best);
    }
    for index in starts..stages {
        let Some(turned) = search.turn(&best, index, &stops(stages - index), &over)? else { break };
        let gains = search.score(&turned) < search.score(&best);
        if gains {
            best = turned;
        }
        tell(index + 1, &best);
        if !gains {
            break;
        }
    }
    Ok((best, !over()))
}

impl Search<'_> {
    /// The score of a draft with the charge for its moves.
    fn score(&self, draft: &Draft) -> [u128; 3] {
        let charge = self.tether.map_or(0, |tether| tether.charge(self.instances, &draft.placement));
        let [worst_shard, total, worst_row] = draft.score();
        [worst_shard + charge, total, worst_row]
    }

    /// Layouts searched with uneven loads at part of their weight, under the placement of `draft`.
    fn start(
        &self,
        draft: &Draft,
        percent: u32,
        stage: usize,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Draft, PlanError> {
        let mut start = draft.clone();
        if percent == 100 {
            return Ok(start);
        }
        let (options, seed) = (self.job.light_options(), self.seed(stage));
        // From the packing, whose first rows hold the longest samples together: that is lost when it is warm.
        for ((instance, packed), layout) in self.instances.iter().zip(&self.packed).zip(&mut start.layouts) {
            if stop() {
                break;
            }
            *layout = arrange_to_place(
                instance,
                &draft.placement,
                packed,
                percent,
                &options,
                seed,
                stop,
                self.peers,
            )?;
        }
        Ok(start)
    }

    /// Places for the layouts of `draft`, then arranges from them as long as `stop` lets it; nothing if all is `over` before
    /// that.
    fn turn(
        &self,
        draft: &Draft,
        stage: usize,
        stop: &(dyn Fn() -> bool + Sync),
        over: &(dyn Fn() -> bool + Sync),
    ) -> Result<Option<Draft>, PlanError> {
        if stop() {
            return Ok(None);
        }
        let steps: Vec<(&Instance, &Layout)> = self.instances.iter().copied().zip(&draft.layouts).collect();
        let mut loads = RowLoads::of_layouts(&steps)?;
        let mut limit = self.tether.map(Tether::limit);
        // Of a start the shards are not level yet: arranging sees to that first.
        let weights =
            if stage < self.job.num_starts() { None } else { block_weights(&steps, &draft.placement) };
        let weighted = weights.map(|weights| weighted(&loads, &weights)).transpose()?.flatten();
        if let Some(weighted) = weighted {
            loads = weighted;
            if let Some(charge) = limit.as_mut().and_then(|limit| limit.charge.as_mut()) {
                charge.move_cost *= u64::from(WEIGHTS[1]);
            }
        }
        let (row_peaks, seed) = (&self.job.refine.row_peaks, self.seed(stage));
        let nodes = self.job.place.node_groups.map_or(1, |sizes| sizes.nodes);
        let swaps = MORE_SWAPS.pow((stage + 1).saturating_sub(self.job.num_starts()).min(2) as u32);
        let row_peaks = RowPeakOptions {
            proposals: row_peaks.proposals.saturating_mul(swaps.into()),
            proposals_per_expert: row_peaks.proposals_per_expert.saturating_mul(swaps),
            nodes,
            ..row_peaks.clone()
        };
        let placed = place_on_row_peaks(&loads, &draft.placement, limit, &row_peaks, seed, stop)?;
        if over() {
            return Ok(None);
        }
        let mut turned = Draft { placement: placed.placement, layouts: Vec::new(), scores: Vec::new() };
        let options = self.job.turn_options();
        for (instance, layout) in steps {
            let arranged = self.arrange(instance, &turned.placement, layout, &options, seed, stop)?;
            turned.layouts.push(arranged.layout);
            turned.scores.push(arranged.score);
        }
        Ok(Some(turned))
    }

    fn arrange(
        &self,
        instance: &Instance,
        placement: &Placement,
        layout: &Layout,
        options: &ArrangeOptions,
        seed: u64,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<Arranged, ArrangeError> {
        arrange_among(instance, placement, layout, options, seed, stop, &mut |_| {}, self.peers)
    }

    fn seed(&self, stage: usize) -> u64 {
        Stream::new(self.job.seed).child(stage as u64).next_u64()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use routepack_arrange::spread_bins;
    use routepack_binpack::first_fit_decreasing;
    use routepack_generate::{Preset, window};
    use routepack_problem::{evaluate, prepare};

    use super::*;

    /// A small window of several steps, its layouts by position, and a job with little budget.
    fn small(seed: u64) -> (Vec<Instance>, Vec<Layout>, Job) {
        let mut recipe = Preset::Mixed.recipe();
        recipe.prompts = 24;
        let mut generated = window(&recipe, seed).expect("valid");
        let samples = generated.batch.num_samples();
        generated.batch.step = Some((0..samples).map(|sample| (sample % 3) as i64).collect());
        let mut job = Job::new(generated.setting);
        job.arrange.proposals_per_unit = 50;
        job.refine.row_peaks.proposals_per_expert = 20;
        let instances = prepare(Arc::new(generated.batch), &job.setting()).expect("valid").instances;
        let layouts = instances
            .iter()
            .map(|instance| {
                let sizes: Vec<u64> =
                    (0..instance.num_units()).map(|unit| instance.unit_tokens(unit)).collect();
                let capacity = u64::from(instance.cell_capacity());
                let bins = first_fit_decreasing(&sizes, capacity, None);
                let rows = bins.len().div_ceil(instance.topology().num_slots());
                spread_bins(instance, &bins, rows).expect("enough samples")
            })
            .collect();
        (instances, layouts, job)
    }

    #[test]
    fn scores_are_exact_and_never_above_the_first() {
        for seed in 0..3 {
            let (instances, layouts, job) = small(seed);
            let instances: Vec<&Instance> = instances.iter().collect();
            let (layers, experts) = (instances[0].num_layers(), instances[0].num_experts());
            let placement =
                Placement::identity(layers, experts, instances[0].topology().num_ranks()).expect("divisible");
            let scores_of = |placement: &Placement, layouts: &[Layout]| -> Vec<Score> {
                let pairs = instances.iter().zip(layouts);
                pairs.map(|(instance, layout)| evaluate(instance, placement, layout).score).collect()
            };
            let first = Draft { scores: scores_of(&placement, &layouts), placement, layouts };
            // Stopped after so many looks, or never.
            for looks in [0, 1, 3, 10, 100, 1000, usize::MAX] {
                let seen = std::sync::atomic::AtomicUsize::new(0);
                let stop = || seen.fetch_add(1, std::sync::atomic::Ordering::Relaxed) >= looks;
                let mut told = Vec::new();
                let mut observe = |fraction: f64, best: &Draft| told.push((fraction, best.score()));
                let packed = first.layouts.iter().collect();
                let search = Search { instances: &instances, packed, job: &job, tether: None, peers: None };
                let (draft, finished) =
                    co_refine(&search, first.clone(), &|_| Box::new(&stop), &mut observe).expect("valid");
                assert!(draft.score() <= first.score());
                assert_eq!(draft.scores, scores_of(&draft.placement, &draft.layouts));
                assert!(told.is_sorted_by(|a, b| a.0 < b.0 && a.1 >= b.1), "{told:?}");
                assert!(told.iter().all(|(fraction, _)| *fraction <= 1.0), "{told:?}");
                assert_eq!(finished, looks == usize::MAX);
                if finished {
                    assert!(told[0].1 < first.score(), "an identity placement can be improved");
                }
            }
        }
    }
}
