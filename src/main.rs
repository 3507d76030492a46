//! The command line and this machine, handed to the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(cudarun::run(&std::env::args_os().collect::<Vec<_>>(), cudarun::host::Host::here()))
}
