//! Archives of strangers: each is refused with words, or does no harm, and nothing is written outside the cache.

use std::fs;
use std::io::Write;
use std::path::Path;

use super::{Archive, archive, docker, gzip, oci, open, sha256, through, write};
use crate::support::{Run, Workshop};

#[track_caller]
fn refused(bytes: &[u8], why: &str) {
    match open(bytes) {
        Ok(_) => panic!("it was opened: {why}"),
        Err(said) => assert!(said.contains(why), "{said}"),
    }
}

fn layer(layer: Archive) -> Vec<u8> {
    docker(&[layer.end()], "{}").end()
}

#[test]
fn names_that_lead_out_are_refused() {
    refused(
        &layer(Archive::default().file("../../etc/cron.d/x", "x")),
        "leads out of the image",
    );
    refused(
        &layer(Archive::default().file("a/../../x", "x")),
        "leads out of the image",
    );
    refused(
        &layer(
            Archive::default()
                .file("a", "x")
                .hard_link("b", "../../etc/shadow"),
        ),
        "leads out of the image",
    );
    refused(
        &layer(
            Archive::default()
                .file(&format!("{}x", "a/".repeat(45)), "x")
                .member(b'L', "l", "", "a/".repeat(300).as_bytes())
                .file("x", ""),
        ),
        "too many parts",
    );
    // The neighbours: an absolute name is one of the image, and a link may say what it wants.
    let host = open(&layer(
        Archive::default()
            .file("/etc/a", "inside")
            .link("b", "../../../../etc/a")
            .link("c", "/etc/a"),
    ))
    .unwrap();
    for path in ["/etc/a", "/b", "/c"] {
        assert_eq!(host.read_text(Path::new(path)).unwrap(), "inside");
    }
}

/// What is beside the layers of an image is no part of it.
#[test]
fn a_strange_member_beside_the_layers_is_skipped() {
    let layer = Archive::default().file("etc/a", "inside").end();
    let image = docker(&[layer], "{}")
        .hard_link("b", "missing")
        .file("../x", "x")
        .file("c.json/x", "x");
    let host = open(&image.end()).unwrap();
    assert_eq!(host.read_text(Path::new("/etc/a")).unwrap(), "inside");
    // The files of a container are all parts of it.
    let container = Archive::default().file("etc/a", "a").file("../x", "x");
    refused(&container.end(), "leads out of the image");
}

#[test]
fn links_in_circles_end() {
    let host = open(&layer(
        Archive::default()
            .link("a", "b")
            .link("b", "a")
            .file("c", "c"),
    ))
    .unwrap();
    assert!(host.read(Path::new("/a")).is_err());
    refused(
        &layer(
            Archive::default()
                .link("a", "b")
                .link("b", "a")
                .file("a/inside", "x"),
        ),
        "levels of symbolic links",
    );
    refused(
        &layer(Archive::default().file("a", "x").file("a/inside", "x")),
        "ot a directory",
    );
    refused(
        &layer(Archive::default().hard_link("a", "missing")),
        "hard link",
    );
    refused(
        &layer(Archive::default().directory("a").hard_link("b", "a")),
        "hard link",
    );
}

#[test]
fn headers_that_lie_are_refused() {
    refused(
        &layer(Archive::default().sized(b'0', "a", "", b"short", 1 << 30)),
        "end of file",
    );
    refused(
        &layer(Archive::default().sized(b'x', "a", "", b"", 8 << 30)),
        "more than a megabyte",
    );
    refused(
        &layer(Archive::default().sized(b'L', "a", "", b"", 2 << 20)),
        "more than a megabyte",
    );
    refused(
        &layer(
            Archive::default()
                .member(b'x', "a", "", b"99 path=b\n")
                .file("a", "a"),
        ),
        "record is damaged",
    );
    refused(
        &layer(Archive::default().member(b'S', "a", "", b"x")),
        "holes",
    );
    refused(
        &layer(
            Archive::default()
                .member(b'x', "a", "", b"23 GNU.sparse.offset=0\n")
                .file("a", "a"),
        ),
        "holes",
    );
    let long = |length: usize| {
        Archive::default().member(b'L', "l", "", "a/".repeat(length / 2).as_bytes())
    };
    refused(
        &layer(long(5000).file("a", "a")),
        "path of more than 4,096 bytes",
    );
    refused(
        &layer(
            long(200)
                .member(b'K', "l", "", &[b'a'; 5000])
                .link("a", "a"),
        ),
        "path of more than 4,096 bytes",
    );
    assert!(
        open(&layer(
            long(200)
                .member(b'K', "l", "", &[b'a'; 4000])
                .link("a", "a")
        ))
        .is_ok()
    );
    let mut wrong = Archive::default().file("a", "a").file("b", "b");
    wrong.0[1024] = b'c';
    refused(&layer(wrong), "sum of a header");
    let whole = layer(Archive::default().file("usr/a", vec![7; 4000]));
    for end in [1, 511, 512, 700, 1500, 2600, 3100] {
        assert!(open(&whole[..end]).is_err(), "cut after {end} bytes");
    }
}

