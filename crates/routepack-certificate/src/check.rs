//! The checker: header, claims, witness, proof, in the order of the text.

use std::io::{self, BufRead, Write};

use crate::certificate::{Certificate, Leaf};
use crate::knapsack::flaw;
use crate::limits::{CheckError, Limits, Meter};
use crate::reader::Reader;
use crate::{Lengths, Node, Statement};

/// The statement as a certificate states it: the sizes by their number, total and digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Header {
    /// Number of items.
    pub items: u32,
    /// Total of all sizes.
    pub total: u128,
    /// [`Statement::digest`] of the sizes.
    pub digest: u64,
    /// See [`Statement::capacity`].
    pub capacity: u64,
    /// See [`Statement::max_items`].
    pub max_items: Option<u32>,
    /// See [`Statement::slots`].
    pub slots: u64,
    /// See [`Statement::rows_multiple`].
    pub rows_multiple: u64,
}

/// The rule of the accepted proof.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// Total size against total capacity.
    Volume,
    /// Number of items against number of places.
    Count,
    /// Weights and the largest weight of a pattern.
    Weights,
    /// A tree of cases.
    Tree,
}

/// What an accepted certificate proves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checked {
    /// At least so many cells are necessary; 0 where nothing is claimed.
    pub cells_lower: u64,
    /// So many cells suffice; `None` without a witness.
    pub cells_upper: Option<u64>,
    /// At least so many rows are necessary; 0 where nothing is claimed.
    pub rows_lower: u64,
    /// So many rows suffice to hold the witness, some of their cells perhaps empty; `None` without a witness.
    pub rows_upper: Option<u64>,
    /// The rule behind the lower bounds; `None` where nothing is claimed.
    pub rule: Option<Rule>,
    /// Leaves of a tree that were closed.
    pub leaves: u64,
    /// Steps spent.
    pub steps: u64,
    /// Most bytes held at once by the checker's tables.
    pub memory: u64,
}

/// Checks a certificate against a statement: writes it and checks the text.
///
/// # Errors
/// [`CheckError::Statement`] for a meaningless statement, [`CheckError::Invalid`] for a certificate that does not
/// prove what it claims, [`CheckError::NotChecked`] past a limit.
pub fn check(
    statement: &Statement,
    certificate: &Certificate,
    limits: &Limits,
) -> Result<Checked, CheckError> {
    check_text(statement, certificate.to_text(statement).as_bytes(), limits)
}

/// Checks the text of a certificate against a statement, reading each line once.
///
/// # Errors
/// As [`check`], and [`CheckError::Unreadable`] for an error of the source.
pub fn check_text(statement: &Statement, text: impl BufRead, limits: &Limits) -> Result<Checked, CheckError> {
    statement.validate()?;
    let (mut reader, mut meter) = (Reader::new(text), Meter::new(limits));
    if Header::read(&mut reader, &mut meter)? != Header::of(statement) {
        return reader.invalid("the header is that of another statement");
    }
    check_body(statement, &mut reader, &mut meter)
}

/// Checks the text of a certificate against a file of lengths; everything else is taken from the certificate's header,
/// so look at the statement that comes back.
///
/// # Errors
/// As [`check_text`].
pub fn check_lengths(
    lengths: &Lengths,
    text: impl BufRead,
    limits: &Limits,
) -> Result<(Statement, Checked), CheckError> {
    let (mut reader, mut meter) = (Reader::new(text), Meter::new(limits));
    let header = Header::read(&mut reader, &mut meter)?;
    let Some(statement) = lengths.statement(&header, &mut meter)? else {
        return reader
            .invalid("the certificate is for other lengths: their number, total, digest or capacity differ");
    };
    statement.validate()?;
    let checked = check_body(&statement, &mut reader, &mut meter)?;
    Ok((statement, checked))
}

