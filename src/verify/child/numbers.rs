//! Random numbers whose sums are exact, and the types in which a GPU stores them.

use super::driver::{Buffer, Driver};
use super::outcome::Refused;
use crate::verify::protocol::Precision;

/// A small generator. A seed always gives equal numbers.
pub(super) struct Random {
    state: u32,
}

impl Random {
    pub(super) fn new(seed: u32) -> Random {
        // Spreads neighbouring seeds. xorshift must not start at 0.
        let state = (seed ^ 0x5bd1_e995).wrapping_mul(0x9e37_79b1);
        Random {
            state: if state == 0 { 1 } else { state },
        }
    }

    pub(super) fn next(&mut self) -> u32 {
        // xorshift32
        self.state ^= self.state << 13;
        self.state ^= self.state >> 17;
        self.state ^= self.state << 5;
        self.state
    }

    /// A whole number from `-range` to `range`.
    pub(super) fn whole(&mut self, range: u16) -> f32 {
        let number = i64::from(self.next() % (2 * u32::from(range) + 1)) - i64::from(range);
        f32::from(i16::try_from(number).unwrap_or(0))
    }

    pub(super) fn wholes(&mut self, range: u16, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.whole(range)).collect()
    }
}

/// True if sums of `length` products of whole numbers up to `a` and `b` have at most `bits` significant bits, in any order
/// of the additions.
pub(super) const fn fits(length: usize, a: u16, b: u16, bits: u32) -> bool {
    length as u64 * a as u64 * b as u64 <= 1 << bits
}

/// The largest factors of which `length` products can be added without rounding, in any arithmetic that a library may use
/// for the precision.
pub(super) fn ranges(precision: Precision, length: usize) -> (u16, u16) {
    let budget =
        u16::try_from((1_usize << sum_bits(precision)) / length.max(1)).unwrap_or(u16::MAX);
    let (a, b) = match precision {
        // TF32 rounds factors of 12 bits, so wrong sums show that a library used it.
        Precision::Fp32 | Precision::Fp64 | Precision::None => (4095, budget / 4095),
        Precision::Tf32 => (1023, budget / 1023),
        Precision::Fp16 | Precision::Bf16 => (budget / budget.isqrt().max(1), budget.isqrt()),
    };
    (a, b.clamp(1, 8))
}

/// Significant bits of the type of a result. Libraries may add in that type or in `float`.
pub(super) const fn sum_bits(precision: Precision) -> u32 {
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::None => 24,
        Precision::Fp16 => 11,
        Precision::Bf16 => 8,
        Precision::Fp64 => 53,
    }
}

/// Copies numbers to the GPU, in the type of the precision.
pub(super) fn upload<'d>(
    driver: &'d Driver,
    precision: Precision,
    numbers: &[f32],
) -> Result<Buffer<'d>, Refused> {
    let halves = |convert: fn(f32) -> u16| {
        numbers
            .iter()
            .map(|number| convert(*number))
            .collect::<Vec<u16>>()
    };
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::None => driver.upload(numbers),
        Precision::Fp64 => driver.upload(
            &numbers
                .iter()
                .map(|number| f64::from(*number))
                .collect::<Vec<f64>>(),
        ),
        Precision::Fp16 => driver.upload(&halves(to_f16)),
        Precision::Bf16 => driver.upload(&halves(to_bf16)),
    }
}

/// Memory for results, filled with NaN.
pub(super) fn blank(
    driver: &Driver,
    precision: Precision,
    count: usize,
) -> Result<Buffer<'_>, Refused> {
    upload(driver, precision, &vec![f32::NAN; count])
}

pub(super) fn download(
    buffer: &Buffer<'_>,
    precision: Precision,
    count: usize,
) -> Result<Vec<f64>, Refused> {
    let halves = |convert: fn(u16) -> f32| {
        let numbers: Vec<u16> = buffer.download(count)?;
        Ok(numbers
            .into_iter()
            .map(|number| f64::from(convert(number)))
            .collect())
    };
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::None => Ok(buffer
            .download::<f32>(count)?
            .into_iter()
            .map(f64::from)
            .collect()),
        Precision::Fp64 => buffer.download(count),
        Precision::Fp16 => halves(from_f16),
        Precision::Bf16 => halves(from_bf16),
    }
}

/// To the nearest, and of two that are as near to the even one.
fn to_bf16(number: f32) -> u16 {
    let bits = number.to_bits();
    let upper = |bits: u32| u16::try_from(bits >> 16).unwrap_or(0);
    if number.is_nan() {
        return upper(bits) | 0x40;
    }
    upper(bits + 0x7fff + (bits >> 16 & 1))
}

