//! Finds the cause of a failure, from all evidence and not from a status alone.

use super::cause::{Culprit, ProofCause, ProofEvidence};
use super::protocol::{ChildStep, ProofStep, StepFailure};
use super::subject::{ProofSubject, TriedLibrary};
use super::verdict::ChildFacts;
use crate::catalog::{Fault, is_driver_call, statuses};
use crate::environment::Environment;
use crate::formats::names;
use crate::host::Host;
use crate::inventory::{Inventory, Origin, Problem};
use crate::text::show;
use crate::version::Version;

/// The evidence besides the failure itself.
pub(super) struct Scene<'a> {
    pub host: &'a Host,
    pub subject: &'a ProofSubject,
    pub env: &'a Environment,
    pub inventory: &'a Inventory,
    pub facts: &'a ChildFacts,
    pub stderr_tail: &'a str,
}

pub(super) fn diagnose(failure: &StepFailure, scene: &Scene<'_>) -> ProofCause {
    match failure {
        StepFailure::Load { at, name, message } => scene.load_failed(at, name, message),
        StepFailure::Status { at, call, code, .. } => scene.call_failed(at, call, *code),
        StepFailure::WrongNumbers { at, .. } => {
            ProofCause::new(Fault::WrongNumbers).with_culprit(scene.library_of_step(Some(at)))
        }
        StepFailure::Foreign { files } => {
            let library = files
                .iter()
                .find_map(|file| scene.subject.with_foreign(file));
            let cause = if scene.subject.is_planned {
                None
            } else {
                fault_in_files(library)
            };
            cause
                .unwrap_or_else(|| ProofCause::new(Fault::ForeignFiles))
                .with(library_evidence(library))
        }
        StepFailure::Signal { at, signal } => scene.killed(at.as_ref(), *signal),
        StepFailure::Exited { at, .. } => scene.ended_silently(Fault::NoReport, at.as_ref()),
        // The fault may be the library's, the GPU's or the file server's.
        StepFailure::TimedOut { .. } => ProofCause::new(Fault::TimedOut).with(scene.last_line()),
    }
}

