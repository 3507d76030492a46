#!/bin/sh
# Builds cudarun and installs it with its completions; needs no root.
#
#   ./install.sh               into ~/.local
#   ./install.sh --to DIR      into DIR
#   ./install.sh --uninstall   takes it away again (with the same --to)
set -eu

main() {
    to=${HOME:?install.sh needs HOME, or --to DIR}/.local
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
    case $to in /*) ;; *) to=$PWD/$to ;; esac
    manifest=$to/share/cudarun/installed
    if [ -n "$uninstall" ]; then take_away; else build_and_install; fi
}

build_and_install() {
    command -v cargo >/dev/null || fail "cargo was not found: install Rust (https://rustup.rs), then run this again"
    here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    (cd "$here" && cargo build --release --locked)
    built=${CARGO_TARGET_DIR:-$here/target}/release/cudarun
    # What an earlier install has left, another version perhaps, goes first.
    [ ! -f "$manifest" ] || take_away >/dev/null
    made=
    put "$built" bin/cudarun 755
    put "$here/completions/cudarun.bash" share/bash-completion/completions/cudarun 644
    put "$here/completions/_cudarun" share/zsh/site-functions/_cudarun 644
    put "$here/completions/cudarun.fish" share/fish/vendor_completions.d/cudarun.fish 644
    directory "$(dirname "$manifest")"
    printf '%s' "$made" >"$manifest"

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
    cp "$1" "$to/$2.new"
    chmod "$3" "$to/$2.new"
    mv -f "$to/$2.new" "$to/$2"
    made="f $to/$2
$made"
}

# Makes a directory and those above it, and remembers which were not there.
directory() {
    [ ! -d "$1" ] || return 0
    directory "$(dirname "$1")"
    mkdir "$1"
    made="d $1
$made"
}

take_away() {
    [ -f "$manifest" ] || fail "nothing is installed in $to"
    list=$(cat "$manifest")
    rm "$manifest"
    printf '%s\n' "$list" | while read -r kind path; do
        case $kind in
        f) rm -f "$path" ;;
        # What others have put there since stays.
        d) rmdir "$path" 2>/dev/null || true ;;
        esac
    done
    echo "took cudarun away from $to; what it kept between runs is in ${XDG_CACHE_HOME:-~/.cache}/cudarun"
}

fail() {
    echo "install.sh: $1" >&2
    exit 1
}

main "$@"
