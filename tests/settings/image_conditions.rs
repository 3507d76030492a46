//! Conditions of container images, `NVIDIA_REQUIRE_*`.

use cudarun::environment::Environment;
use cudarun::requirements::Demand;
use cudarun::settings::container::requirements;

fn environment(pairs: &[(&str, &str)]) -> Environment {
    pairs.iter().copied().collect()
}

#[test]
fn versions_compare_by_all_of_their_numbers() {
    for (sign, version, yes, no) in [
        ("=", "470", "470.0", "470.57.02"),
        ("=", "12.4", "12.4", "12.5"),
        ("!=", "470", "470.57.02", "470.0.0"),
        ("<=", "470", "470.0", "470.57.02"),
        (">", "470", "470.57.02", "470.0"),
        (">=", "470", "470.57.02", "469.99"),
        ("<", "471", "470.57.02", "471.0"),
    ] {
        let text = format!("driver{sign}{version}");
        let (conditions, malformed) =
            requirements(&environment(&[("NVIDIA_REQUIRE_DRIVER", &text)]));
        assert_eq!(malformed, []);
        let Demand::Any(alternatives) = &conditions[0].demand else {
            panic!("{text}")
        };
        let [Demand::Driver(range)] = &alternatives[0][..] else {
            panic!("{text}")
        };
        assert!(range.allows(&yes.parse().unwrap()), "{text}: {yes}");
        assert!(!range.allows(&no.parse().unwrap()), "{text}: {no}");
    }
}

#[test]
fn every_variable_must_hold_and_one_can_turn_all_off() {
    let two = [
        ("NVIDIA_REQUIRE_CUDA", "cuda>=12.4"),
        ("NVIDIA_REQUIRE_JETPACK", "arch>=7.2 brand=x"),
    ];
    let (found, malformed) = requirements(&environment(&two));
    assert_eq!(found.len(), 2, "one condition for each variable");
    assert_eq!(malformed, []);
    assert!(found.iter().all(|condition| condition.only_with_gpu));
    for (value, count) in [
        ("1", 0),
        ("true", 0),
        ("True", 0),
        ("0", 2),
        ("false", 2),
        ("", 2),
    ] {
        let all = [&two[..], &[("NVIDIA_DISABLE_REQUIRE", value)]].concat();
        assert_eq!(requirements(&environment(&all)).0.len(), count, "{value}");
    }
    let (found, malformed) =
        requirements(&environment(&[("NVIDIA_REQUIRE_CUDA", "cuda>=12 what")]));
    assert_eq!((found.len(), malformed[0].part.as_str()), (0, "what"));
}
