//! Plans as JSON, and their index arrays as a compact `.npz`.

use std::io::{self, Write};
use std::path::Path;

use routepack_verify::Plan;
use serde::Serialize;
use serde_json::ser::Formatter;

use crate::FormatError;
use crate::atomic::{read_bytes, write_atomically};
use crate::json_arrays::json_error;
use crate::npy_write::Encoded;
use crate::npz::encode;

/// Reads a plan (`-`: the standard input). Nothing it claims is believed yet; see [`routepack_verify::verify`].
///
/// # Errors
/// The file cannot be read, is no JSON, or is no plan: an unknown or missing field, or a value of the wrong type; the
/// error names file, line and column.
pub fn read_plan(path: &Path) -> Result<Plan, FormatError> {
    parse_plan(&read_bytes(path)?, &crate::error::name_of(path))
}

/// Reads a plan from JSON; `name` stands for the file in messages.
///
/// # Errors
/// As [`read_plan`].
pub fn parse_plan(json: &[u8], name: &str) -> Result<Plan, FormatError> {
    if !json.trim_ascii_start().starts_with(b"{") {
        return Err(FormatError::form(name, "no JSON object; expected a plan (JSON)"));
    }
    serde_json::from_slice(json).map_err(|error| json_error(name, &error))
}

/// Writes a plan as JSON (`-`: the standard output).
///
/// # Errors
/// The file cannot be written; then nothing is changed.
pub fn write_plan(path: &Path, plan: &Plan) -> Result<(), FormatError> {
    write_atomically(path, plan_json(plan).as_bytes())
}

/// A plan as JSON: one field a line, arrays compact.
pub fn plan_json(plan: &Plan) -> String {
    compact_json(plan)
}

/// Any value as JSON with one field a line and compact arrays, ended by a newline.
///
/// # Panics
/// The value has map keys that are no text.
pub fn compact_json<T: Serialize>(value: &T) -> String {
    let mut bytes = Vec::new();
    let mut serializer = serde_json::Serializer::with_formatter(&mut bytes, CompactArrays::default());
    value.serialize(&mut serializer).expect("values here have text keys");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Objects over several lines, arrays on one; an array of arrays gets a line per element.
#[derive(Default)]
struct CompactArrays {
    objects: usize,
    arrays: Vec<bool>,
    /// Objects and arrays that hold nothing yet.
    empty: bool,
}

impl CompactArrays {
    fn new_line<W: ?Sized + Write>(&self, writer: &mut W, more: usize) -> io::Result<()> {
        writer.write_all(b"\n")?;
        (0..self.objects + more).try_for_each(|_| writer.write_all(b"  "))
    }
}

impl Formatter for CompactArrays {
    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects += 1;
        self.empty = true;
        writer.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.objects -= 1;
        if !self.empty {
            self.new_line(writer, 0)?;
        }
        self.empty = false;
        writer.write_all(b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if !first {
            writer.write_all(b",")?;
        }
        self.empty = false;
        self.new_line(writer, 0)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        // An array in an object starts its own nesting.
        self.arrays.push(false);
        writer.write_all(b": ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, _: &mut W) -> io::Result<()> {
        self.arrays.pop();
        Ok(())
    }

    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        // `Some(false)` before the outermost array of a field, `Some(true)` inside it.
        let depth = self.arrays.iter().rev().take_while(|&&inside| inside).count();
        if depth == 1 {
            self.new_line(writer, 1)?;
        }
        self.arrays.push(true);
        self.empty = true;
        writer.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.arrays.pop();
        self.empty = false;
        writer.write_all(b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { writer.write_all(b",") }
    }
}

/// Writes the index arrays of a plan as `.npz`, for trainers that read arrays.
///
/// Per sample in input order, int32 `[samples]`: `step` (position among the plan's steps), `row`, `slot` and `cell_of`
/// = row · D + slot; −1 for a sample left out. Per step, int64 `[steps]`: `steps` (as recorded) and `rows`. `dummies`,
/// all steps' cells one after another. `log2phys` and `phys2log`, int32 `[layers, experts]`, where there is a placement.
/// `sha256`, text `[1]`, the plan these arrays belong to.
///
/// # Errors
/// The file cannot be written; then nothing is changed.
pub fn write_plan_npz(path: &Path, plan: &Plan) -> Result<(), FormatError> {
    write_atomically(path, &encode_plan(plan))
}

/// The bytes of [`write_plan_npz`].
pub fn encode_plan(plan: &Plan) -> Vec<u8> {
    let placed = plan.steps.iter().flat_map(|step| step.cells.iter().flatten().flatten().copied());
    let left_out = plan.dropped.iter().map(|dropped| dropped.sample).chain(plan.filtered.iter().copied());
    let num_samples = placed.chain(left_out).max().map_or(0, |last| last + 1);
    let nowhere = || vec![-1i64; num_samples as usize];
    let (mut step_of, mut row_of, mut slot_of, mut cell_of) = (nowhere(), nowhere(), nowhere(), nowhere());
    for (step, plan_step) in plan.steps.iter().enumerate() {
        for (row, slots) in plan_step.cells.iter().enumerate() {
            for (slot, samples) in slots.iter().enumerate() {
                for &sample in samples {
                    step_of[sample as usize] = step as i64;
                    row_of[sample as usize] = row as i64;
                    slot_of[sample as usize] = slot as i64;
                    cell_of[sample as usize] = (row * slots.len() + slot) as i64;
                }
            }
        }
    }
    let samples = [num_samples as usize];
    let steps: Vec<i64> = plan.steps.iter().map(|step| step.step).collect();
    let rows: Vec<i64> = plan.steps.iter().map(|step| step.rows as i64).collect();
    let dummies: Vec<u32> =
        plan.steps.iter().flat_map(|step| step.dummies.iter().flatten().copied()).collect();
    let mut arrays = vec![
        Encoded::integers("step", &samples, &step_of),
        Encoded::integers("row", &samples, &row_of),
        Encoded::integers("slot", &samples, &slot_of),
        Encoded::integers("cell_of", &samples, &cell_of),
        Encoded::long_integers("steps", &[steps.len()], &steps),
        Encoded::long_integers("rows", &[rows.len()], &rows),
        Encoded::counts("dummies", &[dummies.len()], &[&dummies]),
        Encoded::texts("sha256", std::slice::from_ref(&plan.sha256)),
    ];
    if let Some(placement) = &plan.placement {
        let shape = [placement.log2phys.len(), placement.log2phys.first().map_or(0, Vec::len)];
        let log2phys: Vec<i64> = placement.log2phys.iter().flatten().map(|&slot| i64::from(slot)).collect();
        let mut phys2log = vec![0i64; log2phys.len()];
        for (layer, slots) in placement.log2phys.iter().enumerate() {
            for (expert, &slot) in slots.iter().enumerate() {
                phys2log[layer * shape[1] + slot as usize] = expert as i64;
            }
        }
        arrays.push(Encoded::integers("log2phys", &shape, &log2phys));
        arrays.push(Encoded::integers("phys2log", &shape, &phys2log));
    }
    encode(&arrays)
}
