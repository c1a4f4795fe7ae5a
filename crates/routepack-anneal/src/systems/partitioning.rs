//! Number partitioning.
//!
//! Problem: put each of n whole numbers on one of two sides so that the sums differ as little as possible (NP-hard).
//! Energy and score: the difference, as a float and exactly.
//! Chain: move a random number to the other side, or exchange two numbers of different sides. Complexity: O(1) a
//! proposal, 2n proposals a sweep.
//! Reference: B. Hayes, The easiest hard problem, American Scientist 90(2), 2002.

use crate::metropolis::accepts;
use crate::peers::Portable;
use crate::stream::Stream;
use crate::system::{Record, System};

const MOVE: usize = 0;
const EXCHANGE: usize = 1;

/// The numbers to be split.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Partitioning {
    numbers: Vec<i64>,
}

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sides {
    /// +1 or −1, by number.
    sides: Vec<i64>,
    /// Sum of the side +1 minus sum of the side −1.
    difference: i64,
}

impl Partitioning {
    /// The problem of splitting these numbers.
    ///
    /// # Panics
    /// If there are none.
    pub fn new(numbers: &[u32]) -> Self {
        assert!(!numbers.is_empty(), "there are no numbers to split");
        Self { numbers: numbers.iter().map(|number| i64::from(*number)).collect() }
    }

    /// The partition with all numbers on one side.
    pub fn begin(&self) -> Sides {
        Sides { sides: vec![1; self.numbers.len()], difference: self.numbers.iter().sum() }
    }

    /// Draws a proposal: the numbers to change sides (one twice for a move), and the change of the signed difference;
    /// none where an exchange hit two numbers of one side. As likely in one direction as in the other.
    fn propose(&self, state: &Sides, kind: usize, stream: &mut Stream) -> Option<([usize; 2], i64)> {
        let shift = |i: usize| -2 * state.sides[i] * self.numbers[i];
        let (i, j) = (stream.index(self.numbers.len()), stream.index(self.numbers.len()));
        match kind {
            MOVE => Some(([i, i], shift(i))),
            _ if state.sides[i] == state.sides[j] => None,
            _ => Some(([i, j], shift(i) + shift(j))),
        }
    }

    /// How much the energy changes when the signed difference changes by `shift`.
    fn change(state: &Sides, shift: i64) -> f64 {
        ((state.difference + shift).abs() - state.difference.abs()) as f64
    }
}

impl System for Partitioning {
    type State = Sides;
    type Score = u64;
    type Snapshot = Vec<bool>;
    const MOVE_KINDS: &'static [&'static str] = &["move", "exchange"];
    const KEEPS_BOLTZMANN: bool = true;

    fn energy(&self, state: &Sides) -> f64 {
        state.difference.unsigned_abs() as f64
    }

    fn score(&self, state: &Sides) -> u64 {
        state.difference.unsigned_abs()
    }

    fn snapshot(&self, state: &Sides) -> Vec<bool> {
        state.sides.iter().map(|side| *side > 0).collect()
    }

    fn sample_change(&self, state: &mut Sides, stream: &mut Stream) -> f64 {
        loop {
            let kind = stream.index(2);
            if let Some((_, shift)) = self.propose(state, kind, stream) {
                return Self::change(state, shift);
            }
        }
    }

    fn sweep(&self, state: &mut Sides, temperature: f64, stream: &mut Stream, record: &mut Record<Self>) {
        for kind in (0..self.numbers.len()).flat_map(|_| [MOVE, EXCHANGE]) {
            record.propose(kind);
            let Some(([i, j], shift)) = self.propose(state, kind, stream) else { continue };
            let change = Self::change(state, shift);
            if accepts(change, temperature, stream) {
                state.sides[i] = -state.sides[i];
                if i != j {
                    state.sides[j] = -state.sides[j];
                }
                state.difference += shift;
                record.accept(kind, change);
                record.offer(self, state);
            }
        }
    }
}

impl Portable for Partitioning {
    fn pack_state(&self, state: &Sides) -> Vec<u32> {
        state.sides.iter().map(|side| u32::from(*side > 0)).collect()
    }

    fn unpack_state(&self, words: &[u32]) -> Option<Sides> {
        let sides: Vec<i64> = words.iter().map(|word| if *word == 1 { 1 } else { -1 }).collect();
        let difference = sides.iter().zip(&self.numbers).map(|(side, number)| side * number).sum();
        (sides.len() == self.numbers.len()).then_some(Sides { sides, difference })
    }

    fn pack_answer(&self, answer: &Vec<bool>) -> Vec<u32> {
        answer.iter().map(|side| u32::from(*side)).collect()
    }

    fn unpack_answer(&self, words: &[u32]) -> Option<(u64, Vec<bool>)> {
        let state = self.unpack_state(words)?;
        Some((self.score(&state), self.snapshot(&state)))
    }
}
