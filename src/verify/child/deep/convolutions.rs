//! Convolutions and their gradients by cuDNN in every precision that frameworks use.

use std::ffi::c_int;

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::convolution::{Direction, Shape, Task, run};
use crate::verify::child::cudnn::Cudnn;
use crate::verify::child::numbers::ranges;
use crate::verify::child::outcome::Stop;
use crate::verify::protocol::{Operation, Precision, StepResult};

/// All sizes differ, so that a swap shows. Channels and filters are multiples of 8 for tensor cores. The longest sum has
/// 216 products, few enough for bfloat16.
const SHAPE: Shape = Shape {
    images: 2,
    channels: 16,
    height: 7,
    width: 9,
    filters: 24,
    kernel: 3,
};
/// For numbers of 32 bits. If cuDNN 9.19 may use TF32, it does so with this shape on an H200 in all three directions. With
/// 16 channels it uses `float` in two directions, and with 7 x 9 places in one.
const WIDE: Shape = Shape {
    channels: 64,
    height: 8,
    width: 8,
    filters: 64,
    ..SHAPE
};

const DEFAULT_MATH: c_int = 0;
const TENSOR_OP_MATH: c_int = 1;
const FMA_MATH: c_int = 3;

pub(super) fn convolve(
    bench: &Bench<'_>,
    loaded: &Loaded,
    precision: Precision,
    operation: Operation,
    direction: Direction,
) -> Result<StepResult, Stop> {
    let cudnn = Cudnn::new(loaded.library).map_err(Stop::Absent)?;
    let version = cudnn.version();
    match precision {
        Precision::Tf32 if version < 8000 => return Err(Stop::Absent("CUDNN_FMA_MATH")),
        Precision::Bf16 if version < 8100 => return Err(Stop::Absent("CUDNN_DATA_BFLOAT16")),
        Precision::Tf32 | Precision::Bf16 => bench.needs((8, 0), "cudnnSetConvolutionMathType")?,
        _ => {}
    }
    let math = match precision {
        Precision::Fp16 | Precision::Bf16 => Some(TENSOR_OP_MATH),
        Precision::Fp32 if version >= 8000 => Some(FMA_MATH),
        _ => Some(DEFAULT_MATH),
    };
    let shape = shape(precision);
    let ranges = ranges(precision, shape.length(direction));
    // Products of matrices, which are exact, unlike Winograd's algorithm: 1 with precomputed indices or deterministic,
    // then 0.
    let task = Task {
        shape,
        direction,
        precision,
        math,
        algorithms: &[1, 0],
        ranges,
    };
    let handle = cudnn.api.make("cudnnCreate", "cudnnDestroy")?;
    run(
        &cudnn,
        handle.pointer,
        bench.driver,
        &task,
        bench.seed_of(operation, precision),
    )
}

fn shape(precision: Precision) -> Shape {
    if matches!(precision, Precision::Fp16 | Precision::Bf16) {
        SHAPE
    } else {
        WIDE
    }
}
