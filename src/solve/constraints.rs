//! The hard rules: each is a function that returns the reason against an installation. Rules for one installation come
//! first, then rules for two picks.
//!
//! That two files export the symbols that they import from each other makes a table of nvJitLink and cuSPARSE versions
//! unnecessary. Each file that a family requires must have code, not only some of them: cuDNN 9.11 and later have
//! leftovers for Pascal in one library and none in the others. Programs that run on older GPUs too link libraries made
//! for some GPUs only (cuSPARSELt from Ampere on, NVSHMEM, NCCL), so missing code there is a caution. Machine code does
//! not work across systems on a chip and others.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use super::Reason;
use super::gpus;
use super::slot::Slot;
use super::world::World;
use crate::catalog::{Family, knowledge};
use crate::formats::symbols::RequiredSymbol;
use crate::host::FileId;
use crate::inventory::{Installation, Inventory, Member, Origin, Problem, WritablePath};
use crate::program::Program;
use crate::range::Range;
use crate::requirements::{Before, LibraryRequirement, Need, PinnedTo, Want};
use crate::version::Version;

/// A file that the loader takes for some requester, whatever `LD_LIBRARY_PATH` says.
#[derive(Clone, Debug)]
pub(super) struct Forced {
    pub file: FileId,
    pub directory: PathBuf,
    pub by: String,
}

type Rule = fn(&Slot<'_>, &Installation, &World<'_>) -> Option<Reason>;

/// The rules for one installation. The first that it breaks is reported.
const RULES: &[Rule] = &[
    name,
    wanted,
    stub,
    driver,
    intact,
    own_symbols,
    renamed,
    cuda_of_asker,
    cuda_of_program,
    cuda_that_is_allowed,
    known_bad,
    failed_proofs,
    gpus::code,
    symbols_of_target,
    glibc,
];

/// The reason why an installation cannot fill a slot, whatever the other picks. It must have every forced
/// file: where two search paths lead to different installations, none has both.
pub(super) fn judge(
    slot: &Slot<'_>,
    installation: &Installation,
    forced: &[Forced],
    world: &World<'_>,
) -> Option<Reason> {
    let mut rules = RULES.iter();
    if let Some(reason) = rules.find_map(|rule| rule(slot, installation, world)) {
        return Some(reason);
    }
    if let Some(other) = forced
        .iter()
        .find(|forced| !installation.has_file(forced.file))
    {
        return Some(Reason::LoaderTakesAnother {
            directory: other.directory.clone(),
            by: other.by.clone(),
        });
    }
    let is_forced = !forced.is_empty();
    if let Some(open) = open(installation, world.program) {
        let is_mapped = installation
            .member(&slot.family.main)
            .or_else(|| installation.files.first())
            .is_some_and(|member| world.policy.mapped.contains(&member.id));
        if !is_forced && !is_mapped && !is_given(slot, installation, world.inventory) {
            return Some(Reason::Writable { open: open.clone() });
        }
    }
    if slot.ignores_rpath {
        return None;
    }
    hijacked(slot, installation, is_forced, world.inventory)
}

/// The files that requesters' own search paths lead to, each once, in the order of requirements.
pub(super) fn forced(requirements: &[LibraryRequirement], inventory: &Inventory) -> Vec<Forced> {
    let mut found: Vec<Forced> = Vec::new();
    for forced in requirements
        .iter()
        .filter_map(|requirement| forced_by(requirement, inventory))
    {
        if found.iter().all(|known| known.file != forced.file) {
            found.push(forced);
        }
    }
    found
}

pub(super) fn forced_by(requirement: &LibraryRequirement, inventory: &Inventory) -> Option<Forced> {
    let name = requirement.named()?;
    requirement.search_first.iter().find_map(|first| {
        let file = inventory.file_in(&first.directory, name)?;
        Some(Forced {
            file,
            directory: first.directory.clone(),
            by: requirement.by.name.clone(),
        })
    })
}

