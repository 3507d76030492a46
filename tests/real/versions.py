"""The version of a library from its file alone: tests/real/versions.py PATH-TO-cudarun [--all]

Each row of versions.txt is a wheel whose libraries are laid bare into an empty root, without the package's records
and under names that say no version. cudarun must read the version that the table names, which agrees with the
wheel's own, and must not name another CUDA major than the wheel's. Where the table has `-`, the contents say
nothing, and no answer is right; a wrong one is not.

By itself it checks the small ones and those that wheels.txt has brought anyway. With --all it downloads the others
one at a time, 19 GB in all, and keeps nothing but what it learnt: a wheel that held is not downloaded again until the
rules change by which its version is read.
"""

import hashlib
import json
import os
import re
import shutil
import sys
import tempfile
import tomllib

from wheels import CACHE, HERE, download, is_library, libraries, listed, pretend, rows, unpacked

REMEMBERED = CACHE / "versions.json"
READERS = [
    "src/catalog/family.rs",
    "src/formats/elf.rs",
    "src/formats/instructions.rs",
    "src/inventory/evidence.rs",
    "src/inventory/versions.rs",
]
# So many are read from what is always downloaded, on 2026-11-27.
AT_LEAST = 59


def main():
    cudarun, everything = os.path.abspath(sys.argv[1]), "--all" in sys.argv[2:]
    brought = {row[0] for row in rows("wheels.txt")}
    remembered = json.loads(REMEMBERED.read_text()) if REMEMBERED.exists() else {}
    count = {"right": 0, "unknown": 0, "wrong": 0, "remembered": 0, "not asked": 0}
    precision, megabytes = {}, 0
    for wheel, machine, family, expected, *small in rows("versions.txt"):
        key, rules = f"{wheel} {machine}", rules_of(family)
        here = bool(small) or wheel in brought and machine == "x86_64"
        if not here and remembered.get(key) == [rules, expected]:
            count["remembered"] += 1
            continue
        if not here and not everything:
            count["not asked"] += 1
            continue
        with tempfile.TemporaryDirectory(dir=CACHE) as root:
            bare = os.path.join(root, "usr", "lib", f"{machine}-linux-gnu")
            os.makedirs(bare)
            if machine != "x86_64":
                pretend(root, machine)
            if here:
                for path in libraries(unpacked(wheel, machine)):
                    os.link(path, os.path.join(bare, path.name))
            else:
                megabytes += download(wheel, lambda archive, _: extract(archive, bare), machine=machine) / 1e6
            answer = ask(cudarun, root, family)
        verdict, why = judge(wheel, expected, answer)
        count[verdict] += 1
        if everything or verdict == "wrong":
            print(f"{verdict:8} {key} {family}: {why}", flush=True)
        if verdict in ("right", "unknown"):
            numbers = len(why.split(".")) if verdict == "right" else 0
            precision[family] = max(precision.get(family, 0), numbers)
            remembered[key] = [rules, expected]
            REMEMBERED.with_suffix(".new").write_text(json.dumps(remembered, indent=0))
            os.replace(REMEMBERED.with_suffix(".new"), REMEMBERED)
    enough = count["right"] + count["remembered"] >= AT_LEAST
    print("ok " if enough and not count["wrong"] else "FAIL", end=" ")
    print(", ".join(f"{number} {word}" for word, number in count.items() if number), end="")
    print(f"; {len(precision)} families, {megabytes:.0f} MB downloaded and thrown away")
    for numbers in sorted(set(precision.values()), reverse=True):
        print(f"    {numbers} numbers:", ", ".join(family for family in precision if precision[family] == numbers))
    if not enough:
        print(f"      expected at least {AT_LEAST} versions that are right")
    return not enough or bool(count["wrong"])


def rules_of(family):
    """A number that changes with anything by which this family's version is read."""
    sources = HERE.parent.parent
    families = tomllib.loads((sources / "profiles" / "libraries.toml").read_text())["family"]
    rules = next(row for row in families if row["name"] == family)
    readers = b"".join((sources / name).read_bytes() for name in READERS)
    facts = json.dumps([rules[key] for key in ("members", "main", "version", "cuda") if key in rules])
    return hashlib.sha256(readers + facts.encode()).hexdigest()[:16]


def extract(archive, bare):
    """The libraries of a wheel, without its directories."""
    for entry in archive.infolist():
        name = os.path.basename(entry.filename)
        if is_library(name):
            with archive.open(entry) as source, open(os.path.join(bare, name), "wb") as target:
                shutil.copyfileobj(source, target, 1 << 20)


def ask(cudarun, root, family):
    """The copy of this family, or none."""
    copies = [copy for copy in listed(cudarun, "--root", root, "list")["installations"] if copy["family"] == family]
    return copies[0] if copies else None


def judge(wheel, expected, answer):
    if answer is None:
        return "wrong", "is not found at all"
    got, cuda = answer["version"], answer["cuda"]
    name, version = wheel.split("==")
    major = int(found.group(1)) if (found := re.search(r"-cu(\d+)$", name)) else 13
    if cuda not in (None, major):
        return "wrong", f"is for CUDA {major}, got {cuda}"
    if got is not None and answer["version_from"] != "contents":
        return "wrong", f"expected an answer from the contents, got one from the {answer['version_from']}"
    if got is None and expected == "-":
        return "unknown", "the contents say nothing"
    agrees = got is not None and f"{version}.".startswith(f"{got}.")
    if agrees and expected in (got, "-"):
        return "right", got
    return "wrong", f"expected {expected}, got {got}"


sys.exit(main())
