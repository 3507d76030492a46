use std::fs;
use std::path::Path;

use cudarun::catalog::ErrorKind;

use super::messages;

/// Logs of programs that worked, as `healthy.py` made them. A symptom may be in one, since a program may go on without a GPU;
/// a root may not.
#[test]
fn healthy_logs_have_no_root() {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/diagnose/healthy");
    let (mut count, mut faults) = (0, Vec::new());
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let log = fs::read(&path).unwrap();
        count += 1;
        let messages = messages(&log);
        let roots = messages.iter().filter(|message| message.row.kind == ErrorKind::Root);
        faults.extend(roots.map(|root| format!("{}: {} {}", path.display(), root.row.id, root.excerpt)));
        // The control: the same log with an error in it.
        let with_error =
            [&log[..], b"\nImportError: libcudart.so.12: cannot open shared object file\n"].concat();
        let found = super::messages(&with_error);
        assert!(found.iter().any(|message| message.row.id == "missing-library"), "{}", path.display());
    }
    assert!(count >= 200, "{count} logs");
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
