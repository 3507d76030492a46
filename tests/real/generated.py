"""Random programs from a seed, and the files that they really map: tests/real/generated.py [cudarun] [SEED [STARTS]]

Each program reaches cuDNN in its own way: it is linked against it or opens it, by SONAME, bare name, long name, absolute
path or `$ORIGIN`, by itself or through a plugin, in C or in Python, with search paths of all kinds, and may start
a child in its own or in another environment. It runs without cudarun, and under it in the modes default, view and
audit, and prints the cuDNN files in /proc/self/maps of each of its processes.

No start may mix two installations in silence, make a process mix or fail that works without cudarun, or be refused where
all processes work without cudarun. DOCUMENTED lists the exceptions that docs/modes.md names.
"""

import collections
import os
import random
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VERSIONS = {"old": (0, 0), "k1": (1, 0), "k2": (10, 2), "k3": (5, 1), "torn": (10, 2)}
PARTS = ["graph", "ops", "cnn", "adv", "engines_precompiled", "engines_runtime_compiled", "heuristic"]
MODES = ["default", "view", "audit"]

OPENER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static void *sub(const char *stem)
{
    char name[4][256];
    snprintf(name[0], 256, "lib%s.so.%d.%d.%d", stem, 9, MINOR, PATCH);
    snprintf(name[1], 256, "lib%s.so.9.%d", stem, MINOR);
    snprintf(name[2], 256, "lib%s.so.9", stem);
    snprintf(name[3], 256, "lib%s.so", stem);
    void *found = NULL;
    for (int i = 0; i < 4 && !found; i++)
        found = dlopen(name[i], RTLD_NOW);
    return found;
}
"""
SHIM = r"""
int cudnnGetVersion(void)
{
    static const char *all[] = {"cudnn_graph", "cudnn_ops", "cudnn_cnn", "cudnn_adv"};
    for (int i = 0; i < 4; i++)
        if (!sub(all[i]))
            return -1;
    return ((int (*)(void))dlsym(sub("cudnn_graph"), "graph_version"))();
}
"""
GRAPH = r"""
__attribute__((used)) static const char stamp[] = STAMP;
int graph_version(void)
{
    sub("cudnn_heuristic");
    sub("cudnn_engines_precompiled");
    sub("cudnn_engines_runtime_compiled");
    return 90000 + 100 * MINOR + PATCH;
}
"""
# Uses every cuDNN that the process has opened, and prints the mapped files and the version of the last cuDNN.
REPORT = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static int version = -9;
static void use(void *library)
{
    int (*get)(void) = library ? (int (*)(void))dlsym(library, "cudnnGetVersion") : 0;
    version = get ? get() : -2;
}
static void report(const char *label)
{
    char line[4096], last[4096] = "";
    FILE *maps = fopen("/proc/self/maps", "r");
    printf("process %s %d\n", label, version);
    while (fgets(line, sizeof line, maps)) {
        char *path = strchr(line, '/');
        if (path && strstr(path, "libcudnn") && strcmp(path, last)) {
            strcpy(last, path);
            fputs(path, stdout);
        }
    }
    fflush(stdout);
}
"""
SCRIPT = """
import ctypes, os, subprocess, sys
def report(label, version):
    paths = dict.fromkeys(line[line.index("/"):].rstrip() for line in open("/proc/self/maps") if "libcudnn" in line)
    print(f"process {label} {version}", *paths, sep="\\n", flush=True)
version = -9
"""


