//! Answers by the definition, in the plainest way: no shared code with what they judge.

use routepack_problem::{Instance, Layout, Pace, PadRoutes, Placement};

/// (`max_g U_g`, `Σ_g U_g`, `max J`) of a layout, literally by DESIGN §1.3 over hash-free nested loops. Where the slowest
/// pipeline stage paces, it is that of every shard that counts.
pub fn score(instance: &Instance, placement: &Placement, layout: &Layout) -> (u64, u64, u64) {
    let topology = instance.topology();
    let setting = instance.setting();
    let (parts, ranks) = (topology.num_parts(), topology.num_ranks());
    let mut totals = Vec::new();
    let mut worst_row = 0;
    for shard in 0..topology.num_shards() {
        let part = shard % parts;
        let slots: Vec<usize> = (0..topology.num_slots())
            .filter(|slot| slot / topology.slots_per_shard() == shard / parts)
            .collect();
        let stages = match setting.cost.pace {
            Pace::AllLayers => 1,
            Pace::SlowestStage => u64::from(setting.topology.pp),
        };
        let mut accumulated = vec![0; stages as usize];
        for row in 0..layout.num_rows() {
            let inside = |sample: usize, slot: usize| {
                layout.cell_of()[sample] as usize == row * topology.num_slots() + slot
            };
            let mut cost = 0;
            for kind in 0..instance.charges().num_kinds() {
                let mut slowest = 0;
                for &slot in &slots {
                    let mut sum = 0;
                    for sample in 0..instance.num_samples() {
                        if inside(sample, slot) {
                            sum += instance.charges().attention(sample)[kind];
                        }
                    }
                    slowest = slowest.max(sum);
                }
                cost += slowest;
            }
            let mut padding = 0;
            for &slot in &slots {
                let mut tokens = 0;
                for sample in 0..instance.num_samples() {
                    if inside(sample, slot) {
                        tokens += u64::from(instance.padded_length(sample));
                        let raw =
                            instance.batch_index(sample).map_or(0, |index| instance.batch().lengths[index]);
                        padding += u64::from(instance.padded_length(sample) - raw);
                    }
                }
                let multiple = u64::from(setting.packing.cell_multiple);
                padding += (multiple - tokens % multiple) % multiple;
            }
            let padding = (padding + part as u64) / parts as u64;
            let mut costs = vec![cost.div_ceil(stages); stages as usize];
            for layer in 0..instance.num_layers() {
                let mut peak = 0;
                for rank in 0..ranks {
                    let mut load = 0;
                    for sample in 0..instance.num_samples() {
                        if !slots.iter().any(|&slot| inside(sample, slot)) {
                            continue;
                        }
                        for expert in 0..placement.num_experts() {
                            if placement.rank_of(layer, expert) == rank {
                                load += u64::from(count(instance, sample, part, layer, expert));
                            }
                        }
                    }
                    load += match &setting.routing.pad_routes {
                        PadRoutes::None => 0,
                        PadRoutes::Spread => {
                            (padding * u64::from(setting.routing.top_k)).div_ceil(ranks as u64)
                        }
                        PadRoutes::Arange => {
                            let here = (0..setting.routing.top_k)
                                .filter(|&expert| placement.rank_of(layer, expert as usize) == rank);
                            padding * here.count() as u64
                        }
                        PadRoutes::Fixed(experts) => {
                            let here = experts
                                .iter()
                                .filter(|&&expert| placement.rank_of(layer, expert as usize) == rank);
                            padding * here.count() as u64
                        }
                    };
                    peak = peak.max(load);
                }
                let stage = if stages == 1 { 0 } else { topology.layer_stage()[layer] as usize };
                costs[stage] += peak * instance.charges().expert()[layer];
            }
            for (accumulated, cost) in accumulated.iter_mut().zip(costs) {
                worst_row = worst_row.max(cost);
                *accumulated += cost;
            }
        }
        totals.push(accumulated.into_iter().max().unwrap_or(0));
    }
    (totals.iter().copied().max().unwrap_or(0), totals.iter().sum(), worst_row)
}

fn count(instance: &Instance, sample: usize, part: usize, layer: usize, expert: usize) -> u32 {
    let (Some(index), Some(counts)) = (instance.batch_index(sample), &instance.batch().expert_counts) else {
        return 0;
    };
    let parts = instance.topology().num_parts();
    if counts.parts() == parts {
        counts.of(index, part, layer)[expert]
    } else {
        (counts.of(index, 0, layer)[expert] + part as u32) / parts as u32
    }
}

/// Fewest cells by trying every packing, unit by unit into every open cell or one new one; a unit is its padded tokens and
/// its samples, a cell holds at most `capacity` and `max_samples` of them.
pub fn fewest_cells(units: &[(u64, usize)], capacity: u64, max_samples: Option<u32>) -> usize {
    fn extend(
        units: &[(u64, usize)],
        capacity: u64,
        limit: usize,
        cells: &mut Vec<(u64, usize)>,
        best: &mut usize,
    ) {
        if cells.len() >= *best {
            return;
        }
        let Some((&(tokens, samples), rest)) = units.split_first() else {
            *best = cells.len();
            return;
        };
        for cell in 0..cells.len() {
            let (load, count) = cells[cell];
            if load + tokens <= capacity && count + samples <= limit {
                cells[cell] = (load + tokens, count + samples);
                extend(rest, capacity, limit, cells, best);
                cells[cell] = (load, count);
            }
        }
        cells.push((tokens, samples));
        extend(rest, capacity, limit, cells, best);
        cells.pop();
    }
    let limit = max_samples.map_or(usize::MAX, |limit| limit as usize);
    let mut best = units.len() + 1;
    extend(units, capacity, limit, &mut Vec::new(), &mut best);
    best
}
