//! The situations of the classic reports, with their right answers; and SONAMEs that say less than they seem to, where
//! symbols decide.

use std::fs;

use cudarun::requirements::Demand;
use cudarun::solve::{Caution, Reason};

use crate::support::Run;
use crate::support::decided::{Decided, decided, decided_with};
use crate::support::machine::Machine;
use crate::support::parts::{
    SHIELDED, SITE, SUBLIBRARIES, SYSTEM, cudnn, driver, elf, kernel, library, link, machine,
    program, python, text,
};

fn explain(machine: &Machine, library_path: &str) -> Decided {
    decided(machine, library_path, &["app"])
}

/// The reason against the installation in a directory, that under a clash.
#[track_caller]
fn why_not<'d>(decided: &'d Decided, family: &str, directory: &str) -> &'d Reason {
    decided.reason(family, directory).deepest()
}

/// A whole cuDNN 8.
fn cudnn8(directory: &str, version: &str) -> String {
    let number = version.replace('.', "_");
    let part = |stem: &str, fields: &str| {
        let fields = format!("soname = '{stem}.so.8', runpath = '$ORIGIN', {fields}");
        elf(&format!("{directory}/{stem}.so.8"), &fields)
    };
    let of_version = format!(
        "constants = ['cudnn_version_{number}_'], functions = {{ cudnnGetCudartVersion = 11020 }}"
    );
    let rest = [
        "ops_train",
        "cnn_infer",
        "cnn_train",
        "adv_infer",
        "adv_train",
    ];
    part("libcudnn", "")
        + &part("libcudnn_ops_infer", &of_version)
        + &rest
            .map(|name| part(&format!("libcudnn_{name}"), ""))
            .concat()
}

#[test]
fn a_mixed_or_incomplete_family_loads_and_then_fails() {
    let app = || program("app", &["libcudnn.so.9", "libc.so.6"], "");
    let (whole, torn) = (
        cudnn("/opt/whole", "9.1.0.70", SHIELDED),
        cudnn("/opt/torn", "9.10.2.21", SHIELDED),
    );
    let engines = SUBLIBRARIES[4];
    let missing = torn.replace(
        &format!("/opt/torn/{engines}.so.9"),
        "/opt/elsewhere/x.so.9",
    );
    let graph = cudnn("/opt/mixed", "9.10.2.21", SHIELDED);
    let foreign = "runpath = '$ORIGIN', functions = { cudnnCnnVersionCheck = 90100 }";
    let cnn = "soname = 'libcudnn_cnn.so.9', runpath = '$ORIGIN'";
    let mixed = graph.replace(cnn, &format!("soname = 'libcudnn_cnn.so.9', {foreign}"));
    let machine = machine(&[whole, missing, mixed, app()]);
    let explained = explain(&machine, "/opt/torn:/opt/mixed:/opt/whole");
    assert_eq!(explained.picked("cudnn"), "/opt/whole", "older, and sound");
    assert!(matches!(
        why_not(&explained, "cudnn", "/opt/torn"),
        Reason::Incomplete { .. }
    ));
    assert!(matches!(
        why_not(&explained, "cudnn", "/opt/mixed"),
        Reason::Mixed { .. }
    ));
    let conflict = explain(&machine, "/opt/torn:/opt/mixed");
    assert_eq!(conflict.unmet[0].candidates.len(), 2, "{conflict:#?}");
}

#[test]
fn another_major_of_cudnn_is_no_cudnn_for_a_program() {
    let machine = machine(&[
        cudnn("/opt/nine", "9.1.0.70", SHIELDED),
        // A user gave it this name to make an error disappear.
        link("/opt/nine/libcudnn.so.8", "libcudnn.so.9"),
        cudnn8("/opt/eight", "8.9.7"),
        program("app", &["libcudnn.so.8", "libc.so.6"], ""),
    ]);
    let explained = explain(&machine, "/opt/nine:/opt/eight");
    assert_eq!(explained.picked("cudnn"), "/opt/eight");
    let version = explained.pick("cudnn").installation.version;
    assert_eq!(version, "8.9.7".parse().ok());
    let conflict = explain(&machine, "/opt/nine");
    assert!(matches!(
        why_not(&conflict, "cudnn", "/opt/nine"),
        Reason::OtherName { .. }
    ));
    assert_eq!(conflict.contradictions[0].members.len(), 1);
    assert_eq!(
        conflict.hint,
        "install cuDNN 8 for CUDA 12, and add its directory to LD_LIBRARY_PATH"
    );
}

