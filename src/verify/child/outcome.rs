//! The outcomes of calls and computations, and the comparison of numbers.

use crate::verify::protocol::{Measure, Precision, StepResult};

/// A failed call.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Refused {
    pub call: &'static str,
    pub code: i64,
    pub name: Option<String>,
    pub message: Option<String>,
}

/// The failure of a computation.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum ComputationFault {
    Refused(Refused),
    /// The library has no such function.
    NoFunction(&'static str),
    /// The first wrong number: its error if that is finite, its index, and the error that rounding explains.
    Numbers {
        largest_error: Option<f64>,
        element: usize,
        allowed: f64,
    },
}

pub(super) type Tried = Result<StepResult, ComputationFault>;

/// The reason why a computation stopped.
pub(super) enum Stop {
    /// This release lacks the function, or this use of it.
    Absent(&'static str),
    /// The library says that this GPU or this release cannot do it.
    NotSupported(Refused),
    Wrong(ComputationFault),
}

impl From<Refused> for Stop {
    fn from(refused: Refused) -> Stop {
        Stop::Wrong(refused.into())
    }
}

impl From<ComputationFault> for Stop {
    fn from(wrong: ComputationFault) -> Stop {
        Stop::Wrong(wrong)
    }
}

/// For computations that every release supports.
impl From<Stop> for ComputationFault {
    fn from(stop: Stop) -> ComputationFault {
        match stop {
            Stop::Absent(function) => ComputationFault::NoFunction(function),
            Stop::NotSupported(refused) => ComputationFault::Refused(refused),
            Stop::Wrong(wrong) => wrong,
        }
    }
}

/// The verdict on a computation. Every GPU supports `float`, so a refusal of that is a failure.
pub(super) fn settle(precision: Precision, came: Result<StepResult, Stop>) -> Tried {
    match came {
        Err(Stop::Absent(call)) => Ok(StepResult::NotSupported {
            call: call.to_owned(),
            code: 0,
            name: Some("not in this release".to_owned()),
        }),
        Err(Stop::NotSupported(refused)) if precision != Precision::Fp32 => {
            Ok(StepResult::NotSupported {
                call: refused.call.to_owned(),
                code: refused.code,
                name: refused.name,
            })
        }
        came => Ok(came?),
    }
}

impl From<Refused> for ComputationFault {
    fn from(refused: Refused) -> ComputationFault {
        ComputationFault::Refused(refused)
    }
}

/// The verdict on numbers: each result with the expected number and the allowed error. NaN is always wrong.
pub(super) fn compare(results: impl Iterator<Item = (f64, f64, f64)>, length: usize) -> Tried {
    let mut worst = (0.0, 0.0);
    for (element, (got, expected, allowed)) in results.enumerate() {
        let error = (got - expected).abs();
        if error.is_nan() || error > allowed {
            let largest_error = error.is_finite().then_some(error);
            return Err(ComputationFault::Numbers {
                largest_error,
                element,
                allowed,
            });
        }
        worst = (error.max(worst.0), allowed.max(worst.1));
    }
    let length = u32::try_from(length).unwrap_or(u32::MAX);
    Ok(StepResult::Right(Measure {
        largest_error: worst.0,
        allowed: worst.1,
        length,
    }))
}

/// Compares numbers that must be right to the last bit.
pub(super) fn compare_exact(results: Vec<f64>, expected: Vec<f64>, length: usize) -> Tried {
    let pairs = results.into_iter().zip(expected);
    compare(
        pairs.map(|(result, expected)| (result, expected, 0.0)),
        length,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unsupported_operation_fails_only_in_fp32() {
        let refused = Refused {
            call: "f",
            code: 9,
            name: Some("NO".to_owned()),
            message: None,
        };
        let refuse = || Err(Stop::NotSupported(refused.clone()));
        let came = StepResult::NotSupported {
            call: "f".to_owned(),
            code: 9,
            name: Some("NO".to_owned()),
        };
        assert_eq!(settle(Precision::Fp16, refuse()), Ok(came));
        assert_eq!(
            settle(Precision::Fp32, refuse()),
            Err(ComputationFault::Refused(refused.clone()))
        );
        assert_eq!(
            settle(Precision::Fp16, Err(refused.clone().into())),
            Err(ComputationFault::Refused(refused))
        );
        let absent = settle(Precision::Fp32, Err(Stop::Absent("g")));
        assert!(
            matches!(absent, Ok(StepResult::NotSupported { call, code: 0, .. }) if call == "g")
        );
    }
}
