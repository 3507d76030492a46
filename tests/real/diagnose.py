"""Real failures, their causes and their cures: tests/real/diagnose.py PATH-TO-cudarun [CASE…]

Each case is an environment of real wheels or libraries in which a program fails with a text of the real loader, of the
real interpreter or of the library itself. `cudarun diagnose --from LOG PROGRAM` must name the cause first and with
certainty, and show the file that is at fault. The first cure of its list that can be typed is executed as it is printed,
and the program must then get past that failure. On the mended machine, `diagnose` must not be certain of any cause.

torch, onnxruntime-gpu and an old NCCL are downloaded only if CUDARUN_REAL_LARGE is 1, and kept without their GPU code, which
nothing here runs. Without them, a line names the skipped cases. pip finds only wheels of the cache, and changes only the
environment of a case. Prints a line a case: its name, the cause, the text of the failure, and the cure that was executed.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from stacks import CUDA, CUPY, EIGHT, GPU, MIDDLE, NUMPY, OF_ONNX, OLD, ONNX, TORCH, WHISPER, slim
from wheels import CACHE, environment, part, unpacked

CUDARUN = os.path.abspath(sys.argv[1])
# Cures that a person types into the shell in which the program is then started, and one that starts it.
TYPED = re.compile(r"(cudarun|unset|export|rm|pip|/\S*python\S* -m pip) ")
PAST = "got past it"


class Case:
    """A program in an environment. `self.env` is what the user has set."""

    failures = 0
    # The text is that of a warning, after which the program goes on.
    is_warning = False
    past = PAST

    def __init__(self, work, name, words, env=None, gpu=False):
        self.name, self.words, self.faults = name, [str(word) for word in words], []
        self.work = work / name.replace(" ", "-")
        self.home, self.log = self.work / "home", self.work / "log"
        self.home.mkdir(parents=True)
        self.env = {"HOME": str(self.home), "PATH": f"{self.work}/bin:/usr/local/bin:/usr/bin:/bin"}
        # A cure must not change the Python that runs this, and finds only the wheels that the case offers.
        self.env |= {f"PIP_{name}": "1" for name in "NO_DEPS NO_INDEX REQUIRE_VIRTUALENV YES DISABLE_PIP_VERSION_CHECK".split()}
        self.env["PIP_FIND_LINKS"] = str(self.work / "wheels")
        self.env |= {name: str(value) for name, value in (env or {}).items()}
        self.through = GPU if gpu else []
        (self.work / "dev").mkdir()
        self.env |= {"CUDARUN_VERIFY": "never"} if gpu else {}
        self.env["WORK"] = str(self.work / "dev")
        # The cures name these two by their bare names.
        tools = self.work / "bin"
        tools.mkdir()
        (tools / "cudarun").symlink_to(CUDARUN)
        (tools / "pip").write_text(f'#!/bin/sh\nexec {sys.executable} -m pip "$@"\n')
        (tools / "pip").chmod(0o755)

    def start(self, words, **env):
        env = {name: str(value) for name, value in (self.env | env).items() if value is not None}
        return subprocess.run([*self.through, *words], env=env, capture_output=True, text=True, errors="replace", cwd=self.work, timeout=600)

    def fault(self, text):
        self.faults.append(text)

    def is_past(self, run):
        # Without a GPU, this onnxruntime ends in the driver once it has its libraries: cuDNN's or its own crash.
        ends = run.returncode in (-11, 139) or "libcuda.so.1: cannot open" in run.stderr
        return self.past in run.stdout + run.stderr or ("onnxruntime" in self.name and ends)

    def fails(self, *texts):
        """The control: the program without cudarun says this."""
        run = self.start(self.words)
        self.said = texts
        self.log.write_text(run.stdout + run.stderr)
        for text in texts:
            if text not in self.log.read_text():
                self.fault(f"the program does not say {text!r}: status {run.returncode}\n{self.log.read_text()[-2000:]}")
        if self.is_past(run) and not self.is_warning:
            self.fault(f"the program works: {run.stdout[-2000:]}")

    def diagnosed(self, *through, **env):
        run = self.start([*through, CUDARUN, "diagnose", "--json", "--from", self.log, *self.words], **env)
        try:
            return json.loads(run.stdout)
        except ValueError:
            self.fault(f"diagnose: status {run.returncode}: {run.stdout}{run.stderr}")
            return {"causes": []}

    def other_forms(self):
        """The program is started, and the log is explained without its name, in its environment."""
        if not self.is_warning:
            yield "started", ["--as-is", *self.words], {}
        python = Path(self.words[0])
        if python.name.startswith("python") and python.is_absolute():
            yield "unnamed", ["--from", self.log], {"PATH": f"{python.parent}:{self.env['PATH']}"}

    def has(self, cause, *evidence):
        """`evidence` are texts that the shown evidence has, such as paths."""
        found = self.diagnosed()["causes"]
        self.first = found[0] if found else {"cause": None, "certainty": None, "evidence": [], "cures": []}
        if (self.first["cause"], self.first["certainty"]) != (cause, "is"):
            self.fault(f"the first cause is not {cause}: {json.dumps(found, indent=1)[:4000]}")
        for form, words, env in self.other_forms():
            run = self.start([CUDARUN, "diagnose", "--json", *words], **env)
            text = (run.stdout + run.stderr).rpartition("{\n  \"causes\"")
            found = json.loads(text[1] + text[2])["causes"] if text[1] else [{"cause": None, "certainty": run.returncode}]
            if (found[0]["cause"], found[0]["certainty"]) != (cause, "is"):
                self.fault(f"{form}: the first cause is not {cause}: {json.dumps(found, indent=1)[:4000]}")
        shown = json.dumps([list(row.values()) for row in self.first["evidence"]])
        for text in evidence:
            if str(text) not in shown:
                self.fault(f"no evidence has {text}: {shown}")

    def offers(self, wheel):
        """Packs a wheel of the cache again, for pip."""
        tree = slim(wheel) if wheel in SLIM else unpacked(wheel)
        # Holes take no space in a compressed archive.
        compression = zipfile.ZIP_DEFLATED if wheel in SLIM else zipfile.ZIP_STORED
        (tags,) = tree.glob("*.dist-info/WHEEL")
        tag = re.search(r"^Tag: (\S+)", tags.read_text(), re.MULTILINE)[1]
        name = tags.parent.name.removesuffix(".dist-info")
        (self.work / "wheels").mkdir(exist_ok=True)
        with zipfile.ZipFile(self.work / "wheels" / f"{name}-{tag}.whl", "w", compression, compresslevel=1) as archive:
            for file in (file for file in tree.rglob("*") if file.is_file()):
                # pip makes executable what its wheel says.
                member = zipfile.ZipInfo(str(file.relative_to(tree)))
                member.external_attr, member.compress_type = 0o100755 << 16, compression
                with open(file, "rb") as source, archive.open(member, "w", force_zip64=True) as packed:
                    shutil.copyfileobj(source, packed, 1 << 20)

    def cured(self, *begin, without_start=False, **mended):
        """Executes the first cure that can be typed, which begins with one of these words. `mended` is the environment of a
        machine without the fault, if the cure is a start by cudarun and leaves the machine as it is."""
        typed = [row["do"] for row in self.first["cures"] if TYPED.match(row["do"])]
        if not typed or not typed[0].startswith(begin):
            return self.fault(f"no cure begins with {begin}: {self.first['cures']}")
        self.cure, line = typed[0], shlex.join(self.words)
        # Without a GPU, cudarun gives this onnxruntime no libraries, so that it uses the CPU.
        self.cure = self.cure.split(" && cudarun ")[0] if without_start else self.cure
        # A cure that has the program is the start itself.
        script = self.cure if self.cure.endswith(line) else f"{self.cure}\n{line}"
        run = self.start(["sh", "-c", script])
        if not self.is_past(run) or any(text in run.stdout + run.stderr for text in self.said):
            self.fault(f"after {self.cure!r}: status {run.returncode}\n{run.stdout[-2000:]}{run.stderr[-2000:]}")
        # A change of the shell's variables is made again for `diagnose`; a change of files holds.
        through = ["sh", "-ec", f'{self.cure}\nexec "$@"', "sh"] if re.match("unset|export", self.cure) else []
        self.is_mended(*through, **mended)

    def carries_out(self, command):
        """Executes what a person types after a cure in words."""
        if any(TYPED.match(row["do"]) for row in self.first["cures"]):
            self.fault(f"there is a cure to type: {self.first['cures']}")
        self.first["cures"] = [{"do": command}]
        self.cured("pip", "/")

    def is_mended(self, *through, **env):
        found = self.diagnosed(*through, **env)["causes"]
        sure = [row["cause"] for row in found if row["certainty"] == "is"]
        if sure:
            self.fault(f"certain of {sure} on the mended machine: {json.dumps(found, indent=1)[:4000]}")

    def done(self):
        cure = getattr(self, "cure", "-").replace(str(CACHE), "CACHE")
        print("FAIL" if self.faults else "ok", self.name, self.first["cause"], self.said[0], cure, sep="\t", flush=True)
        for fault in self.faults:
            print("      " + fault.replace("\n", "\n      "), flush=True)
        Case.failures += bool(self.faults)


def python(work, name, wheels):
    """An environment with these wheels; None if a large one may not be downloaded."""
    trees = [slim(wheel) if wheel in SLIM else wheel for wheel in dict.fromkeys(wheels)]
    return None if None in trees else environment(name, *trees, under=work)



SLIM = {"torch==2.6.0", "onnxruntime-gpu==1.20.2", "nvidia-nccl-cu11==2.14.3"}
OF_NVRTC = "from cupy_backends.cuda.libs import nvrtc; nvrtc.getVersion()"
# The library of the wheel asks cuDNN for a version, as `ctranslate2.models.Whisper` does on a GPU.
OF_SHIM = """
import ctypes, glob, os, ctranslate2
(shim,) = glob.glob(os.path.join(os.path.dirname(ctranslate2.__file__), "..", "ctranslate2.libs", "libcudnn-*"))
ctypes.CDLL(shim).{0}()
"""


def paths(made):
    return ":".join(map(str, sorted((made[1] / "nvidia").glob("*/lib"))))


def script(work, made, code, end=f"print('{PAST}')"):
    """The words that start this code in an environment."""
    file = work / "train.py"
    file.write_text(f"{code}\n{end}\n")
    return [made[0], file]


def compiled(work, name, libraries, *options):
    """A program that needs these libraries and nothing of them."""
    program = work / name
    source = f'int puts(const char *); int main(void) {{ return puts("{PAST}") < 0; }}'
    command = ["cc", "-x", "c", "-", "-o", program, "-Wl,--no-as-needed,--unresolved-symbols=ignore-all", *options]
    command += [f"-L{Path(library).parent}" for library in libraries]
    command += [f"-l:{Path(library).name}" for library in libraries]
    subprocess.run(list(map(str, command)), input=source, text=True, check=True)
    return program


def nvjitlink_torch(work):
    made = python(work, "torch", [*TORCH, *CUDA, MIDDLE])
    if made is None:
        return "torch"
    old = part("nvidia-nvjitlink-cu12==12.0.140", "nvidia/nvjitlink/lib/libnvJitLink.so.12").parent
    torch = made[1] / "torch" / "lib"
    words = [compiled(work, "program", [torch / "libtorch_cuda.so"], f"-Wl,-rpath,{torch}")]
    case = Case(work, "nvJitLink 12.0 on the path of libtorch", words, {"LD_LIBRARY_PATH": old, "LD_BIND_NOW": 1})
    case.fails("libcusparse.so.12: undefined symbol: __nvJitLink")
    case.has("older-first", old)
    case.cured("unset")
    case.done()


def nvjitlink_cupy(work):
    made = python(work, "cupy", [*CUPY, *CUDA])
    of = lambda part: made[1] / "nvidia" / part / "lib"
    old = part("nvidia-nvjitlink-cu12==12.0.140", "nvidia/nvjitlink/lib/libnvJitLink.so.12").parent
    words = script(work, made, "from cupy_backends.cuda.libs import cusparse")
    case = Case(work, "nvJitLink 12.0 on the path of cupy", words, {"LD_LIBRARY_PATH": f"{old}:{of('cusparse')}"})
    case.fails("libcusparse.so.12: undefined symbol: __nvJitLink")
    case.has("older-first", old, of("nvjitlink"))
    case.cured("cudarun", LD_LIBRARY_PATH=of("cusparse"))
    case.done()


def nccl(work):
    made = python(work, "nccl", ["nvidia-nccl-cu11==2.14.3", *TORCH, *CUDA, MIDDLE])
    if made is None:
        return "NCCL"
    case = Case(work, "NCCL 2.14 over the one of torch", script(work, made, "import torch"))
    case.fails("undefined symbol: nccl")
    case.has("claimed-twice", made[1] / "nvidia" / "nccl")
    case.offers("nvidia-nccl-cu12==2.21.5")
    case.cured("pip", "/")
    case.done()


def nccl_path(work):
    new = unpacked("nvidia-nccl-cu12==2.21.5") / "nvidia" / "nccl" / "lib"
    old = part("nvidia-nccl-cu12==2.18.1", "nvidia/nccl/lib/libnccl.so.2").parent
    program = work / "program"
    source = f'int puts(const char *), ncclCommRegister(); int main(void) {{ return (int)(long)&ncclCommRegister * (puts("{PAST}") < 0); }}'
    command = ["cc", "-x", "c", "-", "-o", program, f"-L{new}", "-l:libnccl.so.2"]
    subprocess.run(list(map(str, command)), input=source, text=True, check=True)
    case = Case(work, "NCCL 2.18 first on the path", [program], {"LD_LIBRARY_PATH": f"{old}:{new}"})
    case.fails("undefined symbol: ncclCommRegister")
    case.has("older-first", old, new)
    case.cured("cudarun", LD_LIBRARY_PATH=new)
    case.done()


def cublaslt(work):
    whole = unpacked("nvidia-cublas==13.1.0.3") / "nvidia" / "cu13" / "lib"
    newer = part("nvidia-cublas==13.10.0.20", "nvidia/cu13/lib/libcublas.so.13")
    torn = work / "torn"
    torn.mkdir()
    (torn / newer.name).symlink_to(newer)
    (torn / "libcublasLt.so.13").symlink_to(whole / "libcublasLt.so.13")
    libraries = [whole / "libcublas.so.13", whole / "libcublasLt.so.13"]
    program = compiled(work, "program", libraries)
    case = Case(work, "another cuBLASLt beside cuBLAS", [program], {"LD_LIBRARY_PATH": f"{torn}:{whole}", "LD_BIND_NOW": 1})
    case.fails("undefined symbol: cublasLt")
    case.has("older-first", torn)
    case.cured("cudarun", LD_LIBRARY_PATH=whole)
    case.done()


def torchaudio(work):
    made = python(work, "audio", ["torchaudio==2.5.1", *TORCH, *CUDA, MIDDLE])
    if made is None:
        return "torchaudio"
    case = Case(work, "torchaudio of another torch", script(work, made, "import torchaudio"))
    case.fails("undefined symbol: ")
    case.has("extension-mismatch", made[1] / "torchaudio")
    case.offers("torchaudio==2.6.0")
    case.cured("pip", "/")
    case.done()


def cupy_wheels(work):
    made = python(work, "cupy", [*CUPY, *CUDA])
    own = made[1] / "nvidia" / "cuda_nvrtc" / "lib"
    case = Case(work, "cupy beside wheels", script(work, made, OF_NVRTC))
    case.fails("libnvrtc.so.12: cannot open shared object file")
    case.has("not-on-path", own.parent)
    case.cured("cudarun", LD_LIBRARY_PATH=own)
    case.done()


def cupy_alone(work):
    made = python(work, "cupy", CUPY)
    case = Case(work, "cupy without a toolkit", script(work, made, OF_NVRTC))
    case.fails("libnvrtc.so.12: cannot open shared object file")
    case.has("not-installed")
    # Its cure installs the newest NVRTC, 0.2 GB more; `cupy_linker` executes such a cure.
    nvrtc = unpacked("nvidia-cuda-nvrtc-cu12==12.4.127") / "nvidia" / "cuda_nvrtc" / "lib"
    case.is_mended(LD_LIBRARY_PATH=nvrtc)
    case.done()


def ctranslate2_nine(work):
    """ctranslate2 4.5 and later have cuDNN 9's own libcudnn.so.9, which opens the rest."""
    for name, wheel, cause, begin in [
        ("a cuDNN wheel that ctranslate2 does not look at", MIDDLE, "not-on-path", "cudarun"),
        ("ctranslate2 4.6 with cuDNN 8", EIGHT, "other-major", "pip"),
        ("ctranslate2 4.6 without cuDNN", None, "not-installed", "pip"),
    ]:
        made = python(work, name.replace(" ", "-") + "-venv", [*WHISPER, NUMPY, *[wheel] * bool(wheel)])
        case = Case(work, name, script(work, made, OF_SHIM.format("cudnnGetVersion")))
        own = made[1] / "nvidia" / "cudnn" / "lib"
        case.fails("Unable to load any of {libcudnn_")
        case.has(cause, *[own] * bool(wheel))
        case.offers(OLD)
        case.cured(begin, LD_LIBRARY_PATH=own)
        case.done()