class World:
    """A directory with installations of cuDNN stand-ins, and the programs of one run."""

    def __init__(self, top):
        self.top = top
        for name, (minor, patch) in VERSIONS.items():
            self.installation(name, minor, patch)
        self.other = {}

    def compile(self, target, source, *flags):
        target.parent.mkdir(parents=True, exist_ok=True)
        command = ["cc", "-w", "-x", "c", "-", "-x", "none", "-o", target, *flags]
        subprocess.run(command, input=source.encode(), check=True)
        return target

    def installation(self, name, minor, patch):
        directory = self.top / name
        stamp = f'-DSTAMP="cudnn_version_9_{minor}_{patch}_7_stub"'
        numbers = [f"-DMINOR={minor}", f"-DPATCH={patch}", stamp, "-shared", "-fPIC"]
        runpath = "-Wl,--enable-new-dtags,-rpath,$ORIGIN"
        sources = {"": OPENER + SHIM, "_graph": OPENER + GRAPH}
        for part in ["", *(f"_{part}" for part in PARTS)]:
            if name == "torn" and part == "_cnn":
                continue
            stem = f"libcudnn{part}"
            long = directory / f"{stem}.so.9.{minor}.{patch}"
            self.compile(long, sources.get(part, "int nothing;"), *numbers, runpath, f"-Wl,-soname,{stem}.so.9")
            for link in [f"{stem}.so.9", f"{stem}.so"]:
                (directory / link).symlink_to(long.name)

    def program_of_another_environment(self, name):
        """A program whose DT_RPATH leads to one installation, so that it works in every environment."""
        if name not in self.other:
            flags = [f"-Wl,--disable-new-dtags,-rpath,{self.top / name}", str(self.top / name / "libcudnn.so.9")]
            source = REPORT + "int cudnnGetVersion(void); int main() { version = cudnnGetVersion(); report(\"other\"); }"
            target = self.top / "elsewhere" / f"env-{name}" / "bin" / "other"
            self.other[name] = self.compile(target, source, "-Wl,--allow-shlib-undefined", *flags)
        return self.other[name]


