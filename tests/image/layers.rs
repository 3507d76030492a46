//! Layers over each other, and the forms of images.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cudarun::host::{FileKind, Host};

use super::{Archive, archive, docker, gzip, oci, open, open_in};

const CONFIG: &str =
    r#"{"config":{"Env":["PATH=/opt/bin:/bin","LD_LIBRARY_PATH=/opt/lib"],"WorkingDir":"/srv"}}"#;

fn image(layers: &[Archive]) -> Host {
    let layers: Vec<Vec<u8>> = layers.iter().map(|layer| layer.clone().end()).collect();
    let plain = open(&docker(&layers, CONFIG).end()).unwrap();
    let packed: Vec<Vec<u8>> = layers.iter().map(|layer| gzip(layer)).collect();
    let same = open(&docker(&packed, CONFIG).end()).unwrap();
    assert_eq!(
        files(&plain),
        files(&same),
        "compressed layers have the same files"
    );
    plain
}

/// Every file with its contents or its target.
fn files(host: &Host) -> Vec<(String, String)> {
    let paths = host.walk(Path::new("/"), &|_| false);
    let shown = |path: &Path| match host.lstat(path).unwrap().kind {
        FileKind::Link => format!("-> {}", host.read_link(path).unwrap().display()),
        FileKind::File => host.read_text(path).unwrap(),
        _ => "other".to_owned(),
    };
    paths
        .iter()
        .map(|path| (path.display().to_string(), shown(path)))
        .collect()
}

fn text(host: &Host, path: &str) -> Option<String> {
    host.read_text(Path::new(path)).ok()
}

#[test]
fn upper_layers_replace_and_remove_what_is_below() {
    let lower = Archive::default()
        .directory("./usr/")
        .directory("usr/lib")
        .file("usr/lib/a.so", "old a")
        .file("usr/lib/b.so", "old b")
        .file("usr/lib/c.so", "old c")
        .directory("opt/cuda")
        .file("opt/cuda/one", "1")
        .file("opt/cuda/two", "2")
        .file("opt/tools/new/old", "old")
        .link("lib", "usr/lib")
        .link("opt/latest", "/opt/cuda");
    let upper = Archive::default()
        .file("usr/lib/a.so", "new a")
        .file("usr/lib/.wh.b.so", "")
        .file("opt/cuda/three", "3")
        .file("opt/cuda/.wh..wh..opq", "")
        // Archives need not list the directories of their files.
        .file("opt/tools/new/four", "4")
        .file("opt/tools/.wh..wh..opq", "")
        // Written through the lower layer's link, as unpacking does.
        .file("lib/d.so", "d");
    let host = image(&[lower, upper]);
    assert_eq!(text(&host, "/usr/lib/a.so").as_deref(), Some("new a"));
    assert_eq!(
        text(&host, "/usr/lib/b.so"),
        None,
        "a whiteout removes a file"
    );
    assert_eq!(text(&host, "/usr/lib/c.so").as_deref(), Some("old c"));
    assert_eq!(text(&host, "/lib/d.so"), text(&host, "/usr/lib/d.so"));
    assert_eq!(text(&host, "/usr/lib/d.so").as_deref(), Some("d"));
    // An opaque directory keeps what its own layer brought, also before the mark.
    assert_eq!(text(&host, "/opt/latest/three").as_deref(), Some("3"));
    assert_eq!(text(&host, "/opt/cuda/one"), None);
    assert_eq!(text(&host, "/opt/tools/new/four").as_deref(), Some("4"));
    assert_eq!(text(&host, "/opt/tools/new/old"), None);
    let names = files(&host);
    assert!(
        !names.iter().any(|(name, _)| name.contains(".wh.")),
        "{names:?}"
    );
}

#[test]
fn a_directory_can_become_a_file_and_a_file_a_directory() {
    let lower = Archive::default()
        .directory("a")
        .file("a/inside", "1")
        .file("b", "2");
    let upper = Archive::default()
        .file("a", "now a file")
        .directory("b")
        .file("b/inside", "3");
    let host = image(&[lower, upper]);
    assert_eq!(text(&host, "/a").as_deref(), Some("now a file"));
    assert_eq!(text(&host, "/b/inside").as_deref(), Some("3"));
    let removed = image(&[
        Archive::default()
            .directory("a")
            .file("a/inside", "1")
            .file("keep", "1"),
        Archive::default().file(".wh.a", ""),
        Archive::default().directory("a").file("a/new", "2"),
    ]);
    assert_eq!(
        files(&removed),
        [
            ("/a/new".to_owned(), "2".to_owned()),
            ("/keep".to_owned(), "1".to_owned())
        ]
    );
}

