//! The manual page, docs/cudarun.1, is what the command line says of itself, with the variables of docs/config.md.
//! With `CUDARUN_SNAPSHOTS=overwrite` in the environment, it is written anew.

use std::fs;
use std::path::Path;

use clap::{Arg, Command, CommandFactory};
use roff::{Inline, Roff, bold, italic, roman};

#[test]
fn the_manual_page_is_what_the_command_line_says() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cudarun.1");
    let page = page();
    if std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite") {
        fs::write(&file, page).unwrap();
    } else {
        let is_same = fs::read_to_string(&file).unwrap_or_default() == page;
        let refresh = "CUDARUN_SNAPSHOTS=overwrite cargo test --locked the_manual_page";
        assert!(
            is_same,
            "docs/cudarun.1 is of another command line; this writes it anew:\n    {refresh}"
        );
    }
}

/// Every verb and option is on the manual page.
#[test]
fn the_manual_page_has_every_verb_and_option() {
    let page = page();
    for verb in cudarun::cli::VERBS {
        assert!(
            page.contains(&format!(".SS \"cudarun {verb}\"\n")),
            "{verb}"
        );
    }
    for option in ["also", "pin\\-mode", "verify", "as\\-is", "save", "revoke"] {
        assert!(
            page.contains(&format!("\\fB\\-\\-{option}\\fR")),
            "{option}"
        );
    }
    assert!(page.is_ascii());
}

const FILES: &[(&str, &str)] = &[
    (
        "~/.cache/cudarun",
        "Views, proofs and what was read of files (`$XDG_CACHE_HOME/cudarun` where that is set). It can be deleted \
         when nothing that was started with cudarun is running.",
    ),
    (
        ".cudarun.toml",
        "The requirements of a project: the nearest file, from the current directory upward.",
    ),
    (
        ".cudarun.lock",
        "The set that `cudarun record` has written, for `--locked`.",
    ),
    (
        "~/.config/cudarun/config.toml",
        "The user's settings (`$XDG_CONFIG_HOME/cudarun/config.toml` where that is set).",
    ),
    (
        "~/.local/share/cudarun/store",
        "The wheels of `cudarun fetch` (`$XDG_DATA_HOME/cudarun/store` where that is set).",
    ),
    (
        "~/.config/cudarun/allowed",
        "The files that `cudarun allow` has allowed.",
    ),
    ("/etc/cudarun/config.toml", "Settings for all users."),
];

/// Beside those that say what an option would.
const VARIABLES: &[(&str, &str)] = &[
    ("CUDARUN_HOOK", "`off` switches the shell's hook off"),
    (
        "CUDARUN_VIEW",
        "the directory of links to the pinned libraries, in modes audit and view",
    ),
];

fn page() -> String {
    let mut command = cudarun::cli::Cli::command();
    command.build();
    let version = format!("cudarun {}", env!("CARGO_PKG_VERSION"));
    let mut page = Roff::new();
    page.control("TH", ["CUDARUN", "1", &date(), &version, "User Commands"]);
    section(&mut page, "NAME");
    let about = command.get_about().unwrap().to_string();
    page.text([roman(format!(
        "cudarun - {}",
        about.replacen("Starts", "starts", 1)
    ))]);
    section(&mut page, "SYNOPSIS");
    usage(&mut page, &command);
    section(&mut page, "DESCRIPTION");
    paragraphs(&mut page, &command.get_long_about().unwrap().to_string());

    section(&mut page, "OPTIONS");
    page.text([roman(
        "Those that a verb knows may stand before it or after it; --verify goes with run alone.",
    )]);
    options(&mut page, &command, |option| !is_everywhere(option));
    page.control("SS", ["Options of every verb"]);
    options(&mut page, &command, is_everywhere);
    section(&mut page, "VERBS");
    for verb in command.get_subcommands() {
        page.control("SS", [format!("cudarun {}", verb.get_name()).as_str()]);
        usage(&mut page, verb);
        page.control("PP", []);
        page.text(marked(&format!("{}.", verb.get_about().unwrap())));
        let is_named = |option: &Arg| option.get_long().is_some() && !option.is_hide_set();
        let is_same = |option: &Arg| {
            command
                .get_arguments()
                .any(|above| above.get_id() == option.get_id())
        };
        let is_above = |option: &Arg| is_named(option) && is_same(option);
        options(&mut page, verb, |option| {
            !is_everywhere(option) && !is_above(option)
        });
        let shared = verb
            .get_arguments()
            .filter(|option| !is_everywhere(option) && is_above(option));
        let shared: Vec<_> = shared
            .filter_map(Arg::get_long)
            .map(|long| format!("`--{long}`"))
            .collect();
        if !shared.is_empty() {
            page.control("PP", []);
            page.text(marked(&format!("As above: {}.", shared.join(", "))));
        }
    }
    section(&mut page, "EXIT STATUS");
    paragraphs(
        &mut page,
        &command
            .get_after_long_help()
            .unwrap()
            .to_string()
            .replacen("Exit status: t", "T", 1),
    );

    section(&mut page, "ENVIRONMENT");
    for (name, says) in settings() {
        item(&mut page, [bold(name)], &says);
    }
    for (name, says) in VARIABLES {
        item(&mut page, [bold(*name)], says);
    }
    section(&mut page, "FILES");
    for (path, is) in FILES {
        item(&mut page, [italic(*path)], is);
    }
    section(&mut page, "SEE ALSO");
    page.text([
        bold("ld.so"),
        roman("(8), "),
        bold("ldd"),
        roman("(1), "),
        bold("env"),
        roman("(1)"),
    ]);
    ascii(&page.render())
}

