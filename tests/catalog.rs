//! Facts in `profiles/`, as the catalog gives them.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use cudarun::catalog::{
    CodeRecord, VersionRecord, catalog, knowledge, soname_number, toolkits, wheels,
};
use cudarun::version::{ComputeCapability, CudaVersion};

#[test]
fn families_name_their_own_files() {
    let catalog = catalog();
    for family in &catalog.families {
        assert!(family.has_member(&family.main), "{}", family.name);
        let named = family.required.values().flatten();
        assert!(
            named.clone().all(|stem| family.has_member(stem)),
            "{}",
            family.name
        );
        for member in &family.members {
            let literal = member.find('*').unwrap_or(member.len());
            assert!(literal >= 4, "{member}: its beginning is looked up first");
        }
        for (by, stems) in family.dlopens.values().flatten() {
            assert!(family.has_member(by), "{by}");
            for stem in stems {
                assert!(
                    catalog.families.iter().any(|other| other.has_member(stem)),
                    "{stem}"
                );
            }
        }
    }
}

#[test]
fn names_lead_to_families() {
    let catalog = catalog();
    let family = |name| {
        catalog
            .family_of(name)
            .map(|(family, stem)| (family.name.as_str(), stem))
    };
    assert_eq!(
        family("libcudnn_engines_tensor_ir.so.9"),
        Some(("cudnn", "libcudnn_engines_tensor_ir"))
    );
    assert_eq!(
        family("libnvrtc-builtins.so.12.4"),
        Some(("nvrtc", "libnvrtc-builtins"))
    );
    assert_eq!(
        family("libnvidia-gpucomp.so.580.95.05"),
        Some(("driver", "libnvidia-gpucomp"))
    );
    assert_eq!(family("libcublasLt.so"), Some(("cublas", "libcublasLt")));
    assert_eq!(family("libcudadevrt.a"), None);
    assert_eq!(family("libicudata.so.74"), None);
}

#[test]
fn only_the_top_library_of_cudnn_9_is_a_shim() {
    let cudnn = catalog().family("cudnn").unwrap();
    assert!(cudnn.is_shim("libcudnn", Some(9)));
    assert!(!cudnn.is_shim("libcudnn", Some(8)) && !cudnn.is_shim("libcudnn", None));
    assert!(!cudnn.is_shim("libcudnn_graph", Some(9)));
    let works = |shim: &str, rest: &str| {
        cudnn.shim_works_over(Some(9), shim.parse().ok(), rest.parse().ok())
    };
    for (shim, rest) in [
        ("9.1.0", "9.0.0"),
        ("9.1.0", "9.16.0"),
        ("9.19.0", "9.14.0"),
        ("9.14.0", "9.19.0"),
        ("?", "9.2.1"),
    ] {
        assert!(works(shim, rest), "{shim} over {rest}");
    }
    for (shim, rest) in [
        ("9.2.1", "9.1.0"),
        ("9.19.0", "9.1.1"),
        ("?", "9.1.0"),
        ("9.19.0", "?"),
    ] {
        assert!(!works(shim, rest), "{shim} over {rest}");
    }
    assert!(!cudnn.shim_works_over(Some(8), "8.9.7".parse().ok(), "8.9.7".parse().ok()));
}

#[test]
fn sonames_and_wheels_by_cuda_major() {
    let family = |name| catalog().family(name).unwrap();
    assert_eq!(family("cufft").suffix(13), Some("12"));
    assert_eq!(family("cufft").cuda_of_suffix("12"), Some(13));
    assert_eq!(
        family("cusolver").cuda_of_suffix("11"),
        None,
        "CUDA 11 and 12"
    );
    assert_eq!(family("nvrtc").cuda_of_suffix("11.2"), Some(11));
    assert_eq!(family("nccl").suffix(12), Some("2"));
    assert_eq!(family("cublas").wheel(12).unwrap(), "nvidia-cublas-cu12");
    assert_eq!(family("cublas").wheel(13).unwrap(), "nvidia-cublas");
    assert_eq!(family("cudnn").wheel(13).unwrap(), "nvidia-cudnn-cu13");
    assert!(
        family("cublas").is_wheel("nvidia-cublas")
            && !family("cublas").is_wheel("nvidia-cublasmp-cu12")
    );
    assert_eq!(family("cudnn").apt(12, 9).unwrap(), "libcudnn9-cuda-12");
}

