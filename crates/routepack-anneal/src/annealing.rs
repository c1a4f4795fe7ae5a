//! Population annealing.
//!
//! Problem: find a state of least score of a system with energy E.
//! Method: a population of R replicas goes down a ladder of temperatures together. At each temperature T every replica
//! runs its own Markov chain at T for a number of sweeps, in parallel; the best state met, by exact score, goes into
//! the archive. Then the population is resampled for the next temperature T': replicas are copied or dropped by their
//! Boltzmann weight e^(−(1/T' − 1/T) E). Replicas with one ancestor are a family.
//!
//! The result is a function of system, starting states, options and stream: replica i at rung k draws from the stream
//! of (k, i) alone, whichever thread runs it, and sums are taken in the order of the replicas. A stop is looked for
//! before every sweep of every replica; work on an unfinished sweep of the population is thrown away, so a stopped run
//! is a function of the number of sweeps it finished. The archive is never worse than the best starting state.
//!
//! Symbols: R population, K rungs, S sweeps a rung. Complexity: R·K·S sweeps of one replica; O(R) a rung beside them;
//! memory of R states.
//! References: K. Hukushima and Y. Iba, Population annealing and its application to a spin glass, AIP Conf. Proc. 690,
//! 2003, doi 10.1063/1.1632130; J. Machta, Phys. Rev. E 82, 026704, 2010, doi 10.1103/PhysRevE.82.026704; W. Wang,
//! J. Machta and H. G. Katzgraber, Comparing Monte Carlo methods for finding ground states of Ising spin glasses:
//! population annealing, simulated annealing, and parallel tempering, Phys. Rev. E 92, 013303, 2015, doi
//! 10.1103/PhysRevE.92.013303. Deviations: systematic resampling at constant population; the archive; the start may be
//! any states, at a temperature the ladder was measured for.

use std::fmt;

use crate::error::AnnealError;
use crate::options::{Options, Start};
use crate::peers::{Peers, Portable, exchange, share};
use crate::population::{Archive, Population};
use crate::resample::{Weights, resample, weigh};
use crate::stream::Stream;
use crate::system::System;
use crate::trace::TemperatureReport;

/// How a run ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub enum Outcome {
    /// The ladder was walked to its end.
    Finished,
    /// The caller's `stop`, or the sweep limit, ended it before.
    Stopped,
}

/// The result of [`anneal`].
pub struct Annealed<S: System> {
    /// The best state met: its snapshot.
    pub best: S::Snapshot,
    /// Its exact score; never worse than that of any starting state.
    pub score: S::Score,
    /// How the run ended.
    pub outcome: Outcome,
    /// Sweeps of the whole population that were finished.
    pub sweeps: u64,
    /// One report for each temperature that was finished.
    pub trace: Vec<TemperatureReport>,
    /// Estimate of ln Z(last temperature) − ln Z(first temperature), Z = Σ e^(−E/T) over the states: the free energy,
    /// −T ln Z, up to the first temperature's. Only where it means that: a finished run of a system whose sweeps keep
    /// the Boltzmann distribution, started in equilibrium.
    pub log_partition_ratio: Option<f64>,
}

impl<S: System> fmt::Debug for Annealed<S> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { outcome, sweeps, log_partition_ratio, .. } = self;
        formatter
            .debug_struct("Annealed")
            .field("outcome", outcome)
            .field("sweeps", sweeps)
            .field("log_partition_ratio", log_partition_ratio)
            .finish_non_exhaustive()
    }
}

/// Anneals a population that starts from `starts`; the module explains the method.
///
/// Runs in the caller's rayon pool. `stop` is consulted by all threads before each sweep of a replica; `observe` is told
/// of every temperature when it is done.
///
/// # Errors
/// [`AnnealError`] for options that can't be, no starting state, or a system whose energies are not finite.
pub fn anneal<S: System>(
    system: &S,
    starts: Vec<S::State>,
    options: &Options,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut dyn FnMut(&TemperatureReport),
) -> Result<Annealed<S>, AnnealError> {
    let mut walk = |population: &mut Population<S>, temperature, archive: &mut Archive<S>| {
        population.walk(system, 0..population.len(), temperature, options, archive, stop)
    };
    descend(system, starts, options, stream, &mut walk, observe)
}

