//! A convolution by cuDNN, and on the CPU.
#![allow(
    unsafe_code,
    reason = "calls into a C library; each call is checked against NVIDIA's headers"
)]

use std::ffi::{c_int, c_void};
use std::ptr;

use super::call::{Api, CallFailure, Pointer, call};
use super::driver::{Buffer, Driver};
use super::numbers::{Random, compare, fits, int};
use crate::verify::protocol::StepResult;

/// The sizes of a convolution. Padding, stride and dilation are 1, and filters are not flipped.
struct Shape {
    images: usize,
    channels: usize,
    height: usize,
    width: usize,
    filters: usize,
    kernel: usize,
}

const SMALL: Shape = Shape {
    images: 1,
    channels: 3,
    height: 8,
    width: 8,
    filters: 4,
    kernel: 3,
};
/// The largest numbers in the input and in the filters.
const RANGES: (u16, u16) = (4, 3);
const _: () = assert!(fits(27, RANGES.0, RANGES.1));

/// IMPLICIT_GEMM needs no workspace and loads less: 24 ms on an H200, against 60 with precomputed indices.
const ALGORITHM: c_int = 0;
const NCHW: c_int = 0;
const FLOAT: c_int = 0;
const CROSS_CORRELATION: c_int = 1;

impl Shape {
    fn input(&self) -> [usize; 4] {
        [self.images, self.channels, self.height, self.width]
    }

    fn weights(&self) -> [usize; 4] {
        [self.filters, self.channels, self.kernel, self.kernel]
    }

    fn output(&self) -> [usize; 4] {
        [self.images, self.filters, self.height, self.width]
    }

    /// Calls with the indices in input, weights and output of each product of a convolution.
    fn each_product(&self, mut call: impl FnMut(usize, usize, usize)) {
        let [channels, height, width, kernel] =
            [self.channels, self.height, self.width, self.kernel];
        for output in 0..self.output().iter().product() {
            let (x, y) = (output % width, output / width % height);
            let plane = output / width / height;
            let (filter, image) = (plane % self.filters, plane / self.filters);
            for channel in 0..channels {
                for ky in 0..kernel {
                    let Some(iy) = input_index(y, ky, height) else {
                        continue;
                    };
                    let input = ((image * channels + channel) * height + iy) * width;
                    let weight = ((filter * channels + channel) * kernel + ky) * kernel;
                    for kx in 0..kernel {
                        if let Some(ix) = input_index(x, kx, width) {
                            call(input + ix, weight + kx, output);
                        }
                    }
                }
            }
        }
    }
}

/// Where a weight of the kernel meets the input, along one axis. None in the padding.
fn input_index(output: usize, weight: usize, size: usize) -> Option<usize> {
    (output + weight)
        .checked_sub(1)
        .filter(|index| *index < size)
}

/// The factors of a convolution.
struct Numbers {
    input: Vec<f32>,
    weights: Vec<f32>,
}

impl Numbers {
    fn new(shape: &Shape, seed: u32) -> Numbers {
        let mut random = Random::new(seed);
        Numbers {
            input: random.wholes(RANGES.0, shape.input().iter().product()),
            weights: random.wholes(RANGES.1, shape.weights().iter().product()),
        }
    }

    /// In double precision, in which these sums are exact.
    fn compute(&self, shape: &Shape) -> Vec<f64> {
        let mut sums = vec![0.0; shape.output().iter().product()];
        shape.each_product(|x, w, y| {
            sums[y] += f64::from(self.input[x]) * f64::from(self.weights[w]);
        });
        sums
    }
}

/// Convolves on the default stream, and compares the result with the CPU's.
pub(super) fn run(
    api: &Api<'_>,
    handle: Pointer,
    driver: &Driver,
    seed: u32,
) -> Result<StepResult, CallFailure> {
    let shape = SMALL;
    let numbers = Numbers::new(&shape, seed);
    let expected = numbers.compute(&shape);
    let input_data = driver.upload(&numbers.input)?;
    let weight_data = driver.upload(&numbers.weights)?;
    let output_data = driver.upload(&vec![f32::NAN; expected.len()])?;
    let input = api.make("cudnnCreateTensorDescriptor")?;
    let output = api.make("cudnnCreateTensorDescriptor")?;
    let weights = api.make("cudnnCreateFilterDescriptor")?;
    let convolution = api.make("cudnnCreateConvolutionDescriptor")?;
    let mut bytes = 0;
    // SAFETY: the types that cuDNN's headers declare, and the descriptors are of their kinds; the last writes one size.
    unsafe {
        for (tensor, dims) in [(input, shape.input()), (output, shape.output())] {
            let [n, c, h, w] = dims.map(int);
            call!(
                api, "cudnnSetTensor4dDescriptor", Pointer: tensor, c_int: NCHW, c_int: FLOAT,
                c_int: n, c_int: c, c_int: h, c_int: w,
            )?;
        }
        let [n, c, h, w] = shape.weights().map(int);
        call!(
            api, "cudnnSetFilter4dDescriptor", Pointer: weights, c_int: FLOAT, c_int: NCHW,
            c_int: n, c_int: c, c_int: h, c_int: w,
        )?;
        call!(
            api, "cudnnSetConvolution2dDescriptor", Pointer: convolution, c_int: 1, c_int: 1,
            c_int: 1, c_int: 1, c_int: 1, c_int: 1, c_int: CROSS_CORRELATION, c_int: FLOAT,
        )?;
        call!(
            api, "cudnnGetConvolutionForwardWorkspaceSize", Pointer: handle, Pointer: input,
            Pointer: weights, Pointer: convolution, Pointer: output,
            c_int: ALGORITHM, *mut usize: &raw mut bytes,
        )?;
    }
    let workspace = if bytes == 0 {
        None
    } else {
        Some(driver.allocate(bytes)?)
    };
    let space = workspace.as_ref().map_or(ptr::null_mut(), Buffer::pointer);
    let (one, zero) = (1.0_f32, 0.0_f32);
    // SAFETY: as above; the buffers hold what the descriptors say, are distinct, and live in the current context.
    unsafe {
        call!(
            api, "cudnnConvolutionForward", Pointer: handle, *const f32: &raw const one,
            Pointer: input, *const c_void: input_data.pointer(),
            Pointer: weights, *const c_void: weight_data.pointer(),
            Pointer: convolution, c_int: ALGORITHM, Pointer: space, usize: bytes,
            *const f32: &raw const zero, Pointer: output, Pointer: output_data.pointer(),
        )?;
    }
    // Waits for the GPU, before the workspace is freed.
    compare(output_data.download::<f32>(expected.len())?, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape {
        images: 2,
        channels: 3,
        height: 5,
        width: 4,
        filters: 2,
        kernel: 3,
    };

    #[test]
    fn a_filter_with_one_weight_shifts_the_input() {
        let mut numbers = Numbers::new(&SHAPE, 7);
        numbers.weights.fill(0.0);
        // The first filter takes the upper left neighbour of channel 0.
        numbers.weights[0] = 2.0;
        let output = numbers.compute(&SHAPE);
        let input: Vec<f64> = numbers.input.iter().copied().map(f64::from).collect();
        assert_eq!(output[0], 0.0, "padding");
        assert_eq!(output[4 + 1], 2.0 * input[0]);
        assert_eq!(output[2 * 4 + 3], 2.0 * input[4 + 2]);
        assert_eq!(
            output[2 * 20 + 4 + 1],
            2.0 * input[3 * 20],
            "the second image"
        );
        assert!(
            output[20..40].iter().all(|value| *value == 0.0),
            "the second filter"
        );
    }
}
