//! A kernel that NVRTC compiles for this GPU, loaded and launched. Source of the signatures: nvrtc.h of 11.8 and 12.9,
//! cuda.h of 11.8, 12.8 and 13.0.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr;

use libloading::os::unix::Library;

use crate::verify::child::bench::{Bench, Loaded};
use crate::verify::child::call::{Api, Pointer, call, find};
use crate::verify::child::driver::Address;
use crate::verify::child::numbers::Random;
use crate::verify::child::outcome::{ComputationFault, Refused, Stop, compare};
use crate::verify::protocol::{Operation, Precision, StepResult};

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

const INVALID_OPTION: c_int = 5;
/// `CUDA_ERROR_UNSUPPORTED_PTX_VERSION`
const PTX_TOO_NEW: i64 = 222;

type GetNumbers = unsafe extern "C" fn(*mut c_int) -> c_int;
pub(super) fn run(bench: &Bench<'_>, loaded: &Loaded, _: Precision) -> Result<StepResult, Stop> {
    launch(bench, &compile(loaded.library, bench.capability)?)
}

/// The architecture of a compiled kernel, 90 for 9.0.
#[derive(Debug, PartialEq)]
enum Target {
    /// Machine code for this GPU.
    Binary(i32),
    /// PTX of this or an older architecture, which the driver compiles.
    Ptx(i32),
}

/// Chooses from the architectures that NVRTC supports, which releases before 11.2 do not list.
fn target(capability: i32, known: Option<&[i32]>) -> Option<Target> {
    match known {
        None => Some(Target::Ptx(capability)),
        Some(known) if known.contains(&capability) => Some(Target::Binary(capability)),
        Some(known) => known
            .iter()
            .copied()
            .filter(|known| *known < capability)
            .max()
            .map(Target::Ptx),
    }
}

