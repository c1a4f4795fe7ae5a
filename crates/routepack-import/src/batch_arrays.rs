//! Batches as arrays: routes of many samples in one array, facts about them in others.

use std::io::Read;

use routepack_formats::{ArrayHeader, FormatError};

use crate::beside::Beside;
use crate::carrier::Carrier;
use crate::decode::to_token_major;
use crate::error::read_error;
use crate::form::Order;
use crate::layer_arrays::{layer_names, read_layers, read_stacked_layers};
use crate::sample::Rows;
use crate::window::Window;
use crate::{Dtype, Form, ImportError};

/// Bytes of routes read at once.
const BLOCK: usize = 1 << 18;
/// Names the routes may have; the empty one is that of an `.npy` file.
const ROUTES: [&str; 4] = ["routed_experts", "rollout_routed_experts", "rollout_expert_indices", ""];

/// Reads a file of arrays.
pub(crate) fn read_arrays(
    window: &mut Window<'_>,
    carrier: &mut Carrier,
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
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
                read_stacked_layers(window, values, dtype, [layers, rows, top_k], &beside)
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
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    beside.check_width(window, rows)?;
    let stride = stride_of(window, [layers, top_k], dtype)?;
    let layer_major = window.form.order() == Order::LayerMajor;
    let (mut block, mut turned) = (Vec::new(), Vec::new());
    for index in 0..samples {
        let facts = beside.facts(window, index, Some(samples))?;
        let place = window.place(facts.id.as_ref());
        window.axes(&place, [layers, top_k])?.check_dtype(dtype, &place)?;
        let whole = 0..rows;
        let runs = beside.runs.as_ref().map_or(std::slice::from_ref(&whole), |runs| &runs[index]);
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
        progress(window.len() as u64)?;
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
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
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
        progress(window.len() as u64)?;
    }
    Ok(())
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

/// Bytes of a row. A header may speak of any shape where it holds no values.
fn stride_of(window: &Window<'_>, [layers, top_k]: [usize; 2], dtype: Dtype) -> Result<usize, ImportError> {
    let stride = layers.checked_mul(top_k).and_then(|ids| ids.checked_mul(dtype.width()));
    stride.filter(|&stride| stride > 0).ok_or_else(|| {
        wrong_array(window, "routed_experts", format!("{layers} layers, k = {top_k}: no rows of routes"))
    })
}

pub(crate) fn dtype_of(window: &Window<'_>, name: &str, header: &ArrayHeader) -> Result<Dtype, ImportError> {
    Dtype::of(header).map_err(|why| wrong_array(window, name, why))
}

pub(crate) fn wrong_array(window: &Window<'_>, array: &str, why: String) -> ImportError {
    // The one array of an `.npy` file has no name.
    let array = if array.is_empty() { "array" } else { array }.to_owned();
    FormatError::Array { file: window.file.clone(), array, why }.into()
}

pub(crate) fn read_exact(values: &mut dyn Read, block: &mut [u8], file: &str) -> Result<(), ImportError> {
    values.read_exact(block).map_err(|error| read_error(file, &error))
}
