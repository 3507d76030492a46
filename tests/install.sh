#!/usr/bin/env bash
# Installs into a directory with files of its own, uses it from new shells, removes it, and compares; and what a
# person may do wrong: tests/install.sh
#
# Needs bash-completion, fish, zsh, groff, man-db, script, curl and python3.
set -euo pipefail
repository=$(realpath "$(dirname "$(realpath "$0")")/..")
install=$repository/install.sh
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
to="$work/a place"

tree() { (cd "$work" && find . -not -path './before*' -printf '%p %M %l\n' | sort; find . -type f -not -path './before*' -exec sha256sum {} + | sort) }
fail() {
    echo "tests/install.sh: $1" >&2
    exit 1
}
# refuses MESSAGE HINT COMMAND…: it ends with 1, says this and what to type, and has done nothing.
refuses() {
    local message=$1 hint=$2 said
    shift 2
    tree >"$work/before"
    if said=$("$@" 2>&1 >/dev/null); then fail "not refused: $*"; fi
    tree >"$work/before.after"
    [[ $said == *"install.sh: "*"$message"*$'\nhint: '*"$hint"* ]] || fail "\`$*\` says: $said"
    diff "$work/before" "$work/before.after" || fail "it leaves traces: $*"
}

# away COMMAND…: removes it, and then, as it says, the module that programs may still have named.
away() {
    local said hint
    said=$("$@")
    hint=$(grep -x "    rm -r .*lib/cudarun'\?" <<<"$said") || fail "\`$*\` does not say how to remove the module: $said"
    sh -c "$hint"
    rmdir -p --ignore-fail-on-non-empty "$(sed "s/^    rm -r '\?//; s/\/cudarun'\?$//; s/'\\\\''/'/g" <<<"$hint")"
}

# The manual page has no fault that a formatter sees.
[ -z "$(groff -man -Tutf8 -ww -z "$repository/docs/cudarun.1" 2>&1)" ] || fail "groff warns of docs/cudarun.1"
[ -z "$(LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$repository/docs/cudarun.1" 2>&1 >/dev/null)" ] || fail "man warns of docs/cudarun.1"

mkdir -p "$to/bin" "$to/share/fish"
echo mine >"$to/bin/other"
tree >"$work/before"

# on_terminal COMMAND: what it prints where a person looks on.
on_terminal() { SHELL=/bin/sh script -qec "$1" /dev/null </dev/null; }
"$install" --to "$to" >"$work/before.said" 2>"$work/before.shown"
grep -q '^building .* 5 minutes' "$work/before.said" || fail "it does not say how long it takes: $(cat "$work/before.said")"
[ ! -s "$work/before.shown" ] || fail "it shows progress to nobody: $(cat "$work/before.shown")"
on_terminal "'$install' --to '$to'" >"$work/before.shown"
grep -q 'Finished.*release' "$work/before.shown" || fail "it shows no progress of a build: $(cat "$work/before.shown")"
[ "$(tail -n 1 "$work/before.said")" = "next: '$to/bin/cudarun' doctor" ] || fail "it ends with $(tail -n 1 "$work/before.said")"
# It ends with 1 where there is no GPU.
[[ $(sh -c "$(sed -n '$s/^next: //p' "$work/before.said")" 2>&1 || true) == *"GPU programs"* ]] || fail "the next command does not start"
"$to/bin/cudarun" --version | grep -q '^cudarun ' || fail "the installed binary does not run"
[ "$("$to/bin/cudarun" echo works)" = works ] || fail "it does not start programs"
for file in lib/cudarun/follow.so share/man/man1/cudarun.1 share/bash-completion/completions/cudarun share/zsh/site-functions/_cudarun share/fish/vendor_completions.d/cudarun.fish; do
    [ -f "$to/$file" ] || fail "$file is not there"
