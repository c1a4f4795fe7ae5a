//! The loop of the layout search on one screen: [`Search::run`], and its stages.
//!
//! Problem and method: [`crate::arrange()`]. Every stage offers what it finds to the archive, and stops when told to.
//! Symbols: U units, K replicas of the population, T temperatures, each of so many sweeps of a round.
//! Complexity: rounds are geometric, so the last one counts: about `proposals_per_unit`·U proposals in all, each of
//! O(parts·L·P) where attention does not already refuse it ([`crate::trial`]); memory K·(U + blocks·parts·L·P).

use routepack_anneal::{Ladder, Options, Outcome, Peers, Stream, TemperatureReport, anneal, anneal_among};
use routepack_problem::{Instance, Layout, Placement, Score};

use crate::ArrangeError;
use crate::alike::make_alike;
use crate::arranged::{ArrangeProgress, Arranged, Stage};
use crate::balance::balance_blocks;
use crate::canonical::canonical;
use crate::descend::{Descended, descend, kick};
use crate::energy::Energy;
use crate::exact::search_tree;
use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::options::ArrangeOptions;
use crate::rich_cells::fill_rich_cells;
use crate::seeds::plant_seeds;
use crate::spread_bins::layout_of;
use crate::state::LayoutState;
use crate::system::LayoutSystem;
use crate::temperature::measure;
use crate::units::Units;

/// Units of a window whose search ends with the exact one, at most.
const EXACT_UNITS: usize = 24;

/// A window counts as at least so many units when evaluations are dealt to the descent.
const LEAST_DESCENT_UNITS: u64 = 100;

/// How far stages of a shard may differ before the slowest alone counts, in tolerances of shards: a fifth left smaller gaps
/// than one.
const SOFTNESS: f64 = 0.2;

