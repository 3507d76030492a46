//! Directories that another user could replace: nothing is published or believed there, and the next place is used.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::{PermissionsExt, chown, lchown, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::storage::kept_starts::Two;
use crate::support::{CUDARUN, Run, Workshop, copy_program, skipped};

/// A user of these tests alone.
const HER: u32 = 12345;

fn is_root() -> bool {
    let is_root = nix::unistd::geteuid().is_root();
    if !is_root {
        skipped("only root can give files to another user");
    }
    is_root
}

fn mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

/// A directory of this owner, group and mode.
fn make(path: PathBuf, owner: u32, group: u32, bits: u32) -> PathBuf {
    fs::create_dir(&path).unwrap();
    chown(&path, Some(owner), Some(group)).unwrap();
    mode(&path, bits);
    path
}

/// All of it can be entered by every user.
fn two() -> Two {
    let two = Two::new();
    mode(&two.workshop.path(""), 0o755);
    two
}

/// A start that needs a view.
fn run(two: &Two) -> Run {
    two.run().env("CUDARUN_PIN_MODE", "view")
}

fn as_her(program: impl AsRef<Path>) -> Command {
    let mut command = Command::new("setpriv");
    let id = HER.to_string();
    command
        .args(["--reuid", &id, "--regid", &id, "--clear-groups"])
        .arg(program.as_ref());
    command.env_clear().env("PATH", "/usr/bin:/bin");
    command
}

/// Gives another user a way to replace what is below.
fn spoil(place: &Path, how: &str) {
    let real = place.with_extension("real");
    match how {
        "owner" => chown(place, Some(HER), Some(HER)).unwrap(),
        "group" => {
            chown(place, Some(0), Some(HER)).unwrap();
            mode(place, 0o775);
        }
        "open" => mode(place, 0o777),
        "link" => {
            fs::rename(place, &real).unwrap();
            symlink(real, place).unwrap();
            lchown(place, Some(HER), None).unwrap();
        }
        "leads-to-hers" => {
            fs::remove_dir(place).unwrap();
            symlink(make(real, HER, HER, 0o755), place).unwrap();
        }
        _ => panic!("{how}"),
    }
}

/// In each case, one property makes the place unsafe; without it the place is used.
#[test]
fn root_publishes_nothing_that_another_user_could_replace() {
    if !is_root() {
        return;
    }
    let two = two();
    let at = |below: String| two.workshop.path(&below);
    let names = ["owner", "group", "open", "link", "leads-to-hers"];
    let cases = [("owner", "HOME")]
        .into_iter()
        .chain(names.map(|name| (name, "XDG_CACHE_HOME")));
    for (index, (name, variable)) in cases.enumerate() {
        for is_spoilt in [false, true] {
            let place = make(at(format!("{index}-{is_spoilt}")), 0, 0, 0o755);
            let session = make(at(format!("{index}-{is_spoilt}-session")), 0, 0, 0o700);
            if is_spoilt {
                spoil(&place, name);
            }
            // The directory that the variable names is root's alone.
            let named = place.join("below");
            fs::create_dir(&named).unwrap();
            mode(&named, 0o700);
            run(&two)
                .env(variable, &named)
                .env("XDG_RUNTIME_DIR", &session)
                .check();
            let cache = if variable == "HOME" {
                named.join(".cache")
            } else {
                named
            };
            assert_eq!(cache.join("cudarun").exists(), !is_spoilt, "{name}");
            assert_eq!(session.join("cudarun/views").exists(), is_spoilt, "{name}");
        }
    }
}

