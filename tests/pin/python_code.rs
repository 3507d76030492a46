//! Python code that uses cuDNN without the import of a package: libraries that it opens, code that runs before the program,
//! and directories that it names. Without cudarun, each case mixes two installations under the real loader.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use crate::pin::children::{Environments, REPORT, is_whole, system_python};
use crate::pin::real_loader::WORLD;
use crate::support::{Run, skipped};

/// Opens cuDNN by name, with a DT_RPATH that leads to 9.1.0.
const PLUGIN: &str = r#"
#include <dlfcn.h>
int cudnnGetVersion(void)
{
    void *cudnn = dlopen("libcudnn.so.9", RTLD_NOW);
    return ((int (*)(void))dlsym(cudnn, "cudnnGetVersion"))();
}
"#;

/// A virtual environment with `plug.so` beside it and a module `framework` in a directory of modules.
struct Place {
    root: PathBuf,
    python: PathBuf,
    site: PathBuf,
}

fn place(name: &str) -> Option<Place> {
    let python = system_python()?;
    let root = WORLD.path("").join("code").join(name);
    let (site, bin) = (
        root.join("lib")
            .join(python.file_name()?)
            .join("site-packages"),
        root.join("bin"),
    );
    for directory in [&site, &bin, &root.join("modules")] {
        fs::create_dir_all(directory).unwrap();
    }
    symlink(&python, bin.join("python")).unwrap();
    fs::write(
        root.join("pyvenv.cfg"),
        format!("home = {}\n", python.parent()?.display()),
    )
    .unwrap();
    let flags = format!(
        "-Wl,--disable-new-dtags,-rpath,{}",
        WORLD.path("old").display()
    );
    WORLD.workshop.library(
        &format!("code/{name}/plug.so"),
        "plug.so",
        PLUGIN,
        &[&flags],
    );
    let module = format!(
        "import ctypes\nlibrary = ctypes.CDLL('{}')\n",
        root.join("plug.so").display()
    );
    fs::write(root.join("modules/framework.py"), module).unwrap();
    fs::write(root.join("report.py"), REPORT).unwrap();
    let python = bin.join("python");
    Some(Place { root, python, site })
}

macro_rules! place {
    ($name:expr) => {
        match place($name) {
            Some(place) => place,
            None => {
                assert!(
                    std::env::var_os("CUDARUN_TESTS_ALL").is_none(),
                    "there is no Python here"
                );
                return skipped("there is no Python here");
            }
        }
    };
}

impl Place {
    fn script(&self, name: &str, code: &str) -> PathBuf {
        let file = self.root.join(name);
        fs::write(&file, format!("from report import report\n{code}")).unwrap();
        file
    }

    /// Without cudarun, the program mixes 9.10.2 into 9.1.0. With cudarun, it gets all of one of them.
    fn is_cured(&self, script: &Path) {
        let (path, words) = (WORLD.library_path(&["new"]), [script.to_str().unwrap()]);
        let control = Environments::without(&self.python, &words, &path);
        assert_eq!(
            control[0].directories.len(),
            2,
            "the control must mix: {control:?}"
        );
        let cured = Environments::with(&[], &self.python, &words, &path);
        assert!(
            cured.len() == 1 && is_whole(&cured[0]) && cured[0].version == 90100,
            "{cured:?}"
        );
    }
}

#[test]
fn a_library_that_python_opens_is_followed() {
    let p = place!("opened");
    let path = p.root.join("plug.so");
    let by_path = format!("import ctypes\nreport(ctypes.CDLL({path:?}))\n");
    let beside = "import ctypes, os\nreport(ctypes.CDLL(os.path.join(os.path.dirname(__file__), 'plug.so')))\n";
    p.is_cured(&p.script("by_path.py", &by_path));
    p.is_cured(&p.script("beside.py", beside));
    // Controls: a missing plugin and a library of the system require nothing.
    for name in ["/nowhere/plug.so", "libm.so.6"] {
        let script = p.script(
            "other.py",
            &format!("import ctypes\nctypes.CDLL({name:?})\n"),
        );
        let explain = [
            "explain",
            "--json",
            p.python.to_str().unwrap(),
            script.to_str().unwrap(),
        ];
        let explained = Run::new(explain)
            .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
            .json();
        assert_eq!(explained["decision"], "nothing", "{name}: {explained:#}");
    }
}

