//! Files of lengths. Their form is said, never guessed: no file has two readings.

use std::io::{BufRead, Read};
use std::iter::repeat_n;

use crate::Statement;
use crate::check::check_body;
use crate::limits::{CheckError, Checked, Limits, Meter};
use crate::reader::Reader;

/// Most bytes of a line, its end included.
const MAX_LINE: u64 = 1 << 16;

/// How a file says lengths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Form {
    /// One length a line.
    Lines,
    /// The number of items, the capacity, then the sizes, one a line; or the number of types, the capacity, then a size
    /// and its demand on each line.
    Bins,
    /// A tab-separated table with a header line; the length is the sum of these columns, joined by `+`.
    Table(String),
}

/// Lengths as a file says them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lengths {
    form: Form,
    /// Sizes, padded, and how many items have each, in the order of the file.
    runs: Vec<(u64, u64)>,
    /// The capacity, where the form states one.
    capacity: Option<u64>,
}

impl Lengths {
    /// Reads a file of lengths; sizes are rounded up to a multiple of `pad_multiple` (1 changes nothing).
    ///
    /// # Errors
    /// [`CheckError::Unreadable`] naming the line, or [`CheckError::NotChecked`] past the limit of memory.
    pub fn parse(text: impl BufRead, form: &Form, pad_multiple: u64, limits: &Limits) -> Result<Self, CheckError> {
        if pad_multiple == 0 {
            return unreadable("the padding multiple is 0");
        }
        let mut lines = Lines { text, number: 0, meter: Meter::new(limits) };
        let (mut runs, capacity) = match form {
            Form::Lines => (lines.one_a_line()?, None),
            Form::Bins => lines.bins().map(|(runs, capacity)| (runs, Some(capacity)))?,
            Form::Table(columns) => (lines.table(columns)?, None),
        };
        for (size, _) in &mut runs {
            match size.checked_next_multiple_of(pad_multiple) {
                Some(padded) => *size = padded,
                None => return unreadable(format!("length {size}, padded to a multiple of {pad_multiple}: past 2^64")),
            }
        }
        Ok(Self { form: form.clone(), runs, capacity })
    }

    /// The statement of a header about these lengths, or in which way the header is about others.
    pub(crate) fn statement(
        &self,
        header: &[u128; 8],
        meter: &mut Meter,
    ) -> Result<Result<Statement, String>, CheckError> {
        let [_, items, total, _, capacity, max_items, slots, rows_multiple] = *header;
        let found: u128 = self.runs.iter().map(|run| u128::from(run.1)).sum();
        if let Some(stated) = self.capacity.filter(|&stated| u128::from(stated) != capacity) {
            return Ok(Err(format!("its capacity is {capacity}, the file states {stated}")));
        }
        if found != items || items > u128::from(u32::MAX) {
            return Ok(Err(format!("it is about {items} of them, {}", self.described(found))));
        }
        meter.hold(16 * items as usize)?;
        let statement = Statement {
            sizes: self.runs.iter().flat_map(|&(size, demand)| repeat_n(size, demand as usize)).collect(),
            capacity: capacity as u64,
            max_items: Some(max_items as u32).filter(|&limit| limit > 0),
            slots: slots as u64,
            rows_multiple: rows_multiple as u64,
        };
        Ok(if statement.header() == *header {
            Ok(statement)
        } else if statement.total() == total {
            Err("the same number and total, but another digest: other sizes, or another order".into())
        } else {
            let found = statement.total();
            Err(format!("their total is {total} there, {found} here; were they padded? then say --pad-multiple M"))
        })
    }

    /// What was read, and which option reads it otherwise.
    fn described(&self, found: u128) -> String {
        match self.form {
            Form::Lines => format!(
                "the file has {found}, read one a line; if it begins with the number of items and the capacity say \
                 --form bins, if it is a table say --column NAME"
            ),
            Form::Bins => format!(
                "the file has {found}, read as number of items, capacity, items; if it has one length a line say \
                 --form lines"
            ),
            Form::Table(_) => format!("the table has {found}"),
        }
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
    let statement = match lengths.statement(&header, &mut reader.meter)? {
        Ok(statement) => statement,
        Err(why) => return reader.invalid(format!("the certificate is for other lengths: {why}")),
    };
    statement.validate()?;
    let checked = check_body(&statement, &mut reader)?;
    Ok((statement, checked))
}

fn unreadable<T>(why: impl Into<String>) -> Result<T, CheckError> {
    Err(CheckError::Unreadable { why: why.into() })
}

/// The lines of a file that aren't blank.
struct Lines<R> {
    text: R,
    /// Number of the line at hand, from 1.
    number: u64,
    meter: Meter,
}

impl<R: BufRead> Lines<R> {
    fn wrong<T>(&self, why: &str) -> Result<T, CheckError> {
        unreadable(format!("lengths, line {}: {why}", self.number))
    }

