//! What a certificate says, and how it is written down.

use std::io::{self, BufRead, Write};

use crate::Statement;
use crate::limits::{CheckError, Limits};
use crate::reader::Reader;
use crate::statement::HEADER;

/// A witness for the upper side, a proof for the lower side; either may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Certificate {
    /// Bins of item indices, every item in exactly one: so many bins suffice.
    pub witness: Option<Vec<Vec<u32>>>,
    /// The claim "at least so many cells (bins) are necessary"; at least 1.
    pub cells_at_least: Option<u64>,
    /// The claim "at least so many rows are necessary"; a multiple of [`Statement::rows_multiple`], at least 1.
    pub rows_at_least: Option<u64>,
    /// The one proof behind both claims: that [`Certificate::refuted_bins`] bins are not enough.
    pub proof: Option<Proof>,
}

/// Why a number of bins is not enough. The rules are those of the crate's page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Proof {
    /// The items' total size exceeds that of the bins.
    Volume,
    /// The items outnumber the bins' places (needs [`Statement::max_items`]).
    Count,
    /// `[types]`, one weight for every distinct size in decreasing order: the total weight exceeds what the bins
    /// can hold, each at most the largest weight of a pattern.
    Weights(Vec<u64>),
    /// A tree of cases in preorder ("together" before "apart"), each case closed by a leaf.
    Tree(Vec<TreeNode>),
}

/// One node of a [`Proof::Tree`]. Types are those of the node; see [`crate::Node`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TreeNode {
    /// `[1 to 3]`, sizes of items that fill a bin for good; before all other nodes, which are about what is left then.
    Fill(Vec<u64>),
    /// Either some bin holds an item of both types (two items if they are the same type): "together";
    /// or no bin does: "apart".
    Branch(u32, u32),
    /// No packing of this node's items exists.
    Leaf(Leaf),
}

/// Weights and cuts that close a case.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Leaf {
    /// `[types of the node]`, weight of one item of the type; may be negative.
    pub weights: Vec<i64>,
    /// Rank-1 cuts, each lowering the value of patterns.
    pub cuts: Vec<Cut>,
}

/// A rank-1 cut: a pattern a loses `scale · ⌊Σ multiplier_t · a_t / denominator⌋`, all items together the same of
/// their demands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cut {
    /// Positive factor, in units of the leaf's weights.
    pub scale: u64,
    /// Positive denominator.
    pub denominator: u32,
    /// (type, positive multiplier) in increasing order of types; at least one.
    pub multipliers: Vec<(u32, u32)>,
}

impl Certificate {
    /// The number of bins the proof must refute: B − 1 for "at least B cells", D·(R − v) for "at least R rows", the
    /// larger for both; `None` without a claim, or where a claim is 0 or too large for any statement.
    pub fn refuted_bins(&self, statement: &Statement) -> Option<u64> {
        let cells = self.cells_at_least.map(|cells| cells.checked_sub(1));
        let rows =
            self.rows_at_least.map(|rows| rows.checked_sub(statement.rows_multiple)?.checked_mul(statement.slots));
        match (cells, rows) {
            (None, None) => None,
            (Some(one), None) | (None, Some(one)) => one,
            (Some(cells), Some(rows)) => Some(cells?.max(rows?)),
        }
    }