/// The directories that the loader searches before `LD_LIBRARY_PATH` for libraries that a member asks for, each
/// with the owner of the search path: the member's own DT_RPATH, then those of its requesters. A DT_RUNPATH shields it
/// from all of them. A forced installation is opened in its own directory; any other through the view, where `$ORIGIN` is
/// the view.
pub(super) fn searched_first<'s>(
    slot: &'s Slot<'_>,
    installation: &Installation,
    member: &'s Member,
    is_forced: bool,
) -> Vec<(&'s Path, String)> {
    if member.runpath.is_some() {
        return Vec::new();
    }
    let own = member
        .searched
        .iter()
        .filter(|searched| is_forced || !searched.from_origin)
        .map(|searched| (searched.directory.as_path(), installation.title()));
    // A name that is only tried is opened at run time, which ends the chain of DT_RPATH.
    let inherited = slot
        .requirements
        .iter()
        .filter(|r| r.named().is_some() && r.need != Need::Named)
        .flat_map(|requirement| {
            requirement
                .search_first
                .iter()
                .filter(|first| first.rule == Before::Rpath)
                .map(|first| (first.directory.as_path(), requirement.by.name.clone()))
        });
    own.chain(inherited).collect()
}

/// A reason if search paths lead the installation's own files to those of another.
fn hijacked(
    slot: &Slot<'_>,
    installation: &Installation,
    is_forced: bool,
    inventory: &Inventory,
) -> Option<Reason> {
    for member in &installation.files {
        let searched = searched_first(slot, installation, member, is_forced);
        if searched.is_empty() || finds_own_files(installation, member) {
            continue;
        }
        for name in own_names(slot.family, installation, member) {
            let first = searched.iter().find_map(|(directory, by)| {
                Some((inventory.file_in(directory, &name)?, directory, by))
            });
            if let Some((file, directory, by)) = first
                && !installation.has_file(file)
            {
                return Some(Reason::LoaderTakesAnother {
                    directory: directory.to_path_buf(),
                    by: by.clone(),
                });
            }
        }
    }
    None
}

/// True if the first directories of a member's own search path lead to its installation.
fn finds_own_files(installation: &Installation, member: &Member) -> bool {
    member
        .searched
        .iter()
        .take_while(|searched| searched.from_origin)
        .any(|searched| installation.is_in(&searched.directory))
}

/// The names by which a member asks for others of its own installation: those that it is linked against; and
/// in a family that opens its own members, any that the main one may try.
fn own_names(family: &Family, installation: &Installation, member: &Member) -> BTreeSet<String> {
    let opens_all = family.dlopens_own_members && member.stem == family.main;
    let mut names = BTreeSet::new();
    for other in &installation.files {
        if other.id == member.id {
            continue;
        }
        if member.needed.contains(&other.soname) {
            names.insert(other.soname.clone());
        }
        if opens_all {
            names.extend(other.view_names(installation.version));
            names.extend(other.view_names(installation.shim));
        }
    }
    names
}

pub(super) fn share_asker(a: &Slot<'_>, b: &Slot<'_>) -> bool {
    !a.askers.is_disjoint(&b.askers)
}

/// The reason why two picks cannot be in one process.
pub(super) fn together(
    a: &Installation,
    b: &Installation,
    share_asker: bool,
    world: &World<'_>,
) -> Option<Reason> {
    if let (Some(has), Some(needed)) = (a.cuda, b.cuda)
        && has != needed
        && (share_asker || is_linked_against(a, b) || is_linked_against(b, a))
    {
        return Some(Reason::OtherCuda {
            has,
            needed,
            by: b.title(),
        });
    }
    driver_floor(a, b)
        .or_else(|| driver_floor(b, a))
        .or_else(|| gpus::ptx(a, b, world))
        .or_else(|| gpus::ptx(b, a, world))
        .or_else(|| lacking(a, b))
        .or_else(|| lacking(b, a))
}

/// It offers every requested name, or one of those that are only tried.
fn name(slot: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    if !slot.concerns(installation) {
        let names = slot.names();
        return Some(other_name(
            names.first().map_or("", String::as_str),
            slot,
            installation,
        ));
    }
    let (tried, asked): (Vec<&LibraryRequirement>, Vec<&LibraryRequirement>) = slot
        .requirements
        .iter()
        .filter(|requirement| requirement.asks_for_family())
        .partition(|requirement| requirement.need == Need::Named);
    let is_tried = asked.is_empty();
    let names = if is_tried { tried } else { asked };
    let mut lacking = None;
    for name in names.into_iter().filter_map(LibraryRequirement::named) {
        if installation.offers(name) {
            if is_tried {
                return None;
            }
        } else if lacking.is_none() {
            lacking = Some(name);
        }
    }
    Some(other_name(lacking?, slot, installation))
}

fn other_name(asked: &str, slot: &Slot<'_>, installation: &Installation) -> Reason {
    Reason::OtherName {
        asked: asked.to_owned(),
        has: installation
            .member(&slot.family.main)
            .map(|member| member.soname.clone()),
    }
}

