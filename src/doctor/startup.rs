//! Lines of start-up files that set the search path for libraries. The files are searched as text; no shell evaluates
//! them.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::finding::{Finding, FindingEvidence};
use super::subject::{DoctorSubject, held};
use crate::catalog::Fault;
use crate::environment::Environment;
use crate::formats::names::matches_pattern;
use crate::host::{FileId, Host};
use crate::inventory::Inventory;
use crate::text::{list, show};
use crate::variables;

const VARIABLES: [&str; 3] = [
    variables::LIBRARY_PATH,
    variables::PRELOAD,
    variables::AUDIT,
];
/// Below the home directory.
const OF_USER: &[&str] = &[
    ".bashrc",
    ".bash_profile",
    ".bash_login",
    ".bash_aliases",
    ".profile",
    ".zshrc",
    ".zshenv",
    ".zprofile",
    ".zlogin",
    ".config/fish/config.fish",
    ".pam_environment",
    ".xprofile",
    ".xsessionrc",
];
const OF_EVERYBODY: &[&str] = &[
    "/etc/environment",
    "/etc/profile",
    "/etc/bash.bashrc",
    "/etc/bashrc",
    "/etc/zsh/zshenv",
    "/etc/zsh/zshrc",
    "/etc/zsh/zprofile",
    "/etc/zshenv",
    "/etc/zshrc",
    "/etc/security/pam_env.conf",
];
/// Directories of such files, and what their names end in.
const OF_MANY: &[(&str, &str)] = &[
    ("/etc/profile.d", ".sh"),
    ("/etc/environment.d", ".conf"),
    ("~/.config/environment.d", ".conf"),
    ("~/.config/fish/conf.d", ".fish"),
    ("$CONDA_PREFIX/etc/conda/activate.d", ".sh"),
];
/// Files in which an editor or a tool of a project sets variables.
const OF_PROJECT: &[&str] = &[
    ".env",
    ".envrc",
    ".vscode/settings.json",
    ".vscode/launch.json",
    ".devcontainer/devcontainer.json",
];
const PRELOAD: &str = "/etc/ld.so.preload";
pub(super) const CONF: &str = "/etc/ld.so.conf";
const CONF_DEPTH: usize = 8;
/// In bytes; the rest of a longer file is ignored.
const LIMIT: u64 = 1 << 20;
const LINE_LIMIT: usize = 2000;

/// A line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StartupLine {
    pub path: PathBuf,
    /// Starts at 1.
    pub number: usize,
    /// Never shown: it may contain passwords.
    code: String,
}

