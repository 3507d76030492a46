//! This process in the place of a program that something else started: the audit module has replaced it by cudarun before
//! its first instruction. From here on, everything is as if somebody had typed `cudarun` before the program, in the
//! environment without what a cudarun above it has added. Whatever goes wrong ends in the program as it was started.
//!
//! The module puts cudarun in the place of the program, in the same process. cudarun takes back what a cudarun above it
//! has added to the environment, decides, and becomes the program. Processes for which nothing is decided, and that
//! have inherited cudarun's part of LD_LIBRARY_PATH or LD_PRELOAD, are started once more without it; the person's own
//! part stays. Without the two rules (same arguments and environment; 16 decisions), a program that executes itself
//! until LD_LIBRARY_PATH is as it wants would never end. `chroot`, `bwrap`, `proot` and `ch-run` are started without
//! the variables, so that the loader prints no message there.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::libc;
use nix::sys::stat::stat;

use super::inheritance::restore_before_exec;
use super::tree::{self, Decided, ProcessTree, Seal, VariableChange, names};
use crate::environment::{Diff, Environment};
use crate::host;
use crate::pin::audit_module::binary::{REPLACES, RESTORES};
use crate::program::interpreter_line;
use crate::variables;

/// After so many decisions about one process, it starts as it is: it probably executes itself until its environment is as it
/// wants.
const DECISIONS: u64 = 16;
/// Scripts can name scripts as their interpreters; the kernel allows as many levels.
const INTERPRETERS: usize = 4;

/// The tree above this process, before anything of it was taken back.
static TREE: OnceLock<ProcessTree> = OnceLock::new();
static REPLACED: OnceLock<Replaced> = OnceLock::new();
static IS_REFUSED: AtomicBool = AtomicBool::new(false);

/// The process that cudarun replaces: what starts it as it was started. All of it is made at once, so that a handler of a
/// signal can use it.
struct Replaced {
    /// The path by which a Python finds its environment.
    program: CString,
    /// From `argv[0]` on.
    arguments: Texts,
    /// As this process got it, without the libraries of plans above it, unless it comes back with the same question. The
    /// variable of the tree marks this start as decided.
    environment: Texts,
    /// Its executable, arguments and environment, without what a cudarun above has added.
    question: u64,
}

/// Texts with the list of pointers to them that the kernel takes.
struct Texts {
    texts: Vec<CString>,
    list: Vec<*const libc::c_char>,
}

// SAFETY: the pointers lead to the texts, which never change.
unsafe impl Send for Texts {}
// SAFETY: as above.
unsafe impl Sync for Texts {}

impl Texts {
    fn new(texts: Vec<CString>) -> Texts {
        let pointers = texts.iter().map(|text| text.as_ptr());
        let list = pointers.chain([std::ptr::null()]).collect();
        Texts { texts, list }
    }

    fn bytes(&self) -> impl Iterator<Item = &[u8]> {
        self.texts.iter().map(CString::as_bytes)
    }
}

/// The module by which what this shell starts is followed; `None` in a shell that does not follow.
pub fn followed_by() -> Option<PathBuf> {
    TREE.get()?.added_to(variables::AUDIT).map(PathBuf::from)
}

/// True if this process replaces a program that nobody has typed `cudarun` for.
pub fn is_replaced() -> bool {
    REPLACED.get().is_some()
}

/// The name by which the replaced process was called, which Python may look for on PATH.
pub(super) fn own_name() -> Option<OsString> {
    let first = REPLACED.get()?.arguments.texts.first()?;
    Some(OsStr::from_bytes(first.as_bytes()).to_owned())
}

/// Called where the replaced program must not start.
pub fn refuse() {
    IS_REFUSED.store(true, Ordering::Relaxed);
}

/// Called first of all, before there is a second thread: takes over the arguments of a process that cudarun replaces, and
/// takes back what a cudarun above has changed in the environment.
pub fn enter() {
    let inherited = host::variable(variables::TREE).map(OsString::from);
    let words = host::arguments();
    let word = words.get(1).filter(|_| words.len() >= 5);
    let word = word.map_or(&b""[..], |word| word.as_bytes());
    let must_restore = word == RESTORES.to_bytes();
    let is_replaced = must_restore || word == REPLACES.to_bytes();
    if inherited.is_none() && !is_replaced {
        return;
    }
    let tree = ProcessTree::parse(&inherited.unwrap_or_default());
    let env = host::environment();
    if let [own, _, file, executed, rest @ ..] = words.as_slice()
        && is_replaced
    {
        let program = called_path(&rest[0], executed, Path::new(file));
        if must_restore {
            restore(Path::new(file), &program, rest, &env, tree);
        }
        let undo = tree.undo(&env);
        let _ = TREE.set(tree);
        let mut arguments = vec![own.clone(), program.clone().into_os_string()];
        arguments.extend(rest[1..].iter().cloned());
        host::set_arguments(arguments);
        note_replaced(&program, rest, &env.with(&undo));
        host::change_environment(&undo);
    } else {
        host::change_environment(&tree.undo(&env));
        let _ = TREE.set(tree);
    }
}

