//! A kernel of Jupyter's, `kernels/NAME/kernel.json` in the user's directory for Jupyter's data.

use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

use serde_json::{Value, json};

use crate::host::Host;
use crate::program::{Pip, Program, ResolveStep, StepKind};

/// The file of a kernel in its directory.
const FILE: &str = "kernel.json";
/// The key of `metadata` that only a file of ours has.
const OURS: &str = "cudarun";
/// The module that Jupyter starts, in site-packages.
const LAUNCHER: &str = "ipykernel_launcher";
/// Directories of environments that are named for what they are, in the directory of a project.
const UNNAMED: [&str; 4] = [".venv", "venv", ".env", "env"];

/// A Python as Jupyter will start it.
#[derive(Debug)]
pub struct Kernel {
    pub name: String,
    pub python: String,
    /// `3.12`, where that is known.
    pub version: Option<String>,
    /// What tells it from others in Jupyter's menu: the given name, or that of its environment; `None` for the system's Python.
    pub label: Option<String>,
}

/// The reason why there is no kernel.
#[derive(Debug)]
pub enum NoKernel {
    /// There is neither a home nor a variable that names the directory.
    NoHome,
    NotPython {
        path: PathBuf,
    },
    /// The directory of an environment, which has this Python.
    Environment {
        directory: PathBuf,
        python: PathBuf,
    },
    /// The package `ipykernel` is not installed in its environment.
    NoIpykernel {
        pip: Pip,
    },
    /// Jupyter does not accept the name.
    Name {
        name: String,
    },
    /// JSON holds text.
    NotText {
        path: PathBuf,
    },
    /// The file is not cudarun's.
    Foreign {
        file: PathBuf,
    },
    /// The kernel of this name starts another Python.
    OtherPython {
        name: String,
        python: String,
    },
}

/// A kernel's file of cudarun's.
#[derive(Debug)]
pub struct WrittenKernel {
    pub name: String,
    pub file: PathBuf,
    pub python: String,
    /// How many directories were made for it.
    pub made: usize,
}

/// The directory of the user's kernels, where Jupyter looks for them first.
pub fn directory(host: &Host) -> Result<PathBuf, NoKernel> {
    let given = host.env.non_empty("JUPYTER_DATA_DIR");
    let data = match given {
        Some(given) => Some(host.absolute(Path::new(given))),
        None => host.user_data().map(|data| data.join("jupyter")),
    };
    data.map(|data| data.join("kernels"))
        .ok_or(NoKernel::NoHome)
}

pub fn file(directory: &Path, name: &str) -> PathBuf {
    directory.join(name).join(FILE)
}

/// The name as Jupyter looks it up.
pub fn checked_name(name: &str) -> Result<String, NoKernel> {
    if name.is_empty()
        || name.len() > 200
        || !name.chars().all(may_be_in_name)
        || name.bytes().all(|byte| byte == b'.')
    {
        return Err(NoKernel::Name {
            name: name.to_owned(),
        });
    }
    Ok(name.to_lowercase())
}

/// The Python of a program as a kernel names it, for every directory.
pub fn path(host: &Host, read: &Program) -> PathBuf {
    // A shim decides by the current directory, which is another one for each notebook.
    let shim = read.steps.iter().rfind(|step| step.how == StepKind::Shim);
    without_dots(host, shim.map_or(&read.path, |step| &step.to))
}

/// A path without the `.` and `..` that may have been typed. Links stay: Python finds its environment by them, and a person may
/// have made them to lead elsewhere later.
pub fn without_dots(host: &Host, path: &Path) -> PathBuf {
    let mut name = PathBuf::new();
    for component in host.absolute(path).components() {
        name.push(component);
        if component == Component::ParentDir {
            // As the kernel goes there: not every `a/b/..` is `a`.
            name = host.canonical(&name).unwrap_or(name);
        }
    }
    name
}

/// The reason why there is no kernel, if the directory of an environment was named instead of its Python.
pub fn named_environment(host: &Host, directory: &Path) -> Option<NoKernel> {
    let python = directory.join("bin/python");
    host.is_executable(&python).then(|| NoKernel::Environment {
        directory: directory.to_owned(),
        python,
    })
}

