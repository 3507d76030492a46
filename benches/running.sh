#!/usr/bin/env bash
# Measures `cudarun list --running` over 2,000 processes, against `cat` of what it reads: benches/running.sh [cudarun]
#
# Starts PROCESSES (2,000) processes that have cuDNN's files mapped, all of them and then one in ten, and prints medians of
# ROUNDS (7) in which the commands take turns, after a round that does not count. The run fails above three times `cat`. Needs
# cc. As root, it sees all processes.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
rounds=${ROUNDS:-7}
count=${PROCESSES:-2000}
work=$(mktemp -d)
groups=()
# shellcheck disable=SC2317  # called by name
end() {
    for group in "${groups[@]}"; do kill -- "-$group" 2>/dev/null || true; done
    rm -rf "$work"
}
trap end EXIT
failed=0

cc -O1 -o "$work/spawn" "$here/spawn.c"
for part in "" _graph _ops _cnn _adv _heuristic _engines_precompiled _engines_runtime_compiled; do
    cc -shared -fPIC -x c -Wl,-soname,"libcudnn$part.so.9" -o "$work/libcudnn$part.so.9" - <<<'
        __attribute__((used)) const char stamp[] = "cudnn_version_9_10_2_21_";'
done
# Opens its arguments and becomes many processes.
cc -O1 -x c -o "$work/many" - -ldl <<'END'
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
int main(int c, char **v)
{
    for (int i = 2; i < c; i++)
        if (!dlopen(v[i], RTLD_NOW)) return 1;
    setsid();
    for (int i = 1; i < atoi(v[1]); i++)
        if (!fork()) break;
    pause();
}
END
many() {
    "$work/many" "$@" &
    groups+=($!)
    disown
}
measure() {
    until [ "$(pgrep -c -x many)" -ge "$count" ]; do sleep 0.1; done
    env -i HOME="$work" PATH=/usr/bin:/bin "$work/spawn" "$rounds" \
        sh -c 'cat /proc/[0-9]*/maps 2>/dev/null; :' -- "$cudarun" list --running -- "$cudarun" list --running --json >"$work/times"
    awk -v name="$1" '{ took[NR] = $1 / 1e3 } END {
        ratio = took[2] / took[1]
        printf "%s: cat %.1f ms, list --running %.1f ms, %.2f of it (budget 3), --json %.1f ms\n", name, took[1], took[2], ratio, took[3]
        exit ratio > 3
    }' "$work/times" || failed=1
}
many $((count / 10)) "$work"/libcudnn*
many $((count - count / 10))
measure "$count processes, one in ten with cuDNN"
for group in "${groups[@]}"; do kill -- "-$group"; done
while pgrep -x many >/dev/null; do sleep 0.1; done
groups=()
many "$count" "$work"/libcudnn*
measure "$count processes with cuDNN"
exit $failed
