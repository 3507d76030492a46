# cudarun's hook for bash: says, once, what does not hold in the project that was entered.
# shellcheck shell=bash disable=SC2016,SC2128,SC2178  # what is only shown; a variable that may be a list

# Whether a project is in sight: a file of its own, here or above, as far as the home directory.
__cudarun_in_sight() {
    local directory=. name
    while [[ -e $directory ]]; do
        for name in .cudarun.toml .cudarun.lock; do
            [[ -e $directory/$name || -L $directory/$name ]] && return 0
        done
        [[ ! $directory -ef / && ! $directory -ef ${HOME:-/} ]] || return 1
        # Where the kernel says that this is, and not the link by which it was entered: so does cudarun.
        directory+=/..
    done
    return 1
}

# Before each prompt; leaves the status as it was.
__cudarun_hook() {
    local status=$? told
    # It lives: nobody need be told otherwise.
    if [[ -n ${__CUDARUN_WAITS-} ]]; then
        unset -v __CUDARUN_WAITS
        [[ $(declare -f cudarun) != *__cudarun_hook* ]] || unset -f cudarun
    fi
    if [[ $PWD != "${__CUDARUN_AT-}" && ${CUDARUN_HOOK-} != off ]]; then
        __CUDARUN_AT=$PWD
        if __cudarun_in_sight && type -P cudarun >/dev/null; then
            told=$(command cudarun hook --check="${__CUDARUN_TOLD-}") && __CUDARUN_TOLD=$told
        fi
        # With `set -a`, a shell inside would take itself for told.
        export -n __CUDARUN_AT __CUDARUN_TOLD
    fi
    # With `set -e`, to hand the status on would end the shell.
    [[ $- == *e* ]] || return "$status"
}

if [[ $- == *i* && $- != *c* && ${CUDARUN_HOOK-} != off ]]; then
    case $'\n'${PROMPT_COMMAND[*]-} in
    *__cudarun_hook*) ;;
    *)
        # Last, so that it sees what others have set before.
        if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == "declare -a"* ]] && ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] >= 501)); then
            PROMPT_COMMAND+=(__cudarun_hook)
        else
            PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__cudarun_hook
        fi
        # Until the first prompt: should a later line have thrown the hook out, the first use of cudarun says so.
        declare -F cudarun >/dev/null || __CUDARUN_WAITS=1
        [[ -z ${__CUDARUN_WAITS-} ]] || function cudarun {
            unset -f cudarun
            if [[ ${PROMPT_COMMAND[*]-} != *__cudarun_hook* ]]; then
                printf '%s\n' 'cudarun: the hook is set up and never asked, since a later line of the start-up file has set PROMPT_COMMAND: move the line with `cudarun hook` to its end' >&2
            fi
            command cudarun "$@"
        }
        ;;
    esac
fi