#[test]
fn hard_links_are_one_file_with_two_names() {
    let lower = Archive::default()
        .file("usr/lib/a.so", "contents")
        .hard_link("opt/b.so", "usr/lib/a.so");
    let upper = Archive::default()
        .hard_link("srv/c.so", "./usr/lib/a.so")
        .file("usr/lib/.wh.a.so", "");
    let host = image(&[lower, upper]);
    let id = |path: &str| host.lstat(Path::new(path)).unwrap().id;
    assert_eq!(id("/opt/b.so"), id("/srv/c.so"));
    assert_eq!(text(&host, "/srv/c.so").as_deref(), Some("contents"));
    assert_eq!(text(&host, "/usr/lib/a.so"), None);
}

#[test]
fn a_hard_link_to_a_lower_file_belongs_to_its_layer() {
    let lower = Archive::default()
        .file("data/a.so", "contents")
        .file("opt/old", "old");
    let links = Archive::default().hard_link("opt/b.so", "data/a.so");
    for host in [
        image(&[lower.clone(), links.clone().file("opt/.wh..wh..opq", "")]),
        image(&[
            lower.clone(),
            links
                .clone()
                .file("opt/.wh.b.so", "")
                .file("opt/.wh.old", ""),
        ]),
        image(&[
            lower.clone(),
            links.clone().file(".wh.data", "").file("opt/.wh.old", ""),
        ]),
    ] {
        assert_eq!(text(&host, "/opt/b.so").as_deref(), Some("contents"));
        assert_eq!(text(&host, "/opt/old"), None);
    }
    // The control: a whiteout of the next layer removes it.
    let host = image(&[lower, links, Archive::default().file("opt/.wh.b.so", "")]);
    assert_eq!(text(&host, "/opt/b.so"), None);
}

#[test]
fn marks_that_are_repeated_cost_nothing() {
    let begin = std::time::Instant::now();
    let files = (0..8_000).fold(Archive::default(), |all, number| {
        all.file(&format!("opt/{number}"), "")
    });
    let marks = (0..8_000).fold(files, |all, _| all.file("opt/.wh..wh..opq", ""));
    let lower = Archive::default().file("opt/old", "").end();
    let host = open(&docker(&[lower, marks.end()], CONFIG).end()).unwrap();
    assert_eq!(host.list(Path::new("/opt")).unwrap().len(), 8_000);
    assert!(
        begin.elapsed().as_secs() < 15,
        "each mark looks at each file: {:?}",
        begin.elapsed()
    );
}

#[test]
fn equal_layers_are_unpacked_once() {
    let empty = gzip(&Archive::default().directory("tmp").end());
    let mut layers = vec![empty; 20];
    layers.push(gzip(&Archive::default().file("usr/a", "a").end()));
    for image in [
        docker(&layers, CONFIG).end(),
        archive(&oci(&layers, CONFIG)),
    ] {
        let place = tempfile::tempdir().unwrap();
        fs::write(place.path().join("image.tar"), image).unwrap();
        let host = open_in(place.path(), &place.path().join("image.tar")).unwrap();
        assert_eq!(text(&host, "/usr/a").as_deref(), Some("a"));
    }
    let place = tempfile::tempdir().unwrap();
    fs::write(
        place.path().join("image.tar"),
        archive(&oci(&layers, CONFIG)),
    )
    .unwrap();
    open_in(place.path(), &place.path().join("image.tar")).unwrap();
    assert_eq!(kept(place.path()).len(), 2);
    let too_many = docker(&vec![Archive::default().end(); 257], CONFIG).end();
    assert!(
        open(&too_many)
            .err()
            .unwrap()
            .contains("more than 256 layers")
    );
}

/// The files of a cache for layers.
fn kept(place: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(place.join("cache/cudarun/layers")).unwrap();
    files.map(|file| file.unwrap().path()).collect()
}

