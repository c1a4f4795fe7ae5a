//! One sample's rows: which are counted, which are filler, which are missing, and which are wrong.

use crate::axes::Axes;
use crate::count_rows::count_rows;
use crate::form::Filler;
use crate::scale_up::scale_up;
use crate::{Dtype, ImportError, Missing, Place};

/// Consecutive rows, token-major: `[rows, layers, k]`.
#[derive(Clone, Copy)]
pub(crate) struct Rows<'a> {
    /// Token position of the first.
    pub(crate) first: u32,
    pub(crate) dtype: Dtype,
    pub(crate) bytes: &'a [u8],
}

/// What became of one sample's rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    /// Rows counted.
    pub(crate) counted: u32,
    /// Whether the last token's row was among them.
    pub(crate) last: bool,
    /// First row before the last token's that was not counted.
    pub(crate) gap: Option<u32>,
    /// Filler rows skipped.
    pub(crate) filler: u64,
}

/// A sample being counted.
pub(crate) struct Sample<'a> {
    pub(crate) axes: &'a Axes,
    pub(crate) filler: Filler,
    pub(crate) place: &'a Place,
    /// Tokens T.
    pub(crate) length: u32,
    /// Counts `[MoE layers, E]`.
    pub(crate) counts: &'a mut [u32],
    /// Reused memory.
    pub(crate) row: &'a mut Vec<u16>,
    /// Tokens below this position have been handed over.
    next: u32,
    tally: Tally,
}

impl<'a> Sample<'a> {
    pub(crate) fn new(
        axes: &'a Axes,
        filler: Filler,
        place: &'a Place,
        length: u32,
        counts: &'a mut [u32],
        row: &'a mut Vec<u16>,
    ) -> Self {
        Self { axes, filler, place, length, counts, row, next: 0, tally: Tally::default() }
    }

    /// Counts a piece; pieces come in the order of their positions.
    pub(crate) fn count(&mut self, rows: Rows<'_>) -> Result<(), ImportError> {
        let stride = self.axes.plan.row_ids * rows.dtype.width();
        if !rows.bytes.len().is_multiple_of(stride) {
            let why = format!("{} bytes, expected a multiple of {stride} for one row", rows.bytes.len());
            return Err(ImportError::sample(self.place, "routes", why));
        }
        if rows.first < self.next {
            return Err(ImportError::Overlap { place: self.place.clone(), row: rows.first, end: self.next });
        }
        let num_rows = rows.bytes.len() / stride;
        let last = u64::from(self.length.saturating_sub(1));
        if num_rows > 0 && rows.first > self.next {
            self.miss(self.next);
        }
        let body = last.saturating_sub(u64::from(rows.first)).min(num_rows as u64) as usize;
        let (body, tail) = rows.bytes.split_at(body * stride);
        self.count_body(rows.first, rows.dtype, body, stride)?;
        for (index, row) in tail.chunks_exact(stride).enumerate() {
            let position = u64::from(rows.first) + (body.len() / stride + index) as u64;
            self.count_tail(position, rows.dtype, row)?;
        }
        self.next = (u64::from(rows.first) + num_rows as u64).min(u64::from(self.length)) as u32;
        Ok(())
    }

    /// Rows before the last token's.
    fn count_body(
        &mut self,
        first: u32,
        dtype: Dtype,
        bytes: &[u8],
        stride: usize,
    ) -> Result<(), ImportError> {
        let (mut rest, mut position) = (bytes, first);
        while !rest.is_empty() {
            let counted = count_rows(&self.axes.plan, dtype, rest, self.row, self.counts);
            self.tally.counted += counted as u32;
            position += counted as u32;
            rest = &rest[counted * stride..];
            let Some((row, later)) = rest.split_at_checked(stride) else { break };
            // Only a row that is missing as a whole may be passed over.
            if !self.is_missing(dtype, row) {
                return Err(self.wrong(position, dtype, row));
            }
            self.miss(position);
            position += 1;
            rest = later;
        }
        Ok(())
    }

    /// The last token's row, or one beyond it.
    fn count_tail(&mut self, position: u64, dtype: Dtype, row: &[u8]) -> Result<(), ImportError> {
        let last = u64::from(self.length.saturating_sub(1));
        if self.is_missing(dtype, row) || self.is_filler(dtype, row) {
            self.tally.filler += 1;
        } else if position > last {
            let (place, length) = (self.place.clone(), self.length);
            return Err(ImportError::TooManyRows { place, rows: position + 1, length });
        } else if count_rows(&self.axes.plan, dtype, row, self.row, self.counts) == 1 {
            self.tally.counted += 1;
            self.tally.last = true;
        } else {
            return Err(self.wrong(position as u32, dtype, row));
        }
        Ok(())
    }

