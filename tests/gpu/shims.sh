#!/usr/bin/env bash
# A package that brings cuDNN's shim alone, as ctranslate2 does: tests/gpu/shims.sh PATH-TO-cudarun
#
# The program is linked against a shim in `package.libs`, which its DT_RPATH finds first. The rest of cuDNN comes from
# elsewhere. One whole cuDNN of another 9.x works, so each start must succeed; parts of two versions fail without
# cudarun. Prints rows for the table of tests/gpu/run.sh.
# shellcheck disable=SC2086  # settings are lists of words here
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

wheel=$(python3 -c 'import nvidia, os; print(os.path.join(list(nvidia.__path__)[0], "cudnn/lib"))')

# built NAME SHIM: a package whose program uses its own copy of a shim
built() {
    mkdir -p "$work/$1/package" "$work/$1/package.libs"
    cp "$(readlink -f "$2")" "$work/$1/package.libs/libcudnn.so.9"
    # shellcheck disable=SC2016  # the loader reads $ORIGIN
    cc -O1 -o "$work/$1/package/program" "$here/convcheck.c" -ldl -lm -Wl,--no-as-needed \
        "$work/$1/package.libs/libcudnn.so.9" -Wl,--disable-new-dtags,-rpath,'$ORIGIN/../package.libs'
}

# mapped OUTPUT: the version, and the directories of the shim and of the other parts
mapped() {
    local version shim parts
    version=$(grep -o '^cuDNN [0-9]*' "$1")
    shim=$(grep '/libcudnn\.so' "$1" | xargs -r -n 1 dirname | sort -u | tr '\n' ' ')
    parts=$(grep '/libcudnn_' "$1" | xargs -r -n 1 dirname | sort -u | tr '\n' ' ')
    echo "$version, shim from ${shim:-nowhere }and parts from ${parts:-nowhere}" |
        sed "s,$work/,,g; s,[^ ]*/site-packages/,,g; s, *\$,,"
}

# shim BREAKS LABEL ENVIRONMENT VERSION PROGRAM: without cudarun it breaks or works; with cudarun it maps one whole cuDNN.
shim() {
    local breaks=$1 label=$2 setting=$3 version=$4 result=ok control=works without with status
    "${within[@]}" env $setting "$5" >"$work/out" 2>&1 || control=breaks
    without="$control; $(mapped "$work/out")"
    [ $control = "$breaks" ] || result=FAIL
    "${within[@]}" env $setting "$cudarun" "$5" >"$work/out" 2>"$work/err"
    status=$?
    with="status $status; $(mapped "$work/out")"
    [[ $status -eq 0 && $with == *"cuDNN $version, shim from "* ]] || result=FAIL
    [ "$(grep '/libcudnn_' "$work/out" | xargs -r -n 1 dirname | sort -u | wc -l)" = 1 ] || result=FAIL
    row $result "$label" "${setting//$work\//}" "$without" "$with"
    [ $result = ok ] || sed 's/^/      /' "$work/out" "$work/err" | tail -n 40
}

number() { "$cudarun" list --json | python3 -c '
import json, os, sys
for found in json.load(sys.stdin)["installations"]:
    if found["family"] == "cudnn" and os.path.realpath(found["directory"]) == os.path.realpath(sys.argv[1]):
        major, minor, patch = (int(part) for part in found["version"].split(".")[:3])
        print(major * 10000 + minor * 100 + patch)' "$1"; }

built older $debian/libcudnn.so.9
built newer "$wheel/libcudnn.so.9"
older=$work/older/package/program newer=$work/newer/package/program
debians=$(number $debian) wheels=$(number "$wheel")
# cuDNN opens its parts by their long names first.
mkdir "$work/torn"
for part in graph ops; do
    file=$(readlink -f $debian/libcudnn_$part.so.9)
    cp "$file" "$work/torn/$(basename "$file")"
done

# shellcheck disable=SC2016  # the code is for the shell inside
within=(unshare -m bash -c 'for file in "$0"/libcudnn*; do mount --bind /dev/null "$file"; done; exec "$@"' "$debian")
shim works "an older shim alone" "LD_LIBRARY_PATH=$wheel" "$wheels" "$older"
shim breaks "an older shim alone" "LD_LIBRARY_PATH=$work/torn:$wheel" "$wheels" "$older"
within=(env -u VIRTUAL_ENV PATH=/usr/bin:/bin)
shim works "a newer shim alone" "" "$debians" "$newer"
within=(env)
shim works "a newer shim alone" "LD_LIBRARY_PATH=$wheel" "$wheels" "$newer"
exit $failed
