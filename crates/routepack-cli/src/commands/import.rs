//! `routepack import`: recorded routes of rollout engines and trainers to a window.

use std::path::PathBuf;

use clap::Args;
use clap::builder::PossibleValuesParser;
use clap::builder::TypedValueParser as _;
use routepack::formats::{self, FormatError, LengthsForm};
use routepack::problem::counted;
use routepack_import::{Form, Ids, ImportError, ImportOptions, Imported, Layers, Missing, import};

use super::outputs::{check_outputs, given};
use super::{is_stdout, write_window};
use crate::exit::Failure;
use crate::output::{print, print_json};
use crate::progress::Bar;

/// Arguments of `routepack import`.
#[derive(Args)]
#[command(after_help = "\
Examples:
  routepack import --from vllm --experts 128 rollouts.jsonl -o window.npz
  routepack import --from sglang --experts 256 --num-layers 61 --top-k 8 --layers 3-60 rollouts.jsonl.gz -o window.npz
  routepack import --from verl --experts 128 --layers moe batch.safetensors --missing leave-out -o window.npz")]
pub(crate) struct Arguments {
    /// Routes: lines of JSON (gzipped or not, `-` for standard input), .npz, .npy or safetensors; never a pickle.
    routes: PathBuf,
    /// Who wrote them.
    #[arg(long, value_parser = PossibleValuesParser::new(Form::ALL.map(Form::name)).map(|name| {
        name.parse::<Form>().expect("one of the possible values")
    }))]
    from: Form,
    /// Experts per layer.
    #[arg(long)]
    experts: u32,
    /// Experts chosen per token and layer, where the shape does not tell.
    #[arg(long)]
    top_k: Option<u32>,
    /// Layers on the recorded layer axis, where the shape does not tell.
    #[arg(long)]
    num_layers: Option<u32>,
    /// What the layer axis holds: `moe`, or the `MoE` layers among all layers, ascending from 0, such as `1,3-60`.
    #[arg(long, value_parser = parse_layers)]
    layers: Option<Layers>,
    /// How rows without routes are charged.
    #[arg(long, default_value = "refuse", value_parser = PossibleValuesParser::new(["refuse", "leave-out", "scale-up"]).map(|name| {
        match name.as_str() {
            "leave-out" => Missing::LeaveOut,
            "scale-up" => Missing::ScaleUp,
            _ => Missing::Refuse,
        }
    }))]
    missing: Missing,
    /// The ids are physical slots; the logical expert of every slot, one list a layer, in JSON.
    #[arg(long, value_name = "FILE")]
    phys2log: Option<PathBuf>,
    /// Tokens of every sample, one a line, where the routes do not tell.
    #[arg(long, value_name = "FILE")]
    lengths: Option<PathBuf>,
    /// Window file to write: .npz or .json (`-` for standard output).
    #[arg(short, long)]
    output: PathBuf,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
    /// Print the summary as JSON.
    #[arg(long)]
    json: bool,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let mut inputs = vec![("ROUTES", arguments.routes.as_path())];
    inputs.extend(given(&[("--phys2log", &arguments.phys2log), ("--lengths", &arguments.lengths)]));
    check_outputs(&inputs, &[("--output", &arguments.output)])?;
    let options = options(arguments)?;
    let bar = Bar::new(arguments.quiet);
    let imported = import(&arguments.routes, arguments.from, &options, &|| false, &mut |progress| {
        if progress.samples.is_power_of_two() || progress.samples % 64 == 0 {
            let share = match (progress.bytes, progress.total) {
                (Some(bytes), Some(total)) => format!(", {} of {} MB", bytes / 1_000_000, total / 1_000_000),
                _ => String::new(),
            };
            bar.say("import", format!("{} samples{share}", progress.samples));
        }
    })?;
    drop(bar);
    write_window(&arguments.output, &imported.batch)?;
    match (is_stdout(&arguments.output), arguments.json) {
        (true, _) => Ok(()),
        (false, true) => print_json(&imported.summary),
        (false, false) => print(&describe(arguments, &imported)),
    }
}

fn options(arguments: &Arguments) -> Result<ImportOptions, Failure> {
    let mut options = ImportOptions {
        top_k: arguments.top_k,
        num_layers: arguments.num_layers,
        layers: arguments.layers.clone(),
        missing: arguments.missing,
        ..ImportOptions::new(arguments.experts)
    };
    if let Some(path) = &arguments.phys2log {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::File(format!("{}: cannot read: {error}", path.display())))?;
        let map = serde_json::from_str(&text).map_err(|error| Failure::input(path.display(), error))?;
        options.ids = Ids::Physical(map);
    }
    if let Some(path) = &arguments.lengths {
        let sizes = formats::read_lengths(path, &LengthsForm::Lines)?.sizes;
        let lengths: Result<Vec<u32>, _> = sizes.into_iter().map(u32::try_from).collect();
        options.lengths =
            Some(lengths.map_err(|_| Failure::input(path.display(), "a length is not below 2^32"))?);
    }
    Ok(options)
}

/// `moe`, or positions and ranges of positions.
fn parse_layers(text: &str) -> Result<Layers, String> {
    if text == "moe" {
        return Ok(Layers::Moe);
    }
    let wrong = || format!("`{text}`: expected `moe`, or layers such as `1,3-60`");
    let mut layers = Vec::new();
    for part in text.split(',') {
        let (from, to) = part.split_once('-').unwrap_or((part, part));
        let from: u32 = from.trim().parse().map_err(|_| wrong())?;
        let to: u32 = to.trim().parse().map_err(|_| wrong())?;
        if to < from || to > 1 << 20 || layers.last().is_some_and(|&last| from <= last) {
            return Err(wrong());
        }
        layers.extend(from..=to);
    }
    Ok(Layers::All(layers))
}

fn describe(arguments: &Arguments, imported: &Imported) -> String {
    let summary = &imported.summary;
    let mut lines = vec![
        format!(
            "{}: {}, {}, {}, {}, top_k {}",
            arguments.output.display(),
            counted(summary.samples, "sample"),
            counted(summary.tokens, "token"),
            counted(summary.layers, "MoE layer"),
            counted(summary.experts, "expert"),
            summary.top_k
        ),
        format!(
            "{} counted; {} with T rows, {} with T - 1",
            counted(summary.rows_counted, "row"),
            counted(summary.samples_with_last_row, "sample"),
            summary.samples_without_last_row
        ),
    ];
    if summary.rows_missing > 0 {
        let treated = match arguments.missing {
            Missing::ScaleUp => "scaled up",
            Missing::LeaveOut | Missing::Refuse => "left out",
        };
        lines.push(format!(
            "missing: {} of {}, {treated}",
            counted(summary.rows_missing, "row"),
            counted(summary.samples_with_missing_rows, "sample")
        ));
    }
    for (count, what, how) in [
        (summary.samples_without_rows, "sample", "without any row"),
        (summary.filler_rows, "filler row", "not counted"),
        (summary.replaced_rows, "row", "of earlier turns replaced by later ones"),
    ] {
        if count > 0 {
            lines.push(format!("{} {how}", counted(count, what)));
        }
    }
    lines.join("\n")
}

impl From<ImportError> for Failure {
    fn from(error: ImportError) -> Self {
        match error {
            ImportError::File(FormatError::Access { .. }) => Self::File(error.to_string()),
            _ => Self::Input(error.to_string()),
        }
    }
}
