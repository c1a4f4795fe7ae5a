//! The arrays beside the routes: what they say of every sample.

use std::ops::Range;

use crate::batch_arrays::wrong_array;
use crate::carrier::Carrier;
use crate::facts::{Facts, OutsideId};
use crate::vectors::{read_mask, read_vector};
use crate::window::Window;
use crate::{Form, ImportError, Place};

/// What the arrays beside the routes say.
#[derive(Default)]
pub(crate) struct Beside {
    lengths: Option<Vec<i64>>,
    /// Who states the lengths.
    lengths_by: &'static str,
    rows: Option<Vec<i64>>,
    starts: Option<Vec<i64>>,
    loss_tokens: Option<Vec<i64>>,
    ids: Option<Vec<i64>>,
    prompt_ids: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
    /// Positions of the tokens of every sample in its row of a padded batch.
    pub(crate) runs: Option<Vec<Vec<Range<usize>>>>,
    /// Positions a sample has in `attention_mask`.
    attention_width: Option<usize>,
    /// Masks of the loss: their names, and the positions a sample has there.
    loss_masks: Vec<(&'static str, usize)>,
}

impl Beside {
    pub(crate) fn read(
        window: &Window<'_>,
        carrier: &mut Carrier,
        names: &[String],
    ) -> Result<Self, ImportError> {
        let mut beside = Self { lengths_by: "lengths", ..Self::default() };
        for name in names {
            match name.as_str() {
                "lengths" => beside.lengths = Some(read_vector(window, carrier, name)?),
                "rows" => beside.rows = Some(read_vector(window, carrier, name)?),
                "starts" => beside.starts = Some(read_vector(window, carrier, name)?),
                "loss_tokens" => beside.loss_tokens = Some(read_vector(window, carrier, name)?),
                "sample_ids" => beside.ids = Some(read_vector(window, carrier, name)?),
                "prompt_ids" => beside.prompt_ids = Some(read_vector(window, carrier, name)?),
                "step" => beside.steps = Some(read_vector(window, carrier, name)?),
                "attention_mask" => {
                    let (width, runs) = read_mask(window, carrier, name)?;
                    (beside.attention_width, beside.runs) = (Some(width), Some(runs));
                }
                "response_mask" | "loss_mask" => {
                    let (width, runs) = read_mask(window, carrier, name)?;
                    let name = if name == "loss_mask" { "loss_mask" } else { "response_mask" };
                    beside.loss_masks.push((name, width));
                    let sums = runs.iter().map(|runs| runs.iter().map(|run| run.len() as i64).sum());
                    beside.loss_tokens = Some(sums.collect());
                }
                _ => {}
            }
        }
        if let Some(lengths) = &window.options.lengths {
            let given: Vec<_> = lengths.iter().map(|&length| i64::from(length)).collect();
            if let Some(listed) = &beside.lengths {
                agree(window, listed, &given)?;
            } else {
                (beside.lengths, beside.lengths_by) = (Some(given), "the lengths given");
            }
        }
        beside.check_loss_masks(window)?;
        if window.form == Form::Verl && beside.runs.is_none() {
            let why = "prompts are padded on the left; an array of that name [batch, sequence] tells where";
            return Err(ImportError::Undeclared { form: "verl", option: "attention_mask", why });
        }
        Ok(beside)
    }

    /// Whether the masks of the loss have the positions of the attention mask, or of a part of them.
    fn check_loss_masks(&self, window: &Window<'_>) -> Result<(), ImportError> {
        let Some(expected) = self.attention_width else {
            return Ok(());
        };
        for &(name, width) in &self.loss_masks {
            let (fits, limit) = if is_of_response(window, name) {
                (width <= expected, "at most ")
            } else {
                (width == expected, "")
            };
            if !fits {
                let why =
                    format!("{width} positions a sample, expected {limit}{expected}, as attention_mask has");
                return Err(wrong_array(window, name, why));
            }
        }
        Ok(())
    }

    /// Whether the attention mask has the positions of padded routes.
    pub(crate) fn check_width(&self, window: &Window<'_>, rows: usize) -> Result<(), ImportError> {
        match self.attention_width {
            Some(width) if width != rows => {
                let why = format!("{width} positions a sample, expected {rows}, as the routes have");
                Err(wrong_array(window, "attention_mask", why))
            }
            _ => Ok(()),
        }
    }

