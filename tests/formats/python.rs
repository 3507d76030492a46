//! Python source and the metadata of distributions.

use cudarun::formats::build_info::digits_after;
use cudarun::formats::metadata::{
    normalised, pth_directories, pyvenv, record, requirements, top_level,
};
use cudarun::formats::python::{Import, PythonSource, read};

fn modules(source: &str) -> Vec<String> {
    let dots = |import: Import| ".".repeat(import.level) + &import.module;
    read(source.as_bytes())
        .imports
        .into_iter()
        .map(dots)
        .collect()
}

#[test]
fn finds_imports_wherever_they_are() {
    let source = "\
#!/usr/bin/env python3
\"\"\"Doc: import numpy\"\"\"
import os, sys as system; import torch.nn as nn
from . import local
from ..pkg.mod import (a,
b as c)  # import tensorflow
try: import jax
except ImportError:
def f():
    from cupy import \\
        ndarray
text = 'import paddle'
data = {'import': 1}; important = 3
lambda x: x
if True: from a.b import c
";
    assert_eq!(
        modules(source),
        [
            "os",
            "sys",
            "torch.nn",
            ".",
            "..pkg.mod",
            "jax",
            "cupy",
            "a.b"
        ]
    );
    let imports = read(source.as_bytes()).imports;
    assert_eq!(imports[2].line, 3);
    assert_eq!(imports[4].names, ["a", "b"]);
    assert_eq!(imports[3].names, ["local"]);
}

#[test]
fn reads_strings_but_not_comments() {
    let source = "x = CDLL('libcudnn.so.9')  # libcublas.so.12\ny = f\"{d['k']}/libcufft.so.11\"\nz = r'''a\nlibnvrtc.so'''\n";
    let strings: Vec<_> = read(source.as_bytes()).strings;
    let texts: Vec<_> = strings
        .iter()
        .map(|(line, text)| (*line, text.as_str()))
        .collect();
    assert_eq!(
        texts,
        [
            (1, "libcudnn.so.9"),
            (2, "k"),
            (2, "{d[]}/libcufft.so.11"),
            (3, "a\nlibnvrtc.so")
        ]
    );
}

#[test]
fn says_when_only_the_program_knows() {
    for open in [
        "m = importlib.import_module(name)",
        "exec(code)",
        "run([sys.executable, 'x.py'])",
        "PK\0",
    ] {
        assert!(read(open.as_bytes()).dynamic, "{open}");
    }
    for closed in [
        "import importlib\nx = 'exec(1)'\nexecute(1)",
        "model.eval(); cursor.exec(x)",
        "importlib.import_module('torch')",
        "__import__('torch', x)",
    ] {
        assert!(!read(closed.as_bytes()).dynamic, "{closed}");
    }
    assert_eq!(
        modules("x = importlib.import_module('torch.nn')\n__import__(\"jax\")"),
        ["torch.nn", "jax"]
    );
}

#[test]
fn knows_what_is_only_tried() {
    let source = "try: import a\nexcept ImportError:\n    import b\ndef f():\n    try:\n        x = 1\n        from c import d\n    finally:\n        import e\nimport g";
    let tried: Vec<_> = read(source.as_bytes())
        .imports
        .into_iter()
        .map(|i| (i.module, i.is_tried))
        .collect();
    let expected = [
        ("a", true),
        ("b", false),
        ("c", true),
        ("e", false),
        ("g", false),
    ];
    assert_eq!(
        tried,
        expected.map(|(module, tried)| (module.to_owned(), tried))
    );
}

#[test]
fn reads_bytes_as_python_does() {
    assert_eq!(modules("\u{feff}import torch"), ["torch"]);
    assert_eq!(
        modules("import \\\r\n  torch\r\nimport jax\rimport cupy"),
        ["torch", "jax", "cupy"]
    );
}

#[test]
fn any_text_gives_a_result() {
    for source in [
        "'",
        "\"\"\"",
        "f'{",
        "f'{'",
        "\\",
        "import",
        "from",
        "from import",
        "import a.",
        "((((",
        "))))",
        "f\"{{\"",
        "\0import\0x",
    ] {
        read(source.as_bytes());
    }
    let all: Vec<u8> = (0..=255).collect();
    read(&all);
    read("f'{".repeat(3000).as_bytes());
}

#[test]
fn top_level_modules_are_those_that_can_be_imported() {
    let record = "yaml/__init__.py,sha256=x,1\n_yaml.cpython-312-x86_64-linux-gnu.so,,\nsix.py,,\n\
        PyYAML-6.0.dist-info/METADATA,,\n../../bin/tool,,\n__pycache__/six.pyc,,\nnumpy.libs/libx.so,,\n\"a b/c.py\",,";
    let found: Vec<String> = top_level(record).into_iter().collect();
    assert_eq!(found, ["_yaml", "a b", "six", "yaml"]);
}

