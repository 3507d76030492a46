#!/usr/bin/env bash
# Measures a warm start beside the lightest program that starts another and beside other launchers: benches/start.sh [--table] [cudarun]
#
# In one run, medians of commands that take turns: ROUNDS (2000) of `true`, `env true` and `cudarun true`; of
# `cudarun true` below a project's file, and with hardly a variable, where `env` reads no locale, beside `env true`; of a
# program that is linked against twelve of NVIDIA's libraries, at which every start looks, beside `env` with it; then
# PEERS (60) of the slower ones beside `env true`. A peer that is not installed is listed as missing. The first rounds of
# each do not count. Fails when `cudarun true` takes more than 1.15 times as long as `env true`: the median of the ratios
# of five blocks of rounds, so that a burst of other work in one or two of them decides nothing. With --table prints the table of docs/benchmarks.md and
# fails in the same case. Measured is a copy, as install.sh makes it: the kernel maps a file that was written in one go in larger pieces
# than one that the linker has written, which takes 0.08 of `env true` longer to start. `cudarun --version` may take 3 times as long as `env true`. Needs cc; direnv, environment-modules, Lmod, mise and uv where they can be had.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
is_table=
[ "${1:-}" != --table ] || { is_table=1 && shift; }
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
budget=1.15
kept=${XDG_CACHE_HOME:-$HOME/.cache}/cudarun-tests/peers
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$kept" "$work"/{home,empty,project,libraries,modulefiles,direnv,mise}
cp "$cudarun" "$work/cudarun"
cudarun=$work/cudarun

# Each library that it is linked against costs a tenth of a start.
needed=$(readelf -d "$cudarun" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | tr '\n' ' ')
case $needed in "libc.so.6 " | "") ;; *) echo "linked against $needed" && exit 1 ;; esac
cc -O1 -o "$work/spawn" "$here/spawn.c"

# Nothing of the person who runs this counts: what a login has, and what `cron` gives.
login=(USER=user LOGNAME=user SHELL=/bin/bash TERM=xterm LANG=C.UTF-8)
at() {
    env -i HOME="$work/home" PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin "${login[@]}" "$@"
}
# debian PACKAGE: its files without installing it, since two that are called `module` exclude each other.
debian() {
    [ -d "$kept/$1" ] && return
    (
        set -e
        cd "$work"
        apt-get download -qq "$1" || { apt-get update -qq && apt-get download -qq "$1"; }
        dpkg -x "$1"_*.deb "$kept/$1.part"
        mv "$kept/$1.part" "$kept/$1"
    ) >/dev/null 2>&1
}
# Each prints the path of a peer, or nothing.
mise() {
    local binary=$kept/mise/node_modules/@jdxcode/mise-linux-x64/bin/mise
    [ -x "$binary" ] || npm install --prefix "$kept/mise" --no-audit --no-fund @jdxcode/mise-linux-x64 >/dev/null 2>&1 || true
    if [ -x "$binary" ]; then echo "$binary"; else command -v mise || true; fi
}
uv() {
    if [ ! -x "$kept/uv/bin/uv" ]; then
        { python3 -m venv "$kept/uv" && "$kept/uv/bin/pip" install -q uv; } >/dev/null 2>&1 || true
    fi
    if [ -x "$kept/uv/bin/uv" ]; then echo "$kept/uv/bin/uv"; else command -v uv || true; fi
}
# modules PACKAGE: the shell code that defines `module`, for files of a package that are elsewhere.
modules() {
    debian "$1" || return 0
    local root=$kept/$1 init
    case $1 in
        lmod)
            init=$(echo "$root"/usr/share/lmod/[0-9]*/init/bash)
            sed "s,/usr/share/lmod/lmod/,${init%init/bash},g; s,=/usr/share/lmod/lmod\$,=${init%/init/bash}," "$init"
            ;;
        environment-modules)
            init=$(echo "$root"/usr/lib/*/modulecmd.tcl)
            sed -i "s,{/usr/lib/[^/]*-linux-gnu},{${init%/modulecmd.tcl}},; s,{/usr/share/modules},{$root/usr/share/modules}," "$init"
            sed "s,'/usr/lib/[^/]*/modulecmd.tcl','$init',g" "$root/usr/share/modules/init/bash"
            ;;
    esac
}

