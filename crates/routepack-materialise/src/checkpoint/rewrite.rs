//! A checkpoint from slots to logical order, or back: a new folder, whole or not there.
//!
//! Every shard is read once, in order: the bytes of a tensor of one expert stay where they are and get another name;
//! stacked experts are written in another order. Checksums by logical name are taken while reading, and again from the
//! files written, before the folder gets its name. The source is only read. A process that is killed leaves the source
//! and a folder named `NAME.unfinished`, which the next run refuses to overlook.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;
use sha2::{Digest as _, Sha256};

use super::CheckpointError;
use super::folder::Folder;
use super::map::{CHECKSUMS_FILE, CheckpointMap, MAP_FILE, MAP_KEY};
use super::names::{Claimed, Names};
use super::shard::{Shard, Tensor};
use super::sums::Checksums;
use crate::materialise::hex;

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
    let folder = Folder::open(&job.source, &job.names)?;
    let map = known_map(job, &folder)?;
    let relabel = Relabel::new(job, &folder, &map)?;
    let unfinished = begin(job)?;
    let filled = fill(job, &folder, &map, &relabel, &unfinished);
    if filled.is_err() {
        // What is wrong is said; nothing half written is left beside it.
        let _ = fs::remove_dir_all(&unfinished);
    }
    let tensors = folder.shards.iter().flat_map(|shard| &shard.tensors);
    Ok(Rewritten {
        num_shards: folder.shards.len(),
        layers: relabel.to.keys().copied().collect(),
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
        let (from, to) = (job.source.join(file), unfinished.join(file));
        fs::copy(&from, &to).map_err(|error| CheckpointError::access(&from, "copy", &error))?;
        sync(&to)?;
    }
    for file in &folder.indexes {
        write_file(&unfinished.join(file), &index(&job.source.join(file), job, relabel)?)?;
    }
    if job.direction == Direction::Apply {
        write_file(&unfinished.join(MAP_FILE), &json(map))?;
    }
    write_file(&unfinished.join(CHECKSUMS_FILE), &json(&before))?;
    let after = read_back(unfinished, job, relabel)?;
    before.check(&after, &unfinished.display().to_string())?;
    finish(unfinished, &job.target)?;
    Ok(before.len())
}

