#!/usr/bin/env bash
# Measures `cudarun fleet` over a thousand descriptions of 30 kB in ten groups: benches/fleet.sh [cudarun]
#
# Prints the seconds and the memory of the best of ROUNDS (3), and the ratio to the time in which Python's json.load reads the same
# files. Fails beyond 3 times that time or 300 MB, or if a group is lost. Needs python3.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home" "$work/nodes" "$work/base"
HOME=$work/home "$cudarun" -q doctor --save-in "$work/base" --name base --for 'python3 -c pass'
python3 - "$cudarun" "$work" "${ROUNDS:-3}" <<'END'
import json
import os
import subprocess
import sys
import time

cudarun, work, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
environment = {"HOME": f"{work}/home", "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}

for group in range(10):
    with open(f"{work}/base/base.json") as file:
        base = json.load(file)
    facts, evidence = base["answers"]["facts"], []
    base["examination"]["findings"].append(
        {"severity": "note", "section": "libraries", "code": "x", "what": "a finding", "evidence": evidence, "remedy": None}
    )
    number = 0
    while len(json.dumps(base)) < 30_000:
        number += 1
        facts.append({"kind": "library", "name": f"library {number}", "value": f"{group}.{number}.0 (wheel)"})
        evidence.append({"at": f"/opt/environments/e{number}/lib/libnumber.so.{group}", "says": f"version {group}.{number}"})
    for node in range(100):
        with open(f"{work}/nodes/gpu{group * 100 + node:04}.json", "w") as file:
            json.dump(base, file)

files = sorted(os.path.join(work, "nodes", name) for name in os.listdir(f"{work}/nodes"))


def loaded():
    began = time.monotonic()
    for name in files:
        with open(name) as file:
            json.load(file)
    return time.monotonic() - began


def measured(words):
    began = time.monotonic()
    process = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    said = process.stdout.read()
    _, _, used = os.wait4(process.pid, 0)
    return time.monotonic() - began, used.ru_maxrss / 1000, said


loads = min(loaded() for _ in range(rounds))
seconds, memory, said = min(measured([cudarun, "fleet", "--json", f"{work}/nodes"]) for _ in range(rounds))
found = json.loads(said)
ratio = seconds / loads
print(f"fleet  {seconds:.2f} s, {ratio:.2f} of json.load (limit 3), {memory:.0f} MB (limit 300); {found['machines']} machines in {len(found['groups'])} groups")
sys.exit(ratio > 3 or memory > 300 or found["machines"] != 1000 or len(found["groups"]) != 10)
END
