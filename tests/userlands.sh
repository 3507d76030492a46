#!/usr/bin/env bash
# Following in older systems: tests/userlands.sh PATH-TO-cudarun [SUITE]...
#
# Each SUITE of Debian (buster, bullseye and bookworm) becomes a system of its own, in which cudarun is installed and two
# environments of its Python have different stand-ins of cuDNN. Whatever starts a program, the program gets its own libraries, and
# the loader says nothing; each row has its control, the same command line without cudarun or without following, which mixes two.
# A suite that the mirror lacks is left out, except bullseye and bookworm.
#
# PATH-TO-cudarun is linked against glibc 2.17, as .ci/release makes it. Needs root, mmdebstrap and gcc. MIRROR is where Debian's
# packages come from.
set -euo pipefail
[ $# -gt 0 ] || { echo "usage: $0 PATH-TO-cudarun [SUITE]..." >&2 && exit 2; }
[ "$(id -u)" = 0 ] || { echo "root is needed" && exit 2; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is needed" && exit 2; }
cudarun=$(realpath "$1")
shift
[ $# -gt 0 ] || set -- buster bullseye bookworm
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
failed=0

# The stand-ins. Without -lc they name no release of glibc: every Python brings what they call.
cat >"$work/cudnn.c" <<'C'
int snprintf(char *, unsigned long, const char *, ...);
void *dlopen(const char *, int), *dlsym(void *, const char *);
__attribute__((used)) static const char stamp[] = STAMP;
static void *sub(const char *stem)
{
    char name[4][256];
    snprintf(name[0], 256, "libcudnn_%s.so.%d.%d.%d", stem, 9, MINOR, PATCH);
    snprintf(name[1], 256, "libcudnn_%s.so.9.%d", stem, MINOR);
    snprintf(name[2], 256, "libcudnn_%s.so.9", stem);
    snprintf(name[3], 256, "libcudnn_%s.so", stem);
    void *found = 0;
    for (int i = 0; i < 4 && !found; i++)
        found = dlopen(name[i], 2);
    return found;
}
#ifdef GRAPH
int graph_version(void)
{
    sub("heuristic"), sub("engines_precompiled"), sub("engines_runtime_compiled");
    return 90000 + 100 * MINOR + PATCH;
}
#else
int cudnnGetVersion(void)
{
    sub("ops"), sub("cnn"), sub("adv");
    void *graph = sub("graph");
    return graph ? ((int (*)(void))dlsym(graph, "graph_version"))() : -1;
}
#endif
C
# Prints the version, the number of files and their environments.
cat >"$work/framework.py" <<'PY'
import ctypes, os
library = ctypes.CDLL(os.path.join(os.path.dirname(__file__), "_framework.so"))
def show():
    version = library.cudnnGetVersion()
    files = {line[line.index("/"):] for line in open("/proc/self/maps") if "libcudnn" in line}
    print(version, len(files), *sorted({file.split("/")[2] for file in files}), flush=True)
PY
# Shows what it has, and becomes the parent of the rest of its command line.
cat >"$work/parent.py" <<'PY'
import subprocess, sys, framework
framework.show()
sys.exit(subprocess.call(sys.argv[1:]))
PY
echo 'import framework; framework.show()' >"$work/show.py"
cat >"$work/pool.py" <<'PY'
import multiprocessing as m, sys, framework
if __name__ == "__main__":
    m.set_start_method(sys.argv[1])
    p = m.Process(target=framework.show)
    p.start()
    p.join()
    sys.exit(p.exitcode)
PY
# A program in C that is linked against cuDNN, and prints the version. The C library that it is linked with is a stub, for the same
# reason.
cat >"$work/program.c" <<'C'
int cudnnGetVersion(void), printf(const char *, ...);
void exit(int);
__attribute__((force_align_arg_pointer)) void _start(void) { exit(printf("%d\n", cudnnGetVersion()) < 0); }
C
library() { gcc -shared -fPIC -nostdlib -fno-builtin -fno-stack-protector "-Wl,-soname,$(basename "$1")" -o "$@"; }
for of in a.1.0 b.10.2 foreign.5.1; do
    IFS=. read -r name minor patch <<<"$of"
    mkdir -p "$work/$name/nvidia/cudnn/lib" "$work/$name/framework"
    at=$work/$name/nvidia/cudnn/lib
    for stem in ops cnn adv engines_precompiled engines_runtime_compiled heuristic; do
        echo 'int nothing;' | library "$at/libcudnn_$stem.so.9" -x c -
    done
    facts=("-DMINOR=$minor" "-DPATCH=$patch" "-DSTAMP=\"cudnn_version_9_${minor}_${patch}_7_stub\"")
    facts+=("-Wl,--enable-new-dtags,-rpath,\$ORIGIN" "$work/cudnn.c")
    library "$at/libcudnn_graph.so.9" -DGRAPH "${facts[@]}"
    library "$at/libcudnn.so.9" "${facts[@]}"
    cp "$work/framework.py" "$work/$name/framework/__init__.py"
    echo 'int cudnnGetVersion(void); int (*needed)(void) = cudnnGetVersion;' |
        library "$work/$name/framework/_framework.so" -x c - -x none -Wl,--no-as-needed "$at/libcudnn.so.9" \
            -Wl,--allow-shlib-undefined "-Wl,--disable-new-dtags,-rpath,\$ORIGIN/../nvidia/cudnn/lib"
done
echo 'void printf(void) {} void exit(void) {} void snprintf(void) {}' | library "$work/libc.so.6" -x c -
echo 'void dlopen(void) {} void dlsym(void) {}' | library "$work/libdl.so.2" -x c -

# What a process of the environment prints that has one installation only.
declare -A whole=([a]='90100 8 a' [b]='91002 8 b')

# in_it LIBRARY-PATH COMMAND…: runs it in the system of this suite. $P is the Python of an environment, $F is a file with code.
in_it() {
    local path=$1
    shift
    # shellcheck disable=SC2016 # The words are for the shell that is started.
    unshare --mount bash -euc '
        mount -t proc none "$1/proc"
        mount --rbind /dev "$1/dev"
        exec chroot "$1" env -i "${@:2}"' bash "$root" HOME=/root PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
        P=/opt/a/bin/python F=/opt/show.py ${path:+"LD_LIBRARY_PATH=$path"} "$@"
}
# wrong MESSAGE FILE…
wrong() {
    printf '%s: %s\n' "$suite" "$1" >&2
    sed 's/^/    /' "${@:2}" >&2
    failed=1
}
# gets LINES LIBRARY-PATH COMMAND…: it prints this, and nothing on standard error.
gets() {
    in_it "${@:2}" >"$work/said" 2>"$work/errors" || echo "status $?" >>"$work/said"
    if ! diff <(echo "$1") "$work/said" >"$work/difference" || [ -s "$work/errors" ]; then
        wrong "LD_LIBRARY_PATH=$2 ${*:3}" "$work/difference" "$work/errors"
    fi
    rows=$((rows + 1))
}
# mixes LIBRARY-PATH COMMAND…: a control, in which one process has the files of two installations.
mixes() {
    in_it "$@" >"$work/said" 2>"$work/errors" || echo "status $?" >>"$work/said"
    grep -qE '^[0-9]+ [0-9]+ [a-z]+ [a-z]+$' "$work/said" ||
        wrong "the control does not mix: LD_LIBRARY_PATH=$1 ${*:2}" "$work/said" "$work/errors"
}

# What starts a program, as a shell sees it.
# shellcheck disable=SC2016 # The shell of the system reads them.
launchers=(
    '"$P" "$F"; :'
    'exec "$P" "$F"'
    '"$P" - <"$F"'
    'sh -c "sh -c '\''\"\$P\" \"\$F\"; :'\''; :"'
    'bash -c '\''exec -a "$P" "$P" "$F"'\'
    'echo "$F" | xargs "$P"'
    'find "$F" -exec "$P" {} \;'
    'awk '\''BEGIN { system("\"$P\" \"$F\"") }'\'
    'perl -e '\''exit(system($ENV{P}, $ENV{F}) >> 8)'\'
    'env A=1 "$P" "$F"'
    'timeout 60 "$P" "$F"'
    'setsid -w "$P" "$F"'
    'stdbuf -oL "$P" "$F"'
    'flock /dev/null "$P" "$F"'
    'setpriv --no-new-privs "$P" "$F"'
    'python3 -c "import os, subprocess; subprocess.run([os.environ['\''P'\''], os.environ['\''F'\'']])"'
    'python3 -c "import os; os.execv(os.environ['\''P'\''], [os.environ['\''P'\''], os.environ['\''F'\'']])"'
    '"$P" /opt/pool.py spawn; :'
    '"$P" /opt/pool.py forkserver; :'
    # The loader, started as a program; before glibc 2.34 its file has another name.
    '/lib64/ld-linux-x86-64.so.2 "$P" "$F"; :'
    '"$(readlink -f /lib64/ld-linux-x86-64.so.2)" "$P" "$F"; :'
)
# What is to be as without cudarun.
# shellcheck disable=SC2016 # The shell of the system reads them.
others=(
    'ldd "$P" /bin/ls | sed "s/ (.*//"'
    '/lib64/ld-linux-x86-64.so.2 --list "$P" | sed "s/ (.*//"'
    '/lib64/ld-linux-x86-64.so.2 /bin/ls /opt'
    'setpriv --reuid 65534 --regid 65534 --clear-groups su --version'
    'env -i /usr/bin/python3 -c "import os; print(sorted(os.environ))"'
)

