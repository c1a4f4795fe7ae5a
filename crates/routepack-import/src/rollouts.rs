//! Rollouts in JSON, one a line: facts, then pieces of routes, then counts.

use std::io::BufRead;

use routepack_formats::FormatError;

use crate::decode::{Decoded, Decoder, Scratch, Source};
use crate::error::read_error;
use crate::facts::{Facts, OutsideId};
use crate::rollout_line::{Choice, RolloutLine};
use crate::routes_value::RoutesValue;
use crate::sample::{Rows, Sample};
use crate::window::Window;
use crate::{Dtype, Form, ImportError, Place};

/// What some editors put before UTF-8.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Reads all lines; `progress` is told the samples so far after each and may end it.
pub(crate) fn read_rollouts(
    window: &mut Window<'_>,
    mut lines: impl BufRead,
    progress: &mut dyn FnMut(u64) -> Result<(), ImportError>,
) -> Result<(), ImportError> {
    if window.form == Form::Verl {
        return Err(ImportError::Carrier {
            file: window.file.clone(),
            form: "verl",
            carrier: "JSON",
            expected: "an .npz or safetensors file with routed_experts [batch, sequence, layers, k] and attention_mask",
        });
    }
    let (mut line, mut scratch) = (Vec::new(), [Scratch::default(), Scratch::default()]);
    for number in 1.. {
        line.clear();
        let read = lines.read_until(b'\n', &mut line).map_err(|error| read_error(&window.file, &error))?;
        if read == 0 {
            break;
        }
        if line.last() == Some(&b'\n') {
            line.pop();
        }
        let json = match line.strip_prefix(BYTE_ORDER_MARK) {
            Some(rest) if number == 1 => rest,
            _ => &line[..],
        };
        if json.iter().all(u8::is_ascii_whitespace) {
            continue;
        }
        let rollout: RolloutLine<'_> = serde_json::from_slice(json).map_err(|error| {
            let text = error.to_string();
            let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
            let why = match json.first() {
                Some(b'[') => "a list: expected one rollout a line (jq -c '.[]')".to_owned(),
                _ => format!("column {}: {why}", error.column()),
            };
            FormatError::Line { file: window.file.clone(), line: number, why }
        })?;
        read_rollout(window, &rollout, &mut scratch)?;
        progress(window.len() as u64)?;
    }
    Ok(())
}

fn read_rollout(
    window: &mut Window<'_>,
    line: &RolloutLine<'_>,
    scratch: &mut [Scratch; 2],
) -> Result<(), ImportError> {
    if window.form == Form::ExpertDistribution {
        return read_distribution(window, line);
    }
    let facts = Facts {
        length: 0,
        loss_tokens: line.loss(),
        id: line.outside_id().cloned(),
        prompt_id: line.prompt_id.or(line.group_index),
        uid: line.uid.as_ref().map(|uid| window.uid_number(uid)),
        step: line.step,
    };
    if let Some(choices) = &line.choices {
        for (position, choice) in choices.iter().enumerate() {
            read_choice(window, line, choice, (position, choices.len()), facts.clone(), scratch)?;
        }
        return Ok(());
    }
    let place = window.place(facts.id.as_ref());
    let facts = Facts { length: agreed_length(window, &place, line.lengths())?, ..facts };
    let (routes, start) = match &line.meta_info {
        Some(meta) if meta.routed_experts != RoutesValue::Absent => {
            (&meta.routed_experts, meta.start.or(line.start))
        }
        _ => (&line.routed_experts, line.start),
    };
    let mut pieces = Vec::new();
    let mut first = start.unwrap_or(0);
    if line.prompt_routed_experts != RoutesValue::Absent {
        let prompt = line.prompt_length();
        pieces.extend(prompt_pieces(&line.prompt_routed_experts, prompt, &place)?);
        first = start.or(prompt).unwrap_or(0);
    }
    pieces.extend(pieces_of(routes, first));
    add_pieces(window, facts, pieces, scratch)
}

