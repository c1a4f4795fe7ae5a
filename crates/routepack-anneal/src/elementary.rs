//! Exponential and logarithm with the same bits on every machine.
//!
//! Problem: one seed must give one answer, yet the `exp` and `ln` of system libraries differ in the last bit between
//! libraries and, within one library, between processors. A Metropolis test on such a bit sends a whole run elsewhere.
//! Method: range reduction to a small argument, then a fixed polynomial, in additions, multiplications and divisions
//! only: IEEE 754 fixes each of them to the bit, and the compiler neither reorders nor fuses them.
//! Accuracy: relative error below 2⁻⁵¹ (tested against the system's library). Cost: about twenty multiplications.
//! Reference: J.-M. Muller, *Elementary Functions: Algorithms and Implementation*, 3rd ed., 2016, chapters 3 and 11,
//! doi 10.1007/978-1-4899-7983-4. Deviation: Taylor coefficients instead of minimax ones, a term or two more.

/// The leading 32 bits of ln 2, so that whole multiples of it up to 2^20 are exact.
const LN_2_HIGH: f64 = 2_977_044_471.0 / 4_294_967_296.0;
/// ln 2 − [`LN_2_HIGH`].
const LN_2_LOW: f64 = 1.908_214_929_270_587_7e-10;

/// 3·2⁵¹: added and taken away again, it rounds a number below 2⁵¹ to a whole one.
const ROUNDER: f64 = 6_755_399_441_055_744.0;

/// Reciprocals of 13!, 12!, …, 2!.
const EXP_TERMS: [f64; 12] = [
    1.0 / 6_227_020_800.0,
    1.0 / 479_001_600.0,
    1.0 / 39_916_800.0,
    1.0 / 3_628_800.0,
    1.0 / 362_880.0,
    1.0 / 40_320.0,
    1.0 / 5_040.0,
    1.0 / 720.0,
    1.0 / 120.0,
    1.0 / 24.0,
    1.0 / 6.0,
    1.0 / 2.0,
];

/// Reciprocals of 23, 21, …, 3.
const LN_TERMS: [f64; 11] = [
    1.0 / 23.0,
    1.0 / 21.0,
    1.0 / 19.0,
    1.0 / 17.0,
    1.0 / 15.0,
    1.0 / 13.0,
    1.0 / 11.0,
    1.0 / 9.0,
    1.0 / 7.0,
    1.0 / 5.0,
    1.0 / 3.0,
];

/// e to the power `x`; 0 below about −745, infinite above about 709.8, NaN for NaN.
#[inline]
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < -745.2 {
        return 0.0;
    }
    if x > 709.8 {
        return f64::INFINITY;
    }
    // x = k ln 2 + r with |r| ≤ ln 2 / 2.
    let k = (x * std::f64::consts::LOG2_E + ROUNDER) - ROUNDER;
    let r = (x - k * LN_2_HIGH) - k * LN_2_LOW;
    let z = r * r;
    // Odd and even powers apart, so that the two chains of additions run side by side.
    let (odd, even) = EXP_TERMS
        .as_chunks::<2>()
        .0
        .iter()
        .fold((0.0, 0.0), |(odd, even), [to_odd, to_even]| (odd * z + to_odd, even * z + to_even));
    let power = 1.0 + (r + z * (even + r * odd));
    // In two steps: 2^k alone may be subnormal or infinite where the product is not.
    let k = k as i64;
    power * power_of_two(k / 2) * power_of_two(k - k / 2)
}

/// Natural logarithm of `x`; −∞ for 0, NaN below 0 and for NaN.
#[inline]
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < 0.0 {
        return f64::NAN;
    }
    if x == 0.0 {
        return f64::NEG_INFINITY;
    }
    if x == f64::INFINITY {
        return x;
    }
    // Subnormal numbers are lifted to normal ones first.
    let (x, lift) = if x < f64::MIN_POSITIVE { (x * power_of_two(54), 54) } else { (x, 0) };
    let bits = x.to_bits();
    let mut k = (bits >> 52) as i64 - 1023 - lift;
    let mut m = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m *= 0.5;
        k += 1;
    }
    // x = m 2^k with √½ < m ≤ √2, and ln m = 2 artanh s = 2 (s + s³/3 + s⁵/5 + …).
    let f = m - 1.0;
    let s = f / (m + 1.0);
    let z = s * s;
    let tail = LN_TERMS.iter().fold(0.0, |sum, term| sum * z + term) * z;
    // 2s = f − s f, which keeps the leading term exact.
    let k = k as f64;
    k * LN_2_HIGH + (f - (s * (f - 2.0 * tail) - k * LN_2_LOW))
}

/// 2 to the power `k`, for −1022 ≤ k ≤ 1023.
#[inline]
fn power_of_two(k: i64) -> f64 {
    f64::from_bits(((k + 1023) as u64) << 52)
}

#[cfg(test)]
#[allow(clippy::float_cmp)] // exact values are meant
mod tests {
    use super::*;

    fn relative_error(ours: f64, theirs: f64) -> f64 {
        if ours == theirs { 0.0 } else { ((ours - theirs) / theirs).abs() }
    }

    #[test]
    fn exp_agrees_with_the_system_library() {
        for i in -70_000..70_000 {
            let x = f64::from(i) * 0.010_001;
            assert!(relative_error(exp(x), x.exp()) < 2f64.powi(-51), "{x}: {} {}", exp(x), x.exp());
            let x = f64::from(i) * 1.3e-6;
            assert!(relative_error(exp(x), x.exp()) < 2f64.powi(-51), "{x}");
        }
    }

    #[test]
    fn ln_agrees_with_the_system_library() {
        let mut x = 5e-324;
        while x < 1e308 {
            assert!(relative_error(ln(x), x.ln()) < 2f64.powi(-51), "{x}: {} {}", ln(x), x.ln());
            x = x * 1.001 + 5e-324;
        }
        for i in -50_000..50_000 {
            let x = 1.0 + f64::from(i) * 1.7e-6;
            assert!(relative_error(ln(x), x.ln()) < 2f64.powi(-51), "{x}: {} {}", ln(x), x.ln());
        }
    }

    #[test]
    fn edges() {
        assert_eq!(exp(0.0), 1.0);
        assert_eq!(exp(-0.0), 1.0);
        assert_eq!(exp(f64::NEG_INFINITY), 0.0);
        assert_eq!(exp(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp(-746.0), 0.0);
        assert!(exp(-745.0) > 0.0 && exp(709.7).is_finite());
        assert!(exp(f64::NAN).is_nan());
        assert_eq!(ln(1.0), 0.0);
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(f64::INFINITY), f64::INFINITY);
        assert!(ln(-1.0).is_nan() && ln(f64::NAN).is_nan());
        assert_eq!(ln(f64::MAX), f64::MAX.ln());
    }

    /// The bits an implementation of the same formulas in another language gives.
    #[test]
    fn frozen_bits() {
        assert_eq!(exp(-0.1).to_bits(), 0x3fec_f46d_99d5_2b3a);
        assert_eq!(exp(-1.0).to_bits(), 0x3fd7_8b56_362c_ef38);
        assert_eq!(exp(-20.3).to_bits(), 0x3e1a_3b8d_c86d_1c8e);
        assert_eq!(ln(0.3).to_bits(), 0xbff3_4378_fcbd_a721);
        assert_eq!(ln(7.0).to_bits(), 0x3fff_2272_ae32_5a57);
        assert_eq!(ln(1e-9).to_bits(), 0xc034_b927_f32b_ffb8);
    }
}
