//! The bin-packing question behind the rows of a window.

use routepack_certificate::Statement;
use routepack_problem::Instance;

/// The bin-packing question whose answer bounds the cells and rows of every layout of the instance.
///
/// Items are the units (free samples and atomic groups, in unit order; dummies fill cells that would stay empty and are
/// no part of the question), sizes their padded tokens, capacity the usable tokens of a cell, a row the D slots, and
/// rows come in multiples of v.
///
/// A limit of q samples a cell becomes a limit on items. Every unit has at least s samples, s the size of the smallest,
/// so a cell with at most q samples holds at most ⌊q/s⌋ units: the question asks no more than the window does and its
/// lower bounds hold for the window (and so does [`sample_bound`]). Where all units have the same size it is the same
/// question; where they do not, a witness may hold more than q samples in a bin, and counts only if it does not (see
/// [`witness_counts`]).
pub fn statement(instance: &Instance) -> Statement {
    let units = 0..num_recorded_units(instance);
    let smallest = units.clone().map(|unit| instance.unit(unit).len() as u32).min().unwrap_or(1);
    Statement {
        sizes: units.map(|unit| instance.unit_tokens(unit)).collect(),
        capacity: u64::from(instance.cell_capacity()),
        max_items: instance.setting().packing.max_samples.map(|limit| limit / smallest),
        slots: instance.topology().num_slots() as u64,
        rows_multiple: u64::from(instance.setting().packing.rows_multiple),
    }
}

/// At least so many cells are necessary for the samples alone: ⌈samples/q⌉, or 1 without a limit of samples a cell.
pub fn sample_bound(instance: &Instance) -> u64 {
    let samples = (instance.num_samples() - instance.num_dummies()) as u64;
    instance.setting().packing.max_samples.map_or(1, |limit| samples.div_ceil(limit.into()))
}

/// Whether a witness of [`statement`] is a feasible packing of the window: no bin holds more samples than a cell may.
pub fn witness_counts(instance: &Instance, bins: &[Vec<u32>]) -> bool {
    let samples = |bin: &Vec<u32>| bin.iter().map(|&unit| instance.unit(unit as usize).len()).sum::<usize>();
    instance
        .setting()
        .packing
        .max_samples
        .is_none_or(|limit| bins.iter().all(|bin| samples(bin) <= limit as usize))
}

/// Units that hold recorded samples; dummies come last.
fn num_recorded_units(instance: &Instance) -> usize {
    instance.num_units() - instance.num_dummies()
}

#[cfg(test)]
mod tests {
    use routepack_problem::{Batch, Dummies, Setting};

    use super::*;

    #[test]
    fn units_are_items_and_dummies_are_not() {
        let batch = Batch {
            atomic_groups: Some(vec![-1, 4, -1, 4, 9, 9]),
            ..Batch::from_lengths(vec![1, 2, 3, 4, 5, 6])
        };
        let mut setting = Setting::new(2, 1, 20);
        setting.packing.sample_multiple = 2;
        setting.packing.cell_multiple = 3;
        setting.packing.rows_multiple = 3;
        setting.packing.dummies = Some(Dummies { length: 1 });
        let instance = Instance::single(batch.clone(), &setting).expect("valid");
        let expected =
            Statement { sizes: vec![2, 6, 4, 12], capacity: 18, max_items: None, slots: 2, rows_multiple: 3 };
        assert_eq!(statement(&instance), expected);
        assert_eq!(statement(&instance.with_dummies(3).expect("allowed")), expected);
        assert!(witness_counts(&instance, &[vec![0, 1, 2, 3]]));

        setting.packing.max_samples = Some(3);
        let limited = Instance::single(batch, &setting).expect("valid");
        assert_eq!(statement(&limited).max_items, Some(3));
        assert!(witness_counts(&limited, &[vec![0, 1], vec![2, 3]]));
        assert!(!witness_counts(&limited, &[vec![0, 1, 2], vec![3]]));
        assert_eq!((sample_bound(&instance), sample_bound(&limited)), (1, 2));

        let pairs = Batch {
            atomic_groups: Some(vec![0, 0, 1, 1, 2, 2]),
            ..Batch::from_lengths(vec![1, 2, 3, 4, 5, 6])
        };
        let pairs = Instance::single(pairs, &setting).expect("valid");
        assert_eq!(statement(&pairs).max_items, Some(1));
        assert!(witness_counts(&pairs, &[vec![0], vec![1], vec![2]]));
    }
}
