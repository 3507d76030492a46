//! Searches bytes for one of many texts, in any case: where four bytes in a row are the key of a text, the text is compared.

use std::ops::Range;

/// Hashes of keys have 16 bits.
const HASHES: usize = 1 << 16;

/// Texts to find.
pub(super) struct Literals {
    /// All texts, one after the other.
    texts: Vec<u8>,
    /// The bytes of a key that count: of all four, or of three if a text has no more.
    mask: u32,
    /// A bit for each hash that a key has.
    hashes: Box<[u64; HASHES / 64]>,
    /// The keys in the order of their hashes, and where those of a hash begin.
    keys: Vec<LiteralKey>,
    first: Vec<u16>,
}

/// Four bytes in a row of a text, which are in few other texts and seldom in logs.
struct LiteralKey {
    hash: usize,
    bytes: u32,
    /// The index of the text, and its place among all.
    text: usize,
    place: Range<usize>,
    /// Where the key ends in the text.
    end: usize,
}

impl Literals {
    /// No text is shorter than three bytes.
    pub(super) fn new<'t>(texts: impl IntoIterator<Item = &'t str>) -> Literals {
        let texts: Vec<Vec<u8>> = texts
            .into_iter()
            .map(|text| text.to_ascii_lowercase().into_bytes())
            .collect();
        let width = texts.iter().map(Vec::len).min().unwrap_or(4).min(4);
        let mut hashes = Box::new([0; HASHES / 64]);
        let mut counts = vec![0_u16; HASHES];
        let mut keys = Vec::new();
        let mut all = Vec::new();
        for (text, bytes) in texts.iter().enumerate() {
            let place = all.len()..all.len() + bytes.len();
            all.extend(bytes);
            let windows = bytes.windows(width).enumerate().map(|(start, window)| {
                let key = window
                    .iter()
                    .fold(0, |key, byte| key << 8 | u32::from(*byte));
                let frequency: u16 = window.iter().map(|byte| frequency(*byte)).sum();
                let hash = hash(key);
                (frequency + 3 * counts[hash], hash, key, start + width)
            });
            if let Some((_, hash, key, end)) = windows.min_by_key(|window| window.0) {
                let key = LiteralKey {
                    hash,
                    bytes: key,
                    text,
                    place,
                    end,
                };
                counts[key.hash] += 1;
                hashes[key.hash / 64] |= 1 << (key.hash % 64);
                keys.push(key);
            }
        }
        keys.sort_unstable_by_key(|key| key.hash);
        let mut first = Vec::with_capacity(HASHES);
        let mut sum = 0;
        for count in counts {
            first.push(sum);
            sum += count;
        }
        Literals {
            first,
            texts: all,
            mask: u32::MAX >> (32 - 8 * width),
            hashes,
            keys,
        }
    }

    /// Calls a function with the index and the start of each text that is found, until it returns true. Returns that.
    pub(super) fn any(&self, bytes: &[u8], mut found: impl FnMut(usize, usize) -> bool) -> bool {
        let (hashes, mask) = (&*self.hashes, self.mask);
        let mut key = 0;
        for (at, byte) in bytes.iter().enumerate() {
            key = (key << 8 | u32::from(byte.to_ascii_lowercase())) & mask;
            let hash = hash(key);
            if hashes[hash / 64] >> (hash % 64) & 1 == 1
                && self.any_at(bytes, at + 1, key, &mut found)
            {
                return true;
            }
        }
        false
    }

    /// The same for the texts whose key ends here.
    #[cold]
    #[inline(never)]
    fn any_at(
        &self,
        bytes: &[u8],
        end: usize,
        key: u32,
        found: &mut impl FnMut(usize, usize) -> bool,
    ) -> bool {
        let hash = hash(key);
        let of_hash = self.keys[usize::from(self.first[hash])..].iter();
        for one in of_hash.take_while(|one| one.hash == hash) {
            let text = &self.texts[one.place.clone()];
            let Some(start) = end.checked_sub(one.end).filter(|_| one.bytes == key) else {
                continue;
            };
            let Some(here) = bytes.get(start..start + text.len()) else {
                continue;
            };
            // The last byte tells most of them apart.
            let is_last = here.last().map(u8::to_ascii_lowercase) == text.last().copied();
            if is_last && here.eq_ignore_ascii_case(text) && found(one.text, start) {
                return true;
            }
        }
        false
    }

    /// The start of the text whose key ends first.
    pub(super) fn find(&self, bytes: &[u8]) -> Option<usize> {
        let mut first = None;
        self.any(bytes, |_, start| {
            first = Some(start);
            true
        });
        first
    }
}

fn hash(key: u32) -> usize {
    (key.wrapping_mul(0x9e37_79b1) >> 16) as usize
}

/// How frequent a byte is in English and in logs, in steps.
fn frequency(byte: u8) -> u16 {
    match byte {
        b'e' | b't' | b'a' | b'o' | b'i' | b'n' | b's' | b'r' | b' ' => 10,
        b'l' | b'h' | b'd' | b'c' | b'u' | b'm' | b'p' => 6,
        b'.' | b'/' | b'=' | b':' | b'0'..=b'9' => 5,
        b'g' | b'f' | b'y' | b'w' | b'b' | b'v' | b'k' => 4,
        _ => 2,
    }
}