/// The archive, and what every stage needs.
pub(crate) struct Search<'a> {
    units: &'a Units,
    options: &'a ArrangeOptions,
    stop: &'a (dyn Fn() -> bool + Sync),
    /// Other processes that anneal with this one.
    pub(crate) peers: Option<&'a dyn Peers>,
    observe: &'a mut (dyn FnMut(&ArrangeProgress) + Send),
    round: u32,
    given: Score,
    /// No layout is below it.
    least: Score,
    best: Vec<u32>,
    score: Score,
    local_optimum: bool,
    exhausted: bool,
    stopped: bool,
    trace: Vec<TemperatureReport>,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
        units: &'a Units,
        options: &'a ArrangeOptions,
        first: Vec<u32>,
        least: Score,
        stop: &'a (dyn Fn() -> bool + Sync),
        observe: &'a mut (dyn FnMut(&ArrangeProgress) + Send),
    ) -> Self {
        let score = Grid::new(units, first.clone()).score(units);
        Self {
            units,
            options,
            stop,
            peers: None,
            observe,
            round: 0,
            given: score,
            least,
            best: first,
            score,
            local_optimum: false,
            exhausted: false,
            stopped: false,
            trace: Vec::new(),
        }
    }

    /// Seeds, rounds of annealing and balancing, and the descent.
    pub(crate) fn run(&mut self, stream: &Stream) -> Result<(), ArrangeError> {
        let Some(neighbours) = self.prepare() else { return Ok(()) };
        let (units, options) = (self.units, self.options);
        let starts = plant_seeds(units, &self.best, options, &stream.child(0), self.stop, self.peers)?;
        for round in 0..options.rounds {
            if self.is_over() {
                break;
            }
            self.anneal_round(round, &neighbours, &starts, &stream.child(1).child(u64::from(round)))?;
            self.balance(&stream.child(2).child(u64::from(round)));
        }
        self.descend(&neighbours, &mut stream.child(3));
        Ok(())
    }

    /// What the search needs beside the units; `None` if there is nothing to search, or it was stopped.
    fn prepare(&mut self) -> Option<Neighbours> {
        if self.is_over() {
            return None;
        }
        let neighbours = Neighbours::new(self.units, self.options.neighbours as usize, self.stop);
        self.stopped |= neighbours.is_none();
        neighbours
    }

    /// Whether nothing can be better than the best layout, which is a local optimum then.
    fn is_over(&mut self) -> bool {
        let over = self.units.num_cells() == 1 || self.score <= self.least;
        self.local_optimum |= over;
        over
    }

    fn anneal_round(
        &mut self,
        round: u32,
        neighbours: &Neighbours,
        seeds: &[Vec<u32>],
        stream: &Stream,
    ) -> Result<(), ArrangeError> {
        self.round = round;
        let mut starts: Vec<LayoutState> = std::iter::once(&self.best)
            .chain(seeds.iter().filter(|&seed| *seed != self.best))
            .map(|cell_of| LayoutState::new(self.units, cell_of.clone()))
            .collect();
        let options = self.options;
        let row_cost = starts[0].grid.mean_row_cost(self.units);
        let energy = Energy {
            reference: row_cost * self.units.rows as f64,
            stiffness: 0.5 / (options.shard_tolerance * row_cost),
            softness: SOFTNESS * options.shard_tolerance * row_cost,
        };
        let plan = self.units.plan_sweeps(options, round);
        let system = LayoutSystem { units: self.units, neighbours, energy, proposals: plan.proposals };
        let mut measuring = stream.child(1);
        let hot = measure(&system, &mut starts, options.hot_acceptance, &mut measuring, self.stop);
        let hottest = hot.unwrap_or(0.0).max(options.hottest * row_cost);
        let annealing = Options {
            population: options.population,
            temperatures: options.temperatures,
            sweeps: plan.sweeps,
            ladder: Ladder::Geometric { hottest, coldest: hottest / options.cooling },
            ..Options::default()
        };
        let score = self.score;
        let (observe, trace) = (&mut self.observe, &mut self.trace);
        let mut tell = |report: &TemperatureReport| {
            trace.push(report.clone());
            observe(&ArrangeProgress { round, stage: Stage::Anneal, score, report: Some(report.clone()) });
        };
        let (stream, stop) = (stream.child(0), self.stop);
        let annealed = match self.peers {
            None => anneal(&system, starts, &annealing, &stream, stop, &mut tell),
            Some(peers) => anneal_among(&system, starts, &annealing, &stream, stop, &mut tell, peers),
        }?;
        self.stopped |= annealed.outcome == Outcome::Stopped;
        if annealed.score < self.score {
            self.score = annealed.score;
            self.best = annealed.best;
        }
        Ok(())
    }

    /// Balances the cells of every block of the best layout.
    fn balance(&mut self, stream: &Stream) {
        let (units, stop) = (self.units, self.stop);
        let cell_of = balance_blocks(units, &self.best, stream, stop);
        self.offer(&Grid::new(units, cell_of));
        self.stopped |= stop();
        self.tell(Stage::Balance);
    }

    /// Descends from the best layout, and again from places near it while evaluations are left.
    fn descend(&mut self, neighbours: &Neighbours, stream: &mut Stream) {
        let mut left = u64::from(self.options.descent_per_unit)
            * (self.units.num_units() as u64).max(LEAST_DESCENT_UNITS);
        let mut grid = Grid::new(self.units, self.best.clone());
        while !self.is_over() {
            let before = left;
            let end = descend(self.units, neighbours, &mut grid, &mut left, self.stop);
            self.stopped |= end == Descended::Stopped;
            let gained = grid.score(self.units) < self.score;
            if gained || grid.cell_of == self.best {
                self.local_optimum = end == Descended::LocalOptimum;
            }
            self.offer(&grid);
            if end != Descended::LocalOptimum || left == before {
                break;
            }
            grid = Grid::new(self.units, self.best.clone());
            kick(self.units, &mut grid, stream);
        }
        self.tell(Stage::Descend);
    }

    /// Makes the best layout one to place experts for: attention goes where it is free, and blocks are made alike.
    pub(crate) fn make_placeable(&mut self, instance: &Instance, stream: &Stream) {
        let (units, stop) = (self.units, self.stop);
        let rich = fill_rich_cells(units, &self.best, &mut stream.child(0), stop);
        let alike = make_alike(instance, units, &rich, &mut stream.child(1), stop);
        self.best = balance_blocks(units, &alike, &stream.child(2), stop);
        self.score = Grid::new(units, self.best.clone()).score(units);
    }

    /// Searches the layouts of a small window for a better one than the best known.
    pub(crate) fn search_tree(&mut self, instance: &Instance, placement: &Placement) {
        let (units, mut nodes) = (self.units, u64::from(self.options.exact_nodes));
        if units.num_units() > EXACT_UNITS || nodes == 0 || self.stopped {
            return;
        }
        let incumbent = (layout_of(instance, units, &self.best), self.score);
        let (layout, score) = search_tree(instance, placement, units, Some(incumbent), &mut nodes, self.stop)
            .expect("an incumbent is given");
        self.exhausted = nodes > 0;
        self.local_optimum |= self.exhausted;
        self.stopped |= (self.stop)();
        if score < self.score {
            (self.best, self.score) = (units.cells_of_units(instance, &layout), score);
        }
        self.tell(Stage::Exact);
    }

    /// Archives a layout if it is better.
    fn offer(&mut self, grid: &Grid) {
        let score = grid.score(self.units);
        if score < self.score {
            self.score = score;
            self.best.clone_from(&grid.cell_of);
        }
    }

    fn tell(&mut self, stage: Stage) {
        (self.observe)(&ArrangeProgress { round: self.round, stage, score: self.score, report: None });
    }

    pub(crate) fn conclude(self, instance: &Instance, first: &Layout) -> Arranged {
        let layout = if self.score < self.given {
            let grid = Grid::new(self.units, self.best);
            layout_of(instance, self.units, &canonical(self.units, &grid))
        } else {
            first.clone()
        };
        Arranged {
            layout,
            score: self.score,
            finished: !self.stopped,
            local_optimum: self.local_optimum,
            exhausted: self.exhausted,
            trace: self.trace,
        }
    }
}
