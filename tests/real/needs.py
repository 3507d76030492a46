"""What a program certainly needs, beside what it may try, and one CUDA for all of it: tests/real/needs.py PATH-TO-cudarun

torch 2.5.1 with bitsandbytes 0.48.2, which has an object for each CUDA: nvJitLink 12.1 and a CUDA 13 are in LD_LIBRARY_PATH.
What a person pins beside that is kept or refused. jax with a cuDNN that is too old, and half of a newer one on the path: the
older one as a whole is better than a mix. CTranslate2 4.8.5 of CUDA 12 in a project that requires a cuDNN: it gets one for CUDA 12.

Each case runs without cudarun first, where it must go wrong. torch is downloaded only if CUDARUN_REAL_LARGE is 1, and so is a
cuDNN that no other script downloads. Prints a line a case.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import checks
from checks import case
from stacks import CUDA, CUDARUN, GPU, NEWEST, NUMPY, OLD, TORN, slim
from wheels import environment, unpacked

IS_LARGE = os.environ.get("CUDARUN_REAL_LARGE") == "1"
TORCH = ["typing_extensions==4.12.2", "sympy==1.13.1", "mpmath==1.3.0", "networkx==3.4.2", NUMPY, "jinja2==3.1.6"]
TORCH += ["markupsafe==3.0.2", "fsspec==2025.3.0", "filelock==3.18.0", "bitsandbytes==0.48.2", "packaging==25.0", OLD]
JIT, CUDA_13 = "nvidia-nvjitlink-cu12==12.1.105", ["nvidia-cuda-runtime==13.0.96", "nvidia-nvjitlink==13.0.88"]
JAX = ["jax-cuda12-plugin==0.8.3", "nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
CTRANSLATE = ["ctranslate2==4.8.5", NUMPY, "pyyaml==6.0.2", "setuptools==80.9.0", "nvidia-cublas-cu12==12.4.5.8"]

MAPPED = """
import re
paths = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "/" in line}
print("mapped", *sorted(path for path in paths if re.search(r"/lib(cudart|cusparse|nvJitLink|cublas|cudnn)[\\w-]*\\.so", path)), sep="\\n")
"""
BOTH = ["import torch, bitsandbytes", "import bitsandbytes, torch", "import bitsandbytes"]
PLUGIN = "from jax_cuda12_plugin import _versions; print(_versions.cudnn_get_version())"
TRANSLATE = """
import ctranslate2, ctypes
cublas = ctypes.CDLL("libcublas.so.12")
cudnn = ctypes.CDLL("libcudnn.so.9")
for check in ["Graph", "Ops", "Cnn", "Adv"]:
    assert getattr(cudnn, f"cudnn{check}VersionCheck")() == 0