def ctranslate2_eight(work):
    made = python(work, "eight", ["ctranslate2==4.4.0", "setuptools==80.9.0", "pyyaml==6.0.2", NUMPY, MIDDLE])
    case = Case(work, "ctranslate2 4.4 with cuDNN 9", script(work, made, OF_SHIM.format("cudnnOpsInferVersionCheck")))
    case.fails("libcudnn_ops_infer.so.8")
    case.has("other-major", made[1] / "nvidia" / "cudnn" / "lib")
    case.offers(EIGHT)
    case.cured("pip", LD_LIBRARY_PATH=made[1] / "nvidia" / "cudnn" / "lib")
    case.done()


OF_ONNXRUNTIME = OF_ONNX.replace('step("onnxruntime", run)', "run()").replace("onnxruntime.set_default_logger_severity(4)", "")


def onnxruntime_path(work):
    made = python(work, "onnx", [*ONNX, *CUDA, OLD])
    if made is None:
        return "onnxruntime-gpu"
    case = Case(work, "onnxruntime beside wheels", script(work, made, OF_ONNXRUNTIME, ""), gpu=True)
    case.fails("libcublasLt.so.12: cannot open shared object file")
    case.has("not-on-path", made[1] / "nvidia" / "cublas")
    case.cured("cudarun", LD_LIBRARY_PATH=paths(made))
    case.done()


