//! What `pyproject.toml` and the head of a script say about the environment that they run in.

use std::path::Path;

/// What a `pyproject.toml` declares.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Project {
    /// It has a project, and is not only the configuration of tools.
    pub is_project: bool,
    pub workspace: Option<Workspace>,
    /// uv is told to leave it alone.
    pub is_unmanaged: bool,
    /// The names of PDM's scripts, which are shell code or calls.
    pub scripts: Vec<String>,
    /// The file of variables that PDM reads for all of them.
    pub env_file: Option<String>,
    /// The names of the variables that it sets for all of them.
    pub sets: Vec<String>,
}

/// The projects that share one environment, as patterns of paths.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workspace {
    members: Vec<String>,
    exclude: Vec<String>,
}

impl Project {
    /// What cannot be read declares nothing.
    pub fn parse(text: &str) -> Project {
        let Ok(table) = text.parse::<toml::Table>() else { return Project::default() };
        let below = |path: &[&str]| {
            let (first, rest) = path.split_first()?;
            rest.iter().try_fold(table.get(*first)?, |value, key| value.get(*key))
        };
        let workspace = below(&["tool", "uv", "workspace"]).map(|workspace| {
            let texts = |key: &str| {
                let all = workspace.get(key).and_then(toml::Value::as_array);
                all.into_iter().flatten().filter_map(|it| it.as_str().map(str::to_owned)).collect()
            };
            Workspace { members: texts("members"), exclude: texts("exclude") }
        });
        let scripts = below(&["tool", "pdm", "scripts"]).and_then(toml::Value::as_table);
        let all = |key: &str| below(&["tool", "pdm", "scripts", "_", key]);
        let file = all("env_file")
            .map(|file| file.as_str().or_else(|| file.get("override")?.as_str()).unwrap_or(""));
        Project {
            env_file: file.map(str::to_owned),
            sets: all("env")
                .and_then(toml::Value::as_table)
                .map(|env| env.keys().cloned().collect())
                .unwrap_or_default(),
            is_project: below(&["project"]).is_some_and(toml::Value::is_table),
            workspace,
            is_unmanaged: below(&["tool", "uv", "managed"]).and_then(toml::Value::as_bool) == Some(false),
            scripts: scripts.map(|scripts| scripts.keys().cloned().collect()).unwrap_or_default(),
        }
    }
}

impl Workspace {
    /// Whether a directory below the workspace's own is one of its members.
    pub fn has(&self, below: &Path) -> bool {
        let is_in = |patterns: &[String]| patterns.iter().any(|pattern| matches(Path::new(pattern), below));
        is_in(&self.members) && !is_in(&self.exclude)
    }
}

/// Part by part; `**` stands for any number of them.
fn matches(pattern: &Path, path: &Path) -> bool {
    let mut parts = path.iter();
    for part in pattern.iter().filter(|part| *part != ".") {
        if part == "**" {
            return true;
        }
        let (Some(part), Some(name)) = (part.to_str(), parts.next().and_then(|name| name.to_str())) else {
            return false;
        };
        let fits = match part.split_once('*') {
            None => part == name,
            Some((start, end)) => {
                name.len() >= start.len() + end.len() && name.starts_with(start) && name.ends_with(end)
            }
        };
        if !fits {
            return false;
        }
    }
    parts.next().is_none()
}

/// Whether a Pipfile gives this name to a script of its own.
pub fn is_script_of_pipfile(text: &str, name: &str) -> bool {
    let Ok(table) = text.parse::<toml::Table>() else { return !text.trim().is_empty() };
    table.get("scripts").is_some_and(|scripts| scripts.get(name).is_some())
}

/// Whether Pipenv's environment stands in the project, as its Pipfile says.
pub fn is_in_project_of_pipfile(text: &str) -> Option<bool> {
    let table = text.parse::<toml::Table>().ok()?;
    table.get("pipenv")?.get("venv_in_project")?.as_bool()
}

/// Whether Poetry is told to keep its environments outside of the project.
pub fn is_outside_of_project(config: &str) -> bool {
    let Ok(table) = config.parse::<toml::Table>() else { return !config.trim().is_empty() };
    let said = table.get("virtualenvs").and_then(|it| it.get("in-project"));
    said.is_some_and(|said| said.as_bool() != Some(true))
}

/// Whether a script declares its own dependencies (PEP 723): uv then makes it an environment.
pub fn has_inline_metadata(script: &str) -> bool {
    script.lines().any(|line| line.trim_end() == "# /// script")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_project_is_what_it_declares() {
        let text = "[project]\nname = 'a'\n[tool.uv.workspace]\nmembers = ['packages/*', './tool']\nexclude = ['packages/old']\n[tool.pdm.scripts]\ntrain = 'python train.py'\n";
        let project = Project::parse(text);
        assert!(project.is_project && !project.is_unmanaged);
        assert_eq!(project.scripts, ["train"]);
        let workspace = project.workspace.unwrap();
        for (below, expected) in [
            ("packages/a", true),
            ("tool", true),
            ("packages/old", false),
            ("packages/a/b", false),
            ("x", false),
        ] {
            assert_eq!(workspace.has(Path::new(below)), expected, "{below}");
        }
        assert!(!Project::parse("[tool.ruff]\n").is_project);
        assert!(Project::parse("[tool.uv]\nmanaged = false\n").is_unmanaged);
        assert_eq!(Project::parse("[broken"), Project::default());
    }

    #[test]
    fn scripts_with_metadata_are_told_from_others() {
        assert!(has_inline_metadata("#!/usr/bin/env python\n# /// script\n# dependencies = []\n# ///\n"));
        assert!(!has_inline_metadata("print('# /// script')\n"));
    }
}
