//! Programs and libraries that search in every way there is, and directories that hold everything which can be
//! where a library is sought.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::Workshop;

/// The ELF machine of what is compiled here.
pub const MACHINE: u16 = if cfg!(target_arch = "aarch64") {
    183
} else {
    62
};

/// Opens what its arguments name, `TAG>NAME` out of the library of that tag; then prints the paths of all that
/// is loaded.
const PROGRAM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>
int main(int count, char **words)
{
    for (int i = 1; i < count; i++) {
        char *name = strchr(words[i], '>'), by[64];
        void *(*open)(const char *) = NULL;
        if (name) {
            snprintf(by, sizeof by, "open_%.*s", (int)(name++ - words[i]), words[i]);
            open = (void *(*)(const char *))dlsym(RTLD_DEFAULT, by);
            if (!open)
                return 3;
        }
        void *got = open ? open(name) : dlopen(words[i], RTLD_NOW);
        puts(got ? "ok" : "no");
    }
    for (struct link_map *map = _r_debug.r_map->l_next; map; map = map->l_next)
        puts(map->l_name);
    return 0;
}
"#;

/// A library that opens others when it is told to.
const OPENER: &str = r"
#include <dlfcn.h>
#define JOIN(a, b) a##b
#define NAME(tag) JOIN(open_, tag)
void *NAME(TAG)(const char *name) { void *got = dlopen(name, RTLD_NOW); return got; }
";

/// An audit module that answers for every name that a directory has.
const AUDITOR: &str = r#"
#define _GNU_SOURCE
#include <link.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
unsigned la_version(unsigned version) { return version < LAV_CURRENT ? version : LAV_CURRENT; }
char *la_objsearch(const char *name, uintptr_t *cookie, unsigned flag)
{
    static char answer[PATH_MAX];
    const char *slash = strrchr(name, '/');
    struct stat st;
    snprintf(answer, sizeof answer, "%s/%s", getenv("ANSWERS"), slash ? slash + 1 : name);
    return flag == LA_SER_ORIG && lstat(answer, &st) == 0 ? answer : (char *)name;
}
"#;

pub struct World {
    pub workshop: Workshop,
    pub root: PathBuf,
    pub programs: Vec<&'static str>,
}

pub static WORLD: LazyLock<World> = LazyLock::new(World::build);

/// The flags of DT_RPATH and DT_RUNPATH.
fn rpath(list: &str) -> String {
    format!("-Wl,--disable-new-dtags,-rpath,{list}")
}

fn runpath(list: &str) -> String {
    format!("-Wl,--enable-new-dtags,-rpath,{list}")
}

impl World {
    fn build() -> World {
        let workshop = Workshop::new();
        let root = workshop.path("").canonicalize().unwrap();
        let mut world = World {
            workshop,
            root,
            programs: Vec::new(),
        };
        world.make_libraries();
        world.make_programs();
        world.make_directories();
        world
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.root.join(below)
    }

    pub fn text(&self, below: &str) -> String {
        self.path(below).to_str().unwrap().to_owned()
    }

    /// `libs/libTAG.so.1`, which needs others of `libs/`.
    fn library(&self, tag: &str, soname: &str, needs: &[&str], flags: &[&str]) {
        let needed: Vec<String> = needs
            .iter()
            .map(|tag| self.text(&format!("libs/lib{tag}.so.1")))
            .collect();
        let tag_flag = format!("-DTAG={tag}");
        let mut all = vec![
            tag_flag.as_str(),
            "-Wl,--no-as-needed,--allow-shlib-undefined",
        ];
        all.extend(needed.iter().map(String::as_str));
        all.extend(flags);
        self.workshop
            .library(&format!("libs/lib{tag}.so.1"), soname, OPENER, &all);
    }

