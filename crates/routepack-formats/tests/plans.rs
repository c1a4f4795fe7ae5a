//! Plans as JSON and as index arrays.

use std::io::{Cursor, Read};
use std::path::Path;
use std::sync::Arc;

use routepack_certificate::{Certificate, Limits, Proof};
use routepack_formats::{
    encode_plan, parse_plan, plan_json, plan_schema, read_plan, write_plan, write_plan_npz,
};
use routepack_problem::{
    Batch, Dummies, ExpertCounts, Layout, OversizePolicy, Placement, SampleIds, Setting, prepare,
};
use routepack_verify::{AssembleInputs, Plan, StepDecisions, assemble, statement, verify};

/// Two steps over two slots: sample 4 is too long, step 8 has one sample and a dummy.
fn plan() -> (Plan, Arc<Batch>) {
    let counts = [7u32, 6, 5, 3, 11, 4].iter().flat_map(|&rows| [rows, 0, 1, rows - 1]).collect();
    let batch = Arc::new(Batch {
        expert_counts: Some(ExpertCounts::new([6, 1, 2, 2], counts).expect("shape")),
        sample_ids: Some(SampleIds::Strings(["a", "b", "c", "d", "e", "\"é\""].map(String::from).to_vec())),
        loss_tokens: Some(vec![1, 2, 3, 0, 0, 4]),
        step: Some(vec![7, 7, 7, 7, 7, 8]),
        ..Batch::from_lengths(vec![7, 6, 5, 3, 11, 4])
    });
    let mut setting = Setting::new(2, 2, 10);
    setting.routing.top_k = 1;
    setting.packing.oversize = OversizePolicy::Drop;
    setting.packing.dummies = Some(Dummies { length: 1 });
    let prepared = prepare(Arc::clone(&batch), &setting).expect("valid");
    let placement = Placement::new(2, vec![vec![1, 0], vec![0, 1]]).expect("bijections");
    let second = prepared.instances[1].with_dummies(1).expect("allowed");
    let certify = |instance, witness: Vec<Vec<u32>>, cells| {
        let certificate = Certificate {
            witness: Some(witness),
            cells_at_least: Some(cells),
            proof: Some(Proof::Volume),
            ..Certificate::default()
        };
        certificate.to_text(&statement(instance))
    };
    let plan = assemble(AssembleInputs {
        steps: vec![
            StepDecisions {
                instance: &prepared.instances[0],
                layout: &Layout::new(2, 2, vec![3, 0, 1, 2]),
                certificate: certify(&prepared.instances[0], vec![vec![0, 3], vec![1], vec![2]], 3),
                other_rows: &[],
            },
            StepDecisions {
                instance: &second,
                layout: &Layout::new(1, 2, vec![1, 0]),
                certificate: certify(&second, vec![vec![0]], 1),
                other_rows: &[],
            },
        ],
        dropped: &prepared.dropped,
        filtered: &[],
        placement: Some(&placement),
        resident: None,
        machine: None,
        window_sha256: None,
        tool: "test".into(),
        options: serde_json::json!({"ratio": 0.1, "empty": {}, "none": []}),
        seed: u64::MAX,
        lp_backend: "none".into(),
        fallback: None,
        finished: true,
        limits: Limits::default(),
    })
    .expect("valid decisions");
    (plan, batch)
}

#[test]
fn plans_round_trip_through_files() {
    let (plan, batch) = plan();
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("plan.json");
    write_plan(&path, &plan).expect("writable");
    let read = read_plan(&path).expect("own file");
    assert_eq!(read, plan);
    assert_eq!(plan_json(&read), std::fs::read_to_string(&path).expect("written"));
    verify(&read, &batch).expect("still true");
}

#[test]
fn the_text_is_readable_and_valid() {
    let (plan, _) = plan();
    let text = plan_json(&plan);
    assert_eq!(
        serde_json::from_str::<serde_json::Value>(&text).expect("JSON"),
        serde_json::to_value(&plan).expect("JSON")
    );
    assert!(text.starts_with("{\n  \"format\": \"routepack-plan/1\",\n  \"sha256\": \""), "{text}");
    assert!(text.ends_with("\n}\n"));
    assert!(text.contains("\"cells\": [\n      [[1],[2]],\n      [[3],[0]]]"), "{text}");
    assert!(text.contains("\"empty\": {}"), "{text}");
    assert!(text.contains("\"none\": []"), "{text}");
    assert!(text.lines().all(|line| line.trim_end() == line && line.len() < 400), "{text}");
}

