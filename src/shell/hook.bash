# cudarun's hook for bash: warns once, on entering a project, if its requirements are not met.
# shellcheck shell=bash disable=SC2016,SC2128,SC2178  # text that is only shown; a variable that may be a list

# True if this directory or one above it, up to the home directory, holds a file of a project.
__cudarun_in_sight() {
    local directory=. name
    while [[ -e $directory ]]; do
        for name in .cudarun.toml .cudarun.lock; do
            [[ -e $directory/$name || -L $directory/$name ]] && return 0
        done
        [[ ! $directory -ef / && ! $directory -ef ${HOME:-/} ]] || return 1
        # Physical directories, not the links by which they were entered, as in cudarun.
        directory+=/..
    done
    return 1
}

# Sets LD_AUDIT and CUDARUN_TREE so that what this shell starts is followed by the module $1; with an empty $1, takes both back.
__cudarun_follow() {
    local list=:${LD_AUDIT:+$LD_AUDIT:}
    [[ $1 != "${CUDARUN_HOOK_FOLLOWS-}" ]] || return 0
    # A shell that follows by other means stays as it is.
    [[ -n ${CUDARUN_HOOK_FOLLOWS-} || -z ${CUDARUN_TREE-} ]] || return 0
    list=${list//":${CUDARUN_HOOK_FOLLOWS-}:"/:}
    unset -v CUDARUN_HOOK_FOLLOWS CUDARUN_TREE
    if [[ -n $1 ]]; then
        list+=$1:
        export CUDARUN_HOOK_FOLLOWS=$1 CUDARUN_TREE=$2
    fi
    list=${list#:}
    list=${list%:}
    if [[ -n $list ]]; then export LD_AUDIT=$list; else unset -v LD_AUDIT; fi
}

# Runs before each prompt, and keeps the status.
__cudarun_hook() {
    local status=$? told='' module='' tree=''
    # The hook runs, so the warning below is not needed.
    if [[ -n ${__CUDARUN_WAITS-} ]]; then
        unset -v __CUDARUN_WAITS
        [[ $(declare -f cudarun) != *__cudarun_hook* ]] || unset -f cudarun
    fi
    if [[ $PWD != "${__CUDARUN_AT-}" && ${CUDARUN_HOOK-} != off ]]; then
        __CUDARUN_AT=$PWD
        if __cudarun_in_sight && type -P cudarun >/dev/null; then
            told=$(command cudarun hook --check="${__CUDARUN_TOLD-}") && __CUDARUN_TOLD=${told%%$'\n'*}
        fi
        { read -r; read -r module; read -r tree; } <<<"$told" || :
        __cudarun_follow "$module" "$tree"
        # With `set -a`, a nested shell would inherit these.
        export -n __CUDARUN_AT __CUDARUN_TOLD
    fi
    # With `set -e`, returning the status would end the shell.
    [[ $- == *e* ]] || return "$status"
}

if [[ $- == *i* && $- != *c* && ${CUDARUN_HOOK-} != off ]]; then
    case $'\n'${PROMPT_COMMAND[*]-} in
    *__cudarun_hook*) ;;
    *)
        # Last, so that it sees variables that other hooks set.
        if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == "declare -a"* ]] && ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
            PROMPT_COMMAND+=(__cudarun_hook)
        else
            PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__cudarun_hook
        fi
        # Until the first prompt: if a later line has removed the hook, the first use of cudarun warns.
        declare -F cudarun >/dev/null || __CUDARUN_WAITS=1
        [[ -z ${__CUDARUN_WAITS-} ]] || function cudarun {
            unset -f cudarun
            if [[ ${PROMPT_COMMAND[*]-} != *__cudarun_hook* ]]; then
                printf '%s\n' 'cudarun: the hook is set up and never runs, since a later line of the start-up file sets PROMPT_COMMAND: move the line with `cudarun hook` to its end' >&2
            fi
            command cudarun "$@"
        }
        ;;
    esac
fi
