//! A small MoE trained on simulated ranks: EP × EDP grid, BF16 weights by slot on every EDP copy, FP32 master and Adam
//! moments in flat ranges over the EDP group. Only the dispatcher knows slots; the router speaks of logical experts.

use routepack_materialise::{ExpertPlace, ExpertState, ExpertTensor, FlatOptions, Holdings, Memories};
use routepack_problem::{Parallelism, Placement};

pub(crate) const LAYERS: usize = 3;
pub(crate) const EXPERTS: usize = 8;
pub(crate) const HIDDEN: usize = 6;
pub(crate) const FFN: usize = 5;
const TOP_K: usize = 2;
const TOKENS_PER_SLOT: usize = 24;
/// DP slots, whatever the grid.
pub(crate) const DP: usize = 4;

const WEIGHT: usize = 0;
const MASTER: usize = 1;
const EXP_AVG: usize = 2;
const EXP_AVG_SQ: usize = 3;

/// Elements of both tensors: up (HIDDEN × FFN) and down (FFN × HIDDEN).
const ELEMENTS: [usize; 2] = [HIDDEN * FFN, FFN * HIDDEN];

/// A trainer of one job: its memories, the map they are laid out by, and what is logical and replicated.
#[derive(Clone)]
pub(crate) struct Trainer {
    pub(crate) holdings: Holdings,
    pub(crate) memories: Memories,
    pub(crate) placement: Placement,
    /// Router weights `[layers][experts][hidden]`: logical, never moved.
    pub(crate) router: Vec<Vec<Vec<f32>>>,
    pub(crate) step: i32,
}

/// One logical tensor of an expert with its state, as bytes: weight, master, both moments.
pub(crate) type Canonical = Vec<Vec<u8>>;

pub(crate) fn holdings(ep: u32) -> Holdings {
    let mut state = ExpertState::mixed_precision_adam(EXPERTS as u32, HIDDEN as u64, FFN as u64, 1);
    state.tensors = ["up", "down"]
        .into_iter()
        .zip(ELEMENTS)
        .map(|(name, elements)| ExpertTensor { name: name.into(), elements: elements as u64 })
        .collect();
    state.flat = FlatOptions {
        tensor_alignment: 4,
        bucket_alignment: 8,
        bucket_elements: Some(300),
        ..FlatOptions::default()
    };
    Holdings::new(&Parallelism::new(DP as u32, ep), LAYERS, state).expect("valid")
}

impl Trainer {
    /// Logical weights drawn from a seed, laid out by a placement.
    pub(crate) fn new(ep: u32, placement: Placement) -> Self {
        let holdings = holdings(ep);
        let mut draw = Draw(7);
        let router = (0..LAYERS)
            .map(|_| (0..EXPERTS).map(|_| (0..HIDDEN).map(|_| draw.normal()).collect()).collect())
            .collect();
        let mut trainer = Self { memories: Memories::new(&holdings), holdings, placement, router, step: 0 };
        for (layer, expert, tensor) in all_tensors() {
            let master: Vec<f32> = (0..ELEMENTS[tensor]).map(|_| 0.4 * draw.normal()).collect();
            let weight: Vec<u8> = master.iter().flat_map(|&x| to_bf16(x).to_le_bytes()).collect();
            trainer.write(layer, expert, tensor, WEIGHT, &weight);
            trainer.write(layer, expert, tensor, MASTER, &bytes_of(&master));
        }
        trainer
    }

    fn place(&self, layer: usize, expert: usize, tensor: usize, kind: usize) -> ExpertPlace {
        ExpertPlace::of(&self.placement, layer, expert, kind, tensor, 0)
    }

    fn write(&mut self, layer: usize, expert: usize, tensor: usize, kind: usize, bytes: &[u8]) {
        let place = self.place(layer, expert, tensor, kind);
        self.memories.scatter(&self.holdings, &place, bytes);
    }

    fn read(&self, layer: usize, expert: usize, tensor: usize, kind: usize, edp: u32) -> Vec<u8> {
        self.memories.gather(&self.holdings, &self.place(layer, expert, tensor, kind), edp)
    }

    /// Everything in logical order, `[layer, expert, tensor]` → weight, master, moments; what a checkpoint holds.
    pub(crate) fn canonical(&self) -> Vec<Canonical> {
        let kinds = [WEIGHT, MASTER, EXP_AVG, EXP_AVG_SQ];
        all_tensors()
            .map(|(layer, expert, tensor)| {
                kinds.iter().map(|&kind| self.read(layer, expert, tensor, kind, 0)).collect()
            })
            .collect()
    }

