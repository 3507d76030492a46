//! The wording of what a person should know about how a program was read.

use crate::program::{EnvironmentLoss, Note, Packer, Program};
use crate::text::{escape, show};

/// A remark about how the program was read.
pub fn note(note: &Note, program: &Program) -> String {
    let program = show(program.runs().file_name().unwrap_or_default());
    match note {
        Note::Static { names: None } => {
            format!("`{program}` is static: it has no loader, and nothing can be pinned")
        }
        Note::Static { names: Some(name) } => format!(
            "`{program}` is static: it has no loader, and {}, which it names, cannot be pinned",
            show(name)
        ),
        Note::SecureExecution { why, .. } => {
            format!("`{program}` runs with other rights ({why}): the loader ignores what cudarun would set")
        }
        Note::ForeignMachine => format!("`{program}` is not a 64-bit program of this kind of machine"),
        Note::ForeignLoader { loader, .. } => {
            format!("`{program}` uses {}, for which NVIDIA builds no libraries", show(loader))
        }
        Note::ScriptNotRead { interpreter } => {
            format!(
                "`{program}` is a script for {}, and what it starts is not looked into: put cudarun inside",
                show(interpreter)
            )
        }
        Note::StartsAnother => format!(
            "`{program}` starts another program, which is not looked into: put cudarun right before that one"
        ),
        Note::Elsewhere => format!(
            "`{program}` starts its program on another machine or under another root, where this environment does not reach: put cudarun inside"
        ),
        Note::EnvironmentNotKnown { wrapper } => format!(
            "`{}` chooses or makes the environment only when it runs, so what it starts is not known: put cudarun inside",
            show(wrapper)
        ),
        Note::LosesEnvironment { wrapper, loss } => losses(&show(wrapper), loss, &program),
        Note::Packed { by: Packer::AppImage } => format!(
            "`{program}` is an AppImage: what it carries is not looked into, and mostly comes before LD_LIBRARY_PATH"
        ),
        Note::Packed { by: Packer::PyInstaller { libraries } } => format!(
            "`{program}` is packed by PyInstaller: {} in it comes before LD_LIBRARY_PATH",
            match libraries.as_slice() {
                [] => "what stands".to_owned(),
                [only] => show(only),
                [first, rest @ ..] => format!("{} with {} more of NVIDIA's", show(first), rest.len()),
            }
        ),
        Note::SourceNotRead { file, why } => format!("{} cannot be read: {}", show(file), show(why)),
        Note::ShimNotResolved => format!(
            "`{program}` is a shim of pyenv for a version that is not installed: what it starts is not looked into"
        ),
        Note::ShimOfMise => format!(
            "`{program}` is a shim of mise, which chooses what to start only when it runs: put cudarun after it, `mise exec -- cudarun …`"
        ),
        Note::NotReadable => {
            format!(
                "`{program}` can be run but not read: what it needs is not known, and it is started unchanged"
            )
        }
        Note::NotWhereItIsSought { module, by } => format!(
            "{} imports `{}`, which stands in no directory that Python is known to search: nothing is picked for it",
            escape(by.as_bytes()),
            escape(module.as_bytes())
        ),
        Note::Malformed { why } => format!("`{program}` cannot be read as a program: {}", show(why)),
        Note::CpuOnly { package, file } => format!(
            "`{}` is built without CUDA and asks for no library: {}",
            escape(package.as_bytes()),
            show(file)
        ),
        Note::Moved { package, variable, does } => {
            format!("`{}` heeds {variable}, which is set: {does}", escape(package.as_bytes()))
        }
        Note::NoSitePackages => format!("the site-packages of `{program}` were not found"),
    }
}

/// How a wrapper undoes what would be set, and what to type instead.
fn losses(wrapper: &str, loss: &EnvironmentLoss, program: &str) -> String {
    // What it starts may not have been found.
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
                _ => {
                    return format!(
                        "`{wrapper}` starts its program with other rights, which what cudarun makes does not reach: {before}"
                    );
                }
            };
            format!(
                "`{wrapper}` takes the loader's variables out of the environment: type `{inside}` instead of `cudarun {wrapper} …`"
            )
        }
        EnvironmentLoss::Clears => format!("`{wrapper}` clears the environment that cudarun makes: {before}"),
        EnvironmentLoss::Sets { variable } => {
            format!("`{wrapper}` sets {variable} after cudarun does: {before}")
        }
        EnvironmentLoss::Unsets { variable } => {
            format!("`{wrapper}` takes {variable} out of the environment: {before}")
        }
        EnvironmentLoss::Script { file } => {
            format!("`{wrapper}` reads {}, which names the loader's variables: {before}", show(file))
        }
    }
}
