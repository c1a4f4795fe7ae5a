//! Laws of the shipped windows: exact sums, frozen draws, calibration, independence of the number of threads.

use std::sync::Arc;

use routepack_generate::{
    BinsRecipe, GenerateError, Generated, Preset, WindowRecipe, bins, describe, describe_ranks, window,
};
use routepack_problem::{Batch, SampleIds, prepare};
use serde_json::{Value, json};

fn made(preset: Preset, seed: u64) -> Generated {
    window(&preset.recipe(), seed).expect("presets are valid")
}

fn tiny_with(changes: &Value) -> Result<WindowRecipe, GenerateError> {
    Preset::Tiny.recipe().amended(changes)
}

/// FNV-1a over every array of a batch, each with its length in front.
fn digest(batch: &Batch) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325_u64;
    let mut take = |word: u64| {
        for byte in word.to_le_bytes() {
            hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    let some = |values: &Option<Vec<u32>>| values.clone().unwrap_or_default();
    let signed = |values: &Option<Vec<i64>>| values.clone().unwrap_or_default();
    let counts = batch.expert_counts.as_ref().map_or_else(Vec::new, |counts| counts.by_sample().concat());
    for values in [&batch.lengths, &counts, &some(&batch.routed_rows), &some(&batch.loss_tokens)] {
        take(values.len() as u64);
        for &value in values {
            take(u64::from(value));
        }
    }
    let ids = match &batch.sample_ids {
        Some(SampleIds::Integers(ids)) => ids.clone(),
        _ => Vec::new(),
    };
    for values in [&ids, &signed(&batch.prompt_ids), &signed(&batch.step)] {
        take(values.len() as u64);
        for &value in values {
            take(value as u64);
        }
    }
    hash
}

/// Loads `[layers · experts]` of the samples for which `choose` holds, over their sum.
fn shares(batch: &Batch, choose: impl Fn(usize) -> bool) -> Vec<f64> {
    let counts = batch.expert_counts.as_ref().expect("counts");
    let size = counts.layers() * counts.experts();
    let mut shares = vec![0.0; size];
    for sample in (0..batch.num_samples()).filter(|&sample| choose(sample)) {
        for (share, &count) in shares.iter_mut().zip(counts.of_sample(sample)) {
            *share += f64::from(count);
        }
    }
    let total: f64 = shares.iter().sum();
    shares.iter().map(|share| share / total).collect()
}

/// Half the sum of absolute differences of two distributions: 0 for equal ones, 1 for disjoint ones.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).abs()).sum::<f64>() / 2.0
}

#[test]
fn frozen() {
    for (preset, expected) in [
        (Preset::Tiny, 0x855d_2d8e_fb8a_6d42_u64),
        (Preset::Flash, 0x8517_92d5_de2e_35b5),
        (Preset::LongContext, 0xc40b_7605_338e_59a7),
        (Preset::Mixed, 0x4715_dad3_5848_d745),
        (Preset::KnifeEdge, 0x8dea_1c9a_a1f3_1fe4),
        (Preset::Single, 0x7786_89f0_0a28_f485),
    ] {
        let found = digest(&made(preset, 1).batch);
        assert_eq!(found, expected, "{preset}: {found:#x}");
    }
}

#[test]
fn the_number_of_threads_does_not_matter() {
    let recipe = tiny_with(&json!({"prompts": 24, "steps": 2})).expect("fields exist");
    let expected = window(&recipe, 5).expect("valid");
    for threads in [1, 2, 4] {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
        assert_eq!(pool.install(|| window(&recipe, 5)).expect("valid"), expected);
    }
    assert_ne!(window(&recipe, 6).expect("valid"), expected);
}

