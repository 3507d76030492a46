//! The sources of libraries: each source finds its installation, says how it came there and which package
//! brought it, and finds nothing when it is switched off.

use std::path::Path;
use std::time::Duration;

use cudarun::host::Host;
use cudarun::inventory::{self, ScanCache, Scope};
use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{driver, elf, library, link, machine, program, text};

/// An installation of cuFFT that says nothing of its version but by its name, which has three numbers.
fn cufft(directory: &str) -> String {
    library(
        directory,
        "libcufft",
        "11",
        "11.2.1",
        "exports = ['cufftCreate']",
    )
}

/// A library without any version.
fn unnamed(directory: &str) -> String {
    elf(
        &format!("{directory}/libcufft.so.11"),
        "soname = 'libcufft.so.11', exports = ['cufftCreate']",
    )
}

fn list(machine: &Machine, env: &[(&str, &str)], arguments: &[&str]) -> Value {
    let arguments: Vec<&str> = ["list", "--json"]
        .into_iter()
        .chain(arguments.iter().copied())
        .collect();
    let mut run = Run::on(machine, &arguments);
    for (name, value) in env {
        run = run.env(name, value);
    }
    run.json()
}

/// Origin, version and package of the installation in a directory.
fn installation(listed: &Value, directory: &str) -> Option<(String, String, String)> {
    let installations = listed["installations"].as_array().unwrap();
    let installation = installations
        .iter()
        .find(|installation| installation["directory"] == directory)?;
    let text = |key: &str| installation[key].as_str().unwrap_or_default().to_owned();
    Some((text("origin"), text("version"), text("package")))
}

/// Checks the installations that a source finds; the control is the list without this source.
#[track_caller]
fn finds(
    source: &str,
    files: &[String],
    env: &[(&str, &str)],
    expected: &[(&str, &str, &str, &str)],
) {
    // An empty list would make the status 1.
    let mut all = vec![unnamed("/usr/lib")];
    all.extend(files.iter().cloned());
    let machine = machine(&all);
    let with = list(&machine, env, &[]);
    let without = list(&machine, env, &["--without", source]);
    for (directory, origin, version, package) in expected {
        let found =
            installation(&with, directory).unwrap_or_else(|| panic!("{directory}: {with:#}"));
        assert_eq!(
            (found.0.as_str(), found.1.as_str(), found.2.as_str()),
            (*origin, *version, *package),
            "{directory}"
        );
        assert_eq!(
            installation(&without, directory),
            None,
            "the control: {directory}"
        );
    }
}

/// Checks as `finds` does, and that a start ignores the source unless an option names it.
#[track_caller]
fn finds_elsewhere(
    source: &str,
    files: &[String],
    env: &[(&str, &str)],
    expected: &[(&str, &str, &str, &str)],
) {
    finds(source, files, env, expected);
    let mut all = vec![program("fft", &["libcufft.so.11", "libc.so.6"], "")];
    all.extend(files.iter().cloned());
    let machine = machine(&all);
    let explain = |also: &[&str], status| {
        let arguments = [&["explain", "--json"], also, &["fft"]].concat();
        let mut run = Run::on(&machine, &arguments).status(status).any_stderr();
        for (name, value) in env {
            run = run.env(name, value);
        }
        run.json()
    };
    let directory = expected[0].0;
    let alone = explain(&[], 1);
    assert_eq!(
        alone["unmet"][0]["candidates"],
        Value::Array(Vec::new()),
        "{alone:#}"
    );
    let named = explain(&["--also", directory], 0);
    assert_eq!(
        named["families"][0]["picked"]["directory"], directory,
        "{named:#}"
    );
}

/// A wheel of cuFFT in an environment's site-packages.
fn wheel(site: &str) -> String {
    unnamed(&format!("{site}/nvidia/cufft/lib"))
        + &text(
            &format!("{site}/nvidia_cufft_cu12-11.2.1.3.dist-info/RECORD"),
            "nvidia/cufft/lib/libcufft.so.11,,\n",
        )
}

const WHEEL: (&str, &str, &str) = ("wheel", "11.2.1.3", "nvidia-cufft-cu12 11.2.1.3");

