"""cudarun for aarch64 in an emulated userland: tests/arm/rows.py RELEASE PATH-TO-measure

RELEASE is a directory with the archive, the wheel and the Debian package for aarch64, and measure a program for it. An arm64 Debian
with its own loader and Python, and NVIDIA's real wheels for aarch64, run by qemu-aarch64-static: cudarun is installed from each of
the three; what is installed is listed; for each dynamic file the model of the loader says what the loader says; a cuDNN
of which half comes from LD_LIBRARY_PATH is whole with cudarun in each mode, through bash and make as well; the compiler of a toolkit in wheels runs, jax's plug-in gets its cuDNN, and CTranslate2 is known to be a
CPU build; a set is proved as far
as it goes without a driver; wheels of this machine are fetched. Each row of a cure has its control, the same without cudarun. There is no GPU,
and no time is measured.

Needs root, mmdebstrap, qemu-user-static and a kernel that lets binfmt_misc be set; a line says what is missing. The userland and the
wheels are kept in ~/.cache/cudarun-tests (1.5 GB). With --missing alone, it prints what is missing, and fails if nothing is.
"""

import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "real"))

import checks
import loader
from checks import case
from wheels import AARCH64, CACHE, LOADERS, MACHINES, alone, link, unpacked

ROOT = CACHE / "arm64" / "bookworm-2"
PACKAGES = "python3 python3-pip dpkg diffutils bash coreutils make libc-bin dash findutils grep sed libstdc++6 util-linux mawk tar gzip binutils"
BINFMT = Path("/proc/sys/fs/binfmt_misc")
# The first 20 bytes of a program for aarch64, and which of their bits count.
MAGIC = (
    r":cudarun-arm64:M::\x7fELF\x02\x01\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\xb7\x00"
    r":\xff\xff\xff\xff\xff\xff\xff\x00\xff\xff\xff\xff\xff\xff\xff\xff\xfe\xff\xff\xff:/usr/bin/qemu-aarch64-static:F"
)
NEW, OLD = "nvidia-cudnn-cu12==9.10.2.21", "nvidia-cudnn-cu12==9.5.1.17"
CUDA = ["nvidia-cuda-runtime-cu12==12.8.90", "nvidia-cuda-nvrtc-cu12==12.8.93", "nvidia-nvjitlink-cu12==12.8.93"]
TOOLKIT = ["nvidia-cuda-nvcc==13.0.88", "nvidia-nvvm==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-cccl==13.0.85"]
TOOLKIT += ["nvidia-cuda-runtime==13.0.96"]
JAX = ["jax==0.8.3", "jaxlib==0.8.3", "jax-cuda12-pjrt==0.8.3", "jax-cuda12-plugin==0.8.3", "scipy==1.15.3", "ml-dtypes==0.5.3"]
JAX += ["opt-einsum==3.4.0", "numpy==2.2.6"]
CTRANSLATE2 = ["ctranslate2==4.8.5", "numpy==2.2.6", "pyyaml==6.0.2", "setuptools==80.9.0"]
# Prints what jax's plug-in loads as cuDNN, and the directories of its files in this process.
OF_JAX = """
import os
from jax_plugins import xla_cuda12
try:
    xla_cuda12.initialize()
except RuntimeError:
    pass
version = xla_cuda12.cuda_versions.cudnn_get_version()
files = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "libcudnn" in line}
print(version, *sorted({os.path.dirname(os.path.realpath(file)) for file in files}))
"""
# Prints cuDNN's version, and the directories of its files in this process.
PROGRAM = """
import ctypes, os
cudnn = ctypes.CDLL("libcudnn.so.9")
faults = [part for part in "Ops Cnn Adv".split() if getattr(cudnn, f"cudnn{part}VersionCheck")()]
files = {line[line.index("/"):].strip() for line in open("/proc/self/maps") if "libcudnn" in line}
print(cudnn.cudnnGetVersion(), *faults, *sorted({os.path.dirname(os.path.realpath(file)) for file in files}))
"""


