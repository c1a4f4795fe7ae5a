//! Small instances of every kind, for property tests: the strategy draws sizes and a seed, a stream fills the arrays.

use proptest::prelude::*;
use routepack_anneal::Stream;
use routepack_problem::{
    AttentionKind, Attribution, Batch, Dummies, ExactDecimal, ExpertCounts, Gamma, Instance, Layout, Pace,
    PadRoutes, Placement, Setting,
};

/// Sizes of a small instance; every combination is legal.
#[derive(Clone, Debug)]
pub struct Shape {
    /// Samples.
    pub samples: usize,
    /// DP slots.
    pub dp: u32,
    /// EP ranks.
    pub ep: u32,
    /// Context parallel size: `cp > ep` cuts one DP slot over several EP groups.
    pub cp: u32,
    /// Experts a rank owns per layer.
    pub experts_per_rank: u32,
    /// Recorded layers; 0 for lengths alone.
    pub layers: usize,
    /// Experts per token.
    pub top_k: u32,
    /// Where padding goes.
    pub pad_routes: PadRoutes,
    /// Counts per part, or divided evenly.
    pub attribution: Attribution,
    /// Padding multiples of samples and cells.
    pub multiples: (u32, u32),
    /// Attention kinds beyond the first, linear ones.
    pub linear_kinds: usize,
    /// Sample limit of a cell.
    pub max_samples: Option<u32>,
    /// Rows multiple.
    pub rows_multiple: u32,
    /// Whether some samples share a cell.
    pub grouped: bool,
    /// Whether dummies may fill cells.
    pub dummies: bool,
    /// Pipeline stages; the slowest paces if there are several.
    pub stages: u32,
    /// Seed of the arrays.
    pub seed: u64,
}

/// Longest sample of a small instance, in raw tokens.
pub const LONGEST: u32 = 24;

/// A strategy over every kind of small instance.
pub fn shapes(samples: std::ops::Range<usize>) -> impl Strategy<Value = Shape> {
    let grid = prop_oneof![
        // (dp, ep, cp): one shard, several shards, one slot over several EP groups.
        Just((1, 1, 1)),
        Just((2, 2, 1)),
        Just((4, 2, 1)),
        Just((2, 1, 1)),
        Just((2, 2, 2)),
        Just((2, 1, 2)),
        Just((1, 2, 4)),
        Just((3, 3, 1)),
    ];
    let pads = prop_oneof![Just(PadRoutes::None), Just(PadRoutes::Spread), Just(PadRoutes::Arange)];
    let model = (1u32..=3, 0usize..=3, 1u32..=2, pads, prop::bool::ANY);
    let rules = (
        prop_oneof![Just((1, 1)), Just((4, 1)), Just((1, 8)), Just((2, 4))],
        0usize..=1,
        prop::option::of(2u32..=5),
        1u32..=2,
        prop::bool::ANY,
        (prop::bool::ANY, 0u32..=3),
    );
    (samples, grid, model, rules, any::<u64>()).prop_map(
        |(
            samples,
            (dp, ep, cp),
            (experts_per_rank, layers, top_k, pad_routes, exact),
            (multiples, linear_kinds, max_samples, rows_multiple, grouped, (dummies, stages)),
            seed,
        )| Shape {
            samples,
            dp,
            ep,
            cp,
            experts_per_rank,
            layers,
            top_k: top_k.min(ep * experts_per_rank),
            pad_routes,
            attribution: if exact { Attribution::Exact } else { Attribution::Spread },
            multiples,
            linear_kinds,
            max_samples,
            rows_multiple,
            grouped,
            dummies,
            stages: stages.max(1),
            seed,
        },
    )
}

