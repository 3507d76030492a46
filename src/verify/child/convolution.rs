//! A convolution and its two gradients by cuDNN, and on the CPU.
#![allow(
    unsafe_code,
    reason = "calls into a C library; each call is checked against NVIDIA's headers"
)]

use std::ffi::{c_int, c_void};
use std::ptr;

use super::call::{Pointer, call};
use super::cudnn::{Cudnn, Handle};
use super::driver::{Buffer, Driver};
use super::numbers::{Random, download, fits, int, upload};
use super::outcome::{Stop, compare_exact};
use crate::verify::protocol::{Precision, StepResult};

/// A task for cuDNN. Padding, stride and dilation are 1, and filters are not flipped.
pub(super) struct Task {
    pub shape: Shape,
    pub direction: Direction,
    pub precision: Precision,
    /// `None` keeps cuDNN's default.
    pub math: Option<c_int>,
    /// The first supported one is used.
    pub algorithms: &'static [c_int],
    /// The largest numbers: in the input or the gradient of the output, and in the other factor.
    pub ranges: (u16, u16),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    pub images: usize,
    pub channels: usize,
    pub height: usize,
    pub width: usize,
    pub filters: usize,
    pub kernel: usize,
}

/// Selects the tensor that is computed from the other two.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Direction {
    Forward,
    /// The gradient of the input.
    BackwardData,
    /// The gradient of the filters.
    BackwardFilter,
}

/// The task of the level `conv`.
pub(super) const SMALL: Task = Task {
    shape: Shape {
        images: 1,
        channels: 3,
        height: 8,
        width: 8,
        filters: 4,
        kernel: 3,
    },
    direction: Direction::Forward,
    precision: Precision::Fp32,
    math: None,
    // IMPLICIT_GEMM needs no workspace and loads less: 24 ms on an H200, against 60 with precomputed indices.
    algorithms: &[0],
    ranges: (4, 3),
};

const _: () = assert!(
    fits(27, SMALL.ranges.0, SMALL.ranges.1, 11),
    "even half precision has every sum"
);

const NCHW: c_int = 0;
const FLOAT: c_int = 0;
const CROSS_CORRELATION: c_int = 1;

impl Shape {
    pub(super) fn input(&self) -> [usize; 4] {
        [self.images, self.channels, self.height, self.width]
    }

    pub(super) fn weights(&self) -> [usize; 4] {
        [self.filters, self.channels, self.kernel, self.kernel]
    }

    pub(super) fn output(&self) -> [usize; 4] {
        [self.images, self.filters, self.height, self.width]
    }

    /// The number of products in each sum.
    pub(super) fn length(&self, direction: Direction) -> usize {
        match direction {
            Direction::Forward => self.channels * self.kernel * self.kernel,
            Direction::BackwardData => self.filters * self.kernel * self.kernel,
            Direction::BackwardFilter => self.images * self.height * self.width,
        }
    }

    /// Calls with the indices in input, weights and output of each product of a convolution.
    fn each_product(&self, mut call: impl FnMut(usize, usize, usize)) {
        let inside =
            |at: usize, k: usize, size: usize| (at + k).checked_sub(1).filter(|at| *at < size);
        let [channels, height, width, kernel] =
            [self.channels, self.height, self.width, self.kernel];
        for output in 0..self.output().iter().product() {
            let (x, y) = (output % width, output / width % height);
            let (filter, image) = (
                output / width / height % self.filters,
                output / width / height / self.filters,
            );
            for (channel, ky) in
                (0..channels).flat_map(|channel| (0..kernel).map(move |ky| (channel, ky)))
            {
                let Some(iy) = inside(y, ky, height) else {
                    continue;
                };
                let input = ((image * channels + channel) * height + iy) * width;
                let weight = ((filter * channels + channel) * kernel + ky) * kernel;
                for kx in 0..kernel {
                    let Some(ix) = inside(x, kx, width) else {
                        continue;
                    };
                    call(input + ix, weight + kx, output);
                }
            }
        }
    }
}

/// Input, weights and output. The computed one holds NaN.
pub(super) struct Numbers {
    pub input: Vec<f32>,
    pub weights: Vec<f32>,
    pub output: Vec<f32>,
    /// In double precision, in which these sums are exact.
    pub expected: Vec<f64>,
}