def missing():
    """What keeps programs for aarch64 from running here, or None."""
    if os.geteuid() != 0:
        return "root is needed"
    for tool in ("mmdebstrap", "qemu-aarch64-static"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    try:
        with emulator():
            return None
    except OSError as error:
        return f"binfmt_misc cannot be set: {error}"


@contextlib.contextmanager
def emulator():
    """Lets the kernel start programs for aarch64, if it does not; afterwards all is as before."""
    own, is_mounted = BINFMT / "cudarun-arm64", (BINFMT / "register").exists()
    if not is_mounted:
        subprocess.run(["mount", "-t", "binfmt_misc", "none", BINFMT], stderr=subprocess.DEVNULL)
    # An interrupted run has left its own.
    is_known = any("aarch64" in name.name for name in BINFMT.glob("*"))
    try:
        if not is_known and not own.exists():
            (BINFMT / "register").write_text(MAGIC)
        yield
    finally:
        if not is_known and own.exists():
            own.write_text("-1")
        if not is_mounted:
            subprocess.run(["umount", BINFMT], stderr=subprocess.DEVNULL)


def userland():
    with alone("arm64"):
        if ROOT.is_dir():
            return
        partial = ROOT.with_name("partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        print("unpacking Debian 12 for arm64", flush=True)
        include = "--include=" + ",".join(PACKAGES.split())
        # Nothing of it needs to be configured but the loader's cache.
        subprocess.run(["mmdebstrap", "--quiet", "--arch=arm64", "--variant=extract", include, "bookworm", partial], check=True)
        subprocess.run(["chroot", partial, "/sbin/ldconfig"], check=True)
        os.rename(partial, ROOT)


class Machine:
    def __init__(self, release, measure):
        self.home = ROOT / "home" / "tests"
        for before in (self.home, ROOT / "usr" / "local"):
            shutil.rmtree(before, ignore_errors=True)
            before.mkdir(parents=True)
        shutil.copytree(release, self.home / "release")
        shutil.copy(measure, ROOT / "usr" / "bin")
        self.site = self.environment("own", NEW, *CUDA)
        self.old = self.environment("other", OLD) / "nvidia" / "cudnn" / "lib"
        # Half of another release, as a person's variable leaves it.
        self.half = self.home / "half"
        self.half.mkdir()
        for file in self.old.glob("libcudnn_[ao]*.so.9"):
            os.link(file, self.half / file.name)
        (self.home / "program.py").write_text(PROGRAM)
        (self.home / "Makefile").write_text("all:\n\t@python3 program.py\n")

    def environment(self, name, *wheels):
        """A virtual environment of the userland's Python."""
        root = self.home / name
        site = root / "lib" / "python3.11" / "site-packages"
        for wheel in wheels:
            shutil.copytree(unpacked(wheel, machine="aarch64"), site, copy_function=link, dirs_exist_ok=True)
        (root / "bin").mkdir()
        (root / "bin" / "python3").symlink_to("/usr/bin/python3")
        (root / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\nversion = 3.11.2\n")
        return site

    def run(self, *words, timeout=300, **variables):
        """Runs a command in the userland, as one does in the environment `own`."""
        env = {"PATH": f"{inside(self.home)}/own/bin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": inside(self.home)}
        # Set in there: the variables are not for programs of this machine.
        variables = [f"{name}={value}" for name, value in {**env, **variables}.items()]
        words = ["chroot", ROOT, "env", "-i", "-C", inside(self.home), *variables, *words]
        return subprocess.run(list(map(str, words)), capture_output=True, text=True, errors="replace", timeout=timeout)


def inside(path):
    return "/" + str(path.relative_to(ROOT))


def installed(machine):
    """In each form; the archive's stays, for the other rows."""
    own = f"{inside(machine.home)}/own/bin"
    pip = f"/usr/bin/python3 -m pip --python {own}/python3"
    forms = (
        ("a wheel", f"{pip} install --no-index release/*aarch64.whl", own, f"{pip} uninstall -y cudarun"),
        # What it depends on is unpacked, and nothing has told dpkg.
        ("a Debian package", "dpkg --force-all -i release/*arm64.deb", "/usr/bin", "dpkg -P cudarun"),
        ("an archive", "tar -xzf release/*aarch64-linux.tar.gz && cudarun-*/install.sh --to /usr/local", "/usr/local/bin", "true"),
    )
    for form, install, directory, uninstall in forms:
        control = machine.run(f"{directory}/cudarun", "true")
        done = machine.run("sh", "-ec", install)
        started = machine.run(f"{directory}/cudarun", "sh", "-c", "echo started")
        removed = machine.run("sh", "-ec", uninstall)
        case(
            f"installed from {form}",
            (control.returncode == 127, "the control: it is there"),
            (done.returncode == 0, f"{done.stdout}{done.stderr}"),
            (started.stdout == "started\n" and not started.stderr, f"{started.stdout}{started.stderr}"),
            (removed.returncode == 0, removed.stderr),
            (form == "an archive" or not (ROOT / directory[1:] / "cudarun").exists(), "it is not removed"),
        )


def listed(machine):
    done = machine.run("cudarun", "list", "--json")
    found = {}
    for installation in json.loads(done.stdout or "{}").get("installations", []):
        found.setdefault(installation["family"], set()).add(installation["version"])
    expected = {"cudnn": {"9.10.2.21", "9.10.2"}, "cudart": {"12.8.90"}, "nvrtc": {"12.8.93"}, "nvjitlink": {"12.8.93"}}
    wrong = {family: found.get(family) for family, versions in expected.items() if not found.get(family, set()) & versions}
    case("what is installed is listed", (not wrong, f"{wrong} {done.stderr}"))


def closures(machine):
    loader.LOADER, loader.MACHINE = LOADERS["aarch64"], MACHINES["aarch64"]
    paths = []
    for top in [ROOT / "usr" / "bin", machine.site]:
        paths += [inside(path) for path in sorted(top.rglob("*")) if path.is_file() and not path.is_symlink() and loader.is_dynamic(path)]
    differences, compared = [], 0
    for name, variables in {"plain": {}, "polluted": {"LD_LIBRARY_PATH": f"{inside(machine.half)}::lib:/nonexistent"}}.items():
        (machine.home / "paths").write_text("\n".join(paths) + "\n")
        said, model = by_loader(machine, variables), modelled(machine, variables)
        for path, expected in said.items():
            compared += 1
            if expected != model.get(path):
                differences.append(f"{name}: {path}: {sorted(map(str, expected ^ model.get(path, set())))}")
    case(
        f"{len(paths)} files, {compared} comparisons with the loader, {len(differences)} differences",
        (len(paths) > 90 and compared > len(paths), "fewer files than that are not this machine"),
        (not differences, "\n".join(differences[:20])),
    )


def by_loader(machine, variables):
    """For each path, name to real path as the loader lists them. A file without dependencies is not listed."""
    loop = f'while read -r path; do echo "== $path"; LD_TRACE_LOADED_OBJECTS=1 {loader.LOADER} "$path" 2>&1; done'
    done = machine.run("sh", "-c", f"cd /; {exported(variables)} {loop} < {inside(machine.home)}/paths", timeout=600)
    answers = {}
    for part in done.stdout.split("== ")[1:]:
        path, *lines = part.splitlines()
        answer = set()
        for line in lines:
            if line.endswith(" => not found"):
                answer.add((line[1:].removesuffix(" => not found"), None))
            elif (found := loader.FOUND.match(line)) and not line.startswith("\tlinux-vdso"):
                answer.add((found[1] or found[2], real(found[2])))
        if answer:
            answers[path] = without_loader(answer, path)
    return answers


def exported(variables):
    return "".join(f"export {name}={value};" for name, value in variables.items())


def modelled(machine, variables):
    words = " ".join(f"{name}={value}" for name, value in variables.items())
    done = machine.run("sh", "-c", f"cd / && measure closures {words} < {inside(machine.home)}/paths", timeout=600)
    answers, current = {}, ""
    for line in done.stdout.splitlines():
        if line.startswith("\t! "):
            answers[current].add(line)
        elif line.startswith("\t"):
            name, path = line[1:].rsplit(" => ", 1)
            answers[current].add((name, None if path == "not found" else real(path)))
        elif line:
            current = line
            answers[current] = set()
    return {path: without_loader(answer, path) for path, answer in answers.items()}


def real(path):
    """The real path in the userland, whose links are not those of this machine."""
    return inside(Path(os.path.realpath(f"{ROOT}{path}")))


def without_loader(answer, path):
    unsaid = {real(loader.LOADER), real(path)}
    return {one for one in answer if isinstance(one, str) or one[1] not in unsaid}


def pinned(machine):
    own = inside(machine.site / "nvidia" / "cudnn" / "lib")
    whole = f"91002 {own}\n"
    half = f"{inside(machine.half)}:{own}"
    commands = {
        "a program": ["python3", "program.py"],
        "through bash": ["bash", "-c", "python3 program.py; true"],
        "through make": ["make", "-s"],
    }
    for name, command in commands.items():
        control = machine.run(*command, LD_LIBRARY_PATH=half)
        modes = {"by default": [], "mode view": ["--pin-mode", "view"], "mode audit": ["--pin-mode", "audit"]}
        for mode, options in modes.items() if name == "a program" else [("by default", [])]:
            done = machine.run("cudarun", *options, *command, LD_LIBRARY_PATH=half)
            case(
                f"cuDNN of two releases, {name}, {mode}",
                (len(control.stdout.split()) > 2 or control.returncode, f"the control: {control.stdout}"),
                (done.stdout == whole and done.returncode == 0, f"{done.stdout}{done.stderr}"),
            )
    alone = machine.run("cudarun", "--no-follow", *commands["through bash"], LD_LIBRARY_PATH=half)
    case("the control: bash that is not followed", (alone.stdout != whole, alone.stdout))


def proved(machine):
    done = machine.run("cudarun", "verify", "--level", "load", "python3", "program.py")
    case("a set is loaded for a proof", (done.returncode == 0, f"{done.stdout}{done.stderr}"))
    done = machine.run("cudarun", "verify", "python3", "program.py")
    case("without a driver there is no more", (done.returncode != 0 and "no NVIDIA GPU is reachable" in done.stdout + done.stderr, done.stdout + done.stderr))


def compiled(machine):
    """The toolkit for a build, whose compiler is started."""
    site = machine.environment("toolkit", *TOOLKIT)
    # As pip makes them.
    for program in site.glob("nvidia/cu13/**/bin/*"):
        program.chmod(0o755)
    path = f"{inside(machine.home)}/toolkit/bin:/usr/local/bin:/usr/bin:/bin"
    (machine.home / "empty.ptx").write_text(".version 9.0\n.target sm_90\n.address_size 64\n.visible .entry empty() { ret; }\n")
    script = 'nvcc --version | grep -o "release [0-9.]*"; ptxas -arch=sm_90 -o empty.cubin empty.ptx && readelf -h empty.cubin | grep -o CUDA; echo "$CUDA_HOME"'
    control = machine.run("sh", "-c", script, PATH=path)
    done = machine.run("cudarun", "--build", "sh", "-c", script, PATH=path)
    case(
        "nvcc and ptxas of wheels for a build",
        (control.returncode == 0 and not control.stdout.strip(), f"the control: {control.stdout}"),
        (re.fullmatch(r"release 13\.0\nCUDA\n/\S+\n", done.stdout), f"{done.stdout}{done.stderr}"),
    )


def frameworks(machine):
    """What explain says about programs of frameworks, and the cuDNN that jax's plug-in gets."""
    site = machine.environment("jax", *JAX, NEW, *CUDA)
    own = inside(site / "nvidia" / "cudnn" / "lib")
    python = f"{inside(machine.home)}/jax/bin/python3"
    (machine.home / "of_jax.py").write_text(OF_JAX)
    control = machine.run(python, "of_jax.py", LD_LIBRARY_PATH=inside(machine.old))
    done = machine.run("cudarun", python, "of_jax.py", LD_LIBRARY_PATH=inside(machine.old))
    explained = machine.run("cudarun", "explain", python, "of_jax.py")
    case(
        "the plug-in of jax gets the cuDNN that it needs",
        (control.stdout.startswith("90501 "), f"the control: {control.stdout}{control.stderr}"),
        (done.stdout == f"91002 {own}\n", f"{done.stdout}{done.stderr}"),
        ("libcudnn.so.9, 9.8 or newer" in explained.stdout, f"{explained.stdout}{explained.stderr}"),
    )
    machine.environment("ctranslate2", *CTRANSLATE2)
    python = f"{inside(machine.home)}/ctranslate2/bin/python3"
    explained = machine.run("cudarun", "explain", python, "-c", "import ctranslate2")
    started = machine.run("cudarun", python, "-c", "import ctranslate2; print(ctranslate2.get_cuda_device_count())")
    case(
        "ctranslate2 for aarch64 is built without CUDA, and said to be",
        ("is built without CUDA" in explained.stdout, explained.stdout),
        (started.stdout == "0\n" and not started.stderr, f"{started.stdout}{started.stderr}"),
    )


def fetched(machine):
    control = machine.run("python3", "-c", "import ctypes; ctypes.CDLL('libcurand.so.10')")
    asked = machine.run("cudarun", "fetch", "--dry-run", "--json", "curand=10.3.9")
    wheels = json.loads(asked.stdout or '{"wheels": []}')["wheels"]
    names = [wheel["file"] for wheel in wheels]
    case(
        "wheels of this machine are offered",
        (control.returncode != 0, "the control: it is there"),
        (names and all("aarch64" in name for name in names), f"{names} {asked.stderr}"),
    )
    tags = [word for tag in AARCH64 for word in ("--platform", tag)]
    words = ["-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *tags, "--dest", machine.home / "wheels"]
    subprocess.run([sys.executable, *map(str, words), "nvidia-curand-cu12==10.3.9.90"], check=True)
    done = machine.run("cudarun", "fetch", "--yes", "--from", "wheels", "curand=10.3.9.90", timeout=600)
    code = "import ctypes; print(ctypes.CDLL('libcurand.so.10') is not None)"
    opened = machine.run("cudarun", "--require", "curand", "python3", "-c", code)
    case("and fetched", (done.returncode == 0, done.stderr), (opened.stdout == "True\n", opened.stderr))


def main():
    if not os.environ.get("CUDARUN_ARM_INNER") and (why := missing()) is not None:
        sys.exit(print(why))
    if sys.argv[1:] == ["--missing"]:
        sys.exit(1)
    if not os.environ.get("CUDARUN_ARM_INNER"):
        with emulator():
            userland()
            command = ["unshare", "--mount", sys.executable, *sys.argv]
            sys.exit(subprocess.run(command, env={**os.environ, "CUDARUN_ARM_INNER": "1"}).returncode)
    for kind, source, place in (("proc", "proc", "proc"), ("tmpfs", "tmpfs", "dev"), ("tmpfs", "tmpfs", "tmp")):
        subprocess.run(["mount", "-t", kind, source, ROOT / place], check=True)
    for node in ("null", "zero", "urandom"):
        (ROOT / "dev" / node).touch()
        subprocess.run(["mount", "--bind", f"/dev/{node}", ROOT / "dev" / node], check=True)
    machine = Machine(*map(Path, sys.argv[1:3]))
    for rows in (installed, listed, closures, pinned, proved, compiled, frameworks, fetched):
        rows(machine)
    shutil.rmtree(machine.home)
    sys.exit(checks.failures > 0)


if __name__ == "__main__":
    main()
