//! GPUs: the compute capability of each device, and a table of all capabilities.

use std::sync::LazyLock;

use super::rows::{Architectures, GpuArchitecture};
use crate::version::ComputeCapability;

const GPUS: &str = include_str!("../../profiles/gpus.tsv");

/// Returns every compute capability, in order.
pub fn architectures() -> &'static [GpuArchitecture] {
    static TABLE: LazyLock<Architectures> = LazyLock::new(|| profile!("architectures"));
    &TABLE.architecture
}

/// Returns compute capability, chip and product of the GPU with a PCI device id.
pub fn gpu(device: u16) -> Option<(Option<ComputeCapability>, &'static str, &'static str)> {
    let wanted = format!("{device:04x}\t");
    let row = GPUS
        .lines()
        .find_map(|line| line.strip_prefix(wanted.as_str()))?;
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
            let is_known = |capability| {
                architectures()
                    .iter()
                    .any(|known| known.capability == capability)
            };
            assert!(capability.is_none_or(is_known), "{row}");
        }
        assert_eq!(gpu(0x2335).unwrap().0, "9.0".parse().ok());
        let listed = || architectures().iter();
        assert!(listed().map(|row| row.capability).is_sorted());
        assert!(listed().all(|row| matches!(row.cuda.len(), 1 | 2) && row.cuda.is_sorted()));
        assert!(
            listed()
                .all(|row| row.capability.minor == 7
                    || !row.name.is_empty() && !row.chips.is_empty())
        );
        let on_a_chip = listed().filter(|row| row.on_a_chip);
        let numbers: Vec<u32> = on_a_chip
            .map(|row| row.capability.major * 10 + row.capability.minor)
            .collect();
        assert_eq!(numbers, fatbin::ON_A_CHIP);
    }
}