#[test]
fn other_files_are_refused() {
    refused(b"", "neither an image nor");
    refused(
        b"just a text that is shorter than a header",
        "not a tar archive",
    );
    refused(&[b'x'; 4096], "not a tar archive");
    refused(&gzip(&[b'x'; 4096]), "not a tar archive");
    refused(
        &fs::read(std::env::current_exe().unwrap()).unwrap()[..65536],
        "not a tar archive",
    );
    refused(
        &Archive::default().file("notes.txt", "x").end(),
        "neither an image nor",
    );
    refused(
        &Archive::default().file("manifest.json", "{").end(),
        "`manifest.json`",
    );
    refused(
        &Archive::default().file("manifest.json", "[]").end(),
        "no image",
    );
    refused(
        &Archive::default()
            .file("manifest.json", r#"[{"Config":"c","Layers":["../../x"]}]"#)
            .file("c", "{}")
            .end(),
        "layer `../../x` is missing",
    );
    refused(
        &Archive::default()
            .file(
                "index.json",
                r#"{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}"#,
            )
            .end(),
        "is no digest",
    );
    refused(&gzip(b"")[..12], "end of file");
    refused(b"\xfd7zXZ\0 and more", "xz");
    refused(
        b"\x28\xb5\x2f\xfd\xff\xff\xff\xff\xff\xff\xff\xff",
        "damaged",
    );
}

#[test]
fn missing_and_changed_layers_are_named() {
    let contents = gzip(&Archive::default().file("usr/a", "a").end());
    let files = oci(std::slice::from_ref(&contents), "{}");
    let name = format!("blobs/sha256/{}", sha256(&contents));
    assert!(open(&archive(&files)).is_ok());
    let without: Vec<_> = files
        .iter()
        .filter(|(file, _)| *file != name)
        .cloned()
        .collect();
    refused(
        &archive(&without),
        &format!("layer sha256:{} is missing", sha256(&contents)),
    );
    // The cache is named by digests, so a layer must be what its digest says. Documents must be, too.
    let layer = gzip(&Archive::default().file("usr/a", "b").end());
    for (number, other) in [
        (0, layer),
        (1, b"{ }".to_vec()),
        (2, [&files[2].1, &b" "[..]].concat()),
    ] {
        let mut changed = files.clone();
        changed[number].1 = other;
        refused(&archive(&changed), "not those of its digest");
    }
    let index = String::from_utf8(files[3].1.clone()).unwrap();
    let other = [(
        files[3].0.clone(),
        index.replace("sha256:", "sha512:").into_bytes(),
    )];
    refused(
        &archive(&[&files[..3], &other].concat()),
        "is no digest by SHA-256",
    );
}

#[test]
fn a_layout_leads_to_no_other_file() {
    let place = Workshop::new();
    let files = oci(&[Archive::default().file("usr/a", "secret").end()], "{}");
    write(&place.path("layout"), &files);
    let root = format!("oci:{}", place.path("layout").display());
    // A link starts at the layout, as it would at the root of a machine.
    for (directory, link, status) in [
        ("layout/inside", "/inside/moved", 1),
        ("outside", "", 2),
        ("layout-beside", "", 2),
        ("outside", "UP/outside/moved", 2),
    ] {
        fs::create_dir_all(place.path(directory)).unwrap();
        let moved = place.path(directory).join("moved");
        for (name, _) in &files {
            let file = place.path("layout").join(name);
            fs::rename(&file, &moved).unwrap();
            let up = ["..", "../../.."][usize::from(name.contains('/'))];
            let target = match link {
                "" => moved.clone(),
                link => link.replace("UP", up).into(),
            };
            std::os::unix::fs::symlink(target, &file).unwrap();
            let said = Run::new(["--root", &root, "list"])
                .status(status)
                .output_of_both();
            assert_eq!(said.contains("is missing"), status == 2, "{name}: {said}");
            fs::rename(&moved, &file).unwrap();
        }
    }
}

#[test]
fn a_layer_cannot_name_a_file_of_the_cache() {
    let contents = gzip(&Archive::default().file("usr/a", "a").end());
    for name in [
        "blobs/sha256/../../evil",
        "blobs/sha256/x",
        "blobs/sha256/\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}\u{e4}",
    ] {
        let place = Workshop::new();
        let file = name.replace("blobs/sha256/../../", "");
        let manifest = format!(r#"[{{"Config":"c.json","Layers":["{name}"]}}]"#);
        let image = Archive::default()
            .file("manifest.json", manifest)
            .file("c.json", "{}")
            .directory("blobs/sha256")
            .file(&file, &contents)
            .end();
        fs::write(place.path("image.tar"), image).unwrap();
        let cache = place.path("below/cache");
        let root = place.path("image.tar").display().to_string();
        Run::new(["--root", &root, "list"])
            .env("XDG_CACHE_HOME", &cache)
            .any_stdout()
            .status(1)
            .check();
        let evil = walkdir::WalkDir::new(place.path("")).into_iter().flatten();
        assert!(
            !evil
                .into_iter()
                .any(|entry| entry.file_name().to_string_lossy().starts_with("evil")),
            "{name}"
        );
    }
}

#[test]
fn several_images_need_a_tag() {
    let place = Workshop::new();
    let one = oci(&[Archive::default().file("usr/a", "a").end()], "{}");
    let index = String::from_utf8(
        one.iter()
            .find(|(name, _)| name == "index.json")
            .unwrap()
            .1
            .clone(),
    )
    .unwrap();
    let entry = index
        .trim_start_matches(r#"{"manifests":["#)
        .trim_end_matches("]}")
        .to_owned();
    write(&place.path("lay:out"), &one);
    fs::write(
        place.path("lay:out/index.json"),
        format!(r#"{{"manifests":[{entry},{}]}}"#, entry.replace("v1", "v2")),
    )
    .unwrap();
    let root = |tag: &str| format!("oci:{}{tag}", place.path("lay:out").display());
    let refused = |tag: &str, why: &str| {
        Run::new(["--root", &root(tag), "list"])
            .status(2)
            .stderr_contains(&[why])
            .check();
    };
    refused("", "several images; add `:TAG`, one of v1, v2");
    refused(":v3", "no image `v3`, but v1, v2");
    Run::new(["--root", &root(":v2"), "list"])
        .any_stdout()
        .status(1)
        .check();
    // One tag for several platforms: that of this machine.
    let own = if cfg!(target_arch = "aarch64") {
        "arm64"
    } else {
        "amd64"
    };
    let index = |entries: &[(&str, &str)]| {
        let entry = |(architecture, tag): &(&str, &str)| {
            let platform =
                format!(r#"{{"platform":{{"architecture":"{architecture}","os":"linux"}},"#);
            entry.replacen('{', &platform, 1).replace("v1", tag)
        };
        let entries: Vec<String> = entries.iter().map(entry).collect();
        fs::write(
            place.path("lay:out/index.json"),
            format!(r#"{{"manifests":[{}]}}"#, entries.join(",")),
        )
        .unwrap();
    };
    index(&[("riscv64", "v1"), (own, "v1")]);
    for tag in ["", ":v1"] {
        Run::new(["--root", &root(tag), "list"])
            .any_stdout()
            .status(1)
            .check();
    }
    index(&[("riscv64", "v1"), ("s390x", "v1")]);
    refused(":v1", "several images that no tag tells apart");
    let unnamed = fs::read_to_string(place.path("lay:out/index.json"))
        .unwrap()
        .replace("ref.name", "other");
    fs::write(place.path("lay:out/index.json"), unnamed).unwrap();
    refused("", "several images that no tag tells apart");
}

#[test]
fn an_image_is_found_by_the_end_of_its_name() {
    let place = Workshop::new();
    let contents = |name: &str| Archive::default().file("usr/a", name).end();
    let names = [
        "docker.io/library/train:v1",
        "docker.io/lab/serve:v1",
        "serve:v1",
    ];
    let manifests: Vec<String> = names
        .iter()
        .enumerate()
        .map(|(number, name)| {
            format!(r#"{{"Config":"c","RepoTags":["{name}"],"Layers":["{number}"]}}"#)
        })
        .collect();
    let all = Archive::default()
        .file("manifest.json", format!("[{}]", manifests.join(",")))
        .file("c", "{}");
    let all = names.iter().enumerate().fold(all, |all, (number, name)| {
        all.file(&number.to_string(), contents(name))
    });
    let file = place.path("image.tar");
    fs::write(&file, all.end()).unwrap();
    let found = |tag: &str| {
        let host = super::open_in(
            &place.path(""),
            Path::new(&format!("{}:{tag}", file.display())),
        );
        host.map(|host| host.read_text(Path::new("/usr/a")).unwrap())
    };
    assert_eq!(found("train:v1").unwrap(), names[0]);
    assert_eq!(found("library/train:v1").unwrap(), names[0]);
    assert_eq!(found(names[0]).unwrap(), names[0]);
    assert_eq!(
        found("serve:v1").unwrap(),
        names[2],
        "the whole name comes first"
    );
    assert_eq!(found("lab/serve:v1").unwrap(), names[1]);
    assert!(
        found("rain:v1")
            .unwrap_err()
            .contains("it has no image `rain:v1`")
    );
    assert!(found("v1").unwrap_err().contains("several images"));
}

#[test]
fn bombs_end() {
    // Gigabytes of zeros in a few megabytes: one file of 16 MB, again and again.
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("bomb.tar.gz");
    let one = gzip(&Archive::default().file("usr/zeros", vec![0; 16 << 20]).0);
    fs::write(&file, one.repeat(100)).unwrap();
    let cache = place.path().join("cache");
    Run::new(["--root".as_ref(), file.as_os_str(), "list".as_ref()])
        .env("XDG_CACHE_HOME", &cache)
        .status(2)
        .stderr_contains(&["unpacks to far more than it is"])
        .check();
    let left: u64 = walkdir::WalkDir::new(&cache)
        .into_iter()
        .flatten()
        .filter_map(|entry| entry.metadata().ok().filter(std::fs::Metadata::is_file))
        .map(|stat| stat.len())
        .sum();
    assert_eq!(left, 0, "nothing of it is left");
    // Layers of one image share the limit.
    let layers =
        ["a", "b"].map(|name| gzip(&Archive::default().file(name, vec![0; 17 << 20]).0).repeat(38));
    refused(
        &docker(&layers, "{}").end(),
        "unpacks to far more than it is",
    );
    assert!(open(&docker(&layers[..1], "{}").end()).is_ok());
    // Names are in memory. A list of 68 MB is read in another test.
    let one = Archive::default()
        .member(b'L', "l", "", &[b'a'; 4090])
        .file("a", "");
    refused(&one.0.repeat(33_000), "too many files");
}

#[test]
fn zstandard_frames_follow_each_other() {
    if crate::support::lacks("zstd") {
        return crate::support::skipped("no zstd");
    }
    let bytes = docker(
        &[Archive::default()
            .file("usr/a", "first")
            .file("usr/b", "second")
            .end()],
        "{}",
    )
    .end();
    let (one, two) = bytes.split_at(1000);
    let mut packed = through("zstd", &["-c"], one);
    // A frame without data.
    packed.write_all(b"\x50\x2a\x4d\x18\x03\0\0\0abc").unwrap();
    packed.extend(through("zstd", &["-c"], two));
    let host = open(&packed).unwrap();
    assert_eq!(host.read_text(Path::new("/usr/b")).unwrap(), "second");
}

#[test]
fn names_of_strangers_are_shown_safely() {
    let place = Workshop::new();
    let file = place.path("image.tar");
    fs::write(
        &file,
        layer(Archive::default().file("../\x1b[31mred\nline", "x")),
    )
    .unwrap();
    let said = Run::new(["--root".as_ref(), file.as_os_str(), "list".as_ref()])
        .status(2)
        .any_stderr()
        .output_of_both();
    assert!(!said.contains('\x1b') && said.contains("red"), "{said:?}");
}
