//! What is kept of a module: the directories and roots that it names for libraries, written anew. All else that it
//! says may be anybody's secret.

use std::path::{Path, PathBuf};

use super::names::Names;
use crate::environment::Environment;
use crate::inventory;

/// Whether the environment says that it is one, or where it stands.
pub(super) fn is_named(env: &Environment, path: &Path) -> bool {
    let list = |name: &str| {
        let list = env.non_empty(name).map(|list| list.to_string_lossy().into_owned()).unwrap_or_default();
        list.split(':').map(PathBuf::from).filter(|path| path.is_absolute()).collect::<Vec<_>>()
    };
    let is_below = |top: &Path| path != top && path.starts_with(top);
    list("_LMFILES_").iter().any(|file| file == path)
        || list("MODULEPATH").iter().any(|top| is_below(top))
        || inventory::MODULE_DIRECTORIES.iter().any(|top| is_below(Path::new(top)))
}

/// After the lines that are kept, which are no commands of a module, the directories and roots.
pub(super) fn with_places(path: &Path, mut kept: String, text: &str, names: &Names) -> String {
    let is_lua = path.extension().is_some_and(|extension| extension == "lua");
    let (directories, roots) = inventory::named_by_module(path, text);
    let mut say = |command: &str, variable: &str, value: &str| {
        let value = names.hide(value);
        // No shell's and no language's own letters.
        if value.chars().all(|c| c.is_alphanumeric() || "/._-+@:,=~% ".contains(c)) {
            let line = if is_lua {
                format!("{}(\"{variable}\", \"{value}\")\n", command.replace('-', "_"))
            } else {
                format!("{command} {variable} {{{value}}}\n")
            };
            kept.push_str(&line);
        }
    };
    for directory in &directories {
        say("prepend-path", "LIBRARY_PATH", directory);
    }
    for (variable, root) in &roots {
        say("setenv", variable, root);
    }
    kept
}
