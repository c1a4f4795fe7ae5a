//! The grammar: every line is one word and integers, separated by single spaces, ended by a newline.

use std::io::{BufRead, Bytes};

use crate::certificate::{Cut, Leaf};
use crate::limits::{CheckError, Meter};

/// Reads a certificate line by line; holds the current line only.
#[derive(Debug)]
pub(crate) struct Reader<R> {
    source: Bytes<R>,
    /// Number of the current line, from 1.
    pub(crate) line: u64,
    /// Its word.
    pub(crate) word: String,
    /// Its integers.
    pub(crate) values: Vec<i128>,
    charged: usize,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(source: R) -> Self {
        Self { source: source.bytes(), line: 0, word: String::new(), values: Vec::new(), charged: 0 }
    }

    /// An error at the current line.
    pub(crate) fn invalid<T>(&self, why: impl Into<String>) -> Result<T, CheckError> {
        Err(CheckError::Invalid { line: self.line, why: why.into() })
    }

    /// Goes to the next line.
    pub(crate) fn advance(&mut self, meter: &mut Meter) -> Result<(), CheckError> {
        self.line += 1;
        self.word.clear();
        self.values.clear();
        let mut token = String::new();
        loop {
            let byte = match self.source.next() {
                Some(Ok(byte)) => byte,
                Some(Err(error)) => return Err(CheckError::Unreadable(error.to_string())),
                None => return self.invalid("the text ends before the certificate does"),
            };
            match byte {
                b' ' | b'\n' if self.word.is_empty() => {
                    if !token.starts_with(|first: char| first.is_ascii_lowercase()) {
                        return self.invalid("a line must begin with a word");
                    }
                    self.word = std::mem::take(&mut token);
                }
                b' ' | b'\n' => {
                    let digits = token.strip_prefix('-').unwrap_or(&token);
                    let canonical = digits == "0" && token == "0" || !digits.starts_with(['0', '-']);
                    let Some(value) = token.parse().ok().filter(|_| canonical) else {
                        return self.invalid(format!("\"{token}\" is no integer in plain decimal form"));
                    };
                    meter.step(1)?;
                    self.values.push(value);
                    if self.values.len() > self.charged {
                        meter.hold(2 * size_of::<i128>())?;
                        self.charged += 1;
                    }
                    token.clear();
                }
                b'a'..=b'z' | b'0'..=b'9' | b'-' if token.len() < 38 => token.push(char::from(byte)),
                _ => return self.invalid("a character or a length that no word and no integer here has"),
            }
            if byte == b'\n' {
                return Ok(());
            }
        }
    }

    /// Goes to the next line, which must have this word and one integer in range.
    pub(crate) fn field<T: TryFrom<i128>>(&mut self, word: &str, meter: &mut Meter) -> Result<T, CheckError> {
        self.advance(meter)?;
        if self.word != word {
            return self.invalid(format!("expected \"{word}\", found \"{}\"", self.word));
        }
        self.single()
    }

    /// The only integer of the current line.
    pub(crate) fn single<T: TryFrom<i128>>(&self) -> Result<T, CheckError> {
        match self.values[..] {
            [value] => self.number(value),
            _ => self.invalid(format!("\"{}\" takes one integer", self.word)),
        }
    }

    /// All integers of the current line.
    pub(crate) fn list<T: TryFrom<i128>>(&self) -> Result<Vec<T>, CheckError> {
        self.values.iter().map(|&value| self.number(value)).collect()
    }

    fn number<T: TryFrom<i128>>(&self, value: i128) -> Result<T, CheckError> {
        T::try_from(value).or_else(|_| self.invalid(format!("{value} is out of range")))
    }

    fn pair(&self, pair: &[i128]) -> Result<(u32, u32), CheckError> {
        Ok((self.number(pair[0])?, self.number(pair[1])?))
    }

    /// The leaf whose first line is the current one: its weights, then as many cut lines as it states.
    pub(crate) fn leaf(&mut self, meter: &mut Meter) -> Result<Leaf, CheckError> {
        let Some((&stated, weights)) = self.values.split_first() else {
            return self.invalid("a leaf states its number of cuts, then one weight for every type");
        };
        meter.hold(size_of_val(weights))?;
        let weights = weights.iter().map(|&weight| self.number(weight)).collect::<Result<_, _>>()?;
        let mut leaf = Leaf { weights, cuts: Vec::new() };
        for _ in 0..self.number::<u64>(stated)? {
            self.advance(meter)?;
            if self.word != "cut" || self.values.len() < 4 || self.values.len() % 2 == 1 {
                return self.invalid(
                    "expected \"cut\", its scale, its denominator, then type and multiplier by turns",
                );
            }
            meter.hold(size_of::<Cut>() + size_of_val(&self.values[..]))?;
            let pairs = self.values[2..].chunks_exact(2);
            leaf.cuts.push(Cut {
                scale: self.number(self.values[0])?,
                denominator: self.number(self.values[1])?,
                multipliers: pairs.map(|pair| self.pair(pair)).collect::<Result<_, _>>()?,
            });
        }
        Ok(leaf)
    }

    /// Makes sure that nothing follows the current line.
    pub(crate) fn finish(&mut self) -> Result<(), CheckError> {
        match self.source.next() {
            None => Ok(()),
            Some(Err(error)) => Err(CheckError::Unreadable(error.to_string())),
            Some(Ok(_)) => self.invalid("something follows \"end\""),
        }
    }
}
