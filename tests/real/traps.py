"""Libraries of one SONAME that do not fit, told by their symbols: tests/real/traps.py PATH-TO-cudarun

Each trap is a program in C that is linked against NVIDIA's real files, and a search path on which a file of the right
name and of the wrong build stands first. Nothing is asked of a GPU: the loader binds every symbol at the start.

- Without cudarun the loader must take the wrong file, and end with what is named here, or map what does not belong
  together; with only the right files on the path it must start, so that it is the wrong file that stops it.
- `cudarun explain` must pick the right copies, and refuse the wrong one for the reason that is named here.
- `cudarun PROGRAM` must start, and the files of NVIDIA's that the program maps must be the picked ones and no others.
- With the wrong copy alone nothing must start, and the refusal must say what it lacks, or what it needs.

Prints a line a trap. Needs a C compiler and nm. Besides wheels of wheels.txt it downloads 0.8 GB, of which it keeps
0.7 GB, and while it runs it takes as much again.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from wheels import CACHE, part, unpacked

CUDARUN = os.path.abspath(sys.argv[1])

# Its answers say that what was bound can be called.
SOURCE = r"""
#include <stdio.h>
#include <string.h>
#ifdef PROPERTY
int PROPERTY(int, int *);
static int version(void)
{
    int parts[3] = {0, 0, 0};
    for (int i = 0; i < 3; i++)
        if (PROPERTY(i, &parts[i]))
            return 1;
    printf("%d.%d.%d\n", parts[0], parts[1], parts[2]);
    return 0;
}
#else
int ncclGetVersion(int *), ncclCommRegister(void *, void *, size_t, void **);
static int version(void)
{
    int number = 0;
    /* 4 is what it answers where there is no communicator. */
    if (ncclGetVersion(&number) || ncclCommRegister(NULL, NULL, 0, NULL) != 4)
        return 1;
    printf("%d.%d.%d\n", number / 10000, number / 100 % 100, number % 100);
    return 0;
}
#endif
int main(void)
{
    char line[8192];
    FILE *maps = fopen("/proc/self/maps", "r");
    if (!maps || version())
        return 99;
    while (fgets(line, sizeof line, maps))
        if (strchr(line, '/'))
            fputs(strchr(line, '/'), stdout);
    return 0;
}
"""
OF_NVIDIA = re.compile(r"lib(cublas|cusolver|cusparse|nccl|nvJitLink)")


class Got:
    """What a start printed: the version that the library tells, and the files of NVIDIA's that were mapped."""

    def __init__(self, run):
        self.status, self.error = run.returncode, run.stderr
        self.version, *maps = run.stdout.splitlines() or [None]
        self.files = sorted({line for line in maps if OF_NVIDIA.match(os.path.basename(line))})

    def __repr__(self):
        return "\n".join([f"status {self.status}, version {self.version}", *self.files, self.error])


