//! The experts of one layer on their ranks while a method improves them.

/// Members and load of every rank of one layer; every rank has exactly s members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks<'a> {
    /// Load of every expert, `[experts]` in routed rows.
    of_expert: &'a [u64],
    slots: usize,
    /// Experts, `[ranks · slots]`.
    members: Vec<u32>,
    /// Their loads, `[ranks · slots]`.
    loads: Vec<u64>,
    /// Load of every rank, `[ranks]` in routed rows.
    sums: Vec<u64>,
}

impl<'a> Ranks<'a> {
    /// Ranks that own the given experts, `[ranks · slots]`.
    pub(crate) fn new(of_expert: &'a [u64], num_ranks: usize, members: Vec<u32>) -> Self {
        let slots = members.len() / num_ranks;
        let loads: Vec<u64> = members.iter().map(|&expert| of_expert[expert as usize]).collect();
        let sums = (0..num_ranks).map(|rank| loads[rank * slots..(rank + 1) * slots].iter().sum()).collect();
        Self { of_expert, slots, members, loads, sums }
    }

    /// Slots s of a rank.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Experts of a rank, in no particular order.
    pub(crate) fn members(&self, rank: usize) -> &[u32] {
        &self.members[rank * self.slots..(rank + 1) * self.slots]
    }

    /// Loads of the experts of a rank, in the order of its members.
    pub(crate) fn loads(&self, rank: usize) -> &[u64] {
        &self.loads[rank * self.slots..(rank + 1) * self.slots]
    }

    /// Experts of every rank, `[ranks · slots]`.
    pub(crate) fn all_members(&self) -> &[u32] {
        &self.members
    }

    /// Load of every rank.
    pub(crate) fn sums(&self) -> &[u64] {
        &self.sums
    }

    /// The largest rank load.
    pub(crate) fn peak(&self) -> u64 {
        self.sums.iter().copied().max().unwrap_or(0)
    }

    /// The first rank with the largest load.
    pub(crate) fn heaviest(&self) -> usize {
        let peak = self.peak();
        self.sums.iter().position(|&sum| sum == peak).unwrap_or(0)
    }

    /// Ranks with less load than the given one, lightest first (ties: lower rank).
    pub(crate) fn lighter_than(&self, rank: usize) -> Vec<usize> {
        let mut lighter: Vec<usize> =
            (0..self.sums.len()).filter(|&other| self.sums[other] < self.sums[rank]).collect();
        lighter.sort_unstable_by_key(|&other| (self.sums[other], other));
        lighter
    }

    /// Exchanges the experts at positions `i` of rank `a` and `j` of rank `b`.
    pub(crate) fn swap(&mut self, (a, i): (usize, usize), (b, j): (usize, usize)) {
        let (p, q) = (a * self.slots + i, b * self.slots + j);
        self.members.swap(p, q);
        self.loads.swap(p, q);
        self.sums[a] = self.sums[a] - self.loads[q] + self.loads[p];
        self.sums[b] = self.sums[b] - self.loads[p] + self.loads[q];
    }

    /// Gives rank `rank` other members.
    pub(crate) fn assign(&mut self, rank: usize, members: &[u32]) {
        let own = rank * self.slots..(rank + 1) * self.slots;
        self.members[own.clone()].copy_from_slice(members);
        for (load, &expert) in self.loads[own.clone()].iter_mut().zip(members) {
            *load = self.of_expert[expert as usize];
        }
        self.sums[rank] = self.loads[own].iter().sum();
    }
}
