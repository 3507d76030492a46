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
    pub finding: &'a ChildFacts,
    pub stderr_tail: &'a str,
}

pub(super) fn diagnose(failure: &StepFailure, scene: &Scene<'_>) -> ProofCause {
    match failure {
        StepFailure::Load { at, name, message } => scene.not_loaded(at, name, message),
        StepFailure::Status { at, call, code, .. } => scene.refused(at, call, *code),
        StepFailure::WrongNumbers { at, .. } => scene.blame(Fault::WrongNumbers, Some(at)),
        StepFailure::Foreign { files } => {
            let mixed = files
                .iter()
                .find_map(|file| scene.subject.with_foreign(file));
            let cause = mixed
                .filter(|_| !scene.subject.is_planned)
                .and_then(|mixed| integrity(Some(mixed)));
            cause
                .unwrap_or_else(|| ProofCause::new(Fault::ForeignFiles))
                .with(named(mixed))
        }
        StepFailure::Signal { at, signal } => scene.killed(at.as_ref(), *signal),
        StepFailure::Exited { at, .. } => scene.silent(Fault::NoReport, at.as_ref()),
        // The fault may be the library's, the GPU's or the file server's.
        StepFailure::TimedOut { .. } => ProofCause::new(Fault::TimedOut).with(scene.last_line()),
    }
}

