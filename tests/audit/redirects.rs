//! The module under the real loader: every way to come by a library, each with its control, judged by what is mapped.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::Path;
use std::process::Command;

use cudarun::formats::elf::Elf;
use cudarun::host::Host;
use cudarun::pin::audit_module;

use crate::support::audited::{NAMES, SUBLIBRARIES, Start, WORLD};
use crate::support::skipped;

const FILE: &str = NAMES[0];

#[test]
fn the_executables_own_rpath_is_overruled() {
    WORLD.start("with-rpath").is_cured(&[FILE]);
}

#[test]
fn the_rpath_of_a_library_is_overruled() {
    WORLD.start("through-library").is_cured(&[FILE]);
}

#[test]
fn opening_by_any_name_gives_one_file_once() {
    for name in NAMES {
        WORLD.start("opens").opens(name).is_cured(&[FILE]);
    }
    // Two names of one file are one object.
    NAMES
        .iter()
        .fold(WORLD.start("opens"), Start::opens)
        .is_cured(&[FILE]);
    let both = SUBLIBRARIES
        .iter()
        .fold(WORLD.start("with-rpath"), Start::opens);
    both.is_cured(&[FILE, SUBLIBRARIES[0]]);
}

#[test]
fn opening_by_an_absolute_path_is_overruled() {
    for name in NAMES {
        WORLD
            .start("plain")
            .opens(WORLD.path("wrong").join(name))
            .is_cured(&[FILE]);
    }
    let twice = WORLD
        .start("with-rpath")
        .opens(WORLD.path("wrong").join("libpin_sub.so.1"));
    twice.is_cured(&[FILE, SUBLIBRARIES[0]]);
}

#[test]
fn preloaded_names_are_looked_up_the_same_way() {
    WORLD
        .start("opens")
        .env("LD_PRELOAD", "libpin.so.1")
        .is_cured(&[FILE]);
    WORLD
        .start("plain")
        .env("LD_PRELOAD", WORLD.path("wrong").join("libpin.so.1"))
        .is_cured(&[FILE]);
}

#[test]
fn children_inherit_it() {
    WORLD
        .start("plain")
        .does("child")
        .opens(WORLD.path("wrong/libpin.so.1"))
        .is_cured(&[FILE]);
}

/// Without a tree, only a proof has pins: a program that lost one of the variables gets none of another.
#[test]
fn pins_without_the_process_that_they_are_for_change_nothing() {
    let start = || {
        let start = WORLD.start("opens").opens("libpin.so.1");
        let start = start.env("LD_AUDIT", &WORLD.module);
        start.env(audit_module::PINS, WORLD.pins())
    };
    assert_eq!(start().mapped(), [format!("wrong/{FILE}")]);
    assert_eq!(
        start().env("CUDARUN_PROOF", "1").mapped(),
        [format!("right/{FILE}")],
        "the control"
    );
}

#[test]
fn a_program_that_writes_over_its_environment_keeps_its_pins() {
    WORLD
        .start("opens")
        .does("title")
        .opens("libpin.so.1")
        .is_cured(&[FILE]);
}

#[test]
fn libraries_outside_the_table_load_as_before() {
    let one = audit_module::pins(&WORLD.path("view"), ["libpin.so.1"].into_iter()).unwrap();
    let start = WORLD
        .start("opens")
        .opens("libpin.so.1")
        .opens("libpin_sub.so.1");
    let mixed = start
        .env("LD_AUDIT", &WORLD.module)
        .env("CUDARUN_PROOF", "1")
        .env(audit_module::PINS, one)
        .mapped();
    assert_eq!(
        mixed,
        [
            format!("right/{FILE}"),
            format!("wrong/{}", SUBLIBRARIES[0])
        ]
    );
}

#[test]
fn a_pin_to_a_missing_file_is_an_error_and_not_another_installation() {
    let start = WORLD.start("with-rpath").env("LD_AUDIT", &WORLD.module);
    let output = start
        .env("CUDARUN_PROOF", "1")
        .env(audit_module::PINS, "/nowhere:libpin.so.1")
        .output();
    assert_eq!(output.status.code(), Some(127));
    assert!(String::from_utf8_lossy(&output.stderr).contains("/nowhere/libpin.so.1"));
}

