//! `--require gpu` and `gpu = "*"`: a program starts only where it really uses a GPU. Each refusal has its neighbour, which starts.

use std::fs;
use std::time::{Duration, Instant};

use crate::support::gpu_machine::{GpuMachine, texts};

/// A package that is torch as far as files tell, for Python's search path.
fn torch(machine: &GpuMachine, directory: &str, version: &str) -> String {
    let cuda = if version.ends_with("+cpu") {
        "None"
    } else {
        "'13.0'"
    };
    machine.workshop.write(
        &format!("{directory}/torch/__init__.py"),
        "print('torch')\n",
    );
    machine.workshop.write(
        &format!("{directory}/torch/version.py"),
        &format!("__version__ = '{version}'\ncuda: Optional[str] = {cuda}\n"),
    );
    let metadata = format!("Metadata-Version: 2.1\nName: torch\nVersion: {version}\n");
    machine.workshop.write(
        &format!("{directory}/torch-{version}.dist-info/METADATA"),
        &metadata,
    );
    machine.path(directory).display().to_string()
}

#[test]
fn a_proof_on_the_gpu_is_demanded() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    for (mode, visible, before, status, says) in [
        (
            "full",
            None,
            "",
            125,
            "a GPU is required, but its libraries are not proved: ",
        ),
        (
            "",
            Some(""),
            "",
            125,
            "no GPU: CUDA_VISIBLE_DEVICES hides them",
        ),
        (
            "",
            None,
            "rm /dev/nvidia0",
            125,
            "wants a GPU, and none can be used",
        ),
        // A proof that has passed is kept.
        ("", None, "", 0, ""),
    ] {
        let mut session = machine.session(&["a"]).mode(mode).before(before);
        if let Some(visible) = visible {
            session = session.set("CUDA_VISIBLE_DEVICES", visible);
        }
        // The control: it starts, and would find no GPU that it can use.
        let control = session.start(&[]);
        assert_eq!(
            control.status.code(),
            Some(0),
            "{mode} {before}: {control:?}"
        );
        let output = session.start(&["--require=gpu"]);
        let (_, said) = texts(&output);
        assert_eq!(
            output.status.code(),
            Some(status),
            "{mode} {before}: {said}"
        );
        assert!(
            said.contains(says) && (status == 0) == said.is_empty(),
            "{said}"
        );
    }
    machine.proofs();
    // A person can do without the proof; the settings cannot, since the demand is about it.
    let session = machine.session(&["a"]);
    session.start(&["--require=gpu", "--verify=never"]);
    assert_eq!(machine.proofs(), (0, 0));
    let output = session
        .set("CUDARUN_VERIFY", "never")
        .start(&["--require=gpu"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
}

#[test]
fn what_a_script_starts_is_bound_too() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    // A program that is linked against a known library is followed.
    let library = format!("-L{}", machine.path("a").display());
    let flags = [
        "-Wl,--no-as-needed",
        &library,
        "-l:libcudnn.so.9",
        "-Wl,--allow-shlib-undefined",
    ];
    let source = "#include <stdio.h>\nint main(void) { puts(\"libcudnn.so.9\"); return 0; }";
    machine.workshop.compile("linked", source, &flags);
    fs::write(
        machine.path("home/.cudarun.toml"),
        "[requires]\ngpu = \"*\"\n",
    )
    .unwrap();
    let code = "$CUDARUN bash -c 'echo begun; ${PROGRAM%program}linked; echo $?'";
    let session = || machine.session(&["a"]);
    let (printed, said) = texts(&session().mode("full").shell(code));
    assert_eq!(printed, "begun\n125\n", "{said}");
    assert!(
        said.contains("does not start") && said.contains("a GPU is required"),
        "{said}"
    );
    let (printed, said) = texts(&session().shell(code));
    assert!(printed.ends_with("libcudnn.so.9\n0\n"), "{printed} {said}");
    fs::remove_file(machine.path("home/.cudarun.toml")).unwrap();
    fs::remove_dir_all(machine.path("home/.cache")).unwrap();
    let (printed, said) = texts(&session().mode("full").shell(code));
    assert!(printed.ends_with("libcudnn.so.9\n0\n"), "{printed} {said}");
}

