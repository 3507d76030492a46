//! Programs that nothing of ours reaches: said in one sentence where that matters, and not said where it does not.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;

use crate::pin::real_loader::{Got, PROGRAM, WORLD};
use crate::support::machine::Machine;
use crate::support::{Run, Workshop, bare};

const HARMLESS: &str = "int main(void) { return 7; }";
const USER: &str = r#"
#include <stdio.h>
int main(void) { fputs("libcuda.so.1", fopen("/dev/null", "w")); return 7; }
"#;

#[track_caller]
fn is_silent(program: &Path, under_v: &str) {
    Run::new([program]).status(7).check();
    Run::new([Path::new("-v"), program])
        .status(7)
        .stderr_contains(&[under_v])
        .check();
}

#[test]
fn a_static_program_is_spoken_of_where_it_names_a_library() {
    let workshop = Workshop::new();
    for flag in ["-static", "-static-pie"] {
        is_silent(
            &workshop.compile("harmless", HARMLESS, &[flag]),
            "`harmless` is linked statically",
        );
        let user = workshop.compile("user", USER, &[flag]);
        let sentence = "cudarun: `user` is linked statically: it has no dynamic loader, so libcuda.so.1, which it names, cannot be pinned\n";
        for _every_time in 0..2 {
            Run::new([&user]).status(7).stderr(sentence).check();
        }
    }
    Run::new([workshop.compile("user", USER, &[])])
        .status(7)
        .check();
}

#[test]
fn a_program_of_musl_is_spoken_of_where_it_names_a_library() {
    let workshop = Workshop::new();
    let (source, program) = (workshop.write("x.c", USER), workshop.path("user"));
    let compiled = Command::new("musl-gcc")
        .arg("-o")
        .arg(&program)
        .arg(&source)
        .status();
    if !compiled.is_ok_and(|status| status.success()) {
        return;
    }
    Run::new([&program])
        .status(7)
        .stderr_contains(&[
            "cudarun: `user` uses /lib/ld-musl-x86_64.so.1; NVIDIA has no libraries for that C library\n",
        ])
        .check();
    let source = workshop.write("y.c", HARMLESS);
    let harmless = workshop.path("harmless");
    Command::new("musl-gcc")
        .arg("-o")
        .arg(&harmless)
        .arg(&source)
        .status()
        .unwrap();
    is_silent(&harmless, "`harmless` uses /lib/ld-musl");
}

/// A program with an archive as PyInstaller appends it.
fn packed(program: &Path, entries: &[(u8, &str)]) {
    let mut table = Vec::new();
    for (kind, name) in entries {
        table.extend(((18 + name.len() + 1) as u32).to_be_bytes());
        table.extend([0; 13]);
        table.push(*kind);
        table.extend(name.as_bytes());
        table.push(0);
    }
    let mut bytes = fs::read(program).unwrap();
    let numbers = [table.len() + 88, 0, table.len(), 311];
    bytes.extend(table);
    bytes.extend(b"MEI\x0c\x0b\x0a\x0b\x0e");
    bytes.extend(
        numbers
            .iter()
            .flat_map(|number| (*number as u32).to_be_bytes()),
    );
    bytes.extend([0; 64]);
    fs::write(program, bytes).unwrap();
}

#[test]
fn libraries_packed_by_pyinstaller_come_first_with_a_warning() {
    let workshop = Workshop::new();
    let program = |name: &str, entries: &[(u8, &str)]| {
        let program = workshop.compile(&format!("{name}/app"), HARMLESS, &[]);
        packed(&program, entries);
        program
    };
    is_silent(
        &program("plain", &[(b's', "app"), (b'b', "libz.so.1")]),
        "is packed by PyInstaller",
    );
    let one = program(
        "one",
        &[
            (b'b', "nvidia/cudnn/lib/libcudnn.so.9"),
            (b'b', "libcudart.so.12"),
        ],
    );
    let sentence = "cudarun: `app` is packed by PyInstaller: the loader finds libcudart.so.12 and 1 more library in it before LD_LIBRARY_PATH\n";
    Run::new([&one]).status(7).stderr(sentence).check();
    let many = program(
        "many",
        &[(b'o', "pyi-contents-directory parts"), (b's', "app")],
    );
    is_silent(&many, "is packed by PyInstaller");
    workshop.write("many/parts/nvidia/libcudart.so.12", "");
    Run::new([&many])
        .status(7)
        .stderr_contains(&["libcudart.so.12 in it before LD_LIBRARY_PATH"])
        .check();
}

