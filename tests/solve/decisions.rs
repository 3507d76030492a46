//! The solver's decisions on machines that are made for one question each.

use std::path::Path;

use cudarun::solve::{Criterion, Reason};

use crate::support::Run;
use crate::support::decided::{decided, decided_with};
use crate::support::machine::Machine;
use crate::support::parts::{
    SHIELDED, SITE, SUBLIBRARIES, SYSTEM, compat, cudnn, driver, elf, kernel, library, link,
    machine, node, program, python, text,
};

/// The plan for a program in an environment that must not reach this process's own loader.
fn plan(machine: &Machine, variable: &str, value: &str, name: &str) -> cudarun::solve::Plan {
    use cudarun::{host::Host, inventory, program, solve};
    let env = [
        ("PATH", "/usr/bin"),
        ("LD_LIBRARY_PATH", "/opt/cuda"),
        (variable, value),
    ]
    .into_iter()
    .collect();
    let host = Host::at(machine.root(), env, "/".into()).unwrap();
    let command = program::Command {
        program: name.into(),
        arguments: Vec::new(),
    };
    let (program, _) = program::read(&host, &command, &[]).unwrap();
    let scope = inventory::Scope {
        machine: program.machine,
        symbols: true,
        ..Default::default()
    };
    let found = inventory::scan(&host, &scope, &mut inventory::ScanCache::default());
    match solve::solve(&found, &program, &solve::Policy::default()) {
        solve::Outcome::Plan(plan) => plan,
        other => panic!("{other:#?}"),
    }
}

/// The names that the view holds, with what each leads to.
fn view(machine: &Machine, library_path: &str, name: &str) -> Vec<(String, String)> {
    let spec = cudarun::pin::view::spec(&plan(machine, "LD_LIBRARY_PATH", library_path, name));
    spec.links
        .into_iter()
        .map(|(name, path)| (name, path.display().to_string()))
        .collect()
}

#[test]
fn search_paths_to_different_installations_are_refused() {
    let machine = python(&[
        node(),
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
        extension("first", "/opt/old"),
        extension("second", "/opt/new"),
    ]);
    let command = ["python3", "-c", "import first, second"];
    let conflict = decided(&machine, "", &command);
    let taken = conflict.unmet[0].forced.iter();
    let directories: Vec<&Path> = taken.map(|it| &*it.installation.directory).collect();
    let both = ["/opt/old", "/opt/new"].map(Path::new);
    assert_eq!(directories, both, "{conflict:#?}");
    Run::on(&machine, &[&["-v", "export"][..], &command].concat())
        .status(1)
        .stderr_contains(&[
            "LD_LIBRARY_PATH alone cannot help: `first` finds the one in /opt/old first (its DT_RPATH)",
            "LD_LIBRARY_PATH alone cannot help: `second` finds the one in /opt/new first (its DT_RPATH)",
        ])
        .check();
}

#[test]
fn the_first_dependency_in_link_order_decides() {
    let machine = machine(&[
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
        elf(
            "/opt/app/libfirst.so",
            "soname = 'libfirst.so', needed = ['libcudnn.so.9'], rpath = '/opt/old'",
        ),
        elf(
            "/opt/app/libsecond.so",
            "soname = 'libsecond.so', needed = ['libcudnn.so.9'], rpath = '/opt/new'",
        ),
        program(
            "app",
            &["libfirst.so", "libsecond.so", "libc.so.6"],
            "runpath = '/opt/app'",
        ),
    ]);
    assert_eq!(decided(&machine, "", &["app"]).picked("cudnn"), "/opt/old");
}

fn extension(package: &str, rpath: &str) -> String {
    let fields = format!("soname = '_ext.so', needed = ['libcudnn.so.9'], rpath = '{rpath}'");
    text(&format!("{SITE}/{package}/__init__.py"), "")
        + &elf(&format!("{SITE}/{package}/_ext.so"), &fields)
}

/// A package that may only be used is pinned if it fits with the used ones, and is no reason to refuse if it
/// does not.
#[test]
fn guessed_packages_never_block_a_start() {
    let files = [
        node(),
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
        extension("first", "/opt/old"),
        extension("second", "/opt/new"),
    ];
    let machine = python(&files);
    let decided = |code: &str| decided(&machine, "", &["python3", "-c", code]);
    let known = decided("import first; __import__(name)");
    assert_eq!(known.picked("cudnn"), "/opt/old");
    let guessed = decided("__import__(name)");
    assert_eq!(guessed.decision, "nothing", "{guessed:#?}");
    assert_eq!(guessed.left().0, "cudnn");
    let control = decided("import first, second");
    assert_eq!(control.decision, "conflict");
}

