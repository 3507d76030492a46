"""The model of the loader, and pinning, against what programs really map: tests/real/pinned.py PATH-TO-cudarun

Programs that are linked against cuDNN, or open it, in environments that mix it. The version checks of cuDNN 9 open its
sublibraries without a GPU. Each program ends with its own /proc/self/maps: what is mapped there is what counts, and not
cuDNN's answer, which is that of its graph library.

- Predicted: `trace --predict`, which starts nothing, and `trace` must name the files that the bare program maps.
- Pinned: every file of cuDNN comes from the copy that is wanted, and without cudarun it does not.

Prints a line a row. Needs cc and glibc 2.35 or newer.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

OLD, NEW, NEWEST = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu12==9.22.0.52"
OTHERS = ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
PLUGIN_OLD, PLUGIN_NEW = "jax-cuda12-plugin==0.4.38", "jax-cuda12-plugin==0.8.3"
# JAX itself, which opens the wheels' libraries by absolute path before its plugin asks for them.
JAX = ["jax==0.8.3", "jaxlib==0.8.3", "jax-cuda12-pjrt==0.8.3", PLUGIN_NEW]
JAX += ["ml-dtypes==0.5.3", "opt-einsum==3.4.0", "scipy==1.15.3", "numpy==2.2.6"]
CTRANSLATE = ["ctranslate2==4.6.1", "numpy==2.2.6", "pyyaml==6.0.2"]

# Calls what its arguments name, in their order. A process that cuDNN ends by abort() prints its maps as well.
SOURCE = r"""
#include <signal.h>
#include <stdio.h>
#include <string.h>
size_t cudnnGetVersion(void);
int cudnnGraphVersionCheck(void), cudnnOpsVersionCheck(void), cudnnCnnVersionCheck(void), cudnnAdvVersionCheck(void);
int cudnnCreate(void **);
static void tell(void)
{
    char line[8192];
    FILE *maps = fopen("/proc/self/maps", "r");
    puts("maps");
    while (fgets(line, sizeof line, maps))
        if (strchr(line, '/'))
            fputs(strchr(line, '/'), stdout);
    fflush(stdout);
}
static void aborted(int number)
{
    tell();
    signal(number, SIG_DFL);
    raise(number);
}
int main(int count, char **words)
{
    void *handle = NULL;
    signal(SIGABRT, aborted);
    for (int i = 1; i < count; i++) {
        const char *word = words[i];
        long answer = !strcmp(word, "Version") ? (long)cudnnGetVersion()
                    : !strcmp(word, "Graph") ? cudnnGraphVersionCheck()
                    : !strcmp(word, "Ops") ? cudnnOpsVersionCheck()
                    : !strcmp(word, "Cnn") ? cudnnCnnVersionCheck()
                    : !strcmp(word, "Adv") ? cudnnAdvVersionCheck()
                    : cudnnCreate(&handle);
        printf("%s=%ld\n", word, answer);
    }
    tell();
    return 0;
}
"""
IN_ORDER = ["Version", "Graph", "Ops", "Cnn", "Adv"]
CHECKED = {"Graph": 0, "Ops": 0, "Cnn": 0, "Adv": 0}
USED = ["libcudnn.so.9"] + [f"libcudnn_{part}.so.9" for part in ("graph", "ops", "cnn", "adv")]

TELL = """
print("maps")
for line in open("/proc/self/maps"):
    if "/" in line:
        print(line[line.index("/"):].strip())
"""
CALLS = """
for check in ["Graph", "Ops", "Cnn", "Adv"]:
    print(f"{check}={getattr(cudnn, f'cudnn{check}VersionCheck')()}")
print(f"Version={cudnn.cudnnGetVersion()}")
"""
VERSIONS = """
from jax_cuda12_plugin import _versions
print(f"Version={_versions.cudnn_get_version()}")
"""
# Its last step asks for libraries that are not in this environment; cuDNN's comes before.
INITIALIZE = """
import jax_plugins.xla_cuda12 as plugin
try:
    plugin.initialize()
except RuntimeError as error:
    print(f"Ended={error}")
