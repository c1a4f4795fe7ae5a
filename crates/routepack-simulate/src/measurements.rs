//! Measured micro-batches from CSV: `lengths,expert_rows,seconds`, a micro-batch a line.
//!
//! `lengths`: padded tokens of its samples, separated by spaces. `expert_rows`: routed rows of the busiest EP rank, one
//! number a layer or their sum, separated by spaces; the column may be missing. `seconds`: the time it took. Columns are
//! found by name; others are left alone.

use std::io::Read;

use crate::calibrate::SECONDS;
use csv::StringRecord;

use crate::{Measurement, SimulateError};

/// Reads measurements from CSV, of cells that hold `capacity` tokens; `name` stands for the file in messages.
///
/// # Errors
/// No such columns, one of them twice, a value that is no positive number, or a sample that no cell holds; the error names
/// file, line, column and value.
pub fn read_measurements(
    source: impl Read,
    name: &str,
    capacity: u32,
) -> Result<Vec<Measurement>, SimulateError> {
    let refuse = |message: String| SimulateError::Form { name: name.to_owned(), message };
    let text = std::io::read_to_string(source).map_err(|error| refuse(error.to_string()))?;
    // The reader counts lines too few where they end in two bytes.
    let text = text.replace("\r\n", "\n");
    let mut reader = csv::ReaderBuilder::new().trim(csv::Trim::All).from_reader(text.as_bytes());
    let headers = reader.headers().map_err(|error| refuse(error.to_string()))?.clone();
    let column = |title: &str| {
        let mut places = headers.iter().enumerate().filter(|(_, header)| *header == title);
        match (places.next(), places.next()) {
            (Some((first, _)), Some((second, _))) => {
                let (first, second) = (first + 1, second + 1);
                Err(refuse(format!("column `{title}` twice: columns {first} and {second} of the header")))
            }
            (first, _) => Ok(first.map(|(place, _)| place)),
        }
    };
    let needed = |title: &str| {
        column(title)?.ok_or_else(|| {
            let found: Vec<&str> = headers.iter().collect();
            refuse(format!("no column `{title}`: found {}", found.join(", ")))
        })
    };
    let (lengths, seconds, experts) = (needed("lengths")?, needed("seconds")?, column("expert_rows")?);
    // Numbers of the first line that has one a layer, and that line.
    let mut layers: Option<(usize, u64)> = None;
    let measurement = |record: Result<StringRecord, csv::Error>| {
        let record = record.map_err(|error| refuse(error.to_string()))?;
        let line = record.position().map_or(0, csv::Position::line);
        let field = |column: usize| record.get(column).unwrap_or("");
        let wrong = |title: &str, value: &str, expected: &str| {
            refuse(format!("line {line}, {title} = \"{value}\": expected {expected}"))
        };
        let cell: Option<Vec<u32>> = field(lengths)
            .split_whitespace()
            .map(|word| word.parse().ok().filter(|&length| length > 0))
            .collect();
        let cell = cell.filter(|cell| !cell.is_empty()).ok_or_else(|| {
            wrong("lengths", field(lengths), "tokens of every sample, whole numbers from 1 on, by spaces")
        })?;
        if let Some(long) = cell.iter().find(|&&length| length > capacity) {
            let expected = format!("samples of at most {capacity} tokens, which a cell holds, not {long}");
            return Err(wrong("lengths", field(lengths), &expected));
        }
        let time = field(seconds).parse().ok().filter(|time| SECONDS.contains(time));
        let time = time.ok_or_else(|| wrong("seconds", field(seconds), "a number from 10^-9 to 10^9"))?;
        let rows = |text: &str| {
            let rows = text.split_whitespace().map(|word| word.parse::<u32>().ok().map(u64::from));
            let sum = rows.sum::<Option<u64>>();
            let sum = sum.ok_or_else(|| wrong("expert_rows", text, "whole numbers below 2^32, by spaces"))?;
            let found = text.split_whitespace().count();
            if found > 1 {
                let (expected, first) = *layers.get_or_insert((found, line));
                if found != expected {
                    let expected =
                        format!("{expected} numbers, as line {first} has, or their sum, not {found}");
                    return Err(wrong("expert_rows", text, &expected));
                }
            }
            Ok(sum)
        };
        let expert_rows = experts.map(field).filter(|text| !text.is_empty()).map(rows).transpose()?;
        Ok(Measurement { lengths: cell, expert_rows, seconds: time })
    };
    reader.records().map(measurement).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name() {
        let text = "rank,seconds,lengths,expert_rows\n3, 0.25 ,100 20,7 8 9\n1,1,5,\n";
        let read = read_measurements(text.as_bytes(), "m.csv", 100).expect("valid");
        assert_eq!(read[0], Measurement { lengths: vec![100, 20], expert_rows: Some(24), seconds: 0.25 });
        assert_eq!(read[1].expert_rows, None);
    }

    #[test]
    fn the_place_of_a_bad_value_is_named() {
        let refused =
            |text: &str| read_measurements(text.as_bytes(), "m.csv", 100).expect_err("refused").to_string();
        assert_eq!(refused("a,b\n1,2\n"), "m.csv: no column `lengths`: found a, b");
        let twice = refused("lengths,seconds, lengths\n1,1,1\n");
        assert_eq!(twice, "m.csv: column `lengths` twice: columns 1 and 3 of the header");
        let twice = refused("lengths,expert_rows,seconds,expert_rows\n1,1,1,1\n");
        assert_eq!(twice, "m.csv: column `expert_rows` twice: columns 2 and 4 of the header");
        assert!(refused("lengths,seconds\n1,2\n4 x,2\n").starts_with("m.csv: line 3, lengths = \"4 x\""));
        assert!(refused("lengths,seconds\n1,nan\n").contains("line 2, seconds = \"nan\""));
        assert!(refused("lengths,seconds\r\n1,2\r\n1,1e308\r\n").contains("line 3, seconds = \"1e308\""));
        assert!(refused("lengths,seconds\n0,1\n").contains("lengths = \"0\""));
        assert!(refused("lengths,seconds,expert_rows\n3,1,-2\n").contains("expert_rows = \"-2\""));
        assert!(refused("lengths,seconds\n3\n").contains("m.csv"));
        assert_eq!(
            refused("lengths,seconds,expert_rows\n3,1,24\n3,1,7 8 9\n3,1,7 8\n"),
            "m.csv: line 4, expert_rows = \"7 8\": expected 3 numbers, as line 3 has, or their sum, not 2"
        );
        // No cell of the job holds it: the quadratic term would be that of no job.
        assert_eq!(
            refused("lengths,seconds\n100,1\n5 101,1\n"),
            "m.csv: line 3, lengths = \"5 101\": expected samples of at most 100 tokens, which a cell holds, not 101"
        );
    }
}
