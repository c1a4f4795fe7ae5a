//! Typed indices: a sample is not a slot, a slot is not a shard.

use serde::{Deserialize, Serialize};

macro_rules! id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(
            Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
        )]
        #[serde(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The id as an array index.
            pub fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<usize> for $name {
            fn from(index: usize) -> Self {
                Self(u32::try_from(index).expect("indices are validated to fit 32 bits"))
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

id!(
    /// A sample of one instance (window), in input order; dummies follow the recorded samples.
    SampleId
);
id!(
    /// A unit: the samples of one atomic group, or one sample that is in none.
    UnitId
);
id!(
    /// A data-parallel slot d, `0..D`.
    DpSlot
);
id!(
    /// An expert-parallel rank p, `0..P`.
    EpRank
);
id!(
    /// An EDP shard g: the DP slots that share one EP communicator (DESIGN §1.1).
    EdpShard
);
id!(
    /// An `MoE` layer l, `0..L`.
    Layer
);
id!(
    /// A logical expert e of a layer, `0..E`.
    Expert
);
id!(
    /// An execution row r, `0..R`, run by all DP slots at once.
    Row
);
