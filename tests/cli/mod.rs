//! The command line as it is typed.

mod command_line;
mod completions;
mod slips;
mod widths;
