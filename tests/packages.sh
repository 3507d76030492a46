#!/usr/bin/env bash
# Has dpkg install libraries, and compares the owners that cudarun reads with what dpkg itself says:
# tests/packages.sh [cudarun]
#
# Nothing is installed outside a directory of its own. Needs dpkg, cc and python3.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export HOME=$work
failed=0

# library FILE: a shared library whose SONAME is its name up to the first number.
library() {
    [[ $(basename "$1") =~ ^[^.]*\.so\.[0-9]+ ]]
    mkdir -p "$(dirname "$1")"
    echo 'int nothing;' | cc -shared -fPIC -x c -Wl,-soname,"${BASH_REMATCH[0]}" -o "$1" -
}

# owners ROOT: the main file of every copy that cudarun finds there, and its package.
owners() {
    "$cudarun" --root "$1" list --json | python3 -c '
import json, sys
listed = json.load(sys.stdin)
if listed["warnings"]: sys.exit(str(listed["warnings"]))
for copy in listed["installations"]: print(copy["files"][0]["path"], copy["origin"], copy["package"])'
}

# compare TOOL EXPECTED GOT
compare() {
    if ! diff "$2" "$3"; then
        echo "$1: these are its own words (<) and cudarun's (>)"
        failed=1
    fi
}

# --- dpkg: packages for one architecture and for several at once, one that was removed and left its settings.

architecture=$(dpkg --print-architecture)
# package NAME VERSION FIELD FILE
package() {
    mkdir -p "deb/$1/DEBIAN" "deb/$1/etc"
    printf '%s\n' "Package: $1" "Version: $2" "Architecture: $architecture" "$3" 'Maintainer: nobody <nobody@localhost>' \
        'Description: stand-in' >"deb/$1/DEBIAN/control"
    echo "/etc/$1" >"deb/$1/DEBIAN/conffiles"
    echo >"deb/$1/etc/$1"
    library "deb/$1$4"
    dpkg-deb --build --root-owner-group "deb/$1" "$1.deb" >/dev/null
}
mkdir -p dpkg/var/lib/dpkg/{info,updates,triggers}
touch dpkg/var/lib/dpkg/{status,available}
package libcudnn9-cuda-12 9.1.0.70-1 'Multi-Arch: same' /usr/lib/libcudnn/12/libcudnn.so.9.1.0
package libcublas11 11.11.3.6~11.8.0-5~deb12u1 'Multi-Arch: foreign' /opt/cublas/libcublas.so.11.11.3.6
package libnccl2 2.21.5-1+cuda12.4 'Section: libs' /opt/nccl/libnccl.so.2.21.5
dpkg --root="$work/dpkg" --force-not-root --force-script-chrootless --force-depends -i ./*.deb >log 2>&1 || {
    cat log
    exit 1
}
dpkg --root="$work/dpkg" --force-not-root -r libnccl2 >/dev/null 2>&1
# No package owns the files that stay.
library dpkg/opt/nccl/libnccl.so.2.21.5
owners dpkg >got
while read -r file _; do
    owner=$(dpkg-query --admindir="$work/dpkg/var/lib/dpkg" -S "$file" | cut -d : -f 1)
    version=$(dpkg-query --admindir="$work/dpkg/var/lib/dpkg" -W -f '${Version}' "$owner")
    printf '%s debian %s %s\n' "$file" "$owner" "$version"
done <got >expected
compare dpkg expected got
[ "$(wc -l <got)" = 2 ] || failed=1
exit $failed
