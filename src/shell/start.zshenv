# .zshenv of zsh in `cudarun shell`: the person's own file. An interactive shell then reads the .zshrc beside this file.
typeset -g __cudarun_plan=$CUDARUN_SHELL_PLAN __cudarun_files=$ZDOTDIR
unset ZDOTDIR
(( ! $+CUDARUN_SHELL_OWN )) || export ZDOTDIR=$CUDARUN_SHELL_OWN
unset CUDARUN_SHELL_PLAN CUDARUN_SHELL_OWN
[[ ! -r ${ZDOTDIR-$HOME}/.zshenv ]] || . "${ZDOTDIR-$HOME}/.zshenv"
if [[ -o interactive && -o rcs ]]; then
    (( ! $+ZDOTDIR )) || typeset -g __cudarun_own=$ZDOTDIR
    ZDOTDIR=$__cudarun_files
else
    eval "$__cudarun_plan"
    unset __cudarun_plan
fi
unset __cudarun_files
