//! Options about the libraries of a program.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum};

use crate::modes::Mode;

/// Options about a program's libraries.
#[derive(Args, Debug, Default, PartialEq, Eq)]
pub struct LibraryOptions {
    /// Count these installed Python packages as used (with commas, or repeated), instead of those that the program imports
    #[arg(long, hide_short_help = true, value_name = "PACKAGE", value_delimiter = ',', value_parser = NonEmptyStringValueParser::new())]
    pub uses: Vec<String>,
    /// Take this installation of a family: `cudnn=9.10` or `cudnn=/opt/cudnn/lib`
    #[arg(long, value_name = "FAMILY=WHICH")]
    pub pin: Vec<OsString>,
    /// Require `cudnn>=9.1,<10`, `driver>=550`, or a `gpu`
    #[arg(long, value_name = "WHAT")]
    pub require: Vec<String>,
    /// Take exactly the set that `cudarun record` wrote to `.cudarun.lock`
    #[arg(long, hide_short_help = true)]
    pub locked: bool,
    /// The text of the lock, which no file has yet.
    #[arg(skip)]
    pub lock: Option<String>,
    /// Do not follow what the program starts
    #[arg(long, hide_short_help = true)]
    pub no_follow: bool,
    /// How to make the loader take the picked libraries [default: the least intrusive mode that is enough]
    #[arg(long, hide_short_help = true, value_name = "MODE")]
    pub pin_mode: Option<Mode>,
}

/// An option that is a setting, with the values that were given; none where it was not.
pub struct SettingOption {
    pub name: &'static str,
    pub values: Vec<OsString>,
}

impl SettingOption {
    pub(super) fn new<T: Into<OsString> + Clone>(
        name: &'static str,
        values: &[T],
    ) -> SettingOption {
        SettingOption {
            name,
            values: values.iter().cloned().map(Into::into).collect(),
        }
    }
}

impl LibraryOptions {
    /// The options that are settings. The table of settings has a row for each name.
    pub fn given(&self) -> Vec<SettingOption> {
        let mode = self.pin_mode.and_then(|mode| mode.to_possible_value());
        vec![
            SettingOption::new("--require", &self.require),
            SettingOption::new("--pin", &self.pin),
            SettingOption::new("--uses", &self.uses),
            SettingOption::new(
                "--pin-mode",
                mode.map(|mode| mode.get_name().to_owned()).as_slice(),
            ),
            SettingOption::new("--locked", self.locked.then_some("1").as_slice()),
            SettingOption::new("--no-follow", self.no_follow.then_some("0").as_slice()),
        ]
    }
}

/// Other forms of an answer.
#[derive(Args, Clone, Debug, Default)]
pub struct PageOptions {
    /// Write a page to look at to FILE: one HTML file, without scripts; `-` is standard output
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    pub html: Option<PathBuf>,
    /// Print Markdown, for a bug report
    #[arg(long, conflicts_with_all = ["json", "html"])]
    pub markdown: bool,
}

impl PageOptions {
    pub fn is_asked(&self) -> bool {
        self.markdown || self.html.is_some()
    }
}

/// The option for programs that compile CUDA code.
#[derive(Args, Clone, Copy, Debug, Default)]
pub struct Building {
    /// Give it the CUDA toolkit that fits, to compile
    #[arg(long)]
    pub build: bool,
}
