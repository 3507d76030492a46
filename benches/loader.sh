#!/usr/bin/env bash
# How long the model of the loader takes over many files, against two tools that show the same: benches/loader.sh
#
# Every ELF file of /usr/bin, in one process of each: medians of ROUNDS (7) in which ours and libtree take turns, with
# a warm page cache and after a round that does not count; then ours and lddtree, which is slow, over a sample of SAMPLE (25) of them. libtree shows the tree
# of each file, the system's libraries with it; ours every file of its closure with its real path. Elapsed
# times are printed; the ratios that must hold are those of processor time. Needs cc, cargo, libtree, and lddtree with
# the system's own Python.
set -eu
here=$(dirname "$(realpath "$0")")
rounds=${ROUNDS:-7}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

cc -O1 -o "$work/spawn" "$here/spawn.c"
cargo build --quiet --locked --release --manifest-path "$here/../Cargo.toml" --example measure
measure=${CARGO_TARGET_DIR:-$here/../target}/release/examples/measure
find /usr/bin -type f -exec grep -lUzP '\A\x7fELF' {} + >"$work/all"
shuf --random-source=/usr/bin/env -n "${SAMPLE:-25}" "$work/all" >"$work/sample"

# compare FILES TOOL...: medians of both in milliseconds, and their ratio.
compare() {
    local tool
    tool=$(basename "$2")
    [ "$tool" != python3 ] || tool=$(basename "$3")
    mapfile -t files <"$1"
    # A missing library is no failure of the tool.
    # shellcheck disable=SC2016 # The words are for the shell that is started.
    "$work/spawn" "$rounds" sh -c '"$0" closures <"$1" || :' "$measure" "$1" -- \
        sh -c '"$0" "$@" 2>&1 || :' "${@:2}" "${files[@]}" >"$work/times"
    awk -v files="${#files[@]}" -v tool="$tool" '{ took[NR] = $1 / 1e3 } END {
        printf "%d files: ours %.1f ms, %s %.1f ms, %.3f times as long\n", files, took[1], tool, took[2], took[1] / took[2]
    }' "$work/times"
    ratio=$(awk '{ busy[NR] = $5 } END { print busy[1] / busy[2] }' "$work/times")
}
# budget NAME VALUE BUDGET LIMIT: prints a figure beside its budget; above the limit it fails.
budget() {
    awk -v value="$2" -v budget="$3" -v limit="$4" -v name="$1" 'BEGIN {
        # In parentheses: a bare `>` would be a redirection.
        over = (value > limit) ? "   TOO MUCH" : (value > budget) ? "   over the budget" : ""
        printf "%-44s %8.3f   (budget %s, limit %s)%s\n", name, value, budget, limit, over
        exit (value > limit)
    }' || failed=1
}

compare "$work/all" libtree -p -vv
# Measured at 1.15 on one machine, and at 1.33 to 1.36 on another, where the code of before takes the same time.
budget "processor time, closures / libtree" "$ratio" 1 1.5
compare "$work/sample" /usr/bin/python3 /usr/bin/lddtree
budget "processor time, closures / lddtree" "$ratio" 0.05 0.05
exit $failed
