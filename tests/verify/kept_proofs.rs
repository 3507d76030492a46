//! Whose turn it is to prove, and what is kept of a proof.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant, SystemTime};

use cudarun::catalog::Fault;
use cudarun::host::Host;
use cudarun::modes::Level;
use cudarun::verify::kept_proofs::{self, AwaitedProof};
use cudarun::verify::{ChildFacts, Proof, ProofCause, StepFailure, Verdict};

/// The directory of proofs below a home of its own, as processes of one machine share it.
fn places() -> (tempfile::TempDir, Vec<PathBuf>) {
    let home = tempfile::tempdir().unwrap();
    let places = vec![home.path().join("cache"), home.path().join("other")];
    (home, places)
}

fn proof() -> Proof {
    let finding = ChildFacts {
        cudnn: [("libcudnn.so.9".to_owned(), 91900)].into(),
        ..ChildFacts::default()
    };
    Proof {
        level: Level::Conv,
        seed: 7,
        milliseconds: 1.5,
        steps: Vec::new(),
        finding,
    }
}

fn passed() -> Verdict {
    Verdict::Passed { proof: proof() }
}

fn failed(fault: Fault) -> Verdict {
    let cause = ProofCause {
        fault,
        evidence: Vec::new(),
        culprit: None,
    };
    Verdict::Failed {
        proof: proof(),
        failure: StepFailure::TimedOut {
            at: None,
            seconds: 1,
        },
        cause,
    }
}

fn names(name: &str) -> Vec<String> {
    vec![name.to_owned()]
}

/// Starts `count` of them at once, and counts how many proved and how many used another's result.
fn all_at_once(count: usize, places: &[PathBuf], prove: impl Fn(&Host) + Sync) -> (usize, usize) {
    let (proved, believed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let host = Host::here();
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| {
                match kept_proofs::await_turn(&host, places, &names("set"), Duration::from_secs(20))
                {
                    AwaitedProof::Known(_) => believed.fetch_add(1, Ordering::SeqCst),
                    AwaitedProof::Ours(_turn) => {
                        prove(&host);
                        proved.fetch_add(1, Ordering::SeqCst)
                    }
                }
            });
        }
    });
    (proved.into_inner(), believed.into_inner())
}

#[test]
fn one_of_many_simultaneous_starts_proves() {
    let (_home, places) = places();
    let prove = |host: &Host| {
        std::thread::sleep(Duration::from_millis(100));
        kept_proofs::keep(host, &places, "set", &passed());
    };
    let began = Instant::now();
    assert_eq!(
        all_at_once(64, &places, prove),
        (1, 63),
        "(those that proved, those that used another proof)"
    );
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(
        all_at_once(8, &places, |_| panic!("it is proved")),
        (0, 8),
        "(those that proved, those that used another proof)"
    );
}

#[test]
fn a_dead_prover_blocks_no_start_and_a_failed_one_is_not_awaited() {
    let (_home, places) = places();
    let dies = std::sync::atomic::AtomicBool::new(true);
    // The first goes without a word; the next proves it.
    let prove = |host: &Host| {
        if !dies.swap(false, Ordering::SeqCst) {
            kept_proofs::keep(host, &places, "set", &passed());
        }
    };
    assert_eq!(
        all_at_once(16, &places, prove),
        (2, 14),
        "(those that proved, those that used another proof)"
    );
    // A verdict that will change in a moment is not kept for others.
    for verdict in [failed(Fault::OutOfMemory), Verdict::Busy { proof: proof() }] {
        let (_home, places) = self::places();
        let fail = |host: &Host| {
            std::thread::sleep(Duration::from_millis(200));
            kept_proofs::keep(host, &places, "set", &verdict);
        };
        let began = Instant::now();
        assert_eq!(
            all_at_once(16, &places, fail),
            (16, 0),
            "each says why by itself"
        );
        assert!(
            began.elapsed() < Duration::from_secs(2),
            "and none after the other: {:?}",
            began.elapsed()
        );
    }
}

#[test]
fn without_a_cache_directory_starts_neither_wait_nor_keep_proofs() {
    let places = [
        PathBuf::from("/proc/nowhere"),
        PathBuf::from("/dev/null/below"),
    ];
    assert_eq!(
        all_at_once(4, &places, |host| kept_proofs::keep(
            host,
            &places,
            "set",
            &passed()
        )),
        (4, 0),
        "(those that proved, those that used another proof)"
    );
    // If the first place accepts no file, the next one does.
    let (_home, others) = self::places();
    let places = [places[0].clone(), others[0].clone()];
    let prove = |host: &Host| {
        std::thread::sleep(Duration::from_millis(50));
        kept_proofs::keep(host, &places, "set", &passed());
    };
    assert_eq!(
        all_at_once(16, &places, prove),
        (1, 15),
        "(those that proved, those that used another proof)"
    );
}

