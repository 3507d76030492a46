//! Finds the environment in which `uv run` and `conda run` look for a program. Runs nothing, and
//! finds none where the tool would create one, or its own records decide.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::model::Program;
use super::options::WrappedCommand;
use super::python;
use crate::catalog::EnvironmentTool;
use crate::formats::metadata;
use crate::formats::project::{self, PyProject};
use crate::host::Host;

/// An environment whose programs come first in PATH.
pub(super) struct ProjectEnvironment {
    pub prefix: PathBuf,
    /// The variable that names it.
    pub variable: &'static str,
}

/// Finds the environment; `wrapper` is the tool itself. `None` where it does not exist, or is not known.
pub(super) fn find(
    host: &Host,
    finder: EnvironmentTool,
    wrapper: &Path,
    start: &WrappedCommand,
    program: &mut Program,
) -> Option<ProjectEnvironment> {
    let mut search = ProjectSearch {
        host,
        start,
        program,
    };
    match finder {
        EnvironmentTool::Own => None,
        EnvironmentTool::Conda => Some(ProjectEnvironment {
            prefix: search.conda(wrapper)?,
            variable: "CONDA_PREFIX",
        }),
        EnvironmentTool::Uv => Some(ProjectEnvironment {
            prefix: search
                .uv(wrapper)
                .filter(|prefix| search.is_environment(prefix))?,
            variable: "VIRTUAL_ENV",
        }),
    }
}

struct ProjectSearch<'a> {
    host: &'a Host,
    start: &'a WrappedCommand,
    program: &'a mut Program,
}

