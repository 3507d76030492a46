use cudarun::catalog::{Capture, ErrorKind};
use cudarun::diagnose::{Chain, LogLine, LogLines, LogReader, Message};

use super::{chain, messages};

const MISSING: &str =
    "ImportError: libcudart.so.12: cannot open shared object file: No such file or directory";

fn only(log: &[u8]) -> Message {
    let found = messages(log);
    assert_eq!(found.len(), 1, "{found:?}");
    found.into_iter().next().unwrap()
}

fn lines(log: &[u8]) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut each = |line: LogLine<'_>| {
        found.push((line.number, String::from_utf8_lossy(line.text).into_owned()));
    };
    let mut lines = LogLines::default();
    lines.feed(log, &mut each);
    lines.finish(&mut each);
    found
}

#[test]
fn colours_and_progress_are_removed() {
    let log = b"\x1b[31mred\x1b[0m\n10%\r20%\rdone\r\n\nlast";
    let expected = [(1, "red"), (2, "10%"), (2, "20%"), (2, "done"), (4, "last")];
    let found = lines(log).into_iter().filter(|(_, text)| !text.is_empty());
    assert!(found.eq(expected.map(|(number, text)| (number, text.to_owned()))));
}

#[test]
fn an_empty_or_binary_log_has_no_messages() {
    assert!(messages(b"").is_empty());
    assert!(messages(b"\n\n\r\n").is_empty());
    let binary: Vec<u8> = (0..1 << 20)
        .map(|number: u32| (number.wrapping_mul(2_654_435_761) >> 24) as u8)
        .collect();
    assert!(messages(&binary).is_empty());
    // The control: an error between binary data.
    let with_error = [&binary[..], b"\n", MISSING.as_bytes(), b"\n", &binary].concat();
    assert_eq!(only(&with_error).row.id, "missing-library");
}

#[test]
fn a_line_of_ten_megabytes_is_read_in_pieces() {
    let mut log = vec![b'x'; 10 << 20];
    let at = (5 << 20) + 17;
    log[at..at + MISSING.len()].copy_from_slice(MISSING.as_bytes());
    assert_eq!(only(&log).first, 1);
    // A message across every possible cut.
    for shift in (0..MISSING.len() + 8).step_by(7) {
        let mut log = vec![b' '; 200 << 10];
        let at = (64 << 10) - shift;
        log[at..at + MISSING.len()].copy_from_slice(MISSING.as_bytes());
        let mut reading = LogReader::default();
        log.chunks(4096).for_each(|piece| reading.take(piece));
        // A more general row may match what the cut leaves.
        for found in [reading.messages(), messages(&log)] {
            let whole = found
                .iter()
                .filter(|message| message.row.id == "missing-library");
            assert_eq!((whole.count(), found.len() <= 2), (1, true), "{shift}");
        }
    }
}

#[test]
fn pieces_of_any_size_give_one_result() {
    let log = format!("a\n\x1b[1m{MISSING}\x1b[0m\r\nb\n[rank1]: CUDA error: out of memory\n");
    let whole = messages(log.as_bytes());
    assert_eq!(whole.len(), 2);
    for size in 1..20 {
        let mut reading = LogReader::default();
        log.as_bytes()
            .chunks(size)
            .for_each(|piece| reading.take(piece));
        let found = reading.messages();
        assert!(
            whole
                .iter()
                .zip(&found)
                .all(|(one, other)| (one.first, &one.excerpt) == (other.first, &other.excerpt))
        );
        assert_eq!(found.len(), whole.len());
    }
}

#[test]
fn lines_that_are_left_out_are_counted() {
    let mut reading = LogReader::default();
    reading.take(b"one\ntwo\n");
    reading.pass_over("CUDA error: out of memory\n".repeat(100).as_bytes());
    reading.take(MISSING.as_bytes());
    let found = reading.messages();
    assert_eq!((found.len(), found[0].first), (1, 103));
}

#[test]
fn messages_inside_json_are_read() {
    let container = r#"{"log":"\u001b[31mRuntimeError: CUDA error: out of memory\u001b[0m\n","stream":"stderr"}"#;
    assert_eq!(only(container.as_bytes()).row.id, "out-of-memory");
    let notebook = "  \"RuntimeError: \\n\",\n  \"The detected CUDA version (12.2) mismatches the version that was used to compile\\n\",\n  \"PyTorch (11.3). Please\\n\"";
    let found = only(notebook.as_bytes());
    assert_eq!(
        (found.row.id.as_str(), found.captures.get(Capture::Wanted)),
        ("toolkit-mismatch", Some("11.3"))
    );
    let path = r#"OSError: "C:\new\torch\lib\c10.dll" or one of its dependencies"#;
    assert_eq!(only(path.as_bytes()).row.id, "windows");
}

