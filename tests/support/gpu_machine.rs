//! A machine with a GPU, as far as files tell: in a mount namespace of its own, device nodes and a kernel module are
//! where cudarun looks for them, and the stand-ins are its driver and its cuDNN. The whole program runs on it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use super::{CUDARUN, Workshop, skipped, stand_in};

/// Makes the namespace look like a machine with one GPU, and becomes what is said after it.
const PROLOGUE: &str = r#"
set -e
mount -t tmpfs -o mode=755 none /sys/module
mkdir /sys/module/nvidia
echo 580.95.05 >/sys/module/nvidia/version
mount -t tmpfs -o mode=755 none /proc/driver
mkdir -p /proc/driver/nvidia/gpus/0000:00:00.0
printf 'Model: \t Stand-in\nBus Location: \t 0000:00:00.0\nDevice Minor: \t 0\n' \
    >/proc/driver/nvidia/gpus/0000:00:00.0/information
mkdir -p "$WORK/dev"
mount -t tmpfs -o mode=755 none "$WORK/dev"
for node in null zero full random urandom; do
    : >"$WORK/dev/$node"
    mount --bind "/dev/$node" "$WORK/dev/$node"
done
ln -s /proc/self/fd "$WORK/dev/fd"
mkdir "$WORK/dev/pts"
mount --rbind /dev/pts "$WORK/dev/pts"
ln -s pts/ptmx "$WORK/dev/ptmx"
: >"$WORK/dev/nvidia0"
: >"$WORK/dev/nvidiactl"
mount --rbind "$WORK/dev" /dev
eval "$BEFORE"
exec "$@"
"#;

/// A program that needs a CUDA runtime and cuDNN: it says which one it was given, and when. It opens what the variables `LIBRARY` and
/// `DEVICE` name, and waits for `WAIT` seconds.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>
int main(void)
{
    struct timespec now;
    Dl_info found;
    void *library = dlopen("libcudart.so.13", RTLD_NOW) ? dlopen("libcudnn.so.9", RTLD_NOW) : 0;
    FILE *log = getenv("STARTED") ? fopen(getenv("STARTED"), "a") : 0;
    if (!library || !dladdr(dlsym(library, "cudnnGetVersion"), &found))
        return fprintf(stderr, "%s\n", dlerror()), 1;
    clock_gettime(CLOCK_REALTIME, &now);
    if (log)
        fprintf(log, "started %ld\n", now.tv_sec * 1000 + now.tv_nsec / 1000000), fclose(log);
    if (getenv("LIBRARY") && !dlopen(getenv("LIBRARY"), RTLD_NOW))
        return fprintf(stderr, "%s\n", dlerror()), 1;
    if (getenv("WAIT"))
        sleep(atoi(getenv("WAIT")));
    if (getenv("DEVICE") && !fopen(getenv("DEVICE"), "r"))
        return perror("device"), 1;
    /* To make a GPU ready takes a moment. */
    if (getenv("DEVICE"))
        usleep(300000);
    printf("%s\n", realpath(found.dli_fname, 0));
    return 0;
}
"#;

pub struct GpuMachine {
    pub workshop: Workshop,
}

/// The settings of the runs on this machine.
pub struct Session<'m> {
    machine: &'m GpuMachine,
    variables: BTreeMap<&'static str, String>,
    before: String,
    namespaces: &'static [&'static str],
}

impl GpuMachine {
    /// With a driver, and whole installations of cuDNN 9.19 in directories of these names. None where namespaces cannot be had,
    /// which is said, and is a failure where everything must run.
    pub fn new(installations: &[&str]) -> Option<GpuMachine> {
        let mount = ["mount", "-t", "tmpfs", "none", "/proc/driver"];
        let probe = Command::new("unshare").args(UNSHARE).args(mount).output();
        if !probe.is_ok_and(|output| output.status.success()) {
            assert!(
                std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                "no mount namespace can be made here"
            );
            skipped("no mount namespace can be made here");
            return None;
        }
        let workshop = Workshop::new();
        stand_in::driver(&workshop, "driver");
        workshop.library(
            "driver/libcudart.so.13",
            "libcudart.so.13",
            "int nothing;",
            &[],
        );
        for installation in installations {
            stand_in::cudnn(&workshop, installation, 9);
            stand_in::sublibraries(&workshop, installation);
        }
        workshop.compile("program", PROGRAM, &[]);
        std::fs::create_dir_all(workshop.path("home")).unwrap();
        Some(GpuMachine { workshop })
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.workshop
            .directory
            .path()
            .canonicalize()
            .unwrap()
            .join(below)
    }

