//! What an inventory says: installations, their files, and what is wrong with them. Facts with their evidence; words are
//! made elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize, Serializer};

use super::owners::{Open, Who};
use crate::catalog::{Family, catalog, first_number, soname_number};
use crate::formats::fatbin::{self, Architecture};
use crate::formats::names;
use crate::formats::symbols::{Exports, Symbol};
use crate::host::FileId;
use crate::text;
use crate::version::{ComputeCapability, CudaVersion, DriverVersion, Version};

/// One family as it stands in one place.
#[derive(Clone, Debug, Serialize)]
pub struct Installation {
    pub family: String,
    /// The number in its SONAMEs; none where the family has one installation whatever the number.
    pub soname: Option<u32>,
    pub version: Option<Version>,
    pub version_from: Option<VersionSource>,
    /// The version of its shim, by whose names that file opens the others.
    #[serde(skip)]
    pub shim: Option<Version>,
    /// All that says something about its version, strongest first.
    pub evidence: Vec<VersionEvidence>,
    pub cuda: Option<u32>,
    /// The same to the minor, where a file says so.
    pub built_for: Option<CudaVersion>,
    pub origin: Origin,
    #[serde(serialize_with = "text::path")]
    pub directory: PathBuf,
    /// Other directories that hold links to the same files.
    #[serde(serialize_with = "text::paths")]
    pub also: Vec<PathBuf>,
    pub package: Option<String>,
    /// Files and directories through which others than root and the user could have put it there.
    pub open: Vec<Open>,
    /// A person or an administrator has named its place.
    #[serde(skip)]
    pub is_named: bool,
    /// How early the loader comes to its directory; none where it never does.
    #[serde(skip)]
    pub position: Option<usize>,
    /// Whether the loader gives it to a program that has no search path of its own.
    pub loader_gives: bool,
    pub files: Vec<Member>,
    /// Which GPUs it has code for; empty where nobody asked, or where it has no code for any.
    pub serves: BTreeMap<ComputeCapability, Code>,
    /// For a libcuda: on which kernel drivers it may stand in for a newer one.
    pub forward_compatibility: Option<ForwardCompatibility>,
    pub problems: Vec<Problem>,
}

/// By section, the number of entries for each architecture.
pub type GpuCode = BTreeMap<String, BTreeMap<Architecture, u32>>;

/// What a GPU finds in an installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Code {
    /// Code that the driver compiles at the first start.
    Ptx,
    /// Machine code.
    Sass,
}

impl Code {
    /// The best that a GPU finds among these.
    fn of(made_for: &BTreeSet<Architecture>, gpu: ComputeCapability) -> Option<Code> {
        let serving = made_for.iter().filter(|made_for| made_for.serves(gpu));
        let code = serving.map(|made_for| match made_for.kind {
            fatbin::Kind::Sass => Code::Sass,
            fatbin::Kind::Ptx => Code::Ptx,
        });
        code.max()
    }
}

/// One file of an installation.
#[derive(Clone, Debug, Serialize)]
pub struct Member {
    pub stem: String,
    pub soname: String,
    /// The names it has in its directory.
    pub names: Vec<String>,
    #[serde(serialize_with = "text::path")]
    pub path: PathBuf,
    pub size: u64,
    #[serde(flatten)]
    pub id: FileId,
    #[serde(skip)]
    pub modified: (i64, i64),
    /// Who owns it, and who may do what with it, as `chmod` has it.
    pub uid: u32,
    pub gid: u32,
    #[serde(serialize_with = "octal")]
    pub mode: u32,
    pub build_id: Option<String>,
    pub needed: Vec<String>,
    /// What it imports, by the SONAME of the file that must have it.
    #[serde(skip)]
    pub imports: BTreeMap<String, Vec<Symbol>>,
    #[serde(skip)]
    pub exports: Exports,
    /// The symbols it exports, as `name@version`; only where they were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub symbols: Option<Vec<String>>,
    /// How many entries of GPU code each section holds for each architecture; empty where nobody asked.
    pub code: GpuCode,
    pub glibc: Option<Version>,
    pub glibcxx: Option<Version>,
    /// Its DT_RPATH and DT_RUNPATH as they are written.
    pub rpath: Option<String>,
    pub runpath: Option<String>,
    /// The directories of its DT_RPATH, in order.
    #[serde(skip)]
    pub searched: Vec<Searched>,
}

/// A directory that a library's own search path names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Searched {
    pub directory: PathBuf,
    /// It was written with `$ORIGIN`, and is another one when the library is opened through a view.
    pub from_origin: bool,
}

