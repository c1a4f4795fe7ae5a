//! What a layout search answers, and what it tells on its way.

use routepack_anneal::{System, TemperatureReport};
use routepack_problem::{Instance, Layout, Placement, Score, evaluate};

use crate::system::LayoutSystem;

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
    pub(crate) fn unsearched(instance: &Instance, placement: &Placement, first: &Layout) -> Self {
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
