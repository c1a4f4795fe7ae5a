//! Longest processing time into fixed slots.
//!
//! Problem: E experts with loads w onto P ranks of exactly s = E/P slots, small largest rank load.
//! Method: experts by falling load (ties: lower expert first), each to the lightest rank with a free slot (ties: lower
//! rank). O(E log E + E·P).
//! Reference: R. L. Graham, Bounds on multiprocessing timing anomalies, SIAM J. Appl. Math. 17(2), 1969, doi
//! 10.1137/0117039; with the cardinality limit as in expert-parallel load balancers ("balanced packing").

/// Experts of every rank, `[ranks · slots]`, by the LPT rule.
pub(crate) fn longest_first(loads: &[u64], num_ranks: usize) -> Vec<u32> {
    let slots = loads.len() / num_ranks;
    let mut order: Vec<u32> = (0..loads.len() as u32).collect();
    order.sort_unstable_by_key(|&expert| (std::cmp::Reverse(loads[expert as usize]), expert));
    let mut members = vec![0; loads.len()];
    let mut open: Vec<(u64, usize, usize)> = (0..num_ranks).map(|rank| (0, rank, 0)).collect();
    for expert in order {
        let lightest = (0..open.len())
            .min_by_key(|&place| (open[place].0, open[place].1))
            .expect("as many slots as experts");
        let (sum, rank, used) = &mut open[lightest];
        members[*rank * slots + *used] = expert;
        *sum += loads[expert as usize];
        *used += 1;
        if *used == slots {
            open.swap_remove(lightest);
        }
    }
    members
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_rule_and_its_flaw() {
        // 9 | 5, 4 | then 4 to the rank of 9, 2 to 5 + 4, 2 to 9 + 4: 15 where 13 is possible.
        let loads = [4, 4, 2, 9, 2, 5];
        let members = longest_first(&loads, 2);
        assert_eq!(members, [3, 1, 4, 5, 0, 2]);
    }

    #[test]
    fn a_full_rank_takes_no_more() {
        assert_eq!(longest_first(&[0, 0, 0, 9], 2), [3, 2, 0, 1]);
    }
}
