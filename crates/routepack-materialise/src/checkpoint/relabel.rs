//! New numbers of experts: from slots to logical, or back.

use std::collections::BTreeMap;

use super::folder::Folder;
use super::map::CheckpointMap;
use super::names::Claimed;
use super::{CheckpointError, Direction, Rewrite};

/// New numbers of experts.
#[derive(Debug)]
pub(crate) struct Relabel {
    pub(crate) direction: Direction,
    pub(crate) map_sha256: String,
    /// Layer of the model → number of an expert in the source → its number in the target.
    to: BTreeMap<usize, Vec<usize>>,
}

impl Relabel {
    pub(crate) fn new(job: &Rewrite, folder: &Folder, map: &CheckpointMap) -> Result<Self, CheckpointError> {
        let found = folder.layers();
        let layers: Vec<usize> = map.model_layers.clone().unwrap_or_else(|| found.iter().copied().collect());
        let wrong = |why: String| Err(CheckpointError::input(job.source.display(), why));
        if found.is_empty() {
            return wrong("no tensor has the name of an expert; describe their names with --names".into());
        }
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
        check_models(job, folder, &layers)?;
        folder.check_unclaimed(&job.names, map.log2phys[0].len())?;
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

    /// Experts of a layer.
    pub(crate) fn num_experts(&self) -> usize {
        self.to.values().next().map_or(0, Vec::len)
    }

    /// Layers of the model whose experts get new numbers.
    pub(crate) fn layers(&self) -> impl Iterator<Item = &usize> {
        self.to.keys()
    }

    /// The same as text, for shards to carry.
    pub(crate) fn layers_text(&self) -> String {
        let numbers: Vec<String> = self.layers().map(usize::to_string).collect();
        numbers.join(",")
    }

    /// Whether the experts of a layer get new numbers.
    pub(crate) fn has(&self, layer: usize) -> bool {
        self.to.contains_key(&layer)
    }

    /// The number in the target of an expert that has this one in the source; none if the map has no such expert.
    pub(crate) fn number(&self, layer: usize, number: usize) -> Option<usize> {
        self.to.get(&layer).map_or(Some(number), |to| to.get(number).copied())
    }

    /// The name of a tensor in the target.
    pub(crate) fn name(&self, name: &str, claimed: Option<&Claimed>) -> String {
        let Some(Claimed { layer, expert: Some((expert, at)), .. }) = claimed else { return name.to_owned() };
        match self.to.get(layer) {
            Some(to) => format!("{}{}{}", &name[..at.start], to[*expert], &name[at.end..]),
            None => name.to_owned(),
        }
    }

    /// The logical number of an expert that has this number in the source, or in the target.
    pub(crate) fn logical(&self, layer: usize, number: usize, in_target: bool) -> usize {
        let Some(to) = self.to.get(&layer) else { return number };
        match (self.direction, in_target) {
            (Direction::Apply, false) | (Direction::Canonicalise, true) => number,
            (Direction::Canonicalise, false) => to[number],
            (Direction::Apply, true) => to.iter().position(|&slot| slot == number).expect("a bijection"),
        }
    }
}

/// One map is of one model: a layer has experts under one name, unless those that move are named.
fn check_models(job: &Rewrite, folder: &Folder, layers: &[usize]) -> Result<(), CheckpointError> {
    let wrong = |why: String| Err(CheckpointError::input(job.source.display(), why));
    for prefix in &job.names.prefix {
        if !folder.claimed().any(|(_, tensor, _)| tensor.name.starts_with(prefix)) {
            return wrong(format!("--prefix {prefix}: no experts have names that begin so"));
        }
    }
    let prefix_of = |name: &str| job.names.prefix.iter().position(|prefix| name.starts_with(prefix));
    let mut models: BTreeMap<(usize, Option<usize>), &str> = BTreeMap::new();
    for (_, tensor, claimed) in folder.claimed().filter(|(_, _, claimed)| layers.contains(&claimed.layer)) {
        let model = &tensor.name[..claimed.model_end];
        let other = *models.entry((claimed.layer, prefix_of(&tensor.name))).or_insert(model);
        if other != model {
            let layer = claimed.layer;
            return wrong(format!(
                "layer {layer} has experts under {other}{layer} and under {model}{layer}, which may be two models: \
                 name those that move with --prefix, once for each"
            ));
        }
    }
    Ok(())
}