fn compile(library: &Library, (major, minor): (i32, i32)) -> Result<Vec<u8>, Stop> {
    let known = known_architectures(library);
    let is_unsupported: fn(c_int) -> bool = match known {
        None => |status| status == INVALID_OPTION,
        Some(_) => |_| false,
    };
    let api = Api {
        naming: "nvrtcGetErrorString",
        is_unsupported,
        ..Api::plain(library)
    };
    let Some(target) = target(10 * major + minor, known.as_deref()) else {
        let name = Some(format!("compute capability {major}.{minor}"));
        return Err(Stop::NotSupported(Refused {
            call: "nvrtcCompileProgram",
            code: 0,
            name,
            message: None,
        }));
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
    let mut program = Compilation {
        program: ptr::null_mut(),
        destroy: None,
    };
    // SAFETY: the types that nvrtc.h declares; the texts end with NUL and live as long as the program.
    unsafe {
        let none = ptr::null();
        call!(
            api, "nvrtcCreateProgram", *mut Pointer: &raw mut program.program,
            *const c_char: SOURCE.as_ptr(), *const c_char: c"mix.cu".as_ptr(),
            c_int: 0, *const *const c_char: none, *const *const c_char: none,
        )?;
        program.destroy = find(library, "nvrtcDestroyProgram");
        let compiled = call!(
            api, "nvrtcCompileProgram", Pointer: program.program, c_int: 1,
            *const *const c_char: [option.as_ptr()].as_ptr(),
        );
        compiled.map_err(|stop| with_log(stop, &api, &program))?;
    }
    program.get(&api, size_call, call)
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
fn with_log(stop: Stop, api: &Api<'_>, program: &Compilation) -> Stop {
    let log = program
        .get(api, "nvrtcGetProgramLogSize", "nvrtcGetProgramLog")
        .unwrap_or_default();
    let log = String::from_utf8_lossy(&log)
        .trim_end_matches('\0')
        .trim()
        .to_owned();
    match stop {
        Stop::Wrong(ComputationFault::Refused(refused)) if !log.is_empty() => Refused {
            message: Some(log),
            ..refused
        }
        .into(),
        stop => stop,
    }
}

struct Compilation {
    program: Pointer,
    destroy: Option<unsafe extern "C" fn(*mut Pointer) -> c_int>,
}

impl Compilation {
    fn get(
        &self,
        api: &Api<'_>,
        size_call: &'static str,
        call: &'static str,
    ) -> Result<Vec<u8>, Stop> {
        let mut size = 0;
        // SAFETY: the types that nvrtc.h declares; the second call writes as many bytes as the first has returned.
        unsafe {
            call!(api, size_call, Pointer: self.program, *mut usize: &raw mut size)?;
            let mut bytes = vec![0_u8; size];
            call!(api, call, Pointer: self.program, *mut c_char: bytes.as_mut_ptr().cast())?;
            Ok(bytes)
        }
    }
}

impl Drop for Compilation {
    fn drop(&mut self) {
        if let Some(destroy) = self.destroy {
            // SAFETY: the program was made, and is given up here.
            unsafe { destroy(&raw mut self.program) };
        }
    }
}

fn launch(bench: &Bench<'_>, image: &[u8]) -> Result<StepResult, Stop> {
    let driver = bench.driver;
    let mut random = Random::new(bench.seed_of(Operation::CompiledKernel, Precision::None));
    let numbers: Vec<u32> = (0..COUNT).map(|_| random.next()).collect();
    let from = driver.upload(&numbers)?;
    let to = driver.upload(&vec![u32::MAX; numbers.len()])?;
    let (mut module, mut function) = (ptr::null_mut(), ptr::null_mut());
    // SAFETY: these are the types that cuda.h declares; the image is what NVRTC made, and PTX ends with NUL.
    let _module = unsafe {
        let image = image.as_ptr().cast();
        call!(driver, "cuModuleLoadData", *mut Pointer: &raw mut module, *const c_void: image)
            .map_err(|refused| match refused.code {
                PTX_TOO_NEW => Stop::NotSupported(refused),
                _ => refused.into(),
            })?;
        let held = Api::plain(driver.library).hold(module, "cuModuleUnload");
        call!(
            driver, "cuModuleGetFunction", *mut Pointer: &raw mut function, Pointer: module,
            *const c_char: c"mix".as_ptr(),
        )?;
        held
    };
    let (mut from_at, mut to_at, mut count): (Address, Address, u32) =
        (from.address, to.address, COUNT);
    let mut arguments: [*mut c_void; 3] = [
        (&raw mut from_at).cast(),
        (&raw mut to_at).cast(),
        (&raw mut count).cast(),
    ];
    // SAFETY: the arguments are those of the kernel, which stays within the buffers.
    unsafe {
        call!(
            driver, "cuLaunchKernel", Pointer: function, c_uint: COUNT.div_ceil(BLOCK), c_uint: 1, c_uint: 1,
            c_uint: BLOCK, c_uint: 1, c_uint: 1, c_uint: 0, Pointer: ptr::null_mut(),
            *mut Pointer: arguments.as_mut_ptr(), *mut Pointer: ptr::null_mut(),
        )?;
    }
    let results: Vec<u32> = to.download(numbers.len())?;
    let pairs = results.iter().zip((0..).zip(&numbers));
    let mix = |at: u32, number: u32| (number ^ at).wrapping_mul(2_654_435_761);
    let pairs =
        pairs.map(|(got, (at, number))| (f64::from(*got), f64::from(mix(at, *number)), 0.0));
    Ok(compare(pairs, 1)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gpu_itself_before_an_older_one() {
        let known = [75, 80, 86, 90];
        assert_eq!(target(90, Some(&known)), Some(Target::Binary(90)));
        assert_eq!(target(89, Some(&known)), Some(Target::Ptx(86)));
        assert_eq!(target(120, Some(&known)), Some(Target::Ptx(90)));
        assert_eq!(target(70, Some(&known)), None);
        assert_eq!(target(70, None), Some(Target::Ptx(70)));
    }
}
