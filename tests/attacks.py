#!/usr/bin/env python3
"""Attacks cudarun as another user: tests/attacks.py [cudarun] [--only TEXT]

The world: root has a whole cuDNN 9.1 in /opt/good. mallory plants a newer one; its constructor writes the user who
runs it into a file. Each row of the table plants in one way, and root and alice start a program that is linked
against cuDNN, twice. The control of a row plants the same as the user who starts, or in the nearest harmless way.
Needs root, a C compiler and mount namespaces: /home, /opt and /tmp are empty file systems of its own.

A row expects one of these:
  good     all parts are from /opt/good, and no code of mallory has run
  new      all parts are the planted ones: a control, or a person named them, or the loader alone would take them
  refused  cudarun starts nothing and says in one line why
  foo      a variable that the settings name is set
  unheard  a client of `fetch` was started, and no code or settings of mallory were obeyed
  heard    the planted code has run, or the settings were obeyed: a control, in a place that a person names
  elsewhere, cache, session, last
           all parts are root's, and the view is in the directory of the session, in the place that the variable
           names, in that of XDG_RUNTIME_DIR, or in /tmp/cudarun-UID
  alone    nothing that cudarun follows behaves otherwise than without cudarun: both streams and the exit status
The followed rows compare standard error and the exit status with a start without cudarun, whatever they expect, but for
`refused` and `heard`.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import time

ALICE, MALLORY = 12345, 23456
NAMES = {0: "root", ALICE: "alice", MALLORY: "mallory"}
PARTS = ["", "_graph", "_ops", "_cnn", "_adv", "_heuristic", "_engines_precompiled", "_engines_runtime_compiled"]
BUILT, GOOD, MARKS = pathlib.Path("/opt/built"), pathlib.Path("/opt/good"), pathlib.Path("/opt/marks/ran")
MAIN = """
#include <dlfcn.h>
static int part(const char *name) { return !dlopen(name, RTLD_NOW); }
int cudnnCreate(void **handle) { return part("libcudnn_ops.so.9") + part("libcudnn_cnn.so.9"); }
int cudnnDestroy(void *handle) { return 0; }
"""
MARK = """
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>
__attribute__((constructor)) static void mark(void)
{
    int file = open("/opt/marks/ran", O_WRONLY | O_APPEND | O_CREAT, 0666);
    dprintf(file, "%d\\n", getuid());
    close(file);
}
"""
# It opens one more part once it has read a line, if there is an argument.
PROGRAM = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int cudnnCreate(void **);
int main(int count, char **words)
{
    char line[8192];
    void *handle;
    const char *view = getenv("CUDARUN_VIEW"), *foo = getenv("FOO");
    int failed = cudnnCreate(&handle);
    if (count > 1) {
        puts("ready");
        fflush(stdout);
        fgets(line, sizeof line, stdin);
        failed += !dlopen(words[1], RTLD_NOW);
    }
    printf("failed=%d\nview=%s\nfoo=%s\n", failed, view ? view : "", foo ? foo : "");
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, " r-xp ") && (strstr(line, "/libcu") || strstr(line, "audit")))
            printf("%s", strchr(line, '/'));
    return 41;
}
"""


def compile(source, output, *flags):
    output.parent.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cc", "-x", "c", "-o", output, "-", *flags], input=source, text=True, check=True)


def library(directory, name, source):
    compile(source, directory / name, "-shared", "-fPIC", f"-Wl,-soname,{name}")


def cudnn(directory, version, code=""):
    stamp = f'__attribute__((used)) const char stamp[] = "cudnn_version_{version.replace(".", "_")}_";\n'
    for part in PARTS:
        number = int(version.split(".")[0]) * 10000 + int(version.split(".")[1]) * 100 + int(version.split(".")[2])
        source = stamp + "unsigned cudnnGetCudartVersion(void) { return 12040; }\n" + code
        source += f"unsigned long cudnnGetVersion(void) {{ return {number}; }}\n"
        library(directory, f"libcudnn{part}.so.9", source + ("" if part else MAIN))


def own(path, owner, mode=None, group=None):
    """Gives a file or a link to an owner."""
    os.chown(path, owner, owner if group is None else group, follow_symlinks=False)
    if mode is not None:
        os.chmod(path, mode)
    return path


def make(path, owner, mode=0o755, group=None):
    """Makes a directory. Its missing parents are root's."""
    path = pathlib.Path(path)
    path.mkdir(parents=True, exist_ok=True)
    return own(path, owner, mode, group)


def plant(path, owner, mode=0o755, group=None, which="new", files=None):
    """Makes a directory with a whole cuDNN. `files` is the owner of the files if it is another one."""
    make(path, owner)
    for file in (BUILT / which).iterdir():
        shutil.copy(file, path)
        own(pathlib.Path(path) / file.name, owner if files is None else files, 0o755)
    return make(path, owner, mode, group)


def link(path, target, owner):
    os.symlink(target, path)
    return own(path, owner)


def write(path, text, owner, mode=0o644):
    path = pathlib.Path(path)
    path.write_text(text)
    return own(path, owner, mode)


def grant(path, uid):
    """Lets one more user write, by an access control list."""
    entries = [(1, 7, 0xFFFFFFFF), (2, 7, uid), (4, 5, 0xFFFFFFFF), (16, 7, 0xFFFFFFFF), (32, 5, 0xFFFFFFFF)]
    value = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    os.setxattr(path, "system.posix_acl_access", value)


def as_user(uid):
    return {"user": uid, "group": uid, "extra_groups": []} if uid else {}


class Start:
    """One start: the variables, the current directory, the options of cudarun, and mallory's act while it runs."""

    def __init__(self, path=None, cwd="/", options=(), late=None, program=("/opt/program",), **variables):
        self.path, self.cwd, self.options, self.late, self.program = path, cwd, options, late, program
        self.variables = variables
        self.is_race = self.is_followed = False
        self.cudarun, self.input = "/opt/cudarun", "\n"


# It does as `PROGRAM` does.
PYTHON = """
import ctypes, os
handle = ctypes.c_void_p()
failed = ctypes.CDLL('libcudnn.so.9').cudnnCreate(ctypes.byref(handle))
print(f"failed={failed}", f"view={os.environ.get('CUDARUN_VIEW', '')}", f"foo={os.environ.get('FOO', '')}", sep="\\n")
for line in open("/proc/self/maps"):
    if " r-xp " in line and ("/libcu" in line or "audit" in line):
        print(line[line.index("/"):], end="")
print(end="", flush=True)
os._exit(41)
"""
ROWS = []


def row(title, expected, control, users=(0, ALICE), because=""):
    """Adds a row. The function plants for (the owner of the plant, the user who starts), and returns the start."""

    def add(function):
        ROWS.append((title, expected, control, users, because, function))
        return function

    return add


def second(*directories):
    return ":".join(map(str, (GOOD, *directories)))


# Elements of LD_LIBRARY_PATH that lead to the current directory.

PLACES = {
    "mallory's directory": dict(mode=0o755),
    "a sticky directory": dict(owner=0, mode=0o1777),
    "a directory for all": dict(owner=0, mode=0o777),
    "a directory of a group": dict(owner=0, mode=0o775, group=MALLORY),
    "a sticky directory of mallory": dict(mode=0o1777),
}
ELEMENTS = ["G;", ";G", ":G", "G:", "G::", "::G", "G::/opt/none", "G:.", ".:G", "G:./", "G:./.", "G:sub/..", "G:../here"]


def current(text, place, is_control):
    def start(owner, user):
        here = dict(place)
        here = {"mode": 0o755} if is_control else here
        directory = plant("/opt/w/here", here.pop("owner", owner), files=owner, **here)
        make(directory / "sub", owner)
        return Start(second(directory) if is_control else text.replace("G", str(GOOD)), directory)

    return start


for name, place in PLACES.items():
    for text in ELEMENTS:
        row(f"LD_LIBRARY_PATH={text} in {name}", "good", "new")(
            lambda owner, user, text=text, place=place: current(text, place, owner == user)(owner, user)
        )

# Other directories, after the good one.


@row("a second element: mallory's directory", "good", "new")
def _(owner, user):
    return Start(second(plant("/home/mallory/new", owner)))


@row("a second element: mallory's directory that is read-only", "good", "new")
def _(owner, user):
    return Start(second(plant("/home/mallory/new", owner, 0o555)))