#[test]
fn another_auditor_before_or_after_it_is_asked_as_well() {
    let source = r#"
        #include <fcntl.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        unsigned la_version(unsigned v) { return v; }
        char *la_objsearch(const char *name, unsigned long *cookie, unsigned flag)
        {
            int file = open(getenv("OTHER"), O_WRONLY | O_CREAT | O_APPEND, 0600);
            write(file, name, strlen(name));
            write(file, "\n", 1);
            close(file);
            return (char *)name;
        }"#;
    let other = WORLD
        .workshop
        .library("other.so", "other.so", source, &["-w"]);
    for (number, order) in [[&other, &WORLD.module], [&WORLD.module, &other]]
        .iter()
        .enumerate()
    {
        let log = WORLD.workshop.path(&format!("other-{number}.log"));
        let both = format!("{}:{}", order[0].display(), order[1].display());
        let start = WORLD
            .start("with-rpath")
            .pinned()
            .env("LD_AUDIT", both)
            .env("OTHER", &log);
        assert_eq!(start.mapped(), [format!("right/{FILE}")]);
        assert!(fs::read_to_string(&log).unwrap().contains("libpin.so.1\n"));
    }
}

#[test]
fn tables_that_make_no_sense_change_nothing() {
    let start = WORLD.start("with-rpath").opens("libpin_sub.so.1");
    let wrong = start.mapped();
    let view = WORLD.path("view").display().to_string();
    let long = format!("/{}", "d/".repeat(2060));
    let limit = 131_071 - audit_module::PINS.len() - 1;
    let fill = |table: String, with: &str| {
        let room = limit - table.len();
        table + &with.repeat(room / with.len() + 1)[..room]
    };
    for table in [
        String::new(),
        ":".to_owned(),
        "/".to_owned(),
        view.clone(),
        format!("{view}:"),
        format!("{view}::::"),
        "libpin.so.1".to_owned(),
        ":libpin.so.1".to_owned(),
        format!("view:{FILE}:libpin.so.1"),
        format!(".{view}:libpin.so.1"),
        format!("{view}/$LIB:libpin.so.1"),
        format!("{view}:wrong/libpin.so.1:libpin.so.1/:.:..:libpin.so.11:ibpin.so.1:libpin.so."),
        format!("{long}:libpin.so.1:libpin_sub.so.1"),
        fill(format!("{view}:"), "libpin.so.1/"),
        fill(format!("{view}:"), ":"),
        fill(String::from("/"), "x"),
        fill(format!("{view}:"), "\u{1b}[31m\n"),
    ] {
        let got = start
            .clone()
            .env("LD_AUDIT", &WORLD.module)
            .env("CUDARUN_PROOF", "1")
            .env(audit_module::PINS, &table)
            .mapped();
        assert_eq!(got, wrong, "{}", &table[..table.len().min(200)]);
    }
    // As long, and it makes sense.
    let table = fill(format!("{view}:"), "libnothing.so.1:");
    let table = format!("{}:libpin.so.1:libpin_sub.so.1", &table[..limit - 40]);
    let got = start
        .env("LD_AUDIT", &WORLD.module)
        .env("CUDARUN_PROOF", "1")
        .env(audit_module::PINS, table)
        .mapped();
    assert_eq!(
        got,
        [
            format!("right/{FILE}"),
            format!("right/{}", SUBLIBRARIES[0])
        ]
    );
}

