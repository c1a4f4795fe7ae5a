//! Routes as a JSON value: nothing, a text, nested lists, a dictionary, or a list of dictionaries (turns).
//!
//! Nested lists are flattened while they are parsed; texts are borrowed from the line where they have no escapes.

use std::borrow::Cow;
use std::fmt;

use serde::de::value::MapAccessDeserializer;
use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// Most levels of nested lists.
const MAX_DEPTH: usize = 4;

/// Routes of one sample, or of one part of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) enum RoutesValue<'a> {
    /// `null`, or no such field.
    #[default]
    Absent,
    Text(Cow<'a, str>),
    /// Nested lists as int32, row-major.
    Nested(Nested),
    /// Dictionaries, one a turn; one that stands alone is a list of one.
    Turns(Vec<Turn<'a>>),
}

/// Nested lists, flattened.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Nested {
    pub(crate) shape: Vec<usize>,
    /// int32, little-endian.
    pub(crate) bytes: Vec<u8>,
}

/// A dictionary of routes.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
pub(crate) struct Turn<'a> {
    /// Base64 of the values.
    #[serde(borrow)]
    pub(crate) data: Cow<'a, str>,
    /// `[rows, layers, k]`.
    pub(crate) shape: Vec<usize>,
    /// Name of the integer type.
    #[serde(borrow)]
    pub(crate) dtype: Cow<'a, str>,
    /// Token position of the first row.
    #[serde(default)]
    pub(crate) start: u32,
}

impl<'de: 'a, 'a> Deserialize<'de> for RoutesValue<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(RoutesVisitor)
    }
}

struct RoutesVisitor;

impl<'de> Visitor<'de> for RoutesVisitor {
    type Value = RoutesValue<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("routes: nested lists of expert ids, a text, a dictionary {data, shape, dtype}, or null")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(RoutesValue::Absent)
    }

    fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
        Ok(RoutesValue::Text(Cow::Borrowed(text)))
    }

    fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
        Ok(RoutesValue::Text(Cow::Owned(text.to_owned())))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        Ok(RoutesValue::Turns(vec![Turn::deserialize(MapAccessDeserializer::new(map))?]))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let (mut nested, mut turns, mut length) =
            (Nested { shape: vec![0], bytes: Vec::new() }, Vec::new(), 0);
        while let Some(turn) = list.next_element_seed(Element { nested: &mut nested, depth: 1 })? {
            length += 1;
            match turn {
                Some(turn) if turns.len() + 1 == length => turns.push(turn),
                None if turns.is_empty() => {}
                _ => return Err(de::Error::custom("a list of dictionaries and lists")),
            }
        }
        if !turns.is_empty() {
            return Ok(RoutesValue::Turns(turns));
        }
        nested.shape[0] = length;
        Ok(RoutesValue::Nested(nested))
    }
}

/// An element of a list at some depth: a dictionary at depth 1, a list, or an expert id.
struct Element<'n> {
    nested: &'n mut Nested,
    depth: usize,
}

impl Element<'_> {
    fn push<E: de::Error>(self, value: i64) -> Result<(), E> {
        if self.nested.shape.len() != self.depth {
            return Err(E::custom(format!("an expert id among lists at depth {}", self.depth)));
        }
        let id = i32::try_from(value).map_err(|_| E::custom(format!("{value} is no expert id")))?;
        self.nested.bytes.extend_from_slice(&id.to_le_bytes());
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Option<Turn<'de>>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Option<Turn<'de>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of expert ids")
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Self::Value, E> {
        self.push(value).map(|()| None)
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Self::Value, E> {
        self.push(i64::try_from(value).unwrap_or(i64::MAX)).map(|()| None)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Self::Value, A::Error> {
        if self.depth > 1 || !self.nested.bytes.is_empty() {
            return Err(de::Error::custom("a dictionary among expert ids"));
        }
        Turn::deserialize(MapAccessDeserializer::new(map)).map(Some)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
        let Self { nested, depth } = self;
        // The first list seen at a depth makes the axis; all others must have its length.
        let first = nested.shape.len() == depth;
        if first {
            if depth == MAX_DEPTH || !nested.bytes.is_empty() {
                return Err(de::Error::custom(format!("a list at depth {depth} among expert ids")));
            }
            nested.shape.push(usize::MAX);
        }
        let mut length = 0;
        while let Some(turn) = list.next_element_seed(Element { nested, depth: depth + 1 })? {
            if turn.is_some() {
                return Err(de::Error::custom("a dictionary among expert ids"));
            }
            length += 1;
        }
        let expected = &mut nested.shape[depth];
        if *expected == usize::MAX {
            *expected = length;
        } else if *expected != length {
            let text = format!("a list of {length} at depth {depth}, its neighbours have {expected}");
            return Err(de::Error::custom(text));
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<RoutesValue<'_>, String> {
        serde_json::from_str(text).map_err(|error| error.to_string())
    }

    #[test]
    fn every_kind_of_value_is_told_apart() {
        assert_eq!(parse("null"), Ok(RoutesValue::Absent));
        assert!(matches!(parse("\"abc\""), Ok(RoutesValue::Text(Cow::Borrowed("abc")))));
        assert!(matches!(parse("\"a\\/b\""), Ok(RoutesValue::Text(Cow::Owned(text))) if text == "a/b"));
        let Ok(RoutesValue::Nested(nested)) = parse("[[[1,2]],[[3,-1]],[[4,5]]]") else { panic!("nested") };
        assert_eq!(nested.shape, [3, 1, 2]);
        assert_eq!(nested.bytes.len(), 6 * 4);
        assert!(matches!(parse("[]"), Ok(RoutesValue::Nested(nested)) if nested.shape == [0]));
        let turn = r#"{"data": "AAAA", "shape": [1, 1, 3], "dtype": "uint8", "start": 4, "more": 1}"#;
        assert!(matches!(parse(turn), Ok(RoutesValue::Turns(turns)) if turns[0].start == 4));
        assert!(
            matches!(parse(&format!("[{turn},{turn}]")), Ok(RoutesValue::Turns(turns)) if turns.len() == 2)
        );
    }

    #[test]
    fn ragged_mixed_and_deep_lists_are_refused() {
        for text in [
            "[[1,2],[3]]",
            "[[1,2],3]",
            "[1,[2]]",
            "[[[1]],[2]]",
            "[[[[[1]]]]]",
            "[1.5]",
            "[\"1\"]",
            "[true]",
            "[3000000000]",
            "[[1],{\"data\":\"\",\"shape\":[],\"dtype\":\"uint8\"}]",
            "[{\"data\":\"\",\"shape\":[],\"dtype\":\"uint8\"},[1]]",
            "[[{\"data\":\"\",\"shape\":[],\"dtype\":\"uint8\"}]]",
            "{\"data\":\"\"}",
            "5",
        ] {
            assert!(parse(text).is_err(), "{text} {:?}", parse(text));
        }
    }
}
