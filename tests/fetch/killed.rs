//! Fetches that are killed, and many at once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Child, Command};
use std::sync::LazyLock;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::wheelhouse::{
    Packed, TestWheel, Wheelhouse, app, cudart, curand, names, noise, shown, sum,
};

/// Wheels that take a while.
static LARGE: LazyLock<Vec<TestWheel>> = LazyLock::new(|| {
    let large = [("cuda_runtime", cudart()), ("curand", curand())].map(|(directory, wheel)| {
        let large = Packed::new(format!("nvidia/{directory}/lib/large.bin"), noise(4 << 20));
        wheel.with(large).with(Packed::new(
            format!("nvidia/{directory}/lib/zeros.bin"),
            vec![0; 4 << 20],
        ))
    });
    large.into()
});
static LARGE_SUMS: LazyLock<Sums> = LazyLock::new(|| sums(&LARGE));

/// Wheels by the hash of their files.
pub(super) type Sums = BTreeMap<String, TestWheel>;

fn sums(wheels: &[TestWheel]) -> Sums {
    wheels
        .iter()
        .map(|wheel| (sum(&wheel.bytes()), wheel.clone()))
        .collect()
}

/// Every entry of a store is whole, and everything else has a name that is not an entry's.
#[track_caller]
pub(super) fn is_sound(store: &Path, wheels: &Sums) -> usize {
    let mut entries = 0;
    for name in names(store)
        .into_iter()
        .filter(|name| !name.starts_with('.'))
    {
        let wheel = &wheels[&name];
        for file in wheel
            .files
            .iter()
            .filter(|file| !file.name.ends_with(b"/RECORD"))
        {
            let path = store.join(&name).join(str::from_utf8(&file.name).unwrap());
            assert!(
                fs::read(&path).is_ok_and(|bytes| bytes == file.bytes),
                "{}",
                path.display()
            );
        }
        assert!(
            fs::read_to_string(store.join(&name).join("meta.toml"))
                .unwrap()
                .contains(&name)
        );
        entries += 1;
    }
    entries
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Numbers below 1, others in each run.
fn random() -> impl FnMut() -> f64 {
    let mut state = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .subsec_nanos()
        | 1;
    move || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        f64::from(state) / f64::from(u32::MAX)
    }
}

/// Kills a fetch at random points, each in a store of its own, and fetches after each. Returns the numbers of entries that
/// the killed ones have left.
fn killed_at_random_points(
    count: usize,
    house: &Wheelhouse,
    has_client: bool,
    fetch: &dyn Fn() -> Command,
) -> Vec<usize> {
    let mut random = random();
    let in_store = |at: usize| {
        let mut command = fetch();
        command.env("XDG_DATA_HOME", house.path(&format!("data-{at}")));
        command
    };
    let begun = Instant::now();
    let control = in_store(count).output().unwrap();
    assert!(control.status.success(), "{}", shown(&control));
    let whole = begun.elapsed();
    let mut left = Vec::new();
    for at in 0..count {
        let child = in_store(at).spawn().unwrap();
        thread::sleep(whole.mul_f64(random()));
        kill(child);
        let store = house.path(&format!("data-{at}/cudarun/store"));
        left.push(is_sound(&store, &LARGE_SUMS));
        let again = in_store(at).output().unwrap();
        assert!(again.status.success(), "{at}: {}", shown(&again));
        assert_eq!(is_sound(&store, &LARGE_SUMS), 2);
        let prune = || {
            let mut command = house.command(&["fetch", "prune"]);
            let data = house.path(&format!("data-{at}"));
            shown(&command.env("XDG_DATA_HOME", data).output().unwrap())
        };
        // The last entry was whole when the fetch was killed, so the second one wrote nothing, or the client of the killed
        // one goes on for a while, and makes its directory again.
        if left[at] == 2 || has_client {
            await_that(|| prune() == "nothing to remove\n" && names(&store).len() == 3);
        }
        assert_eq!(names(&store).len(), 3, "{left:?} {:?}", names(&store));
        assert_eq!(is_sound(&store, &LARGE_SUMS), 2);
        fs::remove_dir_all(house.path(&format!("data-{at}"))).unwrap();
    }
    left
}

#[test]
fn a_fetch_that_is_killed_leaves_nothing_half_written() {
    let house = Wheelhouse::new(&LARGE);
    let wheels = house.path("wheels");
    let words = [
        "fetch",
        "--yes",
        "--from",
        wheels.to_str().unwrap(),
        "cudart",
        "curand",
        "--cuda",
        "12",
    ];
    let left = killed_at_random_points(50, &house, false, &|| house.command(&words));
    assert!(
        left.contains(&0) && left.contains(&1),
        "the points are not spread: {left:?}"
    );
}

