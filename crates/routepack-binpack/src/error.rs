//! Why there is no answer at all.

use routepack_certificate::{CheckError, Statement};
use routepack_lp::LpError;
use thiserror::Error;

/// Bad input or a broken invariant; running out of budget is no error.
#[derive(Debug, Error)]
pub enum PackError {
    /// An item of size zero.
    #[error("item {item} has size 0")]
    ZeroSize {
        /// Index of the item in input order.
        item: usize,
    },
    /// An item that fits in no bin.
    #[error("item {item} has size {size}, more than the capacity {capacity}")]
    Oversize {
        /// Index of the item in input order.
        item: usize,
        /// Its size.
        size: u64,
        /// The capacity it exceeds.
        capacity: u64,
    },
    /// A figure of the statement that must be at least 1 is 0.
    #[error("{name} is 0, must be at least 1")]
    Zero {
        /// The figure.
        name: &'static str,
    },
    /// More items than indices of 32 bits can name.
    #[error("{items} items, more than {limit}")]
    TooManyItems {
        /// Their number.
        items: usize,
        /// The largest number allowed.
        limit: usize,
    },
    /// An option out of its range.
    #[error("option {name} = {value}: {allowed}")]
    Option {
        /// The option.
        name: &'static str,
        /// Its value.
        value: String,
        /// What is allowed.
        allowed: &'static str,
    },
    /// The checker refused a certificate it was expected to accept.
    #[error("the certificate by {method} was not accepted: {source}")]
    Certificate {
        /// The method whose result it states.
        method: String,
        /// The checker's answer.
        source: CheckError,
    },
    /// A linear program failed.
    #[error("linear program: {0}")]
    Lp(#[from] LpError),
}

/// Checks that every item fits in a bin and every figure is at least 1.
pub(crate) fn validate(statement: &Statement) -> Result<(), PackError> {
    let figures = [
        ("capacity", statement.capacity),
        ("max_items", statement.max_items.map_or(1, u64::from)),
        ("slots", statement.slots),
        ("rows_multiple", statement.rows_multiple),
    ];
    if let Some((name, _)) = figures.into_iter().find(|figure| figure.1 == 0) {
        return Err(PackError::Zero { name });
    }
    let (items, limit) = (statement.sizes.len(), u32::MAX as usize);
    if items > limit {
        return Err(PackError::TooManyItems { items, limit });
    }
    let capacity = statement.capacity;
    match statement.sizes.iter().position(|&size| size == 0 || size > capacity) {
        None => Ok(()),
        Some(item) if statement.sizes[item] == 0 => Err(PackError::ZeroSize { item }),
        Some(item) => Err(PackError::Oversize { item, size: statement.sizes[item], capacity }),
    }
}
