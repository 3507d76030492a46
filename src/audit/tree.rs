//! The variable by which cudarun is known to the processes below it: which process it decided last, and how that process was
//! then started. Pure. Compiled into the module, which has no standard library, and into the crate.

use core::ffi::CStr;

/// `PROCESS.START.SEAL.QUESTION.COUNT/DEVICE:INODE,…/CHANGES`: the numbers are hexadecimal. The second part names the
/// executables that got a plan; launch/tree.rs writes and explains the third.
pub(crate) const VARIABLE: &str = "CUDARUN_TREE";

/// The process that was decided last. A process number is used again, but not with the same time of its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decided {
    pub process: u64,
    /// Field 22 of `/proc/self/stat`; 0 where it cannot be read.
    pub start: u64,
    /// The executable, the arguments and the environment with which cudarun started it: see [`Seal`]. The module knows the start
    /// by it.
    pub seal: u64,
    /// The same with the environment as it was before cudarun changed it: if it comes back, the process asks what was answered
    /// already.
    pub question: u64,
    /// How often cudarun has decided about this process.
    pub count: u64,
}

impl Decided {
    /// Reads the part of the variable before the first slash.
    pub(crate) fn parse(text: &[u8]) -> Option<Decided> {
        let part = text.split(|byte| *byte == b'/').next()?;
        let mut fields = part.split(|byte| *byte == b'.');
        let mut numbers = [0; 5];
        for number in &mut numbers {
            *number = hexadecimal(fields.next()?)?;
        }
        let [process, start, seal, question, count] = numbers;
        fields.next().is_none().then_some(Decided {
            process,
            start,
            seal,
            question,
            count,
        })
    }
}

/// True if a file is in the second part of the variable: it was given a plan above this process.
pub(crate) fn has_plan(text: &[u8], (device, inode): (u64, u64)) -> bool {
    let files = text.split(|byte| *byte == b'/').nth(1).unwrap_or_default();
    files.split(|byte| *byte == b',').any(|file| {
        let mut numbers = file.split(|byte| *byte == b':').map(hexadecimal);
        numbers.next() == Some(Some(device)) && numbers.next() == Some(Some(inode))
    })
}

/// True if the third part of the variable says that the loader is led to the libraries of a plan. Pins need not be taken back:
/// the module ignores them in a process that was not decided.
pub(crate) fn leads_to_libraries(text: &[u8]) -> bool {
    let changes = text.splitn(3, |byte| *byte == b'/').nth(2);
    changes
        .unwrap_or_default()
        .split(|byte| *byte == b';')
        .any(|change| {
            let name = change.split(|byte| *byte == b'|').next();
            matches!(name, Some(b"LD_LIBRARY_PATH" | b"LD_PRELOAD"))
        })
}

/// The files with this process's line in `/proc`: the first that can be read tells when it started. An emulator answers for `self`
/// with a time of its own, which each execve changes; Linux 3.17 and newer have the other name.
pub(crate) const PROCESS_LINES: [&CStr; 2] = [c"/proc/thread-self/stat", c"/proc/self/stat"];

/// The time of a process's start, field 22 of its line in `/proc`; 0 without one. The name, in brackets, may have any
/// byte.
pub(crate) fn start_time(stat: &[u8]) -> u64 {
    let Some(end) = stat.iter().rposition(|byte| *byte == b')') else {
        return 0;
    };
    let behind = stat.get(end + 2..).unwrap_or_default();
    let mut fields = behind.split(|byte| *byte == b' ');
    let digits = fields.nth(19).unwrap_or_default();
    digits.iter().fold(0_u64, |number, digit| {
        number
            .wrapping_mul(10)
            .wrapping_add(u64::from(digit.wrapping_sub(b'0')))
    })
}

fn hexadecimal(digits: &[u8]) -> Option<u64> {
    if digits.is_empty() || digits.len() > 16 {
        return None;
    }
    let mut number = 0;
    for digit in digits {
        let value = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        number = number << 4 | u64::from(value);
    }
    Some(number)
}

