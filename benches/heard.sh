#!/usr/bin/env bash
# Measures standard error under `cudarun diagnose PROGRAM`: benches/heard.sh [cudarun]
#
# Three rounds, the best of each counts. By a pipe: 1 GB of a log, as a ratio of `cat` between the same ends (budget 1.5). On a
# terminal: 100 MB, as a ratio of a bare copy through a pseudo-terminal in raw mode (budget 1.2). A start that does nothing, against
# a cudarun that becomes the program (budget +10 ms). Fails above a limit a third higher than the budget, since each is within a tenth
# of it on a quiet machine. Compares every byte. Needs cc and python3.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export HOME=$work XDG_CACHE_HOME=$work/cache
cd "$work"
cc -O2 -o "$work/heard" "$here/heard.c" -lutil
head -c 1000000000 /dev/urandom >"$work/bytes"
# The log of a training, again and again.
seq -f 'step %.0f  loss 0.4821  312.7 samples/s  lr 3e-4' 20000 | head -c 1000000 >"$work/part"
for _ in $(seq 1000); do cat "$work/part"; done >"$work/log"
sum=$(sha256sum <"$work/bytes")
status=0

# seconds LINE: of the best of three rounds
seconds() {
    local before best=1e9
    for _ in 1 2 3; do
        before=$EPOCHREALTIME
        bash -c "$1"
        best=$(awk -v a="$before" -v b="$EPOCHREALTIME" -v best="$best" 'BEGIN { t = b - a; print t < best ? t : best }')
    done
    echo "$best"
}

# ratio NAME LINE OTHER BUDGET LIMIT
ratio() {
    awk -v name="$1" -v a="$(seconds "$2")" -v b="$(seconds "$3")" -v budget="$4" -v limit="$5" 'BEGIN {
        printf "%-44s %6.2f s / %.2f s = %.2f (budget %.1f, limit %.1f)\n", name, a, b, a / b, budget, limit
        exit a / b > limit
    }' || status=1
}

write='./heard write log 1000000000'
ratio "1 GB by a pipe, against cat" "'$cudarun' diagnose $write 2>&1 >/dev/null | cat >/dev/null" \
    "$write 2>&1 >/dev/null | cat | cat >/dev/null" 1.5 2.0
write='./heard write log 100000000'
ratio "100 MB on a terminal, against a bare copy" "./heard terminal '$cudarun' diagnose $write" \
    "./heard terminal ./heard copy $write" 1.2 1.6

got=$("$cudarun" diagnose cp bytes /dev/stderr 2>&1 >/dev/null | sha256sum)
if [ "$got" = "$sum" ]; then echo "1 GB of random bytes: equal"; else echo "1 GB of random bytes: CHANGED" && status=1; fi

for _ in $(seq 30); do
    for words in "-- true" "diagnose true"; do
        before=$EPOCHREALTIME
        # shellcheck disable=SC2086  # a list of words
        "$cudarun" --no-config $words
        awk -v w="${words%% *}" -v a="$before" -v b="$EPOCHREALTIME" 'BEGIN { printf "%s %.3f\n", w, (b - a) * 1e3 }'
    done
done >"$work/times"
median() { awk -v w="$1" '$1 == w { print $2 }' "$work/times" | sort -n | sed -n 15p; }
awk -v a="$(median diagnose)" -v b="$(median --)" 'BEGIN {
    printf "a start: %.1f ms, and %.1f ms where cudarun becomes the program (budget +10 ms)\n", a, b
    exit a - b > 10
}' || status=1
exit $status
