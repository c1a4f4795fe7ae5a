//! A program as CPLEX LP text: the same bytes for the same program.

use std::collections::HashSet;
use std::fmt::Write as _;

use crate::program::{Program, Relation, Sense, Variable};

/// A line is broken before it grows past this many bytes.
const LINE: usize = 100;

/// Words of the format, not to be used as names.
const KEYWORDS: [&str; 26] = [
    "bin", "binaries", "binary", "bound", "bounds", "end", "free", "gen", "general", "generals", "in", "inf",
    "infinity", "int", "integer", "integers", "max", "maximise", "maximize", "min", "minimise", "minimize",
    "semi", "st", "subject", "such",
];

impl Program {
    /// The program in CPLEX LP format, which HiGHS and most other solvers read.
    ///
    /// Names keep letters, digits and `_`; any run of other characters becomes one `_` (`x[3, 1]` is `x_3_1`), and names
    /// that are then equal are numbered. Numbers are written so that they read back to the same bits.
    pub fn write_lp(&self) -> String {
        let variables = legal_names(self.variables().iter().map(|variable| variable.name.as_str()), "x");
        let constraints =
            legal_names(self.constraints().iter().map(|constraint| constraint.name.as_str()), "c");
        let mut text = format!("\\ {}\n", self.name.replace('\n', " "));

        text += match self.sense {
            Sense::Minimise => "minimize\n",
            Sense::Maximise => "maximize\n",
        };
        let costs = self.variables().iter().zip(&variables).filter(|(variable, _)| variable.cost != 0.0);
        let mut terms: Vec<_> = costs.map(|(variable, name)| term(variable.cost, name)).collect();
        if self.offset != 0.0 {
            terms.push(signed(self.offset));
        }
        write_line(&mut text, " obj:", terms, "");

        text += "subject to\n";
        for (constraint, name) in self.constraints().iter().zip(&constraints) {
            let terms = constraint.terms.iter().map(|&(variable, a)| term(a, &variables[variable.index()]));
            let mut terms: Vec<_> = terms.collect();
            if terms.is_empty() {
                // The format has no empty left side.
                terms.extend(variables.first().map(|name| term(0.0, name)));
            }
            let relation = match constraint.relation {
                Relation::AtLeast => ">=",
                Relation::AtMost => "<=",
                Relation::Equal => "=",
            };
            write_line(&mut text, &format!(" {name}:"), terms, &format!(" {relation} {}", constraint.bound));
        }

        text += "bounds\n";
        for (variable, name) in self.variables().iter().zip(&variables) {
            if let Some(bounds) = bounds(variable, name) {
                writeln!(text, " {bounds}").expect("a string takes any text");
            }
        }
        let mut section = |title: &str, chosen: fn(&Variable) -> bool| {
            let members = self.variables().iter().zip(&variables).filter(|(variable, _)| chosen(variable));
            let members: Vec<_> = members.map(|(_, name)| name.clone()).collect();
            if !members.is_empty() {
                text += title;
                write_line(&mut text, "", members, "");
            }
        };
        section("general\n", |variable| variable.integer && !is_binary(variable));
        section("binary\n", is_binary);
        text += "end\n";
        text
    }
}

fn is_binary(variable: &Variable) -> bool {
    variable.integer && (variable.lower, variable.upper) == (0.0, 1.0)
}

/// The bounds of a variable, unless they are those the format assumes: 0 and ∞.
fn bounds(variable: &Variable, name: &str) -> Option<String> {
    let &Variable { lower, upper, .. } = variable;
    match (lower.is_finite(), upper.is_finite()) {
        _ if is_binary(variable) => None,
        (true, false) if lower == 0.0 => None,
        (true, false) => Some(format!("{name} >= {lower}")),
        (true, true) => Some(format!("{lower} <= {name} <= {upper}")),
        (false, true) => Some(format!("-inf <= {name} <= {upper}")),
        (false, false) => Some(format!("{name} free")),
    }
}

fn signed(value: f64) -> String {
    let sign = if value < 0.0 { '-' } else { '+' };
    format!("{sign} {}", value.abs())
}

fn term(coefficient: f64, name: &str) -> String {
    let number = signed(coefficient);
    // The number 1 is not written.
    let number = number.strip_suffix(" 1").unwrap_or(&number);
    format!("{number} {name}")
}

/// Writes `head`, the words separated by blanks, and `tail`, broken into lines.
fn write_line(text: &mut String, head: &str, words: Vec<String>, tail: &str) {
    *text += head;
    let mut width = head.len();
    for word in words {
        if width + 1 + word.len() > LINE {
            *text += "\n ";
            width = 1;
        }
        width += 1 + word.len();
        *text += " ";
        *text += &word;
    }
    *text += tail;
    *text += "\n";
}

/// Makes each name legal in LP format, and all of them different also where case is ignored.
fn legal_names<'a>(names: impl Iterator<Item = &'a str>, fallback: &str) -> Vec<String> {
    let mut taken = HashSet::new();
    let mut legal = Vec::new();
    for name in names {
        let parts =
            name.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').filter(|part| !part.is_empty());
        let mut base = parts.collect::<Vec<_>>().join("_");
        // Neither a number nor, like e9, the exponent of one.
        let first = base.trim_start_matches(['e', 'E']);
        let starts_badly = first.is_empty() || first.starts_with(|c: char| c.is_ascii_digit());
        if starts_badly || KEYWORDS.contains(&base.to_lowercase().as_str()) {
            base = if base.is_empty() { fallback.to_owned() } else { format!("{fallback}_{base}") };
        }
        base.truncate(200);
        let mut candidate = base.clone();
        let mut number = 1;
        while !taken.insert(candidate.to_lowercase()) {
            number += 1;
            candidate = format!("{base}_{number}");
        }
        legal.push(candidate);
    }
    legal
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_every_section() {
        let mut program = Program::maximise("all sections");
        let x = program.add_real("x[3, 1]", 0.0, f64::INFINITY);
        let y = program.add_integer("x[3,1]", -2.0, 7.5);
        let z = program.add_binary("2nd");
        let free = program.add_real("free", f64::NEG_INFINITY, f64::INFINITY);
        let low = program.add_real("low", f64::NEG_INFINITY, -0.125);
        program.set_cost(x, 1.0);
        program.set_cost(y, -0.1);
        program.set_cost(z, -1.0);
        program.offset = -3.0;
        program.constrain("sum", [(x, 1.0), (y, 2.0), (z, -1.0)], Relation::AtMost, 1e-7);
        program.constrain("SUM", [(free, 1.0), (low, -1e21)], Relation::Equal, -4.0);
        program.constrain("nothing", [], Relation::AtLeast, -1.0);
        let expected = "\\ all sections
maximize
 obj: + x_3_1 - 0.1 x_3_1_2 - x_2nd - 3
subject to
 sum: + x_3_1 + 2 x_3_1_2 - x_2nd <= 0.0000001
 SUM_2: + x_free - 1000000000000000000000 low = -4
 nothing: + 0 x_3_1 >= -1
bounds
 -2 <= x_3_1_2 <= 7.5
 x_free free
 -inf <= low <= -0.125
general
 x_3_1_2
binary
 x_2nd
end
";
        assert_eq!(program.write_lp(), expected);
    }

    #[test]
    fn breaks_long_lines() {
        let mut program = Program::minimise("long");
        let terms: Vec<_> = (0..60).map(|k| (program.add_real(format!("x[{k}]"), 0.0, 1.0), 1.0)).collect();
        program.constrain("sum", terms, Relation::AtLeast, 1.0);
        assert!(program.write_lp().lines().all(|line| line.len() <= LINE));
    }
}
