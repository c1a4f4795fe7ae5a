//! Moves of expert state, as every rank of a job has to execute them.

use pyo3::prelude::*;
use routepack::problem::{Parallelism, Placement};
use routepack_materialise::{
    ExpertGrid, ExpertState, Holdings, MaterialiseError, MoveOptions, Owner, Transfer, map_sha256,
    materialise,
};
use serde::Serialize;

use crate::errors::JobError;

/// One rank's part of a move. Pieces: layer, kind, tensor, slot, first byte, end.
#[derive(Serialize)]
struct RankMove<'m> {
    resident_sha256: &'m str,
    target_sha256: &'m str,
    staging_bytes: u64,
    message_bytes: u64,
    passes: Vec<RankPass>,
}

#[derive(Serialize)]
struct RankPass {
    /// Pairs of pieces: from, to.
    local: Vec<[Piece; 2]>,
    rounds: Vec<RankRound>,
}

/// What a rank sends and receives in a round; a peer, and where the bytes are.
#[derive(Default, Serialize)]
struct RankRound {
    send: Option<(u32, Vec<Piece>)>,
    receive: Option<(u32, Vec<Piece>)>,
}

type Piece = (u32, u32, u32, u32, u64, u64);

/// Layer, tensor, slot, first byte of the tensor, bytes, where they are in the memory of the layer's chunk, the chunk.
type Run = (usize, usize, u32, u64, u64, u64, u32);

fn piece(transfer: &Transfer, slot: u32) -> Piece {
    let Transfer { layer, kind, tensor, bytes, .. } = transfer;
    (*layer, *kind, *tensor, slot, bytes.start, bytes.end)
}

fn refused(error: &MaterialiseError) -> PyErr {
    JobError::new_err(error.to_string())
}

/// Slot of every expert, `[layers][experts]`, as a placement.
fn placement(ranks: usize, log2phys: Vec<Vec<u32>>) -> PyResult<Placement> {
    Placement::new(ranks, log2phys).map_err(|error| JobError::new_err(error.to_string()))
}

/// The hash of a map.
#[pyfunction]
pub(crate) fn map_hash(log2phys: Vec<Vec<u32>>) -> PyResult<String> {
    Ok(map_sha256(&placement(1, log2phys)?))
}

/// The part of `rank` in a move, as JSON; topology, state and options are JSON too.
#[pyfunction]
pub(crate) fn rank_move(
    topology: &str,
    state: &str,
    options: &str,
    resident: Vec<Vec<u32>>,
    target: Vec<Vec<u32>>,
    rank: u32,
) -> PyResult<String> {
    let topology: Parallelism = parse("topology", topology)?;
    let state: ExpertState = parse("state", state)?;
    let options: MoveOptions = parse("options", options)?;
    let holdings = Holdings::new(&topology, resident.len(), state).map_err(|error| refused(&error))?;
    let ranks = topology.ep as usize;
    let moved = materialise(&holdings, &placement(ranks, resident)?, &placement(ranks, target)?, &options)
        .map_err(|error| refused(&error))?;
    let passes = moved.passes.iter().map(|pass| RankPass {
        local: pass
            .local
            .iter()
            .filter(|transfer| holdings.grid().rank(transfer.from.owner) == rank)
            .map(|transfer| [piece(transfer, transfer.from.slot), piece(transfer, transfer.to.slot)])
            .collect(),
        rounds: pass
            .rounds
            .iter()
            .map(|round| {
                let mut mine = RankRound::default();
                for block in round {
                    if block.from == rank {
                        let pieces = block.pieces.iter().map(|transfer| piece(transfer, transfer.from.slot));
                        mine.send = Some((block.to, pieces.collect()));
                    }
                    if block.to == rank {
                        let pieces = block.pieces.iter().map(|transfer| piece(transfer, transfer.to.slot));
                        mine.receive = Some((block.from, pieces.collect()));
                    }
                }
                mine
            })
            .collect(),
    });
    let answer = RankMove {
        resident_sha256: &moved.resident_sha256,
        target_sha256: &moved.target_sha256,
        staging_bytes: moved.staging_bytes,
        message_bytes: moved.message_bytes,
        passes: passes.collect(),
    };
    Ok(serde_json::to_string(&answer).expect("plain data"))
}

/// The state of so many layers, and that it has a kind of this index.
fn holdings(topology: &str, state: &str, layers: usize, kind: usize) -> PyResult<Holdings> {
    let topology: Parallelism = parse("topology", topology)?;
    let state: ExpertState = parse("state", state)?;
    let holdings = Holdings::new(&topology, layers, state).map_err(|error| refused(&error))?;
    if kind >= holdings.state().kinds.len() {
        return Err(JobError::new_err(format!("kind = {kind}: no such kind of state")));
    }
    Ok(holdings)
}

/// Where a rank's flat state of one kind lies, for who holds a flat buffer and wants to know what is in it.
#[pyfunction]
pub(crate) fn flat_runs(
    topology: &str,
    state: &str,
    layers: usize,
    kind: usize,
    rank: u32,
) -> PyResult<Vec<Run>> {
    let holdings = holdings(topology, state, layers, kind)?;
    let runs = holdings.runs_of_rank(kind, rank).into_iter();
    let chunk = |layer| holdings.grid().home(layer).1;
    Ok(runs
        .map(|run| (run.layer, run.tensor, run.slot, run.start, run.num_bytes, run.at, chunk(run.layer)))
        .collect())
}

/// Bytes of a rank's memory of one kind, by chunk; padding included.
#[pyfunction]
pub(crate) fn held_bytes(
    topology: &str,
    state: &str,
    layers: usize,
    kind: usize,
    rank: u32,
) -> PyResult<Vec<u64>> {
    let holdings = holdings(topology, state, layers, kind)?;
    let Parallelism { vpp, .. } = parse("topology", topology)?;
    let owner = owner(holdings.grid(), rank)?;
    Ok((0..vpp).map(|chunk| holdings.held_bytes(Owner { chunk, ..owner }, kind)).collect())
}

/// Ranks and slices of every expert of a job; EP rank, slice, copy and layers of one rank.
#[pyfunction]
pub(crate) fn rank_place(topology: &str, layers: usize, rank: u32) -> PyResult<RankPlace> {
    let topology: Parallelism = parse("topology", topology)?;
    let grid = ExpertGrid::new(&topology, layers).map_err(|error| refused(&error))?;
    let Owner { stage, ep, etp, edp, .. } = owner(&grid, rank)?;
    let here = (0..layers).filter(|&layer| grid.home(layer).0 == stage).collect();
    Ok((grid.num_ranks(), grid.num_slices(), ep, etp, edp, here))
}

type RankPlace = (usize, u32, u32, u32, u32, Vec<usize>);

fn owner(grid: &ExpertGrid, rank: u32) -> PyResult<Owner> {
    let refused = || format!("rank = {rank}: the topology has {} ranks", grid.num_ranks());
    grid.owner(rank).ok_or_else(|| JobError::new_err(refused()))
}

fn parse<T: serde::de::DeserializeOwned>(name: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| JobError::new_err(format!("{name}: {error}")))
}
