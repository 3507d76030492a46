//! Follows each hint literally in a copy of the machine, and checks that the same command then starts.

use std::collections::BTreeMap;

use cudarun::catalog::{Wheel, catalog, soname_number, wheels};
use cudarun::range::Range;
use cudarun::version::Version;

use crate::solve::gpus::host;
use crate::support::decided::decided_with;
use crate::support::machine::Machine;
use crate::support::parts::{
    SHIELDED, SITE, SYSTEM, cudnn, driver, elf, kernel, library, machine, program, python, text,
};

const PASCAL: &str = "0x1b80";
const HOPPER: &str = "0x2335";
const BLACKWELL: &str = "0x2b85";

/// A command on a machine. Each element of `files` describes one file.
struct Case {
    name: String,
    files: Vec<String>,
    is_python: bool,
    env: BTreeMap<&'static str, String>,
    words: Vec<String>,
}

impl Case {
    fn new(name: &str, files: &[String], command: &[&str]) -> Case {
        let is_python = command.contains(&"python3");
        let env = BTreeMap::from([("LD_LIBRARY_PATH", String::new())]);
        let words = command.iter().map(|word| (*word).to_owned()).collect();
        let mut case = Case {
            name: name.to_owned(),
            files: Vec::new(),
            is_python,
            env,
            words,
        };
        for files in files {
            case.add(files);
        }
        case
    }

    fn path(mut self, library_path: &str) -> Case {
        self.env.insert("LD_LIBRARY_PATH", library_path.to_owned());
        self
    }

    fn add(&mut self, files: &str) {
        let new = files.split("[[file]]\n").filter(|file| !file.is_empty());
        for file in new.map(|file| format!("[[file]]\n{file}")) {
            let place = place(&file).to_owned();
            self.files.retain(|known| self::place(known) != place);
            self.files.push(file);
        }
    }

    fn remove(&mut self, is_removed: impl Fn(&str) -> bool) {
        self.files.retain(|file| !is_removed(place(file)));
    }

    fn machine(&self) -> Machine {
        if self.is_python {
            python(&self.files)
        } else {
            machine(&self.files)
        }
    }

    /// The hint of the conflict; `None` if the program would start.
    fn hint(&self) -> Option<String> {
        let variables = self.env.iter().map(|(name, value)| (*name, &**value));
        let words: Vec<&str> = self.words.iter().map(String::as_str).collect();
        let decided = decided_with(&self.machine(), &variables.collect::<Vec<_>>(), &words);
        if !["conflict", "leak"].contains(&decided.decision) {
            return None;
        }
        assert!(
            !decided.hint.is_empty(),
            "{}: no hint: {decided:#?}",
            self.name
        );
        Some(decided.hint)
    }

    fn apply(&mut self, hint: &str) {
        if let Some((first, second)) = hint.split_once("; then: ") {
            self.apply(first);
            return self.apply(second);
        }
        let words: Vec<&str> = hint
            .split_whitespace()
            .map(|word| word.trim_matches('"'))
            .collect();
        match words.as_slice() {
            [_, "-m", "pip", "install", requirements @ ..] => {
                for requirement in requirements.iter().filter(|word| !word.starts_with('-')) {
                    self.pip_install(requirement, requirements.contains(&"--force-reinstall"));
                }
            }
            [_, "-m", "pip", "uninstall", packages @ ..] => {
                for package in packages {
                    self.uninstall(package);
                }
            }
            ["apt", "install", packages @ ..] => {
                for package in packages {
                    self.apt_install(package);
                }
            }
            ["chmod", "o-w", paths @ ..] => {
                for file in &mut self.files {
                    if paths.contains(&place(file)) {
                        *file = file
                            .replace("mode = 0o777\n", "")
                            .replace("mode = 0o666\n", "");
                    }
                }
            }
            ["if", "you", "trust", "it:", "cudarun", options @ .., "…"] => {
                self.words
                    .splice(0..0, options.iter().map(|word| (*word).to_owned()));
            }
            ["update" | "install", "the", "NVIDIA", rest @ ..] => {
                let version = rest
                    .iter()
                    .find(|word| word.starts_with(|c: char| c.is_ascii_digit()))
                    .unwrap();
                self.drive(version);
            }
            ["install", "the", "user-space", ..] => {
                let known = self
                    .files
                    .iter()
                    .find(|file| place(file) == "/sys/module/nvidia/version");
                let version = known.unwrap().split("'''").nth(1).unwrap().to_owned();
                self.drive(&version);
            }
            ["install", ..] => self.install(hint.strip_prefix("install ").unwrap()),
            ["set", variable] => {
                let (_, value) = variable.split_once('=').unwrap();
                self.env.insert("CUDA_VISIBLE_DEVICES", value.to_owned());
            }
            [
                "to",
                "start",
                "without",
                "a",
                "GPU:",
                "CUDA_VISIBLE_DEVICES=",
                "cudarun",
                "…",
            ] => {
                self.env.insert("CUDA_VISIBLE_DEVICES", String::new());
            }
            ["remove", "--pin", ..] => self.drop_option("--pin"),
            ["change", "--require" | "--require:", ..] => self.drop_option("--require"),
            ["change", variable, ..] if variable.starts_with("NVIDIA_REQUIRE_CUDA") => {
                self.env.remove("NVIDIA_REQUIRE_CUDA");
            }
            _ => panic!("{}: unknown hint `{hint}`", self.name),
        }
    }

