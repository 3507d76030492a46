"""Reads a program's output and a plan (`cudarun explain --json`): is what was mapped one copy of each family?

With a plan, every mapped file must be one of the plan's. Without, two directories for one family are the fault.
Prints one line, the files by directory, and exits with 0 when all is well.
"""

import collections
import json
import os
import re
import sys


def family(path):
    """Two stems of one family stand in one directory; the driver is told by its files' common directory."""
    stem = re.match(r"lib(cudnn|cublas|nvblas|nvrtc|cufft|cusolver|cusparseLt|cusparse|cufile)?", os.path.basename(path))
    return stem.group(1) or os.path.basename(path).split(".so")[0]


def main():
    output, plan = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else None
    with open(output, errors="replace") as file:
        mapped = sorted({os.path.realpath(line.strip()) for line in file if line.startswith("/") and ".so" in line})
    where = collections.defaultdict(set)
    for path in mapped:
        where[family(path)].add(os.path.dirname(path))
    mixed = {name: sorted(places) for name, places in where.items() if len(places) > 1}
    if mixed:
        print("mixed:", "; ".join(f"{name} from {' and '.join(places)}" for name, places in mixed.items()))
        return 1
    if plan is not None:
        with open(plan) as file:
            picked = {os.path.realpath(f["path"]) for row in json.load(file)["families"] for f in row["picked"]["files"]}
        foreign = [path for path in mapped if path not in picked]
        if foreign:
            print("not in the plan:", " ".join(foreign))
            return 1
    print(f"{len(mapped)} files: {by_directory(mapped)}" if mapped else "no NVIDIA file mapped")
    return 0 if mapped else 1


def by_directory(paths):
    """`libcuda.so.1 from /usr/lib; …`: what was mapped, short enough for a row of a table."""
    names = collections.defaultdict(list)
    for path in paths:
        names[re.sub(".*/site-packages/", "", os.path.dirname(path))].append(os.path.basename(path))
    return "; ".join(f"{' '.join(files)} from {directory}" for directory, files in names.items())


sys.exit(main())
