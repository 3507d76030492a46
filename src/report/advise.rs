//! The page of `advise`: the releases that work together, the command that installs them, and why not the newest.

use std::ffi::OsString;

use super::Style;
use super::hints::{argument, shell_words};
use super::words::{joined, table};
use crate::advise::{
    Advice, Candidate, Installed, Obstacle, PassedOver, Pick, Relaxed, Role, Target,
};
use crate::catalog::knowledge;
use crate::cli::Advise;
use crate::text::list;
use crate::version::Version;

/// The answer, and the question.
pub struct AdviceReport<'o> {
    pub advice: Advice,
    pub target: Target,
    /// The installed framework with which nothing works, if something does without it.
    pub replaced: Option<Installed>,
    pub options: &'o Advise,
}

/// The commands that install the picks, and what is to be said with them.
pub(super) struct Commands {
    /// `None` where pip needs an address that is not known here.
    pub pip: Option<String>,
    pub uv: Option<String>,
    pub notes: Vec<String>,
}

pub fn advice(report: &AdviceReport<'_>, style: Style) -> String {
    let AdviceReport { advice, target, .. } = report;
    let reasons = advice
        .passed_over
        .iter()
        .map(|one| passed_over(one, target));
    if advice.picks.is_empty() {
        let mut page = format!("{}\n", style.strong("No releases work together here."));
        for reason in reasons {
            page.push_str(&format!("{reason}\n"));
        }
        return page
            + &match relaxed_command(report) {
                Some(command) => style.next(&command),
                None => "It would work on another GPU.\n".to_owned(),
            };
    }
    let asked = advice
        .picks
        .iter()
        .filter(|pick| pick.role != Role::Required);
    let titles = list(asked.map(|pick| pick.candidate.title()));
    let mut page = format!("{} for {}\n\n", style.strong(&titles), machine(target));
    let rows: Vec<Vec<String>> = advice.picks.iter().map(row).collect();
    page.push_str(&table("releases:", &rows, style));
    let Commands { pip, uv, notes } = commands(report);
    let mut lines: Vec<String> = reasons
        .map(|reason| format!("Newer, but not for this machine: {reason}"))
        .collect();
    lines.extend(notes);
    if !lines.is_empty() {
        page.push_str(&format!("\n{}\n", joined(lines, "\n")));
    }
    let next: Vec<Vec<String>> = [("pip", pip), ("uv", uv)]
        .into_iter()
        .filter_map(|(name, command)| Some(vec![format!("with {name}:"), command?]))
        .collect();
    if !next.is_empty() {
        page.push_str(&format!("\n{}", style.columns("", &next)));
    }
    page
}

/// `driver 550.54 (CUDA 12), GPU 9.0, Python 3.12, x86_64`
fn machine(target: &Target) -> String {
    let mut parts = vec![match target.driver {
        Some(driver) => format!("driver {driver}{}", runs(driver)),
        None => "any driver".to_owned(),
    }];
    if !target.gpus.is_empty() {
        parts.push(format!("GPU {}", list(&target.gpus)));
    }
    parts.extend(target.python.map(|python| format!("Python {python}")));
    parts.push(target.machine.clone());
    joined(parts, ", ")
}

/// The newest CUDA major of which a driver runs every minor.
fn runs(driver: Version) -> String {
    let floor = |major: &u32| knowledge().driver_floor(*major, None);
    let majors = (10..=20).rev();
    let mut runs = majors.filter(|major| floor(major).is_some_and(|floor| driver >= floor));
    runs.next()
        .map_or_else(String::new, |major| format!(", which runs CUDA {major}"))
}

fn row(pick: &Pick) -> Vec<String> {
    let candidate = &pick.candidate;
    let from = match (candidate.vendor, pick.role) {
        _ if candidate.is_installed => "installed".to_owned(),
        _ if candidate.source_only => "source only".to_owned(),
        (Some(build), _) => format!("{}'s index", build.vendor),
        (None, Role::Required) => "required".to_owned(),
        (None, Role::Asked | Role::Framework) => String::new(),
    };
    vec![title(candidate), cuda(candidate), from]
}

fn title(candidate: &Candidate) -> String {
    let extra = candidate.extra.map(|extra| format!("[{extra}]"));
    format!(
        "{}{} {}",
        candidate.name,
        extra.unwrap_or_default(),
        candidate.version
    )
}

fn cuda(candidate: &Candidate) -> String {
    match candidate.cuda.as_deref() {
        Some([]) => String::new(),
        Some([only]) => format!("CUDA {only}"),
        Some([first, .., last]) => format!("CUDA {first} to {last}"),
        None => "CUDA not known".to_owned(),
    }
}

