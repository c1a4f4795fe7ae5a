//! Exact decimals: cost weights as people write them, never as binary floats.

use std::fmt;
use std::str::FromStr;

use rust_decimal::Decimal;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// Significant digits kept by [`ExactDecimal::ratio`].
const RATIO_DIGITS: u32 = 12;

/// A nonnegative decimal number, kept exactly (at most 18 digits after the point).
///
/// Written as a string (`"0.25"`) or a plain number; a number is taken as the decimal it is written as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct ExactDecimal(Decimal);

impl ExactDecimal {
    /// 0.
    pub const ZERO: Self = Self(Decimal::ZERO);
    /// 1.
    pub const ONE: Self = Self(Decimal::ONE);

    /// `numerator / denominator` rounded to 12 significant digits; 0 when the denominator is 0.
    ///
    /// Both sides are below 2^96.
    pub fn ratio(numerator: u128, denominator: u128) -> Self {
        let whole = |value: u128| {
            let value = i128::try_from(value).unwrap_or(i128::MAX);
            Decimal::try_from_i128_with_scale(value, 0).unwrap_or(Decimal::MAX)
        };
        let quotient = whole(numerator).checked_div(whole(denominator)).unwrap_or(Decimal::ZERO);
        let rounded = quotient.round_sf(RATIO_DIGITS).unwrap_or(quotient);
        Self(rounded.round_dp(18).normalize())
    }

    /// The number as `mantissa / 10^exponent`.
    pub fn fraction(self) -> (i128, u32) {
        let number = self.0.normalize();
        (number.mantissa(), number.scale())
    }

    /// The nearest binary float, for guidance only.
    pub fn to_f64(self) -> f64 {
        let (mantissa, exponent) = self.fraction();
        mantissa as f64 / 10f64.powi(exponent as i32)
    }

    /// Whether the number is 0.
    pub fn is_zero(self) -> bool {
        self.0.is_zero()
    }
}

impl From<u32> for ExactDecimal {
    fn from(value: u32) -> Self {
        Self(Decimal::from(value))
    }
}

impl FromStr for ExactDecimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let number = Decimal::from_str_exact(text)
            .or_else(|_| Decimal::from_scientific(text))
            .map_err(|error| format!("`{text}` is not a decimal number: {error}"))?
            .normalize();
        if number.is_sign_negative() && !number.is_zero() {
            return Err(format!("`{text}` is negative; cost weights are at least 0"));
        }
        if number.scale() > 18 {
            return Err(format!("`{text}` has more than 18 digits after the point"));
        }
        Ok(Self(number))
    }
}

impl fmt::Display for ExactDecimal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Serialize for ExactDecimal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ExactDecimal {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl de::Visitor<'_> for Visitor {
            type Value = ExactDecimal;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a decimal number of at least 0, as a number or a string")
            }

            fn visit_str<E: de::Error>(self, text: &str) -> Result<ExactDecimal, E> {
                text.parse().map_err(E::custom)
            }

            fn visit_u64<E: de::Error>(self, value: u64) -> Result<ExactDecimal, E> {
                Ok(ExactDecimal(Decimal::from(value)))
            }

            fn visit_i64<E: de::Error>(self, value: i64) -> Result<ExactDecimal, E> {
                value.to_string().parse().map_err(E::custom)
            }

            fn visit_f64<E: de::Error>(self, value: f64) -> Result<ExactDecimal, E> {
                // The shortest text that reads back as this float is what the author wrote.
                value.to_string().parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_any(Visitor)
    }
}

impl JsonSchema for ExactDecimal {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "ExactDecimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({
            "description": "A decimal number of at least 0, kept exactly: a number or a string.",
            "anyOf": [{"type": "number", "minimum": 0}, {"type": "string"}],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_written() {
        for (text, mantissa, exponent) in [("0.1", 1, 1), ("1.50", 15, 1), ("3", 3, 0), ("1e-3", 1, 3)] {
            let number: ExactDecimal = text.parse().expect("valid");
            assert_eq!(number.fraction(), (mantissa, exponent), "{text}");
        }
        assert!("-1".parse::<ExactDecimal>().is_err());
        assert!("nan".parse::<ExactDecimal>().is_err());
    }

    #[test]
    fn ratios_round_to_twelve_digits() {
        assert_eq!(ExactDecimal::ratio(1, 184).to_string(), "0.0054347826087");
        assert_eq!(ExactDecimal::ratio(5, 0), ExactDecimal::ZERO);
    }
}
