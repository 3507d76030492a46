//! Each fault with the check that decides about it on a machine.

use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{AskedIn, NamedLibrary, installation};
use super::libraries;
use crate::catalog::{Argument, Capture, Fault as F, PossibleCause};
use crate::diagnose::Captures;
use crate::doctor::FindingEvidence;
use crate::inventory::{Origin, PartKind, distribution};
use crate::program::{Note, Package};
use crate::variables;
use crate::version::Version;

/// Faults of the program's own libraries and tools. `doctor` looks at those of the machine: its findings do not answer for these.
const OF_PROGRAM: [F; 5] = [
    F::ClaimedTwice,
    F::Damaged,
    F::Incomplete,
    F::Mixed,
    F::ToolkitMixed,
];

/// True if what `doctor` finds decides about the fault, whichever program fails.
pub(super) fn is_of_doctor(fault: F) -> bool {
    let row = fault.row();
    (row.section.is_some() || !row.cases.is_empty()) && !OF_PROGRAM.contains(&fault)
}

impl AskedIn<'_, '_, '_> {
    /// Checks a possible cause of a message with these facts; `None` if nothing tells.
    pub(super) fn ask(&self, possible: &PossibleCause, said: &Captures) -> Option<CheckAnswer> {
        if self.facts.is_elsewhere {
            return None;
        }
        let answer = self.check(possible, said)?;
        // Another program than the guessed one may have the fault. A copy that is here is here for all of them.
        let is_of_machine = answer.is_by_doctor
            || matches!(possible.cause, F::NotInstalled | F::HostCompilerMissing);
        (answer.is || is_of_machine || self.facts.is_program_known).then_some(answer)
    }

    fn check<'a>(&self, possible: &'a PossibleCause, said: &'a Captures) -> Option<CheckAnswer> {
        let PossibleCause {
            of,
            wanted,
            symbol,
            and,
            ..
        } = possible;
        let said_of = |argument: &'a Option<Argument>| Some(said.argument(argument.as_ref()?));
        let arguments = [of, wanted, symbol, and].map(said_of);
        // Of each: not asked for; asked for, and left out by this message; its text.
        if arguments.contains(&Some(None)) {
            return None;
        }
        let [of, wanted, symbol, and] = arguments.map(Option::flatten);
        let library = of.map(NamedLibrary::named);
        match possible.cause {
            F::NotInstalled => self.no_copy(&library?),
            F::NotOnPath => match of? {
                "nvcc" => self.part_not_on_path(PartKind::Nvcc),
                "ptxas" => self.not_found_by_framework(PartKind::Ptxas),
                "libdevice" => self.not_found_by_framework(PartKind::Libdevice),
                _ => self.not_on_path(&library?),
            },
            F::OtherMajor => {
                self.only_other_major(&library?, Self::number(said.get(Capture::Wanted)))
            }
            F::OlderFirst | F::NvjitlinkOlder => match (wanted, symbol) {
                (Some(wanted), _) => self.first_copy_older(&library?, wanted),
                (_, Some(symbol)) => self.lacks_what_another_has(&library?, symbol),
                _ => self.mixed(&library?),
            },
            F::Mixed => match wanted {
                Some(wanted) => self.built_for_other_cuda(&library?, &NamedLibrary::named(wanted)),
                None => self.mixed(&library?),
            },
            F::Incomplete => self.incomplete(&library?),
            F::Damaged => self.damaged(of?),
            F::BareName => self.bare_name_missing(&library?),
            F::Builtins => self.builtins_elsewhere(
                said.get(Capture::Soname)
                    .filter(|name| name.starts_with("libnvrtc-builtins.so")),
            ),
            F::ClaimedTwice => match and {
                Some(other) => self.both_installed(of?, other),
                None => self.two_packages(&library?),
            },
            F::CpuBuild => self.cpu_build(of?),
            F::LibstdcxxOld => self.libstdcxx_lacks(of?),
            F::PathPoisons => self.path_names_environment(of?),
            F::DriverTooOld => match symbol {
                Some(symbol) => self.driver_lacks(symbol),
                None => self.driver_older(of?),
            },
            F::BuiltWithOtherDriver => self.driver_lacks(symbol?),
            F::CompatRefused => self.first_is_from(Origin::Compat),
            F::Stub => self.first_is_from(Origin::Stub),
            F::NoSuchGpu => self
                .by_doctor(F::NoSuchGpu)
                .filter(|answer| answer.is)
                .or_else(|| self.more_ranks_than_gpus()),
            F::NoKernel => match of? {
                "framework" => self.framework_without_code(),
                _ => self.no_code(&library?),
            },
            F::EngineOtherGpu => self.gpus_that(of?, |gpu, arch| gpu != arch),
            F::GpuUnsupportedOp => self.gpus_that(of?, |gpu, arch| gpu < arch),
            F::NvrtcOlderThanGpu => self.gpu_newer_than(&library?),
            F::ContainerToolkitMissing => self.container_toolkit_missing(),
            F::ContainerRequires => self.image_needs_newer_driver(),
            F::ContainerCapability => self.capability_missing(of?),
            F::ToolkitMissing => self.no_part(PartKind::Nvcc),
            F::ToolkitMismatch => self.nvcc_other_cuda(of?),
            F::ToolkitMixed => self.toolkit_mixed(),
            F::ToolkitTooOldForGpu => self.part_older_than(PartKind::Nvcc, of?),
            F::ToolkitTooNewForGpu => self.part_newer_than(PartKind::Nvcc, of?),
            F::HostCompiler => self.compiler_too_new(said.get(Capture::Ceiling)),
            F::HostCompilerMissing => self.no_compiler(),
            F::HeadersMissing => self.header_missing(of?),
            F::PtxasMissing => self.no_part(PartKind::Ptxas),
            F::PtxasOld => self.part_older_than(PartKind::Ptxas, of?),
            F::LibdeviceMissing => self.no_part(PartKind::Libdevice),
            F::PtxNewerThanDriver => match said.get(Capture::Ptx) {
                Some(version) => self.ptx_version_newer_than_driver(version),
                None => self.ptx_newer_than_driver(&library?),
            },
            F::ExtensionMismatch if of.is_some() => self.extension_mismatch(of?),
            F::EnvironmentDropped => self.environment_dropped(),
            F::ProfilingRestricted => self.profiling_restricted(),
            fault => self.by_doctor(fault),
        }
    }

    /// Does `doctor` report the fault or one of its cases? `None` if it never does.
    fn by_doctor(&self, fault: F) -> Option<CheckAnswer> {
        if !is_of_doctor(fault) {
            return None;
        }
        let found = self.facts.examination.about(fault);
        Some(CheckAnswer {
            is: !found.is_empty(),
            evidence: found
                .iter()
                .flat_map(|finding| finding.evidence.clone())
                .collect(),
            findings: found.into_iter().cloned().collect(),
            is_by_doctor: true,
        })
    }

    /// Of a file that `doctor` does not report, nothing is known.
    fn extension_mismatch(&self, file: &str) -> Option<CheckAnswer> {
        let mut answer = self.by_doctor(F::ExtensionMismatch)?;
        let is_it = |one: &FindingEvidence| matches!(one, FindingEvidence::File { path, .. } if path.ends_with(file));
        answer
            .findings
            .retain(|finding| finding.evidence.iter().any(is_it));
        let evidence = answer.findings.iter().flat_map(|finding| &finding.evidence);
        answer.evidence = evidence.cloned().collect();
        Some(answer).filter(|answer| !answer.findings.is_empty())
    }

    /// The records of these distributions in the program's site-packages.
    pub(super) fn distributions(&self, names: &[&str]) -> Vec<(String, PathBuf)> {
        let mut found = Vec::new();
        for site in &self.facts.program.site_packages {
            for entry in self.facts.host.list(site).unwrap_or_default() {
                let file = entry.name.to_string_lossy().into_owned();
                if let Some((name, version)) = distribution(&file)
                    && names.contains(&name.as_str())
                {
                    found.push((version.to_owned(), site.join(&file)));
                }
            }
        }
        found
    }

    fn both_installed(&self, first: &str, second: &str) -> Option<CheckAnswer> {
        if self.facts.program.site_packages.is_empty() {
            return None;
        }
        let (first, second) = (self.distributions(&[first]), self.distributions(&[second]));
        let is = !first.is_empty() && !second.is_empty();
        let record = |(version, path)| FindingEvidence::file(path, version);
        CheckAnswer::new(is, first.into_iter().chain(second).map(record).collect())
    }

    fn cpu_build(&self, framework: &str) -> Option<CheckAnswer> {
        let packages = self.facts.program.packages.iter();
        let packages: Vec<_> = packages
            .filter(|one| framework == "framework" || one.name == framework)
            .collect();
        let title = |one: &Package| {
            format!(
                "{} {}",
                one.name,
                one.version.as_deref().unwrap_or_default()
            )
        };
        // A GPU build that crashes without a GPU also counts as one for the CPU, but has no such note.
        let is_cpu = |one: &Package| {
            let is_note = |note: &Note| matches!(note, Note::CpuOnly { package, .. } if *package == title(one).trim_end());
            one.cpu_only && self.facts.program.notes.iter().any(is_note)
        };
        let record = |one: &&Package| FindingEvidence::file(one.directory.clone(), title(one));
        let is = (!packages.is_empty()).then(|| packages.iter().any(|one| is_cpu(one)));
        let shown = packages
            .iter()
            .filter(|one| is != Some(true) || is_cpu(one));
        CheckAnswer::new(is, shown.map(record).collect())
    }

    fn path_names_environment(&self, name: &str) -> Option<CheckAnswer> {
        let host = self.facts.host;
        let is_environment = |directory: &Path| {
            let up = directory.parent().unwrap_or(directory);
            host.is_directory(&up.join("conda-meta")) || host.is_file(&up.join("pyvenv.cfg"))
        };
        let elements = self.facts.examination.elements.iter();
        let guilty = elements.filter(|element| {
            let to = element
                .leads_to
                .as_deref()
                .filter(|_| element.variable == variables::LIBRARY_PATH);
            to.is_some_and(|to| is_environment(to) && host.is_file(&to.join(name)))
        });
        let evidence: Vec<FindingEvidence> = guilty
            .map(|element| FindingEvidence::Element {
                variable: element.variable,
                position: element.position,
                text: element.text.clone(),
            })
            .collect();
        CheckAnswer::new(!evidence.is_empty(), evidence)
    }

    fn environment_dropped(&self) -> Option<CheckAnswer> {
        let env = &self.facts.host.env;
        let is_sudo =
            env.get("SUDO_COMMAND").is_some() && env.get(variables::LIBRARY_PATH).is_none();
        let program = self.facts.program;
        let is_secure = |note: &Note| matches!(note, Note::SecureExecution { .. });
        let lost = program.loss.is_some() || program.notes.iter().any(is_secure);
        let evidence = is_sudo.then(|| FindingEvidence::Set {
            name: "SUDO_COMMAND".to_owned(),
        });
        CheckAnswer::new(is_sudo || lost, evidence.into_iter().collect())
    }

    fn profiling_restricted(&self) -> Option<CheckAnswer> {
        let path = "/proc/driver/nvidia/params";
        let all = self
            .facts
            .host
            .read_text(Path::new(path))
            .unwrap_or_default();
        let set = all
            .lines()
            .find(|line| line.starts_with("RmProfilingAdminOnly:"));
        let is = set.map(|set| !set.ends_with(" 0"));
        CheckAnswer::new(
            is,
            set.map(|set| FindingEvidence::file(path, set))
                .into_iter()
                .collect(),
        )
    }

    /// The version that a text states, or that of the library that it names.
    pub(super) fn cuda_of(&self, of: &str) -> Option<(Version, Vec<FindingEvidence>)> {
        let library = NamedLibrary::named(of);
        match library.family() {
            Some(family) => {
                let first = self.first(family)?;
                let cuda = first
                    .cuda
                    .or(first.version.map(|version| version.major()))?;
                Some((Version::new(&[cuda]), vec![installation(first)]))
            }
            None => Some((libraries::version(of, None)?, Vec::new())),
        }
    }
}
