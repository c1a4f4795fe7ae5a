//! Bin-packing files: n, capacity and n sizes, or m, capacity and m pairs "size demand".

use std::path::Path;

use routepack_certificate::Statement;

pub(crate) type Failure = Box<dyn std::error::Error>;

pub(crate) fn read(file: &Path) -> Result<Statement, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let numbers: Result<Vec<u64>, _> = text.split_whitespace().map(str::parse).collect();
    let numbers = numbers.map_err(|error| format!("{}: {error}", file.display()))?;
    let [count, capacity, rest @ ..] = &numbers[..] else {
        return Err(format!("{}: no capacity", file.display()).into());
    };
    let sizes = if rest.len() as u64 == *count {
        rest.to_vec()
    } else {
        rest.chunks(2).flat_map(|pair| std::iter::repeat_n(pair[0], pair[1] as usize)).collect()
    };
    Ok(Statement::bins(sizes, *capacity))
}