    /// Removes the last option of this name. A person removes the others only if that is not enough.
    fn drop_option(&mut self, option: &str) {
        let last = self.words.iter().rposition(|word| word == option).unwrap();
        self.words.drain(last..=last + 1);
    }

    fn drive(&mut self, version: &str) {
        let version = &if version.contains('.') {
            version.to_owned()
        } else {
            format!("{version}.44.01")
        };
        self.remove(|path| path.starts_with(&format!("{SYSTEM}/libcuda.so")));
        self.add(&text("/sys/module/nvidia/version", version));
        self.add(&driver(SYSTEM, version));
    }

    fn pip_install(&mut self, requirement: &str, is_anew: bool) {
        if let Some((name, version)) = requirement.split_once("==") {
            self.install_wheel(name, &format!("=={version}"), is_anew);
        } else {
            let (name, range) = requirement.split_at(requirement.find(['<', '>', '!']).unwrap());
            assert_eq!(name, "torch");
            self.install_torch(&range.parse().unwrap());
        }
    }

    /// Like pip: keeps an allowed version, else replaces it by the newest.
    fn install_wheel(&mut self, name: &str, range: &str, is_anew: bool) {
        let range: Range = range.parse().unwrap();
        let start = format!("{SITE}/{}-", name.replace('-', "_"));
        let is_allowed = |path: &str| {
            let rest = path
                .strip_prefix(&start)
                .and_then(|rest| rest.split(".dist-info").next()?.parse().ok());
            rest.is_some_and(|version: Version| range.allows(&version))
        };
        if !is_anew && self.files.iter().any(|file| is_allowed(place(file))) {
            return;
        }
        let of_name = wheels().iter().filter(|wheel| wheel.name == name);
        let known =
            of_name.flat_map(|wheel| wheel.versions.iter().map(move |version| (*version, wheel)));
        let (version, wheel) = known
            .filter(|(version, _)| range.allows(version))
            .max_by_key(|(version, _)| *version)
            .unwrap_or_else(|| panic!("{name}{range} is not on the index"));
        self.uninstall(name);
        self.add(&self::wheel(wheel, &version.to_string()));
    }

    fn uninstall(&mut self, name: &str) {
        let start = format!("{SITE}/{}-", name.replace('-', "_"));
        let record = self
            .files
            .iter()
            .find(|file| place(file).starts_with(&start) && place(file).ends_with("RECORD"));
        let record = record.cloned().unwrap_or_default();
        let owned: Vec<&str> = record
            .lines()
            .filter_map(|line| line.trim_start_matches("text = '''").split_once(','))
            .map(|(path, _)| path)
            .collect();
        self.remove(|path| {
            let below = path.strip_prefix(&format!("{SITE}/"));
            path.starts_with(&start) || below.is_some_and(|below| owned.contains(&below))
        });
    }

    /// Installs a build that the range allows. Its code is not read.
    fn install_torch(&mut self, range: &Range) {
        assert!(range.lowest().is_some());
        self.remove(|path| path.ends_with("CUDAConfig.h"));
    }

