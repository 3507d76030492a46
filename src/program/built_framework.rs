//! The framework that extensions of an environment are built for.

use std::path::{Path, PathBuf};

use serde::Serialize;

use super::distributions::Installed;
use super::framework::FrameworkReader;
use crate::catalog::catalog;
use crate::formats::metadata;
use crate::host::Host;
use crate::text;
use crate::version::CudaVersion;

/// An installed framework, the CUDA that it was built for, and the file that says so.
#[derive(Clone, Debug, Serialize)]
pub struct BuiltFramework {
    /// `torch 2.6.0`
    pub name: String,
    pub cuda: CudaVersion,
    #[serde(serialize_with = "text::path")]
    pub file: PathBuf,
    /// Headers of NVIDIA's libraries that its own headers include.
    pub headers: Vec<String>,
}

/// The framework in these site-packages that extensions are most often built for.
pub fn built_framework(host: &Host, sites: &[PathBuf]) -> Option<BuiltFramework> {
    let installed = Installed::list(host, sites);
    let found = catalog().frameworks.iter().filter_map(|framework| {
        let headers = framework.extension_headers.as_ref()?;
        let distribution = framework
            .distributions
            .iter()
            .find_map(|name| installed.distributions.get(name))?;
        let sites = [distribution.site.clone()];
        let reader = FrameworkReader {
            host,
            installed: &installed,
            sites: &sites,
            framework,
        };
        let cuda = reader.cuda()?;
        let name = format!("{} {}", framework.name, distribution.version);
        Some(BuiltFramework {
            name,
            cuda: cuda.value,
            file: cuda.file,
            headers: headers.clone(),
        })
    });
    found.max_by_key(|framework| framework.headers.len())
}

/// True if the metadata of a project asks for a package where it is built.
pub fn is_required_for_build(host: &Host, project: &Path, package: &str) -> bool {
    let text = host
        .read_text(&project.join("pyproject.toml"))
        .unwrap_or_default();
    let table: Option<toml::Table> = toml::from_str(&text).ok();
    let mut names = table
        .as_ref()
        .and_then(|table| table.get("build-system")?.get("requires")?.as_array())
        .into_iter()
        .flatten()
        .filter_map(|name| name.as_str());
    names.any(|name| {
        name.split(|c: char| !c.is_ascii_alphanumeric() && !"-_.".contains(c))
            .next()
            .is_some_and(|name| metadata::normalised(name) == package)
    })
}
