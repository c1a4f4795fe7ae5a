//! The model as far as its step time goes: shapes that FLOPs, bytes and parameters follow from.
//!
//! Symbols: h hidden size, P(kind) parameters of an attention layer's projections, m expert width. FLOPs count a
//! multiply-add as two: a token costs 2·P in an attention layer's projections and 6·h·m in a gated expert; a sample of t
//! tokens costs heads·(qk + v)·t² in causal full attention (half the square).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SimulateError;

/// Shapes of a transformer with mixture-of-experts layers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Model {
    /// Name for reports.
    pub name: String,
    /// Where the shapes were published, and which are guesses.
    #[serde(default)]
    pub sources: Vec<String>,
    /// Hidden size h.
    pub hidden: u32,
    /// Words of the vocabulary; the output layer multiplies by them.
    pub vocabulary: u32,
    /// Attention kinds of consecutive layers, repeated from the first layer on; names of `attention`.
    pub pattern: Vec<String>,
    /// Attention kinds.
    pub attention: Vec<Attention>,
    /// Layers without experts; the first of the model.
    #[serde(default)]
    pub dense_layers: u32,
    /// Intermediate width of their gated feed-forward block.
    #[serde(default)]
    pub dense_width: u32,
    /// Layers with experts.
    pub moe_layers: u32,
    /// Routed experts of such a layer.
    pub experts: u32,
    /// Experts that a token takes.
    pub top_k: u32,
    /// Intermediate width m of one expert.
    pub expert_width: u32,
    /// Intermediate width of all shared experts together.
    #[serde(default)]
    pub shared_width: u32,
}

/// One kind of attention layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Attention {
    /// Name in `pattern`.
    pub name: String,
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
    /// Whether cost grows with the square of the length (full attention), or not (linear attention).
    #[serde(default = "yes")]
    pub quadratic: bool,
    /// Parameters of all projections, where heads do not give them (low-rank projections of latent attention).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parameters: Option<u64>,
}

fn yes() -> bool {
    true
}

impl Attention {
    fn v_dim(&self) -> u64 {
        u64::from(self.v_dim.unwrap_or(self.qk_dim))
    }

    /// Parameters P of the projections of one layer: queries, keys, values, output.
    pub fn parameters(&self, hidden: u32) -> u64 {
        let (heads, kv) = (u64::from(self.heads), u64::from(self.kv_heads.unwrap_or(self.heads)));
        let (qk, v) = (u64::from(self.qk_dim), self.v_dim());
        self.parameters.unwrap_or(u64::from(hidden) * (heads * qk + kv * (qk + v) + heads * v))
    }

    /// FLOPs of one layer per t² of a sample, forward; none for linear attention.
    pub fn square_flops(&self) -> u64 {
        if self.quadratic { u64::from(self.heads) * (u64::from(self.qk_dim) + self.v_dim()) } else { 0 }
    }
}

