//! Marks the GPUs that the program can use, by device nodes and `CUDA_VISIBLE_DEVICES`.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::machine::{Gpu, Visible};
use crate::environment::Environment;

/// Follows the CUDA programming guide: numbers or beginnings of UUIDs, up to the first that matches no GPU.
pub(super) fn mark(gpus: &mut [Gpu], devices: &[PathBuf], env: &Environment) {
    for gpu in gpus.iter_mut().filter(|gpu| !has_node(gpu, devices)) {
        gpu.visible = Visible::No;
    }
    let Some(text) = env.get("CUDA_VISIBLE_DEVICES") else {
        return;
    };
    let mut reachable: Vec<&mut Gpu> = gpus
        .iter_mut()
        .filter(|gpu| gpu.visible == Visible::Yes)
        .collect();
    reachable.sort_by(|a, b| a.bus.cmp(&b.bus));
    let words = text.to_str().unwrap_or_default().split(',').map(str::trim);
    let chosen: Option<Vec<usize>> = match words.clone().next() {
        _ if env.hides_gpus() => Some(Vec::new()),
        Some(word) if word.starts_with("GPU-") => by_uuid(words, &reachable),
        Some(word) if word.starts_with("MIG-") => None,
        _ => by_number(words, &reachable, env),
    };
    for (index, gpu) in reachable.iter_mut().enumerate() {
        gpu.visible = match &chosen {
            None => Visible::Perhaps,
            Some(chosen) if chosen.contains(&index) => Visible::Yes,
            Some(_) => Visible::No,
        };
    }
}

/// A container may have only some of its host's GPUs.
fn has_node(gpu: &Gpu, devices: &[PathBuf]) -> bool {
    node(gpu).is_none_or(|node| devices.contains(&node))
}

/// The device node of a GPU. The driver may create it at the first use.
pub(super) fn node(gpu: &Gpu) -> Option<PathBuf> {
    Some(Path::new("/dev").join(format!("nvidia{}", gpu.minor?)))
}

/// None if a UUID is unknown, or matches more than one GPU.
fn by_uuid<'w>(words: impl Iterator<Item = &'w str>, gpus: &[&mut Gpu]) -> Option<Vec<usize>> {
    if gpus.iter().any(|gpu| gpu.uuid.is_none()) {
        return None;
    }
    let mut chosen = Vec::new();
    for word in words {
        let mut matching = (0..gpus.len()).filter(|index| {
            let uuid = gpus[*index].uuid.as_ref();
            uuid.is_some_and(|uuid| uuid.starts_with(word))
        });
        match (matching.next(), matching.next()) {
            (Some(index), None) => chosen.push(index),
            (None, _) => break,
            (Some(_), Some(_)) => return None,
        }
    }
    Some(chosen)
}

/// None if the result depends on which GPU is the fastest.
fn by_number<'w>(
    words: impl Iterator<Item = &'w str>,
    gpus: &[&mut Gpu],
    env: &Environment,
) -> Option<Vec<usize>> {
    let mut chosen: Vec<usize> = Vec::new();
    for word in words {
        match word.parse() {
            Ok(index) if index < gpus.len() => chosen.push(index),
            _ => break,
        }
    }
    let is_by_bus = env.get("CUDA_DEVICE_ORDER") == Some(OsStr::new("PCI_BUS_ID"));
    let are_alike = gpus
        .windows(2)
        .all(|pair| pair[0].capability == pair[1].capability);
    let is_all = (0..gpus.len()).all(|index| chosen.contains(&index));
    (is_by_bus || are_alike || is_all || chosen.is_empty()).then_some(chosen)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn gpu(bus: u32, capability: &str) -> Gpu {
        Gpu {
            bus: format!("0000:{bus:02x}:00.0"),
            model: String::new(),
            chip: None,
            capability: capability.parse().ok(),
            uuid: Some(format!("GPU-{bus}aaa-bbb")),
            minor: Some(bus),
            visible: Visible::Yes,
        }
    }

    fn visible(capabilities: &[&str], variables: &[(&str, &str)]) -> String {
        let mut gpus: Vec<Gpu> = (0..)
            .zip(capabilities)
            .map(|(bus, capability)| gpu(bus, capability))
            .collect();
        let nodes = [0, 1, 2].map(|minor| PathBuf::from(format!("/dev/nvidia{minor}")));
        mark(&mut gpus, &nodes, &variables.iter().copied().collect());
        gpus.iter()
            .map(|gpu| match gpu.visible {
                Visible::Yes => 'y',
                Visible::No => 'n',
                Visible::Perhaps => '?',
            })
            .collect()
    }

    fn chosen(value: &str) -> [(&str, &str); 1] {
        [("CUDA_VISIBLE_DEVICES", value)]
    }

    #[test]
    fn visible_devices_follow_the_rules_of_cuda() {
        let same = ["9.0", "9.0", "9.0"];
        let mixed = ["9.0", "6.1", "8.0"];
        assert_eq!(visible(&same, &[]), "yyy");
        assert_eq!(
            visible(&["9.0", "9.0", "9.0", "9.0"], &[]),
            "yyyn",
            "no device node"
        );
        assert_eq!(visible(&same, &chosen("")), "nnn");
        assert_eq!(visible(&same, &chosen("-1")), "nnn");
        assert_eq!(visible(&same, &chosen("2, 0")), "yny");
        assert_eq!(
            visible(&same, &chosen("1,7,0")),
            "nyn",
            "up to the first that means none"
        );
        assert_eq!(visible(&mixed, &chosen("1")), "???");
        assert_eq!(visible(&mixed, &chosen("2,1,0")), "yyy");
        let bus_order = [
            ("CUDA_VISIBLE_DEVICES", "1"),
            ("CUDA_DEVICE_ORDER", "PCI_BUS_ID"),
        ];
        assert_eq!(visible(&mixed, &bus_order), "nyn");
        assert_eq!(visible(&mixed, &chosen("GPU-2,GPU-0aaa")), "yny");
        assert_eq!(
            visible(&mixed, &chosen("GPU-,GPU-0")),
            "???",
            "more than one"
        );
        assert_eq!(visible(&mixed, &chosen("GPU-9")), "nnn");
        assert_eq!(visible(&mixed, &chosen("MIG-1")), "???");
    }
}
