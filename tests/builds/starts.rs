//! `cudarun --build PROGRAM` on this machine: the view, the variables, and the second start.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::support::{Run, Workshop};

/// A toolkit in the layout of wheels: `lib`, and no names for the linker. Its nvcc prints how it was called.
fn wheels(workshop: &Workshop, root: &str) {
    of_release(workshop, root, (13, 0), 99);
}

/// Such a toolkit with a release, which accepts GCC up to `gcc`, and with the headers that torch includes.
fn of_release(workshop: &Workshop, root: &str, (major, minor): (u32, u32), gcc: u32) {
    let number = major * 1000 + minor * 10;
    let release = format!("release {major}.{minor}, V{major}.{minor}.88");
    let tool = format!("#!/bin/sh\n# Cuda compilation tools, {release}\necho \"$0 in $CUDA_HOME\"\n");
    for name in ["bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc"] {
        let program = workshop.write(&format!("{root}/{name}"), &tool);
        fs::set_permissions(program, fs::Permissions::from_mode(0o755)).unwrap();
    }
    for (name, text) in [
        ("include/cuda_runtime.h", ""),
        ("include/cuda.h", ""),
        ("include/cuda_runtime_api.h", &format!("#define CUDART_VERSION {number}\n")),
        ("include/crt/host_config.h", &format!("#if __GNUC__ > {gcc}\n")),
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

#[test]
fn a_build_gets_a_view_that_has_what_builds_look_for() {
    let workshop = Workshop::new();
    wheels(&workshop, "cu13");
    let also = workshop.path("cu13");
    let also = also.to_str().unwrap();
    let script = "cd $CUDA_HOME && ls -d bin/nvcc include/cuda_runtime.h nvvm/bin/cicc lib64/libcudart.so && \
                  readlink lib lib64/libcudart.so include && cat bin/nvcc.profile && nvcc && $CUDACXX";
    let home = workshop.path("home");
    fs::create_dir(&home).unwrap();
    let run = Run::new(["--also", also, "--build", "sh", "-c", script]).env("HOME", &home);
    let text = run.any_stdout().check();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(
        lines[..4],
        ["bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so", "nvvm/bin/cicc"],
        "{text}"
    );
    assert_eq!(
        lines[4..7],
        ["lib64", &format!("{also}/lib/libcudart.so.13"), &format!("{also}/include")],
        "{text}"
    );
    let views = home.join(".cache/cudarun/views");
    let view = fs::read_dir(&views).unwrap().next().unwrap().unwrap().path();
    assert!(
        text.contains(&format!("-I{also}/include")) && text.contains(&format!("-L{also}/lib\"")),
        "{text}"
    );
    // By PATH and by CUDACXX, in a shell that nvcc was not named to.
    assert_eq!(text.matches(&format!("{0}/bin/nvcc in {0}\n", view.display())).count(), 2, "{text}");
    Run::new(["--also", also, "--build", "nvcc"]).stdout_contains(&["/bin/nvcc in "]).check();
    Run::new(["--also", also, "nvcc"]).status(127).any_stderr().check();
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
        run.any_stdout().any_stderr().check()
    };
    let kept = || fs::read_dir(home.join(".cache/cudarun/starts")).map_or(0, Iterator::count);
    let first = start(&toolkit);
    assert_eq!(first.lines().filter(|line| line.starts_with("CUDACXX=")).count(), 1, "{first}");
    let after_first = kept();
    assert_eq!(start(&toolkit), first);
    assert_eq!(kept(), after_first);
    // These words are another start without --build.
    let plain = Run::new(["env"]).env("HOME", &home).env("CUDA_HOME", &toolkit).any_stdout().check();
    assert!(!plain.contains("CUDACXX="), "{plain}");
    fs::remove_file(toolkit.join("nvvm/bin/cicc")).unwrap();
    let gone =
        Run::new(["--build", "env"]).env("HOME", &home).env("CUDA_HOME", &toolkit).env("CUDA_PATH", &toolkit);
    gone.status(125).stderr_contains(&["cicc missing"]).check();
}

#[test]
fn verbs_that_build_nothing_do_not_take_the_option() {
    for verb in ["list", "verify", "trace", "doctor"] {
        let code = if verb == "trace" { 125 } else { 2 };
        Run::new(["--build", verb, "true"])
            .status(code)
            .stderr_contains(&["'--build' cannot be used with"])
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
        refused.stderr_contains(&["is not 12.4, for", ".cudarun.toml", "hint:"]).check();
    }
    start("[build]\ntoolkit = 12\n").status(125).stderr_contains(&["build.toolkit"]).check();
    let without = Run::new(["true"]).env("CUDA_HOME", workshop.path("cu13"));
    without.in_directory(workshop.path("project")).status(125).any_stderr().check();
}