assert cudnn.cudnnGetCudartVersion() < 13000, cudnn.cudnnGetCudartVersion()
"""

class Got:
    """A run: its status, what it said, the directories of the files that it mapped by the beginning of their names."""

    def __init__(self, run):
        self.status, self.output, self.error = run.returncode, run.stdout, run.stderr
        self.files = [Path(line) for line in run.stdout.partition("mapped\n")[2].splitlines()]

    def places(self, stem):
        return {file.parent for file in self.files if file.name.startswith(stem)}

    def __repr__(self):
        return f"status {self.status}\n{self.output[-1500:]}\n{self.error[-2500:]}"


class Place:
    """A directory to start in, with a home of its own."""

    def __init__(self, work, settings=""):
        self.work = Path(work)
        if settings:
            (self.work / ".cudarun.toml").write_text(settings)

    def run(self, path, *words):
        (self.work / "dev").mkdir(exist_ok=True)
        env = {"PATH": os.environ["PATH"], "HOME": str(self.work), "WORK": str(self.work / "dev"), "COLUMNS": "1000"}
        env["LD_LIBRARY_PATH"] = ":".join(map(str, path))
        return Got(subprocess.run([*map(str, words)], env=env, cwd=self.work, capture_output=True, text=True))

    def start(self, python, code, path, *through):
        return self.run(path, *through, python, "-c", code + MAPPED)


def lib(wheel, part):
    return unpacked(wheel) / "nvidia" / part / "lib"


def torch(work):
    tree = slim("torch==2.5.1")
    if tree is None:
        return print("skipped  torch with bitsandbytes: CUDARUN_REAL_LARGE is not 1")
    wheels = [wheel for wheel in CUDA if "cusparselt" not in wheel]
    python, site = environment("torch-bitsandbytes", tree, *TORCH, *wheels, under=work)
    own = lambda part: {site / "nvidia" / part / "lib"}
    place = Place(work)
    jit, thirteen = lib(JIT, "nvjitlink"), work / "cuda13"
    thirteen.mkdir()
    for wheel in CUDA_13:
        for file in lib(wheel, "cu13").glob("*.so*"):
            os.link(file, thirteen / file.name)
    paths = {"nvJitLink 12.1, CUDA 13": [jit, thirteen], "CUDA 13, nvJitLink 12.1": [thirteen, jit]}
    is_whole = lambda got: all(
        got.places(stem) == own(part)
        for stem, part in [("libcudart.", "cuda_runtime"), ("libcusparse.", "cusparse"), ("libnvJitLink.", "nvjitlink")]
    )
    for names, path in paths.items():
        for code in BOTH:
            control, cured = place.start(python, code, path), place.start(python, code, path, CUDARUN)
            case(
                f"`{code}` with {names} in LD_LIBRARY_PATH",
                (control.status and "undefined symbol: __nvJitLinkComplete_12_4" in control.error, f"the control: {control!r}"),
                (cured.status == 0 and is_whole(cured) and not cured.error.startswith("cudarun"), cured),
            )
    code, path = BOTH[0], [jit, thirteen]
    proved = place.run(path, CUDARUN, "verify", "--level", "load", python, "-c", code)
    case("its set is proved, all of it", (proved.status == 0 and proved.output.startswith("proved"), proved))
    explained = json.loads(place.run(path, CUDARUN, "explain", "--json", python, "-c", code).output)
    left = {name for row in explained["unpinned"] for name in row["names"]}
    case("only names of CUDA 13 are left", (left and all(name.endswith(".so.13") for name in left), left))
    for wish in ["--pin nvjitlink=12.4", "--pin cudart=12.4", "--require nvjitlink>=12.4", f"--pin nvjitlink={own('nvjitlink').pop()}"]:
        kept = place.start(python, code, path, CUDARUN, *wish.split())
        case(f"{wish} is kept", (kept.status == 0 and is_whole(kept) and not kept.error.startswith("cudarun"), kept))
    for wish in ["--pin nvjitlink=12.1", "--require nvjitlink<12.2", "--pin nvjitlink=13.0", "--pin nvjitlink=12.9", "--pin cudart=13.0"]:
        refused = place.start(python, code, path, CUDARUN, *wish.split())
        option = wish.split()[0]
        case(
            f"{wish} is refused",
            (refused.status == 125 and not refused.files, refused),
            (re.search(f"^hint: (remove|change) {option}", refused.error, re.M), refused),
        )


def jax(work):
    python, site = environment("jax", *JAX, OLD, under=work)
    own, torn = site / "nvidia" / "cudnn" / "lib", work / "torn"
    torn.mkdir()
    for file in lib(TORN, "cudnn").glob("*.so*"):
        if not file.name.startswith("libcudnn_cnn."):
            os.link(file, torn / file.name)
    place = Place(work)
    control, cured = place.start(python, PLUGIN, [torn]), place.start(python, PLUGIN, [torn], CUDARUN)
    older = "no GPU is reachable, and cuDNN 9.1.0.70 is pinned although it is older than 9.8"
    case(
        "without a GPU, the older cuDNN as a whole is better than a mix",
        (control.status or len(control.places("libcudnn")) > 1, f"the control must mix: {control!r}"),
        (cured.status == 0 and cured.output.startswith("90100"), cured),
        (cured.places("libcudnn") == {own} and older in cured.error, cured),
    )
    refused = place.start(python, PLUGIN, [torn], *GPU, CUDARUN, "--verify", "never")
    case("with a GPU it is refused", (refused.status == 125 and "no cuDNN here fits" in refused.error, refused))
    alone = place.start(python, PLUGIN, [], CUDARUN)
    case(
        "where there is nothing to mix, it starts unchanged",
        (alone.status == 0 and alone.output.startswith("90100") and "libcudnn.so.9 is not pinned" in alone.error, alone),
    )
    proved = place.run([], CUDARUN, "verify", "--level", "load", python, "-c", PLUGIN)
    case(
        "what is left to the loader is not proved",
        (proved.status == 2 and "not proved: the program uses libraries that are not pinned" in proved.output, proved),
    )
    newer = lib("nvidia-cudnn-cu12==9.10.2.21", "cudnn")
    cured = place.start(python, PLUGIN, [torn, newer], CUDARUN)
    case(
        "a whole one that is new enough comes before both",
        (cured.status == 0 and cured.output.startswith("91002") and cured.places("libcudnn") == {newer}, cured),
        (not cured.error, cured),
    )


def ctranslate2(work):
    ranges = {">=9.5,<9.11": OLD} | ({">=9.1,<9.20": NEWEST} if IS_LARGE else {})
    for range, installed in ranges.items():
        place = Place(tempfile.mkdtemp(dir=work), f'[requires]\ncudnn = "{range}"\n')
        python, site = environment("ctranslate2", *CTRANSLATE, installed, under=work)
        control, refused = place.start(python, TRANSLATE, []), place.start(python, TRANSLATE, [], CUDARUN)
        hint = re.search(r'^hint: .*\binstall "([\w-]+==[\d.]+)"$', refused.error, re.M)
        case(
            f"cuDNN {range} where {installed} is installed: refused, with a hint for CUDA 12",
            (control.status, f"the control must fail: {control!r}"),
            (refused.status == 125 and hint and hint[1].startswith("nvidia-cudnn-cu12=="), refused),
        )
        offered = place.run([], CUDARUN, "fetch", "--dry-run", "--json", python, "-c", TRANSLATE)
        names = [row["distribution"] for row in json.loads(offered.output)["wheels"]]
        is_offered = "nvidia-cudnn-cu12" in names and all(name.endswith("-cu12") for name in names)
        case("`fetch` offers CUDA 12 as well", (is_offered, offered))
        if not hint:
            continue
        python, site = environment("ctranslate2-mended", *CTRANSLATE, hint[1], under=work)
        started = place.start(python, TRANSLATE, [], CUDARUN)
        own = {site / "nvidia" / part / "lib" for part in ("cudnn", "cublas")}
        case(
            f"after {hint[1]} it starts",
            (started.status == 0 and started.places("libcudnn") | started.places("libcublas") == own, started),
        )
    place = Place(tempfile.mkdtemp(dir=work), '[requires]\ncudnn = ">=9.1,<9.20"\n')
    python, site = environment("ctranslate2", *CTRANSLATE, OLD, under=work)
    started = place.start(python, TRANSLATE, [], CUDARUN)
    case("a cuDNN within the range is taken", (started.status == 0 and len(started.places("libcudnn")) == 1, started))


def main():
    for of_framework in (torch, jax, ctranslate2):
        with tempfile.TemporaryDirectory(prefix="cudarun-needs-") as work:
            of_framework(Path(work))
    print("all cases hold" if not checks.failures else f"{checks.failures} cases failed")
    return bool(checks.failures)


if __name__ == "__main__":
    sys.exit(main())
