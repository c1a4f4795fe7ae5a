//! Certificates written to exhaust, overflow or confuse the checker end in an error within the limits.
#![allow(clippy::unwrap_used)]

mod oracle;

use std::io::{BufReader, Read};

use oracle::{pack, refute};
use routepack_certificate::{
    Certificate, CheckError, Cut, Form, Leaf, Lengths, Limits, Node, Proof, Statement, TreeNode, check, check_leaf,
    check_lengths, check_text, max_pattern_value,
};

const SMALL: Limits = Limits { max_memory: 1 << 20, max_steps: 1_000_000 };

fn header(statement: &Statement) -> String {
    Certificate::default().to_text(statement).trim_end_matches("end\n").into()
}

fn refused(statement: &Statement, body: &str) -> String {
    match check_text(statement, (header(statement) + body).as_bytes(), &Limits::default()) {
        Err(CheckError::Invalid { why, .. }) => why,
        other => panic!("{other:?} for {}", &body[..body.len().min(100)]),
    }
}

#[test]
fn huge_counts_are_not_believed() {
    let statement = Statement::bins(vec![3, 3, 3], 5);
    for body in [
        "witness 18446744073709551615\nbin 0\nend\n",
        "witness 18446744073709551615\nend\n",
        "cells-at-least 3\ntree\nleaf 9223372036854775807 1\nend\n",
        "cells-at-least 3\ntree\nleaf 18446744073709551615 1\nend\n",
        "cells-at-least 18446744073709551615\nvolume\nend\n",
        "cells-at-least 18446744073709551616\nvolume\nend\n",
        "cells-at-least 4\ncount\nend\n",
        "cells-at-least 0\nvolume\nend\n",
        "rows-at-least 0\nvolume\nend\n",
        "rows-at-least 18446744073709551615\nvolume\nend\n",
        "cells-at-least -1\nvolume\nend\n",
        "cells-at-least 2\ntree\nbranch 4294967295 0\nend\n",
        "cells-at-least 2\ntree\nbranch 4294967296 0\nend\n",
    ] {
        refused(&statement, body);
    }
}

#[test]
fn overflow_is_no_proof() {
    let top = u64::MAX;
    let statement = Statement { slots: top, rows_multiple: top, ..Statement::bins(vec![top, top, top - 1, 1], top) };
    let certificate = Certificate {
        witness: Some(vec![vec![0], vec![1], vec![2, 3]]),
        cells_at_least: Some(3),
        rows_at_least: Some(top),
        proof: Some(Proof::Volume),
    };
    let checked = check(&statement, &certificate, &Limits::default()).unwrap();
    assert_eq!(
        (checked.cells_lower, checked.cells_upper, checked.rows_lower, checked.rows_upper),
        (3, Some(3), top, Some(top))
    );
    for weight in [i64::MIN, i64::MAX, 1 << 61, -(1 << 61)] {
        let leaf = Leaf { weights: vec![weight, 1, 1], cuts: Vec::new() };
        assert!(check_leaf(&statement, 2, &Node::root(&statement), &leaf, &Limits::default()).is_err());
    }
    assert!(max_pattern_value(&statement, &[top, top, top], &Limits::default()).is_err());

    let statement = Statement::bins(vec![3, 3, 3], 5);
    let root = Node::root(&statement);
    let leaf = |scale| {
        let cut = Cut { scale, denominator: 1, multipliers: vec![(0, u32::MAX)] };
        Leaf { weights: vec![1 << 59], cuts: vec![cut; 40] }
    };
    assert!(check_leaf(&statement, 2, &root, &leaf(u64::MAX), &Limits::default()).is_err());
    assert!(check_leaf(&statement, 2, &root, &leaf(1 << 60), &Limits::default()).is_ok(), "three bins are needed");
    assert!(check_leaf(&statement, 3, &root, &leaf(1 << 60), &Limits::default()).is_err());
    for cut in ["0 1 0 1", "1 0 0 1", "1 1 0 0", "1 1 0 -1", "1 1 1 1", "1 1 0 1 0 1", "1 1", "1", "1 1 0", "-1 1 0 1"]
    {
        refused(&statement, &format!("cells-at-least 3\ntree\nleaf 1 1\ncut {cut}\nend\n"));
    }
}