impl Model {
    /// Refuses shapes that describe no model.
    ///
    /// # Errors
    /// A size of 0 or beyond its limit, `top_k` above the experts, or a pattern that names no attention kind.
    pub fn check(&self) -> Result<(), SimulateError> {
        let refuse = |field: &'static str, value: String, limit: &str| {
            Err(SimulateError::Model { model: self.name.clone(), field, value, limit: limit.to_owned() })
        };
        let sizes = [
            ("hidden", self.hidden),
            ("vocabulary", self.vocabulary),
            ("moe_layers", self.moe_layers),
            ("experts", self.experts),
            ("top_k", self.top_k),
            ("expert_width", self.expert_width),
            ("dense_width", self.dense_width.max(1)),
            ("shared_width", self.shared_width.max(1)),
        ];
        for (field, value) in sizes {
            if value == 0 || value > 1 << 24 {
                return refuse(field, value.to_string(), "1 to 2^24");
            }
        }
        if self.top_k > self.experts {
            return refuse("top_k", self.top_k.to_string(), &format!("at most the {} experts", self.experts));
        }
        if u64::from(self.dense_layers) + u64::from(self.moe_layers) > 4096 {
            return refuse("dense_layers", self.dense_layers.to_string(), "at most 4096 layers in all");
        }
        if self.dense_layers > 0 && self.dense_width == 0 {
            return refuse("dense_width", "0".to_owned(), "at least 1 where there are dense layers");
        }
        for kind in &self.attention {
            let sizes = [Some(kind.heads), Some(kind.qk_dim), kind.kv_heads, kind.v_dim];
            if sizes.into_iter().flatten().any(|size| size == 0 || size > 1 << 16) {
                return refuse("attention", kind.name.clone(), "heads and widths of 1 to 2^16");
            }
            if kind.parameters.is_some_and(|parameters| parameters > 1 << 48) {
                return refuse("attention", kind.name.clone(), "at most 2^48 parameters");
            }
        }
        if self.pattern.is_empty() {
            return refuse("pattern", "an empty list".to_owned(), "at least one attention kind");
        }
        match self.pattern.iter().find(|name| self.attention.iter().all(|kind| kind.name != **name)) {
            Some(unknown) => refuse("pattern", unknown.clone(), "names of `attention`"),
            None if self.parameters() > 1 << 60 => {
                refuse("parameters", self.parameters().to_string(), "at most 2^60 in all")
            }
            None => Ok(()),
        }
    }

    /// Layers in all.
    pub fn num_layers(&self) -> usize {
        self.dense_layers as usize + self.moe_layers as usize
    }

    /// The attention kind of a layer, counted from the first of the model.
    pub fn attention_of(&self, layer: usize) -> &Attention {
        let name = &self.pattern[layer % self.pattern.len()];
        self.attention
            .iter()
            .find(|kind| kind.name == *name)
            .expect("a checked model has every kind it names")
    }

    /// Whether a layer, counted from the first of the model, has experts.
    pub fn has_experts(&self, layer: usize) -> bool {
        layer >= self.dense_layers as usize
    }

    /// Parameters of a layer that every token meets: projections, dense block or shared experts, router.
    pub fn common_parameters(&self, layer: usize) -> u64 {
        let hidden = u64::from(self.hidden);
        let block = if self.has_experts(layer) {
            3 * hidden * u64::from(self.shared_width) + hidden * u64::from(self.experts)
        } else {
            3 * hidden * u64::from(self.dense_width)
        };
        self.attention_of(layer).parameters(self.hidden) + block
    }

    /// Parameters of one routed expert.
    pub fn expert_parameters(&self) -> u64 {
        3 * u64::from(self.hidden) * u64::from(self.expert_width)
    }

    /// Parameters of the input or the output embedding.
    pub fn embedding_parameters(&self) -> u64 {
        u64::from(self.hidden) * u64::from(self.vocabulary)
    }

    /// All parameters: what a preset's published total is held against.
    pub fn parameters(&self) -> u128 {
        let common: u128 =
            (0..self.num_layers()).map(|layer| u128::from(self.common_parameters(layer))).sum();
        let experts =
            u128::from(self.moe_layers) * u128::from(self.experts) * u128::from(self.expert_parameters());
        common + experts + 2 * u128::from(self.embedding_parameters())
    }
}

#[cfg(test)]
mod tests {
    use crate::presets::model;

    /// Sums over so large a model went past 64 bits: a panic, not an answer.
    #[test]
    fn models_too_large_to_count_are_refused() {
        let known = model("deepseek-v3").expect("a preset");
        let mut large = known.clone();
        (large.hidden, large.experts, large.expert_width) = (1 << 24, 1 << 24, 1 << 24);
        let error = large.check().expect_err("too large").to_string();
        assert!(error.contains("at most 2^60 in all"), "{error}");
        let mut wide = known.clone();
        (wide.attention[0].heads, wide.attention[0].qk_dim) = (u32::MAX, u32::MAX);
        let error = wide.check().expect_err("too wide").to_string();
        assert!(error.contains("heads and widths of 1 to 2^16"), "{error}");
        let mut shared = known;
        shared.shared_width = u32::MAX;
        assert!(shared.check().expect_err("too wide").to_string().contains("shared_width"));
    }
}
