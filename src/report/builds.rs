//! Toolkits for builds, and the one that a build gets.

use std::ffi::OsStr;

use super::Style;
use super::hints::{self, argument, shell_words};
use super::refusal::labelled;
use super::shell::shell_change;
use super::words::{self, counted};
use crate::builds::{
    BuildPlan, BuildRequirements, CompilerLack, Compilers, NoToolkit, Overridden, RejectedToolkit,
    ToolkitReason, Withheld,
};
use crate::catalog::{catalog, toolkits};
use crate::cli::Dialect;
use crate::error::TypedReason;
use crate::inventory::{ChangedBy, Inventory, PartKind, Toolkit};
use crate::program::Pip;
use crate::text::show;
use crate::version::CudaVersion;

/// One line for each toolkit. The page ends with a command to type, unless families were named that follow.
pub fn listed_toolkits(
    inventory: &Inventory,
    families: &[String],
    verbosity: u8,
    style: Style,
) -> String {
    let toolkits = inventory.toolkits.as_deref().unwrap_or_default();
    let mut shown = Vec::from_iter(toolkits);
    shown.retain(|toolkit| verbosity > 0 || toolkit.part(PartKind::Nvcc).is_some());
    let mut text = if shown.is_empty() {
        "no CUDA toolkit with nvcc was found\n".to_owned()
    } else {
        let titles = ["RELEASE", "GCC", "ORIGIN", "DIRECTORY"].map(|title| style.strong(title));
        let mut rows = vec![titles.to_vec()];
        for toolkit in &shown {
            rows.push(row(toolkit, style));
            if verbosity > 0 {
                for (part, found) in &toolkit.parts {
                    let cells = [
                        format!("  {}", part.file_name()),
                        String::new(),
                        found.release.map(|one| one.to_string()).unwrap_or_default(),
                        show(&found.path),
                    ];
                    rows.push(cells.map(|cell| style.dim(&cell)).to_vec());
                }
            }
        }
        format!(
            "{}\n\n{}",
            style.good(&counted(shown.len(), "toolkit")),
            style.columns("", &rows)
        )
    };
    if toolkits.len() > shown.len() {
        let more = match toolkits.len() - shown.len() {
            1 => "1 directory".to_owned(),
            more => format!("{more} directories"),
        };
        text.push_str(&format!(
            "\n{more} with other compilers than nvcc: `cudarun list -v toolkit` shows them\n"
        ));
    }
    if !families.is_empty() {
        return text + "\n";
    }
    text + &style.next(match (shown.is_empty(), style.is_elsewhere()) {
        (false, _) => "cudarun explain --build PROGRAM",
        (true, false) => "cudarun fetch toolkit",
        (true, true) => "cudarun fetch --dry-run toolkit",
    })
}

fn row(toolkit: &Toolkit, style: Style) -> Vec<String> {
    let newest_gcc = toolkit.newest_gcc.map(|newest| format!("≤ {newest}"));
    let mut row = vec![
        words::version(toolkit.release.as_ref()),
        newest_gcc.unwrap_or_default(),
        toolkit.origin.word().to_owned(),
        show(&toolkit.root),
    ];
    row.extend(words::problems(&toolkit.problems, style));
    row
}

/// The toolkit that a build gets, and those that it does not get.
pub(super) fn build(plan: &BuildPlan, style: Style) -> String {
    let toolkit = &plan.toolkit;
    let mut rows = Vec::new();
    if let Some(framework) = &plan.framework {
        let needs = format!(
            "CUDA {}  {}  {}",
            framework.cuda,
            show(&framework.name),
            show(&framework.file)
        );
        rows.push(vec!["needs".to_owned(), needs]);
    }
    let place = if plan.spec.is_some() {
        ", through a view"
    } else {
        ""
    };
    rows.push(vec![
        "toolkit".to_owned(),
        format!("{}{place}", title(toolkit)),
    ]);
    let problems = toolkit.problems.iter().filter(|_| plan.spec.is_some());
    rows.extend(problems.map(|one| vec![String::new(), format!("the view helps: {one}")]));
    if let Some(compiler) = &plan.host_compiler {
        let newest = toolkit
            .newest_gcc
            .map(|newest| format!(": it accepts GCC up to {newest}"))
            .unwrap_or_default();
        rows.push(vec![
            "compiler".to_owned(),
            format!("{}{newest}", show(&compiler.path)),
        ]);
    }
    if !plan.gpus.is_empty() {
        let gpus = words::joined(&plan.gpus, ", ");
        rows.push(vec![
            "gpus".to_owned(),
            format!("compute capability {gpus}"),
        ]);
    }
    for toolkit in &plan.passed_over {
        rows.push(vec!["passed over".to_owned(), title(toolkit)]);
    }
    for rejected in &plan.rejected {
        if is_of_interest(rejected) {
            rows.push(vec![
                "rejected".to_owned(),
                format!("{}: {}", title(&rejected.toolkit), rejected.reason),
            ]);
        }
    }
    let mut text = format!("{}\n{}", style.strong("build"), style.columns("  ", &rows));
    for line in build_remarks(plan) {
        text.push_str(&format!("  {line}\n"));
    }
    text + "\n"
}

