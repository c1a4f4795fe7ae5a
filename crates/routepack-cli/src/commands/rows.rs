//! `routepack rows`: the certified row bound alone.

use std::path::PathBuf;

use routepack::binpack::{Goal, PackOptions, PackProgress, pack};
use routepack::certificate::Statement;
use routepack::formats;
use serde::Serialize;

use super::{in_pool, read_lengths};
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json};
use crate::progress::Bar;

/// Arguments of `routepack rows`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack rows lengths.txt --capacity 8192 --dp 8 -o rows.cert
  routepack-check rows.cert lengths.txt
  routepack rows rollouts.tsv --column prompt_tokens+response_tokens --capacity 2048 --dp 16 --rows-multiple 2
  seq 100 200 | routepack rows - --capacity 1000 --dp 4 --json")]
pub(crate) struct Arguments {
    /// Lengths: one a line, a TSV with --column, a bin-packing instance, or a window (`-` for standard input).
    lengths: PathBuf,
    /// Tokens a cell holds; a bin-packing instance states its own.
    #[arg(long, short = 'C')]
    capacity: Option<u64>,
    /// Data-parallel slots D.
    #[arg(long, default_value_t = 1)]
    dp: u64,
    /// The number of rows is a multiple of this.
    #[arg(long, default_value_t = 1)]
    rows_multiple: u64,
    /// At most this many samples in a cell.
    #[arg(long)]
    max_samples: Option<u32>,
    /// Pad each sample to a multiple of this many tokens.
    #[arg(long, default_value_t = 1)]
    pad_multiple: u64,
    /// Column of a TSV, or a sum of columns such as `prompt_tokens+response_tokens`.
    #[arg(long)]
    column: Option<String>,
    /// Go on until the fewest cells are proved, not just the fewest rows.
    #[arg(long)]
    cells: bool,
    /// Certificate file to write (`-` for standard output).
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// Seed of the randomised fills.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Threads; all processors by default. The answer does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// No progress bar.
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What is proved, for machines.
#[derive(Serialize)]
struct Answer {
    samples: usize,
    capacity: u64,
    dp: u64,
    rows_multiple: u64,
    /// Rows of the best packing found.
    rows: u64,
    /// Rows proved necessary.
    rows_bound: u64,
    /// Cells of the best packing found.
    cells: u64,
    /// Cells proved necessary.
    cells_bound: u64,
    /// Whether R* is proved.
    rows_proved: bool,
    /// Whether the fewest cells are proved.
    cells_proved: bool,
    /// Rows a layout must have at least one sample per cell for: units needed.
    samples_needed: u64,
    proved_by: String,
    finished: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let place = arguments.lengths.display();
    let lengths = read_lengths(&arguments.lengths, arguments.column.as_deref())?;
    let capacity = arguments
        .capacity
        .or(lengths.capacity)
        .ok_or_else(|| Failure::input(&place, "--capacity is missing, and the file states none"))?;
    let statement = statement(arguments, lengths.sizes, capacity)?;
    let options = PackOptions {
        goal: if arguments.cells { Goal::Cells } else { Goal::Rows },
        ..PackOptions::default()
    };
    let flag = interrupt::flag();
    let stop = || flag.load(std::sync::atomic::Ordering::Relaxed);
    let bar = Bar::new(arguments.quiet);
    let mut observe = |progress: &PackProgress| {
        bar.say("rows", format!("{} cells, at least {}", progress.cells, progress.cells_bound));
    };
    let packed =
        in_pool(arguments.threads, || pack(&statement, &options, arguments.seed, &stop, &mut observe))?
            .map_err(|error| Failure::input(&place, error))?;
    drop(bar);

    let needed = packed.rows * arguments.dp;
    if (statement.sizes.len() as u64) < needed {
        return Err(Failure::input(
            &place,
            format!(
                "infeasible: fewer samples than cells: {} samples for {needed} cells ({} rows × {} DP slots)",
                statement.sizes.len(),
                packed.rows,
                arguments.dp
            ),
        ));
    }
    if let Some(output) = &arguments.output {
        formats::write_atomically(output, packed.certificate.to_text(&statement).as_bytes())?;
    }
    let answer = Answer {
        samples: statement.sizes.len(),
        capacity,
        dp: arguments.dp,
        rows_multiple: arguments.rows_multiple,
        rows: packed.rows,
        rows_bound: packed.rows_bound,
        cells: packed.cells,
        cells_bound: packed.cells_bound,
        rows_proved: packed.rows == packed.rows_bound,
        cells_proved: packed.cells == packed.cells_bound,
        samples_needed: needed,
        proved_by: packed.proved_by,
        finished: packed.finished,
    };
    let to_stdout = arguments.output.as_ref().is_some_and(|output| output.as_os_str() == "-");
    match (to_stdout, arguments.json) {
        (true, _) => Ok(()),
        (false, true) => print_json(&answer),
        (false, false) => print(&in_words(&answer)),
    }
}

fn statement(arguments: &Arguments, lengths: Vec<u64>, capacity: u64) -> Result<Statement, Failure> {
    let place = arguments.lengths.display();
    for (flag, value) in [
        ("--dp", arguments.dp),
        ("--rows-multiple", arguments.rows_multiple),
        ("--pad-multiple", arguments.pad_multiple),
        ("--capacity", capacity),
        ("--max-samples", arguments.max_samples.map_or(1, u64::from)),
    ] {
        if value == 0 {
            return Err(Failure::Input(format!("{flag} 0: expected at least 1")));
        }
    }
    if lengths.is_empty() {
        return Err(Failure::input(&place, "no samples"));
    }
    let mut sizes = Vec::with_capacity(lengths.len());
    for (sample, length) in lengths.into_iter().enumerate() {
        let padded =
            length.checked_next_multiple_of(arguments.pad_multiple).filter(|&padded| padded <= capacity);
        match padded {
            Some(padded) if length > 0 => sizes.push(padded),
            Some(_) => {
                return Err(Failure::input(
                    &place,
                    format!("sample {sample} has 0 tokens; at least 1 expected"),
                ));
            }
            None => {
                return Err(Failure::input(
                    &place,
                    format!(
                        "sample longer than capacity: sample {sample} has {length} tokens, a cell holds {capacity}"
                    ),
                ));
            }
        }
    }
    Ok(Statement {
        sizes,
        capacity,
        max_items: arguments.max_samples,
        slots: arguments.dp,
        rows_multiple: arguments.rows_multiple,
    })
}

fn in_words(answer: &Answer) -> String {
    let Answer { rows, rows_bound, cells, cells_bound, dp, proved_by, .. } = answer;
    let rows_claim = if answer.rows_proved {
        format!("{rows} rows of {dp} cells are necessary and sufficient (R* = {rows})")
    } else {
        format!(
            "at least {rows_bound} rows of {dp} cells are necessary, {rows} are sufficient: gap {}",
            rows - rows_bound
        )
    };
    let cells_claim = if answer.cells_proved {
        format!("{cells} cells are necessary and sufficient")
    } else {
        format!("at least {cells_bound} cells are necessary, {cells} are sufficient")
    };
    let early = if answer.finished { "" } else { "\nstopped early: the best answer so far" };
    format!("{rows_claim}\n{cells_claim}\nproved by {proved_by}{early}")
}
