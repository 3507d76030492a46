//! What package managers record: their databases byte by byte, and machines that were filled by them.

use cudarun::formats::rpm;
use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts;
use cudarun::machine::rpm::{Package, database};

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
    let cudart = ["/usr/local/cuda-12.4/targets/x86_64-linux/lib", "cuda-cudart-12-4 12.4.127-1", "12.4.127"];
    assert_eq!(installation("cudart", "toolkit"), [&cudart[..], &["package-record"]].concat()[..]);
    // Only its list says where it is; the links of the alternatives lead there too.
    let cudnn = [&format!("{system}/libcudnn/12"), "libcudnn9-cuda-12 9.1.0.70-1", "9.1.0.70", "contents"];
    assert_eq!(installation("cudnn", "debian"), cudnn);
    let nccl = [system, "libnccl2 2.21.5-1+cuda12.4", "2.21.5", "package-record"];
    assert_eq!(installation("nccl", "debian"), nccl);
    let cufft = [system, "libcufft10 11.1.1+~10.9.0.58~11.8.0-5~deb12u1", "10.9.0.58", "package-record"];
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
        [format!("{system}/stubs"), "nvidia-cuda-dev 11.8.89~11.8.0-5~deb12u1".into()]
    );
    let cupti = [
        "/opt/nvidia/nsight-systems/2024.2.3/target-linux-x64",
        "nsight-systems-2024.2.3 2024.2.3.38-242334140272v0",
    ];
    assert_eq!(installation("cupti", "bundled")[..2], cupti);
    assert_eq!(installation("curand", "loose"), [system, "-", "-", "-"], "no package's, by hand");
    let mut problems =
        listed["installations"].as_array().unwrap().iter().map(|installation| &installation["problems"]);
    assert!(problems.all(|problems| problems.as_array().unwrap().is_empty()), "{listed:#}");
    assert_eq!(listed["warnings"].as_array().unwrap().len(), 0, "{listed:#}");
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
    let cupti = families.iter().find(|family| family["family"] == "cupti").unwrap();
    assert_eq!(cupti["picked"]["directory"], "/usr/local/cuda-12.4/extras/CUPTI/lib64");
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

#[test]
fn rpm_says_which_package_brought_a_library() {
    let machine = Machine::load("rhel");
    let listed = Run::on(&machine, &["list", "--json"]).json();
    let installation = |family, origin| installation(&listed, family, origin);
    let cudart = ["/usr/local/cuda-12.4/targets/x86_64-linux/lib", "cuda-cudart-12-4 12.4.127-1", "12.4.127"];
    assert_eq!(installation("cudart", "toolkit"), [&cudart[..], &["package-record"]].concat()[..]);
    let cudnn = ["/usr/lib64", "libcudnn9-cuda-12 9.1.0.70-1", "9.1.0.70", "package-record"];
    assert_eq!(installation("cudnn", "rpm"), cudnn);
    let nccl = ["/opt/nccl/lib", "libnccl 2.21.5-1+cuda12.4", "2.21.5", "package-record"];
    assert_eq!(installation("nccl", "rpm"), nccl);
    let driver = ["/usr/lib64", "nvidia-driver-cuda-libs 550.54.15-1.el9", "550.54.15", "package-record"];
    assert_eq!(installation("driver", "driver"), driver);
    // Its version is that of the toolkit, as far as anybody knows.
    assert_eq!(installation("curand", "rpm"), ["/usr/lib64", "cuda-libs 12.4.1-1.el9", "-", "-"]);
    assert_eq!(installation("cufft", "loose")[1], "-", "what replaced a file is not its package's");
}

#[test]
fn a_database_that_is_none_is_passed_over_with_a_warning() {
    let path = "/var/lib/rpm/rpmdb.sqlite";
    let machine = parts::machine(&[parts::text(path, "SQLite format 3")]);
    let listed = Run::on(&machine, &["list", "--json"]).status(1).json();
    assert_eq!(listed["warnings"][0]["path"], path);
    assert_eq!(listed["warnings"][0]["why"], "not a database of SQLite (magic)");
}

/// So many packages, with more files in some than in others.
fn sample(count: usize) -> Vec<u8> {
    let package = |number: usize| Package {
        name: format!("libcudnn{number}-cuda-12"),
        version: format!("{number}.1.0.70"),
        release: "1".to_owned(),
        architecture: "x86_64".to_owned(),
        files: (0..number % 9 * 5).map(|file| format!("/usr/lib64/{number}/libcudnn.so.{file}")).collect(),
        replaced: Vec::new(),
    };
    database(&(0..count).map(package).collect::<Vec<_>>())
}

fn read(data: &[u8]) -> Option<Vec<rpm::Package>> {
    rpm::installed(data, &|name| name != "libcudnn3-cuda-12", &|_| true).ok()
}

/// The table of names has several pages, and the longer headers go on in pages of their own.
#[test]
fn a_database_is_read_as_it_was_written() {
    let found = read(&sample(60)).unwrap();
    assert_eq!(found.len(), 59);
    for package in found {
        let number: usize = package.version.split('.').next().unwrap().parse().unwrap();
        assert_eq!(package.name, format!("libcudnn{number}-cuda-12"));
        assert_eq!((package.release.as_str(), package.architecture.as_str()), ("1", "x86_64"));
        assert_eq!(package.files.len(), number % 9 * 5);
        assert!(
            package.files.iter().all(|path| path.starts_with(&format!("/usr/lib64/{number}/libcudnn.so.")))
        );
    }
}

#[test]
fn every_prefix_of_a_database_gives_an_error_or_a_result() {
    let data = sample(12);
    for length in 0..data.len() {
        read(&data[..length]);
    }
}

#[test]
fn every_single_byte_change_gives_an_error_or_a_result() {
    let data = sample(12);
    // Where a page begins its bytes decide how it is read; further on, most are text.
    for index in (0..data.len()).filter(|index| index % 512 < 32 || index % 5 == 0) {
        for value in [0, 0x80, 0xff, data[index].wrapping_add(1)] {
            let mut bad = data.clone();
            bad[index] = value;
            read(&bad);
        }
    }
}

#[test]
fn every_prefix_and_change_of_a_header_gives_an_error_or_a_result() {
    let files = ["/usr/lib64/libcudnn.so.9", "/usr/lib/libcudnn.so.9"].map(str::to_owned).to_vec();
    let package = Package {
        name: "libcudnn9".into(),
        version: "9.1.0.70".into(),
        release: "1".into(),
        architecture: "x86_64".into(),
        files: files.clone(),
        replaced: vec!["/usr/lib64/libcudnn.so.8".into()],
    };
    let header = package.header();
    assert_eq!(rpm::package(&header, &|_| true).unwrap().files, files);
    for length in 0..header.len() {
        assert!(rpm::package(&header[..length], &|_| true).is_none());
    }
    for index in 0..header.len() {
        for value in 0..=255 {
            let mut bad = header.clone();
            bad[index] = value;
            rpm::package(&bad, &|_| true);
        }
    }
}
