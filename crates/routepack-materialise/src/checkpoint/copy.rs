//! Shards copied under new names, with checksums of what was read and of what was written.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, SeekFrom, Write};
use std::path::Path;

use sha2::{Digest as _, Sha256};

use super::folder::Folder;
use super::map::{LAYERS_KEY, MAP_KEY};
use super::names::Claimed;
use super::relabel::Relabel;
use super::shard::{Shard, Tensor};
use super::sums::Checksums;
use super::{CheckpointError, Direction, Rewrite};
use crate::materialise::hex;

/// Copies a shard under new names; checksums of what was read.
pub(crate) fn write_shard(
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
    metadata.remove(LAYERS_KEY);
    if relabel.direction == Direction::Apply {
        metadata.insert(MAP_KEY.into(), relabel.map_sha256.clone());
        metadata.insert(LAYERS_KEY.into(), relabel.layers_text());
    }
    let mut output = BufWriter::with_capacity(1 << 20, File::create_new(path).map_err(failed)?);
    let header = shard.header(&names, &metadata);
    output.write_all(&header).map_err(failed)?;
    let mut position = header.len() as u64;
    let mut source = shard.data()?;
    for (tensor, claimed) in shard.tensors.iter().zip(claims) {
        for (number, block) in blocks(tensor, claimed.as_ref()) {
            if let Some(number) = number.filter(|_| stacked_in(relabel, claimed.as_ref())) {
                let layer = claimed.as_ref().expect("stacked").layer;
                let to = relabel.number(layer, number).expect("as many as the map has") as u64;
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
    claimed.is_some_and(|claimed| claimed.expert.is_none() && relabel.has(claimed.layer))
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
    let stacked = claimed.is_some_and(|claimed| claimed.expert.is_none());
    // The same bytes as another type are other weights.
    let shape = tensor.shape.get(usize::from(stacked)..).unwrap_or_default();
    let sum = format!("{sum} {:?} {shape:?}", tensor.dtype);
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
pub(crate) fn read_back(
    folder: &Path,
    job: &Rewrite,
    relabel: &Relabel,
) -> Result<Checksums, CheckpointError> {
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
