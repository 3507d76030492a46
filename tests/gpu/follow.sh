#!/usr/bin/env bash
# shellcheck disable=SC2016,SC2086,SC2317  # the code is for the shells inside; `at_once` calls the functions
# Programs that something else starts: tests/gpu/follow.sh PATH-TO-cudarun
#
# Each launcher starts torch in an environment that gives it half of another cuDNN: without cudarun it breaks or mixes, and
# with cudarun before the launcher it must work with one copy of each family. Prints rows for the table of tests/gpu/run.sh.
# pytest and accelerate come from wheels in target/wheels, where the environment lacks them.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

# As it is installed: another user must be able to read the module.
mkdir -p "$work/inst/bin" "$work/inst/lib/cudarun"
cp "${1:?usage: tests/gpu/follow.sh PATH-TO-cudarun}" "$work/inst/bin/cudarun"
cudarun=$work/inst/bin/cudarun
"$cudarun" --module-for "$cudarun" >"$work/inst/lib/cudarun/follow.so"
chmod -R go+rX "$work"
export HOME=$work/home
mkdir "$HOME"

# below LABEL COMMAND…: `$S` is the script in the command.
below() {
    local label=$1 result=ok without with status
    shift
    "$@" >"$work/out" 2>"$work/err"
    status=$?
    if without=$(python3 "$here/check.py" "$work/out") && [ "$status" -eq 0 ]; then
        result=FAIL
        without="the control does not break: this row shows nothing; $without"
    else
        without="status $status; $without"
    fi
    "$cudarun" "$@" >"$work/out" 2>"$work/err"
    status=$?
    with=$(python3 "$here/check.py" "$work/out") || result=FAIL
    [ "$status" -eq 0 ] && ! grep -q '^cudarun: \|ld\.so' "$work/err" || result=FAIL with="status $status; $with"
    row "$result" "$label" "LD_LIBRARY_PATH=$debian" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 20
}

# watched LABEL COMMAND…: a tool that watches processes ends as it does without cudarun, and torch works there. The driver maps
# its compiler only where nothing has kept what it compiles.
watched() {
    local label=$1 result=ok without with
    shift
    env -u LD_LIBRARY_PATH "$@" >"$work/out" 2>"$work/err"
    without="status $?; $(python3 "$here/check.py" "$work/out")" || result=FAIL
    env -u LD_LIBRARY_PATH "$cudarun" "$@" >"$work/out" 2>"$work/err"
    with="status $?; $(python3 "$here/check.py" "$work/out")" || result=FAIL
    [ "${with%%;*}" = "${without%%;*}" ] && ! grep -q '^cudarun: \|ld\.so' "$work/err" || result=FAIL
    row $result "$label" "as it is" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 20
}

# has MODULE…: they can be imported, if need be from the wheels.
has() {
    python3 -c "import $1" 2>/dev/null && return
    python3 -m pip install --quiet --no-index --no-deps --target "$work/site" "$here"/../../target/wheels/{pytest,pytest_xdist,execnet,iniconfig,pluggy,packaging,pygments,accelerate,psutil,pyyaml,huggingface_hub,safetensors,tqdm,requests,filelock,fsspec,numpy,httpx,hf_xet,typing_extensions,certifi,httpcore,anyio,idna,sniffio,h11,shellingham,click,typer}-*.whl >/dev/null 2>&1
    PYTHONPATH=$work/site python3 -c "import $1" 2>/dev/null && export PYTHONPATH=$work/site
}

python3 -c 'import torch' 2>/dev/null || exit 0
chmod 755 "$work"
export S=$here/torch_conv.py
printf 'all:\n\t@python3 "$$S"\n' >"$work/makefile"
printf 'import os, runpy, sys\ndef test_it():\n    sys.path.insert(0, os.path.dirname(os.environ["S"]))\n    with open(os.environ["O"], "w") as sys.stdout:\n        try: runpy.run_path(os.environ["S"], run_name="__main__")\n        except SystemExit as end: assert not end.code\n        finally: sys.stdout.flush()\n' >"$work/test_torch.py"
export LD_LIBRARY_PATH=$debian
at_once below "bash -lc, torch" bash -lc 'exec python3 "$S"; :'
at_once below "a script, torch" bash -c 'cd / && python3 "$S"; exit $?'
at_once below "make, torch" make -s -f "$work/makefile"
at_once below "xargs, torch" sh -c 'echo "$S" | xargs python3'
at_once below "standard input, torch" sh -c 'cd "$(dirname "$S")" && python3 - <"$S"'
at_once below "setpriv to another user, torch" setpriv --reuid 65534 --regid 65534 --clear-groups env HOME=/tmp XDG_CACHE_HOME= python3 "$S"
at_once below "a spawn pool, torch" sh -c 'python3 "$(dirname "$S")/pool.py" "$S"; exit $?'
at_once below "torchrun, torch" python3 -m torch.distributed.run --nproc-per-node 1 "$S"
rows
for tool in "compute-sanitizer --tool memcheck" "ncu --target-processes all --launch-count 1"; do
    place=$(command -v "${tool%% *}" || ls "/usr/local/cuda/bin/${tool%% *}" 2>/dev/null) || continue
    at_once watched "${tool%% *}, torch" sh -c "$place ${tool#* } python3 \"\$S\"; exit \$?"
done
rows
if has pytest && has xdist; then
    export O=$work/of-pytest
    at_once below "pytest -n 2, torch" sh -c 'python3 -m pytest -q -n 2 -p no:cacheprovider "$0" >&2; status=$?; cat "$O"; exit $status' "$work/test_torch.py"
    rows
fi
if has accelerate; then
    at_once below "accelerate launch, torch" python3 -m accelerate.commands.launch --num_processes 1 --num_machines 1 --mixed_precision no --dynamo_backend no "$S"
    rows
fi
exit $failed