#[test]
fn every_profile_names_what_there_is() {
    let catalog = catalog();
    let is_known = |stem: &String| {
        catalog
            .families
            .iter()
            .any(|family| family.has_member(stem))
    };
    let mut modules = BTreeSet::new();
    for framework in &catalog.frameworks {
        let name = &framework.name;
        let from_wheels = framework.dlopens_from_wheels.clone().unwrap_or_default();
        let stems = [&framework.dlopens, &from_wheels];
        let unknown = stems.into_iter().flatten().find(|stem| !is_known(stem));
        assert!(unknown.is_none(), "{name}: {unknown:?}");
        assert!(
            framework
                .required_for_gpu
                .iter()
                .flatten()
                .all(|stem| framework.dlopens.contains(stem)),
            "{name}"
        );
        let families = framework.floor.keys().chain(framework.major.keys());
        let stranger = families
            .into_iter()
            .find(|family| catalog.family(family).is_none());
        assert!(stranger.is_none(), "{name}: {stranger:?}");
        let is_framework =
            |other: &String| catalog.frameworks.iter().any(|known| known.name == *other);
        assert!(
            framework.imports.iter().flatten().all(is_framework),
            "{name}"
        );
        for module in &framework.modules {
            assert!(
                modules.insert(module),
                "{name}: {module} is another framework's too"
            );
        }
        let records = framework
            .cuda
            .iter()
            .chain(framework.floor.values().flatten());
        let patterns = records
            .chain(framework.major.values().flatten())
            .filter_map(VersionRecord::file);
        let patterns = patterns.chain(framework.code.iter().map(CodeRecord::file));
        let mut parts = patterns
            .chain(framework.dlopened_by.iter().flatten().map(String::as_str))
            .flat_map(|pattern| pattern.split('/'));
        let twice = parts.find(|part| part.matches('*').count() > 1);
        assert!(twice.is_none(), "{name}: {twice:?}: one star a component");
        assert!(
            framework
                .variable
                .iter()
                .all(|variable| !variable.does.is_empty()),
            "{name}"
        );
    }
}

#[test]
fn drivers_and_cuda() {
    let floor = |major, minor| {
        knowledge()
            .driver_floor(major, minor)
            .map(|driver| driver.to_string())
    };
    assert_eq!(floor(12, Some(4)).as_deref(), Some("525.60.13"));
    assert_eq!(floor(13, None).as_deref(), Some("580.65.06"));
    assert_eq!(
        floor(10, Some(2)).as_deref(),
        Some("440.33"),
        "no minor version compatibility before 11"
    );
    assert_eq!(
        floor(10, None).as_deref(),
        Some("410.48"),
        "the least that it can need"
    );
    assert_eq!(floor(14, None), None);
    let of_cuda = |cuda: &str| {
        knowledge()
            .driver_of_cuda(cuda.parse().unwrap())
            .map(|driver| driver.to_string())
    };
    assert_eq!(of_cuda("12.8").as_deref(), Some("570.86.10"));
    assert_eq!(of_cuda("12.7"), None, "there was no such toolkit");
}

#[test]
fn cudnn_for_old_and_new_gpus() {
    let versions = |gpu: &str, cuda| {
        let found = knowledge().cudnn_for(gpu.parse().unwrap(), cuda);
        found
            .into_iter()
            .map(ToString::to_string)
            .collect::<Vec<_>>()
    };
    assert_eq!(
        versions("6.1", 12),
        [">=8.8,<9.0", ">=9.0,<9.7", ">=9.7,<9.11"]
    );
    assert_eq!(versions("12.0", 12), [">=9.7,<9.11", ">=9.11"]);
    assert_eq!(versions("6.1", 13), [""; 0]);
    let build = |framework: &str, gpu: &str, without: &str| {
        let build = knowledge().build_for(framework, gpu.parse().unwrap(), without.parse().ok());
        build.map(|build| build.versions.to_string())
    };
    assert_eq!(
        build("onnxruntime", "10.0", "1.31.1").as_deref(),
        Some(">=1.21,<1.27"),
        "not the same"
    );
    let torch = |gpu: &str| build("torch", gpu, "");
    assert_eq!(torch("6.1").as_deref(), Some(">=2.1,<2.8"));
    assert_eq!(torch("12.0").as_deref(), Some(">=2.11"));
    assert_eq!(torch("3.5"), None);
}

