//! `cudarun list --running`, about real processes with real mapped files.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use cudarun::host::Host;
use cudarun::running::DeviceWatch;
use serde_json::Value;

use crate::support::{CUDARUN, Run, Workshop, copy_program, is_root};

/// Opens its arguments that are libraries, shows `TITLE` in the place of its command line, prints a line, and waits until its standard
/// input ends.
const OPENS: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
int main(int c, char **v)
{
    char *end = v[c - 1] + strlen(v[c - 1]);
    for (int i = 1; i < c; i++)
        if (strstr(v[i], ".so") && !dlopen(v[i], RTLD_NOW))
            return fprintf(stderr, "%s\n", dlerror()), 1;
    char *title = getenv("TITLE") ? strdup(getenv("TITLE")) : 0;
    /* A long one takes the place of the environment, too. */
    for (char **entry = environ; title && title[0] == '-' && *entry; entry++)
        end = *entry + strlen(*entry);
    if (title) {
        memset(v[0], 0, end - v[0]);
        strcpy(v[0], title);
    }
    puts("ready");
    fflush(stdout);
    return getchar() != EOF;
}
"#;

/// A process that ends with this value.
pub struct Opener(Child);

impl Drop for Opener {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

impl Opener {
    fn start(command: &mut Command) -> Opener {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        output.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Opener(child)
    }

    pub fn pid(&self) -> String {
        self.0.id().to_string()
    }
}

/// Two whole cuDNNs, and a program that opens libraries.
pub struct World(Workshop);

impl World {
    pub fn new() -> World {
        let workshop = Workshop::new();
        for (directory, version) in [
            ("new", "9.10.2.21"),
            ("old", "9.1.0.70"),
            ("twin", "9.10.2.21"),
        ] {
            for part in [
                "",
                "_graph",
                "_ops",
                "_cnn",
                "_adv",
                "_heuristic",
                "_engines_precompiled",
                "_engines_runtime_compiled",
            ] {
                let soname = format!("libcudnn{part}.so.9");
                let stamp = version.replace('.', "_");
                let source = format!(
                    "__attribute__((used)) const char stamp[] = \"cudnn_version_{stamp}_\"; const char *where = \"{directory}\";"
                );
                workshop.library(&format!("{directory}/{soname}"), &soname, &source, &[]);
            }
        }
        workshop.compile("opens", OPENS, &[]);
        World(workshop)
    }

    fn path(&self, below: &str) -> PathBuf {
        self.0.path(below).canonicalize().unwrap()
    }

