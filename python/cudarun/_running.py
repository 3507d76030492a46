"""What a running process has mapped of NVIDIA's libraries."""

import copy
import os
from html import escape
from typing import Any, Dict, List, Optional, Tuple

from ._program import INSTALL, Error, ask, shown

TITLES = ["FAMILY", "VERSION", "FILE", ""]


class Check:
    """What a process had mapped of NVIDIA's libraries when it was looked at: a table in a terminal and in a notebook."""

    def __init__(self, process: Dict[str, Any]) -> None:
        self._process = process

    @property
    def is_mixed(self) -> bool:
        """True if the process has files of two installations of a family, which must be of one."""
        return bool(self._process["mixed"])

    def to_dict(self) -> Dict[str, Any]:
        """The process, with the keys of `cudarun list --running --json` (docs/json.md)."""
        return copy.deepcopy(self._process)

    def _verdict(self) -> str:
        pid = self._process["pid"]
        if not self._process["libraries"]:
            return f"process {pid} has no NVIDIA library"
        return f"process {pid} mixes {'' if self.is_mixed else 'no '}NVIDIA libraries"

    def _rows(self) -> List[List[str]]:
        mixed = {mixed["family"] for mixed in self._process["mixed"]}
        rows = []
        for library in self._process["libraries"]:
            remarks = ["mixed"] if library["family"] in mixed else []
            if library["deleted"]:
                remarks.append("deleted since")
            cells = [library["family"] or "bundled", library["version"] or "unknown", library["path"], ", ".join(remarks)]
            rows.append([shown(cell) for cell in cells])
        return rows

    def _to_do(self) -> Tuple[str, str]:
        """What to do, and what to type for it."""
        process = self._process
        if not process["libraries"]:
            return "Import what uses the GPU, then look again", "cudarun.check()"
        is_wrong = self.is_mixed or any(library["deleted"] for library in process["libraries"])
        if not is_wrong:
            return "", ""
        command = shown(process["restart"] or "")
        if self.is_mixed and process["started_by_cudarun"]:
            return "cudarun started it, and something was loaded later: see what cudarun chose", command
        why = "A running process keeps what it has mapped: "
        if command.startswith("cudarun hook jupyter "):
            return why + "choose a kernel that starts with cudarun", command
        if "cudarun hook systemd " in command:
            return why + "have its service start with cudarun, and restart it", command
        if process["started_by_cudarun"]:
            return why + "end it, and start it anew", command or "cudarun PROGRAM"
        return why + "end it, and start with cudarun what started it", command or "cudarun PROGRAM"

    def __str__(self) -> str:
        lines = [self._verdict()]
        rows = self._rows()
        if rows:
            rows.insert(0, TITLES)
            widths = [max(len(row[column]) for row in rows) for column in range(len(TITLES))]
            cells = (zip(row, widths) for row in rows)
            lines += ["", *("  ".join(cell.ljust(width) for cell, width in row).rstrip() for row in cells)]
        what, command = self._to_do()
        if what:
            lines += ["", f"{what}:", f"  {command}"]
        return "\n".join(lines)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """For notebooks. A path is anybody's text: all of it is escaped."""
        left = ' style="text-align: left"'
        text = f"<p><b>{escape(self._verdict())}</b></p>"
        rows = self._rows()
        if rows:
            text += "<table><tr>" + "".join(f"<th{left}>{title.lower()}</th>" for title in TITLES) + "</tr>"
            for row in rows:
                text += "<tr>" + "".join(f"<td{left}>{escape(cell)}</td>" for cell in row) + "</tr>"
            text += "</table>"
        what, command = self._to_do()
        if what:
            text += f"<p>{escape(what)}: <code>{escape(command)}</code></p>"
        return f"<div>{text}</div>"


def check(pid: Optional[int] = None) -> Check:
    """Looks at this process, or at another one, from outside: nothing is loaded into it, and nothing of it is changed."""
    pid = os.getpid() if pid is None else pid
    if not isinstance(pid, int):
        raise Error(f"{pid!r} is not the number of a process", "cudarun.check(PID)")
    try:
        answer = ask("list", "--json", f"--running={pid:d}")
    except Error as error:
        if "unexpected argument" in error.message:
            raise Error("this cudarun is too old to look at running processes", INSTALL) from error
        raise
    nothing = {"pid": pid, "libraries": [], "mixed": [], "devices": [], "restart": None}
    return Check(answer["processes"][0] if answer["processes"] else nothing)
