//! Files as a whole: what is read of them, and what is refused and how.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_import::{Dtype, Form, ImportOptions, import_lines};

use crate::support::{gzip, npz, safetensors, to_bytes};
use crate::{array, counts, file, lines, options, refused};

#[test]
fn pickles_are_refused_by_name() {
    let header = "{'descr': '|O', 'fortran_order': False, 'shape': (1,), }\n";
    let object = [b"\x93NUMPY\x01\x00", &(header.len() as u16).to_le_bytes()[..], header.as_bytes()].concat();
    for (bytes, what) in [
        (&b"\x80\x04\x95\x10\x00\x00\x00\x00\x00\x00\x00}\x94."[..], "a pickle is refused"),
        (b"\x80\x02}q\x00.", "a pickle is refused"),
        // Protocols 0 and 1 of lists, dictionaries and arrays.
        (b"(lp0\nI1\na.", "a pickle is refused"),
        (b"]q\x00(K\x01K\x02e.", "a pickle is refused"),
        (b"}q\x00X\x06\x00\x00\x00lengthq\x01K\x02s.", "a pickle is refused"),
        (b"cnumpy.core.multiarray\n_reconstruct\np0\n", "a pickle is refused"),
        (
            b"PK\x03\x04\x00\x00\x08\x08\x00\x00\x00\x00\x00\x00archive/data.pkl",
            "a PyTorch file (a pickle) is refused",
        ),
        (&object[..], "pickled objects are refused"),
    ] {
        let error = file(bytes, Form::Slime, &options(4)).expect_err("a pickle").to_string();
        assert!(error.contains(what), "{error}");
    }
}

#[test]
fn other_files_are_refused_by_name() {
    for (bytes, what) in [
        (&b"\x28\xb5\x2f\xfd\x04\x00"[..], "zstd"),
        (b"\xfd7zXZ\0\0\x04", "xz"),
        (b"BZh91AY&SY", "bzip2"),
        (b"PAR1\x15\x04", "Parquet: write lines of JSON"),
        (b"ARROW1\0\0", "Arrow"),
        (b"\x89HDF\r\n\x1a\n", "HDF5"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"\xfe\xff\0{", "UTF-16"),
    ] {
        for bytes in [bytes.to_vec(), gzip(bytes)] {
            let error = file(&bytes, Form::Slime, &options(4)).expect_err(what).to_string();
            assert!(error.contains(what), "{error}");
        }
    }
    let twice = gzip(&gzip(b"{}"));
    let error = file(&twice, Form::Slime, &options(4)).expect_err("twice").to_string();
    assert!(error.contains("gzip within gzip"), "{error}");
}

#[test]
fn marks_carriage_returns_and_blank_lines_are_no_part_of_a_rollout() {
    let line = r#"{"length":2,"routed_experts":[[[1,2]]]}"#;
    let plain = lines(Form::MsSwift, &format!("{line}\n{line}\n"), &options(4)).expect("valid");
    for same in [
        format!("\u{feff}{line}\r\n{line}\r\n"),
        format!("\u{feff}\r\n{line}\n \t\r\n{line}"),
        format!("  {line}\t\n{line} \n\n"),
    ] {
        assert_eq!(lines(Form::MsSwift, &same, &options(4)).expect("valid"), plain);
        let packed = import_lines(
            &gzip(same.as_bytes())[..],
            "r.gz",
            Form::MsSwift,
            &options(4),
            &|| false,
            &mut |_| {},
        );
        assert_eq!(packed.expect("valid"), plain);
    }
    let inside = refused(Form::MsSwift, &format!("{line}\n\u{feff}{line}\n"), &options(4));
    assert!(inside.contains("r.jsonl:2: column 1"), "{inside}");
}

#[test]
fn the_one_array_of_a_file_has_a_name_in_messages() {
    for (descr, order, what) in [
        ("<f4", "False", "array: dtype <f4: expected a little-endian integer type"),
        (">i2", "False", "array: dtype >i2: expected a little-endian integer type"),
        ("<i2", "True", "array: Fortran order: save numpy.ascontiguousarray"),
    ] {
        let header = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': (0, 2, 2), }}\n");
        let length = (header.len() as u16).to_le_bytes();
        let bytes = [b"\x93NUMPY\x01\x00", &length[..], header.as_bytes()].concat();
        let error = file(&bytes, Form::Slime, &options(4)).expect_err("another type").to_string();
        assert!(error.ends_with(&format!(": {what}")) && !error.contains(": :"), "{error}");
    }
}

