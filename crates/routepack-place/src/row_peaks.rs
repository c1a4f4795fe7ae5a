//! Placement on the charged peaks: experts onto ranks so that a given layout costs least.
//!
//! Problem: the objective charges per row and EDP shard the largest rank load, X = Σ_b max_p W\[b,l,p\] per layer over
//! blocks b, while balancing the window's sum only bounds it from below (DESIGN §1.4, stage 4). Given V\[b,l,e\]
//! ([`RowLoads`]), find the bijection with least Σ_b max_p Σ_{e on p} V\[b,l,e\]; for one block it is cardinality-
//! constrained makespan, strongly NP-hard.
//! Method: simulated annealing by swaps, a layer at a time. A look takes a random block, an expert of the rank that paces
//! it, and its exchanges for all experts of the other ranks at once; one of those that the Metropolis rule accepts, all
//! judged with one random number, is made. The energy is the overload of [`crate::overload`]: up to P·B loads are above the
//! mean, and the peaks alone show one a block. The temperature falls geometrically from a fraction of the mean change of such swaps.
//! The placement of least cost met is kept and led to a local optimum: no swap of two experts lowers the cost. Never worse
//! than the start. Who stays on its rank keeps its slot; of the experts of a layer at most so many leave the ranks of the
//! resident placement, if a limit is given. Where moves are charged, the descent comes first and says how many pay. Layers
//! share a budget of swaps looked at: with many experts in many layers each has fewer.
//! Complexity: O(E) a look, O(E + P·B) a swap; O(E²·B) a pass of the descent.
//! References: S. Kirkpatrick, C. D. Gelatt and M. P. Vecchi, Optimization by simulated annealing, Science 220, 1983,
//! doi 10.1126/science.220.4598.671. The objective is that of DESIGN §1.3; PLACEMENT §2.3 measures why it asks for its
//! own placement.

use std::ops::Range;

use rayon::prelude::*;
use routepack_anneal::{Stream, elementary};
use routepack_bounds::peak_bounds;
use routepack_problem::Placement;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::block_ranks::BlockRanks;
use crate::overload::Overload;
use crate::slots::keep_slots;
use crate::{PlaceError, RowLoads};

/// Options of [`place_on_row_peaks`]; limits are counts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RowPeakOptions {
    /// Swaps looked at per expert of a layer, at most; 0 leaves the descent alone.
    pub proposals_per_expert: u32,
    /// Swaps looked at in all layers together, at most; each of their experts has the same share.
    pub proposals: u64,
    /// First temperature, as a fraction of the mean change that proposed swaps make at the start; 1e-12 to
    /// 1e12.
    pub hottest: f64,
    /// The first temperature divided by the last; 1 to 1e12.
    pub cooling: f64,
    /// Passes of the descent over all pairs of experts at most.
    pub descent_passes: u32,
    /// Nodes of consecutive ranks that no expert leaves, 1 for none; given by the caller, not by options files.
    #[serde(skip, default = "one_node")]
    #[schemars(skip)]
    pub nodes: u32,
}

fn one_node() -> u32 {
    1
}

impl Default for RowPeakOptions {
    fn default() -> Self {
        Self {
            proposals_per_expert: 32_000,
            proposals: 40_000_000,
            hottest: 0.003,
            cooling: 500.0,
            descent_passes: 100,
            nodes: 1,
        }
    }
}

impl RowPeakOptions {
    /// Checks the ranges.
    ///
    /// # Errors
    /// A temperature or a cooling out of range.
    pub fn validate(&self) -> Result<(), PlaceError> {
        let fields = [
            ("row_peaks.hottest", self.hottest, 1e-12..=1e12, "it must be from 1e-12 to 1e12"),
            ("row_peaks.cooling", self.cooling, 1.0..=1e12, "it must be from 1 to 1e12"),
        ];
        for (field, value, allowed, limit) in fields {
            if !allowed.contains(&value) {
                return Err(PlaceError::Option { field, value: format!("{value:?}"), limit });
            }
        }
        Ok(())
    }
}

