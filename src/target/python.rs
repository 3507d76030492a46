//! A Python interpreter as it will start: what its command line runs, which environment it belongs to,
//! and where it looks for modules. Python itself is never run.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use super::program::Running;
use crate::formats::metadata;
use crate::host::Host;

/// What the command line says that Python will do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Run {
    Script(PathBuf),
    Module(OsString),
    Code(OsString),
    /// Standard input, the prompt, or nothing but an answer (`--version`).
    Unknown,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CommandLine {
    pub run: Run,
    /// `-I` or `-E`: variables do not count.
    pub ignores_environment: bool,
    /// `-I` or `-s`.
    pub no_user_site: bool,
    /// `-S`.
    pub no_site: bool,
    /// `-I` or `-P`: the script's directory is not searched.
    pub safe_path: bool,
    /// How many arguments decide all this.
    pub consumed: usize,
}

/// An interpreter with its environment.
#[derive(Debug)]
pub(super) struct Python {
    pub command_line: CommandLine,
    /// Where its own modules stand, in order.
    pub standard: Vec<PathBuf>,
    /// `PYTHONPATH`, and what `.pth` files add: other people's source, read like the program's own.
    pub path: Vec<PathBuf>,
    pub site_packages: Vec<PathBuf>,
    /// Files that decide the above.
    pub read_from: Vec<PathBuf>,
}

/// Whether a program of this name is Python.
pub(super) fn is_name(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    let rest = name.strip_prefix("python").or_else(|| name.strip_prefix("pypy"));
    rest.is_some_and(|rest| {
        rest.bytes().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b't' | b'w' | b'd'))
    })
}

/// What is running, when it is Python.
pub(super) fn recognise(host: &Host, running: &Running) -> Option<Python> {
    let real = host.canonical(&running.executable).ok()?;
    let named = |path: &Path| path.file_name().is_some_and(is_name);
    if !named(&real) && !named(&running.executable) {
        return None;
    }
    let command_line = CommandLine::parse(&running.arguments);
    let mut python = Python {
        command_line,
        standard: Vec::new(),
        path: Vec::new(),
        site_packages: Vec::new(),
        read_from: Vec::new(),
    };
    python.find_directories(host, &running.executable, &real);
    Some(python)
}

impl CommandLine {
    pub(super) fn parse(arguments: &[OsString]) -> CommandLine {
        let mut parsed = CommandLine {
            run: Run::Unknown,
            ignores_environment: false,
            no_user_site: false,
            no_site: false,
            safe_path: false,
            consumed: 0,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            parsed.consumed += 1;
            match argument.as_bytes() {
                b"--check-hash-based-pycs" => parsed.consumed += usize::from(rest.next().is_some()),
                b"-" | [b'-', b'-', ..] => return parsed,
                [b'-', flags @ ..] => {
                    if parsed.short_flags(flags, &mut rest) {
                        return parsed;
                    }
                }
                _ => {
                    parsed.run = Run::Script(PathBuf::from(argument));
                    return parsed;
                }
            }
        }
        parsed
    }

    /// A word of one-letter options; true when it ends the options.
    fn short_flags<'a>(&mut self, flags: &[u8], rest: &mut impl Iterator<Item = &'a OsString>) -> bool {
        for (at, flag) in flags.iter().enumerate() {
            let mut value = |this: &mut Self| {
                let attached = &flags[at + 1..];
                if attached.is_empty() {
                    let next = rest.next().cloned();
                    this.consumed += usize::from(next.is_some());
                    next.unwrap_or_default()
                } else {
                    OsString::from_vec(attached.to_vec())
                }
            };
            match flag {
                b'c' => {
                    self.run = Run::Code(value(self));
                    return true;
                }
                b'm' => {
                    self.run = Run::Module(value(self));
                    return true;
                }
                b'W' | b'X' => {
                    value(self);
                    return false;
                }
                b'I' => {
                    self.ignores_environment = true;
                    self.no_user_site = true;
                    self.safe_path = true;
                }
                b'E' => self.ignores_environment = true,
                b's' => self.no_user_site = true,
                b'S' => self.no_site = true,
                b'P' => self.safe_path = true,
                b'V' | b'h' | b'?' => return true,
                _ => {}
            }
        }
        false
    }
}

