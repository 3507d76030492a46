#!/usr/bin/env bash
# Builds cudarun for aarch64 and tries it in an emulated Debian: tests/arm/run.sh
#
# Needs the target (rustup target add aarch64-unknown-linux-gnu), gcc-aarch64-linux-gnu and libc6-dev-arm64-cross, and what
# tests/arm/rows.py needs: root, mmdebstrap, qemu-user-static, python3 with pip. Downloads 1.5 GB once. A line says what is missing.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
target=aarch64-unknown-linux-gnu
if ! [ -d "$(rustc --print sysroot)/lib/rustlib/$target/lib" ] || ! command -v aarch64-linux-gnu-gcc >/dev/null; then
    echo "skipped: nothing compiles for aarch64 here"
    exit 0
fi
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
cargo build --locked --quiet --target "$target" --bin cudarun --example measure
built=${CARGO_TARGET_DIR:-target}/$target/debug
python3 tests/arm/rows.py "$built/cudarun" "$built/examples/measure"
