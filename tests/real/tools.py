"""Tools that start a program in an environment, and programs that PyInstaller packs: tests/real/tools.py PATH-TO-cudarun

uv starts a Python that says which one it is; `cudarun explain` must lead to the same one, or say that it is not known. Of the
environments of Poetry, Pipenv and PDM it must say that they are not known. Of two programs that PyInstaller packs, in one file and as a directory, the one that carries a
library of NVIDIA's must be spoken of and the other must not.

The tools are installed once from the Python package index: 60 MB.
"""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import CACHE

TOOLS = ["uv==0.13.9", "poetry==2.5.1", "pipenv==2026.10.3", "pdm==2.29.3", "pyinstaller==6.22.3"]
WHO = "import sys; print(sys.executable)"
PROJECT = """[project]
name = "{name}"
version = "0"
requires-python = ">=3.9"
"""
UNKNOWN = "environment-not-known"
PATHS = ["VIRTUAL_ENV", "CONDA_PREFIX"]

# In which directory, with which variables, what is started, and where that is: below the project, or not known.
CASES = [
    ("ws", {}, "uv run who.py", "ws/.venv"),
    ("ws", {}, "uv run python who.py", "ws/.venv"),
    ("ws", {}, "uv run -m who", "ws/.venv"),
    ("ws", {}, "uv run -p {version} --no-sync who.py", "ws/.venv"),
    ("ws", {}, "uv run inline.py", UNKNOWN),
    ("ws/packages/b", {}, "uv run python ../../who.py", "ws/.venv"),
    ("ws", {"VIRTUAL_ENV": "other"}, "uv run who.py", "ws/.venv"),
    ("ws", {"VIRTUAL_ENV": "other"}, "uv run --active --no-sync who.py", "other"),
    ("ws", {"VIRTUAL_ENV": "other"}, "uv run --no-project who.py", "other"),
    ("loose", {"VIRTUAL_ENV": "other"}, "uv run who.py", "other"),
    ("", {}, "uv run --project ws ws/who.py", "ws/.venv"),
    ("", {}, "uv --directory ws run who.py", "ws/.venv"),
    ("", {}, "uv run ws/who.py", UNKNOWN),
    ("ws", {"UV_PROJECT_ENVIRONMENT": "second"}, "uv run who.py", UNKNOWN),
    ("ws", {"UV_PROJECT_ENVIRONMENT": "second"}, "uv run who.py", "ws/second"),
    ("found", {"CONDA_PREFIX": "other"}, "uv run who.py", "other"),
    ("found", {"CONDA_PREFIX": "other", "CONDA_DEFAULT_ENV": "other"}, "uv run who.py", "other"),
    ("found", {"CONDA_PREFIX": "other", "CONDA_DEFAULT_ENV": "base"}, "uv run who.py", "found/.venv"),
    ("found", {"CONDA_PREFIX": "other", "CONDA_DEFAULT_ENV": "another"}, "uv run who.py", "found/.venv"),
    ("ws", {}, "{python} -m uv run who.py", "ws/.venv"),
    ("plain", {}, "poetry run python who.py", UNKNOWN),
    ("plain", {}, "pipenv run python who.py", UNKNOWN),
    ("plain", {}, "pdm run python who.py", UNKNOWN),
    ("plain", {"VIRTUAL_ENV": "other"}, "{python} -m poetry run python who.py", UNKNOWN),
]


def main():
    cudarun = os.path.abspath(sys.argv[1])
    tools = installed()
    failures = 0
    with tempfile.TemporaryDirectory() as place:
        root = Path(place).resolve()
        environment = {
            "PATH": f"{tools}:/usr/local/bin:/usr/bin:/bin", "HOME": str(root / "home"), "UV_OFFLINE": "1",
            "UV_PYTHON_DOWNLOADS": "never", "PDM_CHECK_UPDATE": "0",
        }
        arrange(root, environment)
        for directory, variables, line, expected in CASES:
            named = {name: str(root / value) if name in PATHS else value for name, value in variables.items()}
            words = line.format(python=tools / "python", version=f"{sys.version_info[0]}.{sys.version_info[1]}").split()
            how = {"cwd": root / directory, "env": environment | named, "capture_output": True, "text": True}
            explained = subprocess.run([cudarun, "explain", "--json", *words], **how)
            target = json.loads(explained.stdout)["program"]
            led = [step["to"] for step in target["steps"] if step["how"] == "wrapper"]
            notes = [note["note"] for note in target["notes"]]
            real = subprocess.run(words, **how)
            ran = real.stdout.strip().splitlines()[-1:] or [real.stderr]
            if expected == UNKNOWN:
                fits = notes == [UNKNOWN] and not led
            else:
                fits = [os.path.dirname(path) for path in led] == [str(root / expected / "bin")]
                fits = fits and os.path.dirname(ran[0]) == str(root / expected / "bin") and not notes
            failures += not fits
            print("ok  " if fits else "FAIL", f"{directory or '.'}: {line}")
            if not fits:
                print(f"     expected {expected}, computed {led} {notes}, ran {ran}")
        failures += packed(cudarun, tools, root, environment)
    return failures > 0