#[test]
fn programs_that_load_nothing_and_programs_that_the_loader_guards_are_left_alone() {
    // Statically linked C asks for a loader only when it opens something.
    let output = WORLD.start("static").pinned().output();
    assert!(output.status.success() && output.stdout.is_empty() && output.stderr.is_empty());
    if !nix::unistd::geteuid().is_root() {
        skipped("only root can make a program that is another's by its set-id bit");
        return;
    }
    let directory = WORLD.path("");
    fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
    let program = directory.join("set-id");
    // By another process: a program that is open for writing in a child of ours cannot be started.
    assert!(
        Command::new("cp")
            .args([&WORLD.path("plain"), &program])
            .status()
            .unwrap()
            .success()
    );
    chown(&program, Some(65534), Some(65534)).unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o4755)).unwrap();
    let start = WORLD
        .start("set-id")
        .does("secure")
        .opens(WORLD.path("wrong/libpin.so.1"));
    let show = |start: &Start| {
        let output = start.output();
        assert!(
            output.stderr.is_empty(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let control = show(&start);
    if !control.starts_with("secure 1\n") {
        skipped(&format!("set-id bits count for nothing here: {control}"));
        return;
    }
    assert_eq!(
        show(&start.pinned()),
        control,
        "without the module, and without a word"
    );
}

#[test]
fn a_program_of_another_word_size_runs_without_it() {
    let built = Command::new("cc")
        .args(["-m32", "-x", "c", "-", "-o"])
        .arg(WORLD.workshop.path("narrow"))
        .stdin(
            fs::File::open(
                WORLD
                    .workshop
                    .write("narrow.c", "int main(void) { return 5; }"),
            )
            .unwrap(),
        )
        .output()
        .unwrap();
    if !built.status.success() {
        skipped("this compiler makes no 32-bit programs");
        return;
    }
    let output = WORLD.start("narrow").pinned().output();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{said}");
    assert!(
        said.lines().count() == 1 && said.contains("cannot be loaded as audit interface"),
        "{said}"
    );
}

/// Why what is published is compared with what it should be: the loader goes on without a module, or dies of it.
#[test]
fn a_module_that_is_not_whole_is_never_trusted() {
    let whole = audit_module::bytes().unwrap();
    let (mut ignored, mut died) = (0, 0);
    for length in (0..whole.len()).step_by(199) {
        let torn = WORLD.workshop.path("torn.so");
        fs::write(&torn, &whole[..length]).unwrap();
        let output = WORLD
            .start("with-rpath")
            .pinned()
            .env("LD_AUDIT", &torn)
            .output();
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code().is_none() {
            died += 1;
        } else if said.contains("cannot be loaded as audit interface") {
            ignored += 1;
            assert!(
                String::from_utf8_lossy(&output.stdout).contains("/wrong/"),
                "{length}: unpinned"
            );
        }
    }
    assert!(ignored > 0, "{ignored} ignored, {died} died");
    let cache = tempfile::tempdir().unwrap();
    let cache = cache.path();
    let host = Host::here();
    let path = audit_module::publish(&host, cache).unwrap();
    // It holds the path of the binary that publishes it.
    let published = fs::read(&path).unwrap();
    assert_eq!(published.len(), whole.len());
    for damage in [&whole[..100], b"", b"text"] {
        fs::write(&path, damage).unwrap();
        assert_eq!(audit_module::publish(&host, cache).unwrap(), path);
        assert_eq!(fs::read(&path).unwrap(), published);
    }
}

#[test]
fn the_module_is_published_for_us_alone_or_not_at_all() {
    let home = tempfile::tempdir().unwrap();
    let host = Host::here();
    let path = audit_module::publish(&host, &home.path().join("cache")).unwrap();
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&path), mode(path.parent().unwrap())), (0o600, 0o700));
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&fs::metadata(path).unwrap());
    let before = inode(&path);
    assert_eq!(
        audit_module::publish(&host, &home.path().join("cache")).unwrap(),
        path
    );
    assert_eq!(inode(&path), before, "it was there");
    // Others could write to it: it is made anew.
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(
        audit_module::publish(&host, &home.path().join("cache")).unwrap(),
        path
    );
    assert_eq!(mode(&path), 0o600);
    // A link proves nothing about the file that it leads to.
    let elsewhere = home.path().join("elsewhere.so");
    fs::rename(&path, &elsewhere).unwrap();
    symlink(&elsewhere, &path).unwrap();
    audit_module::publish(&host, &home.path().join("cache")).unwrap();
    assert!(fs::symlink_metadata(&path).unwrap().is_file());
    fs::remove_file(&path).unwrap();
    fs::create_dir(&path).unwrap();
    assert!(
        audit_module::publish(&host, &home.path().join("cache")).is_err(),
        "a directory is in the way"
    );
    assert!(
        audit_module::publish(&host, &home.path().join("a:b")).is_err(),
        "the loader splits there"
    );
    assert!(audit_module::publish(&host, Path::new("/proc/no-such-directory")).is_err());
    let entries = fs::read_dir(path.parent().unwrap()).unwrap().count();
    assert_eq!(entries, 1, "nothing is left behind");
}

/// glibc 2.35 brought the second interface; an answer of 0 sends the module away.
#[test]
fn an_older_loader_and_a_start_that_asks_for_nothing_are_refused() {
    let source = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        int main(int count, char **words)
        {
            unsigned (*version)(unsigned) = dlsym(dlopen(words[1], RTLD_NOW), "la_version");
            printf("%u %u %u %u", version(0), version(1), version(2), version(3));
        }"#;
    WORLD.workshop.compile("asks", source, &["-w"]);
    let ask = |start: Start| String::from_utf8(start.does(&WORLD.module).output().stdout).unwrap();
    let start = || WORLD.start("asks");
    assert_eq!(
        ask(start()
            .env("CUDARUN_PROOF", "1")
            .env(audit_module::PINS, WORLD.pins())),
        "0 0 2 2"
    );
    assert_eq!(ask(start().env(audit_module::TRACE, "/log")), "0 0 2 2");
    assert_eq!(ask(start()), "0 0 0 0");
    assert_eq!(
        ask(start()
            .env("CUDARUN_PROOF", "1")
            .env(audit_module::PINS, "view:a")
            .env(audit_module::TRACE, "log")),
        "0 0 0 0"
    );
    assert_eq!(
        ask(start()
            .env("CUDARUN_PINSX", "/view:a")
            .env("XCUDARUN_TRACE", "/log")),
        "0 0 0 0"
    );
}

