//! Options of `cudarun fetch`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::libraries::LibraryOptions;
use crate::catalog::catalog;

#[derive(Args, Debug)]
pub struct Fetch {
    #[command(flatten)]
    pub library_options: LibraryOptions,
    /// Show what would be downloaded, and download nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Do not ask
    #[arg(short, long)]
    pub yes: bool,
    /// Take the wheels from DIR, without network
    #[arg(long, value_name = "DIR", conflicts_with = "client")]
    pub from: Vec<PathBuf>,
    /// Only download the wheels to DIR: for --from, or for an image with --root
    #[arg(long, value_name = "DIR", conflicts_with = "from")]
    pub into: Option<PathBuf>,
    /// The program that downloads [default: uv, else pip]
    #[arg(long, value_name = "CLIENT")]
    pub client: Option<ClientKind>,
    /// For named families: the CUDA major [default: the newest that the driver runs]
    #[arg(long, value_name = "MAJOR", value_parser = major)]
    pub cuda: Option<u32>,
    /// For `prune`: remove wheels of which no use was noted for DAYS [default: 90]; daily use is noted every 30 days
    #[arg(long, value_name = "DAYS")]
    pub older: Option<u32>,
    /// For `prune`: remove all wheels that no program uses now
    #[arg(long, conflicts_with = "older")]
    pub all: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// The program and its arguments, or families: `cudnn=9.10`, `cublas`, `toolkit=13.0`; or `list` shows the store,
    /// `prune` removes old wheels
    #[arg(value_name = "PROGRAM", trailing_var_arg = true, required = true)]
    pub words: Vec<OsString>,
}

/// The word for a whole toolkit.
pub const TOOLKIT: &str = "toolkit";

/// True for a word that names whole toolkits, among families.
pub fn is_toolkit(word: &str) -> bool {
    [TOOLKIT, "cuda-toolkit"]
        .iter()
        .any(|name| word.eq_ignore_ascii_case(name))
}

fn major(text: &str) -> Result<u32, &'static str> {
    text.parse()
        .map_err(|_| "it is a major version, such as 12")
}

/// Words that name something to do with the store.
pub(super) const ACTIONS: [&str; 2] = ["list", "prune"];

impl Fetch {
    /// False if the words name families, or something to do with the store.
    pub fn names_program(&self) -> bool {
        let first = self
            .words
            .first()
            .map(|word| word.to_string_lossy())
            .unwrap_or_default();
        names_program(&first)
    }

    /// Returns what to do with the store.
    pub fn action(&self) -> Option<&'static str> {
        ACTIONS
            .into_iter()
            .find(|action| self.words.first().is_some_and(|word| word == action))
    }

    /// Returns an option or name that has no effect on what the words name, and a word for that.
    pub(super) fn idle(&self) -> Option<(&'static str, &'static str)> {
        let is_prune = self.action() == Some("prune");
        let of = self.action().unwrap_or(if self.names_program() {
            "PROGRAM"
        } else {
            "FAMILY"
        });
        let is_idle = [
            ("--older", self.older.is_some() && !is_prune),
            ("--all", self.all && !is_prune),
            ("--cuda", self.cuda.is_some() && of != "FAMILY"),
            ("FAMILY", self.action().is_some() && self.words.len() > 1),
        ];
        is_idle
            .into_iter()
            .find(|(_, is_idle)| *is_idle)
            .map(|(idle, _)| (idle, of))
    }
}

/// False for a family, for a name with a range, and for something to do with the store.
pub(super) fn names_program(word: &str) -> bool {
    let (name, range) = family_and_range(word);
    if range != "*" && !name.contains('/') {
        return false;
    }
    catalog().family_named(name).is_none() && !ACTIONS.contains(&word) && !is_toolkit(name)
}

/// `cudnn=9.10` is cuDNN in the range `=9.10`, and a name alone in every range.
pub fn family_and_range(word: &str) -> (&str, &str) {
    let (name, range) = word.split_at(
        word.find(['=', '<', '>', '!', '~', '^'])
            .unwrap_or(word.len()),
    );
    (name, if range.is_empty() { "*" } else { range })
}

/// When missing wheels are fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum FetchWhen {
    /// Only on request, after a question
    #[default]
    Ask,
    /// Never, not even on request
    Never,
    /// At every start that needs it, without a question
    Always,
}

/// The program that downloads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ClientKind {
    Uv,
    Pip,
}

impl ClientKind {
    pub fn name(self) -> &'static str {
        match self {
            ClientKind::Uv => "uv",
            ClientKind::Pip => "pip",
        }
    }
}
