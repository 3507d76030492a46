#!/usr/bin/env bash
# Makes every package of a release and tries it as docs/install.md says, whose blocks it runs: tests/release.sh
#
# Needs cargo, python3 with venv, gcc, man-db, binutils, curl, skopeo, umoci, buildah and what .ci/release needs; root for the Debian
# package, and with mmdebstrap for the older systems and a new one, which is kept in ~/.cache/cudarun-tests. Registries are
# directories that a server here shows. What is for aarch64 is installed by tests/arm/.
set -euo pipefail
cd "$(dirname "$(realpath "$0")")/.."
checkout=$PWD
work=$(mktemp -d)
trap 'tidy; rm -rf --one-file-system "$work"' EXIT
# tidy: ends the server, and takes away what else is outside of the temporary directory.
tidy() {
    [ -z "${server:-}" ] || kill "$server" 2>/dev/null || true
    rm -rf "$CARGO_HOME"/registry/*/127.0.0.1-*
    [ -z "${is_packaged:-}" ] || dpkg -P cudarun >/dev/null 2>&1 || true
}
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
# block NAME: the text of this block of docs/install.md, or of README.md.
block() {
    local text
    text=$(sed -n "/^<!-- run by tests\/release.sh as $1 -->\$/,/^\`\`\`\$/p" "$checkout/docs/install.md" "$checkout/README.md" | sed '1,2d;$d')
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
[ "$(wc -l <"$work/files")" = 8 ] || fail "eight files are a release, and install.sh"
(cd "$work/built" && sha256sum --check --strict --quiet SHA256SUMS && sha256sum --check --strict --quiet -- *.sha256)
diff <(cd "$work/built" && find . -type f -not -name '*.sha256' -not -name SHA256SUMS -printf '%f\n' | sort) \
    <(sed 's/^[0-9a-f]*  //' "$work/built/SHA256SUMS" | sort) || fail "SHA256SUMS has other files"
step "the packages again"
# Beside what is left of another version.
mkdir "$work/again"
echo "$(sha256sum <install.sh | cut -d ' ' -f 1)  cudarun-0.0.1.tar.gz" >"$work/again/cudarun-0.0.1.tar.gz.sha256"
.ci/release "$work/again" >/dev/null
diff "$work/again/SHA256SUMS" "$work/built/SHA256SUMS" || fail "the same sources give other files"

# Tools that are only for trying; the versions are those that were tried.
tries=$cache/tools/tries-3
if [ ! -x "$tries/bin/auditwheel" ]; then
    step "tools"
    python3 -m venv --clear "$tries"
    "$tries/bin/pip" install uv==0.13.9 pipx==1.18.4
    "$tries/bin/pip" install zizmor==1.32.0 check-jsonschema==0.39.0
    "$tries/bin/pip" install auditwheel==6.8.2
fi

step "the workflows"
"$tries/bin/check-jsonschema" --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
"$tries/bin/zizmor" --offline --quiet .github/workflows >"$work/said" 2>&1 ||
    { cat "$work/said" && fail "a workflow gives away more than it should"; }

step "cargo binstall"
# What it makes of the templates is an archive of the release and a file in it; the archives have no other target.
python3 - Cargo.toml "$work/built" <<'PY' || fail "[package.metadata.binstall] of Cargo.toml"
import sys, tarfile, tomllib
package = tomllib.load(open(sys.argv[1], "rb"))["package"]
binstall = package["metadata"]["binstall"]
assert "pkg-url" not in binstall and len(binstall["overrides"]) == 2
for target, override in binstall["overrides"].items():
    words = {"repo": "REPO", "name": package["name"], "version": package["version"], "bin": "cudarun", "target-arch": target.split("-")[0]}
    url, inside = override["pkg-url"], binstall["bin-dir"]
    for word, value in words.items():
        url, inside = (text.replace("{ %s }" % word, value) for text in (url, inside))
    directory, file = url.rsplit("/", 1)
    assert directory == f"REPO/releases/download/v{package['version']}", url
    with tarfile.open(f"{sys.argv[2]}/{file}") as archive:
        assert archive.getmember(inside).mode & 0o111, inside
PY

step "the image"
mkdir "$work/image"
cp "$work/built/cudarun-$version-image.tar" "$work/image"
printf '[storage]\ndriver = "vfs"\ngraphroot = "%s"\nrunroot = "%s"\n' "$work/store" "$work/run" >"$work/storage.conf"
export CONTAINERS_STORAGE_CONF=$work/storage.conf
follow "$work/image" image
printf 'FROM scratch\n%s\n' "$(block dockerfile)" >"$work/image/Dockerfile"
buildah build --quiet --tag made "$work/image" >/dev/null
buildah push --quiet made "oci:$work/image/made:it"
umoci raw unpack --image "$work/image/made:it" "$work/image/root" >/dev/null 2>&1
for architecture in amd64 arm64; do
    skopeo copy --quiet --override-arch "$architecture" "oci-archive:$work/image/cudarun-$version-image.tar" "oci:$work/image/$architecture:it"
    umoci raw unpack --image "$work/image/$architecture:it" "$work/image/$architecture.root" >/dev/null 2>&1
done
cmp "$work/image/root/usr/local/bin/cudarun" "$target/x86_64-unknown-linux-gnu/release/cudarun"
cmp "$work/image/arm64.root/cudarun" "$target/aarch64-unknown-linux-gnu/release/cudarun"
[ "$(cd "$work/image/amd64.root" && find . -type f | sort | tr '\n' ' ')" = "./cudarun ./follow.so " ] || fail "the image has other files"
[ "$("$work/image/amd64.root/cudarun" sh -c 'echo works')" = works ] || fail "the image's binary does not start programs"
for image in "oci:$work/image/amd64" "$work/image/cudarun-$version-image.tar"; do
    said=$("$work/image/amd64.root/cudarun" --root "$image" list 2>&1) || true
    [[ $said == "no NVIDIA library is installed"* ]] || fail "cudarun does not read its image: $said"
done

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
follow "$clone" checkout
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

# The registries: a page of links for Python's packages, and an index and the files for crates.
(cd "$clone" && cargo package --quiet --locked --no-verify)
crate=$CARGO_TARGET_DIR/package/cudarun-$version.crate
[ "$(stat -c %s "$crate")" -lt 10000000 ] || fail "the registry takes no crate of $(stat -c %s "$crate") bytes"
mkdir -p "$work/served/simple/cudarun" "$work/served/index/cu/da" "$work/elsewhere"
ln -s "$work/release" "$work/served/release"
cp "$work/built"/*.whl "$work/built/cudarun-$version.tar.gz" "$work/served/simple/cudarun"
cp "$crate" "$work/served"
python3 -u -m http.server --bind 127.0.0.1 --directory "$work/served" 0 >"$work/served.log" 2>&1 &
server=$!
until port=$(grep -o 'port [0-9]*' "$work/served.log"); do sleep 0.1; done
address=http://127.0.0.1:${port#port }
echo "{\"dl\": \"$address/{crate}-{version}.crate\"}" >"$work/served/index/config.json"
python3 - "$crate" >"$work/served/index/cu/da/cudarun" <<'PY'
import hashlib, json, re, sys, tarfile, tomllib
with tarfile.open(sys.argv[1]) as crate:
    read = lambda name: crate.extractfile(next(file for file in crate if file.name.split("/")[1:] == [name])).read().decode()
    manifest, registry = tomllib.loads(read("Cargo.toml")), re.search(r'"registry\+(.*)"', read("Cargo.lock"))[1]
package, dependencies = manifest["package"], []
for table, kind in (("dependencies", "normal"), ("dev-dependencies", "dev"), ("build-dependencies", "build")):
    for name, row in manifest[table].items():
        dependencies.append({
            "name": name, "req": row["version"], "features": row.get("features", []), "kind": kind, "registry": registry,
            "optional": False, "default_features": row.get("default-features", True), "target": None,
        })
digest = hashlib.sha256(open(sys.argv[1], "rb").read()).hexdigest()
print(json.dumps({
    "name": package["name"], "vers": package["version"], "deps": dependencies, "cksum": digest, "features": {}, "yanked": False,
}))
PY
# asked_for FILE: that the server was.
asked_for() { grep -q "GET /$1 .* 200" "$work/served.log" || fail "nobody has fetched $1: $(cat "$work/served.log")"; }

RELEASE=$address/release follow "$work/elsewhere" address
asked_for "release/cudarun-$version-x86_64-linux.tar.gz"
[ "$(tail -n 1 "$work/said")" = "next: $home/.local/bin/cudarun doctor" ] || fail "the last line of install.sh is $(tail -n 1 "$work/said")"
works "$home/.local"
follow "$clone" uninstall
nothing_is_left

export CARGO_INSTALL_ROOT=$work/cargo
PATH=$work/cargo/bin:$PATH CARGO_REGISTRY_DEFAULT=local CARGO_REGISTRIES_LOCAL_INDEX=sparse+$address/index/ follow "$work/elsewhere" cargo
asked_for "cudarun-$version.crate"
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
PATH=$tries/bin:$home/.local/bin:$PATH PIP_INDEX_URL=$address/simple/ UV_DEFAULT_INDEX=$address/simple/ follow "$work/release" wheel
asked_for "simple/cudarun/$(basename "$wheel")"
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
    is_packaged=yes
    follow "$work/release" deb
    works /usr
    [ -z "$(dpkg --verify cudarun)" ] || fail "dpkg --verify: $(dpkg --verify cudarun)"
    follow "$work/release" purge
    named | diff "$work/named" - || fail "dpkg -P leaves traces"
fi

# stranger COMMAND: runs it in the new system, as somebody who has nothing but a home.
stranger() {
    # shellcheck disable=SC2016 # The words are for the shell that is started.
    unshare --mount bash -euc '
        mount -t proc none "$1/proc"
        mount --rbind /dev "$1/dev"
        exec chroot --userspec=1000:1000 "$1" env -i -C /home/stranger "${@:2}"' bash "$work/debian" HOME=/home/stranger \
        PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 SHELL=/bin/bash "RELEASE=$address/release" "PIP_INDEX_URL=$address/simple/" \
        "UV_DEFAULT_INDEX=$address/simple/" UV_PYTHON_DOWNLOADS=never sh -c "$1" 2>&1
}
step "a new Debian"
if [ "$(id -u)" = 0 ] && command -v mmdebstrap >/dev/null && unshare --mount true 2>/dev/null; then
    kept=$cache/debian/bookworm-1.tar
    if [ ! -f "$kept" ]; then
        mkdir -p "${kept%/*}"
        mmdebstrap --quiet --variant=minbase --include=ca-certificates,curl,python3-venv bookworm "$kept.new.tar" ${MIRROR:+"$MIRROR"}
        mv "$kept.new.tar" "$kept"
    fi
    mkdir "$work/debian"
    tar -C "$work/debian" --exclude './dev/*' -xf "$kept"
    install -d -o 1000 -g 1000 "$work/debian/home/stranger"
    cp "$tries/bin/uv" "$tries/bin/uvx" "$work/debian/usr/local/bin"
    ! stranger 'command -v cudarun cargo rustc' || fail "the control: something of it is there"
    ways=(
        "$(block address) && ~/.local/bin/cudarun doctor"
        "python3 -m venv .venv && .venv/bin/pip install cudarun && .venv/bin/cudarun doctor"
        "uvx cudarun doctor"
    )
    for way in "${ways[@]}"; do
        began=${EPOCHREALTIME/./}
        stranger "$way" >"$work/said" || true
        printf '%6d ms from nothing to cudarun doctor: %s\n' $(((${EPOCHREALTIME/./} - began) / 1000)) "$way"
        grep -q '^GPU programs' "$work/said" || { cat "$work/said" && fail "a stranger: $way"; }
    done
    # What the image holds, where it says.
    cp "$work/image/root/usr/local/bin/cudarun" "$work/debian/usr/local/bin"
    [[ $(stranger "cudarun export --follow") != */usr/local/lib/* ]] || fail "the control: the module is there"
    install -D -m 644 "$work/image/root/usr/local/lib/cudarun/follow.so" "$work/debian/usr/local/lib/cudarun/follow.so"
    [[ $(stranger "cudarun export --follow") == */usr/local/lib/cudarun/follow.so* ]] || fail "the image's module is another one's"
else
    [ -z "${CUDARUN_TESTS_ALL:-}" ] || fail "a new Debian needs root, mmdebstrap and mounts"
    echo "left out: a new Debian (it needs root, mmdebstrap and mounts)"
fi
echo "release: made, and each way of docs/install.md tried ($SECONDS s)"
