#!/usr/bin/env bash
# Compilers that frameworks need while they run, and a build, on a real GPU: tests/gpu/compilers.sh PATH-TO-cudarun
#
# Each row hides a file where a framework looks for it: as it is, the program fails. With cudarun it gets the file of another
# toolkit, by the variable that the framework reads, and `diagnose` names the cause. Then an extension of torch is built and runs, where CUDA_HOME leads
# nowhere. The files are back in their places afterwards. Prints rows for the table of tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"
toolkit=$(realpath /usr/local/cuda)
hidden=()
restore() {
    for file in "${hidden[@]}"; do mv "$file.hidden" "$file"; done
    hidden=()
}
trap 'restore; rm -rf "$work"' EXIT
export TRITON_CACHE_DIR=$work/triton
unset CUDA_HOME CUDA_PATH CUDA_ROOT XLA_FLAGS TRITON_PTXAS_PATH TRITON_PTXAS_BLACKWELL_PATH

hide() { mv "$1" "$1.hidden" && hidden+=("$1"); }

# one LABEL HIDDEN MESSAGE CAUSE COMMAND…: CAUSE is empty where `diagnose` is not asked.
one() {
    local label=$1 what=$2 message=$3 expected=$4 cause="" result=ok status without with
    shift 4
    rm -rf "$TRITON_CACHE_DIR"
    "$@" >"$work/out" 2>&1
    status=$?
    without="status $status; $(grep -oE "$message" "$work/out" | head -n 1)"
    { [ $status -ne 0 ] && grep -qE "$message" "$work/out"; } || result=FAIL
    rm -rf "$TRITON_CACHE_DIR"
    if [ -n "$expected" ]; then
        "$cudarun" diagnose --as-is --json "$@" >/dev/null 2>"$work/diagnosed"
        cause=$(python3 "$here/first_cause.py" "$work/diagnosed" | head -n 1)
        [ "$cause" = "is $expected" ] || result=FAIL
    fi
    "$cudarun" explain "$@" >"$work/explain" 2>&1
    "$cudarun" "$@" >"$work/with" 2>&1
    status=$?
    [ $status -eq 0 ] || result=FAIL
    with="${cause:+$cause; }$(tail -n 1 "$work/with")"
    row $result "$label" "$what" "$without" "$with"
    [ $result = ok ] || tail -n 25 "$work/out" "$work/diagnosed" "$work/explain" "$work/with" 2>/dev/null | sed 's/^/      /'
    restore
}

site=$(python3 -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
mkdir -p "$work/cuda/nvvm/libdevice" "$work/cuda/bin" "$work/config/cudarun"
cp "$toolkit/bin/ptxas" "$toolkit/bin/nvlink" "$work/cuda/bin"
cp "$toolkit/nvvm/libdevice/libdevice.10.bc" "$work/cuda/nvvm/libdevice"
export XDG_CONFIG_HOME=$work/config
printf '[search]\nalso = ["%s/cuda"]\n' "$work" >"$XDG_CONFIG_HOME/cudarun/config.toml"

if [ -e "$site/triton/backends/nvidia/bin/ptxas" ]; then
    cat >"$work/uses_triton.py" <<'PY'
import torch, triton, triton.language as tl
@triton.jit
def add(x, z, n, B: tl.constexpr):
    o = tl.arange(0, B)
    tl.store(z + o, tl.load(x + o, o < n) + 1, o < n)
x = torch.ones(100, device="cuda")
z = torch.empty_like(x)
add[(1,)](x, z, 100, B=128)
assert z.sum().item() == 200
print("triton compiles and computes")
PY
    # Newer releases have another one for newer GPUs.
    for ptxas in "$site"/triton/backends/nvidia/bin/ptxas*; do
        hide "$ptxas"
    done
    one "triton" "ptxas hidden" "Cannot find ptxas" not-on-path python3 "$work/uses_triton.py"
fi
if python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("jax"))'; then
    cat >"$work/uses_jax.py" <<'PY'
import jax, jax.numpy as jnp
assert jax.devices()[0].platform == "gpu"
x = jax.jit(lambda x: jnp.tan(x).sum())(jnp.ones(64))
assert abs(float(x) - 99.674) < 0.01
print("jax compiles and computes")
PY
    hide "$toolkit/nvvm/libdevice/libdevice.10.bc"
    one "jax" "libdevice hidden" "No candidates could be compiled|libdevice not found" not-on-path python3 "$work/uses_jax.py"
fi
if python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("cupy"))'; then
    cat >"$work/uses_cupy.py" <<'PY'
import cupy
assert float((cupy.ones(64, "float16") * 3).sum()) == 192
print("CuPy compiles and computes")
PY
    cp -rL "$toolkit/include" "$work/cuda"
    for place in "$toolkit/include" "$site"/nvidia/cu*/include "$site/nvidia/cuda_runtime/include"; do
        [ ! -e "$place" ] || hide "$place"
    done
    CUPY_CACHE_DIR=$work/cupy one "cupy" "headers hidden" "cannot open source file|could not open source file|Failed to find" "" \
        python3 "$work/uses_cupy.py"
    rm -r "$work/cuda/include"
fi
if python3 -c 'import importlib.util as u, sys; sys.exit(not u.find_spec("torch"))'; then
    cat >"$work/extension.py" <<'PY'
import torch
from torch.utils.cpp_extension import load_inline
source = """
#include <torch/extension.h>
__global__ void plus(float *x) { x[threadIdx.x] += 1; }
torch::Tensor add(torch::Tensor x) { plus<<<1, 32>>>(x.data_ptr<float>()); return x; }
"""
module = load_inline("example", cpp_sources="torch::Tensor add(torch::Tensor x);", cuda_sources=source, functions=["add"])
assert module.add(torch.zeros(32, device="cuda")).sum().item() == 32
print("an extension of torch is built and computes")
PY
    export CUDA_HOME=/nonexistent TORCH_EXTENSIONS_DIR=$work/extensions
    export PATH=${PATH//\/usr\/local\/cuda\/bin/\/nonexistent}
    plain=$cudarun
    # shellcheck disable=SC2016  # the script expands them
    printf '#!/bin/sh\n[ "$1" = explain ] && shift && exec "%s" explain --build "$@"\nexec "%s" --build "$@"\n' "$plain" "$plain" >"$work/build"
    chmod +x "$work/build"
    cudarun=$work/build
    one "torch, --build" "CUDA_HOME=/nonexistent" "/nonexistent/bin/nvcc" "" python3 "$work/extension.py"
fi
exit $failed
