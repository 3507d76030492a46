use std::fs;
use std::path::Path;

use cudarun::catalog::ErrorKind;

use super::{chain, messages};

/// Lines of programs that worked, with the words of an error in another sense.
const ORDINARY: [&str; 25] = [
    "NCCL INFO NET/Plugin : dlerror=libnccl-net.so: cannot open shared object file: No such file or directory No plugin found (libnccl-net.so), using internal implementation",
    "mca_base_component_repository_open: unable to open mca_accelerator_cuda: libcuda.so.1: cannot open shared object file: No such file or directory (ignored)",
    "ucp_context.c:969  UCX  DIAG  failed to open module /usr/lib/ucx/libuct_cuda.so: libcuda.so.1: cannot open shared object file",
    "Relying on driver to perform ptx compilation. Modify $PATH to customize ptxas location.",
    "Successfully opened dynamic library cudart64_110.dll",
    "  adding 'torch/lib/cudnn64_9.dll'",
    "runtimes/win-x64/native/onnxruntime_providers_cuda.dll",
    "nvml monitor: 0 queries failed",
    "tests/test_nvml.py::test_init_failed PASSED",
    "[cuda:0] epoch 5 | top1 error 30 | top5 error 9",
    "warning: enumeration value 'cudaErrorNoDevice' not handled in switch [-Wswitch]",
    "pub const CUDA_ERROR_OUT_OF_MEMORY: cudaError_enum = 2;",
    "-- Looking for CUDA_ERROR_UNKNOWN - found",
    "tests/test_errors.py::test_name[cudaErrorMemoryAllocation] PASSED",
    "-- CUDA_TOOLKIT_ROOT_DIR not found or specified",
    "fatal error: curl/curl.h: No such file or directory",
    "fatal error: cups/cups.h: No such file or directory",
    "ls: cannot access 'x': Required key not available",
    "ERROR:  could not resize shared memory segment: posix_fallocate failed",
    "OOM when allocating tensor with shape[1024,1024] on /job:localhost/replica:0/task:0/device:CPU:0 by allocator cpu",
    "error: 0.11 | GPU 0 util 98%",
    "configuration: --enable-cuda-llvm --enable-nvenc --enable-error-resilience",
    "CUDA kernel errors might be asynchronously reported at some other API call",
    "failed to allocate 11.17G (11995578368 bytes) from device: CUDA_ERROR_OUT_OF_MEMORY: out of memory",
    "nvidia: module verification failed: signature and/or required key missing - tainting kernel",
];

#[test]
fn ordinary_lines_have_no_root() {
    for line in ORDINARY {
        let chain = chain(line);
        let roots = chain
            .leading
            .iter()
            .filter(|message| message.row.kind == ErrorKind::Root);
        let roots: Vec<&str> = roots.map(|root| root.row.id.as_str()).collect();
        assert!(roots.is_empty(), "{line}: {roots:?}");
    }
}

/// Logs of programs that worked, as `healthy.py` made them. A symptom may be in one, since a program may go on without a GPU;
/// a root may not.
#[test]
fn healthy_logs_have_no_root() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose/healthy");
    let (mut count, mut faults) = (0, Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let log = fs::read(&path).unwrap();
        count += 1;
        let messages = messages(&log);
        let roots = messages
            .iter()
            .filter(|message| message.row.kind == ErrorKind::Root);
        faults.extend(
            roots.map(|root| format!("{}: {} {}", path.display(), root.row.id, root.excerpt)),
        );
        // The control: the same log with an error in it.
        let with_error = [
            &log[..],
            b"\nImportError: libcudart.so.12: cannot open shared object file\n",
        ]
        .concat();
        let found = super::messages(&with_error);
        assert!(
            found
                .iter()
                .any(|message| message.row.id == "missing-library"),
            "{}",
            path.display()
        );
    }
    assert!(count >= 200, "{count} logs");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