/// A path of 20 000 decisions; the checker neither recurses nor keeps a copy of the items for each.
#[test]
fn a_deep_tree_does_no_harm() {
    let statement = Statement::bins(vec![1; 20_000], 100_000);
    let mut body = String::from("cells-at-least 2\ntree\nbranch 0 0\n");
    body.extend((1..19_999).map(|glued| format!("branch 0 {glued}\n")));
    assert!(refused(&statement, &(body.clone() + "leaf 0 1\nend\n")).contains("weights"));
    assert!(refused(&statement, &(body + "branch 0 19999\nend\n")).contains("share a bin"));
    let nodes = vec![TreeNode::Branch(0, 1); 1_000_000];
    drop(Proof::Tree(nodes));
}

/// Where the volume alone refutes, every leaf closes: long trees of free leaves still cost what they cost.
#[test]
fn long_trees_count_as_steps() {
    let statement = Statement::bins((1..=200).collect(), 400);
    let mut body = String::from("cells-at-least 2\ntree\n");
    let leaf = |types: usize| format!("leaf 0{}\n", " 0".repeat(types));
    body.extend((0..100).map(|pair| format!("branch {} {}\n", 199 - 2 * pair, 198 - 2 * pair)));
    body.extend((200..=300).rev().map(leaf));
    let text = header(&statement) + &body + "end\n";
    let outcome = check_text(&statement, text.as_bytes(), &Limits { max_steps: 50_000, ..Limits::default() });
    assert!(matches!(outcome, Err(CheckError::NotChecked { resource: "steps", .. })), "{outcome:?}");
    assert_eq!(check_text(&statement, text.as_bytes(), &Limits::default()).unwrap().leaves, 101);
}

/// Bits of a wide capacity, and as many lines as there are bins.
#[test]
fn fills_past_the_limits_are_not_checked() {
    let capacity = u64::MAX;
    let statement = Statement::bins(vec![1, 1, capacity - 2, capacity - 7, 5, 5, 5], capacity);
    let body = format!("cells-at-least 4\ntree\nfill 1 1 {}\nleaf 0 1\nend\n", capacity - 2);
    let outcome = check_text(&statement, (header(&statement) + &body).as_bytes(), &Limits::default());
    assert!(matches!(outcome, Err(CheckError::NotChecked { .. })), "{outcome:?}");
    let statement = Statement::bins((1..1_000).chain([501; 4]).collect(), 1_000);
    let mut text = header(&statement) + "cells-at-least 504\ntree\n";
    text.extend((1..500).map(|size| format!("fill {size} {}\n", 1_000 - size)));
    text += "leaf 0 1 1\nend\n";
    assert_eq!(check_text(&statement, text.as_bytes(), &Limits::default()).unwrap().cells_lower, 504);
    let outcome = check_text(&statement, text.as_bytes(), &Limits { max_steps: 500_000, ..Limits::default() });
    assert!(matches!(outcome, Err(CheckError::NotChecked { resource: "steps", .. })), "{outcome:?}");
}

#[test]
fn knapsacks_past_the_limits_are_not_checked() {
    // Sizes whose sums are all different, and a demand for load, so that no state makes another idle.
    let sizes: Vec<u64> = (0..40).map(|k| (1 << 45) + (1 << k)).collect();
    let statement = Statement::bins(sizes, 1 << 50);
    let weights = (0..40).map(|k| 1000 + k % 7).collect();
    let leaf = Leaf { weights, cuts: Vec::new() };
    let outcome = check_leaf(&statement, 2, &Node::root(&statement), &leaf, &SMALL);
    assert!(matches!(outcome, Err(CheckError::NotChecked { .. })), "{outcome:?}");
    let memory = Limits { max_steps: u64::MAX, ..SMALL };
    let outcome = check_leaf(&statement, 2, &Node::root(&statement), &leaf, &memory);
    assert!(matches!(outcome, Err(CheckError::NotChecked { resource: "bytes of memory", .. })), "{outcome:?}");
}

