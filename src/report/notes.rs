//! The wording of facts about how a program was read.

use std::path::Path;

use super::words::bare_name;
use crate::advise::known_names;
use crate::program::{EnvironmentLoss, Note, Packer, Program};
use crate::text::show;

pub fn note(note: &Note, program: &Program) -> String {
    note_of(note, program.runs())
}

/// A note about the program of this path.
pub(super) fn note_of(note: &Note, program: &Path) -> String {
    let program = show(program.file_name().unwrap_or_default());
    match note {
        Note::Static { names: None } => {
            format!(
                "`{program}` is linked statically: it has no dynamic loader, so nothing can be pinned"
            )
        }
        Note::Static { names: Some(name) } => format!(
            "`{program}` is linked statically: it has no dynamic loader, so {}, which it names, cannot be pinned",
            show(name)
        ),
        Note::SecureExecution { why, .. } => {
            format!(
                "`{program}` runs with other rights ({why}): the loader ignores cudarun's variables"
            )
        }
        Note::ForeignMachine => format!("`{program}` is not a 64-bit program for this machine"),
        Note::ForeignLoader { loader, .. } => {
            format!(
                "`{program}` uses {}; NVIDIA has no libraries for that C library",
                show(loader)
            )
        }
        Note::ScriptNotRead { interpreter } => format!(
            "`{program}` is a script for {}, and cudarun does not read such scripts: put cudarun inside it, before the program that uses the GPU",
            show(interpreter)
        ),
        Note::StartsAnother => format!(
            "`{program}` starts another program, which cudarun cannot see: put cudarun right before that one"
        ),
        Note::MayStartAnother => format!(
            "`{program}` may start other programs, and LD_LIBRARY_PATH or LD_PRELOAD leads them to NVIDIA libraries: put cudarun right before those programs"
        ),
        Note::Namespace { directory } => format!(
            "`{program}` may open libraries in {} by path with dlmopen, and cudarun cannot redirect that",
            show(directory)
        ),
        Note::Elsewhere => format!(
            "`{program}` starts its program on another machine or under another root, which this environment does not reach: put cudarun after `{program}`, right before that program"
        ),
        Note::EnvironmentNotKnown { wrapper } => format!(
            "`{}` chooses or creates the environment at run time, so the requirements are unknown: put cudarun after it, right before the program",
            show(wrapper)
        ),
        Note::LosesEnvironment { wrapper, loss } => losses(&show(wrapper), loss, &program),
        Note::Packed {
            by: Packer::AppImage,
        } => format!(
            "`{program}` is an AppImage: cudarun does not read its content, which usually comes before LD_LIBRARY_PATH"
        ),
        Note::Packed {
            by: Packer::PyInstaller { libraries },
        } => format!(
            "`{program}` is packed by PyInstaller: the loader finds {} in it before LD_LIBRARY_PATH",
            match libraries.as_slice() {
                [] => "every library".to_owned(),
                [only] => show(only),
                [first, _] => format!("{} and 1 more library", show(first)),
                [first, rest @ ..] => format!("{} and {} more libraries", show(first), rest.len()),
            }
        ),
        Note::SourceNotRead { file, why, .. } => {
            format!("cannot read {}: {}", show(file), show(why))
        }
        Note::ShimNotResolved => format!(
            "`{program}` is a pyenv shim for a version that is not installed, so its requirements are unknown"
        ),
        Note::ShimOfMise => format!(
            "`{program}` is a mise shim, which chooses the program at run time: type `mise exec -- cudarun …`"
        ),
        Note::NotReadable => {
            format!(
                "`{program}` is not readable, so its requirements are unknown: started unchanged"
            )
        }
        Note::NotWhereItIsSought { module, by } => format!(
            "{} imports `{}`, which is not on Python's search path: cudarun picks nothing for it",
            show(by),
            show(module)
        ),
        Note::Malformed { why } => format!("`{program}` is malformed: {}", show(why)),
        Note::CpuOnly { package, file } => {
            let name = bare_name(package);
            let mut text = format!(
                "`{}` is built without CUDA and requires no library: {}",
                show(package),
                show(file)
            );
            if known_names().any(|known| known == name) {
                text +=
                    &format!("; `cudarun advise {name}` names a build with CUDA for this machine");
            }
            text
        }
        Note::CrashesWithoutGpu { package } => format!(
            "there is no GPU here, and `{}` crashes if it finds its GPU libraries: cudarun picks none for it, so it uses the CPU",
            show(package)
        ),
        Note::Moved {
            package,
            variable,
            does,
        } => {
            format!("`{}` reads {variable}, which is set: {does}", show(package))
        }
        Note::NoSitePackages => format!("the site-packages of `{program}` were not found"),
    }
}

fn other_rights(wrapper: &str, before: &str) -> String {
    format!(
        "`{wrapper}` starts its program with other rights, which cudarun's view does not reach: {before}"
    )
}

/// The way in which a wrapper loses the environment, and the command to type instead.
fn losses(wrapper: &str, loss: &EnvironmentLoss, program: &str) -> String {
    // The started program may not have been found.
    let before = if program == wrapper {
        "put cudarun right before the program that it starts".to_owned()
    } else {
        format!("put cudarun right before `{program}`")
    };
    match loss {
        EnvironmentLoss::Rights => {
            let inside = match wrapper {
                "su" => "su -c 'cudarun …'".to_owned(),
                "runuser" => "runuser -u USER cudarun …".to_owned(),
                "sudo" | "doas" | "pkexec" => format!("{wrapper} cudarun …"),
                _ => return other_rights(wrapper, &before),
            };
            format!(
                "`{wrapper}` removes the loader's variables from the environment: type `{inside}` instead of `cudarun {wrapper} …`"
            )
        }
        EnvironmentLoss::User => other_rights(wrapper, &before),
        EnvironmentLoss::Clears => format!("`{wrapper}` clears the environment: {before}"),
        EnvironmentLoss::Sets { variable } => {
            format!("`{wrapper}` sets {variable} after cudarun does: {before}")
        }
        EnvironmentLoss::Unsets { variable } => {
            format!("`{wrapper}` removes {variable} from the environment: {before}")
        }
    }
}
