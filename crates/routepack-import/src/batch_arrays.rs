//! Batches as arrays: routes of many samples in one array, facts about them in others.

use std::io::Read;
use std::ops::Range;

use routepack_formats::{ArrayHeader, ArrayKind, FormatError};

use crate::carrier::Carrier;
use crate::decode::to_token_major;
use crate::form::Order;
use crate::sample::{Rows, Tally};
use crate::window::{Facts, OutsideId, Window};
use crate::{Dtype, Form, ImportError, Place};

/// Bytes of routes read at once.
const BLOCK: usize = 1 << 18;
/// Names the routes may have; the empty one is that of an `.npy` file.
const ROUTES: [&str; 4] = ["routed_experts", "rollout_routed_experts", "rollout_expert_indices", ""];

/// What the arrays beside the routes say.
#[derive(Default)]
struct Beside {
    lengths: Option<Vec<i64>>,
    rows: Option<Vec<i64>>,
    starts: Option<Vec<i64>>,
    loss_tokens: Option<Vec<i64>>,
    ids: Option<Vec<i64>>,
    prompt_ids: Option<Vec<i64>>,
    steps: Option<Vec<i64>>,
    /// Positions of the tokens of every sample in its row of a padded batch.
    runs: Option<Vec<Vec<Range<usize>>>>,
}

/// Reads a file of arrays.
pub(crate) fn read_arrays(
    window: &mut Window<'_>,
    carrier: &mut Carrier,
    progress: &mut dyn FnMut(u64),
) -> Result<(), ImportError> {
    if window.form == Form::ExpertDistribution {
        return read_distribution(window, carrier);
    }
    let names = carrier.names();
    let beside = Beside::read(window, carrier, &names)?;
    let layers = layer_names(&names);
    if window.form == Form::Megatron && !layers.is_empty() {
        return read_layers(window, carrier, &layers, &beside);
    }
    let Some(routes) = ROUTES.into_iter().find(|name| names.iter().any(|found| found == name)) else {
        return Err(FormatError::MissingArray {
            file: window.file.clone(),
            array: "routed_experts".to_owned(),
            present: names.join(", "),
        }
        .into());
    };
    carrier.read(routes, |header, values| {
        let dtype = dtype_of(window, routes, header)?;
        match (&header.shape[..], window.form.order()) {
            (&[samples, rows, layers, top_k], Order::TokenMajor) => {
                read_padded(window, values, dtype, [samples, rows, layers, top_k], &beside, progress)
            }
            (&[samples, layers, rows, top_k], Order::LayerMajor) if window.form == Form::Tunix => {
                read_padded(window, values, dtype, [samples, rows, layers, top_k], &beside, progress)
            }
            (&[rows, layers, top_k], Order::TokenMajor) => {
                read_ragged(window, values, dtype, [rows, layers, top_k], &beside, progress)
            }
            (&[layers, rows, top_k], Order::LayerMajor) if window.form == Form::Megatron => {
                let facts = beside.all_facts(window, None)?;
                begin_layers(window, &facts, [layers, top_k])?;
                let mut tallies = Vec::new();
                for layer in 0..layers {
                    tallies = read_layer(window, values, dtype, layer, rows, &facts, &beside)?;
                }
                end_layers(window, facts, &tallies);
                Ok(())
            }
            (shape, order) => {
                let expected = match order {
                    Order::TokenMajor => "[rows, layers, k] or [batch, sequence, layers, k]",
                    Order::LayerMajor => "[layers, rows, k], for tunix [batch, layers, length, k]",
                };
                Err(wrong_array(window, routes, format!("shape {shape:?}, expected {expected}")))
            }
        }
    })
}

