//! Screens of machines made of text: `tests/report/screens/MACHINE.txt`, for a person to look at. Each file begins with all that
//! can be listed. Of some machines there are screens of every verb: first plain and 80 columns wide, then 120 columns wide
//! with colours written as marks.
//! With `CUDARUN_SNAPSHOTS=overwrite` in the environment, they are written anew.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;

use unicode_width::UnicodeWidthStr;

use crate::support::machine::Machine;
use crate::support::{CUDARUN, Run, without_root};

/// A machine of which every verb is shown, and a program there, if it has one.
const MACHINES: [(&str, &[&str]); 12] = [
    ("aarch64", &["/opt/venv/bin/python3", "-c", "import torch"]),
    ("conda", &[]),
    ("debian", &["/usr/bin/profiled"]),
    ("h200-container", &["python3", "/home/user/train.py"]),
    ("hostile", &["python3", "/home/user/train.py"]),
    ("nothing", &["python3", "/home/user/train.py"]),
    ("old-driver", &["for-13"]),
    ("python", &["/home/user/bin/long"]),
    ("rhel-modules", &[]),
    ("torch", &["python3", "/home/user/project/train.py"]),
    ("uv-venv", &["python3", "-c", "import torch"]),
    ("wsl", &[]),
];

/// Each verb with its options, and true if it is about a program.
const VERBS: [(&[&str], bool); 9] = [
    (&["list"], false),
    (&["doctor"], false),
    (&["explain"], true),
    (&["explain", "-v"], true),
    (&["trace", "--predict"], true),
    (&["trace", "--predict", "--as-is"], true),
    (
        &[
            "diagnose",
            "--all",
            "--text",
            "libcudnn.so.9: cannot open shared object file",
        ],
        true,
    ),
    (&["export"], true),
    (&["init", "--print"], true),
];

/// Marks for the codes of colours.
const COLOURS: [(&str, &str); 9] = [
    ("\x1b[1m\x1b[31m", "‹red:"),
    ("\x1b[1m\x1b[33m", "‹yellow:"),
    ("\x1b[1m\x1b[36m", "‹cyan:"),
    ("\x1b[31m", "‹red:"),
    ("\x1b[33m", "‹yellow:"),
    ("\x1b[32m", "‹green:"),
    ("\x1b[1m", "‹bold:"),
    ("\x1b[2m", "‹dim:"),
    ("\x1b[0m", "›"),
];

struct Screen {
    title: String,
    plain: String,
    marked: String,
    width: usize,
}

/// Standard error comes first, as on a terminal.
fn run(machine: &Machine, words: &[&str], width: usize, color: &str) -> String {
    let output = Command::new(CUDARUN)
        .arg("--root")
        .arg(machine.root())
        .args(["--color", color])
        .args(words)
        .env_clear()
        .env("PATH", "/usr/local/bin:/usr/bin:/bin")
        .env("HOME", "/home/user")
        .envs(&machine.env)
        .env("COLUMNS", width.to_string())
        .current_dir("/")
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let text = String::from_utf8([output.stderr, output.stdout].concat()).unwrap();
    without_digests(without_root(&text, machine.root()))
}

/// The names of views depend on the directory of the machine, those of modules on the compiler.
fn without_digests(mut text: String) -> String {
    for directory in ["/views/", "/audit/"] {
        let places: Vec<usize> = text
            .match_indices(directory)
            .map(|(at, _)| at + directory.len())
            .collect();
        for at in places {
            text.replace_range(at..at + 24, &".".repeat(24));
        }
    }
    text
}

fn screens(machine: &Machine, program: &[&str], width: usize) -> Vec<Screen> {
    let screen = |(verb, takes_program): &(&[&str], bool)| {
        let words: Vec<&str> = verb
            .iter()
            .chain(program.iter().filter(|_| *takes_program))
            .copied()
            .collect();
        let plain = run(machine, &words, width, "never");
        let mut marked = run(machine, &words, width, "always");
        for (code, mark) in COLOURS {
            marked = marked.replace(code, mark);
        }
        Screen {
            title: words.join(" "),
            plain,
            marked,
            width,
        }
    };
    VERBS
        .iter()
        .filter(|(_, takes_program)| !takes_program || !program.is_empty())
        .map(screen)
        .collect()
}

fn without_marks(marked: &str) -> String {
    let mut text = marked.to_owned();
    for (_, mark) in COLOURS {
        text = text.replace(mark, "");
    }
    text
}

/// The machines of `tests/machines/`.
fn names() -> Vec<String> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let entries = fs::read_dir(directory).unwrap();
    let name = |entry: fs::DirEntry| {
        let file = entry.file_name();
        Some(file.to_str()?.strip_suffix(".toml")?.to_owned())
    };
    let mut names: Vec<String> = entries.filter_map(|entry| name(entry.unwrap())).collect();
    names.sort();
    names
}

