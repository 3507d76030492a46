"""A description of real wheels answers as the machine does: tests/real/described.py PATH-TO-cudarun

`doctor --save-in DIR --for 'COMMAND LINE'` describes an environment; `explain --json` of the description must decide as that
of the machine. Its words must be those that are used: no text of the program is in it.
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


def decided(answer):
    """All that is decided, without the names of those that ask first among equals."""
    picked = [one["picked"] for one in answer["families"]]
    files = lambda when: sorted((str(one["family"]), one["rule"], os.path.basename(one["path"])) for one in answer[when] or [])
    return {
        "decision": answer["decision"],
        "mode": answer["mode"],
        "picks": [(one["family"], one["version"], one["directory"], one["cuda"]) for one in picked],
        "build-ids": [[file["build_id"] for file in one["files"]] for one in picked],
        "before": files("before"),
        "after": files("after"),
        "faults": answer.get("faults"),
        "cautions": answer.get("cautions"),
        "absent": [one["family"] for one in answer.get("absent") or []],
        "conditions": answer["program"]["conditions"],
        "packages": answer["program"]["packages"],
        "passed over": answer.get("passed_over"),
    }


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

            saved = run("doctor", "--save-in", work / "nodes", "--node", name, "--for", line)
            file = work / "nodes" / f"{name}.toml"
            text = file.read_text() if file.exists() else saved.stderr
            explain = ["explain", "--json", python, "train.py"]
            answers = [json.loads(run(*words).stdout) for words in (explain, ["--machine", file, *explain])]
            one, other_one = map(decided, answers)
            wrong = [f"{key}: {one[key]} and {other_one[key]}" for key in one if one[key] != other_one[key]]
            wrong += [f"it has the word {word}" for word in ("sesame", "PASSWORD") if word in text]
            if not answers[0]["families"]:
                wrong.append("the control: nothing is decided")
            print(f"{'ok' if not wrong else 'FAULT'}  {name}: {len(text)} bytes, {len(answers[0]['families'])} families")
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
