#!/usr/bin/env python3
"""A terminal with and without cudarun: tests/diagnose/terminal.py CUDARUN

Runs programs on pseudo-terminals, alone and with `cudarun diagnose`, sends the same keys and sizes, and compares all that
the terminals show.
"""

import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import tempfile
import termios
import time

CUDARUN = os.path.realpath(sys.argv[1])
HOME = tempfile.mkdtemp()
PATIENCE = 60

# A shell's part: runs a job in the foreground, and goes on with it when it stops.
SHELL = r"""
import os, signal, sys
signal.signal(signal.SIGTTOU, signal.SIG_IGN)
job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    os.tcsetpgrp(0, os.getpgrp())
    signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    _, status = os.waitpid(job, os.WUNTRACED)
    os.tcsetpgrp(0, os.getpgrp())
    if not os.WIFSTOPPED(status):
        print("ended", status, flush=True)
        break
    print("stopped", flush=True)
    os.tcsetpgrp(0, job)
    os.killpg(job, signal.SIGCONT)
"""

BARS = r"""
import os, sys, time
print(os.isatty(0), os.isatty(1), os.isatty(2), os.get_terminal_size(2))
sys.stdout.flush()
for step in range(50):
    sys.stderr.write(f"\r\x1b[32mstep {step:3}\x1b[0m \u2588\u2588\x1b[K")
    sys.stderr.flush()
sys.stderr.write("\n" + "wide " * 60 + "\ttab\b\x07\n")
sys.stderr.flush()
os.write(2, bytes(range(128, 256)) + b"\r\n")
"""
SIZES = r"""
import os, signal, sys, time
sizes = []
signal.signal(signal.SIGWINCH, lambda *_: sizes.append(os.get_terminal_size(2)))
sys.stderr.write("ready\n")
while not any(size.columns == 61 for size in sizes):
    time.sleep(0.01)
sys.stderr.write(f"{os.get_terminal_size(2)} {os.get_terminal_size(1)}\n")
"""
INTERRUPTED = r"""
import sys, time
try:
    sys.stderr.write("ready\n")
    # A signal that comes just before it sleeps is seen after that.
    for _ in range(600):
        time.sleep(0.1)
except KeyboardInterrupt:
    sys.stderr.write("interrupted\n")
    sys.exit(7)
"""
STOPPED = r"""
import os, signal, sys, time
sys.stderr.write("ready\n")
began = time.time()
os.kill(os.getpid(), 0)
line = sys.stdin.readline()
sys.stderr.write("read " + line)
sys.exit(9)
"""
STOPS_ITSELF = r"""
import os, signal, sys, time
sys.stderr.write("ready\n")
for _ in range(3):
    time.sleep(0.3)
    os.kill(os.getpid(), signal.SIGSTOP)
    sys.stderr.write("goes on\n")
sys.exit(5)
"""
TIDIES_UP = r"""
import os, signal, sys, time
def tidy(*_):
    time.sleep(0.3)
    sys.stderr.write("tidied up\n")
    signal.signal(signal.SIGTSTP, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGTSTP)
    signal.signal(signal.SIGTSTP, tidy)
signal.signal(signal.SIGTSTP, tidy)
sys.stderr.write("ready\n")
sys.exit(len(sys.stdin.readline()))
"""
# (name, program, what to wait for and what to do then)
CASES = [
    ("bars", BARS, []),
    ("sizes", SIZES, [("ready", "size")]),
    ("interrupted", INTERRUPTED, [("ready", b"\x03")]),
    ("quit", INTERRUPTED, [("ready", b"\x1c")]),
    ("stops itself", STOPS_ITSELF, []),
    ("tidies up", TIDIES_UP, [("ready", b"\x1a"), ("stopped", b"line\n")]),
    ("stopped twice", STOPPED, [("ready", b"\x1a"), ("stopped", b"\x1a"), ("stopped\r\n", b"line\n")]),
    ("stopped", STOPPED, [("ready", b"\x1a"), ("stopped", b"line\n")]),
]


def size(terminal, rows, columns):
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))


def show(words, steps):
    child, terminal = pty.fork()
    if child == 0:
        os.chdir(HOME)
        environment = {"PATH": "/usr/bin:/bin", "HOME": HOME, "TERM": "xterm", "PYTHONDONTWRITEBYTECODE": "1"}
        import resource
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # A shell's background job ignores them, and so would everything below it.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        signal.signal(signal.SIGQUIT, signal.SIG_DFL)
        time.sleep(0.05)
        os.execve(sys.executable, [sys.executable, "-c", SHELL, *words], environment)
    size(terminal, 33, 77)
    seen, steps, began = b"", list(steps), time.monotonic()
    while time.monotonic() - began < PATIENCE:
        if not select.select([terminal], [], [], 0.1)[0]:
            continue
        try:
            piece = os.read(terminal, 65536)
        except OSError:
            break
        if not piece:
            break
        seen += piece
        if steps and steps[0][0].encode() in seen:
            _, action = steps.pop(0)
            time.sleep(0.3)
            if action == "size":
                size(terminal, 44, 61)
            else:
                os.write(terminal, action)
    else:
        os.kill(child, signal.SIGKILL)
        raise SystemExit(f"no end in time: {words}\n{seen.decode(errors='replace')}")
    os.close(terminal)
    os.waitpid(child, 0)
    return seen


faults = 0
for name, program, steps in CASES:
    words = [sys.executable, "-c", program]
    alone = show(words, steps)
    diagnosed = show([CUDARUN, "diagnose", *words], steps)
    # After a failure comes the explanation.
    told = re.sub(rb"\r\n[^\r\n]*; its standard error has no known.*cudarun doctor\r\n", b"", diagnosed, flags=re.DOTALL)
    if alone != told or b"ended" not in alone:
        faults += 1
        print(f"{name}:\n  alone     {alone!r}\n  diagnosed {diagnosed!r}")
print(f"{len(CASES)} cases, {faults} of them differ")
sys.exit(bool(faults))
