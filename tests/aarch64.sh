#!/usr/bin/env bash
# The module for the dynamic loader on the other kind of machine: compiled for aarch64, its ELF facts, and, where
# there is a compiler for it and an emulator, a program whose libraries it pins and logs.
#
# Needs the target (rustup target add aarch64-unknown-linux-gnu), and says so where it is missing; runs with
# gcc-aarch64-linux-gnu, libc6-dev-arm64-cross and qemu-user-static.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
target=aarch64-unknown-linux-gnu
sysroot=$(rustc --print sysroot)
if ! [ -d "$sysroot/lib/rustlib/$target/lib" ]; then
    echo "skipped: rustc has no core library for $target"
    exit 0
fi
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
host=$(rustc -vV | sed -n 's/^host: //p')
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER="$sysroot/lib/rustlib/$host/bin/rust-lld"
# All of cudarun is looked at; the build script makes the module.
cargo check --locked --quiet --target "$target" --message-format json |
    sed -n 's/.*"reason":"build-script-executed".*cudarun.*"out_dir":"\([^"]*\)".*/\1/p' >"$work/out"
module=$(tail -n 1 "$work/out")/audit.so
facts=$(readelf --wide --file-header --program-headers --dynamic --dyn-syms "$module")
has() {
    grep -q "$1" <<<"$facts" || { echo "the module lacks: $1"; exit 1; }
}
lacks() {
    ! grep -E "$1" <<<"$facts" || { echo "the module has: $1"; exit 1; }
}
has 'Machine: *AArch64'
has 'la_version'
has 'la_objsearch'
has 'la_objopen'
lacks '\(NEEDED\)|^  TLS|TEXTREL|GLOBAL +DEFAULT +UND|WEAK +DEFAULT +UND'
[ "$(stat -c %s "$module")" -lt 20480 ] || { echo "the module is large"; exit 1; }
echo "compiled for aarch64, $(stat -c %s "$module") bytes"

if ! command -v aarch64-linux-gnu-gcc >/dev/null || ! command -v qemu-aarch64-static >/dev/null; then
    echo "skipped: nothing runs programs for aarch64 here"
    exit 0
fi
mkdir "$work/right" "$work/wrong" "$work/view"
for copy in right wrong; do
    echo "const char *pin(void) { return \"$copy\"; }" >"$work/$copy.c"
    aarch64-linux-gnu-gcc -shared -fPIC -Wl,-soname,libpin.so.1 -o "$work/$copy/libpin.so.1" "$work/$copy.c"
done
ln -s ../right/libpin.so.1 "$work/view/"
printf '%s\n' '#include <stdio.h>' 'const char *pin(void);' 'int main(void) { puts(pin()); }' >"$work/program.c"
aarch64-linux-gnu-gcc -Wl,--disable-new-dtags,-rpath,"$work/wrong" -o "$work/program" "$work/program.c" "$work/wrong/libpin.so.1"
run() {
    qemu-aarch64-static -L /usr/aarch64-linux-gnu "$@" "$work/program"
}
expect() {
    [ "$1" = "$2" ] || { echo "expected $2, got $1"; exit 1; }
}
# The module adds to a log and makes none.
: >"$work/log"
expect "$(run)" wrong
expect "$(run -E LD_AUDIT="$module" -E CUDARUN_PROOF=1 -E CUDARUN_PINS="$work/view:libpin.so.1" -E CUDARUN_TRACE="$work/log")" right
# In a tree, the pins are for the process that cudarun has decided about.
expect "$(run -E LD_AUDIT="$module" -E CUDARUN_PINS="$work/view:libpin.so.1" -E CUDARUN_PROOF=1 -E CUDARUN_TREE=1.1.1.1.1/)" wrong
expect "$(run -E LD_AUDIT="$module" -E CUDARUN_PINS="$work/view:libpin.so.1")" wrong
tr '\0' ' ' <"$work/log" | cut -d ' ' -f 2- | tee "$work/text"
grep -qx "pinned  libpin.so.1 $work/view/libpin.so.1 " "$work/text"
echo "a program for aarch64 gets its pins"

# A program that links a library of NVIDIA's is replaced by the file that is written into the module: here a script that says
# with which arguments.
printf '#!/bin/sh\necho "replaced $*"\n' >"$work/cudarun"
chmod 755 "$work" "$work/cudarun"
python3 - "$module" "$work/cudarun" >"$work/follow.so" <<'PY'
import sys

module = open(sys.argv[1], "rb").read()
marker = b"the path of cudarun:"
place = module.index(marker) + len(marker)
path = sys.argv[2].encode()
sys.stdout.buffer.write(module[:place] + path + module[place + len(path) :])
PY
mkdir "$work/lib"
echo 'int cudaFree(void) { return 0; }' >"$work/cudart.c"
aarch64-linux-gnu-gcc -shared -fPIC -Wl,-soname,libcudart.so.12 -o "$work/lib/libcudart.so.12" "$work/cudart.c"
printf '%s\n' '#include <stdio.h>' 'int main(void) { puts("itself"); }' >"$work/itself.c"
aarch64-linux-gnu-gcc -o "$work/itself" "$work/itself.c"
aarch64-linux-gnu-gcc -o "$work/uses" "$work/itself.c" -Wl,--no-as-needed,-rpath,"$work/lib" "$work/lib/libcudart.so.12"
started() {
    qemu-aarch64-static -L /usr/aarch64-linux-gnu -E LD_AUDIT="$work/follow.so" "${@:2}" "$1" one two
}
expect "$(started "$work/itself" -E CUDARUN_TREE=//)" itself
expect "$(started "$work/uses")" itself
expect "$(started "$work/uses" -E CUDARUN_TREE=// -E CUDARUN_FOLLOW=off)" itself
expect "$(started "$work/uses" -E CUDARUN_TREE=// 2>/dev/null)" "replaced --follow-process $work/uses $work/uses $work/uses one two"
echo "a program for aarch64 is followed"
