//! A plan being made in a thread.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::prelude::*;
use routepack::formats;
use routepack::verification::{Status, check_alone};
use routepack::{Batch, Control, Framework, Job, Placement, Plan, filter, pass_names, plan_passes, sign};

use crate::batch::NativeBatch;
use crate::errors::{JobError, RoutePackError, VerifyError, WindowError, of_format, of_plan};
use crate::peers::PeerProcesses;
use crate::work::{Work, run};

/// What came of planning: name and JSON of every pass's plan, training first; or the error.
type Outcome = Result<Arc<Vec<(String, String)>>, Arc<routepack::PlanError>>;

/// A plan being made.
#[pyclass(frozen, module = "routepack._native")]
pub(crate) struct Planning {
    work: Work<Outcome>,
    progress: Arc<Mutex<(String, f64)>>,
}

/// Starts planning and returns at once. `job` is JSON; `resident` is `[layers][slots]`, the expert in every slot;
/// `peers` is rank, number of processes, and the function through which they exchange.
#[pyfunction]
#[pyo3(signature = (batch, job, resident=None, deadline_ms=None, threads=None, strict=true, peers=None))]
pub(crate) fn start(
    batch: &NativeBatch,
    job: &str,
    resident: Option<Vec<Vec<u32>>>,
    deadline_ms: Option<u64>,
    threads: Option<usize>,
    strict: bool,
    peers: Option<PeerProcesses>,
) -> PyResult<Planning> {
    let begun = Instant::now();
    let mut job: Job =
        serde_json::from_str(job).map_err(|error| JobError::new_err(format!("job: {error}")))?;
    job.deadline_ms = deadline_ms.or(job.deadline_ms);
    if let Some(phys2log) = resident {
        job.place.resident = Some(placement(&phys2log, job.topology.ep as usize)?);
    }
    let digest = batch.digest.clone();
    let batch = Arc::clone(&batch.batch);
    let progress = Arc::new(Mutex::new((String::new(), 0.0)));
    let said = Arc::clone(&progress);
    let work = Work::start(threads, move |cancel| {
        let observe = |progress: &routepack::Progress| {
            let (step, steps) = progress.step;
            let text = format!("{} {step}/{steps}: {}", progress.stage.name(), progress.message);
            *said.lock().unwrap_or_else(PoisonError::into_inner) = (text, progress.fraction);
        };
        let left = job.deadline_ms.map(|limit| Duration::from_millis(limit).saturating_sub(begun.elapsed()));
        let control = || {
            let control = Control::new().cancelled_by(cancel).observed_by(|progress| observe(progress));
            let control = match &peers {
                Some(peers) => control.among(peers),
                None => control,
            };
            match left {
                Some(left) => control.within(left),
                None => control,
            }
        };
        Ok(as_json(make(&batch, &job, strict, digest, &control)?))
    })?;
    Ok(Planning { work, progress })
}

/// Plans of all passes; without routes where the recorded ones are wrong and that is not to be refused. `digest` is the
/// batch's, if it is at hand.
fn make<'c>(
    batch: &Arc<Batch>,
    job: &Job,
    strict: bool,
    digest: Option<String>,
    control: &dyn Fn() -> Control<'c>,
) -> Result<Vec<(String, Plan)>, routepack::PlanError> {
    let mut known = control();
    if let Some(digest) = digest {
        known = known.knowing_window_sha256(digest);
    }
    match plan_passes(batch, job, &mut known) {
        Err(error) if !strict && batch.expert_counts.is_some() && !error.concerns_job() => {
            let mut made = plan_passes(&Arc::new(without_routes(batch)), job, &mut control())?;
            for (_, plan) in &mut made {
                plan.status = Status::Fallback(format!("planned without routes: {error}"));
            }
            sign(&mut made);
            Ok(made)
        }
        made => made,
    }
}

fn as_json(plans: Vec<(String, Plan)>) -> Arc<Vec<(String, String)>> {
    Arc::new(plans.into_iter().map(|(pass, plan)| (pass, formats::plan_json(&plan))).collect())
}