/// How far a placement may leave the one the weights have now.
#[derive(Clone, Copy, Debug)]
pub struct MoveLimit<'a> {
    /// Where the weights are.
    pub resident: &'a Placement,
    /// Experts of a layer that may be on another rank than there, `[layers]`.
    pub moves: &'a [u32],
    /// What every one of them costs beside, if anything.
    pub charge: Option<MoveCharge>,
}

/// Moves charged like peaks: the least `steps` × Σ_b max_p W + `move_cost` × moved experts is sought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MoveCharge {
    /// Cost of moving one expert, in routed rows of peak.
    pub move_cost: u64,
    /// Times that such a layout is served.
    pub steps: u32,
}

impl MoveCharge {
    /// Peaks alone.
    const FREE: Self = Self { move_cost: 0, steps: 1 };

    fn of(self, peaks: u64, moved: usize) -> u128 {
        u128::from(self.steps) * u128::from(peaks) + u128::from(self.move_cost) * moved as u128
    }
}

/// A placement for a layout, and what it charges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowPlaced {
    /// Slot of every expert of every layer.
    pub placement: Placement,
    /// Outcome of every layer, `[layers]`.
    pub layers: Vec<RowPlacedLayer>,
    /// Whether every layer was searched in full; false when stopped before.
    pub finished: bool,
}

/// One layer's outcome.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowPlacedLayer {
    /// Σ over blocks of the largest rank load under the placement given, in routed rows.
    pub before: u64,
    /// The same under the placement found.
    pub after: u64,
    /// Σ over blocks of the bound on the largest rank load: no placement charges less for this layout.
    pub bound: u64,
}

/// Temperatures of a search; `stop` is asked between them.
const RUNGS: u32 = 200;
/// Swaps measured to set the first temperature.
const MEASURED: u32 = 200;

/// Places experts for a layout, from `start`; never worse, the charge for moves included.
///
/// The outcome depends on the arguments alone, unless `stop` ended the search; layers run in the current rayon pool.
///
/// # Errors
/// An option out of range; placements of another shape than the loads; a start that leaves the resident placement
/// further than the limit allows.
pub fn place_on_row_peaks(
    loads: &RowLoads,
    start: &Placement,
    limit: Option<MoveLimit<'_>>,
    options: &RowPeakOptions,
    seed: u64,
    stop: &(dyn Fn() -> bool + Sync),
) -> Result<RowPlaced, PlaceError> {
    options.validate()?;
    check_shape(loads, start, "start")?;
    if options.nodes == 0 || !start.num_ranks().is_multiple_of(options.nodes as usize) {
        let value = format!("{} for {} ranks", options.nodes, start.num_ranks());
        return Err(PlaceError::Option {
            field: "row_peaks.nodes",
            value,
            limit: "it must divide the ranks",
        });
    }
    if let Some(limit) = limit {
        check_limit(loads, start, limit)?;
    }
    let stream = Stream::new(seed);
    let outcomes: Vec<(Vec<u32>, RowPlacedLayer, bool)> = (0..loads.num_layers())
        .into_par_iter()
        .map(|layer| place_layer(loads, layer, start, limit, options, stream.child(layer as u64), stop))
        .collect();
    let finished = outcomes.iter().all(|(_, _, finished)| *finished);
    let (slots, layers) = outcomes.into_iter().map(|(slots, layer, _)| (slots, layer)).unzip();
    let placement =
        Placement::new(start.num_ranks(), slots).expect("every layer is a bijection by construction");
    Ok(RowPlaced { placement, layers, finished })
}

fn check_shape(loads: &RowLoads, placement: &Placement, name: &'static str) -> Result<(), PlaceError> {
    let describe = |layers, experts| format!("{layers} layers, {experts} experts");
    let found = describe(placement.num_layers(), placement.num_experts());
    let expected = describe(loads.num_layers(), loads.num_experts());
    let is_empty = (placement.num_layers(), loads.num_layers()) == (0, 0);
    if found == expected || is_empty { Ok(()) } else { Err(PlaceError::Placement { name, found, expected }) }
}

