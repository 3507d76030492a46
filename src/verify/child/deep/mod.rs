//! The table of the computations of the level `deep`, for every family that a plan may hold.

use super::bench::{Bench, Loaded, Row};
use super::outcome::Stop;
use crate::verify::protocol::{Came, Operation, Precision};

mod attention;
mod backend;
mod blas;
mod blas_lt;
mod compiled;
mod convolutions;
mod fourier;
mod fused;
mod names;
mod nccl;
mod random;
mod solver;
mod sparse;

pub(super) use nccl::all_reduce;

const HALVES: &[Precision] = &[Precision::Fp16, Precision::Bf16];
const FLOATS: &[Precision] = &[Precision::Fp32, Precision::Tf32, Precision::Fp16, Precision::Bf16];
const SINGLE: &[Precision] = &[Precision::Fp32];

type Run = fn(&Bench<'_>, &Loaded, Precision) -> Result<Came, Stop>;

const fn row(operation: Operation, precisions: &'static [Precision], family: &'static str, run: Run) -> Row {
    Row { operation, precisions, family, run }
}

/// In the order of the computations on each GPU.
pub(super) const TABLE: &[Row] = &[
    row(Operation::Convolution, FLOATS, "cudnn", convolutions::forward),
    row(Operation::ConvolutionBackwardData, FLOATS, "cudnn", convolutions::backward_data),
    row(Operation::ConvolutionBackwardFilter, FLOATS, "cudnn", convolutions::backward_filter),
    row(Operation::FusedGraph, HALVES, "cudnn", fused::run),
    row(Operation::Attention, HALVES, "cudnn", attention::run),
    row(Operation::Gemm, FLOATS, "cublas", blas::run),
    row(Operation::GemmLt, FLOATS, "cublas", blas_lt::run),
    row(Operation::FourierTransform, SINGLE, "cufft", fourier::run),
    row(Operation::RandomNumbers, SINGLE, "curand", random::run),
    row(Operation::LinearSystem, &[Precision::Fp64, Precision::Fp32], "cusolver", solver::run),
    row(Operation::SparseProduct, SINGLE, "cusparse", sparse::run),
    row(Operation::CompiledKernel, &[Precision::None], "nvrtc", compiled::run),
];
