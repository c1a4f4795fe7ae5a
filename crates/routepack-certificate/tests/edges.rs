//! Edge cases by name.
#![allow(clippy::unwrap_used)]

use routepack_certificate::{
    Certificate, CheckError, Leaf, Limits, Node, Proof, Rule, Statement, TreeNode, check, check_leaf,
};

fn volume(cells: u64) -> Certificate {
    Certificate { cells_at_least: Some(cells), proof: Some(Proof::Volume), ..Certificate::default() }
}

fn meaningless(statement: &Statement) -> String {
    match check(statement, &Certificate::default(), &Limits::default()) {
        Err(CheckError::Statement { why }) => why,
        other => panic!("{other:?}"),
    }
}

#[test]
fn no_items_need_no_bins() {
    let statement = Statement { slots: 3, rows_multiple: 2, ..Statement::bins(Vec::new(), 10) };
    let packed = Certificate { witness: Some(Vec::new()), ..Certificate::default() };
    let checked = check(&statement, &packed, &Limits::default()).unwrap();
    assert_eq!((checked.cells_lower, checked.cells_upper, checked.rows_upper), (0, Some(0), Some(0)));
    assert_eq!(checked.rule, None);
    for claimed in [volume(0), volume(1), Certificate { rows_at_least: Some(2), ..volume(1) }] {
        assert!(check(&statement, &claimed, &Limits::default()).is_err());
    }
}

#[test]
fn items_that_fit_nowhere_are_named() {
    assert_eq!(meaningless(&Statement::bins(vec![4, 0, 2], 10)), "item 1 has size 0, must be in 1..=10, the capacity");
    assert_eq!(
        meaningless(&Statement::bins(vec![4, 2, 11, 12], 10)),
        "item 2 has size 11, must be in 1..=10, the capacity"
    );
    for figures in [(0, Some(1), 1, 1), (5, Some(0), 1, 1), (5, None, 0, 1), (5, None, 1, 0)] {
        let (capacity, max_items, slots, rows_multiple) = figures;
        let statement = Statement { sizes: vec![1], capacity, max_items, slots, rows_multiple };
        assert!(meaningless(&statement).contains("at least 1"));
    }
}

#[test]
fn capacity_one() {
    let statement = Statement::bins(vec![1; 5], 1);
    let packed = Certificate { witness: Some((0..5).map(|item| vec![item]).collect()), ..volume(5) };
    let checked = check(&statement, &packed, &Limits::default()).unwrap();
    assert_eq!((checked.cells_lower, checked.cells_upper), (5, Some(5)));
    assert!(check(&statement, &volume(6), &Limits::default()).is_err());
}

/// Seven items over half the capacity: the volume bound is 6, seven bins are needed.
#[test]
fn all_equal() {
    let statement = Statement { slots: 2, ..Statement::bins(vec![6; 7], 8) };
    assert!(check(&statement, &volume(7), &Limits::default()).is_err());
    let weights = Certificate { proof: Some(Proof::Weights(vec![1])), rows_at_least: Some(4), ..volume(7) };
    let checked = check(&statement, &weights, &Limits::default()).unwrap();
    assert_eq!((checked.cells_lower, checked.rows_lower, checked.rule), (7, 4, Some(Rule::Weights)));
}

/// The sum exceeds 2^62, the sizes 2^32; a 64-bit sum would wrap.
#[test]
fn sums_past_64_bits() {
    let capacity = 1 << 62;
    let half = capacity / 2 + 1;
    let statement = Statement::bins(vec![half; 9], capacity);
    assert_eq!(check(&statement, &volume(5), &Limits::default()).unwrap().cells_lower, 5);
    let ones = Certificate { proof: Some(Proof::Weights(vec![1])), ..volume(9) };
    assert_eq!(check(&statement, &ones, &Limits::default()).unwrap().cells_lower, 9);
    for capacity in [u64::MAX, 1 << 63, (1 << 63) - 1] {
        let statement = Statement::bins(vec![capacity - 1; 9], capacity);
        assert_eq!(check(&statement, &volume(9), &Limits::default()).unwrap().cells_lower, 9);
        assert_eq!(check(&statement, &ones, &Limits::default()).unwrap().cells_lower, 9);
        let tree = Proof::Tree(vec![TreeNode::Leaf(Leaf { weights: vec![1], cuts: Vec::new() })]);
        let tree = Certificate { proof: Some(tree), ..volume(9) };
        assert_eq!(check(&statement, &tree, &Limits::default()).unwrap().cells_lower, 9);
    }
}

