//! From a packing and a bound to a certificate the checker accepts.

use routepack_certificate::{Certificate, CheckError, Limits, Statement, check};

use crate::bound::Bound;
use crate::error::PackError;

/// The certificate of a packing and a bound: both claims, cells and rows, rest on the one proof.
pub(crate) fn certificate(statement: &Statement, witness: Option<Vec<Vec<u32>>>, bound: &Bound) -> Certificate {
    let claimed = bound.cells > 0;
    Certificate {
        witness,
        cells_at_least: claimed.then_some(bound.cells),
        rows_at_least: claimed.then(|| statement.rows_for(bound.cells)),
        proof: claimed.then(|| bound.proof.clone()),
    }
}

/// What the checker says of a bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// Accepted in so many steps.
    Accepted(u64),
    /// Too expensive to check, or `stop` came first: no claim.
    Unchecked,
}

/// Asks the checker about a bound, with ever more steps so that `stop` is asked in between.
///
/// # Errors
/// [`PackError::Certificate`] if the checker refuses: the method is broken.
pub(crate) fn confirm(
    statement: &Statement,
    bound: &Bound,
    limits: &Limits,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<Verdict, PackError> {
    let claim = certificate(statement, None, bound);
    let mut max_steps = limits.max_steps.min(1_000_000);
    loop {
        match check(statement, &claim, &Limits { max_steps, ..*limits }) {
            Ok(checked) => return Ok(Verdict::Accepted(checked.steps)),
            Err(CheckError::NotChecked { .. }) if max_steps == limits.max_steps || stop() => {
                return Ok(Verdict::Unchecked);
            }
            Err(CheckError::NotChecked { resource: "steps", .. }) => {
                max_steps = limits.max_steps.min(10 * max_steps);
            }
            Err(CheckError::NotChecked { .. }) => return Ok(Verdict::Unchecked),
            Err(source) => return Err(PackError::Certificate { method: bound.method.clone(), source }),
        }
    }
}
