//! Names of environment variables: the dynamic loader's and our own. The audit module repeats three of them, since it
//! shares no code with the crate.

pub const LIBRARY_PATH: &str = "LD_LIBRARY_PATH";
pub const PRELOAD: &str = "LD_PRELOAD";
pub const AUDIT: &str = "LD_AUDIT";
pub const REQUIRE: &str = "CUDARUN_REQUIRE";
pub const PIN: &str = "CUDARUN_PIN";
pub const PIN_MODE: &str = "CUDARUN_PIN_MODE";
pub const USES: &str = "CUDARUN_USES";
pub const VERIFY: &str = "CUDARUN_VERIFY";
pub const VERIFY_LEVEL: &str = "CUDARUN_VERIFY_LEVEL";
pub const LOCKED: &str = "CUDARUN_LOCKED";
pub const ON_FAILURE: &str = "CUDARUN_ON_FAILURE";
/// When missing wheels are fetched; `never` decides over every file and option.
pub const FETCH: &str = "CUDARUN_FETCH";
pub const CONFIG: &str = "CUDARUN_CONFIG";
/// Names the view that a program was started with, for the program and for a cudarun below it.
pub const VIEW: &str = "CUDARUN_VIEW";
/// Names the project in a shell that cudarun opened, for a prompt. Other variables of such a shell begin with it.
pub const SHELL: &str = "CUDARUN_SHELL";
/// The table of pinned names for the audit module.
pub const PINS: &str = "CUDARUN_PINS";
/// Names a file to which the audit module adds a record of each object that is mapped.
pub const TRACE: &str = "CUDARUN_TRACE";
/// Marks the verifying child.
pub const PROOF: &str = "CUDARUN_PROOF";
/// The options of the run form, for what the program starts: `--also`, `--without`, `--build`, `-q`, `-v`.
pub const ALSO: &str = "CUDARUN_ALSO";
pub const WITHOUT: &str = "CUDARUN_WITHOUT";
pub const BUILD: &str = "CUDARUN_BUILD";
pub const QUIET: &str = "CUDARUN_QUIET";
pub const VERBOSE: &str = "CUDARUN_VERBOSE";
/// What cudarun tells the processes below a program: which process it decided about, and what it changed.
pub const TREE: &str = "CUDARUN_TREE";
/// The module that the shell hook has set.
pub const HOOK_FOLLOWS: &str = "CUDARUN_HOOK_FOLLOWS";
/// `off`: what a program starts is started as without cudarun.
pub const FOLLOW: &str = "CUDARUN_FOLLOW";
