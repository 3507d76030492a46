//! The output of `list` on every machine made of text, word for word: `tests/machines/NAME.list`. With
//! `CUDARUN_SNAPSHOTS=overwrite` in the environment, they are written anew, for a person to read and commit.

use std::fs;
use std::path::Path;

use crate::support::Run;
use crate::support::machine::Machine;

#[test]
fn every_machine_is_listed_as_it_was() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/machines");
    let overwrites = std::env::var("CUDARUN_SNAPSHOTS").is_ok_and(|value| value == "overwrite");
    let mut names: Vec<String> = fs::read_dir(&directory)
        .unwrap()
        .filter_map(|entry| {
            entry
                .unwrap()
                .file_name()
                .to_str()?
                .strip_suffix(".toml")
                .map(str::to_owned)
        })
        .collect();
    names.sort();
    assert!(names.len() >= 15, "{names:?}");
    let mut faults = Vec::new();
    for name in names {
        let machine = Machine::load(&name);
        let said = said(&machine);
        let file = directory.join(format!("{name}.list"));
        if overwrites {
            fs::write(&file, said).unwrap();
        } else if fs::read_to_string(&file).unwrap_or_default() != said {
            faults.push(format!("{name}\n{said}"));
        }
    }
    assert!(
        faults.is_empty(),
        "not as in tests/machines/*.list:\n{}",
        faults.join("\n")
    );
}

/// A list of all that can be listed. A machine where nothing is found is a no.
fn said(machine: &Machine) -> String {
    let (output, status) = Run::on(machine, &["list", "-v"]).output();
    assert!([0, 1].contains(&status), "{output}");
    assert!(
        !output.contains('\x1b'),
        "no text from disk reaches the terminal as it is"
    );
    output
}
