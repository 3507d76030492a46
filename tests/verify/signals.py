#!/usr/bin/env python3
"""The table of signals: tests/verify/signals.py STARTS [VERB | followed]

Runs on the machine that tests/verify/signals.rs makes. Each row starts a program below a wrapper, with a signal that is
left at its default, ignored or blocked, and sends the signal before, during or after the proof. The control is the
program alone, which gets the signal once it runs. Status, stop, signals of the program and leftovers must be equal. A
sample of rows runs by default, and all for 1,000 starts. `followed` starts the program without cudarun before it, in an
environment in which it is followed. Then come keys and hang-ups of a terminal, and as many starts
as asked for with a signal at a random moment.
"""

import concurrent.futures
import functools
import itertools
import os
import pathlib
import pty
import random
import re
import select
import signal
import subprocess
import sys
import termios
import time

CUDARUN = os.environ["CUDARUN"]
WORK = pathlib.Path(os.environ["WORK"]).resolve()
PROBE = str(WORK / "probe")
FORM = sys.argv[2:]
IS_FOLLOWED = FORM == ["followed"]
# `diagnose` stays beside the program.
VERB = [] if IS_FOLLOWED else FORM
PATIENCE = 60
SIGNALS = ["HUP", "INT", "QUIT", "TERM", "USR1", "PIPE", "TSTP"]
WRAPPERS = {
    "alone": [],
    "nohup": ["nohup"],
    "setsid": ["setsid", "--wait"],
    "timeout": ["timeout", "100"],
    # As sshd does without a terminal: a session with pipes.
    "session": [],
    # As systemd does: a group, SIGTERM and then SIGCONT.
    "group": [],
}
STATES = {"default": [], "ignored": ["--ignore-signal="], "blocked": ["--block-signal="]}
PHASES = ["before", "during", "after"]
COUNT = itertools.count()


class Trouble(Exception):
    pass


def following():
    """The variables with which the program is followed: it is one that was given a plan."""
    show = 'eval "$("$CUDARUN" export --follow)"; echo "$LD_AUDIT"; echo "$CUDARUN_TREE"'
    module, tree = subprocess.check_output(["sh", "-c", show], text=True).split()
    program = os.stat(PROBE)
    decided, _, changes = tree.split("/", 2)
    tree = f"{decided}/{program.st_dev:x}:{program.st_ino:x}/{changes}"
    return {"LD_AUDIT": module, "CUDARUN_TREE": tree, "CUDARUN_QUIET": "1"}


FOLLOWING = following() if IS_FOLLOWED else {}


def until(condition, what):
    began = time.monotonic()
    while time.monotonic() - began < PATIENCE:
        found = condition()
        if found:
            return found
        time.sleep(0.005)
    raise Trouble(f"no {what} in time")


class Start:
    """A start with files and a proof of its own, since it has a variable that reaches the libraries."""

    def __init__(self, number, with_cudarun):
        self.mark = "-".join([*FORM, str(number), str(int(with_cudarun))])
        place = WORK / "starts" / self.mark
        place.mkdir(parents=True)
        self.ready, self.go, self.ended, self.log = (place / name for name in ["ready", "go", "ended", "log"])
        self.environment = dict(
            os.environ, CUDA_CACHE_PATH=f"/{self.mark}", STAND_IN_LOG=str(self.log), READY=str(self.ready),
            GO=str(self.go), ENDED=str(self.ended), PS1="", HISTFILE="",
        )
        self.environment.pop("STARTED", None)
        self.words = [CUDARUN, "-q", *VERB, PROBE] if with_cudarun and not IS_FOLLOWED else [PROBE]
        if with_cudarun:
            self.environment |= FOLLOWING

    def processes(self):
        """The processes of this start, by number."""
        mark = f"CUDA_CACHE_PATH=/{self.mark}".encode()
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if mark in (process / "environ").read_bytes().split(b"\0"):
                    found.append(int(process.name))
            except OSError:
                pass
        return found

    def cudarun(self):
        """The process that is cudarun or else the program, and neither the wrapper nor the child of a proof."""
        found = {}
        # A child of cudarun looks like it until its exec; the parent's number is the lower one.
        for process in sorted(self.processes()):
            words = command(process)
            if b"--verify-child" not in words and words:
                found.setdefault(words[0], process)
        return found.get(CUDARUN.encode()) or found.get(PROBE.encode())

    def await_phase(self, phase):
        if phase == "before":
            return until(self.cudarun, "cudarun")
        file = self.log if phase == "during" else self.ready
        return until(lambda: file.exists() and file.read_text(), phase)

    def let_go(self):
        self.go.write_text("")

    def left(self):
        """The processes that do not end by themselves."""
        try:
            # In the moment of an exec a process has no environment yet.
            until(lambda: not self.processes() and not time.sleep(0.05) and not self.processes(), "end")
            return []
        except Trouble:
            return [command(process) for process in self.processes()]

    def told(self):
        return self.ended.read_text().splitlines() if self.ended.exists() else []

    def starts(self):
        return len(self.ready.read_text().splitlines()) if self.ready.exists() else 0