/// The kernel of a Python, by its environment, under this name or one of its environment's.
pub fn kernel(host: &Host, read: &Program, name: Option<&str>) -> Result<Kernel, NoKernel> {
    let is_plain =
        |step: &ResolveStep| matches!(step.how, StepKind::Path | StepKind::Link | StepKind::Shim);
    let path = path(host, read);
    let Some(pip) = read.pip.clone().filter(|_| read.steps.iter().all(is_plain)) else {
        return Err(NoKernel::NotPython { path });
    };
    let launcher = format!("{LAUNCHER}.py");
    let mut sites = read.site_packages.iter();
    if !sites.any(|site| host.is_file(&site.join(&launcher))) {
        return Err(NoKernel::NoIpykernel { pip });
    }
    let Some(python) = path.to_str().map(str::to_owned) else {
        return Err(NoKernel::NotText { path });
    };
    let prefix = environment(host, &path);
    let label = name.map(str::to_owned);
    let label = label.or_else(|| prefix.and_then(environment_name));
    let name = match (name, &label) {
        (Some(name), _) => checked_name(name)?,
        (None, Some(environment)) => checked_name(&format!("cudarun-{}", word(environment)))?,
        (None, None) => "cudarun".to_owned(),
    };
    // Jupyter in the environment prefers its kernels to the user's.
    let hiding = prefix.map(|prefix| prefix.join("share/jupyter/kernels").join(&name));
    if let Some(file) = hiding.filter(|directory| host.stat(directory).is_ok()) {
        return Err(NoKernel::Foreign { file });
    }
    Ok(Kernel {
        name,
        python,
        version: version(read),
        label,
    })
}

/// The directory of the environment of a Python, where it is in one.
fn environment<'p>(host: &Host, python: &'p Path) -> Option<&'p Path> {
    let prefix = python.parent()?.parent()?;
    let mut marks = ["pyvenv.cfg", "conda-meta"].iter();
    marks
        .any(|mark| host.stat(&prefix.join(mark)).is_ok())
        .then_some(prefix)
}

/// The name of an environment, or of its project.
fn environment_name(prefix: &Path) -> Option<String> {
    let own = prefix.file_name()?.to_str()?;
    let project = prefix.parent().and_then(Path::file_name);
    match project.and_then(OsStr::to_str) {
        Some(project) if UNNAMED.contains(&own) => Some(project.to_owned()),
        _ => Some(own.to_owned()),
    }
}

/// Every character that the name of a kernel may not have, as `-`.
fn word(text: &str) -> String {
    let all = text.chars().take(100);
    all.map(|c| if may_be_in_name(c) { c } else { '-' })
        .collect()
}

fn may_be_in_name(character: char) -> bool {
    character.is_ascii_alphanumeric() || "._-".contains(character)
}

/// `3.12`, by the name of the executable or of a directory of its packages.
fn version(read: &Program) -> Option<String> {
    let files = read.executable.iter();
    let mut names = files
        .chain(&read.site_packages)
        .flat_map(|path| path.iter());
    names.find_map(|name| {
        let number = name.to_str()?.strip_prefix("python3.")?;
        let digits = number.trim_end_matches('t');
        let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        is_number.then(|| format!("3.{number}"))
    })
}

/// Returns the content of the file; `own` is cudarun.
pub fn text(kernel: &Kernel, own: &str, shown: &str, made: usize) -> String {
    let text = json!({
        "argv": [own, kernel.python, "-m", LAUNCHER, "-f", "{connection_file}"],
        "display_name": shown,
        "language": "python",
        "metadata": {"debugger": true, OURS: {"python": kernel.python, "directories": made}},
    });
    format!("{text:#}\n")
}

/// Returns what is there under a kernel's name: a file of ours, or nothing.
pub fn written(
    host: &Host,
    directory: &Path,
    name: &str,
) -> Result<Option<WrittenKernel>, NoKernel> {
    let file = file(directory, name);
    if host.lstat(&file).is_err() {
        return Ok(None);
    }
    match ours(host, &file) {
        Some((python, made)) => Ok(Some(WrittenKernel {
            name: name.to_owned(),
            file,
            python,
            made,
        })),
        None => Err(NoKernel::Foreign { file }),
    }
}

/// Every kernel of cudarun's.
pub fn all(host: &Host, directory: &Path) -> Vec<WrittenKernel> {
    let entries = host.list(directory).unwrap_or_default();
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    names
        .filter_map(|name| written(host, directory, name).ok()?)
        .collect()
}

fn ours(host: &Host, file: &Path) -> Option<(String, usize)> {
    let value: Value = serde_json::from_slice(&host.read(file).ok()?).ok()?;
    let ours = value.get("metadata")?.get(OURS)?;
    let made = ours.get("directories")?.as_u64()?;
    let python = ours.get("python")?.as_str()?;
    Some((python.to_owned(), usize::try_from(made).ok()?))
}
