//! The driver API, as a table of C functions. Statuses are plain integers, since a driver may return a code that no known
//! header declares. This file does not interpret them.
//!
//! `cudarc` provides the numbers of the driver's API, not its functions: it opens the first `libcuda.so`, which is a
//! stub's name, and a code that its headers do not know is undefined behaviour in it. Our own tables of functions with
//! plain integers avoid both.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::marker::PhantomData;
use std::ptr;

use cudarc::driver::sys::{CUcomputemode_enum as Mode, CUdevice_attribute_enum as Attribute};
use libloading::os::unix::Library;

use super::outcome::Refused;
use crate::verify::protocol::{ComputeMode, GpuFound};

type Status = c_int;
/// The driver's number of a device.
type Device = c_int;
pub(super) type Context = *mut c_void;
/// An address in the memory of a GPU.
pub(super) type Address = u64;

/// Source of the signatures: cuda.h of 11.8, 12.8 and 13.0. Functions with a suffix had another ABI before CUDA 4.
pub(super) struct Driver {
    init: unsafe extern "C" fn(c_uint) -> Status,
    get_version: unsafe extern "C" fn(*mut c_int) -> Status,
    get_error_name: Option<unsafe extern "C" fn(Status, *mut *const c_char) -> Status>,
    device_count: unsafe extern "C" fn(*mut c_int) -> Status,
    device_get: unsafe extern "C" fn(*mut Device, c_int) -> Status,
    device_name: unsafe extern "C" fn(*mut c_char, c_int, Device) -> Status,
    device_bus: Option<unsafe extern "C" fn(*mut c_char, c_int, Device) -> Status>,
    device_attribute: unsafe extern "C" fn(*mut c_int, c_int, Device) -> Status,
    device_memory: Option<unsafe extern "C" fn(*mut usize, Device) -> Status>,
    retain: unsafe extern "C" fn(*mut Context, Device) -> Status,
    set_current: unsafe extern "C" fn(Context) -> Status,
    synchronize: unsafe extern "C" fn() -> Status,
    memory_info: Option<unsafe extern "C" fn(*mut usize, *mut usize) -> Status>,
    allocate: unsafe extern "C" fn(*mut Address, usize) -> Status,
    free: Option<unsafe extern "C" fn(Address) -> Status>,
    upload: unsafe extern "C" fn(Address, *const c_void, usize) -> Status,
    download: unsafe extern "C" fn(*mut c_void, Address, usize) -> Status,
}

