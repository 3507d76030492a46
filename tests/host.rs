//! The door to the machine: links under a root, files that must not be opened, order and count.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use cudarun::environment::Environment;
use cudarun::host::{Host, Kind};
use nix::errno::Errno;

fn machine() -> (tempfile::TempDir, Host) {
    let root = tempfile::tempdir().unwrap();
    let path = |below: &str| root.path().join(below);
    fs::create_dir_all(path("usr/lib")).unwrap();
    fs::create_dir_all(path("opt/cuda-13.0/lib")).unwrap();
    fs::write(path("opt/cuda-13.0/lib/libcudart.so.13"), b"library").unwrap();
    symlink("/opt/cuda-13.0", path("opt/cuda")).unwrap();
    symlink("../../opt/cuda/lib/libcudart.so.13", path("usr/lib/libcudart.so")).unwrap();
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
    assert!(host.read(Path::new("/escape")).is_err(), "an absolute link must not leave the root");
    assert_eq!(host.stat(Path::new("/loop-a")).unwrap_err().raw_os_error(), Some(Errno::ELOOP as i32));
    assert_eq!(host.lstat(Path::new("/loop-a")).unwrap().kind, Kind::Link);
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
    let names: Vec<_> = host.list(Path::new("/")).unwrap().into_iter().map(|entry| entry.name).collect();
    assert_eq!(names, ["escape", "loop-a", "loop-b", "opt", "up", "usr"]);
    let files = host.walk(Path::new("/opt"), &|name| name == "include");
    assert_eq!(files, [Path::new("/opt/cuda"), Path::new("/opt/cuda-13.0/lib/libcudart.so.13")]);
    assert!(host.operations() > before);
}
