//! Signals that come while a set is proved: those that the caller ignores or blocks lose no start, the others end cudarun
//! and leave nothing behind.

use std::path::PathBuf;
use std::process::Command;

use crate::support::gpu_machine::{GpuMachine, given, texts};
use crate::support::skipped;

const SIGNALS: [(&str, i32); 4] = [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)];

/// Shell functions that look at a proof. The child logs its number once it has made a handle, and then is slow.
const LOOK: &str = r#"
ulimit -c 0
child_of_proof() {
    for glance in $(seq 1200); do
        child=$(sed -n '1s/created //p' "$STAND_IN_LOG" 2>/dev/null)
        [ -z "$child" ] || break
        sleep 0.05
    done
    echo "$child"
}
cudarun_of() { awk '/^PPid/ { print $2 }' "/proc/$1/status"; }
"#;

/// Verdicts and notes of failures that are kept, by name.
fn kept(machine: &GpuMachine) -> Vec<PathBuf> {
    let files = std::fs::read_dir(machine.path("home/.cache/cudarun/proofs"))
        .into_iter()
        .flatten();
    let paths = files.map(|entry| entry.unwrap().path());
    paths
        .filter(|path| path.extension().is_none_or(|extension| extension != "turn"))
        .collect()
}

/// `CUDARUN_TESTS_STARTS` says how many starts are tried, by default one of each way.
#[test]
fn ignored_and_blocked_signals_lose_no_start() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let mut ways = Vec::new();
    for (signal, _) in SIGNALS {
        for way in [
            "env --ignore-signal=SIGNAL",
            "env --block-signal=SIGNAL",
            "setsid env --ignore-signal=SIGNAL",
            "timeout 300 env --ignore-signal=SIGNAL",
            "timeout 300 setsid env --block-signal=SIGNAL",
        ] {
            ways.push(format!(
                "env --default-signal {} {signal}",
                way.replace("SIGNAL", signal)
            ));
        }
    }
    for way in ["nohup", "setsid nohup", "timeout 300 nohup"] {
        ways.push(format!("env --default-signal {way} HUP"));
    }
    let starts =
        std::env::var("CUDARUN_TESTS_STARTS").map_or(ways.len(), |count| count.parse().unwrap());
    let lines: Vec<String> = ways
        .iter()
        .cycle()
        .take(starts)
        .enumerate()
        .map(|(n, way)| format!("{n} {way}\n"))
        .collect();
    machine.workshop.write("ways", &lines.concat());
    // Each start has a proof of its own, since it has a variable that reaches the libraries.
    let code = r#"
        start() {
            number=$1 signal=${!#}
            export STAND_IN_LOG="$WORK/log.$number" STARTED="$WORK/started.$number" CUDA_CACHE_PATH="/$number"
            "${@:2:$#-2}" "$CUDARUN" "$PROGRAM" >/dev/null 2>"$WORK/err.$number" &
            job=$!
            child=$(child_of_proof)
            cudarun=$(cudarun_of "$child")
            for again in 1 2 3; do
                kill -"$signal" "$cudarun" && sleep 0.02
            done
            [ "$(cudarun_of "$child")" = "$cudarun" ] && when=during || when=after
            wait "$job"
            echo "$? $(wc -l <"$STARTED") $when $*"
        }
        while read -r line; do
            while [ "$(jobs -rp | wc -l)" -ge 10 ]; do wait -n; done
            start $line &
        done <"$WORK/ways"
        wait
    "#;
    let output = machine
        .session(&["a"])
        .mode("slow:800")
        .shell(&format!("{LOOK}{code}"));
    let (out, err) = texts(&output);
    let lost: Vec<&str> = out
        .lines()
        .filter(|line| !line.starts_with("0 1 "))
        .collect();
    let during = out
        .lines()
        .filter(|line| line.starts_with("0 1 during "))
        .count();
    assert!(
        lost.is_empty(),
        "{} of {starts} are lost: {lost:#?}{err}",
        lost.len()
    );
    assert_eq!(out.lines().count(), starts, "{err}");
    assert!(
        during > starts / 2,
        "{during} of {starts}: the signals came too late"
    );
    let kept = kept(&machine);
    assert!(
        !kept.is_empty() && kept.iter().all(|path| path.extension().is_none()),
        "{kept:?}"
    );
}

