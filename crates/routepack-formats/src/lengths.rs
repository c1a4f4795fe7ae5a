//! Lists of lengths: one a line, the two usual forms of bin-packing instances, columns of a table, or a window.
//!
//! The form is said by the caller, never guessed from numbers: no file has two readings. The same forms are read by the
//! checker of certificates, from the same bytes to the same numbers (see the README of `routepack-certificate`).

use std::io::Cursor;
use std::path::Path;

use crate::atomic::{read_bytes, text_of, write_atomically};
use crate::error::name_of;
use crate::window::{is_window, read_batch_from};
use crate::{FormatError, error::shown};

/// Most items of one list.
const MAX_ITEMS: u64 = 1 << 27;
/// Most bytes of one line, its end included.
const MAX_LINE: usize = (1 << 16) - 1;

/// How a file says lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LengthsForm {
    /// One length a line.
    Lines,
    /// A bin-packing instance: number of items, capacity, then every size on a line of its own; or number of different
    /// sizes, capacity, then `size demand` lines.
    Bins,
    /// A tab-separated table with a header line; the sum of the named columns, joined by `+`, is the length.
    Table(String),
    /// The array `lengths` of a window, `.npz` or JSON.
    Window,
}

/// Lengths in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length of every sample or item, positive.
    pub sizes: Vec<u64>,
    /// Capacity, where the form states one.
    pub capacity: Option<u64>,
    /// The form in which the file was read: the one asked for, or a window.
    pub form: LengthsForm,
}

/// Reads lengths from a file, or from the standard input for `-`.
///
/// A window, which begins with `PK` or `{` and so is no list of numbers, is read as one also where lines or bins are
/// asked for.
///
/// # Errors
/// The file cannot be read, or a line is wrong; the error names file, line, value and what was expected.
pub fn read_lengths(path: &Path, form: &LengthsForm) -> Result<Lengths, FormatError> {
    parse_lengths(read_bytes(path)?, &name_of(path), form)
}

/// Reads lengths from bytes; `name` stands for the file in messages.
///
/// # Errors
/// As [`read_lengths`].
pub fn parse_lengths(
    bytes: impl Into<Vec<u8>>,
    name: &str,
    form: &LengthsForm,
) -> Result<Lengths, FormatError> {
    let bytes = bytes.into();
    let form = match form {
        LengthsForm::Lines | LengthsForm::Bins if is_window(&bytes) => &LengthsForm::Window,
        form => form,
    };
    let (sizes, capacity) = match form {
        LengthsForm::Window => {
            let lengths = read_batch_from(Cursor::new(bytes), name)?.lengths;
            (lengths.into_iter().map(u64::from).collect(), None)
        }
        LengthsForm::Lines => (read_lines(&read_numbers(&text_of(bytes, name)?, name)?, name)?, None),
        LengthsForm::Bins => {
            let (sizes, capacity) = read_bins(&read_numbers(&text_of(bytes, name)?, name)?, name)?;
            (sizes, Some(capacity))
        }
        LengthsForm::Table(columns) => (sum_columns(&text_of(bytes, name)?, name, columns)?, None),
    };
    Ok(Lengths { sizes, capacity, form: form.clone() })
}

/// Writes numbers one a line (`-`: the standard output): lengths in the form [`LengthsForm::Lines`].
///
/// # Errors
/// The file cannot be written; then nothing is changed.
pub fn write_lengths(path: &Path, sizes: &[u64]) -> Result<(), FormatError> {
    let mut lines = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("\n");
    lines.push('\n');
    write_atomically(path, lines.as_bytes())
}

