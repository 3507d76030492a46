//! The rules by which the dynamic loader finds a file, and its failures.

use std::path::Path;

use crate::loader::process::Failure;
use crate::loader::search::Rule;
use crate::text::show;
use crate::variables;

pub(super) fn rule(rule: &Rule) -> String {
    match rule {
        Rule::Executable => "the program".to_owned(),
        Rule::Interpreter => "the loader itself".to_owned(),
        Rule::Preload => variables::PRELOAD.to_owned(),
        Rule::Path => "by its path".to_owned(),
        Rule::Rpath { of } => format!("DT_RPATH of {}", file_name(of)),
        Rule::LibraryPath { element } if element.is_empty() => {
            "an empty element of LD_LIBRARY_PATH".to_owned()
        }
        Rule::LibraryPath { element } => format!("LD_LIBRARY_PATH, {}", show(element)),
        Rule::Runpath => "its requester's DT_RUNPATH".to_owned(),
        Rule::Cache => "ld.so.cache".to_owned(),
        Rule::Default => "a default directory".to_owned(),
        Rule::Pinned => "pinned".to_owned(),
    }
}

pub(super) fn file_name(path: &Path) -> String {
    path.file_name().map(show).unwrap_or_default()
}

pub(super) fn failure(failure: &Failure) -> String {
    match failure {
        Failure::Static => "it is linked statically, without a dynamic loader".to_owned(),
        Failure::OtherLoader { interpreter } => {
            format!("its loader is {}, not glibc's", show(interpreter))
        }
        Failure::NoInterpreter { interpreter } => {
            format!("its loader {} does not exist", show(interpreter))
        }
        Failure::Unreadable { path } => format!("{} cannot be read", show(path)),
        Failure::OtherMachine { path } => format!("{} is for another architecture", show(path)),
        Failure::NotFound(miss) => format!("{} is not found", show(&miss.name)),
        Failure::Bad { path, why, .. } => format!("{} is {why}", show(path)),
        Failure::Version { file, version, .. } => {
            format!("{} has no version {}", show(file), show(version))
        }
    }
}
