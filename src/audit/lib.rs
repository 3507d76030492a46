//! The module that the loader asks where a library is (rtld-audit, `LD_AUDIT`): it answers for the names in a table,
//! and can log the files that are mapped. It must not depend on any library: it is mapped into every process of the program,
//! beside any libc.
//!
//! The loader asks the auditors of `LD_AUDIT` in order, so the last one decides. glibc does not ask an audit module
//! about a path that `dlmopen` opens, and preloaded libraries stay outside of its namespace.
#![no_std]
#![no_builtins]

mod binary;
mod follow;
mod log;
mod names;
mod pins;
mod system;
mod texts;
mod tree;

use core::cell::UnsafeCell;
use core::ffi::{c_int, c_uint};
use core::panic::PanicInfo;

use follow::NewProcess;
use pins::{PATH_LIMIT, Pins};
use texts::{text, variable};
use tree::hash;

/// The interface since glibc 2.35. Before, every call between libraries is slow under any auditor.
const INTERFACE: c_uint = 2;

/// The reasons of the loader: a requested name, or a candidate of one kind of search path.
const REQUESTED: c_uint = 0x01;
const RULES: [(c_uint, &[u8]); 5] = [
    (0x02, b"library-path"),
    // DT_RPATH as well.
    (0x04, b"rpath"),
    (0x08, b"cache"),
    (0x40, b"default"),
    (0x80, b"secure"),
];

/// The public part of the loader's `struct link_map`.
#[repr(C)]
pub struct LinkMap {
    address: usize,
    path: *const u8,
}

/// The state between calls.
struct Shared(UnsafeCell<State>);

// SAFETY: the loader calls with its lock held, or before there is a second thread, and nothing here calls back into it.
unsafe impl Sync for Shared {}

static STATE: Shared = Shared(UnsafeCell::new(State {
    arguments: core::ptr::null(),
    environment: core::ptr::null(),
    pins: None,
    log: None,
    answer: [0; PATH_LIMIT],
    search: CurrentSearch {
        rule: None,
        name: [0; PATH_LIMIT],
        length: 0,
        requester: core::ptr::null(),
        candidate: 0,
    },
}));

struct State {
    arguments: *const *const u8,
    environment: *const *const u8,
    pins: Option<Pins<'static>>,
    /// The path of the log, ended by NUL.
    log: Option<&'static [u8]>,
    /// The last answer; the loader copies it before it asks again.
    answer: [u8; PATH_LIMIT],
    search: CurrentSearch,
}

/// The current search of the loader, for the log.
struct CurrentSearch {
    rule: Option<&'static [u8]>,
    name: [u8; PATH_LIMIT],
    length: usize,
    requester: *const u8,
    /// The hash of the path that the loader opens next.
    candidate: u64,
}

/// The loader calls this constructor first.
#[used]
#[unsafe(link_section = ".init_array")]
static START: extern "C" fn(c_int, *const *const u8, *const *const u8) = start;

extern "C" fn start(_: c_int, arguments: *const *const u8, environment: *const *const u8) {
    // SAFETY: one call at a time.
    let state = unsafe { &mut *STATE.0.get() };
    state.arguments = arguments;
    state.environment = environment;
}

/// Gives the version of the interface; with 0, the loader unloads the module and prints nothing.
#[unsafe(no_mangle)]
pub extern "C" fn la_version(offered: c_uint) -> c_uint {
    // SAFETY: one call at a time.
    let state = unsafe { &mut *STATE.0.get() };
    let process = NewProcess {
        arguments: state.arguments,
        environment: state.environment,
    };
    let has_pins = process.follow(&mut state.answer);
    if offered < INTERFACE {
        return 0;
    }
    let pins = variable(state.environment, pins::VARIABLE).filter(|_| has_pins);
    state.pins = pins.and_then(|table| Pins::parse(copied(table).get(..table.len())?));
    let log = variable(state.environment, log::VARIABLE);
    state.log = log
        .filter(|path| path.first() == Some(&b'/') && path.len() < PATH_LIMIT)
        .map(copied);
    if state.pins.is_none() && state.log.is_none() {
        0
    } else {
        INTERFACE
    }
}