impl Numbers {
    pub(super) fn new(
        shape: &Shape,
        direction: Direction,
        ranges: (u16, u16),
        seed: u32,
    ) -> Numbers {
        let mut random = Random::new(seed);
        let mut draw = |dims: [usize; 4], of: Direction, range: u16| {
            let count = dims.iter().product();
            if of == direction {
                vec![f32::NAN; count]
            } else {
                random.wholes(range, count)
            }
        };
        let (large, small) = ranges;
        let input = draw(shape.input(), Direction::BackwardData, large);
        let weights = draw(shape.weights(), Direction::BackwardFilter, small);
        let of_output = if direction == Direction::BackwardData {
            large
        } else {
            small
        };
        let output = draw(shape.output(), Direction::Forward, of_output);
        let mut numbers = Numbers {
            input,
            weights,
            output,
            expected: Vec::new(),
        };
        numbers.expected = numbers.compute(shape, direction);
        numbers
    }

    fn compute(&self, shape: &Shape, direction: Direction) -> Vec<f64> {
        let product = |a: f32, b: f32| f64::from(a) * f64::from(b);
        let (input, weights, output) = (&self.input, &self.weights, &self.output);
        let count = match direction {
            Direction::Forward => output.len(),
            Direction::BackwardData => input.len(),
            Direction::BackwardFilter => weights.len(),
        };
        let mut sums = vec![0.0; count];
        shape.each_product(|x, w, y| match direction {
            Direction::Forward => sums[y] += product(input[x], weights[w]),
            Direction::BackwardData => sums[x] += product(output[y], weights[w]),
            Direction::BackwardFilter => sums[w] += product(input[x], output[y]),
        });
        sums
    }
}

/// Runs a task on the default stream, and compares the result with the CPU's.
pub(super) fn run(
    cudnn: &Cudnn<'_>,
    handle: Handle,
    driver: &Driver,
    task: &Task,
    seed: u32,
) -> Result<StepResult, Stop> {
    let Task {
        shape,
        direction,
        precision,
        ..
    } = *task;
    let api = &cudnn.api;
    let numbers = Numbers::new(&shape, direction, task.ranges, seed);
    let input_data = upload(driver, precision, &numbers.input)?;
    let weight_data = upload(driver, precision, &numbers.weights)?;
    let output_data = upload(driver, precision, &numbers.output)?;
    let input = api.make(
        "cudnnCreateTensorDescriptor",
        "cudnnDestroyTensorDescriptor",
    )?;
    let output = api.make(
        "cudnnCreateTensorDescriptor",
        "cudnnDestroyTensorDescriptor",
    )?;
    let weights = api.make(
        "cudnnCreateFilterDescriptor",
        "cudnnDestroyFilterDescriptor",
    )?;
    let convolution = api.make(
        "cudnnCreateConvolutionDescriptor",
        "cudnnDestroyConvolutionDescriptor",
    )?;
    let kind = data_type(precision);
    // SAFETY: the types that cuDNN's headers declare, and the descriptors are of their kinds.
    unsafe {
        for (tensor, dims) in [(&input, shape.input()), (&output, shape.output())] {
            let [n, c, h, w] = dims.map(int);
            call!(
                api, "cudnnSetTensor4dDescriptor", Pointer: tensor.pointer, c_int: NCHW, c_int: kind,
                c_int: n, c_int: c, c_int: h, c_int: w,
            )?;
        }
        let [n, c, h, w] = shape.weights().map(int);
        call!(
            api, "cudnnSetFilter4dDescriptor", Pointer: weights.pointer, c_int: kind, c_int: NCHW,
            c_int: n, c_int: c, c_int: h, c_int: w,
        )?;
        call!(
            api, "cudnnSetConvolution2dDescriptor", Pointer: convolution.pointer, c_int: 1, c_int: 1,
            c_int: 1, c_int: 1, c_int: 1, c_int: 1, c_int: CROSS_CORRELATION, c_int: FLOAT,
        )?;
        if let Some(math) = task.math {
            call!(api, "cudnnSetConvolutionMathType", Pointer: convolution.pointer, c_int: math)?;
        }
    }
    let input = (input.pointer, &input_data);
    let weights = (weights.pointer, &weight_data);
    let output = (output.pointer, &output_data);
    let (names, tensors) = match direction {
        Direction::Forward => (
            (
                "cudnnGetConvolutionForwardWorkspaceSize",
                "cudnnConvolutionForward",
            ),
            [input, weights, output],
        ),
        Direction::BackwardData => (
            (
                "cudnnGetConvolutionBackwardDataWorkspaceSize",
                "cudnnConvolutionBackwardData",
            ),
            [weights, output, input],
        ),
        Direction::BackwardFilter => (
            (
                "cudnnGetConvolutionBackwardFilterWorkspaceSize",
                "cudnnConvolutionBackwardFilter",
            ),
            [input, output, weights],
        ),
    };
    let mut tried = Ok(());
    for algorithm in task.algorithms {
        tried = compute(
            cudnn,
            handle,
            driver,
            convolution.pointer,
            names,
            tensors,
            *algorithm,
        );
        if !matches!(tried, Err(Stop::NotSupported(_))) {
            break;
        }
    }
    tried?;
    let results = download(tensors[2].1, precision, numbers.expected.len())?;
    Ok(compare_exact(
        results,
        numbers.expected,
        shape.length(direction),
    )?)
}

