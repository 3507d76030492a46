//! A Python interpreter as it will start, with its environment and module search path. Python itself is never run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::arguments::{CommandLine, PythonCode};
use super::model::Running;
use crate::catalog::catalog;
use crate::formats::elf::Elf;
use crate::formats::{metadata, python as source};
use crate::host::Host;

/// An interpreter with its environment.
#[derive(Debug, Default)]
pub(super) struct Python {
    pub command_line: CommandLine,
    /// Its `sys.path`, in order.
    pub search: Vec<PathEntry>,
    /// The name of its directories, `python3.12`; `None` where that is not known.
    pub version: Option<String>,
    /// Files and directories that decide the above, there or not.
    pub read_from: Vec<PathBuf>,
    /// Directories whose existence and identity matter, but not their content.
    pub located: Vec<PathBuf>,
    /// The code in `.pth` files, with their paths.
    pub startup: Vec<(PathBuf, String)>,
}

/// An element of `sys.path`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PathEntry {
    pub directory: PathBuf,
    pub kind: EntryKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntryKind {
    /// The script's directory, and those of `PYTHONPATH` and `.pth` files: the program's own source, perhaps with installed
    /// packages in it (`pip install --target`, environment modules).
    Own,
    /// Python's own modules.
    Standard,
    /// A site-packages directory.
    Site,
}

/// True if a program of this name is Python.
pub(super) fn is_name(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else {
        return false;
    };
    let rest = name
        .strip_prefix("python")
        .or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| {
        rest.bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b't' | b'w' | b'd'))
    })
}

/// True for a file with the name of a Python.
pub(super) fn is_python(path: &Path) -> bool {
    path.file_name().is_some_and(is_name)
}

pub(super) fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "py")
}

/// The Python that is running, if it is one: by its name, or because it is or calls the `main` of Python.
pub(super) fn recognise(host: &Host, running: &Running) -> Option<Python> {
    let real = host.canonical(&running.executable).ok()?;
    if !is_python(&real) && !is_python(&running.executable) && !has_main(host, &real) {
        return None;
    }
    let command_line = CommandLine::parse(&running.arguments);
    let mut python = Python {
        command_line,
        ..Python::default()
    };
    python.find_directories(host, &running.executable, &real);
    python.add_named_directories(host);
    Some(python)
}

fn has_main(host: &Host, program: &Path) -> bool {
    const MAIN: [&[u8]; 2] = [b"Py_BytesMain", b"Py_Main"];
    let Ok(data) = host.map(program) else {
        return false;
    };
    let elf = Elf::parse(&data);
    elf.is_ok_and(|elf| {
        elf.symbols()
            .iter()
            .any(|symbol| MAIN.contains(&symbol.name))
    })
}

impl Python {
    /// The directories that may hold installed packages, in order.
    pub(super) fn sites(&self, host: &Host) -> Vec<PathBuf> {
        self.search
            .iter()
            .filter(|entry| match entry.kind {
                EntryKind::Site => true,
                EntryKind::Own => holds_packages(host, &entry.directory),
                EntryKind::Standard => false,
            })
            .map(|entry| entry.directory.clone())
            .collect()
    }

    /// A variable that Python reads, unless it is told to ignore them.
    fn variable(&self, host: &Host, name: &str) -> Option<OsString> {
        if self.command_line.ignores_environment {
            return None;
        }
        host.env.non_empty(name).map(OsStr::to_owned)
    }

    fn find_directories(&mut self, host: &Host, invoked: &Path, real: &Path) {
        self.add_own_directories(host);
        let is_pypy = [invoked, real].iter().any(|path| {
            path.file_name()
                .is_some_and(|name| name.as_bytes().starts_with(b"pypy"))
        });
        let kind = if is_pypy { "pypy" } else { "python" };
        let environment = VirtualEnvironment::find(host, invoked, kind);
        let base = match (self.variable(host, "PYTHONHOME"), &environment) {
            // `PREFIX` or `PREFIX:EXEC_PREFIX`.
            (Some(home), _) => {
                let prefix = home.as_bytes().split(|byte| *byte == b':').next();
                PathBuf::from(OsStr::from_bytes(prefix.unwrap_or_default()))
            }
            (None, Some(environment)) if environment.home.is_some() => {
                prefix_of(environment.home.as_deref(), real)
            }
            _ => prefix_of(real.parent(), real),
        };
        self.version = version_in_name(real, kind)
            .or_else(|| environment.as_ref().and_then(|e| e.version.clone()))
            .or_else(|| newest_version(host, &base, kind));
        let Some(version) = self.version.clone() else {
            return;
        };
        for lib in ["lib", "lib64"] {
            let standard = base.join(lib).join(&version);
            self.add(host, &standard, EntryKind::Standard);
            self.add(host, &standard.join("lib-dynload"), EntryKind::Standard);
        }
        if !self.command_line.no_site {
            self.add_sites(host, environment.as_ref(), &base, &version);
        }
    }

