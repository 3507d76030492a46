//! Extension modules and the framework that they are built against.

use std::path::PathBuf;

use super::Style;
use super::words::{bare_name, counted, quoted_to_show};
use crate::inventory::Extension;
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

/// The command that installs the framework version that the package asks for, or else the advice to install a build of the
/// package that fits.
pub(super) fn remedy(extension: &Extension) -> String {
    let (package, framework) = (
        bare_name(&extension.package),
        bare_name(&extension.framework),
    );
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
            show(package),
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
    let mut lacks = extension.lacks_libraries.clone();
    if count > 0 {
        lacks.insert(0, counted(count, "symbol"));
    }
    shown(lacks)
}