/// `[batch, sequence, layers, k]`: padded to one length on either side. `shape` is in this order for tunix, too, whose
/// arrays are layer-major.
fn read_padded(
    window: &mut Window<'_>,
    values: &mut dyn Read,
    dtype: Dtype,
    [samples, rows, layers, top_k]: [usize; 4],
    beside: &Beside,
    progress: &mut dyn FnMut(u64),
) -> Result<(), ImportError> {
    let stride = stride_of(window, [layers, top_k], dtype)?;
    let layer_major = window.form.order() == Order::LayerMajor;
    let (mut block, mut turned) = (Vec::new(), Vec::new());
    for index in 0..samples {
        let facts = beside.facts(window, index, Some(samples))?;
        let place = window.place(facts.id.as_ref());
        window.axes(&place, [layers, top_k])?.check_dtype(dtype, &place)?;
        let whole = 0..rows;
        let runs = beside.runs.as_ref().map_or(std::slice::from_ref(&whole), |runs| &runs[index]);
        if runs.last().is_some_and(|run| run.end > rows) {
            let why = format!("{rows} rows, the mask has tokens up to position {}", runs[runs.len() - 1].end);
            return Err(ImportError::sample(&place, "attention_mask", why));
        }
        let file = window.file.clone();
        // One read of a layer-major sample, blocks of a token-major one.
        let block_rows = if layer_major { rows } else { (BLOCK / stride).max(1) };
        window.add(facts, |sample| {
            let mut token = 0u32;
            for from in (0..rows).step_by(block_rows.max(1)) {
                let end = rows.min(from + block_rows);
                block.resize((end - from) * stride, 0);
                read_exact(values, &mut block, &file)?;
                if layer_major {
                    to_token_major(&block, [layers, rows, top_k * dtype.width()], &mut turned);
                }
                let bytes = if layer_major { &turned } else { &block };
                for run in runs {
                    let (first, last) = (run.start.max(from), run.end.min(end));
                    if first < last {
                        let bytes = &bytes[(first - from) * stride..(last - from) * stride];
                        sample.count(Rows { first: token, dtype, bytes })?;
                        token += (last - first) as u32;
                    }
                }
            }
            Ok(())
        })?;
        progress(window.len() as u64);
    }
    Ok(())
}

/// `[rows, layers, k]`: samples one after another.
fn read_ragged(
    window: &mut Window<'_>,
    values: &mut dyn Read,
    dtype: Dtype,
    [rows, layers, top_k]: [usize; 3],
    beside: &Beside,
    progress: &mut dyn FnMut(u64),
) -> Result<(), ImportError> {
    let stride = stride_of(window, [layers, top_k], dtype)?;
    let facts = beside.all_facts(window, None)?;
    let shares = beside.shares(window, &facts, rows)?;
    let mut block = Vec::new();
    for (index, (facts, rows)) in facts.into_iter().zip(shares).enumerate() {
        let place = window.place(facts.id.as_ref());
        window.axes(&place, [layers, top_k])?.check_dtype(dtype, &place)?;
        let start = beside.start(&place, index)?;
        let file = window.file.clone();
        window.add(facts, |sample| {
            let block_rows = (BLOCK / stride).max(1);
            for from in (0..rows).step_by(block_rows) {
                let end = rows.min(from + block_rows);
                block.resize((end - from) * stride, 0);
                read_exact(values, &mut block, &file)?;
                sample.count(Rows { first: start + from as u32, dtype, bytes: &block })?;
            }
            Ok(())
        })?;
        progress(window.len() as u64);
    }
    Ok(())
}

/// One array `[rows, k]` per `MoE` layer.
fn read_layers(
    window: &mut Window<'_>,
    carrier: &mut Carrier,
    names: &[String],
    beside: &Beside,
) -> Result<(), ImportError> {
    let facts = beside.all_facts(window, None)?;
    let mut tallies = Vec::new();
    for (layer, name) in names.iter().enumerate() {
        tallies = carrier.read(name, |header, values| {
            let dtype = dtype_of(window, name, header)?;
            let [rows, top_k] = header.shape[..] else {
                return Err(wrong_array(
                    window,
                    name,
                    format!("shape {:?}, expected [rows, k]", header.shape),
                ));
            };
            if layer == 0 {
                begin_layers(window, &facts, [names.len(), top_k])?;
            } else {
                window
                    .axes(&Place { file: window.file.clone(), ..Place::default() }, [names.len(), top_k])?;
            }
            read_layer(window, values, dtype, layer, rows, &facts, beside)
        })?;
    }
    end_layers(window, facts, &tallies);
    Ok(())
}

fn begin_layers(window: &mut Window<'_>, facts: &[Facts], shape: [usize; 2]) -> Result<(), ImportError> {
    let place = window.place(None);
    window.axes(&place, shape)?;
    window.allot(facts);
    Ok(())
}

/// Counts one layer of all samples.
fn read_layer(
    window: &mut Window<'_>,
    values: &mut dyn Read,
    dtype: Dtype,
    recorded: usize,
    rows: usize,
    facts: &[Facts],
    beside: &Beside,
) -> Result<Vec<Tally>, ImportError> {
    let shares = beside.shares(window, facts, rows)?;
    let axes = window.axes.as_ref().expect("the axes are resolved before layers are read");
    let layer = axes.moe.iter().position(|&layer| layer == recorded);
    let single = layer.map(|layer| axes.single(layer));
    let stride = axes.top_k * dtype.width();
    axes.check_dtype(dtype, &Place { file: window.file.clone(), ..Place::default() })?;
    let (file, mut block, mut tallies) = (window.file.clone(), Vec::new(), Vec::new());
    for (sample, (facts, rows)) in facts.iter().zip(shares).enumerate() {
        block.resize(rows * stride, 0);
        read_exact(values, &mut block, &file)?;
        if let (Some(layer), Some(single)) = (layer, &single) {
            let rows = Rows { first: 0, dtype, bytes: &block };
            tallies.push(window.count_layer(single, [sample, layer], facts.length, rows)?);
        }
    }
    Ok(tallies)
}

