//! A model's shapes from the config.json it is published with.
//!
//! Understood by their `model_type`: Qwen2-MoE and Qwen3-MoE, Mixtral, DeepSeek V2 and V3 (and Kimi K2, which is one),
//! GLM-4-MoE, OLMoE. Others are refused by name, never guessed.

use serde_json::Value;

use crate::model::Attention;
use crate::{Model, SimulateError};

/// Keys under which a family keeps its sizes; the experts of a token are `num_experts_per_tok` in all.
struct Family {
    types: &'static [&'static str],
    experts: &'static str,
    expert_width: &'static str,
    shared: Shared,
    /// Leading layers without experts.
    dense_layers: Option<&'static str>,
}

/// Number of shared experts, each of an expert's width; or the width itself.
enum Shared {
    None,
    Experts(&'static str),
    Width(&'static str),
}

const fn family(
    types: &'static [&'static str],
    (experts, expert_width): (&'static str, &'static str),
    shared: Shared,
    dense_layers: Option<&'static str>,
) -> Family {
    Family { types, experts, expert_width, shared, dense_layers }
}

const FAMILIES: [Family; 5] = [
    family(&["qwen3_moe"], ("num_experts", "moe_intermediate_size"), Shared::None, None),
    family(
        &["qwen2_moe"],
        ("num_experts", "moe_intermediate_size"),
        Shared::Width("shared_expert_intermediate_size"),
        None,
    ),
    family(&["mixtral"], ("num_local_experts", "intermediate_size"), Shared::None, None),
    family(
        &["deepseek_v2", "deepseek_v3", "kimi_k2", "glm4_moe"],
        ("n_routed_experts", "moe_intermediate_size"),
        Shared::Experts("n_shared_experts"),
        Some("first_k_dense_replace"),
    ),
    family(&["olmoe"], ("num_experts", "intermediate_size"), Shared::None, None),
];

/// Reads a model from the text of its config.json; `name` stands for the file in messages and names the model.
///
/// # Errors
/// The text is no JSON, names no family known here, or lacks a size.
pub fn model_from_config(text: &str, name: &str) -> Result<Model, SimulateError> {
    let config: Value = serde_json::from_str(text).map_err(|error| form(name, error.to_string()))?;
    let kind = config.get("model_type").and_then(Value::as_str).unwrap_or("");
    let Some(family) = FAMILIES.iter().find(|family| family.types.contains(&kind)) else {
        let known: Vec<&str> = FAMILIES.iter().flat_map(|family| family.types).copied().collect();
        let message = format!("model_type = \"{kind}\": known are {}", known.join(", "));
        return Err(form(name, message));
    };
    refuse_sparse_steps(&config, name)?;
    let size = |key: &str| required(&config, key, name);
    let expert_width = size(family.expert_width)?;
    let dense_layers = family.dense_layers.map_or(Ok(0), &size)?;
    let layers = size("num_hidden_layers")?;
    let Some(moe_layers) = layers.checked_sub(dense_layers) else {
        return Err(form(name, format!("{dense_layers} dense layers of {layers} in all")));
    };
    let attention = attention(&config, name)?;
    let model = Model {
        name: name.to_owned(),
        sources: vec![format!("config.json, model_type = \"{kind}\"")],
        hidden: size("hidden_size")?,
        vocabulary: size("vocab_size")?,
        pattern: vec![attention.name.clone()],
        attention: vec![attention],
        dense_layers,
        dense_width: if dense_layers > 0 { size("intermediate_size")? } else { 0 },
        moe_layers,
        experts: size(family.experts)?,
        top_k: size("num_experts_per_tok")?,
        expert_width,
        shared_width: match family.shared {
            Shared::None => 0,
            Shared::Experts(key) => optional(&config, key, name)?.unwrap_or(0).saturating_mul(expert_width),
            Shared::Width(key) => size(key)?,
        },
    };
    model.check()?;
    Ok(model)
}

/// Experts on every second layer and the like: no window says which layers its counts belong to.
fn refuse_sparse_steps(config: &Value, name: &str) -> Result<(), SimulateError> {
    for (key, dense) in [("decoder_sparse_step", 1), ("moe_layer_freq", 1)] {
        if let Some(step) = optional(config, key, name)?.filter(|&step| step != dense) {
            return Err(form(
                name,
                format!("{key} = {step}: only models with experts on every layer are read"),
            ));
        }
    }
    match config.get("mlp_only_layers").and_then(Value::as_array) {
        Some(layers) if !layers.is_empty() => {
            Err(form(name, format!("mlp_only_layers names {} layers: expected none", layers.len())))
        }
        _ => Ok(()),
    }
}

/// Heads and widths; latent attention by its low-rank projections.
fn attention(config: &Value, name: &str) -> Result<Attention, SimulateError> {
    let size = |key: &str| required(config, key, name);
    let heads = size("num_attention_heads")?;
    let hidden = u64::from(size("hidden_size")?);
    let Some(rank) = optional(config, "kv_lora_rank", name)? else {
        let head = match optional(config, "head_dim", name)? {
            Some(head) => head,
            None => (hidden / u64::from(heads.max(1))) as u32,
        };
        return Ok(Attention {
            name: "full".to_owned(),
            heads,
            kv_heads: optional(config, "num_key_value_heads", name)?,
            qk_dim: head,
            v_dim: None,
            quadratic: true,
            parameters: None,
        });
    };
    let (nope, rope, v) = (size("qk_nope_head_dim")?, size("qk_rope_head_dim")?, size("v_head_dim")?);
    let (rank, wide) = (u64::from(rank), u64::from(heads));
    let query_width = wide * u64::from(nope + rope);
    let query = match optional(config, "q_lora_rank", name)? {
        Some(rank) => u64::from(rank) * (hidden + query_width),
        None => hidden * query_width,
    };
    let keys = hidden * (rank + u64::from(rope)) + rank * wide * u64::from(nope + v);
    Ok(Attention {
        name: "latent".to_owned(),
        heads,
        kv_heads: None,
        qk_dim: nope + rope,
        v_dim: Some(v),
        quadratic: true,
        parameters: Some(query + keys + wide * u64::from(v) * hidden),
    })
}

fn required(config: &Value, key: &str, name: &str) -> Result<u32, SimulateError> {
    optional(config, key, name)?.ok_or_else(|| form(name, format!("{key} is missing")))
}

fn optional(config: &Value, key: &str, name: &str) -> Result<Option<u32>, SimulateError> {
    match config.get(key) {
        None | Some(Value::Null) => Ok(None),
        Some(value) => match value.as_u64().and_then(|value| u32::try_from(value).ok()) {
            Some(value) if value <= 1 << 24 => Ok(Some(value)),
            _ => Err(form(name, format!("{key} = {value}: expected a whole number to 2^24"))),
        },
    }
}

fn form(name: &str, message: String) -> SimulateError {
    SimulateError::Form { name: name.to_owned(), message }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::model;

    const DEEPSEEK: &str = r#"{"model_type": "deepseek_v3", "hidden_size": 7168, "vocab_size": 129280,
        "num_hidden_layers": 61, "first_k_dense_replace": 3, "intermediate_size": 18432, "moe_intermediate_size": 2048,
        "n_routed_experts": 256, "n_shared_experts": 1, "num_experts_per_tok": 8, "moe_layer_freq": 1,
        "num_attention_heads": 128, "num_key_value_heads": 128, "q_lora_rank": 1536, "kv_lora_rank": 512,
        "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}"#;
    const QWEN: &str = r#"{"model_type": "qwen3_moe", "hidden_size": 2048, "vocab_size": 151936,
        "num_hidden_layers": 48, "intermediate_size": 6144, "moe_intermediate_size": 768, "num_experts": 128,
        "num_experts_per_tok": 8, "decoder_sparse_step": 1, "mlp_only_layers": [], "num_attention_heads": 32,
        "num_key_value_heads": 4, "head_dim": 128}"#;

