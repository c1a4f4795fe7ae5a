//! JSON Schemas, made from the types.

use routepack_verify::Plan;
use schemars::JsonSchema;
use serde_json::Value;

/// The JSON Schema (draft 2020-12) of any type of this project that has one: a plan, a setting, a job.
pub fn schema_of<T: JsonSchema>() -> Value {
    schemars::schema_for!(T).to_value()
}

/// The JSON Schema of a plan file.
pub fn plan_schema() -> Value {
    schema_of::<Plan>()
}

/// The JSON Schema of a window written as JSON.
pub fn window_schema() -> Value {
    schema_of::<crate::window_json::WindowJson>()
}
