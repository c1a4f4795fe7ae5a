//! The fixed-row layout as a mixed-integer program, for cross-checks on small cases.
//!
//! Sets, data, variables and constraints: `models/fixed_row_layout.md`. Its linear relaxation is no better than averages
//! (the uniform layout attains it), so this is a tool for small windows and never a proof.

use routepack_lp::{Program, Relation, VariableId};
use routepack_problem::{Instance, Layout, Placement};

use crate::ArrangeError;
use crate::spread_bins::layout_of;
use crate::units::Units;

/// The program and what its variables mean.
#[derive(Clone, Debug)]
pub struct LayoutProgram {
    program: Program,
    /// x of every unit and cell, `[units, cells]`.
    placed: Vec<VariableId>,
    units: Units,
}

/// Writes the layout of `rows` rows with least cost of the slowest shard as a program, costs divided by `unit`.
///
/// The program does not know padding: it is refused where padding tokens are charged. Where the slowest pipeline stage
/// paces, it does not round a stage's part of the attention up.
///
/// # Errors
/// Fewer units than cells, another model's placement, loads beyond 32 bits, or charged padding.
pub fn layout_program(
    instance: &Instance,
    placement: &Placement,
    rows: usize,
    unit: u64,
) -> Result<LayoutProgram, ArrangeError> {
    if instance.charges_padding() {
        return Err(ArrangeError::PaddingInProgram);
    }
    let units = Units::new(instance, placement, rows)?;
    let (count, cells, parts) = (units.num_units(), units.num_cells(), units.parts());
    let scale = unit.max(1) as f64;
    let mut program = Program::minimise("fixed-row layout");
    let slowest = program.add_real("u", 0.0, f64::INFINITY);
    program.set_cost(slowest, 1.0);
    let placed: Vec<VariableId> = (0..count)
        .flat_map(|i| (0..cells).map(move |c| (i, c)))
        .map(|(i, c)| program.add_binary(format!("x[{i},{c}]")))
        .collect();
    let x = |i: usize, c: usize| placed[i * cells + c];
    for i in 0..count {
        program.constrain(format!("once[{i}]"), (0..cells).map(|c| (x(i, c), 1.0)), Relation::Equal, 1.0);
    }
    for c in 0..cells {
        let tokens = (0..count).map(|i| (x(i, c), f64::from(units.tokens[i])));
        program.constrain(format!("load[{c}]"), tokens, Relation::AtMost, f64::from(units.capacity));
        program.constrain(format!("some[{c}]"), (0..count).map(|i| (x(i, c), 1.0)), Relation::AtLeast, 1.0);
        if units.max_samples < u32::MAX {
            let samples = (0..count).map(|i| (x(i, c), f64::from(units.samples[i])));
            program.constrain(format!("count[{c}]"), samples, Relation::AtMost, f64::from(units.max_samples));
        }
    }
    // Terms of U per shard and paced stage: its part of A of the blocks, and X as Γ times peaks.
    let stages = units.demand.num_stages();
    let mut terms: Vec<Vec<(VariableId, f64)>> = vec![Vec::new(); units.groups * parts * stages];
    for block in 0..units.num_blocks() {
        let group = block % units.groups;
        for kind in 0..units.kinds {
            let a = program.add_real(format!("a[{block},{kind}]"), 0.0, f64::INFINITY);
            for c in units.cells_of(block) {
                let costs = (0..count).map(|i| (x(i, c), units.attention(i)[kind] as f64 / scale));
                let name = format!("attention[{c},{kind}]");
                program.constrain(name, costs.chain([(a, -1.0)]), Relation::AtMost, 0.0);
            }
            for share in 0..parts * stages {
                terms[group * parts * stages + share].push((a, 1.0 / stages as f64));
            }
        }
        for part in 0..parts {
            for layer in 0..units.demand.num_layers() {
                let w = program.add_real(format!("w[{block},{part},{layer}]"), 0.0, f64::INFINITY);
                for rank in 0..units.demand.num_ranks() {
                    let rows = units
                        .cells_of(block)
                        .flat_map(|c| (0..count).map(move |i| (i, c)))
                        .map(|(i, c)| (x(i, c), f64::from(units.demand.of(i, part, layer, rank))));
                    let name = format!("peak[{block},{part},{layer},{rank}]");
                    program.constrain(name, rows.chain([(w, -1.0)]), Relation::AtMost, 0.0);
                }
                let share = part * stages + units.demand.stage(layer);
                let weight = units.demand.weight(layer) as f64 / scale;
                terms[group * parts * stages + share].push((w, weight));
            }
        }
    }
    for (shard, terms) in terms.into_iter().enumerate() {
        let terms = terms.into_iter().chain([(slowest, -1.0)]);
        program.constrain(format!("shard[{shard}]"), terms, Relation::AtMost, 0.0);
    }
    Ok(LayoutProgram { program, placed, units })
}

impl LayoutProgram {
    /// The program.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// The layout that a solution stands for: every unit in the cell of its largest x. Check it before use.
    ///
    /// # Panics
    /// `values` does not have one value per variable.
    pub fn layout(&self, instance: &Instance, values: &[f64]) -> Layout {
        let cells = self.units.num_cells();
        let cell_of: Vec<u32> = self
            .placed
            .chunks_exact(cells)
            .map(|of_unit| {
                let largest = (0..cells).max_by(|&a, &b| {
                    values[of_unit[a].index()].total_cmp(&values[of_unit[b].index()]).then(b.cmp(&a))
                });
                largest.expect("there is a cell") as u32
            })
            .collect();
        layout_of(instance, &self.units, &cell_of)
    }
}
