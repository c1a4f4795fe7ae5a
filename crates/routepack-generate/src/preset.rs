//! Named recipes of windows, each with the job that belongs to it.
//!
//! What is published and what is a guess stands with each preset. Ling-3.0 sizes: model cards (experts, top-8, one
//! shared expert, the ratio of linear to full attention, total and active parameters) and arXiv 2608.12146; layers
//! after a public conversion recipe. Head sizes and expert widths are not published: they are guesses that meet the
//! published totals.

use std::fmt;
use std::str::FromStr;

use routepack_problem::{AttentionLayers, CostModel, ModelShape, Parallelism, Setting};

use crate::{GenerateError, KnifeEdgeRecipe, LengthRecipe, RoutingRecipe, WindowRecipe};

/// A named recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preset {
    /// 512 reasoning rollouts of a model like Ling-3.0-Tiny: D = 8, EP 8, one shard.
    Tiny,
    /// 512 reasoning rollouts of a model like Ling-3.0-Flash: D = 16, EP 8, two shards.
    Flash,
    /// 64 rollouts of up to 32k tokens with a truncation spike: D = 1, CP 4, EP 32, as trained with DeepSeek-R1.
    LongContext,
    /// 512 rollouts from 8 domains, lengths up to a whole cell: D = 16, EP 8, two shards.
    Mixed,
    /// About 130 rollouts that fill D·5 cells within 2 %, where first-fit decreasing needs a row more.
    KnifeEdge,
    /// 24 rollouts on one DP slot: D = 1, G = 1, EP 4.
    Single,
}

impl Preset {
    /// All presets.
    pub const ALL: [Self; 6] =
        [Self::Tiny, Self::Flash, Self::LongContext, Self::Mixed, Self::KnifeEdge, Self::Single];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Flash => "flash",
            Self::LongContext => "long-context",
            Self::Mixed => "mixed",
            Self::KnifeEdge => "knife-edge",
            Self::Single => "single",
        }
    }

    /// What it is, in one line.
    pub fn summary(self) -> &'static str {
        match self {
            Self::Tiny => "512 reasoning rollouts, 23 layers of 128 experts, D 8, EP 8, one shard",
            Self::Flash => "512 reasoning rollouts, 40 layers of 512 experts, D 16, EP 8, two shards",
            Self::LongContext => "64 rollouts to 32k tokens with a truncation spike, D 1, CP 4, EP 32",
            Self::Mixed => "512 rollouts of 8 domains, log-normal to a whole cell, D 16, EP 8, two shards",
            Self::KnifeEdge => {
                "cells full within 2 %, first-fit decreasing needs a row more, D 8, EP 4, two shards"
            }
            Self::Single => "24 rollouts on a single DP slot, D 1, EP 4",
        }
    }

    /// The recipe.
    pub fn recipe(self) -> WindowRecipe {
        match self {
            Self::Tiny => tiny(),
            Self::Flash => flash(),
            Self::LongContext => long_context(),
            Self::Mixed => mixed(),
            Self::KnifeEdge => knife_edge(),
            Self::Single => single(),
        }
    }
}

impl fmt::Display for Preset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Preset {
    type Err = GenerateError;

    fn from_str(name: &str) -> Result<Self, GenerateError> {
        Self::ALL.into_iter().find(|preset| preset.name() == name).ok_or_else(|| GenerateError::Name {
            name: name.into(),
            known: Self::ALL.map(Self::name).join(", "),
        })
    }
}

fn attention(name: &str, layers: u32, quadratic: bool) -> AttentionLayers {
    AttentionLayers { name: name.into(), layers, quadratic }
}

fn with_shape(parallelism: Parallelism, capacity: u32, shape: ModelShape) -> Setting {
    let mut setting = Setting::new(parallelism.dp, parallelism.ep, capacity);
    setting.topology = parallelism;
    setting.cost = CostModel { shape: Some(shape), ..CostModel::default() };
    setting
}

/// Published: 23 `MoE` layers of 24, 128 experts, top-8, 3 KDA : 1 MLA, hidden 1536. Guessed: 16 heads of 192/128, expert
/// width 512 (23·128·3·1536·512 = 6.9 of the published 7.9 G parameters), and popularity common to blocks of 16 experts,
/// with which the loads of 8 ranks vary as the paper reports (coefficient of variation about 0.4). Lengths: GSM8K-like
/// prompts, reasoning-length responses of about 760 tokens on average; 7 or 8 rows of 8 cells of 8192 tokens.
fn tiny() -> WindowRecipe {
    let shape = ModelShape {
        hidden: 1536,
        heads: 16,
        kv_heads: None,
        qk_dim: 192,
        v_dim: Some(128),
        expert_width: 512,
        vocabulary: None,
        attention: vec![attention("kda", 18, false), attention("mla", 6, true)],
    };
    WindowRecipe {
        prompts: 64,
        group: 8,
        steps: 1,
        domains: 1,
        unrouted_tokens: 1,
        lengths: LengthRecipe::default(),
        routing: Some(RoutingRecipe { block: 16, sd_block: 0.38, ..RoutingRecipe::default() }),
        knife_edge: None,
        setting: with_shape(Parallelism::new(8, 8), 8192, shape),
    }
}

