//! The import rules, in pairs of what is accepted and what is refused, and what went wrong in public.

mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_import::{
    Dtype, Form, Ids, ImportError, ImportOptions, Imported, Layers, Missing, Routes, count_routes, import,
    import_lines,
};

use support::{Named, gzip, npz, safetensors, to_bytes};

fn options(experts: u32) -> ImportOptions {
    ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(experts) }
}

fn lines(form: Form, text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    import_lines(text.as_bytes(), "r.jsonl", form, options, &mut |_| {})
}

fn refused(form: Form, text: &str, options: &ImportOptions) -> String {
    lines(form, text, options).expect_err(text).to_string()
}

fn file(bytes: &[u8], form: Form, options: &ImportOptions) -> Result<Imported, ImportError> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    import(file.path(), form, options, &mut |_| {})
}

fn counts(imported: &Imported, sample: usize, layer: usize) -> Vec<u32> {
    imported.batch.expert_counts.as_ref().expect("counts").of(sample, 0, layer).to_vec()
}

fn dictionary(dtype: Dtype, shape: [usize; 3], start: usize, ids: &[i64]) -> String {
    let data = STANDARD.encode(to_bytes(ids.iter().copied(), dtype));
    format!(r#"{{"data":"{data}","shape":{shape:?},"dtype":"{}","start":{start}}}"#, dtype.name())
}

fn array(name: &str, dtype: Dtype, shape: &[usize], values: &[i64]) -> Named {
    Named(name.to_owned(), dtype, shape.to_vec(), to_bytes(values.iter().copied(), dtype))
}

#[test]
fn as_many_rows_as_tokens_or_one_fewer() {
    let line = |rows: &str| format!(r#"{{"length":3,"routed_experts":[{rows}]}}"#);
    let full = lines(Form::Slime, &line("[[0,1]],[[1,2]],[[2,3]]"), &options(4)).expect("T rows");
    assert_eq!((full.summary.samples_with_last_row, full.summary.samples_without_last_row), (1, 0));
    assert_eq!(full.batch.routed_rows, Some(vec![3]));
    let short = lines(Form::Slime, &line("[[0,1]],[[1,2]]"), &options(4)).expect("T - 1 rows");
    assert_eq!((short.summary.samples_with_last_row, short.summary.samples_without_last_row), (0, 1));
    assert_eq!(counts(&short, 0, 0), [1, 2, 1, 0]);
    assert_eq!(
        refused(Form::Slime, &line("[[0,1]],[[1,2]],[[2,3]],[[0,3]]"), &options(4)),
        "r.jsonl: sample 0: 4 rows of routes for 3 tokens; 3 or 2 are expected"
    );
    assert_eq!(
        refused(Form::Slime, &line("[[0,1]]"), &options(4)),
        "r.jsonl: sample 0: routes of 1 of 3 tokens are missing, first at row 1; choose `missing = leave-out` or `scale-up`"
    );
}

#[test]
fn missing_rows_follow_the_policy() {
    let text =
        r#"{"length":5,"routed_experts":[[[-1,-1],[-1,-1]],[[0,1],[2,3]],[[0,2],[2,1]],[[0,3],[2,0]]]}"#;
    assert!(refused(Form::Slime, text, &options(4)).contains("1 of 5 tokens are missing, first at row 0"));
    let left =
        lines(Form::Slime, text, &ImportOptions { missing: Missing::LeaveOut, ..options(4) }).expect("valid");
    assert_eq!((counts(&left, 0, 0), counts(&left, 0, 1)), (vec![3, 1, 1, 1], vec![1, 1, 3, 1]));
    assert_eq!(left.batch.routed_rows, Some(vec![3]));
    assert_eq!((left.summary.rows_missing, left.summary.samples_with_missing_rows), (1, 1));
    let scaled =
        lines(Form::Slime, text, &ImportOptions { missing: Missing::ScaleUp, ..options(4) }).expect("valid");
    assert_eq!(scaled.batch.routed_rows, Some(vec![5]));
    assert_eq!(counts(&scaled, 0, 0), [5, 2, 2, 1], "3/3, 1/3, 1/3, 1/3 of 5 rows, 10 routes in all");
    let partly = text.replace("[-1,-1],[-1,-1]", "[-1,-1],[0,1]");
    assert_eq!(
        refused(Form::Slime, &partly, &options(4)),
        "r.jsonl: sample 0, row 0, layer 0: missing while other layers of the row are recorded"
    );
    let half = text.replace("[-1,-1],[-1,-1]", "[-1,2],[0,1]");
    assert_eq!(
        refused(Form::Slime, &half, &options(4)),
        "r.jsonl: sample 0, row 0, layer 0: expert -1: expected 0 to 3"
    );
}

#[test]
fn aborted_samples_follow_the_policy() {
    let text = "{\"length\":4,\"id\":\"a\",\"routed_experts\":null}\n\
                {\"length\":2,\"id\":\"b\",\"routed_experts\":[[[1,0]]]}\n\
                {\"length\":9,\"id\":\"c\"}\n";
    assert!(refused(Form::Slime, text, &options(4)).starts_with("r.jsonl: sample 0 (a): routes of 3 of 4"));
    let left =
        lines(Form::Slime, text, &ImportOptions { missing: Missing::LeaveOut, ..options(4) }).expect("valid");
    assert_eq!(left.batch.routed_rows, Some(vec![0, 1, 0]));
    assert_eq!(left.summary.samples_without_rows, 2);
    assert_eq!(
        refused(Form::Slime, text, &ImportOptions { missing: Missing::ScaleUp, ..options(4) }),
        "r.jsonl: sample 0 (a): no row was recorded: nothing to scale up; choose `missing = leave-out`"
    );
    let none = "{\"length\":4}\n";
    assert_eq!(
        refused(Form::Slime, none, &ImportOptions { missing: Missing::LeaveOut, ..options(4) }),
        "r.jsonl: no sample has routes"
    );
}

#[test]
fn ids_are_different_experts_below_e() {
    let line = |row: &str| format!(r#"{{"length":3,"routed_experts":[[[0,1],[2,3]],[{row}]]}}"#);
    lines(Form::Slime, &line("[3,0],[0,1]"), &options(4)).expect("valid");
    for (row, error) in [
        ("[3,0],[0,4]", "row 1, layer 1: expert 4: expected 0 to 3"),
        ("[3,0],[0,70000]", "row 1, layer 1: expert 70000: expected 0 to 3"),
        ("[-2,0],[0,1]", "row 1, layer 0: expert -2: expected 0 to 3"),
        ("[3,0],[1,1]", "row 1, layer 1: expert 1 twice; a row has 2 different experts"),
        (
            "[0,0],[1,0]",
            "row 1, layer 0: expert 0 twice; a row has 2 different experts (all zero: is the layer dense, or the row missing?)",
        ),
    ] {
        assert_eq!(refused(Form::Slime, &line(row), &options(4)), format!("r.jsonl: sample 0, {error}"));
    }
}

#[test]
fn the_layer_axis_is_declared() {
    let text = r#"{"length":2,"routed_experts":[[[0,0],[1,2],[2,1]]]}"#;
    let undeclared = ImportOptions::new(4);
    assert_eq!(
        refused(Form::MsSwift, text, &undeclared),
        "ms-swift: layers is needed: does the layer axis hold MoE layers only, or all, and which of them are MoE?"
    );
    let all = |moe: &[u32]| ImportOptions { layers: Some(Layers::All(moe.to_vec())), ..undeclared.clone() };
    let imported = lines(Form::MsSwift, text, &all(&[1, 2])).expect("valid");
    assert_eq!((imported.summary.layers, counts(&imported, 0, 0)), (2, vec![0, 1, 1, 0]));
    assert_eq!(
        refused(Form::MsSwift, text, &all(&[2])),
        "r.jsonl: sample 0, row 0, layer 1: expert 1 in a layer that was not declared to be MoE"
    );
    assert!(refused(Form::MsSwift, text, &all(&[0, 1, 2])).contains("row 0, layer 0: expert 0 twice"));
    assert!(refused(Form::MsSwift, text, &all(&[1, 3])).contains("layers = 3: the layer axis has 3 layers"));
    for wrong in [&[][..], &[2, 1], &[1, 1]] {
        assert!(refused(Form::MsSwift, text, &all(wrong)).contains("ascending"));
    }
    // Dense rows may be -1, too.
    lines(Form::MsSwift, &text.replace("[0,0]", "[-1,-1]"), &all(&[1, 2])).expect("valid");
    // vLLM's documentation promises MoE layers only.
    let vllm = r#"{"prompt_token_ids":[5],"choices":[{"token_ids":[6],"routed_experts":[]}],"prompt_routed_experts":[[[1,2]]]}"#;
    assert_eq!(lines(Form::Vllm, vllm, &undeclared).expect("valid").summary.layers, 1);
}

#[test]
fn shapes_stay_what_they_were_and_what_was_declared() {
    let text =
        "{\"length\":2,\"routed_experts\":[[[1,2]]]}\n{\"length\":2,\"routed_experts\":[[[1,2],[0,1]]]}\n";
    assert_eq!(
        refused(Form::Slime, text, &options(4)),
        "r.jsonl: sample 1: shape: [layers, k] = [2, 2], the samples before have [1, 2]"
    );
    let first = text.lines().next().expect("a line");
    let wrong = ImportOptions { top_k: Some(3), ..options(4) };
    assert_eq!(refused(Form::Slime, first, &wrong), "r.jsonl: sample 0: shape: 2 top_k, declared are 3");
    let wrong = ImportOptions { num_layers: Some(2), ..options(4) };
    assert_eq!(refused(Form::Slime, first, &wrong), "r.jsonl: sample 0: shape: 1 layers, declared are 2");
    assert!(refused(Form::Slime, first, &options(1)).contains("k from 1 to 1 experts"));
    assert!(
        refused(Form::Slime, r#"{"length":2,"routed_experts":[[1,2]]}"#, &options(4))
            .contains("expected [rows, layers, k]")
    );
    assert!(
        refused(Form::Slime, r#"{"length":2,"routed_experts":[[[1,2]],[[1]]]}"#, &options(4))
            .contains("r.jsonl:1: column")
    );
    for (option, value) in [("num_experts", 0), ("num_experts", 40000)] {
        assert!(refused(Form::Slime, first, &options(value)).starts_with(option));
    }
}

#[test]
fn lengths_are_stated_and_agree() {
    let routes = r#""routed_experts":[[[1,2]]]"#;
    lines(Form::Slime, &format!(r#"{{"length":2,"tokens":[1,2],{routes}}}"#), &options(4)).expect("valid");
    assert_eq!(
        refused(Form::Slime, &format!(r#"{{"length":2,"tokens":[1,2,3],{routes}}}"#), &options(4)),
        "r.jsonl: sample 0: length: 2 by length, 3 by tokens"
    );
    assert!(refused(Form::Slime, &format!("{{{routes}}}"), &options(4)).contains("length: not stated"));
    assert!(refused(Form::Slime, &format!(r#"{{"length":0,{routes}}}"#), &options(4)).contains("0 tokens"));
    let given = ImportOptions { lengths: Some(vec![2]), ..options(4) };
    lines(Form::Slime, &format!("{{{routes}}}"), &given).expect("valid");
    let two = format!("{{{routes}}}\n{{{routes}}}\n");
    assert_eq!(refused(Form::Slime, &two, &given), "lengths = 1: the file has more samples");
}

#[test]
fn facts_about_some_samples_are_facts_about_all() {
    let text = "{\"length\":2,\"loss_mask\":[0,1],\"step\":3,\"group_index\":7,\"routed_experts\":[[[1,2]]]}\n\
                {\"length\":2,\"loss_tokens\":2,\"step\":4,\"group_index\":7,\"routed_experts\":[[[1,2]]]}\n";
    let imported = lines(Form::Slime, text, &options(4)).expect("valid");
    assert_eq!(imported.batch.loss_tokens, Some(vec![1, 2]));
    assert_eq!(imported.batch.step, Some(vec![3, 4]));
    assert_eq!(imported.batch.prompt_ids, Some(vec![7, 7]));
    assert_eq!(imported.batch.sample_ids, None);
    assert_eq!(
        refused(Form::Slime, &text.replace("\"step\":4,", ""), &options(4)),
        "r.jsonl: sample 1: step: missing, the samples before have it"
    );
    assert_eq!(
        refused(Form::Slime, &text.replace("\"step\":3,", ""), &options(4)),
        "r.jsonl: sample 1: step: the samples before have none"
    );
    assert!(
        refused(Form::Slime, &text.replace("\"loss_tokens\":2", "\"loss_tokens\":3"), &options(4))
            .contains("3, the sample has 2 tokens")
    );
    assert!(
        refused(Form::Slime, &text.replace("[0,1],\"step", "[0,2],\"step"), &options(4))
            .contains("2 in a mask")
    );
}

#[test]
fn the_types_of_ids_can_hold_every_expert() {
    let text = |dtype, id| {
        let routes = dictionary(dtype, [1, 1, 2], 0, &[0, id]);
        format!(r#"{{"length":2,"routed_experts":{routes}}}"#)
    };
    lines(Form::SkyRl, &text(Dtype::U8, 255), &options(256)).expect("256 experts fit uint8");
    // What went wrong in public: ids cast to uint8, 257 became 1.
    assert_eq!(
        refused(Form::SkyRl, &text(Dtype::U8, 257), &options(257)),
        "r.jsonl: sample 0: dtype uint8 holds ids up to 255, the layers have 257 experts: ids may have wrapped"
    );
    lines(Form::SkyRl, &text(Dtype::I8, 127), &options(128)).expect("128 experts fit int8");
    assert!(
        refused(Form::SkyRl, &text(Dtype::I8, 1), &options(129)).contains("dtype int8 holds ids up to 127")
    );
    assert!(
        refused(Form::SkyRl, &text(Dtype::I16, 1).replace("int16", "float32"), &options(4))
            .contains("dtype float32")
    );
}

#[test]
fn constant_pad_rows_are_not_counted_and_not_believed() {
    // What went wrong in public: 66 pad rows of one repeated expert set one bit of six, 330 counts were lost.
    let (tokens, pads, top_k) = (10usize, 66usize, 6usize);
    let mut routes: Vec<i64> =
        (0..tokens as i64).flat_map(|token| (0..6).map(move |at| (token + at) % 16)).collect();
    routes.extend(vec![0; pads * top_k]);
    let mut mask = vec![1; tokens];
    mask.extend(vec![0; pads]);
    let shape = [1, tokens + pads, 1, top_k];
    let arrays = |routes: &[i64], mask: &[i64]| {
        npz(&[
            array("routed_experts", Dtype::I16, &shape, routes),
            array("attention_mask", Dtype::I64, &[1, tokens + pads], mask),
        ])
    };
    let imported = file(&arrays(&routes, &mask), Form::Verl, &options(16)).expect("valid");
    assert_eq!(counts(&imported, 0, 0).iter().sum::<u32>() as usize, tokens * top_k);
    assert_eq!(imported.batch.routed_rows, Some(vec![tokens as u32]));
    // The same rows taken for tokens: missing in verl's form, an error in others.
    let all = vec![1; tokens + pads];
    assert!(
        file(&arrays(&routes, &all), Form::Verl, &options(16))
            .expect_err("missing")
            .to_string()
            .contains("routes of 65 of 76 tokens are missing")
    );
    let constant: Vec<i64> =
        routes.iter().enumerate().map(|(at, &id)| if at >= tokens * top_k { 3 } else { id }).collect();
    let error = file(&arrays(&constant, &all), Form::Verl, &options(16)).expect_err("repeated");
    assert!(
        error.to_string().ends_with("row 10, layer 0: expert 3 twice; a row has 6 different experts"),
        "{error}"
    );
}

#[test]
fn masked_rows_of_zeros_are_no_demand_on_expert_0() {
    // Two samples, left-padded; the last token of each has no row.
    let routes = [0, 0, 1, 2, 0, 0, 3, 1, 2, 3, 0, 0];
    let arrays = |dtype| {
        [
            array("routed_experts", dtype, &[2, 3, 1, 2], &routes),
            array("attention_mask", Dtype::U8, &[2, 3], &[0, 1, 1, 1, 1, 1]),
        ]
    };
    for bytes in [npz(&arrays(Dtype::I16)), safetensors(&arrays(Dtype::U8))] {
        let imported = file(&bytes, Form::Verl, &options(4)).expect("valid");
        assert_eq!(imported.batch.lengths, [2, 3]);
        assert_eq!(counts(&imported, 0, 0), [0, 1, 1, 0]);
        assert_eq!(counts(&imported, 1, 0), [0, 1, 1, 2]);
    }
    let error = file(&npz(&arrays(Dtype::I16)[..1]), Form::Verl, &options(4)).expect_err("no mask");
    assert!(error.to_string().starts_with("verl: attention_mask is needed"), "{error}");
    let error = lines(Form::Verl, "{}", &options(4)).expect_err("lines");
    assert!(error.to_string().contains("verl routes are not handed over as JSON"), "{error}");
}

#[test]
fn a_turn_begins_where_its_shared_prefix_ends() {
    // What went wrong in public: routes of turn 2 were stitched at the previous row length, though the shared prefix
    // was shorter. Turn 1 has rows for tokens 0 to 4; turn 2 shares only the first three tokens.
    let one = dictionary(Dtype::U8, [5, 1, 2], 0, &[0, 1, 0, 1, 0, 1, 2, 3, 2, 3]);
    let two = dictionary(Dtype::U16, [3, 1, 2], 3, &[4, 5, 4, 5, 4, 5]);
    let text = format!(r#"{{"length":7,"routed_experts":[{one},{two}]}}"#);
    let imported = lines(Form::PrimeRl, &text, &options(6)).expect("valid");
    assert_eq!(counts(&imported, 0, 0), [3, 3, 0, 0, 3, 3]);
    assert_eq!(imported.summary.replaced_rows, 2);
    let gap = dictionary(Dtype::U16, [1, 1, 2], 5, &[4, 5]);
    let text = format!(
        r#"{{"length":7,"routed_experts":[{},{gap}]}}"#,
        dictionary(Dtype::U8, [4, 1, 2], 0, &[0, 1, 0, 1, 0, 1, 2, 3])
    );
    assert!(
        refused(Form::PrimeRl, &text, &options(6))
            .contains("routes of 1 of 7 tokens are missing, first at row 4")
    );
}

#[test]
fn physical_ids_need_the_map_they_were_recorded_under() {
    // What went wrong in public: statistics were taken on physical ids after a rebalance.
    let logical = r#"{"length":3,"routed_experts":[[[0,1],[2,3]],[[0,2],[3,1]]]}"#;
    let phys2log = vec![vec![2, 0, 3, 1], vec![3, 2, 1, 0]];
    let physical = r#"{"length":3,"routed_experts":[[[1,3],[1,0]],[[1,0],[0,2]]]}"#;
    let with = |map| ImportOptions { ids: Ids::Physical(map), ..options(4) };
    let expected = lines(Form::Slime, logical, &options(4)).expect("valid");
    assert_eq!(lines(Form::Slime, physical, &with(phys2log.clone())).expect("valid").batch, expected.batch);
    assert_eq!(lines(Form::Slime, physical, &with(Vec::new())), Err(ImportError::PhysicalIds));
    // Experts held twice count as one; both copies in one row are one expert twice.
    let copies = with(vec![vec![2, 0, 3, 1, 1], vec![3, 2, 1, 0, 0]]);
    let moved = physical.replace("[[1,3]", "[[1,4]");
    assert_eq!(lines(Form::Slime, &moved, &copies).expect("valid").batch, expected.batch);
    assert!(
        refused(Form::Slime, &physical.replace("[[1,3]", "[[4,3]"), &copies)
            .contains("layer 0: expert 1 twice")
    );
    for (map, error) in [
        (vec![vec![0, 1, 2, 3]], "phys2log = 1 layers: expected 2 MoE layers"),
        (vec![vec![0, 1, 2, 2]; 2], "no slot holds expert 3"),
        (vec![vec![0, 1, 2, 4]; 2], "slot 3, expert 4"),
        (vec![vec![0, 1, 2]; 2], "expected 4 to"),
    ] {
        let found = refused(Form::Slime, physical, &with(map));
        assert!(found.contains(error), "{found}");
    }
}

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
fn damaged_lines_are_refused_with_their_number() {
    let good = r#"{"length":2,"routed_experts":[[[1,2]]]}"#;
    for (bad, error) in [
        ("{\"length\":2,", "r.jsonl:3: column 12"),
        ("[{\"length\":2}]", "r.jsonl:3: a list: expected one rollout a line"),
        ("{\"length\":-2}", "r.jsonl:3: column"),
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
    import_lines(&packed[..], "r.gz", Form::MsSwift, &options(4), &mut |_| {}).expect("whole");
    let error = import_lines(&packed[..packed.len() - 9], "r.gz", Form::MsSwift, &options(4), &mut |_| {});
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
fn choices_of_a_response_are_samples() {
    let text = r#"{"id":"c","prompt_token_ids":[1,2],"prompt_routed_experts":[[[0,1]],[[0,2]]],"choices":[
        {"index":0,"token_ids":[3,4],"routed_experts":[[[0,3]]]},{"index":1,"token_ids":[3],"routed_experts":[]}]}"#
        .replace('\n', " ");
    let imported = lines(Form::Vllm, &text, &ImportOptions::new(4)).expect("valid");
    assert_eq!(imported.batch.lengths, [4, 3]);
    assert_eq!((counts(&imported, 0, 0), counts(&imported, 1, 0)), (vec![3, 1, 1, 1], vec![2, 1, 1, 0]));
    assert_eq!(imported.batch.id_text(1), "c/1");
    // The prefix came from a cache.
    let cached = text.replace("[[[0,1]],[[0,2]]]", "[[[-1,-1]],[[0,2]]]");
    assert!(
        refused(Form::Vllm, &cached, &ImportOptions::new(4))
            .contains("sample 0 (c/0): routes of 1 of 4 tokens")
    );
    let wrong = text.replace("[[[0,1]],[[0,2]]]", "[[[0,1]]]");
    assert!(
        refused(Form::Vllm, &wrong, &ImportOptions::new(4))
            .contains("prompt_routed_experts: 1 rows, the prompt has 2 tokens")
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
    assert!(refused(Form::ExpertDistribution, text, &options(4)).contains("top_k is needed"));
    assert!(
        refused(Form::ExpertDistribution, text, &ImportOptions { top_k: Some(2), ..options(5) })
            .contains("4 counts a layer, expected 5")
    );
}

#[test]
fn routes_in_memory_are_counted_under_a_mask() {
    let bytes = to_bytes([0, 1, -1, -1, 2, 3, 0, 3], Dtype::I16);
    let routes = Routes { dtype: Dtype::I16, shape: [4, 1, 2], bytes: &bytes };
    assert_eq!(count_routes(routes, 4, None), Ok((vec![2, 1, 1, 2], 3)));
    assert_eq!(count_routes(routes, 4, Some(&[true, true, false, true])), Ok((vec![2, 1, 0, 1], 2)));
    assert!(count_routes(routes, 4, Some(&[true])).is_err());
    assert!(
        count_routes(routes, 3, None)
            .expect_err("out of range")
            .to_string()
            .contains("row 2, layer 0: expert 3")
    );
    assert!(count_routes(Routes { shape: [4, 2, 2], ..routes }, 4, None).is_err());
    assert_eq!(count_routes(Routes { shape: [0, 1, 2], bytes: &[], ..routes }, 4, None), Ok((vec![0; 4], 0)));
}
