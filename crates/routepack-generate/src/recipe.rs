//! Recipes of windows: everything a window depends on beside the seed.

use routepack_problem::{Attribution, Setting, Topology};
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::{GenerateError, Preset};

/// Largest number of counts in one window, `samples · layers · experts`.
const MAX_COUNTS: u64 = 1 << 30;
/// Largest number of samples in one window.
const MAX_SAMPLES: u64 = 1 << 24;
/// Largest number of popularities kept, `(domains + 1) · layers · experts`.
const MAX_POPULARITIES: u64 = 1 << 27;
/// Largest standard deviation of a logarithm: beyond it exponentials overflow.
const MAX_SIGMA: f64 = 5.0;

/// Recipe of a window and of the job that belongs to it. The default is [`Preset::Tiny`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WindowRecipe {
    /// Prompts per optimizer step; not used with `knife_edge`, where the samples fill the cells.
    pub prompts: u32,
    /// Samples (responses) per prompt, 1 to 1000.
    pub group: u32,
    /// Optimizer steps.
    pub steps: u32,
    /// Domains; prompt j belongs to domain j mod `domains`.
    pub domains: u32,
    /// Tokens at the end of each sample whose routes are not recorded: 1 where the last sampled token has no
    /// forward pass, else 0.
    pub unrouted_tokens: u32,
    /// Lengths of prompts and responses.
    pub lengths: LengthRecipe,
    /// Expert choices; lengths alone when absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub routing: Option<RoutingRecipe>,
    /// Make first-fit decreasing need a row more than there must be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub knife_edge: Option<KnifeEdgeRecipe>,
    /// The job: topology, routing, packing, cost.
    pub setting: Setting,
}

/// Lengths of prompts and responses, in tokens.
///
/// ln prompt ~ N(ln `prompt_median`, `prompt_sigma`²), shared by the group. ln response ~ N(ln `response_median`,
/// `response_sigma`²), of which the fraction `shared` of the variance is common to the group, and the median itself
/// varies over domains. Prompt and response together are cut at `max_total`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LengthRecipe {
    /// Median tokens of a prompt.
    pub prompt_median: f64,
    /// Standard deviation of the logarithm of a prompt's tokens.
    pub prompt_sigma: f64,
    /// Median tokens of a response.
    pub response_median: f64,
    /// Standard deviation of the logarithm of a response's tokens, within a domain.
    pub response_sigma: f64,
    /// Fraction of the variance of ln response that all responses to a prompt share, 0 to 1.
    pub shared: f64,
    /// Standard deviation over domains of the logarithm of the response median.
    pub domain_sigma: f64,
    /// Shortest response, tokens, at least 1.
    pub min_response: u32,
    /// Tokens at which prompt + response is cut, at least 2.
    pub max_total: u32,
    /// Fraction of responses that run to the cut whatever their draw: the spike beside the clipped tail, 0 to 1.
    pub truncated: f64,
}

impl Default for LengthRecipe {
    fn default() -> Self {
        Self {
            prompt_median: 90.0,
            prompt_sigma: 0.4,
            response_median: 560.0,
            response_sigma: 0.75,
            shared: 0.3,
            domain_sigma: 0.0,
            min_response: 1,
            max_total: 8192,
            truncated: 0.005,
        }
    }
}

/// Expert choices: sizes, and standard deviations of the parts of an expert's log-popularity.
///
/// The log-popularity of expert e at layer l for a sample is base + block + domain + prompt + sample, all normal and
/// independent; pairs of numbers are the first and the last layer's, straight in between. The defaults follow the
/// released loads of OLMoE-1B-7B (layers 0, 7 and 15 of 64 experts, 6 domains): logarithms vary by 0.26 to 0.66 over all
/// text and by 0.46 to 1.14 more in a domain; the latter are skewed to the left, so the domain part stops at 0.7, with
/// which the loads vary as the real ones do (coefficient of variation 0.3 to 1.35, mean 0.86 over layers and domains).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RoutingRecipe {
    /// Recorded `MoE` layers.
    pub layers: u32,
    /// Experts per layer.
    pub experts: u32,
    /// Popularity of an expert over all text, first and last layer.
    pub sd_base: [f64; 2],
    /// Experts of one block, consecutive; 0 for none. Not measured: routers with expert groups suggest it.
    pub block: u32,
    /// Popularity common to a block.
    pub sd_block: f64,
    /// Popularity in a domain, first and last layer.
    pub sd_domain: [f64; 2],
    /// Popularity for a prompt.
    pub sd_prompt: f64,
    /// Popularity in a sample.
    pub sd_sample: f64,
    /// Variance of a count over that of independent tokens, at least 0.
    pub dispersion: f64,
    /// Change of base and domain popularity from one optimizer step to the next.
    pub sd_step: f64,
}

