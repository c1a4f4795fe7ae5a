//! Cost model: decimal weights → exact integer charges (DESIGN §1.3).
//!
//! φ[s,i] = round half up of S·(α_s·t_i + β_s·t_i²/C) and Γ_l = round half up of S·γ_l, with S = 2^k. The least k is
//! taken at which rounding changes no kind's total and no Γ_l by more than one part in 10⁶; floats choose k, integers
//! do the rest. Every total of a report stays below 2^62: attention is charged once a part, expert peaks at most once a
//! routed row (a weight below 1 counts as 1 there, so that loads and peaks themselves are covered).

use std::fmt;

use schemars::JsonSchema;
use serde::de::{self, IntoDeserializer};
use serde::{Deserialize, Deserializer, Serialize};

use crate::{ExactDecimal, ModelShape, Parallelism, ProblemError, Topology};

/// Totals must stay below this.
const EXACT_LIMIT: i128 = 1 << 62;
/// Largest scale exponent: beyond it every total is.
const MAX_SCALE_BITS: u32 = 61;
/// Relative rounding error allowed.
const ROUNDING: f64 = 1e-6;

/// Cost of one attention kind: α per token plus β per token² over C, on one cell.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct AttentionKind {
    /// Name for reports.
    pub name: String,
    /// Linear weight α per padded token.
    pub alpha: ExactDecimal,
    /// Quadratic weight β; 0 for linear attention.
    #[serde(default)]
    pub beta: ExactDecimal,
}

/// Weight γ of the expert peak per routed row: one for all layers, or one a layer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Gamma {
    /// The same weight on every layer.
    Every(ExactDecimal),
    /// One weight per layer `[layers]`.
    PerLayer(Vec<ExactDecimal>),
}

