//! Machines and wishes for the solver alone, as values: what a scan and a look at a program would give.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;

use cudarun::catalog::{GroupedBy, catalog};
use cudarun::formats::fatbin::{Architecture, CodeKind, Suffix};
use cudarun::formats::symbols::{ByFile, Exports, RequiredSymbol, by_file};
use cudarun::host::FileId;
use cudarun::inventory::{
    ChangedBy, Code, Gpu, Installation, Inventory, KernelDriver, Member, Origin, Problem,
    SearchPath, Visible, WritablePath,
};
use cudarun::program::Program;
use cudarun::requirements::{
    Asker, Demand, ImportCertainty, LibraryRequirement, MachineRequirement, Need, Want,
};
use cudarun::version::{ComputeCapability, Version};

/// Numbers that are the same in every run: xorshift64.
pub struct Dice(pub u64);

impl Dice {
    pub fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }

    pub fn one_in(&mut self, chances: usize) -> bool {
        self.roll(chances) == 0
    }

    pub fn of<'t, T>(&mut self, these: &'t [T]) -> &'t T {
        &these[self.roll(these.len())]
    }
}

/// An installation of one file, before anything is wrong with it.
pub fn installation(
    family: &str,
    number: u32,
    version: &[u32],
    cuda: u32,
    directory: &str,
) -> Installation {
    let known = catalog().family(family).unwrap();
    let soname = format!("{}.so.{number}", known.main);
    let directory = PathBuf::from(directory);
    let path = directory.join(&soname);
    // Any number will do that is another for every file.
    let inode = path.to_string_lossy().bytes().fold(7, |sum: u64, byte| {
        sum.wrapping_mul(1_099_511_628_211) ^ u64::from(byte)
    });
    let member = Member {
        stem: known.main.clone(),
        names: vec![soname.clone()],
        path,
        soname,
        size: 1,
        id: FileId { device: 1, inode },
        modified: (0, 0),
        needed: Vec::new(),
        imports: ByFile::default(),
        exports: Exports::default(),
        code: BTreeMap::new(),
        glibc: None,
        glibcxx: None,
        uid: 0,
        gid: 0,
        mode: 0o644,
        build_id: None,
        rpath: None,
        runpath: Some("$ORIGIN".to_owned()),
        searched: Vec::new(),
    };
    Installation {
        family: family.to_owned(),
        soname: (known.group == GroupedBy::Soname).then_some(number),
        version: Some(Version::new(version)),
        version_from: None,
        shim: None,
        evidence: Vec::new(),
        loader_gives: false,
        cuda: Some(cuda),
        built_for: None,
        origin: Origin::Loose,
        directory,
        also: Vec::new(),
        package: None,
        open: Vec::new(),
        is_named: false,
        position: None,
        files: vec![member],
        serves: BTreeMap::new(),
        forward_compatibility: None,
        problems: Vec::new(),
    }
}

/// A machine with these installations, its driver and, where it has one, its GPU.
pub fn machine(
    mut installations: Vec<Installation>,
    driver: Option<&str>,
    gpu: Option<&str>,
) -> Inventory {
    if let Some(driver) = driver {
        let mut own = installation("driver", 1, &[], 13, "/usr/lib");
        own.version = driver.parse().ok();
        own.cuda = None;
        own.origin = Origin::Driver;
        installations.push(own);
    }
    let kernel = driver.map(|version| KernelDriver {
        version: version.parse().unwrap(),
        cuda: cudarun::catalog::knowledge().cuda_of_driver(version.parse().unwrap()),
        from: PathBuf::from("/sys/module/nvidia/version"),
    });
    let gpu = gpu.map(|capability| Gpu {
        bus: "0000:01:00.0".to_owned(),
        model: "a GPU".to_owned(),
        chip: None,
        capability: capability.parse().ok(),
        uuid: None,
        minor: Some(0),
        visible: Visible::Yes,
    });
    Inventory {
        toolkits: None,
        libcuda: None,
        driver: kernel,
        devices: gpu.iter().map(|_| PathBuf::from("/dev/nvidia0")).collect(),
        gpus: gpu.into_iter().collect(),
        glibc: "2.36".parse().ok(),
        has_cuda_apt: false,
        gpus_hidden: false,
        installations,
        search: SearchPath::default(),
        extensions: None,
        imported: BTreeSet::new(),
        warnings: Vec::new(),
        directories: BTreeMap::new(),
        watched: BTreeSet::new(),
    }
}

pub fn asker(name: &str, cuda: Option<u32>) -> Asker {
    let file = PathBuf::from(format!("/opt/{name}/lib{name}.so"));
    Asker {
        name: name.to_owned(),
        file,
        line: None,
        cuda,
        certainty: ImportCertainty::Imported,
    }
}

pub fn wants(family: &str, want: Want, by: &Asker) -> LibraryRequirement {
    LibraryRequirement {
        family: family.to_owned(),
        want,
        need: Need::Linked,
        by: by.clone(),
        search_first: Vec::new(),
    }
}