    /// Takes a checkpoint in logical order.
    pub(crate) fn load(&mut self, canonical: &[Canonical]) {
        for ((layer, expert, tensor), state) in all_tensors().zip(canonical) {
            for (kind, bytes) in state.iter().enumerate() {
                self.write(layer, expert, tensor, kind, bytes);
            }
        }
    }

    /// Loss of every DP slot's tokens of this step, and each expert's gradient per EDP shard.
    fn run(&self, step: i32, gradients: Option<&mut Vec<Vec<Vec<f32>>>>) -> Vec<f32> {
        let mut kept = gradients;
        let copies = self.holdings.grid().num_copies() as usize;
        (0..DP)
            .map(|slot| {
                let shard = slot * copies / DP;
                let mut draw = Draw(1000 + 100 * step as u64 + slot as u64);
                (0..TOKENS_PER_SLOT)
                    .map(|_| {
                        let token: Vec<f32> = (0..HIDDEN).map(|_| draw.normal()).collect();
                        let wanted: Vec<f32> = (0..HIDDEN).map(|_| draw.normal()).collect();
                        self.token(token, &wanted, shard, kept.as_deref_mut())
                    })
                    .sum()
            })
            .collect()
    }

    /// One token through all layers and back.
    fn token(
        &self,
        mut x: Vec<f32>,
        wanted: &[f32],
        shard: usize,
        gradients: Option<&mut Vec<Vec<Vec<f32>>>>,
    ) -> f32 {
        let mut trail = Vec::new();
        for layer in 0..LAYERS {
            let mut y = x.clone();
            for (expert, share) in route(&self.router[layer], &x) {
                let (up, down) = self.weights(layer, expert, shard);
                let inner: Vec<f32> = multiply(&up, &x, FFN).iter().map(|&value| value.max(0.0)).collect();
                let out = multiply(&down, &inner, HIDDEN);
                y.iter_mut().zip(&out).for_each(|(y, out)| *y += share * out);
                trail.push((layer, expert, share, x.clone(), inner));
            }
            x = y;
        }
        let error: Vec<f32> = x.iter().zip(wanted).map(|(x, wanted)| x - wanted).collect();
        if let Some(gradients) = gradients {
            let mut upstream = error.clone();
            for layer in (0..LAYERS).rev() {
                let mut below = upstream.clone();
                for (_, expert, share, x, inner) in trail.iter().filter(|step| step.0 == layer) {
                    let (up, down) = self.weights(layer, *expert, shard);
                    let out: Vec<f32> = upstream.iter().map(|value| share * value).collect();
                    let mut into: Vec<f32> =
                        (0..FFN).map(|f| (0..HIDDEN).map(|h| down[h * FFN + f] * out[h]).sum()).collect();
                    into.iter_mut().zip(inner).for_each(|(into, &inner)| {
                        if inner <= 0.0 {
                            *into = 0.0;
                        }
                    });
                    let index = tensor_index(layer, *expert, 0);
                    outer(&mut gradients[shard][index], &into, x);
                    outer(&mut gradients[shard][index + 1], &out, inner);
                    for (h, below) in below.iter_mut().enumerate() {
                        *below += (0..FFN).map(|f| up[f * HIDDEN + h] * into[f]).sum::<f32>();
                    }
                }
                upstream = below;
            }
        }
        error.iter().map(|value| 0.5 * value * value).sum()
    }

    /// Weights as the shard's own copy has them, found through the map.
    fn weights(&self, layer: usize, expert: usize, shard: usize) -> (Vec<f32>, Vec<f32>) {
        let tensor = |tensor| {
            let bytes = self.read(layer, expert, tensor, WEIGHT, shard as u32);
            bytes.chunks_exact(2).map(|pair| from_bf16([pair[0], pair[1]])).collect()
        };
        (tensor(0), tensor(1))
    }

    /// Losses of the next step's samples, nothing changed.
    pub(crate) fn losses(&self) -> Vec<f32> {
        self.run(self.step, None)
    }