    fn apt_install(&mut self, package: &str) {
        let cuda = package.rsplit('-').next().unwrap().parse().unwrap();
        let is_in_it = |wheel: &&Wheel| {
            let family = catalog().family(&wheel.family).unwrap();
            let number = wheel
                .sonames
                .iter()
                .find_map(|soname| soname_number(soname))
                .unwrap();
            wheel.cuda == cuda && family.apt(cuda, number).as_deref() == Some(package)
        };
        let wheels: Vec<&Wheel> = wheels().iter().filter(is_in_it).collect();
        assert!(!wheels.is_empty(), "{package}");
        for wheel in wheels {
            self.add(&libraries(
                wheel,
                &wheel.versions.last().unwrap().to_string(),
                SYSTEM,
            ));
        }
    }

    /// `cuDNN 9 for CUDA 12 and cuFFT for CUDA 12, and add their directories to LD_LIBRARY_PATH`, or `… in DIR: …`
    fn install(&mut self, text: &str) {
        let (libraries, directory) = match text.split_once(", and add ") {
            Some((libraries, _)) => {
                let path = self.env.get_mut("LD_LIBRARY_PATH").unwrap();
                *path = if path.is_empty() {
                    "/opt/chosen".to_owned()
                } else {
                    format!("{path}:/opt/chosen")
                };
                (libraries, "/opt/chosen".to_owned())
            }
            None => {
                let (libraries, rest) = text.rsplit_once(" in ").unwrap();
                (libraries, rest.split(':').next().unwrap().to_owned())
            }
        };
        for library in libraries.replace(" and ", ", ").split(", ") {
            let (family, cuda) = library.split_once(" for CUDA ").unwrap_or((library, "12"));
            let cuda: u32 = cuda.parse().unwrap();
            let (named, least) = match family
                .strip_suffix(" or newer")
                .and_then(|text| text.rsplit_once(' '))
            {
                Some((family, version)) => (family, version.parse::<Version>().ok()),
                None => (family, None),
            };
            let major = named
                .rsplit_once(' ')
                .and_then(|(_, last)| last.parse::<u32>().ok());
            let named = if major.is_some() {
                named.rsplit_once(' ').unwrap().0
            } else {
                named
            };
            let family = catalog()
                .families
                .iter()
                .find(|family| family.display == named);
            let family = family.unwrap_or_else(|| panic!("no family `{named}`"));
            let fits = |wheel: &&Wheel| {
                let newest = *wheel.versions.last().unwrap();
                wheel.family == family.name
                    && wheel.cuda == cuda
                    && major.is_none_or(|major| newest.major() == major)
                    && least.is_none_or(|least| newest >= least)
            };
            let wheel = wheels()
                .iter()
                .rfind(fits)
                .unwrap_or_else(|| panic!("{library}"));
            let version = wheel.versions.last().unwrap().to_string();
            self.add(&self::libraries(wheel, &version, &directory));
            for needed in &wheel.needs {
                let other = wheels()
                    .iter()
                    .find(|other| other.cuda == cuda && other.sonames.contains(needed));
                let other = other.unwrap();
                let version = other.versions.last().unwrap().to_string();
                self.add(&self::libraries(other, &version, &directory));
            }
        }
    }
}

fn place(file: &str) -> &str {
    file.split("path = '")
        .nth(1)
        .unwrap()
        .split('\'')
        .next()
        .unwrap()
}

/// The files that a row of the table describes, in a directory.
fn libraries(wheel: &Wheel, version: &str, directory: &str) -> String {
    let runtime = format!("{}0", wheel.cuda * 100);
    if wheel.family == "cudnn" && wheel.sonames.iter().any(|soname| soname == "libcudnn.so.9") {
        return cudnn(directory, version, SHIELDED).replace("12040", &runtime);
    }
    let main = &catalog().family(&wheel.family).unwrap().main;
    let file = |soname: &String| {
        let is_main = soname.starts_with(&format!("{main}.so"));
        let needs = if is_main {
            wheel.needs.clone()
        } else {
            Vec::new()
        };
        let number = version.replace('.', "_");
        let constants = if wheel.family == "cudnn" {
            format!("'cudnn_version_{number}_'")
        } else {
            String::new()
        };
        let fields = format!(
            "soname = '{soname}', needed = {needs:?}, runpath = '$ORIGIN', constants = [{constants}]"
        );
        elf(&format!("{directory}/{soname}"), &fields)
    };
    wheel.sonames.iter().map(file).collect()
}

