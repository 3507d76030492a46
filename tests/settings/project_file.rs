//! Layers of options, variables and files: which counts, where each came from, what is refused and what is only said.
//! Each has its control.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use cudarun::settings::keys::{ANY, KEYS};
use cudarun::settings::read;
use serde_json::Value;

use crate::pin::real_loader::{Got, WORLD};
use crate::support::parts::{
    SITE, SYSTEM, cudnn, driver, elf, kernel, library, machine, node, program, python, text,
};
use crate::support::{Run, Workshop};

/// A home of one's own, and a project in it.
pub struct Project {
    workshop: Workshop,
}

impl Project {
    pub fn new() -> Project {
        let workshop = Workshop::new();
        fs::create_dir_all(workshop.path("home/project/deep/er")).unwrap();
        Project { workshop }
    }

    pub fn with(text: &str) -> Project {
        let project = Project::new();
        project.says(text);
        project
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.workshop
            .directory
            .path()
            .canonicalize()
            .unwrap()
            .join("home/project")
            .join(below)
    }

    pub fn home(&self) -> PathBuf {
        self.path("..").canonicalize().unwrap()
    }

    pub fn says(&self, text: &str) {
        fs::write(self.path(".cudarun.toml"), text).unwrap();
    }

    pub fn user_says(&self, text: &str) {
        self.workshop
            .write("home/.config/cudarun/config.toml", text);
    }

    pub fn run(&self, words: &[&str]) -> Run {
        Run::new(words)
            .env("HOME", self.home())
            .in_directory(self.path(""))
    }

    /// On a program that is linked against cuDNN, of which 9.10.2 and 9.1.0 are here.
    pub fn plain(&self, options: &[&str]) -> Run {
        let program = WORLD.path("plain");
        let words = [options, &[program.to_str().unwrap()]].concat();
        self.run(&words)
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new", "old"]))
    }

    fn picks(run: Run) -> &'static str {
        let got = Got::read(&run.any_stdout().check());
        if got.directories == [WORLD.path("new")] {
            "new"
        } else {
            "old"
        }
    }

    /// The value and the origin of one setting, as `explain` says.
    fn setting(run: Run, key: &str) -> Option<(String, String)> {
        let explained = run.json();
        let settings = explained["settings"].as_array().unwrap();
        let setting = settings.iter().find(|setting| setting["key"] == key)?;
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let line = setting["line"]
            .as_u64()
            .map(|line| format!(":{line}"))
            .unwrap_or_default();
        let name = text(&setting["name"]);
        let short = Path::new(&name)
            .file_name()
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        Some((text(&setting["value"]), format!("{short}{line}")))
    }
}

#[test]
fn a_start_follows_the_requirements_of_the_project() {
    let project = Project::new();
    assert_eq!(Project::picks(project.plain(&[])), "new", "the control");
    project.says("[requires]\ncudnn = \"<9.10\"\n");
    assert_eq!(Project::picks(project.plain(&[])), "old");
    assert_eq!(Project::picks(project.plain(&["--no-config"])), "new");
    project.says("[requires]\ncuDNN = \"9.5\"\n");
    assert_eq!(Project::picks(project.plain(&[])), "new");
    project.says("[requires]\ncudnn = \"~9.5\"\n");
    project
        .plain(&[])
        .status(125)
        .stderr_contains(&[
            "error: no cuDNN here fits",
            ".cudarun.toml:2",
            "~9.5",
            "9.10.2",
            "9.1.0",
        ])
        .check();
    project.plain(&["explain"]).status(1).any_stdout().check();
    project.says("[pin]\ncudnn = \"9.1\"\n");
    assert_eq!(Project::picks(project.plain(&[])), "old");
}

#[test]
fn one_of_the_optional_names_must_meet_the_requirement() {
    let project = Project::with("[requires]\ncudnn = \">=9.1\"\n");
    fs::write(
        project.path("tries.py"),
        "for name in ['libcudnn.so.8', 'libcudnn.so.9']: print(name)\n",
    )
    .unwrap();
    let explain = || {
        let run = project.run(&["explain", "--json", "python3", "tries.py"]);
        run.env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
    };
    assert_eq!(
        explain().json()["families"][0]["picked"]["version"],
        "9.10.2.7"
    );
    project.says("[requires]\ncudnn = \">=9.20\"\n");
    assert_eq!(
        explain().status(1).json()["decision"],
        "conflict",
        "the control"
    );
}

#[test]
fn the_first_layer_that_names_a_key_counts() {
    let project = Project::new();
    let seen = |run: Run| Project::setting(run, "requires.cudnn");
    let is = |value: &str, place: &str| Some((value.to_owned(), place.to_owned()));
    let explain = || project.plain(&["explain", "--json"]);
    assert_eq!(seen(explain()), None, "the control");
    project.user_says("\n\n[requires]\ncudnn = \">=9\"\nnccl = \">=1\"\n");
    assert_eq!(seen(explain().status(1)), is(">=9", "config.toml:4"));
    project.user_says("\n\n[requires]\ncudnn = \">=9\"\n");
    assert_eq!(seen(explain()), is(">=9", "config.toml:4"));
    project.says("[requires]\ncudnn = \">=9.1\"\n");
    assert_eq!(seen(explain()), is(">=9.1", ".cudarun.toml:2"));
    // There is no driver here.
    let variable = |run: Run| {
        run.status(1)
            .env("CUDARUN_REQUIRE", "cudnn>=9.1,<10; driver >=1 \n gpu>=1")
    };
    assert_eq!(
        seen(variable(explain())),
        is(">=9.1,<10", "CUDARUN_REQUIRE")
    );
    let option = ["explain", "--json", "--require=cudnn ~9.1"];
    assert_eq!(
        seen(variable(project.plain(&option))),
        is("~9.1", "--require")
    );
    let explained = variable(explain()).json();
    let demands: Vec<&Value> = explained["program"]["conditions"]
        .as_array()
        .unwrap()
        .iter()
        .map(|it| &it["demand"])
        .collect();
    assert_eq!(demands.len(), 2, "{demands:?}");
    let twice = project
        .plain(&[
            "explain",
            "--json",
            "--require=cudnn>=9",
            "--require=cudnn<10",
        ])
        .json();
    let from = |it: &&Value| it["name"] == "--require";
    assert_eq!(
        twice["settings"]
            .as_array()
            .unwrap()
            .iter()
            .filter(from)
            .count(),
        2
    );
    project
        .plain(&["explain", "-v"])
        .stdout_contains(&["settings\n", "requires.cudnn", ".cudarun.toml:2"])
        .check();
    assert!(
        !project
            .plain(&["explain"])
            .any_stdout()
            .check()
            .contains("settings\n"),
        "the control"
    );
}

/// To ask for one thing is not to do without another.
#[test]
fn requirements_of_several_sources_are_shown_together() {
    let project = Project::with("[requires]\ncudnn = \">=9.10\"\n");
    project.user_says("[requires]\ncudnn = \"=77\"\n");
    assert_eq!(
        Project::picks(project.plain(&[])),
        "new",
        "of files, the first counts"
    );
    assert_eq!(
        Project::picks(project.plain(&["--require=cudnn<99"])),
        "new"
    );
    project
        .plain(&["--require=cudnn<9.10"])
        .status(125)
        .stderr_contains(&[
            "`--require`",
            "`.cudarun.toml:2`",
            "needs  <9.10 ",
            "\n         >=9.10 ",
        ])
        .check();
    assert_eq!(
        Project::picks(project.plain(&["--no-config", "--require=cudnn<9.10"])),
        "old",
        "the control"
    );
}

