//! The paper's table: throughput of its arms, and of ours, on generated windows (arXiv 2608.12146).
//!
//! Arms of a window: *baseline* (identity placement, first-fit decreasing), *reorder* (the published placement, the baseline's
//! layout), *published* (placement by longest processing time first, then layout, one after the other) and *routepack*
//! (placement and layout refined in turns). Times are simulated; neither planning nor moves of experts are charged. A window
//! costs two plans.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use routepack::baselines::global_ffd;
use routepack::generate::{Preset, window};
use routepack::place::{PlaceOptions, Start};
use routepack::simulation::{Cluster, Model, SimulateOptions, presets};
use routepack::verification::Verified;
use routepack::{Aim, Batch, Control, Job, Layout, Placement, PlanError, verify};
use serde::{Deserialize, Serialize, Serializer};
use sha2::{Digest as _, Sha256};

use crate::BenchError;
use crate::measured::{measure, step_time};
use crate::statistics::Sample;
use crate::table::{Table, TableLine};

/// Of the planner.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Arms in the order of the table.
pub const PAPER_ARMS: [&str; 4] = ["baseline", "reorder", "published", "routepack"];

/// A family of windows, the model that trains on them, and the gains over the baseline that the paper states.
pub struct PaperCase {
    /// The windows.
    pub preset: Preset,
    /// Name of the model's preset.
    pub model: &'static str,
    /// Percent of throughput over the baseline by the paper: reorder, and all of its method.
    pub stated: [f64; 2],
}

/// What the paper reports on.
pub const PAPER_CASES: [PaperCase; 2] = [
    PaperCase { preset: Preset::Tiny, model: "ling-3.0-tiny-like", stated: [3.80, 8.85] },
    PaperCase { preset: Preset::Flash, model: "ling-3.0-flash-like", stated: [10.50, 14.89] },
];

/// A run of the table.
pub struct PaperBench {
    /// Windows of every case: seeds 1 to this.
    pub windows: u64,
    /// The cases to run, of [`PAPER_CASES`].
    pub cases: Vec<&'static PaperCase>,
    /// The cluster.
    pub cluster: Cluster,
    /// How the trainer runs a step.
    pub options: SimulateOptions,
}

/// An arm on a window: a line of the table, columns in this order. Seconds are simulated but for `planning`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PaperRecord {
    /// Name of the window's preset.
    pub preset: String,
    /// Seed of the window.
    pub seed: u64,
    /// Name of the arm.
    pub arm: String,
    /// Cluster, and the options that are not the default.
    pub machine: String,
    /// Rows.
    pub rows: u64,
    /// Attention of the slowest slots, unit of the paper.
    pub attention_cost: f64,
    /// Routed rows of the busiest ranks, summed over rows, shards and layers.
    pub peak_sum: u64,
    /// The largest of them.
    pub worst_peak: u64,
    /// Cost of the slowest shard, unit of the paper.
    pub joint_score: f64,
    /// Raw tokens.
    pub tokens: u64,
    /// Seconds of the step.
    pub seconds: f64,
    /// Of these, attention.
    pub attention: f64,
    /// Dense blocks.
    pub dense: f64,
    /// Routed experts.
    pub expert: f64,
    /// Dispatch and combine.
    pub all_to_all: f64,
    /// Pipeline bubble.
    pub bubble: f64,
    /// Gradients and weights exchanged.
    pub gradients: f64,
    /// Optimizer.
    pub optimizer: f64,
    /// Seconds by the clock to plan; 0 for the arms that are not planned.
    pub planning: f64,
    /// Version of the planner.
    pub version: String,
    /// SHA-256 of what the figures hang on, see [`PaperBench::setup`].
    pub setup_sha256: String,
}

/// Columns of the seconds that make up a step.
const TERM_COLUMNS: [&str; 7] =
    ["attention", "dense", "expert", "all_to_all", "bubble", "gradients", "optimizer"];

impl TableLine for PaperRecord {
    const HEADER: &'static str = "preset,seed,arm,machine,rows,attention_cost,peak_sum,worst_peak,joint_score,tokens,seconds,attention,dense,expert,all_to_all,bubble,gradients,optimizer,planning,version,setup_sha256\n";

