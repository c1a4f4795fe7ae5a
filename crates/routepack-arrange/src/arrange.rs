//! The layout search on one screen.
//!
//! Problem: given the placement and a feasible layout, find a layout of least score (DESIGN §1.3).
//! Method: seeds ([`crate::window_shuffle`], [`crate::randomized_best_fit`], [`crate::edp_aware_pair`],
//! [`crate::perturb`], and the layout given), a choice of good and different ones ([`crate::select`]), population
//! annealing ([`crate::system`]), exact balancing of cells within their blocks ([`crate::balance`]) and a final descent
//! ([`crate::descend`]), repeated from places nearby while its budget lasts; in rounds, each longer than the one before.
//! Small windows end with an exact search ([`crate::exact`]). The best layout met, by exact score, wins; it is never worse
//! than the one given.
//! Reference: arXiv 2608.12146 for seeds, sketch and population annealing; DESIGN §1.4.

use rayon::prelude::*;
use routepack_anneal::{
    Ladder, Options, Outcome, Peers, Stream, System, TemperatureReport, anneal, anneal_among,
};
use routepack_problem::{Instance, Layout, Placement, Score, check_layout, evaluate};

use crate::ArrangeError;
use crate::balance::BlockCells;
use crate::canonical::canonical;
use crate::descend::{Descended, descend, kick};
use crate::energy::Energy;
use crate::even::Even;
use crate::exact::search_tree;
use crate::grid::Grid;
use crate::neighbours::Neighbours;
use crate::options::ArrangeOptions;
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

/// The best layout found.
#[derive(Clone, Debug, PartialEq)]
pub struct Arranged {
    /// The layout, feasible: the one given, or a better one in canonical form.
    pub layout: Layout,
    /// Its exact score.
    pub score: Score,
    /// Whether the search ended by itself; false if it was stopped.
    pub finished: bool,
    /// Whether no move of the final descent improves the layout: swaps, relocations, trades of whole cells and rows, two
    /// units for one; unknown if false.
    pub local_optimum: bool,
    /// Whether the exact search went through all layouts of these rows: none has a lower score. The search says so; no
    /// certificate does.
    pub exhausted: bool,
    /// One report a temperature, of all rounds one after the other.
    pub trace: Vec<TemperatureReport>,
}

impl Arranged {
    /// The layout given, where there was no time for any search.
    fn unsearched(instance: &Instance, placement: &Placement, first: &Layout) -> Self {
        Self {
            layout: first.clone(),
            score: evaluate(instance, placement, first).score,
            finished: false,
            local_optimum: false,
            exhausted: false,
            trace: Vec::new(),
        }
    }

    /// The trace as a table, comma separated, one line a temperature: energies by decile, families surviving, ρₜ, and what
    /// became of the proposals of each kind of move.
    pub fn trace_csv(&self) -> String {
        let header = TemperatureReport::csv_header(LayoutSystem::MOVE_KINDS);
        let rows = self.trace.iter().map(TemperatureReport::csv_row);
        std::iter::once(header).chain(rows).map(|line| line + "\n").collect()
    }
}

/// What the search is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Constructing starting layouts.
    Seeds,
    /// Annealing.
    Anneal,
    /// Balancing the cells of blocks.
    Balance,
    /// Descending.
    Descend,
    /// Searching all layouts of a small window.
    Exact,
}

/// Progress, told after every temperature and every stage.
#[derive(Clone, Debug, PartialEq)]
pub struct ArrangeProgress {
    /// Round, from 0.
    pub round: u32,
    /// The stage that made this progress.
    pub stage: Stage,
    /// Score of the best layout archived so far.
    pub score: Score,
    /// The temperature that was finished, while annealing.
    pub report: Option<TemperatureReport>,
}

/// Searches for a layout of least score, from a feasible one, for the number of rows that one has.
///
/// The result depends on the arguments alone, not on threads, unless `stop` ended the search; it runs in the current
/// rayon pool. `stop` is looked at every few milliseconds. [`ArrangeOptions`] says how long the search is.
///
/// # Errors
/// An option out of range, a layout that is not feasible, another model's placement, or loads beyond 32 bits.
pub fn arrange(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut (dyn FnMut(&ArrangeProgress) + Send),
) -> Result<Arranged, ArrangeError> {
    arrange_among(instance, placement, first, options, seed, stop, observe, None)
}

