//! What can be annealed.

use std::fmt;

use crate::stream::Stream;

/// A system: states, their energy, and Markov chains over them.
///
/// One value holds what is fixed (the instance) and is shared by all threads; a [`System::State`] is one replica's
/// configuration with whatever it caches to make moves cheap. [`crate::systems`] has two complete examples.
///
/// Everything must be a function of its arguments: no clock, no global state, no randomness but from the stream.
pub trait System: Sync {
    /// A configuration with its caches. `clone_from` is used to copy replicas: implement it without allocation where
    /// states are large.
    type State: Clone + Send;
    /// The exact value of a state; smaller is better. It chooses the winner, the energy only steers.
    type Score: Ord + Clone + Send;
    /// What the archive keeps of a state: the answer, without the caches.
    type Snapshot: Send;

    /// The names of the kinds of move, for diagnostics; a kind is given by its index.
    const MOVE_KINDS: &'static [&'static str];

    /// Whether a sweep leaves the Boltzmann distribution e^(−energy/temperature) as it is: symmetric proposals and the
    /// Metropolis rule do, guided proposals and descents do not. Without it there is no free-energy estimate.
    const KEEPS_BOLTZMANN: bool = false;

    /// The energy of a state: a finite number, cheap to read (it is asked for after every sweep).
    fn energy(&self, state: &Self::State) -> f64;

    /// The exact score of a state, cheap to read.
    fn score(&self, state: &Self::State) -> Self::Score;

    /// The answer in a state.
    fn snapshot(&self, state: &Self::State) -> Self::Snapshot;

    /// The energy change of one random proposal, as a sweep would draw it; the state is the same afterwards.
    /// A measured ladder is made of these.
    fn sample_change(&self, state: &mut Self::State, stream: &mut Stream) -> f64;

    /// Runs the chain at `temperature` for one sweep: many proposals, each accepted by the Metropolis rule
    /// ([`crate::accepts`]). Proposals and acceptances are counted in `record`, and states better than
    /// anything before are offered to it; the state at the end of the sweep is offered by the caller.
    ///
    /// A sweep is also the time between two looks at the clock: keep it to a few milliseconds.
    fn sweep(
        &self,
        state: &mut Self::State,
        temperature: f64,
        stream: &mut Stream,
        record: &mut Record<Self>,
    );
}

/// How often moves of one kind were tried, and what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct MoveCount {
    /// Moves evaluated.
    pub proposed: u64,
    /// Moves made.
    pub accepted: u64,
    /// Moves made that lowered the energy.
    pub improved: u64,
}

impl std::ops::AddAssign for MoveCount {
    fn add_assign(&mut self, other: Self) {
        self.proposed += other.proposed;
        self.accepted += other.accepted;
        self.improved += other.improved;
    }
}

/// What one replica's sweeps leave beside its state: counts of moves, and the best state they passed through.
pub struct Record<S: System + ?Sized> {
    pub(crate) moves: Vec<MoveCount>,
    pub(crate) bar: S::Score,
    pub(crate) best: Option<S::Snapshot>,
}

impl<S: System + ?Sized> Record<S> {
    /// An empty record that takes states strictly better than `bar`.
    pub fn new(bar: S::Score) -> Self {
        Self { moves: vec![MoveCount::default(); S::MOVE_KINDS.len()], bar, best: None }
    }

    /// Counts a proposal of that kind.
    #[inline]
    pub fn propose(&mut self, kind: usize) {
        self.moves[kind].proposed += 1;
    }

    /// Counts an accepted move of that kind that changed the energy by `change`.
    #[inline]
    pub fn accept(&mut self, kind: usize, change: f64) {
        self.moves[kind].accepted += 1;
        self.moves[kind].improved += u64::from(change < 0.0);
    }

    /// Whether a state of that score would be kept: it is better than every state any replica has offered in earlier
    /// sweeps, and than this replica's in this one.
    #[inline]
    pub fn beats(&self, score: &S::Score) -> bool {
        *score < self.bar
    }

    /// Keeps a snapshot of the state if it is the best so far.
    #[inline]
    pub fn offer(&mut self, system: &S, state: &S::State) {
        let score = system.score(state);
        if self.beats(&score) {
            self.keep(score, system.snapshot(state));
        }
    }

    /// Keeps an answer and its score: for systems that snapshot late, before they leave a best state. Only for a
    /// score that [`Record::beats`] accepts.
    pub fn keep(&mut self, score: S::Score, answer: S::Snapshot) {
        debug_assert!(self.beats(&score), "only a better score is kept");
        self.bar = score;
        self.best = Some(answer);
    }

    /// The counts so far, per kind of move.
    pub fn moves(&self) -> &[MoveCount] {
        &self.moves
    }

    /// The best score so far: the bar, or what was kept below it.
    pub fn bar(&self) -> &S::Score {
        &self.bar
    }

    /// The kept answer, if any state beat the bar.
    pub fn best(&self) -> Option<&S::Snapshot> {
        self.best.as_ref()
    }
}

impl<S: System + ?Sized> fmt::Debug for Record<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Record").field("moves", &self.moves).finish_non_exhaustive()
    }
}
