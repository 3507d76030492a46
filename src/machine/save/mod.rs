//! Writes the description of a machine: for every path that was read, enough to get an equal result. Without names of
//! users and private values. Lists the files that a description cannot reproduce.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::FORMAT;
use crate::catalog::catalog;
use crate::doctor::{self, Examination, Line, MOUNTS};
use crate::environment::{library_path_elements, preload_elements};
use crate::formats::ldcache::LdCache;
use crate::formats::{elf, names as library_names};
use crate::host::{FileId, Host, Kind, PathUse, Stat};
use crate::loader::search::default_directories;
use crate::settings::start_key::{decides, reaches_libraries};
use crate::settings::{files, trust};
use crate::storage;
use crate::text::quoted;

mod library;
mod modules;
mod names;
mod settings;
mod source;
mod texts;
mod toml_text;

use crate::variables;
use names::Names;
pub use names::{hidden, is_shown};

/// In bytes. Larger texts have no effect on cudarun.
const TEXT: u64 = 4 << 20;

/// Variables that lead to environments other than the program's.
const FOR_OTHERS: [&str; 3] = ["CONDA_EXE", "CONDA_DEFAULT_ENV", "SPACK_ROOT"];

/// A directory with the usual mode.
const DIRECTORY: &str = "directory = true\n";

/// The description of a machine.
#[derive(Debug)]
pub struct Saved {
    pub text: String,
    pub files: usize,
    /// Files that the description cannot reproduce.
    pub lost: Vec<PathBuf>,
}

/// One file of the description.
struct SavedFile {
    path: PathBuf,
    /// In TOML, without its path.
    fields: String,
    /// It affects the result; other directories and links only lead to such files.
    matters: bool,
    /// The target of a link, one step away, and the file at the end of all steps.
    ends: Vec<PathBuf>,
}

/// Describes the paths that `host` recorded, the findings of `examination`, and the command lines of examined programs.
pub fn describe(host: &Host, examination: &Examination, programs: &[String]) -> Saved {
    let asked = host.asked();
    let plain = host.inside(host.env.clone(), host.cwd.clone());
    let present = asked
        .keys()
        .map(PathBuf::as_path)
        .filter(|path| plain.lstat(path).is_ok());
    let names = Names::collect(host.home().as_deref(), &host.env, present);
    let mut writer = Writer {
        host: &plain,
        names: &names,
        examination,
        lines: lines(examination),
        is_for_programs: !programs.is_empty(),
        caches: storage::candidates(&plain),
        first_names: BTreeMap::new(),
        lost: Vec::new(),
    };
    let needed = needed(&plain, examination, &asked);
    let mut entries: BTreeMap<PathBuf, SavedFile> = BTreeMap::new();
    for (path, how) in &asked {
        if !writer.is_own(path)
            && let Some(entry) = writer.entry(path, *how)
        {
            entries.insert(path.clone(), entry);
        }
    }
    if let Some(entry) = writer.mounts(&asked) {
        entries.insert(entry.path.clone(), entry);
    }
    // Entries of files that were read come first: a listing shows only names.
    let listed = asked
        .iter()
        .filter(|(path, how)| **how == PathUse::Listed && !writer.is_own(path));
    for entry in listed.flat_map(|(path, _)| writer.listed(path, needed.contains(path))) {
        entries.entry(entry.path.clone()).or_insert(entry);
    }
    let lost = writer.lost;
    let entries = without_idle(entries, &needed);
    let mut text = format!(
        "about = \"A machine as `cudarun doctor --save` of {} saw it\"\nformat = {FORMAT}\ncwd = {}\nprograms = [{}]\n\n[env]\n",
        env!("CARGO_PKG_VERSION"),
        quoted(&names.hide(&host.cwd.to_string_lossy())),
        programs
            .iter()
            .map(|line| quoted(&names.hide_line(line)))
            .collect::<Vec<_>>()
            .join(", "),
    );
    let is_known = |name: &str| {
        doctor::tells_of_place(name)
            || FOR_OTHERS.contains(&name)
            || decides(name)
            || reaches_libraries(OsStr::new(name))
    };
    let is_shown =
        |name: &str| FOR_OTHERS.contains(&name) || decides(name) || names::is_shown(name);
    for (name, value) in names.environment(&host.env, &is_known, &is_shown) {
        text.push_str(&format!("{} = {}\n", quoted(&name), quoted(&value)));
    }
    for entry in &entries {
        let Some(path) = names.hide_path(&entry.path) else {
            continue;
        };
        text.push_str(&format!(
            "\n[[file]]\npath = {}\n{}",
            quoted(&path),
            entry.fields
        ));
    }
    for (path, bytes) in allowed(&plain, &names, &text) {
        let fields = format!("text = {}\nmode = 0o600\n", quoted(&bytes));
        text.push_str(&format!("\n[[file]]\npath = {}\n{fields}", quoted(&path)));
    }
    Saved {
        text,
        files: entries.len(),
        lost,
    }
}

