//! The grammar: every line is one word and integers, separated by single spaces, ended by a newline.

use std::io::{BufRead, Bytes};

use crate::certificate::{Cut, Leaf};
use crate::limits::{CheckError, Limits, Meter};
use crate::statement::HEADER;

/// Reads a certificate line by line; holds the current line only.
pub(crate) struct Reader<R> {
    source: Bytes<R>,
    /// What is spent, here and by whoever judges what is read.
    pub(crate) meter: Meter,
    /// Number of the current line, from 1.
    line: u64,
    /// Its word.
    pub(crate) word: String,
    /// Its integers.
    values: Vec<i128>,
    /// Most integers of a line so far, which the meter knows of.
    charged: usize,
}

impl<R: BufRead> Reader<R> {
    pub(crate) fn new(source: R, limits: &Limits) -> Self {
        let (source, meter) = (source.bytes(), Meter::new(limits));
        Self { source, meter, line: 0, word: String::new(), values: Vec::new(), charged: 0 }
    }

    /// An error at the current line.
    pub(crate) fn invalid<T>(&self, why: impl Into<String>) -> Result<T, CheckError> {
        Err(CheckError::Invalid { line: self.line, why: why.into() })
    }

    /// The outcome, an error that knows no line put at the current one.
    pub(crate) fn located<T>(&self, outcome: Result<T, CheckError>) -> Result<T, CheckError> {
        match outcome {
            Err(CheckError::Invalid { line: 0, why }) => self.invalid(why),
            other => other,
        }
    }

    /// The next byte, if there is one.
    fn byte(&mut self) -> Result<Option<u8>, CheckError> {
        let unreadable = |error: std::io::Error| CheckError::Unreadable { why: format!("certificate: {error}") };
        self.source.next().transpose().map_err(unreadable)
    }

    /// Goes to the next line.
    pub(crate) fn advance(&mut self) -> Result<(), CheckError> {
        self.line += 1;
        self.word.clear();
        self.values.clear();
        let mut token = String::new();
        loop {
            match self.byte()? {
                Some(byte @ (b'a'..=b'z' | b'0'..=b'9' | b'-')) if token.len() < 38 => token.push(char::from(byte)),
                Some(end @ (b' ' | b'\n')) => {
                    self.accept(&token)?;
                    token.clear();
                    if end == b'\n' {
                        return Ok(());
                    }
                }
                Some(_) => return self.invalid("a byte that no line here has, or a token too long"),
                None => return self.invalid("the text ends before the certificate does"),
            }
        }
    }

    /// Adds a token to the current line: first a word, then integers in their only decimal form.
    fn accept(&mut self, token: &str) -> Result<(), CheckError> {
        self.meter.step(1)?;
        if self.word.is_empty() && token.starts_with(|first: char| first.is_ascii_lowercase()) {
            token.clone_into(&mut self.word);
            return Ok(());
        }
        let canonical = token == "0" || !token.trim_start_matches('-').starts_with('0');
        match token.parse() {
            Ok(value) if canonical && !self.word.is_empty() => self.values.push(value),
            _ => return self.invalid(format!("\"{token}\" is out of place or not in plain form")),
        }
        if self.values.len() > self.charged {
            self.charged += 1;
            self.meter.hold(2 * size_of::<i128>())?;
        }
        Ok(())
    }

    /// Reads the first lines; returns their figures.
    pub(crate) fn header(&mut self) -> Result<[u128; 8], CheckError> {
        let mut header = [0; 8];
        for (figure, word) in header.iter_mut().zip(HEADER) {
            self.advance()?;
            *figure = self.single(word)?;
        }
        if header[0] == 1 { Ok(header) } else { self.invalid("only version 1 is known") }
    }

    /// The integer of the current line and on to the next line, if the current one has this word.
    pub(crate) fn optional(&mut self, word: &str) -> Result<Option<u64>, CheckError> {
        if self.word != word {
            return Ok(None);
        }
        let value = self.single(word)?;
        self.advance()?;
        Ok(Some(value))
    }

    /// The only integer of the current line, which must have this word.
    fn single<T: TryFrom<i128> + Copy>(&self, word: &str) -> Result<T, CheckError> {
        let [value] = self.list(word)?[..] else { return self.invalid("one integer belongs here") };
        Ok(value)
    }

    /// All integers of the current line, which must have this word.
    pub(crate) fn list<T: TryFrom<i128>>(&self, word: &str) -> Result<Vec<T>, CheckError> {
        if self.word != word {
            return self.invalid(format!("expected \"{word}\", found \"{}\"", self.word));
        }
        self.values.iter().map(|&value| self.number(value)).collect()
    }

    fn number<T: TryFrom<i128>>(&self, value: i128) -> Result<T, CheckError> {
        T::try_from(value).or_else(|_| self.invalid(format!("{value} is out of range")))
    }

    /// The leaf whose first line is the current one: its weights, then as many lines of cuts as it states.
    pub(crate) fn leaf(&mut self) -> Result<Leaf, CheckError> {
        self.meter.hold(size_of_val(&self.values[..]))?;
        let mut weights: Vec<i64> = self.list("leaf")?;
        if weights.is_empty() {
            return self.invalid("a leaf states its number of cuts, then a weight for every type");
        }
        let mut cuts = Vec::new();
        for _ in 0..self.number::<u64>(weights.remove(0).into())? {
            self.advance()?;
            self.meter.hold(2 * size_of::<Cut>() + size_of_val(&self.values[..]))?;
            let ("cut", [scale, denominator, pairs @ ..], 0) =
                (&self.word[..], &self.values[..], self.values.len() % 2)
            else {
                return self.invalid("expected \"cut\", scale, denominator, then type and multiplier by turns");
            };
            let pair = |pair: &[i128]| Ok((self.number(pair[0])?, self.number(pair[1])?));
            let multipliers = pairs.chunks(2).map(pair).collect::<Result<_, CheckError>>()?;
            cuts.push(Cut { scale: self.number(*scale)?, denominator: self.number(*denominator)?, multipliers });
        }
        Ok(Leaf { weights, cuts })
    }

    /// Makes sure that the current line is the end and nothing follows.
    pub(crate) fn end(&mut self) -> Result<(), CheckError> {
        if self.word != "end" || !self.values.is_empty() || self.byte()?.is_some() {
            return self.invalid("expected \"end\" and nothing after it");
        }
        Ok(())
    }
}
