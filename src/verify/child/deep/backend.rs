//! Graphs of operations by the backend API of cuDNN 8 and 9. Source of the signatures: cudnn_backend.h of 8.9.7,
//! cudnn_graph.h of 9.10.2 and 9.28.0.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::names::{Attribute, Descriptor, Kind};
use crate::verify::child::bench::Refused;
use crate::verify::child::call::{Api, Held, Stop};
use crate::verify::child::convolution::data_type;
use crate::verify::child::cudnn::Handle;
use crate::verify::child::driver::{Buffer, Driver};
use crate::verify::protocol::Precision;

const CROSS_CORRELATION: c_int = 1;
/// Of every address, in bytes; those that the driver gives are aligned to 256.
const ALIGNMENT: i64 = 16;
/// More are not tried.
const MOST_CONFIGS: usize = 16;
/// `cudnnBackendNumericalNote_t`: by Fourier transforms, and by Winograd's with tiles of several sizes. Both round where
/// sums of whole numbers do not.
const INEXACT: [c_int; 5] = [3, 5, 6, 7, 8];

/// `cudnnPointwiseMode_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Pointwise {
    Add = 0,
    Multiply = 1,
    Divide = 6,
    Subtract = 9,
    Exp = 13,
    Log = 15,
    Relu = 100,
}

/// `cudnnReduceTensorOp_t`
#[derive(Clone, Copy)]
#[repr(i32)]
pub(super) enum Reduction {
    Sum = 0,
    Max = 3,
}

/// How a tensor comes to its numbers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Storage {
    /// In memory of the GPU.
    Device,
    /// On the way from one operation to the next.
    Virtual,
    /// In memory of the host, a single number.
    Value,
}

/// What an attribute is set to.
enum Value<'v> {
    /// One of an enumeration of cuDNN's.
    Number(Kind, c_int),
    Flag(bool),
    Ints(&'v [i64]),
    Float(f32),
    Handle(Handle),
    Pointers(&'v [*mut c_void]),
    Descriptors(&'v [*mut c_void]),
}

type Create = unsafe extern "C" fn(Descriptor, *mut *mut c_void) -> c_int;
type SetAttribute = unsafe extern "C" fn(*mut c_void, Attribute, Kind, i64, *const c_void) -> c_int;
type GetAttribute = unsafe extern "C" fn(*mut c_void, Attribute, Kind, i64, *mut i64, *mut c_void) -> c_int;
type Finalize = unsafe extern "C" fn(*mut c_void) -> c_int;
type Execute = unsafe extern "C" fn(Handle, *mut c_void, *mut c_void) -> c_int;

/// A graph that is being made: its operations in their order, and what they rest on.
pub(super) struct Graph<'g> {
    api: &'g Api<'g>,
    handle: Handle,
    /// Kept until the graph is gone.
    parts: Vec<Held>,
    operations: Vec<*mut c_void>,
    create: Create,
    set: SetAttribute,
    get: GetAttribute,
    finalize: Finalize,
    execute: Execute,
    next_id: i64,
}

/// A tensor of a graph.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    id: i64,
    descriptor: *mut c_void,
}

