#!/usr/bin/env bash
# The step of action.yml, which has what each variable means. tests/action.sh runs it without GitHub.
#
# Prints a command of the runner for each finding, and nothing else that a runner obeys. Ends as `cudarun fleet`: 0 if all works
# on all nodes, 1 if not, 2 if it could not be told.
set -euo pipefail
# GitHub refuses longer comments.
most=60000
here=$(dirname "$(realpath "$0")")
work=$(mktemp -d "$RUNNER_TEMP/cudarun.XXXXXX")
page=$work/page.md

# What a program says may hold names from files: the runner obeys nothing until it reads a word that no file can know.
quote() {
    local word
    word=$(od -An -N16 -tx1 /dev/urandom | tr -d ' \n')
    printf '::stop-commands::%s\n' "$word"
    cat
    printf '\n::%s::\n' "$word"
}

# fail TEXT: ends the step. The text is ours.
fail() {
    printf '::error title=cudarun::%s\n' "$1"
    printf 'result=unknown\n' >>"$GITHUB_OUTPUT"
    exit 2
}

nodes=() programs=() directory='' image=''

# absolute NAME PATH: sets NAME to the path, which is relative to the checkout.
absolute() {
    case $2 in
    /*) printf -v "$1" %s "$2" ;;
    *) printf -v "$1" %s "$GITHUB_WORKSPACE/$2" ;;
    esac
}

# lines NAME TEXT: sets the array to the lines that are not blank.
lines() {
    local -n into=$1
    local line
    into=()
    while IFS= read -r line; do
        line=${line%$'\r'}
        [[ $line =~ [^[:space:]] ]] && into+=("$line")
    done <<<"$2"
    return 0
}

have() {
    local archive=${INPUT_ARCHIVE-} options=()
    if [ -z "$archive" ]; then
        case ${ACTION_REPOSITORY:+${ACTION_REF-}} in
        v[0-9]*.[0-9]*.[0-9]*) ;;
        *) fail "this action was used by a branch, a commit or a path, not by the tag of a release: say which \`archive\`" ;;
        esac
        archive=$GITHUB_SERVER_URL/$ACTION_REPOSITORY/releases/download/$ACTION_REF/cudarun-${ACTION_REF#v}-$(uname -m)-linux.tar.gz
    else
        case $archive in http://* | https://*) ;; *) absolute archive "$archive" ;; esac
    fi
    [ -z "${INPUT_SHA256-}" ] || options=(--sha256="$INPUT_SHA256")
    if ! "$here/../../../install.sh" --to="$work/cudarun" --archive="$archive" "${options[@]}" >"$work/said" 2>&1; then
        quote <"$work/said"
        fail "cudarun could not be installed"
    fi
    cudarun=$work/cudarun/bin/cudarun
}

# fleet OPTIONS…: asks about all nodes. Its findings go to standard output.
fleet() {
    "$cudarun" "${elsewhere[@]}" fleet "${what[@]}" "$@" -- "${nodes[@]}" 2>"$work/said"
}

# comment_mark: the first line of this use's comment. Another use of the action, in this job or another one, has its own.
comment_mark() {
    local key
    key=$(printf '%s\0' "${GITHUB_WORKFLOW-}" "${GITHUB_JOB-}" "$INPUT_NODES" "${INPUT_PROGRAM-}" "${INPUT_IMAGE-}" \
        "${INPUT_DIRECTORY-}" "${INPUT_LOCK-}" | sha256sum)
    printf '<!-- cudarun %s -->' "${key:0:16}"
}

comment() {
    local comments login mark id body=$work/body.md
    comments=repos/$GITHUB_REPOSITORY/issues/$PULL_REQUEST/comments
    mark=$(comment_mark)
    { printf '%s\n' "$mark" && cat "$page"; } >"$body"
    if [ "$(wc -c <"$body")" -gt $most ]; then
        printf '%s\nThe page is too long for a comment: see the summary of the run.\n' "$mark" >"$body"
    fi
    # Anybody may write the mark. REST does not tell the token of a workflow who it is.
    login=$(gh api graphql -f query='{ viewer { login } }' --jq .data.viewer.login) || return
    id=$(gh api --paginate "$comments" \
        --jq ".[] | select(.user.login == \"$login\" and (.body | startswith(\"$mark\"))) | .id") || return
    id=${id%%$'\n'*}
    if [ -n "$id" ]; then
        gh api --silent --method PATCH "repos/$GITHUB_REPOSITORY/issues/comments/$id" -F "body=@$body"
    else
        gh api --silent --method POST "$comments" -F "body=@$body"
    fi
}

lines nodes "$INPUT_NODES"
for number in "${!nodes[@]}"; do absolute "nodes[$number]" "${nodes[$number]}"; done
[ ${#nodes[@]} -gt 0 ] || fail "\`nodes\` names no directory"
lines programs "${INPUT_PROGRAM-}"
# A value that begins with a hyphen is no option.
what=("${programs[@]/#/--program=}") elsewhere=()
if [ -n "${INPUT_IMAGE-}" ]; then
    case $INPUT_IMAGE in
    oci:*) absolute image "${INPUT_IMAGE#oci:}" && image=oci:$image ;;
    *) absolute image "$INPUT_IMAGE" ;;
    esac
    elsewhere=(--root="$image")
else
    what+=(--project)
fi
case ${INPUT_LOCK:-auto} in
auto) ;;
true) export CUDARUN_LOCKED=1 ;;
false) export CUDARUN_LOCKED=0 ;;
*) fail "\`lock\` is auto, true or false" ;;
esac
absolute directory "${INPUT_DIRECTORY:-.}"
cd "$directory" 2>/dev/null || fail "\`directory\` is not a directory of the checkout"

have
status=0
fleet --ci=github || status=$?
[ ! -s "$work/said" ] || quote <"$work/said"
case $status in
0) result=good ;;
1) result=bad ;;
*) result=unknown ;;
esac
fleet --markdown >"$page" || true
cat "$page" >>"$GITHUB_STEP_SUMMARY"
printf 'result=%s\npage=%s\n' "$result" "$page" >>"$GITHUB_OUTPUT"
if [ "${INPUT_COMMENT-}" = true ] && [ -n "${PULL_REQUEST-}" ] && [ -s "$page" ]; then
    if ! comment >"$work/said" 2>&1; then
        quote <"$work/said"
        printf '::warning title=cudarun::the page was not written to the pull request\n'
    fi
fi
[ $status -ne 2 ] || printf '::error title=cudarun::cudarun could not tell for all nodes\n'
exit $status