    /// Writes the certificate of this statement.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, statement: &Statement, mut out: impl Write) -> io::Result<()> {
        for (word, figure) in HEADER.iter().zip(statement.header()) {
            writeln!(out, "{word} {figure}")?;
        }
        if let Some(cells) = self.cells_at_least {
            writeln!(out, "cells-at-least {cells}")?;
        }
        if let Some(rows) = self.rows_at_least {
            writeln!(out, "rows-at-least {rows}")?;
        }
        if let Some(bins) = &self.witness {
            writeln!(out, "witness {}", bins.len())?;
            for bin in bins {
                write_line(&mut out, "bin", bin)?;
            }
        }
        match &self.proof {
            None => {}
            Some(Proof::Volume) => writeln!(out, "volume")?,
            Some(Proof::Count) => writeln!(out, "count")?,
            Some(Proof::Weights(weights)) => write_line(&mut out, "weights", weights)?,
            Some(Proof::Tree(nodes)) => {
                writeln!(out, "tree")?;
                nodes.iter().try_for_each(|node| node.write_to(&mut out))?;
            }
        }
        writeln!(out, "end")
    }

    /// The text of the certificate of this statement.
    pub fn to_text(&self, statement: &Statement) -> String {
        let mut text = Vec::new();
        self.write_to(statement, &mut text).expect("a vector takes every byte");
        String::from_utf8(text).expect("words and digits are ASCII")
    }

    /// Reads a certificate of this statement without judging it: only the grammar and the header are enforced.
    ///
    /// # Errors
    /// [`CheckError::Invalid`] for text outside the grammar or of another statement, [`CheckError::NotChecked`] past a
    /// limit, [`CheckError::Unreadable`] for an error of the source.
    pub fn parse(statement: &Statement, text: impl BufRead, limits: &Limits) -> Result<Self, CheckError> {
        let mut reader = Reader::new(text, limits);
        if reader.header()? != statement.header() {
            return reader.invalid("the header is that of another statement");
        }
        reader.advance()?;
        let cells_at_least = reader.optional("cells-at-least")?;
        let rows_at_least = reader.optional("rows-at-least")?;
        let mut witness = None;
        if let Some(stated) = reader.optional("witness")? {
            let mut bins: Vec<Vec<u32>> = Vec::new();
            for _ in 0..stated {
                bins.push(reader.list("bin")?);
                reader.meter.hold(2 * size_of::<Vec<u32>>() + 4 * bins.last().map_or(0, Vec::len))?;
                reader.advance()?;
            }
            witness = Some(bins);
        }
        let proof = match reader.word.as_str() {
            "volume" => Some(Proof::Volume),
            "count" => Some(Proof::Count),
            "weights" => Some(Proof::Weights(reader.list("weights")?)),
            "tree" => Some(Proof::Tree(TreeNode::read_all(&mut reader)?)),
            _ => None,
        };
        if proof.is_some() {
            reader.advance()?;
        }
        reader.end()?;
        Ok(Self { witness, cells_at_least, rows_at_least, proof })
    }
}

impl TreeNode {
    /// Writes one node of a tree: provers may stream a tree, node by node.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn write_to(&self, out: &mut impl Write) -> io::Result<()> {
        match self {
            Self::Fill(sizes) => write_line(out, "fill", sizes),
            Self::Branch(i, j) => writeln!(out, "branch {i} {j}"),
            Self::Leaf(leaf) => {
                write!(out, "leaf {}", leaf.cuts.len())?;
                write_line(out, "", &leaf.weights)?;
                for cut in &leaf.cuts {
                    write!(out, "cut {} {}", cut.scale, cut.denominator)?;
                    cut.multipliers.iter().try_for_each(|(kind, multiplier)| write!(out, " {kind} {multiplier}"))?;
                    writeln!(out)?;
                }
                Ok(())
            }
        }
    }

    fn read_all<R: BufRead>(reader: &mut Reader<R>) -> Result<Vec<Self>, CheckError> {
        let (mut nodes, mut open) = (Vec::new(), 1_u64);
        reader.advance()?;
        while reader.word == "fill" {
            let sizes: Vec<u64> = reader.list("fill")?;
            reader.meter.hold(2 * size_of::<Self>() + 8 * sizes.len())?;
            nodes.push(Self::Fill(sizes));
            reader.advance()?;
        }
        loop {
            reader.meter.hold(2 * size_of::<Self>())?;
            if reader.word == "branch" {
                let [i, j] = reader.list("branch")?[..] else { return reader.invalid("a branch has two types") };
                nodes.push(Self::Branch(i, j));
                open += 1;
            } else {
                nodes.push(Self::Leaf(reader.leaf()?));
                open -= 1;
            }
            if open == 0 {
                return Ok(nodes);
            }
            reader.advance()?;
        }
    }
}

fn write_line(out: &mut impl Write, word: &str, values: &[impl std::fmt::Display]) -> io::Result<()> {
    write!(out, "{word}")?;
    values.iter().try_for_each(|value| write!(out, " {value}"))?;
    writeln!(out)
}
