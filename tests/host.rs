//! The door to the machine: links under a root, files that must not be opened, order and count.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cudarun::environment::Environment;
use cudarun::host::{FileKind, Host};
use nix::errno::Errno;

fn machine() -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let path = |below: &str| root.path().join(below);
    fs::create_dir_all(path("usr/lib")).unwrap();
    fs::create_dir_all(path("opt/cuda-13.0/lib")).unwrap();
    fs::write(path("opt/cuda-13.0/lib/libcudart.so.13"), b"library").unwrap();
    symlink("/opt/cuda-13.0", path("opt/cuda")).unwrap();
    symlink(
        "../../opt/cuda/lib/libcudart.so.13",
        path("usr/lib/libcudart.so"),
    )
    .unwrap();
    symlink("/../../../../usr/lib", path("up")).unwrap();
    symlink("loop-b", path("loop-a")).unwrap();
    symlink("loop-a", path("loop-b")).unwrap();
    symlink("/etc/passwd", path("escape")).unwrap();
    let host = Host::at(root.path(), Environment::default(), PathBuf::from("/")).unwrap();
    (root, host)
}

#[test]
fn every_component_of_every_link_stays_inside_the_root() {
    let (_root, host) = machine();
    let library = Path::new("/opt/cuda-13.0/lib/libcudart.so.13");
    for name in [
        "/opt/cuda/lib/libcudart.so.13",
        "/usr/lib/libcudart.so",
        "/up/libcudart.so",
        "usr/lib/../lib/libcudart.so",
    ] {
        assert_eq!(host.canonical(Path::new(name)).unwrap(), library, "{name}");
        assert_eq!(host.read(Path::new(name)).unwrap(), b"library");
    }
    assert!(
        host.read(Path::new("/escape")).is_err(),
        "an absolute link must not leave the root"
    );
    assert_eq!(
        host.stat(Path::new("/loop-a")).unwrap_err().raw_os_error(),
        Some(Errno::ELOOP as i32)
    );
    assert_eq!(
        host.lstat(Path::new("/loop-a")).unwrap().kind,
        FileKind::Link
    );
}

#[test]
fn a_fifo_is_refused_and_never_waited_for() {
    let (root, host) = machine();
    let fifo = root.path().join("usr/lib/libcudnn.so.9");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::S_IRWXU).unwrap();
    assert!(host.read(Path::new("/usr/lib/libcudnn.so.9")).is_err());
    assert!(host.map(Path::new("/usr/lib/libcudnn.so.9")).is_err());
    assert!(host.read(Path::new("/usr/lib")).is_err());
}

#[test]
fn lists_and_walks_are_sorted_and_counted() {
    let (_root, host) = machine();
    let before = host.operations();
    let names: Vec<_> = host
        .list(Path::new("/"))
        .unwrap()
        .into_iter()
        .map(|entry| entry.name)
        .collect();
    assert_eq!(names, ["escape", "loop-a", "loop-b", "opt", "up", "usr"]);
    let files = host.walk(Path::new("/opt"), &|name| name == "include");
    assert_eq!(
        files,
        [
            Path::new("/opt/cuda"),
            Path::new("/opt/cuda-13.0/lib/libcudart.so.13")
        ]
    );
    assert!(host.operations() > before);
}

#[test]
fn real_paths_match_the_kernel() {
    let root = tempfile::tempdir().unwrap();
    let root = root.path().canonicalize().unwrap();
    fs::create_dir_all(root.join("a/b")).unwrap();
    fs::create_dir(root.join("d")).unwrap();
    fs::write(root.join("a/file"), "").unwrap();
    symlink("../a/b", root.join("d/to_b")).unwrap();
    symlink("round", root.join("round")).unwrap();
    symlink("a/file", root.join("to_file")).unwrap();
    let host = Host::here();
    let paths = "a a/ a/. a/b a/../a/./b//x d/to_b d/to_b/.. d/to_b/../file to_file to_file/x to_file/. to_file/ a/none a/none/x \
                 a/file/.. round round/x .. ../..";
    for path in paths
        .split_whitespace()
        .chain([""])
        .map(|path| root.join(path))
    {
        let kernels = path.canonicalize().map_err(|error| error.kind());
        for _ in 0..2 {
            assert_eq!(
                host.canonical(&path).map_err(|error| error.kind()),
                kernels,
                "{}",
                path.display()
            );
        }
    }
    assert!(
        host.canonical(&root.join("a/".repeat(20_000)).join("b"))
            .is_err()
    );
    // A directory is resolved once in a run, a file each time.
    fs::remove_file(root.join("to_file")).unwrap();
    symlink("a/b", root.join("to_file")).unwrap();
    assert_eq!(
        host.canonical(&root.join("to_file")).unwrap(),
        root.join("a/b")
    );
}

#[test]
fn a_listing_tells_which_names_are_missing() {
    let root = tempfile::tempdir().unwrap();
    fs::write(root.path().join("libA.so"), "").unwrap();
    symlink(root.path(), root.path().join("again")).unwrap();
    let host = Host::here();
    let library = |name: &str| root.path().join(name);
    assert!(
        !host.is_unlisted(&library("libB.so")),
        "nothing is listed yet"
    );
    assert_eq!(host.listing(root.path()).unwrap().len(), 2);
    assert!(host.is_unlisted(&library("libB.so")));
    assert!(!host.is_unlisted(&library("libA.so")));
    assert!(
        !host.is_unlisted(&library("liba.SO")),
        "the file system may ignore case"
    );
    assert!(
        !host.is_unlisted(&library(&"x".repeat(256))),
        "another error than that of a missing file"
    );
    assert!(!host.is_unlisted(&library("again/libB.so")));
    let before = host.operations();
    host.listing(&library("again")).unwrap();
    assert!(host.is_unlisted(&library("again/libB.so")));
    assert_eq!(
        host.operations(),
        before,
        "one directory by two paths is listed once"
    );
    assert!(host.listing(&library("none")).is_none());
    assert!(host.listing(&library("libA.so")).is_none());
}

#[test]
fn a_walk_matches_that_of_another_implementation() {
    let root = tempfile::tempdir().unwrap();
    for directory in 0..40 {
        let below = root
            .path()
            .join(format!("{}/d{directory}/a/deep.so", directory % 3));
        fs::create_dir_all(&below).unwrap();
        fs::write(below.join("file"), "").unwrap();
        fs::write(below.with_file_name("deep"), "").unwrap();
        symlink("/usr", below.join("link")).unwrap();
    }
    let deepest = root.path().join("e/".repeat(25));
    fs::create_dir_all(&deepest).unwrap();
    fs::write(deepest.join("too_deep"), "").unwrap();
    let other = walkdir::WalkDir::new(root.path())
        .max_depth(24)
        .sort_by_file_name()
        .into_iter();
    let other = other
        .map(Result::unwrap)
        .filter(|entry| !entry.file_type().is_dir());
    let other: Vec<PathBuf> = other.map(walkdir::DirEntry::into_path).collect();
    assert_eq!(other.len(), 120);
    assert_eq!(Host::here().walk(root.path(), &|_| false), other);
}
