//! GPUs: the compute capability of each device, and a table of all capabilities.

use std::sync::LazyLock;

use super::rows::{Architectures, GpuArchitecture};
use crate::version::ComputeCapability;

const GPUS: &str = include_str!("../../profiles/gpus.tsv");

/// Every compute capability, in order.
pub fn architectures() -> &'static [GpuArchitecture] {
    static TABLE: LazyLock<Architectures> = LazyLock::new(|| profile!("architectures"));
    &TABLE.architecture
}

/// The row of a compute capability.
pub fn architecture(gpu: ComputeCapability) -> Option<&'static GpuArchitecture> {
    architectures().iter().find(|row| row.capability == gpu)
}

/// A GPU that NVIDIA has named.
pub struct GpuModel {
    pub capability: Option<ComputeCapability>,
    pub chip: &'static str,
    pub product: &'static str,
}

/// The GPU with a PCI device id.
pub fn gpu(device: u16) -> Option<GpuModel> {
    let wanted = format!("{device:04x}\t");
    let row = GPUS
        .lines()
        .find_map(|line| line.strip_prefix(wanted.as_str()))?;
    let mut fields = row.split('\t');
    Some(GpuModel {
        capability: fields.next()?.parse().ok(),
        chip: fields.next()?,
        product: fields.next()?,
    })
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
            let model = gpu(device).unwrap_or_else(|| panic!("{row}"));
            let mut known = architectures().iter();
            assert!(
                model
                    .capability
                    .is_none_or(|own| known.any(|row| row.capability == own)),
                "{row}"
            );
        }
        assert_eq!(gpu(0x2335).unwrap().capability, "9.0".parse().ok());
        let listed = architectures();
        assert!(listed.is_sorted_by_key(|row| row.capability));
        let mut on_a_chip = Vec::new();
        for row in listed {
            assert!(matches!(row.cuda.len(), 1 | 2) && row.cuda.is_sorted());
            let is_nameless = row.name.is_empty() || row.chips.is_empty();
            assert!(row.capability.minor == 7 || !is_nameless);
            if row.on_a_chip {
                on_a_chip.push(row.capability.major * 10 + row.capability.minor);
            }
        }
        assert_eq!(on_a_chip, fatbin::ON_A_CHIP);
    }
}
