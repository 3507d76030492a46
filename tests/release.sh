#!/usr/bin/env bash
# Makes every package of a release and tries it as docs/install.md says, whose blocks it runs: tests/release.sh
#
# Needs cargo, python3 with venv, gcc, man-db, binutils and what .ci/release needs; root for the Debian package, and with mmdebstrap
# for the older systems. What is for aarch64 is installed by tests/arm/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
checkout=$PWD
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Paths of the user's that are found from HOME, which is another one below.
export CARGO_HOME=${CARGO_HOME:-$HOME/.cargo} RUSTUP_HOME=${RUSTUP_HOME:-$HOME/.rustup}
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_QUIET=1 UV_PYTHON_DOWNLOADS=never
target=$(realpath -m "${CARGO_TARGET_DIR:-target}")
cache=${XDG_CACHE_HOME:-$HOME/.cache}/cudarun-tests

fail() {
    echo "tests/release.sh: $1" >&2
    exit 1
}
step() { printf -- '-- %s (%d s)\n' "$1" "$SECONDS"; }
# block NAME: the text of this block of docs/install.md.
block() {
    local text
    text=$(sed -n "/^<!-- run by tests\/release.sh as $1 -->\$/,/^\`\`\`\$/p" "$checkout/docs/install.md" | sed '1,2d;$d')
    [ -n "$text" ] || fail "docs/install.md has no block $1"
    printf '%s\n' "$text"
}
# follow DIRECTORY NAME: runs the block there, in a home of its own.
follow() {
    step "$2"
    (cd "$1" && HOME=$home sh -euc "$(block "$2")") >"$work/said" 2>&1 || { cat "$work/said" && fail "the block $2"; }
}
tree() { (cd "$1" && find . -printf '%p %M %l\n' | sort); }
# works PREFIX: the program, completions and manual page are there and are what they should be.
works() {
    local page zsh
    [ "$("$1/bin/cudarun" sh -c 'echo works')" = works ] || fail "$1/bin/cudarun does not start programs"
    ! grep -q CUDARUN_TEST_FAULT "$(realpath "$1/bin/cudarun")" || fail "$1/bin/cudarun has faults for tests"
    [ "$("$1/bin/cudarun" --version)" = "cudarun $version" ] || fail "$1/bin/cudarun is another version"
    page=$(env -u MANPATH PATH="$1/bin:/usr/bin:/bin" man -w cudarun) || fail "no manual page with $1"
    zcat -f "$page" | cmp - docs/cudarun.1 || fail "$page is another page"
    cmp completions/cudarun.bash "$1/share/bash-completion/completions/cudarun"
    cmp completions/cudarun.fish "$1/share/fish/vendor_completions.d/cudarun.fish"
    # Debian's place of it is another.
    zsh=$1/share/zsh/site-functions/_cudarun
    [ -f "$zsh" ] || zsh=$1/share/zsh/vendor-completions/_cudarun
    cmp completions/_cudarun "$zsh"
}

home=$work/home
mkdir "$home" "$work/built"
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml | head -n 1)

step "the packages"
.ci/release "$work/built" >"$work/files"
cat "$work/files"
[ "$(wc -l <"$work/files")" = 7 ] || fail "seven files are a release"
step "the packages again"
.ci/release "$work/again" >/dev/null
cat "$work/again"/*.sha256 | diff - <(cat "$work/built"/*.sha256) || fail "the same sources give other files"

# Tools that are only for trying; the versions are those that were tried.
tries=$cache/tools/tries-2
if [ ! -x "$tries/bin/auditwheel" ]; then
    step "tools"
    python3 -m venv --clear "$tries"
    "$tries/bin/pip" install uv==0.13.9 pipx==1.18.4
    "$tries/bin/pip" install auditwheel==6.8.2
fi

step "the binaries"
for machine in aarch64 x86_64; do
    wheel=$(realpath "$work/built"/*"$machine".whl)
    "$tries/bin/auditwheel" show "$wheel" | tr '\n' ' ' | grep -q "consistent with the following platform tag: \"manylinux_2_17_$machine\"" ||
        fail "the wheel is not for glibc 2.17: $("$tries/bin/auditwheel" show "$wheel")"
    binary=$target/$machine-unknown-linux-gnu/release/cudarun
    # A binary without link-time optimisation names the loader too, which is in every process (__tls_get_addr).
    needed=$(readelf -d "$binary" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' | grep -v '^ld-linux' | sort | tr '\n' ' ')
    # Before glibc 2.34 threads and dlopen were libraries of their own.
    [ "$needed" = "libc.so.6 libdl.so.2 libpthread.so.0 " ] || fail "the binary needs $needed"
done
binary=$target/x86_64-unknown-linux-gnu/release/cudarun
wheel=$(realpath "$work/built"/*x86_64.whl)
# The module for the loader is in it and works: a search path of the program's own brings the wrong copy, where no
# library path is enough.
mkdir "$work/wrong" "$work/right"
for copy in wrong:10.3.5.147 right:10.3.9.90; do
    directory=$work/${copy%:*} file=libcurand.so.${copy#*:}
    echo 'const char *curand_copy(void) { return COPY; }' |
        gcc -shared -fPIC "-DCOPY=\"${copy%:*}\"" -Wl,-soname,libcurand.so.10 -o "$directory/$file" -x c -
    ln -s "$file" "$directory/libcurand.so.10"
done
printf '%s\n' '#include <stdio.h>' 'const char *curand_copy(void);' 'int main(void) { puts(curand_copy()); }' |
    gcc -o "$work/program" -x c - -x none "$work/wrong/libcurand.so.10" -Wl,--disable-new-dtags,-rpath,"$work/wrong"
[ "$("$work/program")" = wrong ] || fail "the control: without cudarun, the wrong copy is mapped"
[ "$(LD_LIBRARY_PATH=$work/right "$work/program")" = wrong ] || fail "the control: a library path is enough"
[ "$("$binary" --pin "curand=$work/right" --pin-mode audit "$work/program")" = right ] || fail "the module does not pin"

step "older systems"
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null && unshare --mount true 2>/dev/null; then
    tests/userlands.sh "$binary"
else
    [ -z "${CUDARUN_TESTS_ALL:-}" ] || fail "the older systems need root, mmdebstrap and mounts"
    echo "left out: the older systems (they need root, mmdebstrap and mounts)"
fi

# All from here on is compiled quickly: what is tried is the way, not the speed of what comes out.
export CARGO_TARGET_DIR=$target/quick CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=0
export CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16
clone=$work/clone
git clone --quiet . "$clone"
tree "$clone" | grep -v '^./.git' >"$work/clone.before"

# Does what the uninstallation says of the module that it leaves, and looks for other traces.
nothing_is_left() {
    local hint
    hint=$(grep '^    rm -r .*/lib/cudarun' "$work/said") || fail "it does not say how to remove the module: $(cat "$work/said")"
    HOME=$home bash -c "$hint"
    (cd "$home" && rmdir -p .local/lib)
    [ -z "$(find "$home" -mindepth 1 -not -path "$home/.cache*")" ] || fail "it leaves traces: $(find "$home")"
}

