//! cuDNN 7, 8 and 9 through one table of C functions: their signatures are the same in all three. Statuses
//! are plain integers, since a release may answer with one that no header here knows.
#![allow(unsafe_code, reason = "calls into a C library; each call is checked against NVIDIA's headers")]

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;

use libloading::os::unix::Library;

use super::reference::{CHANNELS, FILTERS, KERNEL, SIDE};

type Handle = *mut c_void;
type Descriptor = *mut c_void;

const NCHW: c_int = 0;
const FLOAT: c_int = 0;
const CROSS_CORRELATION: c_int = 1;
/// It needs no workspace, and less is loaded for it: 24 ms on an H200 where the one with precomputed indices takes 60.
const IMPLICIT_GEMM: c_int = 0;

/// The functions that are used. Source of the signatures: cudnn.h of 7.6, 8.9.7, 9.1.0 and 9.28.0.
pub(super) struct Cudnn {
    get_version: unsafe extern "C" fn() -> usize,
    get_error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    get_last_error_string: Option<unsafe extern "C" fn(*mut c_char, usize)>,
    create: unsafe extern "C" fn(*mut Handle) -> c_int,
    destroy: unsafe extern "C" fn(Handle) -> c_int,
    create_tensor: unsafe extern "C" fn(*mut Descriptor) -> c_int,
    set_tensor: unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    create_filter: unsafe extern "C" fn(*mut Descriptor) -> c_int,
    /// The data type comes before the format here, and after it for a tensor.
    set_filter: unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    create_convolution: unsafe extern "C" fn(*mut Descriptor) -> c_int,
    set_convolution:
        unsafe extern "C" fn(Descriptor, c_int, c_int, c_int, c_int, c_int, c_int, c_int, c_int) -> c_int,
    workspace_size: unsafe extern "C" fn(
        Handle,
        Descriptor,
        Descriptor,
        Descriptor,
        Descriptor,
        c_int,
        *mut usize,
    ) -> c_int,
    forward: unsafe extern "C" fn(
        Handle,
        *const f32,
        Descriptor,
        *const c_void,
        Descriptor,
        *const c_void,
        Descriptor,
        c_int,
        *mut c_void,
        usize,
        *const f32,
        Descriptor,
        *mut c_void,
    ) -> c_int,
}

/// A call that did not answer with success.
#[derive(Debug)]
pub(super) struct Refused {
    pub call: &'static str,
    pub code: i64,
    pub name: Option<String>,
    pub message: Option<String>,
}

/// Where the buffers of a convolution are on the device; no two may be the same.
pub(super) struct Buffers {
    pub input: u64,
    pub filters: u64,
    pub output: u64,
}