fn check_limit(loads: &RowLoads, start: &Placement, limit: MoveLimit<'_>) -> Result<(), PlaceError> {
    check_shape(loads, limit.resident, "resident")?;
    if limit.moves.len() != loads.num_layers() {
        let (found, expected) = (limit.moves.len(), loads.num_layers());
        return Err(PlaceError::Limits { found, expected });
    }
    for (layer, &allowed) in limit.moves.iter().enumerate() {
        let moved = num_away(&start.experts(layer), &homes(limit.resident, layer), start.slots_per_rank());
        if moved > allowed as usize {
            return Err(PlaceError::Moves { layer, moved, limit: allowed });
        }
    }
    Ok(())
}

/// Rank of every expert, `[experts]`.
fn homes(resident: &Placement, layer: usize) -> Vec<u32> {
    (0..resident.num_experts()).map(|expert| resident.rank_of(layer, expert) as u32).collect()
}

/// Members `[ranks · slots]` that are not on their home rank.
fn num_away(members: &[u32], homes: &[u32], slots: usize) -> usize {
    let is_away = |(place, &expert): (usize, &u32)| homes[expert as usize] as usize != place / slots;
    members.iter().enumerate().filter(|&place| is_away(place)).count()
}

fn place_layer(
    loads: &RowLoads,
    layer: usize,
    start: &Placement,
    limit: Option<MoveLimit<'_>>,
    options: &RowPeakOptions,
    stream: Stream,
    stop: &(dyn Fn() -> bool + Sync),
) -> (Vec<u32>, RowPlacedLayer, bool) {
    let ranks = BlockRanks::new(loads, layer, start.num_ranks(), start.experts(layer));
    let (before, bound) = (ranks.cost(), bound(loads, layer, start.num_ranks()));
    let leash = limit.map(|limit| Leash::new(&ranks, homes(limit.resident, layer), limit.moves[layer]));
    let charge = limit.and_then(|limit| limit.charge);
    let mut search = Search {
        least: charge.unwrap_or(MoveCharge::FREE).of(before, leash.as_ref().map_or(0, |leash| leash.away)),
        best: ranks.members().to_vec(),
        leash,
        charge: charge.unwrap_or(MoveCharge::FREE),
        ranks_per_node: start.num_ranks() / options.nodes as usize,
        ranks,
        loads,
        layer,
        stream,
    };
    // One rank, no experts, or a layer that nothing can improve.
    let finished = search.ranks_per_node < 2
        || search.best.is_empty()
        || (before == bound && charge.is_none())
        || (charge.is_none() || search.descend(options, stop))
            && search.anneal(options, stop)
            && search.descend(options, stop);
    search.ranks.deal(&search.best);
    let after = search.ranks.cost();
    let slots = keep_slots(
        &search.best,
        start.slots_per_rank(),
        limit.map_or(start, |limit| limit.resident).slots(layer),
    );
    (slots, RowPlacedLayer { before, after, bound }, finished)
}

/// Σ over blocks of the bound on the largest rank load of the layer.
fn bound(loads: &RowLoads, layer: usize, num_ranks: usize) -> u64 {
    let of_block = |block: usize| -> Vec<u64> {
        (0..loads.num_experts()).map(|expert| u64::from(loads.of(layer, expert)[block])).collect()
    };
    (0..loads.num_blocks()).map(|block| peak_bounds(&of_block(block), num_ranks).best()).sum()
}

/// The search of one layer.
struct Search<'a> {
    loads: &'a RowLoads,
    layer: usize,
    ranks: BlockRanks,
    leash: Option<Leash>,
    charge: MoveCharge,
    /// Peaks and charged moves of the best placement.
    least: u128,
    /// Members of the best placement, `[ranks · slots]`.
    best: Vec<u32>,
    ranks_per_node: usize,
    stream: Stream,
}

