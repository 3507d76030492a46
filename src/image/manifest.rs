//! The parts of an image: OCI's layout in a directory or an archive, and Docker's archive.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::path::Path;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::index::Blob;
use crate::host::{FilePart, Host};
use crate::storage;

/// Manifests, lists of manifests and configurations are smaller.
const DOCUMENT: u64 = 16 << 20;
/// Lists of manifests in lists.
const DEPTH: usize = 4;
/// The name of an image in an index, by OCI's tools and by containerd.
const NAMES: [&str; 2] = [
    "org.opencontainers.image.ref.name",
    "io.containerd.image.name",
];

/// The layers of an image from the lowest up, and what its configuration says.
pub(super) struct Parts {
    pub layers: Vec<ImageLayer>,
    pub config: ImageConfig,
}

pub(super) struct ImageLayer {
    pub blob: Blob,
    /// Its name in the image.
    pub name: String,
}

#[derive(Default, Deserialize)]
pub(super) struct ImageConfig {
    pub os: Option<String>,
    pub architecture: Option<String>,
    #[serde(default, rename = "config")]
    pub start: Execution,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Execution {
    /// Docker writes null for an empty list.
    pub env: Option<Vec<String>>,
    pub working_dir: Option<String>,
}

/// The files that an image consists of, as those of a machine: no link leads out.
pub(super) struct ImageLayout {
    pub host: Host,
    /// The name of the archive in the cache; empty for a directory.
    pub archive: String,
}

#[derive(Deserialize)]
struct OciIndex {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<ImagePlatform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct ImagePlatform {
    architecture: String,
    os: String,
}

/// A manifest has a configuration and layers, a list has manifests.
#[derive(Deserialize)]
struct ImageManifest {
    config: Option<Descriptor>,
    #[serde(default)]
    layers: Vec<Descriptor>,
    #[serde(default)]
    manifests: Vec<Descriptor>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct DockerImage {
    config: String,
    #[serde(default)]
    repo_tags: Option<Vec<String>>,
    layers: Vec<String>,
}

impl ImageLayout {
    fn has(&self, name: &str) -> bool {
        self.host.is_file(Path::new(name))
    }

    /// Opens a file. An error follows its name in a sentence.
    fn blob(&self, name: &str) -> Result<Blob, String> {
        let (part, size) = self
            .host
            .open(Path::new(name))
            .map_err(|error| match error.kind() {
                ErrorKind::NotFound => "is missing".to_owned(),
                _ => format!("cannot be read: {error}"),
            })?;
        let digits = name
            .strip_prefix("blobs/sha256/")
            .filter(|digits| is_sha256(digits));
        let blob_name = match digits {
            Some(digits) => digits.to_owned(),
            None => storage::full_digest([self.archive.as_bytes(), &part.start.to_le_bytes()]),
        };
        Ok(Blob {
            name: blob_name,
            is_digest: digits.is_some(),
            part: FilePart {
                end: part.start + size,
                ..part
            },
        })
    }

    fn document<T: DeserializeOwned>(&self, name: &str) -> io::Result<T> {
        let blob = self
            .blob(name)
            .map_err(|why| io::Error::other(format!("`{name}` {why}")))?;
        if blob.part.size() > DOCUMENT {
            return Err(io::Error::other(format!("`{name}` is too large")));
        }
        let document = blob
            .bytes()
            .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?));
        document.map_err(|error| io::Error::other(format!("`{name}`: {error}")))
    }

    /// Finds the image with a tag, or the only one.
    pub(super) fn parts(&self, tag: Option<&str>) -> io::Result<Parts> {
        // Docker's own archives have both.
        if self.archive.is_empty() || self.has("index.json") {
            self.oci(tag)
        } else {
            self.docker(tag)
        }
    }

    fn oci(&self, tag: Option<&str>) -> io::Result<Parts> {
        let index: OciIndex = self.document("index.json")?;
        let names = |one: &Descriptor| -> Vec<String> {
            NAMES
                .iter()
                .filter_map(|name| one.annotations.get(*name).cloned())
                .collect()
        };
        let named: Vec<Vec<String>> = index.manifests.iter().map(names).collect();
        let chosen = choose(&index.manifests, &named, tag, Descriptor::is_own)?;
        let manifest = self.manifest(chosen, DEPTH)?;
        let config = manifest
            .config
            .ok_or_else(|| io::Error::other("its manifest names no configuration"))?;
        let layers: io::Result<Vec<ImageLayer>> = manifest
            .layers
            .iter()
            .map(|one| self.layer(&one.digest, &file_of(&one.digest)?))
            .collect();
        Ok(Parts {
            layers: layers?,
            config: self.document(&file_of(&config.digest)?)?,
        })
    }

