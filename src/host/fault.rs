//! Faults of cudarun itself that tests ask for. A release build has none.
#![allow(
    clippy::disallowed_methods,
    reason = "makes the file that is cut short"
)]

use std::ffi::OsStr;
use std::fs;
use std::time::Duration;

use super::{Host, variable};

/// The table that a test uses in place of a profile: the content of the file that this variable names. A release build has none.
pub fn table_of_test(name: &str) -> Option<String> {
    let file = variable(name).filter(|_| cfg!(debug_assertions))?;
    fs::read_to_string(file).ok()
}

impl Host {
    /// Has the fault that a test asks for by `CUDARUN_TEST_FAULT=KIND@STAGE`. A release build has none.
    pub fn trip(&self, stage: &str) {
        if !cfg!(debug_assertions) {
            return;
        }
        let fault = self
            .env
            .get("CUDARUN_TEST_FAULT")
            .and_then(OsStr::to_str)
            .and_then(|fault| fault.split_once('@'));
        match fault.filter(|(_, at)| *at == stage) {
            Some(("panic", _)) => panic!("a test asks for it"),
            Some(("replaced", _)) => _ = std::env::current_exe().and_then(fs::remove_file),
            Some(("thread", _)) => drop(std::thread::spawn(|| panic!("a test asks for it")).join()),
            Some(("cut", _)) => {
                let file = self.cwd.join("cut");
                let mapped = fs::write(&file, "x").and_then(|()| self.map(&file));
                let _ = fs::File::create(&file);
                assert_eq!(mapped.expect("it was written")[0], b'x');
            }
            // Until the test has removed the file that says so.
            Some(("pause", _)) => {
                let file = self.cwd.join("paused");
                fs::write(&file, "").expect("a test's directory can be written to");
                while self.is_file(&file) {
                    std::thread::sleep(Duration::from_millis(1));
                }
            }
            _ => {}
        }
    }
}
