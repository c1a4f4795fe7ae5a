//! The replicas of one run, what they do together, and the archive they feed.

use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};

use rayon::prelude::*;

use crate::error::AnnealError;
use crate::options::{Options, Start};
use crate::stream::Stream;
use crate::system::{MoveCount, Record, System};

/// The best answer of a run.
pub(crate) struct Archive<S: System> {
    pub(crate) score: S::Score,
    pub(crate) best: S::Snapshot,
    /// How often it was improved.
    pub(crate) gains: u64,
    /// The sweep and the replica in which it was met last.
    pub(crate) met: (u64, u32),
}

/// One replica.
struct Replica<S: System> {
    state: S::State,
    energy: f64,
    /// Its ancestor in the starting population.
    family: u32,
    stream: Stream,
    record: Record<S>,
}

/// All replicas, in an order that does not depend on threads.
pub(crate) struct Population<S: System> {
    replicas: Vec<Replica<S>>,
    /// Sweeps of the whole population done so far.
    pub(crate) sweeps: u64,
}

impl<S: System> Population<S> {
    /// The starting population, and the archive with the best of all starting states.
    pub(crate) fn start(
        system: &S,
        mut starts: Vec<S::State>,
        start: Start,
        size: u32,
    ) -> Result<(Self, Archive<S>), AnnealError> {
        if start == Start::Equilibrium && starts.len() != size as usize {
            return Err(AnnealError::SampleSize { starts: starts.len(), population: size });
        }
        let best = starts.iter().min_by_key(|state| system.score(state)).ok_or(AnnealError::NoStart)?;
        let archive: Archive<S> =
            Archive { score: system.score(best), best: system.snapshot(best), gains: 0, met: (0, 0) };
        if starts.len() > size as usize {
            starts.sort_by_cached_key(|state| system.score(state));
            starts.truncate(size as usize);
        }
        for repeated in 0..(size as usize - starts.len()) {
            starts.push(starts[repeated].clone());
        }
        let replicas = starts.into_iter().zip(0..).map(|(state, family)| Replica {
            energy: system.energy(&state),
            state,
            family,
            stream: Stream::new(0),
            record: Record::new(archive.score.clone()),
        });
        let population = Self { replicas: replicas.collect(), sweeps: 0 };
        population.check_energies()?;
        Ok((population, archive))
    }

    /// Gives every replica a fresh stream and fresh counts.
    pub(crate) fn begin_temperature(&mut self, stream: &Stream) {
        for (replica, index) in self.replicas.iter_mut().zip(0..) {
            replica.stream = stream.child(index);
            replica.record.moves.fill(MoveCount::default());
        }
    }