/// [`arrange`], with seeds and population shared among processes that all make this call (see
/// [`routepack_anneal::peers`]); each gets the same result, that of [`arrange`].
///
/// # Errors
/// As [`arrange`]; a process is gone.
#[expect(clippy::too_many_arguments, reason = "those of arrange and one more")]
pub fn arrange_among(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut (dyn FnMut(&ArrangeProgress) + Send),
    peers: Option<&dyn Peers>,
) -> Result<Arranged, ArrangeError> {
    options.validate()?;
    check_layout(instance, first)?;
    let Some(units) = Units::new_unless(instance, placement, first.num_rows(), stop)? else {
        return Ok(Arranged::unsearched(instance, placement, first));
    };
    let demand = |unit, part, layer, rank| u64::from(units.demand.of(unit, part, layer, rank));
    let least = Even::new(instance, &units, demand).least(instance, &units);
    let mut search =
        Search::new(&units, options, units.cells_of_units(instance, first), least, stop, observe);
    search.peers = peers;
    search.run(&Stream::new(seed))?;
    search.search_tree(instance, placement);
    Ok(search.conclude(instance, first))
}

/// A layout to place experts for: searched as by [`arrange_among`], but with what peaks exceed even loads by charged at
/// `percent` of its weight only, as placing levels most of it afterwards. Even loads are charged in full, so that shards
/// come out alike. The layout may have a higher score than the one given.
///
/// # Errors
/// As [`arrange_among`].
///
/// # Panics
/// `percent` is above 100.
#[expect(clippy::too_many_arguments, reason = "those of arrange and two more")]
pub fn arrange_to_place(
    instance: &Instance,
    placement: &Placement,
    first: &Layout,
    percent: u32,
    options: &ArrangeOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    peers: Option<&dyn Peers>,
) -> Result<Layout, ArrangeError> {
    options.validate()?;
    check_layout(instance, first)?;
    let Some(units) = Units::with_light_peaks(instance, placement, first.num_rows(), percent, stop)? else {
        return Ok(first.clone());
    };
    let mut ignore = |_: &ArrangeProgress| {};
    let least = Score { worst_shard: 0, total: 0, worst_row: 0 };
    let mut search =
        Search::new(&units, options, units.cells_of_units(instance, first), least, stop, &mut ignore);
    search.peers = peers;
    search.run(&Stream::new(seed))?;
    Ok(search.conclude(instance, first).layout)
}

/// The archive, and what every stage needs.
struct Search<'a> {
    units: &'a Units,
    options: &'a ArrangeOptions,
    stop: &'a (dyn Fn() -> bool + Sync),
    /// Other processes that anneal with this one.
    peers: Option<&'a dyn Peers>,
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
    fn new(
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
    fn run(&mut self, stream: &Stream) -> Result<(), ArrangeError> {
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
        let grid = Grid::new(units, self.best.clone());
        let mut members = vec![Vec::new(); units.num_blocks()];
        for (unit, &cell) in self.best.iter().enumerate() {
            members[units.block_of[cell as usize] as usize].push(unit as u32);
        }
        let balanced: Vec<Vec<(u32, u32)>> = members
            .par_iter()
            .enumerate()
            .map(|(block, members)| {
                let mut cells = BlockCells::new(units, &grid, block, members);
                cells.balance(&mut stream.child(block as u64), stop);
                cells.placed(block).collect()
            })
            .collect();
        let mut cell_of = self.best.clone();
        for (unit, cell) in balanced.into_iter().flatten() {
            cell_of[unit as usize] = cell;
        }
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

    /// Searches the layouts of a small window for a better one than the best known.
    fn search_tree(&mut self, instance: &Instance, placement: &Placement) {
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

    fn conclude(self, instance: &Instance, first: &Layout) -> Arranged {
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