/// The files of a wheel as pip installs them.
fn wheel(wheel: &Wheel, version: &str) -> String {
    let info = format!(
        "{SITE}/{}-{version}.dist-info",
        wheel.name.replace('-', "_")
    );
    let files = libraries(wheel, version, &format!("{SITE}/{}", wheel.directory));
    let paths = files
        .split("[[file]]\n")
        .filter(|file| !file.is_empty())
        .map(place);
    let record: String = paths
        .map(|path| format!("{},,\n", &path[SITE.len() + 1..]))
        .collect();
    files
        + &text(&format!("{info}/RECORD"), &record)
        + &text(
            &format!("{info}/METADATA"),
            &format!("Name: {}\nVersion: {version}\n\n", wheel.name),
        )
}

/// An installed wheel from the table.
fn installed(name: &str, version: &str) -> String {
    let least: Version = version.parse().unwrap();
    let row = wheels()
        .iter()
        .filter(|row| row.name == name)
        .rfind(|row| row.first <= least);
    wheel(
        row.or_else(|| wheels().iter().find(|row| row.name == name))
            .unwrap(),
        version,
    )
}

/// torch, linked against these, whose DT_RPATH leads to the usual wheels.
fn torch(cuda: &str, needed: &[&str], requires: &str) -> String {
    let places = wheels()
        .iter()
        .map(|wheel| format!("$ORIGIN/../../{}", wheel.directory));
    let places: std::collections::BTreeSet<String> = places.collect();
    let rpath = places.into_iter().collect::<Vec<_>>().join(":");
    torch_with(cuda, needed, requires, &rpath)
}

fn torch_with(cuda: &str, needed: &[&str], requires: &str, rpath: &str) -> String {
    let fields = format!("soname = 'libtorch_cuda.so', needed = {needed:?}, rpath = '{rpath}'");
    text(&format!("{SITE}/torch/__init__.py"), "")
        + &text(
            &format!("{SITE}/torch/version.py"),
            &format!("cuda = '{cuda}'\n"),
        )
        + &text(
            &format!("{SITE}/torch-2.5.1.dist-info/METADATA"),
            &format!("Name: torch\nVersion: 2.5.1\n{requires}\n\n"),
        )
        + &elf(&format!("{SITE}/torch/lib/libtorch_cuda.so"), &fields)
}

const TORCH: &[&str] = &["python3", "-c", "import torch"];
const PIP: &str = "/opt/venv/bin/python3 -m pip install \"";

/// Machines with a GPU on which torch lacks libraries.
fn lacking() -> Vec<(Case, String)> {
    let lacks = [
        ("12.4", "libcudnn.so.9", "nvidia-cudnn-cu12=="),
        ("12.4", "libcudnn.so.8", "nvidia-cudnn-cu12==8."),
        ("11.8", "libcudnn.so.8", "nvidia-cudnn-cu11==8."),
        ("13.0", "libcudnn.so.9", "nvidia-cudnn-cu13=="),
        ("12.4", "libcublas.so.12", "nvidia-cublas-cu12=="),
        ("13.0", "libcublas.so.13", "nvidia-cublas=="),
        ("11.8", "libcublas.so.11", "nvidia-cublas-cu11=="),
        ("12.4", "libcufft.so.11", "nvidia-cufft-cu12=="),
        ("12.4", "libcurand.so.10", "nvidia-curand-cu12=="),
        ("12.4", "libcusparse.so.12", "nvidia-cusparse-cu12=="),
        ("12.4", "libcusolver.so.11", "nvidia-cusolver-cu12=="),
        ("12.4", "libnccl.so.2", "nvidia-nccl-cu12=="),
        ("12.4", "libnvrtc.so.12", "nvidia-cuda-nvrtc-cu12=="),
    ];
    let case = |(cuda, soname, expected): (&str, &str, &str)| {
        let files = [host("580.159.04", &[HOPPER]), torch(cuda, &[soname], "")];
        (
            Case::new(&format!("torch {cuda} without {soname}"), &files, TORCH),
            format!("\"{expected}"),
        )
    };
    lacks.into_iter().map(case).collect()
}