#[test]
fn every_key_works_in_a_file_or_a_variable() {
    let text = "uses = [\"x\"]\npin-mode = \"audit\"\nlocked = false\n[verify]\nwhen = \"never\"\n[prefer]\ncudnn = \"9.1\"\norigin = [\"wheel\"]\n";
    let project = Project::with(text);
    project.run(&["-q", "allow"]).check();
    let seen = |key: &str| Project::setting(project.plain(&["explain", "--json"]), key).unwrap();
    for (key, value, line) in [
        ("uses", "x", 1),
        ("pin-mode", "audit", 2),
        ("locked", "false", 3),
        ("verify.when", "never", 5),
        ("prefer.cudnn", "9.1", 7),
        ("prefer.origin", "wheel", 8),
    ] {
        assert_eq!(
            seen(key),
            (value.to_owned(), format!(".cudarun.toml:{line}")),
            "{key}"
        );
    }
    for (name, value, key) in [
        ("CUDARUN_PIN_MODE", "view", "pin-mode"),
        ("CUDARUN_PIN", "cudnn=9.1", "pin.cudnn"),
        ("CUDARUN_VERIFY", "always", "verify.when"),
        ("CUDARUN_USES", "a, b", "uses"),
        ("CUDARUN_LOCKED", "0", "locked"),
    ] {
        let run = project.plain(&["explain", "--json"]).env(name, value);
        assert_eq!(Project::setting(run, key).unwrap().1, name);
        let bad = project.plain(&[]).env(name, "=?").any_stdout();
        let bad = if name == "CUDARUN_USES" {
            bad
        } else {
            bad.status(125)
        };
        bad.any_stderr().check();
    }
    let mode = project.plain(&["explain", "--json"]).json();
    assert_eq!(mode["mode"], "audit");
}

#[test]
fn the_nearest_file_upward_counts_as_far_as_the_home_directory() {
    let project = Project::new();
    let deep = || {
        project
            .plain(&["explain", "--json"])
            .in_directory(project.path("deep/er"))
    };
    let seen = |run: Run| Project::setting(run, "requires.cudnn").map(|(value, _)| value);
    let write = |below: &str, range: &str| {
        fs::write(
            project.path(below),
            format!("[requires]\ncudnn = \"{range}\"\n"),
        )
        .unwrap();
    };
    write("../../.cudarun.toml", ">=1");
    assert_eq!(seen(deep()), None, "it stands above the home directory");
    symlink(project.home(), project.path("../../link")).unwrap();
    assert_eq!(
        seen(deep().env("HOME", project.path("../../link"))),
        None,
        "the same by a link"
    );
    assert_eq!(
        seen(deep().env("HOME", project.path("elsewhere"))),
        Some(">=1".into()),
        "the control"
    );
    write("../.cudarun.toml", ">=2");
    assert_eq!(
        seen(deep()),
        Some(">=2".into()),
        "the home directory itself"
    );
    write(".cudarun.toml", ">=3");
    assert_eq!(seen(deep()), Some(">=3".into()));
    write("deep/er/.cudarun.toml", ">=4");
    assert_eq!(seen(deep()), Some(">=4".into()));
    write("other.toml", ">=5");
    let other = project.path("other.toml");
    let named = ["explain", "--json", "--config", other.to_str().unwrap()];
    assert_eq!(seen(project.plain(&named)), Some(">=5".into()));
    assert_eq!(
        seen(
            project
                .plain(&["explain", "--json"])
                .env("CUDARUN_CONFIG", "other.toml")
        ),
        Some(">=5".into())
    );
    assert_eq!(
        seen(deep().env("CUDARUN_CONFIG", "")),
        Some(">=4".into()),
        "the control"
    );
    assert_eq!(
        seen(project.plain(&["explain", "--json", "--no-config"])),
        None
    );
    project
        .plain(&["--config", "nowhere.toml"])
        .status(125)
        .stderr("cudarun: nowhere.toml: no such file\n")
        .check();
}

#[test]
fn an_unknown_key_is_reported_and_skipped() {
    let project =
        Project::with("[requires]\ncudn = \"9\"\n\n[serch]\nalso = []\n[verify]\nwen = \"auto\"\n");
    let file = project.path(".cudarun.toml").display().to_string();
    project
        .plain(&[])
        .any_stdout()
        .stderr(format!(
            "cudarun: {file}:2: unknown key `requires.cudn`: did you mean `requires.cudnn`?\n\
             cudarun: {file}:4: unknown key `serch`: did you mean `search`?\n\
             cudarun: {file}:7: unknown key `verify.wen`: did you mean `verify.when`?\n"
        ))
        .check();
    project.plain(&["-q"]).any_stdout().check();
    let notes = project.plain(&["explain", "--json"]).any_stderr().json()["notes"].to_string();
    assert!(notes.contains("did you mean `requires.cudnn`?"), "{notes}");
}

