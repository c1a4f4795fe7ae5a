//! `routepack checkpoint`: safetensors shards from slots to logical order, and back.

use std::path::{Path, PathBuf};

use clap::{ArgGroup, Subcommand};
use routepack::formats;
use routepack::problem::counted;
use routepack::verification::check_alone;
use routepack_materialise::checkpoint::{
    CheckpointError, CheckpointMap, Direction, Names, Rewrite, Rewritten, rewrite,
};
use serde::{Deserialize, Serialize};

use crate::exit::Failure;
use crate::output::{print, print_json};

/// Arguments of `routepack checkpoint`.
#[derive(clap::Args)]
#[command(after_help = "\
At rest expert j is logical expert j. A checkpoint written in slots carries
routepack_map.json; without it, or --map, nobody knows which expert is in which
slot, and that is an error.

The source is only read. Tensors are checksummed by (layer, logical expert,
tensor) while they are read and again in the files written; then the new folder
gets its name. After a kill there is DIR2.unfinished, and the next run says so.

Names understood: Qwen3-MoE, DeepSeek, Mixtral, Megatron (one module an expert,
grouped linears), stacked experts. Others: --names names.toml, tried first:
  [[pattern]]
  name = \"blocks.{layer}.moe.{expert}.{tensor}\"
  # or stacked = true, without {expert}
Router, its bias and shared experts are logical and stay, and so does
multi-token prediction (mtp).

Examples:
  routepack checkpoint apply hf/ --plan plan.json --layers 3-60 -o slots/
  routepack checkpoint canonicalise slots/ -o hf2/

Exit codes: 0 done; 1 bytes are not what their checksum says; 2 wrong usage; 3 bad input; 4 a file.")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    way: Way,
}

#[derive(Subcommand)]
enum Way {
    /// From slots to logical order.
    Canonicalise(Folders),
    /// From logical order to slots: by --plan, or by --map.
    #[command(group = ArgGroup::new("placement").args(["plan", "map"]).required(true))]
    Apply {
        #[command(flatten)]
        folders: Folders,
        /// Plan whose placement to apply.
        #[arg(long)]
        plan: Option<PathBuf>,
    },
}

#[derive(clap::Args)]
struct Folders {
    /// Folder of safetensors shards.
    source: PathBuf,
    /// Folder to make.
    #[arg(short, long, value_name = "DIR2")]
    output: PathBuf,
    /// Map: routepack_map.json of a checkpoint, or a file of `routepack place`.
    #[arg(long)]
    map: Option<PathBuf>,
    /// Layers of the model that the plan or map speaks of, as `3-60` or `0,2,4-9`; all with experts by default.
    #[arg(long, value_name = "LAYERS")]
    layers: Option<String>,
    /// Patterns of tensor names (TOML).
    #[arg(long, value_name = "FILE")]
    names: Option<PathBuf>,
    /// How names of experts that move begin, as `thinker.`: where a folder holds several models. May be repeated.
    #[arg(long, value_name = "PREFIX")]
    prefix: Vec<String>,
    /// Delete what an unfinished run left, and begin again.
    #[arg(long)]
    again: bool,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Answer {
    shards: usize,
    layers: Vec<usize>,
    tensors_checked: usize,
    bytes: u64,
    map_sha256: String,
}

/// What a file of `routepack place` holds, as far as it is needed here.
#[derive(Deserialize)]
struct PlacementFile {
    log2phys: Vec<Vec<u32>>,
}

/// Runs the command.
pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let (folders, direction, plan) = match &arguments.way {
        Way::Canonicalise(folders) => (folders, Direction::Canonicalise, None),
        Way::Apply { folders, plan } => (folders, Direction::Apply, plan.as_deref()),
    };
    let layers = folders.layers.as_deref().map(layers).transpose()?;
    let map = match (plan, &folders.map) {
        (Some(plan), _) => Some(map_of_plan(plan, layers)?),
        (None, Some(map)) => Some(read_map(map, layers)?),
        (None, None) if layers.is_some() => {
            return Err(Failure::Input("--layers: the checkpoint's own map names its layers".into()));
        }
        (None, None) => None,
    };
    let mut names = match folders.names.as_deref() {
        Some(names) => formats::read_toml(regular(names)?)?,
        None => Names::default(),
    };
    names.prefix.extend(folders.prefix.iter().cloned());
    let job = Rewrite {
        source: folders.source.clone(),
        target: folders.output.clone(),
        direction,
        map,
        names,
        again: folders.again,
    };
    let Rewritten { num_shards, layers, num_checked, num_bytes, map_sha256 } = rewrite(&job)?;
    if folders.json {
        return print_json(&Answer {
            shards: num_shards,
            layers,
            tensors_checked: num_checked,
            bytes: num_bytes,
            map_sha256,
        });
    }
    print(&format!(
        "{}: {}, {} of experts, {num_bytes} bytes; checksums that agree: {num_checked}\nmap {map_sha256}",
        folders.output.display(),
        counted(num_shards as u64, "shard"),
        counted(layers.len() as u64, "layer")
    ))
}

