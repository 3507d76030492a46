#!/bin/sh
# Builds cudarun and installs it with its completions; needs no root.
#
#   ./install.sh               into ~/.local
#   ./install.sh --to DIR      into DIR
#   ./install.sh --uninstall   takes it away again (with the same --to)
set -eu

main() {
    to=${HOME:+$HOME/.local}
    uninstall=
    while [ $# -gt 0 ]; do
        case $1 in
        --to)
            [ $# -ge 2 ] || fail "--to needs a directory"
            to=$2
            shift
            ;;
        --to=*) to=${1#--to=} ;;
        --uninstall) uninstall=yes ;;
        -h | --help)
            sed -n '2,6s/^# \{0,1\}//p' "$0"
            exit 0
            ;;
        *) fail "unknown option $1 (see --help)" ;;
        esac
        shift
    done
    [ -n "$to" ] || fail "HOME is not set: say where with --to DIR"
    case $to in /*) ;; *) to=$PWD/$to ;; esac
    manifest=$to/share/cudarun/installed
    if [ -n "$uninstall" ]; then take_away; else build_and_install; fi
}

build_and_install() {
    command -v cargo >/dev/null || fail "cargo was not found: install Rust (https://rustup.rs), then run this again"
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    target=${CARGO_TARGET_DIR:-$here/target}
    case $target in /*) ;; *) target=$PWD/$target ;; esac
    (cd "$here" && CARGO_TARGET_DIR=$target cargo build --release --locked)
    # What an earlier install has left, another version perhaps, goes first.
    [ ! -f "$manifest" ] || take_away >/dev/null
    made=
    directory "$(dirname "$manifest")"
    put "$target/release/cudarun" bin/cudarun 755
    put "$here/completions/cudarun.bash" share/bash-completion/completions/cudarun 644
    put "$here/completions/_cudarun" share/zsh/site-functions/_cudarun 644
    put "$here/completions/cudarun.fish" share/fish/vendor_completions.d/cudarun.fish 644

    echo "installed $("$to/bin/cudarun" --version) in $to/bin, with completions for bash, zsh and fish"
    case :$PATH: in
    *:"$to/bin":*) ;;
    *) echo "$to/bin is not on PATH: add this line to your shell's start-up file
    export PATH=\"$to/bin:\$PATH\"" ;;
    esac
}

# put FILE PLACE MODE: by rename, so that a cudarun that is running keeps its file.
put() {
    directory "$(dirname "$to/$2")"
    remember f "$to/$2.new"
    cp "$1" "$to/$2.new"
    chmod "$3" "$to/$2.new"
    remember f "$to/$2"
    mv -f "$to/$2.new" "$to/$2"
}

# Makes a directory and those above it, and remembers which were not there.
directory() {
    [ ! -d "$1" ] || return 0
    directory "$(dirname "$1")"
    mkdir "$1"
    remember d "$1"
}

# Writes down at once what is about to be there: an install that stops half-way can be taken away too.
remember() {
    made="$1 $2
$made"
    [ ! -d "$(dirname "$manifest")" ] || printf '%s' "$made" >"$manifest"
}

take_away() {
    [ -f "$manifest" ] || fail "nothing is installed in $to"
    list=$(cat "$manifest")
    each f "$list" | while read -r path; do rm -f "$path"; done
    rm "$manifest"
    # What others have put there since stays.
    each d "$list" | while read -r path; do rmdir "$path" 2>/dev/null || true; done
    echo "took cudarun away from $to; what it kept between runs is in ${XDG_CACHE_HOME:-~/.cache}/cudarun"
}

# each KIND LIST: the paths of a kind, the last made first.
each() {
    printf '%s\n' "$2" | sed -n "s/^$1 //p"
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

main "$@"
