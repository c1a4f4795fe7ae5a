//! What a search has: the best packing, the bound with its proof, and what it still may spend.

use routepack_anneal::Stream;
use routepack_certificate::{CheckError, Limits, Statement, check};

use crate::bound::Bound;
use crate::certify::{certificate, confirm};
use crate::error::PackError;
use crate::options::{Goal, PackOptions};
use crate::pack::{PackProgress, Packed};
use crate::types::{Pattern, Types};
use crate::volume::{count_bound, volume_bound};
use crate::work::Work;

/// Patterns kept for the linear programs.
const POOL: usize = 3000;
/// Steps of a check that may be repeated even after `stop`.
const RECHECKED: u64 = 3_000_000;

pub(crate) struct Search<'a> {
    pub(crate) statement: &'a Statement,
    pub(crate) types: &'a Types,
    pub(crate) options: &'a PackOptions,
    pub(crate) stream: Stream,
    pub(crate) stop: &'a (dyn Fn() -> bool + Sync),
    observe: &'a mut dyn FnMut(&PackProgress),
    /// Bins of one row, and rows of one multiple, as far as the goal goes.
    row: (u64, u64),
    /// So many bins are necessary by volume and count: what is aimed at, whether or not the checker may look at it.
    floor: u64,
    pub(crate) best: Vec<Pattern>,
    pub(crate) bound: Bound,
    /// The bins of the packing beside which the checker accepted the bound, and the steps it took.
    checked: Option<(usize, u64)>,
    /// Patterns of all packings so far.
    pub(crate) pool: Vec<Pattern>,
    pub(crate) work: Work,
}

impl<'a> Search<'a> {
    pub(crate) fn new(
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
            work: Work::default(),
        }
    }

    /// The most bins of a packing that would be an improvement: D·(R − v).
    pub(crate) fn improving(&self) -> u64 {
        let rows = (self.best.len() as u64).div_ceil(self.row.0).next_multiple_of(self.row.1);
        self.row.0.saturating_mul(rows.saturating_sub(self.row.1))
    }

    /// So many bins in whole rows, in multiples of v.
    pub(crate) fn whole_rows(&self, bins: u64) -> u64 {
        let rows = bins.div_ceil(self.row.0).checked_next_multiple_of(self.row.1);
        self.row.0.saturating_mul(rows.unwrap_or(u64::MAX))
    }

    /// The most bins of a packing that would meet the bound.
    pub(crate) fn aim(&self) -> u64 {
        self.whole_rows(self.bound.cells.max(self.floor))
    }

    /// Whether no packing would be an improvement.
    pub(crate) fn settled(&self) -> bool {
        self.bound.cells.max(self.floor) > self.improving() || self.best.is_empty()
    }

    pub(crate) fn over(&self) -> bool {
        self.settled() || (self.stop)()
    }

    /// Takes a packing if it has fewer bins than the best.
    pub(crate) fn offer(&mut self, bins: Vec<Pattern>, method: &str) {
        let new = bins.iter().take(POOL.saturating_sub(self.pool.len())).cloned();
        self.pool.extend(new);
        if self.best.is_empty() || bins.len() < self.best.len() {
            self.best = bins;
            self.report(method.into());
        }
    }

    /// Takes a bound if it is higher and the checker accepts it, together with the best packing.
    pub(crate) fn raise(&mut self, bound: Bound) -> Result<(), PackError> {
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

    /// Computes and takes a bound unless the search is over; the method is told the bound that would settle the goal.
    pub(crate) fn raise_to(&mut self, method: impl Fn(u64) -> Option<Bound>) -> Result<(), PackError> {
        if !self.over()
            && let Some(bound) = method(self.improving() + 1)
        {
            self.raise(bound)?;
        }
        Ok(())
    }

    fn witness(&self) -> Vec<Vec<u32>> {
        let mut bins = self.types.hand_out(&self.best);
        bins.iter_mut().for_each(|bin| bin.sort_unstable());
        bins
    }

    pub(crate) fn check_limits(&self) -> Limits {
        Limits { max_memory: self.options.check_bytes, max_steps: self.options.check_steps }
    }

    /// Tells the listener where the search stands, after an improvement or before a step.
    pub(crate) fn report(&mut self, method: String) {
        let (cells, cells_bound) = (self.best.len() as u64, self.bound.cells);
        let (rows, rows_bound) = (self.statement.rows_for(cells), self.statement.rows_for(cells_bound));
        (self.observe)(&PackProgress { method, cells, cells_bound, rows, rows_bound, work: self.work });
    }

    pub(crate) fn finish(mut self) -> Result<Packed, PackError> {
        let finished = self.settled() || !(self.stop)();
        let bins = self.witness();
        let mut certified = certificate(self.statement, bins.clone(), &self.bound);
        // Packing and bound were accepted, perhaps apart: an expensive proof is not checked again after `stop`.
        let accepted = self
            .checked
            .is_some_and(|(cells, steps)| cells == bins.len() || steps > RECHECKED && (self.stop)());
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
            work: self.work,
        })
    }
}