impl<'de> Deserialize<'de> for Gamma {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl<'de> de::Visitor<'de> for Visitor {
            type Value = Gamma;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(
                    "a decimal number of at least 0 (a number or a string), or a list of them, one a layer",
                )
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<Gamma, E> {
                ExactDecimal::deserialize(text.into_deserializer()).map(Gamma::Every)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<Gamma, E> {
                ExactDecimal::deserialize(value.into_deserializer()).map(Gamma::Every)
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<Gamma, E> {
                ExactDecimal::deserialize(value.into_deserializer()).map(Gamma::Every)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<Gamma, E> {
                ExactDecimal::deserialize(value.into_deserializer()).map(Gamma::Every)
            }

            fn visit_seq<A: de::SeqAccess<'de>>(self, seq: A) -> Result<Gamma, A::Error> {
                Vec::deserialize(de::value::SeqAccessDeserializer::new(seq)).map(Gamma::PerLayer)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

fn is_default<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Which pipeline stages pace a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Pace {
    /// All layers together: U is the sum over rows of J, over all layers, as in the paper.
    #[default]
    AllLayers,
    /// The slowest stage: a stage's row costs an equal part of the attention, rounded up, and the expert peaks of its own
    /// layers; U is the largest sum over rows of any stage. With one stage, the same as all layers.
    SlowestStage,
}

/// Cost model of a job. Explicit `kinds` and `gamma` win over `shape`.
///
/// Without any: one full-attention kind with α = β = 1, and γ such that perfectly balanced expert ranks cost as much in
/// all layers together as the linear attention term, γ = parts·P/(L·`top_k`·|`D_g`|).
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CostModel {
    /// Attention kinds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kinds: Option<Vec<AttentionKind>>,
    /// Expert weight.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gamma: Option<Gamma>,
    /// Model shape to derive the weights from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shape: Option<ModelShape>,
    /// Which pipeline stages pace a shard.
    #[serde(skip_serializing_if = "is_default")]
    pub pace: Pace,
}

/// Weights in force for one instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ResolvedCost {
    /// Attention kinds.
    pub kinds: Vec<AttentionKind>,
    /// Expert weight γ `[layers]`.
    pub gamma: Vec<ExactDecimal>,
}

impl CostModel {
    /// The weights in force for a topology, a cell of `capacity` tokens, L recorded layers and `top_k`.
    ///
    /// # Errors
    /// No attention kind, a kind whose weights are both 0, or `gamma` of another length than L.
    pub fn resolve(
        &self,
        parallelism: &Parallelism,
        topology: &Topology,
        capacity: u32,
        num_layers: usize,
        top_k: u32,
    ) -> Result<ResolvedCost, ProblemError> {
        let (shape_kinds, shape_gamma) = match &self.shape {
            Some(shape) => {
                let (kinds, gamma) = shape.weights(parallelism, capacity)?;
                (Some(kinds), Some(gamma))
            }
            None => (None, None),
        };
        let kinds = self.kinds.clone().or(shape_kinds).unwrap_or_else(|| {
            vec![AttentionKind { name: "full".into(), alpha: ExactDecimal::ONE, beta: ExactDecimal::ONE }]
        });
        if kinds.is_empty() || kinds.len() > 16 {
            return Err(ProblemError::setting("cost.kinds", kinds.len(), "expected 1 to 16 attention kinds"));
        }
        let gamma = match (&self.gamma, shape_gamma) {
            (Some(Gamma::PerLayer(gamma)), _) => {
                if gamma.len() != num_layers {
                    return Err(ProblemError::shape("cost.gamma", &[gamma.len()], format!("[{num_layers}]")));
                }
                gamma.clone()
            }
            (Some(Gamma::Every(gamma)), _) => vec![*gamma; num_layers],
            (None, Some(gamma)) => vec![gamma; num_layers],
            (None, None) => {
                let (ranks, parts) = (topology.num_ranks() as u64, topology.num_parts() as u64);
                let routed = num_layers as u64 * u64::from(top_k) * topology.slots_per_shard() as u64;
                vec![ExactDecimal::ratio(u128::from(ranks * parts), u128::from(routed)); num_layers]
            }
        };
        Ok(ResolvedCost { kinds, gamma })
    }
}

/// Exact integer charges of the samples and layers of one instance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Charges {
    scale_bits: u32,
    num_kinds: usize,
    attention: Vec<u64>,
    expert: Vec<u64>,
    /// Upper bound on every total of any layout of all samples this was computed for.
    total: i128,
}

/// Everything that enters a total.
pub(crate) struct ChargeInputs<'a> {
    pub(crate) cost: &'a ResolvedCost,
    /// Padded tokens `[samples]`.
    pub(crate) padded: &'a [u32],
    /// Given cost `[samples, kinds]`.
    pub(crate) table: Option<&'a [u32]>,
    /// Cell capacity C of the cost formula.
    pub(crate) capacity: u32,
    /// Parts of a DP slot, each charged with the attention of the whole slot.
    pub(crate) parts: usize,
    /// Upper bound on all routed rows of one layer, padding included.
    pub(crate) routed_rows: u128,
}

impl Charges {
    /// The least scale that keeps rounding below 10⁻⁶, and the charges at that scale.
    ///
    /// # Errors
    /// A total that leaves the exact range, or would before a small weight could be told from its rounding.
    pub(crate) fn choose(inputs: &ChargeInputs<'_>) -> Result<Self, ProblemError> {
        if let Some(bits) = (0..=MAX_SCALE_BITS).find(|&bits| rounding_is_small(inputs, bits))
            && let Ok(charges) = Self::at_scale(inputs, bits)
        {
            return Ok(charges);
        }
        let mut largest = Self::at_scale(inputs, 0)?;
        while let Ok(charges) = Self::at_scale(inputs, largest.scale_bits + 1) {
            largest = charges;
        }
        Err(too_fine(inputs, &largest))
    }

    /// Lowers the weight Γ of every layer to a percentage, rounded down.
    pub(crate) fn discount_expert(&mut self, percent: u32) {
        for weight in &mut self.expert {
            *weight = (u128::from(*weight) * u128::from(percent.min(100)) / 100) as u64;
        }
    }