/// Becomes a program that is not followed, without the libraries of a plan above it; and without anything of cudarun's if it
/// starts others where cudarun is not.
fn restore(
    file: &Path,
    program: &Path,
    words: &[OsString],
    env: &Environment,
    mut tree: ProcessTree,
) -> ! {
    // The name of the file, not of a link to it: the module goes by it.
    let name = file.file_name().unwrap_or_default();
    let env = if names::leaves_the_root(name.as_bytes()) {
        env.with(&tree.undo(env))
    } else {
        let mut env = env.with(&tree.take_libraries_back(env));
        env.set(variables::TREE, tree.text());
        env
    };
    // The kernel has handed on all of these texts, so none has a NUL.
    let program = CString::new(program.as_os_str().as_bytes()).unwrap_or_default();
    let arguments = Texts::new(c_texts(words).unwrap_or_default());
    let environment = Texts::new(c_texts(&entries(&env)).unwrap_or_default());
    // SAFETY: all texts end in NUL, and both lists in a null pointer.
    unsafe {
        execute(&program, &arguments.list, &environment.list);
    }
    // The kernel refuses it, after it has started it once.
    // SAFETY: ends this process and touches nothing in it.
    unsafe { libc::_exit(126) }
}

/// Notes the process that this cudarun stands in for. Becomes it at once, and does not return, if cudarun has answered the same
/// question before, or too many.
fn note_replaced(program: &Path, words: &[OsString], env: &Environment) {
    let arguments = Texts::new(c_texts(words).unwrap_or_default());
    let file = file_id(program);
    let question_entries = entries(env);
    let question = seal(
        file,
        arguments.bytes(),
        question_entries.iter().map(|entry| entry.as_bytes()),
    );
    let mut environment = own_environment();
    let mut tree = TREE.get().cloned().unwrap_or_default();
    let is_again =
        last_decision().is_some_and(|last| last.count >= DECISIONS || last.question == question);
    if !is_again {
        // What was set for another program is not for this one.
        let undo = tree.take_libraries_back(&host::environment());
        change(&mut environment, &undo);
    }
    // The variable of the tree itself is no part of the seal.
    let entries = environment.iter().map(CString::as_bytes);
    let seal = seal(file, arguments.bytes(), entries);
    tree.decided = Some(decided_now(seal, question));
    change(&mut environment, &tree_variable(&tree));
    let Ok(program) = CString::new(program.as_os_str().as_bytes()) else {
        return;
    };
    let _ = REPLACED.set(Replaced {
        program,
        arguments,
        environment: Texts::new(environment),
        question,
    });
    if is_again {
        become_it();
    }
}

/// Changes variables, and leaves all other entries as they are, also those that are not `NAME=VALUE`.
fn change(environment: &mut Vec<CString>, diff: &Diff) {
    for (name, value) in &diff.0 {
        let start = [name.as_bytes(), b"="].concat();
        environment.retain(|entry| !entry.as_bytes().starts_with(&start));
        if let Some(value) = value {
            environment.extend(CString::new([&start, value.as_bytes()].concat()));
        }
    }
}

/// The path by which a program was called: `argv[0]`, or what the kernel was told, if it leads to the same file.
fn called_path(first: &OsStr, executed: &OsStr, file: &Path) -> PathBuf {
    for path in [first, executed] {
        if path.as_bytes().contains(&b'/')
            && let Ok(stat) = stat(path)
            && (stat.st_dev, stat.st_ino) == file_id(file)
        {
            return PathBuf::from(path);
        }
    }
    file.to_owned()
}

/// The entries of this process's environment, also those that are not `NAME=VALUE`.
fn own_environment() -> Vec<CString> {
    let mut entries = Vec::new();
    // SAFETY: there is one thread; the list ends in a null pointer, and each text in NUL.
    unsafe {
        let mut entry = libc::environ.cast_const();
        while !entry.is_null() && !(*entry).is_null() {
            entries.push(CStr::from_ptr(*entry).to_owned());
            entry = entry.add(1);
        }
    }
    entries
}

