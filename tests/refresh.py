#!/usr/bin/env python3
"""profiles/refresh with an index on this machine: tests/refresh.py

The index has one distribution with releases of two minors, one of them withdrawn, and serves parts of files. The first run
fills the table, the second changes nothing, a new SONAME makes a row of its own, a changed hash is an alarm, `--check` writes
nothing, and without an index the script says so and leaves the table alone. A framework, an extension, a plug-in with extras
and a package without wheels get the releases of builds.toml: the newest of each line, and those that they pin.
"""

import hashlib
import http.server
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import tomllib
import zipfile

HERE = pathlib.Path(__file__).resolve().parent
NAME = "nvidia-cuda-runtime-cu12"
TABLE = f"""# The head.
#
#   [[wheel]]     a row

[[wheel]]
family = "cudart"
cuda = 12
name = "{NAME}"
first = "12.1.105"
versions = ["12.1.105"]
directory = "nvidia/cuda_runtime/lib"
sonames = ["libcudart.so.12"]
source = "a test"
date = "2026-11-23"
files = [
]
"""

BUILDS = """# Another head.

shared = ["other"]

[[build]]
distribution = "frame"

[[distribution]]
name = "frame"
lines = 1
releases = [
]

[[distribution]]
name = "ext"
framework = "frame"
lines = 2
releases = [
]

[[distribution]]
name = "plug"
lines = 1
extras = ["cuda13", "cuda12"]
releases = [
]

[[distribution]]
name = "source"
framework = "frame"
lines = 1
releases = [
]
"""


def package(name, version, *requires, libraries={}, extras=()):
    lines = ["Metadata-Version: 2.1", *(f"Provides-Extra: {extra}" for extra in extras)]
    lines += [f"Requires-Dist: {one}" for one in requires]
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        archive.writestr(f"{name}-{version}.dist-info/METADATA", "\n".join(lines) + "\n")
        for library, data in libraries.items():
            archive.writestr(f"{name}/{library}", data)
    return made.getvalue()


def packages():
    """The files of four distributions. `frame` is without CUDA on aarch64, and `ext` does not say which `frame` it needs."""
    runtime = 'nvidia-cuda-runtime-cu12==12.8.90; platform_machine == "x86_64"'
    files = {}
    for version in ["1.0", "2.0", "2.1"]:
        for tag in ["cp311-cp311-manylinux_2_28_x86_64", "cp312-cp312-manylinux_2_28_x86_64"]:
            files[f"frame-{version}-{tag}.whl"] = package("frame", version, runtime)
        for tag in ["cp311-cp311-manylinux_2_28_aarch64", "cp312-cp312-manylinux_2_28_aarch64", "cp312-cp312t-manylinux_2_28_x86_64"]:
            files[f"frame-{version}-{tag}.whl"] = package("frame", version, runtime)
    files["frame-3.0rc1-cp311-cp311-manylinux_2_28_x86_64.whl"] = package("frame", "3.0rc1")
    code = {"_C.so": b"\0libcudart.so.12\0", "big.so": b""}
    files["ext-0.1-cp39-abi3-manylinux_2_28_x86_64.whl"] = package("ext", "0.1", "frame==1.0", "Other==7", "more==1", libraries=code)
    files["ext-0.2-cp39-abi3-manylinux_2_28_x86_64.whl"] = package("ext", "0.2", libraries={"_C.so": b"nothing"})
    plug = ['frame==2.1; extra == "cuda12"', 'ext==0.2; extra == "cuda12"', 'nvidia-cuda-runtime-cu12>=12.1; extra == "cuda12"']
    files["plug-5.0.post1-py3-none-any.whl"] = package("plug", "5.0.post1", *plug, extras=["cuda12"])
    files["plug-5.0-py3-none-any.whl"] = package("plug", "5.0", extras=["cuda12"])
    files["source-1.0.tar.gz"] = b"x" * 100
    return files


def wheel(*libraries):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for library in libraries:
            archive.writestr(f"nvidia/cuda_runtime/lib/{library}", "x" * 5000)
    return made.getvalue()


class Index(http.server.BaseHTTPRequestHandler):
    files, withdrawn, other_hash = {}, set(), {}

    def do_GET(self):
        name = self.path.strip("/").split("/")[-1]
        if self.path.startswith("/files/"):
            data = self.files[name]
            first, last = self.headers["Range"].removeprefix("bytes=").split("-")
            return self.answer(206, data[int(first) : int(last) + 1])
        own = {file: data for file, data in self.files.items() if file.split("-")[0].replace("_", "-") == name}
        if not own:
            return self.answer(404, b"")
        rows = [
            {
                "filename": file, "size": len(data), "url": f"http://127.0.0.1:{self.server.server_port}/files/{file}",
                "hashes": {"sha256": self.other_hash.get(file, hashlib.sha256(data).hexdigest())},
                "yanked": file in self.withdrawn, "upload-time": "2026-01-02T03:04:05Z", "requires-python": ">=3.11",
            }
            for file, data in own.items()
        ]
        return self.answer(200, json.dumps({"files": rows}).encode())

    def answer(self, status, body):
        self.send_response(status)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def file(version, platform="manylinux2014_x86_64"):
    return f"nvidia_cuda_runtime_cu12-{version}-py3-none-{platform}.whl"