/// Checks what follows the header.
fn check_body(
    statement: &Statement,
    reader: &mut Reader<impl BufRead>,
    meter: &mut Meter,
) -> Result<Checked, CheckError> {
    let mut claims = Certificate::default();
    reader.advance(meter)?;
    if reader.word == "cells-at-least" {
        claims.cells_at_least = Some(reader.single()?);
        reader.advance(meter)?;
    }
    if reader.word == "rows-at-least" {
        let rows: u64 = reader.single()?;
        if rows % statement.rows_multiple != 0 {
            return reader.invalid(format!("{rows} rows are no multiple of {}", statement.rows_multiple));
        }
        claims.rows_at_least = Some(rows);
        reader.advance(meter)?;
    }
    let claimed = claims.cells_at_least.is_some() || claims.rows_at_least.is_some();
    let refuted = claims.refuted_bins(statement).filter(|&bins| bins < statement.sizes.len() as u64);
    if claimed && refuted.is_none() {
        return reader.invalid("a claim of nothing, or of more bins than items");
    }
    let mut cells_upper = None;
    if reader.word == "witness" {
        cells_upper = Some(check_witness(statement, reader, meter)?);
        reader.advance(meter)?;
    }
    let (mut rule, mut leaves) = (None, 0);
    if let Some(bins) = refuted {
        (rule, leaves) = check_proof(statement, bins, reader, meter)?;
        reader.advance(meter)?;
    }
    if reader.word != "end" || !reader.values.is_empty() {
        return reader.invalid(format!("\"{}\" is out of place: expected \"end\"", reader.word));
    }
    reader.finish()?;
    let cells_lower = refuted.map_or(0, |bins| bins + 1);
    Ok(Checked {
        cells_lower,
        cells_upper,
        rows_lower: statement.rows_for(cells_lower),
        rows_upper: cells_upper.map(|cells| statement.rows_for(cells)),
        rule,
        leaves,
        steps: meter.steps,
        memory: meter.peak,
    })
}

/// Checks a packing, item by item; returns its number of bins.
fn check_witness(
    statement: &Statement,
    reader: &mut Reader<impl BufRead>,
    meter: &mut Meter,
) -> Result<u64, CheckError> {
    let bins = reader.single()?;
    meter.hold(statement.sizes.len())?;
    let mut packed = vec![false; statement.sizes.len()];
    for _ in 0..bins {
        reader.advance(meter)?;
        let items: Vec<usize> = reader.list()?;
        if reader.word != "bin" || items.is_empty() {
            return reader.invalid("expected \"bin\" and its items");
        }
        if statement.max_items.is_some_and(|limit| items.len() > limit as usize) {
            return reader.invalid(format!("{} items in one bin", items.len()));
        }
        let mut load = 0;
        for item in items {
            if packed.get(item) != Some(&false) {
                return reader.invalid(format!("item {item} is packed twice or does not exist"));
            }
            packed[item] = true;
            load += u128::from(statement.sizes[item]);
        }
        if load > u128::from(statement.capacity) {
            return reader
                .invalid(format!("a bin of load {load} exceeds the capacity {}", statement.capacity));
        }
    }
    match packed.iter().position(|&packed| !packed) {
        Some(item) => reader.invalid(format!("item {item} is in no bin")),
        None => Ok(bins),
    }
}

/// Checks the proof that so many bins are not enough; there is at least one item. Returns rule and leaves.
fn check_proof(
    statement: &Statement,
    bins: u64,
    reader: &mut Reader<impl BufRead>,
    meter: &mut Meter,
) -> Result<(Option<Rule>, u64), CheckError> {
    let rule = match reader.word.as_str() {
        "volume" => Rule::Volume,
        "count" => Rule::Count,
        "weights" => Rule::Weights,
        "tree" => Rule::Tree,
        _ => return reader.invalid(format!("expected a proof, found \"{}\"", reader.word)),
    };
    if rule != Rule::Weights && !reader.values.is_empty() {
        return reader.invalid("this word takes no integers");
    }
    let holds = match rule {
        Rule::Volume => statement.total() > u128::from(bins) * u128::from(statement.capacity),
        Rule::Count => {
            statement.max_items.is_some_and(|limit| statement.sizes.len() as u64 > bins * u64::from(limit))
        }
        Rule::Weights => {
            let leaf = Leaf { weights: reader.list()?, cuts: Vec::new() };
            if leaf.weights.iter().any(|&weight| weight < 0) {
                return reader.invalid("a weight is negative");
            }
            let root = Node::root(statement);
            meter.hold(root.bytes() + size_of_val(&leaf.weights[..]))?;
            flaw(statement, bins, &root, &leaf, false, meter)?.map_or(Ok(true), |why| reader.invalid(why))?
        }
        Rule::Tree => return Ok((Some(rule), check_tree(statement, bins, reader, meter)?)),
    };
    if holds { Ok((Some(rule), 0)) } else { reader.invalid(format!("the proof does not refute {bins} bins")) }
}

