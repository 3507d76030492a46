# cudarun's hook for zsh: warns once, on entering a project, if its requirements are not met.

# True if this directory or one above it, up to the home directory, holds a file of a project.
__cudarun_in_sight() {
    emulate -L zsh
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

# Runs before each prompt; zsh keeps the status for other hooks.
__cudarun_hook() {
    emulate -L zsh
    local told
    # The hook runs, so the warning below is not needed.
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
        # Last, so that it sees variables that other hooks set.
        precmd_functions+=(__cudarun_hook)
        # Until the first prompt: if a later line has removed the hook, the first use of cudarun warns.
        (( $+functions[cudarun] )) || __CUDARUN_WAITS=1
        [[ -z ${__CUDARUN_WAITS-} ]] || function cudarun {
            unfunction cudarun
            if (( ! ${precmd_functions[(Ie)__cudarun_hook]} )); then
                print -r -u2 -- 'cudarun: the hook is set up and never runs, since a later line of the start-up file sets precmd_functions: move the line with `cudarun hook` to its end'
            fi
            command cudarun "$@"
        }
    fi
fi