/// The loader maps nothing to be executed from such a file system, says one line in each process, and goes on.
#[test]
fn the_module_is_not_published_on_a_noexec_file_system() {
    let place = tempfile::tempdir().unwrap();
    let mount = |options: &str| {
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", options, "none"])
            .arg(place.path());
        command.output().is_ok_and(|output| output.status.success())
    };
    if !mount("noexec,mode=700") {
        skipped("nothing can be mounted here");
        return;
    }
    let host = Host::here();
    let cache = place.path().join("cache");
    let refused = audit_module::publish(&host, &cache);
    let written: Vec<_> = fs::read_dir(cache.join("audit"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    let control = WORLD
        .start("with-rpath")
        .pinned()
        .env("LD_AUDIT", &written[0])
        .output();
    let executable = mount("remount,exec").then(|| audit_module::publish(&host, &cache));
    let unmounted = Command::new("umount").arg(place.path()).status().unwrap();
    assert_eq!(
        refused.unwrap_err().kind(),
        std::io::ErrorKind::PermissionDenied
    );
    let said = String::from_utf8_lossy(&control.stderr);
    assert!(
        said.contains("cannot be loaded as audit interface"),
        "the control must fail: {said}"
    );
    assert_eq!(executable.unwrap().unwrap(), written[0]);
    assert!(unmounted.success());
}

#[test]
fn libraries_with_much_static_tls_need_room_under_any_auditor() {
    // As much as jemalloc has.
    let source = "static __thread __attribute__((tls_model(\"initial-exec\"))) char block[2632];
                  char *use(void) { return block; }";
    let library = WORLD
        .workshop
        .library("tls/libtls.so", "libtls.so", source, &[]);
    let runpath = format!("-Wl,-rpath,{}", WORLD.path("tls").display());
    let flags = ["-Wl,--no-as-needed", library.to_str().unwrap(), &runpath];
    WORLD
        .workshop
        .compile("much-tls", "int main(void) { return 0; }", &flags);
    let start = WORLD.start("much-tls");
    assert!(start.output().status.success());
    let fails = start.pinned().output();
    let said = String::from_utf8_lossy(&fails.stderr).into_owned();
    assert!(
        !fails.status.success() && said.contains("cannot allocate memory in static TLS block"),
        "the control must fail: {said}"
    );
    let cured = WORLD
        .start("much-tls")
        .pinned()
        .env("GLIBC_TUNABLES", "glibc.rtld.optional_static_tls=16384");
    assert!(cured.output().status.success());
}

#[test]
fn the_module_needs_nothing_and_is_small() {
    let bytes = audit_module::bytes().unwrap();
    let elf = Elf::parse(bytes).unwrap();
    assert_eq!(elf.needed().count(), 0);
    assert!(!elf.is_truncated());
    let mut names: Vec<&[u8]> = Vec::new();
    for symbol in elf.symbols() {
        assert!(symbol.defined, "{} is missing", symbol.name.escape_ascii());
        names.push(symbol.name);
    }
    names.sort_unstable();
    assert_eq!(names, [&b"la_objopen"[..], b"la_objsearch", b"la_version"]);
    // PT_TLS: no thread of any program pays for it.
    let segments = 64..64 + 56 * usize::from(u16::from_le_bytes([bytes[56], bytes[57]]));
    let kinds: Vec<u32> = bytes[segments]
        .chunks(56)
        .map(|segment| u32::from_le_bytes(segment[..4].try_into().unwrap()))
        .collect();
    assert!(kinds.contains(&1) && !kinds.contains(&7), "{kinds:?}");
    assert!(bytes.len() < 20480, "{} bytes", bytes.len());
    let holds = |text: &[u8]| memchr::memmem::find(bytes, text).is_some();
    assert!(!holds(b"nothing here may panic"), "something can panic");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).as_os_str();
    assert!(
        !holds(source.as_bytes()),
        "names the directory that it was built in"
    );
}
