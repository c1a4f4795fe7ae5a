//! Recorded expert ids of consecutive tokens, from which realistic windows are cut.

use std::path::Path;

use crate::FormatError;
use crate::atomic::open;
use crate::error::said;
use crate::npz::Npz;

/// Expert ids of consecutive tokens, `[tokens, layers, top_k]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Routes {
    /// Tokens.
    pub tokens: usize,
    /// `MoE` layers.
    pub layers: usize,
    /// Experts chosen per token and layer.
    pub top_k: usize,
    /// Expert ids, row-major.
    pub experts: Vec<u16>,
}

/// Reads the array `routed_experts` `[tokens, layers, top_k]` of an `.npz` (`-`: the standard input), of any integer
/// type; other arrays are ignored.
///
/// # Errors
/// The file cannot be read or is damaged; the array is missing, has another shape, or an id outside 0 to 65535.
pub fn read_routes(path: &Path) -> Result<Routes, FormatError> {
    let (source, file) = open(path)?;
    let mut archive = Npz::open(source, &file)?;
    let array = "routed_experts";
    if !archive.names().iter().any(|name| name == array) {
        let present = said(&archive.names().join(", "));
        return Err(FormatError::MissingArray { file, array: array.to_owned(), present });
    }
    let routes = archive.integers::<u16>(array, &|shape| match shape {
        [_, layers, top_k] if *layers > 0 && *top_k > 0 => Ok(()),
        _ => Err("[tokens, layers, top_k]".to_owned()),
    })?;
    let [tokens, layers, top_k] = routes.shape[..] else {
        unreachable!("accepted shapes have three dimensions");
    };
    Ok(Routes { tokens, layers, top_k, experts: routes.values })
}
