//! Follows the processes below a program that cudarun started. One that may use NVIDIA's libraries is replaced, before its
//! first instruction, by cudarun with the same arguments, which decides about it and becomes it. If that is not possible, or
//! nobody needs it, the process goes on as it is.

use core::ffi::{CStr, c_void};

use crate::binary::{MARKER, REPLACES, RESTORES, ROOM};
use crate::names;
use crate::pins::PATH_LIMIT;
use crate::system;
use crate::texts::{each, number_of, text, variable};
use crate::tree::{self, Decided, Seal};

/// A person's switch: `off` stops following from here on.
const SWITCH: &str = "CUDARUN_FOLLOW";

/// The link to the file of this process.
const EXECUTABLE: &[u8] = b"/proc/self/exe\0";

/// Marks the child of a proof.
const PROOF: &str = "CUDARUN_PROOF";

/// The path of cudarun, which is written into a copy of this module when it is published: no variable names the program
/// that is started in place of another one.
#[used]
static CUDARUN: [u8; ROOM] = {
    let mut room = [0; ROOM];
    let mut index = 0;
    while index < MARKER.len() {
        room[index] = MARKER[index];
        index += 1;
    }
    room
};

/// What the kernel tells a new process in its auxiliary vector.
mod auxiliary {
    pub(super) const END: usize = 0;
    pub(super) const PROGRAM_HEADERS: usize = 3;
    pub(super) const PROGRAM_HEADER_COUNT: usize = 5;
    pub(super) const UID: usize = 11;
    pub(super) const EFFECTIVE_UID: usize = 12;
    pub(super) const GID: usize = 13;
    pub(super) const EFFECTIVE_GID: usize = 14;
    pub(super) const SECURE: usize = 23;
    /// `AT_EXECFN`: the path that execve was given.
    pub(super) const EXECUTED: usize = 31;
}

/// A new process, as the loader hands it on.
#[derive(Clone, Copy)]
pub(crate) struct NewProcess {
    pub arguments: *const *const u8,
    pub environment: *const *const u8,
}

/// The file of this process. The link's text, which `buffer` begins with, comes first: where an emulator runs the program, the link
/// itself leads to the emulator.
fn own_file(buffer: &mut [u8; PATH_LIMIT], length: usize) -> Option<(u64, u64)> {
    *buffer.get_mut(length)? = 0;
    system::identity(buffer).or_else(|| system::identity(EXECUTABLE))
}

fn start_time(buffer: &mut [u8]) -> u64 {
    for line in tree::PROCESS_LINES {
        let time = tree::start_time(system::read_start(line.to_bytes_with_nul(), buffer));
        if time != 0 {
            return time;
        }
    }
    0
}

impl NewProcess {
    /// True if the pins are for this process: cudarun has just decided about it, or it is a proof, which has no tree. Replaces it by
    /// cudarun if it should be decided for itself: then this does not return.
    pub(crate) fn follow(self, buffer: &mut [u8; PATH_LIMIT]) -> bool {
        let Some(state) = variable(self.environment, tree::VARIABLE) else {
            return variable(self.environment, PROOF).is_some();
        };
        // `ldd` only wants the names of this program's libraries. Without a number, a process would never be known again.
        let is_listed = variable(self.environment, "LD_TRACE_LOADED_OBJECTS").is_some();
        if is_listed || system::process_id() == 0 || self.has_more_rights() {
            return false;
        }
        let length = system::read_link(EXECUTABLE, buffer).len();
        let Some(file) = own_file(buffer, length) else {
            return false;
        };
        let path = buffer.get(..length).unwrap_or_default();
        let name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default();
        if names::leaves_the_root(name) {
            // Also when cudarun has just decided about it: nothing of cudarun's is below the other root.
            self.replace(RESTORES, file, buffer);
            return false;
        }
        let is_loader = names::is_loader(name);
        let opens = names::opens_at_run_time(name);
        let mut process = self;
        if is_loader {
            let Some(arguments) = all_arguments() else {
                return false;
            };
            process.arguments = arguments;
        }
        if Decided::parse(state).is_some_and(|decided| process.was_decided(&decided, file)) {
            return true;
        }
        let is_off = variable(self.environment, SWITCH).is_some_and(names::means_no);
        let is_known = is_loader || opens || tree::has_plan(state, file);
        if !is_off && (is_known || self.uses_libraries()) {
            process.replace(REPLACES, file, buffer);
        } else if tree::leads_to_libraries(state) {
            process.replace(RESTORES, file, buffer);
        }
        false
    }