impl Scene<'_> {
    fn load_failed(&self, step: &ProofStep, name: &str, message: &str) -> ProofCause {
        // The loader's message ends with the system's error text.
        if contains_any(
            message,
            &["failed to map segment", "Cannot allocate memory"],
        ) {
            return ProofCause::new(Fault::HostMemory);
        }
        let is_nowhere = message.contains("cannot open shared object file")
            && message.ends_with("No such file or directory");
        if step.step == ChildStep::LoadDriver {
            let fault = if is_nowhere && message.starts_with(name) {
                Fault::NoDriver
            } else {
                Fault::DriverIncomplete
            };
            return ProofCause::new(fault).with(self.driver_library());
        }
        if is_nowhere && message.starts_with("libcuda.so.1:") {
            return ProofCause::new(Fault::NoDriver);
        }
        let library = self.subject.of_soname(name);
        // `undefined symbol: …, version libnvJitLink.so.12` names the library that lacks the symbol.
        let owner_name = message
            .rsplit_once(", version ")
            .map(|(_, owner)| owner.trim());
        let owner = owner_name.and_then(|owner| self.subject.of_soname(owner));
        // One part of a library needs a symbol that another part lacks.
        let is_mixed = owner_name != Some(name)
            && library
                .zip(owner)
                .is_some_and(|(library, owner)| std::ptr::eq(library, owner));
        let damage = ["file too short", "invalid ELF header", "ELF load command"];
        let fault = if contains_any(message, &damage) {
            Fault::Damaged
        } else if is_mixed {
            Fault::Mixed
        } else {
            Fault::LibraryDoesNotLoad
        };
        let cause = fault_in_files(library).unwrap_or_else(|| ProofCause::new(fault));
        cause.with_culprit(owner.or(library))
    }

    fn call_failed(&self, step: &ProofStep, call: &str, code: i64) -> ProofCause {
        let is_of_driver = is_driver_call(call);
        let fault = if call.starts_with("cudnn") {
            statuses().of_cudnn(code)
        } else if is_of_driver {
            statuses().of_cuda(code)
        } else {
            None
        };
        // A known message tells more than a code with many meanings.
        let message = self.known_message();
        let fault = match (fault, &message) {
            (None | Some(Fault::Refused | Fault::NoEngine), Some((_, fault))) => Some(*fault),
            _ => fault,
        };
        let library = self.library_of_step(Some(step));
        let cause = match fault {
            Some(Fault::NoDevice) => self.no_device(),
            Some(fault @ (Fault::Stub | Fault::DriverIncomplete)) => {
                ProofCause::new(fault).with(self.driver_library())
            }
            Some(fault @ (Fault::DriverMismatch | Fault::CompatRefused)) => self.mismatch(fault),
            Some(Fault::DriverUnreachable) => self.unreachable(),
            Some(Fault::DriverTooOld) => self.too_old(library),
            Some(Fault::GpuBusy) => ProofCause::new(Fault::GpuBusy).with(self.memory(step)),
            Some(Fault::OutOfMemory) if is_of_driver && step.gpu.is_some() => {
                ProofCause::new(Fault::OutOfMemory).with(self.memory(step))
            }
            Some(Fault::OutOfMemory) if is_of_driver => ProofCause::new(Fault::HostMemory),
            Some(Fault::Refused) | None if is_of_driver && library.is_none_or(is_driver) => {
                self.driver_fault(Fault::DriverUnreachable)
            }
            Some(Fault::Incomplete) => self.sublibrary(library, Some((call, code))),
            Some(Fault::NoEngine) => self
                .fault_in_contents(library)
                .unwrap_or_else(|| ProofCause::new(Fault::NoEngine)),
            Some(Fault::OutOfMemory | Fault::Refused) | None => {
                fault_in_files(library).unwrap_or_else(|| ProofCause::new(Fault::Refused))
            }
            Some(fault) => ProofCause::new(fault),
        };
        let culprit = library.filter(|library| cause.is_of_library() && !is_driver(library));
        cause
            .with(message.map(|(line, _)| ProofEvidence::Said { line }))
            .with_culprit(culprit)
    }

    /// Tells apart a part that is missing, of another version, or does not load, which cuDNN 9 reports alike. The files
    /// decide first, then the presence of the part in the message, then a mismatch of versions. `status` is a failed call
    /// and its code.
    fn sublibrary(
        &self,
        library: Option<&TriedLibrary>,
        status: Option<(&str, i64)>,
    ) -> ProofCause {
        /// `CUDNN_STATUS_VERSION_MISMATCH` of 8, `CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH` of 9.
        const MISMATCH: [i64; 2] = [14, 1002];
        if let Some(cause) = self.fault_in_contents(library) {
            return cause;
        }
        let line = self.known_message().map(|(line, _)| line);
        let stem = line
            .as_deref()
            .and_then(stem_in)
            .or_else(|| stem_in(status?.0));
        if let Some(stem) = stem
            && !library.is_some_and(|library| has_part(library, &stem))
        {
            let directory = library.map(|library| show(&library.installation.directory));
            return ProofCause::new(Fault::Incomplete).with([ProofEvidence::Missing {
                stems: vec![stem],
                directory: directory.unwrap_or_default(),
            }]);
        }
        let is_mismatch = status.is_some_and(|(_, code)| MISMATCH.contains(&code))
            || line.is_some_and(|line| line.contains("undefined symbol"));
        ProofCause::new(if is_mismatch {
            Fault::Mixed
        } else {
            Fault::LibraryDoesNotLoad
        })
    }

    /// Finds a fault in the files of a library by reading all of them, up to half a gigabyte: the engines of cuDNN 9 state
    /// their version only in the text of an assertion.
    fn fault_in_contents(&self, library: Option<&TriedLibrary>) -> Option<ProofCause> {
        if let Some(cause) = fault_in_files(library) {
            return Some(cause);
        }
        let installation = &library?.installation;
        let rest = installation.version?;
        for file in &installation.files {
            let Ok(bytes) = self.host.map(&file.path) else {
                continue;
            };
            if let Some(version) = names::asserted_cudnn(&bytes)
                && !version.agrees_with(&rest)
            {
                return Some(ProofCause::new(Fault::Mixed).with([ProofEvidence::Foreign {
                    file: file.path.display().to_string(),
                    version,
                    rest: Some(rest),
                }]));
            }
        }
        None
    }

    fn killed(&self, step: Option<&ProofStep>, signal: i32) -> ProofCause {
        const SIGBUS: i32 = 7;
        /// SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, SIGXCPU: a fault in the running code raises none of these.
        const FROM_OUTSIDE: [i32; 6] = [1, 2, 3, 9, 15, 24];
        if FROM_OUTSIDE.contains(&signal) {
            return ProofCause::new(Fault::Killed);
        }
        let mut cause = self.ended_silently(Fault::Crashed, step);
        // SIGBUS reports a read beyond the end of a mapped file.
        if signal == SIGBUS && cause.fault == Fault::Crashed {
            cause.fault = Fault::Damaged;
        }
        cause
    }

    /// The child ended without a report. The evidence is its last step and its standard error.
    fn ended_silently(&self, fault: Fault, step: Option<&ProofStep>) -> ProofCause {
        let library = self.library_of_step(step);
        let message = self.known_message();
        let cause = match &message {
            Some((_, Fault::Incomplete)) => self.sublibrary(library, None),
            Some((_, Fault::DriverTooOld)) => self.too_old(library),
            Some((_, fault)) => ProofCause::new(*fault),
            None => fault_in_files(library).unwrap_or_else(|| ProofCause::new(fault)),
        };
        let line = message
            .map(|(line, _)| ProofEvidence::Said { line })
            .or_else(|| self.last_line());
        let culprit = library.filter(|library| cause.is_of_library() && !is_driver(library));
        let driver = library.filter(|library| is_driver(library));
        cause
            .with(line)
            .with_culprit(culprit)
            .with(library_evidence(driver))
    }

    fn no_device(&self) -> ProofCause {
        let name = "CUDA_VISIBLE_DEVICES";
        let count = self.inventory.devices.len();
        let mut cause = ProofCause::new(Fault::NoDevice);
        if let Some(value) = self.env.get(name) {
            let value = value.to_string_lossy().into_owned();
            // A number below the count of GPUs hides nothing. Batch systems always set the variable.
            let first = value.split(',').next().unwrap_or_default();
            if !first
                .trim()
                .parse::<usize>()
                .is_ok_and(|first| first < count)
            {
                cause.fault = Fault::GpusHidden;
            }
            cause.evidence.push(ProofEvidence::Variable {
                name: name.to_owned(),
                value,
            });
        }
        if count == 0 {
            cause.evidence.push(ProofEvidence::NoDeviceNodes);
        } else if cause.fault == Fault::GpusHidden {
            cause.evidence.push(ProofEvidence::Gpus { count });
        }
        cause
    }

    fn mismatch(&self, fault: Fault) -> ProofCause {
        let library = self.subject.of_family("driver");
        let is_compat =
            library.is_some_and(|library| library.installation.origin == Origin::Compat);
        if is_compat || fault == Fault::CompatRefused && !self.halves_differ() {
            self.driver_fault(Fault::CompatRefused)
        } else {
            self.driver_fault(Fault::DriverMismatch)
        }
    }

    /// `CUDA_ERROR_UNKNOWN` (999) means that the kernel driver does not answer.
    fn unreachable(&self) -> ProofCause {
        if self.halves_differ() {
            self.driver_fault(Fault::DriverMismatch)
        } else {
            self.driver_fault(Fault::DriverUnreachable)
        }
    }

    /// True if the versions of the kernel's part and of the library are known and not equal.
    fn halves_differ(&self) -> bool {
        let library = self.subject.of_family("driver");
        let version = library.and_then(|library| library.installation.version);
        self.kernel_driver()
            .zip(version)
            .is_some_and(|(kernel, version)| kernel != version)
    }

    fn driver_fault(&self, fault: Fault) -> ProofCause {
        ProofCause::new(fault)
            .with(self.driver_library())
            .with(self.kernel_evidence())
    }

    fn too_old(&self, library: Option<&TriedLibrary>) -> ProofCause {
        let cuda = self.facts.driver_cuda;
        ProofCause::new(Fault::DriverTooOld)
            .with(library_evidence(library))
            .with(cuda.map(|number| ProofEvidence::DriverCuda { number }))
            .with(self.kernel_evidence())
    }

    fn library_of_step(&self, step: Option<&ProofStep>) -> Option<&TriedLibrary> {
        self.subject.of_soname(step?.of.as_deref()?)
    }

    fn driver_library(&self) -> Option<ProofEvidence> {
        library_evidence(self.subject.of_family("driver"))
    }

    fn kernel_evidence(&self) -> Option<ProofEvidence> {
        let version = self.kernel_driver()?.to_string();
        Some(ProofEvidence::KernelDriver { version })
    }

    fn kernel_driver(&self) -> Option<Version> {
        Some(self.inventory.driver.as_ref()?.version)
    }

    fn memory(&self, step: &ProofStep) -> Option<ProofEvidence> {
        let mut gpus = self.facts.gpus.iter();
        let gpu = gpus.find(|gpu| Some(gpu.gpu) == step.gpu)?;
        Some(ProofEvidence::Memory {
            gpu: gpu.gpu,
            free: gpu.free?,
            total: gpu.memory?,
        })
    }

    /// The first line with a known message, and its fault. Later lines report consequences.
    fn known_message(&self) -> Option<(String, Fault)> {
        let mut lines = self.stderr_tail.lines().map(str::trim);
        lines.find_map(|line| Some((line.to_owned(), statuses().of_message(line)?)))
    }

    fn last_line(&self) -> Option<ProofEvidence> {
        let mut lines = self.stderr_tail.lines().rev().map(str::trim);
        let line = lines.find(|line| !line.is_empty())?;
        Some(ProofEvidence::Said {
            line: line.to_owned(),
        })
    }
}

