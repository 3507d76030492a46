"""Frameworks together, as users install them, and foreign libraries on the path: tests/real/stacks.py PATH-TO-cudarun [STACK…]

Each stack is an environment of real wheels with a program that imports them and calls cuDNN, cuBLAS and the like as far
as they work without a GPU. It starts with a clean environment, and with an older, a newer and an incomplete set and one
of cuDNN 8 (or CUDA 11) in LD_LIBRARY_PATH: without cudarun, with it, and with it on a machine that seems to have a GPU. Each
process prints the NVIDIA files in its own /proc/self/maps.

With cudarun each process must map whole sets, those that `cudarun explain` picks, or cudarun must refuse or announce it.
No process may fail that works without cudarun, and no start may be refused that is whole without it. Without a GPU,
nothing is refused.

Prints a line a cell. Wheels of more than 100 MB are downloaded only if CUDARUN_REAL_LARGE is 1, and kept without their GPU
code, which nothing here runs. Without them, a line names the skipped stack.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import CACHE, download, environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

CUDA = ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-nvrtc-cu12==12.4.127"]
CUDA += ["nvidia-cuda-cupti-cu12==12.4.127", "nvidia-cufft-cu12==11.2.1.3", "nvidia-curand-cu12==10.3.5.147"]
CUDA += ["nvidia-cusolver-cu12==11.6.1.9", "nvidia-cusparse-cu12==12.3.1.170", "nvidia-nvjitlink-cu12==12.4.127"]
CUDA += ["nvidia-nccl-cu12==2.21.5", "nvidia-nvtx-cu12==12.4.127", "nvidia-cusparselt-cu12==0.6.2"]
OLD, NEW, NEWEST = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu12==9.22.0.52"
MIDDLE, TORN, EIGHT = "nvidia-cudnn-cu12==9.5.1.17", "nvidia-cudnn-cu12==9.16.0.29", "nvidia-cudnn-cu12==8.9.7.29"

NUMPY = "numpy==2.2.6"
TORCH = ["torch==2.6.0", "typing_extensions==4.12.2", "sympy==1.13.1", "mpmath==1.3.0", "networkx==3.4.2", NUMPY]
TORCH += ["jinja2==3.1.6", "markupsafe==3.0.2", "fsspec==2025.3.0", "filelock==3.18.0"]
TENSORFLOW = ["tensorflow==2.19.1", "absl-py==2.2.2", "astunparse==1.6.3", "flatbuffers==25.2.10", "gast==0.6.0"]
TENSORFLOW += ["google-pasta==0.2.0", "packaging==25.0", "protobuf==5.29.5", "six==1.17.0", "termcolor==3.1.0"]
TENSORFLOW += ["requests==2.32.3", "urllib3==2.5.0", "idna==3.10", "certifi==2025.8.3", "charset-normalizer==3.4.3"]
TENSORFLOW += ["keras==3.11.3", "rich==14.1.0", "namex==0.1.0", "h5py==3.14.0", "optree==0.17.0", "grpcio==1.74.0"]
TENSORFLOW += ["pygments==2.19.2", "markdown-it-py==4.0.0", "mdurl==0.1.2", "setuptools==80.9.0", "tensorboard==2.19.0"]
TENSORFLOW += ["wrapt==1.17.2", "typing_extensions==4.12.2", "opt-einsum==3.4.0", "ml-dtypes==0.5.3", NUMPY]
JAX = ["jax==0.8.3", "jaxlib==0.8.3", "jax-cuda12-pjrt==0.8.3", "jax-cuda12-plugin==0.8.3", "scipy==1.15.3"]
JAX += ["ml-dtypes==0.5.3", "opt-einsum==3.4.0", NUMPY]
WHISPER = ["faster-whisper==1.2.1", "ctranslate2==4.6.1", "av==15.1.0", "tokenizers==0.21.4", "pyyaml==6.0.2"]
WHISPER += ["huggingface_hub==0.36.0", "tqdm==4.67.1"]
ONNX = ["onnxruntime-gpu==1.20.2", "flatbuffers==25.2.10", "packaging==25.0", NUMPY]
CUPY = ["cupy-cuda12x==13.6.0", "fastrlock==0.8.3", NUMPY]
NUMBA = ["numba==0.61.2", "llvmlite==0.44.0", NUMPY]
NUMBA_CUDA = ["numba-cuda==0.20.0", "cuda-pathfinder==1.9.0"]
NVVM = "nvidia-cuda-nvcc-cu12==12.9.86"
# It is compiled for the older NumPy.
FAISS = ["faiss-gpu-cu12==1.10.0", "packaging==25.0", "numpy==1.26.4"]
PYINSTALLER = ["pyinstaller==6.14.2", "pyinstaller-hooks-contrib==2025.5", "altgraph==0.17.4", "setuptools==80.9.0"]
PYINSTALLER += ["packaging==25.0"]
LARGE = {"torch==2.6.0", "tensorflow==2.19.1", "onnxruntime-gpu==1.20.2"}

# A shim is opened once more by the path at which it is mapped, so that nothing new is asked of the loader.
REPORT = r"""
import ctypes, os, re, subprocess, sys
OF_NVIDIA = re.compile(r"lib(cudart|cudnn|cublas|cufft|cusparse|cusolver|curand|cupti|nccl|nvrtc|nvJitLink|nvvm|nvToolsExt)")
def report(label=os.path.splitext(os.path.basename(__file__))[0]):
    paths = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "/" in line}
    found = sorted(path for path in paths if OF_NVIDIA.match(os.path.basename(path)))
    print("process", label, *found, sep="\t", flush=True)
    return found
