//! Lists of hosts as Slurm writes them: `gpu[01-06,09],login1`.

use std::collections::BTreeMap;

/// True for a name that a list of hosts and a file can have.
pub fn is_host(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with('.')
        && name
            .chars()
            .all(|c| c.is_ascii_alphanumeric() || "-_.".contains(c))
}

/// The names as one word, in which hosts that differ by a last number share brackets. Empty without names.
pub fn host_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    // By the text before the number, and by its width if it begins with a zero.
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut words: Vec<String> = Vec::new();
    for name in names {
        let stem = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let digits = &name[stem.len()..];
        match digits.parse() {
            Ok(number) => {
                let width = if digits.starts_with('0') {
                    digits.len()
                } else {
                    0
                };
                numbered.entry((stem, width)).or_default().push(number);
            }
            Err(_) => words.push(name.to_owned()),
        }
    }
    // `09` and `10` are of one width.
    let keys: Vec<(&str, usize)> = numbered.keys().copied().collect();
    for (stem, width) in keys {
        if width > 0
            && let Some(others) = numbered.get_mut(&(stem, 0))
        {
            let same: Vec<u64> = others
                .extract_if(.., |number| number.to_string().len() == width)
                .collect();
            numbered.entry((stem, width)).or_default().extend(same);
        }
    }
    for ((stem, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        let mut ranges = Vec::new();
        for run in numbers.chunk_by(|number, next| number + 1 == *next) {
            ranges.push(match run {
                [first, .., last] => format!("{first:0width$}-{last:0width$}"),
                _ => format!("{:0width$}", run[0]),
            });
        }
        match numbers.len() {
            0 => {}
            1 => words.push(format!("{stem}{}", ranges[0])),
            _ => words.push(format!("{stem}[{}]", ranges.join(","))),
        }
    }
    words.sort();
    words.join(",")
}

#[cfg(test)]
mod tests {
    use super::host_list;

    #[test]
    fn names_share_brackets_as_slurm_writes_them() {
        for (names, list) in [
            (&[][..], ""),
            (&["login"], "login"),
            (&["gpu07"], "gpu07"),
            (&["gpu01", "gpu02", "gpu03", "gpu09"], "gpu[01-03,09]"),
            (&["gpu08", "gpu09", "gpu10", "gpu11"], "gpu[08-11]"),
            (&["gpu9", "gpu10", "gpu11"], "gpu[9-11]"),
            (&["a1", "b1", "a2", "x"], "a[1-2],b1,x"),
            (
                &["rack1-node2", "rack1-node3", "rack2-node3"],
                "rack1-node[2-3],rack2-node3",
            ),
            (&["n1", "n1"], "n1"),
            (
                &["10.0.0.1", "10.0.0.2", "10.0.1.2"],
                "10.0.0.[1-2],10.0.1.2",
            ),
            (
                &["n1.a.example", "n2.a.example"],
                "n1.a.example,n2.a.example",
            ),
            (&["007", "008"], "[007-008]"),
            (&["n99999999999999999999999"], "n99999999999999999999999"),
        ] {
            assert_eq!(host_list(names.iter().copied()), list, "{names:?}");
        }
    }
}
