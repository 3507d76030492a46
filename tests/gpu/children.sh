#!/usr/bin/env bash
# shellcheck disable=SC2086,SC2317  # `at_once` calls the functions
# Parents and children of two environments, and each mode that sets less than a view: tests/gpu/children.sh PATH-TO-cudarun
#
# The second environment has the packages of the first, and Debian's cuDNN in the place of the wheel's. In each of the two
# a program convolves and starts one of the other, where nothing else can be reached and where something can. Without cudarun
# each maps one whole cuDNN, and so it must be with cudarun. The control is a view that is not followed, which must mix the
# child. Where LD_LIBRARY_PATH breaks one of them, each must get its own. Prints rows for the table of tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

python=$(command -v python3)
site=$(python3 -c 'import nvidia, os; print(os.path.dirname(list(nvidia.__path__)[0]))')
version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
# Hard links, as package managers make them, so it is on the same disk.
environment=$(mktemp -d "$(dirname "$site")/other.XXXXXX")
trap 'rm -rf "$work" "$environment"' EXIT
other=$environment/lib/$version/site-packages
mkdir -p "$environment/bin" "$environment/lib/$version"
ln -s "$(readlink -f "$python")" "$environment/bin/python3"
echo "home = $(dirname "$(readlink -f "$python")")" >"$environment/pyvenv.cfg"
cp -al "$site" "$other"
rm -rf "$other/nvidia/cudnn/lib"
mkdir "$other/nvidia/cudnn/lib"
for entry in "$debian"/libcudnn*.so.9; do
    cp "$(readlink -f "$entry")" "$other/nvidia/cudnn/lib/$(basename "$entry")"
done
# A name that no program here asks for: something else is within reach, and causes no mix by itself.
mkdir "$work/reachable"
cp "$(readlink -f "$debian/libcudnn.so.9")" "$work/reachable/libcudnn.so"

