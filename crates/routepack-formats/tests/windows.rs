//! Windows as `NumPy` writes them, as JSON, and damaged in every way we know.

use std::io::Cursor;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use routepack_formats::{
    batch_json, encode_batch, read_batch, read_batch_from, read_routes, window_schema, write_batch_json,
    write_batch_npz,
};
use routepack_problem::{Batch, CostTable, ExpertCounts, SampleIds};
use routepack_verify::window_sha256;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn expected() -> Batch {
    let counts =
        vec![4, 2, 1, 1, 0, 4, 4, 0, 2, 2, 0, 0, 1, 1, 1, 1, 7, 0, 7, 0, 3, 4, 5, 2, 0, 1, 0, 1, 1, 0, 0, 1];
    Batch {
        lengths: vec![5, 3, 8, 2],
        expert_counts: Some(ExpertCounts::new([4, 1, 2, 4], counts).expect("shape")),
        routed_rows: Some(vec![4, 2, 7, 1]),
        loss_tokens: Some(vec![3, 1, 6, 0]),
        sample_ids: Some(SampleIds::Strings(["a", "beta", "γ-3", ""].map(String::from).to_vec())),
        prompt_ids: Some(vec![9, 9, -4, 5_000_000_000]),
        atomic_groups: Some(vec![-1, 0, 0, -1]),
        step: Some(vec![1, 1, 1, 1]),
        cost: Some(CostTable { kinds: 2, values: vec![5, 1, 3, 1, 8, 1, 2, 1] }),
    }
}

#[test]
fn every_form_of_a_window_reads_the_same() {
    for name in [
        "default.npz",
        "compressed.npz",
        "big_endian.npz",
        "fortran.npz",
        "small.npz",
        "bytes_ids.npz",
        "four_dimensions.npz",
        "default.json",
    ] {
        let batch = read_batch(&fixture("valid").join(name)).expect(name);
        assert_eq!(batch, expected(), "{name}");
        assert_eq!(window_sha256(&batch), window_sha256(&expected()), "{name}");
        batch.check(2).expect(name);
    }
    let one_kind = read_batch(&fixture("valid/one_kind.npz")).expect("valid");
    assert_eq!(one_kind.cost, Some(CostTable { kinds: 1, values: vec![5, 3, 8, 2] }));
    assert_eq!(read_batch(&fixture("valid/python2.npz")).expect("valid").lengths, [5, 3, 8, 2]);
}