/// On purpose, no GPU is to be used: what is only for GPUs is no reason not to start.
#[test]
fn hidden_gpus_need_nothing_that_is_not_linked() {
    let files = [
        node(),
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        extension("first", "/opt/old"),
        extension("second", "/opt/new"),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
    ];
    let machine = python(&files);
    let both = ["python3", "-c", "import first, second"];
    for (visible, decision) in [
        ("", "nothing"),
        ("-1", "nothing"),
        ("NoDevFiles", "nothing"),
        ("0", "conflict"),
    ] {
        let decided = decided_with(&machine, &[("CUDA_VISIBLE_DEVICES", visible)], &both);
        assert_eq!(decided.decision, decision, "{visible}");
    }
}

/// Packages use the CPU if there is no GPU. Controls: there is a GPU, a person requires the library, or a program is linked
/// against it.
#[test]
fn without_a_gpu_packages_start_on_the_cpu() {
    let packages = [
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        extension("first", "/opt/old"),
        extension("second", "/opt/new"),
        cudnn("/opt/new", "9.10.2.21", SHIELDED),
    ];
    let both = ["python3", "-c", "import first, second"];
    let export = |machine: &Machine, options: &[&str]| {
        Run::on(machine, &[&["export"], options, &both].concat())
    };
    let without = python(&packages);
    let line = "no GPU is reachable, and libcudnn.so.9 is not pinned: no cuDNN here fits";
    export(&without, &[])
        .any_stdout()
        .stderr_contains(&[line])
        .check();
    // CUDA_VISIBLE_DEVICES hides the GPUs on purpose, so no message is needed.
    export(&without, &[])
        .env("CUDA_VISIBLE_DEVICES", "")
        .any_stdout()
        .stderr("")
        .check();
    let refused_with = "error: no cuDNN here fits";
    let with = python(&[&packages[..], &[node()]].concat());
    export(&with, &[])
        .status(1)
        .stderr_contains(&[refused_with])
        .check();
    export(&without, &["--require", "cudnn>=9"])
        .status(1)
        .stderr_contains(&[refused_with])
        .check();
    let torn = text("/opt/torn/libcuda.so.1", "torn");
    let linked = machine(&[torn, program("app", &["libcublas.so.12", "libc.so.6"], "")]);
    assert_eq!(decided(&linked, "/opt/lib", &["app"]).unmet(), "cublas");
}

/// A library that the loader cannot map counts as absent. Controls: the library is absent, and a program that is linked
/// against it.
#[test]
fn a_broken_optional_library_is_as_good_as_absent() {
    let new = "imports = { 'libnvJitLink.so.12' = ['__nvJitLinkCreate_12_8'] }, needed = ['libnvJitLink.so.12']";
    let cusparse = library(SYSTEM, "libcusparse", "12", "12.5.9.5", new);
    let cut = library(SYSTEM, "libcusparse", "12", "12.5.9.5", "truncated = true");
    let jit = library(
        SYSTEM,
        "libnvJitLink",
        "12",
        "12.1.105",
        "exports = ['__nvJitLinkCreate_12_1']",
    );
    let cudart = library(SYSTEM, "libcudart", "12", "12.4.127", "");
    let cupy = [
        text(&format!("{SITE}/cupy/__init__.py"), ""),
        text(
            &format!("{SITE}/cupy/.data/_wheel.json"),
            r#"{"cuda": "12.x"}"#,
        ),
        text(
            &format!("{SITE}/cupy_cuda12x-13.4.1.dist-info/METADATA"),
            "Name: cupy-cuda12x\nVersion: 13.4.1\n",
        ),
    ];
    let command = ["python3", "-c", "import cupy"];
    for (broken, why) in [
        (vec![cusparse.clone(), jit.clone()], "libcusparse.so.12"),
        (vec![cusparse.clone()], "libcusparse.so.12"),
        (vec![cut], "libcusparse.so.12"),
        (vec![], ""),
    ] {
        let machine = python(&[&cupy[..], &[node(), cudart.clone()], &broken].concat());
        let explained = decided(&machine, "", &command);
        assert_eq!(explained.picked("cudart"), SYSTEM);
        let left = explained.unpinned.first();
        assert_eq!(
            left.map_or("", |left| &left.names[0]),
            why,
            "{explained:#?}"
        );
    }
    let app = program("app", &["libcusparse.so.12", "libc.so.6"], "");
    let linked = machine(&[cusparse, jit, app]);
    assert_eq!(decided(&linked, "", &["app"]).unmet(), "nvjitlink");
}

