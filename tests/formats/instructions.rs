//! Constants in machine code.

use cudarun::formats::elf::{AARCH64, X86_64};
use cudarun::formats::instructions::{only_constant, printed_version, runtime_version};

#[test]
fn constants_are_found_in_both_forms() {
    // mov $91002,%eax; ret        movl $12040,(%rdi)      movl $12040,8(%rsp)
    assert_eq!(
        only_constant(b"\xb8\x7a\x63\x01\x00\xc3", X86_64, 90000, 119_999),
        Some(91002)
    );
    assert_eq!(
        only_constant(b"\xc7\x07\x08\x2f\x00\x00", X86_64, 9000, 14990),
        Some(12040)
    );
    assert_eq!(
        only_constant(b"\xc7\x44\x24\x08\x08\x2f\x00\x00", X86_64, 9000, 14990),
        Some(12040)
    );
    // Two different plausible constants are no answer.
    assert_eq!(
        only_constant(
            b"\xb8\x7a\x63\x01\x00\xb8\x7b\x63\x01\x00",
            X86_64,
            90000,
            119_999
        ),
        None
    );
    assert_eq!(only_constant(b"\xb8\x7a", X86_64, 0, u32::MAX), None);
    // movz w0,#0x637a; movk w0,#1,lsl #16; ret
    let arm = [0x528c_6f40_u32, 0x72a0_0020, 0xd65f_03c0]
        .map(u32::to_le_bytes)
        .concat();
    assert_eq!(only_constant(&arm, AARCH64, 90000, 119_999), Some(91002));
}

#[test]
fn the_embedded_runtime_is_found_on_both_machines() {
    let x86 = b"\x90\x48\x85\xff\x74\x0b\xc7\x07\x08\x2f\x00\x00\x31\xc0\xc3";
    assert_eq!(runtime_version(x86, X86_64), Some(12040));
    assert_eq!(runtime_version(&x86[..14], X86_64), None);
    let arm = |first: u32| {
        [first, 0x5280_0000, 0xb900_0022, 0xd65f_03c0]
            .map(u32::to_le_bytes)
            .concat()
    };
    assert_eq!(runtime_version(&arm(0x5285_e102), AARCH64), Some(12040));
    // Into another register, another number, nothing before it.
    assert_eq!(runtime_version(&arm(0x5285_e101), AARCH64), None);
    assert_eq!(runtime_version(&arm(0x5280_0c22), AARCH64), None);
    assert_eq!(runtime_version(&arm(0)[4..], AARCH64), None);
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
    assert_eq!(printed_version(pushed_last, AARCH64, 9), None);
    assert_eq!(
        printed_version(&pushed_last[..14], X86_64, 9),
        None,
        "no patch"
    );
    let apart = [&pushed_first[..], &[0x90; 128], &pushed_last[..]];
    assert_eq!(printed_version(&apart.concat(), X86_64, 9), None, "a tie");
    let twice = [&apart[..], &[&[0x90; 128], &pushed_last[..]]].concat();
    assert_eq!(printed_version(&twice.concat(), X86_64, 9), Some([9, 5, 1]));
}