    fn check(&self) -> Result<(), String> {
        let figures = [
            ("joint_score", self.joint_score),
            ("attention_cost", self.attention_cost),
            ("planning", self.planning),
        ];
        let terms = TERM_COLUMNS.into_iter().zip(self.terms().map(|(_, seconds)| seconds));
        let sum: f64 = terms.clone().map(|(_, seconds)| seconds).sum();
        let wrong = figures.into_iter().chain(terms).find(|(_, value)| !(0.0..=1e12).contains(value));
        match wrong {
            Some((name, value)) => Err(format!("{name} = {value}: expected 0 to 10^12")),
            None if !(1e-9..=1e12).contains(&self.seconds) => {
                Err(format!("seconds = {}: expected 10^-9 to 10^12", self.seconds))
            }
            None if (self.seconds - sum).abs() > 1e-9 * sum => {
                Err(format!("seconds = {}: expected {sum}, the sum of its terms", self.seconds))
            }
            None if self.tokens == 0 => Err("tokens = 0: expected at least 1".to_owned()),
            None => Ok(()),
        }
    }

    fn check_together(lines: &[(u64, Self)]) -> Result<(), (u64, String)> {
        let (mut tokens, mut arms) = (HashMap::new(), HashMap::new());
        for (at, line) in lines {
            // Another recipe makes other windows of the same seed.
            let window = (&line.preset, line.seed, &line.setup_sha256);
            let (first, expected) = *tokens.entry(window).or_insert((at, line.tokens));
            if line.tokens != expected {
                let found = line.tokens;
                let why =
                    format!("tokens = {found}: expected {expected}, as line {first} has for this window");
                return Err((*at, why));
            }
            if let Some(first) = arms.insert((window, &line.arm), at) {
                let why = format!("arm = {}: expected once, line {first} has it for this window", line.arm);
                return Err((*at, why));
            }
        }
        Ok(())
    }
}

impl PaperRecord {
    /// Raw tokens a second.
    pub fn tokens_per_second(&self) -> f64 {
        self.tokens as f64 / self.seconds
    }

    /// Seconds by what they are spent on, by name.
    pub fn terms(&self) -> [(&'static str, f64); 7] {
        [
            ("attention", self.attention),
            ("dense", self.dense),
            ("experts", self.expert),
            ("all-to-all", self.all_to_all),
            ("pipeline bubble", self.bubble),
            ("gradients", self.gradients),
            ("optimizer", self.optimizer),
        ]
    }
}

/// An arm over all windows of a case.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct PaperArm {
    /// Name of the arm.
    pub name: &'static str,
    /// Raw tokens a second.
    pub tokens_per_second: Sample,
    /// Percent of throughput over the baseline on the same window.
    pub gain: Sample,
    /// The gain that the paper states.
    pub stated: Option<f64>,
    /// Cost of the slowest shard over the baseline's, percent.
    pub joint_score: Sample,
    /// What each term adds to the gain: seconds saved on it over the baseline's seconds of the step, percent.
    #[serde(serialize_with = "by_name")]
    pub saved: Vec<(&'static str, f64)>,
    /// Mean share of each term in the seconds of the step, percent.
    #[serde(serialize_with = "by_name")]
    pub shares: Vec<(&'static str, f64)>,
}

fn by_name<S: Serializer>(terms: &[(&'static str, f64)], serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_map(terms.iter().copied())
}

/// Runs what the table lacks; stops between windows once `stop` is set. What is there stays.
///
/// # Errors
/// The table cannot be written; a window cannot be planned or simulated.
pub fn bench_paper(
    bench: &PaperBench,
    table: &mut Table<PaperRecord>,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&PaperRecord),
) -> Result<(), BenchError> {
    for seed in 1..=bench.windows {
        for case in &bench.cases {
            let known: Vec<String> = bench
                .of(case, table.records())?
                .filter(|line| line.seed == seed)
                .map(|line| line.arm.clone())
                .collect();
            if known.len() == PAPER_ARMS.len() {
                continue;
            }
            let lines = window_lines(bench, case, seed, stop)?;
            if stop.load(Ordering::Relaxed) {
                return Ok(());
            }
            for line in lines.into_iter().filter(|line| !known.contains(&line.arm)) {
                observe(&line);
                table.add(line)?;
            }
        }
    }
    Ok(())
}

impl PaperBench {
    /// Cluster, and the options that are not the default.
    pub fn machine(&self) -> String {
        let (options, usual) = (&self.options, SimulateOptions::default());
        let mut machine = self.cluster.name.clone();
        if options.recompute {
            machine.push_str(", recompute");
        }
        for (name, value, usual) in [
            ("dispatch bytes", options.dispatch_bytes, usual.dispatch_bytes),
            ("exposed gradients", options.exposed_gradients, usual.exposed_gradients),
        ] {
            if value.total_cmp(&usual).is_ne() {
                machine = format!("{machine}, {name} {value}");
            }
        }
        machine
    }

    /// SHA-256 of all that the lines of a case hang on beside the seed: version, recipe of the windows, figures of model and
    /// cluster, options. What model and cluster are called, and where their figures are from, is left out.
    ///
    /// # Errors
    /// The case names no model.
    pub fn setup(&self, case: &PaperCase) -> Result<String, BenchError> {
        let failed = |why: String| BenchError::Window { window: case.preset.to_string(), of_job: false, why };
        let model = presets::model(case.model).map_err(|error| failed(error.to_string()))?;
        let model = Model { name: String::new(), sources: Vec::new(), ..model };
        let cluster = Cluster { name: String::new(), sources: Vec::new(), ..self.cluster.clone() };
        let setup = serde_json::to_vec(&(VERSION, case.preset.recipe(), model, cluster, &self.options));
        let hash = Sha256::digest(setup.expect("plain data"));
        Ok(hash.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        }))
    }

    /// The lines of a case with this setup and by this version: others do not count.
    fn of<'a>(
        &self,
        case: &'a PaperCase,
        lines: &'a [PaperRecord],
    ) -> Result<impl Iterator<Item = &'a PaperRecord> + use<'a>, BenchError> {
        let setup = self.setup(case)?;
        Ok(lines.iter().filter(move |line| {
            line.preset == case.preset.name() && line.version == VERSION && line.setup_sha256 == setup
        }))
    }

