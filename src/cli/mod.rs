//! The command line as it is typed, and its help texts, without any meaning.

use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use clap::error::ErrorKind;
use clap::{Args, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};

use crate::environment::Environment;
use crate::modes::Level;
use crate::variables;

mod advise;
pub mod complete;
mod doctor;
mod fetch;
mod help;
pub mod libraries;
mod shells;

use help::unusable;

pub use advise::Advise;
pub use doctor::{CiForm, Diagnose, Doctor, Fleet};
pub use fetch::{ClientKind, Fetch, FetchWhen, TOOLKIT, family_and_range, is_toolkit};
pub use libraries::{Building, LibraryOptions, PageOptions, SettingOption};
pub use shells::{Completions, Hook, HookPlace, Shell};

/// The verbs. `cudarun -- NAME` and `./NAME` start a program with the name of a verb.
pub const VERBS: &[&str] = &[
    "run",
    "list",
    "explain",
    "export",
    "shell",
    "verify",
    "doctor",
    "diagnose",
    "trace",
    "record",
    "fetch",
    "fleet",
    "advise",
    "init",
    "allow",
    "hook",
    "completions",
];

/// The heading of the options of every verb in help texts.
const EVERYWHERE: &str = "Options of every verb";

#[derive(Debug, Parser)]
#[command(
    name = "cudarun",
    help_template = help::PAGE,
    version,
    about = "Starts a program with exactly one coherent, checked set of NVIDIA libraries",
    long_about = "Starts a program with exactly one coherent, checked set of NVIDIA libraries, or explains why it cannot. \
        Nothing that is installed is changed.\n\n\
        PROGRAM and everything after it are passed on untouched. A program with the name of a verb, or `help`, is \
        started with `cudarun -- NAME` or `./NAME`.",
    override_usage = "cudarun [OPTIONS] [--] PROGRAM [ARGS]...\n       cudarun [OPTIONS] VERB [OPTIONS] [PROGRAM [ARGS]...]",
    after_long_help = "Exit status: the program's own; 125 when cudarun failed first, 126 when the program cannot be run, 127 \
        when it is not found. Verbs that start no program: 0 yes, 1 no, 2 could not answer.",
    disable_help_subcommand = true,
    styles = help::STYLES,
    subcommand_value_name = "VERB",
    subcommand_help_heading = "Verbs",
    max_term_width = 80
)]
pub struct Cli {
    #[command(flatten)]
    pub common: Common,
    #[command(flatten)]
    pub start: StartOptions,
    #[command(flatten)]
    pub first: FetchFirst,
    #[command(subcommand)]
    pub verb: Option<Verb>,
    /// The program and its arguments, passed on untouched
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, hide = true)]
    pub words: Vec<OsString>,
}

impl Cli {
    /// Parses a command line. Options before a verb count as if they came after it, and options of `fetch` may follow the
    /// names of families, unlike those that follow a program.
    pub fn parse_words(words: &[OsString]) -> Result<Cli, clap::Error> {
        let mut words = words.to_vec();
        let mut command = Cli::command();
        let is_about_all = |word: &OsString| word == "--version" || word == "-V";
        if let Some(at) = first_word(&words)
            && at > 1
            && VERBS.iter().any(|verb| words[at] == *verb)
            && !words[1..at].iter().any(is_about_all)
        {
            words[1..=at].rotate_right(1);
            // An option behind the verb wins.
            command = command.args_override_self(true);
        }
        let parse = |command: &clap::Command| {
            Cli::from_arg_matches(&command.clone().try_get_matches_from_mut(&words)?)
        };
        let mut cli = parse(&command)?;
        if matches!(&cli.verb, Some(Verb::Fetch(fetch)) if !fetch.names_program()) {
            cli = parse(&command.mut_subcommand("fetch", |fetch| {
                fetch.mut_arg("words", |words| words.trailing_var_arg(false))
            }))?;
        }
        let wrong = match &cli.verb {
            Some(Verb::Fetch(fetch)) => {
                let idle = fetch.idle();
                idle.map(|(idle, of)| ("fetch", unusable(idle, &format!("fetch {of}"))))
            }
            Some(Verb::Hook(hook)) => hook.usage_error().map(|error| ("hook", error)),
            // These write the lock, and the file beside it.
            Some(Verb::Record(record)) if record.library_options.locked => {
                Some(("record", unusable("--locked", "record")))
            }
            Some(Verb::Init(init)) if init.library_options.locked => {
                Some(("init", unusable("--locked", "init")))
            }
            _ => None,
        };
        wrong.map_or(Ok(cli), |(verb, message)| {
            let mut command = Cli::command();
            // It is built for the colours of the verb's usage.
            command.build();
            let verb = command.find_subcommand_mut(verb).map(std::mem::take);
            let mut command = verb.unwrap_or(command);
            Err(command.error(ErrorKind::ArgumentConflict, message))
        })
    }
}

