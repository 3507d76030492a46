#!/usr/bin/env bash
# Completes lines in the real bash, fish and zsh and compares what is offered: tests/completions.sh [cudarun]
#
# Needs fish, zsh, bash-completion and git (as a program with a completion of its own).
# shellcheck disable=SC2016,SC2317  # code for other shells; called by name
set -eu
completions=$(dirname "$(realpath "$0")")/../completions
cudarun=$(realpath "${1:-$completions/../target/release/cudarun}")
failed=0
# The scripts start `cudarun`.
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
ln -s "$cudarun" "$bin/cudarun"
export PATH=$bin:$PATH

# Prints the completions of bash for the last of these words, one a line.
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

# The ways into zsh: a file in fpath, `eval`, and for comparison a shell that knows nothing of cudarun.
in_fpath="fpath=($(printf %q "$completions") \$fpath); autoload -U compinit; compinit -u -D"
unknown='autoload -U compinit; compinit -u -D; unset "_comps[cudarun]"'
evaluated="$unknown; eval \"\$($(printf %q "$cudarun") completions zsh)\""

# in_zsh SETUP LINE: the line as zsh completes it, on a terminal of its own.
in_zsh() {
    timeout 30 zsh -f -c '
        zmodload zsh/zpty
        zpty z zsh -f -i
        zpty -w z "$1"
        zpty -w z "complete-and-show() { zle complete-word; print -r -- \"<<\$BUFFER>>\" }"
        zpty -w z "zle -N complete-and-show; bindkey \"^I\" complete-and-show; print rea\"\"dy"
        zpty -r -m z seen "*ready*"
        zpty -n -w z "$2"$'"'\t'"'
        zpty -r -m z seen "*<<*>>*"
        print -r -- "$seen"
    ' zsh "$1" "$2"
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
offers yes bash cudarun hook ba
offers yes zsh cudarun completions z
offers yes direnv cudarun export --shell dir
offers yes --save cudarun doctor --sa
offers yes cherry-pick cudarun doctor git cherry-
offers no cherry-pick cudarun allow git cherry-
offers no cherry-pick cudarun hook git cherry-
offers yes cherry-pick cudarun export --shell direnv git cherry-
offers yes cudnn cudarun list cu
offers yes cutensor cudarun list cut
offers yes cudnn cudarun fetch cudn
offers yes prune cudarun fetch pru
offers yes cherry-pick cudarun fetch git cherry-
offers yes none cudarun --pin-mode n
offers yes toolkit cudarun --without too
offers yes cudnn= cudarun --pin cudn
offers yes run cudarun ""
offers no awk cudarun ""
offers yes awk cudarun aw
offers yes -o cudarun trace -
offers no --verify cudarun trace --verif
for before in "" "run" "explain" "explain --" "-v --color always" "run --uses torch" "--"; do
    # shellcheck disable=SC2086  # a list of words
    offers yes cherry-pick cudarun $before git cherry-
done
offers no cherry-pick cudarun list git cherry-
offers no --json cudarun git --
offers no always cudarun git --color a
offers no python3 cudarun --color zz

# With `=`: bash gives the value alone, in three words or in one; the others the whole word.
COMP_LINES='--color = al|always
--color =|never
--verify = n|never
--color=al|--color=always
--root = /us|/usr
--root=/us|--root=/usr
--color = always git cherry-|cherry-pick
--color = always --verify = never git cherry-|cherry-pick
--color=always git cherry-|cherry-pick'
while IFS='|' read -r line word; do
    # shellcheck disable=SC2086  # a list of words
    if ! in_bash cudarun $line | grep -qxe "$word"; then
        echo "bash: \`cudarun $line\` should offer $word"
        failed=1
    fi
done <<<"$COMP_LINES"
# The binary alone prints equal completions.
for shell in bash zsh fish; do
    case $shell in zsh) file=_cudarun ;; *) file=cudarun.$shell ;; esac
    "$cudarun" completions $shell | diff - "$completions/$file" || { echo "cudarun completions $shell"; failed=1; }
done

in_fish cudarun --root=/us | grep -qxe --root=/usr/ || { echo "fish: --root=/us"; failed=1; }
in_fish cudarun --color=al | grep -qxe --color=always || { echo "fish: --color=al"; failed=1; }
for setup in "$in_fpath" "$evaluated"; do
    for line in "--color=al|--color=always" "--verify=ne|--verify=never" "--color al|--color always" "--root=/us|--root=/usr/" \
        "--color=always git cherry-|git cherry-pick"; do
        in_zsh "$setup" "cudarun ${line%|*}" | grep -qe "${line#*|}" || { echo "zsh: ${line%|*}, after $setup"; failed=1; }
    done
done
if in_zsh "$unknown" "cudarun --color=al" | grep -qe --color=always; then
    echo "zsh: completes a line without the completions of cudarun"
    failed=1
fi
# Without compinit there is nothing to register with; strict options are no reason for an error either.
for options in "" "-o nounset -o errexit"; do
    # shellcheck disable=SC2086  # a list of words
    said=$(zsh -f $options -c 'eval "$("$1" completions zsh)"; print reached' zsh "$cudarun" 2>&1) || true
    [ "$said" = reached ] || { echo "zsh -f $options: eval without compinit says: $said"; failed=1; }
done

[ $failed -eq 0 ] && echo "completions: every line completes"
exit $failed