pub fn names(family: &str, number: u32, by: &Asker) -> LibraryRequirement {
    let name = format!("{}.so.{number}", catalog().family(family).unwrap().main);
    wants(family, Want::Name(name), by)
}

pub fn program(libraries: Vec<LibraryRequirement>, machine: Vec<MachineRequirement>) -> Program {
    let mut program = Program::new(PathBuf::from("/usr/bin/app"));
    program.require(libraries);
    program.require(machine);
    program
}

/// A file that offers these symbols.
pub fn exports(names: &[String]) -> Exports {
    Exports::new(names.iter().map(|name| (name.as_bytes(), None)))
}

pub fn imports(names: &[String], file: &str) -> Vec<RequiredSymbol> {
    names
        .iter()
        .map(|name| RequiredSymbol {
            name: name.clone(),
            version: None,
            file: file.to_owned(),
        })
        .collect()
}

/// Gives an installation machine code for these, or PTX where the second says so.
pub fn code(installation: &mut Installation, capabilities: &[(&str, Code)]) {
    for (text, code) in capabilities {
        let capability: ComputeCapability = text.parse().unwrap();
        let kind = if *code == Code::Sass {
            CodeKind::Sass
        } else {
            CodeKind::Ptx
        };
        let number = capability.major * 10 + capability.minor;
        let architecture = Architecture {
            kind,
            number,
            suffix: Suffix::None,
        };
        installation.files[0]
            .code
            .entry(".nv_fatbin".to_owned())
            .or_default()
            .insert(architecture, 1);
        installation.serves.insert(capability, *code);
    }
}

/// The families of small inputs: none opens another of them at run time.
const SMALL: &[(&str, u32)] = &[
    ("cudnn", 9),
    ("curand", 10),
    ("cusolver", 11),
    ("cusparse", 12),
    ("nvjitlink", 12),
    ("npp", 12),
];

/// A few installations of a few families, and a few who ask: whatever can go wrong does.
pub fn small(dice: &mut Dice) -> (Inventory, Program) {
    let mut installations = Vec::new();
    let families = 1 + dice.roll(SMALL.len());
    for (family, number) in &SMALL[..families] {
        for _ in 0..(1 + dice.roll(5)).min(4) {
            installations.push(small_copy(family, *number, dice));
        }
    }
    installations.sort_by(|a, b| (&a.family, &a.directory).cmp(&(&b.family, &b.directory)));
    installations.dedup_by(|a, b| a.family == b.family && a.directory == b.directory);
    let gpu = [None, Some("9.0"), Some("12.0")][dice.roll(3)];
    let driver = gpu.map(|_| *dice.of(&["535.161.08", "580.159.04"]));
    let mut inventory = machine(installations, driver, gpu);
    for (family, _) in &SMALL[..families] {
        let mut installations = inventory
            .installations
            .iter_mut()
            .filter(|installation| installation.family == *family);
        if let Some(installation) = installations.nth(dice.roll(5)) {
            installation.loader_gives = true;
            inventory.search.cache.insert(
                installation.files[0].soname.clone(),
                installation.files[0].id,
            );
        }
    }
    (inventory, small_target(&SMALL[..families], dice))
}

fn small_copy(family: &str, number: u32, dice: &mut Dice) -> Installation {
    let version = match family {
        "cudnn" => [9, *dice.of(&[1, 8, 10]), *dice.of(&[0, 2])],
        _ => [12, *dice.of(&[1, 4, 9]), 0],
    };
    let cuda = if dice.one_in(5) { 13 } else { 12 };
    let mut installation = installation(
        family,
        number,
        &version,
        cuda,
        ["/opt/a", "/opt/b", "/opt/c", "/opt/d"][dice.roll(4)],
    );
    installation.origin = *dice.of(&[Origin::Loose, Origin::Toolkit, Origin::Debian]);
    if dice.one_in(8) {
        installation.problems.push(Problem::Missing {
            stems: vec!["part".to_owned()],
        });
    }
    if dice.one_in(6) {
        let who = *dice.of(&[
            ChangedBy::Everybody,
            ChangedBy::User { uid: 1001 },
            ChangedBy::CurrentDirectory,
        ]);
        installation.open.push(WritablePath {
            path: installation.directory.clone(),
            who,
        });
        installation.is_named = dice.one_in(4);
    }
    installation.position = *dice.of(&[None, Some(0), Some(1)]);
    if dice.one_in(2) {
        installation.built_for = Some(cudarun::version::CudaVersion {
            major: cuda,
            minor: *dice.of(&[0, 4, 8]),
        });
    }
    if dice.one_in(2) {
        let all = [
            ("9.0", Code::Sass),
            ("9.0", Code::Ptx),
            ("12.0", Code::Sass),
            ("12.0", Code::Ptx),
        ];
        let (one, other) = (*dice.of(&all), *dice.of(&all));
        code(&mut installation, &[one, other]);
    }
    let offered: Vec<String> = ["old", "new"][..=usize::from(!dice.one_in(3))]
        .iter()
        .map(|name| format!("{family}_{name}"))
        .collect();
    installation.files[0].exports = exports(&offered);
    installation.files[0].glibc = if dice.one_in(10) {
        "2.38".parse().ok()
    } else {
        None
    };
    // As NVIDIA's own: cuSOLVER and cuSPARSE are linked against nvJitLink, the former against the latter.
    let linked: &[(&str, &str)] = match family {
        "cusolver" => &[
            ("cusparse", "libcusparse.so.12"),
            ("nvjitlink", "libnvJitLink.so.12"),
        ],
        "cusparse" => &[("nvjitlink", "libnvJitLink.so.12")],
        _ => &[],
    };
    for (other, file) in linked
        .iter()
        .filter(|_| !dice.one_in(3))
        .collect::<Vec<_>>()
    {
        installation.files[0].needed.push((*file).to_owned());
        let wanted = format!("{other}_{}", dice.of(&["old", "old", "new"]));
        Arc::make_mut(&mut installation.files[0].imports)
            .insert((*file).to_owned(), imports(&[wanted], file));
    }
    installation
}

