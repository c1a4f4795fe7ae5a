//! The largest cells of a block, so that a trial knows the maximum without the two cells it changes.
//!
//! Complexity: O(cells) to find, O(1) to ask.

/// The three largest cells of a block by φ of one kind: values and cells, descending.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaders {
    pub(crate) costs: [u64; 3],
    pub(crate) cells: [u32; 3],
}

impl Leaders {
    pub(crate) const NONE: Self = Self { costs: [0; 3], cells: [u32::MAX; 3] };

    pub(crate) fn of(costs: impl Iterator<Item = (u32, u64)>) -> Self {
        let Self { costs: [mut first, mut second, mut third], cells: [mut a, mut b, mut c] } = Self::NONE;
        for (cell, cost) in costs {
            if cost > third || c == u32::MAX {
                if cost > second || b == u32::MAX {
                    (third, c) = (second, b);
                    if cost > first || a == u32::MAX {
                        (second, b) = (first, a);
                        (first, a) = (cost, cell);
                    } else {
                        (second, b) = (cost, cell);
                    }
                } else {
                    (third, c) = (cost, cell);
                }
            }
        }
        Self { costs: [first, second, third], cells: [a, b, c] }
    }

    /// The largest φ of a cell other than these two; 0 if there is none.
    #[inline]
    pub(crate) fn without(&self, first: usize, second: usize) -> u64 {
        for place in 0..3 {
            let cell = self.cells[place] as usize;
            if cell != first && cell != second {
                return self.costs[place];
            }
        }
        0
    }
}