fn nvjitlink(directory: &str, version: &str, minors: &[u32]) -> String {
    let exports: Vec<String> = minors
        .iter()
        .map(|minor| format!("__nvJitLinkCreate_12_{minor}"))
        .collect();
    library(
        directory,
        "libnvJitLink",
        "12",
        version,
        &format!("exports = {exports:?}"),
    )
}

/// All of CUDA 12 have the SONAME libnvJitLink.so.12, and each exports what came up to its minor.
#[test]
fn an_nvjitlink_older_than_cusparse_is_told_by_its_symbols() {
    let imports = "imports = { 'libnvJitLink.so.12' = ['__nvJitLinkCreate_12_4'] }";
    let fields = format!("needed = ['libnvJitLink.so.12'], {imports}");
    let machine = machine(&[
        nvjitlink("/opt/old", "12.0.140", &[0]),
        nvjitlink("/opt/new", "12.6.85", &[0, 1, 2, 3, 4, 5, 6]),
        library("/opt/old", "libcusparse", "12", "12.3.1.170", &fields),
        program("app", &["libcusparse.so.12", "libc.so.6"], ""),
    ]);
    let explained = explain(&machine, "/opt/old:/opt/new");
    assert_eq!(explained.picked("cusparse"), "/opt/old");
    assert_eq!(
        explained.picked("nvjitlink"),
        "/opt/new",
        "although the other stands beside it"
    );
    assert!(matches!(
        why_not(&explained, "nvjitlink", "/opt/old"),
        Reason::LacksSymbols { .. }
    ));
    let conflict = explain(&machine, "/opt/old");
    assert_eq!(
        conflict.hint,
        "install nvJitLink 12.4 or newer for CUDA 12, and add its directory to LD_LIBRARY_PATH"
    );
}

/// Both files are one family, and must be of one build.
#[test]
fn a_cublas_beside_the_cublaslt_of_another_build_is_told_by_its_symbols() {
    let lt = |directory: &str, exports: &str| {
        elf(
            &format!("{directory}/libcublasLt.so.12"),
            &format!("soname = 'libcublasLt.so.12', exports = [{exports}]"),
        )
    };
    let imports = "imports = { 'libcublasLt.so.12' = ['cublasLtGetEnvironmentMode'] }, needed = ['libcublasLt.so.12']";
    let cublas = |directory: &str| library(directory, "libcublas", "12", "12.9.1.4", imports);
    let machine = machine(&[
        cublas("/opt/torn") + &lt("/opt/torn", "'cublasLtMatmul'"),
        cublas("/opt/whole")
            + &lt(
                "/opt/whole",
                "'cublasLtMatmul', 'cublasLtGetEnvironmentMode'",
            ),
        program("app", &["libcublas.so.12", "libc.so.6"], ""),
    ]);
    let explained = explain(&machine, "/opt/torn:/opt/whole");
    assert_eq!(explained.picked("cublas"), "/opt/whole");
    assert!(matches!(
        why_not(&explained, "cublas", "/opt/torn"),
        Reason::LacksSymbols { .. }
    ));
}

