//! The program: words, JSON, exit codes.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::path::PathBuf;
use std::process::{Command, Stdio};

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests");
    folder.join(name).to_str().unwrap().to_owned()
}

/// Exit code, standard output, standard error.
fn run(arguments: &[&str], input: &str) -> (i32, String, String) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_routepack-check"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

#[test]
fn it_says_in_words_what_is_proved() {
    let (certificate, lengths) = (fixture("valid/volume-rows.cert"), fixture("valid/volume-rows.lengths"));
    let (code, said, _) = run(&[&certificate, &lengths], "");
    assert_eq!(code, 0);
    assert!(
        said.starts_with("VALID for 8 lengths, total 44, capacity 10, 2 slots, rows in multiples of 1\n"),
        "{said}"
    );
    assert!(include_str!("../README.md").contains(&said), "the README shows another output than {said}");
    assert!(said.contains("\n5 cells are necessary and sufficient\n3 rows are necessary and sufficient\n"), "{said}");

    let (certificate, lengths) = (fixture("valid/rows-multiple.cert"), fixture("valid/rows-multiple.lengths"));
    let (_, said, _) = run(&[&certificate, &lengths], "");
    assert!(said.contains("\nat least 5 cells are necessary\nat least 4 rows are necessary\n"), "{said}");

    let (certificate, lengths) = (fixture("valid/count.cert"), fixture("valid/count.lengths"));
    let (_, said, _) = run(&[&certificate, &lengths], "");
    assert!(said.contains(", at most 3 in a cell\n3 cells"), "{said}");

    let (certificate, lengths) = (fixture("valid/empty.cert"), fixture("valid/empty.lengths"));
    let (_, said, _) = run(&[&certificate, &lengths], "");
    assert!(said.contains("\nno cells are necessary: there is nothing to pack\n"), "{said}");
}

#[test]
fn it_prints_one_json_object() {
    let (certificate, lengths) = (fixture("valid/branch.cert"), fixture("valid/branch.lengths"));
    let (code, said, _) = run(&[&certificate, &lengths, "--json"], "");
    assert_eq!((code, said.lines().count()), (0, 1));
    let start = "{\"status\":\"valid\",\"items\":7,\"total\":282,\"capacity\":100,\"max_items\":null,\"slots\":1,\
                 \"rows_multiple\":1,\"cells_lower\":4,\"cells_upper\":4,\"rows_lower\":4,\"rows_upper\":4,\
                 \"rule\":\"tree\",\"leaves\":2,";
    assert!(said.starts_with(start), "{said}");
    let invalid = fixture("invalid/branch-other-pair.cert");
    let (code, said, _) = run(&[&invalid, &lengths, "--json"], "");
    assert_eq!(code, 1);
    assert!(said.starts_with("{\"status\":\"invalid\",\"why\":\"line "), "{said}");
}

#[test]
fn the_exit_code_tells_the_four_outcomes_apart() {
    let (certificate, lengths) = (fixture("valid/weights.cert"), fixture("valid/weights.lengths"));
    assert_eq!(run(&[&certificate, &lengths], "").0, 0);
    let (code, _, said) = run(&[&fixture("invalid/weights-one-less.cert"), &lengths], "");
    assert!(code == 1 && said.starts_with("INVALID: line "), "{said}");
    for limits in [["--max-steps", "20"], ["--max-memory", "1K"]] {
        let (code, _, said) = run(&[&[&certificate[..], &lengths][..], &limits].concat(), "");
        assert!(code == 2 && said.starts_with("NOT CHECKED: needs at least "), "{said}");
    }
    assert_eq!(run(&[&certificate, "no such file"], "").0, 3);
    assert_eq!(run(&[&certificate, &certificate], "").0, 3, "a certificate is no file of lengths");
    for wrong in [
        &[][..],
        &["one"],
        &["one", "two", "three"],
        &["one", "two", "--what"],
        &["-", "-"],
        &["one", "two", "--max-steps"],
        &["one", "two", "--max-steps", "-1"],
        &["one", "two", "--max-memory", "99999999999G"],
    ] {
        let (code, _, said) = run(wrong, "");
        assert!(code == 3 && said.contains("--help"), "{wrong:?}: {said}");
    }
    assert!(run(&["--help"], "").1.contains("exit code: 0 valid, 1 invalid, 2 not checked"));
    assert_eq!(run(&["--version"], "").1, format!("routepack-check {}\n", env!("CARGO_PKG_VERSION")));
}

