//! Moves: which rank hands how many experts to which.

use routepack_problem::{Placement, counted};

use crate::Picture;
use crate::heat_map::{HeatMap, heat_map, shared_in_words};

/// Experts that change their rank, `[from][to]`, over all layers.
pub fn placement_moves(before: &Placement, after: &Placement) -> Picture {
    let ranks = after.num_ranks();
    let mut moves = vec![vec![0u64; ranks]; ranks];
    for layer in 0..after.num_layers() {
        for expert in 0..after.num_experts() {
            let (from, to) = (before.rank_of(layer, expert), after.rank_of(layer, expert));
            if from != to {
                moves[from][to] += 1;
            }
        }
    }
    let moved: u64 = moves.iter().flatten().sum();
    let all = after.num_layers() * after.num_experts();
    let title = "Experts that move from rank to rank";
    let values: Vec<Vec<f64>> =
        moves.iter().map(|row| row.iter().map(|&count| count as f64).collect()).collect();
    let words = |from: usize, to: usize| counted(moves[from][to], "expert");
    let number = |from: usize, to: usize| moves[from][to].to_string();
    let (drawing, numbers) = heat_map(&HeatMap {
        title,
        row: "from rank",
        column: "to rank",
        names: ["from rank", "to"],
        unit: "experts",
        values: &values,
        range: None,
        marked: &[],
        words: &words,
        number: &number,
    });
    Picture {
        id: "moves".to_owned(),
        title: title.to_owned(),
        caption: format!(
            "Experts that change their rank: {moved} of {all} over all layers. One scale of colour for all ranks.{}",
            shared_in_words(&values, "rank", "rank")
        ),
        drawing,
        numbers,
    }
}
