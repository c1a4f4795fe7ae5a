//! Windows: the arrays of a [`Batch`] as `.npz` or, for tiny ones, JSON.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

use routepack_problem::{Batch, CostTable, ExpertCounts, SampleIds};

use crate::FormatError;
use crate::atomic::{open, write_atomically};
use crate::error::{said, shown};
use crate::json_arrays::JsonArrays;
use crate::npy::{Array, Target};
use crate::npy_write::Encoded;
use crate::npz::{Npz, encode};

/// Arrays a window may hold.
pub(crate) const ARRAYS: [&str; 9] = [
    "lengths",
    "expert_counts",
    "routed_rows",
    "loss_tokens",
    "sample_ids",
    "prompt_ids",
    "atomic_groups",
    "step",
    "cost",
];

/// Reads a window from a file, or from the standard input for `-`.
///
/// Whether it is `.npz` or JSON is told by its first bytes. Shapes and value ranges are checked; what ties the values
/// together (Σ of counts = `top_k` · rows) needs the job and is checked by [`routepack_problem::prepare`].
///
/// # Errors
/// The file cannot be read; it is neither form; an array is unknown, missing, damaged, of a wrong data type or shape,
/// or holds a value out of range. The error names file, array, index, value and limit.
pub fn read_batch(path: &Path) -> Result<Batch, FormatError> {
    let (source, name) = open(path)?;
    read_batch_from(source, &name)
}

/// Reads a window from a source; `name` stands for the file in messages.
///
/// # Errors
/// As [`read_batch`].
pub fn read_batch_from(mut source: impl Read + Seek, name: &str) -> Result<Batch, FormatError> {
    let unreadable = |error: std::io::Error| FormatError::access(name, "read", &error);
    let mut start = Vec::new();
    source.by_ref().take(64).read_to_end(&mut start).map_err(unreadable)?;
    source.seek(SeekFrom::Start(0)).map_err(unreadable)?;
    if start.starts_with(b"PK") {
        assemble(&mut Npz::open(source, name)?, name)
    } else if start.trim_ascii_start().starts_with(b"{") {
        let mut bytes = Vec::new();
        source.read_to_end(&mut bytes).map_err(unreadable)?;
        assemble(&mut JsonArrays::parse(&bytes, name)?, name)
    } else if start.is_empty() {
        Err(FormatError::form(name, "the file is empty; expected a window as .npz or JSON"))
    } else {
        Err(FormatError::form(name, "neither an .npz archive (PK…) nor a JSON object; expected a window"))
    }
}

/// Whether bytes begin as a window does: an archive or a JSON object.
pub(crate) fn is_window(bytes: &[u8]) -> bool {
    bytes.starts_with(b"PK") || bytes.trim_ascii_start().starts_with(b"{")
}

type Accept<'a> = &'a dyn Fn(&[usize]) -> Result<(), String>;