print(f"Version={plugin.cuda_versions.cudnn_get_version()}")
"""
TRANSLATE = """
import ctypes, ctranslate2, glob, os
(shim,) = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libcudnn-*"))
print(f"Version={ctypes.CDLL(shim).cudnnGetVersion()}")
"""

OF_NVIDIA = re.compile(r"lib(cuda|cudart|cudnn|cublas|cufft|cusparse|cusolver|curand|cupti|nccl|nvrtc|nvJitLink)")


class Got:
    """What a start printed: its answers, and the files that it had mapped at its end."""

    def __init__(self, run):
        self.status, self.error = run.returncode, run.stderr
        head, _, maps = run.stdout.partition("maps\n")
        answers = (line.split("=", 1) for line in head.splitlines() if "=" in line)
        self.answers = {word: int(value) if value.lstrip("-").isdigit() else value for word, value in answers}
        self.files = sorted({line for line in maps.splitlines() if OF_NVIDIA.match(os.path.basename(line))})
        self.cudnn = [file for file in self.files if os.path.basename(file).startswith("libcudnn")]
        self.directories = sorted({os.path.dirname(file) for file in self.cudnn})

    def __repr__(self):
        return "\n".join([f"status {self.status}, {self.answers}", *self.files, self.error])


class Machine:
    """Where the rows run: a home of its own, the wheels' cuDNN, the programs."""

    def __init__(self, work):
        self.work = work
        self.old, self.new, self.newest = (unpacked(wheel) / "nvidia" / "cudnn" / "lib" for wheel in (OLD, NEW, NEWEST))
        (work / "home").mkdir()
        (work / "program.c").write_text(SOURCE)
        # Only names: the loader finds a longer one in the next directory, which belongs to another copy.
        self.named = self.directory("named", {name: self.new / name for name in os.listdir(self.new) if ".so." in name})
        self.foreign = self.directory("foreign", {})
        shutil.copy(self.new / "libcudnn_graph.so.9", self.foreign / "libcudnn_graph.so.9.10.2")
        self.alone = self.directory("alone", {"libcudnn.so.9": self.new / "libcudnn.so.9"})

    def directory(self, name, links):
        made = self.work / name
        made.mkdir()
        for link, target in links.items():
            (made / link).symlink_to(target)
        return made

    def linked(self, tags, directory):
        """A program linked against cuDNN, which has its directory as DT_RPATH or DT_RUNPATH, or has neither."""
        program = self.work / f"{tags}-{directory.parents[2].name}"
        if not program.exists():
            command = ["cc", "-o", program, self.work / "program.c", directory / "libcudnn.so.9"]
            command += ["-Wl,--allow-shlib-undefined"]
            if tags != "plain":
                new = "enable" if tags == "runpath" else "disable"
                command += [f"-Wl,--{new}-new-dtags,-rpath,{directory}"]
            subprocess.run(command, check=True)
        return program

    def script(self, name, code):
        script = self.work / name
        script.write_text(code + TELL)
        return script

    def start(self, command, env, *through):
        words = [str(word) for word in (*through, *command)]
        run = subprocess.run(words, env=self.env(env), capture_output=True, text=True, cwd=self.work)
        return Got(run)

    def asked(self, verb, command, env, *options):
        """What a verb says as JSON."""
        words = [CUDARUN, verb, "--json", *map(str, (*options, *command))]
        run = subprocess.run(words, env=self.env(env), capture_output=True, text=True, cwd=self.work)
        assert run.returncode in (0, 1), f"{words}: {run.returncode} {run.stderr}"
        return json.loads(run.stdout)

    def env(self, env):
        lists = {name: ":".join(map(str, value)) for name, value in env.items()}
        return {"PATH": os.environ["PATH"], "HOME": str(self.work / "home"), **lists}


