//! Fewest bins, or fewest rows of bins, with a certificate.
//!
//! Problem: items of given sizes into bins of capacity C with at most q items each; rows of D bins in multiples of v.
//! R rows are fewest once a packing has at most D·R bins and a proof says that D·(R − v) are not enough; for the goal
//! "cells" the same with D = v = 1. Cheap bounds first (mostly one division settles it), then heuristics until the
//! bound is met, then linear programming for a better bound and for packings, in turns as long as either improves.
//! Every bound passes the checker before it counts.
//! Complexity: see the methods; all limits are counts.
//! References: those of the methods.

use routepack_anneal::Stream;
use routepack_certificate::{Certificate, CheckError, Limits, Proof, Statement, TreeNode, check};

use crate::best_fit_decreasing::best_fit_decreasing;
use crate::bound::Bound;
use crate::certify::{certificate, confirm};
use crate::column_generation::{ColumnLimits, generate_columns};
use crate::decide::{DecideLimits, Decided, decide};
use crate::dual_feasible::dual_feasible_bound;
use crate::error::PackError;
use crate::first_fit_decreasing::first_fit_decreasing;
use crate::l2::l2_bound;
use crate::options::{Goal, PackOptions};
use crate::repack::repack;
use crate::restricted_program::pack_by_patterns;
use crate::subset_sum_fill::{fill_tries, subset_sum_fill};
use crate::types::{Pattern, Types};
use crate::volume::{count_bound, volume_bound};

/// Patterns kept for the linear programs.
const POOL: usize = 3000;

/// Steps of a check that may be repeated even after `stop`.
const RECHECKED: u64 = 3_000_000;
/// Most types for the integer program over patterns.
const PROGRAM_TYPES: usize = 300;

/// What [`pack`] found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packed {
    /// The best packing: bins of item indices, each increasing.
    pub bins: Vec<Vec<u32>>,
    /// Number of those bins.
    pub cells: u64,
    /// At least so many bins are necessary.
    pub cells_bound: u64,
    /// Rows that hold those bins: the least multiple of v.
    pub rows: u64,
    /// At least so many rows are necessary.
    pub rows_bound: u64,
    /// Packing and proof, accepted by [`routepack_certificate::check`].
    pub certificate: Certificate,
    /// The method behind the bound, in words.
    pub proved_by: String,
    /// Whether the search ended by itself: the goal is settled or the limits of the options are spent.
    pub finished: bool,
}

/// Where [`pack`] stands: sent after every improvement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackProgress {
    /// The method that improved something.
    pub method: String,
    /// Bins of the best packing.
    pub cells: u64,
    /// Bins known to be necessary.
    pub cells_bound: u64,
    /// Rows of the best packing.
    pub rows: u64,
    /// Rows known to be necessary.
    pub rows_bound: u64,
}

/// Packs the items of a statement into as few rows (or cells) as it can and proves as much as it can.
///
/// Same statement, options and seed: same answer, unless `stop` ends it. `stop` is asked between steps of at most a few
/// milliseconds, except inside the checker; the best answer so far is returned then.
///
/// # Errors
/// [`PackError`] for a meaningless statement or option, or a failing solver.
pub fn pack(
    statement: &Statement,
    options: &PackOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
    observe: &mut dyn FnMut(&PackProgress),
) -> Result<Packed, PackError> {
    options.validate()?;
    let types = Types::new(statement)?;
    let mut search = Search::new(statement, &types, options, seed, stop, observe);
    search.improve_by_decreasing();
    search.raise(volume_bound(&types))?;
    if let Some(bound) = count_bound(&types) {
        search.raise(bound)?;
    }
    search.raise_to(|_| Some(l2_bound(&types)))?;
    search.improve_by_fills(3);
    search.raise_to(|wanted| dual_feasible_bound(&types, wanted))?;
    search.improve_by_fills(options.fill_tries);
    search.improve_by_repacking(1);
    search.close_by_columns()?;
    search.improve_by_program()?;
    search.improve_by_repacking(5);
    search.finish()
}

struct Search<'a> {
    statement: &'a Statement,
    types: &'a Types,
    options: &'a PackOptions,
    stream: Stream,
    stop: &'a (dyn Fn() -> bool + Sync),
    observe: &'a mut dyn FnMut(&PackProgress),
    /// Bins of one row, and rows of one multiple, as far as the goal goes.
    row: (u64, u64),
    /// So many bins are necessary by volume and count: what is aimed at, whether or not the checker may look at it.
    floor: u64,
    best: Vec<Pattern>,
    bound: Bound,
    /// The bins of the packing beside which the checker accepted the bound, and the steps it took.
    checked: Option<(usize, u64)>,
    /// Patterns of all packings so far.
    pool: Vec<Pattern>,
    tries: u32,
}

