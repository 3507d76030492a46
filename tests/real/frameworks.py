"""What frameworks record of how they were built: tests/real/frameworks.py PATH-TO-cudarun [--all] [--self-test] [NAME…]

Each row of frameworks.txt is a wheel on the Python package index. The files of it that matter are laid out as
site-packages, and `cudarun explain` is asked about a program that imports the package. What it reads is compared with
what the readers below find in the same files, by other means: readelf, objdump and nm, Python's own parser, a walk of
their own over the fat binaries; and with the table, where that says something. PyTorch's libtorch_cuda.so is left out:
the build record lists more than its code, and libc10_cuda.so has that search path too.

By itself it takes the rows that are marked `small`, 160 MB in all, which are kept. With --all it takes every
row, one wheel after the other, throws the large ones away, and writes docs/frameworks.md: some 9 GB. A part of a
wheel's name besides takes only the rows that have it, and leaves the others in that page as they are.
With --self-test, which the others include, a file is changed and what cudarun reads must change with it.
"""

import ast
import datetime
import fcntl
import fnmatch
import json
import mmap
import os
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from remote import TAGS, Index, NoRanges
from wheels import CACHE, HERE, pretend, rows

KEPT = CACHE / "frameworks"
DOCUMENT = HERE.parent.parent / "docs" / "frameworks.md"
COLUMNS = ["cuda", "floor", "pin", "gpus", "path", "cpu"]
# A small wheel is fetched whole where ranges are not to be had, a large one only with --all.
SMALL = 60 << 20


class Kind:
    """How the wheels of one framework are read here. `files` are those that matter, `main` is the object whose search
    path counts, `loader` the one that loads that, whose DT_RPATH counts too, and `name` what cudarun calls it."""

    def __init__(self, name, module, files, main=None, loader=None, **readers):
        self.name, self.module, self.main, self.loader = name, module, main, loader
        self.files = ["*.dist-info/METADATA", "*.dist-info/RECORD", *files]
        self.readers = readers


# Python's parser, where cudarun looks at lines.


def assigned(site, pattern, name):
    for file in matching(site, pattern):
        for node in ast.walk(ast.parse(file.read_bytes())):
            targets = [node.target] if isinstance(node, ast.AnnAssign) else getattr(node, "targets", [])
            if any(getattr(target, "id", None) == name for target in targets) and isinstance(node.value, ast.Constant):
                return node.value.value
    return None


def build_info(site):
    for file in matching(site, "tensorflow/python/platform/build_info.py"):
        for node in ast.walk(ast.parse(file.read_bytes())):
            if isinstance(node, ast.Call) and node.args:
                return dict(ast.literal_eval(node.args[0]))
    return {}


def macros(site, pattern):
    text = "".join(file.read_text(errors="replace") for file in matching(site, pattern))
    return dict(re.findall(r"^[ \t]*#[ \t]*define[ \t]+(\w+)[ \t]+(.+?)[ \t]*$", text, re.M))


# binutils, where cudarun decodes.


def tool(*command):
    return subprocess.run(list(map(str, command)), capture_output=True, text=True, check=True).stdout


def search_path(file):
    """`rpath`, `runpath` or `-`, and the directories."""
    found = dict(re.findall(r"\((RPATH|RUNPATH)\)\s+Library \w+: \[(.*)\]", tool("readelf", "-dW", file)))
    # A DT_RUNPATH makes the loader overlook a DT_RPATH beside it.
    for kind in ["RUNPATH", "RPATH"]:
        if kind in found:
            return kind.lower(), found[kind].split(":")
    return "-", []


def compiled(site):
    """What torch's getCompileVersion puts into its three fields, from the disassembly."""
    for file in matching(site, "torch/lib/libtorch_python.so"):
        symbols = [line.split() for line in tool("nm", "-S", file).splitlines() if "getCompileVersionEv" in line]
        if not symbols:
            continue
        start, size = int(symbols[0][0], 16), int(symbols[0][1], 16)
        code = tool("objdump", "-d", "--no-show-raw-insn", f"--start-address={start}", f"--stop-address={start + size}", file)
        fields = {}
        for value, offset in re.findall(r"movq?\s+\$0x([0-9a-f]+),(?:0x([0-9a-f]+))?\(%rdi\)", code):
            fields[int(offset or "0", 16)] = int(value, 16)
        for address in re.findall(r"movdqa\s+.*#\s+([0-9a-f]+)", code):
            at = int(address, 16)
            dump = tool("objdump", "-s", f"--start-address={at}", f"--stop-address={at + 16}", file)
            words = bytes.fromhex("".join(re.findall(r"^ [0-9a-f]+ ((?:[0-9a-f]{8} ){4})", dump, re.M)).replace(" ", ""))
            fields[0], fields[8] = struct.unpack("<QQ", words)
        if {0, 8, 16} <= fields.keys():
            return f"{fields[16]}.{fields[8]}.{fields[0]}"
    return None


