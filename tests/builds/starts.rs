//! `cudarun --build PROGRAM` on this machine: the view, the variables, and the second start.

use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use crate::support::{CUDARUN, Run, Workshop, copy_program};

/// A toolkit in the layout of wheels: `lib`, and no names for the linker. Its nvcc prints how it was called.
fn wheels(workshop: &Workshop, root: &str) {
    of_release(workshop, root, (13, 0), 99);
}

/// Such a toolkit with a release, which accepts GCC up to `gcc`, and with the headers that torch includes.
fn of_release(workshop: &Workshop, root: &str, (major, minor): (u32, u32), gcc: u32) {
    let number = major * 1000 + minor * 10;
    let release = format!("release {major}.{minor}, V{major}.{minor}.88");
    let tool =
        format!("#!/bin/sh\n# Cuda compilation tools, {release}\necho \"$0 in $CUDA_HOME\"\n");
    for name in [
        "bin/nvcc",
        "bin/ptxas",
        "bin/cudafe++",
        "bin/fatbinary",
        "bin/nvlink",
        "nvvm/bin/cicc",
    ] {
        let program = workshop.write(&format!("{root}/{name}"), &tool);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        ("include/cuda_runtime.h", ""),
        ("include/cuda.h", ""),
        (
            "include/cuda_runtime_api.h",
            &format!("#define CUDART_VERSION {number}\n"),
        ),
        (
            "include/crt/host_config.h",
            &format!("#if __GNUC__ > {gcc}\n"),
        ),
        ("include/cublas_v2.h", ""),
        ("include/cublasLt.h", ""),
        ("include/cusolverDn.h", ""),
        ("include/cusparse.h", ""),
        ("include/cccl/nv/target", ""),
        ("lib/libcudart.so.13", ""),
        ("lib/libcudart_static.a", ""),
        ("lib/libcudadevrt.a", ""),
        ("nvvm/libdevice/libdevice.10.bc", ""),
    ] {
        workshop.write(&format!("{root}/{name}"), text);
    }
}

/// An environment of Python with a torch that was built for this CUDA.
fn environment(workshop: &Workshop, root: &str, cuda: &str) {
    let site = format!("{root}/lib/python3.11/site-packages");
    workshop.write(
        &format!("{root}/pyvenv.cfg"),
        "home = /usr/bin\nversion_info = 3.11.7\n",
    );
    workshop.write(&format!("{site}/torch/__init__.py"), "");
    workshop.write(
        &format!("{site}/torch-2.6.0.dist-info/METADATA"),
        "Name: torch\nVersion: 2.6.0\n",
    );
    workshop.write(
        &format!("{site}/torch/version.py"),
        &format!("cuda: Optional[str] = '{cuda}'\n"),
    );
    fs::create_dir_all(workshop.path(&format!("{root}/bin"))).unwrap();
    copy_program("/bin/true", workshop.path(&format!("{root}/bin/python")));
}

/// Builds of one user, who has these directories in PATH. Each shows its variables.
struct Builds {
    workshop: Workshop,
    path: String,
}

impl Builds {
    fn new(directories: &[&str]) -> Builds {
        let workshop = Workshop::new();
        let path: Vec<String> = directories
            .iter()
            .map(|below| workshop.path(below).display().to_string())
            .collect();
        fs::create_dir(workshop.path("home")).unwrap();
        Builds {
            path: path.join(":"),
            workshop,
        }
    }

    fn run(&self, directory: &str) -> Run {
        // A file that has just changed may change again and keep its time.
        std::thread::sleep(std::time::Duration::from_millis(50));
        fs::create_dir_all(self.workshop.path(directory)).unwrap();
        let run = Run::new(["--build", "/usr/bin/env"]).env("HOME", self.workshop.path("home"));
        run.env("PATH", &self.path)
            .in_directory(self.workshop.path(directory))
    }

