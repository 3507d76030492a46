#!/usr/bin/env bash
# Measures `cudarun fleet` over a thousand descriptions of 2 MB in ten groups: benches/fleet.sh [cudarun]
#
# Prints the seconds and the memory of the best of ROUNDS (3), beside those of `cat` for the same files. Fails beyond the limit in
# seconds or in memory (8 s and 300 MB), or if a group is lost. Needs python3 and 2.2 GB below /tmp.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home" "$work/nodes"
python3 - "$here/../tests/machines/torch.toml" "$work/nodes" <<'END'
import pathlib
import sys

base, nodes = pathlib.Path(sys.argv[1]).read_text(), pathlib.Path(sys.argv[2])
base = "programs = [\"python3 -c 'import torch'\"]\n" + base
for group in range(10):
    text = base
    number = 0
    while len(text) < 2_000_000:
        lines = "\n".join(f"module_{number}_{group}_{line} = {line}" for line in range(400))
        text += f"\n[[file]]\npath = '/opt/more/part{number}.py'\ntext = '''{lines}'''\n"
        number += 1
    for node in range(100):
        (nodes / f"gpu{group * 100 + node:04}.toml").write_text(text)
END
python3 - "$cudarun" "$work" "${ROUNDS:-3}" <<'END'
import json
import os
import subprocess
import sys
import time

cudarun, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
environment = {"HOME": f"{work}/home", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}


def measured(words):
    began = time.monotonic()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    return time.monotonic() - began, used.ru_maxrss / 1000, said


files = sorted(os.path.join(work, "nodes", name) for name in os.listdir(f"{work}/nodes"))
copies = [measured(["sh", "-c", 'cat "$@" >/dev/null', "sh", *files])[0] for _ in range(rounds)]
runs = [measured([cudarun, "fleet", "--json", "--program", "python3 -c 'import torch'", f"{work}/nodes"]) for _ in range(rounds)]
seconds, memory, said = min(runs)
found = json.loads(said)
print(f"fleet  {seconds:.2f} s, {memory:.0f} MB (limits 8 s, 300 MB); cat {min(copies):.2f} s; {found['machines']} machines in {len(found['groups'])} groups")
sys.exit(seconds > 8 or memory > 300 or found["machines"] != 1000 or len(found["groups"]) != 10)
END