/// Gives the path at which the loader should look for a requested name. Logs candidates, and gives them back unchanged.
///
/// # Safety
/// For the loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objsearch(
    name: *const u8,
    requester: *const *const LinkMap,
    reason: c_uint,
) -> *const u8 {
    // SAFETY: one call at a time.
    let State {
        pins,
        log,
        answer,
        search,
        ..
    } = unsafe { &mut *STATE.0.get() };
    if reason != REQUESTED && log.is_none() {
        return name;
    }
    // SAFETY: the loader's names end in NUL.
    let text = unsafe { text(name) };
    if reason != REQUESTED {
        if let Some((_, rule)) = RULES.iter().find(|(flag, _)| *flag == reason) {
            search.rule = Some(*rule);
        }
        search.candidate = hash(text);
        return name;
    }
    let path = pins.and_then(|pins| pins.answer(text, answer));
    if log.is_some() {
        // SAFETY: the cookie is still the one that the loader set.
        search.requester = unsafe { requester_path(requester) };
        search.length = search
            .name
            .iter_mut()
            .zip(text)
            .map(|(to, from)| *to = *from)
            .count();
        search.rule = Some(if path.is_some() { b"pinned" } else { b"path" });
        search.candidate = hash(
            path.and_then(|path| path.split_last())
                .map_or(text, |(_, path)| path),
        );
    }
    path.map_or(name, <[u8]>::as_ptr)
}

/// Logs a mapped object. Returns 0: the loader binds its symbols without a call.
///
/// # Safety
/// For the loader.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn la_objopen(object: *const LinkMap, _: isize, _: *mut usize) -> c_uint {
    // SAFETY: one call at a time.
    let state = unsafe { &mut *STATE.0.get() };
    if let Some(log) = state.log {
        // SAFETY: the loader's object, and its path ends in NUL.
        let path = unsafe { text((*object).path) };
        state.search.log_found(log, path, &mut state.answer);
        state.search.rule = None;
    }
    0
}

impl CurrentSearch {
    fn log_found(&self, log: &[u8], path: &[u8], buffer: &mut [u8]) {
        if path.is_empty() {
            let program = system::read_link(b"/proc/self/exe\0", buffer);
            return log::append(log, b"program", b"", b"", program);
        }
        let name = self.name.get(..self.length).unwrap_or_default();
        // The loader replaces `$ORIGIN`, so the path differs from the candidate.
        let is_expected = self.candidate == hash(path) || name.contains(&b'$');
        match self.rule.filter(|_| is_expected) {
            // SAFETY: the requester is mapped at least until its request is answered.
            Some(rule) => log::append(log, rule, unsafe { text(self.requester) }, name, path),
            // The loader itself, or a file that a program opens by its path into a new namespace.
            None if path.contains(&b'/') => log::append(log, b"unasked", b"", b"", path),
            // The vDSO has no file.
            None => {}
        }
    }
}

/// The path of the object that asks. Its cookie points to its link map, because the module never changes it.
unsafe fn requester_path(requester: *const *const LinkMap) -> *const u8 {
    // SAFETY: the pointers are the loader's own.
    unsafe { requester.as_ref().and_then(|object| object.as_ref()) }
        .map_or(core::ptr::null(), |object| object.path)
}

/// A copy with a NUL behind it: programs write their titles over their environment.
fn copied(text: &'static [u8]) -> &'static [u8] {
    // SAFETY: the copied bytes end in NUL.
    let with_end = unsafe { core::slice::from_raw_parts(text.as_ptr(), text.len() + 1) };
    let Some(memory) = system::memory(with_end.len()) else {
        return with_end;
    };
    memory
        .iter_mut()
        .zip(with_end)
        .for_each(|(to, from)| *to = *from);
    memory
}

/// Nothing panics: a test looks for these words in what was linked.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    loop {
        core::hint::black_box(b"nothing here may panic");
    }
}