/// libcusolver.so.11 is CUDA 11's and CUDA 12's, libcusparse.so.12 is CUDA 12's and CUDA 13's.
#[test]
fn one_soname_of_two_cudas_is_recognised_by_its_dependencies() {
    let cusolver = |directory: &str, version: &str, cublas: &str| {
        let fields =
            format!("needed = ['{cublas}'], imports = {{ '{cublas}' = ['cublasCreate_v2'] }}");
        library(directory, "libcusolver", "11", version, &fields)
    };
    let cublas = |directory: &str, number: &str, version: &str| {
        let lt = format!("libcublasLt.so.{number}");
        library(
            directory,
            "libcublas",
            number,
            version,
            &format!("exports = ['cublasCreate_v2'], needed = ['{lt}']"),
        ) + &elf(&format!("{directory}/{lt}"), &format!("soname = '{lt}'"))
    };
    let files = [
        cusolver("/opt/11", "11.4.1.48", "libcublas.so.11"),
        cusolver("/opt/12", "11.6.1.9", "libcublas.so.12"),
        cublas("/opt/11", "11", "11.11.3.6"),
        cublas("/opt/12", "12", "12.4.5.8"),
    ];
    let of = |cublas: &str| {
        let app = program("app", &["libcusolver.so.11", cublas, "libc.so.6"], "");
        machine(&[files.concat(), app])
    };
    let path = "/opt/11:/opt/12";
    let eleven = of("libcublas.so.11");
    assert_eq!(explain(&eleven, path).picked("cusolver"), "/opt/11");
    let twelve = of("libcublas.so.12");
    assert_eq!(explain(&twelve, path).picked("cusolver"), "/opt/12");
    let torn = explain(&twelve, "/opt/11");
    assert_eq!(torn.decision, "conflict", "CUDA 11's alone does not do");
    let half = of("libcublas.so.12");
    fs::remove_file(half.real("/opt/12/libcusolver.so.11")).unwrap();
    fs::remove_file(half.real("/opt/12/libcusolver.so.11.6.1.9")).unwrap();
    let torn = explain(&half, path);
    assert_eq!(
        torn.hint,
        "install cuSOLVER for CUDA 12, and add its directory to LD_LIBRARY_PATH"
    );
}

/// Every NCCL is libnccl.so.2, and its symbols have no versions: an import does not say that it is from there.
#[test]
fn an_nccl_that_lacks_what_is_imported_is_told_by_its_symbols() {
    let nccl = |directory: &str, version: &str, more: &str| {
        library(
            directory,
            "libnccl",
            "2",
            version,
            &format!("unversioned = true, exports = ['ncclCommInitRank'{more}]"),
        )
    };
    let imports = "imports = { '' = ['ncclCommInitRank', 'ncclCommRegister', 'malloc'] }";
    let files = |imports: &str| {
        machine(&[
            nccl("/opt/old", "2.18.1", ""),
            nccl("/opt/new", "2.21.5", ", 'ncclCommRegister'"),
            program("app", &["libnccl.so.2", "libc.so.6"], imports),
        ])
    };
    let explained = explain(&files(imports), "/opt/old:/opt/new");
    assert_eq!(explained.picked("nccl"), "/opt/new");
    assert!(matches!(
        why_not(&explained, "nccl", "/opt/old"),
        Reason::LacksSymbols { .. }
    ));
    let conflict = explain(&files(imports), "/opt/old");
    let text = conflict.unmet[0].candidates[0].reason.to_string();
    assert_eq!(text, "lacks `ncclCommRegister`, which app imports");
    let fewer = "imports = { '' = ['ncclCommInitRank'] }";
    let control = explain(&files(fewer), "/opt/old");
    assert_eq!(control.picked("nccl"), "/opt/old");
}

/// The record of TensorFlow 2.5: built with CUDA 11.2 and cuDNN 8.1.0.
fn tensorflow() -> String {
    let build_info = "build_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_80', 'compute_80']), \
        ('cuda_version', '11.2'), ('cudnn_version', '8'), ('is_cuda_build', True)])\n";
    let header = "#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 1\n#define CUDNN_PATCHLEVEL 0\n";
    let at = |path: &str| format!("{SITE}/tensorflow/{path}");
    text(&at("__init__.py"), "")
        + &text(&at("python/platform/build_info.py"), build_info)
        + &text(
            &at("include/third_party/gpus/cudnn/include/cudnn_version.h"),
            header,
        )
        + &elf(
            &at("libtensorflow_framework.so.2"),
            "soname = 'libtensorflow_framework.so.2'",
        )
        + &text(
            &format!("{SITE}/tensorflow-2.5.0.dist-info/METADATA"),
            "Name: tensorflow\nVersion: 2.5.0\n\n",
        )
}

