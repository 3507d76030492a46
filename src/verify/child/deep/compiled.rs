//! A kernel that NVRTC compiles for this GPU, loaded and launched. Source of the signatures: nvrtc.h of 11.8 and 12.9,
//! cuda.h of 11.8, 12.8 and 13.0.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use cudarc::driver::sys::{CUdeviceptr, CUresult};
use libloading::os::unix::Library;

use crate::verify::child::bench::{Bench, OpenLibrary};
use crate::verify::child::call::{Api, CallFailure, Pointer, call, find, text};
use crate::verify::child::numbers::{Random, compare};
use crate::verify::protocol::StepResult;

const COUNT: u32 = 1000;
/// Fewer than there are numbers, and no divisor of their count.
const BLOCK: u32 = 128;
const SOURCE: &CStr = c"
extern \"C\" __global__ void mix(const unsigned *from, unsigned *to, unsigned count)
{
    unsigned at = blockIdx.x * blockDim.x + threadIdx.x;
    if (at < count)
        to[at] = (from[at] ^ at) * 2654435761u;
}
";

const INVALID_OPTION: i64 = 5;
const PTX_TOO_NEW: i64 = CUresult::CUDA_ERROR_UNSUPPORTED_PTX_VERSION as i64;

type GetNumbers = unsafe extern "C" fn(*mut c_int) -> c_int;

pub(super) fn run(bench: &Bench<'_>, loaded: &OpenLibrary) -> Result<StepResult, CallFailure> {
    let (major, minor) = bench.capability;
    let architectures = known_architectures(loaded.library).unwrap_or_default();
    let target = choose_target(10 * major + minor, &architectures);
    let result = compile(loaded.library, &target).and_then(|image| launch(bench, &image));
    match result {
        // NVRTC does not know the GPU, or its PTX is newer than the driver.
        Err(CallFailure::Refused {
            call, code, name, ..
        }) if call == "nvrtcCompileProgram"
            && code == INVALID_OPTION
            && target == Target::Ptx(10 * major + minor)
            || call == "cuModuleLoadData" && code == PTX_TOO_NEW =>
        {
            Ok(StepResult::NotSupported {
                call: call.to_owned(),
                code,
                name,
            })
        }
        result => result,
    }
}

/// The architecture of a compiled kernel, 90 for 9.0.
#[derive(Debug, PartialEq)]
enum Target {
    /// Machine code for this GPU.
    Binary(i32),
    /// PTX of this or an older architecture, which the driver compiles.
    Ptx(i32),
}

/// Chooses from the architectures that NVRTC supports, which releases before 11.2 do not list. Without a choice, NVRTC
/// says so itself.
fn choose_target(capability: i32, known: &[i32]) -> Target {
    if known.contains(&capability) {
        return Target::Binary(capability);
    }
    let older = known.iter().copied().filter(|known| *known < capability);
    Target::Ptx(older.max().unwrap_or(capability))
}

fn compile(library: &Library, target: &Target) -> Result<Vec<u8>, CallFailure> {
    let api = Api {
        name: |library, status| text(library, "nvrtcGetErrorString", status),
        ..Api::plain(library)
    };
    let (option, size_call, call) = match target {
        Target::Binary(number) => (
            format!("--gpu-architecture=sm_{number}"),
            "nvrtcGetCUBINSize",
            "nvrtcGetCUBIN",
        ),
        Target::Ptx(number) => (
            format!("--gpu-architecture=compute_{number}"),
            "nvrtcGetPTXSize",
            "nvrtcGetPTX",
        ),
    };
    let option = CString::new(option).unwrap_or_default();
    let mut program = ptr::null_mut();
    // SAFETY: the types that nvrtc.h declares; the texts end with NUL and live as long as the program.
    unsafe {
        let none = ptr::null();
        call!(
            api, "nvrtcCreateProgram", *mut Pointer: &raw mut program,
            *const c_char: SOURCE.as_ptr(), *const c_char: c"mix.cu".as_ptr(),
            c_int: 0, *const *const c_char: none, *const *const c_char: none,
        )?;
        let compiled = call!(
            api, "nvrtcCompileProgram", Pointer: program, c_int: 1,
            *const *const c_char: [option.as_ptr()].as_ptr(),
        );
        compiled.map_err(|fault| with_log(fault, &api, program))?;
    }
    bytes(&api, program, size_call, call)
}

