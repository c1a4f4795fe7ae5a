//! Slots within ranks: who stays on its rank stays in its slot.
//!
//! Problem: given which experts every rank owns, choose their slots so that as few experts as possible leave the slot
//! they have in a reference placement.
//! Method: an expert that stays on its rank keeps its slot; the others take the rank's free slots in ascending order,
//! by expert. No other choice keeps more, as a slot of another rank cannot be kept. O(E log s).

/// Slot of every expert `[experts]`, for `members` `[ranks · slots]` and the reference slots `[experts]`.
pub(crate) fn keep_slots(members: &[u32], slots_per_rank: usize, reference: &[u32]) -> Vec<u32> {
    let mut slots = vec![0; members.len()];
    for (rank, members) in members.chunks(slots_per_rank).enumerate() {
        let first = (rank * slots_per_rank) as u32;
        let own = first..first + slots_per_rank as u32;
        let (stay, mut come): (Vec<u32>, Vec<u32>) =
            members.iter().partition(|&&expert| own.contains(&reference[expert as usize]));
        let kept: Vec<u32> = stay.iter().map(|&expert| reference[expert as usize]).collect();
        for (&expert, &slot) in stay.iter().zip(&kept) {
            slots[expert as usize] = slot;
        }
        come.sort_unstable();
        for (expert, slot) in come.into_iter().zip(own.filter(|slot| !kept.contains(slot))) {
            slots[expert as usize] = slot;
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
