//! A subset of a few candidates that fills a room.
//!
//! Problem: of W candidates with sizes s, in decreasing order, choose at most k with a total in [r − waste, r], or
//! if there is none with the largest total below; of those a lexicographically first one (large candidates go early,
//! small ones stay for later), or a random one.
//! - r small, k not binding: bits B_j = sums reachable with candidates j, j+1, …: B_j = B_{j+1} | B_{j+1} << s_j,
//!   O(W·r/64).
//! - r small, k binding: the same with the fewest items for every sum, O(W·r).
//! - r large: sums of either half of the candidates in sorted lists, two pointers, O(2^{W/2}); at most k/2 of each half,
//!   always a largest total.
//!
//! References: S. Martello, P. Toth, Knapsack Problems, 1990, ch. 4; E. Horowitz, S. Sahni, J. ACM 21 (1974),
//! doi:10.1145/321812.321823.

/// Rooms above this are too wide for a table.
const WIDEST: u64 = 1 << 21;
/// Candidates considered where the room is wider than a table.
const HALVED: usize = 28;

/// Tables, kept between calls.
#[derive(Debug, Default)]
pub(crate) struct SubsetSum {
    bits: Vec<u64>,
    fewest: Vec<u8>,
}

impl SubsetSum {
    /// Places in `sizes` (decreasing) of a subset that leaves at most `waste` if possible, else as little as possible, in
    /// increasing order. `passes` is asked whether to pass over a candidate that could be taken but need not be.
    pub(crate) fn choose(
        &mut self,
        sizes: &[u64],
        room: u64,
        waste: u64,
        limit: usize,
        passes: &mut dyn FnMut() -> bool,
    ) -> Vec<usize> {
        if room > WIDEST {
            return halves(&sizes[..sizes.len().min(HALVED)], room, limit);
        }
        let (mut left, mut most) = (room, 0);
        for &size in sizes.iter().rev().take_while(|&&size| size <= room) {
            if size > left {
                break;
            }
            left -= size;
            most += 1;
        }
        if most <= limit {
            self.by_bits(sizes, room, waste, passes)
        } else {
            self.by_counts(sizes, room, waste, limit, passes)
        }
    }

    fn by_bits(
        &mut self,
        sizes: &[u64],
        room: u64,
        waste: u64,
        passes: &mut dyn FnMut() -> bool,
    ) -> Vec<usize> {
        let width = room as usize / 64 + 1;
        self.bits.clear();
        self.bits.resize(width * (sizes.len() + 1), 0);
        self.bits[width * sizes.len()] = 1;
        for (j, &size) in sizes.iter().enumerate().rev() {
            let (low, high) = self.bits.split_at_mut(width * (j + 1));
            let (to, from) = (&mut low[width * j..], &high[..width]);
            to.copy_from_slice(from);
            let (words, shift) = ((size / 64) as usize, (size % 64) as u32);
            if size > room {
                continue;
            }
            if shift == 0 {
                to[words..].iter_mut().zip(from).for_each(|(to, from)| *to |= from);
            } else {
                to[words] |= from[0] << shift;
                let pairs = from.windows(2).map(|pair| pair[1] << shift | pair[0] >> (64 - shift));
                to[words + 1..].iter_mut().zip(pairs).for_each(|(to, from)| *to |= from);
            }
        }
        let largest = |j: usize, sum: u64| largest_bit(&self.bits[width * j..width * (j + 1)], sum);
        let reaches = |j: usize, low: u64, high: u64| largest(j, high).is_some_and(|sum| sum >= low);
        let (mut low, mut high) =
            (largest(0, room).expect("the empty subset has sum 0").min(room - waste.min(room)), room);
        let mut chosen = Vec::new();
        for (j, &size) in sizes.iter().enumerate() {
            let taken = low.saturating_sub(size);
            if size <= high && reaches(j + 1, taken, high - size) && !(reaches(j + 1, low, high) && passes())
            {
                chosen.push(j);
                (low, high) = (taken, high - size);
            }
        }
        chosen
    }

