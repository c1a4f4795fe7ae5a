//! What is accepted is true, what is true can be proved, and the knapsack is exact.
#![allow(clippy::unwrap_used)]

mod oracle;

use oracle::{assert_true, best_pattern, closes, fewest_bins, fewest_rows, may_fill, pack, refute, statements};
use proptest::collection::vec;
use proptest::prelude::*;
use routepack_certificate::{
    Certificate, CheckError, Cut, Leaf, Limits, Node, Proof, Rule, Statement, TreeNode, check, check_leaf,
    max_pattern_value,
};

/// Nodes reached by random decisions, with a leaf for each and a number of bins, which is often the largest that equal
/// weights refute.
fn cases() -> impl Strategy<Value = (Statement, u64, Node, Leaf)> {
    let decisions = proptest::collection::vec((any::<u32>(), any::<u32>(), any::<bool>()), 0..=4);
    let bins = prop_oneof![(0..=8_u64).prop_map(Some), Just(None)];
    (statements(), bins, decisions).prop_flat_map(|(statement, bins, decisions)| {
        let mut node = Node::root(&statement);
        let most = best_pattern(&statement, &node, &vec![1; node.sizes.len()]);
        let bins = bins.unwrap_or((statement.sizes.len() as u64 - 1) / most);
        for (i, j, together) in decisions {
            let (i, j) = (i % node.sizes.len() as u32, j % node.sizes.len() as u32);
            if together && node.may_join(i, j, &statement) {
                node.join(i, j);
            } else if !together {
                node.part(i, j);
            }
        }
        let types = node.sizes.len();
        let sizes: Vec<i64> = node.sizes.iter().map(|&size| size as i64).collect();
        let near = proptest::collection::vec(-2..=2_i64, types)
            .prop_map(move |noise| sizes.iter().zip(noise).map(|(size, noise)| 3 * size + noise).collect());
        let weights = prop_oneof![near, proptest::collection::vec(-3..=9_i64, types), Just(vec![1; types])];
        let multipliers = proptest::collection::btree_map(0..types as u32, 1..=3_u32, 1..=types.min(4));
        let cut = (1..=4_u64, 1..=4_u32, multipliers).prop_map(|(scale, denominator, multipliers)| Cut {
            scale,
            denominator,
            multipliers: multipliers.into_iter().collect(),
        });
        // What the cuts take away is added to the weights, or else they only spoil the leaf.
        let leaf = (weights, proptest::collection::vec(cut, 0..=3)).prop_map(|(weights, cuts)| {
            let mut leaf = Leaf { weights, cuts };
            for cut in &leaf.cuts {
                for &(t, multiplier) in &cut.multipliers {
                    leaf.weights[t as usize] += (cut.scale as i64 * i64::from(multiplier)) / i64::from(cut.denominator);
                }
            }
            leaf
        });
        (Just(statement), Just(bins), Just(node), leaf)
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12_000))]

    /// Two ways: lists and search against the plain list of all patterns.
    #[test]
    fn a_leaf_closes_exactly_when_no_pattern_is_worth_too_much((statement, bins, node, leaf) in cases()) {
        let checked = check_leaf(&statement, bins, &node, &leaf, &Limits::default());
        prop_assert_eq!(checked.is_ok(), closes(&statement, bins, &node, &leaf), "{:?}", checked);
    }

    /// Types apart are so for both, once, and a glued item is apart from just what its parts are apart from.
    #[test]
    fn apart_is_symmetric_and_inherited((statement, _, node, _) in cases(), i in 0..8_u32, j in 0..8_u32) {
        let types = node.sizes.len() as u32;
        for t in 0..types {
            prop_assert!(node.apart[t as usize].is_sorted_by(|a, b| a < b));
            prop_assert!(node.apart[t as usize].iter().all(|&other| node.apart[other as usize].contains(&t)));
        }
        if node.may_join(i, j, &statement) {
            let mut together = node.clone();
            together.join(i, j);
            for t in 0..types {
                let kept = node.apart[i as usize].contains(&t) || node.apart[j as usize].contains(&t);
                prop_assert_eq!(together.apart[types as usize].contains(&t), kept);
                prop_assert_eq!(together.apart[t as usize].contains(&types), kept);
            }
            let mass = |node: &Node, what: fn(&Node, usize) -> u64| -> u64 {
                (0..node.sizes.len()).map(|t| u64::from(node.demands[t]) * what(node, t)).sum()
            };
            prop_assert_eq!(mass(&together, |node, t| node.sizes[t]), statement.total() as u64);
            prop_assert_eq!(mass(&together, |node, t| node.counts[t].into()), statement.sizes.len() as u64);
        }
    }

    /// Two ways: bits against all sets of items; and where a bin may be filled for good, nothing is lost.
    #[test]
    fn bins_are_filled_for_good_exactly_where_the_page_says_so(
        (statement, bins, _, _) in cases(),
        picks in vec(any::<usize>(), 1..=4),
        grown in any::<bool>(),
    ) {
        let items = statement.sizes.len();
        let bins = bins.min(items as u64 - 1);
        let mut tuple: Vec<usize> = picks.iter().map(|pick| pick % items).collect();
        if grown && let Some(last) = statement.sizes.iter().position(|&size| {
            tuple[..tuple.len() - 1].iter().map(|&item| statement.sizes[item]).sum::<u64>() + size == statement.capacity
        }) {
            *tuple.last_mut().unwrap() = last;
        }
        let sizes: Vec<u64> = tuple.iter().map(|&item| statement.sizes[item]).collect();
        let tree = vec![TreeNode::Fill(sizes.clone()), TreeNode::Leaf(Leaf::default())];
        let proof = Some(Proof::Tree(tree));
        let certificate = Certificate { cells_at_least: Some(bins + 1), proof, ..Certificate::default() };
        // The leaf is refused in any case, one line later.
        let refused = check(&statement, &certificate, &Limits::default()).unwrap_err().to_string();
        let mut items_of: Vec<usize> = Vec::new();
        for size in sizes {
            items_of.extend((0..items).find(|item| statement.sizes[*item] == size && !items_of.contains(item)));
        }
        let allowed = items_of.len() == tuple.len() && may_fill(&statement, bins, &items_of);
        prop_assert!(refused.starts_with(if allowed { "line 12" } else { "line 11" }), "{} {}", refused, allowed);
        if allowed {
            let left = (0..items).filter(|item| !items_of.contains(item)).map(|item| statement.sizes[item]).collect();
            let left = Statement { sizes: left, ..statement.clone() };
            prop_assert_eq!(fewest_bins(&left) < bins, fewest_bins(&statement) <= bins);
        }
    }

    /// A single leaf under random decisions, claimed as a proof of any number of bins.
    #[test]
    fn no_accepted_leaf_is_wrong((statement, bins, _, leaf) in cases(), picks in vec(any::<usize>(), 0..4)) {
        let fill = picks.iter().map(|pick| statement.sizes[pick % statement.sizes.len()]).collect();
        let mut tree = vec![TreeNode::Fill(fill), TreeNode::Leaf(leaf)];
        tree.drain(..usize::from(picks.is_empty()));
        let proof = Some(Proof::Tree(tree));
        let certificate = Certificate { cells_at_least: Some(bins + 1), proof, ..Certificate::default() };
        if let Ok(checked) = check(&statement, &certificate, &Limits::default()) {
            assert_true(&statement, &checked);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(600))]

    /// A complete prover reaches the optimum, never more, whatever pairs it branches on, and both claims are checked.
    #[test]
    fn the_optimum_can_be_proved_and_nothing_above_it(statement in statements(), choice in any::<u32>()) {
        let (bins, rows) = (fewest_bins(&statement), fewest_rows(&statement));
        prop_assert_eq!(refute(&statement, bins, choice), None);
        let certificate = Certificate {
            witness: Some(pack(&statement)),
            cells_at_least: Some(bins),
            rows_at_least: Some(rows),
            proof: refute(&statement, bins - 1, choice).map(Proof::Tree),
        };
        let checked = check(&statement, &certificate, &Limits::default()).unwrap();
        prop_assert_eq!((checked.cells_lower, checked.cells_upper), (bins, Some(bins)));
        prop_assert_eq!((checked.rows_lower, checked.rows_upper), (rows, Some(rows)));
        prop_assert_eq!(checked.rule, Some(Rule::Tree));
        let parsed = Certificate::parse(&statement, certificate.to_text(&statement).as_bytes(), &Limits::default());
        prop_assert_eq!(parsed.unwrap(), certificate);
    }

    /// The claim about rows alone is the weaker one: it needs D·(R − v) bins refuted, not the fewest bins less one.
    #[test]
    fn a_claim_of_rows_needs_only_its_own_bins_refuted(statement in statements()) {
        let rows = fewest_rows(&statement);
        let bins = statement.slots * (rows - statement.rows_multiple);
        let proof = refute(&statement, bins, 0).map(Proof::Tree);
        let certificate = Certificate { rows_at_least: Some(rows), proof, ..Certificate::default() };
        prop_assert_eq!(certificate.refuted_bins(&statement), Some(bins));
        let checked = check(&statement, &certificate, &Limits::default()).unwrap();
        prop_assert_eq!((checked.cells_lower, checked.rows_lower), (bins + 1, rows));
    }

    /// The bound by weights is ⌈total / M⌉ and not one more, M by the list of all patterns.
    #[test]
    fn the_largest_pattern_value_is_exact(statement in statements(), seed in proptest::collection::vec(0..=9_u64, 8)) {
        let node = Node::root(&statement);
        let weights = seed[..node.sizes.len()].to_vec();
        let largest = max_pattern_value(&statement, &weights, &Limits::default()).unwrap();
        prop_assert_eq!(largest, best_pattern(&statement, &node, &weights));
        let total: u64 = weights.iter().zip(&node.demands).map(|(&weight, &demand)| weight * u64::from(demand)).sum();
        if total > 0 {
            let proof = Some(Proof::Weights(weights));
            let bound = total.div_ceil(largest);
            let claim = |cells| Certificate { cells_at_least: Some(cells), proof: proof.clone(), ..Certificate::default() };
            assert_true(&statement, &check(&statement, &claim(bound), &Limits::default()).unwrap());
            prop_assert!(check(&statement, &claim(bound + 1), &Limits::default()).is_err());
        }
    }

    /// Volume and count prove ⌈total/C⌉ and ⌈n/q⌉ and not one more.
    #[test]
    fn the_two_divisions_prove_what_they_divide(statement in statements()) {
        let items = statement.sizes.len() as u64;
        let volume = (statement.total() as u64).div_ceil(statement.capacity);
        let mut proofs = vec![(Proof::Volume, volume)];
        proofs.extend(statement.max_items.map(|limit| (Proof::Count, items.div_ceil(limit.into()))));
        for (proof, bound) in proofs {
            let claim = |cells| Certificate { cells_at_least: Some(cells), proof: Some(proof.clone()), ..Certificate::default() };
            assert_true(&statement, &check(&statement, &claim(bound), &Limits::default()).unwrap());
            prop_assert!(check(&statement, &claim(bound + 1), &Limits::default()).is_err());
        }
    }
}