/// The lines that affect the search for libraries.
#[derive(Debug, Default)]
pub struct StartupLines {
    /// Each with the variable that it mentions.
    pub of_variables: Vec<(&'static str, StartupLine)>,
    /// The directories that `/etc/ld.so.conf` and its included files name.
    pub of_loader: Vec<(StartupLine, PathBuf)>,
    /// Lines by which whatever a shell starts is followed.
    pub following: Vec<StartupLine>,
    home: Option<PathBuf>,
    env: Environment,
}

pub(super) fn lines(host: &Host) -> StartupLines {
    let mut lines = StartupLines {
        home: host.home(),
        env: host.env.clone(),
        ..StartupLines::default()
    };
    for path in files(host, lines.home.as_deref()) {
        let Ok(bytes) = host.read_start(&path, LIMIT) else {
            continue;
        };
        lines.take(&path, &String::from_utf8_lossy(&bytes));
    }
    let modules = host
        .env
        .non_empty("_LMFILES_")
        .map(|list| list.to_string_lossy().into_owned());
    for path in modules
        .iter()
        .flat_map(|list| list.split(':'))
        .filter(|path| !path.is_empty())
    {
        let bytes = host.read_start(Path::new(path), LIMIT).unwrap_or_default();
        lines.take(Path::new(path), &String::from_utf8_lossy(&bytes));
    }
    configured(
        host,
        Path::new(CONF),
        0,
        &mut BTreeSet::new(),
        &mut lines.of_loader,
    );
    lines
}

fn files(host: &Host, home: Option<&Path>) -> Vec<PathBuf> {
    let of_user = home
        .iter()
        .flat_map(|home| OF_USER.iter().map(|name| home.join(name)));
    let mut files: Vec<PathBuf> = of_user
        .chain(OF_EVERYBODY.iter().map(PathBuf::from))
        .collect();
    for (directory, end) in OF_MANY {
        let conda = host.env.non_empty("CONDA_PREFIX").map(Path::new);
        let directory = match (
            directory.strip_prefix("~/"),
            directory.strip_prefix("$CONDA_PREFIX/"),
        ) {
            (Some(below), _) => home.map(|home| home.join(below)),
            (_, Some(below)) => conda.map(|conda| conda.join(below)),
            _ => Some(PathBuf::from(directory)),
        };
        let Some(directory) = directory else { continue };
        let entries = host.list(&directory).unwrap_or_default();
        let names = entries
            .iter()
            .filter(|entry| entry.name.to_str().is_some_and(|name| name.ends_with(end)));
        files.extend(names.map(|entry| directory.join(&entry.name)));
    }
    if host.cwd.is_absolute() {
        files.extend(OF_PROJECT.iter().map(|name| host.cwd.join(name)));
    }
    files
}

impl StartupLine {
    pub(super) fn evidence(&self) -> FindingEvidence {
        FindingEvidence::File {
            path: self.path.clone(),
            line: Some(self.number),
            text: String::new(),
        }
    }
}

impl StartupLines {
    fn take(&mut self, path: &Path, text: &str) {
        for (number, line) in text.lines().enumerate() {
            let code = line.trim();
            if code.is_empty() || code.starts_with('#') || code.len() > LINE_LIMIT {
                continue;
            }
            let line = || StartupLine {
                path: path.to_owned(),
                number: number + 1,
                code: code.to_owned(),
            };
            for variable in VARIABLES {
                if mentions(code, variable) {
                    self.of_variables.push((variable, line()));
                }
            }
            if code.contains("cudarun") && (code.contains("follow") || code.contains("LD_AUDIT")) {
                self.following.push(line());
            }
        }
    }

    /// The lines that mention this variable and contain this element.
    pub(super) fn that_name(&self, variable: &str, element: &OsStr) -> Vec<StartupLine> {
        let Some(element) = element.to_str().map(|text| text.trim_end_matches('/')) else {
            return Vec::new();
        };
        // A shorter text would be in every line.
        if element.len() < 2 {
            return Vec::new();
        }
        let of_variable = self.of_variables.iter().filter(|(of, _)| *of == variable);
        let names = |line: &&StartupLine| {
            let is_part = |text: &str| has_path(text, element);
            is_part(&line.code) || is_part(&self.expanded(&line.code))
        };
        of_variable
            .map(|(_, line)| line)
            .filter(names)
            .cloned()
            .collect()
    }

    /// Expands `~` and the variables that this environment has.
    fn expanded(&self, text: &str) -> String {
        let home = self
            .home
            .as_ref()
            .map(|home| home.to_string_lossy().into_owned())
            .unwrap_or_default();
        let mut out = String::new();
        let mut rest = text;
        while let Some(at) = rest.find(['$', '~']) {
            out.push_str(&rest[..at]);
            let after = &rest[at + 1..];
            if rest[at..].starts_with('~') {
                let is_home =
                    after.starts_with('/') && !out.ends_with(|c: char| c.is_alphanumeric());
                out.push_str(if is_home { &home } else { "~" });
                rest = after;
                continue;
            }
            let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            let (name, length) = match after
                .strip_prefix('{')
                .and_then(|braced| braced.split_once('}'))
            {
                Some((name, _)) => (name, name.len() + 2),
                None => {
                    let end = after.find(|c| !is_word(c)).unwrap_or(after.len());
                    (&after[..end], end)
                }
            };
            let value = if name == "HOME" {
                Some(home.clone())
            } else {
                self.value(name)
            };
            match value {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[at..=at + length]),
            }
            rest = &after[length..];
        }
        out + rest
    }

