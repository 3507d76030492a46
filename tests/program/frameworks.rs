//! The build records of frameworks, in site-packages made of text: every way of recording, and every way in
//! which a record misleads. Real wheels are tested in `tests/real/frameworks.py`.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use cudarun::catalog::{Framework, catalog};
use serde_json::{Value, json};

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, driver, elf, kernel, library, python, text};

fn file(path: &str, contents: &str) -> String {
    text(&format!("{SITE}/{path}"), contents)
}

fn object(path: &str, fields: &str) -> String {
    elf(&format!("{SITE}/{path}"), fields)
}

fn metadata(name: &str, version: &str, requires: &[&str]) -> String {
    let lines: String = requires
        .iter()
        .map(|line| format!("Requires-Dist: {line}\n"))
        .collect();
    let directory = format!("{}-{version}.dist-info", name.replace('-', "_"));
    file(
        &format!("{directory}/METADATA"),
        &format!(
            "Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{lines}\nRequires-Dist: torch\n"
        ),
    )
}

fn target_of(machine: &Machine, code: &str) -> Value {
    // The status depends on finding a set, which is another question.
    let (text, _) = Run::on(machine, &["explain", "--json", "python3", "-c", code]).output();
    serde_json::from_str::<Value>(&text).unwrap()["program"].clone()
}

fn program(files: &[String], code: &str) -> Value {
    target_of(&python(files), code)
}

fn package<'v>(program: &'v Value, name: &str) -> &'v Value {
    let packages = program["packages"].as_array().unwrap();
    packages
        .iter()
        .find(|package| package["name"] == name)
        .unwrap_or_else(|| panic!("{name}\n{program:#}"))
}

/// The values of all requirements of one kind, such as "at-least", on a family.
fn wanted(program: &Value, family: &str, want: &str) -> Vec<String> {
    let all = program["requirements"].as_array().unwrap();
    let of_family = all
        .iter()
        .filter(|requirement| requirement["family"] == family);
    of_family
        .filter_map(|it| it["want"][want].as_str().map(str::to_owned))
        .collect()
}

fn floor(program: &Value) -> Vec<String> {
    wanted(program, "cudnn", "at-least")
}

fn pin(program: &Value) -> Vec<String> {
    wanted(program, "cudnn", "recorded")
}

fn names(program: &Value, family: &str) -> Vec<String> {
    let mut names = wanted(program, family, "name");
    names.dedup();
    names
}

/// The GPUs that there must be code for.
fn code(program: &Value) -> Vec<String> {
    let conditions = program["conditions"].as_array().unwrap();
    assert!(
        conditions
            .iter()
            .all(|condition| condition["only_with_gpu"] == true),
        "{conditions:#?}"
    );
    let lists = conditions
        .iter()
        .filter_map(|condition| condition["demand"]["code"].as_array());
    lists
        .flatten()
        .map(|it| it.as_str().unwrap().to_owned())
        .collect()
}

const VERSION: &str = "from typing import Optional\n__version__ = '2.5.1+cu124'\ndebug = False\ncuda: Optional[str] = '12.4'\nhip: Optional[str] = None\n";
const CONFIG: &str = "#pragma once\n#define AT_CUDNN_ENABLED() 1\n#define NVCC_FLAGS_EXTRA \"-gencode;arch=compute_80,code=sm_80;-gencode;arch=compute_90a,code=sm_90a;-gencode;arch=compute_90,code=compute_90\"\n";
const LINKED: &str = "needed = ['libcudnn.so.9', 'libcudart.so.12'], code = ['sm_37', 'sm_90']";

/// PyTorch with these texts in its own files.
fn torch(version: &str, config: &str) -> [String; 4] {
    [
        file("torch/__init__.py", ""),
        file("torch/version.py", version),
        file("torch/include/ATen/cuda/CUDAConfig.h", config),
        object("torch/lib/libtorch_cuda.so", LINKED),
    ]
}

#[test]
fn a_profile_is_a_file_and_no_more() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("profiles/frameworks");
    let files = fs::read_dir(directory)
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let files: BTreeSet<String> = files
        .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
        .collect();
    let names: BTreeSet<String> = catalog()
        .frameworks
        .iter()
        .map(|framework| framework.name.clone())
        .collect();
    assert_eq!(files, names, "each file is called like the framework in it");
    let least =
        "name = 'x'\nmodules = []\npackages = []\ndistributions = []\nsource = ''\ndate = ''\n";
    let read = |more: &str| toml::from_str::<Framework>(&format!("{least}{more}")).is_ok();
    assert!(read("") && read("[[cuda]]\nby = 'version-of'\ndistribution = 'y'"));
    assert!(!read("opened = []"), "a field that is none");
    assert!(!read("[[cuda]]\nby = 'guess'") && !read("[[cuda]]\nby = 'version-of'\nfile = 'y'"));
}

