"""Environments in which Python packages disagree: tests/real/packages.py PATH-TO-cudarun

Two wheels that install one file, extension modules that are built against another torch, and a cuBLASLt of another
build beside cuBLAS. Each case has its control. Prints a line a case.
"""

import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import checks
from checks import case
from wheels import environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

NCCL_12, NCCL_13 = "nvidia-nccl-cu12==2.21.5", "nvidia-nccl-cu13==2.27.7"
# torch for aarch64 is built without CUDA, so it is small. Its files are read but never loaded.
TORCH, FITTING, OTHER = "torch==2.6.0", "torchaudio==2.6.0", "torchaudio==2.5.1"
CUBLAS = "nvidia-cublas-cu12==12.4.5.8"

def run(command, **variables):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", **variables}
    return subprocess.run(list(map(str, command)), env=env, capture_output=True, text=True)


def answer(*arguments, **variables):
    done = run([CUDARUN, *arguments, "--json"], **variables)
    assert done.returncode in (0, 1), done.stderr
    return json.loads(done.stdout)


def digest(path):
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


def claimed(first, second):
    """`environment` keeps the file of the first wheel, as if that had been installed last."""
    python, site = environment("packages-claimed", first, second)
    library = site / "nvidia" / "nccl" / "lib" / "libnccl.so.2"
    own, other = (digest(unpacked(wheel) / library.relative_to(site)) for wheel in (first, second))
    listed = answer("list", "--python", python, "nccl")["installations"]
    found = next(row for row in listed if row["directory"] == str(library.parent))
    problems = [problem for problem in found["problems"] if problem["problem"] == "claimed-twice"]
    package = first.replace("==", " ")
    case(
        f"claimed: {first} over {second}",
        (own == digest(library) != other, "the control: the file must be the first wheel's"),
        (len(problems) == 1 and problems[0]["holds"] == package, found["problems"]),
        (found["package"] == package and found["version"].startswith(first.split("==")[1]), found),
    )


def symbols(path):
    """The symbols that a file imports, and those that it exports, by readelf."""
    imported, exported = set(), set()
    for line in run(["readelf", "-W", "--dyn-syms", path]).stdout.splitlines():
        words = line.split()
        if len(words) > 7 and words[0].rstrip(":").isdigit():
            name = words[7].split("@")[0]
            if words[6] != "UND":
                exported.add(name)
            elif words[4] != "WEAK":
                imported.add(name)
    return imported, exported


def needed(path):
    """The names in DT_NEEDED, by readelf."""
    lines = run(["readelf", "-d", path]).stdout.splitlines()
    return {line.split("[")[1].rstrip("]") for line in lines if "(NEEDED)" in line}


def extensions():
    torch, *audio = (unpacked(wheel, machine="aarch64") for wheel in (TORCH, FITTING, OTHER))
    exported = set().union(*(symbols(file)[1] for file in (torch / "torch" / "lib").glob("*.so*")))
    for tree, wheel in zip(audio, (FITTING, OTHER)):
        python, site = environment("packages-extensions", torch.name, tree.name)
        listed = answer("list", "--python", python, "--extensions")["extensions"]
        listed = [row for row in listed if row["path"].startswith(str(site))]
        files = {row["path"]: set(row["lacks_symbols"]) for row in listed}
        beside = set().union(*(symbols(file)[1] for file in tree.rglob("*.so")))
        # Symbols in torch's own namespaces, by their mangled prefixes.
        own = tuple(kind + name for kind in ("_ZN", "_ZNK") for name in ("3c10", "2at", "5torch", "6caffe2"))
        expected = {
            str(site / file.relative_to(tree)): {
                name for name in symbols(file)[0] - exported - beside if name.startswith(own)
            }
            for file in tree.rglob("*.so")
        }
        # A module lacks what those lack that it is linked against.
        linked = {str(site / file.relative_to(tree)): needed(file) for file in tree.rglob("*.so")}
        for _ in linked:
            for path, names in linked.items():
                for other in linked:
                    if os.path.basename(other) in names:
                        expected[path] = expected[path] | expected[other]
        lacking = sum(map(bool, expected.values()))
        case(
            f"extensions: {wheel} beside {TORCH}: {lacking} of {len(expected)} files lack symbols",
            ((lacking > 0) == (wheel == OTHER), "the control, by readelf: only the other build lacks symbols"),
            (files == expected, f"{files}\n{expected}"),
            (all(row["framework"] == TORCH.replace("==", " ") for row in listed), listed),
            (all(row["built_for"] == wheel.split("==")[1] for row in listed), listed),
        )
        text = run([CUDARUN, "list", "--python", python, "--extensions"]).stdout
        case(f"extensions: {wheel} in words", (("symbols" in text) == (wheel == OTHER), text))


MAPPED = """
import ctypes
ctypes.CDLL("libcublas.so.12")
paths = {line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps") if "libcublas" in line}
print("\\n".join(sorted(paths)))
"""


def cublas():
    """A directory with nothing but a cuBLASLt of another build is first on the path."""
    python, site = environment("packages-cublas", CUBLAS, "nvidia-cuda-runtime-cu12==12.4.127")
    whole = site / "nvidia" / "cublas" / "lib"
    other = site.parents[2] / "other"
    other.mkdir()
    # Another build with the same SONAME: one byte of its build-id differs.
    library = other / "libcublasLt.so.12"
    shutil.copyfile(whole / library.name, library)
    rebuild(library)
    path = f"{other}:{whole}:{site / 'nvidia' / 'cuda_runtime' / 'lib'}"
    control = run([python, "-c", MAPPED], LD_LIBRARY_PATH=path)
    cured = run([CUDARUN, python, "-c", MAPPED], LD_LIBRARY_PATH=path, XDG_CACHE_HOME=str(site.parents[2] / "cache"))
    directories = lambda done: {os.path.dirname(line) for line in done.stdout.split()}
    case(
        "cublas: a cuBLASLt of another build before a whole cuBLAS",
        (digest(library) != digest(whole / library.name), "the control: another build"),
        (directories(control) == {str(other), str(whole)}, f"the control must mix: {control}"),
        (directories(cured) == {str(whole)} and cured.stdout.count("\n") == 2, cured),
    )
    library.unlink()


def rebuild(library):
    """Changes the build-id of a library in place."""
    notes = run(["readelf", "-n", library]).stdout
    build = bytes.fromhex(next(line.split()[-1] for line in notes.splitlines() if "Build ID" in line))
    with open(library, "r+b") as file:
        at = file.read(1 << 20).index(build)
        file.seek(at)
        file.write(bytes([build[0] ^ 1]))


def main():
    claimed(NCCL_12, NCCL_13)
    claimed(NCCL_13, NCCL_12)
    extensions()
    cublas()
    sys.exit(checks.failures > 0)


main()