for suite in "$@"; do
    root=$work/$suite
    rows=0
    if ! mmdebstrap --variant=essential --include=python3 "$suite" "$root" ${MIRROR:+"$MIRROR"} >"$work/said" 2>&1; then
        case $suite in
            bullseye | bookworm) ;;
            *) if grep -q 'does not have a Release file' "$work/said"; then
                echo "$suite: left out: the mirror does not have it"
                continue
            fi ;;
        esac
        cat "$work/said" >&2
        exit 1
    fi
    # As install.sh puts them.
    install -D "$cudarun" "$root/usr/local/bin/cudarun"
    mkdir -p "$root/usr/local/lib/cudarun"
    "$cudarun" --module-for /usr/local/bin/cudarun >"$root/usr/local/lib/cudarun/follow.so"
    python=$(readlink "$root/usr/bin/python3")
    for name in a b foreign; do
        mkdir -p "$root/opt/$name/bin" "$root/opt/$name/lib/$python"
        ln -s "/usr/bin/$python" "$root/opt/$name/bin/python"
        echo 'home = /usr/bin' >"$root/opt/$name/pyvenv.cfg"
        cp -r "$work/$name" "$root/opt/$name/lib/$python/site-packages"
    done
    cp "$work"/{show,parent,pool}.py "$root/opt"
    for kind in pie no-pie; do
        gcc "-$kind" "-f$kind" -nostdlib -fno-builtin -o "$root/opt/$kind" "$work/program.c" -Wl,--no-as-needed \
            "$work/a/nvidia/cudnn/lib/libcudnn.so.9" "$work/libc.so.6" "$work/libdl.so.2" -Wl,--allow-shlib-undefined \
            "-Wl,--disable-new-dtags,-rpath,/opt/a/lib/$python/site-packages/nvidia/cudnn/lib"
    done
    glibc=$(in_it '' ldd --version | sed -n '1s/.* //p')
    foreign=/opt/foreign/lib/$python/site-packages/nvidia/cudnn/lib

    # A shell and other programs start a Python of an environment, below a foreign path.
    mixes "$foreign" cudarun --no-follow sh -c "${launchers[0]}"
    for launcher in "${launchers[@]}"; do
        mixes "$foreign" sh -c "$launcher"
        gets "${whole[a]}" "$foreign" cudarun sh -c "$launcher"
    done
    for other in "${others[@]}"; do
        gets "$(in_it "$foreign" sh -c "$other")" "$foreign" cudarun sh -c "$other"
    done
    # A program that is linked against cuDNN, at an address that is known when it is linked and at another one.
    for kind in pie no-pie; do
        gets 90501 "$foreign" sh -c "/opt/$kind; :"
        gets 90100 "$foreign" cudarun sh -c "/opt/$kind; :"
    done
    # Without typing cudarun.
    # shellcheck disable=SC2016 # The shell of the system reads it.
    gets "${whole[a]}" "$foreign" sh -c 'eval "$(cudarun export --follow)"; "$P" "$F"'
    # Environments start each other, three deep.
    for of in ab ba; do
        first=${of::1} second=${of:1}
        command=("/opt/$first/bin/python" /opt/parent.py "/opt/$second/bin/python" /opt/parent.py "/opt/$first/bin/python" /opt/show.py)
        mixes "$foreign" "${command[@]}"
        mixes '' cudarun --no-follow --pin-mode=view "${command[@]}"
        three=$(printf '%s\n' "${whole[$first]}" "${whole[$second]}" "${whole[$first]}")
        for path in '' "$foreign"; do
            for options in '' --pin-mode=view; do
                gets "$three" "$path" cudarun ${options:+"$options"} "${command[@]}"
                gets "$three" "$path" cudarun ${options:+"$options"} sh -c '"$@"; exit $?' sh "${command[@]}"
            done
        done
    done
    # The mode is that of this loader, and the shell's child is one that is followed.
    in_it "$foreign" cudarun -v sh -c "${launchers[0]}" >"$work/said" 2>"$work/errors" || true
    # shellcheck disable=SC2016 # A message of cudarun.
    mode=$(sed -n 's/.*which `sh` .* started: .*, mode //p' "$work/errors")
    case $glibc in 2.1? | 2.2? | 2.3[0-4]) expected=view ;; *) expected=audit ;; esac
    [ "$mode" = "$expected" ] || wrong "the mode is '$mode', not $expected" "$work/errors"
    echo "$suite, glibc $glibc: $rows command lines, mode $mode ($SECONDS s)"
    rm -rf --one-file-system "$root"
done
exit $failed
