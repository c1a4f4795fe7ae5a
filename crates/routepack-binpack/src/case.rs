//! A case of the tree search, and how its patterns read as columns of the search's one linear program.
//!
//! A column lists rows: the original types, and for some glued items a row of their own. A glued item stands for its parts.
//! Where both of two glued types had a single item, their rows force the pair: a column with one of them must hold both.
//! Else the glued item's own row, numbered after the types, marks the columns that hold it, of which one must be taken.

use routepack_certificate::{Cut, Leaf, Node, Statement};
use routepack_lp::MasterSolved;

use crate::column_generation::scaled;
use crate::pattern_space::PatternSpace;
use crate::types::{Pattern, Types};

/// Some items glued, some pairs of types apart.
#[derive(Debug, Clone)]
pub(crate) struct Case {
    pub(crate) node: Node,
    pub(crate) space: PatternSpace,
    /// `[types of the node]`, the rows of one item, increasing.
    parts: Vec<Pattern>,
    /// Original types.
    num_types: usize,
    max_items: Option<u32>,
}

impl Case {
    /// The case of all packings of which no bin wastes more than `slack`.
    pub(crate) fn root(statement: &Statement, types: &Types, slack: u64) -> Self {
        let node = Node::root(statement);
        let space = PatternSpace::of_node(&node, types.capacity, slack, types.max_items);
        let parts = (0..types.len() as u32).map(|kind| vec![kind]).collect();
        Self { node, space, parts, num_types: types.len(), max_items: types.max_items }
    }

    /// The case of all packings of these types into so many bins.
    pub(crate) fn of_types(types: &Types, bins: u64) -> Self {
        let sizes = types.all_sizes();
        let statement = Statement { max_items: types.max_items, ..Statement::bins(sizes, types.capacity) };
        let waste = (u128::from(bins) * u128::from(types.capacity)).saturating_sub(types.total());
        Self::root(&statement, types, waste.min(types.capacity.into()) as u64)
    }

    /// Whether gluing an item of type i to one of type j needs a row of its own.
    pub(crate) fn needs_row(&self, i: u32, j: u32) -> bool {
        i == j || self.space.demands[i as usize].max(self.space.demands[j as usize]) > 1
    }

    /// The case where an item of type i and one of type j are glued; `row`: the glued item's own.
    pub(crate) fn together(&self, i: u32, j: u32, row: Option<u32>) -> Self {
        let mut case = self.clone();
        case.node.join(i, j);
        let mut parts = [&self.parts[i as usize][..], &self.parts[j as usize][..]].concat();
        parts.extend(row);
        parts.sort_unstable();
        case.parts.push(parts);
        case.respaced()
    }

    /// The case where no bin holds an item of type i and another of type j.
    pub(crate) fn apart(mut self, i: u32, j: u32) -> Self {
        self.node.part(i, j);
        self.respaced()
    }

    fn respaced(mut self) -> Self {
        self.space = PatternSpace::of_node(&self.node, self.space.capacity, self.space.slack, self.max_items);
        self
    }

    /// The column of a pattern of this case.
    pub(crate) fn column(&self, pattern: &[u32]) -> Pattern {
        let mut rows: Pattern =
            pattern.iter().flat_map(|&kind| &self.parts[kind as usize]).copied().collect();
        rows.sort_unstable();
        rows
    }

    /// The pattern of a column, if it is one of this case.
    pub(crate) fn pattern(&self, column: &[u32]) -> Option<Pattern> {
        let mut rest = column.to_vec();
        let mut glued = Pattern::new();
        for kind in (self.num_types..self.parts.len()).rev() {
            let (alive, first) = (self.node.demands[kind] > 0, self.parts[kind][0]);
            if alive && column.binary_search(&first).is_ok() && take(&mut rest, &self.parts[kind]) {
                glued.push(kind as u32);
            }
        }
        // The mark of a glued item without all of its parts.
        if rest.last().is_some_and(|&row| row as usize >= self.num_types) {
            return None;
        }
        rest.extend(glued.iter().rev());
        self.space.holds(&rest).then_some(rest)
    }

    /// The case of what is left once a bin has been filled by this pattern.
    pub(crate) fn take(&mut self, pattern: &[u32]) {
        pattern.iter().for_each(|&kind| self.node.demands[kind as usize] -= 1);
    }

    /// The patterns of what is left, of which at most `slack` stays empty.
    pub(crate) fn within(mut self, slack: u64) -> Self {
        self.space.slack = slack;
        self.respaced()
    }