#[test]
fn the_environment_of_python_that_is_in_effect() {
    let site = "/srv/env/lib/python3.11/site-packages";
    let other = "/srv/env/lib64/python3.11/site-packages";
    let at = |site: &str| format!("{site}/nvidia/cufft/lib");
    let expected = [(at(site), WHEEL), (at(other), WHEEL)];
    let expected: Vec<_> = expected
        .iter()
        .map(|(d, w)| (d.as_str(), w.0, w.1, w.2))
        .collect();
    finds(
        "python",
        &[wheel(site), wheel(other)],
        &[("VIRTUAL_ENV", "/srv/env")],
        &expected,
    );
}

#[test]
fn environments_of_python_elsewhere() {
    let env = [
        ("WORKON_HOME", "/srv/work"),
        ("PIPX_HOME", "/srv/pipx"),
        ("XDG_DATA_HOME", "/srv/data"),
    ];
    for site in [
        "/usr/lib/python3/dist-packages",
        "/usr/local/lib/python3.11/dist-packages",
        "/usr/lib64/python3.11/site-packages",
        "/home/user/.local/lib/python3.11/site-packages",
        "/home/user/.virtualenvs/a/lib/python3.11/site-packages",
        "/home/user/.pyenv/versions/3.11.9/lib/python3.11/site-packages",
        "/srv/work/a/lib/python3.11/site-packages",
        "/srv/pipx/venvs/a/lib/python3.11/site-packages",
        "/srv/data/uv/tools/a/lib/python3.11/site-packages",
        "/srv/data/uv/python/cpython-3.11/lib/python3.11/site-packages",
        "/home/user/.cache/pypoetry/virtualenvs/a/lib/python3.11/site-packages",
    ] {
        let directory = format!("{site}/nvidia/cufft/lib");
        finds_elsewhere(
            "python",
            &[wheel(site)],
            &env,
            &[(&directory, WHEEL.0, WHEEL.1, WHEEL.2)],
        );
    }
}

/// The current directory is the guest's, and must be there outside as well.
#[test]
fn environments_of_the_project() {
    let project = tempfile::tempdir().unwrap();
    let here = project.path().join("a/b");
    std::fs::create_dir_all(&here).unwrap();
    let below = |below: &str| project.path().join(below).to_str().unwrap().to_owned();
    let roots = [".venv", "a/.venv", "a/b/venv", "a/b/c/env", "a/b/named"];
    let others = ["a/b/node_modules/env", "a/b/c/d/env", "a/x/env"];
    let site = |root: &str| format!("{}/lib/python3.11/site-packages", below(root));
    let mut files = vec![unnamed("/usr/lib")];
    for root in roots.iter().chain(&others) {
        files.push(wheel(&site(root)));
        if *root != "a/b/named" {
            files.push(text(
                &below(&format!("{root}/pyvenv.cfg")),
                "home = /usr/bin\n",
            ));
        }
    }
    let pixi = below("a/.pixi/envs/default");
    files.push(text(&format!("{pixi}/conda-meta/history"), ""));
    files.push(cufft(&format!("{pixi}/lib")));
    // Round in a circle.
    files.push(link(&below("a/b/loop"), "."));
    let machine = machine(&files);
    let look = |arguments: &[&str]| {
        let arguments: Vec<&str> = ["list", "--json"]
            .into_iter()
            .chain(arguments.iter().copied())
            .collect();
        Run::on(&machine, &arguments)
            .env("UV_PROJECT_ENVIRONMENT", "named")
            .in_directory(&here)
            .json()
    };
    let (with, without) = (look(&[]), look(&["--without", "python,conda"]));
    for root in roots {
        let directory = format!("{}/nvidia/cufft/lib", site(root));
        assert_eq!(
            installation(&with, &directory)
                .map(|installation| installation.0)
                .as_deref(),
            Some("wheel"),
            "{root}"
        );
        assert_eq!(
            installation(&without, &directory),
            None,
            "the control: {root}"
        );
    }
    for root in others {
        assert_eq!(
            installation(&with, &format!("{}/nvidia/cufft/lib", site(root))),
            None,
            "{root}"
        );
    }
    let found = installation(&with, &format!("{pixi}/lib")).unwrap();
    assert_eq!((found.0.as_str(), found.1.as_str()), ("conda", "11.2.1"));
}