done
# A release archive is such a tree; .ci/release makes the real one.
name=cudarun-0-$(uname -m)-linux
mkdir "$work/$name"
cp -r "$to/bin" "$to/share" "$install" "$work/$name"
rm -r "$work/$name/share/cudarun" "$work/$name/bin/other"
tar -C "$work" -czf "$work/$name.tar.gz" "$name"
tree >"$work/before.installed"
# Again over itself, over another version that had one file more, then away.
"$install" --to "$to" >/dev/null
tree | diff "$work/before.installed" - || fail "a second install is not like the first"
echo old >"$to/share/old"
echo "f $to/share/old" >>"$to/share/cudarun/installed"
"$install" --to "$to" >/dev/null
tree | diff "$work/before.installed" - || fail "what an older version had is still there"
# The module stays, since running programs may name it, and does nothing without its cudarun.
sh -c "$("$to/bin/cudarun" export --follow)"$'\n''exec python3 -c "print(1)"' | grep -qx 1 || fail "a followed program does not start"
# A kernel that starts it would start no more. One that starts another cudarun does not matter.
mkdir -p "$work/before.jupyter/kernels/mine"
kernel=$work/before.jupyter/kernels/mine/kernel.json
printf '{"argv": ["%s", "python3"]}\n' "$to/bin/cudarun" >"$kernel"
if said=$(JUPYTER_DATA_DIR=$work/before.jupyter "$install" --to "$to" --uninstall 2>&1); then fail "it leaves a kernel that starts no more"; fi
[[ $said == *"$kernel starts it"*"bin/cudarun' hook jupyter --uninstall" && -x $to/bin/cudarun ]] || fail "it says of a kernel: $said"
printf '{"argv": ["/other/bin/cudarun", "python3"]}\n' >"$kernel"
export JUPYTER_DATA_DIR=$work/before.jupyter
"$install" --to "$to" --uninstall >/dev/null
said=$(LD_AUDIT="$to/lib/cudarun/follow.so" CUDARUN_TREE=// python3 -c "print(1)" 2>&1)
[ "$said" = 1 ] || fail "what is left is not silent: $said"
"$install" --to "$to" >/dev/null
away "$install" --to "$to" --uninstall
rm -r "${work:?}/$name"
mv "$work/$name.tar.gz" "$work/before.tar.gz"
tree >"$work/before.after"
diff "$work/before" "$work/before.after" || fail "it leaves traces"
mv "$work/before.tar.gz" "$work/$name.tar.gz"

# In a new shell of each kind, with the lines that it says and no others: the program, its completions, its page.
in_new_shell() {
    env -i HOME="$home" PATH=/usr/bin:/bin TERM=dumb SHELL="/usr/bin/$shell" LC_ALL=C.UTF-8 "$@"
}
completes() {
    in_new_shell "$repository/tests/new_shell.py" "$shell" "cudarun expl" " --help" "cudarun explain [OPTIONS]"
}
add_lines() {
    while read -r line; do
        case $line in
        "next: "*) ;;
        "add to ~/"*) file=$home/${line#add to \~/} file=${file%% (*} ;;
        *) mkdir -p "$(dirname "$file")" && echo "$line" >>"$file" ;;
        esac
    done < <(sed -n '/^add to /,$p')
}
(cd "$work" && sha256sum "$name.tar.gz" >"$name.tar.gz.sha256")
for shell in bash zsh fish; do
    for prefix in .local "it's another"; do
        home="$work/home of $shell"
        # fish would read every manual page of the machine first, and zsh would ask what it should be like.
        mkdir -p "$home/.local/share/fish/generated_completions"
        touch "$home/.zshrc"
        said=$(in_new_shell "$install" --archive "$work/$name.tar.gz" --to "$home/$prefix")
        ! in_new_shell "$shell" -ic 'command -v cudarun' >/dev/null 2>&1 || fail "$shell: the control finds it"
        status=0; completes || status=$?; [ $status = 1 ] || fail "$shell: the control ends with $status"
        add_lines <<<"$said"
        found=$(in_new_shell "$shell" -ic 'command -v cudarun; man -w cudarun' 2>/dev/null)
        [ "$found" = "$home/$prefix/bin/cudarun"$'\n'"$home/$prefix/share/man/man1/cudarun.1" ] || fail "$shell finds $found"
        completes || fail "$shell does not complete"
        said=$(PATH=$home/$prefix/bin:$PATH "$install" --archive "$work/$name.tar.gz" --to "$home/$prefix" | tail -n 1)
        [ "$said" = "next: cudarun doctor" ] || fail "where cudarun is found, it ends with $said"
        away in_new_shell "$install" --uninstall --to "$home/$prefix"
        rm -r "$home"
    done