#[test]
fn dependencies_of_a_pick_decide_pending_requirements() {
    let machine = machine(&[
        library(
            "/opt/cufft",
            "libcufft",
            "11",
            "11.2.1",
            "needed = ['libnppif.so.12']",
        ),
        library("/opt/a", "libnppc", "12", "12.9.1", ""),
        library("/opt/b", "libnppc", "12", "12.4.1", ""),
        library("/opt/b", "libnppif", "12", "12.4.1", ""),
        program("app", &["libcufft.so.11", "libnppc.so.12", "libc.so.6"], ""),
    ]);
    let explained = decided(&machine, "/opt/cufft:/opt/a:/opt/b", &["app"]);
    assert_eq!(explained.picked("npp"), "/opt/b");
    assert_eq!(explained.why_not("npp", "/opt/a"), "is libnppc.so.12");
}

#[test]
fn dependencies_of_a_pick_can_revoke_an_earlier_pick() {
    let pair = |directory: &str, version: &str| {
        library(directory, "libcublas", "12", version, "")
            + &library(directory, "libcublasLt", "12", version, "")
    };
    let machine = machine(&[
        pair("/opt/a", "12.9.1"),
        pair("/opt/b", "12.4.1"),
        library("/opt/b", "libnvblas", "12", "12.4.1", ""),
        library(
            "/opt/c",
            "libcusolver",
            "11",
            "11.6.1",
            "needed = ['libnvblas.so.12']",
        ),
        program(
            "app",
            &["libcublas.so.12", "libcusolver.so.11", "libc.so.6"],
            "",
        ),
    ]);
    let explained = decided(&machine, "/opt/a:/opt/b:/opt/c", &["app"]);
    assert_eq!(explained.picked("cublas"), "/opt/b");
}

#[test]
fn one_of_the_names_that_a_program_tries_will_do() {
    let machine = machine(&[
        kernel("580.159.04"),
        driver(SYSTEM, "580.159.04"),
        library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
        program(
            "app",
            &["libc.so.6"],
            "constants = ['libcudart.so.12.9', 'libcudart.so.12']",
        ),
        program(
            "other",
            &["libcuda.so.1", "libc.so.6"],
            "constants = ['libnvcuvid.so.1']",
        ),
    ]);
    let explained = decided(&machine, "/opt/cuda", &["app"]);
    assert_eq!(explained.picked("cudart"), "/opt/cuda");
    let explained = decided(&machine, "", &["other"]);
    assert_eq!(
        explained.picked("driver"),
        SYSTEM,
        "a name that is only tried is no need"
    );
}

#[test]
fn a_longer_name_of_another_installation_gets_a_tombstone() {
    let new = "/opt/new";
    let machine = machine(&[
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn(new, "9.10.2.21", SHIELDED),
        link("/opt/new/libcudnn.so.9.10.2", "libcudnn.so.9"),
        program(
            "app",
            &["libcudnn.so.9", "libc.so.6"],
            "rpath = '/opt/old', constants = ['libcudnn.so.9.10.2', 'libcudnn.so.9.11.0']",
        ),
    ]);
    let explained = decided(&machine, new, &["app"]);
    assert_eq!(explained.picked("cudnn"), "/opt/old");
    assert_eq!(explained.tombstones, ["libcudnn.so.9.10.2"]);
}

#[test]
fn a_name_with_a_whole_version_comes_before_the_programs_own_directories() {
    for (names, directory, decided_by) in [
        ("'libcudnn.so.9'", "/opt/own", Criterion::CameWithTarget),
        (
            "'libcudnn.so.9', 'libcudnn.so.9.10.2'",
            "/opt/new",
            Criterion::NamedVersion,
        ),
    ] {
        let app = format!("runpath = '/opt/own', constants = [{names}]");
        let machine = machine(&[
            cudnn("/opt/own", "9.1.0.70", SHIELDED),
            cudnn("/opt/new", "9.10.2.21", SHIELDED),
            link("/opt/new/libcudnn.so.9.10.2", "libcudnn.so.9"),
            program("app", &["libc.so.6"], &app),
        ]);
        let explained = decided(&machine, "/opt/new", &["app"]);
        assert_eq!(explained.picked("cudnn"), directory);
        assert_eq!(explained.pick("cudnn").decided_by, decided_by);
    }
}

#[test]
fn the_kernels_own_driver_comes_before_a_substitute() {
    let machine = machine(&[
        kernel("550.54.15"),
        compat("/usr/local/cuda-12.4/compat", "550.54.15", "535, 550"),
        driver("/opt/driver", "550.54.15"),
        link(
            "/usr/lib/x86_64-linux-gnu/libcuda.so.1",
            "/usr/local/cuda-12.4/compat/libcuda.so.1",
        ),
        library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
        program("app", &["libcudart.so.12", "libc.so.6"], ""),
    ]);
    let explained = decided(&machine, "/opt/cuda:/opt/driver", &["app"]);
    assert_eq!(explained.picked("driver"), "/opt/driver");
    assert_eq!(explained.pick("driver").decided_by, Criterion::KernelsOwn);
}

