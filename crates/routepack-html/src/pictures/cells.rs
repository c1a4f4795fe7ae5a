//! Cost of cells and rows: which slot paces each row, and what experts add to it.

use super::{Drawn, titles};
use crate::bars::{Bars, bars};
use crate::heat_map::{HeatMap, heat_map};
use crate::{NumberTable, Picture};

/// Attention cost of every cell, the slowest of each row and shard framed.
pub(super) fn cell_costs(drawn: &Drawn<'_>) -> Picture {
    let (instance, layout) = (drawn.step.instance, drawn.step.layout);
    let (topology, slots) = (instance.topology(), layout.num_slots());
    let costs: Vec<Vec<u64>> = layout
        .cells()
        .chunks(slots)
        .map(|row| {
            let cost = |cell: &Vec<u32>| -> u64 {
                cell.iter().flat_map(|&sample| instance.charges().attention(sample as usize)).sum()
            };
            row.iter().map(cost).collect()
        })
        .collect();
    let mut marked = Vec::new();
    for (row, costs) in costs.iter().enumerate() {
        for group in 0..topology.num_groups() {
            let slots = topology.group_slots(group);
            if slots.len() == 1 {
                continue; // Its cell waits for none and none waits for it.
            }
            let most = slots.clone().map(|slot| costs[slot]).max();
            marked.extend(slots.filter(|&slot| Some(costs[slot]) == most).map(|slot| (row, slot)));
        }
    }
    let title = "Attention cost of every micro-batch";
    let values: Vec<Vec<f64>> = in_unit(&costs, drawn.unit);
    let words = |row: usize, slot: usize| drawn.cost(costs[row][slot]);
    let drawing = heat_map(&HeatMap {
        title,
        row: "row",
        column: "DP slot",
        values: &values,
        range: None,
        marked: &marked,
        words: &words,
    });
    let waits = if marked.is_empty() {
        "A shard has one slot: no micro-batch waits for another of its row."
    } else {
        "All slots of a shard wait for the framed one: the more even a row's colour, the less they wait."
    };
    let header = std::iter::once("row".to_owned()).chain((0..slots).map(|slot| format!("slot {slot}")));
    let rows = costs.iter().enumerate().map(|(row, costs)| {
        std::iter::once(row.to_string()).chain(costs.iter().map(|&cost| drawn.cost(cost))).collect()
    });
    Picture {
        id: drawn.id("cells"),
        title: title.to_owned(),
        caption: format!(
            "{waits} One scale of colour for all rows. Unit of the paper: cost over scale and capacity."
        ),
        drawing,
        numbers: NumberTable { header: header.collect(), rows: rows.collect() },
    }
}

/// Cost of every row on every shard: slowest attention and expert peaks.
pub(super) fn row_costs(drawn: &Drawn<'_>) -> Picture {
    let evaluation = &drawn.evaluation;
    let blocks: Vec<(u64, u64)> =
        evaluation.attention.iter().copied().zip(evaluation.expert.iter().copied()).collect();
    let values: Vec<Vec<f64>> =
        blocks.iter().map(|&(attention, expert)| drawn.values(attention, expert)).collect();
    let title = "Cost of every row";
    let name = |block: usize| {
        let (row, shard) = (block / evaluation.num_shards, block % evaluation.num_shards);
        if evaluation.num_shards == 1 { format!("row {row}") } else { format!("row {row}, shard {shard}") }
    };
    let words = |block: usize| {
        let (attention, expert) = blocks[block];
        format!("{}: {}", name(block), drawn.words(attention, expert))
    };
    let blocks_label = format!("row × {} shards: row 0's shards, row 1's, and so on", evaluation.num_shards);
    let drawing = bars(&Bars {
        title,
        x_label: if evaluation.num_shards == 1 { "row" } else { &blocks_label },
        y_label: "cost (unit of the paper)",
        places: (-0.5, 1.0),
        parts: drawn.parts(),
        values: &values,
        limit: None,
        words: &words,
    });
    let rows = blocks.iter().enumerate().map(|(block, &(attention, expert))| {
        std::iter::once(name(block)).chain(drawn.texts(attention, expert)).collect()
    });
    Picture {
        id: drawn.id("rows"),
        title: title.to_owned(),
        caption: format!(
            "What a row takes on a shard: attention of its slowest slot plus, layer by layer, the busiest expert rank.{}",
            drawn.without_routes()
        ),
        drawing,
        numbers: NumberTable {
            header: titles(["row", "attention", "experts", "together"]),
            rows: rows.collect(),
        },
    }
}

fn in_unit(costs: &[Vec<u64>], unit: f64) -> Vec<Vec<f64>> {
    costs.iter().map(|row| row.iter().map(|&cost| cost as f64 / unit).collect()).collect()
}
