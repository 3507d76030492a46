//! Damaged files: every prefix and every single-byte change of a small library gives an error or a result,
//! never a panic. Texts of package managers and of others are damaged in the same way.

use cudarun::formats::elf::Elf;
use cudarun::formats::fatbin;
use cudarun::formats::symbols::{Exports, imports};
use cudarun::formats::{audit_log, conda, dpkg, manifest, names, store};

use crate::support::machine::elf;

fn sample() -> Vec<u8> {
    let library = elf::Elf {
        soname: Some("libcudnn_graph.so.9".into()),
        needed: vec!["libc.so.6".into(), "libcublasLt.so.12".into()],
        rpath: Some("$ORIGIN/../lib:${ORIGIN}".into()),
        exports: vec!["cudnnCreate".into()],
        imports: [(
            "libcublasLt.so.12".to_owned(),
            vec!["cublasLtCreate".to_owned()],
        )]
        .into(),
        constants: vec!["cudnn_version_9_1_0_70_x".into(), "libnvrtc.so.12".into()],
        functions: [("cudnnGetCudartVersion".to_owned(), 12040)].into(),
        forward_compatibility: Some(r#"{"format":1,"CUDA version":"13.0","driver":[535]}"#.into()),
        interpreter: Some("/lib64/ld-linux-x86-64.so.2".into()),
        build_id: Some("0123456789abcdef".into()),
        code: ["sm_80", "sm_90a", "compute_120"]
            .map(str::to_owned)
            .to_vec(),
        ..elf::Elf::default()
    };
    library.build().unwrap()
}

/// Asks everything that can be asked of a file.
fn ask_all(data: &[u8]) {
    let Ok(elf) = Elf::parse(data) else { return };
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
    for symbol in elf.symbols() {
        let _ = elf.bytes_of(&symbol);
    }
    let _ = (
        elf.needed_versions(b"libcublasLt.so.12"),
        elf.defined_versions(),
    );
    let _ = (
        elf.constants(),
        elf.code(),
        elf.notes(b".note.cuda.fwd_compatibility").count(),
    );
    let _ = (elf.local_function(b"cudnnCreate"), elf.build_id());
    let _ = fatbin::code_of(&elf, &|| ());
    let exports = Exports::read(&elf);
    for symbol in imports(&elf, |_| true, |_, _| true) {
        let _ = exports.lack(&symbol);
    }
    for constants in elf.constants() {
        cudarun::formats::names::libraries(constants);
    }
}

#[test]
fn the_sample_is_read_as_it_was_written() {
    let data = sample();
    let elf = Elf::parse(&data).unwrap();
    assert_eq!(elf.soname(), Some(&b"libcudnn_graph.so.9"[..]));
    assert_eq!(
        elf.needed().collect::<Vec<_>>(),
        [&b"libc.so.6"[..], b"libcublasLt.so.12"]
    );
    assert_eq!(elf.rpath(), Some(&b"$ORIGIN/../lib:${ORIGIN}"[..]));
    assert_eq!(elf.interpreter().unwrap(), "/lib64/ld-linux-x86-64.so.2");
    assert!(!elf.is_truncated());
    assert_eq!(
        elf.build_id(),
        Some(&[0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef][..])
    );
    let code: Vec<String> = fatbin::code_of(&elf, &|| ())
        .values()
        .flatten()
        .map(|(it, _)| it.to_string())
        .collect();
    assert_eq!(code, ["sm_80", "sm_90a", "compute_120"]);
    let imported = imports(&elf, |file| file == "libcublasLt.so.12", |_, _| false);
    assert_eq!(imported.len(), 1);
    assert_eq!(imported[0].name, "cublasLtCreate");
    assert!(Exports::read(&elf).lack(&imported[0]));
    assert_eq!(elf.defined_versions(), [b"libcudnn_graph.so.9"]);
    assert!(
        elf.notes(b".note.cuda.fwd_compatibility")
            .next()
            .unwrap()
            .starts_with(b"{\"format\":1")
    );
}

#[test]
fn every_prefix_gives_an_error_or_a_result() {
    let data = sample();
    for length in 0..data.len() {
        ask_all(&data[..length]);
        if let Ok(elf) = Elf::parse(&data[..length]) {
            assert!(
                elf.is_truncated(),
                "a file cut at {length} of {} must be seen to be cut",
                data.len()
            );
        }
    }
}

#[test]
fn every_single_byte_change_gives_an_error_or_a_result() {
    let data = sample();
    for index in 0..data.len() {
        for value in [
            0,
            1,
            2,
            0x3f,
            0x7f,
            0x80,
            0xff,
            data[index].wrapping_add(1),
            data[index].wrapping_sub(1),
        ] {
            let mut bad = data.clone();
            bad[index] = value;
            ask_all(&bad);
        }
    }
}

/// Values of all kinds where a byte decides how far a parser goes: headers and the dynamic section. Each byte has a third of
/// all values, and its neighbours have the others.
#[test]
fn values_of_every_deciding_byte_give_an_error_or_a_result() {
    let data = sample();
    let deciding = (0..64 + 3 * 56).chain(data.len() - 900..data.len());
    for index in deciding {
        for value in (index % 3..256).step_by(3) {
            let mut bad = data.clone();
            bad[index] = value as u8;
            ask_all(&bad);
        }
    }
}

/// A parser that takes any bytes, and a small sample for it.
type Parser = (&'static [u8], fn(&[u8]));

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

const JSON: [Parser; 2] = [
    (
        br#"{"files": ["lib/libcudnn.so.9", "a\u00e4"], "name": 1}"#,
        |bytes| {
            drop(conda::files(bytes, &|_| true));
        },
    ),
    (
        br#"{"cuda": {"version": "12.4.1"}, "libcublas": {"version": "12.4.5.8"}}"#,
        |bytes| {
            drop(manifest::manifest(bytes));
        },
    ),
];

const OTHERS: [Parser; 4] = [
    (b"7\0cache\0/bin\0libc.so.6\0/lib/libc.so.6\0\n", |bytes| {
        drop(audit_log::records(bytes));
    }),
    (
        b"Package: libcudnn9-cuda-12\nStatus: install ok installed\nVersion: 9.1.0.70-1\n\n",
        |bytes| {
            drop(dpkg::installed(bytes, &|_| true));
        },
    ),
    (b"x\0/opt/libcudnn.so.9\0libnvrtc.so.12\0.so.so", |bytes| {
        drop((
            names::libraries(bytes),
            names::packed_libraries(bytes, &|_| true),
        ));
        drop(names::library_paths(bytes));
        drop(names::whole_objects(bytes));
    }),
    (b"0123456789abcdfghijklmnpqrsvwxyz-cuda-9.1-lib", |bytes| {
        let _ = store::package(&text(bytes));
    }),
];

#[test]
fn damaged_records_give_an_error_or_a_result() {
    for (sample, parse) in JSON.into_iter().chain(OTHERS) {
        for end in 0..sample.len() {
            parse(&sample[..end]);
        }
        for index in 0..sample.len() {
            for value in [
                0,
                b'"',
                b'.',
                b'/',
                b'[',
                b'\n',
                0x7f,
                0x80,
                0xff,
                sample[index] ^ 0x55,
            ] {
                let mut bad = sample.to_vec();
                bad[index] = value;
                parse(&bad);
            }
        }
    }
    for (_, parse) in JSON {
        parse(format!(r#"{{"x": {}, "y": ".so"}}"#, "[".repeat(100_000)).as_bytes());
    }
}

#[test]
fn a_damaged_record_of_a_trace_leaves_the_others() {
    let log = b"7\0program\0\0\0/bin/a\nb\0\n7\0cache\0/bin\n\0libc.so.6\0/lib/libc.so.6\0\n";
    let whole = audit_log::records(log);
    assert_eq!(
        (whole.len(), whole[0].path.to_str()),
        (2, Some("/bin/a\nb"))
    );
    for end in 0..log.len() {
        assert_eq!(
            audit_log::records(&log[..end]),
            whole[..usize::from(end >= 22)],
            "{end}"
        );
    }
    assert_eq!(
        audit_log::records(&[b"7\0torn\0\n".as_slice(), log].concat()),
        whole
    );
}
