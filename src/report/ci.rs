//! `--ci`: one line for each finding, in a form that runners of CI show beside the code. Runners obey lines, and paths and names
//! in them may be hostile: nothing of a finding may end its line, or begin a command.

use std::path::{Path, PathBuf};

use super::doctor::shown_finding;
use super::fleet::{FleetReport, lacking};
use super::words::at;
use crate::doctor::{Finding, FindingEvidence};
use crate::fleet::{DoctorPage, ShownFinding, There, host_list};
use crate::text::show;

/// The form of a line, and the directory that its files are relative to.
pub struct CiRunner {
    pub is_github: bool,
    pub workspace: PathBuf,
}

/// A place in the project; the line is not known for a whole file.
type Place<'p> = (&'p Path, Option<usize>);

/// The words of GitHub for severities.
const GITHUB: [(&str, &str); 3] = [
    ("error", "error"),
    ("warning", "warning"),
    ("note", "notice"),
];
/// What has a meaning in the data of a command of GitHub, and in a property.
const IN_DATA: [(char, &str); 3] = [('%', "%25"), ('\r', "%0D"), ('\n', "%0A")];
const IN_PROPERTY: [(char, &str); 5] = [
    ('%', "%25"),
    ('\r', "%0D"),
    ('\n', "%0A"),
    (':', "%3A"),
    (',', "%2C"),
];
/// Azure, TeamCity, and GitHub in its older form find commands by these characters, anywhere in a line.
const COMMAND: &str = "##";
const COMMAND_SHOWN: &str = "#\\u{23}";

impl CiRunner {
    /// `about` is the machine, or the code of the finding.
    fn line(&self, severity: &str, place: Option<Place<'_>>, about: &str, message: &str) -> String {
        let own = place.and_then(|(path, line)| Some((self.relative(path)?, line)));
        let message = match (place, &own) {
            (Some((path, line)), None) if !message.contains(&at(path, line)) => {
                format!("{}: {message}", at(path, line))
            }
            (Some((path, line)), Some(_)) => {
                let begin = format!("{}: ", at(path, line));
                message.strip_prefix(&begin).unwrap_or(message).to_owned()
            }
            _ => message.to_owned(),
        };
        // All but the ends of lines is escaped already, where it comes from a file.
        let message = show(&message);
        if self.is_github {
            let word = GITHUB.iter().find(|(own, _)| *own == severity);
            let word = word.map_or("notice", |(_, word)| word);
            let mut properties = format!("title={}", escaped(&about_cudarun(about), &IN_PROPERTY));
            if let Some((file, line)) = own {
                properties += &format!(",file={}", escaped(&file, &IN_PROPERTY));
                if let Some(line) = line {
                    properties += &format!(",line={line}");
                }
            }
            return format!("::{word} {properties}::{}\n", escaped(&message, &IN_DATA));
        }
        let begin = match own {
            Some((file, line)) if file.starts_with(':') => {
                format!("./{file}:{}", line.unwrap_or(1))
            }
            Some((file, line)) => format!("{file}:{}", line.unwrap_or(1)),
            None => "cudarun".to_owned(),
        };
        let about = match show(about) {
            about if message.contains(&about) => String::new(),
            about => format!(" [{about}]"),
        };
        let line = format!("{begin}: {severity}: {message}{about}");
        line.replace(COMMAND, COMMAND_SHOWN) + "\n"
    }

    /// The path of a file in the workspace. Other files are no part of what is checked.
    fn relative(&self, path: &Path) -> Option<String> {
        path.strip_prefix(&self.workspace).ok().map(show)
    }

    /// The first place of a finding in the workspace.
    fn place<'f>(&self, finding: &'f Finding) -> Option<Place<'f>> {
        finding.evidence.iter().find_map(|evidence| match evidence {
            FindingEvidence::File { path, line, .. } => {
                self.relative(path).map(|_| (path.as_path(), *line))
            }
            _ => None,
        })
    }

    fn finding(&self, shown: &ShownFinding, place: Option<Place<'_>>, on: Option<&str>) -> String {
        let mut message = shown.what.clone();
        if let (None, Some(first)) = (place, shown.evidence.first()) {
            message += &format!(" ({}: {})", first.at, first.says);
        }
        if let Some(remedy) = &shown.remedy {
            message += &format!("; do: {remedy}");
        }
        let on = on.map(|machine| format!(" on {machine}"));
        let about = shown.code.clone() + &on.unwrap_or_default();
        self.line(&shown.severity, place, &about, &message)
    }
}

fn about_cudarun(about: &str) -> String {
    format!("cudarun: {}", show(about))
}

fn escaped(text: &str, table: &[(char, &str)]) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match table.iter().find(|(own, _)| *own == character) {
            Some((_, code)) => out.push_str(code),
            None => out.push(character),
        }
    }
    out
}

/// `doctor --ci`. `findings` are those of the page, with their places; a description has none. `on` is its machine.
pub fn ci_examination(
    page: &DoctorPage,
    findings: &[Finding],
    on: Option<&str>,
    runner: &CiRunner,
) -> String {
    let mut text = String::new();
    for (number, shown) in page.findings.iter().enumerate() {
        let place = findings.get(number).and_then(|one| runner.place(one));
        text += &runner.finding(shown, place, on);
    }
    for program in &page.programs {
        for fault in &program.faults {
            let message = format!("`{}`: {fault}", show(&program.command));
            text += &runner.line("warning", None, on.unwrap_or("program"), &message);
        }
    }
    text
}

/// The findings about a project alone.
pub fn ci_project(findings: &[Finding], runner: &CiRunner) -> String {
    let shown = |finding| runner.finding(&shown_finding(finding), runner.place(finding), None);
    findings.iter().map(shown).collect()
}

/// `fleet --ci`
pub fn ci_fleet(fleet: &FleetReport, runner: &CiRunner) -> String {
    let mut text = String::new();
    for group in fleet.groups() {
        let hosts = host_list(group.names());
        if let Some(why) = &group.answers.stops {
            text += &runner.line("error", None, &hosts, &format!("{hosts}: {why}"));
        }
        for one in &group.lacks {
            let by = one.requirement.asker();
            let place = by
                .file
                .is_absolute()
                .then_some((by.file.as_path(), by.line));
            let is_known = one.there != There::Unknown;
            let severity = if is_known { "error" } else { "note" };
            let message = match place {
                Some(_) => lacking(one, &hosts),
                None => format!("{} {}", by.name, lacking(one, &hosts)),
            };
            text += &runner.line(severity, place, &hosts, &message);
        }
        for command in fleet.programs() {
            if let Some(why) = group.trouble_of_program(command) {
                let message = format!("{hosts}: `{}`: {why}", show(command));
                text += &runner.line("error", None, &hosts, &message);
            }
        }
    }
    for one in &fleet.unread {
        let place = Some((one.path.as_path(), None));
        text += &runner.line(
            "error",
            place,
            "description",
            &format!("{}: {}", show(&one.path), one.why),
        );
    }
    text
}
