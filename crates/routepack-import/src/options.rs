//! What an import must be told beside the file.

use serde::{Deserialize, Serialize};

use crate::ImportError;

/// Most experts a layer may have; ids are held in 16 bits.
pub const MAX_EXPERTS: usize = 1 << 15;

/// What the layer axis holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Layers {
    /// `MoE` layers only.
    Moe,
    /// All layers of the model; these positions (ascending, from 0) are `MoE` layers, the others are dense.
    All(Vec<u32>),
}

/// How rows without routes are charged. The last token's row is never missing: it is not run by rollout engines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Missing {
    /// They are an error.
    #[default]
    Refuse,
    /// They are not charged: `routed_rows` counts what was recorded.
    LeaveOut,
    /// Counts of each layer are scaled up to all tokens of the sample, the last one included.
    ScaleUp,
}

/// What the recorded ids number.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Ids {
    /// Logical experts.
    #[default]
    Logical,
    /// Physical slots, with the logical expert of every slot, `[MoE layers][slots]`; several slots may hold one expert.
    Physical(Vec<Vec<u32>>),
}

/// Options of an import.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ImportOptions {
    /// Experts E per layer.
    pub num_experts: u32,
    /// Experts chosen per token and layer; needed where the shape does not tell, checked where it does.
    #[serde(default)]
    pub top_k: Option<u32>,
    /// Layers on the recorded layer axis; needed where the shape does not tell, checked where it does.
    #[serde(default)]
    pub num_layers: Option<u32>,
    /// What the layer axis holds; needed unless the form says so.
    #[serde(default)]
    pub layers: Option<Layers>,
    /// How rows without routes are charged.
    #[serde(default)]
    pub missing: Missing,
    /// What the ids number.
    #[serde(default)]
    pub ids: Ids,
    /// Tokens of every sample `[samples]`, where the file does not hold them.
    #[serde(default)]
    pub lengths: Option<Vec<u32>>,
}

impl ImportOptions {
    /// Options for E experts, everything else at its default.
    pub fn new(num_experts: u32) -> Self {
        Self {
            num_experts,
            top_k: None,
            num_layers: None,
            layers: None,
            missing: Missing::Refuse,
            ids: Ids::Logical,
            lengths: None,
        }
    }

    /// Checks every option by itself.
    ///
    /// # Errors
    /// The first that is wrong.
    pub fn validate(&self) -> Result<(), ImportError> {
        let experts = self.num_experts as usize;
        if experts == 0 || experts > MAX_EXPERTS {
            let limit = format!("expected 1 to {MAX_EXPERTS}");
            return Err(ImportError::option("num_experts", experts, limit));
        }
        if let Some(top_k) = self.top_k.filter(|&top_k| top_k == 0 || top_k > self.num_experts) {
            return Err(ImportError::option("top_k", top_k, format!("expected 1 to {experts} experts")));
        }
        if let Some(Layers::All(moe)) = &self.layers {
            let ascending = moe.windows(2).all(|pair| pair[0] < pair[1]);
            let within = self.num_layers.is_none_or(|layers| moe.last().is_none_or(|&last| last < layers));
            if moe.is_empty() || !ascending || !within {
                let limit = "expected positions of MoE layers, ascending, below num_layers";
                return Err(ImportError::option("layers", format!("{moe:?}"), limit));
            }
        }
        if let Ids::Physical(map) = &self.ids {
            if map.iter().all(Vec::is_empty) {
                return Err(ImportError::PhysicalIds);
            }
            for (layer, slots) in map.iter().enumerate() {
                if slots.len() < experts || slots.len() > MAX_EXPERTS {
                    let limit = format!("expected {experts} to {MAX_EXPERTS} slots, as there are experts");
                    return Err(ImportError::option(
                        "phys2log",
                        format!("layer {layer}, {} slots", slots.len()),
                        limit,
                    ));
                }
                let mut held = vec![false; experts];
                for (slot, &expert) in slots.iter().enumerate() {
                    let Some(held) = held.get_mut(expert as usize) else {
                        let value = format!("layer {layer}, slot {slot}, expert {expert}");
                        return Err(ImportError::option(
                            "phys2log",
                            value,
                            format!("expected 0 to {}", experts - 1),
                        ));
                    };
                    *held = true;
                }
                if let Some(expert) = held.iter().position(|held| !held) {
                    let value = format!("layer {layer}");
                    return Err(ImportError::option(
                        "phys2log",
                        value,
                        format!("no slot holds expert {expert}"),
                    ));
                }
            }
        }
        Ok(())
    }
}
