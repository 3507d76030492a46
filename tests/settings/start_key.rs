//! The key of a kept start.

use std::fs;
use std::path::Path;

use cudarun::host::Host;
use cudarun::kept::start_key;
use cudarun::program::Command;

#[test]
fn a_key_knows_every_variable_that_a_plan_depends_on() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("proc/self")).unwrap();
    fs::write(root.path().join("proc/self/exe"), b"").unwrap();
    let key = |variable: Option<(&str, &str)>| {
        let env = variable.into_iter().collect();
        let host = Host::at(root.path(), env, "/".into()).unwrap();
        let command = Command {
            program: "true".into(),
            arguments: Vec::new(),
        };
        start_key(&host, Path::new("/bin/true"), &command, false).unwrap()
    };
    assert_eq!(key(Some(("OTHER", "/a"))), key(None), "the control");
    let reach_libraries = [
        "CUBLAS",
        "CUDA_",
        "CUDNN_",
        "GLIBC_TUNABLES",
        "LD_",
        "MALLOC_",
        "NCCL_",
        "NVIDIA_",
    ];
    for beginning in reach_libraries {
        let name = format!("{beginning}X");
        assert!(key(Some((&name, "/a"))) != key(None), "{name}");
    }
    let decide = "CONDA_PREFIX CUDARUN_ALSO CUDARUN_CONFIG CUDARUN_FETCH CUDARUN_FOLLOW CUDARUN_LOCKED CUDARUN_ON_FAILURE CUDARUN_PIN CUDARUN_PINS \
        CUDARUN_PIN_MODE CUDARUN_REQUIRE CUDARUN_USES CUDARUN_VERIFY \
        CUDARUN_VERIFY_LEVEL CUDARUN_VIEW CUDARUN_WITHOUT CUDACXX CUDAToolkit_ROOT CUDA_DEVICE_ORDER CUDA_HOME CUDA_PATH \
        CUDA_ROOT CUDA_TOOLKIT_ROOT_DIR CUDA_VISIBLE_DEVICES CUDNN_HOME CUDNN_PATH \
        CUDNN_ROOT CUDNN_ROOT_DIR CUTENSOR_ROOT GLIBC_TUNABLES HOME LD_AUDIT \
        LD_LIBRARY_PATH LD_PRELOAD LOADEDMODULES MODULEPATH NCCL_HOME NCCL_ROOT \
        NCCL_ROOT_DIR NVHPC NVHPC_ROOT NVIDIA_DISABLE_REQUIRE NVIDIA_REQUIRE_CUDA \
        NVIDIA_REQUIRE_JETPACK PATH PYENV_DIR PYENV_VERSION PYTHONHOME PYTHONNOUSERSITE \
        PYTHONPATH PYTHONPLATLIBDIR PYTHONSAFEPATH PYTHONUSERBASE TRITON_PTXAS_BLACKWELL_PATH TRITON_PTXAS_PATH VIRTUAL_ENV \
        XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME \
        XDG_RUNTIME_DIR XLA_FLAGS _LMFILES_";
    for name in decide.split(' ') {
        let (one, other) = (key(Some((name, "/a"))), key(Some((name, "/b"))));
        assert!(one != other && one != key(None), "{name}");
    }
}

#[test]
fn only_relative_paths_make_the_directory_part_of_a_key() {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("proc/self")).unwrap();
    fs::write(root.path().join("proc/self/exe"), b"").unwrap();
    let key = |name: &str, value: &str, directory: &str| {
        let env = [(name, value)].into_iter().collect();
        let host = Host::at(root.path(), env, directory.into()).unwrap();
        let command = Command {
            program: "true".into(),
            arguments: Vec::new(),
        };
        start_key(&host, Path::new("/bin/true"), &command, false).unwrap()
    };
    for (name, absolute, relative) in [
        ("PATH", "/my tools/bin:/a;b", "/a:my tools"),
        ("PYTHONPATH", "/my code:/a;b", "/a:b"),
        ("CUDARUN_ALSO", "/my libraries:/a;b", "/a:b"),
        ("LD_LIBRARY_PATH", "/my libraries:/a;/b", "/a;b"),
        ("LD_PRELOAD", "/a;b.so /c.so:/d.so", "/a.so b.so"),
        ("CUDA_HOME", "/my cuda:12;a", "cuda"),
    ] {
        let differs = |value| key(name, value, "/one") != key(name, value, "/two");
        assert!(!differs(absolute), "{name}={absolute}");
        assert!(differs(relative), "{name}={relative}");
    }
}