#[test]
fn an_invalid_value_is_an_error_with_its_line() {
    for (text, line, says) in [
        (
            "[requires]\ncudnn = 9\n",
            2,
            "`requires.cudnn`: `9` is not a string",
        ),
        (
            "[requires]\n\ncudnn = \"new\"\n",
            3,
            "`requires.cudnn`: `new` is not a range of versions",
        ),
        (
            "requires = \"cudnn\"\n",
            1,
            "`requires`: `\"cudnn\"` is not a table",
        ),
        ("uses = [1]\n", 1, "`uses`: `1` is not a string"),
        (
            "uses = \"torch\"\n",
            1,
            "`uses`: `\"torch\"` is not a list of strings",
        ),
        (
            "pin-mode = \"strong\"\n",
            1,
            "`pin-mode`: unknown value `strong`",
        ),
        (
            "[pin]\nnccl = \"\"\n",
            2,
            "`pin.nccl`: `` is not a version or a directory",
        ),
        (
            "[prefer]\norigin = [\"shop\"]\n",
            2,
            "`prefer.origin`: unknown value `shop`",
        ),
        (
            "[search]\nwithout = [\"all\"]\n",
            2,
            "`search.without`: unknown value `all`",
        ),
        ("[env]\nA = 1\n", 2, "`env.A` is not a string, or false"),
        ("[env]\nA = true\n", 2, "`env.A` is not a string, or false"),
        ("[env]\n\"A=B\" = \"c\"\n", 2, "`env.A=B` is not the name"),
        ("[env]\n\"A=B\" = false\n", 2, "`env.A=B` is not the name"),
        ("[env]\n\"\" = false\n", 2, "`env.` is not the name"),
        ("[env]\n\"A\\u0000\" = false\n", 2, "is not the name"),
        ("[env]\nA = \"b\\u0000\"\n", 2, "`env.A` is not a text"),
        ("locked = 1\n", 1, "`locked`: `1` is not true or false"),
        ("program = 1\n", 1, "`program`: `1` is not a table"),
        (
            "[program.x]\nuses = 1\n",
            2,
            "`uses`: `1` is not a list of strings",
        ),
        (
            "min-version = \"99\"\n",
            1,
            "needs cudarun >=99, but this is cudarun ",
        ),
        (
            "min-version = \">=0.1\"\n",
            1,
            "`min-version`: `>=0.1` is not a version of cudarun",
        ),
        (
            "min-version = \"0.1, <9\"\n",
            1,
            "`min-version`: `0.1, <9` is not a version of cudarun",
        ),
        (
            "min-version = \"\"\n",
            1,
            "`min-version`: `` is not a version of cudarun",
        ),
        (
            "\ncudarun = \">=99\"\n",
            2,
            "needs cudarun >=99, but this is cudarun ",
        ),
        (
            "cudarun = \"<0.2\"\n",
            1,
            "needs cudarun <0.2, but this is cudarun ",
        ),
        (
            "min-version = \"0.1\"\ncudarun = \"0.1\"\n",
            2,
            "needs cudarun ^0.1, but this is cudarun ",
        ),
        (
            "cudarun = \"new\"\n",
            1,
            "`cudarun`: `new` is not a range of cudarun versions such as \">=0.2\"",
        ),
        (
            "cudarun = \"\"\n",
            1,
            "`cudarun`: `` is not a range of cudarun versions",
        ),
        ("cudarun = 0.2\n", 1, "`cudarun`: `0.2` is not a string"),
        (
            "[new]\nkey = {}\n[requires]\ncudnn = 9\n[program.x]\ny = 1\n[\"cudarun\"]\n",
            7,
            "`cudarun`: `[\"cudarun\"]` is not a string",
        ),
        (
            "a = 1\na = 2\n",
            2,
            "duplicate key\n  |\n2 | a = 2\n  | ^\n",
        ),
        (
            "a = 1\n\ta\t= \"\u{1b}[2J\"\n",
            2,
            "\n2 |  a = \"\\u{1b}[2J\"\n",
        ),
        ("[requires\n", 1, ""),
        ("x = \"\n", 1, ""),
    ] {
        let project = Project::with(text);
        let at = format!(
            "cudarun: {}:{line}: ",
            project.path(".cudarun.toml").display()
        );
        project
            .plain(&[])
            .status(125)
            .stderr_contains(&[&at, says])
            .check();
        project
            .plain(&["explain"])
            .status(2)
            .stderr_contains(&[&at, says])
            .check();
        project
            .run(&["list"])
            .status(2)
            .stderr_contains(&[&at])
            .check();
    }
    // Other versions may know keys that this one does not, and other values.
    let project =
        Project::with("cudarun = \">=99\"\nnew = 1\npin-mode = \"vew\"\n[requires]\ncudnn = 9\n");
    let hint = "hint: install cudarun >=99 (docs/install.md), or ignore the file: cudarun --no-config PROGRAM …";
    project
        .plain(&[])
        .status(125)
        .stderr_contains(&["needs cudarun >=99", hint])
        .check();
    let own = env!("CARGO_PKG_VERSION");
    for fits in [
        ">=0.2",
        own,
        ">=0.1, <99",
        "*",
        &format!("={own}"),
        &format!("~{own}"),
    ] {
        project.says(&format!("cudarun = \"{fits}\"\n"));
        project.plain(&[]).any_stdout().check();
    }
    let project = Project::with("min-version = \"0.1\"\npin-mode = \"vew\"\n");
    project
        .plain(&[])
        .status(125)
        .stderr_contains(&["hint: did you mean view?"])
        .check();
    project.says("min-version = \"0.1\"\n");
    project.plain(&[]).any_stdout().check();
}

/// The control is the same mistake in another table, whose line is shown.
#[test]
fn no_fault_shows_the_value_of_a_variable() {
    let said = |text: &str| {
        let (_, status, said) = Project::with(text).plain(&[]).any_stderr().streams();
        assert_eq!(status, 125, "{text}{said}");
        said
    };
    for (text, says) in [
        ("[env]\nA = [\"LEAK\"]\n", "`env.A`"),
        ("[env]\nA = { B = \"LEAK\" }\n", "`env.A`"),
        ("[env]\n\"A=\" = \"LEAK\"\n", "`env.A=`"),
        ("[env]\n\"\" = \"LEAK\"\n", "`env.`"),
        ("[env]\nA = \"LEAK\\u0000\"\n", "`env.A`"),
        ("env = \"LEAK\"\n", "`env`"),
        ("program.x.env.A = [\"LEAK\"]\n", "`env.A`"),
        ("[program.x]\nlocked = 1\nenv = [\"LEAK\"]\n", "`locked`"),
        (
            "[program]\nx = { env = { A = \"LEAK\" }, locked = 1 }\n",
            "`locked`",
        ),
        ("program.x = [{ env = { A = \"LEAK\" } }]\n", "`program.x`"),
        ("[env]\nA = LEAK\n", "quoted"),
        ("[env]\nA = \"LEAK\n", "string"),
    ] {
        let said = said(text);
        assert!(
            said.contains(says) && !said.contains("LEAK"),
            "{text}{said}"
        );
    }
    for text in [
        "[requires]\ncuda = [\"LEAK\"]\n",
        "[env]\nA = \"1\"\n[requires]\ncuda = LEAK\n",
    ] {
        let said = said(text);
        assert!(said.contains("LEAK") && said.contains("\n  |"), "{said}");
    }
}

/// The control is a key with a name.
#[test]
fn an_empty_key_is_unknown_everywhere() {
    for table in ["", "[requires]\n", "[pin]\n", "[search]\n", "[program.x]\n"] {
        let said = |key: &str| {
            let project = Project::with(&format!("{table}\"{key}\" = \"9\"\n"));
            let run = project.plain(&[]).any_stdout().any_stderr();
            run.streams().2
        };
        for key in ["", "*"] {
            let said = said(key);
            assert!(said.contains("unknown key `"), "{table}{key}: {said}");
            assert!(!said.contains("it belongs"), "{table}{key}: {said}");
        }
        let control = said("cuda");
        let is_known = table == "[requires]\n";
        assert_eq!(control.is_empty(), is_known, "{table}{control}");
    }
}

#[test]
fn a_settings_file_that_is_no_file_is_named_and_never_blocks() {
    let project = Project::new();
    let file = project.path(".cudarun.toml");
    let named = file.display().to_string();
    let refuses = |says: &str| {
        project
            .plain(&[])
            .status(125)
            .stderr_contains(&[&named, says])
            .check();
    };
    let starts = || project.plain(&[]).any_stdout().check();
    fs::write(&file, "").unwrap();
    starts();
    fs::write(&file, "\u{feff}[requires]\r\ncudnn = \">=9\"\r\n").unwrap();
    starts();
    fs::write(&file, b"[requires]\ncudnn = \"\xff\"\n").unwrap();
    refuses(":2: not UTF-8");
    fs::write(&file, "a = 1\n\0\n").unwrap();
    refuses(":2: ");
    let many: String = (0..70_000)
        .map(|number| format!("key{number} = 1\n"))
        .collect();
    fs::write(&file, many).unwrap();
    let said = project.plain(&[]).output_of_both();
    assert_eq!(said.matches("unknown key").count(), 20);
    fs::write(&file, format!("pin-mode = \"{}\"", "x".repeat(1_000_000))).unwrap();
    refuses("unknown value `xxx");
    fs::write(&file, "#\n".repeat(600_000)).unwrap();
    refuses("is larger than 1048576 bytes");
    for deep in [
        format!("a = {}", "[".repeat(200_000)),
        format!("{}x = 1", "a.".repeat(400_000)),
        "[[".repeat(9999),
    ] {
        fs::write(&file, deep).unwrap();
        refuses(":1: ");
    }
    fs::remove_file(&file).unwrap();
    fs::create_dir(&file).unwrap();
    refuses("is not a regular file");
    fs::remove_dir(&file).unwrap();
    nix::unistd::mkfifo(&file, nix::sys::stat::Mode::S_IRWXU).unwrap();
    refuses("is not a regular file");
    fs::remove_file(&file).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(&file).unwrap();
    refuses("is not a regular file");
    drop(socket);
    fs::remove_file(&file).unwrap();
    symlink("/dev/zero", &file).unwrap();
    refuses("is not a regular file");
    fs::remove_file(&file).unwrap();
    symlink(".cudarun.toml", &file).unwrap();
    refuses("too many levels of symbolic links");
    fs::remove_file(&file).unwrap();
    if !nix::unistd::geteuid().is_root() {
        fs::write(&file, "").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
        refuses("permission denied");
        fs::remove_file(&file).unwrap();
    }
    symlink("nowhere", &file).unwrap();
    starts();
}