/// An environment of conda with cuFFT from its own package.
fn conda(root: &str) -> [String; 3] {
    [
        unnamed(&format!("{root}/lib")),
        text(
            &format!("{root}/conda-meta/libcufft-11.2.1.3-0.json"),
            r#"{"name": "libcufft", "version": "11.2.1.3", "files": ["lib/libcufft.so.11", "../../etc/x.so"]}"#,
        ),
        text(
            &format!("{root}/conda-meta/broken-1-0.json"),
            r#"{"files": ["lib/libcufft.so.10""#,
        ),
    ]
}

const CONDA: (&str, &str, &str) = ("conda", "11.2.1.3", "libcufft 11.2.1.3 0");

#[test]
fn the_environment_of_conda_that_is_in_effect() {
    let site = "/srv/env/lib/python3.11/site-packages";
    let targets = "/srv/env/targets/x86_64-linux/lib";
    let mut files = conda("/srv/env").to_vec();
    files.extend([wheel(site), cufft(targets)]);
    // A toolkit's version is not that of the libraries in it.
    let old = elf(
        "/srv/env/old/libcurand.so.10",
        "soname = 'libcurand.so.10', exports = ['curandCreate']",
    );
    let record =
        r#"{"name": "cudatoolkit", "version": "11.8.0", "files": ["old/libcurand.so.10"]}"#;
    files.extend([
        old,
        text(
            "/srv/env/conda-meta/cudatoolkit-11.8.0-h4ba93d1_13.json",
            record,
        ),
    ]);
    let wheel = format!("{site}/nvidia/cufft/lib");
    finds(
        "conda",
        &files,
        &[("CONDA_PREFIX", "/srv/env")],
        &[
            ("/srv/env/lib", CONDA.0, CONDA.1, CONDA.2),
            (targets, "conda", "11.2.1", ""),
            (&wheel, WHEEL.0, WHEEL.1, WHEEL.2),
            (
                "/srv/env/old",
                "conda",
                "",
                "cudatoolkit 11.8.0 h4ba93d1_13",
            ),
        ],
    );
    let machine = machine(&files);
    let listed = list(&machine, &[("CONDA_PREFIX", "/srv/env")], &[]);
    let warnings = listed["warnings"].as_array().unwrap();
    let broken = warnings
        .iter()
        .find(|warning| warning["fault"] == "bad-record")
        .unwrap();
    assert_eq!(broken["path"], "/srv/env/conda-meta/broken-1-0.json");
}

#[test]
fn environments_of_conda_elsewhere() {
    let env = [
        ("CONDA_EXE", "/srv/conda/bin/conda"),
        ("MAMBA_ROOT_PREFIX", "/srv/mamba"),
        ("CONDA_ENVS_PATH", "/srv/none:/srv/environments"),
    ];
    let named = text(
        "/home/user/.conda/environments.txt",
        "/srv/named\n/srv/gone\n",
    );
    for root in [
        "/opt/conda",
        "/opt/miniconda3/envs/a",
        "/home/user/miniforge3/envs/a",
        "/home/user/micromamba",
        "/srv/conda",
        "/srv/conda/envs/a",
        "/srv/mamba/envs/a",
        "/srv/environments/a",
        "/srv/named",
    ] {
        let mut files = conda(root).to_vec();
        files.push(named.clone());
        let library = format!("{root}/lib");
        finds_elsewhere(
            "conda",
            &files,
            &env,
            &[(&library, CONDA.0, CONDA.1, CONDA.2)],
        );
    }
}

const TCL: &str = "#%Module\nset root /apps/cuda\nsetenv CUDA_HOME $root\nprepend-path LD_LIBRARY_PATH $root/libraries\n";
const LUA: &str = "local root = \"/apps/cuda\"\nprepend_path(\"LD_LIBRARY_PATH\", pathJoin(root, \"libraries\"))\nsetenv(\"CUDA_HOME\", root)\n";

