//! The twin of the kernels: the same costs from single values, in the order of the formula.

use crate::demand::Demand;
use crate::loads::{Exchange, Loads};
use crate::pads::{Pads, share_tokens};

impl Demand {
    /// [`Demand::exchange_costs`] one value at a time: what the kernels are compared with.
    pub fn exchange_costs_scalar(&self, loads: &Loads, share: usize, exchange: &Exchange) -> [u64; 2] {
        let (part, stage) = (share / self.shape.stages, share % self.shape.stages);
        let sides = [
            (exchange.from, exchange.leaves, exchange.comes, exchange.pad_tokens[0]),
            (exchange.to, exchange.comes, exchange.leaves, exchange.pad_tokens[1]),
        ];
        sides.map(|(block, leaves, comes, pad_tokens)| {
            let tokens = share_tokens(pad_tokens, share, self.shape);
            let mut cost = 0;
            for layer in (0..self.num_layers()).filter(|&layer| self.stage(layer) == stage) {
                let peak = (0..self.shape.ranks)
                    .map(|rank| {
                        let rows = |unit: Option<usize>| {
                            unit.map_or(0, |unit| u64::from(self.of(unit, part, layer, rank)))
                        };
                        let (_, chunk, lane) = self.find(part, layer, rank);
                        let load = u64::from(loads.values[self.loads_range(block, share)][chunk][lane]);
                        let (before, after) = match &self.pads {
                            Pads::Fixed(experts) => {
                                let before = share_tokens(loads.pad_tokens(block), share, self.shape);
                                let experts = u64::from(experts[stage][chunk][lane]);
                                (before * experts, tokens * experts)
                            }
                            Pads::None | Pads::Spread { .. } => {
                                (0, self.pads.spread_rows(tokens, self.shape))
                            }
                        };
                        load - before + after + rows(comes) - rows(leaves)
                    })
                    .max()
                    .unwrap_or(0);
                cost += self.weight(layer) * peak;
            }
            cost
        })
    }
}