#[test]
fn every_invalid_window_is_refused_by_place_value_and_limit() {
    let u32s = "expected 0 to 4294967295";
    let cases = [
        ("negative.npz", "lengths[2] = -8: expected 0 to 4294967295"),
        ("above_u32.npz", "lengths[1] = 4294967296: expected 0 to 4294967295"),
        ("nan.npz", "lengths[3] = NaN: expected whole numbers of an integer type, found dtype <f8"),
        ("fraction.npz", "lengths[1] = 3.5: expected whole numbers of an integer type, found dtype >f4"),
        ("float.npz", "lengths: dtype <f8: expected an integer type"),
        ("half.npz", "lengths: dtype <f2: expected an integer type"),
        ("complex.npz", "lengths: dtype <c16: expected an integer type"),
        ("bool.npz", "lengths: dtype |b1: expected an integer type"),
        ("object.npz", "lengths: dtype object: pickled objects are refused"),
        ("text.npz", "lengths: dtype <U1: expected an integer type"),
        ("date.npz", "lengths: dtype <M8[s]: expected an integer type"),
        ("structured.npz", "lengths: header: structured dtypes are not supported"),
        ("matrix.npz", "lengths: shape [1, 4], expected [samples]"),
        ("scalar.npz", "lengths: shape [], expected [samples]"),
        ("counts_2d.npz", "expert_counts: shape [4, 8], expected [4, layers, experts]"),
        ("counts_short.npz", "expert_counts: shape [3, 2, 4], expected [4, layers, experts]"),
        ("counts_empty.npz", "expert_counts: shape [4, 0, 4], expected [4, layers, experts]"),
        ("counts_negative.npz", "expert_counts[2, 1, 3] = -1: expected 0"),
        ("counts_negative_fortran.npz", "expert_counts[2, 1, 3] = -1: expected 0"),
        ("rows_short.npz", "routed_rows: shape [3], expected [4], as lengths"),
        ("ids_above_i64.npz", "sample_ids[2] = 9223372036854775808: expected -2^63 to 2^63 - 1"),
        ("ids_float.npz", "sample_ids[2] = 3.5: expected whole numbers"),
        ("ids_twice.npz", "sample_ids[3] = 7: expected ids that occur once, sample_ids[1] is the same"),
        (
            "text_ids_twice.npz",
            "sample_ids[2] = \"a\": expected ids that occur once, sample_ids[0] is the same",
        ),
        ("cost_3d.npz", "cost: shape [4, 1, 1], expected [4, attention kinds]"),
        ("unknown.npz", "unknown array `expert_count`; known: lengths, expert_counts, routed_rows"),
        ("missing.npz", "array `lengths` is missing; present: routed_rows"),
        ("huge_shape.npz", "lengths: shape [4000000000] needs 16000000"),
        ("overflow.npz", "lengths: shape [9999999999, 9999999999, 9999999999]: more than 4294967296 values"),
        ("huge_dimension.npz", "lengths: header: a dimension is no number from 0 to 2^64 - 1"),
        ("huge_text.npz", "sample_ids: shape [4] needs"),
        ("empty_text.npz", "sample_ids: dtype <U0: expected text of 1 to 65536 bytes"),
        ("surrogate.npz", "sample_ids[1] = "),
        ("bad_bytes.npz", "sample_ids[1] = [ff, fe]: no valid Unicode"),
        ("surplus.npz", "lengths: shape [4] needs 160 bytes, the archive holds 161"),
        ("short.npz", "lengths: shape [4] needs 160 bytes, the archive holds 159"),
        ("no_magic.npz", "lengths: truncated"),
        ("version_9.npz", "lengths: .npy version 9, expected 1, 2 or 3"),
        ("nested.npz", "lengths: header: structured dtypes are not supported"),
        ("broken_header.npz", "lengths: header: True or False expected"),
        ("missing_key.npz", "lengths: header: one of descr, fortran_order, shape is missing"),
        ("not_npy.npz", "entry `readme.txt` is no .npy array"),
        ("crc.npz", "lengths: damaged"),
        ("negative.json", "lengths[2] = -8: expected 0 to 4294967295"),
        ("float.json", "lengths[1] = 3.5: expected a whole number"),
        ("nan.json", "json:1: column"),
        ("text.json", "lengths[1] = \"3\": expected a whole number"),
        ("null.json", "lengths[1] = null: expected a whole number"),
        ("bool.json", "json:1: column"),
        ("large.json", "lengths[1] = 18446744073709552000: expected a whole number"),
        ("unknown.json", "unknown array `length`"),
        ("twice.json", "array `lengths` occurs twice"),
        ("missing.json", "array `lengths` is missing; present: step"),
        ("ragged.json", "expert_counts[1, 1] = a list of 1: expected 2 elements"),
        ("depth.json", "expert_counts[1, 0, 1] = a list: expected a value"),
        ("shallow.json", "expert_counts[1, 0] = a value: expected a list"),
        ("mixed_ids.json", "sample_ids[1] = 3: expected text"),
        ("ids_twice.json", "sample_ids[1] = \"a\": expected ids that occur once, sample_ids[0] is the same"),
        ("cut.json", "json:2: column"),
        ("trailing.json", "json:1: column 18: trailing characters"),
    ];
    assert!(u32s.ends_with(&u32::MAX.to_string()));
    let mut listed: Vec<String> = cases.iter().map(|case| case.0.to_owned()).collect();
    let mut present: Vec<String> = std::fs::read_dir(fixture("invalid"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().into_string().expect("plain names"))
        .collect();
    listed.sort();
    present.sort();
    assert_eq!(listed, present, "every fixture has its message");
    for (name, message) in cases {
        let path = fixture("invalid").join(name);
        let error = read_batch(&path).expect_err(name).to_string();
        assert!(error.contains(message), "{name}: {error}");
        assert!(error.starts_with(&path.display().to_string()), "{name}: {error}");
    }
}

#[test]
fn a_file_cut_anywhere_is_an_error() {
    for name in ["valid/default.npz", "valid/compressed.npz", "valid/default.json"] {
        let whole = std::fs::read(fixture(name)).expect("fixture");
        let end = whole.trim_ascii_end().len();
        for length in 0..end {
            let error = read_batch_from(Cursor::new(&whole[..length]), "cut").expect_err("cut");
            assert!(error.to_string().starts_with("cut"), "{error}");
        }
        assert!(read_batch_from(Cursor::new(&whole[..end]), "whole").is_ok());
    }
}

#[test]
fn absent_and_foreign_files_are_named() {
    let absent = read_batch(Path::new("no/such.npz")).expect_err("absent").to_string();
    assert!(absent.starts_with("no/such.npz: cannot open"), "{absent}");
    for (bytes, message) in [
        (&b""[..], "x: the file is empty"),
        (b"5\n3\n", "x: neither an .npz archive"),
        (b"PK\x03\x04 not really", "x: not a whole .npz archive"),
    ] {
        let error = read_batch_from(Cursor::new(bytes), "x").expect_err("foreign").to_string();
        assert!(error.starts_with(message), "{error}");
    }
}

#[test]
fn written_bytes_are_small_and_the_same() {
    let bytes = encode_batch(&expected()).expect("valid");
    assert_eq!(bytes, encode_batch(&expected()).expect("valid"));
    let wide = Batch::from_lengths(vec![65_536, 1]);
    assert_eq!(read_batch_from(Cursor::new(encode_batch(&wide).expect("valid")), "x").expect("own"), wide);
    let zero =
        Batch { sample_ids: Some(SampleIds::Strings(vec!["a\0".into()])), ..Batch::from_lengths(vec![1]) };
    let error = encode_batch(&zero).expect_err("NumPy cannot hold it").to_string();
    assert!(error.contains("sample_ids[0]"), "{error}");
}

#[test]
fn files_are_whole_or_not_there() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("window.npz");
    write_batch_npz(&path, &expected()).expect("writable");
    assert_eq!(read_batch(&path).expect("own"), expected());
    let json = folder.path().join("window.json");
    write_batch_json(&json, &expected()).expect("writable");
    assert_eq!(read_batch(&json).expect("own"), expected());
    // Replaced as a whole; nothing else is left in the folder.
    write_batch_npz(&path, &Batch::from_lengths(vec![1])).expect("writable");
    assert_eq!(read_batch(&path).expect("own").lengths, [1]);
    assert_eq!(std::fs::read_dir(folder.path()).expect("a folder").count(), 2);
    let nowhere = folder.path().join("no/folder.npz");
    let error = write_batch_npz(&nowhere, &expected()).expect_err("no folder").to_string();
    assert!(error.starts_with(&format!("{}: cannot write", nowhere.display())), "{error}");
    assert!(write_batch_npz(folder.path(), &expected()).is_err());
    #[cfg(unix)]
    {
        let link = folder.path().join("link.npz");
        std::os::unix::fs::symlink(&path, &link).expect("a link");
        write_batch_npz(&link, &expected()).expect("writable");
        assert!(link.symlink_metadata().expect("there").is_symlink());
        assert_eq!(read_batch(&path).expect("own"), expected());
        write_batch_npz(Path::new("/dev/null"), &expected()).expect("written and gone");
        assert!(!Path::new("/dev/null").metadata().expect("still a device").is_file());
    }
}

