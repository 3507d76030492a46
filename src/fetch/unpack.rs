//! A wheel's archive becomes a tree of files. Each file is compared with the wheel's RECORD while it is written.
#![allow(
    clippy::disallowed_methods,
    reason = "writes into a directory of our own"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Component, Path, PathBuf};

use flate2::bufread::DeflateDecoder;
use rawzip::{CompressionMethod, ZipArchive, ZipArchiveEntryWayfinder, ZipSliceArchive};
use sha2::{Digest, Sha256};

use crate::formats::metadata;
use crate::parallel;
use crate::text::{os, show};

/// Bytes that are copied at once.
const PIECE: usize = 256 << 10;

/// A file of the archive.
struct Packed {
    name: String,
    position: ZipArchiveEntryWayfinder,
    is_deflated: bool,
    /// Compilers are started.
    is_executable: bool,
}

/// Unpacks the files whose path `is_wanted` allows into an existing directory. Refuses an archive that holds a link, or a
/// path that leads outside, wanted or not.
pub(super) fn unpack(
    bytes: &[u8],
    tree: &Path,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<(), String> {
    let archive = ZipArchive::from_slice(bytes).map_err(|error| not_a_wheel(&error))?;
    let mut files = Vec::new();
    let mut names = BTreeSet::new();
    let mut entries = archive.entries();
    while let Some(entry) = entries.next_entry().map_err(|error| not_a_wheel(&error))? {
        let raw = entry.file_path();
        let name = String::from_utf8_lossy(raw.as_ref()).into_owned();
        if !is_below(Path::new(&name)) || name.contains(['\\', '\0']) {
            return Err(format!("`{}` leads outside of the wheel", show(&name)));
        }
        if entry.mode().is_symlink() {
            return Err(is_link(&name));
        }
        if entry.is_dir() || !is_wanted(&name) {
            continue;
        }
        let is_deflated = entry.compression_method() == CompressionMethod::DEFLATE;
        if !is_deflated && entry.compression_method() != CompressionMethod::STORE {
            return Err(format!("`{}` is packed by an unknown method", show(&name)));
        }
        if !names.insert(name.clone()) {
            return Err(format!("`{}` is there twice", show(&name)));
        }
        let is_executable = entry.mode().permissions() & 0o111 != 0;
        files.push(Packed {
            name,
            position: entry.wayfinder(),
            is_deflated,
            is_executable,
        });
    }
    let record = record_of(&archive, &files)?;
    must_be_all(&record, &|name| is_wanted(name) && !names.contains(name))?;
    // The largest first, so that the threads end together.
    files.sort_by_key(|file| std::cmp::Reverse(file.position.uncompressed_size_hint()));
    let mut directories = BTreeSet::new();
    for file in &files {
        directories.extend(tree.join(&file.name).parent().map(Path::to_owned));
    }
    for directory in directories {
        fs::create_dir_all(&directory).map_err(file_error(&directory))?;
    }
    let written = parallel::map_each(&files, |file| {
        let hash = write(&archive, file, &tree.join(&file.name))?;
        compare(&record, &file.name, &hash)
    });
    written.into_iter().collect()
}

/// Removes every file below a directory that is not wanted. Another program has unpacked the wheel.
pub(super) fn prune(tree: &Path, is_wanted: &dyn Fn(&str) -> bool) -> Result<(), String> {
    for (name, path) in files_below(tree)? {
        if !is_wanted(&name) {
            fs::remove_file(&path).map_err(file_error(&path))?;
        }
    }
    Ok(())
}

/// Compares a tree with the RECORDs in it: every file, and every recorded name below the directories that it has.
pub(super) fn compare_all(tree: &Path) -> Result<(), String> {
    let files = files_below(tree)?;
    let mut record = Vec::new();
    for (_, path) in files.iter().filter(|(name, _)| name.ends_with(RECORD)) {
        record.extend(fs::read(path).map_err(file_error(path))?);
        record.push(b'\n');
    }
    if record.is_empty() {
        return Err(NO_RECORD.to_owned());
    }
    must_be_all(&record, &|name| {
        name.split_once('/').is_some_and(|(top, _)| {
            is_below(Path::new(name)) && tree.join(top).is_dir() && !tree.join(name).is_file()
        })
    })?;
    let checked = parallel::map_each(&files, |(name, path)| {
        let hash =
            fs::File::open(path).and_then(|mut file| copy_hashed(&mut file, &mut io::sink()));
        compare(&record, name, &hash.map_err(file_error(path))?)
    });
    checked.into_iter().collect()
}

/// The files below a directory, with their path in it. Refuses links.
fn files_below(tree: &Path) -> Result<Vec<(String, PathBuf)>, String> {
    let unreadable = file_error(tree);
    let mut files = Vec::new();
    let mut pending = vec![tree.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in fs::read_dir(&directory).map_err(&unreadable)? {
            let entry = entry.map_err(&unreadable)?;
            let path = entry.path();
            let kind = entry.file_type().map_err(&unreadable)?;
            let relative = path.strip_prefix(tree).unwrap_or(&path);
            let name = relative.to_string_lossy().into_owned();
            if kind.is_dir() {
                pending.push(path);
            } else if kind.is_file() {
                files.push((name, path));
            } else {
                return Err(is_link(&name));
            }
        }
    }
    Ok(files)
}

const RECORD: &str = ".dist-info/RECORD";
const NO_RECORD: &str = "no RECORD";
/// Files that a client adds or rewrites; they hold nothing that is loaded.
const OF_CLIENT: [&str; 4] = ["RECORD", "INSTALLER", "REQUESTED", "direct_url.json"];

fn is_below(name: &Path) -> bool {
    name.components()
        .all(|part| matches!(part, Component::Normal(_)))
}

fn record_of(archive: &ZipSliceArchive<&[u8]>, files: &[Packed]) -> Result<Vec<u8>, String> {
    let file = files
        .iter()
        .find(|file| file.name.ends_with(RECORD))
        .ok_or(NO_RECORD)?;
    let mut bytes = Vec::new();
    extract(archive, file, &mut bytes)?;
    Ok(bytes)
}

/// Fails with the first recorded name that is missing.
fn must_be_all(record: &[u8], is_missing: &dyn Fn(&str) -> bool) -> Result<(), String> {
    for line in String::from_utf8_lossy(record).lines() {
        let name = line.split(',').next().unwrap_or_default().trim_matches('"');
        if is_missing(name) {
            return Err(not_as_recorded(name));
        }
    }
    Ok(())
}

fn compare(record: &[u8], name: &str, hash: &[u8]) -> Result<(), String> {
    if let Some((_, file)) = name.rsplit_once(".dist-info/")
        && OF_CLIENT.contains(&file)
    {
        return Ok(());
    }
    let recorded = metadata::recorded_hash(record, name);
    if recorded == Some(&format!("sha256={}", base64(hash))) {
        Ok(())
    } else {
        Err(not_as_recorded(name))
    }
}

fn not_as_recorded(name: &str) -> String {
    format!("`{}` is not as RECORD says", show(name))
}

fn is_link(name: &str) -> String {
    format!("`{}` is a link", show(name))
}

fn write(archive: &ZipSliceArchive<&[u8]>, file: &Packed, path: &Path) -> Result<Vec<u8>, String> {
    let mode = if file.is_executable { 0o555 } else { 0o444 };
    let mut output = fs::OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path)
        .map_err(file_error(path))?;
    let hash = extract(archive, file, &mut output)?;
    output.sync_all().map_err(file_error(path))?;
    Ok(hash)
}

