//! A folder of shards: what is in it, and which tensor belongs to which expert.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use super::CheckpointError;
use super::index::named_shards;
use super::map::{CHECKSUMS_FILE, MAP_FILE};
use super::names::{Claimed, Names, of_router};
use super::shard::{Shard, Tensor};

/// Files in other forms (pickles among them) that may hold experts.
const UNREADABLE: [&str; 11] =
    ["bin", "pt", "pth", "ckpt", "distcp", "pkl", "gguf", "h5", "msgpack", "npz", "onnx"];

/// A checkpoint.
#[derive(Debug)]
pub(crate) struct Folder {
    pub(crate) shards: Vec<Shard>,
    /// Of every tensor of every shard, `[shards][tensors]`.
    pub(crate) claims: Vec<Vec<Option<Claimed>>>,
    /// Files to be copied as they are.
    pub(crate) others: Vec<String>,
    /// Indexes of shards, which hold names.
    pub(crate) indexes: Vec<String>,
}

impl Folder {
    /// Reads the headers of all shards.
    pub(crate) fn open(path: &Path, names: &Names) -> Result<Self, CheckpointError> {
        names.validate()?;
        let mut folder = Self { shards: vec![], claims: vec![], others: vec![], indexes: vec![] };
        let mut seen: BTreeSet<String> = BTreeSet::new();
        for (file, whole) in files(path)? {
            let ending = whole.extension().map(|ending| ending.to_string_lossy().to_lowercase());
            match ending.as_deref() {
                Some("safetensors") => {
                    let shard = Shard::open(&whole, file.clone())?;
                    let mut claims = Vec::with_capacity(shard.tensors.len());
                    for tensor in &shard.tensors {
                        if !seen.insert(tensor.name.clone()) {
                            let why = "this tensor is in an earlier shard too";
                            return Err(CheckpointError::input(
                                format!("{}: {}", whole.display(), tensor.name),
                                why,
                            ));
                        }
                        claims.push(names.claim(&whole.display().to_string(), &tensor.name)?);
                    }
                    folder.shards.push(shard);
                    folder.claims.push(claims);
                }
                Some(ending) if UNREADABLE.contains(&ending) => {
                    let why = "may hold experts in a form that is not read; \
                               convert the checkpoint to safetensors";
                    return Err(CheckpointError::input(whole.display(), why));
                }
                _ if file == MAP_FILE || file == CHECKSUMS_FILE => {}
                Some("json") if file.contains(".safetensors.index") => folder.indexes.push(file),
                _ => folder.others.push(file),
            }
        }
        if folder.shards.is_empty() {
            return Err(CheckpointError::input(path.display(), "no .safetensors file in it"));
        }
        folder.check_complete(path)?;
        Ok(folder)
    }

    /// No shard is missing, as far as names tell: those of an index, and numbers as in `model-00001-of-00002`.
    fn check_complete(&self, path: &Path) -> Result<(), CheckpointError> {
        let there: BTreeSet<&str> = self.shards.iter().map(|shard| &*shard.file).collect();
        let missing = |place: PathBuf, file: &str, found: usize, total: u64| {
            let why = format!(
                "{file} is not there, {found} of {total} shards are; copy all files of the checkpoint"
            );
            Err(CheckpointError::input(place.display(), why))
        };
        for index in &self.indexes {
            let place = path.join(index);
            let named = named_shards(&place)?;
            if let Some(file) = named.iter().find(|file| !there.contains(file.as_str())) {
                let found = named.iter().filter(|file| there.contains(file.as_str())).count();
                return missing(place, file, found, named.len() as u64);
            }
        }
        let mut all: BTreeMap<(&str, &str), BTreeMap<u64, &str>> = BTreeMap::new();
        for file in &there {
            let Some((stem, number, total)) = series(file) else { continue };
            let wrong = |why: &str| Err(CheckpointError::input(path.join(file).display(), why));
            let (Ok(at), Ok(_)) = (number.parse(), total.parse::<u64>()) else {
                return wrong(
                    "said to be one of more shards than 2^64 - 1; expected a name as model-00001-of-00002",
                );
            };
            if all.entry((stem, total)).or_default().insert(at, number).is_some() {
                return wrong("another shard has this number, too");
            }
        }
        for ((stem, end), numbers) in all {
            let total: u64 = end.parse().expect("parsed above");
            // Numbers begin with 1, or with 0, all as wide as their total or none.
            let first = u64::from(!numbers.contains_key(&0));
            let width = numbers.values().map(|number| number.len()).min().unwrap_or_default();
            let named = |number: u64| format!("{stem}-{number:0width$}-of-{end}.safetensors");
            if let Some((&beyond, number)) = numbers.last_key_value().filter(|(at, _)| **at - first >= total)
            {
                let place = path.join(format!("{stem}-{number}-of-{end}.safetensors"));
                let why = format!("shard {beyond} of {total}: of another checkpoint");
                return Err(CheckpointError::input(place.display(), why));
            }
            if let Some(number) = (0..total).map(|at| first + at).find(|at| !numbers.contains_key(at)) {
                return missing(path.to_owned(), &named(number), numbers.len(), total);
            }
        }
        Ok(())
    }

