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
    /// `run|exec`: the wrapper starts a program only after one of these words.
    Commands(Vec<String>),
    /// `/`: this directory. With another one, the program starts elsewhere.
    Root,
    /// `NAME=VALUE...`: variables for the program.
    Assignments,
    /// Any other word in capitals: a word without a meaning for the program.
    Skipped,
    /// `PROGRAM`: the program, which its arguments follow.
    Program,
    /// `SCRIPT`: a script for the Python that the wrapper itself runs in.
    Script,
    /// `SHELL`: a shell script or, after the option `-c`, shell code.
    Shell,
    /// `IMAGE`: the path of a program; PATH is not searched.
    Image,
    /// `...`: it is not known which program starts.
    Unknown,
    /// `NOTHING`: the wrapper starts no program.
    Nothing,
    /// `STDIN`: more arguments come from standard input.
    StandardInput,
    /// `:` between several programs, of which none is followed.
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
    /// `--name`
    Nothing,
    /// `--name=`: the value is attached or the next word.
    Value,
    /// `--name[=]`: the value is attached if there is one.
    Attached,
    /// `--name==`: two words.
    Pair,
}

/// The effect of an option on the program that starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Meaning {
    /// The value `NAME=VALUE` is a variable for the program.
    Sets,
    /// The value is a variable that the program does not get.
    Unsets,
    /// The program does not get the environment.
    Clears,
    /// The value is the directory that the program starts in.
    Directory,
    /// The value is more of the command line.
    Splits,
    /// The program runs as another user.
    User,
    /// The value is code for the shell.
    Code,
    /// The program is the name of a Python module.
    Module,
    /// The script is a program.
    Program,
    /// It is not known which program starts.
    Unclear,
    /// The program starts on other machines.
    Elsewhere,
    /// The wrapper starts no program.
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
    /// `-name` is `--name`, and letters are not written together.
    OneDash,
    /// `_` and `-` are the same in long options.
    Underscores,
    /// A long option that is not listed has an attached value.
    Attached,
}

/// How much of the environment reaches the program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Inheritance {
    #[default]
    Keeps,
    /// All but the variables of the loader.
    Drops,
    /// The program starts on another machine, under another root or as a child of another process.
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
    let text = String::deserialize(deserializer)?;
    Ok(text.split(' ').map(UsagePart::of).collect())
}

impl UsagePart {
    fn of(word: &str) -> UsagePart {
        match word {
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
        }
    }
}

fn options<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Switch>, D::Error> {
    let text = String::deserialize(deserializer)?;
    let mut options = Vec::new();
    let mut meaning = Meaning::Other;
    for word in text.split_whitespace() {
        if let Some(label) = word.strip_suffix(':') {
            let label: StrDeserializer<D::Error> = label.into_deserializer();
            meaning = Meaning::deserialize(label)?;
            continue;
        }
        let (name, takes) = if let Some(name) = word.strip_suffix("[=]") {
            (name, Takes::Attached)
        } else if let Some(name) = word.strip_suffix("==") {
            (name, Takes::Pair)
        } else if let Some(name) = word.strip_suffix('=') {
            (name, Takes::Value)
        } else {
            (word, Takes::Nothing)
        };
        options.push(Switch {
            name: name.to_owned(),
            takes,
            meaning,
        });
    }
    Ok(options)
}