/// Rewrites the lines of start-up files, by number, with only the parts that findings and elements need.
fn lines(examination: &Examination) -> BTreeMap<PathBuf, BTreeMap<usize, String>> {
    let mut files: BTreeMap<PathBuf, BTreeMap<usize, String>> = BTreeMap::new();
    let mut add = |line: &Line, code: &str| {
        let text = files
            .entry(line.path.clone())
            .or_default()
            .entry(line.number)
            .or_default();
        text.push_str(if text.is_empty() { "" } else { " " });
        text.push_str(code);
    };
    for (variable, line) in &examination.lines.of_variables {
        let elements = examination.elements.iter();
        let named = elements
            .filter(|element| element.variable == *variable && element.set_by.contains(line));
        let named: Vec<_> = named
            .map(|element| element.text.to_string_lossy())
            .collect();
        add(line, &format!("{variable}={}", named.join(":")));
    }
    files
}

/// Returns directories that are kept even if they are empty: those that the environment names.
fn needed(
    host: &Host,
    examination: &Examination,
    asked: &BTreeMap<PathBuf, PathUse>,
) -> BTreeSet<PathBuf> {
    let path = host
        .env
        .get(variables::LIBRARY_PATH)
        .map(library_path_elements)
        .unwrap_or_default();
    let preload = host
        .env
        .get(variables::PRELOAD)
        .map(preload_elements)
        .unwrap_or_default();
    let named = path
        .iter()
        .chain(&preload)
        .map(|text| host.absolute(Path::new(text)));
    let of_loader = examination
        .lines
        .of_loader
        .iter()
        .map(|(_, directory)| directory.clone());
    // The existence of these decides the loader's default directories.
    let defaults = [elf::X86_64, elf::AARCH64]
        .into_iter()
        .flat_map(|machine| default_directories(host, machine));
    let of_python = asked
        .keys()
        .filter(|path| texts::is_of_python(path))
        .cloned();
    let all = named
        .chain(of_python)
        .chain(of_loader)
        .chain(host.home())
        .chain([host.cwd.clone()])
        .chain(defaults);
    let real = |path: PathBuf| [host.canonical(&path).ok(), Some(path)];
    all.flat_map(real).flatten().collect()
}

/// Removes directories without files that matter, and links to such directories.
fn without_idle(
    mut entries: BTreeMap<PathBuf, SavedFile>,
    needed: &BTreeSet<PathBuf>,
) -> Vec<SavedFile> {
    let mut kept: BTreeSet<PathBuf> = BTreeSet::new();
    let mut fresh: Vec<PathBuf> = entries
        .values()
        .filter(|entry| entry.matters || needed.contains(&entry.path))
        .map(|entry| entry.path.clone())
        .collect();
    let links: Vec<(PathBuf, PathBuf)> = entries
        .values()
        .flat_map(|entry| {
            entry
                .ends
                .iter()
                .map(|end| (entry.path.clone(), end.clone()))
        })
        .collect();
    while let Some(path) = fresh.pop() {
        for above in path.ancestors() {
            if kept.insert(above.to_owned()) && above != path && entries.contains_key(above) {
                fresh.push(above.to_owned());
            }
        }
        for target in entries.get(&path).into_iter().flat_map(|entry| &entry.ends) {
            for above in target
                .ancestors()
                .filter(|above| entries.contains_key(*above))
            {
                if !kept.contains(above) {
                    fresh.push(above.to_owned());
                }
            }
        }
        // Links to a kept file.
        let leads_here = links
            .iter()
            .filter(|(link, target)| !kept.contains(link) && path.starts_with(target));
        fresh.extend(leads_here.map(|(link, _)| link.clone()));
    }
    entries.retain(|path, _| kept.contains(path));
    // A usual directory is made together with the files in it.
    let above: BTreeSet<PathBuf> = entries
        .keys()
        .flat_map(|path| path.ancestors().skip(1))
        .map(Path::to_owned)
        .collect();
    entries.retain(|path, entry| entry.fields != DIRECTORY || !above.contains(path));
    // Every machine has a root directory.
    entries.remove(Path::new("/"));
    entries.into_values().collect()
}

