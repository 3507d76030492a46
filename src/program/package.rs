//! The installed Python packages that use a GPU, and their requirements: from the files that a framework's profile names,
//! and from the shared objects of any package.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::arguments::PythonCode;
use super::candidate::{Candidates, PackageCandidate};
use super::distributions::Installed;
use super::executable::{self, ExecutableImage, asker, by_path, linked, opened_names, written_in};
use super::framework::{self, FrameworkReader, GPU_NODE, Sourced};
use super::framework_records;
use super::imports::{self, Imports, SourceLine};
use super::indirect_imports::within_reach;
use super::machine_requirement::{Demand, MachineRequirement};
use super::model::{Package, Pip, Program};
use super::note::Note;
use super::opens::{is_packer, loads};
use super::python::Python;
use super::requirement::{
    Asker, EarlierDirectory, ImportCertainty, LibraryRequirement, Load, Need,
};
use crate::catalog::catalog;
use crate::error::Error;
use crate::formats::names;
use crate::host::Host;
use crate::loader::closure::{Consumer, Walk};
use crate::loader::search::{Object, Searcher};
use crate::parallel;

/// Adds the requirements of a Python program to `program`. Fails where a package in `uses` is not installed.
pub(super) fn read(
    host: &Host,
    searcher: &Searcher<'_>,
    image: &ExecutableImage,
    python: &Python,
    uses: &[String],
    program: &mut Program,
) -> Result<(), Error> {
    let Some(installed) = environment(host, image, python, program) else {
        return Ok(());
    };
    let sites = program.site_packages.clone();
    if sites.is_empty() {
        program.notes.push(Note::NoSitePackages);
    }
    let mut imports = imports::trace(host, python, &installed, program);
    let reader = PackageReader::new(
        searcher,
        image,
        Candidates {
            host,
            sites: &sites,
            installed: &installed,
        },
    );
    reader.follow_opened(&mut imports, program);
    if !uses.is_empty() {
        let modules = uses.iter().map(|name| name.replace('-', "_"));
        let mut of_uses = imports::of_modules(modules);
        let files = imports::add_brought(host, python, &installed, &mut of_uses);
        program.watched.extend(files);
        let brought = of_uses.installed.into_keys();
        let all: Vec<String> = uses.iter().cloned().chain(brought).collect();
        let named = reader.candidates.named(&all)?;
        reader.examine(named, program);
    } else if !imports.is_tool() {
        let files = imports::add_brought(host, python, &installed, &mut imports);
        program.watched.extend(files);
        let imported = reader.candidates.imported(&imports);
        reader.examine(imported, program);
        reader.guess(python, &imports, program);
    }
    reader.written_out(&imports, program);
    program.sets_library_path = imports.names_library_path;
    program.starts_programs = imports.starts_programs;
    program.is_launcher = imports.is_command && program.packages.is_empty();
    if imports.starts_programs
        && !imports.is_tool()
        && !program
            .library_requirements()
            .any(|requirement| requirement.by.certainty == ImportCertainty::Imported)
    {
        program.notes.push(Note::MayStartAnother);
    }
    program.forget_what_was_found();
    Ok(())
}

/// Adds the requirements of the packages that PyInstaller packed into a directory.
pub(super) fn frozen(
    host: &Host,
    searcher: &Searcher<'_>,
    image: &ExecutableImage,
    directory: &Path,
    program: &mut Program,
) {
    let sites = vec![directory.to_owned()];
    program.site_packages.clone_from(&sites);
    let installed = Installed::list(host, &sites);
    let reader = PackageReader::new(
        searcher,
        image,
        Candidates {
            host,
            sites: &sites,
            installed: &installed,
        },
    );
    reader.examine(reader.candidates.everything(), program);
}

