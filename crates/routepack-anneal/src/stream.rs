//! Random streams whose numbers never change.
//!
//! Problem: a seed must give the same numbers for ever, and parallel work must draw from streams that depend on what
//! the work is, not on who does it or when.
//! Method: the generator is xoshiro256++; its four words of state are four `SplitMix64` outputs from a 64-bit *key*. The
//! child of index `i` has a key mixed from the parent's key and `i`, whatever has been drawn from the parent: siblings'
//! keys differ always, any others with probability 1 − 2⁻⁶⁴ a pair. Integers below `n` by multiplication and rejection
//! (no bias), fractions from the upper 53 bits, permutations by Fisher and Yates, normals by the polar method.
//! Complexity: constant a draw (expected, for integers and normals), `n` draws for a permutation of `n`.
//! References: D. Blackman and S. Vigna, Scrambled linear pseudorandom number generators, ACM TOMS 47(4), 2021, doi
//! 10.1145/3460772; G. L. Steele, D. Lea and C. H. Flood, Fast splittable pseudorandom number generators, OOPSLA 2014,
//! doi 10.1145/2660193.2660195; D. Lemire, Fast random integer generation in an interval, ACM TOMACS 29(1), 2019, doi
//! 10.1145/3230636; G. Marsaglia and T. A. Bray, A convenient method for generating normal variables, SIAM Review 6(3),
//! 1964, doi 10.1137/1006063. Deviations: the polar method's second normal is thrown away, so a stream has no memory
//! beside its generator.

use std::ops::Range;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::elementary;

/// `SplitMix64`'s increment: 2⁶⁴ divided by the golden ratio, made odd.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
/// Sets the keys of children apart from the words of state made of the same key.
const CHILD: u64 = 0x6a09_e667_f3bc_c908;

/// One stream of random numbers, fixed for ever by its seed and the path of children that led to it.
///
/// ```
/// use routepack_anneal::stream::Stream;
///
/// let root = Stream::new(7);
/// let (mut third, mut again) = (root.child(3), root.child(3));
/// assert_eq!(third.below(1000), again.below(1000));
/// assert_ne!(third.next_u64(), root.child(4).next_u64());
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream {
    key: u64,
    generator: Xoshiro256PlusPlus,
}

impl Stream {
    /// The stream of `seed`.
    pub fn new(seed: u64) -> Self {
        let mut bytes = [0; 32];
        for (word, i) in bytes.chunks_exact_mut(8).zip(1..) {
            word.copy_from_slice(&mix(seed.wrapping_add(GOLDEN.wrapping_mul(i))).to_le_bytes());
        }
        Self { key: seed, generator: Xoshiro256PlusPlus::from_seed(bytes) }
    }

    /// The child of that index: an independent stream, the same whatever was drawn from this one.
    #[must_use]
    pub fn child(&self, index: u64) -> Self {
        let branch = mix(self.key ^ CHILD).wrapping_add(index.wrapping_mul(GOLDEN));
        Self::new(mix(branch))
    }

    /// 64 random bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.generator.next_u64()
    }

    /// A whole number in `0..n`, every one equally likely.
    ///
    /// # Panics
    /// If `n` is 0: there is nothing to draw from.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "a number below 0 was asked for");
        let mut product = u128::from(self.next_u64()) * u128::from(n);
        if (product as u64) < n {
            // The lowest 2⁶⁴ mod n fractions would make some numbers likelier than others.
            let surplus = n.wrapping_neg() % n;
            while (product as u64) < surplus {
                product = u128::from(self.next_u64()) * u128::from(n);
            }
        }
        (product >> 64) as u64
    }

    /// An index into a sequence of that length, every one equally likely: [`Stream::below`] for `usize`.
    ///
    /// # Panics
    /// If `len` is 0.
    #[inline]
    pub fn index(&mut self, len: usize) -> usize {
        self.below(len as u64) as usize
    }

    /// A whole number in `range`, every one equally likely.
    ///
    /// # Panics
    /// If the range is empty.
    #[inline]
    pub fn range(&mut self, range: Range<u64>) -> u64 {
        assert!(range.start < range.end, "a number in the empty range {range:?} was asked for");
        range.start + self.below(range.end - range.start)
    }

    /// A fraction in [0, 1): a multiple of 2⁻⁵³, every one equally likely.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * (1.0 / 9_007_199_254_740_992.0)
    }

    /// A normal number: mean 0, variance 1.
    pub fn normal(&mut self) -> f64 {
        loop {
            let (x, y) = (2.0 * self.unit() - 1.0, 2.0 * self.unit() - 1.0);
            let square = x * x + y * y;
            if square > 0.0 && square < 1.0 {
                return x * (-2.0 * elementary::ln(square) / square).sqrt();
            }
        }
    }

    /// Puts the elements in random order, every order equally likely.
    pub fn shuffle<T>(&mut self, elements: &mut [T]) {
        for last in (1..elements.len()).rev() {
            elements.swap(last, self.index(last + 1));
        }
    }
}

/// `SplitMix64`'s finaliser: a bijection of 64-bit words.
fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact values are meant
mod tests {
    use std::collections::{BTreeMap, HashSet};

    use super::*;

