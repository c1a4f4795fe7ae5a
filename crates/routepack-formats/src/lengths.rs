//! Lists of lengths as text: one a line, a column of a table, or the two usual forms of bin-packing instances.

use std::path::Path;

use crate::FormatError;
use crate::atomic::read_text;

/// Most items of one list.
const MAX_ITEMS: u64 = 1 << 27;

/// How a text says lengths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum LengthsForm {
    /// Told by the lines: a bin-packing instance where the first line counts the rest and no item exceeds the second
    /// line, else one length a line.
    #[default]
    Auto,
    /// One length a line.
    Lines,
    /// A bin-packing instance: number of items, capacity, then every size on a line of its own; or number of different
    /// sizes, capacity, then `size demand` lines.
    Bins,
    /// A tab-separated table with a header line; the sum of the named columns, joined by `+`, is the length.
    Columns(String),
}

/// Lengths in file order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lengths {
    /// Length of every sample or item, positive.
    pub sizes: Vec<u64>,
    /// Capacity, where the file states one.
    pub capacity: Option<u64>,
}

/// Reads lengths from a file, or from the standard input for `-`.
///
/// Everything from `#` on is a comment and blank lines are skipped, but in tables.
///
/// # Errors
/// The file cannot be read, or a line is wrong; the error names file, line, value and what was expected.
pub fn read_lengths(path: &Path, form: &LengthsForm) -> Result<Lengths, FormatError> {
    let (text, name) = read_text(path)?;
    parse_lengths(&text, &name, form)
}

/// Reads lengths from a text; `name` stands for the file in messages.
///
/// # Errors
/// As [`read_lengths`].
pub fn parse_lengths(text: &str, name: &str, form: &LengthsForm) -> Result<Lengths, FormatError> {
    if let LengthsForm::Columns(columns) = form {
        return sum_columns(text, name, columns);
    }
    let lines = read_numbers(text, name)?;
    if lines.is_empty() {
        return Err(FormatError::form(name, "no lengths; expected one positive whole number a line"));
    }
    let is_bins = match form {
        LengthsForm::Auto => looks_like_bins(&lines),
        LengthsForm::Bins => true,
        LengthsForm::Lines | LengthsForm::Columns(_) => false,
    };
    if is_bins { read_bins(&lines, name) } else { read_lines(&lines, name) }
}

/// A line with one or two numbers.
struct Line {
    number: usize,
    first: u64,
    second: Option<u64>,
}

fn read_numbers(text: &str, name: &str) -> Result<Vec<Line>, FormatError> {
    let mut lines = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let number = index + 1;
        let content = line.split('#').next().unwrap_or("");
        let mut fields = content.split_ascii_whitespace();
        let Some(first) = fields.next() else { continue };
        let second = fields.next();
        if let Some(third) = fields.next() {
            let why = format!("`{third}` is a third field; expected one length, or a size and its demand");
            return Err(FormatError::line(name, number, why));
        }
        let whole = |field: &str| {
            field.parse::<u64>().map_err(|_| {
                let hint = if lines.is_empty() && line.contains('\t') {
                    " (for a table, name its columns)"
                } else {
                    ""
                };
                FormatError::line(
                    name,
                    number,
                    format!("`{field}`: expected a whole number from 0 to 2^64 - 1{hint}"),
                )
            })
        };
        let (first, second) = (whole(first)?, second.map(whole).transpose()?);
        lines.push(Line { number, first, second });
    }
    Ok(lines)
}

fn looks_like_bins(lines: &[Line]) -> bool {
    let [count, capacity, rest @ ..] = lines else { return false };
    let pairs = rest.first().is_some_and(|line| line.second.is_some());
    count.second.is_none()
        && capacity.second.is_none()
        && (pairs || count.first == rest.len() as u64 && rest.iter().all(|line| line.first <= capacity.first))
}

fn read_bins(lines: &[Line], name: &str) -> Result<Lengths, FormatError> {
    let [count, capacity, rest @ ..] = lines else {
        return Err(FormatError::form(name, "expected the number of items, the capacity, then the items"));
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
    Ok(Lengths { sizes, capacity: Some(capacity.first) })
}

fn read_lines(lines: &[Line], name: &str) -> Result<Lengths, FormatError> {
    let one = |line: &Line| match (line.first, line.second) {
        (0, None) => Err(FormatError::line(name, line.number, "length 0: expected at least 1")),
        (length, None) => Ok(length),
        (first, Some(second)) => {
            let why = format!("`{first} {second}`: expected one length a line");
            Err(FormatError::line(name, line.number, why))
        }
    };
    Ok(Lengths { sizes: lines.iter().map(one).collect::<Result<_, _>>()?, capacity: None })
}

fn sum_columns(text: &str, name: &str, columns: &str) -> Result<Lengths, FormatError> {
    let mut lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    let Some((header_index, header)) = lines.next() else {
        return Err(FormatError::form(name, "no header line; expected a tab-separated table"));
    };
    let names: Vec<&str> = header.split('\t').map(str::trim).collect();
    let find = |column: &str| {
        names.iter().position(|&found| found == column).ok_or_else(|| {
            let why = format!("no column `{column}`; columns: {}", names.join(", "));
            FormatError::line(name, header_index + 1, why)
        })
    };
    let wanted: Vec<(usize, &str)> = columns
        .split('+')
        .map(|column| Ok((find(column.trim())?, column.trim())))
        .collect::<Result<_, FormatError>>()?;
    let mut sizes = Vec::new();
    for (index, line) in lines {
        let fields: Vec<&str> = line.split('\t').map(str::trim).collect();
        let wrong = |why: String| FormatError::line(name, index + 1, why);
        if fields.len() != names.len() {
            return Err(wrong(format!("{} fields, the header has {}", fields.len(), names.len())));
        }
        let mut length = 0u64;
        for &(position, column) in &wanted {
            let field = fields[position];
            let value: u64 = field.parse().map_err(|_| {
                wrong(format!("column {column}: `{field}`: expected a whole number from 0 to 2^64 - 1"))
            })?;
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
    Ok(Lengths { sizes, capacity: None })
}