MODES = {"1777": 0o1777, "0777": 0o777, "0775 of mallory's group": 0o775, "2775 of her group": 0o2775}
for name, bits in MODES.items():

    @row(f"a second element: root's directory with mode {name}", "good", "new")
    def _(owner, user, bits=bits):
        is_control = owner == user
        return Start(second(plant("/opt/w/new", 0, 0o755 if is_control else bits, 0 if is_control else MALLORY)))


@row("a second element: mallory's files in root's directory", "good", "new")
def _(owner, user):
    return Start(second(plant("/opt/w/new", 0, files=owner)))


@row("a second element: one of the files is mallory's", "good", "new")
def _(owner, user):
    directory = plant("/opt/w/new", 0)
    own(directory / "libcudnn_ops.so.9", owner)
    return Start(second(directory))


@row("a second element: a file that all can write", "good", "new")
def _(owner, user):
    directory = plant("/opt/w/new", 0)
    own(directory / "libcudnn_cnn.so.9", 0, 0o755 if owner == user else 0o757)
    return Start(second(directory))


@row("a second element: a file that mallory's group can write", "good", "new")
def _(owner, user):
    directory = plant("/opt/w/new", 0)
    own(directory / "libcudnn_cnn.so.9", 0, 0o755 if owner == user else 0o775, MALLORY)
    return Start(second(directory))


@row("a second element: root's links to mallory's files", "good", "new")
def _(owner, user):
    hers = plant("/home/mallory/new", owner)
    directory = make("/opt/w/links", 0)
    for file in hers.iterdir():
        link(directory / file.name, file, 0)
    return Start(second(directory))


@row("a second element: links to links to mallory's files", "good", "new")
def _(owner, user):
    hers = plant("/home/mallory/new", owner)
    first, directory = make("/opt/w/first", 0), make("/opt/w/links", 0)
    for file in hers.iterdir():
        link(first / file.name, file, 0)
        link(directory / file.name, first / file.name, 0)
    return Start(second(directory))


@row("a second element: root's link to mallory's directory", "good", "new")
def _(owner, user):
    plant("/home/mallory/new", owner)
    make("/opt/w", 0)
    return Start(second(link("/opt/w/link", "/home/mallory/new", 0)))


@row("a second element: a path through mallory's directory and back", "good", "new")
def _(owner, user):
    plant("/home/mallory/new", owner)
    make("/opt/w", 0)
    return Start(second("/opt/w/../../home/mallory/new"))


@row("a second element: hard links to root's files in mallory's directory", "good", "new")
def _(owner, user):
    real = plant("/opt/real", 0, which="new")
    hers = make("/opt/w/hers", owner)
    for file in real.iterdir():
        if owner != user and file.name == "libcudnn_ops.so.9":
            shutil.copy(BUILT / "new" / file.name, hers)
            own(hers / file.name, owner)
        else:
            os.link(file, hers / file.name)
    return Start(second(hers))


def below(mode, group=None, is_owner=False, acl=False):
    """Root's directory below one that mallory can rename it in."""

    def start(owner, user):
        is_control = owner == user
        rights = (0o755, 0) if is_control else (mode, group)
        above = make("/opt/w/above", owner if is_owner else 0, *rights)
        if acl and not is_control:
            grant(above, MALLORY)
        return Start(second(plant(above / "new", 0)))

    return start


row("a second element: root's directory below mallory's", "good", "new")(below(0o755, is_owner=True))
row("a second element: root's directory below one for all", "good", "new")(below(0o777))
row("a second element: root's directory below one of a group", "good", "new")(below(0o775, MALLORY))
row("a second element: root's directory below one with a list", "good", "new")(below(0o755, acl=True))
row("a second element: root's directory below a sticky one", "new", "new", because="mallory can replace nothing")(
    below(0o1777)
)


@row("a second element: a directory with an access control list", "good", "new")
def _(owner, user):
    directory = plant("/opt/w/new", 0)
    if owner != user:
        grant(directory, MALLORY)
    return Start(second(directory))


@row("a second element: mallory's link to root's directory, turned while the program runs", "good", "new")
def _(owner, user):
    plant("/opt/newer", 0)
    plant("/home/mallory/new", MALLORY)
    make("/opt/w", 0, 0o755 if owner == user else 0o1777)
    way = link("/opt/w/link", "/opt/newer", owner)

    def turn():
        if owner != user:
            os.unlink(way)
            link(way, "/home/mallory/new", owner)

    return Start(second(way), late=turn)


@row("a second element: root's directory below mallory's, replaced while the program runs", "good", "new")
def _(owner, user):
    above = make("/opt/w/above", owner)
    real = plant(above / "new", 0)

    def swap():
        if owner != user:
            real.rename(above / "old")
            plant(above / "new", owner)

    return Start(second(real), late=swap)


@row("a first element: mallory's directory", "good", "new")
def _(owner, user):
    hers = plant("/home/mallory/new", owner)
    return Start(f"{hers}:{GOOD}")


for mode in ["view", "audit"]:

    @row(f"a first element: mallory's directory, in the mode {mode}", "good", "new")
    def _(owner, user, mode=mode):
        hers = plant("/home/mallory/new", owner)
        return Start(f"{hers}:{GOOD}", options=(f"--pin-mode={mode}",))


@row("mallory's two directories, before and after the good one", "good", "new")
def _(owner, user):
    parts = plant("/home/mallory/parts", owner)
    for name in ["", "_graph", "_adv"]:
        (parts / f"libcudnn{name}.so.9").unlink()
    return Start(f"{parts}:{second(plant('/home/mallory/new', owner))}")


@row("a good program in mallory's current directory", "good", "good")
def _(owner, user):
    return Start(GOOD, plant("/home/mallory/new", owner))


# Ties, and the driver.


def equal(paths):
    def start(owner, user):
        plant("/opt/aa/new" if owner == user else paths, owner, which="same")
        first = "/opt/aa/new" if owner == user else GOOD
        return Start(f"{first}:{GOOD}" if owner == user else second(paths))

    return start


row("an equal version whose path sorts first", "good", "new")(equal("/home/mallory/aa"))
row("an equal version below /tmp", "good", "new")(equal("/tmp/aa"))


@row("ties of root's directories go by the order of the search", "good", "new", because="both are root's")
def _(owner, user):
    other = plant("/opt/aa", 0, which="same")
    return Start(second(other) if owner != user else f"{other}:{GOOD}")


def driver(directory, owner, which):
    make(directory, owner)
    for name in ["libcuda.so.1", "libcuda.so"]:
        shutil.copy(BUILT / which / "libcuda.so.1", pathlib.Path(directory) / name)
        own(pathlib.Path(directory) / name, owner, 0o755)


@row("a newer driver library of mallory", "good", "new")
def _(owner, user):
    driver("/opt/driver", 0, "driver")
    driver("/home/mallory/driver", owner, "fake")
    order = ["/opt/driver", "/home/mallory/driver"]
    return Start(":".join([str(GOOD), *(order if owner != user else order[::-1])]), program=("/opt/uses-driver",))


@row("a driver library in the current directory", "good", "good", because="only an empty element leads there")
def _(owner, user):
    driver("/opt/driver", 0, "driver")
    driver("/home/mallory/driver", owner, "fake")
    return Start(f"{GOOD}:/opt/driver:", "/home/mallory/driver", program=("/opt/uses-driver",))


# Search paths of the program itself.


@row("a relative DT_RUNPATH in mallory's directory", "good", "new")
def _(owner, user):
    here = plant("/home/mallory/new", owner)
    return Start(second(here) if owner == user else GOOD, here, program=("/opt/relative",))


@row("a relative DT_RUNPATH in mallory's directory, started elsewhere before", "good", "new")
def _(owner, user):
    start = Start(GOOD, "/opt/good", program=("/opt/relative",))
    for _ in range(2):
        assert perform(start, user)[0] == "good"
    here = plant("/home/mallory/new", owner)
    return Start(second(here) if owner == user else GOOD, here, program=("/opt/relative",))


@row("a relative DT_RPATH in mallory's directory", "new", "new", because="the loader alone takes it")
def _(owner, user):
    return Start(GOOD, plant("/home/mallory/new", owner), program=("/opt/relative-first",))


@row("a relative DT_RUNPATH in her directory, and nothing else", "new", "new", because="the loader alone takes it")
def _(owner, user):
    return Start(None, plant("/home/mallory/new", owner), program=("/opt/relative",))