    /// Tensors of experts, with their shards.
    pub(crate) fn claimed(&self) -> impl Iterator<Item = (&Shard, &Tensor, &Claimed)> {
        self.shards.iter().zip(&self.claims).flat_map(|(shard, claims)| {
            let pairs = shard.tensors.iter().zip(claims);
            pairs.filter_map(move |(tensor, claimed)| Some((shard, tensor, claimed.as_ref()?)))
        })
    }

    /// No tensor of a mixture of experts that has no name of experts is a stack of them, as far as shapes tell.
    pub(crate) fn check_unclaimed(&self, names: &Names, num_experts: usize) -> Result<(), CheckpointError> {
        for (shard, claims) in self.shards.iter().zip(&self.claims) {
            for (tensor, _) in shard.tensors.iter().zip(claims).filter(|(_, claimed)| claimed.is_none()) {
                let mut parts = tensor.name.split('.');
                let stays = |part: &str| matches!(part, "mtp" | "gate" | "router") || part.contains("shared");
                if parts.clone().any(|part| part.contains("moe"))
                    && !parts.any(stays)
                    && !of_router(&tensor.name)
                    && names.moves(&tensor.name)
                    && tensor.shape.first() == Some(&num_experts)
                {
                    let place = format!("{}: {}", shard.path.display(), tensor.name);
                    let why = format!(
                        "{num_experts} rows, as many as there are experts, under a name that fits no pattern; \
                         describe it with --names if they are experts"
                    );
                    return Err(CheckpointError::input(place, why));
                }
            }
        }
        Ok(())
    }

    /// Model layers that have experts, ascending.
    pub(crate) fn layers(&self) -> BTreeSet<usize> {
        self.claims.iter().flatten().flatten().map(|claimed| claimed.layer).collect()
    }

    /// Every family of these layers has every expert once.
    pub(crate) fn check_whole(&self, layers: &[usize], num_experts: usize) -> Result<(), CheckpointError> {
        let mut families: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
        for (shard, claims) in self.shards.iter().zip(&self.claims) {
            for (tensor, claimed) in shard.tensors.iter().zip(claims) {
                let Some(claimed) = claimed.as_ref().filter(|claimed| layers.contains(&claimed.layer)) else {
                    continue;
                };
                let wrong = |why| {
                    let place = format!("{}: {}", shard.path.display(), tensor.name);
                    Err(CheckpointError::input(place, why))
                };
                match claimed.expert {
                    Some((expert, _)) if expert >= num_experts => {
                        return wrong(format!("expert {expert}, the map has {num_experts} experts a layer"));
                    }
                    Some((expert, _)) => {
                        families.entry(&claimed.family).or_default().insert(expert);
                    }
                    None if tensor.shape.first() != Some(&num_experts) => {
                        let shape = &tensor.shape;
                        return wrong(format!(
                            "shape {shape:?}, expected {num_experts} experts along the first axis"
                        ));
                    }
                    None if tensor.num_bytes % num_experts as u64 != 0 => {
                        return wrong(format!(
                            "{} bytes, not divisible among {num_experts} experts",
                            tensor.num_bytes
                        ));
                    }
                    None => {}
                }
            }
        }
        for (family, experts) in families {
            if let Some(missing) = (0..num_experts).find(|expert| !experts.contains(expert)) {
                let why = format!("expert {missing} is missing, the map has {num_experts} experts a layer");
                return Err(CheckpointError::input(family, why));
            }
        }
        Ok(())
    }
}

/// Shards of one series, by the digits in their names: `model`, `00001`, `00002` of `model-00001-of-00002.safetensors`.
fn series(file: &str) -> Option<(&str, &str, &str)> {
    let (head, total) = file.strip_suffix(".safetensors")?.rsplit_once("-of-")?;
    let (stem, number) = head.rsplit_once('-')?;
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|letter| letter.is_ascii_digit());
    (is_number(number) && is_number(total)).then_some((stem, number, total))
}

/// Files of a folder by name; a folder in it is refused.
fn files(path: &Path) -> Result<Vec<(String, PathBuf)>, CheckpointError> {
    let failed = |error: std::io::Error| CheckpointError::access(path, "read", &error);
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(failed)? {
        let whole = entry.map_err(failed)?.path();
        let named = whole.file_name().and_then(|name| name.to_str());
        let Some(name) = named else {
            return Err(CheckpointError::input(whole.display(), "a file name that is no UTF-8"));
        };
        let about = fs::metadata(&whole).map_err(|error| CheckpointError::access(&whole, "read", &error))?;
        if !about.is_file() {
            let why = "expected only files in a checkpoint's folder";
            return Err(CheckpointError::input(whole.display(), why));
        }
        files.push((name.to_owned(), whole));
    }
    files.sort();
    Ok(files)
}