    /// The value of a variable in a build; the second one is kept.
    fn value(&self, directory: &str, name: &str) -> String {
        let value = || {
            let text = self.run(directory).any_stdout().check();
            let mut lines = text
                .lines()
                .filter_map(|line| line.strip_prefix(&format!("{name}=")));
            lines.next().unwrap_or_default().to_owned()
        };
        let first = value();
        let starts = self.workshop.path("home/.cache/cudarun/starts");
        assert!(
            fs::read_dir(starts).is_ok_and(|kept| kept.count() > 0),
            "nothing is kept"
        );
        assert_eq!(value(), first);
        first
    }

    /// The CUDA version of the toolkit that a build gets.
    fn cuda(&self, directory: &str) -> String {
        let view = self.value(directory, "CUDA_HOME");
        let header = fs::read_to_string(format!("{view}/include/cuda_runtime_api.h")).unwrap();
        header.trim().rsplit(' ').next().unwrap().to_owned()
    }
}

#[test]
fn a_project_gets_the_toolkit_for_its_own_environment() {
    let builds = Builds::new(&["cuda-12.4/bin", "cuda-13.0/bin"]);
    of_release(&builds.workshop, "cuda-12.4", (12, 4), 99);
    of_release(&builds.workshop, "cuda-13.0", (13, 0), 99);
    environment(&builds.workshop, "a/.venv", "12.4");
    environment(&builds.workshop, "b/.venv", "13.0");
    assert_eq!(builds.cuda("a"), "12040");
    assert_eq!(builds.cuda("b"), "13000");
    assert_eq!(builds.cuda("a"), "12040");
    assert_eq!(
        builds.cuda("c"),
        "13000",
        "without an environment, the newest"
    );
    environment(&builds.workshop, "c/.venv", "12.4");
    assert_eq!(builds.cuda("c"), "12040");
    builds.workshop.write(
        "c/.venv/lib/python3.11/site-packages/torch/version.py",
        "cuda: Optional[str] = '13.0'\n",
    );
    assert_eq!(builds.cuda("c"), "13000");
}

#[test]
fn a_kept_build_notices_a_part_that_was_missing() {
    let builds = Builds::new(&["cuda-12.4/bin", "cuda-13.0/bin"]);
    of_release(&builds.workshop, "cuda-12.4", (12, 4), 99);
    of_release(&builds.workshop, "cuda-13.0", (13, 0), 99);
    for part in [
        "nvvm/bin",
        "bin/fatbinary",
        "include/cuda.h",
        "include/crt",
        "lib",
    ] {
        let (part, aside) = (
            builds.workshop.path(&format!("cuda-13.0/{part}")),
            builds.workshop.path("aside"),
        );
        fs::rename(&part, &aside).unwrap();
        if part.ends_with("lib") {
            fs::create_dir_all(builds.workshop.path("cuda-13.0/lib64/stubs")).unwrap();
        }
        assert_eq!(builds.cuda("here"), "12040", "{}", part.display());
        fs::rename(&aside, &part).unwrap();
        assert_eq!(builds.cuda("here"), "13000", "{}", part.display());
    }
}

#[test]
fn a_kept_build_notices_another_compiler() {
    let builds = Builds::new(&["bin", "cuda-12.4/bin"]);
    of_release(&builds.workshop, "cuda-12.4", (12, 4), 11);
    let compiler = |name: &str| {
        let path = builds.workshop.write(&format!("bin/{name}"), "#!/bin/sh\n");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    };
    for name in ["gcc", "g++"] {
        symlink(
            compiler(&format!("real-{name}-14")),
            builds.workshop.path("bin").join(name),
        )
        .unwrap();
    }
    let old = compiler("g++-9");
    assert_eq!(
        builds.value("", "NVCC_PREPEND_FLAGS"),
        format!("-ccbin={}", old.display())
    );
    let newer = compiler("g++-11");
    assert_eq!(
        builds.value("", "NVCC_PREPEND_FLAGS"),
        format!("-ccbin={}", newer.display())
    );
    fs::remove_file(newer).unwrap();
    fs::remove_file(old).unwrap();
    builds
        .run("")
        .status(125)
        .stderr_contains(&["accepts GCC up to 11", "apt install g++-11"])
        .check();
}

