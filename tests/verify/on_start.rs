//! When a set is proved, what becomes of a set that fails, and of many starts at once: the whole program on a machine of
//! stand-ins.

use crate::support::gpu_machine::{GpuMachine, given, texts};
use crate::support::{CUDARUN, copy_program, must_be_short, skipped};

#[test]
fn a_set_is_proved_once() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let session = machine.session(&["a"]);
    let start = |options: &[&str]| {
        let output = session.start(options);
        assert_eq!(given(&output), "a", "{options:?}");
        (machine.proofs(), texts(&output).1)
    };
    assert_eq!(
        start(&[]),
        ((1, 1), String::new()),
        "silent when all is well"
    );
    assert_eq!(start(&[]).0, (0, 0));
    let (proofs, said) = start(&["-v"]);
    assert_eq!(proofs, (0, 0));
    assert!(
        said.contains("cudarun: proved earlier on Stand-in in"),
        "{said}"
    );
    assert_eq!(start(&["--verify=never"]).0, (0, 0));
    assert_eq!(start(&["--verify=always"]).0, (1, 1));
    // Another GPU, another library, another level: another proof.
    let session = session.set("CUDA_VISIBLE_DEVICES", "0");
    assert_eq!(
        (given(&session.start(&[])), machine.proofs()),
        ("a".to_owned(), (1, 1))
    );
    let session = session.set("CUDARUN_VERIFY_LEVEL", "handle");
    assert_eq!(
        (given(&session.start(&[])), machine.proofs()),
        ("a".to_owned(), (0, 0)),
        "conv has shown it"
    );
    let session = session.set("CUDARUN_VERIFY_LEVEL", "deep");
    assert_eq!(
        (given(&session.start(&[])), machine.proofs().1 > 0),
        ("a".to_owned(), true)
    );
    let session = session.set("CUDARUN_VERIFY_LEVEL", "conv");
    assert_eq!(
        (given(&session.start(&[])), machine.proofs()),
        ("a".to_owned(), (0, 0)),
        "deep has shown it"
    );
    std::fs::write(machine.path("a/extra.txt"), "").unwrap();
    assert_eq!(
        (given(&session.start(&[])), machine.proofs()),
        ("a".to_owned(), (0, 0)),
        "no library"
    );
    let library = std::fs::read(machine.path("a/libcudnn_ops.so.9")).unwrap();
    std::fs::write(machine.path("a/libcudnn_ops.so.9"), library).unwrap();
    assert_eq!(
        (given(&session.start(&[])), machine.proofs()),
        ("a".to_owned(), (1, 1)),
        "a library"
    );
}

#[test]
fn a_binary_that_is_replaced_proves_all_the_same() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let copy = machine.path("cudarun");
    let start = |fault: &str| {
        copy_program(CUDARUN, &copy);
        let session = machine
            .session(&["a"])
            .set("COPY", copy.display().to_string())
            .set("CUDARUN_TEST_FAULT", fault);
        let output = session.shell("\"$COPY\" \"$PROGRAM\"");
        let is_there = copy.exists();
        let _ = std::fs::remove_file(&copy);
        assert_eq!(given(&output), "a", "{}", texts(&output).1);
        (machine.proofs(), is_there)
    };
    assert_eq!(start(""), ((1, 1), true), "the control");
    assert_eq!(start("replaced@options"), ((1, 1), false));
}