/// Returns the place of the first word that is neither an option nor the value of one, of a command line that may not parse;
/// none after `--`.
pub fn first_word(arguments: &[OsString]) -> Option<usize> {
    let command = Cli::command();
    let takes_value = |word: &[u8]| {
        let takes = |option: &clap::Arg| {
            let long = option
                .get_long()
                .filter(|_| option.get_action().takes_values());
            long.is_some_and(|long| word.strip_prefix(b"--") == Some(long.as_bytes()))
        };
        command.get_arguments().any(takes)
    };
    let mut at = 1;
    loop {
        let word = arguments.get(at)?.as_bytes();
        if !word.starts_with(b"-") {
            return Some(at);
        }
        if word == b"--" {
            return None;
        }
        at += 1 + usize::from(takes_value(word));
    }
}

/// Options of every verb.
#[derive(Args, Clone, Debug, Default)]
pub struct Common {
    /// Print more: picks, reasons; -vv and -vvv even more
    #[arg(short, long, global = true, help_heading = EVERYWHERE, action = clap::ArgAction::Count, conflicts_with = "quiet")]
    pub verbose: u8,
    /// Print no notes and no progress
    #[arg(short, long, global = true, help_heading = EVERYWHERE)]
    pub quiet: bool,
    /// When to use colour
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "WHEN", default_value = "auto")]
    pub color: ColorChoice,
    /// Look for libraries in DIR too: a directory of libraries, a toolkit, an environment
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "DIR")]
    pub also: Vec<PathBuf>,
    /// Do not look for libraries in this source: `conda`, `toolkit`, `library-path` …
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "SOURCE", value_delimiter = ',')]
    pub without: Vec<String>,
    /// Read settings from FILE instead of the nearest `.cudarun.toml`
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "FILE", conflicts_with = "no_config")]
    pub config: Option<PathBuf>,
    /// Read no settings files: neither the project's, nor the user's, nor the one for all users
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE)]
    pub no_config: bool,
    /// Look at the machine whose root directory is DIR, or at a container image: `oci:DIR[:TAG]`, an archive
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "DIR|IMAGE")]
    pub root: Option<PathBuf>,
    /// Ask what `doctor --save FILE` found on a machine; with an image: as it would run there
    #[arg(long, hide_short_help = true, global = true, help_heading = EVERYWHERE, value_name = "FILE")]
    pub node: Option<PathBuf>,
}

impl Common {
    /// The options that are settings.
    pub fn given(&self) -> Vec<SettingOption> {
        vec![
            SettingOption::new("--also", &self.also),
            SettingOption::new("--without", &self.without),
        ]
    }

    /// Adds what variables say, which an option above this process may have set.
    pub fn or_of(&self, env: &Environment) -> Common {
        let verbose = env.non_empty(variables::VERBOSE);
        let verbose = verbose.and_then(|number| number.to_str()?.parse().ok());
        let is_quiet = self.verbose == 0 && env.non_empty(variables::QUIET).is_some();
        Common {
            quiet: self.quiet || is_quiet,
            verbose: self
                .verbose
                .max(verbose.filter(|_| !self.quiet).unwrap_or(0)),
            ..self.clone()
        }
    }

    /// Returns the options that name another machine than this one: no program can start there.
    pub fn elsewhere(&self) -> Vec<OsString> {
        let named = [("--root", &self.root), ("--node", &self.node)];
        let words = |(option, value): (&str, &Option<PathBuf>)| {
            Some([option.into(), value.clone()?.into()])
        };
        named.into_iter().filter_map(words).flatten().collect()
    }
}

/// Options of verbs that start a program.
#[derive(Args, Debug, Default)]
pub struct StartOptions {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    #[command(flatten)]
    pub building: Building,
    /// Prove the set first: never, always [default: auto]
    ///
    /// auto: prove each set once, until something that could falsify the proof changes
    #[arg(long, value_name = "WHEN", hide_possible_values = true)]
    pub verify: Option<VerifyWhen>,
}

