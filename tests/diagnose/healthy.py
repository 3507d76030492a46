#!/usr/bin/env python3
"""Makes logs of programs that work, for tests/diagnose/healthy.rs: runs real tools and keeps the beginning and the end of
their output. Only runs that end with 0 and print something are kept.

    healthy.py DIRECTORY PYTHON…

Each PYTHON is an interpreter of an environment whose packages are asked and imported. No path and no name of this machine
is kept. The tools that are not installed are left out.
"""
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

MODULES = "numpy jax jaxlib tensorflow torch onnxruntime ctranslate2 keras sympy networkx scipy h5py grpc google.protobuf".split()
JAX = "import jax, jax.numpy as n; print(jax.devices(), n.dot(n.ones((8, 8)), n.ones((8, 8))).sum())"
TENSORFLOW = "import tensorflow as t; print(t.config.list_physical_devices('GPU'), t.reduce_sum(t.ones((8, 8))))"
ORT = "import onnxruntime as o; print(o.get_device(), o.get_available_providers())"
TORCH = "import torch; print(torch.cuda.is_available(), torch.ones(8, 8).sum()); print(torch.__config__.show())"

C = {
    "plain": "int main(void) { return 0; }",
    "unused": "int main(void) { int unused; return 0; }",
    "implicit": "#include <stdio.h>\nint main(int c, char **v) { printf(\"%d\\n\", v[c - 1]); return 0; }",
    "sign": "int f(unsigned a, int b) { return a < b; } int main(void) { return f(1, 2) - 1; }",
    "library": "int cudaMalloc_counter; int cudnnCreate_error(void) { return cudaMalloc_counter; } int main(void) { return 0; }",
}
CMAKE = """cmake_minimum_required(VERSION 3.16)
project(example C)
find_package(Threads)
find_package(CUDAToolkit)
find_package(MPI)
include(CheckLanguage)
check_language(CUDA)
include(CheckIncludeFile)
check_include_file(cuda_runtime.h HAVE_CUDA)
add_executable(example main.c)
enable_testing()
add_test(NAME example COMMAND example)
"""
TEST = "import pytest, warnings\n@pytest.mark.parametrize('n', range(5))\ndef test_sum(n):\n    assert sum(range(n)) == n * (n - 1) // 2\n@pytest.mark.skipif(True, reason='no CUDA GPU')\ndef test_gpu():\n    assert False\ndef test_cudnn_version_mismatch_is_reported():\n    warnings.warn('CUDA is not available')\n@pytest.mark.xfail\ndef test_x():\n    assert 0\n"
CUDA = "#include <cstdio>\n__global__ void k(int *p) { *p = 1; }\nint main() { int *p; cudaMalloc(&p, 4); k<<<1, 1>>>(p); return 0; }\n"