#[test]
fn an_unpacked_layer_is_kept_while_it_is_used() {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image.tar");
    // A list of more than 64 MiB.
    let long = "a".repeat(4000);
    let many = (0..17_000).fold(Archive::default(), |all, number| {
        all.member(b'L', "long", "", format!("{long}{number}").as_bytes())
            .file("short", "")
    });
    let layers = [
        many.file("usr/a", "a").end(),
        Archive::default().file("usr/b", "b").end(),
    ];
    fs::write(
        &image,
        docker(&layers.map(|layer| gzip(&layer)), CONFIG).end(),
    )
    .unwrap();
    open_in(place.path(), &image).unwrap();
    let inodes = |files: &[PathBuf]| -> Vec<u64> {
        files
            .iter()
            .map(|file| fs::metadata(file).unwrap().ino())
            .collect()
    };
    let files = kept(place.path());
    let before = inodes(&files);
    let long_ago = SystemTime::now() - Duration::from_hours(24 * 40);
    let other = files[0].with_file_name(format!("{}.layer", "0".repeat(64)));
    fs::write(&other, "of another image").unwrap();
    for file in files.iter().chain([&other]) {
        fs::File::open(file)
            .unwrap()
            .set_modified(long_ago)
            .unwrap();
    }
    let host = open_in(place.path(), &image).unwrap();
    assert!(!other.exists(), "another image's layer is old");
    assert_eq!(
        inodes(&files),
        before,
        "the image's own layers are not unpacked again"
    );
    // An image that is replaced, and a cache that is removed, change nothing.
    fs::remove_dir_all(place.path().join("cache")).unwrap();
    assert_eq!(text(&host, "/usr/b").as_deref(), Some("b"));
    let plain = |text: &str| docker(&[Archive::default().file("usr/a", text).end()], CONFIG).end();
    fs::write(&image, plain("old")).unwrap();
    let host = open_in(place.path(), &image).unwrap();
    fs::write(place.path().join("new.tar"), plain("new")).unwrap();
    fs::rename(place.path().join("new.tar"), &image).unwrap();
    assert_eq!(text(&host, "/usr/a").as_deref(), Some("old"));
    assert_eq!(
        text(&open_in(place.path(), &image).unwrap(), "/usr/a").as_deref(),
        Some("new")
    );
}

#[test]
fn a_damaged_file_of_the_cache_is_made_again() {
    let place = tempfile::tempdir().unwrap();
    let image = place.path().join("image.tar");
    fs::write(
        &image,
        docker(
            &[gzip(&Archive::default().file("usr/a", "a").end())],
            CONFIG,
        )
        .end(),
    )
    .unwrap();
    open_in(place.path(), &image).unwrap();
    let whole = fs::read(&kept(place.path())[0]).unwrap();
    for damaged in [
        &whole[..whole.len() - 1],
        &whole[..3],
        &[&whole[..], b"more than that"].concat(),
        b"",
    ] {
        fs::write(&kept(place.path())[0], damaged).unwrap();
        assert_eq!(
            text(&open_in(place.path(), &image).unwrap(), "/usr/a").as_deref(),
            Some("a")
        );
        assert_eq!(fs::read(&kept(place.path())[0]).unwrap(), whole);
    }
}

#[test]
fn contents_of_other_kinds_of_files_are_skipped() {
    let layer = Archive::default()
        .file("usr/a", "a")
        .member(b'M', "more", "", &[b'm'; 600])
        .member(b'x', "PaxHeaders/b", "", b"12 uid=1000\n")
        .member(b'1', "usr/b", "usr/a", b"a")
        .member(b'X', "PaxHeaders/c", "", b"14 path=usr/c\n")
        .file("short", "c")
        // Older archives repeat the size, and nothing follows.
        .sized(b'1', "usr/d", "usr/a", b"", 1)
        .sized(b'5', "usr/e", "", b"", 4096)
        .sized(b'2', "usr/f", "a", b"", 1)
        .file("usr/end", "end");
    let host = image(&[layer]);
    for (path, expected) in [
        ("b", "a"),
        ("c", "c"),
        ("d", "a"),
        ("f", "a"),
        ("end", "end"),
    ] {
        assert_eq!(
            text(&host, &format!("/usr/{path}")).as_deref(),
            Some(expected),
            "{path}"
        );
    }
}