    pub fn opener(&self, libraries: &[&str]) -> Opener {
        let libraries = libraries.iter().map(|library| self.path(library));
        Opener::start(Command::new(self.path("opens")).args(libraries))
    }
}

fn told(pid: &str) -> Value {
    Run::new(["list", "--running", pid, "--json"]).json()["processes"][0].clone()
}

#[test]
fn a_mix_is_told_from_one_installation_and_from_two_of_one_version() {
    let world = World::new();
    let mixing = world.opener(&["new/libcudnn.so.9", "old/libcudnn_ops.so.9"]);
    let whole = world.opener(&["new/libcudnn.so.9", "new/libcudnn_ops.so.9"]);
    let twins = world.opener(&["new/libcudnn.so.9", "twin/libcudnn_ops.so.9"]);
    // The shim of cuDNN works over the parts of another release.
    let shim = world.opener(&[
        "old/libcudnn.so.9",
        "new/libcudnn_ops.so.9",
        "new/libcudnn_cnn.so.9",
    ]);
    let of = told(&mixing.pid());
    assert_eq!(of["pid"], mixing.0.id());
    assert_eq!(of["program"], world.path("opens").to_str().unwrap());
    assert_eq!(of["started_by_cudarun"], false);
    assert_eq!(of["elsewhere"], false);
    assert_eq!(of["mixed"][0]["family"], "cudnn");
    let mut installations = Vec::new();
    for installation in of["mixed"][0]["installations"].as_array().unwrap() {
        installations.push((&installation["directory"], &installation["version"]));
    }
    let (old, new) = (world.path("old"), world.path("new"));
    let expected = [(&old, "9.1.0.70"), (&new, "9.10.2.21")];
    let expected = expected.map(|(directory, version)| {
        (
            Value::from(directory.to_str().unwrap()),
            Value::from(version),
        )
    });
    for (directory, version) in &expected {
        assert!(installations.contains(&(directory, version)), "{of:#}");
    }
    for right in [&whole, &twins, &shim] {
        let of = told(&right.pid());
        assert_eq!(of["mixed"], Value::from(Vec::<Value>::new()), "{of:#}");
        assert!(of["libraries"].as_array().unwrap().len() >= 2, "{of:#}");
    }
    let pid = mixing.pid();
    let page = Run::new(["list", "--running", &pid]).output().0;
    assert!(
        page.starts_with(&format!("process {pid} mixes NVIDIA libraries\n")),
        "{page}"
    );
    assert!(
        page.contains("\nnext: cudarun ") || page.contains("\nnext:\n    cudarun "),
        "{page}"
    );
    // All processes: others may run beside this test.
    let all = Run::new(["list", "--running", "--json"]).json();
    let pids: Vec<u64> = all["processes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|of| of["pid"].as_u64().unwrap())
        .collect();
    assert!(pids.is_sorted());
    for one in [&mixing, &whole, &twins, &shim] {
        assert!(pids.contains(&one.0.id().into()));
    }
    let html = Run::new(["list", "--running", &pid, "--html", "-"])
        .output()
        .0;
    assert!(
        html.contains("<title>Process ") && html.contains("class=\"bad\""),
        "{html}"
    );
}

/// Parts without a version that is known may be of any two releases.
#[test]
fn copies_of_unknown_versions_are_a_mix() {
    let world = World::new();
    for directory in ["one", "line\nend"] {
        let file = format!("{directory}/libcudnn_ops.so.9");
        world.0.library(
            &file,
            "libcudnn_ops.so.9",
            &format!("int of_{};", directory.len()),
            &[],
        );
    }
    let mixing = world.opener(&["one/libcudnn_ops.so.9", "line\nend/libcudnn_ops.so.9"]);
    let of = told(&mixing.pid());
    assert_eq!(
        of["mixed"][0]["installations"].as_array().unwrap().len(),
        2,
        "{of:#}"
    );
    let paths = of["libraries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|library| library["path"].as_str().unwrap());
    assert!(
        paths
            .collect::<Vec<_>>()
            .iter()
            .any(|path| path.contains("line\nend")),
        "{of:#}"
    );
    let one = world.opener(&["one/libcudnn_ops.so.9"]);
    assert_eq!(told(&one.pid())["mixed"], Value::from(Vec::<Value>::new()));
}

#[test]
fn files_that_were_replaced_are_told() {
    let world = World::new();
    let process = world.opener(&["old/libcudnn.so.9", "old/libcudnn_ops.so.9"]);
    let late = world.opener(&["new/libcudnn.so.9"]);
    let is_deleted = |of: &Value, name: &str| {
        let libraries = of["libraries"].as_array().unwrap();
        libraries
            .iter()
            .find(|library| library["name"] == name)
            .unwrap()["deleted"]
            .clone()
    };
    assert_eq!(is_deleted(&told(&process.pid()), "libcudnn.so.9"), false);
    // As a package manager upgrades it.
    for file in ["libcudnn.so.9", "libcudnn_ops.so.9"] {
        std::fs::rename(
            world.path(&format!("twin/{file}")),
            world.0.path(&format!("old/{file}")),
        )
        .unwrap();
    }
    let of = told(&process.pid());
    assert_eq!(is_deleted(&of, "libcudnn.so.9"), true);
    assert_eq!(of["mixed"], Value::from(Vec::<Value>::new()), "{of:#}");
    let page = Run::new(["list", "--running", &process.pid()]).output().0;
    assert!(page.contains("deleted since"), "{page}");
    drop(late);
}

#[test]
fn a_start_by_cudarun_is_told() {
    let world = World::new();
    let (new, opens) = (world.path("new"), world.path("opens"));
    for options in [&["--verify=never"][..], &["--verify=never", "--no-follow"]] {
        let workshop = Workshop::new();
        let mut command = Command::new(CUDARUN);
        command
            .args(options)
            .arg("--also")
            .arg(&new)
            .arg(&opens)
            .arg(new.join("libcudnn.so.9"));
        command.env("XDG_CACHE_HOME", workshop.path("cache"));
        let process = Opener::start(&mut command);
        let of = told(&process.pid());
        // Without following, and without a library to pin, it leaves no trace.
        assert_eq!(of["started_by_cudarun"], options.len() == 1, "{of:#}");
    }
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let world = World::new();
    let directory = world.0.path("a\u{1b}[31m\u{202e}<b>&");
    std::fs::create_dir(&directory).unwrap();
    std::fs::copy(
        world.path("new/libcudnn.so.9"),
        directory.join("libcudnn.so.9"),
    )
    .unwrap();
    let mut command = Command::new(world.path("opens"));
    let process = Opener::start(command.arg(directory.join("libcudnn.so.9")));
    for form in ["--color=never", "--markdown", "--html=-"] {
        let page = Run::new(["list", "--running", &process.pid(), form])
            .output()
            .0;
        assert!(page.contains("libcudnn.so.9"), "{page}");
        assert!(
            !page.contains(['\u{1b}', '\u{202e}']) && (form != "--html=-" || !page.contains("<b>")),
            "{page}"
        );
    }
}

#[test]
fn a_process_that_cannot_be_told_about_is_an_error() {
    for (words, message, hint) in [
        (
            vec!["list", "--running", "4294967295"],
            "no process 4294967295",
            "cudarun list --running",
        ),
        (
            vec!["--root", "/", "list", "--running"],
            "--root",
            "cudarun",
        ),
    ] {
        Run::new(words)
            .stderr_contains(&[message, hint])
            .status(2)
            .check();
    }
    for words in [["list", "--running", "cudnn"], ["list", "--running", "-1"]] {
        Run::new(words).any_stderr().status(2).check();
    }
    // A process without such a library: this one.
    let own = std::process::id().to_string();
    Run::new(["list", "--running", &own])
        .stdout(format!(
            "process {own} has no NVIDIA library\n\nnext: cudarun doctor\n"
        ))
        .status(1)
        .check();
}

/// As another user, it shows what it may, and says how much it may not. The control is root, who sees it.
#[test]
fn processes_of_others_are_counted() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let process = world.opener(&["new/libcudnn.so.9"]);
    assert_eq!(told(&process.pid())["user"], 0);
    let nobody = Workshop::new();
    let copy = nobody.path("cudarun");
    copy_program(CUDARUN, &copy);
    let run = |words: &[&str]| {
        use std::os::unix::process::CommandExt;
        let output = Command::new(&copy)
            .args(words)
            .env_clear()
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    for directory in nobody
        .path("")
        .ancestors()
        .filter(|directory| directory.starts_with(std::env::temp_dir()))
    {
        open_to_all(directory);
    }
    let (status, page, said) = run(&["list", "--running"]);
    assert_eq!((status, said.as_str()), (Some(1), ""), "{page}");
    assert!(
        page.contains(" could not be looked at: only their users and root may"),
        "{page}"
    );
    assert!(
        page.ends_with("next: sudo cudarun list --running\n"),
        "{page}"
    );
    let (status, _, said) = run(&["list", "--running", &process.pid()]);
    assert_eq!(status, Some(2));
    assert!(
        said.contains("only its user and root may")
            && said.contains("hint: sudo cudarun list --running "),
        "{said}"
    );
}

fn open_to_all(directory: &Path) {
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::metadata(directory).unwrap().permissions().mode();
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode | 0o055)).unwrap();
}

/// With another root, the paths and the versions are those that the process sees.
#[test]
fn a_process_in_another_mount_namespace_is_read_there() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let script = r#"mount -t tmpfs none "$1" && mkdir "$1/there" && cp "$2"/libcudnn* "$1/there" && exec "$3" "$1/there/libcudnn.so.9""#;
    let mount = world.0.path("mount");
    std::fs::create_dir(&mount).unwrap();
    let mut command = Command::new("unshare");
    command
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(&mount)
        .arg(world.path("old"))
        .arg(world.path("opens"));
    let process = Opener::start(&mut command);
    let of = told(&process.pid());
    assert_eq!(of["elsewhere"], true, "{of:#}");
    assert_eq!(of["libraries"][0]["version"], "9.1.0.70", "{of:#}");
    assert!(!mount.join("there").exists());
    let page = Run::new(["list", "--running", &process.pid()]).output().0;
    assert!(page.contains(", in another root directory\n"), "{page}");
}