def commands(work, pythons):
    for name in C:
        for flags in (["-Wall", "-Wextra", "-c"], ["-v", "-c"], ["-Wall", "-O2", "-Wconversion", "-c", "-H"]):
            yield f"gcc-{name}-{len(flags)}", ["gcc", *flags, f"{name}.c", "-o", f"{name}.o"]
    yield from ((f"gcc-link-{name}", ["gcc", "-v", "-Wl,--verbose", f"{name}.c", "-o", name]) for name in C)
    yield "cmake-configure", ["cmake", "-S", "project", "-B", "build"]
    yield "cmake-ninja", ["cmake", "-S", "project", "-B", "build-ninja", "-G", "Ninja"]
    yield "cmake-trace", ["cmake", "-S", "project", "-B", "build-trace", "--trace-redirect=trace", "--log-level=DEBUG"]
    yield "cmake-build", ["cmake", "--build", "build", "--verbose"]
    yield "cmake-build-ninja", ["cmake", "--build", "build-ninja", "--verbose"]
    yield "ctest", ["ctest", "--test-dir", "build", "-V"]
    yield "cmake-log", ["cat", "build/CMakeFiles/CMakeConfigureLog.yaml"]
    yield "cmake-cache", ["cat", "build/CMakeCache.txt"]
    for flag in ("-v", "-rA", "-q", "--collect-only", "--durations=3", "--tb=long", "--setup-show", "--fixtures"):
        yield f"pytest{flag}", [pythons[0], "-m", "pytest", flag, "test_sums.py"]
    for number, python in enumerate(pythons):
        pip = [sys.executable, "-m", "pip", "--python", python, "--disable-pip-version-check"]
        for words in (["list"], ["freeze"], ["check"], ["inspect"], ["list", "-v"], ["debug"]):
            yield f"pip-{'-'.join(words)}-{number}", [*pip, *words]
        for module in MODULES:
            yield f"import-{module}-{number}", [python, "-c", f"import {module} as m; print(m)"]
            yield f"show-{module}-{number}", [*pip, "show", "-f", module.split(".")[0]]
            yield f"verbose-{module}-{number}", [python, "-v", "-c", f"import {module}"]
        for name, code in (("jax", JAX), ("tensorflow", TENSORFLOW), ("onnxruntime", ORT), ("torch", TORCH)):
            yield f"run-{name}-{number}", [python, "-c", code]
            yield f"loader-{name}-{number}", ["env", "LD_DEBUG=libs", python, "-c", code]
            yield f"verbose-run-{name}-{number}", ["env", "TF_CPP_MIN_LOG_LEVEL=0", "TF_CPP_MAX_VLOG_LEVEL=1", "JAX_DEBUG_LOG_MODULES=jax", python, "-c", code]
        for nvcc in Path(python).parent.parent.glob("lib/python*/site-packages/nvidia/cuda_nvcc/bin/*"):
            yield f"{nvcc.name}-{number}", [str(nvcc), "--help"]
            yield f"{nvcc.name}-version-{number}", [str(nvcc), "--version"]
        libraries = Path(python).parent.parent.glob("lib/python*/site-packages/nvidia/*/lib/lib*.so.*")
        for library in sorted(libraries)[:6]:
            yield f"readelf-{library.name}-{number}", ["readelf", "-d", str(library)]
            yield f"nm-{library.name}-{number}", ["nm", "-D", str(library)]
            yield f"ldd-{library.name}-{number}", ["ldd", str(library)]
    yield "pip-install", [pythons[0], "-m", "pip", "install", "-v", "--no-index", "--no-deps", "--force-reinstall", "--no-build-isolation", "--target", "target", "./package"]
    yield "pip-wheel", [sys.executable, "-m", "pip", "wheel", "--no-index", "--no-deps", "--no-build-isolation", "-w", "wheels", "./package"]
    for words in (["list", "--installed"], ["show", "gcc"], ["policy", "python3"]):
        yield f"apt-{words[0]}", ["apt", *words]
    for package in "nvidia-cuda-toolkit libcudart11.0 nvidia-driver libcuda1 cmake python3-numpy gcc nvidia-smi".split():
        yield f"apt-cache-{package}", ["apt-cache", "show", package]
        yield f"apt-search-{package}", ["apt-cache", "search", package]
        yield f"apt-simulate-{package}", ["apt-get", "-s", "install", package]
        yield f"apt-depends-{package}", ["apt-cache", "depends", package]
    yield "apt-upgrade", ["apt-get", "-s", "upgrade"]
    yield "dpkg", ["dpkg", "-l"]
    yield "dpkg-log", ["cat", "/var/log/dpkg.log"]
    yield "apt-term-log", ["cat", "/var/log/apt/term.log"]
    yield "apt-history-log", ["cat", "/var/log/apt/history.log"]
    yield "alternatives-log", ["cat", "/var/log/alternatives.log"]
    yield "fontconfig-log", ["cat", "/var/log/fontconfig.log"]
    yield "ldconfig", ["ldconfig", "-p"]
    yield "ldconfig-verbose", ["ldconfig", "-v", "-N", "-X"]
    yield "lscpu", ["lscpu"]
    for name in "python3 node npm git gcc g++ make perl rustc cargo ld as".split():
        yield f"version-{name}", [name, "--version"]
        yield f"help-{name}", [name, "--help"]
    for words in (["init", "-b", "main", "repository"], ["-C", "repository", "status"], ["-C", "repository", "config", "-l"]):
        yield f"git-{words[-1]}", ["git", *words]
    yield "cargo-new", ["cargo", "new", "--lib", "crate", "--vcs", "none"]
    for words in (["check", "-v"], ["test"], ["build", "--timings"], ["doc"], ["tree"], ["metadata", "--format-version=1"], ["clippy"], ["clean", "-v"]):
        yield f"cargo-{words[0]}", ["cargo", *words, "--offline", "--manifest-path", "crate/Cargo.toml"]


def trimmed(text, work):
    text = text.replace(str(work), "/work").replace(os.uname().nodename, "machine")
    text = re.sub(r"/root/\S*?/environments/[^/\s]*", "/opt/env", text)
    text = re.sub(r"/(?:root|home|tmp|work)/[^\s'\":,]*/", "/home/user/", text)
    text = re.sub(r"https?://[^\s'\"]*", "https://example.org/", text)
    lines = [line[:160] for line in text.splitlines()]
    if len(lines) > 16:
        marked = [line for line in lines[8:-6] if re.search("(?i)error|warn|cuda|fail|cannot|not found", line)]
        lines = lines[:6] + marked[:6] + lines[-4:]
    return "\n".join(lines)[:1100] + "\n"


def main():
    out, pythons = Path(sys.argv[1]), sys.argv[2:]
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        for name, text in C.items():
            (work / f"{name}.c").write_text(text + "\n")
        (work / "kernel.cu").write_text(CUDA)
        (work / "test_sums.py").write_text(TEST)
        for directory in ("project", "package"):
            (work / directory).mkdir()
        (work / "project/CMakeLists.txt").write_text(CMAKE)
        (work / "project/main.c").write_text(C["plain"])
        (work / "package/setup.py").write_text("from setuptools import setup\nsetup(name='example', version='1', py_modules=['example'])\n")
        (work / "package/example.py").write_text("")
        path = os.pathsep.join([os.path.dirname(pythons[0]), os.environ["PATH"]])
        env = {**os.environ, "PATH": path, "CARGO_TARGET_DIR": str(work / "target")}
        seen = set()
        for name, command in commands(work, pythons):
            if not shutil.which(command[0], path=path):
                continue
            try:
                done = subprocess.run(command, cwd=work, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
            except subprocess.TimeoutExpired:
                continue
            text = (done.stdout + done.stderr).decode(errors="replace")
            text = trimmed(text, work)
            if done.returncode or not text.strip() or text in seen:
                continue
            seen.add(text)
            (out / f"{re.sub('[^A-Za-z0-9.-]+', '_', name)}.log").write_text(text)
    print(len(seen), "logs")


if __name__ == "__main__":
    main()
