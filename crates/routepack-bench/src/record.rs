//! One line of a bench: an instance and what became of it.

use serde::{Deserialize, Serialize};

/// What was settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// Bound and incumbent meet, and the checker accepts the certificate.
    Proved,
    /// A gap is left.
    Open,
    /// The checker refuses the certificate, or the known optimum lies outside bound and incumbent.
    Wrong,
}

/// An instance and what became of it: a line of the table, columns in this order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Name of the file.
    pub instance: String,
    /// Name of its folder.
    pub class: String,
    /// Items.
    pub items: u64,
    /// Different sizes.
    pub types: u64,
    /// Capacity of a bin.
    pub capacity: u64,
    /// So many bins are necessary.
    pub bound: u64,
    /// So many bins suffice.
    pub incumbent: u64,
    /// The optimum that others state, where one is known.
    pub optimum: Option<u64>,
    /// What was settled.
    pub status: Status,
    /// Seconds by the clock.
    pub seconds: f64,
    /// Cases of tree searches.
    pub nodes: u64,
    /// Patterns generated.
    pub columns: u64,
    /// Cuts added.
    pub cuts: u64,
    /// Linear programs solved.
    pub programs: u64,
    /// Bytes of the certificate's text.
    pub certificate_bytes: u64,
    /// Seconds of its check.
    pub check_seconds: f64,
    /// The method behind the bound.
    pub proved_by: String,
    /// Seconds allowed.
    pub time_limit: f64,
    /// Seed.
    pub seed: u64,
    /// Version of the solver.
    pub version: String,
}

impl Record {
    /// Whether a run with so many seconds has nothing to add.
    pub(crate) fn stands(&self, time_limit: f64) -> bool {
        self.status == Status::Proved || self.time_limit >= time_limit
    }
}