impl Scene<'_> {
    fn not_loaded(&self, at: &ProofStep, name: &str, message: &str) -> ProofCause {
        let is_missing = message.contains("cannot open shared object file");
        // The loader's message ends with the system's error text.
        let has_no_room = ["failed to map segment", "Cannot allocate memory"];
        if has_no_room.iter().any(|words| message.contains(words)) {
            return ProofCause::new(Fault::HostMemory);
        }
        let is_nowhere = is_missing && message.ends_with("No such file or directory");
        if at.step == ChildStep::LoadDriver {
            let is_itself = is_nowhere && message.starts_with(name);
            let kind = if is_itself {
                Fault::NoDriver
            } else {
                Fault::DriverIncomplete
            };
            return ProofCause::new(kind).with(self.library("driver"));
        }
        if is_nowhere && message.starts_with("libcuda.so.1:") {
            return ProofCause::new(Fault::NoDriver);
        }
        // `undefined symbol: …, version libnvJitLink.so.12` names the library that lacks the symbol.
        let asked = message
            .rsplit_once(", version ")
            .map(|(_, owner)| owner.trim());
        let owner = asked.and_then(|owner| self.subject.of_soname(owner));
        let is_damaged = ["file too short", "invalid ELF header", "ELF load command"]
            .iter()
            .any(|words| message.contains(words));
        let library = self.subject.of_soname(name);
        // One part of a library needs a symbol that another part lacks.
        let is_mixed = asked != Some(name)
            && library
                .zip(owner)
                .is_some_and(|(library, owner)| std::ptr::eq(library, owner));
        let kind = if is_damaged {
            Fault::Damaged
        } else if is_mixed {
            Fault::Mixed
        } else {
            Fault::LibraryDoesNotLoad
        };
        let cause = integrity(library).unwrap_or_else(|| ProofCause::new(kind));
        let culprit = owner.or(library);
        cause.blaming(culprit)
    }

    fn refused(&self, at: &ProofStep, call: &str, code: i64) -> ProofCause {
        let is_of_driver = is_driver_call(call);
        let kind = if call.starts_with("cudnn") {
            statuses().of_cudnn(code)
        } else if is_of_driver {
            statuses().of_cuda(code)
        } else {
            None
        };
        // A known message tells more than a code with many meanings.
        let said = self.telling_line();
        let kind = match (kind, &said) {
            (None | Some(Fault::Refused | Fault::NoEngine), Some((_, said))) => Some(*said),
            (kind, _) => kind,
        };
        let said = said.map(|(line, _)| ProofEvidence::Said { line });
        let library = self.used_at(Some(at));
        let cause = match kind {
            Some(Fault::NoDevice) => self.no_device(),
            Some(kind @ (Fault::Stub | Fault::DriverIncomplete)) => {
                ProofCause::new(kind).with(self.library("driver"))
            }
            Some(kind @ (Fault::DriverMismatch | Fault::CompatRefused)) => self.mismatch(kind),
            Some(Fault::DriverUnreachable) => self.unreachable(),
            Some(Fault::DriverTooOld) => self.too_old(library),
            Some(Fault::GpuBusy) => ProofCause::new(Fault::GpuBusy).with(self.memory(at)),
            Some(Fault::OutOfMemory) if is_of_driver && at.gpu.is_some() => {
                ProofCause::new(Fault::OutOfMemory).with(self.memory(at))
            }
            Some(Fault::OutOfMemory) if is_of_driver => ProofCause::new(Fault::HostMemory),
            Some(Fault::Refused) | None if is_of_driver && library.is_none_or(is_driver) => {
                ProofCause::new(Fault::DriverUnreachable)
                    .with(self.library("driver"))
                    .with(self.kernel())
            }
            Some(Fault::Incomplete) => self.sublibrary(library, Some((call, code))),
            Some(Fault::NoEngine) => self
                .closer(library)
                .unwrap_or_else(|| ProofCause::new(Fault::NoEngine)),
            Some(Fault::OutOfMemory | Fault::Refused) | None => {
                integrity(library).unwrap_or_else(|| ProofCause::new(Fault::Refused))
            }
            Some(kind) => ProofCause::new(kind),
        };
        let culprit = library.filter(|library| cause.is_of_library() && !is_driver(library));
        cause.with(said).blaming(culprit)
    }

    /// Tells apart a part that is missing, of another version, or does not load, which cuDNN 9 reports alike. The files
    /// decide first, then the presence of the part in the message, then a mismatch of versions.
    fn sublibrary(
        &self,
        library: Option<&TriedLibrary>,
        refused: Option<(&str, i64)>,
    ) -> ProofCause {
        /// `CUDNN_STATUS_VERSION_MISMATCH` of 8, `CUDNN_STATUS_SUBLIBRARY_VERSION_MISMATCH` of 9.
        const MISMATCH: [i64; 2] = [14, 1002];
        if let Some(cause) = self.closer(library) {
            return cause;
        }
        let line = self.telling_line().map(|(line, _)| line);
        let named = line
            .as_deref()
            .and_then(stem_in)
            .or_else(|| stem_in(refused?.0));
        let is_there = |stem: &String| {
            let file = format!("{stem}.so");
            library.is_some_and(|library| {
                let mut files = library.installation.files.iter();
                files.any(|known| known.soname.starts_with(&file))
            })
        };
        let is_mismatch = refused.is_some_and(|(_, code)| MISMATCH.contains(&code))
            || line.is_some_and(|line| line.contains("undefined symbol"));
        match named {
            Some(stem) if !is_there(&stem) => {
                let directory = library.map(|library| show(&library.installation.directory));
                let evidence = ProofEvidence::Missing {
                    stems: vec![stem],
                    directory: directory.unwrap_or_default(),
                };
                ProofCause::new(Fault::Incomplete).with([evidence])
            }
            _ if is_mismatch => ProofCause::new(Fault::Mixed),
            _ => ProofCause::new(Fault::LibraryDoesNotLoad),
        }
    }

    /// Finds a fault in the files of a library by reading all of them, up to half a gigabyte: the engines of cuDNN 9 state
    /// their version only in the text of an assertion.
    fn closer(&self, library: Option<&TriedLibrary>) -> Option<ProofCause> {
        if let Some(cause) = integrity(library) {
            return Some(cause);
        }
        let installation = &library?.installation;
        let own = installation.version?;
        installation.files.iter().find_map(|file| {
            let bytes = self.host.map(&file.path).ok()?;
            let version =
                names::asserted_cudnn(&bytes).filter(|version| !version.agrees_with(&own))?;
            let file = file.path.display().to_string();
            Some(ProofCause::new(Fault::Mixed).with([ProofEvidence::Foreign {
                file,
                version,
                rest: Some(own),
            }]))
        })
    }

    fn killed(&self, at: Option<&ProofStep>, signal: i32) -> ProofCause {
        const SIGBUS: i32 = 7;
        /// SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, SIGXCPU: a fault in the running code raises none of these.
        const FROM_OUTSIDE: [i32; 6] = [1, 2, 3, 9, 15, 24];
        if FROM_OUTSIDE.contains(&signal) {
            return ProofCause::new(Fault::Killed);
        }
        let cause = self.silent(Fault::Crashed, at);
        // SIGBUS reports a read beyond the end of a mapped file.
        if signal == SIGBUS && cause.fault == Fault::Crashed {
            return ProofCause {
                fault: Fault::Damaged,
                ..cause
            };
        }
        cause
    }

    /// The child ended without a report. The evidence is its last step and its standard error.
    fn silent(&self, kind: Fault, at: Option<&ProofStep>) -> ProofCause {
        let library = self.used_at(at);
        let told = self.telling_line();
        let cause = match told.as_ref().map(|(_, cause)| *cause) {
            Some(Fault::Incomplete) => self.sublibrary(library, None),
            Some(Fault::DriverTooOld) => self.too_old(library),
            Some(cause) => ProofCause::new(cause),
            None => integrity(library).unwrap_or_else(|| ProofCause::new(kind)),
        };
        let said = told
            .map(|(line, _)| ProofEvidence::Said { line })
            .or_else(|| self.last_line());
        let driver = library
            .filter(|library| is_driver(library))
            .and_then(|library| named(Some(library)));
        let culprit = library.filter(|library| cause.is_of_library() && !is_driver(library));
        cause.with(said).blaming(culprit).with(driver)
    }

    fn no_device(&self) -> ProofCause {
        let name = "CUDA_VISIBLE_DEVICES";
        let value = self
            .env
            .get(name)
            .map(|value| value.to_string_lossy().into_owned());
        let count = self.inventory.devices.len();
        // A number below the count of GPUs hides nothing. Batch systems always set the variable.
        let first = value
            .as_ref()
            .and_then(|value| value.split(',').next()?.trim().parse::<usize>().ok());
        let is_there = first.is_some_and(|first| first < count);
        let kind = if value.is_some() && !is_there {
            Fault::GpusHidden
        } else {
            Fault::NoDevice
        };
        let variable = value.map(|value| ProofEvidence::Variable {
            name: name.to_owned(),
            value,
        });
        let nodes = if count == 0 {
            Some(ProofEvidence::NoDeviceNodes)
        } else {
            (kind == Fault::GpusHidden).then_some(ProofEvidence::Gpus { count })
        };
        ProofCause::new(kind).with(variable).with(nodes)
    }

    fn mismatch(&self, told: Fault) -> ProofCause {
        let library = self.subject.of_family("driver");
        let is_compat =
            library.is_some_and(|library| library.installation.origin == Origin::Compat);
        let kind = if is_compat || told == Fault::CompatRefused && !self.halves_differ() {
            Fault::CompatRefused
        } else {
            Fault::DriverMismatch
        };
        ProofCause::new(kind)
            .with(self.library("driver"))
            .with(self.kernel())
    }

    /// `CUDA_ERROR_UNKNOWN` (999) means that the kernel driver does not answer.
    fn unreachable(&self) -> ProofCause {
        let kind = if self.halves_differ() {
            Fault::DriverMismatch
        } else {
            Fault::DriverUnreachable
        };
        ProofCause::new(kind)
            .with(self.library("driver"))
            .with(self.kernel())
    }

    fn halves_differ(&self) -> bool {
        let user = self
            .subject
            .of_family("driver")
            .and_then(|library| library.installation.version);
        self.kernel_driver()
            .zip(user)
            .is_some_and(|(kernel, user)| kernel != user)
    }

    fn too_old(&self, library: Option<&TriedLibrary>) -> ProofCause {
        let cuda = self
            .finding
            .driver_cuda
            .map(|number| ProofEvidence::DriverCuda { number });
        ProofCause::new(Fault::DriverTooOld)
            .with(named(library))
            .with(cuda)
            .with(self.kernel())
    }

    fn blame(&self, kind: Fault, at: Option<&ProofStep>) -> ProofCause {
        ProofCause::new(kind).blaming(self.used_at(at))
    }

    /// The library that a step used.
    fn used_at(&self, at: Option<&ProofStep>) -> Option<&TriedLibrary> {
        at.and_then(|at| at.of.as_deref())
            .and_then(|soname| self.subject.of_soname(soname))
    }

    fn library(&self, family: &str) -> Option<ProofEvidence> {
        named(self.subject.of_family(family))
    }

    fn kernel(&self) -> Option<ProofEvidence> {
        self.kernel_driver()
            .map(|driver| ProofEvidence::KernelDriver {
                version: driver.to_string(),
            })
    }

    fn kernel_driver(&self) -> Option<Version> {
        Some(self.inventory.driver.as_ref()?.version)
    }

    fn memory(&self, at: &ProofStep) -> Option<ProofEvidence> {
        let gpu = self
            .finding
            .gpus
            .iter()
            .find(|known| Some(known.gpu) == at.gpu)?;
        Some(ProofEvidence::Memory {
            gpu: gpu.gpu,
            free: gpu.free?,
            total: gpu.memory?,
        })
    }

    /// The first line with a known message. Later lines report consequences.
    fn telling_line(&self) -> Option<(String, Fault)> {
        let mut lines = self.stderr_tail.lines().map(str::trim);
        lines.find_map(|line| Some((line.to_owned(), statuses().of_message(line)?)))
    }

    fn last_line(&self) -> Option<ProofEvidence> {
        let line = self
            .stderr_tail
            .lines()
            .rev()
            .map(str::trim)
            .find(|line| !line.is_empty())?;
        Some(ProofEvidence::Said {
            line: line.to_owned(),
        })
    }
}

