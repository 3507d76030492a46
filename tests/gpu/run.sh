#!/usr/bin/env bash
# shellcheck disable=SC2086,SC2317  # settings and commands are lists of words; `at_once` calls the functions
# Real programs on a real GPU: tests/gpu/run.sh PATH-TO-cudarun
#
# Starts torch, jax, cupy and a C program in the environments that break them, first without cudarun (the
# control: it must break where it is known to) and then with it (it must work, with one copy of each family
# mapped, all of it from the plan). Then what a trace finds is compared with what the model of the loader says,
# JAX is pinned to a cuDNN that its own search paths do not lead to, demands on the machine are met or not, and what was
# recorded is taken again. Then comes the proof (proof.sh). Prints a row a case and exits with 1 when any row fails. The cases
# of a part run at the same time.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

has_module() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null; }

# one BREAKS LABEL ENVIRONMENT COMMAND…: BREAKS is `breaks` or `works`, what is known of the control.
one() {
    local breaks=$1 label=$2 setting=$3 without with control said status result=ok
    shift 3
    env $setting "$@" >"$work/out" 2>"$work/err"
    status=$?
    control=works
    if ! without=$(python3 "$here/check.py" "$work/out") || [ $status -ne 0 ]; then
        control=breaks
        said=$(grep -m1 -E '^error|Error|803' "$work/out" "$work/err" -h | head -n 1 | cut -c1-90)
        without="status $status; ${said:+$said; }$without"
    fi
    env $setting "$cudarun" explain --json "$@" >"$work/plan" 2>"$work/explain"
    env $setting "$cudarun" "$@" >"$work/out" 2>"$work/err"
    status=$?
    with=$(python3 "$here/check.py" "$work/out" "$work/plan") || result=FAIL
    if [ $status -ne 0 ]; then
        result=FAIL
        with="status $status; $with; $(tail -n 3 "$work/err" | tr '\n' ' ')"
    fi
    if [ "$control" != "$breaks" ] && [ "$breaks" = breaks ]; then
        result=FAIL
        with="the control does not break: this row shows nothing; $with"
    fi
    row $result "$label" "${setting:-as it is}" "$without" "$with"
    if [ $result = FAIL ]; then
        sed 's/^/      /' "$work/out" "$work/err" "$work/explain" | tail -n 40
    fi
}

# traced LABEL ENVIRONMENT COMMAND…: what is mapped is what the model says, as it is and as planned.
traced() {
    local label=$1 setting=$2 result=ok said="" how
    shift 2
    for how in --as-is ""; do
        env $setting "$cudarun" trace --json --all $how -o "$work/trace" "$@" >"$work/out" 2>"$work/err"
        env $setting "$cudarun" trace --json --predict $how "$@" >"$work/predicted"
        said="$said${how:-as planned}: $(python3 "$here/traced.py" "$work/predicted" "$work/trace") " || result=FAIL
    done
    row $result "$label" "${setting:-as it is}" "${said%%as planned*}" "as planned${said##*as planned}"
    [ $result = ok ] || tail -n 20 "$work/err" | sed 's/^/      /'
}

# pinned MODE LABEL COMMAND…: cuDNN comes from Debian's packages alone, or the start is refused.
pinned() {
    local mode=$1 label=$2 result=ok without with status
    shift 2
    "$@" >"$work/out" 2>"$work/err"
    without=$(python3 "$here/only.py" "$work/out" "$debian") && result=FAIL
    "$cudarun" --pin "cudnn=$debian" --pin-mode "$mode" "$@" >"$work/out" 2>"$work/err"
    status=$?
    if [ "$mode" = audit ]; then
        with=$(python3 "$here/only.py" "$work/out" "$debian") || result=FAIL
        [ $status -eq 0 ] || result=FAIL
    else
        with="status $status; $(grep -m1 'is not enough' "$work/err" | sed 's/^ *//')"
        [ $status -eq 125 ] || result=FAIL
    fi
    row $result "$label" "--pin cudnn=$debian --pin-mode $mode" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 40
}

# demanded LABEL HOLDS FAILS COMMAND…: of two demands on this machine one is met and the other is not, and no library is at
# fault.
demanded() {
    local label=$1 holds=$2 fails=$3 result=ok without with
    shift 3
    if env "$holds" "$cudarun" "$@" >"$work/out" 2>"$work/err"; then without="$holds: started"; else result=FAIL without="$holds: status $?"; fi
    env "$fails" "$cudarun" "$@" >"$work/out" 2>>"$work/err"
    with="$fails: status $?; $(grep -m1 '^error' "$work/err"); $(grep -m1 'found' "$work/err" | sed 's/^ *//')"
    grep -q 'no library path can help' "$work/err" || result=FAIL
    [[ $with == *'status 125;'* ]] || result=FAIL
    row $result "$label" "two demands" "$without" "$with"
}