def installed():
    """The directory of the tools' programs."""
    root = CACHE / "environments" / "-".join(["tools", *(tool.split("==")[1] for tool in TOOLS)])
    if not root.is_dir():
        root.parent.mkdir(parents=True, exist_ok=True)
        print("downloading", ", ".join(TOOLS), flush=True)
        # Scripts name the place that they were installed in.
        subprocess.run([sys.executable, "-m", "venv", root], check=True)
        pip = [root / "bin/python", "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run([*pip, *TOOLS], stdin=subprocess.DEVNULL).returncode != 0:
            shutil.rmtree(root)
            sys.exit("the tools cannot be installed")
    return root / "bin"


def arrange(root, environment):
    """A workspace with a member, a project, a directory that is none, and an environment besides."""
    for directory in ["home", "ws/packages/b", "loose", "plain", "found"]:
        (root / directory).mkdir(parents=True)
    workspace = '[tool.uv.workspace]\nmembers = ["packages/*"]\n[tool.uv]\npackage = false\n'
    (root / "ws/pyproject.toml").write_text(PROJECT.format(name="a") + workspace)
    (root / "ws/packages/b/pyproject.toml").write_text(PROJECT.format(name="b") + "[tool.uv]\npackage = false\n")
    (root / "plain/pyproject.toml").write_text(PROJECT.format(name="c") + "[tool.poetry]\npackage-mode = false\n")
    (root / "plain/Pipfile").write_text("")
    (root / "ws/inline.py").write_text(f"# /// script\n# dependencies = []\n# ///\n{WHO}\n")
    for directory in ["ws", "loose", "plain", "found"]:
        (root / directory / "who.py").write_text(WHO + "\n")
    for place in ["other", "plain/.venv", "found/.venv"]:
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", root / place], check=True)
    subprocess.run(["uv", "sync", "-q"], cwd=root / "ws", env=environment, check=True)


def packed(cudarun, tools, root, environment):
    """Programs that PyInstaller makes here, and what is said of each."""
    work = root / "packed"
    work.mkdir()
    (work / "app.py").write_text("import os; print(os.environ.get('LD_LIBRARY_PATH'))\n")
    (work / "x.c").write_text("int cudaFree(void) { return 0; }\n")
    library = "libcudart.so.12"
    subprocess.run(["cc", "-shared", "-fPIC", f"-Wl,-soname,{library}", "-o", library, "x.c"], cwd=work, check=True)
    failures = 0
    for kind in ["onefile", "onedir"]:
        command = [tools / "pyinstaller", f"--{kind}", "--name", kind, "--log-level", "ERROR", "app.py"]
        command += ["--add-binary", f"{library}:nvidia/lib"]
        subprocess.run(command, cwd=work, env=environment, check=True, capture_output=True)
        program = work / "dist" / kind / kind if kind == "onedir" else work / "dist" / kind
        how = {"env": environment | {"LD_LIBRARY_PATH": "/mine"}, "capture_output": True, "text": True}
        run = subprocess.run([cudarun, program], **how)
        # It does what is said of it.
        parts = run.stdout.strip().split(":")
        fits = len(parts) == 2 and parts[1] == "/mine" and f"PyInstaller: the loader finds {library} in it before" in run.stderr
        failures += not fits
        print("ok  " if fits else "FAIL", f"PyInstaller, {kind}")
        if not fits:
            print(f"     {run.stdout} {run.stderr}")
    return failures


sys.exit(main())
