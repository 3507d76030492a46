#!/usr/bin/env python3
"""The Python package beside the binary, in a virtual environment: tests/python.py [WHEEL | cudarun]

With a wheel, pip installs that; with a binary (by default target/release/cudarun), it and python/ are laid as pip lays them.
Runs the blocks of docs/python.md. Needs python3 with venv, and gcc for libraries that stand in for NVIDIA's.
"""

import ast
import contextlib
import html.parser
import json
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import venv
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent
GIVEN = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else ROOT / "target" / "release" / "cudarun").resolve()
PACKAGE = ROOT / "python" / "cudarun"
ENTRY_POINTS = "[jupyter_client.kernel_provisioners]\ncudarun=cudarun.provisioner:CudarunProvisioner\n"
# It would end a string, a terminal's line, and an element.
HOSTILE = "<script>alert(1)</script>\x1b[31m\"'&\u202e"
# What an older cudarun answers; it is the one thing here that cannot be had of the one that is tested.
OLDER = """#!/bin/sh
echo '{"error": {"code": 2, "hint": null, "message": "unexpected argument '"'--running'"' found"}, "schema": 2, "cudarun": "0.2.0"}'
exit 2
"""
# Opens its arguments, lets the tests look from outside, and looks itself.
LOOKS = """
import ctypes, json, sys, cudarun
for path in sys.argv[1:]:
    ctypes.CDLL(path)
check = cudarun.check()
print(json.dumps([check.is_mixed, check.to_dict(), str(check), repr(check), check._repr_html_()]), flush=True)
sys.stdin.read()
"""
# Everything that importing could change, before and after it.
IMPORTS = """
import os, signal, sys
def now():
    with open("/proc/self/maps") as maps:
        libraries = {line.split()[-1] for line in maps if ".so" in line and "/lib-dynload/" not in line}
    signals = [signal.getsignal(number) for number in signal.valid_signals() if number not in (signal.SIGKILL, signal.SIGSTOP)]
    return dict(os.environ), list(sys.path), os.listdir("/proc/self/fd"), {path for path in libraries if "cu" in path}, signals
before = now()
import cudarun
assert now() == before, (before, now())
assert "jupyter_client" not in sys.modules and "cudarun.provisioner" not in sys.modules
"""
failures = []
checks = 0


def step(what):
    print(f"-- {what} ({time.monotonic() - BEGAN:.0f} s)", flush=True)


def check(holds, what):
    global checks
    checks += 1
    if not holds:
        failures.append(what)
        print(f"FAILS {what}", flush=True)


def block(name):
    """The text of a block of docs/python.md."""
    page = (ROOT / "docs" / "python.md").read_text()
    found = re.search(rf"^<!-- (?:run|used) by tests/python.py as {name} -->\n```\w+\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    if not found:
        sys.exit(f"docs/python.md has no block {name}")
    return found.group(1)


class Tags(html.parser.HTMLParser):
    """The elements of a page, and its text."""

    def __init__(self, page):
        super().__init__()
        self.open, self.seen, self.text, self.rows = [], set(), "", 0
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.open.append(tag)
        self.seen.add(tag)
        self.rows += tag == "tr"

    def handle_endtag(self, tag):
        check(self.open and self.open.pop() == tag, f"</{tag}> closes what is open")

    def handle_data(self, data):
        self.text += data


class Environment:
    """A virtual environment with the package, and an empty home."""

    def __init__(self, work):
        self.root = work / "venv"
        self.home = work / "home"
        self.home.mkdir()
        with_pip = GIVEN.suffix == ".whl"
        venv.create(self.root, symlinks=True, with_pip=with_pip)
        self.python = self.root / "bin" / "python"
        self.program = self.root / "bin" / "cudarun"
        if with_pip:
            options = ["--quiet", "--disable-pip-version-check", "--no-index", "--no-deps"]
            subprocess.run([self.python, "-m", "pip", "install", *options, GIVEN], check=True)
        else:
            (site,) = self.root.glob("lib/python3*/site-packages")
            shutil.copytree(PACKAGE, site / "cudarun", ignore=shutil.ignore_patterns("__pycache__"))
            self.program.symlink_to(GIVEN)

    def run(self, *words, env=None, cwd=None, **options):
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", **(env or {})}
        return subprocess.run(
            [str(word) for word in words],
            env=env, cwd=cwd or self.home, capture_output=True, text=True, **options
        )

    def says(self, *code, **options):
        """What this code prints, with what it says on standard error if it fails."""
        done = self.run(self.python, "-c", *code, **options)
        return done.stdout if done.returncode == 0 else f"{done.stdout}status {done.returncode}: {done.stderr}"

    def fails(self, code, **options):
        """The error that this code raises."""
        return self.says(f"import cudarun\ntry:\n    {code}\nexcept cudarun.Error as error:\n    print(error)", **options)


def cudnn(directory, version):
    """The main library of a cuDNN, and one of its parts. Its version stands in another part."""
    directory.mkdir(parents=True, exist_ok=True)
    for part in ["", "_graph", "_ops"]:
        name = f"libcudnn{part}.so.9"
        subprocess.run(
            ["gcc", "-shared", "-fPIC", "-x", "c", "-Wl,-soname," + name, "-o", directory / name, "-"],
            input=f'__attribute__((used)) const char stamp[] = "cudnn_version_{version.replace(".", "_")}_";'.encode(), check=True
        )
    return directory / "libcudnn.so.9", directory / "libcudnn_ops.so.9"


def contents(wheel):
    """What a wheel must consist of."""
    tag = re.fullmatch(r"cudarun-[\d.]+-py3-none-([\w.]+)\.whl", wheel.name)
    check(tag and "linux" in tag.group(1), f"{wheel.name} is for each Python 3 of one platform")
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if name.startswith("cudarun/")}
        sources = {f"cudarun/{path.name}" for path in PACKAGE.iterdir() if path.is_file()}
        check(names == sources, f"the wheel has {sorted(names)} of the package")
        (points,) = (name for name in archive.namelist() if name.endswith("/entry_points.txt"))
        said = archive.read(points).decode().replace(" = ", "=").strip() + "\n"
        check(said == ENTRY_POINTS, f"the entry points are {said!r}")


