//! Golden tests of the whole workspace: named cases that broke other tools, with the right answer.

mod edges;
mod instances;
mod placement_cases;
mod rows_cases;
