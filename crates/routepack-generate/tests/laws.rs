//! Any recipe gives a window that is consistent, or a refusal.

use proptest::prelude::*;
use routepack_generate::{Preset, window};
use serde_json::json;

proptest! {
    #[test]
    fn counts_add_up_whatever_the_recipe(
        seed: u64,
        prompts in 1u32..6,
        group in 1u32..6,
        steps in 1u32..3,
        domains in 1u32..4,
        unrouted in 0u32..2,
        median in 1.0f64..3000.0,
        sigma in 0.0f64..3.0,
        (layers, experts_per_rank, top_k) in (1u32..4, 1u32..9, 1u32..5),
        sd in 0.0f64..5.0,
        dispersion in 0.0f64..50.0,
        block in 0u32..5,
    ) {
        let experts = 4 * experts_per_rank;
        let recipe = Preset::Single.recipe().amended(&json!({
            "prompts": prompts, "group": group, "steps": steps, "domains": domains, "unrouted_tokens": unrouted,
            "lengths": {"prompt_median": median, "response_median": median, "response_sigma": sigma},
            "routing": {
                "layers": layers, "experts": experts, "block": block, "sd_block": sd / 2.0,
                "sd_base": [0.0, sd], "sd_domain": [sd, 0.0], "sd_prompt": sd, "dispersion": dispersion,
            },
            "setting": {"routing": {"top_k": top_k}},
        })).expect("fields exist");
        let made = window(&recipe, seed).expect("within the limits");
        let (batch, n) = (&made.batch, (prompts * group * steps) as usize);
        prop_assert_eq!(batch.num_samples(), n);
        let counts = batch.expert_counts.as_ref().expect("counts");
        prop_assert_eq!(counts.shape(), [n, 1, layers as usize, experts as usize]);
        for sample in 0..n {
            let rows = batch.lengths[sample] - unrouted;
            prop_assert_eq!(batch.routed_rows.as_ref().map(|all| all[sample]), Some(rows));
            for layer in 0..layers as usize {
                let counts = counts.of(sample, 0, layer);
                prop_assert_eq!(counts.iter().sum::<u32>(), top_k * rows);
                prop_assert!(counts.iter().all(|&count| count <= rows));
            }
        }
        prop_assert_eq!(&window(&recipe, seed).expect("as before"), &made);
    }
}