/// What is a file of lengths, by example; the certificate is about the lengths 3 and 3 in capacity 5.
#[test]
fn the_form_of_a_file_is_said_and_never_guessed() {
    let certificate = fixture("valid/witness-only.cert");
    let (lines, bins): (&[&str], &[&str]) = (&[], &["--form", "bins"]);
    let (table, sum): (&[&str], &[&str]) = (&["--column", "b"], &["--form", "table", "--column", "a+b"]);
    let (valid, other, malformed) = (0, 1, 3);
    for (options, code, texts) in [
        (lines, valid, &["3\n3\n", "3\n3", " 3\t\r\n\n3\r\n", "03\n3\n", "\u{feff}3\n# both\n3 # alike\n"][..]),
        // Were it guessed, the last two would be two items of 3 in capacity 5.
        (lines, other, &["", "3\n", "3\n3\n3\n", "3\n4\n", "2\n5\n3\n3\n"]),
        (
            lines,
            malformed,
            &[
                "+3\n3\n",
                "-3\n3\n",
                "3 1\n3\n",
                "3 2\n",
                "1\n5\n3\t2\n",
                "3\n18446744073709551616\n",
                "3.0\n3\n",
                "length\n3\n3\n",
                "3,3\n",
                "3_0\n3\n",
                "\u{663}\n3\n",
                "3\r3\r",
                "3\n\u{feff}3\n",
                "3\u{a0}\n3\n",
                "PK\u{3}\u{4}",
                "{\"lengths\": [3, 3]}",
            ],
        ),
        (bins, valid, &["2\n5\n3\n3\n", "1\n5\n3\t2\n", "2\n5\n3 1\n3 1\n", "# c\n2\n5\n3 2\n3 0\n"]),
        (bins, other, &["2\n6\n3\n3\n", "1\n6\n3 2\n", "1\n5\n3\n", "1\n5\n3 18446744073709551615\n", "0\n5\n"]),
        (
            bins,
            malformed,
            &[
                "3\n3\n",
                "",
                "2",
                "3\n5\n3\n3\n",
                "2 5\n3 1\n3 1\n",
                "2\n5\n3 1\n3\n",
                "1\n5\n3 1\n3 1\n",
                "1\n5\n3 1 1\n",
            ],
        ),
        (table, valid, &["a\tb\n1\t3\n2\t3\n", "b\r\n3\r\n\r\n3", " b \t#\n3\tx\n 3\ty\n"]),
        (table, other, &["a\tb\n3\t1\n3\t2\n", "b\n3\n"]),
        (table, malformed, &["", "a\n3\n3\n", "b\tb\n3\t3\n3\t3\n", "a\tb\n1\t3\n3\n", "b\n3\n3 # c\n", "b\n3.0\n3\n"]),
        (sum, valid, &["a\tb\n1\t2\n0\t3\n"]),
        (sum, malformed, &["a\tb\n1\t18446744073709551615\n0\t3\n"]),
    ] {
        for text in texts {
            let (found, said, why) = run(&[&[&certificate[..], "-"], options].concat(), text);
            assert_eq!(found, code, "{options:?} {text:?}: {said}{why}");
        }
    }
    assert_eq!(run(&[&certificate, "-"], &(" ".repeat(70_000) + "3\n3\n")).0, 3);
    for wrong in [&["--form", "table"][..], &["--form", "npz"], &["--form", "bins", "--column", "b"], &["--form"]] {
        assert_eq!(run(&[&[&certificate[..], "-"], wrong].concat(), "3\n3\n").0, 3, "{wrong:?}");
    }
}

/// A refusal says which option reads the file otherwise.
#[test]
fn a_refusal_says_which_option_to_give() {
    let certificate = fixture("valid/witness-only.cert");
    for (options, text, part) in [
        (&[][..], "2\n5\n3\n3\n", "it is about 2 of them, the file has 4, read one a line; if it begins"),
        (&[], "1\n5\n3 2\n", "line 3: two numbers, expected one length a line; --form bins reads"),
        (&[], "2\n2\n", "their total is 6 there, 4 here; were they padded? then say --pad-multiple M"),
        (&["--form", "bins"], "2\n6\n3\n3\n", "its capacity is 5, the file states 6"),
        (&["--form", "bins"], "1\n5\n3\n", "say --form lines"),
        (&[], "PK\u{3}\u{4}", "--lengths-output"),
        (&["--form", "window"], "", "--lengths-output"),
    ] {
        let (_, _, why) = run(&[&[&certificate[..], "-"], options].concat(), text);
        assert!(why.contains(part), "{options:?} {text:?}: {why}");
    }
}

#[test]
fn either_file_can_be_standard_input() {
    let (certificate, lengths) = (fixture("valid/fill.cert"), fixture("valid/fill.lengths"));
    let (code, said, _) = run(&["-", &lengths], &std::fs::read_to_string(&certificate).unwrap());
    assert!(code == 0 && said.contains("5 cells are necessary and sufficient"), "{said}");
    let (code, said, _) = run(&[&certificate, "-"], &std::fs::read_to_string(&lengths).unwrap());
    assert!(code == 0 && said.contains("5 cells are necessary and sufficient"), "{said}");
}

/// Raw lengths 41, 58, 20 are 44, 60, 20 after padding to a multiple of 4: the certificate is about the latter.
#[test]
fn lengths_can_be_padded_first() {
    use routepack_certificate::{Certificate, Proof, Statement};
    let statement = Statement::bins(vec![44, 60, 20], 100);
    let certificate = Certificate { cells_at_least: Some(2), proof: Some(Proof::Volume), ..Certificate::default() };
    let text = certificate.to_text(&statement);
    let lengths = std::env::temp_dir().join(format!("routepack-check-{}.lengths", std::process::id()));
    std::fs::write(&lengths, "41\n58\n\n20").unwrap();
    let lengths = lengths.to_str().unwrap();
    let padded = run(&["-", lengths, "--pad-multiple", "4"], &text);
    let raw = run(&["-", lengths], &text);
    std::fs::remove_file(lengths).unwrap();
    assert!(padded.0 == 0 && padded.1.contains("at least 2 cells"), "{padded:?}");
    assert!(raw.0 == 1 && raw.2.contains("for other lengths"), "{raw:?}");
}
