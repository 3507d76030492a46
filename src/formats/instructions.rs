//! What short functions load and return, by the bytes of their machine code: a few forms that compilers write for a
//! constant, and no disassembler. Nothing is executed.

use std::collections::BTreeMap;

use super::elf::X86_64;

/// The one constant in a plausible range that a short function loads. Two different ones are no answer.
pub fn only_constant(code: &[u8], machine: u16, from: u32, to: u32) -> Option<u32> {
    let constants = if machine == X86_64 { x86_constants(code) } else { aarch64_constants(code) };
    let mut plausible = constants.into_iter().filter(|value| (from..=to).contains(value));
    let first = plausible.next()?;
    plausible.all(|other| other == first).then_some(first)
}

/// `mov $imm32, %reg` (b8+r) and `movl $imm32, (mem)` (c7 /0), wherever their bytes stand.
fn x86_constants(code: &[u8]) -> Vec<u32> {
    let immediate = |at: usize| Some(u32::from_le_bytes(code.get(at..at + 4)?.try_into().ok()?));
    let mut found = Vec::new();
    for (at, byte) in code.iter().enumerate() {
        match byte {
            0xb8..=0xbf => found.extend(immediate(at + 1)),
            0xc7 => {
                let Some(modrm) = code.get(at + 1).filter(|modrm| **modrm & 0x38 == 0) else { continue };
                let sib = usize::from(modrm & 7 == 4 && modrm >> 6 != 3);
                let displacement = match modrm >> 6 {
                    1 => 1,
                    2 => 4,
                    0 if modrm & 7 == 5 => 4,
                    _ => 0,
                };
                found.extend(immediate(at + 2 + sib + displacement));
            }
            _ => {}
        }
    }
    found
}

/// `movz`, with the `movk` for the upper half that may follow it.
fn aarch64_constants(code: &[u8]) -> Vec<u32> {
    let words: Vec<u32> =
        code.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes"))).collect();
    let mut found = Vec::new();
    for (index, word) in words.iter().enumerate() {
        if word & 0x7fe0_0000 != 0x5280_0000 {
            continue;
        }
        let low = word >> 5 & 0xffff;
        let register = word & 0x1f;
        let upper =
            words[index + 1..].iter().take(3).find(|next| *next & 0x7fe0_001f == 0x72a0_0000 | register);
        found.push(upper.map_or(low, |next| low | (next >> 5 & 0xffff) << 16));
    }
    found
}

/// Where `lea offset(%rip),%rax; ret` points to, when the function that stands at `address` is that.
pub fn returned_address(code: &[u8], address: u64) -> Option<u64> {
    let offset = code.strip_prefix(&[0x48, 0x8d, 0x05])?.first_chunk::<4>()?;
    let is_all = code.get(7) == Some(&0xc3);
    is_all.then(|| address.wrapping_add(7).wrapping_add_signed(i32::from_le_bytes(*offset).into()))
}

/// Bytes between the constants of one call.
const NEAR: usize = 64;

/// The three numbers, of which the first is `major`, that x86-64 code hands to `snprintf` for `%s.%d.%d.%d`: in the fifth
/// and the sixth register of arguments and on the stack. The vote of all calls counts, since a constant near one of them may
/// belong to other code; a tie is no answer.
pub fn printed_version(code: &[u8], machine: u16, major: u32) -> Option<[u32; 3]> {
    if machine != X86_64 {
        return None;
    }
    let first = [&[0x41, 0xb8][..], &major.to_le_bytes()].concat();
    let mut votes: BTreeMap<[u32; 3], usize> = BTreeMap::new();
    for at in memchr::memmem::find_iter(code, &first) {
        let start = at.saturating_sub(NEAR);
        let window = &code[start..code.len().min(at + NEAR)];
        let nearest = |number: &dyn Fn(&[u8]) -> Option<u32>| {
            let found = (0..window.len()).filter_map(|from| Some((from, number(&window[from..])?)));
            found.min_by_key(|(from, _)| from.abs_diff(at - start)).map(|(_, number)| number)
        };
        let minor = nearest(&|code| match code {
            [0x41, 0xb9, number, 0, 0, 0, ..] => Some(u32::from(*number)),
            _ => None,
        });
        let patch = nearest(&|code| match code {
            [0x6a, number @ ..=0x7f, ..] => Some(u32::from(*number)),
            _ => None,
        });
        if let Some((minor, patch)) = minor.zip(patch) {
            *votes.entry([major, minor, patch]).or_default() += 1;
        }
    }
    let most = votes.values().max().copied()?;
    let mut winners = votes.into_iter().filter(|(_, count)| *count == most).map(|(version, _)| version);
    winners.next().filter(|_| winners.next().is_none())
}

/// The number that `cudaRuntimeGetVersion` of a CUDA runtime in this code stores: 12040 is 12.4.
pub fn runtime_version(code: &[u8], machine: u16) -> Option<u32> {
    if machine == X86_64 { x86_runtime(code) } else { aarch64_runtime(code) }
}

/// Its `cudaRuntimeGetVersion` is `test %rdi,%rdi; je; movl $version,(%rdi); xor %eax,%eax; ret`.
fn x86_runtime(code: &[u8]) -> Option<u32> {
    const START: &[u8] = &[0x48, 0x85, 0xff, 0x74, 0x0b, 0xc7, 0x07];
    const END: &[u8] = &[0x31, 0xc0, 0xc3];
    memchr::memmem::find_iter(code, START).find_map(|at| {
        let rest = code.get(at + START.len()..at + START.len() + 7)?;
        let number = u32::from_le_bytes(rest[..4].try_into().ok()?);
        (rest[4..] == *END && is_runtime(number)).then_some(number)
    })
}

