//! Arrays as nested lists in one JSON object, for tiny windows.

use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use crate::FormatError;
use crate::npy::{Array, Place, Target};

/// The arrays of one JSON object, in file order.
pub(crate) struct JsonArrays {
    file: String,
    fields: Vec<(String, Nested)>,
}

/// The value of a leaf, or its text and what is expected.
type Convert<'a, T> = &'a dyn Fn(&Nested) -> Result<T, (String, &'static str)>;

/// What a JSON array may hold here.
#[derive(Clone, Debug, PartialEq)]
enum Nested {
    Absent,
    Signed(i64),
    Unsigned(u64),
    Float(f64),
    Text(String),
    List(Vec<Self>),
}

impl Nested {
    /// The value as it is written.
    fn text(&self) -> String {
        match self {
            Self::Absent => "null".to_owned(),
            Self::Signed(value) => value.to_string(),
            Self::Unsigned(value) => value.to_string(),
            Self::Float(value) => value.to_string(),
            Self::Text(text) => format!("{text:?}"),
            Self::List(values) => format!("a list of {}", values.len()),
        }
    }
}

impl JsonArrays {
    /// Parses an object of arrays; `null` is an absent array.
    pub(crate) fn parse(bytes: &[u8], file: &str) -> Result<Self, FormatError> {
        let Fields(fields) = serde_json::from_slice(bytes).map_err(|error| json_error(file, &error))?;
        Ok(Self { file: file.to_owned(), fields })
    }

    /// Names of all arrays that are not null.
    pub(crate) fn names(&self) -> Vec<String> {
        let present = self.fields.iter().filter(|field| field.1 != Nested::Absent);
        present.map(|field| field.0.clone()).collect()
    }

    /// Whether the array's first value is text.
    pub(crate) fn is_text(&self, array: &str) -> bool {
        matches!(self.field(array), Nested::List(values) if matches!(values.first(), Some(Nested::Text(_))))
    }

    fn field(&self, array: &str) -> &Nested {
        let field = self.fields.iter().find(|field| field.0 == array);
        &field.expect("only arrays that are there are asked for").1
    }

    /// An array of integers whose shape `accept` allows.
    pub(crate) fn integers<T: Target>(
        &self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
    ) -> Result<Array<T>, FormatError> {
        self.flatten(array, accept, &|value| match value {
            Nested::Signed(value) => T::from_i64(*value).ok_or((value.to_string(), T::LIMIT)),
            Nested::Unsigned(value) => T::from_u64(*value).ok_or((value.to_string(), T::LIMIT)),
            other => Err((other.text(), "expected a whole number")),
        })
    }

    /// An array of text whose shape `accept` allows.
    pub(crate) fn texts(
        &self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
    ) -> Result<Array<String>, FormatError> {
        self.flatten(array, accept, &|value| match value {
            Nested::Text(text) => Ok(text.clone()),
            other => Err((other.text(), "expected text, as the first value is")),
        })
    }

    fn flatten<T>(
        &self,
        array: &str,
        accept: &dyn Fn(&[usize]) -> Result<(), String>,
        convert: Convert<'_, T>,
    ) -> Result<Array<T>, FormatError> {
        let place = Place { file: &self.file, array };
        let nested = self.field(array);
        // The first element of every level gives the shape; the others must agree.
        let (mut shape, mut level) = (Vec::new(), nested);
        while let Nested::List(values) = level {
            shape.push(values.len());
            let Some(first) = values.first() else { break };
            level = first;
        }
        accept(&shape).map_err(|expected| place.wrong(format!("shape {shape:?}, expected {expected}")))?;
        let mut values = Vec::new();
        collect(nested, &shape, &mut Vec::new(), place, convert, &mut values)?;
        Ok(Array { shape, values })
    }
}

fn collect<T>(
    nested: &Nested,
    shape: &[usize],
    index: &mut Vec<usize>,
    place: Place<'_>,
    convert: Convert<'_, T>,
    values: &mut Vec<T>,
) -> Result<(), FormatError> {
    match (nested, shape) {
        (Nested::List(elements), [length, rest @ ..]) if elements.len() == *length => {
            for (position, element) in elements.iter().enumerate() {
                index.push(position);
                collect(element, rest, index, place, convert, values)?;
                index.pop();
            }
            Ok(())
        }
        (Nested::List(elements), [length, ..]) => Err(place.wrong_value(
            index,
            &format!("a list of {}", elements.len()),
            format!("expected {length} elements, as its first neighbour has"),
        )),
        (Nested::List(_), []) => {
            Err(place.wrong_value(index, &"a list", "expected a value, as its first neighbour is"))
        }
        (value, []) => {
            let value = convert(value).map_err(|(value, limit)| place.wrong_value(index, &value, limit))?;
            values.push(value);
            Ok(())
        }
        (_, _) => Err(place.wrong_value(index, &"a value", "expected a list, as its first neighbour is")),
    }
}

/// A serde error with its line; the text of serde itself names the column.
pub(crate) fn json_error(file: &str, error: &serde_json::Error) -> FormatError {
    let text = error.to_string();
    let why = text.rsplit_once(" at line ").map_or(text.as_str(), |(why, _)| why);
    if error.line() == 0 {
        FormatError::form(file, why)
    } else {
        FormatError::line(file, error.line(), format!("column {}: {why}", error.column()))
    }
}

struct Fields(Vec<(String, Nested)>);

impl<'de> Deserialize<'de> for Fields {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Fields;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of arrays")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Fields, A::Error> {
                let mut fields: Vec<(String, Nested)> = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, Nested>()? {
                    if fields.iter().any(|field| field.0 == name) {
                        return Err(de::Error::custom(format!("array `{name}` occurs twice")));
                    }
                    fields.push((name, value));
                }
                Ok(Fields(fields))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

impl<'de> Deserialize<'de> for Nested {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Value;
        impl<'de> Visitor<'de> for Value {
            type Value = Nested;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an array of whole numbers or text")
            }

            fn visit_i64<E>(self, value: i64) -> Result<Nested, E> {
                Ok(Nested::Signed(value))
            }

            fn visit_u64<E>(self, value: u64) -> Result<Nested, E> {
                Ok(Nested::Unsigned(value))
            }

            fn visit_f64<E>(self, value: f64) -> Result<Nested, E> {
                Ok(Nested::Float(value))
            }

            fn visit_str<E>(self, value: &str) -> Result<Nested, E> {
                Ok(Nested::Text(value.to_owned()))
            }

            fn visit_unit<E>(self) -> Result<Nested, E> {
                Ok(Nested::Absent)
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Nested, A::Error> {
                let mut values = Vec::new();
                while let Some(value) = seq.next_element()? {
                    values.push(value);
                }
                Ok(Nested::List(values))
            }
        }
        deserializer.deserialize_any(Value)
    }
}
