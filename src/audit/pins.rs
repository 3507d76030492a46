//! The table of names that are answered from one directory: `DIRECTORY:NAME:NAME:…`. Pure. Compiled into the module, which
//! has no standard library, and into the crate.

/// The variable that holds the table.
pub(super) const VARIABLE: &str = "CUDARUN_PINS";

/// No path is longer, its NUL included.
pub(super) const PATH_LIMIT: usize = 4096;

/// No name of a file is longer.
const NAME_LIMIT: usize = 255;

/// A table, borrowed from the variable.
#[derive(Clone, Copy)]
pub(super) struct Pins<'t> {
    directory: &'t [u8],
    names: &'t [u8],
}

impl<'t> Pins<'t> {
    /// `None` where the directory is not absolute or has a token of the loader, and where no name follows. Any other text is
    /// a name that no object asks for.
    pub(super) fn parse(table: &'t [u8]) -> Option<Pins<'t>> {
        let end = table.iter().position(|byte| *byte == b':')?;
        let (directory, names) = (table.get(..end)?, table.get(end + 1..)?);
        let is_usable = directory.first() == Some(&b'/') && !has_token(directory);
        (is_usable && !names.is_empty()).then_some(Pins { directory, names })
    }

    /// Writes `DIRECTORY/NAME` and a NUL into the buffer, for a name or a path that ends in a name of the table.
    pub(super) fn answer<'b>(
        &self,
        requested: &[u8],
        buffer: &'b mut [u8; PATH_LIMIT],
    ) -> Option<&'b [u8]> {
        let name = base(requested);
        let mut names = self.names.split(|byte| *byte == b':');
        if !is_name(name) || !names.any(|entry| same(entry, name)) {
            return None;
        }
        let length = self.directory.len() + 1 + name.len() + 1;
        let path = buffer.get_mut(..length)?;
        let bytes = self.directory.iter().chain(b"/").chain(name).chain(b"\0");
        path.iter_mut()
            .zip(bytes)
            .for_each(|(to, from)| *to = *from);
        Some(path)
    }
}

/// True for a file name that the table can hold and the loader does not change.
pub(super) fn is_name(name: &[u8]) -> bool {
    let is_plain = name.iter().all(|byte| !matches!(byte, b'/' | b':' | 0));
    let is_special = same(name, b".") || same(name, b"..");
    !name.is_empty() && name.len() <= NAME_LIMIT && is_plain && !is_special && !has_token(name)
}

/// The text behind the last slash.
fn base(path: &[u8]) -> &[u8] {
    path.rsplit(|byte| *byte == b'/').next().unwrap_or(path)
}

/// True if the loader would replace a part: `$ORIGIN`.
fn has_token(text: &[u8]) -> bool {
    text.contains(&b'$')
}

/// Compares without `==`, which calls a function that the module does not have.
pub(super) fn same(one: &[u8], other: &[u8]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one == other)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &[u8] =
        b"/home/u/.cache/view:libcudnn.so.9:libcudnn.so:libcublas.so.12:libcublas.so.12.4.5";

    fn answer(table: &[u8], asked: &[u8]) -> Option<Vec<u8>> {
        Pins::parse(table)?
            .answer(asked, &mut [0xff; PATH_LIMIT])
            .map(<[u8]>::to_vec)
    }

    /// A plain reading of the table, to compare with.
    fn expected(table: &[u8], asked: &[u8]) -> Option<Vec<u8>> {
        let mut parts = table.split(|byte| *byte == b':');
        let directory = parts.next()?;
        let name = &asked[asked
            .iter()
            .rposition(|byte| *byte == b'/')
            .map_or(0, |slash| slash + 1)..];
        let is_asked_for = parts.any(|part| part == name) && !matches!(name, b"" | b"." | b"..");
        let path = [directory, b"/", name, b"\0"].concat();
        let is_path = directory.starts_with(b"/") && path.len() <= 4096 && name.len() <= 255;
        (is_asked_for && is_path && !path.contains(&b'$') && !name.contains(&0)).then_some(path)
    }

    fn agree(table: &[u8]) {
        let texts = table.split(|byte| *byte == b':').chain([
            b"libcudnn.so.9".as_slice(),
            b"",
            b"..",
            b"x",
        ]);
        for text in texts {
            for asked in [
                text.to_vec(),
                [b"/opt/", text].concat(),
                [b"./", text, b"/"].concat(),
            ] {
                let (table_text, asked_text) = (table.escape_ascii(), asked.escape_ascii());
                assert_eq!(
                    answer(table, &asked),
                    expected(table, &asked),
                    "{table_text} {asked_text}"
                );
            }
        }
    }

    #[test]
    fn every_prefix_and_every_changed_byte_is_what_a_plain_reading_says() {
        for end in 0..=GOOD.len() {
            agree(&GOOD[..end]);
        }
        for place in 0..GOOD.len() {
            for byte in [b':', b'/', b'$', b'.', 0, 0xff, GOOD[place] ^ 1] {
                let mut changed = GOOD.to_vec();
                changed[place] = byte;
                agree(&changed);
            }
        }
    }

    #[test]
    fn random_tables_are_what_a_plain_reading_says() {
        let mut state = 0x9e37_79b9_7f4a_7c15_u64;
        let mut random = |below: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            usize::try_from(state >> 33).unwrap() % below
        };
        for _ in 0..20_000 {
            let length = random(24);
            let table: Vec<u8> = (0..length).map(|_| b"/:ab.$\n"[random(7)]).collect();
            agree(&table);
            agree(&[b"/", &table[..]].concat());
        }
    }

    #[test]
    fn names_that_are_too_long_get_no_answer() {
        let name = [b"lib", &[b'x'; 252][..]].concat();
        agree(&[b"/v:", &name[..]].concat());
        assert!(answer(&[b"/v:", &name[..]].concat(), &name).is_some());
        agree(&[b"/v:", &name[..], b"y"].concat());
        for length in [4080, 4081, 4082, 4083, 4096, 9000] {
            agree(&[b"/", &vec![b'd'; length][..], b":libcudnn.so.9"].concat());
        }
        let huge: Vec<u8> = b"/v"
            .iter()
            .copied()
            .chain(b":libnothing.so.1".iter().copied().cycle().take(131_000))
            .collect();
        assert!(
            answer(&huge, b"libnothing.so.1").is_some()
                && answer(&huge, b"libnothing.so").is_none()
        );
    }
}
