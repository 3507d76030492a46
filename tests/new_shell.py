#!/usr/bin/env python3
"""Types the beginning of a line, Tab and the rest into a new interactive shell:

    tests/new_shell.py SHELL BEGINNING REST WANTED

Exit status 0 when the line that came of it prints WANTED, 1 when it does not, 2 when the shell does not start.
"""

import os
import pty
import select
import signal
import sys
import time


def main(shell, beginning, rest, wanted):
    child, terminal = pty.fork()
    if child == 0:
        os.execvp(shell, [shell, "-i"])
    try:
        os.write(terminal, b"echo rea''dy\n")
        if b"ready" not in until(terminal, b"ready"):
            print(f"{shell} does not start", file=sys.stderr)
            return 2
        os.write(terminal, f"{beginning}\t{rest}\necho do''ne\n".encode())
        return 0 if wanted.encode() in until(terminal, b"done") else 1
    finally:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def until(terminal, last):
    """What the terminal shows until this does, or for a minute."""
    seen, end = b"", time.monotonic() + 60
    while last not in seen and (left := end - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            try:
                seen += os.read(terminal, 4096)
            except OSError:
                break
    return seen


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
