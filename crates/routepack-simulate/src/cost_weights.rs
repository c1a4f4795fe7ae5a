//! A job's cost weights from a model's shapes, by counting FLOPs (DESIGN §1.3: α, β per attention kind, γ per layer).
//!
//! A kind's α counts its layers' projections and what tokens meet in common there (dense blocks, shared experts,
//! routers), its β the token pairs; γ counts one routed row of one expert. Dense work is cut over TP·CP GPUs, expert work
//! over ETP. Weights are divided so that the α of all kinds sum to 1.

use routepack_problem::{AttentionKind, CostModel, ExactDecimal, Gamma, Parallelism};

use crate::Model;

/// The cost model of a job that trains this model with cells of `capacity` tokens.
pub fn cost_weights(model: &Model, parallelism: &Parallelism, capacity: u32) -> CostModel {
    let layers = || 0..model.num_layers();
    let total: u128 = layers().map(|layer| 2 * u128::from(model.common_parameters(layer))).sum();
    let kinds = model.attention.iter().filter_map(|kind| {
        let of_kind = || layers().filter(|&layer| model.attention_of(layer).name == kind.name);
        let linear: u128 = of_kind().map(|layer| 2 * u128::from(model.common_parameters(layer))).sum();
        let square = u128::from(kind.square_flops());
        let squares = of_kind().count() as u128 * square * u128::from(capacity);
        (linear > 0).then(|| AttentionKind {
            name: kind.name.clone(),
            alpha: ExactDecimal::ratio(linear, total),
            beta: ExactDecimal::ratio(squares, total),
        })
    });
    let row =
        2 * u128::from(model.expert_parameters()) * u128::from(parallelism.tp) * u128::from(parallelism.cp);
    let gamma = ExactDecimal::ratio(row, total * u128::from(parallelism.etp()));
    CostModel { kinds: Some(kinds.collect()), gamma: Some(Gamma::Every(gamma)), ..CostModel::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::presets::model;

    #[test]
    fn weights_are_shares_of_the_flops_a_token_meets() {
        let model = model("ling-3.0-tiny-like").expect("preset");
        let mut parallelism = Parallelism::new(8, 8);
        let weights = cost_weights(&model, &parallelism, 8192);
        let kinds = weights.kinds.expect("explicit");
        assert_eq!(kinds.iter().map(|kind| kind.name.as_str()).collect::<Vec<_>>(), ["kda", "mla"]);
        let alpha: f64 = kinds.iter().map(|kind| kind.alpha.to_f64()).sum();
        assert!((alpha - 1.0).abs() < 1e-9);
        assert!(kinds[0].beta.is_zero());
        let total: f64 = (0..24).map(|layer| 2.0 * model.common_parameters(layer) as f64).sum();
        // 16 heads of 192 + 128, 6 layers of full attention, a cell of 8192 tokens.
        assert!((kinds[1].beta.to_f64() - 16.0 * 320.0 * 6.0 * 8192.0 / total).abs() < 1e-9);
        let gamma = |weights: &CostModel| match &weights.gamma {
            Some(Gamma::Every(gamma)) => gamma.to_f64(),
            other => panic!("{other:?}"),
        };
        let plain = gamma(&cost_weights(&model, &parallelism, 8192));
        assert!((plain - 6.0 * 1536.0 * 512.0 / total).abs() < 1e-9);
        parallelism.tp = 4;
        parallelism.etp = Some(2);
        let cut = gamma(&cost_weights(&model, &parallelism, 8192));
        assert!((cut / plain - 2.0).abs() < 1e-9, "dense work is cut in 4, expert work in 2");
    }
}