impl Driver {
    /// `Err` names a missing function.
    pub(super) fn new(library: &Library) -> Result<Driver, &'static str> {
        macro_rules! symbol {
            ($name:literal) => {
                // SAFETY: each field has the type that cuda.h declares for this name.
                unsafe { *library.get($name).map_err(|_| $name)? }
            };
        }
        macro_rules! optional {
            ($name:literal) => {
                // SAFETY: as above.
                unsafe { library.get($name) }.ok().map(|symbol| *symbol)
            };
        }
        Ok(Driver {
            init: symbol!("cuInit"),
            get_version: symbol!("cuDriverGetVersion"),
            get_error_name: optional!("cuGetErrorName"),
            device_count: symbol!("cuDeviceGetCount"),
            device_get: symbol!("cuDeviceGet"),
            device_name: symbol!("cuDeviceGetName"),
            device_bus: optional!("cuDeviceGetPCIBusId"),
            device_attribute: symbol!("cuDeviceGetAttribute"),
            device_memory: optional!("cuDeviceTotalMem_v2"),
            retain: symbol!("cuDevicePrimaryCtxRetain"),
            set_current: symbol!("cuCtxSetCurrent"),
            synchronize: symbol!("cuCtxSynchronize"),
            memory_info: optional!("cuMemGetInfo_v2"),
            allocate: symbol!("cuMemAlloc_v2"),
            free: optional!("cuMemFree_v2"),
            upload: symbol!("cuMemcpyHtoD_v2"),
            download: symbol!("cuMemcpyDtoH_v2"),
        })
    }

    /// Must come first. Its codes tell causes apart that `cudnnCreate` reports alike.
    pub(super) fn init(&self) -> Result<(), Refused> {
        // SAFETY: the flags must be 0.
        self.check("cuInit", unsafe { (self.init)(0) })
    }

    /// 13000 is CUDA 13.0.
    pub(super) fn cuda(&self) -> Result<i32, Refused> {
        let mut version = 0;
        // SAFETY: writes one number.
        self.check("cuDriverGetVersion", unsafe { (self.get_version)(&raw mut version) })?;
        Ok(version)
    }

    pub(super) fn devices(&self) -> Result<Vec<Device>, Refused> {
        let mut count = 0;
        // SAFETY: writes one number.
        self.check("cuDeviceGetCount", unsafe { (self.device_count)(&raw mut count) })?;
        let get = |ordinal| {
            let mut device = 0;
            // SAFETY: writes one number; the ordinal is below the count.
            self.check("cuDeviceGet", unsafe { (self.device_get)(&raw mut device, ordinal) })?;
            Ok(device)
        };
        (0..count).map(get).collect()
    }

    /// Describes a device without using it. Unknown facts are left out.
    pub(super) fn describe(&self, ordinal: u32, device: Device) -> GpuFound {
        let text = |read: &dyn Fn(*mut c_char, c_int) -> Status| {
            let mut buffer = [0_u8; 256];
            if read(buffer.as_mut_ptr().cast(), 256) != 0 {
                return None;
            }
            let text = CStr::from_bytes_until_nul(&buffer).ok()?.to_string_lossy().into_owned();
            Some(text).filter(|text| !text.is_empty())
        };
        let capability = self.capability(device);
        // SAFETY: `device` is one that the driver gave; writes at most that many bytes, NUL included.
        let name = text(&|buffer, size| unsafe { (self.device_name)(buffer, size, device) });
        let bus = self.device_bus.and_then(|device_bus| {
            // SAFETY: as above.
            text(&|buffer, size| unsafe { device_bus(buffer, size, device) })
        });
        let mut memory = 0;
        // SAFETY: writes one size.
        let has_memory = self.device_memory.is_some_and(|get| unsafe { get(&raw mut memory, device) } == 0);
        GpuFound {
            gpu: ordinal,
            name,
            capability: capability.map(|(major, minor)| format!("{major}.{minor}")),
            bus,
            compute_mode: self.compute_mode(device),
            memory: has_memory.then_some(memory as u64),
            free: None,
            busy: None,
        }
    }

    pub(super) fn capability(&self, device: Device) -> Option<(i32, i32)> {
        let major = self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?;
        let minor = self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?;
        Some((major, minor))
    }

    fn compute_mode(&self, device: Device) -> ComputeMode {
        match self.attribute(device, Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_MODE) {
            Some(mode) if mode == Mode::CU_COMPUTEMODE_PROHIBITED as c_int => ComputeMode::Prohibited,
            Some(mode) if mode == Mode::CU_COMPUTEMODE_EXCLUSIVE_PROCESS as c_int => {
                ComputeMode::ExclusiveProcess
            }
            _ => ComputeMode::Default,
        }
    }

    fn attribute(&self, device: Device, attribute: Attribute) -> Option<i32> {
        let mut value = 0;
        // SAFETY: writes one number; `device` is one that the driver gave.
        let status = unsafe { (self.device_attribute)(&raw mut value, attribute as c_int, device) };
        (status == 0).then_some(value)
    }

    /// The primary context of a device. This process never releases it.
    pub(super) fn retain(&self, device: Device) -> Result<Context, Refused> {
        let mut context = ptr::null_mut();
        // SAFETY: writes one pointer; `device` is one that the driver gave.
        self.check("cuDevicePrimaryCtxRetain", unsafe { (self.retain)(&raw mut context, device) })?;
        Ok(context)
    }

    pub(super) fn set_current(&self, context: Context) -> Result<(), Refused> {
        // SAFETY: `context` came from `retain`.
        self.check("cuCtxSetCurrent", unsafe { (self.set_current)(context) })
    }

    pub(super) fn synchronize(&self) -> Result<(), Refused> {
        // SAFETY: waits for the current context.
        self.check("cuCtxSynchronize", unsafe { (self.synchronize)() })
    }

    /// Free and total bytes of the device whose context is current.
    pub(super) fn memory(&self) -> Option<(u64, u64)> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: writes two sizes.
        let status = unsafe { self.memory_info?(&raw mut free, &raw mut total) };
        (status == 0).then_some((free as u64, total as u64))
    }

    /// Allocates at least so many bytes, which are freed on drop.
    pub(super) fn allocate(&self, bytes: usize) -> Result<Buffer<'_>, Refused> {
        let mut address = 0;
        // SAFETY: writes one address. CUDA refuses to allocate nothing.
        self.check("cuMemAlloc", unsafe { (self.allocate)(&raw mut address, bytes.max(1)) })?;
        Ok(Buffer { address, bytes, driver: self, _not_shared: PhantomData })
    }

    pub(super) fn upload<T: Plain>(&self, data: &[T]) -> Result<Buffer<'_>, Refused> {
        let buffer = self.allocate(size_of_val(data))?;
        // SAFETY: both hold that many bytes.
        let status = unsafe { (self.upload)(buffer.address, data.as_ptr().cast(), size_of_val(data)) };
        self.check("cuMemcpyHtoD", status)?;
        Ok(buffer)
    }

    pub(super) fn check(&self, call: &'static str, status: Status) -> Result<(), Refused> {
        if status == 0 {
            return Ok(());
        }
        Err(Refused { call, code: i64::from(status), name: self.error_name(status), message: None })
    }

    /// The driver's own name for one of its codes, `CUDA_ERROR_SYSTEM_DRIVER_MISMATCH`.
    fn error_name(&self, code: Status) -> Option<String> {
        let mut text = ptr::null();
        // SAFETY: gives a static text, or none.
        let status = unsafe { self.get_error_name?(code, &raw mut text) };
        if status != 0 || text.is_null() {
            return None;
        }
        // SAFETY: a text that it gave ends with NUL.
        Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
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
        // SAFETY: both hold that many bytes, of which any are a `T`.
        let status = unsafe { (self.driver.download)(data.as_mut_ptr().cast(), self.address, bytes) };
        self.driver.check("cuMemcpyDtoH", status)?;
        Ok(data)
    }
}

impl Drop for Buffer<'_> {
    fn drop(&mut self) {
        if let Some(free) = self.driver.free {
            // SAFETY: it came from `allocate` and is given up here. A failure shows in the next call.
            unsafe { free(self.address) };
        }
    }
}
