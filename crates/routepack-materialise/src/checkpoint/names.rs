//! Names of expert tensors: which layer and which expert a name speaks of.
//!
//! A pattern is text with `{layer}` and `{expert}` for numbers and `{tensor}` for the rest of the name; anything may
//! stand before it that ends in a dot. Where `{expert}` is absent the tensor is stacked: experts along its first axis.

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::CheckpointError;

/// One pattern of names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NamePattern {
    /// `model.layers.{layer}.mlp.experts.{expert}.{tensor}`.
    pub name: String,
    /// Whether all experts of a layer are stacked along the first axis of one tensor.
    #[serde(default)]
    pub stacked: bool,
}

/// Patterns beside the built-in ones, tried first; a TOML file of `[[pattern]]` tables.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Names {
    /// Patterns.
    #[serde(default)]
    pub pattern: Vec<NamePattern>,
    /// How names of experts that move begin, such as `thinker.`; all others stay. Needed where a layer has experts under
    /// several names; empty: all experts move.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prefix: Vec<String>,
}

/// Qwen3-MoE, DeepSeek and their like; Mixtral; Megatron with one module an expert, and with grouped linears; the same
/// with stacked experts.
const BUILT_IN: [(&str, bool); 9] = [
    ("model.layers.{layer}.mlp.experts.{expert}.{tensor}", false),
    ("model.layers.{layer}.block_sparse_moe.experts.{expert}.{tensor}", false),
    ("decoder.layers.{layer}.mlp.experts.local_experts.{expert}.{tensor}", false),
    ("decoder.layers.{layer}.mlp.experts.linear_fc1.weight{expert}", false),
    ("decoder.layers.{layer}.mlp.experts.linear_fc2.weight{expert}", false),
    ("decoder.layers.{layer}.mlp.experts.linear_fc1.bias{expert}", false),
    ("decoder.layers.{layer}.mlp.experts.linear_fc2.bias{expert}", false),
    ("model.layers.{layer}.mlp.experts.{tensor}", true),
    ("model.layers.{layer}.block_sparse_moe.experts.{tensor}", true),
];

/// A name that speaks of experts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claimed {
    /// Layer of the model.
    pub(crate) layer: usize,
    /// Expert, and where its number stands; none if stacked.
    pub(crate) expert: Option<(usize, Range<usize>)>,
    /// The name with `{expert}` for the number.
    pub(crate) family: String,
    /// Where the number of the layer begins: the text before it says of which model the layer is.
    pub(crate) model_end: usize,
}

impl Names {
    /// What a name speaks of; none if it is no expert's.
    ///
    /// # Errors
    /// It speaks of experts, which are not shared, and fits no pattern: it might have to move.
    pub(crate) fn claim(&self, file: &str, name: &str) -> Result<Option<Claimed>, CheckpointError> {
        // Multi-token prediction is not replayed: its experts stay.
        if name.split('.').any(|part| part == "mtp") || !self.moves(name) {
            return Ok(None);
        }
        let claimed = |of_stacks: bool| {
            let own = self.pattern.iter().map(|pattern| (pattern.name.as_str(), pattern.stacked));
            let patterns = own.chain(BUILT_IN).filter(|&(_, stacked)| stacked == of_stacks);
            patterns.into_iter().find_map(|(pattern, stacked)| claim(pattern, stacked, name))
        };
        // What has an expert's number is the expert's, whatever it is called; a router's bias may look like a stack.
        if let Some(claimed) = claimed(false) {
            return Ok(Some(claimed));
        }
        if of_router(name) {
            return Ok(None);
        }
        if let Some(claimed) = claimed(true) {
            return Ok(Some(claimed));
        }
        let routed = |part: &str| part.contains("expert") && !part.contains("shared_expert");
        if name.to_lowercase().split('.').any(routed) {
            let why = "a tensor of experts whose name fits no pattern; describe it with --names";
            return Err(CheckpointError::input(format!("{file}: {name}"), why));
        }
        Ok(None)
    }

