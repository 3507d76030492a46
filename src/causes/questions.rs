//! Each question with the function that answers it.

use std::path::{Path, PathBuf};

use super::facts::{AskedIn, Library};
use super::libraries;
use super::model::Answer;
use crate::catalog::{Capture, Question};
use crate::diagnose::Captures;
use crate::doctor::Evidence;
use crate::inventory::{Origin, Part, distribution};
use crate::program::{Note, Package};
use crate::variables;

impl AskedIn<'_, '_, '_> {
    /// Answers for a message with these facts.
    pub(super) fn ask(&self, question: &Question, said: &Captures) -> Answer {
        let mut answer = self.answer(question, said).unwrap_or_default();
        let facts = self.facts;
        if facts.is_elsewhere {
            return Answer::unknown();
        }
        // Another program than the guessed one may have the fault. A copy that is here is here for all of them.
        let is_of_program = !matches!(question, Question::Doctor(_) | Question::NoCopy(_));
        if is_of_program && !facts.is_program_known && answer.is == Some(false) {
            answer.is = None;
        }
        answer
    }

    /// None if the message does not state what the question is about.
    fn answer(&self, question: &Question, said: &Captures) -> Option<Answer> {
        use Question as Q;
        let text = |argument| said.argument(argument);
        let library = |argument| text(argument).map(Library::named);
        let builtins = || {
            said.get(Capture::Soname)
                .filter(|name| name.starts_with("libnvrtc-builtins.so"))
        };
        Some(match question {
            Q::Doctor(findings) => self.doctor(&findings.finds),
            Q::NoCopy(about) => match text(&about.of)? {
                "libdevice" => self.no_part(Part::Libdevice),
                "nvcc" => self.no_part(Part::Nvcc),
                "g++" => self.no_compiler(),
                of => self.no_copy(&Library::named(of)),
            },
            Q::NotOnPath(about) => match text(&about.of)? {
                "nvcc" => self.part_not_on_path(Part::Nvcc),
                "ptxas" => self.not_found_by_framework(Part::Ptxas),
                "libdevice" => self.not_found_by_framework(Part::Libdevice),
                of => self.not_on_path(&Library::named(of)),
            },
            Q::OnlyOtherMajor(about) => self.only_other_major(
                &library(&about.of)?,
                Self::number(said.get(Capture::Wanted)),
            ),
            Q::FirstCopyOlder(about) => {
                self.first_copy_older(&library(&about.of)?, text(&about.wanted)?)
            }
            Q::NewerCopyHere(about) => {
                self.newer_copy_here(&library(&about.of)?, text(&about.wanted)?)
            }
            Q::FirstCopyLacksSymbol(about) => {
                self.first_copy_lacks(&library(&about.of)?, text(&about.symbol)?)
            }
            Q::OtherCopyHasSymbol(about) => {
                self.other_copy_has(&library(&about.of)?, text(&about.symbol)?)
            }
            Q::Mixed(about) => self.mixed(&library(&about.of)?),
            Q::BuiltForOtherCuda(about) => {
                self.built_for_other_cuda(&library(&about.of)?, &library(&about.wanted)?)
            }
            Q::Incomplete(about) => self.incomplete(&library(&about.of)?),
            Q::Damaged(about) => self.damaged(text(&about.of)?),
            Q::BareNameMissing(about) => self.bare_name_missing(&library(&about.of)?),
            Q::BuiltinsElsewhere => self.builtins_elsewhere(builtins()),
            Q::TwoPackages(about) => self.two_packages(&library(&about.of)?),
            Q::BothInstalled(pair) => self.both_installed(text(&pair.first)?, text(&pair.second)?),
            Q::CpuBuild(about) => self.cpu_build(text(&about.of)?),
            Q::LibstdcxxLacks(about) => self.libstdcxx_lacks(text(&about.of)?),
            Q::PathNamesEnvironment(about) => self.path_names_environment(text(&about.of)?),
            Q::DriverOlder(about) => self.driver_older(text(&about.of)?),
            Q::CompatFirst => self.first_is_from(Origin::Compat),
            Q::StubFirst => self.first_is_from(Origin::Stub),
            Q::DriverLacksSymbol(about) => self.driver_lacks(text(&about.of)?),
            Q::MoreRanksThanGpus => self.more_ranks_than_gpus(),
            Q::NoCodeForGpu(about) => match text(&about.of)? {
                "framework" => self.framework_without_code(),
                of => self.no_code(&Library::named(of)),
            },
            Q::OtherGpu(about) => self.gpus_that(text(&about.of)?, |gpu, arch| gpu != arch),
            Q::GpuOlderThan(about) => self.gpus_that(text(&about.of)?, |gpu, arch| gpu < arch),
            Q::GpuNewerThan(about) => self.gpu_newer_than(&library(&about.of)?),
            Q::ContainerToolkitMissing => self.container_toolkit_missing(),
            Q::ImageNeedsNewerDriver => self.image_needs_newer_driver(),
            Q::CapabilityMissing(about) => self.capability_missing(text(&about.of)?),
            Q::NoNvcc => self.no_part(Part::Nvcc),
            Q::NvccOtherCuda(about) => self.nvcc_other_cuda(text(&about.of)?),
            Q::ToolkitMixed => self.toolkit_mixed(),
            Q::NvccOlderThanGpu(about) => self.part_older_than(Part::Nvcc, text(&about.of)?),
            Q::NvccNewerThanGpu(about) => self.part_newer_than(Part::Nvcc, text(&about.of)?),
            Q::CompilerTooNew => self.compiler_too_new(said.get(Capture::Ceiling)),
            Q::HeaderMissing(about) => self.header_missing(text(&about.of)?),
            Q::NoPtxas => self.no_part(Part::Ptxas),
            Q::PtxasOlder(about) => self.part_older_than(Part::Ptxas, text(&about.of)?),
            Q::NoLibdevice => self.no_part(Part::Libdevice),
            Q::PtxNewerThanDriver(about) => match said.get(Capture::Ptx) {
                Some(version) => self.ptx_version_newer_than_driver(version),
                None => self.ptx_newer_than_driver(&library(&about.of)?),
            },
            Q::EnvironmentDropped => self.environment_dropped(),
            Q::InterfaceAbsent(about) => {
                self.interface_absent(said.get(Capture::Interface).or(text(&about.of))?)
            }
            Q::LockedMemorySmall => self.locked_memory_small(),
            Q::ProfilingRestricted => self.profiling_restricted(),
            // Only the driver tells about the memory and the users of a GPU.
            Q::Unknowable => Answer::unknown(),
        })
    }

    fn doctor(&self, codes: &[String]) -> Answer {
        let found = self.facts.examination.about(codes);
        Answer {
            is: Some(!found.is_empty()),
            evidence: found
                .iter()
                .flat_map(|finding| finding.evidence.clone())
                .collect(),
            findings: found.into_iter().cloned().collect(),
        }
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

    fn both_installed(&self, first: &str, second: &str) -> Answer {
        if self.facts.program.site_packages.is_empty() {
            return Answer::unknown();
        }
        let (first, second) = (self.distributions(&[first]), self.distributions(&[second]));
        let is = !first.is_empty() && !second.is_empty();
        let record = |(version, path)| Evidence::file(path, version);
        Answer::new(is, first.into_iter().chain(second).map(record).collect())
    }

    fn cpu_build(&self, framework: &str) -> Answer {
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
        let record = |one: &&Package| Evidence::file(one.directory.clone(), title(one));
        let is = (!packages.is_empty()).then(|| packages.iter().any(|one| is_cpu(one)));
        let shown = packages
            .iter()
            .filter(|one| is != Some(true) || is_cpu(one));
        Answer::new(is, shown.map(record).collect())
    }

    fn path_names_environment(&self, name: &str) -> Answer {
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
        let evidence: Vec<Evidence> = guilty
            .map(|element| Evidence::Element {
                variable: element.variable,
                position: element.position,
                text: element.text.clone(),
            })
            .collect();
        Answer::new(!evidence.is_empty(), evidence)
    }

    fn environment_dropped(&self) -> Answer {
        let env = &self.facts.host.env;
        let is_sudo =
            env.get("SUDO_COMMAND").is_some() && env.get(variables::LIBRARY_PATH).is_none();
        let program = self.facts.program;
        let is_secure = |note: &Note| matches!(note, Note::SecureExecution { .. });
        let lost = program.loss.is_some() || program.notes.iter().any(is_secure);
        let evidence = is_sudo.then(|| Evidence::Set {
            name: "SUDO_COMMAND".to_owned(),
        });
        Answer::new(is_sudo || lost, evidence.into_iter().collect())
    }

    /// InfiniBand's buffers take more than the limits that systems set by default, of 64 KiB or 8 MiB.
    fn locked_memory_small(&self) -> Answer {
        let path = Path::new("/proc/self/limits");
        let limits = self.facts.host.read_text(path).unwrap_or_default();
        let mut lines = limits
            .lines()
            .filter_map(|line| line.strip_prefix("Max locked memory"));
        let soft = lines
            .next()
            .and_then(|rest| rest.split_whitespace().next())
            .unwrap_or_default();
        let is_small = || (soft.parse::<u64>().ok()? <= 64 << 20).then_some(true);
        let is = if soft == "unlimited" {
            Some(false)
        } else {
            is_small()
        };
        let text = format!("Max locked memory {soft}");
        Answer::new(is, vec![Evidence::file(path.to_owned(), text)])
    }

    fn profiling_restricted(&self) -> Answer {
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
        Answer::new(
            is,
            set.map(|set| Evidence::file(path, set))
                .into_iter()
                .collect(),
        )
    }

    /// `name` is an interface, or the variable that names interfaces.
    fn interface_absent(&self, name: &str) -> Answer {
        let host = self.facts.host;
        let is_variable = name == "NCCL_SOCKET_IFNAME";
        let set = host
            .env
            .get(name)
            .map(|value| value.to_string_lossy().into_owned());
        let Some(wanted) = (if is_variable {
            set
        } else {
            Some(name.to_owned())
        }) else {
            return Answer::unknown();
        };
        let Ok(interfaces) = host.list(Path::new("/sys/class/net")) else {
            return Answer::unknown();
        };
        // NCCL takes beginnings of names; `^` excludes, `=` is exact.
        if wanted.is_empty() || wanted.starts_with('^') {
            return Answer::unknown();
        }
        let exact = wanted.strip_prefix('=');
        let is_here = exact.unwrap_or(&wanted).split(',').any(|one| {
            interfaces.iter().any(|interface| {
                let own = interface.name.to_string_lossy();
                own == one || exact.is_none() && is_variable && own.starts_with(one)
            })
        });
        let evidence = if is_variable {
            vec![Evidence::Variable {
                name: name.to_owned(),
                value: wanted,
            }]
        } else {
            let path = Path::new("/sys/class/net").join(name);
            vec![if is_here {
                Evidence::file(path, "")
            } else {
                Evidence::Absent { path }
            }]
        };
        Answer::new(!is_here, evidence)
    }

    /// The version that a text states, or that of the library that it names.
    pub(super) fn cuda_of(&self, of: &str) -> Option<(crate::version::Version, Vec<Evidence>)> {
        let library = Library::named(of);
        match library.family() {
            Some(family) => {
                let first = self.first(family)?;
                let cuda = first
                    .cuda
                    .or(first.version.map(|version| version.major()))?;
                Some((
                    crate::version::Version::new(&[cuda]),
                    vec![super::facts::installation(first)],
                ))
            }
            None => Some((libraries::version(of, None)?, Vec::new())),
        }
    }
}
