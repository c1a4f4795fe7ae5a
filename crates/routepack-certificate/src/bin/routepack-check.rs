//! Checks a certificate of a bin-packing bound against a file of lengths, and says in words what is proved.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Write};
use std::process::ExitCode;

use routepack_certificate::{CheckError, Checked, Form, Lengths, Limits, Rule, Statement, check_lengths};

const HELP: &str = "\
Checks that a certificate proves how many cells (bins) and rows these lengths need.

usage: routepack-check CERTIFICATE LENGTHS [options]

  CERTIFICATE  text, as the README of routepack-certificate describes it; - is standard input
  LENGTHS      the same file with the same --form, --column and --pad-multiple as for `routepack rows`; - is standard input

options:
  --form FORM         what LENGTHS is; never guessed:
                        lines  one length a line (the default)
                        bins   number of items, capacity, then the sizes; or number of sizes, capacity, then lines of
                               size and demand
                        table  a tab-separated table; needs --column
  --column NAME       the column of the table, or a sum of columns such as prompt_tokens+response_tokens
  --pad-multiple M    round every length up to a multiple of M first (default 1)
  --max-memory BYTES  give up past so many bytes; K, M and G are powers of 1024 (default 2G)
  --max-steps N       give up past so many steps (default 1000000000)
  --json              print one JSON object instead of sentences
  --help, --version

exit code: 0 valid, 1 invalid, 2 not checked (a limit was reached), 3 wrong usage or unreadable files

examples:
  routepack-check rows.cert lengths.txt --pad-multiple 16
  routepack-check rows.cert instance.txt --form bins
  routepack-check rows.cert rollouts.tsv --column prompt_tokens+response_tokens
";

struct Arguments {
    certificate: String,
    lengths: String,
    form: Form,
    pad_multiple: u64,
    limits: Limits,
    json: bool,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let shown = match arguments.iter().find(|word| ["--help", "-h", "--version"].contains(&word.as_str())) {
        Some(word) if word == "--version" => say(concat!("routepack-check ", env!("CARGO_PKG_VERSION"), "\n")),
        Some(_) => say(HELP),
        None => return check_files(&arguments),
    };
    if shown.is_ok() { ExitCode::SUCCESS } else { ExitCode::from(3) }
}

/// Checks the files that the arguments name.
fn check_files(arguments: &[String]) -> ExitCode {
    let arguments = match parse(arguments) {
        Ok(arguments) => arguments,
        Err(why) => {
            let _ = writeln!(io::stderr(), "routepack-check: {why}\nTry: routepack-check --help");
            return ExitCode::from(3);
        }
    };
    let outcome = read(&arguments.lengths)
        .and_then(|text| Lengths::parse(text, &arguments.form, arguments.pad_multiple, &arguments.limits))
        .and_then(|lengths| check_lengths(&lengths, read(&arguments.certificate)?, &arguments.limits));
    let code = match &outcome {
        Ok(_) => 0,
        Err(CheckError::Invalid { .. } | CheckError::Statement { .. }) => 1,
        Err(CheckError::NotChecked { .. }) => 2,
        Err(CheckError::Unreadable { .. }) => 3,
    };
    let said = match (&outcome, arguments.json) {
        (_, true) => say(&object(&outcome)),
        (Ok((statement, checked)), false) => say(&sentences(statement, checked)),
        (Err(error), false) => {
            let verdict = ["", "INVALID: ", "NOT CHECKED: ", ""][code];
            writeln!(io::stderr(), "{verdict}{}", error.to_string().trim_start_matches("not checked: "))
        }
    };
    if said.is_ok() { ExitCode::from(code as u8) } else { ExitCode::from(3) }
}

fn parse(words: &[String]) -> Result<Arguments, String> {
    let (mut files, mut limits) = (Vec::new(), Limits::default());
    let (mut pad_multiple, mut json, mut form, mut column) = (1, false, None, None);
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value"));
        let figure = |value: &String| number(value).ok_or(format!("{word}: \"{value}\" is not a number"));
        match word.as_str() {
            "--form" => form = Some(value()?.clone()),
            "--column" => column = Some(value()?.clone()),
            "--pad-multiple" => pad_multiple = figure(value()?)?,
            "--max-memory" => limits.max_memory = figure(value()?)?,
            "--max-steps" => limits.max_steps = figure(value()?)?,
            "--json" => json = true,
            option if option.len() > 1 && option.starts_with('-') => return Err(format!("unknown option {option}")),
            _ => files.push(word.clone()),
        }
    }
    let [certificate, lengths] = <[String; 2]>::try_from(files).map_err(|_| "expected CERTIFICATE and LENGTHS")?;
    if certificate == "-" && lengths == "-" {
        return Err("only one of the files can be standard input".into());
    }
    let form = match (form.as_deref(), column) {
        (None | Some("table"), Some(columns)) => Form::Table(columns),
        (None | Some("lines"), None) => Form::Lines,
        (Some("bins"), None) => Form::Bins,
        (Some("table"), None) => return Err("--form table needs --column NAME".into()),
        (Some("window"), _) => {
            return Err("--form window is for routepack rows; it writes the lengths with --lengths-output FILE".into());
        }
        (Some(other), None) => return Err(format!("--form {other}: there are lines, bins, table")),
        (Some(other), Some(_)) => return Err(format!("--column is for tables, not for --form {other}")),
    };
    Ok(Arguments { certificate, lengths, form, pad_multiple, limits, json })
}

