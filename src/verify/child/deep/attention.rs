//! Attention as one graph, softmax(scale Q K^T) V, of the operations that cuDNN's own frontend uses.

use super::backend::{Graph, Pointwise, Reduction, Storage, Tensor};
use super::convolutions::handle;
use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::cudnn::Cudnn;
use crate::verify::child::numbers::{Random, blank, download, unit_roundoff, upload};
use crate::verify::child::outcome::{Stop, compare};
use crate::verify::protocol::{Operation, Precision, StepResult};

const HEADS: usize = 2;
/// The number of queries, keys and values.
const LENGTH: usize = 128;
/// The size of one query, key or value.
const SIZE: usize = 64;
/// With this scale few keys dominate a result, which is then about as large as a value.
const SCALE: f32 = 0.5;

/// Only these heuristics know attention.
const MODES: &[i32] = &[3];

pub(super) fn run(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
) -> Result<StepResult, Stop> {
    let cudnn = Cudnn::new(loaded.library).map_err(Stop::Absent)?;
    if cudnn.version() < 90000 {
        return Err(Stop::Absent("cudnnBackendExecute"));
    }
    bench.needs((8, 0), "cudnnBackendExecute")?;
    let handle = handle(&cudnn)?;
    let mut graph = Graph::new(&cudnn.api, handle.pointer);
    let [q, k, v, scale, o] = describe(&mut graph, precision)?;
    let attention = Attention::new(bench.seed_of(Operation::Attention, precision));
    let driver = bench.driver;
    let queries = upload(driver, precision, &attention.queries)?;
    let keys = upload(driver, precision, &attention.keys)?;
    let values = upload(driver, precision, &attention.values)?;
    let output = blank(driver, precision, attention.values.len())?;
    let mut factor = SCALE;
    let tensors = [
        (q, queries.pointer()),
        (k, keys.pointer()),
        (v, values.pointer()),
        (scale, (&raw mut factor).cast()),
        (o, output.pointer()),
    ];
    graph.run(driver, MODES, &tensors)?;
    let results = download(&output, precision, attention.values.len())?;
    let expected = attention.compute();
    let bound = |size: f64| error_bound(precision, size);
    let pairs = results.into_iter().zip(expected);
    Ok(compare(
        pairs.map(|(got, (expected, size))| (got, expected, bound(size))),
        LENGTH,
    )?)
}

/// Queries, keys, values, the scale and the result.
fn describe(graph: &mut Graph<'_>, precision: Precision) -> Result<[Tensor; 5], Stop> {
    let [heads, length, size] = [HEADS, LENGTH, SIZE].map(|size| i64::try_from(size).unwrap_or(0));
    let (dims, strides) = (
        [1, heads, length, size],
        [heads * length * size, length * size, size, 1],
    );
    let (transposed_dims, transposed_strides) = (
        [1, heads, size, length],
        [heads * length * size, length * size, 1, size],
    );
    let (score_dims, score_strides) = (
        [1, heads, length, length],
        [heads * length * length, length * length, length, 1],
    );
    let (row_dims, row_strides) = ([1, heads, length, 1], [heads * length, length, 1, 1]);
    let q = graph.tensor(precision, dims, strides, Storage::Device)?;
    let k = graph.tensor(
        precision,
        transposed_dims,
        transposed_strides,
        Storage::Device,
    )?;
    let v = graph.tensor(precision, dims, strides, Storage::Device)?;
    let scale = graph.tensor(Precision::Fp32, [1; 4], [1; 4], Storage::Value)?;
    let mut scores =
        |precision| graph.tensor(precision, score_dims, score_strides, Storage::Virtual);
    let (products, scaled) = (scores(Precision::Fp32)?, scores(Precision::Fp32)?);
    let (shifted, powers) = (scores(Precision::Fp32)?, scores(Precision::Fp32)?);
    let weights = scores(precision)?;
    let mut row = || graph.tensor(Precision::Fp32, row_dims, row_strides, Storage::Virtual);
    let (largest, sum, logarithm, total) = (row()?, row()?, row()?, row()?);
    let o = graph.tensor(precision, dims, strides, Storage::Device)?;
    graph.matmul(q, k, products)?;
    graph.pointwise(Pointwise::Multiply, products, Some(scale), scaled)?;
    graph.reduction(Reduction::Max, scaled, largest)?;
    graph.pointwise(Pointwise::Subtract, scaled, Some(largest), shifted)?;
    graph.pointwise(Pointwise::Exp, shifted, None, powers)?;
    graph.reduction(Reduction::Sum, powers, sum)?;
    // Only a gradient needs these two, but engines recognize attention by them.
    graph.pointwise(Pointwise::Log, sum, None, logarithm)?;
    graph.pointwise(Pointwise::Add, largest, Some(logarithm), total)?;
    graph.pointwise(Pointwise::Divide, powers, Some(sum), weights)?;
    graph.matmul(weights, v, o)?;
    Ok([q, k, v, scale, o])
}

