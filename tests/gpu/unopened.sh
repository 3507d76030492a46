#!/usr/bin/env bash
# A program for a GPU that opens none: tests/gpu/unopened.sh PATH-TO-cudarun
#
# Alone: where another process starts meanwhile and keeps a GPU open, cudarun cannot tell whose it is, and says nothing. Prints rows
# for the table of tests/gpu/run.sh.
# shellcheck source=tests/gpu/row.sh
. "$(dirname "$(realpath "$0")")/row.sh"

# unopened SAID CODE: whether `diagnose` and `trace` say of a program with torch that it opened no GPU.
unopened() {
    local said=$1 code=$2 result=ok printed verb with=
    cd "$work" || exit 1
    printed=$(python3 -c "$code" 2>&1)
    for verb in diagnose trace; do
        [ "$("$cudarun" "$verb" python3 -c "$code" 2>err)" = "$printed" ] || result=FAIL
        if grep -q 'the program opened no GPU\|no process opened' err; then with="$with$verb says it; "; else with="$with$verb does not; "; fi
    done
    [ "$with" = "diagnose $said; trace $said; " ] || result=FAIL
    row $result "torch, GPU opened or not" "" "${printed//$'\n'/ }" "${with%; }"
    [ $result = ok ] || tail -n 20 err | sed 's/^/      /'
}
if python3 -c 'import torch' 2>/dev/null; then
    unopened "says it" 'import torch; print(torch.zeros(1).device)'
    unopened "does not" 'import torch; print(torch.zeros(1, device="cuda").device)'
fi
exit $failed