/// `window` checks Σ = `top_k` · rows and the bounds; here what a planner asks beyond that, and the promised shape.
#[test]
fn presets_are_ready_to_plan() {
    for (preset, samples, slots, ranks, shards, rows) in [
        (Preset::Tiny, 512, 8, 8, 1, 4..=8),
        (Preset::Flash, 512, 16, 8, 2, 4..=8),
        (Preset::LongContext, 64, 1, 32, 1, 8..=20),
        (Preset::Mixed, 512, 16, 8, 2, 4..=8),
        (Preset::Single, 24, 1, 4, 1, 3..=9),
    ] {
        let seeds = if preset == Preset::Flash { 1 } else { 4 };
        for seed in 0..seeds {
            let Generated { batch, setting } = made(preset, seed);
            assert_eq!(batch.num_samples(), samples, "{preset}");
            let prepared = prepare(Arc::new(batch), &setting).expect("ready");
            let [instance] = &prepared.instances[..] else { panic!("{preset} has one step") };
            let topology = instance.topology();
            assert_eq!(
                (topology.num_slots(), topology.num_ranks(), topology.num_shards()),
                (slots, ranks, shards),
                "{preset}"
            );
            let padded: u64 = (0..samples).map(|sample| u64::from(instance.padded_length(sample))).sum();
            let bound = padded.div_ceil(u64::from(instance.cell_capacity()) * slots as u64);
            assert!(rows.contains(&bound), "{preset}: {bound} rows by volume");
            assert!(samples as u64 >= bound * slots as u64);
        }
    }
}

#[test]
fn loads_vary_as_real_ones_do() {
    // Under the identity placement the paper's ranks vary by about 0.4, OLMoE's on 8 ranks by 0.07 to 0.52.
    for (preset, experts, ranks) in [
        (Preset::Tiny, 0.7..1.3, 0.3..0.5),
        (Preset::LongContext, 0.7..1.1, 0.2..0.4),
        (Preset::Mixed, 0.4..0.8, 0.08..0.2),
        (Preset::KnifeEdge, 0.4..1.0, 0.1..0.6),
    ] {
        for seed in 0..3 {
            let Generated { batch, setting } = made(preset, seed);
            let expert_cv = describe(&batch).experts.expect("counts").cv;
            let rank_cv = describe_ranks(&batch, setting.topology.ep as usize).expect("counts").cv;
            assert!(experts.contains(&expert_cv), "{preset}: {expert_cv}");
            assert!(ranks.contains(&rank_cv), "{preset}: {rank_cv}");
        }
    }
}

#[test]
fn the_long_context_window_has_its_spike() {
    let statistics = describe(&made(Preset::LongContext, 0).batch);
    assert_eq!(statistics.max_length, 32_768);
    assert!((2..=16).contains(&statistics.at_max), "{}", statistics.at_max);
}

/// Volume bound, slack and first-fit decreasing from their definitions, apart from the generator's own.
#[test]
fn knife_edge_windows_need_a_row_more_with_first_fit() {
    for (seed, multiple) in [(0, 1), (1, 1), (2, 1), (3, 1), (4, 64)] {
        let recipe = Preset::KnifeEdge
            .recipe()
            .amended(&json!({"setting": {"packing": {"sample_multiple": multiple}}}))
            .expect("fields exist");
        let Generated { batch, setting } = window(&recipe, seed).expect("found");
        let capacity = setting.packing.capacity;
        let mut padded: Vec<u32> =
            batch.lengths.iter().map(|length| length.next_multiple_of(multiple)).collect();
        let volume: u32 = padded.iter().sum();
        assert_eq!(volume.div_ceil(capacity), 8 * 5);
        assert!(f64::from(volume) >= 0.98 * f64::from(8 * 5 * capacity));
        padded.sort_unstable();
        let mut free: Vec<u32> = Vec::new();
        while let Some(length) = padded.pop() {
            match free.iter().position(|&free| free >= length) {
                Some(cell) => free[cell] -= length,
                None => free.push(capacity - length),
            }
        }
        assert_eq!(free.len().div_ceil(8), 6, "seed {seed}: {} cells", free.len());
    }
}