impl Default for RoutingRecipe {
    fn default() -> Self {
        Self {
            layers: 23,
            experts: 128,
            sd_base: [0.26, 0.66],
            block: 0,
            sd_block: 0.0,
            sd_domain: [0.5, 0.7],
            sd_prompt: 0.25,
            sd_sample: 0.15,
            dispersion: 4.0,
            sd_step: 0.05,
        }
    }
}

/// A window at the edge: D·`rows` cells hold it with little to spare, greedy packers need more.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct KnifeEdgeRecipe {
    /// Rows that suffice; first-fit and best-fit decreasing need one more.
    pub rows: u32,
    /// Largest fraction of the cells' tokens left free, in (0, 1).
    pub max_slack: f64,
    /// Draws at most.
    pub attempts: u32,
}

impl Default for KnifeEdgeRecipe {
    fn default() -> Self {
        Self { rows: 5, max_slack: 0.02, attempts: 1000 }
    }
}

impl Default for WindowRecipe {
    fn default() -> Self {
        Preset::Tiny.recipe()
    }
}

impl WindowRecipe {
    /// This recipe with some fields changed: `changes` holds the new values of the fields it names, tables within
    /// tables; `null` takes an optional field away.
    ///
    /// # Errors
    /// A field that does not exist, or a value of the wrong kind.
    pub fn amended(&self, changes: &Value) -> Result<Self, GenerateError> {
        amended(self, changes)
    }

    /// Checks every field, and that setting and window fit.
    ///
    /// # Errors
    /// The first field out of its range.
    pub fn validate(&self) -> Result<(), GenerateError> {
        whole("prompts", self.prompts, 1..=1 << 20)?;
        whole("group", self.group, 1..=1000)?;
        whole("steps", self.steps, 1..=1 << 16)?;
        whole("domains", self.domains, 1..=4096)?;
        self.lengths.validate("lengths")?;
        whole("unrouted_tokens", self.unrouted_tokens, 0..=1)?;
        if let Some(edge) = &self.knife_edge {
            edge.validate()?;
        }
        let (packing, routing) = (&self.setting.packing, &self.routing);
        if let Some(routing) = routing {
            routing.validate()?;
            let popularities =
                u64::from(self.domains + 1) * u64::from(routing.layers) * u64::from(routing.experts);
            within("(domains + 1)·layers·experts", popularities, MAX_POPULARITIES)?;
        }
        let samples = u64::from(self.prompts) * u64::from(self.group) * u64::from(self.steps);
        if self.knife_edge.is_none() {
            within("prompts·group·steps", samples, MAX_SAMPLES)?;
        }
        self.setting.check()?;
        let layers = routing.as_ref().map_or(0, |routing| routing.layers as usize);
        let topology = Topology::new(&self.setting.topology, layers)?;
        let padded = u64::from(self.lengths.max_total).next_multiple_of(u64::from(packing.sample_multiple));
        if padded > u64::from(packing.cell_capacity()) {
            return Err(GenerateError::field(
                "lengths.max_total",
                self.lengths.max_total,
                format!("at most the {} tokens of a cell, once padded", packing.cell_capacity()),
            ));
        }
        if let Some(routing) = routing {
            let (experts, top_k, ep) =
                (routing.experts, self.setting.routing.top_k, self.setting.topology.ep);
            if top_k == 0 || top_k > experts {
                return Err(GenerateError::field(
                    "setting.routing.top_k",
                    top_k,
                    format!("expected 1 to {experts}"),
                ));
            }
            // Counts are rounded in 24 bits after the point, within u64.
            if u64::from(self.lengths.max_total) * u64::from(top_k) > 1 << 38 {
                return Err(GenerateError::field(
                    "lengths.max_total",
                    self.lengths.max_total,
                    format!("at most 2^38 choices in a sample and layer, with top_k = {top_k}"),
                ));
            }
            if !experts.is_multiple_of(ep) {
                return Err(GenerateError::field(
                    "routing.experts",
                    experts,
                    format!("a multiple of ep = {ep}"),
                ));
            }
            if topology.num_parts() > 1 && self.setting.routing.attribution == Attribution::Exact {
                return Err(GenerateError::field(
                    "setting.routing.attribution",
                    "exact",
                    "counts are generated per sample, not per part: spread is needed where etp·ep < tp·cp",
                ));
            }
            self.setting.pad_experts(experts as usize)?;
            if self.knife_edge.is_none() {
                routing.check_size(samples)?;
            }
        }
        Ok(())
    }
}

