//! The key of a kept start: the binary, the program, its arguments, and the variables that decide its requirements.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::files;
use super::keys::KEYS;
use super::model::Key;
use crate::builds;
use crate::environment::depends_on_directory;
use crate::host::Host;
use crate::program::{Command, is_at_terminal, significant, without_numbers, wrapper_variables};
use crate::storage;
use crate::variables;

/// The variables that a plan depends on, beside those of settings. For those that hold paths: the bytes that separate paths. A start does not look into
/// other people's environments, so variables that lead there are missing.
const VARIABLES: &[(&str, Option<&[u8]>)] = &[
    ("CONDA_PREFIX", PATH),
    (variables::CONFIG, PATH),
    (variables::PINS, None),
    (variables::VIEW, None),
    ("CUDACXX", PATH),
    ("CUDAToolkit_ROOT", PATH),
    ("CUDA_DEVICE_ORDER", None),
    ("CUDA_HOME", PATH),
    ("CUDA_PATH", PATH),
    ("CUDA_ROOT", PATH),
    ("CUDA_TOOLKIT_ROOT_DIR", PATH),
    ("CUDA_VISIBLE_DEVICES", None),
    ("CUDNN_HOME", PATH),
    ("CUDNN_PATH", PATH),
    ("CUDNN_ROOT", PATH),
    ("CUDNN_ROOT_DIR", PATH),
    ("CUTENSOR_ROOT", PATH),
    ("GLIBC_TUNABLES", None),
    ("HOME", None),
    (variables::AUDIT, None),
    (variables::LIBRARY_PATH, Some(b":;")),
    (variables::PRELOAD, Some(b": ")),
    ("LOADEDMODULES", None),
    ("MODULEPATH", None),
    ("NCCL_HOME", PATH),
    ("NCCL_ROOT", PATH),
    ("NCCL_ROOT_DIR", PATH),
    ("NVHPC", PATH),
    ("NVHPC_ROOT", PATH),
    ("PATH", Some(b":")),
    ("PYENV_DIR", None),
    ("PYENV_VERSION", None),
    ("PYTHONHOME", None),
    ("PYTHONNOUSERSITE", None),
    ("PYTHONPATH", Some(b":")),
    ("PYTHONPLATLIBDIR", None),
    ("PYTHONSAFEPATH", None),
    ("PYTHONUSERBASE", PATH),
    ("TRITON_PTXAS_BLACKWELL_PATH", PATH),
    ("TRITON_PTXAS_PATH", PATH),
    ("VIRTUAL_ENV", PATH),
    ("XDG_CACHE_HOME", None),
    ("XDG_CONFIG_HOME", None),
    ("XDG_DATA_HOME", None),
    ("XDG_RUNTIME_DIR", None),
    // A start may set it, and a person's value stays.
    ("XLA_FLAGS", None),
    ("_LMFILES_", None),
];
/// The value of a variable is one path.
const PATH: Option<&[u8]> = Some(b"");
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

/// The variables that a plan depends on, as in `VARIABLES`.
fn of_plan() -> impl Iterator<Item = (&'static str, Option<&'static [u8]>)> {
    let of_settings = KEYS
        .iter()
        .filter(|row| !row.variable.is_empty())
        .map(|row| {
            // The lock is in the current directory, and a pinned directory may be relative.
            let has_paths = matches!(row.key, Key::SearchAlso | Key::Pin | Key::Locked);
            (row.variable, has_paths.then_some(&b":"[..]))
        });
    VARIABLES.iter().copied().chain(of_settings)
}

/// The key of a start: equal keys may share a kept decision. `program` is the file that PATH gives for the command.
/// `None` if the file of cudarun itself cannot be found.
pub fn start_key(
    host: &Host,
    program: &Path,
    command: &Command,
    is_build: bool,
) -> Option<storage::Key> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    let significant = significant(host, program, command);
    // A build is for the framework in the project's `.venv`.
    let needs_directory =
        is_build || significant.directory || program.is_relative() || has_relative_paths(host);
    let mut key = storage::Key::new();
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
    for (name, _) in of_plan() {
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
    of_plan().any(|(variable, _)| variable == name)
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
    of_plan().any(|(name, separators)| {
        let (Some(separators), Some(value)) = (separators, host.env.get(name)) else {
            return false;
        };
        let mut parts = value.as_bytes().split(|byte| separators.contains(byte));
        (name == "PATH" || !value.is_empty()) && parts.any(depends_on_directory)
    })
}
