//! Constants in machine code, by the byte patterns that compilers write for them. This is no disassembler, and nothing is
//! executed.

use std::collections::BTreeMap;

use super::elf::X86_64;
use super::numbers::u32_at;

/// The one constant from `least` to `most` that a short function loads; nothing if it loads two different ones.
pub fn only_constant(code: &[u8], machine: u16, least: u32, most: u32) -> Option<u32> {
    let constants = if machine == X86_64 {
        x86_constants(code)
    } else {
        aarch64_constants(code)
    };
    let mut only = None;
    for constant in constants {
        if !(least..=most).contains(&constant) {
            continue;
        }
        if only.is_some_and(|other| other != constant) {
            return None;
        }
        only = Some(constant);
    }
    only
}

/// `mov $imm32, %reg` (b8+r) and `movl $imm32, (mem)` (c7 /0), at any offset.
fn x86_constants(code: &[u8]) -> Vec<u32> {
    let mut constants = Vec::new();
    for (start, byte) in code.iter().enumerate() {
        match byte {
            0xb8..=0xbf => constants.extend(u32_at(code, start + 1)),
            0xc7 => {
                let Some(modrm) = code.get(start + 1).filter(|modrm| **modrm & 0x38 == 0) else {
                    continue;
                };
                let sib = usize::from(modrm & 7 == 4 && modrm >> 6 != 3);
                let displacement = match modrm >> 6 {
                    1 => 1,
                    2 => 4,
                    0 if modrm & 7 == 5 => 4,
                    _ => 0,
                };
                constants.extend(u32_at(code, start + 2 + sib + displacement));
            }
            _ => {}
        }
    }
    constants
}

/// `movz`, with the `movk` for the upper half that may follow it.
fn aarch64_constants(code: &[u8]) -> Vec<u32> {
    let words: Vec<u32> = code
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")))
        .collect();
    let mut constants = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if word & 0x7fe0_0000 != 0x5280_0000 {
            continue;
        }
        let low = word >> 5 & 0xffff;
        let register = word & 0x1f;
        let upper = words[index + 1..]
            .iter()
            .take(3)
            .find(|next| *next & 0x7fe0_001f == 0x72a0_0000 | register);
        constants.push(upper.map_or(low, |next| low | (next >> 5 & 0xffff) << 16));
    }
    constants
}

/// Bytes between the constants of one call.
const NEAR: usize = 64;

/// The three numbers, the first of which is `major`, that x86-64 code hands to `snprintf` for `%s.%d.%d.%d`: in the
/// fifth and the sixth register of arguments and on the stack. Most of all calls decide, since a constant near one of them may
/// belong to other code; a tie gives nothing.
pub fn printed_version(code: &[u8], machine: u16, major: u32) -> Option<[u32; 3]> {
    if machine != X86_64 {
        return None;
    }
    let first = [&[0x41, 0xb8][..], &major.to_le_bytes()].concat();
    let mut votes: BTreeMap<[u32; 3], usize> = BTreeMap::new();
    for start in memchr::memmem::find_iter(code, &first) {
        let minor = nearest(code, start, |code| match code {
            [0x41, 0xb9, number, 0, 0, 0, ..] => Some(*number),
            _ => None,
        });
        let patch = nearest(code, start, |code| match code {
            [0x6a, number @ ..=0x7f, ..] => Some(*number),
            _ => None,
        });
        if let Some((minor, patch)) = minor.zip(patch) {
            *votes
                .entry([major, minor.into(), patch.into()])
                .or_default() += 1;
        }
    }
    let most = votes.values().max().copied()?;
    votes.retain(|_, count| *count == most);
    let (version, _) = votes.pop_first()?;
    votes.is_empty().then_some(version)
}

/// The number that `number` reads nearest to a position.
fn nearest(code: &[u8], position: usize, number: fn(&[u8]) -> Option<u8>) -> Option<u8> {
    let end = code.len().min(position + NEAR);
    let window = &code[..end];
    (position.saturating_sub(NEAR)..end)
        .filter_map(|start| Some((start, number(&window[start..])?)))
        .min_by_key(|(start, _)| start.abs_diff(position))
        .map(|(_, number)| number)
}

/// The number that `cudaRuntimeGetVersion` of a CUDA runtime in this code stores: 12040 is 12.4.
pub fn runtime_version(code: &[u8], machine: u16) -> Option<u32> {
    if machine == X86_64 {
        x86_runtime(code)
    } else {
        aarch64_runtime(code)
    }
}

/// Its `cudaRuntimeGetVersion` is `test %rdi,%rdi; je; movl $version,(%rdi); xor %eax,%eax; ret`.
fn x86_runtime(code: &[u8]) -> Option<u32> {
    const START: &[u8] = &[0x48, 0x85, 0xff, 0x74, 0x0b, 0xc7, 0x07];
    const END: &[u8] = &[0x31, 0xc0, 0xc3];
    memchr::memmem::find_iter(code, START).find_map(|start| {
        let rest = code.get(start + START.len()..)?.get(..7)?;
        let number = u32_at(rest, 0)?;
        (rest[4..] == *END && is_runtime(number)).then_some(number)
    })
}

/// And `mov w2,#version; mov w0,#0; str w2,[x1]; ret`.
fn aarch64_runtime(code: &[u8]) -> Option<u32> {
    const END: &[u8] = &[0, 0, 0x80, 0x52, 0x22, 0, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6];
    memchr::memmem::find_iter(code, END).find_map(|end| {
        let before = u32_at(code, end.checked_sub(4)?)?;
        let number = before >> 5 & 0xffff;
        (before & 0xffe0_001f == 0x5280_0002 && is_runtime(number)).then_some(number)
    })
}

fn is_runtime(number: u32) -> bool {
    (9000..15000).contains(&number) && number.is_multiple_of(10) && number % 1000 <= 90
}