follow "$clone" sources
works "$home/.local"
cp -r "$work/built" "$work/release"
cp "$clone/install.sh" "$work/release"
follow "$clone" uninstall
nothing_is_left
follow "$work/release" archive
works "$home/.local"
follow "$clone" uninstall
follow "$work/release" unpacked
works "$home/.local"
follow "$clone" uninstall
nothing_is_left

export CARGO_INSTALL_ROOT=$work/cargo
PATH=$work/cargo/bin:$PATH follow "$clone" cargo
[ "$("$work/cargo/bin/cudarun" echo works)" = works ] || fail "what cargo installed does not start programs"
cmp completions/cudarun.bash "$home/.local/share/bash-completion/completions/cudarun"
cargo uninstall --quiet cudarun
[ ! -e "$work/cargo/bin/cudarun" ] || fail "cargo leaves it there"

follow "$clone" pip
works "$clone/.venv"
rm -r "$clone/.venv"
tree "$clone" | grep -v '^./.git' | diff "$work/clone.before" - || fail "something is written beside the sources"

python3 -m venv "$work/release/.venv"
tree "$work/release/.venv" >"$work/venv.before"
step "pip, from its sources"
"$work/release/.venv/bin/pip" install "$work/built/cudarun-$version.tar.gz"
works "$work/release/.venv"
"$work/release/.venv/bin/pip" uninstall -y cudarun
step "its Python package"
tests/python.py "$wheel"
PATH=$tries/bin:$home/.local/bin:$PATH follow "$work/release" wheel
[ "$(grep -c "^cudarun $version\$" "$work/said")" = 2 ] || { cat "$work/said" && fail "uvx and pipx run print the version"; }
works "$work/release/.venv"
[ "$("$home/.local/bin/cudarun" echo works)" = works ] || fail "uv tool install"
HOME=$home "$tries/bin/uv" --quiet tool uninstall cudarun
HOME=$home "$tries/bin/pipx" install "$wheel" >/dev/null 2>&1 || fail "pipx install"
[ "$("$home/.local/bin/cudarun" echo works)" = works ] || fail "pipx install"
[ -e "$home/.local/share/man/man1/cudarun.1" ] || fail "pipx does not make the manual page known"
HOME=$home "$tries/bin/pipx" uninstall cudarun >/dev/null
"$work/release/.venv/bin/pip" uninstall -y cudarun
# Directories of share/ that are empty now are what pip leaves of any package.
find "$work/release/.venv/share" -type d -empty -delete
tree "$work/release/.venv" | diff "$work/venv.before" - || fail "pip uninstall leaves traces"

if [ "$(id -u)" != 0 ] || dpkg-query --show cudarun >/dev/null 2>&1; then
    [ -z "${CUDARUN_TESTS_ALL:-}" ] || fail "the Debian package needs root, and a machine without cudarun"
    echo "left out: the Debian package (it needs root, and a machine without cudarun)"
else
    named() { find /usr /etc /var/lib -xdev -name '*cudarun*' -not -path "$work/*" | sort; }
    named >"$work/named"
    trap 'dpkg -P cudarun >/dev/null 2>&1 || true; rm -rf "$work"' EXIT
    follow "$work/release" deb
    works /usr
    [ -z "$(dpkg --verify cudarun)" ] || fail "dpkg --verify: $(dpkg --verify cudarun)"
    follow "$work/release" purge
    named | diff "$work/named" - || fail "dpkg -P leaves traces"
fi
echo "release: made, and each way of docs/install.md tried ($SECONDS s)"