# Runs a command where the system's directories have none of the libraries that the packages bring.
# shellcheck disable=SC2016  # the code is for the shell inside
apart=(unshare -m bash -c '
for place in /usr/local/cuda/compat /usr/local/cuda/targets/x86_64-linux/lib; do
    mount -t tmpfs none "$(readlink -f "$place")"
done
for file in "$0"/libcudnn* "$0"/libnccl*; do
    mount --bind /dev/null "$file"
done
exec "$@"' "$debian")

# mapped OUTPUT: the directories of cuDNN's files in it, and how many files
mapped() {
    grep -h '^/.*libcudnn' "$1" | sed "s,^$other,OTHER,; s,^$site,FIRST," | xargs -r -n1 dirname | sort | uniq -c |
        awk '{ printf "%s%s files of cuDNN from %s", (NR > 1 ? " and " : ""), $1, $2 }'
}

# family CONTROL LABEL LIBRARY-PATH PARENT-PYTHON PARENT-SCRIPT CHILD-PYTHON CHILD-SCRIPT: CONTROL is `mixes` where a view is
# known to mix the child, or `-`.
family() {
    local control=$1 label=$2 result=ok without with mixed planned
    local command=("$4" "$here/children.py" "$here/$5" "$6" "$here/$7" "$work/child")
    export LD_LIBRARY_PATH=$3
    "${apart[@]}" "${command[@]}" >"$work/out" 2>"$work/err" || result=FAIL
    without="$(mapped "$work/out"); child: $(mapped "$work/child")"
    [[ $without != *' and '* ]] || result=FAIL
    planned=$("${apart[@]}" "$cudarun" explain --json "${command[@]}" | mode_of)
    [ "$planned" = audit ] || { [ -z "$3" ] && [ "$planned" = none ]; } || result=FAIL
    "${apart[@]}" "$cudarun" "${command[@]}" >"$work/out" 2>"$work/err2" || result=FAIL
    with="$(mapped "$work/out"); child: $(mapped "$work/child")"
    [ "$with" = "$without" ] || result=FAIL
    "${apart[@]}" "$cudarun" --pin-mode view "${command[@]}" >"$work/out" 2>>"$work/err2" || result=FAIL
    [ "$(mapped "$work/out"); child: $(mapped "$work/child")" = "$without" ] || result=FAIL
    # The control.
    "${apart[@]}" "$cudarun" --pin-mode view --no-follow "${command[@]}" >"$work/out" 2>>"$work/err2"
    mixed="parent: $(mapped "$work/out"); child: $(mapped "$work/child")"
    [ "$control" = - ] || [[ ${mixed#*child} == *' and '* ]] || result=FAIL
    [ $result = ok ] || "${apart[@]}" "$cudarun" explain -vv "${command[@]}" | grep -A3 '^  mode' >>"$work/err2"
    unset LD_LIBRARY_PATH
    row $result "$label" "${3:+something else within reach, }mode $planned" "$without" "$with; with a view, not followed: $mixed"
    [ $result = ok ] || tail -n 12 "$work/err" "$work/err2" | sed 's/^/      /'
}

# foreign WHOSE LABEL PARENT-PYTHON PARENT-SCRIPT CHILD-PYTHON CHILD-SCRIPT: a path that mixes the `parent` or the `child`, and
# must not.
foreign() {
    local whose=$1 label=$2 result=ok without with
    local command=("$3" "$here/children.py" "$here/$4" "$5" "$here/$6" "$work/child")
    LD_LIBRARY_PATH=$debian "${command[@]}" >"$work/out" 2>"$work/err"
    without="$(mapped "$work/out"); child: $(mapped "$work/child")"
    is_mixed "$without" || result=FAIL
    LD_LIBRARY_PATH=$debian "$cudarun" "${command[@]}" >"$work/out" 2>"$work/err2" || result=FAIL
    with="$(mapped "$work/out"); child: $(mapped "$work/child")"
    ! is_mixed "$with" || result=FAIL
    row $result "$label" "LD_LIBRARY_PATH=$debian" "$without" "$with"
    [ $result = ok ] || tail -n 12 "$work/err" "$work/err2" | sed 's/^/      /'
}

is_mixed() { if [ "$whose" = parent ]; then [[ ${1%; child*} == *' and '* ]]; else [[ ${1#*; child} == *' and '* ]]; fi; }

mode_of() { python3 -c 'import json, sys; print(json.load(sys.stdin)["mode"])'; }

# mode MODE LABEL ENVIRONMENT COMMAND…: the program works in this mode, with one set of each family.
mode() {
    local mode=$1 label=$2 setting=$3 result=ok planned with
    shift 3
    env ${setting:+"$setting"} "$cudarun" explain --json "$@" >"$work/plan" 2>"$work/err"
    planned=$(mode_of <"$work/plan")
    [ "$planned" = "$mode" ] || result=FAIL
    env ${setting:+"$setting"} "$cudarun" "$@" >"$work/out" 2>"$work/err" || result=FAIL
    with=$(python3 "$here/check.py" "$work/out" "$work/plan") || result=FAIL
    row $result "$label" "${setting:-as it is}" "" "mode $planned; $with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 20
}

has_module() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null; }

if ! unshare -m true 2>/dev/null; then
    row FAIL "parents and children" "" "" "no mount namespace can be made here"
elif has_module torch && has_module jax; then
    second=$environment/bin/python3
    for reach in "" "$work/reachable"; do
        at_once family mixes "torch, its child jax of another environment" "$reach" "$python" torch_conv.py "$second" jax_conv.py
        # This torch opens the parts of its cuDNN by their paths.
        at_once family - "jax of another environment, its child torch" "$reach" "$second" jax_conv.py "$python" torch_conv.py
    done
fi
if has_module torch && has_module jax; then
    second=$environment/bin/python3
    at_once foreign parent "torch, its child jax of another environment" "$python" torch_conv.py "$second" jax_conv.py
    # jax has a shim of Debian's version, which may use Debian's parts.
    at_once foreign child "jax of another environment, its child torch" "$second" jax_conv.py "$python" torch_conv.py
fi
if command -v cc >/dev/null && [ -e $debian/libcudnn.so.9 ]; then
    cc -O1 -o "$work/linked" "$here/convcheck.c" -ldl -lm -Wl,--no-as-needed "$debian/libcudnn.so.9"
    at_once mode none "C, linked" "" "$work/linked"
    at_once mode none "C, linked" "LD_LIBRARY_PATH=$toolkit/compat" "$work/linked"
fi
if has_module torch; then
    at_once mode audit torch "LD_LIBRARY_PATH=$debian" python3 "$here/torch_conv.py"
fi
if has_module jax; then
    at_once mode audit jax "LD_LIBRARY_PATH=$debian" python3 "$here/jax_conv.py"
fi
rows
exit $failed