class Trap:
    """A program, linked against these files, and what is asked of it and of cudarun."""

    failures = 0

    def __init__(self, name, work, linked, *defines):
        self.name, self.wrong = name, []
        self.work = Path(tempfile.mkdtemp(dir=work))
        self.program = self.work / "program"
        command = ["cc", "-o", self.program, "-x", "c", "-", "-x", "none", "-Wl,--no-as-needed,-z,now", *defines]
        command += [*linked, "-Wl,--allow-shlib-undefined"]
        subprocess.run(list(map(str, command)), input=SOURCE, text=True, check=True)

    def env(self, path):
        home = self.work / "home"
        home.mkdir(exist_ok=True)
        # The libraries' own imports are bound at the start too, and not when they are first called.
        return {
            "PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": str(home), "XDG_CACHE_HOME": str(home / "cache"),
            "LD_BIND_NOW": "1", "LD_LIBRARY_PATH": ":".join(map(str, path)),
        }

    def start(self, path, *through):
        words = [*map(str, through), str(self.program)]
        return Got(subprocess.run(words, env=self.env(path), capture_output=True, text=True, cwd=self.work))

    def explain(self, path):
        words = [CUDARUN, "explain", "--json", str(self.program)]
        run = subprocess.run(words, env=self.env(path), capture_output=True, text=True, cwd=self.work)
        if run.returncode not in (0, 1):
            sys.exit(f"{self.name}: status {run.returncode}: {run.stderr}")
        return json.loads(run.stdout)

    def check(self, holds, text):
        if not holds:
            self.wrong.append(str(text))

    def fails(self, path, message):
        """The control: the loader itself ends, and says why."""
        got = self.start(path)
        self.check(got.status == 127 and not got.files, f"without cudarun it must not start: {got!r}")
        self.check(message in got.error, f"without cudarun it must end with `{message}`: {got!r}")

    def takes(self, path, version, files):
        """The control where the loader starts it all the same, with files that do not belong together."""
        got = self.start(path)
        self.check(self.is_sound(got, version, files), f"without cudarun it must take the wrong files: {got!r}")

    def works(self, path, version, files):
        """The other control: the loader by itself starts it with the right files."""
        got = self.start(path)
        self.check(self.is_sound(got, version, files), f"without the wrong file it must start by itself: {got!r}")

    def cured(self, path, version, files):
        """The real start, which is not proved first: a proof needs a GPU."""
        got = self.start(path, CUDARUN, "--verify", "never")
        expected = "\n".join(map(str, files))
        self.check(self.is_sound(got, version, files), f"expected version {version} of\n{expected}\ngot {got!r}")

    def is_sound(self, got, version, files):
        real = sorted(os.path.realpath(file) for file in files)
        return got.status == 0 and got.version == version and got.files == real

    def picks(self, path, families, refused, *reasons):
        """The directory of each family that is picked, and why another was not: the reason, and that under a clash."""
        explained = self.explain(path)
        rows = {row["family"]: row for row in explained.get("families") or []}
        picked = {name: row["picked"]["directory"] for name, row in rows.items()}
        expected = {name: str(directory) for name, directory in families.items()}
        self.check(explained["decision"] == "plan", f"decided: {explained['decision']}")
        both = [json.dumps(directories, indent=1) for directories in (expected, picked)]
        self.check(picked == expected, f"expected {both[0]}\npicked {both[1]}")
        for family, directory in refused.items():
            self.refused(rows[family]["candidates"] if family in rows else [], directory, *reasons)

    def refused(self, candidates, directory, *reasons):
        row = next((row for row in candidates if row["directory"] == str(directory)), None)
        reason = row and row.get("reason")
        said = []
        while reason:
            said.append(reason["reason"])
            reason = reason.get("why") if reason["reason"] == "clash" else None
        about = f"{directory}: expected {' of '.join(reasons)}, got {json.dumps(row or candidates, indent=1)}"
        self.check(row and not row["picked"] and said == list(reasons), about)

    def conflicts(self, path, family, directory, named, *reasons):
        """With the wrong copy alone: a conflict that names this, and no start."""
        explained = self.explain(path)
        self.check(explained["decision"] == "conflict", f"with the wrong one alone: {explained['decision']}")
        unmet = next((row for row in explained.get("unmet") or [] if row["family"] == family), {"candidates": []})
        self.refused(unmet["candidates"], directory, *reasons)
        whys = [row["why"] for row in unmet["candidates"] if row["directory"] == str(directory)]
        self.check(all(named in why for why in whys), f"must name `{named}`: {whys}")
        got = self.start(path, CUDARUN, "--verify", "never")
        self.check(got.status == 125 and named in got.error, f"with the wrong one alone it must be refused: {got!r}")

    def done(self):
        print(f"{'FAIL' if self.wrong else 'ok'}  {self.name}", flush=True)
        for text in self.wrong:
            print("     ", text.replace("\n", "\n      "))
        Trap.failures += bool(self.wrong)


def of(wheel, directory):
    return unpacked(wheel) / "nvidia" / directory / "lib"


def nvjitlink(work):
    """Every libnvJitLink.so.12 exports the names of the minors up to its own, and cuSPARSE imports those of its own."""
    cusparse = of("nvidia-cusparse-cu12==12.3.1.170", "cusparse")
    new = of("nvidia-nvjitlink-cu12==12.4.127", "nvjitlink")
    old = part("nvidia-nvjitlink-cu12==12.0.140", "nvidia/nvjitlink/lib/libnvJitLink.so.12").parent
    files = [cusparse / "libcusparse.so.12", new / "libnvJitLink.so.12"]
    path, symbol = [old, cusparse, new], "__nvJitLinkComplete_12_4"
    trap = Trap("an nvJitLink of CUDA 12.0 under a cuSPARSE of 12.4", work, files[:1], "-DPROPERTY=cusparseGetProperty")
    trap.fails(path, f"undefined symbol: {symbol}, version libnvJitLink.so.12")
    trap.works([cusparse, new], "12.3.1", files)
    trap.picks(path, {"cusparse": cusparse, "nvjitlink": new}, {"nvjitlink": old}, "clash", "lacks-symbols")
    trap.cured(path, "12.3.1", files)
    trap.conflicts([old, cusparse], "nvjitlink", old, symbol, "clash", "lacks-symbols")
    trap.done()


def cublaslt(work):
    """One directory with the libcublas of one build and the libcublasLt of another. The former's DT_RPATH is its own
    directory: it gets what stands beside it, whatever the search path is."""
    whole = of("nvidia-cublas==13.1.0.3", "cu13")
    newer = part("nvidia-cublas==13.10.0.20", "nvidia/cu13/lib/libcublas.so.13")
    files = [whole / "libcublas.so.13", whole / "libcublasLt.so.13"]
    symbol = "cublasLtZZZMatmulAlgoGetHeuristicForStream"
    for kind, lay in {"links": os.symlink, "installations": copy}.items():
        name = f"a cuBLAS 13.10 beside the cuBLASLt of 13.1, as {kind}"
        trap = Trap(name, work, files, "-DPROPERTY=cublasGetProperty")
        torn = trap.work / "torn"
        torn.mkdir()
        lay(newer, torn / "libcublas.so.13")
        lay(files[1], torn / "libcublasLt.so.13")
        trap.fails([torn, whole], f"{torn}/libcublas.so.13: undefined symbol: {symbol}")
        trap.works([whole], "13.1.0", files)
        trap.picks([torn, whole], {"cublas": whole}, {"cublas": torn}, "lacks-symbols")
        trap.cured([torn, whole], "13.1.0", files)
        trap.conflicts([torn], "cublas", torn, symbol, "lacks-symbols")
        trap.done()


