//! Loads of every block, their costs, and exchanges between blocks.

use crate::demand::{Demand, Values};
use crate::kernels::{Blocks, Chunk, PadShift, Rows, block_cost};
use crate::pads::{Pads, share_tokens};

/// Loads W and costs X of blocks: a block is one row and slot group, numbered as the caller likes.
///
/// Layout `[block][share][chunk of 16 layers][rank][16 layers]`, u32 routed rows; shares as in [`Demand`]. Always belongs to one [`Demand`].
#[derive(Debug, PartialEq, Eq)]
pub struct Loads {
    /// Padding to fixed experts included, spread padding not.
    pub(crate) values: Vec<Chunk<u32>>,
    /// X, `[block][share]`.
    costs: Vec<u64>,
    /// `[block]`.
    pad_tokens: Vec<u64>,
}

impl Clone for Loads {
    fn clone(&self) -> Self {
        Self { values: self.values.clone(), costs: self.costs.clone(), pad_tokens: self.pad_tokens.clone() }
    }

    fn clone_from(&mut self, source: &Self) {
        self.values.clone_from(&source.values);
        self.costs.clone_from(&source.costs);
        self.pad_tokens.clone_from(&source.pad_tokens);
    }
}

impl Loads {
    /// Padding tokens of a block.
    pub fn pad_tokens(&self, block: usize) -> u64 {
        self.pad_tokens[block]
    }

    /// Blocks.
    pub fn num_blocks(&self) -> usize {
        self.pad_tokens.len()
    }

    /// Trades the loads, costs and padding of two blocks.
    ///
    /// # Panics
    /// There is no such block.
    pub fn swap_blocks(&mut self, a: usize, b: usize) {
        self.pad_tokens.swap(a, b);
        let blocks = self.pad_tokens.len();
        let (stride, shares) = (self.values.len() / blocks, self.costs.len() / blocks);
        for offset in 0..stride {
            self.values.swap(a * stride + offset, b * stride + offset);
        }
        for share in 0..shares {
            self.costs.swap(a * shares + share, b * shares + share);
        }
    }
}

/// One unit leaves block `from` for block `to`, and perhaps one comes back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exchange {
    /// The block the first unit leaves.
    pub from: usize,
    /// The other block.
    pub to: usize,
    /// Unit that goes from `from` to `to`.
    pub leaves: Option<usize>,
    /// Unit that goes from `to` to `from`.
    pub comes: Option<usize>,
    /// Padding tokens of `from` and `to` afterwards; ignored unless the demand charges padding.
    pub pad_tokens: [u64; 2],
}

/// Sets of units change places between two blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SetExchange<'a> {
    /// The block the first set leaves.
    pub from: usize,
    /// The other block.
    pub to: usize,
    /// Units that go from `from` to `to`.
    pub leaves: &'a [u32],
    /// Units that go from `to` to `from`.
    pub comes: &'a [u32],
    /// Padding tokens of `from` and `to` afterwards; ignored unless the demand charges padding.
    pub pad_tokens: [u64; 2],
}

/// Room for the summed demands of two sets, kept between calls.
#[derive(Clone, Debug, Default)]
pub struct SetSums {
    leaves: Vec<Chunk<u32>>,
    comes: Vec<Chunk<u32>>,
}

impl Exchange {
    /// The exchange that undoes this one, given the padding tokens of both blocks before it.
    #[must_use]
    pub fn reversed(&self, pad_tokens: [u64; 2]) -> Self {
        Self { leaves: self.comes, comes: self.leaves, pad_tokens, ..*self }
    }
}

impl Demand {
    /// Loads of `num_blocks` empty blocks.
    pub fn empty_loads(&self, num_blocks: usize) -> Loads {
        let shares = num_blocks * self.shape.shares();
        Loads {
            values: vec![[0; crate::kernels::LANES]; shares * self.shape.stride()],
            costs: vec![0; shares],
            pad_tokens: vec![0; num_blocks],
        }
    }

    /// X of one block and share: `Σ_l Γ_l · max_p W`.
    #[inline]
    pub fn cost(&self, loads: &Loads, block: usize, share: usize) -> u64 {
        loads.costs[block * self.shape.shares() + share]
    }

    /// W of one block, part, layer and rank, padding included, in routed rows.
    pub fn load(&self, loads: &Loads, block: usize, part: usize, layer: usize, rank: usize) -> u64 {
        let (share, chunk, lane) = self.find(part, layer, rank);
        let chunk = (block * self.shape.shares() + share) * self.shape.stride() + chunk;
        let tokens = share_tokens(loads.pad_tokens[block], share, self.shape);
        u64::from(loads.values[chunk][lane]) + self.pads.spread_rows(tokens, self.shape)
    }

    /// Adds a unit's demand to a block; its costs are stale until [`Demand::repad`].
    pub fn add(&self, loads: &mut Loads, block: usize, unit: usize) {
        for share in 0..self.shape.shares() {
            let values = &mut loads.values[self.loads_range(block, share)];
            match &self.values {
                Values::Narrow(demand) => add(values, &demand[self.range(Some(unit), share)]),
                Values::Wide(demand) => add(values, &demand[self.range(Some(unit), share)]),
            }
        }
    }

