//! Which of the messages of a log is the cause of the others.

use std::collections::BTreeSet;

use super::messages::Message;
use crate::catalog::ErrorKind;

/// Lines between a message and one that follows from it.
const REACH: usize = 200;

/// The messages of a log, by their part in the failure.
#[derive(Debug, Default)]
pub struct Chain {
    /// The best explanation first: roots, then symptoms without a root before them; each in the order of the log. Clues if
    /// there are neither.
    pub leading: Vec<Message>,
    /// Symptoms that follow from a root.
    pub following: Vec<Message>,
    pub harmless: Vec<Message>,
}

impl Chain {
    /// The names of the frameworks that print the messages which explain the failure best.
    pub fn writers(&self) -> BTreeSet<&'static str> {
        let rows = self.leading.iter().map(|message| message.row);
        rows.flat_map(|row| &row.by).map(String::as_str).collect()
    }

    /// `messages` are in the order of the log.
    pub fn new(messages: Vec<Message>) -> Chain {
        let mut chain = Chain::default();
        let (mut symptoms, mut clues) = (Vec::new(), Vec::new());
        for message in messages {
            match message.row.kind {
                ErrorKind::Harmless => chain.harmless.push(message),
                ErrorKind::Root => chain.leading.push(message),
                ErrorKind::Symptom => symptoms.push(message),
                ErrorKind::Clue => clues.push(message),
            }
        }
        let (following, alone): (Vec<_>, Vec<_>) = symptoms
            .into_iter()
            .partition(|symptom| chain.leading.iter().any(|root| follows(symptom, root)));
        chain.following = following;
        chain.leading.extend(alone);
        if chain.leading.is_empty() {
            chain.leading = clues;
        }
        chain
    }

    /// The message that explains the failure best, of all that is known from the log alone.
    pub fn chosen(&self) -> Option<&Message> {
        self.leading.first()
    }
}

fn follows(symptom: &Message, root: &Message) -> bool {
    root.first <= symptom.first && symptom.first.saturating_sub(root.last) <= REACH
}
