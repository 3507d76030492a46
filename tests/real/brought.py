"""What packages bring beside their metadata: tests/real/brought.py PATH-TO-cudarun

spconv with its cumm bundles a renamed NVRTC, and both `spconv.pytorch` and `sgl_kernel` import torch without a word in their
metadata. In a clean environment each program must start, also where nvidia-dali is only perhaps imported. With a newer cuDNN in
LD_LIBRARY_PATH each mixes without cudarun, and must get the cuDNN of torch's own wheels with it. A cuDNN under a private name,
as ctranslate2 has one, is still refused over parts that it does not work with.

Downloads 4 GB, unless CUDARUN_REAL_LARGE is not 1: then it is skipped.
"""

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import CACHE, environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

CUDNN, NEWER = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.16.0.29"
TORCH = ["torch==2.5.1", "typing_extensions==4.12.2", "sympy==1.13.1", "mpmath==1.3.0", "networkx==3.4.2", "numpy==2.2.6"]
TORCH += ["jinja2==3.1.6", "markupsafe==3.0.2", "filelock==3.18.0", "fsspec==2025.3.0", CUDNN]
TORCH += ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127", "nvidia-cuda-nvrtc-cu12==12.4.127"]
TORCH += ["nvidia-cuda-cupti-cu12==12.4.127", "nvidia-cufft-cu12==11.2.1.3", "nvidia-curand-cu12==10.3.5.147"]
TORCH += ["nvidia-cusolver-cu12==11.6.1.9", "nvidia-cusparse-cu12==12.3.1.170", "nvidia-nccl-cu12==2.21.5"]
TORCH += ["nvidia-nvtx-cu12==12.4.127", "nvidia-nvjitlink-cu12==12.4.127"]
SPCONV = ["spconv-cu120==2.3.6", "cumm-cu120==0.6.3", "pccm==0.4.16", "ccimport==0.4.4", "pybind11==2.13.6", "fire==0.7.1"]
SPCONV += ["termcolor==3.1.0", "ninja==1.11.1.4", "lark==1.2.2", "portalocker==3.1.1"]
SGL = ["sgl_kernel==0.3.20"]
DALI = ["nvidia-dali-cuda120==1.53.0", "nvidia-nvimgcodec-cu12==0.7.0.11", "nvidia-libnvcomp-cu12==5.1.0.21"]
DALI += ["dm-tree==0.1.9", "astunparse==1.6.3", "gast==0.6.0", "six==1.17.0", "packaging==25.0", "nvtx==0.2.13"]
DALI += ["makefun==1.16.0"]
CTRANSLATE = ["ctranslate2==4.6.1", "numpy==2.2.6", "pyyaml==6.0.2"]

# What is built for another torch fails at the end of its import, and torch is imported before that.
IMPORT = """
try:
    import {module}
except ImportError as error:
    assert "sgl_kernel" in str(error), error
"""
REPORT = """
import ctypes, os, sys
assert "torch" in sys.modules
cudnn = ctypes.CDLL("libcudnn.so.9")
for check in ["Graph", "Ops", "Cnn", "Adv"]:
    getattr(cudnn, f"cudnn{check}VersionCheck")()
paths = {line.split(maxsplit=5)[-1].strip() for line in open("/proc/self/maps") if "libcudnn" in line}
print("\\n".join(sorted({os.path.realpath(os.path.dirname(path)) for path in paths})))
"""

failures = 0


def report(is_right, what, run):
    global failures
    failures += not is_right
    print(f"{'ok' if is_right else 'FAIL'}  {what}", flush=True)
    if not is_right:
        print(f"      status {run.returncode}\n{run.stdout[-2000:]}\n{run.stderr[-2000:]}")


def start(python, code, *through, **env):
    with tempfile.TemporaryDirectory() as home:
        env = {"PATH": os.environ["PATH"], "HOME": home, **env}
        command = [*map(str, through), str(python), "-W", "ignore", "-c", code]
        return subprocess.run(command, env=env, capture_output=True, text=True, cwd=home, timeout=300)


def clean(python, code, what, *options):
    """It starts alone, and under cudarun, also with these options."""
    alone = start(python, code)
    report(alone.returncode == 0, f"{what}: alone", alone)
    run = start(python, code, CUDARUN)
    report(run.returncode == 0, f"{what}: with cudarun", run)
    if options:
        run = start(python, code, CUDARUN, *options)
        report(run.returncode == 0, f"{what}: with cudarun {' '.join(options)}", run)


def foreign(python, site, module):
    """Another cuDNN in LD_LIBRARY_PATH."""
    path = str(unpacked(NEWER) / "nvidia" / "cudnn" / "lib")
    code = IMPORT.format(module=module) + REPORT
    control = start(python, code, LD_LIBRARY_PATH=path)
    report(len(control.stdout.split()) == 2, f"{module}: without cudarun two cuDNN meet", control)
    run = start(python, code, CUDARUN, LD_LIBRARY_PATH=path)
    own = os.path.realpath(site / "nvidia" / "cudnn" / "lib")
    report(run.stdout.split() == [own], f"{module}: with cudarun it is torch's", run)


def private_shim(work):
    """ctranslate2's shim of 9.1.0, over a cuDNN that lacks a part."""
    torn = work / "torn"
    torn.mkdir()
    for file in (unpacked(CUDNN) / "nvidia" / "cudnn" / "lib").glob("*.so*"):
        if "_ops" not in file.name:
            os.link(file, torn / file.name)
    python, _ = environment("ctranslate2", *CTRANSLATE, under=work)
    run = start(python, "import ctranslate2", CUDARUN, "--require", "cudnn>=9", LD_LIBRARY_PATH=str(torn))
    report(run.returncode == 125, "a private shim over a torn cuDNN is refused", run)
    run = start(python, "import ctranslate2", CUDARUN, LD_LIBRARY_PATH=str(unpacked(CUDNN) / "nvidia" / "cudnn" / "lib"))
    report(run.returncode == 0, "a private shim over a whole one starts", run)


def main():
    if os.environ.get("CUDARUN_REAL_LARGE") != "1":
        print("skipped  torch 2.5.1 with packages that bring it: CUDARUN_REAL_LARGE is not 1")
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        work = Path(work).resolve()
        python, site = environment("spconv", *TORCH, *SPCONV, under=work)
        clean(python, "import torch; import spconv.pytorch", "spconv", "--pin-mode", "none")
        foreign(python, site, "spconv.pytorch")
        python, site = environment("sgl", *TORCH, *SGL, under=work)
        foreign(python, site, "sgl_kernel")
        python, site = environment("dali", *TORCH, *DALI, under=work)
        clean(python, "import torch; exec('import nvidia.dali')", "nvidia-dali by a guess")
        private_shim(work)


if __name__ == "__main__":
    main()
    sys.exit(failures > 0)