#[test]
fn code_that_runs_before_the_program_is_followed() {
    let open = |p: &Place| {
        format!(
            "import ctypes; ctypes.library = ctypes.CDLL({:?})\n",
            p.root.join("plug.so")
        )
    };
    let show = "import ctypes\nreport(ctypes.library)\n";
    let p = place!("pth");
    fs::write(
        p.site.join("library.pth"),
        format!("# a comment\n{}", open(&p)),
    )
    .unwrap();
    p.is_cured(&p.script("show.py", show));
    // A file of Debian's own Python comes before the one of an environment.
    let own = system_python().map(|python| {
        python
            .parent()
            .unwrap()
            .with_file_name("lib")
            .join(python.file_name().unwrap())
    });
    if own.is_some_and(|own| !own.join("sitecustomize.py").exists()) {
        let p = place!("sitecustomize");
        fs::write(p.site.join("sitecustomize.py"), open(&p)).unwrap();
        p.is_cured(&p.script("show.py", show));
    }
    // Control: other code does not make all installed packages count.
    let p = place!("other-code");
    fs::write(p.site.join("other.pth"), "import sys; exec('pass')\n").unwrap();
    fs::create_dir(p.site.join("plugin")).unwrap();
    fs::copy(p.root.join("plug.so"), p.site.join("plugin/_plug.so")).unwrap();
    let script = p.script("show.py", "print('done')\n");
    let explain = [
        "explain",
        "--json",
        p.python.to_str().unwrap(),
        script.to_str().unwrap(),
    ];
    let explained = Run::new(explain)
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
        .json();
    assert_eq!(
        explained["program"]["packages"],
        serde_json::json!([]),
        "{explained:#}"
    );
}

#[test]
fn a_link_that_leads_nowhere_is_no_module() {
    let p = place!("nowhere");
    let open = format!(
        "import ctypes\nlibrary = ctypes.CDLL({:?})\n",
        p.root.join("plug.so")
    );
    fs::write(p.root.join("modules/helper.py"), open).unwrap();
    let modules = p.root.join("modules");
    let code = format!(
        "import sys\nsys.path.append({modules:?})\nimport helper\nreport(helper.library)\n"
    );
    let script = p.script("show.py", &code);
    std::os::unix::fs::symlink("/nowhere", script.with_file_name("helper.py")).unwrap();
    p.is_cured(&script);
}

#[test]
fn a_directory_that_the_program_adds_to_its_search_path_is_searched() {
    let p = place!("added");
    let modules = p.root.join("modules");
    for add in [
        format!("import sys\nsys.path.insert(0, {modules:?})\n"),
        format!("import sys\nsys.path.append({modules:?})\n"),
        format!("import sys\nsys.path += [{modules:?}]\n"),
        format!("import site\nsite.addsitedir({modules:?})\n"),
    ] {
        let code = format!("{add}import framework\nreport(framework.library)\n");
        p.is_cured(&p.script("show.py", &code));
    }
    // Only `addsitedir` reads the `.pth` files of its directory.
    let lists = p.root.join("lists");
    fs::create_dir(&lists).unwrap();
    fs::write(
        lists.join("modules.pth"),
        format!("{}\n", modules.display()),
    )
    .unwrap();
    let imports = "try:\n    import framework\n    report(framework.library)\nexcept ImportError:\n    pass\n";
    let code = format!("import site\nsite.addsitedir({lists:?})\n{imports}");
    p.is_cured(&p.script("show.py", &code));
    let script = p.script(
        "list.py",
        &format!("import sys\nsys.path.append({lists:?})\n{imports}"),
    );
    let explain = [
        "explain",
        "--json",
        p.python.to_str().unwrap(),
        script.to_str().unwrap(),
    ];
    let explained = Run::new(explain)
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
        .json();
    assert_eq!(explained["decision"], "nothing", "{explained:#}");
    // Control: the directory alone requires nothing.
    let script = p.script(
        "alone.py",
        &format!("import sys\nsys.path.insert(0, {modules:?})\n"),
    );
    let explain = [
        "explain",
        "--json",
        p.python.to_str().unwrap(),
        script.to_str().unwrap(),
    ];
    let explained = Run::new(explain)
        .env("LD_LIBRARY_PATH", WORLD.library_path(&["new"]))
        .json();
    assert_eq!(explained["decision"], "nothing", "{explained:#}");
}
