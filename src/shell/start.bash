# Start-up file of bash in `cudarun shell`: the person's own file, then the plan, which has the last word.
# shellcheck shell=bash disable=SC1090
__cudarun_plan=$CUDARUN_SHELL_PLAN
if [[ -n ${CUDARUN_SHELL_OWN-} ]]; then BASH_ENV=$CUDARUN_SHELL_OWN; else unset -v BASH_ENV; fi
unset -v CUDARUN_SHELL_PLAN CUDARUN_SHELL_OWN
if [[ $- == *i* ]]; then
    [[ ! -r ~/.bashrc ]] || . ~/.bashrc
elif [[ -r ${BASH_ENV-} ]]; then
    . "$BASH_ENV"
fi
eval "$__cudarun_plan"
unset -v __cudarun_plan
