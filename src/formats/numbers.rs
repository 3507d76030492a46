//! Little-endian numbers in binary files; none beyond their end.

pub fn u16_at(data: &[u8], offset: usize) -> Option<u16> {
    Some(u16::from_le_bytes(*data.get(offset..)?.first_chunk()?))
}

pub fn u32_at(data: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*data.get(offset..)?.first_chunk()?))
}

pub fn u64_at(data: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*data.get(offset..)?.first_chunk()?))
}
