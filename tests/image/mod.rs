//! Container images as machines: `--root oci:DIR[:TAG]` and `--root ARCHIVE[:TAG]`.

mod answers;
mod hostile;
mod layers;
mod nodes;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use cudarun::host::Host;
use cudarun::image::Image;
use sha2::{Digest, Sha256};

/// A tar archive, written by hand so that it can say anything.
#[derive(Clone, Default)]
pub struct Archive(pub Vec<u8>);

impl Archive {
    pub fn directory(self, path: &str) -> Archive {
        self.member(b'5', path, "", b"")
    }

    pub fn file(self, path: &str, text: impl AsRef<[u8]>) -> Archive {
        self.member(b'0', path, "", text.as_ref())
    }

    pub fn link(self, path: &str, target: &str) -> Archive {
        self.member(b'2', path, target, b"")
    }

    pub fn hard_link(self, path: &str, same: &str) -> Archive {
        self.member(b'1', path, same, b"")
    }

    pub fn member(self, kind: u8, path: &str, link: &str, contents: &[u8]) -> Archive {
        self.sized(kind, path, link, contents, contents.len() as u64)
    }

    /// A header that gives this size, whatever follows.
    pub fn sized(
        mut self,
        kind: u8,
        path: &str,
        link: &str,
        contents: &[u8],
        size: u64,
    ) -> Archive {
        let mut header = [0; 512];
        let mut put = |at: usize, bytes: &[u8]| header[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, path.as_bytes());
        put(
            100,
            if kind == b'5' {
                b"0000755\0"
            } else {
                b"0000644\0"
            },
        );
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, format!("{size:011o}\0").as_bytes());
        put(136, b"00000000001\0");
        put(148, b"        ");
        put(156, &[kind]);
        put(157, link.as_bytes());
        put(257, b"ustar\x0000");
        let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
        header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.0.extend_from_slice(&header);
        self.0.extend_from_slice(contents);
        self.0.resize(self.0.len().next_multiple_of(512), 0);
        self
    }

    pub fn end(mut self) -> Vec<u8> {
        self.0.resize(self.0.len() + 1024, 0);
        self.0
    }
}

/// An image as `docker save` writes it.
pub fn docker(layers: &[Vec<u8>], config: &str) -> Archive {
    let names: Vec<String> = (0..layers.len())
        .map(|number| format!("\"{number}/layer.tar\""))
        .collect();
    let manifest = format!(
        r#"[{{"Config":"c.json","RepoTags":["app:v1"],"Layers":[{}]}}]"#,
        names.join(",")
    );
    let all = Archive::default()
        .file("manifest.json", manifest)
        .file("c.json", config);
    layers.iter().enumerate().fold(all, |all, (number, layer)| {
        all.file(&format!("{number}/layer.tar"), layer)
    })
}

pub fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes)
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect()
}

/// An image in OCI's layout: the names of files and their contents.
pub fn oci(layers: &[Vec<u8>], config: &str) -> Vec<(String, Vec<u8>)> {
    let mut files = Vec::new();
    let mut blob = |bytes: &[u8]| {
        let digest = sha256(bytes);
        files.push((format!("blobs/sha256/{digest}"), bytes.to_vec()));
        format!(r#"{{"digest":"sha256:{digest}","size":{}}}"#, bytes.len())
    };
    let layers: Vec<String> = layers.iter().map(|layer| blob(layer)).collect();
    let config = blob(config.as_bytes());
    let manifest =
        blob(format!(r#"{{"config":{config},"layers":[{}]}}"#, layers.join(",")).as_bytes());
    let tagged = manifest.replace(
        '{',
        r#"{"annotations":{"org.opencontainers.image.ref.name":"v1"},"#,
    );
    files.push((
        "index.json".to_owned(),
        format!(r#"{{"manifests":[{tagged}]}}"#).into_bytes(),
    ));
    files
}

pub fn write(directory: &Path, files: &[(String, Vec<u8>)]) {
    for (name, bytes) in files {
        let path = directory.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

pub fn archive(files: &[(String, Vec<u8>)]) -> Vec<u8> {
    files
        .iter()
        .fold(Archive::default(), |all, (name, bytes)| {
            all.file(name, bytes)
        })
        .end()
}

/// The output of a program for these bytes.
pub fn through(program: &str, arguments: &[&str], bytes: &[u8]) -> Vec<u8> {
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(bytes).unwrap());
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success());
        output.stdout
    })
}

pub fn gzip(bytes: &[u8]) -> Vec<u8> {
    through("gzip", &["-c"], bytes)
}

/// Opens an image that is a file with these bytes. Its files stay open when the directory is gone.
pub fn open(bytes: &[u8]) -> Result<Host, String> {
    let place = tempfile::tempdir().unwrap();
    let file: PathBuf = place.path().join("image.tar");
    fs::write(&file, bytes).unwrap();
    open_in(place.path(), &file)
}

/// Opens an image with a cache in a directory.
pub fn open_in(place: &Path, image: &Path) -> Result<Host, String> {
    let mut here = Host::here();
    here.env.set("XDG_CACHE_HOME", place.join("cache"));
    Ok(Image::open(&here, image).map_err(|fault| fault.0)?.host())
}