#[test]
fn a_profile_adds_to_the_names_in_shared_objects() {
    let least =
        "name = 'x'\nmodules = []\npackages = []\ndistributions = []\nsource = ''\ndate = ''\n";
    let scans = |more: &str| {
        toml::from_str::<Framework>(&format!("{least}{more}"))
            .unwrap()
            .scan_objects
    };
    assert!(scans("dlopens = ['libcudnn']\ndlopened_by = ['x/_C.so']"));
    assert!(!scans("scan_objects = false"), "the control");
    // This profile has `dlopens` and `dlopened_by`, and nothing here records a CUDA or a cuDNN.
    let provider = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
    let files = [
        file("onnxruntime/__init__.py", ""),
        object(provider, ""),
        object("onnxruntime/capi/_C.so", "constants = ['libcudnn.so.9']"),
    ];
    assert_eq!(
        names(&program(&files, "import onnxruntime"), "cudnn"),
        ["libcudnn.so.9"]
    );
}

#[test]
fn torch_records_its_cuda_and_its_gpus_in_text() {
    let program = program(&torch(VERSION, CONFIG), "import torch");
    assert_eq!(package(&program, "torch")["cuda"], "12.4");
    assert_eq!(package(&program, "torch")["cpu_only"], false);
    // Not what its library holds besides: parts of others for other GPUs.
    assert_eq!(code(&program), ["sm_80", "sm_90a", "compute_90"]);
    let by = &program["conditions"][0]["by"];
    assert_eq!(
        by["file"],
        format!("{SITE}/torch/include/ATen/cuda/CUDAConfig.h")
    );
    assert_eq!(by["name"], "torch");
}

#[test]
fn both_ways_to_write_a_requirement_and_extras_of_a_toolkit_are_pins() {
    let with = |requires: &[&str], more: &[String]| {
        let files = [
            &torch(VERSION, CONFIG)[..],
            &[metadata("torch", "2.5.1", requires)],
            more,
        ]
        .concat();
        program(&files, "import torch")
    };
    let marker = "platform_system == \"Linux\" and platform_machine == \"x86_64\"";
    let old = with(
        &[&format!("nvidia-cudnn-cu12 (==9.1.0.70) ; {marker}")],
        &[],
    );
    let new = with(&[&format!("nvidia-cudnn-cu12==9.1.0.70; {marker}")], &[]);
    assert_eq!(
        (pin(&old), pin(&new)),
        (vec!["9.1.0.70".to_owned()], vec!["9.1.0.70".to_owned()])
    );
    // A pin is what upstream tested with; that it was compiled with it is nowhere said.
    assert!(floor(&old).is_empty() && floor(&new).is_empty());
    let toolkit = metadata(
        "cuda-toolkit",
        // `==13.0.2` agrees with 13.0.2.0.
        "13.0.2.0",
        &[
            "nvidia-cublas==13.1.0.3.*; sys_platform == 'linux' and extra == 'cublas'",
            "nvidia-cufft==12.0.0.61.*; sys_platform == 'linux' and extra == 'cufft'",
        ],
    );
    let through = with(
        &[
            "cuda-toolkit[cublas]==13.0.2",
            "nvidia-cudnn-cu13==9.19.0.56",
        ],
        &[toolkit],
    );
    assert_eq!(wanted(&through, "cublas", "recorded"), ["13.1.0.3"]);
    assert_eq!(pin(&through), ["9.19.0.56"]);
    assert!(
        wanted(&through, "cufft", "recorded").is_empty(),
        "an extra that nobody asks for"
    );
}

/// Parts of a toolkit have one version, each in its own wheel. Two lines that say the same are one pin.
#[test]
fn each_family_keeps_its_pin_where_several_have_one_version() {
    let parts = [
        ("nvrtc", "nvidia-cuda-nvrtc-cu12"),
        ("cudart", "nvidia-cuda-runtime-cu12"),
        ("cupti", "nvidia-cuda-cupti-cu12"),
        ("nvjitlink", "nvidia-nvjitlink-cu12"),
    ];
    let mut requires: Vec<String> = parts
        .iter()
        .map(|(_, wheel)| format!("{wheel}==12.4.127"))
        .collect();
    requires.push(requires[1].clone());
    let requires: Vec<&str> = requires.iter().map(String::as_str).collect();
    let files = [
        &torch(VERSION, CONFIG)[..],
        &[metadata("torch", "2.5.1", &requires)],
    ]
    .concat();
    let program = program(&files, "import torch");
    for (family, _) in parts {
        assert_eq!(
            wanted(&program, family, "recorded"),
            ["12.4.127"],
            "{family}: {program:#}"
        );
    }
}

type Replace = fn(&Path);

