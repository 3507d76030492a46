"""Builds with real toolkits, and `cudarun --build`: tests/real/build.py PATH-TO-cudarun [CASE…]

Each case first runs as it is, and must fail as people report it, or make something else than was asked for. With `cudarun
--build` the same command must compile and link; what it makes is started or loaded, and neither its RUNPATH nor a text in it
may name a directory of cudarun's. A second build must not look for toolkits again. The refusals have a neighbour that starts.

Toolkits of wheels are always there (300 MB); those of Debian's packages and torch only if they are in the cache, or if
CUDARUN_REAL_LARGE is 1. Needs cmake, ninja, g++ and g++-11.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import toolkits
from stacks import CUDA, TORCH, slim
from wheels import CACHE, download, environment

CUDARUN = os.path.abspath(sys.argv[1])
SYSTEM = "/usr/local/bin:/usr/bin:/bin"
PROGRAM = """
#include <cstdio>
#include <cuda_fp16.h>
__global__ void scale(float *x) { x[threadIdx.x] *= 2; }
int main() { std::printf("CUDA %d.%d\\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10); scale<<<1, 1>>>(nullptr); }
"""
LIBRARY = """
#include <cuda_runtime.h>
__global__ void scale(float *x) { x[threadIdx.x] *= 2; }
extern "C" int built_for() { return CUDART_VERSION; }
extern "C" void start() { scale<<<1, 1>>>(nullptr); }
"""
# As people write it: the directory of the toolkit has `include` and `lib64`.
MAKEFILE = """
program: host.o program.o
\tg++ -o $@ $^ -L$(CUDA_HOME)/lib64 -lcudart
host.o: host.cpp
\tg++ -c -I$(CUDA_HOME)/include $<
program.o: part.cu
\tnvcc -c -o $@ $<
"""
HOST = """
#include <cstdio>
#include <cuda_runtime_api.h>
void start();
int main() { std::printf("CUDA %d.%d\\n", CUDART_VERSION / 1000, CUDART_VERSION % 1000 / 10); start(); }
"""
PART = "__global__ void scale(float *x) { x[threadIdx.x] *= 2; }\nvoid start() { scale<<<1, 1>>>(nullptr); }\n"
CMAKE = """
cmake_minimum_required(VERSION 3.20)
project(example LANGUAGES CXX CUDA)
find_package(CUDAToolkit REQUIRED)
add_library(library SHARED library.cu)
target_link_libraries(library CUDA::cudart)
add_executable(program program.cu)
"""
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
setup(name="example", version="1", ext_modules=[CUDAExtension("example", ["bound.cpp", "kernel.cu"])],
      cmdclass={"build_ext": BuildExtension})
"""
BOUND = """
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
int built_for();
PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("built_for", &built_for); }
"""
KERNEL = "#include <cuda_runtime.h>\n__global__ void k(float *x) { *x += 1; }\nint built_for() { return CUDART_VERSION; }\n"
INLINE = """
from torch.utils.cpp_extension import load_inline
source = "#include <cuda_runtime.h>\\n__global__ void k(float *x) { *x += 1; }\\nint built_for() { return CUDART_VERSION; }"
module = load_inline("inline_example", "int built_for();", source, ["built_for"])
print("built for", module.built_for())
"""
NVCC = ["nvcc", "-o", "program", "program.cu"]
THIRTEEN = "CUDA 13.0"


class Case:
    failures = 0

    def __init__(self, work, name):
        self.name, self.faults = name, []
        self.work = work / name
        self.work.mkdir()
        for file, text in {
            "program.cu": PROGRAM, "library.cu": LIBRARY, "Makefile": MAKEFILE, "host.cpp": HOST, "part.cu": PART,
            "CMakeLists.txt": CMAKE, "setup.py": SETUP, "bound.cpp": BOUND, "kernel.cu": KERNEL, "inline.py": INLINE,
        }.items():
            (self.work / file).write_text(text)
        self.home = self.work / "home"
        self.home.mkdir()
        self.env = {"HOME": str(self.home), "PATH": SYSTEM, "LC_ALL": "C.UTF-8"}
        self.through = []

    def run(self, *words, cwd=None, **env):
        words = [*self.through, *map(str, words)]
        env = {**self.env, **{name: str(value) for name, value in env.items()}}
        return subprocess.run(words, env=env, cwd=cwd or self.work, capture_output=True, text=True, timeout=900)

    def expect(self, what, holds, run=None):
        if not holds:
            said = f": status {run.returncode}: {(run.stdout + run.stderr)[-3900:]}" if run else ""
            self.faults.append(what + said)

    def as_is(self, message, *words, **env):
        """The control."""
        run = self.run(*words, **env)
        self.expect(f"as it is, it fails with {message!r}", run.returncode != 0 and message in run.stdout + run.stderr, run)

    def build(self, *words, options=(), **env):
        run = self.run(CUDARUN, "--build", *options, "--", *words, **env)
        self.expect(f"--build {' '.join(map(str, words))[:60]}", run.returncode == 0, run)
        return run

    def refused(self, message, *words, options=(), **env):
        run = self.run(CUDARUN, "--build", *options, "--", *words, **env)
        self.expect(f"it is refused with {message!r}", run.returncode == 125 and message in run.stderr, run)
        self.expect("a refusal has one hint", run.stderr.count("hint:") == 1, run)

    def obeys_hint(self, options=(), **env):
        """The hint of a refusal fetches a toolkit, and after it the build works."""
        run = self.run(CUDARUN, "--build", *options, "--", *NVCC, **env)
        hint = run.stderr.split("hint:")[-1].strip()
        self.expect("the hint is for cudarun", hint == "cudarun fetch toolkit=13.0", run)
        quiet = {name: value for name, value in os.environ.items() if name.startswith(("PIP_", "SSL_"))}
        fetched = self.run(CUDARUN, "fetch", "--yes", *hint.split()[2:], **{**env, **quiet})
        self.expect("the hint works", fetched.returncode == 0, fetched)
        self.build(*NVCC, options=options, **env)
        self.prints(THIRTEEN, "./program")

    def prints(self, text, *words, **env):
        run = self.run(*words, **env)
        self.expect(f"it prints {text!r}", text in run.stdout, run)

    def has_no_trace(self, *files):
        """No directory of cudarun's is in what was built."""
        for file in files:
            file = self.work / file
            content = file.read_bytes()
            traces = re.findall(rb"[ -~]*\.cache/cudarun/[ -~]*", content)
            self.expect(f"{file.name} names directories of cudarun's: {traces[:3]}", not traces)
            dynamic = subprocess.run(["readelf", "-d", file], capture_output=True, text=True).stdout
            self.expect(f"{file.name} has no RUNPATH: {dynamic}", "RUNPATH" not in dynamic and "RPATH" not in dynamic)


def wheels_do_not_link(case):
    """nvcc of wheels looks in `lib64`, and wheels have `lib`, without names for the linker."""
    root = toolkits.wheels13(case.work / "site")
    path = f"{root}/bin:{SYSTEM}"
    case.as_is("cannot find -lcudart_static", *NVCC, PATH=path)
    case.build(*NVCC, PATH=path)
    case.prints(THIRTEEN, "./program")
    case.has_no_trace("program")
    # A RUNPATH that a build script makes itself names the view.
    script = "g++ -shared -o own.so -Wl,-rpath,$CUDA_HOME/lib64 -L$CUDA_HOME/lib64 -lcudart"
    case.build("sh", "-c", script, PATH=path)
    dynamic = subprocess.run(["readelf", "-d", case.work / "own.so"], capture_output=True, text=True).stdout
    case.expect(f"the RUNPATH is that of the script: {dynamic}", ".cache/cudarun/views/" in dynamic)
    # Another directory, with a name that nvcc does not take.
    blank = toolkits.wheels13(case.work / "with blank")
    path = f"{blank}/bin:{SYSTEM}"
    (case.work / "program").unlink()
    case.as_is("rror", *NVCC, PATH=path)
    case.build(*NVCC, PATH=path)
    case.prints(THIRTEEN, "./program")
    case.has_no_trace("program")


def wheels_of_two_releases(case):
    root = toolkits.trap13(case.work / "trap")
    path = f"{root}/bin:{SYSTEM}"
    case.as_is("Unsupported .version 9.5", *NVCC, PATH=path)
    case.refused("mixed: ", *NVCC, PATH=path)
    case.obeys_hint(PATH=path)
    toolkits.wheels13(case.work / "whole")
    case.build(*NVCC, options=["--also", case.work / "whole"], PATH=path)
    case.prints(THIRTEEN, "./program")
    listed = case.run(CUDARUN, "--also", case.work / "whole", "list", "toolkit", PATH=path)
    case.expect("list shows both", "cicc and crt are of CUDA 13.5" in " ".join(listed.stdout.split()) and "./whole/nvidia/cu13" in listed.stdout, listed)


def incomplete_toolkits(case):
    """Each lacks something, and the neighbour is whole."""
    toolkits.wheels13(case.work / "whole")
    also = ["--also", case.work / "whole"]
    for name, missing in [("headers", "include/cuda_runtime.h"), ("cicc", "nvvm/bin/cicc"), ("ptxas", "bin/ptxas")]:
        root = toolkits.wheels13(case.work / name)
        (root / missing).unlink()
        path = f"{root}/bin:{SYSTEM}"
        case.as_is(os.path.basename(missing), *NVCC, PATH=path)
        case.refused("missing", *NVCC, PATH=path)
        case.build(*NVCC, options=also, PATH=path)
        case.prints(THIRTEEN, "./program")
    root = toolkits.wheels13(case.work / "empty")
    (root / "nvvm/bin/cicc").unlink()
    (root / "nvvm/bin/cicc").touch(0o755)
    case.refused("cicc: empty", *NVCC, PATH=f"{root}/bin:{SYSTEM}")


def no_toolkit(case):
    case.as_is("cuda_runtime_api.h", "make", CUDA_HOME="/usr/local/cuda")
    case.refused("no nvcc", "make")
    case.refused("no nvcc", *NVCC)
    case.refused("13.0", *NVCC, options=["--require", "cuda-toolkit=13.0"])
    case.obeys_hint(options=["--require", "cuda-toolkit=13.0"])


def of_conda(case):
    root = toolkits.wheels13(case.work / "site")
    prefix = toolkits.conda13(case.work / "conda", root)
    env = {"CONDA_PREFIX": prefix, "CUDA_HOME": prefix, "PATH": f"{prefix}/bin:{SYSTEM}"}
    case.as_is("cuda_runtime", "make", **env)
    case.build("make", **env)
    case.prints(THIRTEEN, "./program", LD_LIBRARY_PATH=prefix / "targets/x86_64-linux/lib")
    case.has_no_trace("program")


def cmake_and_ninja(case):
    root = toolkits.wheels13(case.work / "site")
    path = f"{root}/bin:{SYSTEM}"
    for generator, directory in [("Unix Makefiles", "make"), ("Ninja", "ninja")]:
        configure = ["cmake", "-G", generator, "-B", directory]
        case.as_is("cannot find -lcudart_static", *configure, PATH=path)
        shutil.rmtree(case.work / directory)
        case.build(*configure, PATH=path)
        case.build("cmake", "--build", directory, PATH=path)
        case.prints(THIRTEEN, f"{directory}/program")
        case.has_no_trace(f"{directory}/program", f"{directory}/liblibrary.so")
    # A kept start needs no toolkits to be looked for.
    words = [CUDARUN, "--build", "cmake", "--version"]
    first = min(timed(case, words, fresh=True, PATH=path) for _ in range(3))
    again = min(timed(case, words, PATH=path) for _ in range(3))
    case.expect(f"the second start is warm: {first * 1000:.0f} ms and {again * 1000:.0f} ms", again < first)


def timed(case, words, fresh=False, **env):
    if fresh:
        shutil.rmtree(case.home / ".cache" / "cudarun", ignore_errors=True)
    begun = time.monotonic()
    run = case.run(*words, **env)
    case.expect("it starts", run.returncode == 0, run)
    return time.monotonic() - begun


def several_releases(case):
    """11.8 as NVIDIA installs it, Debian's 12.4 and the wheels of 13.0."""
    eleven, twelve = toolkits.debian("bookworm"), toolkits.debian("trixie")
    if not eleven or not twelve:
        return "skipped: Debian's toolkits are not in the cache"
    eleven = toolkits.plain(case.work / "cuda-11.8", eleven)
    thirteen = toolkits.wheels13(case.work / "site")
    case.through = toolkits.installed(twelve)
    also = ["--also", case.work / "cuda-11.8", "--also", case.work / "site"]
    case.prints("CUDA 12.4", "sh", "-c", " ".join(NVCC) + " -ccbin g++-11 && ./program")
    case.build(*NVCC, options=["--require", "cuda-toolkit=13.0", *also])
    case.prints(THIRTEEN, "./program")
    case.as_is("unsupported GNU version", *NVCC, PATH=f"{eleven}/bin:{SYSTEM}")
    case.build(*NVCC, options=["--require", "cuda-toolkit=11.8", *also], PATH=f"{thirteen}/bin:{SYSTEM}")
    case.prints("CUDA 11.8", "./program")
    case.has_no_trace("program")
    # Without g++-11, no compiler here is old enough.
    bin = case.work / "old"
    bin.mkdir()
    for name in ["g++", "gcc", "cc1plus", "as", "ld", "sh", "cat", "rm"]:
        if found := shutil.which(name, path=SYSTEM):
            (bin / name).symlink_to(found)
    through, case.through = case.through, []
    case.refused("accepts GCC up to 11", *NVCC, options=["--require", "cuda-toolkit=11.8", *also], PATH=bin)
    case.through = through
    case.build(*NVCC, options=["--require", "cuda-toolkit=12.4", *also])
    case.prints("CUDA 12.4", "./program")
    case.refused("is not =12.9", *NVCC, options=["--require", "cuda-toolkit=12.9", *also])
    return None


def extensions_of_torch(case):
    """torch of CUDA 12.4, with 13.0 in CUDA_HOME: torch itself refuses."""
    twelve, tree = toolkits.debian("trixie"), slim(TORCH[0])
    if not twelve or not tree:
        return "skipped: torch and Debian's toolkit are not in the cache"
    cudnn = "nvidia-cudnn-cu12==9.1.0.70"
    python, site = environment("torch", tree, headers(TORCH[0]), *TORCH[1:], *CUDA, cudnn, "setuptools==80.9.0", "pip==25.3", under=case.work)
    thirteen = toolkits.wheels13(case.work / "site")
    case.through = toolkits.installed(twelve)
    env = {"CUDA_HOME": thirteen, "PATH": f"{python.parent}:{thirteen}/bin:{SYSTEM}", "TORCH_CUDA_ARCH_LIST": "9.0"}
    mismatch = "The detected CUDA version (13.0) mismatches the version that was used to compile"
    install = [python, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "--target", "out", "."]
    case.as_is(mismatch, *install, **env)
    run = case.build(*install, **env)
    case.expect("it says that CUDA_HOME does not fit", "CUDA_HOME=" in run.stderr and "12.4" in run.stderr, run)
    (built,) = (case.work / "out").glob("example*.so")
    case.has_no_trace(built)
    code = "import torch, example; print('built for', example.built_for())"
    case.prints("built for 12040", python, "-c", code, PYTHONPATH=case.work / "out", **env)
    # Here torch does not compare the versions.
    case.prints("built for 13000", python, "inline.py", TORCH_EXTENSIONS_DIR=case.work / "as-is", **env)
    run = case.build(python, "inline.py", TORCH_EXTENSIONS_DIR=case.work / "inline", **env)
    case.expect("load_inline compiles and imports", "built for 12040" in run.stdout, run)
    case.has_no_trace(*(case.work / "inline").rglob("*.so"))
    isolated = case.run(CUDARUN, "explain", "--build", python, "-m", "pip", "install", "flash-attn", **env)
    case.expect("isolation is pointed out", "add --no-build-isolation" in isolated.stdout, isolated)
    return None


def headers(wheel):
    """The headers of a wheel alone."""
    final = CACHE / "parts" / f"{wheel}-include"
    if not final.is_dir():
        print(f"downloading {wheel} for its headers", flush=True)

        def unpack(archive, partial):
            names = [name for name in archive.namelist() if re.match(r"\w+/include/", name)]
            archive.extractall(partial / "files", names)
            final.parent.mkdir(parents=True, exist_ok=True)
            os.rename(partial / "files", final)

        download(wheel, unpack, unless=final)
    return final


CASES = [
    wheels_do_not_link, wheels_of_two_releases, incomplete_toolkits, no_toolkit, of_conda, cmake_and_ninja, several_releases,
    extensions_of_torch,
]


def main():
    wanted = sys.argv[2:]
    CACHE.mkdir(parents=True, exist_ok=True)
    # Beside the cache: large files are linked, and not copied.
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        for function in CASES:
            if wanted and function.__name__ not in wanted:
                continue
            begun = time.monotonic()
            case = Case(Path(work), function.__name__)
            skipped = None
            try:
                skipped = function(case)
            except Exception:
                case.faults.append(traceback.format_exc())
            verdict = "FAULT" if case.faults else "skip" if skipped else "ok"
            print(f"{verdict}  {case.name.replace('_', ' ')}: {skipped or f'{time.monotonic() - begun:.0f} s'}", flush=True)
            for fault in case.faults:
                print(f"    {fault}")
            Case.failures += bool(case.faults)
            shutil.rmtree(case.work, ignore_errors=True)
    sys.exit(1 if Case.failures else 0)


if __name__ == "__main__":
    main()
