//! `--ci`: a line for each finding, which a runner of CI reads.

use std::fs;
use std::path::PathBuf;

use crate::support::Run;
use crate::support::machine::Machine;

/// A checkout with a project in a directory of it.
struct Checkout {
    directory: tempfile::TempDir,
    project: PathBuf,
}

impl Checkout {
    fn new(project: &str, settings: &str) -> Checkout {
        let directory = tempfile::tempdir().unwrap();
        let project = directory.path().canonicalize().unwrap().join(project);
        fs::create_dir_all(&project).unwrap();
        fs::write(project.join(".cudarun.toml"), settings).unwrap();
        Checkout { directory, project }
    }

    /// What `doctor` says in the project of the checkout. It has an error: this root is no machine with a GPU.
    fn doctor(&self, option: &str, is_github: bool) -> String {
        let run = Run::new(["doctor", option]).in_directory(if is_github {
            self.project.as_path()
        } else {
            self.directory.path()
        });
        let run = run.env("GITHUB_WORKSPACE", self.directory.path());
        let run = run.env("CUDARUN_CONFIG", self.project.join(".cudarun.toml"));
        let run = run.env("GITHUB_ACTIONS", if is_github { "true" } else { "false" });
        run.streams().0
    }
}

/// The commands that GitHub's runner obeys: at the beginning of a line, or anywhere in the older form. Azure's and TeamCity's
/// begin like those.
fn obeyed(text: &str) -> Vec<&str> {
    let is_command = |line: &&str| line.trim_start().starts_with("::") || line.contains("##");
    text.split(['\n', '\r']).filter(is_command).collect()
}

#[test]
fn the_form_follows_the_runner() {
    let checkout = Checkout::new("app", "# one\nunknown = 1\n");
    let github = "::warning title=cudarun%3A unknown-key,file=app/.cudarun.toml,line=2::unknown key `unknown`";
    let plain = "app/.cudarun.toml:2: warning: unknown key `unknown`";
    for (option, is_github, begin) in [
        ("--ci", true, github),
        ("--ci", false, plain),
        ("--ci=github", true, github),
        ("--ci=plain", false, plain),
    ] {
        let text = checkout.doctor(option, is_github);
        let mut lines = text.lines();
        assert!(lines.any(|line| line.starts_with(begin)), "{text}");
        let is_of_form = |line: &str| line.starts_with("::") == is_github;
        assert!(text.lines().all(is_of_form), "{text}");
    }
    // What lies outside of the workspace has no place in it.
    let text = checkout.doctor("--ci=github", false);
    assert!(text.contains(",file=app/.cudarun.toml,line=2::"), "{text}");
    let text = checkout.doctor("--ci=plain", true);
    assert!(
        text.contains("\n.cudarun.toml:2: ") || text.starts_with(".cudarun.toml:2: "),
        "{text}"
    );
}

#[test]
fn names_from_files_cannot_command_a_runner() {
    let project = "::warning ::b,c%0A\r\n::add-mask::x";
    let key = "a\\n::add-mask::x ##[add-mask]y ##vso[task.x] \\u001b[0m";
    let checkout = Checkout::new(project, &format!("\"{key}\" = 1\n"));
    for is_github in [true, false] {
        let text = checkout.doctor("--ci", is_github);
        assert!(text.contains("unknown-key"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
        let obeyed = obeyed(&text);
        if is_github {
            let known = ["::error title=", "::warning title=", "::notice title="];
            let is_ours = |line: &&str| known.iter().any(|begin| line.starts_with(begin));
            assert!(obeyed.iter().all(is_ours), "{text}");
            assert_eq!(obeyed.len(), text.lines().count(), "{text}");
            let file = "file=%3A%3Awarning %3A%3Ab%2Cc%250A\\u{d}\\u{a}%3A%3Aadd-mask%3A%3Ax/.cudarun.toml,line=1::";
            assert!(text.contains(file), "{text}");
        } else {
            assert_eq!(obeyed, Vec::<&str>::new(), "{text}");
            assert!(text.contains("\n./::warning "), "{text}");
        }
    }
    // The control: the same without escapes.
    let naive = format!("{project}/.cudarun.toml:1: unknown key `{key}`");
    assert_eq!(obeyed(&naive).len(), 2, "{naive}");
}

#[test]
fn another_machine_has_no_file_of_the_project() {
    let machine = Machine::load("updated-driver");
    let line = "::error title=cudarun%3A driver-mismatch::the driver's user-space libraries are version 550.90.07";
    let text = Run::on(&machine, &["doctor", "--ci=github"])
        .status(1)
        .any_stdout()
        .check();
    assert!(text.lines().any(|own| own.starts_with(line)), "{text}");
    assert!(!text.contains(",file="), "{text}");
    let scratch = tempfile::tempdir().unwrap();
    let file = scratch.path().join("gpu07.json");
    Run::on(
        &machine,
        &["-q", "doctor", "--save", file.to_str().unwrap()],
    )
    .status(1)
    .any_stdout()
    .check();
    let words = ["doctor", "--ci=github", "--node", file.to_str().unwrap()];
    let text = Run::new(words).status(1).any_stdout().check();
    let line = line.replace("mismatch::", "mismatch on gpu07::");
    assert!(text.lines().any(|own| own.starts_with(&line)), "{text}");
}

#[test]
fn other_forms_exclude_it() {
    for verb in [
        "doctor --ci --json",
        "doctor --ci --markdown",
        "doctor --ci --html x",
        "doctor --ci --save-in x",
        "fleet --ci --json x",
        "fleet --ci --bad x",
        "fleet --ci --good x",
        "fleet --ci --lock y x",
        "doctor --ci=other",
    ] {
        Run::new(verb.split(' '))
            .status(2)
            .any_stdout()
            .stderr_contains(&["--ci"])
            .check();
    }
}
