//! The driver API. Statuses are plain integers, since a driver may return a code that no known
//! header declares. This file does not interpret them.
//!
//! `cudarc` provides the types and the numbers of the driver's API, not its functions: it opens the first `libcuda.so`,
//! which is a stub's name, and a code that its headers do not know is undefined behaviour in it. Our own calls with plain
//! integers avoid both.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys::{
    CUcomputemode_enum as Mode, CUcontext, CUdevice, CUdevice_attribute_enum as Attribute,
    CUdeviceptr,
};
use libloading::os::unix::Library;

use super::call::{Api, CallFailure, call, find, require};
use crate::verify::protocol::{ComputeMode, GpuFound};

/// The functions that no proof can do without.
const NEEDED: [&str; 12] = [
    "cuInit",
    "cuDriverGetVersion",
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDeviceGetAttribute",
    "cuDevicePrimaryCtxRetain",
    "cuCtxSetCurrent",
    "cuCtxSynchronize",
    "cuMemAlloc_v2",
    "cuMemcpyHtoD_v2",
    "cuMemcpyDtoH_v2",
];

/// Source of the signatures: cuda.h of 11.8, 12.8 and 13.0. Functions with a suffix had another ABI before CUDA 4.
pub(super) struct Driver {
    pub(super) api: Api<'static>,
}

impl Driver {
    pub(super) fn new(library: &'static Library) -> Result<Driver, CallFailure> {
        require(library, &NEEDED)?;
        Ok(Driver {
            api: Api {
                name: error_name,
                ..Api::plain(library)
            },
        })
    }

    /// Must come first. Its codes tell causes apart that `cudnnCreate` reports alike.
    pub(super) fn init(&self) -> Result<(), CallFailure> {
        // SAFETY: the type that cuda.h declares; the flags must be 0.
        unsafe { call!(self.api, "cuInit", c_uint: 0) }
    }

    /// 13000 is CUDA 13.0.
    pub(super) fn cuda(&self) -> Result<i32, CallFailure> {
        let mut version = 0;
        // SAFETY: the type that cuda.h declares; writes one number.
        unsafe { call!(self.api, "cuDriverGetVersion", *mut c_int: &raw mut version)? };
        Ok(version)
    }

    pub(super) fn devices(&self) -> Result<Vec<CUdevice>, CallFailure> {
        let mut count = 0;
        // SAFETY: the type that cuda.h declares; writes one number.
        unsafe { call!(self.api, "cuDeviceGetCount", *mut c_int: &raw mut count)? };
        let mut devices = Vec::new();
        for ordinal in 0..count {
            let mut device = 0;
            // SAFETY: the types that cuda.h declares; writes one number; the ordinal is below the count.
            unsafe {
                call!(self.api, "cuDeviceGet", *mut CUdevice: &raw mut device, c_int: ordinal)?;
            };
            devices.push(device);
        }
        Ok(devices)
    }

    /// Describes a device without using it. Unknown facts are left out.
    pub(super) fn describe(&self, ordinal: u32, device: CUdevice) -> GpuFound {
        let mut memory = 0;
        // SAFETY: the types that cuda.h declares; writes one size.
        let result = unsafe {
            call!(self.api, "cuDeviceTotalMem_v2", *mut usize: &raw mut memory, CUdevice: device)
        };
        let capability = self.capability(device);
        GpuFound {
            gpu: ordinal,
            name: self.device_text("cuDeviceGetName", device),
            capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
            bus: self.device_text("cuDeviceGetPCIBusId", device),
            compute_mode: self.compute_mode(device),
            memory: result.is_ok().then_some(memory as u64),
            free: None,
            busy: None,
        }
    }

    /// The text that a function `status (char*, int, device)` writes.
    fn device_text(&self, function: &'static str, device: CUdevice) -> Option<String> {
        let mut buffer = [0_u8; 256];
        let start = buffer.as_mut_ptr().cast();
        // SAFETY: all functions that this is asked for are declared so; `device` is one that the driver gave; writes at
        // most 256 bytes, NUL included.
        unsafe { call!(self.api, function, *mut c_char: start, c_int: 256, CUdevice: device) }
            .ok()?;
        let text = CStr::from_bytes_until_nul(&buffer).ok()?.to_string_lossy();
        (!text.is_empty()).then(|| text.into_owned())
    }

    pub(super) fn capability(&self, device: CUdevice) -> Option<(i32, i32)> {
        let major = self.attribute(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
        )?;
        let minor = self.attribute(
            device,
            Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
        )?;
        Some((major, minor))
    }