    /// X of both blocks in one share after an exchange; nothing changes.
    ///
    /// # Panics
    /// Both blocks are the same, or there is no such block or unit.
    #[inline]
    pub fn exchange_costs(&self, loads: &Loads, share: usize, exchange: &Exchange) -> [u64; 2] {
        match &self.values {
            Values::Narrow(values) => self.exchange_costs_of(values, loads, share, exchange),
            Values::Wide(values) => self.exchange_costs_of(values, loads, share, exchange),
        }
    }

    #[inline]
    fn exchange_costs_of<T: Rows>(
        &self,
        values: &[Chunk<T>],
        loads: &Loads,
        share: usize,
        exchange: &Exchange,
    ) -> [u64; 2] {
        assert_ne!(exchange.from, exchange.to, "an exchange is between two blocks");
        let ends = [exchange.from, exchange.to];
        let blocks = self.blocks(loads, share, ends);
        let leaves = &values[self.range(exchange.leaves, share)];
        let comes = &values[self.range(exchange.comes, share)];
        self.charge(loads, share, blocks, ends, exchange.pad_tokens, leaves, comes)
    }

    #[inline]
    pub(crate) fn blocks<'a>(&'a self, loads: &'a Loads, share: usize, [from, to]: [usize; 2]) -> Blocks<'a> {
        Blocks {
            ranks: self.shape.ranks,
            a: &loads.values[self.loads_range(from, share)],
            b: &loads.values[self.loads_range(to, share)],
            weights: self.weights_of(share),
        }
    }

    /// Costs of two blocks after the demands changed sides, padding included.
    #[expect(clippy::too_many_arguments, reason = "the one place where demands, blocks and padding meet")]
    #[inline]
    fn charge<T: Rows>(
        &self,
        loads: &Loads,
        share: usize,
        blocks: Blocks<'_>,
        ends: [usize; 2],
        pad_tokens: [u64; 2],
        leaves: &[Chunk<T>],
        comes: &[Chunk<T>],
    ) -> [u64; 2] {
        let tokens = pad_tokens.map(|tokens| share_tokens(tokens, share, self.shape));
        match &self.pads {
            Pads::None => T::exchange(blocks, leaves, comes),
            Pads::Spread { .. } => {
                let [a, b] = T::exchange(blocks, leaves, comes);
                let [pads_a, pads_b] = tokens.map(|tokens| self.pads.spread_cost(tokens, share, self.shape));
                [a + pads_a, b + pads_b]
            }
            Pads::Fixed(experts) => {
                let before = ends.map(|block| share_tokens(loads.pad_tokens[block], share, self.shape));
                let gains = [0, 1].map(|side| (tokens[side].wrapping_sub(before[side])) as u32);
                T::padded_exchange(
                    blocks,
                    leaves,
                    comes,
                    PadShift { experts: &experts[share % self.shape.stages], gains },
                )
            }
        }
    }

    /// X of both blocks in one share after sets of units changed places; nothing changes.
    ///
    /// Complexity: one pass over every unit's demand, then one kernel call.
    ///
    /// # Panics
    /// Both blocks are the same, or there is no such block or unit.
    pub fn set_exchange_costs(
        &self,
        loads: &Loads,
        share: usize,
        exchange: &SetExchange<'_>,
        sums: &mut SetSums,
    ) -> [u64; 2] {
        assert_ne!(exchange.from, exchange.to, "an exchange is between two blocks");
        let sides = [(&mut sums.leaves, exchange.leaves), (&mut sums.comes, exchange.comes)];
        for (sum, units) in sides {
            sum.clear();
            sum.resize(self.shape.stride(), [0; crate::kernels::LANES]);
            for &unit in units {
                let range = self.range(Some(unit as usize), share);
                match &self.values {
                    Values::Narrow(demand) => add(sum, &demand[range]),
                    Values::Wide(demand) => add(sum, &demand[range]),
                }
            }
        }
        let blocks = self.blocks(loads, share, [exchange.from, exchange.to]);
        self.charge(
            loads,
            share,
            blocks,
            [exchange.from, exchange.to],
            exchange.pad_tokens,
            &sums.leaves,
            &sums.comes,
        )
    }

    /// Makes an exchange of sets, in all shares.
    ///
    /// # Panics
    /// Both blocks are the same, or there is no such block or unit.
    pub fn set_exchange(&self, loads: &mut Loads, exchange: &SetExchange<'_>) {
        assert_ne!(exchange.from, exchange.to, "an exchange is between two blocks");
        let moves = exchange.leaves.iter().map(|&unit| (unit, exchange.from, exchange.to));
        let back = exchange.comes.iter().map(|&unit| (unit, exchange.to, exchange.from));
        for (unit, from, to) in moves.chain(back) {
            for share in 0..self.shape.shares() {
                let ranges = [from, to].map(|block| self.loads_range(block, share));
                let [a, b] = loads.values.get_disjoint_mut(ranges).expect("two blocks of the loads");
                let (leaves, comes) = (self.range(Some(unit as usize), share), self.range(None, share));
                match &self.values {
                    Values::Narrow(values) => shift(a, b, &values[leaves], &values[comes]),
                    Values::Wide(values) => shift(a, b, &values[leaves], &values[comes]),
                }
            }
        }
        let [from, to] = exchange.pad_tokens;
        self.repad(loads, exchange.from, from);
        self.repad(loads, exchange.to, to);
    }

