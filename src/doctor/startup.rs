//! Lines of start-up files that set the search path for libraries. The files are searched as text; no shell evaluates
//! them.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::finding::{Finding, FindingEvidence};
use super::subject::{DoctorSubject, installations_in};
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
const USER_FILES: &[&str] = &[
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
const SYSTEM_FILES: &[&str] = &[
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
const DIRECTORIES: &[(&str, &str)] = &[
    ("/etc/profile.d", ".sh"),
    ("/etc/environment.d", ".conf"),
    ("~/.config/environment.d", ".conf"),
    ("~/.config/fish/conf.d", ".fish"),
    ("$CONDA_PREFIX/etc/conda/activate.d", ".sh"),
];
/// Files in which an editor or a tool of a project sets variables.
const PROJECT_FILES: &[&str] = &[
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
const MAX_BYTES: u64 = 1 << 20;
const MAX_LINE: usize = 2000;

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
        let Ok(bytes) = host.read_start(&path, MAX_BYTES) else {
            continue;
        };
        lines.take(&path, &String::from_utf8_lossy(&bytes));
    }
    // Environment modules: the files that are loaded.
    let modules = host.env.non_empty("_LMFILES_").unwrap_or_default();
    for path in modules.to_string_lossy().split(':') {
        if !path.is_empty() {
            let bytes = host
                .read_start(Path::new(path), MAX_BYTES)
                .unwrap_or_default();
            lines.take(Path::new(path), &String::from_utf8_lossy(&bytes));
        }
    }
    read_loader_configuration(
        host,
        Path::new(CONF),
        0,
        &mut BTreeSet::new(),
        &mut lines.of_loader,
    );
    lines
}

fn files(host: &Host, home: Option<&Path>) -> Vec<PathBuf> {
    let mut files = Vec::new();
    if let Some(home) = home {
        files.extend(USER_FILES.iter().map(|name| home.join(name)));
    }
    files.extend(SYSTEM_FILES.iter().map(PathBuf::from));
    let conda = host.env.non_empty("CONDA_PREFIX").map(Path::new);
    for (directory, ending) in DIRECTORIES {
        let directory = if let Some(path) = directory.strip_prefix("~/") {
            home.map(|home| home.join(path))
        } else if let Some(path) = directory.strip_prefix("$CONDA_PREFIX/") {
            conda.map(|conda| conda.join(path))
        } else {
            Some(PathBuf::from(directory))
        };
        let Some(directory) = directory else { continue };
        for entry in host.list(&directory).unwrap_or_default() {
            if entry
                .name
                .to_str()
                .is_some_and(|name| name.ends_with(ending))
            {
                files.push(directory.join(&entry.name));
            }
        }
    }
    if host.cwd.is_absolute() {
        files.extend(PROJECT_FILES.iter().map(|name| host.cwd.join(name)));
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
            if code.is_empty() || code.starts_with('#') || code.len() > MAX_LINE {
                continue;
            }
            let is_following =
                code.contains("cudarun") && (code.contains("follow") || code.contains("LD_AUDIT"));
            if !is_following && !VARIABLES.iter().any(|variable| code.contains(variable)) {
                continue;
            }
            let line = StartupLine {
                path: path.to_owned(),
                number: number + 1,
                code: code.to_owned(),
            };
            for variable in VARIABLES {
                if mentions(code, variable) {
                    self.of_variables.push((variable, line.clone()));
                }
            }
            if is_following {
                self.following.push(line);
            }
        }
    }

    /// The lines that mention this variable and contain this element.
    pub(super) fn with_element(&self, variable: &str, element: &OsStr) -> Vec<StartupLine> {
        let Some(element) = element.to_str().map(|text| text.trim_end_matches('/')) else {
            return Vec::new();
        };
        // A shorter text would be in every line.
        if element.len() < 2 {
            return Vec::new();
        }
        let mut lines = Vec::new();
        for (name, line) in &self.of_variables {
            if *name == variable
                && (has_path(&line.code, element) || has_path(&self.expanded(&line.code), element))
            {
                lines.push(line.clone());
            }
        }
        lines
    }

    /// Expands `~` and the variables that this environment has.
    fn expanded(&self, text: &str) -> String {
        let mut out = String::new();
        let mut rest = text;
        while let Some(start) = rest.find(['$', '~']) {
            out.push_str(&rest[..start]);
            let after = &rest[start + 1..];
            if rest[start..].starts_with('~') {
                if after.starts_with('/') && !out.ends_with(char::is_alphanumeric) {
                    out.push_str(&self.home());
                } else {
                    out.push('~');
                }
                rest = after;
                continue;
            }
            let braced = after
                .strip_prefix('{')
                .and_then(|text| text.split_once('}'));
            let (name, length) = match braced {
                Some((name, _)) => (name, name.len() + 2),
                None => {
                    let end = after.find(|c| !is_of_variable(c)).unwrap_or(after.len());
                    (&after[..end], end)
                }
            };
            match self.value(name) {
                Some(value) => out.push_str(&value),
                None => out.push_str(&rest[start..=start + length]),
            }
            rest = &after[length..];
        }
        out + rest
    }

    fn home(&self) -> Cow<'_, str> {
        let home = self.home.as_deref().unwrap_or(Path::new(""));
        home.to_string_lossy()
    }

    fn value(&self, name: &str) -> Option<Cow<'_, str>> {
        if name == "HOME" {
            return Some(self.home());
        }
        // Expanding the list itself would make every line contain every element.
        if VARIABLES.contains(&name) || name.is_empty() {
            return None;
        }
        self.env.non_empty(name).map(OsStr::to_string_lossy)
    }
}