def launcher(at, work):
    version = at.run(at.python, "-m", "cudarun", "--version").stdout
    check(re.fullmatch(r"cudarun \d+\.\d+\.\d+\n", version), f"python -m cudarun --version prints {version!r}")
    for code, status in [("exit 7", 7), ("kill -TERM $$", -15)]:
        got = at.run(at.python, "-m", "cudarun", "sh", "-c", code).returncode
        check(got == status, f"python -m cudarun ends with {status} by `{code}`: {got}")
    plain = at.run("grep", "SigIgn", "/proc/self/status").stdout
    got = at.run(at.python, "-m", "cudarun", "grep", "SigIgn", "/proc/self/status").stdout
    check(got == plain, f"python -m cudarun leaves signals as they were: {got}")
    words = "[sys.executable, '-m', 'cudarun', 'sh', '-c', 'echo $$']"
    got = at.says(f"import os, sys; print(os.getpid(), flush=True); os.execv(sys.executable, {words})")
    check(len(set(got.split())) == 1, f"python -m cudarun becomes the program: {got}")
    # Another one in PATH comes after the environment's own; it is used where that is missing.
    other = work / "other"
    other.mkdir()
    (other / "cudarun").write_text("#!/bin/sh\necho other\n")
    (other / "cudarun").chmod(0o755)
    path = {"PATH": f"{other}:/usr/bin:/bin"}
    got = at.run(at.python, "-m", "cudarun", "--version", env=path).stdout
    check(got == version, f"the program of the environment comes first: {got}")
    with without_program(at):
        got = at.run(at.python, "-m", "cudarun", "--version", env=path).stdout
        check(got == "other\n", f"without it, that in PATH: {got}")
        done = at.run(at.python, "-m", "cudarun", "true")
        said = re.match("cudarun: there is no program cudarun .*\nhint: pip install", done.stderr)
        check(done.returncode == 125 and said, f"without any, an error: {done}")
        got = at.fails("cudarun.report()")
        check(got == done.stderr.replace("cudarun: ", "", 1), f"and an exception: {got}")
    with without_program(at):
        at.program.write_text("#!/nowhere/interpreter\n")
        at.program.chmod(0o755)
        done = at.run(at.python, "-m", "cudarun", "true")
        said = "does not start: No such file" in done.stderr
        check(done.returncode == 125 and said, f"a program that cannot be started: {done}")
        got = at.fails("cudarun.report()")
        check("does not start" in got and "\nhint: " in got, f"the same as an exception: {got}")
        at.program.write_text("#!/bin/sh\necho trouble >&2\nexit 3\n")
        check("printed no JSON object: trouble\nhint: " in at.fails("cudarun.report()"), "a program that is another one")
        at.program.write_text("#!/bin/sh\necho '{\"schema\": 3}'\n")
        check("another schema than this package: 3, not 2\nhint: " in at.fails("cudarun.report()"), "a newer program")
        at.program.unlink()


