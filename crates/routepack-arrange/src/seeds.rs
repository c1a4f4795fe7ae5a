//! Starting layouts: constructed, measured, chosen.

use std::ops::Range;

use routepack_anneal::peers::share;
use routepack_anneal::{AnnealError, Peers, Stream};

use crate::ArrangeError;
use crate::cells::into_rows;
use crate::edp_aware_pair::edp_aware_pair;
use crate::grid::Grid;
use crate::options::ArrangeOptions;
use crate::perturb::perturb;
use crate::randomized_best_fit::randomized_best_fit;
use crate::select::select;
use crate::sketch::Sketch;
use crate::units::Units;
use crate::window_shuffle::window_shuffle;

/// Constructs seeds of every kind and chooses at most one per replica, the layout given among the candidates.
///
/// If stopped, it chooses among those there are. Peers construct some each, and hand them to each other.
///
/// # Errors
/// A peer is gone.
pub(crate) fn plant_seeds(
    units: &Units,
    first: &[u32],
    options: &ArrangeOptions,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
    peers: Option<&dyn Peers>,
) -> Result<Vec<Vec<u32>>, ArrangeError> {
    let mine = share(options.seeds as usize, peers.map_or((0, 1), Peers::rank));
    let mut seeds = construct(units, first, mine, stream, stop);
    if let Some(peers) = peers {
        let heard = peers.exchange(seeds.concat()).map_err(|why| AnnealError::Peers { why })?;
        seeds = heard.concat().chunks_exact(units.num_units()).map(<[u32]>::to_vec).collect();
    }
    seeds.insert(0, first.to_vec());
    let mut measured = Vec::new();
    for seed in &seeds {
        if !measured.is_empty() && stop() {
            break;
        }
        let grid = Grid::new(units, seed.clone());
        measured.push((grid.score(units), Sketch::new(units, &grid)));
    }
    let chosen = select(&measured, options.quality_gate, options.population as usize);
    Ok(chosen.into_iter().map(|seed| seeds[seed].clone()).collect())
}

/// The seeds of these draws.
fn construct(
    units: &Units,
    first: &[u32],
    draws: Range<usize>,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Vec<u32>> {
    let mut seeds = Vec::new();
    for draw in draws {
        let stream = stream.child(draw as u64);
        if stop() {
            break;
        }
        let built =
            [window_shuffle(units, &mut stream.child(0)), randomized_best_fit(units, &mut stream.child(1))];
        let succeeded = built.iter().flatten().count();
        for cells in built.into_iter().flatten() {
            seeds.push(into_rows(units, &cells));
            if let Some(paired) = edp_aware_pair(units, &cells, stop) {
                seeds.push(paired);
            }
        }
        if succeeded == 0 {
            seeds.push(perturb(units, first, &mut stream.child(2)));
        }
    }
    seeds
}