    /// Sweeps these replicas as often as a temperature asks for; `Ok(false)` if stopped, or the sweep limit is reached.
    pub(crate) fn walk(
        &mut self,
        system: &S,
        replicas: Range<usize>,
        temperature: f64,
        options: &Options,
        archive: &mut Archive<S>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, AnnealError> {
        for _ in 0..options.sweeps {
            let exhausted = options.sweep_limit.is_some_and(|limit| self.sweeps >= limit);
            if exhausted || !self.sweep(system, replicas.clone(), temperature, archive, stop)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Sweeps these replicas once and archives the best state met. `Ok(false)` if stopped before all were done: then
    /// the archive is as it was, the population no longer of use.
    pub(crate) fn sweep(
        &mut self,
        system: &S,
        replicas: Range<usize>,
        temperature: f64,
        archive: &mut Archive<S>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Result<bool, AnnealError> {
        let stopped = AtomicBool::new(false);
        self.replicas[replicas].par_iter_mut().for_each(|replica| {
            if stopped.load(Ordering::Relaxed) || stop() {
                stopped.store(true, Ordering::Relaxed);
                return;
            }
            let Replica { state, energy, stream, record, .. } = replica;
            system.sweep(state, temperature, stream, record);
            record.offer(system, state);
            *energy = system.energy(state);
        });
        if stopped.into_inner() {
            return Ok(false);
        }
        self.sweeps += 1;
        self.check_energies()?;
        self.collect_best(archive);
        Ok(true)
    }

    /// Moves the best kept answer into the archive, the first replica's among equals, and sets the bar for the next.
    fn collect_best(&mut self, archive: &mut Archive<S>) {
        for (Replica { record, .. }, index) in self.replicas.iter_mut().zip(0..) {
            if let Some(best) = record.best.take()
                && record.bar < archive.score
            {
                archive.score.clone_from(&record.bar);
                archive.best = best;
                archive.gains += 1;
                archive.met = (self.sweeps, index);
            }
        }
        for Replica { record, .. } in &mut self.replicas {
            record.bar.clone_from(&archive.score);
        }
    }

    fn check_energies(&self) -> Result<(), AnnealError> {
        match self.replicas.iter().position(|replica| !replica.energy.is_finite()) {
            None => Ok(()),
            Some(replica) => Err(AnnealError::Energy {
                replica,
                energy: self.replicas[replica].energy,
                sweeps: self.sweeps,
            }),
        }
    }

    /// Energies by replica.
    pub(crate) fn energies(&self) -> Vec<f64> {
        self.replicas.iter().map(|replica| replica.energy).collect()
    }

    /// Replicas.
    pub(crate) fn len(&self) -> usize {
        self.replicas.len()
    }

    /// State of a replica.
    pub(crate) fn state(&self, replica: usize) -> &S::State {
        &self.replicas[replica].state
    }

    /// Gives a replica another state.
    pub(crate) fn put(&mut self, system: &S, replica: usize, state: S::State) {
        let Replica { state: held, energy, .. } = &mut self.replicas[replica];
        *energy = system.energy(&state);
        *held = state;
    }

    /// Books the moves of these replicas together.
    pub(crate) fn put_moves(&mut self, replicas: Range<usize>, moves: &[MoveCount]) {
        if let Some(first) = self.replicas[replicas].first_mut() {
            first.record.moves.copy_from_slice(moves);
        }
    }

    /// Counts of moves since the temperature began, all replicas together.
    pub(crate) fn count_moves(&self) -> Vec<MoveCount> {
        self.count_moves_of(0..self.replicas.len())
    }

    /// The same of these replicas.
    pub(crate) fn count_moves_of(&self, replicas: Range<usize>) -> Vec<MoveCount> {
        let mut moves = vec![MoveCount::default(); S::MOVE_KINDS.len()];
        for replica in &self.replicas[replicas] {
            for (sum, count) in moves.iter_mut().zip(&replica.record.moves) {
                *sum += *count;
            }
        }
        moves
    }

    /// Sizes of the families that are still there.
    pub(crate) fn family_sizes(&self) -> Vec<u32> {
        let mut sizes = vec![0; self.replicas.len()];
        for replica in &self.replicas {
            sizes[replica.family as usize] += 1;
        }
        sizes.retain(|size| *size > 0);
        sizes
    }

    /// Energy changes of random proposals from the replicas in turn.
    pub(crate) fn sample_changes(
        &mut self,
        system: &S,
        samples: u32,
        stream: &mut Stream,
    ) -> Result<Vec<f64>, AnnealError> {
        let num_replicas = self.replicas.len();
        (0..samples as usize)
            .map(|sample| {
                let change = system.sample_change(&mut self.replicas[sample % num_replicas].state, stream);
                if change.is_finite() { Ok(change) } else { Err(AnnealError::Change { sample, change }) }
            })
            .collect()
    }

    /// Replaces the population by that many copies of each replica; the counts add up to the population. A survivor
    /// keeps its place, its further copies overwrite replicas without any.
    pub(crate) fn replace(&mut self, copies: &[u32]) {
        let mut vacant = (0..copies.len()).filter(|place| copies[*place] == 0);
        for (survivor, count) in copies.iter().enumerate() {
            for _ in 1..*count {
                let place = vacant.next().expect("the counts add up to the population");
                let [from, to] = self
                    .replicas
                    .get_disjoint_mut([survivor, place])
                    .expect("a survivor's place is not vacant");
                to.state.clone_from(&from.state);
                to.energy = from.energy;
                to.family = from.family;
            }
        }
    }
}
