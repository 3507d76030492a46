//! `fleet --project`: what a project here requires, on described machines.

use std::fs;

use super::{Nodes, node, with_cudnn};
use crate::support::Run;
use crate::support::parts::{SYSTEM, library};

/// What `fleet` says in a project with these settings.
fn fleet(nodes: &Nodes, settings: &str, options: &[&str]) -> (String, i32, String) {
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join(".cudarun.toml"), settings).unwrap();
    let nodes = nodes.path("");
    let options = [&["fleet"], options, &[nodes.to_str().unwrap()]].concat();
    let run = Run::new(options).in_directory(project.path());
    run.env("COLUMNS", "200").streams()
}

fn nodes() -> Nodes {
    let nccl = library(SYSTEM, "libnccl", "2", "2.21.5", "");
    let newer = [with_cudnn("9.19.0"), vec![nccl]].concat();
    Nodes::new(&[
        ("gpu01", node("580.95.05", "", &newer)),
        ("gpu02", node("550.54.15", "", &with_cudnn("9.1.0"))),
    ])
}

/// Each requirement beside its nearest neighbour.
#[test]
fn a_requirement_holds_or_names_its_line() {
    let nodes = nodes();
    for (line, lacks) in [
        ("cudnn = '9'", &[][..]),
        ("cudnn = '~9.19'", &["cuDNN ~9.19; gpu02 has 9.1.0"][..]),
        (
            "cudnn = '10'",
            &["cuDNN 10; gpu01 has 9.19.0", "cuDNN 10; gpu02 has 9.1.0"],
        ),
        ("driver = '>=550'", &[]),
        ("driver = '>=560'", &["driver >=560; gpu02 has 550.54.15"]),
        ("gpu = '*'", &[]),
        ("cuda = '12'", &[]),
        (
            "cuda = '13'",
            &["CUDA 13; gpu01 has 12", "CUDA 13; gpu02 has 12"],
        ),
        // No program gets it, so what is installed counts.
        ("nccl = '2'", &["NCCL 2; gpu02 has none"]),
        (
            "nccl = '~2.22'",
            &["NCCL ~2.22; gpu01 has 2.21.5", "NCCL ~2.22; gpu02 has none"],
        ),
    ] {
        let settings = format!("# here\n[requires]\n{line}\n");
        let (text, status, said) = fleet(&nodes, &settings, &["--project", "--ci"]);
        let mut lines: Vec<&str> = text.lines().collect();
        lines.sort_unstable();
        let begin = ".cudarun.toml:3: error: requires";
        let wanted: Vec<String> = lacks.iter().map(|one| format!("{begin} {one}")).collect();
        assert_eq!(lines, wanted, "{line}");
        assert_eq!(
            (status, said),
            (i32::from(!lacks.is_empty()), String::new()),
            "{line}"
        );
    }
}

#[test]
fn only_with_the_option_does_the_project_count() {
    let nodes = nodes();
    let settings = "[requires]\ncudnn = '~9.19'\n";
    assert_eq!(fleet(&nodes, settings, &[]).1, 0);
    let (text, status, _) = fleet(&nodes, settings, &["--project"]);
    assert!(
        text.starts_with("`app --serve` works on 1 of 2 machines\n"),
        "{text}"
    );
    assert!(
        text.contains("no: .cudarun.toml:2 requires cuDNN ~9.19; it has 9.1.0"),
        "{text}"
    );
    assert!(
        text.ends_with("next: ssh gpu02 cudarun explain app --serve\n"),
        "{text}"
    );
    assert_eq!(status, 1);
    assert_eq!(
        fleet(&nodes, settings, &["--project", "--good"]).0,
        "gpu01\n"
    );
}

#[test]
fn what_descriptions_do_not_tell_is_a_note() {
    let settings = "[requires]\nextensions = '*'\ngpu = '>=8.0'\n";
    let (text, status, _) = fleet(&nodes(), settings, &["--project", "--ci"]);
    let line = ".cudarun.toml:3: note: requires compute capability >=8.0; the description of gpu01 does not tell\n";
    assert!(text.contains(line), "{text}");
    let line = ".cudarun.toml:2: note: requires extension modules that fit; the description of gpu01 does not tell\n";
    assert!(text.contains(line), "{text}");
    assert_eq!(status, 0);
}

/// A lock counts only with a GPU. One that is there, and that a description does not tell about, is not taken for none.
#[test]
fn a_lock_for_another_gpu_is_not_known_to_hold() {
    let lock = "format = 1\ndriver = \">=550\"\ngpus = [\"9.0\"]\n\n[[family]]\nname = \"cudnn\"\nversion = \"9.19.0\"\n";
    let project = tempfile::tempdir().unwrap();
    fs::write(project.path().join(".cudarun.lock"), lock).unwrap();
    let nodes = nodes();
    let path = nodes.path("");
    let run = Run::new(["fleet", "--project", "--ci", path.to_str().unwrap()]);
    let (text, _, _) = run
        .in_directory(project.path())
        .env("COLUMNS", "200")
        .streams();
    let line = "note: requires compute capability =9.0; the description of gpu01 does not tell\n";
    assert!(text.contains(line), "{text}");
}

#[test]
fn settings_at_fault_are_a_line_and_no_answer() {
    for settings in [
        "[requires]\ncudnn = 'new'\n",
        "[requires]\ncudnn = \"a\\n::error ::b\"\n",
    ] {
        let (text, status, said) = fleet(&nodes(), settings, &["--project", "--ci"]);
        assert!(text.starts_with(".cudarun.toml:2: error: "), "{text}");
        assert_eq!((text.lines().count(), status), (1, 2), "{text}");
        assert!(said.contains(".cudarun.toml:2: "), "{said}");
    }
}

#[test]
fn an_image_has_a_project_of_its_own() {
    Run::new(["--root", "image.tar", "fleet", "--project", "machines"])
        .status(2)
        .any_stderr()
        .check();
}
