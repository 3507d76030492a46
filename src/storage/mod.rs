//! The directories of our own on disk: safe places in them, and files that are written whole or not at all.

mod files;
mod places;

pub use files::{
    Delivery, FileLock, can_publish, create_directory, deliver, digest, full_digest, is_ours, lock,
    new_file, prune, publish, publish_again, publish_new, read, read_recent, remove, stamp,
    temporary_file, temporary_path, write,
};
pub use places::{
    NoPlace, UnusablePlace, WriteRefusal, cache_directory, candidates, examined_candidates,
    first_possible, first_usable, planned_cache_directory, safe_directories, user_store,
};
