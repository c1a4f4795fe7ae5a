//! `routepack simulate`: step time of a plan and of its reference arms on a described model and cluster.

use std::path::PathBuf;

use routepack::formats;
use routepack::problem::{counted, four_places};
use routepack::simulation::{Cluster, Machine, Model, SimulateError, SimulateOptions, StepTime};
use routepack::{
    Placement, Plan, RowsPoint, Simulated, SimulatedArm, SimulatedError, placement_in_words, rows_curve,
    simulate_plan,
};
use routepack_bench::Sample;

use super::machine::{RunArguments, check_given, cluster_file, model_file, read_cluster, read_model};
use super::outputs::{check_json, check_outputs, given, speaks};
use super::rows_table::rows_table;
use super::{read_window, refused};
use crate::exit::Failure;
use crate::interrupt::Deadline;
use crate::output::{print, print_json};
use crate::table::{self, write_csv};

/// Arguments of `routepack simulate`.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  routepack simulate plan.json --window window.npz --model ling-3.0-tiny-like --cluster h20
  routepack simulate plan.json --window window.npz        # on the machine of the plan's own job
  routepack simulate plan.json --window window.npz --model config.json --cluster my-cluster.toml --recompute
  routepack simulate plan.json --window window.npz --model qwen3-30b-a3b --cluster h200 --extra-rows 8
  routepack simulate plan.json --window window.npz --model qwen3-30b-a3b --cluster h200 --json | jq '.arms[].seconds'

Models and clusters are presets, TOML files of the same form, or (models) the config.json a model is published with.
Presets and what each figure is taken from: crates/routepack-simulate/presets. Where the job of the plan has a [machine], its
model, cluster and options stand for those not given here.

Rules are those of `routepack report`; each has the placement and the rows, of those that report tries, that take it the least
time here. The table says which.

Ctrl-C while rows are arranged: the numbers of rows that are done, exit code 0.

Exit codes: 0 done; 1 the plan does not verify; 2 wrong usage; 3 bad input; 4 a file.")]
pub(crate) struct Arguments {
    /// Plan file (`-` for standard input).
    plan: PathBuf,
    /// The window it was made from.
    #[arg(long)]
    window: PathBuf,
    /// Model: the name of a preset, a TOML file, or a config.json; the plan's own by default.
    #[arg(long, value_name = "NAME|FILE")]
    model: Option<String>,
    /// Cluster: the name of a preset, or a TOML file; the plan's own by default.
    #[arg(long, value_name = "NAME|FILE")]
    cluster: Option<String>,
    #[command(flatten)]
    run: RunArguments,
    /// Charge moving the experts from the plan's resident placement; from expert e in slot e where it names none.
    #[arg(long)]
    charge_moves: bool,
    /// Seconds of planning that rollouts do not hide, 0 to 10^6; charged to every arm. None by default.
    #[arg(long, allow_negative_numbers = true)]
    planning_seconds: Option<f64>,
    /// Also arrange up to this many rows more than the plan has, under its placement, and say what that is worth.
    #[arg(long, value_name = "ROWS", value_parser = clap::value_parser!(u32).range(1..=1024))]
    extra_rows: Option<u32>,
    /// Table to write of step time by rows (CSV), for `routepack report --rows-curve`.
    #[arg(long, value_name = "FILE", requires = "extra_rows")]
    rows_curve: Option<PathBuf>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut inputs = vec![("PLAN", arguments.plan.as_path()), ("--window", &arguments.window)];
    inputs.extend(arguments.model.as_deref().and_then(model_file));
    inputs.extend(arguments.cluster.as_deref().and_then(cluster_file));
    let outputs = given(&[("--rows-curve", &arguments.rows_curve)]);
    check_outputs(&inputs, &outputs)?;
    check_json(arguments.json, &outputs)?;
    let model = arguments.model.as_deref().map(read_model).transpose()?;
    let cluster = arguments.cluster.as_deref().map(read_cluster).transpose()?;
    let plan = formats::read_plan(&arguments.plan)?;
    let machine = machine(arguments, &plan, model, cluster)?;
    let Machine { model, cluster, options } = &machine;
    let batch = read_window(&arguments.window)?;
    let resident = match &plan.placement {
        Some(placement) if arguments.charge_moves => {
            let (layers, ranks) = (placement.log2phys.len(), placement.num_ranks as usize);
            let experts = placement.log2phys.first().map_or(0, Vec::len);
            let resident = match &placement.resident {
                Some(resident) => Placement::new(ranks, resident.log2phys.clone()),
                None => Placement::identity(layers, experts, ranks),
            };
            Some(resident.map_err(|error| Failure::input(arguments.plan.display(), error))?)
        }
        _ => None,
    };
    let simulated = simulate_plan(&plan, &batch, resident.as_ref(), model, cluster, options);
    let simulated = match simulated {
        Ok(simulated) => simulated,
        Err(SimulatedError::Verify(error)) => {
            return refused(&arguments.plan, &arguments.window, &error, arguments.json);
        }
        Err(error) => return Err(blamed(arguments, error)),
    };
    let Some(extra_rows) = arguments.extra_rows else {
        return if arguments.json {
            print_json(&simulated)
        } else {
            print(&in_words(&simulated, &plan, &machine))
        };
    };
    let stop = Deadline::after(None).stop();
    let curve = rows_curve(&plan, &batch, extra_rows, (model, cluster, options), &stop)
        .map_err(|error| blamed(arguments, error))?;
    if let Some(path) = &arguments.rows_curve {
        let line = |point: &RowsPoint| curve_line(point, &machine.in_words(), &plan.sha256);
        write_csv(path, &CURVE_HEADER, &curve.iter().map(line).collect::<Vec<_>>())?;
    }
    if !speaks(&outputs) {
        return Ok(());
    }
    if arguments.json {
        return print_json(&serde_json::json!({ "simulated": simulated, "rows_curve": curve }));
    }
    let own = curve.first().map_or(0, |point| point.rows);
    let table = rows_table(&curve, own);
    print(&format!("{}\n\nstep time by rows, simulated:\n{table}", in_words(&simulated, &plan, &machine)))
}