impl ProofCause {
    fn with_culprit(self, library: Option<&TriedLibrary>) -> ProofCause {
        let culprit = library.map(|library| Culprit {
            family: library.installation.family.clone(),
            soname: library.soname.clone(),
            directory: library.installation.directory.clone(),
        });
        ProofCause { culprit, ..self }.with(library_evidence(library))
    }
}

/// The fault that the inventory found in the files of a library: damaged files before missing ones before mixed ones.
fn fault_in_files(library: Option<&TriedLibrary>) -> Option<ProofCause> {
    let installation = &library?.installation;
    let mut causes = Vec::new();
    for problem in &installation.problems {
        let (order, fault, evidence) = match problem {
            Problem::Truncated { file } => {
                let file = file.clone();
                (0, Fault::Damaged, ProofEvidence::Truncated { file })
            }
            Problem::Missing { stems } => {
                let evidence = ProofEvidence::Missing {
                    stems: stems.clone(),
                    directory: show(&installation.directory),
                };
                (1, Fault::Incomplete, evidence)
            }
            Problem::OtherVersionAmongTheRest { file, version } => {
                let evidence = ProofEvidence::Foreign {
                    file: file.clone(),
                    version: *version,
                    rest: installation.version,
                };
                (2, Fault::Mixed, evidence)
            }
            _ => continue,
        };
        causes.push((order, ProofCause::new(fault).with([evidence])));
    }
    let (_, cause) = causes.into_iter().min_by_key(|(order, _)| *order)?;
    Some(cause)
}