/// The compilers that frameworks get while they run, and those that they will not find.
pub(super) fn compilers(compilers: &Compilers, style: Style) -> String {
    let lines = compiler_lines(compilers).into_iter();
    let rows: Vec<_> = lines.map(|line| vec![line]).collect();
    let text = words::table("compilers", &rows, style);
    if text.is_empty() { text } else { text + "\n" }
}

pub(super) fn compiler_lines(compilers: &Compilers) -> Vec<String> {
    let mut lines = Vec::new();
    for supply in &compilers.supplied {
        let name = OsStr::new(&supply.variable);
        let set = shell_change(name, Some(&supply.value), Dialect::Sh).unwrap_or_default();
        let (variable, value) = (show(&supply.variable), show(&supply.value));
        let given = match supply.withheld {
            None => set,
            Some(Withheld::Blank) => format!("{variable} cannot hold the blank in {value}"),
            Some(Withheld::NamesFile) => {
                format!("{variable} names a file, add this to it: {value}")
            }
        };
        lines.push(format!("{}: {}", lacks(&supply.lack), given.trim_end()));
    }
    for lack in &compilers.lacking {
        let lacks = lacks(lack);
        lines.push(format!("{lacks}, and no toolkit here has one that fits"));
    }
    lines
}

/// CuPy has headers of its own for NVRTC before this version.
const OWN_HEADERS_BEFORE: CudaVersion = CudaVersion {
    major: 12,
    minor: 2,
};

/// A warning for each framework that does not work without what it lacks, and the command that gets it. NVRTC includes headers of
/// its own version.
pub fn lacking_compilers(
    compilers: &Compilers,
    nvrtc: Option<CudaVersion>,
    pip: Option<&Pip>,
    style: Style,
) -> Vec<String> {
    // CuPy, the one framework that needs headers, brings those for an older NVRTC.
    let is_served = |lack: &CompilerLack| {
        lack.part == PartKind::Headers && nvrtc.is_some_and(|nvrtc| nvrtc < OWN_HEADERS_BEFORE)
    };
    let needed = compilers
        .lacking
        .iter()
        .filter(|lack| lack.is_needed && !is_served(lack));
    let mut lines: Vec<String> = Vec::new();
    let mut hints: Vec<String> = Vec::new();
    for lack in needed {
        let mark = style.warning("warning:");
        lines.push(format!(
            "{mark} {}, which it needs while it runs",
            lacks(lack)
        ));
        let cuda = nvrtc.filter(|_| lack.part == PartKind::Headers);
        if let Some(cuda) = cuda.or(lack.install) {
            let hint = match lack.part {
                PartKind::Headers => hints::runtime_headers(cuda, pip),
                _ => install(cuda),
            };
            hints.push(format!("{} {hint}", style.hint("hint:")));
        }
    }
    hints.dedup();
    lines.extend(hints);
    lines
}

fn lacks(lack: &CompilerLack) -> String {
    let (package, file) = (show(&lack.package), lack.part.file_name());
    match lack.old {
        None => format!("{package} finds no {file}"),
        Some(old) => format!("{package} finds {file} {old}, too old for a GPU here"),
    }
}

