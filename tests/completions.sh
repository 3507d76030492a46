#!/usr/bin/env bash
# Completes lines in the real bash and fish and compares what is offered: tests/completions.sh
#
# Needs fish, bash-completion and git (as a program with a completion of its own).
# shellcheck disable=SC2016,SC2317  # code for other shells; called by name
set -eu
completions=$(dirname "$(realpath "$0")")/../completions
failed=0

# What bash offers for the last of these words, one a line.
in_bash() {
    bash -c '
        source /usr/share/bash-completion/bash_completion
        source "$0/cudarun.bash"
        compopt() { :; }
        COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMP_LINE="$*" COMP_POINT=${#COMP_LINE}
        _cudarun cudarun "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD - 1]}"
        printf "%s\n" "${COMPREPLY[@]%% }"
    ' "$completions" "$@"
}

in_fish() {
    fish -c 'source $argv[1]/cudarun.fish; complete -C "$argv[2..-1]"' "$completions" "$@" | cut -f 1
}

# offers YES|no WORD LINE…: whether WORD is offered at the end of the line, in both shells.
offers() {
    local wanted=$1 word=$2 shell
    shift 2
    for shell in bash fish; do
        if "in_$shell" "$@" | grep -qxe "$word"; then found=yes; else found=no; fi
        if [ "$found" != "$wanted" ]; then
            echo "$shell: \`$*\` should offer $word: $wanted, but it is: $found"
            failed=1
        fi
    done
}

offers yes explain cudarun expl
offers yes --uses cudarun --us
offers yes --json cudarun explain --
offers no --json cudarun --
offers yes always cudarun --color a
offers yes cudnn cudarun list cu
for before in "" "run" "explain" "explain --" "-v --color always" "run --uses torch" "--"; do
    # shellcheck disable=SC2086  # a list of words
    offers yes cherry-pick cudarun $before git cherry-
done
offers no cherry-pick cudarun list git cherry-
offers no --json cudarun git --
[ $failed -eq 0 ] && echo "completions: every line completes"
exit $failed