#[test]
fn a_traceback_of_a_notebook_is_read() {
    let log = "\x1b[0;31m---------\x1b[0m\n\x1b[0;31mImportError\x1b[0m       Traceback (most recent call last)\n\
        \x1b[0;31mImportError\x1b[0m: libcudart.so.\x1b[1m12\x1b[0m: cannot open shared object file: No such file or directory\n";
    let found = only(log.as_bytes());
    assert_eq!(
        (
            found.row.id.as_str(),
            found.captures.get(Capture::Soname),
            found.first
        ),
        ("missing-library", Some("libcudart.so.12"), 3)
    );
}

#[test]
fn messages_of_two_frameworks_are_both_told() {
    let torch = "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1}";
    let jax = "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 4 bytes.";
    for (log, expected) in [
        (
            format!("{torch}\n{jax}\n"),
            ["cudnn-sublibrary", "out-of-memory"],
        ),
        (
            format!("{jax}\n{torch}\n"),
            ["out-of-memory", "cudnn-sublibrary"],
        ),
    ] {
        let found = chain(&log);
        let leading: Vec<&str> = found
            .leading
            .iter()
            .map(|message| message.row.id.as_str())
            .collect();
        assert_eq!(leading, expected);
    }
}

#[test]
fn messages_of_windows_and_of_other_languages_are_read() {
    let log = "Could not load library cudnn_ops_infer64_8.dll. Error code 126";
    assert_eq!(
        only(log.as_bytes()).captures.get(Capture::Soname),
        Some("cudnn_ops_infer64_8.dll")
    );
    for translated in [
        "Kann die Shared-Object-Datei nicht öffnen: Datei oder Verzeichnis nicht gefunden",
        "ne peut ouvrir le fichier d'objet partagé: Aucun fichier ou dossier de ce type",
        "no se puede abrir el archivo del objeto compartido: No existe el archivo o el directorio",
        "共有オブジェクトファイルを開けません: そのようなファイルやディレクトリはありません",
        "无法打开共享对象文件: 没有那个文件或目录",
    ] {
        let found = only(format!("ImportError: libcudart.so.12: {translated}").as_bytes());
        assert_eq!(
            (found.row.id.as_str(), found.captures.get(Capture::Soname)),
            ("loader-translated", Some("libcudart.so.12"))
        );
    }
}

#[test]
fn prefixes_of_launchers_do_not_hide_the_second_line() {
    let second = "mismatches the version that was used to compile\nPyTorch (11.3).";
    let whole = format!("The detected CUDA version (12.2) {second}");
    for prefix in [
        "",
        "[rank3]: ",
        "[1,3]<stderr>: ",
        "[1]<stderr>:",
        "2026-11-22T23:42:31.123456789Z stderr F ",
        "#12 3.456 ",
        "web_1    | ",
        "node01: ",
        "(EngineCore_0 pid=99) ERROR 11-22 23:42:31 [core.py:708] ",
        "3: ",
        "trainer-1  | ",
        "(RayWorker pid=99, ip=10.0.0.1) ",
        "(EngineCore_0 pid=99) ",
        "[pod/train-0/main] ",
        "2026-11-22T23:42:31.123Z ",
        "2026-11-22 23:42:31,123 ",
        "[2026-11-22 23:42:31] ",
        "Nov 22 23:42:31 machine python[99]: ",
        "[   77.123456] ",
        "Nov 22 23:42:31 machine kernel: [   77.123456] ",
        "[default0]:[rank0]: ",
    ] {
        let log: String = whole
            .lines()
            .map(|line| format!("{prefix}{line}\n"))
            .collect();
        let found = only(log.as_bytes());
        assert_eq!(
            found.captures.get(Capture::Wanted),
            Some("11.3"),
            "{prefix}"
        );
    }
}

#[test]
fn ranks_that_say_one_thing_are_one_message() {
    let mut log = String::new();
    for line in [
        "The detected CUDA version (12.2) mismatches the version that was used to compile",
        "PyTorch (11.3).",
    ] {
        (0..64).for_each(|rank| log += &format!("[rank{rank}]: {line}\n"));
    }
    let found = only(log.as_bytes());
    assert_eq!(
        (found.speakers.len(), found.count, found.first, found.last),
        (64, 64, 1, 64)
    );
    assert_eq!(found.captures.get(Capture::Wanted), Some("11.3"));
}

