//! Copies a program's standard error to this process's own, every byte unchanged and in order.
//!
//! cudarun keeps the first 256 KiB and the last 1 to 2 MiB of standard error. Processes that the program leaves behind
//! keep their standard error: a small process hands it on until they end. If a program works and reports that it found
//! no GPU, on a machine without one, cudarun prints one line.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::thread;
use std::time::Duration;

use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl, open};
use nix::libc;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::pty::{Winsize, grantpt, posix_openpt, ptsname_r, unlockpt};
use nix::sys::stat::Mode;
use nix::sys::termios::{OutputFlags, SetArg, tcgetattr, tcsetattr};
use nix::unistd::{ForkResult, close, fork, write};

/// More than a pipe holds unless it is asked for more.
const PIECE: usize = 128 << 10;
/// Milliseconds that a pseudo-terminal may take to show what was written to it.
const DRAIN_TIMEOUT: u8 = 20;

pub(super) struct Relay {
    input: File,
    piece: Vec<u8>,
}

impl Relay {
    /// A relay, and the end for the program: a pseudo-terminal of the same size where standard error is a
    /// terminal, so that bars and colours stay, else a pipe.
    pub(super) fn new() -> io::Result<(Relay, OwnedFd)> {
        let standard_error = io::stderr();
        let (input, end): (OwnedFd, OwnedFd) = match tcgetattr(&standard_error) {
            Ok(mut settings) => {
                // The terminal itself turns line ends into its own.
                settings.output_flags.remove(OutputFlags::OPOST);
                // `openpty` is in a library of its own before glibc 2.34.
                let flags = OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC;
                let terminal = posix_openpt(flags)?;
                grantpt(&terminal)?;
                unlockpt(&terminal)?;
                let end = open(Path::new(&ptsname_r(&terminal)?), flags, Mode::empty())?;
                tcsetattr(&end, SetArg::TCSANOW, &settings)?;
                resize(terminal.as_raw_fd());
                (terminal.as_fd().try_clone_to_owned()?, end)
            }
            Err(_) => {
                let (input, end) = io::pipe()?;
                // Fewer turns. A limit of the user may forbid it.
                let _ = fcntl(&input, FcntlArg::F_SETPIPE_SZ(1 << 20));
                (input.into(), end.into())
            }
        };
        fcntl(&input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK))?;
        Ok((
            Relay {
                input: input.into(),
                piece: vec![0; PIECE],
            },
            end,
        ))
    }

    /// The descriptor of the pseudo-terminal or pipe.
    pub(super) fn number(&self) -> i32 {
        self.input.as_raw_fd()
    }

    /// Forwards all that is written, and gives it to `tee` after that. Ends when the other end is closed, when nothing reads
    /// this process's standard error, or when `stop` is closed and nothing is left to forward. Returns true then: another
    /// process still has the other end.
    pub(super) fn run(&mut self, stop: BorrowedFd<'_>, mut tee: impl FnMut(&[u8])) -> bool {
        let mut is_ending = false;
        let standard_error = io::stderr();
        loop {
            match self.forward(&mut tee) {
                PieceResult::Forwarded => continue,
                PieceResult::None => {}
                PieceResult::Closed => return false,
            }
            let mut ends = [
                PollFd::new(self.input.as_fd(), PollFlags::POLLIN),
                // Errors are reported unasked.
                PollFd::new(standard_error.as_fd(), PollFlags::empty()),
                PollFd::new(stop, PollFlags::POLLIN),
            ];
            let (count, wait) = if is_ending {
                (2, PollTimeout::from(DRAIN_TIMEOUT))
            } else {
                (3, PollTimeout::NONE)
            };
            match poll(&mut ends[..count], wait) {
                Err(Errno::EINTR) => continue,
                Err(_) | Ok(0) => return true,
                Ok(_) => {}
            }
            let [_, is_unread, is_stopped] = ends.map(|end| end.any().unwrap_or(true));
            is_ending |= is_stopped;
            if is_unread {
                return false;
            }
        }
    }

    fn forward(&mut self, tee: &mut impl FnMut(&[u8])) -> PieceResult {
        match self.input.read(&mut self.piece) {
            Ok(0) => PieceResult::Closed,
            Ok(length) => {
                let is_read = write_all(&self.piece[..length]);
                tee(&self.piece[..length]);
                if is_read {
                    PieceResult::Forwarded
                } else {
                    PieceResult::Closed
                }
            }
            Err(error) => match error.kind() {
                io::ErrorKind::WouldBlock => PieceResult::None,
                io::ErrorKind::Interrupted => PieceResult::Forwarded,
                // A pseudo-terminal that is closed.
                _ => PieceResult::Closed,
            },
        }
    }

    /// Forwards for processes that outlive the program, in a process of its own that ends with them.
    #[allow(unsafe_code, reason = "makes a process")]
    pub(super) fn outlive(mut self) {
        // SAFETY: the new process makes only system calls, with memory that was allocated before.
        unsafe {
            if matches!(fork(), Ok(ForkResult::Child)) {
                let _ = (close(0), close(1));
                while !matches!(self.forward(&mut |_| ()), PieceResult::Closed) {
                    let mut end = [PollFd::new(self.input.as_fd(), PollFlags::POLLIN)];
                    let _ = poll(&mut end, PollTimeout::NONE);
                }
                libc::_exit(0);
            }
        }
    }
}