const TORCH: &str = "Metadata-Version: 2.1\nName: torch\nVersion: 2.5.1\n\
    Requires-Dist: filelock\n\
    Requires-Dist: nvidia-cudnn-cu12 (==9.1.0.70) ; platform_system == \"Linux\" and platform_machine == \"x86_64\"\n\
    Requires-Dist: cuda-toolkit[cublas,cudart]==13.0.2; platform_system == \"Linux\"\n\
    Requires-Dist: nvidia-cublas==13.1.0.3.*; sys_platform == 'linux' and extra == 'cublas'\n\
    Requires-Dist: nvidia-cudnn-cu12<10.0,>=9.8; sys_platform == \"linux\" and extra == \"with-cuda\"\n\
    Requires-Dist: ???\n\nRequires-Dist: not-in-the-header\n";

#[test]
fn reads_both_syntaxes_of_requires_dist() {
    let torch = requirements(TORCH);
    let names: Vec<_> = torch
        .iter()
        .map(|r| (r.name.as_str(), r.optional))
        .collect();
    assert_eq!(
        names,
        [
            ("filelock", false),
            ("nvidia-cudnn-cu12", false),
            ("cuda-toolkit", false),
            ("nvidia-cublas", true),
            ("nvidia-cudnn-cu12", true)
        ]
    );
    assert_eq!(torch[1].pinned().unwrap().to_string(), "9.1.0.70");
    assert_eq!(torch[2].extras, ["cublas", "cudart"]);
    assert_eq!(torch[3].pinned().unwrap().to_string(), "13.1.0.3");
    assert_eq!(torch[3].extra.as_deref(), Some("cublas"));
    assert_eq!(torch[4].pinned(), None);
    assert_eq!(torch[4].lower_bound().unwrap().to_string(), "9.8");
}

#[test]
fn reads_records_environments_and_paths() {
    let text =
        b"a.py,,\nnvidia/cudnn/lib/libcudnn.so.9,sha256=abc,125136\n\"a,b.so\",,\n.so\nx.so/y.so,,\nz.so,,1";
    let lines = record(text, &|path| path != "z.so");
    let expected = [
        ("nvidia/cudnn/lib/libcudnn.so.9", Some(125_136)),
        ("a,b.so", None),
        ("x.so/y.so", None),
    ];
    assert_eq!(lines, expected.map(|(path, size)| (path.to_owned(), size)));
    assert!(
        record(b"z.so,,1", &|_| true) == [("z.so".to_owned(), Some(1))]
            && record(b"", &|_| true).is_empty()
    );
    let venv =
        pyvenv("home = /usr/bin\nInclude-System-Site-Packages = false\nversion_info = 3.12.3\n");
    assert_eq!(venv["include-system-site-packages"], "false");
    assert_eq!(
        pth_directories("# x\n/opt/lib\nimport os; os.system('x')\nsub\n\n"),
        ["/opt/lib", "sub"]
    );
    assert_eq!(normalised("Jax_CUDA12.-plugin"), "jax-cuda12-plugin");
}

#[test]
fn reads_digits_in_names_and_versions() {
    assert_eq!(
        digits_after("2.5.1+cu124", "cu", 2).as_deref(),
        Some("12.4")
    );
    assert_eq!(
        digits_after("0.29.2+cu132", "cu", 2).as_deref(),
        Some("13.2")
    );
    assert_eq!(
        digits_after("jaxlib 0.4.23+cuda12.cudnn89", "cuda", 2).as_deref(),
        Some("12")
    );
    assert_eq!(
        digits_after("jaxlib 0.4.23+cuda12.cudnn89", "cudnn", 1).as_deref(),
        Some("8.9")
    );
    assert_eq!(
        digits_after("cupy-cuda12x", "cuda", 2).as_deref(),
        Some("12")
    );
    assert_eq!(
        digits_after("mxnet-cu112", "cu", 2).as_deref(),
        Some("11.2")
    );
    for (text, word) in [
        ("2.5.1+cpu", "cu"),
        ("+cu", "cu"),
        ("+cu1", "cu"),
        ("", "cu"),
        ("cu12abc", "cu"),
    ] {
        assert_eq!(digits_after(text, word, 2), None, "{text}");
    }
}

/// Generated tables are longer than programs that people write.
#[test]
fn only_the_beginning_of_a_very_long_source_is_read() {
    const LIMIT: usize = 4 << 20;
    let source = |length: usize| {
        let end = "\nimport torch\n";
        format!(
            "import jax\n{}{end}",
            "a;".repeat(length)[..length - end.len() - 11].to_owned()
        )
    };
    let modules = |source: &PythonSource| {
        source
            .imports
            .iter()
            .map(|import| import.module.clone())
            .collect::<Vec<_>>()
    };
    let whole = read(source(LIMIT).as_bytes());
    assert_eq!(
        (modules(&whole), whole.dynamic),
        (vec!["jax".into(), "torch".into()], false)
    );
    let cut = read(source(LIMIT + 2).as_bytes());
    assert!(cut.dynamic && modules(&cut)[0] == "jax");
    assert_eq!(
        read("é".repeat(LIMIT).as_bytes()).imports,
        [],
        "cut inside of a letter"
    );
}