/// A start that was kept is no proof of what was not proved.
#[test]
fn variables_that_affect_the_libraries_need_a_new_proof() {
    let Some(machine) = GpuMachine::new(&["a", "b-linked"]) else {
        return;
    };
    let session = machine.session(&["a"]);
    for _ in 0..2 {
        assert_eq!(given(&session.start(&[])), "a");
    }
    assert_eq!(
        machine.proofs(),
        (1, 1),
        "(handles, convolutions) of the proofs"
    );
    let session = session.mode("crash");
    assert_eq!(
        given(&session.start(&[])),
        "a",
        "the control: nothing has changed that anybody knows of"
    );
    for variable in [
        "CUDA_FORCE_PTX_JIT",
        "CUDNN_LOGLEVEL_DBG",
        "NVIDIA_TF32_OVERRIDE",
        "LD_BIND_NOW",
    ] {
        let output = machine
            .session(&["a"])
            .mode("crash")
            .set(variable, "1")
            .start(&[]);
        assert_eq!(
            output.status.code(),
            Some(125),
            "{variable}: {}",
            texts(&output).1
        );
    }
    // A library that is not NVIDIA's and disappears.
    let linked = machine.session(&["b-linked", "extra"]);
    for _ in 0..2 {
        assert_eq!(given(&linked.start(&[])), "b-linked");
    }
    machine.proofs();
    assert_eq!(
        (given(&linked.start(&[])), machine.proofs()),
        ("b-linked".to_owned(), (0, 0))
    );
    std::fs::remove_file(machine.path("extra/libextra.so.1")).unwrap();
    let output = linked.start(&[]);
    assert_eq!(output.status.code(), Some(125), "{}", texts(&output).1);
    assert!(
        texts(&output).1.contains("[library-does-not-load]"),
        "{}",
        texts(&output).1
    );
}

/// If the kernel does not list its GPUs, there may be others the next time.
#[test]
fn proofs_on_unknown_gpus_are_not_kept() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let unknown = machine.session(&["a"]).before("umount /proc/driver");
    for _ in 0..2 {
        assert_eq!(
            (given(&unknown.start(&["--verify=auto"])), machine.proofs()),
            ("a".to_owned(), (1, 1))
        );
    }
}

/// Deep failures are of what a start does not try.
#[test]
fn a_failure_at_a_higher_level_does_not_block_a_lower_one() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let session = machine.session(&["a"]).mode("cudnnGraphVersionCheck:4000");
    let program = machine.path("program").display().to_string();
    let deep = session.cudarun(&["verify", "--level", "deep", &program]);
    assert_eq!(deep.status.code(), Some(1), "{}", texts(&deep).1);
    assert!(
        texts(&deep).1.contains("check the versions"),
        "{}",
        texts(&deep).1
    );
    assert_eq!(given(&session.start(&[])), "a");
    let whole = machine
        .session(&["a"])
        .cudarun(&["verify", "--fresh", "--level", "deep", &program]);
    let (out, err) = texts(&whole);
    let out = out.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        whole.status.success() && out.contains("convolution by libcudnn.so.9"),
        "{out}{err}"
    );
}

/// The threads that read what the child says share a busy processor, as on a crowded machine; the one that waits does not.
#[test]
fn a_report_that_is_read_late_still_counts() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let code = r#"
        taskset -c 0,1 true && taskset -c 1 true || { echo no; exit; }
        for hog in 1 2 3; do timeout 60 taskset -c 0 sh -c 'while :; do :; done' & hogs="$hogs $!"; done
        for number in 1 2 3; do
            export CUDA_CACHE_PATH="/$number" STAND_IN_LOG="$WORK/log.$number"
            taskset -c 1 "$CUDARUN" "$PROGRAM" >/dev/null & pid=$!
            for glance in $(seq 600); do grep -q created "$STAND_IN_LOG" 2>/dev/null && break; sleep 0.05; done
            for task in /proc/$pid/task/*; do
                [ "${task##*/}" = $pid ] && continue
                { taskset -pc 0 "${task##*/}"; renice -n 19 -p "${task##*/}"; } >/dev/null 2>&1
            done
            wait $pid; echo $?
        done
        kill $hogs
    "#;
    let output = machine.session(&["a"]).mode("slow:500").shell(code);
    let (out, err) = texts(&output);
    if out == "no\n" {
        return skipped("this needs two processors");
    }
    assert_eq!(out, "0\n0\n0\n", "{err}");
}

