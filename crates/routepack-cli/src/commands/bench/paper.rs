//! `routepack bench paper`: the paper's table on generated windows, simulated.

use std::path::PathBuf;

use routepack::problem::counted;
use routepack_bench::{
    BenchError, PAPER_CASES, PaperArm, PaperBench, PaperCase, PaperRecord, Sample, Table, bench_paper,
};

use super::super::in_pool;
use super::super::machine::ClusterArguments;
use super::super::outputs::{Named, check_distinct};
use super::check_table;
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json, say};
use crate::table::render;

/// Arguments of `routepack bench paper`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack bench paper --cluster h20 -o paper.csv
  routepack bench paper --cluster h200 --windows 5 --only tiny -o few.csv

Arms: baseline (identity placement, first-fit decreasing), reorder (placement by longest processing time first, the
baseline's layout), published (that placement, then the layout search), routepack (placement and layout in turns).
Ctrl-C stops with the windows that are done, exit code 0; the same command goes on from there.

Exit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file.")]
pub(super) struct Arguments {
    /// Windows of each case; seeds 1 to this.
    #[arg(long, default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=10_000))]
    windows: u64,
    /// One case alone: tiny or flash; both by default.
    #[arg(long, value_name = "CASE", value_parser = ["tiny", "flash"])]
    only: Option<String>,
    #[command(flatten)]
    cluster: ClusterArguments,
    /// Table to write and to go on from.
    #[arg(short, long, default_value = "paper.csv")]
    output: PathBuf,
    /// Threads; all processors by default. Only the seconds of planning depend on it.
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// No line a window on standard error.
    #[arg(short, long)]
    quiet: bool,
    /// Print JSON: an element a case, with its arms.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let asked = |case: &&PaperCase| arguments.only.as_deref().is_none_or(|name| name == case.preset.name());
    let bench = PaperBench {
        windows: arguments.windows,
        cases: PAPER_CASES.iter().filter(asked).collect(),
        cluster: arguments.cluster.read()?,
        options: arguments.cluster.options()?,
    };
    check_table(&arguments.output)?;
    let inputs: Vec<Named<'_>> = arguments.cluster.file().into_iter().collect();
    check_distinct(&inputs, &[("--output", &arguments.output)])?;
    let mut table = Table::open(&arguments.output)?;
    let mut observe = |line: &PaperRecord| {
        if !arguments.quiet {
            let PaperRecord { preset, seed, arm, seconds, .. } = line;
            say(&format!("{preset} {seed} {arm}: {seconds:.4} s, {:.0} tokens/s", line.tokens_per_second()));
        }
    };
    let stop = interrupt::flag();
    in_pool(arguments.threads, || bench_paper(&bench, &mut table, stop, &mut observe))??;
    if arguments.json {
        let of_case = |case: &&'static PaperCase| {
            Ok(serde_json::json!({
                "preset": case.preset.name(),
                "model": case.model,
                "machine": bench.machine(),
                "arms": bench.arms(case, table.records())?,
            }))
        };
        let cases: Result<Vec<_>, BenchError> = bench.cases.iter().map(of_case).collect();
        return print_json(&cases?);
    }
    let texts: Result<Vec<_>, BenchError> =
        bench.cases.iter().map(|case| in_words(case, &bench, table.records())).collect();
    print(&texts?.join("\n\n"))
}

/// Mean and standard deviation; the mean alone of a single window.
fn with_sd(sample: Sample, mean: fn(f64) -> String, digits: usize) -> String {
    let sd = sample.sd.map(|sd| format!(" ± {sd:.digits$}"));
    format!("{}{}", mean(sample.mean), sd.unwrap_or_default())
}

fn in_words(case: &PaperCase, bench: &PaperBench, lines: &[PaperRecord]) -> Result<String, BenchError> {
    let arms = bench.arms(case, lines)?;
    let Some(first) = arms.first() else { return Ok(format!("{}: no window yet", case.preset)) };
    let windows = first.gain.count;
    let gains = arms.iter().map(|arm| {
        vec![
            arm.name.to_owned(),
            with_sd(arm.tokens_per_second, |mean| format!("{mean:.0}"), 0),
            with_sd(arm.gain, |mean| format!("{mean:+.2}"), 2),
            arm.stated.map_or_else(String::new, |stated| format!("{stated:+.2}")),
            with_sd(arm.joint_score, |mean| format!("{mean:+.2}"), 2),
        ]
    });
    let names: Vec<&str> = std::iter::once("").chain(arms.iter().map(|arm| arm.name)).collect();
    let per_term = |of: fn(&PaperArm) -> &[(&'static str, f64)], signed: bool| -> Vec<Vec<String>> {
        let terms = of(first).iter().enumerate().filter(|(_, (name, _))| {
            arms.iter().any(|arm| arm.shares.iter().any(|(term, share)| term == name && *share > 0.0))
        });
        let row = |(index, (name, _)): (usize, &(&'static str, f64))| {
            let figures = arms.iter().map(|arm| {
                if signed { format!("{:+.2}", of(arm)[index].1) } else { format!("{:.2}", of(arm)[index].1) }
            });
            std::iter::once((*name).to_owned()).chain(figures).collect()
        };
        terms.map(row).collect()
    };
    Ok([
        format!("{}: {}, {} on {}", case.preset, counted(windows, "window"), case.model, bench.machine()),
        render(&["", "tokens/s", "gain %", "paper %", "joint score %"], &gains.collect::<Vec<_>>()),
        String::new(),
        "share of the step, %:".to_owned(),
        render(&names, &per_term(|arm| &arm.shares, false)),
        String::new(),
        "seconds saved, % of the baseline's step:".to_owned(),
        render(&names, &per_term(|arm| &arm.saved, true)),
    ]
    .join("\n"))
}