# locked LABEL COMMAND…: what was recorded is taken where other copies come first, and nothing else is.
locked() {
    local label=$1 result=ok without with
    shift
    mkdir -p "$work/project"
    (cd "$work/project" && "$cudarun" record "$@" >"$work/out" 2>"$work/err") || result=FAIL
    without=$(tail -n 1 "$work/err" | sed "s,$work,…,")
    (
        cd "$work/project" || exit 1
        env "LD_LIBRARY_PATH=$debian" "$cudarun" explain --locked --json "$@" >"$work/plan" 2>"$work/err"
        env "LD_LIBRARY_PATH=$debian" "$cudarun" --locked "$@" >"$work/out" 2>>"$work/err"
    ) || result=FAIL
    with=$(python3 "$here/check.py" "$work/out" "$work/plan") || result=FAIL
    # Another build of the same version.
    sed -i 's/^"libcudnn.so.9" = ".*"/"libcudnn.so.9" = "00"/' "$work/project/.cudarun.lock"
    (cd "$work/project" && "$cudarun" --locked "$@" >"$work/out" 2>"$work/err")
    with="$with; with another build-id in the lock: status $?; $(grep -om1 '[^ ]* recorded another build of .*' "$work/err")"
    [[ $with == *'status 125; '*'libcudnn.so.9' ]] || result=FAIL
    row $result "$label" "LD_LIBRARY_PATH=$debian, --locked" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 40
}

# together LABEL COMMAND…: of 64 starts at once one proves the set, and all of them start; asked to, each proves it.
together() {
    local label=$1 result=ok place=$work/together without with n
    shift
    mkdir -p "$place"
    for n in 1 2 3 4; do
        "$cudarun" -v --verify always "$@" >/dev/null 2>"$place/always.$n" &
    done
    wait
    without="4 starts, --verify always: $(grep -l '^cudarun: proved on' "$place"/always.* | wc -l) proofs"
    [[ $without == *': 4 proofs' ]] || result=FAIL
    export XDG_CACHE_HOME=$place/cache
    for n in $(seq 64); do
        "$cudarun" -v "$@" >/dev/null 2>"$place/err.$n" && : >"$place/started.$n" &
    done
    wait
    export XDG_CACHE_HOME=$work/cache
    with="$(find "$place" -name 'started.*' | wc -l) starts: $(grep -l '^cudarun: proved on' "$place"/err.* | wc -l) proofs"
    [ "$with" = "64 starts: 1 proofs" ] || result=FAIL
    row $result "$label" "64 at once" "$without" "$with"
    [ $result = ok ] || tail -n 3 "$place"/err.1 "$place"/err.64 | sed 's/^/      /'
}

# other_gpus LABEL: a build that says that it has code for Maxwell alone is not started on this GPU.
other_gpus() {
    local result=ok without with site=$work/site
    mkdir -p "$site/torch/include/ATen/cuda" "$site/torch/lib"
    : >"$site/torch/__init__.py"
    echo "cuda = '13.0'" >"$site/torch/version.py"
    echo '#define NVCC_FLAGS_EXTRA "-gencode;arch=compute_50,code=sm_50"' >"$site/torch/include/ATen/cuda/CUDAConfig.h"
    cp "$debian/libcudnn.so.9" "$site/torch/lib/libtorch_cuda.so"
    without=$(PYTHONPATH=$site python3 -c 'import torch; print("started")') || result=FAIL
    PYTHONPATH=$site "$cudarun" python3 -c 'import torch' >"$work/out" 2>"$work/err"
    with="status $?; $(grep -m1 '^error' "$work/err"); $(grep -m1 '^hint' "$work/err")"
    [[ $with == 'status 125; '*'has no code for the GPU of this machine'* ]] || result=FAIL
    row $result "$1" "PYTHONPATH=…" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 40
}

