//! The files of `cudarun hook jupyter` and `cudarun hook systemd`, what was done with them, and why nothing was.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::Style;
use super::hints::{argument, call, shell_words};
use crate::error::TypedReason;
use crate::hooks::InCache;
use crate::hooks::jupyter::{self, Kernel, NoKernel};
use crate::hooks::systemd::{ChangedCommand, MARK, NoDropIn, Service};
use crate::text::{os, plain, short, show};

/// `Python 3.12 (venv, cudarun)`
fn shown_name(kernel: &Kernel) -> String {
    let version = kernel.version.as_deref().unwrap_or("3");
    let label = kernel.label.iter().map(|name| format!("{}, ", show(name)));
    format!("Python {version} ({}cudarun)", label.collect::<String>())
}

/// The file of a kernel; `own` is cudarun.
pub fn kernelspec(kernel: &Kernel, own: &str, made: usize) -> String {
    jupyter::text(kernel, own, &shown_name(kernel), made)
}

pub fn kernel_written(kernel: &Kernel, file: &Path, style: Style<'_>) -> String {
    format!(
        "the kernel `{}` starts {} with cudarun: wrote {}\n{}",
        kernel.name,
        show(&kernel.python),
        show(file),
        style.next(&format!(
            "jupyter lab, and choose the kernel \"{}\"",
            shown_name(kernel)
        ))
    )
}

pub fn kernel_removed(name: &str, file: &Path) -> String {
    format!("removed the kernel `{}`: {}\n", show(name), show(file))
}

pub fn no_kernels(directory: &Path) -> String {
    format!("no such kernel of cudarun's in {}\n", show(directory))
}

impl TypedReason for InCache {
    fn sentence(&self) -> String {
        format!(
            "cudarun is in a cache, `{}`: what starts with it breaks when the cache is cleared",
            show(&self.own)
        )
    }

    fn hint(&self) -> Option<String> {
        let hint = "uv tool install cudarun, or ./install.sh, and type the same with that cudarun";
        Some(hint.to_owned())
    }
}

impl TypedReason for NoKernel {
    fn sentence(&self) -> String {
        match self {
            NoKernel::NoHome => "no home, in which Jupyter looks for kernels".to_owned(),
            NoKernel::NotPython { path } => format!("`{}` is not a Python", show(path)),
            NoKernel::Environment { directory, .. } => format!(
                "`{}` is a directory; name the Python in it",
                show(directory)
            ),
            NoKernel::NoIpykernel { pip } => {
                format!(
                    "`{}` has no package ipykernel, which is the kernel",
                    show(&pip.python)
                )
            }
            NoKernel::Name { name } => format!(
                "`{}` cannot be the name of a kernel: letters, digits, `.`, `_` and `-` can",
                short(name)
            ),
            NoKernel::NotText { path } => {
                format!(
                    "`{}` is not UTF-8, which a kernel's file must be",
                    show(path)
                )
            }
            NoKernel::Foreign { file } => {
                format!("`{}` exists, and is not cudarun's", show(file))
            }
            NoKernel::OtherPython { name, python } => {
                format!(
                    "the kernel `{name}` starts another Python, {}",
                    show(python)
                )
            }
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            NoKernel::NoHome => "JUPYTER_DATA_DIR=DIR cudarun hook jupyter".to_owned(),
            NoKernel::NotPython { .. } | NoKernel::NotText { .. } => {
                "cudarun hook jupyter .venv/bin/python".to_owned()
            }
            NoKernel::Environment { python, .. } => {
                format!("cudarun hook jupyter {}", argument(python.as_os_str()))
            }
            NoKernel::NoIpykernel { pip } => format!("{} install ipykernel", call(pip)),
            NoKernel::Name { .. } | NoKernel::Foreign { .. } => {
                "cudarun hook jupyter --name NAME".to_owned()
            }
            NoKernel::OtherPython { name, .. } => format!(
                "cudarun hook jupyter --name NAME, or first: cudarun hook jupyter --uninstall --name {name}"
            ),
        })
    }
}

/// The drop-in of a service.
pub fn drop_in(service: &Service, made: usize) -> String {
    let mut text =
        format!("{MARK}{made}\n# `cudarun hook systemd` writes it anew or removes it.\n");
    for command in &service.commands {
        text.push_str(&format!(
            "# {}: ExecStart={}\n",
            show(&command.from),
            command.before
        ));
    }
    text.push_str("[Service]\n");
    for line in added(service) {
        text.push_str(&format!("{line}\n"));
    }
    text
}

/// The lines that change the unit.
fn added(service: &Service) -> Vec<String> {
    let mut lines = vec!["ExecStart=".to_owned()];
    let commands = service.commands.iter();
    lines.extend(commands.map(|command| format!("ExecStart={}", command.after)));
    // cudarun has found no set that fits, or its proof has failed.
    lines.push("RestartPreventExitStatus=125".to_owned());
    if service.needs_cache {
        lines.push("CacheDirectory=cudarun/%N".to_owned());
    }
    lines
}

/// What was written, as a change of the unit.
pub fn drop_in_written(service: &Service, is_user: bool, style: Style<'_>) -> String {
    let mut text = format!(
        "{} starts with cudarun when it is restarted:\n\n",
        show(&service.unit)
    );
    let mut last = None;
    for ChangedCommand { from, before, .. } in &service.commands {
        if last.replace(from) != Some(from) {
            text.push_str(&format!("--- {}\n", show(from)));
        }
        text.push_str(&style.error(&format!("-ExecStart={}", show(before))));
        text.push('\n');
    }
    text.push_str(&format!("+++ {}\n", show(&service.drop_in)));
    for line in added(service).iter().skip(1) {
        text.push_str(&style.good(&format!("+{}", show(line))));
        text.push('\n');
    }
    text + &style.next(&restart(&service.unit, is_user))
}

