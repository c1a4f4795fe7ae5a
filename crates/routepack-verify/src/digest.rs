//! SHA-256 of a batch and of a plan: what ranks compare before they run a plan.

use std::fmt::Write as _;

use rayon::prelude::*;
use routepack_problem::{Batch, SampleIds};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::Plan;

/// First bytes of the window digest, so that no other file can be taken for a window.
const WINDOW_TAG: &str = "routepack-window/2";
/// Bytes of an array hashed on their own, so that threads share the work.
const BLOCK: usize = 1 << 18;

/// SHA-256 of the batch's arrays, hexadecimal.
///
/// Independent of file format, memory order and integer type. Every array present, in the order of [`Batch`]'s fields,
/// contributes its name, a zero byte, the number of dimensions, the dimensions, and the SHA-256 (32 bytes) of every block
/// of 2^18 bytes of its values, the last block shorter. Values are in row-major order; dimensions take 8 bytes, token
/// counts 4, ids and steps 8 (two's complement), all least significant byte first; a text id is its number of bytes and
/// its UTF-8. `expert_counts` always has four dimensions.
pub fn window_sha256(batch: &Batch) -> String {
    let mut window = Hashed { hash: Sha256::new() };
    window.hash.update(WINDOW_TAG);
    window.counts("lengths", &[batch.lengths.len()], &[&batch.lengths]);
    if let Some(counts) = &batch.expert_counts {
        window.counts("expert_counts", &counts.shape(), &counts.by_sample());
    }
    for (name, values) in [("routed_rows", &batch.routed_rows), ("loss_tokens", &batch.loss_tokens)] {
        if let Some(values) = values {
            window.counts(name, &[values.len()], &[values]);
        }
    }
    match &batch.sample_ids {
        Some(SampleIds::Integers(ids)) => window.integers("sample_ids", ids),
        Some(SampleIds::Strings(ids)) => {
            let mut bytes = Vec::new();
            for id in ids {
                bytes.extend((id.len() as u64).to_le_bytes());
                bytes.extend(id.as_bytes());
            }
            window.begin("sample_ids as text", &[ids.len()]);
            window.blocks(&[&bytes], BLOCK, |&byte| [byte]);
        }
        None => {}
    }
    for (name, values) in
        [("prompt_ids", &batch.prompt_ids), ("atomic_groups", &batch.atomic_groups), ("step", &batch.step)]
    {
        if let Some(values) = values {
            window.integers(name, values);
        }
    }
    if let Some(table) = &batch.cost {
        window.counts("cost", &[table.values.len() / table.kinds.max(1), table.kinds], &[&table.values]);
    }
    window.finish()
}

/// SHA-256 of a plan's body, hexadecimal: the plan as JSON without `sha256`, keys sorted by their bytes, no white space,
/// text in UTF-8 with only `"`, `\` and control characters escaped, floats in their shortest form.
pub fn plan_sha256(plan: &Plan) -> String {
    let mut body = serde_json::to_value(plan).expect("a plan has only text keys");
    body.as_object_mut().expect("a plan is an object").remove("sha256");
    let mut hashed = Hashed { hash: Sha256::new() };
    let mut text = String::new();
    write_canonical(&body, &mut text);
    hashed.hash.update(text);
    hashed.finish()
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Array(values) => {
            text.push('[');
            for (index, value) in values.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(value, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            // Sorted here: whether the map keeps insertion order is another crate's feature flag.
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|field| field.0);
            text.push('{');
            for (index, (key, value)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_leaf(&Value::from(key.as_str()), text);
                text.push(':');
                write_canonical(value, text);
            }
            text.push('}');
        }
        leaf => write_leaf(leaf, text),
    }
}

fn write_leaf(value: &Value, text: &mut String) {
    write!(text, "{value}").expect("writing to a string succeeds");
}

struct Hashed {
    hash: Sha256,
}

impl Hashed {
    fn begin(&mut self, name: &str, shape: &[usize]) {
        self.hash.update(name);
        self.hash.update([0]);
        for number in std::iter::once(&shape.len()).chain(shape) {
            self.hash.update((*number as u64).to_le_bytes());
        }
    }

    fn counts(&mut self, name: &str, shape: &[usize], pieces: &[&[u32]]) {
        self.begin(name, shape);
        self.blocks(pieces, BLOCK / 4, |value| value.to_le_bytes());
    }

    fn integers(&mut self, name: &str, values: &[i64]) {
        self.begin(name, &[values.len()]);
        self.blocks(&[values], BLOCK / 8, |value| value.to_le_bytes());
    }

    /// Hashes every block of so many values, on the threads of the current rayon pool, and then the hashes in order.
    /// Where the values lie apart does not matter.
    fn blocks<T: Sync, const WIDTH: usize>(
        &mut self,
        pieces: &[&[T]],
        block: usize,
        bytes: impl Fn(&T) -> [u8; WIDTH] + Sync,
    ) {
        let hashes: Vec<[u8; 32]> = cut(pieces, block)
            .par_iter()
            .map(|pieces| {
                let mut hash = Sha256::new();
                for some in pieces.iter().flat_map(|values| values.chunks(1 << 12)) {
                    hash.update(some.iter().flat_map(&bytes).collect::<Vec<u8>>());
                }
                hash.finalize().into()
            })
            .collect();
        hashes.iter().for_each(|hash| self.hash.update(hash));
    }

