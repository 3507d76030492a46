//! Every block of commands in README.md, CONTRIBUTING.md, SECURITY.md and docs/ runs exactly as written, here
//! or by a script that a comment above it names, or is marked as needing a GPU:
//!
//! - `<!-- run -->`: here, in a project with a `train.py` that opens a stand-in cuDNN; of a transcript, what it prints
//!   is compared. cudarun fetches a stand-in CUDA runtime from a directory
//! - `<!-- run on NAME -->`: a transcript, on a machine of `tests/machines/`
//! - `<!-- run by PATH -->`, `<!-- run by PATH as NAME -->`: by a script of ours, which takes it from the document by
//!   that name or runs all of it itself
//! - `<!-- PATH runs this -->`: the same; the script takes every block of README.md that has this mark
//! - `<!-- needs a GPU -->`
//!
//! In the expected output of a transcript, `…` on a line of its own matches any lines, and at an end any
//! text.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::fetch::wheelhouse::{Wheelhouse, cudart};
use crate::pin::real_loader::WORLD;
use crate::support::machine::Machine;
use crate::support::{CUDARUN, Workshop, without_root};

const LANGUAGES: [&str; 5] = ["sh", "bash", "zsh", "fish", "console"];

struct Block {
    place: String,
    language: String,
    /// The content of the comment above it.
    mark: Option<String>,
    lines: Vec<String>,
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn documents() -> Vec<PathBuf> {
    let listed = fs::read_dir(root().join("docs"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let mut documents: Vec<PathBuf> = listed
        .filter(|path| path.extension().is_some_and(|it| it == "md"))
        .collect();
    documents.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    documents.sort();
    documents
}

/// The blocks of one document whose language is one of commands.
fn blocks(path: &Path) -> Vec<Block> {
    let text = fs::read_to_string(path).unwrap();
    let name = path
        .strip_prefix(root())
        .unwrap_or(path)
        .display()
        .to_string();
    let mut blocks = Vec::new();
    let mut mark = None;
    let mut lines = text.lines().enumerate();
    while let Some((index, line)) = lines.next() {
        let line = line.trim();
        if let Some(comment) = line
            .strip_prefix("<!--")
            .and_then(|rest| rest.strip_suffix("-->"))
        {
            mark = Some(comment.trim().to_owned());
        } else if let Some(language) = line.strip_prefix("```") {
            let inside = lines.by_ref().take_while(|(_, line)| line.trim() != "```");
            let lines = inside.map(|(_, line)| line.to_owned()).collect();
            let block = Block {
                place: format!("{name}:{}", index + 1),
                language: language.to_owned(),
                mark: mark.take(),
                lines,
            };
            blocks.push(block);
        } else if !line.is_empty() {
            mark = None;
        }
    }
    blocks.retain(|block| LANGUAGES.contains(&block.language.as_str()));
    blocks
}

#[test]
fn every_block_of_commands_is_run_or_needs_a_gpu() {
    let mut faults = Vec::new();
    let mut kinds = BTreeSet::new();
    let mut named: BTreeMap<String, (String, Vec<String>)> = BTreeMap::new();
    for block in documents().iter().flat_map(|path| blocks(path)) {
        let place = &block.place;
        let Some(mark) = &block.mark else {
            faults.push(format!("{place}: there is no mark above it"));
            continue;
        };
        let words: Vec<&str> = mark.split_whitespace().collect();
        if mark.contains(" as ") {
            let known = named
                .entry(mark.clone())
                .or_insert_with(|| (place.clone(), block.lines.clone()));
            if known.1 != block.lines {
                faults.push(format!(
                    "{place}: is not what {} says under the same name",
                    known.0
                ));
            }
        }
        kinds.insert(words.iter().take(2).copied().collect::<Vec<_>>().join(" "));
        let wrong = match words.as_slice() {
            ["needs", "a", "GPU" | "GPU:", ..] => None,
            ["run", "by", script, rest @ ..] => is_run_by(&block, script, rest),
            ["run", "on", machine] => transcript(&block, &Place::on(machine)),
            ["run"] if block.language == "console" => transcript(&block, &Place::project()),
            ["run"] => commands(&block, &Place::project()),
            _ => Some(format!("`{mark}` is no mark")),
        };
        faults.extend(wrong.map(|wrong| format!("{place}: {wrong}")));
    }
    assert!(faults.is_empty(), "{}", faults.join("\n\n"));
    let met = ["needs a", "run by", "run on", "run"].map(str::to_owned);
    assert!(met.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

/// The script must take the block from the document, by its name or as all that is there, or run each of its commands.
fn is_run_by(block: &Block, script: &str, rest: &[&str]) -> Option<String> {
    let Ok(mut text) = fs::read_to_string(root().join(script)) else {
        return Some(format!("there is no {script}"));
    };
    // `.ci/run` is made of other scripts.
    let parts: Vec<&str> = text
        .split_whitespace()
        .filter(|word| word.starts_with(".ci/"))
        .collect();
    let parts = parts
        .into_iter()
        .filter_map(|part| fs::read_to_string(root().join(part)).ok());
    let parts = parts.collect::<String>();
    text.push_str(&parts);
    match rest {
        ["as", name] if !text.contains(name) => Some(format!("{script} does not know `{name}`")),
        ["as", _] => None,
        [] if block
            .place
            .split(':')
            .next()
            .is_some_and(|document| text.contains(document)) =>
        {
            None
        }
        [] => {
            let commands = block
                .lines
                .iter()
                .map(|line| line.split(" #").next().unwrap_or_default().trim());
            let unknown = commands
                .filter(|command| !command.is_empty())
                .find(|it| !text.contains(it));
            unknown.map(|command| format!("{script} does not run `{command}`"))
        }
        _ => Some(format!("`{}` is no mark", rest.join(" "))),
    }
}

/// The directory and environment of the commands.
struct Place {
    directory: PathBuf,
    /// Before the commands, in bash.
    prologue: String,
    env: Vec<(String, String)>,
    _keeps: (Option<Machine>, Option<(Workshop, Wheelhouse)>),
}

impl Place {
    fn on(machine: &str) -> Place {
        let machine = Machine::load(machine);
        let prologue = format!(
            "cudarun() {{ '{CUDARUN}' --root '{}' \"$@\"; }}\n",
            machine.root().display()
        );
        let mut env = vec![("HOME".to_owned(), "/home/user".to_owned())];
        env.extend(machine.env.clone());
        Place {
            directory: machine.root().to_owned(),
            prologue,
            env,
            _keeps: (Some(machine), None),
        }
    }

    /// A home with a project in it, cuDNN where the loader finds it, and wheels that the user's settings name.
    fn project() -> Place {
        let workshop = Workshop::new();
        let wheels = Wheelhouse::new(&[cudart()]);
        let from = wheels.path("wheels");
        let settings = format!(
            "[fetch]\nwhen = \"always\"\nfrom = [\"{}\"]\n",
            from.display()
        );
        workshop.write("home/.config/cudarun/config.toml", &settings);
        let train = "import ctypes\nctypes.CDLL('libcudnn.so.9')\n";
        workshop.write("home/project/train.py", train);
        workshop.write(
            "home/project/.cudarun.toml",
            "[requires]\ncudnn = \">=9.1\"\n\n[env]\nFOO = \"bar\"\n",
        );
        std::os::unix::fs::symlink(
            root().join("examples"),
            workshop.path("home/project/examples"),
        )
        .unwrap();
        let (home, bin) = (workshop.path("home"), workshop.path("bin"));
        fs::create_dir_all(&bin).unwrap();
        std::os::unix::fs::symlink(CUDARUN, bin.join("cudarun")).unwrap();
        let env = vec![
            ("HOME".to_owned(), home.display().to_string()),
            ("LD_LIBRARY_PATH".to_owned(), WORLD.library_path(&["new"])),
            ("BIN".to_owned(), bin.display().to_string()),
            (
                "CUDARUN_TEST_WHEELS".to_owned(),
                wheels.path("table.toml").display().to_string(),
            ),
        ];
        let prologue = "PATH=$BIN:$PATH\ncudarun -q allow\n".to_owned();
        Place {
            directory: home.join("project"),
            prologue,
            env,
            _keeps: (None, Some((workshop, wheels))),
        }
    }

    fn run(&self, script: &str) -> (bool, String) {
        let mut command = Command::new("bash");
        command.args([
            "-eu",
            "-o",
            "pipefail",
            "-c",
            &format!("{}{{ {script}\n}} 2>&1", self.prologue),
        ]);
        command
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/bin:/bin")
            .envs(self.env.iter().cloned());
        let output = command.current_dir(&self.directory).output().unwrap();
        let told = String::from_utf8_lossy(&output.stderr);
        let said = format!("{}{told}", String::from_utf8_lossy(&output.stdout));
        (
            output.status.success(),
            without_root(&said, &self.directory),
        )
    }
}

fn commands(block: &Block, place: &Place) -> Option<String> {
    let (succeeds, said) = place.run(&block.lines.join("\n"));
    (!succeeds).then(|| format!("a command fails:\n{said}"))
}

/// Each command, and what comes of it; what a shell was told stays said.
fn transcript(block: &Block, place: &Place) -> Option<String> {
    let mut before = String::new();
    let mut lines = block.lines.iter().peekable();
    while let Some(line) = lines.next() {
        let command = line.strip_prefix("$ ")?;
        let mut expected = Vec::new();
        while let Some(line) = lines.next_if(|line| !line.starts_with("$ ")) {
            expected.push(line.trim_end());
        }
        if expected.is_empty() {
            before.push_str(&format!("{command}\n"));
            continue;
        }
        let (_, said) = place.run(&format!("{before}{command} || true"));
        let said: Vec<&str> = said.lines().map(str::trim_end).collect();
        if !is_like(&expected, &said) {
            return Some(format!("`{command}` says\n{}", said.join("\n")));
        }
    }
    None
}

fn is_like(expected: &[&str], said: &[&str]) -> bool {
    match (expected, said) {
        ([], []) => true,
        (["…", rest @ ..], _) => {
            is_like(rest, said) || !said.is_empty() && is_like(expected, &said[1..])
        }
        ([line, rest @ ..], [first, others @ ..]) => {
            let same = match line.strip_suffix('…') {
                Some(beginning) => first.starts_with(beginning.trim_end()),
                None => line == first,
            };
            same && is_like(rest, others)
        }
        _ => false,
    }
}

#[test]
fn a_transcript_that_lies_is_found() {
    assert!(is_like(&["a", "…", "d"], &["a", "b", "c", "d"]));
    assert!(is_like(&["a b…", "…"], &["a b c"]));
    assert!(
        !is_like(&["a"], &["b"]) && !is_like(&["a"], &["a", "b"]) && !is_like(&["a", "b"], &["a"])
    );
    let block = |language: &str, lines: &[&str]| Block {
        place: String::new(),
        language: language.to_owned(),
        mark: None,
        lines: lines.iter().map(ToString::to_string).collect(),
    };
    let place = Place::project();
    assert!(commands(&block("sh", &["cudarun -q true", "cudarun false"]), &place).is_some());
    assert!(commands(&block("sh", &["cudarun true  # fine"]), &place).is_none());
    assert!(transcript(&block("console", &["$ cudarun echo a", "b"]), &place).is_some());
    assert!(
        transcript(
            &block("console", &["$ export A=a", "$ cudarun printenv A", "a"]),
            &place
        )
        .is_none()
    );
}