fn read(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

fn section(page: &mut Roff, name: &str) {
    page.control("SH", [name]);
}

fn item(page: &mut Roff, tag: impl Into<Vec<Inline>>, text: &str) {
    page.control("TP", []);
    page.text(tag);
    page.text(marked(text));
}

fn paragraphs(page: &mut Roff, text: &str) {
    for (index, paragraph) in text.split("\n\n").enumerate() {
        if index > 0 {
            page.control("PP", []);
        }
        page.text(marked(&paragraph.replace('\n', " ")));
    }
}

/// Every form of a usage on a line of its own.
fn usage(page: &mut Roff, command: &Command) {
    let usage = command
        .get_overridden_usage()
        .expect("every verb says its usage itself")
        .to_string();
    for (index, form) in usage.lines().map(str::trim).enumerate() {
        if index > 0 {
            page.control("br", []);
        }
        let (name, rest) = form.split_at(form.find(" [").or(form.find(" <")).unwrap());
        page.text([bold(name), roman(rest)]);
    }
}

fn is_everywhere(option: &Arg) -> bool {
    option.is_global_set() || option.get_id() == "help"
}

fn options(page: &mut Roff, command: &Command, is_wanted: impl Fn(&Arg) -> bool) {
    for option in command
        .get_arguments()
        .filter(|option| !option.is_hide_set() && is_wanted(option))
    {
        let mut tag = Vec::new();
        let short = option.get_short().map(|short| format!("-{short}"));
        let long = option.get_long().map(|long| format!("--{long}"));
        for name in short.into_iter().chain(long) {
            if !tag.is_empty() {
                tag.push(roman(", "));
            }
            tag.push(bold(name));
        }
        if option.is_positional() || option.get_action().takes_values() {
            let blank = if tag.is_empty() { "" } else { " " };
            let names = option.get_value_names().expect("every value has a name");
            tag.extend([roman(blank), italic(names.join(" "))]);
        }
        let mut help = option
            .get_help()
            .expect("every option says what it does")
            .to_string();
        // Here everything is shown.
        help = help.replace(" (see more with '--help')", "");
        if !option.get_action().takes_values() {
            item(page, tag, &help);
            continue;
        }
        if let Some(value) = option.get_default_values().first() {
            help += &format!(" [default: {}]", value.to_string_lossy());
        }
        let values = option.get_possible_values();
        let values: Vec<_> = values.iter().filter(|value| !value.is_hide_set()).collect();
        let names: Vec<_> = values
            .iter()
            .map(|value| format!("`{}`", value.get_name()))
            .collect();
        if values.iter().all(|value| value.get_help().is_none()) {
            let list = if names.is_empty() {
                String::new()
            } else {
                format!(": {}", names.join(", "))
            };
            item(page, tag, &format!("{help}{list}"));
            continue;
        }
        item(page, tag, &help);
        page.control("RS", []);
        for (value, name) in values.iter().zip(&names) {
            page.control("TP", ["10"]);
            page.text(marked(name));
            page.text(marked(
                &value
                    .get_help()
                    .map(ToString::to_string)
                    .unwrap_or_default(),
            ));
        }
        page.control("RE", []);
    }
}

/// The date of the newest entry of the changelog.
fn date() -> String {
    let changelog = read("CHANGELOG.md");
    let entry = changelog
        .lines()
        .find_map(|line| line.strip_prefix("## "))
        .unwrap();
    entry.split_once(", ").unwrap().1.to_owned()
}

/// The rows of the table of variables.
fn settings() -> Vec<(String, String)> {
    let document = read("docs/config.md");
    let rows = document
        .lines()
        .filter_map(|line| line.strip_prefix("| `CUDARUN_")?.strip_suffix(" |"));
    let rows: Vec<_> = rows
        .filter_map(|row| row.split_once("` | "))
        .map(|(name, says)| (format!("CUDARUN_{name}"), says.to_owned()))
        .filter(|(name, _)| VARIABLES.iter().all(|(own, _)| own != name))
        .collect();
    assert!(
        rows.len() >= 8,
        "the table of variables in docs/config.md: {rows:?}"
    );
    rows
}

/// Text between backticks is typed as it is.
fn marked(text: &str) -> Vec<Inline> {
    let parts = text.split('`').enumerate();
    let parts = parts.filter(|(_, part)| !part.is_empty());
    parts
        .map(|(index, part)| {
            if index % 2 == 1 {
                bold(part)
            } else {
                roman(part)
            }
        })
        .collect()
}

/// Other characters by their names, so that no reader has to guess the encoding.
fn ascii(page: &str) -> String {
    let named = |letter: char| match letter {
        '…' => "...".to_owned(),
        _ if letter.is_ascii() => letter.to_string(),
        _ => format!("\\[u{:04X}]", u32::from(letter)),
    };
    page.chars().map(named).collect()
}