#[test]
fn build_files_of_any_kind_are_no_error() {
    let contents: [(&str, Vec<u8>); 7] = [
        ("empty", Vec::new()),
        (
            "cut short",
            VERSION.as_bytes()[..VERSION.find("12.4").unwrap() + 2].to_vec(),
        ),
        ("not text", vec![0xff; 4096]),
        ("no version", b"cuda = 'twelve'\n".to_vec()),
        (
            "too many numbers",
            b"cuda = '99999999999999999999.4'\n".to_vec(),
        ),
        ("an open quote", b"cuda = '".to_vec()),
        ("a long line", vec![b'\''; 1 << 20]),
    ];
    let config = format!("{SITE}/torch/include/ATen/cuda/CUDAConfig.h");
    let check = |what: &str, machine: &Machine| {
        let program = target_of(machine, "import torch");
        assert_eq!(package(&program, "torch")["cuda"], Value::Null, "{what}");
        assert_eq!(package(&program, "torch")["cpu_only"], false, "{what}");
        assert_eq!(
            names(&program, "cudnn"),
            ["libcudnn.so.9"],
            "{what}: the rest is read all the same"
        );
        assert!(
            program["conditions"].as_array().unwrap().is_empty(),
            "{what}"
        );
    };
    for (what, bytes) in contents {
        let machine = python(&torch(VERSION, CONFIG));
        fs::write(machine.real(&format!("{SITE}/torch/version.py")), &bytes).unwrap();
        fs::write(machine.real(&config), &bytes).unwrap();
        check(what, &machine);
    }
    let replaced: [(&str, Replace); 4] = [
        ("a directory", |path| fs::create_dir(path).unwrap()),
        ("a fifo", |path| {
            nix::unistd::mkfifo(path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        }),
        ("a circle", |path| {
            std::os::unix::fs::symlink(path, path).unwrap();
        }),
        // The right text is beyond the part that is read.
        ("a hole of gigabytes", |path| {
            use std::os::unix::fs::FileExt;
            let hole = fs::File::create(path).unwrap();
            hole.write_at(
                b"\ncuda = '12.4'\n#define NVCC_FLAGS_EXTRA \"code=sm_80\"\n",
                3 << 30,
            )
            .unwrap();
        }),
    ];
    for (what, replace) in replaced {
        let machine = python(&torch(VERSION, CONFIG));
        for path in [format!("{SITE}/torch/version.py"), config.clone()] {
            fs::remove_file(machine.real(&path)).unwrap();
            replace(&machine.real(&path));
        }
        check(what, &machine);
    }
}

/// A kept start must not outlive what it was read from.
#[test]
fn the_files_that_say_it_are_watched() {
    let watched = |files: &[String], code: &str| {
        let machine = python(files);
        let env = [("PATH", "/opt/venv/bin:/usr/bin")].into_iter().collect();
        let host = cudarun::host::Host::at(machine.root(), env, "/".into()).unwrap();
        let arguments = ["-c", code].map(Into::into).to_vec();
        let command = cudarun::program::Command {
            program: "python3".into(),
            arguments,
        };
        cudarun::program::read(&host, &command, &[])
            .unwrap()
            .0
            .watched
    };
    let with = |name: &str| Path::new(SITE).join(name);
    let pinned = [
        &torch(VERSION, CONFIG)[..],
        &[metadata("torch", "2.5.1", &["nvidia-cudnn-cu12==9.1.0.70"])],
    ]
    .concat();
    let of_torch = watched(&pinned, "import torch");
    for name in [
        "torch/version.py",
        "torch/include/ATen/cuda/CUDAConfig.h",
        "torch-2.5.1.dist-info/METADATA",
    ] {
        assert!(of_torch.contains(&with(name)), "{name}: {of_torch:#?}");
    }
    let without = watched(&torch("cuda = None\n", CONFIG), "import torch");
    assert!(without.contains(&with("torch/version.py")), "{without:#?}");
}

#[test]
fn one_bad_byte_does_not_hide_the_other_lines() {
    let machine = python(&torch(VERSION, CONFIG));
    let source = [b"# d\xe9j\xe0\n".as_slice(), VERSION.as_bytes()].concat();
    fs::write(machine.real(&format!("{SITE}/torch/version.py")), source).unwrap();
    assert_eq!(
        package(&target_of(&machine, "import torch"), "torch")["cuda"],
        "12.4"
    );
}

const BUILD_INFO: &str = "import collections\nbuild_info = collections.OrderedDict([('cuda_compute_capabilities', ['sm_60', 'sm_89', 'compute_90']), ('cuda_version', '12.3'), ('cudnn_version', '8'), ('is_cuda_build', True), ('is_rocm_build', False)])\n";

fn tensorflow(build_info: &str, requires: &[&str]) -> Vec<String> {
    vec![
        file("tensorflow/__init__.py", ""),
        file("tensorflow/python/platform/build_info.py", build_info),
        object(
            "tensorflow/libtensorflow_framework.so.2",
            "soname = 'libtensorflow_framework.so.2'",
        ),
        metadata("tensorflow", "2.16.1", requires),
    ]
}

#[test]
fn tensorflow_records_a_major_in_python_and_the_rest_in_a_header() {
    let pinned = ["nvidia-cudnn-cu12 ==8.9.7.29 ; extra == 'and-cuda'"];
    let without = program(&tensorflow(BUILD_INFO, &pinned), "import tensorflow");
    assert_eq!(package(&without, "tensorflow")["cuda"], "12.3");
    assert_eq!(names(&without, "cudnn"), ["libcudnn.so.8"]);
    assert_eq!(
        pin(&without),
        ["8.9.7.29"],
        "of an extra too, as far as it is a wish"
    );
    assert!(floor(&without).is_empty(), "a major is no floor");
    assert_eq!(code(&without), ["sm_60", "sm_89", "sm_90", "compute_90"]);
    for essential in ["libcublas.so.12", "libcusolver.so.11", "libcudnn.so.8"] {
        let all = without["requirements"].as_array().unwrap();
        let found = all
            .iter()
            .find(|it| it["want"]["name"] == essential)
            .unwrap();
        assert_eq!(found["need"], "essential", "{essential}");
    }

    let header = "#define CUDNN_VERSION_H_\n\n#define CUDNN_MAJOR 8\n#define CUDNN_MINOR 9\n#define CUDNN_PATCHLEVEL 6\n#define CUDNN_VERSION (CUDNN_MAJOR * 1000)\n";
    let header = file(
        "tensorflow/include/third_party/gpus/cudnn/include/cudnn_version.h",
        header,
    );
    let with = program(
        &[tensorflow(BUILD_INFO, &pinned), vec![header]].concat(),
        "import tensorflow",
    );
    assert_eq!(
        (floor(&with), pin(&with)),
        (vec!["8.9.6".to_owned()], vec!["8.9.7.29".to_owned()])
    );

    // A range is no pin; where no header says more, its lower end counts.
    let nine = BUILD_INFO.replace("'8'", "'9'");
    let range = ["nvidia-cudnn-cu12<10.0,>=9.3.0.75; extra == \"and-cuda\""];
    let ranged = program(&tensorflow(&nine, &range), "import tensorflow");
    assert_eq!(
        (floor(&ranged), pin(&ranged)),
        (vec!["9.3.0.75".to_owned()], Vec::new())
    );
    assert_eq!(names(&ranged, "cudnn"), ["libcudnn.so.9"]);

    // If the Python file says nothing, the other header may.
    let macros = "#define TF_CUDA_VERSION \"12.5.1\"\n#define TF_CUDNN_VERSION \"9\"\n";
    let macros = file(
        "tensorflow/include/third_party/gpus/cuda/cuda_config.h",
        macros,
    );
    let second = program(
        &[tensorflow("build_info = None\n", &[]), vec![macros]].concat(),
        "import tensorflow",
    );
    assert_eq!(package(&second, "tensorflow")["cuda"], "12.5");
    assert_eq!(names(&second, "cudnn"), ["libcudnn.so.9"]);
}

#[test]
fn an_old_jaxlib_says_it_in_its_version() {
    let files = [
        file("jaxlib/__init__.py", ""),
        object("jaxlib/cuda/_solver.so", ""),
        metadata("jaxlib", "0.4.23+cuda12.cudnn89", &[]),
    ];
    let program = program(&files, "import jaxlib");
    assert_eq!(package(&program, "jax")["cuda"], "12.0");
    assert_eq!(floor(&program), ["8.9"]);
    assert_eq!(names(&program, "cudnn"), ["libcudnn.so.8"]);
}

#[test]
fn a_key_within_json_is_a_floor() {
    let cupy = |json: &str| {
        let files = [
            file("cupy/__init__.py", ""),
            file("cupy/.data/_wheel.json", json),
            object(
                "cupy/cuda/thrust.cpython-312-x86_64-linux-gnu.so",
                "code = ['sm_50', 'compute_90']",
            ),
            object(
                "cupy_backends/cuda/libs/cudnn.so",
                "needed = ['libcudnn.so.8']",
            ),
        ];
        program(&files, "import cupy")
    };
    let whole =
        r#"{"cuda": "12.x", "packaging": "pip", "cudnn": {"version": "8.8.1", "filenames": []}}"#;
    let found = cupy(whole);
    assert_eq!(package(&found, "cupy")["cuda"], "12.0");
    assert_eq!(floor(&found), ["8.8.1"]);
    assert_eq!(code(&found), ["sm_50", "compute_90"]);
    for none in [
        r#"{"cuda": "12.x"}"#,
        r#"{"cudnn": "8.8.1"}"#,
        r#"{"cudnn": {"version": 8}}"#,
        "{",
        "[]",
    ] {
        assert!(floor(&cupy(none)).is_empty(), "{none}");
    }
}

#[test]
fn the_name_of_what_was_packed_in_is_a_floor() {
    let packed = |name: &str| {
        let library = "libctranslate2-bc15bf3f.so.4.4.0";
        let files = [
            file("ctranslate2/__init__.py", ""),
            object(
                "ctranslate2/_ext.so",
                &format!("needed = ['{library}'], rpath = '$ORIGIN/../ctranslate2.libs'"),
            ),
            object(
                &format!("ctranslate2.libs/{library}"),
                &format!(
                    "needed = ['{name}'], constants = ['libcublas.so.12'], code = ['sm_86', 'compute_86']"
                ),
            ),
            object(&format!("ctranslate2.libs/{name}"), ""),
        ];
        program(&files, "import faster_whisper, ctranslate2")
    };
    let found = packed("libcudnn-74a4c495.so.8.9.7");
    assert_eq!(floor(&found), ["8.9.7"]);
    assert_eq!(wanted(&found, "cudnn", "exactly"), ["8.9.7"]);
    assert_eq!(
        names(&found, "cublas"),
        ["libcublas.so.12"],
        "the names in its objects count as well"
    );
    assert_eq!(code(&found), ["sm_86", "compute_86"]);
    for none in [
        "libcudnn-notahash.so.8.9.7",
        "libcudnn.so.8",
        "libother-74a4c495.so.8.9.7",
    ] {
        assert!(floor(&packed(none)).is_empty(), "{none}");
    }
}

#[test]
fn assigned_texts_are_a_floor() {
    let version =
        "full_version     = '2.6.2'\ncuda_version     = '11.8'\ncudnn_version    = '8.6.0'\n";
    let paddle = |version: &str| {
        let files = [
            file("paddle/__init__.py", ""),
            file("paddle/version/__init__.py", version),
            object(
                "paddle/libs/libphi.so",
                "runpath = '$ORIGIN', code = ['sm_70']",
            ),
        ];
        program(&files, "import paddle")
    };
    let found = paddle(version);
    assert_eq!(package(&found, "paddle")["cuda"], "11.8");
    assert_eq!(
        (floor(&found), names(&found, "cudnn")),
        (vec!["8.6.0".to_owned()], vec!["libcudnn.so.8".to_owned()])
    );
    assert_eq!(code(&found), ["sm_70"]);
    let unbuilt = paddle(
        &version
            .replace("'11.8'", "'False'")
            .replace("'8.6.0'", "'False'"),
    );
    assert_eq!(package(&unbuilt, "paddle")["cpu_only"], true);
}

#[test]
fn onnxruntime_is_linked_or_expects_to_be_preloaded_or_opens() {
    let provider = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
    let of = |fields: &str, more: &[String]| {
        let files = [
            file("onnxruntime/__init__.py", ""),
            object(provider, fields),
        ];
        program(&[&files[..], more].concat(), "import onnxruntime")
    };
    // Taken out of what is needed; only the versions of its symbols tell.
    let stripped = of(
        "imports = { 'libcudnn.so.8' = ['cudnnCreate'], 'libc.so.6' = ['malloc'] }",
        &[],
    );
    assert_eq!(names(&stripped, "cudnn"), ["libcudnn.so.8"]);
    let symbols = stripped["requirements"]
        .as_array()
        .unwrap()
        .iter()
        .find(|it| it["want"]["symbols"].is_array());
    assert_eq!(
        symbols.unwrap()["want"]["symbols"][0]["name"],
        "cudnnCreate"
    );
    // The names are in instructions; the profile knows them, and the metadata has the major.
    let info = file(
        "onnxruntime/capi/build_and_package_info.py",
        "package_name = 'onnxruntime-gpu'\n__version__ = '1.28.0'\ncuda_version = '13.0'\n",
    );
    let metadata = metadata(
        "onnxruntime-gpu",
        "1.28.0",
        &["nvidia-cudnn-cu13~=9.0; extra == \"cudnn\""],
    );
    let opened = of(
        "needed = ['libcudart.so.13'], code = ['sm_90', 'compute_120']",
        &[info, metadata],
    );
    assert_eq!(package(&opened, "onnxruntime")["cuda"], "13.0");
    assert_eq!(floor(&opened), ["9.0"]);
    assert_eq!(names(&opened, "cudnn"), ["libcudnn.so.9"]);
    assert_eq!(names(&opened, "cufft"), ["libcufft.so.12"]);
    assert_eq!(code(&opened), ["sm_90", "compute_120"]);
}

#[test]
fn an_onnxruntime_that_crashes_without_a_gpu_is_given_no_library_there() {
    let machine = |version: &str, more: &[String]| {
        let files = [
            file("onnxruntime/__init__.py", ""),
            object(
                "onnxruntime/capi/libonnxruntime_providers_cuda.so",
                "needed = ['libcudnn.so.9']",
            ),
            metadata("onnxruntime-gpu", version, &[]),
            library(
                &format!("{SITE}/nvidia/cudnn/lib"),
                "libcudnn",
                "9",
                "9.10.2",
                "",
            ),
        ];
        python(&[&files[..], more].concat())
    };
    let starts = |machine: &Machine| {
        Run::on(machine, &["export", "python3", "-c", "import onnxruntime"]).any_stdout()
    };
    let crashes = machine("1.22.0", &[]);
    let said =
        "there is no GPU here, and `onnxruntime 1.22.0` crashes if it finds its GPU libraries";
    starts(&crashes).stderr_contains(&[said]).check();
    assert!(
        target_of(&crashes, "import onnxruntime")["requirements"]
            .as_array()
            .unwrap()
            .is_empty()
    );
    // A release that falls back, and a machine with a GPU.
    let gpu = kernel("580.95.05") + &driver("/usr/lib/x86_64-linux-gnu", "580.95.05");
    for other in [machine("1.23.2", &[]), machine("1.22.0", &[gpu])] {
        assert_eq!(
            names(&target_of(&other, "import onnxruntime"), "cudnn"),
            ["libcudnn.so.9"]
        );
    }
}

#[test]
fn the_name_of_a_distribution_says_which_cuda() {
    let files = [
        file("mxnet/__init__.py", ""),
        object(
            "mxnet/libmxnet.so",
            "needed = ['libcudnn.so.8'], rpath = '${ORIGIN}', code = ['sm_80']",
        ),
        metadata("mxnet-cu112", "1.9.1", &[]),
        file("numba_cuda/__init__.py", ""),
        metadata("cuda-bindings", "12.9.1", &[]),
    ];
    let program = program(&files, "import mxnet\nfrom numba import cuda");
    assert_eq!(package(&program, "mxnet")["cuda"], "11.2");
    assert_eq!(package(&program, "numba-cuda")["cuda"], "12.9");
    assert_eq!(names(&program, "nvrtc"), ["libnvrtc.so.12"]);
    let vision = file(
        "torchvision/version.py",
        "__version__ = '0.29.2+cu132'\ngit_version = 'x'\n",
    );
    let linked = object(
        "torchvision/_C.so",
        "needed = ['libcudart.so.13'], code = ['sm_120']",
    );
    let vision = self::program(&[vision, linked], "import torchvision");
    assert_eq!(package(&vision, "torchvision")["cuda"], "13.2");
    assert_eq!(code(&vision), ["sm_120"]);
}

/// Without a word in any METADATA.
#[test]
fn a_package_built_on_a_framework_uses_it() {
    for module in [
        "vllm",
        "xformers",
        "torchvision",
        "torchaudio",
        "bitsandbytes",
    ] {
        let own = [
            file(&format!("{module}/__init__.py"), ""),
            object(&format!("{module}/_C.abi3.so"), ""),
        ];
        let program = program(
            &[&torch(VERSION, CONFIG)[..], &own].concat(),
            &format!("import {module}"),
        );
        assert_eq!(
            package(&program, "torch")["standing"],
            "imported",
            "{module}"
        );
        assert_eq!(
            package(&program, "torch")["imported_by"],
            "-c:1",
            "{module}"
        );
        assert_eq!(
            code(&program),
            ["sm_80", "sm_90a", "compute_90"],
            "{module}"
        );
    }
    let alone = program(&torch(VERSION, CONFIG), "pass");
    assert_eq!(
        (&alone["packages"], &alone["requirements"]),
        (&json!([]), &json!([]))
    );
}

/// torch is installed, but none of these programs imports it directly.
#[test]
fn only_packages_within_reach_are_guessed() {
    let source = [
        ("plain", "import json\nfrom . import part"),
        (
            "documented",
            "def f():\n    \"\"\"\n    >>> import torch\n    \"\"\"\n# import torch",
        ),
        ("later", "def f():\n    import torch"),
        (
            "by_name",
            "def f():\n    if importlib.util.find_spec('torch'): pass",
        ),
        ("over", "try:\n    import later\nexcept ImportError: pass"),
    ];
    let mut files = torch(VERSION, CONFIG).to_vec();
    files.extend(source.map(|(module, text)| file(&format!("{module}/__init__.py"), text)));
    files.push(file("plain/part.py", ""));
    files.extend(
        ["ctypes", "json", "os", "pickle", "subprocess"]
            .map(|name| text(&format!("/usr/lib/python3.12/{name}.py"), "")),
    );
    files.push(file("plain/tests/test_part.py", "import torch"));
    files.push(file("plain/random/_examples/torch/use.py", "import torch"));
    for (code, is_within_reach) in [
        ("import plain", false),
        ("import documented", false),
        ("import ctypes\nctypes.CDLL('libm.so.6')", false),
        ("import later", true),
        ("import by_name", true),
        ("import over", true),
        ("import subprocess\nsubprocess.run(['train'])", true),
        ("import os\nos.execv('train', [])", true),
        ("import ctypes\nctypes.CDLL(name)", true),
        ("import plain\n__import__(name)", true),
        ("import pickle\npickle.load(file)", true),
    ] {
        let program = program(&files, code);
        assert_eq!(program["packages"] != json!([]), is_within_reach, "{code}");
        assert_eq!(
            program["requirements"] != json!([]),
            is_within_reach,
            "{code}"
        );
    }
}

/// The kernel of a notebook, or a server whose argument names the program's module.
#[test]
fn an_installed_command_may_import_any_package() {
    let mut files = torch(VERSION, CONFIG).to_vec();
    files.push(file("server/__init__.py", ""));
    files.push(file("server/__main__.py", ""));
    let source = "#!/opt/venv/bin/python3\nimport server";
    let scripts = [
        "/opt/venv/bin/serve",
        "/opt/venv/lib/python3.12/site-packages/server/worker.py",
        "/srv/serve",
        "/srv/editor/debugpy/__main__.py",
        "/srv/editor/debugpy/launcher/__main__.py",
        "/srv/helpers/pydevd.py",
    ];
    files.extend(scripts.map(|script| text(script, source)));
    let site = "/opt/venv/lib/python3.12/site-packages";
    let machine = python(&files);
    for (words, is_installed) in [
        (&["python3", "-m", "server", "app"][..], true),
        (&["python3", "/opt/venv/bin/serve", "app"], true),
        (&["python3", &format!("{site}/server/worker.py")], true),
        (&["python3", "/srv/serve", "app"], false),
        // A debugger runs what its arguments name.
        (&["python3", "/srv/editor/debugpy", "train.py"], true),
        (&["python3", "/srv/editor/debugpy/launcher", "1"], true),
        (&["python3", "/srv/helpers/pydevd.py", "--file"], true),
    ] {
        let (text, _) = Run::on(&machine, &[&["explain", "--json"], words].concat()).output();
        let program = &serde_json::from_str::<Value>(&text).unwrap()["program"];
        assert_eq!(program["packages"] != json!([]), is_installed, "{words:?}");
    }
}

#[test]
fn a_module_without_its_framework_is_a_package_like_any_other() {
    let files = [
        file("numba/__init__.py", ""),
        object("numba/cuda/own.so", "needed = ['libcudart.so.11.0']"),
    ];
    let program = program(&files, "import numba");
    assert_eq!(package(&program, "numba")["standing"], "imported");
    assert_eq!(names(&program, "cudart"), ["libcudart.so.11.0"]);
}

#[test]
fn objects_for_different_cuda_majors_are_optional() {
    let variant = |number: u32, major: u32, gpu: &str| {
        let fields = format!("needed = ['libcublas.so.{major}'], code = ['{gpu}']");
        object(
            &format!("bitsandbytes/libbitsandbytes_cuda{number}.so"),
            &fields,
        )
    };
    let files = [
        file("bitsandbytes/__init__.py", ""),
        variant(118, 11, "sm_50"),
        variant(128, 12, "sm_120"),
    ];
    let program = program(&files, "import bitsandbytes");
    let all = program["requirements"].as_array().unwrap();
    assert!(all.iter().all(|it| it["need"] == "named"), "{all:#?}");
    assert_eq!(
        names(&program, "cublas"),
        ["libcublas.so.11", "libcublas.so.12"]
    );
    assert_eq!(code(&program), ["sm_50", "sm_120"]);
}

#[test]
fn an_unknown_package_is_read_from_its_objects() {
    let files = [
        file("unheard/__init__.py", ""),
        object(
            "unheard/one.so",
            "needed = ['libcudart.so.12'], code = ['sm_70', 'sm_90a']",
        ),
        object(
            "unheard/two.so",
            "needed = ['libcublas.so.12'], code = ['sm_70', 'compute_80']",
        ),
        object(
            "unheard/other.so",
            "constants = ['libcurand.so.10'], code = ['sm_35']",
        ),
    ];
    let program = program(&files, "import unheard");
    assert_eq!(
        code(&program),
        ["sm_70", "sm_90a", "compute_80"],
        "all together, of those that are linked"
    );
    assert_eq!(names(&program, "curand"), ["libcurand.so.10"]);
    assert_eq!(package(&program, "unheard")["cpu_only"], false);
    let none = [
        file("unheard/__init__.py", ""),
        object("unheard/one.so", "needed = ['libcudart.so.12']"),
    ];
    assert!(
        code(&self::program(&none, "import unheard")).is_empty(),
        "no code is no demand"
    );
}

#[test]
fn builds_without_cuda_ask_for_nothing_and_say_so() {
    let cpu = [
        (
            "torch",
            "torch",
            vec![file(
                "torch/version.py",
                "__version__ = '2.5.1+cpu'\ncuda: Optional[str] = None\n",
            )],
        ),
        (
            "torch",
            "torch",
            vec![file(
                "torch/version.py",
                "__version__ = '2.1.0'\ncuda = None\nhip = '5.6'\n",
            )],
        ),
        (
            "tensorflow",
            "tensorflow",
            tensorflow(&BUILD_INFO.replace("True", "False"), &[]),
        ),
        (
            "onnxruntime",
            "onnxruntime",
            vec![object("onnxruntime/capi/pybind.so", "")],
        ),
        ("jaxlib", "jax", vec![object("jaxlib/xla_extension.so", "")]),
        (
            "ctranslate2",
            "ctranslate2",
            vec![object(
                "ctranslate2.libs/libctranslate2-bc15bf3f.so.4.4.0",
                "",
            )],
        ),
        (
            "xgboost",
            "xgboost",
            vec![object("xgboost/lib/libxgboost.so", "")],
        ),
        ("faiss", "faiss", vec![metadata("faiss-cpu", "1.8.0", &[])]),
        ("mxnet", "mxnet", vec![metadata("mxnet", "1.9.1", &[])]),
        (
            "bitsandbytes",
            "bitsandbytes",
            vec![object("bitsandbytes/libbitsandbytes_cpu.so", "")],
        ),
    ];
    for (module, name, files) in cpu {
        let machine = python(&[vec![file(&format!("{module}/__init__.py"), "")], files].concat());
        let program = target_of(&machine, &format!("import {module}"));
        assert_eq!(package(&program, name)["cpu_only"], true, "{module}");
        assert!(
            program["requirements"].as_array().unwrap().is_empty(),
            "{module}: {program:#}"
        );
        assert!(
            program["conditions"].as_array().unwrap().is_empty(),
            "{module}"
        );
        assert_eq!(program["notes"][0]["note"], "cpu-only", "{module}");
        let import = format!("import {module}");
        let words = ["python3", "-c", import.as_str()];
        let explained = Run::on(&machine, &[&["explain"], &words[..]].concat())
            .any_stdout()
            .check();
        assert!(
            explained.contains(&format!("`{name}")) && explained.contains("is built without CUDA"),
            "{explained}"
        );
        // A start prints nothing unless it is asked to.
        Run::on(&machine, &[&["export"], &words[..]].concat()).check();
        // And what is only there is not spoken of.
        let unused = target_of(&machine, "pass");
        assert!(
            unused["packages"].as_array().unwrap().is_empty(),
            "{module}"
        );
        assert!(unused["notes"].as_array().unwrap().is_empty(), "{module}");
    }
}

#[test]
fn a_build_that_needs_cuda_libraries_is_no_cpu_build() {
    // No code of its own, but it needs a library; of a file that cannot be read nothing is known.
    let linked = [
        file("xgboost/__init__.py", ""),
        object("xgboost/lib/libxgboost.so", "needed = ['libcudart.so.12']"),
    ];
    assert_eq!(
        package(&program(&linked, "import xgboost"), "xgboost")["cpu_only"],
        false
    );
    let broken = [
        file("xgboost/__init__.py", ""),
        file("xgboost/lib/libxgboost.so", "no object"),
    ];
    assert_eq!(
        package(&program(&broken, "import xgboost"), "xgboost")["cpu_only"],
        false
    );
    let plugin = [
        file("jaxlib/__init__.py", ""),
        object("jax_cuda12_plugin/_versions.so", ""),
    ];
    let packages = program(&plugin, "import jaxlib")["packages"].clone();
    assert!(
        packages
            .as_array()
            .unwrap()
            .iter()
            .all(|package| package["cpu_only"] == false),
        "{packages:#}"
    );
    let string = [
        file("torch/__init__.py", ""),
        file("torch/version.py", "cuda = 'None'\ncudart = None\n"),
    ];
    let packages = program(&string, "import torch")["packages"].clone();
    assert!(
        packages
            .as_array()
            .unwrap()
            .iter()
            .all(|package| package["cpu_only"] == false),
        "{packages:#}"
    );
}

#[test]
fn a_variable_that_moves_a_framework_is_told() {
    let machine = python(&torch(VERSION, CONFIG));
    let notes = |name: &str, code: &str| {
        let run = Run::on(&machine, &["explain", "--json", "python3", "-c", code]).env(name, "1");
        let (text, _) = run.output();
        serde_json::from_str::<Value>(&text).unwrap()["notes"].to_string()
    };
    let variable = "PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK";
    assert!(
        notes(variable, "import torch")
            .contains("`torch` reads PYTORCH_SKIP_CUDNN_COMPATIBILITY_CHECK, which is set")
    );
    assert!(
        !notes("OTHER", "import torch").contains("heeds"),
        "the control"
    );
    assert!(
        !notes(variable, "import os").contains("heeds"),
        "it is not used"
    );
}

/// Python imports the first of two that are installed.
#[test]
fn the_first_of_two_installed_packages_counts() {
    let mut machine = python(&torch(VERSION, CONFIG));
    let other = [
        text("/opt/other/torch/__init__.py", ""),
        text("/opt/other/torch/version.py", VERSION),
        text(
            "/opt/other/torch/include/ATen/cuda/CUDAConfig.h",
            &CONFIG.replace("sm_80", "sm_50"),
        ),
        elf("/opt/other/torch/lib/libtorch_cuda.so", LINKED),
    ];
    let both = python(&[torch(VERSION, CONFIG).concat(), other.concat()]);
    assert_eq!(
        code(&target_of(&machine, "import torch")),
        ["sm_80", "sm_90a", "compute_90"],
        "the control"
    );
    machine = both;
    machine
        .env
        .insert("PYTHONPATH".to_owned(), "/opt/other".to_owned());
    assert_eq!(
        code(&target_of(&machine, "import torch")),
        ["sm_50", "sm_90a", "compute_90"]
    );
}
