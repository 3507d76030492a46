#!/usr/bin/env bash
# Measures what following costs the processes below, as ratios in one run: benches/follow.sh [cudarun]
#
# Commands take turns, and each figure is the median of the ratios of several rounds, so that a burst of other work in one
# of them decides nothing: ROUNDS (1000) of short commands, and a fifth as many of `python3 -c pass`, in five blocks; then
# WORKERS (64) processes of multiprocessing's `spawn` at once, each of which imports torch, with an empty store and again;
# then LOOPS (1000) Pythons, each with other code, from one shell. Fails when a figure is over its limit, which other work on the
# machine does not reach, or when the store grows by more than 1 MB for those Pythons. TORCH is a Python that has torch: the
# workers then take their turns only once, which takes minutes. Without it they import a made torch, which imports modules of
# the standard library and is linked against libraries with the names of NVIDIA's. Needs cc and python3.
#
# A Python that follows is started twice: as it was, until the module for the dynamic loader sees it, and by cudarun.
# Of the 0.6 ms for that, the C library needs more than 0.4 ms: it asks the processor 68 times what it can do
# (`cpuid`), which takes 6 µs each on a virtual machine.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
rounds=${ROUNDS:-1000}
workers=${WORKERS:-64}
loops=${LOOPS:-1000}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home"
failed=0
cc -O1 -o "$work/spawn" "$here/spawn.c"

python=${TORCH:-}
torch=torch
turns=1
if [ -z "$python" ]; then
    python3 -m venv --without-pip "$work/env"
    python=$work/env/bin/python
    torch='a made torch'
    turns=5
    site=$(echo "$work"/env/lib/python3*/site-packages)
    mkdir -p "$site/torch/lib" "$site/torch-2.6.0.dist-info"
    printf 'Name: torch\nVersion: 2.6.0\n' >"$site/torch-2.6.0.dist-info/METADATA"
    printf "cuda = '12.4'\n" >"$site/torch/version.py"
    libraries=()
    for soname in libcudart.so.12 libcublas.so.12 libcublasLt.so.12 libcudnn.so.9 libnccl.so.2; do
        directory=$site/nvidia/${soname%%.*}/lib
        mkdir -p "$directory"
        cc -shared -Wl,-soname,$soname -o "$directory/$soname" -xc /dev/null
        libraries+=("$directory/$soname" "-Wl,-rpath,\$ORIGIN/../../nvidia/${soname%%.*}/lib")
    done
    cc -shared -Wl,--no-as-needed -o "$site/torch/lib/libtorch_cuda.so" -xc /dev/null -xnone "${libraries[@]}"
    cat >"$site/torch/__init__.py" <<'PYTHON'
import asyncio, concurrent.futures, ctypes, decimal, email.message, http.client, inspect, logging.handlers, os, unittest.mock, xml.dom.minidom
ctypes.CDLL(os.path.join(os.path.dirname(__file__), "lib", "libtorch_cuda.so"))
PYTHON
fi
cat >"$work/workers.py" <<'PYTHON'
import multiprocessing, sys
def work():
    import torch
if __name__ == "__main__":
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=work) for _ in range(int(sys.argv[1]))]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    sys.exit(any(process.exitcode for process in processes))
PYTHON

