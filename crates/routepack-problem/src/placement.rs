//! Placement: per layer a bijection from logical experts to slots on ranks.

use serde::{Deserialize, Serialize};

use crate::ProblemError;

/// Where every logical expert lives, per layer (DESIGN §1.2): slot s of P·(E/P) belongs to rank s / (E/P).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    num_ranks: u32,
    /// `[layers][experts]` → slot.
    slots: Vec<Vec<u32>>,
}

impl Placement {
    /// The placement with the given slot of every expert, `slots[layer][expert]`.
    ///
    /// # Errors
    /// Experts not divisible by ranks, layers of different width, or a layer that is no bijection.
    pub fn new(num_ranks: usize, slots: Vec<Vec<u32>>) -> Result<Self, ProblemError> {
        let experts = slots.first().map_or(0, Vec::len);
        check_divisible(experts, num_ranks)?;
        for (layer, row) in slots.iter().enumerate() {
            if row.len() != experts {
                return Err(ProblemError::shape(
                    "placement",
                    &[layer, row.len()],
                    format!("[layers, {experts} experts]"),
                ));
            }
            let mut taken = vec![false; experts];
            for (expert, &slot) in row.iter().enumerate() {
                let place = taken.get_mut(slot as usize);
                if place.as_ref().is_none_or(|taken| **taken) {
                    return Err(ProblemError::value(
                        "placement",
                        format!("layer {layer}, expert {expert}"),
                        slot,
                        format!("expected a bijection onto slots 0 to {}", experts.saturating_sub(1)),
                    ));
                }
                *place.expect("checked above") = true;
            }
        }
        Ok(Self { num_ranks: u32::try_from(num_ranks).unwrap_or(u32::MAX), slots })
    }

    /// Expert e in slot e on every layer: where a freshly loaded model has them.
    ///
    /// # Errors
    /// Experts not divisible by ranks.
    pub fn identity(num_layers: usize, num_experts: usize, num_ranks: usize) -> Result<Self, ProblemError> {
        Self::new(num_ranks, vec![(0..num_experts as u32).collect(); num_layers])
    }

    /// Layers L.
    pub fn num_layers(&self) -> usize {
        self.slots.len()
    }

    /// Experts E per layer.
    pub fn num_experts(&self) -> usize {
        self.slots.first().map_or(0, Vec::len)
    }

    /// EP ranks P.
    pub fn num_ranks(&self) -> usize {
        self.num_ranks as usize
    }

    /// Slots a rank owns per layer, E/P.
    pub fn slots_per_rank(&self) -> usize {
        self.num_experts() / self.num_ranks().max(1)
    }

    /// Slot of every expert of a layer, `[experts]`: the logical → physical map.
    pub fn slots(&self, layer: usize) -> &[u32] {
        &self.slots[layer]
    }

    /// EP rank of an expert.
    pub fn rank_of(&self, layer: usize, expert: usize) -> usize {
        self.slots[layer][expert] as usize / self.slots_per_rank()
    }

    /// Load of every EP rank of a layer, `[ranks]`, given that of every expert.
    pub fn rank_loads(&self, layer: usize, loads: &[u64]) -> Vec<u64> {
        let mut ranks = vec![0u64; self.num_ranks()];
        for (expert, load) in loads.iter().enumerate() {
            ranks[self.rank_of(layer, expert)] += load;
        }
        ranks
    }

    /// Load of the busiest EP rank of a layer, given that of every expert.
    pub fn peak(&self, layer: usize, loads: &[u64]) -> u64 {
        self.rank_loads(layer, loads).into_iter().max().unwrap_or(0)
    }

    /// Expert in every slot of a layer, `[slots]`: the physical → logical map.
    pub fn experts(&self, layer: usize) -> Vec<u32> {
        let mut experts = vec![0; self.num_experts()];
        for (expert, &slot) in self.slots[layer].iter().enumerate() {
            experts[slot as usize] = expert as u32;
        }
        experts
    }
}

/// Checks that every rank can own the same number of experts.
fn check_divisible(num_experts: usize, num_ranks: usize) -> Result<(), ProblemError> {
    if num_ranks == 0 || !num_experts.is_multiple_of(num_ranks) {
        return Err(ProblemError::setting(
            "topology.ep",
            num_ranks,
            format!("experts not divisible by ranks: {num_experts} experts"),
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bijections_only() {
        assert!(Placement::new(2, vec![vec![1, 0, 3, 2]]).is_ok());
        assert!(Placement::new(2, vec![vec![1, 0, 3, 3]]).is_err());
        assert!(Placement::new(2, vec![vec![1, 0, 4, 2]]).is_err());
        let error = Placement::identity(1, 30, 8).expect_err("refused").to_string();
        assert!(error.contains("experts not divisible by ranks"), "{error}");
    }

    #[test]
    fn ranks_carry_their_experts() {
        let placement = Placement::new(2, vec![vec![0, 1, 2, 3], vec![2, 0, 3, 1]]).expect("valid");
        assert_eq!(placement.rank_loads(1, &[1, 20, 300, 4000]), [4020, 301]);
        assert_eq!(
            (placement.peak(0, &[1, 20, 300, 4000]), placement.peak(1, &[1, 20, 300, 4000])),
            (4300, 4020)
        );
    }

    #[test]
    fn maps_are_inverse() {
        let placement = Placement::new(2, vec![vec![2, 0, 3, 1]]).expect("valid");
        assert_eq!(placement.experts(0), [1, 3, 0, 2]);
        assert_eq!((placement.rank_of(0, 0), placement.rank_of(0, 1)), (1, 0));
    }
}
