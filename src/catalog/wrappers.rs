//! `profiles/wrappers.toml`: programs that start another one, and which of their arguments that is. Read apart from
//! the rest of the catalog: a warm start only asks whether a name may stand in it.

use std::sync::OnceLock;

use serde::Deserialize;

/// Its names alone and in order, which the build script has taken out of it.
const NAMES: &[&str] = include!(concat!(env!("OUT_DIR"), "/wrapper-names.rs"));
const WRAPPERS: &str = include_str!("../../profiles/wrappers.toml");

/// A program that starts another one. The fields are explained in `profiles/wrappers.toml`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wrapper {
    pub names: Vec<String>,
    pub modules: Vec<String>,
    pub below: Vec<String>,
    pub word: Vec<String>,
    flags: Vec<String>,
    values: Vec<String>,
    optional: Vec<String>,
    pairs: Vec<String>,
    pub whole: bool,
    underscores: bool,
    attached: bool,
    pub assignments: bool,
    pub leads: bool,
    pub skips: usize,
    pub separator: Option<String>,
    pub hidden: Vec<String>,
    pub permutes: Option<String>,
    abbreviates: bool,
    pub more: bool,
    pub startup: Vec<String>,
    pub startup_home: Option<String>,
    pub startup_without: Vec<String>,
    pub needs: bool,
    pub here: Option<String>,
    pub runs: Runs,
    module: Vec<String>,
    direct: Vec<String>,
    pub interpreter: Option<String>,
    nothing: Vec<String>,
    sets: Vec<String>,
    unsets: Vec<String>,
    directory: Vec<String>,
    splits: Vec<String>,
    clears: Vec<String>,
    remote: Vec<String>,
    user: Vec<String>,
    code: Vec<String>,
    unclear: Vec<String>,
    tells: Vec<String>,
    pub harmless: Vec<String>,
    pub unless: Vec<String>,
    pub environment: Handing,
    pub finder: Option<Finder>,
    pub source: String,
    pub date: String,
}

/// What the first word after the options is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Runs {
    #[default]
    Program,
    PythonScript,
    Shell,
    /// A file's path, which is not looked for on PATH.
    Image,
    /// Something that is not followed.
    Unknown,
    /// Nothing.
    Nothing,
}

/// What becomes of the environment on its way to the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Handing {
    #[default]
    Keeps,
    Drops,
    Elsewhere,
}

/// Whose environment a program is looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Finder {
    Uv,
    Poetry,
    Pipenv,
    Pdm,
    /// It makes one, or keeps them where only it knows.
    Own,
    Conda,
}

/// How many words an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// What is attached to it, or the next word.
    Value,
    /// What is attached to it, if anything is.
    Attached,
    Pair,
}

/// What an option means to the program that is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Meaning {
    Module,
    Direct,
    /// No program is started.
    Nothing,
    Sets,
    Unsets,
    Directory,
    Splits,
    Clears,
    Remote,
    /// The program runs as another user.
    User,
    /// Its value is code for a shell.
    Code,
    /// What is started with it is not followed.
    Unclear,
    /// Its value is what the wrapper is to do.
    Tells,
    /// Something that changes nothing of it.
    Other,
}

/// The wrappers that are built in.
pub fn wrappers() -> &'static [Wrapper] {
    static TABLE: OnceLock<Vec<Wrapper>> = OnceLock::new();
    TABLE.get_or_init(|| parse().expect("profiles/ is checked by the tests"))
}