#[test]
fn a_table_of_a_program_counts_for_programs_of_that_name() {
    let project = Project::with(
        "[requires]\ncudnn = \">=9.10\"\n[program.plain.requires]\ncudnn = \"<9.10\"\n[program.other]\nuses = [\"x\"]\n",
    );
    assert_eq!(Project::picks(project.plain(&[])), "old");
    let other = project.path("other");
    symlink(WORLD.path("with-runpath"), &other).unwrap();
    let run = project.run(&["explain", "--json", "python3", "-c", ""]);
    assert_eq!(
        Project::setting(run.any_stderr(), "uses"),
        None,
        "the control"
    );
    let run = project.run(&["explain", "--json", other.to_str().unwrap()]);
    assert!(
        Project::setting(
            run.env("LD_LIBRARY_PATH", WORLD.library_path(&["new"])),
            "uses"
        )
        .is_some()
    );
    let script = project.path("train.py");
    fs::write(&script, "import json\n").unwrap();
    project.says(
        "[program.\"train.py\".env]\nA = \"script\"\n[program.\"json.tool\".env]\nA = \"module\"\n",
    );
    for (words, value) in [
        (&["python3", "train.py"][..], Some("script")),
        (&["env", "python3", "train.py"], Some("script")),
        (&["python3", "-m", "json.tool"], Some("module")),
        (&["python3", "-c", "pass"], None),
    ] {
        project.run(&["-q", "allow"]).check();
        let run = project
            .run(&[&["explain", "--json"], words].concat())
            .any_stderr();
        let seen = Project::setting(run, "env.A").map(|(value, _)| value);
        assert_eq!(seen.as_deref(), value, "{words:?}");
    }
}

#[test]
fn proposals_of_a_project_must_be_allowed() {
    let project =
        Project::with("[requires]\ncudnn = \">=9\"\n\n[env]\nFOO = \"bar\"\nHOME = false\n");
    let file = project.path(".cudarun.toml");
    let shown = file.display();
    let echo = || project.run(&["sh", "-c", "echo \"$FOO ${HOME-none}\""]);
    let refusal = format!(
        "{shown}: not allowed yet: it sets `env.FOO` and `env.HOME`; read it, then `cudarun allow {shown}`\n"
    );
    let is_refused = || {
        echo()
            .status(125)
            .stderr(format!("cudarun: {refusal}"))
            .check();
    };
    is_refused();
    project
        .plain(&["verify"])
        .status(2)
        .stderr_contains(&[&refusal])
        .check();
    project
        .plain(&["export"])
        .status(2)
        .stderr_contains(&[&refusal])
        .check();
    let explained = project
        .plain(&["explain", "--json"])
        .stderr(format!("cudarun: {refusal}"))
        .json();
    assert!(
        explained["settings"].to_string().contains("requires.cudnn"),
        "the rest counts"
    );
    assert!(!explained["settings"].to_string().contains("env.FOO"));
    project.run(&["allow", "--list"]).check();
    project
        .run(&["allow"])
        .stderr_contains(&[
            &format!("cudarun: {shown} is allowed with its current content\n"),
            "  env.FOO = ",
        ])
        .check();
    for _cold_then_warm in 0..3 {
        echo().stdout("bar none\n").any_stderr().check();
    }
    project
        .run(&["allow", "--list"])
        .stdout(format!("{shown}\n"))
        .check();
    // Another content, and another place of the same content, are other things.
    let text = fs::read_to_string(&file).unwrap();
    project.says(&text.replace("bar", "baz"));
    is_refused();
    project
        .run(&["allow", "--list"])
        .stdout(format!("{shown}  (changed or removed since)\n"))
        .check();
    project.says(&text);
    echo().stdout("bar none\n").any_stderr().check();
    fs::copy(&file, project.path("deep/.cudarun.toml")).unwrap();
    echo()
        .in_directory(project.path("deep"))
        .status(125)
        .stderr_contains(&["deep/.cudarun.toml"])
        .check();
    project
        .run(&["allow", "--revoke", "."])
        .stderr(format!("cudarun: {shown} is no longer allowed\n"))
        .check();
    is_refused();
    project.run(&["-q", "allow", "--revoke"]).status(1).check();
    // A link to an allowed file is in another place, and so are the directories that it names.
    project.run(&["-q", "allow"]).check();
    fs::remove_file(project.path("deep/.cudarun.toml")).unwrap();
    symlink(&file, project.path("deep/.cudarun.toml")).unwrap();
    echo()
        .in_directory(project.path("deep"))
        .status(125)
        .stderr_contains(&["deep/.cudarun.toml"])
        .check();
    echo()
        .in_directory(project.path(""))
        .stdout("bar none\n")
        .any_stderr()
        .check();
    project.run(&["-q", "allow", "--revoke"]).check();
    project.user_says("[env]\nFOO = \"user\"\n");
    let of_user = Some(("user".to_owned(), "config.toml:2".to_owned()));
    let run = project.plain(&["explain", "--json"]).any_stderr();
    assert_eq!(
        Project::setting(run, "env.FOO"),
        of_user,
        "what is not allowed hides nothing"
    );
    is_refused();
    // An option in place of the setting needs no permission.
    project.says("[search]\nalso = [\"x\"]\n");
    project.run(&["true"]).status(125).any_stderr().check();
    project.run(&["--also", "/tmp", "true"]).check();
    project.run(&["--no-config", "true"]).check();
    project.says("[pin]\ncudnn = \"sub\"\n");
    project
        .plain(&[])
        .status(125)
        .stderr_contains(&["not allowed yet: it sets `pin.cudnn`; read it, then"])
        .check();
    for (weaker, stronger) in [
        (
            "[verify]\nwhen = \"never\"\n",
            "[verify]\nwhen = \"always\"\n",
        ),
        (
            "[verify]\nlevel = \"load\"\n",
            "[verify]\nlevel = \"deep\"\n",
        ),
        ("pin-mode = \"none\"\n", "uses = []\n"),
    ] {
        project.says(weaker);
        project
            .run(&["true"])
            .status(125)
            .stderr_contains(&["read it, then `cudarun allow"])
            .check();
        project.says(stronger);
        project.run(&["true"]).check();
    }
    project.says("[pin]\ncudnn = \"9.1\"\n");
    assert_eq!(
        Project::picks(project.plain(&[])),
        "old",
        "versions need no trust"
    );
}

