//! Cost of cells and rows: which slot paces each row, and what experts add to it.

use super::{Drawn, titles};
use crate::bars::{Bars, bars};
use crate::frame::round_up;
use crate::heat_map::{HeatMap, heat_map, rows_a_line, shared_in_words};
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
    let shared = rows_a_line(layout.num_rows(), slots) > 1;
    let title = "Attention cost of every micro-batch";
    let values: Vec<Vec<f64>> = in_unit(&costs, drawn.unit);
    let words = |row: usize, slot: usize| drawn.cost(costs[row][slot]);
    let (drawing, numbers) = heat_map(&HeatMap {
        title,
        row: "row",
        column: "DP slot",
        names: ["row", "slot"],
        unit: "cost (unit of the paper)",
        values: &values,
        range: None,
        marked: &marked,
        words: &words,
        number: &words,
    });
    let waits = if marked.is_empty() {
        "A shard has one slot: no micro-batch waits for another of its row."
    } else if shared {
        "All slots of a shard wait for the costliest in every row, too many rows to frame it in each."
    } else {
        "All slots of a shard wait for the framed one: the more even a row's colour, the less they wait."
    };
    Picture {
        id: drawn.id("cells"),
        title: title.to_owned(),
        caption: format!(
            "{waits} One scale of colour for all rows. Unit of the paper: cost over scale and capacity.{}",
            shared_in_words(&values, "row", "slot")
        ),
        drawing,
        numbers,
    }
}

/// Most bars of a drawing: more are narrower than can be seen.
const BARS: usize = 256;

/// Cost of every row on every shard: slowest attention and expert peaks; of too many, the costliest of neighbours.
pub(super) fn row_costs(drawn: &Drawn<'_>) -> Picture {
    let (evaluation, rows) = (&drawn.evaluation, drawn.step.layout.num_rows());
    let shards = evaluation.num_shards;
    let cost = |block: &usize| evaluation.attention[*block] + evaluation.expert[*block];
    // Blocks `row · shards + shard` that share a bar, which shows the costliest.
    let (every, shared) = if rows * shards <= BARS {
        (1, 1)
    } else {
        let every = round_up(rows.div_ceil(BARS) as u64) as usize;
        (every, every * shards)
    };
    let blocks: Vec<usize> = (0..rows * shards)
        .step_by(shared)
        .map(|first| {
            let blocks = first..(first + shared).min(rows * shards);
            blocks.rev().max_by_key(cost).expect("a bar has blocks")
        })
        .collect();
    let parts = |block: usize| (evaluation.attention[block], evaluation.expert[block]);
    let of_block = |&block: &usize| {
        let (attention, expert) = parts(block);
        drawn.values(attention, expert)
    };
    let values: Vec<Vec<f64>> = blocks.iter().map(of_block).collect();
    let title = "Cost of every row";
    let name = |block: usize| {
        let (row, shard) = (block / shards, block % shards);
        if shards == 1 { format!("row {row}") } else { format!("row {row}, shard {shard}") }
    };
    let words = |bar: usize| {
        let (attention, expert) = parts(blocks[bar]);
        format!("{}: {}", name(blocks[bar]), drawn.words(attention, expert))
    };
    let (x_label, narrowed) = match (shared, every, shards) {
        (1, _, 1) => ("row".to_owned(), String::new()),
        (1, ..) => (format!("row, its {shards} shards side by side"), String::new()),
        (_, 1, _) => {
            ("row, its costliest shard".to_owned(), " A bar shows the costliest shard of a row.".to_owned())
        }
        _ => {
            let of = if shards == 1 {
                format!("{every} rows")
            } else {
                format!("{every} rows and their {shards} shards")
            };
            (format!("row, the costliest of every {every}"), format!(" A bar shows the costliest of {of}."))
        }
    };
    let width = shared as f64 / shards as f64;
    let drawing = bars(&Bars {
        title,
        x_label: &x_label,
        y_label: "cost (unit of the paper)",
        places: (-0.5, width),
        whole: true,
        parts: drawn.parts(),
        values: &values,
        limit: None,
        words: &words,
    });
    let rows = blocks.iter().map(|&block| {
        let (attention, expert) = parts(block);
        std::iter::once(name(block)).chain(drawn.texts(attention, expert)).collect()
    });
    Picture {
        id: drawn.id("rows"),
        title: title.to_owned(),
        caption: format!(
            "What a row takes on a shard: attention of its slowest slot plus, layer by layer, the busiest expert rank.{narrowed}{}",
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
