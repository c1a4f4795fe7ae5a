//! Random small windows that reach every rule of the problem: parts, shards, kinds, padding, groups, limits, full cells.

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_problem::{
    AttentionKind, Batch, ExpertCounts, Gamma, Instance, Layout, Pace, PadRoutes, Parallelism, Placement,
    Setting, check_layout,
};

/// A recipe of a small window; everything else follows from it.
#[derive(Clone, Debug)]
pub(crate) struct Recipe {
    pub(crate) seed: u64,
    pub(crate) rows: usize,
    /// Slots per shard, and slot groups.
    pub(crate) slots_per_group: usize,
    pub(crate) groups: usize,
    /// Units beyond one a cell.
    pub(crate) extra: usize,
    pub(crate) layers: usize,
    pub(crate) parts: usize,
    pub(crate) kinds: usize,
    pub(crate) pads: usize,
    pub(crate) grouped: bool,
    pub(crate) limited: bool,
    pub(crate) tight: bool,
    /// Pipeline stages; the slowest paces if there are several.
    pub(crate) stages: usize,
}

/// Recipes with up to `extra` units more than cells.
pub(crate) fn recipes(extra: usize) -> impl Strategy<Value = Recipe> {
    let sizes = (1..4usize, 1..4usize, 1..4usize, 0..=extra, 0..4usize);
    let rules = (1..3usize, 1..3usize, 0..3usize, any::<bool>(), any::<bool>(), any::<bool>());
    (any::<u64>(), sizes, rules, 0..5usize).prop_map(
        |(seed, (rows, slots, groups, extra, layers), rules, stages)| {
            let (parts, kinds, pads, grouped, limited, tight) = rules;
            Recipe {
                seed,
                rows,
                // A slot spread over several parts is a shard of its own.
                slots_per_group: if parts > 1 { 1 } else { slots },
                groups,
                extra,
                layers,
                parts,
                kinds,
                pads,
                grouped,
                limited,
                tight,
                stages: stages.saturating_sub(1).max(1),
            }
        },
    )
}

/// A window, a placement, and a feasible layout of it.
pub(crate) struct Case {
    pub(crate) instance: Instance,
    pub(crate) placement: Placement,
    pub(crate) first: Layout,
}

impl Recipe {
    pub(crate) fn cells(&self) -> usize {
        self.rows * self.slots_per_group * self.groups
    }

