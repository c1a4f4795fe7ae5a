//! The Python dictionary at the head of an `.npy` array: `descr`, `fortran_order`, `shape`; no other literals.

/// Kind of a data type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Signed,
    Unsigned,
    Float,
    /// Zero-padded bytes.
    Bytes,
    /// Zero-padded code points of 4 bytes.
    Unicode,
    Object,
    Other,
}

/// What a header says about an array; nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Declared {
    /// The data type as written.
    pub(crate) descr: String,
    pub(crate) kind: Kind,
    pub(crate) big_endian: bool,
    /// Bytes of one value.
    pub(crate) width: usize,
    pub(crate) fortran_order: bool,
    /// Dimensions.
    pub(crate) shape: Vec<usize>,
}

/// Parses a header's text.
pub(crate) fn parse(text: &str) -> Result<Declared, String> {
    Literal { rest: text }.declared()
}

/// The few Python literals of a header.
struct Literal<'a> {
    rest: &'a str,
}

impl<'a> Literal<'a> {
    fn declared(&mut self) -> Result<Declared, String> {
        let (mut descr, mut fortran_order, mut shape) = (None, None, None);
        self.expect('{')?;
        while !self.eat('}') {
            let key = self.string()?;
            self.expect(':')?;
            match key {
                "descr" => descr = Some(self.string().map_err(|_| "structured dtypes are not supported")?),
                "fortran_order" => fortran_order = Some(self.boolean()?),
                "shape" => shape = Some(self.tuple()?),
                _ => return Err(format!("unknown key `{key}`")),
            }
            if !self.eat(',') {
                self.expect('}')?;
                break;
            }
        }
        let (Some(descr), Some(fortran_order), Some(shape)) = (descr, fortran_order, shape) else {
            return Err("one of descr, fortran_order, shape is missing".to_owned());
        };
        if !self.rest.trim().is_empty() {
            return Err("text behind the dictionary".to_owned());
        }
        let (kind, big_endian, width) = parse_descr(descr)?;
        let descr = descr.to_owned();
        Ok(Declared { descr, kind, big_endian, width, fortran_order, shape })
    }

    fn eat(&mut self, expected: char) -> bool {
        let rest = self.rest.trim_start().strip_prefix(expected);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn expect(&mut self, expected: char) -> Result<(), String> {
        if self.eat(expected) { Ok(()) } else { Err(format!("`{expected}` expected")) }
    }

    fn string(&mut self) -> Result<&'a str, String> {
        let rest = self.rest.trim_start();
        let quote =
            rest.chars().next().filter(|quote| matches!(quote, '\'' | '"')).ok_or("a string expected")?;
        let end = rest[1..].find(quote).ok_or("a string does not end")?;
        self.rest = &rest[end + 2..];
        Ok(&rest[1..=end])
    }

    fn boolean(&mut self) -> Result<bool, String> {
        let rest = self.rest.trim_start();
        for (word, value) in [("True", true), ("False", false)] {
            if let Some(rest) = rest.strip_prefix(word) {
                self.rest = rest;
                return Ok(value);
            }
        }
        Err("True or False expected".to_owned())
    }

    fn tuple(&mut self) -> Result<Vec<usize>, String> {
        self.expect('(')?;
        let mut numbers = Vec::new();
        while !self.eat(')') {
            let rest = self.rest.trim_start();
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let number = rest[..end].parse();
            numbers.push(number.map_err(|_| "a dimension is no number from 0 to 2^64 - 1".to_owned())?);
            if numbers.len() > 32 {
                return Err("more than 32 dimensions".to_owned());
            }
            // Python 2 wrote long integers with a suffix.
            self.rest = rest[end..].strip_prefix('L').unwrap_or(&rest[end..]);
            if !self.eat(',') {
                self.expect(')')?;
                break;
            }
        }
        Ok(numbers)
    }
}

fn parse_descr(descr: &str) -> Result<(Kind, bool, usize), String> {
    let wrong = || format!("dtype `{descr}` is not understood");
    let mut letters = descr.chars();
    let big_endian = match letters.next() {
        Some('>') => true,
        Some('<' | '|' | '=') => false,
        _ => return Err(wrong()),
    };
    let kind = letters.next().ok_or_else(wrong)?;
    if kind == 'O' {
        return Ok((Kind::Object, big_endian, 0));
    }
    let digits = letters.as_str();
    let size: usize = match digits.parse() {
        Ok(size) if size <= 1 << 24 => size,
        // Dates carry a unit behind their size; neither is of use here.
        _ if matches!(kind, 'm' | 'M') => 8,
        _ => return Err(wrong()),
    };
    Ok(match kind {
        'i' => (Kind::Signed, big_endian, size),
        'u' => (Kind::Unsigned, big_endian, size),
        'f' => (Kind::Float, big_endian, size),
        'S' | 'a' => (Kind::Bytes, big_endian, size),
        'U' => (Kind::Unicode, big_endian, size * 4),
        'b' | 'c' | 'm' | 'M' | 'V' => (Kind::Other, big_endian, size),
        _ => return Err(wrong()),
    })
}