/// Options of a start that may need libraries first.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct FetchFirst {
    /// Download missing libraries first, after a question
    #[arg(long)]
    pub fetch: bool,
    /// With --fetch: do not ask
    #[arg(long, hide_short_help = true, requires = "fetch")]
    pub yes: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum VerifyWhen {
    /// Start without a proof
    Never,
    /// Prove a set once, until something that could falsify the proof changes
    #[default]
    Auto,
    /// Prove it now, whatever was proved before
    Always,
}

/// An action after a program that failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum OnFailure {
    /// Become the program
    #[default]
    None,
    /// Stay beside the program, and explain its messages
    Diagnose,
}

#[derive(Debug, Subcommand)]
pub enum Verb {
    /// Start a program (the same as without a verb)
    #[command(override_usage = "cudarun run [OPTIONS] [--] PROGRAM [ARGS]...")]
    Run(RunOptions),
    /// Show every installation of every NVIDIA library
    #[command(mut_arg("html", |html| html.requires("running")), mut_arg("markdown", |markdown| markdown.requires("running")), override_usage = "cudarun list [OPTIONS] [FAMILY]...\n       cudarun list --running [PID] [OPTIONS]")]
    List(List),
    /// Show the requirements of a program, the picks, and the reasons
    #[command(override_usage = "cudarun explain [OPTIONS] [--] PROGRAM [ARGS]...")]
    Explain(Explain),
    /// Print the environment that a program would get, as shell code
    #[command(mut_arg("words", |words| words.required(false).required_unless_present("follow")), override_usage = "cudarun export [OPTIONS] [--] PROGRAM [ARGS]...\n       cudarun export --follow [--shell SHELL]")]
    Export(Export),
    /// Open a shell in which a program's libraries, or those of the project, are set
    #[command(override_usage = "cudarun shell [OPTIONS] [--] [PROGRAM [ARGS]...]")]
    Shell(Subshell),
    /// Prove the set that a program would get, on this machine's GPUs
    #[command(override_usage = "cudarun verify [OPTIONS] [--] [PROGRAM [ARGS]...]")]
    Verify(Verify),
    /// Check whether GPU programs can run here, and how to fix it
    #[command(override_usage = "cudarun doctor [OPTIONS] [--] [PROGRAM [ARGS]...]")]
    Doctor(Doctor),
    /// Explain an error message, or the failure of a program: its cause on this machine, and the command that cures it
    #[command(override_usage = "cudarun diagnose [OPTIONS] [--] [PROGRAM [ARGS]...]")]
    Diagnose(Diagnose),
    /// Start a program and report which NVIDIA files it really mapped, and why
    #[command(override_usage = "cudarun trace [OPTIONS] [--] PROGRAM [ARGS]...")]
    Trace(Trace),
    /// Start a program and write what it mapped to .cudarun.lock, for --locked
    #[command(mut_arg("locked", |locked| locked.hide(true)), override_usage = "cudarun record [OPTIONS] [--] PROGRAM [ARGS]...")]
    Record(RecordOptions),
    /// Download NVIDIA's libraries that a program lacks, as wheels, into a store of cudarun's own
    #[command(
        override_usage = "cudarun fetch [OPTIONS] [--] PROGRAM [ARGS]...\n       cudarun fetch [OPTIONS] FAMILY[=RANGE]...\n       cudarun fetch list | prune [OPTIONS]"
    )]
    Fetch(Fetch),
    /// Show which machines can run a program, and how they differ, from descriptions of them
    #[command(override_usage = "cudarun fleet [OPTIONS] <PATH>...")]
    Fleet(Fleet),
    /// Choose published releases of packages that work together here, and print the command that installs them
    #[command(override_usage = "cudarun advise [OPTIONS] <PACKAGE>...")]
    Advise(Advise),
    /// Write a .cudarun.toml with the requirements that cudarun finds in a program
    #[command(mut_arg("locked", |locked| locked.hide(true)), override_usage = "cudarun init [OPTIONS] [--] [PROGRAM [ARGS]...]")]
    Init(Init),
    /// Let a project's .cudarun.toml set variables and name directories
    #[command(override_usage = "cudarun allow [OPTIONS] [PATH]")]
    Allow(Allow),
    /// Print a shell hook that warns when a project's requirements are not met, or start Jupyter's kernels and services with cudarun
    #[command(
        override_usage = "cudarun hook [OPTIONS] <SHELL>\n       cudarun hook jupyter [OPTIONS] [PYTHON]\n       cudarun hook systemd [OPTIONS] <UNIT>"
    )]
    Hook(Hook),
    /// Print the completions for a shell
    #[command(override_usage = "cudarun completions [OPTIONS] <SHELL>")]
    Completions(Completions),
}

