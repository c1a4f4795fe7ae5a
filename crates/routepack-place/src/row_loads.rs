//! What every expert of a layout is charged with: the loads that placement on row peaks works on.
//!
//! V\[b,l,e\] = routed rows of expert e of layer l in block b, a block being one row and EDP shard of one optimizer step:
//! a\[i,l,e\] summed over the samples of the block's cells, and the padding tokens of those cells where they are routed to
//! fixed experts. Σ over the experts of rank p is W\[b,l,p\] of DESIGN §1.3 (but for padding spread evenly, which no
//! placement changes). O(n·L·E).

use rayon::prelude::*;
use routepack_problem::{Instance, Layout};

use crate::PlaceError;

/// Loads of every expert in every block, `[layers][experts][blocks]` in routed rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowLoads {
    num_experts: usize,
    num_blocks: usize,
    /// One vector a layer.
    layers: Vec<Vec<u32>>,
}

impl RowLoads {
    /// Loads given outright: one vector `[experts · blocks]` a layer, the blocks of an expert together.
    ///
    /// # Errors
    /// A layer of another length, or a block whose loads of a layer reach 2^31.
    pub fn new(num_experts: usize, num_blocks: usize, layers: Vec<Vec<u32>>) -> Result<Self, PlaceError> {
        for (layer, loads) in layers.iter().enumerate() {
            if loads.len() != num_experts * num_blocks {
                let expected = num_experts * num_blocks;
                return Err(PlaceError::Shape { layer, found: loads.len(), expected });
            }
            for block in 0..num_blocks {
                let sum: u128 =
                    loads.iter().skip(block).step_by(num_blocks).map(|&load| u128::from(load)).sum();
                if sum >= 1 << 31 {
                    return Err(PlaceError::BlockOverflow { layer, block, sum });
                }
            }
        }
        Ok(Self { num_experts, num_blocks, layers })
    }

    /// The loads of these layouts, blocks of the steps one after the other, `row · shards + shard` within a step.
    ///
    /// # Errors
    /// A block whose loads of a layer reach 2^31.
    ///
    /// # Panics
    /// No step, or steps of different models.
    pub fn of_layouts(steps: &[(&Instance, &Layout)]) -> Result<Self, PlaceError> {
        let model = steps.first().expect("a batch has a step").0;
        let (num_experts, num_layers) = (model.num_experts(), model.num_layers());
        let blocks: Vec<Block<'_>> =
            steps.iter().flat_map(|&(instance, layout)| blocks(instance, layout)).collect();
        let num_blocks = blocks.len();
        let layers = (0..num_layers)
            .into_par_iter()
            .map(|layer| {
                let mut loads = vec![0u64; num_experts * num_blocks];
                for (index, block) in blocks.iter().enumerate() {
                    let mut add = |expert: usize, rows: u64| loads[expert * num_blocks + index] += rows;
                    for &sample in &block.samples {
                        block.instance.for_each_count(sample as usize, block.part, layer, |expert, rows| {
                            add(expert, u64::from(rows));
                        });
                    }
                    for &expert in block.instance.pad_experts().unwrap_or_default() {
                        add(expert as usize, block.pad_tokens);
                    }
                }
                loads.into_iter().map(|load| u32::try_from(load).unwrap_or(u32::MAX)).collect()
            })
            .collect();
        Self::new(num_experts, num_blocks, layers)
    }

    /// These loads, those of every block times its weight `[blocks]`: the sum of peaks is then a weighted one.
    ///
    /// # Errors
    /// Not one weight a block, or a block whose loads of a layer reach 2^31.
    pub fn weighted(&self, weights: &[u32]) -> Result<Self, PlaceError> {
        if weights.len() != self.num_blocks {
            let (found, expected) = (weights.len(), self.num_blocks);
            return Err(PlaceError::Weights { found, expected });
        }
        let of_layer = |loads: &Vec<u32>| {
            let weighted = loads.iter().zip(weights.iter().cycle());
            weighted.map(|(&load, &weight)| load.saturating_mul(weight)).collect()
        };
        Self::new(self.num_experts, self.num_blocks, self.layers.iter().map(of_layer).collect())
    }

    /// Layers L.
    pub fn num_layers(&self) -> usize {
        self.layers.len()
    }

    /// Experts E of a layer.
    pub fn num_experts(&self) -> usize {
        self.num_experts
    }

    /// Blocks: rows times EDP shards, of all steps.
    pub fn num_blocks(&self) -> usize {
        self.num_blocks
    }

    /// Load of an expert in every block, `[blocks]`.
    pub fn of(&self, layer: usize, expert: usize) -> &[u32] {
        &self.layers[layer][expert * self.num_blocks..][..self.num_blocks]
    }
}

/// Samples of one row and shard.
struct Block<'a> {
    instance: &'a Instance,
    part: usize,
    samples: Vec<u32>,
    /// Padding tokens of this part.
    pad_tokens: u64,
}

fn blocks<'a>(instance: &'a Instance, layout: &Layout) -> Vec<Block<'a>> {
    let topology = instance.topology();
    let cells = layout.cells();
    let parts = topology.num_parts() as u64;
    let mut blocks = Vec::with_capacity(layout.num_rows() * topology.num_shards());
    for row in 0..layout.num_rows() {
        for shard in 0..topology.num_shards() {
            let (_, part) = topology.shard_group_and_part(shard);
            let (mut samples, mut pad_tokens) = (Vec::new(), 0);
            for slot in topology.shard_slots(shard) {
                let cell = &cells[row * layout.num_slots() + slot];
                let tokens: u64 = cell.iter().map(|&i| u64::from(instance.padded_length(i as usize))).sum();
                pad_tokens += cell.iter().map(|&i| u64::from(instance.pad_tokens(i as usize))).sum::<u64>()
                    + instance.cell_padding(tokens);
                samples.extend_from_slice(cell);
            }
            blocks.push(Block { instance, part, samples, pad_tokens: (pad_tokens + part as u64) / parts });
        }
    }
    blocks
}