/// It has what each requirement wants. If it lacks several, a pin is named first, then a range, a lock, a version.
fn wanted(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> Option<Reason> {
    let mut first: Option<(u8, Reason)> = None;
    for requirement in &slot.requirements {
        let by = requirement.by.name.clone();
        let (rank, reason) = match &requirement.want {
            Want::Pinned(pin) => (0, not_pinned(pin, installation, by)),
            Want::Within(range) => (1, not_within(range, installation, by)),
            // Files of an offer can be compared once they are here.
            Want::BuildIds(_) if world.is_offer(installation) => continue,
            Want::BuildIds(files) => (2, not_recorded(files, installation, by)),
            Want::AtLeast(needed) => (3, not_at_least(*needed, installation, by)),
            Want::Exactly(needed) => (3, not_exactly(*needed, installation, by)),
            Want::Rest(shim) => {
                let works = slot.family.shim_works_over(
                    installation.soname,
                    Some(*shim),
                    installation.version,
                );
                let reason = Reason::NotThatVersion { needed: *shim, by };
                (3, (!works).then_some(reason))
            }
            // `name` and `symbols_of_target` judge names and symbols. A preference rejects nothing.
            Want::Name(_)
            | Want::Symbols(_)
            | Want::Declared(_)
            | Want::Recorded(_)
            | Want::Preferred(_) => continue,
        };
        if let Some(reason) = reason
            && first.as_ref().is_none_or(|(earlier, _)| rank < *earlier)
        {
            first = Some((rank, reason));
        }
    }
    first.map(|(_, reason)| reason)
}

fn not_pinned(pin: &PinnedTo, installation: &Installation, by: String) -> Option<Reason> {
    let is_pinned = match pin {
        PinnedTo::Version(version) => installation
            .version
            .is_some_and(|has| has.agrees_with(version)),
        PinnedTo::Directory(directory) => installation.is_in(directory),
    };
    let pin = pin.clone();
    (!is_pinned).then_some(Reason::NotThePinned { pin, by })
}

fn not_within(range: &Range, installation: &Installation, by: String) -> Option<Reason> {
    if range.is_any() {
        return None;
    }
    let Some(version) = installation.version else {
        return Some(Reason::VersionUnknown { by });
    };
    let range = range.clone();
    (!range.allows(&version)).then_some(Reason::OutOfRange { range, by })
}

fn not_recorded(
    files: &BTreeMap<String, String>,
    installation: &Installation,
    by: String,
) -> Option<Reason> {
    let other = installation.files.iter().find(|member| {
        let recorded = files.get(&member.soname);
        recorded.is_some() && recorded != member.build_id.as_ref()
    })?;
    let file = other.soname.clone();
    Some(Reason::OtherBuild { file, by })
}

/// The program was compiled against `needed`.
fn not_at_least(needed: Version, installation: &Installation, by: String) -> Option<Reason> {
    let Some(version) = installation.version else {
        return Some(Reason::VersionUnknown { by });
    };
    if version.serves_builds_of(&needed) {
        None
    } else if version.major() == needed.major() {
        Some(Reason::TooOld { needed, by })
    } else {
        Some(Reason::OtherMajor { needed, by })
    }
}

/// The program brings a part of `needed`.
fn not_exactly(needed: Version, installation: &Installation, by: String) -> Option<Reason> {
    let Some(version) = installation.version else {
        return Some(Reason::VersionUnknown { by });
    };
    (!version.agrees_with(&needed)).then_some(Reason::NotThatVersion { needed, by })
}

fn stub(_: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    (installation.origin == Origin::Stub).then_some(Reason::Stub)
}

/// The driver's user-space libraries are of the kernel driver's version, or newer ones whose own note allows this branch
/// of kernel drivers.
fn driver(slot: &Slot<'_>, installation: &Installation, world: &World<'_>) -> Option<Reason> {
    let inventory = world.inventory;
    if slot.family.name != "driver" {
        return None;
    }
    let running = inventory.driver.as_ref()?;
    let kernel = running.version;
    let Some(version) = installation.version else {
        // Tegra's libcuda.so.1.1 carries no version; it fits where no other installation has the kernel's version.
        let is_only = installation.origin != Origin::Compat
            && !inventory.installations.iter().any(|other| {
                other.is_driver() && other.origin != Origin::Compat && other.version == Some(kernel)
            });
        return (!is_only).then(|| Reason::VersionUnknown {
            by: format!("the kernel's driver {kernel}"),
        });
    };
    if installation.origin != Origin::Compat {
        return (version != kernel).then_some(Reason::NotTheKernelsDriver { kernel });
    }
    let cuda = installation
        .forward_compatibility
        .as_ref()
        .and_then(|note| note.cuda);
    // nvidia-container-toolkit#1679: on Thor only the CUDA versions count.
    if version < kernel || running.is_stand_in() && cuda <= running.cuda {
        return Some(Reason::CompatNotNewer { kernel });
    }
    match &installation.forward_compatibility {
        Some(note) if note.kernel_branches.contains(&kernel.major()) => None,
        Some(note) => Some(Reason::CompatOtherBranch {
            kernel,
            branches: note.kernel_branches.clone(),
        }),
        None if version.major() > kernel.major() => None,
        None => Some(Reason::CompatNotNewer { kernel }),
    }
}

/// It is complete, of one version, and no file is truncated.
fn intact(_: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    installation
        .problems
        .iter()
        .find_map(|problem| match problem {
            Problem::Missing { stems } => Some(Reason::Incomplete {
                missing: stems.clone(),
            }),
            Problem::OtherVersionAmongTheRest { file, version } => Some(Reason::Mixed {
                file: file.clone(),
                version: *version,
            }),
            Problem::Truncated { file } => Some(Reason::Truncated { file: file.clone() }),
            _ => None,
        })
}

fn renamed(_: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    (installation.origin == Origin::Bundled
        && !installation.files.iter().any(|member| {
            member
                .names
                .iter()
                .any(|name| name.starts_with(&format!("{}.so", member.stem)))
        }))
    .then_some(Reason::Renamed)
}

/// It is built for the CUDA major of its askers.
fn cuda_of_asker(slot: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    let has = installation.cuda?;
    let other = slot
        .requirements
        .iter()
        .find(|r| r.named().is_some() && r.by.cuda.is_some_and(|cuda| cuda != has))?;
    Some(Reason::OtherCuda {
        has,
        needed: other.by.cuda?,
        by: other.by.name.clone(),
    })
}

/// If those who ask for it do not say for which CUDA, it is for the CUDA of the program's other needs. That concerns what only
/// the user asks for, and what is not here yet: two packages may be for two CUDAs.
fn cuda_of_program(
    slot: &Slot<'_>,
    installation: &Installation,
    world: &World<'_>,
) -> Option<Reason> {
    let has = installation.cuda?;
    let is_offer = world.is_offer(installation);
    if slot.requirements.iter().any(|one| one.by.cuda.is_some())
        || !is_offer
            && slot
                .requirements
                .iter()
                .any(|one| one.asks_for_family() && !one.is_by_person())
    {
        return None;
    }
    let of_needs = world
        .agreed_cuda()
        .map(|(cuda, by)| (cuda, by.name.clone()));
    let (needed, by) = of_needs.or_else(|| {
        let cuda = world.cuda_of_wheels().filter(|_| is_offer)?;
        Some((
            cuda,
            format!("the wheels of CUDA {cuda} that are installed"),
        ))
    })?;
    (needed != has).then_some(Reason::OtherCuda { has, needed, by })
}

/// The user allows its CUDA: to the minor where that is known.
fn cuda_that_is_allowed(
    slot: &Slot<'_>,
    installation: &Installation,
    world: &World<'_>,
) -> Option<Reason> {
    if slot.family.is_driver() {
        return None;
    }
    let has = installation.cuda?;
    let is_cuda = slot
        .family
        .version_is_cuda
        .then_some(installation.version)
        .flatten();
    let mut machine = world
        .requirements
        .iter()
        .filter_map(|requirement| requirement.machine());
    machine.find_map(|requirement| {
        let range = requirement.cuda_of_picks()?;
        let is_allowed =
            is_cuda.map_or_else(|| range.allows_some(has), |version| range.allows(&version));
        (!is_allowed).then(|| Reason::CudaOutOfRange {
            has: is_cuda.unwrap_or_else(|| Version::new(&[has])),
            range: range.clone(),
            by: requirement.by.name.clone(),
        })
    })
}

fn failed_proofs(_: &Slot<'_>, installation: &Installation, world: &World<'_>) -> Option<Reason> {
    world
        .policy
        .failed_proofs
        .iter()
        .any(|failed| {
            failed.family == installation.family && failed.directory == installation.directory
        })
        .then_some(Reason::FailedProof)
}

fn known_bad(_: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    let why = knowledge().bad_release(&installation.family, &installation.version?)?;
    Some(Reason::KnownBad {
        why: why.to_owned(),
    })
}

/// It exports all symbols that the program's own files import from it.
fn symbols_of_target(
    slot: &Slot<'_>,
    installation: &Installation,
    _: &World<'_>,
) -> Option<Reason> {
    slot.requirements
        .iter()
        .find_map(|requirement| match &requirement.want {
            Want::Symbols(symbols) => {
                lacks(installation, symbols.iter(), || requirement.by.name.clone())
            }
            _ => None,
        })
}

fn glibc(_: &Slot<'_>, installation: &Installation, world: &World<'_>) -> Option<Reason> {
    let has = world.inventory.glibc?;
    let needed = installation
        .files
        .iter()
        .filter_map(|member| member.glibc)
        .max()?;
    (needed > has).then_some(Reason::NeedsGlibc { needed, has })
}

/// How another user could have put an installation there, unless it is as safe as the program or the user has
/// named it. A search path of the program makes a directory its own if those who can change it have the program as well:
/// builds leave paths below `/tmp` behind. The directory that Python starts in is not its own.
pub(super) fn open<'c>(
    installation: &'c Installation,
    program: &Program,
) -> Option<&'c WritablePath> {
    if installation.open.is_empty()
        || installation.is_named
        || installation
            .directories()
            .any(|directory| program.is_installed_in(directory))
    {
        return None;
    }
    let is_own = installation
        .directories()
        .any(|directory| program.own_directories.contains(directory));
    installation
        .open
        .iter()
        .find(|open| !is_own || !program.is_of_owner(open.who))
}