/// Returns the record that allows the project's file, for its hidden path and rewritten content.
fn allowed(host: &Host, names: &Names, text: &str) -> Vec<(String, String)> {
    let path = files::nearest(host);
    let bytes = path
        .as_ref()
        .and_then(|path| files::read(host, path).ok().flatten());
    let (Some(path), Some(bytes), Some(directory)) = (path, bytes, trust::directory(host)) else {
        return Vec::new();
    };
    if !trust::is_allowed(host, &path, &bytes) {
        return Vec::new();
    }
    let (Some(path), Some(directory)) = (names.hide_path(&path), names.hide_path(&directory))
    else {
        return Vec::new();
    };
    let hidden = names.hide(&settings::settings(&bytes));
    let name = trust::name(Path::new(&path), hidden.as_bytes());
    let own = format!("{directory}/{name}");
    if text.contains(&quoted(&own)) {
        Vec::new()
    } else {
        vec![(own, path)]
    }
}

impl SavedFile {
    fn new(path: &Path, fields: String, matters: bool) -> SavedFile {
        SavedFile {
            path: path.to_owned(),
            fields,
            matters,
            ends: Vec::new(),
        }
    }

    /// A text file with a mode in TOML.
    fn text(path: &Path, text: &str, mode: &str, matters: bool) -> SavedFile {
        SavedFile::new(path, format!("text = {}\n{mode}", quoted(text)), matters)
    }
}

/// Returns the mode in TOML, if it is not the usual one.
fn mode_unless(usual: u32, mode: u32) -> String {
    let mode = mode & 0o7777;
    if mode == usual {
        String::new()
    } else {
        format!("mode = 0o{mode:o}\n")
    }
}

struct Writer<'w> {
    host: &'w Host,
    names: &'w Names,
    examination: &'w Examination,
    lines: BTreeMap<PathBuf, BTreeMap<usize, String>>,
    is_for_programs: bool,
    /// The directories that may be cudarun's own.
    caches: Vec<PathBuf>,
    /// The first name of each file.
    first_names: BTreeMap<FileId, PathBuf>,
    lost: Vec<PathBuf>,
}

