//! Options of the co-refinement, and what they leave to every stage of it.
//!
//! The arrange budget is cut into shares: one for the first draft; where layouts to start from are searched at part of the
//! weight of uneven loads, two for those; one for arranging in turns.

use routepack_arrange::ArrangeOptions;
use routepack_place::RowPeakOptions;
use routepack_problem::{Placement, ProblemError};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{Job, PlanError};

/// What the placement of a plan is aimed at.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Aim {
    /// The peaks that a layout is charged with: placement and layout are refined in turns.
    #[default]
    RowPeaks,
    /// The load of the whole window, before the layout is known.
    Aggregate,
    /// Every expert stays where it is: in its slot of the resident placement, expert e in slot e if none is given.
    Fixed,
}

/// Options of the co-refinement; limits are counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RefineOptions {
    /// What the placement is aimed at; `[refine]` has no other effect unless it is `row-peaks`.
    pub placement: Aim,
    /// Percentages of its weight at which what expert peaks exceed even loads by is charged in layouts to start from; at
    /// most 64, 100 for the first draft, which is started from if there are none.
    pub expert_percent: Vec<u32>,
    /// First temperature of arranging those, as `arrange.hottest`; 1e-12 to 1e12.
    pub start_hottest: f64,
    /// Cooling of arranging those, as `arrange.cooling`; 1 to 1e12.
    pub start_cooling: f64,
    /// Turns of placing and arranging the best start, at most; 0 to 1024.
    pub turns: u32,
    /// First temperature of arranging in turns, as `arrange.hottest`; 1e-12 to 1e12.
    pub hottest: f64,
    /// Cooling of arranging in turns, as `arrange.cooling`; 1 to 1e12.
    pub cooling: f64,
    /// Placing on row peaks.
    pub row_peaks: RowPeakOptions,
}

impl Default for RefineOptions {
    fn default() -> Self {
        Self {
            placement: Aim::default(),
            expert_percent: vec![25],
            start_hottest: 1e-3,
            start_cooling: 50.0,
            turns: 2,
            hottest: 1e-4,
            cooling: 43.0,
            row_peaks: RowPeakOptions::default(),
        }
    }
}

impl RefineOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// The first option out of range.
    pub fn validate(&self) -> Result<(), PlanError> {
        let refuse = |field, value: &dyn std::fmt::Debug, limit: &str| {
            Err(ProblemError::Setting { field, value: format!("{value:?}"), limit: limit.to_owned() }.into())
        };
        if let Some(percent) = self.expert_percent.iter().find(|&&percent| percent > 100) {
            return refuse("refine.expert_percent", percent, "expected percentages from 0 to 100");
        }
        if self.expert_percent.len() > 64 {
            return refuse(
                "refine.expert_percent",
                &self.expert_percent.len(),
                "expected at most 64 of them",
            );
        }
        if self.turns > 1024 {
            return refuse("refine.turns", &self.turns, "expected at most 1024");
        }
        for (field, hottest) in
            [("refine.start_hottest", self.start_hottest), ("refine.hottest", self.hottest)]
        {
            if !(1e-12..=1e12).contains(&hottest) {
                return refuse(field, &hottest, "expected 1e-12 to 1e12");
            }
        }
        for (field, cooling) in
            [("refine.start_cooling", self.start_cooling), ("refine.cooling", self.cooling)]
        {
            if !(1.0..=1e12).contains(&cooling) {
                return refuse(field, &cooling, "expected 1 to 1e12");
            }
        }
        Ok(self.row_peaks.validate()?)
    }
}

impl Job {
    /// Whether placement and layout are refined in turns: asked for, and there are experts to place.
    pub(crate) fn refines(&self, placement: &Placement) -> bool {
        self.refine.placement == Aim::RowPeaks && placement.num_layers() > 0
    }

    /// Shares of the arrange budget: one for the first draft, two for the layouts at part of the weight, if any, and one
    /// for all turns.
    pub(crate) fn shares(&self) -> u32 {
        if self.refine.expert_percent.is_empty() { 2 } else { 4 }
    }

    /// Layouts that co-refinement starts from.
    pub(crate) fn num_starts(&self) -> usize {
        self.refine.expert_percent.len().max(1)
    }

    /// Arranging the first draft.
    pub(crate) fn start_options(&self) -> ArrangeOptions {
        self.part_of_arrange(1, self.shares())
    }

    /// Arranging a start at part of the weight.
    pub(crate) fn light_options(&self) -> ArrangeOptions {
        let (hottest, cooling) = (self.refine.start_hottest, self.refine.start_cooling);
        let starts = self.refine.expert_percent.len() as u32;
        ArrangeOptions {
            hottest,
            cooling,
            hot_acceptance: 1e-9,
            rounds: self.arrange.rounds.min(2),
            ..self.part_of_arrange(2, self.shares() * starts)
        }
    }

    /// Arranging in a turn.
    pub(crate) fn turn_options(&self) -> ArrangeOptions {
        let turns = self.num_starts() as u32 + self.refine.turns;
        ArrangeOptions {
            hottest: self.refine.hottest,
            hot_acceptance: 1e-9,
            cooling: self.refine.cooling,
            rounds: 1,
            seeds: 0,
            ..self.part_of_arrange(1, self.shares() * turns)
        }
    }

    /// `shares` parts of the arrange budget cut into so many.
    fn part_of_arrange(&self, shares: u32, parts: u32) -> ArrangeOptions {
        let part = |count: u32| (u64::from(count) * u64::from(shares) / u64::from(parts.max(1))) as u32;
        ArrangeOptions {
            proposals_per_unit: part(self.arrange.proposals_per_unit).max(1),
            descent_per_unit: part(self.arrange.descent_per_unit),
            ..self.arrange.clone()
        }
    }
}
