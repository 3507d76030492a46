"""The GPU code of every library, against NVIDIA's own tool: tests/real/gpu_code.py PATH-TO-cudarun

For each library of the environments of finder.py, and for PyTorch's largest, the entries that `cudarun list` counts
by section and architecture are held against two others:

- cuobjdump, which reads two sections. Entry by entry, as multisets, one of its two versions must agree. The newer one
  gives up on files with code for GPUs that it no longer knows; the older one does not know the newest suffixes.
- A walk over the whole file here, in a few lines of its own, since fat binaries stand outside of those two sections
  too, and of these cuobjdump says nothing.

What cuobjdump said is kept in the cache, by its version and by name and size of the library.
"""

import collections
import json
import mmap
import os
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from finder import ENVIRONMENTS, python_of
from wheels import CACHE, listed, part

# In the order in which they are asked.
TOOLS = {
    "13.5": ("nvidia-cuda-cuobjdump==13.5.37", "nvidia/cu13/bin/cuobjdump"),
    "12.4": ("triton==3.1.0", "triton/backends/nvidia/bin/cuobjdump"),
}
TORCH = ("torch==2.11.0", "torch/lib/libtorch_cuda.so")
# Those that must be among the compared, so that this cannot pass by finding nothing.
NAMED = ["libcudnn_ops", "libcudnn_engines_precompiled", "libcublas", "libcublasLt", "libnccl", "libtorch_cuda"]
# The output of cuobjdump.
ITS_SECTIONS = {".nv_fatbin", "__nv_relfatbin"}
# Known to have fat binaries elsewhere too.
ELSEWHERE = ["libcufft", "libcublasLt", "libcutensor", "libcusparseLt"]


def main():
    cudarun = os.path.abspath(sys.argv[1])
    tools = {version: part(*source) for version, source in TOOLS.items()}
    failures, compared, entries, outside = [], collections.Counter(), collections.Counter(), collections.Counter()
    agreed = collections.Counter()
    for name, path, code in libraries(cudarun):
        stem = name.split(".so")[0]
        walked = walk(path)
        if walked != code:
            failures.append(f"{path}: expected {walked}, got {code}")
        if not walked:
            continue
        printed = as_it_prints(code)
        for version, tool in tools.items():
            theirs = cuobjdump(version, tool, path)
            if printed == theirs:
                agreed[version] += 1
                break
        else:
            failures.append(f"{path}: expected {dict(theirs - printed)}, got {dict(printed - theirs)} in place of it")
        compared[stem] += 1
        entries[stem] += printed.total()
        outside[stem] += sum(sum(architectures.values()) for architectures in walked.values()) - printed.total()
    failures += [f"{stem}: expected to be compared, got nothing" for stem in NAMED if not compared[stem]]
    failures += [f"{stem}: expected fat binaries outside of {ITS_SECTIONS}" for stem in ELSEWHERE if not outside[stem]]
    print("FAIL" if failures else "ok", f" {compared.total()} libraries with {entries.total()} entries like", end=" ")
    print("cuobjdump's, by its version:", ", ".join(f"{version} {count}" for version, count in agreed.items()))
    print(f"    and {outside.total()} entries where it does not look")
    for stem in NAMED:
        print(f"    {stem}: {compared[stem]} files, {entries[stem]} entries, {outside[stem]} elsewhere")
    for failure in failures:
        print("     ", failure)
    failures += measure(cudarun, tools["12.4"])
    return bool(failures)


def libraries(cudarun):
    """Name, path and code of each library that cudarun lists."""
    seen = set()
    for name in ENVIRONMENTS:
        for copy in listed(cudarun, "list", "--python", python_of(name))["installations"]:
            # Only the environment's own: what else this machine has is not the same everywhere.
            for file in copy["files"] if str(CACHE) in copy["directory"] else []:
                if file["path"] not in seen:
                    seen.add(file["path"])
                    yield os.path.basename(file["path"]), file["path"], file["code"]
    # `list` shows NVIDIA's libraries: a framework's is looked at under the name of one.
    torch = part(*TORCH)
    with alone(torch, "libcudart.so.13") as root:
        copies = listed(cudarun, "--root", root, "list")["installations"]
        yield torch.name, str(torch), copies[0]["files"][0]["code"]


def alone(path, name):
    """A root in which only this library stands, under this name."""
    root = tempfile.TemporaryDirectory(dir=CACHE)
    directory = Path(root.name, "usr", "lib", "x86_64-linux-gnu")
    directory.mkdir(parents=True)
    os.link(path, directory / name)
    return root


