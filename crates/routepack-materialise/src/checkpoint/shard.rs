//! One safetensors file: its header, checked against its length, and its tensors in the order of their bytes.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

use safetensors::Dtype;
use safetensors::tensor::Metadata;
use serde_json::{Map, Value, json};

use super::CheckpointError;

/// Most bytes of a header, as the library itself has it.
const MAX_HEADER: u64 = 100_000_000;

/// A tensor of a shard.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Tensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<usize>,
    pub(crate) num_bytes: u64,
}

/// The header of a shard.
#[derive(Clone, Debug)]
pub(crate) struct Shard {
    pub(crate) path: PathBuf,
    /// Name in its folder.
    pub(crate) file: String,
    /// Tensors, by offset; their bytes follow each other.
    pub(crate) tensors: Vec<Tensor>,
    pub(crate) metadata: BTreeMap<String, String>,
}

impl Shard {
    /// Reads a header.
    pub(crate) fn open(path: &Path, file: String) -> Result<Self, CheckpointError> {
        let damaged = |why: String| CheckpointError::input(path.display(), why);
        let mut source = open(path)?;
        let mut length = [0u8; 8];
        source.read_exact(&mut length).map_err(|_| damaged("not a safetensors file: too short".into()))?;
        let length = u64::from_le_bytes(length);
        if length > MAX_HEADER {
            return Err(damaged(format!("not a safetensors file: a header of {length} bytes")));
        }
        let mut header = Vec::new();
        let read = source.by_ref().take(length).read_to_end(&mut header);
        read.map_err(|error| CheckpointError::access(path, "read", &error))?;
        let header: Metadata = serde_json::from_slice(&header)
            .map_err(|error| damaged(format!("not a whole safetensors file: {error}")))?;
        let total =
            source.get_ref().metadata().map_err(|error| CheckpointError::access(path, "read", &error))?;
        let expected = (header.data_len() as u64).saturating_add(8 + length);
        if expected != total.len() {
            let found = total.len();
            return Err(damaged(format!("the header speaks of {expected} bytes, the file has {found}")));
        }
        let tensors = header.offset_keys().into_iter().map(|name| {
            let info = header.info(&name).expect("a name of the header");
            let num_bytes = (info.data_offsets.1 - info.data_offsets.0) as u64;
            Tensor { dtype: info.dtype, shape: info.shape.clone(), num_bytes, name }
        });
        Ok(Self {
            path: path.to_owned(),
            file,
            tensors: tensors.collect(),
            metadata: header.metadata().iter().flatten().map(|(k, v)| (k.clone(), v.clone())).collect(),
        })
    }

    /// The header with other names and metadata, tensors in the same order.
    pub(crate) fn header(&self, names: &[String], metadata: &BTreeMap<String, String>) -> Vec<u8> {
        let mut header = Map::new();
        if !metadata.is_empty() {
            header.insert("__metadata__".into(), json!(metadata));
        }
        let mut offset = 0;
        for (tensor, name) in self.tensors.iter().zip(names) {
            let end = offset + tensor.num_bytes;
            let value = json!({"dtype": tensor.dtype, "shape": tensor.shape, "data_offsets": [offset, end]});
            header.insert(name.clone(), value);
            offset = end;
        }
        let mut text = Value::Object(header).to_string().into_bytes();
        text.resize(text.len().next_multiple_of(8), b' ');
        let mut bytes = (text.len() as u64).to_le_bytes().to_vec();
        bytes.extend(text);
        bytes
    }

    /// A reader at the first tensor's bytes.
    pub(crate) fn data(&self) -> Result<BufReader<File>, CheckpointError> {
        let failed = |error: std::io::Error| CheckpointError::access(&self.path, "read", &error);
        let mut source = open(&self.path)?;
        let mut length = [0u8; 8];
        source.read_exact(&mut length).map_err(failed)?;
        source.seek_relative(u64::from_le_bytes(length) as i64).map_err(failed)?;
        Ok(source)
    }
}

fn open(path: &Path) -> Result<BufReader<File>, CheckpointError> {
    let file = File::open(path).map_err(|error| CheckpointError::access(path, "open", &error))?;
    Ok(BufReader::with_capacity(1 << 20, file))
}
