//! Environment modules, in Tcl and in Lua: which directories one adds to a search path, and which variables it sets.
//! Nothing is run: what only running it could tell is left out, and never guessed.

use std::collections::HashMap;

mod lua;
mod tcl;

pub use lua::read as lua;
pub use tcl::read as tcl;

/// What a module does to the environment, as far as it is written out.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Modulefile {
    /// A variable that holds a search path, and a directory that is added to it.
    pub added: Vec<(String, String)>,
    /// A variable that is set, and its value.
    pub set: Vec<(String, String)>,
}

/// Expressions nest no deeper than this in a module that somebody wrote.
const DEPTH: usize = 16;
/// No path is longer; values that double themselves line by line end here.
const LENGTH: usize = 4096;

/// No module adds more directories, or sets more variables.
const COUNT: usize = 1000;

/// The values of variables; none for one whose value depends on which branch is taken.
#[derive(Default)]
struct Values(HashMap<String, Option<String>>);

impl Values {
    /// A second value makes a variable unknown: which of them counts is decided when the module runs.
    fn assign(&mut self, name: &str, value: Option<String>) {
        let value = value.filter(|value| value.len() <= LENGTH);
        match self.0.get_mut(name) {
            Some(known) if *known != value => *known = None,
            Some(_) => {}
            None => {
                self.0.insert(name.to_owned(), value);
            }
        }
    }

    fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name)?.as_deref()
    }
}

impl Modulefile {
    fn set(&mut self, variable: String, value: String) {
        if self.set.len() < COUNT {
            self.set.push((variable, value));
        }
    }

    fn add(&mut self, variable: &str, directories: &str) {
        let room = COUNT.saturating_sub(self.added.len());
        for directory in directories.split(':').filter(|directory| directory.starts_with('/')).take(room) {
            self.added.push((variable.to_owned(), directory.to_owned()));
        }
    }
}

/// As `file join` and `pathJoin` put parts together.
fn join(parts: &[String]) -> String {
    let mut path = String::new();
    for part in parts {
        if !path.is_empty() && !path.ends_with('/') {
            path.push('/');
        }
        path.push_str(if path.is_empty() { part } else { part.trim_start_matches('/') });
    }
    path
}
