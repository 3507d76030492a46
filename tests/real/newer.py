"""Libraries that are newer than the environment's own, where a package needs one: tests/real/newer.py PATH-TO-cudarun

pip installs one copy of a library, and one package's exact pin excludes the newer version that another package needs. Each case
is an environment of NVIDIA's real wheels, with stand-ins for the packages. It fails as it is. cudarun takes a newer library from
elsewhere, and no file of the environment changes:

- cuDF 26.2 links code that CUDA 12.9 compiled, and torch pins nvJitLink 12.8 (rapidsai/deployment#729): real code and the real
  linker, which need no GPU. On a machine that seems to have a GPU, cudarun says so; `--fetch` gets the newer one.
- A package like Transformer Engine asks in its METADATA for a newer cuDNN than torch pins (radixark/miles#1836).
- A person asks for a newer cuDNN than torch pins (NVIDIA-NeMo/RL#1819).
- torch imports a function of NCCL that the copy of another package does not have (pytorch/pytorch#119072).
"""

import hashlib
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import checks
from checks import case
from stacks import GPU, NEWEST
from stacks import NEW as PINNED
from wheels import environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
COMPILER, LINKER = "nvidia-cuda-nvrtc-cu12==12.9.86", "nvidia-nvjitlink-cu12==12.8.93"
NCCL, OLD_NCCL = "nvidia-nccl-cu12==2.21.5", "nvidia-nccl-cu12==2.18.1"

COMPILE = """
import ctypes, sys
nvrtc, program, size = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_size_t()
source = b'extern "C" __global__ void twice(float *x) { x[0] *= 2; }'
assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, b"twice.cu", 0, None, None) == 0
assert nvrtc.nvrtcCompileProgram(program, 2, (ctypes.c_char_p * 2)(b"-arch=sm_80", b"-dlto")) == 0
assert nvrtc.nvrtcGetLTOIRSize(program, ctypes.byref(size)) == 0
code = ctypes.create_string_buffer(size.value)
assert nvrtc.nvrtcGetLTOIR(program, code) == 0
open(sys.argv[2], "wb").write(code.raw)
"""
# The names that the headers of 12.8 give these functions, so that it is the code that is too new.
LINK = """
import ctypes, os
here, handle = os.path.dirname(__file__), ctypes.c_void_p()
# By its path, as cuda.pathfinder opens it.
linker = ctypes.CDLL(os.path.join(here, "..", "nvidia", "nvjitlink", "lib", "libnvJitLink.so.12"))
code = open(os.path.join(here, "twice.ltoir"), "rb").read()
call = lambda name: getattr(linker, f"__nvJitLink{name}_12_8")
assert call("Create")(ctypes.byref(handle), 2, (ctypes.c_char_p * 2)(b"-arch=sm_80", b"-lto")) == 0
OF_LTO = 3
failed = call("AddData")(handle, OF_LTO, code, ctypes.c_size_t(len(code)), b"twice") or call("Complete")(handle)
if failed:
    raise RuntimeError(f"nvJitLink: {failed}")
"""
VERSION = "unsigned long cudnnGetVersion(void); unsigned long version(void) { return cudnnGetVersion(); }"
GATE = """
import ctypes, os
version = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "core.so")).version()
if version < NEEDED:
    raise RuntimeError(f"cuDNN {version} is too old")
"""
REGISTER = "int ncclCommRegister(void *); int call(void) { return ncclCommRegister(0); }"
OPEN = """
import ctypes, os
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "core.so"))
"""


class Machine:
    """Environments, a store and a cache below one directory."""

    def __init__(self, work):
        self.work = work

    def package(self, module, distribution, version, code, *required):
        """A package of one module, as pip would lay it out."""
        root = self.work / f"{distribution}-{version}"
        (root / module).mkdir(parents=True)
        (root / module / "__init__.py").write_text(code)
        metadata = root / f"{distribution.replace('-', '_')}-{version}.dist-info"
        metadata.mkdir()
        lines = ["Metadata-Version: 2.1", f"Name: {distribution}", f"Version: {version}"]
        lines += [f"Requires-Dist: {requirement}" for requirement in required]
        (metadata / "METADATA").write_text("\n".join(lines) + "\n")
        (metadata / "RECORD").write_text(f"{module}/__init__.py,,\n")
        return root

    def start(self, *words):
        variables = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "WORK": str(self.work / "dev")}
        for name in ("CACHE", "DATA"):
            variables[f"XDG_{name}_HOME"] = str(self.work / name.lower())
        variables |= {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}
        words = [str(word) for word in words]
        return subprocess.run(words, env=variables, cwd=self.work, capture_output=True, text=True, timeout=600)