# Nothing of the person who runs this counts.
at() {
    env -i HOME="$work/home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
        USER=user LOGNAME=user SHELL=/bin/bash TERM=xterm LANG=C.UTF-8 "$@"
}
# follow: an empty store, and the variables by which a process follows.
follow() {
    rm -rf "$work/home/.cache"
    # shellcheck disable=SC2016
    mapfile -t followed < <(at bash -c 'eval "$("$0" export --follow)"; printf "%s\n" "LD_AUDIT=$LD_AUDIT" "CUDARUN_TREE=$CUDARUN_TREE"' "$cudarun")
}
# measure ROUNDS: adds what each of `commands` takes, in five blocks, under the names in `names`.
names=() commands=()
peer() {
    names+=("$1")
    [ ${#commands[@]} = 0 ] || commands+=(+)
    commands+=("${@:2}")
}
measure() {
    for block in 1 2 3 4 5; do
        at SEPARATOR=+ "$work/spawn" "$(($1 / 5))" "${commands[@]}" >"$work/block"
        paste <(printf '%s\n' "${names[@]}") "$work/block" | awk -F '\t' -v block=$block '{ print block "\t" $1 "\t" $2 }' >>"$work/times"
    done
    names=() commands=()
}
# timed ROUND NAME COMMAND…: adds what one command takes.
timed() {
    local began=$EPOCHREALTIME
    at "${@:3}" >"$work/out"
    awk -v began="$began" -v ended="$EPOCHREALTIME" -v what="$1	$2" 'BEGIN { printf "%s\t%.0f\n", what, (ended - began) * 1e6 }' >>"$work/times"
}
median() { sort -n | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
# row NAME AGAINST [BUDGET LIMIT]: the median of the ratios, and whether it is within them.
row() {
    local took ratio
    took=$(awk -F '\t' -v name="$1" '$2 == name { print $3 }' "$work/times" | median)
    ratio=$(awk -F '\t' -v name="$1" -v against="$2" '
        $2 == name { took[$1] = $3 } $2 == against { base[$1] = $3 }
        END { for (round in took) print took[round] / base[round] }' "$work/times" | median)
    awk -v name="$1" -v against="$2" -v took="$took" -v ratio="$ratio" -v budget="${3:-}" -v limit="${4:-}" 'BEGIN {
        limits = budget ? "   (budget " budget ", limit " limit ")" : ""
        over = !budget ? "" : ratio > limit ? "   TOO MUCH" : ratio > budget ? "   over the budget" : ""
        printf "%-36s %9.0f us   %.3f x %s%s%s\n", name, took, ratio, against, limits, over
        exit budget && ratio > limit
    }' || failed=1
}

cd "$work/home"
follow
# A Python that follows has another tree than the one that it was given. Otherwise this measures nothing.
tree=$(at "${followed[@]}" python3 -c 'import os; print(os.environ["CUDARUN_TREE"])')
[ "$tree" != // ] || { echo 'nothing follows' && exit 1; }

peer true true
peer 'true, followed' "${followed[@]}" true
peer 'sh' sh -c :
peer 'sh, followed' "${followed[@]}" sh -c :
peer 'bash' bash -c :
peer 'bash, followed' "${followed[@]}" bash -c :
peer 'env true' env true
peer 'cudarun true' "$cudarun" true
peer 'cudarun --no-follow true' "$cudarun" --no-follow true
measure "$rounds"
row 'true, followed' true 1.15 1.25
row 'sh, followed' sh
row 'bash, followed' bash
row 'cudarun true' 'env true'
row 'cudarun --no-follow true' 'cudarun true'

peer python3 python3 -c pass
peer 'python3, followed' "${followed[@]}" python3 -c pass
peer 'cudarun python3' "$cudarun" python3 -c pass
measure $((rounds / 5))
row 'python3, followed' 'cudarun python3' 1.05 1.2
row 'python3, followed' python3
row 'cudarun python3' python3

# So that nobody reads the files for the first time.
at "$python" -c 'import torch'
for ((turn = 1; turn <= turns; turn++)); do
    follow
    # As they are, now before the others and now after them.
    [ $((turn % 2)) = 0 ] || timed $turn workers "$python" "$work/workers.py" "$workers"
    timed $turn 'workers, followed' "${followed[@]}" "$python" "$work/workers.py" "$workers"
    timed $turn 'workers, followed again' "${followed[@]}" "$python" "$work/workers.py" "$workers"
    [ $((turn % 2)) = 1 ] || timed $turn workers "$python" "$work/workers.py" "$workers"
done
echo "$workers workers that import $torch:"
row 'workers, followed' workers 1.1 1.4
row 'workers, followed again' workers 1.1 1.4

# shellcheck disable=SC2016
loop='for ((number = $0; number < $1; number++)); do python3 -c "print($number)"; done'
used() { du -s --block-size=1 "$work/home/.cache/cudarun" | cut -f 1; }
follow
at "${followed[@]}" python3 -c pass
before=$(used)
for ((turn = 0; turn < 10; turn++)); do
    range=($((turn * loops / 10)) $(((turn + 1) * loops / 10)))
    timed $turn loop bash -c "$loop" "${range[@]}"
    timed $turn 'loop, followed' "${followed[@]}" bash -c "$loop" "${range[@]}"
done
growth=$(($(used) - before))
echo "a tenth of $loops Pythons that differ:"
row 'loop, followed' loop 1.5 1.7
echo "the store has grown by $growth bytes (budget 1000000)"
[ $growth -le 1000000 ] || failed=1
exit $failed