def command(process):
    try:
        return pathlib.Path(f"/proc/{process}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []


def state(process):
    try:
        return re.search(r"^State:\s*(\w)", pathlib.Path(f"/proc/{process}/status").read_text(), re.M)[1]
    except (OSError, TypeError):
        return "gone"


def begin(start, wrapper, name, how):
    states = [option + name for option in STATES[how]]
    words = ["env", "--default-signal", *states, *WRAPPERS[wrapper], *start.words]
    own = {"session": {"start_new_session": True}, "group": {"process_group": 0}}.get(wrapper, {})
    pipe = subprocess.PIPE
    return subprocess.Popen(words, env=start.environment, stdin=pipe, stdout=pipe, stderr=pipe, **own)


def send(start, process, wrapper, name):
    """Sends the signal as such a wrapper gets it. Returns True if the program, or cudarun, is stopped by it."""
    # The wrapper passes it on, or is gone by exec. That of setsid only waits. That of timeout ends at once without a child.
    if wrapper == "timeout":
        until(lambda: state(process.pid) != "R", "wait of the wrapper")
    target = until(start.cudarun, "cudarun") if wrapper == "setsid" else process.pid
    number = getattr(signal, f"SIG{name}")
    if wrapper == "group":
        os.killpg(process.pid, number)
        if name == "TERM":
            os.killpg(process.pid, signal.SIGCONT)
    else:
        os.kill(target, number)
    if wrapper == "timeout":
        # It passes the signal on in its own time.
        ended = time.monotonic() + 2
        while process.poll() is None and time.monotonic() < ended:
            time.sleep(0.01)
    if name != "TSTP":
        return False
    time.sleep(0.3)
    stopped = state(target) == "T"
    os.kill(target, signal.SIGCONT)
    return stopped


def outcome(number, with_cudarun, wrapper, name, how, phase, sent=None):
    start = Start(number, with_cudarun)
    process = begin(start, wrapper, name, how)
    try:
        if isinstance(phase, float):
            until(lambda: start.cudarun() or process.poll() is not None, "cudarun")
            time.sleep(phase)
        else:
            start.await_phase(phase)
        stopped = send(start, process, wrapper, sent or name)
        if VERB:
            # A signal is handed on, which takes a moment.
            time.sleep(0.5)
        start.let_go()
        process.communicate(timeout=PATIENCE)
        left = start.left()
    finally:
        if process.poll() is None:
            process.kill()
    if start.starts() > 1:
        raise Trouble("two starts")
    return process.returncode, stopped, start.told(), left


@functools.cache
def alone(wrapper, name, how, sent):
    """The outcome for the program alone. Two threads may both look."""
    return outcome(f"alone-{next(COUNT)}", False, wrapper, name, how, "after", sent)


def judge_row(number, row):
    wrapper, name, how, phase = row
    got = outcome(number, True, wrapper, name, how, phase)
    wants = [alone(wrapper, name, how, name)]
    if name == "PIPE" and (VERB or phase != "after"):
        # Rust's runtime makes cudarun ignore SIGPIPE, so that its own writes fail: one that is sent may be lost.
        wants.append(alone(wrapper, name, how, "CONT"))
    if VERB and how == "blocked" and (phase != "after" or (wrapper, name) == ("nohup", "HUP")):
        # A signal that came before the program is handed on to it while it runs, and it may have ended. One that is ignored as
        # well is not handed on.
        wants.append(alone(wrapper, name, how, "CONT"))
    return None if got in wants else f"{got}, and the program alone {wants}"


def terminal_case(number, with_cudarun, case):
    """In an interactive shell. Returns lines that say what happened."""
    kind, phase = case
    start = Start(number, with_cudarun)
    child, terminal = pty.fork()
    if child == 0:
        for each in [signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGPIPE]:
            signal.signal(each, signal.SIG_DFL)
        os.execvpe("bash", ["bash", "--norc", "--noprofile", "-i"], start.environment)
    said = b""

    def hear():
        nonlocal said
        while select.select([terminal], [], [], 0)[0]:
            try:
                got = os.read(terminal, 4096)
            except OSError:
                return
            if not got:
                return
            said += got

    def says(text):
        def heard():
            hear()
            return text in said

        until(heard, f"{text!r} in {kind}")

    def key(text):
        os.write(terminal, text)

    def result():
        key(b"\necho status=$((1+$?-1))=\n")

        def heard():
            hear()
            return re.search(rb"status=(\d+)=", said)

        return int(until(heard, f"status of {kind}")[1])

    try:
        attributes = termios.tcgetattr(terminal)
        attributes[3] &= ~termios.ECHO
        termios.tcsetattr(terminal, termios.TCSANOW, attributes)
        key(b"ulimit -c 0; echo be''gun\n")
        says(b"begun")
        words = " ".join(start.words).encode()
        end = {"reads": b" reads &\n", "writes": b" writes &\n"}.get(kind, b"\n")
        if kind == "writes":
            key(b"stty tostop\n")
        key(words + end)
        start.await_phase(phase)
        if kind == "hang-up":
            hear()
            os.close(terminal)
            terminal = None
            # It ends by the signal, without being let go.
            left = start.left()
            return [start.told(), left]
        if kind in ["reads", "writes"]:
            start.let_go()
            program = until(start.cudarun, "program")
            until(lambda: state(program) == "T", "stop")
            key(b"stty -tostop; fg\n")
            until(lambda: state(program) != "T", "going on")
            key(b"a line\n")
            until(lambda: start.told() or state(program) == "gone", "end")
        elif kind == "Ctrl-Z":
            program = until(start.cudarun, "program")
            key(b"\x1a")
            until(lambda: state(program) == "T", "stop")
            says(b"Stopped")
            start.let_go()
            key(b"fg\n")
            until(lambda: start.told() or state(program) == "gone", "end")
        else:
            key({"Ctrl-C": b"\x03", "Ctrl-\\": b"\x1c"}[kind])
            until(lambda: not start.cudarun(), "end")
            start.let_go()
        status = result()
        key(b"exit\n")
        return [status, start.starts() == 1 or phase != "after", start.told(), start.left()]
    except Trouble as trouble:
        hear()
        raise Trouble(f"{trouble}: {said!r}")
    finally:
        if terminal is not None:
            os.close(terminal)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)


