//! A shell in which a plan holds. Start-up files may set the variables of the plan, so the shell sets them once more after its
//! own files: bash and zsh by files of ours that read the own ones first, fish by an option.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use crate::cli::Shell;
use crate::environment::Environment;
use crate::host::Host;
use crate::storage::{self, NoPlace, WriteRefusal};

/// The variable with the plan as code, which the shell removes.
pub const PLAN: &str = "CUDARUN_SHELL_PLAN";
/// The variable with the value that the variable for our files had before.
const OWN: &str = "CUDARUN_SHELL_OWN";
const FILES: [(&str, &str); 3] = [
    ("bashrc", include_str!("start.bash")),
    (".zshenv", include_str!("start.zshenv")),
    (".zshrc", include_str!("start.zshrc")),
];

/// The shells, by the names of their files.
pub const SHELLS: [(&str, Shell); 3] = [
    ("bash", Shell::Bash),
    ("zsh", Shell::Zsh),
    ("fish", Shell::Fish),
];

/// Leads the shell to our start-up files by its environment, and returns its arguments.
pub fn prepare(host: &Host, shell: Shell, env: &mut Environment) -> Result<Vec<OsString>, NoPlace> {
    if shell == Shell::Fish {
        return Ok(vec![
            "--init-command".into(),
            format!("eval ${PLAN}; set -e {PLAN}").into(),
        ]);
    }
    let (variable, file) = if shell == Shell::Zsh {
        ("ZDOTDIR", "")
    } else {
        ("BASH_ENV", "bashrc")
    };
    let path = publish(host)?.join(file);
    let own = env.get(variable).map(ToOwned::to_owned);
    env.set(variable, path.components().as_path().as_os_str());
    if let Some(own) = own {
        env.set(OWN, own);
    }
    Ok(if shell == Shell::Bash {
        vec!["--rcfile".into(), path.into()]
    } else {
        Vec::new()
    })
}

/// Writes our start-up files, and returns their directory.
fn publish(host: &Host) -> Result<PathBuf, NoPlace> {
    let name = storage::digest(FILES.map(|(_, text)| text.as_bytes()));
    storage::first_usable(host, |cache: &Path| {
        let directory = cache.join("shell").join(&name);
        for (name, text) in FILES {
            if storage::read(host, &directory, name).is_none_or(|found| found != text.as_bytes()) {
                storage::deliver(host, &directory, name, text.as_bytes())
                    .map_err(|error| WriteRefusal::<NoPlace>::Here(error.into()))?;
            }
        }
        Ok(directory)
    })
}