/// Other users can write to a profile at any time: a setting that was not allowed is refused by its name,
/// with the command to type.
#[test]
fn a_profile_that_others_can_write_counts_only_as_it_was_allowed() {
    let project = Project::with("[env]\nFOO = \"good\"\n");
    let file = project.path(".cudarun.toml");
    let echo = || project.run(&["sh", "-c", "echo \"${FOO-none}\""]);
    let refusal = format!(
        "{0}: not allowed yet: it sets `env.FOO`; read it, then `cudarun allow {0}`\n",
        file.display()
    );
    let is_refused = || {
        echo()
            .status(125)
            .stderr(format!("cudarun: {refusal}"))
            .check();
        project
            .run(&["--no-config", "sh", "-c", "echo \"${FOO-none}\""])
            .stdout("none\n")
            .any_stderr()
            .check();
    };
    is_refused();
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    // Another user's, where we may make it so.
    let _ = std::os::unix::fs::chown(&file, Some(12345), Some(12345));
    is_refused();
    project.run(&["-q", "allow"]).check();
    echo().stdout("good\n").any_stderr().check();
    project.says("[env]\nFOO = \"evil\"\n");
    is_refused();

    // Replaced again and again between two looks at it: what is allowed is what was read, and that is what counts.
    let stop = std::sync::atomic::AtomicBool::new(false);
    let started = std::thread::scope(|scope| {
        scope.spawn(|| {
            let texts = ["[env]\nFOO = \"good\"\n", "[env]\nFOO = \"evil\"\n"];
            for text in texts.iter().cycle() {
                fs::write(project.path("next"), text).unwrap();
                fs::rename(project.path("next"), &file).unwrap();
                if stop.load(std::sync::atomic::Ordering::Relaxed) {
                    break;
                }
            }
        });
        let mut started = 0;
        for _ in 0..100 {
            let mut command = std::process::Command::new(crate::support::CUDARUN);
            command
                .args(["sh", "-c", "echo \"${FOO-none}\""])
                .env("HOME", project.home());
            let output = command.current_dir(project.path("")).output().unwrap();
            let (said, told) = (
                String::from_utf8(output.stdout).unwrap(),
                String::from_utf8(output.stderr).unwrap(),
            );
            match output.status.code() {
                Some(0) => assert_eq!(said, "good\n"),
                _ => assert!(said.is_empty() && told.contains(&refusal), "{said} {told}"),
            }
            started += usize::from(output.status.success());
        }
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        started
    });
    assert!(
        (1..100).contains(&started),
        "the control: both were met, {started} of 100 started"
    );
}

#[test]
fn approvals_are_kept_where_only_their_owner_can_write() {
    let project = Project::with("[env]\nFOO = \"bar\"\n");
    project.run(&["-q", "allow"]).check();
    project.run(&["true"]).check();
    let kept = project.home().join(".config/cudarun/allowed");
    assert_eq!(
        fs::metadata(&kept).unwrap().permissions().mode() & 0o777,
        0o700
    );
    let mode =
        |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    // Not a kept one, which goes on as long as the files are the same.
    let start = || project.run(&["--verify=never", "true"]);
    mode(&kept, 0o777);
    start().status(125).any_stderr().check();
    project
        .run(&["allow"])
        .status(2)
        .stderr_contains(&["another user can write to it"])
        .check();
    mode(&kept, 0o700);
    start().check();
    // A directory above it that another user could replace counts too.
    let above = project.home().join(".config");
    mode(&above, 0o777);
    start().status(125).any_stderr().check();
    mode(&above, 0o755);
    start().check();
    let entry = fs::read_dir(&kept).unwrap().next().unwrap().unwrap().path();
    mode(&entry, 0o666);
    start().status(125).any_stderr().check();
    mode(&entry, 0o600);
    start().check();
    // Another file of ours under the name of the approval.
    fs::write(&entry, "anything").unwrap();
    start().status(125).any_stderr().check();
    project
        .run(&["allow", "/nowhere"])
        .status(2)
        .stderr_contains(&["/nowhere: no such file"])
        .check();
    project.says("uses = 1\n");
    project
        .run(&["allow"])
        .status(2)
        .stderr_contains(&[":1: `uses`: `1` is not"])
        .check();
}

#[test]
fn relative_directories_start_at_the_settings_file() {
    let project = Project::new();
    symlink(WORLD.path("old"), project.path("vendor")).unwrap();
    let program = WORLD.path("plain");
    let words = [program.to_str().unwrap()];
    let run = |words: &[&str]| project.run(words).in_directory(project.path("deep"));
    let new_only = |words: &[&str]| run(words).env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]));
    assert_eq!(Project::picks(new_only(&words)), "new", "the control");
    project.says("[pin]\ncudnn = \"vendor\"\n");
    run(&["-q", "allow"]).check();
    assert_eq!(Project::picks(new_only(&words)), "old");
    project
        .says("[search]\nalso = [\"vendor\"]\nwithout = [\"library-path\"]\n[requires]\ncudnn = \"~9.1\"\n");
    run(&["-q", "allow"]).check();
    assert_eq!(Project::picks(new_only(&words)), "old");
    let listed = run(&["list", "cudnn"]).any_stdout().check();
    assert!(listed.contains("9.1.0"), "{listed}");
    project.says("[pin]\ncudnn = \"gone\"\n");
    run(&["-q", "allow"]).check();
    let at = format!(
        "{}:2: `pin.cudnn`: `{}` is not a directory",
        project.path(".cudarun.toml").display(),
        project.path("gone").display()
    );
    new_only(&words).status(125).stderr_contains(&[&at]).check();
}

#[test]
fn a_strangers_file_in_a_shared_directory_is_no_project_file() {
    if !nix::unistd::geteuid().is_root() {
        return;
    }
    let project = Project::with("[requires]\ncudnn = \">=9\"\n");
    let run = || project.run(&["true"]).in_directory(project.path("deep"));
    let (file, directory) = (project.path(".cudarun.toml"), project.path(""));
    let chmod = |mode| fs::set_permissions(&directory, fs::Permissions::from_mode(mode)).unwrap();
    chmod(0o1777);
    run().check();
    std::os::unix::fs::chown(&file, Some(65534), None).unwrap();
    for mode in [0o1777, 0o777] {
        chmod(mode);
        run()
            .status(125)
            .stderr_contains(&["another user created it in", "hint: --no-config"])
            .check();
    }
    project.run(&["--no-config", "true"]).check();
    project.run(&["--config", ".cudarun.toml", "true"]).check();
    chmod(0o755);
    run().check();
}

/// The control of each case is the same file before and after.
#[test]
fn settings_that_another_user_could_have_written_are_refused() {
    let project = Project::new();
    project.user_says("[env]\nFOO = \"bar\"\n");
    let run = || project.run(&["sh", "-c", "echo $FOO"]).any_stderr();
    run().stdout("bar\n").check();
    let file = project.home().join(".config/cudarun/config.toml");
    // A kept start goes on with the settings that were read, as long as the file is the same.
    let is_refused = |says: &[&str]| {
        let says = [&["is ignored: another user can change it:"][..], says].concat();
        project
            .plain(&["explain"])
            .status(2)
            .stderr_contains(&says)
            .check();
    };
    for open in file.ancestors().take(3) {
        let before = fs::metadata(open).unwrap().permissions();
        fs::set_permissions(open, fs::Permissions::from_mode(0o777)).unwrap();
        is_refused(&[
            "others can write to",
            &open.display().to_string(),
            "hint: chmod go-w",
        ]);
        fs::set_permissions(open, before).unwrap();
        run().stdout("bar\n").check();
    }
    if nix::unistd::geteuid().is_root() {
        let config = project.home().join(".config");
        std::os::unix::fs::chown(&config, Some(12345), None).unwrap();
        is_refused(&["/.config belongs to user 12345"]);
        std::os::unix::fs::chown(&config, Some(0), None).unwrap();
    }
    // Without a file there is nothing to distrust.
    fs::rename(&file, project.path("elsewhere.toml")).unwrap();
    let above = project.home().join(".config");
    fs::set_permissions(&above, fs::Permissions::from_mode(0o777)).unwrap();
    run().stdout("\n").check();
    // A link to a file elsewhere leads through that directory too.
    symlink(&above, project.path("link")).unwrap();
    fs::rename(project.path("elsewhere.toml"), above.join("there.toml")).unwrap();
    let elsewhere = project.path("xdg/cudarun");
    fs::create_dir_all(&elsewhere).unwrap();
    symlink(
        project.path("link/there.toml"),
        elsewhere.join("config.toml"),
    )
    .unwrap();
    let linked = || run().env("XDG_CONFIG_HOME", project.path("xdg"));
    linked()
        .status(125)
        .stderr_contains(&["others can write to"])
        .check();
    fs::set_permissions(&above, fs::Permissions::from_mode(0o755)).unwrap();
    linked().stdout("bar\n").check();
}

