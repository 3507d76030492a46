#!/usr/bin/env python3
"""What `cudarun advise` says, against a resolver: tests/real/advise.py CUDARUN

For each machine and packages, the advised command is resolved from the index for that Python and kind of machine, wheels only: by uv,
which reads metadata by ranges and downloads no wheel. It must resolve, with every release that the answer names, and with no
NVIDIA library of a CUDA major that the driver does not run. Two questions have no answer; the one that is named next to each has one.

Asks as many questions as it can in 45 seconds, or all if CUDARUN_REAL_LARGE is 1.
"""

import json
import os
import re
import subprocess
import sys
import time
import venv

from wheels import CACHE, alone

# Driver, compute capability, Python, machine, packages.
QUESTIONS = """
580.65.05  9.0   3.12  x86_64   cudf-cu13
580.95.05  9.0   3.12  x86_64   cudf-cu12 cupy-cuda13x
580.95.05  9.0   3.12  x86_64   vllm
580.95.05  9.0   3.13  aarch64  vllm
550.54.15  9.0   3.12  x86_64   vllm
550.54.15  8.0   3.10  x86_64   vllm
525.60.13  8.6   3.12  x86_64   vllm
580.95.05  7.0   3.12  x86_64   vllm
580.95.05  9.0   3.12  x86_64   sglang
550.54.15  9.0   3.12  x86_64   sglang
580.95.05  9.0   3.12  x86_64   vllm bitsandbytes
580.95.05  12.0  3.14  x86_64   torch torchvision torchaudio
580.95.05  9.0   3.12  aarch64  torch torchvision
580.95.05  9.0   3.12  x86_64   xformers
550.54.15  8.0   3.11  x86_64   xformers bitsandbytes
580.95.05  8.9   3.12  x86_64   bitsandbytes torchao
550.54.15  8.9   3.12  x86_64   torchao
580.95.05  9.0   3.12  x86_64   flashinfer-python
550.54.15  9.0   3.12  x86_64   sgl-kernel
580.95.05  9.0   3.12  x86_64   sglang-kernel
580.95.05  9.0   3.12  x86_64   transformer-engine
550.54.15  9.0   3.12  aarch64  transformer-engine
580.95.05  9.0   3.12  x86_64   onnxruntime-gpu torch
550.54.15  7.5   3.12  x86_64   onnxruntime-gpu
470.82.01  7.5   3.10  x86_64   onnxruntime-gpu
580.95.05  9.0   3.12  x86_64   jax
550.54.15  9.0   3.13  aarch64  jax
550.54.15  8.0   3.12  x86_64   tensorflow
580.95.05  9.0   3.12  x86_64   cudf-cu13 cuml-cu13 cupy-cuda13x
550.54.15  7.0   3.12  x86_64   cuml-cu12 jax
550.54.15  8.0   3.12  x86_64   faiss-gpu-cu12 ctranslate2
580.65.06  9.0   3.12  x86_64   cudf-cu13
"""
IMPOSSIBLE = 2
SECONDS = 45


def uv():
    """The resolver, in an environment of its own."""
    home = CACHE / "environments" / "uv"
    with alone("uv"):
        if not (home / "bin" / "uv").exists():
            venv.create(home, with_pip=True, clear=True)
            subprocess.run([home / "bin" / "pip", "install", "--quiet", "uv"], check=True)
    return home / "bin" / "uv"


def advised(cudarun, words):
    run = subprocess.run([cudarun, "advise", "--json", *words], capture_output=True, text=True)
    return run.returncode, json.loads(run.stdout)


def normalised(name):
    return re.sub(r"[-_.]+", "-", name).lower()


def resolved(resolver, requirements, python, machine):
    """The versions by name, or the resolver's words."""
    words = ["pip", "compile", "-", "--no-header", "--no-annotate", "--quiet", "--only-binary", ":all:"]
    words += ["--python-version", python, "--python-platform", f"{machine}-manylinux_2_35"]
    run = subprocess.run([resolver, *words], input="\n".join(requirements), capture_output=True, text=True)
    if run.returncode != 0:
        return None, run.stderr.strip()
    return dict(line.split("==") for line in run.stdout.split() if "==" in line), ""


def faults(cudarun, resolver, driver, gpu, python, machine, packages):
    options = ["--driver", driver, "--gpu", gpu, "--python", python, "--machine", machine]
    status, answer = advised(cudarun, [*options, *packages])
    if status == 1:
        words = answer["next"].split()[2:]
        again, other = advised(cudarun, words)
        return "none", [] if again == 0 and other["releases"] else [f"its next question has no answer: {answer['next']}"]
    releases = answer["releases"]
    named = [one for one in releases if one["role"] != "required" and not one["source_only"]]
    if any(one["backend"] for one in releases):
        return "vendor", ["the index of a vendor cannot be read here"]
    requirements = [
        f"{one['name']}{'[' + one['extra'] + ']' if one['extra'] else ''}=={one['version']}" for one in named
    ]
    versions, words = resolved(resolver, requirements, python, machine)
    if versions is None:
        return "unresolved", [words]
    found = []
    for one in releases:
        own = versions.get(normalised(one["name"]))
        # What is only required may have a newer patch than the table.
        if own != one["version"] and (own is None or one["role"] != "required"):
            found.append(f"{one['name']} {one['version']} is {own}")
    newest = 13 if tuple(map(int, driver.split("."))) >= (580, 65, 6) else 12
    for name, version in versions.items():
        major = re.fullmatch(r"nvidia-(?:cuda-runtime|cublas|cudnn|nvjitlink)-cu(\d\d)", name)
        major = int(major[1]) if major else int(version.split(".")[0]) if name == "cuda-toolkit" else 0
        if major > newest:
            found.append(f"{name} {version} is for a CUDA that driver {driver} does not run")
    return ", ".join(requirements), found


def main():
    cudarun, resolver = sys.argv[1], uv()
    count = impossible = bad = 0
    end = time.monotonic() + SECONDS
    questions = QUESTIONS.strip().splitlines()
    for line in questions:
        if os.environ.get("CUDARUN_REAL_LARGE") != "1" and time.monotonic() > end:
            break
        driver, gpu, python, machine, *packages = line.split()
        said, found = faults(cudarun, resolver, driver, gpu, python, machine, packages)
        count += 1
        impossible += said == "none"
        bad += bool(found)
        print(f"{'FAULT' if found else 'ok'}  {line}: {said}", flush=True)
        for one in found:
            print(f"    {one}")
    print(f"{count} of {len(questions)} questions, {impossible} without an answer, {bad} faults")
    sys.exit(bad > 0 or count == len(questions) and impossible != IMPOSSIBLE)


if __name__ == "__main__":
    main()