impl ProofCause {
    /// Adds the library at fault.
    fn blaming(self, library: Option<&TriedLibrary>) -> ProofCause {
        let culprit = library.map(|library| Culprit {
            family: library.installation.family.clone(),
            soname: library.soname.clone(),
            directory: library.installation.directory.clone(),
        });
        ProofCause { culprit, ..self }.with(named(library))
    }
}

/// The fault that the inventory found in the files of a library.
fn integrity(library: Option<&TriedLibrary>) -> Option<ProofCause> {
    let installation = &library?.installation;
    let fault = |problem: &Problem| {
        Some(match problem {
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
            _ => return None,
        })
    };
    let faults = installation.problems.iter().filter_map(fault);
    let (_, kind, evidence) = faults.min_by_key(|(order, ..)| *order)?;
    Some(ProofCause::new(kind).with([evidence]))
}

/// A library as evidence.
fn named(library: Option<&TriedLibrary>) -> Option<ProofEvidence> {
    let library = library?;
    let installation = Some(&library.installation).filter(|found| !found.files.is_empty())?;
    Some(ProofEvidence::Library {
        family: installation.family.clone(),
        soname: library.soname.clone(),
        version: installation.version,
        origin: installation.origin.word().to_owned(),
        directory: show(&installation.directory),
    })
}

fn is_driver(library: &TriedLibrary) -> bool {
    library.installation.family == "driver"
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
