//! Extension modules and the framework that they are built against.

use std::path::PathBuf;

use super::words::counted;
use super::{Style, hints};
use crate::inventory::{Extension, Inventory};
use crate::program::Program;
use crate::text::{show, shown};

/// One line for each extension module.
pub fn listed_extensions(extensions: &[Extension], style: Style) -> String {
    if extensions.is_empty() {
        return "no extension module here is built against a framework\n".to_owned();
    }
    let titles = ["PACKAGE", "FRAMEWORK", "LACKS", "FILE"].map(|title| style.strong(title));
    let mut rows = vec![titles.to_vec()];
    for extension in extensions {
        let lacks = if extension.fits() {
            "nothing".to_owned()
        } else {
            style.warning(&lacks(extension))
        };
        rows.push(vec![
            show(&extension.package),
            show(&extension.framework),
            lacks,
            show(&extension.path),
        ]);
    }
    style.columns("", &rows)
}

/// `vllm/_C.abi3.so needs 14 symbols, which torch 2.5.1 does not have (vllm 0.8.0 is built for 2.6.0)`
pub(super) fn sentence(extension: &Extension) -> String {
    let components = Vec::from_iter(&extension.path);
    let file = PathBuf::from_iter(&components[components.len().saturating_sub(2)..]);
    let built_for = match &extension.built_for {
        Some(version) => {
            let package = show(&extension.package);
            format!(" ({package} is built for {})", show(version))
        }
        None => String::new(),
    };
    let (lacks, framework) = (lacks(extension), show(&extension.framework));
    format!(
        "{} needs {lacks}, which {framework} does not have{built_for}",
        show(&file)
    )
}

/// A warning for each package that does not fit its framework, and the command that installs builds that do.
pub fn unfit_extensions(inventory: &Inventory, program: &Program, style: Style) -> Vec<String> {
    let unfit: Vec<&Extension> = inventory.unfit_extensions().collect();
    let mark = style.warning("warning:");
    let warning = |extension: &&Extension| format!("{mark} {}", sentence(extension));
    let mut lines: Vec<String> = unfit.iter().map(warning).collect();
    if !unfit.is_empty() {
        let remedy = hints::fitting_builds(&unfit, program.pip.as_ref());
        lines.push(format!("{} {remedy}", style.hint("hint:")));
    }
    lines
}

/// The packages with extension modules, and whether these fit.
pub(super) fn rows(inventory: &Inventory) -> Vec<Vec<String>> {
    let unfit: Vec<&str> = inventory
        .unfit_extensions()
        .map(|extension| extension.package.as_str())
        .collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    for extension in inventory.imported_extensions() {
        let package = show(&extension.package);
        if rows.iter().all(|row| row[0] != package) {
            let is_unfit = unfit.contains(&extension.package.as_str());
            let fits = if is_unfit { "does not fit" } else { "fits" };
            let framework = show(&extension.framework);
            rows.push(vec![package, format!("{fits} {framework}")]);
        }
    }
    rows
}

/// `14 symbols and libtorch_cuda_cpp.so`
fn lacks(extension: &Extension) -> String {
    let count = extension.lacks_symbols.len();
    let mut lacks = extension.lacks_libraries.clone();
    if count > 0 {
        lacks.insert(0, counted(count, "symbol"));
    }
    shown(lacks)
}
