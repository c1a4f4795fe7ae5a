//! Which patterns there are: the feasible set of a pricing problem.

use routepack_certificate::Node;

use crate::types::Types;

/// Sets of items that may share a bin. Types are numbered as in the cover constraints; a pattern lists types in
/// increasing order, one entry per item.
#[derive(Debug, Clone)]
pub struct PatternSpace {
    pub(crate) capacity: u64,
    /// At most this much of a bin stays empty; the capacity where any load will do.
    pub(crate) slack: u64,
    /// `[types]`
    pub(crate) sizes: Vec<u64>,
    /// `[types]`, items of the type; may be 0.
    pub(crate) demands: Vec<u32>,
    /// `[types]`, most items of the type in one bin.
    pub(crate) copies: Vec<u32>,
    /// `[types]`, places of a bin that one item of the type takes.
    pub(crate) counts: Vec<u32>,
    /// Places of a bin, where they matter.
    pub(crate) places: Option<u32>,
    /// `[types][…]`, the types that share no bin with the type, increasing; itself: at most one.
    pub(crate) apart: Vec<Vec<u32>>,
    /// Types by increasing size.
    pub(crate) order: Vec<u32>,
}

impl PatternSpace {
    /// All patterns of the types.
    pub fn of_types(types: &Types) -> Self {
        Self {
            sizes: types.sizes.clone(),
            demands: types.demands.clone(),
            counts: vec![1; types.len()],
            apart: vec![Vec::new(); types.len()],
            ..Self::without_items(types.capacity, types.capacity, types.max_items)
        }
        .completed()
    }

    /// The patterns of a case in a proof tree, of which at most `slack` stays empty.
    pub(crate) fn of_node(node: &Node, capacity: u64, slack: u64, places: Option<u32>) -> Self {
        Self {
            sizes: node.sizes.clone(),
            demands: node.demands.clone(),
            counts: node.counts.clone(),
            apart: node.apart.clone(),
            ..Self::without_items(capacity, slack, places)
        }
        .completed()
    }

    fn without_items(capacity: u64, slack: u64, places: Option<u32>) -> Self {
        let (sizes, demands, copies, counts) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        Self { capacity, slack, sizes, demands, copies, counts, places, apart: Vec::new(), order: Vec::new() }
    }

    /// Fills in `copies` and `order`.
    fn completed(mut self) -> Self {
        let copies = |kind: usize| {
            let fitting = (self.capacity / self.sizes[kind]).min(u64::from(self.demands[kind])) as u32;
            let alone = self.apart[kind].binary_search(&(kind as u32)).is_ok();
            let placed = self.places.map_or(u32::MAX, |places| places / self.counts[kind]);
            fitting.min(placed).min(if alone { 1 } else { u32::MAX })
        };
        self.copies = (0..self.sizes.len()).map(copies).collect();
        self.order = (0..self.sizes.len() as u32).filter(|&kind| self.copies[kind as usize] > 0).collect();
        self.order.sort_by_key(|&kind| (self.sizes[kind as usize], std::cmp::Reverse(kind)));
        self
    }

    /// Whether a bin may hold these items.
    pub(crate) fn holds(&self, pattern: &[u32]) -> bool {
        let load: u64 = pattern.iter().map(|&kind| self.sizes[kind as usize]).sum();
        let count: u32 = pattern.iter().map(|&kind| self.counts[kind as usize]).sum();
        let together = |(place, &kind): (usize, &u32)| {
            pattern[place + 1..].iter().all(|other| self.apart[kind as usize].binary_search(other).is_err())
        };
        load <= self.capacity
            && self.capacity - load <= self.slack
            && self.places.is_none_or(|places| count <= places)
            && pattern.chunk_by(|a, b| a == b).all(|same| same.len() as u32 <= self.copies[same[0] as usize])
            && pattern.iter().enumerate().all(together)
    }
}