/// A process that shows a title, or that a kernel or a service is, is not started by typing what it shows.
#[test]
fn what_to_type_starts_it_again() {
    let world = World::new();
    let mix = ["new/libcudnn.so.9", "old/libcudnn_ops.so.9"].map(|library| world.path(library));
    let whole = ["new/libcudnn.so.9", "new/libcudnn_ops.so.9"].map(|library| world.path(library));
    let opens = world.path("opens");
    let restart = |opener: &Opener| {
        let restart = told(&opener.pid())["restart"].clone();
        restart.as_str().map(str::to_owned)
    };
    let own = Opener::start(Command::new(&opens).args(&mix));
    let words = [&opens, &mix[0], &mix[1]].map(|path| path.display().to_string());
    assert_eq!(restart(&own), Some(format!("cudarun {}", words.join(" "))));
    let right = Opener::start(Command::new(&opens).args(&whole));
    assert_eq!(restart(&right), None);
    // The page of all processes may begin with another test's.
    let page = |opener: &Opener| Run::new(["list", "--running", &opener.pid()]).output().0;
    let mut kernel = Command::new(&opens);
    let kernel = Opener::start(kernel.args(["-m", "ipykernel_launcher"]).args(&mix));
    let expected = format!("cudarun hook jupyter {}", opens.display());
    assert_eq!(restart(&kernel).as_ref(), Some(&expected));
    assert!(page(&kernel).contains(&expected), "{}", page(&kernel));
    // Its parent is named instead, which is this test without a shell between.
    let titled = Opener::start(
        Command::new(&opens)
            .args(&mix)
            .env("TITLE", "VLLM::EngineCore"),
    );
    let of = told(&titled.pid());
    assert_eq!(
        of["command"],
        Value::from(vec!["VLLM::EngineCore"]),
        "{of:#}"
    );
    assert_eq!(of["started_by_cudarun"], false, "{of:#}");
    let hidden = Opener::start(Command::new(&opens).args(&mix).env("TITLE", "-"));
    assert_eq!(told(&hidden.pid())["started_by_cudarun"], Value::Null);
    let command = restart(&titled).unwrap();
    let test = std::env::args().next().unwrap();
    assert!(command.starts_with(&format!("cudarun {test}")), "{command}");
}

