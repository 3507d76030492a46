//! Names of environment variables: the dynamic loader's and our own. The audit module repeats three of them, since it
//! shares no code with the crate.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;

pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
pub const PRELOAD: &str = "LD_PRELOAD";
pub const AUDIT: &str = "LD_AUDIT";
pub const PIN: &str = "CUDARUN_PIN";
pub const VERIFY: &str = "CUDARUN_VERIFY";
pub const LOCKED: &str = "CUDARUN_LOCKED";
pub const ON_FAILURE: &str = "CUDARUN_ON_FAILURE";
/// When missing wheels are fetched; `never` decides over every file and option.
pub const FETCH: &str = "CUDARUN_FETCH";
pub const CONFIG: &str = "CUDARUN_CONFIG";
/// Names the view that a program was started with, for the program and for a cudarun below it.
pub const VIEW: &str = "CUDARUN_VIEW";
/// Names the project in a shell that cudarun opened, for a prompt. Other variables of such a shell begin with it.
pub const SHELL: &str = "CUDARUN_SHELL";
/// The table of pinned names for the audit module.
pub const PINS: &str = "CUDARUN_PINS";
/// Names a file to which the audit module adds a record of each object that is mapped.
pub const TRACE: &str = "CUDARUN_TRACE";
/// Marks the verifying child.
pub const PROOF: &str = "CUDARUN_PROOF";
/// The options of the run form, for what the program starts: `--also`, `--without`, `--build`, `-q`, `-v`.
pub const ALSO: &str = "CUDARUN_ALSO";
pub const BUILD: &str = "CUDARUN_BUILD";
pub const QUIET: &str = "CUDARUN_QUIET";
pub const VERBOSE: &str = "CUDARUN_VERBOSE";
/// What cudarun tells the processes below a program: which process it decided about, and what it changed.
pub const TREE: &str = "CUDARUN_TREE";
/// The module that the shell hook has set.
pub const HOOK_FOLLOWS: &str = "CUDARUN_HOOK_FOLLOWS";
/// `off`: what a program starts is started as without cudarun.
pub const FOLLOW: &str = "CUDARUN_FOLLOW";

/// The variables that a plan depends on and that hold paths, beside those of settings. A start does not look into other people's
/// environments, so variables that lead there are missing.
pub const DECISIVE_PATHS: &[&str] = &[
    "CONDA_PREFIX",
    CONFIG,
    "CUDACXX",
    "CUDAToolkit_ROOT",
    "CUDA_DIR",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDNN_HOME",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_ROOT_DIR",
    "CUTENSOR_ROOT",
    "DG_JIT_NVCC_COMPILER",
    "DG_NVCC_COMPILER",
    "FLASHINFER_NVCC",
    LIBRARY_PATH,
    PRELOAD,
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NVHPC",
    "NVHPC_ROOT",
    "NVTE_CUDA_INCLUDE_DIR",
    "PATH",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
    "VIRTUAL_ENV",
];
/// The other variables that a plan depends on, beside those of settings.
pub const DECISIVE_VALUES: &[&str] = &[
    PINS,
    VIEW,
    "CACHE_DIRECTORY",
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "DG_JIT_USE_NVRTC",
    "GLIBC_TUNABLES",
    "HOME",
    AUDIT,
    "LOADEDMODULES",
    "MODULEPATH",
    "PYENV_DIR",
    "PYENV_VERSION",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPLATLIBDIR",
    "PYTHONSAFEPATH",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    // A start may set it, and a person's value stays.
    "XLA_FLAGS",
    "_LMFILES_",
];
/// The beginnings of the variables that the loader and NVIDIA's libraries read, which a proof depends on. `NVIDIA_REQUIRE_*`
/// is among them.
const REACH_LIBRARIES: [&str; 8] = [
    "CUBLAS",
    "CUDA_",
    "CUDNN_",
    "GLIBC_TUNABLES",
    "LD_",
    "MALLOC_",
    "NCCL_",
    "NVIDIA_",
];

/// True if a variable may change the behaviour of libraries.
pub fn reaches_libraries(name: &OsStr) -> bool {
    REACH_LIBRARIES
        .iter()
        .any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
}
