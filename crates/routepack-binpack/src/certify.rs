//! From a packing and a bound to a certificate the checker accepts.

use routepack_certificate::{Certificate, CheckError, Checked, Limits, Statement, check};

use crate::bound::Bound;
use crate::error::PackError;

/// The certificate of a packing and a bound: both claims, cells and rows, rest on the one proof.
pub(crate) fn certificate(statement: &Statement, witness: Vec<Vec<u32>>, bound: &Bound) -> Certificate {
    let claimed = bound.cells > 0;
    Certificate {
        witness: Some(witness),
        cells_at_least: claimed.then_some(bound.cells),
        rows_at_least: claimed.then(|| statement.rows_for(bound.cells)),
        proof: claimed.then(|| bound.proof.clone()),
    }
}

/// Asks the checker about a packing and a bound, with ever more steps so that `stop` is asked in between; `None` if it
/// is too expensive to check, or `stop` came first: no claim.
///
/// # Errors
/// [`PackError::Certificate`] if the checker refuses: the method is broken.
pub(crate) fn confirm(
    statement: &Statement,
    certificate: &Certificate,
    method: &str,
    limits: &Limits,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Option<Checked>, PackError> {
    // Enough to read packing and weights, whatever `stop` says.
    let mut max_steps = limits.max_steps.min(1_000_000 + 8 * statement.sizes.len() as u64);
    loop {
        match check(statement, certificate, &Limits { max_steps, ..*limits }) {
            Ok(checked) => return Ok(Some(checked)),
            Err(CheckError::NotChecked { .. }) if max_steps == limits.max_steps || stop() => return Ok(None),
            Err(CheckError::NotChecked { resource: "steps", .. }) => {
                max_steps = limits.max_steps.min(10 * max_steps);
            }
            Err(CheckError::NotChecked { .. }) => return Ok(None),
            Err(source) => return Err(PackError::Certificate { method: method.into(), source }),
        }
    }
}