@contextlib.contextmanager
def without_program(at):
    aside = at.program.with_name("aside")
    at.program.rename(aside)
    try:
        yield
    finally:
        aside.rename(at.program)


def other_places(at, work):
    """The program is found beside the package, however pip has laid both."""
    (site,) = at.root.glob("lib/python3*/site-packages")
    where = "import cudarun._program; print(cudarun._program.find())"
    target = work / "target"
    shutil.copytree(site / "cudarun", target / "cudarun")
    (target / "bin").mkdir()
    (target / "bin" / "cudarun").symlink_to(at.program)
    got = at.says(where, env={"PYTHONPATH": str(target)}).strip()
    check(got == str(target / "bin" / "cudarun"), f"pip install --target: {got}")
    # Another environment, of which this one is only the path.
    bare = work / "bare"
    venv.create(bare, symlinks=True, with_pip=False)
    got = at.run(bare / "bin" / "python", "-c", where, env={"PYTHONPATH": str(site)}).stdout.strip()
    check(got == str(at.program), f"an environment over another one: {got}")
    user = at.home / ".local"
    (user / "bin").mkdir(parents=True)
    (user / "bin" / "cudarun").symlink_to(at.program)
    checkout = {"PYTHONPATH": str(PACKAGE.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    got = at.run(bare / "bin" / "python", "-c", where, env=checkout).stdout.strip()
    check(got == str(user / "bin" / "cudarun"), f"a checkout beside pip install --user: {got}")
    shutil.rmtree(user)


def reports(at):
    printed = at.run(at.program, "doctor", "--json")
    told = json.loads(at.says("import cudarun, json; print(json.dumps(cudarun.report()))"))
    check(told.keys() == json.loads(printed.stdout).keys(), f"report() is the object of doctor: {list(told)}")
    # A machine without anything has no GPU: a finding, so the status is 1.
    empty = at.home / "empty"
    (empty / "etc").mkdir(parents=True)
    status = at.run(at.program, "doctor", "--root", empty).returncode
    got = at.says("import cudarun, sys; print(cudarun.report(*sys.argv[1:])['findings'][0]['code'])", "--root", empty)
    check(status == 1 and got == "no-gpu\n", f"report() with findings: {status} {got}")
    got = at.fails('cudarun.report("--root", "/nowhere")')
    check("/nowhere" in got and "\nhint: " in got, f"report() with a wrong option: {got}")


@contextlib.contextmanager
def process(at, *libraries):
    """A Python with these libraries, and what it says of itself."""
    words = [at.python, "-c", LOOKS, *libraries]
    env = {"HOME": str(at.home), "PATH": "/usr/bin:/bin"}
    child = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env)
    try:
        yield child.pid, json.loads(child.stdout.readline() or "null")
    finally:
        child.communicate()


def running(at, work):
    new, ops = cudnn(work / "new", "9.10.2.21")
    _, old = cudnn(work / "old", "9.1.0.70")
    _, hostile = cudnn(work / HOSTILE.replace("/", "\\"), "9.1.0.70")

    with process(at) as (pid, (is_mixed, told, text, _, page)):
        check(not is_mixed and told["libraries"] == [], f"a process without libraries: {told}")
        check(text.startswith(f"process {pid} has no NVIDIA library\n"), text)
        check("table" not in Tags(page).seen, page)
    with process(at, new, ops) as (pid, (is_mixed, told, text, _, page)):
        check(not is_mixed and told["mixed"] == [] and not told["started_by_cudarun"], f"one installation: {told}")
        check({library["path"] for library in told["libraries"]} == {str(new), str(ops)}, f"its files: {told}")
        check(text.startswith(f"process {pid} mixes no NVIDIA libraries\n") and f"9.10.2.21  {new}\n" in text, text)
        check(Tags(page).rows == 3, page)
    with process(at, new, old) as (pid, (is_mixed, told, text, as_repr, page)):
        check(is_mixed and [mixed["family"] for mixed in told["mixed"]] == ["cudnn"], f"two installations: {told}")
        check(text.startswith(f"process {pid} mixes NVIDIA libraries\n") and text == as_repr, text)
        check(re.search(rf"^cudnn +9\.1\.0\.70 +{old} +mixed$", text, re.MULTILINE), text)
        check(text.splitlines()[-1].startswith(f"  cudarun {at.python} -c "), text)
        tags = Tags(page)
        check(tags.rows == 3 and tags.open == [] and str(old) in tags.text and "mixed" in tags.text, page)
        # Another process says the same about it, and leaves it as it is.
        maps = pathlib.Path(f"/proc/{pid}/maps").read_text()
        got = json.loads(at.says(f"import cudarun, json; print(json.dumps(cudarun.check({pid}).to_dict()))"))
        check(got == told, f"looked at from outside: {got}")
        check(pathlib.Path(f"/proc/{pid}/maps").read_text() == maps, "looking changes what is mapped")
        # As an upgrade does.
        shutil.copy(new, work / "next")
        (work / "next").rename(new)
        got = at.says(f"import cudarun; print(cudarun.check({pid}))")
        check(re.search(rf"{new} +mixed, deleted since$", got, re.MULTILINE), got)
    with process(at, new, hostile) as (_, (is_mixed, told, text, _, page)):
        check(is_mixed and any(library["path"] == str(hostile) for library in told["libraries"]), f"hostile names: {told}")
        tags = Tags(page)
        elements = {"div", "p", "b", "table", "tr", "th", "td", "code"}
        check(tags.seen == elements and tags.open == [], f"hostile names stay text: {page}")
        check("<script>alert(1)" in tags.text, page)
        for shown in (text.replace("\n", ""), page):
            check(shown.isprintable(), f"hostile names are escaped: {shown!r}")
        check("\\x1b[31m\"'&\\u202e" in text, text)
    # It has ended.
    got = at.fails(f"cudarun.check({pid})")
    check(got.startswith(f"no process {pid}\nhint: "), f"a process that is gone: {got}")
    got = at.fails("cudarun.check('12')")
    check(got == "'12' is not the number of a process\nhint: cudarun.check(PID)\n", f"a text for a number: {got}")
    got = at.fails("cudarun.check(-5)")
    check("\nhint: " in got and "old" not in got, f"no number of a process: {got}")
    with without_program(at):
        at.program.write_text(OLDER)
        at.program.chmod(0o755)
        got = at.fails("cudarun.check()")
        said = got.startswith("this cudarun is too old to look at running processes\nhint: pip install")
        check(said, f"an older program: {got}")
        at.program.unlink()


def document(at, work):
    """The blocks of docs/python.md, in an environment whose libraries are mixed, and in one whose are not."""
    activated = {"PATH": f"{at.root}/bin:/usr/bin:/bin"}
    done = at.run("sh", "-ec", block("launcher"), env=activated)
    check(done.returncode == 0 and done.stdout.endswith("works\n"), f"the block launcher: {done}")
    findings = json.loads(at.run(at.program, "doctor", "--json").stdout)["findings"]
    done = at.says(block("report"), env=activated)
    check(done == f"{[finding['code'] for finding in findings]}\n", f"the block report: {done}")
    load = "import ctypes\nfor path in {}:\n    ctypes.CDLL(path)\n"
    mixed = [str(work / "new" / "libcudnn.so.9"), str(work / "old" / "libcudnn_ops.so.9")]
    for libraries, said in [(mixed, "mixes NVIDIA"), (mixed[:1], "mixes no NVIDIA")]:
        # A notebook shows the value of a cell's last line.
        code = block("check").strip().splitlines()
        code[-1] = f"print({code[-1]})"
        done = at.says(load.format(libraries) + "\n".join(code), env=activated)
        check(said in done, f"the block check: {done}")
        done = at.says(load.format(libraries) + block("guard"), env=activated)
        check(("status 1: " in done and "mixed" in done) == (libraries is mixed), f"the block guard: {done}")


BEGAN = time.monotonic()


def main():
    for path in PACKAGE.glob("*.py"):
        ast.parse(path.read_text(), str(path), feature_version=(3, 8))
    with tempfile.TemporaryDirectory() as directory:
        work = pathlib.Path(directory).resolve()
        if GIVEN.suffix == ".whl":
            step("the wheel")
            contents(GIVEN)
        at = Environment(work)
        step("python -m cudarun")
        launcher(at, work)
        other_places(at, work)
        step("import, report()")
        check(at.says(IMPORTS) == "", f"importing changes something: {at.says(IMPORTS)}")
        reports(at)
        if "--running" in at.run(at.program, "list", "--help").stdout:
            step("check()")
            running(at, work)
            step("docs/python.md")
            document(at, work)
        else:
            print("left out: check(), since this cudarun has no `list --running`")
    print(f"python: {checks} checks, {len(failures)} failed ({time.monotonic() - BEGAN:.0f} s)")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
