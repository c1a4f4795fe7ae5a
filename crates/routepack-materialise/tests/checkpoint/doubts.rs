//! Where a folder leaves in doubt which tensors or settings are of which expert: refused, until it is said.

use std::fs;
use std::path::Path;

use routepack_materialise::checkpoint::{
    CheckpointMap, Direction, MAP_FILE, NamePattern, Names, Rewrite, rewrite,
};
use serde_json::json;

use crate::folders::{Bytes, EXPERTS, Style, job, read, write};
use crate::hostile::refused;
use crate::{folder, refusal};

/// Adds tensors in a shard of their own, and to the index.
fn add(folder: &Path, tensors: &[(String, Bytes)]) {
    let views = tensors.iter().map(|(name, bytes)| (name, bytes));
    safetensors::serialize_to_file(views, None, &folder.join("more.safetensors")).expect("written");
    let index = folder.join("model.safetensors.index.json");
    let mut held: serde_json::Value =
        serde_json::from_slice(&fs::read(&index).expect("read")).expect("an index");
    for (name, _) in tensors {
        held["weight_map"][name] = "more.safetensors".into();
    }
    fs::write(index, held.to_string()).expect("written");
}

fn second_model(prefix: &str) -> Vec<(String, Bytes)> {
    let experts = (1..3).flat_map(|layer| (0..EXPERTS).map(move |expert| (layer, expert)));
    experts
        .map(|(layer, expert)| {
            let name = format!("{prefix}model.layers.{layer}.mlp.experts.{expert}.up_proj.weight");
            (name, Bytes(vec![2], vec![layer as u8, expert as u8]))
        })
        .collect()
}