#[test]
fn a_driver_is_classified_by_the_real_path_of_its_file() {
    let machine = machine(&[
        kernel("535.261.03"),
        driver(SYSTEM, "535.261.03"),
        elf(
            "/usr/local/cuda-12.4/lib64/stubs/libcuda.so",
            "soname = 'libcuda.so.1'",
        ),
        link(
            "/usr/local/cuda-12.4/lib64/libcuda.so.1",
            "stubs/libcuda.so",
        ),
        compat("/opt/conda/cuda-compat", "580.95.05", "535, 580"),
        elf("/opt/nameless/libcuda.so.1", "soname = 'libcuda.so.1'"),
        library(
            "/usr/local/cuda-12.4/lib64",
            "libcudart",
            "12",
            "12.4.127",
            "",
        ),
        library("/opt/cuda-13", "libcudart", "13", "13.0.96", ""),
        program("app", &["libcudart.so.12", "libcuda.so.1", "libc.so.6"], ""),
        program("for-13", &["libcudart.so.13", "libc.so.6"], ""),
    ]);
    let explained = decided(
        &machine,
        "/opt/nameless:/usr/local/cuda-12.4/lib64",
        &["app"],
    );
    assert_eq!(explained.picked("driver"), SYSTEM);
    assert!(
        explained
            .why_not("driver", "/usr/local/cuda-12.4/lib64/stubs")
            .starts_with("a stub")
    );
    assert!(
        explained
            .why_not("driver", "/opt/nameless")
            .starts_with("its version is unknown")
    );
    // The toolkit's directory stays, and the driver comes before it.
    assert_eq!(explained.removed, ["/opt/nameless"]);
    assert!(explained.driver_in_view);
    let explained = decided(&machine, "/opt/conda/cuda-compat:/opt/cuda-13", &["for-13"]);
    assert_eq!(explained.picked("driver"), "/opt/conda/cuda-compat");
}

#[test]
fn drivers_of_two_numbers_are_known_by_their_file_names() {
    let machine = machine(&[
        kernel("470.86"),
        driver(SYSTEM, "460.84"),
        driver("/opt/driver", "470.86"),
        program("app", &["libcuda.so.1", "libc.so.6"], ""),
    ]);
    let explained = decided(&machine, "/opt/driver", &["app"]);
    assert_eq!(explained.picked("driver"), "/opt/driver");
    assert_eq!(
        explained.why_not("driver", SYSTEM),
        "the kernel runs driver 470.86"
    );
}

#[test]
fn any_part_of_another_driver_on_the_path_puts_the_driver_into_the_view() {
    let machine = machine(&[
        kernel("580.159.04"),
        driver(SYSTEM, "580.159.04"),
        library(SYSTEM, "libnvidia-ptxjitcompiler", "1", "580.159.04", ""),
        library("/opt/old", "libnvidia-ptxjitcompiler", "1", "535.54.03", ""),
        library("/opt/old", "libnccl", "2", "2.21.5", ""),
        program("app", &["libnccl.so.2", "libc.so.6"], ""),
    ]);
    assert!(decided(&machine, "/opt/old", &["app"]).driver_in_view);
    let links = view(&machine, "/opt/old", "app");
    let leads_to = |name: &str| {
        links
            .iter()
            .find(|(link, _)| link == name)
            .map(|(_, path)| path.as_str())
    };
    assert_eq!(
        leads_to("libnvidia-ptxjitcompiler.so.1"),
        Some("/usr/lib/x86_64-linux-gnu/libnvidia-ptxjitcompiler.so.580.159.04")
    );
}

/// The loader would end the program at such a file, and does not look further.
#[test]
fn a_file_with_the_drivers_name_that_is_no_library_puts_the_driver_into_the_view() {
    let is_in_view = |torn: &[String]| {
        let mut files = vec![
            kernel("580.159.04"),
            driver(SYSTEM, "580.159.04"),
            library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
            program("app", &["libcuda.so.1", "libcudart.so.12", "libc.so.6"], ""),
        ];
        files.extend_from_slice(torn);
        let path = format!("/opt/torn:/opt/cuda:{SYSTEM}");
        decided(&machine(&files), &path, &["app"]).driver_in_view
    };
    let torn = "[[file]]\npath = \"/opt/torn/libcuda.so.1\"\ntext = \"torn\"\n".to_owned();
    assert!(is_in_view(&[torn]));
    assert!(!is_in_view(&[]), "the control");
}

