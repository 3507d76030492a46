//! The table of the computations of the level `deep`, for every family that a plan may hold.

use super::bench::Run;
use super::convolution::Direction;
use crate::verify::protocol::{Operation, Precision};

mod blas;
mod blas_lt;
mod compiled;
mod convolutions;
mod fourier;
mod nccl;
mod random;
mod solver;
mod sparse;

pub(super) use nccl::all_reduce;

use convolutions::convolve;

const FLOATS: &[Precision] = &[
    Precision::Fp32,
    Precision::Tf32,
    Precision::Fp16,
    Precision::Bf16,
];
const SINGLE: &[Precision] = &[Precision::Fp32];

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
    (Operation::GemmLt, FLOATS, "cublas", blas_lt::run),
    (Operation::FourierTransform, SINGLE, "cufft", fourier::run),
    (Operation::RandomNumbers, SINGLE, "curand", random::run),
    (
        Operation::LinearSystem,
        &[Precision::Fp64, Precision::Fp32],
        "cusolver",
        solver::run,
    ),
    (Operation::SparseProduct, SINGLE, "cusparse", sparse::run),
    (
        Operation::CompiledKernel,
        &[Precision::None],
        "nvrtc",
        compiled::run,
    ),
];
