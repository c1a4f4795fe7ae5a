//! Bin-packing instances, one after another or several at a time.
//!
//! Every instance is packed on one thread, for the fewest bins; its certificate is checked again, apart from the solver
//! and with a clock, before the record counts it as proved. Records come in the order in which instances end.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rayon::ThreadPoolBuilder;
use routepack_binpack::{Goal, PackOptions, Types, pack};
use routepack_certificate::{Limits, Statement, check};
use routepack_formats::{LengthsForm, read_lengths, write_atomically};

use crate::error::BenchError;
use crate::record::{Record, Status};
use crate::table::{Optima, Table};

/// What to run.
#[derive(Debug, Clone)]
pub struct BinsBench {
    /// Files, or folders whose files ending with `.txt`, `.bpp` or `.csp` (in either case) are instances.
    pub instances: Vec<PathBuf>,
    /// Only so many files of every series of a folder, in order of names; a name without its last number, or from its last
    /// underscore on, names the series.
    pub first: Option<usize>,
    /// Time for one instance, by the clock.
    pub time_limit: Duration,
    /// Instances at a time, each in one thread.
    pub jobs: usize,
    /// Seed of the random fills.
    pub seed: u64,
    /// Known optima.
    pub optima: Optima,
    /// Folder for certificates, `CLASS/INSTANCE.cert` each.
    pub certificates: Option<PathBuf>,
    /// What a search may spend beside time.
    pub options: PackOptions,
}

/// What a bench came to, this run and former ones: of all instances, or of one class.
#[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
pub struct Summary {
    /// Name of the folder, with the number its instances' names begin with, if any; empty for all instances.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub class: String,
    /// Instances asked for.
    pub instances: usize,
    /// Those proved.
    pub proved: usize,
    /// Those with a gap.
    pub open: usize,
    /// Those with a refused certificate, or that contradict the known optimum.
    pub wrong: usize,
    /// Those not run: `stop` came first.
    pub left: usize,
    /// Mean seconds of those proved.
    pub mean_seconds: f64,
    /// Most seconds of those proved.
    pub max_seconds: f64,
    /// The same of every class, in order of the instances.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub classes: Vec<Summary>,
}

/// Runs the instances that the table has no standing record of (proved, or tried as long), and adds theirs.
///
/// # Errors
/// [`BenchError`] for a file that cannot be read or written or an instance that is none; the instances before it are in
/// the table.
pub fn bench_bins(
    bench: &BinsBench,
    table: &mut Table,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut (dyn FnMut(&Record) + Send),
) -> Result<Summary, BenchError> {
    let files = bench.files()?;
    let limit = bench.time_limit.as_secs_f64();
    let stands = |table: &Table, file: &Path| {
        table.records().iter().rfind(|record| names(record, file)).is_some_and(|record| record.stands(limit))
    };
    let todo: Vec<&PathBuf> = files.iter().filter(|file| !stands(table, file)).collect();
    let next = AtomicUsize::new(0);
    let shared = Mutex::new((&mut *table, observe, Ok(())));
    // A search would take two threads of a pool shared by all jobs.
    let pools = (0..bench.jobs.max(1)).map(|_| ThreadPoolBuilder::new().num_threads(1).build());
    let pools = pools.collect::<Result<Vec<_>, _>>()?;
    std::thread::scope(|scope| {
        for one_thread in &pools {
            scope.spawn(|| {
                while !stop() {
                    let Some(file) = todo.get(next.fetch_add(1, Ordering::Relaxed)) else { break };
                    let record = one_thread.install(|| run(bench, file, stop));
                    let mut shared = shared.lock().expect("no thread panics with the table");
                    let (table, observe, outcome) = &mut *shared;
                    let added = record.and_then(|record| {
                        // What `stop` cut short is no record of the time limit.
                        if let Some(record) = record {
                            observe(&record);
                            table.add(record)?;
                        }
                        Ok(())
                    });
                    if outcome.is_err() || added.is_err() {
                        *outcome = std::mem::replace(outcome, Ok(())).and(added);
                        break;
                    }
                }
            });
        }
    });
    shared.into_inner().expect("no thread panics with the table").2?;
    Ok(summary(&files, table))
}

impl BinsBench {
    /// The instances, each once: folders in order of names.
    ///
    /// # Errors
    /// [`BenchError`] for a folder that cannot be read or has no instances, and two instances of one class and name, which
    /// no table could tell apart.
    pub fn files(&self) -> Result<Vec<PathBuf>, BenchError> {
        let mut named: BTreeMap<(String, String), PathBuf> = BTreeMap::new();
        let mut once = Vec::new();
        for file in files(&self.instances, self.first)? {
            let same = |other: &PathBuf| {
                file.canonicalize().ok().is_some_and(|at| other.canonicalize().is_ok_and(|other| other == at))
            };
            match named.get(&name_and_class(&file)) {
                Some(other) if same(other) => {}
                Some(other) => return Err(BenchError::Namesake { one: other.clone(), other: file }),
                None => {
                    named.insert(name_and_class(&file), file.clone());
                    once.push(file);
                }
            }
        }
        Ok(once)
    }

    /// Where the certificate of an instance goes, if certificates are kept.
    pub fn certificate_of(&self, file: &Path) -> Option<PathBuf> {
        let (instance, class) = name_and_class(file);
        Some(self.certificates.as_ref()?.join(class).join(format!("{instance}.cert")))
    }
}

fn names(record: &Record, file: &Path) -> bool {
    let (instance, class) = name_and_class(file);
    record.instance == instance && record.class == class
}

