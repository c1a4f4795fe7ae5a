//! Windows from a real trace of routes: consecutive tokens are cut into samples and their choices counted.
//!
//! Problem: routes `[tokens, layers, top_k]` of consecutive tokens and sample lengths → counts a[i,l,e] and routed rows.
//! Method: sample i takes the tokens behind those of sample i − 1; its last `unrouted` tokens lie in the text but their
//! routes are not counted, as where an engine records t − 1 rows. Complexity: O(tokens · layers · `top_k`²).
//! Reference: ours. A trace keeps what no model of routing has: the dependence of neighbouring tokens and of layers.

use routepack_problem::{Batch, ExpertCounts};

use crate::GenerateError;

/// Expert choices of consecutive tokens, `[tokens, layers, top_k]` row-major; ids of logical experts.
#[derive(Clone, Copy, Debug)]
pub struct Trace<'a, T> {
    values: &'a [T],
    layers: usize,
    top_k: usize,
    experts: usize,
}

/// Where the samples lie in a trace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Cut {
    /// First token used.
    pub first_token: usize,
    /// Tokens at the end of each sample whose routes are not counted, 0 or 1.
    pub unrouted_tokens: u32,
}

impl<'a, T: Copy + Into<u32>> Trace<'a, T> {
    /// A trace of tokens with `top_k` choices among `experts` in each of `layers`.
    ///
    /// # Errors
    /// The values are no such array.
    pub fn new(values: &'a [T], layers: usize, top_k: usize, experts: usize) -> Result<Self, GenerateError> {
        let token = layers.checked_mul(top_k).unwrap_or(0);
        if token == 0 || !values.len().is_multiple_of(token) {
            return Err(GenerateError::TraceShape { found: values.len(), layers, top_k });
        }
        Ok(Self { values, layers, top_k, experts })
    }

    /// Tokens.
    pub fn tokens(&self) -> usize {
        self.values.len() / (self.layers * self.top_k)
    }

    /// Cuts samples of these raw lengths, in tokens, one behind the other.
    ///
    /// The batch holds lengths, counts and routed rows; ids, loss tokens and prompts are the caller's to add.
    ///
    /// # Errors
    /// A length of 0, a trace that ends before the samples do, an expert out of range, or one chosen twice.
    pub fn cut(&self, lengths: &[u32], cut: Cut) -> Result<Batch, GenerateError> {
        crate::recipe::whole("unrouted_tokens", cut.unrouted_tokens, 0..=1)?;
        let mut values = vec![0u32; lengths.len() * self.layers * self.experts];
        let mut routed_rows = Vec::with_capacity(lengths.len());
        let mut first = cut.first_token;
        for (sample, &length) in lengths.iter().enumerate() {
            if length == 0 {
                return Err(GenerateError::field(
                    format!("lengths[{sample}]"),
                    0,
                    "a sample has at least 1 token",
                ));
            }
            let end = first as u64 + u64::from(length);
            if end > self.tokens() as u64 {
                return Err(GenerateError::TraceLength { sample, needed: end, tokens: self.tokens() });
            }
            let rows = length - cut.unrouted_tokens;
            let counts = &mut values[sample * self.layers * self.experts..][..self.layers * self.experts];
            for token in first..first + rows as usize {
                self.count_token(token, counts)?;
            }
            routed_rows.push(rows);
            first = end as usize;
        }
        let shape = [lengths.len(), 1, self.layers, self.experts];
        Ok(Batch {
            lengths: lengths.to_vec(),
            expert_counts: Some(ExpertCounts::new(shape, values)?),
            routed_rows: Some(routed_rows),
            ..Batch::default()
        })
    }

    /// Adds one token's choices to the counts `[layers, experts]`.
    fn count_token(&self, token: usize, counts: &mut [u32]) -> Result<(), GenerateError> {
        let size = self.layers * self.top_k;
        for layer in 0..self.layers {
            let chosen = &self.values[token * size + layer * self.top_k..][..self.top_k];
            for (place, &expert) in chosen.iter().enumerate() {
                let expert: u32 = expert.into();
                let refused = |problem: String| GenerateError::Route { token, layer, expert, problem };
                if expert as usize >= self.experts {
                    return Err(refused(format!("of {}", self.experts)));
                }
                if chosen[..place].iter().any(|&earlier| earlier.into() == expert) {
                    return Err(refused("twice".into()));
                }
                counts[layer * self.experts + expert as usize] += 1;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5 tokens, 2 layers, top-2 of 4.
    const ROUTES: [u8; 20] = [0, 1, 2, 3, 0, 2, 2, 1, 3, 1, 0, 1, 0, 1, 3, 0, 2, 3, 1, 2];

    #[test]
    fn counts_by_hand() {
        let trace = Trace::new(&ROUTES, 2, 2, 4).expect("shape");
        let batch = trace.cut(&[2, 3], Cut::default()).expect("fits");
        let counts = batch.expert_counts.as_ref().expect("counts");
        assert_eq!(counts.of(0, 0, 0), [2, 1, 1, 0]);
        assert_eq!(counts.of(0, 0, 1), [0, 1, 2, 1]);
        assert_eq!(counts.of(1, 0, 0), [1, 2, 1, 2]);
        assert_eq!(batch.check(2), Ok(()));
        let cut = Cut { first_token: 1, unrouted_tokens: 1 };
        let later = trace.cut(&[3, 1], cut).expect("fits");
        assert_eq!(later.routed_rows, Some(vec![2, 0]));
        assert_eq!(later.expert_counts.as_ref().expect("counts").of(0, 0, 0), [1, 1, 1, 1]);
        assert_eq!(later.check(2), Ok(()));
    }

    #[test]
    fn refuses_by_name() {
        let trace = Trace::new(&ROUTES, 2, 2, 4).expect("shape");
        let long = trace.cut(&[2, 4], Cut::default()).expect_err("too long");
        assert_eq!(long, GenerateError::TraceLength { sample: 1, needed: 6, tokens: 5 });
        assert!(trace.cut(&[0], Cut::default()).is_err());
        assert!(trace.cut(&[2], Cut { first_token: 0, unrouted_tokens: 2 }).is_err());
        assert!(Trace::new(&ROUTES[..18], 2, 2, 4).is_err());
        let few = Trace::new(&ROUTES, 2, 2, 3).expect("shape").cut(&[1], Cut::default());
        assert_eq!(
            few.expect_err("expert 3").to_string(),
            "routed_experts[token 0, layer 1] names expert 3 of 3"
        );
        let twice = Trace::new(&[1u16, 1], 1, 2, 4).expect("shape").cut(&[1], Cut::default());
        assert!(twice.expect_err("twice").to_string().ends_with("expert 1 twice"));
    }
}
