#!/usr/bin/env python3
"""Injects faults into cold starts: tests/faults.py [cudarun] [--every N]

Each system call of a cold start, before the program runs, fails once with an error that it may have; and cudarun is
killed at each call that writes and at every tenth of the others. A start must then take the whole set or say in one
line why not; it must lose nothing, and the next start must be right. Needs strace and a C compiler.

The world: a program that opens a cuDNN of several parts. LD_LIBRARY_PATH leads to some parts of an older one first, so
that without cudarun it gets two versions. `--every N` injects only each Nth fault.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
# The errors that a call may have, by its name.
ERRORS = {
    "openat": ["EIO", "EMFILE"],
    "open": ["EIO", "EMFILE"],
    "read": ["EIO"],
    "pread64": ["EIO"],
    "mmap": ["ENOMEM"],
    "statx": ["EIO"],
    "newfstatat": ["EIO"],
    "fstat": ["EIO"],
    "getdents64": ["EIO"],
    "readlink": ["EIO"],
    "readlinkat": ["EIO"],
    "faccessat": ["EIO"],
    "faccessat2": ["EIO"],
    "access": ["EIO"],
    "rename": ["EIO", "ENOSPC"],
    "renameat": ["EIO"],
    "renameat2": ["EIO"],
    "link": ["EPERM"],
    "linkat": ["EPERM"],
    "mkdir": ["EROFS", "ENOSPC"],
    "mkdirat": ["EROFS"],
    "rmdir": ["EIO"],
    "symlink": ["EDQUOT"],
    "symlinkat": ["EDQUOT"],
    "unlink": ["EIO"],
    "unlinkat": ["EIO"],
    "write": ["ENOSPC", "EIO"],
    "ftruncate": ["EIO"],
    "fchmod": ["EPERM"],
    "chmod": ["EPERM"],
    "fchmodat": ["EPERM"],
    "fsync": ["EIO"],
    "flock": ["ENOLCK"],
    "ioctl": ["ENOTTY"],
    "fcntl": ["EMFILE"],
    "dup": ["EMFILE"],
    "dup2": ["EMFILE"],
    "pipe2": ["EMFILE"],
    "socketpair": ["EMFILE"],
    "poll": ["EINTR"],
    "clone3": ["EAGAIN"],
    "clone": ["EAGAIN"],
    "vfork": ["EAGAIN"],
    "fork": ["EAGAIN"],
    "prctl": ["EPERM"],
    "getcwd": ["ENOENT"],
    "chdir": ["EACCES"],
    "uname": ["EFAULT"],
    "sched_getaffinity": ["EINVAL"],
    "sigaltstack": ["ENOMEM"],
}
WRITES = {
    "rename", "renameat", "renameat2", "link", "linkat", "mkdir", "mkdirat", "rmdir", "symlink", "symlinkat", "unlink",
    "unlinkat", "ftruncate", "fchmod", "chmod", "fchmodat", "fsync", "flock", "write",
}
PARTS = ["graph", "ops", "cnn", "adv", "heuristic", "engines_precompiled", "engines_runtime_compiled"]
MAIN = """
#include <dlfcn.h>
static int part(const char *name) { return !dlopen(name, RTLD_NOW); }
int cudnnCreate(void **handle)
{
    return part("libcudnn_graph.so.9") + part("libcudnn_ops.so.9") + part("libcudnn_cnn.so.9");
}
"""
PROGRAM = r"""
#include <stdio.h>
#include <string.h>
int cudnnCreate(void **);
int main(void)
{
    char line[8192];
    void *handle;
    printf("%d", cudnnCreate(&handle));
    FILE *maps = fopen("/proc/self/maps", "r");
    while (fgets(line, sizeof line, maps))
        if (strstr(line, "/libcudnn") && strstr(line, " r-xp "))
            printf(" %s", strtok(strchr(line, '/'), "\n"));
    puts("");
    return 41;
}
"""


def compile(source, output, *flags):
    subprocess.run(["cc", "-x", "c", "-o", output, "-", *flags], input=source, text=True, check=True)


def library(directory, stem, version, code=""):
    directory.mkdir(parents=True, exist_ok=True)
    stamp = f'__attribute__((used)) const char stamp[] = "cudnn_version_{version.replace(".", "_")}_";\n'
    source = stamp + "unsigned cudnnGetCudartVersion(void) { return 12040; }\n" + code
    compile(source, directory / f"{stem}.so.9", "-shared", "-fPIC", f"-Wl,-soname,{stem}.so.9")


class World:
    def __init__(self, place, cudarun):
        self.place, self.cudarun = place, cudarun
        self.whole, self.parts = place / "whole", place / "parts"
        library(self.whole, "libcudnn", "9.10.2.21", MAIN)
        for part in PARTS:
            library(self.whole, f"libcudnn_{part}", "9.10.2.21")
        for part in ["ops", "cnn"]:
            library(self.parts, f"libcudnn_{part}", "9.1.0.70")
        self.program = place / "program"
        compile(PROGRAM, self.program, f"-L{self.whole}", "-l:libcudnn.so.9", "-Wl,--allow-shlib-undefined")
        names = ["libcudnn", "libcudnn_cnn", "libcudnn_graph", "libcudnn_ops"]
        self.right = {str(self.whole / f"{name}.so.9") for name in names}

    def start(self, home, before=()):
        """Starts the program. Returns the status, the mapped files, and the text of both streams."""
        environment = {"PATH": "/usr/bin:/bin", "HOME": str(home), "LD_LIBRARY_PATH": f"{self.parts}:{self.whole}"}
        command = [*before, *([self.cudarun] if self.cudarun else []), self.program]
        done = subprocess.run(
            command, env=environment, cwd=self.place, stdin=subprocess.DEVNULL, capture_output=True, timeout=60
        )
        out = done.stdout.decode(errors="replace")
        return done.returncode, set(out.split()[1:]), out, done.stderr.decode(errors="replace")

    def is_right(self, started):
        status, mapped, out, _ = started
        # A view has links, and the kernel shows the files that they lead to.
        return status == 41 and mapped == self.right and out.startswith("0 ")


def calls(log):
    """The calls of the main thread before the program, each with its number among those of its name."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line]
    main = lines[0].split()[0]
    counts, found, is_loaded, execs = collections.Counter(), [], False, 0
    for line in lines:
        # A thread's part of a call may be unfinished; only its begin has the name.
        match = re.match(r"(\d+)\s+(\w+)\(", line)
        if not match or match[1] != main:
            continue
        name = match[2]
        if name == "execve":
            execs += 1
            if execs == 2:
                break
            continue
        counts[name] += 1
        if is_loaded:
            found.append((name, counts[name]))
        # Before this, the loader loads cudarun itself.
        is_loaded |= name == "munmap"
    return found


