//! The directories of our own on disk, and what is kept in them: finished starts, proofs, facts of files, answers for
//! the shell hook.

mod files;
mod kept;
mod key;
mod path_states;
mod places;
pub mod scans;

pub use files::{
    Delivery, FileLock, can_publish, create_directory, deliver, digest, full_digest, is_ours, lock,
    new_file, prune, publish, publish_again, publish_new, read, remove, stamp, temporary_file,
    temporary_path, write,
};
pub use kept::{find_answer, find_start, keep_answer, keep_start};
pub use key::StartKey;
pub use places::{
    NoPlace, UnusablePlace, WriteRefusal, cache_directory, candidates, examined_candidates,
    first_possible, first_usable, planned_cache_directory, safe_directories, user_store,
};