    fn make_libraries(&self) {
        // `rt` is a stub of a library that the system has; `z` and `w` are loaded by an intermediate one's path.
        self.library("a", "liba.so.1", &[], &[]);
        self.library("rt", "librt.so.1", &[], &[]);
        self.library("b", "libb.so.1", &["a"], &[]);
        self.library("r", "libr.so.1", &["b", "a"], &[&rpath("$ORIGIN/../inner")]);
        self.library(
            "n",
            "libn.so.1",
            &["b", "a"],
            &[&runpath("$ORIGIN/../inner")],
        );
        self.library("nd", "libnd.so.1", &["rt", "a"], &["-Wl,-z,nodefaultlib"]);
        self.library("w", "libw.so.1", &["a"], &[]);
        self.library("z", "libz_.so.1", &["w"], &[]);
        self.library("y", "liby.so.1", &["z"], &[&rpath("$ORIGIN/../deep:")]);
        self.library("x", "libx.so.1", &["y"], &[]);
        // Only `y` leads to both.
        self.library("q", "libq.so.1", &[], &[]);
        self.library("p", "libp.so.1", &["q"], &[]);
        self.library("alias", "liba.so.1", &[], &[]);
        // A library that is linked against one of these asks for its path.
        self.library("dst", "$ORIGIN/../libs/libdst.so.1", &["a"], &[]);
        self.library("slash", &self.text("libs/libslash.so.1"), &["a"], &[]);
        self.library("relative", "./librelative.so.1", &["a"], &[]);
        self.library("braced", "${LIB}libbraced.so.1", &[], &[]);
        for (directory, names) in [
            ("inner", &["a", "b"][..]),
            ("deep", &["w"]),
            ("a1", &["a", "b", "r", "n", "x", "y", "w", "nd"]),
            ("a2", &["a"]),
            ("a3", &["b"]),
            ("cwd", &["a", "relative"]),
            ("cwd/rel", &["a", "b"]),
            ("all", &["a", "b", "r", "n", "nd", "w", "x", "y", "alias"]),
            ("sp ace", &["a", "b"]),
        ] {
            for name in names {
                self.installation(
                    &format!("libs/lib{name}.so.1"),
                    &format!("{directory}/lib{name}.so.1"),
                );
            }
        }
        for directory in ["deep", "all"] {
            self.installation("libs/libz.so.1", &format!("{directory}/libz_.so.1"));
        }
        fs::rename(self.path("libs/libz.so.1"), self.path("libs/libz_.so.1")).unwrap();
        fs::rename(self.path("libs/librt.so.1"), self.path("stub")).unwrap();
        for name in ["libp.so.1", "libq.so.1"] {
            fs::rename(self.path("libs").join(name), self.path("deep").join(name)).unwrap();
        }
    }

