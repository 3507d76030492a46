//! `cudarun fetch toolkit=13.0`: the wheels of a toolkit share one entry of the store.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use super::killed::{Sums, is_sound};
use super::wheelhouse::{Packed, TestWheel, Wheelhouse, part_of_toolkit, sum};

/// A compiler whose bytes state its release, which can be started.
fn program(name: &str) -> Packed {
    let text =
        format!("#!/bin/sh\n# Cuda compilation tools, release 13.0, V13.0.88\necho {name}\n");
    Packed {
        mode: 0o100_755,
        ..Packed::new(format!("nvidia/cu13/{name}"), text)
    }
}

fn nvcc() -> TestWheel {
    part_of_toolkit(
        "nvidia-cuda-nvcc",
        "13.0.88",
        vec![program("bin/nvcc"), program("bin/ptxas")],
    )
}

fn nvvm() -> TestWheel {
    part_of_toolkit("nvidia-nvvm", "13.0.88", vec![program("nvvm/bin/cicc")])
}

/// A house whose table has one toolkit, of CUDA 13.0.
fn house(parts: &[TestWheel]) -> Wheelhouse {
    let house = Wheelhouse::new(parts);
    let rows: String = parts
        .iter()
        .map(|part| part.toolkit_row(&part.bytes()))
        .collect();
    let table = format!("[[toolkit]]\nversion = \"13.0.3\"\nfiles = [\n{rows}]\n");
    fs::write(house.path("table.toml"), table).unwrap();
    house
}

#[test]
fn all_wheels_of_a_toolkit_lie_in_the_entry_of_nvcc() {
    let house = house(&[nvcc(), nvvm()]);
    // The control: without it, there is no toolkit.
    house
        .run(&["list", "toolkit"])
        .status(1)
        .stdout_contains(&["no CUDA toolkit with nvcc was found\n\nnext: cudarun fetch toolkit\n"])
        .check();
    house
        .fetch(&["toolkit=13.0"])
        .stderr_contains(&["2 wheels, ", "nvidia-nvvm 13.0.88 in "])
        .check();
    assert_eq!(house.entries(), [sum(&nvcc().bytes())]);
    let root = house.store().join(&house.entries()[0]).join("nvidia/cu13");
    for program in ["bin/nvcc", "bin/ptxas", "nvvm/bin/cicc"] {
        let mode = fs::metadata(root.join(program))
            .unwrap()
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o555, "{program}");
    }
    let listed = house
        .run(&["list", "toolkit"])
        .stdout_contains(&["13.0.88", "fetched"])
        .any_stderr()
        .check();
    assert_eq!(
        house
            .run(&["list", "cuda-toolkit"])
            .any_stdout()
            .any_stderr()
            .check(),
        listed
    );
    house
        .fetch(&["cuda-toolkit=13.0"])
        .stderr("nothing to fetch: all libraries are here\n")
        .check();
    house
        .fetch(&["toolkit"])
        .stderr("nothing to fetch: all libraries are here\n")
        .check();
    for wheel in [nvcc(), nvvm()] {
        let kept = Sums::from([(sum(&nvcc().bytes()), wheel)]);
        assert_eq!(is_sound(&house.store(), &kept), 1);
    }
}

#[test]
fn a_toolkit_without_one_of_its_wheels_is_not_kept() {
    let lacks = house(&[nvcc(), nvvm()]);
    fs::remove_file(lacks.path("wheels").join(nvvm().file_name())).unwrap();
    lacks
        .fetch(&["toolkit=13.0"])
        .status(2)
        .stderr_contains(&["nvidia-nvvm", "wheels"])
        .check();
    lacks.has_no_entry();
    // Two wheels must not have one file.
    let twice = part_of_toolkit("nvidia-nvvm", "13.0.88", vec![program("bin/ptxas")]);
    let house = house(&[nvcc(), twice]);
    house
        .fetch(&["toolkit=13.0"])
        .status(2)
        .stderr_contains(&["ptxas"])
        .check();
    house.has_no_entry();
}

#[test]
fn a_toolkit_that_no_wheels_make_is_named() {
    let house = house(&[nvcc(), nvvm()]);
    let none = "cudarun: no wheel of toolkit =12.4 is on offer for this machine: the table has 13.0.3 to 13.0.3\n\nhint: cudarun fetch toolkit\n";
    house
        .fetch(&["toolkit=12.4"])
        .status(2)
        .stderr(none)
        .check();
    house
        .fetch(&["toolkti=13.0"])
        .status(2)
        .stderr_contains(&["toolkti"])
        .check();
    let json = house
        .run(&["fetch", "--dry-run", "--json", "toolkit>=13"])
        .json();
    assert_eq!(json["wheels"].as_array().unwrap().len(), 2);
    house.has_no_entry();
}