@row("an empty DT_RUNPATH in a sticky directory", "good", "new")
def _(owner, user):
    here = plant("/opt/w/here", 0, 0o755 if owner == user else 0o1777, files=owner)
    return Start(second(here) if owner == user else GOOD, here, program=("/opt/empty",))


@row("a DT_RUNPATH below /tmp that mallory made", "good", "new")
def _(owner, user):
    plant("/tmp/build", 0, 0o755 if owner == user else 0o777, files=owner)
    return Start(GOOD, program=("/opt/in-tmp",))


# Python.


def python(title, place, expected, control, start):
    @row(f"Python: {title}", expected, control)
    def _(owner, user):
        is_control = owner == user
        here = dict(place)
        here = {"mode": 0o755} if is_control else here
        top = make("/opt/w/here", here.pop("owner", owner), **here)
        plant(top / "nvidia/cudnn/lib", owner)
        for below in ["nvidia", "nvidia/cudnn"]:
            own(top / below, owner)
        return start(top)


def of_code(top, *options, **variables):
    return Start(GOOD, top, program=("/usr/bin/python3", *options, "-c", PYTHON), **variables)


def of_script(top):
    write(top / "script.py", PYTHON, 0)
    return Start(GOOD, "/", program=("/usr/bin/python3", str(top / "script.py")))


for name, place in PLACES.items():
    python(f"code in {name} with packages", place, "good", "new", of_code)
python("code in isolation", PLACES["mallory's directory"], "good", "good", lambda top: of_code(top, "-I"))
python("a script in a sticky directory with packages", PLACES["a sticky directory"], "good", "new", of_script)
python(
    "PYTHONPATH names mallory's directory",
    PLACES["mallory's directory"],
    "new",
    "new",
    lambda top: of_code("/", PYTHONPATH=str(top)),
)


@row("a DT_RUNPATH to a directory that mallory made below /tmp", "good", "new")
def _(owner, user):
    plant("/tmp/build", owner)
    return Start(GOOD, program=("/opt/in-tmp",))


@row("a DT_RUNPATH of mallory's own program", "new", "new", because="her program brings it")
def _(owner, user):
    plant("/tmp/build", owner)
    make("/opt/w", 0)
    shutil.copy("/opt/in-tmp", "/opt/w/program")
    own("/opt/w/program", owner, 0o755)
    return Start(GOOD, program=("/opt/w/program",))


@row("a DT_RUNPATH to a directory of mallory's group", "good", "new")
def _(owner, user):
    plant("/opt/w/build", 0, 0o755 if owner == user else 0o775, MALLORY)
    return Start(GOOD, program=("/opt/in-group",))


# A person named it, or the loader alone would take it.


def named(title, options=(), **given):
    @row(f"{title} names mallory's directory", "new", "new", because="a person names it")
    def _(owner, user, options=options):
        directory = plant("/home/mallory/new", owner)
        options = [word.replace("HERS", str(directory)) for word in options]
        variables = {name: value.replace("HERS", str(directory)) for name, value in given.items()}
        return Start(GOOD, options=options, **variables)


named("--also", options=("--also=HERS",))
named("--pin", options=("--pin=cudnn=HERS",))
named("CUDARUN_PIN", CUDARUN_PIN="cudnn=HERS")
named("CUDARUN_ALSO", CUDARUN_ALSO="HERS")
for variable in ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT", "CUDA_TOOLKIT_ROOT_DIR"] + [
    f"CUDNN_{end}" for end in ["HOME", "PATH", "ROOT", "ROOT_DIR"]
]:

    @row(f"{variable} names mallory's directory", "new", "new", because="a person names it")
    def _(owner, user, variable=variable):
        plant("/home/mallory/kit/lib64" if variable.startswith("CUDA_") else "/home/mallory/kit", owner)
        return Start(GOOD, **{variable: "/home/mallory/kit"})


@row("only mallory's directory has one", "new", "new", because="the loader alone takes it")
def _(owner, user):
    return Start(plant("/home/mallory/new", owner))


@row("only an empty element leads to one", "new", "new", because="the loader alone takes it")
def _(owner, user):
    return Start(":", plant("/home/mallory/new", owner))


@row("LD_PRELOAD names mallory's main part", "new", "new", because="the loader alone takes it")
def _(owner, user):
    directory = plant("/home/mallory/new", owner)
    return Start(str(directory), LD_PRELOAD=str(directory / "libcudnn.so.9"))


def unnamed(variable, place, value="/home/mallory/kit"):
    @row(f"{variable} leads to mallory's directory", "good", "good", because="it names no installation")
    def _(owner, user):
        plant(place, owner)
        return Start(GOOD, **{variable: value})


unnamed("LIBRARY_PATH", "/home/mallory/kit")
unnamed("CONDA_ROOT", "/home/mallory/kit/envs/a/lib")
unnamed("PYTHONPATH", "/home/mallory/kit/nvidia/cudnn/lib")
unnamed("MODULEPATH", "/home/mallory/kit/lib64")


# Directories for cudarun's own files. The control is the same place, and the user's.

def whole(user, **more):
    """A start that needs a view, of libraries that are all root's."""
    return Start("/opt/older:/opt/good", options=("--pin-mode=view",), **more)


def cached(variable, place, spoil, expected="elsewhere"):
    def start(owner, user):
        named = spoil(owner, user)
        session = make("/opt/session", user, 0o700)
        return whole(user, **{"XDG_RUNTIME_DIR": str(session), variable: str(named)})

    return row(f"{variable}: {place}", expected, "cache")(start)


def hers(owner, user):
    return make("/opt/w/c", owner)


def beneath_hers(owner, user):
    make("/opt/w/c", owner)
    return make("/opt/w/c/own", user, 0o700)


def beneath_group(owner, user):
    make("/opt/w/c", 0, 0o755 if owner == user else 0o775, MALLORY)
    return make("/opt/w/c/own", user, 0o700)


def beneath_all(owner, user):
    make("/opt/w/c", 0, 0o755 if owner == user else 0o777)
    return make("/opt/w/c/own", user, 0o700)


def beneath_list(owner, user):
    make("/opt/w/c", 0)
    if owner != user:
        grant("/opt/w/c", MALLORY)
    return make("/opt/w/c/own", user, 0o700)


def by_her_link(owner, user):
    make("/opt/w", 0, 0o1777)
    make("/opt/w/real", user, 0o700)
    return link("/opt/w/link", "/opt/w/real", owner)


def link_to_hers(owner, user):
    make("/opt/w/c", owner)
    return link("/opt/w/link", "/opt/w/c", user)


def open_to_all(owner, user):
    return make("/opt/w/c", user, 0o700 if owner == user else 0o777)


def open_to_group(owner, user):
    return make("/opt/w/c", user, 0o700 if owner == user else 0o770, user if owner == user else MALLORY)


def views_for_all(owner, user):
    base = make("/opt/w/c", user, 0o700)
    for below in ["cudarun", ".cache", ".cache/cudarun"]:
        make(base / below, user, 0o700)
    for below in ["cudarun/views", ".cache/cudarun/views"]:
        make(base / below, user, 0o700 if owner == user else 0o777)
    return base


def views_of_hers(owner, user):
    base = views_for_all(user, user)
    for below in ["cudarun/views", ".cache/cudarun/views"]:
        make(base / below, owner, 0o777)
    if owner == user:
        return views_for_all(user, user)
    return base


PLACES_FOR_FILES = {
    "mallory's directory": hers,
    "the user's directory below mallory's": beneath_hers,
    "below a directory that a group can write": beneath_group,
    "below a directory that all can write": beneath_all,
    "below a directory with an access control list": beneath_list,
    "mallory's link in a sticky directory": by_her_link,
    "a link to mallory's directory": link_to_hers,
    "a directory that all can write": open_to_all,
    "a directory that mallory's group can write": open_to_group,
    "views/ that all can write": views_for_all,
    "views/ of mallory": views_of_hers,
}
for variable in ["HOME", "XDG_CACHE_HOME"]:
    for name, spoil in PLACES_FOR_FILES.items():
        cached(variable, name, spoil)


def session(name, spoil):
    @row(f"XDG_RUNTIME_DIR: {name}", "last", "session")
    def _(owner, user):
        return whole(user, HOME="/proc/none", XDG_RUNTIME_DIR=str(spoil(owner, user)))


for name in ["mallory's directory", "the user's directory below mallory's", "mallory's link in a sticky directory"]:
    session(name, PLACES_FOR_FILES[name])


