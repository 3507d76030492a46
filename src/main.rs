//! The command line and this machine, handed to the library.

use std::process::ExitCode;

/// Runs before Rust's runtime does, which changes what the program is to inherit.
#[used]
// SAFETY: the linker's section for functions without arguments that are called before `main`; this one relies
// on nothing that is set up later.
#[allow(unsafe_code, reason = "there is no other way to be earlier than the runtime")]
#[unsafe(link_section = ".init_array")]
static RECORD: extern "C" fn() = cudarun::launch::record_inherited;

fn main() -> ExitCode {
    ExitCode::from(cudarun::run(&std::env::args_os().collect::<Vec<_>>(), cudarun::host::Host::here()))
}