# A program of twelve libraries, and a project.
touch "$work/project/.cudarun.toml"
libraries=()
for soname in libcudart.so.12 libcublas.so.12 libcublasLt.so.12 libcufft.so.11 libcurand.so.10 libcusolver.so.11 \
    libcusparse.so.12 libnppc.so.12 libnvJitLink.so.12 libnccl.so.2 libcupti.so.12 libcufile.so.0; do
    function=use_${soname//[^a-zA-Z0-9]/_}
    echo "int $function(void) { return 0; }" | cc -shared -Wl,-soname,$soname -o "$work/libraries/$soname" -xc -
    libraries+=("$work/libraries/$soname")
done
{
    for library in "${libraries[@]}"; do function=$(basename "$library") && echo "int use_${function//[^a-zA-Z0-9]/_}(void);"; done
    echo "int main(void) { return 0"
    for library in "${libraries[@]}"; do function=$(basename "$library") && echo " + use_${function//[^a-zA-Z0-9]/_}()"; done
    echo "; }"
} | cc -o "$work/program" -xc - -xnone "${libraries[@]}"
# A file that has just changed is not cached.
sleep 0.1
names=() commands=()
# peer NAME WORD...: one more command, under the name that it has in the table.
peer() {
    names+=("$1")
    [ ${#commands[@]} = 0 ] || commands+=(+)
    commands+=("${@:2}")
}
# measure ROUNDS: a line for each, with its median and quartiles.
measure() {
    # The first of all these rounds, which do not count, keeps each start.
    at SEPARATOR=+ "$work/spawn" "$1" "${commands[@]}" >"$work/times"
    paste <(printf '%s\n' "${names[@]}") "$work/times"
    names=() commands=()
}
cd "$work/empty"
for _ in 1 2 3 4 5; do
    peer true true
    peer 'env true' env true
    peer 'cudarun true' "$cudarun" true
    measure "$((${ROUNDS:-2000} / 5))" >"$work/block"
    awk -F '\t' '{ took[$1] = $2 } END { print took["cudarun true"] / took["env true"] }' "$work/block" >>"$work/ratios"
    cat "$work/block" >>"$work/blocks"
done
ratio=$(sort -n "$work/ratios" | sed -n 3p)
# One row each, of the medians of all blocks.
for name in true 'env true' 'cudarun true'; do
    printf '%s' "$name"
    for column in 2 3 4; do
        printf '\t%s' "$(awk -F '\t' -v name="$name" -v column=$column '$1 == name { print $column }' "$work/blocks" | sort -n | sed -n 3p)"
    done
    echo
done >"$work/1"

cd "$work/project"
peer 'env true' env true
peer 'cudarun true below a .cudarun.toml' "$cudarun" true
peer 'cudarun --version' "$cudarun" --version
measure "${ROUNDS:-2000}" >"$work/2"

cd "$work/empty"
(
    login=()
    peer 'env true' env true
    peer 'cudarun true without LANG' "$cudarun" true
    measure "${ROUNDS:-2000}" >"$work/3"
)
with_libraries=(LD_LIBRARY_PATH="$work/libraries")
peer 'env PROGRAM' "${with_libraries[@]}" env "$work/program"
peer 'cudarun PROGRAM, linked against 12 libraries' "${with_libraries[@]}" "$cudarun" "$work/program"
measure "${ROUNDS:-2000}" >"$work/4"

missing=()
peer 'env true' env true
if command -v direnv >/dev/null; then
    echo 'export DIRENV_BENCH=1' >"$work/direnv/.envrc"
    at direnv allow "$work/direnv"
    peer 'direnv exec . true' DIRENV_LOG_FORMAT= direnv exec "$work/direnv" true
else
    missing+=('direnv exec . true')
fi
mise=$(mise)
if [ -n "$mise" ]; then
    printf '[env]\nMISE_BENCH = "1"\n' >"$work/mise/mise.toml"
    at "$mise" trust -q "$work/mise/mise.toml"
    peer 'mise exec -- true' "$mise" -C "$work/mise" exec -- true
else
    missing+=('mise exec -- true')
fi
uv=$(uv)
if [ -n "$uv" ]; then peer 'uv run true' "$uv" run true; else missing+=('uv run true'); fi
printf '#%%Module\nsetenv MODULE_BENCH 1\n' >"$work/modulefiles/bench"
peer 'bash, then true' bash --norc -c 'exec true'
for package in environment-modules lmod; do
    modules "$package" >"$work/$package.sh" || true
    # It must be seen to work before it is timed.
    load="source $work/$package.sh; module use $work/modulefiles; module load bench; test \"\$MODULE_BENCH\" = 1 && exec true"
    if [ -s "$work/$package.sh" ] && at bash --norc -c "$load" >/dev/null 2>&1; then
        peer "bash with module load by $package, then true" bash --norc -c "$load"
    else
        missing+=("bash with module load by $package, then true")
    fi
done
measure "${PEERS:-60}" >"$work/5"

awk -F '\t' -v budget=$budget -v ratio="$ratio" -v is_table="$is_table" -v missing="$(printf '%s\n' ${missing[@]+"${missing[@]}"})" '
    function row(name, median, ratio, low, high) {
        if (is_table) printf "| %s | %s | %s |\n", name, median, ratio
        else printf "%-62s %9s us %9s   (quartiles %s and %s)\n", name, median, ratio, low, high
    }
    FNR == 1 { file++ }
    BEGIN { if (is_table) print "| command | µs | against `env`, in the same run |\n|---|---|---|" }
    $1 ~ /^env / { env[file] = $2 }
    $1 == "cudarun --version" { version = $2 / env[file] }
    { name[file, FNR] = $1; median[file, FNR] = $2; low[file, FNR] = $3; high[file, FNR] = $4; lines[file] = FNR }
    END {
        for (f = 1; f <= file; f++) for (n = 1; n <= lines[f]; n++) {
            # The row to compare with appears once.
            if (f == 1 || name[f, n] !~ /^env /)
                row(name[f, n], sprintf("%.0f", median[f, n]), sprintf("%.2f", median[f, n] / env[f]), \
                    sprintf("%.0f", low[f, n]), sprintf("%.0f", high[f, n]))
        }
        count = split(missing, names, "\n")
        for (n = 1; n <= count; n++) if (names[n] != "") row(names[n], "not measured here", "", "-", "-")
        if (!is_table) printf "warm start: %.3f x env true (budget %s)\n", ratio, budget
        exit ratio > budget || version > 3
    }' "$work"/[1-5]
