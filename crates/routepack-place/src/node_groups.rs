//! Placement under group-limited routing: groups of experts stay whole on a node.
//!
//! Problem: per layer, E experts in consecutive groups of equal size, N nodes of P/N ranks; a router that sends a token to few
//! groups saves links between nodes only if no group is split. Least largest rank load, every group on one node.
//! Method: groups onto nodes as experts onto ranks, then the experts of each node onto its ranks (`place.rs` both times);
//! then a group of the node with the peak trades places with a lighter one of another node while both nodes end below it.
//! Bound: the largest of the bounds without groups, and ⌈bound on the heaviest node ÷ ranks of a node⌉: that node's ranks
//! are at best level.
//! Complexity: two placements of half a layer or less a trade tried, at most `MOST_TRADES` of them.
//! Reference: group-limited routing as in DeepSeek-AI, DeepSeek-V3 technical report, 2024, arXiv 2412.19437; hierarchical
//! placement as in its expert load balancer. Deviation: no replicas, and trades after the two levels.

use routepack_bounds::peak_bounds;
use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::place::{PlacedLayer, Tables, place_layer};
use crate::{PlaceError, PlaceOptions};

/// Trades of groups tried a layer.
const MOST_TRADES: usize = 200;

/// Consecutive groups of experts, each whole on one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct NodeGroups {
    /// Groups of a layer; expert e is in group ⌊e·groups/E⌋.
    pub groups: u32,
    /// Nodes that the EP ranks lie on, P/nodes consecutive ranks each.
    pub nodes: u32,
}

/// Sizes that fit each other, and the tables of both levels.
pub(crate) struct Grouped {
    groups: usize,
    nodes: usize,
    ranks: usize,
    of_groups: Tables,
    of_experts: Tables,
}

impl Grouped {
    /// Checks the sizes, and that the placement to start from splits no group.
    pub(crate) fn new(
        sizes: NodeGroups,
        reference: &Placement,
        options: &PlaceOptions,
    ) -> Result<Self, PlaceError> {
        let (groups, nodes) = (sizes.groups as usize, sizes.nodes as usize);
        let (experts, ranks) = (reference.num_experts(), reference.num_ranks());
        let fits = |whole: usize, part: usize| part > 0 && whole.is_multiple_of(part);
        if !fits(experts, groups) || !fits(groups, nodes) || !fits(ranks, nodes) {
            return Err(PlaceError::NodeGroups { groups, nodes, experts, ranks });
        }
        for layer in 0..reference.num_layers() {
            let node = |expert: usize| reference.rank_of(layer, expert) / (ranks / nodes);
            let width = experts / groups;
            let is_split = |&group: &usize| {
                (group * width..(group + 1) * width).any(|expert| node(expert) != node(group * width))
            };
            if let Some(group) = (0..groups).find(is_split) {
                return Err(PlaceError::SplitGroup { layer, group });
            }
        }
        Ok(Self {
            groups,
            nodes,
            ranks,
            of_groups: Tables::new(groups / nodes, options),
            of_experts: Tables::new(experts / ranks, options),
        })
    }