    /// True if this is the process that was decided, as it was started then.
    fn was_decided(self, decided: &Decided, file: (u64, u64)) -> bool {
        if decided.process != system::process_id() as u64 {
            return false;
        }
        let Some(buffer) = system::memory(PATH_LIMIT) else {
            return false;
        };
        if decided.start != start_time(buffer) {
            return false;
        }
        let mut seal = Seal::new(file);
        // SAFETY: both lists end in a null pointer, and each text in NUL.
        unsafe {
            each(self.arguments, |argument| seal.argument(argument));
            each(self.environment, |entry| seal.variable(entry));
        }
        seal.number() == decided.seal
    }

    fn has_more_rights(self) -> bool {
        use auxiliary::{EFFECTIVE_GID, EFFECTIVE_UID, GID, SECURE, UID};
        self.auxiliary(SECURE) != Some(0)
            || self.auxiliary(UID) != self.auxiliary(EFFECTIVE_UID)
            || self.auxiliary(GID) != self.auxiliary(EFFECTIVE_GID)
    }

    /// True for a Python, and for a program that is linked against a library of NVIDIA's.
    fn uses_libraries(self) -> bool {
        let (Some(headers), Some(count)) = (
            self.auxiliary(auxiliary::PROGRAM_HEADERS),
            self.auxiliary(auxiliary::PROGRAM_HEADER_COUNT),
        ) else {
            return false;
        };
        // SAFETY: the kernel has mapped the program and tells where its headers are.
        unsafe { MappedProgram::new(headers, count) }.is_some_and(|image| image.uses_libraries())
    }

    /// Becomes cudarun, in place of the executable `file`. Returns if it cannot: then nothing has changed.
    fn replace(self, word: &'static CStr, file: (u64, u64), buffer: &mut [u8; PATH_LIMIT]) {
        /// Before the arguments: cudarun, the word, the file, and what the kernel was told to execute.
        const WORDS: usize = 4;
        let (Some(cudarun), Some(parts)) = (cudarun_path(), cudarun_path()) else {
            return;
        };
        let Some(user) = self.auxiliary(auxiliary::EFFECTIVE_UID) else {
            return;
        };
        #[allow(
            clippy::cast_possible_truncation,
            reason = "the kernel's user numbers have 32 bits"
        )]
        let user = user as u32;
        // This process is cudarun: it goes on.
        let is_cudarun = system::identity(cudarun).is_none_or(|cudarun| cudarun == file);
        if cudarun.first() != Some(&b'/') || is_cudarun || !is_trusted(parts, user) {
            return;
        }
        let length = system::read_link(EXECUTABLE, buffer).len();
        // An executable that was removed or cut off cannot be started again.
        let Some(end) = buffer.get_mut(length) else {
            return;
        };
        *end = 0;
        let Some(path) = buffer.get(..=length) else {
            return;
        };
        if !system::can_be_started(path) {
            return;
        }
        // SAFETY: the list ends in a null pointer.
        let count = unsafe { number_of(self.arguments) };
        // Before Linux 5.18, a process may have no name at all.
        if count == 0 {
            return;
        }
        let Some(list) = system::memory((count + WORDS + 1) * size_of::<*const u8>()) else {
            return;
        };
        let executed = self.executed();
        let list = list.as_mut_ptr().cast::<c_void>().cast::<*const u8>();
        // SAFETY: the list has room for these words, the arguments and a null pointer, and mapped memory is aligned.
        unsafe {
            list.write(cudarun.as_ptr());
            list.add(1).write(word.as_ptr().cast());
            list.add(2).write(path.as_ptr());
            list.add(3).write(executed);
            for index in 0..count {
                list.add(WORDS + index).write(*self.arguments.add(index));
            }
            list.add(WORDS + count).write(core::ptr::null());
            system::execute(cudarun, list, self.environment);
        }
    }

    /// The path that execve was given; empty where the kernel does not tell.
    fn executed(self) -> *const u8 {
        match self.auxiliary(auxiliary::EXECUTED) {
            None | Some(0) => c"".as_ptr().cast(),
            Some(path) => core::ptr::with_exposed_provenance(path),
        }
    }

    fn auxiliary(self, kind: usize) -> Option<usize> {
        if self.environment.is_null() {
            return None;
        }
        // SAFETY: the loader hands on what the kernel has put on the stack: the list of variables ends in a null pointer, and
        // the vector behind it in an entry of type 0.
        unsafe {
            let mut entry = self
                .environment
                .add(number_of(self.environment) + 1)
                .cast::<[usize; 2]>();
            loop {
                match *entry {
                    [auxiliary::END, _] => return None,
                    [found, value] if found == kind => return Some(value),
                    _ => entry = entry.add(1),
                }
            }
        }
    }
}