fn small_target(families: &[(&str, u32)], dice: &mut Dice) -> Program {
    let askers = [
        asker("one", Some(12)),
        asker("two", None),
        asker("three", Some(13)),
    ];
    let mut requirements = Vec::new();
    for (family, number) in families {
        let by = &askers[[0, 0, 0, 1, 1, 1, 1, 2][dice.roll(8)]];
        if dice.one_in(4) {
            continue;
        }
        requirements.push(names(family, *number, by));
        if dice.one_in(4) {
            let wanted = vec![format!("{family}_new")];
            let file = format!("{}.so.{number}", catalog().family(family).unwrap().main);
            requirements.push(wants(family, Want::Symbols(imports(&wanted, &file)), by));
        }
        if *family == "cudnn" && dice.one_in(2) {
            requirements.push(wants(
                family,
                Want::AtLeast(Version::new(&[9, *dice.of(&[1, 8, 9])])),
                by,
            ));
        }
        if dice.one_in(4) {
            let range = dice
                .of(&["<12.5", ">=12.4", ">=9.1", "!=12.4"])
                .parse()
                .unwrap();
            let person = Asker::person(
                ".cudarun.toml",
                ".cudarun.toml".into(),
                Some(requirements.len()),
            );
            let want = if dice.one_in(2) {
                Want::Preferred(range)
            } else {
                Want::Within(range)
            };
            requirements.push(wants(family, want, &person));
        }
        if dice.one_in(3) {
            let recorded = if *family == "cudnn" {
                [9, 8, 0]
            } else {
                [12, 4, 0]
            };
            requirements.push(wants(family, Want::Recorded(Version::new(&recorded)), by));
        }
    }
    let mut machine = Vec::new();
    if dice.one_in(4) {
        let range = dice.of(&[">=12.4,<13", "13"]).parse().unwrap();
        let by = Asker::person(".cudarun.toml", ".cudarun.toml".into(), Some(99));
        machine.push(MachineRequirement::of_person(Demand::Cuda(range), by));
    }
    program(requirements, machine)
}

/// A machine with `count` installations over thirty families, and a program that asks for all of them. With `torn`, two of what
/// it asks for exclude each other, whatever is picked for the rest.
pub fn large(count: usize, torn: bool) -> (Inventory, Program) {
    let families: Vec<_> = catalog()
        .families
        .iter()
        .filter(|family| family.name != "driver")
        .take(30)
        .collect();
    let offered =
        |name: &str| -> Vec<String> { (0..400).map(|symbol| format!("{name}_{symbol}")).collect() };
    let by = asker("app", Some(12));
    let mut installations = Vec::new();
    for number in 0..count {
        let family = families[number % families.len()];
        let round = (number / families.len()) as u32;
        let version = [if family.soname_is_version { 9 } else { 12 }, round, 1];
        // The last installations of the list are for another CUDA; where it is torn, all of one family are.
        let is_other = round % 7 == 6 || torn && family.name == families[29].name;
        let directory = format!("/opt/{round:04}/lib");
        let mut installation = installation(
            &family.name,
            9,
            &version,
            if is_other { 13 } else { 12 },
            &directory,
        );
        installation.files[0].exports = exports(&offered(&family.name));
        // Each is linked against the family before it, as NVIDIA's are against a few.
        if let Some(before) = (number % families.len())
            .checked_sub(1)
            .map(|index| families[index])
        {
            let file = format!("{}.so.9", before.main);
            installation.files[0].imports = by_file(imports(&offered(&before.name)[..100], &file));
            installation.files[0].needed.push(file);
        }
        code(
            &mut installation,
            &[("9.0", Code::Sass), ("8.0", Code::Sass)],
        );
        installations.push(installation);
    }
    let mut requirements: Vec<LibraryRequirement> = families
        .iter()
        .map(|family| names(&family.name, 9, &by))
        .collect();
    if torn {
        // No single program is at fault: another one, which accepts any CUDA, asks for the last family.
        let last = &families[29].name;
        requirements.retain(|requirement| requirement.family != *last);
        requirements.push(names(last, 9, &asker("other", None)));
    }
    (
        machine(installations, Some("580.159.04"), Some("9.0")),
        program(requirements, Vec::new()),
    )
}