/// The weights and the result are rounded to the type of the values, each by at most one rounding of the weighted sizes
/// of the values. A third rounding covers the work in `float` and weights too small for so many bits. Values differ by a
/// fifth of their sizes and more.
fn error_bound(precision: Precision, size: f64) -> f64 {
    3.0 * unit_roundoff(precision) * size
}

/// Numbers that both types represent exactly.
struct Attention {
    queries: Vec<f32>,
    keys: Vec<f32>,
    values: Vec<f32>,
}

impl Attention {
    fn new(seed: u32) -> Attention {
        let mut random = Random::new(seed);
        let mut draw = |range: u16, unit: f32| {
            let numbers = random.wholes(range, HEADS * LENGTH * SIZE);
            numbers.into_iter().map(|number| number * unit).collect()
        };
        Attention {
            queries: draw(4, 0.25),
            keys: draw(4, 0.25),
            values: draw(32, 0.0625),
        }
    }

    /// Each result, and the sum of the absolute values of its summands.
    fn compute(&self) -> Vec<(f64, f64)> {
        let vector = |of: &[f32], head: usize, at: usize| {
            let first = (head * LENGTH + at) * SIZE;
            of[first..first + SIZE]
                .iter()
                .map(|number| f64::from(*number))
                .collect::<Vec<f64>>()
        };
        let mut results = Vec::with_capacity(HEADS * LENGTH * SIZE);
        for head in 0..HEADS {
            let keys: Vec<Vec<f64>> = (0..LENGTH).map(|at| vector(&self.keys, head, at)).collect();
            let values: Vec<Vec<f64>> = (0..LENGTH)
                .map(|at| vector(&self.values, head, at))
                .collect();
            for at in 0..LENGTH {
                let weights = softmax(&vector(&self.queries, head, at), &keys);
                results.extend((0..SIZE).map(|place| {
                    let products = weights
                        .iter()
                        .zip(&values)
                        .map(|(weight, value)| weight * value[place]);
                    products.fold((0.0, 0.0), |(sum, size), product| {
                        (sum + product, size + product.abs())
                    })
                }));
            }
        }
        results
    }
}

fn softmax(query: &[f64], keys: &[Vec<f64>]) -> Vec<f64> {
    let score =
        |key: &Vec<f64>| f64::from(SCALE) * query.iter().zip(key).map(|(q, k)| q * k).sum::<f64>();
    let scores: Vec<f64> = keys.iter().map(score).collect();
    let largest = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let powers: Vec<f64> = scores
        .iter()
        .map(|score| libm::exp(score - largest))
        .collect();
    let sum: f64 = powers.iter().sum();
    powers.into_iter().map(|power| power / sum).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_add_up_and_the_nearest_key_counts_most() {
        let keys = [vec![1.0, 0.0], vec![0.0, 4.0], vec![3.0, 0.0]];
        let weights = softmax(&[2.0, 0.0], &keys);
        assert!((weights.iter().sum::<f64>() - 1.0).abs() < 1e-12);
        assert!(
            (weights[2] / weights[0] - 2.0_f64.exp()).abs() < 1e-9,
            "{weights:?}"
        );
        assert!(weights[1] < weights[0]);
    }

    /// The bound detects almost every swapped or missing result.
    #[test]
    fn the_bound_lets_few_wrong_numbers_through() {
        let results = Attention::new(7).compute();
        let is_let_through = |wrong: f64, at: usize| {
            let (expected, size) = results[at];
            (wrong - expected).abs() <= error_bound(Precision::Bf16, size)
        };
        let count = results.len() - 1;
        let swapped = (0..count)
            .filter(|at| is_let_through(results[at + 1].0, *at))
            .count();
        let zeros = (0..count).filter(|at| is_let_through(0.0, *at)).count();
        assert!(
            swapped * 30 < count && zeros * 30 < count,
            "{swapped} and {zeros} of {count}"
        );
    }
}
