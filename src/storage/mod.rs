//! The directories of our own on disk: safe places in them, and files that are written whole or not at all.
//!
//! A view or a decision is written beside its place and renamed, so that no node of a shared home sees half of one. A
//! lock on a file (`flock`) decides which process proves; if a file system has none, each process proves for itself.

mod files;
mod places;

pub use files::{
    Delivery, FileLock, can_publish, create_directory, deliver, digest, full_digest, is_ours, lock,
    missing_directories, new_file, prune, publish, publish_again, publish_below, publish_new, read,
    read_recent, remove, remove_with_directories, stamp, temporary_file, temporary_path, write,
};
pub use places::{
    NoPlace, UnusablePlace, WriteRefusal, cache_directory, candidates, examined_candidates,
    first_possible, first_usable, planned_cache_directory, safe_directories, user_store,
};