#[test]
fn a_symptom_yields_to_a_root_before_it() {
    let root = "Unable to load any of {libcudnn_ops.so.9.1.0, libcudnn_ops.so.9.1}";
    let symptom = "Invalid handle. Cannot load symbol cudnnCreateTensorDescriptor";
    let both = chain(&format!("{root}\n{symptom}\n"));
    assert_eq!(both.chosen().unwrap().row.id, "cudnn-sublibrary");
    assert_eq!((both.leading.len(), both.following.len()), (1, 1));
    let alone = chain(symptom);
    assert_eq!(alone.chosen().unwrap().row.kind, ErrorKind::Symptom);
    // A root may come too late, or too long before.
    for (log, leading) in [
        (format!("{symptom}\n{root}"), 2),
        (format!("{root}\n{}{symptom}", "\n".repeat(199)), 1),
        (format!("{root}\n{}{symptom}", "\n".repeat(201)), 2),
    ] {
        let found = chain(&log);
        assert_eq!(
            (found.chosen().unwrap().row.id.as_str(), found.leading.len()),
            ("cudnn-sublibrary", leading)
        );
    }
}

#[test]
fn the_earliest_root_of_any_rank_leads() {
    let log = format!(
        "[rank1]: CUDA error: out of memory\n[rank0]: {MISSING}\n[rank2]: CUDA error: out of memory\n"
    );
    let found = chain(&log);
    let leading: Vec<&str> = found
        .leading
        .iter()
        .map(|message| message.row.id.as_str())
        .collect();
    assert_eq!(leading, ["out-of-memory", "missing-library"]);
    assert_eq!(found.leading[0].count, 2);
}

#[test]
fn harmless_messages_never_lead() {
    let harmless = "TF-TRT Warning: Could not find TensorRT";
    let found = chain(harmless);
    assert!(found.chosen().is_none());
    assert_eq!(found.harmless.len(), 1);
    assert_eq!(
        chain(&format!("{harmless}\n{MISSING}"))
            .chosen()
            .unwrap()
            .row
            .id,
        "missing-library"
    );
}

#[test]
fn nothing_but_the_matched_text_is_kept() {
    let secret = "TOKEN=hunter2";
    let log = format!("{secret} {MISSING} {secret}\n{secret}\n");
    assert!(!format!("{:?}", messages(log.as_bytes())).contains("hunter2"));
    let long = format!("CUDA error: {}", "x".repeat(5000));
    assert!(messages(long.as_bytes())[0].excerpt.chars().count() <= 200);
    // A match may have anything between its two ends.
    for text in [
        "GPU worker started with HF_TOKEN=hunter2 and failed",
        "CUDA job url=https://user:hunter2@host could not start",
        "nvidia-smi --password hunter2 returned an error",
        "docker login -p hunter2 nvcr/nvidia: error",
    ] {
        let shown = only(text.as_bytes()).excerpt;
        assert!(!shown.contains("hunter2") && shown.contains('…'), "{shown}");
    }
    let whole =
        only(b"modprobe: ERROR: could not insert 'nvidia_uvm': Operation not permitted").excerpt;
    assert_eq!(
        whole, "could not insert 'nvidia_uvm'",
        "the last word is whole"
    );
    let hostile = only(b"undefined symbol: cudnnCreate \xff\x1b[2J").excerpt;
    assert!(!hostile.contains('\x1b'));
}

#[test]
fn one_row_cannot_crowd_out_the_others() {
    let many: String = (0..20_000)
        .map(|number| format!("undefined symbol: symbol_{number}\n"))
        .collect();
    let found = messages(format!("{MISSING}\n{many}{MISSING}\n").as_bytes());
    let missing = found
        .iter()
        .find(|message| message.row.id == "missing-library")
        .unwrap();
    assert_eq!(
        (
            found.len() < 100,
            missing.count,
            missing.first,
            missing.last
        ),
        (true, 2, 1, 20_002)
    );
    // Lines that could begin a message, each of another process.
    let many: String = (0..5000)
        .map(|number| format!("[rank{number}]: CUDA error: out of memory\n"))
        .collect();
    let found = Chain::new(messages(many.as_bytes()));
    assert_eq!((found.leading.len(), found.leading[0].count), (1, 5000));
}

