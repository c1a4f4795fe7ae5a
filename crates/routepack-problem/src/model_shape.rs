//! Cost weights from the shapes of a model, by counting forward FLOPs (DESIGN §1.3: α, β per attention kind, γ per layer).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{AttentionKind, ExactDecimal, Parallelism, ProblemError};

/// Attention layers of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionLayers {
    /// Name for reports.
    pub name: String,
    /// Layers of this kind.
    pub layers: u32,
    /// Full attention (quadratic in the length), or linear attention.
    #[serde(default = "yes")]
    pub quadratic: bool,
}

fn yes() -> bool {
    true
}

/// Model shape, from which weights follow by counting forward FLOPs.
///
/// Per attention layer and token: 2·P with P = hidden·(heads·qk + `kv_heads`·(qk + v) + heads·v); full attention adds
/// heads·(qk + v) per token pair of the causal half. Per token and chosen expert: 6·hidden·`expert_width`. The output layer,
/// where `vocabulary` is told: 2·hidden·`vocabulary` per token, a kind of its own (`output`, β = 0), for slots wait for each
/// other once more after it. Dense work is cut over tp·cp ranks, expert work over etp ranks. Weights are scaled so that the
/// α of all kinds sum to 1.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ModelShape {
    /// Hidden size.
    pub hidden: u32,
    /// Query heads.
    pub heads: u32,
    /// Key-value heads; `heads` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kv_heads: Option<u32>,
    /// Width of a query or key head.
    pub qk_dim: u32,
    /// Width of a value head; `qk_dim` when absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub v_dim: Option<u32>,
    /// Intermediate width of one expert.
    pub expert_width: u32,
    /// Words of the output layer (LM head); it is not charged when absent, as in the paper.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vocabulary: Option<u32>,
    /// Attention layers by kind.
    pub attention: Vec<AttentionLayers>,
}

impl ModelShape {
    /// Attention kinds and γ, scaled so that the α sum to 1; β carries the factor C that the charge divides by.
    pub(crate) fn weights(
        &self,
        parallelism: &Parallelism,
        capacity: u32,
    ) -> Result<(Vec<AttentionKind>, ExactDecimal), ProblemError> {
        let dense = u64::from(parallelism.tp) * u64::from(parallelism.cp);
        let etp = u64::from(parallelism.etp());
        let positive = |field, value: u32| {
            if value == 0 || value > 1 << 20 {
                return Err(ProblemError::setting(field, value, "expected 1 to 2^20"));
            }
            Ok(u64::from(value))
        };
        let hidden = positive("cost.shape.hidden", self.hidden)?;
        let heads = positive("cost.shape.heads", self.heads)?;
        let kv_heads = positive("cost.shape.kv_heads", self.kv_heads.unwrap_or(self.heads))?;
        let qk = positive("cost.shape.qk_dim", self.qk_dim)?;
        let v = positive("cost.shape.v_dim", self.v_dim.unwrap_or(self.qk_dim))?;
        let width = positive("cost.shape.expert_width", self.expert_width)?;
        let words = self.vocabulary.map(|words| positive("cost.shape.vocabulary", words)).transpose()?;
        let output = u128::from(2 * hidden * words.unwrap_or(0));
        let projections = 2 * hidden * (heads * qk + kv_heads * (qk + v) + heads * v);
        let pairs = heads * (qk + v);
        let layers: u64 = self.attention.iter().map(|kind| u64::from(kind.layers)).sum();
        if layers == 0 || layers > 4096 {
            return Err(ProblemError::setting(
                "cost.shape.attention",
                layers,
                "expected 1 to 4096 layers in all",
            ));
        }
        let unit = u128::from(layers) * u128::from(projections) + output;
        let mut kinds: Vec<AttentionKind> = self
            .attention
            .iter()
            .map(|kind| AttentionKind {
                name: kind.name.clone(),
                alpha: ExactDecimal::ratio(u128::from(kind.layers) * u128::from(projections), unit),
                beta: if kind.quadratic {
                    ExactDecimal::ratio(
                        u128::from(kind.layers) * u128::from(pairs) * u128::from(capacity),
                        unit,
                    )
                } else {
                    ExactDecimal::ZERO
                },
            })
            .collect();
        kinds.extend((output > 0).then(|| AttentionKind {
            name: "output".to_owned(),
            alpha: ExactDecimal::ratio(output, unit),
            beta: ExactDecimal::ZERO,
        }));
        Ok((
            kinds,
            ExactDecimal::ratio(u128::from(6 * hidden * width) * u128::from(dense), u128::from(etp) * unit),
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hidden 2, one head of 3: 2·2·(3 + 6 + 3) = 48 FLOPs of projections a layer and token, 6 a pair.
    fn shape(vocabulary: Option<u32>) -> ModelShape {
        ModelShape {
            hidden: 2,
            heads: 1,
            kv_heads: None,
            qk_dim: 3,
            v_dim: None,
            expert_width: 4,
            vocabulary,
            attention: vec![
                AttentionLayers { name: "linear".to_owned(), layers: 3, quadratic: false },
                AttentionLayers { name: "full".to_owned(), layers: 1, quadratic: true },
            ],
        }
    }

    fn weights(shape: &ModelShape) -> (Vec<(String, f64, f64)>, f64) {
        let (kinds, gamma) = shape.weights(&Parallelism::new(1, 1), 16).expect("in range");
        let kinds = kinds.into_iter().map(|kind| (kind.name, kind.alpha.to_f64(), kind.beta.to_f64()));
        (kinds.collect(), gamma.to_f64())
    }

    #[test]
    fn flops_are_counted() {
        let (kinds, gamma) = weights(&shape(None));
        assert_eq!(kinds, [("linear".to_owned(), 0.75, 0.0), ("full".to_owned(), 0.25, 6.0 * 16.0 / 192.0)]);
        assert_eq!(gamma.to_bits(), (48.0f64 / 192.0).to_bits());
    }

    /// 2·2·48 FLOPs a token: as much as the projections of all four layers, so everything else counts half.
    #[test]
    fn an_output_layer_is_a_kind_of_its_own() {
        let (kinds, gamma) = weights(&shape(Some(48)));
        let expected = [
            ("linear".to_owned(), 0.375, 0.0),
            ("full".to_owned(), 0.125, 0.25),
            ("output".to_owned(), 0.5, 0.0),
        ];
        assert_eq!(kinds, expected);
        assert_eq!(gamma.to_bits(), 0.125f64.to_bits());
        let refused = shape(Some(0)).weights(&Parallelism::new(1, 1), 16).expect_err("no words").to_string();
        assert!(refused.contains("cost.shape.vocabulary = 0: expected 1 to 2^20"), "{refused}");
    }
}