impl<'a> Search<'a> {
    fn new(
        statement: &'a Statement,
        types: &'a Types,
        options: &'a PackOptions,
        seed: u64,
        stop: &'a (dyn Fn() -> bool + Sync),
        observe: &'a mut dyn FnMut(&PackProgress),
    ) -> Self {
        let row = match options.goal {
            Goal::Rows => (statement.slots, statement.rows_multiple),
            Goal::Cells => (1, 1),
        };
        Self {
            statement,
            types,
            options,
            stream: Stream::new(seed),
            stop,
            observe,
            row,
            floor: volume_bound(types).cells.max(count_bound(types).map_or(0, |bound| bound.cells)),
            best: Vec::new(),
            bound: Bound::none(),
            checked: None,
            pool: Vec::new(),
            tries: 0,
        }
    }

    /// The most bins of a packing that would be an improvement: D·(R − v).
    fn improving(&self) -> u64 {
        let rows = (self.best.len() as u64).div_ceil(self.row.0).next_multiple_of(self.row.1);
        self.row.0.saturating_mul(rows.saturating_sub(self.row.1))
    }

    /// So many bins are necessary.
    fn necessary(&self) -> u64 {
        self.bound.cells.max(self.floor)
    }

    /// The most bins of a packing that would meet the bound.
    fn aim(&self) -> u64 {
        self.row.0.saturating_mul(self.necessary().div_ceil(self.row.0).next_multiple_of(self.row.1))
    }

    /// Whether no packing would be an improvement.
    fn settled(&self) -> bool {
        self.necessary() > self.improving() || self.best.is_empty()
    }

    fn over(&self) -> bool {
        self.settled() || (self.stop)()
    }

    /// Takes a packing if it has fewer bins than the best.
    fn offer(&mut self, bins: Vec<Pattern>, method: &str) {
        let new = bins.iter().take(POOL.saturating_sub(self.pool.len())).cloned();
        self.pool.extend(new);
        if self.best.is_empty() || bins.len() < self.best.len() {
            self.best = bins;
            self.report(method.into());
        }
    }

    /// Takes a bound if it is higher and the checker accepts it, together with the best packing.
    fn raise(&mut self, bound: Bound) -> Result<(), PackError> {
        if bound.cells > self.bound.cells {
            let certificate = certificate(self.statement, self.witness(), &bound);
            if let Some(checked) =
                confirm(self.statement, &certificate, &bound.method, &self.check_limits(), self.stop)?
            {
                (self.bound, self.checked) = (bound, Some((self.best.len(), checked.steps)));
                self.report(self.bound.method.clone());
            }
        }
        Ok(())
    }

    fn witness(&self) -> Vec<Vec<u32>> {
        let mut bins = self.types.hand_out(&self.best);
        bins.iter_mut().for_each(|bin| bin.sort_unstable());
        bins
    }

    fn check_limits(&self) -> Limits {
        Limits { max_memory: self.options.check_bytes, max_steps: self.options.check_steps }
    }

    /// Computes and takes a bound unless the search is over; the method is told the bound that would settle the goal.
    fn raise_to(&mut self, method: impl Fn(u64) -> Option<Bound>) -> Result<(), PackError> {
        if !self.over()
            && let Some(bound) = method(self.improving() + 1).filter(|bound| bound.cells > self.bound.cells)
        {
            self.raise(bound)?;
        }
        Ok(())
    }

    fn report(&mut self, method: String) {
        let (cells, cells_bound) = (self.best.len() as u64, self.bound.cells);
        let (rows, rows_bound) = (self.statement.rows_for(cells), self.statement.rows_for(cells_bound));
        (self.observe)(&PackProgress { method, cells, cells_bound, rows, rows_bound });
    }

    fn improve_by_decreasing(&mut self) {
        let Statement { sizes, capacity, max_items, .. } = self.statement;
        let first = first_fit_decreasing(sizes, *capacity, *max_items);
        self.offer(self.types.patterns_of(&first), "first-fit decreasing");
        let best = best_fit_decreasing(sizes, *capacity, *max_items);
        self.offer(self.types.patterns_of(&best), "best-fit decreasing");
    }

    /// Fills until so many tries are spent in all.
    fn improve_by_fills(&mut self, tries: u32) {
        let attempts = fill_tries(&self.stream.child(0), self.options.fill_window as usize);
        for attempt in attempts.skip(self.tries as usize).take(tries.saturating_sub(self.tries) as usize) {
            if self.over() {
                break;
            }
            self.tries += 1;
            if let Some(bins) = subset_sum_fill(self.types, attempt, self.improving(), self.stop) {
                self.offer(bins, "subset-sum fill");
            }
        }
    }