#[test]
fn damaged_lines_are_refused_with_their_number() {
    let good = r#"{"length":2,"routed_experts":[[[1,2]]]}"#;
    for (bad, error) in [
        ("{\"length\":2,", "r.jsonl:3: column 12"),
        ("[{\"length\":2}]", "r.jsonl:3: a list: expected one rollout a line"),
        ("{\"length\":-2}", "r.jsonl:3: column"),
        ("{\"id\":1.5}", "r.jsonl:3: column 10: an id: expected a text, or an integer"),
        ("{\"id\":9223372036854775808}", "an id: expected a text, or an integer from -2^63 to 2^63 - 1"),
        (
            "{\"length\":2,\"routed_experts\":\"AAAA\"}",
            "sample 1: routed_experts: a text: ms-swift routes are lists",
        ),
    ] {
        let found = refused(Form::MsSwift, &format!("{good}\n\n{bad}\n"), &options(4));
        assert!(found.contains(error), "{found}");
    }
    assert_eq!(refused(Form::MsSwift, "\n", &options(4)), "r.jsonl: no sample");
    let packed = gzip(good.as_bytes());
    import_lines(&packed[..], "r.gz", Form::MsSwift, &options(4), &|| false, &mut |_| {}).expect("whole");
    let error =
        import_lines(&packed[..packed.len() - 9], "r.gz", Form::MsSwift, &options(4), &|| false, &mut |_| {});
    assert!(error.expect_err("cut").to_string().starts_with("r.gz: damaged, or not whole"));
}