/// A number, perhaps with a power of 1024.
fn number(text: &str) -> Option<u64> {
    let power = text.chars().last().and_then(|last| "KMG".find(last)).map(|place| place + 1);
    let digits = if power.is_some() { &text[..text.len() - 1] } else { text };
    digits.parse::<u64>().ok()?.checked_mul(1 << (10 * power.unwrap_or(0)))
}

fn read(name: &str) -> Result<Box<dyn BufRead>, CheckError> {
    if name == "-" {
        return Ok(Box::new(BufReader::new(io::stdin())));
    }
    match File::open(name) {
        Ok(file) => Ok(Box::new(BufReader::new(file))),
        Err(error) => Err(CheckError::Unreadable { why: format!("{name}: {error}") }),
    }
}

fn say(text: &str) -> io::Result<()> {
    io::stdout().write_all(text.as_bytes())
}

/// What is proved, in words.
fn sentences(statement: &Statement, checked: &Checked) -> String {
    let Statement { sizes, capacity, max_items, slots, rows_multiple } = statement;
    let limit = max_items.map_or(String::new(), |limit| format!(", at most {limit} in a cell"));
    let rows = match (slots, rows_multiple) {
        (1, 1) => String::new(),
        _ => format!(", {slots} slots, rows in multiples of {rows_multiple}"),
    };
    let rule = checked.rule.map_or("none", word);
    format!(
        "VALID for {} lengths, total {}, capacity {capacity}{limit}{rows}\n{}\n{}\n\
         proof: {rule}, {} leaves; checked in {} steps, {} bytes\n",
        sizes.len(),
        statement.total(),
        sentence("cells", checked.rule, checked.cells_lower, checked.cells_upper),
        sentence("rows", checked.rule, checked.rows_lower, checked.rows_upper),
        checked.leaves,
        checked.steps,
        checked.memory
    )
}

fn sentence(noun: &str, rule: Option<Rule>, lower: u64, upper: Option<u64>) -> String {
    match (rule, upper) {
        (Some(_), Some(upper)) if lower == upper => format!("{upper} {noun} are necessary and sufficient"),
        (Some(_), Some(upper)) => format!("at least {lower} {noun} are necessary, {upper} are sufficient"),
        (Some(_), None) => format!("at least {lower} {noun} are necessary"),
        (None, Some(0)) => format!("no {noun} are necessary: there is nothing to pack"),
        (None, Some(upper)) => format!("{upper} {noun} are sufficient; whether they are necessary is not claimed"),
        (None, None) => format!("nothing is claimed about {noun}"),
    }
}

fn word(rule: Rule) -> &'static str {
    match rule {
        Rule::Volume => "volume",
        Rule::Count => "count",
        Rule::Weights => "weights",
        Rule::Tree => "tree",
    }
}

/// What is proved, as one JSON object.
fn object(outcome: &Result<(Statement, Checked), CheckError>) -> String {
    let null = |figure: Option<u64>| figure.map_or("null".into(), |figure| figure.to_string());
    match outcome {
        Ok((statement, checked)) => {
            let items = statement.sizes.len();
            let Statement { capacity, slots, rows_multiple, .. } = statement;
            let Checked { cells_lower, rows_lower, leaves, steps, memory, .. } = checked;
            let (max_items, rule) = (null(statement.max_items.map(u64::from)), checked.rule.map_or("none", word));
            let (cells_upper, rows_upper) = (null(checked.cells_upper), null(checked.rows_upper));
            format!(
                "{{\"status\":\"valid\",\"items\":{items},\"total\":{},\"capacity\":{capacity},\"max_items\":{max_items},\
                 \"slots\":{slots},\"rows_multiple\":{rows_multiple},\"cells_lower\":{cells_lower},\
                 \"cells_upper\":{cells_upper},\"rows_lower\":{rows_lower},\"rows_upper\":{rows_upper},\
                 \"rule\":\"{rule}\",\"leaves\":{leaves},\"steps\":{steps},\"memory\":{memory}}}\n",
                statement.total()
            )
        }
        Err(error) => {
            let status = match error {
                CheckError::Invalid { .. } | CheckError::Statement { .. } => "invalid",
                CheckError::NotChecked { .. } => "not checked",
                CheckError::Unreadable { .. } => "unreadable",
            };
            let plain = |c: char| if c.is_control() || "\"\\".contains(c) { '\'' } else { c };
            let why: String = error.to_string().chars().map(plain).collect();
            format!("{{\"status\":\"{status}\",\"why\":\"{why}\"}}\n")
        }
    }
}
