//! The fields of a rollout in JSON, whoever wrote it; unknown fields are ignored.

use std::fmt;

use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, SeqAccess, Visitor};

use crate::facts::OutsideId;
use crate::routes_value::RoutesValue;

/// One line. Names that writers may use side by side are fields of their own.
#[derive(Debug, Default, Deserialize)]
#[serde(default, expecting = "a rollout: an object")]
pub(crate) struct RolloutLine<'a> {
    id: Option<OutsideId>,
    sample_id: Option<OutsideId>,
    request_id: Option<OutsideId>,
    index: Option<OutsideId>,
    pub(crate) prompt_id: Option<i64>,
    pub(crate) group_index: Option<i64>,
    /// Of the prompt: all its responses have the same.
    pub(crate) uid: Option<OutsideId>,
    pub(crate) step: Option<i64>,

    length: Option<u32>,
    num_tokens: Option<u32>,
    tokens: Option<Count>,
    input_ids: Option<Count>,
    prompt_token_ids: Option<Count>,
    prompt_ids: Option<Count>,
    token_ids: Option<Count>,
    response_ids: Option<Count>,
    output_ids: Option<Count>,
    completion_ids: Option<Count>,
    generation_token_ids: Option<Count>,
    usage: Option<Usage>,

    pub(crate) loss_tokens: Option<u32>,
    loss_mask: Option<MaskSum>,
    response_mask: Option<MaskSum>,

    #[serde(borrow, alias = "rollout_routed_experts", alias = "rollout_expert_indices")]
    pub(crate) routed_experts: RoutesValue<'a>,
    #[serde(borrow)]
    pub(crate) prompt_routed_experts: RoutesValue<'a>,
    #[serde(
        alias = "routed_experts_prompt_start",
        alias = "routed_experts_start_len",
        alias = "rollout_routed_experts_start"
    )]
    pub(crate) start: Option<u32>,

    #[serde(borrow)]
    pub(crate) choices: Option<Vec<Choice<'a>>>,
    #[serde(borrow)]
    pub(crate) meta_info: Option<MetaInfo<'a>>,
    #[serde(borrow)]
    pub(crate) logical_count: RoutesValue<'a>,
}

impl RolloutLine<'_> {
    /// The sample's id, the most telling name first.
    pub(crate) fn outside_id(&self) -> Option<&OutsideId> {
        let of_request = self.meta_info.as_ref().and_then(|meta| meta.id.as_ref());
        let names = [&self.sample_id, &self.id, &self.request_id, &self.index];
        names.into_iter().flatten().next().or(of_request)
    }

    /// Tokens in the loss mask.
    pub(crate) fn loss(&self) -> Option<u32> {
        let mask = self.loss_mask.or(self.response_mask);
        self.loss_tokens.or(mask.map(|MaskSum(sum)| sum))
    }

    /// Tokens of the prompt.
    pub(crate) fn prompt_length(&self) -> Option<u32> {
        let listed = self.prompt_token_ids.or(self.prompt_ids).map(|Count(count)| count);
        listed.or(self.request_usage().prompt_tokens)
    }

    /// Tokens of the response.
    fn response_length(&self) -> Option<u32> {
        let lists = [
            self.token_ids,
            self.response_ids,
            self.output_ids,
            self.completion_ids,
            self.generation_token_ids,
        ];
        let listed = lists.into_iter().flatten().next().map(|Count(count)| count);
        listed.or(self.request_usage().completion_tokens)
    }

    fn request_usage(&self) -> Usage {
        let of_request = self.meta_info.as_ref().map(|meta| Usage {
            prompt_tokens: meta.prompt_tokens,
            completion_tokens: meta.completion_tokens,
        });
        self.usage.or(of_request).unwrap_or_default()
    }

    /// Every statement about the tokens of prompt and response, with the field that makes it.
    pub(crate) fn lengths(&self) -> Vec<(&'static str, u64)> {
        let count = |list: Option<Count>| list.map(|Count(count)| u64::from(count));
        let both = self.prompt_length().zip(self.response_length());
        [
            ("length", self.length.map(u64::from)),
            ("num_tokens", self.num_tokens.map(u64::from)),
            ("tokens", count(self.tokens)),
            ("input_ids", count(self.input_ids)),
            ("prompt and response", both.map(|(prompt, response)| u64::from(prompt) + u64::from(response))),
        ]
        .into_iter()
        .filter_map(|(name, length)| length.map(|length| (name, length)))
        .collect()
    }
}

/// One completion of a vLLM response.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Choice<'a> {
    pub(crate) index: Option<u32>,
    token_ids: Option<Count>,
    pub(crate) loss_tokens: Option<u32>,
    #[serde(borrow)]
    pub(crate) routed_experts: RoutesValue<'a>,
    #[serde(alias = "routed_experts_prompt_start")]
    pub(crate) start: Option<u32>,
}

impl Choice<'_> {
    /// Tokens of the response.
    pub(crate) fn response_length(&self) -> Option<u32> {
        self.token_ids.map(|Count(count)| count)
    }
}

/// SGLang's facts about a request.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct MetaInfo<'a> {
    pub(crate) id: Option<OutsideId>,
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
    #[serde(borrow)]
    pub(crate) routed_experts: RoutesValue<'a>,
    #[serde(alias = "routed_experts_start_len")]
    pub(crate) start: Option<u32>,
}

/// Token counts of a request.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
struct Usage {
    prompt_tokens: Option<u32>,
    completion_tokens: Option<u32>,
}

/// How many elements a list has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Count(u32);

/// The sum of a 0/1 mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MaskSum(u32);

impl<'de> Deserialize<'de> for Count {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct List;
        impl<'de> Visitor<'de> for List {
            type Value = Count;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of tokens")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Count, A::Error> {
                let mut count = 0u32;
                while list.next_element::<IgnoredAny>()?.is_some() {
                    count = count.checked_add(1).ok_or_else(|| de::Error::custom("2^32 tokens"))?;
                }
                Ok(Count(count))
            }
        }
        deserializer.deserialize_seq(List)
    }
}

impl<'de> Deserialize<'de> for MaskSum {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Mask;
        impl<'de> Visitor<'de> for Mask {
            type Value = MaskSum;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a list of 0 and 1")
            }
            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<MaskSum, A::Error> {
                let mut sum = 0u32;
                while let Some(Bit(bit)) = list.next_element()? {
                    sum = sum.checked_add(bit).ok_or_else(|| de::Error::custom("2^32 tokens"))?;
                }
                Ok(MaskSum(sum))
            }
        }
        deserializer.deserialize_seq(Mask)
    }
}

/// 0, 1, 0.0, 1.0, false or true.
struct Bit(u32);

impl<'de> Deserialize<'de> for Bit {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl Visitor<'_> for Value {
            type Value = Bit;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("0 or 1")
            }
            fn visit_bool<E>(self, bit: bool) -> Result<Bit, E> {
                Ok(Bit(u32::from(bit)))
            }
            fn visit_u64<E: de::Error>(self, bit: u64) -> Result<Bit, E> {
                match bit {
                    0 | 1 => Ok(Bit(bit as u32)),
                    _ => Err(E::custom(format!("{bit} in a mask: expected 0 or 1"))),
                }
            }
            fn visit_f64<E: de::Error>(self, bit: f64) -> Result<Bit, E> {
                match bit {
                    0.0 => Ok(Bit(0)),
                    1.0 => Ok(Bit(1)),
                    _ => Err(E::custom(format!("{bit} in a mask: expected 0 or 1"))),
                }
            }
        }
        deserializer.deserialize_any(Value)
    }
}