/// What cudarun has decided last, if that was about this process.
fn last_decision() -> Option<Decided> {
    let decided = TREE.get()?.decided?;
    let is_own = decided.process == u64::from(std::process::id()) && decided.start == start_time();
    is_own.then_some(decided)
}

/// Becomes the replaced program as it was started. Returns if there is none, or if it must not start. A handler of a signal
/// may call it.
pub fn become_it() {
    let Some(replaced) = REPLACED.get() else {
        return;
    };
    if IS_REFUSED.load(Ordering::Relaxed) {
        return;
    }
    restore_before_exec();
    // SAFETY: all texts end in NUL, and both lists in a null pointer.
    unsafe {
        execute(
            &replaced.program,
            &replaced.arguments.list,
            &replaced.environment.list,
        );
    }
}

/// Becomes a program by the system call itself: tools that watch processes put a function of theirs in the place of the one in
/// libc, which changes the environment, and the module would not know the start again. Returns where the kernel refuses.
///
/// # Safety
/// Both lists end in a null pointer, and their texts in NUL.
unsafe fn execute(
    program: &CStr,
    arguments: &[*const libc::c_char],
    environment: &[*const libc::c_char],
) {
    // SAFETY: as above.
    unsafe {
        libc::syscall(
            libc::SYS_execve,
            program.as_ptr(),
            arguments.as_ptr(),
            environment.as_ptr(),
        );
    }
}

/// Makes the value of the variable of the tree for a start with this change, in the environment `env`. `argv0` and `arguments` are
/// those of the program's start.
pub(super) fn tree_for_start(
    program: &Path,
    argv0: &OsStr,
    arguments: &[OsString],
    env: &Environment,
    diff: &Diff,
) -> OsString {
    let mut words = vec![argv0.to_owned()];
    words.extend(arguments.iter().cloned());
    let file = file_id(&through_interpreters(program, &mut words));
    let question = match REPLACED.get() {
        Some(replaced) => replaced.question,
        None => start_seal(file, &words, env),
    };
    let mut tree = ProcessTree::parse(diff.get(variables::TREE).unwrap_or_default());
    if let Some(parent) = TREE.get() {
        for file in &parent.planned {
            if !tree.planned.contains(file) {
                tree.planned.insert(0, *file);
            }
        }
    }
    let seal = start_seal(file, &words, &env.with(diff));
    tree.decided = Some(decided_now(seal, question));
    tree.text()
}

/// Sets the variable of the tree for a start that changes the environment like this. What is known only of the process is added
/// when it starts. `with_plan` is the executable that gets a plan.
pub fn tree_change(diff: &Diff, env: &Environment, with_plan: Option<&Path>) -> Diff {
    let mut tree = ProcessTree::default();
    tree.planned.extend(with_plan.map(file_id));
    for (name, value) in &diff.0 {
        let old = name.to_str().and_then(|name| env.get(name));
        tree.changes.push(VariableChange {
            name: name.clone(),
            new: value.clone(),
            old: old.map(OsStr::to_owned),
        });
    }
    tree_variable(&tree)
}

/// Sets the variable of the tree.
fn tree_variable(tree: &ProcessTree) -> Diff {
    Diff([(variables::TREE.into(), Some(tree.text()))].into())
}

/// Notes that cudarun decides about this process now, once more than before.
fn decided_now(seal: u64, question: u64) -> Decided {
    Decided {
        process: std::process::id().into(),
        start: start_time(),
        seal,
        question,
        count: last_decision().map_or(1, |last| last.count + 1),
    }
}

/// The file that the kernel executes for a program: the interpreter of a script.
pub fn executed_file(program: &Path) -> PathBuf {
    through_interpreters(program, &mut vec![OsString::new()])
}

/// The file that the kernel executes for a program. Changes the words as it does: a script is started by its
/// interpreter.
fn through_interpreters(program: &Path, words: &mut Vec<OsString>) -> PathBuf {
    let mut file = program.to_owned();
    for _ in 0..INTERPRETERS {
        let line = host::first_line(&file).unwrap_or_default();
        let Some((interpreter, argument)) = interpreter_line(&line) else {
            break;
        };
        let mut first = vec![interpreter.clone().into_os_string()];
        first.extend(argument);
        first.push(file.into_os_string());
        words.splice(..1, first);
        file = interpreter;
    }
    file
}