/// Files of one family that work together although they are of several installations, and a stub, which does not.
#[test]
fn only_what_does_not_belong_together_is_a_mix() {
    let world = World::new();
    let library = |path: &str, soname: &str, stamp: &str| {
        let source = format!("__attribute__((used)) const char stamp[] = \"{stamp}\";");
        world.0.library(path, soname, &source, &[]);
    };
    for part in [
        "",
        "_ops_infer",
        "_cnn_infer",
        "_ops_train",
        "_cnn_train",
        "_adv_infer",
        "_adv_train",
    ] {
        let soname = format!("libcudnn{part}.so.8");
        library(
            &format!("eight/{soname}"),
            &soname,
            "cudnn_version_8_9_7_29_",
        );
    }
    for (directory, number) in [
        ("cuda-13.1/compat", "590.44.01"),
        ("driver", "580.95.05"),
        ("stubs", "1"),
    ] {
        let file = format!("{directory}/libcuda.so.{number}");
        library(&file, "libcuda.so.1", number);
    }
    library(
        "driver/libnvidia-ml.so.580.95.05",
        "libnvidia-ml.so.1",
        "580.95.05",
    );
    library(
        "cuda-13.1/compat/libnvidia-ptxjitcompiler.so.590.44.01",
        "libnvidia-ptxjitcompiler.so.1",
        "590",
    );
    library(
        "driver/libnvidia-ptxjitcompiler.so.580.95.05",
        "libnvidia-ptxjitcompiler.so.1",
        "580",
    );
    for (libraries, mixes) in [
        (
            ["eight/libcudnn.so.8", "new/libcudnn.so.9"].as_slice(),
            None,
        ),
        (
            &[
                "eight/libcudnn.so.8",
                "new/libcudnn.so.9",
                "old/libcudnn_ops.so.9",
            ],
            Some("cudnn"),
        ),
        // NCCL opens NVML, which no directory of forward compatibility has.
        (
            &[
                "cuda-13.1/compat/libcuda.so.590.44.01",
                "driver/libnvidia-ml.so.580.95.05",
            ],
            None,
        ),
        (
            &[
                "cuda-13.1/compat/libcuda.so.590.44.01",
                "driver/libnvidia-ptxjitcompiler.so.580.95.05",
            ],
            Some("driver"),
        ),
        (
            &["stubs/libcuda.so.1", "driver/libcuda.so.580.95.05"],
            Some("driver"),
        ),
    ] {
        let opener = world.opener(libraries);
        let of = told(&opener.pid());
        let family = of["mixed"][0]["family"].as_str();
        assert_eq!(family, mixes, "{libraries:?}: {of:#}");
    }
}