/// Where a window's arrays come from.
trait Arrays {
    fn names(&self) -> Vec<String>;
    fn integers<T: Target>(&mut self, array: &str, accept: Accept<'_>) -> Result<Array<T>, FormatError>;
    fn ids(&mut self, array: &str, accept: Accept<'_>) -> Result<SampleIds, FormatError>;
}

impl<R: Read + Seek> Arrays for Npz<R> {
    fn names(&self) -> Vec<String> {
        Npz::names(self).to_vec()
    }
    fn integers<T: Target>(&mut self, array: &str, accept: Accept<'_>) -> Result<Array<T>, FormatError> {
        Npz::integers(self, array, accept)
    }
    fn ids(&mut self, array: &str, accept: Accept<'_>) -> Result<SampleIds, FormatError> {
        Ok(match self.texts_or_integers(array, accept)? {
            Ok(texts) => SampleIds::Strings(texts.values),
            Err(integers) => SampleIds::Integers(integers.values),
        })
    }
}

impl Arrays for JsonArrays {
    fn names(&self) -> Vec<String> {
        JsonArrays::names(self)
    }
    fn integers<T: Target>(&mut self, array: &str, accept: Accept<'_>) -> Result<Array<T>, FormatError> {
        JsonArrays::integers(self, array, accept)
    }
    fn ids(&mut self, array: &str, accept: Accept<'_>) -> Result<SampleIds, FormatError> {
        if self.is_text(array) {
            Ok(SampleIds::Strings(self.texts(array, accept)?.values))
        } else {
            Ok(SampleIds::Integers(JsonArrays::integers(self, array, accept)?.values))
        }
    }
}

fn assemble(arrays: &mut impl Arrays, file: &str) -> Result<Batch, FormatError> {
    let names = arrays.names();
    if let Some(unknown) = names.iter().find(|name| !ARRAYS.contains(&name.as_str())) {
        let (array, known) = (shown(unknown), ARRAYS.join(", "));
        return Err(FormatError::UnknownArray { file: file.to_owned(), array, known });
    }
    let has = |name: &str| names.iter().any(|found| found == name);
    if !has("lengths") {
        let (array, present) = ("lengths".to_owned(), said(&names.join(", ")));
        return Err(FormatError::MissingArray { file: file.to_owned(), array, present });
    }
    let lengths: Array<u32> = arrays.integers("lengths", &|shape| match shape {
        [_] => Ok(()),
        _ => Err("[samples]".to_owned()),
    })?;
    let n = lengths.values.len();
    let vector = move |shape: &[usize]| {
        if shape == [n] { Ok(()) } else { Err(format!("[{n}], as lengths")) }
    };
    let mut counts_of = |name: &str| -> Result<Option<Vec<u32>>, FormatError> {
        has(name).then(|| Ok(arrays.integers(name, &vector)?.values)).transpose()
    };
    let (routed_rows, loss_tokens) = (counts_of("routed_rows")?, counts_of("loss_tokens")?);
    let mut integers_of = |name: &str| -> Result<Option<Vec<i64>>, FormatError> {
        has(name).then(|| Ok(arrays.integers(name, &vector)?.values)).transpose()
    };
    let (prompt_ids, atomic_groups, step) =
        (integers_of("prompt_ids")?, integers_of("atomic_groups")?, integers_of("step")?);
    let sample_ids = if has("sample_ids") { Some(arrays.ids("sample_ids", &vector)?) } else { None };
    match &sample_ids {
        Some(SampleIds::Integers(ids)) => occur_once(ids, file)?,
        Some(SampleIds::Strings(ids)) => occur_once(ids, file)?,
        None => {}
    }
    let expert_counts = if has("expert_counts") { Some(read_counts(arrays, n)?) } else { None };
    let cost = if has("cost") { Some(read_cost(arrays, n)?) } else { None };
    Ok(Batch {
        lengths: lengths.values,
        expert_counts,
        routed_rows,
        loss_tokens,
        sample_ids,
        prompt_ids,
        atomic_groups,
        step,
        cost,
    })
}

/// Two samples of one id could not be told apart in a plan.
fn occur_once<I: Eq + Hash + Debug>(ids: &[I], file: &str) -> Result<(), FormatError> {
    let mut places = HashMap::with_capacity(ids.len());
    for (place, id) in ids.iter().enumerate() {
        if let Some(before) = places.insert(id, place) {
            return Err(FormatError::Value {
                file: file.to_owned(),
                array: "sample_ids".to_owned(),
                index: place.to_string(),
                value: shown(&format!("{id:?}")),
                limit: format!("expected ids that occur once, sample_ids[{before}] is the same"),
            });
        }
    }
    Ok(())
}

fn read_counts(arrays: &mut impl Arrays, n: usize) -> Result<ExpertCounts, FormatError> {
    let array: Array<u32> = arrays.integers("expert_counts", &|shape| match shape {
        [samples, rest @ ..] if *samples == n && matches!(rest.len(), 2 | 3) && !rest.contains(&0) => Ok(()),
        _ => Err(format!("[{n}, layers, experts] or [{n}, parts, layers, experts], all positive")),
    })?;
    let shape = match array.shape[..] {
        [samples, layers, experts] => [samples, 1, layers, experts],
        [samples, parts, layers, experts] => [samples, parts, layers, experts],
        _ => unreachable!("accepted shapes have three or four dimensions"),
    };
    Ok(ExpertCounts::new(shape, array.values).expect("the shape was accepted and filled"))
}

fn read_cost(arrays: &mut impl Arrays, n: usize) -> Result<CostTable, FormatError> {
    let array: Array<u32> = arrays.integers("cost", &|shape| match shape {
        [samples] if *samples == n => Ok(()),
        [samples, kinds] if *samples == n && *kinds > 0 => Ok(()),
        _ => Err(format!("[{n}, attention kinds] or [{n}]")),
    })?;
    Ok(CostTable { kinds: array.shape.get(1).copied().unwrap_or(1), values: array.values })
}

/// Writes a window as `.npz`: deflated, every array in the smallest of u16/u32 or i32/i64, the same batch the same
/// bytes.
///
/// # Errors
/// The file cannot be written; a text id that ends with a zero character, which `NumPy` cannot hold.
pub fn write_batch_npz(path: &Path, batch: &Batch) -> Result<(), FormatError> {
    write_atomically(path, &encode_batch(batch)?)
}

/// The bytes of a window as `.npz`, as [`write_batch_npz`] writes them.
///
/// # Errors
/// A text id that ends with a zero character.
pub fn encode_batch(batch: &Batch) -> Result<Vec<u8>, FormatError> {
    let vector = [batch.num_samples()];
    let mut arrays = vec![Encoded::counts("lengths", &vector, &[&batch.lengths])];
    if let Some(counts) = &batch.expert_counts {
        let [samples, parts, layers, experts] = counts.shape();
        arrays.push(if parts == 1 {
            Encoded::counts("expert_counts", &[samples, layers, experts], &counts.by_sample())
        } else {
            Encoded::counts("expert_counts", &counts.shape(), &counts.by_sample())
        });
    }
    for (name, values) in [("routed_rows", &batch.routed_rows), ("loss_tokens", &batch.loss_tokens)] {
        arrays.extend(values.as_ref().map(|values| Encoded::counts(name, &[values.len()], &[values])));
    }
    match &batch.sample_ids {
        Some(SampleIds::Integers(ids)) => arrays.push(Encoded::integers("sample_ids", &[ids.len()], ids)),
        Some(SampleIds::Strings(ids)) => {
            if let Some(index) = ids.iter().position(|id| id.ends_with('\0')) {
                let place = crate::npy::Place { file: "window", array: "sample_ids" };
                let limit = "a text that ends with a zero character cannot be written as .npz";
                return Err(place.wrong_value(&[index], &format!("{:?}", ids[index]), limit));
            }
            arrays.push(Encoded::texts("sample_ids", ids));
        }
        None => {}
    }
    for (name, values) in
        [("prompt_ids", &batch.prompt_ids), ("atomic_groups", &batch.atomic_groups), ("step", &batch.step)]
    {
        arrays.extend(values.as_ref().map(|values| Encoded::integers(name, &[values.len()], values)));
    }
    if let Some(cost) = &batch.cost {
        let samples = cost.values.len() / cost.kinds.max(1);
        arrays.push(Encoded::counts("cost", &[samples, cost.kinds], &[&cost.values]));
    }
    Ok(encode(&arrays))
}