class Rows:
    def __init__(self, machine):
        self.machine, self.rows, self.compared, self.failures = machine, 0, 0, 0

    def row(self, name, *checks):
        wrong = [text for holds, text in checks if not holds]
        print(f"{'FAIL' if wrong else 'ok'}  {name}", flush=True)
        for text in wrong:
            print("     ", str(text).replace("\n", "\n      "))
        self.rows += 1
        self.failures += bool(wrong)

    def predicted(self, name, command, env, cudnn, answers=None, status=0):
        """The model against the bare program, which must itself be as the row says: its files of cuDNN among others."""
        bare, predicted, traced, image = self.observed(command, env)
        wrong, mapped = differences(predicted, image), {identity(file["file"]) for file in image["files"]}
        self.row(
            f"predicted: {name}",
            *self.control(bare, status, answers, cudnn),
            *self.as_predicted(bare, predicted),
            (wrong == [], f"the model was wrong: {wrong}"),
            (traced.files == bare.files, f"tracing changes what is mapped:\n{bare!r}\n{traced!r}"),
            (traced.answers == bare.answers, f"tracing changes answers:\n{bare!r}\n{traced!r}"),
            ({identity(file) for file in bare.files} <= mapped, f"not all are traced: {bare!r}"),
        )
        return predicted

    def observed(self, command, env):
        """The bare start, the prediction of it, the traced start, and what the trace says of it."""
        machine = self.machine
        bare = machine.start(command, env)
        predicted = machine.asked("trace", command, env, "--predict", "--as-is")
        report = machine.work / "report"
        traced = machine.start(command, env, CUDARUN, "trace", "--as-is", "--all", "--json", "-o", report)
        images = [image for image in json.loads(report.read_text())["images"] if image["is_target"]]
        assert len(images) == 1, images
        return bare, predicted, traced, images[0]

    def control(self, bare, status, answers, cudnn):
        """What makes the row what it is: the end, the answers, the files of cuDNN."""
        yield bare.status == status, f"expected status {status}: {bare!r}"
        yield (answers or {}).items() <= bare.answers.items(), f"expected {answers}: {bare!r}"
        yield bare.cudnn == sorted(map(str, cudnn)), f"expected {sorted(map(str, cudnn))}: {bare!r}"

    def as_predicted(self, bare, predicted):
        """What is mapped is what was predicted under that name, and what the start was to map is mapped."""
        by_name, start = {}, {}
        for file in predicted["files"]:
            # Under its own name, as /proc/self/maps has it, and not under that of a link.
            own = os.path.basename(os.path.realpath(file["path"]))
            by_name.setdefault(own, set()).add(identity(file["path"]))
            if file["when"] == "start" and OF_NVIDIA.match(own):
                start[identity(file["path"])] = file["path"]
        mapped = {identity(file) for file in bare.files}
        for file in bare.files:
            self.compared += 1
            expected = by_name.get(os.path.basename(file), set())
            yield identity(file) in expected, f"{file} is mapped, predicted: {named(predicted, file)}"
        for file, name in start.items():
            self.compared += 1
            yield file in mapped, f"{name} is predicted for the start: {bare!r}"

    def pinned(self, name, command, env, directory, *options, least=len(USED)):
        """Mixed or from elsewhere without cudarun; from this directory with it."""
        control, cured = self.machine.start(command, env), self.machine.start(command, env, CUDARUN, *options)
        whole = {identity(file) for file in directory.iterdir()}
        astray = [file for file in control.cudnn if identity(file) not in whole]
        self.compared += len(cured.cudnn)
        self.row(
            f"pinned: {name}",
            (control.cudnn and astray, f"the control must map another copy: {control!r}"),
            (cured.status == 0, cured),
            (all(cured.answers.get(word, 0) == 0 for word in CHECKED), cured),
            (len(cured.cudnn) >= least, f"expected {least} files: {cured!r}"),
            (all(identity(file) in whole for file in cured.cudnn), f"expected all from {directory}: {cured!r}"),
        )

    def refused(self, name, command, env, *options, words):
        control, refused = self.machine.start(command, env), self.machine.start(command, env, CUDARUN, *options)
        self.row(
            f"refused: {name}",
            (control.cudnn, f"the control must start: {control!r}"),
            (refused.status == 125 and not refused.files, refused),
            *((part in refused.error, f"expected {part!r}: {refused!r}") for part in words),
        )

    def explained(self, name, command, env, *options, fault, directory, mode, passed_over):
        """The mix before, none after, and by which mode."""
        explained = self.machine.asked("explain", command, env, *options)
        before, after = (
            {os.path.dirname(file["path"]) for file in explained[when] if file["family"] == "cudnn"}
            for when in ("before", "after")
        )
        cudnn = next(row for row in explained["families"] if row["family"] == "cudnn")
        passed = [(row["mode"], row["why"]) for row in explained["passed_over"]]
        self.row(
            f"explained: {name}",
            (explained["faults"].get("cudnn") == fault, f"expected {fault!r}: {explained['faults']}"),
            (before - {str(directory)}, f"it must not be whole before: {before}"),
            # The view holds what was picked.
            (after and after <= {str(directory), explained["view"]}, after),
            (cudnn["picked"]["directory"] == str(directory), cudnn["picked"]),
            (explained["mode"] == mode, f"expected {mode}: {explained['mode']}"),
            (passed == passed_over, f"expected {passed_over}: {json.dumps(explained['passed_over'], indent=1)}"),
        )


