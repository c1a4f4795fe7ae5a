//! Bins as paths: what arc-flow and reflect programs share.
//!
//! Problem: a bin is a path through loads, from 0 up, an arc for every item, sizes decreasing along it. A program chooses a
//! flow that covers every item; the flow falls apart into paths, the paths into bins. Like all programs here it finds
//! packings and cross-checks; its bounds are floats and no proof.
//! Complexity: O(m·C·d) to build, O(items · log arcs) to take apart.
//! Reference: J. M. Valério de Carvalho, Annals of OR 86 (1999), doi:10.1023/A:1018952112615.

use std::collections::{BTreeMap, BTreeSet};

use routepack_lp::{Program, Relation, VariableId};

use crate::program::packing_of_values;
use crate::types::{Pattern, Types};

/// A load, and the number of items where their number is limited (else 0).
pub(crate) type Node = (u64, u32);

/// Where every path begins.
pub(crate) const SOURCE: Node = (0, 0);

/// What one step of a path does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Arc {
    pub(crate) from: Node,
    pub(crate) to: Node,
    /// The type of the item; `None`: room left empty.
    pub(crate) kind: Option<u32>,
    /// The path ends here, and another path, one that ends at `to`, fills the rest of its bin.
    pub(crate) reflected: bool,
}

/// An integer program over arcs.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The program: one variable an arc.
    pub program: Program,
    arcs: Vec<Arc>,
}

/// Where items of each type may begin on paths of decreasing sizes, tails no larger than `most`: `[types]`.
pub(crate) fn tails(types: &Types, most: u64) -> Vec<BTreeSet<Node>> {
    let mut reached = BTreeSet::from([SOURCE]);
    let limit = types.max_items.unwrap_or(u32::MAX);
    let place = u32::from(types.max_items.is_some());
    let tails = types.sizes.iter().zip(&types.demands).map(|(&size, &demand)| {
        let mut tails = BTreeSet::new();
        for &(load, places) in &reached {
            let copies = (0..demand).map(|copy| (load + u64::from(copy) * size, places + copy * place));
            let fits = |node: &Node| node.0 <= most && node.0 + size <= types.capacity && node.1 < limit;
            tails.extend(copies.take_while(fits));
        }
        reached.extend(tails.iter().map(|&(load, places)| (load + size, places + place)));
        tails
    });
    tails.collect()
}

impl Flow {
    /// The program over these arcs: every type covered, every node left as often as it is entered (`Equal`) or less often
    /// (`AtLeast`), as few paths as possible that end reflected, or that begin where none is.
    pub(crate) fn new(name: &str, types: &Types, arcs: Vec<Arc>, entered: Relation) -> Self {
        let mut program = Program::minimise(name);
        let reflects = arcs.iter().any(|arc| arc.reflected);
        let mut covers: Vec<Vec<(VariableId, f64)>> = vec![Vec::new(); types.len()];
        let mut nodes: BTreeMap<Node, Vec<(VariableId, f64)>> = BTreeMap::new();
        for arc in &arcs {
            let most = arc.kind.map_or(f64::INFINITY, |kind| f64::from(types.demands[kind as usize]));
            let word = if arc.reflected { "reflect" } else { "arc" };
            let size = arc.kind.map_or(0, |kind| types.sizes[kind as usize]);
            let places = if types.max_items.is_some() { format!(",{}", arc.from.1) } else { String::new() };
            let variable = program.add_integer(format!("{word}[{size},{}{places}]", arc.from.0), 0.0, most);
            if arc.reflected || !reflects && arc.from == SOURCE {
                program.set_cost(variable, 1.0);
            }
            if let Some(kind) = arc.kind {
                covers[kind as usize].push((variable, 1.0));
            }
            let arrives = if arc.reflected { -1.0 } else { 1.0 };
            nodes.entry(arc.to).or_default().push((variable, arrives));
            nodes.entry(arc.from).or_default().push((variable, -1.0));
        }
        for (kind, terms) in covers.into_iter().enumerate() {
            let demand = f64::from(types.demands[kind]);
            program.constrain(format!("cover[{}]", types.sizes[kind]), terms, Relation::AtLeast, demand);
        }
        nodes.remove(&SOURCE);
        for ((load, places), terms) in nodes {
            let places = if types.max_items.is_some() { format!(",{places}") } else { String::new() };
            program.constrain(format!("flow[{load}{places}]"), merged(terms), entered, 0.0);
        }
        Self { program, arcs }
    }

    /// The packing that values of the program mean, rounded; `None` if they do not cover every item. `types`: those of
    /// the program.
    pub fn packing(&self, types: &Types, values: &[f64]) -> Option<Vec<Pattern>> {
        let mut left: Vec<u64> = values.iter().map(|value| value.round().max(0.0) as u64).collect();
        let mut leaving: BTreeMap<Node, Vec<usize>> = BTreeMap::new();
        (0..self.arcs.len()).for_each(|place| leaving.entry(self.arcs[place].from).or_default().push(place));
        let (mut ended, mut reflected) = (BTreeMap::<Node, Vec<Pattern>>::new(), Vec::new());
        let mut next = |node: &Node| {
            let leaving = leaving.get_mut(node)?;
            leaving.retain(|&place| left[place] > 0);
            left[*leaving.last()?] -= 1;
            leaving.last().map(|&place| self.arcs[place])
        };
        while let Some(first) = next(&SOURCE) {
            let (mut path, mut arc) = (Pattern::new(), first);
            loop {
                path.extend(arc.kind);
                if arc.reflected {
                    reflected.push((arc.to, path));
                    break;
                }
                let Some(further) = next(&arc.to) else {
                    ended.entry(arc.to).or_default().push(path);
                    break;
                };
                arc = further;
            }
        }
        let mut bins: Vec<Pattern> = Vec::new();
        for (node, mut bin) in reflected {
            bin.extend(ended.get_mut(&node).and_then(Vec::pop).unwrap_or_default());
            bins.push(bin);
        }
        bins.extend(ended.into_values().flatten());
        bins.iter_mut().for_each(|bin| bin.sort_unstable());
        packing_of_values(types, &bins, &vec![1.0; bins.len()])
    }
}

/// Terms of one variable added up: an arc that ends reflected where it began both leaves and takes.
fn merged(mut terms: Vec<(VariableId, f64)>) -> Vec<(VariableId, f64)> {
    terms.sort_by_key(|term| term.0);
    terms.dedup_by(|again, kept| {
        again.0 == kept.0 && {
            kept.1 += again.1;
            true
        }
    });
    terms
}
