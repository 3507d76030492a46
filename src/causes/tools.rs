//! Questions about the tools of a CUDA toolkit, as far as files tell.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::facts::View;
use super::gpus::capability;
use super::libraries;
use super::model::Answer;
use crate::catalog::architectures;
use crate::doctor::Evidence;
use crate::version::{CudaVersion, Version};

const HOMES: [&str; 3] = ["CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"];
const USUAL: &str = "/usr/local/cuda";
const LIBDEVICE: &str = "nvvm/libdevice/libdevice.10.bc";

impl View<'_, '_, '_> {
    /// The roots of toolkits, in the order in which builds look.
    fn toolkits(&self) -> Vec<PathBuf> {
        let host = self.facts.host;
        let named = HOMES.iter().filter_map(|name| host.env.non_empty(name).map(PathBuf::from));
        let on_path = self.on_path("nvcc").and_then(|nvcc| {
            let real = host.canonical(&nvcc).unwrap_or(nvcc);
            Some(real.parent()?.parent()?.to_owned())
        });
        let of_wheels = self.facts.program.site_packages.iter().flat_map(|site| {
            ["nvidia/cuda_nvcc", "nvidia/cu13", "triton/backends/nvidia"].map(|below| site.join(below))
        });
        let all = named.chain(on_path).chain([PathBuf::from(USUAL)]).chain(of_wheels);
        all.filter(|root| host.is_directory(root)).collect()
    }

    fn on_path(&self, tool: &str) -> Option<PathBuf> {
        let host = self.facts.host;
        let path = host.env.get("PATH")?;
        let directories = crate::environment::library_path_elements(path);
        directories.iter().map(|own| Path::new(own).join(tool)).find(|file| host.is_executable(file))
    }

    fn tool(&self, tool: &str) -> Option<PathBuf> {
        let below = self.toolkits().into_iter().map(|root| root.join("bin").join(tool));
        let mut candidates = below.filter(|file| self.facts.host.is_file(file));
        self.on_path(tool).or_else(|| candidates.next())
    }

    /// The CUDA version of the toolkit that a tool belongs to.
    fn release(&self, tool: &Path) -> Option<Version> {
        let host = self.facts.host;
        let real = host.canonical(tool).ok()?;
        let root = real.parent()?.parent()?;
        let of_name = || root.file_name()?.to_str()?.strip_prefix("cuda-")?.parse().ok();
        let json = host.read(&root.join("version.json")).ok();
        let json = json.and_then(|bytes| serde_json::from_slice::<serde_json::Value>(&bytes).ok());
        let of_json = json.and_then(|json| json["cuda"]["version"].as_str()?.parse().ok());
        let of_json: Option<Version> = of_json;
        let of_wheel = || {
            self.facts.program.site_packages.iter().find(|site| real.starts_with(site))?;
            let records = self.distributions(&["nvidia-cuda-nvcc", "nvidia-cuda-nvcc-cu12"]);
            records.first()?.0.parse().ok()
        };
        of_json.or_else(of_name).or_else(of_wheel).map(|version| version.truncated(2))
    }

    fn evidence(&self, tool: &Path) -> Vec<Evidence> {
        let release = self.release(tool).map(|release| release.to_string()).unwrap_or_default();
        vec![Evidence::File { path: tool.to_owned(), line: None, text: release }]
    }

    pub(super) fn no_tool(&self, tool: &str) -> Answer {
        match self.tool(tool) {
            Some(found) => Answer::new(false, self.evidence(&found)),
            None => {
                Answer::new(true, vec![Evidence::Absent { path: Path::new(USUAL).join("bin").join(tool) }])
            }
        }
    }

    pub(super) fn tool_not_on_path(&self, tool: &str) -> Answer {
        match self.tool(tool) {
            Some(found) => Answer::new(self.on_path(tool).is_none(), self.evidence(&found)),
            None => Answer::new(false, Vec::new()),
        }
    }

    pub(super) fn no_libdevice(&self) -> Answer {
        let roots = self.toolkits();
        let found = roots.iter().map(|root| root.join(LIBDEVICE)).find(|file| self.facts.host.is_file(file));
        match found {
            Some(path) => Answer::new(false, vec![Evidence::File { path, line: None, text: String::new() }]),
            None => Answer::new(true, vec![Evidence::Absent { path: Path::new(USUAL).join(LIBDEVICE) }]),
        }
    }

    /// PyTorch accepts another minor of the major it was built with.
    pub(super) fn nvcc_other_cuda(&self, of: &str) -> Answer {
        let package = self.facts.program.packages.iter().find(|package| package.name == of);
        let wanted = match package {
            Some(package) => package.cuda.map(|cuda| cuda.version()),
            None => libraries::version(of, None),
        };
        let nvcc = self.tool("nvcc");
        let release = nvcc.as_ref().and_then(|nvcc| self.release(nvcc));
        let is = wanted.zip(release).map(|(wanted, release)| wanted.major() != release.major());
        Answer::new(is, nvcc.map(|nvcc| self.evidence(&nvcc)).unwrap_or_default())
    }

    /// The wheels of nvcc come in parts, which must be of one release.
    pub(super) fn toolkit_mixed(&self) -> Answer {
        let parts = ["nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-crt"];
        let parts = self.distributions(&parts);
        if parts.is_empty() {
            return Answer::unknown();
        }
        let release = |version: &str| version.parse::<Version>().ok().map(|version| version.truncated(2));
        let releases: BTreeSet<_> = parts.iter().filter_map(|(version, _)| release(version)).collect();
        let record = |(version, path)| Evidence::File { path, line: None, text: version };
        Answer::new(releases.len() > 1, parts.into_iter().map(record).collect())
    }

    /// Only an architecture tells; a version of PTX does not.
    pub(super) fn tool_older_than(&self, tool: &str, architecture: &str) -> Answer {
        let Some(found) = self.tool(tool) else { return Answer::unknown() };
        let row = capability(architecture)
            .and_then(|wanted| architectures().iter().find(|row| row.capability == wanted));
        let first = row.and_then(|row| row.cuda.first()).map(CudaVersion::version);
        let is = first.zip(self.release(&found)).map(|(first, release)| release < first);
        Answer::new(is, self.evidence(&found))
    }

    /// Reads the version of gcc from the name that `gcc` leads to, as distributions have it.
    pub(super) fn compiler_too_new(&self, ceiling: Option<&str>) -> Answer {
        let Some(gcc) = self.on_path("gcc") else { return Answer::unknown() };
        let real = self.facts.host.canonical(&gcc).unwrap_or_default();
        let name = real.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let version = name.rsplit("gcc-").next().and_then(|version| version.parse::<Version>().ok());
        let ceiling = ceiling.and_then(|ceiling| ceiling.parse::<Version>().ok());
        let is = version.zip(ceiling).map(|(version, ceiling)| version.major() > ceiling.major());
        let text = version.map(|version| version.to_string()).unwrap_or_default();
        Answer::new(is, vec![Evidence::File { path: real, line: None, text }])
    }

    pub(super) fn header_missing(&self, header: &str) -> Answer {
        let roots = self.toolkits();
        let targets = ["include", "targets/x86_64-linux/include", "targets/sbsa-linux/include"];
        let places: Vec<PathBuf> =
            roots.iter().flat_map(|root| targets.map(|below| root.join(below))).collect();
        let places = places.into_iter().chain([PathBuf::from("/usr/include")]);
        let is_here = places.map(|place| place.join(header)).any(|file| self.facts.host.is_file(&file));
        let root = roots.first().cloned().unwrap_or_else(|| USUAL.into());
        let evidence = if is_here {
            Vec::new()
        } else {
            vec![Evidence::Absent { path: root.join("include").join(header) }]
        };
        Answer::new(!is_here, evidence)
    }
}
