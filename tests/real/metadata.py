"""Requirements in real METADATA files against Python's own reader: tests/real/metadata.py [cudarun] [DIRECTORY…]

For each Requires-Dist: name, extras, versions, and the extra that its marker names. The reference is
`packaging`, which pip uses. The files are those of this Python, those that other scripts have left in the cache, those of
the wheels in frameworks.txt, and every file named METADATA below each DIRECTORY.

From a wheel on the index only its METADATA is fetched, once: 100 wheels, 1 MB each. A run fetches for at most 45
seconds and compares what it has by then.
"""

import email.parser
import json
import os
import site
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from remote import Index
from wheels import CACHE, HERE, rows

PACKAGING = "packaging==25.0"
SECONDS = 45
# Fewer files than these would not be a comparison.
LEAST = 40
KEPT = CACHE / "metadata"
PATTERNS = ["unpacked/*/*.dist-info", "frameworks/*/*.dist-info", "environments/*/lib/python3*/site-packages/*.dist-info"]
CARGO = ["cargo", "run", "--quiet", "--locked", "--manifest-path", HERE / "../../Cargo.toml", "--example", "measure", "--", "requires"]


def reference():
    """The directory of a `packaging` of one version, whatever this Python's pip has."""
    place = CACHE / "environments" / PACKAGING
    if not place.is_dir():
        place.parent.mkdir(parents=True, exist_ok=True)
        partial = place.with_name(f"{place.name}.{os.getpid()}")
        pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps"]
        pip += ["--root-user-action=ignore"]
        subprocess.run([*pip, "--target", partial, PACKAGING], check=True, stdin=subprocess.DEVNULL)
        if not place.is_dir():
            os.rename(partial, place)
    return place


sys.path.insert(0, str(reference()))

from packaging._parser import Value, Variable
from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name


def main():
    directories = [Path(word) for word in sys.argv[1:] if os.path.isdir(word)]
    fetch()
    found = sorted({str(file.resolve()) for file in files(directories) if file.is_file()})
    printed = subprocess.run(CARGO, input="\n".join(found), capture_output=True, text=True, check=True).stdout
    lines = differences = 0
    forms = {"(": 0, "[": 0, "@": 0, "extra": 0}
    read = printed.splitlines()
    assert len(read) == len(found), f"{len(read)} of {len(found)} files were read"
    for file, said in zip(found, read):
        texts = required(file)
        lines += len(texts)
        for form in forms:
            forms[form] += sum(form in text for text in texts)
        expected = [row for row in map(by_reference, texts) if row]
        actual = [comparable(*row) for row in json.loads(said)]
        if actual != expected:
            differences += 1
            print("FAIL", file)
            for kind, here, there in [("reads", actual, expected), ("should read", expected, actual)]:
                print(f"     {kind}", [row for row in here if row not in there] or "the same in another order")
    print(f"{len(found)} files, {lines} requirements, {forms}: {differences} files differ")
    return differences > 0 or len(found) < LEAST or not (forms["("] and forms["["] and forms["extra"])


def files(directories):
    for directory in [*site.getsitepackages(), reference()]:
        yield from Path(directory).glob("*.dist-info/METADATA")
    for pattern in PATTERNS:
        yield from CACHE.glob(f"{pattern}/METADATA")
    for directory in [KEPT, *directories]:
        yield from directory.rglob("METADATA")


def fetch():
    """The METADATA of wheels that are not in the cache, for a limited time."""
    wheels = {row[0]: row[2] for row in rows("frameworks.txt") if not any("=aarch64" in word for word in row)}
    missing = [(wheel, python) for wheel, python in wheels.items() if not (KEPT / wheel).is_dir()]
    if not missing:
        return
    print(f"fetching the METADATA of {len(missing)} wheels, for at most {SECONDS} s", flush=True)
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(4) as pool:
        errors = [error for error in pool.map(lambda pair: fetch_one(*pair, end), missing) if error]
    # An index that is out of reach, or has withdrawn a wheel, leaves fewer files.
    print(*errors, sep="\n", end="\n" if errors else "")


def fetch_one(wheel, python, end):
    if time.monotonic() > end:
        return None
    partial = KEPT / f"{wheel}.{os.getpid()}"
    try:
        index = Index(python)
        index.members(index.find(wheel), lambda name: name.endswith(".dist-info/METADATA"), partial, most=1 << 20)
        os.rename(partial, KEPT / wheel)
    except Exception as error:
        return f"{wheel}: {error!r}"


def required(file):
    text = Path(file).read_bytes().decode(errors="replace")
    return email.parser.Parser().parsestr(text, headersonly=True).get_all("Requires-Dist", [])


def by_reference(text):
    """None for what is not a requirement."""
    try:
        it = Requirement(text)
    except InvalidRequirement:
        return None
    markers = it.marker._markers if it.marker else []
    extras = {canonicalize_name(extra) for extra in compared_extras(markers)}
    names = {canonicalize_name(extra) for extra in it.extras}
    return canonicalize_name(it.name), names, it.specifier, bool(extras), extras.pop() if len(extras) == 1 else None


def compared_extras(markers):
    for marker in markers:
        if isinstance(marker, list):
            yield from compared_extras(marker)
        elif isinstance(marker, tuple) and (extra := compared_extra(marker)) is not None:
            yield extra


def compared_extra(comparison):
    left, operator, right = comparison
    variable, value = (left, right) if isinstance(left, Variable) else (right, left)
    is_extra = isinstance(variable, Variable) and variable.value == "extra" and isinstance(value, Value)
    return value.value if is_extra and operator.value in ("==", "===") else None


def comparable(name, extras, versions, optional, extra):
    return name, set(extras), SpecifierSet(versions), optional, extra


sys.exit(main())
