//! The window as it grows, sample by sample.

use std::collections::HashMap;

use routepack_problem::{Batch, ExpertCounts};

use crate::axes::Axes;
use crate::facts::{Facts, OutsideId, Summary, sample_ids};
use crate::sample::{Rows, Sample, Tally};
use crate::{Form, ImportError, ImportOptions, Place};

/// Imported routes: a window, and what to set in its job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Imported {
    /// The window.
    pub batch: Batch,
    /// What was read.
    pub summary: Summary,
}

/// Everything counted so far.
pub(crate) struct Window<'o> {
    pub(crate) file: String,
    pub(crate) form: Form,
    pub(crate) options: &'o ImportOptions,
    pub(crate) axes: Option<Axes>,
    pub(crate) summary: Summary,
    facts: Vec<Facts>,
    routed_rows: Vec<u32>,
    counts: Vec<u32>,
    row: Vec<u16>,
    /// Numbers of the `uid`s seen.
    uids: HashMap<String, i64>,
}

impl<'o> Window<'o> {
    pub(crate) fn new(file: &str, form: Form, options: &'o ImportOptions) -> Result<Self, ImportError> {
        options.validate()?;
        Ok(Self {
            file: file.to_owned(),
            form,
            options,
            axes: None,
            summary: Summary::default(),
            facts: Vec::new(),
            routed_rows: Vec::new(),
            counts: Vec::new(),
            row: Vec::new(),
            uids: HashMap::new(),
        })
    }

    /// Samples so far.
    pub(crate) fn len(&self) -> usize {
        self.facts.len()
    }

    /// The number of a prompt's `uid`, in order of appearance: prompts of a window are numbers, `uid`s are texts.
    pub(crate) fn uid_number(&mut self, uid: &OutsideId) -> i64 {
        let next = self.uids.len() as i64;
        *self.uids.entry(uid.text()).or_insert(next)
    }

    /// The place of the next sample.
    pub(crate) fn place(&self, id: Option<&OutsideId>) -> Place {
        Place { file: self.file.clone(), sample: self.len(), id: id.map(OutsideId::text) }
    }

    /// Resolves the axes, or checks that they stay as they are.
    pub(crate) fn axes(&mut self, place: &Place, shape: [usize; 2]) -> Result<&Axes, ImportError> {
        if let Some(axes) = &self.axes {
            if [axes.recorded, axes.top_k] != shape {
                let why = format!(
                    "[layers, k] = {shape:?}, the samples before have {:?}",
                    [axes.recorded, axes.top_k]
                );
                return Err(ImportError::sample(place, "shape", why));
            }
        } else {
            let axes = Axes::resolve(self.form, self.options, place, shape)?;
            // Samples before the first routes.
            self.counts = vec![0; self.len() * axes.moe.len() * axes.plan.experts];
            self.axes = Some(axes);
        }
        Ok(self.axes.as_ref().expect("just resolved"))
    }

