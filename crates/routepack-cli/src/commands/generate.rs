//! `routepack generate`: realistic windows and bin-packing instances.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use routepack::formats::{self, LengthsForm};
use routepack::generate::{
    BinsRecipe, Cut, GenerateError, Preset, Trace, WindowRecipe, bins, describe, window,
};
use routepack::problem::counted;
use routepack::{Batch, Job};
use serde_json::{Map, Value, json};

use super::outputs::{Named, check_json, check_outputs, given, speaks};
use super::{FormArguments, is_stdout, write_window};
use crate::exit::Failure;
use crate::output::{print, print_json};

/// Arguments of `routepack generate`.
#[derive(Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// A window from a recipe, with its job.
    Window(WindowArguments),
    /// A window cut from a recorded trace of routes by a file of lengths.
    Cut(CutArguments),
    /// A bin-packing instance of a known family.
    Bins(BinsArguments),
}

/// Arguments of `routepack generate window`.
#[derive(Args)]
#[command(after_help = window_help())]
struct WindowArguments {
    /// Named recipe.
    #[arg(long)]
    preset: Option<Preset>,
    /// Recipe file (TOML), instead of a preset.
    #[arg(long, conflicts_with = "preset")]
    recipe: Option<PathBuf>,
    /// Change one field, `name=value` with dots for tables, such as `routing.layers=4`; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// Window file to write: .npz or .json (`-` for standard output).
    #[arg(short, long)]
    output: PathBuf,
    /// Job file to write (TOML).
    #[arg(long)]
    job_output: Option<PathBuf>,
    /// Seed of every random stream.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print statistics as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `routepack generate cut`.
#[derive(Args)]
#[command(after_help = "\
Example:
  routepack generate cut --routes trace.npz --experts 64 \\
    --lengths rollouts.tsv --column prompt_tokens+response_tokens --samples 512 --json -o window.npz

Exit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file.")]
struct CutArguments {
    /// Recorded routes: .npz with an array `routed_experts` [tokens, layers, top_k].
    #[arg(long, required = true)]
    routes: Vec<PathBuf>,
    /// Experts per layer.
    #[arg(long)]
    experts: usize,
    /// Lengths of the samples: one a line unless --form or --column says otherwise (`-` for standard input).
    #[arg(long)]
    lengths: PathBuf,
    #[command(flatten)]
    form: FormArguments,
    /// Samples; all lengths by default.
    #[arg(long)]
    samples: Option<usize>,
    /// Tokens at the end of each sample whose routes are not counted, 0 or 1.
    #[arg(long, default_value_t = 0)]
    unrouted: u32,
    /// Window file to write: .npz or .json (`-` for standard output).
    #[arg(short, long)]
    output: PathBuf,
    /// Print statistics as JSON.
    #[arg(long)]
    json: bool,
}

/// Arguments of `routepack generate bins`.
#[derive(Args)]
#[command(after_help = bins_help())]
struct BinsArguments {
    /// Family of instances.
    #[arg(long)]
    family: String,
    /// Change one field, `name=value`; may be repeated.
    #[arg(long = "set", value_name = "NAME=VALUE")]
    changes: Vec<String>,
    /// File to write: n, capacity, then n sizes (`-` for standard output).
    #[arg(short, long)]
    output: PathBuf,
    /// Seed of every random stream.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Print facts as JSON; with `-o -` the sizes too.
    #[arg(long)]
    json: bool,
}

fn window_help() -> String {
    let presets = Preset::ALL.map(|preset| format!("  {:<13} {}", preset.name(), preset.summary()));
    format!(
        "Presets:\n{}\n\nExamples:\n  routepack generate window --preset tiny -o tiny.npz --job-output tiny.toml\n  \
         routepack generate window --preset mixed --set prompts=256 --seed 3 -o mixed.npz\n  \
         routepack generate window --preset tiny --set routing.layers=4 --json -o tiny.npz\n  \
         routepack generate window --recipe recipe.toml -o window.npz\n\nExit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file.",
        presets.join("\n")
    )
}

fn bins_help() -> String {
    let families: Vec<String> =
        BinsRecipe::names().iter().map(|(name, about)| format!("  {name:<13} {about}")).collect();
    format!(
        "Families:\n{}\n\nExamples:\n  routepack generate bins --family knife-edge --set slots=16 -o edge.txt\n  \
         routepack rows edge.txt --form bins --dp 16\n  \
         routepack generate bins --family falkenauer-u --set items=500 --seed 3 -o - --json | jq .volume_bound\n\nExit codes: 0 done; 2 wrong usage; 3 bad input; 4 a file.",
        families.join("\n")
    )
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    match &arguments.what {
        What::Window(arguments) => run_window(arguments),
        What::Cut(arguments) => run_cut(arguments),
        What::Bins(arguments) => run_bins(arguments),
    }
}

fn run_window(arguments: &WindowArguments) -> Result<(), Failure> {
    let mut outputs = vec![("--output", arguments.output.as_path())];
    outputs.extend(given(&[("--job-output", &arguments.job_output)]));
    check_outputs(&given(&[("--recipe", &arguments.recipe)]), &outputs)?;
    check_json(arguments.json, &outputs[1..])?;
    let recipe: WindowRecipe = match (&arguments.recipe, arguments.preset) {
        (Some(path), _) => formats::read_toml(path)?,
        (None, preset) => preset.unwrap_or(Preset::Tiny).recipe(),
    };
    let recipe = recipe.amended(&parse_changes(&arguments.changes)?)?;
    let generated = window(&recipe, arguments.seed)?;
    write_window(&arguments.output, &generated.batch)?;
    if let Some(path) = &arguments.job_output {
        formats::write_toml(path, &Job::new(generated.setting))?;
    }
    say(&generated.batch, arguments.json, &outputs)
}

fn run_cut(arguments: &CutArguments) -> Result<(), Failure> {
    let mut inputs = vec![("--lengths", arguments.lengths.as_path())];
    inputs.extend(arguments.routes.iter().map(|path| ("--routes", path.as_path())));
    check_outputs(&inputs, &[("--output", &arguments.output)])?;
    let place = arguments.lengths.display();
    let form = arguments.form.asked()?.unwrap_or(LengthsForm::Lines);
    let lengths = formats::read_lengths(&arguments.lengths, &form)?.sizes;
    let samples = arguments.samples.unwrap_or(lengths.len());
    if samples > lengths.len() {
        return Err(Failure::input(
            place,
            format!("--samples {samples}: the file has {} lengths", lengths.len()),
        ));
    }
    let lengths: Vec<u32> = lengths[..samples]
        .iter()
        .enumerate()
        .map(|(sample, &length)| {
            u32::try_from(length).map_err(|_| {
                Failure::input(&place, format!("length {length} of sample {sample} is not below 2^32"))
            })
        })
        .collect::<Result<_, _>>()?;
    let mut values = Vec::new();
    let (mut layers, mut top_k) = (0, 0);
    for path in &arguments.routes {
        let routes = formats::read_routes(path)?;
        if !values.is_empty() && (layers, top_k) != (routes.layers, routes.top_k) {
            return Err(Failure::input(
                path.display(),
                format!(
                    "[layers, top_k] = [{}, {}], the first file has [{layers}, {top_k}]",
                    routes.layers, routes.top_k
                ),
            ));
        }
        (layers, top_k) = (routes.layers, routes.top_k);
        values.extend(routes.experts);
    }
    let trace = Trace::new(&values, layers, top_k, arguments.experts)?;
    let batch = trace.cut(&lengths, Cut { first_token: 0, unrouted_tokens: arguments.unrouted })?;
    write_window(&arguments.output, &batch)?;
    say(&batch, arguments.json, &[("--output", &arguments.output)])
}

fn run_bins(arguments: &BinsArguments) -> Result<(), Failure> {
    check_outputs(&[], &[("--output", &arguments.output)])?;
    let recipe = BinsRecipe::named(&arguments.family)?.amended(&parse_changes(&arguments.changes)?)?;
    let made = bins(&recipe, arguments.seed)?;
    let to_stdout = is_stdout(&arguments.output);
    if !(to_stdout && arguments.json) {
        formats::write_lengths(
            &arguments.output,
            &[&[made.sizes.len() as u64, made.capacity], &made.sizes[..]].concat(),
        )?;
    }
    if arguments.json {
        let total: u128 = made.sizes.iter().map(|&size| u128::from(size)).sum();
        let mut facts = json!({
            "items": made.sizes.len(),
            "capacity": made.capacity,
            "volume_bound": total.div_ceil(u128::from(made.capacity)) as u64,
            "optimum": made.optimum,
        });
        if to_stdout {
            facts["sizes"] = json!(made.sizes);
        }
        print_json(&facts)?;
    }
    Ok(())
}

/// What was made, after the first of the outputs.
fn say(batch: &Batch, json: bool, outputs: &[Named<'_>]) -> Result<(), Failure> {
    if !speaks(outputs) {
        return Ok(());
    }
    if json {
        return print_json(&describe(batch));
    }
    let tokens: u64 = batch.lengths.iter().map(|&length| u64::from(length)).sum();
    print(&format!(
        "{}: {}, {}, {}",
        outputs[0].1.display(),
        counted(batch.num_samples() as u64, "sample"),
        counted(tokens, "token"),
        counted(batch.num_layers() as u64, "layer")
    ))
}

/// `a.b=1` and the like as tables within tables; a value that is no JSON is taken as text.
fn parse_changes(changes: &[String]) -> Result<Value, Failure> {
    let mut root = Map::new();
    for change in changes {
        let (name, value) = change
            .split_once('=')
            .ok_or_else(|| Failure::Input(format!("--set {change}: expected name=value")))?;
        let value = serde_json::from_str(value).unwrap_or_else(|_| Value::String(value.to_owned()));
        if name.split('.').count() > 16 {
            return Err(Failure::Input(format!(
                "--set {}…: tables within tables",
                name.chars().take(40).collect::<String>()
            )));
        }
        let (tables, field) =
            name.rsplit_once('.').map_or((None, name), |(tables, field)| (Some(tables), field));
        let mut table = &mut root;
        for name in tables.into_iter().flat_map(|tables| tables.split('.')) {
            table =
                table.entry(name).or_insert_with(|| Value::Object(Map::new())).as_object_mut().ok_or_else(
                    || Failure::Input(format!("--set {change}: `{name}` is set to a value already")),
                )?;
        }
        table.insert(field.to_owned(), value);
    }
    Ok(Value::Object(root))
}

impl From<GenerateError> for Failure {
    fn from(error: GenerateError) -> Self {
        Self::Input(error.to_string())
    }
}
