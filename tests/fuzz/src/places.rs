//! Targets that reach their parsers through files: a private root directory holds them.

use std::cell::OnceCell;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use cudarun::doctor;
use cudarun::environment::{Diff, Environment};
use cudarun::host::Host;
use cudarun::image::Image;
use cudarun::inventory::{self, Inventory, ScanCache, Scope};
use cudarun::program::{self, Command};
use cudarun::cli::{Common, LibraryOptions};
use cudarun::settings::resolve::{Purpose, SettingSources, Settings};
use cudarun::kept::{self, StartKey};
use cudarun::storage;

/// A root directory that outlives the runs. `run.sh` removes it.
struct Place {
    root: tempfile::TempDir,
    host: Host,
}

impl Place {
    fn with(variables: &[(&str, &str)]) -> Place {
        let root = tempfile::tempdir().expect("a directory");
        let env: Environment = variables.iter().copied().collect();
        let host =
            Host::at(root.path(), env, PathBuf::from("/home")).expect("the directory is there");
        Place { root, host }
    }

    fn write(&self, guest: &str, bytes: &[u8]) {
        let real = self.root.path().join(guest.trim_start_matches('/'));
        fs::create_dir_all(real.parent().expect("below the root")).expect("a directory");
        fs::write(&real, bytes).expect("a file");
        fs::set_permissions(&real, fs::Permissions::from_mode(0o755)).expect("a mode");
    }
}

thread_local! {
    static KEPT: OnceCell<(Place, PathBuf, PathBuf)> = const { OnceCell::new() };
    static IMAGE: OnceCell<Place> = const { OnceCell::new() };
    static STARTUP: OnceCell<Place> = const { OnceCell::new() };
    static PROGRAM: OnceCell<Place> = const { OnceCell::new() };
    static SYSTEM: OnceCell<Place> = const { OnceCell::new() };
}

fn key() -> StartKey {
    let mut key = StartKey::new();
    key.push(Some(b"key"));
    key
}

pub fn kept_start(bytes: &[u8]) {
    let make = || {
        let place = Place::with(&[]);
        // The guest's path of the directory is its real one.
        let (real, above) = (
            place.root.path().join("cache"),
            place.root.path().to_owned(),
        );
        let link = above.join(above.strip_prefix("/").expect("an absolute path"));
        fs::create_dir_all(link.parent().expect("below the root")).expect("a directory");
        std::os::unix::fs::symlink("/", link).expect("a link");
        let seen = [PathBuf::from("/missing")].into();
        kept::keep_start(
            &place.host,
            &real,
            &key(),
            &Diff::default(),
            &seen,
            &seen,
            &[],
        );
        let file = fs::read_dir(real.join("starts"))
            .expect("it was kept")
            .next()
            .expect("it was kept");
        (place, real, file.expect("it can be listed").path())
    };
    KEPT.with(|kept| {
        let (place, directory, file) = kept.get_or_init(make);
        fs::write(file, bytes).expect("a file");
        let _ = kept::find_start(&place.host, [directory.clone()], &key());
    });
}

/// Start-up files of shells, the loader's configuration and module files, as `doctor` reads them.
pub fn startup(bytes: &[u8]) {
    STARTUP.with(|place| {
        let variables = [
            ("HOME", "/root"),
            ("LD_LIBRARY_PATH", "/opt/a:/b"),
            ("_LMFILES_", "/etc/m"),
        ];
        let place = place.get_or_init(|| Place::with(&variables));
        for guest in [
            "/root/.bashrc",
            "/etc/ld.so.conf",
            "/etc/m",
            "/etc/environment",
        ] {
            place.write(guest, bytes);
        }
        let sources = SettingSources::read(
            &place.host,
            &Common::default(),
            &LibraryOptions::default(),
            Purpose::Examine,
        );
        let settings = sources
            .and_then(|sources| Settings::resolve(&place.host, sources, None))
            .expect("faults are findings");
        let subject = doctor::DoctorSubject {
            host: &place.host,
            inventory: &Inventory::default(),
            views: &[],
            followed_by: None,
            settings: &settings,
        };
        let _ = doctor::examine(&subject);
    });
}

/// A program that is a script, of a shell or of another interpreter.
pub fn program(bytes: &[u8]) {
    PROGRAM.with(|place| {
        let place = place.get_or_init(|| Place::with(&[("PATH", "/bin"), ("HOME", "/home")]));
        place.write("/bin/program", bytes);
        for interpreter in ["/bin/sh", "/bin/python3", "/bin/env"] {
            place.write(interpreter, b"\x7fELF");
        }
        let command = Command {
            program: "program".into(),
            arguments: vec!["-m".into(), "a".into()],
        };
        let _ = program::read(&place.host, &command, &[]);
    });
}

/// An archive of an image, or of its files. Bombs of zstandard have tests of their own: 64 KiB unpack to gigabytes.
pub fn image(bytes: &[u8]) {
    const ZSTANDARD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
    if bytes.windows(4).any(|four| four == ZSTANDARD) {
        return;
    }
    IMAGE.with(|place| {
        let place = place.get_or_init(|| Place::with(&[("HOME", "/home")]));
        place.write("/home/image.tar", bytes);
        if let Ok(image) = Image::open(&place.host, Path::new("/home/image.tar")) {
            let host = image.host();
            for file in host.walk(Path::new("/"), &|_| false) {
                let _ = (host.stat(&file), host.read_start(&file, 64));
            }
        }
        let _ = fs::remove_dir_all(place.root.path().join("home/.cache"));
    });
}

/// The kernel's files about the driver, the loader's cache, and package managers' files, as a scan reads them.
pub fn system(bytes: &[u8]) {
    SYSTEM.with(|place| {
        let place =
            place.get_or_init(|| Place::with(&[("LD_LIBRARY_PATH", "/usr/local/cuda/lib64")]));
        for guest in [
            "/proc/driver/nvidia/version",
            "/proc/driver/nvidia/gpus/0000:01:00.0/information",
            "/sys/module/nvidia/version",
            "/etc/ld.so.preload",
            "/etc/ld.so.cache",
            "/usr/local/cuda/version.json",
            "/usr/local/cuda/lib64/libcudart.so.12",
        ] {
            place.write(guest, bytes);
        }
        // The others read files that have targets of their own.
        const SOURCES: [&str; 4] = ["driver", "library-path", "system", "toolkit"];
        let without = inventory::source_names()
            .filter(|name| !SOURCES.contains(name))
            .map(str::to_owned);
        let scope = Scope {
            without: without.collect(),
            ..Scope::default()
        };
        let _ = inventory::scan(&place.host, &scope, &mut ScanCache::default());
    });
}
