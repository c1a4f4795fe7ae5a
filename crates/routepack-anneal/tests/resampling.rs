//! The laws of systematic resampling.

#![allow(clippy::float_cmp, clippy::unwrap_used)]

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_anneal::resample::{culled_fraction, resample, weigh};

proptest! {
    /// Every replica gets its expectation rounded down or up, exactly; all together the population.
    #[test]
    fn copies_are_the_expectation_rounded(
        weights in prop::collection::vec(prop_oneof![Just(0), 0..10_u64, 0..=1_u64 << 40, Just(1 << 40)], 1..200),
        seed in any::<u64>(),
    ) {
        let total: u128 = weights.iter().map(|weight| u128::from(*weight)).sum();
        prop_assume!(total > 0);
        let copies = resample(&weights, &mut Stream::new(seed));
        prop_assert_eq!(copies.iter().map(|count| *count as usize).sum::<usize>(), weights.len());
        for (count, weight) in copies.iter().zip(&weights) {
            let expected = weights.len() as u128 * u128::from(*weight);
            prop_assert!(u128::from(*count) == expected / total || u128::from(*count) == expected.div_ceil(total));
        }
    }

    /// A shift of all energies changes nothing but the normaliser; extremes do not overflow.
    #[test]
    fn weights_know_differences_only(
        energies in prop::collection::vec(0_i32..1000, 1..60),
        step in 0.0_f64..10.0,
        shift in -1_000_000_000_i32..1_000_000_000,
    ) {
        let plain: Vec<f64> = energies.iter().map(|energy| f64::from(*energy)).collect();
        let shifted: Vec<f64> = plain.iter().map(|energy| energy + f64::from(shift)).collect();
        let (one, other) = (weigh(&plain, step), weigh(&shifted, step));
        prop_assert_eq!(&one.weights, &other.weights);
        prop_assert_eq!(one.weights.iter().max(), Some(&(1 << 40)));
        prop_assert_eq!(one.effective_population, other.effective_population);
        let expected = one.log_mean - step * f64::from(shift);
        prop_assert!((other.log_mean - expected).abs() <= 1e-9 * (1.0 + expected.abs()));
        prop_assert_eq!(culled_fraction(&plain, step), culled_fraction(&shifted, step));
    }

    /// The culled fraction grows with the step, from nothing to all but the best.
    #[test]
    fn culling_grows_with_the_step(
        energies in prop::collection::vec(0_i32..50, 1..60),
        steps in prop::array::uniform2(0.0_f64..3.0),
    ) {
        let energies: Vec<f64> = energies.into_iter().map(f64::from).collect();
        let [short, long] = if steps[0] < steps[1] { steps } else { [steps[1], steps[0]] };
        prop_assert!(culled_fraction(&energies, short) <= culled_fraction(&energies, long) + 1e-12);
        prop_assert!(culled_fraction(&energies, 0.0).abs() < 1e-12);
        let least = energies.iter().copied().fold(f64::INFINITY, f64::min);
        let not_best = energies.iter().filter(|energy| **energy > least).count() as f64;
        let all = culled_fraction(&energies, 1e9);
        prop_assert!((all - not_best / energies.len() as f64).abs() < 1e-12);
    }
}

#[test]
fn copies_equal_the_expectation_in_the_mean() {
    let energies = [3.0, 1.0, 4.0, 1.5, 9.0, 2.5, 6.0];
    let weights = weigh(&energies, 0.4).weights;
    let total: u64 = weights.iter().sum();
    let mut stream = Stream::new(1);
    let draws = 20_000;
    let mut sums = [0.0; 7];
    for _ in 0..draws {
        for (sum, count) in sums.iter_mut().zip(resample(&weights, &mut stream)) {
            *sum += f64::from(count);
        }
    }
    for (sum, weight) in sums.iter().zip(&weights) {
        let expected = 7.0 * *weight as f64 / total as f64;
        let fraction = expected.fract();
        let sd = (fraction * (1.0 - fraction) / f64::from(draws)).sqrt();
        assert!((sum / f64::from(draws) - expected).abs() < 5.0 * sd, "{sum} {expected}");
    }
}

#[test]
fn weights_are_boltzmann_weights() {
    let energies = [-5.0, -3.0, 0.0, 700.0, 1e300];
    let weighed = weigh(&energies, 1.0);
    let expected =
        [1.0, f64::exp(-2.0), f64::exp(-5.0), 0.0, 0.0].map(|factor| (factor * 2f64.powi(40)) as u64);
    for (weight, expected) in weighed.weights.iter().zip(expected) {
        assert!(weight.abs_diff(expected) <= 1, "{weighed:?}");
    }
    let sum = 1.0 + f64::exp(-2.0) + f64::exp(-5.0);
    assert!((weighed.log_mean - ((sum / 5.0).ln() + 5.0)).abs() < 1e-14);
    let squares = 1.0 + f64::exp(-4.0) + f64::exp(-10.0);
    assert!((weighed.effective_population - sum * sum / squares).abs() < 1e-14);
}

#[test]
fn equal_weights_keep_everyone() {
    for seed in 0..100 {
        assert_eq!(resample(&[1 << 40; 1000], &mut Stream::new(seed)), [1; 1000]);
    }
}

#[test]
fn the_largest_population_adds_up() {
    let weights = vec![1 << 40; 1 << 20];
    assert!(resample(&weights, &mut Stream::new(1)).iter().all(|count| *count == 1));
}

#[test]
fn one_replica_with_all_the_weight_takes_everything() {
    assert_eq!(resample(&[0, 0, 1, 0], &mut Stream::new(1)), [0, 0, 4, 0]);
}
