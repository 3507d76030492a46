//! Extension modules and the framework that they are built against.

use super::Style;
use super::words::{counted, quoted_to_show};
use crate::inventory::{Extension, Inventory};
use crate::program::Program;
use crate::text::{show, shown};

/// One line for each extension module.
pub fn listed_extensions(extensions: &[Extension], style: Style) -> String {
    if extensions.is_empty() {
        return "no extension module here is built against a framework\n".to_owned();
    }
    let titles = ["PACKAGE", "FRAMEWORK", "LACKS", "FILE"].map(|title| style.strong(title));
    let row = |extension: &Extension| {
        let lacks = if extension.fits() {
            "nothing".to_owned()
        } else {
            style.warning(&lacks(extension))
        };
        vec![
            show(&extension.package),
            show(&extension.framework),
            lacks,
            show(&extension.path),
        ]
    };
    let rows: Vec<Vec<String>> = std::iter::once(titles.to_vec())
        .chain(extensions.iter().map(row))
        .collect();
    style.columns("", &rows)
}

/// The extension modules that do not fit their framework, of the packages that the program imports.
pub(super) fn unfit<'i>(inventory: &'i Inventory, program: &Program) -> Vec<&'i Extension> {
    let is_used = |extension: &&Extension| {
        extension
            .path
            .ancestors()
            .any(|path| program.imported.contains(path))
    };
    let unfit = inventory
        .extensions
        .iter()
        .flatten()
        .filter(|extension| !extension.fits());
    unfit.filter(is_used).collect()
}

/// `vllm/_C.abi3.so needs 14 symbols, which torch 2.5.1 does not have (vllm 0.8.0 is built for 2.6.0)`
pub(super) fn sentence(extension: &Extension) -> String {
    let components: Vec<_> = extension.path.components().rev().take(2).collect();
    let file: std::path::PathBuf = components.into_iter().rev().collect();
    let built_for = extension.built_for.as_ref();
    let built_for = built_for.map(|version| {
        format!(
            " ({} is built for {})",
            show(&extension.package),
            show(version)
        )
    });
    let (lacks, framework) = (lacks(extension), show(&extension.framework));
    format!(
        "{} needs {lacks}, which {framework} does not have{}",
        show(&file),
        built_for.unwrap_or_default()
    )
}

/// The command that installs the framework version that the package asks for, or else the advice to install a build of the
/// package that fits.
pub(super) fn remedy(extension: &Extension) -> String {
    let name = |title: &str| title.split(' ').next().unwrap_or_default().to_owned();
    let (package, framework) = (name(&extension.package), name(&extension.framework));
    let installed = extension.framework.split([' ', '+']).nth(1);
    match extension
        .built_for
        .as_deref()
        .filter(|version| Some(*version) != installed)
    {
        // torchaudio 2.5.1 is the one for torch 2.5.1.
        Some(version) if extension.package.split([' ', '+']).nth(1) == Some(version) => {
            pip_install(&format!("{package}=={}", installed.unwrap_or_default()))
        }
        Some(version) => pip_install(&format!("{framework}=={version}")),
        None => format!(
            "install the build of {} for {}",
            show(&package),
            show(&extension.framework)
        ),
    }
}

pub(super) fn pip_install(requirement: &str) -> String {
    format!("pip install {}", quoted_to_show(requirement.as_ref()))
}

/// `14 symbols and libtorch_cuda_cpp.so`
fn lacks(extension: &Extension) -> String {
    let count = extension.lacks_symbols.len();
    let symbols = (count > 0).then(|| counted(count, "symbol"));
    shown(
        symbols
            .into_iter()
            .chain(extension.lacks_libraries.iter().cloned())
            .collect::<Vec<_>>(),
    )
}
