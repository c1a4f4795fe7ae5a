//! Lists of lengths and TOML: every form, and every line that is wrong.

use proptest::prelude::*;
use routepack_formats::{FormatError, Lengths, LengthsForm, parse_lengths, parse_toml, schema_of};
use routepack_problem::{RowsPolicy, Setting};

fn lines(text: &str) -> Result<Lengths, FormatError> {
    parse_lengths(text, "f", &LengthsForm::Lines)
}

fn bins(text: &str) -> Result<Lengths, FormatError> {
    parse_lengths(text, "f", &LengthsForm::Bins)
}

fn join(lines: impl Iterator<Item = impl ToString>) -> String {
    lines.map(|line| line.to_string() + "\n").collect()
}

fn columns(text: &str, columns: &str) -> Result<Lengths, FormatError> {
    parse_lengths(text, "f", &LengthsForm::Table(columns.to_owned()))
}

#[test]
fn the_form_is_said_and_never_guessed() {
    for (text, expected) in [
        ("5\n3\n8\n", &[5, 3, 8][..]),
        ("# lengths\n5 # first\n\n \t 03\t\r\n8", &[5, 3, 8]),
        ("\u{feff}7\n", &[7]),
        // All of these once were taken for bin-packing instances.
        ("2\n10\n4\n10\n", &[2, 10, 4, 10]),
        ("2\n2\n2\n2\n", &[2, 2, 2, 2]),
    ] {
        let expected = Lengths { sizes: expected.to_vec(), capacity: None, form: LengthsForm::Lines };
        assert_eq!(lines(text), Ok(expected), "{text:?}");
    }
    assert_eq!(lines(&"510\n".repeat(512)).expect("valid").sizes.len(), 512);
    for (text, expected, capacity) in [
        ("2\n10\n4\n10\n", &[4, 10][..], 10),
        ("2\n2\n2\n2\n", &[2, 2], 2),
        // Two types: three of 4, one of 9.
        ("# types\r\n2\n10\n4 3\n9\t1\n", &[4, 4, 4, 9], 10),
        ("1\n10\n4 0\n", &[], 10),
        ("0\n5\n", &[], 5),
    ] {
        let expected =
            Lengths { sizes: expected.to_vec(), capacity: Some(capacity), form: LengthsForm::Bins };
        assert_eq!(bins(text), Ok(expected), "{text:?}");
    }
}

/// A window is no list of numbers: it is read as one whatever numbers were expected.
#[test]
fn windows_give_their_lengths() {
    let window = r#" {"lengths": [5, 3]}"#;
    let expected = Lengths { sizes: vec![5, 3], capacity: None, form: LengthsForm::Window };
    for form in [LengthsForm::Lines, LengthsForm::Bins, LengthsForm::Window] {
        assert_eq!(parse_lengths(window, "f", &form), Ok(expected.clone()));
    }
    let error = parse_lengths("5\n", "f", &LengthsForm::Window).expect_err("no window").to_string();
    assert!(error.starts_with("f: neither an .npz archive"), "{error}");
    // A table may have any names.
    assert_eq!(columns("PK\tb\n1\t2\n", "PK").expect("valid").sizes, [1]);
}

