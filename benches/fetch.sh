#!/usr/bin/env bash
# Measures `cudarun fetch`: benches/fetch.sh [cudarun]
#
# Prints medians of ROUNDS (7) in which the commands take turns, with a warm page cache:
#   - unpacking a wheel of 211 MB from a directory, with its hash and every file's, against `sha256sum` and `python3 -m zipfile
#     -e`, elapsed: at most 1.2 ×. pip downloads the wheel once; without a network, a line says that it is skipped;
#   - `fetch` of a program that lacks nothing against `explain` of it: at most 50 ms more;
#   - `fetch --dry-run` of one that lacks a library against `explain`: at most 1.2 ×.
# Needs cc, python3 and pip.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
rounds=${ROUNDS:-7}
work=$(mktemp -d)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
mkdir -m 700 "$work/home"
cd "$work"
failed=0

# at FILE COMMAND…: appends the elapsed milliseconds to a file.
at() {
    python3 - "$@" <<'END'
import subprocess, sys, time
began = time.monotonic()
run = subprocess.run(sys.argv[2:], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env={"HOME": "home", "PATH": "/usr/local/bin:/usr/bin:/bin"})
took = time.monotonic() - began
sys.exit(f"status {run.returncode}: {sys.argv[2:]}: {run.stderr.decode()}") if run.returncode not in (0, 1) else None
print(1000 * took, file=open(sys.argv[1], "a"))
END
}
median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# budget NAME VALUE BUDGET UNIT
budget() {
    awk -v value="$2" -v budget="$3" -v name="$1" -v unit="$4" 'BEGIN {
        printf "%-52s %8.2f %s (budget %s)%s\n", name, value, unit, budget, (value > budget) ? "   TOO MUCH" : ""
        exit (value > budget)
    }' || failed=1
}

echo 'int cudaRuntimeGetVersion(int *version) { return *version = 0; }' >stand-in.c
echo 'int cudaRuntimeGetVersion(int *); int main(void) { int version; return cudaRuntimeGetVersion(&version); }' >program.c
cc -shared -Wl,-soname,libcudart.so.12 -o libcudart.so stand-in.c
cc -o lacks program.c -L. -lcudart
for ((round = 0; round < rounds; round++)); do
    at explain-nothing "$cudarun" explain python3 -c 'import json'
    at fetch-nothing "$cudarun" fetch python3 -c 'import json'
    at explain "$cudarun" explain ./lacks
    at fetch "$cudarun" fetch --dry-run ./lacks
done
budget "nothing to fetch, more than explain" "$(awk -v a="$(median fetch-nothing)" -v b="$(median explain-nothing)" 'BEGIN { print a - b }')" 50 ms
budget "what to fetch / explain" "$(awk -v a="$(median fetch)" -v b="$(median explain)" 'BEGIN { print a / b }')" 1.2 x

wheel=nvidia-cufft-cu12==11.2.1.3
if python3 -m pip download --quiet --no-deps --no-cache-dir --only-binary=:all: --dest wheels "$wheel" 2>/dev/null; then
    file=$(echo wheels/*.whl)
    for ((round = 0; round < rounds; round++)); do
        at unpack "$cudarun" fetch --yes --from wheels cufft=11.2.1.3 --cuda 12
        at others sh -c "sha256sum $file && python3 -m zipfile -e $file files"
        chmod -R u+w home/.local
        rm -rf home/.local files
    done
    budget "unpacking / sha256sum and python3 -m zipfile" "$(awk -v a="$(median unpack)" -v b="$(median others)" 'BEGIN { print a / b }')" 1.2 x
else
    echo "skipped: pip cannot download $wheel"
fi
exit "$failed"