/// The program keeps the settings that its starter requested from the kernel.
#[test]
fn the_program_gets_the_orphans_that_its_starter_wanted() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let becomes = r"
        #include <stdlib.h>
        #include <sys/prctl.h>
        #include <unistd.h>
        int main(int count, char **words) { prctl(PR_SET_CHILD_SUBREAPER, atoi(words[1])); return execv(words[2], words + 2); }";
    let asks = r#"
        #include <dlfcn.h>
        #include <stdio.h>
        #include <sys/prctl.h>
        int main(void) { int is = 9; dlopen("libcudnn.so.9", RTLD_NOW); prctl(PR_GET_CHILD_SUBREAPER, &is); return printf("%d\n", is) < 0; }"#;
    machine.workshop.compile("becomes", becomes, &[]);
    machine.workshop.compile("asks", asks, &[]);
    for wanted in ["0", "1"] {
        let line =
            format!("exec \"$WORK/becomes\" {wanted} \"$CUDARUN\" --verify=always \"$WORK/asks\"");
        let output = machine.session(&["a"]).shell(&line);
        assert_eq!(texts(&output), (format!("{wanted}\n"), String::new()));
    }
    assert_eq!(
        machine.proofs(),
        (2, 2),
        "(handles, convolutions) of the proofs"
    );
}

/// The set that fails is followed by the next best, which is said; the control is the start without cudarun.
#[test]
fn a_set_that_fails_is_followed_by_the_next() {
    let Some(machine) = GpuMachine::new(&["a", "b"]) else {
        return;
    };
    let session = machine.session(&["a", "b"]);
    assert_eq!(
        given(&session.start(&["--verify=never"])),
        "a",
        "the control: it is the better one"
    );
    assert_eq!(
        given(&session.shell("exec \"$PROGRAM\"")),
        "a",
        "the control: as it is"
    );
    for (mode, cause) in [
        ("cudnnConvolutionForward:3000", "no-engine"),
        ("wrong", "wrong-numbers"),
        ("crash", "crashed"),
        ("abort", "crashed"),
        ("leave", "no-report"),
        ("cudnnConvolutionForward:3007", "no-kernel"),
    ] {
        let session = machine.session(&["a", "b"]).mode(mode).only("a");
        let output = session.start(&[]);
        assert_eq!(given(&output), "b", "{mode}: {}", texts(&output).1);
        let said = texts(&output).1;
        let place = machine.path("a").display().to_string();
        assert!(
            said.starts_with("warning: cuDNN 9.19") && said.lines().count() == 1,
            "{mode}: {said}"
        );
        assert!(
            said.contains(&place) && said.contains(&format!("[{cause}]")),
            "{mode}: {said}"
        );
        assert_eq!(machine.proofs().0, 2, "{mode}");
        // It is said at every start, and found out but once.
        let again = session.start(&[]);
        assert_eq!(
            (given(&again), texts(&again).1),
            ("b".to_owned(), said),
            "{mode}"
        );
        assert_eq!(machine.proofs(), (0, 0), "{mode}");
        assert_eq!(texts(&session.start(&["-q"])).1, "", "{mode}");
        std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    }
}