#[test]
fn requirements_of_an_image_apply_to_programs_that_need_a_library() {
    let project = Project::new();
    let asked =
        "cuda>=12.4 brand=tesla,driver>=470,driver<471 brand=unknown,driver>=535,driver<536";
    let conditions = |run: Run| {
        run.json()["program"]["conditions"]
            .as_array()
            .unwrap()
            .clone()
    };
    let plain = || {
        project
            .plain(&["explain", "--json"])
            .env("NVIDIA_REQUIRE_CUDA", asked)
    };
    let found = conditions(plain());
    assert_eq!(found.len(), 1, "{found:?}");
    assert_eq!(found[0]["by"]["name"], "NVIDIA_REQUIRE_CUDA");
    assert_eq!(
        (
            &found[0]["only_with_gpu"],
            found[0]["demand"]["any"].as_array().unwrap().len()
        ),
        (&true.into(), 3)
    );
    assert_eq!(found[0]["demand"]["any"][0][0]["driver-cuda"], ">=12.4");
    assert!(conditions(plain().env("NVIDIA_DISABLE_REQUIRE", "true")).is_empty());
    let nothing = project
        .run(&["explain", "--json", "true"])
        .env("NVIDIA_REQUIRE_CUDA", asked);
    assert!(conditions(nothing).is_empty(), "it needs none");
    project
        .plain(&[])
        .env("NVIDIA_REQUIRE_CUDA", "cuda>=12 what")
        .any_stdout()
        .stderr(
            "cudarun: NVIDIA_REQUIRE_CUDA: cannot parse `what`, so the whole variable is ignored\n",
        )
        .check();
}

#[test]
fn machine_requirements_ignore_case_and_get_suggestions() {
    let project = Project::with("[requires]\nCUDA = \"99\"\n");
    let seen = Project::setting(project.plain(&["explain", "--json"]), "requires.cuda");
    assert_eq!(seen, Some(("99".to_owned(), ".cudarun.toml:2".to_owned())));
    project.says("");
    project
        .plain(&["--require=cudaa>=1"])
        .status(125)
        .stderr_contains(&["hint: did you mean cuda?"])
        .check();
    project
        .plain(&["--require=python>=3"])
        .status(125)
        .stderr_contains(&["cuda, driver, gpu"])
        .check();
}

/// The names of directories come with a project too.
#[test]
fn suggested_commands_contain_no_escape_codes() {
    let project = Project::new();
    let place = project.path("\u{1b}[31m");
    fs::create_dir(&place).unwrap();
    fs::write(place.join(".cudarun.toml"), "[env]\nFOO = \"bar\"\n").unwrap();
    let run = || project.run(&["sh", "-c", "echo $FOO"]).in_directory(&place);
    let said = run().status(125).output_of_both();
    assert!(
        said.contains("\\u{1b}[31m") && !said.contains('\u{1b}'),
        "{said}"
    );
    let typed = said
        .split('`')
        .find(|part| part.starts_with("cudarun allow"))
        .unwrap();
    let typed = typed.replacen("cudarun", env!("CARGO_BIN_EXE_cudarun"), 1);
    let mut shell = std::process::Command::new("sh");
    assert!(
        shell
            .args(["-c", &typed])
            .env("HOME", project.home())
            .output()
            .unwrap()
            .status
            .success()
    );
    run().stdout("bar\n").check();
}

/// A long project file does not flood a terminal with its text.
#[test]
fn messages_about_a_long_file_are_short() {
    let project = Project::new();
    let book = "b".repeat(100_000);
    let many: String = (0..10_000)
        .map(|number| format!("V{number} = \"\"\n"))
        .collect();
    for text in [
        format!("[env]\n{many}"),
        format!("[env]\n{book} = \"\"\n"),
        format!("uses = [\"{book}\"]\n"),
        format!("[requires]\ncudnn = \">=99{}\"\n", ",>=99".repeat(10_000)),
    ] {
        project.says(&text);
        let run = if text.contains("cudnn") {
            project.plain(&[])
        } else {
            project.run(&["python3", "-c", ""])
        };
        let said = run.status(125).output_of_both();
        assert!(
            said.contains(".cudarun.toml") && said.len() < 1000,
            "{} of {said:.100}",
            said.len()
        );
    }
    project.says(&format!("[env]\n{many}"));
    project
        .run(&["true"])
        .status(125)
        .stderr_contains(&["`env.V1003` and 9992 more; read it, then"])
        .check();
}

/// The environment of an image is its maker's.
#[test]
fn the_name_of_a_variable_is_no_escape_code() {
    let project = Project::new();
    let name = "NVIDIA_REQUIRE_\u{1b}[31m";
    let said =
        "cudarun: NVIDIA_REQUIRE_\\u{1b}[31m: cannot parse `x`, so the whole variable is ignored\n";
    project.run(&["true"]).env(name, "x").stderr(said).check();
    let explained = project
        .plain(&["explain"])
        .env(name, "cuda>=1")
        .any_stdout()
        .check();
    assert!(
        explained.contains("NVIDIA_REQUIRE_\\u{1b}[31m") && !explained.contains('\u{1b}'),
        "{explained}"
    );
}

#[test]
fn options_fail_for_a_program_that_cannot_be_pinned_and_files_do_not() {
    let workshop = Workshop::new();
    let program = workshop.compile("static", "int main(void) { return 0; }", &["-static"]);
    let program = program.to_str().unwrap();
    let project =
        Project::with("uses = [\"torch\"]\n[requires]\ncudnn = \"=77\"\n[pin]\nnccl = \"99\"\n");
    project.run(&[program]).check();
    project
        .run(&["--require", "cudnn=77", program])
        .status(125)
        .stderr_contains(&["--require has no effect here: `static` is linked statically"])
        .check();
    let uses = ["--no-config", "--uses=torch", "true"];
    project
        .run(&uses)
        .status(125)
        .stderr_contains(&["this program has no Python packages"])
        .check();
    project.says("[requires]\nnccl = \"=77\"\n");
    project
        .plain(&[])
        .status(125)
        .stderr_contains(&["error: no NCCL here fits"])
        .check();
    project.run(&["true"]).check();
    project
        .run(&["--require=nccl=77", "true"])
        .status(125)
        .any_stderr()
        .check();
    project.says("[program.true.requires]\nnccl = \"=77\"\n");
    project
        .run(&["true"])
        .status(125)
        .stderr_contains(&["error: no NCCL here fits"])
        .check();
    project.run(&["cat"]).check();
}