    /// Adds the directory of the script, or the current one, and those in `PYTHONPATH`.
    fn add_own_directories(&mut self, host: &Host) {
        let is_safe =
            self.command_line.safe_path || self.variable(host, "PYTHONSAFEPATH").is_some();
        if !is_safe && let Some(start) = self.start_directory(host) {
            // These would make it a place of installed packages. The program may write other files there.
            for framework in &catalog().frameworks {
                let modules = framework.modules.iter();
                self.located
                    .extend(modules.map(|module| start.join(module)));
            }
            self.located.push(start.join("nvidia"));
            self.add(host, &start, EntryKind::Own);
        }
        if let Some(path) = self.variable(host, "PYTHONPATH") {
            for element in path.as_bytes().split(|byte| *byte == b':') {
                let directory = host.absolute(Path::new(OsStr::from_bytes(element)));
                self.add(host, &directory, EntryKind::Own);
                self.read_from.push(directory);
            }
        }
    }

    /// Adds the directories that Python's module `site` adds.
    fn add_sites(
        &mut self,
        host: &Host,
        environment: Option<&VirtualEnvironment>,
        base: &Path,
        version: &str,
    ) {
        let libraries = ["lib", "lib64"].map(|lib| Path::new(lib).join(version));
        let mut sites = Vec::new();
        if let Some(environment) = environment {
            self.read_from.push(environment.prefix.join("pyvenv.cfg"));
            for library in &libraries {
                sites.push(environment.prefix.join(library).join("site-packages"));
            }
        }
        if environment.is_none_or(|environment| environment.has_system_packages) {
            let user_off =
                self.command_line.no_user_site || self.variable(host, "PYTHONNOUSERSITE").is_some();
            // `site` reads this variable even with `-E`.
            let user = host
                .env
                .non_empty("PYTHONUSERBASE")
                .map(PathBuf::from)
                .or_else(|| host.home().map(|home| home.join(".local")));
            if let Some(user) = user.filter(|_| !user_off) {
                sites.push(user.join(&libraries[0]).join("site-packages"));
            }
            let mut prefixes = vec![base];
            if base == Path::new("/usr") {
                prefixes.push(Path::new("/usr/local"));
            }
            for prefix in prefixes {
                for library in &libraries {
                    sites.push(prefix.join(library).join("site-packages"));
                }
                sites.push(prefix.join(&libraries[0]).join("dist-packages"));
            }
            sites.push(base.join("lib/python3/dist-packages"));
        }
        for site in sites {
            self.add_site(host, &site, EntryKind::Site);
        }
    }

    /// True if a file is in a directory of installed packages.
    pub(super) fn is_in_site(&self, host: &Host, file: &Path) -> bool {
        let file = host.canonical(file).unwrap_or_else(|_| file.to_owned());
        self.sites(host).iter().any(|site| file.starts_with(site))
    }

    /// Adds the directories that the program itself adds to its search path by a literal path.
    fn add_named_directories(&mut self, host: &Host) {
        let code = match &self.command_line.run {
            PythonCode::Code(code) => code.as_bytes().to_vec(),
            PythonCode::Script(script) => host.read(&main_file(host, script)).unwrap_or_default(),
            PythonCode::Module(_) | PythonCode::Nothing | PythonCode::Unknown => return,
        };
        for added in source::read(&code).search {
            let (directory, known) = (PathBuf::from(added.directory), self.search.len());
            if added.is_site {
                self.add_site(host, &directory, EntryKind::Own);
            } else {
                self.add(host, &directory, EntryKind::Own);
            }
            self.read_from.push(directory);
            if added.is_first {
                let new = self.search.len() - known;
                self.search.rotate_right(new);
            }
        }
    }

    /// The directory that is searched first: the script's, or the current one for code and modules.
    pub(super) fn start_directory(&self, host: &Host) -> Option<PathBuf> {
        match &self.command_line.run {
            PythonCode::Code(_) | PythonCode::Module(_) => Some(host.cwd.clone()),
            PythonCode::Script(script) => {
                let script = host.canonical(&host.absolute(script)).ok()?;
                if host.is_directory(&script) {
                    Some(script)
                } else {
                    script.parent().map(Path::to_owned)
                }
            }
            PythonCode::Nothing | PythonCode::Unknown => None,
        }
    }

    /// Adds an existing directory to the search path. Returns its real path if it is new.
    fn add(&mut self, host: &Host, directory: &Path, kind: EntryKind) -> Option<PathBuf> {
        match kind {
            EntryKind::Site => self.read_from.push(directory.to_owned()),
            // `imports.rs` watches single modules in it.
            EntryKind::Own => self.located.push(directory.to_owned()),
            EntryKind::Standard => {}
        }
        let directory = host.canonical(directory).ok()?;
        if !host.is_directory(&directory)
            || self.search.iter().any(|entry| entry.directory == directory)
        {
            return None;
        }
        self.search.push(PathEntry {
            directory: directory.clone(),
            kind,
        });
        Some(directory)
    }

