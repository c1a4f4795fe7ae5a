//! Trace of the layout searches of a plan, temperature by temperature: the table that `routepack report --trace` draws.

use routepack::anneal::TemperatureReport;
use routepack::{Plan, Progress, Stage};

/// Temperatures of the searches that led to the plan for training.
#[derive(Default)]
pub(super) struct SearchTrace {
    /// Plans begun; passes beside training have traces of their own, which nobody asked for.
    plans: usize,
    /// Searches begun.
    searches: usize,
    lines: Vec<(usize, usize, TemperatureReport)>,
}

impl SearchTrace {
    /// Takes note of a temperature.
    pub(super) fn observe(&mut self, progress: &Progress) {
        self.plans += usize::from(progress.stage == Stage::Prepare);
        let (Some(report), 0..=1) = (&progress.temperature, self.plans) else { return };
        let step = progress.step.0 - 1;
        let goes_on = self.lines.last().is_some_and(|(at, _, last)| *at == step && last.rung < report.rung);
        self.searches += usize::from(!goes_on);
        self.lines.push((step, self.searches, TemperatureReport { moves: Vec::new(), ..report.clone() }));
    }

    /// The table: a header, then a line a temperature that names the plan.
    pub(super) fn table(&self, plan: &Plan) -> String {
        let mut table = format!("step,search,{},plan_sha256\n", TemperatureReport::csv_header(&[]));
        for (step, search, report) in &self.lines {
            let step = plan.steps[*step].step;
            table = format!("{table}{step},{search},{},{}\n", report.csv_row(), plan.sha256);
        }
        table
    }
}
