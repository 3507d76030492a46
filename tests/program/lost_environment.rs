//! Programs that start another one and keep something from it, or that only look so: other users, names that mean
//! something else, standard input, files that set variables.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use serde_json::Value;

use crate::program::wrappers::{Projects, led_to, notes};
use crate::storage::kept_starts::Two;
use crate::support::{Run, is_root, skipped};

fn run(two: &Two, words: &[&str]) -> Run {
    Run::new(words)
        .env("HOME", two.home.path())
        .env("LD_LIBRARY_PATH", &two.path)
}

fn explain(two: &Two, words: &[&str]) -> Value {
    run(two, &[&["explain", "--json"], words].concat()).json()
}

#[test]
fn another_user_gets_nothing_of_what_is_made() {
    let two = Two::new();
    let program = two.program.to_str().unwrap();
    for line in [
        "setpriv --reuid 65534 --clear-groups",
        "setpriv --ruid=65534",
        "setpriv --regid 65534 --clear-groups",
        "unshare -S 0 -r",
        "/usr/sbin/chroot --userspec=65534 /",
    ] {
        let words: Vec<&str> = line.split(' ').chain([program]).collect();
        assert_eq!(
            notes(&explain(&two, &words)),
            ["loses-environment"],
            "{line}"
        );
    }
    for line in ["setpriv --no-new-privs", "unshare -r", "/usr/sbin/chroot /"] {
        let words: Vec<&str> = line.split(' ').chain([program]).collect();
        assert_eq!(
            notes(&explain(&two, &words)),
            [""; 0],
            "{line}: the control"
        );
    }
    if !is_root() {
        return skipped("only root can take the rights of root");
    }
    run(
        &two,
        &["setpriv", "--bounding-set=+all", "--reuid=0", program],
    )
    .check();
    run(&two, &["setpriv", "--bounding-set=+all", "--reuid=0", program])
        .env("CUDARUN_FOLLOW", "off")
        .stderr("cudarun: `setpriv` starts its program with other rights, which cudarun's view does not reach: put cudarun right before `program`\n")
        .check();
}

#[test]
fn a_program_that_only_has_the_name_of_a_wrapper_is_none() {
    let two = Two::new();
    let own = two.workshop.path("time");
    crate::support::copy_program(&two.program, &own);
    let words = [own.to_str().unwrap(), "/bin/true"];
    let explained = explain(&two, &words);
    assert_eq!(led_to(&explained), None, "{explained:#}");
    assert!(
        !explained["program"]["requirements"]
            .as_array()
            .unwrap()
            .is_empty(),
        "{explained:#}"
    );
    crate::support::copy_program("/usr/bin/nice", &own);
    assert_eq!(
        led_to(&explain(&two, &words)).as_deref(),
        Some("/bin/true"),
        "the control"
    );
}

#[test]
fn a_link_is_the_wrapper_that_it_leads_to() {
    let two = Two::new();
    let link = two.workshop.path("t5");
    symlink("/usr/bin/timeout", &link).unwrap();
    let link = link.to_str().unwrap();
    let program = two.program.to_str().unwrap();
    assert_eq!(
        led_to(&explain(&two, &[link, "5", program])).as_deref(),
        Some(program)
    );
    // A kept start counts its arguments.
    run(&two, &[link, "5", program]).check();
    assert!(two.is_warm(run(&two, &[link, "5", program])), "the control");
    assert!(!two.is_warm(run(&two, &[link, "5", "true"])));
}

#[test]
fn a_program_on_standard_input_is_unknown() {
    let two = Two::new();
    for line in [
        "xargs timeout 5",
        "xargs env A=1",
        "xargs -n1 sh",
        "xargs -n1 nice timeout 3",
        "bash",
        "nohup sh",
    ] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(notes(&explain(&two, &words)), ["starts-another"], "{line}");
    }
    for line in ["xargs timeout 5 true", "timeout 5", "env A=1", "xargs"] {
        let words: Vec<&str> = line.split(' ').collect();
        assert_eq!(
            notes(&explain(&two, &words)),
            [""; 0],
            "{line}: the control"
        );
    }
}

#[test]
fn wrappers_of_unimportant_programs_print_nothing() {
    let two = Two::new();
    for words in [
        &["sh", "-c", "true"][..],
        &["sh", "-c", "exit 0"],
        &["sh", "-c", "echo a && cd / ; test a = a"],
        &["which", "ls"],
        &["ldd", "/bin/true"],
        &["ldd", "-v", "/bin/true"],
        &["mount", "--version"],
        &["su", "--help"],
        &["/usr/sbin/chroot", "--help"],
        &["/usr/sbin/chroot", "/", "true"],
        &["nsenter", "--help"],
    ] {
        if words == ["/usr/sbin/chroot", "/", "true"] && !is_root() {
            skipped("only root can change the root");
            continue;
        }
        run(&two, words).any_stdout().check();
    }
    for tool in ["npm", "ssh", "systemd-run"] {
        let script = two.workshop.write(&format!("bin/{tool}"), "#!/bin/sh\n");
        fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
        let script = script.to_str().unwrap();
        run(
            &two,
            &[script, if tool == "ssh" { "-V" } else { "--version" }],
        )
        .check();
        let said = if tool == "npm" {
            "starts another program"
        } else {
            "put cudarun after `"
        };
        run(&two, &[script, "run", "x"])
            .env("CUDARUN_FOLLOW", "off")
            .stderr_contains(&[said])
            .check();
    }
    let said = "put cudarun right before that one\n";
    run(&two, &["sh", "-c", "exit 0; x"]).check();
    run(&two, &["sh", "-c", "exit 0; x"])
        .env("CUDARUN_FOLLOW", "off")
        .stderr_contains(&[said])
        .check();
    run(&two, &["sh", "-c", "echo $(true)"])
        .any_stdout()
        .env("CUDARUN_FOLLOW", "off")
        .stderr_contains(&[said])
        .check();
}

