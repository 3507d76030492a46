//! Two installations of a library, programs that come by the wrong one in every way there is, and the module that gives
//! them the right one.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use cudarun::host::Host;
use cudarun::pin::audit_module;

use super::Workshop;

/// Does what its arguments say, one after the other, and prints the file of the library that is mapped
/// then, as often as its beginning is.
const PROBE: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
#ifdef LINKED
int pin(void);
int (*needed)(void) = pin;
#endif
static void mapped(FILE *to)
{
    char line[4096];
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "libpin") && strstr(line, "p 00000000 "))
            fputs(path, to);
    }
    fclose(maps);
}
int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        char *value = strchr(words[i], '=') ? strchr(words[i], '=') + 1 : "";
        if (!strncmp(words[i], "open=", 5) && !dlopen(value, RTLD_NOW)) {
            fprintf(stderr, "%s\n", dlerror());
            return 3;
        } else if (!strncmp(words[i], "try=", 4)) {
            dlopen(value, RTLD_NOW);
        } else if (!strncmp(words[i], "namespace=", 10)) {
            dlmopen(LM_ID_NEWLM, value, RTLD_NOW);
        } else if (!strcmp(words[i], "child")) {
            int status = 1;
            words[i] = words[0];
            if (!fork()) {
                execv("/proc/self/exe", words + i);
                _exit(9);
            }
            wait(&status);
            return WEXITSTATUS(status);
        } else if (!strcmp(words[i], "title")) {
            /* As programs that show in ps what they do. */
            for (char **entry = environ; *entry; entry++)
                memset(*entry, 'x', strlen(*entry));
        } else if (!strcmp(words[i], "secure")) {
            printf("secure %lu\n", getauxval(AT_SECURE));
        } else if (!strncmp(words[i], "first=", 6)) {
            /* The first free descriptor, and something that is printed without asking who listens. */
            int file = open(value, O_WRONLY | O_CREAT | O_APPEND, 0600);
            FILE *to = fdopen(dup(file), "a");
            fprintf(to, "first %d\n", file);
            mapped(to);
            fclose(to);
            write(1, "printed", 7);
            return 7;
        }
    }
    mapped(stdout);
    return 0;
}
"#;

const LIBRARY: &str = "int pin(void) { return 1; }";

/// The names of the library and of the one that it opens, as long as they come.
pub const NAMES: [&str; 4] = [
    "libpin.so.1.2.3",
    "libpin.so.1.2",
    "libpin.so.1",
    "libpin.so",
];
pub const SUBLIBRARIES: [&str; 4] = [
    "libpin_sub.so.1.2.3",
    "libpin_sub.so.1.2",
    "libpin_sub.so.1",
    "libpin_sub.so",
];

pub struct World {
    pub workshop: Workshop,
    pub module: PathBuf,
}

pub static WORLD: LazyLock<World> = LazyLock::new(|| {
    let workshop = Workshop::new();
    for installation in ["right", "wrong"] {
        for names in [NAMES, SUBLIBRARIES] {
            workshop.library(
                &format!("{installation}/{}", names[0]),
                names[2],
                LIBRARY,
                &[],
            );
            for name in &names[1..] {
                symlink(names[0], workshop.path(&format!("{installation}/{name}"))).unwrap();
            }
        }
    }
    std::fs::create_dir(workshop.path("view")).unwrap();
    for name in NAMES.iter().chain(&SUBLIBRARIES) {
        let program = workshop
            .path("right")
            .canonicalize()
            .unwrap()
            .join(name)
            .canonicalize()
            .unwrap();
        symlink(program, workshop.path(&format!("view/{name}"))).unwrap();
    }
    let wrong = workshop.path("wrong");
    let (library, wrong) = (
        wrong.join(NAMES[0]).display().to_string(),
        format!("-Wl,-rpath,{}", wrong.display()),
    );
    let middle = workshop.path("middle");
    let flags = [
        "-Wl,--no-as-needed",
        &library,
        "-Wl,--disable-new-dtags",
        &wrong,
    ];
    let middle_library =
        workshop.library("middle/libmiddle.so", "libmiddle.so", "int middle;", &flags);
    let plain = ["-Wl,--allow-shlib-undefined"];
    workshop.compile("plain", PROBE, &plain);
    workshop.compile(
        "with-rpath",
        PROBE,
        &["-DLINKED", &library, "-Wl,--disable-new-dtags", &wrong],
    );
    workshop.compile("opens", PROBE, &["-Wl,--disable-new-dtags", &wrong]);
    let runpath = format!("-Wl,--enable-new-dtags,-rpath,{}", middle.display());
    let links = [
        "-Wl,--no-as-needed",
        middle_library.to_str().unwrap(),
        &runpath,
    ];
    workshop.compile("through-library", PROBE, &[&links[..], &plain].concat());
    workshop.compile("static", PROBE, &["-static", "-Wno-all", "-w"]);
    let cache = workshop.path("cache");
    let module = audit_module::publish(&Host::here(), &cache).unwrap();
    World { workshop, module }
});

