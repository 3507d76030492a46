//! Options of the verbs that look for faults.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use clap::builder::NonEmptyStringValueParser;

use super::wishes::Wishes;

#[derive(Args, Debug)]
pub struct Doctor {
    /// Write the examined facts to FILE for a bug report, without user names and unrelated values
    #[arg(long, value_name = "FILE")]
    pub save: Option<PathBuf>,
    /// Show the differences between A and B instead: files of `--save`, directories of environments, or `here` [default for B: here]
    #[arg(long, value_name = "A[,B]", value_delimiter = ',', conflicts_with = "save")]
    pub compare: Vec<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; without one, the frameworks of the first Python in PATH are examined
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Diagnose {
    #[command(flatten)]
    pub wishes: Wishes,
    /// Read the messages from FILE, a log; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Explain this message
    #[arg(long, value_name = "MESSAGE", conflicts_with = "from", allow_hyphen_values = true, value_parser = NonEmptyStringValueParser::new())]
    pub text: Option<String>,
    /// Start PROGRAM in the environment as it is, as without cudarun
    #[arg(long, conflicts_with_all = ["from", "text"])]
    pub as_is: bool,
    /// Show all causes, those that are ruled out too, each with its evidence
    #[arg(long)]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program: it is started, unless --from or --text gives its messages
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    pub words: Vec<OsString>,
}

impl Diagnose {
    /// True if the messages are given, or read from standard input.
    pub fn has_text(&self) -> bool {
        self.from.is_some() || self.text.is_some() || self.words.is_empty()
    }
}
