#!/bin/sh
# Installs cudarun with its completions and its manual page; needs no root, and edits no file of yours.
set -eu

usage() {
    cat <<'END'
Installs cudarun with its completions and its manual page; needs no root, and edits no file of yours.

  ./install.sh                   into ~/.local: built here with cargo, or what an unpacked release archive holds
  ./install.sh --to DIR          into DIR
  ./install.sh --archive FILE    from a release archive, also by http(s); FILE.sha256 beside it, or --sha256 SUM
  ./install.sh --archive DIR     from the archive in DIR for this machine; by http(s), DIR has SHA256SUMS
  ./install.sh --uninstall       removes it again (with the same --to)

From a pipe: curl -fsSL ADDRESS/install.sh | sh -s -- --archive ADDRESS
END
}

main() {
    # In a pipe, $0 is the shell: nothing lies beside that.
    if grep -qs '^# Installs cudarun ' "$0"; then
        me=$0 here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
    else
        me="... | sh -s --" here=''
    fi
    to=${HOME:+$HOME/.local} uninstall='' archive='' sum=''
    while [ $# -gt 0 ]; do
        case $1 in
        --to | --archive | --sha256)
            case ${2-} in '' | -*) fail "$1 needs a value" "see $me --help" ;; esac
            value "$1" "$2"
            shift
            ;;
        --to=* | --archive=* | --sha256=*)
            [ -n "${1#*=}" ] || fail "${1%%=*} needs a value" "see $me --help"
            value "${1%%=*}" "${1#*=}"
            ;;
        --uninstall) uninstall=yes ;;
        -h | --help)
            usage
            exit 0
            ;;
        *) fail "unknown option $1" "see $me --help" ;;
        esac
        shift
    done
    [ -n "$to" ] || fail "HOME is not set" "say where with --to DIR"
    case $to in /*) ;; *) to=$PWD/$to ;; esac
    case $to in *"
"*) fail "a line end in the name of a directory" "choose another one with --to DIR" ;; esac
    # What is installed is remembered by name: without the slashes and dots that change nothing, a file has one.
    to=$(printf '%s/' "$to" | sed -e ':again' -e 's|/\.\{0,1\}/|/|g' -e 't again')
    to=${to%/}
    [ -z "$uninstall" ] || [ -z "$archive$sum" ] || fail "nothing is installed by --uninstall" "leave out --archive and --sha256"
    [ -z "$sum" ] || [ -n "$archive" ] || fail "--sha256 says the checksum of no archive" "name one with --archive FILE"
    manifest=$to/share/cudarun/installed
    if [ -n "$uninstall" ]; then
        take_away
    else
        look_first
        if [ -n "$archive" ]; then
            unpack
        elif [ -z "$here" ]; then
            fail "there is nothing to install beside a script from a pipe" "name a release archive: $me --archive ADDRESS"
        elif [ -f "$here/Cargo.toml" ]; then
            build
        else
            of_archive "$here" ||
                fail "there is nothing to install beside $0" "name a release archive with --archive FILE"
        fi
        install
        tell
    fi
}

value() {
    case $1 in
    --to) to=$2 ;;
    --archive) archive=$2 ;;
    --sha256) sum=$2 ;;
    esac
}

# The files to install. A variable holds where each of them is now.
places="bin/cudarun lib/cudarun/follow.so share/man/man1/cudarun.1 share/bash-completion/completions/cudarun
    share/zsh/site-functions/_cudarun share/fish/vendor_completions.d/cudarun.fish"

# Reports everything that would stop it half-way before it changes anything.
look_first() {
    for place in $places; do
        path=$to/$place
        if [ -e "$path" ] || [ -L "$path" ]; then
            # An uninstalled one has left its module.
            grep -qxF "f $path" "$manifest" 2>/dev/null || [ "$place" = lib/cudarun/follow.so ] ||
                fail "$path is there, and it is not of an earlier ./install.sh" \
                    "move it away, or choose another place with --to DIR"
        fi
        above=$(dirname "$path")
        while [ ! -e "$above" ] && [ ! -L "$above" ]; do above=$(dirname "$above"); done
        [ -d "$above" ] || fail "$above is in the way: it is no directory" "choose another place with --to DIR"
        [ -w "$above" ] || fail "you may not write in $above" "choose another place with --to DIR"
    done
}

build() {
    command -v cargo >/dev/null ||
        fail "cargo was not found" "install Rust (https://rustup.rs), or take a release archive: $me --archive FILE"
    target=${CARGO_TARGET_DIR:-$here/target}
    case $target in /*) ;; *) target=$PWD/$target ;; esac
    echo "building cudarun with cargo: about 5 minutes of processor time, once"
    # On a terminal, cargo shows how far it is.
    quiet=--quiet
    [ ! -t 2 ] || quiet=
    alive=
    if [ -n "$quiet" ]; then
        # What is left of the sleep at the end must keep no pipe open.
        (minutes=0 && while sleep 60 >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do
            minutes=$((minutes + 1)) && echo "still building after $minutes min"
        done) &
        alive=$!
        trap 'kill "$alive" 2>/dev/null || true' EXIT
        trap 'exit 1' HUP INT TERM
    fi
    (cd "$here" && CARGO_TARGET_DIR=$target cargo build $quiet --release --locked)
    [ -z "$alive" ] || kill "$alive" 2>/dev/null || true
    alive=
    program=$target/release/cudarun manual=$here/docs/cudarun.1
    bash=$here/completions/cudarun.bash zsh=$here/completions/_cudarun fish=$here/completions/cudarun.fish
}

# of_archive DIRECTORY: whether it is an unpacked release archive, whose files lie as they will.
of_archive() {
    program=$1/bin/cudarun manual=$1/share/man/man1/cudarun.1
    bash=$1/share/bash-completion/completions/cudarun zsh=$1/share/zsh/site-functions/_cudarun
    fish=$1/share/fish/vendor_completions.d/cudarun.fish
    [ -f "$program" ] && [ -f "$manual" ] && [ -f "$bash" ] && [ -f "$zsh" ] && [ -f "$fish" ] || return 1
    # The shell's own words for a refusal are in the language of the person.
    if said=$(LC_ALL=C env "$program" --version 2>&1); then return; fi
    case $said in
    *": Permission denied"*)
        fail "programs may not run in $1, as on a file system that is mounted noexec" \
            "export TMPDIR=DIR, with a directory where they may, and again: $me --archive FILE"
        ;;
    esac
    fail "the cudarun of this archive does not run here" \
        "archives are for x86_64 and aarch64 with glibc 2.17 or newer, and this is $(uname -m): build it: cargo install --path ."
}

unpack() {
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    trap 'exit 1' HUP INT TERM
    named="name a release archive: cudarun-VERSION-$(uname -m)-linux.tar.gz"
    look="look at the address, or fetch it yourself: $me --archive FILE"
    file=$archive
    case $archive in
    http://* | https://*)
        file=$work/archive
        case $archive in *.tar.gz | *.tar.gz\?*) ;; *) of_release ;; esac
        if [ -t 2 ]; then bar=yes; else bar=; fi
        echo "fetching $archive"
        fetch "$archive" "$file" $bar || fail "$archive cannot be had" "$look"
        [ -n "$sum" ] || fetch "$archive.sha256" "$file.sha256" || true
        ;;
    esac
    if [ -d "$file" ]; then
        for file in "$archive"/cudarun-*-"$(uname -m)"-linux.tar.gz; do
            [ -f "$file" ] || fail "$archive has no release archive for $(uname -m)" "$named"
            [ ! -f "$archive" ] || fail "several archives for $(uname -m) are there: $archive and $file" "name one of them"
            archive=$file
        done
    fi
    [ -f "$file" ] || fail "$archive is no file" "$named"
    if [ -z "$sum" ]; then
        [ -f "$file.sha256" ] ||
            fail "there is no $archive.sha256" \
                "put it there, or say with --sha256 SUM what the archive's checksum must be"
        read -r sum _ <"$file.sha256" || [ -n "$sum" ] ||
            fail "$archive.sha256 is empty" "fetch it again, or say --sha256 SUM"
    fi
    is=$(checksum "$file")
    [ -n "$is" ] || fail "neither sha256sum nor shasum was found" "install coreutils"
    [ "$is" = "$(printf %s "$sum" | tr A-F a-f)" ] ||
        fail "$archive is not what its checksum says: $is and not $sum" "fetch it again; do not use this one"
    mkdir "$work/unpacked"
    tar -xzf "$file" -C "$work/unpacked" || fail "$archive cannot be unpacked" "$named"
    for inside in "$work/unpacked"/*; do
        if of_archive "$inside"; then return; fi
    done
    fail "$archive is no release archive of cudarun" "$named"
}

# Makes of the address of a release that of its archive for this machine, whose checksum SHA256SUMS has.
of_release() {
    fetch "${archive%/}/SHA256SUMS" "$work/sums" || fail "${archive%/}/SHA256SUMS cannot be had" "$look"
    listed=$(sed -n "s/^\([0-9a-f]*\) [ *]\(cudarun-[0-9A-Za-z.+-]*-$(uname -m)-linux\.tar\.gz\)\$/\1 \2/p" "$work/sums" | tail -n 1)
    [ -n "$listed" ] || fail "$archive has no release archive for $(uname -m)" "$named"
    sum=${sum:-${listed% *}}
    archive=${archive%/}/${listed#* }
}

# fetch ADDRESS FILE [BAR]: with a third word, it shows how far it is.
fetch() {
    if command -v curl >/dev/null; then
        if [ $# -gt 2 ]; then curl -fL -# -o "$2" "$1"; else curl -fsSL -o "$2" "$1"; fi
    elif command -v wget >/dev/null; then
        if [ $# -gt 2 ]; then wget -O "$2" "$1"; else wget -q -O "$2" "$1"; fi
    else
        fail "neither curl nor wget was found" "fetch the archive yourself: $me --archive FILE"
    fi
}

checksum() {
    if command -v sha256sum >/dev/null; then sha256sum <"$1"; else shasum -a 256 <"$1"; fi | sed 's/ .*//'
}

