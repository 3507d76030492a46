//! The proof, with a driver and a cuDNN built here whose behaviour a variable sets: whatever happens to the
//! child is a verdict, within the time limit, and never a crash of cudarun.

use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use cudarun::cache::proofs::{self, Turn};
use cudarun::environment::Environment;
use cudarun::host::Host;
use cudarun::inventory::{self, Scope};
use cudarun::solve::{Criterion, Pick, Plan};
use cudarun::verify::protocol::Step;
use cudarun::verify::{self, Failure, Skip, Verdict};

use crate::support::{CUDARUN, Workshop};

/// A driver whose device memory is the host's.
const DRIVER: &str = r#"
#include <stdlib.h>
#include <string.h>
static int is(const char *what) { const char *mode = getenv("STAND_IN"); return mode && !strcmp(mode, what); }
__attribute__((used)) static const char stamp[] = "libnvidia-pkcs11-openssl3.so.580.1.2";
int cuInit(unsigned flags) { return is("no-device") ? 100 : is("mismatch") ? 803 : 0; }
int cuDriverGetVersion(int *v) { *v = 13000; return 0; }
int cuGetErrorName(int code, const char **name)
{
    *name = code == 803 ? "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH" : "CUDA_ERROR_OTHER";
    return 0;
}
int cuDeviceGet(int *device, int ordinal) { *device = 0; return 0; }
int cuDeviceGetName(char *name, int size, int device) { strncpy(name, "Stand-in", size); return 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { *value = attribute == 75 ? 9 : 0; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)1; return 0; }
int cuCtxSetCurrent(void *context) { return 0; }
int cuCtxSynchronize(void) { return 0; }
int cuMemAlloc_v2(unsigned long long *address, size_t size)
{
    *address = (unsigned long long)malloc(size);
    return is("out-of-memory") ? 2 : 0;
}
int cuMemcpyHtoD_v2(unsigned long long to, const void *from, size_t size) { memcpy((void *)to, from, size); return 0; }
int cuMemcpyDtoH_v2(void *to, unsigned long long from, size_t size) { memcpy(to, (void *)from, size); return 0; }
"#;

/// A cuDNN that convolves on the CPU, and misbehaves as it is told.
const CUDNN: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is(const char *what) { const char *mode = getenv("STAND_IN"); return mode && !strcmp(mode, what); }
size_t cudnnGetVersion(void) { return 91900; }
const char *cudnnGetErrorString(int status) { return status == 1001 ? "CUDNN_STATUS_NOT_INITIALIZED" : "CUDNN_STATUS_OTHER"; }
void cudnnGetLastErrorString(char *text, size_t size) { snprintf(text, size, "a reason"); }
int cudnnCreate(void **handle)
{
    *handle = (void *)1;
    if (is("abort")) {
        fprintf(stderr, "\nUnable to load any of {libcudnn_graph.so.9.19.0}\n\n");
        abort();
    }
    if (is("crash"))
        *(volatile int *)0 = 1;
    if (is("hang"))
        for (;;)
            pause();
    if (is("leave"))
        _exit(0);
    if (is("leave-group")) {
        setpgid(0, getpgid(getppid()));
        for (;;)
            pause();
    }
    if (is("escape") && !fork()) {
        setsid();
        sleep(30);
        _exit(0);
    }
    if (is("fork"))
        if (!fork())
            for (;;)
                pause();
    if (is("noise"))
        for (int i = 0; i < 100000; i++)
            printf("{\"cudarun\":1,\"line\":{\"report\":\"passed\"}} noise noise noise noise\n"), fflush(stdout);
    if (is("foreign") && !dlopen(getenv("FOREIGN"), RTLD_NOW))
        return 1;
    return is("refuse") ? 1001 : 0;
}
__attribute__((destructor)) static void end(void) { if (is("crash-late")) abort(); }
int cudnnDestroy(void *handle) { return 0; }
static int new(void **d) { *d = (void *)1; return 0; }
int cudnnCreateTensorDescriptor(void **d) { return new(d); }
int cudnnCreateFilterDescriptor(void **d) { return new(d); }
int cudnnCreateConvolutionDescriptor(void **d) { return new(d); }
int cudnnSetTensor4dDescriptor(void *d, int format, int type, int n, int c, int h, int w) { return 0; }
int cudnnSetFilter4dDescriptor(void *d, int type, int format, int k, int c, int h, int w) { return 0; }
int cudnnSetConvolution2dDescriptor(void *d, int a, int b, int c, int e, int f, int g, int m, int t) { return 0; }
int cudnnGetConvolutionForwardWorkspaceSize(void *h, void *x, void *w, void *c, void *y, int a, size_t *s) { *s = 64; return 0; }
int cudnnConvolutionForward(void *h, const float *alpha, void *xd, const float *x, void *wd, const float *w, void *cd, int a,
                            void *ws, size_t size, const float *beta, void *yd, float *y)
{
    for (int k = 0; k < 4; k++)
        for (int p = 0; p < 8; p++)
            for (int q = 0; q < 8; q++) {
                float sum = 0;
                for (int c = 0; c < 3; c++)
                    for (int r = 0; r < 3; r++)
                        for (int s = 0; s < 3; s++) {
                            int i = p + r - 1, j = q + s - 1;
                            if (i >= 0 && j >= 0 && i < 8 && j < 8)
                                sum += x[(c * 8 + i) * 8 + j] * w[((k * 3 + c) * 3 + r) * 3 + s];
                        }
                y[(k * 8 + p) * 8 + q] = sum;
            }
    if (is("wrong"))
        y[100] += 0.5f;
    if (is("nan"))
        y[7] = 0.0f / 0.0f;
    return is("no-engine") ? 3000 : 0;
}
"#;

