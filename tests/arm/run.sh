#!/usr/bin/env bash
# Tries the release for aarch64 in an emulated Debian: tests/arm/run.sh
#
# Makes the release without link-time optimisation, or what has changed of it, and needs what .ci/release and tests/arm/rows.py need: root, mmdebstrap,
# qemu-user-static, libc6-dev-arm64-cross, python3 with pip. A line says what is missing.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
if why=$(python3 tests/arm/rows.py --missing); then
    echo "skipped  cudarun for aarch64: $why"
    exit 0
fi
export CARGO_PROFILE_RELEASE_LTO=${CARGO_PROFILE_RELEASE_LTO:-off} CARGO_PROFILE_RELEASE_CODEGEN_UNITS=${CARGO_PROFILE_RELEASE_CODEGEN_UNITS:-16}
release=$(mktemp -d)
trap 'rm -rf "$release"' EXIT
.ci/release "$release" aarch64 >/dev/null
# With the linker of the release, what was compiled for it serves here as well.
target=aarch64-unknown-linux-gnu
CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=$(find "${XDG_CACHE_HOME:-$HOME/.cache}/cargo-zigbuild" -name "zigcc-$target.2.17*.sh" -printf '%T@ %p\n' |
    sort -n | sed -n '$s/[^ ]* //p')
[ -n "$CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER" ] || { echo "$0: the release has left no linker" >&2 && exit 1; }
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER
cargo build --locked --quiet --release --target "$target" --example measure
python3 tests/arm/rows.py "$release" "${CARGO_TARGET_DIR:-target}/$target/release/examples/measure"
