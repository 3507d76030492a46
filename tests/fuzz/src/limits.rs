//! The limits of one run, and an allocator that counts.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Seconds of processor time, since other processes may keep this one waiting.
const SECONDS: f64 = 1.0;
/// Bytes of memory at once, for each byte of input and besides.
const MEMORY_PER_BYTE: usize = 20;
const MEMORY: usize = 50 << 20;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

pub struct Counting;

// SAFETY: hands every call on to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let now = NOW.fetch_add(layout.size(), Relaxed) + layout.size();
        MOST.fetch_max(now, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        NOW.fetch_sub(layout.size(), Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(memory, layout) }
    }
}

/// Panics if `work` takes too long or too much memory for so many bytes of input.
pub fn hold(bytes: usize, work: impl FnOnce()) {
    let (before, began) = (NOW.load(Relaxed), seconds());
    MOST.store(before, Relaxed);
    work();
    let (took, memory) = (seconds() - began, MOST.load(Relaxed).saturating_sub(before));
    assert!(took <= SECONDS, "{took:.1} s for {bytes} bytes");
    assert!(
        memory <= bytes * MEMORY_PER_BYTE + MEMORY,
        "{memory} bytes of memory for {bytes} bytes"
    );
}

fn seconds() -> f64 {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: fills a structure of ours.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