class Draw:
    """One program with its environment."""

    def __init__(self, world, seed):
        self.world = world
        self.seed = seed
        self.random = random.Random(seed)
        self.directory = world.top / "programs" / str(seed)
        self.directory.mkdir(parents=True)
        pick = self.random.choice
        self.traits = []
        self.language = pick(["c", "c", "c", "python"])
        self.plugin = pick([None, None, "absolute", "origin", "dot", "bare"])
        self.opens = [self.way() for _ in range(pick([1, 1, 1, 2]))]
        self.paths = {"program": self.search_path(), "plugin": self.search_path()}
        self.child = pick([None, None, None, "exec", "fork", "system", "clear", "changed", "other", "other"])
        self.environment = self.variables()
        self.command = self.build_python() if self.language == "python" else self.build_c()

    def keep(self, trait):
        self.traits.append(trait)
        return trait

    def place(self, among=("k1", "k2", "k3", "old")):
        return self.world.top / self.random.choice(among)

    def way(self):
        ways = ["soname", "soname", "bare", "long", "absolute"]
        ways += ["linked", "linked", "origin"] if self.language == "c" or self.plugin else []
        return self.random.choice(ways), self.place()

    def search_path(self):
        """The flags that give an object a search path."""
        kind = self.random.choice(["none", "none", "rpath", "rpath", "runpath", "relative", "empty"])
        tags = "--disable-new-dtags" if kind != "runpath" else "--enable-new-dtags"
        if kind in ("relative", "empty"):
            tags = self.random.choice(["--disable-new-dtags", "--enable-new-dtags"])
        first = self.place(("k1", "k2", "k3", "torn"))
        value = {
            "none": None,
            "relative": first.name,
            "empty": f":{first}",
        }.get(kind, self.random.choice([f"{first}", f"{first}:{self.place()}"]))
        self.keep(f"{kind}={value}")
        return [] if value is None else [f"-Wl,{tags},-rpath,{value}"]

    def variables(self):
        elements = self.random.choice(
            [[], [], ["k2"], ["old"], ["k1"], ["old", "k2"], ["torn", "k1"], ["torn"], ["."], ["", "k3"]]
        )
        top = self.world.top
        values = [element if element in ("", ".") else str(top / element) for element in elements]
        found = {"LD_LIBRARY_PATH": ":".join(values)} if values else {}
        if self.random.random() < 0.08:
            found["LD_PRELOAD"] = str(self.place() / "libcudnn.so.9")
        return found

    def name(self, way, place):
        minor, patch = VERSIONS[place.name]
        return {
            "soname": "libcudnn.so.9",
            "bare": "libcudnn.so",
            "long": f"libcudnn.so.9.{minor}.{patch}",
            "absolute": f"{place}/libcudnn.so.9",
            "origin": f"$ORIGIN/../../{place.name}/libcudnn.so.9",
        }[way]

    def body(self):
        """C code that opens cuDNN in each way; the linked library comes last."""
        lines, flags = [], []
        for way, place in self.opens:
            if way == "linked":
                flags = ["-Wl,--no-as-needed", str(place / "libcudnn.so.9"), "-Wl,--allow-shlib-undefined"]
                lines.append("use(RTLD_DEFAULT);")
            else:
                lines.append(f'use(dlopen("{self.name(way, place)}", RTLD_NOW));')
        return "\n".join(lines), flags

    def plugin_path(self):
        return {
            "absolute": str(self.directory / "plug.so"),
            "origin": "$ORIGIN/plug.so",
            "dot": "./plug.so",
            "bare": "plug.so",
        }[self.plugin]

    def build_plugin(self):
        body, flags = self.body()
        source = REPORT + f"int go(void) {{ {body} return version; }}"
        self.world.compile(self.directory / "plug.so", source, "-shared", "-fPIC", *self.paths["plugin"], *flags)
        if self.plugin == "bare":
            elements = self.environment.get("LD_LIBRARY_PATH", "")
            self.environment["LD_LIBRARY_PATH"] = ":".join(filter(None, [str(self.directory), elements]))

    def changed(self):
        return f"{self.place()}"

    def build_c(self):
        flags = []
        if self.plugin:
            self.build_plugin()
            call = f'void *plug = dlopen("{self.plugin_path()}", RTLD_NOW); version = plug ? ((int (*)(void))dlsym(plug, "go"))() : -3;'
        else:
            call, flags = self.body()
        start = {
            None: "",
            "exec": 'report("parent"); execl("/proc/self/exe", argv[0], "child", NULL);',
            "fork": 'if (!fork()) { work(); report("child"); _exit(0); } wait(0);',
            "system": 'char c[4096]; snprintf(c, sizeof c, "%s child", argv[0]); fflush(stdout); system(c);',
            "clear": 'char c[4096]; snprintf(c, sizeof c, "env -i %s child", argv[0]); fflush(stdout); system(c);',
            "changed": f'setenv("LD_LIBRARY_PATH", "{self.changed()}", 1); execl("/proc/self/exe", argv[0], "child", NULL);',
            "other": f'fflush(stdout); system("{self.world.program_of_another_environment(self.place().name)}");',
        }[self.child]
        source = REPORT + f"""
            static void work(void) {{ {call} }}
            int main(int argc, char **argv)
            {{
                if (argc < 2) {{ {start} }}
                work();
                report(argc < 2 ? "parent" : "child");
            }}"""
        return [self.world.compile(self.directory / "program", source, *self.paths["program"], *flags)]

    def build_python(self):
        if self.plugin:
            self.build_plugin()
            path = self.plugin_path().replace("$ORIGIN", str(self.directory))
            call = f'version = ctypes.CDLL("{path}").go()'
        else:
            names = [self.name(way, place) for way, place in self.opens if way not in ("linked", "origin")]
            call = "\n".join(f'version = ctypes.CDLL("{name}").cudnnGetVersion()' for name in names)
        again = "[sys.executable, __file__, 'child']"
        start = {
            "exec": "report('parent', version); os.execv(sys.executable, [sys.executable, __file__, 'child'])",
            "fork": f"subprocess.run({again})",
            "system": f"subprocess.run({again})",
            "clear": f"subprocess.run({again}, env={{}})",
            "changed": f"subprocess.run({again}, env=dict(os.environ, LD_LIBRARY_PATH='{self.changed()}'))",
            "other": f"subprocess.run(['{self.world.program_of_another_environment(self.place().name)}'])",
        }.get(self.child, "pass")
        script = self.directory / "script.py"
        lines = [SCRIPT, "if len(sys.argv) < 2:", f"    {start}", "try:"]
        lines += [f"    {line}" for line in call.split("\n")] + ["except Exception: version = -3"]
        lines += ["report('parent' if len(sys.argv) < 2 else 'child', version)"]
        script.write_text("\n".join(lines))
        return [sys.executable, script]

    def directory_of_start(self):
        return self.directory if self.plugin == "dot" else self.world.top

    def __str__(self):
        ways = ", ".join(f"{way}:{place.name}" for way, place in self.opens)
        return (
            f"seed {self.seed}: {self.language} plugin={self.plugin} opens [{ways}] "
            f"paths {self.paths} child={self.child} {self.environment}"
        )