/// What the step runs on: as asked, else as the plan's own machine.
fn machine(
    arguments: &Arguments,
    plan: &Plan,
    model: Option<Model>,
    cluster: Option<Cluster>,
) -> Result<Machine, Failure> {
    let own = plan.machine.as_ref();
    let missing = |name: &str| {
        let message = format!("{name} is missing, and the plan's job had no [machine]");
        Failure::input(arguments.plan.display(), message)
    };
    let model = model.or_else(|| own.map(|own| own.model.clone())).ok_or_else(|| missing("--model"))?;
    let cluster =
        cluster.or_else(|| own.map(|own| own.cluster.clone())).ok_or_else(|| missing("--cluster"))?;
    let usual = own.map_or_else(SimulateOptions::default, |own| own.options.clone());
    let over = |usual: SimulateOptions| SimulateOptions {
        planning_seconds: arguments.planning_seconds.unwrap_or(usual.planning_seconds),
        ..arguments.run.over(usual)
    };
    check_given(&over(SimulateOptions::default()))?;
    let options = over(usual);
    // What is left is the plan's.
    options.check().map_err(|error| Failure::input(arguments.plan.display(), format!("machine.{error}")))?;
    Ok(Machine { model, cluster, options })
}

/// A failure with what is at fault in front: the model that was named, or the plan whose own it is.
fn blamed(arguments: &Arguments, error: SimulatedError) -> Failure {
    let (plan, window) = (arguments.plan.display(), arguments.window.display());
    let model = || match &arguments.model {
        Some(name) => format!("--model {name}"),
        None => format!("{plan}: machine"),
    };
    match error {
        SimulatedError::NoRoutes => Failure::input(window, error),
        SimulatedError::Simulate(SimulateError::OtherModel { model: name, what, found, expected }) => {
            let (has, expects) = (counted(expected as u64, what), counted(found as u64, what));
            Failure::input(model(), format!("model {name} has {has}: expected {expects}, as {window} has"))
        }
        SimulatedError::Simulate(SimulateError::Stages { .. }) => Failure::input(model(), error),
        other => Failure::input(plan, other),
    }
}

const CURVE_HEADER: [&str; 7] =
    ["rows", "seconds", "tokens_per_second", "bubble", "joint_score", "machine", "plan_sha256"];