/// Adds the site-packages directories of a Python to `program`. Returns the distributions in them; `None` where Python runs
/// no program.
pub(super) fn environment<'h>(
    host: &'h Host,
    image: &ExecutableImage,
    python: &Python,
    program: &mut Program,
) -> Option<Installed<'h>> {
    program.site_packages = python.sites(host);
    program.start_directory = python
        .start_directory(host)
        .and_then(|start| host.canonical(&start).ok());
    program.watched.extend(python.read_from.iter().cloned());
    program.located.extend(python.located.iter().cloned());
    if python.command_line.run == PythonCode::Nothing {
        return None;
    }
    let installed = Installed::list(host, &program.site_packages);
    program.pip = Some(Pip {
        python: image.path.clone(),
        is_own: installed.distributions.contains_key("pip"),
    });
    Some(installed)
}

/// A package that uses a GPU, or would if it were built for one, with its requirements.
struct Assessed {
    package: Package,
    requirements: Vec<LibraryRequirement>,
    /// The GPUs that it has code for.
    code: Option<MachineRequirement>,
    note: Option<Note>,
    /// The file that tells the CUDA version that it is built for, or that it is built for none.
    read_from: Option<PathBuf>,
}

struct PackageReader<'a> {
    host: &'a Host,
    candidates: Candidates<'a>,
    searcher: &'a Searcher<'a>,
    executable: Option<Arc<Object>>,
}