/// True if the loader takes this installation in the unchanged environment, for each requested name that it finds.
fn is_given(slot: &Slot<'_>, installation: &Installation, inventory: &Inventory) -> bool {
    let names = slot.names();
    let mut given = names
        .iter()
        .filter_map(|name| inventory.file_given(name, &inventory.search.library_path))
        .peekable();
    inventory
        .search
        .preload
        .iter()
        .filter_map(|preload| preload.file)
        .any(|file| installation.has_file(file))
        || names.is_empty() && installation.loader_gives
        || given.peek().is_some() && given.all(|file| installation.has_file(file))
}

/// A CUDA major runs on its oldest driver or a newer one; forward compatibility counts as the newer.
fn driver_floor(driver: &Installation, library: &Installation) -> Option<Reason> {
    if !driver.is_driver() || library.is_driver() {
        return None;
    }
    let cuda = library.cuda?;
    let minor = library.built_for.map(|built| built.minor);
    let floor = knowledge().driver_floor(cuda, minor)?;
    let version = driver.version?;
    (version < floor).then_some(Reason::DriverTooOld {
        cuda,
        floor,
        driver: version,
    })
}

fn is_linked_against(installation: &Installation, other: &Installation) -> bool {
    other.files.iter().any(|member| {
        installation
            .files
            .iter()
            .any(|asking| asking.needed.contains(&member.soname))
    })
}