    /// Facts of sample `index` of `samples`.
    pub(crate) fn facts(
        &self,
        window: &Window<'_>,
        index: usize,
        samples: Option<usize>,
    ) -> Result<Facts, ImportError> {
        let mut place = Place { file: window.file.clone(), sample: index, id: None };
        let take = |what: &str, values: &Option<Vec<i64>>, place: &Place| match values {
            Some(values)
                if samples.is_some_and(|samples| samples != values.len()) || values.len() <= index =>
            {
                let why = format!(
                    "{} values, the routes have {} samples",
                    values.len(),
                    samples.unwrap_or(index + 1)
                );
                Err(ImportError::sample(place, what, why))
            }
            Some(values) => Ok(Some(values[index])),
            None => Ok(None),
        };
        let id = take("sample_ids", &self.ids, &place)?.map(OutsideId::Integer);
        place.id = id.as_ref().map(OutsideId::text);
        let masked = self
            .runs
            .as_ref()
            .map(|runs| runs.iter().map(|runs| runs.iter().map(|run| run.len() as i64).sum()).collect());
        let masked = take("attention_mask", &masked, &place)?;
        let listed = take("lengths", &self.lengths, &place)?;
        let length = match (masked, listed) {
            (Some(masked), Some(listed)) if masked != listed => {
                let why = format!("{masked} by attention_mask, {listed} by {}", self.lengths_by);
                return Err(ImportError::sample(&place, "length", why));
            }
            (Some(length), _) | (None, Some(length)) => tokens("length", length, &place)?,
            (None, None) => {
                let why = "not stated; an array `lengths` [samples] or `attention_mask` [batch, sequence] is needed";
                return Err(ImportError::sample(&place, "length", why));
            }
        };
        let narrow =
            |&&(name, width): &&(&str, usize)| !is_of_response(window, name) && width < length as usize;
        if let Some(&(name, width)) = self.loss_masks.iter().find(narrow) {
            let why = format!("{width} positions, the sample has {length} tokens");
            return Err(ImportError::sample(&place, name, why));
        }
        let loss = take("loss_tokens", &self.loss_tokens, &place)?;
        Ok(Facts {
            length,
            loss_tokens: loss.map(|loss| tokens("loss tokens", loss, &place)).transpose()?,
            id,
            prompt_id: take("prompt_ids", &self.prompt_ids, &place)?,
            uid: None,
            step: take("step", &self.steps, &place)?,
        })
    }

    /// Facts of all samples; there are as many as lengths.
    pub(crate) fn all_facts(
        &self,
        window: &Window<'_>,
        samples: Option<usize>,
    ) -> Result<Vec<Facts>, ImportError> {
        let samples = samples.or(self.lengths.as_ref().map(Vec::len)).unwrap_or(1);
        (0..samples).map(|index| self.facts(window, index, Some(samples))).collect()
    }

    pub(crate) fn start(&self, place: &Place, index: usize) -> Result<u32, ImportError> {
        match &self.starts {
            None => Ok(0),
            Some(starts) => {
                let why = || {
                    ImportError::sample(
                        place,
                        "starts",
                        format!("{} values, fewer than samples", starts.len()),
                    )
                };
                tokens("start", *starts.get(index).ok_or_else(why)?, place)
            }
        }
    }

    /// How many of `rows` rows belong to each sample: as stated, else all T, else all T − 1 (less their starts).
    pub(crate) fn shares(
        &self,
        window: &Window<'_>,
        facts: &[Facts],
        rows: usize,
    ) -> Result<Vec<usize>, ImportError> {
        let mut of_lengths = Vec::new();
        for (index, facts) in facts.iter().enumerate() {
            let place = Place {
                file: window.file.clone(),
                sample: index,
                id: facts.id.as_ref().map(OutsideId::text),
            };
            let start = self.start(&place, index)?;
            of_lengths.push(facts.length.saturating_sub(start) as usize);
        }
        if let Some(stated) = &self.rows {
            let shares: Option<Vec<usize>> = stated.iter().map(|&rows| usize::try_from(rows).ok()).collect();
            let sum: i128 = stated.iter().map(|&rows| i128::from(rows)).sum();
            return match shares {
                Some(shares) if shares.len() == facts.len() && sum == rows as i128 => Ok(shares),
                _ => Err(wrong_array(
                    window,
                    "rows",
                    format!(
                        "{} values that sum to {sum}, expected {} samples and {rows} rows",
                        stated.len(),
                        facts.len()
                    ),
                )),
            };
        }
        let without_last: Vec<usize> = of_lengths.iter().map(|rows| rows.saturating_sub(1)).collect();
        let sums = [&of_lengths, &without_last].map(|shares| shares.iter().sum::<usize>());
        if rows == sums[0] {
            Ok(of_lengths)
        } else if rows == sums[1] {
            Ok(without_last)
        } else {
            let why = format!(
                "{rows} rows; {} samples of {} tokens in all have {} or {} rows, else an array `rows` [samples] is needed",
                facts.len(),
                facts.iter().map(|facts| u64::from(facts.length)).sum::<u64>(),
                sums[0],
                sums[1]
            );
            Err(wrong_array(window, "routed_experts", why))
        }
    }
}

/// Whether lengths given and lengths in the file are the same.
fn agree(window: &Window<'_>, listed: &[i64], given: &[i64]) -> Result<(), ImportError> {
    if given.len() != listed.len() {
        let limit = format!("the file has {} samples", listed.len());
        return Err(ImportError::option("lengths", given.len(), limit));
    }
    match listed.iter().zip(given).position(|(listed, given)| listed != given) {
        None => Ok(()),
        Some(sample) => {
            let place = Place { file: window.file.clone(), sample, id: None };
            let why = format!("{} by lengths, {} by the lengths given", listed[sample], given[sample]);
            Err(ImportError::sample(&place, "length", why))
        }
    }
}

/// Whether a mask may have positions of the response only: verl's `response_mask` has, and the `loss_mask` of these.
fn is_of_response(window: &Window<'_>, name: &str) -> bool {
    name == "response_mask" || matches!(window.form, Form::Slime | Form::Miles | Form::SkyRl)
}

fn tokens(what: &str, value: i64, place: &Place) -> Result<u32, ImportError> {
    u32::try_from(value)
        .map_err(|_| ImportError::sample(place, what, format!("{value}: expected 0 to 4294967295")))
}