impl<'a> PackageReader<'a> {
    fn new(
        searcher: &'a Searcher<'a>,
        image: &ExecutableImage,
        candidates: Candidates<'a>,
    ) -> PackageReader<'a> {
        let host = candidates.host;
        let path = host.canonical(&image.path).ok();
        PackageReader {
            host,
            candidates,
            searcher,
            executable: path.and_then(|path| searcher.object(&path)),
        }
    }

    /// Adds the packages that the program may import, if some imports could not be read or no package was recognised. Their
    /// requirements count only as far as they can be met, and cause no refusal.
    fn guess(&self, python: &Python, imports: &Imports, program: &mut Program) {
        if !program.packages.is_empty() && !imports.is_open {
            return;
        }
        let is_all = imports.is_open
            || imports.takes_module_names
            || imports.starts_programs
            || imports.opens_unnamed;
        let within = if is_all {
            None
        } else {
            within_reach(&self.candidates, python, imports)
        };
        let mut possible = within.unwrap_or_else(|| self.candidates.everything());
        possible.retain(|candidate| {
            program
                .packages
                .iter()
                .all(|known| known.name != candidate.name)
        });
        self.examine(possible, program);
    }

    /// Adds the candidates that use a GPU to `program`, with their requirements.
    fn examine(&self, candidates: Vec<PackageCandidate>, program: &mut Program) {
        for candidate in candidates {
            let mut walk = Walk::new(
                self.searcher,
                self.executable.clone(),
                executable::is_library,
            );
            for object in candidate
                .objects(self.host)
                .iter()
                .filter_map(|path| self.searcher.object(path))
            {
                walk.add_closure(object);
            }
            let mut consumers = walk.consumers;
            // One of NVIDIA's libraries that a package keeps for itself is not a consumer.
            consumers.retain(|consumer| {
                let name = consumer.object.path.file_name().and_then(OsStr::to_str);
                !name.is_some_and(executable::is_library)
            });
            program.notes.extend(self.moved(&candidate));
            if candidate.is_imported() {
                let files = candidate.directories.iter().chain(&candidate.extensions);
                program.imported.extend(files.clone().cloned());
                program.watched.extend(files.cloned());
            }
            let Some(assessed) = self.assess(&candidate, &consumers) else {
                // The package requires nothing, but maps the libraries that it bundles.
                if candidate.is_imported() {
                    let packers = consumers.iter().filter(|consumer| is_packer(consumer));
                    program
                        .loads
                        .extend(packers.map(|consumer| Load::path(&consumer.object.path)));
                }
                continue;
            };
            let Assessed {
                package,
                requirements,
                code,
                note,
                read_from,
            } = assessed;
            // The program may import it where no import of another package is known.
            if candidate.is_imported()
                || !program
                    .packages
                    .iter()
                    .any(|known| known.certainty == ImportCertainty::Imported && !known.cpu_only)
            {
                let version = package.version.as_deref();
                let is_guess = !candidate.is_imported();
                let loads = loads(self.host, &candidate, version, &consumers, &requirements);
                program
                    .loads
                    .extend(loads.into_iter().map(|load| Load { is_guess, ..load }));
            }
            for consumer in consumers {
                program
                    .watched
                    .extend(consumer.object.path.parent().map(Path::to_owned));
                program.watched.insert(consumer.object.path.clone());
                program.own_directories.extend(consumer.search_later);
            }
            if candidate.is_imported() {
                let askers = requirements
                    .iter()
                    .map(|requirement| &requirement.by)
                    .chain(code.iter().map(|code| &code.by));
                program.watched.extend(askers.map(|by| by.file.clone()));
                program.watched.extend(read_from);
            }
            program.watched.insert(package.directory.clone());
            program.packages.push(package);
            program.require(requirements);
            program.require(code);
            program.notes.extend(note);
        }
    }

    /// Returns a note for each variable that is set and that an imported framework reads.
    fn moved(&self, candidate: &PackageCandidate) -> Vec<Note> {
        let set = candidate
            .framework
            .filter(|_| candidate.is_imported())
            .map_or(&[][..], |framework| &framework.variable)
            .iter()
            .filter(|variable| self.host.env.non_empty(&variable.name).is_some());
        set.map(|variable| Note::Moved {
            package: candidate.name.clone(),
            variable: variable.name.clone(),
            does: variable.does.clone(),
        })
        .collect()
    }

    fn assess(&self, candidate: &PackageCandidate, consumers: &[Consumer]) -> Option<Assessed> {
        let profile = candidate.framework;
        let installed = self.candidates.installed;
        let reader = profile.map(|framework| FrameworkReader {
            host: self.host,
            installed,
            sites: &candidate.sites,
            framework,
        });
        let distribution = self.distribution(candidate);
        let version = distribution.map(|name| installed.distributions[name].version.clone());
        let title = match &version {
            Some(version) => format!("{} {version}", candidate.name),
            None => candidate.name.clone(),
        };
        let mut package = Package {
            name: candidate.name.clone(),
            version,
            directory: candidate.place.clone(),
            cuda: None,
            cpu_only: false,
            certainty: candidate.certainty,
            imported_by: candidate.imported_by.clone(),
        };
        let cuda = reader.and_then(|reader| reader.cuda());
        let cuda_major = cuda.as_ref().map(|cuda| cuda.value.major);
        let by = asker(&title, &candidate.place, cuda_major, candidate.certainty);

        let mut requirements: Vec<LibraryRequirement> = parallel::map(consumers, |consumer| {
            asked_by(self.host, consumer, candidate, &by)
        })
        .into_iter()
        .flatten()
        .collect();
        let asks = requirements.iter().any(LibraryRequirement::asks_for_family);
        if let Some(file) =
            reader.and_then(|reader| reader.cpu_only(package.version.as_deref(), asks))
        {
            // A package without CUDA has no requirements, and matters only if the program imports it.
            let note = if file == Path::new(GPU_NODE) {
                Note::CrashesWithoutGpu { package: title }
            } else {
                Note::CpuOnly {
                    package: title,
                    file: file.clone(),
                }
            };
            package.cpu_only = true;
            return candidate.is_imported().then_some(Assessed {
                package,
                requirements: Vec::new(),
                code: None,
                note: Some(note),
                read_from: Some(file),
            });
        }
        if let Some(reader) = reader {
            requirements.extend(reader.recorded(&by, consumers, cuda.as_ref()));
        }
        if let Some(major) = cuda_major {
            drop_other_majors(&mut requirements, major);
        }
        if candidate.scans_objects() && has_variants(&requirements) {
            // It is built for several CUDA majors, and loads the libraries of one.
            for requirement in &mut requirements {
                requirement.need = Need::Named;
            }
        }
        if !requirements.iter().any(LibraryRequirement::asks_for_family) {
            return None;
        }
        if let Some(distribution) = distribution {
            requirements.extend(framework_records::pins(installed, &by, distribution));
        }
        if profile.is_some() {
            let first = framework_records::wheels(self.host, self.candidates.sites, cuda_major);
            for requirement in requirements.iter_mut().filter(|r| {
                r.named().is_some_and(|name| {
                    let stem = names::split(name).map_or(name, |(stem, _)| stem);
                    framework_records::opens_by_path(candidate, package.version.as_deref(), stem)
                })
            }) {
                requirement.search_first.splice(0..0, first.iter().cloned());
            }
        }
        // A guess is needed no more than a name that is tried.
        if !candidate.is_imported() {
            for requirement in &mut requirements {
                requirement.need = Need::Named;
            }
        }
        let code = if candidate.is_imported() && !candidate.is_brought {
            self.code(candidate, reader, consumers, &by)
        } else {
            None
        };
        package.cuda = cuda.as_ref().map(|cuda| cuda.value);
        Some(Assessed {
            package,
            requirements,
            code,
            note: None,
            read_from: cuda.map(|cuda| cuda.file),
        })
    }

    /// Returns the GPUs that it has code for: those that it records, or else those in its own objects that are linked against
    /// NVIDIA's libraries.
    fn code(
        &self,
        candidate: &PackageCandidate,
        reader: Option<FrameworkReader<'_>>,
        consumers: &[Consumer],
        by: &Asker,
    ) -> Option<MachineRequirement> {
        let (found, is_written) = match reader {
            Some(reader) => reader.code()?,
            None => {
                let value = consumers
                    .iter()
                    .filter(|consumer| {
                        !consumer.needed.is_empty() && candidate.holds(&consumer.object.path)
                    })
                    .map(|consumer| consumer.object.path.as_path())
                    .flat_map(|file| framework::gpu_code(self.host, file))
                    .collect();
                (
                    Sourced {
                        value,
                        file: candidate.place.clone(),
                    },
                    false,
                )
            }
        };
        if found.value.is_empty() {
            return None;
        }
        let by = Asker {
            file: found.file,
            ..by.clone()
        };
        Some(MachineRequirement {
            demand: Demand::Code(found.value),
            by,
            only_with_gpu: true,
            is_advice: !is_written,
        })
    }

    /// Returns the distribution that brings a package.
    fn distribution(&self, candidate: &PackageCandidate) -> Option<&str> {
        let names = candidate
            .framework
            .map_or(&[][..], |framework| &framework.distributions);
        let own = self.candidates.installed.of_module(&candidate.name);
        names
            .iter()
            .map(String::as_str)
            .chain(own)
            .find_map(|name| {
                let (name, distribution) = self
                    .candidates
                    .installed
                    .distributions
                    .get_key_value(name)?;
                candidate
                    .sites
                    .contains(&distribution.site)
                    .then_some(name.as_str())
            })
    }

    /// Treats the other libraries that the program opens like extension modules: they add the requirements of their files. A
    /// name may refer to a file beside the source.
    fn follow_opened(&self, imports: &mut Imports, program: &mut Program) {
        let chain: Vec<_> = self.executable.clone().into_iter().collect();
        for (name, place) in std::mem::take(&mut imports.opened) {
            let path = Path::new(&name);
            let mut found = self
                .searcher
                .find(&name, &chain)
                .map(|(object, _)| object.path.clone());
            if let Some(directory) = place.file.parent().filter(|_| found.is_none()) {
                found = self.host.canonical(&directory.join(path)).ok();
            }
            program.depends_on_directory |= name.contains('/') && path.is_relative();
            program
                .located
                .extend(path.is_absolute().then(|| path.to_owned()));
            if let Some(found) = found.filter(|found| !executable::is_system(found)) {
                imports.extensions.entry(found).or_insert(place);
            }
        }
    }

    /// Adds the library names and paths in the program's own strings: it opens them itself.
    fn written_out(&self, imports: &Imports, program: &mut Program) {
        let chain: Vec<_> = self.executable.clone().into_iter().collect();
        let search_first = EarlierDirectory::rpath(&self.searcher.rpath_directories(&chain));
        let mut found = Vec::new();
        for (name, place) in &imports.libraries {
            let by = asker_in_source(place);
            found.extend(opened_names([name], &by, &search_first, Need::Named));
        }
        for (path, place) in &imports.library_paths {
            let path = PathBuf::from(path);
            found.extend(by_path(
                self.host,
                &path,
                &asker_in_source(place),
                Need::Used,
            ));
            program.located.insert(path);
        }
        for requirement in found {
            program.loads.extend(Load::required(&requirement, None));
            program.require([requirement]);
        }
    }
}

