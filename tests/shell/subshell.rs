//! `cudarun shell` in the real bash, zsh and fish, on a terminal and with commands from a pipe. Each has a start-up file that
//! sets LD_LIBRARY_PATH.

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::pin::children::{ENVIRONMENTS, SHOW, is_whole};
use crate::pin::real_loader::{Got, WORLD};
use crate::support::{CUDARUN, Workshop, lacks, skipped};

const SHELLS: [&str; 3] = ["bash", "zsh", "fish"];

/// A home with start-up files, and a project in it.
struct Home {
    workshop: Workshop,
}

/// The result of a shell.
struct Ended {
    /// The text that the typed commands wrote to the file `out`.
    out: String,
    stderr: String,
    status: i32,
}

impl Home {
    fn new() -> Home {
        let home = Home {
            workshop: Workshop::new(),
        };
        let line = "export LD_LIBRARY_PATH=/from/the/start-up/file MARK=read\n";
        home.write(".bashrc", line);
        home.write(".zshenv", line);
        home.write(".zshrc", &format!("{line}export OF_ZSHRC=\"$ZDOTDIR.\"\n"));
        let fish = "set -gx LD_LIBRARY_PATH /from/the/start-up/file\nset -gx MARK read\nset -g fish_greeting\n";
        home.write(".config/fish/config.fish", fish);
        fs::create_dir_all(home.path("ours")).unwrap();
        home
    }

    fn path(&self, below: &str) -> PathBuf {
        self.workshop
            .directory
            .path()
            .canonicalize()
            .unwrap()
            .join(below)
            .components()
            .collect()
    }

    fn write(&self, below: &str, text: &str) {
        self.workshop.write(below, text);
    }

    fn command(&self, program: &str, shell: &str) -> Command {
        let mut command = Command::new(program);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .env("HOME", self.path(""));
        command
            .env("SHELL", which::which(shell).unwrap())
            .env("TERM", "dumb")
            .env("OUT", self.path("out"));
        command.env("BASH_ENV", self.path(".bashrc"));
        command.env("LD_LIBRARY_PATH", WORLD.library_path(&["torn", "new"]));
        command.current_dir(self.path("ours"));
        command
    }

