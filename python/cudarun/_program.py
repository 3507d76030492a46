"""Finds the program cudarun, and asks it for one JSON object."""

import json
import os
import shutil
import subprocess
import sysconfig
from typing import Any, Dict, Iterator, Optional

# The number of docs/json.md: it changes when a key goes or gets another meaning.
SCHEMA = 2
INSTALL = "pip install --upgrade cudarun"


class Error(Exception):
    """cudarun cannot answer: what is wrong, in one line, and what to type."""

    __module__ = "cudarun"

    def __init__(self, message: str, hint: str) -> None:
        super().__init__(message, hint)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        return f"{shown(self.message)}\nhint: {shown(self.hint)}"


def shown(text: str) -> str:
    """The text with escapes for what could change a terminal or the order of letters: paths are anybody's."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def _directories() -> Iterator[str]:
    """Where the program of an installation can be, that of this package first."""
    site = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    # PREFIX/lib/python3.X/site-packages: an environment, its base, --user and --prefix.
    yield os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(site))), "bin")
    # pip install --target
    yield os.path.join(site, "bin")
    yield sysconfig.get_path("scripts")
    yield sysconfig.get_path("scripts", f"{os.name}_user")


def find() -> Optional[str]:
    """The path of the program cudarun: that of this installation, or else the first one in PATH."""
    for directory in _directories():
        program = os.path.join(directory, "cudarun")
        if os.path.isfile(program) and os.access(program, os.X_OK):
            return program
    return shutil.which("cudarun")


def found() -> str:
    program = find()
    if program is None:
        raise Error("there is no program cudarun beside this package or in PATH", INSTALL)
    return program


def ask(*words: str) -> Dict[str, Any]:
    """The object that cudarun prints; its status says yes or no, which the object says too."""
    program = found()
    try:
        done = subprocess.run([program, *words], stdin=subprocess.DEVNULL, capture_output=True, check=False)
    except (OSError, ValueError) as error:
        raise Error(f"{program} does not start: {error}", INSTALL) from error
    try:
        answer = json.loads(done.stdout)
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        said = done.stderr.decode(errors="replace").strip().splitlines() or [f"status {done.returncode}"]
        raise Error(f"{program} printed no JSON object: {said[0]}", "cudarun --help")
    if answer.get("schema") != SCHEMA:
        raise Error(f"{program} has another schema than this package: {answer.get('schema')}, not {SCHEMA}", INSTALL)
    refusal = answer.get("error")
    if refusal is not None:
        raise Error(refusal["message"], refusal["hint"] or "cudarun --help")
    return answer


def report(*args: str) -> Dict[str, Any]:
    """The object of `cudarun doctor --json`, as docs/json.md explains it. `args` are more options of `cudarun doctor`."""
    return ask("doctor", "--json", *args)