    fn make_programs(&mut self) {
        let root = &self.root;
        let each: Vec<(&'static str, &[&str], Vec<String>)> = vec![
            ("plain", &["b", "a"], vec![]),
            ("not-pie", &["a", "b"], vec!["-no-pie".into()]),
            (
                "runpath",
                &["r", "n", "b", "a"],
                vec![runpath("$ORIGIN/../libs")],
            ),
            (
                "rpath",
                &["n", "r", "a"],
                vec![rpath("$ORIGIN/../libs:$ORIGIN/../a2")],
            ),
            (
                "both",
                &["r", "x", "a"],
                vec![runpath("$ORIGIN/../libs:$ORIGIN/../all")],
            ),
            ("braces", &["n", "b"], vec![rpath("${ORIGIN}/../libs")]),
            (
                "tokens",
                &["b", "a"],
                vec![runpath(
                    "$ORIGIN/../$LIB:$ORIGIN/../${PLATFORM}:$ORIGINS/$LIBS",
                )],
            ),
            ("empty", &["r", "b"], vec![rpath(":$ORIGIN/../libs")]),
            ("relative", &["b"], vec![rpath("rel:../libs///")]),
            (
                "hwcaps",
                &["b", "r"],
                vec![rpath("/none:$ORIGIN/../hw/:$ORIGIN/../hw:$ORIGIN/../libs")],
            ),
            (
                "paths",
                &["dst", "slash", "relative", "braced"],
                vec![runpath("$ORIGIN/../libs")],
            ),
            (
                "without-defaults",
                &["nd", "a"],
                vec![rpath("$ORIGIN/../libs"), "-Wl,-z,nodefaultlib".into()],
            ),
            ("shielded-defaults", &["nd"], vec![rpath("$ORIGIN/../libs")]),
            ("chain", &["x", "r"], vec![runpath("$ORIGIN/../libs")]),
            ("chain-rpath", &["x"], vec![rpath("$ORIGIN/../libs")]),
            (
                "alias",
                &["a", "alias", "b"],
                vec![runpath("$ORIGIN/../all")],
            ),
            ("text", &["b"], vec![runpath("$ORIGIN/../text")]),
            (
                "loop",
                &["b", "a"],
                vec![rpath("$ORIGIN/../loop:$ORIGIN/../a1")],
            ),
        ];
        self.programs = each.iter().map(|(name, ..)| *name).collect();
        in_parallel(&each, |(name, needs, flags)| {
            let at = |tag: &&str| match *tag {
                "alias" => root.join("alias-stub").to_str().unwrap().to_owned(),
                tag => root
                    .join(format!("libs/lib{tag}.so.1"))
                    .to_str()
                    .unwrap()
                    .to_owned(),
            };
            let mut all: Vec<String> = needs.iter().map(at).collect();
            all.insert(0, "-Wl,--no-as-needed,--allow-shlib-undefined".to_owned());
            all.extend(flags.iter().cloned());
            let all: Vec<&str> = all.iter().map(String::as_str).collect();
            // For `alias` a stub that asks for the file's name and not for its SONAME.
            if *name == "alias" {
                self.workshop
                    .library("alias-stub", "libalias.so.1", OPENER, &["-DTAG=stub"]);
            }
            self.workshop.compile(&format!("bin/{name}"), PROGRAM, &all);
        });
        add_rpath(&self.path("bin/both"), "$ORIGIN/../libs:");
    }