#[test]
fn a_directory_that_holds_libraries_of_others_stays() {
    let machine = machine(&[
        kernel("580.159.04"),
        driver(SYSTEM, "580.159.04"),
        library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
        driver("/opt/app", "535.54.03"),
        elf("/opt/app/libapp.so", "soname = 'libapp.so'"),
        driver("/opt/pure", "535.54.03"),
        elf(
            "/opt/pure/libnvidia-glcore.so.535.54.03",
            "soname = 'libnvidia-glcore.so.535.54.03'",
        ),
        elf("/opt/stubs/libcudart.so", "soname = 'libcudart.so.12'"),
        elf("/opt/stubs/libown.so", "soname = 'libown.so'"),
        program(
            "app",
            &["libapp.so", "libown.so", "libcudart.so.12", "libc.so.6"],
            "",
        ),
    ]);
    let explained = decided(
        &machine,
        "/opt/app:/opt/pure:/opt/stubs:/opt/cuda",
        &["app"],
    );
    assert_eq!(explained.removed, ["/opt/pure"]);
    assert!(explained.driver_in_view);
    assert_eq!(explained.picked("cudart"), "/opt/cuda");
}

#[test]
fn without_a_driver_a_program_that_is_linked_against_it_keeps_its_stubs() {
    let machine = machine(&[
        library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
        elf("/opt/cuda/stubs/libcuda.so", "soname = 'libcuda.so.1'"),
        link("/opt/cuda/stubs/libcuda.so.1", "libcuda.so"),
        program("app", &["libcudart.so.12", "libcuda.so.1", "libc.so.6"], ""),
        program("free", &["libcudart.so.12", "libc.so.6"], ""),
    ]);
    let path = "/opt/cuda/stubs:/opt/cuda";
    assert_eq!(decided(&machine, path, &["app"]).removed, [""; 0]);
    let free = decided(&machine, path, &["free"]);
    assert_eq!(free.removed, ["/opt/cuda/stubs"]);
}

#[test]
fn a_preload_of_a_family_that_was_not_picked_stays() {
    let machine = machine(&[
        library("/opt/cuda", "libcudart", "12", "12.4.127", ""),
        library("/opt/other", "libcudart", "12", "12.1.105", ""),
        library("/opt/nccl", "libnccl", "2", "2.21.5", ""),
        program("app", &["libcudart.so.12", "libc.so.6"], ""),
    ]);
    let removed = |preload: &str| {
        plan(&machine, "LD_PRELOAD", preload, "app")
            .preload
            .into_iter()
            .next()
            .unwrap()
            .removed
    };
    assert_eq!(removed("/opt/nccl/libnccl.so.2"), None);
    assert_eq!(
        removed("/opt/other/libcudart.so.12").as_deref(),
        Some("cudart")
    );
}

#[test]
fn an_optional_library_that_does_not_fit_is_named_and_not_pinned() {
    let machine = machine(&[
        kernel("450.80.02"),
        driver(SYSTEM, "450.80.02"),
        library("/opt/cuda", "libcudart", "11.0", "11.8.89", ""),
        library("/opt/cuda-12", "libcufft", "11", "11.2.1", ""),
        program(
            "app",
            &["libcudart.so.11.0", "libc.so.6"],
            "constants = ['libcufft.so.11']",
        ),
    ]);
    let path = "/opt/cuda:/opt/cuda-12";
    let explained = decided(&machine, path, &["app"]);
    assert_eq!(explained.left(), ("cufft", "libcufft.so.11"));
    assert_eq!(explained.unpinned[0].names.len(), 1);
    assert_eq!(explained.tombstones, [""; 0]);
    let told = Run::on(&machine, &["explain", "app"])
        .env("LD_LIBRARY_PATH", path)
        .any_stdout()
        .check();
    assert!(
        told.contains("libcufft.so.11 is not pinned: no cuFFT here fits"),
        "{told}"
    );
}

#[test]
fn a_link_that_says_what_a_file_is_not_does_not_enter_the_view() {
    let machine = machine(&[
        cudnn("/opt/cudnn", "9.1.0.70", SHIELDED),
        link("/opt/cudnn/libcudnn.so.8", "libcudnn.so.9"),
        link("/opt/cudnn/libcudnn_cnn.so.9.1.0", "libcudnn_cnn.so.9"),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
    ]);
    let names: Vec<String> = view(&machine, "/opt/cudnn", "app")
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    assert!(
        has("libcudnn.so.9") && has("libcudnn.so") && has("libcudnn_cnn.so.9.1.0"),
        "{names:?}"
    );
    assert!(!has("libcudnn.so.8"), "{names:?}");
}

