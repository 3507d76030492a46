# .zshrc of zsh in `cudarun shell`: the person's own file, then the plan, which has the last word.
if (( $+__cudarun_own )); then ZDOTDIR=$__cudarun_own; else unset ZDOTDIR; fi
unset __cudarun_own
[[ ! -r ${ZDOTDIR-$HOME}/.zshrc ]] || . "${ZDOTDIR-$HOME}/.zshrc"
eval "$__cudarun_plan"
unset __cudarun_plan