/// One completion of a vLLM response.
fn read_choice(
    window: &mut Window<'_>,
    line: &RolloutLine<'_>,
    choice: &Choice<'_>,
    (position, count): (usize, usize),
    mut facts: Facts,
    scratch: &mut [Scratch; 2],
) -> Result<(), ImportError> {
    if count > 1 {
        let index = choice.index.map_or(position as u64, u64::from);
        facts.id = facts.id.map(|id| OutsideId::Text(format!("{}/{index}", id.text())));
    }
    facts.loss_tokens = choice.loss_tokens.or(facts.loss_tokens.filter(|_| count == 1));
    let place = window.place(facts.id.as_ref());
    let prompt = line.prompt_length();
    let own =
        prompt.zip(choice.response_length()).map(|(a, b)| ("prompt and choice", u64::from(a) + u64::from(b)));
    // Statements about the whole response concern a choice only if there is one.
    let whole = if count == 1 { line.lengths() } else { Vec::new() };
    facts.length = agreed_length(window, &place, own.into_iter().chain(whole).collect())?;
    let mut pieces = prompt_pieces(&line.prompt_routed_experts, prompt, &place)?;
    // Nested lists of a choice begin behind the prompt; texts hold the prompt too.
    let first = match &choice.routed_experts {
        RoutesValue::Nested(_) => prompt.unwrap_or(0),
        _ => 0,
    };
    pieces.extend(pieces_of(&choice.routed_experts, choice.start.or(line.start).unwrap_or(first)));
    add_pieces(window, facts, pieces, scratch)
}

/// The sample's length, on which all statements must agree.
fn agreed_length(
    window: &Window<'_>,
    place: &Place,
    mut stated: Vec<(&'static str, u64)>,
) -> Result<u32, ImportError> {
    if let Some(lengths) = &window.options.lengths {
        let Some(&length) = lengths.get(window.len()) else {
            return Err(ImportError::option("lengths", lengths.len(), "the file has more samples"));
        };
        stated.push(("the lengths given", u64::from(length)));
    }
    let Some(&(name, length)) = stated.first() else {
        let why = "not stated; expected one of length, tokens, usage of a single choice, or prompt and response token ids";
        return Err(ImportError::sample(place, "length", why));
    };
    if let Some((other, differs)) = stated.iter().find(|(_, other)| *other != length) {
        let why = format!("{length} by {name}, {differs} by {other}");
        return Err(ImportError::sample(place, "length", why));
    }
    u32::try_from(length)
        .map_err(|_| ImportError::sample(place, "length", format!("{length}: expected below 2^32")))
}

/// A piece and its first token position.
type Piece<'v> = (u32, Source<'v>);

fn pieces_of<'v>(routes: &'v RoutesValue<'v>, first: u32) -> Vec<Piece<'v>> {
    match routes {
        RoutesValue::Absent => Vec::new(),
        RoutesValue::Text(text) => vec![(first, Source::Text(text))],
        RoutesValue::Nested(nested) => vec![(first, Source::Nested(nested))],
        RoutesValue::Turns(turns) => {
            turns.iter().map(|turn| (first.saturating_add(turn.start), Source::Turn(turn))).collect()
        }
    }
}

/// Routes of the prompt: one row a prompt token.
fn prompt_pieces<'v>(
    routes: &'v RoutesValue<'v>,
    prompt: Option<u32>,
    place: &Place,
) -> Result<Vec<Piece<'v>>, ImportError> {
    if let (RoutesValue::Nested(nested), prompt) = (routes, prompt) {
        let rows = nested.shape[0];
        if prompt.is_none_or(|prompt| prompt as usize != rows) {
            let tokens =
                prompt.map_or_else(|| "an unknown number of".to_owned(), |prompt| prompt.to_string());
            let why = format!("{rows} rows, the prompt has {tokens} tokens");
            return Err(ImportError::sample(place, "prompt_routed_experts", why));
        }
    }
    Ok(pieces_of(routes, 0))
}