    /// Every number here comes from an implementation written apart, in another language.
    #[test]
    fn frozen_streams() {
        let words = |mut stream: Stream| [stream.next_u64(), stream.next_u64(), stream.next_u64()];
        assert_eq!(
            words(Stream::new(0)),
            [0x5317_5d61_490b_23df, 0x61da_6f3d_c380_d507, 0x5c0f_df91_ec9a_7bfc]
        );
        assert_eq!(
            words(Stream::new(2026)),
            [0x6d4f_f061_9c33_9b97, 0x9d34_f449_7825_b7a7, 0xb8d2_5ad9_6777_0acd]
        );
        assert_eq!(
            words(Stream::new(7).child(3)),
            [0x2fa6_ae87_e9d0_a56c, 0x67ac_30b8_e084_a41b, 0x972c_fbf3_e874_e873]
        );
        assert_eq!(
            words(Stream::new(7).child(3).child(5)),
            [0xeaef_d0d0_30e3_50d7, 0x1b09_a0d4_85d5_0bf3, 0xfdb3_bb81_629e_5b31]
        );
        assert_eq!(
            words(Stream::new(u64::MAX).child(u64::MAX)),
            [0x78e4_9a71_df64_b740, 0xe731_4b07_e537_41f8, 0xd790_079d_ed7a_38a5]
        );

        let mut stream = Stream::new(1);
        assert_eq!(
            [1, 2, 10, 1000, 1 << 40, 3 << 62, u64::MAX, 10].map(|n| stream.below(n)),
            [0, 1, 1, 746, 203_056_237_446, 8_169_309_650_686_581_363, 18_204_613_561_675_945_222, 5]
        );

        let mut order = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9];
        Stream::new(2).shuffle(&mut order);
        assert_eq!(order, [8, 0, 9, 1, 3, 6, 2, 5, 4, 7]);

        let mut stream = Stream::new(3);
        let units = [
            0.051_451_418_949_999_83,
            0.647_917_546_199_268_2,
            0.867_014_065_945_923_1,
            0.844_822_360_396_526_3,
        ];
        assert_eq!(units.map(|_| stream.unit()), units);

        let mut stream = Stream::new(4);
        for normal in [
            1.609_588_078_449_670_1,
            -0.934_724_802_500_360_8,
            -0.607_613_197_730_420_1,
            0.118_480_359_971_232_31,
        ] {
            assert!((stream.normal() - normal).abs() < 1e-14);
        }
    }

    #[test]
    fn every_order_of_three_is_equally_likely() {
        let mut stream = Stream::new(11);
        let mut seen = BTreeMap::<[u8; 3], i32>::new();
        for _ in 0..60_000 {
            let mut order = [0, 1, 2];
            stream.shuffle(&mut order);
            *seen.entry(order).or_default() += 1;
        }
        // Binomial(60 000, 1/6): sd 91.
        assert_eq!(seen.len(), 6);
        assert!(seen.values().all(|count| (count - 10_000).abs() < 5 * 91), "{seen:?}");
    }

    #[test]
    fn below_is_in_range_and_unbiased_where_bias_would_show() {
        let mut stream = Stream::new(5);
        // A bare modulo would make the lowest third of this range twice as likely as the others, a bare multiplication
        // every third number.
        let n = 3 << 62;
        let (mut thirds, mut residues) = ([0_i32; 3], [0_i32; 3]);
        for _ in 0..30_000 {
            let number = stream.below(n);
            thirds[(number >> 62) as usize] += 1;
            residues[(number % 3) as usize] += 1;
        }
        let fair = |count: &i32| (count - 10_000).abs() < 5 * 82;
        assert!(thirds.iter().all(fair) && residues.iter().all(fair), "{thirds:?} {residues:?}");
        assert!((0..1000).all(|_| stream.below(1) == 0));
        assert!((0..1000).all(|_| (17..19).contains(&stream.range(17..19))));
        assert!((0..1000).all(|_| stream.range(0..u64::MAX) < u64::MAX));
    }

    #[test]
    #[should_panic(expected = "below 0")]
    fn below_zero_is_refused() {
        Stream::new(1).below(0);
    }

    #[test]
    fn unit_and_normal_have_their_moments() {
        let mut stream = Stream::new(2);
        let (mut units, mut squares, mut fourths) = (0.0, 0.0, 0.0);
        let n = 100_000;
        for _ in 0..n {
            let u = stream.unit();
            assert!((0.0..1.0).contains(&u));
            units += u;
            let z = stream.normal();
            squares += z * z;
            fourths += z * z * z * z;
        }
        let n = f64::from(n);
        assert!((units / n - 0.5).abs() < 5.0 * (1.0 / 12.0 / n).sqrt());
        assert!((squares / n - 1.0).abs() < 5.0 * (2.0 / n).sqrt());
        assert!((fourths / n - 3.0).abs() < 5.0 * (96.0 / n).sqrt());
    }

    #[test]
    fn a_child_depends_on_its_path_alone() {
        let root = Stream::new(42);
        let mut drawn = root.clone();
        drawn.next_u64();
        assert_eq!(root.child(9), drawn.child(9));
        assert_ne!(root.child(1).child(2), root.child(2).child(1));
        assert_ne!(root.child(0), root);
        let mut keys = HashSet::new();
        for i in 0..200 {
            for j in 0..200 {
                assert!(keys.insert(root.child(i).child(j).key));
            }
        }
    }

    /// Neighbouring children show no correlation, bit by bit.
    #[test]
    fn neighbours_share_half_their_bits() {
        let root = Stream::new(0);
        let mut same = [0_i32; 64];
        for i in 0..10_000 {
            let agree = !(root.child(i).next_u64() ^ root.child(i + 1).next_u64());
            for (bit, count) in same.iter_mut().enumerate() {
                *count += (agree >> bit & 1) as i32;
            }
        }
        assert!(same.iter().all(|count| (count - 5_000).abs() < 5 * 50), "{same:?}");
    }
}
