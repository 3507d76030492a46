//! The convolution that the CPU does: what the GPU's has to come out as.

/// Input and filters of small whole numbers, so that every arithmetic that a GPU may use for `float` is
/// exact on them, with the result in double precision. NCHW, padding 1, stride 1, cross-correlation.
pub(super) struct Convolution {
    pub input: Vec<f32>,
    pub filters: Vec<f32>,
    pub expected: Vec<f64>,
}

pub(super) const CHANNELS: usize = 3;
pub(super) const SIDE: usize = 8;
pub(super) const FILTERS: usize = 4;
pub(super) const KERNEL: usize = 3;

/// Sums of 27 products of numbers up to 4 and 3 stay far below 2^11, where even half precision is exact.
const INPUT_RANGE: u32 = 4;
const FILTER_RANGE: u32 = 3;

impl Convolution {
    pub(super) fn new(seed: u32) -> Convolution {
        let mut state = seed | 1;
        let mut draw = |range: u32| {
            // xorshift32: any numbers will do, as long as no two places are alike.
            state ^= state << 13;
            state ^= state >> 17;
            state ^= state << 5;
            let number =
                i16::try_from(state % (2 * range + 1)).unwrap_or(0) - i16::try_from(range).unwrap_or(0);
            f32::from(number)
        };
        let input: Vec<f32> = (0..CHANNELS * SIDE * SIDE).map(|_| draw(INPUT_RANGE)).collect();
        let filters: Vec<f32> =
            (0..FILTERS * CHANNELS * KERNEL * KERNEL).map(|_| draw(FILTER_RANGE)).collect();
        let expected = convolve(&input, &filters);
        Convolution { input, filters, expected }
    }

    /// The largest difference and where it is. What is not a number is infinitely wrong.
    pub(super) fn largest_error(&self, result: &[f32]) -> (f64, usize) {
        let difference = |(index, (got, expected)): (usize, (&f32, &f64))| {
            let difference = (f64::from(*got) - expected).abs();
            (if difference.is_nan() { f64::INFINITY } else { difference }, index)
        };
        let differences = result.iter().zip(&self.expected).enumerate().map(difference);
        differences.fold((0.0, 0), |worst, other| if other.0 > worst.0 { other } else { worst })
    }
}

fn convolve(input: &[f32], filters: &[f32]) -> Vec<f64> {
    let mut output = Vec::with_capacity(FILTERS * SIDE * SIDE);
    for filter in 0..FILTERS {
        for y in 0..SIDE {
            for x in 0..SIDE {
                let mut sum = 0.0;
                for channel in 0..CHANNELS {
                    for (ky, kx) in (0..KERNEL).flat_map(|ky| (0..KERNEL).map(move |kx| (ky, kx))) {
                        let inside = |at: usize, k: usize| (at + k).checked_sub(1).filter(|at| *at < SIDE);
                        let (Some(iy), Some(ix)) = (inside(y, ky), inside(x, kx)) else { continue };
                        let value = input[(channel * SIDE + iy) * SIDE + ix];
                        let weight = filters[((filter * CHANNELS + channel) * KERNEL + ky) * KERNEL + kx];
                        sum += f64::from(value) * f64::from(weight);
                    }
                }
                output.push(sum);
            }
        }
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_filter_with_one_weight_shifts_the_input() {
        let mut filters = vec![0.0; FILTERS * CHANNELS * KERNEL * KERNEL];
        // The first filter takes the upper left neighbour of channel 0.
        filters[0] = 2.0;
        let input: Vec<f32> = (0..CHANNELS * SIDE * SIDE).map(|n| n as f32).collect();
        let output = convolve(&input, &filters);
        assert_eq!(output[0], 0.0, "padding");
        assert_eq!(output[SIDE + 1], 0.0, "input[0] is 0");
        assert_eq!(output[SIDE + 2], 2.0);
        assert_eq!(output[2 * SIDE + 1], 2.0 * SIDE as f64);
        assert!(output[SIDE * SIDE..].iter().all(|value| *value == 0.0));
    }

    #[test]
    fn numbers_are_small_and_not_all_alike() {
        let convolution = Convolution::new(7);
        assert!(convolution.input.iter().all(|n| n.abs() <= 4.0 && n.fract() == 0.0));
        assert!(convolution.filters.iter().all(|n| n.abs() <= 3.0 && n.fract() == 0.0));
        assert!(convolution.expected.iter().any(|n| *n != 0.0));
        assert_ne!(convolution.input, Convolution::new(8).input);
        let exact: Vec<f32> = convolution.expected.iter().map(|n| *n as f32).collect();
        assert_eq!(convolution.largest_error(&exact).0, 0.0);
        let mut wrong = exact.clone();
        wrong[5] += 1.0;
        assert_eq!(convolution.largest_error(&wrong), (1.0, 5));
        wrong[9] = f32::NAN;
        assert_eq!(convolution.largest_error(&wrong), (f64::INFINITY, 9));
    }
}