#[test]
fn samples_of_a_prompt_belong_together() {
    let Generated { batch, .. } = made(Preset::Tiny, 3);
    let (lengths, loss) = (&batch.lengths, batch.loss_tokens.as_ref().expect("loss tokens"));
    let (prompts, rows) =
        (batch.prompt_ids.as_ref().expect("prompts"), batch.routed_rows.as_ref().expect("rows"));
    for sample in 0..512 {
        let first = sample / 8 * 8;
        assert_eq!(prompts[sample], sample as i64 / 8);
        assert_eq!(lengths[sample] - loss[sample], lengths[first] - loss[first], "one prompt, one length");
        assert_eq!(rows[sample], lengths[sample] - 1);
    }
    assert_eq!(batch.id_text(17), "2001");
    assert_eq!(batch.step, None);
}

#[test]
fn popularity_follows_prompt_domain_and_step() {
    let changes = json!({"prompts": 32, "domains": 4, "steps": 2, "lengths": {"truncated": 0.0}});
    let Generated { batch, .. } = window(&tiny_with(&changes).expect("fields exist"), 9).expect("valid");
    let (steps, prompts) = (batch.step.as_ref().expect("steps"), batch.prompt_ids.as_ref().expect("prompts"));
    assert_eq!(batch.num_samples(), 512);
    assert!(steps.is_sorted() && steps[255] == 0 && steps[256] == 1);
    assert!(prompts.is_sorted() && prompts[511] == 63);
    let of = |step: i64, choose: &dyn Fn(i64) -> bool| {
        shares(&batch, |sample| steps[sample] == step && choose(prompts[sample]))
    };
    // Halves of the samples of one prompt are nearer than prompts of a domain, and these nearer than domains.
    let half = |parity: usize| shares(&batch, |sample| prompts[sample] == 0 && sample % 2 == parity);
    let within_prompt = distance(&half(0), &half(1));
    let within_domain = distance(&of(0, &|prompt| prompt == 0), &of(0, &|prompt| prompt == 4));
    let between_domains = distance(&of(0, &|prompt| prompt == 0), &of(0, &|prompt| prompt == 1));
    assert!(1.2 * within_prompt < within_domain, "{within_prompt} {within_domain}");
    assert!(1.5 * within_domain < between_domains, "{within_domain} {between_domains}");
    // The next step's loads are near, but more drift moves them further.
    let near = distance(&of(0, &|_| true), &of(1, &|_| true));
    let drifted =
        tiny_with(&changes).and_then(|recipe| recipe.amended(&json!({"routing": {"sd_step": 0.5}})));
    let other = window(&drifted.expect("fields exist"), 9).expect("valid").batch;
    let far = distance(&shares(&other, |sample| sample < 256), &shares(&other, |sample| sample >= 256));
    assert!(near < 0.08 && 2.0 * near < far, "{near} {far}");
}

#[test]
fn recipes_change_field_by_field_and_round_trip() {
    for preset in Preset::ALL {
        let recipe = preset.recipe();
        let text = serde_json::to_string(&recipe).expect("text");
        assert_eq!(serde_json::from_str::<WindowRecipe>(&text).expect("reads back"), recipe, "{preset}");
        assert_eq!(preset.name().parse::<Preset>().expect("known"), preset);
        assert_eq!(recipe.amended(&json!({})).expect("nothing to do"), recipe);
    }
    let lengths_only =
        tiny_with(&json!({"routing": null, "lengths": {"response_median": 100}})).expect("valid");
    assert_eq!(lengths_only.routing, None);
    let batch = window(&lengths_only, 1).expect("valid").batch;
    assert_eq!((batch.expert_counts, batch.routed_rows), (None, None));
    assert!(batch.lengths.iter().sum::<u32>() < 512 * 400);
    let again = tiny_with(&json!({"routing": {"layers": 1}, "knife_edge": {"rows": 3}})).expect("valid");
    assert_eq!(again.knife_edge.map(|edge| (edge.rows, edge.max_slack)), Some((3, 0.02)));
    assert_eq!(again.routing.map(|routing| (routing.layers, routing.experts)), Some((1, 128)));
    assert!("colossal".parse::<Preset>().expect_err("unknown").to_string().contains("long-context"));
}

