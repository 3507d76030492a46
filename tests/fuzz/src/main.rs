//! Coverage-guided fuzzing of every parser that reads bytes of others. `run.sh` builds and runs it.
//!
//! `CUDARUN_FUZZ_TARGET` names the target; without it, the names of all targets are printed.
#![no_main]

mod limits;
mod places;
mod targets;

use std::sync::OnceLock;

#[global_allocator]
static ALLOCATOR: limits::Counting = limits::Counting;

static TARGET: OnceLock<fn(&[u8])> = OnceLock::new();

libfuzzer_sys::fuzz_target!(init: choose(), |bytes: &[u8]| {
    let target = TARGET.get().expect("chosen before the first run");
    limits::hold(bytes.len(), || target(bytes));
});

fn choose() {
    let Ok(name) = std::env::var("CUDARUN_FUZZ_TARGET") else {
        targets::ALL.iter().for_each(|(name, _)| println!("{name}"));
        std::process::exit(0);
    };
    let Some((_, target)) = targets::ALL.iter().find(|(target, _)| *target == name) else {
        eprintln!("no target is called {name}");
        std::process::exit(2);
    };
    // Tables that are read once, and belong to no run.
    target(b"");
    let _ = (
        cudarun::catalog::catalog(),
        cudarun::catalog::knowledge(),
        cudarun::catalog::wrappers(),
    );
    let _ = TARGET.set(*target);
}
