//! Accumulated cost of every EDP shard beside what no layout can beat.

use super::{Drawn, titles};
use crate::bars::{Bars, bars};
use crate::{NumberTable, Picture};

/// U of every shard by its parts, and the bound under the plan's placement.
pub(super) fn shard_costs(drawn: &Drawn<'_>) -> Picture {
    let evaluation = &drawn.evaluation;
    let shards = evaluation.num_shards;
    let sum = |costs: &[u64], shard: usize| costs.iter().skip(shard).step_by(shards).sum::<u64>();
    let parts: Vec<(u64, u64)> = (0..shards)
        .map(|shard| (sum(&evaluation.attention, shard), sum(&evaluation.expert, shard)))
        .collect();
    let values: Vec<Vec<f64>> =
        parts.iter().map(|&(attention, expert)| drawn.values(attention, expert)).collect();
    let bound = drawn.step.figures.bounds.given_placement.worst_shard;
    let title = "Accumulated cost of every EDP shard";
    let words = |shard: usize| {
        let (attention, expert) = parts[shard];
        format!("shard {shard}: {}", drawn.words(attention, expert))
    };
    let drawing = bars(&Bars {
        title,
        x_label: "EDP shard",
        y_label: "cost (unit of the paper)",
        places: (-0.5, 1.0),
        whole: true,
        parts: drawn.parts(),
        values: &values,
        limit: Some((
            bound as f64 / drawn.unit,
            drawn.of_placement("lower bound", "lower bound under this placement"),
        )),
        words: &words,
    });
    let rows = parts.iter().enumerate().map(|(shard, &(attention, expert))| {
        std::iter::once(shard.to_string()).chain(drawn.texts(attention, expert)).collect()
    });
    let bounds = [
        (drawn.of_placement("bound with these rows", "bound under this placement"), bound),
        (
            drawn.of_placement("bound", "bound for every placement"),
            drawn.step.figures.bounds.placement_free.worst_shard,
        ),
    ];
    let bounds =
        bounds.map(|(name, bound)| vec![name.to_owned(), String::new(), String::new(), drawn.cost(bound)]);
    Picture {
        id: drawn.id("shards"),
        title: title.to_owned(),
        caption: format!(
            "The slowest shard ends the step. No layout with this many rows brings it below the dashed line.{}",
            drawn.without_routes()
        ),
        drawing,
        numbers: NumberTable {
            header: titles(["shard", "attention", "experts", "together"]),
            rows: rows.chain(bounds).collect(),
        },
    }
}