impl Writer<'_> {
    /// True for files of a process, and for cudarun's own.
    fn is_own(&self, path: &Path) -> bool {
        // Which of them exist differs between machines that are equal otherwise.
        let is_own = self.caches.iter().any(|own| path.starts_with(own));
        let of_process = path
            .strip_prefix("/proc")
            .ok()
            .and_then(|below| below.iter().next());
        let is_process =
            |name: &str| name == "self" || name.bytes().all(|byte| byte.is_ascii_digit());
        is_own || of_process.and_then(OsStr::to_str).is_some_and(is_process)
    }

    /// The mounts that this process sees, by the name that every process can use.
    fn mounts(&mut self, asked: &BTreeMap<PathBuf, PathUse>) -> Option<SavedFile> {
        let real = self.host.canonical(Path::new(MOUNTS)).ok()?;
        let stat = self.host.stat(&real).ok()?;
        let how = *asked.get(&real)?;
        let entry = self.file(&real, &stat, how)?;
        Some(SavedFile {
            path: PathBuf::from(MOUNTS),
            ..entry
        })
    }

    fn entry(&mut self, path: &Path, how: PathUse) -> Option<SavedFile> {
        let stat = self.host.lstat(path).ok()?;
        if path.to_str().is_none() {
            self.lost.push(path.to_owned());
            return None;
        }
        match stat.kind {
            Kind::Link => self.link(path),
            Kind::Directory => {
                let fields = DIRECTORY.to_owned() + &mode_unless(0o755, stat.mode);
                // A listing without names is that of a missing directory, too.
                Some(SavedFile::new(path, fields, how == PathUse::Looked))
            }
            Kind::File => {
                let entry = self.file(path, &stat, how);
                if entry.as_ref().is_some_and(|entry| entry.matters) {
                    self.first_names
                        .entry(stat.id)
                        .or_insert_with(|| path.to_owned());
                }
                entry
            }
            Kind::Other if !path.starts_with("/dev") => {
                Some(SavedFile::new(path, "fifo = true\n".to_owned(), true))
            }
            Kind::Other => {
                // A file replaces a device, readable if this user may use the device.
                let others = if self.host.may_use_here(path) {
                    0o004
                } else {
                    0
                };
                let mode = format!("mode = 0o{:o}\n", stat.mode & 0o7773 | others);
                Some(SavedFile::text(path, "", &mode, true))
            }
        }
    }

    fn link(&self, path: &Path) -> Option<SavedFile> {
        let target = self.host.read_link(path).ok()?;
        let target = self.names.hide_path(&target)?;
        let name = path.file_name().and_then(OsStr::to_str).unwrap_or_default();
        let matters = catalog().family_of(name).is_some() || name.starts_with("python");
        let above = path
            .parent()
            .and_then(|parent| self.host.canonical(parent).ok());
        let own = self.host.read_link(path).ok();
        // One step only, since the target may be a link as well.
        let leads_to = above
            .zip(own)
            .map(|(above, own)| names::normal(&above.join(own)));
        let fields = format!("link = {}\n", quoted(&target));
        let ends = leads_to
            .into_iter()
            .chain(self.host.canonical(path).ok())
            .collect();
        Some(SavedFile {
            ends,
            ..SavedFile::new(path, fields, matters)
        })
    }

    /// Returns entries for the names in a listing.
    fn listed(&self, directory: &Path, is_searched: bool) -> Vec<SavedFile> {
        let entries = self.host.list(directory).unwrap_or_default();
        let is_of_device = directory == Path::new("/dev");
        let is_source = directory == Path::new("/etc/apt/sources.list.d");
        let mut kept = Vec::new();
        let mut has_other = false;
        for entry in entries.iter().filter(|entry| entry.kind != Kind::Directory) {
            let Some(name) = entry.name.to_str() else {
                continue;
            };
            let is_library = library_names::split(name).is_some();
            let is_known = catalog().family_of(name).is_some() || name.contains("nvidia");
            let tells = match () {
                () if is_of_device => name.starts_with("nvidia") || name == "dxg",
                () if is_source => name.contains("nvidia") || name.contains("cuda"),
                // One other library is enough.
                () => {
                    let is_first_other = is_searched && is_library && !is_known && !has_other;
                    has_other |= is_first_other;
                    is_first_other
                }
            };
            if tells {
                kept.push(SavedFile::text(&directory.join(name), "", "", true));
            }
        }
        if is_of_device {
            kept.retain(|entry| {
                self.host
                    .lstat(&entry.path)
                    .is_ok_and(|stat| stat.kind != Kind::Directory)
            });
            for entry in &mut kept {
                if !self.host.may_use_here(&entry.path) {
                    let mode = self
                        .host
                        .stat(&entry.path)
                        .map_or(0o600, |stat| stat.mode & 0o770);
                    entry.fields = format!("text = \"\"\nmode = 0o{mode:o}\n");
                }
            }
        }
        kept
    }

    fn file(&mut self, path: &Path, stat: &Stat, how: PathUse) -> Option<SavedFile> {
        let mode = mode_unless(0o644, stat.mode);
        let text = |text: &str, matters| Some(SavedFile::text(path, text, &mode, matters));
        if let Some(first) = self.first_names.get(&stat.id) {
            let first = self.names.hide_path(first)?;
            return Some(SavedFile::new(
                path,
                format!("hard_link = {}\n", quoted(&first)),
                true,
            ));
        }
        let is_library = crate::inventory::is_library(path.file_name()?.to_str()?);
        if self.lines.contains_key(path) || self.is_modulefile(path, how) {
            let script = self.script(path);
            return text(&script, !script.is_empty());
        }
        let project = &self.examination.project;
        if project
            .files
            .iter()
            .chain(&project.lock)
            .any(|file| file == path)
            || path.ends_with(crate::settings::PROJECT)
        {
            let bytes = self.host.read(path).unwrap_or_default();
            return text(&self.names.hide(&settings::settings(&bytes)), true);
        }
        if how != PathUse::Read && !is_library {
            return text("", true);
        }
        if path == Path::new("/etc/ld.so.cache") {
            return Some(SavedFile::new(path, self.ld_cache(path) + &mode, true));
        }
        let start = self.host.read_start(path, 4).unwrap_or_default();
        let name = path.file_name()?.to_str()?;
        if start == *b"\x7fELF" || is_library {
            let data = self.host.map(path).ok()?;
            let Some(kept) = library::describe(&data, name, self.is_for_programs) else {
                self.lost.push(path.to_owned());
                return text("", true);
            };
            return match kept {
                library::SavedLibrary::Text(content) => {
                    text(if data.is_empty() { "" } else { content }, true)
                }
                library::SavedLibrary::Elf(mut elf, cut) => {
                    library::hide(&mut elf, &|text| self.names.hide(text));
                    let usual = if elf.interpreter.is_some() {
                        0o755
                    } else {
                        0o644
                    };
                    let cut = if cut == 0 {
                        String::new()
                    } else {
                        format!("cut = {cut}\n")
                    };
                    let elf = toml_text::inline(&serde_json::to_value(&elf).unwrap_or_default());
                    let fields = format!("elf = {elf}\n{cut}{}", mode_unless(usual, stat.mode));
                    Some(SavedFile::new(path, fields, true))
                }
            };
        }
        if stat.size > TEXT && name != "status" {
            self.lost.push(path.to_owned());
            return None;
        }
        let bytes = self.host.read(path).ok()?;
        let site = path
            .parent()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"))
            .to_owned();
        let is_size = |file: &str, size: u64| {
            self.host
                .stat(&site.join(file))
                .map_or(true, |stat| stat.size == size)
        };
        let usual = if bytes.starts_with(b"#!") {
            0o755
        } else {
            0o644
        };
        match texts::keep(path, &bytes, &is_size) {
            texts::SavedText::Text(content) => {
                // Modes of the kernel's files have no effect.
                let is_kernels = path.starts_with("/proc") || path.starts_with("/sys");
                let mode = if is_kernels {
                    String::new()
                } else {
                    mode_unless(usual, stat.mode)
                };
                Some(SavedFile::text(
                    path,
                    &self.names.hide(&content),
                    &mode,
                    true,
                ))
            }
            texts::SavedText::Empty => text("", false),
            texts::SavedText::Nothing => None,
        }
    }

    fn is_modulefile(&self, path: &Path, how: PathUse) -> bool {
        how == PathUse::Read
            && (modules::is_named(&self.host.env, path)
                || self
                    .host
                    .read_start(path, 8)
                    .is_ok_and(|start| start == b"#%Module"))
    }

    /// Returns the search paths of a start-up file or a module.
    fn script(&self, path: &Path) -> String {
        let kept = self
            .lines
            .get(path)
            .map(|lines| texts::in_place(lines, self.names))
            .unwrap_or_default();
        let bytes = self.host.read_start(path, TEXT).unwrap_or_default();
        if !self.is_modulefile(path, PathUse::Read) {
            return kept;
        }
        modules::with_places(path, kept, &String::from_utf8_lossy(&bytes), self.names)
    }

    /// Returns NVIDIA's names in the loader's cache; for a damaged cache, a text with an equal error.
    fn ld_cache(&self, path: &Path) -> String {
        let bytes = self.host.read(path).unwrap_or_default();
        let mut entries = Vec::new();
        for machine in [elf::X86_64, elf::AARCH64] {
            let cache = match LdCache::parse(&bytes, machine) {
                Ok(cache) => cache,
                Err(error) => {
                    let is_magic = error.to_string().contains("magic");
                    let text = if is_magic {
                        "nothing of use"
                    } else {
                        "glibc-ld.so.cache1.1 and then nothing of use"
                    };
                    return format!("text = {}\n", quoted(text));
                }
            };
            let known = cache
                .iter()
                .filter(|(soname, _)| catalog().family_of(soname).is_some());
            entries.extend(known.filter_map(|(soname, path)| {
                let path = self.names.hide_path(path)?;
                let (name, path) = (quoted(soname), quoted(&path));
                Some(format!(
                    "    {{ name = {name}, path = {path}, machine = {machine} }},\n"
                ))
            }));
        }
        format!("ld_cache = [\n{}]\n", entries.concat())
    }
}
