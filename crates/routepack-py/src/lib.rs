//! What the Python package `routepack` calls: plain functions over arrays and JSON text, run in threads of their own
//! while Python goes on.

mod batch;
mod counts;
mod errors;
mod materialise;
mod peers;
mod planning;
mod routes;
mod rows;
mod work;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    let py = module.py();
    for (name, error) in errors::all(py) {
        module.add(name, error)?;
    }
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<batch::NativeBatch>()?;
    module.add_class::<planning::Planning>()?;
    module.add_function(wrap_pyfunction!(materialise::map_hash, module)?)?;
    module.add_function(wrap_pyfunction!(materialise::rank_move, module)?)?;
    module.add_function(wrap_pyfunction!(materialise::flat_runs, module)?)?;
    module.add_function(wrap_pyfunction!(materialise::held_bytes, module)?)?;
    module.add_function(wrap_pyfunction!(materialise::rank_place, module)?)?;
    module.add_function(wrap_pyfunction!(planning::start, module)?)?;
    module.add_function(wrap_pyfunction!(planning::filter_plans, module)?)?;
    module.add_function(wrap_pyfunction!(planning::verify_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planning::report_html, module)?)?;
    module.add_function(wrap_pyfunction!(planning::export_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planning::job_from_toml, module)?)?;
    module.add_function(wrap_pyfunction!(planning::job_schema, module)?)?;
    module.add_function(wrap_pyfunction!(planning::read_plan, module)?)?;
    module.add_function(wrap_pyfunction!(planning::write_texts, module)?)?;
    module.add_function(wrap_pyfunction!(routes::count, module)?)?;
    module.add_function(wrap_pyfunction!(routes::import_rollouts, module)?)?;
    module.add_function(wrap_pyfunction!(rows::rows, module)?)?;
    module.add_function(wrap_pyfunction!(rows::check, module)?)?;
    module.add_function(wrap_pyfunction!(rows::read_lengths, module)?)?;
    Ok(())
}
