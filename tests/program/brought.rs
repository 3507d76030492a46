//! What an imported package brings: frameworks that its own source imports, whatever its metadata says, and the extension
//! modules that this Python would take.

use serde_json::Value;

use crate::support::Run;
use crate::support::machine::Machine;
use crate::support::parts::{SITE, elf, link, machine, program, python, text};

fn file(path: &str, contents: &str) -> String {
    text(&format!("{SITE}/{path}"), contents)
}

/// torch, and a package of kernels without any `Requires-Dist`.
fn environment(kernels: &[String]) -> Machine {
    let mut files = vec![
        file("torch/__init__.py", ""),
        file("torch/version.py", "cuda = '12.4'\n"),
        file(
            "torch-2.5.1.dist-info/METADATA",
            "Name: torch\nVersion: 2.5.1\n",
        ),
        elf(
            &format!("{SITE}/torch/lib/libtorch_cuda.so"),
            "soname = 'libtorch_cuda.so', needed = ['libcudnn.so.9']",
        ),
        file(
            "kernels-1.0.dist-info/METADATA",
            "Name: kernels\nVersion: 1.0\n",
        ),
    ];
    files.extend(kernels.iter().cloned());
    python(&files)
}

fn read(machine: &Machine, words: &[&str]) -> Value {
    let words = [&["explain", "--json"], words].concat();
    let (text, _) = Run::on(machine, &words).output();
    serde_json::from_str::<Value>(&text).unwrap()["program"].clone()
}

/// The place that imports torch; none if the program is not known to import it.
fn torch_by(machine: &Machine, code: &str) -> Option<String> {
    let program = read(machine, &["python3", "-c", code]);
    let packages = program["packages"].as_array().unwrap();
    let torch = packages
        .iter()
        .find(|package| package["name"] == "torch" && package["standing"] == "imported")?;
    Some(torch["imported_by"].as_str().unwrap().to_owned())
}

#[test]
fn a_package_that_imports_a_framework_brings_it() {
    let with = |source: &str| environment(&[file("kernels/__init__.py", source)]);
    let by = |source: &str| torch_by(&with(source), "import kernels");
    assert_eq!(
        by("import torch\n").as_deref(),
        Some("kernels/__init__.py:1")
    );
    assert_eq!(
        by("#\nfrom torch import nn\n").as_deref(),
        Some("kernels/__init__.py:2")
    );
    // What runs only in some cases, or when it is called, is no evidence.
    for source in [
        "",
        "def f():\n    import torch\n",
        "try:\n    import torch\nexcept ImportError:\n    pass\n",
        "if False:\n    import torch\n",
    ] {
        assert_eq!(by(source), None, "{source}");
    }
}

#[test]
fn a_package_that_the_user_names_brings_its_framework() {
    let with = |source: &str| environment(&[file("kernels/__init__.py", source)]);
    let packages = |machine: &Machine| {
        let words = ["--uses", "kernels", "python3", "-c", "exec('')"];
        let read = read(machine, &words);
        let packages = read["packages"].as_array().unwrap();
        let names = packages.iter().map(|package| package["name"].to_string());
        names.collect::<Vec<_>>().join(" ")
    };
    let bringing = packages(&with("import torch\n"));
    assert!(bringing.contains("torch"), "{bringing}");
    let alone = packages(&with(""));
    assert!(!alone.contains("torch"), "{alone}");
}

#[test]
fn only_the_modules_that_are_imported_count() {
    let machine = environment(&[
        file("kernels/__init__.py", "from . import core\n"),
        file("kernels/core.py", ""),
        file(
            "kernels/pytorch/__init__.py",
            "import kernels.pytorch.ops\n",
        ),
        file("kernels/pytorch/ops.py", "import torch\n"),
    ]);
    assert_eq!(torch_by(&machine, "import kernels"), None);
    for code in ["import kernels.pytorch", "from kernels import pytorch"] {
        assert_eq!(
            torch_by(&machine, code).as_deref(),
            Some("ops.py:1"),
            "{code}"
        );
    }
}

#[test]
fn an_extension_module_that_is_built_against_a_framework_brings_it() {
    let with = |fields: &str| {
        environment(&[
            file("kernels/__init__.py", "from . import _C\n"),
            elf(&format!("{SITE}/kernels/_C.abi3.so"), fields),
        ])
    };
    let by = |fields: &str| torch_by(&with(fields), "import kernels");
    let place = Some("kernels/__init__.py:1");
    assert_eq!(by("needed = ['libtorch.so']").as_deref(), place);
    let imports = "imports = { '' = ['_ZN3c105ErrorC1Ev'] }";
    assert_eq!(by(imports).as_deref(), place);
    assert_eq!(by("needed = ['libm.so.6']"), None);
}

#[test]
fn an_extension_of_another_python_hides_no_source() {
    let own = |suffix: &str| {
        let machine = environment(&[
            text("/home/user/tool.py", "import torch\n"),
            elf(&format!("/home/user/tool{suffix}.so"), ""),
        ]);
        let code = "import sys; sys.path.insert(0, '/home/user'); import tool";
        torch_by(&machine, code)
    };
    for stale in [
        ".cpython-39-x86_64-linux-gnu",
        ".pypy39-pp73-x86_64-linux-gnu",
    ] {
        assert_eq!(own(stale).as_deref(), Some("tool.py:1"), "{stale}");
    }
    for suffix in ["", ".abi3", ".cpython-312-x86_64-linux-gnu"] {
        assert_eq!(own(suffix), None, "{suffix}");
    }
}

#[test]
fn the_packages_of_pypy_are_found() {
    let site = "/opt/pypy/lib/pypy3.10/site-packages";
    let files = |site: &str| {
        machine(&[
            program("none", &[], ""),
            elf(
                "/opt/pypy/bin/pypy3.10",
                "interpreter = '/lib64/ld-linux-x86-64.so.2', needed = ['libc.so.6']",
            ),
            link("/opt/pypy/bin/pypy3", "pypy3.10"),
            text(&format!("{site}/plug/__init__.py"), ""),
            elf(&format!("{site}/plug/_C.so"), "needed = ['libcudnn.so.9']"),
        ])
    };
    let packages = |machine: &Machine| {
        let read = read(machine, &["/opt/pypy/bin/pypy3", "-c", "import plug"]);
        read["packages"].as_array().unwrap().len()
    };
    assert_eq!(packages(&files(site)), 1);
    assert_eq!(
        packages(&files("/opt/pypy/lib/python3.10/site-packages")),
        0
    );
}