/// A copy of the path of cudarun, which ends in NUL.
fn cudarun_path() -> Option<&'static mut [u8]> {
    let path = system::memory(CUDARUN.len())?;
    for (index, byte) in (MARKER.len()..CUDARUN.len()).zip(path.iter_mut()) {
        // SAFETY: reads a static; the compiler must not know its content, which is written into the file later.
        *byte = unsafe { (&raw const CUDARUN).cast::<u8>().add(index).read_volatile() };
    }
    Some(path)
}

/// The arguments as the kernel got them: when the loader is the program, it takes its own ones away. `None` if they are too long.
fn all_arguments() -> Option<*const *const u8> {
    const LENGTH: usize = 1 << 17;
    let buffer = system::memory(LENGTH)?;
    let length = system::read_start(b"/proc/self/cmdline\0", buffer).len();
    let words = buffer.get(..length).filter(|_| length < LENGTH)?;
    let count = words.split(|byte| *byte == 0).count() - 1;
    let list = system::memory((count + 1) * size_of::<*const u8>())?;
    let list = list.as_mut_ptr().cast::<c_void>().cast::<*const u8>();
    let words = words.split_inclusive(|byte| *byte == 0);
    for (index, word) in words.enumerate().take(count) {
        // SAFETY: the list has room for them, and a null pointer is behind them, since the memory is zeroed and aligned.
        unsafe { list.add(index).write(word.as_ptr()) };
    }
    Some(list)
}

/// True if nobody but root and this user can replace a file: it and its directories are only for them. The path is cut off at
/// each slash.
fn is_trusted(path: &mut [u8], user: u32) -> bool {
    let mut end = path.iter().position(|byte| *byte == 0).unwrap_or_default();
    while end > 0 {
        if let Some(byte) = path.get_mut(end) {
            *byte = 0;
        }
        if !is_only_for(user, path) {
            return false;
        }
        let part = path.get(..end).unwrap_or_default();
        end = part
            .iter()
            .rposition(|byte| *byte == b'/')
            .unwrap_or_default();
    }
    is_only_for(user, b"/\0")
}

fn is_only_for(user: u32, path: &[u8]) -> bool {
    system::access(path).is_some_and(|access| access.is_only_for(user))
}

/// The mapped program.
struct MappedProgram {
    /// The difference between its addresses and those in its file.
    bias: usize,
    dynamic: *const [usize; 2],
}

#[repr(C)]
struct Header {
    kind: u32,
    flags: u32,
    offset: usize,
    address: usize,
    physical: usize,
    length: usize,
    memory: usize,
    alignment: usize,
}

