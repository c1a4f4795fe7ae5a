//! The experts of one layer on their ranks, with the load of every rank in every block, while swaps improve them.
//!
//! State: W\[p,b\] and, per block, the two largest loads and the rank of the first, so that what a swap of two experts
//! would cost is found without looking at other ranks. If the first is of the two, the largest of the others is the second
//! or, where the second is of the two as well, no matter: the two keep their sum, so one of them stays at or above it.
//! O(B) a question, O(P·B) a change; vectors of blocks.

use std::ops::Range;

use multiversion::multiversion;

use crate::RowLoads;

/// Blocks are padded to a multiple of this many, with zeros.
const LANES: usize = 8;

type Lanes = [u32; LANES];

/// Ranks of one layer; every rank has exactly s members.
#[derive(Clone, Debug)]
pub(crate) struct BlockRanks {
    /// Vectors of `LANES` blocks.
    width: usize,
    slots: usize,
    /// Load of every expert, `[experts][width]`.
    experts: Vec<Lanes>,
    /// Experts, `[ranks · slots]`.
    members: Vec<u32>,
    /// W, `[ranks][width]`.
    sums: Vec<Lanes>,
    top: Top,
}

/// The largest loads of every block, `[width]` each.
#[derive(Clone, Debug)]
struct Top {
    first: Vec<Lanes>,
    second: Vec<Lanes>,
    first_rank: Vec<Lanes>,
}

impl BlockRanks {
    /// Ranks that own the given experts, `[ranks · slots]`.
    pub(crate) fn new(loads: &RowLoads, layer: usize, num_ranks: usize, members: Vec<u32>) -> Self {
        let width = loads.num_blocks().div_ceil(LANES).max(1);
        let mut experts = vec![[0; LANES]; loads.num_experts() * width];
        for (expert, lanes) in experts.chunks_exact_mut(width).enumerate() {
            lanes.as_flattened_mut()[..loads.num_blocks()].copy_from_slice(loads.of(layer, expert));
        }
        let slots = members.len() / num_ranks;
        let zeros = || vec![[0; LANES]; width];
        let top = Top { first: zeros(), second: zeros(), first_rank: zeros() };
        let mut ranks =
            Self { width, slots, experts, members, sums: vec![[0; LANES]; num_ranks * width], top };
        ranks.add_up();
        ranks
    }

    /// Gives the ranks other members, `[ranks · slots]`.
    pub(crate) fn deal(&mut self, members: &[u32]) {
        self.members.copy_from_slice(members);
        self.sums.fill([0; LANES]);
        self.add_up();
    }

    /// Sums and largest loads of the members, onto zeros.
    fn add_up(&mut self) {
        let width = self.width;
        for (place, &expert) in self.members.iter().enumerate() {
            let loads = self.experts[expert as usize * width..][..width].as_flattened();
            let sums = self.sums[place / self.slots * width..][..width].as_flattened_mut();
            sums.iter_mut().zip(loads).for_each(|(sum, load)| *sum += load);
        }
        find_top(&self.sums, &mut self.top);
    }

    /// Σ over blocks of the largest rank load, in routed rows.
    pub(crate) fn cost(&self) -> u64 {
        self.top.first.as_flattened().iter().map(|&load| u64::from(load)).sum()
    }

    /// Slots s of a rank.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Experts of every rank, `[ranks · slots]`.
    pub(crate) fn members(&self) -> &[u32] {
        &self.members
    }

    /// The rank with the largest load in a block.
    pub(crate) fn heaviest(&self, block: usize) -> usize {
        self.top.first_rank.as_flattened()[block] as usize
    }

    /// The cost if the experts at two places of different ranks were exchanged.
    pub(crate) fn cost_of_swap(&self, a: usize, b: usize) -> u64 {
        let ranks = [(a / self.slots) as u32, (b / self.slots) as u32];
        swap_cost(&self.two(a, b), &self.top, ranks)
    }

    /// The first of some places of one other rank whose expert costs less than `least` when exchanged for that at place
    /// `a`, and what it costs then.
    pub(crate) fn first_below(&self, a: usize, places: Range<usize>, least: u64) -> Option<(usize, u64)> {
        if places.is_empty() {
            return None;
        }
        let width = self.width;
        let ranks = [a, places.start].map(|place| place / self.slots);
        let [p, q] = ranks.map(|rank| &self.sums[rank * width..][..width]);
        let leaves = &self.experts[self.members[a] as usize * width..][..width];
        let search = Partners { ranks: [p, q], leaves, experts: &self.experts };
        let found = first_below(
            &search,
            &self.top,
            ranks.map(|rank| rank as u32),
            &self.members[places.clone()],
            least,
        );
        found.map(|(index, cost)| (places.start + index, cost))
    }

    fn two(&self, a: usize, b: usize) -> Two<'_> {
        let width = self.width;
        let expert = |place: usize| &self.experts[self.members[place] as usize * width..][..width];
        let rank = |place: usize| &self.sums[place / self.slots * width..][..width];
        Two { ranks: [rank(a), rank(b)], experts: [expert(a), expert(b)] }
    }

    /// Exchanges the experts at two places of different ranks.
    pub(crate) fn swap(&mut self, a: usize, b: usize) {
        let (p, q) = (a / self.slots, b / self.slots);
        let width = self.width;
        let (leaves, comes) = (self.members[a] as usize * width, self.members[b] as usize * width);
        for at in 0..width {
            for lane in 0..LANES {
                let shift = self.experts[comes + at][lane].wrapping_sub(self.experts[leaves + at][lane]);
                let (to, from) = (p * width + at, q * width + at);
                self.sums[to][lane] = self.sums[to][lane].wrapping_add(shift);
                self.sums[from][lane] = self.sums[from][lane].wrapping_sub(shift);
            }
        }
        self.members.swap(a, b);
        find_top(&self.sums, &mut self.top);
    }
}