    /// The arms of a case over the windows of which all arms are there; none before the first.
    ///
    /// # Errors
    /// As [`PaperBench::setup`].
    pub fn arms(&self, case: &PaperCase, lines: &[PaperRecord]) -> Result<Vec<PaperArm>, BenchError> {
        let mut lines: Vec<&PaperRecord> =
            self.of(case, lines)?.filter(|line| line.seed <= self.windows).collect();
        lines.sort_by_key(|line| line.seed);
        let windows: Vec<[&PaperRecord; 4]> = lines
            .chunk_by(|one, other| one.seed == other.seed)
            .filter_map(|window| {
                let arm = |name: &str| window.iter().copied().find(|line| line.arm == name);
                Some([arm("baseline")?, arm("reorder")?, arm("published")?, arm("routepack")?])
            })
            .collect();
        if windows.is_empty() {
            return Ok(Vec::new());
        }
        let arm = |(arm, name): (usize, &'static str)| {
            let over = |of: fn(&PaperRecord) -> f64| {
                let percent = windows.iter().map(|window| 100.0 * (of(window[arm]) / of(window[0]) - 1.0));
                Sample::of(&percent.collect::<Vec<_>>())
            };
            let term = |value: &dyn Fn(&[&PaperRecord; 4], usize) -> f64| -> Vec<(&'static str, f64)> {
                let mean = |term: usize| {
                    windows.iter().map(|window| value(window, term)).sum::<f64>() / windows.len() as f64
                };
                windows[0][arm]
                    .terms()
                    .into_iter()
                    .enumerate()
                    .map(|(term, (name, _))| (name, mean(term)))
                    .collect()
            };
            let speeds: Vec<f64> = windows.iter().map(|window| window[arm].tokens_per_second()).collect();
            PaperArm {
                name,
                tokens_per_second: Sample::of(&speeds),
                gain: over(PaperRecord::tokens_per_second),
                stated: match name {
                    "reorder" => Some(case.stated[0]),
                    "published" => Some(case.stated[1]),
                    _ => None,
                },
                joint_score: over(|line| line.joint_score),
                saved: term(&|window, term| {
                    100.0 * (window[0].terms()[term].1 - window[arm].terms()[term].1) / window[0].seconds
                }),
                shares: term(&|window, term| 100.0 * window[arm].terms()[term].1 / window[arm].seconds),
            }
        };
        Ok(PAPER_ARMS.into_iter().enumerate().map(arm).collect())
    }
}