def last(name, make_first, expected="refused"):
    @row(f"/tmp/cudarun-UID: {name}", expected, "last", because="/tmp/cudarun-")
    def _(owner, user):
        if owner != user:
            make_first(pathlib.Path(f"/tmp/cudarun-{user}"), user)
        return whole(user, HOME="/proc/none")


last("mallory's directory", lambda path, user: make(path, MALLORY, 0o777))
last("mallory's file", lambda path, user: write(path, "", MALLORY))
last("mallory's fifo", lambda path, user: (os.mkfifo(path), own(path, MALLORY)))
last("mallory's dangling link", lambda path, user: link(path, "/home/mallory/none", MALLORY))
last("mallory's link to a directory of the user", lambda path, user: link(path, make("/opt/w/c", user, 0o700), MALLORY))
last("mallory's link to herself", lambda path, user: link(path, path, MALLORY))


# Forged files of cudarun. `then` lets the user start once while all is the user's; mallory gets hold of it after that.


def forged(title, then, expected="good", control="new", options=(), **variables):
    @row(title, expected, control)
    def _(owner, user):
        directory = plant("/opt/w/new", user)
        start = Start(second(directory), options=options, HOME="/opt/w/home", **variables)
        make("/opt/w/home", user)
        if owner != user:
            # A start is not kept if a file has changed in the 20 ms before it.
            time.sleep(0.1)
            for _ in range(2):
                assert perform(start, user)[0] == "new", "the start before the attack"
            MARKS.unlink(missing_ok=True)
            then(directory, user)
        return start


def give(*below):
    def then(directory, user):
        for path in [directory, *directory.rglob("*")]:
            own(path, MALLORY)
        for name in below:
            top = pathlib.Path("/opt/w/home") / name
            for path in [top, *top.rglob("*")]:
                own(path, MALLORY)

    return then


forged("a kept start for a library that is now mallory's", give())
forged("a kept start in a cache that is now mallory's", give(".cache"))
forged("kept starts that are now mallory's", give(".cache/cudarun/starts"))
forged("a view that is now mallory's", give(".cache/cudarun/views"))
forged("a view that is now mallory's, in that mode", give(".cache/cudarun/views"), options=("--pin-mode=view",))
forged("facts of a scan that are now mallory's", give(".cache/cudarun/facts"))
forged("an audit module that is now mallory's", give(".cache/cudarun/audit"), options=("--pin-mode=audit",))
forged("a home that is now mallory's", give("."))


forged("proofs that are now mallory's", give(".cache/cudarun/proofs"), CUDARUN_VERIFY_LEVEL="load")
forged("a library that is now mallory's, after its proof", give(), CUDARUN_VERIFY_LEVEL="load", CUDARUN_VERIFY="always")


def hard_links(directory, user):
    """She builds a cache of hard links to the user's files, in the place that cudarun uses next."""
    give()(directory, user)
    old = pathlib.Path("/opt/w/home/.cache/cudarun")
    top = make("/opt/session/cudarun", MALLORY)
    for path in old.rglob("*"):
        new = top / path.relative_to(old)
        if path.is_dir():
            make(new, MALLORY)
        elif path.is_symlink():
            link(new, os.readlink(path), MALLORY)
        else:
            os.link(path, new)
    shutil.rmtree("/opt/w/home/.cache")
    own("/opt/w/home", MALLORY)


forged("a cache of hard links to the user's files", hard_links, XDG_RUNTIME_DIR="/opt/session")


def in_place(directory, user):
    """She replaces the content of a library without a change of its size and its time of modification."""
    file = directory / "libcudnn_ops.so.9"
    stat = file.stat()
    give()(directory, user)
    content = file.read_bytes()
    file.write_bytes(content)
    os.utime(file, ns=(stat.st_atime_ns, stat.st_mtime_ns))


forged("a library that is rewritten with its old time", in_place)


def module_of_hers(directory, user):
    """The published module is replaced by one of hers, in a directory that she may write to."""
    give()(directory, user)
    for module in pathlib.Path("/opt/w/home/.cache/cudarun/audit").glob("*.so"):
        module.unlink()
        shutil.copy(BUILT / "new/libcudnn_ops.so.9", module)
        own(module, MALLORY, 0o755)
    os.chmod("/opt/w/home/.cache/cudarun/audit", 0o777)


forged("a forged audit module", module_of_hers, options=("--pin-mode=audit",))


def view_of_hers(directory, user):
    give()(directory, user)
    views = pathlib.Path("/opt/w/home/.cache/cudarun/views")
    os.chmod(views, 0o777)
    for view in views.iterdir():
        for name in view.iterdir():
            name.unlink()
            link(name, f"/opt/w/new/{name.name}", MALLORY)


forged("forged links in a view that all can write", view_of_hers, options=("--pin-mode=view",))


# Settings.

ENV = '[env]\nFOO = "hers"\n'


def settings(title, spoil, expected="refused", because="config.toml"):
    @row(f"config.toml: {title}", expected, "foo", because=because)
    def _(owner, user):
        base = pathlib.Path(spoil(owner, user))
        directory = make(base / "cudarun", user if title != "mallory's directory" else owner)
        write(directory / "config.toml", ENV, owner if title == "mallory's file" else user)
        return Start(GOOD, XDG_CONFIG_HOME=str(base))


settings("mallory's directory", hers)
settings("mallory's file", lambda owner, user: make("/opt/w/c", user))
for name, spoil in list(PLACES_FOR_FILES.items())[1:9]:
    settings(name, spoil)


@row("config.toml: a link to a file of mallory", "refused", "foo", because="config.toml")
def _(owner, user):
    base = make("/opt/w/c", user)
    write("/home/mallory/hers.toml", ENV, owner)
    make(base / "cudarun", user)
    link(base / "cudarun/config.toml", "/home/mallory/hers.toml", user)
    return Start(GOOD, XDG_CONFIG_HOME=str(base))


@row("config.toml: root's, in a directory that all can write", "refused", "foo", because="/etc/cudarun/config.toml")
def _(owner, user):
    make("/etc/cudarun", 0, 0o755 if owner == user else 0o777)
    write("/etc/cudarun/config.toml", ENV, 0)
    return Start(GOOD)


@row("search.roots of root's config.toml, in a directory that all can write", "good", "new")
def _(owner, user):
    make("/etc/cudarun", 0, 0o755 if owner == user else 0o777)
    plant("/home/mallory/new", owner)
    write("/etc/cudarun/config.toml", '[search]\nroots = ["/home/mallory/new"]\n', 0 if owner == user else MALLORY)
    return Start(GOOD, options=() if owner == user else ("--no-config",))


PROJECTS = {
    "mallory's directory": dict(mode=0o755),
    "a sticky directory": dict(owner=0, mode=0o1777),
    "a directory for all": dict(owner=0, mode=0o777),
    "a directory of mallory's group": dict(owner=0, mode=0o775, group=MALLORY),
}
# Each with what it does once it is allowed.
UNTRUSTED = {
    "[env]": (ENV, "foo"),
    "pin-mode": ('pin-mode = "view"\n', "good"),
    "verify.when": ('[verify]\nwhen = "never"\n', "good"),
    "verify.level": ('[verify]\nlevel = "load"\n', "good"),
    "search.also": ('[search]\nalso = ["/home/mallory/new"]\n', "new"),
    "search.without": ('[search]\nwithout = ["toolkit"]\n', "good"),
    "a pinned directory": ('[pin]\ncudnn = "/home/mallory/new"\n', "new"),
    "a table of the program": ('[program.program.env]\nFOO = "hers"\n', "foo"),
}


def allow(project, home, user):
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    subprocess.run(["/opt/cudarun", "-q", "allow"], cwd=project, env=environment, check=True, **as_user(user))


for name, place in PROJECTS.items():
    for key, (text, control) in UNTRUSTED.items():

        @row(f".cudarun.toml in {name}: {key}", "refused", control, because=".cudarun.toml")
        def _(owner, user, place=place, text=text):
            place, is_control = dict(place), owner == user
            plant("/home/mallory/new", MALLORY)
            project = make("/opt/w/project", place.pop("owner", owner), **({"mode": 0o755} if is_control else place))
            write(project / ".cudarun.toml", text, owner)
            if is_control:
                allow(project, f"/home/{NAMES[user]}", user)
            return Start(GOOD, project)


