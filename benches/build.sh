#!/usr/bin/env bash
# Measures `cudarun --build`: benches/build.sh [cudarun]
#
# Prints medians of ROUNDS (9) in which the commands take turns, with a warm page cache and without what earlier runs kept:
#   - `--build true` with a toolkit of real wheels of CUDA 13.0 against `true`: at most 300 ms more;
#   - `list toolkit` with that toolkit against without, for 190 MB of compilers: the difference is at most 0.3 of what
#     `cat` takes for the toolkit's files;
#   - then the kept start of `--build true` against the one of `true`, in ten times as many rounds: at most 1.5 x, and not
#     above 1.75 x on a busy machine.
# Starts no compiler: the nvcc of the toolkit would leave a file. Needs python3 and the wheels of tests/real/toolkits.py, which
# are downloaded once; without a network a line says that it is skipped.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
rounds=${ROUNDS:-9}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home"
failed=0

if ! PYTHONPATH="$here/../tests/real" python3 -c 'import sys, toolkits; toolkits.wheels13(sys.argv[1])' "$work/site" 2>"$work/why"; then
    echo "skipped: the wheels of a toolkit are not here: $(tail -n 1 "$work/why")"
    exit 0
fi
cd "$work"
mv site/nvidia/cu13/bin/nvcc site/nvidia/cu13/bin/nvcc.real
{ printf '#!/bin/sh\ntouch "%s/started"\nexit\n' "$work" && cat site/nvidia/cu13/bin/nvcc.real; } >site/nvidia/cu13/bin/nvcc
chmod +x site/nvidia/cu13/bin/nvcc

# at FILE [--kept] COMMAND…: appends the elapsed milliseconds to a file.
at() {
    python3 - "$@" <<'END'
import os, shutil, subprocess, sys, time
file, *words = sys.argv[1:]
if words[0] == "--kept":
    words = words[1:]
else:
    shutil.rmtree("home/.cache", ignore_errors=True)
home = os.path.abspath("home")
env = {"HOME": home, "PATH": "/usr/local/bin:/usr/bin:/bin", "CUDA_HOME": os.path.abspath("site/nvidia/cu13")}
if words[-1] == "without":
    words, env = words[:-1], {name: value for name, value in env.items() if name != "CUDA_HOME"}
began = time.monotonic()
run = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env)
took = time.monotonic() - began
sys.exit(f"status {run.returncode}: {words}: {run.stderr.decode()}") if run.returncode not in (0, 1) else None
print(1000 * took, file=open(file, "a"))
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
more() { awk -v a="$(median "$1")" -v b="$(median "$2")" 'BEGIN { print a - b }'; }
ratio() { awk -v a="$1" -v b="$2" 'BEGIN { print a / b }'; }

for ((round = 0; round < rounds; round++)); do
    at plain "$cudarun" true
    at build "$cudarun" --build true
    at list "$cudarun" list toolkit
    at list-nothing "$cudarun" list toolkit without
    at cat find site -type f -exec cat {} +
done
budget "--build, more than a plain start" "$(more build plain)" 300 ms
reading=$(more list list-nothing)
printf 'reading a toolkit: %.1f ms; cat of its files: %.1f ms\n' "$reading" "$(median cat)"
budget "reading a toolkit / cat of its files" "$(ratio "$reading" "$(median cat)")" 0.3 x
at first "$cudarun" true
at first --kept "$cudarun" --build true
for ((round = 0; round < 10 * rounds; round++)); do
    at kept-plain --kept "$cudarun" true
    at kept-build --kept "$cudarun" --build true
done
budget "a kept build / a kept start" "$(ratio "$(median kept-build)" "$(median kept-plain)")" 1.75 x
if [ -e started ]; then
    echo "nvcc was started"
    failed=1
fi
exit $failed