# told PACKAGE ENVIRONMENT SAYS: entering a project that uses the package, the shell's hook says that; as it is, nothing; with a
# lock of another driver, that.
told() {
    local result=ok without with place=$work/told-$1
    mkdir -p "$place"
    echo "uses = [\"$1\"]" >"$place/.cudarun.toml"
    # A file that has just changed is not cached.
    sleep 0.1
    without=$(cd "$place" && "$cudarun" hook --check= 2>&1 >/dev/null)
    with=$(cd "$place" && env "$2" "$cudarun" hook --check= 2>&1 >/dev/null)
    if [ -n "$without" ] || [[ $with != *"$3"* ]]; then result=FAIL; fi
    printf 'format = 1\ndriver = ">=999.1"\n\n[[family]]\nname = "cudart"\n' >"$place/.cudarun.lock"
    with="$with; with a lock of driver 999: $(cd "$place" && "$cudarun" hook --check= 2>&1 >/dev/null)"
    [[ $with == *'.cudarun.lock:1 requires driver >=999.1, but this machine has driver '* ]] || result=FAIL
    row $result "hook, uses $1" "$2" "as it is: ${without:-nothing}" "$with"
}

# examined ENVIRONMENT STATUS SAYS: what doctor makes of this machine in that environment.
examined() {
    local result=ok status said
    env $1 "$cudarun" doctor >"$work/out" 2>"$work/err"
    status=$?
    said=$(head -n 1 "$work/out")
    if [ $status -ne "$2" ] || ! grep -q "$3" "$work/out"; then result=FAIL; fi
    row $result doctor "${1:-as it is}" "" "status $status; $said"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err"
}

# needs_gpu LABEL COMMAND…: with --require gpu it starts on the GPU, and not where the environment hides it. Without, it does.
needs_gpu() {
    local label=$1 result=ok without with
    shift
    without=$(CUDA_VISIBLE_DEVICES='' "$cudarun" "$@" 2>&1) || result=FAIL
    [ "$without" = False ] || result=FAIL
    with=$("$cudarun" --require gpu "$@" 2>"$work/err") || result=FAIL
    [ "$with" = True ] || result=FAIL
    CUDA_VISIBLE_DEVICES='' "$cudarun" --require gpu "$@" >"$work/out" 2>>"$work/err"
    with="$with; hidden: status $?; $(grep -m1 'found' "$work/err" | sed 's/^ *//')"
    [[ $with == *'status 125; found'*'CUDA_VISIBLE_DEVICES hides them'* ]] || result=FAIL
    row $result "$label" "--require gpu; CUDA_VISIBLE_DEVICES=" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 40
}

