"""Children of another environment, with real wheels: tests/real/children.py PATH-TO-cudarun [PYTHON CODE PYTHON CODE]

Two environments with different versions of cuDNN, that of one JAX and that of another, or those that are named: an
interpreter, and code that loads cuDNN. Each is the parent once and starts the other; a launcher without libraries starts
both. Each process ends with the cuDNN files of its own /proc/self/maps. With cudarun each must map the files that it maps
without, all of one directory, in an environment where nothing else can be reached (mode none) and in one with another name
of cuDNN in LD_LIBRARY_PATH (mode audit). The control is a view that is not followed, which must mix at least one child.

The modes are compared for the two JAX only: what a named program finds by itself is not known here.

Prints a line a row. Needs glibc 2.35 or newer.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
OLD, NEW = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.10.2.21"
OTHERS = ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
LOAD = "from jax_cuda12_plugin import _versions; _versions.cudnn_get_version()"

TELL = """
import os
files = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "/" in line}
print("cudnn", *sorted(file for file in files if os.path.basename(file).startswith("libcudnn")), flush=True)
"""
START = """
import subprocess, sys
for count in range(1, len(sys.argv), 2):
    subprocess.check_call([sys.argv[count], sys.argv[count + 1]])
"""


class Machine:
    def __init__(self, work, pair):
        self.work, self.failures, self.is_named = work, 0, len(sys.argv) > 2
        self.reachable = work / "reachable"
        self.reachable.mkdir()
        # None of the programs asks for this name, so its target causes no mix by itself.
        shutil.copy(unpacked(NEW) / "nvidia" / "cudnn" / "lib" / "libcudnn.so.9", self.reachable / "libcudnn.so")
        (work / "home").mkdir()
        self.programs = []
        for number, (python, code) in enumerate(pair):
            script = work / f"program-{number}.py"
            script.write_text(code + "\n" + TELL + START)
            self.programs.append((str(python), str(script)))
        (work / "launcher.py").write_text(START)

    def start(self, path, *command):
        """By process, the cuDNN files that it had mapped."""
        env = {"PATH": os.environ["PATH"], "HOME": str(self.work / "home"), "LD_LIBRARY_PATH": path}
        run = subprocess.run([*map(str, command)], env=env, capture_output=True, text=True, cwd=self.work)
        lines = [line.split()[1:] for line in run.stdout.splitlines() if line.startswith("cudnn")]
        return lines if run.returncode == 0 else f"status {run.returncode}: {run.stderr[-2000:]}"

    def mode(self, path, *command):
        env = {"PATH": os.environ["PATH"], "HOME": str(self.work / "home"), "LD_LIBRARY_PATH": path}
        run = subprocess.run([CUDARUN, "explain", "--json", *command], env=env, capture_output=True, text=True)
        return json.loads(run.stdout)["mode"]

    def row(self, name, *checks):
        wrong = [text for holds, text in checks if not holds]
        print(f"{'FAIL' if wrong else 'ok'}  {name}", flush=True)
        for text in wrong:
            print("     ", text)
        self.failures += bool(wrong)

    def family(self, name, path, mode, parent, *children):
        command = [*parent, *(word for child in children for word in child)]
        without, cured = self.start(path, *command), self.start(path, CUDARUN, *command)
        whole = isinstance(without, list) and all(len(set(map(os.path.dirname, files))) == 1 for files in without)
        checks = [
            (whole, f"each process must be whole without cudarun: {without}"),
            (cured == without, f"as without cudarun: {without}\n      expected, got {cured}"),
        ]
        if mode:
            planned = self.mode(path, *command)
            checks.append((planned == mode or self.is_named, f"mode {planned}"))
            mixed = self.start(path, CUDARUN, "--pin-mode", "view", "--no-follow", *command)
            directories = [len(set(map(os.path.dirname, files))) for files in mixed]
            checks.append((max(directories) > 1, f"the control must mix a child: {mixed}"))
        self.row(name, *checks)


def main(pair):
    with tempfile.TemporaryDirectory() as work:
        machine = Machine(Path(work).resolve(), pair)
        one, other = machine.programs
        for parent, child, label in (one, other, "the first starts the second"), (other, one, "the reverse"):
            machine.family(f"{label}, nothing else can be reached", "", "none", parent, child)
            machine.family(f"{label}, another cuDNN is in reach", str(machine.reachable), "audit", parent, child)
            machine.family(f"{label}, and that itself again", str(machine.reachable), None, parent, [*child, *parent])
        launcher = [sys.executable, str(machine.work / "launcher.py")]
        for path in "", str(machine.reachable):
            machine.family(f"a launcher starts both, path {path or 'empty'}", path, None, launcher, one, other)
        return machine.failures


if len(sys.argv) == 6:
    pair = [(sys.argv[2], sys.argv[3]), (sys.argv[4], sys.argv[5])]
else:
    old, _ = environment("children-old", "jax-cuda12-plugin==0.4.38", OLD, *OTHERS)
    new, _ = environment("children-new", "jax-cuda12-plugin==0.8.3", NEW, *OTHERS)
    pair = [(old, LOAD), (new, LOAD)]
sys.exit(main(pair) > 0)