    /// The next line that isn't blank, without its end.
    fn next(&mut self) -> Result<Option<String>, CheckError> {
        loop {
            let mut bytes = Vec::new();
            self.number += 1;
            match self.text.by_ref().take(MAX_LINE).read_until(b'\n', &mut bytes) {
                Ok(0) => return Ok(None),
                Ok(count) if count as u64 == MAX_LINE => return self.wrong("too long"),
                Ok(_) => {}
                Err(error) => return self.wrong(&error.to_string()),
            }
            let Ok(mut line) = String::from_utf8(bytes) else { return self.wrong("no text: not valid UTF-8") };
            if self.number == 1 && line.starts_with('\u{feff}') {
                line.remove(0);
            }
            let end =
                line.strip_suffix('\n').map_or(line.as_str(), |line| line.strip_suffix('\r').unwrap_or(line)).len();
            line.truncate(end);
            if line.contains(|letter| !matches!(letter, ' ' | '\t')) {
                return Ok(Some(line));
            }
        }
    }

    /// The one or two numbers of the next line that has any; what stands behind `#` is a comment.
    fn numbers(&mut self) -> Result<Option<(u64, Option<u64>)>, CheckError> {
        while let Some(line) = self.next()? {
            let first = self.number == 1;
            if first && (line.starts_with("PK") || line.starts_with('{')) {
                return self.wrong("a window, not text: write its lengths with routepack rows --lengths-output FILE");
            }
            let numbers = line.split('#').next().unwrap_or("").split([' ', '\t']).filter(|word| !word.is_empty());
            let numbers = numbers.map(|word| self.number(word)).collect::<Result<Vec<_>, _>>()?;
            self.meter.hold(2 * size_of::<(u64, u64)>())?;
            match numbers[..] {
                [] => {}
                [one] => return Ok(Some((one, None))),
                [one, two] => return Ok(Some((one, Some(two)))),
                _ => return self.wrong("more than two numbers"),
            }
        }
        Ok(None)
    }

    /// Decimal digits below 2⁶⁴, nothing else.
    fn number(&self, word: &str) -> Result<u64, CheckError> {
        match word.parse() {
            Ok(number) if word.bytes().all(|byte| byte.is_ascii_digit()) => Ok(number),
            _ => {
                let start: String = word.chars().take(40).collect();
                self.wrong(&format!("{start:?} is no whole number from 0 to 2^64 - 1"))
            }
        }
    }

    fn one_a_line(&mut self) -> Result<Vec<(u64, u64)>, CheckError> {
        let mut runs = Vec::new();
        while let Some((size, second)) = self.numbers()? {
            if second.is_some() {
                return self.wrong("two numbers, expected one length a line; --form bins reads sizes and demands");
            }
            runs.push((size, 1));
        }
        Ok(runs)
    }

    fn bins(&mut self) -> Result<(Vec<(u64, u64)>, u64), CheckError> {
        let (Some((count, None)), Some((capacity, None))) = (self.numbers()?, self.numbers()?) else {
            return self.wrong("expected the number of items or types, then the capacity, each on a line of its own");
        };
        let (mut runs, mut demands) = (Vec::new(), None);
        while let Some((size, demand)) = self.numbers()? {
            if *demands.get_or_insert(demand.is_some()) != demand.is_some() {
                return self.wrong("one line has a demand behind its size, another has none");
            }
            runs.push((size, demand.unwrap_or(1)));
        }
        if runs.len() as u64 == count {
            Ok((runs, capacity))
        } else {
            unreadable(format!(
                "lengths: {count} items or types announced in the first line, {} lines follow the capacity",
                runs.len()
            ))
        }
    }

    fn table(&mut self, columns: &str) -> Result<Vec<(u64, u64)>, CheckError> {
        let Some(header) = self.next()? else { return unreadable("lengths: no header line") };
        let names: Vec<&str> = header.split('\t').map(|text| text.trim_matches(' ')).collect();
        let mut wanted = Vec::new();
        for column in columns.split('+').map(|text| text.trim_matches(' ')) {
            match names.iter().filter(|&&name| name == column).count() {
                1 => wanted.extend(names.iter().position(|&name| name == column)),
                0 => return self.wrong(&format!("no column {column:?}")),
                _ => return self.wrong(&format!("more than one column {column:?}")),
            }
        }
        let mut runs = Vec::new();
        while let Some(line) = self.next()? {
            let fields: Vec<&str> = line.split('\t').map(|text| text.trim_matches(' ')).collect();
            if fields.len() != names.len() {
                return self.wrong(&format!("{} fields, the header has {}", fields.len(), names.len()));
            }
            let mut length = 0u64;
            for &place in &wanted {
                match length.checked_add(self.number(fields[place])?) {
                    Some(sum) => length = sum,
                    None => return self.wrong("the sum exceeds 2^64 - 1"),
                }
            }
            self.meter.hold(2 * size_of::<(u64, u64)>())?;
            runs.push((length, 1));
        }
        Ok(runs)
    }
}