def onnxruntime_eight(work):
    made = python(work, "onnx", [*ONNX, *CUDA, EIGHT])
    if made is None:
        return "onnxruntime-gpu"
    env = {"LD_LIBRARY_PATH": paths(made)}
    case = Case(work, "onnxruntime with cuDNN 8", script(work, made, OF_ONNXRUNTIME, ""), env)
    case.fails("libcudnn.so.9: cannot open shared object file")
    case.has("other-major", made[1] / "nvidia" / "cudnn")
    case.offers("nvidia-cudnn-cu12==9.28.0.42")
    case.cured("pip", "/", without_start=True)
    case.done()


def onnxruntime_two(work):
    made = python(work, "onnx", ["onnxruntime==1.20.1", *ONNX])
    if made is None:
        return "onnxruntime-gpu"
    code = OF_ONNXRUNTIME + f"\nif 'CUDAExecutionProvider' in onnxruntime.get_available_providers(): print('{PAST}')"
    case = Case(work, "onnxruntime over onnxruntime-gpu", script(work, made, code, ""))
    case.fails("'CUDAExecutionProvider' is not in available provider names")
    case.has("claimed-twice", "onnxruntime_gpu-1.20.2.dist-info")
    case.offers("onnxruntime-gpu==1.20.2")
    case.cured("pip", "/", LD_LIBRARY_PATH=paths(made))
    case.done()