def run(command, environment, directory):
    done = subprocess.run(command, env=environment, cwd=directory, capture_output=True, timeout=60)
    processes, label = {}, None
    for line in done.stdout.decode(errors="replace").splitlines():
        if line.startswith("process "):
            _, label, version = line.split()
            processes[label] = (int(version), [])
        elif label and line.startswith("/"):
            processes[label][1].append(Path(line))
    return done, processes


def is_mixed(files):
    """True if the files are from two installations, except for a shim that is compatible with the other files."""
    shims = {file.parent for file in files if file.name.startswith("libcudnn.so")}
    parts = {file.parent for file in files if not file.name.startswith("libcudnn.so")}
    if len(parts) > 1 or len(shims) > 1:
        return True
    if not parts or not shims or parts == shims:
        return False
    (shim,), (part,) = shims, parts
    return part.name == "torn" or VERSIONS[part.name] < (2, 0) <= VERSIONS[shim.name]


def documented(draw, mode, label, before):
    """True for the exceptions that docs/modes.md names."""
    if label == "other" and draw.child == "other":
        # The program keeps its own libraries, as without cudarun, unless a view affects it or a preloaded file is gone.
        return mode == "view" or is_mixed(before[1]) or "LD_PRELOAD" in draw.environment
    if label == "child":
        is_replaced = draw.child == "changed" and mode == "view"
        return draw.child == "clear" or is_replaced
    return False


def judge(draw, mode, bare, done, processes):
    """The kind of the answer, wrong or right."""
    stderr = done.stderr.decode(errors="replace")
    said = [line for line in stderr.splitlines() if line.startswith("cudarun: ")]
    works = lambda process: process[0] > 0 and not is_mixed(process[1])
    if done.returncode == 125:
        if mode == "default" and all(map(works, bare.values())) and bare:
            return "FALSE REFUSAL"
        return "refused"
    found = "right"
    for label in bare.keys() | processes.keys():
        before, after = bare.get(label, (-9, [])), processes.get(label, (-9, []))
        if works(after):
            continue
        if documented(draw, mode, label, before):
            found = "documented"
        elif works(before):
            return f"WORSE ({label})"
        elif is_mixed(after[1]):
            if not said:
                return f"SILENT MIX ({label})"
            found = "announced"
    return found


def main():
    cudarun = Path(sys.argv[1] if len(sys.argv) > 1 else "target/release/cudarun").resolve()
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1
    starts = int(sys.argv[3]) if len(sys.argv) > 3 else 150
    top = Path(tempfile.mkdtemp(prefix="cudarun-generated-")).resolve()
    counts, wrong, number, cured = collections.Counter(), [], 0, 0
    try:
        world = World(top)
        plain = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(top / "home")}
        (top / "home").mkdir()
        while sum(counts.values()) < starts:
            draw = Draw(world, seed * 1_000_000 + number)
            number += 1
            environment = plain | draw.environment
            directory = draw.directory_of_start()
            _, bare = run(draw.command, environment, directory)
            cured += any(is_mixed(files) for _, files in bare.values())
            for mode in [*MODES, "default"]:
                option = [] if mode == "default" else [f"--pin-mode={mode}"]
                done, processes = run([cudarun, *option, *draw.command], environment, directory)
                answer = judge(draw, mode, bare, done, processes)
                counts[answer.split(" (")[0]] += 1
                if answer[0].isupper():
                    wrong.append((answer, mode, draw))
                    if "--show" in sys.argv:
                        print(answer, mode, draw, "\n  bare", bare, "\n  with", processes, "\n ", done.stderr.decode())
            if "--keep" not in sys.argv:
                shutil.rmtree(draw.directory)
    finally:
        if "--keep" not in sys.argv:
            shutil.rmtree(top)
    found = {}
    for answer, mode, draw in wrong:
        found.setdefault((answer, str(draw).replace(str(top), "TOP")), []).append(mode)
    for (answer, draw), modes in list(found.items())[:30]:
        print(f"{answer} in {', '.join(dict.fromkeys(modes))}: {draw}")
    print(f"{number} programs, {cured} mixed without cudarun; {sum(counts.values())} starts:", dict(counts))
    return 1 if wrong or not cured else 0


sys.exit(main())
