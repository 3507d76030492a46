#!/usr/bin/env bash
# A stranger's first hour: on a new Debian 12 with Rust, a C compiler and Python only, two commands of README.md do
# everything: tests/debian12.sh [install|test]...
#
# The commands are the blocks of README.md below these lines, run as they are in the root of a copy of the sources:
#
#   <!-- run by tests/debian12.sh as install -->   installs cudarun, and explains what an example program gets
#   <!-- run by tests/debian12.sh as test -->      passes the tests
#
# Needs root and mmdebstrap, for a system of its own in a temporary directory (two gigabytes with what is built); an
# ordinary user of that system runs the commands. Rust and the crates that cargo has fetched already are this machine's, so
# that only new crates need a network. MIRROR is where Debian's packages come from.
set -euo pipefail
here=$(dirname "$(realpath "$0")")/..
[ "$(id -u)" = 0 ] || { echo "root is needed" && exit 2; }
command -v mmdebstrap >/dev/null || { echo "mmdebstrap is needed" && exit 2; }
[ $# -gt 0 ] || set -- install test
work=$(mktemp -d)
trap 'rm -rf --one-file-system "$work"' EXIT
root=$work/root
home=$root/home/stranger

# block NAME: the commands of the fenced block below its mark.
block() {
    awk -v mark="<!-- run by tests/debian12.sh as $1 -->" '
        $0 == mark { is_marked = 1; next }
        /^```/ && is_open { exit }
        /^```/ && is_marked { is_open = 1; next }
        is_open' "$here/README.md"
}
for name in "$@"; do
    [ -n "$(block "$name")" ] || { echo "README.md has no block for tests/debian12.sh as $name" && exit 1; }
done

echo "== a new Debian 12 ($SECONDS s)"
mmdebstrap --quiet --variant=minbase --include=ca-certificates,gcc,libc6-dev,python3 bookworm "$root" ${MIRROR:+"$MIRROR"}
chroot "$root" useradd --create-home --shell /bin/bash stranger
cp /etc/resolv.conf "$root/etc/resolv.conf"
mkdir "$root/usr/local/rust"
mkdir -p "$home/.cargo" "$home/cudarun"
registry=${CARGO_HOME:-$HOME/.cargo}/registry
if [ -d "$registry" ]; then
    mkdir "$home/.cargo/registry"
    for part in index cache; do [ ! -d "$registry/$part" ] || cp -a "$registry/$part" "$home/.cargo/registry/"; done
fi
git -C "$here" ls-files -z --cached | tar -C "$here" --null --files-from=- -cf - | tar -C "$home/cudarun" -xf -
chroot "$root" chown -R stranger: /home/stranger

# as_stranger COMMANDS: in the new system, with processes and devices of its own; what still runs at the end goes too.
as_stranger() {
    # shellcheck disable=SC2016 # The words are for the shell that is started.
    unshare --mount --pid --fork --kill-child bash -euc '
        mount --bind "$1" "$1"
        mount -t proc none "$1/proc"
        mount --bind "$3" "$1/usr/local/rust"
        mount --rbind /dev "$1/dev"
        mount -t tmpfs -o mode=1777 none "$1/tmp"
        mount -t sysfs none "$1/sys" 2>/dev/null || true
        # Not chroot: the tests make user namespaces, which the kernel refuses below one.
        cd "$1"
        pivot_root . .
        umount --lazy .
        exec setpriv --reuid stranger --regid stranger --init-groups \
            env -i HOME=/home/stranger USER=stranger LANG=C.UTF-8 TERM=dumb \
            PATH=/home/stranger/.local/bin:/usr/local/rust/bin:/usr/local/bin:/usr/bin:/bin \
            "${@:4}" bash -euc "cd ~/cudarun; $2"' bash "$root" "$1" "$(rustc --print sysroot)" "${proxies[@]}"
}
mapfile -t proxies < <(env | grep -iE '^(https?|no|all)_proxy=' || true)

for name in "$@"; do
    printf '== %s (%d s)\n%s\n' "$name" "$SECONDS" "$(block "$name")"
    as_stranger "$(block "$name")"
done
echo "a stranger on a new Debian 12 gets there ($SECONDS s)"