def onnxruntime_cpu(work):
    # The environment is small, but its cure is the large wheel.
    if slim(ONNX[0]) is None:
        return "onnxruntime-gpu"
    made = python(work, "onnx", ["onnxruntime==1.20.1", *ONNX[1:]])
    code = OF_ONNXRUNTIME + f"\nif 'CUDAExecutionProvider' in onnxruntime.get_available_providers(): print('{PAST}')"
    case = Case(work, "onnxruntime for the CPU", script(work, made, code, ""))
    case.fails("'CUDAExecutionProvider' is not in available provider names")
    case.has("cpu-build", made[1] / "onnxruntime")
    case.offers("onnxruntime-gpu==1.20.2")
    case.cured("pip", "/")
    case.done()


def zero_byte(work):
    made = python(work, "zero", [])
    directory = work / "lib"
    directory.mkdir()
    (directory / "libcuda.so.1").touch()
    code = """
import ctypes
try:
    ctypes.CDLL("libcuda.so.1")
except OSError as error:
    if "cannot open" not in str(error):
        raise
"""
    case = Case(work, "a libcuda of zero bytes", script(work, made, code), {"LD_LIBRARY_PATH": directory})
    case.fails("libcuda.so.1: file too short")
    case.has("damaged", directory / "libcuda.so.1")
    case.cured("rm")
    case.done()