/// A map is of one model: thinker and talker have layers and experts of the same numbers.
#[test]
fn experts_of_two_models_move_only_if_they_are_named() {
    let said = refused(&|folder| add(folder, &second_model("talker.")));
    assert!(said.contains("layer 1 has experts under"), "{said}");
    assert!(said.contains("talker.model.layers.1") && said.ends_with("--prefix, once for each"), "{said}");
    let root = folder();
    let [source, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    add(&source, &second_model("talker."));
    let named = |prefixes: &[&str]| {
        let names =
            Names { prefix: prefixes.iter().map(|&one| one.to_owned()).collect(), ..Names::default() };
        Rewrite { names, ..job(Direction::Apply, &source, &slots) }
    };
    let said = refusal(rewrite(&named(&["talkr."])), root.path());
    assert_eq!(said, "canonical: no tensor has the name of an expert; describe their names with --names");
    let said = refusal(rewrite(&named(&["talker.", "thinker."])), root.path());
    assert_eq!(said, "canonical: --prefix thinker.: no experts have names that begin so");
    // A prefix names one model.
    let two = root.path().join("two");
    write(&two, Style::Qwen, 16);
    add(&two, &second_model("talker.a.").into_iter().chain(second_model("talker.b.")).collect::<Vec<_>>());
    let said = refusal(rewrite(&Rewrite { source: two, ..named(&["talker."]) }), root.path());
    assert!(said.contains("talker.a.model.layers.1 and under talker.b.model.layers.1"), "{said}");
    let before = read(&source);
    let both = [&["talker."][..], &["model."], &["model.", "talker."]];
    for (number, prefixes) in both.into_iter().enumerate() {
        rewrite(&named(prefixes)).expect("rewritten");
        let moved = read(&slots);
        let changed = |name: &str| before[name] != moved[name];
        assert_eq!(changed("talker.model.layers.1.mlp.experts.0.up_proj.weight"), number != 1);
        assert_eq!(changed("model.layers.1.mlp.experts.0.up_proj.weight"), number != 0);
        // The way back knows.
        rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
        assert_eq!(read(&back), before);
        fs::remove_dir_all(&slots).expect("deleted");
        fs::remove_dir_all(&back).expect("deleted");
    }
}

#[test]
fn experts_under_names_that_fit_no_pattern_are_refused_beside_known_ones() {
    for name in
        ["mlp.expert.0.bias", "mlp.moe_experts.0.bias", "mlp.routed_experts.0.bias", "mlp.experts_0.bias"]
    {
        let name = format!("model.layers.1.{name}");
        let said = refused(&|folder| add(folder, &[(name.clone(), Bytes(vec![2], vec![0, 1]))]));
        assert!(said.ends_with("whose name fits no pattern; describe it with --names"), "{said}");
    }
    // Granite's stacks say nothing of experts.
    let stack = "model.layers.1.block_sparse_moe.input_linear.weight";
    let said =
        refused(&|folder| add(folder, &[(stack.into(), Bytes(vec![EXPERTS, 2], vec![7; 2 * EXPERTS]))]));
    assert!(said.contains(stack) && said.contains("4 rows, as many as there are experts"), "{said}");
    // Shared experts, routers and their biases stay where they are, also beside stacked experts.
    let root = folder();
    let [source, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Stacked, 16);
    let stays = [
        "mlp.shared_expert_gate.weight",
        "mlp.shared_experts.up_proj.weight",
        "mlp.experts.e_score_correction_bias",
        "mlp.router.expert_bias",
        "block_sparse_moe.gate.weight",
        "block_sparse_moe.e_score_correction_bias",
    ]
    .map(|name| (format!("model.layers.1.{name}"), Bytes(vec![EXPERTS], vec![1, 2, 3, 4])));
    add(&source, &stays);
    rewrite(&job(Direction::Apply, &source, &slots)).expect("rewritten");
    let moved = read(&slots);
    for (name, bytes) in &stays {
        assert_eq!(moved[name], bytes.1, "{name}");
    }
    // Nothing of experts at all.
    let none = root.path().join("none");
    fs::create_dir(&none).expect("made");
    let tensor = Bytes(vec![1], vec![1]);
    safetensors::serialize_to_file([("model.embed", &tensor)], None, &none.join("m.safetensors"))
        .expect("written");
    let said = refusal(rewrite(&job(Direction::Apply, &none, &root.path().join("out"))), root.path());
    assert_eq!(said, "none: no tensor has the name of an expert; describe their names with --names");
}

/// Short names, globs, regular expressions, other files, metadata: whoever names one expert means the one that was there.
#[test]
fn settings_that_may_name_an_expert() {
    let name = "model.layers.1.mlp.experts.3.up_proj";
    for (file, text) in [
        ("adapter_config.json", json!({"alpha_pattern": {"layers.1.mlp.experts.3.up_proj": 32}}).to_string()),
        ("hf_quant_config.json", json!({"exclude_modules": ["model.layers.1.mlp.experts.2*"]}).to_string()),
        (
            "quantize_config.json",
            json!({"dynamic": {"-:.*layers\\.1\\.mlp\\.experts\\.2\\..*": {}}}).to_string(),
        ),
        ("config.json", json!({"ignore": ["model.layers.1.mlp.experts.[0-2].up_proj"]}).to_string()),
        ("other.json", json!([{"a": [name]}]).to_string()),
        ("recipe.yaml", format!("ignore: [lm_head, {name}]\n")),
        ("recipe", format!("skip {name}")),
        // Behind the full name of one that stays, in a layer without a map.
        ("first.yaml", format!("ignore: [model.layers.7.mlp.experts.0.up_proj, {name}]\n")),
        ("either.txt", format!("model.layers.7.mlp.experts.0.up_proj|{name}")),
    ] {
        let said = refused(&|folder| fs::write(folder.join(file), &text).expect("written"));
        assert!(said.starts_with(&format!("canonical/{file}: ")), "{said}");
        assert!(said.contains("experts") && said.contains("a setting of one expert"), "{said}");
    }
    let said = refused(&|folder| {
        let note = [("note".to_owned(), json!({name: 1}).to_string())].into();
        let tensor = Bytes(vec![1], vec![1]);
        safetensors::serialize_to_file([("head", &tensor)], Some(note), &folder.join("x.safetensors"))
            .expect("written");
    });
    assert!(said.starts_with(&format!("canonical/x.safetensors: {name}: a setting")), "{said}");
    let said = refused(&|folder| {
        let path = folder.join("model.safetensors.index.json");
        let text = fs::read_to_string(&path).expect("an index");
        fs::write(&path, text.replacen("\"total_size\":0", &format!("\"of\":\"{name}\""), 1))
            .expect("written");
    });
    assert!(said.contains("index.json: model.layers.1.mlp.experts.3.up_proj: a setting"), "{said}");
    // Pages and code set nothing; counts and settings of all experts name none.
    let root = folder();
    let [source, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    fs::write(source.join("README.md"), name).expect("written");
    fs::write(source.join("modeling.py"), "self.experts[0]").expect("written");
    // Multi-token prediction stays, and so do layers without a map.
    let stay = "ignore: [mtp.layers.0.mlp.experts.3.up_proj, model.layers.7.mlp.experts.0.up_proj]\n";
    fs::write(source.join("stay.yaml"), stay).expect("written");
    fs::write(source.join("recipe.yaml"), "num_experts: 4\nignore: ['re:.*experts\\.[0-9]+\\.up_proj']\n")
        .expect("written");
    fs::write(source.join("config.json"), json!({"num_experts": 4, "num_experts_per_tok": 2}).to_string())
        .expect("written");
    rewrite(&job(Direction::Apply, &source, &slots)).expect("rewritten");
}

/// Other spellings: each refused by its own words, whatever the file.
#[test]
fn settings_that_number_experts_in_other_spellings() {
    let quantised = |entry: &str| format!(r#"{{"num_experts": 4, "quantization_config": {{{entry}}}}}"#);
    for (file, text, named) in [
        ("config.json", quantised(r#""ignore": ["experts-1"]"#), "experts-1"),
        ("config.json", quantised(r#""skip_experts": [3]"#), "skip_experts: [3]"),
        ("config.json", quantised(r#""experts_bits": [4, 8, 4, 4]"#), "experts_bits: [4,8,4,4]"),
        ("config.json", quantised(r#""experts_bits": {"3": 8}"#), r#"experts_bits: {"3":8}"#),
        ("config.json", quantised(r#""rules": [{"expert": 3, "bits": 8}]"#), "expert: 3"),
        ("quantize_config.json", r#"{"skip_experts": "3"}"#.into(), r#"skip_experts: "3""#),
        ("quant.json", r#"{"ignore": ["re:.*expert3\\..*"]}"#.into(), "re:.*expert3"),
        ("recipe.yaml", "quant:\n  skip_experts: [3]\n".into(), "skip_experts: [3]"),
        ("recipe.yaml", "quant:\n  skip_experts:\n  - 3\n".into(), "skip_experts:"),
        ("recipe.yaml", "experts_bits:\n  3: 8\n".into(), "experts_bits:"),
        ("recipe.toml", "experts_bits = [4, 8, 4, 4]\n".into(), "experts_bits = [4, 8, 4, 4]"),
        // Under a heading, an entry a line.
        ("recipe.toml", "[per_expert_bits]\n0 = 4\n1 = 8\n2 = 4\n3 = 8\n".into(), "per_expert_bits: {"),
        (
            "recipe.toml",
            "[quant.expert_dtype]\ne0 = 'a'\ne1 = 'b'\ne2 = 'a'\ne3 = 'b'\n".into(),
            "expert_dtype: {",
        ),
        ("recipe.toml", "[quant.experts_bits]\n3 = 8\n".into(), "experts_bits: {"),
        (
            "recipe.toml",
            "[[expert_bits]]\n[[expert_bits]]\n[[expert_bits]]\n[[expert_bits]]\n".into(),
            "expert_bits: [",
        ),
        ("quant", "[experts]\nbits.3 = 8\n".into(), "experts: {"),
    ] {
        let said = refused(&|folder| fs::write(folder.join(file), &text).expect("written"));
        let start = format!("canonical/{file}: ");
        assert!(said.starts_with(&start) && said[start.len()..].starts_with(named), "{text}: {said}");
        assert!(said.contains(": a setting of one expert"), "{said}");
    }
    let said = refused(&|folder| {
        let note = [("quant".to_owned(), json!({"skip_experts": [3]}).to_string())].into();
        let tensor = Bytes(vec![1], vec![1]);
        safetensors::serialize_to_file([("head", &tensor)], Some(note), &folder.join("x.safetensors"))
            .expect("written");
    });
    assert!(said.starts_with("canonical/x.safetensors: skip_experts: [3]: a setting"), "{said}");
    // Words of a tokenizer have numbers, and settings of all experts none.
    let root = folder();
    let [source, slots] = ["canonical", "slots"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    for (file, text) in [
        ("vocab.json", r#"{"expert": 6335, "experts": 8096}"#),
        ("tokenizer.json", r#"{"model": {"vocab": {"expert": 6335}, "merges": [["exp", "ert"]]}}"#),
        ("config.json", &quantised(r#""experts_bits": 4, "experts": {"weight_block_size": [128, 128]}"#)),
        ("recipe.yaml", "experts_bits: 4\nnum_experts: 4\nlayers: [3]\n"),
        // Four words about all four experts.
        ("recipe.toml", "[experts]\nbits = 4\ngroup = 128\nsym = true\ndtype = 'int4'\n"),
        ("quant.json", r#"{"experts": {"bits": 4, "group": 128, "sym": true, "dtype": "int4"}}"#),
    ] {
        fs::write(source.join(file), text).expect("written");
    }
    rewrite(&job(Direction::Apply, &source, &slots)).expect("rewritten");
}

/// Own patterns are kept beside the map: the way back would leave those experts in their slots.
#[test]
fn names_are_kept_for_the_way_back() {
    let root = folder();
    let [source, slots, back] = ["canonical", "slots", "back"].map(|name| root.path().join(name));
    write(&source, Style::Qwen, 16);
    let own: Vec<(String, Bytes)> = (1..3)
        .flat_map(|layer| (0..EXPERTS).map(move |expert| (layer, expert)))
        .map(|(layer, expert)| {
            (format!("model.layers.{layer}.moe.{expert}.extra"), Bytes(vec![1], vec![expert as u8]))
        })
        .collect();
    add(&source, &own);
    let pattern = |name: &str| Names {
        pattern: vec![NamePattern { name: name.into(), stacked: false }],
        ..Names::default()
    };
    let names = pattern("layers.{layer}.moe.{expert}.{tensor}");
    rewrite(&Rewrite { names: names.clone(), ..job(Direction::Apply, &source, &slots) }).expect("rewritten");
    fs::remove_file(slots.join("routepack_checksums.json")).expect("deleted");
    let other = Rewrite {
        names: pattern("blocks.{layer}.moe.{expert}"),
        ..job(Direction::Canonicalise, &slots, &back)
    };
    let said = refusal(rewrite(&other), root.path());
    assert_eq!(
        said,
        format!("slots/{MAP_FILE}: names: experts were put into slots by other names than those given")
    );
    rewrite(&job(Direction::Canonicalise, &slots, &back)).expect("rewritten");
    assert_eq!(read(&back), read(&source));
    fs::remove_dir_all(&back).expect("deleted");
    rewrite(&Rewrite { names, ..job(Direction::Canonicalise, &slots, &back) }).expect("the same names");
    // The same way again, by the map as it was kept.
    let again = root.path().join("again");
    let kept = fs::read(slots.join(MAP_FILE)).expect("a map");
    let map = CheckpointMap::parse(&kept, MAP_FILE).expect("well formed");
    rewrite(&Rewrite { map: Some(map.clone()), ..job(Direction::Apply, &back, &again) }).expect("rewritten");
    assert_eq!(read(&again), read(&slots));
    // Prefixes alone are given: the patterns kept are still in force.
    let prefix = |names: Names| Names { prefix: vec!["model.".into()], ..names };
    fs::remove_dir_all(&again).expect("deleted");
    let only_prefix = prefix(Names::default());
    let anew = |names: &Names| Rewrite {
        map: Some(map.clone()),
        names: names.clone(),
        ..job(Direction::Apply, &back, &again)
    };
    let kept = |folder: &Path| {
        let text = fs::read(folder.join(MAP_FILE)).expect("a map");
        CheckpointMap::parse(&text, MAP_FILE).expect("well formed").names
    };
    rewrite(&anew(&only_prefix)).expect("rewritten");
    assert_eq!(read(&again), read(&slots));
    assert_eq!(kept(&again), Some(prefix(pattern("layers.{layer}.moe.{expert}.{tensor}"))));
    // Other patterns take the place of those kept, and are kept themselves.
    fs::remove_dir_all(&again).expect("deleted");
    let others = pattern("blocks.{layer}.moe.{expert}.{tensor}");
    // Unless the checkpoint knows better what are experts.
    let said = refusal(rewrite(&anew(&others)), root.path());
    assert!(said.contains("model.layers.1.moe.{expert}.extra, logical expert 0: sha256 nothing"), "{said}");
    fs::remove_file(back.join("routepack_checksums.json")).expect("deleted");
    rewrite(&anew(&others)).expect("rewritten");
    assert_eq!(kept(&again), Some(others));
    let name = "model.layers.1.moe.0.extra";
    assert_eq!(read(&again)[name], read(&back)[name], "no expert's any more");
    assert_ne!(read(&slots)[name], read(&back)[name]);
}