impl LengthRecipe {
    /// Checks every field; `place` is the recipe's name in messages.
    pub(crate) fn validate(&self, place: &str) -> Result<(), GenerateError> {
        let name = |field: &str| format!("{place}.{field}");
        real(&name("prompt_median"), self.prompt_median, 1.0..=1e9)?;
        real(&name("prompt_sigma"), self.prompt_sigma, 0.0..=MAX_SIGMA)?;
        real(&name("response_median"), self.response_median, 1.0..=1e9)?;
        real(&name("response_sigma"), self.response_sigma, 0.0..=MAX_SIGMA)?;
        real(&name("shared"), self.shared, 0.0..=1.0)?;
        real(&name("domain_sigma"), self.domain_sigma, 0.0..=MAX_SIGMA)?;
        real(&name("truncated"), self.truncated, 0.0..=1.0)?;
        whole(&name("max_total"), self.max_total, 2..=1 << 30)?;
        whole(&name("min_response"), self.min_response, 1..=self.max_total - 1)
    }
}

impl RoutingRecipe {
    fn validate(&self) -> Result<(), GenerateError> {
        whole("routing.layers", self.layers, 1..=4096)?;
        whole("routing.experts", self.experts, 1..=65_536)?;
        for (field, [first, last]) in
            [("routing.sd_base", self.sd_base), ("routing.sd_domain", self.sd_domain)]
        {
            real(field, first, 0.0..=MAX_SIGMA)?;
            real(field, last, 0.0..=MAX_SIGMA)?;
        }
        for (field, value) in [
            ("routing.sd_block", self.sd_block),
            ("routing.sd_prompt", self.sd_prompt),
            ("routing.sd_sample", self.sd_sample),
            ("routing.sd_step", self.sd_step),
        ] {
            real(field, value, 0.0..=MAX_SIGMA)?;
        }
        real("routing.dispersion", self.dispersion, 0.0..=1e6)
    }

    /// Checks that the counts of that many samples are not too many.
    pub(crate) fn check_size(&self, samples: u64) -> Result<(), GenerateError> {
        let counts = samples.saturating_mul(u64::from(self.layers) * u64::from(self.experts));
        within("samples·layers·experts", counts, MAX_COUNTS)
    }
}

impl KnifeEdgeRecipe {
    pub(crate) fn validate(&self) -> Result<(), GenerateError> {
        whole("knife_edge.rows", self.rows, 1..=1 << 16)?;
        real("knife_edge.max_slack", self.max_slack, 1e-9..=0.5)?;
        whole("knife_edge.attempts", self.attempts, 1..=u32::MAX)
    }
}

/// A recipe with the fields that `changes` names replaced.
pub(crate) fn amended<T: Serialize + DeserializeOwned>(
    recipe: &T,
    changes: &Value,
) -> Result<T, GenerateError> {
    let refused = |error: serde_json::Error| GenerateError::Amendment { reason: error.to_string() };
    let mut value = serde_json::to_value(recipe).map_err(refused)?;
    merge(&mut value, changes);
    T::deserialize(value).map_err(refused)
}

fn merge(value: &mut Value, changes: &Value) {
    match (value, changes) {
        (Value::Object(fields), Value::Object(changes)) => {
            for (name, change) in changes {
                merge(fields.entry(name).or_insert(Value::Null), change);
            }
        }
        (value, change) => *value = change.clone(),
    }
}

/// Checks the size of what a recipe asks for.
pub(crate) fn within(what: &str, size: u64, limit: u64) -> Result<(), GenerateError> {
    if size <= limit { Ok(()) } else { Err(GenerateError::field(what, size, format!("at most {limit}"))) }
}

pub(crate) fn whole(
    field: &str,
    value: u32,
    range: std::ops::RangeInclusive<u32>,
) -> Result<(), GenerateError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(GenerateError::field(field, value, format!("expected {} to {}", range.start(), range.end())))
}

pub(crate) fn real(
    field: &str,
    value: f64,
    range: std::ops::RangeInclusive<f64>,
) -> Result<(), GenerateError> {
    if range.contains(&value) {
        return Ok(());
    }
    Err(GenerateError::field(field, value, format!("expected {} to {}", range.start(), range.end())))
}
