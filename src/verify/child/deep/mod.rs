//! What the level `deep` computes, a row each: of every family that a plan may hold, what programs ask it for.

use super::bench::{Bench, Loaded, Row, Tried};
use crate::verify::protocol::{Operation, Precision};

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

type Run = fn(&Bench<'_>, &Loaded, Precision) -> Tried;

const fn row(operation: Operation, precision: Precision, family: &'static str, run: Run) -> Row {
    Row { operation, precision, family, run }
}

/// In the order in which it is tried on each GPU.
pub(super) const TABLE: &[Row] = &[
    row(Operation::Convolution, Precision::Fp32, "cudnn", convolutions::forward),
    row(Operation::Convolution, Precision::Tf32, "cudnn", convolutions::forward),
    row(Operation::Convolution, Precision::Fp16, "cudnn", convolutions::forward),
    row(Operation::Convolution, Precision::Bf16, "cudnn", convolutions::forward),
    row(Operation::ConvolutionBackwardData, Precision::Fp32, "cudnn", convolutions::backward_data),
    row(Operation::ConvolutionBackwardData, Precision::Tf32, "cudnn", convolutions::backward_data),
    row(Operation::ConvolutionBackwardData, Precision::Fp16, "cudnn", convolutions::backward_data),
    row(Operation::ConvolutionBackwardData, Precision::Bf16, "cudnn", convolutions::backward_data),
    row(Operation::ConvolutionBackwardFilter, Precision::Fp32, "cudnn", convolutions::backward_filter),
    row(Operation::ConvolutionBackwardFilter, Precision::Tf32, "cudnn", convolutions::backward_filter),
    row(Operation::ConvolutionBackwardFilter, Precision::Fp16, "cudnn", convolutions::backward_filter),
    row(Operation::ConvolutionBackwardFilter, Precision::Bf16, "cudnn", convolutions::backward_filter),
    row(Operation::FusedGraph, Precision::Fp16, "cudnn", fused::run),
    row(Operation::FusedGraph, Precision::Bf16, "cudnn", fused::run),
    row(Operation::Attention, Precision::Fp16, "cudnn", attention::run),
    row(Operation::Attention, Precision::Bf16, "cudnn", attention::run),
    row(Operation::Gemm, Precision::Fp32, "cublas", blas::run),
    row(Operation::Gemm, Precision::Tf32, "cublas", blas::run),
    row(Operation::Gemm, Precision::Fp16, "cublas", blas::run),
    row(Operation::Gemm, Precision::Bf16, "cublas", blas::run),
    row(Operation::GemmLt, Precision::Fp32, "cublas", blas_lt::run),
    row(Operation::GemmLt, Precision::Tf32, "cublas", blas_lt::run),
    row(Operation::GemmLt, Precision::Fp16, "cublas", blas_lt::run),
    row(Operation::GemmLt, Precision::Bf16, "cublas", blas_lt::run),
    row(Operation::FourierTransform, Precision::Fp32, "cufft", fourier::run),
    row(Operation::RandomNumbers, Precision::Fp32, "curand", random::run),
    row(Operation::LinearSystem, Precision::Fp64, "cusolver", solver::run),
    row(Operation::LinearSystem, Precision::Fp32, "cusolver", solver::run),
    row(Operation::SparseProduct, Precision::Fp32, "cusparse", sparse::run),
    row(Operation::CompiledKernel, Precision::None, "nvrtc", compiled::run),
];
