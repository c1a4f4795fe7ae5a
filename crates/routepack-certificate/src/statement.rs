//! The question: how many bins, and how many rows of bins, do these items need?

use crate::CheckError;

/// A bin-packing question. Items are numbered 0, 1, … in input order; a bin is a set of items with total size at
/// most `capacity` and at most `max_items` members; a row is `slots` bins; rows come in multiples of `rows_multiple`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Statement {
    /// `[items]`, size of every item in input order (tokens, after padding); each in `1..=capacity`.
    pub sizes: Vec<u64>,
    /// Largest total size of one bin (tokens); at least 1.
    pub capacity: u64,
    /// Most items in one bin; `None` is unlimited; at least 1.
    pub max_items: Option<u32>,
    /// Bins in one row, D of DESIGN §1.1; at least 1.
    pub slots: u64,
    /// The number of rows must be a multiple of this, v of DESIGN §1.2; at least 1.
    pub rows_multiple: u64,
}

/// The words of a certificate's first lines.
pub(crate) const HEADER: [&str; 8] =
    ["routepack-certificate", "items", "total", "digest", "capacity", "max-items", "slots", "rows-multiple"];

impl Statement {
    /// The question for bins alone: any number of items in a bin, one slot, any number of rows.
    pub fn bins(sizes: Vec<u64>, capacity: u64) -> Self {
        Self { sizes, capacity, max_items: None, slots: 1, rows_multiple: 1 }
    }

    /// Checks that every item fits in a bin and every figure is at least 1.
    ///
    /// # Errors
    /// [`CheckError::Statement`] naming the first item or figure that makes the question meaningless.
    pub fn validate(&self) -> Result<(), CheckError> {
        let (capacity, items) = (self.capacity, self.sizes.len());
        let unfit = self.sizes.iter().position(|&size| size == 0 || size > capacity);
        let why = if [capacity, self.max_items.map_or(1, u64::from), self.slots, self.rows_multiple].contains(&0) {
            "capacity, max-items, slots and rows-multiple must be at least 1".into()
        } else if u32::try_from(items).is_err() {
            format!("{items} items, more than 4294967295")
        } else if let Some(item) = unfit {
            format!("item {item} has size {}, must be in 1..={capacity}, the capacity", self.sizes[item])
        } else {
            return Ok(());
        };
        Err(CheckError::Statement { why })
    }

    /// Total size of all items.
    pub fn total(&self) -> u128 {
        self.sizes.iter().map(|&size| u128::from(size)).sum()
    }

    /// The types: distinct sizes in decreasing order, each with its demand (number of items of that size).
    pub fn types(&self) -> Vec<(u64, u32)> {
        let mut sorted = self.sizes.clone();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        sorted.chunk_by(|a, b| a == b).map(|equal| (equal[0], equal.len() as u32)).collect()
    }

    /// Fewest rows, in multiples of `rows_multiple`, whose slots hold `cells` bins.
    pub fn rows_for(&self, cells: u64) -> u64 {
        cells.div_ceil(self.slots).checked_next_multiple_of(self.rows_multiple).unwrap_or(u64::MAX)
    }

    /// FNV-1a, 64 bits, over the sizes in input order, 8 bytes each, least significant first. It guards against a
    /// mix-up of files; soundness does not rest on it.
    pub fn digest(&self) -> u64 {
        let bytes = self.sizes.iter().flat_map(|size| size.to_le_bytes());
        bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    /// The figures after the words of a certificate's first lines.
    pub(crate) fn header(&self) -> [u128; 8] {
        let max_items = self.max_items.unwrap_or(0);
        let figures = [self.digest(), self.capacity, max_items.into(), self.slots, self.rows_multiple].map(u128::from);
        let [digest, capacity, max_items, slots, rows_multiple] = figures;
        [1, self.sizes.len() as u128, self.total(), digest, capacity, max_items, slots, rows_multiple]
    }
}