/// The rest of CUDA 11, as far as TensorFlow asks for it.
fn cuda11(directory: &str) -> String {
    let parts = [
        ("libcudart", "11.0", "11.2.152"),
        ("libcublas", "11", "11.4.1.1043"),
        ("libcublasLt", "11", "11.4.1.1043"),
        ("libcufft", "10", "10.4.1.152"),
        ("libcurand", "10", "10.2.3.152"),
        ("libcusolver", "11", "11.1.0.152"),
        ("libcusparse", "11", "11.4.1.1152"),
    ];
    parts
        .map(|(stem, number, version)| library(directory, stem, number, version, ""))
        .concat()
}

/// An NVIDIA A100 that the driver of CUDA 11.2 runs.
fn ampere() -> String {
    let bus = "0000:01:00.0";
    kernel("460.32.03")
        + &text(
            &format!("/proc/driver/nvidia/gpus/{bus}/information"),
            "Model: \t A100\nBus Location: \t 0000:01:00.0\n",
        )
        + &text(&format!("/sys/bus/pci/devices/{bus}/device"), "0x20b0")
        + &driver("/usr/lib/x86_64-linux-gnu", "460.32.03")
}

#[track_caller]
fn explain_python(machine: &Machine, library_path: &str, code: &str) -> Decided {
    decided(machine, library_path, &["python3", "-c", code])
}

/// "Loaded runtime CuDNN library: 8.0.5 but source was compiled with: 8.1.0"
#[test]
fn a_cudnn_older_than_what_was_compiled_with_is_left_for_a_newer() {
    let base = || {
        [
            ampere(),
            cuda11("/opt/cuda"),
            tensorflow(),
            cudnn8("/opt/cuda", "8.0.5"),
        ]
        .concat()
    };
    let import = "import tensorflow";
    let alone = python(&[base()]);
    let conflict = explain_python(&alone, "/opt/cuda", import);
    assert!(matches!(
        why_not(&conflict, "cudnn", "/opt/cuda"),
        Reason::TooOld { .. }
    ));
    assert_eq!(
        conflict.hint,
        "/opt/venv/bin/python3 -m pip install \"nvidia-cudnn-cu11==8.9.6.50\""
    );
    let words = ["export", "python3", "-c", import];
    Run::on(&alone, &words)
        .env("LD_LIBRARY_PATH", "/opt/cuda")
        .status(1)
        .stderr_contains(&[
            "no cuDNN here fits `tensorflow 2.5.0`",
            "8.1 or newer",
            "8.0.5",
            "older than 8.1",
        ])
        .check();
    for newer in ["8.1.1", "8.9.7"] {
        let machine = python(&[base(), cudnn8("/opt/newer", newer)]);
        let explained = explain_python(&machine, "/opt/cuda:/opt/newer", import);
        assert_eq!(explained.picked("cudnn"), "/opt/newer");
        assert!(matches!(
            why_not(&explained, "cudnn", "/opt/cuda"),
            Reason::TooOld { .. }
        ));
        assert_eq!(explained.picked("cublas"), "/opt/cuda");
    }
}

fn torch(version: &str, cuda: &str, cudnn: &str, code: &str) -> String {
    let at = |path: &str| format!("{SITE}/torch/{path}");
    let major = &cuda[..2];
    let pin = format!(
        "Name: torch\nVersion: {version}\nRequires-Dist: nvidia-cudnn-cu{major}=={cudnn}\n\n"
    );
    let number = cudnn.split('.').next().unwrap();
    let fields = format!(
        "soname = 'libtorch_cuda.so', needed = ['libcudnn.so.{number}'], rpath = '$ORIGIN'"
    );
    let flags = format!("#define NVCC_FLAGS_EXTRA \"{code}\"\n");
    text(&at("__init__.py"), "")
        + &text(&at("version.py"), &format!("cuda = '{cuda}'\n"))
        + &text(&at("include/ATen/cuda/CUDAConfig.h"), &flags)
        + &elf(&at("lib/libtorch_cuda.so"), &fields)
        + &text(&format!("{SITE}/torch-{version}.dist-info/METADATA"), &pin)
}

const TURING_ON: &str = "-gencode;arch=compute_75,code=sm_75;-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_90,code=sm_90";

