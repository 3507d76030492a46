//! The parts of an image: OCI's layout in a directory or an archive, and Docker's archive.

use std::collections::BTreeMap;
use std::io;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::index::{Blob, Index};
use super::members::{Content, path_of};
use crate::host::{Host, Stat};

/// Manifests, lists of manifests and configurations are smaller.
const DOCUMENT: u64 = 16 << 20;
/// Lists of manifests in lists.
const DEPTH: usize = 4;
/// The name of an image in an index, by OCI's tools and by containerd.
const NAMES: [&str; 2] = ["org.opencontainers.image.ref.name", "io.containerd.image.name"];

/// The layers of an image from the lowest up, and what its configuration says.
pub(super) struct Parts {
    pub layers: Vec<Layer>,
    pub config: Config,
}

pub(super) struct Layer {
    pub blob: Blob,
    /// Hexadecimal; none for Docker's older archives, which name their layers otherwise.
    pub sha256: Option<String>,
    /// Its name in the image.
    pub name: String,
}

#[derive(Default, Deserialize)]
pub(super) struct Config {
    #[serde(default)]
    pub config: Execution,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Execution {
    /// Docker writes null for an empty list.
    pub env: Option<Vec<String>>,
    pub working_dir: Option<String>,
}

/// The files that an image consists of.
pub(super) enum Files {
    Directory(PathBuf),
    Archive { data: PathBuf, members: BTreeMap<PathBuf, Member> },
}

pub(super) enum Member {
    File { offset: u64, size: u64 },
    Link(PathBuf),
}

#[derive(Deserialize)]
struct OciIndex {
    manifests: Vec<Descriptor>,
}

#[derive(Clone, Deserialize)]
struct Descriptor {
    digest: String,
    platform: Option<Platform>,
    #[serde(default)]
    annotations: BTreeMap<String, String>,
}

#[derive(Clone, Deserialize)]
struct Platform {
    architecture: String,
    os: String,
}

/// A manifest has a configuration and layers, a list has manifests.
#[derive(Deserialize)]
struct Manifest {
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

impl Files {
    pub(super) fn of_archive(index: &Index) -> Files {
        let member = |content: &Content| match content {
            Content::File { offset: Some(offset), size } => {
                Some(Member::File { offset: *offset, size: *size })
            }
            Content::Link(target) => Some(Member::Link(path_of(target))),
            Content::HardLink(target) => Some(Member::Link(Path::new("/").join(path_of(target)))),
            _ => None,
        };
        let plain = |path: &[u8]| plain(&path_of(path));
        let members = index.members.iter();
        let members = members.filter_map(|one| Some((plain(&one.path)?, member(&one.content)?)));
        Files::Archive { data: index.data.clone(), members: members.collect() }
    }

    pub(super) fn has(&self, host: &Host, name: &str) -> bool {
        self.blob(host, name).is_ok()
    }

    fn blob(&self, host: &Host, name: &str) -> io::Result<Blob> {
        let missing = || io::Error::other(format!("it has no `{name}`"));
        let mut path = plain(Path::new(name)).ok_or_else(missing)?;
        match self {
            Files::Directory(directory) => {
                let file = directory.join(path);
                let stat = host.stat(&file).ok().filter(Stat::is_file).ok_or_else(missing)?;
                Ok(Blob { file, offset: 0, size: stat.size })
            }
            Files::Archive { data, members } => {
                // Docker's older archives have equal layers once.
                for _ in 0..DEPTH {
                    match members.get(&path).ok_or_else(missing)? {
                        Member::File { offset, size } => {
                            return Ok(Blob { file: data.clone(), offset: *offset, size: *size });
                        }
                        Member::Link(target) => {
                            path = plain(&path.parent().unwrap_or(Path::new("")).join(target))
                                .ok_or_else(missing)?;
                        }
                    }
                }
                Err(missing())
            }
        }
    }

    fn document<T: DeserializeOwned>(&self, host: &Host, name: &str) -> io::Result<T> {
        let blob = self.blob(host, name)?;
        if blob.size > DOCUMENT {
            return Err(io::Error::other(format!("`{name}` is too large")));
        }
        let bytes = super::index::bytes(host, &blob)?;
        serde_json::from_slice(&bytes).map_err(|error| io::Error::other(format!("`{name}`: {error}")))
    }

    /// Finds the image with a tag, or the only one.
    pub(super) fn parts(&self, host: &Host, tag: Option<&str>) -> io::Result<Parts> {
        if self.has(host, "index.json") { self.oci(host, tag) } else { self.docker(host, tag) }
    }

    fn oci(&self, host: &Host, tag: Option<&str>) -> io::Result<Parts> {
        let index: OciIndex = self.document(host, "index.json")?;
        let names = |one: &Descriptor| -> Vec<String> {
            NAMES.iter().filter_map(|name| one.annotations.get(*name).cloned()).collect()
        };
        let named: Vec<Vec<String>> = index.manifests.iter().map(names).collect();
        let chosen = choose(&index.manifests, &named, tag)?;
        let manifest = self.manifest(host, chosen, DEPTH)?;
        let config =
            manifest.config.ok_or_else(|| io::Error::other("its manifest names no configuration"))?;
        let layers: io::Result<Vec<Layer>> =
            manifest.layers.iter().map(|layer| self.layer(host, &layer.digest)).collect();
        Ok(Parts { layers: layers?, config: self.document(host, &file_of(&config.digest)?)? })
    }

