"""Reads what `cudarun verify --json` printed: the verdict and its cause, in a line.

With words after the file, exits with 0 when the verdict, the cause or what was done is one of them.
"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        text = file.read()
    try:
        said = json.loads(text)
    except ValueError:
        print("no JSON:", text[:80].replace("\n", " "))
        return 1
    verdict = said.get("verdict") or said.get("decision") or "error"
    name = (said.get("cause") or {}).get("cause") or said.get("why") or verdict
    if verdict == "busy":
        name = next(gpu["busy"]["busy"] for gpu in said["proof"]["finding"]["gpus"] if gpu.get("busy"))
    print(" ".join([verdict, name if name != verdict else "", detail(said)]).strip())
    return 0 if name in sys.argv[2:] or not sys.argv[2:] else 1


def detail(said):
    failure, proof = said.get("failure"), said.get("proof")
    if failure:
        at = failure.get("at") or {}
        what = failure.get("call") or failure.get("message") or failure["failure"]
        number = failure.get("code", failure.get("signal", ""))
        where = f"at {at.get('step')} {at.get('of') or ''}" if at else ""
        return f"({' '.join(f'{what} {number} {where}'.split())})"
    if proof:
        came = [step["came"] for step in proof["steps"] if step.get("came")]
        right = sum("right" in one for one in came)
        left_out = sum("not-supported" in one for one in came)
        return f"({len(proof['finding']['mapped'])} files, {right} computations right, {left_out} not supported here)"
    return ""


sys.exit(main())