for name, place in PROJECTS.items():

    @row(f".cudarun.toml in {name}: a range of versions only restricts", "good", "good", because="or it is refused")
    def _(owner, user, place=place):
        place = dict(place)
        plant("/home/mallory/new", owner)
        place["mode"] = 0o755 if place["mode"] != 0o775 or owner == user else 0o775
        project = make("/opt/w/project", place.pop("owner", owner), **place)
        write(project / ".cudarun.toml", '[requires]\ncudnn = ">=9"\n', owner)
        return Start(second("/home/mallory/new") if owner != user else GOOD, project)


@row(".cudarun.toml of mallory requires the version that only she has", "refused", "new", because=">=9.10")
def _(owner, user):
    plant("/home/mallory/new", owner)
    project = make("/home/mallory/project", owner)
    write(project / ".cudarun.toml", '[requires]\ncudnn = ">=9.10"\n', owner)
    return Start(second("/home/mallory/new"), project)


@row(".cudarun.toml: an approval is not for another content", "refused", "foo", because=".cudarun.toml")
def _(owner, user):
    project = make("/opt/w/project", user)
    home = make("/opt/w/home", user)
    file = write(project / ".cudarun.toml", ENV, user)
    allow(project, home, user)
    if owner != user:
        write(file, ENV.replace("hers", "hers now"), owner)
    return Start(GOOD, project, HOME=str(home))


@row(".cudarun.toml: an approval is not for another place", "refused", "foo", because=".cudarun.toml")
def _(owner, user):
    project, other = make("/opt/w/project", user), make("/opt/w/other", owner)
    home = make("/opt/w/home", user)
    for place in [project, other]:
        write(place / ".cudarun.toml", ENV, user)
    allow(project, home, user)
    return Start(GOOD, project if owner == user else other, HOME=str(home))


def approval(title, forge):
    @row(f".cudarun.toml: {title}", "refused", "foo", because=".cudarun.toml")
    def _(owner, user):
        project, home = make("/opt/w/project", owner), make("/opt/w/home", user)
        write(project / ".cudarun.toml", ENV, owner)
        allow(project, home, user)
        if owner != user:
            forge(home / ".config", user)
        return Start(GOOD, project, HOME=str(home))


def approvals(config):
    return list((config / "cudarun/allowed").iterdir())


approval("a forged approval of mallory", lambda config, user: [own(file, MALLORY) for file in approvals(config)])
approval("approvals below a directory for all", lambda config, user: os.chmod(config, 0o777))
approval("approvals in a directory of mallory", lambda config, user: own(config / "cudarun/allowed", MALLORY))
approval("approvals below a directory with a list", lambda config, user: grant(config, MALLORY))


def hard_link_to_another(config, user):
    for file in approvals(config):
        file.unlink()
        own(write(config / "other", "", user), user)
        os.link(config / "other", file)


approval("an approval that is a hard link to another file", hard_link_to_another)


# The client that downloads. mallory's files lie in the current directory, or above it; the control names their directory,
# as a person does. Nothing is downloaded: there is no network here.

MARKS_CODE = "import os; open('/opt/marks/ran', 'a').write(f'{os.getuid()}\\n')\n"
MARKS_SCRIPT = "#!/bin/sh\n/usr/bin/id -u >>/opt/marks/ran\nexit 1\n"
# Settings and environments as uv finds them: those of the nearest directory, then those of the person.
UV = """#!/bin/sh
PATH=/usr/bin:/bin
directory=$(pwd -P)
while :; do
    for settings in "$directory/uv.toml" "$directory/pyproject.toml"; do
        if grep -q hers "$settings" 2>/dev/null; then id -u >>/opt/marks/ran; fi
    done
    if [ -x "$directory/.venv/bin/python" ]; then "$directory/.venv/bin/python"; fi
    [ "$directory" != / ] || break
    directory=$(dirname "$directory")
done
if grep -q hers "$HOME/.config/uv/uv.toml" 2>/dev/null; then id -u >>/opt/marks/ran; fi
if [ -n "$VIRTUAL_ENV" ]; then "$VIRTUAL_ENV/bin/python"; fi
exit 1
"""


def client(title, put, named, path="/opt/with-uv", below="", fetch=("fetch", "--yes", "cudart=12.9", "--cuda", "12"), **more):
    """`put` plants in a directory, and `named` returns the variables by which a person names it."""

    @row(f"fetch: {title}", "unheard", "heard")
    def _(owner, user):
        place = make("/opt/w/here", owner)
        put(place, owner, user)
        here = make(place / below, owner)
        variables = named(place) if owner == user else {}
        variables = {"PATH": path, "PIP_NO_INDEX": "1", **more, **variables}
        return Start(None, here, options=fetch, program=(), **variables)


def environment(place, owner, user):
    make(place / ".venv", owner)
    make(place / ".venv/bin", owner)
    write(place / ".venv/pyvenv.cfg", "home = /usr/bin\n", owner)
    write(place / ".venv/bin/python", MARKS_SCRIPT, owner, 0o755)


def file_of_settings(name):
    def put(place, owner, user):
        write(place / name, '[pip]\nindex-url = "file:///hers"\n', owner)
        if owner == user:
            write(make(make(f"/home/{NAMES[user]}/.config", user) / "uv", user) / "uv.toml", "hers", user)

    return put


def python_module(name):
    return lambda place, owner, user: write(place / name, MARKS_CODE, owner)


def program(name):
    return lambda place, owner, user: write(place / name, MARKS_SCRIPT, owner, 0o755)


for below in ["", "sub/directory"]:
    where = "a directory above" if below else "the current directory"
    client(f".venv in {where}", environment, lambda place: {"VIRTUAL_ENV": str(place / ".venv")}, below=below)
    for name in ["uv.toml", "pyproject.toml"]:
        client(f"{name} in {where}", file_of_settings(name), lambda place: {}, below=below)
for name in ["pip.py", "importlib.py"]:
    client(f"{name} for Python", python_module(name), lambda place: {"PYTHONPATH": str(place)}, "/opt/with-python")
client(
    "an empty element of PYTHONPATH",
    python_module("importlib.py"),
    lambda place: {"PYTHONPATH": str(place)},
    "/opt/with-pip",
    PYTHONPATH=":",
)
for name in ["uv", "pip"]:
    client(f"an empty element of PATH with {name}", program(name), lambda place: {"PATH": str(place)}, ":/opt/with-uv")
client(
    "a start that fetches",
    environment,
    lambda place: {"VIRTUAL_ENV": str(place / ".venv")},
    fetch=("--fetch", "--yes", "/opt/program"),
)


# A copy of cudarun with more rights than the user loads no library that the user names. The control has no such rights.

# Revision 2, effective: CAP_DAC_READ_SEARCH is permitted.
CAPABILITY = struct.pack("<IIIII", 0x02000001, 1 << 2, 0, 0, 0)


def more_rights(title, give_rights):
    @row(f"more rights: {title}", "refused", "heard", users=(ALICE,), because="more rights than its user")
    def _(owner, user):
        plant("/opt/w/new", user)
        copy = make("/opt/w/bin", 0) / "cudarun"
        shutil.copy("/opt/cudarun", copy)
        own(copy, 0, 0o755)
        if owner != user:
            give_rights(copy)
        libraries = [{"family": "cudnn", "soname": "libcudnn.so.9", "files": [], "directory": "/opt/w/new"}]
        start = Start(options=("--verify-child",), program=())
        request = {"version": 2, "level": "load", "seed": 0, "parent": os.getpid(), "libraries": libraries}
        start.cudarun, start.input = copy, json.dumps(request)
        return start


more_rights("set-user-ID", lambda copy: os.chmod(copy, 0o4755))
more_rights("set-group-ID", lambda copy: own(copy, 0, 0o2755, MALLORY))
more_rights("a capability of the file", lambda copy: os.setxattr(copy, "security.capability", CAPABILITY))


# What is followed. cudarun is installed for all users and starts a shell, and the shell starts Python, which is replaced
# by cudarun and gets the newest cuDNN. Nothing else may change. Where it must not be followed, or the newest one is
# mallory's, it gets the one that the loader finds alone.

PREFIX = pathlib.Path("/opt/prefix")
PROBE = "/usr/bin/python3 /opt/probe.py"


def installation(prefix, owner=0):
    """Installs cudarun with its module. Returns the path of cudarun."""
    for directory in [prefix, prefix / "bin", prefix / "lib", prefix / "lib/cudarun"]:
        make(directory, owner)
    own(shutil.copy("/opt/cudarun", prefix / "bin/cudarun"), owner, 0o755)
    module_for(prefix / "bin/cudarun", prefix / "lib/cudarun/follow.so", owner)
    return prefix / "bin/cudarun"