#[test]
fn wrong_lines_are_named() {
    let (lines, bins) = (LengthsForm::Lines, LengthsForm::Bins);
    let long = "1".repeat(65_535) + "\n";
    for (form, text, message) in [
        (&lines, "", "f: no lengths"),
        (&lines, "# nothing\n", "f: no lengths"),
        (&lines, "0\n5\n", "f:1: length 0: expected at least 1"),
        (&lines, "5\n-3\n", "f:2: `-3`: expected a whole number from 0 to 2^64 - 1"),
        (&lines, "5\n+3\n", "f:2: `+3`: expected a whole number"),
        (&lines, "5\n3_0\n", "f:2: `3_0`: expected a whole number"),
        (&lines, "5\n\u{663}\n", "f:2: `\u{663}`: expected a whole number"),
        (&lines, "5\r6\r", "f:1: `5\u{fffd}6\u{fffd}`: expected a whole number"),
        (&lines, "5\n3.5\n", "f:2: `3.5`: expected a whole number"),
        (&lines, "5\n\n0\n", "f:3: length 0: expected at least 1"),
        (&lines, "5\n18446744073709551616\n", "f:2: `18446744073709551616`: expected a whole number"),
        (&lines, "5\n3 4\n", "f:2: `3 4`: expected one length a line"),
        (
            &lines,
            "1\n10\n4 3\n",
            "f:3: `4 3`: expected one length a line (sizes with demands are of the form bins)",
        ),
        (&lines, "1\n10\n4 3 2\n", "f:3: `2` is a third field"),
        (&lines, &long, "f:1: a line of 65536 bytes; at most 65535 are read"),
        (
            &lines,
            "prompt\tresponse\n1\t2\n",
            "f:1: `prompt`: expected a whole number from 0 to 2^64 - 1 (of a table, name",
        ),
        (&bins, "3\n10\n4\n10\n", "f:1: 3 items or types announced, 2 lines follow the capacity"),
        (&bins, "5 1\n3\n", "f:1: two numbers; expected one in the first two lines"),
        (&bins, "7\n", "f: expected the number of items, the capacity, then the items"),
        (&bins, "2\n10\n4 3\n9\n", "f:4: expected a size and its demand as on the lines before"),
        (&bins, "2\n10\n4 3\n11 1\n", "f:4: size 11: expected 1 to the capacity 10"),
        (&bins, "2\n10\n4 3\n0 1\n", "f:4: size 0: expected 1 to the capacity 10"),
        (&bins, "3\n10\n4 3\n9 1\n", "f:1: 3 items or types announced, 2 lines follow the capacity"),
        (&bins, "2\n10\n4 99999999999\n9 1\n", "f:3: demand 99999999999: more than 134217728 items in all"),
    ] {
        let error = parse_lengths(text, "f", form).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
    let error = parse_lengths(*b"5\n6\xff\n", "f", &lines).expect_err("no text").to_string();
    assert_eq!(error, "f:2: no text: not valid UTF-8");
}

#[test]
fn tables_give_sums_of_columns() {
    let table = "id\tprompt_tokens\tresponse_tokens\nx\t64\t65\ny\t7\t1\n";
    assert_eq!(columns(table, "response_tokens").expect("valid").sizes, [65, 1]);
    assert_eq!(columns(table, "prompt_tokens+response_tokens").expect("valid").sizes, [129, 8]);
    assert_eq!(columns(table, "prompt_tokens + response_tokens").expect("valid").sizes, [129, 8]);
    for (text, names, message) in [
        (table, "tokens", "f:1: no column `tokens`; columns: id, prompt_tokens, response_tokens"),
        (table, "id", "f:2: column id: `x`: expected a whole number"),
        ("a\tb\n1\t2\n1\n", "a", "f:3: 1 fields, the header has 2"),
        ("a\n0\n", "a", "f:2: a = 0: expected at least 1"),
        ("a\tb\n1\t18446744073709551615\n", "a+b", "f:2: a+b exceeds 2^64 - 1"),
        ("a\n", "a", "f: no lines below the header"),
        ("", "a", "f: no header line"),
        ("a\ta\n1\t2\n", "a", "f:1: more than one column `a`; columns: a, a"),
        ("a\n1 # one\n", "a", "f:2: column a: `1 # one`: expected a whole number"),
    ] {
        let error = columns(text, names).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
}

const JOB: &str = "\
[topology]
dp = 8
ep = 4

[packing]
capacity = 8192
rows = { extra_rows = 2, row_cost = 1.5 }

[cost]
gamma = 0.25
";

#[test]
fn toml_becomes_any_options_type() {
    let setting: Setting = parse_toml(JOB, "job.toml").expect("valid");
    assert_eq!((setting.topology.dp, setting.packing.capacity), (8, 8192));
    assert!(matches!(setting.packing.rows, RowsPolicy::Search { extra_rows: 2, .. }));
    for (rows, expected) in [("\"min\"", RowsPolicy::Min), ("6", RowsPolicy::Fixed(6))] {
        let text = JOB.replace("{ extra_rows = 2, row_cost = 1.5 }", rows);
        assert_eq!(parse_toml::<Setting>(&text, "job.toml").expect("valid").packing.rows, expected);
    }
}

#[test]
fn toml_errors_name_line_and_key() {
    for (from, to, message) in [
        (
            "capacity",
            "capcity",
            "job.toml:6: `capcity = 8192` in [packing]: unknown field `capcity`, expected one of `capacity`",
        ),
        (
            "dp = 8",
            "dp = -8",
            "job.toml:2: `dp = -8` in [topology]: invalid value: integer `-8`, expected u32",
        ),
        (
            "dp = 8",
            "dp = \"8\"",
            "job.toml:2: `dp = \"8\"` in [topology]: invalid type: string \"8\", expected u32",
        ),
        (
            "dp = 8",
            "dp = 8.5",
            "job.toml:2: `dp = 8.5` in [topology]: invalid type: floating point `8.5`, expected u32",
        ),
        ("dp = 8\n", "", "job.toml:1: `[topology]`: missing field `dp`"),
        ("[cost]", "[costs]", "job.toml:9: `[costs]`: unknown field `costs`"),
        ("dp = 8", "dp = 8\ndp = 9", "job.toml:3: `dp = 9` in [topology]: duplicate key"),
        ("dp = 8", "dp = ", "job.toml:2: `dp =` in [topology]: "),
        ("gamma = 0.25", "gamma = -1", "job.toml:10: `gamma = -1` in [cost]: "),
    ] {
        let text = JOB.replacen(from, to, 1);
        let error = parse_toml::<Setting>(&text, "job.toml").expect_err(to).to_string();
        assert!(error.starts_with(message), "{to}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

/// Whatever is quoted, a message is one line of moderate length.
#[test]
fn messages_stay_short() {
    let long = format!("a = {}", "[".repeat(100_000));
    let keys = format!("\"{}\" = 1", "k".repeat(100_000));
    let controls = "[topo\u{b}logy]\n";
    let mut errors: Vec<String> = [&*long, &keys, controls]
        .iter()
        .map(|text| parse_toml::<Setting>(text, "f").expect_err(text).to_string())
        .collect();
    let array = format!(r#"{{"lengths": [1], "{}\n": [1]}}"#, "x".repeat(100_000));
    let value = format!(r#"{{"lengths": ["{}"]}}"#, "x".repeat(100_000));
    for text in [array, value, "7".repeat(60_000), format!("{}\t1", "x\u{7}".repeat(10_000))] {
        errors.push(parse_lengths(text, "f", &LengthsForm::Lines).expect_err("refused").to_string());
    }
    for error in errors {
        assert!(error.chars().count() < 1200 && !error.contains(char::is_control), "{error}");
    }
}

#[test]
fn schemas_come_from_the_types() {
    let schema = schema_of::<Setting>();
    assert_eq!(schema["required"], serde_json::json!(["topology", "packing"]));
    assert_eq!(schema["additionalProperties"], false);
    let text = schema.to_string();
    assert!(text.contains("Token capacity C of one cell, in padded tokens."));
}

proptest! {
    #[test]
    fn lines_round_trip(sizes in prop::collection::vec(1u64..=u64::MAX, 1..30)) {
        let text = join(sizes.iter());
        let read = parse_lengths(&*text, "f", &LengthsForm::Lines).expect("valid");
        prop_assert_eq!(read, Lengths { sizes, capacity: None, form: LengthsForm::Lines });
    }

    #[test]
    fn both_bin_packing_forms_say_the_same(types in prop::collection::vec((1u64..=50, 1u64..4), 1..10)) {
        let sizes: Vec<u64> = types.iter().flat_map(|&(size, demand)| vec![size; demand as usize]).collect();
        let expected = Lengths { capacity: Some(50), sizes, form: LengthsForm::Bins };
        let lines = join(expected.sizes.iter());
        let pairs = join(types.iter().map(|(size, demand)| format!("{size} {demand}")));
        prop_assert_eq!(&bins(&format!("{}\n50\n{lines}", expected.sizes.len())).expect("valid"), &expected);
        prop_assert_eq!(&bins(&format!("{}\n50\n{pairs}", types.len())).expect("valid"), &expected);
    }

    #[test]
    fn no_text_panics(text in "[0-9 \t\n#a-]{0,40}", names in "[a+]{0,4}") {
        let _ = (lines(&text), bins(&text));
        let _ = columns(&text, &names);
    }
}
