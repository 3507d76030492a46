# shellcheck shell=bash disable=SC2034  # the script that reads this uses the variables
# The beginning of each script here: `cudarun` is what is tested, `work` a directory for the run, `here` that of the scripts.
set -u
cudarun=$(realpath "${1:?usage: $0 PATH-TO-cudarun}")
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# Programs of several cases share the GPU.
export XDG_CACHE_HOME=$work/cache XLA_PYTHON_CLIENT_PREALLOCATE=false
failed=0
debian=/usr/lib/x86_64-linux-gnu
toolkit=/usr/local/cuda

# row RESULT PROGRAM ENVIRONMENT WITHOUT WITH: prints a row of docs/gpu-results.md. A row that fails keeps its whole text.
row() {
    local line
    line=$(printf '| %s | %s | %s | %s | %s |' "$@")
    case $1 in
    ok) LC_ALL=C.UTF-8 sed -E -f "$here/short.sed" <<<"$line" ;;
    FAIL) failed=1 && printf '%s\n' "$line" ;;
    *) printf '%s\n' "$line" ;;
    esac
}

# at_once FUNCTION ARGUMENTS…: starts a case in the background, with a directory of its own in `work`. The processors are
# what a case needs most: a lease of a GPU is too short to run one after the other.
at_once() {
    local place
    place=$(mktemp -d "$work/case.XXXX")
    local work=$place failed=0
    (
        "$@"
        exit $failed
    ) >"$place/rows" 2>&1 &
    cases+=("$!:$place")
}
cases=()

# rows: waits for the cases, and prints their rows in the order in which they were started
rows() {
    local case
    for case in "${cases[@]}"; do
        wait "${case%%:*}" || failed=1
        cat "${case#*:}/rows"
    done
    cases=()
}