#[test]
fn modules_that_are_loaded() {
    let installations = [
        cufft("/apps/cuda/libraries"),
        unnamed("/apps/cuda/lib64"),
        driver("/apps/cuda/compat", "550.54.15"),
    ];
    let expected = [
        ("/apps/cuda/libraries", "module", "11.2.1", ""),
        ("/apps/cuda/lib64", "module", "", ""),
        ("/apps/cuda/compat", "compat", "550.54.15", ""),
    ];
    for (file, module) in [
        ("/apps/modules/cuda/12.4", TCL),
        ("/apps/modules/cuda/12.4.lua", LUA),
    ] {
        let files = [text(file, module), installations.concat()];
        let by_file = [("_LMFILES_", file)];
        finds("modules", &files, &by_file, &expected);
    }
}

#[test]
fn modules_that_could_be_loaded() {
    let files = [
        text("/apps/modules/compiler/cuda/12.4", TCL),
        text(
            "/apps/modules/compiler/other/1",
            &TCL.replace("cuda", "other"),
        ),
        // A hidden file is no module.
        text(
            "/apps/modules/compiler/cuda/.12.5",
            &TCL.replace("cuda", "hidden"),
        ),
        cufft("/apps/cuda/libraries"),
        cufft("/apps/other/libraries"),
        cufft("/apps/hidden/libraries"),
        // Round in a circle, and out of it.
        link("/apps/modules/loop", "/apps/modules"),
        link("/apps/modules/cuda", "nowhere"),
    ];
    let env = [("MODULEPATH", "/apps/modules:relative::/apps/modules")];
    finds_elsewhere(
        "modules",
        &files,
        &env,
        &[("/apps/cuda/libraries", "module", "11.2.1", "")],
    );
    let listed = list(&machine(&files), &env, &[]);
    assert_eq!(
        installation(&listed, "/apps/other/libraries"),
        None,
        "a module of another kind"
    );
    assert_eq!(installation(&listed, "/apps/hidden/libraries"), None);
}

#[test]
fn installations_of_spack_are_found() {
    let hash = "0123456789abcdfghijklmnpqrsvwxyz";
    for (tree, env) in [
        (
            "/srv/spack/opt/spack/linux-x86_64_v3",
            &[("SPACK_ROOT", "/srv/spack")][..],
        ),
        (
            "/home/user/spack/opt/spack/linux-ubuntu22.04-zen3/gcc-12.3.0",
            &[],
        ),
        ("/opt/spack/linux-x86_64_v3", &[]),
    ] {
        let at = |name: &str, library: &str| format!("{tree}/{name}-{hash}/{library}");
        let cufft = at("libcufft-11.2.1.3", "lib");
        let toolkit = at("cuda-12.4.1", "lib64");
        let other = at("zlib-1.3", "lib");
        let files = [unnamed(&cufft), unnamed(&toolkit), unnamed(&other)];
        let expected = [
            (cufft.as_str(), "store", "11.2.1.3", "libcufft 11.2.1.3"),
            (toolkit.as_str(), "store", "", "cuda 12.4.1"),
        ];
        finds_elsewhere("spack", &files, env, &expected);
        assert_eq!(
            installation(&list(&machine(&files), env, &[]), &other),
            None
        );
    }
}

#[test]
fn stores_of_nix_and_guix() {
    let hash = "0123456789abcdfghijklmnpqrsvwxyz";
    let cufft = format!("/nix/store/{hash}-cuda12.4-libcufft-11.2.1.3-lib/lib");
    let merged = format!("/gnu/store/{hash}-cuda-toolkit-12.4.1/lib64");
    let other = format!("/nix/store/{hash}-torch-2.5.1/lib");
    let files = [unnamed(&cufft), unnamed(&merged), unnamed(&other)];
    let expected = [
        (
            cufft.as_str(),
            "store",
            "11.2.1.3",
            "cuda12.4-libcufft 11.2.1.3",
        ),
        (merged.as_str(), "store", "", "cuda-toolkit 12.4.1"),
    ];
    finds_elsewhere("nix", &files, &[], &expected);
    assert_eq!(
        installation(&list(&machine(&files), &[], &[]), &other),
        None
    );
}