/// The generator reaches what the rules are for: gaps to the volume bound, limits that bind, equal sizes, leaves that
/// close only because of cuts or of types kept apart, bins of two and three items that may be filled for good.
#[test]
fn the_generator_reaches_the_hard_cases() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut seen = [0; 8];
    for _ in 0..30_000 {
        use proptest::strategy::ValueTree;
        let (statement, bins, node, leaf) = cases().new_tree(&mut runner).unwrap().current();
        let volume = (statement.total() as u64).div_ceil(statement.capacity);
        seen[0] += usize::from(fewest_bins(&statement) > volume);
        seen[1] +=
            usize::from(fewest_bins(&statement) > fewest_bins(&Statement { max_items: None, ..statement.clone() }));
        seen[2] += usize::from(Node::root(&statement).demands.iter().any(|&demand| demand > 1));
        let items = statement.sizes.len();
        let tuples = (0..items.pow(3)).map(|code| [code % items, code / items % items, code / items / items]);
        seen[6] += usize::from(tuples.clone().any(|tuple| may_fill(&statement, bins, &tuple[..2])));
        seen[7] += usize::from(tuples.clone().any(|tuple| may_fill(&statement, bins, &tuple)));
        let without_cuts = Leaf { cuts: Vec::new(), ..leaf.clone() };
        let mut mixed = node.clone();
        mixed.apart.iter_mut().for_each(Vec::clear);
        if closes(&statement, bins, &node, &leaf) {
            seen[3] += usize::from(!closes(&statement, bins, &node, &without_cuts));
            seen[4] += usize::from(!closes(&statement, bins, &mixed, &leaf));
            seen[5] += usize::from(leaf.weights.iter().any(|&weight| weight < 0));
        }
    }
    assert!(seen.iter().all(|&count| count >= 50), "{seen:?}");
}

/// GAU-WAE, no integer round-up: the volume bound is 2, three bins are needed.
#[test]
fn the_instance_without_the_round_up_property_is_refuted() {
    let statement = Statement::bins(vec![5000, 3750, 3250, 3001, 2000, 2000], 10_000);
    let claim = |proof| Certificate {
        witness: Some(vec![vec![0, 1], vec![2, 3, 4], vec![5]]),
        cells_at_least: Some(3),
        proof: Some(proof),
        ..Certificate::default()
    };
    assert!(matches!(check(&statement, &claim(Proof::Volume), &Limits::default()), Err(CheckError::Invalid { .. })));
    let sizes = Proof::Weights(vec![5000, 3750, 3250, 3001, 2000]);
    assert_eq!(check(&statement, &claim(sizes), &Limits::default()).unwrap().cells_lower, 3);
    for choice in 0..20 {
        let tree = Proof::Tree(refute(&statement, 2, choice).unwrap());
        assert_eq!(check(&statement, &claim(tree), &Limits::default()).unwrap().cells_upper, Some(3));
    }
}
