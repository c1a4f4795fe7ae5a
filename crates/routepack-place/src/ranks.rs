//! The experts of one layer on their ranks while a method improves them.

/// Members and load of every rank of one layer; every rank has exactly s members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Ranks<'a> {
    /// Load of every expert, `[experts]` in routed rows.
    loads: &'a [u64],
    slots: usize,
    /// Experts, `[ranks · slots]`.
    members: Vec<u32>,
    /// Load of every rank, `[ranks]` in routed rows.
    sums: Vec<u64>,
}

impl<'a> Ranks<'a> {
    /// Ranks that own the given experts, `[ranks · slots]`.
    pub(crate) fn new(loads: &'a [u64], num_ranks: usize, members: Vec<u32>) -> Self {
        let slots = members.len() / num_ranks;
        let sums = members
            .chunks(slots.max(1))
            .map(|rank| rank.iter().map(|&expert| loads[expert as usize]).sum())
            .collect();
        Self { loads, slots, members, sums }
    }

    /// Slots s of a rank.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Load of an expert.
    pub(crate) fn load(&self, expert: u32) -> u64 {
        self.loads[expert as usize]
    }

    /// Experts of a rank, in no particular order.
    pub(crate) fn members(&self, rank: usize) -> &[u32] {
        &self.members[rank * self.slots..(rank + 1) * self.slots]
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

    /// Exchanges the experts at positions `i` of rank `a` and `j` of rank `b`.
    pub(crate) fn swap(&mut self, (a, i): (usize, usize), (b, j): (usize, usize)) {
        let (p, q) = (a * self.slots + i, b * self.slots + j);
        let (x, y) = (self.load(self.members[p]), self.load(self.members[q]));
        self.members.swap(p, q);
        self.sums[a] = self.sums[a] - x + y;
        self.sums[b] = self.sums[b] - y + x;
    }

    /// Gives rank `rank` other members.
    pub(crate) fn assign(&mut self, rank: usize, members: &[u32]) {
        self.members[rank * self.slots..(rank + 1) * self.slots].copy_from_slice(members);
        self.sums[rank] = members.iter().map(|&expert| self.loads[expert as usize]).sum();
    }
}
