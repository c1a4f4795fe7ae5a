//! Twin folders: what must be accepted, and what must be refused for the reason beside it. An invalid certificate is
//! named after the valid one it was made from.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::{Path, PathBuf};

use routepack_certificate::{Checked, Form, Lengths, Limits, Statement, check_lengths, check_text};

fn certificates(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.filter(|path| path.extension().is_some_and(|end| end == "cert")).collect();
    found.sort();
    assert!(found.len() > 10);
    found
}

fn check_file(path: &Path) -> Result<(Statement, Checked), String> {
    let lengths = fs::read(path.with_extension("lengths")).unwrap();
    let lengths = Lengths::parse(&lengths[..], &Form::Lines, 1, &Limits::default()).unwrap();
    check_lengths(&lengths, &fs::read(path).unwrap()[..], &Limits::default()).map_err(|error| error.to_string())
}

#[test]
fn valid_certificates_are_accepted() {
    for path in certificates("valid") {
        let (statement, checked) = check_file(&path).unwrap_or_else(|why| panic!("{}: {why}", path.display()));
        let again = check_text(&statement, &fs::read(&path).unwrap()[..], &Limits::default()).unwrap();
        assert_eq!((checked.cells_lower, checked.rows_lower), (again.cells_lower, again.rows_lower));
        if let Some(upper) = checked.cells_upper {
            assert!(checked.cells_lower <= upper, "{}", path.display());
        }
    }
}

#[test]
fn invalid_certificates_are_refused_for_their_reason() {
    let mut wrong = Vec::new();
    for path in certificates("invalid") {
        let expected = fs::read_to_string(path.with_extension("why")).unwrap();
        match check_file(&path) {
            Err(why) if why.contains(expected.trim_end()) => {}
            outcome => wrong.push(format!("{}: {outcome:?} for {expected}", path.display())),
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.concat());
}

#[test]
fn every_invalid_certificate_has_a_valid_twin() {
    let valid = certificates("valid");
    let names: Vec<_> = valid.iter().map(|path| path.file_stem().unwrap().to_str().unwrap()).collect();
    for path in certificates("invalid") {
        let name = path.file_stem().unwrap().to_str().unwrap();
        let alone = ["zero-size", "oversize"].contains(&name);
        assert!(alone || names.iter().any(|twin| name.starts_with(&format!("{twin}-"))), "{name}");
    }
}
