"""The model of the loader against the real one, over every dynamic file of this machine: tests/real/loader.py [cudarun]

For each 64-bit ELF file of /usr/bin, of the system's library directory and of the wheels that are unpacked: which
files are loaded for which names, and which names are not found, in three environments. The real loader only lists;
programs with more rights than ours are never run, and are listed where no variable is needed for that.
"""

import os
import platform
import re
import struct
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from wheels import CACHE, HERE, unpacked

MULTIARCH = f"{platform.machine()}-linux-gnu"
LOADER, MACHINE = {
    "x86_64": ("/lib64/ld-linux-x86-64.so.2", 62),
    "aarch64": ("/lib/ld-linux-aarch64.so.1", 183),
}[platform.machine()]
# Extension modules with search paths of their own, beside those that other scripts have unpacked.
WHEELS = ["torchaudio==2.6.0", "torchvision==0.21.0", "cupy-cuda12x==13.6.0"]
# Fewer files than these would not be the machine that this is for.
LEAST = 1500
FOUND = re.compile(r"\t(?:(.+) => )?(.+) \(0x[0-9a-f]+\)$")
SKIPPED = "nothing is listed"
CARGO = ["cargo", "run", "--quiet", "--locked", "--release", "--manifest-path", HERE / "../../Cargo.toml"]


def is_dynamic(path):
    """Whether it is a program or a library of this machine, with a dynamic section."""
    try:
        with open(path, "rb") as file:
            header = file.read(64)
            if len(header) < 64 or header[:6] != b"\x7fELF\x02\x01":
                return False
            kind, machine = struct.unpack_from("<HH", header, 16)
            (start,), (count,) = struct.unpack_from("<Q", header, 32), struct.unpack_from("<H", header, 56)
            file.seek(start)
            segments = file.read(56 * count)
    except OSError:
        return False
    kinds = [struct.unpack_from("<I", segments, at)[0] for at in range(0, len(segments) - 55, 56)]
    return kind in (2, 3) and machine == MACHINE and 2 in kinds


def files():
    """Each once, whatever its names, without the loader, which does not load itself."""
    for wheel in WHEELS:
        unpacked(wheel)
    seen = {identity(LOADER)}
    wheels = sorted(CACHE.glob("unpacked/*"))
    for top in ["/usr/bin", f"/usr/lib/{MULTIARCH}", *wheels]:
        for directory, _, names in os.walk(top):
            for name in sorted(names):
                path = os.path.join(directory, name)
                if os.path.isfile(path) and "\n" not in path and identity(path) not in seen and is_dynamic(path):
                    seen.add(identity(path))
                    yield path


def identity(path):
    stat = os.stat(path)
    return stat.st_dev, stat.st_ino


def environments():
    directories = sorted({str(path.parent) for path in CACHE.glob("unpacked/nvidia-*/nvidia/*/lib/*.so*")})
    preloads = sorted(CACHE.glob("unpacked/nvidia-cuda-runtime-cu12==12.4*/nvidia/*/lib/libcudart.so.12"))
    assert len(directories) > 10 and preloads, f"no wheels in {CACHE}"
    # Both CUDA majors, an element that is empty, one that is relative, one that is not there.
    polluted = ":".join([*directories[::3], "", *directories[1::3], "lib", "/nonexistent", "$ORIGIN/../lib"])
    return {
        "plain": {},
        "polluted": {"LD_LIBRARY_PATH": polluted},
        "preloaded": {"LD_PRELOAD": f"{preloads[0]} libm.so.6 /nonexistent/lib.so"},
    }


def listed(path, env):
    """Name to real path, none where it is not found; none at all where the loader gives up."""
    has_rights = os.stat(path).st_mode & 0o6000 or "security.capability" in os.listxattr(path)
    command = [LOADER, *(["--list"] if has_rights else []), path]
    # Told by the variable, the loader goes on where a name is not found.
    env = env if has_rights else {**env, "LD_TRACE_LOADED_OBJECTS": "1"}
    run = subprocess.run(command, env=env, cwd="/", capture_output=True, text=True, errors="replace")
    lines = [line for line in run.stdout.splitlines() if line.startswith("\t")]
    if not lines:
        return None, run.stderr
    if lines == ["\tstatically linked"]:
        # A file without dependencies is not listed, nor are files preloaded with it.
        return (set() if "LD_PRELOAD" not in env else SKIPPED), run.stderr
    answer = set()
    for line in lines:
        if line.endswith(" => not found"):
            answer.add((line[1:].removesuffix(" => not found"), None))
        elif (found := FOUND.match(line)) and not line.startswith("\tlinux-vdso"):
            answer.add((found[1] or found[2], os.path.realpath(found[2])))
    return answer, run.stderr


def modelled(paths, env):
    """The same of all of them, from one process of ours."""
    command = [*CARGO, "--example", "measure", "--", "closures"]
    build = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True)
    assert build.returncode == 0, build.stderr
    # Cargo and its tools are not to be preloaded with anything.
    command = [*command, *(f"{name}={value}" for name, value in env.items())]
    run = subprocess.run(command, input="\n".join(paths), cwd="/", capture_output=True, text=True, check=True)
    answers, current = {}, None
    for line in run.stdout.splitlines():
        if not line.startswith("\t"):
            current = answers.setdefault(line, [set(), None]) if line else current
        elif line.startswith("\t! "):
            current[1] = line
        else:
            name, path = line[1:].rsplit(" => ", 1)
            current[0].add((name, None if path == "not found" else path))
    return answers


def main():
    paths = list(files())
    loader = os.path.realpath(LOADER)
    failures, compared, objects, dead, missing = [], 0, 0, 0, 0
    for name, env in environments().items():
        with ThreadPoolExecutor(os.cpu_count()) as pool:
            real = dict(zip(paths, pool.map(lambda path: listed(path, env), paths)))
        model = modelled(paths, env)
        for path in paths:
            if real[path][0] is SKIPPED:
                continue
            compared += 1
            (expected, said), (got, gives_up) = real[path], model[path]
            # The loader itself is listed in its own ways, and the file where it preloads itself.
            unsaid = {loader, os.path.realpath(path)}
            without = lambda answer: {(name, path) for name, path in answer if path not in unsaid}
            if expected is None:
                dead += 1
                if gives_up is None and not any(path is None for _, path in got):
                    failures.append(f"{name}: {path}: expected to die of {said.strip()}, got {got}")
            elif gives_up or without(expected) != without(got):
                only = sorted(map(str, without(expected) ^ without(got)))
                failures.append(f"{name}: {path}: {gives_up or only}")
            else:
                objects += len(expected)
                missing += sum(path is None for _, path in expected)
    if len(paths) < LEAST:
        failures.append(f"expected {LEAST} files, got {len(paths)}")
    print("FAIL" if failures else "ok", f" {len(paths)} files, {compared} comparisons with ld.so:", end=" ")
    print(f"{objects} objects found, {missing} not found, {dead} files that do not load, {len(failures)} differences")
    for failure in failures[:40]:
        print("     ", failure)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
