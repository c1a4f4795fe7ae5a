//! The checker: header, claims, witness, proof, in the order of the text.

use std::io::BufRead;

use crate::certificate::{Certificate, Leaf};
use crate::fill::check_fills;
use crate::knapsack::{Case, close};
use crate::limits::{CheckError, Checked, Limits, Rule};
use crate::reader::Reader;
use crate::{Node, Statement};

/// Checks a certificate against a statement: writes it and checks the text.
///
/// # Errors
/// [`CheckError::Statement`] for a meaningless statement, [`CheckError::Invalid`] for a certificate that does not
/// prove what it claims, [`CheckError::NotChecked`] past a limit.
pub fn check(statement: &Statement, certificate: &Certificate, limits: &Limits) -> Result<Checked, CheckError> {
    check_text(statement, certificate.to_text(statement).as_bytes(), limits)
}

/// Checks the text of a certificate against a statement, reading each line once.
///
/// # Errors
/// As [`check`], and [`CheckError::Unreadable`] for an error of the source.
pub fn check_text(statement: &Statement, text: impl BufRead, limits: &Limits) -> Result<Checked, CheckError> {
    statement.validate()?;
    let mut reader = Reader::new(text, limits);
    if reader.header()? != statement.header() {
        return reader.invalid("the header is that of another statement");
    }
    check_body(statement, &mut reader)
}

/// Checks what follows the header.
pub(crate) fn check_body<R: BufRead>(statement: &Statement, reader: &mut Reader<R>) -> Result<Checked, CheckError> {
    reader.advance()?;
    let cells_at_least = reader.optional("cells-at-least")?;
    let rows_at_least = reader.optional("rows-at-least")?;
    if rows_at_least.is_some_and(|rows| rows % statement.rows_multiple != 0) {
        return reader.invalid("the rows claimed are no multiple of rows-multiple");
    }
    let claims = Certificate { cells_at_least, rows_at_least, ..Certificate::default() };
    let refuted = claims.refuted_bins(statement).filter(|&bins| bins < statement.sizes.len() as u64);
    if refuted.is_none() && claims != Certificate::default() {
        return reader.invalid("a claim of nothing, or of more bins than items");
    }
    let cells_upper = match reader.optional("witness")? {
        Some(bins) => Some(check_witness(statement, bins, reader)?),
        None => None,
    };
    let (mut rule, mut leaves) = (None, 0);
    if let Some(bins) = refuted {
        rule = Some(check_proof(statement, bins, &mut leaves, reader)?);
        reader.advance()?;
    }
    reader.end()?;
    let cells_lower = refuted.map_or(0, |bins| bins + 1);
    Ok(Checked {
        cells_lower,
        cells_upper,
        rows_lower: statement.rows_for(cells_lower),
        rows_upper: cells_upper.map(|cells| statement.rows_for(cells)),
        rule,
        leaves,
        steps: reader.meter.steps,
        memory: reader.meter.peak,
    })
}

/// Checks a packing that begins at the current line; goes to the line after it and returns its number of bins.
fn check_witness<R: BufRead>(statement: &Statement, bins: u64, reader: &mut Reader<R>) -> Result<u64, CheckError> {
    reader.meter.hold(statement.sizes.len())?;
    let mut unpacked = vec![true; statement.sizes.len()];
    for _ in 0..bins {
        let items: Vec<usize> = reader.list("bin")?;
        let mut load = 0;
        for &item in &items {
            if unpacked.get(item) != Some(&true) {
                return reader.invalid(format!("item {item} is packed twice or does not exist"));
            }
            unpacked[item] = false;
            load += u128::from(statement.sizes[item]);
        }
        let limit = statement.max_items.map_or(usize::MAX, |limit| limit as usize);
        if items.is_empty() || items.len() > limit || load > u128::from(statement.capacity) {
            return reader.invalid(format!("{} items of total size {load} are no bin", items.len()));
        }
        reader.advance()?;
    }
    match unpacked.iter().position(|&left| left) {
        Some(item) => reader.invalid(format!("item {item} is in no bin")),
        None => Ok(bins),
    }
}

/// Checks the proof, which begins at the current line, that so many bins are not enough; there is at least one item.
fn check_proof<R: BufRead>(
    statement: &Statement,
    bins: u64,
    leaves: &mut u64,
    reader: &mut Reader<R>,
) -> Result<Rule, CheckError> {
    let (items, weights) = (statement.sizes.len() as u64, reader.list::<i64>(&reader.word)?);
    let rule = match (reader.word.as_str(), weights.is_empty()) {
        ("volume", true) if statement.total() > u128::from(bins) * u128::from(statement.capacity) => Rule::Volume,
        ("count", true) if statement.max_items.is_some_and(|limit| bins * u64::from(limit) < items) => Rule::Count,
        ("volume" | "count", true) => {
            return reader.invalid(format!("by {} alone {bins} bins may be enough", reader.word));
        }
        ("tree", true) => {
            *leaves = check_tree(statement, bins, reader)?;
            Rule::Tree
        }
        ("weights", false) if weights.iter().all(|&weight| weight >= 0) => {
            let (root, leaf) = (Node::root(statement), Leaf { weights, cuts: Vec::new() });
            reader.meter.hold(root.bytes() + size_of_val(&leaf.weights[..]))?;
            let case = Case { statement, bins, filled: false, node: &root, leaf: &leaf };
            let outcome = close(&case, &mut reader.meter);
            reader.located(outcome)?;
            Rule::Weights
        }
        (word, _) => return reader.invalid(format!("\"{word}\" begins no proof")),
    };
    Ok(rule)
}

/// Checks a tree in preorder, one path at a time; returns its number of leaves.
fn check_tree<R: BufRead>(statement: &Statement, mut bins: u64, reader: &mut Reader<R>) -> Result<u64, CheckError> {
    reader.meter.hold(5 * size_of_val(&statement.sizes[..]))?;
    let mut statement = statement.clone();
    reader.advance()?;
    check_fills(&mut statement, &mut bins, reader)?;
    let root = Node::root(&statement);
    let (mut node, mut leaves) = (root.clone(), 0);
    let mut path: Vec<(u32, u32, bool)> = Vec::new();
    loop {
        let held = reader.meter.held;
        reader.meter.step(1 + node.sizes.len())?;
        reader.meter.hold(2 * node.bytes() + 24 * path.len())?;
        if reader.word == "branch" {
            let [i, j] = reader.list("branch")?[..] else { return reader.invalid("a branch has two types") };
            if !node.may_join(i, j, &statement) {
                return reader.invalid("no items of these types may share a bin here");
            }
            path.push((i, j, true));
            reader.meter.step(node.decide(i, j, true))?;
        } else {
            let leaf = reader.leaf()?;
            let case = Case { statement: &statement, bins, filled: true, node: &node, leaf: &leaf };
            let outcome = close(&case, &mut reader.meter);
            reader.located(outcome)?;
            leaves += 1;
            while path.pop_if(|branch| !branch.2).is_some() {}
            let Some(last) = path.last_mut() else { return Ok(leaves) };
            last.2 = false;
            node = root.clone();
            for &(i, j, together) in &path {
                reader.meter.step(node.decide(i, j, together))?;
            }
        }
        reader.meter.held = held;
        reader.advance()?;
    }
}
