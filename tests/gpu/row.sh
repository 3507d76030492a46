# shellcheck shell=bash disable=SC2034,SC2154  # `here` and `failed` belong to the script that reads this
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