    #[test]
    fn configs_and_presets_agree() {
        for (config, preset) in [(DEEPSEEK, "deepseek-v3"), (QWEN, "qwen3-30b-a3b")] {
            let read = model_from_config(config, preset).expect("valid");
            let known = model(preset).expect("preset");
            assert_eq!(read.parameters(), known.parameters(), "{preset}");
            let of = |model: &Model| (model.moe_layers, model.experts, model.top_k, model.dense_layers);
            assert_eq!(of(&read), of(&known));
        }
    }

    /// One family a line: another's keys are not taken.
    #[test]
    fn families_keep_their_sizes_under_their_own_keys() {
        let shape = |text: &str| {
            let model = model_from_config(text, "c").expect("valid");
            (model.experts, model.top_k, model.expert_width, model.shared_width, model.dense_layers)
        };
        let mixtral =
            QWEN.replace("qwen3_moe", "mixtral").replace("\"num_experts\"", "\"num_local_experts\"");
        assert_eq!(shape(&mixtral), (128, 8, 6144, 0, 0));
        assert_eq!(shape(&QWEN.replace("qwen3_moe", "olmoe")), (128, 8, 6144, 0, 0));
        let qwen2 = QWEN.replace("\"qwen3_moe\",", "\"qwen2_moe\", \"shared_expert_intermediate_size\": 99,");
        assert_eq!(shape(&qwen2), (128, 8, 768, 99, 0));
        let glm =
            DEEPSEEK.replace("deepseek_v3", "glm4_moe").replace("shared_experts\": 1", "shared_experts\": 2");
        assert_eq!(shape(&glm), (256, 8, 2048, 4096, 3));
        let wrong =
            model_from_config(&QWEN.replace("qwen3_moe", "mixtral"), "c").expect_err("no local experts");
        assert!(wrong.to_string().contains("num_local_experts is missing"), "{wrong}");
    }

    #[test]
    fn what_is_not_understood_is_refused_by_name() {
        let refused = |text: &str| model_from_config(text, "c.json").expect_err("refused").to_string();
        assert!(refused(r#"{"model_type": "llama"}"#).contains("model_type = \"llama\""));
        assert!(refused("{").starts_with("c.json: "));
        assert!(refused(&QWEN.replace("\"num_experts\": 128,", "")).contains("num_experts is missing"));
        assert!(refused(&QWEN.replace("128,", "-1,")).contains("expected a whole number"));
        assert!(
            refused(&QWEN.replace("\"decoder_sparse_step\": 1", "\"decoder_sparse_step\": 2"))
                .contains("every layer")
        );
        assert!(refused(&QWEN.replace("[]", "[3]")).contains("mlp_only_layers"));
        assert!(refused(&DEEPSEEK.replace(": 61", ": 2")).contains("3 dense layers of 2"));
    }
}