impl Cudnn {
    /// Looks the functions up. `Err` names the one that is missing.
    pub(super) fn new(library: &Library) -> Result<Cudnn, &'static str> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: each field has the type that cuDNN's headers declare for this name.
                unsafe { *library.get($name).map_err(|_| $name)? }
            };
        }
        Ok(Cudnn {
            get_version: symbol!("cudnnGetVersion"),
            get_error_string: symbol!("cudnnGetErrorString"),
            // SAFETY: declared as `void (char*, size_t)` since 9.0, absent before.
            get_last_error_string: unsafe { library.get("cudnnGetLastErrorString") }
                .ok()
                .map(|symbol| *symbol),
            create: symbol!("cudnnCreate"),
            destroy: symbol!("cudnnDestroy"),
            create_tensor: symbol!("cudnnCreateTensorDescriptor"),
            set_tensor: symbol!("cudnnSetTensor4dDescriptor"),
            create_filter: symbol!("cudnnCreateFilterDescriptor"),
            set_filter: symbol!("cudnnSetFilter4dDescriptor"),
            create_convolution: symbol!("cudnnCreateConvolutionDescriptor"),
            set_convolution: symbol!("cudnnSetConvolution2dDescriptor"),
            workspace_size: symbol!("cudnnGetConvolutionForwardWorkspaceSize"),
            forward: symbol!("cudnnConvolutionForward"),
        })
    }

    pub(super) fn version(&self) -> u64 {
        // SAFETY: takes nothing and has no precondition.
        (unsafe { (self.get_version)() }) as u64
    }

    pub(super) fn create(&self) -> Result<Handle, Refused> {
        let mut handle = ptr::null_mut();
        // SAFETY: writes one pointer.
        self.check("cudnnCreate", unsafe { (self.create)(&raw mut handle) })?;
        Ok(handle)
    }

    pub(super) fn destroy(&self, handle: Handle) -> Result<(), Refused> {
        // SAFETY: `handle` came from `create` and is given up here.
        self.check("cudnnDestroy", unsafe { (self.destroy)(handle) })
    }

    /// Runs the forward convolution of `reference` on the default stream. `allocate` gives device memory.
    pub(super) fn convolve(
        &self,
        handle: Handle,
        buffers: &Buffers,
        allocate: impl FnOnce(usize) -> Result<u64, Refused>,
    ) -> Result<(), Refused> {
        let [channels, side, filters, kernel] =
            [CHANNELS, SIDE, FILTERS, KERNEL].map(|n| c_int::try_from(n).unwrap_or(0));
        let [mut input, mut output, mut weights, mut convolution] = [ptr::null_mut(); 4];
        // SAFETY: each writes one pointer to a descriptor, which the calls after it are given.
        unsafe {
            self.check("cudnnCreateTensorDescriptor", (self.create_tensor)(&raw mut input))?;
            self.check("cudnnCreateTensorDescriptor", (self.create_tensor)(&raw mut output))?;
            self.check("cudnnCreateFilterDescriptor", (self.create_filter)(&raw mut weights))?;
            self.check("cudnnCreateConvolutionDescriptor", (self.create_convolution)(&raw mut convolution))?;
            let set = (self.set_tensor)(input, NCHW, FLOAT, 1, channels, side, side);
            self.check("cudnnSetTensor4dDescriptor", set)?;
            let set = (self.set_tensor)(output, NCHW, FLOAT, 1, filters, side, side);
            self.check("cudnnSetTensor4dDescriptor", set)?;
            let set = (self.set_filter)(weights, FLOAT, NCHW, filters, channels, kernel, kernel);
            self.check("cudnnSetFilter4dDescriptor", set)?;
            let set = (self.set_convolution)(convolution, 1, 1, 1, 1, 1, 1, CROSS_CORRELATION, FLOAT);
            self.check("cudnnSetConvolution2dDescriptor", set)?;
        }
        let algorithm = IMPLICIT_GEMM;
        let mut bytes = 0;
        // SAFETY: all descriptors were set above; writes one size.
        let size = unsafe {
            (self.workspace_size)(handle, input, weights, convolution, output, algorithm, &raw mut bytes)
        };
        self.check("cudnnGetConvolutionForwardWorkspaceSize", size)?;
        let workspace = if bytes == 0 { 0 } else { allocate(bytes)? };
        let pointer = |address: u64| address as *mut c_void;
        let (one, zero) = (1.0_f32, 0.0_f32);
        // SAFETY: the buffers hold what the descriptors say, are distinct, and live in the current context.
        let status = unsafe {
            (self.forward)(
                handle,
                &raw const one,
                input,
                pointer(buffers.input),
                weights,
                pointer(buffers.filters),
                convolution,
                algorithm,
                pointer(workspace),
                bytes,
                &raw const zero,
                output,
                pointer(buffers.output),
            )
        };
        self.check("cudnnConvolutionForward", status)
    }

    fn check(&self, call: &'static str, status: c_int) -> Result<(), Refused> {
        if status == 0 {
            return Ok(());
        }
        // SAFETY: gives a static text for any number.
        let name = unsafe { (self.get_error_string)(status).as_ref() };
        // SAFETY: a non-null result is a NUL-terminated text.
        let name = name.map(|text| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
        let message = self.get_last_error_string.and_then(|get| {
            let mut buffer = [0_u8; 1024];
            // SAFETY: writes at most that many bytes, NUL included.
            unsafe { get(buffer.as_mut_ptr().cast(), buffer.len()) };
            let text = CStr::from_bytes_until_nul(&buffer).ok()?.to_string_lossy().trim().to_owned();
            (!text.is_empty()).then_some(text)
        });
        Err(Refused { call, code: i64::from(status), name, message })
    }
}
