"""What the scripts of tests/real share: wheels from the Python package index, and environments made of them.

A wheel is downloaded once, into a name that says it is not finished; only what is whole gets its own name. One
process at a time makes each of them, so that scripts side by side do not tread on each other.
"""

import contextlib
import fcntl
import hashlib
import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "cudarun-tests"
# By their numbers in ELF files, and the loaders of their programs.
MACHINES = {"x86_64": 62, "aarch64": 183}
LOADERS = {"x86_64": "/lib64/ld-linux-x86-64.so.2", "aarch64": "/lib/ld-linux-aarch64.so.1"}
# Options of pip for a wheel of another machine. Each tag includes the older ones of its kind.
AARCH64 = ["manylinux2014_aarch64", "manylinux_2_24_aarch64", "manylinux_2_27_aarch64", "manylinux_2_28_aarch64"]


def rows(name):
    """The lines of a table beside this file, split into words."""
    lines = (HERE / name).read_text().splitlines()
    return [line.split() for line in lines if line.strip() and not line.startswith("#")]


@contextlib.contextmanager
def alone(name):
    """Keeps other processes from making the same."""
    (CACHE / "locks").mkdir(parents=True, exist_ok=True)
    with open(CACHE / "locks" / name, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def download(wheel, use, *options, machine="x86_64", unless=None):
    """Hands the wheel's archive to `use`; it is gone afterwards. Returns its size; 0 if the path `unless` is there, which another
    process may have made meanwhile."""
    name = f"{wheel}-{machine}"
    with alone(name):
        if unless is not None and unless.exists():
            return 0
        partial = CACHE / f"partial-{name}"
        shutil.rmtree(partial, ignore_errors=True)
        partial.mkdir()
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-cache-dir"]
        command += ["--no-deps", "--only-binary=:all:", "--dest", partial]
        for tag in AARCH64 if machine == "aarch64" else []:
            command += ["--platform", tag]
        subprocess.run([*command, *options, wheel], check=True, stdin=subprocess.DEVNULL)
        (archive,) = partial.glob("*.whl")
        size = archive.stat().st_size
        with zipfile.ZipFile(archive) as opened:
            use(opened, partial)
        shutil.rmtree(partial)
        return size


def unpacked(wheel, machine="x86_64"):
    """The directory of the wheel's files, as it is laid out in site-packages."""
    final = CACHE / "unpacked" / (wheel if machine == "x86_64" else f"{wheel}-{machine}")
    if not final.is_dir():
        final.parent.mkdir(parents=True, exist_ok=True)
        print(f"downloading {wheel}", flush=True)

        def unpack(archive, partial):
            archive.extractall(partial / "files")
            os.rename(partial / "files", final)

        download(wheel, unpack, machine=machine, unless=final)
    return final


def part(wheel, name):
    """One file of a wheel of which nothing else is wanted, which can be run."""
    final = CACHE / "parts" / wheel / os.path.basename(name)
    if not final.is_file():
        final.parent.mkdir(parents=True, exist_ok=True)
        print(f"downloading {wheel} for its {final.name}", flush=True)

        def take(archive, partial):
            taken = archive.extract(name, partial)
            os.chmod(taken, 0o755)
            os.rename(taken, final)

        # It is not for the Python that runs this, and not every release has a wheel for that.
        download(wheel, take, "--python-version", "3.11", unless=final)
    return final


def libraries(directory):
    """Every file that is named like a shared library."""
    return sorted(path for path in directory.rglob("*.so*") if path.is_file() and is_library(path.name))


def is_library(name):
    return name.endswith(".so") or ".so." in name


def environment(name, *wheels, under=CACHE / "environments"):
    """A virtual environment with these wheels, their files linked and not copied: its Python, its site-packages. A wheel may be
    the directory of its files."""
    root = under / name
    shutil.rmtree(root, ignore_errors=True)
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", root], check=True)
    for wheel in wheels:
        tree = wheel if isinstance(wheel, Path) else unpacked(wheel)
        shutil.copytree(tree, site_packages(root), copy_function=link, dirs_exist_ok=True)
    return root / "bin" / "python", site_packages(root)


def kept_environment(name, wheels):
    """The same, built once for these wheels and under its own name only when it is whole."""
    digest = hashlib.sha256(json.dumps([sys.version, *wheels]).encode()).hexdigest()[:12]
    final = CACHE / "environments" / f"{name}-{digest}"
    with alone(name):
        if not final.is_dir():
            for old in final.parent.glob(f"{name}-*"):
                shutil.rmtree(old)
            environment(f"{name}-partial", *wheels)
            os.rename(final.parent / f"{name}-partial", final)
    return final / "bin" / "python"


def site_packages(root):
    return next((root / "lib").glob("python3.*")) / "site-packages"


def link(source, destination):
    """Several wheels bring the same empty `__init__.py`."""
    if not os.path.exists(destination):
        os.link(source, destination)


def listed(cudarun, *options):
    """What `cudarun list --json` says, whatever stands in the environment of this process."""
    env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/nonexistent"}
    command = [cudarun, *map(str, options), "--json"]
    run = subprocess.run(command, env=env, capture_output=True, text=True)
    if run.returncode not in (0, 1):
        sys.exit(f"{' '.join(command)}: status {run.returncode}: {run.stderr}")
    return json.loads(run.stdout)


def pretend(root, machine, name="python3"):
    """The least file that passes for the root's Python: from it one knows what machine the root is of."""
    loader = LOADERS[machine].encode() + b"\0"
    numbers = (2, 1, 1, 2, MACHINES[machine], 1, 0, 64, 0, 0, 64, 56, 1, 64, 0, 0)
    header = struct.pack("<4sBBB9xHHIQQQIHHHHHH", b"\x7fELF", *numbers)
    interpreter = struct.pack("<IIQQQQQQ", 3, 4, 120, 120, 120, len(loader), len(loader), 1)
    python = os.path.join(root, "usr", "bin", name)
    os.makedirs(os.path.dirname(python))
    with open(python, "wb") as file:
        file.write(header + interpreter + loader)
    os.chmod(python, 0o755)