impl Shape {
    /// The setting of this shape.
    pub fn setting(&self) -> Setting {
        let mut setting = Setting::new(self.dp, self.ep, 64);
        setting.topology.cp = self.cp;
        if self.stages > 1 {
            setting.topology.pp = self.stages;
            setting.cost.pace = Pace::SlowestStage;
        }
        setting.routing.top_k = self.top_k;
        setting.routing.pad_routes = self.pad_routes.clone();
        setting.routing.attribution = self.attribution;
        setting.packing.sample_multiple = self.multiples.0;
        setting.packing.cell_multiple = self.multiples.1;
        setting.packing.max_samples = self.max_samples;
        setting.packing.rows_multiple = self.rows_multiple;
        setting.packing.dummies = self.dummies.then_some(Dummies { length: 2 });
        let decimal = |text: &str| text.parse::<ExactDecimal>().expect("a decimal");
        let mut kinds =
            vec![AttentionKind { name: "full".into(), alpha: decimal("0.3"), beta: decimal("1.7") }];
        kinds.extend((0..self.linear_kinds).map(|kind| AttentionKind {
            name: format!("linear-{kind}"),
            alpha: decimal("0.7"),
            beta: ExactDecimal::ZERO,
        }));
        setting.cost.kinds = Some(kinds);
        setting.cost.gamma = Some(Gamma::PerLayer(
            (0..self.layers).map(|layer| decimal(["0.25", "0.01", "1.3"][layer % 3])).collect(),
        ));
        setting
    }

    /// Recorded samples of this shape.
    pub fn batch(&self) -> Batch {
        let mut stream = Stream::new(self.seed);
        let lengths: Vec<u32> =
            (0..self.samples).map(|_| 1 + stream.below(u64::from(LONGEST)) as u32).collect();
        let mut batch = Batch::from_lengths(lengths.clone());
        if self.layers > 0 {
            let rows: Vec<u32> = lengths.iter().map(|&length| length - stream.below(2) as u32).collect();
            batch.expert_counts = Some(self.counts(&rows, &mut stream));
            batch.routed_rows = Some(rows);
        }
        batch.loss_tokens =
            Some(lengths.iter().map(|&length| stream.below(u64::from(length) + 1) as u32).collect());
        if self.grouped {
            // Pairs of neighbours with probability one half; a pair never exceeds a cell.
            let groups = (0..self.samples).map(|sample| {
                let pair = (sample / 2) as i64;
                if Stream::new(self.seed ^ 0x5eed).child(pair as u64).below(2) == 0 { pair } else { -1 }
            });
            batch.atomic_groups = Some(groups.collect());
        }
        batch
    }

    /// Each routed row picks `top_k` different experts, skewed to the low ones, in one part.
    fn counts(&self, rows: &[u32], stream: &mut Stream) -> ExpertCounts {
        let experts = (self.ep * self.experts_per_rank) as usize;
        let grid_parts = if self.cp > self.ep { (self.cp / self.ep) as usize } else { 1 };
        let parts = if self.attribution == Attribution::Exact { grid_parts } else { 1 };
        let mut values = vec![0u32; rows.len() * parts * self.layers * experts];
        for (sample, &rows) in rows.iter().enumerate() {
            for layer in 0..self.layers {
                for row in 0..rows as usize {
                    let part = row % parts;
                    let start = ((sample * parts + part) * self.layers + layer) * experts;
                    let mut order: Vec<usize> = (0..experts).collect();
                    for place in 0..self.top_k as usize {
                        let skewed =
                            stream.below(experts as u64 - place as u64).min(stream.below(experts as u64));
                        order.swap(place, (place + skewed as usize).min(experts - 1));
                        values[start + order[place]] += 1;
                    }
                }
            }
        }
        ExpertCounts::new([rows.len(), parts, self.layers, experts], values).expect("a full array")
    }

    /// The instance of this shape.
    pub fn instance(&self) -> Instance {
        Instance::single(self.batch(), &self.setting()).expect("small shapes are valid")
    }

    /// A placement drawn from the seed.
    pub fn placement(&self) -> Placement {
        let mut stream = Stream::new(self.seed ^ 0x91ac);
        let experts = self.ep * self.experts_per_rank;
        let slots = (0..self.layers)
            .map(|_| {
                let mut slots: Vec<u32> = (0..experts).collect();
                stream.shuffle(&mut slots);
                slots
            })
            .collect();
        Placement::new(self.ep as usize, slots).expect("a shuffle is a bijection")
    }
}

/// A layout with every unit in a random cell: it covers, but may break capacity or leave cells empty.
pub fn scatter(instance: &Instance, rows: usize, seed: u64) -> Layout {
    let mut stream = Stream::new(seed);
    let slots = instance.topology().num_slots();
    let mut cell_of = vec![0; instance.num_samples()];
    for unit in 0..instance.num_units() {
        let cell = stream.below((rows * slots) as u64) as u32;
        for &sample in instance.unit(unit) {
            cell_of[sample as usize] = cell;
        }
    }
    Layout::new(rows, slots, cell_of)
}