#[test]
fn paths_that_nvcc_would_misread_lead_through_the_view() {
    for name in ["a`b", "a%2Fb", "c:d", "a\\b", "a$b"] {
        let workshop = Workshop::new();
        wheels(&workshop, name);
        fs::rename(
            workshop.path(&format!("{name}/lib")),
            workshop.path(&format!("{name}/lib64")),
        )
        .unwrap();
        workshop.write(&format!("{name}/lib64/libcudart.so"), "");
        let run = Run::new(["--build", "sh", "-c", "cat $CUDA_HOME/bin/nvcc.profile"]);
        let text = run
            .env("CUDA_HOME", workshop.path(name))
            .any_stdout()
            .check();
        assert!(
            text.contains("-I$(TOP)/include") && !text.contains(name),
            "{name}: {text}"
        );
    }
}

#[test]
fn a_build_without_path_gets_the_default_one() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    let also = workshop.path("cu13");
    let script = "cd $CUDA_HOME && echo ${PATH#$PWD/}";
    let run = Run::new([
        "--also",
        also.to_str().unwrap(),
        "--build",
        "/bin/sh",
        "-c",
        script,
    ]);
    run.without("PATH").stdout("bin:/bin:/usr/bin\n").check();
}

#[test]
fn a_shell_has_the_variables_of_a_build() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    let also = workshop.path("cu13");
    let shell = |options: &[&str]| {
        let mut command = Command::new(CUDARUN);
        command
            .args(["--also", also.to_str().unwrap(), "shell"])
            .args(options)
            .arg("true")
            .env_clear();
        command
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", workshop.path("home"))
            .env("SHELL", "/bin/bash");
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        // Without a plan there may be no reader.
        let _ = child
            .stdin
            .take()
            .unwrap()
            .write_all(b"echo $CUDA_HOME; exit 7\n");
        let output = child.wait_with_output().unwrap();
        (
            String::from_utf8(output.stdout).unwrap(),
            output.status.code(),
        )
    };
    let (text, status) = shell(&["--build"]);
    assert!(text.contains("/home/.cache/cudarun/views/"), "{text}");
    assert_eq!(status, Some(7));
    assert_eq!(shell(&[]), (String::new(), Some(125)));
}

#[test]
fn a_build_gets_a_view_that_has_what_builds_look_for() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    workshop.write("cu13/extras/CUPTI/include/cupti.h", "");
    let also = workshop.path("cu13");
    let also = also.to_str().unwrap();
    let script = "cd $CUDA_HOME && ls -d bin/nvcc include/cuda_runtime.h nvvm/bin/cicc lib64/libcudart.so \
                  extras/CUPTI/include/cupti.h && \
                  readlink lib lib64/libcudart.so include && cat bin/nvcc.profile && nvcc && $CUDACXX";
    let home = workshop.path("home");
    fs::create_dir(&home).unwrap();
    let run = Run::new(["--also", also, "--build", "sh", "-c", script]).env("HOME", &home);
    let text = run.any_stdout().check();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..5],
        [
            "bin/nvcc",
            "extras/CUPTI/include/cupti.h",
            "include/cuda_runtime.h",
            "lib64/libcudart.so",
            "nvvm/bin/cicc"
        ],
        "{text}"
    );
    assert_eq!(
        lines[5..8],
        [
            "lib64",
            &format!("{also}/lib/libcudart.so.13"),
            &format!("{also}/include")
        ],
        "{text}"
    );
    let views = home.join(".cache/cudarun/views");
    let view = fs::read_dir(&views)
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    assert!(
        text.contains(&format!("-I{also}/include")) && text.contains(&format!("-L{also}/lib\"")),
        "{text}"
    );
    // By PATH and by CUDACXX, in a shell that nvcc was not named to.
    assert_eq!(
        text.matches(&format!("{0}/bin/nvcc in {0}\n", view.display()))
            .count(),
        2,
        "{text}"
    );
    Run::new(["--also", also, "--build", "nvcc"])
        .stdout_contains(&["/bin/nvcc in "])
        .check();
    Run::new(["--also", also, "nvcc"])
        .status(127)
        .any_stderr()
        .check();
}

