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

# Sets LD_AUDIT and CUDARUN_TREE so that what this shell starts is followed by the module in the first argument; with an empty
# one, takes both back.
__cudarun_follow() {
    emulate -L zsh
    local -a list
    [[ $1 != "${CUDARUN_HOOK_FOLLOWS-}" ]] || return 0
    # A shell that follows by other means stays as it is.
    [[ -n ${CUDARUN_HOOK_FOLLOWS-} || -z ${CUDARUN_TREE-} ]] || return 0
    list=(${(s.:.)LD_AUDIT-})
    list=(${list:#${CUDARUN_HOOK_FOLLOWS-}})
    unset CUDARUN_HOOK_FOLLOWS CUDARUN_TREE
    if [[ -n $1 ]]; then
        list+=($1)
        export CUDARUN_HOOK_FOLLOWS=$1 CUDARUN_TREE=$2
    fi
    if (( $#list )); then export LD_AUDIT=${(j.:.)list}; else unset LD_AUDIT; fi
}

# Runs before each prompt; zsh keeps the status for other hooks.
__cudarun_hook() {
    emulate -L zsh
    local told=''
    local -a lines
    # The hook runs, so the warning below is not needed.
    if [[ -n ${__CUDARUN_WAITS-} ]]; then
        unset __CUDARUN_WAITS
        [[ ${functions[cudarun]-} != *__cudarun_hook* ]] || unfunction cudarun
    fi
    if [[ $PWD != "${__CUDARUN_AT-}" && ${CUDARUN_HOOK-} != off ]]; then
        typeset -g __CUDARUN_AT=$PWD
        if __cudarun_in_sight && whence -p cudarun >/dev/null; then
            told=$(command cudarun hook --check="${__CUDARUN_TOLD-}") && typeset -g __CUDARUN_TOLD=${told%%$'\n'*}
        fi
        lines=("${(@f)told}")
        __cudarun_follow "${lines[2]-}" "${lines[3]-}"
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