struct World {
    workshop: Workshop,
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let workshop = Workshop::new();
    workshop.library("set/libcuda.so.1", "libcuda.so.1", DRIVER, &[]);
    workshop.library("set/libcudnn.so.9", "libcudnn.so.9", CUDNN, &[]);
    workshop.library("set/libcudart.so.13", "libcudart.so.13", "int nothing;", &[]);
    workshop.library("other/libcublas.so.13", "libcublas.so.13", "int nothing;", &[]);
    World { workshop }
});

impl World {
    fn path(&self, below: &str) -> PathBuf {
        self.workshop.path(below).canonicalize().unwrap()
    }

    /// A plan of what stands in `set`, as the inventory reads it.
    fn plan(&self) -> Plan {
        let host = Host::here();
        let scope = Scope { machine: 62, own_directories: vec![self.path("set")], ..Scope::default() };
        let inventory = inventory::scan(&host, &scope, &mut inventory::Known::default());
        let mine = inventory.copies.into_iter().filter(|copy| copy.directory == self.path("set"));
        let picks: Vec<Pick> =
            mine.map(|copy| Pick { copy, asked_by: Vec::new(), decided_by: Criterion::OnlyOne }).collect();
        assert_eq!(picks.len(), 3);
        Plan {
            picks,
            rejected: Vec::new(),
            absent: Vec::new(),
            unpinned: Vec::new(),
            cautions: Vec::new(),
            tombstones: Vec::new(),
            library_path: Vec::new(),
            preload: Vec::new(),
            driver_in_view: false,
        }
    }

    fn prove(&self, mode: &str, limit: Duration) -> Verdict {
        self.prove_plan(&self.plan(), mode, limit)
    }

    fn prove_plan(&self, plan: &Plan, mode: &str, limit: Duration) -> Verdict {
        let env: Environment = [
            ("LD_LIBRARY_PATH", self.path("set").display().to_string()),
            ("STAND_IN", mode.to_owned()),
            ("FOREIGN", self.path("other/libcublas.so.13").display().to_string()),
        ]
        .into_iter()
        .collect();
        verify::run(&Host::here(), Path::new(CUDARUN), plan, &env, limit).unwrap()
    }

    #[track_caller]
    fn failure(&self, mode: &str) -> Failure {
        match self.prove(mode, Duration::from_secs(20)) {
            Verdict::Failed { failure, .. } => failure,
            other => panic!("{mode}: {other:?}"),
        }
    }
}

#[test]
fn a_set_that_works_is_proved() {
    let Verdict::Passed { steps, finding } = WORLD.prove("", Duration::from_secs(20)) else { panic!() };
    assert_eq!(finding.cudnn, Some(91900));
    assert_eq!(finding.driver_cuda, Some(13000));
    assert_eq!(finding.device.as_deref(), Some("Stand-in"));
    assert_eq!(finding.capability.as_deref(), Some("9.0"));
    assert_eq!(finding.largest_error, Some(0.0));
    assert_eq!(finding.mapped.len(), 3);
    let taken: Vec<Step> = steps.iter().map(|taken| taken.step).collect();
    let expected = [
        Step::LoadDriver,
        Step::CuInit,
        Step::Device,
        Step::LoadCudnn,
        Step::CudnnVersion,
        Step::CudnnCreate,
        Step::Convolution,
        Step::Compare,
        Step::LoadOthers,
        Step::Mapped,
    ];
    assert_eq!(taken, expected);
}

