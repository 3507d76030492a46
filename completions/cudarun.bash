# Completion of cudarun for bash: cudarun itself completes each line. After the program's name, the program's own
# completion takes over.
# shellcheck disable=SC2207  # words without blanks are meant to be split

_cudarun() {
    local IFS=$'\n' answer kind before="" current=${COMP_WORDS[COMP_CWORD]}
    answer=($("${COMP_WORDS[0]}" completions bash -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f 1))
    kind=${answer[0]-}
    COMPREPLY=("${answer[@]:1}")
    # With `=` among COMP_WORDBREAKS, the word begins after it; else the value does.
    case $current in
    =) current="" ;;
    --*=*) before=${current%%=*}= current=${current#*=} ;;
    esac
    case $kind in
    files) COMPREPLY+=($(compgen -P "$before" -f -- "$current")) ;;
    directories) COMPREPLY+=($(compgen -P "$before" -d -- "$current")) ;;
    commands) COMPREPLY+=($(compgen -c -- "$current")) ;;
    program*) _cudarun_program $((${kind#program } + 1)) ;;
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