#[test]
fn what_is_no_plan_is_refused_by_line() {
    let (plan, _) = plan();
    let text = plan_json(&plan);
    let refuse = |text: &str| parse_plan(text.as_bytes(), "plan.json").expect_err("refused").to_string();
    for (from, to, message) in [
        ("\"seed\"", "\"sead\"", "unknown field `sead`, expected one of `format`"),
        ("\"finished\": true", "\"finished\": 1", "invalid type: integer `1`, expected a boolean"),
        ("\"worst_row\"", "\"worst_raw\"", "unknown field `worst_raw`"),
        ("\"rows\": 2", "\"rows\": -2", "invalid value: integer `-2`, expected u64"),
    ] {
        assert!(text.contains(from), "{from}");
        let error = refuse(&text.replacen(from, to, 1));
        let line = text[..text.find(from).expect("there")].matches('\n').count() + 1;
        assert!(error.starts_with(&format!("plan.json:{line}: column ")), "{error}");
        assert!(error.contains(message), "{error}");
    }
    assert!(refuse(text.trim_end().strip_suffix('}').expect("an object")).contains("EOF"));
    for other in ["PK\u{3}\u{4}", "", "1,2\n"] {
        assert_eq!(refuse(other), "plan.json: no JSON object; expected a plan (JSON)");
    }
    let absent = read_plan(Path::new("no/plan.json")).expect_err("absent").to_string();
    assert!(absent.starts_with("no/plan.json: cannot open"), "{absent}");
}

/// Values of one array in an archive, read by hand.
fn array(bytes: &[u8], name: &str) -> (String, Vec<u8>) {
    let mut archive = zip::ZipArchive::new(Cursor::new(bytes)).expect("an archive");
    let mut entry = archive.by_name(&format!("{name}.npy")).expect(name);
    let mut bytes = Vec::new();
    entry.read_to_end(&mut bytes).expect("whole");
    let length = usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    assert_eq!((10 + length) % 64, 0, "values are aligned");
    (String::from_utf8(bytes[10..10 + length].to_vec()).expect("text"), bytes[10 + length..].to_vec())
}

fn int32s(bytes: &[u8], name: &str, shape: &str) -> Vec<i32> {
    let (header, data) = array(bytes, name);
    assert_eq!(header.trim_end(), format!("{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}"));
    data.chunks_exact(4).map(|bytes| i32::from_le_bytes(bytes.try_into().expect("four"))).collect()
}

#[test]
fn index_arrays_are_those_of_the_plan() {
    let (plan, _) = plan();
    let bytes = encode_plan(&plan);
    assert_eq!(bytes, encode_plan(&plan));
    assert_eq!(int32s(&bytes, "step", "(6,)"), [0, 0, 0, 0, -1, 1]);
    assert_eq!(int32s(&bytes, "row", "(6,)"), [1, 0, 0, 1, -1, 0]);
    assert_eq!(int32s(&bytes, "slot", "(6,)"), [1, 0, 1, 0, -1, 1]);
    assert_eq!(int32s(&bytes, "cell_of", "(6,)"), [3, 0, 1, 2, -1, 1]);
    assert_eq!(int32s(&bytes, "log2phys", "(2, 2)"), [1, 0, 0, 1]);
    assert_eq!(int32s(&bytes, "phys2log", "(2, 2)"), [1, 0, 0, 1]);
    assert_eq!(array(&bytes, "steps").1, [7i64, 8].map(i64::to_le_bytes).concat());
    assert_eq!(array(&bytes, "rows").1, [2i64, 1].map(i64::to_le_bytes).concat());
    assert_eq!(array(&bytes, "dummies").1, [0u16, 0, 0, 0, 1, 0].map(u16::to_le_bytes).concat());
    let text: Vec<u8> = plan.sha256.bytes().flat_map(|byte| u32::from(byte).to_le_bytes()).collect();
    assert_eq!(array(&bytes, "sha256").1, text);
    let folder = tempfile::tempdir().expect("a folder");
    write_plan_npz(&folder.path().join("plan.npz"), &plan).expect("writable");
}

#[test]
fn the_schema_describes_the_plan() {
    let schema = plan_schema();
    let (plan, _) = plan();
    let json = serde_json::to_value(&plan).expect("JSON");
    let named: Vec<&String> = schema["properties"].as_object().expect("an object").keys().collect();
    let written: Vec<&String> = json.as_object().expect("an object").keys().collect();
    // Only written where a filter took samples away, and where the step time decides about rows.
    let absent: Vec<&&String> = named.iter().filter(|key| !written.contains(key)).collect();
    assert_eq!(absent, [&"filtered", &"machine"]);
    assert!(written.iter().all(|key| named.contains(key)));
    assert_eq!(schema["additionalProperties"], false);
    assert!(schema.to_string().contains("Batch indices of the samples of every cell"));
}