#[test]
fn wrong_fields_are_refused_by_name() {
    for (changes, word) in [
        (json!({"prompts": 0}), "prompts"),
        (json!({"group": 1001}), "group"),
        (json!({"unrouted_tokens": 2}), "unrouted_tokens"),
        (json!({"lengths": {"max_total": 8193}}), "lengths.max_total"),
        (json!({"lengths": {"response_sigma": -0.1}}), "lengths.response_sigma"),
        (json!({"lengths": {"truncated": 1.5}}), "lengths.truncated"),
        (json!({"lengths": {"min_response": 8192}}), "lengths.min_response"),
        (json!({"routing": {"experts": 100}}), "routing.experts"),
        (json!({"routing": {"dispersion": -1}}), "routing.dispersion"),
        (json!({"routing": {"layers": 4096, "experts": 4096}}), "samples·layers·experts"),
        (json!({"routing": {"layers": u32::MAX}}), "routing.layers"),
        (json!({"routing": {"experts": u32::MAX}}), "routing.experts"),
        (json!({"domains": 4096, "routing": {"layers": 4096}}), "(domains + 1)·layers·experts"),
        (json!({"prompts": 1 << 20, "group": 1000, "routing": null}), "prompts·group·steps"),
        (json!({"steps": 1 << 16, "routing": null}), "prompts·group·steps"),
        (json!({"knife_edge": {"rows": 1 << 16}}), "slots·knife_edge.rows"),
        (json!({"setting": {"routing": {"top_k": 129}}}), "setting.routing.top_k"),
        (
            json!({"lengths": {"max_total": 1 << 29}, "routing": {"experts": 1024},
                "setting": {"packing": {"capacity": 1 << 30}, "routing": {"top_k": 1000}}}),
            "lengths.max_total",
        ),
        (json!({"setting": {"packing": {"capacity": 0}}}), "packing.capacity"),
        (json!({"setting": {"topology": {"dp": 3}}}), "topology"),
        (json!({"setting": {"topology": {"tp": 16, "etp": 1}}}), "setting.routing.attribution"),
        (json!({"knife_edge": {"max_slack": 0}}), "knife_edge.max_slack"),
    ] {
        let error = window(&tiny_with(&changes).expect("fields exist"), 1).expect_err(word).to_string();
        assert!(error.starts_with(word), "{error}");
    }
    for (changes, word) in [
        (json!({"colour": 1}), "colour"),
        (json!({"routing": {"expert": 64}}), "expert"),
        (json!({"prompts": -1}), "-1"),
        (json!({"prompts": "many"}), "many"),
    ] {
        let error = tiny_with(&changes).expect_err(word).to_string();
        assert!(error.contains(word), "{error}");
    }
    for (name, changes, word) in [
        ("scholl-1", json!({"items": u32::MAX}), "items"),
        ("scholl-1", json!({"capacity": u32::MAX}), "capacity"),
        ("ai", json!({"bins": u32::MAX}), "bins"),
        ("ani", json!({"layers": u32::MAX}), "layers"),
        ("rl", json!({"items": u32::MAX}), "items"),
        ("rl", json!({"group": u32::MAX}), "group"),
        ("knife-edge", json!({"slots": u32::MAX}), "slots"),
        ("knife-edge", json!({"edge": {"rows": 1 << 16}}), "slots·knife_edge.rows"),
        (
            "knife-edge",
            json!({"capacity": 1 << 30, "lengths": {"prompt_median": 1, "response_median": 1, "min_response": 1, "max_total": 2}}),
            "capacity",
        ),
    ] {
        let recipe = BinsRecipe::named(name).and_then(|recipe| recipe.amended(&changes));
        let error = bins(&recipe.expect("fields exist"), 1).expect_err(word).to_string();
        assert!(error.starts_with(word), "{name}: {error}");
    }
    let spread = json!({"prompts": 2, "setting": {
        "topology": {"tp": 16, "etp": 1}, "routing": {"attribution": "spread"}}});
    let Generated { batch, setting } = window(&tiny_with(&spread).expect("fields exist"), 1).expect("valid");
    let prepared = prepare(Arc::new(batch), &setting).expect("ready");
    assert_eq!(prepared.instances[0].topology().num_parts(), 2);
}
