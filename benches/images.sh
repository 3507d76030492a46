#!/usr/bin/env bash
# Measures `cudarun --root IMAGE list` for an image of 200 MB, against `tar t` of its layer: benches/images.sh [cudarun]
#
# Prints the medians of ROUNDS (5) for a layer without compression, by gzip and by zstandard, the first time and once it is known.
# Fails if cudarun takes more than 1.5 times as long as tar where nothing is known yet (zstandard: 5 times, since cudarun is built
# without a C compiler and the decoder of pure Rust takes longer), or more than half as long as tar the second time. SIZE (200) is in
# MB. Needs python3, tar, gzip and zstd.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 - "$cudarun" "$work" "${SIZE:-200}" "${ROUNDS:-5}" <<'END'
import hashlib
import io
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import time

cudarun, work, size, rounds = sys.argv[1], pathlib.Path(sys.argv[2]), int(sys.argv[3]) << 20, int(sys.argv[4])
environment = {"HOME": str(work / "home"), "PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
# tar, gzip and zstd are that quick only for what they were made of: half of it like code, half like text.
source = random.Random(0)
words = [source.randbytes(source.randrange(3, 12)) for _ in range(5000)]


def content(length):
    parts, have = [], 0
    while have < length:
        part = source.randbytes(4096) if source.random() < 0.4 else b" ".join(source.choices(words, k=600))
        parts.append(part)
        have += len(part)
    return b"".join(parts)[:length]


def layer():
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        written, number = 0, 0
        while written < size:
            # A library now and then, and many small files.
            is_library = number % 50 == 0
            length = 4 << 20 if is_library else source.randrange(500, 20000)
            member = tarfile.TarInfo(f"usr/lib/part{number // 100}/file{number}" + (".so" if is_library else ".py"))
            data = (b"\x7fELF" if is_library else b"") + content(length - 4)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
            written, number = written + length, number + 1
    return buffer.getvalue()


def layout(name, data, kind):
    """An image with one layer."""
    place = work / name
    (place / "blobs/sha256").mkdir(parents=True)

    def blob(content):
        digest = hashlib.sha256(content).hexdigest()
        (place / "blobs/sha256" / digest).write_bytes(content)
        return {"digest": f"sha256:{digest}", "size": len(content)}

    config = blob(json.dumps({"architecture": "amd64", "os": "linux", "config": {}}).encode())
    layers = [{"mediaType": f"application/vnd.oci.image.layer.v1.{kind}", **blob(data)}]
    manifest = blob(json.dumps({"schemaVersion": 2, "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config}, "layers": layers}).encode())
    (place / "index.json").write_text(json.dumps({"schemaVersion": 2, "manifests": [{"mediaType": "application/vnd.oci.image.manifest.v1+json", **manifest}]}))
    (place / "oci-layout").write_text('{"imageLayoutVersion": "1.0.0"}')
    return place, place / "blobs/sha256" / layers[0]["digest"].split(":")[1]


def seconds(words):
    began = time.monotonic()
    status = subprocess.run(words, env=environment, stdout=subprocess.DEVNULL).returncode
    # `list` finds no NVIDIA library: 1.
    assert status in (0, 1), words
    return time.monotonic() - began


plain = layer()
(work / "layer.tar").write_bytes(plain)
packed = {"plain": ("tar", plain, 1.5)}
for tool, limit in [("gzip", 1.5), ("zstd", 5)]:
    packed[tool] = (f"tar+{tool}", subprocess.run([tool, "-c", str(work / "layer.tar")], stdout=subprocess.PIPE, check=True).stdout, limit)
del plain
failed = False
for name, (kind, data, limit) in packed.items():
    place, blob = layout(name, data, kind)
    unpack = [] if name == "plain" else [f"--{name}"]
    tar, first, second = [], [], []
    for _ in range(rounds):
        tar.append(seconds(["tar", *unpack, "-tf", str(blob)]))
        shutil.rmtree(work / "home", ignore_errors=True)
        (work / "home").mkdir(mode=0o700)
        first.append(seconds([cudarun, "--root", f"oci:{place}", "list"]))
        second.append(seconds([cudarun, "--root", f"oci:{place}", "list"]))
    t, f, s = statistics.median(tar), statistics.median(first), statistics.median(second)
    print(f"image of {len(data) >> 20} MB, {name:5}  tar t {t * 1000:.0f} ms, cudarun {f * 1000:.0f} ms: {f / t:.2f} (limit {limit}); known {s * 1000:.0f} ms")
    # A listing without compression takes tar no time.
    failed |= f > limit * t + 0.05 or name != "plain" and s > t / 2
sys.exit(failed)
END
