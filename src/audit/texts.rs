//! Texts and lists of texts as the kernel puts them on the stack of a new process.

/// The first value of a variable, as `getenv` does, without its NUL.
pub(crate) fn variable(mut environment: *const *const u8, name: &str) -> Option<&'static [u8]> {
    // SAFETY: the list ends in a null pointer, each entry in NUL.
    unsafe {
        while let Some(entry) = environment.as_ref().filter(|entry| !entry.is_null()) {
            if let Some(value) = value(*entry, name) {
                return Some(text(value));
            }
            environment = environment.add(1);
        }
    }
    None
}

/// The text behind `NAME=`.
unsafe fn value(mut entry: *const u8, name: &str) -> Option<*const u8> {
    for byte in name.bytes().chain([b'=']) {
        // SAFETY: the entry ends in NUL, which is no byte of a name.
        unsafe {
            if *entry != byte {
                return None;
            }
            entry = entry.add(1);
        }
    }
    Some(entry)
}

/// The bytes before the NUL.
///
/// # Safety
/// `start` is null, or points to a text that ends in NUL and stays as long as it is used.
pub(crate) unsafe fn text(start: *const u8) -> &'static [u8] {
    if start.is_null() {
        return b"";
    }
    let mut length = 0;
    // SAFETY: ends at the NUL.
    unsafe {
        while *start.add(length) != 0 {
            length += 1;
        }
        core::slice::from_raw_parts(start, length)
    }
}

/// Calls `found` with each text of a list.
///
/// # Safety
/// The list is null or ends in a null pointer, and each text in NUL.
pub(crate) unsafe fn each(list: *const *const u8, mut found: impl FnMut(&[u8])) {
    // SAFETY: as above.
    unsafe {
        for index in 0..number_of(list) {
            found(text(*list.add(index)));
        }
    }
}

/// # Safety
/// The list is null or ends in a null pointer.
pub(crate) unsafe fn number_of<T>(list: *const *const T) -> usize {
    let mut count = 0;
    // SAFETY: ends at the null pointer.
    unsafe {
        while !list.is_null() && !(*list.add(count)).is_null() {
            count += 1;
        }
    }
    count
}
