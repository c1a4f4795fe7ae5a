//! Which solver answers.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::LpError;

/// A solver of linear and integer programs.
///
/// The default is [`Backend::Highs`] where the crate is built with the feature `highs`, else
/// [`Backend::Microlp`]. Optimal values agree between the two; optimal *solutions* and duals need not,
/// so a plan records [`Backend::name_and_version`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Backend {
    /// HiGHS, in C++: fast, with duals and a warm basis. Needs the feature `highs`.
    Highs,
    /// microlp, the pure-Rust stand-in: always there, slower.
    Microlp,
}

/// The version of microlp this crate is built with; the library does not tell. A test compares the lock file.
const MICROLP_VERSION: &str = "0.7.0";

impl Default for Backend {
    fn default() -> Self {
        if cfg!(feature = "highs") { Self::Highs } else { Self::Microlp }
    }
}

impl Backend {
    /// All backends of this build, the default first.
    pub fn all() -> &'static [Self] {
        if cfg!(feature = "highs") { &[Self::Highs, Self::Microlp] } else { &[Self::Microlp] }
    }

    /// Whether this build contains the backend.
    pub fn is_available(self) -> bool {
        Self::all().contains(&self)
    }

    /// Name and version of the solver in use, for instance `HiGHS 1.15.1`.
    ///
    /// For HiGHS the version is asked of the library that is linked, not of the crate that binds it.
    ///
    /// # Errors
    /// [`LpError::BackendMissing`] if this build has no such backend.
    pub fn name_and_version(self) -> Result<String, LpError> {
        match self {
            Self::Microlp => Ok(format!("microlp {MICROLP_VERSION}")),
            #[cfg(feature = "highs")]
            Self::Highs => Ok(format!("HiGHS {}", crate::highs_calls::version())),
            #[cfg(not(feature = "highs"))]
            Self::Highs => Err(LpError::BackendMissing { backend: self }),
        }
    }
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Highs => "highs",
            Self::Microlp => "microlp",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_linked_library() {
        for backend in Backend::all() {
            let name = backend.name_and_version().unwrap();
            assert!(name.split_whitespace().nth(1).unwrap().starts_with(char::is_numeric), "{name}");
        }
        assert!(Backend::default().is_available());
        assert!(!cfg!(feature = "highs") || Backend::default() == Backend::Highs);
    }

    #[test]
    fn microlp_version_is_the_locked_one() {
        let lock = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../Cargo.lock");
        let lock = std::fs::read_to_string(lock).unwrap();
        assert!(lock.contains(&format!("name = \"microlp\"\nversion = \"{MICROLP_VERSION}\"")));
    }
}