    /// Repacks, with so many times the tries of the options.
    fn improve_by_repacking(&mut self, times: u32) {
        if !self.over() {
            let stream = self.stream.child(1).child(times.into());
            let tries =
                self.options.repack_tries.saturating_mul(times).saturating_mul(self.best.len() as u32);
            let bins = repack(self.types, &self.best, self.aim(), tries, &stream, self.stop);
            self.offer(bins, "repacking");
        }
    }

    /// Linear programs, dives and tree searches in turns, until the goal is settled or none improves.
    fn close_by_columns(&mut self) -> Result<(), PackError> {
        let mut round = 0;
        while !self.over() && self.options.column_rounds > 0 {
            let before = (self.best.len(), self.bound.cells);
            self.pool.sort_unstable();
            self.pool.dedup();
            self.raise_by_columns()?;
            self.decide(round)?;
            if (self.best.len(), self.bound.cells) == before {
                break;
            }
            round += 1;
        }
        Ok(())
    }

    /// The linear program over patterns, for a bound; useless where even the emptiest bin of a packing that meets the
    /// bound must hold something, for then [`decide`] has a better one.
    fn raise_by_columns(&mut self) -> Result<(), PackError> {
        let spare = u128::from(self.aim()) * u128::from(self.types.capacity) - self.types.total();
        let few = self.types.len() <= self.options.column_types as usize;
        if few && spare < u128::from(self.types.capacity) {
            return Ok(());
        }
        let limits = ColumnLimits {
            wanted: self.aim() + 1,
            exhaust: false,
            rounds: self.options.column_rounds,
            types: self.options.column_types as usize,
            table_bytes: self.options.table_bytes,
        };
        let generated = generate_columns(self.types, &self.pool, &limits, self.stop)?;
        if let Some(bound) = generated.bound.filter(|bound| bound.cells > self.bound.cells) {
            self.raise(bound)?;
        }
        self.pool = if few { generated.patterns } else { std::mem::take(&mut self.pool) };
        Ok(())
    }

    /// Asks whether the items fit into as many bins as the bound allows.
    fn decide(&mut self, round: u64) -> Result<(), PackError> {
        if self.over() || self.types.len() > self.options.column_types as usize {
            return Ok(());
        }
        let limits = DecideLimits {
            cases: self.options.cases,
            dives: self.options.dives,
            rounds: self.options.column_rounds,
            table_bytes: self.options.table_bytes,
            check: self.check_limits(),
        };
        let (bins, stream) = (self.aim(), self.stream.child(2).child(round));
        match decide(self.statement, self.types, bins, &self.pool, &limits, &stream, self.stop)? {
            Decided::Fits(bins) => self.offer(bins, "tree search"),
            Decided::Refuted(tree) => {
                let leaves = tree.iter().filter(|node| matches!(node, TreeNode::Leaf(_))).count();
                let method = format!("tree search, {leaves} leaves");
                self.raise(Bound { cells: bins + 1, proof: Proof::Tree(tree), method })?;
            }
            Decided::Open => {}
        }
        Ok(())
    }

    /// The integer program over the best patterns.
    fn improve_by_program(&mut self) -> Result<(), PackError> {
        if !self.over() && self.options.program_nodes > 0 && self.types.len() <= PROGRAM_TYPES {
            let few = &self.pool[..self.pool.len().min(4 * self.types.len())];
            let nodes = self.options.program_nodes;
            if let Some(bins) = pack_by_patterns(self.types, few, self.aim(), nodes, self.stop)? {
                self.offer(bins, "integer program over patterns");
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<Packed, PackError> {
        let finished = self.settled() || !(self.stop)();
        let bins = self.witness();
        let mut certified = certificate(self.statement, bins.clone(), &self.bound);
        // Packing and bound were accepted, perhaps apart: an expensive proof is not checked again after `stop`.
        let accepted = self.checked.is_some_and(|(cells, steps)| {
            cells == bins.len() || steps > RECHECKED && (self.stop)()
        });
        if !accepted {
            match check(self.statement, &certified, &self.check_limits()) {
                Ok(_) => {}
                Err(CheckError::NotChecked { .. }) => {
                    self.bound = Bound::none();
                    certified = certificate(self.statement, bins.clone(), &self.bound);
                }
                Err(source) => return Err(PackError::Certificate { method: self.bound.method, source }),
            }
        }
        let (cells, cells_bound) = (bins.len() as u64, self.bound.cells);
        Ok(Packed {
            bins,
            cells,
            cells_bound,
            rows: self.statement.rows_for(cells),
            rows_bound: self.statement.rows_for(cells_bound),
            certificate: certified,
            proved_by: self.bound.method,
            finished,
        })
    }
}
