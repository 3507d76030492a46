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
        let below = |path: &[&str]| {
            let (first, rest) = path.split_first()?;
            rest.iter()
                .try_fold(table.get(*first)?, |value, key| value.get(*key))
        };
        let workspace = below(&["tool", "uv", "workspace"]).map(|workspace| {
            let texts = |key: &str| {
                let all = workspace.get(key).and_then(toml::Value::as_array);
                all.into_iter()
                    .flatten()
                    .filter_map(|text| text.as_str().map(str::to_owned))
                    .collect()
            };
            Workspace {
                members: texts("members"),
                exclude: texts("exclude"),
            }
        });
        PyProject {
            is_project: below(&["project"]).is_some_and(toml::Value::is_table),
            workspace,
            is_unmanaged: below(&["tool", "uv", "managed"]).and_then(toml::Value::as_bool)
                == Some(false),
        }
    }
}

impl Workspace {
    /// True if the directory, a path below the workspace's own, is a member.
    pub fn has(&self, below: &Path) -> bool {
        let is_in = |patterns: &[String]| {
            patterns
                .iter()
                .any(|pattern| matches(Path::new(pattern), below))
        };
        is_in(&self.members) && !is_in(&self.exclude)
    }
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