def library(root, module, code, real):
    """The module's core.so, linked against a real library. It finds the one of the environment by its path, as torch does."""
    source, here = root / "core.c", root / module / "core.so"
    source.write_text(code)
    places = f"-Wl,-z,now,-rpath,$ORIGIN/../nvidia/{real.parts[-3]}/lib"
    subprocess.run(["cc", "-shared", "-fPIC", places, "-o", here, source, real], check=True)
    source.unlink()


def state(site):
    """Every file of an environment, and what pip recorded of it. Compiled Python is not pip's."""
    files = sorted(path for path in site.rglob("*") if path.is_file() and path.suffix != ".pyc")
    text = [f"{path} {path.stat().st_size} {path.stat().st_mtime_ns} {path.stat().st_ino}" for path in files]
    records = [path.read_text() for path in files if path.name == "RECORD"]
    return hashlib.sha256("\n".join(text + records).encode()).hexdigest()


def check(machine, name, wheels, module, options, words):
    """Fails as it is with `words`, and starts with these options."""
    python, site = environment(module, *wheels, under=machine.work / "environments")
    before = state(site)
    command = [python, "-B", "-c", f"import {module}; print('works')"]
    control = machine.start(*command)
    done = machine.start(CUDARUN, *options, *command)
    case(
        name,
        (control.returncode == 1 and words in control.stderr, f"the control: {control.stderr}"),
        (done.returncode == 0 and done.stdout == "works\n", f"with cudarun: {done.stdout}{done.stderr}"),
        (state(site) == before, "a file of the environment changed"),
    )
    return command


def lib(wheel, directory):
    return unpacked(wheel) / "nvidia" / directory / "lib"


def linked_code(machine):
    torch = machine.package("torch", "torch", "2.9.1", "", "nvidia-nvjitlink-cu12==12.8.93")
    cudf = machine.package("libcudf", "libcudf-cu12", "26.2.1", LINK)
    compiler = lib(COMPILER, "cuda_nvrtc") / "libnvrtc.so.12"
    subprocess.run([sys.executable, "-c", COMPILE, compiler, cudf / "libcudf" / "twice.ltoir"], check=True)
    wheels = [torch, cudf, LINKER, COMPILER]
    python, _ = environment("libcudf", *wheels, under=machine.work / "environments")
    command = [python, "-B", "-c", "import libcudf; print('works')"]
    (machine.work / "dev").mkdir()
    said = machine.start(*GPU, CUDARUN, "--verify", "never", *command)
    lines = [line for line in said.stderr.splitlines() if line.startswith("cudarun: ")]
    case(
        "cuDF and nvJitLink: what is said",
        (len(lines) == 2 and "nvJitLink 12.8.93 is older than 12.9, which cudf 26.2.1 asks for" in lines[0], said.stderr),
        (len(lines) == 2 and ": cudarun --fetch " in lines[1], said.stderr),
        ("RuntimeError: nvJitLink" in said.stderr, f"it starts as without cudarun: {said.stderr}"),
    )
    options = ["--fetch", "--yes"]
    command = check(machine, "cuDF and nvJitLink", wheels, "libcudf", options, "RuntimeError: nvJitLink")
    again = machine.start("unshare", "--map-root-user", "--net", CUDARUN, *command)
    case("cuDF and nvJitLink: again, without network", (again.stdout == "works\n" and not again.stderr, again.stderr))


def newer_cudnn(machine, name, module, required, needed, options):
    torch = machine.package("torch", "torch", f"2.9.{needed}", "", PINNED)
    package = machine.package(module, module, "2.17.0", GATE.replace("NEEDED", str(needed)), *required)
    library(package, module, VERSION, lib(PINNED, "cudnn") / "libcudnn.so.9")
    options = [*options, "--also", lib(NEWEST, "cudnn")]
    check(machine, name, [torch, package, PINNED], module, options, "is too old")


def main():
    with tempfile.TemporaryDirectory(prefix="cudarun-newer-") as directory:
        machine = Machine(Path(directory))
        linked_code(machine)
        newer_cudnn(machine, "Transformer Engine and cuDNN", "engine", ["nvidia-cudnn-cu12>=9.22,<10"], 92200, [])
        newer_cudnn(machine, "a person and cuDNN", "attention", [], 91400, ["--require", "cudnn>=9.14"])
        torch = machine.package("collective", "collective", "2.2.0", OPEN)
        library(torch, "collective", REGISTER, lib(NCCL, "nccl") / "libnccl.so.2")
        options = ["--also", lib(NCCL, "nccl")]
        check(machine, "torch and NCCL", [torch, OLD_NCCL], "collective", options, "undefined symbol: ncclCommRegister")
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