def step(name, work):
    try:
        print("step", name, "ok", work(), sep="\t", flush=True)
    except BaseException as error:
        print("step", name, "failed", " ".join(repr(error).split())[:300], sep="\t", flush=True)
def cudnn():
    answers = []
    for path in report():
        if re.match(r"libcudnn(-\w+)?\.so", os.path.basename(path)):
            library = ctypes.CDLL(path)
            for part in "Graph Ops Cnn Adv OpsInfer OpsTrain CnnInfer CnnTrain AdvInfer AdvTrain".split():
                check = getattr(library, f"cudnn{part}VersionCheck", None)
                if check and check():
                    raise RuntimeError(f"{path}: {part}")
            answers.append(library.cudnnGetVersion())
    return answers
def finish():
    step("cudnn", cudnn)
    report()
"""
OF_TORCH = """
import torch
step("torch", torch.backends.cudnn.version)
"""
OF_TENSORFLOW = """
import tensorflow
def stub():
    (path,) = [line[line.index("/"):].strip() for line in open("/proc/self/maps") if "libtensorflow_framework" in line][:1]
    return ctypes.CDLL(path).cudnnGetVersion()
step("tensorflow", stub)
"""
OF_JAX = """
import jax
from jax_plugins import xla_cuda12
try:
    xla_cuda12.initialize()
except RuntimeError:
    pass
step("jax", xla_cuda12.cuda_versions.cudnn_get_version)
"""
OF_WHISPER = """
import faster_whisper, ctranslate2, glob
(shim,) = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libcudnn-*"))
step("ctranslate2", ctypes.CDLL(shim).cudnnGetVersion)
"""
# A model of one Identity: IR version 8, opset 17, a float of shape 1 in and out.
OF_ONNX = r"""
import onnxruntime
onnxruntime.set_default_logger_severity(4)
value = lambda name: b"\n\x01" + name + b"\x12\n\n\x08\x08\x01\x12\x04\n\x02\x08\x01"
node = b"\n\x01x\x12\x01y\x22\x08Identity"
inner = b"\n" + bytes([len(node)]) + node + b"\x12\x01g"
for tag, name in (b"\x5a", b"x"), (b"\x62", b"y"):
    inner += tag + bytes([len(value(name))]) + value(name)
model = b"\x08\x08:" + bytes([len(inner)]) + inner + b"B\x04\n\x00\x10\x11"
providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]
def run():
    import numpy
    session = onnxruntime.InferenceSession(model, providers=providers)
    return session.run(None, {"x": numpy.ones(1, "float32")})
step("onnxruntime", run)
"""
OF_CUPY = """
import cupy, importlib
for name in ["cublas", "curand", "cusolver", "cusparse", "nvrtc"]:
    step(name, lambda: importlib.import_module("cupy_backends.cuda.libs." + name) and None)