/// Number and text of every line that is not blank.
fn lines_of<'a>(
    text: &'a str,
    name: &'a str,
) -> impl Iterator<Item = Result<(usize, &'a str), FormatError>> + 'a {
    let numbered = text.split_inclusive('\n').enumerate().map(move |(index, line)| {
        if line.len() > MAX_LINE {
            let why = format!("a line of {} bytes; at most {MAX_LINE} are read", line.len());
            return Err(FormatError::line(name, index + 1, why));
        }
        let line = if index == 0 { line.strip_prefix('\u{feff}').unwrap_or(line) } else { line };
        let line = line.strip_suffix('\n').map_or(line, |line| line.strip_suffix('\r').unwrap_or(line));
        Ok((index + 1, line))
    });
    let blank = |line: &str| line.chars().all(|letter| matches!(letter, ' ' | '\t'));
    numbered.filter(move |line| !line.as_ref().is_ok_and(|line| blank(line.1)))
}

/// Decimal digits below 2⁶⁴, nothing else.
fn whole(word: &str) -> Result<u64, String> {
    let digits = word.bytes().all(|byte| byte.is_ascii_digit());
    word.parse()
        .ok()
        .filter(|_| digits)
        .ok_or_else(|| format!("`{}`: expected a whole number from 0 to 2^64 - 1", shown(word)))
}

/// A line with one or two numbers.
struct Line {
    number: usize,
    first: u64,
    second: Option<u64>,
}

fn read_numbers(text: &str, name: &str) -> Result<Vec<Line>, FormatError> {
    let mut lines = Vec::new();
    for line in lines_of(text, name) {
        let (number, line) = line?;
        let wrong = |why: String| FormatError::line(name, number, why);
        let content = line.split('#').next().unwrap_or("");
        let mut fields = content.split([' ', '\t']).filter(|field| !field.is_empty());
        let Some(first) = fields.next() else { continue };
        let second = fields.next();
        if let Some(third) = fields.next() {
            let third = shown(third);
            return Err(wrong(format!(
                "`{third}` is a third field; expected one length, or a size and its demand"
            )));
        }
        let first = whole(first).map_err(|why| {
            let table = lines.is_empty() && line.contains('\t');
            wrong(why + if table { " (of a table, name the columns)" } else { "" })
        })?;
        let second = second.map(whole).transpose().map_err(wrong)?;
        lines.push(Line { number, first, second });
    }
    Ok(lines)
}

fn read_lines(lines: &[Line], name: &str) -> Result<Vec<u64>, FormatError> {
    if lines.is_empty() {
        return Err(FormatError::form(name, "no lengths; expected one positive whole number a line"));
    }
    let one = |line: &Line| match (line.first, line.second) {
        (0, None) => Err(FormatError::line(name, line.number, "length 0: expected at least 1")),
        (length, None) => Ok(length),
        (first, Some(second)) => {
            let why = format!(
                "`{first} {second}`: expected one length a line (sizes with demands are of the form bins)"
            );
            Err(FormatError::line(name, line.number, why))
        }
    };
    lines.iter().map(one).collect()
}

fn read_bins(lines: &[Line], name: &str) -> Result<(Vec<u64>, u64), FormatError> {
    let [count, capacity, rest @ ..] = lines else {
        return Err(FormatError::form(
            name,
            "expected the number of items, the capacity, then the items, one a line",
        ));
    };
    for line in [count, capacity] {
        if line.second.is_some() {
            return Err(FormatError::line(
                name,
                line.number,
                "two numbers; expected one in the first two lines",
            ));
        }
    }
    if count.first != rest.len() as u64 {
        let why =
            format!("{} items or types announced, {} lines follow the capacity", count.first, rest.len());
        return Err(FormatError::line(name, count.number, why));
    }
    let pairs = rest.first().is_some_and(|line| line.second.is_some());
    let (mut sizes, mut items) = (Vec::new(), 0u64);
    for line in rest {
        if line.second.is_some() != pairs {
            let why = format!(
                "expected {} as on the lines before",
                if pairs { "a size and its demand" } else { "one size" }
            );
            return Err(FormatError::line(name, line.number, why));
        }
        if line.first == 0 || line.first > capacity.first {
            let why = format!("size {}: expected 1 to the capacity {}", line.first, capacity.first);
            return Err(FormatError::line(name, line.number, why));
        }
        let demand = line.second.unwrap_or(1);
        items = items.saturating_add(demand);
        if items > MAX_ITEMS {
            let why = format!("demand {demand}: more than {MAX_ITEMS} items in all");
            return Err(FormatError::line(name, line.number, why));
        }
        sizes.extend(std::iter::repeat_n(line.first, demand as usize));
    }
    Ok((sizes, capacity.first))
}

fn fields_of(line: &str) -> Vec<&str> {
    line.split('\t').map(|field| field.trim_matches(' ')).collect()
}

fn sum_columns(text: &str, name: &str, columns: &str) -> Result<Vec<u64>, FormatError> {
    let mut lines = lines_of(text, name);
    let Some((header_number, header)) = lines.next().transpose()? else {
        return Err(FormatError::form(name, "no header line; expected a tab-separated table"));
    };
    let names = fields_of(header);
    let mut wanted = Vec::new();
    for column in columns.split('+').map(|column| column.trim_matches(' ')) {
        let mut places = (0..names.len()).filter(|&place| names[place] == column);
        match (places.next(), places.next()) {
            (Some(place), None) => wanted.push((place, column)),
            (found, _) => {
                let many = if found.is_none() { "no" } else { "more than one" };
                let why = format!("{many} column `{}`; columns: {}", shown(column), shown(&names.join(", ")));
                return Err(FormatError::line(name, header_number, why));
            }
        }
    }
    let mut sizes = Vec::new();
    for line in lines {
        let (number, line) = line?;
        let fields = fields_of(line);
        let wrong = |why: String| FormatError::line(name, number, why);
        if fields.len() != names.len() {
            return Err(wrong(format!("{} fields, the header has {}", fields.len(), names.len())));
        }
        let mut length = 0u64;
        for &(position, column) in &wanted {
            let field = fields[position];
            let value = whole(field).map_err(|why| wrong(format!("column {column}: {why}")))?;
            length = length.checked_add(value).ok_or_else(|| wrong(format!("{columns} exceeds 2^64 - 1")))?;
        }
        if length == 0 {
            return Err(wrong(format!("{columns} = 0: expected at least 1")));
        }
        sizes.push(length);
    }
    if sizes.is_empty() {
        return Err(FormatError::form(name, "no lines below the header"));
    }
    Ok(sizes)
}