#[test]
fn init_writes_what_holds_here_and_over_nothing() {
    let project = Project::new();
    let file = project.path(".cudarun.toml");
    project
        .run(&["init"])
        .stderr(format!(
            "cudarun: wrote {}; `cudarun hook SHELL` prints a hook that warns when it is not met\n",
            file.display()
        ))
        .check();
    project.run(&["true"]).check();
    let template = fs::read_to_string(&file).unwrap();
    project
        .run(&["init"])
        .status(2)
        .stderr(format!(
            "cudarun: `{}` exists, and cudarun does not overwrite it\n\nhint: cudarun init --print\n",
            file.display()
        ))
        .check();
    assert_eq!(fs::read_to_string(&file).unwrap(), template);
    // Each example, without its mark, is understood.
    let examples: String = template
        .lines()
        .map(|line| {
            if line == "[requires]" {
                "# [requires]"
            } else {
                line
            }
        })
        .filter_map(|line| {
            line.strip_prefix("# ")
                .filter(|rest| rest.starts_with('[') || rest.contains(" = "))
        })
        .map(|line| format!("{line}\n"))
        .collect();
    let read = read::file(examples.as_bytes(), Path::new("/x")).unwrap();
    assert!(
        read.remarks.is_empty() && read.layer.len() > 8,
        "{examples}{:?}",
        read.remarks
    );
    project
        .plain(&["init", "--print"])
        .stdout_contains(&["\ncudnn = \"9\"", "installed is 9.10.2"])
        .check();
    fs::remove_file(&file).unwrap();
    project.plain(&["-q", "init"]).check();
    assert_eq!(Project::picks(project.plain(&[])), "new");
    let seen = Project::setting(project.plain(&["explain", "--json"]), "requires.cudnn").unwrap();
    assert_eq!(seen.0, "9");
    fs::remove_file(&file).unwrap();
    symlink("nowhere", &file).unwrap();
    project.run(&["init"]).status(2).any_stderr().check();
    let machine = crate::support::machine::Machine::load("h200-container");
    let text = Run::on(&machine, &["init", "python3", "/home/user/train.py"])
        .any_stdout()
        .check();
    let read = read::file(text.as_bytes(), Path::new("/x")).unwrap();
    assert!(read.remarks.is_empty(), "{text}");
    assert!(
        text.contains("# cuDNN: torch 2.11.0 requires it; installed is 9.19.0.56.\ncudnn = \"9\"")
            && text.contains("\ndriver = \">="),
        "{text}"
    );
}

#[test]
fn system_keys_are_ignored_in_other_files() {
    let roots = b"[search]\nroots = [\"/srv/nvidia\", \"relative\"]\n";
    let remarks = |path: &str| read::file(roots, Path::new(path)).unwrap().remarks.len();
    assert_eq!(
        remarks("/etc/cudarun/config.toml"),
        0,
        "the file for all users may set search.roots"
    );
    assert_eq!(
        remarks("/home/me/.cudarun.toml"),
        1,
        "a project's file may not"
    );
}

#[test]
fn a_typo_in_a_table_is_offered_the_keys_of_that_table_alone() {
    for (table, keys) in [
        ("search", ["also", "without"]),
        ("verify", ["when", "level"]),
    ] {
        let text = format!("[{table}]\nlevell = 1\n");
        let read = read::file(text.as_bytes(), Path::new("/x")).unwrap();
        let known: Vec<String> = read
            .remarks
            .into_iter()
            .flat_map(|remark| remark.known)
            .collect();
        assert_eq!(known, keys.map(|key| format!("{table}.{key}")));
    }
    for table in ["requires", "pin", "prefer"] {
        let text = format!("[{table}]\nlevell = \"1\"\n");
        let read = read::file(text.as_bytes(), Path::new("/x")).unwrap();
        let known: Vec<String> = read
            .remarks
            .into_iter()
            .flat_map(|remark| remark.known)
            .collect();
        assert!(known.contains(&format!("{table}.cudnn")), "{known:?}");
        assert!(
            known
                .iter()
                .all(|key| key.starts_with(&format!("{table}."))),
            "{known:?}"
        );
    }
}

/// With `CUDARUN_SNAPSHOTS=overwrite` in the environment, the example is written anew.
#[test]
fn the_example_of_the_documentation_is_the_table_of_settings() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md");
    let text = fs::read_to_string(&file).unwrap();
    let (before, rest) = text.split_once("```toml\n").unwrap();
    let (_, after) = rest.split_once("```").unwrap();
    let example = cudarun::report::example_of_settings();
    let expected = format!("{before}```toml\n{example}```{after}");
    if std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        fs::write(&file, expected).unwrap();
    } else {
        assert_eq!(text, expected);
    }
}

#[test]
fn the_example_of_the_documentation_is_understood() {
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md")).unwrap();
    let example = text
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let read = read::file(example.as_bytes(), Path::new("/x")).unwrap();
    assert!(read.remarks.is_empty(), "{:?}", read.remarks);
    let keys: Vec<String> = read
        .layer
        .iter()
        .map(cudarun::settings::Setting::name)
        .collect();
    assert_eq!(
        keys.len(),
        24,
        "the settings of the example in docs/config.md: {keys:?}"
    );
    assert_eq!(
        read.programs.len(),
        1,
        "the [program] tables of the example in docs/config.md"
    );
}

#[test]
fn every_setting_is_documented() {
    let text = include_str!("../../docs/config.md");
    for row in &KEYS {
        let table = text.contains(&format!("\n[{}]", row.table)) || row.table.is_empty();
        let spelt = ["\n", "`"].map(|before| format!("{before}{} = ", row.name));
        let name = spelt.iter().any(|name| text.contains(name)) || row.name == ANY;
        let variable =
            text.contains(&format!("\n| `{}` |", row.variable)) || row.variable.is_empty();
        assert!(
            table && name && variable && text.contains(row.option),
            "docs/config.md lacks {} {} {} {}",
            row.table,
            row.name,
            row.variable,
            row.option
        );
    }
}

/// An administrator's `never` counts before all, for one program too.
#[test]
fn fetching_may_be_forbidden_for_one_program() {
    let settings = "[program.app.fetch]\nwhen = \"never\"\n";
    let machine = machine(&[
        text("/etc/cudarun/config.toml", settings),
        program("app", &["libc.so.6"], ""),
        program("other", &["libc.so.6"], ""),
    ]);
    let when = |program: &str| {
        let run = Run::on(&machine, &["explain", "--json", program]);
        Project::setting(run.env("CUDARUN_FETCH", "always"), "fetch.when").unwrap()
    };
    let config = ("never".to_owned(), "config.toml:2".to_owned());
    assert_eq!(when("app"), config);
    let variable = ("always".to_owned(), "CUDARUN_FETCH".to_owned());
    assert_eq!(when("other"), variable);
}

/// Numbers that look like chance and are the same every time.
pub struct Dice(pub u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).unwrap() % sides
    }
}

/// A file in which something was cut, doubled, replaced or moved.
pub fn damaged(dice: &mut Dice, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    for _ in 0..=dice.roll(4) {
        let (at, to) = (dice.roll(bytes.len()), dice.roll(bytes.len()));
        let (from, to) = (at.min(to), at.max(to).min(at.min(to) + 40));
        match dice.roll(6) {
            0 => drop(bytes.drain(from..to)),
            1 => bytes[at] = u8::try_from(dice.roll(256)).unwrap(),
            2 => {
                let piece = bytes[from..to].to_vec();
                bytes.splice(at..at, piece);
            }
            3 => bytes.truncate(at.max(1)),
            4 => bytes[at] ^= 1 << dice.roll(8),
            _ => {
                let words: [&[u8]; 8] = [b"[", b"]", b"\"", b"'''", b"=", b"\n", b"{}", b"\0"];
                let word = words[dice.roll(8)];
                bytes.splice(at..at, word.iter().copied());
            }
        }
        if bytes.is_empty() {
            bytes.push(b'#');
        }
    }
    bytes
}

