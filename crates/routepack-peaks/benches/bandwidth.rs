//! Nanoseconds per evaluated exchange, one by one and in tiles, beside the time it takes to read as many bytes from as many
//! places: `cargo bench -p routepack-peaks`.
//!
//! An exchange reads the demands of two units and the loads of two blocks. The limit is what reading four such pieces at
//! the same random places of equally large arrays takes, in the same run, turn and turn about; of each the least of
//! many runs, so that other work on the machine disturbs little. A value of 1 in the column `of limit` is that speed.

use std::hint::black_box;
use std::io::Write;
use std::time::Instant;

use multiversion::multiversion;
use routepack_peaks::{Demand, Exchange, Loads, Tile, TileRoom};
use routepack_problem::{Batch, ExpertCounts, Instance, Placement, Setting};

/// Layers, samples per block, exchanges a run, runs.
const LAYERS: usize = 48;
const SAMPLES_PER_BLOCK: usize = 16;
const EXCHANGES: usize = 1024;
const RUNS: usize = 40;

/// A splitmix step.
fn roll(state: &mut u64) -> usize {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (*state ^ (*state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    ((z ^ (z >> 27)) >> 8) as usize
}

/// Equal samples with random top-1 counts, one expert a rank; demands take 32 bits each if `wide`.
fn window(samples: usize, ranks: usize, wide: bool) -> (Demand, Loads) {
    let mut state = 1;
    let rows = if wide { 8 * 70_000 } else { 800 };
    let mut counts = vec![0u32; samples * LAYERS * ranks];
    for of_layer in counts.chunks_exact_mut(ranks) {
        (0..8).for_each(|_| of_layer[roll(&mut state) % ranks] += rows / 8);
    }
    let batch = Batch {
        lengths: vec![rows; samples],
        expert_counts: Some(ExpertCounts::new([samples, 1, LAYERS, ranks], counts).expect("shape")),
        ..Batch::default()
    };
    let mut setting = Setting::new(ranks as u32, ranks as u32, 4 * rows);
    setting.routing.top_k = 1;
    let instance = Instance::single(batch, &setting).expect("a valid window");
    let placement = Placement::identity(LAYERS, ranks, ranks).expect("divisible");
    let demand = Demand::new(&instance, &placement).expect("below 2^32");
    assert_eq!(demand.is_narrow(), !wide);
    let blocks = samples / SAMPLES_PER_BLOCK;
    let mut loads = demand.empty_loads(blocks);
    (0..samples).for_each(|unit| demand.add(&mut loads, unit % blocks, unit));
    (0..blocks).for_each(|block| demand.repad(&mut loads, block, 0));
    (demand, loads)
}

/// Reads pieces of `words` words of both arrays at the units and blocks of the exchanges.
#[multiversion(targets("x86_64+avx2+bmi2", "aarch64+neon"))]
fn read(demands: &[u64], of_unit: usize, loads: &[u64], of_block: usize, exchanges: &[Exchange]) -> u64 {
    let mut sums = [0u64; 8];
    for exchange in exchanges {
        let units = [exchange.leaves, exchange.comes].map(|unit| unit.unwrap_or(0) * of_unit);
        let blocks = [exchange.from, exchange.to].map(|block| block * of_block);
        let pieces = [
            &demands[units[0]..units[0] + of_unit],
            &demands[units[1]..units[1] + of_unit],
            &loads[blocks[0]..blocks[0] + of_block],
            &loads[blocks[1]..blocks[1] + of_block],
        ];
        // Side by side, as an exchange reads them: loads are as long as demands of 32 bits, twice as long as those of 16.
        let [a, b, c, d] = pieces.map(|piece| piece.as_chunks::<8>().0);
        let per_piece = c.len() / a.len();
        for (place, (a, b)) in a.iter().zip(b).enumerate() {
            for (c, d) in c[place * per_piece..][..per_piece].iter().zip(&d[place * per_piece..][..per_piece])
            {
                for lane in 0..8 {
                    sums[lane] ^= c[lane] ^ d[lane];
                }
            }
            for lane in 0..8 {
                sums[lane] ^= a[lane] ^ b[lane];
            }
        }
    }
    sums.iter().fold(0, |sum, word| sum ^ word)
}

fn main() -> std::io::Result<()> {
    let mut out = std::io::stdout();
    writeln!(
        out,
        "EP    N     bits   limit   single  of limit   4 x 4   gain   8 x 8   gain   (ns per exchange)"
    )?;
    for wide in [false, true] {
        for ranks in [8, 32, 64] {
            for samples in [1024, 8192] {
                let (demand, loads) = window(samples, ranks, wide);
                let blocks = loads.num_blocks();
                let mut state = 2;
                let mut pair = || {
                    let from = roll(&mut state) % blocks;
                    [from, (from + 1 + roll(&mut state) % (blocks - 1)) % blocks]
                };
                let pairs: Vec<[usize; 2]> = (0..EXCHANGES).map(|_| pair()).collect();
                let mut member = |block: usize| block + roll(&mut state) % SAMPLES_PER_BLOCK * blocks;
                let exchanges: Vec<Exchange> = pairs
                    .iter()
                    .map(|&[from, to]| {
                        let [leaves, comes] = [from, to].map(|block| Some(member(block)));
                        Exchange { from, to, leaves, comes, pad_tokens: [0; 2] }
                    })
                    .collect();
                let of_unit = LAYERS * ranks * if wide { 4 } else { 2 } / 8;
                let of_block = LAYERS * ranks * 4 / 8;
                let arrays = [vec![1u64; samples * of_unit], vec![2u64; blocks * of_block]];
                let mut least = [f64::INFINITY; 4];
                let mut room = TileRoom::default();
                let mut costs = vec![[0; 2]; 64];
                for _ in 0..RUNS {
                    let mut time = |slot: usize, count: usize, work: &mut dyn FnMut() -> u64| {
                        let start = Instant::now();
                        black_box(work());
                        least[slot] = least[slot].min(start.elapsed().as_nanos() as f64 / count as f64);
                    };
                    time(0, EXCHANGES, &mut || {
                        read(black_box(&arrays[0]), of_unit, black_box(&arrays[1]), of_block, &exchanges)
                    });
                    time(1, EXCHANGES, &mut || {
                        let cost = |exchange| demand.exchange_costs(black_box(&loads), 0, exchange)[0];
                        exchanges.iter().fold(0, |sum, exchange| sum ^ cost(exchange))
                    });
                    for (slot, side) in [(2, 4), (3, 8)] {
                        let tiles = &pairs[..EXCHANGES / (side * side) * 2];
                        time(slot, tiles.len() * side * side, &mut || {
                            tiles.iter().fold(0, |sum, &[from, to]| {
                                let units = [from, to].map(|block| -> [u32; 8] {
                                    std::array::from_fn(|place| {
                                        (block + (place * 2 + from) % 16 * blocks) as u32
                                    })
                                });
                                let [leaves, comes] = units.each_ref().map(|units| &units[..side]);
                                let tile = Tile { from, to, leaves, comes };
                                let costs = &mut costs[..side * side];
                                demand.tile_costs(black_box(&loads), 0, &tile, &mut room, costs);
                                sum ^ costs[side][0]
                            })
                        });
                    }
                }
                let [limit, single, four, eight] = least;
                writeln!(
                    out,
                    "{ranks:>2}  {samples:>5}  {:>5}  {limit:>6.0}  {single:>7.0}  {:>8.2}  {four:>6.0}  {:>5.2}  {eight:>6.0}  {:>5.2}",
                    if wide { 32 } else { 16 },
                    limit / single,
                    single / four,
                    single / eight,
                )?;
            }
        }
    }
    Ok(())
}
