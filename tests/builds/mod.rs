//! `--build`, and compilers that frameworks need while they run, on machines made of text. Real toolkits are
//! `tests/real/build.py`, a real GPU is `tests/gpu/compilers.sh`.

mod choice;
mod compilers;
mod starts;
mod toolkits;

use crate::support::parts::text;

/// The texts of a toolkit's files below a root, of one release that accepts GCC up to `gcc`. `edit` changes the text of a file,
/// or removes it by an empty text.
pub fn toolkit(root: &str, release: &str, gcc: u32, edit: &dyn Fn(&str, String) -> String) -> String {
    let cuda = release.rsplit_once('.').map_or(release, |(cuda, _)| cuda);
    let numbers: Vec<u32> = cuda.split('.').map(|number| number.parse().unwrap()).collect();
    let number = numbers[0] * 1000 + numbers[1] * 10;
    let tool = format!("Cuda compilation tools, release {cuda}, V{release}");
    let compilers = ["bin/nvcc", "bin/ptxas", "bin/cudafe++", "bin/fatbinary", "bin/nvlink", "nvvm/bin/cicc"];
    let mut files: Vec<(&str, String)> = compilers.map(|name| (name, tool.clone())).to_vec();
    files.extend([
        ("include/cuda_runtime.h", "/* */".to_owned()),
        ("include/cuda.h", format!("#define CUDA_VERSION {number}")),
        ("include/cuda_runtime_api.h", format!("#define CUDART_VERSION {number}")),
        ("include/crt/host_config.h", format!("#if __GNUC__ > {gcc}\n#error\n#endif")),
        ("include/nv/target", "/* */".to_owned()),
        ("lib64/libcudart.so", "/* */".to_owned()),
        ("lib64/libcudart_static.a", "/* */".to_owned()),
        ("lib64/libcudadevrt.a", "/* */".to_owned()),
        ("nvvm/libdevice/libdevice.10.bc", "/* */".to_owned()),
    ]);
    let files = files.into_iter().map(|(name, text)| (name, edit(name, text)));
    files
        .filter(|(_, content)| !content.is_empty())
        .map(|(name, content)| text(&format!("{root}/{name}"), &content))
        .collect()
}

pub fn whole(root: &str, release: &str, gcc: u32) -> String {
    toolkit(root, release, gcc, &|_, text| text)
}