#[test]
fn a_start_is_refused_if_every_set_fails() {
    let Some(machine) = GpuMachine::new(&["a", "b"]) else {
        return;
    };
    let session = machine
        .session(&["a", "b"])
        .mode("cudnnConvolutionForward:3000");
    let output = session.start(&[]);
    let (out, said) = texts(&output);
    assert_eq!((output.status.code(), out.as_str()), (Some(125), ""));
    assert!(said.starts_with("error: cuDNN 9.19"), "{said}");
    // The steps of the proof and its seed are for `-v`.
    must_be_short(&said);
    let is_long = |said: &str| said.contains(" ms\n") && said.contains("seed ");
    assert!(!is_long(&said), "{said}");
    let verbose = texts(&session.start(&["-v"])).1;
    assert!(
        is_long(&verbose) && verbose.contains("error: the set failed its proof: cuDNN 9.19"),
        "{verbose}"
    );
    std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    machine.proofs();
    let output = session.start(&[]);
    let (_, said) = texts(&output);
    assert!(
        said.contains("tried without it: cuDNN 9.19") && said.contains("no other set fits"),
        "{said}"
    );
    assert!(
        said.contains("\nhint: ") && machine.started().is_empty(),
        "{said}"
    );
    assert_eq!(machine.proofs().0, 2);
    // A failure is believed for a moment, and every process says why by itself.
    let again = session.start(&[]);
    assert_eq!((again.status.code(), machine.proofs()), (Some(125), (0, 0)));
    assert!(
        texts(&again).1.contains("result of less than a minute ago"),
        "{}",
        texts(&again).1
    );
    // The other installation does not go with the CUDA runtime: without a pick the program would get the one that failed.
    let Some(other) = GpuMachine::new(&["a", "b-cuda12"]) else {
        return;
    };
    assert_eq!(
        given(&other.session(&["a", "b-cuda12"]).start(&[])),
        "a",
        "the control"
    );
    std::fs::remove_dir_all(other.path("home/.cache")).unwrap();
    let output = other
        .session(&["a", "b-cuda12"])
        .mode("wrong")
        .only("a")
        .start(&[]);
    assert_eq!(output.status.code(), Some(125), "{}", texts(&output).1);
    assert!(
        texts(&output).1.contains("no other set fits"),
        "{}",
        texts(&output).1
    );
    // A library that a person has named is not replaced by another.
    std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    let pinned = machine.session(&["a", "b"]).mode("wrong").only("a");
    let pin = format!("cudnn={}", machine.path("a").display());
    let output = pinned.start(&["--pin", &pin]);
    assert_eq!(output.status.code(), Some(125), "{}", texts(&output).1);
    assert!(
        texts(&output).1.contains("[wrong-numbers]"),
        "{}",
        texts(&output).1
    );
}

/// Neither memory nor the driver nor a hidden GPU is a library's fault: no other set is tried, and nothing is kept of
/// what will be otherwise in a moment.
#[test]
fn faults_outside_the_libraries_blame_no_library() {
    let Some(machine) = GpuMachine::new(&["a", "b"]) else {
        return;
    };
    let full = machine.session(&["a", "b"]).mode("out-of-memory");
    for _ in 0..2 {
        let output = full.start(&[]);
        assert_eq!(given(&output), "a");
        let said = texts(&output).1;
        assert!(
            said.starts_with("cudarun: not proved: GPU 0 (Stand-in) is out of memory"),
            "{said}"
        );
        assert_eq!(said.lines().count(), 1, "one line is printed: {said}");
        assert_eq!(machine.proofs().0, 1, "one proof is made");
    }
    assert_eq!(given(&machine.session(&["a", "b"]).start(&[])), "a");
    assert_eq!(machine.proofs(), (1, 1), "with memory it is proved");
    for (mode, cause) in [
        ("cuInit:803", "driver-mismatch"),
        ("cuInit:999", "driver-unreachable"),
        ("cudnnConvolutionForward:3005", "driver-too-old"),
        ("retain:222", "driver-too-old"),
        ("cuInit:34", "stub"),
        ("cuInit:100", "no-device"),
    ] {
        std::fs::remove_dir_all(machine.path("home/.cache")).unwrap();
        machine.proofs();
        let output = machine.session(&["a", "b"]).mode(mode).start(&[]);
        let said = texts(&output).1;
        assert_eq!(output.status.code(), Some(125), "{mode}: {said}");
        assert!(
            said.contains(&format!("[{cause}]")) && !said.contains("tried"),
            "{mode}: {said}"
        );
        assert!(machine.proofs().0 <= 1, "{mode}");
    }
    let hidden = machine
        .session(&["a"])
        .mode("cuInit:100")
        .set("CUDA_VISIBLE_DEVICES", "");
    let output = hidden.start(&[]);
    assert_eq!(
        (given(&output), texts(&output).1),
        ("a".to_owned(), String::new())
    );
}

