#!/usr/bin/env python3
"""Injects faults into cold starts: tests/faults.py [cudarun] [--every N]

Each system call of a cold start, before the program runs, fails once with an error that it may have; and cudarun is
killed at each call that writes and at every tenth of the others. A start must then take the whole set or say in one
line why not; it must lose nothing, and the next start must be right. Needs strace and a C compiler.

The world: a program that opens a cuDNN of several parts. LD_LIBRARY_PATH leads to some parts of an older one first, so
that without cudarun it gets two versions. `--every N` injects only each Nth fault.

The same faults meet the cudarun that replaces a program below a shell, and the module that does it, for this program
and for a Python that needs no library: all must be as without cudarun. So must be a Python with little memory, and more.
"""

import argparse
import collections
import concurrent.futures
import os
import pathlib
import re
import shutil
import signal
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
# The same, and those by which the module replaces a program.
FOLLOWED = {**ERRORS, "execve": ["ENOMEM", "EACCES"], "faccessat": ["EIO"], "getpid": ["EPERM"]}
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


class Followed:
    """A program that a shell starts, which cudarun has started. strace sees only this program, and what replaces it."""

    def __init__(self, world, words):
        self.world, self.words = world, words
        self.alone = self.start(world.place, is_alone=True)
        assert self.alone[0] in (0, 41) and not self.alone[2], self.alone

    def start(self, home, before="", is_alone=False, cudarun=None, user=None):
        """Starts it. Returns the exit status and both streams."""
        environment = {
            "PATH": "/usr/bin:/bin",
            "HOME": str(home),
            "LD_LIBRARY_PATH": f"{self.world.parts}:{self.world.whole}",
        }
        words = ["/bin/sh", "-c", f'{before} "$@"\nexit $?', "sh", *self.words]
        child = subprocess.Popen(
            [*([] if is_alone else [cudarun or self.world.cudarun]), *words],
            env=environment,
            cwd=self.world.place,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            **({} if user is None else {"user": user, "group": user, "extra_groups": []}),
        )
        with child:
            try:
                out, said = child.communicate(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(child.pid, signal.SIGKILL)
                raise
        return child.returncode, out, said

    def needs_plan(self):
        return self.words[0] == self.world.program

    def is_right(self, started):
        status, out, said = started
        if self.needs_plan():
            return self.world.is_right((status, set(out.split()[1:]), out, said)) and not said
        return started == self.alone

    def judge(self, error, started, home):
        """Returns what is wrong, or None. What would mix may be refused."""
        is_refused = self.needs_plan() and started[0] == 125 and not started[1] and "cudarun: " in started[2]
        if not (self.is_right(started) or started == self.alone or is_refused or error == "SIGKILL"):
            return str(started)
        again = self.start(home)
        return None if self.is_right(again) else f"the next start: {again}"


def followed_calls(log):
    """The calls of the module and of the cudarun that replaces a program: the name, the number among those of its
    name, and the line of the log."""
    lines = [line for line in log.read_text(errors="replace").splitlines() if line]
    main = lines[0].split()[0]
    counts, execs, is_own, is_cache_open = collections.Counter(), 0, False, False
    for line in lines:
        match = re.match(r"(\d+)\s+(\w+)\(", line)
        if not match or match[1] != main:
            continue
        name = match[2]
        counts[name] += 1
        if name == "execve":
            if execs:
                yield name, counts[name], line
            # One that failed starts nothing.
            execs += line.endswith("= 0")
            is_own = is_cache_open = False
            continue
        # Beside these, there are the calls of the loader, and of the program.
        if execs != 2 and '"/proc/self/exe"' in line and not is_cache_open:
            is_own = True
        elif execs == 2 and is_cache_open and name == "munmap":
            is_own = True
        elif execs != 2 and name in ("munmap", "access"):
            is_own = False
        if is_own:
            yield name, counts[name], line
        is_cache_open |= '"/etc/ld.so.cache"' in line


def is_elsewhere(log):
    """True if the fault met the program or the loader: another run may make fewer calls."""
    injected = [line for line in log.read_text(errors="replace").splitlines() if "INJECTED" in line]
    return bool(injected) and injected[0] not in [line for _, _, line in followed_calls(log)]


def run_followed(world, every):
    failed = 0
    for title, words in {"Python": ["/usr/bin/python3", "-c", "print(1)"], "a program": [world.program]}.items():
        followed = Followed(world, words)
        home, log = world.place / "home-followed", world.place / "log-followed"
        home.mkdir()
        started = followed.start(home, f"strace -f -o {log}")
        assert followed.is_right(started), started
        every_call = list(followed_calls(log))
        starts = [line for name, _, line in every_call if name == "execve"]
        assert len(starts) == 2 and "--follow-process" in starts[0], f"it is not followed: {starts}"
        shutil.rmtree(home)
        cases = []
        for name, number, _ in every_call:
            cases += [(name, number, f"error={error}") for error in FOLLOWED.get(name, [])]
        cases += [(name, number, "signal=SIGKILL") for name, number, _ in every_call if name in WRITES]
        print(f"followed, {title}: {len(every_call)} calls, {len(cases)} faults, one in {every}", flush=True)

        def one(index):
            name, number, what = cases[index]
            home, log = world.place / f"home-{index}", world.place / f"log-{index}"
            home.mkdir()
            try:
                started = followed.start(home, f"strace -f -o {log} -e inject={name}:{what}:when={number}")
                return None if is_elsewhere(log) else followed.judge(what.split("=")[1], started, home)
            except subprocess.TimeoutExpired:
                return "it hangs"
            finally:
                shutil.rmtree(home, ignore_errors=True)
                log.unlink(missing_ok=True)

        with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
            chosen = range(0, len(cases), every)
            for index, wrong in zip(chosen, pool.map(one, chosen)):
                if wrong:
                    failed += 1
                    print(f"WRONG followed, {title}:", *cases[index], wrong, flush=True)
    return failed


# Refuses system calls by number with an error, as a sandbox does, and becomes a program.
SANDBOX = r"""
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>
int main(int count, char **words)
{
    struct sock_filter filter[] = {
        {BPF_LD | BPF_W | BPF_ABS, 0, 0, offsetof(struct seccomp_data, nr)},
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 1, atoi(words[1])},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | atoi(words[2])},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    struct sock_fprog program = {4, filter};
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program)) return 99;
    execv(words[3], words + 3);
    return 98;
}
"""
USER = 12345


def run_narrow(world):
    """Starts a Python that is followed with little of something. Where it runs without cudarun, it must do the same
    with it. Returns how many are wrong."""
    python = ["/usr/bin/python3", "-c", "print(1)"]
    followed, failed, count = Followed(world, python), 0, 0
    prefix = world.place / "prefix"
    (prefix / "bin").mkdir(parents=True)
    (prefix / "lib/cudarun").mkdir(parents=True)
    cudarun, module = prefix / "bin/cudarun", prefix / "lib/cudarun/follow.so"
    shutil.copy(world.cudarun, cudarun)
    cudarun.chmod(0o755)
    module.write_bytes(subprocess.run([cudarun, "--module-for", cudarun], capture_output=True, check=True).stdout)
    home = world.place / "home-narrow"
    home.mkdir()
    os.chmod(home, 0o777)
    hidden = world.place / "hidden-python"
    shutil.copy("/usr/bin/python3", hidden)
    hidden.chmod(0o111)

    def compare(title, before, must_run=True, words=python, **more):
        nonlocal failed, count
        followed.words = words
        alone = followed.start(home, before, is_alone=True, user=more.get("user"))
        if alone[0] and not must_run:
            return
        assert not alone[0], f"{title}: {alone}"
        count += 1
        try:
            got = followed.start(home, before, cudarun=cudarun, **more)
        except subprocess.TimeoutExpired:
            got = "it hangs"
        if got != alone:
            failed += 1
            print(f"WRONG followed, {title}: {got}, not {alone}", flush=True)

    compare("nothing is narrow", "")
    for size in [*range(8, 64, 4), *range(64, 320, 16)]:
        compare(f"{size} MB of memory", f"ulimit -v {size << 10};", must_run=False)
    for size in [64, 100, 200, 500, 1000]:
        compare(f"{size} kB of stack", f"ulimit -s {size};", must_run=False)
    for files in [3, 4, 5, 6, 8]:
        compare(f"{files} descriptors", f"ulimit -n {files};", must_run=False)
    compare("files of no size", "ulimit -f 0;")
    compare("no data", "ulimit -d 4096;", must_run=False)
    compare("no locked memory, no queues", "ulimit -l 0;")
    for streams in ["<&-", "2>&-", "<&- 2>&-"]:
        compare(f"closed streams {streams}", f"exec {streams};", must_run=False)
    if os.geteuid() == 0:
        for processes in [0, 1, 2]:
            compare(f"{processes} processes", f"ulimit -u {processes}; exec", user=USER)
        compare("an interpreter that only can be executed", "", words=[str(hidden), *python[1:]], user=USER)
        compare("a place for files that is not there", "HOME=/none", user=USER)
    for name in ["PIPE", "BUS", "ABRT", "CHLD", "TERM", "HUP"]:
        compare(f"an ignored signal {name}", f"trap '' {name};")
    sandbox = world.place / "sandbox"
    compile(SANDBOX, sandbox)
    names = sorted({*ERRORS, "getrandom", "getpid", "madvise", "munmap", "writev", "close", "rt_sigprocmask"})
    known = [f"#ifdef __NR_{name}\n{name} __NR_{name}\n#endif\n" for name in names]
    source = "#include <sys/syscall.h>\n" + "".join(known)
    numbers = subprocess.check_output(["cc", "-E", "-P", "-"], input=source, text=True)
    for line in numbers.splitlines():
        if line.strip():
            name, number = line.split()
            for error, code in {"EPERM": 1, "ENOSYS": 38}.items():
                compare(f"a filter for {name} with {error}", f"{sandbox} {number} {code}", must_run=False)
    # What follows stays alive while cudarun changes below it.
    aside = prefix / "aside"
    for title, act in {
        "cudarun is removed": f"mv {cudarun} {aside};",
        "cudarun is not executable": f"cp {cudarun} {aside}; chmod 644 {cudarun};",
        "cudarun is cut off": f"mv {cudarun} {aside}; head -c 30 {aside} >{cudarun}; chmod 755 {cudarun};",
        "cudarun is empty": f"mv {cudarun} {aside}; : >{cudarun}; chmod 755 {cudarun};",
        "cudarun is a directory": f"mv {cudarun} {aside}; mkdir {cudarun};",
        "its directory is removed": f"mv {cudarun} {aside}; mv {prefix}/bin {prefix}/away;",
        "the current directory is removed": "mkdir gone; cd gone; rmdir ../gone;",
    }.items():
        compare(title, f"if test -n \"$CUDARUN_TREE\"; then {act} fi;")
        if (prefix / "away").exists():
            (prefix / "away").rename(prefix / "bin")
        if aside.exists():
            shutil.rmtree(cudarun) if cudarun.is_dir() else cudarun.unlink(missing_ok=True)
            aside.rename(cudarun)
            cudarun.chmod(0o755)
    exported = f'eval "$({cudarun} export --follow)"; test -n "$CUDARUN_TREE" || exit 9;'
    followed.words = python
    got = followed.start(home, f"{exported} mv {cudarun} {aside};", is_alone=True)
    count += 1
    if got != followed.alone:
        failed += 1
        print(f"WRONG followed, cudarun is removed below a shell with `export --follow`: {got}", flush=True)
    print(f"followed with little: {count} cases", flush=True)
    return failed


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("cudarun", nargs="?", default=HERE.parent / "target/release/cudarun", type=pathlib.Path)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--only", choices=["typed", "followed", "narrow"])
    options = parser.parse_args()
    began = time.monotonic()
    place = pathlib.Path(tempfile.mkdtemp()).resolve()
    os.chmod(place, 0o755)
    try:
        world = World(place, options.cudarun.resolve())
        failed = 0
        if options.only in (None, "typed"):
            failed += run(world, options.every)
        if options.only in (None, "followed"):
            failed += run_followed(world, options.every)
        if options.only in (None, "narrow"):
            failed += run_narrow(world)
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
