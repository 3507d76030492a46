//! The causes of a failure, as an object.

use serde_json::{Value, json};

use super::object::{each, object};
use crate::causes::{Cause, TextOrigin};
use crate::diagnose::Message;
use crate::report::diagnose::{Cure, Diagnosis, sentence};
use crate::report::doctor::shown_evidence;
use crate::report::hints::shell_words;

pub(super) fn diagnosis(diagnosis: &Diagnosis<'_>) -> Value {
    json!({
        "recognised": diagnosis.is_recognised(),
        "causes": each(diagnosis.causes, |one| cause(one, diagnosis)),
        "harmless": each(&diagnosis.chain.harmless, MessageObject),
        "program": shell_words(diagnosis.program),
        "elsewhere": diagnosis.text_origin == TextOrigin::Elsewhere,
        "has_opened_gpu": diagnosis.has_opened_gpu,
        "left_out": diagnosis.left_out,
    })
}

fn cause(cause: &Cause<'_>, diagnosis: &Diagnosis<'_>) -> Value {
    json!({
        "cause": cause.fault,
        "certainty": cause.certainty,
        "not_here": cause.is_not_here,
        "what": sentence(cause),
        "said": MessageObject(cause.message),
        "evidence": each(&cause.evidence, shown_evidence),
        "cures": each(&diagnosis.cures(cause), CureObject),
    })
}

object!(CureObject(cure: Cure) {
    "do": cure.command,
    "why": cure.why,
});

object!(MessageObject(message: Message) {
    "text": message.excerpt,
    "line": message.first,
    "count": message.count,
    "processes": message.speakers.len(),
    "message": message.row.id,
});