#[test]
fn verify_says_what_it_found() {
    let Some(machine) = GpuMachine::new(&["a", "b"]) else {
        return;
    };
    let program = machine.path("program").display().to_string();
    let verify = |session: &crate::support::gpu_machine::Session<'_>, options: &[&str]| {
        let words: Vec<&str> = ["verify"]
            .iter()
            .chain(options)
            .copied()
            .chain([program.as_str()])
            .collect();
        let output = session.cudarun(&words);
        let (out, err) = texts(&output);
        (output.status.code().unwrap(), out, err)
    };
    let session = machine.session(&["a", "b"]);
    let (status, out, err) = verify(&session, &[]);
    assert_eq!((status, err.as_str()), (0, ""), "{out}");
    assert!(
        out.contains("GPU 0: convolution by libcudnn.so.9") && out.contains("proved (level conv, "),
        "{out}"
    );
    assert_eq!(
        machine.proofs(),
        (1, 1),
        "(handles, convolutions) of the proofs"
    );
    let (_, out, _) = verify(&session, &[]);
    assert!(out.contains("earlier: nothing has changed since)"), "{out}");
    assert_eq!(
        machine.proofs(),
        (0, 0),
        "(handles, convolutions) of the proofs"
    );
    let (_, out, _) = verify(&session, &["--fresh", "--level", "handle"]);
    assert!(
        out.contains("proved (level handle, ") && !out.contains("convolution"),
        "{out}"
    );
    assert_eq!(
        machine.proofs(),
        (1, 0),
        "(handles, convolutions) of the proofs"
    );
    // Equal seeds give equal numbers.
    let (_, out, _) = verify(&session, &["--seed", "4711", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (&json["verdict"], &json["proof"]["seed"]),
        (&"passed".into(), &4711.into())
    );
    assert_eq!(json["proof"]["finding"]["gpus"][0]["name"], "Stand-in");
    assert_eq!(machine.proofs(), (1, 1), "a seed is for a new proof");
    let numbers = |seed: &str| {
        verify(&session, &["--seed", seed]);
        let text = std::fs::read_to_string(machine.path("log")).unwrap();
        machine.proofs();
        text.lines()
            .find(|line| line.starts_with("numbers "))
            .unwrap()
            .to_owned()
    };
    assert_eq!(numbers("8"), numbers("8"));
    assert_ne!(numbers("8"), numbers("9"));
    // As it is, the first installation answers, whatever cudarun would pick.
    let bad = machine.session(&["a", "b"]).mode("wrong").only("a");
    let (status, _, err) = verify(&bad, &["--as-is"]);
    assert_eq!(status, 1, "{err}");
    assert!(
        err.contains("[wrong-numbers]") && err.contains("/a ("),
        "{err}"
    );
    let (status, out, _) = verify(&bad, &["--json", "--fresh"]);
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(
        (status, &json["verdict"]),
        (0, &"passed".into()),
        "the next set holds"
    );
    assert_eq!(json["given_up"][0]["cause"], "wrong-numbers");
    // Only the program's own search path leads to this library.
    let path = machine.path("b").display().to_string();
    let flags = [
        format!("-Wl,--disable-new-dtags,-rpath,{path}"),
        format!("{path}/libcudnn.so.9"),
        "-Wl,--allow-shlib-undefined".to_owned(),
    ];
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let source =
        "unsigned long cudnnGetVersion(void); int main(void) { return cudnnGetVersion() == 0; }";
    let linked = machine
        .workshop
        .compile("linked", source, &flags)
        .display()
        .to_string();
    let output = machine
        .session(&[])
        .cudarun(&["verify", "--as-is", "--json", &linked]);
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(json["verdict"], "passed", "{json:#}");
    let mapped = json["proof"]["finding"]["mapped"].as_array().unwrap();
    let is_of_b = |file: &serde_json::Value| {
        file["path"].as_str().unwrap() == format!("{path}/libcudnn.so.9")
    };
    assert!(mapped.iter().any(is_of_b), "{json:#}");
    // Without a program: what the loader gives to any.
    let output = bad.cudarun(&["verify"]);
    assert_eq!(output.status.code(), Some(1), "{}", texts(&output).1);
    let output = machine.session(&["b"]).cudarun(&["verify"]);
    assert_eq!(output.status.code(), Some(0), "{}", texts(&output).1);
    assert!(
        texts(&output).0.contains("libcudnn.so.9 is cuDNN 9.19.0"),
        "{}",
        texts(&output).0
    );
    let (status, out, _) = verify(&machine.session(&["a"]).mode("gpus:2 full:1"), &["--fresh"]);
    assert_eq!(status, 2, "{out}");
    assert!(
        out.contains("not proved: GPU 1 (Stand-in) is out of memory"),
        "{out}"
    );
    assert_eq!(
        verify(&machine.session(&["a"]).mode("hang"), &["--level", "load"]).0,
        0
    );
}