#[test]
fn the_hpc_sdk() {
    let root = "/opt/nvidia/hpc_sdk/Linux_x86_64/24.5";
    let at = |below: &str| format!("{root}/{below}");
    let nccl = library(
        &at("comm_libs/12.4/nccl/lib"),
        "libnccl",
        "2",
        "2.18.5",
        "exports = ['ncclSend']",
    );
    let files = [
        unnamed(&at("math_libs/12.4/lib64")),
        cufft(&at("cuda/12.4/targets/x86_64-linux/lib")),
        cufft(&at("compilers/lib")),
        nccl,
        driver(&at("cuda/12.4/compat"), "550.54.15"),
    ];
    let expected = [
        (at("math_libs/12.4/lib64"), "toolkit", ""),
        (
            at("cuda/12.4/targets/x86_64-linux/lib"),
            "toolkit",
            "11.2.1",
        ),
        (at("compilers/lib"), "bundled", "11.2.1"),
        (at("comm_libs/12.4/nccl/lib"), "toolkit", "2.18.5"),
        (at("cuda/12.4/compat"), "compat", "550.54.15"),
    ];
    let expected: Vec<_> = expected
        .iter()
        .map(|(d, origin, v)| (d.as_str(), *origin, *v, ""))
        .collect();
    finds("hpc-sdk", &files, &[], &expected);
    let elsewhere = [unnamed("/apps/sdk/math_libs/lib64")];
    let expected = [("/apps/sdk/math_libs/lib64", "toolkit", "", "")];
    finds(
        "hpc-sdk",
        &elsewhere,
        &[("NVHPC_ROOT", "/apps/sdk")],
        &expected,
    );
    let elsewhere = [unnamed("/apps/sdk/Linux_x86_64/24.5/math_libs/lib64")];
    let expected = [(
        "/apps/sdk/Linux_x86_64/24.5/math_libs/lib64",
        "toolkit",
        "",
        "",
    )];
    finds("hpc-sdk", &elsewhere, &[("NVHPC", "/apps/sdk")], &expected);
    for cuda in ["9.2", "20.0"] {
        let library = at(&format!("math_libs/{cuda}/lib64"));
        let expected = [(library.as_str(), "toolkit", "", "")];
        finds("hpc-sdk", &[unnamed(&library)], &[], &expected);
    }
}

#[test]
fn compatibility_libraries_are_beside_every_toolkit() {
    let env = [("CUTENSOR_ROOT", "/srv/cutensor")];
    for root in [
        "/usr/local/cuda",
        "/opt/cuda-12.4",
        "/usr/lib/cuda",
        "/srv/cutensor",
    ] {
        let compat = format!("{root}/compat");
        let files = [driver(&compat, "550.54.15")];
        finds(
            "compat",
            &files,
            &env,
            &[(&compat, "compat", "550.54.15", "")],
        );
    }
    let spack = "/opt/spack/linux-x86_64_v3/cuda-12.4.1-0123456789abcdfghijklmnpqrsvwxyz/compat";
    let files = [driver(spack, "550.54.15")];
    finds("spack", &files, &[], &[(spack, "compat", "550.54.15", "")]);
}

/// A directory that somebody has moved out of the way is no toolkit.
#[test]
fn a_backup_of_a_toolkit_is_not_searched() {
    let backups = ["/opt/cuda_backup", "/usr/local/cuda.old"];
    let files = [
        unnamed("/usr/local/cuda-12.4/lib64"),
        unnamed("/opt/cuda_backup/lib64"),
        driver("/usr/local/cuda.old/compat", "550.54.15"),
    ];
    let listed = list(&machine(&files), &[], &[]);
    let directories: Vec<&str> = listed["installations"]
        .as_array()
        .unwrap()
        .iter()
        .filter_map(|installation| installation["directory"].as_str())
        .collect();
    assert!(directories.contains(&"/usr/local/cuda-12.4/lib64"));
    let is_backup = |directory: &&str| backups.iter().any(|backup| directory.starts_with(backup));
    assert_eq!(directories.iter().copied().find(|d| is_backup(d)), None);
}