# running LABEL ENVIRONMENT CODE: what `list --running` says of a process that uses the GPU, as it is and with cudarun.
running() {
    local result=ok how said=() process
    mkfifo "$work/wait"
    for how in "" "$cudarun"; do
        : >"$work/out"
        env "$2" $how python3 -c "$3
print('ready', flush=True)
open('$work/wait').read()" >"$work/out" 2>"$work/err" &
        process=$!
        until grep -q ready "$work/out" || ! kill -0 $process 2>/dev/null; do sleep 0.1; done
        "$cudarun" list --running $process --json >"$work/told"
        said+=("$(python3 -c '
import json, sys
(one,) = json.load(open(sys.argv[1]))["processes"]
cudnn = sorted({library["version"] for library in one["libraries"] if library["family"] == "cudnn"})
print("cudarun" if one["started_by_cudarun"] else "as it is", len(cudnn), "cuDNN:", *cudnn, *one["devices"])
' "$work/told")") || result=FAIL
        : >"$work/wait"
        wait $process || result=FAIL
    done
    [[ ${said[0]} == 'as it is 2 cuDNN: '*/dev/nvidia[0-9]* && ${said[1]} == 'cudarun 1 cuDNN: '*/dev/nvidia[0-9]* ]] || result=FAIL
    row $result "$1, list --running" "$2" "${said[0]}" "${said[1]}"
    [ $result = ok ] || sed 's/^/      /' "$work/told" "$work/err" | tail -n 60
}

echo "date $(date -u +%F), driver $(cat /sys/module/nvidia/version), $("$cudarun" --version)"
python3 - <<'PY'
import importlib.metadata as m
names = ["torch", "jax", "cupy-cuda13x", "cupy-cuda12x", "nvidia-cudnn-cu13", "nvidia-cudnn-cu12"]
found = []
for name in names:
    try: found.append(f"{name} {m.version(name)}")
    except m.PackageNotFoundError: pass
print("python packages:", ", ".join(found) or "none")
PY
"$cudarun" list
echo
row result program environment "without cudarun" "with cudarun"
row --- --- --- --- ---

if has_module torch; then
    torch="python3 $here/torch_conv.py"
    at_once one works torch "" $torch
    at_once one breaks torch "LD_LIBRARY_PATH=$debian" $torch
    at_once one breaks torch "LD_LIBRARY_PATH=$toolkit/compat" $torch
    at_once one works torch "LD_LIBRARY_PATH=$toolkit/lib64:$toolkit/lib64/stubs" $torch
    at_once one breaks torch "LD_PRELOAD=$debian/libcudnn.so.9" $torch
fi
if has_module jax; then
    jax="python3 $here/jax_conv.py"
    at_once one works jax "" $jax
    at_once one breaks jax "LD_LIBRARY_PATH=$debian" $jax
    at_once one breaks jax "LD_LIBRARY_PATH=$toolkit/compat" $jax
    at_once one breaks jax "LD_LIBRARY_PATH=$toolkit/lib64:$toolkit/lib64/stubs" $jax
fi
if has_module cupy; then
    cupy="python3 $here/cupy_gemm.py"
    at_once one works cupy "" $cupy
    at_once one works cupy "LD_LIBRARY_PATH=$debian" $cupy
    at_once one breaks cupy "LD_LIBRARY_PATH=$toolkit/compat" $cupy
    at_once one works cupy "LD_LIBRARY_PATH=$toolkit/lib64:$toolkit/lib64/stubs" $cupy
fi
if command -v cc >/dev/null && [ -e $debian/libcudnn.so.9 ]; then
    cc -O1 -o "$work/opens" "$here/convcheck.c" -ldl -lm
    cc -O1 -o "$work/linked" "$here/convcheck.c" -ldl -lm -Wl,--no-as-needed "$debian/libcudnn.so.9"
    for program in opens linked; do
        at_once one works "C, $program" "" "$work/$program"
        at_once one works "C, $program" "LD_LIBRARY_PATH=$debian" "$work/$program"
        at_once one breaks "C, $program" "LD_LIBRARY_PATH=$toolkit/compat" "$work/$program"
        at_once one works "C, $program" "LD_LIBRARY_PATH=$toolkit/lib64:$toolkit/lib64/stubs" "$work/$program"
    done
fi

if has_module torch; then
    at_once traced torch "" $torch
    at_once traced torch "LD_LIBRARY_PATH=$debian" $torch
fi
if has_module jax; then
    at_once traced jax "" $jax
    at_once traced jax "LD_LIBRARY_PATH=$debian" $jax
    at_once traced jax "LD_LIBRARY_PATH=$toolkit/lib64:$toolkit/lib64/stubs" $jax
    for mode in audit view; do
        at_once pinned $mode jax $jax
    done
fi
if has_module cupy; then
    at_once traced cupy "" $cupy
    at_once traced cupy "LD_LIBRARY_PATH=$debian" $cupy
fi
if [ -x "$work/linked" ]; then
    rows
    together "C, opens" "$work/opens"
    at_once traced "C, opens" "LD_LIBRARY_PATH=$debian" "$work/opens"
    at_once traced "C, linked" "LD_LIBRARY_PATH=$toolkit/compat" "$work/linked"
fi

if has_module torch; then
    at_once demanded torch "CUDARUN_REQUIRE=gpu>=5.0;driver>=400;cuda>=11" "CUDARUN_REQUIRE=gpu>=20.0" $torch
    at_once demanded torch "NVIDIA_REQUIRE_CUDA=cuda>=11.0 brand=tesla,driver>=1" "NVIDIA_REQUIRE_CUDA=cuda>=99.0 brand=tesla,driver<2" $torch
    at_once locked torch $torch
    at_once other_gpus "a torch for Maxwell"
    at_once told torch "LD_LIBRARY_PATH=$debian" "cuDNN 9.14"
    at_once needs_gpu torch python3 -c 'import torch; print(torch.cuda.is_available())'
    at_once running torch "LD_LIBRARY_PATH=$debian" "$(cat "$here/convolves.py")"
fi
if has_module jax; then
    # The wheel's shim works over the whole cuDNN of the packages, which is new enough for JAX.
    at_once told jax "LD_LIBRARY_PATH=$debian" ""
fi
at_once examined "" 0 .
at_once examined "LD_LIBRARY_PATH=$toolkit/compat" 1 "$toolkit/compat"
rows

part() { "$here/$1.sh" "$cudarun" || failed=1; }
at_once part children
at_once part follow
at_once part shims
at_once part diagnose
at_once part fetch
rows
# This one hides files that the others need.
part compilers
part extensions
part unopened

echo
"$here/proof.sh" "$cudarun" || failed=1

echo
echo "all that the libraries of torch's set are used for:"
python3 -c 'import torch' 2>/dev/null && { "$cudarun" verify --level deep python3 "$here/torch_conv.py" || failed=1; }
[ $failed -eq 0 ] && echo "all rows hold" || echo "SOME ROWS FAILED"
exit $failed
