//! A function for each target.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use cudarun::diagnose::{Chain, LogReader};
use cudarun::environment::Environment;
use cudarun::fleet::Description;
use cudarun::formats::elf::{self, AARCH64, Elf, X86_64, loading};
use cudarun::formats::ldcache::LdCache;
use cudarun::formats::project::{self, PyProject};
use cudarun::formats::symbols::{self, Exports};
use cudarun::formats::{
    audit_log, build_info, conda, dpkg, fatbin, instructions, manifest, metadata,
    modulefile, names, pyinstaller, python, require, store, toolchain,
};
use cudarun::inventory::{self, ScanCache};
use cudarun::range::Range;
use cudarun::settings::{container, invocation, lock, read};
use cudarun::variables;
use cudarun::verify::Verdict;
use cudarun::verify::protocol::{ChildMessage, ProofRequest};
use cudarun::version::{ComputeCapability, CudaVersion, Version};

use crate::places;

/// Names are directories of `corpus/`.
pub const ALL: &[(&str, fn(&[u8]))] = &[
    ("audit-log", |bytes| drop(audit_log::records(bytes))),
    ("build-info", build_info),
    ("child-line", |bytes| {
        drop(serde_json::from_slice::<ChildMessage>(bytes))
    }),
    ("child-request", |bytes| {
        drop(serde_json::from_slice::<ProofRequest>(bytes))
    }),
    ("conda", conda),
    ("container", container),
    ("description", |bytes| drop(Description::parse(bytes))),
    ("dpkg-list", |bytes| drop(dpkg::list(bytes, &|_| true))),
    ("dpkg-status", dpkg_status),
    ("elf", elf),
    ("elf-facts", elf_facts),
    ("fatbin", |bytes| drop(fatbin::entries(bytes, &|| ()))),
    ("image", places::image),
    ("instructions", instructions),
    ("kept-start", places::kept_start),
    ("ld-cache", ld_cache),
    ("lock", |bytes| {
        drop(lock::lock(bytes, Path::new("/a/.cudarun.lock")).map(|lock| lock.text()))
    }),
    ("log", log),
    ("manifest", |bytes| drop(manifest::manifest(bytes))),
    ("metadata", metadata),
    ("module-lua", |bytes| {
        drop(inventory::named_by_module(Path::new("a.lua"), &text(bytes)))
    }),
    ("module-tcl", |bytes| {
        drop(inventory::named_by_module(Path::new("a"), &text(bytes)))
    }),
    ("names", names),
    ("program", places::program),
    ("pyinstaller", |bytes| drop(pyinstaller::archive(bytes))),
    ("pyproject", pyproject),
    ("python", |bytes| drop(python::read(bytes))),
    ("python-lists", python_lists),
    ("record", record),
    ("scan-cache", |bytes| {
        drop(postcard::from_bytes::<ScanCache>(bytes))
    }),
    ("settings", |bytes| {
        drop(read::file(bytes, Path::new("/a/.cudarun.toml")))
    }),
    ("startup", places::startup),
    ("system", places::system),
    ("toolchain", toolchain),
    ("variables", variables_of_settings),
    ("verdict", |bytes| {
        drop(serde_json::from_slice::<Verdict>(bytes))
    }),
    ("versions", versions),
];

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The first line, and the rest.
fn parted(bytes: &[u8]) -> (String, &[u8]) {
    let end = bytes
        .iter()
        .position(|byte| *byte == b'\n')
        .unwrap_or(bytes.len());
    (
        text(&bytes[..end]),
        bytes.get(end + 1..).unwrap_or_default(),
    )
}

fn toolchain(bytes: &[u8]) {
    let _ = (toolchain::release(bytes), toolchain::gcc(bytes));
    let _ = toolchain::newest_gcc(&text(bytes));
}

fn build_info(bytes: &[u8]) {
    let (name, rest) = parted(bytes);
    let all = text(rest);
    let _ = (
        build_info::assignment(rest, &name),
        build_info::raw_assignment(rest, &name),
    );
    let _ = (
        build_info::pair(rest, &name),
        build_info::define(rest, &name),
    );
    for major in [1, 2] {
        let _ = build_info::digits_after(&all, &name, major);
    }
    let _ = (
        build_info::gencode(&all),
        build_info::capabilities(&[name, all]),
    );
}

fn conda(bytes: &[u8]) {
    let (name, rest) = parted(bytes);
    let _ = (conda::package(&name), store::package(&name));
    let _ = conda::files(rest, &|_| true);
    let _ = conda::environments(&text(rest)).count();
}

fn container(bytes: &[u8]) {
    let all = text(bytes);
    let _ = require::parse(&all);
    let env: Environment = [("NVIDIA_REQUIRE_CUDA", all.as_str())]
        .into_iter()
        .collect();
    let _ = container::requirements(&env);
}

fn dpkg_status(bytes: &[u8]) {
    for package in dpkg::installed(bytes, &inventory::is_wanted_package) {
        let _ = (
            dpkg::upstream(&package.version),
            dpkg::before_toolkit(&package.version),
        );
    }
    let _ = dpkg::installed(bytes, &|_| true);
}

