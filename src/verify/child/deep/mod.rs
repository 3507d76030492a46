//! What the level `deep` does with the libraries of each family, beside cuDNN.

use super::bench::Compute;
use crate::verify::protocol::Computation;

mod blas;
mod compiled;
mod handles;
mod nccl;

pub(super) use handles::HANDLES;
pub(super) use nccl::all_reduce;

/// The computations on each GPU, with the family of the library. A plan without the family skips the row.
pub(super) const COMPUTATIONS: &[(Computation, &str, Compute)] = &[
    (Computation::Gemm, "cublas", blas::run),
    (Computation::CompiledKernel, "nvrtc", compiled::run),
];
