//! Numbers in sentences for persons.

use std::fmt::Display;

/// A number of things: `1 row`, `2 rows`, `1 micro-batch`, `2 micro-batches`.
pub fn counted<N: Display + PartialEq + From<u8>>(number: N, one: &str) -> String {
    let ending = match one {
        _ if number == N::from(1) => "",
        one if one.ends_with("ch") => "es",
        _ => "s",
    };
    format!("{number} {one}{ending}")
}

/// Four places after the point, or a power of ten where those would hide a small value.
pub fn four_places(value: f64) -> String {
    if value == 0.0 || value.abs() >= 0.01 { format!("{value:.4}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_is_one_and_small_values_are_seen() {
        assert_eq!(
            [counted(0, "row"), counted(1u64, "row"), counted(2usize, "row")],
            ["0 rows", "1 row", "2 rows"]
        );
        assert_eq!(counted(2, "micro-batch"), "2 micro-batches");
        assert_eq!(
            [0.0, 1.0, 0.0123, 4.0544e-5].map(four_places),
            ["0.0000", "1.0000", "0.0123", "4.054e-5"]
        );
    }
}