#[test]
fn routes_are_read_flat() {
    let folder = tempfile::tempdir().expect("a folder");
    let routes = read_routes(&fixture("routes.npz")).expect("valid");
    assert_eq!((routes.tokens, routes.layers, routes.top_k), (3, 2, 2));
    assert_eq!(routes.experts, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]);
    let error = read_routes(&fixture("routes_negative.npz")).expect_err("negative").to_string();
    assert!(error.ends_with("routed_experts[1, 0, 1] = -1: expected 0 to 65535"), "{error}");
    let window = folder.path().join("window.npz");
    write_batch_npz(&window, &Batch::from_lengths(vec![1])).expect("writable");
    let error = read_routes(&window).expect_err("no routes").to_string();
    assert!(error.ends_with("array `routed_experts` is missing; present: lengths"), "{error}");
}

#[test]
fn the_schema_names_every_array() {
    let schema = window_schema();
    let mut named: Vec<&String> = schema["properties"].as_object().expect("an object").keys().collect();
    let json: serde_json::Value = serde_json::from_str(&batch_json(&expected())).expect("own JSON");
    let mut written: Vec<&String> = json.as_object().expect("an object").keys().collect();
    named.sort();
    written.sort();
    assert_eq!(named, written);
    assert_eq!(schema["required"], serde_json::json!(["lengths"]));
    assert_eq!(schema["additionalProperties"], false);
}