#[test]
fn every_screen_is_as_it_was_and_fits() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/report/screens");
    let overwrites = std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let of_machine = |machine: &str| {
        let mut faults = Vec::new();
        let made = Machine::load(machine);
        // A machine where nothing is found is a no.
        let (listed, status) = Run::on(&made, &["list", "-v"]).output();
        assert!([0, 1].contains(&status), "{machine}: {listed}");
        assert!(!listed.contains('\x1b'), "{machine}: {listed:?}");
        let mut text = format!("$ cudarun list -v\n{listed}\n");
        if let Some((_, program)) = MACHINES.iter().find(|(name, _)| *name == machine) {
            let narrow = screens(&made, program, 80);
            let wide = screens(&made, program, 120);
            for screen in narrow.iter().chain(&wide) {
                assert!(
                    !screen.marked.contains('\x1b'),
                    "{machine}: {}\n{:?}",
                    screen.title,
                    screen.marked
                );
                assert_eq!(
                    without_marks(&screen.marked),
                    screen.plain,
                    "{machine}: colour changes no word"
                );
                assert!(
                    !screen.plain.contains('\x1b'),
                    "{machine}: {}",
                    screen.title
                );
                let lines = lines_that_are_too_wide(screen);
                faults.extend(lines.map(|line| format!("{machine}: {line}")));
            }
            let titled =
                |screen: &Screen, text: &str| format!("$ cudarun {}\n{text}\n", screen.title);
            text.extend(narrow.iter().map(|screen| titled(screen, &screen.plain)));
            text += &("=".repeat(120) + "\n");
            text.extend(wide.iter().map(|screen| titled(screen, &screen.marked)));
        }
        let file = directory.join(format!("{machine}.txt"));
        if overwrites {
            fs::write(&file, text).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != text {
            faults.push(format!("not as in {}:\n{text}", file.display()));
        }
        faults
    };
    let names = names();
    assert!(names.len() >= 15, "{names:?}");
    let faults: Vec<String> = thread::scope(|scope| {
        let threads: Vec<_> = names
            .iter()
            .map(|name| scope.spawn(move || of_machine(name)))
            .collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().unwrap())
            .collect()
    });
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Shell code and the file that `init` writes are not for a terminal. A line may hold one path, symbol or command that is
/// wider than the screen.
fn lines_that_are_too_wide(screen: &Screen) -> impl Iterator<Item = String> {
    let is_for_people = !["export", "init"]
        .iter()
        .any(|verb| screen.title.starts_with(verb));
    let is_too_wide = |(before, line): &(&str, &str)| {
        let text = line.trim();
        let is_one_word =
            !text.contains(' ') || text.starts_with('`') && text.matches('`').count() == 2;
        let is_command = ["do:", "or:", "next:"].contains(&before.trim());
        line.width() > screen.width && !is_one_word && !is_command
    };
    let lines = std::iter::once("")
        .chain(screen.plain.lines())
        .zip(screen.plain.lines());
    lines
        .filter(move |pair| is_for_people && is_too_wide(pair))
        .map(|(_, line)| line)
        .map(|line| format!("{}: wider than {}: {line}", screen.title, screen.width))
        .collect::<Vec<_>>()
        .into_iter()
}

#[test]
fn explanations_of_plans_that_are_fine_are_short() {
    for (machine, program) in MACHINES
        .iter()
        .filter(|(machine, _)| ["h200-container", "torch"].contains(machine))
    {
        let made = Machine::load(machine);
        for width in [80, 120] {
            let words: Vec<&str> = ["explain"].iter().chain(*program).copied().collect();
            let text = run(&made, &words, width, "never");
            assert!(text.lines().count() <= 25, "{machine}\n{text}");
            assert!(
                text.lines().next().unwrap().contains(" starts with "),
                "{text}"
            );
            // Nothing can be started on another machine.
            assert!(!text.contains("next:"), "{text}");
            let text = run(&made, &["doctor"], width, "never");
            assert!(text.lines().count() <= 24, "{machine}\n{text}");
        }
    }
    let words = ["explain", "-v", "python3", "/home/user/project/train.py"];
    assert!(
        run(&Machine::load("torch"), &words, 80, "never")
            .lines()
            .count()
            > 25,
        "the control: -v shows what was left out"
    );
}

/// Standard output and standard error on a terminal that is so wide.
fn at_terminal(columns: usize, words: &str) -> String {
    let home = tempfile::tempdir().unwrap();
    let machine = Machine::load("torch");
    let root = machine.root().display();
    let line = format!("stty cols {columns} rows 24; '{CUDARUN}' --root '{root}' {words}");
    let mut command = Command::new("script");
    command
        .args(["-qec", &line, "/dev/null"])
        .stdin(Stdio::null())
        .env_clear();
    command
        .env("PATH", "/usr/bin:/bin")
        .env("TERM", "xterm")
        .env("SHELL", "/bin/sh");
    let output = command
        .env("HOME", home.path())
        .envs(&machine.env)
        .current_dir(home.path())
        .output()
        .unwrap();
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_terminal_gets_its_width_and_its_colours() {
    let width_of = |text: &str| {
        let lines = text
            .lines()
            .map(|line| anstream::adapter::strip_str(line).to_string());
        lines
            .filter(|line| line.trim().contains(' '))
            .map(|line| line.width())
            .max()
            .unwrap()
    };
    let doctor = "doctor";
    for columns in [70, 80, 120] {
        let page = at_terminal(columns, doctor);
        assert!(
            page.contains('\x1b') && width_of(&page) <= columns,
            "{columns}: {page}"
        );
    }
    assert!(width_of(&at_terminal(120, doctor)) > 80, "the control");
}
