"""Frameworks without NVIDIA's libraries, and `cudarun fetch`: tests/real/fetch.py PATH-TO-cudarun [CASE…]

Each case is an environment of real wheels that lacks all of NVIDIA's. Without cudarun its program fails; `cudarun fetch
--dry-run` names exactly the wheels of the case; `cudarun --fetch --yes` gets them, and the program opens cuDNN or cuBLAS and
prints a version. The wheels come from the index, by pip or by uv, or from a directory that `cudarun fetch --into` has filled,
in a network namespace without interfaces. A second start fetches nothing. With a lock, another store gets the very set.

torch and onnxruntime-gpu are tried only if CUDARUN_REAL_LARGE is 1. Nothing that is fetched is kept: about 3 GB are downloaded,
6 GB without that limit.
"""

import base64
import csv
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from stacks import CUPY, NUMPY, ONNX, TORCH, slim
from wheels import environment

CUDARUN = os.path.abspath(sys.argv[1])
VERSIONS = """
import ctypes
def version(name, call):
    value = ctypes.c_int()
    assert getattr(ctypes.CDLL(name), call)(0, ctypes.byref(value)) == 0
    return value.value
"""
# The packed shim of CTranslate2 opens the rest of cuDNN.
OF_CTRANSLATE2 = VERSIONS + """
import glob, os, ctranslate2
(shim,) = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libcudnn-*"))
cudnn = ctypes.CDLL(shim)
assert cudnn.cudnnOpsVersionCheck() == 0
print("cuDNN", cudnn.cudnnGetVersion(), "cuBLAS", version("libcublas.so.12", "cublasGetProperty"))
"""
OF_CUPY = VERSIONS + """
import cupy
from cupy.cuda import cublas, cufft, curand, cusolver, cusparse, nvrtc
print("NVRTC", nvrtc.getVersion(), "cuBLAS", version("libcublas.so.12", "cublasGetProperty"))
"""
# As `import` opens them on a machine with a GPU. Releases before 1.23 get nothing where there is none.
OF_ONNX = """
import ctypes, os, onnxruntime
capi = os.path.join(os.path.dirname(onnxruntime.__file__), "capi")
ctypes.CDLL(os.path.join(capi, "libonnxruntime_providers_shared.so"), mode=ctypes.RTLD_GLOBAL)
ctypes.CDLL(os.path.join(capi, "libonnxruntime_providers_cuda.so"))
print("cuDNN", ctypes.CDLL("libcudnn.so.9").cudnnGetVersion())
"""
OF_TORCH = """
import torch
print("cuDNN", torch.backends.cudnn.version())
"""
OF_CLIENT = {"RECORD", "INSTALLER", "REQUESTED", "direct_url.json"}
COMPONENTS = "cublas cufft curand cusolver cusparse cuda-nvrtc nvjitlink cuda-runtime"
CASES = {
    "ctranslate2": (["ctranslate2==4.6.1", "pyyaml==6.0.2", NUMPY], OF_CTRANSLATE2, "cublas cudnn", "directory"),
    "cupy": (CUPY, OF_CUPY, COMPONENTS, "pip"),
    "onnxruntime": (["onnxruntime-gpu==1.23.2", *ONNX[1:]], OF_ONNX, "cuda-runtime cublas cudnn cufft curand", "pip"),
    "torch": (TORCH, OF_TORCH, COMPONENTS + " cudnn cusparselt nccl cuda-cupti", "pip"),
}
LARGE = {"onnxruntime", "torch"}


