//! From resident to target placement: passes of rounds of messages, with every buffer stated.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::passes::passes;
use crate::rounds::{Pass, rounds};
use crate::transfer::check_placements;
use crate::{Holdings, Links, MaterialiseError, Transfer};

/// How to move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MoveOptions {
    /// Largest message, in bytes. A rank holds two to send.
    pub block_bytes: u64,
    /// Most bytes a rank receives aside before it writes them to their places; when absent, all it receives.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub staging_bytes: Option<u64>,
    /// Speeds by which messages that take equally long share a round.
    pub links: Links,
}

impl Default for MoveOptions {
    fn default() -> Self {
        Self { block_bytes: 64 << 20, staging_bytes: None, links: Links::default() }
    }
}

/// A move, ready to be executed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Materialised {
    /// Map the state is laid out by before ([`map_sha256`]).
    pub resident_sha256: String,
    /// Map it is laid out by after.
    pub target_sha256: String,
    /// Passes, in order.
    pub passes: Vec<Pass>,
    /// Most bytes any rank holds aside in any pass.
    pub staging_bytes: u64,
    /// Largest message, in bytes.
    pub message_bytes: u64,
}

/// Plans how expert state moves from one placement to another.
///
/// # Errors
/// Placements of another shape than the state, no bytes a message, or a staging buffer that cannot take one element of
/// every expert a rank receives.
pub fn materialise(
    holdings: &Holdings,
    resident: &Placement,
    target: &Placement,
    options: &MoveOptions,
) -> Result<Materialised, MaterialiseError> {
    check_placements(holdings, resident, target)?;
    if options.block_bytes == 0 {
        return Err(MaterialiseError::state("options.block_bytes", 0, "expected at least 1"));
    }
    options.links.validate()?;
    let passes: Vec<Pass> = passes(holdings, resident, target, options.staging_bytes)?
        .into_iter()
        .map(|transfers| rounds(&holdings.grid, transfers, options))
        .collect();
    let blocks = passes.iter().flat_map(|pass| pass.rounds.iter().flatten());
    Ok(Materialised {
        resident_sha256: map_sha256(resident),
        target_sha256: map_sha256(target),
        staging_bytes: passes.iter().map(|pass| staged(holdings, pass)).max().unwrap_or(0),
        message_bytes: blocks.map(|block| block.num_bytes).max().unwrap_or(0),
        passes,
    })
}

/// Most bytes a rank receives in a pass.
fn staged(holdings: &Holdings, pass: &Pass) -> u64 {
    let mut received: BTreeMap<u32, u64> = BTreeMap::new();
    for transfer in pass.transfers() {
        *received.entry(holdings.grid.rank(transfer.to.owner)).or_default() += transfer.len();
    }
    received.into_values().max().unwrap_or(0)
}

impl Pass {
    /// Every transfer, within ranks and between them.
    pub fn transfers(&self) -> impl Iterator<Item = &Transfer> {
        let sent = self.rounds.iter().flatten().flat_map(|block| &block.pieces);
        self.local.iter().chain(sent)
    }
}

impl Materialised {
    /// The way back: passes in reverse, senders as receivers.
    #[must_use]
    pub fn inverse(&self) -> Self {
        let turn =
            |transfer: &Transfer| Transfer { from: transfer.to, to: transfer.from, ..transfer.clone() };
        let passes = self.passes.iter().rev().map(|pass| {
            let rounds = pass.rounds.iter().map(|round| {
                let mut round: Vec<crate::Block> = round
                    .iter()
                    .map(|block| crate::Block {
                        from: block.to,
                        to: block.from,
                        num_bytes: block.num_bytes,
                        pieces: block.pieces.iter().map(turn).collect(),
                    })
                    .collect();
                round.sort_by_key(|block| block.from);
                round
            });
            Pass { local: pass.local.iter().map(turn).collect(), rounds: rounds.collect() }
        });
        Self {
            resident_sha256: self.target_sha256.clone(),
            target_sha256: self.resident_sha256.clone(),
            passes: passes.collect(),
            // Every seat that receives also sends as many bytes.
            staging_bytes: self.staging_bytes,
            message_bytes: self.message_bytes,
        }
    }
}

/// SHA-256 of a map, hexadecimal: layers and experts as 64-bit, then the slot of every expert as 32-bit numbers, all
/// little-endian, after the words `routepack map`. The number of EP ranks is no part of it.
pub fn map_sha256(placement: &Placement) -> String {
    let mut hash = Sha256::new_with_prefix("routepack map");
    hash.update((placement.num_layers() as u64).to_le_bytes());
    hash.update((placement.num_experts() as u64).to_le_bytes());
    for layer in 0..placement.num_layers() {
        for slot in placement.slots(layer) {
            hash.update(slot.to_le_bytes());
        }
    }
    hex(&hash.finalize())
}

/// Bytes in hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |mut text, byte| {
        write!(text, "{byte:02x}").expect("text takes everything");
        text
    })
}
