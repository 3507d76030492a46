//! Reduces an environment module to the directories and roots of libraries that it names. The rest may be secret.

use std::path::{Path, PathBuf};

use super::names::Names;
use crate::environment::Environment;
use crate::inventory;

/// True for a loaded module, and for a file in a directory of modules.
pub(super) fn is_named(env: &Environment, path: &Path) -> bool {
    let list = |name: &str| {
        let list = env
            .non_empty(name)
            .map(|list| list.to_string_lossy().into_owned())
            .unwrap_or_default();
        list.split(':')
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
            .collect::<Vec<_>>()
    };
    let is_below = |top: &Path| path != top && path.starts_with(top);
    list("_LMFILES_").iter().any(|file| file == path)
        || list("MODULEPATH").iter().any(|top| is_below(top))
        || inventory::MODULE_DIRECTORIES
            .iter()
            .any(|top| is_below(Path::new(top)))
}

/// Appends commands for the directories and roots of a module to the lines in `kept`.
pub(super) fn with_places(path: &Path, mut kept: String, text: &str, names: &Names) -> String {
    let is_lua = path.extension().is_some_and(|extension| extension == "lua");
    let (directories, roots) = inventory::named_by_module(path, text);
    let mut add = |command: &str, variable: &str, value: &str| {
        let value = names.hide(value);
        // No characters with a meaning in Tcl, Lua or a shell.
        if value
            .chars()
            .all(|c| c.is_alphanumeric() || "/._-+@:,=~% ".contains(c))
        {
            let line = if is_lua {
                format!(
                    "{}(\"{variable}\", \"{value}\")\n",
                    command.replace('-', "_")
                )
            } else {
                format!("{command} {variable} {{{value}}}\n")
            };
            kept.push_str(&line);
        }
    };
    for directory in &directories {
        add("prepend-path", "LIBRARY_PATH", directory);
    }
    for (variable, root) in &roots {
        add("setenv", variable, root);
    }
    kept
}
