#!/usr/bin/env bash
# Fuzzes every parser that reads bytes of others, on stable Rust:
#
#   tests/fuzz/run.sh [SECONDS [TARGET…]]
#
# Replays the corpus, then runs SECONDS (5) for each target, as many targets at once as there are processors (or
# CUDARUN_FUZZ_JOBS). Prints the runs of each target. Fails for a panic, an overflow, a run that takes more than a second,
# or more memory than 20 × its input and 50 MB; the input is then in target/fuzz/found. Inputs with new coverage are kept
# in target/fuzz/corpus; `tests/fuzz/run.sh merge` makes the smallest corpus of all of them.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/../.."
fuzz=tests/fuzz
target=$(rustc -vV | sed -n 's/^host: //p')
seconds=${1:-5}
shift || true

# A target other than the default keeps the flags from build scripts.
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
-Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares" \
    cargo build --locked --release --quiet --manifest-path $fuzz/Cargo.toml --target "$target" --target-dir target/fuzz
export FUZZ=$PWD/target/fuzz/$target/release/fuzz
# In memory where the system has such a place.
memory=/dev/shm
[ -w $memory ] || memory=/tmp
TMPDIR=$(mktemp -d -p $memory cudarun-fuzz-XXXXXX)
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
mkdir -p target/fuzz/found

one() {
    local kept=target/fuzz/corpus/$2 log=target/fuzz/$2.log status=0 limit=(-max_total_time="$1")
    mkdir -p "$kept" "tests/fuzz/corpus/$2"
    [ "$1" != 0 ] || limit=(-runs=0)
    CUDARUN_FUZZ_TARGET=$2 "$FUZZ" "${limit[@]}" -max_len=65536 -timeout=30 -rss_limit_mb=4096 -print_final_stats=1 \
        -dict=tests/fuzz/words.dict -artifact_prefix="target/fuzz/found/$2-" "$kept" "tests/fuzz/corpus/$2" \
        >"$log" 2>&1 || status=$?
    awk -v name="$2" '$1 == "stat::number_of_executed_units:" { runs = $2 }
        END { printf "%-16s %9d runs\n", name, runs }' "$log"
    [ "$status" = 0 ] || { grep -aE 'panicked|ERROR|Test unit' -A1 "$log" | tail -n 12; return 1; }
}
export -f one

targets=("$@")
[ $# -gt 0 ] || mapfile -t targets < <("$FUZZ" 2>/dev/null)
if [ "$seconds" = merge ]; then
    for name in "${targets[@]}"; do
        mkdir -p "target/fuzz/corpus/$name" "target/fuzz/merged/$name" "$fuzz/corpus/$name"
        CUDARUN_FUZZ_TARGET=$name "$FUZZ" -merge=1 -max_len=4096 "target/fuzz/merged/$name" "$fuzz/corpus/$name" \
            "target/fuzz/corpus/$name" >"target/fuzz/$name.merge.log" 2>&1
        rm -r "${fuzz:?}/corpus/$name"
        mv "target/fuzz/merged/$name" "$fuzz/corpus/$name"
    done
    echo "choose at most 2 MB of $fuzz/corpus to keep"
    du -sh --apparent-size $fuzz/corpus
    exit
fi
printf '%s\n' "${targets[@]}" | xargs -P "${CUDARUN_FUZZ_JOBS:-$(nproc)}" -I{} bash -c "one $seconds {}"