from cupy_backends.cuda.libs import nvrtc
step("version", nvrtc.getVersion)
"""
OF_NUMBA = """
os.environ["NUMBA_CUDA_USE_NVIDIA_BINDING"] = "0"
import numba
from numba import cuda
from numba.cuda.cudadrv import libs
from numba.cuda.cudadrv.nvvm import NVVM
step("nvvm", lambda: NVVM().get_version())
def cudart():
    version = ctypes.c_int()
    assert not libs.open_cudalib("cudart").cudaRuntimeGetVersion(ctypes.byref(version))
    return version.value
step("cudart", cudart)
"""
OF_FAISS = """
import faiss
step("faiss", lambda: faiss.IndexFlatL2(4).d)
"""
PACKED = """
cudnn_9 = ctypes.CDLL("libcudnn.so.9")
step("version", cudnn_9.cudnnGetVersion)
"""
START = "\nsubprocess.check_call({command!r})\n"

# A machine with a GPU, as far as files tell.
PRETEND = r"""
mount -t tmpfs -o mode=755 none /sys/module && mkdir /sys/module/nvidia && echo 580.95.05 >/sys/module/nvidia/version
mount -t tmpfs -o mode=755 none /proc/driver && mkdir -p /proc/driver/nvidia/gpus/0000:00:00.0
printf 'Model: \t Stand-in\nBus Location: \t 0000:00:00.0\nDevice Minor: \t 0\n' >/proc/driver/nvidia/gpus/0000:00:00.0/information
mount -t tmpfs -o mode=755 none "$WORK"
for node in null zero full random urandom; do : >"$WORK/$node"; mount --bind "/dev/$node" "$WORK/$node"; done
ln -s /proc/self/fd "$WORK/fd" && : >"$WORK/nvidia0" && : >"$WORK/nvidiactl"
mount --rbind "$WORK" /dev
exec "$@"
"""
FAMILY = re.compile(r"lib(cublas|nvrtc|cudnn|cufft|cusolver|cusparseLt|cusparse|nccl|[A-Za-z]+).*?\.so(?:\.(\d+))?")


def slim(wheel):
    """The wheel without headers, and with holes in place of GPU code and names for debuggers. None if it may not be fetched."""
    final = CACHE / "slim" / wheel
    if final.is_dir():
        return final
    if os.environ.get("CUDARUN_REAL_LARGE") != "1":
        return None
    final.parent.mkdir(parents=True, exist_ok=True)
    print(f"downloading {wheel}", flush=True)

    def unpack(archive, partial):
        for name in archive.namelist():
            if not re.match(r"\w+/(include|test)/", name):
                file = archive.extract(name, partial / "files")
                os.chmod(file, 0o755)
                if ".so" in name and os.path.getsize(file) > 8 << 20:
                    punch(file)
        os.rename(partial / "files", final)

    download(wheel, unpack, unless=final)
    return final


def punch(file):
    lines = subprocess.run(["readelf", "-SW", file], capture_output=True, text=True, check=True).stdout.splitlines()
    for words in (line.replace("[", " ").split() for line in lines):
        if len(words) > 6 and words[1] in (".nv_fatbin", "__nv_relfatbin", ".symtab", ".strtab"):
            offset, size = (str(int(word, 16)) for word in words[4:6])
            subprocess.run(["fallocate", "--punch-hole", "-o", offset, "-l", size, file], check=True)


class Process:
    """The files of one process by family and major, as (directory, name)."""

    def __init__(self, paths):
        self.paths = paths
        self.groups = {}
        for path in paths:
            family, major = FAMILY.match(os.path.basename(path)).groups()
            self.groups.setdefault((family, major), set()).add(path)

    def mixed(self):
        """The families whose files are of more than one place, except for cuDNN 9 shims over parts that fit them."""
        found = []
        for (family, major), paths in self.groups.items():
            shims = {path for path in paths if re.match(r"libcudnn(-\w+)?\.so\.9", os.path.basename(path))}
            bundled = {path for path in shims if ".libs/" in path}
            parts = {os.path.dirname(path) for path in paths - shims}
            tops = {os.path.dirname(path) for path in shims - bundled}
            if len(parts) > 1 or len(tops) > 1 or (parts and tops and parts != tops):
                found.append(f"{family} {major}")
        return found


class Got:
    """One start: its status, its steps, its processes."""

    def __init__(self, run):
        self.status, self.error = run.returncode, run.stderr
        rows = [line.split("\t") for line in run.stdout.splitlines()]
        # The last report of a process is the whole one.
        self.processes = {row[1]: Process(row[2:]) for row in rows if row[0] == "process"}
        self.steps = {row[1]: (row[2] == "ok", row[3]) for row in rows if row[0] == "step"}
        self.said = [line for line in self.error.splitlines() if line.startswith(("cudarun: ", "error: ", "warning: "))]

    def mixed(self):
        return {label: process.mixed() for label, process in self.processes.items() if process.mixed()}

    def works(self):
        return self.status == 0 and all(ok for ok, _ in self.steps.values())

    def __repr__(self):
        files = [f"{label}: {path}" for label, process in self.processes.items() for path in process.paths]
        return "\n".join([f"status {self.status}", str(self.steps), *files, self.error[-1500:]])


class Stack:
    def __init__(self, name, command, site, foreign="cudnn"):
        self.name, self.command, self.site, self.foreign = name, command, site, foreign


class Machine:
    """A temporary directory with the environments and the foreign directories."""

    def __init__(self, work):
        self.work = work
        lib = lambda wheel, part="cudnn": unpacked(wheel) / "nvidia" / part / "lib"
        torn = {"cudnn": self.without(lib(TORN), "libcudnn_cnn.so.9")}
        torn["nvrtc"] = self.without(lib("nvidia-cuda-nvrtc-cu12==12.1.105", "cuda_nvrtc"), "libnvrtc-builtins.so.12.1")
        older = [("nvidia-cuda-runtime-cu12==12.1.105", "cuda_runtime"), ("nvidia-nvjitlink-cu12==12.1.105", "nvjitlink")]
        older += [("nvidia-cuda-nvrtc-cu12==12.1.105", "cuda_nvrtc")]
        newer = [("nvidia-cuda-runtime-cu12==12.9.79", "cuda_runtime"), ("nvidia-nvjitlink-cu12==12.9.86", "nvjitlink")]
        eleven = [("nvidia-cuda-runtime-cu11==11.8.89", "cuda_runtime"), ("nvidia-cuda-nvrtc-cu11==11.8.89", "cuda_nvrtc")]
        self.paths = {
            "cudnn": {
                "clean": [], "older": [lib(OLD)], "newer": [lib(NEWEST)], "partial": [torn["cudnn"]], "eight": [lib(EIGHT)],
            },
            "cuda": {
                "clean": [], "older": [lib(*row) for row in older], "newer": [lib(*row) for row in newer],
                "partial": [torn["nvrtc"]], "eight": [lib(EIGHT), *(lib(*row) for row in eleven)],
            },
        }

    def without(self, whole, name):
        made = self.work / f"without-{name}"
        made.mkdir()
        for file in whole.iterdir():
            if file.name != name and ".so" in file.name:
                os.link(file, made / file.name)
        return made

    def environment(self, name, wheels):
        trees = [slim(wheel) if wheel in LARGE else wheel for wheel in dict.fromkeys(wheels)]
        return None if None in trees else environment(name, *trees, under=self.work)

    def script(self, name, code):
        # No module has such a name.
        script = self.work / f"use-{name.replace(' ', '-')}.py"
        script.write_text(REPORT + code)
        return script

    def stack(self, name, wheels, code, **more):
        made = self.environment(name, wheels)
        if made is None:
            return print(f"skipped  {name}: CUDARUN_REAL_LARGE is not 1")
        python, site = made
        return Stack(name, [python, self.script(name, code + "\nfinish()\n")], site, **more)

    def family(self, parent, child):
        """One stack starts the other, which is of another environment."""
        if not parent or not child:
            return None
        words = [str(word) for word in child.command]
        code = parent.command[1].read_text() + START.format(command=words)
        name = f"{parent.name} starts {child.name}"
        script = self.work / f"use-{name.replace(' ', '-')}.py"
        script.write_text(code)
        return Stack(name, [parent.command[0], script], parent.site)

    def packed(self):
        """A program that PyInstaller packs together with a cuDNN."""
        python, site = self.environment("pyinstaller", [*PYINSTALLER, NEW])
        script, own = self.script("packed", PACKED + "\nfinish()\n"), site / "nvidia" / "cudnn" / "lib"
        command = [python, "-m", "PyInstaller", "--onedir", "--log-level", "ERROR", "--distpath", self.work / "dist"]
        command += ["--workpath", self.work / "build", "--specpath", self.work, "--exclude-module", "nvidia"]
        # Links in place of the copies that PyInstaller makes: 1 GB.
        done = subprocess.run([*map(str, command), str(script)], capture_output=True, text=True)
        if done.returncode:
            sys.exit(f"PyInstaller: {done.stderr}")
        inner = self.work / "dist" / "use-packed" / "_internal" / "nvidia" / "cudnn" / "lib"
        inner.mkdir(parents=True)
        for file in own.glob("*.so*"):
            os.link(file, inner / file.name)
            (inner.parents[2] / file.name).symlink_to(f"nvidia/cudnn/lib/{file.name}")
        return Stack("a directory of PyInstaller", [self.work / "dist" / "use-packed" / "use-packed"], site)

    def start(self, stack, path, *through):
        with tempfile.TemporaryDirectory(dir=self.work) as home:
            work = Path(home) / "dev"
            work.mkdir()
            env = {"PATH": os.environ["PATH"], "HOME": home, "WORK": str(work), "TF_CPP_MIN_LOG_LEVEL": "2"}
            if path:
                env["LD_LIBRARY_PATH"] = ":".join(map(str, path))
            words = [str(word) for word in (*through, *stack.command)]
            return subprocess.run(words, env=env, capture_output=True, text=True, cwd=self.work, timeout=120)


GPU = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", PRETEND, "sh"]


def planned(explained):
    """By the file's name without its version, the picked files as (device, inode)."""
    picked = {}
    for family in explained.get("families") or []:
        for file in (family["picked"] or {}).get("files", []):
            picked.setdefault(file["soname"], set()).add((file["device"], file["inode"]))
    return picked