install() {
    before=
    [ ! -f "$manifest" ] || before=$(cat "$manifest")
    made=$before
    directory "$(dirname "$manifest")"
    put "$program" bin/cudarun 755
    # The module that the loader of each program below cudarun reads: it names this cudarun.
    module=$(mktemp)
    "$to/bin/cudarun" --module-for "$(readlink -f "$to/bin/cudarun")" >"$module"
    put "$module" lib/cudarun/follow.so 644
    rm -f "$module"
    put "$manual" share/man/man1/cudarun.1 644
    put "$bash" share/bash-completion/completions/cudarun 644
    put "$zsh" share/zsh/site-functions/_cudarun 644
    put "$fish" share/fish/vendor_completions.d/cudarun.fish 644
    # Files that another version had and this one lacks.
    each f "$before" | while read -r path; do
        is_ours=
        for place in $places; do [ "$path" != "$to/$place" ] || is_ours=yes; done
        [ -n "$is_ours" ] || rm -f "$path"
    done
    made=$(each d "$made" | sed 's/^/d /')
    for place in $places; do remember f "$to/$place"; done
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
    mkdir "$1" 2>/dev/null || fail "$1 cannot be made" "choose another place with --to DIR"
    remember d "$1"
}

# Writes down at once what is about to be there: `--uninstall` can then remove an install that stopped
# half-way.
remember() {
    made="$1 $2
$made"
    [ ! -d "$(dirname "$manifest")" ] || printf '%s\n' "$made" >"$manifest"
}