    fn value(&self, name: &str) -> Option<String> {
        // Expanding the list itself would make every line contain every element.
        let is_list = VARIABLES.contains(&name) || name.is_empty();
        self.env
            .non_empty(name)
            .filter(|_| !is_list)
            .map(|value| value.to_string_lossy().into_owned())
    }
}

/// True if a line contains this variable, not as part of a longer name.
fn mentions(line: &str, variable: &str) -> bool {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    line.match_indices(variable).any(|(at, _)| {
        let before = line[..at].chars().next_back().is_some_and(is_word);
        let after = line[at + variable.len()..]
            .chars()
            .next()
            .is_some_and(is_word);
        !before && !after
    })
}

/// True if the text contains the path, not as part of a longer one.
fn has_path(text: &str, path: &str) -> bool {
    let goes_on = |c: char| c.is_alphanumeric() || "_-.+@".contains(c);
    text.match_indices(path).any(|(at, _)| {
        let before = text[..at]
            .chars()
            .next_back()
            .is_some_and(|c| goes_on(c) && c != '-' || c == '/');
        let after = text[at + path.len()..].trim_start_matches('/');
        !before && !after.chars().next().is_some_and(goes_on)
    })
}

/// The directories that configure `ldconfig`, in order. Files may include each other: each is read once.
fn configured(
    host: &Host,
    path: &Path,
    depth: usize,
    read: &mut BTreeSet<FileId>,
    lines: &mut Vec<(StartupLine, PathBuf)>,
) {
    let Ok(stat) = host.stat(path) else { return };
    if !read.insert(stat.id) {
        return;
    }
    let Ok(bytes) = host.read_start(path, LIMIT) else {
        return;
    };
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let code = line.split('#').next().unwrap_or_default().trim();
        match code.strip_prefix("include") {
            Some(patterns) if depth < CONF_DEPTH && patterns.starts_with([' ', '\t']) => {
                for pattern in patterns.split_whitespace() {
                    let pattern = path.parent().unwrap_or(Path::new("/")).join(pattern);
                    for file in matching(host, &pattern) {
                        configured(host, &file, depth + 1, read, lines);
                    }
                }
            }
            _ if code.starts_with('/') => {
                let line = StartupLine {
                    path: path.to_owned(),
                    number: number + 1,
                    code: code.to_owned(),
                };
                lines.push((line, PathBuf::from(code)));
            }
            _ => {}
        }
    }
}

/// The files that match a pattern with at most one `*`, in its last part.
fn matching(host: &Host, pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (
        pattern.parent(),
        pattern.file_name().and_then(OsStr::to_str),
    ) else {
        return Vec::new();
    };
    if !name.contains('*') {
        return vec![pattern.to_owned()];
    }
    let entries = host.list(directory).unwrap_or_default();
    let is_meant = |entry: &str| matches_pattern(name, entry);
    let meant = entries
        .iter()
        .filter(|entry| entry.name.to_str().is_some_and(is_meant));
    meant.map(|entry| directory.join(&entry.name)).collect()
}

