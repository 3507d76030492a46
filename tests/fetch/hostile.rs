//! Wheels that are not as they must be: nothing of them is ever an entry of the store.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use super::killed::{Sums, is_sound};
use super::wheelhouse::{Packed, TestWheel, Wheelhouse, archive, cudart, names, shown, sum};

/// Fetches a wheel of which the table has the right hash: the unpacker itself must refuse it.
#[track_caller]
fn is_refused(bytes: &[u8], messages: &[&str]) {
    let wheel = cudart();
    let house = Wheelhouse::new(&[]);
    house.put(&wheel, bytes);
    house.tabulate(&[(&wheel, bytes.to_vec())]);
    let named = format!("{}: {}", wheel.file_name(), messages[0]);
    let run = house.fetch(&["cudart"]).status(2);
    run.stderr_contains(&[&[named.as_str()], &messages[1..]].concat())
        .check();
    house.has_no_entry();
    assert!(!house.path("evil").exists());
    // The control: the store takes the right wheel afterwards.
    house.put(&wheel, &wheel.bytes());
    house.tabulate(&[(&wheel, wheel.bytes())]);
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
    assert_eq!(names(&house.store()), [".turn", &sum(&wheel.bytes())]);
}

#[track_caller]
fn is_refused_with(file: Packed, message: &str) {
    is_refused(&cudart().with(file.clone()).bytes(), &[message]);
    // RECORD need not know of it.
    is_refused(&cudart().with_unrecorded(file).bytes(), &[message]);
}

#[test]
fn a_changed_byte_is_refused() {
    let wheel = cudart();
    let house = Wheelhouse::new(&[cudart()]);
    let right = wheel.bytes();
    for at in [0, right.len() / 3, right.len() / 2, right.len() - 1] {
        let mut changed = right.clone();
        changed[at] ^= 1;
        house.put(&wheel, &changed);
        let message = format!(
            "cudarun: {}: its sha256 is {}, expected {}",
            wheel.file_name(),
            sum(&changed),
            sum(&right)
        );
        house
            .fetch(&["cudart"])
            .status(2)
            .stderr_contains(&[&message])
            .check();
        house.has_no_entry();
    }
    house.put(&wheel, &right);
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
}

/// The size is in the table, so nobody reads a file without end.
#[test]
fn a_wheel_of_another_size_is_refused_before_it_is_read() {
    let (wheel, house) = (cudart(), Wheelhouse::new(&[cudart()]));
    let file = house.path("wheels").join(wheel.file_name());
    // Without blocks on the disk.
    let length = 1 << 33;
    fs::File::options()
        .write(true)
        .open(&file)
        .and_then(|file| file.set_len(length))
        .unwrap();
    let message = format!(
        "{}: its size is {length} bytes, expected",
        wheel.file_name()
    );
    house
        .fetch(&["cudart"])
        .status(2)
        .stderr_contains(&[&message])
        .check();
    house.has_no_entry();
    house.put(&wheel, &wheel.bytes());
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
}

