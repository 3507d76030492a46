#!/usr/bin/env python3
"""profiles/refresh with an index on this machine: tests/refresh.py

The index has one distribution with releases of two minors, one of them withdrawn, and serves parts of files. The first run
fills the table, the second changes nothing, a new SONAME makes a row of its own, a changed hash is an alarm, `--check` writes
nothing, and without an index the script says so and leaves the table alone.
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
        if name != NAME:
            return self.answer(404, b"")
        rows = [
            {
                "filename": file, "size": len(data), "url": f"http://127.0.0.1:{self.server.server_port}/files/{file}",
                "hashes": {"sha256": self.other_hash.get(file, hashlib.sha256(data).hexdigest())},
                "yanked": file in self.withdrawn,
            }
            for file, data in self.files.items()
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
    text = table.read_text()
    server.shutdown()
    server.server_close()
    seen = refresh()
    expect("without an index it says so", seen[0] == 2 and "the index cannot be read" in seen[1] and table.read_text() == text, seen)
    shutil.rmtree(work)
    sys.exit(f"{len(faults)} faults" if faults else 0)


if __name__ == "__main__":
    main()
