#!/usr/bin/env bash
# How long a decision takes: benches/solve.sh [COPIES]
#
# 1,000 copies (or COPIES) over thirty families, each linked against the one before, with symbols and code for GPUs: the
# median of 31 solutions, and of 31 conflicts with the smallest contradiction found; both answers are the same byte for
# byte in every round. Then ten times as many, for how it grows. Says so when a number is over its budget in milliseconds,
# which a slow machine misses, and fails when it takes more than its limit in units of a yardstick of the same run: writing
# the installations as text. Fails as well when an answer differs.
set -eu
here=$(dirname "$(realpath "$0")")
copies=${1:-1000}
failed=0

cargo build --quiet --locked --release --manifest-path "$here/../Cargo.toml" --example measure
measure=${CARGO_TARGET_DIR:-$here/../target}/release/examples/measure

read -r solved explained different otherwise yardstick < <("$measure" solve "$copies" 31)
if [ "$different" != 0 ] || [ "$otherwise" != 0 ]; then
    echo "of 31 answers $different and $otherwise differ from the first"
    failed=1
fi
# budget WHAT MICROSECONDS MILLISECONDS YARDSTICKS: says whether it holds, and keeps it in mind.
budget() {
    awk -v what="$1" -v took="$2" -v budget="$3" -v limit="$4" -v yardstick="$yardstick" 'BEGIN {
        printf "%s: %.1f ms, budget %d ms%s; %.2f x writing them, limit %s\n", what, took / 1e3, budget,
            (took / 1e3 > budget ? ": over" : ""), took / yardstick, limit
        exit (took / yardstick > limit)
    }' || failed=1
}
budget "$copies copies solved" "$solved" 10 0.6
budget "$copies copies, a conflict explained" "$explained" 50 3.7
more=$((copies * 10))
read -r solved_more explained_more _ < <("$measure" solve "$more" 5)
awk -v more="$more" -v solved="$((solved_more))" -v explained="$((explained_more))" -v one="$solved" -v other="$explained" 'BEGIN {
    printf "%d copies: %.1f ms and %.1f ms, %.1f and %.1f times as long\n",
        more, solved / 1e3, explained / 1e3, solved / one, explained / other
}'
exit "$failed"