fn end_layers(window: &mut Window<'_>, facts: Vec<Facts>, tallies: &[Tally]) {
    for (facts, tally) in facts.into_iter().zip(tallies) {
        window.close_allotted(facts, *tally);
    }
}

/// Names that end in a layer's number, by that number.
fn layer_names(names: &[String]) -> Vec<String> {
    let number = |name: &str| {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        name.starts_with("layer").then(|| name[digits..].parse::<u32>().ok()).flatten()
    };
    let mut layers: Vec<(u32, String)> =
        names.iter().filter_map(|name| number(name).map(|number| (number, name.clone()))).collect();
    layers.sort_unstable();
    layers.into_iter().map(|(_, name)| name).collect()
}

fn read_distribution(window: &mut Window<'_>, carrier: &mut Carrier) -> Result<(), ImportError> {
    let name = if carrier.names() == [""] { "" } else { "logical_count" };
    carrier.read(name, |header, values| {
        let dtype = dtype_of(window, "logical_count", header)?;
        let (steps, layers, experts) = match header.shape[..] {
            [layers, experts] => (1, layers, experts),
            [steps, layers, experts] => (steps, layers, experts),
            _ => {
                let why = format!("shape {:?}, expected [steps, layers, experts]", header.shape);
                return Err(wrong_array(window, "logical_count", why));
            }
        };
        if steps == 0 {
            return Ok(());
        }
        let mut block = vec![0u8; layers * experts * dtype.width()];
        for _ in 0..steps {
            read_exact(values, &mut block, &window.file)?;
            let counts: Vec<i64> = (0..layers * experts).map(|at| dtype.value(&block, at)).collect();
            crate::distribution::add_step(window, &counts, [layers, experts])?;
        }
        Ok(())
    })
}

impl Beside {
    fn read(window: &Window<'_>, carrier: &mut Carrier, names: &[String]) -> Result<Self, ImportError> {
        let mut beside = Self::default();
        for name in names {
            match name.as_str() {
                "lengths" => beside.lengths = Some(read_vector(window, carrier, name)?),
                "rows" => beside.rows = Some(read_vector(window, carrier, name)?),
                "starts" => beside.starts = Some(read_vector(window, carrier, name)?),
                "loss_tokens" => beside.loss_tokens = Some(read_vector(window, carrier, name)?),
                "sample_ids" => beside.ids = Some(read_vector(window, carrier, name)?),
                "prompt_ids" => beside.prompt_ids = Some(read_vector(window, carrier, name)?),
                "step" => beside.steps = Some(read_vector(window, carrier, name)?),
                "attention_mask" => beside.runs = Some(read_mask(window, carrier, name)?),
                "response_mask" | "loss_mask" => {
                    let runs = read_mask(window, carrier, name)?;
                    let sums = runs.iter().map(|runs| runs.iter().map(|run| run.len() as i64).sum());
                    beside.loss_tokens = Some(sums.collect());
                }
                _ => {}
            }
        }
        if let Some(lengths) = &window.options.lengths {
            beside.lengths = Some(lengths.iter().map(|&length| i64::from(length)).collect());
        }
        if window.form == Form::Verl && beside.runs.is_none() {
            let why = "prompts are padded on the left; an array of that name [batch, sequence] tells where";
            return Err(ImportError::Undeclared { form: "verl", option: "attention_mask", why });
        }
        Ok(beside)
    }