def differences(predicted, image):
    """The NVIDIA files that were mapped and not predicted, and those predicted for the start that were not mapped."""
    expected, mapped = ({identity(file["path"]) for file in files} for files in (predicted["files"], image["files"]))
    unexpected = [file for file in image["files"] if identity(file["path"]) not in expected]
    at_start = [file for file in predicted["files"] if file["when"] == "start"]
    absent = [file for file in at_start if identity(file["path"]) not in mapped]
    return [file["path"] for file in unexpected + absent if file["family"]]


def identity(path):
    """What makes a file itself, whatever it is called."""
    try:
        found = os.stat(path)
        return found.st_dev, found.st_ino
    except OSError:
        return path


def named(predicted, file):
    name = os.path.basename(file)
    return [row for row in predicted["files"] if os.path.basename(row["path"]) == name] or "nothing"


def path(*directories):
    return {"LD_LIBRARY_PATH": directories}


def files(top, rest=None, names=USED):
    """The top library from one directory, its sublibraries from another."""
    return [top / names[0], *((rest or top) / name for name in names[1:])]


def linked_programs(rows):
    machine = rows.machine
    old, new, newest = machine.old, machine.new, machine.newest
    by_rpath, in_order = machine.linked("rpath", old), IN_ORDER

    # PyTorch and JAX as the loader sees them: DT_RPATH leads to the wheel, here 9.1.0.
    program = [by_rpath, *in_order]
    rows.predicted("DT_RPATH, nothing set", program, {}, files(old), CHECKED | {"Version": 90100})
    answers = CHECKED | {"Version": 91002}
    rows.predicted("DT_RPATH, 9.10.2 on the path: mixed, silent", program, path(new), files(old, new), answers)
    answers = CHECKED | {"Version": 92200}
    rows.predicted("DT_RPATH, 9.22.0 on the path: mixed, silent", program, path(newest), files(old, newest), answers)
    preload = {"LD_PRELOAD": [new / "libcudnn.so.9"]}
    rows.predicted("DT_RPATH, 9.10.2 preloaded: coherent", program, preload, files(new), CHECKED | {"Version": 91002})

    # A top library that is newer than its sublibraries tells nothing until it is used, and then ends the program.
    program = [machine.linked("rpath", new), *in_order, "Create"]
    answers = CHECKED | {"Version": 90100}
    rows.predicted("DT_RPATH, older on the path: abort", program, path(old), files(new, old), answers, status=-6)

    program = [machine.linked("runpath", old), *in_order]
    rows.predicted("DT_RUNPATH, nothing set", program, {}, files(old), {"Version": 90100})
    rows.predicted("DT_RUNPATH, 9.10.2 on the path: coherent", program, path(new), files(new), {"Version": 91002})
    plain = [machine.linked("plain", new), *in_order]
    rows.predicted("no search path, 9.1.0 on the path", plain, path(old), files(old), {"Version": 90100})
    mixed = [machine.foreign / "libcudnn_graph.so.9.10.2", *(new / name for name in USED if "graph" not in name)]
    two = path(machine.named, machine.foreign)
    rows.predicted("names in one directory, longer ones in the next: mixed", plain, two, mixed, CHECKED)
    alone = path(machine.alone)
    predicted = rows.predicted("the top library alone: abort", plain, alone, [new / "libcudnn.so.9"], status=-6)
    missing = [row["name"] for row in predicted["missing"]]
    rows.row("predicted: … and what it misses", ("libcudnn_graph.so.9" in missing, predicted["missing"]))
    predicted = rows.predicted("no search path, nothing set: no start", plain, {}, [], status=127)
    rows.row("predicted: … and why", ("libcudnn.so.9" in (predicted["failure"] or ""), predicted["failure"]))

    # From 9.22 on the top library has DT_RPATH: it takes its own sublibraries …
    by_own = machine.linked("rpath", newest)
    answers = CHECKED | {"Version": 92200}
    program = [by_own, *in_order]
    rows.predicted("a top library with DT_RPATH, graph first: coherent", program, path(new), files(newest), answers)
    # … but those have DT_RUNPATH. A program whose first call is for Cnn gets what that is linked against from the
    # path. The model does not know which call comes first, and says what each order would map.
    unordered = [by_own, "Cnn", "Ops", "Adv", "Version", "Graph"]
    bare, predicted, _, image = rows.observed(unordered, path(new))
    start = [file["path"] for file in predicted["files"] if file["when"] == "start" and file["family"]]
    rows.row(
        "predicted: … Cnn first: mixed, as the model says of that order",
        (bare.answers["Ops"] == 1002 and str(new / "libcudnn_graph.so.9") in bare.cudnn, f"it must mix: {bare!r}"),
        (start == [str(newest / "libcudnn.so.9")] and set(start) <= set(bare.cudnn), f"{start}: {bare!r}"),
        (differences(predicted, image) == [], differences(predicted, image)),
    )

    # The pin holds in any order of calls.
    rows.pinned("a top library with DT_RPATH, Cnn first", unordered, path(new), newest)
    rows.pinned("names in one directory, longer ones in the next", plain, two, new)
    program = [by_rpath, *in_order]
    wanted = ["--pin", f"cudnn={newest}"]
    for mode in [], ["--pin-mode", "audit"], ["--pin-mode", "view"]:
        name = " ".join(["DT_RPATH, --pin DIRECTORY", *mode])
        rows.pinned(name, program, {}, newest, *wanted, *mode)
        rows.pinned(f"{name}, 9.10.2 on the path", program, path(new), newest, *wanted, *mode)
    by_version = ["--also", newest, "--pin", "cudnn=9.22"]
    rows.pinned("DT_RPATH, --pin VERSION", program, {}, newest, *by_version)
    words = ["LD_LIBRARY_PATH alone cannot help", "its DT_RPATH", "leave out --pin-mode: audit is enough"]
    rows.refused("DT_RPATH, --pin-mode none", program, path(new), *wanted, "--pin-mode", "none", words=words)

    # An old shim works over newer parts, and a new one not over 9.1.0: its cudnnCreate aborts, as above.
    shimmed = {"fault": None, "mode": "audit", "passed_over": [("none", "reachable")]}
    rows.explained("DT_RPATH, 9.10.2 on the path", program, path(new), directory=old, **shimmed)
    shimmed["passed_over"] = [("none", "shadowed-by-rpath")]
    rows.explained("… --pin DIRECTORY", program, path(new), *wanted, directory=newest, **shimmed)
    mixed = {"fault": "mixed", "mode": "audit", "passed_over": [("none", "reachable")]}
    program = [machine.linked("rpath", new), *in_order]
    rows.explained("DT_RPATH, 9.1.0 on the path", program, path(old), directory=new, **mixed)
    rows.pinned("DT_RPATH, 9.1.0 on the path, with cudnnCreate", [*program, "Create"], path(old), new)


