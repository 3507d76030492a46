"""Extension modules beside the framework that they are built for, and beside another: tests/real/extensions.py PATH-TO-cudarun

torch 2.6.0 with packages that fit it: they are imported, and cudarun adds no line. With packages for another torch, or for another
CUDA: each fails as it is, or says so itself; cudarun names the package and torch before the start, and what its command installs is
imported without a line. Where `--require extensions` asks for it, a module that lacks symbols, as readelf sees it too, is a refusal.

Everything is downloaded only if CUDARUN_REAL_LARGE is 1 (8 GB); without it, a line says that nothing was tried.
"""

import os
import re
import subprocess
import sys

import checks
from checks import case
from stacks import CUDA, OLD, TORCH, slim
from wheels import environment, rows

CUDARUN = os.path.abspath(sys.argv[1])
FITTING = ["torchvision==0.21.0", "torchaudio==2.6.0", "xformers==0.0.29.post2"]
# A package for torch 2.5.1, and what it prints or raises beside torch 2.6.0.
OTHERS = {
    "torchvision==0.20.1": "operator torchvision::nms does not exist",
    "torchaudio==2.5.1": "undefined symbol",
    "xformers==0.0.28.post3": "can't load C++/CUDA extensions",
}
REQUIRED = "sgl-kernel==0.3.5"
# Newer releases, for CUDA 13, have another name.
OF_CUDA_12 = "sgl-kernel==0.3.21"


def beside_torch(*wheels):
    torch, *more = TORCH
    return environment("extensions", slim(torch), *more, "pillow==11.1.0", *CUDA, OLD, *wheels)


def beside_newer_torch(wheel):
    """torch 2.14.1, which is built with CUDA 13."""
    wheels = [one for name, *words in rows("fitting.txt") if name == "@2.14.1" for one in words]
    return environment("extensions", *map(slim, [*wheels, wheel]))


def start(python, module, *command):
    """Starts an import, with a clean environment; hands back its status and what it printed."""
    directory = python.parents[1] / "cache"
    variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "XDG_CACHE_HOME": str(directory)}
    code = f"import {module}; print('imported')"
    done = subprocess.run([*command, python, "-c", code], env=variables, capture_output=True, text=True)
    return done, [line for line in done.stderr.splitlines() if line.startswith("cudarun:")]


def lacking(site, module):
    """The symbols of torch's namespaces that a file imports and that no library of torch exports, by readelf."""

    def symbols(file, imported):
        listed = subprocess.run(["readelf", "-W", "--dyn-syms", file], capture_output=True, text=True, check=True)
        words = [line.split() for line in listed.stdout.splitlines()]
        words = [row for row in words if len(row) > 7 and row[0].rstrip(":").isdigit()]
        words = [row for row in words if (row[6] == "UND") == imported and not (imported and row[4] == "WEAK")]
        return {row[7].split("@")[0] for row in words}

    own = tuple(kind + name for kind in ("_ZN", "_ZNK") for name in ("3c10", "2at", "5torch", "6caffe2"))
    exported = set()
    for library in (site / "torch" / "lib").glob("*.so*"):
        exported |= symbols(library, False)
    return {name for name in symbols(module, True) - exported if name.startswith(own)}


def replaced(beside, wheel, module, words, cause):
    """A wheel that does not fit, and the one that cudarun names for it."""
    python, _ = beside(wheel)
    control, _ = start(python, module)
    done, lines = start(python, module, CUDARUN)
    case(
        f"{wheel} does not fit",
        (words in control.stderr, f"the control: {control.stderr}"),
        (words in done.stderr, "it starts as without cudarun"),
        (len(lines) == 2 and cause in lines[0], lines),
    )
    said = re.search(r"install '?([\w-]+==[\w.]+)'?$", lines[-1] if lines else "")
    if said is None:
        return case(f"the command for {wheel}", (False, lines))
    python, _ = beside(said[1])
    done, lines = start(python, module, CUDARUN)
    # The driver is not here.
    works = "imported" in done.stdout or "libcuda.so.1: cannot open" in done.stderr
    case(f"{said[1]} in its place", (works and not lines, done.stderr))


def main():
    if os.environ.get("CUDARUN_REAL_LARGE") != "1":
        print("skipped  extension modules beside torch 2.6.0: CUDARUN_REAL_LARGE is not 1")
        return
    python, _ = beside_torch(*FITTING)
    for wheel in FITTING:
        module = wheel.split("==")[0]
        (done, lines) = start(python, module, CUDARUN)
        case(f"{wheel} fits", ("imported" in done.stdout and not lines, done.stderr))
    for wheel, words in OTHERS.items():
        replaced(beside_torch, wheel, wheel.split("==")[0], words, f"{wheel.replace('==', ' ')} is built for 2.5.1")
    replaced(beside_newer_torch, OF_CUDA_12, "sgl_kernel", "libnvrtc.so.12", "libcudart.so.12")
    python, site = beside_torch(REQUIRED)
    module = site / "sgl_kernel" / "common_ops.abi3.so"
    count = len(lacking(site, module))
    done, _ = start(python, "sgl_kernel", CUDARUN, "--require", "extensions")
    case(
        f"{REQUIRED}: {count} symbols are missing, where extensions are required",
        (count > 0, "the control, by readelf: it lacks symbols"),
        (done.returncode == 125 and f"needs {count} symbols" in done.stderr, done.stderr),
    )
    done, _ = start(python, "torch", CUDARUN, "--require", "extensions")
    case(f"without {REQUIRED}", ("imported" in done.stdout and not done.stderr, done.stderr))
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
