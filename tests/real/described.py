"""A description of real wheels answers as the machine does: tests/real/described.py PATH-TO-cudarun

`doctor --save-in DIR --for 'COMMAND LINE'` saves what a program gets in an environment: the libraries, their build-ids and the mode must
be those of `explain --json`. No text of the program is in it.
"""

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from wheels import environment, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
WHEELS = ["ctranslate2==4.6.1", "numpy==2.2.6", "pyyaml==6.0.2", "nvidia-cudnn-cu12==9.1.0.70"]
WHEELS += ["nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
OTHER = "nvidia-cudnn-cu12==9.10.2.21"
TRAIN = """
import ctypes, ctranslate2
PASSWORD = "sesame"
try:
    import nothing_here
except ImportError:
    pass
def later():
    import numpy
ctypes.CDLL("libcudnn.so.9")
"""


def explained(answer):
    """The libraries of a program, without those that only this machine has."""
    picked = [one["picked"] for one in answer["families"]]
    shared = [one for one in picked if one["family"] != "driver" and one["origin"] != "bundled"]
    ids = lambda one: {file["soname"]: file["build_id"] for file in one["files"] if file["build_id"]}
    return {"mode": answer["mode"], "picks": [(one["family"], one["version"], one["cuda"], ids(one)) for one in shared]}


def saved_answer(description, line):
    answers = description["answers"]
    [program] = [one for one in answers["programs"] if one["command"] == line]
    picks = [answers["libraries"][place] for place in program["picks"]]
    return {"mode": program["mode"], "picks": [(one["name"], one["version"], one["cuda"], one["build_ids"]) for one in picks]}


def main():
    python, _ = environment("described", *WHEELS)
    other = unpacked(OTHER) / "nvidia" / "cudnn" / "lib"
    failures = 0
    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        (work / "train.py").write_text(TRAIN)
        (work / "nodes").mkdir()
        (work / "home" / "me").mkdir(parents=True)
        line = f"{python} train.py"
        for name, path in [("alone", ""), ("mixed", str(other))]:
            env = {"HOME": str(work / "home" / "me"), "PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": path}

            def run(*words):
                return subprocess.run([CUDARUN, *map(str, words)], env=env, cwd=work, capture_output=True, text=True)

            saved = run("doctor", "--save-in", work / "nodes", "--name", name, "--for", line)
            file = work / "nodes" / f"{name}.json"
            text = file.read_text() if file.exists() else saved.stderr
            answer = json.loads(run("explain", "--json", python, "train.py").stdout)
            one, other_one = explained(answer), saved_answer(json.loads(text), line)
            wrong = [f"{key}: {one[key]} and {other_one[key]}" for key in one if one[key] != other_one[key]]
            wrong += [f"it has the word {word}" for word in ("sesame", "PASSWORD") if word in text]
            if not one["picks"]:
                wrong.append("the control: nothing is decided")
            if len(text) > 30_000:
                wrong.append("it is larger than 30 kB")
            print(f"{'ok' if not wrong else 'FAULT'}  {name}: {len(text)} bytes, {len(one['picks'])} families")
            for fault in wrong[:10]:
                print(f"    {fault}")
            failures += bool(wrong)
        fleet = run("fleet", "--json", work / "nodes")
        groups = json.loads(fleet.stdout)["groups"]
        if len(groups) != 2 or any(group["programs"][0]["command"] != line for group in groups):
            print(f"FAULT  fleet: {fleet.stdout}{fleet.stderr}")
            failures += 1
    sys.exit(f"{failures} faults" if failures else 0)


if __name__ == "__main__":
    main()
