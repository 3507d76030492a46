//! Graphs of operations by the backend API of cuDNN 8 and 9. Source of the signatures: cudnn_backend.h of 8.9.7,
//! cudnn_graph.h of 9.10.2 and 9.28.0.

use std::ffi::{c_int, c_void};
use std::ptr;

use super::names::{Attribute, AttributeKind, Descriptor};
use crate::verify::child::call::{Api, Object, Pointer, call};
use crate::verify::child::convolution::data_type;
use crate::verify::child::cudnn::Handle;
use crate::verify::child::driver::{Buffer, Driver};
use crate::verify::child::outcome::{Refused, Stop};
use crate::verify::protocol::Precision;

const CROSS_CORRELATION: c_int = 1;
/// The alignment of every address in bytes. The driver's own is 256.
const ALIGNMENT: i64 = 16;
/// The number of configurations that are tried at most.
const MOST_CONFIGS: usize = 16;
/// `cudnnBackendNumericalNote_t`: Fourier transforms, and Winograd's algorithm with tiles of several sizes. Both round
/// where sums of whole numbers are exact.
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

/// The place of a tensor's numbers.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Storage {
    /// In the GPU's memory.
    Device,
    /// Only between two operations.
    Virtual,
    /// A single number in the host's memory.
    Value,
}