    /// Adds a directory of packages, and then the directories in its `.pth` files, as editable installs write them.
    fn add_site(&mut self, host: &Host, site: &Path, kind: EntryKind) {
        let Some(site) = self.add(host, site, kind) else {
            return;
        };
        let entries = host.listing(&site).unwrap_or_default();
        for entry in entries
            .iter()
            .filter(|entry| entry.name.as_bytes().ends_with(b".pth"))
        {
            let file = site.join(&entry.name);
            self.read_from.push(file.clone());
            let Ok(text) = host.read_text(&file) else {
                continue;
            };
            self.startup.push((file, metadata::pth_code(&text)));
            for line in metadata::pth_directories(&text) {
                let directory = site.join(line);
                self.add(host, &directory, EntryKind::Own);
                self.read_from.push(directory);
            }
        }
    }
}

/// The file that Python runs for a script, which may be a directory.
pub(super) fn main_file(host: &Host, script: &Path) -> PathBuf {
    let script = host.absolute(script);
    if host.is_directory(&script) {
        script.join("__main__.py")
    } else {
        script
    }
}

/// True if a directory holds a package of a framework, for example one that was built in place.
fn is_framework(host: &Host, directory: &Path, name: &OsStr) -> bool {
    let is_module = name
        .to_str()
        .is_some_and(|name| catalog().framework_of(name).is_some());
    is_module && host.is_file(&directory.join(name).join("__init__.py"))
}

struct VirtualEnvironment {
    prefix: PathBuf,
    home: Option<PathBuf>,
    version: Option<String>,
    has_system_packages: bool,
}

impl VirtualEnvironment {
    /// Reads `pyvenv.cfg` beside the executable or one directory up, by the path that was invoked.
    fn find(host: &Host, invoked: &Path, kind: &str) -> Option<VirtualEnvironment> {
        let directory = invoked.parent()?;
        let prefixes = [Some(directory), directory.parent()];
        let (prefix, text) = prefixes.into_iter().flatten().find_map(|prefix| {
            host.read_text(&prefix.join("pyvenv.cfg"))
                .ok()
                .map(|text| (prefix.to_owned(), text))
        })?;
        let values = metadata::pyvenv(&text);
        let version = values.get("version").or_else(|| values.get("version_info"));
        let recorded = version.and_then(|version| {
            let mut numbers = version.split('.');
            Some(format!("{kind}{}.{}", numbers.next()?, numbers.next()?))
        });
        // A free-threaded build has a `t` that the file does not mention.
        Some(VirtualEnvironment {
            version: recorded
                .filter(|name| host.is_directory(&prefix.join("lib").join(name)))
                .or_else(|| newest_version(host, &prefix, kind)),
            home: values.get("home").map(PathBuf::from),
            has_system_packages: values
                .get("include-system-site-packages")
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            prefix,
        })
    }
}

fn prefix_of(bin: Option<&Path>, real: &Path) -> PathBuf {
    bin.and_then(Path::parent)
        .or_else(|| real.parent()?.parent())
        .unwrap_or(Path::new("/usr"))
        .to_owned()
}

/// `/usr/bin/python3.12` keeps its modules in `python3.12`, and `pypy3.10` in `pypy3.10`.
fn version_in_name(real: &Path, kind: &str) -> Option<String> {
    let name = real.file_name()?.to_str()?;
    (name.starts_with(kind) && name.contains('.')).then(|| name.to_owned())
}

fn holds_packages(host: &Host, directory: &Path) -> bool {
    let entries = host.listing(directory).unwrap_or_default();
    entries.iter().any(|entry| {
        let name = &entry.name;
        name.as_bytes().ends_with(b".dist-info")
            || name == "nvidia"
            || is_framework(host, directory, name)
    })
}

/// The newest `python3.*` or `pypy3.*` below a prefix.
fn newest_version(host: &Host, prefix: &Path, kind: &str) -> Option<String> {
    let mut newest = None;
    for entry in host.list(&prefix.join("lib")).ok()? {
        if let Some(name) = entry.name.to_str()
            && let Some(minor) = minor_version(name, kind)
        {
            newest = newest.max(Some((minor, name.to_owned())));
        }
    }
    newest.map(|(_, name)| name)
}

/// `12` of `python3.12t`
fn minor_version(name: &str, kind: &str) -> Option<u32> {
    let minor = name.strip_prefix(kind)?.strip_prefix("3.")?;
    let end = minor.find(|c: char| !c.is_ascii_digit());
    minor[..end.unwrap_or(minor.len())].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knows_python_by_name() {
        for yes in ["python", "python3", "python3.12", "pypy3", "python3.13t"] {
            assert!(is_name(OsStr::new(yes)), "{yes}");
        }
        for no in ["pythonista", "ipython", "python3-config", "bash"] {
            assert!(!is_name(OsStr::new(no)), "{no}");
        }
    }
}
