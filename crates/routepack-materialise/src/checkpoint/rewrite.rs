//! A checkpoint from slots to logical order, or back: a new folder, whole or not there.
//!
//! Every shard is read once, in order: the bytes of a tensor of one expert stay where they are and get another name;
//! stacked experts are written in another order. Checksums by logical name are taken while reading, and again from the
//! files written, before the folder gets its name. The source is only read. A process that is killed leaves the source
//! and a folder named `NAME.unfinished`, which the next run refuses to overlook.

use std::fs;
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::copy::{read_back, write_shard};
use super::folder::Folder;
use super::index::index;
use super::map::{CHECKSUMS_FILE, CheckpointMap, LAYERS_KEY, LIVE_MAP_FILE, MAP_FILE, MAP_KEY};
use super::names::Names;
use super::relabel::Relabel;
use super::settings::check_settings;
use super::sums::Checksums;
use super::target::{UNFINISHED, begin, copy_file, finish, json, write_file};

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// From slots to logical order.
    Canonicalise,
    /// From logical order to slots.
    Apply,
}

/// What to rewrite.
#[derive(Clone, Debug)]
pub struct Rewrite {
    /// Folder of the checkpoint; never changed.
    pub source: PathBuf,
    /// Folder to be made.
    pub target: PathBuf,
    /// Which way.
    pub direction: Direction,
    /// The map; the source's own when absent.
    pub map: Option<CheckpointMap>,
    /// Patterns beside the built-in ones.
    pub names: Names,
    /// Delete what an unfinished run left, and begin again.
    pub again: bool,
}

/// What was rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rewritten {
    /// Shards.
    pub num_shards: usize,
    /// Layers of the model whose experts have been relabelled.
    pub layers: Vec<usize>,
    /// Tensors whose checksums agree before and after.
    pub num_checked: usize,
    /// Bytes of tensors.
    pub num_bytes: u64,
    /// Hash of the map.
    pub map_sha256: String,
}

/// Rewrites a checkpoint.
///
/// # Errors
/// The source or map is wrong, no map is known, the target is there, an unfinished run's folder is there, or bytes are
/// not what they were; then the target is not made.
pub fn rewrite(job: &Rewrite) -> Result<Rewritten, CheckpointError> {
    check_not_live(&job.source)?;
    check_finished(&job.source)?;
    let own = own_map(job)?;
    let job = &Rewrite { names: known_names(job, own.as_ref())?, ..job.clone() };
    let folder = Folder::open(&job.source, &job.names)?;
    let map = known_map(job, own, &folder)?;
    let relabel = Relabel::new(job, &folder, &map)?;
    check_marks(&folder, &relabel)?;
    check_settings(job, &folder, &relabel)?;
    let (unfinished, _held) = begin(job)?;
    let filled = fill(job, &folder, &map, &relabel, &unfinished);
    if filled.is_err() {
        // What is wrong is said; nothing half written is left beside it.
        let _ = fs::remove_dir_all(&unfinished);
    }
    let tensors = folder.shards.iter().flat_map(|shard| &shard.tensors);
    Ok(Rewritten {
        num_shards: folder.shards.len(),
        layers: relabel.layers().copied().collect(),
        num_checked: filled?,
        num_bytes: tensors.map(|tensor| tensor.num_bytes).sum(),
        map_sha256: map.sha256,
    })
}

/// Fills the unfinished folder, compares it with the source and names it; how many checksums agree.
fn fill(
    job: &Rewrite,
    folder: &Folder,
    map: &CheckpointMap,
    relabel: &Relabel,
    unfinished: &Path,
) -> Result<usize, CheckpointError> {
    let mut before = Checksums::default();
    for (shard, claims) in folder.shards.iter().zip(&folder.claims) {
        write_shard(shard, claims, relabel, &unfinished.join(&shard.file), &mut before)?;
    }
    check_source(job, &before)?;
    for file in &folder.others {
        copy_file(&job.source.join(file), &unfinished.join(file))?;
    }
    for file in &folder.indexes {
        write_file(&unfinished.join(file), &index(&job.source.join(file), job, folder, relabel)?)?;
    }
    if job.direction == Direction::Apply {
        // With its layers, also where they were all that have experts.
        let model_layers = Some(relabel.layers().copied().collect());
        // And the names they were found by, or the way back would leave some in their slots.
        let names = (job.names != Names::default()).then(|| job.names.clone());
        write_file(&unfinished.join(MAP_FILE), &json(&CheckpointMap { model_layers, names, ..map.clone() }))?;
    }
    write_file(&unfinished.join(CHECKSUMS_FILE), &json(&before))?;
    let after = read_back(unfinished, job, relabel)?;
    before.check(&after, &unfinished.display().to_string())?;
    finish(unfinished, &job.target)?;
    Ok(before.len())
}

/// What was saved live is in logical order and loads under any map: there is nothing to rewrite, either way.
fn check_not_live(source: &Path) -> Result<(), CheckpointError> {
    let live = source.join(LIVE_MAP_FILE);
    if !live.exists() {
        return Ok(());
    }
    let why = "saved by save_logical: every expert is at its logical number, in no slot; load_logical loads it under any map";
    Err(CheckpointError::input(live.display(), why))
}

