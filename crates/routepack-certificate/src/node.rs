//! A case of a proof tree: some items glued together, some pairs of types kept apart.

use crate::Statement;

/// The items of a case, by type. At the root the types are the distinct sizes in decreasing order. Indices never
/// change; [`Node::join`] appends a type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// `[types]`, size of one item of the type.
    pub sizes: Vec<u64>,
    /// `[types]`, number of items of the type; may be 0.
    pub demands: Vec<u32>,
    /// `[types]`, number of original items glued into one item of the type.
    pub counts: Vec<u32>,
    /// `[types][…]`, for every type, in increasing order, the types its items share no bin with (itself: at most one).
    pub apart: Vec<Vec<u32>>,
    /// Entries in all lists of `apart`.
    entries: usize,
}

impl Node {
    /// The case that holds every packing.
    pub fn root(statement: &Statement) -> Self {
        let (sizes, demands): (Vec<_>, Vec<_>) = statement.types().into_iter().unzip();
        let (counts, apart) = (vec![1; sizes.len()], vec![Vec::new(); sizes.len()]);
        Self { sizes, demands, counts, apart, entries: 0 }
    }

    /// Whether items of types i and j may share a bin: both exist, are not kept apart, fit, and are few enough.
    pub fn may_join(&self, i: u32, j: u32, statement: &Statement) -> bool {
        let (a, b) = (i as usize, j as usize);
        a.max(b) < self.sizes.len()
            && self.demands[a].min(self.demands[b]) >= if i == j { 2 } else { 1 }
            && self.sizes[a] <= statement.capacity - self.sizes[b]
            && self.counts[a].checked_add(self.counts[b]).is_some_and(|c| statement.max_items.is_none_or(|q| c <= q))
            && self.apart[a].binary_search(&j).is_err()
    }

    /// "Together": glues one item of type i and one of type j into the only item of a new type, kept apart from all
    /// that either was kept apart from. Needs [`Node::may_join`].
    pub fn join(&mut self, i: u32, j: u32) {
        let (a, b, new) = (i as usize, j as usize, self.sizes.len() as u32);
        self.demands[a] -= 1;
        self.demands[b] -= 1;
        self.sizes.push(self.sizes[a] + self.sizes[b]);
        self.counts.push(self.counts[a] + self.counts[b]);
        self.demands.push(1);
        let mut apart = [&self.apart[a][..], &self.apart[b][..]].concat();
        apart.sort_unstable();
        apart.dedup();
        for &other in &apart {
            self.apart[other as usize].push(new);
        }
        self.entries += 2 * apart.len();
        self.apart.push(apart);
    }

    /// "Apart": from here on no bin holds an item of type i and another item of type j.
    pub fn part(&mut self, i: u32, j: u32) {
        for (one, other) in [(i as usize, j), (j as usize, i)] {
            if let Err(place) = self.apart[one].binary_search(&other) {
                self.apart[one].insert(place, other);
                self.entries += 1;
            }
        }
    }

    /// Joins or parts; returns about the steps it took.
    pub(crate) fn decide(&mut self, i: u32, j: u32, together: bool) -> usize {
        let decision = if together { Self::join } else { Self::part };
        decision(self, i, j);
        1 + self.apart[i as usize].len() + self.apart[j as usize].len()
    }

    /// About the bytes held.
    pub(crate) fn bytes(&self) -> usize {
        64 * self.sizes.len() + 8 * self.entries
    }
}
