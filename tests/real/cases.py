"""Environments of real wheels in which two cuDNN meet: tests/real/cases.py PATH-TO-cudarun

Each case runs without cudarun first, where it must go wrong, and then with it. Prints a line a case.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement
from pip._vendor.packaging.version import Version

import checks
from checks import case
from wheels import CACHE, environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

JAX_OLD, JAX_NEW = "jax-cuda12-plugin==0.4.38", "jax-cuda12-plugin==0.8.3"
CUDNN_OLD, CUDNN_NEW = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.10.2.21"
OTHERS = ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
CTRANSLATE = ["ctranslate2==4.6.1", "numpy==2.2.6", "pyyaml==6.0.2"]
CTRANSLATE_8 = ["ctranslate2==4.4.0", *CTRANSLATE[1:]]
# All that `import faster_whisper` imports.
WHISPER = ["faster-whisper==1.2.1", "av==15.1.0", "tokenizers==0.21.4", "huggingface_hub==0.36.0", "tqdm==4.67.1"]
# Without a GPU, these packages use the CPU. `--require` of a cuDNN that does not fit is refused with or without one.
REQUIRED = [CUDARUN, "--require", "cudnn>=8"]
HAS_GPU = os.path.exists("/dev/nvidiactl")
# The file is named where the program asks for it by name.
ON_THE_CPU = tuple(
    f"cudarun: no GPU is reachable, and {name} is not pinned: no cuDNN here fits" for name in ("libcudnn.so.9", "cuDNN")
)
CUDNN_OF_WHISPER = {"nvidia-cudnn-cu12==9.5.1.17": "90501", "nvidia-cudnn-cu12==9.16.0.29": "91600"}

# The files mapped at the end count: cuDNN 9 answers with the version of its graph library, whatever the
# top library is.
MAPPED = """
paths = {line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps") if "libcudnn" in line}
print("\\n".join(sorted(paths)))
"""
# The version checks open the sublibraries, and need no GPU.
CTYPES = """
import ctypes
cudnn = ctypes.CDLL("libcudnn.so.9")
for check in ["Graph", "Ops", "Cnn", "Adv"]:
    assert getattr(cudnn, f"cudnn{check}VersionCheck")() == 0
print(cudnn.cudnnGetVersion())
"""
# It may import any package that is installed, such as the plugin.
CTYPES_AND_MORE = "exec('')" + CTYPES
PLUGIN = """
from jax_cuda12_plugin import _versions
print(_versions.cudnn_get_version())
"""
TRANSLATE = """
import ctypes, ctranslate2, glob, os
shim = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libcudnn-*"))[0]
cudnn = ctypes.CDLL(shim)
for check in ["Graph", "Ops", "Cnn", "Adv"]:
    assert getattr(cudnn, f"cudnn{check}VersionCheck")() == 0
print(cudnn.cudnnGetVersion())
"""
TRANSCRIBE = "import faster_whisper" + TRANSLATE

class Got:
    """What a run of Python printed: the version it was told, and the cuDNN files that were mapped."""

    def __init__(self, run):
        self.status, self.error = run.returncode, run.stderr
        lines = run.stdout.split()
        self.version = lines[0] if lines else None
        self.files = [Path(line) for line in lines[1:]]
        self.directories = sorted({str(file.parent) for file in self.files})

    def __repr__(self):
        files = f"{len(self.files)} files from {self.directories}"
        return f"status {self.status}, cuDNN {self.version}, {files}\n{self.error}"


def start(python, code, path, *through, home=None):
    with tempfile.TemporaryDirectory() as fresh:
        env = {"PATH": os.environ["PATH"], "HOME": home or fresh, "LD_LIBRARY_PATH": ":".join(map(str, path))}
        command = [*map(str, through), str(python), "-c", code + MAPPED]
        return Got(subprocess.run(command, env=env, capture_output=True, text=True))


def explain(python, code, path):
    env = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "LD_LIBRARY_PATH": ":".join(map(str, path))}
    command = [CUDARUN, "explain", "--json", str(python), "-c", code]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    assert run.returncode in (0, 1), run.stderr
    return json.loads(run.stdout)


def candidates(explained):
    """Directory of each cuDNN to (picked, why)."""
    rows = explained.get("families") or explained["unmet"]
    cudnn = next(row for row in rows if row["family"] == "cudnn")
    return {row["directory"]: (row["picked"], row["why"]) for row in cudnn["candidates"]}


def hinted(refused, *wheels):
    """The wheels once pip has done what the hint says, and those that are new."""
    line = re.search(r"hint: .*\binstall (.*)", refused.error)
    found = []
    for name, extras, version in re.findall(r'"([\w-]+)(?:\[([\w,-]+)\])?==([^"]+)"', line[1] if line else ""):
        found += by_extras(f"{name}=={version}", extras.split(","), wheels) if extras else [f"{name}=={version}"]
    names = [wheel.split("==")[0] for wheel in found]
    return [wheel for wheel in wheels if wheel.split("==")[0] not in names] + found, found


def by_extras(wheel, extras, wheels):
    """What an extra asks for and is not met: of the versions that are unpacked here, the newest."""
    (metadata,) = unpacked(wheel).glob("*.dist-info/METADATA")
    lines = [line.removeprefix("Requires-Dist: ") for line in metadata.read_text().splitlines() if "extra ==" in line]
    found = []
    for requirement in map(Requirement, lines):
        here = [installed.split("==")[1] for installed in wheels if installed.split("==")[0] == requirement.name]
        asked = any(requirement.marker.evaluate({"extra": extra}) for extra in extras)
        if asked and not any(requirement.specifier.contains(version) for version in here):
            known = [path.name.split("==")[1] for path in (CACHE / "unpacked").glob(f"{requirement.name}==*")]
            allowed = list(requirement.specifier.filter(version for version in known if "-" not in version))
            found += [f"{requirement.name}=={max(allowed, key=Version)}"] if allowed else []
    return found


def main():
    second = unpacked(CUDNN_NEW) / "nvidia" / "cudnn" / "lib"

    # (a) The environment's own 9.1.0 serves a plugin compiled for 9.1; 9.10.2 is first on the path.
    python, site = environment("jax-0.4.38", JAX_OLD, CUDNN_OLD, *OTHERS)
    own = site / "nvidia" / "cudnn" / "lib"
    control = start(python, CTYPES, [second])
    cured = start(python, CTYPES, [second], CUDARUN)
    why = candidates(explain(python, CTYPES, [second]))
    case(
        "a: the environment's own cuDNN, with all the sublibraries that it opens",
        (control.directories == [str(second)], f"the control must take the other: {control!r}"),
        (cured.status == 0 and cured.version == "90100", cured),
        (cured.directories == [str(own)] and len(cured.files) == 5, cured),
        (why[str(own)] == (True, "it came with the program"), why),
        (why[str(second)] == (False, "fits, but did not come with the program"), why),
    )

    # (b) A plugin compiled for 9.8: 9.1.0 is too old. A program of its own takes 9.10.2 …
    python, site = environment("jax-0.8.3", JAX_NEW, CUDNN_OLD, *OTHERS)
    own = site / "nvidia" / "cudnn" / "lib"
    path = [own, second]
    control = start(python, CTYPES_AND_MORE, path)
    cured = start(python, CTYPES_AND_MORE, path, CUDARUN)
    why = candidates(explain(python, CTYPES_AND_MORE, path))
    case(
        "b: too old is refused, and the newer one taken where no DT_RPATH objects",
        (control.directories == [str(own)], f"the control must take the old one: {control!r}"),
        (cured.status == 0 and cured.version == "91002", cured),
        (cured.directories == [str(second)] and len(cured.files) == 5, cured),
        (why[str(own)] == (False, "older than 9.8, for which jax 0.8.3 was compiled"), why),
    )
    # … and so does the plugin, against its DT_RPATH, which would still load 9.1.0.
    control = start(python, PLUGIN, [second])
    cured = start(python, PLUGIN, [second], CUDARUN)
    case(
        "b: where the plugin's own DT_RPATH leads to the old one, the newer is pinned against it",
        (control.directories == sorted([str(own), str(second)]), f"the control must mix: {control!r}"),
        (cured.status == 0 and cured.version == "91002" and cured.directories == [str(second)], cured),
    )
    # Without another installation, nothing starts.
    control = start(python, PLUGIN, [])
    refused = start(python, PLUGIN, [], *REQUIRED)
    started = start(python, PLUGIN, [], CUDARUN)
    case(
        "b: where only the old one is there, it starts unchanged without a GPU",
        (HAS_GPU or started.version == "90100" and started.error.startswith(ON_THE_CPU), started),
    )
    case(
        "b: where only the old one is there, it is refused",
        (control.directories == [str(own)] and control.version == "90100", f"the control must run: {control!r}"),
        (refused.status == 125 and refused.version is None, refused),
        ("no cuDNN here fits" in refused.error and "jax 0.8.3" in refused.error, refused),
        ("older than 9.8, for which jax 0.8.3 was compiled" in refused.error, refused),
    )
    # The command of the hint repairs it.
    wheels, new = hinted(refused, JAX_NEW, CUDNN_OLD, *OTHERS)
    python, site = environment("jax-0.8.3-mended", *wheels)
    own = site / "nvidia" / "cudnn" / "lib"
    old = unpacked(CUDNN_OLD) / "nvidia" / "cudnn" / "lib"
    for path in [], [old]:
        cured = start(python, PLUGIN, path, *REQUIRED)
        case(
            f"b: after {new}, one coherent set, {'the old one' if path else 'nothing'} on the path",
            (any(wheel.startswith("nvidia-cudnn-cu12==9.") for wheel in new), refused),
            (cured.status == 0 and int(cured.version) >= 90800 and cured.directories == [str(own)], cured),
        )

    # (c) A shim packed into the package works over every whole cuDNN 9.
    python, site = environment("ctranslate2", *CTRANSLATE)
    bundled = site / "ctranslate2.libs"
    control = start(python, TRANSLATE, [])
    cured = start(python, TRANSLATE, [second], CUDARUN)
    case(
        "c: a packed shim with the sublibraries of LD_LIBRARY_PATH",
        (control.status != 0 and "Unable to load any of {libcudnn_graph.so.9.1.0" in control.error, control),
        (cured.status == 0 and cured.version == "91002" and len(cured.files) == 5, cured),
        (cured.directories == sorted([str(bundled), str(second)]), cured),
    )
    for wheel, version in CUDNN_OF_WHISPER.items():
        python, site = environment("faster-whisper", *WHISPER, *CTRANSLATE, wheel)
        own, bundled = site / "nvidia" / "cudnn" / "lib", site / "ctranslate2.libs"
        control = start(python, TRANSCRIBE, [])
        polluted = start(python, TRANSCRIBE, [second])
        for path in [], [second]:
            cured = start(python, TRANSCRIBE, path, CUDARUN)
            case(
                f"c: faster-whisper with {wheel}, {'another' if path else 'nothing'} on the path",
                (control.status != 0 and "Unable to load any of" in control.error, control),
                (str(second) in polluted.directories, f"the control must take the other: {polluted!r}"),
                (cured.status == 0 and cured.version == version and len(cured.files) == 5, cured),
                (cured.directories == sorted([str(bundled), str(own)]), cured),
            )
    # The neighbours: parts are missing, and a shim of cuDNN 8.
    (own / "libcudnn_cnn.so.9").unlink()
    refused = start(python, TRANSCRIBE, [], *REQUIRED)
    case(
        "c: an incomplete cuDNN under a packed shim is refused",
        (refused.status == 125 and refused.version is None, refused),
        ("incomplete: libcudnn_cnn missing" in refused.error, refused),
    )
    wheels, new = hinted(refused, *WHISPER, *CTRANSLATE, wheel)
    python, site = environment("faster-whisper-mended", *wheels)
    cured = start(python, TRANSCRIBE, [], *REQUIRED)
    case(f"c: after {new}, it starts", (len(new) == 1 and cured.status == 0 and len(cured.files) == 5, cured))
    # A range that the installed cuDNN does not meet.
    python, site = environment("faster-whisper", *WHISPER, *CTRANSLATE, CUDNN_OLD)
    wish = [CUDARUN, "--require", "cudnn>=9.5,<9.11"]
    refused = start(python, TRANSCRIBE, [], *wish)
    wheels, new = hinted(refused, *WHISPER, *CTRANSLATE, CUDNN_OLD)
    case("c: a range that the installed cuDNN does not meet", (refused.status == 125 and len(new) == 1, refused))
    python, site = environment("faster-whisper-mended", *wheels)
    cured = start(python, TRANSCRIBE, [], *wish)
    case(f"c: after {new}, it starts", (cured.status == 0 and 90500 <= int(cured.version) < 91100, cured))
    python, site = environment("ctranslate2-8", *CTRANSLATE_8, CUDNN_NEW)
    refused = start(python, TRANSLATE, [second], CUDARUN, "-v", *REQUIRED[1:])
    started = start(python, "import ctranslate2; print(ctranslate2.__version__)", [second], CUDARUN)
    case(
        "c: a packed shim of cuDNN 8 beside cuDNN 9 starts unchanged without a GPU",
        (HAS_GPU or started.version == "4.4.0" and started.error.startswith(ON_THE_CPU), started),
    )
    case(
        "c: a packed shim of cuDNN 8 is refused where only cuDNN 9 is",
        (refused.status == 125 and refused.version is None, refused),
        ("ctranslate2 4.4.0" in refused.error and "is libcudnn.so.9" in refused.error, refused),
    )

    # A start that is kept is the same start.
    with tempfile.TemporaryDirectory() as home:
        python, site = environment("jax-0.4.38", JAX_OLD, CUDNN_OLD, *OTHERS)
        cold = start(python, CTYPES, [second], CUDARUN, home=home)
        warm = start(python, CTYPES, [second], CUDARUN, home=home)
        case("warm: the second start maps what the first did", (cold.files == warm.files and cold.files, warm))

    print("all cases hold" if not checks.failures else f"{checks.failures} cases failed")
    return bool(checks.failures)


sys.exit(main())