    fn feed(&self, mut command: Command, typed: &str) -> Ended {
        let _ = fs::remove_file(self.path("out"));
        command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut input = child.stdin.take().unwrap();
        // Without a plan there may be no reader.
        let _ = input.write_all(typed.as_bytes());
        drop(input);
        let output = child.wait_with_output().unwrap();
        Ended {
            out: fs::read_to_string(self.path("out")).unwrap_or_default(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            status: output.status.code().unwrap(),
        }
    }

    /// A shell that reads these commands from a pipe.
    fn piped(&self, shell: &str, words: &[&str], typed: &str) -> Ended {
        let mut command = self.command(CUDARUN, shell);
        command.args(words);
        self.feed(command, typed)
    }

    /// A shell on a terminal, in which these commands are typed. Its standard error is in the file `errors`.
    fn at_terminal(&self, shell: &str, line: &str, typed: &str) -> Ended {
        // `script` starts the shell that SHELL names.
        let line = format!(
            "SHELL={} BASH_ENV={} {line}",
            which::which(shell).unwrap().display(),
            self.path(".bashrc").display()
        );
        let mut command = self.command("script", "sh");
        command
            .args(["-qec", &line, "/dev/null"])
            .env_remove("BASH_ENV");
        self.feed(command, typed)
    }
}

fn plain() -> String {
    WORLD.path("plain").display().to_string()
}

/// The typed lines: the variables and the program write to the file `out`, and the shell ends with status 7.
fn report(program: &str) -> String {
    format!(
        "{{ echo \"$LD_LIBRARY_PATH|$MARK|$CUDARUN_SHELL|$CUDARUN_SHELL_PLAN$CUDARUN_SHELL_OWN|$ZDOTDIR|$OF_ZSHRC\"; {program}; }} > $OUT\nexit 7\n"
    )
}

fn report_in(shell: &str, program: &str) -> String {
    let typed = report(program);
    if shell == "fish" {
        typed.replacen("{ ", "begin; ", 1).replacen('}', "end", 1)
    } else {
        typed
    }
}

#[test]
fn the_plan_is_set_after_the_start_up_files_of_every_shell() {
    if lacks("script") {
        return;
    }
    for shell in SHELLS.into_iter().filter(|shell| !lacks(shell)) {
        let home = Home::new();
        let typed = report_in(shell, &plain());
        let words = ["shell", "--pin-mode=view", &plain()];
        let line = format!("'{CUDARUN}' {}", words.join(" "));
        for (place, ended) in [
            ("piped", home.piped(shell, &words, &typed)),
            ("at a terminal", home.at_terminal(shell, &line, &typed)),
        ] {
            let (variables, program) = ended.out.split_once('\n').unwrap_or_default();
            let of_zshrc = if shell == "zsh" && place != "piped" {
                "."
            } else {
                ""
            };
            let path = WORLD.library_path(&["torn", "new"]);
            let (view, rest) = variables.split_once(':').unwrap_or_default();
            assert!(view.contains("/views/"), "{shell} {place}: {variables}");
            let wanted = format!("{path}|read|ours|||{of_zshrc}");
            assert_eq!(rest, wanted, "{shell} {place}: {}", ended.stderr);
            assert_eq!(
                Got::read(program).directories,
                [WORLD.path("new")],
                "{shell} {place}"
            );
            assert_eq!(
                (ended.status, ended.stderr.as_str()),
                (7, ""),
                "{shell} {place}"
            );
        }
        // The control: without the last word, the start-up file has it.
        let control = home.at_terminal(shell, shell, &typed);
        assert!(
            control.out.starts_with("/from/the/start-up/file|read||"),
            "{shell}: {}",
            control.out
        );
        let control = home.feed(home.command(shell, shell), &typed);
        assert!(
            control.out.starts_with("/from/the/start-up/file|read||"),
            "{shell}: {}",
            control.out
        );
    }
}

#[test]
fn a_zshenv_may_move_the_other_files_of_zsh() {
    if lacks("zsh") || lacks("script") {
        return;
    }
    let home = Home::new();
    home.write(".zshenv", "ZDOTDIR=$HOME/moved\n");
    home.write(
        "moved/.zshrc",
        "export LD_LIBRARY_PATH=/moved MARK=moved OF_ZSHRC=$ZDOTDIR\n",
    );
    let ended = home.at_terminal(
        "zsh",
        &format!("'{CUDARUN}' shell --pin-mode=view {}", plain()),
        &report(&plain()),
    );
    let moved = home.path("moved");
    let wanted = format!(
        ":{}|moved|ours||{1}|{1}\n",
        WORLD.library_path(&["torn", "new"]),
        moved.display()
    );
    assert!(ended.out.contains(&wanted), "{}", ended.out);
}

#[test]
fn a_shell_inside_another_one_is_refused() {
    for shell in SHELLS.into_iter().filter(|shell| !lacks(shell)) {
        let home = Home::new();
        home.write(".cudarun.toml", "");
        let inner = format!("'{CUDARUN}' shell {}\nexit $status$?\n", plain());
        let inner = if shell == "fish" {
            inner.replace("$status$?", "$status")
        } else {
            inner.replace("$status", "")
        };
        let ended = home.piped(shell, &["shell", &plain()], &inner);
        let project = home.path("").file_name().unwrap().to_owned();
        let said = format!(
            "cudarun: already in a cudarun shell of `{}`: type `exit` first\n",
            project.display()
        );
        assert!(ended.stderr.starts_with(&said), "{shell}: {}", ended.stderr);
        assert_eq!(ended.status, 125, "{shell}");
    }
}

#[test]
fn programs_of_other_environments_keep_their_libraries_in_a_shell() {
    let Some(e) = &*ENVIRONMENTS else {
        return skipped("there is no Python here");
    };
    let home = Home::new();
    let (a, b) = (e.a.display(), e.b.display());
    let show = format!("'{}'", SHOW[1]);
    let typed = format!("{{ {a} -c {show}; echo child; {b} -c {show}; }} > $OUT\n");
    let path = e.bare_name.display().to_string();
    let without = format!("unset LD_AUDIT; export LD_LIBRARY_PATH={path}\n{typed}");
    let run = |words: &[&str], typed: &str| {
        let mut command = home.command(CUDARUN, "bash");
        command
            .args(words)
            .env("LD_LIBRARY_PATH", &path)
            .env_remove("BASH_ENV");
        let ended = home.feed(command, typed);
        ended
            .out
            .split("child\n")
            .map(Got::read)
            .collect::<Vec<Got>>()
    };
    let words = ["shell", &a.to_string(), SHOW[0], SHOW[1]];
    let control = run(&words, &without);
    assert!(
        control.len() == 2 && control.iter().all(is_whole),
        "{control:?}"
    );
    assert_eq!(run(&words, &typed), control);
    // The hazard: without following, a view reaches the other environment.
    let a = a.to_string();
    let view = ["shell", "--pin-mode=view", &a, SHOW[0], SHOW[1]];
    assert_eq!(run(&view, &typed), control);
    let view = [&view[..2], &["--no-follow"], &view[2..]].concat();
    let mixed = run(&view, &typed);
    assert_eq!(mixed[1].directories.len(), 2, "{mixed:?}");
}

/// The project's environment, with a framework that torch's name makes known.
#[test]
fn without_a_program_the_environment_of_the_project_counts() {
    let Some(e) = &*ENVIRONMENTS else {
        return skipped("there is no Python here");
    };
    let home = Home::new();
    let venv = home.path("ours/.venv");
    let root = e.a.ancestors().nth(2).unwrap();
    assert!(
        Command::new("cp")
            .arg("-a")
            .args([root, &venv])
            .status()
            .unwrap()
            .success()
    );
    let lib = fs::read_dir(venv.join("lib"))
        .unwrap()
        .next()
        .unwrap()
        .unwrap()
        .path();
    let site = lib.join("site-packages");
    fs::rename(site.join("framework"), site.join("torch")).unwrap();
    fs::create_dir(site.join("torch-2.7.0.dist-info")).unwrap();
    fs::write(
        site.join("torch-2.7.0.dist-info/METADATA"),
        "Name: torch\nVersion: 2.7.0\n",
    )
    .unwrap();
    let python = venv.join("bin/python");
    let typed = format!(
        "{} -c 'import torch; torch.show()' > $OUT\nexit 5\n",
        python.display()
    );
    let run = |words: &[&str], directory: &str, env: &[(&str, &Path)]| {
        let mut command = home.command(CUDARUN, "bash");
        command
            .args(words)
            .env_remove("BASH_ENV")
            .current_dir(home.path(directory));
        command
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .envs(env.iter().copied());
        home.feed(command, &typed)
    };
    let control = home.feed(
        {
            let mut command = home.command("bash", "bash");
            command
                .env_remove("BASH_ENV")
                .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
            command
        },
        &typed,
    );
    assert_eq!(
        Got::read(&control.out).directories.len(),
        2,
        "the control must mix: {}",
        control.out
    );
    fs::create_dir_all(home.path("ours/deep")).unwrap();
    home.write("ours/.cudarun.toml", "");
    fs::create_dir_all(home.path("elsewhere")).unwrap();
    for (directory, env) in [
        ("ours", &[][..]),
        ("ours/deep", &[]),
        ("elsewhere", &[("VIRTUAL_ENV", venv.as_path())]),
        ("elsewhere", &[("CONDA_PREFIX", venv.as_path())]),
    ] {
        let ended = run(&["shell"], directory, env);
        assert!(
            is_whole(&Got::read(&ended.out)),
            "{directory} {env:?}: {}{}",
            ended.out,
            ended.stderr
        );
        assert_eq!((ended.status, ended.stderr.as_str()), (5, ""));
    }
    // Another place has neither an environment nor requirements.
    let none = run(&["shell"], "elsewhere", &[]);
    assert_eq!(none.status, 125);
    let said = "cudarun: nothing to set in a shell: no environment here has a GPU framework, and no [requires] names a library\n\nhint: cudarun shell PROGRAM\n";
    assert_eq!(none.stderr, said);
    // `[requires]` counts beside the environment.
    home.write("ours/.cudarun.toml", "[requires]\ncudnn = \">=9.20\"\n");
    let refused = run(&["shell"], "ours", &[]);
    assert_eq!(refused.status, 125);
    assert!(
        refused.stderr.contains(".cudarun.toml:2"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_shell_without_a_variable_of_bash_is_left_without_traces() {
    let home = Home::new();
    let mut command = home.command(CUDARUN, "bash");
    command
        .args(["shell", "--pin-mode=view", &plain()])
        .env_remove("BASH_ENV");
    let ended = home.feed(command, "env > $OUT\n");
    let names: Vec<&str> = ended
        .out
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    let traces = names
        .iter()
        .filter(|name| name.starts_with("CUDARUN") || **name == "BASH_ENV");
    let mut traces: Vec<&&str> = traces.collect();
    traces.sort();
    assert_eq!(
        traces,
        [&"CUDARUN_PIN_MODE", &"CUDARUN_SHELL", &"CUDARUN_TREE"]
    );
}

/// Any program of the project gets the required library, also one of another environment, and none is mixed.
#[test]
fn without_an_environment_the_requirements_of_the_project_count() {
    let home = Home::new();
    home.write("ours/.cudarun.toml", "[requires]\ncudnn = \">=9.5\"\n");
    let typed = format!("{} > $OUT\n", plain());
    let run = |source: &str, typed: &str| {
        let mut command = home.command(CUDARUN, "bash");
        let directory = WORLD.path(source);
        command.args(["--also", directory.to_str().unwrap(), "shell"]);
        command.env_remove("BASH_ENV").env_remove("LD_LIBRARY_PATH");
        home.feed(command, typed)
    };
    let ended = run("new", &typed);
    let got = Got::read(&ended.out);
    assert_eq!(
        (got.version, got.directories),
        (91002, vec![WORLD.path("new")]),
        "{}",
        ended.stderr
    );
    if let Some(e) = &*ENVIRONMENTS {
        let of_other = format!("{} -c '{}' > $OUT\n", e.a.display(), SHOW[1]);
        let ended = run("new", &of_other);
        assert_eq!(
            Got::read(&ended.out).directories,
            [WORLD.path("new")],
            "{}",
            ended.stderr
        );
    }
    let refused = run("old", &typed);
    assert_eq!((refused.status, refused.out.as_str()), (125, ""));
    assert!(
        refused.stderr.contains(".cudarun.toml:2"),
        "{}",
        refused.stderr
    );
    home.write(
        "ours/.cudarun.toml",
        "[requires]\ncudnn = \">=9.5\"\n[env]\nFOO = \"bar\"\n",
    );
    for words in [&["shell"][..], &["-q", "shell"]] {
        let refused = home.piped("bash", words, &typed);
        assert_eq!((refused.status, refused.out.as_str()), (125, ""));
        assert_eq!(
            refused
                .stderr
                .matches("not allowed yet: it sets `env.FOO`")
                .count(),
            1,
            "{}",
            refused.stderr
        );
    }
}

#[test]
fn the_shell_is_that_of_the_variable_or_the_parent_or_bash() {
    let home = Home::new();
    let chosen = |shell: &str, parent: &str| {
        let line = format!("'{CUDARUN}' -v shell {}; true", plain());
        let mut command = home.command(parent, "bash");
        command.args(["-c", &line]).env("SHELL", shell);
        let said = home.feed(command, "").stderr;
        said.lines()
            .find(|line| line.starts_with("cudarun: shell: "))
            .unwrap_or_default()
            .to_owned()
    };
    let file = |name: &str| which::which(name).unwrap().display().to_string();
    assert_eq!(
        chosen(&file("bash"), "sh"),
        format!("cudarun: shell: {}, by SHELL", file("bash"))
    );
    for unknown in ["", "/bin/sh", "/no/such/zsh", "bash"] {
        let said = chosen(unknown, "sh");
        assert!(said.ends_with("/bash, by default"), "{unknown}: {said}");
    }
    if !lacks("zsh") {
        assert!(chosen("/bin/sh", "zsh").ends_with(", by the parent process"));
        assert!(chosen("/bin/sh", "zsh").contains("/zsh"));
    }
}

#[test]
fn a_program_without_a_plan_opens_no_shell() {
    let home = Home::new();
    let ended = home.piped("bash", &["shell", "true"], "touch $OUT\n");
    assert_eq!(
        (ended.status, ended.out.as_str(), home.path("out").exists()),
        (125, "", false)
    );
    assert!(
        ended
            .stderr
            .contains("needs no NVIDIA library that is installed here"),
        "{}",
        ended.stderr
    );
    assert_eq!(home.piped("bash", &["shell", "/no/such"], "").status, 127);
    assert_eq!(
        home.piped("bash", &["--root", "/", "shell", &plain()], "")
            .status,
        125
    );
    // A program with the name of the verb.
    home.write("bin/shell", "#!/bin/sh\necho this one > $OUT\n");
    let file = home.path("bin/shell");
    fs::set_permissions(file, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = home.command(CUDARUN, "bash");
    command.args(["--", "shell"]).env(
        "PATH",
        format!("{}:/usr/bin:/bin", home.path("bin").display()),
    );
    assert_eq!(home.feed(command, "").out, "this one\n");
}