/// Limits are sharp: what a check spent is enough for it, one less is not.
#[test]
fn one_step_or_one_byte_less_is_not_checked() {
    let statement = Statement { max_items: Some(3), ..Statement::bins(vec![60, 60, 41, 41, 30, 30, 20], 100) };
    let weights = Proof::Weights(vec![60, 41, 30, 20]);
    for proof in (0..20).map(|choice| Proof::Tree(refute(&statement, 3, choice).unwrap())).chain([weights]) {
        let cells = if matches!(proof, Proof::Tree(_)) { 4 } else { 3 };
        let witness = Some(pack(&statement));
        let certificate =
            Certificate { witness, cells_at_least: Some(cells), proof: Some(proof), ..Certificate::default() };
        let spent = check(&statement, &certificate, &Limits::default()).unwrap();
        let enough = Limits { max_memory: spent.memory, max_steps: spent.steps };
        assert_eq!(check(&statement, &certificate, &enough).unwrap(), spent);
        for less in [Limits { max_memory: spent.memory - 1, ..enough }, Limits { max_steps: spent.steps - 1, ..enough }]
        {
            let outcome = check(&statement, &certificate, &less);
            assert!(matches!(outcome, Err(CheckError::NotChecked { .. })), "{outcome:?}");
        }
    }
}

#[test]
fn endless_lines_and_tokens_are_not_read_to_their_end() {
    let statement = Statement::bins(vec![3, 3, 3], 5);
    let start = header(&statement) + "cells-at-least 2\nweights";
    for (filler, resource) in [(" 1", Some("steps")), ("1", None), (" ", None), ("\n", None)] {
        let endless = BufReader::new(start.as_bytes().chain(Repeat(filler.as_bytes(), 0)));
        match (check_text(&statement, endless, &SMALL), resource) {
            (Err(CheckError::Invalid { .. }), None) | (Err(CheckError::NotChecked { .. }), Some(_)) => {}
            (other, _) => panic!("{other:?} for {filler:?}"),
        }
        let endless = BufReader::new(start.as_bytes().chain(Repeat(filler.as_bytes(), 0)));
        assert!(Certificate::parse(&statement, endless, &SMALL).is_err());
    }
    let endless = BufReader::new(Repeat(b"7", 0));
    assert!(matches!(Lengths::parse(endless, &Form::Lines, 1, &SMALL), Err(CheckError::Unreadable { .. })));
    let endless = BufReader::new(Repeat(b"7\n", 0));
    assert!(matches!(Lengths::parse(endless, &Form::Lines, 1, &SMALL), Err(CheckError::NotChecked { .. })));
}

struct Repeat(&'static [u8], usize);

impl Read for Repeat {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        for byte in out.iter_mut() {
            *byte = self.0[self.1 % self.0.len()];
            self.1 += 1;
        }
        Ok(out.len())
    }
}

/// Four billion items in two short lines.
#[test]
fn lengths_are_not_unfolded_past_the_limit() {
    let lengths = Lengths::parse(&b"1\n10\n1 4294967295\n"[..], &Form::Bins, 1, &Limits::default()).unwrap();
    let text = "routepack-certificate 1\nitems 4294967295\ntotal 4294967295\ndigest 0\ncapacity 10\nmax-items 0\n\
                slots 1\nrows-multiple 1\nend\n";
    let outcome = check_lengths(&lengths, text.as_bytes(), &SMALL);
    assert!(matches!(outcome, Err(CheckError::NotChecked { .. })), "{outcome:?}");
    let more = text.replace("items 4294967295", "items 99999999999999999999999999999999999999");
    assert!(matches!(check_lengths(&lengths, more.as_bytes(), &SMALL), Err(CheckError::Invalid { .. })));
}

#[test]
fn a_limit_of_items_as_large_as_the_items_needs_no_table_of_its_own() {
    let statement = Statement { max_items: Some(u32::MAX), ..Statement::bins(vec![3, 3, 3], 5) };
    let proof = Some(Proof::Weights(vec![1]));
    let certificate = Certificate { cells_at_least: Some(3), proof, ..Certificate::default() };
    assert_eq!(check(&statement, &certificate, &SMALL).unwrap().cells_lower, 3);
}
