//! Options of the simulation.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SimulateError;

/// How the trainer runs a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SimulateOptions {
    /// Whether activations are recomputed in full: forward runs twice.
    pub recompute: bool,
    /// Bytes of one number dispatched forward: 0.5 for FP4, 1 for FP8, 2 for BF16; above 0, at most 8. All other exchanges
    /// are BF16.
    pub dispatch_bytes: f64,
    /// Share of the exchange of gradients and weights that computation does not hide, 0 to 1.
    pub exposed_gradients: f64,
    /// Bytes that move with one expert parameter: BF16 weight, FP32 master and two moments; 0 to 64.
    pub move_bytes: f64,
    /// Seconds of planning that rollouts do not hide, 0 to 10^6.
    pub planning_seconds: f64,
}

impl Default for SimulateOptions {
    fn default() -> Self {
        Self {
            recompute: false,
            dispatch_bytes: 2.0,
            exposed_gradients: 1.0,
            move_bytes: 14.0,
            planning_seconds: 0.0,
        }
    }
}

impl SimulateOptions {
    /// Refuses values out of range.
    ///
    /// # Errors
    /// The option, its value and its limit.
    pub fn check(&self) -> Result<(), SimulateError> {
        for (field, value, range, limit) in [
            ("dispatch_bytes", self.dispatch_bytes, f64::MIN_POSITIVE..=8.0, "above 0, at most 8"),
            ("exposed_gradients", self.exposed_gradients, 0.0..=1.0, "0 to 1"),
            ("move_bytes", self.move_bytes, 0.0..=64.0, "0 to 64"),
            ("planning_seconds", self.planning_seconds, 0.0..=1e6, "0 to 10^6"),
        ] {
            if !range.contains(&value) {
                return Err(SimulateError::Option { field, value: value.to_string(), limit });
            }
        }
        Ok(())
    }
}