    /// Facts of sample `index` of `samples`.
    fn facts(&self, window: &Window<'_>, index: usize, samples: Option<usize>) -> Result<Facts, ImportError> {
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
                let why = format!("{listed} by lengths, {masked} by attention_mask");
                return Err(ImportError::sample(&place, "length", why));
            }
            (Some(length), _) | (None, Some(length)) => tokens("length", length, &place)?,
            (None, None) => {
                let why = "not stated; an array `lengths` [samples] or `attention_mask` [batch, sequence] is needed";
                return Err(ImportError::sample(&place, "length", why));
            }
        };
        let loss = take("loss_tokens", &self.loss_tokens, &place)?;
        Ok(Facts {
            length,
            loss_tokens: loss.map(|loss| tokens("loss tokens", loss, &place)).transpose()?,
            id,
            prompt_id: take("prompt_ids", &self.prompt_ids, &place)?,
            step: take("step", &self.steps, &place)?,
        })
    }

    /// Facts of all samples; there are as many as lengths.
    fn all_facts(&self, window: &Window<'_>, samples: Option<usize>) -> Result<Vec<Facts>, ImportError> {
        let samples = samples.or(self.lengths.as_ref().map(Vec::len)).unwrap_or(1);
        (0..samples).map(|index| self.facts(window, index, Some(samples))).collect()
    }

    fn start(&self, place: &Place, index: usize) -> Result<u32, ImportError> {
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
    fn shares(&self, window: &Window<'_>, facts: &[Facts], rows: usize) -> Result<Vec<usize>, ImportError> {
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
            return match shares {
                Some(shares) if shares.len() == facts.len() && shares.iter().sum::<usize>() == rows => {
                    Ok(shares)
                }
                _ => Err(wrong_array(
                    window,
                    "rows",
                    format!(
                        "{} values that sum to {}, expected {} samples and {rows} rows",
                        stated.len(),
                        stated.iter().sum::<i64>(),
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

fn tokens(what: &str, value: i64, place: &Place) -> Result<u32, ImportError> {
    u32::try_from(value)
        .map_err(|_| ImportError::sample(place, what, format!("{value}: expected 0 to 4294967295")))
}

/// Bytes of a row. A header may speak of any shape where it holds no values.
fn stride_of(window: &Window<'_>, [layers, top_k]: [usize; 2], dtype: Dtype) -> Result<usize, ImportError> {
    let stride = layers.checked_mul(top_k).and_then(|ids| ids.checked_mul(dtype.width()));
    stride.filter(|&stride| stride > 0).ok_or_else(|| {
        wrong_array(window, "routed_experts", format!("{layers} layers, k = {top_k}: no rows of routes"))
    })
}

fn dtype_of(window: &Window<'_>, name: &str, header: &ArrayHeader) -> Result<Dtype, ImportError> {
    Dtype::of(header).map_err(|why| wrong_array(window, name, why))
}

fn wrong_array(window: &Window<'_>, array: &str, why: String) -> ImportError {
    FormatError::Array { file: window.file.clone(), array: array.to_owned(), why }.into()
}

fn read_exact(values: &mut dyn Read, block: &mut [u8], file: &str) -> Result<(), ImportError> {
    values.read_exact(block).map_err(|error| {
        FormatError::Access { file: file.to_owned(), action: "read", error: error.to_string() }.into()
    })
}

/// A vector of integers, one a sample.
fn read_vector(window: &Window<'_>, carrier: &mut Carrier, name: &str) -> Result<Vec<i64>, ImportError> {
    carrier.read(name, |header, values| {
        let dtype = dtype_of(window, name, header)?;
        let [count] = header.shape[..] else {
            return Err(wrong_array(window, name, format!("shape {:?}, expected [samples]", header.shape)));
        };
        let mut value = vec![0u8; dtype.width()];
        let mut vector = Vec::new();
        for _ in 0..count {
            read_exact(values, &mut value, &window.file)?;
            vector.push(dtype.value(&value, 0));
        }
        Ok(vector)
    })
}

/// A mask `[batch, sequence]` of 0 and 1 as runs of ones.
fn read_mask(
    window: &Window<'_>,
    carrier: &mut Carrier,
    name: &str,
) -> Result<Vec<Vec<Range<usize>>>, ImportError> {
    carrier.read(name, |header, values| {
        let dtype = match header.kind {
            ArrayKind::Boolean => Dtype::U8,
            _ => dtype_of(window, name, header)?,
        };
        let [batch, sequence] = header.shape[..] else {
            let why = format!("shape {:?}, expected [batch, sequence]", header.shape);
            return Err(wrong_array(window, name, why));
        };
        if batch == 0 {
            return Ok(Vec::new());
        }
        let mut line = vec![0u8; sequence * dtype.width()];
        let mut masks = Vec::new();
        for sample in 0..batch {
            read_exact(values, &mut line, &window.file)?;
            let mut runs: Vec<Range<usize>> = Vec::new();
            for at in 0..sequence {
                match (dtype.value(&line, at), runs.last_mut()) {
                    (0, _) => {}
                    (1, Some(run)) if run.end == at => run.end += 1,
                    (1, _) => runs.push(at..at + 1),
                    (value, _) => {
                        return Err(FormatError::Value {
                            file: window.file.clone(),
                            array: name.to_owned(),
                            index: format!("{sample}, {at}"),
                            value: value.to_string(),
                            limit: "expected 0 or 1".to_owned(),
                        }
                        .into());
                    }
                }
            }
            masks.push(runs);
        }
        Ok(masks)
    })
}