def python_programs(rows):
    machine = rows.machine
    old, new, newest = machine.old, machine.new, machine.newest
    few = [USED[0], "libcudnn_graph.so.9"]
    wanted = ["--pin", f"cudnn={newest}"]
    versions = machine.script("versions.py", VERSIONS)

    # The plugin of 0.4.38 finds the wheel by its DT_RPATH.
    python, site = environment("pinned-jax-0.4.38", PLUGIN_OLD, OLD, *OTHERS)
    own, program = site / "nvidia" / "cudnn" / "lib", [python, versions]
    rows.predicted("jax 0.4.38, nothing set", program, {}, files(own, names=few), {"Version": 90100})
    mixed = files(own, new, few)
    rows.predicted("jax 0.4.38, 9.10.2 on the path: mixed", program, path(new), mixed, {"Version": 91002})
    for mode in [], ["--pin-mode", "audit"], ["--pin-mode", "view"]:
        name = " ".join(["jax 0.4.38, --pin DIRECTORY", *mode])
        rows.pinned(name, program, path(new), newest, *wanted, *mode, least=len(few))
    words = ["LD_LIBRARY_PATH alone cannot help", "its DT_RPATH", "leave out --pin-mode: audit is enough"]
    rows.refused("jax 0.4.38, --pin-mode none", program, path(new), *wanted, "--pin-mode", "none", words=words)

    # The plugin of 0.8.3 has that DT_RPATH too, and JAX itself opens the wheel by absolute path.
    python, site = environment("pinned-jax-0.8.3", *JAX, NEW, *OTHERS)
    own, program = site / "nvidia" / "cudnn" / "lib", [python, versions]
    initialize = [python, machine.script("initialize.py", INITIALIZE)]
    preload = {"LD_PRELOAD": [newest / "libcudnn.so.9"]}
    both = [own / "libcudnn.so.9", *files(newest, names=few)]
    rows.predicted("jax 0.8.3, nothing set", program, {}, files(own, names=few), {"Version": 91002})
    rows.predicted("jax 0.8.3, 9.22.0 on the path: mixed", program, path(newest), files(own, newest, few))
    rows.predicted("jax 0.8.3, 9.22.0 preloaded: coherent", program, preload, files(newest, names=few))
    rows.predicted("all of jax 0.8.3, older on the path: mixed", initialize, path(old), files(own, old, few))
    rows.predicted("all of jax 0.8.3, 9.22.0 preloaded: two installations", initialize, preload, both, {"Version": 92200})
    rows.pinned("jax 0.8.3, --pin DIRECTORY", program, path(old), newest, *wanted, least=len(few))
    rows.pinned("all of jax 0.8.3, --pin DIRECTORY", initialize, path(old), newest, *wanted, least=len(few))
    audit = ["--pin-mode", "audit"]
    rows.pinned("all of jax 0.8.3, --pin-mode audit", initialize, preload, newest, *wanted, *audit, least=len(few))
    words = ["view is not enough: libcudnn.so.9 would come from", "(by its path)", "leave out --pin-mode: audit is enough"]
    refuse = [*wanted, "--pin-mode", "view"]
    rows.refused("all of jax 0.8.3, --pin-mode view", initialize, path(old), *refuse, words=words)
    pinned = {"directory": newest, "mode": "audit", "passed_over": [("none", "shadowed-by-rpath")]}
    rows.explained("all of jax 0.8.3, two installations", initialize, preload, *wanted, fault="two installations", **pinned)

    # So does a script.
    script = machine.script("opens.py", f'import ctypes\ncudnn = ctypes.CDLL("{new / USED[0]}")\n' + CALLS)
    program = [python, script]
    rows.predicted("by absolute path, older on the path", program, path(old), files(new, old), {"Version": 90100})
    for mode in [], ["--pin-mode", "audit"]:
        rows.pinned(" ".join(["by absolute path, --pin DIRECTORY", *mode]), program, {}, newest, *wanted, *mode)
    rows.refused("by absolute path, --pin-mode view", program, {}, *wanted, "--pin-mode", "view", words=words)

    # A wheel that lacks a file is no copy: with a whole one on the path, nothing is taken of it.
    python, site = environment("pinned-jax-0.8.3-incomplete", PLUGIN_NEW, NEW, *OTHERS)
    own, program = site / "nvidia" / "cudnn" / "lib", [python, versions]
    (own / "libcudnn_ops.so.9").unlink()
    rows.pinned("an incomplete wheel, a whole copy on the path", program, path(newest), newest, least=len(few))
    pinned = {"directory": newest, "mode": "audit", "passed_over": [("none", "shadowed-by-rpath")]}
    rows.explained("an incomplete wheel, a whole copy on the path", program, path(newest), fault=None, **pinned)

    # A top library under another name, in a package that brings no more of it.
    python, site = environment("pinned-ctranslate2", *CTRANSLATE)
    program = [python, machine.script("translate.py", TRANSLATE)]
    (shim,) = (site / "ctranslate2.libs").glob("libcudnn-*")
    mixed = [shim, new / few[1]]
    rows.predicted("ctranslate2, 9.10.2 on the path: a shim over other parts", program, path(new), mixed, {"Version": 91002})
    rows.predicted("ctranslate2, 9.1.0 on the path", program, path(old), [shim, old / few[1]], {"Version": 90100})


def main():
    library = os.confstr("CS_GNU_LIBC_VERSION").split()[-1]
    if tuple(map(int, library.split("."))) < (2, 35) or not shutil.which("cc"):
        print("skipped: needs cc and glibc 2.35 or newer")
        return 0
    with tempfile.TemporaryDirectory() as work:
        rows = Rows(Machine(Path(work).resolve()))
        linked_programs(rows)
        python_programs(rows)
    text = f"{rows.rows} rows, {rows.compared} files compared"
    print(f"{text}: all as they are to be" if not rows.failures else f"{text}: {rows.failures} rows failed")
    return bool(rows.failures)


sys.exit(main())