done
# bash-completion, where it is in use, finds them in ~/.local unasked.
home="$work/home" shell=bash
mkdir "$home"
in_new_shell "$install" --archive "$work/$name.tar.gz" >/dev/null
printf '%s\n' '. /usr/share/bash-completion/bash_completion' "PATH=\"\$HOME/.local/bin:\$PATH\"" >"$home/.bashrc"
completes || fail "bash-completion does not find it"
# shellcheck disable=SC2016  # a line as a person adds it
echo 'eval "$(cudarun hook bash)"' >>"$home/.bashrc"
for file in .zshenv .zprofile; do echo "# of cudarun" >"$home/$file"; done
said=$(in_new_shell "$install" --uninstall)
# shellcheck disable=SC2016
[[ $said == *"remove from $home/.bashrc:"$'\n3:eval "$(cudarun hook bash)"\n'* ]] || fail "it does not say which line is left: $said"
for file in .zshenv .zprofile; do
    [[ $said == *"remove from $home/$file:"$'\n1:# of cudarun\n'* ]] || fail "it does not say that a line is left in $file: $said"
    rm "$home/$file"
done
rm -r "$home/.local/lib/cudarun" && rmdir "$home/.local/lib" "$home/.local"
[ "$(ls -A "$home")" = .bashrc ] || fail "it leaves traces in a home"
rm -r "$home"

