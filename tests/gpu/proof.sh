#!/usr/bin/env bash
# shellcheck disable=SC2086,SC2317  # settings and commands are lists of words; `at_once` calls the functions
# The proof on a real GPU: tests/gpu/proof.sh PATH-TO-cudarun, or as a part of tests/gpu/run.sh
#
# Both cuDNN copies of the machine are proved at every level. Then sets are broken one way each, by hand, and proved as
# they are: each must be called by its name. The control is a C program that convolves (it must fail where the proof
# does), and the cure is the same environment under cudarun. In the end the time of a proof is compared with that of the
# C program.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

wheel=$(python3 -c 'import os, nvidia.cudnn as m; print(os.path.join(list(m.__path__)[0], "lib"))' 2>/dev/null)
program=$work/program
cc -O1 -o "$program" "$here/convcheck.c" -ldl -lm || exit 1

# verify EXPECTED SETTING OPTIONS…: prints the verdict; the status says whether it is the one that is expected.
verify() {
    local expected=$1 setting=$2
    shift 2
    env $setting "$cudarun" verify --fresh --json "$@" "$program" >"$work/json" 2>"$work/err"
    python3 "$here/verdict.py" "$work/json" $expected
}

# level LEVEL LABEL OPTIONS…: a whole set passes its proof.
level() {
    local level=$1 label=$2 with result=ok
    shift 2
    with=$(verify passed "" --level "$level" "$@") || result=FAIL
    row $result "level $level" "$label" "" "$with"
    [ $result = ok ] || cat "$work/json" "$work/err"
}

# broken EXPECTED LEVEL LABEL SETTING: proved as it is, it has this cause; under cudarun the program works.
broken() {
    local expected=$1 level=$2 label=$3 setting=$4 without as_is with result=ok
    if env $setting "$program" >"$work/out" 2>&1; then without=works; else without="fails ($?)"; fi
    as_is=$(verify "$expected" "$setting" --as-is --level "$level") || result=FAIL
    if env $setting "$cudarun" "$program" >"$work/out" 2>"$work/err"; then with=works; else with="fails ($?)"; fi
    [ "$with" = works ] || result=FAIL
    # A file that a convolution does not use does not refuse the program.
    [ "$level" = load ] || [ "$without" != works ] || [ "$expected" = passed ] || result=FAIL
    row $result "$label" "$level" "$without; as it is: $as_is" "$with; $(head -n 1 "$work/err" | cut -c1-160)"
    [ $result = ok ] || cat "$work/json" "$work/out" "$work/err"
}

# mixed DIRECTORY: links to every file of the wheel's cuDNN, under all names that programs ask for.
mixed() {
    mkdir -p "$1"
    for file in "$wheel"/libcudnn*.so.9; do
        ln -sf "$file" "$1/$(basename "$file")"
    done
}

# whole DIRECTORY: a copy of Debian's cuDNN that may be changed.
whole() {
    mkdir -p "$1"
    cp -a "$debian"/libcudnn*.so.9* "$1"
}

# copied DIRECTORY FROM STEM…: links to the libraries of these stems in a directory, under all of their names.
copied() {
    local directory=$1 from=$2 stem file
    shift 2
    mkdir -p "$directory"
    for stem; do
        for file in "$from/$stem".so.*; do
            [ ! -e "$file" ] || ln -sf "$(realpath "$file")" "$directory/$(basename "$file")"
        done
    done
}

# flipped DIRECTORY STEM FUNCTION: a byte of the function is another in a copy of that library.
flipped() {
    local file original
    for file in "$1/$2".so.*; do
        original=$(realpath "$file")
        break
    done
    for file in "$1/$2".so.*; do
        ln -sf "$(basename "$original")" "$file"
    done
    file=$1/$(basename "$original")
    cp --remove-destination "$original" "$file" && python3 "$here/damage.py" "$file" "$3" >/dev/null || failed=1
}