#[test]
fn waiting_for_another_proof_has_a_limit() {
    let (_home, places) = places();
    let host = Host::here();
    let AwaitedProof::Ours(Some(_held)) =
        kept_proofs::await_turn(&host, &places, &names("set"), Duration::ZERO)
    else {
        panic!("nobody has it")
    };
    let limit = Duration::from_millis(80);
    let began = Instant::now();
    assert!(matches!(
        kept_proofs::await_turn(&host, &places, &names("set"), limit),
        AwaitedProof::Ours(None)
    ));
    assert!(began.elapsed() >= limit);
    let another = kept_proofs::await_turn(&host, &places, &names("another"), limit);
    assert!(
        matches!(another, AwaitedProof::Ours(Some(_))),
        "the control"
    );
}

#[test]
fn a_verdict_is_kept_whole_and_a_failure_for_a_moment() {
    let (_home, places) = places();
    let host = Host::here();
    let find = |name: &str| kept_proofs::find(&host, &places, &names(name));
    kept_proofs::keep(&host, &places, "good", &passed());
    assert_eq!(find("good"), Some(passed()));
    kept_proofs::keep(&host, &places, "bad", &failed(Fault::WrongNumbers));
    assert_eq!(find("bad"), Some(failed(Fault::WrongNumbers)));
    let age = |name: &str, by: Duration| {
        let file = std::fs::File::options()
            .write(true)
            .open(places[0].join("proofs").join(name))
            .unwrap();
        file.set_modified(SystemTime::now() - by).unwrap();
    };
    age("bad", Duration::from_mins(3));
    assert_eq!(find("bad"), None, "what was mended is to work");
    age("good", Duration::from_hours(100));
    assert!(find("good").is_some());
    for kind in [
        Fault::OutOfMemory,
        Fault::GpuBusy,
        Fault::TimedOut,
        Fault::NotReady,
        Fault::DriverUnreachable,
    ] {
        kept_proofs::keep(&host, &places, "passing", &failed(kind));
        assert_eq!(find("passing"), None, "{kind:?}");
    }
    kept_proofs::keep(&host, &places, "busy", &Verdict::Busy { proof: proof() });
    assert_eq!(find("busy"), None);
    // A file from the future was written with a wrong clock.
    let tomorrow = std::fs::File::options()
        .write(true)
        .open(places[0].join("proofs/bad"))
        .unwrap();
    tomorrow
        .set_modified(SystemTime::now() + Duration::from_hours(5))
        .unwrap();
    assert_eq!(find("bad"), None);
    // A proof of more than was asked for may have failed on the rest.
    kept_proofs::keep(&host, &places, "more", &failed(Fault::WrongNumbers));
    assert!(find("more").is_some(), "the control");
    assert_eq!(
        kept_proofs::find(&host, &places, &["unknown".to_owned(), "more".to_owned()]),
        None
    );
    // Under any of the names that are asked for.
    let either = kept_proofs::find(&host, &places, &["unknown".to_owned(), "good".to_owned()]);
    assert!(either.is_some());
}

#[test]
fn damaged_and_foreign_entries_are_no_verdict() {
    let (_home, places) = places();
    let host = Host::here();
    let find = || kept_proofs::find(&host, &places, &names("set"));
    kept_proofs::keep(&host, &places, "set", &passed());
    let file = places[0].join("proofs/set");
    let whole = std::fs::read(&file).unwrap();
    assert!(find().is_some(), "the control");
    for damaged in [
        &whole[..whole.len() / 2],
        &b"passed"[..],
        &b"\0\0\0\0"[..],
        &b"{}"[..],
        &b""[..],
    ] {
        std::fs::write(&file, damaged).unwrap();
        assert_eq!(find(), None, "{}", String::from_utf8_lossy(damaged));
    }
    std::fs::write(&file, &whole).unwrap();
    let mode = |mode| {
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(mode);
        std::fs::set_permissions(&file, permissions).unwrap();
    };
    mode(0o666);
    assert_eq!(find(), None, "everybody could have written it");
    mode(0o600);
    assert!(find().is_some());
}