fn map_of_plan(path: &Path, layers: Option<Vec<usize>>) -> Result<CheckpointMap, Failure> {
    let plan = formats::read_plan(regular(path)?)?;
    check_alone(&plan).map_err(|error| Failure::input(path.display(), error))?;
    let Some(placement) = plan.placement else {
        return Err(Failure::input(path.display(), "the plan has no placement: no routes were recorded"));
    };
    Ok(CheckpointMap::new(placement.log2phys, layers)?)
}

/// The path, unless it is a pipe or the like, which may never end.
fn regular(path: &Path) -> Result<&Path, Failure> {
    if std::fs::metadata(path).is_ok_and(|about| !about.is_file()) {
        return Err(Failure::File(format!("{}: cannot read: no regular file", path.display())));
    }
    Ok(path)
}

fn read_map(path: &Path, layers: Option<Vec<usize>>) -> Result<CheckpointMap, Failure> {
    let shown = path.display();
    let json = std::fs::read(regular(path)?)
        .map_err(|error| Failure::File(format!("{shown}: cannot read: {error}")))?;
    let value: serde_json::Value =
        serde_json::from_slice(&json).map_err(|error| Failure::input(&shown, format!("no JSON: {error}")))?;
    if value.get("format").is_none() {
        // From the text: a value has lost all but the last of fields given twice.
        let file: PlacementFile = serde_json::from_slice(&json)
            .map_err(|error| Failure::input(&shown, format!("no map: {error}")))?;
        return CheckpointMap::new(file.log2phys, layers).map_err(|error| Failure::input(&shown, error));
    }
    let map = CheckpointMap::parse(&json, &shown.to_string())?;
    let names = map.names.clone();
    Ok(if layers.is_some() {
        CheckpointMap { names, ..CheckpointMap::new(map.log2phys, layers)? }
    } else {
        map
    })
}

/// `0,2,4-9` as ascending numbers.
fn layers(text: &str) -> Result<Vec<usize>, Failure> {
    let wrong =
        || Failure::Input(format!("--layers {text}: expected ascending numbers and ranges, as 0,2,4-9"));
    let number = |text: &str| text.trim().parse::<u16>().map(usize::from).map_err(|_| wrong());
    let mut layers = Vec::new();
    for part in text.split(',') {
        let (first, last) = match part.split_once('-') {
            Some((first, last)) => (number(first)?, number(last)?),
            None => (number(part)?, number(part)?),
        };
        if first > last || layers.last().is_some_and(|&before| before >= first) {
            return Err(wrong());
        }
        layers.extend(first..=last);
    }
    Ok(layers)
}

impl From<CheckpointError> for Failure {
    fn from(error: CheckpointError) -> Self {
        match error {
            CheckpointError::Access { .. } => Self::File(error.to_string()),
            CheckpointError::Input { .. } => Self::Input(error.to_string()),
            CheckpointError::Checksum { .. } => Self::Refused(error.to_string()),
        }
    }
}