pub fn drop_in_removed(
    unit: &str,
    file: &Path,
    caches: &[PathBuf],
    is_user: bool,
    style: Style<'_>,
) -> String {
    let mut next = restart(unit, is_user);
    if !caches.is_empty() {
        next.push_str(" && rm -r");
    }
    for cache in caches {
        next.push_str(&format!(" {}", argument(cache.as_os_str())));
    }
    format!(
        "{} starts without cudarun when it is restarted: removed {}\n{}",
        show(unit),
        show(file),
        style.next(&next)
    )
}

pub fn no_drop_in(file: &Path) -> String {
    format!("nothing to remove: there is no {}\n", show(file))
}

pub fn starts_already(unit: &str, file: &Path) -> String {
    format!(
        "{} starts with cudarun already: {}\n",
        show(unit),
        show(file)
    )
}

/// The commands by which a change of a unit counts.
fn restart(unit: &str, is_user: bool) -> String {
    let systemctl = if is_user {
        "systemctl --user"
    } else {
        "systemctl"
    };
    // The instances of a template.
    let unit = unit.replace("@.", "@*.");
    let unit = argument(unit.as_ref());
    format!("{systemctl} daemon-reload && {systemctl} restart {unit}")
}

impl TypedReason for NoDropIn {
    fn sentence(&self) -> String {
        match self {
            NoDropIn::NoHome => "no home, in which your own services have their files".to_owned(),
            NoDropIn::Name { name } => format!("`{}` is not the name of a service", show(name)),
            NoDropIn::Kind { name } => format!(
                "`{}` is not a service: it starts no program itself",
                show(name)
            ),
            NoDropIn::Missing {
                unit,
                is_user: false,
            } => format!("systemd has no unit `{}`", show(unit)),
            NoDropIn::Missing {
                unit,
                is_user: true,
            } => {
                format!("systemd has no unit `{}` for your own services", show(unit))
            }
            NoDropIn::Masked { unit } => {
                format!("`{}` is masked: systemd does not start it", show(unit))
            }
            NoDropIn::Unreadable { file, why } => {
                format!(
                    "`{}` cannot be read: {}",
                    show(file),
                    plain(why).to_lowercase()
                )
            }
            NoDropIn::NoCommand { unit, file } => {
                format!("`{}` has no ExecStart=: {}", show(unit), show(file))
            }
            NoDropIn::Command { file, text } => format!(
                "{}: a quote does not end or has a prefix in it, or the program gets another name, in ExecStart={}",
                show(file),
                short(text)
            ),
            NoDropIn::Secluded { file, setting } => {
                format!(
                    "{setting}= in {} keeps cudarun from the service",
                    show(file)
                )
            }
            NoDropIn::LaterDropIn { file } => {
                format!(
                    "{} has an ExecStart= and is read after cudarun's file",
                    show(file)
                )
            }
            NoDropIn::Foreign { file } => format!("`{}` exists, and is not cudarun's", show(file)),
            NoDropIn::Hidden { own } => format!("a service may not see cudarun in `{}`", show(own)),
            NoDropIn::Replaceable { own, fault } => format!(
                "another user can replace cudarun in `{}`: {}",
                show(own),
                fault.at(own)
            ),
            NoDropIn::NotRoot { file, error, .. } => {
                format!("cannot write `{}`: {}", show(file), os(error))
            }
        }
    }

    fn hint(&self) -> Option<String> {
        Some(match self {
            NoDropIn::NoHome => "XDG_CONFIG_HOME=DIR cudarun hook systemd --user UNIT".to_owned(),
            NoDropIn::Name { .. } => "cudarun hook systemd ollama.service".to_owned(),
            NoDropIn::Kind { name } => {
                let stem = name.rsplit_once('.').map_or(&**name, |(stem, _)| stem);
                format!(
                    "cudarun hook systemd {}",
                    argument(format!("{stem}.service").as_ref())
                )
            }
            NoDropIn::Missing { is_user: false, .. } => {
                "systemctl list-unit-files --type service".to_owned()
            }
            NoDropIn::Missing { is_user: true, .. } => {
                "systemctl --user list-unit-files --type service".to_owned()
            }
            NoDropIn::Masked { unit } => format!("systemctl unmask {}", argument(unit.as_ref())),
            NoDropIn::NoCommand { unit, .. } => {
                format!("systemctl cat {}", argument(unit.as_ref()))
            }
            NoDropIn::Unreadable { file, .. } | NoDropIn::Command { file, .. } => {
                format!("look at it: less {}", argument(file.as_os_str()))
            }
            NoDropIn::Secluded { .. } => {
                "put cudarun into that directory, and before the command in ExecStart=".to_owned()
            }
            NoDropIn::LaterDropIn { file } => {
                format!("put cudarun before the command in {}", show(file))
            }
            NoDropIn::Foreign { file } => format!("mv {} elsewhere", argument(file.as_os_str())),
            NoDropIn::Hidden { own } | NoDropIn::Replaceable { own, .. } => format!(
                "sudo install {} /usr/local/bin/cudarun, and type the same with /usr/local/bin/cudarun",
                argument(own.as_os_str())
            ),
            NoDropIn::NotRoot { command, .. } => format!("sudo {}", shell_words(command)),
        })
    }
}

/// The words of the same command for `sudo`, whose PATH may be another.
pub fn as_root(own: &Path, unit: &str, is_removal: bool) -> Vec<OsString> {
    let mut words: Vec<OsString> = vec![own.into(), "hook".into(), "systemd".into(), unit.into()];
    words.extend(is_removal.then(|| "--uninstall".into()));
    words
}