# deeper EXPECTED LABEL WHOLE BROKEN: only `deep` uses these libraries. Those in the first directory pass there, those in the
# second have this cause.
deeper() {
    local expected=$1 label=$2 without with result=ok
    without=$(given passed "$3") || result=FAIL
    [ $result = ok ] || cat "$work/json" "$work/err"
    with=$(given "$expected" "$4") || result=FAIL
    row $result "$label" deep "whole: $without" "$with"
    [ $result = ok ] || cat "$work/json" "$work/err"
}

# given EXPECTED DIRECTORY: proves what the loader gives to any program, these libraries first.
given() {
    LD_LIBRARY_PATH=$2 "$cudarun" verify --fresh --json --level deep >"$work/json" 2>"$work/err"
    python3 "$here/verdict.py" "$work/json" $1
}

row result case environment "without cudarun" "with cudarun"
row --- --- --- --- ---

for level in load handle conv deep; do
    at_once level $level "Debian's cuDNN" --pin "cudnn=$debian"
    [ -z "$wheel" ] || at_once level $level "the wheel's cuDNN" --pin "cudnn=$wheel"
done

if [ -n "$wheel" ]; then
    mixed "$work/as-made"
    at_once broken passed conv "the wheel's by links" "LD_LIBRARY_PATH=$work/as-made"
    for stem in graph ops cnn adv engines_precompiled engines_runtime_compiled heuristic; do
        mixed "$work/foreign-$stem"
        ln -sf "$(realpath "$debian/libcudnn_$stem.so.9")" "$work/foreign-$stem/libcudnn_$stem.so.9"
        mixed "$work/missing-$stem"
        rm "$work/missing-$stem/libcudnn_$stem.so.9"
        # A convolution does not ask for all of them.
        case $stem in adv | heuristic) level=load ;; *) level=conv ;; esac
        case $stem in
        heuristic) expected="passed mixed" ;;
        *) expected=mixed ;;
        esac
        at_once broken "$expected" $level "libcudnn_$stem of another version" "LD_LIBRARY_PATH=$work/foreign-$stem"
        # The system's directory has the missing file in another version.
        at_once broken "$expected incomplete" $level "no libcudnn_$stem" "LD_LIBRARY_PATH=$work/missing-$stem"
    done
fi

# over: torch takes its own shim and Debian's parts. That is a set that works, as the proof says; torch asks for a newer one.
over() {
    local result=ok without with as_is
    if LD_LIBRARY_PATH=$debian python3 "$here/torch_conv.py" >/dev/null 2>&1; then without=works result=FAIL; else without="fails ($?)"; fi
    LD_LIBRARY_PATH=$debian "$cudarun" verify --as-is --json python3 "$here/torch_conv.py" >"$work/json" 2>"$work/err"
    as_is=$(python3 "$here/verdict.py" "$work/json" passed) || result=FAIL
    if LD_LIBRARY_PATH=$debian "$cudarun" python3 "$here/torch_conv.py" >/dev/null 2>"$work/err"; then with=works; else with="fails ($?)" result=FAIL; fi
    row $result "torch over Debian's cuDNN" conv "$without; as it is: $as_is" "$with"
    [ $result = ok ] || cat "$work/json" "$work/err"
}
if [ -n "$wheel" ] && python3 -c 'import torch' 2>/dev/null; then
    at_once over
fi

whole "$work/short"
short=$(realpath "$work/short/libcudnn_ops.so.9")
truncate -s $(($(stat -c %s "$short") * 6 / 10)) "$short"
at_once broken damaged conv "libcudnn_ops cut short" "LD_LIBRARY_PATH=$work/short"
whole "$work/flipped"
python3 "$here/damage.py" "$(realpath "$work/flipped/libcudnn_cnn.so.9")" cudnnConvolutionForward >/dev/null || failed=1
at_once broken crashed conv "a byte of cudnnConvolutionForward flipped" "LD_LIBRARY_PATH=$work/flipped"

libraries=$toolkit/lib64
for copy in whole gemm; do
    copied "$work/cublas-$copy" "$libraries" libcublas libcublasLt
done
flipped "$work/cublas-gemm" libcublas cublasSgemm_v2
at_once deeper crashed "a byte of cublasSgemm flipped" "$work/cublas-whole" "$work/cublas-gemm"