fn known_architectures(library: &Library) -> Option<Vec<i32>> {
    let mut count = 0;
    // SAFETY: these are the types that nvrtc.h declares; the second writes as many numbers as the first has said.
    unsafe {
        let get_count: GetNumbers = find(library, "nvrtcGetNumSupportedArchs")?;
        let get: GetNumbers = find(library, "nvrtcGetSupportedArchs")?;
        if get_count(&raw mut count) != 0 {
            return None;
        }
        let mut known = vec![0; usize::try_from(count).ok()?];
        (get(known.as_mut_ptr()) == 0).then_some(known)
    }
}

/// Adds the compiler's log.
fn with_log(fault: CallFailure, api: &Api<'_>, program: Pointer) -> CallFailure {
    let log =
        bytes(api, program, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog").unwrap_or_default();
    let log = String::from_utf8_lossy(&log)
        .trim_end_matches('\0')
        .trim()
        .to_owned();
    match fault {
        CallFailure::Refused {
            call, code, name, ..
        } if !log.is_empty() => CallFailure::Refused {
            call,
            code,
            name,
            message: Some(log),
        },
        fault => fault,
    }
}

fn bytes(
    api: &Api<'_>,
    program: Pointer,
    size_call: &'static str,
    call: &'static str,
) -> Result<Vec<u8>, CallFailure> {
    let mut size = 0;
    // SAFETY: the types that nvrtc.h declares; the second call writes as many bytes as the first has returned.
    unsafe {
        call!(api, size_call, Pointer: program, *mut usize: &raw mut size)?;
        let mut bytes = vec![0_u8; size];
        call!(api, call, Pointer: program, *mut c_char: bytes.as_mut_ptr().cast())?;
        Ok(bytes)
    }
}

fn launch(bench: &Bench<'_>, image: &[u8]) -> Result<StepResult, CallFailure> {
    let (driver, api) = (bench.driver, &bench.driver.api);
    let mut random = Random::new(bench.seed);
    let numbers: Vec<u32> = (0..COUNT).map(|_| random.next()).collect();
    let input = driver.upload(&numbers)?;
    let output = driver.upload(&vec![u32::MAX; numbers.len()])?;
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: these are the types that cuda.h declares; the image is what NVRTC made, and PTX ends with NUL.
    unsafe {
        let image = image.as_ptr().cast();
        call!(api, "cuModuleLoadData", *mut Pointer: &raw mut module, *const c_void: image)?;
        call!(
            api, "cuModuleGetFunction", *mut Pointer: &raw mut function, Pointer: module,
            *const c_char: c"mix".as_ptr(),
        )?;
    }
    let mut input_address: CUdeviceptr = input.address;
    let mut output_address: CUdeviceptr = output.address;
    let mut count: u32 = COUNT;
    let mut arguments: [*mut c_void; 3] = [
        (&raw mut input_address).cast(),
        (&raw mut output_address).cast(),
        (&raw mut count).cast(),
    ];
    // SAFETY: the arguments are those of the kernel, which stays within the buffers.
    unsafe {
        call!(
            api, "cuLaunchKernel", Pointer: function, c_uint: COUNT.div_ceil(BLOCK), c_uint: 1, c_uint: 1,
            c_uint: BLOCK, c_uint: 1, c_uint: 1, c_uint: 0, Pointer: ptr::null_mut(),
            *mut Pointer: arguments.as_mut_ptr(), *mut Pointer: ptr::null_mut(),
        )?;
    }
    let results: Vec<u32> = output.download(numbers.len())?;
    let mut expected = Vec::with_capacity(numbers.len());
    for (index, number) in (0..).zip(numbers) {
        expected.push(f64::from((number ^ index).wrapping_mul(2_654_435_761_u32)));
    }
    compare(results, expected)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_itself_before_an_older_one() {
        let known = [75, 80, 86, 90];
        assert_eq!(choose_target(90, &known), Target::Binary(90));
        assert_eq!(choose_target(89, &known), Target::Ptx(86));
        assert_eq!(choose_target(120, &known), Target::Ptx(90));
        assert_eq!(choose_target(70, &known), Target::Ptx(70));
        assert_eq!(choose_target(70, &[]), Target::Ptx(70));
    }
}
