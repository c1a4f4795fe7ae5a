//! What a check may spend, and how it ends.

use std::fmt;

/// What a check may spend. Past a limit the answer is [`CheckError::NotChecked`], never "valid".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Bytes held at once by the checker's tables.
    pub max_memory: u64,
    /// Steps: integers read, states of the knapsack made, partial patterns visited.
    pub max_steps: u64,
}

impl Default for Limits {
    /// 2 GiB and 10⁹ steps.
    fn default() -> Self {
        Self { max_memory: 2 << 30, max_steps: 1_000_000_000 }
    }
}

/// The rule of an accepted proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Total size against total capacity.
    Volume,
    /// Number of items against number of places.
    Count,
    /// Weights and the largest weight of a pattern.
    Weights,
    /// A tree of cases.
    Tree,
}

/// What an accepted certificate proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// At least so many cells are necessary; 0 where nothing is claimed.
    pub cells_lower: u64,
    /// So many cells suffice; `None` without a witness.
    pub cells_upper: Option<u64>,
    /// At least so many rows are necessary; 0 where nothing is claimed.
    pub rows_lower: u64,
    /// So many rows suffice to hold the witness, some of their cells perhaps empty; `None` without a witness.
    pub rows_upper: Option<u64>,
    /// The rule behind the lower bounds; `None` where nothing is claimed.
    pub rule: Option<Rule>,
    /// Leaves of a tree that were closed.
    pub leaves: u64,
    /// Steps spent.
    pub steps: u64,
    /// Most bytes held at once by the checker's tables.
    pub memory: u64,
}

/// Why a certificate was not accepted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CheckError {
    /// The statement is no question: an item of size 0, or larger than the capacity, or a figure that is 0.
    Statement {
        /// Item (index in input order), size and capacity, or the figure.
        why: String,
    },
    /// The certificate is malformed, is for another statement, or proves less than it claims.
    Invalid {
        /// Line of the text, from 1; 0 where there is no text.
        line: u64,
        /// What is wrong.
        why: String,
    },
    /// A limit was reached: neither accepted nor refused.
    NotChecked {
        /// `"steps"`, `"bytes of memory"`, or `"bits of a key"` (capacity and limit of items are too large together).
        resource: &'static str,
        /// The limit in that unit.
        limit: u64,
        /// At least so many are needed.
        needed: u64,
    },
    /// A source could not be read.
    Unreadable {
        /// Where and why.
        why: String,
    },
}

impl fmt::Display for CheckError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Statement { why } | Self::Unreadable { why } => write!(f, "{why}"),
            Self::Invalid { line, why } => write!(f, "line {line}: {why}"),
            Self::NotChecked { resource, limit, needed } => {
                write!(f, "not checked: needs at least {needed} {resource}, the limit is {limit}")
            }
        }
    }
}

impl std::error::Error for CheckError {}

/// Counts what is spent against the limits.
pub(crate) struct Meter {
    limits: Limits,
    pub(crate) steps: u64,
    /// Bytes held now.
    pub(crate) held: u64,
    /// Most bytes held at once.
    pub(crate) peak: u64,
}

impl Meter {
    pub(crate) fn new(limits: &Limits) -> Self {
        Self { limits: *limits, steps: 0, held: 0, peak: 0 }
    }

    pub(crate) fn step(&mut self, steps: usize) -> Result<(), CheckError> {
        self.steps = self.steps.saturating_add(steps as u64);
        within("steps", self.steps, self.limits.max_steps)
    }

    pub(crate) fn hold(&mut self, bytes: usize) -> Result<(), CheckError> {
        self.held = self.held.saturating_add(bytes as u64);
        self.peak = self.peak.max(self.held);
        within("bytes of memory", self.held, self.limits.max_memory)
    }

    pub(crate) fn free(&mut self, bytes: usize) {
        self.held -= bytes as u64;
    }
}

fn within(resource: &'static str, needed: u64, limit: u64) -> Result<(), CheckError> {
    if needed <= limit { Ok(()) } else { Err(CheckError::NotChecked { resource, limit, needed }) }
}