    /// Draws the window, planted in cells, so that a feasible layout is known.
    pub(crate) fn build(&self) -> Case {
        let mut dice = Stream::new(self.seed);
        let mut draw = |n: usize| dice.below(n as u64) as usize;
        let (dp, ranks, top_k) = (self.slots_per_group * self.groups, self.slots_per_group.max(2), 2usize);
        let experts = 2 * ranks;
        // Units go to cells: one each, the others anywhere. A unit is one sample, or two of one group.
        let mut cell_of_unit: Vec<usize> = (0..self.cells()).collect();
        cell_of_unit.extend((0..self.extra).map(|_| draw(self.cells())));
        let (mut lengths, mut groups, mut cell_of) = (Vec::new(), Vec::new(), Vec::new());
        for (unit, &cell) in cell_of_unit.iter().enumerate() {
            let twins = self.grouped && draw(4) == 0;
            for _ in 0..if twins { 2 } else { 1 } {
                lengths.push(1 + draw(12) as u32);
                groups.push(if twins { unit as i64 } else { -1 });
                cell_of.push(cell as u32);
            }
        }
        let mut order: Vec<usize> = (0..lengths.len()).collect();
        dice.shuffle(&mut order);
        let lengths: Vec<u32> = order.iter().map(|&i| lengths[i]).collect();
        let cell_of: Vec<u32> = order.iter().map(|&i| cell_of[i]).collect();
        let groups = self.grouped.then(|| order.iter().map(|&i| groups[i]).collect());

        let sample_multiple = if self.pads > 0 { 3 } else { 1 };
        let cell_multiple = if self.pads > 1 { 4 } else { 1 };
        let (mut tokens, mut samples) = (vec![0u32; self.cells()], vec![0u32; self.cells()]);
        for (&length, &cell) in lengths.iter().zip(&cell_of) {
            tokens[cell as usize] += length.next_multiple_of(sample_multiple);
            samples[cell as usize] += 1;
        }
        let fullest = tokens.into_iter().max().unwrap_or(1).next_multiple_of(cell_multiple);
        let capacity = if self.tight { fullest } else { 2 * fullest + 7 };

        let mut counts = Vec::new();
        for &length in &lengths {
            let mut cut = vec![0u32; self.parts];
            (0..length).for_each(|_| cut[dice.below(self.parts as u64) as usize] += 1);
            for rows in cut {
                for _ in 0..self.layers {
                    let mut of_layer = vec![0u32; experts];
                    for _ in 0..rows {
                        let first = dice.below(experts as u64) as usize;
                        let second = (first + 1 + dice.below(experts as u64 - 1) as usize) % experts;
                        of_layer[first] += 1;
                        of_layer[second] += 1;
                    }
                    counts.extend(of_layer);
                }
            }
        }
        let shape = [lengths.len(), self.parts, self.layers, experts];
        let batch = Batch {
            expert_counts: (self.layers > 0).then(|| ExpertCounts::new(shape, counts).expect("shape")),
            routed_rows: (self.layers > 0).then(|| lengths.clone()),
            atomic_groups: groups,
            lengths,
            ..Batch::default()
        };
        // m = ep·etp/(tp·cp) is |D_g|, or 1/parts.
        let (wide, etp) =
            if self.parts > 1 { (ranks * self.parts, 1) } else { (ranks, self.slots_per_group) };
        let mut setting = Setting::new(dp as u32, ranks as u32, capacity);
        setting.topology = Parallelism {
            tp: wide as u32,
            etp: Some(etp as u32),
            pp: self.stages as u32,
            ..Parallelism::new(dp as u32, ranks as u32)
        };
        if self.stages > 1 {
            setting.cost.pace = Pace::SlowestStage;
        }
        setting.routing.top_k = top_k as u32;
        setting.routing.pad_routes = match self.pads {
            0 => PadRoutes::None,
            1 => PadRoutes::Spread,
            _ => PadRoutes::Arange,
        };
        setting.packing.sample_multiple = sample_multiple;
        setting.packing.cell_multiple = cell_multiple;
        setting.packing.max_samples = self.limited.then(|| samples.into_iter().max().unwrap_or(1));
        let decimal = |text: &str| text.parse().expect("decimal");
        setting.cost.gamma = Some(Gamma::PerLayer(
            (0..self.layers).map(|layer| decimal(["1", "0.5", "1.7"][layer % 3])).collect(),
        ));
        let kinds = [("linear", "1", "0"), ("full", "0.3", "2")];
        setting.cost.kinds = Some(
            kinds[..self.kinds]
                .iter()
                .map(|&(name, alpha, beta)| AttentionKind {
                    name: name.into(),
                    alpha: decimal(alpha),
                    beta: decimal(beta),
                })
                .collect(),
        );
        let instance = Instance::single(batch, &setting).expect("a valid window");
        assert_eq!(instance.topology().num_groups(), self.groups);
        assert_eq!(instance.topology().num_parts(), self.parts);
        let slots = (0..self.layers)
            .map(|_| {
                let mut slots: Vec<u32> = (0..experts as u32).collect();
                dice.shuffle(&mut slots);
                slots
            })
            .collect();
        let placement = Placement::new(ranks, slots).expect("a bijection");
        let first = Layout::new(self.rows, dp, cell_of);
        check_layout(&instance, &first).expect("planted to be feasible");
        Case { instance, placement, first }
    }
}
