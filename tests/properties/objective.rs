//! The exact objective against its definition.

use proptest::prelude::*;
use routepack_problem::evaluate;
use routepack_tests::oracle;
use routepack_tests::small::{scatter, shapes};

proptest! {
    #[test]
    fn evaluate_is_the_definition(shape in shapes(1..9), rows in 1usize..=3, seed in any::<u64>()) {
        let (instance, placement) = (shape.instance(), shape.placement());
        let layout = scatter(&instance, rows, seed);
        let score = evaluate(&instance, &placement, &layout).score;
        prop_assert_eq!(
            (score.worst_shard, score.total, score.worst_row),
            oracle::score(&instance, &placement, &layout)
        );
    }

    #[test]
    fn shares_of_a_divided_count_add_up(shape in shapes(1..6)) {
        let instance = shape.instance();
        let recorded: u64 = instance
            .batch()
            .expert_counts
            .iter()
            .flat_map(|counts| counts.by_sample().concat())
            .map(u64::from)
            .sum();
        let seen: u64 = instance.expert_loads().iter().flatten().sum();
        prop_assert_eq!(seen, recorded);
    }
}

/// The strategy reaches every kind of instance the objective distinguishes.
#[test]
fn the_strategy_reaches_the_hard_cases() {
    use proptest::strategy::ValueTree;
    use proptest::test_runner::TestRunner;
    let mut runner = TestRunner::deterministic();
    let (mut cut, mut shards, mut pads, mut groups, mut bare, mut limited) = (0, 0, 0, 0, 0, 0);
    let mut stages = 0;
    for _ in 0..400 {
        let shape = shapes(1..9).new_tree(&mut runner).expect("a shape").current();
        let instance = shape.instance();
        cut += usize::from(instance.topology().num_parts() > 1);
        shards += usize::from(instance.topology().num_groups() > 1);
        pads += usize::from(instance.charges_padding());
        groups += usize::from(instance.num_units() < instance.num_samples());
        bare += usize::from(instance.num_layers() == 0);
        limited += usize::from(shape.max_samples.is_some());
        stages += usize::from(instance.paced_stages() > 1);
    }
    for (kind, seen) in [
        ("cut", cut),
        ("shards", shards),
        ("pads", pads),
        ("groups", groups),
        ("bare", bare),
        ("limited", limited),
        ("stages", stages),
    ] {
        assert!(seen >= 20, "only {seen} of 400 instances are of the kind `{kind}`");
    }
}