    /// Adds a sample; `feed` hands over its rows, for which the axes are resolved. Nothing is fed if it has none.
    pub(crate) fn add(
        &mut self,
        facts: Facts,
        feed: impl FnOnce(&mut Sample<'_>) -> Result<(), ImportError>,
    ) -> Result<(), ImportError> {
        let place = self.place(facts.id.as_ref());
        if facts.length == 0 {
            return Err(ImportError::sample(&place, "length", "0 tokens, expected at least 1"));
        }
        if let Some(loss) = facts.loss_tokens.filter(|&loss| loss > facts.length) {
            let why = format!("{loss}, the sample has {} tokens", facts.length);
            return Err(ImportError::sample(&place, "loss tokens", why));
        }
        let Some(axes) = &self.axes else {
            return self.add_unrouted(facts, &place);
        };
        let from = self.counts.len();
        self.counts.resize(from + axes.moe.len() * axes.plan.experts, 0);
        let counts = &mut self.counts[from..];
        let mut sample = Sample::new(axes, self.form.filler(), &place, facts.length, counts, &mut self.row);
        feed(&mut sample)?;
        let (routed, tally) = sample.finish(self.options.missing)?;
        self.close(facts, routed, tally);
        Ok(())
    }

    /// A sample without rows before any routes were seen.
    fn add_unrouted(&mut self, facts: Facts, place: &Place) -> Result<(), ImportError> {
        use crate::Missing;
        match self.options.missing {
            Missing::Refuse if facts.length > 1 => Err(ImportError::MissingRows {
                place: place.clone(),
                missing: facts.length - 1,
                row: 0,
                length: facts.length,
            }),
            Missing::ScaleUp => Err(ImportError::NothingToScale { place: place.clone() }),
            _ => {
                let gap = (facts.length > 1).then_some(0);
                self.close(facts, 0, Tally { gap, ..Tally::default() });
                Ok(())
            }
        }
    }

    fn close(&mut self, facts: Facts, routed: u32, tally: Tally) {
        let summary = &mut self.summary;
        let expected = if tally.last { facts.length } else { facts.length - 1 };
        summary.samples += 1;
        summary.tokens += u64::from(facts.length);
        summary.rows_counted += u64::from(tally.counted);
        summary.samples_with_last_row += u64::from(tally.last);
        summary.samples_without_last_row += u64::from(!tally.last);
        summary.rows_missing += u64::from(expected - tally.counted);
        summary.samples_with_missing_rows += u64::from(tally.gap.is_some());
        summary.samples_without_rows += u64::from(tally.counted == 0);
        summary.filler_rows += tally.filler;
        self.facts.push(facts);
        self.routed_rows.push(routed);
    }

    /// Adds a sample whose counts `[MoE layers, E]` are given.
    pub(crate) fn add_counts(&mut self, facts: Facts, rows: u32, counts: &[u32]) {
        self.counts.extend_from_slice(counts);
        self.close(facts, rows, Tally { counted: rows, last: true, ..Tally::default() });
    }

    /// Adds one layer of a sample at a time: `facts` of all samples first, then their rows by layer.
    pub(crate) fn allot(&mut self, facts: &[Facts]) {
        let axes = self.axes.as_ref().expect("the axes are resolved before samples are allotted");
        self.counts = vec![0; facts.len() * axes.moe.len() * axes.plan.experts];
    }

    /// Counts rows of one layer of an allotted sample, under axes of one layer.
    pub(crate) fn count_layer(
        &mut self,
        one: &Axes,
        [sample, layer]: [usize; 2],
        length: u32,
        rows: Rows<'_>,
    ) -> Result<Tally, ImportError> {
        let axes = self.axes.as_ref().expect("the axes are resolved before layers are counted");
        let experts = axes.plan.experts;
        let at = (sample * axes.moe.len() + layer) * experts;
        let place = Place { file: self.file.clone(), sample, id: None };
        let counts = &mut self.counts[at..at + experts];
        let mut counted = Sample::new(one, self.form.filler(), &place, length, counts, &mut self.row);
        counted.count(rows)?;
        // A recording of whole micro-batches has no gaps to charge.
        Ok(counted.finish(crate::Missing::Refuse)?.1)
    }

    /// Closes an allotted sample.
    pub(crate) fn close_allotted(&mut self, facts: Facts, tally: Tally) {
        self.close(facts, tally.counted, tally);
    }

    /// What is said of one sample must be said of all: a window has no holes.
    fn check_all_or_none(&self) -> Result<(), ImportError> {
        let stated = |facts: &Facts| {
            [
                ("loss tokens", facts.loss_tokens.is_some()),
                ("id", facts.id.is_some()),
                ("prompt id", facts.prompt_id.is_some()),
                ("uid", facts.uid.is_some()),
                ("step", facts.step.is_some()),
            ]
        };
        for (sample, facts) in self.facts.iter().enumerate() {
            for ((what, here), (_, first)) in stated(facts).into_iter().zip(stated(&self.facts[0])) {
                if here == first {
                    continue;
                }
                let id = facts.id.as_ref().map(OutsideId::text);
                let place = Place { file: self.file.clone(), sample, id };
                let why = if first {
                    "missing, the samples before have it"
                } else {
                    "the samples before have none"
                };
                return Err(ImportError::sample(&place, what, why));
            }
        }
        Ok(())
    }

    /// Two samples of one id cannot be told apart. Ids are compared as texts, which they become where one is.
    fn check_ids(&self) -> Result<(), ImportError> {
        let mut places = HashMap::new();
        for (sample, facts) in self.facts.iter().enumerate() {
            let Some(id) = facts.id.as_ref().map(OutsideId::text) else { continue };
            if let Some(before) = places.insert(id.clone(), sample) {
                let place = Place { file: self.file.clone(), sample, id: Some(id) };
                let why = format!(
                    "expected ids that occur once, sample {before} has it too; the id of a prompt is `prompt_id`"
                );
                return Err(ImportError::sample(&place, "id", why));
            }
        }
        Ok(())
    }

    /// The window, checked.
    pub(crate) fn finish(mut self) -> Result<Imported, ImportError> {
        if self.facts.is_empty() {
            return Err(ImportError::Nothing { file: self.file, why: "no sample" });
        }
        let samples = self.facts.len();
        if let Some(lengths) = self.options.lengths.as_ref().filter(|lengths| lengths.len() != samples) {
            let limit = format!("the file has {samples} samples");
            return Err(ImportError::option("lengths", lengths.len(), limit));
        }
        self.check_all_or_none()?;
        self.check_ids()?;
        let Some(axes) = self.axes else {
            return Err(ImportError::Nothing { file: self.file, why: "no sample has routes" });
        };
        self.summary.layers = axes.moe.len() as u64;
        self.summary.experts = axes.plan.experts as u64;
        self.summary.top_k = axes.top_k as u64;
        let shape = [self.facts.len(), 1, axes.moe.len(), axes.plan.experts];
        let window = |error| ImportError::Window { file: self.file.clone(), error };
        let counts = ExpertCounts::new(shape, self.counts).map_err(window)?;
        let ids: Option<Vec<_>> = self.facts.iter().map(|facts| facts.id.clone()).collect();
        let prompt_ids: Option<Vec<_>> = self.facts.iter().map(|facts| facts.prompt_id).collect();
        let batch = Batch {
            lengths: self.facts.iter().map(|facts| facts.length).collect(),
            expert_counts: Some(counts),
            routed_rows: Some(self.routed_rows),
            loss_tokens: self.facts.iter().map(|facts| facts.loss_tokens).collect(),
            sample_ids: ids.map(sample_ids),
            prompt_ids: prompt_ids.or_else(|| self.facts.iter().map(|facts| facts.uid).collect()),
            step: self.facts.iter().map(|facts| facts.step).collect(),
            ..Batch::default()
        };
        batch.check(axes.top_k as u32).map_err(window)?;
        Ok(Imported { batch, summary: self.summary })
    }
}