#[test]
fn a_toolkit_with_the_usual_layout_is_used_in_its_place() {
    let workshop = Workshop::new();
    wheels(&workshop, "cuda");
    fs::rename(workshop.path("cuda/lib"), workshop.path("cuda/lib64")).unwrap();
    workshop.write("cuda/lib64/libcudart.so", "");
    let root = workshop.path("cuda");
    let run = Run::new(["--build", "sh", "-c", "echo $CUDA_HOME"]).env("CUDA_HOME", &root);
    run.stdout(format!("{}\n", root.display())).check();
}

#[test]
fn a_second_build_is_a_kept_start_until_the_toolkit_changes() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    let home = workshop.path("home");
    fs::create_dir(&home).unwrap();
    let toolkit = workshop.path("cu13");
    // A file that has just changed may change again and keep its time.
    std::thread::sleep(std::time::Duration::from_millis(50));
    let start = |program: &Path| {
        let run = Run::new(["--build", "env"])
            .env("HOME", &home)
            .env("CUDA_HOME", &toolkit)
            .env("CUDA_PATH", program);
        let told = run.any_stdout().any_stderr().check();
        // It names the process.
        let same = told
            .lines()
            .filter(|line| !line.starts_with("CUDARUN_TREE="));
        same.collect::<Vec<_>>().join("\n")
    };
    let kept = || fs::read_dir(home.join(".cache/cudarun/starts")).map_or(0, Iterator::count);
    let first = start(&toolkit);
    assert_eq!(
        first
            .lines()
            .filter(|line| line.starts_with("CUDACXX="))
            .count(),
        1,
        "{first}"
    );
    let after_first = kept();
    assert_eq!(start(&toolkit), first);
    assert_eq!(kept(), after_first);
    // These words are another start without --build.
    let plain = Run::new(["env"])
        .env("HOME", &home)
        .env("CUDA_HOME", &toolkit)
        .any_stdout()
        .check();
    assert!(!plain.contains("CUDACXX="), "{plain}");
    fs::remove_file(toolkit.join("nvvm/bin/cicc")).unwrap();
    let gone = Run::new(["--build", "env"])
        .env("HOME", &home)
        .env("CUDA_HOME", &toolkit)
        .env("CUDA_PATH", &toolkit);
    gone.status(125).stderr_contains(&["cicc missing"]).check();
}

#[test]
fn verbs_that_build_nothing_do_not_take_the_option() {
    for verb in ["list", "verify", "trace", "doctor"] {
        let code = if verb == "trace" { 125 } else { 2 };
        Run::new(["--build", verb, "true"])
            .status(code)
            .stderr_contains(&["unexpected argument '--build'"])
            .check();
    }
}

#[test]
fn settings_demand_a_toolkit() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    let start = |setting: &str| {
        workshop.write("project/.cudarun.toml", setting);
        let run = Run::new(["--build", "true"]).env("CUDA_HOME", workshop.path("cu13"));
        run.in_directory(workshop.path("project"))
    };
    for (table, key) in [("build", "toolkit"), ("requires", "cuda-toolkit")] {
        start(&format!("[{table}]\n{key} = \">=13\"\n")).check();
        let refused = start(&format!("[{table}]\n{key} = \"12.4\"\n")).status(125);
        refused
            .stderr_contains(&["is not 12.4, for", ".cudarun.toml", "hint:"])
            .check();
    }
    start("[build]\ntoolkit = 12\n")
        .status(125)
        .stderr_contains(&["build.toolkit"])
        .check();
    let without = Run::new(["true"]).env("CUDA_HOME", workshop.path("cu13"));
    without
        .in_directory(workshop.path("project"))
        .status(125)
        .any_stderr()
        .check();
}
