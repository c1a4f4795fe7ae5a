//! Which DP slots share an EP communicator: Megatron's rank grid as EDP shards.
//!
//! With m = ETP·EP/(TP·CP) (order tp-cp-ep-dp-pp, first fastest): m ≥ 1 whole and dividing D puts DP slots
//! g·m … (g+1)·m−1 into shard g; m = 1/parts < 1 spreads one DP slot over `parts` shards (DESIGN §1.1).

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::ProblemError;

/// The only rank order understood, fastest first.
const ORDER: &str = "tp-cp-ep-dp-pp";

/// Parallel sizes in Megatron's words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parallelism {
    /// Data-parallel slots D.
    pub dp: u32,
    /// Expert-parallel ranks P.
    pub ep: u32,
    /// Tensor parallel size.
    #[serde(default = "one")]
    pub tp: u32,
    /// Context parallel size.
    #[serde(default = "one")]
    pub cp: u32,
    /// Pipeline stages.
    #[serde(default = "one")]
    pub pp: u32,
    /// Virtual pipeline chunks per stage.
    #[serde(default = "one")]
    pub vpp: u32,
    /// Expert tensor parallel size; `tp` when absent, as in Megatron.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etp: Option<u32>,
    /// Rank order, fastest first; only `tp-cp-ep-dp-pp` is supported.
    #[serde(default = "order")]
    pub order: String,
    /// Pipeline stage of every `MoE` layer `[layers]`; contiguous equal parts when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub layer_stage: Option<Vec<u32>>,
}

fn one() -> u32 {
    1
}

fn order() -> String {
    ORDER.to_owned()
}

impl Parallelism {
    /// Sizes with everything but `dp` and `ep` at 1.
    pub fn new(dp: u32, ep: u32) -> Self {
        Self { dp, ep, tp: 1, cp: 1, pp: 1, vpp: 1, etp: None, order: order(), layer_stage: None }
    }

    /// Expert tensor parallel size, `tp` by default.
    pub fn etp(&self) -> u32 {
        self.etp.unwrap_or(self.tp)
    }
}

/// The shards of a rank grid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topology {
    num_slots: u32,
    num_ranks: u32,
    slots_per_shard: u32,
    parts: u32,
    num_stages: u32,
    layer_stage: Vec<u32>,
}

impl Topology {
    /// The topology of `parallelism` for a model with `num_layers` recorded `MoE` layers.
    ///
    /// # Errors
    /// A size of 0, another rank order, sizes that give no whole shards, or a bad `layer_stage`.
    pub fn new(parallelism: &Parallelism, num_layers: usize) -> Result<Self, ProblemError> {
        let p = parallelism;
        let etp = p.etp();
        for (field, value) in [
            ("topology.dp", p.dp),
            ("topology.ep", p.ep),
            ("topology.tp", p.tp),
            ("topology.cp", p.cp),
            ("topology.pp", p.pp),
            ("topology.vpp", p.vpp),
            ("topology.etp", etp),
        ] {
            if value == 0 || value > 65_536 {
                return Err(ProblemError::setting(field, value, "expected 1 to 65536"));
            }
        }
        if p.order != ORDER {
            return Err(ProblemError::setting(
                "topology.order",
                &p.order,
                format!("only the rank order {ORDER} is supported"),
            ));
        }
        let (expert, dense) = (u64::from(etp) * u64::from(p.ep), u64::from(p.tp) * u64::from(p.cp));
        let fail = |why| ProblemError::Shards { etp, ep: p.ep, tp: p.tp, cp: p.cp, dp: p.dp, why };
        let (slots_per_shard, parts) = if expert % dense == 0 {
            let m = expert / dense;
            if u64::from(p.dp) % m != 0 {
                return Err(fail("m = etp·ep/(tp·cp) must divide dp"));
            }
            (m as u32, 1)
        } else if dense % expert == 0 {
            (1, u32::try_from(dense / expert).map_err(|_| fail("tp·cp/(etp·ep) is too large"))?)
        } else {
            return Err(fail("neither etp·ep/(tp·cp) nor its inverse is a whole number"));
        };
        Ok(Self {
            num_slots: p.dp,
            num_ranks: p.ep,
            slots_per_shard,
            parts,
            num_stages: p.pp,
            layer_stage: layer_stages(p, num_layers)?,
        })
    }

    /// DP slots D.
    pub fn num_slots(&self) -> usize {
        self.num_slots as usize
    }

    /// EP ranks P.
    pub fn num_ranks(&self) -> usize {
        self.num_ranks as usize
    }

    /// EDP shards G.
    pub fn num_shards(&self) -> usize {
        self.num_groups() * self.num_parts()
    }

    /// Parts a DP slot's tokens are cut into, each with an EP communicator of its own; 1 unless m < 1.
    pub fn num_parts(&self) -> usize {
        self.parts as usize
    }

