//! Files of lengths: one a line, or the two usual forms of bin-packing benchmarks.

use std::io::{BufRead, Read};

use crate::limits::{CheckError, Limits, Meter};
use crate::{Header, Statement};

/// The integers of a file of lengths, before it is decided which form it has: one length a line; or the number of
/// items, the capacity, then the sizes, one a line; or the number of types, the capacity, then a size and its demand
/// on each line. A certificate's header decides: the form must give its number, total, digest and capacity.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths {
    /// The one or two integers of every line that isn't blank.
    lines: Vec<(u64, Option<u64>)>,
    /// Every size is rounded up to a multiple of this.
    pad_multiple: u64,
}

impl Lengths {
    /// Reads a file of lengths; sizes are rounded up to a multiple of `pad_multiple` (1 changes nothing).
    ///
    /// # Errors
    /// [`CheckError::Unreadable`] naming the line, or [`CheckError::NotChecked`] past the limit of memory.
    pub fn parse(mut text: impl BufRead, pad_multiple: u64, limits: &Limits) -> Result<Self, CheckError> {
        let (mut lines, mut meter, mut number) = (Vec::new(), Meter::new(limits), 0);
        let unreadable =
            |number: u64, why: &str| Err(CheckError::Unreadable(format!("lengths, line {number}: {why}")));
        if pad_multiple == 0 {
            return unreadable(0, "the padding multiple is 0");
        }
        loop {
            let mut line = Vec::new();
            number += 1;
            match text.by_ref().take(100).read_until(b'\n', &mut line) {
                Ok(0) => return Ok(Self { lines, pad_multiple }),
                Ok(100) => return unreadable(number, "too long"),
                Ok(_) => {}
                Err(error) => return unreadable(number, &error.to_string()),
            }
            let Ok(line) = std::str::from_utf8(&line) else { return unreadable(number, "no text") };
            let values: Result<Vec<u64>, _> = line.split_whitespace().map(str::parse).collect();
            meter.hold(2 * size_of::<(u64, Option<u64>)>())?;
            match values.as_deref() {
                Ok([]) => {}
                Ok(&[one]) => lines.push((one, None)),
                Ok(&[one, two]) => lines.push((one, Some(two))),
                _ => return unreadable(number, "expected a length, or a size and its demand, below 2^64"),
            }
        }
    }

    /// The statement of a header about these lengths, or `None` if the header is about others.
    pub(crate) fn statement(
        &self,
        header: &Header,
        meter: &mut Meter,
    ) -> Result<Option<Statement>, CheckError> {
        meter.hold(16 * header.items as usize)?;
        let stated = self.lines.len().checked_sub(2).filter(|&rest| self.lines[0] == (rest as u64, None));
        let benchmark = stated.filter(|_| self.lines[1] == (header.capacity, None)).map(|_| &self.lines[2..]);
        for lines in [Some(&self.lines[..]), benchmark].into_iter().flatten() {
            let items: u128 = lines.iter().map(|line| u128::from(line.1.unwrap_or(1))).sum();
            if items != u128::from(header.items) {
                continue;
            }
            let copies =
                lines.iter().flat_map(|line| std::iter::repeat_n(line.0, line.1.unwrap_or(1) as usize));
            let Some(sizes) = copies.map(|size| size.checked_next_multiple_of(self.pad_multiple)).collect()
            else {
                continue;
            };
            let &Header { capacity, max_items, slots, rows_multiple, .. } = header;
            let statement = Statement { sizes, capacity, max_items, slots, rows_multiple };
            if Header::of(&statement) == *header {
                return Ok(Some(statement));
            }
        }
        Ok(None)
    }
}
