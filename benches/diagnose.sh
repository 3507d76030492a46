#!/usr/bin/env bash
# Measures how fast `cudarun diagnose` reads a log: benches/diagnose.sh [cudarun]
#
# Five texts: 100 MB of an ordinary log, the same with a carriage return in each line, 100 MB in which 64 processes repeat
# errors, 100 MB of errors that all differ, and 10 KB.
# Prints the median of ROUNDS (5) of each; the commands take turns, and the time is that of the processor. Fails if a long
# log takes more than its limit × `grep -c -i` for eight words, 1.3 to 2 × the time of today, or more than 60 MB; or if
# 10 KB take more than 2.6 × `doctor python3`, which looks at the environment that the text is explained with (the aim is 1.2).
# Needs python3.
set -eu
cudarun=$(realpath "${1:-$(dirname "$(realpath "$0")")/../target/release/cudarun}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -m 700 "$work/home"
cd "$work"
python3 - <<'END'
import random
random.seed(1)
number = random.randrange
ordinary = [
    "Epoch %d: 45%%|####      | %d/1000 [00:12<00:15, 35.1it/s, loss=0.%d]\n",
    "INFO:trainer:step=%d lr=%d grad_norm=%d\n",
    "Requirement already satisfied: numpy in /usr/lib/python3/site-packages (%d.%d.%d)\n",
    "[rank%d]: loaded part %d of %d\n",
]
errors = [
    "[rank%d]: RuntimeError: CUDA error: out of memory\n",
    "[rank%d]: ImportError: libcudart.so.12: cannot open shared object file: No such file or directory\n",
    "[rank%d]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.\n",
    '[rank%d]:   File "/opt/env/lib/python3.11/site-packages/torch/nn/modules/module.py", line 1511, in call\n',
]
def write(name, line, size=100 << 20):
    with open(name, "w") as out:
        while out.tell() < size:
            out.write("".join(line() for _ in range(100)))
write("ordinary", lambda: random.choice(ordinary) % (number(99), number(9999), number(999)))
write("progress", lambda: "\r" + random.choice(ordinary) % (number(99), number(9999), number(999)))
write("repeated", lambda: random.choice(errors) % number(64))
write("different", lambda: "ImportError: undefined symbol: symbol_%d\n" % number(10**9))
write("short", lambda: random.choice(errors) % number(64), 10 << 10)
END

# `grep` stops at the first match if its output is /dev/null. Appends the milliseconds of the processor and the kilobytes of memory that a command takes to a file.
measured() {
    local to=$1
    shift
    python3 - "$@" >>"$to" <<'END'
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=open("output", "wb"), stderr=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
sys.exit(f"status {status}: {sys.argv[1:]}") if os.waitstatus_to_exitcode(status) not in (0, 1) else None
print(1000 * (used.ru_utime + used.ru_stime), used.ru_maxrss)
END
}
at() {
    measured "$1" env -i HOME="$work/home" PATH=/usr/bin:/bin LANG=C.UTF-8 "${@:2}"
}
words='error|cuda|cannot open|undefined|failed|version|library|driver'
for ((round = 0; round < ${ROUNDS:-5}; round++)); do
    for log in ordinary progress repeated different short; do
        at "$log.times" "$cudarun" diagnose --json --from "$log"
        at "$log.grep" grep -c -i -E "$words" "$log"
    done
    at doctor "$cudarun" doctor --json python3
done
median() { sort -n "$1" | awk '{ all[NR] = $1 } END { print all[int((NR + 1) / 2)] }'; }
most() { awk '$2 > most { most = $2 } END { print most }' "$1"; }
failed=0
compare() {
    awk -v name="$1" -v took="$2" -v other="$3" -v against="$4" -v limit="$5" -v memory="$6" 'BEGIN {
        printf "%-10s %7.1f ms = %.2f × %s (limit %s), %.0f MB\n", name, took, took / other, against, limit, memory / 1000
        exit took / other > limit || memory > 60000
    }' || failed=1
}
while read -r log limit; do
    compare "$log" "$(median "$log.times")" "$(median "$log.grep")" grep "$limit" "$(most "$log.times")"
done <<'END'
ordinary 4
progress 12
repeated 16
different 110
END
compare short "$(median short.times)" "$(median doctor)" doctor 2.6 "$(most short.times)"
exit $failed
