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
            .map_err(|fault| io::Error::other(format!("`{name}` {fault}")))?;
        if blob.part.size() > DOCUMENT {
            return Err(io::Error::other(format!("`{name}` is too large")));
        }
        blob.bytes()
            .and_then(|bytes| Ok(serde_json::from_slice(&bytes)?))
            .map_err(|error| io::Error::other(format!("`{name}`: {error}")))
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
        let mut images = Vec::new();
        for descriptor in &index.manifests {
            let names = NAMES
                .iter()
                .filter_map(|name| descriptor.annotations.get(*name));
            images.push(NamedImage {
                names: names.cloned().collect(),
                is_own: descriptor.is_own(),
                image: descriptor,
            });
        }
        let manifest = self.manifest(choose(images, tag)?, DEPTH)?;
        let Some(config) = manifest.config else {
            return Err(io::Error::other("its manifest names no configuration"));
        };
        let mut layers = Vec::new();
        for descriptor in &manifest.layers {
            let digest = &descriptor.digest;
            layers.push(self.layer(digest, &digest_file(digest)?)?);
        }
        Ok(Parts {
            layers,
            config: self.document(&digest_file(&config.digest)?)?,
        })
    }

    /// Follows lists to the manifest for this processor, or the only one.
    fn manifest(&self, descriptor: &Descriptor, depth: usize) -> io::Result<ImageManifest> {
        let manifest: ImageManifest = self.document(&digest_file(&descriptor.digest)?)?;
        if manifest.manifests.is_empty() || depth == 0 {
            return Ok(manifest);
        }
        let mut first = None;
        for descriptor in &manifest.manifests {
            // Beside images, lists have attestations, for an unknown platform.
            let platform = descriptor.platform.as_ref();
            if platform.is_some_and(|platform| platform.os != "linux")
                || !digest_file(&descriptor.digest).is_ok_and(|file| self.has(&file))
            {
                continue;
            }
            if descriptor.is_own() {
                return self.manifest(descriptor, depth - 1);
            }
            first = first.or(Some(descriptor));
        }
        match first {
            Some(descriptor) => self.manifest(descriptor, depth - 1),
            None => Err(io::Error::other("none of the images in its list is here")),
        }
    }

    fn layer(&self, name: &str, file: &str) -> io::Result<ImageLayer> {
        let blob = self
            .blob(file)
            .map_err(|fault| io::Error::other(format!("its layer {name} {fault}")))?;
        Ok(ImageLayer {
            blob,
            name: name.to_owned(),
        })
    }

    fn docker(&self, tag: Option<&str>) -> io::Result<Parts> {
        let documents: Vec<DockerImage> = self.document("manifest.json")?;
        let mut images = Vec::new();
        for image in documents {
            images.push(NamedImage {
                names: image.repo_tags.clone().unwrap_or_default(),
                is_own: true,
                image,
            });
        }
        let image = choose(images, tag)?;
        let mut layers = Vec::new();
        for name in &image.layers {
            layers.push(self.layer(&format!("`{name}`"), name)?);
        }
        Ok(Parts {
            layers,
            config: self.document(&image.config)?,
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

/// An image to choose from.
struct NamedImage<T> {
    names: Vec<String>,
    /// True if it is for this processor.
    is_own: bool,
    image: T,
}

impl<T> NamedImage<T> {
    /// The whole name counts more than its end, and that more than the platform. None for another image.
    fn rank(&self, tag: Option<&str>) -> Option<(bool, bool)> {
        let Some(tag) = tag else {
            return Some((true, self.is_own));
        };
        let mut best = None;
        for name in &self.names {
            if let Some(before) = name.strip_suffix(tag)
                && (before.is_empty() || before.ends_with([':', '/']))
            {
                best = best.max(Some((before.is_empty(), self.is_own)));
            }
        }
        best
    }
}

/// Chooses the image with a tag or the end of a name, or the only one, if possible for this platform.
fn choose<T>(mut images: Vec<NamedImage<T>>, tag: Option<&str>) -> io::Result<T> {
    let mut names = Vec::new();
    for image in &images {
        names.extend_from_slice(&image.names);
    }
    names.sort();
    names.dedup();
    let best = images.iter().filter_map(|image| image.rank(tag)).max();
    images.retain(|image| best.is_some() && image.rank(tag) == best);
    let last = images.pop();
    let is_only = images.is_empty();
    let names_text = names.join(", ");
    let fault = match (last, tag) {
        (Some(last), _) if is_only => return Ok(last.image),
        (Some(_), _) if names.len() > 1 => {
            format!("it has several images; add `:TAG`, one of {names_text}")
        }
        (Some(_), _) => "it has several images that no tag tells apart".to_owned(),
        (None, Some(tag)) => format!("it has no image `{tag}`, but {names_text}"),
        (None, None) => "it has no image".to_owned(),
    };
    Err(io::Error::other(fault))
}

/// The path of the file with this digest, below the layout's directory.
fn digest_file(digest: &str) -> io::Result<String> {
    match digest.strip_prefix("sha256:") {
        Some(digits) if is_sha256(digits) => Ok(format!("blobs/sha256/{digits}")),
        _ => Err(io::Error::other(format!(
            "`{digest}` is no digest by SHA-256"
        ))),
    }
}

/// True for the digits of a SHA-256, and nothing else: a file of the cache is named by them.
fn is_sha256(text: &str) -> bool {
    text.len() == 64
        && text
            .bytes()
            .all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