    /// Makes an exchange, in all shares.
    ///
    /// # Panics
    /// Both blocks are the same, or there is no such block or unit.
    pub fn exchange(&self, loads: &mut Loads, exchange: &Exchange) {
        assert_ne!(exchange.from, exchange.to, "an exchange is between two blocks");
        for share in 0..self.shape.shares() {
            let ranges = [exchange.from, exchange.to].map(|block| self.loads_range(block, share));
            let [a, b] = loads.values.get_disjoint_mut(ranges).expect("two blocks of the loads");
            let (leaves, comes) = (self.range(exchange.leaves, share), self.range(exchange.comes, share));
            match &self.values {
                Values::Narrow(values) => shift(a, b, &values[leaves], &values[comes]),
                Values::Wide(values) => shift(a, b, &values[leaves], &values[comes]),
            }
        }
        let [from, to] = exchange.pad_tokens;
        self.repad(loads, exchange.from, from);
        self.repad(loads, exchange.to, to);
    }

    /// X of a block and share if it held `pad_tokens` padding tokens; nothing changes.
    pub fn repadded_cost(&self, loads: &Loads, block: usize, share: usize, pad_tokens: u64) -> u64 {
        let tokens = share_tokens(pad_tokens, share, self.shape);
        let before = share_tokens(loads.pad_tokens[block], share, self.shape);
        match &self.pads {
            Pads::None => self.cost(loads, block, share),
            Pads::Spread { .. } => {
                self.cost(loads, block, share) - self.pads.spread_cost(before, share, self.shape)
                    + self.pads.spread_cost(tokens, share, self.shape)
            }
            Pads::Fixed(experts) => {
                let gains = [tokens.wrapping_sub(before) as u32, 0];
                let block = &loads.values[self.loads_range(block, share)];
                let blocks =
                    Blocks { ranks: self.shape.ranks, a: block, b: block, weights: self.weights_of(share) };
                let shift = PadShift { experts: &experts[share % self.shape.stages], gains };
                match &self.values {
                    Values::Narrow(values) => {
                        let nobody = &values[self.range(None, share)];
                        Rows::padded_exchange(blocks, nobody, nobody, shift)[0]
                    }
                    Values::Wide(values) => {
                        let nobody = &values[self.range(None, share)];
                        Rows::padded_exchange(blocks, nobody, nobody, shift)[0]
                    }
                }
            }
        }
    }

    /// Sets the padding tokens of a block and brings its costs up to date.
    pub fn repad(&self, loads: &mut Loads, block: usize, pad_tokens: u64) {
        for share in 0..self.shape.shares() {
            let range = self.loads_range(block, share);
            let tokens = share_tokens(pad_tokens, share, self.shape);
            let values = &mut loads.values[range];
            if let Pads::Fixed(experts) = &self.pads {
                let before = share_tokens(loads.pad_tokens[block], share, self.shape);
                let gain = tokens.wrapping_sub(before) as u32;
                for (values, experts) in values.iter_mut().zip(&experts[share % self.shape.stages]) {
                    for (value, &experts) in values.iter_mut().zip(experts) {
                        *value = value.wrapping_add(gain.wrapping_mul(experts));
                    }
                }
            }
            loads.costs[block * self.shape.shares() + share] =
                block_cost(self.shape.ranks, values, self.weights_of(share))
                    + self.pads.spread_cost(tokens, share, self.shape);
        }
        loads.pad_tokens[block] = pad_tokens;
    }

    #[inline]
    pub(crate) fn loads_range(&self, block: usize, share: usize) -> std::ops::Range<usize> {
        let stride = self.shape.stride();
        let start = (block * self.shape.shares() + share) * stride;
        start..start + stride
    }
}

/// Adds a demand to the loads of a block.
fn add<T: Rows>(loads: &mut [Chunk<u32>], demand: &[Chunk<T>]) {
    for (loads, demand) in loads.iter_mut().zip(demand) {
        for (load, demand) in loads.iter_mut().zip(demand) {
            *load = load.wrapping_add(demand.widen());
        }
    }
}

/// Moves one demand from a to b and another from b to a.
fn shift<T: Rows>(a: &mut [Chunk<u32>], b: &mut [Chunk<u32>], leaves: &[Chunk<T>], comes: &[Chunk<T>]) {
    for ((a, b), (leaves, comes)) in a.iter_mut().zip(b).zip(leaves.iter().zip(comes)) {
        for lane in 0..a.len() {
            let gain = comes[lane].widen().wrapping_sub(leaves[lane].widen());
            a[lane] = a[lane].wrapping_add(gain);
            b[lane] = b[lane].wrapping_sub(gain);
        }
    }
}