    /// A session in which the loader finds these directories.
    pub fn session(&self, directories: &[&str]) -> Session<'_> {
        let mut places: Vec<String> = directories
            .iter()
            .map(|it| self.path(it).display().to_string())
            .collect();
        places.push(self.path("driver").display().to_string());
        let mut variables = BTreeMap::new();
        variables.insert("LD_LIBRARY_PATH", places.join(":"));
        variables.insert("HOME", self.path("home").display().to_string());
        variables.insert("STAND_IN_LOG", self.path("log").display().to_string());
        variables.insert("STARTED", self.path("started").display().to_string());
        Session {
            machine: self,
            variables,
            before: String::new(),
            namespaces: &UNSHARE,
        }
    }

    /// How often a handle was made, and how often it was convolved, since the last time that this was asked.
    pub fn proofs(&self) -> (usize, usize) {
        let log = self.path("log");
        let counts = (
            stand_in::counted(&log, "created"),
            stand_in::counted(&log, "convolved"),
        );
        let _ = std::fs::remove_file(log);
        counts
    }

    /// When each program started, in milliseconds, the first first.
    pub fn started(&self) -> Vec<u64> {
        let text = std::fs::read_to_string(self.path("started")).unwrap_or_default();
        let mut times: Vec<u64> = text
            .lines()
            .filter_map(|line| line.split(' ').nth(1)?.parse().ok())
            .collect();
        times.sort_unstable();
        times
    }
}

const UNSHARE: [&str; 4] = ["--map-root-user", "--mount", "--propagation", "private"];
/// Root stays the root that a daemon expects, and every process that was started ends with the shell.
const UNSHARE_AS_ROOT: [&str; 6] = [
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--mount-proc",
    "--kill-child",
];

impl Session<'_> {
    pub fn set(mut self, name: &'static str, value: impl Into<String>) -> Self {
        self.variables.insert(name, value.into());
        self
    }

    /// Sets the behaviour of the stand-ins.
    pub fn mode(self, mode: &str) -> Self {
        self.set("STAND_IN", mode)
    }

    /// Only the installation in a directory of this name does it.
    pub fn only(self, directory: &str) -> Self {
        self.set("STAND_IN_ONLY", format!("/{directory}/"))
    }

    /// Shell code that is run in the namespace first.
    pub fn before(mut self, code: &str) -> Self {
        self.before.push_str(code);
        self.before.push('\n');
        self
    }

    /// For daemons, which change who they are. Only root can have that.
    pub fn of_root(mut self) -> Self {
        self.namespaces = &UNSHARE_AS_ROOT;
        self
    }

    /// cudarun with these arguments and the program.
    pub fn start(&self, options: &[&str]) -> Output {
        let program = self.machine.path("program").display().to_string();
        let arguments: Vec<&str> = options.iter().copied().chain([program.as_str()]).collect();
        self.cudarun(&arguments)
    }

    pub fn cudarun(&self, arguments: &[&str]) -> Output {
        let mut words = vec![CUDARUN];
        words.extend(arguments);
        self.run(&words)
    }

    /// Shell code in which `$CUDARUN` and `$PROGRAM` are those.
    pub fn shell(&self, code: &str) -> Output {
        self.run(&["bash", "-c", code])
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new("unshare");
        command
            .args(self.namespaces)
            .args(["bash", "-c", PROLOGUE, "bash"])
            .args(words);
        command
            .env_clear()
            .env("PATH", "/usr/sbin:/usr/bin:/sbin:/bin")
            .envs(&self.variables);
        command
            .env("WORK", self.machine.path(""))
            .env("BEFORE", &self.before);
        command
            .env("CUDARUN", CUDARUN)
            .env("PROGRAM", self.machine.path("program"));
        command
            .current_dir(self.machine.path("home"))
            .output()
            .unwrap()
    }
}

/// Standard output and standard error.
pub fn texts(output: &Output) -> (String, String) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&output.stdout), text(&output.stderr))
}

/// The directory that the program was given its cuDNN from, by its name.
#[track_caller]
pub fn given(output: &Output) -> String {
    let (out, err) = texts(output);
    assert!(output.status.success(), "{out}{err}");
    let directory = Path::new(out.trim()).parent().and_then(Path::file_name);
    directory
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}
