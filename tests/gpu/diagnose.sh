#!/usr/bin/env bash
# shellcheck disable=SC2086  # settings are lists of words here
# Failures of a real GPU, explained and cured: tests/gpu/diagnose.sh PATH-TO-cudarun
#
# Each program fails without cudarun. `cudarun diagnose --as-is` starts it again, must end with the same status, and must
# name the cause first. The cure that it prints first is then executed, where it is one for this shell, and the program must
# work. The cases run at the same time. Prints rows for the table of tests/gpu/run.sh.
set -u
cudarun=$(realpath "${1:?usage: tests/gpu/diagnose.sh PATH-TO-cudarun}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/bin" "$work/stub"
ln -s "$cudarun" "$work/bin/cudarun"
export XDG_CACHE_HOME=$work/cache PATH=$work/bin:$PATH
failed=0
debian=/usr/lib/x86_64-linux-gnu
toolkit=/usr/local/cuda
ln -s "$toolkit/lib64/stubs/libcuda.so" "$work/stub/libcuda.so.1"

# shellcheck source=/dev/null
. "$here/row.sh"

# explained CAUSE CERTAINTY LABEL ENVIRONMENT COMMAND…: CERTAINTY is `is`, or `may-be` where the driver alone knows.
explained() {
    local cause=$1 certainty=$2 label=$3 setting=$4 result=ok place without with status alone cure
    shift 4
    place=$(mktemp -d "$work/case.XXXX") && cd "$place" || exit 1
    env $setting "$@" >out 2>err
    alone=$?
    without="status $alone; $(tail -n 1 err | cut -c1-90)"
    [ $alone -ne 0 ] || result=FAIL
    env $setting cudarun diagnose --as-is --json "$@" >out 2>err
    status=$?
    # The object begins with the last line that is a brace.
    tac err | sed '/^{$/q' | tac >json
    with=$(python3 - <<'PY'
import json
first = json.load(open("json"))["causes"][0]
print(first["certainty"], first["cause"])
print(first["cures"][0]["do"] if first["cures"] else "")
PY
    )
    cure=$(sed -n 2p <<<"$with")
    with=$(sed -n 1p <<<"$with")
    [ "$with" = "$certainty $cause" ] && [ $status -eq $alone ] || result=FAIL
    case $cure in
    "cudarun "*) env $setting sh -c "$cure" >cured 2>&1 && with="$with; cudarun PROGRAM works" || result=FAIL ;;
    "unset "*) env $setting sh -c "$cure; exec \"\$@\"" sh "$@" >cured 2>&1 && with="$with; $cure works" || result=FAIL ;;
    *) with="$with; $cure" ;;
    esac
    failed=0
    row $result "$label" "${setting//$work\//}" "$without" "$with"
    [ $result = ok ] || { cat json && tail -n 30 err cured; } 2>&1 | sed 's/^/      /'
    return $failed
}

# explain ARGUMENTS…: starts a case, whose rows are printed in the order of the cases
cases=()
explain() {
    explained "$@" >"$work/row.${#cases[@]}" 2>&1 &
    cases+=($!)
}

torch=(python3 -c 'import torch; torch.zeros(1, device="cuda")')
version=(python3 -c 'import torch; torch.backends.cudnn.version()')
if python3 -c 'import torch' 2>/dev/null; then
    explain compat-refused is "torch, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" "${torch[@]}"
    explain stub is "torch, diagnosed" "LD_LIBRARY_PATH=$work/stub" "${torch[@]}"
    explain gpus-hidden is "torch, diagnosed" "CUDA_VISIBLE_DEVICES=7" "${torch[@]}"
    explain older-first is "torch, diagnosed" "LD_LIBRARY_PATH=$debian" "${version[@]}"
    explain out-of-memory may-be "torch, diagnosed" "" python3 -c 'import torch; torch.empty(1 << 42, device="cuda")'
    explain program-fault is "torch, diagnosed" "" \
        python3 -c 'import torch; print(torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")].cpu())'
fi
if python3 -c 'import cupy' 2>/dev/null; then
    explain compat-refused is "cupy, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" \
        python3 -c 'import cupy; cupy.zeros(3).sum()'
fi
if python3 -c 'import jax' 2>/dev/null; then
    explain compat-refused is "jax, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" \
        python3 -c 'import jax; jax.config.update("jax_platforms", "cuda"); print(jax.numpy.ones(3).sum())'
fi
for number in "${!cases[@]}"; do
    wait "${cases[$number]}" || failed=1
    cat "$work/row.$number"
done
exit $failed