/// Loads of two ranks and of the experts they would exchange, `[width]` each.
struct Two<'a> {
    ranks: [&'a [Lanes]; 2],
    experts: [&'a [Lanes]; 2],
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn swap_cost(two: &Two<'_>, top: &Top, [p, q]: [u32; 2]) -> u64 {
    let width = top.first.len();
    let [of_p, of_q] = two.ranks.map(|rank| &rank[..width]);
    let [leaves, comes] = two.experts.map(|expert| &expert[..width]);
    let (first, second) = (&top.first[..width], &top.second[..width]);
    let first_rank = &top.first_rank[..width];
    let is_one = |rank: u32| rank == p || rank == q;
    let mut costs = [0u64; LANES];
    for at in 0..width {
        for lane in 0..LANES {
            let others = if is_one(first_rank[at][lane]) { second[at][lane] } else { first[at][lane] };
            let shift = comes[at][lane].wrapping_sub(leaves[at][lane]);
            let (p_then, q_then) = (of_p[at][lane].wrapping_add(shift), of_q[at][lane].wrapping_sub(shift));
            costs[lane] += u64::from(others.max(p_then).max(q_then));
        }
    }
    costs.iter().sum()
}

/// Loads of two ranks, of an expert of the first, and of all experts.
struct Partners<'a> {
    ranks: [&'a [Lanes]; 2],
    leaves: &'a [Lanes],
    experts: &'a [Lanes],
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn first_below(
    search: &Partners<'_>,
    top: &Top,
    [p, q]: [u32; 2],
    members: &[u32],
    least: u64,
) -> Option<(usize, u64)> {
    let width = top.first.len();
    let [of_p, of_q] = search.ranks.map(|rank| &rank[..width]);
    let leaves = &search.leaves[..width];
    let (first, second) = (&top.first[..width], &top.second[..width]);
    let first_rank = &top.first_rank[..width];
    members.iter().enumerate().find_map(|(index, &expert)| {
        let comes = &search.experts[expert as usize * width..][..width];
        let mut costs = [0u64; LANES];
        for at in 0..width {
            for lane in 0..LANES {
                let is_one = first_rank[at][lane] == p || first_rank[at][lane] == q;
                let others = if is_one { second[at][lane] } else { first[at][lane] };
                let shift = comes[at][lane].wrapping_sub(leaves[at][lane]);
                let (p_then, q_then) =
                    (of_p[at][lane].wrapping_add(shift), of_q[at][lane].wrapping_sub(shift));
                costs[lane] += u64::from(others.max(p_then).max(q_then));
            }
        }
        let cost = costs.iter().sum();
        (cost < least).then_some((index, cost))
    })
}

#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn find_top(sums: &[Lanes], top: &mut Top) {
    let width = top.first.len();
    for at in 0..width {
        let (mut first, mut second, mut first_rank) = ([0u32; LANES], [0u32; LANES], [0u32; LANES]);
        for (rank, sums) in (0u32..).zip(sums.chunks_exact(width)) {
            for lane in 0..LANES {
                let load = sums[at][lane];
                let leads = load > first[lane];
                second[lane] = if leads { first[lane] } else { second[lane].max(load) };
                first_rank[lane] = if leads { rank } else { first_rank[lane] };
                first[lane] = first[lane].max(load);
            }
        }
        top.first[at] = first;
        top.second[at] = second;
        top.first_rank[at] = first_rank;
    }
}

#[cfg(test)]
mod tests {
    use routepack_anneal::Stream;

    use super::*;

    /// Every swap of small layers: its cost and the state it leaves, against a new start.
    #[test]
    fn swaps_are_what_a_new_start_finds() {
        for seed in 0..40 {
            let mut stream = Stream::new(seed);
            let (ranks, slots, blocks) = (2 + stream.index(4), 1 + stream.index(3), 1 + stream.index(11));
            let experts = ranks * slots;
            let most = [2, 1000][stream.index(2)];
            let loads = (0..experts * blocks).map(|_| stream.below(most) as u32).collect();
            let loads = RowLoads::new(experts, blocks, vec![loads]).expect("small");
            let mut members: Vec<u32> = (0..experts as u32).collect();
            stream.shuffle(&mut members);
            let before = BlockRanks::new(&loads, 0, ranks, members.clone());
            for (a, b) in (0..experts).flat_map(|a| (0..experts).map(move |b| (a, b))) {
                if a / slots == b / slots {
                    continue;
                }
                let mut swapped = before.clone();
                swapped.swap(a, b);
                members.swap(a, b);
                let afresh = BlockRanks::new(&loads, 0, ranks, members.clone());
                members.swap(a, b);
                assert_eq!(before.cost_of_swap(a, b), afresh.cost());
                // From b on, the first place that is cheaper than the dearest exchange.
                let places = b..(b / slots + 1) * slots;
                assert_eq!(before.first_below(a, experts..experts, u64::MAX), None);
                let costs = || places.clone().map(|b| (b, before.cost_of_swap(a, b)));
                for least in costs().map(|(_, cost)| cost) {
                    let expected = costs().find(|&(_, cost)| cost < least);
                    assert_eq!(before.first_below(a, places.clone(), least), expected);
                }
                assert_eq!((swapped.cost(), swapped.members()), (afresh.cost(), afresh.members()));
                assert!((0..blocks).all(|block| swapped.heaviest(block) == afresh.heaviest(block)));
            }
        }
    }
}
