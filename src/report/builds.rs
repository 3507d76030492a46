//! Toolkits for builds, and the one that a build gets.

use std::ffi::OsStr;

use super::Style;
use super::hints::{argument, shell_words};
use super::shell::shell_change;
use super::words::{self, counted};
use crate::builds::{
    BuildPlan, BuildWish, CompilerLack, Compilers, NoToolkit, Overridden, RejectedToolkit,
    ToolkitReason, Withheld,
};
use crate::catalog::{catalog, toolkits};
use crate::cli::Dialect;
use crate::error::TypedReason;
use crate::inventory::{ChangedBy, Inventory, PartKind, Toolkit, WritablePath};
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
    let is_shown = |toolkit: &&Toolkit| verbosity > 0 || toolkit.part(PartKind::Nvcc).is_some();
    let shown: Vec<&Toolkit> = toolkits.iter().filter(is_shown).collect();
    let mut text = if shown.is_empty() {
        "no CUDA toolkit with nvcc was found\n".to_owned()
    } else {
        let titles = ["RELEASE", "GCC", "ORIGIN", "DIRECTORY"].map(|title| style.strong(title));
        let mut rows = vec![titles.to_vec()];
        for toolkit in &shown {
            rows.push(row(toolkit, style));
            if verbosity > 0 {
                rows.extend(toolkit.parts.iter().map(|(part, found)| {
                    let release = found
                        .release
                        .as_ref()
                        .map_or_else(String::new, ToString::to_string);
                    let cells = [
                        format!("  {}", part.file_name()),
                        String::new(),
                        release,
                        show(&found.path),
                    ];
                    cells.map(|cell| style.dim(&cell)).to_vec()
                }));
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
    let mut row = vec![
        words::version(toolkit.release.as_ref()),
        toolkit
            .newest_gcc
            .map_or_else(String::new, |newest| format!("≤ {newest}")),
        toolkit.origin.word().to_owned(),
        show(&toolkit.root),
    ];
    let problems: Vec<String> = toolkit.problems.iter().map(ToString::to_string).collect();
    row.extend((!problems.is_empty()).then(|| style.warning(&problems.join("; "))));
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
        let gpus: Vec<String> = plan.gpus.iter().map(ToString::to_string).collect();
        rows.push(vec![
            "gpus".to_owned(),
            format!("compute capability {}", gpus.join(", ")),
        ]);
    }
    for toolkit in &plan.passed_over {
        rows.push(vec!["passed over".to_owned(), title(toolkit)]);
    }
    rows.extend(
        plan.rejected
            .iter()
            .filter(|rejected| is_of_interest(rejected))
            .map(|rejected| {
                vec![
                    "rejected".to_owned(),
                    format!(
                        "{}: {}",
                        title(&rejected.toolkit),
                        rejected.reason.to_string()
                    ),
                ]
            }),
    );
    let mut text = format!("{}\n{}", style.strong("build"), style.columns("  ", &rows));
    for line in build_remarks(plan) {
        text.push_str(&format!("  {line}\n"));
    }
    text + "\n"
}

/// The compilers that frameworks get while they run, and those that they will not find.
pub(super) fn compilers(compilers: &Compilers, style: Style) -> String {
    let rows: Vec<Vec<String>> = compiler_lines(compilers).map(|line| vec![line]).collect();
    if rows.is_empty() {
        return String::new();
    }
    format!(
        "{}\n{}\n",
        style.strong("compilers"),
        style.columns("  ", &rows)
    )
}

pub(super) fn compiler_lines(compilers: &Compilers) -> impl Iterator<Item = String> {
    let lacks = |CompilerLack { package, part, old }: &CompilerLack| match old {
        None => format!("{} finds no {}", show(package), part.file_name()),
        Some(old) => format!(
            "{} finds {} {old}, too old for a GPU here",
            show(package),
            part.file_name()
        ),
    };
    let supplied = compilers.supplied.iter().map(move |supply| {
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
        format!("{}: {}", lacks(&supply.lack), given.trim_end())
    });
    let lacking = compilers.lacking.iter().map(lacks);
    supplied.chain(lacking.map(|lack| format!("{lack}, and no toolkit here has one that fits")))
}

/// The remarks about a build that a person must know of.
pub fn build_remarks(plan: &BuildPlan) -> Vec<String> {
    let overridden = plan
        .overridden
        .iter()
        .map(|Overridden(name, value, against)| {
            let why = match against {
                Some(against) => format!("does not fit ({against})"),
                None => "names another toolkit than a variable that goes before it".to_owned(),
            };
            format!(
                "{name}={} {why}, so this build gets {}",
                show(value),
                title(&plan.toolkit)
            )
        });
    let mut remarks: Vec<String> = overridden.collect();
    if let Some(framework) = plan.framework.as_ref().filter(|_| plan.is_isolated) {
        let name = framework.name.split(' ').next().unwrap_or_default();
        remarks.push(format!(
            "this command builds without {}: add --no-build-isolation",
            show(name)
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
        let mut rows = needs(&self.wish);
        let found: Vec<&RejectedToolkit> = self
            .rejected
            .iter()
            .filter(|one| is_of_interest(one))
            .collect();
        for (index, rejected) in found.iter().enumerate() {
            let label = if index == 0 { "found" } else { "" };
            let release = words::version(rejected.toolkit.release.as_ref());
            rows.push(vec![
                label.to_owned(),
                release,
                show(&rejected.toolkit.root),
                rejected.reason.to_string(),
            ]);
        }
        if found.is_empty() {
            rows.push(vec!["found".to_owned(), "no nvcc".to_owned()]);
        }
        let table = Style::default().columns("  ", &rows);
        format!("no CUDA toolkit here fits this build\n{}", table.trim_end())
    }

    fn hint(&self) -> Option<String> {
        let Some(RejectedToolkit { toolkit, reason }) = self.nearest() else {
            return self.install.map(install);
        };
        let is_of_user = |open: &WritablePath| matches!(open.who, ChangedBy::User { .. });
        match reason {
            ToolkitReason::Open { .. } if toolkit.open.iter().any(is_of_user) => {
                let root = argument(toolkit.root.as_os_str());
                Some(format!("if you trust this user: --also {root}"))
            }
            ToolkitReason::Open { .. } => {
                let paths = toolkit
                    .open
                    .iter()
                    .map(|open| open.path.as_os_str().to_owned());
                Some(format!(
                    "chmod go-w {}",
                    shell_words(&paths.collect::<Vec<_>>())
                ))
            }
            ToolkitReason::GccTooNew { newest, .. } => Some(format!("apt install g++-{newest}")),
            ToolkitReason::HeaderMissing { header, .. } => Some(packages(header, toolkit.cuda()?)),
            _ => self.install.map(install),
        }
    }
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

fn needs(wish: &BuildWish) -> Vec<Vec<String>> {
    let of_framework = wish.framework.iter().map(|framework| {
        vec![
            format!("CUDA {}", framework.cuda),
            show(&framework.name),
            show(&framework.file),
        ]
    });
    let of_person = wish
        .ranges
        .iter()
        .map(|(range, by)| vec![format!("CUDA {range}"), by.with_place()]);
    let mut rows: Vec<Vec<String>> = of_framework.chain(of_person).collect();
    for (index, row) in rows.iter_mut().enumerate() {
        row.insert(0, if index == 0 { "needs" } else { "" }.to_owned());
    }
    rows
}
