//! Layouts of trainers' packing rules beside ours: the same windows, the same placement for every arm, one run.
//!
//! The placement is the one made for the load of the whole window, before any layout. The last arm is ours with the
//! placement that it makes for its own layout, which no packing rule can do. Over each window: every rule of
//! [`PEERS`], *routepack* under the same placement, *routepack+* under its own. A window costs two plans. The order of rows
//! is free and the score does not see it: a rule's rows stand as it hands them over, ours as a plan on the machine has them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use routepack::baselines::PEERS;
use routepack::simulation::{Cluster, Machine, Model, SimulateOptions};
use routepack::verification::Verified;
use routepack::{Aim, Batch, Instance, Job, Layout, Placement};

use crate::BenchError;
use crate::measured::{ArmFigures, measure, step_time};
use crate::paper::plan_and_verify;

/// A window, its job, and its name in the table.
pub struct LayoutWindow {
    /// Name.
    pub name: String,
    /// What is packed.
    pub batch: Arc<Batch>,
    /// How.
    pub job: Job,
}

/// A comparison of layouts.
pub struct LayoutsBench {
    /// The windows.
    pub windows: Vec<LayoutWindow>,
    /// Models; a window is simulated on the first whose layers, experts and top-k it has, or not at all.
    pub models: Vec<Model>,
    /// The cluster.
    pub cluster: Cluster,
    /// How the trainer runs a step.
    pub options: SimulateOptions,
    /// Seconds between the end of the rollouts and the step that other work fills; planning up to them costs nothing.
    pub overlap_seconds: f64,
}

/// An arm on a window.
#[derive(Clone, Debug, PartialEq)]
pub struct LayoutArm {
    /// Name.
    pub name: &'static str,
    /// Its figures; why there is no layout otherwise.
    pub figures: Result<ArmFigures, String>,
    /// Simulated seconds of the step, planning left out; `None` where no model fits the window.
    pub step_seconds: Option<f64>,
    /// Seconds by the clock to plan or pack.
    pub planning_seconds: f64,
    /// Of these, those that nothing overlaps.
    pub net_planning_seconds: f64,
}

/// All arms on a window.
#[derive(Clone, Debug, PartialEq)]
pub struct WindowArms {
    /// Name of the window.
    pub window: String,
    /// The model it was simulated on.
    pub model: Option<String>,
    /// Raw tokens.
    pub tokens: u64,
    /// The rules, then ours under the same placement, then ours under its own.
    pub arms: Vec<LayoutArm>,
}

/// Compares the layouts of window after window; once `stop` is set, those of finished windows are all there is.
///
/// # Errors
/// A window cannot be planned.
pub fn bench_layouts(
    bench: &LayoutsBench,
    stop: &AtomicBool,
    observe: &mut dyn FnMut(&WindowArms),
) -> Result<Vec<WindowArms>, BenchError> {
    let mut done = Vec::new();
    for window in &bench.windows {
        let arms = compare(bench, window, stop)?;
        if stop.load(Ordering::Relaxed) {
            break;
        }
        observe(&arms);
        done.push(arms);
    }
    Ok(done)
}

