//! The page of `advise`: the releases that work together, the command that installs them, and why not the newest.

use std::ffi::OsString;

use super::Style;
use super::hints::{argument, shell_words};
use super::words::{joined, table};
use crate::advise::{
    Advice, AdvisedMachine, AdvisedRelease, AskedPackage, KeptFramework, PassedOver, Relaxed,
    ReleaseCandidate, ReleaseObstacle, Role, there,
};
use crate::catalog::knowledge;
use crate::cli::Advise;
use crate::text::list;
use crate::version::Version;

/// The answer, and the question.
pub struct AdviceReport<'o> {
    pub advice: Advice,
    pub target: AdvisedMachine,
    /// The installed framework with which nothing works, if something does without it.
    pub replaced: Option<KeptFramework>,
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
        if advice.relaxed == Some(Relaxed::OtherGpu) {
            page.push_str("They would work on another GPU.\n");
        }
        return page + &relaxed_command(report).map_or_else(String::new, |next| style.next(&next));
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
        .map(|reason| format!("Not the newest: {reason}"))
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
fn machine(target: &AdvisedMachine) -> String {
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

fn row(pick: &AdvisedRelease) -> Vec<String> {
    let candidate = &pick.candidate;
    let from = match (candidate.vendor, pick.role) {
        _ if candidate.is_installed => "installed".to_owned(),
        _ if candidate.source_only => "source only".to_owned(),
        (Some(build), _) => format!("{}'s index", build.vendor),
        (None, Role::Required) => "required".to_owned(),
        (None, Role::Asked | Role::Framework) => String::new(),
    };
    let is_of_interest = candidate.cuda.is_some() || pick.role != Role::Required;
    let cuda = is_of_interest.then(|| cuda(candidate));
    vec![title(candidate), cuda.unwrap_or_default(), from]
}

fn title(candidate: &ReleaseCandidate) -> String {
    let extra = candidate.extra.map(|extra| format!("[{extra}]"));
    format!(
        "{}{} {}",
        candidate.name,
        extra.unwrap_or_default(),
        candidate.version
    )
}

fn cuda(candidate: &ReleaseCandidate) -> String {
    match candidate.cuda.as_deref() {
        Some([]) => String::new(),
        Some([only]) => format!("CUDA {only}"),
        Some([first, .., last]) => format!("CUDA {first} to {last}"),
        None => "CUDA not known".to_owned(),
    }
}

impl AdviceReport<'_> {
    fn of_role(&self, role: Role) -> impl Iterator<Item = &ReleaseCandidate> {
        let picks = self.advice.picks.iter();
        picks
            .filter(move |pick| pick.role == role)
            .map(|pick| &pick.candidate)
    }

    /// The releases that the command names.
    fn to_install(&self) -> impl Iterator<Item = &ReleaseCandidate> {
        self.of_role(Role::Asked)
            .chain(self.of_role(Role::Framework))
            .filter(|one| !one.is_installed && !one.source_only)
    }
}

pub(super) fn commands(report: &AdviceReport<'_>) -> Commands {
    let mut commands = Commands {
        pip: None,
        uv: None,
        notes: Vec::new(),
    };
    let words: Vec<OsString> = report
        .to_install()
        .map(|one| one.requirement().into())
        .collect();
    let words = shell_words(&words);
    let picks = report.advice.picks.iter().map(|pick| &pick.candidate);
    let vendor = picks
        .filter(|one| !one.is_installed)
        .find_map(|one| Some((one.vendor?, one.backend()?)));
    if let Some((build, backend)) = vendor {
        commands.uv = Some(format!("uv pip install --torch-backend={backend} {words}"));
        let local = report.to_install().map(|one| {
            let label = one.vendor.map(|_| format!("+{backend}"));
            let requirement = format!("{}{}", one.requirement(), label.unwrap_or_default());
            argument(requirement.as_ref())
        });
        commands.notes.push(format!(
            "With pip: `pip install {}`, and --extra-index-url with the address of {}'s index for {backend}.",
            joined(local, " "),
            build.vendor,
        ));
        let on_default = report.advice.on_default_index.iter();
        let titles: Vec<String> = on_default.map(|pick| pick.candidate.title()).collect();
        if !titles.is_empty() {
            let note = format!("From the default index alone: {}.", list(titles));
            commands.notes.push(note);
        }
    } else if !words.is_empty() {
        commands.pip = Some(format!("pip install {words}"));
        commands.uv = Some(format!("uv pip install {words}"));
    }
    commands.notes.extend(notes(report));
    commands
}