#[test]
fn codes_are_reported_with_the_call_that_gave_them() {
    let status = |mode: &str| match WORLD.failure(mode) {
        Failure::Status { step, call, code, name, message } => (step, call, code, name, message),
        other => panic!("{mode}: {other:?}"),
    };
    let text = |text: &str| Some(text.to_owned());
    assert_eq!(
        status("mismatch"),
        (Step::CuInit, "cuInit".into(), 803, text("CUDA_ERROR_SYSTEM_DRIVER_MISMATCH"), None)
    );
    let refused = (
        Step::CudnnCreate,
        "cudnnCreate".into(),
        1001,
        text("CUDNN_STATUS_NOT_INITIALIZED"),
        text("a reason"),
    );
    assert_eq!(status("refuse"), refused);
    assert_eq!(status("no-engine").2, 3000);
    assert_eq!(status("out-of-memory").1, "cuMemAlloc");
}

#[test]
fn wrong_numbers_are_found_however_few() {
    assert_eq!(WORLD.failure("wrong"), Failure::WrongNumbers { largest_error: Some(0.5), at: 100 });
    assert_eq!(WORLD.failure("nan"), Failure::WrongNumbers { largest_error: None, at: 7 });
}

#[test]
fn a_child_that_dies_is_placed_and_quoted() {
    let Failure::Signal { step, signal, last_words } = WORLD.failure("abort") else { panic!() };
    assert_eq!((step, signal), (Some(Step::CudnnCreate), 6));
    assert_eq!(last_words.as_deref(), Some("Unable to load any of {libcudnn_graph.so.9.19.0}"));
    let Failure::Signal { step, signal: 11, .. } = WORLD.failure("crash") else { panic!() };
    assert_eq!(step, Some(Step::CudnnCreate));
    let Failure::Exited { step, code: Some(0), .. } = WORLD.failure("leave") else { panic!() };
    assert_eq!(step, Some(Step::CudnnCreate));
}

/// What a library does as the process ends is nobody's proof.
#[test]
fn a_crash_after_the_report_is_no_failure() {
    assert!(matches!(WORLD.prove("crash-late", Duration::from_secs(20)), Verdict::Passed { .. }));
}

