//! `routepack rows`: the certified row bound alone.

use std::path::PathBuf;
use std::time::Instant;

use routepack::binpack::{Goal, PackOptions, PackProgress, Packed, Work, pack};
use routepack::certificate::Statement;
use routepack::formats::{self, FormatError, Lengths, LengthsForm};
use routepack::problem::counted;
use schemars::JsonSchema;
use serde::Serialize;

use super::outputs::{check_json, check_outputs, given, speaks};
use super::{FormArguments, form_in_words, in_pool, is_stdout};
use crate::exit::Failure;
use crate::interrupt::Deadline;
use crate::output::{print, print_json, say};
use crate::progress::Bar;

/// Arguments of `routepack rows`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack rows lengths.txt --capacity 8192 --dp 8 -o rows.cert
  routepack-check rows.cert lengths.txt

  routepack rows rollouts.tsv --column prompt_tokens+response_tokens --capacity 2048 --dp 16 -o rows.cert
  routepack-check rows.cert rollouts.tsv --column prompt_tokens+response_tokens

  routepack rows instance.txt --form bins -o bins.cert
  routepack-check bins.cert instance.txt --form bins

  routepack rows window.npz --capacity 8192 --dp 8 --pad-multiple 128 --lengths-output lengths.txt -o rows.cert
  routepack-check rows.cert lengths.txt --pad-multiple 128

  seq 100 200 | routepack rows - --capacity 1000 --dp 4 --deadline-ms 500 --json | jq .rows

Forms of a file of lengths:
  lines   5        one length a line: the form where --capacity is given and nothing else
          3
  bins    2        number of items, capacity, then one size a line: the form where --capacity is not given
          10
          5
          3
  bins    1        number of different sizes, capacity, then size and demand on each line
          10
          5 2
  table   id<TAB>tokens   a header, then lines of as many fields; the form where --column is given
          a<TAB>5
  window  an .npz or JSON window: told by its first bytes, whatever is given

In lines and bins what follows # is a comment. Blank lines count for nothing.