def main():
    work = pathlib.Path(tempfile.mkdtemp())
    table = work / "profiles" / "wheels.toml"
    (work / "profiles" / "frameworks").mkdir(parents=True)
    shutil.copy(HERE.parent / "profiles" / "refresh", work / "profiles" / "refresh")
    table.write_text(TABLE)
    builds = work / "profiles" / "builds.toml"
    builds.write_text("# Another head.\n")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Index)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    faults = []

    def refresh(*options, port=server.server_port):
        env = dict(os.environ, PIP_INDEX_URL=f"http://127.0.0.1:{port}")
        env = {name: value for name, value in env.items() if not name.lower().endswith("_proxy")}
        words = [sys.executable, work / "profiles" / "refresh", *options]
        run = subprocess.run(words, env=env, capture_output=True, text=True)
        return run.returncode, run.stderr, tomllib.loads(table.read_text())["wheel"]

    def expect(what, holds, seen):
        print(f"{'ok' if holds else 'FAULT'}  {what}")
        if not holds:
            faults.append(what)
            print(f"    {seen}")

    first = wheel("libcudart.so.12")
    Index.files = {file("12.1.105"): first, file("12.1.105", "manylinux2014_aarch64"): first, file("12.2.53"): first}
    Index.files |= {file("12.2.140"): first, file("12.3.1"): first, file("12.1.105", "win_amd64"): first}
    Index.withdrawn = {file("12.3.1")}
    seen = refresh("--check")
    expect("--check writes nothing", seen[0] == 1 and table.read_text() == TABLE, seen)
    seen = refresh()
    versions = [(one["version"], one["platform"].rsplit("_", 2)[-1]) for one in seen[2][0]["files"]]
    expect("each release for Linux has its files", versions == [("12.1.105", "64"), ("12.1.105", "aarch64"), ("12.2.53", "64"), ("12.2.140", "64")], versions)
    expect("the newest patch of a newer minor is tried", seen[2][0]["versions"] == ["12.1.105", "12.2.140"], seen)
    expect("hash and size are those of the index", seen[2][0]["files"][0]["sha256"] == hashlib.sha256(first).hexdigest() and seen[2][0]["files"][0]["size"] == len(first), seen)
    text = table.read_text()
    seen = refresh()
    expect("a second run changes nothing", seen[0] == 0 and table.read_text() == text and text.startswith("# The head.\n"), seen)
    Index.files[file("12.4.1")] = wheel("libcudart.so.13")
    seen = refresh()
    expect("other names make a row", [row["sonames"] for row in seen[2]] == [["libcudart.so.12"], ["libcudart.so.13"]] and seen[2][1]["derived"], seen)
    Index.other_hash = {file("12.2.53"): "0" * 64}
    seen = refresh("--check")
    expect("other bytes are an alarm", f"ALARM: {NAME} 12.2.53" in seen[1] and seen[0] == 1, seen)
    Index.other_hash, Index.withdrawn = {}, {file("12.2.53")}
    seen = refresh("--check")
    expect("a withdrawn release is reported", f"withdrawn: {NAME} 12.2.53" in seen[1], seen)
    builds.write_text(BUILDS)
    Index.files |= packages()
    seen = refresh("--check")
    expect("--check writes no releases", seen[0] == 1 and builds.read_text() == BUILDS, seen)
    seen = refresh()
    rows = {row["name"]: row["releases"] for row in tomllib.loads(builds.read_text()).get("distribution", [])}
    common = {"python": ">=3.11,<3.13", "machines": ["x86_64", "aarch64"], "date": "2026-01-02"}
    frame = [{"version": version, "cuda": ["12.8"], "cpu_on": ["aarch64"], **common} for version in ["2.1", "1.0"]]
    expect("the newest release of a line, and the one that another pins", rows["frame"] == frame, rows["frame"])
    common = {"python": ">=3.11", "machines": ["x86_64"], "date": "2026-01-02"}
    ext = [
        {"version": "0.2", "cuda": [], "beside": "frame==2.1", **common},
        {"version": "0.1", "cuda": ["12"], "needs": ["frame==1.0", "other==7"], **common},
    ]
    expect("CUDA by the name of a library, and a framework by who pins both", rows["ext"] == ext, rows["ext"])
    common = {"python": ">=3.11", "machines": ["x86_64", "aarch64"], "date": "2026-01-02"}
    plug = [{"version": "5.0.post1", "extra": "cuda12", "cuda": ["12"], "needs": ["frame==2.1", "ext==0.2"], **common}]
    expect("each extra that there is", rows["plug"] == plug, rows["plug"])
    expect("a package without wheels", rows["source"] == [{"version": "1.0", "source_only": True, **common}], rows["source"])
    text = builds.read_text()
    seen = refresh()
    expect("releases that are listed stay", seen[0] == 0 and builds.read_text() == text and text.startswith(BUILDS.split("[[d")[0]), seen)
    Index.withdrawn = {file for file in Index.files if file.startswith("ext-0.2")} | Index.withdrawn
    seen = refresh("--check")
    expect("a withdrawn release goes", "gone: ext 0.2" in seen[1] and "new: " not in seen[1], seen)
    text = table.read_text()
    server.shutdown()
    server.server_close()
    seen = refresh()
    expect("without an index it says so", seen[0] == 2 and "the index cannot be read" in seen[1] and table.read_text() == text, seen)
    shutil.rmtree(work)
    sys.exit(f"{len(faults)} faults" if faults else 0)


if __name__ == "__main__":
    main()