def copy(source, destination):
    """A file of its own, where the file system can one that takes no space."""
    subprocess.run(["cp", "--reflink=auto", "--", source, destination], check=True)


def cusolver(work):
    """libcusolver.so.11 is the SONAME of CUDA 11's and of CUDA 12's."""
    twelve, blas = of("nvidia-cusolver-cu12==11.6.1.9", "cusolver"), of("nvidia-cublas-cu12==12.4.5.8", "cublas")
    sparse = of("nvidia-cusparse-cu12==12.3.1.170", "cusparse")
    link = of("nvidia-nvjitlink-cu12==12.4.127", "nvjitlink")
    eleven = part("nvidia-cusolver-cu11==11.4.1.48", "nvidia/cusolver/lib/libcusolver.so.11").parent
    linked = [twelve / "libcusolver.so.11", blas / "libcublas.so.12"]
    files = [*linked, blas / "libcublasLt.so.12", sparse / "libcusparse.so.12", link / "libnvJitLink.so.12"]
    picked = {"cusolver": twelve, "cublas": blas, "cusparse": sparse, "nvjitlink": link}
    rest = [blas, sparse, link]

    # The cuBLAS that it is linked against is not there, which is what is said of it where there is no other.
    trap = Trap("a cuSOLVER of CUDA 11 for a program of CUDA 12", work, linked, "-DPROPERTY=cusolverGetProperty")
    trap.fails([eleven, twelve, *rest], "libcublas.so.11: cannot open shared object file")
    trap.works([twelve, *rest], "11.6.1", files)
    trap.picks([eleven, twelve, *rest], picked, {"cusolver": eleven}, "clash", "other-cuda")
    trap.cured([eleven, twelve, *rest], "11.6.1", files)
    trap.conflicts([eleven, *rest], "cusolver", eleven, "libcublas.so.11", "needs-absent")
    trap.done()

    # And where it is, the program starts, and has two cuBLAS.
    trap = Trap("the same beside a cuBLAS of CUDA 11", work, linked, "-DPROPERTY=cusolverGetProperty")
    ours = trap.work / "cublas"
    ours.mkdir()
    both = [stand_in(ours, name, eleven / "libcusolver.so.11") for name in ["libcublas.so.11", "libcublasLt.so.11"]]
    path = [ours, eleven, twelve, *rest]
    trap.takes(path, "11.4.1", [eleven / "libcusolver.so.11", *both, *files[1:3]])
    trap.picks(path, picked, {"cusolver": eleven}, "clash", "other-cuda")
    trap.cured(path, "11.6.1", files)
    trap.conflicts([ours, eleven, *rest], "cusolver", eleven, "CUDA 11", "clash", "other-cuda")
    trap.done()


def stand_in(directory, soname, importer):
    """A library that offers what the importer takes from one of this SONAME: CUDA 11's own is another 0.3 GB."""
    symbols = subprocess.run(["nm", "-D", "--undefined-only", importer], capture_output=True, text=True, check=True)
    names = re.findall(rf" U (\w+)@{re.escape(soname)}$", symbols.stdout, re.MULTILINE)
    (directory / "versions").write_text(f"{soname} {{ *; }};\n")
    source = "".join(f"void {name}(void) {{ }}\n" for name in names)
    command = ["cc", "-shared", "-fPIC", "-x", "c", "-", f"-Wl,-soname,{soname}", "-o", directory / soname]
    command += [f"-Wl,--version-script,{directory / 'versions'}"]
    subprocess.run(list(map(str, command)), input=source, text=True, check=True)
    return directory / soname


def nccl(work):
    """Every NCCL is libnccl.so.2, and the program imports what came with 2.19. NCCL's symbols have no versions, so that
    the import does not say which file it is to come from."""
    new = of("nvidia-nccl-cu12==2.21.5", "nccl")
    old = part("nvidia-nccl-cu12==2.18.1", "nvidia/nccl/lib/libnccl.so.2").parent
    files, symbol = [new / "libnccl.so.2"], "ncclCommRegister"
    trap = Trap("an NCCL 2.18 for a program that imports what came with 2.19", work, files)
    trap.fails([old, new], f"undefined symbol: {symbol}")
    trap.works([new], "2.21.5", files)
    trap.picks([old, new], {"nccl": new}, {"nccl": old}, "lacks-symbols")
    trap.cured([old, new], "2.21.5", files)
    trap.conflicts([old], "nccl", old, symbol, "lacks-symbols")
    trap.done()


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        for trap in [nvjitlink, cublaslt, cusolver, nccl]:
            trap(Path(work).resolve())
    print("all traps hold" if not Trap.failures else f"{Trap.failures} traps failed")
    return Trap.failures > 0


sys.exit(main())