def libtinfo(work):
    """conda's libtinfo has no versions of symbols, and the bash of a distribution asks for them."""
    prefix = work / "conda"
    for directory in ["lib", "conda-meta"]:
        (prefix / directory).mkdir(parents=True)
    symbols = subprocess.run(["nm", "-D", "--undefined-only", "/bin/bash"], capture_output=True, text=True, check=True)
    names = re.findall(r" U (\w+)@NCURSES", symbols.stdout)
    source = "".join(f"int {name}(void) {{ return 0; }}\n" for name in names)
    command = ["cc", "-w", "-fno-builtin", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname,libtinfo.so.6"]
    subprocess.run([*command, "-o", prefix / "lib" / "libtinfo.so.6"], input=source, text=True, check=True)
    words = ["/bin/bash", "-c", f"echo {shlex.quote(PAST)}"]
    case = Case(work, "conda's libtinfo on the path", words, {"LD_LIBRARY_PATH": prefix / "lib"})
    case.is_warning = True
    case.fails("no version information available (required by /bin/bash)")
    case.has("path-poisons", prefix / "lib")
    case.cured("unset")
    case.done()


def cupy_linker(work):
    made = python(work, "cupy", [*CUPY, "nvidia-cusparse-cu12==12.3.1.170"])
    words = script(work, made, "from cupy_backends.cuda.libs import cusparse")
    env = {"LD_LIBRARY_PATH": made[1] / "nvidia" / "cusparse" / "lib"}
    case = Case(work, "cuSPARSE without nvJitLink", words, env)
    case.fails("libnvJitLink.so.12: cannot open shared object file")
    case.has("not-installed")
    case.offers("nvidia-nvjitlink-cu12==12.9.86")
    case.cured("pip", "/", LD_LIBRARY_PATH=env["LD_LIBRARY_PATH"])
    case.done()


# A package with CUDA code, as pip builds it. The build needs a whole toolkit after the step that is tested here.
SETUP = """
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CUDAExtension
setup(name="own", ext_modules=[CUDAExtension("own", ["own.cu"])], script_args=["build_ext"],
      cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)})
"""
TOOLKIT = ["nvidia-cuda-nvcc==13.0.88", "nvidia-cuda-crt==13.0.88", "nvidia-cuda-runtime==13.0.96"]


def toolkit(made):
    """Returns the root of the toolkit in an environment; an archive does not say what can be run."""
    root = made[1] / "nvidia" / "cu13"
    for file in [*root.glob("bin/*"), *root.glob("nvvm/bin/*")]:
        file.chmod(0o755) if file.is_file() else None
    return root


def cuda_home(work):
    made = python(work, "torch", [*TORCH, *CUDA, MIDDLE, *TOOLKIT, "nvidia-nvvm==13.0.88", "setuptools==80.9.0"])
    if made is None:
        return "cpp_extension"
    root = toolkit(made)
    for name, value in ("CUDA_HOME with a colon", f"{root}:/usr/local/cuda"), ("CUDA_HOME that is not there", work / "none"):
        case = Case(work, name, script(work, made, SETUP, ""), {"CUDA_HOME": value})
        case.env["PATH"] += f":{root}/bin"
        case.past = "The detected CUDA version (13.0) mismatches"
        case.fails(f"No such file or directory: '{value}/bin/nvcc'")
        case.has("toolkit-variable", value)
        case.cured("unset")
        case.done()
    # Its cure is a toolkit that no wheel for CUDA 12 brings.
    case = Case(work, "nvcc of another CUDA than torch", script(work, made, SETUP, ""))
    path, case.env["PATH"] = case.env["PATH"], f"{case.env['PATH']}:{root}/bin"
    case.fails("The detected CUDA version (13.0) mismatches")
    case.has("toolkit-mismatch", root / "bin" / "nvcc")
    shutil.rmtree(root / "bin")
    case.is_mended(PATH=path)
    case.done()


def nvcc_wheels(work):
    """pip takes the newest NVVM, since nvcc's wheel allows any of its major."""
    made = python(work, "nvcc", [*TOOLKIT, "nvidia-nvvm==13.5.37"])
    root = toolkit(made)
    (work / "own.cu").write_text("__global__ void kernel(int *to) { *to = 1; }")
    code = f'import subprocess; subprocess.run(["nvcc", "-c", "-o", "{work}/own.o", "{work}/own.cu"], check=True)'
    case = Case(work, "nvcc's wheels of two releases", script(work, made, code))
    case.env["PATH"] += f":{root}/bin"
    case.fails("Unsupported .version 9.5; current version is '9.0'")
    case.has("toolkit-mixed", "nvidia_nvvm-13.5.37.dist-info", "nvidia_cuda_nvcc-13.0.88.dist-info")
    case.offers("nvidia-nvvm==13.0.88")
    case.carries_out(f"pip --python {made[0]} install nvidia-nvvm==13.0.88")
    case.done()


def header(work):
    made = python(work, "nvcc", [*TOOLKIT, "nvidia-nvvm==13.0.88", "nvidia-cuda-cccl==13.0.85"])
    root = toolkit(made)
    (work / "own.cu").write_text("#include <cusparse.h>\n")
    code = f'import subprocess; subprocess.run(["nvcc", "-c", "-o", "{work}/own.o", "{work}/own.cu"], check=True)'
    case = Case(work, "no header of cuSPARSE", script(work, made, code))
    case.env["PATH"] += f":{root}/bin"
    case.fails("fatal error: cusparse.h: No such file or directory")
    case.has("headers-missing", root / "include" / "cusparse.h")
    case.offers("nvidia-cusparse==12.6.3.3")
    case.carries_out(f"pip --python {made[0]} install nvidia-cusparse==12.6.3.3")
    case.done()


def old_ptxas(work):
    made = python(work, "ptxas", ["nvidia-cuda-nvcc-cu12==12.9.86"])
    tool = made[1] / "nvidia" / "cuda_nvcc" / "bin" / "ptxas"
    tool.chmod(0o755)
    (work / "own.ptx").write_text(".version 8.0\n.target sm_80\n.address_size 64\n")
    code = f'import subprocess; subprocess.run(["ptxas", "-arch=sm_110", "-o", "{work}/own.o", "{work}/own.ptx"], check=True)'
    case = Case(work, "a ptxas older than the GPU", script(work, made, code))
    path, case.env["PATH"] = case.env["PATH"], f"{case.env['PATH']}:{tool.parent}"
    case.fails("Value 'sm_110' is not defined for option 'gpu-name'")
    case.has("ptxas-old", tool)
    # Its cure is a toolkit that no wheel for CUDA 12 brings: only the mended machine is tested.
    made = python(work, "newer", TOOLKIT)
    case.is_mended(PATH=f"{path}:{toolkit(made)}/bin")
    case.done()


CASES = [cupy_linker, cuda_home, nvcc_wheels, header, old_ptxas, onnxruntime_path, onnxruntime_eight, onnxruntime_two, onnxruntime_cpu, zero_byte, libtinfo]
CASES += [nvjitlink_torch, nvjitlink_cupy, nccl, nccl_path, cublaslt, torchaudio, cupy_wheels, cupy_alone]
CASES += [ctranslate2_nine, ctranslate2_eight]


def main():
    CACHE.mkdir(parents=True, exist_ok=True)
    wanted = [case for case in CASES if not sys.argv[2:] or case.__name__ in sys.argv[2:]]
    for case in wanted:
        # Each environment goes before the next one is made: links take no space, what pip installs does.
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            skipped = case(Path(work).resolve())
            if skipped:
                print(f"skipped  {skipped}: CUDARUN_REAL_LARGE is not 1")
    print("all cases hold" if not Case.failures else f"{Case.failures} cases failed")
    return Case.failures


if __name__ == "__main__":
    sys.exit(main() > 0)