/// The kernel tells the paths of a process in a chroot below this process's root directory.
#[test]
fn a_process_in_a_chroot_is_read_there() {
    if !is_root() {
        return;
    }
    let world = World::new();
    let root = world.0.path("root");
    let script = r#"mkdir -p "$1/there" "$1/twin" && cp "$2"/libcudnn* "$1/there" && cp "$2"/libcudnn* "$1/twin" && cp "$3" "$1/opens"
for file in $(ldd "$3" | grep -o '/[^ ]*'); do mkdir -p "$1/$(dirname "$file")" && cp "$file" "$1/$file"; done
exec chroot "$1" /opens /there/libcudnn.so.9 /twin/libcudnn_ops.so.9"#;
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(&root);
    command.arg(world.path("old")).arg(world.path("opens"));
    let process = Opener::start(&mut command);
    let of = told(&process.pid());
    assert_eq!(of["elsewhere"], true, "{of:#}");
    assert_eq!(of["libraries"][0]["version"], "9.1.0.70", "{of:#}");
    assert_eq!(of["mixed"], Value::from(Vec::<Value>::new()), "{of:#}");
}

/// A person is told once of a program that runs for long without a GPU.
#[test]
fn a_long_run_without_a_gpu_is_told() {
    let directory = tempfile::tempdir().unwrap();
    let device = directory.path().join("nvidia0");
    std::fs::write(&device, "").unwrap();
    let host = Host::here();
    let (short, long) = (Duration::from_millis(20), Duration::from_mins(10));
    for (patience, runs, is_told) in [
        (short, Duration::from_secs(1), true),
        (long, Duration::from_millis(100), false),
    ] {
        let watch = DeviceWatch::of(&host, std::slice::from_ref(&device)).unwrap();
        let mut told = 0;
        let run = || std::thread::sleep(runs);
        let ((), has_opened) = watch.during(patience, || told += 1, run);
        assert_eq!((told, has_opened), (i32::from(is_told), Some(false)));
    }
    assert!(DeviceWatch::of(&host, &[]).is_none());
    assert!(DeviceWatch::of(&host, &[directory.path().join("nvidia1")]).is_none());
}