copied "$work/cusparse-whole" "$libraries" libcusparse libnvJitLink
copied "$work/cusparse-handle" "$libraries" libcusparse libnvJitLink
flipped "$work/cusparse-handle" libcusparse cusparseCreate
at_once deeper crashed "a byte of cusparseCreate flipped" "$work/cusparse-whole" "$work/cusparse-handle"
# As a release that lacks what libcusparse asks for. It is loaded at every level.
copied "$work/cusparse-older" "$libraries" libcusparse
for file in "$libraries"/libnvJitLink.so.[0-9]*; do
    soname=$(basename "$file" | cut -d. -f1-3)
done
echo 'int nvJitLinkVersion(unsigned *major, unsigned *minor) { *major = 12, *minor = 0; return 0; }' |
    cc -shared -fPIC -x c - -Wl,-soname,"$soname" -o "$work/cusparse-older/$soname" || failed=1
at_once deeper library-does-not-load "libcusparse over an older libnvJitLink" "$work/cusparse-whole" "$work/cusparse-older"

copied "$work/nvrtc-whole" "$libraries" libnvrtc libnvrtc-builtins
copied "$work/nvrtc-compile" "$libraries" libnvrtc libnvrtc-builtins
flipped "$work/nvrtc-compile" libnvrtc nvrtcCompileProgram
at_once deeper crashed "a byte of nvrtcCompileProgram flipped" "$work/nvrtc-whole" "$work/nvrtc-compile"
# As one of another release: the loader's cache has a whole one, which would be taken if there were none here.
copied "$work/nvrtc-builtins" "$libraries" libnvrtc
for file in "$libraries"/libnvrtc-builtins.so.[0-9]*; do
    soname=$(basename "$file" | cut -d. -f1-4)
done
echo 'int other_release;' |
    cc -shared -fPIC -x c - -Wl,-soname,"$soname" -o "$work/nvrtc-builtins/$soname" || failed=1
at_once deeper refused "libnvrtc-builtins of another release" "$work/nvrtc-whole" "$work/nvrtc-builtins"

nccl=$(python3 -c 'import os, nvidia.nccl as m; print(os.path.join(list(m.__path__)[0], "lib"))' 2>/dev/null)
if [ "$(nvidia-smi -L | wc -l)" -gt 1 ] && [ -n "$nccl" ]; then
    for copy in whole sum; do
        copied "$work/nccl-$copy" "$nccl" libnccl
    done
    flipped "$work/nccl-sum" libnccl ncclAllReduce
    at_once deeper crashed "a byte of ncclAllReduce flipped" "$work/nccl-whole" "$work/nccl-sum"
fi

mkdir "$work/stub"
ln -s "$toolkit/lib64/stubs/libcuda.so" "$work/stub/libcuda.so.1"
at_once broken stub conv "a stub first" "LD_LIBRARY_PATH=$work/stub"
at_once broken compat-refused conv "compat older than the driver" "LD_LIBRARY_PATH=$toolkit/compat"

# hidden VALUE EXPECTED: no library is at fault.
hidden() {
    local value=$1 expected=$2 with result=ok without
    if CUDA_VISIBLE_DEVICES=$value "$program" >/dev/null 2>&1; then without=works; else without="fails ($?)"; fi
    with=$(verify "$expected" "CUDA_VISIBLE_DEVICES=$value") || result=FAIL
    row $result "hidden" "CUDA_VISIBLE_DEVICES=$value" "$without" "$with"
}
at_once hidden "" gpus-hidden
at_once hidden -1 gpus-hidden
at_once hidden 7 gpus-hidden
at_once hidden GPU-bad gpus-hidden

rows

# Another process has the memory of the first GPU.
if python3 -c 'import torch' 2>/dev/null; then
    python3 - "$work/filled" <<'PY' &
import sys, time, torch
held = []
size = 1 << 30
while size >= 1 << 20:
    try:
        held.append(torch.empty(size, dtype=torch.uint8, device="cuda"))
    except torch.OutOfMemoryError:
        size //= 2
