//! The forms in which rollout engines and trainers hand over recorded routes, as facts.

use std::str::FromStr;

use crate::ImportError;

/// Who wrote the routes, and so what they look like. See the README for every form's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// vLLM responses: nested lists for prompt and choices, `MoE` layers only.
    Vllm,
    /// vLLM responses: base64 of `.npy` bytes.
    VllmNpy,
    /// SGLang responses: base64 of flat int32 without a shape, all layers, dense rows zero.
    Sglang,
    /// slime samples.
    Slime,
    /// miles samples.
    Miles,
    /// verl batches: `[batch, sequence, layers, k]` with an attention mask; missing rows are zero.
    Verl,
    /// NeMo-RL envelopes `nrlre1:dtype:SxLxK:base64`; missing rows −1, pad rows `arange(k)`.
    NemoRl,
    /// SkyRL dictionaries of data, shape and dtype.
    SkyRl,
    /// prime-rl dictionaries, one a turn, padded with zeros.
    PrimeRl,
    /// ms-swift arrays or dictionaries, all layers.
    MsSwift,
    /// tunix sampler arrays `[batch, layers, length, k]`.
    Tunix,
    /// SGLang's expert-distribution dumps: `logical_count` `[steps, layers, experts]`, aggregated.
    ExpertDistribution,
    /// Megatron RouterReplay: one `[tokens, k]` array per `MoE` layer.
    Megatron,
}

/// What rows beyond the recorded ones are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Filler {
    /// Nothing: such rows do not exist.
    None,
    /// Zeros in every layer.
    Zeros,
    /// `0..k` in every layer.
    Arange,
}

/// How a text holds routes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TextForm {
    /// Base64 of `.npy` bytes.
    Npy,
    /// Base64 of flat int32.
    FlatInt32,
    /// `nrlre1:dtype:SxLxK:base64`.
    Envelope,
}

/// Order of the axes of one sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// `[rows, layers, k]`.
    TokenMajor,
    /// `[layers, rows, k]`.
    LayerMajor,
}

impl Form {
    /// Every form, in the order of the README.
    pub const ALL: [Self; 13] = [
        Self::Vllm,
        Self::VllmNpy,
        Self::Sglang,
        Self::Slime,
        Self::Miles,
        Self::Verl,
        Self::NemoRl,
        Self::SkyRl,
        Self::PrimeRl,
        Self::MsSwift,
        Self::Tunix,
        Self::ExpertDistribution,
        Self::Megatron,
    ];

    /// The form's name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Vllm => "vllm",
            Self::VllmNpy => "vllm-npy",
            Self::Sglang => "sglang",
            Self::Slime => "slime",
            Self::Miles => "miles",
            Self::Verl => "verl",
            Self::NemoRl => "nemo-rl",
            Self::SkyRl => "skyrl",
            Self::PrimeRl => "prime-rl",
            Self::MsSwift => "ms-swift",
            Self::Tunix => "tunix",
            Self::ExpertDistribution => "expert-distribution",
            Self::Megatron => "megatron",
        }
    }

    /// Whether the layer axis is known to hold `MoE` layers only.
    pub(crate) fn moe_layers_only(self) -> bool {
        matches!(self, Self::Vllm | Self::Megatron)
    }

    pub(crate) fn filler(self) -> Filler {
        match self {
            Self::Verl | Self::PrimeRl | Self::SkyRl => Filler::Zeros,
            Self::NemoRl => Filler::Arange,
            _ => Filler::None,
        }
    }

    /// The one way this form writes routes as text, if it does.
    pub(crate) fn text_form(self) -> Option<TextForm> {
        match self {
            Self::VllmNpy => Some(TextForm::Npy),
            Self::Sglang | Self::Slime | Self::Miles => Some(TextForm::FlatInt32),
            Self::NemoRl => Some(TextForm::Envelope),
            _ => None,
        }
    }

    pub(crate) fn order(self) -> Order {
        match self {
            Self::Tunix | Self::Megatron => Order::LayerMajor,
            _ => Order::TokenMajor,
        }
    }
}

impl FromStr for Form {
    type Err = ImportError;

    fn from_str(name: &str) -> Result<Self, ImportError> {
        Self::ALL.into_iter().find(|form| form.name() == name).ok_or_else(|| {
            let known = Self::ALL.map(Self::name).join(", ");
            ImportError::option("form", name, format!("expected one of {known}"))
        })
    }
}