    /// One optimizer step: gradients summed over EDP shards in order, AdamW on every owner's own byte ranges, weights
    /// gathered back to all copies.
    pub(crate) fn train_step(&mut self) {
        let copies = self.holdings.grid().num_copies() as usize;
        let none: Vec<Vec<f32>> = all_tensors().map(|(_, _, tensor)| vec![0.0; ELEMENTS[tensor]]).collect();
        let mut gradients = vec![none; copies];
        self.run(self.step, Some(&mut gradients));
        self.step += 1;
        for (layer, expert, tensor) in all_tensors() {
            let index = tensor_index(layer, expert, tensor);
            let mut sum = gradients[0][index].clone();
            for shard in &gradients[1..] {
                sum.iter_mut().zip(&shard[index]).for_each(|(sum, more)| *sum += more);
            }
            let mut state = [MASTER, EXP_AVG, EXP_AVG_SQ]
                .map(|kind| floats_of(&self.read(layer, expert, tensor, kind, 0)));
            let [master, first, second] = &mut state;
            for (((gradient, w), m), v) in sum.iter().zip(master).zip(first).zip(second) {
                adam_w(w, m, v, *gradient, self.step);
            }
            let weight: Vec<u8> = state[0].iter().flat_map(|&x| to_bf16(x).to_le_bytes()).collect();
            self.write(layer, expert, tensor, WEIGHT, &weight);
            for (kind, values) in [MASTER, EXP_AVG, EXP_AVG_SQ].into_iter().zip(&state) {
                self.write(layer, expert, tensor, kind, &bytes_of(values));
            }
        }
    }
}

fn adam_w(w: &mut f32, m: &mut f32, v: &mut f32, gradient: f32, step: i32) {
    let (rate, b1, b2, epsilon, decay) = (0.01f32, 0.9f32, 0.95f32, 1e-8f32, 0.1f32);
    *w *= 1.0 - rate * decay;
    *m = b1 * *m + (1.0 - b1) * gradient;
    *v = b2 * *v + (1.0 - b2) * gradient * gradient;
    let (mean, square) = (*m / (1.0 - b1.powi(step)), *v / (1.0 - b2.powi(step)));
    *w -= rate * mean / (square.sqrt() + epsilon);
}

/// Logical experts of a token with their shares, largest first.
fn route(router: &[Vec<f32>], x: &[f32]) -> Vec<(usize, f32)> {
    let score = |row: &Vec<f32>| row.iter().zip(x).map(|(w, x)| w * x).sum::<f32>();
    let mut scores: Vec<(usize, f32)> = router.iter().map(score).enumerate().collect();
    scores.sort_by(|a, b| b.1.total_cmp(&a.1));
    scores.truncate(TOP_K);
    let largest = scores[0].1;
    let sum: f32 = scores.iter().map(|(_, score)| (score - largest).exp()).sum();
    scores.iter().map(|&(expert, score)| (expert, (score - largest).exp() / sum)).collect()
}

fn multiply(matrix: &[f32], x: &[f32], rows: usize) -> Vec<f32> {
    (0..rows)
        .map(|row| x.iter().enumerate().map(|(i, x)| matrix[row * x_len(matrix, rows) + i] * x).sum())
        .collect()
}

fn x_len(matrix: &[f32], rows: usize) -> usize {
    matrix.len() / rows
}

fn outer(gradient: &mut [f32], rows: &[f32], columns: &[f32]) {
    for (row, &r) in rows.iter().enumerate() {
        for (column, &c) in columns.iter().enumerate() {
            gradient[row * columns.len() + column] += r * c;
        }
    }
}

pub(crate) fn all_tensors() -> impl Iterator<Item = (usize, usize, usize)> {
    (0..LAYERS).flat_map(|layer| (0..EXPERTS).flat_map(move |expert| (0..2).map(move |t| (layer, expert, t))))
}

pub(crate) fn tensor_index(layer: usize, expert: usize, tensor: usize) -> usize {
    (layer * EXPERTS + expert) * 2 + tensor
}

/// Round to nearest even; no value here is no number.
pub(crate) fn to_bf16(x: f32) -> u16 {
    let bits = x.to_bits();
    ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16) as u16
}

pub(crate) fn from_bf16(bytes: [u8; 2]) -> f32 {
    f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16)
}

pub(crate) fn floats_of(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|four| f32::from_le_bytes(four.try_into().expect("four bytes"))).collect()
}

pub(crate) fn bytes_of(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Numbers that look random.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn normal(&mut self) -> f32 {
        (0..4).map(|_| (self.next() >> 40) as f32 / (1u64 << 24) as f32 - 0.5).sum::<f32>() * 1.7
    }

    pub(crate) fn placement(&mut self, ranks: usize) -> Placement {
        let layers = (0..LAYERS).map(|_| {
            let mut slots: Vec<u32> = (0..EXPERTS as u32).collect();
            for last in (1..EXPERTS).rev() {
                slots.swap(last, self.next() as usize % (last + 1));
            }
            slots
        });
        Placement::new(ranks, layers.collect()).expect("permutations")
    }
}
