//! Declarations about Python environments in `pyproject.toml` and the head of a script.

use std::path::Path;

use super::names::matches_pattern;

/// The declarations of a `pyproject.toml`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PyProject {
    /// True if it describes a project, and not only the settings of tools.
    pub is_project: bool,
    pub workspace: Option<Workspace>,
    /// True if it tells uv to leave the project alone.
    pub is_unmanaged: bool,
}

/// The projects that share one environment, as patterns of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    members: Vec<String>,
    exclude: Vec<String>,
}

impl PyProject {
    /// A malformed file declares nothing.
    pub fn parse(text: &str) -> PyProject {
        let Ok(table) = text.parse::<toml::Table>() else {
            return PyProject::default();
        };
        let mut project = PyProject {
            is_project: table.get("project").is_some_and(toml::Value::is_table),
            ..PyProject::default()
        };
        if let Some(uv) = table.get("tool").and_then(|tool| tool.get("uv")) {
            project.is_unmanaged = uv.get("managed").and_then(toml::Value::as_bool) == Some(false);
            project.workspace = uv.get("workspace").map(|workspace| Workspace {
                members: texts(workspace.get("members")),
                exclude: texts(workspace.get("exclude")),
            });
        }
        project
    }
}

/// The texts of an array; nothing of any other value.
fn texts(value: Option<&toml::Value>) -> Vec<String> {
    let mut texts = Vec::new();
    for item in value.and_then(toml::Value::as_array).into_iter().flatten() {
        texts.extend(item.as_str().map(str::to_owned));
    }
    texts
}

impl Workspace {
    /// True if the directory, a path below the workspace's own, is a member.
    pub fn has(&self, directory: &Path) -> bool {
        matches_any(&self.members, directory) && !matches_any(&self.exclude, directory)
    }
}

fn matches_any(patterns: &[String], path: &Path) -> bool {
    patterns
        .iter()
        .any(|pattern| matches(Path::new(pattern), path))
}

/// Compares part by part. `**` matches the rest of a path, `*` a part of a name.
fn matches(pattern: &Path, path: &Path) -> bool {
    let mut parts = path.iter();
    for part in pattern.iter().filter(|part| *part != ".") {
        if part == "**" {
            return true;
        }
        let (Some(part), Some(name)) = (part.to_str(), parts.next().and_then(|name| name.to_str()))
        else {
            return false;
        };
        if !matches_pattern(part, name) {
            return false;
        }
    }
    parts.next().is_none()
}

/// True if a script declares its own dependencies (PEP 723). uv then makes an environment for it.
pub fn has_inline_metadata(script: &str) -> bool {
    script.lines().any(|line| line.trim_end() == "# /// script")
}
