"""Reads the reports of `cudarun trace --json --predict` and `cudarun trace --json --all`: was the model of the loader right,
and was all of it planned?

Prints one line: how many files of how many families, and what was otherwise. Exits with 0 when all is well.
"""

import json
import os
import sys


def main():
    predicted, report = (json.load(open(path)) for path in sys.argv[1:])
    images = [image for image in report["images"] if image["is_target"]]
    mapped = [file for image in images for file in image["files"]]
    files = [file for file in mapped if file["family"]]
    at_start = [file for file in predicted["files"] if file["when"] == "start" and file["family"]]
    wrong = absent(files, predicted["files"]) + absent(at_start, mapped)
    foreign = [file["file"] for file in files if file["in_plan"] is False]
    families = {file["family"] for file in files}
    print(f"{len(files)} files of {len(families)} families, the model was wrong about {len(wrong)}", end="")
    print(f": {' '.join(wrong)}" if wrong else "", end="")
    print(f"; not in the plan: {' '.join(foreign)}" if foreign else "")
    return 1 if wrong or foreign or not files else 0


def absent(files, others):
    """The files that are not among the others, under any name."""
    known = {os.path.realpath(other["path"]) for other in others}
    return [file["path"] for file in files if os.path.realpath(file["path"]) not in known]


sys.exit(main())
