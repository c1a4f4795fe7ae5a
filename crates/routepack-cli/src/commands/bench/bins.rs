//! `routepack bench bins`: folders of instances, one line of a table each.

use std::path::PathBuf;
use std::time::Duration;

use routepack::binpack::PackOptions;
use routepack::problem::counted;
use routepack_bench::{BinsBench, Optima, Record, Status, Summary, Table, bench_bins};

use super::super::outputs::{Named, check_distinct, check_outputs, given, make_folder};
use super::check_table;
use crate::exit::Failure;
use crate::interrupt;
use crate::output::{print, print_json, say};

/// Arguments of `routepack bench bins`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack bench bins hard28 --time-limit 120 -o hard28.csv --optima optima.tsv
  routepack bench bins */ --first 5 --time-limit 20 -o gate.csv --optima optima.tsv
  routepack bench bins AI ANI --time-limit 600 --jobs 2 -o ai.csv --certificates certificates")]
pub(super) struct Arguments {
    /// Instances (number, capacity, then sizes or `size demand` lines), or folders of them (.txt, .bpp, .csp).
    #[arg(required = true)]
    instances: Vec<PathBuf>,
    /// Only so many files of every series of a folder: names that differ after their last underscore, or in their last number.
    #[arg(long, value_name = "FILES", value_parser = clap::value_parser!(u16).range(1..))]
    first: Option<u16>,
    /// Seconds for each instance, by the clock.
    #[arg(long, value_name = "SECONDS", default_value = "60", value_parser = seconds)]
    time_limit: Duration,
    /// Instances at a time; the answers do not depend on it as far as the time limit doesn't.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: u16,
    /// Table to write and to go on from.
    #[arg(short, long, default_value = "bins.csv")]
    output: PathBuf,
    /// Table with the columns `instance` and `optimum` to compare with.
    #[arg(long)]
    optima: Option<PathBuf>,
    /// Folder for the certificates, CLASS/INSTANCE.cert each.
    #[arg(long)]
    certificates: Option<PathBuf>,
    /// Seed of the randomised fills.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// No line an instance on standard error.
    #[arg(short, long)]
    quiet: bool,
    /// Print the counts as JSON.
    #[arg(long)]
    json: bool,
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "no number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Runs the command.
pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    check_table(&arguments.output)?;
    let bench = BinsBench {
        instances: arguments.instances.clone(),
        first: arguments.first.map(usize::from),
        time_limit: arguments.time_limit,
        jobs: arguments.jobs.into(),
        seed: arguments.seed,
        optima: arguments.optima.as_deref().map_or_else(|| Ok(Optima::default()), Optima::read)?,
        certificates: arguments.certificates.clone(),
        // Time is the limit, and memory: the widest capacities published take tables of almost 4 GiB.
        options: PackOptions { cases: u64::MAX, table_bytes: 4 << 30, ..PackOptions::default() },
    };
    let files = bench.files()?;
    let certificates: Vec<PathBuf> = files.iter().filter_map(|file| bench.certificate_of(file)).collect();
    let mut inputs: Vec<Named<'_>> = files.iter().map(|file| ("INSTANCES", file.as_path())).collect();
    inputs.extend(given(&[("--optima", &arguments.optima)]));
    let table = [("--output", arguments.output.as_path())];
    let outputs: Vec<Named<'_>> =
        table.into_iter().chain(certificates.iter().map(|path| ("--certificates", path.as_path()))).collect();
    check_distinct(&inputs, &outputs)?;
    for folder in certificates.iter().filter_map(|path| path.parent()) {
        make_folder("--certificates", folder)?;
    }
    // Again, for their folders are there now.
    check_distinct(&inputs, &outputs)?;
    check_outputs(&inputs, &outputs[1..])?;
    let mut table = Table::open(&arguments.output)?;
    let flag = interrupt::flag();
    let stop = || flag.load(std::sync::atomic::Ordering::Relaxed);
    let mut observe = |record: &Record| {
        if !arguments.quiet {
            let status = match record.status {
                Status::Proved => "proved",
                Status::Open => "open",
                Status::Wrong => "WRONG",
            };
            let Record { class, instance, bound, incumbent, seconds, proved_by, .. } = record;
            say(&format!("{class}/{instance} {bound}/{incumbent} {status} {seconds:.2} s {proved_by}"));
        }
    };
    let summary = bench_bins(&bench, &mut table, &stop, &mut observe)?;
    if arguments.json {
        print_json(&summary)?;
    } else if summary.classes.len() > 1 {
        for class in &summary.classes {
            print(&format!("{}: {}", class.class, counts(class)))?;
        }
    }
    if !arguments.json {
        print(&counts(&summary))?;
    }
    if summary.wrong > 0 {
        let output = arguments.output.display();
        return Err(Failure::Refused(format!("{output}: {} contradictions", summary.wrong)));
    }
    Ok(())
}

fn counts(summary: &Summary) -> String {
    let Summary { instances, proved, open, wrong, left, mean_seconds, max_seconds, .. } = summary;
    format!(
        "{}: {proved} proved (mean {mean_seconds:.2} s, longest {max_seconds:.2} s), {open} open, \
         {wrong} wrong, {left} left",
        counted(*instances, "instance")
    )
}