#[test]
fn a_framework_without_cuda_is_no_gpu_program() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let cpu = torch(&machine, "cpu", "2.5.1+cpu");
    let program = ["python3", "-c", "import torch"];
    let start = |options: &[&str], path: &str, before: &str| {
        let session = machine
            .session(&["a"])
            .set("PYTHONPATH", path)
            .before(before);
        let output = session.cudarun(&[options, &program[..]].concat());
        let (printed, said) = texts(&output);
        (output.status.code().unwrap(), printed, said)
    };
    assert_eq!(
        start(&[], &cpu, ""),
        (0, "torch\n".to_owned(), String::new())
    );
    let (status, printed, said) = start(&["--require=gpu"], &cpu, "");
    assert_eq!((status, printed.as_str()), (125, ""), "{said}");
    assert!(
        said.starts_with("error: `torch 2.5.1+cpu` is built without CUDA\n"),
        "{said}"
    );
    assert!(said.contains("hint: cudarun advise torch"), "{said}");
    // The neighbour: Python without a framework needs no GPU, and a range keeps its meaning.
    let session = machine.session(&["a"]);
    let output = session.cudarun(&["--require=gpu", "python3", "-c", "print(1)"]);
    assert_eq!(texts(&output), ("1\n".to_owned(), String::new()));
    fs::write(
        machine.path("home/.cudarun.toml"),
        "[requires]\ngpu = \"*\"\n",
    )
    .unwrap();
    let (status, _, said) = start(&[], &cpu, "");
    assert_eq!(status, 125, "{said}");
    assert!(said.contains(".cudarun.toml:2"), "{said}");
    fs::write(
        machine.path("home/.cudarun.toml"),
        "[requires]\ngpu = \">=8.0\"\n",
    )
    .unwrap();
    let (status, _, said) = start(&[], &cpu, "");
    assert_eq!(status, 0, "{said}");
}

/// A program for a GPU that works without opening one is told about, also where others measure the GPU's load; one that opens it,
/// another program, and a failure are not.
#[test]
fn a_program_that_opens_no_gpu_is_told_about() {
    const SAID: &str = "the program opened no GPU";
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let program = machine.path("program").display().to_string();
    let idle = || machine.session(&["a"]).set("LIBRARY", "libcuda.so.1");
    let busy = || idle().set("DEVICE", "/dev/nvidia0");
    let absent = || idle().before("rm /dev/nvidia0");
    // As who measures the GPU's load does, while the program runs.
    let measured = || {
        let measure = r#"rm -f "$STARTED"
            (until [ -e "$STARTED" ]; do sleep 0.02; done
            for _ in 1 2 3; do read -t 0.01 _ </dev/nvidia0; sleep 0.02; done) >/dev/null 2>&1 &
            sleep 0.1"#;
        idle().before(measure).set("WAIT", "1")
    };
    // Another user's job that starts meanwhile: whose it is cannot be told.
    let beside = || {
        let job = r#"rm -f "$STARTED"
            (until [ -e "$STARTED" ]; do sleep 0.02; done
            setsid --fork sh -c 'exec 3</dev/nvidia0; exec sleep 0.7') >/dev/null 2>&1 &
            sleep 0.1"#;
        idle().before(job).set("WAIT", "2")
    };
    let failing = || idle().set("DEVICE", "/dev/nothing");
    for (name, session, words, is_told, opened) in [
        ("idle", idle(), program.as_str(), true, "false"),
        ("busy", busy(), program.as_str(), false, "true"),
        ("measured", measured(), program.as_str(), true, "false"),
        ("beside", beside(), program.as_str(), false, "null"),
        ("no GPU", absent(), program.as_str(), false, "null"),
        ("failing", failing(), program.as_str(), false, "false"),
        ("no GPU program", idle(), "true", false, "false"),
    ] {
        let control = session.cudarun(&[words]);
        for verb in ["diagnose", "trace"] {
            let output = session.cudarun(&[verb, words]);
            let (printed, said) = texts(&output);
            assert_eq!(
                (output.status.code(), printed.as_str()),
                (control.status.code(), texts(&control).0.as_str()),
                "{name}: {said}"
            );
            // What was traced is told of a failure as well.
            let is_told = is_told || verb == "trace" && name == "failing";
            assert_eq!(said.contains(SAID), is_told, "{verb} {name}: {said}");
            let (_, said) = texts(&session.cudarun(&[verb, "--json", words]));
            let key = format!("\"has_opened_gpu\": {opened}");
            assert!(said.contains(&key), "{verb} {name}: {said}");
        }
    }
    // Without the driver's library there is no need to look at the GPU.
    let session = machine.session(&["a"]);
    let (_, said) = texts(&session.cudarun(&["trace", &program]));
    assert!(
        said.contains("no process opened the driver's libcuda.so"),
        "{said}"
    );
    // One that was asked to be explained only if it fails.
    let session = idle().set("CUDARUN_ON_FAILURE", "diagnose");
    let (printed, said) = texts(&session.start(&[]));
    assert_eq!(
        (printed.ends_with("libcudnn.so.9\n"), said.as_str()),
        (true, ""),
        "{printed}"
    );
}

/// What a program leaves behind is not waited for, also where a GPU is watched.
#[test]
fn a_process_that_outlives_the_program_ends_no_later_than_alone() {
    let Some(machine) = GpuMachine::new(&["a"]) else {
        return;
    };
    let code = "sleep 60 & echo $! >\"$STARTED\"; exit 3";
    for verb in ["diagnose", "trace"] {
        let began = Instant::now();
        let timed = format!(
            "rm -f \"$STARTED\"; timeout 30 \"$CUDARUN\" {verb} --as-is sh -c '{code}' >out 2>err; echo $?; kill $(cat \"$STARTED\")"
        );
        let (printed, said) = texts(&machine.session(&["a"]).shell(&timed));
        assert_eq!(printed, "3\n", "{verb}: {said}");
        assert!(began.elapsed() < Duration::from_secs(30), "{verb}");
    }
}