/// Whatever a library does while it is proved, what is kept is whole.
#[test]
fn nothing_that_a_library_does_breaks_what_is_kept() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    for mode in ["flood", "chdir", "lock", "fork", "close", "crash", "leave"] {
        let session = machine
            .session(&["a"])
            .mode(mode)
            .set("CUDA_CACHE_PATH", format!("/{mode}"));
        let output = session.start(&[]);
        let (out, err) = texts(&output);
        let fails = ["close", "crash", "leave"].contains(&mode);
        assert_eq!(
            output.status.code(),
            Some(if fails { 125 } else { 0 }),
            "{mode}: {out}{err}"
        );
        let kept = std::fs::read_dir(machine.path("home/.cache/cudarun/proofs")).unwrap();
        let kept = kept
            .map(|entry| entry.unwrap().path())
            .filter(|path| path.extension().is_none());
        for path in kept {
            let text = std::fs::read_to_string(&path).unwrap();
            let verdict: Result<cudarun::verify::Verdict, _> = serde_json::from_str(&text);
            assert!(verdict.is_ok(), "{mode}: {}", path.display());
        }
        machine.proofs();
        let again = session.start(&[]);
        assert_eq!(
            (again.status.success(), machine.proofs()),
            (!fails, (0, 0)),
            "{mode}: it is known"
        );
    }
}

#[test]
fn a_person_at_a_terminal_sees_what_is_being_proved() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let session = machine.session(&["a"]).mode("slow:1500");
    let shown = |options: &str| {
        // `script` gives it a terminal.
        let line = format!(
            "script -qec '\"$CUDARUN\" verify --fresh {options} \"$PROGRAM\"' /dev/null </dev/null"
        );
        texts(&session.shell(&line)).0
    };
    if !texts(&session.shell("script -qec 'echo works' /dev/null </dev/null"))
        .0
        .contains("works")
    {
        return skipped("no terminal can be made here");
    }
    let progress = "proving: GPU 0: handle of libcudnn.so.9";
    let text = shown("");
    assert!(
        text.contains(progress) && text.contains("(level conv, "),
        "{text}"
    );
    assert!(!shown("--json").contains(progress) && !shown("-q").contains(progress));
    let plain = session.cudarun(&[
        "verify",
        "--fresh",
        &machine.path("program").display().to_string(),
    ]);
    assert_eq!(texts(&plain).1, "", "and nobody else");
}

/// In a shell: so many at once, all of them waited for.
const AT_ONCE: &str = r#"
for n in $(seq "$COUNT"); do "$CUDARUN" -v "$PROGRAM" >/dev/null 2>"$WORK/err.$n" & done
wait
"#;
const COUNT: usize = 64;

#[test]
fn one_of_64_processes_proves() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    // Long enough for all of them to be waiting, on a machine with two slow processors.
    let session = machine
        .session(&["a"])
        .mode("slow:5000")
        .set("COUNT", COUNT.to_string());
    session.shell(AT_ONCE);
    let started = machine.started();
    assert_eq!((started.len(), machine.proofs()), (COUNT, (1, 1)));
    let after = started[COUNT - 1] - started[0];
    // Less than one more proof takes.
    assert!(
        after <= 3000,
        "the last one started {after} ms after the first"
    );
}

