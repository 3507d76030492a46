#!/usr/bin/env bash
# Measures the cost of the audit module for a program, as ratios in one run: benches/audit.sh [module]
#
# Medians of ROUNDS (2000) in which these take turns: `true` as it is, with the module and a table of 200 names, with a
# log, and, to compare, with one directory in LD_LIBRARY_PATH and with one small library in LD_PRELOAD. Then of a
# sixtieth as many in which a program calls a function of a library CALLS (3 * 10^7) times, bound lazily and at once, with
# the module and without. Says so when a ratio is over its budget, and fails when it is over by more than a tenth.
# Without an argument, the module is the one that cargo built last. Needs cc.
set -eu
here=$(dirname "$(realpath "$0")")
newest() {
    find "$here/../target/release/build" -path '*/cudarun-*/out/audit.so' -printf '%T@ %p\n' | sort -n | tail -n 1 | cut -d ' ' -f 2-
}
module=$(realpath "${1:-$(newest)}")
rounds=${ROUNDS:-2000}
calls=${CALLS:-30000000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

cc -O1 -o "$work/spawn" "$here/spawn.c"
mkdir "$work/view"
table=$work/view
for number in {1..50}; do
    for suffix in so so.9 so.9.10 so.9.10.2; do
        table+=:libcudnn_engines_$number.$suffix
    done
done
echo 'int next(int number) { return number + 1; }' >"$work/next.c"
cc -O1 -shared -fPIC -o "$work/libnext.so" "$work/next.c"
for binding in lazy now; do
    cc -O1 -o "$work/calls-$binding" "$here/calls.c" "$work/libnext.so" -Wl,-rpath,"$work" -Wl,-z,"$binding"
done
pinned=(LD_AUDIT="$module" CUDARUN_PROOF=1 CUDARUN_PINS="$table")

# row WHAT LINE AGAINST [BUDGET]: the ratio of two medians, and whether it holds.
row() {
    awk -v what="$1" -v line="$2" -v against="$3" -v budget="${4:-}" '
        { median[NR] = $1 }
        END {
            ratio = median[line] / median[against]
            over = budget ? ratio / budget : 0
            # In parentheses: a bare `>` would be a redirection.
            said = (over > 1.1) ? "   TOO MUCH" : (over > 1) ? "   over" : ""
            printf "%-40s %9.0f us   %.3f x", what, median[line], ratio
            print budget ? "   (budget " budget ")" said : ""
            exit (over > 1.1)
        }' "$work/times" || failed=1
}

"$work/spawn" "$rounds" true -- "${pinned[@]}" true -- "${pinned[@]}" CUDARUN_TRACE="$work/log" true -- \
    LD_LIBRARY_PATH="$work/view" true -- LD_PRELOAD="$work/libnext.so" true >"$work/times"
row 'true' 1 1
row 'true, 200 names pinned' 2 1 1.15
row 'true, pinned and logged' 3 1
row 'true, a directory in LD_LIBRARY_PATH' 4 1
row 'true, a small library in LD_PRELOAD' 5 1

"$work/spawn" $((rounds / 60 + 1)) "$work/calls-lazy" "$calls" -- "${pinned[@]}" "$work/calls-lazy" "$calls" -- \
    "$work/calls-now" "$calls" -- "${pinned[@]}" "$work/calls-now" "$calls" >"$work/times"
row "$calls calls, bound lazily" 1 1
row "$calls calls, bound lazily, pinned" 2 1 1.05
row "$calls calls, bound at once" 3 3
row "$calls calls, bound at once, pinned" 4 3 1.05
exit "$failed"