impl World {
    pub fn path(&self, below: &str) -> PathBuf {
        self.workshop.path(below).canonicalize().unwrap()
    }

    pub fn pins(&self) -> OsString {
        let names = NAMES.iter().chain(&SUBLIBRARIES).copied();
        audit_module::pins(&self.path("view"), names).unwrap()
    }

    /// A start of one of the programs, without the module.
    pub fn start(&self, program: &str) -> Start {
        Start {
            program: self.path(program),
            arguments: Vec::new(),
            env: BTreeMap::new(),
        }
    }
}

#[derive(Clone)]
pub struct Start {
    program: PathBuf,
    arguments: Vec<OsString>,
    env: BTreeMap<OsString, OsString>,
}

impl Start {
    pub fn does(mut self, what: impl AsRef<OsStr>) -> Start {
        self.arguments.push(what.as_ref().to_owned());
        self
    }

    pub fn opens(self, name: impl AsRef<Path>) -> Start {
        self.does(format!("open={}", name.as_ref().display()))
    }

    pub fn env(mut self, name: &str, value: impl AsRef<OsStr>) -> Start {
        self.env.insert(name.into(), value.as_ref().to_owned());
        self
    }

    /// With the module, and the table of the whole library.
    pub fn pinned(self) -> Start {
        let pins = WORLD.pins();
        self.env("LD_AUDIT", &WORLD.module)
            .env("CUDARUN_PROOF", "1")
            .env(audit_module::PINS, pins)
    }

    pub fn traced(self, log: impl AsRef<Path>) -> Start {
        self.env("LD_AUDIT", &WORLD.module)
            .env(audit_module::TRACE, log.as_ref())
    }

    pub fn output(&self) -> Output {
        Command::new(&self.program)
            .args(&self.arguments)
            .env_clear()
            .env("PATH", "/usr/bin:/bin")
            .envs(&self.env)
            .output()
            .unwrap()
    }

    /// The files that were mapped, by the directory below the workshop and the name; one that was mapped twice, twice.
    #[track_caller]
    pub fn mapped(&self) -> Vec<String> {
        let output = self.output();
        let error = String::from_utf8_lossy(&output.stderr);
        let (program, status) = (self.program.display(), output.status);
        assert!(
            status.success() && error.is_empty(),
            "{program} {status}: {error}"
        );
        let text = String::from_utf8(output.stdout).unwrap();
        let root = WORLD.path("");
        let mut files: Vec<&Path> = text
            .lines()
            .map(|line| Path::new(line).strip_prefix(&root).unwrap())
            .collect();
        files.sort_by_key(|file| file.file_name());
        files
            .iter()
            .map(|file| file.display().to_string())
            .collect()
    }

    /// The control gives what is said, and with the module it is the right one.
    #[track_caller]
    pub fn is_cured(&self, files: &[&str]) {
        let all = |installation: &str| {
            files
                .iter()
                .map(|file| format!("{installation}/{file}"))
                .collect::<Vec<_>>()
        };
        assert_eq!(self.mapped(), all("wrong"), "the control must go wrong");
        assert_eq!(self.clone().pinned().mapped(), all("right"));
    }
}