impl Search<'_> {
    /// Walks on the overload and archives by cost; false if stopped.
    fn anneal(&mut self, options: &RowPeakOptions, stop: &(dyn Fn() -> bool + Sync)) -> bool {
        if self.loads.num_blocks() == 0 {
            return true;
        }
        let num_ranks = self.ranks.members().len() / self.ranks.slots();
        let mut overload = Overload::new(self.loads, self.layer, num_ranks, self.ranks.members());
        let mut temperature = options.hottest * self.mean_change(&mut overload);
        let factor = elementary::exp(-elementary::ln(options.cooling) / f64::from(RUNGS));
        // The overload knows no charge: no more experts leave than the descent found to pay.
        let is_charged = self.charge.move_cost > 0;
        let most = self.leash.as_ref().filter(|_| is_charged).map_or(usize::MAX, |leash| leash.away);
        // A look at the partners of one expert proposes as many swaps.
        let partners = (self.ranks_per_node - 1) * self.ranks.slots();
        let experts = self.ranks.members().len() as u64;
        let each = options.proposals / (experts * self.loads.num_layers() as u64);
        let proposals = each.min(options.proposals_per_expert.into()) * experts;
        let looks = proposals.div_ceil(partners as u64);
        for rung in 0..u64::from(RUNGS) {
            if stop() {
                return false;
            }
            let share = |rung: u64| looks * rung / u64::from(RUNGS);
            for _ in share(rung)..share(rung + 1) {
                let a = self.draw();
                if let Some(b) = self.partner(&mut overload, a, temperature, most) {
                    overload.swap(a, b);
                    self.swap(a, b);
                    self.archive();
                }
            }
            temperature *= factor;
        }
        true
    }

    /// A place of the rank that paces a random block.
    fn draw(&mut self) -> usize {
        let slots = self.ranks.slots();
        self.ranks.heaviest(self.stream.index(self.loads.num_blocks())) * slots + self.stream.index(slots)
    }

    /// Ranks of the node of a place.
    fn node_of(&self, a: usize) -> Range<usize> {
        let first = a / self.ranks.slots() / self.ranks_per_node * self.ranks_per_node;
        first..first + self.ranks_per_node
    }

    /// One of the places whose exchange with `a` the Metropolis rule accepts and the limit of moves allows, all of them
    /// judged with one draw; if there are any.
    fn partner(&mut self, overload: &mut Overload, a: usize, temperature: f64, most: usize) -> Option<usize> {
        let ranks = self.node_of(a);
        let first = ranks.start * self.ranks.slots();
        // u ≤ e^(−Δ/T) is Δ ≤ −T·ln u.
        let most_change = (-temperature * elementary::ln(1.0 - self.stream.unit())) as f32;
        let changes = overload.changes(a, ranks);
        let accepted = changes.iter().filter(|&&change| change <= most_change).count();
        if accepted == 0 {
            return None;
        }
        let chosen = self.stream.index(accepted);
        let places = || (first..).zip(changes).filter(|&(_, &change)| change <= most_change).map(|(b, _)| b);
        let Some(_) = &self.leash else { return places().nth(chosen) };
        let allowed = |b: &usize| self.allows(a, *b, most);
        places().skip(chosen).chain(places().take(chosen)).find(allowed)
    }

    /// Swaps from the best placement until none lowers the cost; false if stopped.
    fn descend(&mut self, options: &RowPeakOptions, stop: &(dyn Fn() -> bool + Sync)) -> bool {
        self.ranks.deal(&self.best);
        if let Some(leash) = &mut self.leash {
            leash.count(&self.ranks);
        }
        let (places, slots) = (self.ranks.members().len(), self.ranks.slots());
        let held = slots * self.ranks_per_node;
        let mut finished = true;
        for _ in 0..options.descent_passes {
            let before = self.least;
            finished = (0..places)
                .all(|a| !stop() && self.improve(a, (a / slots + 1) * slots..(a / held + 1) * held));
            if !finished || self.least == before {
                break;
            }
        }
        self.best.copy_from_slice(self.ranks.members());
        finished
    }

    /// Makes every swap of a place with one of the others that lowers the cost; always true.
    ///
    /// Peaks fall only where a rank that paces a block takes part; moves may be worth sending home anywhere.
    fn improve(&mut self, a: usize, others: Range<usize>) -> bool {
        let slots = self.ranks.slots();
        let mut paces = self.pacing_ranks();
        let mut next = others.start;
        while next < others.end {
            let of_rank = next..(next / slots + 1) * slots;
            let found = if paces[a / slots] || paces[next / slots] {
                self.first_better(a, of_rank.clone())
            } else {
                None
            };
            let Some((b, cost)) = found else {
                next = of_rank.end;
                continue;
            };
            self.least = cost;
            self.swap(a, b);
            paces = self.pacing_ranks();
            next = b + 1;
        }
        true
    }

    /// The first of some places of one rank whose exchange with `a` lowers the cost and is allowed, with that cost.
    fn first_better(&self, a: usize, mut places: Range<usize>) -> Option<(usize, u128)> {
        if self.charge.move_cost > 0 {
            let cost = |b| self.charge.of(self.ranks.cost_of_swap(a, b), self.away_after(a, b));
            let mut costs = places.map(|b| (b, cost(b)));
            return costs.find(|&(b, cost)| cost < self.least && self.allows(a, b, usize::MAX));
        }
        // Peaks alone: what is sought is below the peaks of now.
        let least = self.ranks.cost();
        while let Some((b, cost)) = self.ranks.first_below(a, places.clone(), least) {
            if self.allows(a, b, usize::MAX) {
                return Some((b, self.charge.of(cost, 0)));
            }
            places.start = b + 1;
        }
        None
    }

    /// Whether a rank has the largest load of some block, or moves are charged, `[ranks]`.
    fn pacing_ranks(&self) -> Vec<bool> {
        let num_ranks = self.ranks.members().len() / self.ranks.slots();
        let mut paces = vec![self.charge.move_cost > 0; num_ranks];
        for block in 0..self.loads.num_blocks() {
            paces[self.ranks.heaviest(block)] = true;
        }
        paces
    }

    fn away_after(&self, a: usize, b: usize) -> usize {
        self.leash.as_ref().map_or(0, |leash| leash.after(&self.ranks, a, b))
    }

    /// Mean change of the overload by the swaps of experts of pacing ranks.
    fn mean_change(&mut self, overload: &mut Overload) -> f64 {
        let mut sum = 0.0;
        for _ in 0..MEASURED {
            let a = self.draw();
            let changes = overload.changes(a, self.node_of(a)).iter().filter(|change| change.is_finite());
            sum +=
                changes.clone().map(|&change| f64::from(change.abs())).sum::<f64>() / changes.count() as f64;
        }
        sum / f64::from(MEASURED)
    }

    /// Whether a swap keeps to the limit of moves, or `most` if that is less.
    fn allows(&self, a: usize, b: usize, most: usize) -> bool {
        let within = |leash: &Leash| leash.after(&self.ranks, a, b) <= leash.away.max(leash.limit.min(most));
        self.leash.as_ref().is_none_or(within)
    }

    fn swap(&mut self, a: usize, b: usize) {
        if let Some(leash) = &mut self.leash {
            leash.away = leash.after(&self.ranks, a, b);
        }
        self.ranks.swap(a, b);
    }

    fn archive(&mut self) {
        let cost = self.charge.of(self.ranks.cost(), self.leash.as_ref().map_or(0, |leash| leash.away));
        if cost < self.least {
            self.least = cost;
            self.best.copy_from_slice(self.ranks.members());
        }
    }
}

/// How many experts are away from home, and may be.
struct Leash {
    homes: Vec<u32>,
    away: usize,
    limit: usize,
}

impl Leash {
    fn new(ranks: &BlockRanks, homes: Vec<u32>, limit: u32) -> Self {
        let away = num_away(ranks.members(), &homes, ranks.slots());
        Self { homes, away, limit: limit as usize }
    }

    fn count(&mut self, ranks: &BlockRanks) {
        self.away = num_away(ranks.members(), &self.homes, ranks.slots());
    }

    /// Experts away after a swap of two places.
    fn after(&self, ranks: &BlockRanks, a: usize, b: usize) -> usize {
        let (members, slots) = (ranks.members(), ranks.slots());
        let is_away =
            |place: usize, rank: usize| usize::from(self.homes[members[place] as usize] as usize != rank);
        self.away + is_away(a, b / slots) + is_away(b, a / slots)
            - is_away(a, a / slots)
            - is_away(b, b / slots)
    }
}