#[test]
fn links_into_a_world_writable_directory_are_refused() {
    let open = "[[file]]\npath = '/scratch/cudnn'\ndirectory = true\nmode = 0o777\n".to_owned();
    let stems = SUBLIBRARIES.iter().chain(&["libcudnn", "libcudnn_graph"]);
    let links: String = stems
        .map(|stem| {
            link(
                &format!("/opt/x/{stem}.so.9"),
                &format!("/scratch/cudnn/{stem}.so.9"),
            )
        })
        .collect();
    let machine = machine(&[
        cudnn("/scratch/cudnn", "9.1.0.70", SHIELDED),
        elf("/opt/torn/libcudnn.so.9", "soname = 'libcudnn.so.9'"),
        open,
        links,
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
    ]);
    let conflict = decided(&machine, "/opt/torn:/opt/x", &["app"]);
    let why = conflict.why_not("cudnn", "/opt/x");
    assert_eq!(why, "all users can write to /scratch/cudnn");
    assert_eq!(conflict.hint, "chmod o-w /scratch/cudnn");
    // Control: without cudarun, the loader takes nothing else.
    let alone = decided(&machine, "/opt/x", &["app"]);
    assert_eq!(alone.picked("cudnn"), "/opt/x");
}

#[test]
fn no_text_from_disk_reaches_the_terminal_as_it_is() {
    let evil = "\\u001b[2J\\u061c";
    let file = format!(
        "[[file]]\npath = \"/opt/x/libcudnn_{evil}.so.9\"\nelf = {{ soname = \"libcudnn_{evil}.so.9\", forward_compatibility = '{{}}' }}\ncut = 10\n"
    );
    let named = format!(
        "[[file]]\npath = \"/usr/bin/a{evil}\"\nelf = {{ interpreter = '/lib64/ld-linux-x86-64.so.2', \
         needed = ['libcudnn.so.9', \"libcudnn_{evil}.so.9\"] }}\n"
    );
    let gpu = "[[file]]\npath = '/proc/driver/nvidia/gpus/0/information'\ntext = \"Model: \\u001b[2J\\nBus Location: 0\\n\"\n";
    let machine = machine(&[
        cudnn("/opt/x", "9.1.0.70", SHIELDED),
        file,
        named,
        gpu.to_owned(),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
    ]);
    let hostile = |c: char| c.is_control() && c != '\n' || c == '\u{61c}';
    for command in [
        &["explain", "app"][..],
        &["explain", "a\u{1b}[2J\u{61c}"],
        &["list", "-v"],
    ] {
        let output = std::process::Command::new(crate::support::CUDARUN)
            .arg("--root")
            .arg(machine.root())
            .args(command)
            .env_clear()
            .envs([
                ("PATH", "/usr/bin"),
                ("HOME", "/home/user"),
                ("LD_LIBRARY_PATH", "/opt/x"),
            ])
            .output()
            .unwrap();
        let told = String::from_utf8([output.stdout, output.stderr].concat()).unwrap();
        assert!(!told.contains(hostile), "{command:?}\n{told:?}");
        assert!(told.contains("u{1b}[2J"), "{command:?}\n{told}");
    }
}

#[test]
fn a_search_path_counts_for_what_a_pick_asks_for_in_its_turn() {
    let pair = |directory: &str, version: &str| {
        library(directory, "libcublas", "12", version, "")
            + &library(directory, "libcublasLt", "12", version, "")
    };
    let solver = |fields: &str| {
        library(
            "/opt/new",
            "libcusolver",
            "11",
            "11.6.1",
            &format!("needed = ['libcublas.so.12'], {fields}"),
        )
    };
    let files = |fields: &str| {
        machine(&[
            pair("/opt/old", "12.1.1"),
            pair("/opt/new", "12.4.5"),
            solver(fields),
            program(
                "app",
                &["libcusolver.so.11", "libc.so.6"],
                "rpath = '/opt/old'",
            ),
        ])
    };
    let inherited = decided(&files(""), "/opt/new", &["app"]);
    assert_eq!(inherited.picked("cublas"), "/opt/old");
    assert!(
        inherited
            .why_not("cublas", "/opt/new")
            .contains("searches elsewhere")
    );
    let shielded = decided(&files("runpath = '$ORIGIN'"), "/opt/new", &["app"]);
    assert!(
        shielded.why_not("cublas", "/opt/new").starts_with("fits"),
        "a DT_RUNPATH shields it"
    );
    let own = "needed = ['libcublas.so.12'], rpath = '/opt/new'";
    let machine = machine(&[
        pair("/opt/old", "12.9.1"),
        pair("/opt/new", "12.4.5"),
        library("/opt/solver", "libcusolver", "11", "11.6.1", own),
        program("app", &["libcusolver.so.11", "libc.so.6"], ""),
    ]);
    let explained = decided(&machine, "/opt/solver:/opt/old", &["app"]);
    assert_eq!(
        explained.picked("cublas"),
        "/opt/new",
        "the picked installation's own path leads there"
    );
}

