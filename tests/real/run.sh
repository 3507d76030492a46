#!/usr/bin/env bash
# Real wheels and the real loader, without a GPU: tests/real/run.sh [PATH-TO-cudarun]
#
# Downloads wheels once into ${XDG_CACHE_HOME:-~/.cache}/cudarun-tests and says so: 13 GB, 21 GB unpacked. Needs python3
# (3.11 to 3.13, x86-64, glibc) with pip, readelf, and for pinned.py, traps.py, proof.py, generated.py, newer.py and diagnose.py a C
# compiler, for build.py cmake, ninja, g++ and g++-11, for launchers.py java and rustc as well, for images.py root, umoci, skopeo
# and buildah. Each script can be run by itself, and says on top what it holds cudarun to. As many as there are processors run at
# the same time, or CUDARUN_REAL_JOBS.
set -eu
here=$(dirname "$(realpath "$0")")
cudarun=$(realpath "${1:-$here/../../target/release/cudarun}")
one() {
    began=$SECONDS
    status=0
    said=$(python3 "$here/$1.py" "$cudarun" 2>&1) || status=1
    printf '%s (%d s)\n%s\n' "$1.py" $((SECONDS - began)) "$said"
    return "$status"
}
export -f one
export here cudarun
# The longest ones first.
printf '%s\n' stacks launchers brought build fetch diagnose images tools needs cases packages pinned children traps proof finder gpu_code frameworks metadata extensions fitting newer headers loader \
    versions generated described advise | xargs -P "${CUDARUN_REAL_JOBS:-$(nproc)}" -I '{}' bash -c 'one {}'
