//! Slots within ranks: who stays on its rank stays in its slot.
//!
//! Problem: given which experts every rank owns, choose their slots so that as few experts as possible leave the slot
//! they have in a reference placement.
//! Method: an expert that stays on its rank keeps its slot. Of the others, by expert, first those whose place on their
//! old rank is free on the new one take it (a swap of equal places is the cheapest transfer), then the rest take the
//! rank's free slots in ascending order. No other choice keeps more, as a slot of another rank cannot be kept.
//! O(E·s).

/// Slot of every expert `[experts]`, for `members` `[ranks · slots]` and the reference slots `[experts]`.
pub(crate) fn keep_slots(members: &[u32], slots_per_rank: usize, reference: &[u32]) -> Vec<u32> {
    let per_rank = slots_per_rank as u32;
    let mut slots = vec![0; members.len()];
    for (rank, members) in (0..).zip(members.chunks(slots_per_rank.max(1))) {
        let mut holder = vec![None; slots_per_rank];
        let mut members = members.to_vec();
        members.sort_unstable();
        let place_of = |expert: u32| (reference[expert as usize] % per_rank) as usize;
        let (stay, come): (Vec<u32>, Vec<u32>) =
            members.iter().partition(|&&expert| reference[expert as usize] / per_rank == rank);
        for &expert in stay.iter().chain(&come) {
            holder[place_of(expert)].get_or_insert(expert);
        }
        let left: Vec<u32> =
            come.into_iter().filter(|&expert| holder[place_of(expert)] != Some(expert)).collect();
        let mut left = left.into_iter();
        for (place, holder) in (0..).zip(&mut holder) {
            let expert = holder.or_else(|| left.next()).expect("as many experts as slots");
            slots[expert as usize] = rank * per_rank + place;
        }
    }
    slots
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_stays_keeps_its_slot() {
        // Reference: expert e in slot e. Experts 1 and 4 trade ranks.
        assert_eq!(keep_slots(&[4, 2, 0, 1, 5, 3], 3, &[0, 1, 2, 3, 4, 5]), [0, 4, 2, 3, 1, 5]);
    }

    #[test]
    fn newcomers_fill_free_slots_in_order() {
        assert_eq!(keep_slots(&[3, 2, 1, 0], 2, &[0, 1, 2, 3]), [2, 3, 0, 1]);
        assert_eq!(keep_slots(&[1, 0, 2, 3], 2, &[1, 0, 3, 2]), [1, 0, 3, 2], "nobody moves");
    }
}