#[test]
fn toolkits_and_their_manifests() {
    let manifest = r#"{"cuda": {"version": "12.4.1"}, "libcufft": {"version": "11.2.1.3"}}"#;
    for root in [
        "/usr/local/cuda-12.4",
        "/opt/cuda",
        "/usr/lib/cuda",
        "/usr/lib/nvidia-cuda-toolkit",
        "/srv/toolkit",
    ] {
        let library = format!("{root}/lib64");
        // A library that was unpacked into the toolkit does not have the toolkit's version.
        let nccl = library_of_nccl(&library);
        let files = [
            unnamed(&library),
            nccl,
            text(&format!("{root}/version.json"), manifest),
        ];
        let env = [("CUDA_ROOT", "/srv/toolkit")];
        finds(
            "toolkit",
            &files,
            &env,
            &[(&library, "toolkit", "11.2.1.3", "cuda-toolkit 12.4.1")],
        );
        let listed = list(&machine(&files), &env, &["nccl"]);
        assert_eq!(
            installation(&listed, &library).unwrap(),
            ("toolkit".to_owned(), String::new(), String::new())
        );
    }
    let parts = [unnamed("/srv/cudnn/lib"), cufft("/srv/nccl")];
    let env = [("CUDNN_ROOT", "/srv/cudnn"), ("NCCL_HOME", "/srv/nccl")];
    finds(
        "toolkit",
        &parts,
        &env,
        &[
            ("/srv/cudnn/lib", "toolkit", "", ""),
            ("/srv/nccl", "loose", "11.2.1", ""),
        ],
    );
    let broken = [
        unnamed("/opt/cuda/lib64"),
        text("/opt/cuda/version.json", "{"),
    ];
    let listed = list(&machine(&broken), &[], &[]);
    assert_eq!(listed["warnings"][0]["path"], "/opt/cuda/version.json");
}

fn library_of_nccl(directory: &str) -> String {
    elf(
        &format!("{directory}/libnccl.so.2"),
        "soname = 'libnccl.so.2', exports = ['ncclSend']",
    )
}

/// Debian's `/usr/lib/cuda` leads to where all libraries are, and so does a `CUDA_HOME` of `/usr`.
#[test]
fn the_systems_own_directory_is_no_toolkit() {
    let system = "/usr/lib/x86_64-linux-gnu";
    let files = [
        cufft(system),
        text("/var/lib/dpkg/status", ""),
        link("/usr/lib/cuda/lib64", "../x86_64-linux-gnu"),
        text(
            "/apps/cuda/12",
            "prepend-path LD_LIBRARY_PATH /usr/lib/x86_64-linux-gnu\nsetenv CUDA_HOME /usr\n",
        ),
    ];
    let env = [("CUDA_HOME", "/usr"), ("_LMFILES_", "/apps/cuda/12")];
    let listed = list(&machine(&files), &env, &[]);
    assert_eq!(installation(&listed, system).unwrap().0, "loose");
}

#[test]
fn drivers() {
    for directory in [
        "/usr/lib/wsl/lib",
        "/usr/lib/wsl/drivers/nvlt.inf_amd64_1234",
        "/usr/lib64/nvidia",
        "/usr/lib/x86_64-linux-gnu/nvidia/current",
        "/usr/lib/x86_64-linux-gnu/nvidia/tesla-535",
        "/usr/lib/opengl/nvidia/lib",
        "/usr/lib/nvidia-384",
        "/usr/local/nvidia/lib64",
        "/run/nvidia/driver/usr/lib/x86_64-linux-gnu",
    ] {
        let files = [driver(directory, "550.54.15")];
        finds(
            "driver",
            &files,
            &[],
            &[(directory, "driver", "550.54.15", "")],
        );
    }
}

/// The machine of a test as the library sees it, later: nothing on it has just changed.
fn host(machine: &Machine, env: &[(&str, &str)]) -> Host {
    let env = [("HOME", "/home/user")]
        .iter()
        .chain(env)
        .copied()
        .collect();
    let mut host = Host::at(machine.root(), env, "/home/user".into()).unwrap();
    host.started += Duration::from_mins(1);
    host
}

