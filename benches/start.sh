#!/usr/bin/env bash
# How long a warm start takes, as a ratio to the lightest program that starts another: benches/start.sh [cudarun]
#
# Medians of one run in which `cudarun true`, `env true` and `true` take turns; ROUNDS of them (2000).
# Fails when the ratio is over the budget, 1.3. Needs cc.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache

# Each library that it is linked against costs a tenth of a start.
needed=$(readelf -d "$cudarun" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
case $needed in "libc.so.6 " | "") ;; *) echo "linked against $needed" && exit 1 ;; esac
cc -O1 -o "$work/spawn" "$here/spawn.c"
"$cudarun" true
"$work/spawn" "${ROUNDS:-2000}" "$cudarun" true -- env true -- true >"$work/times"
awk '
    { median[NR] = $1; printf "%-13s %7.0f us   (quartiles %.0f and %.0f)\n", NR == 1 ? "cudarun true" : NR == 2 ? "env true" : "true", $1, $2, $3 }
    END {
        ratio = median[1] / median[2]
        printf "warm start: %.3f x env true (budget 1.3)\n", ratio
        exit ratio > 1.3
    }' "$work/times"