/// A number for an executable with its arguments and its environment. It tells apart, and protects against nobody: whoever
/// sets the environment of a process decides about its libraries anyway.
pub(crate) struct Seal(u64);

impl Seal {
    pub(crate) fn new((device, inode): (u64, u64)) -> Seal {
        let mut seal = Seal(0);
        seal.add(device);
        seal.add(inode);
        seal
    }

    pub(crate) fn argument(&mut self, argument: &[u8]) {
        self.add(hash(argument));
    }

    /// Adds `NAME=VALUE`, in any order. The variable of the tree itself does not count.
    pub(crate) fn variable(&mut self, entry: &[u8]) {
        let is_own = entry.len() > VARIABLE.len()
            && VARIABLE
                .bytes()
                .chain([b'='])
                .zip(entry)
                .all(|(own, byte)| own == *byte);
        if !is_own {
            self.0 = self.0.wrapping_add(hash(entry));
        }
    }

    pub(crate) fn number(&self) -> u64 {
        self.0
    }

    fn add(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number >> 32;
    }
}

/// FNV-1a.
pub(crate) fn hash(text: &[u8]) -> u64 {
    text.iter().fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_texts_are_read() {
        let text = b"1f.a0.ffffffffffffffff.0.3/8:1f,9:2/x";
        let decided = Decided {
            process: 31,
            start: 160,
            seal: u64::MAX,
            question: 0,
            count: 3,
        };
        assert_eq!(Decided::parse(text), Some(decided));
        for bad in [
            "",
            "/",
            "1",
            "1.2.3.4",
            "1.2.3.4.",
            "1.2.3.4.5.6",
            "1.2.3.4.5.",
            "1.2.3.4.g",
            "1.2.3.4.F",
            "-1.2.3.4.5",
        ] {
            assert_eq!(Decided::parse(bad.as_bytes()), None, "{bad}");
        }
        assert!(
            Decided::parse(b"1.2.3.4.10000000000000000").is_none(),
            "too long"
        );
        assert!(has_plan(text, (8, 31)) && has_plan(text, (9, 2)));
        assert!(!has_plan(text, (8, 2)) && !has_plan(b"1.2.3.4.5", (8, 31)));
    }

    #[test]
    fn a_start_time_is_read_behind_any_name() {
        let behind = (3..=22).map(|field| field.to_string()).collect::<Vec<_>>();
        let behind = behind.join(" ");
        for name in ["sh", "a b", ") 1 2", ""] {
            let line = format!("7 ({name}) {behind} 23");
            assert_eq!(start_time(line.as_bytes()), 22, "{name}");
        }
        for bad in ["", "7 (sh", "7 (sh)", "7 (sh) S 1"] {
            assert_eq!(start_time(bad.as_bytes()), 0, "{bad}");
        }
    }

    fn seal(file: (u64, u64), arguments: &[&str], variables: &[&str]) -> u64 {
        let mut seal = Seal::new(file);
        for word in arguments {
            seal.argument(word.as_bytes());
        }
        for entry in variables {
            seal.variable(entry.as_bytes());
        }
        seal.number()
    }

    #[test]
    fn a_seal_tells_apart_what_can_differ() {
        let one = seal((1, 2), &["python", "a.py"], &["A=1", "B=2"]);
        assert_eq!(
            one,
            seal(
                (1, 2),
                &["python", "a.py"],
                &["B=2", "A=1", "CUDARUN_TREE=x"]
            )
        );
        for other in [
            seal((1, 3), &["python", "a.py"], &["A=1", "B=2"]),
            seal((2, 1), &["python", "a.py"], &["A=1", "B=2"]),
            seal((1, 2), &["a.py", "python"], &["A=1", "B=2"]),
            seal((1, 2), &["python", "a.py", ""], &["A=1", "B=2"]),
            seal((1, 2), &["python", "a.py"], &["A=1", "B=3"]),
            seal(
                (1, 2),
                &["python", "a.py"],
                &["A=1", "B=2", "CUDARUN_TREES=x"],
            ),
        ] {
            assert_ne!(one, other);
        }
    }
}