fn is_of_variable(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_of_path(c: char) -> bool {
    c.is_alphanumeric() || "_-.+@".contains(c)
}

/// True if a line contains this variable, not as part of a longer name.
fn mentions(line: &str, variable: &str) -> bool {
    line.match_indices(variable).any(|(start, _)| {
        let mut before = line[..start].chars();
        let mut after = line[start + variable.len()..].chars();
        !before.next_back().is_some_and(is_of_variable) && !after.next().is_some_and(is_of_variable)
    })
}

/// True if the text contains the path, not as part of a longer one.
fn has_path(text: &str, path: &str) -> bool {
    text.match_indices(path).any(|(start, _)| {
        let mut before = text[..start].chars();
        let after = text[start + path.len()..].trim_start_matches('/');
        !before
            .next_back()
            .is_some_and(|c| is_of_path(c) && c != '-' || c == '/')
            && !after.chars().next().is_some_and(is_of_path)
    })
}

/// The directories that configure `ldconfig`, in order. Files may include each other: each is read once.
fn read_loader_configuration(
    host: &Host,
    path: &Path,
    depth: usize,
    visited: &mut BTreeSet<FileId>,
    lines: &mut Vec<(StartupLine, PathBuf)>,
) {
    let Ok(stat) = host.stat(path) else { return };
    if !visited.insert(stat.id) {
        return;
    }
    let Ok(bytes) = host.read_start(path, MAX_BYTES) else {
        return;
    };
    for (number, line) in String::from_utf8_lossy(&bytes).lines().enumerate() {
        let code = without_comment(line);
        match code.strip_prefix("include") {
            Some(patterns) if depth < CONF_DEPTH && patterns.starts_with([' ', '\t']) => {
                for pattern in patterns.split_whitespace() {
                    let pattern = path.parent().unwrap_or(Path::new("/")).join(pattern);
                    for file in matching_files(host, &pattern) {
                        read_loader_configuration(host, &file, depth + 1, visited, lines);
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

fn without_comment(line: &str) -> &str {
    line.split('#').next().unwrap_or_default().trim()
}

/// The files that match a pattern with at most one `*`, in its last part.
fn matching_files(host: &Host, pattern: &Path) -> Vec<PathBuf> {
    let (Some(directory), Some(name)) = (
        pattern.parent(),
        pattern.file_name().and_then(OsStr::to_str),
    ) else {
        return Vec::new();
    };
    if !name.contains('*') {
        return vec![pattern.to_owned()];
    }
    let mut files = Vec::new();
    for entry in host.list(directory).unwrap_or_default() {
        if let Some(entry) = entry.name.to_str()
            && matches_pattern(name, entry)
        {
            files.push(directory.join(entry));
        }
    }
    files
}

pub(super) fn findings(subject: &DoctorSubject<'_>, lines: &StartupLines) -> Vec<Finding> {
    let mut findings = Vec::new();
    if !lines.of_variables.is_empty() {
        let mut variables = BTreeSet::new();
        let mut evidence = Vec::new();
        for (variable, line) in &lines.of_variables {
            variables.insert(*variable);
            evidence.push(line.evidence());
        }
        let finding = Finding::new(Fault::SetAtStart, evidence);
        findings.push(finding.with("variables", list(variables)));
    }
    if let Ok(text) = subject.host.read_text(Path::new(PRELOAD)) {
        let mut libraries = text.lines().map(without_comment);
        if let Some(library) = libraries.find(|library| !library.is_empty()) {
            let evidence = vec![FindingEvidence::file(PRELOAD, library)];
            findings.push(Finding::new(Fault::SystemPreload, evidence));
        }
    }
    findings.extend(loader_cache_findings(subject.inventory, lines));
    findings
}

/// Libraries that the loader's cache lacks although its configuration names their directory.
fn loader_cache_findings(inventory: &Inventory, lines: &StartupLines) -> Vec<Finding> {
    let cache = Path::new("/etc/ld.so.cache");
    let mut warnings = inventory.warnings.iter();
    if let Some(warning) = warnings.find(|warning| warning.path == cache) {
        let evidence = vec![FindingEvidence::file(cache, "")];
        let finding = Finding::new(Fault::CacheOfLoaderBad, evidence);
        return vec![finding.with("problem", &warning.fault)];
    }
    if inventory.search.cache.is_empty() {
        return Vec::new();
    }
    let mut findings = Vec::new();
    for (line, directory) in &lines.of_loader {
        let unknown = installations_in(inventory, directory)
            .flat_map(|installation| &installation.files)
            .find(|member| !inventory.search.cache.contains_key(&member.soname));
        if let Some(member) = unknown {
            let evidence = vec![line.evidence(), FindingEvidence::file(cache, "")];
            let finding = Finding::new(Fault::CacheStale, evidence);
            let finding = finding.with("name", show(&member.soname));
            findings.push(finding.with("directory", show(directory)));
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

    fn names(text: &str, element: &str) -> Vec<usize> {
        let found = lines(text).with_element("LD_LIBRARY_PATH", OsStr::new(element));
        found.iter().map(|line| line.number).collect()
    }

    #[test]
    fn a_line_names_an_element_however_it_is_written() {
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