/// The remarks about a build that a person must know of.
pub fn build_remarks(plan: &BuildPlan) -> Vec<String> {
    let mut remarks = Vec::new();
    for Overridden(name, value, against) in &plan.overridden {
        let why = match against {
            Some(against) => format!("does not fit ({against})"),
            None => "names another toolkit than a variable that goes before it".to_owned(),
        };
        remarks.push(format!(
            "{name}={} {why}, so this build gets {}",
            show(value),
            title(&plan.toolkit)
        ));
    }
    if let Some(framework) = plan.framework.as_ref().filter(|_| plan.is_isolated) {
        let name = show(words::bare_name(&framework.name));
        remarks.push(format!(
            "this command builds without {name}: add --no-build-isolation"
        ));
    }
    remarks
}

/// `CUDA 12.4.131 in /usr/local/cuda-12.4`
fn title(toolkit: &Toolkit) -> String {
    format!(
        "CUDA {} in {}",
        words::version(toolkit.release.as_ref()),
        show(&toolkit.root)
    )
}

/// A directory with one compiler, as a framework brings it, is no toolkit.
fn is_of_interest(rejected: &RejectedToolkit) -> bool {
    !matches!(rejected.reason, ToolkitReason::NoNvcc)
}

impl TypedReason for NoToolkit {
    fn sentence(&self) -> String {
        let mut rows = needs(&self.requirements);
        let mut found = Vec::new();
        for rejected in self.rejected.iter().filter(|one| is_of_interest(one)) {
            found.push(vec![
                words::version(rejected.toolkit.release.as_ref()),
                show(&rejected.toolkit.root),
                rejected.reason.to_string(),
            ]);
        }
        if found.is_empty() {
            found.push(vec!["no nvcc".to_owned()]);
        }
        rows.extend(labelled("found", found));
        let table = Style::default().columns("  ", &rows);
        format!("no CUDA toolkit here fits this build\n{}", table.trim_end())
    }

    fn hint(&self) -> Option<String> {
        let Some(RejectedToolkit { toolkit, reason }) = self.nearest() else {
            return self.install.map(install);
        };
        match reason {
            ToolkitReason::Open { .. } => Some(hint_for_open(toolkit)),
            ToolkitReason::GccTooNew { newest, .. } => Some(format!("apt install g++-{newest}")),
            ToolkitReason::HeaderMissing { header, .. } => Some(packages(header, toolkit.cuda()?)),
            _ => self.install.map(install),
        }
    }
}

fn hint_for_open(toolkit: &Toolkit) -> String {
    let mut open = toolkit.open.iter();
    if open.any(|open| matches!(open.who, ChangedBy::User { .. })) {
        let root = argument(toolkit.root.as_os_str());
        return format!("if you trust this user: --also {root}");
    }
    let paths = toolkit.open.iter();
    let paths: Vec<_> = paths
        .map(|open| open.path.clone().into_os_string())
        .collect();
    format!("chmod go-w {}", shell_words(&paths))
}

fn install(cuda: CudaVersion) -> String {
    let mut of_wheels = toolkits().iter().map(|row| CudaVersion::of(row.version));
    if of_wheels.any(|version| version == cuda) {
        return format!("cudarun fetch toolkit={cuda}");
    }
    let CudaVersion { major, minor } = cuda;
    format!(
        "conda install -c nvidia cuda-toolkit={cuda}, or: apt install cuda-toolkit-{major}-{minor}"
    )
}

/// The packages with a header, for a toolkit of this CUDA version: those of Python, and those of Debian.
fn packages(header: &str, cuda: CudaVersion) -> String {
    let CudaVersion { major, minor } = cuda;
    let mut families = catalog().families.iter();
    let (wheel, package) = match families.find(|family| header.starts_with(&family.name)) {
        Some(family) => (family.name.as_str(), format!("lib{}-dev", family.name)),
        None => ("cuda-cccl", "cuda-cccl".to_owned()),
    };
    let suffix = if major < 13 {
        format!("-cu{major}")
    } else {
        String::new()
    };
    format!("pip install nvidia-{wheel}{suffix}, or: apt install {package}-{major}-{minor}")
}

fn needs(requirements: &BuildRequirements) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    if let Some(framework) = &requirements.framework {
        rows.push(vec![
            format!("CUDA {}", framework.cuda),
            show(&framework.name),
            show(&framework.file),
        ]);
    }
    for (range, asker) in &requirements.ranges {
        rows.push(vec![format!("CUDA {range}"), asker.with_place()]);
    }
    labelled("needs", rows)
}