/// In a sticky directory, only the owner of an entry can replace it.
#[test]
fn a_sticky_directory_of_root_is_used_by_every_user() {
    if !is_root() {
        return;
    }
    let two = two();
    let sticky = make(two.workshop.path("sticky"), 0, 0, 0o1777);
    let session = make(two.workshop.path("session"), HER, HER, 0o700);
    let cudarun = two.workshop.path("cudarun");
    copy_program(CUDARUN, &cudarun);
    let start = || {
        let output = as_her(&cudarun)
            .arg(&two.program)
            .env("LD_LIBRARY_PATH", &two.path)
            .env("HOME", &sticky)
            .env("CUDARUN_PIN_MODE", "view")
            .env("XDG_CACHE_HOME", sticky.join("hers"))
            .env("XDG_RUNTIME_DIR", &session)
            .output()
            .unwrap();
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    };
    start();
    assert!(sticky.join("hers/cudarun/views").exists());
    assert!(!session.join("cudarun").exists());
    mode(&sticky, 0o777);
    start();
    assert!(session.join("cudarun/views").exists(), "the control");
}

/// `explain` names the place and makes nothing.
#[test]
fn the_last_directory_is_named_after_the_user() {
    if !is_root() {
        return;
    }
    let two = two();
    let hers = make(two.workshop.path("hers"), HER, HER, 0o755);
    let view = |home: &Path| {
        let words = ["explain", "--json", "--pin-mode=view"].map(Path::new);
        let run = Run::new(words.into_iter().chain([two.program.as_path()]));
        let run = run
            .env("LD_LIBRARY_PATH", &two.path)
            .env("HOME", home)
            .env("XDG_RUNTIME_DIR", &hers);
        run.json()["view"].as_str().unwrap().to_owned()
    };
    assert!(view(&hers).starts_with("/tmp/cudarun-0/views/"));
    assert!(
        view(two.home.path()).starts_with(two.home.path().to_str().unwrap()),
        "the control"
    );
}

/// Runs shell code in a mount namespace in which nothing in the workshop is hidden; none where that is not possible.
fn in_namespace(workshop: &Workshop, code: &str) -> Option<Output> {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private"]);
    if !Command::new("unshare")
        .args(["--mount", "true"])
        .output()
        .is_ok_and(|it| it.status.success())
    {
        skipped("no mount namespace can be made here");
        return None;
    }
    command
        .args(["sh", "-ec", code])
        .env_clear()
        .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin");
    let output = command
        .current_dir(workshop.path(""))
        .env("CUDARUN", CUDARUN)
        .output()
        .unwrap();
    Some(output)
}