def outside(got, explained, label):
    """Mapped files whose SONAME is picked, of another installation; ctranslate2's shim has a SONAME of its own."""
    picked, found = planned(explained), []
    for path in got.processes[label].paths if label in got.processes else []:
        status, name = os.stat(path), os.path.basename(path)
        soname = next((soname for soname in picked if name == soname or name.startswith(soname + ".")), None)
        if soname and (status.st_dev, status.st_ino) not in picked[soname]:
            found.append(path)
    return found


def judge(bare, got, explained, label, option):
    """What a start is: wrong in capitals, or right."""
    whole = bare.works() and not bare.mixed()
    if got.status == 125 and "error: " in got.error:
        reason = next(line for line in got.error.splitlines() if line.startswith("error: "))
        # A program that maps no NVIDIA library works on the CPU, in silence where there is a GPU.
        uses_gpu = any(process.paths for process in bare.processes.values())
        if option == "default" or (whole and uses_gpu and option == "gpu"):
            return f"FALSE REFUSAL: {reason}"
        return f"refused: {reason}"
    if bare.status == 0 and got.status != 0:
        return f"WORSE: status {got.status}"
    worse = [name for name, (ok, _) in bare.steps.items() if ok and not got.steps.get(name, (False,))[0]]
    if worse:
        return f"WORSE: {', '.join(worse)}"
    said = f"announced: {got.said[0]}" if got.said else None
    if got.mixed():
        # docs/modes.md: in a child of another environment, LD_LIBRARY_PATH does what it does without cudarun.
        if label not in got.mixed() and (bare.status or got.mixed().items() <= bare.mixed().items()):
            return f"the child as without: {got.mixed()}"
        new = [row for row in got.mixed().items() if row not in bare.mixed().items()]
        return f"WORSE: mixed {got.mixed()}" if new else said or f"SILENT MIX: {got.mixed()}"
    strange = outside(got, explained, label)
    if strange:
        return said or f"NOT AS PLANNED: {strange}"
    if not got.works():
        failed = [name for name, (ok, _) in got.steps.items() if not ok]
        why = failed or f"{got.status} {got.error.strip().splitlines()[-1:]}"
        return f"as without, fails: {why}" + (f" ({said})" if said else "")
    return said or "whole"