fn start_seal(file: (u64, u64), words: &[OsString], env: &Environment) -> u64 {
    let words = words.iter().map(|word| word.as_bytes());
    let entries = entries(env);
    seal(file, words, entries.iter().map(|entry| entry.as_bytes()))
}

fn seal<'a>(
    file: (u64, u64),
    words: impl Iterator<Item = &'a [u8]>,
    entries: impl Iterator<Item = &'a [u8]>,
) -> u64 {
    let mut seal = Seal::new(file);
    words.for_each(|word| seal.argument(word));
    entries.for_each(|entry| seal.variable(entry));
    seal.number()
}

/// Texts for the kernel; none if one of them has a NUL.
pub(super) fn c_texts<'t>(texts: impl IntoIterator<Item = &'t OsString>) -> Option<Vec<CString>> {
    let mut c_texts = Vec::new();
    for text in texts {
        c_texts.push(CString::new(text.as_bytes()).ok()?);
    }
    Some(c_texts)
}

/// `NAME=VALUE` for each variable.
pub(super) fn entries(env: &Environment) -> Vec<OsString> {
    let mut entries = Vec::new();
    for (name, value) in env.iter() {
        let entry = [name.as_bytes(), b"=", value.as_bytes()].concat();
        entries.push(OsString::from_vec(entry));
    }
    entries
}

fn file_id(path: &Path) -> (u64, u64) {
    stat(path).map_or((0, 0), |stat| (stat.st_dev, stat.st_ino))
}

/// When this process started, as the module reads it; 0 if it cannot be read. Allocates nothing.
fn start_time() -> u64 {
    let mut times = tree::PROCESS_LINES.into_iter().map(start_time_in);
    times.find(|time| *time != 0).unwrap_or_default()
}

fn start_time_in(path: &CStr) -> u64 {
    let mut line = [0; 512];
    // SAFETY: reads a file into memory of this function.
    let length = unsafe {
        let file = libc::open(path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        let length = libc::read(file, line.as_mut_ptr().cast(), line.len());
        libc::close(file);
        length
    };
    tree::start_time(&line[..usize::try_from(length).unwrap_or_default()])
}

/// A start that is followed: only the process itself can say which one it is.
pub(super) struct SealedStart {
    program: CString,
    arguments: Texts,
    environment: Vec<*const libc::c_char>,
    /// What `environment` points to.
    _texts: Vec<CString>,
    /// `CUDARUN_TREE=…`, which ends in NUL.
    tree: Vec<u8>,
}

// SAFETY: the pointers lead to texts of the same value, which stay where they are.
unsafe impl Send for SealedStart {}
// SAFETY: as above.
unsafe impl Sync for SealedStart {}

impl SealedStart {
    /// `None` for a start that is not followed.
    pub(super) fn new(
        program: &Path,
        argv0: &OsStr,
        arguments: &[OsString],
        env: &Environment,
    ) -> Option<SealedStart> {
        let value = env.get(variables::TREE)?.as_bytes();
        let tree = [variables::TREE.as_bytes(), b"=", value, b"\0"].concat();
        let mut words = vec![argv0.to_owned()];
        words.extend_from_slice(arguments);
        let mut others = env.clone();
        others.remove(OsStr::new(variables::TREE));
        let texts = c_texts(&entries(&others))?;
        let pointers = texts.iter().map(|text| text.as_ptr());
        let environment = pointers
            .chain([tree.as_ptr().cast(), std::ptr::null()])
            .collect();
        Some(SealedStart {
            program: CString::new(program.as_os_str().as_bytes()).ok()?,
            arguments: Texts::new(c_texts(&words)?),
            environment,
            _texts: texts,
            tree,
        })
    }

    /// Becomes the program, as the process that calls this. Returns where the kernel refuses. Safe after a fork.
    pub(super) fn become_it(&mut self) {
        let start = variables::TREE.len() + 1;
        write_number(&mut self.tree[start..], std::process::id().into(), 8);
        write_number(&mut self.tree[start + 9..], start_time(), 16);
        // SAFETY: all texts end in NUL, and both lists in a null pointer.
        unsafe {
            execute(&self.program, &self.arguments.list, &self.environment);
        }
    }
}

/// Writes a number in the place of another one of as many digits.
fn write_number(place: &mut [u8], number: u64, digits: usize) {
    for (index, byte) in place.iter_mut().take(digits).enumerate() {
        let digit = number >> (4 * (digits - 1 - index)) & 0xf;
        *byte = b"0123456789abcdef"[usize::try_from(digit).unwrap_or_default()];
    }
}
