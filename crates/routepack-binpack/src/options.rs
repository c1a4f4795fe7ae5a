//! What a search may spend, and what it is asked for.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::PackError;

/// The claim to be settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// Fewest rows: the search ends as soon as no multiple of rows fewer can do.
    #[default]
    Rows,
    /// Fewest cells (bins), whatever that means for rows.
    Cells,
}

/// Options of [`crate::pack`]. Limits are counts: the same options give the same answer on any machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct PackOptions {
    /// The claim to be settled.
    pub goal: Goal,
    /// Fills tried (packings), fewer for many items; at least 1.
    pub fill_tries: u32,
    /// Candidates considered for the rest of a bin (items); 1 to 1000.
    pub fill_window: u32,
    /// Repackings of a few bins without success after which repacking ends, for every bin of the packing up to 1000
    /// (packings of a few bins).
    pub repack_tries: u32,
    /// Rounds of column generation at the root (linear programs); 0 does without.
    pub column_rounds: u32,
    /// Most types for a linear program and a tree search over the sizes themselves (types); at least 1.
    pub column_types: u32,
    /// Where there are more, neighbouring sizes are grouped: most groups of a linear program (groups); at least 1.
    pub group_types: u32,
    /// Size of a pricing table (bytes); wider capacities are priced by search.
    pub table_bytes: u64,
    /// Dives of one attempt of a tree search to a packing, from every eighth case, every third where nothing may be wasted (dives); 0 does without.
    pub dives: u32,
    /// Cases of one tree search (cases); 0 does without.
    pub cases: u64,
    /// Branch-and-bound nodes of the integer program over the patterns found (nodes); 0 does without.
    pub program_nodes: u64,
    /// Largest table of the certificate's checker (bytes).
    pub check_bytes: u64,
    /// Most steps of the certificate's checker (steps).
    pub check_steps: u64,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            goal: Goal::Rows,
            fill_tries: 30,
            fill_window: 60,
            repack_tries: 20,
            column_rounds: 1000,
            column_types: 1200,
            group_types: 600,
            table_bytes: 1 << 29,
            dives: 64,
            cases: 10_000,
            program_nodes: 200,
            check_bytes: 2 << 30,
            check_steps: 1_000_000_000,
        }
    }
}

impl PackOptions {
    /// Checks every option against its range.
    ///
    /// # Errors
    /// [`PackError::Option`] for the first that is out of range.
    pub fn validate(&self) -> Result<(), PackError> {
        let at_least_one = [
            ("fill_tries", u64::from(self.fill_tries)),
            ("column_types", u64::from(self.column_types)),
            ("group_types", u64::from(self.group_types)),
            ("table_bytes", self.table_bytes),
            ("check_bytes", self.check_bytes),
            ("check_steps", self.check_steps),
        ];
        for (name, value) in at_least_one {
            if value == 0 {
                return Err(PackError::Option {
                    name,
                    value: value.to_string(),
                    allowed: "must be at least 1",
                });
            }
        }
        if !(1..=1000).contains(&self.fill_window) {
            let value = self.fill_window.to_string();
            return Err(PackError::Option { name: "fill_window", value, allowed: "must be in 1..=1000" });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_keys_are_refused_and_missing_ones_are_defaults() {
        let some: PackOptions = serde_json::from_str(r#"{"goal": "cells", "dives": 5}"#).unwrap();
        assert_eq!(some, PackOptions { goal: Goal::Cells, dives: 5, ..PackOptions::default() });
        assert!(serde_json::from_str::<PackOptions>(r#"{"dive": 5}"#).is_err());
    }

    #[test]
    fn every_range_is_checked() {
        let good = PackOptions::default();
        assert!(good.validate().is_ok());
        let bad = [
            PackOptions { fill_tries: 0, ..good.clone() },
            PackOptions { fill_window: 1001, ..good.clone() },
            PackOptions { column_types: 0, ..good.clone() },
            PackOptions { group_types: 0, ..good.clone() },
            PackOptions { table_bytes: 0, ..good.clone() },
            PackOptions { check_bytes: 0, ..good.clone() },
            PackOptions { check_steps: 0, ..good.clone() },
        ];
        assert!(bad.iter().all(|options| options.validate().is_err()));
    }
}
