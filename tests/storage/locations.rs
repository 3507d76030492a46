//! The directory of views: the first one that is writable and can be named in a search path. `explain` names the directory
//! that a start would use.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::Path;

use crate::storage::kept_starts::Two;
use crate::support::Run;
use crate::support::machine::Machine;

/// Nothing can be created in `/sys`, as on a full disk, although the directory can be entered.
#[test]
fn an_unwritable_directory_gives_way_to_the_next() {
    let two = Two::new();
    let (cache, session) = (two.workshop.path("cache"), two.workshop.path("session"));
    fs::create_dir(&session).unwrap();
    let run = || {
        two.run()
            .env("XDG_CACHE_HOME", &cache)
            .env("XDG_RUNTIME_DIR", &session)
    };
    let stands_in_session = || session.join("cudarun/views").exists();
    run().check();
    assert!(!stands_in_session(), "the control");
    fs::remove_dir_all(cache.join("cudarun")).unwrap();
    fs::create_dir(cache.join("cudarun")).unwrap();
    fs::set_permissions(cache.join("cudarun"), fs::Permissions::from_mode(0o700)).unwrap();
    symlink("/sys", cache.join("cudarun/views")).unwrap();
    run().check();
    assert!(stands_in_session());
}

#[test]
fn explain_names_the_directory_that_a_start_uses() {
    let two = Two::new();
    let session = two.workshop.path("session");
    fs::create_dir(&session).unwrap();
    let shared = two.workshop.path("shared/cudarun");
    fs::create_dir_all(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let places = [
        (two.workshop.path("cache"), true),
        (two.workshop.path("a cache"), false),
        (two.workshop.write("file", ""), false),
        (two.workshop.path("shared"), false),
    ];
    for (cache, is_taken) in places {
        let ask = |verb: &str| {
            Run::new([
                verb.as_ref(),
                "--json".as_ref(),
                "--pin-mode=view".as_ref(),
                two.program.as_os_str(),
            ])
            .env("LD_LIBRARY_PATH", &two.path)
            .env("XDG_CACHE_HOME", &cache)
            .env("XDG_RUNTIME_DIR", &session)
            .json()
        };
        let explained = ask("explain");
        assert!(
            !cache.join("cudarun/views").exists(),
            "asking makes nothing"
        );
        assert_eq!(
            explained["view"],
            ask("export")["environment"]["CUDARUN_VIEW"],
            "{}",
            cache.display()
        );
        let view = Path::new(explained["view"].as_str().unwrap());
        assert_eq!(view.starts_with(&cache), is_taken, "{}", view.display());
    }
}

#[test]
fn under_a_root_the_view_has_a_name_that_the_loader_can_take() {
    let machine = Machine::load("h200-container");
    for (home, place) in [
        ("/home/user", "/home/user/.cache/cudarun/views/"),
        ("/home/a user", "/tmp/cudarun-"),
    ] {
        let ask = |verb: &str| {
            let run = Run::on(
                &machine,
                &[verb, "--json", "python3", "/home/user/train.py"],
            );
            run.env("HOME", home)
                .env("LD_LIBRARY_PATH", "/usr/local/cuda/compat")
                .json()
        };
        for verb in ["explain", "export"] {
            let answer = ask(verb);
            let view = answer["environment"]["CUDARUN_VIEW"].as_str().unwrap();
            assert!(view.starts_with(place), "{verb}: {view}");
        }
    }
    assert!(!machine.real("/tmp").exists(), "nothing is written");
}

/// systemd sets the variable for a service with `CacheDirectory=`.
#[test]
fn a_service_without_a_home_has_its_directory() {
    let machine = Machine::load("h200-container");
    for (directory, place) in [
        (
            "/var/cache/cudarun/ollama",
            "/var/cache/cudarun/ollama/cudarun/views/",
        ),
        ("/var/cache/a:/var/cache/b", "/var/cache/a/cudarun/views/"),
        ("", "/tmp/cudarun-"),
        ("relative", "/tmp/cudarun-"),
    ] {
        let run = Run::on(
            &machine,
            &["explain", "--json", "python3", "/home/user/train.py"],
        );
        let answer = run
            .without("HOME")
            .env("CACHE_DIRECTORY", directory)
            .env("LD_LIBRARY_PATH", "/usr/local/cuda/compat")
            .json();
        let view = answer["environment"]["CUDARUN_VIEW"].as_str().unwrap();
        assert!(view.starts_with(place), "{directory}: {view}");
    }
}

#[test]
fn a_umask_decides_nothing_about_what_is_ours() {
    let two = Two::new();
    let cache = two.workshop.path("cache");
    let run = |umask: &str| {
        let script = format!(
            "umask {umask}; exec '{}' '{}'",
            crate::support::CUDARUN,
            two.program.display()
        );
        let mut command = std::process::Command::new("/bin/sh");
        command
            .args(["-c", &script])
            .env_clear()
            .env("HOME", "/nowhere")
            .env("XDG_CACHE_HOME", &cache);
        command.env("LD_LIBRARY_PATH", &two.path).output().unwrap()
    };
    for umask in ["377", "000", "022"] {
        let _ = fs::remove_dir_all(&cache);
        let output = run(umask);
        assert!(output.status.success(), "{umask}: {output:?}");
        let mode = |below: &str| {
            fs::metadata(cache.join(below))
                .unwrap()
                .permissions()
                .mode()
                & 0o777
        };
        assert_eq!(
            (mode("cudarun"), mode("cudarun/views")),
            (0o700, 0o700),
            "{umask}"
        );
    }
}

/// A user who can write to a directory above a view can replace the view.
#[test]
fn a_directory_below_a_world_writable_one_is_skipped() {
    let two = Two::new();
    let session = two.workshop.path("session");
    fs::create_dir(&session).unwrap();
    for (name, mode) in [("closed", 0o755), ("sticky", 0o1777), ("open", 0o777)] {
        let parent = two.workshop.path(name);
        fs::create_dir(&parent).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
        two.run()
            .env("XDG_CACHE_HOME", parent.join("cache"))
            .env("XDG_RUNTIME_DIR", &session)
            .check();
        assert_eq!(
            parent.join("cache/cudarun/views").exists(),
            name != "open",
            "{name}"
        );
        assert_eq!(
            session.join("cudarun/views").exists(),
            name == "open",
            "{name}"
        );
    }
}

/// A link leads to a place where another user may write.
#[test]
fn a_link_to_a_directory_below_a_world_writable_one_is_skipped() {
    let two = Two::new();
    let session = two.workshop.path("session");
    fs::create_dir(&session).unwrap();
    for (name, mode) in [("closed", 0o755), ("open", 0o777)] {
        let parent = two.workshop.path(name);
        fs::create_dir_all(parent.join("cache")).unwrap();
        fs::set_permissions(&parent, fs::Permissions::from_mode(mode)).unwrap();
        let link = two.workshop.path(&format!("{name}-link"));
        symlink(parent.join("cache"), &link).unwrap();
        two.run()
            .env("XDG_CACHE_HOME", &link)
            .env("XDG_RUNTIME_DIR", &session)
            .check();
        assert_eq!(
            session.join("cudarun/views").exists(),
            name == "open",
            "{name}"
        );
    }
}
