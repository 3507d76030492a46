#!/usr/bin/env bash
# Measures the cost of the hook on a cd, in bash and zsh: benches/hook.sh [cudarun]
#
# Medians of ROUNDS (200): outside of projects, where no process is started, and in a project, where one is. Fails when that
# takes more than 5 ms. Needs zsh. Measures a process that does nothing (`true`) in the same run.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/home/plain/deep" "$work/home/project/deep"
ln -s "$cudarun" "$work/bin/cudarun"
export PATH="$work/bin:$PATH" HOME=$work/home XDG_CACHE_HOME=$work/cache ROUNDS="${ROUNDS:-200}"
unset XDG_CONFIG_HOME
printf '[requires]\ncudnn = ">=9"\ndriver = ">=1"\n' >"$HOME/project/.cudarun.toml"
# A moment, so that the answer is kept.
sleep 0.1

# For bash and zsh: the same words.
cat >"$work/walk" <<'WALK'
eval "$(cudarun hook "$shell")"
[ "$shell" = bash ] || zmodload zsh/datetime
walk() {
    local round=0 before
    while [ $round -lt "$ROUNDS" ]; do
        cd "$2/deep"
        before=$EPOCHREALTIME
        __cudarun_hook
        echo "$1 $before $EPOCHREALTIME"
        cd "$2"
        __cudarun_hook
        round=$((round + 1))
    done
}
walk plain ~/plain
__CUDARUN_TOLD=$(command cudarun hook --check= 2>/dev/null)
cd ~/project && __cudarun_hook 2>/dev/null
sleep 0.1
walk project ~/project 2>/dev/null
round=0
while [ $round -lt "$ROUNDS" ]; do
    before=$EPOCHREALTIME
    told=$(command true)
    echo "true $before $EPOCHREALTIME"
    round=$((round + 1))
done
WALK

status=0
for shell in bash zsh; do
    env LC_ALL=C shell="$shell" "$shell" "$work/walk" >"$work/times"
    for what in plain project true; do
        awk -v what=$what '$1 == what { printf "%.1f\n", ($3 - $2) * 1e6 }' "$work/times" | sort -n >"$work/sorted"
        median=$(sed -n "$(((ROUNDS + 1) / 2))p" "$work/sorted")
        case $what in
        plain) printf '%-5s cd outside of projects %8.0f us\n' "$shell" "$median" ;;
        project)
            printf '%-5s cd in a project        %8.0f us (budget 5000)\n' "$shell" "$median"
            awk -v median="$median" 'BEGIN { exit median > 5000 }' || status=1
            ;;
        true) printf '%-5s a process for nothing  %8.0f us\n' "$shell" "$median" ;;
        esac
    done
done
exit $status
