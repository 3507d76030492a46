"""Current packages beside the torch that they are built for: tests/real/fitting.py PATH-TO-cudarun [NAME…]

An extension module that the loader takes is never called unfit. The environments are those of fitting.txt. In each of them, the
imports work without cudarun; with it they print the same, and neither the start nor `cudarun explain` calls a module unfit.
`explain` lists the packages that the table names, so that silence is an answer. Each module that `cudarun list --extensions`
compares is also opened by itself beside torch, with all of its symbols bound: those that can be opened lack nothing.

Everything is downloaded only if CUDARUN_REAL_LARGE is 1 (25 GB); without it, a line says that nothing was tried. Wheels that no
later row needs are deleted, unless CUDARUN_REAL_KEEP is set or they were there before: it takes less than 14 GB at a time.
"""

import concurrent.futures
import json
import os
import re
import shutil
import subprocess
import sys

import checks
from checks import case
from stacks import slim
from wheels import CACHE, environment, rows, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
IMPORTS = """
import {names}
import sys
for name in "{names}".split(", "):
    print(name, getattr(sys.modules[name], "__version__", None))
"""
# Some packages cannot be imported without a driver, which is not here; their modules are opened with a stand-in. The libraries of
# the driver, and how their symbols begin.
DRIVER = {"libcuda.so.1": "cu[A-Z]", "libnvidia-ml.so.1": "nvml"}
NO_DRIVER = re.compile(r"lib(cuda|nvidia-ml)\.so\.1: cannot open shared object file")
# It asks for its own headers, which are left out of the others.
WHOLE = "cumm-cu126"
# Each module in a process of its own, in which torch is imported and nothing else. A line for each says what is wrong with it.
OPENS = """
import ctypes, os, sys, torch
for path in sys.argv[1:]:
    if not os.fork():
        try:
            ctypes.CDLL(path, os.RTLD_NOW)
            print("", flush=True)
        except OSError as error:
            print(error, flush=True)
        os._exit(0)
    if os.wait()[1]:
        print("it ends the process", flush=True)
"""


def table():
    """The rows: name, modules to import, packages to list as fitting, wheels. `@NAME` among the wheels is a row of them."""
    sets, found = {}, []
    for name, *words in rows("fitting.txt"):
        if name.startswith("@"):
            sets.setdefault(name, []).extend(words)
        else:
            imports, fitting, *wheels = words
            wheels = [wheel for word in wheels for wheel in sets.get(word, [word])]
            found.append((name, imports, set(fitting.split(",")) - {"-"}, wheels))
    return found


def place(wheel):
    return CACHE / ("unpacked" if wheel.startswith(WHOLE) else "slim") / wheel


def fetched(wheel):
    return unpacked(wheel) if wheel.startswith(WHOLE) else slim(wheel)


def start(python, *command, **more):
    root = python.parents[1]
    variables = {"PATH": os.environ["PATH"], "HOME": str(root / "home"), "XDG_CACHE_HOME": str(root / "cache"), **more}
    return subprocess.run([*command], env=variables, capture_output=True, text=True, cwd=root, timeout=600)


def listed(python):
    """The modules that are compared, by path."""
    done = start(python, CUDARUN, "list", "--extensions", "--python", python, "--json")
    return {module["path"]: module for module in json.loads(done.stdout)["extensions"]}


def driver(directory, modules):
    """The driver's libraries with what the modules import, which do nothing."""
    directory.mkdir()
    command = ["readelf", "-W", "--dyn-syms", *modules]
    imported = subprocess.run(command, capture_output=True, text=True, check=True).stdout if modules else ""
    for library, own in DRIVER.items():
        names = sorted(set(re.findall(rf" UND ({own}\w+)", imported)))
        code = "".join(f"void {name}(void) {{}}\n" for name in names)
        command = ["cc", "-shared", f"-Wl,-soname,{library}", "-o", directory / library, "-xc", "-"]
        subprocess.run(command, input=code, text=True, check=True)


def false_alarms(python, modules):
    """The modules that are said to lack something although they can be opened, and how many can."""
    # Some find the libraries beside them only when their package has opened these.
    stub = python.parents[1] / "driver"
    driver(stub, modules)
    beside = ":".join([str(stub), *sorted({os.path.dirname(path) for path in modules})])
    done = start(python, python, "-c", OPENS, *modules, LD_LIBRARY_PATH=beside)
    errors = done.stdout.splitlines()
    if len(errors) != len(modules):
        sys.exit(f"opening modules: {done.stdout}{done.stderr}")
    wrong, opened = [], 0
    for module, error in zip(modules.values(), errors):
        lacks = module["lacks_symbols"] + module["lacks_libraries"]
        opened += not error
        if lacks and not error:
            wrong.append(f"{module['path']} is opened, and is said to lack {lacks}")
        if os.environ.get("SHOW") and (error or lacks):
            print(f"      {module['path']}: lacks {lacks}: {error or 'opened'}")
    return wrong, opened


def row(name, imports, fitting, wheels):
    python, _ = environment("fitting", *wheels)
    code = (python, "-c", IMPORTS.format(names=imports.replace(",", ", ")))
    bare = start(python, *code)
    done = start(python, CUDARUN, *code)
    explained = start(python, CUDARUN, "explain", *code)
    unfit = re.compile(r"does not fit|which .* does not have")
    alarms = [line for line in done.stderr.splitlines() if line.startswith("cudarun:") and unfit.search(line)]
    alarms += [line for line in (explained.stdout + explained.stderr).splitlines() if unfit.search(line)]
    fits = set(re.findall(r"(\S+) [^ ]+ +fits ", explained.stdout))
    modules = listed(python)
    wrong, opened = false_alarms(python, modules)
    case(
        f"{name}: {imports}: {opened} of {len(modules)} modules can be opened; {', '.join(sorted(fits)) or 'nothing'} fits",
        (bare.returncode == 0 or NO_DRIVER.search(bare.stderr), f"the control: {bare.stderr}"),
        ((done.returncode, done.stdout) == (bare.returncode, bare.stdout), f"with cudarun: {done.stdout}{done.stderr}"),
        (not alarms, "\n".join(alarms)),
        (explained.returncode == 0, explained.stderr),
        (fitting <= fits, f"not listed as fitting: {fitting - fits}\n{explained.stdout}"),
        (not wrong, "\n".join(wrong)),
    )
    if os.environ.get("SHOW"):
        print("      bare:", bare.stdout.replace("\n", "; "), bare.stderr[-3000:])
        print("      cudarun:", [line for line in done.stderr.splitlines() if line.startswith("cudarun:")])


def main():
    if os.environ.get("CUDARUN_REAL_LARGE") != "1":
        print("skipped  packages that fit their torch: CUDARUN_REAL_LARGE is not 1")
        return
    wanted = [one for one in table() if not sys.argv[2:] or one[0] in sys.argv[2:]]
    brought = set()
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        for index, (name, imports, fitting, wheels) in enumerate(wanted):
            brought |= {wheel for wheel in wheels if not place(wheel).is_dir()}
            row(name, imports, fitting, list(pool.map(fetched, wheels)))
            shutil.rmtree(CACHE / "environments" / "fitting")
            later = {wheel for one in wanted[index + 1 :] for wheel in one[3]}
            for wheel in sorted(brought - later) if not os.environ.get("CUDARUN_REAL_KEEP") else []:
                shutil.rmtree(place(wheel))
            brought &= later
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
