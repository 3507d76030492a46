//! What the scripts of `benches/` and `tests/real/` call of the library: measure closures|machine|requires|solve …
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
mod machine;
mod requires;
mod solve;

fn main() -> std::io::Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (name, rest) = arguments.split_first().expect("a name");
    match name.as_str() {
        "closures" => closures::run(rest)?,
        "machine" => machine::run(rest),
        "requires" => requires::run()?,
        "solve" => solve::run(rest),
        _ => panic!("closures, machine, requires or solve"),
    }
    Ok(())
}