/// What a run leaves that was killed is not whole, whatever its files look like.
fn check_finished(source: &Path) -> Result<(), CheckpointError> {
    let real = source.canonicalize().map_err(|error| CheckpointError::access(source, "read", &error))?;
    if real.extension().is_some_and(|end| end == UNFINISHED) {
        let why = "what a run that did not finish left, which is not whole; give its source";
        return Err(CheckpointError::input(source.display(), why));
    }
    Ok(())
}

/// The map beside the source.
fn own_map(job: &Rewrite) -> Result<Option<CheckpointMap>, CheckpointError> {
    let place = job.source.join(MAP_FILE);
    match fs::read(&place) {
        Ok(json) => Ok(Some(CheckpointMap::parse(&json, &place.display().to_string())?)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(CheckpointError::access(&place, "read", &error)),
    }
}

/// Names by which experts are found: patterns and prefixes kept with a map, on the way back and where the map is applied anew.
/// Others that are given take their place when it is applied; on the way back they would leave some experts in their slots.
fn known_names(job: &Rewrite, own: Option<&CheckpointMap>) -> Result<Names, CheckpointError> {
    let map = own.or(job.map.as_ref());
    let Some(kept) = map.map(|map| map.names.clone().unwrap_or_default()) else {
        return Ok(job.names.clone());
    };
    let Names { pattern, prefix } = job.names.clone();
    let names = Names {
        pattern: if pattern.is_empty() { kept.pattern.clone() } else { pattern },
        prefix: if prefix.is_empty() { kept.prefix.clone() } else { prefix },
    };
    if own.is_some() && names != kept {
        let why = "names: experts were put into slots by other names than those given";
        return Err(CheckpointError::input(job.source.join(MAP_FILE).display(), why));
    }
    Ok(names)
}

/// The map in force. Slots without one are an error, and so is a checkpoint that is already what it is to become.
fn known_map(
    job: &Rewrite,
    own: Option<CheckpointMap>,
    folder: &Folder,
) -> Result<CheckpointMap, CheckpointError> {
    let place = job.source.join(MAP_FILE);
    let marks = || folder.shards.iter().filter_map(|shard| Some((shard, shard.metadata.get(MAP_KEY)?)));
    if job.direction == Direction::Apply {
        let marked = marks().next().map(|(shard, _)| shard.path.display().to_string());
        if let Some(place) = own.as_ref().map(|_| place.display().to_string()).or(marked) {
            return Err(CheckpointError::input(
                place,
                "the experts are in slots already: applying a second map would mix them; canonicalise first",
            ));
        }
        let why = "a map is needed to put experts into slots";
        return job.map.clone().ok_or_else(|| CheckpointError::input(job.source.display(), why));
    }
    let map = match (job.map.clone(), own) {
        (
            Some(CheckpointMap { model_layers: Some(given), .. }),
            Some(CheckpointMap { model_layers: Some(own), .. }),
        ) if given != own => {
            let why = format!("the layers given are {given:?}, the checkpoint's own map has {own:?}");
            return Err(CheckpointError::input(place.display(), why));
        }
        (Some(given), Some(own)) if given.sha256 != own.sha256 => {
            let why = format!("the map given is {}, the checkpoint's own is {}", given.sha256, own.sha256);
            return Err(CheckpointError::input(place.display(), why));
        }
        (given, own) => own.or(given),
    };
    let Some(map) = map else {
        let why = match marks().next() {
            Some((_, sha256)) => {
                format!("experts are in the slots of map {sha256}, and the map is not there")
            }
            None => format!("no {MAP_FILE} and no map given: nobody knows which expert is in which slot"),
        };
        return Err(CheckpointError::input(job.source.display(), why));
    };
    if let Some((shard, other)) = marks().find(|(_, sha256)| **sha256 != map.sha256) {
        let why = format!("experts are in the slots of map {other}, the map in force is {}", map.sha256);
        return Err(CheckpointError::input(shard.path.display(), why));
    }
    Ok(map)
}

/// Shards in slots and shards in logical order are not mixed: if one says whose slots its experts are in, all do.
fn check_marks(folder: &Folder, relabel: &Relabel) -> Result<(), CheckpointError> {
    let mut marked = None;
    for (shard, claims) in folder.shards.iter().zip(&folder.claims) {
        let written = shard.metadata.get(LAYERS_KEY).filter(|_| relabel.direction == Direction::Canonicalise);
        if let Some(written) = written.filter(|layers| **layers != relabel.layers_text()) {
            let why =
                format!("layers {written} are in slots, the map is laid over {}", relabel.layers_text());
            return Err(CheckpointError::input(shard.path.display(), why));
        }
        if !claims.iter().flatten().any(|claimed| relabel.has(claimed.layer)) {
            continue;
        }
        let has = shard.metadata.contains_key(MAP_KEY);
        if *marked.get_or_insert(has) != has {
            let why = "experts in slots in some shards, in logical order in others: these are parts of two checkpoints";
            return Err(CheckpointError::input(shard.path.display(), why));
        }
    }
    Ok(())
}

/// What the source says of itself must be true.
fn check_source(job: &Rewrite, found: &Checksums) -> Result<(), CheckpointError> {
    let place = job.source.join(CHECKSUMS_FILE);
    match fs::read(&place) {
        Ok(json) => {
            let name = place.display().to_string();
            Checksums::parse(&json, &name)?.check(found, &name)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(error) => Err(CheckpointError::access(&place, "read", &error)),
    }
}
