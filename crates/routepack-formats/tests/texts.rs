//! Lists of lengths and TOML: every form, and every line that is wrong.

use proptest::prelude::*;
use routepack_formats::{FormatError, Lengths, LengthsForm, parse_lengths, parse_toml, schema_of};
use routepack_problem::{RowsPolicy, Setting};

fn read(text: &str) -> Result<Lengths, FormatError> {
    parse_lengths(text, "f", &LengthsForm::Auto)
}

fn join(lines: impl Iterator<Item = impl ToString>) -> String {
    lines.map(|line| line.to_string() + "\n").collect()
}

fn columns(text: &str, columns: &str) -> Result<Lengths, FormatError> {
    parse_lengths(text, "f", &LengthsForm::Columns(columns.to_owned()))
}

#[test]
fn forms_are_told_apart_by_their_lines() {
    let lines = |sizes: &[u64]| Lengths { sizes: sizes.to_vec(), capacity: None };
    let bins = |sizes: &[u64], capacity| Lengths { sizes: sizes.to_vec(), capacity: Some(capacity) };
    for (text, expected) in [
        ("5\n3\n8\n", lines(&[5, 3, 8])),
        ("# lengths\n5 # first\n\n  3\r\n8", lines(&[5, 3, 8])),
        ("7\n", lines(&[7])),
        // Two items of capacity 10; not so where an item is larger than the second line.
        ("2\n10\n4\n10\n", bins(&[4, 10], 10)),
        ("2\n10\n4\n11\n", lines(&[2, 10, 4, 11])),
        ("3\n10\n4\n10\n", lines(&[3, 10, 4, 10])),
        // Two types: three of 4, one of 9.
        ("2\n10\n4 3\n9\t1\n", bins(&[4, 4, 4, 9], 10)),
        ("1\n10\n4 0\n", bins(&[], 10)),
    ] {
        assert_eq!(read(text), Ok(expected), "{text:?}");
    }
    assert_eq!(parse_lengths("2\n10\n4\n10\n", "f", &LengthsForm::Lines), Ok(lines(&[2, 10, 4, 10])));
    let error = parse_lengths("3\n10\n4\n10\n", "f", &LengthsForm::Bins).expect_err("short").to_string();
    assert_eq!(error, "f:1: 3 items or types announced, 2 lines follow the capacity");
}

#[test]
fn wrong_lines_are_named() {
    for (text, message) in [
        ("", "f: no lengths"),
        ("# nothing\n", "f: no lengths"),
        ("5\n-3\n", "f:2: `-3`: expected a whole number from 0 to 2^64 - 1"),
        ("5\n3.5\n", "f:2: `3.5`: expected a whole number"),
        ("5\n\n0\n", "f:3: length 0: expected at least 1"),
        ("5\n18446744073709551616\n", "f:2: `18446744073709551616`: expected a whole number"),
        ("5\n3 4\n", "f:2: `3 4`: expected one length a line"),
        ("5 1\n3\n", "f:1: `5 1`: expected one length a line"),
        ("1\n10\n4 3 2\n", "f:3: `2` is a third field"),
        (
            "prompt\tresponse\n1\t2\n",
            "f:1: `prompt`: expected a whole number from 0 to 2^64 - 1 (for a table, name",
        ),
        ("2\n10\n4 3\n9\n", "f:4: expected a size and its demand as on the lines before"),
        ("2\n10\n4 3\n11 1\n", "f:4: size 11: expected 1 to the capacity 10"),
        ("2\n10\n4 3\n0 1\n", "f:4: size 0: expected 1 to the capacity 10"),
        ("3\n10\n4 3\n9 1\n", "f:1: 3 items or types announced, 2 lines follow the capacity"),
        ("2\n10\n4 99999999999\n9 1\n", "f:3: demand 99999999999: more than 134217728 items in all"),
    ] {
        let error = read(text).expect_err(text).to_string();
        assert!(error.starts_with(message), "{text:?}: {error}");
    }
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
        let read = parse_lengths(&text, "f", &LengthsForm::Lines).expect("valid");
        prop_assert_eq!(read, Lengths { sizes, capacity: None });
    }

    #[test]
    fn both_bin_packing_forms_say_the_same(types in prop::collection::vec((1u64..=50, 1u64..4), 1..10)) {
        let sizes: Vec<u64> = types.iter().flat_map(|&(size, demand)| vec![size; demand as usize]).collect();
        let expected = Lengths { capacity: Some(50), sizes };
        let lines = join(expected.sizes.iter());
        let pairs = join(types.iter().map(|(size, demand)| format!("{size} {demand}")));
        prop_assert_eq!(&read(&format!("{}\n50\n{lines}", expected.sizes.len())).expect("valid"), &expected);
        prop_assert_eq!(&read(&format!("{}\n50\n{pairs}", types.len())).expect("valid"), &expected);
    }

    #[test]
    fn no_text_panics(text in "[0-9 \t\n#a-]{0,40}", names in "[a+]{0,4}") {
        let _ = read(&text);
        let _ = columns(&text, &names);
    }
}