#[test]
fn long_names_and_extended_headers_are_read() {
    let deep = format!("{}/name", "directory".repeat(20));
    let record = |key: &str, value: &str| {
        let without = key.len() + value.len() + 3;
        let length = (0..1000)
            .find(|length: &usize| length.to_string().len() + without == *length)
            .unwrap();
        format!("{length} {key}={value}\n")
    };
    let layer = Archive::default()
        .member(b'L', "././@LongLink", "", format!("{deep}\0").as_bytes())
        .file("short", "by GNU")
        .member(
            b'x',
            "PaxHeaders/a",
            "",
            record("path", &format!("pax/{deep}")).as_bytes(),
        )
        .file("short", "by POSIX")
        .member(
            b'x',
            "PaxHeaders/b",
            "",
            record("SCHILY.xattr.security.capability", "x").as_bytes(),
        )
        .file("bin/ping", "p")
        .member(
            b'g',
            "pax_global_header",
            "",
            record("comment", "c0ffee").as_bytes(),
        )
        .file("bin/plain", "q");
    let host = image(&[layer]);
    assert_eq!(text(&host, &format!("/{deep}")).as_deref(), Some("by GNU"));
    assert_eq!(
        text(&host, &format!("/pax/{deep}")).as_deref(),
        Some("by POSIX")
    );
    assert!(host.has_capabilities(Path::new("/bin/ping")));
    assert!(!host.has_capabilities(Path::new("/bin/plain")));
}

#[test]
fn devices_and_fifos_are_there_and_never_read() {
    let layer = Archive::default()
        .member(b'3', "dev/nvidia0", "", b"")
        .member(b'6', "tmp/fifo", "", b"")
        .file("a", "a");
    let host = image(&[layer]);
    for path in ["/dev/nvidia0", "/tmp/fifo"] {
        assert_eq!(host.lstat(Path::new(path)).unwrap().kind, FileKind::Other);
        assert!(host.read(Path::new(path)).is_err());
    }
    assert_eq!(text(&host, "/a").as_deref(), Some("a"));
}

#[test]
fn a_configuration_gives_the_environment_and_the_directory() {
    let host = image(&[Archive::default().file("etc/passwd", "")]);
    assert_eq!(host.env.get("LD_LIBRARY_PATH").unwrap(), "/opt/lib");
    assert_eq!(host.env.get("PATH").unwrap(), "/opt/bin:/bin");
    assert_eq!(host.cwd, Path::new("/srv"));
    let host = open(
        &docker(
            &[Archive::default().file("etc/passwd", "").end()],
            r#"{"config":null}"#,
        )
        .end(),
    );
    assert!(host.is_err(), "a configuration is an object or missing");
    let host =
        open(&docker(&[Archive::default().file("etc/passwd", "").end()], "{}").end()).unwrap();
    assert_eq!(
        (host.cwd.as_path(), host.env.get("HOME").unwrap()),
        (Path::new("/"), "/root".as_ref())
    );
    // `docker export`
    let host = open(&Archive::default().file("etc/passwd", "root").end()).unwrap();
    assert_eq!(text(&host, "/etc/passwd").as_deref(), Some("root"));
}

#[test]
fn large_files_without_code_are_not_kept() {
    let zeros = vec![0; 17 << 20];
    let mut library = b"\x7fELF".to_vec();
    library.resize(17 << 20, 1);
    let layer = Archive::default()
        .file("weights.bin", &zeros)
        .file("lib/large.so", &library)
        .file("end", "end");
    let host = open(&docker(&[gzip(&layer.clone().end())], "{}").end()).unwrap();
    assert_eq!(host.stat(Path::new("/weights.bin")).unwrap().size, 17 << 20);
    assert!(host.map(Path::new("/weights.bin")).is_err());
    assert_eq!(
        &host.map(Path::new("/lib/large.so")).unwrap()[..],
        &library[..]
    );
    assert_eq!(text(&host, "/end").as_deref(), Some("end"));
    // An archive of files keeps no more when it is compressed; one of an image keeps its layers.
    let place = tempfile::tempdir().unwrap();
    fs::write(
        place.path().join("files"),
        gzip(&layer.clone().file("usr/a", "a").end()),
    )
    .unwrap();
    let host = open_in(place.path(), &place.path().join("files")).unwrap();
    assert!(host.map(Path::new("/weights.bin")).is_err());
    let sizes = kept(place.path())
        .iter()
        .map(|file| fs::metadata(file).unwrap().len())
        .sum::<u64>();
    assert!(sizes < 18 << 20, "{sizes}");
    assert_eq!(
        &host.map(Path::new("/lib/large.so")).unwrap()[..],
        &library[..]
    );
    for inner in [layer.clone().end(), gzip(&layer.end())] {
        let host = open(&gzip(&docker(&[inner], "{}").end())).unwrap();
        assert_eq!(
            &host.map(Path::new("/lib/large.so")).unwrap()[..],
            &library[..]
        );
    }
}