#[test]
fn a_fetch_with_pip_that_is_killed_leaves_nothing_half_written() {
    let house = Wheelhouse::new(&LARGE);
    let Some(pip) = house.pip() else { return };
    killed_at_random_points(5, &house, true, &|| {
        pip.command(&["fetch", "--yes", "cudart", "curand"])
    });
}

#[test]
fn the_client_of_a_killed_fetch_disturbs_no_other() {
    let house = Wheelhouse::new(&LARGE);
    let Some(pip) = house.pip() else { return };
    // The first client goes on when its cudarun is killed, and ends before the second.
    let slow =
        "PATH=/usr/bin:/bin\nif mkdir \"$0.first\" 2>/dev/null; then sleep 1; else sleep 3; fi\n";
    let real = fs::read_to_string(house.path("bin/pip")).unwrap();
    house.script(
        "pip",
        &(real.replace("exec ", slow) + "echo $? >>\"$0.ended\"\n"),
    );
    let words = ["fetch", "--yes", "cudart"];
    let child = pip.command(&words).spawn().unwrap();
    await_that(|| house.path("bin/pip.first").exists());
    kill(child);
    let again = pip.command(&words).output().unwrap();
    assert!(again.status.success(), "{}", shown(&again));
    let ended = fs::read_to_string(house.path("bin/pip.ended")).unwrap();
    assert_eq!(ended.lines().count(), 2, "{ended}");
    let calls = fs::read_to_string(house.path("calls")).unwrap();
    let places: BTreeSet<&str> = calls.lines().collect();
    assert_eq!(places.len(), 2, "both write into one directory: {places:?}");
    assert_eq!(is_sound(&house.store(), &LARGE_SUMS), 1);
    house.fetch(&["curand"]).any_stderr().check();
    assert_eq!(is_sound(&house.store(), &LARGE_SUMS), 2);
    assert_eq!(
        names(&house.store()).len(),
        3,
        "{:?}",
        names(&house.store())
    );
}

#[track_caller]
fn await_that(mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_mins(5));
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn a_fetch_that_waits_goes_on_when_the_other_is_killed() {
    let house = Wheelhouse::new(&[cudart()]);
    let from = house.path("wheels");
    let words = ["fetch", "--yes", "--from", from.to_str().unwrap(), "cudart"];
    let store = house.store();
    fs::create_dir_all(&store).unwrap();
    Command::new("chmod")
        .args(["-R", "go-w"])
        .arg(house.path("home"))
        .status()
        .unwrap();
    let turn = fs::File::create(store.join(".turn")).unwrap();
    turn.lock().unwrap();
    let log = |name: &str| fs::File::create(house.path(name)).unwrap();
    let start = |name: &str| house.command(&words).stderr(log(name)).spawn().unwrap();
    let waits = |name: &str| {
        fs::read_to_string(house.path(name))
            .unwrap()
            .contains("waiting for another cudarun")
    };
    let (killed, mut other) = (start("killed"), start("other"));
    await_that(|| waits("killed") && waits("other"));
    kill(killed);
    assert!(other.try_wait().unwrap().is_none());
    house.has_no_entry();
    drop(turn);
    assert!(other.wait().unwrap().success());
    assert_eq!(is_sound(&store, &sums(&[cudart()])), 1);
}

#[test]
fn sixteen_starts_at_once_fetch_each_wheel_once() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    let Some(pip) = house.pip() else { return };
    let program = app("needs-both");
    let start = || {
        pip.command(&["--fetch", "--yes", &program])
            .spawn()
            .unwrap()
    };
    let all: Vec<Child> = (0..16).map(|_| start()).collect();
    for child in all {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", shown(&output));
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "cudart 12040, curand 10305\n"
        );
    }
    assert_eq!(pip.calls(), 2);
    assert_eq!(is_sound(&house.store(), &sums(&[cudart(), curand()])), 2);
}

#[test]
fn sixteen_starts_at_once_unpack_each_wheel_once() {
    let house = Wheelhouse::new(&[cudart(), curand()]);
    house.user_names_wheels();
    let program = app("needs-both");
    let start = || {
        house
            .command(&["--fetch", "--yes", &program])
            .spawn()
            .unwrap()
    };
    let all: Vec<Child> = (0..16).map(|_| start()).collect();
    let outputs: Vec<String> = all
        .into_iter()
        .map(|child| shown(&child.wait_with_output().unwrap()))
        .collect();
    assert!(
        outputs
            .iter()
            .all(|output| output.contains("cudart 12040, curand 10305\n")),
        "{outputs:#?}"
    );
    let fetched: usize = outputs
        .iter()
        .map(|output| output.matches("cudarun: fetched ").count())
        .sum();
    assert_eq!(fetched, 2, "{outputs:#?}");
}
