# cudarun's hook for zsh: says, once, what does not hold in the project that was entered.

# Whether a project is in sight: a file of its own, here or above, as far as the home directory.
__cudarun_in_sight() {
    emulate -L zsh
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

# Before each prompt; zsh keeps the status for the others.
__cudarun_hook() {
    emulate -L zsh
    local told
    # It lives: nobody need be told otherwise.
    if [[ -n ${__CUDARUN_WAITS-} ]]; then
        unset __CUDARUN_WAITS
        [[ ${functions[cudarun]-} != *__cudarun_hook* ]] || unfunction cudarun
    fi
    if [[ $PWD != "${__CUDARUN_AT-}" && ${CUDARUN_HOOK-} != off ]]; then
        typeset -g __CUDARUN_AT=$PWD
        if __cudarun_in_sight && whence -p cudarun >/dev/null; then
            told=$(command cudarun hook --check="${__CUDARUN_TOLD-}") && typeset -g __CUDARUN_TOLD=$told
        fi
    fi
    return 0
}

if [[ -o interactive && -z ${ZSH_EXECUTION_STRING-} && ${CUDARUN_HOOK-} != off ]]; then
    typeset -ga precmd_functions
    if (( ! ${precmd_functions[(Ie)__cudarun_hook]} )); then
        # Last, so that it sees what others have set before.
        precmd_functions+=(__cudarun_hook)
        # Until the first prompt: should a later line have thrown the hook out, the first use of cudarun says so.
        (( $+functions[cudarun] )) || __CUDARUN_WAITS=1
        [[ -z ${__CUDARUN_WAITS-} ]] || function cudarun {
            unfunction cudarun
            if (( ! ${precmd_functions[(Ie)__cudarun_hook]} )); then
                print -r -u2 -- 'cudarun: the hook is set up and never asked, since a later line of the start-up file has set precmd_functions: move the line with `cudarun hook` to its end'
            fi
            command cudarun "$@"
        }
    fi
fi