/// [`anneal`], with the population shared among processes that all make this call; see [`crate::peers`].
///
/// # Errors
/// As [`anneal`]; [`AnnealError::Peers`] if a process is gone.
pub fn anneal_among<S: Portable>(
    system: &S,
    starts: Vec<S::State>,
    options: &Options,
    stream: &Stream,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut dyn FnMut(&TemperatureReport),
    peers: &dyn Peers,
) -> Result<Annealed<S>, AnnealError> {
    let mut walk = |population: &mut Population<S>, temperature, archive: &mut Archive<S>| {
        let (mine, gains_before) = (share(population.len(), peers.rank()), archive.gains);
        let walked = population.walk(system, mine, temperature, options, archive, stop)?;
        exchange(system, population, archive, gains_before, !walked, peers)
    };
    descend(system, starts, options, stream, &mut walk, observe)
}

/// Chains of a population at one temperature; `false` if they were stopped.
type Walk<'a, S> = &'a mut dyn FnMut(&mut Population<S>, f64, &mut Archive<S>) -> Result<bool, AnnealError>;

/// Goes down the ladder, from walk to resampling to walk.
fn descend<S: System>(
    system: &S,
    starts: Vec<S::State>,
    options: &Options,
    stream: &Stream,
    walk: Walk<'_, S>,
    observe: &mut dyn FnMut(&TemperatureReport),
) -> Result<Annealed<S>, AnnealError> {
    options.validate()?;
    let (mut population, mut archive) = Population::start(system, starts, options.start, options.population)?;
    let [chains, mut resampling, mut measuring] = [0, 1, 2].map(|purpose| stream.child(purpose));
    let changes = if options.ladder.is_measured() {
        population.sample_changes(system, options.samples, &mut measuring)?
    } else {
        Vec::new()
    };
    let mut ladder = options.ladder.build(options.temperatures, options.culling, &changes);
    let mut trace = Vec::new();

    for rung in 0.. {
        let temperature = 1.0 / ladder.beta();
        let gains_before = archive.gains;
        population.begin_temperature(&chains.child(u64::from(rung)));
        if !walk(&mut population, temperature, &mut archive)? {
            return Ok(conclude(archive, Outcome::Stopped, population.sweeps, trace, options.start));
        }
        let mut report = describe(&population, rung, temperature);
        report.gains = archive.gains - gains_before;

        let energies = population.energies();
        let step = ladder.descend(&energies);
        if let Some(step) = step {
            let Weights { weights, log_mean, effective_population } = weigh(&energies, step);
            let copies = resample(&weights, &mut resampling);
            population.replace(&copies);
            report.effective_population = effective_population;
            report.culled = copies.iter().filter(|count| **count == 0).count() as f64 / copies.len() as f64;
            report.log_weight = log_mean;
        }
        observe(&report);
        trace.push(report);
        if step.is_none() {
            break;
        }
    }
    Ok(conclude(archive, Outcome::Finished, population.sweeps, trace, options.start))
}

/// The population at the end of a temperature, as if no resampling followed.
fn describe<S: System>(population: &Population<S>, rung: u32, temperature: f64) -> TemperatureReport {
    let mut energies = population.energies();
    energies.sort_by(f64::total_cmp);
    let size = energies.len() as f64;
    let mean = energies.iter().sum::<f64>() / size;
    let variance = energies.iter().map(|energy| (energy - mean) * (energy - mean)).sum::<f64>() / size;
    let families = population.family_sizes();
    TemperatureReport {
        rung,
        temperature,
        sweeps: population.sweeps,
        gains: 0,
        energy_deciles: std::array::from_fn(|tenth| energies[tenth * (energies.len() - 1) / 10]),
        energy_mean: mean,
        energy_sd: variance.sqrt(),
        moves: population.count_moves(),
        families: families.len() as u32,
        rho_t: families.iter().map(|members| f64::from(*members) * f64::from(*members)).sum::<f64>() / size,
        effective_population: size,
        culled: 0.0,
        log_weight: 0.0,
    }
}

fn conclude<S: System>(
    archive: Archive<S>,
    outcome: Outcome,
    sweeps: u64,
    trace: Vec<TemperatureReport>,
    start: Start,
) -> Annealed<S> {
    let in_equilibrium = S::KEEPS_BOLTZMANN && start == Start::Equilibrium && outcome == Outcome::Finished;
    let log_partition_ratio = in_equilibrium.then(|| trace.iter().map(|report| report.log_weight).sum());
    Annealed { best: archive.best, score: archive.score, outcome, sweeps, trace, log_partition_ratio }
}