/// All arms on one window; none where it is stopped.
fn window_lines(
    bench: &PaperBench,
    case: &PaperCase,
    seed: u64,
    stop: &AtomicBool,
) -> Result<Vec<PaperRecord>, BenchError> {
    let name = format!("{} {seed}", case.preset);
    let failed = |error: &dyn std::fmt::Display| BenchError::Window {
        window: name.clone(),
        of_job: false,
        why: error.to_string(),
    };
    let made = window(&case.preset.recipe(), seed).map_err(|error| failed(&error))?;
    let model = presets::model(case.model).map_err(|error| failed(&error))?;
    let batch = Arc::new(made.batch);
    let usual = Job::new(made.setting);
    let jobs = [as_published(&usual), usual];
    let mut planned = Vec::new();
    for job in jobs {
        let (verified, seconds) = plan_and_verify(&batch, &job, stop).map_err(|error| failed(&error))?;
        if stop.load(Ordering::Relaxed) {
            return Ok(Vec::new());
        }
        planned.push((verified, seconds));
    }
    let [(published, published_seconds), (ours, our_seconds)] = &planned[..] else { return Ok(Vec::new()) };
    let instances = &published.instances;
    let placements =
        [published, ours].map(|verified| verified.placement.as_ref().ok_or_else(|| failed(&"no routes")));
    let [published_placement, own_placement] = placements;
    let (published_placement, own_placement) = (published_placement?, own_placement?);
    let identity = Placement::identity(
        published_placement.num_layers(),
        published_placement.num_experts(),
        published_placement.num_ranks(),
    )
    .map_err(|error| failed(&error))?;
    let layouts = instances
        .iter()
        .zip(&published.layouts)
        .map(|(instance, layout)| global_ffd(instance, layout.num_rows()));
    let first_fit: Vec<Layout> = layouts
        .map(|packed| packed.map(|packed| packed.layout))
        .collect::<Result<_, _>>()
        .map_err(|error| failed(&error))?;
    let arms: [(&Placement, &[Layout], f64); 4] = [
        (&identity, &first_fit, 0.0),
        (published_placement, &first_fit, 0.0),
        (published_placement, &published.layouts, *published_seconds),
        (own_placement, &ours.layouts, *our_seconds),
    ];
    let setup = bench.setup(case)?;
    let line = |(arm, (placement, layouts, planning)): (&str, (&Placement, &[Layout], f64))| {
        let time = step_time(instances, placement, layouts, (&model, &bench.cluster, &bench.options))
            .map_err(|error| failed(&error))?;
        let measured = measure(instances, placement, layouts);
        Ok(PaperRecord {
            preset: case.preset.name().to_owned(),
            seed,
            arm: arm.to_owned(),
            machine: bench.machine(),
            rows: measured.rows,
            attention_cost: measured.attention_cost,
            peak_sum: measured.peak_sum.expect("windows of the paper have routes"),
            worst_peak: measured.worst_peak.expect("windows of the paper have routes"),
            joint_score: measured.joint_score,
            tokens: time.tokens,
            seconds: time.seconds,
            attention: time.work.attention,
            dense: time.work.dense,
            expert: time.work.expert,
            all_to_all: time.work.all_to_all,
            bubble: time.bubble,
            gradients: time.gradients,
            optimizer: time.optimizer,
            planning,
            version: VERSION.to_owned(),
            setup_sha256: setup.clone(),
        })
    };
    PAPER_ARMS.into_iter().zip(arms).map(line).collect()
}

/// The paper's method: LPT and no more, then the layout search.
fn as_published(job: &Job) -> Job {
    let mut job = job.clone();
    job.place = PlaceOptions {
        start: Start::Lpt,
        max_swaps: 0,
        max_resplits: 0,
        max_triples: 0,
        second_start: false,
        ..job.place
    };
    job.refine.placement = Aim::Aggregate;
    job
}

/// A plan whose every claim was recomputed, and the seconds it took to make.
pub(crate) fn plan_and_verify(
    batch: &Arc<Batch>,
    job: &Job,
    stop: &AtomicBool,
) -> Result<(Verified, f64), PlanError> {
    let clock = Instant::now();
    let plan = routepack::plan(batch, job, &mut Control::new().cancelled_by(stop))?;
    let seconds = clock.elapsed().as_secs_f64();
    Ok((verify(&plan, batch)?, seconds))
}
