//! Brute force, for small cases, and the instances and proofs the tests argue about.
#![allow(dead_code, clippy::unwrap_used)]

use proptest::prelude::*;
use routepack_certificate::{
    CheckError, Checked, Cut, Form, Leaf, Lengths, Limits, Node, Statement, TreeNode, check_leaf, check_lengths,
};

/// Fewest bins, by dynamic programming over all subsets; `sizes.len()` ≤ 12.
pub(crate) fn fewest_bins(statement: &Statement) -> u64 {
    let items = statement.sizes.len();
    let limit = statement.max_items.unwrap_or(u32::MAX);
    let fits = |set: usize| {
        let load: u128 =
            (0..items).filter(|item| set >> item & 1 == 1).map(|item| u128::from(statement.sizes[item])).sum();
        load <= u128::from(statement.capacity) && set.count_ones() <= limit
    };
    let bins: Vec<bool> = (0..1 << items).map(fits).collect();
    let mut fewest = vec![0; 1 << items];
    for set in 1..1_usize << items {
        fewest[set] = u64::MAX;
        let lowest = set & set.wrapping_neg();
        let mut bin = set;
        while bin > 0 {
            if bin & lowest > 0 && bins[bin] {
                fewest[set] = fewest[set].min(1 + fewest[set ^ bin]);
            }
            bin = (bin - 1) & set;
        }
    }
    fewest[(1 << items) - 1]
}

/// Fewest rows, in multiples, by trying one after another.
pub(crate) fn fewest_rows(statement: &Statement) -> u64 {
    let bins = fewest_bins(statement);
    let mut multiples = (0..=bins).map(|multiple| multiple * statement.rows_multiple);
    multiples.find(|rows| rows * statement.slots >= bins).unwrap()
}

/// Asserts that everything a checked certificate states is so.
pub(crate) fn assert_true(statement: &Statement, checked: &Checked) {
    let (bins, rows) = (fewest_bins(statement), fewest_rows(statement));
    assert!(checked.cells_lower <= bins, "{checked:?} but {bins} bins of {statement:?}");
    assert!(checked.rows_lower <= rows, "{checked:?} but {rows} rows of {statement:?}");
    assert!(checked.cells_upper.is_none_or(|upper| upper >= bins), "{checked:?} but {bins} bins of {statement:?}");
    assert!(checked.rows_upper.is_none_or(|upper| upper >= rows), "{checked:?} but {rows} rows of {statement:?}");
}

/// Whether a leaf closes its case, by listing every pattern.
pub(crate) fn closes(statement: &Statement, bins: u64, node: &Node, leaf: &Leaf) -> bool {
    let slack = i128::from(bins) * i128::from(statement.capacity) - statement.total() as i128;
    let items = statement.sizes.len() as i128;
    let free = statement.max_items.map(|q| i128::from(bins) * items.min(q.into()) - items);
    let charge = |cut: &Cut, taken: &[u32]| {
        let sum: i128 = cut.multipliers.iter().map(|&(t, m)| i128::from(m) * i128::from(taken[t as usize])).sum();
        i128::from(cut.scale) * sum.div_euclid(cut.denominator.into())
    };
    let worth = |taken: &[u32]| {
        let weights: i128 = leaf.weights.iter().zip(taken).map(|(&p, &a)| i128::from(p) * i128::from(a)).sum();
        weights - leaf.cuts.iter().map(|cut| charge(cut, taken)).sum::<i128>()
    };
    let mut best = None;
    let mut taken = vec![0; node.sizes.len()];
    loop {
        let load: i128 = node.sizes.iter().zip(&taken).map(|(&w, &a)| i128::from(w) * i128::from(a)).sum();
        let count: i128 = node.counts.iter().zip(&taken).map(|(&c, &a)| i128::from(c) * i128::from(a)).sum();
        let kept_apart = (0..taken.len()).all(|t| {
            let with = |&other: &u32| {
                if other as usize == t { taken[t] > 1 } else { taken[t] > 0 && taken[other as usize] > 0 }
            };
            !node.apart[t].iter().any(with)
        });
        let capacity = i128::from(statement.capacity);
        let counted =
            statement.max_items.is_none_or(|q| count <= q.into() && count >= items.min(q.into()) - free.unwrap());
        if load <= capacity && load >= capacity - slack && counted && kept_apart {
            best = best.max(Some(worth(&taken)));
        }
        let Some(place) = (0..taken.len()).find(|&t| taken[t] < node.demands[t]) else { break };
        taken[..place].fill(0);
        taken[place] += 1;
    }
    bins == 0 || best.is_none_or(|best| i128::from(bins) * best < worth(&node.demands))
}

