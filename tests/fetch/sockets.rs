//! Only the person's own client touches the network.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use super::wheelhouse::{BUILT, Wheelhouse, cudart, shown};
use crate::support::{CUDARUN, lacks};

/// Runs under strace, and returns the calls of all processes, each with the number of its process first.
fn calls(house: &Wheelhouse, command: &mut Command, words: &[&str]) -> String {
    let log = house.path("calls.strace");
    let mut traced = Command::new(which::which("strace").unwrap());
    let calls = "trace=socket,execve,clone,clone3,fork,vfork";
    traced
        .args([
            "-f",
            "-qq",
            "-s",
            "256",
            "-e",
            calls,
            "-e",
            "signal=none",
            "-o",
        ])
        .arg(&log)
        .arg(CUDARUN);
    traced
        .args(words)
        .env_clear()
        .current_dir(house.path("home"));
    let variables = command
        .get_envs()
        .filter_map(|(name, value)| Some((name, value?)));
    traced.envs(variables.collect::<Vec<_>>());
    let output = traced.output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    fs::read_to_string(log).unwrap()
}

#[test]
fn wheels_of_a_directory_need_no_socket() {
    if lacks("strace") {
        return;
    }
    let house = Wheelhouse::new(&[cudart()]);
    house.user_names_wheels();
    let app = BUILT.path("needs-cudart");
    let words = ["--fetch", "--yes", app.to_str().unwrap()];
    let calls = calls(&house, &mut house.command(&words), &words);
    assert!(calls.contains("execve("), "{calls}");
    assert!(!calls.contains("socket("), "{calls}");
    assert_eq!(house.entries().len(), 1);
}

#[test]
fn cudarun_itself_opens_no_socket_beside_the_client() {
    if lacks("strace") {
        return;
    }
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let words = ["fetch", "--yes", "cudart"];
    let calls = calls(&house, &mut pip.command(&words), &words);
    // Processes that the client has started are the client's.
    let mut of_client = BTreeSet::new();
    let mut sockets = Vec::new();
    for line in calls.lines() {
        let (process, call) = line.split_once(' ').unwrap();
        let started = call.rsplit_once("= ").map(|(_, result)| result.trim());
        if call.contains("/bin/pip\"") {
            of_client.insert(process);
        } else if let Some(started) = started
            && (call.contains("clone") || call.contains("fork"))
            && of_client.contains(process)
        {
            of_client.insert(started);
        }
        if call.contains("socket(") {
            sockets.push(process);
        }
    }
    assert!(!of_client.is_empty(), "{calls}");
    assert!(
        sockets.iter().all(|process| of_client.contains(process)),
        "{calls}"
    );
    assert_eq!(house.entries().len(), 1);
}