def module_for(cudarun, path, owner=0):
    """Writes the module that replaces processes by this cudarun."""
    module = subprocess.run(["/opt/cudarun", "--module-for", cudarun], capture_output=True, check=True).stdout
    assert len(module) > 4096, "there is no module in this cudarun"
    path.write_bytes(module)
    return own(path, owner, 0o755)


def follow(script, path=None, cudarun=PREFIX / "bin/cudarun", **more):
    """A start of a shell that follows. An exit follows, so that the shell does not become the last program."""
    start = Start(path, program=("/bin/sh", "-c", f"{script}\nexit $?"), **more)
    start.cudarun, start.is_followed = cudarun, True
    return start


def followed(title, expected="alone", control="new", users=(0, ALICE), because=""):
    return row(f"followed: {title}", expected, control, users, because)


def hers_in_tree(title, script, users=(0, ALICE)):
    """A change of the user on the way to Python: mallory's newer one does not count, and root's does."""

    @followed(f"{title}, and mallory's directory", users=users)
    def _(owner, user):
        return follow(script, second(plant("/home/mallory/new", 0 if owner == user else owner)))


def changes(title, attack, neighbour, users=(0, ALICE)):
    """A script on whose way cudarun must not decide, and its nearest neighbour, where it does. The cuDNN is root's."""

    @followed(title, users=users)
    def _(owner, user):
        return follow(neighbour if owner == user else attack, second(plant("/opt/w/new", 0)))


hers_in_tree("a shell", PROBE)
hers_in_tree("su without -", f"su alice -c '{PROBE}'", (0,))
hers_in_tree("su without -, and a shell", f"""su alice -c 'sh -c "{PROBE}; exit \\$?"; exit $?'""", (0,))
hers_in_tree("setpriv --reuid", f"setpriv --reuid {ALICE} --regid {ALICE} --clear-groups {PROBE}", (0,))


@followed("unshare -r", "new", "new", users=(0,), because="an unmapped owner counts as root")
def _(owner, user):
    return follow(f"unshare -r {PROBE}", second(plant("/home/mallory/new", 0 if owner == user else owner)))


changes("unshare -r", f"unshare -r {PROBE}", f"env {PROBE}", (ALICE,))
changes("setpriv --ruid", f"setpriv --ruid {ALICE} {PROBE}", f"setpriv --ruid 0 {PROBE}", (0,))
changes("setpriv --euid", f"setpriv --euid {ALICE} {PROBE}", f"setpriv --euid 0 {PROBE}", (0,))
changes("CUDARUN_FOLLOW=off", f"CUDARUN_FOLLOW=off {PROBE}", f"CUDARUN_FOLLOW= {PROBE}")
changes("LD_AUDIT is empty", f"LD_AUDIT= {PROBE}", f"FOO= {PROBE}")
if shutil.which("sudo"):
    # sudo lets no LD_ through, even with -E.
    KEPT = "$(env | grep -E '^(LD_|CUDARUN_|GLIBC_)')"
    hers_in_tree("sudo -E", f"keep={KEPT}; sudo -E -u alice env $keep {PROBE}", (0,))
if shutil.which("newgrp"):
    hers_in_tree("sg", f"sg {NAMES[0]} -c '{PROBE}'", (0,))


def copied(title, give_rights, users=(ALICE,)):
    """A Python with more rights than its user."""

    @followed(f"a Python with {title}", users=users)
    def _(owner, user):
        copy = make("/opt/w/bin", 0) / "python3"
        own(shutil.copy("/usr/bin/python3", copy), 0, 0o755)
        if owner != user:
            give_rights(copy)
        return follow(f"{copy} /opt/probe.py", second(plant("/opt/w/new", 0)))


copied("set-user-ID", lambda copy: os.chmod(copy, 0o4755))
copied("set-user-ID of mallory", lambda copy: own(copy, MALLORY, 0o4755), users=(0, ALICE))
copied("set-group-ID", lambda copy: own(copy, 0, 0o2755, MALLORY))
copied("a capability of its file", lambda copy: os.setxattr(copy, "security.capability", CAPABILITY))
copied("a file that it may not read", lambda copy: os.chmod(copy, 0o711))


# Where others can replace cudarun, the module does not start it, and cudarun says that it cannot see what a shell starts.


def exposed(title, spoil, because=""):
    @followed(f"cudarun {title}", "otherwise", because=because)
    def _(owner, user):
        make("/opt/w", 0)
        cudarun = installation(pathlib.Path("/opt/w/prefix"))
        start = follow(PROBE, second(plant("/opt/w/new", 0)), cudarun)
        if owner != user:
            spoil(cudarun)
        return start


exposed("in a directory that all can write", lambda cudarun: os.chmod(cudarun.parent, 0o777))
exposed("in a directory that a group can write", lambda cudarun: own(cudarun.parent, 0, 0o775, MALLORY))
exposed("in mallory's directory", lambda cudarun: own(cudarun.parent, MALLORY))
exposed("below a directory that all can write", lambda cudarun: os.chmod(cudarun.parents[1], 0o777))
exposed("below mallory's directory", lambda cudarun: own(cudarun.parents[2], MALLORY))
exposed("that is mallory's", lambda cudarun: own(cudarun, MALLORY, 0o755))
exposed("that all can write", lambda cudarun: os.chmod(cudarun, 0o777))


def act_as(uid, script):
    subprocess.run(["/bin/sh", "-c", script], check=False, stderr=subprocess.DEVNULL, **as_user(uid))


def replaced_module(title, spoil):
    """mallory replaces the module after the shell has started. In the control, the user does."""

    @row(f"followed: a module {title}, replaced while the shell runs", "alone", "heard")
    def _(owner, user):
        make("/opt/w", 0)
        cudarun = installation(pathlib.Path("/opt/w/prefix"))
        place = cudarun.parents[1] / "lib/cudarun"
        (own if owner == user else spoil)(place, owner)
        start = follow("echo ready; read line\n" + PROBE, second(), cudarun)
        start.late = lambda: act_as(owner, f"cp /opt/evil.so {place}/evil && mv -f {place}/evil {place}/follow.so")
        return start


replaced_module("in a directory that all can write", lambda place, owner: own(place, owner, 0o777))
replaced_module("in mallory's directory", lambda place, owner: own(place, owner))
replaced_module("below mallory's directory", lambda place, owner: [own(place.parent, owner), own(place, owner)])


@row("followed: a module that names mallory's cudarun", "alone", "heard")
def _(owner, user):
    hers = write(make("/home/mallory/bin", owner) / "cudarun", MARKS_SCRIPT, owner, 0o755)
    make("/opt/w", 0)
    module = module_for(hers, pathlib.Path("/opt/w/module.so"))
    return follow(f"export LD_AUDIT={module}\n{PROBE}", second())


@followed("a cudarun that is not installed, and su without -", "otherwise", users=(0,))
def _(owner, user):
    # The module is in root's cache, and the loader says that alice cannot read it. The control has no su.
    script = PROBE if owner == user else f"su alice -c '{PROBE}'"
    return follow(script, second(plant("/opt/w/new", 0)), "/opt/cudarun")


# Forged variables.

TEXTS = {
    "nothing": "",
    "a word": "x",
    "slashes": "/" * 5000,
    "another process": "00000001.0000000000000001.1.1.1/",
    "numbers that are too large": "ffffffffffffffff." * 4 + "ffffffffffffffff/",
    "a number too many": "1.2.3.4.5.6/7:8/",
    "a program that was planned": "/8:1f,:,:::,ffffffffffffffff:0/",
    "many programs": "/" + "8:1f," * 20000,
    "a name that is none": "//A%3db|-|=x;|-|=x;%3d|-|=x",
    "a name with NUL": "//A%00b|-|=x",
    "a library path with NUL": "//LD_LIBRARY_PATH|=/none|=x%00y",
    "a preload with NUL": "//LD_PRELOAD|-|=x%00y",
    "a digit too few": "//A|=%4|-;B|=%|-;C|=%zz|-",
    "a long undo": "//A|-|=" + "x" * 100000,
    "many undos": "//" + "LD_PRELOAD|-|=;" * 7000,
    "an undo of the tree": "//CUDARUN_TREE|-|=x;LD_AUDIT|-|=x",
    "bytes": b"/\xff\1/\xfe|=\x80|-;".decode(errors="surrogateescape"),
}


