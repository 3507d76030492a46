//! The computations of the level `deep`, and the handles that it makes.

use super::bench::Run;
use super::convolution::Direction;
use crate::verify::protocol::{Operation, Precision};

mod blas;
mod compiled;
mod convolutions;
mod handles;
mod nccl;

pub(super) use handles::HANDLES;
pub(super) use nccl::all_reduce;

use convolutions::convolve;

const FLOATS: &[Precision] = &[
    Precision::Fp32,
    Precision::Tf32,
    Precision::Fp16,
    Precision::Bf16,
];

/// An operation, its precisions, and the family of its library, in the order of the computations on each GPU. A plan without
/// the family skips the row.
pub(super) const TABLE: &[(Operation, &[Precision], &str, Run)] = &[
    (
        Operation::Convolution,
        FLOATS,
        "cudnn",
        |bench, loaded, precision| {
            convolve(
                bench,
                loaded,
                precision,
                Operation::Convolution,
                Direction::Forward,
            )
        },
    ),
    (
        Operation::ConvolutionBackwardData,
        FLOATS,
        "cudnn",
        |bench, loaded, precision| {
            convolve(
                bench,
                loaded,
                precision,
                Operation::ConvolutionBackwardData,
                Direction::BackwardData,
            )
        },
    ),
    (
        Operation::ConvolutionBackwardFilter,
        FLOATS,
        "cudnn",
        |bench, loaded, precision| {
            convolve(
                bench,
                loaded,
                precision,
                Operation::ConvolutionBackwardFilter,
                Direction::BackwardFilter,
            )
        },
    ),
    (Operation::Gemm, FLOATS, "cublas", blas::run),
    (
        Operation::CompiledKernel,
        &[Precision::None],
        "nvrtc",
        compiled::run,
    ),
];