#[test]
fn a_group_without_other_members_may_write() {
    if !is_root() {
        return;
    }
    let two = two();
    let home = make(two.workshop.path("home"), HER, HER, 0o775);
    let session = make(two.workshop.path("session"), HER, HER, 0o700);
    copy_program(CUDARUN, two.workshop.path("cudarun"));
    let own = "her:x:12345:12345::/:/bin/sh\n";
    let cases = [
        ("its own", own.to_owned(), "her:x:12345:\n", true),
        ("another member", own.to_owned(), "her:x:12345:him\n", false),
        (
            "a primary group",
            format!("{own}him:x:12346:12345::/:/bin/sh\n"),
            "her:x:12345:\n",
            false,
        ),
        ("another name", own.to_owned(), "team:x:12345:\n", false),
        // A directory service lists nothing here, and gives each user a group of the same number.
        ("not listed", String::new(), "", true),
    ];
    for (name, passwd, group, is_used) in cases {
        two.workshop.write("passwd", &passwd);
        two.workshop.write("group", group);
        let code = format!(
            "mount --bind passwd /etc/passwd
             mount --bind group /etc/group
             export CUDARUN_PIN_MODE=view HOME={} XDG_RUNTIME_DIR={} LD_LIBRARY_PATH={}
             exec setpriv --reuid {HER} --regid {HER} --clear-groups ./cudarun explain --json ./program",
            home.display(),
            session.display(),
            two.path
        );
        let Some(output) = in_namespace(&two.workshop, &code) else {
            return;
        };
        assert!(
            output.status.success(),
            "{name}: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        let explained: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        let view = Path::new(explained["view"].as_str().unwrap());
        let place = if is_used { &home } else { &session };
        assert!(view.starts_with(place), "{name}: {}", view.display());
    }
}

/// Another user owns all places; `/tmp` is a directory of the workshop.
const NO_PLACE: &str = "
mkdir -p tmp/cudarun-0 home
chmod 1777 tmp
chown 12345 tmp/cudarun-0 home
mount --bind tmp /tmp
export HOME=$PWD/home XDG_RUNTIME_DIR=$PWD/home LD_LIBRARY_PATH=$PWD/a:$PWD/b
";

/// The places are on disks that nothing can be written to.
const READ_ONLY: &str = "
mkdir -p home
mount -t tmpfs -o ro none /tmp
mount -t tmpfs -o ro none home
export HOME=$PWD/home XDG_RUNTIME_DIR=$PWD/home LD_LIBRARY_PATH=$PWD/a:$PWD/b
";

#[test]
fn a_program_that_needs_no_view_starts_without_a_cache_directory() {
    if !is_root() {
        return;
    }
    // `/tmp` is hidden in the namespace.
    let workshop = Workshop {
        directory: tempfile::tempdir_in("/var/tmp").unwrap(),
    };
    mode(&workshop.path(""), 0o755);
    for (installation, number) in [("a", 1), ("b", 2)] {
        let source = format!("int nccl(void) {{ return {number}; }}");
        workshop.library(
            &format!("{installation}/libnccl.so.2"),
            "libnccl.so.2",
            &source,
            &[],
        );
    }
    // Another program may need this one, so the directory is not removed from the path.
    workshop.library("a/libother.so.1", "libother.so.1", "int other;", &[]);
    let library = workshop.path("a/libnccl.so.2");
    let source = "int nccl(void); int main(void) { return 40 + nccl(); }";
    workshop.compile("program", source, &[library.to_str().unwrap()]);
    copy_program(CUDARUN, workshop.path("cudarun"));
    for place in [NO_PLACE, READ_ONLY] {
        let start = |words: &str| {
            in_namespace(
                &workshop,
                &format!(
                    "{place}
exec ./cudarun {words} ./program"
                ),
            )
        };
        let Some(output) = start("") else { return };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), said.as_str()), (Some(41), ""));
        // The other installation needs a view.
        let refused = start("--pin=nccl=b").unwrap();
        let said = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert_eq!(refused.status.code(), Some(125), "{said}");
        let parts: &[&str] = if place == NO_PLACE {
            &[
                "home belongs to user 12345 (mode 0755)",
                "  /tmp/cudarun-0  it belongs to user 12345 (mode 0755)",
            ]
        } else {
            &["  /tmp/cudarun-0  read-only file system"]
        };
        for part in parts.iter().chain(&["hint: XDG_CACHE_HOME=DIR cudarun …"]) {
            assert!(said.contains(part), "{said}");
        }
    }
}

/// In a container without root, the real root's directories belong to no user whom it knows.
#[test]
fn owners_that_a_namespace_does_not_map_count_as_root() {
    if !is_root() {
        return;
    }
    let two = two();
    let home = make(two.workshop.path("home"), HER, HER, 0o755);
    let above = make(two.workshop.path("above"), 0, 0, 0o755);
    make(above.join("cache"), HER, HER, 0o755);
    let cudarun = two.workshop.path("cudarun");
    copy_program(CUDARUN, &cudarun);
    let namespace = || {
        let mut command = as_her("unshare");
        command.arg("--map-root-user");
        command
    };
    if !namespace()
        .arg("true")
        .output()
        .is_ok_and(|it| it.status.success())
    {
        return skipped("no user namespace can be made here");
    }
    let view = || {
        let mut command = namespace();
        command
            .arg(&cudarun)
            .args(["explain", "--json", "--pin-mode=view"])
            .arg(&two.program);
        command
            .env("XDG_CACHE_HOME", above.join("cache"))
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", &home);
        let output = command.env("LD_LIBRARY_PATH", &two.path).output().unwrap();
        let explained: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
        PathBuf::from(explained["view"].as_str().unwrap())
    };
    assert!(view().starts_with(&above), "{}", view().display());
    mode(&above, 0o777);
    assert!(view().starts_with(&home), "{}", view().display());
}