/// How an installation came to where it is. Where two sources name one directory, the first of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    Wheel,
    /// Packed into a package for its own use, perhaps renamed by auditwheel.
    Bundled,
    Conda,
    Compat,
    Stub,
    Driver,
    Toolkit,
    /// What an environment module loads.
    Module,
    /// A store of packages by hash: Nix, Spack.
    Store,
    Debian,
    /// ScanCache of a loose installation once `rpm` has been asked.
    Rpm,
    Loose,
}

/// What says something about a version, and what it says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct VersionEvidence {
    pub source: VersionSource,
    pub version: Version,
    /// The file or the package that says so.
    pub by: String,
}

/// Where a version was read, strongest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum VersionSource {
    /// A constant or a text in the library itself.
    Contents,
    PackageRecord,
    FileName,
    /// A C header beside it, which may be another installation's.
    Header,
}

/// What `.note.cuda.fwd_compatibility` of a libcuda says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForwardCompatibility {
    pub cuda: Option<CudaVersion>,
    pub kernel_branches: Vec<u32>,
}

/// What is wrong with an installation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(tag = "problem", rename_all = "kebab-case")]
pub enum Problem {
    /// Files that must come with it do not.
    Missing {
        stems: Vec<String>,
    },
    OtherVersionAmongTheRest {
        file: String,
        version: Version,
    },
    PackageSaysOtherwise {
        package: String,
        version: Version,
    },
    NameSaysOtherwise {
        file: String,
        version: Version,
    },
    SizeIsNotRecorded {
        file: String,
        recorded: u64,
    },
    /// Another file in its directory has the same SONAME; the loader takes only one of them.
    SecondOfOneSoname {
        soname: String,
        file: String,
    },
    Truncated {
        file: String,
    },
    WorldWritable {
        #[serde(serialize_with = "text::path")]
        path: PathBuf,
    },
    /// A library to link against, which fails at run time, stands where the loader looks.
    StubOnSearchPath {
        by: Finder,
    },
    /// The kernel's driver is newer than what is to stand in for it.
    CompatOlderThanKernel {
        kernel: DriverVersion,
    },
    /// The user-space half of a driver whose kernel half is of another version.
    NotTheKernelsDriver {
        kernel: DriverVersion,
    },
}

/// How the loader finds what has no other path to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finder {
    LibraryPath,
    Cache,
    DefaultDirectory,
}

impl Installation {
    /// `cuDNN 9.1.0`, as a message names it.
    pub fn title(&self) -> String {
        match self.version {
            Some(version) => format!("{} {version}", self.family),
            None => self.family.clone(),
        }
    }

    pub(super) fn is_incomplete(&self) -> bool {
        self.problems.iter().any(|problem| matches!(problem, Problem::Missing { .. }))
    }

    /// Takes up the same files as they are found in another directory, with what is known only there.
    pub(super) fn is_also(&mut self, other: Installation) {
        self.also.push(other.directory);
        let is_of_place = |problem: &Problem| matches!(problem, Problem::WorldWritable { .. });
        let problems = other.problems.into_iter().filter(is_of_place);
        let new: Vec<Problem> = problems.filter(|problem| !self.problems.contains(problem)).collect();
        self.problems.extend(new);
        self.is_named |= other.is_named;
        if other.open.iter().all(|open| open.who != Who::CurrentDirectory) {
            self.open.retain(|open| open.who != Who::CurrentDirectory);
        }
        if self.package.is_none() && other.package.is_some() {
            self.package = other.package;
            self.version = other.version;
            self.version_from = other.version_from;
            self.evidence = other.evidence;
        }
    }

    /// [`Family::is_shim`] of one of its files.
    pub fn is_shim(&self, stem: &str) -> bool {
        catalog().family(&self.family).is_some_and(|family| family.is_shim(stem, self.soname))
    }

    /// True if the shim of another installation works over this one, which must be complete, of one version and undamaged; its own
    /// shim does not matter.
    pub fn works_under_shim_of(&self, other: &Installation) -> bool {
        let is_shim = |file: &String| self.is_shim(names::split(file).map_or("", |(stem, _)| stem));
        let is_whole = self.problems.iter().all(|problem| match problem {
            Problem::Missing { stems } => stems.iter().all(|stem| self.is_shim(stem)),
            Problem::OtherVersionAmongTheRest { file, .. } | Problem::Truncated { file } => is_shim(file),
            _ => true,
        });
        let works =
            |family: &Family| family.shim_works_over(self.soname, other.shim.or(other.version), self.version);
        is_whole && self.soname == other.soname && catalog().family(&self.family).is_some_and(works)
    }

    pub fn member(&self, stem: &str) -> Option<&Member> {
        self.files.iter().find(|member| member.stem == stem)
    }