/// Whether a name, of a program or of a Python module, may stand in the table; asked at every start, and so
/// answered without reading the table.
pub fn may_be_wrapper(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

fn parse() -> Result<Vec<Wrapper>, toml::de::Error> {
    #[derive(Deserialize)]
    struct Table {
        wrapper: Vec<Wrapper>,
    }
    Ok(toml::from_str::<Table>(WRAPPERS)?.wrapper)
}

impl Wrapper {
    /// True if it starts more than the one program: `torchrun`, `xargs`, `mpirun`.
    pub fn starts_several(&self) -> bool {
        self.runs == Runs::PythonScript || self.more || !self.remote.is_empty()
    }

    /// How many words an option takes and what it means, by its name with its dashes; none when it is not known.
    pub fn option(&self, name: &str) -> Option<(Takes, Meaning)> {
        let is_in = |list: &[String]| list.iter().any(|known| self.is_same(known, name));
        let meaning = [
            (&self.nothing, Meaning::Nothing),
            (&self.remote, Meaning::Remote),
            (&self.unclear, Meaning::Unclear),
            (&self.tells, Meaning::Tells),
            (&self.user, Meaning::User),
            (&self.code, Meaning::Code),
            (&self.clears, Meaning::Clears),
            (&self.module, Meaning::Module),
            (&self.direct, Meaning::Direct),
            (&self.sets, Meaning::Sets),
            (&self.unsets, Meaning::Unsets),
            (&self.directory, Meaning::Directory),
            (&self.splits, Meaning::Splits),
        ];
        let meaning = meaning.into_iter().find(|(list, _)| is_in(list)).map(|(_, meaning)| meaning);
        let takes = [
            (&self.flags, Takes::Nothing),
            (&self.values, Takes::Value),
            (&self.optional, Takes::Attached),
            (&self.pairs, Takes::Pair),
        ];
        let takes = takes.into_iter().find(|(list, _)| is_in(list)).map(|(_, takes)| takes);
        match (takes, meaning) {
            (Some(takes), meaning) => Some((takes, meaning.unwrap_or(Meaning::Other))),
            (None, Some(meaning)) => Some((Takes::Nothing, meaning)),
            (None, None) if self.attached && name.starts_with("--") => {
                Some((Takes::Attached, Meaning::Other))
            }
            (None, None) => None,
        }
    }

    /// A long option as it is written out, where only one begins so.
    pub fn written_out<'a>(&'a self, name: &'a str) -> &'a str {
        if !self.abbreviates || !name.starts_with("--") || self.option(name).is_some() {
            return name;
        }
        let lists = [
            &self.flags,
            &self.values,
            &self.optional,
            &self.nothing,
            &self.clears,
            &self.user,
            &self.code,
            &self.unclear,
        ];
        let mut fitting: Vec<&String> =
            lists.into_iter().flatten().filter(|known| known.starts_with(name)).collect();
        fitting.sort();
        fitting.dedup();
        match fitting.as_slice() {
            [only] => only,
            _ => name,
        }
    }

    fn is_same(&self, known: &str, name: &str) -> bool {
        if self.whole {
            return known.trim_start_matches('-') == name.trim_start_matches('-');
        }
        if self.underscores && name.starts_with("--") {
            return known.replace('_', "-") == name.replace('_', "-");
        }
        known == name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_loads_and_means_something() {
        let table = parse().unwrap();
        for (index, row) in table.iter().enumerate() {
            assert!(!row.names.is_empty() && !row.source.is_empty() && row.date.len() == 10, "{row:?}");
            for name in &row.names {
                let others = table[..index].iter().flat_map(|other| &other.names);
                assert!(others.into_iter().all(|other| other != name), "{name} stands there twice");
            }
            let options = [
                &row.flags,
                &row.values,
                &row.optional,
                &row.pairs,
                &row.nothing,
                &row.clears,
                &row.remote,
                &row.user,
                &row.code,
                &row.unclear,
                &row.tells,
                &row.module,
                &row.direct,
                &row.unsets,
                &row.directory,
                &row.splits,
            ];
            for option in options.into_iter().flatten() {
                assert!(option.starts_with('-') && !option.contains(['=', ' ']), "{option}");
                assert!(row.option(option).is_some());
            }
            // What is said of an option's meaning must agree with what it takes.
            for (list, takes) in
                [(&row.unsets, Takes::Value), (&row.directory, Takes::Value), (&row.splits, Takes::Value)]
            {
                assert!(list.iter().all(|option| row.option(option).unwrap().0 == takes), "{list:?}");
            }
            let kinds = [&row.flags, &row.values, &row.optional, &row.pairs];
            let mut named: Vec<&String> = kinds.into_iter().flatten().collect();
            let count = named.len();
            named.sort();
            named.dedup();
            assert_eq!(named.len(), count, "{:?} has an option twice", row.names);
        }
    }

    #[test]
    fn every_name_is_found_without_reading_the_table() {
        for row in wrappers() {
            assert!(row.names.iter().chain(&row.modules).all(|name| may_be_wrapper(name)), "{:?}", row.names);
        }
        for other in ["true", "python3", "", "orchru", "torchru"] {
            assert!(!may_be_wrapper(other), "{other}");
        }
    }

    #[test]
    fn options_are_known_as_they_are_written() {
        let row = |name: &str| wrappers().iter().find(|row| row.names.iter().any(|it| it == name)).unwrap();
        let takes = |name, option| row(name).option(option).map(|(takes, _)| takes);
        assert_eq!(takes("torchrun", "--nproc_per_node"), Some(Takes::Value));
        assert_eq!(takes("mpirun", "--np"), Some(Takes::Value));
        assert_eq!(takes("mpirun", "-mca"), Some(Takes::Pair));
        assert_eq!(takes("valgrind", "--leak-check"), Some(Takes::Attached));
        assert_eq!(takes("nice", "--adjust"), None);
        assert_eq!(row("env").option("-"), Some((Takes::Nothing, Meaning::Clears)));
    }
}
