//! What a rank holds of its experts: tensors, and kinds of state.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{FlatOptions, MaterialiseError};

/// Most bytes of one kind of state on one rank.
const LIMIT: u128 = 1 << 62;

/// One tensor of every expert.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertTensor {
    /// Name, for messages and for whoever moves it.
    pub name: String,
    /// Elements of one expert's slice on one ETP rank.
    pub elements: u64,
}

/// How state is spread over the EDP group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Held {
    /// Whole experts in slots, a copy on every EDP position: weights.
    BySlot,
    /// Flat ranges over the EDP group: a distributed optimizer's masters and moments.
    Flat,
}

/// One kind of state that every element of its tensors has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StateKind {
    /// Name: `weight`, `master`, …
    pub name: String,
    /// Bytes an element.
    pub element_bytes: u32,
    /// How it is spread.
    pub held: Held,
    /// Names of the tensors that have it; all when absent. A frozen model's masters are of its adapters alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tensors: Option<Vec<String>>,
}

/// Expert state of a model.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ExpertState {
    /// Logical experts per layer.
    pub num_experts: u32,
    /// Tensors of an expert.
    pub tensors: Vec<ExpertTensor>,
    /// Kinds of state.
    pub kinds: Vec<StateKind>,
    /// How flat kinds are cut.
    #[serde(default)]
    pub flat: FlatOptions,
}

impl ExpertState {
    /// A gated expert (gate and up in one tensor, down in another) in BF16 with Adam's FP32 master and moments, as
    /// Megatron's distributed optimizer holds them; `ffn` is divided by the ETP size.
    pub fn mixed_precision_adam(num_experts: u32, hidden: u64, ffn: u64, etp: u32) -> Self {
        let slice = ffn / u64::from(etp);
        let flat =
            |name: &str| StateKind { name: name.into(), element_bytes: 4, held: Held::Flat, tensors: None };
        Self {
            num_experts,
            tensors: vec![
                ExpertTensor { name: "linear_fc1.weight".into(), elements: 2 * hidden * slice },
                ExpertTensor { name: "linear_fc2.weight".into(), elements: hidden * slice },
            ],
            kinds: vec![
                StateKind { name: "weight".into(), element_bytes: 2, held: Held::BySlot, tensors: None },
                flat("master"),
                flat("exp_avg"),
                flat("exp_avg_sq"),
            ],
            flat: FlatOptions::default(),
        }
    }

    /// Sizes are positive and bounded, names are known and said once.
    pub(crate) fn validate(&self, num_layers: usize) -> Result<(), MaterialiseError> {
        let positive = |field: String, value: u64| {
            if value == 0 {
                Err(MaterialiseError::state(field, value, "expected at least 1"))
            } else {
                Ok(())
            }
        };
        positive("num_experts".into(), u64::from(self.num_experts))?;
        positive("tensors".into(), self.tensors.len() as u64)?;
        positive("kinds".into(), self.kinds.len() as u64)?;
        positive("flat.tensor_alignment".into(), self.flat.tensor_alignment)?;
        positive("flat.bucket_alignment".into(), self.flat.bucket_alignment)?;
        for (index, tensor) in self.tensors.iter().enumerate() {
            positive(format!("tensors[{index}].elements"), tensor.elements)?;
            if self.tensors[..index].iter().any(|other| other.name == tensor.name) {
                return Err(MaterialiseError::state(
                    format!("tensors[{index}].name"),
                    &tensor.name,
                    "is there already",
                ));
            }
        }
        let aligned =
            u128::from(self.flat.tensor_alignment) + u128::from(self.flat.bucket_alignment) * 65_536;
        let elements: u128 = self.tensors.iter().map(|tensor| u128::from(tensor.elements) + aligned).sum();
        for (index, kind) in self.kinds.iter().enumerate() {
            positive(format!("kinds[{index}].element_bytes"), u64::from(kind.element_bytes))?;
            let unknown = kind
                .tensors
                .iter()
                .flatten()
                .find(|&name| self.tensors.iter().all(|tensor| tensor.name != *name));
            if let Some(name) = unknown {
                return Err(MaterialiseError::state(
                    format!("kinds[{index}].tensors"),
                    name,
                    "no such tensor",
                ));
            }
            positive(format!("kinds[{index}].tensors"), kind.held_tensors(&self.tensors).count() as u64)?;
            let bytes = elements
                .saturating_mul(u128::from(self.num_experts))
                .saturating_mul(num_layers as u128 + u128::from(self.flat.mtp_layers))
                .saturating_mul(u128::from(kind.element_bytes));
            if bytes > LIMIT {
                return Err(MaterialiseError::state(
                    format!("kinds[{index}]"),
                    bytes,
                    "more than 2^62 bytes",
                ));
            }
        }
        Ok(())
    }
}

impl StateKind {
    /// The tensors that have it, by index, ascending.
    pub(crate) fn held_tensors<'s>(
        &'s self,
        tensors: &'s [ExpertTensor],
    ) -> impl Iterator<Item = usize> + 's {
        let held = |name: &String| self.tensors.as_ref().is_none_or(|names| names.contains(name));
        (0..tensors.len()).filter(move |&tensor| held(&tensors[tensor].name))
    }
}
