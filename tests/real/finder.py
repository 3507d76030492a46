"""Against NVIDIA's own finder, cuda-pathfinder: tests/real/finder.py PATH-TO-cudarun

Two environments hold the wheels of every library that the finder knows and that the package index has, one for CUDA
12 and one for CUDA 13.

- Every file that the finder finds there must be in `cudarun list`.
- So must every other library of these wheels: sublibraries, plug-ins, what the finder has no name for.
- Every name that the finder knows must belong to a family of profiles/libraries.toml, whether a wheel brings it or not.

The finder's public function loads what it finds, which needs a driver; its own first step only looks, so that step
is called by name. That is why its version is pinned.
"""

import json
import os
import subprocess
import sys
import tomllib
from fnmatch import fnmatchcase

from wheels import HERE, kept_environment, libraries, listed, rows

FIND = """
import json
from cuda.pathfinder._dynamic_libs.lib_descriptor import LIB_DESCRIPTORS
from cuda.pathfinder._dynamic_libs.search_steps import SearchContext, find_in_site_packages
found = {}
for name, descriptor in LIB_DESCRIPTORS.items():
    if descriptor.linux_sonames:
        result = find_in_site_packages(SearchContext(descriptor))
        found[name] = [list(descriptor.linux_sonames), result and result.abs_path]
print(json.dumps(found))
"""
# So many names it finds, and so many libraries there are, on 2026-11-21. With fewer an environment lacks wheels.
ENVIRONMENTS = {"cuda12": (43, 77), "cuda13": (44, 76)}
# Names that are in no family, on purpose: profiles/libraries.toml says why.
NOT_OURS = {"nvpl_fftw"}
# Modules of Python, and plug-ins that only the library beside them opens, by path.
NOT_LIBRARIES = ["*.cpython-*", "*/nvimgcodec/extensions/*"]


def main():
    cudarun = os.path.abspath(sys.argv[1])
    failures, nowhere = [], None
    for name, (least_names, least_files) in ENVIRONMENTS.items():
        python = python_of(name)
        known = json.loads(subprocess.run([python, "-I", "-c", FIND], check=True, capture_output=True).stdout)
        found = {library: path for library, (_, path) in known.items() if path}
        files = [path for path in map(str, libraries(python.parents[1])) if not any_of(NOT_LIBRARIES, path)]
        copies = listed(cudarun, "list", "--python", python)["installations"]
        ours = {os.path.realpath(file["path"]) for copy in copies for file in copy["files"]}

        lacking = [f"{library}: expected {path} to be listed, got nothing" for library, path in found.items()
                   if os.path.realpath(path) not in ours]
        lacking += [f"expected {path} to be listed, got nothing" for path in files
                    if os.path.realpath(path) not in ours and path not in found.values()]
        if len(found) < least_names or len(files) < least_files:
            counts = f"expected {least_names} names and {least_files} files, got {len(found)} and {len(files)}"
            lacking.append(f"{name}: {counts}")
        print("FAIL" if lacking else "ok", f" {name}: {len(found)} of {len(known)} names of the finder,", end=" ")
        print(f"{len(files)} libraries in all")
        failures += lacking
        nowhere = (nowhere or known.keys()) - found.keys()
    print("    in neither:", ", ".join(sorted(nowhere)))
    failures += without_family(known)
    for failure in failures:
        print("     ", failure)
    return bool(failures)


def without_family(known):
    """What is wrong with the SONAMEs that the finder asks for."""
    families = tomllib.loads((HERE / "../../profiles/libraries.toml").read_text())["family"]
    members = [pattern for family in families for pattern in family["members"]]
    return [
        f"{library}: expected a family for {soname}, got none"
        for library, (sonames, _) in known.items()
        for soname in sonames
        if library not in NOT_OURS and not any_of(members, soname.split(".so")[0])
    ]


def any_of(patterns, text):
    return any(fnmatchcase(text, pattern) for pattern in patterns)


def python_of(name):
    """The Python of this environment of wheels.txt."""
    return kept_environment(name, [row[0] for row in rows("wheels.txt") if name in row[1:] or "both" in row[1:]])


if __name__ == "__main__":
    sys.exit(main())