/// Checks a tree in preorder; returns its number of leaves. Holds one path only.
fn check_tree(
    statement: &Statement,
    bins: u64,
    reader: &mut Reader<impl BufRead>,
    meter: &mut Meter,
) -> Result<u64, CheckError> {
    let root = Node::root(statement);
    let (mut node, mut leaves) = (root.clone(), 0);
    let mut path: Vec<(u32, u32, bool)> = Vec::new();
    loop {
        reader.advance(meter)?;
        let held = meter.held;
        meter.hold(2 * node.bytes() + 24 * path.len())?;
        match (reader.word.as_str(), &reader.values[..]) {
            ("branch", [_, _]) => {
                let pair: Vec<u32> = reader.list()?;
                if !node.may_join(pair[0], pair[1], statement) {
                    return reader.invalid("no items of these types may share a bin here");
                }
                meter.step(1 + node.apart_of(pair[0], pair[1]))?;
                node.join(pair[0], pair[1]);
                path.push((pair[0], pair[1], true));
            }
            ("leaf", _) => {
                let leaf = reader.leaf(meter)?;
                if let Some(why) = flaw(statement, bins, &node, &leaf, true, meter)? {
                    return reader.invalid(why);
                }
                leaves += 1;
                while path.pop_if(|branch| !branch.2).is_some() {}
                let Some(last) = path.last_mut() else { return Ok(leaves) };
                last.2 = false;
                node = root.clone();
                for &(i, j, together) in &path {
                    meter.step(1 + node.apart_of(i, j))?;
                    if together { node.join(i, j) } else { node.part(i, j) }
                }
            }
            _ => return reader.invalid("expected \"branch\" with two types, or \"leaf\""),
        }
        meter.held = held;
    }
}

impl Header {
    /// The header of this statement's certificates.
    pub fn of(statement: &Statement) -> Self {
        Self {
            items: u32::try_from(statement.sizes.len()).unwrap_or(u32::MAX),
            total: statement.total(),
            digest: statement.digest(),
            capacity: statement.capacity,
            max_items: statement.max_items,
            slots: statement.slots,
            rows_multiple: statement.rows_multiple,
        }
    }

    pub(crate) fn read(reader: &mut Reader<impl BufRead>, meter: &mut Meter) -> Result<Self, CheckError> {
        if reader.field::<u32>("routepack-certificate", meter)? != 1 {
            return reader.invalid("only version 1 is known");
        }
        Ok(Self {
            items: reader.field("items", meter)?,
            total: reader.field("total", meter)?,
            digest: reader.field("digest", meter)?,
            capacity: reader.field("capacity", meter)?,
            max_items: Some(reader.field("max-items", meter)?).filter(|&limit| limit > 0),
            slots: reader.field("slots", meter)?,
            rows_multiple: reader.field("rows-multiple", meter)?,
        })
    }

    pub(crate) fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        writeln!(
            out,
            "routepack-certificate 1\nitems {}\ntotal {}\ndigest {}",
            self.items, self.total, self.digest
        )?;
        writeln!(out, "capacity {}\nmax-items {}", self.capacity, self.max_items.unwrap_or(0))?;
        writeln!(out, "slots {}\nrows-multiple {}", self.slots, self.rows_multiple)
    }
}