TYPED = "${CUDARUN_TREE:+/opt/prefix/bin/cudarun}"



for name, text in TEXTS.items():

    # A program that is not followed, a cudarun that somebody types, and a Python. The control follows no more.
    @followed(f"CUDARUN_TREE is {name}", "new", "alone")
    def _(owner, user, text=text):
        forged = "CUDARUN_TREE=$TEXT"
        switch = "CUDARUN_FOLLOW=off" if owner == user else ""
        script = f"{forged} /bin/echo one || exit\n{forged} $typed /bin/echo two || exit\n{forged} {switch} {PROBE}"
        return follow(f"typed={TYPED}\n{script}", second(plant("/opt/w/new", 0)), TEXT=text)


FORGED_PINS = "CUDARUN_PINS=/home/mallory/new" + "".join(f":libcudnn{part}.so.9" for part in PARTS)


def pins(title, script):
    """A parent sets the pins of another process for its child. In the control, it makes that look like a proof, and they count."""

    @followed(f"CUDARUN_PINS of a parent, {title}")
    def _(owner, user):
        plant("/home/mallory/new", owner)
        return follow(f"{FORGED_PINS} env -u CUDARUN_TREE CUDARUN_PROOF=1 {PROBE}" if owner == user else script, GOOD)


pins("and a decision without pins", f"{FORGED_PINS} {PROBE}")
pins("for a program that is not followed", f"{FORGED_PINS} CUDARUN_FOLLOW=off {PROBE}")
pins("with a tree of no process", f"{FORGED_PINS} CUDARUN_TREE=0.0.0.0.0/ {PROBE}")
pins("with its own number", f"{FORGED_PINS} exec sh -c 'CUDARUN_TREE=$(printf %08x $$).0.0.0.1/ exec {PROBE}'")
pins(
    "with the last decision of its own number",
    f"{FORGED_PINS} exec sh -c 'CUDARUN_TREE=$(printf %08x $$).${{CUDARUN_TREE#*.}} exec {PROBE}'",
)


# Answers that cudarun has kept, and settings.


def kept(title, *below):
    @followed(title)
    def _(owner, user):
        directory = plant("/opt/w/new", user)
        make("/opt/w/home", user)
        start = follow(PROBE, second(directory), HOME="/opt/w/home")
        if owner != user:
            time.sleep(0.1)
            for _ in range(2):
                assert perform(start, user)[0] == "new", "the start before the attack"
            assert list(pathlib.Path("/opt/w/home/.cache/cudarun/starts").iterdir()), "it is not kept"
            give(*below)(directory, user)
            MARKS.unlink(missing_ok=True)
        return start


kept("a kept start for a library that is now mallory's")
kept("kept starts that are now mallory's", ".cache/cudarun/starts")
kept("a cache that is now mallory's", ".cache")
kept("a home that is now mallory's", ".")

SETTINGS = {
    "a variable": ENV,
    "no TOML": "[[[\n",
    "an unknown key": "[nonsense]\na = 1\n",
    "a version that is nowhere": '[requires]\ncudnn = ">=99"\n',
    "a pin mode": 'pin-mode = "view"\n',
    "no text": "\0\1\2\n",
    "nothing": "",
}
WORDS = {"-c pass": "-c pass", "-m pip --version": "-m pip --version", "a program with cuDNN": "/opt/probe.py"}


def project(title, words, put, place, expected="alone", control="refused"):
    @followed(f".cudarun.toml: {title}: python3 {words}", expected, control)
    def _(owner, user):
        where = dict(place)
        plant("/opt/w/new", 0)
        directory = make("/opt/w/project", where.pop("owner", MALLORY), **where)
        put(directory / ".cudarun.toml")
        command = f"/usr/bin/python3 {WORDS[words]}"
        # The nearest neighbour: somebody types cudarun.
        return follow(f"cd {directory} && {TYPED if owner == user else ''} {command}", second())


def text_of(name):
    return lambda path: write(path, SETTINGS[name], MALLORY)


for words in WORDS:
    for where in ["a sticky directory", "a directory for all"]:
        for name in SETTINGS if words == "-c pass" else ["a variable", "no TOML", "a version that is nowhere"]:
            project(f"mallory's in {where}, {name}", words, text_of(name), PLACES[where])
    for name in ["a variable", "no TOML", "a pin mode"]:
        project(f"mallory's in her directory, {name}", words, text_of(name), PLACES["mallory's directory"])
    for name, put in {
        "a directory": lambda path: make(path, MALLORY),
        "a link to itself": lambda path: link(path, path, MALLORY),
        "a fifo": lambda path: (os.mkfifo(path), own(path, MALLORY)),
        "a link to a device": lambda path: link(path, "/dev/zero", MALLORY),
    }.items():
        project(f"mallory's in a sticky directory, {name}", words, put, PLACES["a sticky directory"])
# Where nobody else can put a file, it is a project's: what it demands counts for who types cudarun.
NOWHERE, UNKNOWN = "a version that is nowhere", "an unknown key"
THERE = PLACES["mallory's directory"]
project(f"mallory's in her directory, {NOWHERE}", "-c pass", text_of(NOWHERE), THERE, control="alone")
CUDNN = "a program with cuDNN"
project(f"mallory's in her directory, {NOWHERE}", CUDNN, text_of(NOWHERE), THERE, control="otherwise")
project(f"mallory's in her directory, {UNKNOWN}", "-c pass", text_of(UNKNOWN), THERE, control="otherwise")


# A race: she renames while the user starts 200 times.


def race(title, hers_at):
    @row(f"a race: {title}", "race", "new", users=(0,))
    def _(owner, user):
        start = hers_at(owner)
        start.is_race = owner != user
        return start


RENAMES = """
#include <stdio.h>
int main(void)
{
    for (;;) {
        rename("new", "aside");
        rename("evil", "new");
        rename("new", "evil");
        rename("aside", "new");
    }
}
"""


def renames_below_hers(owner):
    above = make("/opt/w/above", owner)
    plant(above / "new", 0)
    plant(above / "evil", owner)
    return Start(second(above / "new"))


def renames_in_sticky(owner):
    above = make("/opt/w/above", 0, 0o755 if owner == 0 else 0o1777)
    plant(above / "new", owner)
    plant(above / "evil", owner)
    return Start(second(above / "new"))


race("her directory above root's", renames_below_hers)
race("her directories in a sticky one", renames_in_sticky)


def environment_of(start, user):
    home = f"/home/{NAMES[user]}"
    values = {"PATH": "/usr/bin:/bin", "HOME": home, **start.variables}
    if start.path is not None:
        values["LD_LIBRARY_PATH"] = str(start.path)
    return values


def streams(start, user, is_alone):
    """Starts what is followed, or the same without cudarun. Returns the exit status and both streams, as bytes."""
    words = [*([] if is_alone else [start.cudarun, *start.options]), *start.program]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, process_group=0)
    with subprocess.Popen(words, env=environment_of(start, user), cwd=start.cwd, **pipes, **as_user(user)) as child:
        if start.late and child.stdout.readline() and not is_alone:
            start.late()
        try:
            out, said = child.communicate(start.input.encode(), timeout=30)
        except subprocess.TimeoutExpired:
            os.killpg(child.pid, signal.SIGKILL)
            return "it hangs", b"", b""
    return child.returncode, out, said


def perform_followed(start, user):
    """Starts what is followed with and without cudarun. Returns the outcome and what differs."""
    alone, got = streams(start, user, True), streams(start, user, False)
    told = f"alone: {alone}, followed: {got}"[:2000]
    lines = lambda out: [line for line in out.splitlines() if not line.startswith(b"view=")]
    if alone[0] == "it hangs" or got[0] == "it hangs":
        return "it hangs", told
    if got[2] != alone[2] or got[0] != alone[0]:
        return "refused" if got[0] == 125 and b"cudarun: " in got[2] else "otherwise", told
    if lines(got[1]) == lines(alone[1]):
        return "alone", told
    return outcome(got[0], got[1].decode(), user).split()[0], told


