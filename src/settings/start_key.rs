//! The key of a kept start: the binary, the program, its arguments, and the variables that decide what it needs.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use super::files;
use crate::host::Host;
use crate::program::{Command, significant, wrapper_variables};
use crate::storage::Key;
use crate::variables;

/// The variables that a plan depends on. Those by which only other people's environments are found are not among them:
/// a start does not look there.
const VARIABLES: &[&str] = &[
    "CONDA_PREFIX",
    variables::CONFIG,
    variables::LOCKED,
    variables::PIN,
    variables::PINS,
    variables::PINS_FOR,
    variables::PIN_MODE,
    variables::REQUIRE,
    variables::USES,
    variables::VERIFY,
    variables::VERIFY_LEVEL,
    variables::VIEW,
    "CUDA_DEVICE_ORDER",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_ROOT",
    "CUDA_TOOLKIT_ROOT_DIR",
    "CUDA_VISIBLE_DEVICES",
    "CUDNN_HOME",
    "CUDNN_PATH",
    "CUDNN_ROOT",
    "CUDNN_ROOT_DIR",
    "CUTENSOR_ROOT",
    "GLIBC_TUNABLES",
    "HOME",
    variables::AUDIT,
    variables::LIBRARY_PATH,
    variables::PRELOAD,
    "LOADEDMODULES",
    "MODULEPATH",
    "NCCL_HOME",
    "NCCL_ROOT",
    "NCCL_ROOT_DIR",
    "NVHPC",
    "NVHPC_ROOT",
    "PATH",
    "PYENV_DIR",
    "PYENV_VERSION",
    "PYTHONHOME",
    "PYTHONNOUSERSITE",
    "PYTHONPATH",
    "PYTHONPLATLIBDIR",
    "PYTHONSAFEPATH",
    "PYTHONUSERBASE",
    "VIRTUAL_ENV",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_RUNTIME_DIR",
    "_LMFILES_",
];
/// The beginnings of the variables that the loader and NVIDIA's libraries read: what was proved was proved with these. What
/// the image of a container asks for is among them.
const REACH_LIBRARIES: [&str; 8] =
    ["CUBLAS", "CUDA_", "CUDNN_", "GLIBC_TUNABLES", "LD_", "MALLOC_", "NCCL_", "NVIDIA_"];
