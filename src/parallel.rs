//! Maps many items on all processors. Imports nothing of the crate.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// So few items are done before a thread has begun.
const FEW: usize = 16;
/// More threads than this only wait for the same disk.
const THREADS: usize = 8;

/// Gives the results of `work` in the order of the items.
pub fn map<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_beyond(FEW, items, work)
}

/// [`map`] for work that takes longer than a thread needs to begin.
pub fn map_each<T: Sync, R: Send>(items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    map_beyond(1, items, work)
}

fn map_beyond<T: Sync, R: Send>(few: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    // To ask for this takes a dozen system calls.
    static PROCESSORS: LazyLock<usize> =
        LazyLock::new(|| thread::available_parallelism().map_or(1, usize::from));
    if items.len() <= few || *PROCESSORS == 1 {
        return items.iter().map(work).collect();
    }
    let threads = THREADS.min(*PROCESSORS);
    let next = AtomicUsize::new(0);
    let mut results = thread::scope(|scope| {
        let mut others = Vec::new();
        for _ in 1..threads {
            let thread = thread::Builder::new();
            // If the system refuses more threads, the others do all the work.
            others.extend(thread.spawn_scoped(scope, || share(items, &next, &work)));
        }
        let mut results = share(items, &next, &work);
        for thread in others {
            results.extend(thread.join().expect("no work panics"));
        }
        results
    });
    results.sort_unstable_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// The results of one thread, each with the index of its item. A thread takes the next item when it has done one.
fn share<T, R>(items: &[T], next: &AtomicUsize, work: impl Fn(&T) -> R) -> Vec<(usize, R)> {
    let mut results = Vec::new();
    loop {
        let index = next.fetch_add(1, Ordering::Relaxed);
        let Some(item) = items.get(index) else {
            return results;
        };
        results.push((index, work(item)));
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, 16, 17, 1000] {
            let items: Vec<usize> = (0..count).collect();
            let doubled: Vec<usize> = items.iter().map(|item| item * 2).collect();
            assert_eq!(super::map(&items, |item| item * 2), doubled);
        }
    }
}
