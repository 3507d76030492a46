#!/usr/bin/env bash
# Parents and children of two environments, and each mode that sets less than a view: tests/gpu/children.sh PATH-TO-cudarun
#
# The second environment has the packages of the first, and Debian's cuDNN in the place of the wheel's. In each of the two
# a program convolves and starts one of the other. Without cudarun each maps one whole cuDNN, and so it must be with
# cudarun. The control is a view, which must mix the child. Prints rows for the table of tests/gpu/run.sh.
set -u
cudarun=$(realpath "${1:?usage: tests/gpu/children.sh PATH-TO-cudarun}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
export XDG_CACHE_HOME=$work/cache XLA_PYTHON_CLIENT_PREALLOCATE=false
failed=0
debian=/usr/lib/x86_64-linux-gnu
toolkit=/usr/local/cuda

row() { # row RESULT PROGRAM ENVIRONMENT WITHOUT WITH
    printf '| %s | %s | %s | %s | %s |\n' "$@"
    [ "$1" != FAIL ] || failed=1
}

python=$(command -v python3)
site=$(python3 -c 'import nvidia, os; print(os.path.dirname(list(nvidia.__path__)[0]))')
version=$(python3 -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
# Hard links, as package managers make them, so it stands on the same disk.
environment=$(mktemp -d "$(dirname "$site")/other.XXXXXX")
trap 'rm -rf "$work" "$environment"' EXIT
other=$environment/lib/$version/site-packages
mkdir -p "$environment/bin" "$environment/lib/$version"
ln -s "$(readlink -f "$python")" "$environment/bin/python3"
echo "home = $(dirname "$(readlink -f "$python")")" >"$environment/pyvenv.cfg"
cp -al "$site" "$other"
rm -rf "$other/nvidia/cudnn/lib"
mkdir "$other/nvidia/cudnn/lib"
# Under its longest name too: the packages in the system's directory have that, and a shim asks for it first.
for entry in "$debian"/libcudnn*.so.9; do
    file=$(readlink -f "$entry")
    cp "$file" "$other/nvidia/cudnn/lib/"
    ln -s "$(basename "$file")" "$other/nvidia/cudnn/lib/$(basename "$entry")"
done

# mapped OUTPUT: the directories of cuDNN's files in it, and how many files
mapped() {
    grep -h '^/.*libcudnn' "$1" | sed "s,^$other,OTHER,; s,^$site,FIRST," | xargs -r -n1 dirname | sort | uniq -c |
        awk '{ printf "%s%s files of cuDNN from %s", (NR > 1 ? " and " : ""), $1, $2 }'
}

# family MODE LABEL PARENT-PYTHON PARENT-SCRIPT CHILD-PYTHON CHILD-SCRIPT
family() {
    local mode=$1 label=$2 result=ok without with mixed planned
    local command=("$3" "$here/children.py" "$here/$4" "$5" "$here/$6" "$work/child")
    "${command[@]}" >"$work/out" 2>"$work/err" || result=FAIL
    without="$(mapped "$work/out"); child: $(mapped "$work/child")"
    [[ $without != *' and '* ]] || result=FAIL
    planned=$("$cudarun" explain --json "${command[@]}" | python3 -c 'import json, sys; print(json.load(sys.stdin)["mode"])')
    [ "$planned" = "$mode" ] || result=FAIL
    "$cudarun" "${command[@]}" >"$work/out" 2>"$work/err2" || result=FAIL
    with="$(mapped "$work/out"); child: $(mapped "$work/child")"
    [ "$with" = "$without" ] || result=FAIL
    "$cudarun" --pin-mode view "${command[@]}" >"$work/out" 2>>"$work/err2"
    mixed="parent: $(mapped "$work/out"); child: $(mapped "$work/child")"
    [[ ${mixed#*child} == *' and '* ]] || result=FAIL
    row $result "$label" "mode $planned" "$without" "$with; with a view: $mixed"
    [ $result = ok ] || sed 's/^/      /' "$work/err" "$work/err2" | tail -n 20
}

# mode MODE LABEL ENVIRONMENT COMMAND…: the program works in this mode, with one set of each family.
mode() {
    local mode=$1 label=$2 setting=$3 result=ok planned with
    shift 3
    env ${setting:+"$setting"} "$cudarun" explain --json "$@" >"$work/plan" 2>"$work/err"
    planned=$(python3 -c 'import json, sys; print(json.load(open(sys.argv[1]))["mode"])' "$work/plan")
    [ "$planned" = "$mode" ] || result=FAIL
    env ${setting:+"$setting"} "$cudarun" "$@" >"$work/out" 2>"$work/err" || result=FAIL
    with=$(python3 "$here/check.py" "$work/out" "$work/plan") || result=FAIL
    row $result "$label" "${setting:-as it is}" "" "mode $planned; $with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 20
}

has_module() { python3 -c "import importlib.util, sys; sys.exit(importlib.util.find_spec('$1') is None)" 2>/dev/null; }

if has_module torch && has_module jax; then
    family audit "torch, its child jax of another environment" "$python" torch_conv.py "$environment/bin/python3" jax_conv.py
    family audit "jax of another environment, its child torch" "$environment/bin/python3" jax_conv.py "$python" torch_conv.py
fi
if command -v cc >/dev/null && [ -e $debian/libcudnn.so.9 ]; then
    cc -O1 -o "$work/linked" "$here/convcheck.c" -ldl -lm -Wl,--no-as-needed "$debian/libcudnn.so.9"
    mode none "C, linked" "" "$work/linked"
    mode clean "C, linked" "LD_LIBRARY_PATH=$toolkit/compat" "$work/linked"
fi
if has_module torch; then
    mode audit torch "LD_LIBRARY_PATH=$debian" python3 "$here/torch_conv.py"
fi
if has_module jax; then
    mode audit jax "LD_LIBRARY_PATH=$debian" python3 "$here/jax_conv.py"
    # Nothing else within reach: the packages of this environment alone.
    # shellcheck disable=SC2016  # the code is for the shell inside
    hidden='for place in /usr/local/cuda/compat/lib* /usr/local/cuda/targets/x86_64-linux/lib; do [ -d "$place" ] || place=$(dirname "$place"); mount -t tmpfs none "$(readlink -f "$place")"; done; for file in '$debian'/libcudnn*; do mount --bind /dev/null "$file"; done; exec "$@"'
    if unshare -m true 2>/dev/null; then
        for script in torch_conv.py jax_conv.py; do
            result=ok
            planned=$(unshare -m bash -c "$hidden" - "$cudarun" explain --json python3 "$here/$script" |
                python3 -c 'import json, sys; print(json.load(sys.stdin)["mode"])')
            unshare -m bash -c "$hidden" - "$cudarun" python3 "$here/$script" >"$work/out" 2>"$work/err" || result=FAIL
            with=$(python3 "$here/check.py" "$work/out") || result=FAIL
            [ "$planned" = none ] || result=FAIL
            [ $result = ok ] || unshare -m bash -c "$hidden" - "$cudarun" explain -vv python3 "$here/$script" | grep -A4 "^  mode" >>"$work/err"
            row $result "$script" "no other installation within reach" "" "mode $planned; $with"
            [ $result = ok ] || tail -n 20 "$work/err" | sed 's/^/      /'
        done
    fi
fi
exit $failed