# Reports what it did, and the lines that a person may want to add.
tell() {
    echo "installed $("$to/bin/cudarun" --version):"
    for place in $places; do printf '    %s\n' "$to/$place"; done
    shell=${SHELL-}
    shell=${shell##*/}
    # shellcheck disable=SC2088  # it is only printed
    case $shell in
    bash) file='~/.bashrc' hook="eval \"\$(cudarun hook bash --follow)\"" ;;
    zsh) file='~/.zshrc' hook="eval \"\$(cudarun hook zsh --follow)\"" ;;
    fish) file='~/.config/fish/config.fish' hook='cudarun hook fish --follow | source' ;;
    *) file="your shell's start-up file" hook='' ;;
    esac
    case :$PATH: in
    *:"$to/bin":*)
        first=$(command -v cudarun || true)
        [ "$first" = "$to/bin/cudarun" ] || echo "note: \`cudarun\` is still $first, which comes before it on PATH"
        ;;
    *)
        case $shell in
        fish) line "so that cudarun is found" "fish_add_path $(quoted "$to/bin")" ;;
        *) line "so that cudarun is found" "export PATH=$(quoted "$to/bin"):\"\$PATH\"" ;;
        esac
        ;;
    esac
    case $shell in
    bash)
        is_data_directory && only=", where bash-completion is not in use" || only=
        line "for completions$only" ". $(quoted "$to/share/bash-completion/completions/cudarun")"
        ;;
    zsh)
        if ! zsh -f -c 'print -l $fpath' 2>/dev/null | grep -qxF "$to/share/zsh/site-functions"; then
            line "for completions, above the line with compinit" \
                "fpath=($(quoted "$to/share/zsh/site-functions") \$fpath)"
            line "for completions, where there is no such line yet" "autoload -Uz compinit && compinit"
        fi
        ;;
    fish)
        is_data_directory ||
            line "for completions" "source $(quoted "$to/share/fish/vendor_completions.d/cudarun.fish")"
        ;;
    esac
    [ -z "$hook" ] || line "if you like: in a project, whatever you start is served; without --follow, it only warns" "$hook"
    next=cudarun
    [ "$(command -v cudarun)" = "$to/bin/cudarun" ] || next=$(quoted "$to/bin/cudarun")
    echo "next: $next doctor"
}