/// Under a parent that ignores SIGCHLD nobody learns how a child ended: its report decides, and without one
/// there is no proof. Runs again in a process of its own, since a disposition is the whole process's.
#[test]
fn without_an_exit_status_the_report_decides() {
    const ALONE: &str = "CUDARUN_TESTS_ALONE";
    if std::env::var_os(ALONE).is_none() {
        let mut again = std::process::Command::new(std::env::current_exe().unwrap());
        again.args(["proof::without_an_exit_status_the_report_decides", "--exact"]).env(ALONE, "");
        let output = again.output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    assert!(matches!(WORLD.prove("", Duration::from_secs(20)), Verdict::Passed { .. }), "the control");
    let plan = WORLD.plan();
    let prove = |mode| WORLD.prove_plan(&plan, mode, Duration::from_secs(20));
    // SAFETY: sets a disposition, and no handler.
    #[allow(unsafe_code)]
    unsafe {
        nix::sys::signal::signal(nix::sys::signal::Signal::SIGCHLD, nix::sys::signal::SigHandler::SigIgn)
            .unwrap();
    }
    assert!(matches!(prove(""), Verdict::Passed { .. }));
    for mode in ["abort", "leave"] {
        let verdict = prove(mode);
        let Verdict::Failed { failure: Failure::Exited { step, code: None, .. }, .. } = verdict else {
            panic!("{mode}: {verdict:?}")
        };
        assert_eq!(step, Some(Step::CudnnCreate));
    }
}

#[test]
fn a_child_that_hangs_is_ended_in_time() {
    let started = Instant::now();
    let Verdict::Failed { failure, .. } = WORLD.prove("hang", Duration::from_secs(2)) else { panic!() };
    assert_eq!(failure, Failure::TimedOut { step: Some(Step::CudnnCreate), seconds: 2 });
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn a_child_that_has_left_its_group_is_ended_in_time() {
    let started = Instant::now();
    let verdict = WORLD.prove("leave-group", Duration::from_secs(2));
    let Verdict::Failed { failure: Failure::TimedOut { .. }, .. } = verdict else { panic!("{verdict:?}") };
    assert!(started.elapsed() < Duration::from_secs(15));
}

/// It lives for half a minute, in a session of its own.
#[test]
fn what_holds_the_childs_outputs_open_is_not_waited_for() {
    let started = Instant::now();
    assert!(matches!(WORLD.prove("escape", Duration::from_secs(20)), Verdict::Passed { .. }));
    assert!(started.elapsed() < Duration::from_secs(15));
}

#[test]
fn what_a_child_leaves_running_goes_with_it() {
    assert!(matches!(WORLD.prove("fork", Duration::from_secs(20)), Verdict::Passed { .. }));
    let set = WORLD.path("set/libcudnn.so.9").display().to_string();
    let left = || {
        let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
            let pid: u32 = entry.unwrap().file_name().to_str()?.parse().ok()?;
            let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
            let is_ours = String::from_utf8_lossy(&environment).contains("STAND_IN=fork");
            let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).ok()?;
            (is_ours && maps.contains(&set)).then_some(pid)
        });
        processes.count()
    };
    let started = Instant::now();
    while left() > 0 {
        assert!(started.elapsed() < Duration::from_secs(5), "a process is left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_libraries_print_is_not_taken_for_a_report() {
    assert!(matches!(WORLD.prove("noise", Duration::from_secs(20)), Verdict::Passed { .. }));
}

#[test]
fn files_from_elsewhere_are_a_failure() {
    assert_eq!(
        WORLD.failure("foreign"),
        Failure::Foreign { files: vec![WORLD.path("other/libcublas.so.13")] }
    );
}

#[test]
fn hidden_gpus_are_no_fault_of_the_libraries() {
    let Failure::Status { code: 100, message: None, .. } = WORLD.failure("no-device") else { panic!() };
    let prove = |visible: &str| {
        let env: Environment = [
            ("LD_LIBRARY_PATH", WORLD.path("set").display().to_string()),
            ("STAND_IN", "no-device".to_owned()),
            ("CUDA_VISIBLE_DEVICES", visible.to_owned()),
        ]
        .into_iter()
        .collect();
        let limit = Duration::from_secs(20);
        verify::run(&Host::here(), Path::new(CUDARUN), &WORLD.plan(), &env, limit).unwrap()
    };
    for hidden in ["", " ", "-1", "-1,0", "NoDevFiles"] {
        assert_eq!(prove(hidden), Verdict::Skipped { why: Skip::GpusHidden }, "{hidden:?}");
    }
    for meant in ["0", "7", "GPU-1b2c", "0,-1"] {
        let Verdict::Failed { failure: Failure::Status { code: 100, message, .. }, .. } = prove(meant) else {
            panic!("{meant}")
        };
        assert_eq!(message, Some(format!("CUDA_VISIBLE_DEVICES is `{meant}`")));
    }
}

#[test]
fn a_library_that_does_not_load_is_named() {
    let mut plan = WORLD.plan();
    let cudnn = plan.picks.iter_mut().find(|pick| pick.copy.family == "cudnn").unwrap();
    cudnn.copy.files[0].soname = "libcudnn.so.77".to_owned();
    let env: Environment =
        [("LD_LIBRARY_PATH", WORLD.path("set").display().to_string())].into_iter().collect();
    let verdict =
        verify::run(&Host::here(), Path::new(CUDARUN), &plan, &env, Duration::from_secs(20)).unwrap();
    let Verdict::Failed { failure: Failure::Load { step, name, message }, .. } = verdict else {
        panic!("{verdict:?}")
    };
    assert_eq!((step, name.as_str()), (Step::LoadCudnn, "libcudnn.so.77"));
    assert!(message.contains("cannot open shared object file"), "{message}");
}

#[test]
fn what_was_proved_is_said_as_it_was_found() {
    use cudarun::verify::protocol::Finding;
    let style = cudarun::report::Style::new(clap::ColorChoice::Never, false, None, None);
    let say = |error: f64| {
        let finding = Finding { cudnn: Some(91900), largest_error: Some(error), ..Finding::default() };
        cudarun::report::verdict(&Verdict::Passed { steps: Vec::new(), finding }, style)
    };
    assert!(say(0.0).contains("cuDNN 9.19.0: a convolution equals the CPU's\n"), "{}", say(0.0));
    assert!(say(2e-6).contains("a convolution is within 2e-6 of the CPU's\n"), "{}", say(2e-6));
    let ended = |code| {
        let failure = Failure::Exited { step: Some(Step::CuInit), code, last_words: None };
        cudarun::report::verdict(&Verdict::Failed { steps: Vec::new(), failure }, style)
    };
    assert!(ended(Some(3)).contains("it ended with status 3 and no report at \"cuInit\""));
    assert!(ended(None).contains("it ended without a report at \"cuInit\""));
}

/// The directory of proofs below a home of its own, as processes of one machine share it.
fn places() -> (tempfile::TempDir, Vec<PathBuf>) {
    let home = tempfile::tempdir().unwrap();
    let places = vec![home.path().join("cache"), home.path().join("other")];
    (home, places)
}

/// What each of so many does that begin at once: how many proved, and how many took another's word.
fn all_at_once(count: usize, places: &[PathBuf], prove: impl Fn(&Host) + Sync) -> (usize, usize) {
    let (proved, believed) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let host = Host::here();
    std::thread::scope(|scope| {
        for _ in 0..count {
            scope.spawn(|| match proofs::await_turn(&host, places, "set", Duration::from_secs(20)) {
                Turn::Proved => believed.fetch_add(1, Ordering::SeqCst),
                Turn::Ours(_turn) => {
                    prove(&host);
                    proved.fetch_add(1, Ordering::SeqCst)
                }
            });
        }
    });
    (proved.into_inner(), believed.into_inner())
}

#[test]
fn of_many_that_start_at_once_one_proves() {
    let (_home, places) = places();
    let prove = |host: &Host| {
        std::thread::sleep(Duration::from_millis(100));
        proofs::keep(host, &places, "set");
    };
    let began = Instant::now();
    assert_eq!(all_at_once(64, &places, prove), (1, 63));
    assert!(began.elapsed() < Duration::from_secs(10));
    assert_eq!(all_at_once(8, &places, |_| panic!("it is proved")), (0, 8));
}

#[test]
fn one_that_dies_hinders_nobody_and_one_that_fails_is_not_waited_for() {
    let (_home, places) = places();
    let dies = std::sync::atomic::AtomicBool::new(true);
    // The first goes without a word; the next proves it.
    let prove = |host: &Host| {
        if !dies.swap(false, Ordering::SeqCst) {
            proofs::keep(host, &places, "set");
        }
    };
    assert_eq!(all_at_once(16, &places, prove), (2, 14));
    let (_home, places) = self::places();
    let fail = |host: &Host| {
        std::thread::sleep(Duration::from_millis(200));
        proofs::give_up(host, &places, "set");
    };
    let began = Instant::now();
    assert_eq!(all_at_once(16, &places, fail), (16, 0), "each says why by itself");
    assert!(began.elapsed() < Duration::from_secs(2), "and none after the other: {:?}", began.elapsed());
}

#[test]
fn without_a_place_nobody_waits_and_nothing_is_kept() {
    let places = [PathBuf::from("/proc/nowhere"), PathBuf::from("/dev/null/below")];
    assert_eq!(all_at_once(4, &places, |host| proofs::keep(host, &places, "set")), (4, 0));
    // Where the first place takes nothing, the next does.
    let (_home, others) = self::places();
    let places = [places[0].clone(), others[0].clone()];
    let prove = |host: &Host| {
        std::thread::sleep(Duration::from_millis(50));
        proofs::keep(host, &places, "set");
    };
    assert_eq!(all_at_once(16, &places, prove), (1, 15));
}

#[test]
fn a_turn_is_not_waited_for_without_end() {
    let (_home, places) = places();
    let host = Host::here();
    let Turn::Ours(Some(_held)) = proofs::await_turn(&host, &places, "set", Duration::ZERO) else {
        panic!("nobody has it")
    };
    let limit = Duration::from_millis(80);
    let began = Instant::now();
    assert!(matches!(proofs::await_turn(&host, &places, "set", limit), Turn::Ours(None)));
    assert!(began.elapsed() >= limit);
    assert!(
        matches!(proofs::await_turn(&host, &places, "another", limit), Turn::Ours(Some(_))),
        "the control"
    );
}
