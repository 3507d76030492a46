//! Each fault with the check that decides about it on a machine.

use std::path::{Path, PathBuf};

use super::cause::CheckAnswer;
use super::facts::{CheckContext, NamedLibrary, TextOrigin};
use super::library_checks::parse_version;
use crate::catalog::{Capture, Fault as F, PossibleCause};
use crate::diagnose::Captures;
use crate::doctor::FindingEvidence;
use crate::inventory::{Origin, PartKind, distribution};
use crate::program::Note;
use crate::variables;
use crate::version::Version;

/// Faults of the program's own libraries and tools. `doctor` looks at those of the machine: its findings do not answer for these.
const PROGRAM_FAULTS: [F; 5] = [
    F::ClaimedTwice,
    F::Damaged,
    F::Incomplete,
    F::Mixed,
    F::ToolkitMixed,
];

/// True if what `doctor` finds decides about the fault, whichever program fails.
pub(super) fn is_of_doctor(fault: F) -> bool {
    let row = fault.row();
    (row.section.is_some() || !row.cases.is_empty()) && !PROGRAM_FAULTS.contains(&fault)
}

impl CheckContext<'_, '_, '_> {
    /// Checks a possible cause of a message with these facts; `None` if nothing tells.
    pub(super) fn check(
        &self,
        possible: &PossibleCause,
        captures: &Captures,
    ) -> Option<CheckAnswer> {
        if self.facts.text_origin == TextOrigin::Elsewhere {
            return None;
        }
        let answer = self.check_fault(possible, captures)?;
        // Another program than the guessed one may have the fault. A copy that is here is here for all of them.
        let is_of_machine = answer.is_by_doctor
            || matches!(possible.cause, F::NotInstalled | F::HostCompilerMissing);
        (answer.is_confirmed || is_of_machine || self.facts.is_program_known).then_some(answer)
    }

    fn check_fault(&self, possible: &PossibleCause, captures: &Captures) -> Option<CheckAnswer> {
        let arguments = [
            &possible.of,
            &possible.wanted,
            &possible.symbol,
            &possible.and,
        ];
        let mut texts = [None; 4];
        for (text, argument) in texts.iter_mut().zip(arguments) {
            if let Some(argument) = argument {
                // A message that leaves out what the check needs does not tell.
                *text = Some(captures.argument(argument)?);
            }
        }
        let [subject, wanted, symbol, second] = texts;
        let library = subject.map(NamedLibrary::new);
        match possible.cause {
            F::NotInstalled => self.not_installed(&library?),
            F::NotOnPath => self.not_on_path(subject?),
            F::OtherMajor => self.other_major(&library?, captures.get(Capture::Wanted)),
            F::OlderFirst | F::NvjitlinkOlder => self.older_first(&library?, wanted, symbol),
            F::Mixed => self.mixed(&library?, wanted),
            F::Incomplete => self.incomplete(&library?),
            F::Damaged => self.damaged(subject?),
            F::BareName => self.bare_name(&library?),
            F::Builtins => self.builtins(captures.get(Capture::Soname)),
            F::ClaimedTwice => self.claimed_twice(subject?, second),
            F::CpuBuild => self.cpu_build(subject?),
            F::LibstdcxxOld => self.libstdcxx_old(subject?),
            F::PathPoisons => self.path_poisons(subject?),
            F::DriverTooOld => self.driver_too_old(subject, symbol),
            F::BuiltWithOtherDriver => self.driver_lacks(symbol?),
            F::CompatRefused => self.libcuda_is_from(Origin::Compat),
            F::Stub => self.libcuda_is_from(Origin::Stub),
            F::NoSuchGpu => self.no_such_gpu(),
            F::NoKernel => self.no_kernel(subject?),
            F::EngineOtherGpu => self.any_gpu(subject?, |gpu, arch| gpu != arch),
            F::GpuUnsupportedOp => self.any_gpu(subject?, |gpu, arch| gpu < arch),
            F::NvrtcOlderThanGpu => self.nvrtc_older_than_gpu(&library?),
            F::ContainerToolkitMissing => self.container_toolkit_missing(),
            F::ContainerRequires => self.container_requires(),
            F::ContainerCapability => self.container_capability(subject?),
            F::ToolkitMissing => self.no_part(PartKind::Nvcc),
            F::ToolkitMismatch => self.toolkit_mismatch(subject?),
            F::ToolkitMixed => self.toolkit_mixed(),
            F::ToolkitTooOldForGpu => self.part_too_old(PartKind::Nvcc, subject?),
            F::ToolkitTooNewForGpu => self.part_too_new(PartKind::Nvcc, subject?),
            F::HostCompiler => self.host_compiler(captures.get(Capture::Ceiling)),
            F::HostCompilerMissing => self.host_compiler_missing(),
            F::SmallPages => self.small_pages(),
            F::HeadersMissing => self.headers_missing(subject?),
            F::PtxasMissing => self.no_part(PartKind::Ptxas),
            F::PtxasOld => self.part_too_old(PartKind::Ptxas, subject?),
            F::LibdeviceMissing => self.no_part(PartKind::Libdevice),
            F::PtxNewerThanDriver => {
                self.ptx_newer_than_driver(library.as_ref(), captures.get(Capture::Ptx))
            }
            F::ExtensionMismatch => self.extension_mismatch(subject),
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
        let findings = self.facts.examination.about(fault);
        let mut answer = CheckAnswer::new(!findings.is_empty(), Vec::new())?;
        answer.is_by_doctor = true;
        for finding in findings {
            answer.evidence.extend(finding.evidence.iter().cloned());
            answer.findings.push(finding.clone());
        }
        Some(answer)
    }

    fn no_such_gpu(&self) -> Option<CheckAnswer> {
        self.by_doctor(F::NoSuchGpu)
            .filter(|answer| answer.is_confirmed)
            .or_else(|| self.more_ranks_than_gpus())
    }

    /// Of a file that `doctor` does not report, nothing is known.
    fn extension_mismatch(&self, file: Option<&str>) -> Option<CheckAnswer> {
        let mut answer = self.by_doctor(F::ExtensionMismatch)?;
        let Some(file) = file else {
            return Some(answer);
        };
        answer.findings.retain(|finding| {
            finding.evidence.iter().any(|evidence| {
                matches!(evidence, FindingEvidence::File { path, .. } if path.ends_with(file))
            })
        });
        let evidence = answer.findings.iter().flat_map(|finding| &finding.evidence);
        answer.evidence = evidence.cloned().collect();
        Some(answer).filter(|answer| !answer.findings.is_empty())
    }

    /// The records of these distributions in the program's site-packages, each with its version.
    pub(super) fn distributions(&self, names: &[&str]) -> Vec<(String, PathBuf)> {
        let mut records = Vec::new();
        for site in &self.facts.program.site_packages {
            for entry in self.facts.host.list(site).unwrap_or_default() {
                let file = entry.name.to_string_lossy().into_owned();
                if let Some((name, version)) = distribution(&file)
                    && names.contains(&name.as_str())
                {
                    records.push((version.to_owned(), site.join(&file)));
                }
            }
        }
        records
    }

    /// Two packages each bring the library, or these two distributions are installed.
    fn claimed_twice(&self, subject: &str, second: Option<&str>) -> Option<CheckAnswer> {
        let Some(second) = second else {
            return self.two_packages(&NamedLibrary::new(subject));
        };
        if self.facts.program.site_packages.is_empty() {
            return None;
        }
        let mut records = self.distributions(&[subject]);
        let others = self.distributions(&[second]);
        let are_both_here = !records.is_empty() && !others.is_empty();
        records.extend(others);
        CheckAnswer::new(are_both_here, record_evidence(records))
    }

    fn cpu_build(&self, framework: &str) -> Option<CheckAnswer> {
        let mut evidence = Vec::new();
        let mut of_cpu_builds = Vec::new();
        for package in &self.facts.program.packages {
            if framework != "framework" && package.name != framework {
                continue;
            }
            let version = package.version.as_deref().unwrap_or_default();
            let title = format!("{} {version}", package.name);
            // A GPU build that crashes without a GPU also counts as one for the CPU, but has no such note.
            let mut notes = self.facts.program.notes.iter();
            let is_cpu_build = package.cpu_only
                && notes.any(|note| {
                    matches!(note, Note::CpuOnly { package, .. } if *package == title.trim_end())
                });
            let record = FindingEvidence::file(&package.directory, title);
            if is_cpu_build {
                of_cpu_builds.push(record.clone());
            }
            evidence.push(record);
        }
        if !of_cpu_builds.is_empty() {
            return CheckAnswer::new(true, of_cpu_builds);
        }
        CheckAnswer::new((!evidence.is_empty()).then_some(false), evidence)
    }

    fn path_poisons(&self, name: &str) -> Option<CheckAnswer> {
        let host = self.facts.host;
        let mut evidence = Vec::new();
        for element in &self.facts.examination.elements {
            if element.variable != variables::LIBRARY_PATH {
                continue;
            }
            let Some(directory) = &element.leads_to else {
                continue;
            };
            let root = directory.parent().unwrap_or(directory);
            let is_environment = host.is_directory(&root.join("conda-meta"))
                || host.is_file(&root.join("pyvenv.cfg"));
            if is_environment && host.is_file(&directory.join(name)) {
                evidence.push(element.evidence());
            }
        }
        CheckAnswer::new(!evidence.is_empty(), evidence)
    }

    fn environment_dropped(&self) -> Option<CheckAnswer> {
        let env = &self.facts.host.env;
        if env.get("SUDO_COMMAND").is_some() && env.get(variables::LIBRARY_PATH).is_none() {
            let name = "SUDO_COMMAND".to_owned();
            return CheckAnswer::new(true, vec![FindingEvidence::Set { name }]);
        }
        let program = self.facts.program;
        let mut notes = program.notes.iter();
        let is_dropped = program.loss.is_some()
            || notes.any(|note| matches!(note, Note::SecureExecution { .. }));
        CheckAnswer::new(is_dropped, Vec::new())
    }

    fn profiling_restricted(&self) -> Option<CheckAnswer> {
        let path = "/proc/driver/nvidia/params";
        let text = self.facts.host.read_text(Path::new(path)).ok()?;
        let line = text
            .lines()
            .find(|line| line.starts_with("RmProfilingAdminOnly:"))?;
        let evidence = vec![FindingEvidence::file(path, line)];
        CheckAnswer::new(!line.ends_with(" 0"), evidence)
    }

    /// The version that a text states, or that of the library that it names.
    pub(super) fn cuda_of(&self, text: &str) -> Option<(Version, Vec<FindingEvidence>)> {
        let Some(family) = NamedLibrary::new(text).family() else {
            return Some((parse_version(text, None)?, Vec::new()));
        };
        let first = self.first_copy(family)?;
        let cuda = match first.cuda {
            Some(cuda) => cuda,
            None => first.version?.major(),
        };
        let evidence = vec![FindingEvidence::installation(first)];
        Some((Version::new(&[cuda]), evidence))
    }
}

pub(super) fn record_evidence(records: Vec<(String, PathBuf)>) -> Vec<FindingEvidence> {
    records
        .into_iter()
        .map(|(version, path)| FindingEvidence::file(path, version))
        .collect()
}