/// What became of a piece.
enum PieceResult {
    Forwarded,
    None,
    /// The program's end is closed, or nothing reads this process's standard error: the program then gets that error itself.
    Closed,
}

/// False if nothing reads standard error any more.
fn write_all(mut bytes: &[u8]) -> bool {
    let standard_error = io::stderr();
    while !bytes.is_empty() {
        match write(&standard_error, bytes) {
            Ok(written) => bytes = &bytes[written..],
            Err(Errno::EINTR) => {}
            Err(Errno::EAGAIN) => {
                let _ = poll(
                    &mut [PollFd::new(standard_error.as_fd(), PollFlags::POLLOUT)],
                    PollTimeout::NONE,
                );
            }
            Err(Errno::EPIPE) => return false,
            // A full disk: later bytes may find room.
            Err(_) => return true,
        }
    }
    true
}

/// Waits until what a stopped program has written is forwarded, so that it is shown before this process stops too. Another
/// process may go on writing.
#[allow(unsafe_code, reason = "borrows a descriptor that the relay keeps")]
pub(super) fn settle(relay: i32) {
    if relay < 0 {
        return;
    }
    // SAFETY: if the relay closes it meanwhile, `poll` says so. Nothing here opens a file that could get its number.
    let input = unsafe { BorrowedFd::borrow_raw(relay) };
    for _ in 0..DRAIN_TIMEOUT {
        let mut end = [PollFd::new(input, PollFlags::POLLIN)];
        match poll(&mut end, PollTimeout::from(DRAIN_TIMEOUT)) {
            Ok(count) if count > 0 => thread::sleep(Duration::from_millis(1)),
            _ => return,
        }
    }
}

/// The size of the terminal that standard error is.
#[allow(unsafe_code, reason = "asks the kernel")]
fn window() -> Option<Winsize> {
    let mut size = Winsize {
        ws_row: 0,
        ws_col: 0,
        ws_xpixel: 0,
        ws_ypixel: 0,
    };
    // SAFETY: writes into a structure of ours.
    (unsafe { libc::ioctl(2, libc::TIOCGWINSZ, &raw mut size) } == 0).then_some(size)
}

/// Gives the size of the terminal to the pseudo-terminal. A handler of signals may do that.
#[allow(unsafe_code, reason = "tells the kernel")]
pub(super) fn resize(terminal: i32) {
    if let Some(size) = window() {
        // SAFETY: reads a structure of ours.
        unsafe { libc::ioctl(terminal, libc::TIOCSWINSZ, &raw const size) };
    }
}
