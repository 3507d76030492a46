#!/usr/bin/env bash
# Extension modules on a real GPU: tests/gpu/extensions.sh PATH-TO-cudarun
#
# A package with a kernel for another GPU alone ends without a result; cudarun says so before the start, and says nothing where the
# kernel is for this GPU. Torch's own packages are imported beside it as they are installed. Prints rows for the table of
# tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"
mkdir -p "$work/site/own" "$work/site/own-1.0.dist-info"
printf 'Name: own\nVersion: 1.0\n' >"$work/site/own-1.0.dist-info/METADATA"
printf 'own/_C.so,,\nown/__init__.py,,\n' >"$work/site/own-1.0.dist-info/RECORD"
cat >"$work/site/own/__init__.py" <<'PY'
import ctypes, os
call = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_C.so")).call
PY
cat >"$work/kernel.cu" <<'CU'
__global__ void kernel(int *place) { *place = 7; }
extern "C" int call() {
    int *place, value = 0;
    cudaMalloc(&place, sizeof value);
    kernel<<<1, 1>>>(place);
    cudaMemcpy(&value, place, sizeof value, cudaMemcpyDeviceToHost);
    return value;
}
CU
export PYTHONPATH=$work/site LD_LIBRARY_PATH=$toolkit/lib64

# one ARCHITECTURE EXPECTED: the result of the kernel, and what cudarun says before it.
one() {
    local without with said result=ok
    "$toolkit/bin/nvcc" -shared -Xcompiler -fPIC -cudart shared -gencode "arch=compute_$1,code=sm_$1" -o "$work/site/own/_C.so" \
        "$work/kernel.cu"
    without=$(python3 -c 'import own; print(own.call())')
    with=$("$cudarun" python3 -c 'import own; print(own.call())' 2>"$work/said")
    said=$(grep -o 'has no code for the GPU' "$work/said")
    [ "$without, $with, $said" = "$2" ] || result=FAIL
    row $result "a package for sm_$1" "" "$without" "$with${said:+; $said}"
    [ $result = ok ] || sed 's/^/      /' "$work/said"
}

here_is=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader | head -n 1 | tr -d .)
one "$here_is" "7, 7, "
one 80 "0, 0, has no code for the GPU"

unset PYTHONPATH LD_LIBRARY_PATH
if python3 -c 'import torchvision' 2>/dev/null; then
    code='import torchvision; print(torchvision.ops.nms.__name__)'
    said=$("$cudarun" python3 -c "$code" 2>&1)
    result=ok
    [ "$said" = nms ] || result=FAIL
    row $result "torch with torchvision" "as it is" nms "$said"
fi
exit $failed