pub(super) fn commands(report: &AdviceReport<'_>) -> Commands {
    let AdviceReport {
        advice,
        replaced,
        options,
        ..
    } = report;
    let shown = || {
        advice
            .picks
            .iter()
            .filter(|pick| pick.role != Role::Required)
            .map(|pick| &pick.candidate)
    };
    let to_install = || shown().filter(|one| !one.is_installed && !one.source_only);
    let words: Vec<OsString> = to_install().map(|one| one.requirement().into()).collect();
    let build = advice.picks.iter().find_map(|pick| {
        pick.candidate
            .vendor
            .filter(|_| !pick.candidate.is_installed)
    });
    let mut notes = Vec::new();
    let (mut pip, mut uv) = (None, None);
    if !words.is_empty() {
        let words = shell_words(&words);
        match build.and_then(|build| Some((build, build.backend.as_deref()?))) {
            None => {
                pip = Some(format!("pip install {words}"));
                uv = Some(format!("uv pip install {words}"));
            }
            Some((build, backend)) => {
                uv = Some(format!("uv pip install --torch-backend={backend} {words}"));
                let local = to_install().map(|one| {
                    let label = one.vendor.map(|_| format!("+{backend}"));
                    argument(format!("{}{}", one.requirement(), label.unwrap_or_default()).as_ref())
                });
                notes.push(format!(
                    "With pip: `pip install {}`, and --extra-index-url with the address of {}'s index for {backend}.",
                    joined(local, " "), build.vendor,
                ));
                notes.extend(
                    advice
                        .on_default_index
                        .as_ref()
                        .map(|title| format!("The newest from the default index is {title}.")),
                );
            }
        }
    }
    let asked = || {
        advice
            .picks
            .iter()
            .filter(|pick| pick.role == Role::Asked)
            .map(|pick| &pick.candidate)
    };
    for one in asked().filter(|one| one.source_only) {
        let requirement = argument(one.requirement().as_ref());
        notes.push(format!(
            "{} has no wheel. Compile it behind its framework: `cudarun --build pip install --no-build-isolation {requirement}`",
            one.title()
        ));
    }
    for one in asked().filter(|one| one.cuda.is_none() && !one.source_only) {
        notes.push(format!(
            "The CUDA version that {} is built for is not known.",
            one.title()
        ));
    }
    for build in knowledge()
        .vendor_builds()
        .iter()
        .filter(|build| build.backend.is_none())
    {
        let of = |one: &Candidate| Some((one.name, build.distributions.get(one.name)?));
        for (name, range) in asked().filter_map(of) {
            notes.push(format!(
                "{name} {range} is on an index of {}'s own, which this table does not have.",
                build.vendor
            ));
        }
    }
    if let Some(installed) = replaced {
        notes.push(format!(
            "It replaces {} {}, with which nothing works.",
            installed.name, installed.version
        ));
    }
    if report.target.driver.is_none() && options.driver.is_none() {
        notes.push("No driver was found here. --driver VERSION names one.".to_owned());
    }
    Commands { pip, uv, notes }
}

/// `vllm 0.33.0 is built for CUDA 13, which needs driver 580.65.06; here is 550.54.`
pub(super) fn passed_over(one: &PassedOver, target: &Target) -> String {
    format!("{} {} {}.", one.name, one.version, why(&one.why, target))
}

fn why(obstacle: &Obstacle, target: &Target) -> String {
    match obstacle {
        Obstacle::Machine(machine) => format!("has no wheel for {machine}"),
        Obstacle::WithoutCuda(machine) => format!("is built without CUDA for {machine}"),
        Obstacle::Python(range) => match target.python {
            Some(python) => format!("is for Python {range}; here is {python}"),
            None => format!("is for Python {range}"),
        },
        Obstacle::Driver { cuda, needs } => {
            let here = target.driver.map(|driver| format!("; here is {driver}"));
            let here = here.unwrap_or_default();
            format!("is built for CUDA {cuda}, which needs driver {needs}{here}")
        }
        Obstacle::Gpu { gpu, has } => format!("has code for GPU {has}, not for {gpu}"),
        Obstacle::DroppedGpu { gpu, cuda, last } => format!(
            "is built for CUDA {cuda}, which makes no code for GPU {gpu}; CUDA {last} was the last"
        ),
        Obstacle::Needs { needs, why: None } => {
            let installed = target
                .installed
                .as_ref()
                .filter(|installed| needs.starts_with(&installed.name));
            match installed {
                Some(Installed { name, version }) => {
                    format!("needs {needs}, and {name} {version} is to be kept")
                }
                None => format!("needs {needs}, which the table does not have"),
            }
        }
        Obstacle::Needs {
            needs,
            why: Some(because),
        } => {
            format!("needs {needs}, which {}", why(because, target))
        }
        Obstacle::Conflict {
            needs,
            other,
            other_needs,
        } => {
            format!("needs {needs}, but {other} needs {other_needs}")
        }
        Obstacle::OtherCuda {
            cuda,
            other,
            other_cuda,
        } => {
            format!("is built for CUDA {cuda}, but {other} for CUDA {other_cuda}")
        }
        Obstacle::Together => "needs other releases than the rest".to_owned(),
    }
}

/// The question to which there is an answer; `None` if no command asks it.
pub(super) fn relaxed_command(report: &AdviceReport<'_>) -> Option<String> {
    let AdviceReport {
        advice,
        target,
        options,
        ..
    } = report;
    let relaxed = advice.relaxed.as_ref()?;
    let mut words: Vec<OsString> = vec!["cudarun".into(), "advise".into()];
    let mut option = |name: &str, value: Option<String>| {
        if let Some(value) = value {
            words.extend([name.into(), value.into()]);
        }
    };
    let driver = match relaxed {
        Relaxed::Driver(driver) => Some(*driver),
        _ => options.driver,
    };
    option("--driver", driver.map(|driver| driver.to_string()));
    let is_other_gpu = *relaxed == Relaxed::OtherGpu;
    if is_other_gpu {
        return None;
    }
    option(
        "--gpu",
        (!options.gpu.is_empty()).then(|| joined(&options.gpu, ",")),
    );
    let python = match relaxed {
        Relaxed::Python(python) => Some(python.to_string()),
        _ => options
            .python
            .as_ref()
            .map(|python| python.to_string_lossy().into_owned()),
    };
    option("--python", python);
    if *relaxed != Relaxed::OtherFramework {
        option("--torch", options.torch.clone());
    }
    option("--machine", options.machine.clone());
    let _ = target;
    let is_any = *relaxed == Relaxed::OtherVersions;
    words.extend(options.packages.iter().map(|package| {
        let end = package
            .find(['=', '<', '>', '~', '!', ' '])
            .filter(|_| is_any);
        OsString::from(&package[..end.unwrap_or(package.len())])
    }));
    Some(shell_words(&words))
}