#[test]
fn a_killed_prover_blocks_no_start() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let session = machine
        .session(&["a"])
        .mode("slow:3000")
        .set("COUNT", COUNT.to_string());
    // The child has written its number; its parent is the prover.
    let kill = r#"
        (for glance in $(seq 600); do grep -q created "$STAND_IN_LOG" 2>/dev/null && break; sleep 0.05; done
         child=$(sed -n '1s/created //p' "$STAND_IN_LOG")
         sleep 1
         kill -KILL "$(awk '/^PPid/ { print $2 }' "/proc/$child/status")") &
    "#;
    session.shell(&format!("{kill}\n{AT_ONCE}"));
    assert_eq!(
        (machine.started().len(), machine.proofs()),
        (COUNT - 1, (2, 1)),
        "the first proof was never ended"
    );
}

#[test]
fn a_full_disk_blocks_no_start() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let session = machine.session(&["a"]);
    let uid = nix::unistd::getuid();
    // A view exists already, and nothing more can be written anywhere.
    let full = format!(
        "mkdir -p \"$HOME/.cache\" /tmp/cudarun-0 /tmp/cudarun-{uid}
         for place in \"$HOME/.cache\" /tmp/cudarun-0 /tmp/cudarun-{uid}; do
             mount -t tmpfs -o size=256k,mode=700 none \"$place\"
         done
         \"$CUDARUN\" --verify=never \"$PROGRAM\" >/dev/null
         rm -f \"$STARTED\"
         for place in \"$HOME/.cache\" /tmp/cudarun-0 /tmp/cudarun-{uid}; do
             dd if=/dev/zero of=\"$place/filler\" bs=4k status=none 2>/dev/null || true
         done"
    );
    let session = session
        .mode("slow:5000")
        .set("COUNT", COUNT.to_string())
        .before(&full);
    let output = session.shell(&format!("{AT_ONCE}\ndf \"$HOME/.cache\" | tail -n 1"));
    let (out, err) = texts(&output);
    assert!(out.contains("100%"), "the control: {out}{err}");
    let said = std::fs::read_to_string(machine.path("err.1")).unwrap_or_default();
    // All of them start, and none waits for a proof that cannot be kept.
    assert_eq!(
        (machine.started().len(), machine.proofs()),
        (COUNT, (COUNT, COUNT)),
        "{said}"
    );
}

#[test]
fn an_unwritable_home_blocks_no_start() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let uid = nix::unistd::getuid();
    let read_only = format!(
        "mkdir -p /tmp/cudarun-0 /tmp/cudarun-{uid}
         for place in /tmp/cudarun-0 /tmp/cudarun-{uid}; do mount -t tmpfs -o mode=700 none \"$place\"; done
         mount -t tmpfs -o ro none \"$HOME\""
    );
    let session = machine.session(&["a"]).before(&read_only);
    let output = session.shell("\"$CUDARUN\" \"$PROGRAM\" && \"$CUDARUN\" \"$PROGRAM\"");
    assert!(output.status.success(), "{}", texts(&output).1);
    assert_eq!(
        (machine.started().len(), machine.proofs()),
        (2, (1, 1)),
        "the second is kept elsewhere"
    );
}

/// The kernel writes `\012` for a line end in a path.
#[test]
fn a_line_end_in_a_directory_makes_no_other_file_of_it() {
    let Some(machine) = GpuMachine::new(&["a\nb"]) else {
        return;
    };
    let session = machine.session(&["a\nb"]);
    let (printed, said) = texts(&session.start(&[]));
    assert!(
        printed.ends_with("a\nb/libcudnn.so.9\n") && said.is_empty(),
        "{printed}{said}"
    );
    assert_eq!(machine.proofs(), (1, 1));
}