fn curve_line(point: &RowsPoint, machine: &str, plan_sha256: &str) -> Vec<String> {
    let RowsPoint { rows, seconds, tokens_per_second, bubble, joint_score } = point;
    std::iter::once(rows.to_string())
        .chain([seconds, tokens_per_second, bubble, joint_score].map(f64::to_string))
        .chain([machine.to_owned(), plan_sha256.to_owned()])
        .collect()
}

fn in_words(simulated: &Simulated, plan: &Plan, machine: &Machine) -> String {
    let Simulated { plan_sha256, arms, without, leaves_out, .. } = simulated;
    let header: Vec<&str> = std::iter::once("").chain(arms.iter().map(|arm| arm.name.as_str())).collect();
    let mut lines = vec![format!("plan {plan_sha256}"), format!("{}, simulated", machine.in_words())];
    // Of a single stage with the fewest rows, nothing hangs on the machine.
    let matters = plan.setting.topology.pp > 1 || plan.steps.iter().any(|step| !step.rows_tried.is_empty());
    let other = plan.machine.as_ref().filter(|own| matters && *own != machine);
    lines.extend(other.map(|own| {
        let same = if own.in_words() == machine.in_words() { ", with other options" } else { "" };
        let done =
            if plan.steps.iter().any(|step| !step.rows_tried.is_empty()) { "chosen" } else { "ordered" };
        format!("its rows were {done} on another machine: {}{same}", own.in_words())
    }));
    lines.extend([String::new(), table::render(&header, &rows(arms))]);
    lines.extend(without.iter().map(|(name, why)| format!("{name}: no layout ({why})")));
    if plan.setting.topology.pp > 1 {
        lines.push("shares are those of the slowest shard's busiest stage".to_owned());
    }
    lines.push("left out:".to_owned());
    lines.extend(leaves_out.chunks(3).map(|some| format!("  {}", some.join(", "))));
    lines.join("\n")
}

/// Tokens a second, mean and standard deviation over the steps.
fn mean_and_sd(arm: &SimulatedArm) -> (String, String) {
    let Sample { mean, sd, .. } = Sample::of(&arm.step_tokens_per_second);
    (format!("{mean:.0}"), sd.map_or_else(|| "–".to_owned(), |sd| format!("{sd:.0}")))
}

type Term = (&'static str, fn(&StepTime) -> f64);

const TERMS: [Term; 9] = [
    ("  attention %", |time| time.work.attention),
    ("  dense %", |time| time.work.dense),
    ("  experts %", |time| time.work.expert),
    ("  all-to-all %", |time| time.work.all_to_all),
    ("  pipeline bubble %", |time| time.bubble),
    ("  gradients %", |time| time.gradients),
    ("  optimizer %", |time| time.optimizer),
    ("  expert moves %", |time| time.moves),
    ("  planning %", |time| time.planning),
];

fn rows(arms: &[SimulatedArm]) -> Vec<Vec<String>> {
    let row = |name: &str, figure: &dyn Fn(&SimulatedArm) -> String| -> Vec<String> {
        std::iter::once(name.to_owned()).chain(arms.iter().map(figure)).collect()
    };
    let first = arms.first().map_or(1.0, |arm| arm.tokens_per_second);
    let mut rows = vec![
        row("rows", &|arm| arm.rows.to_string()),
        row("placement", &|arm| placement_in_words(&arm.placement).to_owned()),
        row("seconds", &|arm| four_places(arm.time.seconds)),
        row("tokens/s", &|arm| format!("{:.0}", arm.tokens_per_second)),
        row("against the first %", &|arm| format!("{:+.2}", 100.0 * (arm.tokens_per_second / first - 1.0))),
    ];
    if arms.iter().any(|arm| arm.step_tokens_per_second.len() > 1) {
        rows.push(row("tokens/s, mean of steps", &|arm| mean_and_sd(arm).0));
        rows.push(row("  sd over steps", &|arm| mean_and_sd(arm).1));
    }
    let charged = TERMS.iter().filter(|(_, term)| arms.iter().any(|arm| term(&arm.time) > 0.0));
    rows.extend(
        charged.map(|(name, term)| {
            row(name, &|arm| format!("{:.2}", 100.0 * term(&arm.time) / arm.time.seconds))
        }),
    );
    rows
}
