//! GPUs: which capability a device has, and which capabilities there are.

use std::sync::LazyLock;

use super::rows::{Architecture, Architectures};
use crate::version::ComputeCapability;

const GPUS: &str = include_str!("../../profiles/gpus.tsv");

/// Every compute capability that there is, in order.
pub fn architectures() -> &'static [Architecture] {
    static TABLE: LazyLock<Architectures> = LazyLock::new(|| profile!("architectures"));
    &TABLE.architecture
}

/// The GPU with a PCI device id: its compute capability, chip and product.
pub fn gpu(device: u16) -> Option<(Option<ComputeCapability>, &'static str, &'static str)> {
    let wanted = format!("{device:04x}\t");
    let row = GPUS.lines().find_map(|line| line.strip_prefix(wanted.as_str()))?;
    let mut fields = row.split('\t');
    let capability = fields.next()?.parse().ok();
    Some((capability, fields.next()?, fields.next()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::fatbin;

    #[test]
    fn every_row_loads_and_means_something() {
        let rows = GPUS.lines().filter(|line| !line.starts_with('#'));
        for row in rows {
            let device = u16::from_str_radix(&row[..4], 16).unwrap();
            let (capability, ..) = gpu(device).unwrap_or_else(|| panic!("{row}"));
            let is_known = |it| architectures().iter().any(|known| known.capability == it);
            assert!(capability.is_none_or(is_known), "{row}");
        }
        assert_eq!(gpu(0x2335).unwrap().0, "9.0".parse().ok());
        let listed = || architectures().iter();
        assert!(listed().map(|it| it.capability).is_sorted());
        assert!(listed().all(|it| matches!(it.cuda.len(), 1 | 2) && it.cuda.is_sorted()));
        assert!(listed().all(|it| it.capability.minor == 7 || !it.name.is_empty() && !it.chips.is_empty()));
        let on_a_chip = listed().filter(|it| it.on_a_chip);
        let numbers: Vec<u32> = on_a_chip.map(|it| it.capability.major * 10 + it.capability.minor).collect();
        assert_eq!(numbers, fatbin::ON_A_CHIP);
    }
}
