#!/usr/bin/env bash
# Real wheels and the real loader, without a GPU: tests/real/run.sh [PATH-TO-cudarun]
#
# Downloads the wheels of wheels.txt once into ${XDG_CACHE_HOME:-~/.cache}/cudarun-tests (1.8 GB, 3 GB unpacked)
# and says so. Needs python3 (3.11 to 3.13, x86-64, glibc) with pip.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../../target/release/cudarun}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cudarun-tests
mkdir -p "$cache/unpacked"

while read -r wheel megabytes; do
    case $wheel in '' | '#'*) continue ;; esac
    unpacked=$cache/unpacked/$wheel
    [ ! -d "$unpacked" ] || continue
    echo "downloading $wheel ($megabytes MB) into $cache"
    rm -rf "$cache/download"
    mkdir "$cache/download"
    python3 -m pip download --quiet --disable-pip-version-check --no-deps --only-binary=:all: \
        --dest "$cache/download" "$wheel"
    python3 -m zipfile -e "$cache"/download/*.whl "$cache/download/files"
    mv "$cache/download/files" "$unpacked"
    rm -rf "$cache/download"
done <"$here/wheels.txt"

exec python3 "$here/cases.py" "$cudarun" "$cache"