#[test]
fn a_damaged_file_gives_a_result_or_an_error_with_its_place() {
    let documented =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/config.md")).unwrap();
    let whole = documented
        .split("```toml\n")
        .nth(1)
        .unwrap()
        .split("```")
        .next()
        .unwrap();
    let mut dice = Dice(20_261_121);
    let mut faults = 0;
    for _ in 0..4000 {
        let bytes = damaged(&mut dice, whole.as_bytes());
        match read::file(&bytes, Path::new("/x/.cudarun.toml")) {
            Ok(_) => {}
            Err(fault) => {
                faults += 1;
                let said = cudarun::error::TypedReason::sentence(&fault);
                let line: usize = said
                    .strip_prefix("/x/.cudarun.toml:")
                    .unwrap()
                    .split(':')
                    .next()
                    .unwrap()
                    .parse()
                    .unwrap();
                let lines = memchr::memchr_iter(b'\n', &bytes).count() + 1;
                assert!((1..=lines).contains(&line), "{said}");
            }
        }
    }
    assert!((1000..3900).contains(&faults), "{faults} of 4000");
    let project = Project::new();
    let file = project.path(".cudarun.toml");
    let run = |words: &[&str]| {
        let mut command = std::process::Command::new(crate::support::CUDARUN);
        command
            .args(words)
            .env_clear()
            .env("HOME", project.home())
            .env("PATH", "/usr/bin:/bin");
        let output = command.current_dir(project.path("")).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!error.contains("panicked"), "{error}");
        (output.status.code().unwrap(), error)
    };
    for round in 0..240 {
        fs::write(&file, damaged(&mut dice, whole.as_bytes())).unwrap();
        let (status, error) = run(if round % 6 > 0 {
            &["allow"]
        } else {
            &["explain", "true"]
        });
        assert!(matches!(status, 0..=2), "{status} {error}");
        let is_named =
            error.is_empty() || error.starts_with(&format!("cudarun: {}", file.display()));
        let of_lock = error.starts_with("cudarun: no lock: ");
        assert!(is_named || of_lock, "{error}");
    }
}

/// No version is both older and newer than two others: what pip is told must be something that there can be.
#[test]
fn an_impossible_range_gives_no_pip_command() {
    let constants = "#define CUDNN_MAJOR 9\n#define CUDNN_MINOR 8\n#define CUDNN_PATCHLEVEL 0\n";
    let at = |path: &str| format!("{SITE}/tensorflow/{path}");
    let machine = python(&[
        node(),
        text(&at("__init__.py"), ""),
        text(
            &at("python/platform/build_info.py"),
            "[('cuda_version', '12.5'), ('cudnn_version', '9'), ('is_cuda_build', True)]\n",
        ),
        text(
            &at("include/third_party/gpus/cudnn/include/cudnn_version.h"),
            constants,
        ),
        elf(
            &at("libtensorflow_framework.so.2"),
            "soname = 'libtensorflow_framework.so.2'",
        ),
        cudnn(SYSTEM, "9.1.0.70", "runpath = '$ORIGIN'"),
    ]);
    let hint = |range: &str| {
        let run = Run::on(
            &machine,
            &[
                "explain",
                "--json",
                "--require",
                range,
                "python3",
                "-c",
                "import tensorflow",
            ],
        );
        run.status(1).json()["hint"].as_str().unwrap().to_owned()
    };
    assert!(hint("cudnn<9.5").starts_with("change --require of cuDNN"));
    assert!(
        hint("cudnn<9.10").contains("nvidia-cudnn-cu12==9.8.0.87"),
        "the control"
    );
}

/// Requirements on the machine are compared with it, and no library is at fault.
#[test]
fn machine_requirements_are_compared_with_the_machine() {
    let gpu = "Model: \t H200\nBus Location: \t 0000:01:00.0\nDevice Minor: \t 0\n";
    let files = [
        kernel("550.54.14"),
        driver(SYSTEM, "550.54.14"),
        text("/proc/driver/nvidia/gpus/0000:01:00.0/information", gpu),
        text("/sys/bus/pci/devices/0000:01:00.0/device", "0x2335"),
        library("/opt/lib", "libnppc", "12", "12.4.1.87", ""),
        program("app", &["libnppc.so.12", "libc.so.6"], ""),
        program("none", &["libc.so.6"], ""),
    ];
    let machine = machine(&files);
    let explain = |name: &str, value: &str, program: &str, status: i32| {
        let run =
            Run::on(&machine, &["explain", "--json", program]).env("LD_LIBRARY_PATH", "/opt/lib");
        run.env(name, value).status(status).any_stderr().json()
    };
    for (name, value, holds) in [
        ("CUDARUN_REQUIRE", "driver>=550", true),
        ("CUDARUN_REQUIRE", "driver>=560.35.05", false),
        ("CUDARUN_REQUIRE", "gpu>=9.0", true),
        ("CUDARUN_REQUIRE", "gpu>=10.0", false),
        ("CUDARUN_REQUIRE", "cuda>=12,<13", true),
        ("CUDARUN_REQUIRE", "cuda>=13", false),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4", true),
        (
            "NVIDIA_REQUIRE_CUDA",
            "cuda>=12.8 brand=tesla,driver>=535,driver<536",
            false,
        ),
        (
            "NVIDIA_REQUIRE_CUDA",
            "cuda>=12.8 brand=tesla,driver>=550,driver<551",
            true,
        ),
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.8 arch>=9.0", true),
        ("NVIDIA_REQUIRE_CUDA", "nonsense>=3", true),
    ] {
        let explained = explain(name, value, "app", i32::from(!holds));
        assert_eq!(
            explained["decision"] == "plan",
            holds,
            "{name}={value}\n{explained:#}"
        );
        assert_eq!(
            explain(name, value, "none", 0)["decision"],
            "nothing",
            "it asks for no library"
        );
    }
    // An architecture is no capability: nothing could meet it.
    for (range, status) in [("gpu>=90", 2), ("gpu>=9.0", 0)] {
        let run = Run::on(&machine, &["explain", "--require", range, "app"]);
        let said = run
            .env("LD_LIBRARY_PATH", "/opt/lib")
            .status(status)
            .output_of_both();
        let is_refused = said.contains("--require: `gpu>=90` is not a compute capability");
        assert_eq!(is_refused, status == 2, "{said}");
    }
    let too_old = explain("CUDARUN_REQUIRE", "driver>=560.35.05", "app", 1);
    assert_eq!(
        too_old["hint"],
        "update the NVIDIA driver to 560.35.05 or newer: no library path can help"
    );
    let of_image = explain(
        "NVIDIA_REQUIRE_CUDA",
        "cuda>=12.8 brand=tesla,driver>=535,driver<536",
        "app",
        1,
    );
    assert_eq!(
        of_image["hint"],
        "update the NVIDIA driver to 570.86.10 or newer: no library path can help"
    );
    assert_eq!(of_image["broken"][0]["has"]["driver"], "550.54.14");
    let words = ["export", "app"];
    Run::on(&machine, &words)
        .env("LD_LIBRARY_PATH", "/opt/lib")
        .env("CUDARUN_REQUIRE", "gpu>=10.0")
        .status(1)
        .stderr_contains(&[
            "the GPU does not meet the requirement of `CUDARUN_REQUIRE`",
            "compute capability >=10.0",
            "H200, compute capability 9.0",
        ])
        .check();
}