    pub(crate) fn at_scale(inputs: &ChargeInputs<'_>, scale_bits: u32) -> Result<Self, ProblemError> {
        let num_kinds = inputs.cost.kinds.len();
        let mut attention = Vec::with_capacity(inputs.padded.len() * num_kinds);
        let mut total = 0i128;
        if scale_bits > MAX_SCALE_BITS || i128::from(inputs.capacity) << scale_bits >= EXACT_LIMIT {
            return Err(ProblemError::overflow(
                "S·C, the unit of costs",
                format!("2^{scale_bits}·{}", inputs.capacity),
            ));
        }
        for (sample, &tokens) in inputs.padded.iter().enumerate() {
            for (kind, weights) in inputs.cost.kinds.iter().enumerate() {
                let charge = match inputs.table {
                    Some(table) => Some(i128::from(table[sample * num_kinds + kind]) << scale_bits),
                    None => attention_charge(weights, tokens, inputs.capacity, scale_bits),
                };
                let charge = charge.filter(|&charge| charge < EXACT_LIMIT).ok_or_else(|| {
                    let value = format!("sample {sample}, {tokens} tokens");
                    ProblemError::overflow("attention cost of a sample", value)
                })?;
                total += charge;
                attention.push(charge as u64);
            }
        }
        total = total.saturating_mul(inputs.parts as i128);
        let mut expert = Vec::with_capacity(inputs.cost.gamma.len());
        for gamma in &inputs.cost.gamma {
            let charge =
                scaled(*gamma, scale_bits).ok_or_else(|| ProblemError::overflow("expert weight", gamma))?;
            let rows = i128::try_from(inputs.routed_rows).unwrap_or(i128::MAX);
            total = total.saturating_add(i128::from(charge).max(1).saturating_mul(rows));
            expert.push(charge);
        }
        if total >= EXACT_LIMIT {
            return Err(ProblemError::overflow("total cost", total));
        }
        Ok(Self { scale_bits, num_kinds, attention, expert, total })
    }

    /// The charges of some of the samples, in the order given.
    pub(crate) fn of(&self, samples: &[u32]) -> Self {
        let attention = samples.iter().flat_map(|&sample| self.attention(sample as usize)).copied().collect();
        Self { attention, ..self.clone_without_samples() }
    }

    /// The same charges with `count` more samples, each charged as the only one of `other`.
    pub(crate) fn followed_by(&self, other: &Self, count: usize) -> Self {
        let more = std::iter::repeat_n(other.attention(0), count).flatten();
        let attention = self.attention.iter().chain(more).copied().collect();
        Self { attention, ..self.clone_without_samples() }
    }

    fn clone_without_samples(&self) -> Self {
        Self { attention: Vec::new(), expert: self.expert.clone(), ..*self }
    }

    /// What may be added before totals leave the exact range.
    pub(crate) fn room(&self) -> i128 {
        EXACT_LIMIT - self.total
    }

    /// No total of a report is larger.
    pub(crate) fn total(&self) -> i128 {
        self.total
    }

    /// k of the scale S = 2^k.
    pub fn scale_bits(&self) -> u32 {
        self.scale_bits
    }

    /// Attention kinds.
    pub fn num_kinds(&self) -> usize {
        self.num_kinds
    }

    /// φ of one sample, `[kinds]`.
    pub fn attention(&self, sample: usize) -> &[u64] {
        &self.attention[sample * self.num_kinds..(sample + 1) * self.num_kinds]
    }

