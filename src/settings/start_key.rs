//! The key of a kept start: the binary, the program, its arguments, and the variables that decide its requirements.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::files;
use super::keys::KEYS;
use crate::builds;
use crate::environment::depends_on_directory;
use crate::host::Host;
use crate::program::{Command, is_at_terminal, significant, without_numbers, wrapper_variables};
use crate::storage::StartKey;
use crate::variables;

/// The variables that a plan depends on and that hold paths, beside those of settings. A start does not look into other people's
/// environments, so variables that lead there are missing.
const PATHS: &[&str] = &[
    "CONDA_PREFIX",
    variables::CONFIG,
    "CUDACXX",
    "CUDAToolkit_ROOT",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDNN_HOME",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_ROOT_DIR",
    "CUTENSOR_ROOT",
    variables::LIBRARY_PATH,
    variables::PRELOAD,
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NVHPC",
    "NVHPC_ROOT",
    "PATH",
    "PYTHONPATH",
    "PYTHONUSERBASE",
    "TRITON_PTXAS_BLACKWELL_PATH",
    "TRITON_PTXAS_PATH",
    "VIRTUAL_ENV",
];
/// Variables of settings that may hold relative paths, or mean the lock of the current directory.
const PATHS_OF_SETTINGS: [&str; 3] = [variables::ALSO, variables::LOCKED, variables::PIN];
/// The other variables that a plan depends on, beside those of settings.
const OTHERS: &[&str] = &[
    variables::PINS,
    variables::VIEW,
    "CUDA_DEVICE_ORDER",
    "CUDA_VISIBLE_DEVICES",
    "GLIBC_TUNABLES",
    "HOME",
    variables::AUDIT,
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

/// The variables that a plan depends on.
fn of_plan() -> impl Iterator<Item = &'static str> {
    let of_settings = KEYS.iter().map(|row| row.variable);
    let of_settings = of_settings.filter(|name| !name.is_empty());
    PATHS.iter().chain(OTHERS).copied().chain(of_settings)
}

/// The key of a start: equal keys may share a kept decision. `program` is the file that PATH gives for the command.
/// `None` if the file of cudarun itself cannot be found.
pub fn start_key(
    host: &Host,
    program: &Path,
    command: &Command,
    is_build: bool,
) -> Option<StartKey> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    let significant = significant(host, program, command);
    // A build is for the framework in the project's `.venv`.
    let needs_directory =
        is_build || significant.directory || program.is_relative() || has_relative_paths(host);
    let mut key = StartKey::new();
    let mut part = |value: Option<&[u8]>| key.push(value);
    for number in [
        own.id.device,
        own.id.inode,
        own.modified.0.cast_unsigned(),
        own.modified.1.cast_unsigned(),
    ] {
        part(Some(&number.to_le_bytes()));
    }
    part(Some(&host.uid.to_le_bytes()));
    part(Some(program.as_os_str().as_bytes()));
    part(Some(command.program.as_bytes()));
    for (place, argument) in command
        .arguments
        .iter()
        .take(significant.arguments)
        .enumerate()
    {
        if significant.code == Some(place) {
            part(Some(&without_numbers(argument.as_bytes())));
        } else {
            part(Some(argument.as_bytes()));
        }
    }
    part(None);
    part(needs_directory.then(|| host.cwd.as_os_str().as_bytes()));
    for name in of_plan() {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    for (name, value) in host.env.iter() {
        if reaches_libraries(name) {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    part(None);
    for name in builds::VARIABLES.iter().filter(|_| is_build) {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    part(is_build.then_some(&[][..]));
    // The project's file depends on the current directory.
    part(
        files::nearest(host)
            .as_deref()
            .map(|path| path.as_os_str().as_bytes()),
    );
    // A trace keeps the audit module loaded; the file that it writes to does not matter.
    part(host.env.non_empty(variables::TRACE).map(|_| &[][..]));
    for name in wrapper_variables().filter(|_| significant.wrapper) {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    if significant.wrapper {
        // A shell without arguments reads commands from its input; bash imports functions from the environment.
        part(Some(&[u8::from(is_at_terminal())]));
        for (name, value) in host
            .env
            .iter()
            .filter(|(name, _)| name.as_bytes().starts_with(b"BASH_FUNC_"))
        {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    Some(key)
}

/// True if a plan depends on this variable.
pub fn decides(name: &str) -> bool {
    of_plan().any(|variable| variable == name)
}

/// True if a variable may change the behaviour of libraries.
pub fn reaches_libraries(name: &OsStr) -> bool {
    REACH_LIBRARIES
        .iter()
        .any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
}

/// True if a variable holds a path that is relative to the current directory. An empty variable holds no path, except
/// `PATH`, where it means the current directory.
fn has_relative_paths(host: &Host) -> bool {
    PATHS.iter().chain(&PATHS_OF_SETTINGS).any(|name| {
        let value = host.env.get(name).unwrap_or(OsStr::new("/"));
        let separators: &[u8] = match *name {
            variables::ALSO | "PATH" | "PYTHONPATH" => b":",
            variables::LIBRARY_PATH => b":;",
            variables::PRELOAD => b": ",
            _ => b"",
        };
        let mut parts = value.as_bytes().split(|byte| separators.contains(byte));
        (*name == "PATH" || !value.is_empty()) && parts.any(depends_on_directory)
    })
}