    /// Places one layer; slots, outcome and whether every method ran to its end.
    pub(crate) fn place_layer(
        &self,
        loads: &[u64],
        reference: &[u32],
        options: &PlaceOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Vec<u32>, PlacedLayer, bool) {
        let width = loads.len() / self.groups;
        let group_loads: Vec<u64> = loads.chunks(width).map(|group| group.iter().sum()).collect();
        let home: Vec<usize> =
            reference.iter().step_by(width).map(|&slot| slot as usize * self.nodes / loads.len()).collect();
        let (slots, of_groups, mut finished) = place_layer(
            &group_loads,
            self.nodes,
            &in_order(&home, self.nodes),
            0,
            options,
            &self.of_groups,
            stop,
        );
        let bounds = peak_bounds(loads, self.ranks);
        let node_bound = of_groups.bounds.best().div_ceil((self.ranks / self.nodes) as u64);
        let bound = bounds.best().max(node_bound);

        let mut node_of: Vec<usize> =
            slots.iter().map(|&slot| slot as usize * self.nodes / self.groups).collect();
        let mut fill = |node: usize, node_of: &[usize]| {
            let (filled, done) = self.place_node(loads, reference, node_of, node, options, stop);
            finished &= done;
            filled
        };
        let mut filled: Vec<Filled> = (0..self.nodes).map(|node| fill(node, &node_of)).collect();
        let mut tried = 0;
        while tried < MOST_TRADES && !stop() {
            let worst = (0..self.nodes).max_by_key(|&node| filled[node].peak).expect("a node");
            let peak = filled[worst].peak;
            let lighter = |&(g, h): &(usize, usize)| {
                node_of[g] == worst && node_of[h] != worst && group_loads[h] < group_loads[g]
            };
            let pairs = (0..self.groups).flat_map(|g| (0..self.groups).map(move |h| (g, h)));
            let trades: Vec<(usize, usize)> = pairs.filter(lighter).take(MOST_TRADES - tried).collect();
            let made = peak > bound
                && trades.into_iter().any(|(g, h)| {
                    tried += 1;
                    let other = node_of[h];
                    node_of.swap(g, h);
                    let both = [fill(worst, &node_of), fill(other, &node_of)];
                    let is_better = both.iter().all(|node| node.peak < peak);
                    if is_better {
                        [filled[worst], filled[other]] = both;
                    } else {
                        node_of.swap(g, h);
                    }
                    is_better
                });
            if !made {
                break;
            }
        }
        let mut slots = vec![0; loads.len()];
        for (expert, slot) in filled.iter().flat_map(|node| &node.slots) {
            slots[*expert] = *slot;
        }
        let peak = filled.iter().map(|node| node.peak).max().unwrap_or(0);
        let proved_optimal = peak == bound;
        (slots, PlacedLayer { peak, bounds, node_bound, proved_optimal }, finished || proved_optimal)
    }

    /// The experts of a node's groups on its ranks.
    fn place_node(
        &self,
        loads: &[u64],
        reference: &[u32],
        node_of: &[usize],
        node: usize,
        options: &PlaceOptions,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> (Filled, bool) {
        let (width, held) = (loads.len() / self.groups, loads.len() / self.nodes);
        let first = (node * held) as u32;
        let experts: Vec<usize> = (0..loads.len()).filter(|expert| node_of[expert / width] == node).collect();
        // Who is at home keeps its slot to start from, newcomers take the free ones in order.
        let own: Vec<Option<u32>> = experts
            .iter()
            .map(|&expert| reference[expert].checked_sub(first).filter(|&slot| (slot as usize) < held))
            .collect();
        let mut free = (0..held as u32).filter(|slot| !own.contains(&Some(*slot)));
        let local = own.iter().map(|slot| slot.or_else(|| free.next()).expect("as many experts as slots"));
        let local = Placement::new(self.ranks / self.nodes, vec![local.collect()]).expect("a bijection");
        let node_loads: Vec<u64> = experts.iter().map(|&expert| loads[expert]).collect();
        let ranks = self.ranks / self.nodes;
        let (slots, placed, finished) =
            place_layer(&node_loads, ranks, &local, 0, options, &self.of_experts, stop);
        let slots = experts.into_iter().zip(slots.into_iter().map(|slot| first + slot)).collect();
        (Filled { peak: placed.peak, slots }, finished)
    }
}

/// A node with its experts on its ranks.
struct Filled {
    peak: u64,
    /// (expert, slot).
    slots: Vec<(usize, u32)>,
}

/// The placement of groups on nodes, in their order on each.
fn in_order(node_of: &[usize], nodes: usize) -> Placement {
    let per_node = node_of.len() / nodes;
    let mut next: Vec<usize> = (0..nodes).map(|node| node * per_node).collect();
    let slots = node_of.iter().map(|&node| {
        next[node] += 1;
        (next[node] - 1) as u32
    });
    Placement::new(nodes, vec![slots.collect()]).expect("every node holds as many groups")
}
