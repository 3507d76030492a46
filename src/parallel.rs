//! Maps many items on all processors. Imports nothing of the crate.

use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

/// So few items are done before a thread has begun.
const FEW: usize = 16;
/// More threads than this only wait for the same disk.
const THREADS: usize = 8;

/// Returns the results of `work` in the order of the items.
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
    let take_turns = || {
        let mut done = Vec::new();
        while let Some((index, item)) = {
            let index = next.fetch_add(1, Ordering::Relaxed);
            items.get(index).map(|item| (index, item))
        } {
            done.push((index, work(item)));
        }
        done
    };
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        // If the system refuses more threads, the others do all the work.
        let spawn = |_| thread::Builder::new().spawn_scoped(scope, take_turns).ok();
        let others: Vec<_> = (1..threads).filter_map(spawn).collect();
        let own = take_turns();
        let others = others
            .into_iter()
            .flat_map(|thread| thread.join().expect("no work panics"));
        own.into_iter().chain(others).collect()
    });
    done.sort_unstable_by_key(|(index, _)| *index);
    done.into_iter().map(|(_, result)| result).collect()
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
