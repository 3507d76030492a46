//! System calls without a libc. Must not touch `errno`.

use core::arch::asm;
use core::mem::MaybeUninit;

use crate::binary::Access;

#[cfg(target_arch = "x86_64")]
mod number {
    pub(super) const READ: usize = 0;
    pub(super) const CLOSE: usize = 3;
    pub(super) const MMAP: usize = 9;
    pub(super) const WRITEV: usize = 20;
    pub(super) const GETPID: usize = 39;
    pub(super) const EXECVE: usize = 59;
    pub(super) const FCNTL: usize = 72;
    pub(super) const OPENAT: usize = 257;
    pub(super) const NEWFSTATAT: usize = 262;
    pub(super) const READLINKAT: usize = 267;
    pub(super) const FACCESSAT: usize = 269;
    pub(super) const O_NOFOLLOW: usize = 0o400_000;
    /// The places of the owner and the mode in `struct stat`, in words of four bytes.
    pub(super) const OWNER: usize = 7;
    pub(super) const MODE: usize = 6;
}

#[cfg(target_arch = "aarch64")]
mod number {
    pub(super) const FCNTL: usize = 25;
    pub(super) const FACCESSAT: usize = 48;
    pub(super) const OPENAT: usize = 56;
    pub(super) const CLOSE: usize = 57;
    pub(super) const READ: usize = 63;
    pub(super) const WRITEV: usize = 66;
    pub(super) const READLINKAT: usize = 78;
    pub(super) const NEWFSTATAT: usize = 79;
    pub(super) const GETPID: usize = 172;
    pub(super) const EXECVE: usize = 221;
    pub(super) const MMAP: usize = 222;
    pub(super) const O_NOFOLLOW: usize = 0o100_000;
    /// The places of the owner and the mode in `struct stat`, in words of four bytes.
    pub(super) const OWNER: usize = 6;
    pub(super) const MODE: usize = 4;
}

/// Relative paths start from the current directory.
const AT_FDCWD: usize = (-100_isize).cast_unsigned();

/// A part of a record: `struct iovec`.
#[repr(C)]
pub(crate) struct Piece {
    start: *const u8,
    length: usize,
}

impl Piece {
    pub(crate) const fn new(bytes: &[u8]) -> Piece {
        Piece {
            start: bytes.as_ptr(),
            length: bytes.len(),
        }
    }
}

pub(crate) fn process_id() -> usize {
    // SAFETY: reads a number.
    unsafe { call(number::GETPID, [0; 6]) }.unwrap_or(0)
}

/// Opens an existing file to append to it. Follows no link and does not wait. `path` ends in NUL.
pub(crate) fn open_to_append(path: &[u8]) -> Option<usize> {
    const O_WRONLY: usize = 0o1;
    const O_NOCTTY: usize = 0o400;
    const O_APPEND: usize = 0o2000;
    const O_NONBLOCK: usize = 0o4000;
    const O_CLOEXEC: usize = 0o2_000_000;
    let flags = O_WRONLY | O_APPEND | O_CLOEXEC | O_NOCTTY | O_NONBLOCK | number::O_NOFOLLOW;
    // SAFETY: the path ends in NUL and outlives the call.
    unsafe {
        call(
            number::OPENAT,
            [AT_FDCWD, path.as_ptr() as usize, flags, 0, 0, 0],
        )
    }
}

/// A second descriptor of a file, above those of the standard streams.
pub(crate) fn above_standard_streams(descriptor: usize) -> Option<usize> {
    const F_DUPFD_CLOEXEC: usize = 1030;
    // SAFETY: makes a descriptor and touches no memory.
    unsafe { call(number::FCNTL, [descriptor, F_DUPFD_CLOEXEC, 3, 0, 0, 0]) }
}

pub(crate) fn close(descriptor: usize) {
    // SAFETY: callers own what they close.
    unsafe { call(number::CLOSE, [descriptor, 0, 0, 0, 0, 0]) };
}

/// Writes all pieces at once.
pub(crate) fn write(descriptor: usize, pieces: &[Piece]) {
    // SAFETY: the pieces lie in memory that outlives the call, which only reads.
    unsafe {
        call(
            number::WRITEV,
            [descriptor, pieces.as_ptr() as usize, pieces.len(), 0, 0, 0],
        )
    };
}

/// The target of a link, cut at the buffer's length. `path` ends in NUL.
pub(crate) fn read_link<'b>(path: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: the path ends in NUL; no more than the buffer's length is written.
    let read = unsafe {
        call(
            number::READLINKAT,
            [AT_FDCWD, path.as_ptr() as usize, start, length, 0, 0],
        )
    };
    read.and_then(|length| buffer.get(..length))
        .unwrap_or_default()
}

/// The device and inode of the file that a path leads to. `path` ends in NUL.
pub(crate) fn identity(path: &[u8]) -> Option<(u64, u64)> {
    let stat = status(path)?;
    let fields = stat.as_ptr().cast::<u64>();
    // SAFETY: the kernel has written the structure.
    unsafe { Some((*fields, *fields.add(1))) }
}

