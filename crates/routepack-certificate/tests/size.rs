//! The checker stands alone and can be read in one sitting.
#![allow(clippy::unwrap_used)]

use std::fs;
use std::path::Path;

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(path)).unwrap()
}

/// Lines of code: not blank, not a comment.
fn lines_of_code(path: &str) -> usize {
    read(path).lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//")).count()
}

/// Everything that reads a certificate and judges it.
const CHECKER: [&str; 5] = ["src/reader.rs", "src/check.rs", "src/fill.rs", "src/node.rs", "src/knapsack.rs"];
/// The definitions they use.
const DEFINITIONS: [&str; 2] = ["src/statement.rs", "src/limits.rs"];

#[test]
fn parser_and_checker_stay_under_660_lines() {
    let checker: usize = CHECKER.iter().map(|path| lines_of_code(path)).sum();
    assert!(checker < 660, "{checker} lines of code");
    let definitions: usize = DEFINITIONS.iter().map(|path| lines_of_code(path)).sum();
    assert!(definitions < 150, "{definitions} lines of code");
    for path in CHECKER.iter().chain(&DEFINITIONS) {
        assert!(read(path).lines().all(|line| line.chars().count() <= 120), "{path} has a long line");
    }
}

/// The checker uses nothing else of this crate: no writer, no prover, no file of lengths.
#[test]
fn the_checker_uses_no_prover() {
    for path in CHECKER {
        let text = read(path);
        for word in ["prover", "lengths", "f32", "f64", "unsafe", "unwrap()"] {
            assert!(!text.contains(word), "{path} mentions {word}");
        }
    }
}

#[test]
fn there_are_no_dependencies() {
    let manifest = read("Cargo.toml");
    let (_, dependencies) = manifest.split_once("[dependencies]").unwrap();
    let (dependencies, _) = dependencies.split_once('[').unwrap();
    assert_eq!(dependencies.trim(), "");
    assert!(!manifest.contains("[build-dependencies]"));
    let (_, dev) = manifest.split_once("[dev-dependencies]").unwrap();
    assert_eq!(dev.trim(), "proptest.workspace = true");
}
