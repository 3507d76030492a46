"""Headers that CuPy's kernels include: tests/real/headers.py PATH-TO-cudarun

CuPy 13 with NVRTC 12.9, as pip installs them without the headers. NVRTC compiles without a GPU: a kernel with `cuda_fp16.h` fails as
it is. On a machine that seems to have a GPU, cudarun says so before the start, and with what its command installs the kernel is
compiled. So it is where the headers were there before, without a word.
"""

import os
import shlex
import subprocess
import sys
import tempfile
from pathlib import Path

import checks
from checks import case
from stacks import CUPY, GPU
from wheels import environment

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


def start(work, python, *command):
    variables = {"PATH": os.environ["PATH"], "HOME": str(work), "XDG_CACHE_HOME": str(work / "cache"), "WORK": str(work / "dev")}
    words = [*command, python, "-c", CODE]
    return subprocess.run(list(map(str, words)), env=variables, capture_output=True, text=True, cwd=work)


def main():
    with tempfile.TemporaryDirectory(prefix="cudarun-headers-") as directory:
        work = Path(directory)
        (work / "dev").mkdir()
        python, _ = environment("cupy", *CUPY, NVRTC, under=work / "environments")
        # NVRTC is found where the loader looks; that is not what is tried here.
        with_gpu = [*GPU, CUDARUN, "--verify", "never"]
        control = start(work, python, CUDARUN)
        done = start(work, python, *with_gpu)
        lines = [line.removeprefix("cudarun: ") for line in done.stderr.splitlines() if line.startswith("cudarun: ")]
        case(
            "CuPy without headers",
            ("cuda_fp16.h" in control.stderr and control.returncode == 1, f"the control: {control.stderr}"),
            (len(lines) == 2 and "finds no cuda_runtime.h" in lines[0], lines),
            ("cuda_fp16.h" in done.stderr, "it starts as without cudarun"),
        )
        command = lines[-1].removeprefix("hint: ") if lines else "false"
        installed = subprocess.run(shlex.split(command), capture_output=True, text=True)
        done = start(work, python, *with_gpu)
        case(
            command,
            (installed.returncode == 0, installed.stderr),
            (done.stdout == "compiled\n" and not done.stderr, done.stderr),
        )
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