/// The control: a signal that is neither ignored nor blocked ends cudarun, and a later start knows nothing of it.
#[test]
fn other_signals_end_cudarun_and_its_proof() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    for (signal, number) in SIGNALS {
        let session = machine
            .session(&["a"])
            .mode("slow:60000")
            .set("CUDA_MARK", signal);
        let code = format!(
            r#"{LOOK}
            env --default-signal "$CUDARUN" "$PROGRAM" & pid=$!
            child_of_proof >/dev/null
            kill -{signal} $pid; wait $pid; echo $?; sleep 1
            grep -lz ^CUDA_MARK={signal}$ /proc/[0-9]*/environ 2>/dev/null | xargs -r -n1 dirname | while read -r process; do
                tr '\0' ' ' <$process/cmdline | grep -c 'verify-chil[d]'
            done | grep -c 1"#
        );
        let output = session.shell(&code);
        let (out, err) = texts(&output);
        let lines: Vec<&str> = out.lines().collect();
        assert_eq!(
            lines,
            [(128 + number).to_string(), "0".to_owned()],
            "{signal}: {out}{err}"
        );
        assert!(
            machine.started().is_empty() && kept(&machine).is_empty(),
            "{signal}: {:?}",
            kept(&machine)
        );
        machine.proofs();
        // The environment is as before, so that a verdict would be found if one were kept.
        let again = session.mode("").start(&[]);
        assert_eq!(
            (given(&again), machine.proofs()),
            ("a".to_owned(), (1, 1)),
            "{signal}"
        );
        std::fs::remove_file(machine.path("started")).unwrap();
        std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    }
}

/// The kernel ends the first process of a container by no signal that it leaves at its default: the proof goes on.
#[test]
fn no_signal_ends_the_first_process_of_a_container() {
    let probe = Command::new("unshare")
        .args(["--mount", "--pid", "--fork", "true"])
        .output();
    if !probe.is_ok_and(|output| output.status.success()) {
        assert!(
            std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
            "root is needed"
        );
        return skipped("this needs root");
    }
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    for (signal, _) in SIGNALS {
        let code = format!(
            r#"{LOOK}
            (child_of_proof >/dev/null; kill -{signal} 1; sleep 0.1; kill -{signal} 1) &
            exec env --default-signal "$CUDARUN" "$PROGRAM""#
        );
        let output = machine
            .session(&["a"])
            .of_root()
            .mode("slow:1500")
            .shell(&code);
        assert_eq!(
            (given(&output), machine.proofs()),
            ("a".to_owned(), (1, 1)),
            "{signal}"
        );
        assert!(kept(&machine).len() == 1, "{signal}: {:?}", kept(&machine));
        std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    }
}

#[test]
fn a_wait_for_another_proof_takes_signals_as_the_caller_wants() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let code = r#"
        "$CUDARUN" "$PROGRAM" >/dev/null & prover=$!
        child_of_proof >/dev/null
        for way in --ignore-signal=HUP --block-signal=HUP --default-signal; do
            env --default-signal $way "$CUDARUN" "$PROGRAM" >/dev/null & pids="$pids $!"
        done
        sleep 1
        kill -HUP $pids
        sleep 1
        for pid in $pids; do [ -e /proc/$pid/maps ] && grep -q cudarun /proc/$pid/maps && echo waits; done
        wait $prover
        for pid in $pids; do wait $pid; echo $?; done
    "#;
    let output = machine
        .session(&["a"])
        .mode("slow:5000")
        .shell(&format!("{LOOK}{code}"));
    let (out, err) = texts(&output);
    assert_eq!(
        out.lines().collect::<Vec<_>>(),
        ["waits", "waits", "0", "0", "129"],
        "{err}"
    );
    assert_eq!(
        (machine.started().len(), machine.proofs()),
        (3, (1, 1)),
        "{err}"
    );
}

/// Asks for cuDNN and prints its signals.
const STATE: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    #include <string.h>
    int main(void)
    {
        char line[256];
        FILE *status = fopen("/proc/self/status", "r");
        dlopen("libcudnn.so.9", RTLD_NOW);
        while (fgets(line, sizeof line, status))
            if (!strncmp(line, "SigBlk", 6) || !strncmp(line, "SigIgn", 6) || !strncmp(line, "SigCgt", 6))
                fputs(line, stdout);
        return 0;
    }
"#;

/// With a proof, from what is kept, traced: the program has the signals that it would have without cudarun. The child of the
/// proof is blocked as little.
#[test]
fn the_program_and_the_proof_have_the_callers_signals() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    machine.workshop.compile("state", STATE, &[]);
    let mut states = vec!["--default-signal".to_owned(), "--block-signal".to_owned()];
    for signal in [
        "HUP", "INT", "QUIT", "TERM", "PIPE", "CHLD", "USR1", "WINCH", "TSTP",
    ] {
        states.push(format!("--ignore-signal={signal}"));
        states.push(format!("--block-signal={signal}"));
    }
    let code = r#"
        look() {
            export CUDA_CACHE_PATH="/$1" STAND_IN_LOG="$WORK/log.$1"
            echo "state $1"
            for through in "" "$CUDARUN" "$CUDARUN" "$CUDARUN trace -q"; do
                echo "through $through"
                env --default-signal $1 $through "$WORK/state" 2>/dev/null
            done
            rm -f "$STAND_IN_LOG"
            env --default-signal $1 "$CUDARUN" --verify=always "$WORK/state" >/dev/null &
            child=$(child_of_proof)
            echo "child of proof"
            grep SigBlk "/proc/$child/status"
            wait
        }
        for state in $STATES; do
            while [ "$(jobs -rp | wc -l)" -ge 5 ]; do wait -n; done
            look $state >"$WORK/seen.$state" &
        done
        wait
        cat "$WORK"/seen.*
    "#;
    let session = machine
        .session(&["a"])
        .mode("slow:1000")
        .set("STATES", states.join(" "));
    let (out, err) = texts(&session.shell(&format!("{LOOK}{code}")));
    let mut seen = std::collections::BTreeSet::new();
    for part in out.split("state ").skip(1) {
        let mut ways: Vec<&str> = part.split("through ").skip(1).collect();
        let (traced, child) = ways.pop().unwrap().split_once("child of proof\n").unwrap();
        ways.push(traced);
        let signals: Vec<&str> = ways
            .iter()
            .map(|way| way.split_once('\n').unwrap().1)
            .collect();
        assert_eq!(signals, [signals[0]; 4], "{part}{err}");
        assert!(
            signals[0].contains("SigCgt") && signals[0].contains(child),
            "{part}{err}"
        );
        assert!(child.starts_with("SigBlk"), "{part}{err}");
        seen.insert(signals[0].to_owned());
    }
    assert_eq!(seen.len(), states.len(), "the control: each of them shows");
}