/// What is to be known of the releases that were asked for.
fn notes(report: &AdviceReport<'_>) -> Vec<String> {
    let mut notes = Vec::new();
    for one in report.of_role(Role::Asked) {
        let title = one.title();
        if one.source_only {
            let requirement = argument(one.requirement().as_ref());
            notes.push(format!(
                "{title} has no wheel. Compile it afterwards: `cudarun --build pip install --no-build-isolation {requirement}`"
            ));
        } else if one.cuda.is_none() {
            notes.push(format!("Which CUDA {title} is built for is not known."));
        }
        for build in knowledge().vendor_builds() {
            let versions = there(build, one.name).filter(|_| build.backend.is_none());
            if let Some(versions) = versions {
                notes.push(format!(
                    "{} {versions} is on {}'s own index, whose releases are not known here.",
                    one.name, build.vendor
                ));
            }
        }
    }
    if let Some(KeptFramework { name, version }) = &report.replaced {
        notes.push(format!(
            "Nothing works with the installed {name} {version}, which these replace."
        ));
    }
    if report.target.driver.is_none() {
        notes.push("No driver was found. --driver VERSION asks for a machine with one.".to_owned());
    }
    notes
}

/// `vllm 0.33.0 is built for CUDA 13, which needs driver 580.65.06; here is 550.54.`
pub(super) fn passed_over(one: &PassedOver, target: &AdvisedMachine) -> String {
    format!("{} {} {}.", one.name, one.version, why(&one.why, target))
}

fn why(obstacle: &ReleaseObstacle, target: &AdvisedMachine) -> String {
    match obstacle {
        ReleaseObstacle::Machine(machine) => format!("has no wheel for {machine}"),
        ReleaseObstacle::WithoutCuda(machine) => format!("is built without CUDA for {machine}"),
        ReleaseObstacle::Python(range) => match target.python {
            Some(python) => format!("is for Python {range}; here is {python}"),
            None => format!("is for Python {range}"),
        },
        ReleaseObstacle::Driver { cuda, needs } => {
            let here = target.driver.map(|driver| format!("; here is {driver}"));
            let here = here.unwrap_or_default();
            format!("is built for CUDA {cuda}, which needs driver {needs}{here}")
        }
        ReleaseObstacle::Gpu { gpu, has } => format!("has code for GPU {has}, not for {gpu}"),
        ReleaseObstacle::NotForJetson(gpu) => format!(
            "is built for Arm servers, and not for a Jetson with GPU {gpu}; NVIDIA's index for its JetPack has other builds"
        ),
        ReleaseObstacle::DroppedGpu { gpu, cuda, last } => format!(
            "is built for CUDA {cuda}, which makes no code for GPU {gpu}; CUDA {last} was the last"
        ),
        ReleaseObstacle::Needs { needs, why: None } => {
            let installed = target
                .installed
                .as_ref()
                .filter(|installed| needs.starts_with(&installed.name));
            match installed {
                Some(KeptFramework { name, version }) => {
                    format!("needs {needs}, and {name} {version} is to be kept")
                }
                None => format!("needs {needs}, which the table does not have"),
            }
        }
        ReleaseObstacle::Needs {
            needs,
            why: Some(because),
        } => {
            format!("needs {needs}, which {}", why(because, target))
        }
        ReleaseObstacle::Conflict {
            needs,
            other,
            other_needs,
        } => {
            format!("needs {needs}, but {other} needs {other_needs}")
        }
        ReleaseObstacle::NeededOtherwise { other, other_needs } => {
            format!("is not what {other} needs: {other_needs}")
        }
        ReleaseObstacle::AskedOtherwise { needs } => {
            format!("needs {needs}, and another version is asked for")
        }
        ReleaseObstacle::OtherCuda {
            cuda,
            other,
            other_cuda,
        } => {
            format!("is built for CUDA {cuda}, but {other} for CUDA {other_cuda}")
        }
        ReleaseObstacle::Together => "needs other releases than the rest".to_owned(),
    }
}

/// The question to which there is an answer; `None` if no command asks it.
pub(super) fn relaxed_command(report: &AdviceReport<'_>) -> Option<String> {
    let options = report.options;
    let (mut driver, mut python) = (options.driver, options.python.clone());
    let mut torch = options.torch.clone();
    let mut packages = options.packages.clone();
    match report.advice.relaxed.as_ref()? {
        Relaxed::Driver(other) => driver = Some(*other),
        Relaxed::Python(other) => python = Some(other.to_string().into()),
        Relaxed::OtherFramework => torch = None,
        Relaxed::OtherVersions => packages.iter_mut().for_each(drop_versions),
        Relaxed::Without(name) => {
            packages.retain(|text| {
                text.parse()
                    .is_ok_and(|one: AskedPackage| one.name != *name)
            });
        }
        Relaxed::OtherGpu => return None,
    }
    let gpus = (!options.gpu.is_empty()).then(|| joined(&options.gpu, ",").into());
    let given: [(&str, Option<OsString>); 5] = [
        ("--driver", driver.map(|driver| driver.to_string().into())),
        ("--gpu", gpus),
        ("--python", python),
        ("--torch", torch.map(OsString::from)),
        ("--machine", options.machine.clone().map(OsString::from)),
    ];
    let mut words: Vec<OsString> = vec!["cudarun".into(), "advise".into()];
    for (name, value) in given {
        if let Some(value) = value {
            words.extend([name.into(), value]);
        }
    }
    words.extend(packages.into_iter().map(OsString::from));
    Some(shell_words(&words))
}

fn drop_versions(package: &mut String) {
    let end = package.find(['=', '<', '>', '~', '!', ' ']);
    package.truncate(end.unwrap_or(package.len()));
}