impl ProjectSearch<'_> {
    fn uv(&mut self, wrapper: &Path) -> Option<PathBuf> {
        let first = self.start.words.first()?;
        let is_elsewhere = first == "-"
            || ["http://", "https://"]
                .iter()
                .any(|start| first.as_bytes().starts_with(start.as_bytes()));
        if is_elsewhere || self.has_inline_metadata(Path::new(first)) {
            return None;
        }
        let from = self
            .given(&["--project"], "UV_PROJECT")
            .unwrap_or_else(|| self.host.cwd.clone());
        let is_off = self.start.option(&["--no-project"]).is_some() || self.is_on("UV_NO_PROJECT");
        let root = if is_off { None } else { self.uv_project(&from) };
        // Newer versions of uv look from the script's directory, older ones from the current one.
        let beside = self.host.absolute(Path::new(first));
        let beside = beside
            .parent()
            .filter(|_| python::is_source(Path::new(first)));
        if let Some(beside) =
            beside.filter(|_| !is_off && self.start.option(&["--project"]).is_none())
            && self.uv_project(beside) != root
        {
            return None;
        }
        // `python -m uv` takes the environment of its Python for the active one.
        let active = self.path("VIRTUAL_ENV").or_else(|| {
            let prefix = wrapper
                .parent()?
                .parent()
                .filter(|prefix| self.host.is_file(&prefix.join("pyvenv.cfg")))?;
            wrapper
                .file_name()
                .is_some_and(python::is_name)
                .then(|| self.host.absolute(prefix))
        });
        let prefix = match root {
            Some(_) if self.start.option(&["--active"]).is_some() && active.is_some() => active?,
            Some(root) => root.join(
                self.host
                    .env
                    .non_empty("UV_PROJECT_ENVIRONMENT")
                    .unwrap_or(OsStr::new(".venv")),
            ),
            None => active.or_else(|| self.active_conda()).or_else(|| {
                Some(
                    self.upward(&self.host.cwd.clone(), ".venv/pyvenv.cfg")?
                        .join(".venv"),
                )
            })?,
        };
        self.is_wanted_python(&prefix, &from).then_some(prefix)
    }

    /// The directory of the environment of a project: its workspace's, or its own.
    fn uv_project(&mut self, from: &Path) -> Option<PathBuf> {
        let own = self.upward(from, "pyproject.toml")?;
        let project = self.project(&own);
        if project.is_unmanaged || !project.is_project && project.workspace.is_none() {
            return None;
        }
        if project.workspace.is_some() {
            return Some(own);
        }
        for directory in own.ancestors().skip(1) {
            self.program
                .located
                .insert(directory.join("pyproject.toml"));
            let project = self.project(directory);
            if let Some(workspace) = &project.workspace {
                let is_member = own
                    .strip_prefix(directory)
                    .is_ok_and(|below| workspace.has(below));
                return Some(if is_member { directory.to_owned() } else { own });
            }
            if project.is_project {
                break;
            }
        }
        Some(own)
    }

    /// True if this environment has the requested Python; otherwise uv would create it again.
    fn is_wanted_python(&mut self, prefix: &Path, from: &Path) -> bool {
        let given = self
            .start
            .option(&["-p", "--python"])
            .or_else(|| self.host.env.non_empty("UV_PYTHON"));
        let wanted = match given {
            Some(given) => given.to_string_lossy().into_owned(),
            None => {
                let Some(directory) = self.upward(from, ".python-version") else {
                    return true;
                };
                let text = self.text(directory.join(".python-version"));
                let mut lines = text.lines().map(str::trim);
                lines
                    .find(|line| !line.is_empty() && !line.starts_with('#'))
                    .unwrap_or_default()
                    .to_owned()
            }
        };
        let wanted = wanted.strip_prefix("python").unwrap_or(&wanted);
        let values = metadata::pyvenv(&self.text(prefix.join("pyvenv.cfg")));
        let version = values.get("version_info").or_else(|| values.get("version"));
        let rest = version.and_then(|version| version.strip_prefix(wanted));
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
    }

    fn conda(&mut self, wrapper: &Path) -> Option<PathBuf> {
        if let Some(prefix) = self.start.option(&["-p", "--prefix"]) {
            return Some(self.host.absolute(Path::new(prefix)))
                .filter(|prefix| self.is_conda(prefix));
        }
        let bases = self.conda_bases(wrapper);
        let Some(name) = self.start.option(&["-n", "--name"]) else {
            return self
                .path("CONDA_PREFIX")
                .into_iter()
                .chain(bases)
                .find(|prefix| self.is_conda(prefix));
        };
        if name == "base" || name == "root" {
            return bases.into_iter().find(|prefix| self.is_conda(prefix));
        }
        if name.as_bytes().contains(&b'/') {
            return None;
        }
        let mut collections: Vec<PathBuf> = Vec::new();
        for variable in ["CONDA_ENVS_PATH", "CONDA_ENVS_DIRS"] {
            let value = self
                .host
                .env
                .non_empty(variable)
                .map(OsStr::as_bytes)
                .unwrap_or_default();
            let parts = value
                .split(|byte| *byte == b':')
                .filter(|part| !part.is_empty());
            collections
                .extend(parts.map(|part| self.host.absolute(Path::new(OsStr::from_bytes(part)))));
        }
        collections.extend(bases.iter().map(|base| base.join("envs")));
        collections.extend(self.host.home().map(|home| home.join(".conda/envs")));
        collections
            .into_iter()
            .map(|envs| envs.join(name))
            .find(|prefix| self.is_conda(prefix))
    }

    /// The prefixes in which conda itself may be installed: `PREFIX/bin/conda`, `PREFIX/condabin/conda`.
    fn conda_bases(&self, wrapper: &Path) -> Vec<PathBuf> {
        let given = self
            .start
            .option(&["-r", "--root-prefix"])
            .map(PathBuf::from);
        let named = ["MAMBA_ROOT_PREFIX", "CONDA_ROOT"]
            .iter()
            .filter_map(|name| self.path(name));
        let mut bases: Vec<PathBuf> = given.into_iter().chain(named).collect();
        bases.extend(self.path("CONDA_EXE").as_deref().and_then(two_above));
        if wrapper.file_name() == Some(OsStr::new("micromamba")) {
            let homes = self.host.home().into_iter();
            bases.extend(
                homes.flat_map(|home| {
                    ["micromamba", ".local/share/mamba"].map(|name| home.join(name))
                }),
            );
        } else {
            bases.extend(two_above(&self.host.absolute(wrapper)));
            let real = self.host.canonical(wrapper).ok();
            bases.extend(real.as_deref().and_then(two_above));
        }
        bases
    }

    fn is_conda(&mut self, prefix: &Path) -> bool {
        let records = prefix.join("conda-meta");
        self.program.located.insert(records.clone());
        self.host.is_directory(&records)
    }

    /// The active conda environment, unless it is conda's own.
    fn active_conda(&self) -> Option<PathBuf> {
        let prefix = self.path("CONDA_PREFIX")?;
        let is_root = self.path("_CONDA_ROOT").is_some_and(|root| root == prefix);
        let is_own = self.host.env.get("CONDA_DEFAULT_ENV").is_none_or(|name| {
            let is_base = name == "base" || name == "root";
            name == prefix.as_os_str()
                || !is_base && prefix.file_name().is_none_or(|last| last == name)
        });
        (is_own && !is_root).then_some(prefix)
    }

    fn is_environment(&mut self, prefix: &Path) -> bool {
        let python = prefix.join("bin/python");
        self.program.located.insert(python.clone());
        self.host.is_executable(&python)
    }

    fn has_inline_metadata(&mut self, script: &Path) -> bool {
        python::is_source(script)
            && project::has_inline_metadata(&self.text(self.host.absolute(script)))
    }

    fn project(&mut self, directory: &Path) -> PyProject {
        PyProject::parse(&self.text(directory.join("pyproject.toml")))
    }

    /// Empty where the file cannot be read.
    fn text(&mut self, file: PathBuf) -> String {
        let text = self.host.read_text(&file).unwrap_or_default();
        self.program.watched.insert(file);
        text
    }

    /// The nearest directory upward that has this file.
    fn upward(&mut self, from: &Path, file: &str) -> Option<PathBuf> {
        for directory in from.ancestors() {
            let candidate = directory.join(file);
            self.program.located.insert(candidate.clone());
            if self.host.is_file(&candidate) {
                return Some(directory.to_owned());
            }
        }
        None
    }

    /// The path in an option, or else in a variable.
    fn given(&self, options: &[&str], variable: &str) -> Option<PathBuf> {
        self.start
            .option(options)
            .or_else(|| self.host.env.non_empty(variable))
            .map(|path| self.host.absolute(Path::new(path)))
    }

    fn path(&self, variable: &str) -> Option<PathBuf> {
        self.host
            .env
            .non_empty(variable)
            .map(|path| self.host.absolute(Path::new(path)))
    }

    /// True if a variable is set and does not say no.
    fn is_on(&self, variable: &str) -> bool {
        let value = self
            .host
            .env
            .non_empty(variable)
            .and_then(OsStr::to_str)
            .unwrap_or_default();
        !matches!(
            value.to_ascii_lowercase().as_str(),
            "" | "0" | "false" | "no" | "off" | "f" | "n"
        )
    }
}

fn two_above(path: &Path) -> Option<PathBuf> {
    Some(path.parent()?.parent()?.to_owned())
}