#[test]
fn a_search_path_that_splits_an_installation_is_a_reason() {
    let files = |main: &str| {
        machine(&[
            cudnn("/opt/cudnn", "9.1.0.70", main),
            elf(
                "/opt/app/libcudnn_graph.so.9",
                "soname = 'libcudnn_graph.so.9'",
            ),
            program("app", &["libcudnn.so.9", "libc.so.6"], "rpath = '/opt/app'"),
        ])
    };
    let conflict = decided(&files(""), "/opt/cudnn", &["app"]);
    let reason = conflict.reason("cudnn", "/opt/cudnn");
    assert!(
        matches!(reason, Reason::LoaderTakesAnother { .. }),
        "{reason:?}"
    );
    for main in [SHIELDED, "rpath = '$ORIGIN'"] {
        let explained = decided(&files(main), "/opt/cudnn", &["app"]);
        assert_eq!(explained.picked("cudnn"), "/opt/cudnn", "{main}");
    }
}

#[test]
fn the_parts_of_an_installation_must_fit_together() {
    let lt = "imports = { 'libcublasLt.so.12' = ['cublasLtNew'] }, needed = ['libcublasLt.so.12']";
    let tools = "constants = ['Cuda compilation tools, release 12.4, V12.4.127']";
    let machine = machine(&[
        library("/opt/torn", "libcublas", "12", "12.9.1", lt),
        library(
            "/opt/torn",
            "libcublasLt",
            "12",
            "12.4.5",
            "exports = ['cublasLtCreate']",
        ),
        library("/opt/whole", "libcublas", "12", "12.1.1", ""),
        library(
            "/opt/whole",
            "libcublasLt",
            "12",
            "12.1.1",
            "exports = ['cublasLtCreate']",
        ),
        library("/opt/torn", "libnvrtc", "12", "12.4.127", tools),
        elf(
            "/opt/torn/libnvrtc-builtins.so.12.8",
            "soname = 'libnvrtc-builtins.so.12.8'",
        ),
        library("/opt/whole", "libnvrtc", "12", "12.4.127", tools),
        elf(
            "/opt/whole/libnvrtc-builtins.so.12.4",
            "soname = 'libnvrtc-builtins.so.12.4'",
        ),
        program(
            "app",
            &["libcublas.so.12", "libnvrtc.so.12", "libc.so.6"],
            "",
        ),
    ]);
    let explained = decided(&machine, "/opt/torn:/opt/whole", &["app"]);
    assert_eq!(explained.picked("cublas"), "/opt/whole");
    assert_eq!(explained.picked("nvrtc"), "/opt/whole");
    let why = explained.why_not("cublas", "/opt/torn");
    assert_eq!(
        why,
        "lacks `cublasLtNew`, which its own libcublas.so.12 imports"
    );
    assert_eq!(
        explained.why_not("nvrtc", "/opt/torn"),
        "incomplete: libnvrtc-builtins missing"
    );
}

#[test]
fn loader_tokens_in_the_path_are_expanded() {
    let machine = machine(&[
        text("/usr/lib/x86_64-linux-gnu/marker", ""),
        cudnn("/opt/y/lib/x86_64-linux-gnu", "9.1.0.70", SHIELDED),
        cudnn("/usr/bin/own", "9.2.0.82", SHIELDED),
        program("app", &["libcudnn.so.9", "libc.so.6"], ""),
        link("/opt/bin/app", "/usr/bin/app"),
    ]);
    let by_lib = decided(&machine, "/opt/y/$LIB", &["app"]);
    assert_eq!(by_lib.picked("cudnn"), "/opt/y/lib/x86_64-linux-gnu");
    let by_origin = decided(&machine, "${ORIGIN}/own", &["/opt/bin/app"]);
    assert_eq!(by_origin.picked("cudnn"), "/usr/bin/own");
}

#[test]
fn a_later_picks_search_path_can_revoke_an_earlier_pick() {
    let pair = |directory: &str, version: &str| {
        library(directory, "libcublas", "12", version, "")
            + &library(directory, "libcublasLt", "12", version, "")
    };
    let machine = machine(&[
        pair("/opt/old", "12.9.1"),
        pair("/opt/new", "12.4.5"),
        library(
            "/opt/solver",
            "libcusolver",
            "11",
            "11.6.1",
            "needed = ['libcublas.so.12'], rpath = '/opt/new'",
        ),
        program(
            "app",
            &["libcublas.so.12", "libcusolver.so.11", "libc.so.6"],
            "",
        ),
    ]);
    let explained = decided(&machine, "/opt/solver:/opt/old", &["app"]);
    assert_eq!(explained.picked("cublas"), "/opt/new");
}