    /// Slot groups: sets of DP slots that share their shards; G / parts of them.
    pub fn num_groups(&self) -> usize {
        (self.num_slots / self.slots_per_shard) as usize
    }

    /// DP slots per shard, |`D_g`|.
    pub fn slots_per_shard(&self) -> usize {
        self.slots_per_shard as usize
    }

    /// The slot group of a DP slot.
    pub fn group_of(&self, slot: usize) -> usize {
        slot / self.slots_per_shard()
    }

    /// The DP slots of a slot group.
    pub fn group_slots(&self, group: usize) -> Range<usize> {
        let width = self.slots_per_shard();
        group * width..(group + 1) * width
    }

    /// The slot group and part of shard g: shard = group · parts + part.
    pub fn shard_group_and_part(&self, shard: usize) -> (usize, usize) {
        (shard / self.num_parts(), shard % self.num_parts())
    }

    /// The DP slots `D_g` of a shard.
    pub fn shard_slots(&self, shard: usize) -> Range<usize> {
        self.group_slots(self.shard_group_and_part(shard).0)
    }

    /// Pipeline stages.
    pub fn num_stages(&self) -> usize {
        self.num_stages as usize
    }

    /// Pipeline stage of every `MoE` layer, `[layers]`.
    pub fn layer_stage(&self) -> &[u32] {
        &self.layer_stage
    }
}

fn layer_stages(p: &Parallelism, num_layers: usize) -> Result<Vec<u32>, ProblemError> {
    let Some(stages) = &p.layer_stage else {
        return Ok((0..num_layers as u64)
            .map(|layer| (layer * u64::from(p.pp) / num_layers as u64) as u32)
            .collect());
    };
    if num_layers > 0 && stages.len() != num_layers {
        return Err(ProblemError::shape("topology.layer_stage", &[stages.len()], format!("[{num_layers}]")));
    }
    if let Some((layer, stage)) = stages.iter().enumerate().find(|&(_, &stage)| stage >= p.pp) {
        return Err(ProblemError::value(
            "topology.layer_stage",
            layer,
            stage,
            format!("stages are 0 to {}", p.pp - 1),
        ));
    }
    Ok(if num_layers > 0 { stages.clone() } else { Vec::new() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shards(dp: u32, ep: u32, tp: u32, cp: u32, etp: u32) -> Result<Vec<Vec<usize>>, ProblemError> {
        let parallelism = Parallelism { tp, cp, etp: Some(etp), ..Parallelism::new(dp, ep) };
        let topology = Topology::new(&parallelism, 4)?;
        Ok((0..topology.num_shards()).map(|g| topology.shard_slots(g).collect()).collect())
    }

    /// Megatron's definition, from ranks: shard = rank div (ETP·EP), slot = rank div (TP·CP).
    fn shards_from_ranks(dp: u32, ep: u32, tp: u32, cp: u32, etp: u32) -> Vec<Vec<usize>> {
        let (world, wide) = (dp * tp * cp, etp * ep);
        (0..world / wide)
            .map(|g| {
                let mut slots: Vec<usize> =
                    (g * wide..(g + 1) * wide).map(|rank| (rank / (tp * cp)) as usize).collect();
                slots.dedup();
                slots
            })
            .collect()
    }

    #[test]
    fn shards_are_those_of_the_rank_grid() {
        let mut seen = 0;
        for dp in 1..=8 {
            for ep in [1, 2, 4, 8] {
                for tp in [1, 2, 4] {
                    for cp in [1, 2] {
                        for etp in [1, 2, 4] {
                            if let Ok(shards) = shards(dp, ep, tp, cp, etp) {
                                assert_eq!(shards, shards_from_ranks(dp, ep, tp, cp, etp));
                                seen += 1;
                            }
                        }
                    }
                }
            }
        }
        assert!(seen > 200, "{seen} grids");
    }

    #[test]
    fn the_example_of_the_design() {
        assert_eq!(shards(8, 4, 1, 1, 1), Ok(vec![vec![0, 1, 2, 3], vec![4, 5, 6, 7]]));
    }

    #[test]
    fn refuses_by_name() {
        assert!(shards(8, 3, 2, 1, 1).is_err());
        assert!(shards(6, 4, 1, 1, 1).is_err());
        let other = Parallelism { order: "tp-cp-ep-pp-dp".into(), ..Parallelism::new(8, 4) };
        let error = Topology::new(&other, 1).expect_err("refused").to_string();
        assert!(error.contains("tp-cp-ep-pp-dp"), "{error}");
    }

    #[test]
    fn layers_get_stages() {
        let p = Parallelism { pp: 2, ..Parallelism::new(1, 1) };
        assert_eq!(Topology::new(&p, 5).expect("valid").layer_stage(), [0, 0, 0, 1, 1]);
    }
}