# An archive, by http, unpacked, and not as it should be.
archive=$work/$name.tar.gz
sum=$(sha256sum <"$archive" | cut -d ' ' -f 1)
python3 -u -m http.server --bind 127.0.0.1 --directory "$work" 0 >"$work/before.http" 2>&1 &
server=$!
trap 'kill $server; rm -rf "$work"' EXIT
until port=$(grep -o 'port [0-9]*' "$work/before.http"); do sleep 0.1; done
address=http://127.0.0.1:${port#port }/$name.tar.gz
takes() {
    "$install" --to "$to" "$@" >/dev/null || fail "not with $*"
    "$to/bin/cudarun" --version >/dev/null || fail "with $*, the binary does not run"
    away "$install" --to "$to" --uninstall
}
takes --archive "$archive"
takes --archive "$address"
# With a bar on a terminal, and one line of it elsewhere.
[ "$("$install" --to "$to" --archive "$address" 2>&1 | grep -c 'fetching\|#')" = 1 ] || fail "a download is not one line"
on_terminal "'$install' --to '$to' --archive $address" >"$work/before.shown"
grep -q '##.*100[.,]0%' "$work/before.shown" || fail "a download shows no bar: $(cat "$work/before.shown")"
away "$install" --to "$to" --uninstall
# From a pipe, in a directory with other sources: with the address of a release, too.
release=${address%/*}/release/
mkdir "$work/release" "$work/elsewhere"
cp "$archive" "$work/release"
(cd "$work/release" && sha256sum -- * >SHA256SUMS && echo "$sum  cudarun-0-zzz-linux.tar.gz" >>SHA256SUMS)
touch "$work/elsewhere/Cargo.toml"
piped() { (cd "$work/elsewhere" && sh -s -- --to "$to" "$@" <"$install"); }
for from in "$archive" "$address" "$release" "${release%/}"; do
    piped --archive "$from" >"$work/before.said" || fail "not from a pipe with $from"
    [[ $(sh -c "$(sed -n '$s/^next: //;$s/doctor$/--version/p' "$work/before.said")") == "cudarun "* ]] || fail "from a pipe, it ends with $(tail -n 1 "$work/before.said")"
    away piped --uninstall
done
refuses "is not what its checksum says" "fetch it again" piped --archive "$release" --sha256 "${sum/[0-9]/f}"
refuses "nothing to install beside a script from a pipe" "| sh -s -- --archive ADDRESS" piped
refuses "unknown option --nonsense" "| sh -s -- --help" piped --nonsense
echo "$sum  cudarun-0-zzz-linux.tar.gz" >"$work/release/SHA256SUMS"
refuses "has no release archive for $(uname -m)" "cudarun-VERSION" piped --archive "$release"
rm "$work/release/SHA256SUMS"
refuses "SHA256SUMS cannot be had" "look at the address" piped --archive "$release"
[[ $(piped --help) == *"--archive FILE"* ]] || fail "from a pipe, there is no help"
mv "$archive.sha256" "$work/aside"
takes --archive "$archive" --sha256 "$sum"
takes --archive="$address" --sha256="${sum^^}"
mv "$work/aside" "$archive.sha256"
mkdir "$work/several"
cp "$archive" "$archive.sha256" "$work/several"
touch "$work/several/cudarun-0-"{aaa,zzz}-linux.tar.gz
takes --archive "$work/several"
cp "$archive" "$work/several/${name/-0-/-1-}.tar.gz"
refuses "several archives" "name one" "$install" --to "$to" --archive "$work/several"
tar -C "$work" -xzf "$archive"
(cd / && env PATH=/usr/bin:/bin "$work/$name/install.sh" --to "$to" >/dev/null) || fail "not from an unpacked archive"
away "$work/$name/install.sh" --to "$to" --uninstall
mkdir "$work/first"
cp "$(type -P true)" "$work/first/cudarun"
said=$(PATH=$work/first:$to/bin:$PATH "$install" --to "$to" --archive "$archive")
[[ $said == *"still $work/first/cudarun, which comes before it"* ]] || fail "another cudarun comes first, and it says: $said"
said=$(PATH=$to/bin:$work/first:$PATH "$install" --to "$to" --archive "$archive")
[[ $said != *still* ]] || fail "the control: it comes first, and it says: $said"
away "$install" --to "$to" --uninstall
cp "$archive" "$work/other.tar.gz"
refuses "there is no $work/other.tar.gz.sha256" "--sha256 SUM" "$install" --to "$to" --archive "$work/other.tar.gz"
sha256sum "$install" >"$work/other.tar.gz.sha256"
refuses "is not what its checksum says" "fetch it again" "$install" --to "$to" --archive "$work/other.tar.gz"
refuses "is not what its checksum says" "fetch it again" "$install" --to "$to" --archive "$address" --sha256 "${sum/[0-9]/f}"
: >"$work/other.tar.gz.sha256"
refuses "other.tar.gz.sha256 is empty" "--sha256" "$install" --to "$to" --archive "$work/other.tar.gz"
refuses "cannot be had" "look at the address" "$install" --to "$to" --archive "$address.nowhere"
refuses "is no file" "cudarun-VERSION" "$install" --to "$to" --archive "$work/nowhere"
mkdir "$work/none"
refuses "has no release archive for $(uname -m)" "cudarun-VERSION-$(uname -m)" "$install" --to "$to" --archive "$work/none"
tar -C "$work" -czf "$work/other.tar.gz" other.tar.gz.sha256
(cd "$work" && sha256sum other.tar.gz >other.tar.gz.sha256)
refuses "is no release archive of cudarun" "cudarun-VERSION" "$install" --to "$to" --archive "$work/other.tar.gz"
echo text >"$work/$name/bin/cudarun"
refuses "does not run here" "cargo install" "$work/$name/install.sh" --to "$to"
rm -r "${work:?}/$name"
mkdir "$work/alone"
cp "$install" "$work/alone"
refuses "nothing to install beside" "--archive FILE" "$work/alone/install.sh" --to "$to"

# No cargo, files of another owner, no permission to write, no space.
refuses "cargo was not found" "--archive FILE" env PATH=/usr/bin:/bin "$install" --to "$to"
ln -s /nowhere "$to/bin/cudarun"
refuses "is not of an earlier ./install.sh" "--to DIR" "$install" --to "$to"
rm "$to/bin/cudarun"
echo mine >"$to/share/zsh"
refuses "it is no directory" "--to DIR" "$install" --to "$to"
rm "$to/share/zsh"
if [ "$(id -u)" = 0 ]; then
    cp "$install" "$archive" "$archive.sha256" "$work/alone"
    chmod 755 "$work" "$work/alone"
    refuses "you may not write in" "--to DIR" setpriv --reuid 65534 --clear-groups "$work/alone/install.sh" --to "$to" --archive "$work/alone/$name.tar.gz"
fi
refuses "unknown option --nonsense" "--help" "$install" --nonsense
refuses "--to needs a value" "--help" "$install" --to
refuses "HOME is not set" "--to DIR" env -u HOME "$install"
refuses "nothing is installed" "--to DIR" "$install" --to "$to" --uninstall

# The directory has several names: by a link, with dots and slashes, from where it is called. Hooks know its real one.
ln -s "$work" "$work/before.link"
in_work() { (cd "$work" && "$@"); }
drop_in=$work/before.config/systemd/user/model.service.d/zz-cudarun.conf
mkdir -p "$(dirname "$drop_in")"
uninstalled_as() { in_work env XDG_CONFIG_HOME="$work/before.config" "$install" --to "$1" --uninstall; }
tree >"$work/before.names"
for names in "$work/before.link/a place|$to" "$to|$work/before.link/a place" "$to//|./a place" "./a place/.|a place/"; do
    in_work "$install" --to "${names%|*}" --archive "$archive" >/dev/null
    real=$(realpath "$to/bin/cudarun")
    printf '{"argv": ["%s", "python3"]}\n' "$real" >"$kernel"
    refuses "$kernel starts it" "hook jupyter --uninstall" uninstalled_as "${names#*|}"
    printf '{"argv": ["/other/bin/cudarun", "python3"]}\n' >"$kernel"
    printf '[Service]\nExecStart="%s" /model\n' "$real" >"$drop_in"
    refuses "$drop_in starts it" "hook systemd --user model.service --uninstall" uninstalled_as "${names#*|}"
    rm "$drop_in"
    uninstalled_as "${names#*|}" >/dev/null
    [ -f "$to/lib/cudarun/follow.so" ] || fail "installed as ${names%|*} and removed as ${names#*|}, the module is gone"
    rm -r "$to/lib/cudarun" && rmdir "$to/lib"
    tree >"$work/before.after"
    diff "$work/before.names" "$work/before.after" || fail "it leaves traces under the names $names"
done
in_work "$install" --to "$to//" --archive "$archive" >/dev/null
in_work "$install" --to "./a place" --archive "$archive" >/dev/null || fail "it does not know its own files by another name"
away "$install" --to "$to" --uninstall

if [ "$(id -u)" = 0 ]; then
    # on_tmpfs OPTIONS DIRECTORY COMMAND…: with an empty file system there.
    # shellcheck disable=SC2016
    on_tmpfs() { unshare --mount --propagation private sh -euc 'mount -t tmpfs -o "$1" none "$2"; shift 2; "$@"' sh "$@"; }
    # Where programs may not run from the temporary directory, and where they may.
    mkdir "$work/tmp"
    for options in noexec exec; do
        set -- on_tmpfs $options "$work/tmp" env TMPDIR="$work/tmp" "$install" --to "$to" --archive "$archive"
        if [ $options = noexec ]; then
            refuses "programs may not run in $work/tmp" "export TMPDIR=DIR" "$@"
        else
            "$@" >/dev/null || fail "not with a temporary directory of its own"
        fi
    done
    rmdir "$work/tmp"
    # The file for all users, where it is of this cudarun and where it is of another one.
    # shellcheck disable=SC2016
    profile='"$1/bin/cudarun" export --follow | sed "s,$1/lib,$2/lib,g" >/etc/profile.d/cudarun.sh; "$3" --to "$1" --uninstall'
    for of in "$work/plain" /other; do
        "$install" --to "$work/plain" --archive "$archive" >/dev/null
        said=$(on_tmpfs mode=755 /etc/profile.d sh -euc "$profile" sh "$work/plain" "$of" "$install")
        [ "$of" = "$(grep -qx '    rm /etc/profile.d/cudarun.sh' <<<"$said" && echo "$work/plain" || echo /other)" ] ||
            fail "where the file for all users is of $of, it says: $said"
    done
    rm -r "$work/plain"
fi

# What `fetch` has downloaded stays, and is named with the command that removes it. Without a store, nothing is said of one.
"$install" --to "$to" >/dev/null
XDG_DATA_HOME="$work/data" "$install" --to "$to" --uninstall | grep -q "fetched wheels" && fail "there is no store"
"$install" --to "$to" >/dev/null
mkdir -p "$work/data/cudarun/store/entry"
chmod 555 "$work/data/cudarun/store/entry"
removal=$(XDG_DATA_HOME="$work/data" "$install" --to "$to" --uninstall | sed -n '/^fetched wheels (/{n;p}')
sh -c "$removal"
[ ! -e "$work/data/cudarun/store" ] || fail "the command does not remove the store: $removal"
rm -r "$work/data" "${to:?}/lib"

# Half-way: no file may grow to the size of the binary, as on a disk that is full.
tar -C "$work" -xzf "$archive"
tree >"$work/before"
if (ulimit -f 64 && "$work/$name/install.sh" --to "$to") >/dev/null 2>&1; then fail "the control: there is room"; fi
[ -f "$to/share/cudarun/installed" ] || fail "the control: it came half-way"
"$install" --to "$to" --uninstall >/dev/null
tree >"$work/before.after"
diff "$work/before" "$work/before.after" || fail "an install that stopped half-way leaves traces"

# Without a home, and with a target directory that is relative to where it is called.
ln -s "$(realpath "${CARGO_TARGET_DIR:-$repository/target}")" "$work/built"
(cd "$work" && env -u HOME CARGO_TARGET_DIR=built "$install" --to "$to" >/dev/null) || fail "it needs a home"
"$to/bin/cudarun" --version >/dev/null || fail "the installed binary does not run"
env -u HOME "$install" --help | grep -q -- --to || fail "--help needs a home"
away env -u HOME "$install" --to "$to" --uninstall
echo "install.sh: installed, used from new shells, and taken away without a trace"
