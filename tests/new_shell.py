#!/usr/bin/env python3
"""Types a line and Tab into a new interactive shell: tests/new_shell.py SHELL LINE WANTED

Exit status 0 when WANTED then appears on its terminal, 1 when it does not.
"""

import os
import pty
import select
import signal
import sys
import time


def main(shell, line, wanted):
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(shell, [shell, "-i"])
    try:
        os.write(terminal, b"echo rea''dy\n")
        if not appears(terminal, b"\nready", 60):
            sys.exit(f"{shell} does not start")
        os.write(terminal, line.encode() + b"\t")
        return 0 if appears(terminal, wanted.encode(), 5) else 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def appears(terminal, wanted, seconds):
    seen, end = b"", time.monotonic() + seconds
    while wanted not in seen and (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
    return wanted in seen


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
