//! Recordings, a naive count of them, and a writer for every form.

#![allow(dead_code, clippy::unwrap_used, reason = "shared by several test files")]

use std::fmt::Write as _;
use std::io::Write as _;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flate2::write::GzEncoder;
use proptest::prelude::*;
use routepack_import::{Dtype, Form, ImportOptions, Layers, Missing};

/// A row of routes `[MoE layers][k]`; `None` is missing.
pub(crate) type Row = Option<Vec<Vec<u16>>>;

/// One rollout: T tokens, the first of them the prompt's, and the routes of the first T − 1 or T tokens.
#[derive(Clone, Debug)]
pub(crate) struct Rollout {
    pub(crate) length: usize,
    pub(crate) prompt: usize,
    pub(crate) rows: Vec<Row>,
}

/// Rollouts of one model.
#[derive(Clone, Debug)]
pub(crate) struct Recording {
    pub(crate) experts: usize,
    pub(crate) top_k: usize,
    pub(crate) layers: usize,
    pub(crate) rollouts: Vec<Rollout>,
}

impl Recording {
    /// Counts `[samples][layers][experts]` and rows, by the definition.
    pub(crate) fn count(&self) -> (Vec<u32>, Vec<u32>) {
        let (mut counts, mut rows) = (Vec::new(), Vec::new());
        for rollout in &self.rollouts {
            for layer in 0..self.layers {
                for expert in 0..self.experts {
                    let chose =
                        |row: &&Row| row.as_ref().is_some_and(|row| row[layer].contains(&(expert as u16)));
                    counts.push(rollout.rows.iter().filter(chose).count() as u32);
                }
            }
            rows.push(rollout.rows.iter().flatten().count() as u32);
        }
        (counts, rows)
    }

    pub(crate) fn lengths(&self) -> Vec<u32> {
        self.rollouts.iter().map(|rollout| rollout.length as u32).collect()
    }
}

/// How a form is to be written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Style {
    pub(crate) form: Form,
    /// Dense layers in front of the `MoE` layers.
    pub(crate) dense: usize,
    pub(crate) dtype: Dtype,
    /// Arrays rather than lines.
    pub(crate) arrays: bool,
}

impl Style {
    pub(crate) fn options(&self, recording: &Recording) -> ImportOptions {
        let (layers, dense) = (recording.layers as u32, self.dense as u32);
        ImportOptions {
            top_k: Some(recording.top_k as u32),
            num_layers: Some(layers + dense),
            layers: Some(if dense == 0 {
                Layers::Moe
            } else {
                Layers::All((dense..dense + layers).collect())
            }),
            missing: Missing::LeaveOut,
            ..ImportOptions::new(recording.experts as u32)
        }
    }
}

/// Ids `[layers of the axis][k]` of one row as integers, dense layers zero.
fn row_ids(recording: &Recording, style: Style, row: &Row) -> Vec<Vec<i64>> {
    let filler = match style.form {
        Form::Verl | Form::PrimeRl | Form::SkyRl => 0,
        _ => -1,
    };
    let mut ids = vec![vec![0; recording.top_k]; style.dense];
    match row {
        Some(layers) => {
            ids.extend(layers.iter().map(|layer| layer.iter().map(|&id| i64::from(id)).collect()));
        }
        None => ids.extend(vec![vec![filler; recording.top_k]; recording.layers]),
    }
    ids
}

/// `arange(k)` in every layer.
fn pad_row(recording: &Recording, style: Style) -> Vec<Vec<i64>> {
    vec![(0..recording.top_k as i64).collect(); recording.layers + style.dense]
}

pub(crate) fn to_bytes(values: impl IntoIterator<Item = i64>, dtype: Dtype) -> Vec<u8> {
    values.into_iter().flat_map(|value| value.to_le_bytes()[..dtype.width()].to_vec()).collect()
}

fn nested(rows: &[Vec<Vec<i64>>]) -> String {
    serde_json::to_string(rows).unwrap()
}

/// `[rows][layers][k]` → `[layers][rows][k]`.
fn layer_major(rows: &[Vec<Vec<i64>>], layers: usize) -> Vec<Vec<Vec<i64>>> {
    (0..layers).map(|layer| rows.iter().map(|row| row[layer].clone()).collect()).collect()
}