    /// Γ, `[layers]`: charge per routed row of a layer's peak.
    pub fn expert(&self) -> &[u64] {
        &self.expert
    }
}

/// S·weight, rounded half up; `None` from 2^62 on.
pub(crate) fn scaled(weight: ExactDecimal, scale_bits: u32) -> Option<u64> {
    let (mantissa, exponent) = weight.fraction();
    mantissa
        .checked_mul(1 << scale_bits)
        .map(|scaled| round_half_up(scaled, 10i128.pow(exponent)))
        .filter(|&charge| charge < EXACT_LIMIT)
        .map(|charge| charge as u64)
}

fn attention_charge(kind: &AttentionKind, tokens: u32, capacity: u32, scale_bits: u32) -> Option<i128> {
    let ((alpha, alpha_exponent), (beta, beta_exponent)) = (kind.alpha.fraction(), kind.beta.fraction());
    let exponent = alpha_exponent.max(beta_exponent);
    let (tokens, capacity) = (i128::from(tokens), i128::from(capacity));
    let linear = alpha.checked_mul(10i128.pow(exponent - alpha_exponent))?.checked_mul(tokens * capacity)?;
    let quadratic = beta.checked_mul(10i128.pow(exponent - beta_exponent))?.checked_mul(tokens * tokens)?;
    let numerator = linear.checked_add(quadratic)?.checked_mul(1 << scale_bits)?;
    Some(round_half_up(numerator, capacity.checked_mul(10i128.pow(exponent))?))
}

/// Nearest integer to `numerator / denominator`, halves up; both nonnegative.
fn round_half_up(numerator: i128, denominator: i128) -> i128 {
    numerator / denominator + i128::from(numerator % denominator >= denominator - numerator % denominator)
}

fn rounding_is_small(inputs: &ChargeInputs<'_>, bits: u32) -> bool {
    inputs.cost.gamma.iter().all(|&gamma| gamma_is_fine(gamma, bits))
        && inputs.cost.kinds.iter().all(|kind| kind_is_fine(inputs, kind, bits))
}

/// Whether S·weight is whole.
fn is_exact(weight: ExactDecimal, bits: u32) -> bool {
    let (mantissa, exponent) = weight.fraction();
    mantissa.checked_mul(1 << bits).is_some_and(|scaled| scaled % 10i128.pow(exponent) == 0)
}

fn gamma_is_fine(gamma: ExactDecimal, bits: u32) -> bool {
    is_exact(gamma, bits) || 0.5 <= ROUNDING * f64::from(bits).exp2() * gamma.to_f64()
}

fn kind_is_fine(inputs: &ChargeInputs<'_>, kind: &AttentionKind, bits: u32) -> bool {
    if inputs.table.is_some() || (kind.beta.is_zero() && is_exact(kind.alpha, bits)) {
        return true;
    }
    let total: f64 = inputs
        .padded
        .iter()
        .map(|&tokens| {
            let tokens = f64::from(tokens);
            kind.alpha.to_f64() * tokens + kind.beta.to_f64() * tokens * tokens / f64::from(inputs.capacity)
        })
        .sum();
    total == 0.0 || 0.5 * inputs.padded.len() as f64 <= ROUNDING * f64::from(bits).exp2() * total
}

/// Names a weight that rounding would change by more than one part in 10⁶ at the largest scale.
fn too_fine(inputs: &ChargeInputs<'_>, largest: &Charges) -> ProblemError {
    let bits = largest.scale_bits;
    let why = format!(
        "too small beside the other costs: rounding below 10⁻⁶ would take totals beyond 2^62 (scale 2^{bits} is the largest)"
    );
    if let Some(gamma) = inputs.cost.gamma.iter().find(|&&gamma| !gamma_is_fine(gamma, bits)) {
        let least = 0.5 / (ROUNDING * f64::from(bits).exp2());
        return ProblemError::setting(
            "cost.gamma",
            gamma,
            format!("{why}; 0, or at least {least:.1e}, can be charged"),
        );
    }
    let kind = inputs.cost.kinds.iter().find(|kind| !kind_is_fine(inputs, kind, bits));
    let name = kind.map_or("", |kind| &kind.name);
    ProblemError::setting("cost.kinds", format!("`{name}`"), why)
}
