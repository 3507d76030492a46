//! Lists of hosts as Slurm writes them: `gpu[01-06,09],login1`.

use std::collections::BTreeMap;

/// True for a name that a list of hosts and a file can have.
pub fn is_host(name: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    !name.is_empty() && !name.starts_with('.') && name.chars().all(is_plain)
}

/// Returns the names as one word, in which hosts that differ by a last number share brackets. Empty without names.
pub fn host_list<'n>(names: impl IntoIterator<Item = &'n str>) -> String {
    // By what is before the number, and by its width if it begins with a zero.
    let mut numbered: BTreeMap<(&str, usize), Vec<u64>> = BTreeMap::new();
    let mut plain: Vec<String> = Vec::new();
    for name in names {
        let before = name.trim_end_matches(|character: char| character.is_ascii_digit());
        let digits = &name[before.len()..];
        match digits.parse() {
            Ok(number) => {
                let width = if digits.starts_with('0') {
                    digits.len()
                } else {
                    0
                };
                numbered.entry((before, width)).or_default().push(number);
            }
            Err(_) => plain.push(name.to_owned()),
        }
    }
    // `09` and `10` are of one width.
    let keys: Vec<(&str, usize)> = numbered
        .keys()
        .copied()
        .filter(|(_, width)| *width > 0)
        .collect();
    for (before, width) in keys {
        let Some(others) = numbered.get_mut(&(before, 0)) else {
            continue;
        };
        let fits = |number: &u64| number.to_string().len() == width;
        let same: Vec<u64> = others.iter().copied().filter(fits).collect();
        others.retain(|number| !fits(number));
        numbered.entry((before, width)).or_default().extend(same);
    }
    for ((before, width), mut numbers) in numbered {
        numbers.sort_unstable();
        numbers.dedup();
        let ranges: Vec<String> = numbers
            .chunk_by(|one, next| one + 1 == *next)
            .map(|run| match run {
                [only] => format!("{only:0width$}"),
                [first, .., last] => format!("{first:0width$}-{last:0width$}"),
                [] => String::new(),
            })
            .collect();
        match numbers.len() {
            0 => {}
            1 => plain.push(format!("{before}{}", ranges[0])),
            _ => plain.push(format!("{before}[{}]", ranges.join(","))),
        }
    }
    plain.sort();
    plain.join(",")
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
