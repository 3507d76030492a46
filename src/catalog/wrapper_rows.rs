//! The types of the rows in `profiles/wrappers.toml`, whose head explains the fields. The build script includes this file
//! as well, so it must not use anything of the crate.

use serde::de::value::StrDeserializer;
use serde::de::{Deserialize, Deserializer, IntoDeserializer};

/// `wrappers.toml`
#[derive(Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WrapperTable {
    pub wrapper: Vec<Wrapper>,
    #[serde(rename = "date")]
    _date: String,
}

/// A program that starts another one. The fields are explained in `profiles/wrappers.toml`.
#[derive(Debug, Default, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Wrapper {
    pub names: Vec<String>,
    #[serde(deserialize_with = "usage")]
    pub usage: Vec<UsagePart>,
    #[serde(deserialize_with = "options")]
    pub options: Vec<Switch>,
    pub style: OptionStyle,
    pub environment: Inheritance,
    pub finder: Option<EnvironmentTool>,
    pub uses_gpu: bool,
    pub interpreter: Option<String>,
    pub reads: Vec<String>,
    pub unless: Vec<String>,
    pub source: String,
    pub date: Option<String>,
}

/// A word of `usage`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UsagePart {
    Commands(Vec<String>),
    Root,
    Assignments,
    Skipped,
    Program,
    Script,
    Shell,
    Image,
    Unknown,
    Nothing,
    StandardInput,
    Separator,
}

/// An option, by its name with its dashes.
#[derive(Clone, Debug)]
pub struct Switch {
    pub name: String,
    pub takes: Takes,
    pub meaning: Meaning,
}

/// How many words an option takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Takes {
    Nothing,
    /// The value is attached or the next word.
    Value,
    /// The value is attached if there is one.
    Attached,
    Pair,
}

/// The effect of an option on the program that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    Sets,
    Unsets,
    Clears,
    Directory,
    Splits,
    User,
    Code,
    Module,
    Program,
    Unclear,
    Elsewhere,
    Nothing,
    /// No effect; not written in the table.
    #[serde(skip)]
    Other,
}

/// How options are spelled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum OptionStyle {
    /// As getopt_long reads them; not written in the table.
    #[default]
    #[serde(skip)]
    Usual,
    OneDash,
    Underscores,
    Attached,
}

/// How much of the environment reaches the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inheritance {
    #[default]
    Keeps,
    Drops,
    Elsewhere,
}

/// The tool whose environment a program is looked for in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EnvironmentTool {
    Uv,
    /// It makes one, or keeps them where only it knows.
    Own,
    Conda,
}

fn usage<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<UsagePart>, D::Error> {
    let part = |word: &str| match word {
        "PROGRAM" => UsagePart::Program,
        "SCRIPT" => UsagePart::Script,
        "SHELL" => UsagePart::Shell,
        "IMAGE" => UsagePart::Image,
        "NOTHING" => UsagePart::Nothing,
        "..." => UsagePart::Unknown,
        "NAME=VALUE..." => UsagePart::Assignments,
        "/" => UsagePart::Root,
        "STDIN" => UsagePart::StandardInput,
        ":" => UsagePart::Separator,
        word if word.bytes().all(|byte| byte.is_ascii_uppercase()) => UsagePart::Skipped,
        words => UsagePart::Commands(words.split('|').map(str::to_owned).collect()),
    };
    Ok(String::deserialize(deserializer)?
        .split(' ')
        .map(part)
        .collect())
}

fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Switch>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let (mut options, mut meaning) = (Vec::new(), Meaning::Other);
    for word in text.split_whitespace() {
        if let Some(label) = word.strip_suffix(':') {
            let label: StrDeserializer<D::Error> = label.into_deserializer();
            meaning = Meaning::deserialize(label)?;
            continue;
        }
        let endings = [
            ("[=]", Takes::Attached),
            ("==", Takes::Pair),
            ("=", Takes::Value),
        ];
        let valued = endings
            .iter()
            .find_map(|(end, takes)| Some((word.strip_suffix(end)?, *takes)));
        let (name, takes) = valued.unwrap_or((word, Takes::Nothing));
        options.push(Switch {
            name: name.to_owned(),
            takes,
            meaning,
        });
    }
    Ok(options)
}