    /// Follows lists to the manifest for this processor, or the only one.
    fn manifest(&self, of: &Descriptor, depth: usize) -> io::Result<ImageManifest> {
        let manifest: ImageManifest = self.document(&file_of(&of.digest)?)?;
        if manifest.manifests.is_empty() || depth == 0 {
            return Ok(manifest);
        }
        let is_here = |one: &&Descriptor| file_of(&one.digest).is_ok_and(|file| self.has(&file));
        // Beside images, lists have attestations, for an unknown platform.
        let is_known = |one: &&Descriptor| {
            one.platform
                .as_ref()
                .is_none_or(|platform| platform.os == "linux")
        };
        let here: Vec<&Descriptor> = manifest
            .manifests
            .iter()
            .filter(is_known)
            .filter(is_here)
            .collect();
        let next = here.iter().find(|one| one.is_own()).or(here.first());
        let next =
            next.ok_or_else(|| io::Error::other("none of the images in its list is here"))?;
        self.manifest(next, depth - 1)
    }

    fn layer(&self, name: &str, file: &str) -> io::Result<ImageLayer> {
        let blob = self.blob(file);
        let blob = blob.map_err(|why| io::Error::other(format!("its layer {name} {why}")))?;
        Ok(ImageLayer {
            blob,
            name: name.to_owned(),
        })
    }

    fn docker(&self, tag: Option<&str>) -> io::Result<Parts> {
        let images: Vec<DockerImage> = self.document("manifest.json")?;
        let named: Vec<Vec<String>> = images
            .iter()
            .map(|image| image.repo_tags.clone().unwrap_or_default())
            .collect();
        let chosen = choose(&images, &named, tag, |_| true)?;
        let layers: io::Result<Vec<ImageLayer>> = chosen
            .layers
            .iter()
            .map(|name| self.layer(&format!("`{name}`"), name))
            .collect();
        Ok(Parts {
            layers: layers?,
            config: self.document(&chosen.config)?,
        })
    }
}

/// The name of this processor in images.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") {
    "arm64"
} else {
    "amd64"
};

impl Descriptor {
    fn is_own(&self) -> bool {
        let platform = self.platform.as_ref();
        platform
            .is_some_and(|platform| platform.os == "linux" && platform.architecture == ARCHITECTURE)
    }
}

/// Chooses the image with a tag or the end of a name, or the only one, if possible for this platform.
fn choose<'a, T>(
    images: &'a [T],
    names: &[Vec<String>],
    tag: Option<&str>,
    is_own: impl Fn(&T) -> bool,
) -> io::Result<&'a T> {
    let mut known = names.concat();
    known.sort();
    known.dedup();
    // The whole name counts more than its end, and that more than the platform.
    let rank = |image: &T, own: &[String]| {
        let Some(tag) = tag else {
            return Some((true, is_own(image)));
        };
        let before = own.iter().filter_map(|name| name.strip_suffix(tag));
        let ends = before.filter(|before| before.is_empty() || before.ends_with([':', '/']));
        ends.map(|before| (before.is_empty(), is_own(image))).max()
    };
    let ranked = images
        .iter()
        .zip(names)
        .filter_map(|(image, own)| Some((rank(image, own)?, image)));
    let mut ranked: Vec<((bool, bool), &T)> = ranked.collect();
    let best = ranked.iter().map(|(rank, _)| *rank).max();
    ranked.retain(|(rank, _)| Some(*rank) == best);
    let (is_told, known) = (known.len() > 1, known.join(", "));
    match (&ranked[..], tag) {
        ([(_, one)], _) => Ok(one),
        ([_, ..], _) if !is_told => Err(io::Error::other(
            "it has several images that no tag tells apart",
        )),
        ([_, ..], _) => Err(io::Error::other(format!(
            "it has several images; add `:TAG`, one of {known}"
        ))),
        ([], Some(tag)) => Err(io::Error::other(format!(
            "it has no image `{tag}`, but {known}"
        ))),
        ([], None) => Err(io::Error::other("it has no image")),
    }
}

/// The file of a digest.
fn file_of(digest: &str) -> io::Result<String> {
    let digits = digest
        .strip_prefix("sha256:")
        .filter(|digits| is_sha256(digits));
    let digits =
        digits.ok_or_else(|| io::Error::other(format!("`{digest}` is no digest by SHA-256")))?;
    Ok(format!("blobs/sha256/{digits}"))
}

/// True for the digits of a SHA-256, and nothing else: a file of the cache is named by them.
fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f'))
}
