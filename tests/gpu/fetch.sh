#!/usr/bin/env bash
# Libraries that are missing on a machine with a GPU, fetched and used: tests/gpu/fetch.sh PATH-TO-cudarun [DIR]
#
# A program that is linked against the CUDA runtime and nvJitLink of CUDA 12 is started where only CUDA 13 is installed: as it is
# it cannot start. `cudarun --fetch` takes both from the wheels in DIR, without network; then they are proved, and the program
# computes on the GPU. DIR contains the wheels nvidia-cuda-runtime-cu12 and nvidia-nvjitlink-cu12 (40 MB); without them the row
# is skipped. Prints rows for the table of tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"
wheels=$(realpath "${2:-$here/../../target/wheels}" 2>/dev/null)
trap 'chmod -R u+w "$work"; rm -rf "$work"' EXIT
export XDG_DATA_HOME=$work/data XDG_CONFIG_HOME=$work/config
mkdir -p "$XDG_DATA_HOME" "$XDG_CONFIG_HOME/cudarun"

if ! ls "$wheels"/nvidia_cuda_runtime_cu12-*.whl "$wheels"/nvidia_nvjitlink_cu12-*.whl >/dev/null 2>&1; then
    row skipped "C, fetched" "no wheels in DIR" "" ""
    exit 0
fi
printf '[fetch]\nfrom = ["%s"]\n' "$wheels" >"$XDG_CONFIG_HOME/cudarun/config.toml"

mkdir "$work/stub"
stub() { # stub NAME FUNCTION…: an empty library, for the linker only
    local name=$1
    shift
    printf 'int %s(void) { return 1; }\n' "$@" | cc -shared -fPIC -Wl,-soname,"$name" -o "$work/stub/$name" -x c -
}
stub libcudart.so.12 cudaMalloc cudaMemcpy cudaRuntimeGetVersion
stub libnvJitLink.so.12 nvJitLinkVersion
cc -o "$work/program" "$here/fetched.c" "$work/stub/libcudart.so.12" "$work/stub/libnvJitLink.so.12"

cd "$work" || exit 1
result=ok
./program >out 2>err
status=$?
[ $status -ne 0 ] || result=FAIL
without="status $status; $(grep -oE "libcudart[^ ]* cannot open" err)"

"$cudarun" ./program >refused 2>&1
[ $? -eq 125 ] || result=FAIL
"$cudarun" --fetch --yes ./program >out 2>err
status=$?
[ $status -eq 0 ] || result=FAIL
with="--fetch: $(tail -n 1 out)"
"$cudarun" verify ./program >proof 2>&1
status=$?
[ $status -eq 0 ] && grep -q '^proved' proof || result=FAIL
with="$with; $(grep -m1 -oE "^[a-z]+( proved)?" proof)"
"$cudarun" ./program >again 2>>err || result=FAIL
cmp -s out again || result=FAIL
row $result "C, fetched" "no CUDA 12 here" "$without" "$with"
[ $result = ok ] || { cat refused err proof again; } 2>&1 | sed 's/^/      /'
exit $failed