/// The largest weight of a pattern at the root, by listing every set of items.
pub(crate) fn best_pattern(statement: &Statement, root: &Node, weights: &[u64]) -> u64 {
    let weight_of = |size: &u64| weights[root.sizes.iter().position(|other| other == size).unwrap()];
    let limit = statement.max_items.unwrap_or(u32::MAX);
    let value = |set: usize| {
        let items = statement.sizes.iter().enumerate().filter(move |(item, _)| set >> item & 1 == 1);
        let fits = items.clone().map(|item| item.1).sum::<u64>() <= statement.capacity && set.count_ones() <= limit;
        if fits { items.map(|item| weight_of(item.1)).sum() } else { 0 }
    };
    (0..1 << statement.sizes.len()).map(value).max().unwrap()
}

/// A complete prover for small cases: a leaf of these weights where one closes the case, else a branch on the pair the
/// `choice` prefers; `None` where the bins are enough.
pub(crate) fn refute(statement: &Statement, bins: u64, choice: u32) -> Option<Vec<TreeNode>> {
    let (mut tree, mut left, mut bins) = (Vec::new(), statement.clone(), bins);
    while let Some((sizes, rest)) = filled(&left, bins, choice).filter(|_| choice % 2 == 1) {
        tree.push(TreeNode::Fill(sizes));
        (left, bins) = (rest, bins - 1);
    }
    grow(&left, bins, choice, &Node::root(&left), &mut tree).then_some(tree)
}

/// A bin that may be filled for good, by the page's conditions over all sets of items, and what is left then.
fn filled(statement: &Statement, bins: u64, choice: u32) -> Option<(Vec<u64>, Statement)> {
    let items = statement.sizes.len();
    let tuples = (0..items.pow(3)).map(|code| [code % items, code / items % items, code / items / items]);
    let few = |most| {
        tuples.clone().filter(move |tuple| tuple[most..] == [0; 3][most..]).map(move |tuple| tuple[..most].to_vec())
    };
    let pairs = few(1).chain(few(2));
    let mut all: Vec<Vec<usize>> = pairs.chain(tuples.map(Vec::from)).collect();
    all.retain(|tuple| may_fill(statement, bins, tuple));
    let chosen = all.get(choice as usize % all.len().max(1))?;
    let left = (0..items).filter(|item| !chosen.contains(item)).map(|item| statement.sizes[item]);
    let sizes = chosen.iter().map(|&item| statement.sizes[item]).collect();
    Some((sizes, Statement { sizes: left.collect(), ..statement.clone() }))
}

/// Whether these items, each once, may fill a bin for good.
pub(crate) fn may_fill(statement: &Statement, bins: u64, tuple: &[usize]) -> bool {
    let Statement { sizes, capacity, max_items, .. } = statement;
    let Some(waste) = (bins * capacity).checked_sub(sizes.iter().sum()) else { return false };
    let different = (0..tuple.len()).all(|place| !tuple[..place].contains(&tuple[place]));
    let total: u64 = tuple.iter().map(|&item| sizes[item]).sum();
    let more = sizes.len() >= tuple.len() && (sizes.len() - tuple.len()) as u64 >= bins;
    let first = sizes[tuple[0]];
    let others: Vec<u64> = (0..sizes.len())
        .filter(|item| !tuple.contains(item))
        .map(|item| sizes[item])
        .filter(|&size| tuple[1..].iter().all(|&item| sizes[item] != size))
        .collect();
    let may_be_with = |set: usize| {
        let total: u64 =
            others.iter().enumerate().filter(|(place, _)| set >> place & 1 == 1).map(|other| other.1).sum();
        let above = tuple[1..].iter().all(|&item| total > sizes[item]);
        first + total <= *capacity && first + total + waste >= *capacity && above && total > 0
    };
    let free = || !(0..1 << others.len()).any(may_be_with);
    max_items.is_none() && tuple.len() <= 3 && different && total == *capacity && more && free()
}