def handed_over(site):
    """The constants that jax's _versions module makes Python numbers of, in order."""
    for file in matching(site, "jax_cuda*_plugin/_versions.so"):
        code = tool("objdump", "-d", "--no-show-raw-insn", file)
        pairs = re.findall(r"mov\s+\$0x([0-9a-f]+),%edi\n[^\n]*call\s+[^\n]*<PyLong_From\w+", code)
        return [value for value in (int(pair, 16) for pair in pairs) if value > 3]
    return []


def gpu_code(site, *patterns):
    """The first of the patterns that has files counts, all of them together."""
    for pattern in patterns:
        found = set()
        for file in matching(site, pattern):
            found |= entries(file)
        if found:
            return found
    return set()


def entries(file):
    """Every entry of every fat binary in a file, wherever it stands."""
    found = set()
    if file.stat().st_size == 0 or file.read_bytes()[:4] != b"\x7fELF":
        return found
    with open(file, "rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as data:
        at = 0
        while (at := data.find(b"\x50\xed\x55\xba\x01\x00\x10\x00", at)) >= 0:
            (size,) = struct.unpack_from("<Q", data, at + 8)
            inner, end = at + 16, at + 16 + size
            if size == 0 or end > len(data):
                at += 4
                continue
            while inner + 64 <= end:
                kind, _, header, payload = struct.unpack_from("<HHIQ", data, inner)
                (number,) = struct.unpack_from("<I", data, inner + 28)
                (flags,) = struct.unpack_from("<Q", data, inner + 40)
                if header < 64:
                    break
                suffix = "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""
                if kind in (1, 2) and 10 <= number < 1000:
                    found.add(("sm_" if kind == 2 else "compute_") + f"{number}{suffix}")
                inner += header + payload
            at = end
    return found


def matching(site, pattern):
    """The files below `site`, by a pattern in which a star does not cross a directory."""
    return sorted(path for path in site.glob(pattern) if path.is_file())


def linked(site, pattern):
    """Whether any of these objects needs a library of NVIDIA's."""
    needs = "".join(tool("readelf", "-dW", file) for file in matching(site, pattern))
    return bool(re.search(r"NEEDED.*\[lib(cu|nv|nccl)", needs))


def local(text, word="cu"):
    digits = re.search(rf"\+{word}(\d\d)(\d)$", text or "")
    return f"{digits.group(1)}.{digits.group(2)}" if digits else None


def torch_flags(site):
    flags = macros(site, "torch/include/ATen/cuda/CUDAConfig.h").get("NVCC_FLAGS_EXTRA", "")
    return set(re.findall(r"code=((?:sm|compute)_\d+[af]?)", flags))


def tensorflow_code(site):
    names = build_info(site).get("cuda_compute_capabilities", [])
    return set(names) | {name.replace("compute", "sm") for name in names}


def tensorflow_floor(site):
    found = macros(site, "tensorflow/include/third_party/gpus/cudnn/include/cudnn_version.h")
    numbers = [found.get(f"CUDNN_{part}") for part in ["MAJOR", "MINOR", "PATCHLEVEL"]]
    return ".".join(numbers) if all(numbers) else None


def jax_cuda(site):
    constants = handed_over(site)
    return f"{constants[0] // 1000}.{constants[0] % 1000 // 10}" if constants else None


def jax_floor(site):
    constants = handed_over(site)
    if not constants:
        return None
    number = constants[1]
    major, rest = divmod(number, 1000 if number < 10000 else 10000)
    return f"{major}.{rest // 100}.{rest % 100}"


def cupy(site, *keys):
    for file in matching(site, "cupy/.data/_wheel.json"):
        value = json.loads(file.read_text())
        for key in keys:
            value = value.get(key) if isinstance(value, dict) else None
        return value
    return None


def packed(site):
    names = [file.name for file in matching(site, "ctranslate2.libs/libcudnn-*")]
    return names[0].split(".so.")[1] if names else None


def named(site, pattern):
    """The digits that a distribution's name ends with."""
    for directory in site.glob("*.dist-info"):
        name = directory.name.split("-")[0].lower()
        if found := re.search(pattern, name):
            digits = found.group(1)
            return f"{digits[:2]}.{digits[2:] or 0}"
    return None


def bounds(site, operator):
    """What the METADATA says of cuDNN, whatever the extra."""
    for file in matching(site, "*.dist-info/METADATA"):
        header = file.read_text(errors="replace").split("\n\n")[0]
        for line in re.findall(r"^Requires-Dist:\s*(nvidia-cudnn[-\w]*[^;\n]*)", header, re.M):
            if found := re.search(rf"{operator}\s*(\d[\d.]*\d)", line):
                return found.group(1)
    return None


PLUGIN = "jax_cuda*_plugin/*"
PJRT = "jax_plugins/*"
ORT = "onnxruntime/capi/libonnxruntime_providers_cuda.so"
KINDS = {
    "torch": Kind(
        "torch", "torch", ["torch/__init__.py", "torch/version.py", "torch/include/ATen/cuda/CUDAConfig.h",
        "torch/lib/libtorch_python.so", "torch/lib/libc10_cuda.so", "torch/lib/libcaffe2_nvrtc.so"],
        main="torch/lib/libc10_cuda.so",
        cuda=lambda site: assigned(site, "torch/version.py", "cuda"), floor=compiled, gpus=torch_flags,
        cpu=lambda site: assigned(site, "torch/version.py", "cuda") is None,
    ),
    "torchvision": Kind(
        "torchvision", "torchvision", ["torchvision/*"],
        cuda=lambda site: local(assigned(site, "torchvision/version.py", "__version__")),
        gpus=lambda site: gpu_code(site, "torchvision/_C*.so"),
    ),
    "torchaudio": Kind(
        "torchaudio", "torchaudio", ["torchaudio/*"],
        cuda=lambda site: local(assigned(site, "torchaudio/version.py", "__version__")),
        gpus=lambda site: gpu_code(site, "torchaudio/lib/*.so"),
    ),
    "tensorflow": Kind(
        "tensorflow", "tensorflow", ["tensorflow/__init__.py", "tensorflow/python/platform/build_info.py",
        "tensorflow/include/third_party/gpus/cuda/cuda_config.h", "tensorflow/libtensorflow_framework.so.2",
        "tensorflow/include/third_party/gpus/cudnn/include/cudnn_version.h"],
        main="tensorflow/libtensorflow_framework.so.2",
        cuda=lambda site: build_info(site).get("cuda_version"), floor=tensorflow_floor, gpus=tensorflow_code,
        cpu=lambda site: not build_info(site).get("is_cuda_build"),
    ),
    "jax": Kind(
        "jax", "jax_plugins", [PLUGIN, PJRT], main="jax_cuda*_plugin/_versions.so", cuda=jax_cuda, floor=jax_floor,
        gpus=lambda site: gpu_code(site, "jax_plugins/xla_cuda*/xla_cuda_plugin.so", "jax_cuda*_plugin/_*.so"),
        cpu=lambda site: not list(site.glob("jax_cuda*_plugin")),
    ),
    "jaxlib": Kind(
        "jax", "jaxlib", ["jaxlib/__init__.py", "jaxlib/version.py", "jaxlib/utils.so", "jaxlib/cpu/*", "jaxlib/cuda/*"],
        cpu=lambda site: not (list(site.glob("jax_cuda*_plugin")) or list(site.glob("jaxlib/cuda/_*.so"))),
    ),
    "onnxruntime": Kind(
        "onnxruntime", "onnxruntime", ["onnxruntime/__init__.py", "onnxruntime/capi/*.py", ORT], main=ORT,
        cuda=lambda site: assigned(site, "onnxruntime/capi/build_and_package_info.py", "cuda_version"),
        gpus=lambda site: gpu_code(site, ORT), cpu=lambda site: not (site / ORT).exists(),
    ),
    "ctranslate2": Kind(
        "ctranslate2", "ctranslate2", ["ctranslate2/*", "ctranslate2.libs/*"], main="ctranslate2.libs/libctranslate2-*",
        loader="ctranslate2/_ext*.so",
        floor=packed, gpus=lambda site: gpu_code(site, "ctranslate2.libs/libctranslate2-*"),
    ),
    "cupy": Kind(
        "cupy", "cupy", ["cupy/__init__.py", "cupy/.data/*", "cupy/cuda/*.so", "cupy_backends/cuda/libs/*.so"],
        main="cupy_backends/cuda/libs/cusolver.*.so",
        cuda=lambda site: (cupy(site, "cuda") or "").replace("x", "0") or None,
        floor=lambda site: cupy(site, "cudnn", "version"), gpus=lambda site: gpu_code(site, "cupy/cuda/thrust.*.so"),
    ),
    "paddle": Kind(
        "paddle", "paddle", ["paddle/__init__.py", "paddle/version/__init__.py", "paddle/libs/libphi.so",
        "paddle/fluid/libpaddle.so", "paddle/base/libpaddle.so"], main="paddle/*/libp*.so",
        cuda=lambda site: none(assigned(site, "paddle/version/__init__.py", "cuda_version")),
        floor=lambda site: none(assigned(site, "paddle/version/__init__.py", "cudnn_version")),
        gpus=lambda site: gpu_code(site, "paddle/libs/libphi.so", "paddle/fluid/libpaddle.so"),
        cpu=lambda site: assigned(site, "paddle/version/__init__.py", "cuda_version") == "False",
    ),
    "mxnet": Kind(
        "mxnet", "mxnet", ["mxnet/__init__.py", "mxnet/libmxnet.so"], main="mxnet/libmxnet.so",
        cuda=lambda site: named(site, r"cu(\d+)$"), gpus=lambda site: gpu_code(site, "mxnet/libmxnet.so"),
    ),
    "bitsandbytes": Kind(
        "bitsandbytes", "bitsandbytes", ["bitsandbytes/__init__.py", "bitsandbytes/*.so"],
        main="bitsandbytes/libbitsandbytes_cuda12*.so",
        gpus=lambda site: gpu_code(site, "bitsandbytes/libbitsandbytes_cuda*.so"),
        cpu=lambda site: not list(site.glob("bitsandbytes/libbitsandbytes_cuda*")),
    ),
    "faiss": Kind(
        "faiss", "faiss", ["faiss/*", "faiss*.libs/*"], main="faiss*/*aiss*.so", loader="faiss/*.so",
        cuda=lambda site: named(site, r"gpu_cu(\d+)$"),
        gpus=lambda site: gpu_code(site, "faiss_gpu*.libs/libfaiss*", "faiss/_swigfaiss*.so"),
        cpu=lambda site: not (linked(site, "faiss/*.so") or linked(site, "faiss*.libs/*")),
    ),
    "tensorrt": Kind(
        "tensorrt", "tensorrt_bindings", ["tensorrt_bindings/*"], main="tensorrt_bindings/tensorrt.so",
        cuda=lambda site: named(site, r"cu(\d+)_bindings$"),
    ),
    "triton": Kind("triton", "triton", ["triton/__init__.py", "triton/backends/nvidia/driver.py"]),
    "xgboost": Kind(
        "xgboost", "xgboost", ["xgboost/__init__.py", "xgboost/VERSION", "xgboost/lib/*"], main="xgboost/lib/libxgboost.so",
        gpus=lambda site: gpu_code(site, "xgboost/lib/libxgboost.so"),
        cpu=lambda site: not gpu_code(site, "xgboost/lib/libxgboost.so"),
    ),
    "numba-cuda": Kind("numba-cuda", "numba_cuda", ["numba_cuda/__init__.py", "numba_cuda/numba/cuda/cext/*"]),
    "vllm": Kind("vllm", "vllm", ["vllm/__init__.py", "vllm/_C*.so"], gpus=lambda site: gpu_code(site, "vllm/_C*.so")),
    "xformers": Kind(
        "xformers", "xformers", ["xformers/__init__.py", "xformers/_C*.so"],
        gpus=lambda site: gpu_code(site, "xformers/_C*.so"),
    ),
}


def none(value):
    return None if value in (None, "False") else value


class Row:
    """A line of the table: WHEEL KIND PYTHON, six columns that are `?` where only the readers decide, and options."""

    def __init__(self, words):
        self.wheel, kind, self.python, *rest = words
        self.kind = KINDS[kind]
        self.expected = dict(zip(COLUMNS, rest[: len(COLUMNS)]))
        self.options = dict(option.partition("=")[::2] for option in rest[len(COLUMNS) :])
        self.small = "small" in self.options
        self.machine = self.options.get("machine", "x86_64")

    @property
    def title(self):
        return "==".join(self.cells())

    @property
    def module(self):
        plugin = re.match(r"jax-(cuda\d+)-plugin", self.wheel)
        return f"jax_{plugin.group(1)}_plugin" if plugin else self.kind.module

    def cells(self):
        name, version = self.wheel.split("==")
        which = self.options.get("machine") or self.options.get("tag")
        return name, f"{version} ({which})" if which else version

    def place(self):
        tag = self.options.get("tag")
        return KEPT / "-".join(filter(None, [self.wheel, self.python, self.machine, tag]))

    def fetch(self, everything):
        """The directory with the files that matter, and how many bytes came over the network."""
        final = self.place()
        if final.is_dir():
            return final, 0
        partial = final.with_name("partial-" + final.name)
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir(parents=True)
        index = index_for(self.python, self.machine, self.options.get("tag"))
        fetched = 0
        for wheel in [self.wheel, *filter(None, [self.options.get("with")])]:
            wanted = [re.compile(fnmatch.translate(pattern)) for pattern in self.kind.files]
            count, _ = index.members(
                index.find(wheel), lambda name: any(it.match(name) for it in wanted), partial, None if everything else SMALL
            )
            fetched += count
        os.rename(partial, final)
        return final, fetched


INDEXES = {}


def index_for(python, machine, tag):
    key = python, machine, tag
    if key not in INDEXES:
        INDEXES[key] = Index(python, machine, [tag] if tag else TAGS)
    return INDEXES[key]


def independent(row, site):
    """What the readers of this script say."""
    read = {key: reader(site) for key, reader in row.kind.readers.items()}
    cpu = bool(read.get("cpu"))
    mains = matching(site, row.kind.main) if row.kind.main else []
    paths = sorted({search_path(file)[0] for file in mains})
    floor = read.get("floor") or bounds(site, r"(?:>=|~=)") if reads_floor(row) else None
    says = {
        "cuda": major_minor(read.get("cuda")), "floor": floor, "pin": bounds(site, "=="),
        "gpus": listed(read.get("gpus") or set()), "path": paths[0] if paths else None, "cpu": "cpu" if cpu else None,
    }
    if cpu:
        says = {key: value if key == "cpu" else None for key, value in says.items()}
    return {key: value or "-" for key, value in says.items()}


def reads_floor(row):
    return row.kind.name in ("torch", "tensorflow", "jax", "onnxruntime", "ctranslate2", "cupy", "paddle")


def major_minor(version):
    return ".".join(version.split(".")[:2]) if version else None


def listed(names):
    """`70,80,+80`: machine code for two, and PTX."""
    order = lambda name: (name.startswith("compute"), int(re.search(r"\d+", name).group()), name)
    return ",".join(name.replace("sm_", "").replace("compute_", "+") for name in sorted(names, key=order)) or None


def asked(cudarun, row, site):
    """What cudarun says, in the same terms."""
    with tempfile.TemporaryDirectory(dir=KEPT) as root:
        pretend(root, row.machine, f"python{row.python}")
        packages = os.path.join(root, "usr", "lib", f"python{row.python}", "site-packages")
        shutil.copytree(site, packages, copy_function=os.link)
        prepare(root, packages, row)
        started = time.monotonic()
        command = [cudarun, "--root", root, "explain", "--json", f"python{row.python}", "-c", f"import {row.module}"]
        env = {"PATH": "/usr/bin:/bin", "HOME": "/nonexistent"}
        run = subprocess.run(command, env=env, capture_output=True, text=True)
        took = time.monotonic() - started
    if run.returncode not in (0, 1):
        raise RuntimeError(f"status {run.returncode}: {run.stderr}")
    target = json.loads(run.stdout)["program"]
    package = next((it for it in target["packages"] if it["name"] == row.kind.name), None)
    if package is None:
        return {"cuda": "-", "floor": "-", "pin": "-", "gpus": "-", "path": "-", "cpu": "-", "missing": True}, took
    of_it = lambda by: by["name"].split(" ")[0] == row.kind.name
    wants = [(it["family"], it["want"], it) for it in target["requirements"] if of_it(it["by"])]
    floors = [want["at-least"] for family, want, _ in wants if family == "cudnn" and "at-least" in want]
    pins = [want["recorded"] for family, want, _ in wants if family == "cudnn" and "recorded" in want]
    codes = [it["demand"]["code"] for it in target["conditions"] if of_it(it["by"]) and "code" in it["demand"]]
    names = [it for _, want, it in wants if "name" in want]
    rpath = any(first["rule"] == "rpath" for it in names for first in it["search_first"])
    says = {
        "cuda": package["cuda"], "floor": only(floors), "pin": only(pins), "gpus": listed(set(sum(codes, []))),
        "path": "rpath" if rpath else None, "cpu": "cpu" if package["cpu_only"] else None,
    }
    return {key: value or "-" for key, value in says.items()}, took


def prepare(root, packages, row):
    """Every directory that a search path leads to is there, so that it can be seen to count."""
    for file in matching(Path(packages), row.kind.main) if row.kind.main else []:
        for element in search_path(file)[1]:
            origin = str(file.parent)
            path = element.replace("${ORIGIN}", origin).replace("$ORIGIN", origin)
            path = path if path.startswith(root) else root + path if path.startswith("/") else None
            if path:
                os.makedirs(os.path.normpath(path), exist_ok=True)


def only(values):
    distinct = sorted(set(values))
    return distinct[0] if len(distinct) == 1 else "/".join(distinct) or None


def differences(row, here, said):
    """Where cudarun, this script and the table do not say the same."""
    found = []
    if said.pop("missing", False) and here["cpu"] == "-" and not row.options.get("asks") == "nothing":
        found.append("cudarun: the package is not among those that use a GPU")
    for column in COLUMNS:
        mine, its, table = here[column], said[column], row.expected[column]
        is_path = column == "path" and here["cpu"] == "-"
        seen = before_environment(row, mine) if is_path else mine
        if seen != its:
            found.append(f"{column}: the files say {seen}, cudarun {its}")
        if table not in ("?", mine):
            found.append(f"{column}: the files say {mine}, the table {table}")
    return found


def before_environment(row, path):
    """A DT_RUNPATH comes after the environment: that it does not come before is all there is to see."""
    if path == "-" and row.kind.loader and any(search_path(it)[0] == "rpath" for it in matching(row.place(), row.kind.loader)):
        return "rpath"
    return path if path == "rpath" else "-"


def check(cudarun, row, everything):
    site, fetched = row.fetch(everything)
    try:
        here = independent(row, site)
        said, took = asked(cudarun, row, site)
        return here, differences(row, here, dict(said)), fetched, took
    finally:
        size = sum(file.stat().st_size for file in site.rglob("*") if file.is_file())
        if not row.small and size > SMALL:
            shutil.rmtree(site)


def self_test(cudarun, row):
    """A changed file and a wrong expectation must both be seen."""
    site, _ = row.fetch(True)
    here = independent(row, site)
    said, _ = asked(cudarun, row, site)
    with tempfile.TemporaryDirectory(dir=KEPT) as place:
        changed = Path(place) / "site"
        shutil.copytree(site, changed)
        version = changed / "torch" / "version.py"
        version.write_text(version.read_text().replace(f"'{here['cuda']}'", "'99.9'"))
        config = changed / "torch" / "include" / "ATen" / "cuda" / "CUDAConfig.h"
        config.write_text(config.read_text().replace("sm_80", "sm_81"))
        other, _ = asked(cudarun, row, changed)
    seen = differences(row, here, dict(other))
    row.expected = row.expected | {"floor": "1.2.3"}
    wrong = differences(row, here, dict(said))
    holds = len(seen) == 2 and seen[0].endswith("cudarun 99.9") and "81" in seen[1]
    holds = holds and wrong == [f"floor: the files say {here['floor']}, the table 1.2.3"]
    print("ok  " if holds else "FAIL", "self-test: a changed CUDA, a changed list of GPUs and a wrong table are seen")
    if not holds:
        print("    ", seen, wrong)
    return not holds


def table(results):
    """docs/frameworks.md: versions with equal records are one row; what was not asked now keeps its record and date."""
    day = str(datetime.datetime.now(datetime.timezone.utc).date())
    page = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    records = {}
    for line in page.splitlines():
        if re.match(r"\| [a-z0-9-]+ \| \d", line):
            package, versions, *cells = line.strip("| ").split(" | ")
            cells[-1], _, remark = cells[-1].partition(", ")
            record = (*cells, remark or re.search(r"On (\S+), independent", page).group(1))
            records.update({(package, version): record for version in versions.split(", ")})
    for row, here, found in results:
        cells = ["cpu" if here["cpu"] == "cpu" else here["cuda"], *(here[column] for column in COLUMNS[1:-1])]
        records[row.cells()] = (*cells, f"{day}: {'; '.join(found)}" if found else day)
    groups, days = {}, []
    for package, version in (row.cells() for row in map(Row, rows("frameworks.txt"))):
        if (package, version) in records:
            groups.setdefault((package, *records[package, version]), []).append(version)
            days.append(records[package, version][-1])
    usual = max(sorted(set(days)), key=days.count)
    lines = [
        "# Frameworks",
        "",
        "**For which CUDA, cuDNN and GPUs is a version of a framework built?** This is what `cudarun explain PROGRAM` reads in the wheels of the",
        f"Python package index. On {usual}, independent readers of the same files found the same, unless a row says otherwise.",
        "",
        "- *floor*: the cuDNN that it was compiled with, or the oldest that its metadata allows. Older ones do not work.",
        "- *pin*: the cuDNN that its metadata names with `==`. Upstream tested with it, so it is a preference.",
        "- *GPUs*: `90` is machine code for compute capability 9.0, `+90` PTX that the driver compiles for newer ones.",
        "- *path*: the search path of its main object. A DT_RPATH comes before `LD_LIBRARY_PATH`, a DT_RUNPATH after it.",
        "- `-`: nothing is recorded. *cpu*: a build without CUDA.",
        "",
        "`tests/real/frameworks.py --all` writes this page from `tests/real/frameworks.txt`; do not edit it.",
        "",
        "| package | versions | CUDA | floor | pin | GPUs | path |",
        "|---|---|---|---|---|---|---|",
    ]
    parts = lambda version: [int(part) for part in re.findall(r"\d+", version)]
    grouped = [(package, sorted(versions, key=parts), cells) for (package, *cells), versions in groups.items()]
    for package, versions, (*cells, remark) in sorted(grouped, key=lambda it: (it[0], parts(it[1][0]))):
        cells[-1] += "" if remark == usual else f", {remark}"
        lines.append("| " + " | ".join([package, ", ".join(versions), *cells]) + " |")
    DOCUMENT.write_text("\n".join(lines) + "\n")


def main():
    cudarun, everything = os.path.abspath(sys.argv[1]), "--all" in sys.argv[2:]
    KEPT.mkdir(parents=True, exist_ok=True)
    # Two runs side by side would tread on each other.
    lock = open(KEPT / "lock", "w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    chosen = [Row(words) for words in rows("frameworks.txt")]
    names = [word for word in sys.argv[2:] if not word.startswith("-")]
    if names:
        chosen = [row for row in chosen if any(name in row.wheel for name in names)]
    elif not everything:
        chosen = [row for row in chosen if row.small]
    failures = self_test(cudarun, Row(next(words for words in rows("frameworks.txt") if "self-test" in words)))
    if "--self-test" in sys.argv[2:]:
        return failures
    results, megabytes, slowest, skipped = [], 0, 0, 0
    for row in chosen:
        try:
            here, found, fetched, took = check(cudarun, row, everything or bool(names))
        except NoRanges:
            skipped += 1
            print(f"skip {row.title}: no single members of a wheel can be fetched here", flush=True)
            continue
        except (LookupError, RuntimeError) as error:
            here, found, fetched, took = dict.fromkeys(COLUMNS, "-"), [str(error)], 0, 0
        results.append((row, here, found))
        megabytes, slowest = megabytes + fetched / 1e6, max(slowest, took)
        failures += bool(found)
        if found or everything or names:
            said = " ".join(f"{column} {here[column]}" for column in COLUMNS if here[column] != "-")
            print("FAIL" if found else "ok  ", f"{row.title}: {said} ({fetched / 1e6:.0f} MB, {took * 1000:.0f} ms)", flush=True)
        for text in found:
            print("     ", text, flush=True)
    agree = sum(not found for _, _, found in results)
    print("ok  " if not failures else "FAIL", end=" ")
    print(f"{agree} of {len(results)} wheels agree", end="")
    print(f"; {megabytes:.0f} MB fetched, no explanation took more than {slowest * 1000:.0f} ms", end="")
    print(f"; {skipped} skipped" if skipped else "")
    if everything:
        table(results)
    return bool(failures)


if __name__ == "__main__":
    sys.exit(main())