#[test]
fn texts_are_refused_with_what_is_wrong() {
    let flat = ImportOptions { num_layers: Some(1), top_k: Some(2), ..options(4) };
    let sglang = |data: &str| format!(r#"{{"length":2,"routed_experts":"{data}"}}"#);
    let row = STANDARD.encode(to_bytes([1, 2], Dtype::I32));
    assert_eq!(counts(&lines(Form::Sglang, &sglang(&row), &flat).expect("valid"), 0, 0), [0, 1, 1, 0]);
    assert!(
        refused(Form::Sglang, &sglang(&row), &options(4))
            .contains("num_layers is needed: routes come without a shape")
    );
    assert!(
        refused(Form::Sglang, &sglang(&row[..8]), &flat)
            .contains("6 bytes of int32 are no whole number of rows")
    );
    assert!(refused(Form::Sglang, &sglang("A?=="), &flat).contains("base64"));
    let nemo = |text: &str| format!(r#"{{"length":2,"routed_experts":"{text}"}}"#);
    let good = format!("nrlre1:int32:1x1x2:{row}");
    assert_eq!(counts(&lines(Form::NemoRl, &nemo(&good), &options(4)).expect("valid"), 0, 0), [0, 1, 1, 0]);
    for (bad, error) in [
        (good.replace("nrlre1", "nrlre2"), "expected nrlre1:dtype:SxLxK:base64"),
        (good.replace("int32", "uint8"), "dtype uint8: expected int8, int16 or int32"),
        (good.replace("1x1x2", "1x2"), "shape [1, 2], expected [rows, layers, k]"),
        (good.replace("1x1x2", "1xax2"), "expected SxLxK"),
        (good.replace("1x1x2", "3x1x2"), "8 bytes, shape [3, 1, 2] of int32 needs 24"),
        (good.replace("1x1x2", "18446744073709551615x9x2"), "needs more than there can be"),
    ] {
        let found = refused(Form::NemoRl, &nemo(&bad), &options(4));
        assert!(found.contains(error), "{found}");
    }
    let npy = format!(r#"{{"length":2,"routed_experts":"{row}"}}"#);
    assert!(
        refused(Form::VllmNpy, &npy, &options(4)).contains("damaged")
            || refused(Form::VllmNpy, &npy, &options(4)).contains("not an .npy array")
    );
}

#[test]
fn arrays_fit_each_other() {
    let routes = || array("routed_experts", Dtype::I16, &[3, 1, 2], &[0, 1, 1, 2, 2, 3]);
    let valid = npz(&[routes(), array("lengths", Dtype::I64, &[2], &[3, 2])]);
    assert_eq!(
        file(&valid, Form::Slime, &options(4)).expect("T - 1 rows each").batch.routed_rows,
        Some(vec![2, 1])
    );
    for (arrays, error) in [
        (vec![routes()], "length: not stated"),
        (
            vec![routes(), array("lengths", Dtype::I64, &[2], &[3, 3])],
            "3 rows; 2 samples of 6 tokens in all have 6 or 4 rows",
        ),
        (vec![routes(), array("lengths", Dtype::I64, &[2], &[3, 0])], "0 tokens"),
        (vec![routes(), array("lengths", Dtype::I64, &[1, 2], &[3, 2])], "expected [samples]"),
        (
            vec![
                routes(),
                array("lengths", Dtype::I64, &[2], &[3, 2]),
                array("rows", Dtype::I64, &[2], &[1, 1]),
            ],
            "values that sum to 2, expected 2 samples and 3 rows",
        ),
        (
            vec![
                routes(),
                array("lengths", Dtype::I64, &[2], &[3, 2]),
                array("rows", Dtype::I64, &[2], &[i64::MAX, i64::MAX]),
            ],
            "values that sum to 18446744073709551614, expected 2 samples and 3 rows",
        ),
        (vec![array("lengths", Dtype::I64, &[2], &[3, 2])], "`routed_experts` is missing"),
        (vec![array("routed_experts", Dtype::I16, &[6], &[0, 1, 1, 2, 2, 3])], "expected [rows, layers, k]"),
    ] {
        let found = file(&npz(&arrays), Form::Slime, &options(4)).expect_err(error).to_string();
        assert!(found.contains(error), "{found}");
        let found = file(&safetensors(&arrays), Form::Slime, &options(4)).expect_err(error).to_string();
        assert!(found.contains(error), "{found}");
    }
    let whole = safetensors(&[routes(), array("lengths", Dtype::I64, &[2], &[3, 2])]);
    let cut = file(&whole[..whole.len() - 1], Form::Slime, &options(4)).expect_err("cut").to_string();
    assert!(cut.contains("the header speaks of"), "{cut}");
}

#[test]
fn ids_in_arrays_occur_once() {
    let routes = array("routed_experts", Dtype::I16, &[3, 1, 2], &[0, 1, 1, 2, 2, 3]);
    let lengths = array("lengths", Dtype::I64, &[3], &[1, 1, 1]);
    let ids = |ids: &[i64]| array("sample_ids", Dtype::I64, &[3], ids);
    let [valid, twice] =
        [[7, 5, 6], [7, 5, 5]].map(|values| npz(&[routes.clone(), lengths.clone(), ids(&values)]));
    file(&valid, Form::Slime, &options(4)).expect("valid");
    let found = file(&twice, Form::Slime, &options(4)).expect_err("5 twice").to_string();
    assert!(
        found.contains(": sample 2 (5): id: expected ids that occur once, sample 1 has it too"),
        "{found}"
    );
}

/// Masks whose positions are not those of the routes say nothing of them.
#[test]
fn masks_are_as_wide_as_the_routes() {
    let two_rows = |one: &[i64]| [one, one].concat();
    let routes = |width: usize| {
        let ids: Vec<i64> = (0..2 * width as i64).flat_map(|row| [row % 4, (row + 1) % 4]).collect();
        array("routed_experts", Dtype::I16, &[2, width, 1, 2], &ids)
    };
    let mask = |name: &str, one: &[i64]| array(name, Dtype::U8, &[2, one.len()], &two_rows(one));
    let ragged = || array("routed_experts", Dtype::I16, &[4, 1, 2], &[0, 1, 1, 2, 2, 3, 3, 0]);
    let lengths = |length| array("lengths", Dtype::I64, &[2], &[length, length]);
    let full = [0, 1, 1, 1, 1, 1];
    for (form, arrays) in [
        (Form::Verl, vec![routes(6), mask("attention_mask", &full), mask("loss_mask", &[0, 0, 0, 0, 1, 1])]),
        // verl's is of the response, the loss masks of SkyRL and slime too.
        (Form::Verl, vec![routes(6), mask("attention_mask", &full), mask("response_mask", &[1, 1])]),
        (Form::SkyRl, vec![routes(6), mask("attention_mask", &full), mask("loss_mask", &[1, 1])]),
        // The last token's row is not recorded.
        (Form::MsSwift, vec![routes(5), lengths(6), mask("loss_mask", &[0, 0, 0, 0, 1, 1])]),
        (Form::MsSwift, vec![ragged(), lengths(3), mask("loss_mask", &[0, 1, 1])]),
        (Form::Slime, vec![ragged(), lengths(3), mask("loss_mask", &[1, 1])]),
    ] {
        let batch = file(&npz(&arrays), form, &options(4)).expect("valid").batch;
        assert_eq!(batch.loss_tokens, Some(vec![2, 2]));
    }
    for (form, arrays, error) in [
        (
            Form::Verl,
            vec![routes(6), mask("attention_mask", &[0, 1, 1, 1])],
            "attention_mask: 4 positions a sample, expected 6, as the routes have",
        ),
        (
            Form::Verl,
            vec![routes(6), mask("attention_mask", &[0, 1, 1, 1, 1, 1, 0])],
            "attention_mask: 7 positions a sample, expected 6, as the routes have",
        ),
        (
            Form::Verl,
            vec![routes(6), mask("attention_mask", &full), mask("loss_mask", &[1, 1])],
            "loss_mask: 2 positions a sample, expected 6, as attention_mask has",
        ),
        (
            Form::Verl,
            vec![routes(6), mask("attention_mask", &full), mask("response_mask", &[0, 0, 0, 0, 0, 1, 1])],
            "response_mask: 7 positions a sample, expected at most 6, as attention_mask has",
        ),
        (
            Form::MsSwift,
            vec![routes(5), lengths(6), mask("loss_mask", &[1, 1])],
            "loss_mask: 2 positions, the sample has 6 tokens",
        ),
        (
            Form::MsSwift,
            vec![ragged(), lengths(3), mask("loss_mask", &[1, 1])],
            "loss_mask: 2 positions, the sample has 3 tokens",
        ),
    ] {
        let found = file(&npz(&arrays), form, &options(4)).expect_err(error).to_string();
        assert!(found.ends_with(error), "{found}");
    }
}

#[test]
fn lengths_given_agree_with_those_of_the_file() {
    let routes = array("routed_experts", Dtype::I16, &[3, 1, 2], &[0, 1, 1, 2, 2, 3]);
    let with_lengths = npz(&[routes.clone(), array("lengths", Dtype::I64, &[2], &[3, 2])]);
    let padded = array("routed_experts", Dtype::I16, &[1, 3, 1, 2], &[0, 1, 1, 2, 2, 3]);
    let with_mask = npz(&[padded, array("attention_mask", Dtype::U8, &[1, 3], &[1, 1, 0])]);
    let given = |lengths: &[u32]| ImportOptions { lengths: Some(lengths.to_vec()), ..options(4) };
    for (arrays, lengths) in [(&with_lengths, &[3, 2][..]), (&npz(&[routes]), &[3, 2]), (&with_mask, &[2])] {
        file(arrays, Form::Slime, &given(lengths)).expect("valid");
    }
    for (arrays, lengths, error) in [
        (&with_lengths, &[2, 3][..], "sample 0: length: 3 by lengths, 2 by the lengths given"),
        (&with_lengths, &[3, 1], "sample 1: length: 2 by lengths, 1 by the lengths given"),
        (&with_lengths, &[3], "lengths = 1: the file has 2 samples"),
        (&with_mask, &[3], "sample 0: length: 2 by attention_mask, 3 by the lengths given"),
    ] {
        let found = file(arrays, Form::Slime, &given(lengths)).expect_err(error).to_string();
        assert!(found.ends_with(error), "{found}");
    }
}

#[test]
fn distributions_become_samples_of_as_many_tokens() {
    let top = ImportOptions { top_k: Some(2), ..options(4) };
    let text = r#"{"logical_count":[[[3,1,1,1],[2,2,1,1]],[[0,0,0,0],[0,0,0,0]]]}"#;
    let imported = lines(Form::ExpertDistribution, text, &top).expect("valid");
    assert_eq!((imported.batch.lengths.clone(), counts(&imported, 0, 1)), (vec![3], vec![2, 2, 1, 1]));
    for (from, to, error) in [
        ("[2,2,1,1]", "[2,2,1,2]", "layer 1: the counts sum to 7, expected 6 as in the first layer"),
        ("[3,1,1,1]", "[4,1,1,0]", "no count above 3 rows"),
        ("[3,1,1,1]", "[4,-1,1,2]", "expert 1: -1 routes"),
    ] {
        let found = refused(Form::ExpertDistribution, &text.replace(from, to), &top);
        assert!(found.contains(error), "{found}");
    }
    let large = array("logical_count", Dtype::I64, &[1, 1, 4], &[1, i64::MAX, i64::MAX, i64::MAX]);
    let found = file(&npz(&[large]), Form::ExpertDistribution, &top).expect_err("large").to_string();
    assert!(found.contains("expert 1: 9223372036854775807 routes: expected 0 to 4294967295"), "{found}");
    assert!(refused(Form::ExpertDistribution, text, &options(4)).contains("top_k is needed"));
    assert!(
        refused(Form::ExpertDistribution, text, &ImportOptions { top_k: Some(2), ..options(5) })
            .contains("4 counts a layer, expected 5")
    );
}