/// Root could have kept a start there before the directory was another user's.
#[test]
fn a_kept_start_below_a_directory_of_another_user_is_not_believed() {
    if !is_root() {
        return;
    }
    let two = two();
    let home = make(two.workshop.path("home"), 0, 0, 0o755);
    let session = make(two.workshop.path("session"), 0, 0, 0o700);
    let run = || {
        run(&two)
            .env("HOME", &home)
            .env("XDG_RUNTIME_DIR", &session)
            .check()
    };
    run();
    assert!(
        fs::read_dir(home.join(".cache/cudarun/starts"))
            .unwrap()
            .count()
            > 0
    );
    run();
    assert!(!session.join("cudarun").exists(), "the control");
    chown(&home, Some(HER), None).unwrap();
    run();
    assert!(
        fs::read_dir(session.join("cudarun/starts"))
            .unwrap()
            .count()
            > 0,
        "it is worked out again"
    );
}

/// Says that it runs, waits for a line, and opens a library then.
const LATE: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
int main(void)
{
    puts("ready");
    fflush(stdout);
    getchar();
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    int (*nccl)(void) = library ? (int (*)(void))dlsym(library, "nccl") : 0;
    printf("%d\n", nccl ? nccl() : -1);
    return 0;
}
"#;

/// Starts a program, lets the other user act while it runs, and says what the program got in the end.
fn attacked(command: &mut Command, attack: &str) -> String {
    let mut child = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let output = as_her("/bin/sh").args(["-ec", attack]).output().unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    child.stdin.take().unwrap().write_all(b"\n").unwrap();
    let got = lines.next().unwrap().unwrap();
    assert!(child.wait().unwrap().success());
    got
}

/// The control is the environment that a view in her home would give.
#[test]
fn a_library_planted_by_the_owner_of_the_home_is_not_opened() {
    if !is_root() {
        return;
    }
    let workshop = Workshop::new();
    mode(&workshop.path(""), 0o755);
    workshop.library(
        "lib/libnccl.so.2",
        "libnccl.so.2",
        "int nccl(void) { return 1; }",
        &[],
    );
    workshop.library(
        "planted/libnccl.so.2",
        "libnccl.so.2",
        "int nccl(void) { return 666; }",
        &[],
    );
    let program = workshop.compile("program", LATE, &[]);
    let home = make(workshop.path("home"), HER, HER, 0o755);
    let session = make(workshop.path("session"), 0, 0, 0o700);
    let cudarun = |words: &[&str]| {
        let mut command = Command::new(CUDARUN);
        command
            .args(words)
            .arg(&program)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .env("HOME", &home);
        command
            .env("XDG_RUNTIME_DIR", &session)
            .env("LD_LIBRARY_PATH", workshop.path("lib"));
        command.env("CUDARUN_PIN_MODE", "view");
        command
    };
    // She can see the name of the view, and replaces all that is above it.
    let output = cudarun(&["export", "--json"]).output().unwrap();
    let exported: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let view = PathBuf::from(exported["environment"]["CUDARUN_VIEW"].as_str().unwrap());
    let views = home.join(".cache/cudarun/views");
    let hers = views.join(view.file_name().unwrap());
    let attack = format!(
        "cd {0}; if test -e .cache; then mv .cache away; fi
         mkdir -p {1}; cp {2} {1}/",
        home.display(),
        hers.display(),
        workshop.path("planted/libnccl.so.2").display()
    );

    fs::create_dir_all(&hers).unwrap();
    chown(home.join(".cache"), Some(HER), None).unwrap();
    symlink(workshop.path("lib/libnccl.so.2"), hers.join("libnccl.so.2")).unwrap();
    let mut bare = Command::new(&program);
    bare.env_clear().env("LD_LIBRARY_PATH", &hers);
    assert_eq!(attacked(&mut bare, &attack), "666", "the control");

    let clean = format!("cd {}; rm -rf .cache", home.display());
    assert!(
        as_her("/bin/sh")
            .args(["-ec", &clean])
            .output()
            .unwrap()
            .status
            .success()
    );
    assert_eq!(attacked(&mut cudarun(&[]), &attack), "1");
}
