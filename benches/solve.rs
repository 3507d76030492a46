//! How long the solver takes over many installations, as `benches/solve.sh` prints it: measure solve COPIES ROUNDS
//!
//! Five numbers: the median of a solution and of an explained conflict in microseconds, how many answers differed from the
//! first, of each, and the median of the yardstick: the text of the same installations, which no change of the solver reaches.

use std::time::Instant;

use cudarun::solve::{Outcome, Policy, solve};

#[path = "../tests/support/solver_inputs.rs"]
mod solver_inputs;

pub fn run(arguments: &[String]) {
    let mut numbers = arguments.iter().map(|text| text.parse::<usize>().unwrap());
    let (installations, rounds) = (numbers.next().unwrap_or(1000), numbers.next().unwrap_or(31));
    let (solved, different) = measure(installations, rounds, false);
    let (explained, otherwise) = measure(installations, rounds, true);
    let yardstick = print_installations(installations, rounds);
    println!("{solved} {explained} {different} {otherwise} {yardstick}");
}

/// The median in microseconds of writing the installations as text.
fn print_installations(installations: usize, rounds: usize) -> u128 {
    let (inventory, _) = solver_inputs::large(installations, false);
    let mut took = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let text = format!("{:?}", inventory.installations);
        took.push(begin.elapsed().as_micros());
        assert!(text.len() > installations);
    }
    took.sort_unstable();
    took[rounds / 2]
}

/// The median in microseconds, and how many answers were not the first.
fn measure(installations: usize, rounds: usize, torn: bool) -> (u128, usize) {
    let (inventory, program) = solver_inputs::large(installations, torn);
    let mut took = Vec::new();
    let mut answers = Vec::new();
    for _ in 0..rounds {
        let begin = Instant::now();
        let outcome = solve(&inventory, &program, &Policy::default());
        took.push(begin.elapsed().as_micros());
        let is_expected = match &outcome {
            Outcome::Plan(plan) => !torn && plan.picks.len() == 31,
            Outcome::Conflict(conflict) => torn && conflict.contradictions[0].members.len() > 1,
            Outcome::Nothing { .. } => false,
        };
        assert!(is_expected, "not the question that was meant");
        answers.push(format!("{outcome:?}"));
    }
    took.sort_unstable();
    (
        took[rounds / 2],
        answers
            .iter()
            .filter(|answer| **answer != answers[0])
            .count(),
    )
}
