//! Files that say where the weights are: a plan, or what `routepack place -o` writes.

use std::path::Path;

use routepack::Placement;
use serde_json::Value;

use crate::exit::Failure;

/// Reads the placement of a plan or of a placement file.
pub(super) fn read_resident(path: &Path) -> Result<Placement, Failure> {
    let shown = path.display();
    let bytes = std::fs::read(path).map_err(|error| Failure::File(format!("{shown}: {error}")))?;
    let value: Value =
        serde_json::from_slice(&bytes).map_err(|error| Failure::input(shown.to_string(), error))?;
    let (ranks, slots) = match value.get("placement") {
        Some(placement) => (placement.get("num_ranks"), placement.get("log2phys")),
        None => (value.get("ep"), value.get("log2phys")),
    };
    let (Some(ranks), Some(slots)) = (ranks.and_then(Value::as_u64), slots) else {
        let message = "neither a plan with a placement nor a placement (ep, log2phys)";
        return Err(Failure::input(shown, message));
    };
    let slots: Vec<Vec<u32>> = serde_json::from_value(slots.clone())
        .map_err(|error| Failure::input(shown.to_string(), format!("log2phys: {error}")))?;
    Placement::new(ranks as usize, slots).map_err(|error| Failure::input(shown, error))
}