impl Python {
    fn find_directories(&mut self, host: &Host, invoked: &Path, real: &Path) {
        let variable = |name: &str| {
            if self.command_line.ignores_environment {
                None
            } else {
                host.env.non_empty(name).map(OsStr::to_owned)
            }
        };
        let path = variable("PYTHONPATH").unwrap_or_default();
        let user_off = self.command_line.no_user_site || variable("PYTHONNOUSERSITE").is_some();
        let user_base = variable("PYTHONUSERBASE").map(PathBuf::from);
        let python_home = variable("PYTHONHOME").map(PathBuf::from);
        self.path = path
            .as_bytes()
            .split(|byte| *byte == b':')
            .filter(|element| !element.is_empty())
            .map(|element| host.absolute(Path::new(OsStr::from_bytes(element))))
            .collect();

        let environment = VirtualEnvironment::of(host, invoked);
        let base = match (&python_home, &environment) {
            (Some(home), _) => home.clone(),
            (None, Some(environment)) if environment.home.is_some() => {
                prefix_of(environment.home.as_deref(), real)
            }
            _ => prefix_of(real.parent(), real),
        };
        let version = environment
            .as_ref()
            .and_then(|e| e.version.clone())
            .or_else(|| version_in_name(real))
            .or_else(|| only_version(host, &base));
        let Some(version) = version else { return };
        let library = |prefix: &Path, lib: &str| prefix.join(lib).join(&version);

        for lib in ["lib", "lib64"] {
            let standard = library(&base, lib);
            self.standard.push(standard.join("lib-dynload"));
            self.standard.push(standard);
        }
        let mut sites = Vec::new();
        if let Some(environment) = &environment {
            self.read_from.push(environment.file.clone());
            sites.extend(["lib", "lib64"].map(|lib| library(&environment.prefix, lib).join("site-packages")));
        }
        if environment.as_ref().is_none_or(|environment| environment.has_system_packages) {
            if !user_off {
                let base = user_base.or_else(|| host.home().map(|home| home.join(".local")));
                sites.extend(base.map(|base| library(&base, "lib").join("site-packages")));
            }
            for prefix in [base.as_path(), Path::new("/usr/local")] {
                if prefix != base && base != Path::new("/usr") {
                    continue;
                }
                sites.extend(["lib", "lib64"].map(|lib| library(prefix, lib).join("site-packages")));
                sites.push(library(prefix, "lib").join("dist-packages"));
            }
            sites.push(base.join("lib/python3/dist-packages"));
        }
        if self.command_line.no_site {
            sites.clear();
        }
        for site in sites {
            let Ok(site) = host.canonical(&site) else { continue };
            if !self.site_packages.contains(&site) {
                self.add_paths_of(host, &site);
                self.site_packages.push(site);
            }
        }
    }

    /// `.pth` files may add directories, as editable installs do.
    fn add_paths_of(&mut self, host: &Host, site: &Path) {
        let entries = host.list(site).unwrap_or_default();
        for entry in entries.iter().filter(|entry| entry.name.as_bytes().ends_with(b".pth")) {
            let Ok(text) = host.read_text(&site.join(&entry.name)) else { continue };
            for line in metadata::pth_directories(&text) {
                let directory = site.join(line);
                if host.is_directory(&directory) && !self.path.contains(&directory) {
                    self.path.push(directory);
                }
            }
        }
    }
}

struct VirtualEnvironment {
    prefix: PathBuf,
    file: PathBuf,
    home: Option<PathBuf>,
    version: Option<String>,
    has_system_packages: bool,
}

