//! Lengths of samples, and how full the cells are.

use routepack_problem::counted;

use super::{Drawn, titles};
use crate::bars::{Bars, bars};
use crate::frame::round_up;
use crate::heat_map::{HeatMap, heat_map, shared_in_words};
use crate::{NumberTable, Picture};

/// Bins of the histogram at most.
const BINS: u64 = 32;

/// Histogram of padded lengths, dummies left out.
pub(super) fn lengths(drawn: &Drawn<'_>) -> Picture {
    let instance = drawn.step.instance;
    let recorded = instance.num_samples() - instance.num_dummies();
    let lengths: Vec<u64> = (0..recorded).map(|sample| u64::from(instance.padded_length(sample))).collect();
    let longest = lengths.iter().copied().max().unwrap_or(1);
    let width = round_up(longest.div_ceil(BINS));
    let mut counts = vec![0u64; (longest / width + 1) as usize];
    lengths.iter().for_each(|&length| counts[(length / width) as usize] += 1);
    let range = |bin: usize| {
        let first = bin as u64 * width;
        if width == 1 { first.to_string() } else { format!("{first} to {}", first + width - 1) }
    };
    let title = "Lengths of the samples";
    let values: Vec<Vec<f64>> = counts.iter().map(|&count| vec![count as f64]).collect();
    let words = |bin: usize| format!("{} of {} tokens", counted(counts[bin], "sample"), range(bin));
    let drawing = bars(&Bars {
        title,
        x_label: "padded tokens of a sample",
        y_label: "samples",
        places: (0.0, width as f64),
        whole: true,
        parts: &["samples"],
        values: &values,
        limit: None,
        words: &words,
    });
    let tokens: u64 = lengths.iter().sum();
    let rows = counts.iter().enumerate().map(|(bin, count)| vec![range(bin), count.to_string()]);
    Picture {
        id: drawn.id("lengths"),
        title: title.to_owned(),
        caption: format!(
            "{}, {}, {:.0} a sample; a cell holds {}.",
            counted(recorded as u64, "sample"),
            counted(tokens, "token"),
            tokens as f64 / recorded.max(1) as f64,
            instance.cell_capacity()
        ),
        drawing,
        numbers: NumberTable { header: titles(["padded tokens", "samples"]), rows: rows.collect() },
    }
}

/// Tokens of every cell over the capacity.
pub(super) fn cell_fill(drawn: &Drawn<'_>) -> Picture {
    let (instance, slots) = (drawn.step.instance, drawn.step.layout.num_slots());
    let tokens = |cell: &Vec<u32>| -> u64 {
        cell.iter().map(|&sample| u64::from(instance.padded_length(sample as usize))).sum()
    };
    let cells: Vec<u64> = drawn.step.layout.cells().iter().map(tokens).collect();
    let capacity = f64::from(instance.cell_capacity());
    let values: Vec<Vec<f64>> = cells
        .chunks(slots)
        .map(|row| row.iter().map(|&tokens| 100.0 * tokens as f64 / capacity).collect())
        .collect();
    let title = "Fill of every micro-batch";
    let words =
        |row: usize, slot: usize| format!("{} tokens, {:.1} %", cells[row * slots + slot], values[row][slot]);
    let number = |row: usize, slot: usize| cells[row * slots + slot].to_string();
    let (drawing, numbers) = heat_map(&HeatMap {
        title,
        row: "row",
        column: "DP slot",
        names: ["row", "slot"],
        unit: "% of the capacity",
        values: &values,
        range: Some((0.0, 100.0)),
        marked: &[],
        words: &words,
        number: &number,
    });
    let all: u64 = cells.iter().sum();
    Picture {
        id: drawn.id("fill"),
        title: title.to_owned(),
        caption: format!(
            "Padded tokens over the capacity of {capacity}, in percent; {:.1} % over all cells.{}",
            100.0 * all as f64 / (capacity * cells.len() as f64),
            shared_in_words(&values, "row", "slot")
        ),
        drawing,
        numbers,
    }
}