#[test]
fn a_framework_for_cudnn_8_is_not_given_cudnn_9() {
    let files = [
        torch("2.1.2", "11.8", "8.7.0.84", TURING_ON),
        cudnn(SYSTEM, "9.1.0.70", SHIELDED),
    ];
    let no_gpu = explain_python(&python(&files), "", "import torch");
    assert_eq!(
        no_gpu.decision, "nothing",
        "the control: what torch makes of that is its own affair"
    );
    let files = [files.concat(), ampere()];
    let machine = python(&files);
    let conflict = explain_python(&machine, "", "import torch");
    assert!(matches!(
        why_not(&conflict, "cudnn", SYSTEM),
        Reason::OtherName { .. }
    ));
    assert_eq!(
        conflict.hint,
        "/opt/venv/bin/python3 -m pip install \"nvidia-cudnn-cu11==8.7.0.84\" \"nvidia-cublas-cu11==11.11.3.6\""
    );
    let with_eight = python(&[files.concat(), cudnn8("/opt/eight", "8.9.6")]);
    let eight = explain_python(&with_eight, "/opt/eight", "import torch");
    assert_eq!(eight.picked("cudnn"), "/opt/eight");
}

/// "no kernel image is available for execution on the device"
#[test]
fn a_build_without_code_for_this_gpu_cannot_be_helped_by_a_path() {
    let gpu = |minor: u32, device: &str| {
        let bus = format!("0000:0{minor}:00.0");
        let information = format!(
            "Model: \t GPU {minor}\nGPU UUID: \t GPU-{minor}\nBus Location: \t {bus}\nDevice Minor: \t {minor}\n"
        );
        text(
            &format!("/proc/driver/nvidia/gpus/{bus}/information"),
            &information,
        ) + &text(&format!("/sys/bus/pci/devices/{bus}/device"), device)
    };
    let base = kernel("580.159.04")
        + &driver(SYSTEM, "580.159.04")
        + &cudnn(&format!("{SITE}/torch/lib"), "9.1.0.70", SHIELDED);
    let torch = torch("2.11.0", "12.8", "9.1.0.70", TURING_ON);
    // A GeForce GTX 1080: too old for the build.
    let old = python(&[base.clone(), torch.clone(), gpu(0, "0x1b80")]);
    let conflict = explain_python(&old, "", "import torch");
    let Demand::Code(code) = &conflict.broken[0].condition.demand else {
        panic!("{conflict:#?}")
    };
    assert_eq!(code.first().unwrap().to_string(), "sm_75");
    assert_eq!(
        conflict.hint,
        "/opt/venv/bin/python3 -m pip install \"torch>=2.1,<2.8\""
    );
    Run::on(&old, &["export", "python3", "-c", "import torch"])
        .status(1)
        .stderr_contains(&[
            "`torch 2.11.0` has no code for the GPU of this machine",
            "compute capability 6.1",
            "no library path can help",
        ])
        .check();
    // A GeForce RTX 5090: too new for it, and what is there already satisfies `>=2.11`.
    let new = python(&[base.clone(), torch.clone(), gpu(0, "0x2b85")]);
    let conflict = explain_python(&new, "", "import torch");
    assert_eq!(
        conflict.hint,
        "/opt/venv/bin/python3 -m pip install \"torch>=2.8,<2.11\""
    );
    // Beside a GPU that it has code for it is left out, and that is said.
    // Nor does it matter what its libraries have for that one.
    let ops = "soname = 'libcudnn_ops.so.9', runpath = '$ORIGIN'";
    let base = base.replace(ops, &format!("{ops}, code = ['sm_75', 'sm_90']"));
    let both = python(&[
        base,
        torch,
        gpu(0, "0x1b80"),
        gpu(1, "0x2335"),
        text("/dev/nvidia1", ""),
    ]);
    let explained = explain_python(&both, "", "import torch");
    assert!(
        matches!(explained.cautions[0], Caution::LeavesOut { .. }),
        "{explained:#?}"
    );
    let hidden = [("CUDA_VISIBLE_DEVICES", "")];
    let hidden = decided_with(&old, &hidden, &["python3", "-c", "import torch"]);
    assert_eq!(hidden.decision, "plan", "the control: no GPU is meant");
}
