//! Golden tests of the whole workspace: named cases that broke other tools, with the right answer.

mod edges;
mod instances;
mod placement_cases;
mod refusals;
mod rows_cases;