impl MappedProgram {
    /// # Safety
    /// There are so many program headers of a mapped program.
    unsafe fn new(headers: usize, count: usize) -> Option<MappedProgram> {
        const DYNAMIC: u32 = 2;
        const HEADERS: u32 = 6;
        let mut bias = None;
        let mut dynamic = None;
        for index in 0..count {
            // SAFETY: as above.
            let header =
                unsafe { &*core::ptr::with_exposed_provenance::<Header>(headers).add(index) };
            match header.kind {
                HEADERS => bias = Some(headers.wrapping_sub(header.address)),
                DYNAMIC => dynamic = Some(header.address),
                _ => {}
            }
        }
        let bias = bias?;
        Some(MappedProgram {
            bias,
            dynamic: core::ptr::with_exposed_provenance(bias.wrapping_add(dynamic?)),
        })
    }

    /// The entries of the dynamic section, until its end.
    fn entries(&self) -> impl Iterator<Item = (usize, usize)> {
        (0..usize::MAX).map_while(|index| {
            // SAFETY: the last entry is of kind 0.
            let [kind, value] = unsafe { *self.dynamic.add(index) };
            (kind != 0).then_some((kind, value))
        })
    }

    /// Older loaders have added the bias to the addresses in the dynamic section already.
    fn address(&self, wanted: usize) -> Option<usize> {
        let (_, value) = self.entries().find(|(kind, _)| *kind == wanted)?;
        Some(if value < self.bias {
            value.wrapping_add(self.bias)
        } else {
            value
        })
    }

    fn uses_libraries(&self) -> bool {
        const NEEDED: usize = 1;
        const STRINGS: usize = 5;
        let Some(strings) = self.address(STRINGS) else {
            return false;
        };
        let mut needed = self.entries().filter(|(kind, _)| *kind == NEEDED);
        needed.any(|(_, value)| {
            let name = core::ptr::with_exposed_provenance(strings.wrapping_add(value));
            // SAFETY: a text of a program that the kernel has mapped.
            names::is_library(unsafe { text(name) })
        }) || names::OF_PYTHON
            .iter()
            .any(|name| self.exports(strings, name))
    }

    /// True if the program defines a symbol, by its GNU hash table. Programs without one export nothing of interest.
    fn exports(&self, strings: usize, wanted: &[u8]) -> bool {
        const SYMBOLS: usize = 6;
        const GNU_HASH: usize = 0x6fff_fef5;
        const SYMBOL_SIZE: usize = 24;
        let (Some(symbols), Some(table)) = (self.address(SYMBOLS), self.address(GNU_HASH)) else {
            return false;
        };
        let hash = wanted.iter().fold(5381_u32, |hash, byte| {
            hash.wrapping_mul(33).wrapping_add(u32::from(*byte))
        });
        // SAFETY: the table is the program's own, and the loader relies on it in the same way.
        unsafe {
            let buckets = word(table) as usize;
            let first = word(table + 4) as usize;
            let filters = word(table + 8) as usize;
            if buckets == 0 {
                return false;
            }
            let chains = table + 16 + filters * size_of::<usize>();
            let values = chains + buckets * 4;
            let mut symbol = word(chains + hash as usize % buckets * 4) as usize;
            while symbol >= first && symbol != 0 {
                let value = word(values + (symbol - first) * 4);
                let entry = symbols + symbol * SYMBOL_SIZE;
                let is_defined = *core::ptr::with_exposed_provenance::<u16>(entry + 6) != 0;
                let name = text(core::ptr::with_exposed_provenance(
                    strings.wrapping_add(word(entry) as usize),
                ));
                if value | 1 == hash | 1 && is_defined && crate::pins::same(name, wanted) {
                    return true;
                }
                if value & 1 == 1 {
                    break;
                }
                symbol += 1;
            }
        }
        false
    }
}

/// # Safety
/// The program has mapped these four bytes.
unsafe fn word(address: usize) -> u32 {
    // SAFETY: as above.
    unsafe { *core::ptr::with_exposed_provenance::<u32>(address) }
}
