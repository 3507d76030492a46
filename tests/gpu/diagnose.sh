#!/usr/bin/env bash
# shellcheck disable=SC2086,SC2317  # settings and commands are lists of words; `at_once` calls the functions
# Failures of a real GPU, explained and cured: tests/gpu/diagnose.sh PATH-TO-cudarun [DIR]
#
# Each program fails without cudarun, or goes on without the GPU and prints `cpu`. `cudarun diagnose --as-is` starts it again,
# must end with the same status, and must name the cause first. The cure that it prints first is then executed, where it is
# one for this shell, and the program must work. The cases run at the same time. DIR (target/wheels) contains the wheel
# nvidia-cuda-nvrtc-cu11 11.7.99; without it, its row is skipped. Prints rows for the table of tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"
wheels=$(realpath "${2:-$here/../../target/wheels}" 2>/dev/null)
top=$work
mkdir "$work/bin" "$work/stub"
ln -s "$cudarun" "$work/bin/cudarun"
export PATH=$work/bin:$PATH
ln -s "$toolkit/lib64/stubs/libcuda.so" "$work/stub/libcuda.so.1"

# explained CAUSE CERTAINTY LABEL ENVIRONMENT COMMAND…: CERTAINTY is `is`, or `may-be` where the driver alone knows.
explained() {
    local cause=$1 certainty=$2 label=$3 setting=$4 result=ok without with status alone cure
    shift 4
    cd "$work" || exit 1
    env $setting "$@" >out 2>err
    alone=$?
    without="status $alone; $(tail -n 1 err | cut -c1-90)"
    [ $alone -ne 0 ] || grep -qx cpu out || result=FAIL
    env $setting cudarun diagnose --as-is --json "$@" >out 2>err
    status=$?
    with=$(python3 "$here/first_cause.py" err) || result=FAIL
    cure=$(sed -n 2p <<<"$with")
    with=$(sed -n 1p <<<"$with")
    [ "$with" = "$certainty $cause" ] && [ $status -eq $alone ] || result=FAIL
    case $cure in
    "cudarun "*) env $setting sh -c "$cure" >cured 2>&1 && ! grep -qx cpu cured && with="$with; cudarun PROGRAM works" || result=FAIL ;;
    "unset "*) env $setting sh -c "$cure; exec \"\$@\"" sh "$@" >cured 2>&1 && with="$with; $cure works" || result=FAIL ;;
    *) with="$with; $cure" ;;
    esac
    row $result "$label" "${setting//$top\//}" "$without" "$with"
    [ $result = ok ] || tail -n 60 err cured 2>&1 | sed 's/^/      /'
}

torch=(python3 -c 'import torch; torch.zeros(1, device="cuda")')
version=(python3 -c 'import torch; torch.backends.cudnn.version()')
if python3 -c 'import torch' 2>/dev/null; then
    at_once explained compat-refused is "torch, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" "${torch[@]}"
    at_once explained stub is "torch, diagnosed" "LD_LIBRARY_PATH=$work/stub" "${torch[@]}"
    at_once explained gpus-hidden is "torch, diagnosed" "CUDA_VISIBLE_DEVICES=7" "${torch[@]}"
    at_once explained older-first is "torch, diagnosed" "LD_LIBRARY_PATH=$debian" "${version[@]}"
    at_once explained out-of-memory may-be "torch, diagnosed" "" python3 -c 'import torch; torch.empty(1 << 42, device="cuda")'
    at_once explained program-fault is "torch, diagnosed" "" \
        python3 -c 'import torch; print(torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")].cpu())'
fi
if python3 -c 'import cupy' 2>/dev/null; then
    at_once explained compat-refused is "cupy, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" \
        python3 -c 'import cupy; cupy.zeros(3).sum()'
fi
if python3 -c 'import jax' 2>/dev/null; then
    at_once explained compat-refused is "jax, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" \
        python3 -c 'import jax; jax.config.update("jax_platforms", "cuda"); print(jax.numpy.ones(3).sum())'
    at_once explained compat-refused is "jax on the CPU, diagnosed" "LD_LIBRARY_PATH=$toolkit/compat" \
        python3 -c 'import jax; print(jax.devices()[0].platform)'
fi
if [ -x $toolkit/bin/nvcc ]; then
    cat >"$work/own.cu" <<'END'
#include <cstdio>
__global__ void kernel() {}
int main() {
    kernel<<<1, 1>>>();
    cudaError_t error = cudaGetLastError();
    if (error) fprintf(stderr, "CUDA error: %s\n", cudaGetErrorString(error));
    return error != 0;
}
END
    # No GPU that this runs on has code of this architecture.
    $toolkit/bin/nvcc -gencode arch=compute_75,code=sm_75 -o "$work/own" "$work/own.cu"
    at_once explained no-kernel is "C, code for sm_75, diagnosed" "" "$work/own"
fi
if ls "$wheels"/nvidia_cuda_nvrtc_cu11-11.7.99-*.whl >/dev/null 2>&1; then
    python3 -m zipfile -e "$wheels"/nvidia_cuda_nvrtc_cu11-11.7.99-*.whl "$work/nvrtc"
    cat >"$work/compiles.py" <<'END'
import ctypes, sys
nvrtc = ctypes.CDLL("libnvrtc.so.11.2")
program, log = ctypes.c_void_p(), ctypes.create_string_buffer(4096)
nvrtc.nvrtcCreateProgram(ctypes.byref(program), b"__global__ void kernel() {}", b"kernel.cu", 0, None, None)
status = nvrtc.nvrtcCompileProgram(program, 1, (ctypes.c_char_p * 1)(b"--gpu-architecture=sm_90"))
nvrtc.nvrtcGetProgramLog(program, log)
sys.exit(log.value.decode() if status else 0)
END
    at_once explained nvrtc-older-than-gpu is "NVRTC 11.7, diagnosed" "LD_LIBRARY_PATH=$work/nvrtc/nvidia/cuda_nvrtc/lib" \
        python3 "$work/compiles.py"
else
    row skipped "NVRTC 11.7, diagnosed" "no wheel in DIR" "" ""
fi
rows
exit $failed
