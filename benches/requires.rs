//! Prints the requirements that cudarun reads in each METADATA file on standard input, for tests/real/metadata.py.
//!
//! One JSON array a file: an array for each requirement, with name, extras, versions, whether it is optional, extra.

use std::io::BufRead as _;

use cudarun::formats::metadata::requirements;

pub fn run() -> std::io::Result<()> {
    for path in std::io::stdin().lock().lines() {
        let bytes = std::fs::read(path?)?;
        let requires = requirements(&String::from_utf8_lossy(&bytes));
        let rows: Vec<_> = requires
            .iter()
            .map(|r| (&r.name, &r.extras, &r.versions, r.optional, &r.extra))
            .collect();
        println!("{}", serde_json::to_string(&rows)?);
    }
    Ok(())
}