    /// Follows lists to the manifest for this processor, or the only one.
    fn manifest(&self, host: &Host, of: &Descriptor, depth: usize) -> io::Result<Manifest> {
        let manifest: Manifest = self.document(host, &file_of(&of.digest)?)?;
        if manifest.manifests.is_empty() || depth == 0 {
            return Ok(manifest);
        }
        let is_here = |one: &&Descriptor| file_of(&one.digest).is_ok_and(|file| self.has(host, &file));
        // Beside images, lists have attestations, for an unknown platform.
        let is_known =
            |one: &&Descriptor| one.platform.as_ref().is_none_or(|platform| platform.os == "linux");
        let here: Vec<&Descriptor> = manifest.manifests.iter().filter(is_known).filter(is_here).collect();
        let own = |one: &&&Descriptor| {
            one.platform.as_ref().is_some_and(|platform| platform.architecture == ARCHITECTURE)
        };
        let next = here.iter().find(own).or(here.first());
        let next = next.ok_or_else(|| io::Error::other("none of the images in its list is here"))?;
        self.manifest(host, next, depth - 1)
    }

    fn layer(&self, host: &Host, digest: &str) -> io::Result<Layer> {
        let blob = self.blob(host, &file_of(digest)?);
        let blob = blob.map_err(|_| io::Error::other(format!("its layer {digest} is missing")))?;
        let sha256 = digest.strip_prefix("sha256:").and_then(digits);
        Ok(Layer { blob, sha256, name: digest.to_owned() })
    }

    fn docker(&self, host: &Host, tag: Option<&str>) -> io::Result<Parts> {
        let images: Vec<DockerImage> = self.document(host, "manifest.json")?;
        let named: Vec<Vec<String>> =
            images.iter().map(|image| image.repo_tags.clone().unwrap_or_default()).collect();
        let chosen = choose(&images, &named, tag)?;
        let layer = |name: &String| {
            let blob = self.blob(host, name);
            let blob = blob.map_err(|_| io::Error::other(format!("its layer `{name}` is missing")))?;
            let sha256 = name.strip_prefix("blobs/sha256/").and_then(digits);
            Ok(Layer { blob, sha256, name: name.clone() })
        };
        let layers: io::Result<Vec<Layer>> = chosen.layers.iter().map(layer).collect();
        Ok(Parts { layers: layers?, config: self.document(host, &chosen.config)? })
    }
}

/// The name of this processor in images.
const ARCHITECTURE: &str = if cfg!(target_arch = "aarch64") { "arm64" } else { "amd64" };

fn choose<'a, T>(images: &'a [T], names: &[Vec<String>], tag: Option<&str>) -> io::Result<&'a T> {
    let is_meant = |own: &Vec<String>| {
        tag.is_none_or(|tag| {
            own.iter().any(|name| name == tag || name.rsplit_once(':').is_some_and(|(_, end)| end == tag))
        })
    };
    let meant: Vec<&T> =
        images.iter().zip(names).filter(|(_, own)| is_meant(own)).map(|(image, _)| image).collect();
    let known = names.concat().join(", ");
    match (meant[..].first(), meant.len(), tag) {
        (Some(one), 1, _) => Ok(one),
        (Some(_), ..) => Err(io::Error::other(format!("it has several images; add `:TAG`, one of {known}"))),
        (None, _, Some(tag)) => Err(io::Error::other(format!("it has no image `{tag}`, but {known}"))),
        (None, ..) => Err(io::Error::other("it has no image")),
    }
}

/// The file of a digest: its algorithm and its digits.
fn file_of(digest: &str) -> io::Result<String> {
    let is_word = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric());
    match digest.split_once(':') {
        Some((algorithm, digits)) if is_word(algorithm) && is_word(digits) && digits.len() >= 32 => {
            Ok(format!("blobs/{algorithm}/{digits}"))
        }
        _ => Err(io::Error::other(format!("`{digest}` is no digest"))),
    }
}

/// The digits of a SHA-256, and nothing else: a file of the cache is named by them.
fn digits(text: &str) -> Option<String> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || matches!(byte, b'a'..=b'f');
    (text.len() == 64 && text.bytes().all(is_digit)).then(|| text.to_owned())
}

/// A path below the archive without `.` and `..`; none if it leads out.
fn plain(path: &Path) -> Option<PathBuf> {
    let mut plain = PathBuf::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => plain.push(name),
            Component::ParentDir if !plain.pop() => return None,
            Component::RootDir => plain = PathBuf::new(),
            _ => {}
        }
    }
    (!plain.as_os_str().is_empty()).then_some(plain)
}