fn flat(rows: &[Vec<Vec<i64>>]) -> Vec<i64> {
    rows.iter().flatten().flatten().copied().collect()
}

fn npy(dtype: Dtype, shape: &[usize], bytes: &[u8]) -> Vec<u8> {
    let name = dtype.name();
    let kind = if name.starts_with('u') { 'u' } else { 'i' };
    let order = if dtype.width() == 1 { '|' } else { '<' };
    let mut tuple = String::new();
    shape.iter().for_each(|n| write!(tuple, "{n}, ").unwrap());
    let mut header = format!(
        "{{'descr': '{order}{kind}{}', 'fortran_order': False, 'shape': ({tuple}), }}",
        dtype.width()
    );
    let padding = 63 - (10 + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut file = b"\x93NUMPY\x01\x00".to_vec();
    file.extend((header.len() as u16).to_le_bytes());
    file.extend(header.as_bytes());
    file.extend(bytes);
    file
}

/// A named array.
#[derive(Clone)]
pub(crate) struct Named(pub(crate) String, pub(crate) Dtype, pub(crate) Vec<usize>, pub(crate) Vec<u8>);

pub(crate) fn npz(arrays: &[Named]) -> Vec<u8> {
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    for Named(name, dtype, shape, bytes) in arrays {
        let options = zip::write::SimpleFileOptions::default();
        archive.start_file(format!("{name}.npy"), options).unwrap();
        archive.write_all(&npy(*dtype, shape, bytes)).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

pub(crate) fn safetensors(arrays: &[Named]) -> Vec<u8> {
    use safetensors::Dtype as Type;
    let tensors = arrays.iter().map(|Named(name, dtype, shape, bytes)| {
        let dtype = match dtype {
            Dtype::I8 => Type::I8,
            Dtype::I16 => Type::I16,
            Dtype::I32 => Type::I32,
            Dtype::I64 => Type::I64,
            Dtype::U8 => Type::U8,
            Dtype::U16 => Type::U16,
            Dtype::U32 => Type::U32,
            Dtype::U64 => Type::U64,
        };
        (name.as_str(), safetensors::tensor::TensorView::new(dtype, shape.clone(), bytes).unwrap())
    });
    safetensors::serialize(tensors, None).unwrap()
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

/// The lines of a form.
pub(crate) fn write_lines(recording: &Recording, style: Style) -> String {
    let mut text = String::new();
    for (index, rollout) in recording.rollouts.iter().enumerate() {
        let rows: Vec<_> = rollout.rows.iter().map(|row| row_ids(recording, style, row)).collect();
        let axis = recording.layers + style.dense;
        let shape = [rows.len(), axis, recording.top_k];
        let base64 = || STANDARD.encode(to_bytes(flat(&rows), style.dtype));
        let tokens = serde_json::to_string(&vec![7; rollout.length]).unwrap();
        let (prompt, generated) = (rollout.prompt, rollout.length - rollout.prompt);
        let dictionary = |start: usize, rows: &[Vec<Vec<i64>>]| {
            let data = STANDARD.encode(to_bytes(flat(rows), style.dtype));
            let (name, count) = (style.dtype.name(), rows.len());
            format!(
                r#"{{"data":"{data}","shape":[{count},{axis},{}],"start":{start},"dtype":"{name}"}}"#,
                recording.top_k
            )
        };
        let line = match style.form {
            Form::Vllm => {
                let (of_prompt, of_choice) = rows.split_at(prompt.min(rows.len()));
                // A prompt has a row for every token, or none at all.
                let of_prompt = if of_prompt.len() < prompt { "null".to_owned() } else { nested(of_prompt) };
                format!(
                    r#"{{"id":"cmpl-{index}","usage":{{"prompt_tokens":{prompt},"completion_tokens":{generated}}},"prompt_routed_experts":{of_prompt},"choices":[{{"index":0,"text":"a\"b","routed_experts":{}}}]}}"#,
                    nested(of_choice)
                )
            }
            Form::VllmNpy => {
                let data = STANDARD.encode(npy(style.dtype, &shape, &to_bytes(flat(&rows), style.dtype)));
                format!(
                    r#"{{"prompt_token_ids":{},"choices":[{{"index":0,"token_ids":{},"routed_experts":"{data}"}}],"id":"cmpl-{index}"}}"#,
                    serde_json::to_string(&vec![1; prompt]).unwrap(),
                    serde_json::to_string(&vec![2; generated]).unwrap(),
                )
            }
            Form::Sglang => format!(
                r#"{{"text":"x","meta_info":{{"id":"r{index}","prompt_tokens":{prompt},"completion_tokens":{generated},"routed_experts":"{}"}}}}"#,
                base64()
            ),
            Form::Slime => {
                format!(r#"{{"index":{index},"tokens":{tokens},"rollout_routed_experts":{}}}"#, nested(&rows))
            }
            Form::Miles => {
                format!(r#"{{"index":{index},"tokens":{tokens},"rollout_routed_experts":"{}"}}"#, base64())
            }
            Form::NemoRl => {
                let mut padded = rows.clone();
                padded.extend([pad_row(recording, style), pad_row(recording, style)]);
                let data = STANDARD.encode(to_bytes(flat(&padded), style.dtype));
                let (name, count, k) = (style.dtype.name(), padded.len(), recording.top_k);
                format!(
                    r#"{{"length":{},"routed_experts":"nrlre1:{name}:{count}x{axis}x{k}:{data}"}}"#,
                    rollout.length
                )
            }
            Form::SkyRl => {
                format!(r#"{{"input_ids":{tokens},"rollout_expert_indices":{}}}"#, dictionary(0, &rows))
            }
            Form::PrimeRl => {
                // Two turns that meet where the prompt ends; the first has a longer tail that was not kept.
                let split = prompt.min(rows.len());
                let mut first = rows[..split].to_vec();
                first.extend(rows.last().cloned());
                first.truncate(rows.len());
                format!(
                    r#"{{"length":{},"routed_experts":[{},{}]}}"#,
                    rollout.length,
                    dictionary(0, &first),
                    dictionary(split, &rows[split..])
                )
            }
            Form::MsSwift => format!(r#"{{"input_ids":{tokens},"routed_experts":{}}}"#, nested(&rows)),
            Form::Tunix | Form::Megatron => format!(
                r#"{{"length":{},"routed_experts":{}}}"#,
                rollout.length,
                nested(&layer_major(&rows, axis))
            ),
            Form::Verl | Form::ExpertDistribution => unreachable!("arrays"),
        };
        text.push_str(&line);
        text.push('\n');
    }
    text
}

/// The arrays of a form.
pub(crate) fn write_arrays(recording: &Recording, style: Style) -> Vec<Named> {
    let axis = recording.layers + style.dense;
    let samples = recording.rollouts.len();
    let lengths = recording.lengths().into_iter().map(i64::from);
    let lengths = Named("lengths".to_owned(), Dtype::I64, vec![samples], to_bytes(lengths, Dtype::I64));
    let rows_of = |rollout: &Rollout| -> Vec<_> {
        rollout.rows.iter().map(|row| row_ids(recording, style, row)).collect()
    };
    match style.form {
        Form::Verl => {
            // Left-padded prompts: tokens end at different positions, with zeros around.
            let left = recording.rollouts.iter().map(|rollout| rollout.prompt).max().unwrap();
            let right =
                recording.rollouts.iter().map(|rollout| rollout.length - rollout.prompt).max().unwrap();
            let (mut routes, mut mask, mut response) = (Vec::new(), Vec::new(), Vec::new());
            for rollout in &recording.rollouts {
                let rows = rows_of(rollout);
                for position in 0..left + right {
                    let token =
                        (position + rollout.prompt).checked_sub(left).filter(|&token| token < rollout.length);
                    mask.push(i64::from(token.is_some()));
                    response.push(i64::from(token.is_some_and(|token| token >= rollout.prompt)));
                    let row = token.and_then(|token| rows.get(token).cloned());
                    routes.extend(flat(&[row.unwrap_or_else(|| vec![vec![0; recording.top_k]; axis])]));
                }
            }
            let shape = vec![samples, left + right];
            vec![
                Named(
                    "routed_experts".to_owned(),
                    style.dtype,
                    vec![samples, left + right, axis, recording.top_k],
                    to_bytes(routes, style.dtype),
                ),
                Named("attention_mask".to_owned(), Dtype::I64, shape.clone(), to_bytes(mask, Dtype::I64)),
                Named("response_mask".to_owned(), Dtype::U8, shape, to_bytes(response, Dtype::U8)),
            ]
        }
        Form::Tunix => {
            let longest = recording.rollouts.iter().map(|rollout| rollout.length).max().unwrap();
            let mut routes = Vec::new();
            for rollout in &recording.rollouts {
                let mut rows = rows_of(rollout);
                rows.resize(longest, vec![vec![-1; recording.top_k]; axis]);
                routes.extend(flat(&layer_major(&rows, axis)));
            }
            let shape = vec![samples, axis, longest, recording.top_k];
            vec![
                Named("routed_experts".to_owned(), style.dtype, shape, to_bytes(routes, style.dtype)),
                lengths,
            ]
        }
        Form::Megatron => {
            let rows: Vec<_> = recording.rollouts.iter().flat_map(rows_of).collect();
            let mut arrays: Vec<Named> = layer_major(&rows, axis)
                .iter()
                .enumerate()
                .map(|(layer, ids)| {
                    let bytes = to_bytes(ids.iter().flatten().copied(), style.dtype);
                    Named(format!("layer_{layer}"), style.dtype, vec![rows.len(), recording.top_k], bytes)
                })
                .collect();
            arrays.push(lengths);
            arrays
        }
        Form::ExpertDistribution => {
            let (counts, _) = recording.count();
            let mut values = Vec::new();
            for counts in counts.chunks(recording.layers * recording.experts) {
                values.extend(vec![0; style.dense * recording.experts]);
                values.extend(counts.iter().map(|&count| i64::from(count)));
            }
            let shape = vec![samples, axis, recording.experts];
            vec![Named("logical_count".to_owned(), Dtype::I32, shape, to_bytes(values, Dtype::I32))]
        }
        _ => {
            let rows: Vec<_> = recording.rollouts.iter().flat_map(rows_of).collect();
            let counts = recording.rollouts.iter().map(|rollout| rollout.rows.len() as i64);
            vec![
                Named(
                    "routed_experts".to_owned(),
                    style.dtype,
                    vec![rows.len(), axis, recording.top_k],
                    to_bytes(flat(&rows), style.dtype),
                ),
                Named("rows".to_owned(), Dtype::I64, vec![samples], to_bytes(counts, Dtype::I64)),
                lengths,
            ]
        }
    }
}

/// `top_k` different experts, never all 0 and never `0..k`, in an order of their own.
fn group(experts: usize, top_k: usize) -> impl Strategy<Value = Vec<u16>> + Clone {
    let all: Vec<u16> = (0..experts as u16).collect();
    proptest::sample::subsequence(all, top_k).prop_shuffle()
}

/// Recordings of small models; `gaps` allows missing rows.
pub(crate) fn recordings(gaps: bool) -> impl Strategy<Value = Recording> {
    (1usize..=3, 2usize..=12, 1usize..=5).prop_flat_map(move |(layers, experts, top_k)| {
        let top_k = top_k.min(experts);
        let row = proptest::collection::vec(group(experts, top_k), layers);
        let row = (row, proptest::bool::weighted(if gaps { 0.2 } else { 0.0 }))
            .prop_map(|(row, missing)| (!missing).then_some(row));
        let rollout = (1usize..=9, any::<proptest::sample::Index>(), any::<bool>())
            .prop_flat_map(move |(length, prompt, last)| {
                let rows = if last { length } else { length - 1 };
                (Just(length), Just(prompt.index(length)), proptest::collection::vec(row.clone(), rows))
            })
            .prop_map(|(length, prompt, rows)| Rollout { length, prompt, rows });
        proptest::collection::vec(rollout, 1..=4).prop_map(move |rollouts| Recording {
            experts,
            top_k,
            layers,
            rollouts,
        })
    })
}