open(sys.argv[1], "w").write("filled")
time.sleep(60)
PY
    filler=$!
    for _ in $(seq 300); do
        [ -e "$work/filled" ] && break
        sleep 0.1
    done
    result=ok
    if "$program" >/dev/null 2>&1; then without=works result=FAIL; else without="fails ($?)"; fi
    with=$(verify out-of-memory "" --level conv) || result=FAIL
    "$cudarun" "$program" >/dev/null 2>"$work/err"
    said=$(head -n 1 "$work/err")
    [[ $said == *'not proved: GPU 0'*'out of memory'* ]] || result=FAIL
    kill $filler
    wait $filler 2>/dev/null
    row $result "memory filled by another process" "" "$without" "$with; $said"
    [ $result = ok ] || cat "$work/json" "$work/err"
    # And once it is gone.
    level conv "Debian's cuDNN, memory free again" --pin "cudnn=$debian"
fi

# several EXPECTED OPTIONS…: what was tried on how many GPUs, with the libraries of torch.
several() {
    local expected=$1 with result=ok
    shift
    "$cudarun" verify --fresh --json "$@" python3 -c 'import torch' >"$work/json" 2>"$work/err"
    with=$(python3 - "$work/json" <<'PY'
import json, sys
said = json.load(open(sys.argv[1]))
steps = [step for step in said["proof"]["steps"] if "right" in (step.get("came") or {})]
gpus = sorted({step["gpu"] for step in steps if "gpu" in step})
sums = [step for step in steps if step["computation"] == "all-reduce"]
print(said["verdict"], "on", len(gpus), "GPUs,", len(steps), "computations,", len(sums), "over all of them")
PY
    )
    # shellcheck disable=SC2053  # a pattern
    [[ $with == $expected ]] || result=FAIL
    row $result "several GPUs" "${CUDA_VISIBLE_DEVICES:+CUDA_VISIBLE_DEVICES=$CUDA_VISIBLE_DEVICES} $*" "" "$with"
    [ $result = ok ] || cat "$work/json" "$work/err"
}
if [ "$(nvidia-smi -L | wc -l)" -gt 1 ] && python3 -c 'import torch' 2>/dev/null; then
    several 'passed on 2 GPUs, 2 computations, 0 over all of them'
    several 'passed on 2 GPUs, * computations, 1 over all of them' --level deep
    CUDA_VISIBLE_DEVICES=1 several 'passed on 1 GPUs, * computations, 0 over all of them' --level deep
fi

# The time of a proof and of the C program, in turns on one GPU: the median of five.
export CUDA_VISIBLE_DEVICES=0
for _ in 1 2 3 4 5 6; do
    verify passed "" --level conv --pin "cudnn=$debian" >/dev/null
    python3 -c 'import json, sys; print("proof", json.load(open(sys.argv[1]))["proof"]["milliseconds"])' "$work/json"
    python3 - "$program" <<'PY'
import subprocess, sys, time
began = time.monotonic()
subprocess.run([sys.argv[1], "libcudnn.so.9", "libcudart.so.13", "quiet"], stdout=subprocess.DEVNULL, check=True)
print("program", (time.monotonic() - began) * 1e3)
PY
done >"$work/times"
python3 - "$work/times" <<'PY' || failed=1
import statistics, sys
times = {"proof": [], "program": []}
for line in open(sys.argv[1]):
    name, value = line.split()
    times[name].append(float(value))
# The first of each warms the file cache.
proof, program = (statistics.median(times[name][1:]) for name in ("proof", "program"))
ratio = proof / program
print(f"\na proof takes {proof:.0f} ms, the C program {program:.0f} ms: {ratio:.2f} x (budget 1.15)")
print("proof:", *(f"{it:.0f}" for it in times["proof"]), "program:", *(f"{it:.0f}" for it in times["program"]))
sys.exit(ratio > 1.15)
PY
python3 - "$work/json" <<'PY'
import json, sys
for step in json.load(open(sys.argv[1]))["proof"]["steps"]:
    print(f"  {step['step']:14} {step.get('of') or '':22} {step['milliseconds']:8.1f} ms")
PY
exit $failed
