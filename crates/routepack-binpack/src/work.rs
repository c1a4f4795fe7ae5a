//! What searches did, in counts.

use std::ops::AddAssign;

/// Counts of the work of linear programs and tree searches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Work {
    /// Cases of tree searches.
    pub cases: u64,
    /// Linear programs solved.
    pub programs: u64,
    /// Patterns generated.
    pub patterns: u64,
    /// Cuts added.
    pub cuts: u64,
}

impl AddAssign for Work {
    fn add_assign(&mut self, more: Self) {
        self.cases += more.cases;
        self.programs += more.programs;
        self.patterns += more.patterns;
        self.cuts += more.cuts;
    }
}