/// Each line beside its neighbour, which is a failure.
const ORDINARY: &[(&str, &str)] = &[
    ("Training ResNet on GPU 0", "ResNet: GPU 0 isn't usable"),
    ("cuInit of unit 3 done", "cuInit didn\u{2019}t end"),
    (
        "Requirement already satisfied: nvidia-cublas-cu12 in ./lib",
        "this requires nvidia-cublas-cu12",
    ),
    (
        "calling torch.cuda.empty_cache()",
        "file /x/libcuda.so.1 is empty",
    ),
    ("GPU 0 supports bf16", "GPU 0 has no bf16"),
    (
        "PyTorch 2.5 compiled with CUDA 12.4",
        "PyTorch compiled without CUDA",
    ),
    ("GPU 0: no errors", "GPU 0: errors"),
    ("ECC errors: 0", "ECC errors: 12"),
    (
        "ECC errors: 0, XID none, 0 failed GPUs",
        "ECC errors: 0, 3 failed GPUs",
    ),
    (
        "nvidia-persistenced exited with code 0",
        "nvidia-persistenced exited with code 1",
    ),
    (
        "nvidia-smi: No running processes found",
        "nvidia-smi: No devices were found",
    ),
    (
        "invalid syntax on line 30",
        "a wrapper got an unknown error code: 999",
    ),
    ("802 passed, 0 failed", "failed: cuSomething() = 802"),
    ("ERROR request took 804 ms", "ERROR compat: cuda status 804"),
    ("make: *** [lib/foo.o] Error 1", "make: *** no nvcc"),
    (
        "error: fork the repository",
        "error: a forked process of CUDA",
    ),
];

#[test]
fn an_ordinary_line_gives_no_clue() {
    for (ordinary, failure) in ORDINARY {
        assert!(messages(ordinary.as_bytes()).is_empty(), "{ordinary}");
        assert!(!messages(failure.as_bytes()).is_empty(), "{failure}");
    }
}

#[test]
fn the_last_of_equal_clues_is_shown_with_what_all_of_a_line_state() {
    let log = "GPU flag: error 5\n\nmy GPU launcher failed\n";
    let found = only(log.as_bytes());
    assert_eq!((found.first, found.count), (3, 2));
    assert_eq!(found.excerpt, "GPU launcher failed");

    let one = "nccl wrapper: bad libnccl.so.2: cannot load\n";
    let other = "nccl wrapper: bad libnccl-net.so.0: cannot load\n";
    let found = messages([one, other, one].concat().as_bytes());
    let stated = found
        .iter()
        .map(|message| (message.first, message.captures.get(Capture::Soname)));
    assert!(stated.eq([(2, Some("libnccl-net.so.0")), (3, Some("libnccl.so.2"))]));
}

#[test]
fn no_message_goes_on_after_a_part_that_is_left_out() {
    let begin =
        "The detected CUDA version (12.2) mismatches the version that was used to compile\n";
    let end = "PyTorch (11.3). Please\n";
    let wanted = |log: LogReader| {
        let found = log.messages();
        let mut wanted = found
            .iter()
            .map(|found| found.captures.get(Capture::Wanted));
        wanted.any(|wanted| wanted == Some("11.3"))
    };
    let mut log = LogReader::default();
    log.take(begin.as_bytes());
    log.take(end.as_bytes());
    assert!(wanted(log));
    let mut log = LogReader::default();
    log.take(begin.as_bytes());
    log.pass_over(b"one\ntwo\n");
    log.take(end.as_bytes());
    assert!(!wanted(log));
}

#[test]
fn a_line_that_is_cut_gives_no_clue() {
    let mut log = LogReader::default();
    log.take(b"first\n");
    log.pass_over(b"a line of which the end is read: GPU ");
    log.take(b"error of the driver\nlast\n");
    assert!(log.messages().is_empty());
    let mut log = LogReader::default();
    log.take(b"first\n");
    log.pass_over(b"a line\nof which the end is read: GPU ");
    log.take(b"x\nGPU error of the driver\n");
    assert_eq!(log.messages()[0].first, 4);
}

#[test]
fn a_log_in_utf_16_is_read() {
    let mut log = b"\xff\xfe".to_vec();
    log.extend(
        format!("one\n{MISSING}\n")
            .encode_utf16()
            .flat_map(u16::to_le_bytes),
    );
    assert_eq!(only(&log).first, 2);
    // The control: without its mark it may be any bytes.
    assert!(messages(&log[2..]).is_empty());
}