fn elf(bytes: &[u8]) {
    let _ = (
        loading::check(bytes, X86_64),
        loading::check(bytes, AARCH64),
    );
    let Ok(elf) = Elf::parse(bytes) else { return };
    let _ = (
        elf.machine(),
        elf.is_dynamic(),
        elf.interpreter(),
        elf.soname(),
        elf.needed().count(),
    );
    let _ = (
        elf.rpath(),
        elf.runpath(),
        elf.has_no_default_libraries(),
        elf.is_truncated(),
    );
    let _ = (elf.is_program(), elf.is_loadable(), elf.build_id());
    for symbol in elf.symbols().iter().take(1000) {
        let _ = elf.bytes_of(symbol);
    }
    let _ = (
        elf.needed_versions(b"libc.so.6"),
        elf.defined_versions(),
        elf.required_versions(),
    );
    let _ = (
        elf.constants(),
        elf.code(),
        elf.local_function(b"cudnnCreate"),
    );
    let _ = elf.notes(b".note.cuda.fwd_compatibility").count();
    let _ = (fatbin::code_of(&elf, &|| ()), symbols::names(&elf));
    let exports = Exports::read(&elf);
    for symbol in symbols::imports(&elf, |_| true, |_, _| true) {
        let _ = exports.lack(&symbol);
    }
}

/// The first byte chooses the family, whose rules differ.
fn elf_facts(bytes: &[u8]) {
    const NAMES: [&str; 12] = [
        "libcudnn.so.9",
        "libcudnn_graph.so.9",
        "libcudnn_engines_precompiled.so.9",
        "libcublasLt.so.12",
        "libcudart.so.12",
        "libcuda.so.550.54.15",
        "libnccl.so.2",
        "libnvrtc.so.12",
        "libnvinfer.so.10",
        "libcufft.so.11",
        "libcusparse.so.12",
        "libcufile.so.0",
    ];
    let Some((first, rest)) = bytes.split_first() else {
        return;
    };
    let name = NAMES[usize::from(*first) % NAMES.len()];
    let machine = rest
        .get(18..20)
        .map_or(X86_64, |two| u16::from_le_bytes([two[0], two[1]]));
    let _ = inventory::facts(rest, name, machine);
}

fn instructions(bytes: &[u8]) {
    for machine in [X86_64, AARCH64] {
        let _ = instructions::only_constant(bytes, machine, 1000, 99999);
        let _ = (
            instructions::printed_version(bytes, machine, 9),
            instructions::runtime_version(bytes, machine),
        );
    }
}

fn ld_cache(bytes: &[u8]) {
    for machine in [elf::X86_64, elf::AARCH64] {
        let Ok(cache) = LdCache::parse(bytes, machine) else {
            continue;
        };
        let known: Vec<String> = cache
            .iter()
            .map(|(soname, _)| soname.to_owned())
            .take(100)
            .collect();
        known
            .iter()
            .for_each(|soname| drop(cache.get(soname).cloned()));
    }
}

fn metadata(bytes: &[u8]) {
    for required in metadata::requirements(&text(bytes)) {
        let _ = (required.pinned(), required.lower_bound());
    }
}

fn names(bytes: &[u8]) {
    let found = names::libraries(bytes);
    for name in found.iter().chain(&names::whole_objects(bytes)) {
        let _ = names::split(name).map(|(stem, _)| names::without_hash(stem).map(str::len));
    }
    let _ = (
        names::packed_libraries(bytes, &|_| true),
        names::library_paths(bytes),
    );
    let _ = names::asserted_cudnn(bytes);
}

fn pyproject(bytes: &[u8]) {
    let all = text(bytes);
    if let Some(workspace) = PyProject::parse(&all).workspace {
        let _ = workspace.has(Path::new("packages/a"));
    }
    let _ = project::has_inline_metadata(&all);
}

/// `pyvenv.cfg` and `.pth` files.
fn python_lists(bytes: &[u8]) {
    let all = text(bytes);
    let _ = (
        metadata::pyvenv(&all),
        metadata::pth_directories(&all).len(),
    );
    let _ = python::read(metadata::pth_code(&all).as_bytes());
}

/// In pieces, as the log of a running program comes.
fn log(bytes: &[u8]) {
    let mut reading = LogReader::default();
    bytes.chunks(1000).for_each(|piece| reading.take(piece));
    let _ = Chain::new(reading.messages()).chosen();
}

fn record(bytes: &[u8]) {
    let _ = metadata::record(bytes, &inventory::is_library);
    let _ = (
        metadata::recorded_hash(bytes, "a/b.so"),
        metadata::top_level(&text(bytes)),
    );
}

/// `NAME=value` lines of variables that hold settings.
fn variables_of_settings(bytes: &[u8]) {
    const NAMES: [&str; 6] = [
        variables::PIN,
        "CUDARUN_PIN_MODE",
        "CUDARUN_REQUIRE",
        variables::LOCKED,
        variables::VERIFY,
        "CUDARUN_VERIFY_LEVEL",
    ];
    let values = bytes.split(|byte| *byte == 0).zip(NAMES);
    let env: Environment = values
        .map(|(value, name)| (name, OsStr::from_bytes(value)))
        .collect();
    let _ = invocation::variables(&env);
}

fn versions(bytes: &[u8]) {
    let (version, rest) = parted(bytes);
    let range = text(rest).parse::<Range>();
    if let (Ok(version), Ok(range)) = (version.parse::<Version>(), &range) {
        let _ = (
            range.allows(&version),
            range.to_string(),
            version.to_string(),
        );
    }
    let _ = (
        Version::of_driver(&version),
        version.parse::<CudaVersion>(),
    );
    let _ = (
        version.parse::<ComputeCapability>(),
        version.parse::<fatbin::Architecture>(),
    );
    let _ = modulefile::tcl(&version);
}