fn batches() -> impl Strategy<Value = Batch> {
    let vector = |n| prop::collection::vec(any::<i64>(), n);
    let counts = |n| prop::collection::vec(prop_oneof![0u32..9, any::<u32>()], n);
    (0usize..6, 1usize..3, 1usize..3, 1usize..4).prop_flat_map(move |(n, parts, layers, experts)| {
        let shape = [n, parts, layers, experts];
        let table = counts(shape.iter().product::<usize>());
        let ids = prop_oneof![
            Just(None),
            prop::collection::btree_set(any::<i64>(), n)
                .prop_map(Vec::from_iter)
                .prop_shuffle()
                .prop_map(|ids| Some(SampleIds::Integers(ids))),
            prop::collection::btree_set("[a-z\\PC]{0,6}", n)
                .prop_map(Vec::from_iter)
                .prop_shuffle()
                .prop_map(|ids| Some(SampleIds::Strings(ids))),
        ];
        (
            (counts(n), prop::option::of(table), prop::option::of(counts(n)), prop::option::of(counts(n))),
            (ids, prop::option::of(vector(n)), prop::option::of(vector(n)), prop::option::of(vector(n))),
            prop::option::of(counts(n * layers)),
        )
            .prop_map(move |(tokens, ids, cost)| Batch {
                lengths: tokens.0,
                expert_counts: tokens.1.map(|values| ExpertCounts::new(shape, values).expect("shape")),
                routed_rows: tokens.2,
                loss_tokens: tokens.3,
                sample_ids: ids.0,
                prompt_ids: ids.1,
                atomic_groups: ids.2,
                step: ids.3,
                cost: cost.map(|values| CostTable { kinds: layers, values }),
            })
    })
}

proptest! {
    #[test]
    fn npz_round_trips(batch in batches()) {
        let read = read_batch_from(Cursor::new(encode_batch(&batch).expect("valid")), "x").expect("own bytes");
        prop_assert_eq!(read, batch);
    }

    #[test]
    fn json_round_trips(batch in batches()) {
        // An empty list says neither its inner dimensions nor the type of its values.
        prop_assume!(batch.num_samples() > 0);
        let read = read_batch_from(Cursor::new(batch_json(&batch)), "x").expect("own text");
        prop_assert_eq!(window_sha256(&read), window_sha256(&batch));
        prop_assert_eq!(read, batch);
    }

    #[test]
    fn changed_bytes_never_panic(at in any::<prop::sample::Index>(), byte in any::<u8>(), compressed in any::<bool>()) {
        let name = if compressed { "valid/compressed.npz" } else { "valid/default.npz" };
        let mut bytes = std::fs::read(fixture(name)).expect("fixture");
        let at = at.index(bytes.len());
        bytes[at] = byte;
        // Names, times and the like may change unnoticed; values may not.
        if let Ok(batch) = read_batch_from(Cursor::new(&bytes), "x") {
            prop_assert_eq!(batch, expected());
        }
    }
}
