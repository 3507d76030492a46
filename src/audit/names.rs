//! The names by which a process that may use NVIDIA's libraries is known. Pure. Compiled into the module, which has no
//! standard library, and into the crate.

/// What only a Python defines: `main` of the interpreter, whatever its file is called, and of programs that embed it.
pub(crate) const OF_PYTHON: [&[u8]; 2] = [b"Py_BytesMain", b"Py_RunMain"];

/// The stems of all families' members, from `profiles/libraries.toml`; a `*` at the end matches any text. The build script sets
/// it.
pub(crate) const LIBRARIES: &str = env!("CUDARUN_LIBRARIES");

/// The loader, started as a program: what it loads then is not known from its own file.
const LOADERS: &str = "ld-linux* ld-2.* ld.so";

/// Programs that start another one under another root directory, where the module is not: the loader would print a line about
/// it in each process there.
const OTHER_ROOT: &str = "chroot bwrap proot ch-run";

/// Programs that open CUDA at run time, of which their file says nothing.
/// Sources: CUDA.jl, ollama's and llama.cpp's ggml-cuda, Triton's backends, Blender's Cycles, ffmpeg's ffnvcodec, torch for R,
/// DJL and onnxruntime for Java and for Node.
pub(crate) const PROGRAMS: &str =
    "julia ollama llama-server llama-cli tritonserver blender ffmpeg R Rscript java node";

/// True for a name in `DT_NEEDED` that is of a family, or of Python.
pub(crate) fn is_library(name: &[u8]) -> bool {
    let Some(end) = name.windows(3).position(|part| matches!(part, b".so")) else {
        return false;
    };
    let stem = name.get(..end).unwrap_or_default();
    starts_with(stem, b"libpython") || is_one_of(LIBRARIES, stem)
}

/// True for the words by which a variable says no.
pub(crate) fn means_no(word: &[u8]) -> bool {
    ["off", "0", "no", "n", "false", "f"]
        .iter()
        .any(|no| word.eq_ignore_ascii_case(no.as_bytes()))
}

/// True for the name of the loader's file.
pub(crate) fn is_loader(name: &[u8]) -> bool {
    is_one_of(LOADERS, name)
}

/// True for the name of a program's file that is known to start another one under another root directory.
pub(crate) fn leaves_the_root(name: &[u8]) -> bool {
    is_one_of(OTHER_ROOT, name)
}

/// True for the name of a program's file that is known to open CUDA at run time.
pub(crate) fn opens_at_run_time(name: &[u8]) -> bool {
    is_one_of(PROGRAMS, name)
}

fn is_one_of(patterns: &'static str, name: &[u8]) -> bool {
    let mut patterns = patterns.as_bytes().split(|byte| *byte == b' ');
    patterns.any(|pattern| match pattern.split_last() {
        Some((b'*', beginning)) => starts_with(name, beginning),
        _ => name.len() == pattern.len() && starts_with(name, pattern),
    })
}

fn starts_with(text: &[u8], beginning: &[u8]) -> bool {
    text.len() >= beginning.len() && text.iter().zip(beginning).all(|(one, other)| one == other)
}
