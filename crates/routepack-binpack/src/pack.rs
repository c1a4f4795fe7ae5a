//! Fewest bins, or fewest rows of bins, with a certificate.
//!
//! Problem: items of given sizes into bins of capacity C with at most q items each; rows of D bins in multiples of v.
//! R rows are fewest once a packing has at most D·R bins and a proof says that D·(R − v) are not enough; for the goal
//! "cells" the same with D = v = 1. Cheap bounds first (mostly one division settles it), then heuristics until the
//! bound is met, then linear programming for a better bound and for packings, in turns as long as either improves.
//! Every bound passes the checker before it counts.
//! Complexity: see the methods; all limits are counts.
//! References: those of the methods.

use std::ops::Range;

use routepack_certificate::{Certificate, Proof, Statement, TreeNode};

use crate::best_fit_decreasing::best_fit_decreasing;
use crate::bound::Bound;
use crate::case::Case;
use crate::column_generation::{ColumnLimits, generate_columns};
use crate::decide::{DecideLimits, Decided, decide};
use crate::dive::Dive;
use crate::dual_feasible::dual_feasible_bound;
use crate::error::PackError;
use crate::first_fit_decreasing::first_fit_decreasing;
use crate::grouping::{Grouping, Rounding};
use crate::l2::l2_bound;
use crate::options::PackOptions;
use crate::pattern_master::PatternMaster;
use crate::repack::repack;
use crate::restricted_program::pack_by_patterns;
use crate::search::Search;
use crate::sequential_value_correction::sequential_value_correction;
use crate::subset_sum_fill::{fill_tries, subset_sum_fill};
use crate::types::Types;
use crate::volume::{count_bound, volume_bound};
use crate::work::Work;

/// Items that all fills together may pack: fewer tries where there are many items.
const FILLED: u64 = 400_000;
/// For every so many units of capacity one fill costs as much again: fewer fills and repackings then.
const WIDE: u64 = 1 << 17;
/// Bins counted for the number of repackings.
const REPACKED: u64 = 1000;
/// Cells of pricing tables that all rounds of value correction may fill.
const VALUED: u128 = 2_000_000_000;
/// Most rounds of value correction.
const VALUE_ROUNDS: u128 = 30;
/// Dives of one grouping.
const GROUP_DIVES: u64 = 4;
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
    /// What linear programs and tree searches did.
    pub work: Work,
}

/// Where [`pack`] stands: sent after every improvement and before every longer step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PackProgress {
    /// The method that improved something or comes next.
    pub method: String,
    /// Bins of the best packing.
    pub cells: u64,
    /// Bins known to be necessary.
    pub cells_bound: u64,
    /// Rows of the best packing.
    pub rows: u64,
    /// Rows known to be necessary.
    pub rows_bound: u64,
    /// What linear programs and tree searches did so far.
    pub work: Work,
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
    search.improve_by_fills(0..3);
    search.raise_to(|wanted| dual_feasible_bound(&types, wanted))?;
    search.improve_by_fills(3..options.fill_tries);
    if types.len() > options.column_types as usize {
        if search.is_near() {
            search.improve_by_repacking(1);
        }
        search.close_by_groups()?;
    }
    search.improve_by_repacking(1);
    search.close_by_columns()?;
    search.improve_by_values();
    search.improve_by_program()?;
    search.improve_by_repacking(15);
    search.finish()
}