def judge_terminal(number, case):
    got, want = terminal_case(number, True, case), terminal_case(number, False, (case[0], "after"))
    return None if got == want else f"{got}, and the program alone {want}"


def random_row(seed):
    """A signal at a random moment. One that is ignored or blocked then loses no start."""
    chance = random.Random(seed)
    wrapper, name, how = chance.choice(list(WRAPPERS)), chance.choice(SIGNALS[:5]), chance.choice(list(STATES))
    return wrapper, name, how, chance.uniform(0, 2.5)


def main():
    count = int(sys.argv[1])
    is_whole = count >= 1000
    rows = [
        (wrapper, name, how, phase)
        for wrapper in WRAPPERS for name in SIGNALS for how in STATES for phase in PHASES
    ]
    if not is_whole:
        rows = random.Random(7).sample(rows, count)
    keys = [(kind, phase) for kind in ["Ctrl-C", "Ctrl-\\", "Ctrl-Z", "hang-up"] for phase in PHASES[1:]]
    keys += [("reads", "after"), ("writes", "after")]
    tasks = [(judge_row, row) for row in rows] + [(judge_terminal, key) for key in keys]
    tasks += [(judge_row, random_row(seed)) for seed in range(count)]

    def one(number):
        judge, what = tasks[number]
        try:
            return judge(number, what)
        except (Trouble, subprocess.TimeoutExpired, OSError) as error:
            return f"{type(error).__name__}: {error}"

    failed = 0
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        for (_, what), wrong in zip(tasks, pool.map(one, range(len(tasks)))):
            if wrong:
                failed += 1
                print("WRONG", what, wrong, flush=True)
    print(f"{len(rows)} rows, {len(keys)} keys, {count} random moments")
    print("all of it holds" if not failed else f"{failed} wrong")


if __name__ == "__main__":
    main()
