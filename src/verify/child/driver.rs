//! The driver API. Statuses are plain integers, since a driver may return a code that no known
//! header declares. This file does not interpret them.
//!
//! `cudarc` provides the numbers of the driver's API, not its functions: it opens the first `libcuda.so`, which is a
//! stub's name, and a code that its headers do not know is undefined behaviour in it. Our own calls with plain
//! integers avoid both.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys::{CUcomputemode_enum as Mode, CUdevice_attribute_enum as Attribute};
use libloading::os::unix::Library;

use super::call::{call, find};
use super::outcome::Refused;
use crate::verify::protocol::{ComputeMode, GpuFound};

/// The driver's number of a device.
type Device = c_int;
pub(super) type Context = *mut c_void;
/// An address in the memory of a GPU.
pub(super) type Address = u64;

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
    pub(super) library: &'static Library,
}

impl Driver {
    /// `Err` names a missing function.
    pub(super) fn new(library: &'static Library) -> Result<Driver, &'static str> {
        // SAFETY: each is a function, which is not called here.
        let is_missing =
            |name: &&str| unsafe { find::<unsafe extern "C" fn()>(library, name) }.is_none();
        NEEDED
            .into_iter()
            .find(is_missing)
            .map_or(Ok(Driver { library }), Err)
    }

    /// Must come first. Its codes tell causes apart that `cudnnCreate` reports alike.
    pub(super) fn init(&self) -> Result<(), Refused> {
        // SAFETY: the type that cuda.h declares; the flags must be 0.
        unsafe { call!(self, "cuInit", c_uint: 0) }
    }

    /// 13000 is CUDA 13.0.
    pub(super) fn cuda(&self) -> Result<i32, Refused> {
        let mut version = 0;
        // SAFETY: the type that cuda.h declares; writes one number.
        unsafe { call!(self, "cuDriverGetVersion", *mut c_int: &raw mut version)? };
        Ok(version)
    }

    pub(super) fn devices(&self) -> Result<Vec<Device>, Refused> {
        let mut count = 0;
        // SAFETY: the type that cuda.h declares; writes one number.
        unsafe { call!(self, "cuDeviceGetCount", *mut c_int: &raw mut count)? };
        let get = |ordinal| {
            let mut device = 0;
            // SAFETY: the types that cuda.h declares; writes one number; the ordinal is below the count.
            unsafe { call!(self, "cuDeviceGet", *mut Device: &raw mut device, c_int: ordinal)? };
            Ok(device)
        };
        (0..count).map(get).collect()
    }

    /// Describes a device without using it. Unknown facts are left out.
    pub(super) fn describe(&self, ordinal: u32, device: Device) -> GpuFound {
        let text = |function| {
            let mut buffer = [0_u8; 256];
            let start = buffer.as_mut_ptr().cast();
            // SAFETY: both are declared so; `device` is one that the driver gave; writes at most 256 bytes, NUL included.
            unsafe { call!(self, function, *mut c_char: start, c_int: 256, Device: device) }
                .ok()?;
            let text = CStr::from_bytes_until_nul(&buffer)
                .ok()?
                .to_string_lossy()
                .into_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let mut memory = 0;
        // SAFETY: the types that cuda.h declares; writes one size.
        let found = unsafe {
            call!(self, "cuDeviceTotalMem_v2", *mut usize: &raw mut memory, Device: device)
        };
        GpuFound {
            gpu: ordinal,
            name: text("cuDeviceGetName"),
            capability: self
                .capability(device)
                .map(|(major, minor)| format!("{major}.{minor}")),
            bus: text("cuDeviceGetPCIBusId"),
            compute_mode: self.compute_mode(device),
            memory: found.is_ok().then_some(memory as u64),
            free: None,
            busy: None,
        }
    }

    pub(super) fn capability(&self, device: Device) -> Option<(i32, i32)> {
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

    fn compute_mode(&self, device: Device) -> ComputeMode {
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

    fn attribute(&self, device: Device, attribute: Attribute) -> Option<i32> {
        let (mut value, attribute) = (0, attribute as c_int);
        let to = &raw mut value;
        // SAFETY: the types that cuda.h declares; writes one number; `device` is one that the driver gave.
        unsafe {
            call!(self, "cuDeviceGetAttribute", *mut c_int: to, c_int: attribute, Device: device)
        }
        .ok()?;
        Some(value)
    }

    /// The primary context of a device. This process never releases it.
    pub(super) fn retain(&self, device: Device) -> Result<Context, Refused> {
        let mut context = ptr::null_mut();
        let to = &raw mut context;
        // SAFETY: the types that cuda.h declares; writes one pointer; `device` is one that the driver gave.
        unsafe { call!(self, "cuDevicePrimaryCtxRetain", *mut Context: to, Device: device)? };
        Ok(context)
    }

    pub(super) fn set_current(&self, context: Context) -> Result<(), Refused> {
        // SAFETY: the type that cuda.h declares; `context` came from `retain`.
        unsafe { call!(self, "cuCtxSetCurrent", Context: context) }
    }

    pub(super) fn synchronize(&self) -> Result<(), Refused> {
        // SAFETY: the type that cuda.h declares; waits for the current context.
        unsafe { call!(self, "cuCtxSynchronize") }
    }

    /// Free and total bytes of the device whose context is current.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        let to = (&raw mut free, &raw mut total);
        // SAFETY: the types that cuda.h declares; writes two sizes.
        unsafe { call!(self, "cuMemGetInfo_v2", *mut usize: to.0, *mut usize: to.1) }.ok()?;
        Some((free as u64, total as u64))
    }

    /// Allocates at least so many bytes, which are freed on drop.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Buffer<'_>, Refused> {
        let mut address = 0;
        let to = &raw mut address;
        // SAFETY: the types that cuda.h declares; writes one address. CUDA refuses to allocate nothing.
        unsafe { call!(self, "cuMemAlloc_v2", *mut Address: to, usize: bytes.max(1))? };
        Ok(Buffer {
            address,
            bytes,
            driver: self,
            _not_shared: PhantomData,
        })
    }

    pub(super) fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer<'_>, Refused> {
        let buffer = self.allocate(size_of_val(data))?;
        let (from, bytes) = (data.as_ptr().cast(), size_of_val(data));
        // SAFETY: the types that cuda.h declares; both hold that many bytes.
        unsafe {
            call!(self, "cuMemcpyHtoD_v2", Address: buffer.address, *const c_void: from, usize: bytes)?;
        };
        Ok(buffer)
    }

    /// # Safety
    /// `F` must be a function pointer of the type that cuda.h declares for the name.
    pub(super) unsafe fn function<F: Copy>(&self, name: &'static str) -> Result<F, Refused> {
        // SAFETY: the caller vouches for the type.
        let found = unsafe { find(self.library, name) };
        let missing = Some("no such function".to_owned());
        found.ok_or(Refused {
            call: name,
            code: 0,
            name: missing,
            message: None,
        })
    }

    pub(super) fn check(&self, call: &'static str, status: c_int) -> Result<(), Refused> {
        if status == 0 {
            return Ok(());
        }
        let call = call.trim_end_matches("_v2");
        Err(Refused {
            call,
            code: i64::from(status),
            name: self.error_name(status),
            message: None,
        })
    }

    /// The driver's own name for one of its codes, `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
    fn error_name(&self, code: c_int) -> Option<String> {
        let mut text: *const c_char = ptr::null();
        // SAFETY: the type that cuda.h declares; gives a static text that ends with NUL, or none.
        unsafe {
            let name: unsafe extern "C" fn(c_int, *mut *const c_char) -> c_int =
                find(self.library, "cuGetErrorName")?;
            let is_known = name(code, &raw mut text) == 0 && !text.is_null();
            is_known.then(|| CStr::from_ptr(text).to_string_lossy().into_owned())
        }
    }
}

/// Types that are copied to a GPU and back as bytes. Any bytes are a valid value.
pub(super) trait Plain: Copy + Default {}
impl Plain for f32 {}
impl Plain for f64 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl Plain for i32 {}
impl Plain for i64 {}
impl Plain for u8 {}

/// Memory of the GPU whose context was current.
pub(super) struct Buffer<'d> {
    pub(super) address: Address,
    bytes: usize,
    driver: &'d Driver,
    _not_shared: PhantomData<*mut ()>,
}

impl Buffer<'_> {
    pub(super) fn pointer(&self) -> *mut c_void {
        self.address as *mut c_void
    }

    /// Waits for the GPU, and copies the first `count` elements.
    pub(super) fn download<T: Plain>(&self, count: usize) -> Result<Vec<T>, Refused> {
        let mut data = vec![T::default(); count];
        let bytes = size_of_val(data.as_slice()).min(self.bytes);
        self.driver.synchronize()?;
        let to = data.as_mut_ptr().cast();
        // SAFETY: the types that cuda.h declares; both hold that many bytes, of which any are a `T`.
        unsafe {
            call!(self.driver, "cuMemcpyDtoH_v2", *mut c_void: to, Address: self.address, usize: bytes)?;
        }
        Ok(data)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        // SAFETY: the type that cuda.h declares. It came from `allocate` and is given up here. A failure shows in the
        // next call.
        let _ = unsafe { call!(self.driver, "cuMemFree_v2", Address: self.address) };
    }
}