def cell(machine, stack, kind, path):
    bare = Got(machine.start(stack, path))
    run = machine.start(stack, path, CUDARUN, "explain", "--json")
    explained = json.loads(run.stdout)
    label = Path(stack.command[-1]).stem
    options = {"default": [CUDARUN]}
    # This onnxruntime crashes once it finds its libraries and CUDA then finds no GPU.
    if not stack.name.startswith("onnxruntime"):
        options["gpu"] = [*GPU, CUDARUN, "--verify", "never"]
    if stack.name in MODES:
        options |= {mode: [CUDARUN, "--pin-mode", mode] for mode in ("view", "audit")}
    found = []
    mixed = f"mixed {sorted(sum(bare.mixed().values(), []))}" if bare.mixed() else "whole" if bare.works() else "fails"
    for option, through in options.items():
        got = Got(machine.start(stack, path, *through))
        answer = judge(bare, got, explained if option != "gpu" else {}, label, option)
        found.append((option, answer, got))
    return stack, kind, mixed, explained.get("mode"), bare, found


MODES = ["torch with faster-whisper", "cupy", "numba-cuda"]


def stacks(machine):
    yield machine.stack("torch with faster-whisper", [*TORCH, *WHISPER, *CUDA, MIDDLE], OF_TORCH + OF_WHISPER)
    three = [*TORCH, *TENSORFLOW, *JAX, *CUDA, NEW]
    yield machine.stack("torch, tensorflow and jax", three, OF_TORCH + OF_TENSORFLOW + OF_JAX)
    torch = machine.stack("torch", [*TORCH, *CUDA, MIDDLE], OF_TORCH)
    tensorflow = machine.stack("tensorflow", [*TENSORFLOW, *CUDA, NEW], OF_TENSORFLOW)
    yield machine.family(torch, tensorflow)
    yield machine.family(tensorflow, torch)
    yield machine.stack("onnxruntime alone", ONNX, OF_ONNX)
    yield machine.stack("onnxruntime with wheels", [*ONNX, *CUDA, NEW], OF_ONNX)
    yield machine.stack("cupy", [*CUPY, *CUDA, EIGHT], OF_CUPY, foreign="cuda")
    yield machine.stack("numba", [*NUMBA, *CUDA, NVVM], OF_NUMBA, foreign="cuda")
    yield machine.stack("numba-cuda", [*NUMBA, *NUMBA_CUDA, *CUDA, NVVM], OF_NUMBA, foreign="cuda")
    yield machine.stack("faiss", [*FAISS, *CUDA], OF_FAISS, foreign="cuda")
    yield machine.packed()


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    named, failures, mixed = sys.argv[2:], 0, 0
    with tempfile.TemporaryDirectory(dir=CACHE) as work, concurrent.futures.ThreadPoolExecutor(2) as pool:
        machine = Machine(Path(work).resolve())
        wanted = [stack for stack in stacks(machine) if stack and (not named or stack.name in named)]
        cells = [(stack, *row) for stack in wanted for row in machine.paths[stack.foreign].items()]
        for stack, kind, without, mode, bare, found in pool.map(lambda row: cell(machine, *row), cells):
            is_wrong = any(answer[0].isupper() for _, answer, _ in found)
            failures += is_wrong
            mixed += without.startswith("mixed")
            answers = "; ".join(f"{option} {answer}" for option, answer, _ in found)
            print(f"{'FAIL' if is_wrong else 'ok'}  {stack.name}, {kind}: without {without}; mode {mode}; {answers}", flush=True)
            if is_wrong or "--show" in sys.argv or os.environ.get("SHOW"):
                print(f"      without: {bare!r}".replace("\n", "\n      "))
                for option, answer, got in found:
                    if answer[0].isupper() or os.environ.get("SHOW"):
                        print(f"      {option}: {got!r}".replace("\n", "\n      "))
    return failures


if __name__ == "__main__":
    sys.exit(main() > 0)
