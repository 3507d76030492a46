//! `--build`, and compilers that frameworks need while they run, on machines made of text. Real toolkits are
//! `tests/real/build.py`, a real GPU is `tests/gpu/compilers.sh`.

mod choice;
mod compilers;
mod starts;
mod toolkits;

use crate::support::parts::{kernel, text};

/// A GPU with this PCI id, and a driver.
pub fn gpu(device: &str, driver: &str) -> String {
    let bus = "0000:01:00.0";
    let information = format!("Model: \t\t a GPU\nBus Location: \t {bus}\nDevice Minor: \t 0\n");
    kernel(driver)
        + &text(
            &format!("/proc/driver/nvidia/gpus/{bus}/information"),
            &information,
        )
        + &text(&format!("/sys/bus/pci/devices/{bus}/device"), device)
}

/// PCI ids: H200, GeForce RTX 5090.
pub const HOPPER: &str = "0x2335";
pub const BLACKWELL: &str = "0x2b85";

/// The texts of a toolkit's files below a root, of one release that accepts GCC up to `gcc`. `edit` changes the text of a file,
/// or removes it by an empty text.
pub fn toolkit(
    root: &str,
    release: &str,
    gcc: u32,
    edit: &dyn Fn(&str, String) -> String,
) -> String {
    let cuda = release.rsplit_once('.').map_or(release, |(cuda, _)| cuda);
    let numbers: Vec<u32> = cuda
        .split('.')
        .map(|number| number.parse().unwrap())
        .collect();
    let number = numbers[0] * 1000 + numbers[1] * 10;
    let tool = format!("#!/bin/sh\n# Cuda compilation tools, release {cuda}, V{release}");
    let compilers = [
        "bin/nvcc",
        "bin/ptxas",
        "bin/cudafe++",
        "bin/fatbinary",
        "bin/nvlink",
        "nvvm/bin/cicc",
    ];
    let mut files: Vec<(&str, String)> = compilers.map(|name| (name, tool.clone())).to_vec();
    files.extend([
        ("include/cuda_runtime.h", "/* */".to_owned()),
        ("include/cuda.h", format!("#define CUDA_VERSION {number}")),
        (
            "include/cuda_runtime_api.h",
            format!("#define CUDART_VERSION {number}"),
        ),
        (
            "include/crt/host_config.h",
            format!("#if __GNUC__ > {gcc}\n#error\n#endif"),
        ),
        ("include/nv/target", "/* */".to_owned()),
        ("lib64/libcudart.so", "/* */".to_owned()),
        ("lib64/libcudart_static.a", "/* */".to_owned()),
        ("lib64/libcudadevrt.a", "/* */".to_owned()),
        ("nvvm/libdevice/libdevice.10.bc", "/* */".to_owned()),
    ]);
    let files = files
        .into_iter()
        .map(|(name, text)| (name, edit(name, text)));
    files
        .filter(|(_, content)| !content.is_empty())
        .map(|(name, content)| text(&format!("{root}/{name}"), &content))
        .collect()
}

pub fn whole(root: &str, release: &str, gcc: u32) -> String {
    toolkit(root, release, gcc, &|_, text| text)
}