/// Prints its children.
const CHILDREN: &str = r#"
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(void)
{
    char path[64], line[256] = "";
    dlopen("libcudart.so.13", RTLD_NOW), dlopen("libcudnn.so.9", RTLD_NOW);
    sprintf(path, "/proc/self/task/%d/children", getpid());
    fgets(line, sizeof line, fopen(path, "r"));
    return printf("children: %s.\n", line) < 0;
}
"#;

/// A panic of cudarun during a proof leaves none of its processes to the program.
#[test]
fn a_panic_during_a_proof_ends_its_processes() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let program = machine
        .workshop
        .compile("children", CHILDREN, &[])
        .display()
        .to_string();
    for (fault, options, ran) in [
        ("none@none", &[][..], true),
        ("panic@proof", &[], true),
        ("thread@proof", &[], true),
        ("panic@proof", &["--require", "cudnn>=9"], false),
    ] {
        let session = machine
            .session(&["a"])
            .set("CUDARUN_TEST_FAULT", fault)
            .mode("slow:500");
        let arguments = [&["--verify", "auto"], options, &[program.as_str()]].concat();
        let (stdout, stderr) = texts(&session.cudarun(&arguments));
        assert_eq!(
            stderr.contains("internal error"),
            fault != "none@none",
            "{fault}: {stderr}"
        );
        assert_eq!(
            stdout,
            if ran { "children: .\n" } else { "" },
            "{fault} {options:?}: {stderr}"
        );
        let _ = std::fs::remove_dir_all(machine.path("home/.cache"));
    }
}

/// Asks for cuDNN, says when it has started, waits until it may go on, and says which signals it had at its end.
const PROBE: &str = r#"
    #include <dlfcn.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/stat.h>
    #include <unistd.h>
    static void write_line(const char *file, const char *line)
    {
        FILE *out = fopen(getenv(file), "a");
        fputs(line, out);
        fclose(out);
    }
    int main(int count, char **words)
    {
        char line[256], state[1024] = "";
        struct stat found;
        dlopen("libcudnn.so.9", RTLD_NOW);
        sprintf(line, "%d\n", getpid());
        write_line("READY", line);
        for (int i = 0; i < 3000 && stat(getenv("GO"), &found); i++)
            usleep(10000);
        if (count > 1 && !strcmp(words[1], "reads") && !fgets(line, sizeof line, stdin))
            return 8;
        if (count > 1 && !strcmp(words[1], "writes"))
            for (int i = 0; i < 100; i++) {
                puts("written");
                fflush(stdout);
                usleep(1000);
            }
        FILE *status = fopen("/proc/self/status", "r");
        while (fgets(line, sizeof line, status))
            if (!strncmp(line, "Sig", 3) || !strncmp(line, "ShdPnd", 6))
                if (strncmp(line, "SigQ", 4))
                    strtok(line, "\n"), strcat(state, line), strcat(state, " ");
        write_line("ENDED", strcat(state, "\n"));
        return 7;
    }
"#;

/// Before, during and after the proof, below the usual wrappers and in a shell with job control, each signal does to cudarun
/// and the program what it does to the program alone; also where cudarun replaces the program. The script says more. `CUDARUN_TESTS_STARTS` says how many starts get
/// a signal at a random moment; 1,000 run the whole table as well.
#[test]
fn signals_do_to_cudarun_what_they_do_to_the_program() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    machine.workshop.compile("probe", PROBE, &[]);
    let starts = std::env::var("CUDARUN_TESTS_STARTS").map_or(20, |count| count.parse().unwrap());
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify/signals.py");
    let session = machine.session(&["a"]).mode("slow:700");
    for (verb, starts) in [
        ("", starts),
        ("diagnose", starts.min(200)),
        ("followed", starts.min(200)),
    ] {
        let (out, err) = texts(&session.shell(&format!(
            "ulimit -c 0; exec python3 -B {script} {starts} {verb}"
        )));
        assert!(out.ends_with("all of it holds\n"), "{verb}: {out}{err}");
    }
}