fn asker_in_source(place: &SourceLine) -> Asker {
    Asker {
        line: Some(place.line),
        ..asker(&place.name(), &place.file, None, ImportCertainty::Imported)
    }
}

/// Drops names for other CUDA majors than the one that the package is built for, where it also asks for the library of its
/// own: code that serves several majors names all of them, and takes the one that is loaded.
fn drop_other_majors(requirements: &mut Vec<LibraryRequirement>, cuda: u32) {
    let names: BTreeSet<String> = requirements
        .iter()
        .filter_map(|requirement| Some(requirement.named()?.to_owned()))
        .collect();
    requirements.retain(|requirement| {
        let Some(name) = requirement.named() else {
            return true;
        };
        let is_numbered = names::split(name).is_some_and(|(_, number)| !number.is_empty());
        requirement.need != Need::Named
            || !is_numbered
            || name_for(cuda, name).is_none_or(|own| own == name || !names.contains(&own))
    });
}

/// Returns the name of the same library for a CUDA major.
fn name_for(cuda: u32, name: &str) -> Option<String> {
    let (family, stem) = catalog().family_of(name)?;
    Some(format!("{stem}.so.{}", family.suffix(cuda)?))
}

/// Returns the requirements of one object of a package. Names in the constants of a system library do not count: it names
/// many libraries that it would use if they were there.
fn asked_by(
    host: &Host,
    consumer: &Consumer,
    candidate: &PackageCandidate,
    by: &Asker,
) -> Vec<LibraryRequirement> {
    let path = &consumer.object.path;
    let by = Asker {
        file: path.clone(),
        ..by.clone()
    };
    let is_loaded = candidate
        .framework
        .map_or(&[][..], |framework| &framework.core_objects)
        .iter()
        .any(|file| path.ends_with(file));
    let need = if is_loaded {
        Need::Essential
    } else {
        Need::Used
    };
    let mut asked = linked(host, consumer, &by, need);
    if let Some(bundled) = framework_records::bundled(consumer, &by) {
        asked.push(bundled);
    } else if candidate.scans_objects()
        && (candidate.holds(path) || !executable::is_system(path))
        // A renamed copy of one of NVIDIA's libraries is the package's own affair.
        && catalog().family_of_bundled(path).is_none()
    {
        asked.extend(written_in(host, consumer, &by).0);
    }
    asked
}

/// True if the objects are linked against one library in several SONAMEs.
fn has_variants(requirements: &[LibraryRequirement]) -> bool {
    let mut sonames: BTreeMap<&str, &str> = BTreeMap::new();
    for requirement in requirements {
        if requirement.need == Need::Used
            && let Some((stem, suffix)) = requirement.named().and_then(names::split)
            && *sonames.entry(stem).or_insert(suffix) != suffix
        {
            return true;
        }
    }
    false
}