fn compare(bench: &LayoutsBench, window: &LayoutWindow, stop: &AtomicBool) -> Result<WindowArms, BenchError> {
    let failed = |why: String| BenchError::Window { window: window.name.clone(), of_job: false, why };
    let counts = window.batch.expert_counts.as_ref();
    let (layers, experts) = counts.map_or((0, 0), |counts| (counts.layers(), counts.experts()));
    let fits = |model: &&Model| {
        (layers, experts) == (model.moe_layers as usize, model.experts as usize)
            && window.job.routing.top_k == model.top_k
    };
    let model = bench.models.iter().find(fits);
    let mut own = window.job.clone();
    // Where the job names no machine, rows stand in the order that is faster on this one.
    own.machine = own.machine.or_else(|| {
        let (cluster, options) = (bench.cluster.clone(), bench.options.clone());
        Some(Machine { model: model?.clone(), cluster, options })
    });
    let mut shared = own.clone();
    shared.refine.placement = Aim::Aggregate;
    let planned = |job: &Job| {
        plan_and_verify(&window.batch, job, stop).map_err(|error| BenchError::Window {
            window: window.name.clone(),
            of_job: error.concerns_job(),
            why: error.to_string(),
        })
    };
    let (ours, seconds) = planned(&shared)?;
    let (refined, refined_seconds) = planned(&own)?;
    let instances = &ours.instances[..];
    let placement = placement_of(&ours).map_err(failed)?;
    let own_placement = placement_of(&refined).map_err(failed)?;
    let arm = |name: &'static str,
               (instances, placement): (&[Instance], &Placement),
               layouts: Result<Vec<Layout>, String>,
               planning_seconds: f64| {
        let time = |layouts: &Vec<Layout>| {
            let time = step_time(instances, placement, layouts, (model?, &bench.cluster, &bench.options));
            Some(time.map(|time| time.seconds))
        };
        let step_seconds = layouts.as_ref().ok().and_then(time).transpose();
        let step_seconds = step_seconds.map_err(|error| failed(error.to_string()))?;
        Ok::<_, BenchError>(LayoutArm {
            name,
            figures: layouts.map(|layouts| measure(instances, placement, &layouts)),
            step_seconds,
            planning_seconds,
            net_planning_seconds: (planning_seconds - bench.overlap_seconds).max(0.0),
        })
    };
    let mut arms = Vec::new();
    for peer in PEERS {
        let clock = Instant::now();
        let layouts = instances.iter().zip(&ours.layouts).map(|(instance, ours)| {
            let packed =
                (peer.pack)(instance, &placement, ours.num_rows()).map_err(|error| error.to_string())?;
            Ok(packed.layout)
        });
        let layouts = layouts.collect();
        arms.push(arm(peer.name, (instances, &placement), layouts, clock.elapsed().as_secs_f64())?);
    }
    arms.push(arm("routepack", (instances, &placement), Ok(ours.layouts.clone()), seconds)?);
    // Where rows are searched it may have others, and other dummies to fill them.
    let own = (&refined.instances[..], &own_placement);
    arms.push(arm("routepack+", own, Ok(refined.layouts.clone()), refined_seconds)?);
    Ok(WindowArms {
        window: window.name.clone(),
        model: model.map(|model| model.name.clone()),
        tokens: ours.figures.iter().map(|figures| figures.tokens.raw).sum(),
        arms,
    })
}

/// The placement of a plan; of no layers without recorded routes.
fn placement_of(verified: &Verified) -> Result<Placement, String> {
    match &verified.placement {
        Some(placement) => Ok(placement.clone()),
        None => Placement::new(Instance::topology(&verified.instances[0]).num_ranks(), Vec::new())
            .map_err(|error| error.to_string()),
    }
}

impl WindowArms {
    /// Where a rule beats the arm `ours`, *routepack* or *routepack+*: quantity, rule, its value, ours. Less is better in
    /// all.
    pub fn better_peers(&self, ours: &str) -> Vec<(&'static str, &'static str, f64, f64)> {
        type Quantity = (&'static str, fn(&LayoutArm) -> Option<f64>);
        let quantities: [Quantity; 7] = [
            ("rows", |arm| Some(arm.figures.as_ref().ok()?.rows as f64)),
            ("attention", |arm| Some(arm.figures.as_ref().ok()?.attention_cost)),
            ("peak sum", |arm| Some(arm.figures.as_ref().ok()?.peak_sum? as f64)),
            ("worst peak", |arm| Some(arm.figures.as_ref().ok()?.worst_peak? as f64)),
            ("joint score", |arm| Some(arm.figures.as_ref().ok()?.joint_score)),
            ("step seconds", |arm| arm.step_seconds),
            ("planning seconds", |arm| Some(arm.net_planning_seconds)),
        ];
        let Some(ours) = self.arms.iter().find(|arm| arm.name == ours) else { return Vec::new() };
        let mut found = Vec::new();
        for (what, value) in quantities {
            let Some(own) = value(ours) else { continue };
            let peers =
                self.arms.iter().filter(|arm| !arm.name.starts_with("routepack") && arm.figures.is_ok());
            let better = peers.filter_map(|arm| Some((what, arm.name, value(arm)?, own)));
            found.extend(better.filter(|(.., theirs, own)| theirs < own));
        }
        found
    }
}