pub(super) fn findings(subject: &DoctorSubject<'_>, lines: &StartupLines) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !lines.of_variables.is_empty() {
        let variables: BTreeSet<&'static str> =
            lines.of_variables.iter().map(|(name, _)| *name).collect();
        let evidence = lines
            .of_variables
            .iter()
            .map(|(_, line)| line.evidence())
            .collect();
        let set = Finding::new(Fault::SetAtStart, evidence);
        findings.push(set.with("variables", list(variables)));
    }
    if let Ok(text) = subject.host.read_text(Path::new(PRELOAD)) {
        let code = text
            .lines()
            .map(|line| line.split('#').next().unwrap_or_default().trim());
        if let Some(library) = code.into_iter().find(|code| !code.is_empty()) {
            findings.push(Finding::new(
                Fault::SystemPreload,
                vec![FindingEvidence::file(PRELOAD, library)],
            ));
        }
    }
    findings.extend(of_cache(subject.inventory, lines));
    findings
}

/// Libraries that the loader's cache lacks although its configuration names their directory.
fn of_cache(inventory: &Inventory, lines: &StartupLines) -> Vec<Finding> {
    let cache = Path::new("/etc/ld.so.cache");
    if let Some(warning) = inventory
        .warnings
        .iter()
        .find(|warning| warning.path == cache)
    {
        let bad = Finding::new(
            Fault::CacheOfLoaderBad,
            vec![FindingEvidence::file(cache, "")],
        );
        return vec![bad.with("problem", &warning.fault)];
    }
    if inventory.search.cache.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, directory) in &lines.of_loader {
        let unknown = held(inventory, directory)
            .flat_map(|installation| &installation.files)
            .map(|member| member.soname.clone())
            .find(|name| !inventory.search.cache.contains_key(name));
        if let Some(name) = unknown {
            let evidence = vec![line.evidence(), FindingEvidence::file(cache, "")];
            let stale = Finding::new(Fault::CacheStale, evidence).with("name", show(&name));
            findings.push(stale.with("directory", show(directory)));
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(text: &str) -> StartupLines {
        let env = [
            ("CUDA_HOME", "/opt/cuda"),
            ("LD_LIBRARY_PATH", "/every/thing"),
        ]
        .into_iter()
        .collect();
        let mut lines = StartupLines {
            home: Some("/home/user".into()),
            env,
            ..StartupLines::default()
        };
        lines.take(Path::new("/home/user/.bashrc"), text);
        lines
    }

    #[test]
    fn a_line_names_an_element_however_it_is_written() {
        let names = |text: &str, element: &str| {
            let found = lines(text).that_name("LD_LIBRARY_PATH", OsStr::new(element));
            found.iter().map(|line| line.number).collect::<Vec<_>>()
        };
        assert_eq!(
            names(
                "\nexport LD_LIBRARY_PATH=/a/lib:$LD_LIBRARY_PATH\n",
                "/a/lib"
            ),
            [2]
        );
        assert_eq!(names("LD_LIBRARY_PATH=\"~/lib/\"", "/home/user/lib"), [1]);
        assert_eq!(names("LD_LIBRARY_PATH=${HOME}/lib", "/home/user/lib/"), [1]);
        assert_eq!(
            names("LD_LIBRARY_PATH=$CUDA_HOME/lib64:$X", "/opt/cuda/lib64"),
            [1]
        );
        assert_eq!(
            names("set -gx LD_LIBRARY_PATH /a $LD_LIBRARY_PATH", "/a"),
            [1]
        );
        assert_eq!(
            names("# LD_LIBRARY_PATH=/a/lib", "/a/lib"),
            [0; 0],
            "a comment"
        );
        assert_eq!(
            names("LD_LIBRARY_PATH=/a/lib64", "/a/lib"),
            [0; 0],
            "another path"
        );
        assert_eq!(names("LD_LIBRARY_PATH=/b/a/lib", "/a/lib"), [0; 0]);
        assert_eq!(
            names("LD_LIBRARY_PATH=$LD_LIBRARY_PATH", "/every/thing"),
            [0; 0],
            "itself"
        );
        assert_eq!(
            names("MY_LD_LIBRARY_PATH=/a", "/a"),
            [0; 0],
            "another variable"
        );
        assert_eq!(names("LD_LIBRARY_PATH=${unclosed:-/a", "/a"), [1]);
    }
}
