//! The command line as it is typed, and its help texts. Must not know what anything means.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::error::ErrorKind;
use clap::{Args, ColorChoice, CommandFactory, Parser, Subcommand, ValueEnum};

/// Every verb hides a program of that name, which `cudarun -- NAME` and `./NAME` still start.
pub const VERBS: &[&str] = &["run", "list", "explain", "export", "verify"];

#[derive(Debug, Parser)]
#[command(
    name = "cudarun",
    version,
    about = "Starts a program with exactly one coherent, checked set of NVIDIA libraries",
    long_about = "Starts a program with exactly one coherent, checked set of NVIDIA libraries, or says why it cannot. \
        Nothing that is installed is changed.\n\n\
        PROGRAM and everything after it are passed on untouched. A program with the name of a verb is started \
        with `cudarun -- NAME` or `./NAME`.",
    override_usage = "cudarun [OPTIONS] [--] PROGRAM [ARGS]...\n       cudarun [OPTIONS] <VERB> [OPTIONS] [PROGRAM [ARGS]...]",
    after_help = "Exit status: the program's own; 125 when cudarun failed first, 126 when the program cannot be run,\n\
        127 when it is not found. Other verbs: 0 yes, 1 the answer is no, 2 could not answer.",
    disable_help_subcommand = true,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    max_term_width = 100
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub start: Start,
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// The program and its arguments, which nothing here is to understand: bytes, taken as they are
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    pub words: Vec<OsString>,
}

/// Options of every verb.
#[derive(Args, Debug, Default)]
pub struct Common {
    /// Say more: what was picked and why; twice, every candidate; three times, every place
    #[arg(short, long, global = true, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Say nothing but errors
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// When to use colour
    #[arg(long, global = true, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Look for libraries in DIR as well: a directory of them, a toolkit, an environment
    #[arg(long, global = true, value_name = "DIR")]
    pub also: Vec<PathBuf>,
    /// Do not look for libraries there: `conda`, `toolkit`, `library-path` …
    #[arg(long, global = true, value_name = "SOURCE", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Look at the machine whose root directory is DIR: a container image, a mounted disk
    #[arg(long, global = true, value_name = "DIR")]
    pub root: Option<PathBuf>,
}

/// Options of what starts a program or would.
#[derive(Args, Debug, Default)]
pub struct Start {
    /// Count these installed Python packages as used, instead of those that the program imports
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub uses: Vec<String>,
    /// When to prove the set in a child process first [default: auto]
    #[arg(long, value_name = "WHEN")]
    pub verify: Option<When>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum When {
    /// Start without a proof
    Never,
    /// Prove a set once, until something that could falsify the proof changes
    #[default]
    Auto,
    /// Prove it now, whatever was proved before
    Always,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a program (the same as without a verb)
    #[command(override_usage = "cudarun run [OPTIONS] [--] PROGRAM [ARGS]...")]
    Run(Run),
    /// Show every copy of every NVIDIA library that is installed
    #[command(override_usage = "cudarun list [OPTIONS] [FAMILY]...")]
    List(List),
    /// Show what a program needs, what was picked for it, and why
    #[command(override_usage = "cudarun explain [OPTIONS] [--] PROGRAM [ARGS]...")]
    Explain(Question),
    /// Print the environment that a program would get, as shell code
    #[command(override_usage = "cudarun export [OPTIONS] [--] PROGRAM [ARGS]...")]
    Export(Question),
    /// Prove the set that a program would get, on this machine's GPU
    #[command(override_usage = "cudarun verify [OPTIONS] [--] PROGRAM [ARGS]...")]
    Verify(Question),
}

#[derive(Args, Debug)]
pub struct Run {
    #[command(flatten)]
    pub start: Start,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required = true, hide = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only these families: `cudnn`, `cublas`, `driver` …
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Show every file of every copy
    #[arg(short, long)]
    pub all: bool,
    /// With --json: name the symbols that each file exports
    #[arg(long, requires = "json")]
    pub symbols: bool,
    /// Look into the environment of this Python too
    #[arg(long, value_name = "PYTHON")]
    pub python: Option<OsString>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

/// A question about a program that is not started.
#[derive(Args, Debug)]
pub struct Question {
    /// Count these installed Python packages as used, instead of those that the program imports
    #[arg(long, value_name = "PACKAGE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub uses: Vec<String>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required = true, hide = true)]
    pub words: Vec<OsString>,
}

impl Cli {
    /// Gives what was said before a verb to the verb, as if it had been said after it.
    pub fn settle(mut self) -> Result<Cli, clap::Error> {
        let Start { uses, verify } = std::mem::take(&mut self.start);
        let (own_uses, own_verify, verb) = match &mut self.verb {
            None => (Some(&mut self.start.uses), Some(&mut self.start.verify), ""),
            Some(Verb::Run(run)) => (Some(&mut run.start.uses), Some(&mut run.start.verify), "run"),
            Some(Verb::List(_)) => (None, None, "list"),
            Some(Verb::Explain(question)) => (Some(&mut question.uses), None, "explain"),
            Some(Verb::Export(question)) => (Some(&mut question.uses), None, "export"),
            Some(Verb::Verify(question)) => (Some(&mut question.uses), None, "verify"),
        };
        match own_uses {
            Some(own) => own.splice(..0, uses).for_each(drop),
            None if uses.is_empty() => {}
            None => return Err(not_with("--uses <PACKAGE>", verb)),
        }
        match (own_verify, verify) {
            (Some(own), before) => *own = own.or(before),
            (None, None) => {}
            (None, Some(_)) => return Err(not_with("--verify <WHEN>", verb)),
        }
        Ok(self)
    }
}

fn not_with(option: &str, verb: &str) -> clap::Error {
    let message = format!("the argument '{option}' cannot be used with '{verb}'");
    Cli::command().error(ErrorKind::ArgumentConflict, message)
}