/// A program that opens its extension by a path that it builds at run time, as Python does.
fn source_of_app() -> String {
    PROGRAM
        .replace("int cudnnGetVersion(void);", "#include <dlfcn.h>\n#include <libgen.h>\n#include <unistd.h>")
        .replace(
            r#"printf("%d\n", cudnnGetVersion());"#,
            r#"char own[4096] = "", path[8192];
               if (readlink("/proc/self/exe", own, sizeof own - 1) < 0) return 1;
               snprintf(path, sizeof path, "%s/%s/package/_ext%s", dirname(own), "_internal", ".so");
               printf("%d\n", ((int (*)(void))dlsym(dlopen(path, RTLD_NOW), "go"))());"#,
        )
}

/// Packages in a directory that PyInstaller made count as the program's own.
#[test]
fn packages_frozen_into_a_directory_are_read() {
    let world = &*WORLD;
    let workshop = Workshop::new();
    let program = workshop.compile("dist/app", &source_of_app(), &[]);
    packed(&program, &[(b's', "app")]);
    let library = world.path("old/libcudnn.so.9");
    let rpath = "-Wl,-rpath,$ORIGIN/../package.libs";
    let flags = [
        "-Wl,--disable-new-dtags",
        "-Wl,--no-as-needed",
        "-Wl,--allow-shlib-undefined",
        rpath,
    ];
    let source = "int cudnnGetVersion(void); int go(void) { return cudnnGetVersion(); }";
    workshop.library(
        "dist/_internal/package/_ext.so",
        "_ext.so",
        source,
        &[&flags[..], &[library.to_str().unwrap()]].concat(),
    );
    let libraries = workshop.path("dist/_internal/package.libs");
    fs::create_dir(&libraries).unwrap();
    for entry in fs::read_dir(world.path("old")).unwrap() {
        let path = entry.unwrap().path();
        fs::copy(&path, libraries.join(path.file_name().unwrap())).unwrap();
    }
    let path = world.library_path(&["new"]);
    let got = |run: Vec<u8>| Got::read(&String::from_utf8_lossy(&run));
    let control = got(bare(
        &program,
        &[],
        &BTreeMap::from([("LD_LIBRARY_PATH", path.clone())]),
    )
    .stdout);
    assert_eq!(
        control.directories.len(),
        2,
        "the control must mix: {control:?}"
    );
    let cured = Run::new([&program])
        .env("LD_LIBRARY_PATH", &path)
        .any_stdout()
        .any_stderr()
        .check();
    assert_eq!(Got::read(&cured).directories.len(), 1, "{cured}");
}

/// Before version 6 all parts of a program in a directory stood beside it.
#[test]
fn libraries_beside_a_program_of_an_old_pyinstaller_come_first_too() {
    let workshop = Workshop::new();
    let program = workshop.compile("old/app", HARMLESS, &[]);
    packed(&program, &[(b's', "app")]);
    workshop.write("old/libcudart.so.12", "");
    is_silent(&program, "is packed by PyInstaller");
    workshop.write("old/base_library.zip", "");
    Run::new([&program])
        .status(7)
        .stderr_contains(&["libcudart.so.12 in it before LD_LIBRARY_PATH"])
        .check();
}