fn of_packages() -> Vec<(Case, String)> {
    let gpu = || host("580.159.04", &[HOPPER]);
    let plugin =
        "Name: jax-cuda12-plugin\nVersion: 0.5.3\nRequires-Dist: nvidia-cudnn-cu12>=9.8,<10\n\n";
    let jax = [
        text(&format!("{SITE}/jax/__init__.py"), ""),
        text(
            &format!("{SITE}/jax-0.5.3.dist-info/METADATA"),
            "Name: jax\nVersion: 0.5.3\nRequires-Dist: jax-cuda12-plugin\n\n",
        ),
        text(
            &format!("{SITE}/jax_cuda12_plugin-0.5.3.dist-info/METADATA"),
            plugin,
        ),
        elf(
            &format!("{SITE}/jax_cuda12_plugin/xla_cuda_plugin.so"),
            "soname = 'xla_cuda_plugin.so', needed = ['libc.so.6']",
        ),
    ]
    .concat();
    let onnxruntime = |needed: &[&str]| {
        let provider = "onnxruntime/capi/libonnxruntime_providers_cuda.so";
        let fields = format!("soname = 'libonnxruntime_providers_cuda.so', needed = {needed:?}");
        text(&format!("{SITE}/onnxruntime/__init__.py"), "")
            + &text(
                &format!("{SITE}/onnxruntime/capi/build_and_package_info.py"),
                "cuda_version = \"12.2\"\n",
            )
            + &elf(&format!("{SITE}/{provider}"), &fields)
            + &text(
                &format!("{SITE}/onnxruntime_gpu-1.22.0.dist-info/METADATA"),
                "Name: onnxruntime-gpu\nVersion: 1.22.0\n\n",
            )
    };
    let onnx = &["python3", "-c", "import onnxruntime"];
    let needs = [
        "libcublasLt.so.12",
        "libcublas.so.12",
        "libcudnn.so.9",
        "libcufft.so.11",
        "libcudart.so.12",
    ];
    let bundled = text(&format!("{SITE}/ctranslate2/__init__.py"), "")
        + &elf(
            &format!("{SITE}/ctranslate2.libs/libcudnn-ddb8ba1a.so.9.1.0"),
            "soname = 'libcudnn-ddb8ba1a.so.9.1.0'",
        )
        + &elf(
            &format!("{SITE}/ctranslate2.libs/libctranslate2-x.so.4.6.1"),
            "soname = 'libctranslate2-x.so.4.6.1', needed = ['libcudnn-ddb8ba1a.so.9.1.0'], rpath = '$ORIGIN'",
        )
        + &elf(
            &format!("{SITE}/ctranslate2/_ext.cpython-312-x86_64-linux-gnu.so"),
            "needed = ['libctranslate2-x.so.4.6.1'], rpath = '$ORIGIN/../ctranslate2.libs'",
        )
        + &text(
            &format!("{SITE}/ctranslate2-4.6.1.dist-info/METADATA"),
            "Name: ctranslate2\nVersion: 4.6.1\n\n",
        );
    let newer = &[
        "--require",
        "cudnn>=9.5",
        "python3",
        "-c",
        "import ctranslate2",
    ];
    let broken =
        installed("nvidia-cudnn-cu12", "9.1.0.70").replace("/libcudnn_cnn.so.9'", "/other.so.9'");
    let mixed = installed("nvidia-cudnn-cu12", "9.1.0.70")
        .replace("cudnn_version_9_1_0_70_", "cudnn_version_9_5_1_17_");
    vec![
        (
            Case::new(
                "jax wants a newer cuDNN than torch pins",
                &[
                    gpu(),
                    torch(
                        "12.4",
                        &["libcudnn.so.9"],
                        "Requires-Dist: nvidia-cudnn-cu12==9.1.0.70",
                    ),
                    installed("nvidia-cudnn-cu12", "9.1.0.70"),
                    jax,
                ],
                &["python3", "-c", "import torch, jax"],
            ),
            "nvidia-cudnn-cu12==9.8.0.87".to_owned(),
        ),
        (
            Case::new(
                "a release that is known to be bad",
                &[
                    gpu(),
                    torch("12.4", &["libcudnn.so.9"], ""),
                    installed("nvidia-cudnn-cu12", "9.10.0.56"),
                ],
                TORCH,
            ),
            PIP.to_owned() + "nvidia-cudnn-cu12==",
        ),
        (
            Case::new(
                "a part of a wheel is missing",
                &[
                    gpu(),
                    torch(
                        "12.4",
                        &["libcudnn.so.9"],
                        "Requires-Dist: nvidia-cudnn-cu12==9.1.0.70",
                    ),
                    broken,
                ],
                TORCH,
            ),
            "install --force-reinstall --no-deps \"nvidia-cudnn-cu12==9.1.0.70\"".to_owned(),
        ),
        (
            Case::new(
                "a person wants a newer one",
                &[
                    torch("12.4", &["libcudnn.so.9"], ""),
                    installed("nvidia-cudnn-cu12", "9.1.0.70"),
                ],
                &[
                    "--require",
                    "cudnn>=9.5,<9.8",
                    "python3",
                    "-c",
                    "import torch",
                ],
            ),
            PIP.to_owned() + "nvidia-cudnn-cu12==9.",
        ),
        (
            Case::new(
                "a person wants another than is recorded",
                &[torch("12.4", &["libcudnn.so.9"], ""), mixed],
                &["--require", "cudnn=9.1.0", "python3", "-c", "import torch"],
            ),
            "install --force-reinstall --no-deps \"nvidia-cudnn-cu12==9.1.0.70\"".to_owned(),
        ),
        (
            Case::new(
                "a packed shim and a person's floor",
                &[bundled.clone(), installed("nvidia-cudnn-cu12", "9.1.0.70")],
                newer,
            ),
            PIP.to_owned() + "nvidia-cudnn-cu12==9.",
        ),
        (
            Case::new(
                "all libraries of a package",
                &[gpu(), onnxruntime(&needs)],
                onnx,
            ),
            "\"nvidia-cublas-cu12==".to_owned(),
        ),
        (
            Case::new(
                "a wheel of CUDA 12 was left behind",
                &[
                    gpu(),
                    torch("13.0", &["libcusparse.so.12"], "").replace("2.5.1", "2.11.0"),
                    installed("nvidia-cusparse", "12.6.3.3"),
                    installed("nvidia-nvjitlink", "13.0.88"),
                    installed("nvidia-cusparse-cu12", "12.3.1.170"),
                    installed("nvidia-nvjitlink-cu12", "12.4.127"),
                ],
                TORCH,
            ),
            "/opt/venv/bin/python3 -m pip uninstall nvidia-cusparse-cu12".to_owned(),
        ),
        (
            Case::new(
                "old GPU, new cuDNN",
                &[
                    host("580.159.04", &[PASCAL]),
                    torch("12.4", &["libcudnn.so.9"], ""),
                    installed("nvidia-cudnn-cu12", "9.14.0.64").replace(
                        "soname = 'libcudnn_ops.so.9'",
                        "soname = 'libcudnn_ops.so.9', code = ['sm_75', 'sm_90']",
                    ),
                ],
                TORCH,
            ),
            "nvidia-cudnn-cu12==9.10.2.21".to_owned(),
        ),
    ]
}