    fn miss(&mut self, position: u32) {
        // The last token's row is never missing.
        if position < self.length.saturating_sub(1) {
            self.tally.gap = self.tally.gap.or(Some(position));
        }
    }

    /// Whether every `MoE` layer of the row is −1, or 0 where the form says so and k > 1.
    fn is_missing(&self, dtype: Dtype, row: &[u8]) -> bool {
        let zeros = self.filler == Filler::Zeros && self.axes.top_k > 1;
        let mut ids = self.routed().map(|at| dtype.value(row, at)).peekable();
        match ids.peek() {
            Some(-1) => ids.all(|id| id == -1),
            Some(0) if zeros => ids.all(|id| id == 0),
            _ => false,
        }
    }

    /// Whether the row is the form's filler.
    fn is_filler(&self, dtype: Dtype, row: &[u8]) -> bool {
        let top_k = self.axes.top_k;
        let holds = |expected: &dyn Fn(usize) -> usize| {
            self.routed().all(|at| dtype.value(row, at) == expected(at) as i64)
        };
        match self.filler {
            Filler::None => false,
            Filler::Zeros => holds(&|_| 0),
            Filler::Arange => holds(&|at| at % top_k),
        }
    }

    /// Positions of the ids of `MoE` layers in a row.
    fn routed(&self) -> impl Iterator<Item = usize> {
        self.axes.plan.routed.iter().cloned().flatten()
    }

    /// What is wrong with a row that was not counted.
    fn wrong(&self, row: u32, dtype: Dtype, bytes: &[u8]) -> ImportError {
        let place = self.place.clone();
        let (top_k, ids) = (self.axes.top_k, self.axes.num_ids());
        for at in self.axes.plan.dense.iter().cloned().flatten() {
            let value = dtype.value(bytes, at);
            if value > 0 {
                return ImportError::DenseRouted {
                    place,
                    row,
                    layer: at / top_k + self.axes.first_layer,
                    value,
                };
            }
        }
        for (index, &layer) in self.axes.moe.iter().enumerate() {
            let group: Vec<i64> = (0..top_k).map(|at| dtype.value(bytes, layer * top_k + at)).collect();
            let layer = layer + self.axes.first_layer;
            if group.iter().all(|&id| id == -1) {
                return ImportError::PartlyMissing { place, row, layer };
            }
            if let Some(&value) = group.iter().find(|&&id| id < 0 || id >= ids as i64) {
                return ImportError::OutOfRange { place, row, layer, value, ids };
            }
            let expert = |id: i64| match &self.axes.plan.phys2log {
                Some(map) => i64::from(map[index * ids + id as usize]),
                None => id,
            };
            for (at, &id) in group.iter().enumerate() {
                if group[..at].iter().any(|&other| expert(other) == expert(id)) {
                    let hint = if group.iter().all(|&id| id == 0) {
                        " (all zero: is the layer dense, or the row missing?)"
                    } else {
                        ""
                    };
                    return ImportError::Repeated { place, row, layer, value: expert(id), top_k, hint };
                }
            }
        }
        // Values fit, so a dense layer holds some -1 beside 0.
        ImportError::sample(&place, format!("row {row}"), "a dense layer holds both 0 and -1")
    }

    /// Applies the policy for rows that are missing; gives the routed rows and what became of all rows.
    pub(crate) fn finish(mut self, missing: Missing) -> Result<(u32, Tally), ImportError> {
        let expected = if self.tally.last { self.length } else { self.length.saturating_sub(1) };
        if self.next < expected {
            self.miss(self.next);
        }
        let absent = expected - self.tally.counted;
        match (missing, self.tally.gap) {
            (Missing::Refuse, Some(row)) => Err(ImportError::MissingRows {
                place: self.place.clone(),
                missing: absent,
                row,
                length: self.length,
            }),
            (Missing::ScaleUp, _) if self.tally.counted == 0 => {
                Err(ImportError::NothingToScale { place: self.place.clone() })
            }
            (Missing::ScaleUp, _) => {
                for counts in self.counts.chunks_exact_mut(self.axes.plan.experts) {
                    scale_up(counts, self.tally.counted, self.length);
                }
                Ok((self.length, self.tally))
            }
            _ => Ok((self.tally.counted, self.tally)),
        }
    }
}
