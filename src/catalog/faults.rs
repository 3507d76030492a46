//! The faults of `profiles/faults.toml`, and their texts.

use std::sync::LazyLock;

use serde::{Deserialize, Serialize};

use super::fault_rows::{FaultRow, Faults};

// The build script makes the enum `Fault` of the names of the rows, in their order.
include!(concat!(env!("OUT_DIR"), "/fault-names.rs"));

/// A fact in a text, by the name that stands for it there.
pub type Text = (&'static str, String);

pub fn faults() -> &'static [FaultRow] {
    static FAULTS: LazyLock<Faults> = LazyLock::new(|| profile!("faults"));
    &FAULTS.fault
}

impl Fault {
    pub fn named(name: &str) -> Option<Fault> {
        serde_json::from_value(name.into()).ok()
    }

    pub fn row(self) -> &'static FaultRow {
        &faults()[self as usize]
    }

    /// The sentence of a finding with its facts.
    pub fn sentence(self, texts: &[Text]) -> String {
        let row = self.row();
        match filled(&row.here, texts) {
            (here, true) if !here.is_empty() => here,
            _ => {
                let (says, is_whole) = filled(&row.says, texts);
                debug_assert!(is_whole, "{self:?} lacks a fact: {says}");
                says
            }
        }
    }

    /// The sentence about a library, file or tool, with nothing known of the machine.
    pub fn sentence_about(self, subject: &str) -> String {
        filled(&self.row().says, &[("of", subject.to_owned())]).0
    }
}

/// Puts facts in the places of their names in braces, and `…` for others. True if each name had a fact.
pub fn filled(text: &str, texts: &[Text]) -> (String, bool) {
    let (mut out, mut rest, mut is_whole) = (String::new(), text, true);
    while let Some((before, (name, after))) = rest
        .split_once('{')
        .and_then(|(before, after)| Some((before, after.split_once('}')?)))
    {
        let fact = texts.iter().find(|(known, _)| *known == name);
        is_whole &= fact.is_some();
        out = out + before + fact.map_or("…", |(_, fact)| fact);
        rest = after;
    }
    (out + rest, is_whole)
}
