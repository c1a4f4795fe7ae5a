//! Routes layer by layer: one array per `MoE` layer, or one array of all layers, samples one after another.

use std::io::Read;

use crate::batch_arrays::{dtype_of, read_exact, wrong_array};
use crate::beside::Beside;
use crate::carrier::Carrier;
use crate::facts::Facts;
use crate::sample::{Rows, Tally};
use crate::window::Window;
use crate::{Dtype, ImportError, Place};

/// One array `[rows, k]` per `MoE` layer.
pub(crate) fn read_layers(
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

/// One array `[layers, rows, k]`.
pub(crate) fn read_stacked_layers(
    window: &mut Window<'_>,
    values: &mut dyn Read,
    dtype: Dtype,
    [layers, rows, top_k]: [usize; 3],
    beside: &Beside,
) -> Result<(), ImportError> {
    let facts = beside.all_facts(window, None)?;
    begin_layers(window, &facts, [layers, top_k])?;
    let mut tallies = Vec::new();
    for layer in 0..layers {
        tallies = read_layer(window, values, dtype, layer, rows, &facts, beside)?;
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
pub(crate) fn layer_names(names: &[String]) -> Vec<String> {
    let number = |name: &str| {
        let digits = name.len() - name.bytes().rev().take_while(u8::is_ascii_digit).count();
        name.starts_with("layer").then(|| name[digits..].parse::<u32>().ok()).flatten()
    };
    let mut layers: Vec<(u32, String)> =
        names.iter().filter_map(|name| number(name).map(|number| (number, name.clone()))).collect();
    layers.sort_unstable();
    layers.into_iter().map(|(_, name)| name).collect()
}
