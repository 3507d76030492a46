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
use super::model::{Package, Pip, Program};
use super::note::Note;
use super::opens::{is_packer, loads};
use super::python::Python;
use crate::catalog::catalog;
use crate::error::Error;
use crate::formats::names;
use crate::host::Host;
use crate::inventory;
use crate::loader::closure::{Consumer, Walk};
use crate::loader::search::{Object, Searcher};
use crate::parallel;
use crate::requirements::{
    Asker, Demand, EarlierDirectory, ImportCertainty, LibraryRequirement, Load, MachineRequirement,
    Need,
};

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
        let brought = of_uses.installed.keys().cloned();
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
            let consumers = self.consumers(&candidate);
            program.notes.extend(self.moved(&candidate));
            if candidate.is_imported() {
                self.add_extensions(&candidate, &consumers, program);
                for file in candidate.directories.iter().chain(&candidate.extensions) {
                    program.watched.insert(file.clone());
                }
            }
            match self.assess(&candidate, &consumers) {
                Some(assessed) => self.add(assessed, &candidate, consumers, program),
                // The package requires nothing, but maps the libraries that it bundles.
                None if candidate.is_imported() => {
                    for consumer in consumers.iter().filter(|consumer| is_packer(consumer)) {
                        program.loads.push(Load::path(&consumer.object.path));
                    }
                }
                None => {}
            }
        }
    }

    /// Adds the modules of a package that are linked against the libraries of another framework.
    fn add_extensions(
        &self,
        candidate: &PackageCandidate,
        consumers: &[Consumer],
        program: &mut Program,
    ) {
        let is_framework = candidate
            .framework
            .is_some_and(|framework| !framework.own_libraries.is_empty());
        if is_framework || candidate.is_brought {
            return;
        }
        let name = self.distribution(candidate).unwrap_or(&candidate.name);
        for Consumer { object, .. } in consumers {
            let mut places = candidate.directories.iter().chain(&candidate.extensions);
            if places.any(|place| object.path.starts_with(place))
                && inventory::is_linked_against_framework(&object.needed)
            {
                let extension = object.path.clone();
                program.watched.insert(extension.clone());
                program.extensions.insert(extension, name.to_owned());
            }
        }
    }

    /// The objects of a package that use libraries.
    fn consumers(&self, candidate: &PackageCandidate) -> Vec<Consumer> {
        let mut walk = Walk::new(
            self.searcher,
            self.executable.clone(),
            executable::is_library,
        );
        for path in candidate.objects(self.host) {
            if let Some(object) = self.searcher.object(&path) {
                walk.add_closure(object);
            }
        }
        // One of NVIDIA's libraries that a package keeps for itself is not a consumer.
        walk.consumers.retain(|consumer| {
            let name = consumer.object.path.file_name().and_then(OsStr::to_str);
            !name.is_some_and(executable::is_library)
        });
        walk.consumers
    }

    fn add(
        &self,
        assessed: Assessed,
        candidate: &PackageCandidate,
        consumers: Vec<Consumer>,
        program: &mut Program,
    ) {
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
            for load in loads(self.host, candidate, version, &consumers, &requirements) {
                program.loads.push(Load {
                    is_guess: !candidate.is_imported(),
                    ..load
                });
            }
        }
        for consumer in consumers {
            let path = &consumer.object.path;
            program.watched.extend(path.parent().map(Path::to_owned));
            program.watched.insert(path.clone());
            program.own_directories.extend(consumer.search_later);
        }
        program.watched.insert(package.directory.clone());
        program.packages.push(package);
        let before = program.requirements.len();
        program.require(requirements);
        program.require(code);
        if candidate.is_imported() {
            for requirement in &program.requirements[before..] {
                program.watched.insert(requirement.asker().file.clone());
            }
            program.watched.extend(read_from);
        }
        program.notes.extend(note);
    }

    /// A note for each variable that is set and that an imported framework reads.
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
        let installed = self.candidates.installed;
        let reader = candidate.framework.map(|framework| FrameworkReader {
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
        let asker = asker(&title, &candidate.place, cuda_major, candidate.certainty);

        let mut requirements: Vec<LibraryRequirement> = parallel::map(consumers, |consumer| {
            asked_by(self.host, consumer, candidate, &asker)
        })
        .into_iter()
        .flatten()
        .collect();
        let asks = requirements.iter().any(LibraryRequirement::asks_for_family);
        if let Some(file) =
            reader.and_then(|reader| reader.cpu_only(package.version.as_deref(), asks))
        {
            package.cpu_only = true;
            // A package without CUDA has no requirements, and matters only if the program imports it.
            return candidate.is_imported().then(|| Assessed {
                package,
                requirements: Vec::new(),
                code: None,
                note: Some(without_cuda(title, &file)),
                read_from: Some(file),
            });
        }
        if let Some(reader) = reader {
            requirements.extend(reader.recorded(&asker, consumers, cuda.as_ref()));
        }
        if let Some(major) = cuda_major {
            drop_other_majors(&mut requirements, major);
        }
        if !requirements.iter().any(LibraryRequirement::asks_for_family) {
            return None;
        }
        if candidate.scans_objects() && has_variants(&requirements) {
            // It is built for several CUDA majors, and loads the libraries of one.
            only_try(&mut requirements);
        }
        if let Some(distribution) = distribution {
            let mut named = framework_records::named_versions(installed, &asker, distribution);
            if let Some(reader) = reader {
                named.extend(reader.declared(&asker, package.version.as_deref(), cuda_major));
            }
            // A compiled floor says more.
            named.retain(|one| one.declared().is_none() || !has_floor(&requirements, &one.family));
            requirements.extend(named);
        }
        if candidate.framework.is_some() {
            let version = package.version.as_deref();
            self.add_wheels(candidate, version, cuda_major, &mut requirements);
        }
        // A guess is needed no more than a name that is tried.
        if !candidate.is_imported() {
            only_try(&mut requirements);
        }
        let code = if candidate.is_imported() && !candidate.is_brought {
            self.code(candidate, reader, consumers, &asker)
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

    /// Adds the directories of NVIDIA's wheels to the names that this version of a framework opens there first.
    fn add_wheels(
        &self,
        candidate: &PackageCandidate,
        version: Option<&str>,
        cuda_major: Option<u32>,
        requirements: &mut [LibraryRequirement],
    ) {
        let wheels = framework_records::wheels(self.host, self.candidates.sites, cuda_major);
        for requirement in requirements {
            let Some(name) = requirement.named() else {
                continue;
            };
            let stem = names::split(name).map_or(name, |(stem, _)| stem);
            if framework_records::opens_by_path(candidate, version, stem) {
                let own = std::mem::replace(&mut requirement.search_first, wheels.clone());
                requirement.search_first.extend(own);
            }
        }
    }

    /// The GPUs that it has code for: those that it records, or else those in its own objects that are linked against
    /// NVIDIA's libraries.
    fn code(
        &self,
        candidate: &PackageCandidate,
        reader: Option<FrameworkReader<'_>>,
        consumers: &[Consumer],
        asker: &Asker,
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
        let asker = Asker {
            file: found.file,
            ..asker.clone()
        };
        Some(MachineRequirement {
            demand: Demand::Code(found.value),
            by: asker,
            only_with_gpu: true,
            is_advice: !is_written,
        })
    }

    /// The distribution that brings a package.
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
            let asker = asker_in_source(place);
            found.extend(opened_names([name], &asker, &search_first, Need::Named));
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

/// The note of a framework that is imported and built without CUDA, as `file` tells.
fn without_cuda(package: String, file: &Path) -> Note {
    if file == Path::new(GPU_NODE) {
        Note::CrashesWithoutGpu { package }
    } else {
        Note::CpuOnly {
            package,
            file: file.to_owned(),
        }
    }
}

fn only_try(requirements: &mut [LibraryRequirement]) {
    for requirement in requirements {
        requirement.need = Need::Named;
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

/// The name of the same library for a CUDA major.
fn name_for(cuda: u32, name: &str) -> Option<String> {
    let (family, stem) = catalog().family_of(name)?;
    Some(format!("{stem}.so.{}", family.suffix(cuda)?))
}

/// The requirements of one object of a package. Names in the constants of a system library do not count: it names
/// many libraries that it would use if they were there.
fn asked_by(
    host: &Host,
    consumer: &Consumer,
    candidate: &PackageCandidate,
    asker: &Asker,
) -> Vec<LibraryRequirement> {
    let path = &consumer.object.path;
    let asker = Asker {
        file: path.clone(),
        ..asker.clone()
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
    let mut asked = linked(host, consumer, &asker, need);
    if candidate
        .framework
        .is_some_and(|framework| framework.opens_lazily)
    {
        for symbols in asked.iter_mut().filter(|one| one.is_symbols()) {
            symbols.need = Need::Named;
        }
    }
    if let Some(bundled) = framework_records::bundled(consumer, &asker) {
        asked.push(bundled);
    } else if candidate.scans_objects()
        && (candidate.holds(path) || !executable::is_system(path))
        // A renamed copy of one of NVIDIA's libraries is the package's own affair.
        && catalog().family_of_bundled(path).is_none()
    {
        asked.extend(written_in(host, consumer, &asker).0);
    }
    asked
}

fn has_floor(requirements: &[LibraryRequirement], family: &str) -> bool {
    requirements
        .iter()
        .any(|one| one.family == family && one.floor().is_some())
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