def cuobjdump(version, tool, path):
    """What it lists, as a multiset of architectures in our words; kept, since it takes seconds a library."""
    kept = CACHE / "cuobjdump" / f"{version}-{os.path.basename(path)}-{os.path.getsize(path)}.json"
    if not kept.exists():
        run = subprocess.run([tool, "-all", "-lelf", "-lptx", path], capture_output=True, text=True)
        listed = collections.Counter()
        line = re.compile(r"^(ELF|PTX) file +\d+: .*\.sm_(\d+[af]?)\.(?:cubin|ptx)$", re.MULTILINE)
        for kind, architecture in line.findall(run.stdout):
            # 12.4 says sm_50a of what has no such mark: the suffix came with sm_90.
            if int(architecture.rstrip("af")) < 90:
                architecture = architecture.rstrip("af")
            listed[{"ELF": "sm_", "PTX": "compute_"}[kind] + architecture.rstrip("f")] += 1
        kept.parent.mkdir(exist_ok=True)
        kept.with_suffix(".new").write_text(json.dumps(listed))
        os.replace(kept.with_suffix(".new"), kept)
    return collections.Counter(json.loads(kept.read_text()))


def as_it_prints(code):
    """It reads two sections, and prints no `f`."""
    printed = collections.Counter()
    for section in ITS_SECTIONS & code.keys():
        for architecture, count in code[section].items():
            printed[architecture.rstrip("f")] += count
    return printed


def walk(path):
    """The entries by section and architecture, read here once more: containers in loaded data, entries in these."""
    found = collections.defaultdict(collections.Counter)
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        for name, start, end in sections(data):
            at = data.find(b"\x50\xed\x55\xba", start, end)
            while at >= 0:
                version, header, size = struct.unpack_from("<HHQ", data, at + 4) if at + 16 <= end else (0, 0, 0)
                if (version, header) != (1, 16) or not 0 < size <= end - at - 16:
                    at = data.find(b"\x50\xed\x55\xba", at + 4, end)
                    continue
                entry, last = at + 16, at + 16 + size
                while entry + 64 <= last:
                    kind, header, payload, number, flags = struct.unpack_from("<HxxIQ12xI8xQ", data, entry)
                    # Other kinds are neither machine code nor PTX: what a linker may still compile.
                    if kind in (1, 2):
                        suffix = "a" if flags & 0x100000 else "f" if flags & 0x200000 else ""
                        found[name][f"{['compute', 'sm'][kind - 1]}_{number}{suffix}"] += 1
                    entry += header + payload
                at = data.find(b"\x50\xed\x55\xba", last, end)
    return {section: dict(architectures) for section, architectures in found.items()}


def sections(data):
    """Name, start and end of each section that is loaded, has bytes in the file and is no machine code of the CPU."""
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count, names = struct.unpack_from("<HHH", data, 58)
    headers = [struct.unpack_from("<IIQQQQ", data, table + index * size) for index in range(count)]
    for name, kind, flags, _, start, length in headers:
        if flags & 2 and not flags & 4 and kind != 8:
            begin = headers[names][4] + name
            yield data[begin : data.find(b"\0", begin)].decode(), start, start + length


def measure(cudarun, tool):
    """Listing the largest library of all with what it holds, in milliseconds, and how much longer cuobjdump takes."""
    files = (file for name in ENVIRONMENTS for file in python_of(name).parents[1].rglob("*.so*"))
    largest = max(files, key=os.path.getsize)
    with alone(largest, largest.name) as root, tempfile.TemporaryDirectory() as empty:
        listing = [timed([cudarun, "--root", root, "list", "--json"]) for _ in range(7)]
        nothing = [timed([cudarun, "--root", empty, "list", "--json"]) for _ in range(7)]
    theirs = timed([tool, "-all", "-lelf", "-lptx", largest])
    ours = statistics.median(listing)
    print(f"    {largest.name}, {os.path.getsize(largest) / 1e6:.0f} MB: {ours:.0f} ms to list,", end=" ")
    print(f"{statistics.median(nothing):.0f} ms without it; cuobjdump takes {theirs / ours:.0f} times as long")
    return [] if theirs > 5 * ours else ["listing is to be at least five times as quick as cuobjdump"]


def timed(command):
    start = time.monotonic()
    subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.monotonic() - start) * 1000


if __name__ == "__main__":
    sys.exit(main())