impl Search<'_> {
    fn improve_by_decreasing(&mut self) {
        let Statement { sizes, capacity, max_items, .. } = self.statement;
        let first = first_fit_decreasing(sizes, *capacity, *max_items);
        self.offer(self.types.patterns_of(&first), "first-fit decreasing");
        let best = best_fit_decreasing(sizes, *capacity, *max_items);
        self.offer(self.types.patterns_of(&best), "best-fit decreasing");
    }

    /// Tries fills of these numbers.
    fn improve_by_fills(&mut self, tries: Range<u32>) {
        let affordable = (FILLED / self.types.num_items().max(1)).min(self.options.fill_tries.into());
        let affordable = (affordable / self.width()).max(3) as u32;
        let tries = tries.start as usize..tries.end.min(affordable) as usize;
        let attempts = fill_tries(&self.stream.child(0), self.options.fill_window as usize);
        for attempt in attempts.take(tries.end).skip(tries.start) {
            if self.over() {
                break;
            }
            if let Some(bins) = subset_sum_fill(self.types, attempt, self.improving(), self.stop) {
                self.offer(bins, "subset-sum fill");
            }
        }
    }

    /// What a fill costs, for capacities of at most [`WIDE`] as the unit.
    fn width(&self) -> u64 {
        1 + (self.types.capacity - 1) / WIDE
    }

    /// Whether the packing is so near to the bound that repacking a few bins may meet it.
    fn is_near(&self) -> bool {
        self.best.len() as u64 <= self.aim() + 2 + self.aim() / 500
    }

    /// Repacks, with so many times the tries of the options.
    fn improve_by_repacking(&mut self, times: u32) {
        if !self.over() {
            self.report(format!("next: repacking, to {} bins", self.aim()));
            let stream = self.stream.child(1).child(times.into());
            let tries = u64::from(self.options.repack_tries) * u64::from(times);
            let tries = tries * (self.best.len() as u64).min(REPACKED) / self.width();
            let bins = repack(self.types, &self.best, self.aim(), tries, &stream, self.stop);
            self.offer(bins, "repacking");
        }
    }

    /// Linear programs over groups of sizes, where there are too many sizes: groups rounded down for a bound, groups
    /// rounded up for a packing; ever more groups as long as that may help.
    fn close_by_groups(&mut self) -> Result<(), PackError> {
        if self.options.column_rounds == 0 {
            return Ok(());
        }
        for share in [8, 3, 1] {
            let most = (self.options.group_types / share).max(1) as usize;
            let before = (self.best.len(), self.bound.cells);
            self.raise_by_groups(most)?;
            self.improve_by_groups(most)?;
            if self.over() || share < 8 && before == (self.best.len(), self.bound.cells) {
                break;
            }
        }
        Ok(())
    }

    /// The linear program over at most so many groups rounded down.
    fn raise_by_groups(&mut self, most: usize) -> Result<(), PackError> {
        if !self.over() {
            self.report(format!("next: linear program, {most} groups rounded down"));
            let down = Grouping::new(self.types, most, Rounding::Down);
            let limits = ColumnLimits { wanted: self.improving() + 1, exhaust: true, ..self.column_limits() };
            let start = down.first_fit_decreasing();
            let generated = generate_columns(&down.grouped, &start, &limits, self.stop)?;
            self.work += generated.work;
            if let Some(bound) = generated.bound {
                self.raise(down.spell_out_bound(bound))?;
            }
        }
        Ok(())
    }

    /// Dives over at most so many groups rounded up.
    fn improve_by_groups(&mut self, most: usize) -> Result<(), PackError> {
        if self.over() {
            return Ok(());
        }
        self.report(format!("next: linear program and dives, {most} groups rounded up"));
        let up = Grouping::new(self.types, most, Rounding::Up);
        let limits = ColumnLimits { exhaust: true, ..self.column_limits() };
        let generated = generate_columns(&up.grouped, &up.first_fit_decreasing(), &limits, self.stop)?;
        self.work += generated.work;
        let needed = generated.value.ceil() as u64;
        for number in 0..GROUP_DIVES {
            // A little more room with every dive that fails.
            let bins = self.whole_rows(self.aim().max(needed + needed * number * number / 2000));
            if self.over() || bins > self.improving() {
                break;
            }
            let dive = Dive {
                types: &up.grouped,
                bins,
                random: number > 0,
                finest: false,
                share: 1.0,
                cut_rounds: 0,
                table_bytes: self.options.table_bytes,
            };
            let case = Case::of_types(&up.grouped, bins);
            let mut master = PatternMaster::new(&case.space)?;
            master.add(generated.patterns.iter().filter(|pattern| case.space.holds(pattern)).cloned())?;
            if let Some(bins) =
                dive.run(&case, &mut master, &self.stream.child(3).child(number), self.stop)?
            {
                self.offer(up.spell_out(self.types, &bins), "dive over groups of sizes");
                break;
            }
        }
        Ok(())
    }

    fn column_limits(&self) -> ColumnLimits {
        ColumnLimits {
            wanted: self.aim() + 1,
            exhaust: false,
            rounds: self.options.column_rounds,
            table_bytes: self.options.table_bytes,
        }
    }

    /// Linear programs, dives and tree searches in turns, until the goal is settled or none improves.
    fn close_by_columns(&mut self) -> Result<(), PackError> {
        let mut round = 0;
        let few = self.types.len() <= self.options.column_types as usize;
        while few && !self.over() && self.options.column_rounds > 0 {
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
        if spare < u128::from(self.types.capacity) {
            return Ok(());
        }
        self.report(format!("next: column generation from {} patterns", self.pool.len()));
        let generated = generate_columns(self.types, &self.pool, &self.column_limits(), self.stop)?;
        self.work += generated.work;
        if let Some(bound) = generated.bound {
            self.raise(bound)?;
        }
        self.pool = generated.patterns;
        Ok(())
    }

    /// Asks whether the items fit into as many bins as the bound allows.
    fn decide(&mut self, round: u64) -> Result<(), PackError> {
        if self.over() {
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
        self.report(format!("next: tree search for {bins} bins from {} patterns", self.pool.len()));
        let decision = decide(self.statement, self.types, bins, &self.pool, &limits, &stream, self.stop)?;
        self.work += decision.work;
        self.pool = decision.patterns;
        match decision.answer {
            Decided::Fits(bins) => self.offer(bins, "tree search"),
            Decided::Refuted(tree) => {
                let leaves = tree.iter().filter(|node| matches!(node, TreeNode::Leaf(_))).count();
                let filled = tree.iter().filter(|node| matches!(node, TreeNode::Fill(_))).count();
                let first = if filled > 0 { format!(", {filled} bins filled first") } else { String::new() };
                let method = format!("tree search, {leaves} leaves{first}");
                self.raise(Bound { cells: bins + 1, proof: Proof::Tree(tree), method })?;
            }
            Decided::Open => {}
        }
        Ok(())
    }

    /// Sequential value correction, where its tables are cheap.
    fn improve_by_values(&mut self) {
        let tables = self.best.len() as u128 * self.types.len() as u128 * u128::from(self.types.capacity);
        let rounds = (VALUED / tables.max(1)).min(VALUE_ROUNDS) as u32;
        if !self.over() && rounds > 0 {
            self.report(format!("next: value correction, {rounds} rounds"));
            let (bytes, stream) = (self.options.table_bytes, self.stream.child(4));
            let packed =
                sequential_value_correction(self.types, rounds, self.aim(), bytes, &stream, self.stop);
            if let Some(bins) = packed {
                self.offer(bins, "value correction");
            }
        }
    }

    /// The integer program over the best patterns.
    fn improve_by_program(&mut self) -> Result<(), PackError> {
        if !self.over() && self.options.program_nodes > 0 && self.types.len() <= PROGRAM_TYPES {
            let number = self.pool.len().min(4 * self.types.len());
            self.report(format!("next: integer program over {number} patterns"));
            let (few, nodes) = (&self.pool[..number], self.options.program_nodes);
            if let Some(bins) = pack_by_patterns(self.types, few, self.aim(), nodes, self.stop)? {
                self.offer(bins, "integer program over patterns");
            }
        }
        Ok(())
    }
}