fn grow(statement: &Statement, bins: u64, choice: u32, node: &Node, tree: &mut Vec<TreeNode>) -> bool {
    let sizes = node.sizes.iter().map(|&size| size as i64).collect();
    let plain = [sizes, vec![1; node.sizes.len()]].map(|weights| Leaf { weights, cuts: Vec::new() });
    let single = (0..node.sizes.len() as u32).filter(|&t| node.demands[t as usize] == 1).take(3);
    let multipliers: Vec<_> = single.map(|t| (t, 1)).collect();
    let cut = |leaf: &Leaf| Leaf {
        cuts: vec![Cut { scale: 1, denominator: 2, multipliers: multipliers.clone() }],
        ..leaf.clone()
    };
    let cuts = plain.iter().filter(|_| multipliers.len() == 3).map(cut);
    for leaf in plain.iter().cloned().chain(cuts) {
        if check_leaf(statement, bins, node, &leaf, &Limits::default()).is_ok() {
            tree.push(TreeNode::Leaf(leaf));
            return true;
        }
    }
    let types = node.sizes.len() as u32;
    let mut pairs: Vec<_> = (0..types).flat_map(|i| (i..types).map(move |j| (i, j))).collect();
    pairs.retain(|&(i, j)| node.may_join(i, j, statement));
    if pairs.is_empty() {
        return false;
    }
    let (i, j) = pairs[choice as usize % pairs.len()];
    tree.push(TreeNode::Branch(i, j));
    let (mut together, mut apart) = (node.clone(), node.clone());
    together.join(i, j);
    apart.part(i, j);
    grow(statement, bins, choice, &together, tree) && grow(statement, bins, choice, &apart, tree)
}

/// A packing with the fewest bins.
pub(crate) fn pack(statement: &Statement) -> Vec<Vec<u32>> {
    let goal = fewest_bins(statement) as usize;
    let mut bins = vec![(0, Vec::new()); goal];
    assert!(place(statement, 0, &mut bins));
    bins.into_iter().map(|bin| bin.1).collect()
}

fn place(statement: &Statement, item: usize, bins: &mut [(u64, Vec<u32>)]) -> bool {
    let Some(&size) = statement.sizes.get(item) else { return true };
    for bin in 0..bins.len() {
        let full = statement.max_items.is_some_and(|limit| bins[bin].1.len() >= limit as usize);
        if size > statement.capacity - bins[bin].0 || full {
            continue;
        }
        bins[bin].0 += size;
        bins[bin].1.push(item as u32);
        if place(statement, item + 1, bins) {
            return true;
        }
        bins[bin].0 -= size;
        bins[bin].1.pop();
    }
    false
}

/// Small questions: few items, often of equal size, capacities where bounds and optimum differ.
pub(crate) fn statements() -> impl Strategy<Value = Statement> {
    let max_items = prop_oneof![3 => Just(None), 1 => (1..=4_u32).prop_map(Some)];
    let figures = (1..=30_u64, max_items, 1..=3_u64, 1..=3_u64, 1..=4_u64, any::<bool>());
    figures.prop_flat_map(|(capacity, max_items, slots, rows_multiple, part, repeated)| {
        // Any size, or sizes near the whole, a half, a third, a quarter of the capacity, just too large for it.
        let least = (capacity / part + 1).min(capacity);
        let size = prop_oneof![1 => 1..=capacity, 3 => least..=(least + capacity / 8).min(capacity)];
        proptest::collection::vec(size, 1..=8).prop_map(move |mut sizes| {
            let first = sizes[0];
            sizes.iter_mut().step_by(if repeated { 3 } else { 9 }).for_each(|size| *size = first);
            Statement { sizes, capacity, max_items, slots, rows_multiple }
        })
    })
}

/// Checks a text against bare lengths, as the program does.
pub(crate) fn check_bare(sizes: &[u64], text: &[u8], limits: &Limits) -> Result<(Statement, Checked), CheckError> {
    let lines = sizes.iter().map(u64::to_string).collect::<Vec<_>>().join("\n");
    check_lengths(&Lengths::parse(lines.as_bytes(), &Form::Lines, 1, limits).unwrap(), text, limits)
}