    fn by_counts(
        &mut self,
        sizes: &[u64],
        room: u64,
        waste: u64,
        limit: usize,
        passes: &mut dyn FnMut() -> bool,
    ) -> Vec<usize> {
        const NEVER: u8 = u8::MAX;
        let (width, mut limit) = (room as usize + 1, limit.min(250));
        self.fewest.clear();
        self.fewest.resize(width * (sizes.len() + 1), NEVER);
        self.fewest[width * sizes.len()] = 0;
        for (j, &size) in sizes.iter().enumerate().rev() {
            let (low, high) = self.fewest.split_at_mut(width * (j + 1));
            let (to, from) = (&mut low[width * j..], &high[..width]);
            to.copy_from_slice(from);
            if size <= room {
                to[size as usize..]
                    .iter_mut()
                    .zip(from)
                    .for_each(|(to, from)| *to = (*to).min(from.saturating_add(1)));
            }
        }
        let largest = |j: usize, sum: u64, limit: usize| {
            let row = &self.fewest[width * j..][..=sum as usize];
            row.iter().rposition(|&fewest| usize::from(fewest) <= limit).map(|sum| sum as u64)
        };
        let reaches = |j, low, high, limit| largest(j, high, limit).is_some_and(|sum| sum >= low);
        let best = largest(0, room, limit).expect("the empty subset has sum 0");
        let (mut low, mut high) = (best.min(room - waste.min(room)), room);
        let mut chosen = Vec::new();
        for (j, &size) in sizes.iter().enumerate() {
            let taken = low.saturating_sub(size);
            let takes = limit > 0 && size <= high && reaches(j + 1, taken, high - size, limit - 1);
            if takes && !(reaches(j + 1, low, high, limit) && passes()) {
                chosen.push(j);
                (low, high) = (taken, high - size);
                limit -= 1;
            }
        }
        chosen
    }
}

/// The largest position of a set bit up to this one.
fn largest_bit(bits: &[u64], end: u64) -> Option<u64> {
    let (mut word, shift) = ((end / 64) as usize, 63 - end % 64);
    let mut rest = bits[word] << shift >> shift;
    while rest == 0 {
        word = word.checked_sub(1)?;
        rest = bits[word];
    }
    Some(64 * word as u64 + 63 - u64::from(rest.leading_zeros()))
}

/// (sum, chosen candidates as bits) of all subsets with at most so many members and a sum of at most `room`, by sum.
fn sums(sizes: &[u64], room: u64, limit: usize) -> Vec<(u64, u32)> {
    let mut all = vec![(0, 0)];
    for (j, &size) in sizes.iter().enumerate() {
        let fits = |&&(sum, set): &&(u64, u32)| {
            sum <= room.saturating_sub(size) && (set.count_ones() as usize) < limit
        };
        let grown: Vec<_> = if size > room {
            Vec::new()
        } else {
            all.iter().filter(fits).map(|&(sum, set)| (sum + size, set | 1 << j)).collect()
        };
        all = itertools::merge(all, grown).collect();
    }
    all
}

fn halves(sizes: &[u64], room: u64, limit: usize) -> Vec<usize> {
    // Alternating, so that both halves have large and small candidates.
    let part = |start: usize| sizes.iter().skip(start).step_by(2).copied().collect::<Vec<_>>();
    let (one, other) = (sums(&part(0), room, limit.div_ceil(2)), sums(&part(1), room, limit / 2));
    let (mut best, mut end) = ((0, 0, 0), other.len());
    for &(sum, set) in &one {
        while other[end - 1].0 > room - sum {
            end -= 1;
        }
        if sum + other[end - 1].0 > best.0 {
            best = (sum + other[end - 1].0, set, other[end - 1].1);
        }
    }
    let holds = |j: &usize| [best.1, best.2][j % 2] >> (j / 2) & 1 == 1;
    (0..sizes.len()).filter(holds).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn brute(sizes: &[u64], room: u64, limit: usize) -> u64 {
        let sum = |set: u32| (0..sizes.len()).filter(|j| set >> j & 1 == 1).map(|j| sizes[j]).sum::<u64>();
        let sets = (0..1_u32 << sizes.len()).filter(|set| set.count_ones() as usize <= limit);
        sets.map(sum).filter(|&sum| sum <= room).max().unwrap()
    }

    proptest! {
        #[test]
        fn fills_the_room(
            mut sizes in prop::collection::vec(1_u64..200, 0..9), room in 0_u64..700, waste in 0_u64..60, limit in 0_usize..10,
            coin: bool,
        ) {
            sizes.sort_by(|a, b| b.cmp(a));
            let best = brute(&sizes, room, limit);
            let mut tables = SubsetSum::default();
            let chosen = tables.choose(&sizes, room, waste, limit, &mut || coin);
            prop_assert!(chosen.len() <= limit);
            let sum = chosen.iter().map(|&j| sizes[j]).sum::<u64>();
            prop_assert!(sum <= room && sum >= best.min(room.saturating_sub(waste)));
            if waste == 0 {
                prop_assert_eq!(sum, best);
            }
            let wide = halves(&sizes, room, 2 * sizes.len());
            prop_assert_eq!(wide.iter().map(|&j| sizes[j]).sum::<u64>(), brute(&sizes, room, sizes.len()));
            let few = halves(&sizes, room, limit);
            prop_assert!(few.len() <= limit && few.iter().map(|&j| sizes[j]).sum::<u64>() <= best);
        }
    }
}