/// The samples without what was recorded of their routes: only attention is charged.
fn without_routes(batch: &Batch) -> Batch {
    Batch { expert_counts: None, routed_rows: None, ..batch.clone() }
}

/// Slots of every expert from the expert in every slot.
fn placement(phys2log: &[Vec<u32>], ranks: usize) -> PyResult<Placement> {
    let mut slots = Vec::with_capacity(phys2log.len());
    for (layer, experts) in phys2log.iter().enumerate() {
        let mut of_layer = vec![u32::MAX; experts.len()];
        for (slot, &expert) in experts.iter().enumerate() {
            match of_layer.get_mut(expert as usize) {
                Some(held) if *held == u32::MAX => *held = slot as u32,
                _ => {
                    let why = format!(
                        "resident: layer {layer}, slot {slot}: expert {expert} twice or out of range"
                    );
                    return Err(JobError::new_err(why));
                }
            }
        }
        slots.push(of_layer);
    }
    Placement::new(ranks, slots).map_err(|error| JobError::new_err(format!("resident: {error}")))
}

#[pymethods]
impl Planning {
    /// Waits for the plans: name and JSON of every pass, training first.
    #[pyo3(signature = (timeout=None))]
    fn result(&self, py: Python<'_>, timeout: Option<f64>) -> PyResult<Vec<(String, String)>> {
        let timeout =
            timeout.map(|seconds| Duration::try_from_secs_f64(seconds.clamp(0.0, 1e9)).unwrap_or_default());
        match self.work.wait(py, timeout)? {
            None => Err(pyo3::exceptions::PyTimeoutError::new_err("the plan is not finished")),
            Some(Ok(plans)) => Ok(plans.to_vec()),
            Some(Err(error)) => Err(of_plan(&error)),
        }
    }

    /// Whether the plan is there.
    fn done(&self) -> PyResult<bool> {
        self.work.is_done()
    }

    /// Ends planning with the best plan so far.
    fn cancel(&self) {
        self.work.cancel();
    }

    /// What is being done, and which share of it.
    fn progress(&self) -> PyResult<(String, f64)> {
        self.work.is_here()?;
        Ok(self.progress.lock().unwrap_or_else(PoisonError::into_inner).clone())
    }
}

/// Recomputes everything a plan claims; the claims as text.
#[pyfunction]
pub(crate) fn verify_plan(
    py: Python<'_>,
    plan: &str,
    batch: &NativeBatch,
) -> PyResult<Vec<(String, String)>> {
    let plan: Plan = formats::parse_plan(plan.as_bytes(), "plan").map_err(|error| of_format(&error))?;
    let batch = planned_on(&plan, batch);
    let verified = run(py, None, move |_| {
        routepack::verify(&plan, &batch)
            .map(|verified| {
                let claims = verified.claims.iter().map(|claim| (claim.what.clone(), claim.value.clone()));
                Arc::new(claims.collect::<Vec<_>>())
            })
            .map_err(|error| error.to_string())
    })?;
    verified.map(|claims| claims.to_vec()).map_err(VerifyError::new_err)
}

/// A verified plan as a page.
#[pyfunction]
pub(crate) fn report_html(py: Python<'_>, plan: &str, batch: &NativeBatch) -> PyResult<String> {
    let plan: Plan = formats::parse_plan(plan.as_bytes(), "plan").map_err(|error| of_format(&error))?;
    let batch = planned_on(&plan, batch);
    let page = run(py, None, move |_| {
        routepack::html_report(&plan, &batch, &routepack::Beside::default())
            .map(|report| Arc::new(report.html))
            .map_err(|error| error.to_string())
    })?;
    page.map(|page| page.to_string()).map_err(VerifyError::new_err)
}

