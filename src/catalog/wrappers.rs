//! `profiles/wrappers.toml`: programs that start another program. It is read apart from the rest of the catalog, since a
//! warm start needs only its names.

use std::sync::OnceLock;

use super::wrapper_rows::{Meaning, OptionStyle, Switch, Takes, UsagePart, Wrapper, WrapperTable};

/// Sorted; the build script takes names and variables from the table.
const NAMES: &[&str] = include!(concat!(env!("OUT_DIR"), "/wrapper-names.rs"));
const VARIABLES: &[&str] = include!(concat!(env!("OUT_DIR"), "/wrapper-variables.rs"));

pub fn wrappers() -> &'static [Wrapper] {
    static TABLE: OnceLock<Vec<Wrapper>> = OnceLock::new();
    TABLE.get_or_init(table)
}

/// True if the table may have a row for this name of a program or a Python module. Every start asks, so this does not read
/// the table.
pub fn may_be_wrapper(name: &str) -> bool {
    NAMES.binary_search(&name).is_ok()
}

/// Returns the variables that decide which program a wrapper starts.
pub fn wrapper_variables() -> impl Iterator<Item = &'static str> {
    VARIABLES.iter().copied()
}

fn table() -> Vec<Wrapper> {
    let WrapperTable {
        wrapper: mut rows, ..
    } = profile!("wrappers");
    for row in &mut rows {
        if row.usage.is_empty() {
            row.usage.push(UsagePart::Program);
        }
        for name in ["--help", "--version"] {
            if row.options.iter().all(|option| option.name != name) {
                row.options.push(Switch {
                    name: name.to_owned(),
                    takes: Takes::Nothing,
                    meaning: Meaning::Nothing,
                });
            }
        }
    }
    rows
}

impl Wrapper {
    pub fn is_one_dash(&self) -> bool {
        self.style == OptionStyle::OneDash
    }

    pub fn has(&self, part: &UsagePart) -> bool {
        self.usage.contains(part)
    }

    pub fn is_named(&self, name: &str) -> bool {
        self.names.iter().any(|known| known == name)
    }

    /// The words one of which it needs to start a program.
    pub fn commands(&self) -> &[String] {
        let commands = self.usage.iter().find_map(|part| match part {
            UsagePart::Commands(commands) => Some(commands.as_slice()),
            _ => None,
        });
        commands.unwrap_or_default()
    }

    /// Returns an option by its name with its dashes; nothing if the row does not list it.
    pub fn option(&self, name: &str) -> Option<Switch> {
        let wanted = self.plain(name);
        let mut options = self.options.iter();
        if let Some(listed) = options.find(|option| self.plain(&option.name) == wanted) {
            return Some(listed.clone());
        }
        if !name.starts_with("--") {
            return None;
        }
        match self.style {
            OptionStyle::Usual => {
                let mut longer = self
                    .options
                    .iter()
                    .filter(|option| option.name.starts_with(name));
                longer.next().filter(|_| longer.next().is_none()).cloned()
            }
            OptionStyle::Attached => Some(Switch {
                name: wanted,
                takes: Takes::Attached,
                meaning: Meaning::Other,
            }),
            OptionStyle::OneDash | OptionStyle::Underscores => None,
        }
    }

    /// The name of an option, in the one of its spellings that all are compared in.
    fn plain(&self, name: &str) -> String {
        match self.style {
            OptionStyle::OneDash => name.trim_start_matches('-').to_owned(),
            OptionStyle::Underscores if name.starts_with("--") => name.replace('_', "-"),
            _ => name.to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WRAPPERS: &str = include_str!("../../profiles/wrappers.toml");

    #[test]
    fn every_row_loads_and_means_something() {
        let table = table();
        for (index, row) in table.iter().enumerate() {
            assert!(!row.names.is_empty() && !row.source.is_empty(), "{row:?}");
            assert!(
                row.date.as_ref().is_none_or(|date| date.len() == 10),
                "{row:?}"
            );
            for name in &row.names {
                assert!(
                    table[..index].iter().all(|other| !other.is_named(name)),
                    "{name} has two rows"
                );
            }
            for (
                index,
                Switch {
                    name,
                    takes,
                    meaning,
                },
            ) in row.options.iter().enumerate()
            {
                assert!(
                    name.starts_with('-') && !name.contains(['=', '[', ']', ':']),
                    "{name}"
                );
                assert!(
                    row.options[..index].iter().all(|other| other.name != *name),
                    "{name} twice: {row:?}"
                );
                let has_value = [
                    Meaning::Sets,
                    Meaning::Unsets,
                    Meaning::Directory,
                    Meaning::Splits,
                ];
                let needs_value = has_value.contains(meaning) || *meaning == Meaning::Code;
                assert!(
                    !needs_value || *takes == Takes::Value,
                    "{name} has no value: {row:?}"
                );
            }
        }
    }

    #[test]
    fn the_head_shows_a_row_and_explains_every_field() {
        let (head, rows) = WRAPPERS.split_once("\ndate = ").unwrap();
        let lines = head
            .lines()
            .map(|line| line.strip_prefix('#').unwrap_or(line).trim_start());
        let example = lines
            .clone()
            .skip_while(|line| *line != "[[wrapper]]")
            .take_while(|line| !line.is_empty());
        let row: Wrapper = toml::from_str(&example.skip(1).collect::<Vec<_>>().join("\n")).unwrap();
        assert_eq!(
            (row.names.len(), row.usage.len(), row.options.len()),
            (1, 2, 3)
        );
        let explained: Vec<&str> = lines.filter_map(|line| line.split("  ").next()).collect();
        let rows: toml::Table = format!("date = {rows}").parse().unwrap();
        for row in rows["wrapper"]
            .as_array()
            .unwrap()
            .iter()
            .map(|row| row.as_table().unwrap())
        {
            let labels = row
                .get("options")
                .and_then(toml::Value::as_str)
                .unwrap_or_default();
            let labels = labels.split_whitespace().filter(|word| word.ends_with(':'));
            for word in row.keys().map(String::as_str).chain(labels) {
                assert!(explained.contains(&word), "{word} is not explained");
            }
        }
    }

    fn row(name: &str) -> &'static Wrapper {
        wrappers().iter().find(|row| row.is_named(name)).unwrap()
    }

    fn takes(name: &str, option: &str) -> Option<Takes> {
        row(name).option(option).map(|option| option.takes)
    }

    #[test]
    fn options_are_known_as_they_are_written() {
        assert_eq!(takes("torchrun", "--nproc_per_node"), Some(Takes::Value));
        assert_eq!(takes("mpirun", "--np"), Some(Takes::Value));
        assert_eq!(takes("mpirun", "-mca"), Some(Takes::Pair));
        assert_eq!(takes("valgrind", "--leak-check"), Some(Takes::Attached));
        assert_eq!(takes("nice", "--adj"), Some(Takes::Value));
        assert_eq!(takes("nice", "--adjusted"), None);
        assert_eq!(row("env").option("-").unwrap().meaning, Meaning::Clears);
        assert_eq!(
            row("env").option("--help").unwrap().meaning,
            Meaning::Nothing
        );
    }
}
