//! What the scripts of `benches/` and `tests/real/` call of the library: measure closures|files|machine|requires|solve …
//!
//! One program, since each is linked anew with every optimisation of a release.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    dead_code,
    unreachable_pub
)]

mod closures;
#[path = "../tests/support/machine/mod.rs"]
mod files;
mod machine;
mod requires;
mod solve;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().expect("a name");
    match name.as_str() {
        "closures" => closures::run(rest)?,
        // The files of a machine in `tests/machines`: FILE DIRECTORY
        "files" => {
            let text = std::fs::read_to_string(&rest[0])?;
            let machine = files::Machine::describe(&text);
            let mut copy = std::process::Command::new("cp");
            copy.arg("-a").arg(machine.root()).arg(&rest[1]);
            assert!(copy.status()?.success());
        }
        "machine" => machine::run(rest),
        "requires" => requires::run()?,
        "solve" => solve::run(rest),
        _ => panic!("closures, files, machine, requires or solve"),
    }
    Ok(())
}