#[test]
fn unchanged_files_are_not_read_again() {
    let mut files = conda("/srv/env").to_vec();
    for number in 0..50 {
        files.push(text(
            &format!("/srv/env/conda-meta/p{number}-1-0.json"),
            r#"{"files": ["a.so"]}"#,
        ));
    }
    let machine = machine(&files);
    let host = host(&machine, &[("CONDA_PREFIX", "/srv/env")]);
    let mut known = ScanCache::default();
    let scope = Scope {
        machine: 62,
        ..Scope::default()
    };
    let mut asked = || {
        let before = host.operations();
        let installations = inventory::scan(&host, &scope, &mut known).installations;
        (host.operations() - before, format!("{installations:?}"))
    };
    let (cold, warm) = (asked(), asked());
    assert_eq!(cold.1, warm.1);
    assert!(cold.1.contains("libcufft 11.2.1.3 0"), "{}", cold.1);
    assert!(
        warm.0 + 50 <= cold.0,
        "{} operations warm, {} cold",
        warm.0,
        cold.0
    );
}

/// A kept start holds as long as what is watched looks the same; each path is one question at every start.
#[test]
fn the_watch_list_is_complete_and_short() {
    let watched = |machine: &Machine, env: &[(&str, &str)]| {
        let scope = Scope {
            machine: 62,
            ..Scope::default()
        };
        inventory::scan(&host(machine, env), &scope, &mut ScanCache::default()).watched
    };
    let bare = machine(&[]);
    let on_bare = watched(&bare, &[]);

    assert!(on_bare.len() <= 16, "{on_bare:?}");
    let files = [
        text("/apps/modules/cuda/12", TCL),
        text("/srv/conda/conda-meta/history", ""),
        text("/srv/python/lib/python3.11/site-packages/a.py", ""),
        cufft("/opt/nvidia/hpc_sdk/Linux_x86_64/24.5/math_libs/lib64"),
        driver("/usr/lib/x86_64-linux-gnu/nvidia/current", "550.54.15"),
        cufft("/usr/lib/cuda/lib64"),
        text(
            "/proc/driver/nvidia/gpus/0000:01:00.0/information",
            "Device Minor: \t 1\n",
        ),
    ];
    let env = [
        ("CONDA_PREFIX", "/srv/conda"),
        ("VIRTUAL_ENV", "/srv/python"),
        ("_LMFILES_", "/apps/modules/cuda/12"),
        ("NVHPC_ROOT", "/apps/gone"),
        ("CUDNN_ROOT", "/apps/none"),
    ];
    let all = watched(&machine(&files), &env);
    for path in [
        "/apps/modules/cuda/12",
        "/apps/gone",
        "/apps/none",
        "/dev/nvidia1",
        "/opt/nvidia/hpc_sdk/Linux_x86_64",
        "/srv/conda/conda-meta",
        "/srv/python/lib",
        "/srv/python/lib64",
        "/srv/python/lib/python3.11/site-packages",
        "/usr/lib",
        "/usr/lib/cuda",
        "/usr/lib/x86_64-linux-gnu/nvidia",
    ] {
        assert!(all.contains(Path::new(path)), "{path}: {all:?}");
    }
}

/// DT_RUNPATH of a plug-in disables DT_RPATH of the program for its own requests, but not for those of libraries that it
/// loads.
#[test]
fn the_rpath_of_a_program_is_searched_beside_the_runpath_of_its_plugin() {
    let library = |directory: &str| {
        elf(
            &format!("{directory}/libcudart.so.12"),
            "soname = 'libcudart.so.12'",
        )
    };
    let files = |rpath: &str| {
        let plugin = "soname = 'libplug.so', needed = ['libcudart.so.12'], runpath = '/opt/second'";
        [
            program("app", &["libplug.so"], rpath),
            elf("/usr/lib/x86_64-linux-gnu/libplug.so", plugin),
            library("/opt/first"),
            library("/opt/second"),
        ]
    };
    let found = |rpath: &str| {
        let explained = Run::on(&machine(&files(rpath)), &["explain", "--json", "app"])
            .output()
            .0;
        let explained: Value = serde_json::from_str(&explained).unwrap();
        explained["families"].to_string()
    };
    assert!(found("").contains("/opt/second"));
    assert!(found("rpath = '/opt/first'").contains("/opt/first"));
    assert!(!found("").contains("/opt/first"), "the control");
}
