//! Tokens and samples of cells and steps: the trainer's denominators.

use routepack_problem::{Instance, Layout};

use crate::{TokenGrid, TokenTotals};

/// Tokens and samples of every cell and of the step; O(n).
pub(crate) fn count_tokens(instance: &Instance, layout: &Layout) -> (TokenGrid, TokenTotals) {
    let (rows, slots) = (layout.num_rows(), layout.num_slots());
    let empty = || vec![vec![0u64; slots]; rows];
    let with_loss = instance.batch().loss_tokens.is_some();
    let (mut samples, mut raw, mut padded, mut routed, mut loss) =
        (empty(), empty(), empty(), empty(), empty());
    for (sample, &cell) in layout.cell_of().iter().enumerate() {
        let (row, slot) = (cell as usize / slots, cell as usize % slots);
        padded[row][slot] += u64::from(instance.padded_length(sample));
        if instance.batch_index(sample).is_some() {
            samples[row][slot] += 1;
            raw[row][slot] += u64::from(instance.length(sample));
            routed[row][slot] += u64::from(instance.routed_rows(sample));
            loss[row][slot] += u64::from(instance.loss_tokens(sample).unwrap_or(0));
        }
    }
    padded.iter_mut().flatten().for_each(|tokens| *tokens += instance.cell_padding(*tokens));
    let total = |grid: &[Vec<u64>]| grid.iter().flatten().sum();
    let totals = TokenTotals {
        samples: total(&samples),
        dummies: instance.num_dummies() as u64,
        raw: total(&raw),
        padded: total(&padded),
        routed: total(&routed),
        loss: with_loss.then(|| total(&loss)),
    };
    (TokenGrid { samples, raw, padded, routed, loss: with_loss.then_some(loss) }, totals)
}