/// And `mov w2,#version; mov w0,#0; str w2,[x1]; ret`.
fn aarch64_runtime(code: &[u8]) -> Option<u32> {
    const END: &[u8] = &[0, 0, 0x80, 0x52, 0x22, 0, 0, 0xb9, 0xc0, 0x03, 0x5f, 0xd6];
    memchr::memmem::find_iter(code, END).find_map(|at| {
        let before = u32::from_le_bytes(code.get(at.checked_sub(4)?..at)?.try_into().ok()?);
        let number = before >> 5 & 0xffff;
        (before & 0xffe0_001f == 0x5280_0002 && is_runtime(number)).then_some(number)
    })
}

fn is_runtime(number: u32) -> bool {
    (9000..15000).contains(&number) && number.is_multiple_of(10) && number % 1000 <= 90
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_found_in_both_forms() {
        // mov $91002,%eax; ret        movl $12040,(%rdi)      movl $12040,8(%rsp)
        assert_eq!(only_constant(b"\xb8\x7a\x63\x01\x00\xc3", X86_64, 90000, 119_999), Some(91002));
        assert_eq!(only_constant(b"\xc7\x07\x08\x2f\x00\x00", X86_64, 9000, 14990), Some(12040));
        assert_eq!(only_constant(b"\xc7\x44\x24\x08\x08\x2f\x00\x00", X86_64, 9000, 14990), Some(12040));
        // Two different plausible constants are no answer.
        assert_eq!(only_constant(b"\xb8\x7a\x63\x01\x00\xb8\x7b\x63\x01\x00", X86_64, 90000, 119_999), None);
        assert_eq!(only_constant(b"\xb8\x7a", X86_64, 0, u32::MAX), None);
        // movz w0,#0x637a; movk w0,#1,lsl #16; ret
        let arm = [0x528c_6f40_u32, 0x72a0_0020, 0xd65f_03c0].map(u32::to_le_bytes).concat();
        assert_eq!(only_constant(&arm, 183, 90000, 119_999), Some(91002));
    }

    #[test]
    fn the_embedded_runtime_is_found_on_both_machines() {
        let x86 = b"\x90\x48\x85\xff\x74\x0b\xc7\x07\x08\x2f\x00\x00\x31\xc0\xc3";
        assert_eq!(x86_runtime(x86), Some(12040));
        assert_eq!(x86_runtime(&x86[..14]), None);
        let arm = |first: u32| [first, 0x5280_0000, 0xb900_0022, 0xd65f_03c0].map(u32::to_le_bytes).concat();
        assert_eq!(aarch64_runtime(&arm(0x5285_e102)), Some(12040));
        // Into another register, another number, nothing before it.
        assert_eq!(aarch64_runtime(&arm(0x5285_e101)), None);
        assert_eq!(aarch64_runtime(&arm(0x5280_0c22)), None);
        assert_eq!(aarch64_runtime(&arm(0)[4..]), None);
    }

    #[test]
    fn printed_versions_are_read_in_both_orders_and_by_vote() {
        // push $0; mov $1,%r9d; mov $9,%r8d; call, as in cuDNN 9.1.0
        let pushed_first = b"\x6a\x00\x41\xb9\x01\0\0\0\x41\xb8\x09\0\0\0\xe8\xb4\xfd\xff\xff";
        // mov $5,%r9d; mov $9,%r8d; xor %eax,%eax; push $1; call, as in 9.5.1
        let pushed_last = b"\x41\xb9\x05\0\0\0\x41\xb8\x09\0\0\0\x31\xc0\x6a\x01\xe8\x0b\xe5\xff\xff";
        assert_eq!(printed_version(pushed_first, X86_64, 9), Some([9, 1, 0]));
        assert_eq!(printed_version(pushed_last, X86_64, 9), Some([9, 5, 1]));
        assert_eq!(printed_version(pushed_last, X86_64, 8), None);
        assert_eq!(printed_version(pushed_last, 183, 9), None);
        assert_eq!(printed_version(&pushed_last[..14], X86_64, 9), None, "no patch");
        let apart = [&pushed_first[..], &[0x90; 2 * NEAR], &pushed_last[..]];
        assert_eq!(printed_version(&apart.concat(), X86_64, 9), None, "a tie");
        let twice = [&apart[..], &[&[0x90; 2 * NEAR], &pushed_last[..]]].concat();
        assert_eq!(printed_version(&twice.concat(), X86_64, 9), Some([9, 5, 1]));
    }

    #[test]
    fn returned_addresses_count_from_the_next_instruction() {
        let lea = b"\x48\x8d\x05\xf9\x4d\x37\x00\xc3";
        assert_eq!(returned_address(lea, 0x1c940), Some(0x0039_1740));
        assert_eq!(returned_address(b"\x48\x8d\x05\xf9\xff\xff\xff\xc3", 0x1000), Some(0x1000));
        assert_eq!(returned_address(&lea[..7], 0x1c940), None);
        assert_eq!(returned_address(b"\x48\x8d\x05\xf9", 0), None);
    }
}
