//! Environment modules in Tcl and in Lua.

use cudarun::formats::modulefile::{Modulefile, lua, tcl};

fn check(found: &Modulefile, added: &[&str], set: &[&str]) {
    let lines = |pairs: &[(String, String)]| -> Vec<String> {
        pairs
            .iter()
            .map(|(name, value)| format!("{name} {value}"))
            .collect()
    };
    assert_eq!(lines(&found.added), added);
    assert_eq!(lines(&found.set), set);
}

const TCL: &str = r#"#%Module1.0
proc ModulesHelp { } { puts stderr "prepend-path LD_LIBRARY_PATH /help" }
proc More { } { puts stderr { To set root, or to setenv CUDA_HOME /help } } ;# setenv CUDA_HOME /c
set version 12.4 ; set ::root    /opt/cuda-${version}
conflict cuda
if { [file isdirectory $root/compat] } {
prepend-path LD_LIBRARY_PATH $root/compat
}
setenv CUDA_HOME $root
setenv NAME "[exec hostname]"
prepend-path --delim : LD_LIBRARY_PATH "$root/lib64:$::root/extras"
append-path -d ; X \
/y
append-path LIBRARY_PATH [file join $root lib64 stubs] {/a}
append-path LIBRARY_PATH [file join $root [file join a b] c]/d $unknown /e
prepend-path LD_LIBRARY_PATH $::env(HOME)/lib
prepend-path LD_LIBRARY_PATH [exec find /]/lib
set name [exec uname] ; prepend-path LD_LIBRARY_PATH /opt/$name
if {1} { set arch a
} else {
  set arch b
}
prepend-path LD_LIBRARY_PATH /opt/$arch/lib
append root /x
prepend-path LD_LIBRARY_PATH $root/lib
prepend-path LD_LIBRARY_PATH relative/lib
"#;

const LUA: &str = r#"-- -*- lua -*-
help([==[
CUDA's "toolkit", for programs that don't bring one
prepend_path("LD_LIBRARY_PATH", "/help")
]==])
--[[
prepend_path("LD_LIBRARY_PATH", "/block")
]]
-- prepend_path("LD_LIBRARY_PATH", "/comment")
local version = "12.4"
local root = pathJoin("/opt", "cuda-" .. version)
local home = os.getenv("CUDA") or "/opt/guess"
local a, b = "/a", "/b"
if root ~= "/x" then setenv("CUDA_HOME", root) end
pushenv("CUDA_ROOT", (root))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, "lib64") .. ":" .. root .. '/extras')
append_path{"LIBRARY_PATH", root .. "/stubs", delim=":", priority=10}
prepend_path("LD_LIBRARY_PATH", home)
prepend_path("LD_LIBRARY_PATH", b)
prepend_path("LD_LIBRARY_PATH", pathJoin(pathJoin(root, "a"), "b"))
prepend_path("LD_LIBRARY_PATH", pathJoin(root, myModuleVersion()))
if version == "11" then arch = "/x" else arch = "/y" end
prepend_path("LD_LIBRARY_PATH", arch)
x.prepend_path("LD_LIBRARY_PATH", "/method")
prepend_path("LD_LIBRARY_PATH", "relative")
"#;

#[test]
fn tcl_constants_and_joined_paths_are_read() {
    let added = [
        "LD_LIBRARY_PATH /opt/cuda-12.4/compat",
        "LD_LIBRARY_PATH /opt/cuda-12.4/lib64",
        "LD_LIBRARY_PATH /opt/cuda-12.4/extras",
        "LIBRARY_PATH /opt/cuda-12.4/lib64/stubs",
        "LIBRARY_PATH /a",
        "LIBRARY_PATH /opt/cuda-12.4/a/b/c/d",
        "LIBRARY_PATH /e",
        "LD_LIBRARY_PATH /opt/b/lib",
    ];
    check(&tcl(TCL), &added, &["CUDA_HOME /opt/cuda-12.4"]);
    let blocks = "if {1} { set a /a; prepend-path X $a } else { prepend-path X /b }\nif {1} { append-path X /c\n}";
    check(&tcl(blocks), &["X /a", "X /b", "X /c"], &[]);
}

#[test]
fn lua_constants_and_joined_paths_are_read() {
    let added = [
        "LD_LIBRARY_PATH /opt/cuda-12.4/lib64",
        "LD_LIBRARY_PATH /opt/cuda-12.4/extras",
        "LIBRARY_PATH /opt/cuda-12.4/stubs",
        "LD_LIBRARY_PATH /opt/cuda-12.4/a/b",
        "LD_LIBRARY_PATH /y",
    ];
    check(
        &lua(LUA),
        &added,
        &["CUDA_HOME /opt/cuda-12.4", "CUDA_ROOT /opt/cuda-12.4"],
    );
    check(
        &lua("if x then prepend_path(\n  'X', \"/a\", ':') end x.y = '/z' prepend_path('X', y)"),
        &["X /a"],
        &[],
    );
}

#[test]
fn any_text_gives_a_result() {
    for sample in [TCL, LUA] {
        for end in 0..sample.len() {
            tcl(&sample[..end]);
            lua(&sample[..end]);
        }
    }
    let short = [
        "$",
        "${",
        "$env(",
        "[",
        "[=",
        "\"\\é",
        "{",
        "}}}",
        "set a \\é",
        "prepend-path -d",
        "setenv(,)",
        "é = é",
    ];
    let long = [
        "{",
        "{a",
        "[",
        "if {",
        "if {$a} ",
        "$a",
        "\"",
        "set a $a$a;",
        "\\",
        "setenv(",
        "a=(",
        "a=pathJoin(",
        "a=\"\"..",
        "[=",
        "[=[",
        "--[[",
        "--",
    ];
    for text in short
        .iter()
        .map(|text| (*text).to_owned())
        .chain(long.iter().map(|text| text.repeat(20_000)))
    {
        tcl(&text);
        lua(&text);
    }
    lua(&format!(
        "a = {}\"x\"{}",
        "(".repeat(10_000),
        ")".repeat(10_000)
    ));
    tcl(&format!("set a {}", "[file join ".repeat(10_000)));
    let doubling: String = (0..64)
        .map(|i| format!("set a{} $a{i}$a{i}\n", i + 1))
        .collect();
    tcl(&format!("set a0 /xxxxxxxx\n{doubling}"));
}

/// Each of 40,000 constants in a file of 256 KB could have a value of 4 KB.
#[test]
fn no_module_has_more_than_a_thousand_constants() {
    let with = |constants: usize| {
        let assigned: String = (0..constants)
            .map(|number| format!("a{number} = '/opt/a'\n"))
            .collect();
        lua(&format!("{assigned}prepend_path('X', a{})", constants - 1))
    };
    check(&with(1000), &["X /opt/a"], &[]);
    check(&with(1001), &[], &[]);
}