#[derive(Args, Debug)]
pub struct RunOptions {
    #[command(flatten)]
    pub start: StartOptions,
    #[command(flatten)]
    pub first: FetchFirst,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required = true,
        hide = true
    )]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Subshell {
    #[command(flatten)]
    pub start: StartOptions,
    /// The program and its arguments; without one, the frameworks of the project's environment count, or `[requires]`
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct List {
    /// Only these families: `cudnn`, `cublas`, `driver` …
    #[arg(value_name = "FAMILY")]
    pub families: Vec<String>,
    /// Show every file of every installation
    #[arg(short, long)]
    pub all: bool,
    /// List extension modules of Python packages instead, with the symbols and libraries that their framework lacks
    #[arg(long, conflicts_with = "families")]
    pub extensions: bool,
    /// Look into the environment of this Python too
    #[arg(long, value_name = "PYTHON")]
    pub python: Option<OsString>,
    /// List the running processes instead that have NVIDIA's libraries mapped, or only the process PID
    #[arg(long, value_name = "PID", num_args = 0..=1, conflicts_with_all = ["families", "extensions", "python"])]
    pub running: Option<Option<u32>>,
    #[command(flatten)]
    pub page_options: PageOptions,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
}

#[derive(Args, Debug)]
pub struct Explain {
    #[command(flatten)]
    pub question: ProgramQuestion,
    #[command(flatten)]
    pub page_options: PageOptions,
}

#[derive(Args, Debug)]
pub struct Export {
    #[command(flatten)]
    pub question: ProgramQuestion,
    /// Print the lines by which whatever is started there gets its own libraries, without typing `cudarun`
    #[arg(long, conflicts_with_all = ["words", "json"])]
    pub follow: bool,
    /// The shell, or tool, that reads the output
    #[arg(
        long,
        value_name = "SHELL",
        default_value = "sh",
        conflicts_with = "json"
    )]
    pub shell: Dialect,
}

/// The language of a change of environment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Dialect {
    /// Any POSIX shell: bash, zsh, dash
    #[default]
    #[value(aliases = ["bash", "zsh", "dash", "ksh", "posix"])]
    Sh,
    Fish,
    /// A `.envrc`, with the files that direnv must watch
    Direnv,
    /// A file of environment modules
    Module,
    /// A file of Lmod in Lua
    Lua,
    /// Lines of a systemd unit
    Systemd,
}

/// A question about a program that is not started.
#[derive(Args, Debug)]
pub struct ProgramQuestion {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    #[command(flatten)]
    pub building: Building,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required = true,
        hide = true
    )]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Verify {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    /// How much to prove [default: conv]
    #[arg(long, value_name = "LEVEL")]
    pub level: Option<Level>,
    /// Prove it now, whatever was proved before
    #[arg(long)]
    pub fresh: bool,
    /// Leave the environment unchanged, as without cudarun
    #[arg(long)]
    pub as_is: bool,
    /// Use N as the random seed: an earlier proof printed it
    #[arg(long, value_name = "N")]
    pub seed: Option<u32>,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; without one, the libraries that the loader gives to any program are proved
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Trace {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    /// Start nothing: print the files that the program would map, by a model of the loader
    #[arg(long)]
    pub predict: bool,
    /// Leave the environment unchanged, as without cudarun
    #[arg(long)]
    pub as_is: bool,
    /// Show every file, not only NVIDIA's
    #[arg(short, long)]
    pub all: bool,
    /// Write the report to FILE instead of standard error
    #[arg(short, long, value_name = "FILE", conflicts_with = "predict")]
    pub output: Option<PathBuf>,
    /// Report as one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required = true,
        hide = true
    )]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct RecordOptions {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    /// The program and its arguments
    #[arg(
        value_name = "PROGRAM",
        trailing_var_arg = true,
        required = true,
        hide = true
    )]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Init {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    /// Print the file instead of writing it
    #[arg(long)]
    pub print: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments; without one, the file has only examples
    #[arg(value_name = "PROGRAM", trailing_var_arg = true)]
    pub words: Vec<OsString>,
}

#[derive(Args, Debug)]
pub struct Allow {
    /// The file, or the directory that it is in [default: the nearest .cudarun.toml]
    #[arg(value_name = "PATH")]
    pub path: Option<PathBuf>,
    /// Withdraw the permission
    #[arg(long, conflicts_with = "list")]
    pub revoke: bool,
    /// List allowed files
    #[arg(long, conflicts_with = "path")]
    pub list: bool,
    /// With --list: print one JSON object
    #[arg(long, requires = "list")]
    pub json: bool,
}
