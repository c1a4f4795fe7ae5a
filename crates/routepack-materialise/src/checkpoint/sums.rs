//! Checksums: SHA-256 of every tensor by its logical name, so that they are the same in slots and in logical order.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::CheckpointError;

const FORMAT: &str = "routepack-checksums 2";

/// Of every tensor: an expert's by family and logical number, any other by its name, number 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checksums {
    format: String,
    /// Family or name → logical expert → SHA-256 of its bytes, hexadecimal, and the type and shape these have.
    tensors: BTreeMap<String, BTreeMap<usize, String>>,
}

impl Default for Checksums {
    fn default() -> Self {
        Self { format: FORMAT.into(), tensors: BTreeMap::new() }
    }
}

impl Checksums {
    pub(crate) fn add(&mut self, family: &str, logical: usize, sum: String) {
        self.tensors.entry(family.to_owned()).or_default().insert(logical, sum);
    }

    /// How many tensors.
    pub(crate) fn len(&self) -> usize {
        self.tensors.values().map(BTreeMap::len).sum()
    }

    pub(crate) fn parse(json: &[u8], name: &str) -> Result<Self, CheckpointError> {
        match serde_json::from_slice::<Self>(json) {
            Ok(sums) if sums.format == FORMAT => Ok(sums),
            Ok(sums) => {
                Err(CheckpointError::input(name, format!("format = {:?}, expected {FORMAT:?}", sums.format)))
            }
            Err(error) => Err(CheckpointError::input(name, format!("no checksums: {error}"))),
        }
    }

    /// Both say the same of the same tensors.
    pub(crate) fn check(&self, found: &Self, place: &str) -> Result<(), CheckpointError> {
        let all = |sums: &Self| -> BTreeMap<(String, usize), String> {
            let each = |(family, experts): (&String, &BTreeMap<usize, String>)| {
                let family = family.clone();
                experts
                    .iter()
                    .map(move |(expert, sum)| ((family.clone(), *expert), sum.clone()))
                    .collect::<Vec<_>>()
            };
            sums.tensors.iter().flat_map(each).collect()
        };
        let (expected, found) = (all(self), all(found));
        let differs = expected.iter().find(|(key, sum)| found.get(*key) != Some(*sum)).map(|(key, _)| key);
        let surplus = found.keys().find(|key| !expected.contains_key(*key));
        match differs.or(surplus) {
            None => Ok(()),
            Some((family, expert)) => {
                let sum = |sums: &BTreeMap<(String, usize), String>| {
                    let sum = sums.get(&(family.clone(), *expert)).map_or("nothing", String::as_str);
                    sum.chars().take(120).collect::<String>()
                };
                let why = format!(
                    "{family}, logical expert {expert}: sha256 {}, expected {}",
                    sum(&found),
                    sum(&expected)
                );
                Err(CheckpointError::Checksum { place: place.to_owned(), why })
            }
        }
    }
}