fn compute(
    cudnn: &Cudnn<'_>,
    handle: Handle,
    driver: &Driver,
    convolution: *mut c_void,
    (size_call, call): (&'static str, &'static str),
    [
        (first, first_data),
        (second, second_data),
        (result, result_data),
    ]: [(*mut c_void, &Buffer<'_>); 3],
    algorithm: c_int,
) -> Result<(), Stop> {
    let mut bytes = 0;
    // SAFETY: the types that cuDNN's headers declare; the caller has set all descriptors; writes one size.
    unsafe {
        call!(
            cudnn.api, size_call, Handle: handle, Pointer: first, Pointer: second, Pointer: convolution,
            Pointer: result, c_int: algorithm, *mut usize: &raw mut bytes,
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
            cudnn.api, call, Handle: handle, *const f32: &raw const one,
            Pointer: first, *const c_void: first_data.pointer(),
            Pointer: second, *const c_void: second_data.pointer(),
            Pointer: convolution, c_int: algorithm, Pointer: space, usize: bytes,
            *const f32: &raw const zero, Pointer: result, Pointer: result_data.pointer(),
        )?;
    }
    // Before the workspace is freed.
    Ok(driver.synchronize()?)
}

/// `cudnnDataType_t`
pub(super) fn data_type(precision: Precision) -> c_int {
    match precision {
        Precision::Fp32 | Precision::Tf32 | Precision::None => FLOAT,
        Precision::Fp64 => 1,
        Precision::Fp16 => 2,
        Precision::Bf16 => 9,
    }
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
        let mut numbers = Numbers::new(&SHAPE, Direction::Forward, (4, 3), 7);
        numbers.weights.fill(0.0);
        // The first filter takes the upper left neighbour of channel 0.
        numbers.weights[0] = 2.0;
        let output = numbers.compute(&SHAPE, Direction::Forward);
        let input = |place: usize| 2.0 * f64::from(numbers.input[place]);
        assert_eq!(output[0], 0.0, "padding");
        assert_eq!(output[4 + 1], input(0));
        assert_eq!(output[2 * 4 + 3], input(4 + 2));
        assert_eq!(output[2 * 20 + 4 + 1], input(3 * 20), "the second image");
        assert!(
            output[20..40].iter().all(|value| *value == 0.0),
            "the second filter"
        );
    }

    /// Each gradient is the adjoint of the convolution.
    #[test]
    fn gradients_are_adjoint() {
        let product =
            |a: &[f32], b: &[f64]| a.iter().zip(b).map(|(a, b)| f64::from(*a) * b).sum::<f64>();
        let forward = Numbers::new(&SHAPE, Direction::Forward, (4, 3), 7);
        let gradient = Random::new(5).wholes(3, forward.output.len());
        let numbers = Numbers {
            output: gradient,
            ..forward
        };
        let whole = product(
            &numbers.output,
            &numbers.compute(&SHAPE, Direction::Forward),
        );
        assert_ne!(whole, 0.0);
        assert_eq!(
            whole,
            product(
                &numbers.input,
                &numbers.compute(&SHAPE, Direction::BackwardData)
            )
        );
        assert_eq!(
            whole,
            product(
                &numbers.weights,
                &numbers.compute(&SHAPE, Direction::BackwardFilter)
            )
        );
    }

    #[test]
    fn buffers_for_results_start_as_nan() {
        let numbers = Numbers::new(&SHAPE, Direction::BackwardFilter, (4, 3), 7);
        assert!(numbers.weights.iter().all(|number| number.is_nan()));
        assert!(
            numbers
                .input
                .iter()
                .chain(&numbers.output)
                .all(|number| number.is_finite())
        );
        assert!(numbers.expected.iter().all(|number| number.is_finite()));
    }
}
