//! Every verb answers for an image as for its unpacked tree.

use std::fs;
use std::process::Command;

use serde_json::Value;

use super::{archive, docker, gzip, oci, through, write};
use crate::support::machine::Machine;
use crate::support::{Run, Workshop, lacks, skipped};

const VERBS: [&[&str]; 4] = [
    &["list", "--json"],
    &["doctor", "--json"],
    &["explain", "--json", "python3", "-c", "import torch, jax"],
    &["explain", "--json", "/usr/bin/app"],
];

/// Output without the identity of files, which each copy has of its own.
fn answer(root: &str, env: &[(&str, &str)], verb: &[&str]) -> (Value, i32) {
    let mut all = vec!["--root", root];
    all.extend(verb);
    let run = Run::new(all).in_directory("/").any_stderr();
    let (text, status) = env
        .iter()
        .fold(run, |run, (name, value)| run.env(name, value))
        .output();
    (
        anonymous(
            serde_json::from_str(&text)
                .unwrap_or_else(|error| panic!("{error}: {root} {verb:?} {text}")),
        ),
        status,
    )
}

fn anonymous(value: Value) -> Value {
    match value {
        Value::Object(all) => {
            let others = all
                .into_iter()
                .filter(|(name, _)| name != "device" && name != "inode");
            Value::Object(
                others
                    .map(|(name, value)| (name, anonymous(value)))
                    .collect(),
            )
        }
        Value::Array(all) => Value::Array(all.into_iter().map(anonymous).collect()),
        // A view is named by its content, and by the identity of the files in it.
        Value::String(text) => Value::String(match text.find("/views/") {
            Some(at) => {
                let (before, rest) = text.split_at(at);
                format!("{before}/views/VIEW{}", rest.get(31..).unwrap_or_default())
            }
            None => text,
        }),
        other => other,
    }
}

#[test]
fn every_verb_answers_as_for_the_unpacked_tree() {
    for name in [
        "debian",
        "torch",
        "conda",
        "cuda-container",
        "h200-container",
        "toolkits",
        "rhel",
        "hostile",
    ] {
        let machine = Machine::load(name);
        let place = Workshop::new();
        let tar = Command::new("tar")
            .arg("-C")
            .arg(machine.root())
            .args(["-cf", "-", "."])
            .output()
            .unwrap();
        assert!(tar.status.success());
        let mut env: Vec<(&str, &str)> = vec![("PATH", "/usr/bin:/bin"), ("HOME", "/home/user")];
        env.extend(
            machine
                .env
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str())),
        );
        let lines: Vec<String> = env
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect();
        let config = serde_json::json!({ "config": { "Env": lines } }).to_string();

        let mut images = vec![docker(std::slice::from_ref(&tar.stdout), &config).end()];
        let packed = oci(&[gzip(&tar.stdout)], &config);
        images.push(archive(&packed));
        images.push(gzip(&docker(&[gzip(&tar.stdout)], &config).end()));
        if lacks("zstd") {
            skipped("no zstd");
        } else {
            images.push(archive(&oci(
                &[through("zstd", &["-c"], &tar.stdout)],
                &config,
            )));
        }
        let mut roots = Vec::new();
        for (number, bytes) in images.iter().enumerate() {
            let file = place.path(&format!("{number}.tar"));
            fs::write(&file, bytes).unwrap();
            roots.push(file.display().to_string());
        }
        write(&place.path("layout"), &packed);
        roots.push(format!("oci:{}", place.path("layout").display()));
        roots.push(format!("oci:{}:v1", place.path("layout").display()));

        let cache = place.path("cache").display().to_string();
        let ours = [("XDG_CACHE_HOME", cache.as_str())];
        let tree = machine.root().display().to_string();
        for verb in VERBS {
            let expected = answer(&tree, &env, verb);
            // The second time, compressed layers are in the cache.
            for root in roots.iter().chain(&roots[1..2]) {
                let got = answer(root, &ours, verb);
                assert_eq!(got, expected, "{name}: {verb:?} of {root}");
            }
        }
    }
}

#[test]
fn nothing_starts_in_an_image() {
    let place = Workshop::new();
    let file = place.path("image.tar");
    fs::write(
        &file,
        docker(&[super::Archive::default().file("usr/a", "a").end()], "{}").end(),
    )
    .unwrap();
    Run::new([
        "--root".as_ref(),
        file.as_os_str(),
        "run".as_ref(),
        "true".as_ref(),
    ])
    .status(125)
    .stderr_contains(&["which is not possible with --root"])
    .check();
    Run::new(["--root", "oci:/nowhere", "list"])
        .status(2)
        .stderr_contains(&["--root `oci:/nowhere` cannot be used"])
        .check();
    Run::new(["--root", "/nowhere.tar", "list"])
        .status(2)
        .stderr_contains(&["no such file"])
        .check();
}

#[test]
fn names_of_other_tools_get_the_command_for_cudarun() {
    let place = Workshop::new();
    let refused = |root: &str, said: &[&str]| {
        Run::new(["--root", root, "list"])
            .in_directory(place.path(""))
            .status(2)
            .stderr_contains(said)
            .check();
    };
    for (name, image) in [
        ("ubuntu:22.04", "ubuntu:22.04"),
        ("docker://ubuntu", "ubuntu"),
        ("docker-daemon:lab/train:v2", "lab/train:v2"),
        (
            "registry:5000/train@sha256:abc",
            "registry:5000/train@sha256:abc",
        ),
    ] {
        let command = format!("docker save -o image.tar {image} && cudarun --root image.tar list");
        refused(
            name,
            &[
                &format!("--root `{name}` is not a file; cudarun does not pull images"),
                &command,
            ],
        );
    }
    for name in ["docker-archive:t.tar", "oci-archive:t.tar"] {
        refused(name, &["no such file", "cudarun --root t.tar list"]);
    }
    for name in [
        "t.tar:v1",
        "./a:b",
        "/a:b",
        "oci:a:b",
        "ubuntu",
        "host:/some/dir",
    ] {
        let said = Run::new(["--root", name, "list"])
            .in_directory(place.path(""))
            .status(2)
            .output_of_both();
        assert!(
            said.contains("no such file") && !said.contains("docker"),
            "{said}"
        );
        assert_eq!(
            said.contains("copy it here first"),
            name == "host:/some/dir"
        );
    }
    // A layout needs no prefix.
    let layer = super::Archive::default().file("usr/a", "a").end();
    write(
        &place.path("layout"),
        &oci(std::slice::from_ref(&layer), "{}"),
    );
    write(
        &place.path("layout"),
        &[("oci-layout".to_owned(), b"{}".to_vec())],
    );
    write(
        &place.path(""),
        &[("t.tar".to_owned(), docker(&[layer], "{}").end())],
    );
    let list = |root: &str| {
        Run::new(["--root", root, "list", "--json"])
            .in_directory(place.path(""))
            .status(1)
    };
    let expected = list("oci:layout").any_stderr().output().0;
    for root in [
        "layout",
        "layout:v1",
        "oci:layout:v1",
        "t.tar",
        "t.tar:app:v1",
        "t.tar:v1",
    ] {
        assert_eq!(list(root).any_stderr().output().0, expected, "{root}");
    }
}