#[test]
fn the_advice_names_what_is_there() {
    let two = Two::new();
    let path = format!("{}:/usr/bin:/bin", two.program.parent().unwrap().display());
    run(&two, &["env", "-i", "program"])
        .env("PATH", &path)
        .status(127)
        .stderr_contains(&[
            "cudarun: `env` clears the environment: put cudarun right before the program that it starts\n",
        ])
        .check();
    let program = two.program.to_str().unwrap();
    for (words, advice) in [
        (
            &["su", "-c", program][..],
            "type `su -c 'cudarun …'` instead",
        ),
        (
            &["su", "root", "-c", program],
            "type `su -c 'cudarun …'` instead",
        ),
        (
            &["/usr/sbin/runuser", "-u", "root", program],
            "type `runuser -u USER cudarun …` instead",
        ),
    ] {
        let words = [&["explain"], words].concat();
        let said = run(&two, &words).any_stdout().check();
        let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(said.contains(advice), "{words:?}: {said}");
        assert_eq!(
            said.matches("other rights").count(),
            0,
            "one sentence: {said}"
        );
    }
}

#[test]
fn the_loader_as_a_program_starts_a_file() {
    let two = Two::new();
    let loader = "/lib64/ld-linux-x86-64.so.2";
    if !Path::new(loader).exists() {
        return;
    }
    let program = two.program.to_str().unwrap();
    assert_eq!(
        led_to(&explain(&two, &[loader, program])).as_deref(),
        Some(program)
    );
    assert_eq!(
        led_to(&explain(&two, &[loader, "--inhibit-cache", program])).as_deref(),
        Some(program)
    );
    for words in [
        &[loader, "--library-path", "/x", program][..],
        &[loader, "--preload", "/x", program],
        &[loader, "true"],
    ] {
        assert_eq!(
            notes(&explain(&two, words))[0],
            "starts-another",
            "{words:?}"
        );
    }
}

#[test]
fn a_function_of_the_environment_is_not_the_program_of_its_name() {
    let all = Projects::new();
    all.tool("bin/tool", "#!/bin/sh\n");
    let said = |words: &[&str], env: &[(&str, &Path)]| notes(&all.explain(words, "", env));
    let function = [("BASH_FUNC_true%%", Path::new("() { :; }"))];
    assert_eq!(said(&["bash", "-c", "true x"], &[]), [""; 0], "the control");
    assert_eq!(
        said(
            &["bash", "-c", "tool x"],
            &[("BASH_FUNC_tool%%", Path::new("() { x; }"))]
        ),
        ["starts-another"]
    );
    assert_eq!(said(&["bash", "-c", "ls x"], &function), [""; 0]);
}

#[test]
fn an_environment_is_the_one_that_the_tool_would_take() {
    let all = Projects::new();
    all.tool("bin/uv", "#!/bin/sh\n");
    let own = all.environment("work/.venv").join("bin/tool");
    let loose = all.environment("loose/.venv").join("bin/tool");
    let other = all.environment("other");
    let there = other.join("bin/tool");
    all.workshop
        .write("work/pyproject.toml", "[project]\nname = 'a'\n");
    let conda = ("CONDA_PREFIX", other.as_path());
    let name = |name: &'static str| ("CONDA_DEFAULT_ENV", Path::new(name));
    let full = ("CONDA_DEFAULT_ENV", other.as_path());

    let uv = ["uv", "run", "tool"];
    for env in [&[conda][..], &[conda, name("other")], &[conda, full]] {
        all.leads(&uv, "loose", env, &there);
    }
    for env in [
        &[conda, name("base")][..],
        &[conda, name("another")],
        &[conda, ("_CONDA_ROOT", other.as_path())],
    ] {
        all.leads(&uv, "loose", env, &loose);
    }

    // As modules of Python's.
    let python = other.join("bin/python");
    let python = python.to_str().unwrap();
    all.leads(&[python, "-m", "uv", "run", "tool"], "work", &[], &own);
    all.leads(&[python, "-m", "uv", "run", "tool"], "loose", &[], &there);
    assert_eq!(
        led_to(&all.explain(&[python, "-m", "uv", "sync"], "work", &[])),
        None
    );
    all.tool("bin/uvx", "#!/bin/sh\n");
    all.is_not_known(&["uvx", "tool"], "work", &[]);
}
