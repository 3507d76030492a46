# Completion of cudarun for bash: cudarun itself completes each line. After the program's name, the program's own
# completion takes over.
# shellcheck disable=SC2207  # words without blanks are meant to be split

_cudarun() {
    local IFS=$'\n' answer kind before="" at words=() places=() current=${COMP_WORDS[COMP_CWORD]}
    # With `=` among COMP_WORDBREAKS, it is a word of its own: it and the next word belong to the one before.
    for ((at = 1; at <= COMP_CWORD; at++)); do
        if ((${#words[@]})) && [[ ${COMP_WORDS[at]} == = || ${COMP_WORDS[at - 1]} == = ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[at]}
        else
            words+=("${COMP_WORDS[at]}")
            places+=("$at")
        fi
    done
    answer=($("${COMP_WORDS[0]}" completions bash -- "${words[@]}" 2>/dev/null | cut -f 1))
    kind=${answer[0]-}
    # What bash replaces begins after the `=` that it has split off.
    [[ $current != = ]] || current=""
    before=${words[${#words[@]}-1]%"$current"}
    COMPREPLY=("${answer[@]:1}")
    COMPREPLY=("${COMPREPLY[@]#"$before"}")
    before=""
    case $current in
    --*=*) before=${current%%=*}= current=${current#*=} ;;
    esac
    case $kind in
    files) COMPREPLY+=($(compgen -P "$before" -f -- "$current")) ;;
    directories) COMPREPLY+=($(compgen -P "$before" -d -- "$current")) ;;
    commands) COMPREPLY+=($(compgen -c -- "$current")) ;;
    program*) _cudarun_program "${places[${kind#program }]}" ;;
    esac
    [[ ${COMPREPLY[0]-} != *= && ${COMPREPLY[0]-} != *">=" ]] || compopt -o nospace 2>/dev/null
}

# Completes from the word at this index on, as if the line began there.
_cudarun_program() {
    local IFS=$' \t\n'
    if declare -F _command_offset >/dev/null; then
        _command_offset "$1"
    elif ((COMP_CWORD == $1)); then
        COMPREPLY=($(compgen -c -- "${COMP_WORDS[COMP_CWORD]}"))
    else
        COMPREPLY=($(compgen -f -- "${COMP_WORDS[COMP_CWORD]}"))
    fi
}

complete -o default -F _cudarun cudarun
