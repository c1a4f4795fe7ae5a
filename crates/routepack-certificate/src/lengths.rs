//! Files of lengths: one a line, or the two usual forms of bin-packing benchmarks.

use std::io::{BufRead, Read};
use std::iter::repeat_n;

use crate::Statement;
use crate::check::check_body;
use crate::limits::{CheckError, Checked, Limits, Meter};
use crate::reader::Reader;

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
        let (mut lines, mut meter) = (Vec::new(), Meter::new(limits));
        let unreadable = |why: String| Err(CheckError::Unreadable { why });
        if pad_multiple == 0 {
            return unreadable("the padding multiple is 0".into());
        }
        for number in 1.. {
            let mut line = Vec::new();
            meter.hold(2 * size_of::<(u64, Option<u64>)>())?;
            match text.by_ref().take(100).read_until(b'\n', &mut line) {
                Ok(0) => break,
                Ok(100) => return unreadable(format!("lengths, line {number}: too long")),
                Ok(_) => {}
                Err(error) => return unreadable(format!("lengths, line {number}: {error}")),
            }
            let words = str::from_utf8(&line).unwrap_or("no text").split_ascii_whitespace();
            let digits = |word: &str| word.bytes().all(|byte| byte.is_ascii_digit());
            let values: Option<Vec<u64>> = words.map(|word| word.parse().ok().filter(|_| digits(word))).collect();
            match values.as_deref() {
                Some(&[]) => {}
                Some(&[one]) => lines.push((one, None)),
                Some(&[one, two]) => lines.push((one, Some(two))),
                _ => return unreadable(format!("lengths, line {number}: not a length, or a size and its demand")),
            }
        }
        let pairs = lines.iter().filter(|line| line.1.is_some()).count();
        let stated = matches!(lines[..], [(types, None), (_, None), ..] if types == pairs as u64);
        if pairs > 0 && !(stated && lines.len() == pairs + 2) {
            return unreadable("lengths: demands need m, the capacity, then m lines of size and demand".into());
        }
        Ok(Self { lines, pad_multiple })
    }

    /// The statement of a header about these lengths, or `None` if the header is about others.
    pub(crate) fn statement(&self, header: &[u128; 8], meter: &mut Meter) -> Result<Option<Statement>, CheckError> {
        let [_, items, _, _, capacity, max_items, slots, rows_multiple] = *header;
        let plain = self.lines.iter().all(|line| line.1.is_none()).then_some((0, capacity));
        let stated = self.lines.len().checked_sub(2).filter(|&rest| self.lines[0] == (rest as u64, None));
        let benchmark = stated.map(|_| (2, self.lines[1].0.into()));
        for (first, stated_capacity) in [plain, benchmark].into_iter().flatten() {
            let lines = &self.lines[first..];
            let demands: u128 = lines.iter().map(|line| u128::from(line.1.unwrap_or(1))).sum();
            if demands != items || stated_capacity != capacity || items > u128::from(u32::MAX) {
                continue;
            }
            meter.hold(16 * items as usize)?;
            let copies = lines.iter().flat_map(|line| repeat_n(line.0, line.1.unwrap_or(1) as usize));
            let padded = copies.map(|size| size.checked_next_multiple_of(self.pad_multiple));
            let statement = Statement {
                sizes: padded.map(|size| size.unwrap_or(0)).collect(),
                capacity: capacity as u64,
                max_items: Some(max_items as u32).filter(|&limit| limit > 0),
                slots: slots as u64,
                rows_multiple: rows_multiple as u64,
            };
            if statement.header() == *header {
                return Ok(Some(statement));
            }
        }
        Ok(None)
    }
}

/// Checks the text of a certificate against a file of lengths; everything else about the statement is taken from the
/// certificate's header, so look at the statement that comes back.
///
/// # Errors
/// As [`crate::check_text`].
pub fn check_lengths(
    lengths: &Lengths,
    text: impl BufRead,
    limits: &Limits,
) -> Result<(Statement, Checked), CheckError> {
    let mut reader = Reader::new(text, limits);
    let header = reader.header()?;
    let Some(statement) = lengths.statement(&header, &mut reader.meter)? else {
        return reader.invalid("the certificate is for other lengths: their number, total, digest or capacity differ");
    };
    statement.validate()?;
    let checked = check_body(&statement, &mut reader)?;
    Ok((statement, checked))
}
