"""What packages need to compile while they run: tests/real/headers.py PATH-TO-cudarun

CuPy 13 with NVRTC 12.9, as pip installs them without the headers. NVRTC compiles without a GPU: a kernel with `cuda_fp16.h` fails as
it is. On a machine that seems to have a GPU, cudarun says so before the start, and with what its command installs the kernel is
compiled. So it is where the headers were there before, without a word.

FlashInfer beside torch 2.14, which compiles a module for a GPU that need not be there, without nvcc: likewise. It is downloaded only
if CUDARUN_REAL_LARGE is 1 (3 GB).
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import checks
from checks import case
from stacks import CUPY, GPU, slim
from wheels import environment, rows, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
NVRTC = "nvidia-cuda-nvrtc-cu12==12.9.86"
# With the options that CuPy itself adds.
CODE = """
import glob, os, cupy
from cupy import _environment
from cupy.cuda import compiler
own = glob.glob(os.path.join(os.path.dirname(cupy.__file__), "_core", "include", "cupy", "_cccl", "*"))
root = _environment.get_cuda_path()
options = tuple("-I" + directory for directory in own + ([os.path.join(root, "include")] if root else []))
source = "#include <cuda_fp16.h>\\n__global__ void twice(__half *x) { x[0] += x[0]; }"
options += compiler._get_extra_include_dir_opts() + ("-arch=sm_80", "--device-as-default-execution-space")
compiler._NVRTCProgram(source, "twice.cu", method="cubin").compile(options)
print("compiled")
"""
FLASHINFER = """
import flashinfer.jit.quantization
flashinfer.jit.quantization.gen_quantization_module().build()
print("compiled")
"""


def missing(name, wheels, code, lacks, error):
    """Without the part `lacks` the program fails with the text `error`; what cudarun says installs the part."""
    with tempfile.TemporaryDirectory(prefix="cudarun-headers-") as directory:
        work = Path(directory)
        (work / "dev").mkdir()
        python, _ = environment(name, *wheels, under=work / "environments")
        variables = {"HOME": directory, "XDG_CACHE_HOME": f"{work}/cache", "WORK": f"{work}/dev", "FLASHINFER_CUDA_ARCH_LIST": "8.0"}
        # The tools of this machine, without those of a toolkit that it may have.
        variables |= {"PATH": f"{python.parent}:/usr/bin:/bin"}
        # The driver is not here; what is compiled is linked against it, and not started.
        (work / "driver").mkdir()
        subprocess.run(["cc", "-shared", "-o", work / "driver/libcuda.so", "-xc", "/dev/null"], check=True)
        variables |= {"LIBRARY_PATH": f"{work}/driver"}

        def start(*words):
            words = [*map(str, words)]
            return subprocess.run(words, env=variables, capture_output=True, text=True, cwd=work, stdin=subprocess.DEVNULL)

        # NVRTC is found where the loader looks; that is not what is tried here.
        with_gpu = [*GPU, CUDARUN, "--verify", "never", python, "-c", code]
        control = start(CUDARUN, python, "-c", code)
        done = start(*with_gpu)
        lines = [line.removeprefix("cudarun: ") for line in done.stderr.splitlines() if line.startswith("cudarun: ")]
        case(
            f"{name} without {lacks}",
            (error in control.stderr and control.returncode == 1, f"the control: {control.stderr}"),
            (len(lines) == 2 and f"finds no {lacks}" in lines[0], lines),
            (error in done.stderr, "it starts as without cudarun"),
        )
        command = lines[-1].removeprefix("hint: ") if lines else "false"
        words = shlex.split(command)
        # A person is asked before anything is downloaded.
        words = [CUDARUN, *words[1:], "--yes"] if words[0] == "cudarun" else words
        installed = start(*words)
        done = start(*with_gpu)
        case(
            command,
            (installed.returncode == 0, installed.stderr),
            (done.stdout == "compiled\n" and "cudarun: " not in done.stderr, f"{done.stdout}{done.stderr}"),
        )


def main():
    missing("CuPy", [*CUPY, NVRTC], CODE, "cuda_runtime.h", "cuda_fp16.h")
    if os.environ.get("CUDARUN_REAL_LARGE") != "1":
        print("skipped  FlashInfer: CUDARUN_REAL_LARGE is not 1")
    else:
        wheels = [wheel for name, *words in rows("fitting.txt") if name == "@vllm-0.33" for wheel in words]
        others = ("vllm", "torchaudio", "torchvision", "transformers")
        # What is kept without GPU code is kept without headers, too.
        whole = ("flashinfer-python", "apache-tvm-ffi")
        wheels = [(unpacked if wheel.startswith(whole) else slim)(wheel) for wheel in wheels if not wheel.startswith(others)]
        missing("FlashInfer", wheels, FLASHINFER, "nvcc", "Could not find nvcc")
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