/// Published: 40 `MoE` layers of 42, 512 experts, top-8, 5 KDA : 1 MLA. Guessed: hidden 2560, 32 heads of 192/128, expert
/// width 768 (40·512·3·2560·768 = 121 of the published 124 G parameters), and popularity common to blocks of 64
/// experts, as for Tiny: the paper's 0.4 is far from what 64 independent experts a rank would average out to.
fn flash() -> WindowRecipe {
    let shape = ModelShape {
        hidden: 2560,
        heads: 32,
        kv_heads: None,
        qk_dim: 192,
        v_dim: Some(128),
        expert_width: 768,
        vocabulary: None,
        attention: vec![attention("kda", 35, false), attention("mla", 7, true)],
    };
    WindowRecipe {
        routing: Some(RoutingRecipe {
            layers: 40,
            experts: 512,
            block: 64,
            sd_block: 0.45,
            ..RoutingRecipe::default()
        }),
        setting: with_shape(Parallelism::new(16, 8), 8192, shape),
        ..tiny()
    }
}

/// Published: DeepSeek-R1's 58 `MoE` layers of 61, 256 experts, top-8, hidden 7168, 128 heads of 192/128, expert width
/// 2048; the layout TP 8, CP 4, PP 4, EP 32, ETP 1 on 128 GPUs with 16384 tokens a GPU and 32k responses is a public
/// recipe: a cell holds 16384·CP tokens, every sample is padded to a multiple of 2·CP·TP. Guessed: the lengths.
fn long_context() -> WindowRecipe {
    let shape = ModelShape {
        hidden: 7168,
        heads: 128,
        kv_heads: None,
        qk_dim: 192,
        v_dim: Some(128),
        expert_width: 2048,
        vocabulary: None,
        attention: vec![attention("mla", 61, true)],
    };
    let parallelism = Parallelism { tp: 8, cp: 4, pp: 4, etp: Some(1), ..Parallelism::new(1, 32) };
    let mut setting = with_shape(parallelism, 16_384 * 4, shape);
    setting.packing.sample_multiple = 64;
    WindowRecipe {
        prompts: 8,
        lengths: LengthRecipe {
            prompt_median: 400.0,
            prompt_sigma: 0.7,
            response_median: 9000.0,
            response_sigma: 0.7,
            max_total: 32_768,
            truncated: 0.08,
            ..LengthRecipe::default()
        },
        routing: Some(RoutingRecipe { layers: 58, experts: 256, ..RoutingRecipe::default() }),
        setting,
        ..tiny()
    }
}

/// Qwen3-30B-A3B at half its depth (published: 128 experts, top-8, hidden 2048, 32 query and 4 key-value heads of 128,
/// expert width 768, 48 layers), on prompts of 8 domains whose response medians differ; lengths up to a whole cell.
fn mixed() -> WindowRecipe {
    let shape = ModelShape {
        hidden: 2048,
        heads: 32,
        kv_heads: Some(4),
        qk_dim: 128,
        v_dim: None,
        expert_width: 768,
        vocabulary: None,
        attention: vec![attention("full", 24, true)],
    };
    WindowRecipe {
        domains: 8,
        lengths: LengthRecipe {
            prompt_median: 250.0,
            prompt_sigma: 0.8,
            response_median: 1300.0,
            response_sigma: 0.9,
            domain_sigma: 0.5,
            max_total: 16_384,
            truncated: 0.01,
            ..LengthRecipe::default()
        },
        routing: Some(RoutingRecipe { layers: 24, ..RoutingRecipe::default() }),
        setting: with_shape(Parallelism::new(16, 8), 16_384, shape),
        ..tiny()
    }
}

/// A small model without a namesake; responses of about a quarter of a cell, none above half of it.
fn knife_edge() -> WindowRecipe {
    let mut setting = Setting::new(8, 4, 8192);
    setting.routing.top_k = 2;
    WindowRecipe {
        group: 4,
        lengths: LengthRecipe {
            prompt_median: 150.0,
            prompt_sigma: 0.3,
            response_median: 2200.0,
            response_sigma: 0.35,
            shared: 0.0,
            min_response: 1100,
            max_total: 4096,
            truncated: 0.05,
            ..LengthRecipe::default()
        },
        routing: Some(RoutingRecipe { layers: 2, experts: 16, ..RoutingRecipe::default() }),
        knife_edge: Some(KnifeEdgeRecipe::default()),
        setting,
        ..tiny()
    }
}

/// A small model without a namesake on one DP slot: with TP 4, EP 4, ETP 1 the slot is its own shard.
fn single() -> WindowRecipe {
    let mut setting = Setting::new(1, 4, 4096);
    setting.topology.tp = 4;
    setting.topology.etp = Some(1);
    setting.routing.top_k = 2;
    WindowRecipe {
        prompts: 6,
        group: 4,
        lengths: LengthRecipe { max_total: 4096, ..LengthRecipe::default() },
        routing: Some(RoutingRecipe { layers: 2, experts: 16, ..RoutingRecipe::default() }),
        setting,
        ..tiny()
    }
}
