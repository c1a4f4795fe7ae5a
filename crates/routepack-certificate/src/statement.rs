//! The question: how many bins, and how many rows of bins, do these items need?

use std::fmt;

/// A bin-packing question. Items are numbered 0, 1, … in input order; a bin is a set of items with total size at
/// most `capacity` and at most `max_items` members; a row is `slots` bins, and rows come in multiples of `rows_multiple`.
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

/// Why a [`Statement`] is no question at all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StatementError {
    /// An item of size zero.
    ZeroSize {
        /// Index of the item in input order.
        item: usize,
    },
    /// An item that fits in no bin.
    Oversize {
        /// Index of the item in input order.
        item: usize,
        /// Its size.
        size: u64,
        /// The capacity it exceeds.
        capacity: u64,
    },
    /// A figure that must be at least 1 is 0 (its name).
    Zero(&'static str),
    /// More items than indices of 32 bits can name.
    TooManyItems(usize),
}

impl fmt::Display for StatementError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroSize { item } => write!(f, "item {item} has size 0"),
            Self::Oversize { item, size, capacity } => {
                write!(f, "item {item} has size {size}, more than the capacity {capacity}")
            }
            Self::Zero(name) => write!(f, "{name} is 0, must be at least 1"),
            Self::TooManyItems(n) => write!(f, "{n} items, more than 4294967295"),
        }
    }
}

impl std::error::Error for StatementError {}

impl Statement {
    /// The question for bins alone: one slot, any number of rows, any number of items in a bin.
    pub fn bins(sizes: Vec<u64>, capacity: u64) -> Self {
        Self { sizes, capacity, max_items: None, slots: 1, rows_multiple: 1 }
    }

    /// Checks that every item fits in a bin and every figure is at least 1.
    ///
    /// # Errors
    /// The first item or figure that makes the question meaningless.
    pub fn validate(&self) -> Result<(), StatementError> {
        let figures = [
            ("capacity", self.capacity),
            ("max-items", self.max_items.map_or(1, u64::from)),
            ("slots", self.slots),
            ("rows-multiple", self.rows_multiple),
        ];
        if let Some((name, _)) = figures.into_iter().find(|figure| figure.1 == 0) {
            return Err(StatementError::Zero(name));
        }
        if u32::try_from(self.sizes.len()).is_err() {
            return Err(StatementError::TooManyItems(self.sizes.len()));
        }
        for (item, &size) in self.sizes.iter().enumerate() {
            if size == 0 {
                return Err(StatementError::ZeroSize { item });
            }
            if size > self.capacity {
                return Err(StatementError::Oversize { item, size, capacity: self.capacity });
            }
        }
        Ok(())
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
        cells.div_ceil(self.slots).next_multiple_of(self.rows_multiple)
    }

    /// FNV-1a, 64 bits, over the sizes in input order, 8 bytes each, least significant first. It guards against a
    /// mix-up of files; soundness does not rest on it.
    pub fn digest(&self) -> u64 {
        let bytes = self.sizes.iter().flat_map(|size| size.to_le_bytes());
        bytes
            .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }
}
