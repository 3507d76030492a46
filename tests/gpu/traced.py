"""Reads a report of `cudarun trace --json`: was the model of the loader right, and was all of it planned?

Prints one line: how many files of how many families, and what was otherwise. Exits with 0 when all is well.
"""

import json
import sys


def main():
    with open(sys.argv[1]) as file:
        report = json.load(file)
    images = [image for image in report["images"] if image["is_target"]]
    files = [file for image in images for file in image["files"]]
    wrong = [wrong for image in images for wrong in image["wrong"]]
    foreign = [file["file"] for file in files if file["in_plan"] is False]
    families = {file["family"] for file in files}
    print(f"{len(files)} files of {len(families)} families, the model was wrong about {len(wrong)}", end="")
    for one in wrong:
        print(f"; {one['name']} is {one['mapped']}, expected {one['expected']}", end="")
    print(f"; not in the plan: {' '.join(foreign)}" if foreign else "")
    return 1 if wrong or foreign or not files else 0


sys.exit(main())