fn from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// To the nearest, and of two that are as near to the even one.
fn to_f16(number: f32) -> u16 {
    let bits = number.to_bits();
    let sign = u16::try_from(bits >> 16 & 0x8000).unwrap_or(0);
    let size = number.abs();
    if number.is_nan() {
        return sign | 0x7e00;
    }
    // Half way between the largest number and the next one.
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // 2^-14 is the least number that is no subnormal; all steps below 2^-13 are of 2^-24.
    let exponent = (i32::try_from(bits >> 23 & 0xff).unwrap_or(0) - 127).max(-14);
    let steps = (size * 2.0_f32.powi(10 - exponent)).round_ties_even();
    // At most 2048, which carries over into the exponent as it must.
    #[allow(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a whole number up to 2048"
    )]
    let steps = steps as u16;
    let exponent = u16::try_from(exponent + 14).unwrap_or(0);
    sign | ((exponent << 10) + steps)
}

fn from_f16(bits: u16) -> f32 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f32::from(bits & 1023));
    sign * match exponent {
        0 => fraction * 2.0_f32.powi(-24),
        31 if fraction == 0.0 => f32::INFINITY,
        31 => f32::NAN,
        _ => (1024.0 + fraction) * 2.0_f32.powi(exponent - 25),
    }
}

/// A size as `int`. All sizes here fit.
pub(super) fn int(size: usize) -> i32 {
    i32::try_from(size).unwrap_or(i32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_fit_up_to_the_last_bit() {
        assert!(
            fits(128, 4, 4, 11),
            "2048 is the last of the whole numbers that half precision has all of"
        );
        assert!(!fits(129, 4, 4, 11));
        assert!(fits(usize::from(u16::MAX), 1, 1, 16));
        assert!(!fits(1 << 24, 2, 1, 24));
    }

    #[test]
    fn factors_are_as_large_as_sums_allow() {
        for precision in [
            Precision::Fp32,
            Precision::Tf32,
            Precision::Fp16,
            Precision::Bf16,
        ] {
            for length in [1, 27, 64, 126, 144, 216, 256] {
                let (a, b) = ranges(precision, length);
                assert!(
                    a >= 1 && fits(length, a, b, sum_bits(precision)),
                    "{precision:?} {length}: {a} {b}"
                );
            }
        }
        assert_eq!(ranges(Precision::Fp32, 216), (4095, 8));
        assert_eq!(ranges(Precision::Fp16, 64), (6, 5));
        assert_eq!(ranges(Precision::Bf16, 126), (2, 1));
    }

    #[test]
    fn every_half_comes_back() {
        for bits in 0..=u16::MAX {
            let (f16, bf16) = (from_f16(bits), from_bf16(bits));
            if f16.is_nan() {
                assert!(from_f16(to_f16(f16)).is_nan(), "{bits:x}");
            } else {
                assert_eq!(to_f16(f16), bits, "{f16}");
            }
            if bf16.is_nan() {
                assert!(from_bf16(to_bf16(bf16)).is_nan(), "{bits:x}");
            } else {
                assert_eq!(to_bf16(bf16), bits, "{bf16}");
            }
        }
    }

    #[test]
    fn halves_are_rounded_to_the_nearest_and_even() {
        let tiny = 2.0_f32.powi(-24);
        for (number, bits) in [
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (2049.0, 0x6800),
            (2051.0, 0x6802),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (f32::NEG_INFINITY, 0xfc00),
            (tiny, 1),
            (tiny / 2.0, 0),
            (tiny * 1.5, 2),
            (tiny * 1023.6, 0x400),
            (-0.0, 0x8000),
        ] {
            assert_eq!(to_f16(number), bits, "{number}");
        }
        for (number, bits) in [
            (1.0, 0x3f80),
            (257.0, 0x4380),
            (259.0, 0x4382),
            (f32::MAX, 0x7f80),
            (f32::INFINITY, 0x7f80),
        ] {
            assert_eq!(to_bf16(number), bits, "{number}");
        }
    }

    #[test]
    fn numbers_are_whole_small_and_not_all_alike() {
        let numbers = Random::new(7).wholes(4095, 1000);
        assert!(
            numbers
                .iter()
                .all(|n| n.abs() <= 4095.0 && n.fract() == 0.0)
        );
        assert!(numbers.iter().any(|n| *n > 2047.0) && numbers.iter().any(|n| *n < -2047.0));
        assert_ne!(
            numbers,
            Random::new(8).wholes(4095, 1000),
            "7 | 1 is 7, 8 | 1 is 9"
        );
    }
}
