//! Routes in memory → counts, for rollout workers: routes are aggregated where they are.

use crate::form::Filler;
use crate::sample::{Rows, Sample};
use crate::{Dtype, Form, ImportError, ImportOptions, Layers, Missing, Place};

/// Routes of one sample in memory, row-major `[rows, layers, k]`.
#[derive(Clone, Copy, Debug)]
pub struct Routes<'a> {
    /// Integer type of the ids.
    pub dtype: Dtype,
    /// `[rows, layers, k]`.
    pub shape: [usize; 3],
    /// The ids, little-endian.
    pub bytes: &'a [u8],
}

/// Counts `[layers, experts]` of the rows whose mask is set (all by default), and how many rows those are.
///
/// Rows of −1 are missing and not counted. All layers are `MoE` layers, ids are logical.
///
/// # Errors
/// As [`import`](crate::import): a shape, a mask of another length, a narrow type, an id that repeats or is no expert.
pub fn count_routes(
    routes: Routes<'_>,
    num_experts: u32,
    mask: Option<&[bool]>,
) -> Result<(Vec<u32>, u32), ImportError> {
    let Routes { dtype, shape: [rows, layers, top_k], bytes } = routes;
    let place = Place::default();
    let options = ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(num_experts) };
    options.validate()?;
    let axes = crate::axes::Axes::resolve(Form::Vllm, &options, &place, [layers, top_k])?;
    axes.check_dtype(dtype, &place)?;
    let stride = layers * top_k * dtype.width();
    if rows.checked_mul(stride) != Some(bytes.len()) {
        let why = format!("{} bytes, shape {:?} needs another number", bytes.len(), routes.shape);
        return Err(ImportError::sample(&place, "routes", why));
    }
    if let Some(mask) = mask.filter(|mask| mask.len() != rows) {
        return Err(ImportError::sample(&place, "mask", format!("{} values for {rows} rows", mask.len())));
    }
    let length = u32::try_from(rows)
        .ok()
        .and_then(|rows| rows.checked_add(1))
        .ok_or_else(|| ImportError::sample(&place, "rows", format!("{rows}: expected below 2^32")))?;
    let (mut counts, mut row) = (vec![0; layers * axes.plan.experts], Vec::new());
    // One token more than rows: no row is the last token's.
    let mut sample = Sample::new(&axes, Filler::None, &place, length, &mut counts, &mut row);
    let mut from = 0;
    while from < rows {
        let end = match mask {
            None => rows,
            Some(mask) => (from..rows).find(|&row| mask[row] != mask[from]).unwrap_or(rows),
        };
        if mask.is_none_or(|mask| mask[from]) {
            sample.count(Rows { first: from as u32, dtype, bytes: &bytes[from * stride..end * stride] })?;
        }
        from = end;
    }
    let (counted, _) = sample.finish(Missing::LeaveOut)?;
    Ok((counts, counted))
}
