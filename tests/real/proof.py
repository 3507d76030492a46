"""What cuDNN says of whole and mixed sets of its parts, and what a proof says: tests/real/proof.py PATH-TO-cudarun

Directories with the real parts of cuDNN 8 and 9: whole, with a part of another release, without one, with one that is
cut short, with one that is linked against a file that is nowhere. Its version checks open the parts and ask them, for
which neither a GPU nor a driver is needed.

- A bare program, linked against the top library or opening it, calls the checks one after the other. It must end as
  the row says: with all of them passed, at one that answers a status, by a signal, or not even begin.
- `cudarun verify --as-is --level load` must see the same in the same environment, and name the cause. It loads each
  file besides, which finds the engines of another release; no check opens those.
- `cudarun explain` must refuse the set, for the reason that is named here, and pick the whole one behind it. What
  works all the same, and what no file of NVIDIA's tells, it takes.

Prints a line a row. Needs a C compiler. What the other scripts have not brought is 1.9 GB to download, of which 3.0 GB
are kept.
"""

import ctypes
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from remote import Index
from wheels import CACHE, alone, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

WHEELS = {
    "8.9.7": "nvidia-cudnn-cu12==8.9.7.29", "9.1.0": "nvidia-cudnn-cu12==9.1.0.70",
    "9.10.2": "nvidia-cudnn-cu12==9.10.2.21", "9.22.0": "nvidia-cudnn-cu12==9.22.0.52",
    "9.28.0": "nvidia-cudnn-cu12==9.28.0.42",
}
# The tests use only two files of this one.
PARTS = {"8.8.0": ("nvidia-cudnn-cu12==8.8.0.121", ["libcudnn_ops_infer.so.8", "libcudnn_cnn_infer.so.8"])}

