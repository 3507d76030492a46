//! Options of the verbs that look for faults.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use super::libraries::{LibraryOptions, PageOptions};

#[derive(Args, Debug)]
pub struct Doctor {
    /// Write what was found to FILE, for `--node` or a bug report, without user names and unrelated values
    #[arg(long, value_name = "FILE", group = "saved")]
    pub save: Option<PathBuf>,
    /// Like --save, into DIR under the name of this machine: for `fleet`
    #[arg(long, value_name = "DIR", group = "saved", conflicts_with_all = ["html", "markdown", "json", "ci"])]
    pub save_in: Option<PathBuf>,
    /// The name of this machine for --save-in [default: Slurm's name of the node, or the short host name]
    #[arg(long, value_name = "NAME", requires = "save_in", value_parser = NonEmptyStringValueParser::new())]
    pub name: Option<String>,
    /// With --save or --save-in: also what the program of this COMMAND LINE gets there, one quoted word
    #[arg(long = "for", value_name = "COMMAND LINE", requires = "saved", value_parser = command_line)]
    pub programs: Vec<String>,
    #[command(flatten)]
    pub page_options: PageOptions,
    #[command(flatten)]
    pub ci_options: CiOptions,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; without one, the frameworks of the first Python in PATH are examined
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Fleet {
    /// Check this COMMAND LINE, which must be quoted [default: those of `doctor --for`]
    #[arg(long, value_name = "COMMAND LINE", value_parser = command_line)]
    pub program: Vec<String>,
    /// Print only the machines on which all programs work, as Slurm writes lists of hosts
    #[arg(long, conflicts_with_all = ["bad", "ci"])]
    pub good: bool,
    /// Print only the other machines
    #[arg(long, conflicts_with = "ci")]
    pub bad: bool,
    /// Write to FILE one lock that works on all machines (the descriptions must name exactly one program)
    #[arg(long, value_name = "FILE", conflicts_with_all = ["good", "bad", "json", "html", "markdown", "ci"])]
    pub lock: Option<PathBuf>,
    /// Check the project here too: what `[requires]` of its `.cudarun.toml`, and its lock, ask of each described machine
    #[arg(long)]
    pub project: bool,
    #[command(flatten)]
    pub page_options: PageOptions,
    #[command(flatten)]
    pub ci_options: CiOptions,
    /// Print one JSON object
    #[arg(long, conflicts_with_all = ["good", "bad"])]
    pub json: bool,
    /// Descriptions that `doctor --save` wrote, or directories of them; directories of environments, `here`
    #[arg(value_name = "PATH", required = true)]
    pub paths: Vec<PathBuf>,
}

/// Findings for a runner of CI.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct CiOptions {
    /// Print one line for each finding, as CI shows them: `github`, or `plain` (`FILE:LINE: error: …`) [default: by GITHUB_ACTIONS]
    #[arg(long, value_name = "FORM", num_args = 0..=1, require_equals = true, default_missing_value = "auto", hide_possible_values = true, conflicts_with_all = ["json", "html", "markdown"])]
    pub ci: Option<CiForm>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CiForm {
    /// That of GitHub if GITHUB_ACTIONS is `true`
    Auto,
    /// The commands of GitHub's workflows
    Github,
    /// As compilers print errors
    Plain,
}

/// A command line as a shell would read it.
fn command_line(text: &str) -> Result<String, String> {
    match shlex::split(text) {
        Some(words) if !words.is_empty() => Ok(text.to_owned()),
        Some(_) => Err("it is empty".to_owned()),
        None => Err("a quote is not closed".to_owned()),
    }
}

#[derive(Args, Debug)]
pub struct Diagnose {
    #[command(flatten)]
    pub library_options: LibraryOptions,
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
    #[command(flatten)]
    pub page_options: PageOptions,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program to start. It is not started if --from, --text, a pipe or a redirected file gives the messages. Without a
    /// program, messages are read from standard input
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

impl Diagnose {
    /// True if the messages are given, or can come from standard input alone.
    pub fn has_text(&self) -> bool {
        self.from.is_some() || self.text.is_some() || self.words.is_empty()
    }
}