Exit codes: 0 done, also where fewest is not proved; 2 wrong usage; 3 bad or infeasible input; 4 a file.")]
pub(crate) struct Arguments {
    /// Lengths: a text, a table or a window (`-` for standard input).
    lengths: PathBuf,
    /// Tokens a cell holds; the form bins states its own.
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
    #[command(flatten)]
    form: FormArguments,
    /// Go on until the fewest cells are proved, not just the fewest rows.
    #[arg(long)]
    cells: bool,
    /// Certificate file to write (`-` for standard output; with --json there, a field of the JSON).
    #[arg(short, long)]
    output: Option<PathBuf>,
    /// File to write the lengths to, one a line and not padded, as `routepack-check` reads them.
    #[arg(long)]
    lengths_output: Option<PathBuf>,
    /// Seed of the randomised fills.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Stop with the best answer so far after this many milliseconds.
    #[arg(long)]
    deadline_ms: Option<u64>,
    /// Threads; all processors by default. The answer does not depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Tell every step on standard error: seconds, rows and cells (necessary/found), work, method.
    #[arg(long)]
    log: bool,
    /// No progress bar.
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What `routepack rows --json` prints.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Answer {
    /// Lengths read.
    samples: usize,
    /// Their total, padded.
    tokens: u128,
    /// Tokens a cell holds.
    capacity: u64,
    /// DP slots D: cells of a row.
    dp: u64,
    /// The number of rows is a multiple of this.
    rows_multiple: u64,
    /// Rows of the best packing found.
    rows: u64,
    /// Rows proved necessary.
    rows_bound: u64,
    /// Cells of the best packing found.
    cells: u64,
    /// Cells proved necessary.
    cells_bound: u64,
    /// (rows − bound)/rows.
    gap: f64,
    /// Whether R* is proved.
    rows_proved: bool,
    /// Whether the fewest cells are proved.
    cells_proved: bool,
    /// Samples a layout needs: one in every cell of the rows.
    samples_needed: u64,
    /// Method of the proof.
    proved_by: String,
    /// Whether the search ended by itself, not by a deadline or Ctrl-C.
    finished: bool,
    /// The certificate, where it would be written to the standard output.
    #[serde(skip_serializing_if = "Option::is_none")]
    certificate: Option<String>,
}

/// A step of the search in one line.
fn log_line(seconds: f64, progress: &PackProgress) -> String {
    let PackProgress { method, cells, cells_bound, rows, rows_bound, work } = progress;
    let Work { cases, programs, patterns, cuts } = work;
    format!(
        "{seconds:8.3} s  rows {rows_bound}/{rows}  cells {cells_bound}/{cells}  \
         {cases} cases {programs} programs {patterns} patterns {cuts} cuts  {method}"
    )
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let deadline = Deadline::after(arguments.deadline_ms);
    let place = arguments.lengths.display();
    let outputs = [("--output", &arguments.output), ("--lengths-output", &arguments.lengths_output)];
    let outputs = given(&outputs);
    check_outputs(&[("LENGTHS", &arguments.lengths)], &outputs)?;
    check_json(arguments.json, &given(&[("--lengths-output", &arguments.lengths_output)]))?;
    let (lengths, capacity) = read(arguments)?;
    if let Some(output) = &arguments.lengths_output {
        formats::write_lengths(output, &lengths.sizes)?;
    }
    let statement = statement(arguments, lengths.sizes, capacity)?;
    let options = PackOptions {
        goal: if arguments.cells { Goal::Cells } else { Goal::Rows },
        ..PackOptions::default()
    };
    let stop = deadline.stop();
    let bar = Bar::new(arguments.quiet || arguments.log);
    let start = Instant::now();
    let mut observe = |progress: &PackProgress| {
        if arguments.log {
            say(&log_line(start.elapsed().as_secs_f64(), progress));
        }
        bar.say("rows", format!("{} cells, at least {}", progress.cells, progress.cells_bound));
    };
    let packed =
        in_pool(arguments.threads, || pack(&statement, &options, arguments.seed, &stop, &mut observe))?
            .map_err(|error| Failure::input(&place, error))?;
    drop(bar);

    check_samples(arguments, &statement, packed.rows)?;
    let to_stdout = arguments.output.as_deref().is_some_and(is_stdout);
    let mut answer = answer(arguments, &statement, &packed);
    match &arguments.output {
        Some(_) if to_stdout && arguments.json => {
            answer.certificate = Some(packed.certificate.to_text(&statement));
        }
        Some(output) => {
            formats::write_atomically(output, packed.certificate.to_text(&statement).as_bytes())?;
        }
        None => {}
    }
    match arguments.json {
        true => print_json(&answer),
        false if !speaks(&outputs) => Ok(()),
        false => print(&in_words(&answer, arguments, &lengths.form)),
    }
}

/// The lengths and the capacity: the form is the one asked for, else lines where the capacity is given, else bins.
fn read(arguments: &Arguments) -> Result<(Lengths, u64), Failure> {
    let place = arguments.lengths.display();
    let asked = arguments.form.asked()?;
    let assumed = if arguments.capacity.is_some() { LengthsForm::Lines } else { LengthsForm::Bins };
    let without = |error: FormatError| {
        format!("{error} (--capacity is missing, so a bin-packing instance was expected: see --form)")
    };
    let lengths = formats::read_lengths(&arguments.lengths, asked.as_ref().unwrap_or(&assumed));
    let lengths = lengths.map_err(|error| match error {
        FormatError::Access { .. } => Failure::from(error),
        error if asked.is_none() && assumed == LengthsForm::Bins => Failure::Input(without(error)),
        error => Failure::from(error),
    })?;
    match (arguments.capacity, lengths.capacity) {
        (Some(given), Some(stated)) if given != stated => {
            Err(Failure::input(&place, format!("states the capacity {stated}, --capacity is {given}")))
        }
        (given, stated) => match given.or(stated) {
            Some(capacity) => Ok((lengths, capacity)),
            None => Err(Failure::input(&place, "--capacity is missing, and the file states none")),
        },
    }
}

/// Refuses where some cell would stay empty.
fn check_samples(arguments: &Arguments, statement: &Statement, rows: u64) -> Result<(), Failure> {
    let (samples, slots) = (statement.sizes.len(), arguments.dp);
    let cells = u128::from(rows) * u128::from(slots);
    if samples as u128 >= cells {
        return Ok(());
    }
    Err(Failure::input(
        arguments.lengths.display(),
        format!(
            "infeasible: fewer samples than cells: {} for {} ({} × {})",
            counted(samples as u64, "sample"),
            counted(cells, "cell"),
            counted(rows, "row"),
            counted(slots, "DP slot")
        ),
    ))
}

fn answer(arguments: &Arguments, statement: &Statement, packed: &Packed) -> Answer {
    Answer {
        samples: statement.sizes.len(),
        tokens: statement.total(),
        capacity: statement.capacity,
        dp: arguments.dp,
        rows_multiple: arguments.rows_multiple,
        rows: packed.rows,
        rows_bound: packed.rows_bound,
        cells: packed.cells,
        cells_bound: packed.cells_bound,
        gap: (packed.rows - packed.rows_bound) as f64 / packed.rows as f64,
        rows_proved: packed.rows == packed.rows_bound,
        cells_proved: packed.cells == packed.cells_bound,
        samples_needed: packed.rows * arguments.dp,
        proved_by: packed.proved_by.clone(),
        finished: packed.finished,
        certificate: None,
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
    let statement = Statement {
        sizes,
        capacity,
        max_items: arguments.max_samples,
        slots: arguments.dp,
        rows_multiple: arguments.rows_multiple,
    };
    // Whatever the lengths are: so every product of rows and slots below is at most the number of samples.
    check_samples(arguments, &statement, arguments.rows_multiple)?;
    Ok(statement)
}

fn in_words(answer: &Answer, arguments: &Arguments, form: &LengthsForm) -> String {
    let Answer { samples, tokens, capacity, rows, rows_bound, cells, cells_bound, dp, proved_by, .. } =
        answer;
    let (samples, capacity) = (counted(*samples as u64, "length"), counted(*capacity, "token"));
    let read = format!("{samples} {}, {tokens} in all, cells of {capacity}", form_in_words(form));
    let are = |number: u64| if number == 1 { "is" } else { "are" };
    let of = format!("of {}", counted(*dp, "cell"));
    let rows_claim = if answer.rows_proved {
        format!("{} {of} {} necessary and sufficient (R* = {rows})", counted(*rows, "row"), are(*rows))
    } else {
        format!(
            "at least {} {of} {} necessary, {rows} are sufficient: gap {:.3} %",
            counted(*rows_bound, "row"),
            are(*rows_bound),
            100.0 * answer.gap
        )
    };
    let cells_claim = if answer.cells_proved {
        format!("{} {} necessary and sufficient", counted(*cells, "cell"), are(*cells))
    } else {
        let bound = counted(*cells_bound, "cell");
        format!("at least {bound} {} necessary, {cells} are sufficient", are(*cells_bound))
    };
    let early = if answer.finished { "" } else { "\nstopped early: the best answer so far" };
    let check =
        check_command(arguments, form).map_or_else(String::new, |command| format!("\ncheck: {command}"));
    format!("{read}\n{rows_claim}\n{cells_claim}\nproved by {proved_by}{early}{check}")
}

/// The command that checks the certificate that was written.
fn check_command(arguments: &Arguments, form: &LengthsForm) -> Option<String> {
    let certificate = arguments.output.as_ref()?.display();
    let (lengths, options) = match (&arguments.lengths_output, form) {
        (Some(lengths), _) => (lengths, String::new()),
        (None, LengthsForm::Lines) => (&arguments.lengths, String::new()),
        (None, LengthsForm::Bins) => (&arguments.lengths, " --form bins".to_owned()),
        (None, LengthsForm::Table(columns)) => (&arguments.lengths, format!(" --column '{columns}'")),
        (None, LengthsForm::Window) => {
            return Some("routepack-check needs the lengths as text, see --lengths-output".to_owned());
        }
    };
    let padding = match arguments.pad_multiple {
        1 => String::new(),
        multiple => format!(" --pad-multiple {multiple}"),
    };
    Some(format!("routepack-check {certificate} {}{options}{padding}", lengths.display()))
}