def is_late(log):
    """True if the fault came after the start: another run may make fewer calls."""
    main, execs = None, 0
    for line in log.read_text(errors="replace").splitlines():
        main = main or line.split()[0]
        execs += line.split()[0] == main and " execve(" in line
        if "INJECTED" in line:
            return execs > 1
    return execs > 1


def judge(world, error, started, home):
    """Returns what is wrong, or None."""
    status, mapped, out, said = started
    # Rust's runtime ends a process that gets no memory for the stack of a signal.
    is_of_runtime = "failed to allocate an alternative stack" in said
    if not (world.is_right(started) or error == "SIGKILL" or is_of_runtime):
        lines = [line for line in said.splitlines() if line]
        is_said = any(line.startswith("cudarun: cannot read ") or "unchanged" in line for line in lines)
        if mapped and not is_said:
            return f"a wrong set: {sorted(mapped)} {said}"
        if not mapped and (status not in (125, 126, 127) or not any(line.startswith("cudarun: ") for line in lines)):
            return f"status {status}: {out!r} {said!r}"
        if len(lines) > 12:
            return f"too long: {said!r}"
    again = world.start(home)
    if not world.is_right(again):
        return f"the next start: {again}"
    third = world.start(home)
    if not world.is_right(third):
        return f"the third start: {third}"
    return None


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cudarun", nargs="?", default=HERE.parent / "target/release/cudarun", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    place = pathlib.Path(tempfile.mkdtemp()).resolve()
    os.chmod(place, 0o755)
    try:
        world = World(place, options.cudarun.resolve())
        failed = run(world, options.every)
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(f"faults: {'all of it holds' if not failed else f'{failed} wrong'} ({time.monotonic() - began:.0f} s)")
    sys.exit(failed > 0)


def run(world, every):
    alone = World.__new__(World)
    alone.__dict__.update(world.__dict__, cudarun=None)
    status, mapped, _, _ = alone.start(world.place)
    assert status == 41 and str(world.parts / "libcudnn_ops.so.9") in mapped, f"the control mixes: {mapped}"
    home = world.place / "home"
    home.mkdir()
    log = world.place / "log"
    started = world.start(home, ["strace", "-f", "-o", log])
    assert world.is_right(started), started
    every_call = calls(log)
    cases = []
    for name, number in every_call:
        cases += [(name, number, f"error={error}") for error in ERRORS.get(name, [])]
    others = [call for call in every_call if call[0] not in WRITES]
    kills = [call for call in every_call if call[0] in WRITES] + others[::10]
    cases += [(name, number, "signal=SIGKILL") for name, number in kills]
    faults = len(cases) - len(kills)
    print(f"{len(every_call)} calls, {faults} faults, {len(kills)} kills, one in {every}", flush=True)

    def one(index):
        name, number, what = cases[index]
        home = world.place / f"home-{index}"
        home.mkdir()
        log = world.place / f"log-{index}"
        inject = f"inject={name}:{what}:when={number}"
        try:
            started = world.start(home, ["strace", "-f", "-o", log, "-e", inject])
            return None if is_late(log) else judge(world, what.split("=")[1], started, home)
        except subprocess.TimeoutExpired:
            return "it hangs"
        finally:
            shutil.rmtree(home, ignore_errors=True)
            log.unlink(missing_ok=True)

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        chosen = range(0, len(cases), every)
        for index, wrong in zip(chosen, pool.map(one, chosen)):
            if wrong:
                failed += 1
                print("WRONG", *cases[index], wrong, flush=True)
    return failed


if __name__ == "__main__":
    main()