    fn compute_mode(&self, device: CUdevice) -> ComputeMode {
        match self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) {
            Some(mode) if mode == Mode::CU_COMPUTEMODE_PROHIBITED as c_int => {
                ComputeMode::Prohibited
            }
            Some(mode) if mode == Mode::CU_COMPUTEMODE_EXCLUSIVE_PROCESS as c_int => {
                ComputeMode::ExclusiveProcess
            }
            _ => ComputeMode::Default,
        }
    }

    fn attribute(&self, device: CUdevice, attribute: Attribute) -> Option<i32> {
        let mut value = 0;
        // SAFETY: the types that cuda.h declares; writes one number; `device` is one that the driver gave.
        unsafe {
            call!(
                self.api, "cuDeviceGetAttribute", *mut c_int: &raw mut value, c_int: attribute as c_int,
                CUdevice: device,
            )
        }
        .ok()?;
        Some(value)
    }

    /// Makes the primary context of a device current. This process never releases it.
    pub(super) fn make_current(&self, device: CUdevice) -> Result<CUcontext, CallFailure> {
        let mut context = ptr::null_mut();
        // SAFETY: the types that cuda.h declares; writes one pointer; `device` is one that the driver gave.
        unsafe {
            call!(
                self.api, "cuDevicePrimaryCtxRetain", *mut CUcontext: &raw mut context, CUdevice: device,
            )?;
        };
        self.set_current(context)?;
        Ok(context)
    }

    pub(super) fn set_current(&self, context: CUcontext) -> Result<(), CallFailure> {
        // SAFETY: the type that cuda.h declares; `context` came from `make_current`.
        unsafe { call!(self.api, "cuCtxSetCurrent", CUcontext: context) }
    }

    pub(super) fn synchronize(&self) -> Result<(), CallFailure> {
        // SAFETY: the type that cuda.h declares; waits for the current context.
        unsafe { call!(self.api, "cuCtxSynchronize") }
    }

    /// Free and total bytes of the device whose context is current.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the types that cuda.h declares; writes two sizes.
        unsafe {
            call!(
                self.api, "cuMemGetInfo_v2", *mut usize: &raw mut free, *mut usize: &raw mut total,
            )
        }
        .ok()?;
        Some((free as u64, total as u64))
    }

    /// Allocates at least so many bytes, which are freed on drop.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Buffer<'_>, CallFailure> {
        let mut address = 0;
        // SAFETY: the types that cuda.h declares; writes one address. CUDA refuses to allocate nothing.
        unsafe {
            call!(
                self.api, "cuMemAlloc_v2", *mut CUdeviceptr: &raw mut address, usize: bytes.max(1),
            )?;
        };
        Ok(Buffer {
            address,
            bytes,
            driver: self,
            _not_shared: PhantomData,
        })
    }

    pub(super) fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer<'_>, CallFailure> {
        let buffer = self.allocate(size_of_val(data))?;
        // SAFETY: the types that cuda.h declares; both hold that many bytes.
        unsafe {
            call!(
                self.api, "cuMemcpyHtoD_v2", CUdeviceptr: buffer.address,
                *const c_void: data.as_ptr().cast(), usize: buffer.bytes,
            )?;
        };
        Ok(buffer)
    }
}

/// The driver's own name for one of its codes, `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
fn error_name(library: &Library, code: c_int) -> Option<String> {
    let mut text: *const c_char = ptr::null();
    // SAFETY: the type that cuda.h declares; gives a static text that ends with NUL, or none.
    unsafe {
        let get: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int =
            find(library, "cuGetErrorName")?;
        let is_known = get(code, &raw mut text) == 0 && !text.is_null();
        is_known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
    }
}

/// Types that are copied to a GPU and back as bytes. Any bytes are a valid value.
pub(super) trait Plain: Copy + Default {}
impl Plain for f32 {}
impl Plain for u32 {}

/// Memory of the GPU whose context was current.
pub(super) struct Buffer<'d> {
    pub(super) address: CUdeviceptr,
    bytes: usize,
    driver: &'d Driver,
    _not_shared: PhantomData<*mut ()>,
}

impl Buffer<'_> {
    pub(super) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    /// Waits for the GPU, and copies the first `count` elements.
    pub(super) fn download<T: Plain>(&self, count: usize) -> Result<Vec<T>, CallFailure> {
        let mut data = vec![T::default(); count];
        let bytes = size_of_val(data.as_slice()).min(self.bytes);
        self.driver.synchronize()?;
        // SAFETY: the types that cuda.h declares; both hold that many bytes, of which any are a `T`.
        unsafe {
            call!(
                self.driver.api, "cuMemcpyDtoH_v2", *mut c_void: data.as_mut_ptr().cast(),
                CUdeviceptr: self.address, usize: bytes,
            )?;
        }
        Ok(data)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the type that cuda.h declares. It came from `allocate` and is given up here. A failure shows in the
        // next call.
        let _ = unsafe { call!(self.driver.api, "cuMemFree_v2", CUdeviceptr: self.address) };
    }
}