/// The value of an attribute.
enum Value<'v> {
    /// A number of an enumeration of cuDNN.
    Number(AttributeKind, c_int),
    Flag(bool),
    Ints(&'v [i64]),
    Float(f32),
    Handle(Handle),
    Pointers(&'v [*mut c_void]),
    Descriptors(&'v [*mut c_void]),
}

/// A graph under construction.
pub(super) struct Graph<'g> {
    api: &'g Api<'g>,
    handle: Handle,
    /// Kept until the graph is gone.
    parts: Vec<Object>,
    operations: Vec<*mut c_void>,
    next_id: i64,
}

/// A tensor of a graph.
#[derive(Clone, Copy)]
pub(super) struct Tensor {
    id: i64,
    descriptor: *mut c_void,
}

impl<'g> Graph<'g> {
    pub(super) fn new(api: &'g Api<'g>, handle: Handle) -> Graph<'g> {
        Graph {
            api,
            handle,
            parts: Vec::new(),
            operations: Vec::new(),
            next_id: 1,
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
            (
                Attribute::TensorType,
                Value::Number(AttributeKind::DataType, data_type(precision)),
            ),
            (Attribute::TensorDimensions, Value::Ints(&dims)),
            (Attribute::TensorStrides, Value::Ints(&strides)),
            (Attribute::TensorId, Value::Ints(std::slice::from_ref(&id))),
        ];
        match storage {
            Storage::Device => {}
            Storage::Virtual => attributes.push((Attribute::TensorIsVirtual, Value::Flag(true))),
            Storage::Value => attributes.push((Attribute::TensorIsByValue, Value::Flag(true))),
        }
        Ok(Tensor {
            id,
            descriptor: self.part(Descriptor::Tensor, &attributes)?,
        })
    }

    /// Padding, stride and dilation are 1 in both directions.
    pub(super) fn convolution(&mut self, x: Tensor, w: Tensor, y: Tensor) -> Result<(), Stop> {
        let ones = [1, 1];
        let convolution = self.part(
            Descriptor::Convolution,
            &[
                (Attribute::ConvolutionPrecision, float_type()),
                (
                    Attribute::ConvolutionMode,
                    Value::Number(AttributeKind::ConvolutionMode, CROSS_CORRELATION),
                ),
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
            (
                Attribute::OperationConvolution,
                Value::Descriptors(&[convolution]),
            ),
            (
                Attribute::OperationConvolutionW,
                Value::Descriptors(&[w.descriptor]),
            ),
            (
                Attribute::OperationConvolutionX,
                Value::Descriptors(&[x.descriptor]),
            ),
            (
                Attribute::OperationConvolutionY,
                Value::Descriptors(&[y.descriptor]),
            ),
        ];
        self.operation(Descriptor::OperationConvolution, &attributes)
    }

    /// `b` is the second operand of a binary mode.
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
                (
                    Attribute::PointwiseMode,
                    Value::Number(AttributeKind::PointwiseMode, mode as c_int),
                ),
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
        attributes.extend(b.as_ref().map(|b| {
            (
                Attribute::OperationPointwiseB,
                Value::Descriptors(std::slice::from_ref(b)),
            )
        }));
        self.operation(Descriptor::OperationPointwise, &attributes)
    }

    pub(super) fn matmul(&mut self, a: Tensor, b: Tensor, c: Tensor) -> Result<(), Stop> {
        let product = self.part(
            Descriptor::Matmul,
            &[(Attribute::MatmulPrecision, float_type())],
        )?;
        let attributes = [
            (
                Attribute::OperationMatmulA,
                Value::Descriptors(&[a.descriptor]),
            ),
            (
                Attribute::OperationMatmulB,
                Value::Descriptors(&[b.descriptor]),
            ),
            (
                Attribute::OperationMatmulC,
                Value::Descriptors(&[c.descriptor]),
            ),
            (Attribute::OperationMatmul, Value::Descriptors(&[product])),
        ];
        self.operation(Descriptor::OperationMatmul, &attributes)
    }

    pub(super) fn reduction(
        &mut self,
        operator: Reduction,
        x: Tensor,
        y: Tensor,
    ) -> Result<(), Stop> {
        let operator = Value::Number(AttributeKind::ReductionOperator, operator as c_int);
        let reduction = self.part(
            Descriptor::Reduction,
            &[
                (Attribute::ReductionOperator, operator),
                (Attribute::ReductionPrecision, float_type()),
            ],
        )?;
        let attributes = [
            (
                Attribute::OperationReductionX,
                Value::Descriptors(&[x.descriptor]),
            ),
            (
                Attribute::OperationReductionY,
                Value::Descriptors(&[y.descriptor]),
            ),
            (
                Attribute::OperationReduction,
                Value::Descriptors(&[reduction]),
            ),
        ];
        self.operation(Descriptor::OperationReduction, &attributes)
    }

    /// Runs the graph with the first engine that supports it, in the order of cuDNN's heuristics, as frameworks do.
    pub(super) fn run(
        &self,
        driver: &Driver,
        modes: &[c_int],
        tensors: &[(Tensor, *mut c_void)],
    ) -> Result<(), Stop> {
        let attributes = [
            (Attribute::GraphHandle, Value::Handle(self.handle)),
            (
                Attribute::GraphOperations,
                Value::Descriptors(&self.operations),
            ),
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
                    // A failure of an engine tells more than the lack of support by others.
                    Err(stop @ Stop::NotSupported(_)) => {
                        first.get_or_insert(stop);
                    }
                    Err(stop) if matches!(first, None | Some(Stop::NotSupported(_))) => {
                        first = Some(stop);
                    }
                    Err(_) => {}
                }
            }
        }
        Err(first.unwrap_or_else(|| {
            let name = Some("no engine".to_owned());
            Stop::NotSupported(Refused {
                call: "cudnnBackendGetAttribute",
                code: 0,
                name,
                message: None,
            })
        }))
    }

    fn configs(&self, graph: &Object, mode: c_int) -> Result<Vec<Object>, Stop> {
        let attributes = [
            (
                Attribute::HeuristicsGraph,
                Value::Descriptors(&[graph.pointer]),
            ),
            (
                Attribute::HeuristicsMode,
                Value::Number(AttributeKind::HeuristicsMode, mode),
            ),
        ];
        let heuristics = self.build(Descriptor::Heuristics, &attributes)?;
        let count = self.read(
            &heuristics,
            Attribute::HeuristicsResults,
            AttributeKind::Descriptor,
            &mut [] as &mut [usize],
        )?;
        let make = |_| self.new_descriptor(Descriptor::EngineConfig);
        let mut configs: Vec<Object> = (0..count.min(MOST_CONFIGS))
            .map(make)
            .collect::<Result<_, _>>()?;
        let mut objects: Vec<*mut c_void> = configs.iter().map(|config| config.pointer).collect();
        let count = self.read(
            &heuristics,
            Attribute::HeuristicsResults,
            AttributeKind::Descriptor,
            &mut objects,
        )?;
        configs.truncate(count);
        Ok(configs)
    }

    /// False if the numerical notes of an engine say that it rounds. An engine without notes counts as exact.
    fn is_exact(&self, config: &Object) -> bool {
        let Ok(engine) = self.new_descriptor(Descriptor::Engine) else {
            return true;
        };
        let mut notes = [0; 16];
        let read = self
            .read(
                config,
                Attribute::ConfigEngine,
                AttributeKind::Descriptor,
                &mut [engine.pointer],
            )
            .and_then(|_| {
                self.read(
                    &engine,
                    Attribute::EngineNumericalNote,
                    AttributeKind::NumericalNote,
                    &mut notes,
                )
            });
        let count = read.unwrap_or(0).min(notes.len());
        !notes[..count].iter().any(|note| INEXACT.contains(note))
    }

    fn try_config(
        &self,
        driver: &Driver,
        config: &Object,
        tensors: &[(Tensor, *mut c_void)],
    ) -> Result<(), Stop> {
        let attributes = [
            (Attribute::PlanHandle, Value::Handle(self.handle)),
            (Attribute::PlanConfig, Value::Descriptors(&[config.pointer])),
        ];
        let plan = self.build(Descriptor::Plan, &attributes)?;
        let mut bytes = [0_i64];
        self.read(
            &plan,
            Attribute::PlanWorkspace,
            AttributeKind::Int64,
            &mut bytes,
        )?;
        let bytes = usize::try_from(bytes[0]).unwrap_or(0);
        let workspace = if bytes == 0 {
            None
        } else {
            Some(driver.allocate(bytes)?)
        };
        let (ids, pointers): (Vec<i64>, Vec<*mut c_void>) = tensors
            .iter()
            .map(|(tensor, pointer)| (tensor.id, *pointer))
            .unzip();
        let attributes = [
            (Attribute::PackIds, Value::Ints(&ids)),
            (Attribute::PackPointers, Value::Pointers(&pointers)),
            (
                Attribute::PackWorkspace,
                Value::Pointers(&[workspace.as_ref().map_or(ptr::null_mut(), Buffer::pointer)]),
            ),
        ];
        let pack = self.build(Descriptor::VariantPack, &attributes)?;
        // SAFETY: both are finished, and the pointers are of buffers that hold what the tensors say.
        unsafe {
            call!(
                self.api, "cudnnBackendExecute", Handle: self.handle, Pointer: plan.pointer, Pointer: pack.pointer
            )?;
        }
        // Before the workspace is freed.
        Ok(driver.synchronize()?)
    }

    /// Reads as many elements of an attribute as fit, and returns the number that it has.
    fn read<T>(
        &self,
        of: &Object,
        name: Attribute,
        kind: AttributeKind,
        elements: &mut [T],
    ) -> Result<usize, Stop> {
        let mut count = 0;
        let requested = i64::try_from(elements.len()).unwrap_or(0);
        let into = if elements.is_empty() {
            ptr::null_mut()
        } else {
            elements.as_mut_ptr().cast()
        };
        // SAFETY: writes one number, and no more elements than that; `T` is of the kind of the attribute.
        unsafe {
            call!(
                self.api, "cudnnBackendGetAttribute", Pointer: of.pointer, Attribute: name, AttributeKind: kind,
                i64: requested, *mut i64: &raw mut count, Pointer: into,
            )?;
        }
        Ok(usize::try_from(count).unwrap_or(0))
    }

    fn operation(
        &mut self,
        kind: Descriptor,
        attributes: &[(Attribute, Value<'_>)],
    ) -> Result<(), Stop> {
        let operation = self.part(kind, attributes)?;
        self.operations.push(operation);
        Ok(())
    }

    fn part(
        &mut self,
        kind: Descriptor,
        attributes: &[(Attribute, Value<'_>)],
    ) -> Result<*mut c_void, Stop> {
        let part = self.build(kind, attributes)?;
        let object = part.pointer;
        self.parts.push(part);
        Ok(object)
    }

    /// Makes a descriptor with its attributes, and finalizes it.
    fn build(
        &self,
        kind: Descriptor,
        attributes: &[(Attribute, Value<'_>)],
    ) -> Result<Object, Stop> {
        let descriptor = self.new_descriptor(kind)?;
        for (name, value) in attributes {
            let (kind, count, elements) = value.parts();
            let count = i64::try_from(count).unwrap_or(0);
            // SAFETY: `elements` are as many of that kind, and are copied.
            unsafe {
                call!(
                    self.api, "cudnnBackendSetAttribute", Pointer: descriptor.pointer, Attribute: *name,
                    AttributeKind: kind, i64: count, *const c_void: elements,
                )?;
            }
        }
        // SAFETY: a descriptor that was made above.
        unsafe { call!(self.api, "cudnnBackendFinalize", Pointer: descriptor.pointer)? };
        Ok(descriptor)
    }

    fn new_descriptor(&self, kind: Descriptor) -> Result<Object, Stop> {
        let mut object = ptr::null_mut();
        // SAFETY: writes one pointer.
        unsafe {
            call!(self.api, "cudnnBackendCreateDescriptor", Descriptor: kind, *mut Pointer: &raw mut object)?;
        }
        Ok(self.api.hold(object, "cudnnBackendDestroyDescriptor"))
    }
}

impl Value<'_> {
    /// The kind of the value, the number of its elements, and their address.
    fn parts(&self) -> (AttributeKind, usize, *const c_void) {
        match self {
            Value::Number(kind, number) => (*kind, 1, ptr::from_ref(number).cast()),
            Value::Flag(flag) => (AttributeKind::Boolean, 1, ptr::from_ref(flag).cast()),
            Value::Ints(numbers) => (AttributeKind::Int64, numbers.len(), numbers.as_ptr().cast()),
            Value::Float(number) => (AttributeKind::Float, 1, ptr::from_ref(number).cast()),
            Value::Handle(handle) => (AttributeKind::Handle, 1, ptr::from_ref(handle).cast()),
            Value::Pointers(pointers) => (
                AttributeKind::VoidPtr,
                pointers.len(),
                pointers.as_ptr().cast(),
            ),
            Value::Descriptors(descriptors) => (
                AttributeKind::Descriptor,
                descriptors.len(),
                descriptors.as_ptr().cast(),
            ),
        }
    }
}

/// The type of all computations.
fn float_type() -> Value<'static> {
    Value::Number(AttributeKind::DataType, data_type(Precision::Fp32))
}