    /// Duals as integer weights and cuts of this case.
    pub(crate) fn leaf(&self, solved: &MasterSolved, cuts: &[Option<Cut>], one: i64) -> Leaf {
        // The dual of a glued item's own row may have either sign.
        let own = solved.cut_duals.iter().zip(cuts).map(|(&dual, cut)| {
            let sign = if dual < 0.0 { -1 } else { 1 };
            if cut.is_none() { sign * scaled(dual.abs(), one) } else { 0 }
        });
        let rows: Vec<i64> = solved.duals.iter().map(|&dual| scaled(dual, one)).chain(own).collect();
        let weight = |(parts, &demand): (&Pattern, &u32)| {
            if demand > 0 { parts.iter().map(|&row| rows[row as usize]).sum() } else { 0 }
        };
        let weights = self.parts.iter().zip(&self.node.demands).map(weight).collect();
        let scales = solved.cut_duals.iter().map(|&dual| (-dual * one as f64).ceil().max(0.0) as u64);
        let cuts = cuts.iter().zip(scales).filter(|(_, scale)| *scale > 0);
        let cuts = cuts.filter_map(|(cut, scale)| Some(Cut { scale, ..self.cut(cut.as_ref()?) }));
        Leaf { weights, cuts: cuts.collect() }
    }

    /// A cut over rows as one over the types of this case: a glued item has the multipliers of its parts.
    fn cut(&self, cut: &Cut) -> Cut {
        let multiplier = |row: &u32| {
            let place = cut.multipliers.binary_search_by_key(row, |term| term.0);
            place.map_or(0, |place| cut.multipliers[place].1)
        };
        let kinds = self.parts.iter().enumerate().filter(|&(kind, _)| self.node.demands[kind] > 0);
        let terms = kinds.map(|(kind, parts)| (kind as u32, parts.iter().map(multiplier).sum::<u32>()));
        Cut { multipliers: terms.filter(|term| term.1 > 0).collect(), ..*cut }
    }
}

/// Takes `part` out of `all`, both increasing, if it is in there.
fn take(all: &mut Pattern, part: &[u32]) -> bool {
    let mut wanted = part.iter().peekable();
    let rest: Pattern = all.iter().copied().filter(|row| wanted.next_if_eq(&row).is_none()).collect();
    let found = wanted.peek().is_none();
    if found {
        *all = rest;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(sizes: Vec<u64>, capacity: u64) -> Case {
        let statement = Statement::bins(sizes, capacity);
        Case::root(&statement, &Types::new(&statement).unwrap(), capacity)
    }

    #[test]
    fn single_items_force_each_other() {
        let root = case(vec![6, 5, 4, 3], 20);
        let glued = root.together(0, 2, None);
        assert_eq!(glued.pattern(&[0, 1, 2]), Some(vec![1, 4]));
        assert_eq!(glued.column(&[1, 4]), [0, 1, 2]);
        assert_eq!([glued.pattern(&[0, 1]), glued.pattern(&[2, 3])], [None, None]);
        let apart = root.apart(0, 2);
        assert_eq!((apart.pattern(&[0, 1, 2]), apart.pattern(&[0, 1])), (None, Some(vec![0, 1])));
    }

    #[test]
    fn one_of_several_items_is_marked_by_its_own_row() {
        let root = case(vec![6, 6, 4, 4, 3], 30);
        assert!(root.needs_row(0, 1) && root.needs_row(0, 0) && root.needs_row(0, 2));
        let glued = root.together(0, 1, Some(3));
        assert_eq!(glued.pattern(&[0, 1, 3]), Some(vec![3]));
        assert_eq!(glued.pattern(&[0, 0, 1, 1, 2, 3]), Some(vec![0, 1, 2, 3]));
        assert_eq!(glued.pattern(&[0, 1]), Some(vec![0, 1]));
        assert_eq!([glued.pattern(&[0, 0]), glued.pattern(&[0, 3])], [None, None]);
    }

    #[test]
    fn the_dual_of_a_glued_item_keeps_its_sign() {
        let glued = case(vec![6, 6, 4, 4, 3], 30).together(0, 1, Some(3));
        let solved = MasterSolved {
            status: routepack_lp::MasterStatus::Optimal,
            objective: 0.0,
            duals: vec![0.5, 0.25, 0.125],
            cut_duals: vec![-0.5],
            iterations: 0,
        };
        // Types: 6, 4, 3, and the glued item, worth its parts and what its own row adds.
        assert_eq!(glued.leaf(&solved, &[None], 1000).weights, [500, 250, 125, 250]);
    }
}