class Case:
    failures = 0

    def __init__(self, work, name):
        wheels, code, names, self.way = CASES[name]
        self.name, self.faults, self.expected = name, [], {f"nvidia-{part}-cu12" for part in names.split()}
        self.work = work / name
        self.work.mkdir()
        trees = [slim(wheel) if name in LARGE and wheel == wheels[0] else wheel for wheel in wheels]
        python, _ = environment(name, *trees, under=work / "environments")
        (self.work / "program.py").write_text(code)
        self.words = [str(python), "program.py"]
        self.store = self.work / "data"

    def run(self, *words, through=(), store=None, **env):
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        env = {
            "HOME": str(home), "PATH": os.environ["PATH"], "XDG_DATA_HOME": str(store or self.store),
            **{name: value for name, value in os.environ.items() if name.startswith(("PIP_", "UV_", "SSL_"))}, **env,
        }
        words = [*through, *map(str, words)]
        return subprocess.run(words, env=env, cwd=self.work, capture_output=True, text=True, timeout=1200)

    def expect(self, what, holds, run):
        if not holds:
            self.faults.append(f"{what}: status {run.returncode}: {(run.stdout + run.stderr)[-700:]}")

    def not_as_recorded(self):
        """The files of the store that no RECORD has with their hash."""
        wrong = []
        for entry in (self.store / "cudarun" / "store").glob("[0-9a-f]*"):
            records = [record.read_text() for record in entry.glob("*.dist-info/RECORD")]
            rows = {tuple(row[:2]) for record in records for row in csv.reader(record.splitlines())}
            for file in filter(Path.is_file, entry.glob("*/**/*")):
                digest = base64.urlsafe_b64encode(hashlib.sha256(file.read_bytes()).digest()).decode().rstrip("=")
                if file.name not in OF_CLIENT and (str(file.relative_to(entry)), f"sha256={digest}") not in rows:
                    wrong.append(str(file))
        return wrong

    def check(self):
        alone = self.run(*self.words)
        self.expect("the control: it fails without cudarun", alone.returncode != 0, alone)
        dry = self.run(CUDARUN, "fetch", "--dry-run", "--json", *self.words)
        wheels = json.loads(dry.stdout)["wheels"]
        named = {wheel["distribution"] for wheel in wheels}
        self.expect(f"fetched are {sorted(named ^ self.expected)} more or fewer", named == self.expected, dry)
        self.expect("--dry-run writes nothing", not self.store.exists(), dry)
        asked = self.run(CUDARUN, "--fetch", *self.words)
        self.expect("without consent nothing is fetched", asked.returncode == 125 and not self.store.exists(), asked)
        through, options = [], []
        if self.way == "directory":
            into = self.run(CUDARUN, "fetch", "--yes", "--into", "wheels", *self.words)
            self.expect("--into", into.returncode == 0 and len(list((self.work / "wheels").iterdir())) == len(wheels), into)
            through, options = ["unshare", "--map-root-user", "--net"], ["--from", "wheels"]
            fetched = self.run(CUDARUN, "fetch", "--yes", *options, *self.words, through=through)
            self.expect("--from, without network", fetched.returncode == 0, fetched)
        begun = time.monotonic()
        started = self.run(CUDARUN, "--fetch", "--yes", *self.words, through=through)
        took = time.monotonic() - begun
        self.expect("it starts", started.returncode == 0 and "cu" in started.stdout.lower(), started)
        again = self.run(CUDARUN, *self.words, through=["unshare", "--map-root-user", "--net"])
        self.expect("it starts again, without network", again.stdout == started.stdout, again)
        none = self.run(CUDARUN, "fetch", *self.words)
        self.expect("nothing more to fetch", none.returncode == 0 and "nothing to fetch" in none.stderr, none)
        if name := {"ctranslate2": "nccl", "cupy": "cutensor"}.get(self.name):
            says = f"lib{name}.so.2", " not installed", f"--require {name} "
            self.expect(f"{name}, which it works without, is named", all(one in none.stderr for one in says), none)
            asked = self.run(CUDARUN, "fetch", "--dry-run", "--require", name, *self.words)
            self.expect(f"{name} is offered to who asks", asked.returncode == 0 and f"{name}-cu12" in asked.stdout, asked)
        self.expect(f"as recorded: {self.not_as_recorded()}", not self.not_as_recorded(), started)
        if self.way == "directory":
            self.restore(through, options)
        for place in [self.store, self.work / "other", self.work / "wheels"]:
            subprocess.run(["chmod", "-R", "u+w", place], stderr=subprocess.DEVNULL)
            shutil.rmtree(place, ignore_errors=True)
        size = sum(wheel["size"] for wheel in wheels) / 1e9
        verdict = "ok" if not self.faults else "FAULT"
        print(f"{verdict}  {self.name}: {len(wheels)} wheels, {size:.1f} GB by {self.way}, {took:.0f} s: {started.stdout.strip()}")
        for fault in self.faults:
            print(f"    {fault}")
        Case.failures += bool(self.faults)

    def restore(self, through, options):
        """A lock names the wheels by hash, and another machine with it gets the very set."""
        recorded = self.run(CUDARUN, "record", *self.words)
        lock = (self.work / ".cudarun.lock").read_text()
        stored = {path.name for path in (self.store / "cudarun" / "store").iterdir() if len(path.name) == 64}
        self.expect("the lock has the hashes", all(name in lock for name in stored), recorded)
        other = self.work / "other"
        refused = self.run(CUDARUN, "--locked", *self.words, store=other)
        self.expect("the control: the lock is refused without them", refused.returncode == 125, refused)
        got = self.run(CUDARUN, "fetch", "--yes", "--locked", *options, *self.words, through=through, store=other)
        self.expect("the set of the lock is fetched", got.returncode == 0, got)
        there = {path.name for path in (other / "cudarun" / "store").glob("?" * 64)}
        self.expect(f"the very set: {there ^ stored}", there == stored, got)
        locked = self.run(CUDARUN, "--locked", *self.words, store=other)
        self.expect("it starts with the lock", locked.returncode == 0, locked)


def main():
    with tempfile.TemporaryDirectory(prefix="cudarun-fetch-") as work:
        for name in sys.argv[2:] or CASES:
            if name in LARGE and os.environ.get("CUDARUN_REAL_LARGE") != "1":
                print(f"skipped  {name}: CUDARUN_REAL_LARGE is not 1")
                continue
            Case(Path(work), name).check()
    sys.exit(f"{Case.failures} cases fail" if Case.failures else 0)


if __name__ == "__main__":
    main()
