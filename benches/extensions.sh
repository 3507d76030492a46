#!/usr/bin/env bash
# How long it takes to compare extension modules with their framework: benches/extensions.sh [cudarun]
#
# 300 extension modules (or MODULES), each with 200 imports and 2,000 exports, beside a torch with 50,000 exports. Prints
# the time of a first `list --extensions`, of a second one, and of reading the files, medians of 5 rounds. Fails if the
# first takes more than 1.5 s, the second more than half of the first, or a count is wrong. Then the time of a start of which
# nothing is known, of a program that imports torch and 20 of these modules, against one that imports torch and the same modules
# without a library of torch, medians of 9; fails above 2.5, since this torch is small. Needs a C compiler.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
modules=${MODULES:-300}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv --without-pip "$work/env"
site=$(echo "$work"/env/lib/python3*/site-packages)
mkdir -p "$site/torch/lib" "$site/torch-2.6.0.dist-info" "$site/vision" "$site/vision-1.0.dist-info"
printf 'Name: torch\nVersion: 2.6.0\n' >"$site/torch-2.6.0.dist-info/METADATA"
printf 'Name: vision\nVersion: 1.0\nRequires-Dist: torch==2.7.0\n' >"$site/vision-1.0.dist-info/METADATA"
export HOME=$work/home XDG_CACHE_HOME=$work/cache
mkdir -m 700 "$HOME" "$XDG_CACHE_HOME"

awk 'BEGIN { for (i = 0; i < 50000; i++) printf "void _ZN3c104have%dEv(void) {}\n", i }' >"$work/c10.c"
cc -O0 -shared -fPIC -Wl,-soname,libc10.so -o "$site/torch/lib/libc10.so" "$work/c10.c"
cc -O0 -shared -fPIC -Wl,-soname,libtorch_python.so -o "$site/torch/lib/libtorch_python.so" -x c /dev/null
# Three of the 200 imports are of another build.
awk 'BEGIN {
    for (i = 0; i < 2000; i++) printf "void _ZN6vision5own%dEv(void) {}\n", i
    for (i = 0; i < 197; i++) printf "void _ZN3c104have%dEv(void);\n", i * 250
    for (i = 0; i < 3; i++) printf "void _ZN3c104lack%dEv(void);\n", i
    print "void PyInit__C(void) {"
    for (i = 0; i < 197; i++) printf "_ZN3c104have%dEv();\n", i * 250
    for (i = 0; i < 3; i++) printf "_ZN3c104lack%dEv();\n", i
    print "}"
}' >"$work/module.c"
cc -O0 -shared -fPIC -o "$work/module.so" "$work/module.c" -L"$site/torch/lib" -lc10
for ((i = 0; i < modules; i++)); do
    cp "$work/module.so" "$site/vision/_C$i.so"
    echo "vision/_C$i.so,sha256=x,"
done >"$site/vision-1.0.dist-info/RECORD"
for package in twenty plain; do
    mkdir -p "$site/$package" "$site/$package-1.0.dist-info"
    printf 'Name: %s\nVersion: 1.0\n' "$package" >"$site/$package-1.0.dist-info/METADATA"
    for ((i = 0; i < 20; i++)); do echo "from . import _C$i"; done >"$site/$package/__init__.py"
done
sed 's/_ZN3c104lack/_ZN3c104have/' "$work/module.c" >"$work/fits.c"
cc -O0 -shared -fPIC -o "$work/fits.so" "$work/fits.c" -L"$site/torch/lib" -lc10
cc -O0 -shared -fPIC -o "$work/plain.so" "$work/fits.c"
echo >"$site/torch/__init__.py"
for ((i = 0; i < 20; i++)); do
    cp "$work/fits.so" "$site/twenty/_C$i.so"
    cp "$work/plain.so" "$site/plain/_C$i.so"
done
# A file that has just changed is not kept.
sleep 3

seconds() {
    local before=$EPOCHREALTIME
    "$@" >"$work/out"
    awk -v before="$before" -v after="$EPOCHREALTIME" 'BEGIN { printf "%.3f\n", after - before }'
}
list=("$cudarun" list --extensions --python "$work/env/bin/python")
for _ in 1 2 3 4 5; do
    rm -rf "$XDG_CACHE_HOME/cudarun"
    seconds "${list[@]}" >>"$work/first"
    cp "$work/out" "$work/expected"
    seconds "${list[@]}" >>"$work/second"
    cmp "$work/expected" "$work/out"
    seconds cat "$site"/torch/lib/* "$site"/vision/* >>"$work/read"
done
median() { sort -n "$work/$1" | sed -n 3p; }
count=$(grep -c '3 symbols' "$work/expected")
awk -v first="$(median first)" -v second="$(median second)" -v plain="$(median read)" -v modules="$modules" -v count="$count" 'BEGIN {
    printf "%d of %d extension modules lack three symbols\n", count, modules
    printf "first: %.3f s, budget 1.5 s; second: %.3f s, %.2f of the first, budget 0.5; cat of the files: %.3f s\n", first, second, second / first, plain
    exit (first > 1.5 || second > first / 2 || count != modules)
}'

starts() {
    for _ in 1 2 3 4 5 6 7 8 9; do
        rm -rf "$XDG_CACHE_HOME/cudarun"
        seconds "$cudarun" export "$work/env/bin/python" -c "import torch, $1" >>"$work/$1"
    done
    sort -n "$work/$1" | sed -n 5p
}
awk -v with="$(starts twenty)" -v without="$(starts plain)" 'BEGIN {
    printf "a first start with 20 extension modules: %.3f s, %.2f of the same without the framework, limit 2.5\n", with, with / without
    exit (with > 2.5 * without)
}'
