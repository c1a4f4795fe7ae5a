//! Every mutation of a valid certificate is refused, or states something that is true all the same.
#![allow(clippy::unwrap_used)]

mod oracle;

use oracle::{assert_true, check_bare, fewest_bins, fewest_rows, pack, refute, statements};
use proptest::prelude::*;
use routepack_certificate::{Certificate, CheckError, Limits, Node, Proof, Statement, check_text};

/// A valid certificate by one of the rules.
fn certificate(statement: &Statement, choice: u32) -> Certificate {
    let (bins, rows) = (fewest_bins(statement), fewest_rows(statement));
    let root = Node::root(statement);
    let volume = (statement.total() as u64).div_ceil(statement.capacity);
    let (cells, proof) = match choice % 4 {
        0 => (volume, Proof::Volume),
        1 => (volume, Proof::Weights(root.sizes.clone())),
        _ => (bins, Proof::Tree(refute(statement, bins - 1, choice).unwrap())),
    };
    Certificate {
        witness: (choice & 4 > 0).then(|| pack(statement)),
        cells_at_least: Some(cells),
        rows_at_least: (cells == bins).then_some(rows),
        proof: Some(proof),
    }
}

/// One damage to a text: what is struck and how.
fn mutate(text: &str, strike: usize, kind: u32, digit: u8) -> Vec<u8> {
    let mut bytes = text.as_bytes().to_vec();
    let mut lines: Vec<&str> = text.split_inclusive('\n').collect();
    let line = strike % lines.len();
    let other = (strike / lines.len()) % lines.len();
    match kind {
        0 => {
            let digits: Vec<usize> = (0..bytes.len()).filter(|&at| bytes[at].is_ascii_digit()).collect();
            bytes[digits[strike % digits.len()]] = b'0' + digit;
            return bytes;
        }
        1 => drop(lines.remove(line)),
        2 => lines.insert(line, lines[line]),
        3 => lines.swap(line, other),
        4 => {
            let mut tokens: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
            let (one, two) = (strike % tokens.len(), (strike / 7) % tokens.len());
            tokens.swap(one, two);
            return tokens.concat().into_bytes();
        }
        5 => bytes.truncate(strike % bytes.len()),
        6 => bytes.insert(strike % bytes.len(), b"0 \n-a9\xff\0"[digit as usize % 8]),
        7 => drop(bytes.remove(strike % bytes.len())),
        8 => {
            let mut tokens: Vec<&str> = text.split_inclusive([' ', '\n']).collect();
            tokens.remove(strike % tokens.len());
            return tokens.concat().into_bytes();
        }
        _ => bytes.extend_from_slice(&text.as_bytes()[strike % text.len()..]),
    }
    if (1..4).contains(&kind) { lines.concat().into_bytes() } else { bytes }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_damaged_certificate_is_refused_or_true(
        statement in statements(),
        choice in any::<u32>(),
        damages in proptest::collection::vec((any::<usize>(), 0..10_u32, 0..10_u8), 60),
    ) {
        let text = certificate(&statement, choice).to_text(&statement);
        assert_true(&statement, &check_text(&statement, text.as_bytes(), &Limits::default()).unwrap());
        for (strike, kind, digit) in damages {
            let damaged = mutate(&text, strike, kind, digit);
            if let Ok((stated, checked)) = check_bare(&statement.sizes, &damaged, &Limits::default()) {
                assert_true(&stated, &checked);
            }
            match check_text(&statement, &damaged[..], &Limits::default()) {
                Ok(checked) => assert_true(&statement, &checked),
                Err(error) => prop_assert!(matches!(error, CheckError::Invalid { .. }), "{error:?}"),
            }
            let _ = Certificate::parse(&statement, &damaged[..], &Limits::default());
        }
    }

    /// One text for one certificate: whatever parses is written back byte for byte.
    #[test]
    fn what_parses_is_written_back_the_same(
        statement in statements(),
        choice in any::<u32>(),
        damages in proptest::collection::vec((any::<usize>(), 0..10_u32, 0..10_u8), 20),
    ) {
        let text = certificate(&statement, choice).to_text(&statement);
        for (strike, kind, digit) in damages {
            let damaged = mutate(&text, strike, kind, digit);
            if let Ok(parsed) = Certificate::parse(&statement, &damaged[..], &Limits::default()) {
                prop_assert_eq!(parsed.to_text(&statement).into_bytes(), damaged);
            }
        }
    }
}

/// A certificate cut short at any byte is refused, whatever byte it is.
#[test]
fn every_truncation_is_refused() {
    let statement = Statement::bins(vec![5000, 3750, 3250, 3001, 2000, 2000], 10_000);
    for choice in [0, 1, 2] {
        let text = certificate(&statement, choice).to_text(&statement);
        for end in 0..text.len() {
            let outcome = check_text(&statement, &text.as_bytes()[..end], &Limits::default());
            assert!(matches!(outcome, Err(CheckError::Invalid { .. })), "{end}");
        }
    }
}

/// Every single digit changed in every way.
#[test]
fn every_changed_digit_is_refused_or_true() {
    let statement = Statement { slots: 2, ..Statement::bins(vec![60, 60, 41, 41, 30, 30, 20], 100) };
    for choice in 0..12 {
        let text = certificate(&statement, choice).to_text(&statement);
        let mut accepted = 0;
        for at in (0..text.len()).filter(|&at| text.as_bytes()[at].is_ascii_digit()) {
            for digit in b'0'..=b'9' {
                let mut damaged = text.as_bytes().to_vec();
                damaged[at] = digit;
                if let Ok((stated, checked)) = check_bare(&statement.sizes, &damaged, &Limits::default()) {
                    assert_true(&stated, &checked);
                    accepted += 1;
                }
            }
        }
        assert!(accepted > 0, "the unchanged digits at least");
    }
}