line() {
    printf 'add to %s (%s):\n    %s\n' "$file" "$1" "$2"
}

# Succeeds if bash and fish look for completions in this share/.
is_data_directory() {
    case :${XDG_DATA_HOME:-${HOME-}/.local/share}:${XDG_DATA_DIRS:-/usr/local/share:/usr/share}: in
    *:"$to/share":* | *:"$to/share/":*) return 0 ;;
    esac
    return 1
}

# A path as a word of any of these shells.
quoted() {
    case $1 in
    *[!A-Za-z0-9_./+-]*)
        case $shell in
        fish) printf "'%s'" "$(printf %s "$1" | sed "s/[\\\\']/\\\\&/g")" ;;
        *) printf "'%s'" "$(printf %s "$1" | sed "s/'/'\\\\''/g")" ;;
        esac
        ;;
    *) printf %s "$1" ;;
    esac
}

take_away() {
    [ -f "$manifest" ] || fail "nothing is installed in $to" "say where it is with --to DIR"
    shell=
    program=$to/bin/cudarun
    # Hooks write its real name.
    real=$(readlink -f "$program") || real=$program
    # A kernel or a service that starts it would start no more.
    for file in "${JUPYTER_DATA_DIR:-${XDG_DATA_HOME:-${HOME-}/.local/share}/jupyter}"/kernels/*/kernel.json \
        "${XDG_CONFIG_HOME:-${HOME-}/.config}"/systemd/user/*.d/zz-cudarun.conf /etc/systemd/system/*.d/zz-cudarun.conf; do
        grep -qF -e "$program" -e "$real" "$file" 2>/dev/null || continue
        unit=$(basename "${file%.d/*}")
        case $file in
        *.json) undo="hook jupyter --uninstall" ;;
        /etc/*) undo="hook systemd $unit --uninstall" ;;
        *) undo="hook systemd --user $unit --uninstall" ;;
        esac
        fail "$file starts it" "first: $(quoted "$program") $undo"
    done
    list=$(cat "$manifest")
    # The module stays, also where the list has another name of the directory.
    module=$to/lib/cudarun/follow.so
    each f "$list" | while read -r path; do
        case $path in */lib/cudarun/follow.so) ;; *) rm -f "$path" ;; esac
    done
    rm "$manifest"
    # Files that others have put there since stay.
    each d "$list" | while read -r path; do rmdir "$path" 2>/dev/null || true; done
    echo "removed cudarun from $to; what it kept between runs is in ${XDG_CACHE_HOME:-${HOME-}/.cache}/cudarun,"
    echo "and what was allowed in ${XDG_CONFIG_HOME:-${HOME-}/.config}/cudarun"
    config=${XDG_CONFIG_HOME:-${HOME-}/.config}
    zsh=${ZDOTDIR:-${HOME-}}
    for file in "${HOME-}"/.bashrc "${HOME-}"/.bash_profile "${HOME-}"/.profile "$zsh"/.zshenv "$zsh"/.zprofile "$zsh"/.zshrc \
        "$config/fish/config.fish"; do
        lines=$(grep -n cudarun "$file" 2>/dev/null) || continue
        printf 'unless they are for another cudarun, remove from %s:\n%s\n' "$file" "$lines"
    done
    # For all users; it may be of another cudarun.
    file=/etc/profile.d/cudarun.sh
    ! grep -qF -e "$module" -e "${real%/bin/cudarun}/lib/cudarun/follow.so" "$file" 2>/dev/null ||
        printf 'login shells still read what it wrote; to remove that:\n    rm %s\n' "$file"
    [ ! -f "$module" ] || printf '%s\n    %s\n' \
        "programs that are running may still name $module, which does nothing now; when they have ended (after a restart at the latest):" \
        "rm -r $(quoted "$to/lib/cudarun")"
    store=${XDG_DATA_HOME:-${HOME-}/.local/share}/cudarun/store
    [ ! -d "$store" ] || printf 'fetched wheels (%s) are still in %s; to remove them:\n    %s\n' \
        "$(du -sh "$store" 2>/dev/null | sed 's/[[:space:]].*//')" "$store" \
        "chmod -R u+w $(quoted "$store") && rm -r $(quoted "$store")"
}

# each KIND LIST: the paths of a kind, the last made first.
each() {
    printf '%s\n' "$2" | sed -n "s/^$1 //p"
}

fail() {
    printf 'install.sh: %s\nhint: %s\n' "$1" "$2" >&2
    exit 1
}

main "$@"