#[test]
fn combinations_need_all_of_their_parts() {
    let met = |versions: &[(&'static str, &str)], gpus: &[&str]| {
        let versions = versions
            .iter()
            .map(|(family, text)| (*family, text.parse().unwrap()))
            .collect();
        let gpus: Vec<ComputeCapability> = gpus.iter().map(|gpu| gpu.parse().unwrap()).collect();
        knowledge().bad_combinations(&versions, &gpus).count()
    };
    let (old, new) = (("cudnn", "9.8.0"), ("cudnn", "9.10.2"));
    assert_eq!(met(&[old, ("cublas", "12.9.1")], &["9.0", "9.0"]), 1);
    assert_eq!(met(&[old, ("cublas", "12.9.1")], &["9.0"]), 0, "one GPU");
    assert_eq!(met(&[new, ("cublas", "12.9.1")], &["9.0", "9.0"]), 0);
    assert_eq!(met(&[old], &["9.0", "9.0"]), 0);
    assert_eq!(met(&[("cublas", "13.1.0.3")], &["10.3"]), 1);
    assert_eq!(met(&[("cublas", "13.1.0.3")], &["9.0"]), 0);
}

#[test]
fn wheels_are_of_their_families() {
    let mut newest = BTreeMap::new();
    for wheel in wheels() {
        let family = catalog().family(&wheel.family).unwrap();
        assert_eq!(family.wheel(wheel.cuda).as_ref(), Some(&wheel.name));
        let of = |soname: &String| {
            let (family, stem) = catalog()
                .family_of(soname)
                .unwrap_or_else(|| panic!("{soname}"));
            (family.name.clone(), stem.to_owned())
        };
        let stems: Vec<String> = wheel.sonames.iter().map(|soname| of(soname).1).collect();
        assert!(
            wheel
                .sonames
                .iter()
                .all(|soname| of(soname).0 == wheel.family),
            "{}",
            wheel.name
        );
        assert!(
            wheel
                .needs
                .iter()
                .all(|soname| of(soname).0 != wheel.family),
            "{}",
            wheel.name
        );
        let main = wheel
            .sonames
            .iter()
            .find(|soname| of(soname).1 == family.main);
        // NVTX for CUDA 13 has another main library than before.
        let required = main.map_or_else(Vec::new, |main| {
            family.required(soname_number(main).unwrap())
        });
        assert!(
            required
                .iter()
                .all(|stem| stems.iter().any(|own| own == stem)),
            "{} lacks one of {required:?}",
            wheel.name
        );
        assert_eq!(wheel.releases().next(), Some(wheel.first), "{}", wheel.name);
        for file in &wheel.files {
            let key = (file.version, Reverse(&file.platform));
            let before = newest.insert(&wheel.name, key);
            assert!(
                before.is_none_or(|before| before < key),
                "{} {}",
                wheel.name,
                file.version
            );
            assert!(
                file.size > 1000 && file.sha256.len() == 64,
                "{}",
                file.file_name(&wheel.name)
            );
            assert!(
                file.sha256.bytes().all(|byte| byte.is_ascii_hexdigit()),
                "{}",
                file.file_name(&wheel.name)
            );
        }
    }
    assert!(wheels().len() > 70, "the control");
}

/// The compilers and their headers are of one release: others do not compile together.
#[test]
fn toolkits_are_whole_for_each_platform() {
    for toolkit in toolkits() {
        for platform in ["x86_64", "aarch64"] {
            let of_platform = toolkit
                .files
                .iter()
                .filter(|part| part.platform.ends_with(platform));
            let parts: Vec<_> = of_platform
                .map(|part| (part.name.as_str(), part.version))
                .collect();
            let names: Vec<&str> = parts.iter().map(|(name, _)| *name).collect();
            let all = ["nvcc", "nvvm", "cuda-crt", "cuda-cccl", "cuda-runtime"];
            assert!(
                names
                    .iter()
                    .zip(all)
                    .all(|(name, part)| name.ends_with(part)),
                "{names:?}"
            );
            assert_eq!(names.len(), all.len(), "{}", toolkit.version);
            assert!(
                parts[..3].iter().all(|(_, version)| *version == parts[0].1),
                "{}",
                toolkit.version
            );
            assert_eq!(
                CudaVersion::of(parts[0].1),
                CudaVersion::of(toolkit.version)
            );
        }
    }
    assert!(toolkits().len() > 5 && toolkits().is_sorted_by_key(|toolkit| toolkit.version));
}

#[test]
fn paths_of_places_have_a_beginning_and_layouts_a_root() {
    let places = &catalog().places;
    for place in &places.place {
        for path in &place.paths {
            let is_rooted = ["/", "~/", "./", "$"]
                .iter()
                .any(|start| path.starts_with(start));
            assert!(is_rooted, "{path}");
        }
    }
    let kinds = places.place.iter().map(|place| place.holds);
    let kinds: Vec<_> = kinds
        .chain(places.layout.iter().map(|layout| layout.holds))
        .collect();
    for layout in &places.layout {
        assert!(kinds.contains(&layout.root), "{:?}", layout.root);
    }
    let paths = places.place.iter().flat_map(|place| &place.paths);
    for path in paths.chain(places.layout.iter().flat_map(|layout| &layout.paths)) {
        assert!(
            path.split('/').all(|part| part.matches('*').count() < 2),
            "{path}"
        );
    }
}

/// Names are compared with patterns by their first four letters before anything else.
#[test]
fn every_member_has_four_letters_before_its_star() {
    for member in catalog().families.iter().flat_map(|family| &family.members) {
        assert!(member.find('*').unwrap_or(member.len()) >= 4, "{member}");
    }
}
