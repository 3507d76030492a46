#!/usr/bin/env bash
# Counts the system calls of a first start, and measures its time: benches/cold.sh [cudarun [PYTHON [CODE]]]
#
# Without PYTHON it makes an environment that is laid out like torch's: a package of 400 directories, whose libraries have
# search paths into eleven directories of NVIDIA's. CODE is `import torch`. Prints the system calls up to the program by
# kind, those that ask again about a path that was asked about before, and the median of ROUNDS (9) first starts beside the
# bare ones; the commands take turns. Fails if a start in the made environment makes more than 3,900 calls: a walk takes four for
# each directory. Needs cc, python3 and strace.
#
# 5,319 system calls before objects, listings and real directories were kept (3,719 since).
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
python=${2:-}
code=${3:-import torch}
budget=3900
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home"
cd "$work/home"
if [ -z "$python" ]; then
    python3 -m venv --without-pip "$work/env"
    python=$work/env/bin/python
    is_made=1
    site=$(echo "$work"/env/lib/python3*/site-packages)
    mkdir -p "$site/torch/lib" "$site/torch-2.6.0.dist-info"
    printf 'Name: torch\nVersion: 2.6.0\n' >"$site/torch-2.6.0.dist-info/METADATA"
    printf "cuda = '12.4'\n" >"$site/torch/version.py"
    touch "$site/torch/__init__.py"
    for ((i = 0; i < 400; i++)); do
        mkdir -p "$site/torch/part$((i % 20))/d$i"
        touch "$site/torch/part$((i % 20))/d$i/__init__.py"
    done
    directory_of() { local name=${1%%.*} && echo "${name%Lt}"; }
    rpath=\$ORIGIN
    libraries=()
    for soname in libcudart.so.12 libcublas.so.12 libcublasLt.so.12 libcufft.so.11 libcurand.so.10 libcusolver.so.11 libcusparse.so.12 \
        libnvJitLink.so.12 libnccl.so.2 libcupti.so.12 libcufile.so.0 libcusparseLt.so.0; do
        directory=$site/nvidia/$(directory_of $soname)/lib
        mkdir -p "$directory"
        cc -shared -Wl,-soname,$soname -o "$directory/$soname" -xc /dev/null
        rpath=$rpath:\$ORIGIN/../../nvidia/$(directory_of $soname)/lib
        libraries+=("$directory/$soname")
    done
    before=()
    for name in c10 torch_cpu torch_cuda torch_python; do
        cc -shared -Wl,--no-as-needed,--disable-new-dtags,-rpath,"$rpath" -Wl,-soname,lib$name.so \
            -o "$site/torch/lib/lib$name.so" -xc /dev/null -xnone ${before[@]+"${before[@]}"} "${libraries[@]}"
        before+=("$site/torch/lib/lib$name.so")
    done
    cc -shared -Wl,--no-as-needed,-rpath,\$ORIGIN/lib -o "$site/torch/_C.so" -xc /dev/null -xnone "${before[@]}"
fi

at() {
    env -i HOME="$work/home" PATH=/usr/bin:/bin LANG=C.UTF-8 XDG_CACHE_HOME="$work/cache" "$@"
}
first() {
    rm -rf "$work/cache"
    mkdir -m 700 "$work/cache"
    at "$@"
}
milliseconds() {
    local began=$EPOCHREALTIME
    "$@" >/dev/null
    awk -v began="$began" -v ended="$EPOCHREALTIME" 'BEGIN { print 1000 * (ended - began) }'
}

first strace -f -s 4096 -o "$work/calls" "$cudarun" "$python" -c "$code"
# Up to the second execve, which starts the program.
awk '{ $1 = "" } / execve\(/ && started++ { exit } / [a-z0-9_]+\(/ { sub(/^ /, ""); print }' "$work/calls" >"$work/own"
calls=$(wc -l <"$work/own")
printf '%s system calls before the program:' "$calls"
sed 's/(.*//' "$work/own" | sort | uniq -c | sort -rn | head -12 | awk '{ printf " %s %s", $2, $1 }'
printf '\n'
awk -F '"' '/^(open|openat|stat|lstat|newfstatat|statx|readlink|readlinkat)\(/ && $2 != "" {
    sub(/\(.*/, "", $1); if (seen[$1 " " $2]++) again[$1]++
} END { printf "again with the same path:"; for (call in again) printf " %s %d", call, again[call]; print "" }' "$work/own"

for ((round = 0; round < ${ROUNDS:-9}; round++)); do
    milliseconds first "$cudarun" "$python" -c "$code" >>"$work/first"
    milliseconds at "$python" -c "$code" >>"$work/bare"
done
median() { sort -n "$work/$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
awk -v first="$(median first)" -v bare="$(median bare)" 'BEGIN {
    printf "first start: %.1f ms, bare: %.1f ms, +%.1f ms\n", first, bare, first - bare
}'
[ -z "${is_made:-}" ] || [ "$calls" -le "$budget" ] || { echo "more than $budget system calls" && exit 1; }
