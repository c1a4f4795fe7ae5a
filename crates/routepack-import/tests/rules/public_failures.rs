//! What went wrong in public, one test each. Failures of moves (master weights refilled, scales left behind, a bias not
//! permuted) are tested where experts move: `routepack-py/tests/torch`.

use routepack_import::{Dtype, Form, Ids, ImportError, ImportOptions};

use crate::support::{npz, safetensors};
use crate::{array, counts, dictionary, file, lines, options, refused};

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
