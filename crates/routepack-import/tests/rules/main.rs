//! The import rules, in pairs of what is accepted and what is refused.

mod carriers;
mod public_failures;
#[path = "../support/mod.rs"]
mod support;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use routepack_import::{
    Dtype, Form, ImportError, ImportOptions, Imported, Layers, Missing, Routes, count_routes, import,
    import_lines,
};

use support::{Named, to_bytes};

pub(crate) fn options(experts: u32) -> ImportOptions {
    ImportOptions { layers: Some(Layers::Moe), ..ImportOptions::new(experts) }
}

pub(crate) fn lines(form: Form, text: &str, options: &ImportOptions) -> Result<Imported, ImportError> {
    import_lines(text.as_bytes(), "r.jsonl", form, options, &|| false, &mut |_| {})
}

pub(crate) fn refused(form: Form, text: &str, options: &ImportOptions) -> String {
    lines(form, text, options).expect_err(text).to_string()
}

pub(crate) fn file(bytes: &[u8], form: Form, options: &ImportOptions) -> Result<Imported, ImportError> {
    let file = tempfile::NamedTempFile::new().expect("a temporary file");
    std::fs::write(file.path(), bytes).expect("written");
    import(file.path(), form, options, &|| false, &mut |_| {})
}

pub(crate) fn counts(imported: &Imported, sample: usize, layer: usize) -> Vec<u32> {
    imported.batch.expert_counts.as_ref().expect("counts").of(sample, 0, layer).to_vec()
}

pub(crate) fn dictionary(dtype: Dtype, shape: [usize; 3], start: usize, ids: &[i64]) -> String {
    let data = STANDARD.encode(to_bytes(ids.iter().copied(), dtype));
    format!(r#"{{"data":"{data}","shape":{shape:?},"dtype":"{}","start":{start}}}"#, dtype.name())
}

pub(crate) fn array(name: &str, dtype: Dtype, shape: &[usize], values: &[i64]) -> Named {
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

/// Two samples of one id cannot be told apart in a plan.
#[test]
fn ids_occur_once() {
    let line = |id: &str| format!("{{\"length\":2,{id}\"routed_experts\":[[[1,2]]]}}\n");
    let text = |ids: [&str; 3]| ids.map(line).concat();
    let imported = lines(Form::Slime, &text([r#""id":"a","#, r#""id":1,"#, r#""id":"01","#]), &options(4));
    assert_eq!(imported.expect("valid").batch.sample_ids.expect("ids").text(2), "01");
    let why = "expected ids that occur once, sample 0 has it too; the id of a prompt is `prompt_id`";
    for (ids, id) in [
        ([r#""id":"a","#, r#""id":"b","#, r#""id":"a","#], "a"),
        ([r#""sample_id":1,"#, r#""index":2,"#, r#""request_id":1,"#], "1"),
        // Where one id is text, all are.
        ([r#""id":1,"#, r#""id":"b","#, r#""id":"1","#], "1"),
    ] {
        assert_eq!(
            refused(Form::Slime, &text(ids), &options(4)),
            format!("r.jsonl: sample 2 ({id}): id: {why}")
        );
    }
}

/// All responses to a prompt share verl's `uid`, a text.
#[test]
fn uids_are_of_prompts() {
    let line = |fields: &str| format!("{{\"length\":2,{fields}\"routed_experts\":[[[1,2]]]}}\n");
    let text = |fields: [&str; 4]| fields.map(line).concat();
    let uids = text([r#""uid":"p","#, r#""uid":"p","#, r#""uid":7,"#, r#""uid":"p","#]);
    let batch = lines(Form::Slime, &uids, &options(4)).expect("valid").batch;
    assert_eq!((batch.sample_ids, batch.prompt_ids), (None, Some(vec![0, 0, 1, 0])));
    // A number that is there already is kept.
    let both = text([r#""uid":"p","prompt_id":9,"#; 4]);
    let batch = lines(Form::Slime, &both, &options(4)).expect("valid").batch;
    assert_eq!((batch.sample_ids, batch.prompt_ids), (None, Some(vec![9; 4])));
    assert_eq!(
        refused(Form::Slime, &text([r#""uid":"p","#, "", "", ""]), &options(4)),
        "r.jsonl: sample 1: uid: missing, the samples before have it"
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
