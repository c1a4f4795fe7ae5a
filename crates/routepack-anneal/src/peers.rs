//! One population walked by several processes, on one machine or many.
//!
//! Problem: share the chains of a population among processes, and get what a single one would get.
//! Method: all run the same program on the same input and hold the whole population. At each temperature a process walks
//! the chains of its own replicas only; then all hand each other these replicas' states and the best state they met. As a
//! replica draws from the stream of its temperature and index alone, and the archive is a minimum (score, then sweep, then
//! replica), everyone goes on, to resampling and the next temperature, with the population and the archive that a single
//! process would have. Only the number of times that the archive was improved, in the trace, is another.
//! Complexity: one exchange of all states a temperature.
//! Deviation: the usual parallel tempering and population annealing codes move replicas between ranks; here states are
//! small beside their work, and all ranks keep all.

use std::ops::Range;

use crate::error::AnnealError;
use crate::population::{Archive, Population};
use crate::system::{MoveCount, System};

/// The processes that walk a population together, seen from one of them.
pub trait Peers: Sync {
    /// Which of them this is, and how many there are.
    fn rank(&self) -> (usize, usize);

    /// Hands `words` to all and gives those of all, in order of rank. Every process calls it equally often.
    ///
    /// # Errors
    /// Some process is gone: why.
    fn exchange(&self, words: Vec<u32>) -> Result<Vec<Vec<u32>>, String>;
}

/// A system whose states can travel: what is packed and unpacked must go on exactly as the original would.
pub trait Portable: System {
    /// A state as words.
    fn pack_state(&self, state: &Self::State) -> Vec<u32>;

    /// The state again; `None` for words that are none.
    fn unpack_state(&self, words: &[u32]) -> Option<Self::State>;

    /// An answer as words.
    fn pack_answer(&self, answer: &Self::Snapshot) -> Vec<u32>;

    /// The answer and its score again; `None` for words that are none.
    fn unpack_answer(&self, words: &[u32]) -> Option<(Self::Score, Self::Snapshot)>;
}

/// The part of `count` things that falls to a rank.
pub fn share(count: usize, (rank, ranks): (usize, usize)) -> Range<usize> {
    count * rank / ranks..count * (rank + 1) / ranks
}

/// What a process tells the others after a temperature.
struct Told<'a> {
    stopped: bool,
    gains: u64,
    /// When the best state was met, and the answer in it; none if none was better than the archive's.
    best: Option<((u64, u32), &'a [u32])>,
    moves: Vec<MoveCount>,
    states: Vec<&'a [u32]>,
}

/// Tells the others of `mine` and hears of theirs; `Ok(false)` if one of them was stopped.
pub(crate) fn exchange<S: Portable>(
    system: &S,
    population: &mut Population<S>,
    archive: &mut Archive<S>,
    gains_before: u64,
    stopped: bool,
    peers: &dyn Peers,
) -> Result<bool, AnnealError> {
    let mine = share(population.len(), peers.rank());
    let words = tell(system, population, archive, gains_before, stopped, mine);
    let heard = peers.exchange(words).map_err(|why| AnnealError::Peers { why })?;
    let broken =
        |rank: usize| AnnealError::Peers { why: format!("rank {rank} sent no state of this system") };
    let ranks = peers.rank().1;
    if heard.len() != ranks {
        return Err(AnnealError::Peers { why: format!("{} of {ranks} processes answered", heard.len()) });
    }
    let mut told = Vec::with_capacity(ranks);
    for (rank, words) in heard.iter().enumerate() {
        told.push(parse(words, S::MOVE_KINDS.len()).ok_or_else(|| broken(rank))?);
    }
    if told.iter().any(|told| told.stopped) {
        return Ok(false);
    }
    archive.gains = gains_before + told.iter().map(|told| told.gains).sum::<u64>();
    for (rank, told) in told.into_iter().enumerate() {
        if let Some((met, answer)) = told.best {
            let (score, answer) = system.unpack_answer(answer).ok_or_else(|| broken(rank))?;
            if (&score, met) < (&archive.score, archive.met) {
                (archive.score, archive.best, archive.met) = (score, answer, met);
            }
        }
        let theirs = share(population.len(), (rank, ranks));
        if told.states.len() != theirs.len() {
            return Err(broken(rank));
        }
        if rank != peers.rank().0 {
            for (replica, words) in theirs.clone().zip(told.states) {
                population.put(system, replica, system.unpack_state(words).ok_or_else(|| broken(rank))?);
            }
            population.put_moves(theirs, &told.moves);
        }
    }
    Ok(true)
}

fn tell<S: Portable>(
    system: &S,
    population: &Population<S>,
    archive: &Archive<S>,
    gains_before: u64,
    stopped: bool,
    mine: Range<usize>,
) -> Vec<u32> {
    let halves = |value: u64| [value as u32, (value >> 32) as u32];
    let gains = archive.gains - gains_before;
    let mut words = vec![u32::from(stopped)];
    words.extend(halves(gains));
    let mut list = |part: Vec<u32>| {
        words.push(part.len() as u32);
        words.extend(part);
    };
    let (sweep, replica) = archive.met;
    list(if gains == 0 { Vec::new() } else { [halves(sweep).to_vec(), vec![replica]].concat() });
    list(if gains == 0 { Vec::new() } else { system.pack_answer(&archive.best) });
    let moves = population.count_moves_of(mine.clone());
    let each = |count: &MoveCount| [count.proposed, count.accepted, count.improved];
    list(moves.iter().flat_map(each).flat_map(halves).collect());
    for replica in mine {
        list(system.pack_state(population.state(replica)));
    }
    words
}

fn parse(words: &[u32], kinds: usize) -> Option<Told<'_>> {
    let whole = |words: &[u32]| u64::from(words[0]) | u64::from(words[1]) << 32;
    let (head, mut rest) = words.split_at_checked(3)?;
    let mut parts = Vec::new();
    while let Some((&len, later)) = rest.split_first() {
        let (part, later) = later.split_at_checked(len as usize)?;
        parts.push(part);
        rest = later;
    }
    let [met, answer, moves, states @ ..] = &parts[..] else { return None };
    let moves: Vec<u64> = moves.as_chunks::<2>().0.iter().map(|pair| whole(pair)).collect();
    let moves: Vec<MoveCount> = moves
        .as_chunks::<3>()
        .0
        .iter()
        .map(|&[proposed, accepted, improved]| MoveCount { proposed, accepted, improved })
        .collect();
    Some(Told {
        stopped: head[0] != 0,
        gains: whole(&head[1..]),
        best: (met.len() == 3).then(|| ((whole(met), met[2]), *answer)),
        moves: (moves.len() == kinds).then_some(moves)?,
        states: states.to_vec(),
    })
}