impl VirtualEnvironment {
    /// `pyvenv.cfg` stands beside the executable or one directory up, by the name it was invoked as.
    fn of(host: &Host, invoked: &Path) -> Option<VirtualEnvironment> {
        let directory = invoked.parent()?;
        let beside = [Some(directory), directory.parent()];
        let (prefix, text) = beside.into_iter().flatten().find_map(|prefix| {
            host.read_text(&prefix.join("pyvenv.cfg")).ok().map(|text| (prefix.to_owned(), text))
        })?;
        let values = metadata::pyvenv(&text);
        let version = values.get("version").or_else(|| values.get("version_info"));
        let said = version.and_then(|version| {
            let mut numbers = version.split('.');
            Some(format!("python{}.{}", numbers.next()?, numbers.next()?))
        });
        // A free-threaded build has a `t` that the file does not mention.
        let present = |name: &String| host.is_directory(&prefix.join("lib").join(name));
        Some(VirtualEnvironment {
            version: said.filter(present).or_else(|| only_version(host, &prefix)),
            file: prefix.join("pyvenv.cfg"),
            home: values.get("home").map(PathBuf::from),
            has_system_packages: values
                .get("include-system-site-packages")
                .is_some_and(|value| value.eq_ignore_ascii_case("true")),
            prefix,
        })
    }
}

fn prefix_of(bin: Option<&Path>, real: &Path) -> PathBuf {
    bin.and_then(Path::parent).or_else(|| real.parent()?.parent()).unwrap_or(Path::new("/usr")).to_owned()
}

/// `/usr/bin/python3.12` keeps its modules in `python3.12`.
fn version_in_name(real: &Path) -> Option<String> {
    let name = real.file_name()?.to_str()?;
    (name.starts_with("python") && name.contains('.')).then(|| name.to_owned())
}

/// The newest `python3.*` below a prefix.
fn only_version(host: &Host, prefix: &Path) -> Option<String> {
    let entries = host.list(&prefix.join("lib")).ok()?;
    let minor = |name: &str| {
        let rest = name.strip_prefix("python3.")?;
        let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
        digits.parse::<u32>().ok()
    };
    let names = entries.iter().filter_map(|entry| entry.name.to_str());
    names.filter(|name| minor(name).is_some()).max_by_key(|name| minor(name)).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> CommandLine {
        CommandLine::parse(&words.iter().map(OsString::from).collect::<Vec<_>>())
    }

    #[test]
    fn reads_the_command_line_as_python_does() {
        assert_eq!(parse(&["-u", "train.py", "--lr", "1"]).run, Run::Script("train.py".into()));
        assert_eq!(parse(&["-u", "train.py", "--lr", "1"]).consumed, 2);
        assert_eq!(parse(&["-Ic", "import torch", "x"]).run, Run::Code("import torch".into()));
        assert!(parse(&["-Ic", "import torch"]).no_user_site);
        assert_eq!(parse(&["-cimport torch"]).run, Run::Code("import torch".into()));
        assert_eq!(
            parse(&["-X", "utf8", "-W", "ignore", "-m", "pkg.mod", "a"]).run,
            Run::Module("pkg.mod".into())
        );
        assert_eq!(parse(&["-X", "utf8", "-W", "ignore", "-m", "pkg.mod", "a"]).consumed, 6);
        assert_eq!(parse(&["-Wignore", "x.py"]).run, Run::Script("x.py".into()));
        assert_eq!(parse(&["-"]).run, Run::Unknown);
        assert_eq!(parse(&["--version", "x.py"]).run, Run::Unknown);
        assert_eq!(parse(&["-V", "x.py"]).run, Run::Unknown);
        assert_eq!(parse(&[]).run, Run::Unknown);
        assert_eq!(parse(&["-c"]).run, Run::Code("".into()));
    }

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