/// The variables that hold paths, and what may stand between them. One that is relative or empty is looked up
/// from the current directory.
const PATHS: &[(&str, &[u8])] = &[
    ("CONDA_PREFIX", b""),
    (variables::CONFIG, b""),
    // A lock stands in the current directory, and an installation may be pinned by where it stands from there.
    (variables::LOCKED, b""),
    (variables::PIN, b""),
    ("CUDA_HOME", b""),
    ("CUDA_PATH", b""),
    ("CUDA_ROOT", b""),
    ("CUDA_TOOLKIT_ROOT_DIR", b""),
    ("CUDNN_HOME", b""),
    ("CUDNN_PATH", b""),
    ("CUDNN_ROOT", b""),
    ("CUDNN_ROOT_DIR", b""),
    ("CUTENSOR_ROOT", b""),
    (variables::LIBRARY_PATH, b":;"),
    (variables::PRELOAD, b": "),
    ("NCCL_HOME", b""),
    ("NCCL_ROOT", b""),
    ("NCCL_ROOT_DIR", b""),
    ("NVHPC", b""),
    ("NVHPC_ROOT", b""),
    ("PATH", b":"),
    ("PYTHONPATH", b":"),
    ("PYTHONUSERBASE", b""),
    ("VIRTUAL_ENV", b""),
];
/// The key of starting `program`, the file that PATH gives for the command.
pub fn start_key(host: &Host, program: &Path, command: &Command) -> Option<Key> {
    let own = host.stat(Path::new("/proc/self/exe")).ok()?;
    let significant = significant(host, program, command);
    let needs_directory = significant.directory || program.is_relative() || has_relative_paths(host);
    let mut key = Key::new();
    let mut part = |value: Option<&[u8]>| key.push(value);
    for number in
        [own.id.device, own.id.inode, own.modified.0.cast_unsigned(), own.modified.1.cast_unsigned()]
    {
        part(Some(&number.to_le_bytes()));
    }
    part(Some(&host.uid.to_le_bytes()));
    part(Some(program.as_os_str().as_bytes()));
    part(Some(command.program.as_bytes()));
    for argument in &command.arguments[..significant.arguments.min(command.arguments.len())] {
        part(Some(argument.as_bytes()));
    }
    part(None);
    part(needs_directory.then(|| host.cwd.as_os_str().as_bytes()));
    for name in VARIABLES {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    for (name, value) in host.env.iter() {
        if reaches_libraries(name) {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    part(None);
    // Which file of a project counts is another question in every directory.
    part(files::nearest(host).as_deref().map(|path| path.as_os_str().as_bytes()));
    // A trace wants our module to stay; which file it writes to is the same to us.
    part(host.env.non_empty(variables::TRACE).map(|_| &[][..]));
    for name in wrapper_variables().filter(|_| significant.wrapper) {
        part(host.env.get(name).map(OsStr::as_bytes));
    }
    if significant.wrapper {
        // A shell without words reads its commands; bash takes functions from the environment.
        part(Some(&[u8::from(significant.at_terminal)]));
        for (name, value) in host.env.iter().filter(|(name, _)| name.as_bytes().starts_with(b"BASH_FUNC_")) {
            part(Some(name.as_bytes()));
            part(Some(value.as_bytes()));
        }
    }
    Some(key)
}

/// Whether a plan may depend on a variable, by its name.
pub fn decides(name: &str) -> bool {
    VARIABLES.contains(&name)
}

/// Whether a variable may change what a library does.
pub fn reaches_libraries(name: &OsStr) -> bool {
    REACH_LIBRARIES.iter().any(|beginning| name.as_bytes().starts_with(beginning.as_bytes()))
}

/// Whether one of the lists of paths leads somewhere else in another directory. An empty variable is no
/// list, but for `PATH`, where it means the current directory.
fn has_relative_paths(host: &Host) -> bool {
    PATHS.iter().any(|(name, separators)| {
        let Some(value) = host.env.get(name).map(OsStr::as_bytes) else { return false };
        let mut parts = value.split(|byte| separators.contains(byte));
        (*name == "PATH" || !value.is_empty()) && parts.any(|part| !part.starts_with(b"/"))
    })
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "arranges what is looked at")]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_key_knows_every_variable_that_a_plan_depends_on() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("proc/self")).unwrap();
        fs::write(root.path().join("proc/self/exe"), b"").unwrap();
        let key = |variable: Option<(&str, &str)>| {
            let env = variable.into_iter().collect();
            let host = Host::at(root.path(), env, "/".into()).unwrap();
            let command = Command { program: "true".into(), arguments: Vec::new() };
            start_key(&host, Path::new("/bin/true"), &command).unwrap()
        };
        assert_eq!(key(Some(("OTHER", "/a"))), key(None), "the control");
        for beginning in REACH_LIBRARIES {
            let name = format!("{beginning}X");
            assert!(key(Some((&name, "/a"))) != key(None), "{name}");
        }
        let decide = [
            "CONDA_PREFIX",
            variables::CONFIG,
            variables::LOCKED,
            variables::PIN,
            variables::PINS,
            variables::PINS_FOR,
            variables::PIN_MODE,
            variables::REQUIRE,
            variables::USES,
            variables::VERIFY,
            variables::VERIFY_LEVEL,
            variables::VIEW,
            "CUDA_DEVICE_ORDER",
            "CUDA_HOME",
            "CUDA_PATH",
            "CUDA_ROOT",
            "CUDA_TOOLKIT_ROOT_DIR",
            "CUDA_VISIBLE_DEVICES",
            "CUDNN_HOME",
            "CUDNN_PATH",
            "CUDNN_ROOT",
            "CUDNN_ROOT_DIR",
            "CUTENSOR_ROOT",
            "GLIBC_TUNABLES",
            "HOME",
            variables::AUDIT,
            variables::LIBRARY_PATH,
            variables::PRELOAD,
            "LOADEDMODULES",
            "MODULEPATH",
            "NCCL_HOME",
            "NCCL_ROOT",
            "NCCL_ROOT_DIR",
            "NVHPC",
            "NVHPC_ROOT",
            "NVIDIA_DISABLE_REQUIRE",
            "NVIDIA_REQUIRE_CUDA",
            "NVIDIA_REQUIRE_JETPACK",
            "PATH",
            "PYENV_DIR",
            "PYENV_VERSION",
            "PYTHONHOME",
            "PYTHONNOUSERSITE",
            "PYTHONPATH",
            "PYTHONPLATLIBDIR",
            "PYTHONSAFEPATH",
            "PYTHONUSERBASE",
            "VIRTUAL_ENV",
            "XDG_CACHE_HOME",
            "XDG_CONFIG_HOME",
            "XDG_RUNTIME_DIR",
            "_LMFILES_",
        ];
        for name in decide {
            let (one, other) = (key(Some((name, "/a"))), key(Some((name, "/b"))));
            assert!(one != other && one != key(None), "{name}");
        }
    }
}