/// A requirement of a package that is only installed, or of one of several variants of a build, is pinned if
/// possible; if not, it is no reason to refuse.
#[test]
fn a_requirement_that_may_never_arise_refuses_no_program() {
    let torn = library(
        "/usr/local/cuda-11/lib64",
        "libcublas",
        "11",
        "11.11.3.6",
        "",
    );
    let whole = library(SYSTEM, "libcublas", "12", "12.4.5.8", "")
        + &library(SYSTEM, "libcublasLt", "12", "12.4.5.8", "");
    let variant = |name: &str, soname: &str| {
        elf(
            &format!("{SITE}/many/{name}.so"),
            &format!("needed = ['{soname}']"),
        )
    };
    let files = [
        torn,
        whole,
        variant("a", "libcublas.so.11"),
        variant("b", "libcublas.so.12"),
    ];
    let decided = |files: &[String], code: &str| {
        let machine = python(&[files, &[node()]].concat());
        decided(&machine, "", &["python3", "-c", code])
    };
    let imported = decided(&files, "import many");
    let version = imported.pick("cublas").installation.version;
    assert_eq!(version, "12.4.5.8".parse().ok());
    assert_eq!(imported.left().1, "libcublas.so.11");
    // The control: as the only one that a program asks for, it is a fault.
    let only = [files[0].clone(), files[2].clone()];
    assert_eq!(decided(&only, "import many").decision, "conflict");
    let guessed = decided(&only, "exec('')");
    assert_eq!(guessed.decision, "nothing");
    assert_eq!(guessed.left().0, "cublas");
}

#[test]
fn a_driver_that_does_not_say_its_version_is_taken_where_no_other_does() {
    let tegra = library(
        "/usr/lib/aarch64-linux-gnu/tegra",
        "libcuda",
        "1",
        "1.1",
        "machine = 183",
    );
    let picked = |more: &str| {
        let app = program("app", &["libcuda.so.1"], "machine = 183");
        let machine = machine(&[kernel("540.4.0"), tegra.clone(), app, more.to_owned()]);
        let explained = decided(&machine, "/opt/driver", &["app"]);
        explained.picked("driver").to_owned()
    };
    assert_eq!(picked(""), "/usr/lib/aarch64-linux-gnu/tegra");
    assert_eq!(
        picked(&library(
            "/opt/driver",
            "libcuda",
            "1",
            "540.4.0",
            "machine = 183"
        )),
        "/opt/driver"
    );
}

/// The search path of a package that may be used decides nothing if another package is known to be used.
#[test]
fn a_guess_does_not_decide_for_what_is_known() {
    let open = "[[file]]\npath = '/opt/old'\ndirectory = true\nmode = 0o777\n".to_owned();
    let known = elf(
        &format!("{SITE}/first/_ext.so"),
        "soname = '_ext.so', needed = ['libcudnn.so.9']",
    );
    let files = [
        cudnn("/opt/old", "9.1.0.70", SHIELDED),
        cudnn(SYSTEM, "9.10.2.21", SHIELDED),
        text(&format!("{SITE}/first/__init__.py"), "") + &known,
        extension("second", "/opt/old"),
        open,
    ];
    let machine = python(&files);
    let explained = decided(
        &machine,
        "",
        &["python3", "-c", "import first; __import__(name)"],
    );
    assert_eq!(explained.picked("cudnn"), SYSTEM);
}

/// A guessed requirement may exclude a known one, and is no reason against it.
#[test]
fn a_guess_does_not_tie_together_what_is_known() {
    let cufft = library(SYSTEM, "libcufft", "12", "12.0.0", "");
    let cublas = library(SYSTEM, "libcublas", "12", "12.4.5.8", "")
        + &library(SYSTEM, "libcublasLt", "12", "12.4.5.8", "");
    let package = |name: &str, needed: &str| {
        text(&format!("{SITE}/{name}/__init__.py"), "")
            + &elf(
                &format!("{SITE}/{name}/_ext.so"),
                &format!("soname = '_ext.so', needed = [{needed}]"),
            )
    };
    let files = [
        node(),
        cufft,
        cublas,
        package("first", "'libcublas.so.12'"),
        package("second", "'libcufft.so.12'"),
        package("third", "'libcublas.so.12', 'libcufft.so.12'"),
    ];
    let machine = python(&files);
    let explained = decided(
        &machine,
        "",
        &["python3", "-c", "import first, second; __import__(name)"],
    );
    assert_eq!(explained.picks.len(), 2, "{explained:#?}");
    // The control: all three for sure.
    let all = ["python3", "-c", "import first, second, third"];
    assert_eq!(decided(&machine, "", &all).unmet.len(), 1);
}