#[test]
fn a_program_with_other_rights_is_mentioned_if_it_names_a_library() {
    let workshop = Workshop::new();
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let with_rights = |program: &Path| {
        std::os::unix::fs::chown(program, Some(65534), None).unwrap();
        fs::set_permissions(program, fs::Permissions::from_mode(0o4755)).unwrap();
    };
    let (harmless, user) = (
        workshop.compile("harmless", HARMLESS, &[]),
        workshop.compile("user", USER, &[]),
    );
    with_rights(&harmless);
    with_rights(&user);
    is_silent(&harmless, "`harmless` runs with other rights (set-user-id)");
    Run::new([&user])
        .status(7)
        .stderr_contains(&["`user` runs with other rights (set-user-id)"])
        .check();
}

#[test]
fn an_appimage_is_spoken_of_where_there_is_something_to_pick() {
    let workshop = Workshop::new();
    let program = workshop.compile("app", HARMLESS, &[]);
    let mut bytes = fs::read(&program).unwrap();
    bytes[8..11].copy_from_slice(b"AI\x02");
    fs::write(&program, bytes).unwrap();
    is_silent(&program, "`app` is an AppImage");
    workshop.library(
        "lib/libcudart.so.12",
        "libcudart.so.12",
        "int cudaFree(void) { return 0; }",
        &[],
    );
    Run::new([&program])
        .env("LD_LIBRARY_PATH", workshop.path("lib"))
        .status(7)
        .stderr("cudarun: `app` is an AppImage: cudarun does not read its content, which usually comes before LD_LIBRARY_PATH\n")
        .check();
}

#[test]
fn programs_of_snap_and_flatpak_start_elsewhere() {
    let machine = Machine::describe(
        r##"
about = "A desktop with snaps and flatpaks"
[[file]]
path = "/usr/bin/snap"
elf = { interpreter = "/lib64/ld-linux-x86-64.so.2" }
[[file]]
path = "/snap/bin/blender"
link = "/usr/bin/snap"
[[file]]
path = "/var/lib/flatpak/exports/bin/org.blender.Blender"
text = "#!/bin/sh\nexec /usr/bin/flatpak run org.blender.Blender\n"
[[file]]
path = "/usr/bin/small"
elf = { interpreter = "/lib/ld-linux.so.2", is_32_bit = true }
mode = 0o755
"##,
    );
    let notes = |words: &[&str]| {
        let explained = Run::on(&machine, &[&["explain", "--json"], words].concat()).json();
        explained["program"]["notes"][0]["note"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    };
    for program in [
        "/snap/bin/blender",
        "/var/lib/flatpak/exports/bin/org.blender.Blender",
    ] {
        assert_eq!(notes(&[program]), "elsewhere", "{program}");
    }
    assert_eq!(notes(&["snap", "run", "blender"]), "elsewhere");
    assert_eq!(notes(&["snap", "list"]), "", "the control");
    assert_eq!(notes(&["small"]), "foreign-machine");
}

/// A program that gets other rights by being started passes nothing on, whatever its name is.
#[test]
fn a_wrapper_with_other_rights_is_not_seen_through() {
    let workshop = Workshop::new();
    let wrapper = workshop.path("bin/nice");
    fs::create_dir_all(wrapper.parent().unwrap()).unwrap();
    crate::support::copy_program("/usr/bin/nice", &wrapper);
    let note = || {
        let explained = Run::new(["explain", "--json", wrapper.to_str().unwrap(), "true"]).json();
        (
            explained["program"]["notes"][0]["note"]
                .as_str()
                .unwrap_or_default()
                .to_owned(),
            explained["program"]["steps"]
                .as_array()
                .unwrap()
                .iter()
                .any(|step| step["how"] == "wrapper"),
        )
    };
    assert_eq!(note(), (String::new(), true), "the control");
    if nix::unistd::geteuid().is_root() {
        std::os::unix::fs::chown(&wrapper, Some(65534), None).unwrap();
        fs::set_permissions(&wrapper, fs::Permissions::from_mode(0o4755)).unwrap();
        assert_eq!(note(), ("loses-environment".into(), false));
    }
}