fn of_machines() -> Vec<(Case, String)> {
    let app = |needed: &[&str]| program("app", &[needed, &["libc.so.6"]].concat(), "");
    let apt = || {
        text("/var/lib/dpkg/status", "")
            + &text("/etc/apt/sources.list.d/cuda-debian12-x86_64.list", "")
    };
    let cudart = |version: &str| library("/opt/cuda", "libcudart", &version[..2], version, "");
    let nvjpeg = || {
        library(
            "/opt/cuda",
            "libnvjpeg",
            "12",
            "12.4.1.87",
            "code = ['sm_75', 'sm_80', 'sm_90']",
        )
    };
    let case = |name: &str, files: &[String], command: &[&str], expected: &str| {
        (
            Case::new(name, files, command).path("/opt/cuda"),
            expected.to_owned(),
        )
    };
    let linked = |name: &str, files: &[String], needed: &[&str], expected: &str| {
        case(name, &[files, &[app(needed)]].concat(), &["app"], expected)
    };
    let old = [cudnn("/opt/cuda", "9.1.0.70", SHIELDED)];
    let two = [
        cudnn("/opt/cuda", "9.1.0.70", SHIELDED),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
    ];
    let both = |options: &[&str]| {
        [options, &["app"]]
            .concat()
            .iter()
            .map(|word| (*word).to_owned())
            .collect::<Vec<_>>()
    };
    let wish = |name: &str, options: &[&str], expected: &str| {
        let words = both(options);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        let (case, expected) = case(
            name,
            &[&two[..], &[app(&["libcudnn.so.9"])]].concat(),
            &words,
            expected,
        );
        (case.path("/opt/cuda:/opt/new"), expected)
    };
    let torch_of = |device: &str| {
        [
            host("580.159.04", &[device]),
            torch("12.4", &["libcurand.so.10"], ""),
            installed("nvidia-curand-cu12", "10.3.5.147"),
            text(
                &format!("{SITE}/torch/include/ATen/cuda/CUDAConfig.h"),
                "#define NVCC_FLAGS_EXTRA \"-gencode;arch=compute_90,code=sm_90\"\n",
            ),
        ]
    };
    // The loader alone would take the first, which is not whole.
    let opened = |name: &str, mode: &str, expected: &str| {
        let torn = elf(
            "/opt/torn/libcudnn.so.9",
            &format!("soname = 'libcudnn.so.9', {SHIELDED}"),
        );
        let directory = format!("[[file]]\npath = '/opt/cuda'\ndirectory = true\nmode = {mode}\n");
        let files = [torn, cudnn("/opt/cuda", "9.1.0.70", SHIELDED), directory];
        let (case, expected) = linked(name, &files, &["libcudnn.so.9"], expected);
        (case.path("/opt/torn:/opt/cuda"), expected)
    };
    let image = |name: &str, asked: &str, expected: &str| {
        let files = [host("580.159.04", &[HOPPER]), cudart("12.4.127")];
        let (mut case, expected) = linked(name, &files, &["libcudart.so.12"], expected);
        case.env.insert("NVIDIA_REQUIRE_CUDA", asked.to_owned());
        (case, expected)
    };
    vec![
        opened(
            "a directory that every user can write to",
            "0o777",
            "chmod o-w /opt/cuda",
        ),
        opened(
            "a directory that every user can add files to",
            "0o1777",
            "if you trust it: cudarun --also /opt/cuda …",
        ),
        image(
            "an image for newer GPUs",
            "arch>=10.0",
            "change NVIDIA_REQUIRE_CUDA",
        ),
        image(
            "an image for a newer driver",
            "driver>=590",
            "update the NVIDIA driver to 590",
        ),
        linked(
            "cuDNN by apt",
            &[apt()],
            &["libcudnn.so.9"],
            "apt install libcudnn9-cuda-12",
        ),
        linked(
            "a toolkit by apt",
            &[apt()],
            &["libcublas.so.12", "libcufft.so.11"],
            "apt install cuda-toolkit-12",
        ),
        linked(
            "a toolkit 11 by apt",
            &[apt()],
            &["libcublas.so.11"],
            "apt install cuda-toolkit-11",
        ),
        linked(
            "a toolkit 13 by apt",
            &[apt()],
            &["libnvjpeg.so.13"],
            "apt install cuda-toolkit-13",
        ),
        linked(
            "cuDNN 9 by hand",
            &[],
            &["libcudnn.so.9"],
            "install cuDNN 9",
        ),
        linked(
            "cuDNN 8 by hand",
            &[],
            &["libcudnn.so.8"],
            "install cuDNN 8",
        ),
        linked(
            "an old cuDNN 8 beside cuDNN 9",
            &old,
            &["libcudnn.so.8"],
            "install cuDNN 8",
        ),
        linked(
            "cuBLAS by hand",
            &[],
            &["libcublas.so.12"],
            "install cuBLAS for CUDA 12",
        ),
        linked(
            "two by hand",
            &[],
            &["libcublas.so.12", "libcufft.so.11"],
            "install cuBLAS for CUDA 12 and cuFFT for CUDA 12",
        ),
        linked(
            "cuSOLVER by hand",
            &[],
            &["libcusolver.so.12"],
            "install cuSOLVER for CUDA 13",
        ),
        linked(
            "a driver that is too old",
            &[host("535.161.08", &[HOPPER]), cudart("13.0.96")],
            &["libcudart.so.13"],
            "update the NVIDIA driver to 580.65.06",
        ),
        linked(
            "another CUDA major",
            &[host("580.159.04", &[HOPPER]), cudart("13.0.96")],
            &["libcudart.so.12"],
            "install CUDA runtime for CUDA 12",
        ),
        linked(
            "an old card beside a new one",
            &[host("580.159.04", &[PASCAL, HOPPER]), nvjpeg()],
            &["libnvjpeg.so.12"],
            "set CUDA_VISIBLE_DEVICES=GPU-11-aa",
        ),
        linked(
            "no libraries of the kernel's driver",
            &[kernel("580.159.04"), cudart("12.4.127")],
            &["libcudart.so.12", "libcuda.so.1"],
            "install the user-space libraries",
        ),
        linked(
            "libraries of another driver than the kernel's",
            &[
                kernel("580.159.04"),
                driver(SYSTEM, "535.161.08"),
                cudart("12.4.127"),
            ],
            &["libcudart.so.12", "libcuda.so.1"],
            "install the user-space libraries",
        ),
        case(
            "a person's driver",
            &[
                host("580.159.04", &[HOPPER]),
                cudart("12.4.127"),
                app(&["libcudart.so.12"]),
            ],
            &["--require", "driver>=590", "app"],
            "update the NVIDIA driver to 590",
        ),
        case(
            "a person's driver, and none runs",
            &[cudart("12.4.127"), app(&["libcudart.so.12"])],
            &["--require", "driver>=570", "app"],
            "install the NVIDIA driver 570 or newer",
        ),
        case(
            "a person's GPU",
            &[
                host("580.159.04", &[HOPPER]),
                cudart("12.4.127"),
                app(&["libcudart.so.12"]),
            ],
            &["--require", "gpu>=10.0", "app"],
            "change --require",
        ),
        case(
            "a person's GPU is one of two",
            &[
                host("580.159.04", &[HOPPER, BLACKWELL]),
                cudart("12.4.127"),
                app(&["libcudart.so.12"]),
            ],
            &["--require", "gpu>=10.0", "app"],
            "set CUDA_VISIBLE_DEVICES=GPU-11-aa",
        ),
        wish(
            "wishes that exclude each other",
            &["--require", "cudnn>=9.5", "--require", "cudnn<9.3"],
            "change --require",
        ),
        wish(
            "a pin that is not here",
            &["--pin", "cudnn=9.5"],
            "remove --pin cudnn, or pin an installation that fits",
        ),
        wish(
            "two wishes for one version",
            &["--require", "cudnn=9.1", "--require", "cudnn=9.10"],
            "change --require",
        ),
        case(
            "a driver and a library at once",
            &[
                host("535.161.08", &[HOPPER]),
                app(&["libcudart.so.13", "libcudnn.so.9"]),
                cudart("13.0.96"),
            ],
            &["app"],
            "",
        ),
        (
            Case::new("a build for the GPU", &torch_of(BLACKWELL), TORCH),
            "install \"torch>=".to_owned(),
        ),
        (
            Case::new(
                "a search path that leads out of the environment",
                &[
                    host("580.159.04", &[HOPPER]),
                    torch_with(
                        "12.4",
                        &["libcudnn.so.9", "libc.so.6"],
                        "",
                        "/opt/conda/lib",
                    ),
                    cudnn("/opt/conda/lib", "9.1.0.70", SHIELDED).replace("12040", "11080"),
                    cudnn(&format!("{SITE}/nvidia/cudnn/lib"), "9.1.0.70", SHIELDED),
                ],
                TORCH,
            ),
            "install cuDNN 9 for CUDA 12 in /opt/conda/lib".to_owned(),
        ),
    ]
}

#[test]
fn every_hint_leads_to_a_start() {
    let cases: Vec<(Case, String)> = [lacking(), of_packages(), of_machines()]
        .into_iter()
        .flatten()
        .collect();
    assert!(cases.len() >= 40, "{}", cases.len());
    let mut failures = Vec::new();
    for (mut case, expected) in cases {
        let Some(hint) = case.hint() else {
            failures.push(format!("{}: the control: it must be refused", case.name));
            continue;
        };
        case.apply(&hint);
        if !hint.contains(&expected) {
            failures.push(format!("{}: the hint is `{hint}`", case.name));
        } else if let Some(next) = case.hint() {
            failures.push(format!(
                "{}: after `{hint}` it is refused: {next}",
                case.name
            ));
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