    /// Whether a name begins as those of experts that move.
    pub(crate) fn moves(&self, name: &str) -> bool {
        self.prefix.is_empty() || self.prefix.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Every pattern has a layer, and an expert or is stacked.
    pub(crate) fn validate(&self) -> Result<(), CheckpointError> {
        for pattern in &self.pattern {
            let count = |hole: &str| pattern.name.matches(hole).count();
            let experts = usize::from(!pattern.stacked);
            if (count("{layer}"), count("{expert}")) != (1, experts) || count("{tensor}") > 1 {
                let why = "expected {layer} once, {expert} once (never if stacked), {tensor} at most once";
                return Err(CheckpointError::input(format!("pattern {:?}", pattern.name), why));
            }
        }
        Ok(())
    }
}

/// Whether a tensor is the router's, which is logical: also where its bias stands beside the experts.
pub(crate) fn of_router(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    let before = name.split('.').take_while(|part| !part.contains("expert"));
    last == "e_score_correction_bias"
        || last.ends_with("expert_bias")
        || before.clone().count() < name.split('.').count()
            && before.clone().any(|part| part == "router" || part == "gate")
}

/// Tries a pattern at every part of a name.
fn claim(pattern: &str, stacked: bool, name: &str) -> Option<Claimed> {
    let starts = std::iter::once(0).chain(name.match_indices('.').map(|(dot, _)| dot + 1));
    for start in starts {
        let mut found = (None, None);
        if fits(pattern, name, start, &mut found) {
            let (Some((layer, at)), expert) = found else { continue };
            let model_end = at.start;
            if expert.is_none() != stacked {
                continue;
            }
            let family = match &expert {
                Some((_, at)) => format!("{}{{expert}}{}", &name[..at.start], &name[at.end..]),
                None => name.to_owned(),
            };
            return Some(Claimed { layer, expert, family, model_end });
        }
    }
    None
}

/// A number in a name, and where it stands.
type Number = Option<(usize, Range<usize>)>;

/// Whether the rest of a pattern fits the rest of a name; layer and expert as found.
fn fits(pattern: &str, name: &str, at: usize, found: &mut (Number, Number)) -> bool {
    let rest = &name[at..];
    let Some(hole) = pattern.find('{') else { return rest == pattern };
    let Some(after) = rest.strip_prefix(&pattern[..hole]) else { return false };
    let at = at + hole;
    if let Some(pattern) = pattern[hole..].strip_prefix("{tensor}") {
        // Up to the text that follows, or to the end.
        let text = &pattern[..pattern.find('{').unwrap_or(pattern.len())];
        let len = if text.is_empty() { after.len() } else { after.find(text).unwrap_or(0) };
        // A number there would be an expert's, written in a way not understood.
        let numbered = after.starts_with(|letter: char| letter.is_ascii_digit());
        return len > 0 && !numbered && fits(pattern, name, at + len, found);
    }
    let digits = after.bytes().take_while(u8::is_ascii_digit).count();
    // A number is written in one way only, or a renamed tensor would not be.
    let number = match after[..digits].parse::<usize>() {
        Ok(number) if digits == 1 || !after.starts_with('0') => Some((number, at..at + digits)),
        _ => return false,
    };
    if let Some(pattern) = pattern[hole..].strip_prefix("{layer}") {
        found.0 = number;
        fits(pattern, name, at + digits, found)
    } else if let Some(pattern) = pattern[hole..].strip_prefix("{expert}") {
        found.1 = number;
        fits(pattern, name, at + digits, found)
    } else {
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_the_frameworks() {
        let names = Names::default();
        let of = |name: &str| {
            let claimed = names.claim("f", name).expect("known")?;
            Some((claimed.layer, claimed.expert.map(|(expert, _)| expert), claimed.family))
        };
        let one = |layer, expert, family: &str| Some((layer, Some(expert), family.to_owned()));
        assert_eq!(
            of("model.layers.3.mlp.experts.17.gate_proj.weight_scale_inv"),
            one(3, 17, "model.layers.3.mlp.experts.{expert}.gate_proj.weight_scale_inv")
        );
        assert_eq!(
            of("model.layers.31.block_sparse_moe.experts.7.w2.weight"),
            one(31, 7, "model.layers.31.block_sparse_moe.experts.{expert}.w2.weight")
        );
        assert_eq!(
            of("module.decoder.layers.0.mlp.experts.local_experts.5.linear_fc1.weight"),
            one(0, 5, "module.decoder.layers.0.mlp.experts.local_experts.{expert}.linear_fc1.weight")
        );
        assert_eq!(
            of("optimizer.exp_avg.decoder.layers.9.mlp.experts.linear_fc2.weight120"),
            one(9, 120, "optimizer.exp_avg.decoder.layers.9.mlp.experts.linear_fc2.weight{expert}")
        );
        assert_eq!(
            of("model.layers.4.mlp.experts.gate_up_proj"),
            Some((4, None, "model.layers.4.mlp.experts.gate_up_proj".into()))
        );
        for logical in [
            "model.layers.3.mlp.gate.weight",
            "model.layers.3.mlp.gate.e_score_correction_bias",
            "model.layers.3.mlp.shared_experts.gate_proj.weight",
            "model.layers.3.mlp.shared_expert_gate.weight",
            "model.layers.3.mlp.experts.e_score_correction_bias",
            "decoder.layers.3.mlp.router.expert_bias",
            "decoder.layers.3.mlp.router.local_tokens_per_expert",
            "mtp.layers.0.transformer_layer.mlp.experts.linear_fc1.weight3",
        ] {
            assert_eq!(of(logical), None);
        }
        for unknown in [
            "encoder.blocks.1.experts.2.w",
            "model.layers.3.mlp.experts.03.up_proj.weight",
            "model.layers.3.mlp.expert.2.bias",
            "model.layers.3.mlp.moe_experts.2.bias",
            "model.layers.3.mlp.routed_experts.2.bias",
            "model.layers.3.mlp.RoutedExperts.bias",
            "lora.model_layers_0_mlp_experts_2_up_proj.lora_A",
        ] {
            assert!(names.claim("f", unknown).is_err(), "{unknown}");
        }
    }

    #[test]
    fn own_patterns() {
        let names = Names {
            pattern: vec![NamePattern {
                name: "blocks.{layer}.moe.{tensor}.e{expert}".into(),
                stacked: false,
            }],
            prefix: vec!["net.".into()],
        };
        assert!(names.validate().is_ok());
        assert_eq!(names.claim("f", "draft.blocks.2.moe.up.e11").expect("no expert that moves"), None);
        let claimed = names.claim("f", "net.blocks.2.moe.up.e11").expect("known").expect("an expert's");
        assert_eq!((claimed.layer, claimed.expert.map(|found| found.0)), (2, Some(11)));
        let wrong = Names {
            pattern: vec![NamePattern { name: "a.{layer}".into(), stacked: false }],
            ..Names::default()
        };
        assert!(wrong.validate().is_err());
    }

    #[test]
    fn a_number_of_an_expert_is_stronger_than_the_name_of_a_router() {
        let own = |name: &str, stacked| Names {
            pattern: vec![NamePattern { name: name.into(), stacked }],
            ..Names::default()
        };
        let expert = |names: &Names, name: &str| {
            names.claim("f", name).unwrap().and_then(|claimed| claimed.expert).map(|(expert, _)| expert)
        };
        assert_eq!(expert(&Names::default(), "model.layers.1.mlp.experts.3.expert_bias"), Some(3));
        let gate = own("layers.{layer}.gate.{tensor}.expert{expert}", false);
        assert_eq!(expert(&gate, "layers.1.gate.w.expert2"), Some(2));
        let stacks = own("layers.{layer}.mlp.experts.{tensor}", true);
        assert_eq!(stacks.claim("f", "layers.1.mlp.experts.e_score_correction_bias").unwrap(), None);
    }
}
