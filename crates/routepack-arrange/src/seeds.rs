//! Starting layouts: constructed, measured, chosen.

use routepack_anneal::Stream;

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
/// If stopped, it chooses among those there are.
pub(crate) fn plant_seeds(
    units: &Units,
    first: &[u32],
    options: &ArrangeOptions,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Vec<u32>> {
    let mut seeds = vec![first.to_vec()];
    for draw in 0..options.seeds {
        let stream = stream.child(u64::from(draw));
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
    let mut measured = Vec::new();
    for seed in &seeds {
        if !measured.is_empty() && stop() {
            break;
        }
        let grid = Grid::new(units, seed.clone());
        measured.push((grid.score(units), Sketch::new(units, &grid)));
    }
    let chosen = select(&measured, options.quality_gate, options.population as usize);
    chosen.into_iter().map(|seed| seeds[seed].clone()).collect()
}