/// Its files export all symbols that they import from each other.
fn own_symbols(_: &Slot<'_>, installation: &Installation, _: &World<'_>) -> Option<Reason> {
    installation.files.iter().find_map(|importer| {
        let imports = installation
            .files
            .iter()
            .filter_map(|file| importer.imports.get(&file.soname))
            .flatten();
        lacks(installation, imports, || {
            format!("its own {}", importer.soname)
        })
    })
}

/// `exporter` exports all symbols that the files of `importer` import from it.
pub(super) fn lacking(importer: &Installation, exporter: &Installation) -> Option<Reason> {
    let imports = exporter.files.iter().flat_map(|member| {
        importer
            .files
            .iter()
            .filter_map(|file| file.imports.get(&member.soname))
            .flatten()
    });
    lacks(exporter, imports, || importer.title())
}

pub(super) fn lacks<'s>(
    installation: &Installation,
    symbols: impl Iterator<Item = &'s RequiredSymbol>,
    by: impl FnOnce() -> String,
) -> Option<Reason> {
    let mut missing = symbols.filter(|symbol| {
        installation
            .files
            .iter()
            .any(|member| member.soname == symbol.file && member.exports.lack(symbol))
    });
    let first = missing.next()?;
    Some(Reason::LacksSymbols {
        count: 1 + missing.count(),
        first: first.name.clone(),
        by: by(),
    })
}
