#!/usr/bin/env python3
"""Makes docs/picture.svg, the moving picture of README.md: docs/picture.py [--check] [PATH-TO-cudarun]

Its text is what the commands print when this script runs them: `hello` of examples/ here, with a stand-in of the CUDA runtime in a
directory that the user's settings name; the rest on a machine of tests/machines/, with a second cuDNN in LD_LIBRARY_PATH. The option
that names that machine is left out. With --check, it fails if the picture has another text than the commands print now. Needs cc,
and the example `measure` beside cudarun: cargo build --release --bin cudarun --example measure
"""

import difflib
import html
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
PICTURE = HERE / "picture.svg"
COLUMNS = 80
SECONDS = 22
# A letter is this wide, and a line this high.
WIDTH, HEIGHT = 8, 17
RUNTIME = "int cudaRuntimeGetVersion(int *version) { return *version = 12040, 0; }"
PARTS = ["", "_graph", "_ops", "_cnn", "_adv", "_heuristic", "_engines_precompiled", "_engines_runtime_compiled"]
CUDNN = """
[[file]]
path = "/opt/cudnn-9.1/lib/libcudnn{part}.so.9"
elf = {{ soname = "libcudnn{part}.so.9", constants = ["cudnn_version_9_1_0_"] }}
"""
# Scenes of commands: what is typed, where, and the seconds from the start of the picture until the next one.
SCENES = [
    [("./hello", "here", 2.5), ("cudarun ./hello", "here", 3.5)],
    [("cudarun doctor", "machine", 6.5)],
    [("cudarun explain python3 train.py", "machine", 9.5)],
]
# From a command until its output.
PAUSE = 0.9
STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace; white-space: pre; fill: #1f2328 }
.paper { fill: #f6f8fa; stroke: #d1d9e0 } .bold, .typed { font-weight: bold } .dim { fill: #59636e } .green { fill: #116329 }
.yellow { fill: #7d4e00 } .cyan { fill: #1b5a83 } .red { fill: #a40e26 }
@media (prefers-color-scheme: dark) {
text { fill: #f0f6fc } .paper { fill: #0d1117; stroke: #3d444d } .dim { fill: #9198a1 } .green { fill: #56d364 }
.yellow { fill: #e3b341 } .cyan { fill: #76c7ff } .red { fill: #ff9492 } }
.earlier { visibility: hidden }
@media (prefers-reduced-motion: no-preference) { g { animation: SECONDSs step-end infinite } KEYFRAMES }
"""
COLOURS = {"1": "bold", "2": "dim", "31": "red", "32": "green", "33": "yellow", "36": "cyan"}


class Places:
    """Where the commands run: a directory with `hello`, and a machine made of text."""

    def __init__(self, cudarun, work):
        self.work = work
        self.environment = {"LC_ALL": "C.UTF-8", "TERM": "xterm", "CLICOLOR_FORCE": "1", "COLUMNS": str(COLUMNS)}
        self.make_hello(cudarun)
        self.make_machine(cudarun)

    def make_hello(self, cudarun):
        for directory in ["bin", "cuda/lib", ".config/cudarun"]:
            (self.work / directory).mkdir(parents=True)
        (self.work / "bin/cudarun").symlink_to(cudarun)
        (self.work / "runtime.c").write_text(RUNTIME)
        library = self.work / "cuda/lib/libcudart.so.12"
        subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcudart.so.12", "-o", library, self.work / "runtime.c"], check=True)
        subprocess.run([HERE.parent / "examples/build.sh"], cwd=self.work, check=True)
        (self.work / ".config/cudarun/config.toml").write_text(f'[search]\nalso = ["{self.work / "cuda/lib"}"]\n')

    def make_machine(self, cudarun):
        measure = cudarun.parent / "examples/measure"
        if not measure.exists():
            sys.exit(f"{measure} is not there\nhint: cargo build --release --bin cudarun --example measure")
        text = (HERE.parent / "tests/machines/torch.toml").read_text() + "".join(CUDNN.format(part=part) for part in PARTS)
        (self.work / "machine.toml").write_text(text)
        subprocess.run([measure, "files", self.work / "machine.toml", self.work / "machine"], check=True)

    def printed(self, command, place):
        """The lines that a command prints, with escape sequences for colours."""
        path = f"{self.work}/bin:/usr/bin:/bin"
        if place == "here":
            words, directory = command, self.work
            environment = {"HOME": str(self.work), "PATH": path}
        else:
            option = f" --root {self.work}/machine"
            words = command.replace("cudarun", f"{self.work}/bin/cudarun{option}", 1).replace("train.py", "/home/user/project/train.py")
            directory = "/"
            environment = {"HOME": "/home/user", "PATH": "/home/user/project/.venv/bin:/usr/bin:/bin"}
            environment["LD_LIBRARY_PATH"] = "/opt/cudnn-9.1/lib"
        run = subprocess.run(
            ["sh", "-c", words], cwd=directory, env={**self.environment, **environment}, text=True, errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )
        said = run.stdout if place == "here" else run.stdout.replace(option, "")
        return [part for line in said.rstrip("\n").split("\n") for part in wrapped(line)]


def wrapped(line):
    """The rows of a terminal for a line; only lines without colours are too wide."""
    if "\x1b" in line or len(line) <= COLUMNS:
        return [line]
    return [line[at : at + COLUMNS] for at in range(0, len(line), COLUMNS)]


def spans(line):
    """A line as text of SVG. Some sequence ends every colour."""
    out, classes = [], []
    for index, part in enumerate(re.split(r"\x1b\[([\d;]*)m", line)):
        if index % 2:
            for code in part.split(";"):
                classes = [*classes, COLOURS[code]] if code in COLOURS else []
        elif part:
            text = html.escape(part, quote=False)
            out.append(f'<tspan class="{" ".join(classes)}">{text}</tspan>' if classes else text)
    return "".join(out)


def seen(name, begin, end):
    """A group is seen between two times."""
    stages = [(0, "hidden"), (begin, "visible"), (end, "hidden")] if begin else [(0, "visible"), (end, "hidden")]
    stages = "".join(f"{time / SECONDS:.2%} {{ visibility: {how} }} " for time, how in stages if time < SECONDS)
    return f"@keyframes {name} {{ {stages}}} .{name} {{ animation-name: {name} }}\n"


def picture(places):
    groups, keyframes, now, rows = [], [], 0, 0
    for scene in SCENES:
        end, row = now + sum(seconds for _, _, seconds in scene), 0
        is_last = scene is SCENES[-1]
        for command, place, seconds in scene:
            lines = places.printed(command, place)
            for time, part in [(now, [f'$ <tspan class="typed">{command}</tspan>']), (now + PAUSE, [spans(line) for line in lines])]:
                name = f"g{len(groups)}"
                keyframes.append(seen(name, time, SECONDS if is_last else end))
                at = [(18 + HEIGHT * (row + index + 1), line) for index, line in enumerate(part) if line]
                text = "".join(f'<text x="18" y="{y}">{line}</text>\n' for y, line in at)
                groups.append(f'<g class="{name}{"" if is_last else " earlier"}">\n{text}</g>\n')
                row += len(part)
            row += 1
            now += seconds
        rows = max(rows, row)
    assert now == SECONDS
    width, height = 36 + COLUMNS * WIDTH, 30 + HEIGHT * rows
    style = STYLE.replace("SECONDS", str(SECONDS)).replace("KEYFRAMES", "".join(keyframes))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width} {height}" width="{width}" height="{height}">\n'
        "<title>A program without and with cudarun, and what cudarun says about the machine</title>\n"
        "<desc>Made by docs/picture.py from what the commands print.</desc>\n"
        f'<style>{style}</style>\n<rect class="paper" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>\n'
        f'{"".join(groups)}</svg>\n'
    )


def main():
    arguments = sys.argv[1:]
    is_check = "--check" in arguments
    paths = [argument for argument in arguments if argument != "--check"]
    if len(paths) > 1 or any(path.startswith("-") for path in paths):
        sys.exit("usage: docs/picture.py [--check] [PATH-TO-cudarun]")
    cudarun = pathlib.Path(paths[0] if paths else HERE.parent / "target/release/cudarun").resolve()
    if not os.access(cudarun, os.X_OK):
        sys.exit(f"{cudarun} cannot be started\nhint: cargo build --release --bin cudarun --example measure")
    with tempfile.TemporaryDirectory() as work:
        made = picture(Places(cudarun, pathlib.Path(work).resolve()))
    if not is_check:
        PICTURE.write_text(made)
        print(f"{PICTURE}: {len(made.encode())} bytes")
        return
    is_there = PICTURE.read_text() if PICTURE.exists() else ""
    sys.stdout.writelines(difflib.unified_diff(is_there.splitlines(True), made.splitlines(True), "docs/picture.svg", "now"))
    if is_there != made:
        sys.exit("docs/picture.svg is not what the commands print: docs/picture.py makes it anew")


main()