    fn make_directories(&self) {
        let elf = fs::read(self.path("libs/liba.so.1")).unwrap();
        let patched = |at: usize, with: &[u8]| {
            let mut installation = elf.clone();
            installation[at..at + with.len()].copy_from_slice(with);
            installation
        };
        let other = if MACHINE == 62 { 183_u16 } else { 62 };
        // The content of liba.so.1 in a directory of this name.
        let files: Vec<(&str, Vec<u8>)> = vec![
            (
                "text",
                b"INPUT(liba.so.1.0 /elsewhere/of/a/linker/script/that/is/quite/long/indeed)\n"
                    .to_vec(),
            ),
            ("none", Vec::new()),
            ("short", elf[..40].to_vec()),
            ("class", patched(4, &[1])),
            ("machine", patched(18, &other.to_le_bytes())),
            ("data", patched(5, &[2])),
            ("version", patched(20, &[9])),
            ("osabi", patched(7, &[9])),
            ("padding", patched(12, &[1])),
            ("object", patched(16, &[1, 0])),
            ("program", patched(16, &[2, 0])),
            ("entry", patched(54, &[9, 0])),
            ("headers", patched(32, &[0, 0, 0, 0x7f])),
            ("nothing", patched(56, &[0, 0])),
            ("secret", elf.clone()),
            ("class/glibc-hwcaps/x86-64-v2", elf.clone()),
            ("hw/glibc-hwcaps/x86-64-v2", elf.clone()),
            ("hw/glibc-hwcaps/x86-64-v3", elf.clone()),
            ("hw/glibc-hwcaps/x86-64-v1", elf.clone()),
            ("hw", elf.clone()),
            ("hw-text/glibc-hwcaps/x86-64-v2", b"text".repeat(20)),
            ("hw-text", elf.clone()),
            ("hw-class/glibc-hwcaps/x86-64-v2", patched(4, &[1])),
            ("hw-class", elf.clone()),
            ("legacy/tls", elf.clone()),
            ("legacy/x86_64", elf.clone()),
            ("legacy/haswell", elf.clone()),
            ("legacy/tls/x86_64", elf.clone()),
            ("legacy/haswell/avx512_1", elf.clone()),
            ("legacy", elf.clone()),
            ("lib/x86_64-linux-gnu", elf.clone()),
            ("lib64", elf.clone()),
            ("x86_64", elf.clone()),
            ("haswell", elf.clone()),
            ("cwd/$ORIGINS", elf.clone()),
        ];
        for (directory, bytes) in files {
            fs::create_dir_all(self.path(directory)).unwrap();
            fs::write(self.path(directory).join("liba.so.1"), bytes).unwrap();
        }
        fs::set_permissions(
            self.path("secret/liba.so.1"),
            fs::Permissions::from_mode(0o000),
        )
        .unwrap();
        for directory in [
            "directory/liba.so.1",
            "dangling",
            "loop",
            "ring",
            "view",
            "hard",
            "hw-loop/glibc-hwcaps",
        ] {
            fs::create_dir_all(self.path(directory)).unwrap();
        }
        let link = |target: &str, below: &str| symlink(target, self.path(below)).unwrap();
        link("nowhere", "dangling/liba.so.1");
        link("liba.so.1", "loop/liba.so.1");
        link("ring", "hw-loop/glibc-hwcaps/x86-64-v2");
        link("ring2", "hw-loop/glibc-hwcaps/ring");
        link("ring", "hw-loop/glibc-hwcaps/ring2");
        self.installation("libs/liba.so.1", "hw-loop/liba.so.1");
        link("../a1/liba.so.1", "view/liba.so.1");
        link("../libs/libr.so.1", "view/libr.so.1");
        link("a1", "linked");
        fs::hard_link(self.path("a1/libb.so.1"), self.path("hard/libb.so.1")).unwrap();
        fs::hard_link(self.path("libs/libn.so.1"), self.path("hard/libn.so.1")).unwrap();
        self.workshop.library("audit.so", "audit.so", AUDITOR, &[]);
        fs::copy(self.path("libs/liba.so.1"), self.path("cwd/file")).unwrap();
    }

    fn installation(&self, from: &str, to: &str) {
        fs::create_dir_all(self.path(to).parent().unwrap()).unwrap();
        fs::copy(self.path(from), self.path(to)).unwrap();
    }
}

/// Gives a program with a DT_RUNPATH a DT_RPATH as well, in the place of DT_DEBUG: the rest of the same list.
fn add_rpath(program: &Path, skip: &str) {
    let mut data = fs::read(program).unwrap();
    let number = |data: &[u8], at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
    let start = number(&data, 32) as usize;
    let count = usize::from(data[56]);
    let dynamic = (0..count)
        .map(|i| start + 56 * i)
        .find(|at| data[*at] == 2)
        .unwrap();
    let first = number(&data, dynamic + 8) as usize;
    let entry = |data: &[u8], tag: u64| {
        (first..)
            .step_by(16)
            .find(|at| number(data, *at) == tag)
            .unwrap()
    };
    let value = number(&data, entry(&data, 29) + 8) + skip.len() as u64;
    let at = entry(&data, 21);
    data[at..at + 8].copy_from_slice(&15_u64.to_le_bytes());
    data[at + 8..at + 16].copy_from_slice(&value.to_le_bytes());
    fs::write(program, data).unwrap();
}

pub fn in_parallel<T: Sync>(all: &[T], work: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                while let Some(one) = all.get(next.fetch_add(1, Ordering::Relaxed)) {
                    work(one);
                }
            });
        }
    });
}
