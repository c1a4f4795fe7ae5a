//! Rounds: in each, every rank sends to at most one peer and receives from at most one.
//!
//! Problem: a pass asks for b(p, q) bytes from rank p to rank q; order them so that no rank has two partners at once
//! and the ranks with most to send or receive are never idle for long.
//! Method: the bytes of a pair, behind each other, are cut into the fewest equal blocks that take at most τ seconds on
//! their link and at most `block_bytes`; blocks are the edges of a bipartite multigraph, slowest first, coloured with Δ
//! colours ([`crate::colouring`]): Δ blocks at some rank need Δ rounds, so no order of these blocks has fewer. A round
//! takes as long as its slowest block, so Δ·(τ + what a round costs beside) bounds the pass, and exceeds the busiest
//! rank's time by at most one τ per partner and Δ rounds' cost. τ is the best of a few by that bound: long blocks leave
//! ranks waiting where pairs have little to say, short ones cost rounds.
//! Reference for cutting: T. Gonzalez and S. Sahni, Open shop scheduling to minimize finish time, JACM 23, 1976,
//! doi 10.1145/321978.321985. Deviation: blocks of at most one length in place of their exact times, for a fixed buffer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::colouring::colour_edges;
use crate::{ExpertGrid, MoveOptions, Transfer};

/// Halvings of the longest τ that are tried.
const HALVINGS: i32 = 8;

/// What one rank sends to one other in one round: a message of these pieces behind each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// Sending rank.
    pub from: u32,
    /// Receiving rank.
    pub to: u32,
    /// Bytes of the message.
    pub num_bytes: u64,
    /// Its pieces.
    pub pieces: Vec<Transfer>,
}

/// Transfers that are received aside, all of them, before any is written to its place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pass {
    /// Copies within a rank.
    pub local: Vec<Transfer>,
    /// Rounds of messages, `[rounds][blocks]`, blocks by sending rank.
    pub rounds: Vec<Vec<Block>>,
}

/// The rounds of a pass.
pub(crate) fn rounds(grid: &ExpertGrid, transfers: Vec<Transfer>, options: &MoveOptions) -> Pass {
    let mut local = Vec::new();
    let mut pairs: BTreeMap<(u32, u32), Vec<Transfer>> = BTreeMap::new();
    for transfer in transfers {
        match (grid.rank(transfer.from.owner), grid.rank(transfer.to.owner)) {
            (from, to) if from == to => local.push(transfer),
            pair => pairs.entry(pair).or_default().push(transfer),
        }
    }
    let length = best_length(&pairs, options);
    let mut blocks: Vec<Block> = pairs
        .into_iter()
        .flat_map(|(pair, transfers)| cut(pair, &transfers, most_bytes(pair, length, options)))
        .collect();
    let seconds = |block: &Block| block.num_bytes as f64 / options.links.speed(block.from, block.to);
    blocks.sort_by(|a, b| seconds(b).total_cmp(&seconds(a)));
    let edges: Vec<(usize, usize)> =
        blocks.iter().map(|block| (block.from as usize, block.to as usize)).collect();
    let colours = colour_edges(grid.num_ranks(), grid.num_ranks(), &edges);
    let mut rounds = vec![Vec::new(); colours.iter().max().map_or(0, |last| last + 1)];
    for (block, colour) in blocks.into_iter().zip(colours) {
        rounds[colour].push(block);
    }
    for round in &mut rounds {
        round.sort_by_key(|block| block.from);
    }
    Pass { local, rounds }
}

/// Most bytes of a pair's block that takes so many seconds.
fn most_bytes((from, to): (u32, u32), seconds: f64, options: &MoveOptions) -> u64 {
    // What exceeds u64 saturates; a block has at least a byte.
    ((seconds * options.links.speed(from, to)) as u64).clamp(1, options.block_bytes)
}

/// τ: seconds of the longest block.
fn best_length(pairs: &BTreeMap<(u32, u32), Vec<Transfer>>, options: &MoveOptions) -> f64 {
    let sizes: Vec<((u32, u32), u64)> =
        pairs.iter().map(|(pair, transfers)| (*pair, transfers.iter().map(Transfer::len).sum())).collect();
    let whole = |(from, to): (u32, u32), bytes: u64| bytes as f64 / options.links.speed(from, to);
    let longest =
        sizes.iter().map(|&(pair, bytes)| whole(pair, bytes.min(options.block_bytes))).fold(0.0, f64::max);
    let bound = |length: f64| {
        let (mut sends, mut receives) = (BTreeMap::<u32, u64>::new(), BTreeMap::<u32, u64>::new());
        for &((from, to), bytes) in &sizes {
            let count = bytes.div_ceil(most_bytes((from, to), length, options));
            *sends.entry(from).or_default() += count;
            *receives.entry(to).or_default() += count;
        }
        let num_rounds = sends.into_values().chain(receives.into_values()).max().unwrap_or(0);
        num_rounds as f64 * (length + options.links.round_seconds)
    };
    let lengths = (0..=HALVINGS).map(|halving| longest / f64::from(1 << halving));
    lengths.min_by(|&a, &b| bound(a).total_cmp(&bound(b))).unwrap_or(longest)
}

/// The transfers of a pair of ranks in the fewest blocks of at most `block_bytes`, as equal as bytes allow.
fn cut((from, to): (u32, u32), transfers: &[Transfer], block_bytes: u64) -> Vec<Block> {
    let total: u64 = transfers.iter().map(Transfer::len).sum();
    let count = total.div_ceil(block_bytes);
    let end_of = |block: u64| (u128::from(total) * u128::from(block + 1) / u128::from(count)) as u64;
    let mut blocks = Vec::with_capacity(count as usize);
    let mut block = Block { from, to, num_bytes: 0, pieces: Vec::new() };
    let mut sent = 0;
    for transfer in transfers {
        let mut start = 0;
        while start < transfer.len() {
            let end = end_of(blocks.len() as u64);
            let more = (transfer.len() - start).min(end - sent);
            block.pieces.push(transfer.part(start, start + more));
            block.num_bytes += more;
            start += more;
            sent += more;
            if sent == end {
                blocks.push(std::mem::replace(
                    &mut block,
                    Block { from, to, num_bytes: 0, pieces: Vec::new() },
                ));
            }
        }
    }
    blocks
}