/// Gives the SHA-256 of the file's content.
fn extract(
    archive: &ZipSliceArchive<&[u8]>,
    file: &Packed,
    output: &mut impl Write,
) -> Result<Vec<u8>, String> {
    let entry = archive
        .get_entry(file.position)
        .map_err(|error| not_a_wheel(&error))?;
    let hash = if file.is_deflated {
        let content = DeflateDecoder::new(entry.data());
        copy_hashed(&mut entry.verifying_reader(content), output)
    } else {
        copy_hashed(&mut entry.verifying_reader(entry.data()), output)
    };
    hash.map_err(|error| match error.raw_os_error() {
        Some(_) => file_error(Path::new(&file.name))(error),
        None => format!(
            "`{}` is damaged: {}",
            show(&file.name),
            show(&error.to_string())
        ),
    })
}

fn copy_hashed(input: &mut impl Read, output: &mut impl Write) -> io::Result<Vec<u8>> {
    let mut hash = Sha256::new();
    let mut piece = vec![0; PIECE];
    loop {
        let length = input.read(&mut piece)?;
        if length == 0 {
            return Ok(hash.finalize().to_vec());
        }
        hash.update(&piece[..length]);
        output.write_all(&piece[..length])?;
    }
}

fn not_a_wheel(error: &rawzip::Error) -> String {
    format!("not a wheel: {}", show(&error.to_string()))
}

/// The error of a step with a file, in words.
fn file_error(path: &Path) -> impl Fn(io::Error) -> String {
    move |error| format!("`{}`: {}", show(path), os(&error))
}

/// The alphabet for file names, without padding, as RECORD has it.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let mut text = String::new();
    for chunk in bytes.chunks(3) {
        let mut padded = [0; 4];
        padded[1..=chunk.len()].copy_from_slice(chunk);
        let bits = u32::from_be_bytes(padded);
        for digit in 0..=chunk.len() {
            text.push(char::from(
                ALPHABET[(bits >> (18 - 6 * digit) & 63) as usize],
            ));
        }
    }
    text
}