def perform(start, user):
    """Starts the program once. Returns the outcome and all that was said."""
    if start.is_followed:
        return perform_followed(start, user)
    words = [start.cudarun, *start.options, *start.program, *(["libcudnn_adv.so.9"] if start.late else [])]
    pipes = dict(stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    child = subprocess.Popen(words, env=environment_of(start, user), cwd=start.cwd, **pipes, **as_user(user))
    first = ""
    if start.late:
        first = child.stdout.readline()
        start.late()
    out, said = child.communicate(start.input, timeout=60)
    return outcome(child.returncode, out, user), f"status {child.returncode}: {first}{out}{said}"


def outcome(status, out, user):
    if status in (125, 126):
        return "refused"
    lines = out.splitlines()
    mapped = {line for line in lines if line.startswith("/") and "/libcu" in line}
    if status != 41 or "failed=0" not in lines or not mapped:
        return f"broken ({status})"
    view = next((line[5:] for line in lines if line.startswith("view=")), "")
    if any("foo=hers" in line for line in lines):
        return "foo"
    good = {line for line in mapped if line.startswith(("/opt/good/", "/opt/driver/"))}
    if any("/libcuda.so" in line for line in mapped):
        return "good" if good == mapped else "new"
    if good == mapped:
        return f"good {view}".strip()
    return "mixed" if good else "new"


def is_as_expected(expected, got, start, said, because):
    if expected == "refused":
        is_said = any("cudarun: " in line or "error: " in line for line in said.splitlines())
        return got == "refused" and is_said and because in said
    if expected in ("new", "foo", "alone", "otherwise") or start.is_followed and expected == "refused":
        return got == expected
    if start.is_followed:
        return MARKS.exists()
    if expected in ("heard", "unheard"):
        return MARKS.exists() if expected == "heard" else "could not get" in said
    names = {"cache": ["HOME", "XDG_CACHE_HOME"], "session": ["XDG_RUNTIME_DIR"]}.get(expected, [])
    named = [start.variables[name] for name in names if name in start.variables]
    # The kept name may be that of a link, or the one that it leads to.
    tops = {
        "good": [""],
        "elsewhere": ["/opt/session/cudarun/"],
        "last": ["/tmp/cudarun-"],
    }.get(expected, [*named, *map(os.path.realpath, named)])
    return got.startswith("good") and got.removeprefix("good").strip().startswith(tuple(tops))


def clean(owner):
    used = ["/opt/w", "/opt/session", "/opt/aa", "/opt/real", "/opt/newer", "/opt/driver"]
    for top in ["/home", "/tmp", "/etc/cudarun", *used]:
        for entry in pathlib.Path(top).iterdir() if pathlib.Path(top).is_dir() else []:
            shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        if top in used:
            shutil.rmtree(top, ignore_errors=True)
    for uid, name in NAMES.items():
        make(f"/home/{name}", owner if uid == MALLORY else uid)
    MARKS.unlink(missing_ok=True)


def prove(start, user, expected, because, is_attack):
    """Starts as the row says, cold and warm. Returns what is wrong, or None."""
    if start.is_race:
        with subprocess.Popen(["/opt/renames"], cwd="/opt/w/above", **as_user(MALLORY)) as mallory:
            try:
                for count in range(200):
                    got, said = perform(start, user)
                    if not got.startswith("good") or MARKS.exists():
                        return f"start {count}: {got}: {said} ran: {MARKS.exists()}"
            finally:
                mallory.send_signal(signal.SIGKILL)
        return None
    for which in ["cold"] if start.late else ["cold", "warm"]:
        got, said = perform(start, user)
        if not is_as_expected(expected, got, start, said, because):
            return f"{which}: {got}, not {expected}: {said}"
        if expected not in ("new",) and is_attack and MARKS.exists():
            return f"{which}: {got}, but mallory's code ran as {MARKS.read_text()}"
    return None


def run(only):
    failed = starts = 0
    for title, expected, control, users, because, function in ROWS:
        for user in users:
            for is_attack in [True, False]:
                wanted = expected if is_attack else control
                name = f"{title} ({NAMES[user]}{'' if is_attack else ', control'})"
                if only not in name:
                    continue
                clean(MALLORY if is_attack else user)
                start = function(MALLORY if is_attack else user, user)
                wrong = prove(start, user, wanted, because, is_attack)
                starts += 1
                if wrong:
                    failed += 1
                    print(f"WRONG {name}: {wrong}", flush=True)
    return failed, starts


def build(cudarun):
    for top in ["/opt/marks", "/etc/cudarun"]:
        make(top, 0)
    os.chmod("/opt/marks", 0o1777)
    shutil.copy(cudarun, "/opt/cudarun")
    os.chmod("/opt/cudarun", 0o755)
    cudnn(GOOD, "9.1.0.70")
    cudnn(pathlib.Path("/opt/older"), "9.0.0.312")
    cudnn(BUILT / "new", "9.10.2.21", MARK)
    cudnn(BUILT / "same", "9.1.0.70", MARK)
    version = '__attribute__((used)) const char kernel[] = "NVRM: %s";\nint cuInit(int flags) { return 100; }\n'
    for name, code in [("driver", ""), ("fake", MARK)]:
        source = version.replace("%s", "550.54.14" if name == "driver" else "570.10.10") + code
        library(BUILT / name, "libcuda.so.1", source)
    compile(RENAMES, pathlib.Path("/opt/renames"))
    installation(PREFIX)
    auditor = MARK + "unsigned la_version(unsigned version) { return 0; }"
    compile(auditor, pathlib.Path("/opt/evil.so"), "-shared", "-fPIC")
    write("/opt/probe.py", PYTHON, 0)
    for file, line in {
        "passwd": f"alice:x:{ALICE}:{ALICE}::/home/alice:/bin/sh",
        "group": f"alice:x:{ALICE}:",
        "shadow": "alice:*:19000::::::",
    }.items():
        with open(f"/etc/{file}", "a") as users:
            print(line, file=users)
    write(make("/opt/with-uv", 0) / "uv", UV, 0, 0o755)
    for name, client in [("with-python", "python3"), ("with-pip", "pip")]:
        link(make(f"/opt/{name}", 0) / client, f"/usr/bin/{client}", 0)
    flags = [f"-L{GOOD}", "-l:libcudnn.so.9", "-Wl,--allow-shlib-undefined"]
    for name, more in {
        "program": [],
        "relative": ["-Wl,--enable-new-dtags,-rpath,."],
        "relative-first": ["-Wl,--disable-new-dtags,-rpath,."],
        "empty": ["-Wl,--enable-new-dtags,-rpath,"],
        "in-group": ["-Wl,--enable-new-dtags,-rpath,/opt/w/build"],
        "in-tmp": ["-Wl,--enable-new-dtags,-rpath,/tmp/build"],
        "uses-driver": [f"-L{BUILT}/driver", "-Wl,--no-as-needed", "-l:libcuda.so.1"],
    }.items():
        compile(PROGRAM, pathlib.Path(f"/opt/{name}"), *flags, *more)


def skip(why):
    print(f"attacks: skipped: {why}")
    sys.exit(1 if os.environ.get("CUDARUN_TESTS_ALL") == "1" else 0)


def main():
    parser = argparse.ArgumentParser()
    built = pathlib.Path(__file__).resolve().parent.parent / "target/release/cudarun"
    parser.add_argument("cudarun", nargs="?", default=built, type=pathlib.Path)
    parser.add_argument("--only", default="", help="rows whose name contains this")
    options = parser.parse_args()
    if os.geteuid() != 0:
        skip("only root can be several users")
    if "CUDARUN_ATTACKS" not in os.environ:
        if subprocess.run(["unshare", "--mount", "--net", "true"], capture_output=True).returncode:
            skip("no mount namespace can be made here")
        words = ["unshare", "--mount", "--net", "--propagation", "private", sys.executable, *sys.argv]
        os.environ["CUDARUN_ATTACKS"] = "1"
        os.execvp("unshare", words)
    os.umask(0o022)
    began = time.monotonic()
    cudarun = options.cudarun.resolve()
    binary = cudarun.read_bytes()
    for top, mode in {"/opt": 755, "/home": 755, "/tmp": 1777}.items():
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"mode={mode}", "none", top], check=True)
    # A copy, to which the table adds.
    subprocess.run(["cp", "-a", "/etc", "/opt/etc"], check=True)
    subprocess.run(["mount", "--bind", "/opt/etc", "/etc"], check=True)
    pathlib.Path("/opt/binary").write_bytes(binary)
    build(pathlib.Path("/opt/binary"))
    failed, starts = run(options.only)
    held = "all of it holds" if not failed else f"{failed} wrong"
    print(f"attacks: {len(ROWS)} rows, {starts} cases: {held} ({time.monotonic() - began:.0f} s)")
    sys.exit(failed > 0)


if __name__ == "__main__":
    main()