/// Another user may write to the directory: the wheel is exchanged when its hash is known. RECORD of the other wheel is right.
#[test]
fn what_is_unpacked_is_what_was_hashed() {
    let mut evil = cudart();
    let library = evil.file("libcudart.so.12");
    let right = library.bytes.clone();
    *library.bytes.last_mut().unwrap() ^= 1;
    // Stored, RECORD too, so that both have the same size.
    let stored = |wheel: TestWheel| {
        let mut wheel = wheel.recorded();
        for file in &mut wheel.files {
            file.is_deflated = false;
        }
        wheel
    };
    let (wheel, evil) = (stored(cudart()), stored(evil));
    assert_eq!(wheel.bytes().len(), evil.bytes().len());
    let house = Wheelhouse::new(std::slice::from_ref(&wheel));
    let from = house.path("wheels");
    let mut child = house
        .command(&["fetch", "--from", from.to_str().unwrap(), "--yes", "cudart"])
        .env("CUDARUN_TEST_FAULT", "pause@hashed")
        .spawn()
        .unwrap();
    let paused = house.path("home/paused");
    while !paused.exists() {
        assert!(child.try_wait().unwrap().is_none(), "it does not pause");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    // In place: the file stays the same one.
    house.put(&wheel, &evil.bytes());
    fs::remove_file(&paused).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{}", shown(&output));
    let entry = house.store().join(sum(&wheel.bytes()));
    let unpacked = fs::read(entry.join("nvidia/cuda_runtime/lib/libcudart.so.12")).unwrap();
    assert!(unpacked == right, "the other wheel is in the store");
    // The control: exchanged before, it is refused.
    fs::remove_dir_all(house.store()).unwrap();
    house
        .fetch(&["cudart"])
        .status(2)
        .stderr_contains(&["its sha256 is"])
        .check();
}

#[test]
fn pip_refuses_a_changed_byte() {
    let wheel = cudart();
    let house = Wheelhouse::new(&[cudart()]);
    let Some(pip) = house.pip() else { return };
    let mut changed = wheel.bytes();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    house.put(&wheel, &changed);
    let fetch = || pip.run(&["fetch", "--yes", "cudart"]);
    let message = "cudarun: `pip` could not get nvidia-cuda-runtime-cu12 12.4.127";
    fetch()
        .status(2)
        .stderr_contains(&[message, &sum(&changed)])
        .check();
    house.has_no_entry();
    house.put(&wheel, &wheel.bytes());
    fetch().stderr_contains(&["fetched"]).check();
}

#[test]
fn a_truncated_wheel_is_refused() {
    let right = cudart().bytes();
    for length in [0, 1, 30, right.len() / 2, right.len() - 1] {
        let wheel = cudart();
        let house = Wheelhouse::new(&[cudart()]);
        house.put(&wheel, &right[..length]);
        let named = format!(
            "{}: its size is {length} bytes, expected {}",
            wheel.file_name(),
            right.len()
        );
        house
            .fetch(&["cudart"])
            .status(2)
            .stderr_contains(&[&named])
            .check();
        house.has_no_entry();
        is_refused(&right[..length], &["not a wheel: "]);
    }
}

#[test]
fn a_file_that_is_no_archive_is_refused() {
    is_refused(b"<html>404</html>", &["not a wheel: "]);
    is_refused("P".repeat(70_000).as_bytes(), &["not a wheel: "]);
    is_refused(&archive(&[]), &["no RECORD"]);
}

#[test]
fn a_path_that_leads_outside_is_refused() {
    for name in [
        "../evil",
        "../../../../../evil",
        "nvidia/../../evil",
        "nvidia/cuda_runtime/lib/..",
        "/evil",
        "//evil",
        "nvidia\\..\\evil",
        "nvidia/cuda_runtime/lib/x\0y",
        "./nvidia/x",
    ] {
        is_refused_with(
            Packed::new(name, "evil"),
            &format!(
                "`{}` leads outside of the wheel",
                name.replace('\0', "\\u{0}")
            ),
        );
    }
}

#[test]
fn a_link_is_refused() {
    for (name, to) in [
        ("nvidia/cuda_runtime/lib/libcudart.so", "libcudart.so.12"),
        ("nvidia/cuda_runtime/lib/libevil.so.1", "/etc/passwd"),
        // Outside of what is kept.
        ("elsewhere/link", "/"),
    ] {
        let link = Packed {
            mode: 0o120_777,
            is_deflated: false,
            ..Packed::new(name, to)
        };
        is_refused_with(link, &format!("`{name}` is a link"));
    }
}

#[test]
fn a_name_that_is_there_twice_is_refused() {
    let name = "nvidia/cuda_runtime/lib/libcudart.so.12";
    is_refused_with(
        Packed::new(name, "another"),
        &format!("`{name}` is there twice"),
    );
}

#[test]
fn a_file_in_place_of_a_directory_is_refused() {
    let file = Packed::new("nvidia/cuda_runtime/lib", "a file");
    is_refused_messages(&cudart().with(file), "nvidia/cuda_runtime/lib");
}

/// The name of the file is in the message somewhere.
#[track_caller]
fn is_refused_messages(wheel: &TestWheel, name: &str) {
    let house = Wheelhouse::new(&[]);
    let bytes = wheel.bytes();
    house.put(wheel, &bytes);
    house.tabulate(&[(wheel, bytes)]);
    house
        .fetch(&["cudart"])
        .status(2)
        .stderr_contains(&["cudarun: ", name])
        .check();
    house.has_no_entry();
}

#[test]
fn a_record_that_differs_is_refused() {
    let library = "nvidia/cuda_runtime/lib/libcudart.so.12";
    let not_as_recorded = format!("`{library}` is not as RECORD says");
    let mut other_content = cudart();
    *other_content
        .file("libcudart.so.12")
        .bytes
        .last_mut()
        .unwrap() ^= 1;
    is_refused(&other_content.bytes(), &[&not_as_recorded]);
    let mut other_record = cudart();
    let record = &mut other_record.file("/RECORD").bytes;
    let text = String::from_utf8(record.clone()).unwrap();
    *record = text
        .replace(
            &format!("{library},sha256="),
            &format!("{library},sha256=A"),
        )
        .into_bytes();
    is_refused(&other_record.bytes(), &[&not_as_recorded]);
    let mut weak = cudart();
    let record = &mut weak.file("/RECORD").bytes;
    *record = text
        .replace(&format!("{library},sha256="), &format!("{library},md5="))
        .into_bytes();
    is_refused(&weak.bytes(), &[&not_as_recorded]);
    let mut empty = cudart();
    empty.file("/RECORD").bytes.clear();
    is_refused(&empty.bytes(), &["`nvidia", "is not as RECORD says"]);
    let mut without = cudart();
    without
        .files
        .retain(|file| !file.name.ends_with(b"/RECORD"));
    is_refused(&without.bytes(), &["no RECORD"]);
    let stranger = "nvidia/cuda_runtime/lib/libstranger.so.1";
    let with_stranger = cudart().with_unrecorded(Packed::new(stranger, "x"));
    is_refused(
        &with_stranger.bytes(),
        &[&format!("`{stranger}` is not as RECORD says")],
    );
}

#[test]
fn a_recorded_file_that_the_wheel_lacks_is_refused() {
    let mut wheel = cudart();
    wheel
        .files
        .retain(|file| !file.name.ends_with(b"libcudart.so.12"));
    is_refused(
        &wheel.bytes(),
        &["`nvidia/cuda_runtime/lib/libcudart.so.12` is not as RECORD says"],
    );
}

#[test]
fn damage_inside_of_the_archive_is_refused() {
    // Stored, so that a changed byte leaves the archive as it is.
    let mut wheel = cudart();
    wheel.file("libcudart.so.12").is_deflated = false;
    let library = wheel.file("libcudart.so.12").bytes.clone();
    let mut bytes = wheel.bytes();
    let at = memchr::memmem::find(&bytes, &library).unwrap() + library.len() / 2;
    bytes[at] ^= 1;
    is_refused(
        &bytes,
        &["`nvidia/cuda_runtime/lib/libcudart.so.12` is damaged: "],
    );
}

#[test]
fn files_beside_the_libraries_are_not_kept() {
    let beside = [
        "elsewhere/module.py",
        "top.pth",
        "nvidia_cuda_runtime_cu12-12.4.127.data/scripts/evil",
    ];
    let wheel = beside.iter().fold(cudart(), |wheel, name| {
        wheel.with(Packed::new(name, "import evil"))
    });
    let house = Wheelhouse::new(std::slice::from_ref(&wheel));
    house
        .fetch(&["cudart"])
        .stderr_contains(&["fetched"])
        .check();
    let entry = house.store().join(sum(&wheel.bytes()));
    assert_eq!(
        names(&entry),
        [
            "meta.toml",
            "nvidia",
            "nvidia_cuda_runtime_cu12-12.4.127.dist-info"
        ],
        "{entry:?}"
    );
    // Nobody else adds a file, whatever the umask is, and no file is written to.
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&entry), 0o755);
    assert_eq!(mode(&entry.join("nvidia")), 0o755);
    assert_eq!(mode(&entry.join("meta.toml")), 0o444);
    let kept = Sums::from([(sum(&wheel.bytes()), cudart())]);
    assert_eq!(is_sound(&house.store(), &kept), 1);
}
