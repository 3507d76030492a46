//! A convolution, a bias and a ReLU as one graph, which cuDNN runs as one kernel.

use std::ffi::c_int;

use super::backend::{Graph, Pointwise, Storage, Tensor};
use super::convolutions::{SHAPE, handle};
use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::convolution::{Direction, Numbers};
use crate::verify::child::cudnn::Cudnn;
use crate::verify::child::numbers::{Random, blank, download, ranges, upload};
use crate::verify::child::outcome::{Stop, compare_exact};
use crate::verify::protocol::{Operation, Precision, StepResult};

/// The products of one sum, and the bias.
const LENGTH: usize = SHAPE.channels * SHAPE.kernel * SHAPE.kernel + 1;

/// Heuristics, then the fallback. Before 8.4 there was one kind.
const MODES: &[c_int] = &[3, 2];
const MODES_BEFORE_84: &[c_int] = &[0];

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let cudnn = Cudnn::new(loaded.library).map_err(Stop::Absent)?;
    if cudnn.version() < 8100 {
        return Err(Stop::Absent("cudnnBackendExecute"));
    }
    if precision == Precision::Bf16 {
        bench.needs((8, 0), "cudnnBackendExecute")?;
    }
    let handle = handle(&cudnn)?;
    let mut graph = Graph::new(&cudnn.api, handle.pointer);
    let [x, w, bias, y] = describe(&mut graph, precision)?;
    let data = Data::new(bench.seed_of(Operation::FusedGraph, precision), precision);
    let driver = bench.driver;
    let input = upload(
        driver,
        precision,
        &to_channels_last(&data.numbers.input, SHAPE.input()),
    )?;
    let weights = upload(
        driver,
        precision,
        &to_channels_last(&data.numbers.weights, SHAPE.weights()),
    )?;
    let bias_data = upload(driver, precision, &data.bias)?;
    let output = blank(driver, precision, data.expected.len())?;
    let modes = if cudnn.version() < 8400 {
        MODES_BEFORE_84
    } else {
        MODES
    };
    let tensors = [
        (x, input.pointer()),
        (w, weights.pointer()),
        (bias, bias_data.pointer()),
        (y, output.pointer()),
    ];
    graph.run(driver, modes, &tensors)?;
    let results = download(&output, precision, data.expected.len())?;
    let expected = to_channels_last(&data.expected, SHAPE.output());
    Ok(compare_exact(results, expected, LENGTH)?)
}

/// Input, weights, bias and output.
fn describe(graph: &mut Graph<'_>, precision: Precision) -> Result<[Tensor; 4], Stop> {
    let (output_dims, bias_dims) = (SHAPE.output(), [1, SHAPE.filters, 1, 1]);
    let mut tensor = |precision, dims, storage| {
        let (dims, strides) = channels_last(dims);
        graph.tensor(precision, dims, strides, storage)
    };
    let x = tensor(precision, SHAPE.input(), Storage::Device)?;
    let w = tensor(precision, SHAPE.weights(), Storage::Device)?;
    let bias = tensor(precision, bias_dims, Storage::Device)?;
    let convolved = tensor(Precision::Fp32, output_dims, Storage::Virtual)?;
    let biased = tensor(Precision::Fp32, output_dims, Storage::Virtual)?;
    let y = tensor(precision, output_dims, Storage::Device)?;
    graph.convolution(x, w, convolved)?;
    graph.pointwise(Pointwise::Add, convolved, Some(bias), biased)?;
    graph.pointwise(Pointwise::Relu, biased, None, y)?;
    Ok([x, w, bias, y])
}

struct Data {
    numbers: Numbers,
    bias: Vec<f32>,
    expected: Vec<f64>,
}

impl Data {
    fn new(seed: u32, precision: Precision) -> Data {
        let ranges = ranges(precision, LENGTH);
        let numbers = Numbers::new(&SHAPE, Direction::Forward, ranges, seed);
        let bias = Random::new(!seed).wholes(ranges.0, SHAPE.filters);
        let area = SHAPE.height * SHAPE.width;
        let biased = |(at, sum): (usize, &f64)| sum + f64::from(bias[at / area % SHAPE.filters]);
        let expected = numbers
            .expected
            .iter()
            .enumerate()
            .map(biased)
            .map(|sum| sum.max(0.0))
            .collect();
        Data {
            numbers,
            bias,
            expected,
        }
    }
}

/// Dimensions and strides of a tensor in NHWC order, which engines of graphs need.
fn channels_last(dims: [usize; 4]) -> ([i64; 4], [i64; 4]) {
    let dims = dims.map(|size| i64::try_from(size).unwrap_or(0));
    let [_, channels, height, width] = dims;
    (
        dims,
        [height * width * channels, 1, width * channels, channels],
    )
}

fn to_channels_last<T: Copy>(numbers: &[T], [_, channels, height, width]: [usize; 4]) -> Vec<T> {
    let area = height * width;
    let number = |at: usize| {
        let (image, place, channel) = (at / channels / area, at / channels % area, at % channels);
        numbers[(image * channels + channel) * area + place]
    };
    (0..numbers.len()).map(number).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify::child::numbers::{fits, sum_bits};

    #[test]
    fn channels_come_last() {
        let numbers: Vec<usize> = (0..24).collect();
        let moved = to_channels_last(&numbers, [2, 3, 2, 2]);
        let (_, [image, channel, row, column]) = channels_last([2, 3, 2, 2]);
        for (at, number) in numbers.iter().enumerate() {
            let (n, c, y, x) = (at / 12, at / 4 % 3, at / 2 % 2, at % 2);
            let at = [n, c, y, x].into_iter().zip([image, channel, row, column]);
            let place = at
                .map(|(at, stride)| at * usize::try_from(stride).unwrap())
                .sum::<usize>();
            assert_eq!(moved[place], *number);
        }
    }

    #[test]
    fn sums_are_exact_and_some_are_cut_off() {
        for precision in [Precision::Fp16, Precision::Bf16] {
            let (a, b) = ranges(precision, LENGTH);
            assert!(fits(LENGTH, a, b, sum_bits(precision)));
            let data = Data::new(7, precision);
            let zeros = data
                .expected
                .iter()
                .filter(|number| **number == 0.0)
                .count();
            assert!(
                (data.expected.len() / 4..data.expected.len() * 3 / 4).contains(&zeros),
                "{zeros}"
            );
        }
    }
}