/// None for a library without files.
fn library_evidence(library: Option<&TriedLibrary>) -> Option<ProofEvidence> {
    let library = library?;
    let installation = &library.installation;
    if installation.files.is_empty() {
        return None;
    }
    Some(ProofEvidence::Library {
        family: installation.family.clone(),
        soname: library.soname.clone(),
        version: installation.version,
        origin: installation.origin.word().to_owned(),
        directory: show(&installation.directory),
    })
}

fn is_driver(library: &TriedLibrary) -> bool {
    library.installation.is_driver()
}

fn has_part(library: &TriedLibrary, stem: &str) -> bool {
    let name = format!("{stem}.so");
    let mut files = library.installation.files.iter();
    files.any(|file| file.soname.starts_with(&name))
}

fn contains_any(text: &str, words: &[&str]) -> bool {
    words.iter().any(|words| text.contains(words))
}

/// The stem of the cuDNN library that a text names by its file (`libcudnn_ops.so.9`) or by its check
/// (`cudnnOpsVersionCheck`).
fn stem_in(text: &str) -> Option<String> {
    if let Some(at) = text.find("libcudnn_") {
        let stem = text[at..]
            .split(|byte: char| !byte.is_ascii_alphanumeric() && byte != '_')
            .next()?;
        return Some(stem.to_owned());
    }
    let (before, _) = text.split_once("VersionCheck")?;
    let part = &before[before.rfind("cudnn")? + "cudnn".len()..];
    let mut stem = "libcudnn".to_owned();
    if part == "SubquadraticOps" {
        return Some(stem + "_ext");
    }
    for letter in part.chars() {
        if letter.is_ascii_uppercase() {
            stem.push('_');
        }
        stem.push(letter.to_ascii_lowercase());
    }
    Some(stem)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_cudnn_is_named_by_its_file_or_by_its_check() {
        for (text, stem) in [
            (
                "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1}",
                Some("libcudnn_ops"),
            ),
            (
                "Could not load library libcudnn_cnn_infer.so.8. Error: libz.so.1",
                Some("libcudnn_cnn_infer"),
            ),
            (
                "Invalid handle. Cannot load symbol cudnnAdvVersionCheck",
                Some("libcudnn_adv"),
            ),
            ("cudnnOpsInferVersionCheck", Some("libcudnn_ops_infer")),
            ("cudnnSubquadraticOpsVersionCheck", Some("libcudnn_ext")),
            ("Invalid handle. Cannot load symbol cudnnGetVersion", None),
            ("cudnnCreate", None),
        ] {
            assert_eq!(stem_in(text).as_deref(), stem, "{text}");
        }
    }
}
