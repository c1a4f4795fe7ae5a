//! Who owns expert state: Megatron's expert grid.
//!
//! rank = etp + ETP·(ep + EP·(edp + EDP·pp)), ETP fastest; EDP = DP·TP·CP/(ETP·EP). A layer's experts live on one
//! pipeline stage, in one of its virtual chunks.

use routepack_problem::{Parallelism, Topology};
use serde::{Deserialize, Serialize};

use crate::MaterialiseError;

/// One holder of expert state: a rank, and the model chunk in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Owner {
    /// Pipeline stage.
    pub stage: u32,
    /// Virtual pipeline chunk of the stage.
    pub chunk: u32,
    /// Expert-parallel rank.
    pub ep: u32,
    /// Expert tensor-parallel rank: which slice of every expert.
    pub etp: u32,
    /// Position in the expert data-parallel group: which copy.
    pub edp: u32,
}

/// The expert grid of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpertGrid {
    pub(crate) ep: u32,
    pub(crate) etp: u32,
    pub(crate) edp: u32,
    num_stages: u32,
    /// Stage and chunk of every layer.
    homes: Vec<(u32, u32)>,
}

impl ExpertGrid {
    /// The grid of `parallelism` for a model with `num_layers` `MoE` layers.
    ///
    /// # Errors
    /// Sizes that give no grid; several chunks a stage without `layer_stage`, or more runs of layers than chunks.
    pub fn new(parallelism: &Parallelism, num_layers: usize) -> Result<Self, MaterialiseError> {
        let topology = Topology::new(parallelism, num_layers)?;
        if parallelism.vpp > 1 && parallelism.layer_stage.is_none() {
            return Err(MaterialiseError::state(
                "topology.vpp",
                parallelism.vpp,
                "more than one chunk a stage needs topology.layer_stage",
            ));
        }
        Ok(Self {
            ep: parallelism.ep,
            etp: parallelism.etp(),
            edp: u32::try_from(topology.num_shards())
                .map_err(|_| MaterialiseError::state("topology.dp", parallelism.dp, "too many EDP copies"))?,
            num_stages: parallelism.pp,
            homes: homes(topology.layer_stage(), parallelism.vpp)?,
        })
    }

    /// Layers L.
    pub fn num_layers(&self) -> usize {
        self.homes.len()
    }

    /// Ranks of the world.
    pub fn num_ranks(&self) -> usize {
        self.num_stages as usize * self.edp as usize * self.ep as usize * self.etp as usize
    }

    /// EDP copies of every expert.
    pub fn num_copies(&self) -> u32 {
        self.edp
    }

    /// Slices of every expert: ETP.
    pub fn num_slices(&self) -> u32 {
        self.etp
    }

    /// Stage and chunk of a layer.
    pub fn home(&self, layer: usize) -> (u32, u32) {
        self.homes[layer]
    }

    /// The layers of a stage's chunk, ascending.
    pub fn layers_of(&self, stage: u32, chunk: u32) -> impl Iterator<Item = usize> + '_ {
        (0..self.num_layers()).filter(move |&layer| self.homes[layer] == (stage, chunk))
    }

    /// Megatron's number of the rank an owner is.
    pub fn rank(&self, owner: Owner) -> u32 {
        owner.etp + self.etp * (owner.ep + self.ep * (owner.edp + self.edp * owner.stage))
    }

    /// What a rank is, in the first chunk of its stage: the inverse of [`rank`](Self::rank). `None`: there is no such rank.
    pub fn owner(&self, rank: u32) -> Option<Owner> {
        let (copy, ep, etp) = (rank / self.etp / self.ep, rank / self.etp % self.ep, rank % self.etp);
        let (stage, edp) = (copy / self.edp, copy % self.edp);
        (stage < self.num_stages).then_some(Owner { stage, chunk: 0, ep, etp, edp })
    }

    /// Every owner of a layer, by rank.
    pub fn owners(&self, layer: usize) -> impl Iterator<Item = Owner> + '_ {
        let (stage, chunk) = self.homes[layer];
        (0..self.edp).flat_map(move |edp| {
            (0..self.ep)
                .flat_map(move |ep| (0..self.etp).map(move |etp| Owner { stage, chunk, ep, etp, edp }))
        })
    }
}

/// A stage's chunk ends where another stage's layers come between.
fn homes(stages: &[u32], num_chunks: u32) -> Result<Vec<(u32, u32)>, MaterialiseError> {
    let mut homes: Vec<(u32, u32)> = Vec::with_capacity(stages.len());
    for (layer, &stage) in stages.iter().enumerate() {
        let chunk = match homes.last() {
            Some(&(before, chunk)) if before == stage => chunk,
            _ => homes.iter().filter(|home| home.0 == stage).map(|home| home.1 + 1).max().unwrap_or(0),
        };
        if chunk >= num_chunks {
            return Err(MaterialiseError::state(
                format!("topology.layer_stage[{layer}]"),
                stage,
                format!("the stage's layers are in more than topology.vpp = {num_chunks} runs"),
            ));
        }
        homes.push((stage, chunk));
    }
    Ok(homes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_are_runs_of_a_stage() {
        let p = Parallelism {
            pp: 2,
            vpp: 2,
            layer_stage: Some(vec![0, 0, 1, 0, 1, 1]),
            ..Parallelism::new(4, 2)
        };
        let grid = ExpertGrid::new(&p, 6).expect("valid");
        let homes: Vec<_> = (0..6).map(|layer| grid.home(layer)).collect();
        assert_eq!(homes, [(0, 0), (0, 0), (1, 0), (0, 1), (1, 1), (1, 1)]);
        assert!(ExpertGrid::new(&Parallelism { vpp: 1, ..p.clone() }, 6).is_err());
        assert!(ExpertGrid::new(&Parallelism { layer_stage: None, ..p }, 6).is_err());
    }

    #[test]
    fn ranks_are_numbered_as_megatron_does() {
        // DP 8, EP 4: expert data-parallel groups {0,4}, {1,5}, {2,6}, {3,7}.
        let grid = ExpertGrid::new(&Parallelism::new(8, 4), 1).expect("valid");
        let group = |ep| -> Vec<u32> {
            (0..2).map(|edp| grid.rank(Owner { stage: 0, chunk: 0, ep, etp: 0, edp })).collect()
        };
        assert_eq!([group(0), group(1), group(3)], [[0, 4], [1, 5], [3, 7]]);
        // TP 4, CP 2, EP 4, ETP 1, DP 4: a slot spans two EP groups, 8 copies.
        let p = Parallelism { tp: 4, cp: 2, etp: Some(1), ..Parallelism::new(4, 4) };
        assert_eq!(ExpertGrid::new(&p, 1).expect("valid").num_copies(), 8);
    }

    #[test]
    fn a_rank_is_the_owner_that_has_its_number() {
        let p = Parallelism { tp: 2, pp: 3, etp: Some(2), ..Parallelism::new(8, 4) };
        let grid = ExpertGrid::new(&p, 3).expect("valid");
        for rank in 0..48 {
            let owner = grid.owner(rank).expect("there");
            assert_eq!(grid.rank(owner), rank);
            assert!(grid.owners(owner.stage as usize).any(|other| other == owner));
        }
        assert_eq!(grid.owner(48), None);
    }
}