    pub fn has_file(&self, id: FileId) -> bool {
        self.files.iter().any(|member| member.id == id)
    }

    /// Every directory that it can be reached through.
    pub fn directories(&self) -> impl Iterator<Item = &Path> {
        std::iter::once(self.directory.as_path()).chain(self.also.iter().map(PathBuf::as_path))
    }

    /// Whether one of its files can stand in a view under this name.
    pub fn offers(&self, name: &str) -> bool {
        let is_offered =
            |member: &Member| member.soname == name || member.view_names(self.version).contains(name);
        self.files.iter().any(is_offered)
    }

    /// What each GPU finds in it: the least of what it finds in each of the files that must come with it and have code,
    /// since it needs them all. Nothing where one has nothing for it.
    pub(super) fn code_for(
        &self,
        gpus: impl Iterator<Item = ComputeCapability>,
        required: &[&str],
    ) -> BTreeMap<ComputeCapability, Code> {
        let with_code = self.files.iter().filter(|member| !member.code.is_empty());
        let needed: Vec<BTreeSet<Architecture>> = with_code
            .filter(|member| required.contains(&member.stem.as_str()))
            .map(Member::made_for)
            .collect();
        let least = |gpu| {
            let found: Option<Vec<Code>> = needed.iter().map(|made_for| Code::of(made_for, gpu)).collect();
            Some((gpu, found?.into_iter().min()?))
        };
        if needed.is_empty() { BTreeMap::new() } else { gpus.filter_map(least).collect() }
    }
}

impl Member {
    /// The architectures that it has code for.
    pub fn made_for(&self) -> BTreeSet<Architecture> {
        self.code.values().flat_map(BTreeMap::keys).copied().collect()
    }

    /// Whether it has a DT_RUNPATH, which shields it from every DT_RPATH.
    pub fn has_runpath(&self) -> bool {
        self.runpath.is_some()
    }

    /// Every name that somebody may ask for it by: without a version, the SONAME, each prefix of its own
    /// version, and those of its directory that do not say what it is not. cuDNN asks for the longest first,
    /// and a view that has only the SONAME loses to any directory that has the longer one.
    pub fn view_names(&self, version: Option<Version>) -> BTreeSet<String> {
        let is_true = |name: &&String| self.is_true_name(name, version);
        let mut names: BTreeSet<String> = self.names.iter().filter(is_true).cloned().collect();
        names.insert(self.soname.clone());
        let bare = format!("{}.so", self.stem);
        let is_version = |version: &Version| self.soname_number() == Some(version.major());
        if let Some(version) = version.filter(|version| self.soname.starts_with(&bare) && is_version(version))
        {
            for count in 1..=version.numbers().len() {
                names.insert(format!("{bare}.{}", version.truncated(count)));
            }
        }
        names.insert(bare);
        names
    }

    /// A link `libcudnn.so.8` to a libcudnn.so.9 is found under a name that is not its own.
    fn is_true_name(&self, name: &str, version: Option<Version>) -> bool {
        let Some((stem, suffix)) = names::split(name) else { return false };
        let is_own_stem = stem == self.stem || names::without_hash(stem) == Some(self.stem.as_str());
        let number = self.soname_number();
        let agrees = || {
            let said = suffix.parse::<Version>().ok();
            said.zip(version).is_some_and(|(said, version)| said.agrees_with(&version))
        };
        is_own_stem && (suffix.is_empty() || number.is_none() || first_number(suffix) == number || agrees())
    }

    /// The number in its SONAME.
    fn soname_number(&self) -> Option<u32> {
        soname_number(&self.soname)
    }
}

impl Origin {
    /// Each origin with its only spelling, in order.
    const WORDS: [(Origin, &str); 12] = [
        (Origin::Wheel, "wheel"),
        (Origin::Bundled, "bundled"),
        (Origin::Conda, "conda"),
        (Origin::Compat, "compat"),
        (Origin::Stub, "stub"),
        (Origin::Driver, "driver"),
        (Origin::Toolkit, "toolkit"),
        (Origin::Module, "module"),
        (Origin::Store, "store"),
        (Origin::Debian, "debian"),
        (Origin::Rpm, "rpm"),
        (Origin::Loose, "loose"),
    ];

    pub fn all() -> impl Iterator<Item = Origin> {
        Self::WORDS.into_iter().map(|(origin, _)| origin)
    }

    pub fn word(self) -> &'static str {
        Self::WORDS[self as usize].1
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.word())
    }
}

/// `0644`
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands references")]
fn octal<S: Serializer>(mode: &u32, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&format_args!("{:04o}", mode & 0o7777))
}
