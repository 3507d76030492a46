//! Numbers of the backend API of cuDNN. Source: cudnn_backend.h of 8.9.7, cudnn_graph.h of 9.10.2 and 9.28.0, which agree.
//! cuDNN never returns them, so an enumeration can hold them all.

/// `cudnnBackendDescriptorType_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Descriptor {
    Pointwise = 0,
    Convolution = 1,
    Engine = 2,
    EngineConfig = 3,
    Heuristics = 4,
    Plan = 5,
    OperationConvolution = 10,
    OperationPointwise = 13,
    Graph = 15,
    VariantPack = 16,
    Tensor = 17,
    Matmul = 18,
    OperationMatmul = 19,
    Reduction = 21,
    OperationReduction = 22,
}

/// `cudnnBackendAttributeName_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Attribute {
    PointwiseMode = 0,
    PointwisePrecision = 1,
    ConvolutionPrecision = 100,
    ConvolutionMode = 101,
    ConvolutionDilations = 102,
    ConvolutionStrides = 103,
    ConvolutionPostPaddings = 104,
    ConvolutionPrePaddings = 105,
    ConvolutionSpatialDims = 106,
    HeuristicsMode = 200,
    HeuristicsGraph = 201,
    HeuristicsResults = 202,
    ConfigEngine = 300,
    PlanHandle = 400,
    PlanConfig = 401,
    PlanWorkspace = 402,
    OperationConvolutionAlpha = 700,
    OperationConvolutionBeta = 701,
    OperationConvolution = 702,
    OperationConvolutionW = 703,
    OperationConvolutionX = 704,
    OperationConvolutionY = 705,
    OperationPointwise = 750,
    OperationPointwiseX = 751,
    OperationPointwiseB = 752,
    OperationPointwiseY = 753,
    GraphHandle = 800,
    GraphOperations = 801,
    TensorAlignment = 900,
    TensorType = 901,
    TensorDimensions = 902,
    TensorStrides = 903,
    TensorId = 906,
    TensorIsVirtual = 907,
    TensorIsByValue = 908,
    PackIds = 1000,
    PackPointers = 1001,
    PackWorkspace = 1003,
    EngineNumericalNote = 1303,
    MatmulPrecision = 1500,
    OperationMatmulA = 1520,
    OperationMatmulB = 1521,
    OperationMatmulC = 1522,
    OperationMatmul = 1523,
    ReductionOperator = 1600,
    ReductionPrecision = 1601,
    OperationReductionX = 1610,
    OperationReductionY = 1611,
    OperationReduction = 1612,
}

/// `cudnnBackendAttributeType_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum AttributeKind {
    Handle = 0,
    DataType = 1,
    Boolean = 2,
    Int64 = 3,
    Float = 4,
    VoidPtr = 6,
    ConvolutionMode = 7,
    HeuristicsMode = 8,
    NumericalNote = 11,
    PointwiseMode = 14,
    Descriptor = 15,
    ReductionOperator = 18,
}