    fn finish(self) -> String {
        self.hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
            write!(text, "{byte:02x}").expect("writing to a string succeeds");
            text
        })
    }
}

/// The pieces of every block of so many values; the last block is shorter.
fn cut<'a, T>(pieces: &[&'a [T]], block: usize) -> Vec<Vec<&'a [T]>> {
    let (mut blocks, mut free) = (Vec::new(), 0);
    for mut piece in pieces.iter().copied() {
        while !piece.is_empty() {
            if free == 0 {
                blocks.push(Vec::new());
                free = block;
            }
            let (now, later) = piece.split_at(free.min(piece.len()));
            blocks.last_mut().expect("one was begun").push(now);
            free -= now.len();
            piece = later;
        }
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;
    use routepack_problem::ExpertCounts;

    #[test]
    fn where_values_lie_does_not_matter() {
        let values: Vec<u32> = (0..200_000).collect();
        let digest = |pieces: &[&[u32]]| {
            let mut window = Hashed { hash: Sha256::new() };
            window.counts("counts", &[values.len()], pieces);
            window.finish()
        };
        let whole = digest(&[&values]);
        for piece in [777, BLOCK / 4, BLOCK] {
            assert_eq!(digest(&values.chunks(piece).collect::<Vec<_>>()), whole, "{piece}");
        }
    }

    #[test]
    fn every_array_enters_the_digest() {
        let full = || Batch {
            lengths: vec![3, 4],
            expert_counts: Some(ExpertCounts::new([2, 1, 1, 2], vec![3, 3, 4, 4]).expect("shape")),
            routed_rows: Some(vec![3, 4]),
            loss_tokens: Some(vec![1, 2]),
            sample_ids: Some(SampleIds::Strings(vec!["a".into(), "b".into()])),
            prompt_ids: Some(vec![0, 0]),
            atomic_groups: Some(vec![-1, -1]),
            step: Some(vec![0, 0]),
            cost: Some(routepack_problem::CostTable { kinds: 1, values: vec![5, 6] }),
        };
        let changes: [fn(&mut Batch); 14] = [
            |_| {},
            |batch| batch.lengths[0] = 4,
            |batch| {
                batch.expert_counts = Some(ExpertCounts::new([2, 1, 2, 1], vec![3, 3, 4, 4]).expect("shape"));
            },
            |batch| batch.expert_counts = None,
            |batch| batch.routed_rows = None,
            |batch| batch.loss_tokens = batch.routed_rows.take(),
            |batch| batch.loss_tokens = Some(vec![2, 2]),
            |batch| batch.sample_ids = Some(SampleIds::Strings(vec!["ab".into(), String::new()])),
            |batch| batch.sample_ids = Some(SampleIds::Integers(vec![0, 1])),
            |batch| batch.prompt_ids = None,
            |batch| batch.atomic_groups = batch.prompt_ids.take(),
            |batch| batch.step = Some(vec![0, 1]),
            |batch| batch.cost = None,
            |batch| batch.cost = Some(routepack_problem::CostTable { kinds: 2, values: vec![5, 6] }),
        ];
        let mut digests: Vec<String> = changes
            .iter()
            .map(|change| {
                let mut batch = full();
                change(&mut batch);
                window_sha256(&batch)
            })
            .collect();
        digests.sort();
        digests.dedup();
        assert_eq!(digests.len(), changes.len(), "two different batches have the same digest");
    }

    /// The definition again, without blocks in parallel, on an array of several blocks.
    #[test]
    fn blocks_are_those_of_the_definition() {
        let lengths: Vec<u32> = (0..200_000).map(|index| index * 7919 % 4099 + 1).collect();
        let mut plain = Sha256::new();
        plain.update(b"routepack-window/2lengths\0");
        plain.update(1u64.to_le_bytes());
        plain.update(200_000u64.to_le_bytes());
        let bytes: Vec<u8> = lengths.iter().flat_map(|length| length.to_le_bytes()).collect();
        for block in bytes.chunks(262_144) {
            plain.update(Sha256::digest(block));
        }
        assert_eq!(window_sha256(&Batch::from_lengths(lengths)), Hashed { hash: plain }.finish());
    }

    #[test]
    fn canonical_json_is_sorted_and_tight() {
        let value: Value =
            serde_json::from_str(r#"{ "b": [1, 2.5, "é\n"], "a": {"z": null, "y": true} }"#).expect("json");
        let mut text = String::new();
        write_canonical(&value, &mut text);
        assert_eq!(text, r#"{"a":{"y":true,"z":null},"b":[1,2.5,"é\n"]}"#);
    }
}
