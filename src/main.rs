//! Hands the command line and this machine to the library.

use std::process::ExitCode;

use cudarun::host::{self, Host};
use cudarun::launch;

#[used]
// SAFETY: the linker's section for functions without arguments that are called before `main`; this one relies
// on nothing that is set up later.
#[allow(unsafe_code, reason = "no safe code can run before the runtime")]
#[unsafe(link_section = ".init_array")]
static EARLY: extern "C" fn() = cudarun::before_the_runtime;

fn main() -> ExitCode {
    let run = || cudarun::run(&host::arguments(), Host::here());
    ExitCode::from(launch::with_enough_stack(run))
}