/// The plans of all passes without some samples: names and JSON, training first.
#[pyfunction]
pub(crate) fn filter_plans(
    py: Python<'_>,
    plans: Vec<(String, String)>,
    batch: &NativeBatch,
    samples: Vec<u32>,
    dummy_length: u32,
) -> PyResult<Vec<(String, String)>> {
    let mut parsed = Vec::with_capacity(plans.len());
    for (pass, json) in plans {
        parsed.push((pass, formats::parse_plan(json.as_bytes(), "plan").map_err(|error| of_format(&error))?));
    }
    let Some((_, train)) = parsed.first() else { return Ok(Vec::new()) };
    let digest = if is_without_routes(train, &batch.batch) {
        None
    } else {
        // Counts are hashed once, when the batch is made.
        Some(batch.digest.clone().map_or_else(|| batch.sha256(py), Ok)?)
    };
    if digest.as_ref().is_some_and(|digest| *digest != train.window_sha256) {
        return Err(WindowError::new_err("batch: another one than that of this plan"));
    }
    let batch = planned_on(train, batch);
    let filtered: Outcome = run(py, None, move |_| {
        let filtered: Result<Vec<_>, _> = parsed
            .into_iter()
            .map(|(pass, plan)| Ok((pass, filter(&plan, &batch, &samples, dummy_length, digest.clone())?)))
            .collect();
        let mut filtered = filtered.map_err(Arc::new)?;
        sign(&mut filtered);
        Ok(as_json(filtered))
    })?;
    filtered.map(|plans| plans.to_vec()).map_err(|error| of_plan(&error))
}

/// The samples a plan was made of: without their routes, where it fell back to that.
fn planned_on(plan: &Plan, batch: &NativeBatch) -> Arc<Batch> {
    if is_without_routes(plan, &batch.batch) {
        return Arc::new(without_routes(&batch.batch));
    }
    Arc::clone(&batch.batch)
}

/// Whether a plan fell back to leaving the routes of its samples away.
fn is_without_routes(plan: &Plan, batch: &Batch) -> bool {
    let fallback = matches!(plan.status, Status::Fallback(_));
    fallback && plan.placement.is_none() && batch.expert_counts.is_some()
}

/// A job file as JSON.
#[pyfunction]
pub(crate) fn job_from_toml(path: PathBuf) -> PyResult<String> {
    let job: Job = formats::read_toml(&path).map_err(|error| of_format(&error))?;
    serde_json::to_string(&job).map_err(|error| RoutePackError::new_err(error.to_string()))
}

/// The JSON Schema of a job.
#[pyfunction]
pub(crate) fn job_schema() -> PyResult<String> {
    let schema = formats::schema_of::<Job>();
    serde_json::to_string(&schema).map_err(|error| RoutePackError::new_err(error.to_string()))
}

/// One pass in the shape of a framework's scheduler, as JSON.
#[pyfunction]
pub(crate) fn export_plan(plan: &str, framework: &str) -> PyResult<String> {
    let framework: Framework =
        framework.parse().map_err(|error| JobError::new_err(format!("to = {error}")))?;
    let plan: Plan = formats::parse_plan(plan.as_bytes(), "plan").map_err(|error| of_format(&error))?;
    check_alone(&plan).map_err(|error| VerifyError::new_err(error.to_string()))?;
    Ok(routepack::export(&plan, framework))
}

/// The text of a plan file, checked for its form and digest, and the names of the passes beside it.
#[pyfunction]
pub(crate) fn read_plan(path: PathBuf) -> PyResult<(String, Vec<String>)> {
    let plan = formats::read_plan(&path).map_err(|error| of_format(&error))?;
    let names = check_alone(&plan).and_then(|()| pass_names(&plan));
    let names = names.map_err(|error| VerifyError::new_err(format!("{}: {error}", path.display())))?;
    Ok((formats::plan_json(&plan), names))
}

/// Writes files, each whole or not at all; none if one of them cannot be written.
#[pyfunction]
pub(crate) fn write_texts(files: Vec<(PathBuf, String)>) -> PyResult<()> {
    let checked = files.iter().try_for_each(|(path, _)| formats::check_writable(path));
    let write = |(path, text): &(PathBuf, String)| formats::write_atomically(path, text.as_bytes());
    checked.and_then(|()| files.iter().try_for_each(write)).map_err(|error| of_format(&error))
}
