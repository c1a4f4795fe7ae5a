//! open-instruct: a search over the order of samples that looks at experts too, under a fixed placement.
//!
//! Sample i of the order goes to slot i mod D; a slot packs its own by next fit, and slots with fewer bins halve their
//! largest ones. Of three works, each over that of the arrival order, the sum is lowered: Σ over rows and layers of the
//! busiest rank of any shard, Σ over rows of the fullest slot's tokens, the same of squared lengths. Pairs of places are
//! swapped at random; a swap stays if the sum falls and no work is above that of the arrival order.
//!
//! Written from a description of open-instruct's `expert_schedule.py` and `expert_search.py` (branch files e2d13914 and
//! 4f85f21a: `plan_order`, at most 1024 proposals); not from its code. Deviation: all proposals are tried, where the
//! original stops after a quarter of a second. O(proposals·n·L·P).

use routepack_anneal::stream::Stream;
use routepack_problem::{Instance, Layout, Placement, RankDemand, project};

use crate::deal::{cells_by_slot, rows_for, unit_sizes};
use crate::split_heaviest::split_heaviest;
use crate::{BaselineError, BaselineLayout};

const RULE: &str = "open-instruct search";
/// Swaps tried.
const PROPOSALS: u32 = 1024;

/// The search from the arrival order, with seed 0.
///
/// # Errors
/// A slot has fewer units than rows, or samples are limited per cell.
pub fn open_instruct(
    instance: &Instance,
    placement: &Placement,
    rows: usize,
) -> Result<BaselineLayout, BaselineError> {
    let sizes = unit_sizes(instance, RULE)?;
    if instance.setting().packing.max_samples.is_some() {
        return Err(BaselineError::Unsupported { rule: RULE, constraint: "max_samples" });
    }
    let demand = project(instance, placement);
    let mut order: Vec<u32> = (0..sizes.len() as u32).collect();
    let mut best = in_order(instance, &sizes, &order)?;
    let arrival = works(instance, &demand, &best);
    let relative = |works: [u64; 3]| -> f64 {
        works.iter().zip(arrival).map(|(&work, first)| work as f64 / first.max(1) as f64).sum()
    };
    let mut least = relative(arrival);
    let mut stream = Stream::new(0);
    for _ in 0..PROPOSALS {
        let (one, other) =
            (stream.below(sizes.len() as u64) as usize, stream.below(sizes.len() as u64) as usize);
        order.swap(one, other);
        let tried = in_order(instance, &sizes, &order).ok();
        let better = tried.filter(|layout| {
            let works = works(instance, &demand, layout);
            let regresses = works.iter().zip(arrival).any(|(&work, first)| work > first);
            let falls = !regresses && relative(works) < least;
            if falls {
                least = relative(works);
            }
            falls
        });
        match better {
            Some(layout) => best = layout,
            None => order.swap(one, other),
        }
    }
    let own_rows = best.num_rows() > rows;
    Ok(BaselineLayout { layout: best, own_rows })
}

/// The layout of an order: dealt in turn, next fit in every slot, slots made equal.
fn in_order(instance: &Instance, sizes: &[u64], order: &[u32]) -> Result<Layout, BaselineError> {
    let slots = instance.topology().num_slots();
    let capacity = u64::from(instance.cell_capacity());
    let mut bins: Vec<Vec<Vec<u32>>> = (0..slots)
        .map(|slot| next_fit(order.iter().copied().skip(slot).step_by(slots), sizes, capacity))
        .collect();
    let most = bins.iter().map(Vec::len).max().unwrap_or(0);
    let used = rows_for(most, instance.setting().packing.rows_multiple);
    for (slot, bins) in bins.iter_mut().enumerate() {
        split_heaviest(bins, used, sizes).map_err(|units| BaselineError::EmptyCells {
            rule: RULE,
            units,
            cells: used,
            place: format!("DP slot {slot}"),
        })?;
    }
    Ok(cells_by_slot(instance, used, &bins))
}

fn next_fit(units: impl Iterator<Item = u32>, sizes: &[u64], capacity: u64) -> Vec<Vec<u32>> {
    let mut bins: Vec<Vec<u32>> = Vec::new();
    let mut room = 0;
    for unit in units {
        let size = sizes[unit as usize];
        match bins.last_mut() {
            Some(bin) if size <= room => bin.push(unit),
            _ => {
                bins.push(vec![unit]);
                room = capacity;
            }
        }
        room -= size;
    }
    bins
}

/// Busiest ranks, fullest slots, largest squares; each summed over the rows.
fn works(instance: &Instance, demand: &RankDemand, layout: &Layout) -> [u64; 3] {
    let (topology, cells) = (instance.topology(), layout.cells());
    let (layers, ranks) = (demand.layers(), demand.ranks());
    let mut works = [0; 3];
    let mut loads = vec![0u64; layers * ranks];
    let mut peaks = vec![0u64; layers];
    for row in cells.chunks(layout.num_slots()) {
        peaks.fill(0);
        for shard in 0..topology.num_shards() {
            let (_, part) = topology.shard_group_and_part(shard);
            loads.fill(0);
            for &sample in topology.shard_slots(shard).flat_map(|slot| &row[slot]) {
                for (layer, loads) in loads.chunks_mut(ranks).enumerate() {
                    let more = demand.of(sample as usize, part, layer);
                    loads.iter_mut().zip(more).for_each(|(load, &more)| *load += u64::from(more));
                }
            }
            for (peak, loads) in peaks.iter_mut().zip(loads.chunks(ranks)) {
                *peak = loads.iter().copied().fold(*peak, u64::max);
            }
        }
        let lengths = |cell: &[u32]| -> Vec<u64> {
            cell.iter().map(|&sample| u64::from(instance.padded_length(sample as usize))).collect()
        };
        let tokens = row.iter().map(|cell| lengths(cell).iter().sum::<u64>());
        let squares = row.iter().map(|cell| lengths(cell).iter().map(|length| length * length).sum::<u64>());
        works[0] += peaks.iter().sum::<u64>();
        works[1] += tokens.max().unwrap_or(0);
        works[2] += squares.max().unwrap_or(0);
    }
    works
}
