//! Seed construction `RandomizedBestFit`: the fullest fitting cell first, sampled.
//!
//! Problem: pack units tightly, differently for every draw, so that some cells are full and others have all the slack.
//! Method: units in perturbed length-descending order go to one of the [`CHOICES`] fullest cells with room, each twice as
//! likely as the next; a new cell is opened when none has room. Then cells are split until all R·D are used. Fails if
//! more than R·D cells are needed: then `None`.
//! Complexity: O(U·cells).
//! Reference: arXiv 2608.12146 (name and idea); D. S. Johnson et al., SIAM J. Comput. 3(4), 1974, doi 10.1137/0203025
//! (best fit decreasing).

use routepack_anneal::Stream;

use crate::cells::{Cells, split_until};
use crate::units::Units;
use crate::window_shuffle::shuffled_order;

/// Cells considered.
const CHOICES: usize = 3;
/// Units shuffled among each other.
const WINDOW: usize = 4;

/// Cells filled best-fit; `None` if that takes more than there are.
pub(crate) fn randomized_best_fit(units: &Units, stream: &mut Stream) -> Option<Cells> {
    let order = shuffled_order(units, WINDOW, stream);
    let (mut cells, mut tokens, mut samples): (Cells, Vec<u32>, Vec<u32>) = Default::default();
    for unit in order {
        let (length, count) = (units.tokens[unit as usize], units.samples[unit as usize]);
        let mut fullest = [None; CHOICES];
        for cell in 0..cells.len() {
            if tokens[cell] + length > units.capacity || samples[cell] + count > units.max_samples {
                continue;
            }
            let mut entry = Some(cell);
            for place in &mut fullest {
                let beats = match (entry, *place) {
                    (Some(new), Some(old)) => tokens[new] > tokens[old],
                    (new, old) => new.is_some() && old.is_none(),
                };
                if beats {
                    std::mem::swap(&mut entry, place);
                }
            }
        }
        let fitting = fullest.iter().flatten().count();
        if fitting == 0 {
            if cells.len() == units.num_cells() {
                return None;
            }
            cells.push(vec![unit]);
            tokens.push(length);
            samples.push(count);
            continue;
        }
        let mut choice = 0;
        while choice + 1 < fitting && stream.below(3) == 0 {
            choice += 1;
        }
        let cell = fullest[choice].expect("counted as fitting");
        cells[cell].push(unit);
        tokens[cell] += length;
        samples[cell] += count;
    }
    split_until(units, &mut cells, units.num_cells());
    Some(cells)
}