/// Tells who may change the file that a path leads to. `path` ends in NUL.
pub(crate) fn access(path: &[u8]) -> Option<Access> {
    let stat = status(path)?;
    let fields = stat.as_ptr().cast::<u32>();
    // SAFETY: the kernel has written the structure, in which the group follows the owner.
    unsafe {
        Some(Access {
            owner: *fields.add(number::OWNER),
            group: *fields.add(number::OWNER + 1),
            mode: *fields.add(number::MODE),
        })
    }
}

/// `struct stat` begins with device and inode on both machines, and is shorter than this.
fn status(path: &[u8]) -> Option<MaybeUninit<[u64; 32]>> {
    let mut stat = MaybeUninit::<[u64; 32]>::uninit();
    // SAFETY: the path ends in NUL and outlives the call, which writes the whole structure or fails.
    unsafe {
        call(
            number::NEWFSTATAT,
            [
                AT_FDCWD,
                path.as_ptr() as usize,
                stat.as_mut_ptr() as usize,
                0,
                0,
                0,
            ],
        )?;
    }
    Some(stat)
}

/// The beginning of a file, by one read. `path` ends in NUL.
pub(crate) fn read_start<'b>(path: &[u8], buffer: &'b mut [u8]) -> &'b [u8] {
    let Some(descriptor) = open_to_read(path) else {
        return b"";
    };
    let (start, length) = (buffer.as_mut_ptr() as usize, buffer.len());
    // SAFETY: no more than the buffer's length is written.
    let read = unsafe { call(number::READ, [descriptor, start, length, 0, 0, 0]) };
    close(descriptor);
    read.and_then(|length| buffer.get(..length))
        .unwrap_or_default()
}

/// True if this process may read a file and start it. `path` ends in NUL.
pub(crate) fn can_be_started(path: &[u8]) -> bool {
    const X_OK: usize = 1;
    // SAFETY: the path ends in NUL and outlives the call.
    let starts = unsafe {
        call(
            number::FACCESSAT,
            [AT_FDCWD, path.as_ptr() as usize, X_OK, 0, 0, 0],
        )
    };
    let Some(descriptor) = starts.and_then(|_| open_to_read(path)) else {
        return false;
    };
    close(descriptor);
    true
}

fn open_to_read(path: &[u8]) -> Option<usize> {
    const O_CLOEXEC: usize = 0o2_000_000;
    // SAFETY: the path ends in NUL and outlives the call.
    unsafe {
        call(
            number::OPENAT,
            [AT_FDCWD, path.as_ptr() as usize, O_CLOEXEC, 0, 0, 0],
        )
    }
}

/// Becomes another program. Returns if the kernel refuses.
///
/// # Safety
/// `path` ends in NUL; both lists end in a null pointer, and their texts in NUL.
pub(crate) unsafe fn execute(
    path: &[u8],
    arguments: *const *const u8,
    environment: *const *const u8,
) {
    let [path, arguments, environment] = [
        path.as_ptr() as usize,
        arguments as usize,
        environment as usize,
    ];
    // SAFETY: as above.
    unsafe { call(number::EXECVE, [path, arguments, environment, 0, 0, 0]) };
}

/// Zeroed memory that is never freed.
pub(crate) fn memory(length: usize) -> Option<&'static mut [u8]> {
    const PROT_READ_WRITE: usize = 3;
    const MAP_PRIVATE_ANONYMOUS: usize = 0x22;
    // SAFETY: asks for new memory and replaces none.
    let start = unsafe {
        call(
            number::MMAP,
            [
                0,
                length,
                PROT_READ_WRITE,
                MAP_PRIVATE_ANONYMOUS,
                usize::MAX,
                0,
            ],
        )
    }?;
    // SAFETY: that much was mapped, there is no other reference to it, and it stays.
    Some(unsafe { core::slice::from_raw_parts_mut(start as *mut u8, length) })
}

/// # Safety
/// The system call must be sound with these arguments.
#[cfg(target_arch = "x86_64")]
unsafe fn call(number: usize, arguments: [usize; 6]) -> Option<usize> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the kernel's convention: these two registers are lost, and no others.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") number.cast_signed() => result,
            in("rdi") first, in("rsi") second, in("rdx") third, in("r10") fourth, in("r8") fifth, in("r9") sixth,
            lateout("rcx") _, lateout("r11") _,
            options(nostack)
        );
    }
    usize::try_from(result).ok()
}

/// # Safety
/// The system call must be sound with these arguments.
#[cfg(target_arch = "aarch64")]
unsafe fn call(number: usize, arguments: [usize; 6]) -> Option<usize> {
    let [first, second, third, fourth, fifth, sixth] = arguments;
    let result: isize;
    // SAFETY: the kernel's convention: all other registers are kept.
    unsafe {
        asm!(
            "svc 0",
            in("x8") number,
            inlateout("x0") first.cast_signed() => result,
            in("x1") second, in("x2") third, in("x3") fourth, in("x4") fifth, in("x5") sixth,
            options(nostack)
        );
    }
    usize::try_from(result).ok()
}