/// Counts the pieces of one sample. Of two pieces that meet, the later turn holds: its start is where the shared
/// prefix ends, so rows of the earlier turn from there on belong to no token of the sample.
fn add_pieces(
    window: &mut Window<'_>,
    facts: Facts,
    pieces: Vec<Piece<'_>>,
    [first_scratch, scratch]: &mut [Scratch; 2],
) -> Result<(), ImportError> {
    let place = window.place(facts.id.as_ref());
    let decoder = Decoder { form: window.form, options: window.options, place: &place };
    let mut decoded_first = None;
    let mut shape = None;
    if let Some(&(_, source)) = pieces.first() {
        let decoded = decoder.decode(source, first_scratch)?;
        shape = (decoded.shape[0] > 0).then_some([decoded.shape[1], decoded.shape[2]]);
        decoded_first = Some(decoded);
    }
    for &(_, source) in pieces.iter().skip(1) {
        if shape.is_none() {
            let decoded = decoder.decode(source, scratch)?;
            shape = (decoded.shape[0] > 0).then_some([decoded.shape[1], decoded.shape[2]]);
        }
    }
    if let Some(shape) = shape {
        window.axes(&place, shape)?;
    }
    let mut replaced = 0;
    window.add(facts, |sample| {
        for (index, &(first, source)) in pieces.iter().enumerate() {
            let later = pieces[index + 1..].iter().map(|&(first, _)| first).min();
            let decoded = match decoded_first.filter(|_| index == 0) {
                Some(decoded) => decoded,
                None => decoder.decode(source, scratch)?,
            };
            replaced += feed(sample, first, decoded, later)?;
        }
        Ok(())
    })?;
    window.summary.replaced_rows += replaced;
    Ok(())
}

/// Counts the rows of one piece below `later`; returns how many were not.
fn feed(
    sample: &mut Sample<'_>,
    first: u32,
    decoded: Decoded<'_>,
    later: Option<u32>,
) -> Result<u64, ImportError> {
    let Decoded { dtype, shape: [rows, layers, top_k], bytes } = decoded;
    if rows == 0 {
        return Ok(0);
    }
    if [layers, top_k] != [sample.axes.recorded, sample.axes.top_k] {
        let why = format!(
            "[layers, k] = {:?}, the routes before have {:?}",
            [layers, top_k],
            [sample.axes.recorded, sample.axes.top_k]
        );
        return Err(ImportError::sample(sample.place, "shape", why));
    }
    sample.axes.check_dtype(dtype, sample.place)?;
    let kept = later.map_or(rows, |later| rows.min(later.saturating_sub(first) as usize));
    let stride = layers * top_k * dtype.width();
    if kept > 0 {
        sample.count(Rows { first, dtype, bytes: &bytes[..kept * stride] })?;
    }
    Ok((rows - kept) as u64)
}

/// A dump of aggregated counts: `[layers, experts]` or `[steps, layers, experts]`.
fn read_distribution(window: &mut Window<'_>, line: &RolloutLine<'_>) -> Result<(), ImportError> {
    let place = window.place(line.outside_id());
    let RoutesValue::Nested(nested) = &line.logical_count else {
        return Err(ImportError::sample(&place, "logical_count", "expected nested lists [layers, experts]"));
    };
    let ([layers, experts] | [_, layers, experts]) = nested.shape[..] else {
        let why = format!("shape {:?}, expected [steps, layers, experts]", nested.shape);
        return Err(ImportError::sample(&place, "logical_count", why));
    };
    let values: Vec<i64> =
        (0..nested.bytes.len() / 4).map(|at| Dtype::I32.value(&nested.bytes, at)).collect();
    for counts in values.chunks(layers.max(1) * experts.max(1)) {
        crate::distribution::add_step(window, counts, [layers, experts])?;
    }
    Ok(())
}