# Says which check comes before it comes; ends at the first that does not pass.
SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
static const char *const parts[] = {
    "OpsInfer", "OpsTrain", "CnnInfer", "CnnTrain", "AdvInfer", "AdvTrain",
    "Graph", "Ops", "Cnn", "Adv", "SubquadraticOps",
};
int main(void)
{
#ifdef OPENED
    void *cudnn = dlopen(OPENED, RTLD_NOW | RTLD_LOCAL);
    if (!cudnn) {
        fprintf(stderr, "%s\n", dlerror());
        return 127;
    }
#else
    void *cudnn = RTLD_DEFAULT;
#endif
    char name[64];
    printf("Version");
    fflush(stdout);
    printf(" %zu\n", ((size_t (*)(void))dlsym(cudnn, "cudnnGetVersion"))());
    for (unsigned i = 0; i < sizeof parts / sizeof *parts; i++) {
        snprintf(name, sizeof name, "cudnn%sVersionCheck", parts[i]);
        int (*check)(void) = (int (*)(void))dlsym(cudnn, name);
        if (!check)
            continue;
        printf("%s", parts[i]);
        fflush(stdout);
        int answer = check();
        printf(" %d\n", answer);
        fflush(stdout);
        if (answer)
            return 1;
    }
    return 0;
}
"""

ABORT, BUS = -signal.SIGABRT, -signal.SIGBUS
# The output before the end.
UNABLE = "Unable to load any of {{libcudnn_{part}.so.9."
INVALID = "Invalid handle. Cannot load symbol {symbol}"
EIGHT = "Could not load library libcudnn_{part}.so.8. Error: "
ABSENT = EIGHT + "libcudnn_{part}.so.8: cannot open shared object file"
# The result of `explain` for a set that it does not refuse: it prefers the set to a whole one behind it on the
# search path, or only where there is no other.
TAKEN, SPARE = "taken", "spare"
FOREIGN, MISSING, DAMAGED, UNLOADABLE = (
    "mixed", "incomplete", "damaged", "library-does-not-load",
)
SYMBOL, NOWHERE = "undefined symbol", "cannot open shared object file"

# The change to the set; the call at which the bare program ends, and how: by a status, by a signal or, as a text, by
# what the loader says of a file; what is printed; the cause, and the reason of `explain`. `start` is no call: the
# loader ends the bare program before it runs. The bare program passes if there is a text and no call.
WHOLE = ("whole", None, 0, None, None, TAKEN)

# 9.1.0 with parts of 9.10.2, and the other way round.
NINE = [
    WHOLE,
    ("ops of {other}", "Ops", ABORT, UNABLE, FOREIGN, "mixed"),
    ("cnn of {other}", "Cnn", ABORT, UNABLE, FOREIGN, "mixed"),
    ("adv of {other}", "Adv", 1002, None, FOREIGN, "mixed"),
    ("graph of {other}", "Ops", ABORT, UNABLE, FOREIGN, "mixed"),
    ("engines_precompiled of {other}", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("engines_runtime_compiled of {other}", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("heuristic of {other}", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("without ops", "Ops", ABORT, UNABLE, MISSING, "incomplete"),
    ("without cnn", "Cnn", ABORT, UNABLE, MISSING, "incomplete"),
    ("without adv", "Adv", ABORT, UNABLE, MISSING, "incomplete"),
    ("without graph", "Version", ABORT, UNABLE, MISSING, "incomplete"),
    # No check opens an engine: it takes a convolution to miss it, or a look at what must be there.
    ("without engines_precompiled", None, NOWHERE, None, MISSING, "incomplete"),
    ("without engines_runtime_compiled", None, NOWHERE, None, MISSING, "incomplete"),
    ("without heuristic", None, 0, None, None, SPARE),
    ("without shim", "start", NOWHERE, None, UNLOADABLE, "other-name"),
    ("cnn cut", "Cnn", BUS, None, DAMAGED, "incomplete"),
    ("graph cut", "Version", BUS, None, DAMAGED, "incomplete"),
    ("shim cut", "start", BUS, None, DAMAGED, "other-name"),
    # As in a small container. That it does not load is all that cuDNN says, and not why.
    ("graph without its libz.so.1", "Version", ABORT, UNABLE, UNLOADABLE, TAKEN),
]
# An older shim does no harm. One of 9.2 or newer does over 9.1.0, in cudnnCreate, and no check says so: that is pinned.py's.
SHIM_OF_OLDER = ("shim of {other}", None, 0, None, None, TAKEN)
SHIM_OF_NEWER = ("shim of {other}", None, 0, None, None, "mixed")
NEWEST = [
    WHOLE,
    ("ops of 9.1.0", "Ops", 3009, INVALID, FOREIGN, "mixed"),
    ("cnn of 9.1.0", "Cnn", 3009, INVALID, FOREIGN, "mixed"),
    ("adv of 9.1.0", "Adv", 1002, None, FOREIGN, "mixed"),
    ("graph of 9.1.0", "Ops", 3009, INVALID, FOREIGN, "mixed"),
    ("ops of 9.22.0", "Ops", 1002, None, FOREIGN, "mixed"),
    ("cnn of 9.22.0", "Cnn", 3009, INVALID, FOREIGN, "mixed"),
    ("graph of 9.22.0", "Ops", 1002, None, FOREIGN, "mixed"),
    ("shim of 9.1.0", None, 0, None, None, TAKEN),
    ("shim of 9.22.0", None, 0, None, None, TAKEN),
    # Nothing tells these two from the right ones: they load, and the check of the second passes.
    ("engines_tensor_ir of 9.22.0", None, 0, None, None, TAKEN),
    ("ext of 9.22.0", None, 0, None, None, TAKEN),
    ("engines_precompiled of 9.22.0", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("engines_runtime_compiled of 9.22.0", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("heuristic of 9.22.0", None, SYMBOL, None, FOREIGN, "lacks-symbols"),
    ("without ops", "Ops", 3009, INVALID, MISSING, "incomplete"),
    ("without cnn", "Cnn", 3009, INVALID, MISSING, "incomplete"),
    ("without adv", "Adv", 3009, INVALID, MISSING, "incomplete"),
    ("without graph", "Version", ABORT, INVALID, MISSING, "incomplete"),
    ("without ext", "SubquadraticOps", 3009, INVALID, MISSING, SPARE),
    ("without engines_precompiled", None, NOWHERE, None, MISSING, "incomplete"),
    ("without engines_runtime_compiled", None, NOWHERE, None, MISSING, "incomplete"),
    ("without engines_tensor_ir", None, 0, None, None, SPARE),
    ("without heuristic", None, 0, None, None, SPARE),
    ("without shim", "start", NOWHERE, None, UNLOADABLE, "other-name"),
    ("cnn cut", "Cnn", BUS, None, DAMAGED, "incomplete"),
    ("cnn without its libz.so.1", "Cnn", 3009, INVALID, UNLOADABLE, TAKEN),
]
OLDEST = [
    WHOLE,
    ("ops_infer of 8.8.0", "OpsTrain", 14, None, FOREIGN, "lacks-symbols"),
    ("cnn_infer of 8.8.0", "CnnInfer", 14, None, FOREIGN, "lacks-symbols"),
    ("without ops_infer", "Version", ABORT, ABSENT, MISSING, "incomplete"),
    ("without ops_train", "OpsTrain", ABORT, ABSENT, MISSING, "incomplete"),
    ("without cnn_infer", "CnnInfer", ABORT, ABSENT, MISSING, "incomplete"),
    ("without cnn_train", "CnnTrain", ABORT, ABSENT, MISSING, "incomplete"),
    ("without adv_infer", "AdvInfer", ABORT, ABSENT, MISSING, "incomplete"),
    ("without adv_train", "AdvTrain", ABORT, ABSENT, MISSING, "incomplete"),
    ("without shim", "start", NOWHERE, None, UNLOADABLE, "other-name"),
    ("ops_train cut", "OpsTrain", BUS, None, DAMAGED, "incomplete"),
    ("ops_train without its librt.so.1", "OpsTrain", ABORT, EIGHT, UNLOADABLE, TAKEN),
]
# For these, a program that opens the top library is tested as well, in each table.
OPENED = ["whole", "ops of", "graph of", "ops_infer of", "without ops"]


class Row:
    """A set that something is done to, and what is expected of it."""

    def __init__(self, release, case, other=None, is_opened=False):
        change, self.call, self.end, said, self.cause, self.explained = case
        self.release, self.change, self.is_opened = release, change.format(other=other), is_opened
        self.major = release.split(".")[0]
        self.part, self.action = (self.change.split(maxsplit=1) + [None])[:2]
        if self.part == "without":
            self.part, self.action = self.action, "without"
        self.said = said and said.format(part=self.asked(), symbol=self.symbol())

    def __str__(self):
        return f"{self.release} {self.change}" + (", opened" if self.is_opened else "")

    def symbol(self):
        return "cudnnGetVersion" if self.call == "Version" else f"cudnn{self.call}VersionCheck"

    def asked(self):
        """The part that the call at which it ends is of."""
        names = {"Version": "graph" if self.major == "9" else "ops_infer", "SubquadraticOps": "ext"}
        words = (f"_{letter.lower()}" if letter.isupper() else letter for letter in self.call or "")
        return names.get(self.call) or "".join(words).lstrip("_")

    def lay(self, directory):
        """The set, in a directory of its own: links take no space, and are the files themselves to the loader."""
        for source in files(self.release):
            target = directory / source.name
            if part_of(source) != self.part or self.change == "whole":
                os.link(source, target)
            elif self.action == "cut":
                copied(source, target, source.stat().st_size * 6 // 10)
            elif self.action.startswith("without its "):
                name = self.action.split()[-1].encode()
                copied(source, target, source.stat().st_size)
                data = target.read_bytes()
                assert data.count(b"\0" + name + b"\0") == 1, f"{source.name} is not linked against {name}"
                target.write_bytes(data.replace(b"\0" + name + b"\0", b"\0" + name.replace(b"lib", b"bil") + b"\0"))
            elif self.action.startswith("of "):
                (other,) = (file for file in files(self.action.split()[-1]) if file.name == source.name)
                os.link(other, target)


class Seen:
    """What was observed of a set."""

    def __init__(self, row, program, work):
        self.directory, self.whole = work / "set", files(row.release)[0].parent
        self.directory.mkdir()
        try:
            row.lay(self.directory)
            self.bare = start([program], work, self.directory)
            words = ["verify", "--as-is", "--level", "load", "--fresh", "--json", program]
            self.verify = start([CUDARUN, *words], work, self.directory)
            self.verdict = json.loads(self.verify.stdout or "{}")
            self.alone = explained(program, work, self.directory)
            self.beside = explained(program, work, self.directory, self.whole)
        finally:
            shutil.rmtree(self.directory)

    def bare_end(self):
        """At which call the bare program ended, and how."""
        words = self.bare.stdout.split()
        if self.bare.returncode == 127:
            return "start", NOWHERE if NOWHERE in self.bare.stderr else self.bare.stderr
        if self.bare.returncode == 0 and len(words) % 2 == 0:
            return None, 0
        if self.bare.returncode == 1:
            return words[-2], int(words[-1])
        return (words[-1] if words else "start"), self.bare.returncode

    def evidence(self, kind):
        return [row for row in (self.verdict.get("cause") or {}).get("evidence", []) if row["evidence"] == kind]

    def not_loaded(self):
        """The files that a proof passed over, and why."""
        steps = self.verdict.get("proof", {}).get("steps", [])
        return [(step["of"], step["came"]["not-loaded"]["message"]) for step in steps if "came" in step]


def judge(row, seen):
    """What is not as the row says."""
    return [text for holds, text in [*of_bare(row, seen), *of_proof(row, seen), *of_explained(row, seen)] if not holds]


def of_bare(row, seen):
    ends_by_itself = row.call is None and isinstance(row.end, str)
    expected = (None, 0) if ends_by_itself else (row.call, row.end)
    yield seen.bare_end() == expected, f"by itself expected {expected}, got {seen.bare_end()}: {seen.bare}"
    if row.said:
        yield seen.bare.stderr.startswith(row.said), f"by itself expected `{row.said}`: {seen.bare.stderr}"


def of_proof(row, seen):
    verdict, failure, cause = seen.verdict, seen.verdict.get("failure") or {}, seen.verdict.get("cause") or {}
    told = json.dumps(verdict, indent=1)
    ends = {"status": seen.verify.returncode, "verdict": verdict.get("verdict"), "cause": cause.get("cause")}
    expected = {"status": int(row.end != 0), "verdict": "failed" if row.end else "passed", "cause": row.cause}
    yield ends == expected, f"verify: expected {expected}, got {ends}: {told} {seen.verify.stderr}"
    if isinstance(row.end, str):
        expected = {"failure": "load", "name": name_of(row.part, row.major)}
        yield row.end in failure.get("message", ""), f"verify: expected `{row.end}`: {told}"
    elif row.end > 0:
        expected = {"failure": "status", "call": row.symbol(), "code": row.end}
    else:
        expected = {"failure": "signal", "signal": -row.end} if row.end else {}
    yield expected.items() <= failure.items(), f"verify: expected {expected}: {told}"
    if row.end:
        step = "version-checks"
        if row.call in (None, "start", "Version"):
            step = "load-file" if row.call is None else "load"
        yield (failure.get("at") or {}).get("step") == step, f"verify: expected the step {step}: {told}"
    if row.said:
        lines = [row["line"] for row in seen.evidence("said")]
        yield lines and lines[0].startswith(row.said), f"verify: expected `{row.said}`: {told}"
    if row.cause and row.call != "start":
        yield (cause.get("culprit") or {}).get("directory") == str(seen.directory), f"verify: the culprit: {told}"
    if row.cause == MISSING:
        stems = [f"libcudnn_{row.part}"]
        yield [found["stems"] for found in seen.evidence("missing")] == [stems], f"verify: expected {stems}: {told}"
    if row.cause == DAMAGED and row.call != "start":
        cut = [name_of(row.part, row.major)]
        yield [found["file"] for found in seen.evidence("truncated")] == cut, f"verify: expected {cut}: {told}"
    # From 9.28 on one part is linked against the driver: where there is none, that is not the set's fault.
    passed_over = [(of, message.split(":")[0]) for of, message in seen.not_loaded()]
    expected = [("libcudnn_engines_runtime_compiled.so.9", "libcuda.so.1")]
    if row.change == "whole":
        expected = expected if row.release == "9.28.0" and not HAS_DRIVER else []
        yield passed_over == expected, f"verify: expected to be passed over {expected}: {told}"
    yield set(passed_over) <= set(expected), f"verify: passed over {passed_over}"


def of_explained(row, seen):
    mixed, whole = str(seen.directory), str(seen.whole)
    is_taken = row.explained in (TAKEN, SPARE)
    alone = ("plan", mixed) if is_taken else ("conflict", row.explained)
    yield seen.alone == alone, f"explain, alone: expected {alone}, got {seen.alone}"
    beside = ("plan", mixed if row.explained == TAKEN else whole)
    yield seen.beside == beside, f"explain, before a whole one: expected {beside}, got {seen.beside}"


def explained(program, work, *directories):
    """The decision, and the directory that was picked or the reason why the first was refused."""
    run = start([CUDARUN, "explain", "--json", program], work, *directories)
    assert run.returncode in (0, 1), run
    found = json.loads(run.stdout)
    if found["decision"] == "plan":
        picked = [row["picked"]["directory"] for row in found["families"] if row["family"] == "cudnn"]
        return "plan", *picked
    candidates = [row for unmet in found.get("unmet") or [] for row in unmet["candidates"]]
    reasons = [row["reason"]["reason"] for row in candidates if row["directory"] == str(directories[0])]
    return found["decision"], *reasons


def start(words, work, *directories):
    env = {
        "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(work / "home"), "XDG_CACHE_HOME": str(work / "cache"),
        "LD_LIBRARY_PATH": ":".join(map(str, directories)),
    }
    return subprocess.run(list(map(str, words)), env=env, capture_output=True, text=True, cwd=work, timeout=60)


def name_of(part, major):
    return f"libcudnn.so.{major}" if part == "shim" else f"libcudnn_{part}.so.{major}"


def part_of(file):
    return file.name.split(".so")[0].removeprefix("libcudnn").lstrip("_") or "shim"


def files(release):
    """The libraries of a release."""
    if release in PARTS:
        return parts(*PARTS[release])
    directory = unpacked(WHEELS[release]) / "nvidia" / "cudnn" / "lib"
    return sorted(file for file in directory.iterdir() if ".so." in file.name)


def parts(wheel, names):
    """Some files of a wheel of which nothing else is wanted."""
    final = CACHE / "parts" / wheel
    if not all((final / name).is_file() for name in names):
        final.mkdir(parents=True, exist_ok=True)
        print(f"downloading {wheel} for its {' and '.join(names)}", flush=True)
        with alone(f"{wheel}-parts"):
            partial = CACHE / f"partial-{wheel}"
            shutil.rmtree(partial, ignore_errors=True)
            index = Index("3.11")
            index.members(index.find(wheel), lambda name: os.path.basename(name) in names, partial)
            for file in partial.rglob("*.so.*"):
                os.rename(file, final / file.name)
            shutil.rmtree(partial)
    return [final / name for name in names]


def copied(source, target, length):
    """A copy of its beginning."""
    with open(source, "rb") as read, open(target, "wb") as write:
        while length and (piece := read.read(min(length, 1 << 20))):
            write.write(piece)
            length -= len(piece)


def has_driver():
    try:
        ctypes.CDLL("libcuda.so.1")
        return True
    except OSError:
        return False


HAS_DRIVER = has_driver()


def program_of(release, is_opened, work):
    """What calls the checks of this cuDNN, linked against it or opening it."""
    major = release.split(".")[0]
    program = work / f"{'opens' if is_opened else 'linked'}-{major}"
    if not program.exists():
        (library,) = (file for file in files(release) if part_of(file) == "shim")
        command = ["cc", "-o", program, "-x", "c", "-", "-x", "none", "-ldl", "-Wl,--no-as-needed"]
        command += [f'-DOPENED="{library.name}"'] if is_opened else [library, "-Wl,--allow-shlib-undefined"]
        subprocess.run(list(map(str, command)), input=SOURCE, text=True, check=True)
    return program


def rows():
    nine = [("9.1.0", [*NINE, SHIM_OF_NEWER], "9.10.2"), ("9.10.2", [*NINE, SHIM_OF_OLDER], "9.1.0")]
    tables = [*nine, ("9.28.0", NEWEST, None), ("8.9.7", OLDEST, None)]
    for release, table, other in tables:
        yield from (Row(release, case, other) for case in table)
        yield from (Row(release, case, other, True) for case in table if case[0].startswith(tuple(OPENED)))


def control(row, seen):
    """A row that holds does not where one of its expectations is another: whatever is expected is looked at."""
    others = {"call": "Adv", "end": 1, "said": "Could not load", "cause": MISSING, "explained": "incomplete"}
    for name, other in others.items():
        held = getattr(row, name)
        setattr(row, name, other)
        if not judge(row, seen):
            yield f"{row}: `{name}` can be {other!r} as well as {held!r}"
        setattr(row, name, held)


def main():
    if not shutil.which("cc"):
        print("skipped: needs cc")
        return 0
    # The abort is intended.
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    failures = count = controls = 0
    with tempfile.TemporaryDirectory(dir=CACHE) as place:
        work = Path(place).resolve()
        for row in rows():
            seen = Seen(row, program_of(row.release, row.is_opened, work), work)
            wrong = judge(row, seen)
            if not wrong and row.cause == FOREIGN and row.part in ("ops", "cnn_infer"):
                controls += 1
                wrong = list(control(row, seen))
            call, end = seen.bare_end()
            ended = f"{call} {signal.Signals(-end).name if isinstance(end, int) and end < 0 else end}"
            told = [ended if call else "passes", (seen.verdict.get("cause") or {}).get("cause"), seen.alone[-1]]
            told[2] = "taken" if seen.alone[0] == "plan" else told[2]
            print(f"{'FAIL' if wrong else 'ok'}  {row}: {'; '.join(filter(None, told))}", flush=True)
            for text in wrong:
                print("     ", text.replace("\n", "\n      "))
            count += 1
            failures += bool(wrong)
    text = f"{count} sets, {controls} of them expected otherwise as a control"
    print(f"{text}: all as they are to be" if not failures else f"{text}: {failures} failed")
    return failures > 0 or not controls


sys.exit(main())
