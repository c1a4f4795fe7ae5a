//! Layers: the busiest rank against the mean, before and after placement.

use routepack_problem::{Placement, evaluate};

use super::Drawn;
use crate::heat_map::{HeatMap, heat_map, shared_in_words};
use crate::lines::{Lines, Scale, lines};
use crate::{NumberTable, Picture};

/// Load of every rank over the window under a placement, `[layers][ranks]`, recorded routed rows.
fn loads(drawn: &Drawn<'_>, placement: &Placement) -> Vec<Vec<u64>> {
    let layers = drawn.step.instance.expert_loads().iter().enumerate();
    layers.map(|(layer, experts)| placement.rank_loads(layer, experts)).collect()
}

fn peak(ranks: &[u64]) -> u64 {
    ranks.iter().copied().max().unwrap_or(0)
}

fn mean(ranks: &[u64]) -> f64 {
    ranks.iter().sum::<u64>() as f64 / ranks.len() as f64
}

/// Per layer: the busiest rank before and after placement, and what rows charge, over the mean rank.
pub(super) fn layer_peaks(drawn: &Drawn<'_>) -> Picture {
    let (before, after) = (loads(drawn, drawn.step.before), loads(drawn, drawn.step.placement));
    let evaluation = &drawn.evaluation;
    let layers = evaluation.num_layers;
    let charged = |layer: usize| evaluation.peaks.iter().skip(layer).step_by(layers).sum::<u64>();
    // The same rows under the placement before: what the step would have paid without moves.
    let stayed = evaluate(drawn.step.instance, drawn.step.before, drawn.step.layout).peaks;
    let stayed = |layer: usize| stayed.iter().skip(layer).step_by(layers).sum::<u64>();
    let ratio = |layer: usize, value: u64| {
        let mean = mean(&after[layer]);
        (layer as f64, if mean > 0.0 { value as f64 / mean } else { 1.0 })
    };
    let series: Vec<Vec<(f64, f64)>> = vec![
        (0..layers).map(|layer| ratio(layer, peak(&before[layer]))).collect(),
        (0..layers).map(|layer| ratio(layer, stayed(layer))).collect(),
        (0..layers).map(|layer| ratio(layer, peak(&after[layer]))).collect(),
        (0..layers).map(|layer| ratio(layer, charged(layer))).collect(),
    ];
    let title = "Busiest rank of every layer over the mean";
    let name = drawn.step.before_name;
    let (was_window, was_rows) = (format!("{name}, window"), format!("{name}, rows"));
    let drawing = lines(&Lines {
        title,
        x_label: "MoE layer",
        y_label: "load over the mean rank's",
        range: None,
        whole: true,
        names: &[&was_window, &was_rows, "plan, window", "plan, rows"],
        breaks: &[],
        series: &series,
        scale: Scale::Fitted,
    });
    let rows = (0..layers).map(|layer| {
        vec![
            layer.to_string(),
            peak(&before[layer]).to_string(),
            stayed(layer).to_string(),
            peak(&after[layer]).to_string(),
            charged(layer).to_string(),
            format!("{:.1}", mean(&after[layer])),
        ]
    });
    Picture {
        id: drawn.id("layers"),
        title: title.to_owned(),
        caption: format!(
            "1 is perfect balance. \u{201c}{name}\u{201d}: experts where the plan found them; \u{201c}window\u{201d}: all tokens of the step at once; \
             \u{201c}rows\u{201d}: the sum over rows and shards of each one's busiest rank in the plan's layout, which is what the step pays."
        ),
        drawing,
        numbers: NumberTable {
            header: ["layer, routed rows", &was_window, &was_rows, "plan, window", "plan, rows", "mean rank"]
                .map(str::to_owned)
                .to_vec(),
            rows: rows.collect(),
        },
    }
}

/// Load of every rank and layer over the layer's mean, as the plan's rows have it.
pub(super) fn rank_loads(drawn: &Drawn<'_>) -> Picture {
    let loads = &drawn.step.figures.rank_loads;
    let values: Vec<Vec<f64>> = loads
        .iter()
        .map(|ranks| {
            let mean = mean(ranks).max(f64::MIN_POSITIVE);
            ranks.iter().map(|&load| load as f64 / mean).collect()
        })
        .collect();
    let title = "Load of every EP rank over its layer's mean";
    let words = |layer: usize, rank: usize| {
        format!("{} routed rows, {:.4} of the mean", loads[layer][rank], values[layer][rank])
    };
    let number = |layer: usize, rank: usize| loads[layer][rank].to_string();
    let (drawing, numbers) = heat_map(&HeatMap {
        title,
        row: "MoE layer",
        column: "EP rank",
        names: ["layer", "rank"],
        unit: "of the layer's mean",
        values: &values,
        range: None,
        marked: &[],
        words: &words,
        number: &number,
    });
    Picture {
        id: drawn.id("ranks"),
        title: title.to_owned(),
        caption: format!(
            "Routed rows of the whole step under the plan's placement, over the mean of their own layer; one scale of colour for \
             all layers. Co-refinement lets ranks differ here where rows gain by it.{}",
            shared_in_words(&values, "layer", "rank")
        ),
        drawing,
        numbers,
    }
}