/// "Five cells" and "three rows" are different claims: with two slots the latter needs only four bins refuted.
#[test]
fn cells_and_rows_are_two_claims() {
    let statement = Statement { slots: 2, ..Statement::bins(vec![9, 9, 9, 9, 2, 2, 2, 2], 10) };
    let rows = Certificate { cells_at_least: None, rows_at_least: Some(3), ..volume(0) };
    let checked = check(&statement, &rows, &Limits::default()).unwrap();
    assert_eq!((checked.cells_lower, checked.rows_lower), (5, 3));
    let cells = check(&statement, &volume(4), &Limits::default()).unwrap();
    assert_eq!((cells.cells_lower, cells.rows_lower), (4, 2));
    let both = Certificate { rows_at_least: Some(3), ..volume(4) };
    assert_eq!(check(&statement, &both, &Limits::default()).unwrap().cells_lower, 5);
    let uneven = Statement { rows_multiple: 2, ..statement };
    assert!(check(&uneven, &rows, &Limits::default()).is_err(), "3 is no multiple of 2");
    let even = Certificate { rows_at_least: Some(4), ..rows };
    assert_eq!(check(&uneven, &even, &Limits::default()).unwrap().rows_lower, 4);
}

#[test]
fn a_certificate_of_other_items_is_refused() {
    let statement = Statement::bins(vec![4, 5, 6], 10);
    let text = volume(2).to_text(&statement);
    for other in [vec![5, 4, 6], vec![4, 5, 7], vec![4, 5], vec![4, 5, 6, 1]] {
        let other = Statement::bins(other, 10);
        let outcome = routepack_certificate::check_text(&other, text.as_bytes(), &Limits::default());
        assert!(matches!(outcome, Err(CheckError::Invalid { .. })), "{outcome:?}");
    }
}

/// FNV-1a of 64 bits: of nothing it is the offset basis; of the byte "a" and seven zeros, by its definition.
#[test]
fn the_digest_is_fnv_1a() {
    assert_eq!(Statement::bins(Vec::new(), 1).digest(), 0xcbf2_9ce4_8422_2325);
    let mut hash: u128 = 0xcbf2_9ce4_8422_2325;
    for byte in [97, 0, 0, 0, 0, 0, 0, 0] {
        hash = (hash ^ byte) * 0x0100_0000_01b3 % (1 << 64);
    }
    assert_eq!(u128::from(Statement::bins(vec![97], 100).digest()), hash);
}

/// Items glued to counts 3, 3, 3, 2, at most 4 in a bin, three bins: each bin must have 3 at least, so the 2 has no place.
/// Nothing but the lower limit of counts sees it with these weights.
#[test]
fn too_few_items_are_as_impossible_as_too_many() {
    let statement = Statement { max_items: Some(4), ..Statement::bins(vec![1; 11], 100) };
    let mut node = Node::root(&statement);
    for glued in [1, 3, 5, 7] {
        node.join(0, 0);
        if glued < 7 {
            node.join(0, glued);
        }
    }
    assert_eq!((&node.counts[..], &node.demands[..]), (&[1, 2, 3, 2, 3, 2, 3, 2][..], &[0, 0, 1, 0, 1, 0, 1, 1][..]));
    let leaf = Leaf { weights: vec![0, 0, 0, 0, 0, 0, 0, 5], cuts: Vec::new() };
    assert!(check_leaf(&statement, 3, &node, &leaf, &Limits::default()).is_ok());
    assert!(check_leaf(&statement, 4, &node, &leaf, &Limits::default()).is_err());
    let unlimited = Statement { max_items: None, ..statement };
    assert!(check_leaf(&unlimited, 3, &node, &leaf, &Limits::default()).is_err());
}

/// A key holds load and count in 64 bits: past that a proof by weights is left unchecked, not refused.
#[test]
fn capacity_and_count_past_64_bits_are_not_checked() {
    let statement = Statement { max_items: Some(2), ..Statement::bins(vec![1, 1, 1, (1 << 63) - 1], (1 << 63) - 1) };
    let weights = Certificate { proof: Some(Proof::Weights(vec![1, 0])), ..volume(2) };
    let outcome = check(&statement, &weights, &Limits::default());
    assert!(matches!(outcome, Err(CheckError::NotChecked { resource: "bits of a key", .. })), "{outcome:?}");
    assert_eq!(check(&statement, &volume(2), &Limits::default()).unwrap().cells_lower, 2);
}