/// The map in force. Slots without one are an error, and so is a checkpoint that is already what it is to become.
fn known_map(job: &Rewrite, folder: &Folder) -> Result<CheckpointMap, CheckpointError> {
    let place = job.source.join(MAP_FILE);
    let own = match fs::read(&place) {
        Ok(json) => Some(CheckpointMap::parse(&json, &place.display().to_string())?),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(CheckpointError::access(&place, "read", &error)),
    };
    let marks = || folder.shards.iter().filter_map(|shard| Some((shard, shard.metadata.get(MAP_KEY)?)));
    if job.direction == Direction::Apply {
        let marked = marks().next().map(|(shard, _)| shard.path.display().to_string());
        if let Some(place) = own.as_ref().map(|_| place.display().to_string()).or(marked) {
            return Err(CheckpointError::input(
                place,
                "the experts are in slots already; canonicalise first",
            ));
        }
        let why = "a map is needed to put experts into slots";
        return job.map.clone().ok_or_else(|| CheckpointError::input(job.source.display(), why));
    }
    let map = match (job.map.clone(), own) {
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

/// New numbers of experts.
struct Relabel {
    direction: Direction,
    map_sha256: String,
    /// Layer of the model → number of an expert in the source → its number in the target.
    to: BTreeMap<usize, Vec<usize>>,
}

impl Relabel {
    fn new(job: &Rewrite, folder: &Folder, map: &CheckpointMap) -> Result<Self, CheckpointError> {
        let found = folder.layers();
        let layers: Vec<usize> = map.model_layers.clone().unwrap_or_else(|| found.iter().copied().collect());
        let wrong = |why: String| Err(CheckpointError::input(job.source.display(), why));
        if layers.len() != map.log2phys.len() {
            let (recorded, range) = (map.log2phys.len(), (found.first(), found.last()));
            let range = if let (Some(first), Some(last)) = range {
                format!(" ({first} to {last})")
            } else {
                String::new()
            };
            return wrong(format!(
                "experts in {} layers{range}, the map has {recorded}: name the model's layers with --layers",
                found.len()
            ));
        }
        if let Some(missing) = layers.iter().find(|layer| !found.contains(layer)) {
            return wrong(format!("no experts in layer {missing}, the map has it"));
        }
        folder.check_whole(&layers, map.log2phys[0].len())?;
        let to = layers.into_iter().zip(&map.log2phys).map(|(layer, slots)| {
            let mut to = vec![0; slots.len()];
            for (expert, &slot) in slots.iter().enumerate() {
                match job.direction {
                    Direction::Apply => to[expert] = slot as usize,
                    Direction::Canonicalise => to[slot as usize] = expert,
                }
            }
            (layer, to)
        });
        Ok(Self { direction: job.direction, map_sha256: map.sha256.clone(), to: to.collect() })
    }

    /// The name of a tensor in the target.
    fn name(&self, name: &str, claimed: Option<&Claimed>) -> String {
        let Some(Claimed { layer, expert: Some((expert, at)), .. }) = claimed else { return name.to_owned() };
        match self.to.get(layer) {
            Some(to) => format!("{}{}{}", &name[..at.start], to[*expert], &name[at.end..]),
            None => name.to_owned(),
        }
    }

    /// The logical number of an expert that has this number in the source, or in the target.
    fn logical(&self, layer: usize, number: usize, in_target: bool) -> usize {
        let Some(to) = self.to.get(&layer) else { return number };
        match (self.direction, in_target) {
            (Direction::Apply, false) | (Direction::Canonicalise, true) => number,
            (Direction::Canonicalise, false) => to[number],
            (Direction::Apply, true) => to.iter().position(|&slot| slot == number).expect("a bijection"),
        }
    }
}

/// An empty folder beside the target.
fn begin(job: &Rewrite) -> Result<PathBuf, CheckpointError> {
    let refuse = |place: &Path, why: &str| Err(CheckpointError::input(place.display(), why));
    if fs::symlink_metadata(&job.target).is_ok() {
        return refuse(&job.target, "is there already; nothing is overwritten");
    }
    let Some(name) = job.target.file_name() else {
        return refuse(&job.target, "expected the name of a new folder");
    };
    let parent =
        job.target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let real =
        |path: &Path| path.canonicalize().map_err(|error| CheckpointError::access(path, "open", &error));
    if real(parent)?.starts_with(real(&job.source)?) {
        return refuse(&job.target, "lies inside the source, which is never changed");
    }
    let mut unfinished = name.to_owned();
    unfinished.push(".unfinished");
    let unfinished = parent.join(unfinished);
    if job.again && unfinished.is_dir() {
        fs::remove_dir_all(&unfinished)
            .map_err(|error| CheckpointError::access(&unfinished, "delete", &error))?;
    }
    match fs::create_dir(&unfinished) {
        Ok(()) => Ok(unfinished),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => refuse(
            &unfinished,
            "a run did not finish, or is going on; the source is whole. Rerun with --again to delete this and begin again",
        ),
        Err(error) => Err(CheckpointError::access(&unfinished, "make", &error)),
    }
}

/// Copies a shard under new names; checksums of what was read.
fn write_shard(
    shard: &Shard,
    claims: &[Option<Claimed>],
    relabel: &Relabel,
    path: &Path,
    sums: &mut Checksums,
) -> Result<(), CheckpointError> {
    let failed = |error: std::io::Error| CheckpointError::access(path, "write", &error);
    let names: Vec<String> = shard
        .tensors
        .iter()
        .zip(claims)
        .map(|(tensor, claimed)| relabel.name(&tensor.name, claimed.as_ref()))
        .collect();
    let mut metadata = shard.metadata.clone();
    metadata.remove(MAP_KEY);
    if relabel.direction == Direction::Apply {
        metadata.insert(MAP_KEY.into(), relabel.map_sha256.clone());
    }
    let mut output = BufWriter::with_capacity(1 << 20, File::create_new(path).map_err(failed)?);
    let header = shard.header(&names, &metadata);
    output.write_all(&header).map_err(failed)?;
    let mut position = header.len() as u64;
    let mut source = shard.data()?;
    for (tensor, claimed) in shard.tensors.iter().zip(claims) {
        for (number, block) in blocks(tensor, claimed.as_ref()) {
            if let Some(number) = number.filter(|_| stacked_in(relabel, claimed.as_ref())) {
                let to = relabel.to[&claimed.as_ref().expect("stacked").layer][number] as u64;
                output.seek(SeekFrom::Start(position + to * block)).map_err(failed)?;
            }
            let sum = stream(&mut source, block, &shard.path, &mut |bytes| {
                output.write_all(bytes).map_err(failed)
            })?;
            note(sums, tensor, claimed.as_ref(), number, relabel, false, sum);
        }
        position += tensor.num_bytes;
        output.seek(SeekFrom::Start(position)).map_err(failed)?;
    }
    output.into_inner().map_err(|error| failed(error.into_error()))?.sync_all().map_err(failed)
}

/// Whether a tensor's stacked experts are to change places.
fn stacked_in(relabel: &Relabel, claimed: Option<&Claimed>) -> bool {
    claimed.is_some_and(|claimed| claimed.expert.is_none() && relabel.to.contains_key(&claimed.layer))
}

/// The runs of a tensor that have checksums of their own, as expert and bytes.
fn blocks(tensor: &Tensor, claimed: Option<&Claimed>) -> Vec<(Option<usize>, u64)> {
    match claimed {
        Some(Claimed { expert: None, .. }) if tensor.shape.first().is_some_and(|&experts| experts > 0) => {
            let experts = tensor.shape[0];
            (0..experts).map(|number| (Some(number), tensor.num_bytes / experts as u64)).collect()
        }
        _ => vec![(claimed.and_then(|claimed| Some(claimed.expert.as_ref()?.0)), tensor.num_bytes)],
    }
}

fn note(
    sums: &mut Checksums,
    tensor: &Tensor,
    claimed: Option<&Claimed>,
    number: Option<usize>,
    relabel: &Relabel,
    in_target: bool,
    sum: String,
) {
    match (claimed, number) {
        (Some(claimed), Some(number)) => {
            sums.add(&claimed.family, relabel.logical(claimed.layer, number, in_target), sum);
        }
        _ => sums.add(&tensor.name, 0, sum),
    }
}

/// Reads so many bytes and hands them on; their SHA-256.
fn stream(
    source: &mut impl Read,
    mut rest: u64,
    path: &Path,
    each: &mut dyn FnMut(&[u8]) -> Result<(), CheckpointError>,
) -> Result<String, CheckpointError> {
    let mut hash = Sha256::new();
    let mut buffer = vec![0; rest.min(1 << 20) as usize];
    while rest > 0 {
        let part = &mut buffer[..rest.min(1 << 20) as usize];
        source.read_exact(part).map_err(|error| CheckpointError::access(path, "read", &error))?;
        hash.update(&*part);
        each(part)?;
        rest -= part.len() as u64;
    }
    Ok(hex(&hash.finalize()))
}

/// Checksums of what was written.
fn read_back(folder: &Path, job: &Rewrite, relabel: &Relabel) -> Result<Checksums, CheckpointError> {
    let written = Folder::open(folder, &job.names)?;
    let mut sums = Checksums::default();
    for (shard, claims) in written.shards.iter().zip(&written.claims) {
        let mut source = shard.data()?;
        for (tensor, claimed) in shard.tensors.iter().zip(claims) {
            for (number, block) in blocks(tensor, claimed.as_ref()) {
                let sum = stream(&mut source, block, &shard.path, &mut |_| Ok(()))?;
                note(&mut sums, tensor, claimed.as_ref(), number, relabel, true, sum);
            }
        }
    }
    Ok(sums)
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

/// The index of shards under new names.
fn index(path: &Path, job: &Rewrite, relabel: &Relabel) -> Result<Vec<u8>, CheckpointError> {
    let text = fs::read(path).map_err(|error| CheckpointError::access(path, "read", &error))?;
    let wrong = |why: String| CheckpointError::input(path.display(), why);
    let mut index: Value =
        serde_json::from_slice(&text).map_err(|error| wrong(format!("no JSON: {error}")))?;
    let named = index.get_mut("weight_map").and_then(Value::as_object_mut);
    let named = named.ok_or_else(|| wrong("no weight_map in it".into()))?;
    let mut renamed = serde_json::Map::new();
    for (name, shard) in std::mem::take(named) {
        let claimed = job.names.claim(&path.display().to_string(), &name)?;
        let in_range =
            claimed.as_ref().is_none_or(|claimed| match (&claimed.expert, relabel.to.get(&claimed.layer)) {
                (Some((expert, _)), Some(to)) => *expert < to.len(),
                _ => true,
            });
        if !in_range {
            return Err(wrong(format!("{name}: an expert that the map has not")));
        }
        renamed.insert(relabel.name(&name, claimed.as_ref()), shard);
    }
    *named = renamed;
    Ok(json(&index))
}

/// Names the folder, once everything in it is durable.
fn finish(unfinished: &Path, target: &Path) -> Result<(), CheckpointError> {
    sync(unfinished)?;
    fs::rename(unfinished, target).map_err(|error| CheckpointError::access(target, "name", &error))?;
    let parent = target.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(parent)
}

fn write_file(path: &Path, bytes: &[u8]) -> Result<(), CheckpointError> {
    fs::write(path, bytes).map_err(|error| CheckpointError::access(path, "write", &error))?;
    sync(path)
}

fn sync(path: &Path) -> Result<(), CheckpointError> {
    File::open(path)
        .and_then(|file| file.sync_all())
        .map_err(|error| CheckpointError::access(path, "sync", &error))
}

fn json(value: &impl serde::Serialize) -> Vec<u8> {
    let mut text = serde_json::to_vec(value).expect("text keys");
    text.push(b'\n');
    text
}
