//! Packages that brought libraries: machines that package managers have filled.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts;

/// Origin, directory, package, version and where the version is from, of the installation of a family.
fn installation(listed: &Value, family: &str, origin: &str) -> [String; 4] {
    let installations = listed["installations"].as_array().unwrap();
    let found = installations
        .iter()
        .find(|installation| installation["family"] == family && installation["origin"] == origin);
    let found = found.unwrap_or_else(|| panic!("{family} {origin}\n{listed:#}"));
    ["directory", "package", "version", "version_from"]
        .map(|key| found[key].as_str().unwrap_or("-").to_owned())
}

#[test]
fn debian_says_which_package_brought_a_library() {
    let machine = Machine::load("debian");
    let listed = Run::on(&machine, &["list", "--json"]).json();
    let system = "/usr/lib/x86_64-linux-gnu";
    let installation = |family, origin| installation(&listed, family, origin);
    let cudart = [
        "/usr/local/cuda-12.4/targets/x86_64-linux/lib",
        "cuda-cudart-12-4 12.4.127-1",
        "12.4.127",
    ];
    assert_eq!(
        installation("cudart", "toolkit"),
        [&cudart[..], &["package-record"]].concat()[..]
    );
    // Only its list says where it is; the links of the alternatives lead there too.
    let cudnn = [
        &format!("{system}/libcudnn/12"),
        "libcudnn9-cuda-12 9.1.0.70-1",
        "9.1.0.70",
        "contents",
    ];
    assert_eq!(installation("cudnn", "debian"), cudnn);
    let nccl = [
        system,
        "libnccl2 2.21.5-1+cuda12.4",
        "2.21.5",
        "package-record",
    ];
    assert_eq!(installation("nccl", "debian"), nccl);
    let cufft = [
        system,
        "libcufft10 11.1.1+~10.9.0.58~11.8.0-5~deb12u1",
        "10.9.0.58",
        "package-record",
    ];
    assert_eq!(installation("cufft", "debian"), cufft);
    let driver = [
        &format!("{system}/nvidia/current"),
        "libcuda1 535.261.03-1~deb12u1",
        "535.261.03",
        "package-record",
    ];
    assert_eq!(installation("driver", "driver"), driver);
    assert_eq!(
        installation("driver", "stub")[..2],
        [
            format!("{system}/stubs"),
            "nvidia-cuda-dev 11.8.89~11.8.0-5~deb12u1".into()
        ]
    );
    let cupti = [
        "/opt/nvidia/nsight-systems/2024.2.3/target-linux-x64",
        "nsight-systems-2024.2.3 2024.2.3.38-242334140272v0",
    ];
    assert_eq!(installation("cupti", "bundled")[..2], cupti);
    assert_eq!(
        installation("curand", "loose"),
        [system, "-", "-", "-"],
        "no package's, by hand"
    );
    let mut problems = listed["installations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|installation| &installation["problems"]);
    assert!(
        problems.all(|problems| problems.as_array().unwrap().is_empty()),
        "{listed:#}"
    );
    assert_eq!(
        listed["warnings"].as_array().unwrap().len(),
        0,
        "{listed:#}"
    );
    let cudnns = listed["installations"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|installation| installation["family"] == "cudnn");
    assert_eq!(cudnns.count(), 1);
}

/// A tool's libraries are no choice for other programs, in whatever directory its package has them.
#[test]
fn a_program_is_given_what_packages_have_for_all() {
    let machine = Machine::load("debian");
    let explained = Run::on(&machine, &["explain", "--json", "profiled"]).json();
    let families = explained["families"].as_array().unwrap();
    let cupti = families
        .iter()
        .find(|family| family["family"] == "cupti")
        .unwrap();
    assert_eq!(
        cupti["picked"]["directory"],
        "/usr/local/cuda-12.4/extras/CUPTI/lib64"
    );
    assert!(!explained.to_string().contains("nsight"), "{explained:#}");
}

#[test]
fn sources_that_are_switched_off_report_nothing() {
    let machine = Machine::load("debian");
    let listed = Run::on(&machine, &["list", "--json", "--without", "debian"]).json();
    assert!(
        listed["installations"]
            .as_array()
            .unwrap()
            .iter()
            .all(|installation| installation["package"].is_null()),
        "{listed:#}"
    );
}

/// RPM's database is not read: its libraries are found where the loader looks, and have no owner.
#[test]
fn libraries_of_rpm_have_no_owner() {
    let machine = Machine::load("rhel");
    let listed = Run::on(&machine, &["list", "--json", "-v"]).json();
    let found = |family: &str| -> Vec<(&str, &str)> {
        let installations = listed["installations"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|installation| installation["family"] == family);
        installations
            .inspect(|installation| assert!(installation["package"].is_null(), "{installation:#}"))
            .map(|installation| {
                (
                    installation["origin"].as_str().unwrap(),
                    installation["directory"].as_str().unwrap(),
                )
            })
            .collect()
    };
    assert_eq!(
        found("cudart"),
        [("toolkit", "/usr/local/cuda-12.4/targets/x86_64-linux/lib")]
    );
    assert_eq!(found("cudnn"), [("loose", "/usr/lib64")]);
    assert_eq!(found("driver"), [("driver", "/usr/lib64")]);
    assert_eq!(
        listed["warnings"].as_array().unwrap().len(),
        0,
        "{listed:#}"
    );
}

#[test]
fn an_origin_that_a_person_prefers_is_picked() {
    let picked = |origin: &str| {
        let files = [
            parts::text(
                "/home/user/.config/cudarun/config.toml",
                &format!("[prefer]\norigin = [\"{origin}\"]\n"),
            ),
            parts::program("transforms", &["libcufft.so.11"], ""),
            parts::library("/usr/lib/x86_64-linux-gnu", "libcufft", "11", "11.2.1", ""),
            parts::library(
                "/usr/local/cuda-12.4/targets/x86_64-linux/lib",
                "libcufft",
                "11",
                "11.2.1",
                "",
            ),
        ];
        let explained = Run::on(
            &parts::machine(&files),
            &["explain", "--json", "transforms"],
        )
        .json();
        explained["families"][0]["picked"]["origin"]
            .as_str()
            .unwrap_or_else(|| panic!("{explained:#}"))
            .to_owned()
    };
    assert_eq!([picked("loose"), picked("toolkit")], ["loose", "toolkit"]);
}