fn name_and_class(file: &Path) -> (String, String) {
    let name = |path: Option<&std::ffi::OsStr>| path.unwrap_or_default().to_string_lossy().into_owned();
    (name(file.file_name()), name(file.parent().and_then(Path::file_name)))
}

/// All instances, folders in order of names; of folders only the first of every series.
fn files(instances: &[PathBuf], first: Option<usize>) -> Result<Vec<PathBuf>, BenchError> {
    let mut files = Vec::new();
    for path in instances {
        if !path.is_dir() {
            files.push(path.clone());
            continue;
        }
        let failed = |source| BenchError::File { path: path.clone(), source };
        let entries: Result<Vec<PathBuf>, _> =
            std::fs::read_dir(path).map_err(failed)?.map(|entry| Ok(entry?.path())).collect();
        let mut inside = entries.map_err(failed)?;
        let known = |file: &PathBuf| {
            let ending = file.extension().unwrap_or_default();
            ["txt", "bpp", "csp"].iter().any(|known| ending.eq_ignore_ascii_case(known))
        };
        inside.retain(known);
        if inside.is_empty() {
            return Err(BenchError::Empty { path: path.clone() });
        }
        inside.sort();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        inside.retain(|file| {
            let seen = seen.entry(series(file)).or_default();
            *seen += 1;
            first.is_none_or(|first| *seen <= first)
        });
        files.extend(inside);
    }
    Ok(files)
}

/// What the instances of one kind and size have in common in their names.
fn series(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_string_lossy();
    let series = name.rsplit_once('_').map_or(&name[..], |(series, _)| series);
    series.trim_end_matches(|c: char| series.len() == name.len() && c.is_ascii_digit()).to_owned()
}

/// The class of an instance in a summary.
fn class(file: &Path) -> String {
    let (instance, class) = name_and_class(file);
    let end = instance.find(|c: char| !c.is_ascii_digit()).unwrap_or(0);
    format!("{class} {}", &instance[..end]).trim_end().to_owned()
}

/// Packs an instance; `None` if `stop` cut it short.
fn run(
    bench: &BinsBench,
    file: &Path,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Record>, BenchError> {
    let lengths = read_lengths(file, &LengthsForm::Bins)?;
    let statement = Statement::bins(lengths.sizes, lengths.capacity.unwrap_or(0));
    let failed = |source| BenchError::Pack { path: file.into(), source };
    let types = Types::new(&statement).map_err(failed)?.len() as u64;
    let options = PackOptions { goal: Goal::Cells, ..bench.options.clone() };
    let start = Instant::now();
    let late = || start.elapsed() >= bench.time_limit || stop();
    let packed = pack(&statement, &options, bench.seed, &late, &mut |_| {}).map_err(failed)?;
    let seconds = start.elapsed().as_secs_f64();
    if !packed.finished && stop() {
        return Ok(None);
    }
    let text = packed.certificate.to_text(&statement);
    let start = Instant::now();
    let checked = check(&statement, &packed.certificate, &Limits::default());
    let check_seconds = start.elapsed().as_secs_f64();
    let (instance, class) = name_and_class(file);
    if let Some(path) = bench.certificate_of(file) {
        let folder = path.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(|source| BenchError::File { path: folder.into(), source })?;
        write_atomically(&path, text.as_bytes())?;
    }
    let optimum = bench.optima.of(&instance);
    let accepted = checked.is_ok_and(|checked| {
        (checked.cells_lower, checked.cells_upper) == (packed.cells_bound, Some(packed.cells))
    });
    let contradicted = optimum.is_some_and(|optimum| !(packed.cells_bound..=packed.cells).contains(&optimum));
    let status = if !accepted || contradicted {
        Status::Wrong
    } else if packed.cells == packed.cells_bound {
        Status::Proved
    } else {
        Status::Open
    };
    Ok(Some(Record {
        instance,
        class,
        items: statement.sizes.len() as u64,
        types,
        capacity: statement.capacity,
        bound: packed.cells_bound,
        incumbent: packed.cells,
        optimum,
        status,
        seconds,
        nodes: packed.work.cases,
        columns: packed.work.patterns,
        cuts: packed.work.cuts,
        programs: packed.work.programs,
        certificate_bytes: text.len() as u64,
        check_seconds,
        proved_by: packed.proved_by,
        time_limit: bench.time_limit.as_secs_f64(),
        seed: bench.seed,
        version: env!("CARGO_PKG_VERSION").to_owned(),
    }))
}

/// The last record of every instance, counted, in all and by class.
fn summary(files: &[PathBuf], table: &Table) -> Summary {
    let mut summary = Summary::default();
    for file in files {
        let class = class(file);
        let record = table.records().iter().rfind(|record| names(record, file));
        let place = summary.classes.iter().position(|known| known.class == class);
        let place = place.unwrap_or_else(|| {
            summary.classes.push(Summary { class, ..Summary::default() });
            summary.classes.len() - 1
        });
        summary.classes[place].count(record);
        summary.count(record);
    }
    summary
}

impl Summary {
    fn count(&mut self, record: Option<&Record>) {
        self.instances += 1;
        match record.map(|record| (record.status, record.seconds)) {
            None => self.left += 1,
            Some((Status::Open, _)) => self.open += 1,
            Some((Status::Wrong, _)) => self.wrong += 1,
            Some((Status::Proved, taken)) => {
                self.proved += 1;
                self.mean_seconds += (taken - self.mean_seconds) / self.proved as f64;
                self.max_seconds = self.max_seconds.max(taken);
            }
        }
    }
}
