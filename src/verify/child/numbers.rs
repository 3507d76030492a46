//! Random numbers whose sums are exact, and the comparison of results.

use super::call::CallFailure;
use crate::verify::protocol::StepResult;

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

    /// Whole numbers from `-range` to `range`.
    pub(super) fn wholes(&mut self, range: u16, count: usize) -> Vec<f32> {
        let mut numbers = Vec::with_capacity(count);
        for _ in 0..count {
            let number = i64::from(self.next() % (2 * u32::from(range) + 1)) - i64::from(range);
            numbers.push(f32::from(i16::try_from(number).unwrap_or(0)));
        }
        numbers
    }
}

/// True if `float` has every sum of `length` products of whole numbers up to `a` and `b`, in any order of the additions.
pub(super) const fn fits(length: usize, a: u16, b: u16) -> bool {
    length as u64 * a as u64 * b as u64 <= 1 << f32::MANTISSA_DIGITS
}

/// Compares numbers that must be right to the last bit. NaN is always wrong.
pub(super) fn compare<T: Into<f64>>(
    results: Vec<T>,
    expected: impl IntoIterator<Item = f64>,
) -> Result<StepResult, CallFailure> {
    for (element, (result, expected)) in results.into_iter().zip(expected).enumerate() {
        let error = (result.into() - expected).abs();
        if error != 0.0 {
            let largest_error = error.is_finite().then_some(error);
            return Err(CallFailure::Numbers {
                largest_error,
                element,
            });
        }
    }
    Ok(StepResult::Right)
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
            fits(1 << 20, 4, 4),
            "2^24 is the last of the whole numbers that `float` has all of"
        );
        assert!(!fits((1 << 20) + 1, 4, 4));
        assert!(!fits(1 << 24, 2, 1));
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