impl<'g> Graph<'g> {
    pub(super) fn new(api: &'g Api<'g>, handle: Handle) -> Result<Graph<'g>, Stop> {
        // SAFETY: these are the types that cuDNN's headers declare for the names.
        unsafe {
            Ok(Graph {
                api,
                handle,
                parts: Vec::new(),
                operations: Vec::new(),
                create: api.function("cudnnBackendCreateDescriptor")?,
                set: api.function("cudnnBackendSetAttribute")?,
                get: api.function("cudnnBackendGetAttribute")?,
                finalize: api.function("cudnnBackendFinalize")?,
                execute: api.function("cudnnBackendExecute")?,
                next_id: 1,
            })
        }
    }

    pub(super) fn tensor(
        &mut self,
        precision: Precision,
        dims: [i64; 4],
        strides: [i64; 4],
        storage: Storage,
    ) -> Result<Tensor, Stop> {
        let id = self.next_id;
        self.next_id += 1;
        let mut attributes = vec![
            (Attribute::TensorAlignment, Value::Ints(&[ALIGNMENT])),
            (Attribute::TensorType, Value::Number(Kind::DataType, data_type(precision))),
            (Attribute::TensorDimensions, Value::Ints(&dims)),
            (Attribute::TensorStrides, Value::Ints(&strides)),
            (Attribute::TensorId, Value::Ints(std::slice::from_ref(&id))),
        ];
        match storage {
            Storage::Device => {}
            Storage::Virtual => attributes.push((Attribute::TensorIsVirtual, Value::Flag(true))),
            Storage::Value => attributes.push((Attribute::TensorIsByValue, Value::Flag(true))),
        }
        Ok(Tensor { id, descriptor: self.part(Descriptor::Tensor, &attributes)? })
    }

    /// Padding, stride and dilation are 1 in both directions.
    pub(super) fn convolution(&mut self, x: Tensor, w: Tensor, y: Tensor) -> Result<(), Stop> {
        let ones = [1, 1];
        let convolution = self.part(
            Descriptor::Convolution,
            &[
                (Attribute::ConvolutionPrecision, float_type()),
                (Attribute::ConvolutionMode, Value::Number(Kind::ConvolutionMode, CROSS_CORRELATION)),
                (Attribute::ConvolutionDilations, Value::Ints(&ones)),
                (Attribute::ConvolutionStrides, Value::Ints(&ones)),
                (Attribute::ConvolutionPostPaddings, Value::Ints(&ones)),
                (Attribute::ConvolutionPrePaddings, Value::Ints(&ones)),
                (Attribute::ConvolutionSpatialDims, Value::Ints(&[2])),
            ],
        )?;
        let attributes = [
            (Attribute::OperationConvolutionAlpha, Value::Float(1.0)),
            (Attribute::OperationConvolutionBeta, Value::Float(0.0)),
            (Attribute::OperationConvolution, Value::Descriptors(&[convolution])),
            (Attribute::OperationConvolutionW, Value::Descriptors(&[w.descriptor])),
            (Attribute::OperationConvolutionX, Value::Descriptors(&[x.descriptor])),
            (Attribute::OperationConvolutionY, Value::Descriptors(&[y.descriptor])),
        ];
        self.operation(Descriptor::OperationConvolution, &attributes)
    }

    /// With a second operand where the mode has one.
    pub(super) fn pointwise(
        &mut self,
        mode: Pointwise,
        x: Tensor,
        b: Option<Tensor>,
        y: Tensor,
    ) -> Result<(), Stop> {
        let mode = self.part(
            Descriptor::Pointwise,
            &[
                (Attribute::PointwiseMode, Value::Number(Kind::PointwiseMode, mode as c_int)),
                (Attribute::PointwisePrecision, float_type()),
            ],
        )?;
        let descriptors = [mode, x.descriptor, y.descriptor];
        let [mode, x, y] = descriptors.each_ref().map(std::slice::from_ref);
        let b = b.map(|b| b.descriptor);
        let mut attributes = vec![
            (Attribute::OperationPointwise, Value::Descriptors(mode)),
            (Attribute::OperationPointwiseX, Value::Descriptors(x)),
            (Attribute::OperationPointwiseY, Value::Descriptors(y)),
        ];
        attributes.extend(
            b.as_ref().map(|b| (Attribute::OperationPointwiseB, Value::Descriptors(std::slice::from_ref(b)))),
        );
        self.operation(Descriptor::OperationPointwise, &attributes)
    }

    pub(super) fn matmul(&mut self, a: Tensor, b: Tensor, c: Tensor) -> Result<(), Stop> {
        let product = self.part(Descriptor::Matmul, &[(Attribute::MatmulPrecision, float_type())])?;
        let attributes = [
            (Attribute::OperationMatmulA, Value::Descriptors(&[a.descriptor])),
            (Attribute::OperationMatmulB, Value::Descriptors(&[b.descriptor])),
            (Attribute::OperationMatmulC, Value::Descriptors(&[c.descriptor])),
            (Attribute::OperationMatmul, Value::Descriptors(&[product])),
        ];
        self.operation(Descriptor::OperationMatmul, &attributes)
    }

    pub(super) fn reduction(&mut self, operator: Reduction, x: Tensor, y: Tensor) -> Result<(), Stop> {
        let operator = Value::Number(Kind::ReductionOperator, operator as c_int);
        let reduction = self.part(
            Descriptor::Reduction,
            &[(Attribute::ReductionOperator, operator), (Attribute::ReductionPrecision, float_type())],
        )?;
        let attributes = [
            (Attribute::OperationReductionX, Value::Descriptors(&[x.descriptor])),
            (Attribute::OperationReductionY, Value::Descriptors(&[y.descriptor])),
            (Attribute::OperationReduction, Value::Descriptors(&[reduction])),
        ];
        self.operation(Descriptor::OperationReduction, &attributes)
    }

    /// Runs it with the first engine that takes it, of those that cuDNN's heuristics name; so do frameworks. What the
    /// tensors are is told by their numbers.
    pub(super) fn run(
        &self,
        driver: &Driver,
        modes: &[c_int],
        tensors: &[(Tensor, *mut c_void)],
    ) -> Result<(), Stop> {
        let attributes = [
            (Attribute::GraphHandle, Value::Handle(self.handle)),
            (Attribute::GraphOperations, Value::Descriptors(&self.operations)),
        ];
        let graph = self.build(Descriptor::Graph, &attributes)?;
        let mut first = None;
        for mode in modes {
            let configs = match self.configs(&graph, *mode) {
                Ok(configs) => configs,
                Err(stop) => {
                    first.get_or_insert(stop);
                    continue;
                }
            };
            for config in configs.iter().filter(|config| self.is_exact(config)) {
                match self.try_config(driver, config, tensors) {
                    Ok(()) => return Ok(()),
                    // An engine that fails tells more than those that were not made for this.
                    Err(stop @ Stop::NotSupported(_)) => {
                        first.get_or_insert(stop);
                    }
                    Err(stop) if matches!(first, None | Some(Stop::NotSupported(_))) => first = Some(stop),
                    Err(_) => {}
                }
            }
        }
        Err(first.unwrap_or_else(|| {
            let name = Some("no engine".to_owned());
            Stop::NotSupported(Refused { call: "cudnnBackendGetAttribute", code: 0, name, message: None })
        }))
    }

    fn configs(&self, graph: &Held, mode: c_int) -> Result<Vec<Held>, Stop> {
        let attributes = [
            (Attribute::HeuristicsGraph, Value::Descriptors(&[graph.object])),
            (Attribute::HeuristicsMode, Value::Number(Kind::HeuristicsMode, mode)),
        ];
        let heuristics = self.build(Descriptor::Heuristics, &attributes)?;
        let count =
            self.read(&heuristics, Attribute::HeuristicsResults, Kind::Descriptor, &mut [] as &mut [usize])?;
        let make = |_| self.new_descriptor(Descriptor::EngineConfig);
        let mut configs: Vec<Held> = (0..count.min(MOST_CONFIGS)).map(make).collect::<Result<_, _>>()?;
        let mut objects: Vec<*mut c_void> = configs.iter().map(|config| config.object).collect();
        let count = self.read(&heuristics, Attribute::HeuristicsResults, Kind::Descriptor, &mut objects)?;
        configs.truncate(count);
        Ok(configs)
    }

    /// Whether an engine adds up products, and nothing else. What it does not say is believed.
    fn is_exact(&self, config: &Held) -> bool {
        let Ok(engine) = self.new_descriptor(Descriptor::Engine) else { return true };
        let mut notes = [0; 16];
        let read =
            self.read(config, Attribute::ConfigEngine, Kind::Descriptor, &mut [engine.object]).and_then(
                |_| self.read(&engine, Attribute::EngineNumericalNote, Kind::NumericalNote, &mut notes),
            );
        let count = read.unwrap_or(0).min(notes.len());
        !notes[..count].iter().any(|note| INEXACT.contains(note))
    }

    fn try_config(
        &self,
        driver: &Driver,
        config: &Held,
        tensors: &[(Tensor, *mut c_void)],
    ) -> Result<(), Stop> {
        let attributes = [
            (Attribute::PlanHandle, Value::Handle(self.handle)),
            (Attribute::PlanConfig, Value::Descriptors(&[config.object])),
        ];
        let plan = self.build(Descriptor::Plan, &attributes)?;
        let mut bytes = [0_i64];
        self.read(&plan, Attribute::PlanWorkspace, Kind::Int64, &mut bytes)?;
        let bytes = usize::try_from(bytes[0]).unwrap_or(0);
        let workspace = if bytes == 0 { None } else { Some(driver.allocate(bytes)?) };
        let (ids, pointers): (Vec<i64>, Vec<*mut c_void>) =
            tensors.iter().map(|(tensor, pointer)| (tensor.id, *pointer)).unzip();
        let attributes = [
            (Attribute::PackIds, Value::Ints(&ids)),
            (Attribute::PackPointers, Value::Pointers(&pointers)),
            (
                Attribute::PackWorkspace,
                Value::Pointers(&[workspace.as_ref().map_or(ptr::null_mut(), Buffer::pointer)]),
            ),
        ];
        let pack = self.build(Descriptor::VariantPack, &attributes)?;
        let call = "cudnnBackendExecute";
        // SAFETY: both are finished, and the pointers are of buffers that hold what the tensors say.
        self.api.check(call, unsafe { (self.execute)(self.handle, plan.object, pack.object) })?;
        // Before the workspace is given back.
        Ok(driver.synchronize()?)
    }

    /// Elements that an attribute has, of which as many are read as there is room for.
    fn read<T>(&self, of: &Held, name: Attribute, kind: Kind, elements: &mut [T]) -> Result<usize, Stop> {
        let mut count = 0;
        let requested = i64::try_from(elements.len()).unwrap_or(0);
        let into = if elements.is_empty() { ptr::null_mut() } else { elements.as_mut_ptr().cast() };
        // SAFETY: writes one number, and no more elements than that; `T` is of the kind of the attribute.
        let status = unsafe { (self.get)(of.object, name, kind, requested, &raw mut count, into) };
        self.api.check("cudnnBackendGetAttribute", status)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn operation(&mut self, kind: Descriptor, attributes: &[(Attribute, Value<'_>)]) -> Result<(), Stop> {
        let operation = self.part(kind, attributes)?;
        self.operations.push(operation);
        Ok(())
    }

    fn part(&mut self, kind: Descriptor, attributes: &[(Attribute, Value<'_>)]) -> Result<*mut c_void, Stop> {
        let part = self.build(kind, attributes)?;
        let object = part.object;
        self.parts.push(part);
        Ok(object)
    }

    /// A descriptor with all its attributes, finished.
    fn build(&self, kind: Descriptor, attributes: &[(Attribute, Value<'_>)]) -> Result<Held, Stop> {
        let descriptor = self.new_descriptor(kind)?;
        for (name, value) in attributes {
            let (kind, count, elements) = value.parts();
            let count = i64::try_from(count).unwrap_or(0);
            // SAFETY: `elements` are as many of that kind, and are copied.
            let status = unsafe { (self.set)(descriptor.object, *name, kind, count, elements) };
            self.api.check("cudnnBackendSetAttribute", status)?;
        }
        // SAFETY: a descriptor that was made above.
        self.api.check("cudnnBackendFinalize", unsafe { (self.finalize)(descriptor.object) })?;
        Ok(descriptor)
    }

    fn new_descriptor(&self, kind: Descriptor) -> Result<Held, Stop> {
        let mut object = ptr::null_mut();
        // SAFETY: writes one pointer.
        let status = unsafe { (self.create)(kind, &raw mut object) };
        self.api.check("cudnnBackendCreateDescriptor", status)?;
        Ok(self.api.hold(object, "cudnnBackendDestroyDescriptor"))
    }
}

impl Value<'_> {
    /// The kind of an attribute, how many elements it has, and where they are.
    fn parts(&self) -> (Kind, usize, *const c_void) {
        match self {
            Value::Number(kind, number) => (*kind, 1, ptr::from_ref(number).cast()),
            Value::Flag(flag) => (Kind::Boolean, 1, ptr::from_ref(flag).cast()),
            Value::Ints(numbers) => (Kind::Int64, numbers.len(), numbers.as_ptr().cast()),
            Value::Float(number) => (Kind::Float, 1, ptr::from_ref(number).cast()),
            Value::Handle(handle) => (Kind::Handle, 1, ptr::from_ref(handle).cast()),
            Value::Pointers(pointers) => (Kind::VoidPtr, pointers.len(), pointers.as_ptr().cast()),
            Value::Descriptors(descriptors) => {
                (Kind::Descriptor, descriptors.len(), descriptors.as_ptr().cast())
            }
        }
    }
}

/// What everything is computed in.
fn float_type() -> Value<'static> {
    Value::Number(Kind::DataType, data_type(Precision::Fp32))
}
