//! One verb a file: its request to the flow, and the report of what the flow found.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ColorChoice;

use crate::cli::{CiForm, Common, PageOptions, TOOLKIT, is_toolkit};
use crate::error::Error;
use crate::fleet::Description;
use crate::host::{self, Host};
use crate::image::{self, ContainerNode, Image, MountError};
use crate::launch;
use crate::pin::Decision;
use crate::pipeline::{Request, StartFacts, progress};
use crate::program::{Command, Note};
use crate::report::{self, Style};
use crate::settings::{self, resolve::Settings};
use crate::solve::Outcome;
use crate::storage;
use crate::version::CudaVersion;

pub mod advise;
pub mod allow;
pub mod completions;
pub mod diagnose;
pub mod doctor;
pub mod explain;
pub mod export;
pub mod fetch;
pub mod fleet;
pub mod hook;
mod hook_files;
pub mod init;
pub mod list;
pub mod prove;
pub mod record;
pub mod run;
pub mod shell;
pub mod trace;
pub mod typos;

pub use crate::pipeline::Exit;

/// GitHub's runner sets them: a word, and the directory of the checkout.
const GITHUB: &str = "GITHUB_ACTIONS";
const WORKSPACE: &str = "GITHUB_WORKSPACE";

/// True if nothing can be started, after reporting the reason: as JSON on standard output, or in words.
fn refuse(
    facts: &StartFacts<'_>,
    decision: &Decision,
    json: bool,
    common: &Common,
) -> Result<bool, Error> {
    if !decision.is_refused() {
        return Ok(false);
    }
    if json {
        print(&report::json::refusal(decision))?;
    } else {
        say_refusal(facts, decision, common);
    }
    Ok(true)
}

/// Reports the reason if nothing can be started; all of it with `-v`.
fn say_refusal(facts: &StartFacts<'_>, decision: &Decision, common: &Common) {
    if decision.is_refused() {
        let style = Style::stderr(common.color).of(facts.host);
        let is_full = common.verbose > 0;
        let refusal = report::refusal(decision, &facts.program, is_full, style);
        report::say(&style.page(&refusal));
    }
}

/// The settings of a request, after remarks about them unless the verb is quiet.
fn settings_of(request: &Request<'_>) -> Result<Settings, Error> {
    let settings = request.settings()?;
    if !request.common.quiet && !launch::is_replaced() {
        for remark in &settings.remarks {
            say(&report::setting_remark(remark));
        }
    }
    Ok(settings)
}

/// Reports what concerns a start before it: a summary where it was asked for, else what every start reports.
fn say_before(facts: &StartFacts<'_>, decision: &Decision, common: &Common) {
    if common.verbose > 0 {
        let style = Style::stderr(common.color).of(facts.host);
        report::say(&style.page(&report::summary(
            &facts.program,
            &facts.inventory,
            decision,
            &facts.before(),
            facts.follows(),
            common.verbose,
            style,
        )));
        if common.verbose > 2 {
            report::say(&style.page(&report::warnings(&facts.inventory.warnings, style)));
        }
    } else if !common.quiet {
        say_notes(facts, decision, facts.follows());
    }
}

fn say_notes(facts: &StartFacts<'_>, decision: &Decision, follows: bool) {
    for line in reported_at_every_start(facts, decision, follows) {
        say(&line);
    }
}

/// The lines that are reported unasked. That a program could not be read matters only where there is something that
/// could be picked for it.
fn reported_at_every_start(
    facts: &StartFacts<'_>,
    decision: &Decision,
    follows: bool,
) -> Vec<String> {
    let StartFacts {
        program, inventory, ..
    } = facts;
    let has_installations = !inventory.installations.is_empty();
    let notes = program.notes.iter();
    let is_said = |note: &&Note| match note {
        note if follows && note.is_mended_by_following() => false,
        Note::MayStartAnother => inventory.is_led_to(),
        Note::Namespace { directory } => !decision.outcome.picks_in(directory),
        note => note.must_be_said() || has_installations && note.hides_a_program(),
    };
    let notes = notes.filter(is_said);
    let mut lines: Vec<String> = notes.map(|note| report::note(note, program)).collect();
    lines.extend(
        facts
            .build
            .iter()
            .flat_map(|build| report::build_remarks(&build.plan)),
    );
    lines.extend(host::unanswered());
    // A refusal says the same.
    if !decision.is_refused() {
        lines.extend(report::unfit_extensions(
            inventory,
            program,
            Style::default(),
        ));
    }
    let plan = decision.outcome.plan();
    let nvrtc = plan.and_then(|plan| plan.pick_of("nvrtc"));
    lines.extend(report::lacking_compilers(
        &facts.compilers,
        nvrtc.and_then(|pick| pick.installation.version.map(CudaVersion::of)),
        program.pip.as_ref(),
        Style::default(),
    ));
    lines.extend(report::outside_if_imported(decision, program));
    lines.extend(report::left(decision.outcome.unpinned(), inventory));
    if let Outcome::Plan(plan) = &decision.outcome {
        let cautions = plan
            .cautions
            .iter()
            .filter(|caution| caution.must_be_said());
        lines.extend(cautions.map(ToString::to_string));
        if decision.outcome.asks_for_newer() && facts.can_fetch(&decision.outcome) {
            lines.push(report::newer_on_offer(program));
        }
        let changes = program.sets_library_path || program.rewrites_library_path();
        if !follows && changes && decision.pinned.is_some() {
            lines.push(report::sets_library_path(program));
        }
    }
    lines
}

/// For a program that runs for long without a GPU: says so, if it is for one.
fn tell_unused(decision: &Decision, common: &Common, json: bool) -> impl FnOnce() + Send {
    let tells = decision.expects_gpu() && !json && !common.quiet;
    let style = Style::stderr(common.color);
    move || {
        if tells {
            report::say(&style.page(&report::unused_so_far(style)));
        }
    }
}

/// A line on standard error.
fn say(text: &str) {
    report::say(&Style::stderr(ColorChoice::Never).page(&format!("cudarun: {text}\n")));
}

/// Refuses `--root` and `--node` for a verb that runs something.
fn only_here(common: &Common, verb: &'static str) -> Result<(), Error> {
    if let (Some(file), None) = (&common.node, &common.root) {
        return Err(Error::OnlyOnNode { file: file.clone() });
    }
    let there = common.elsewhere();
    if there.is_empty() {
        Ok(())
    } else {
        Err(Error::NothingRunsUnderRoot { verb, there })
    }
}

/// The family that a word means: its own name or its display name, in upper or lower case; or the word for toolkits.
fn family(word: &str) -> Result<&'static str, Error> {
    let toolkit = Some(TOOLKIT).filter(|_| is_toolkit(word));
    let found = toolkit.or_else(|| settings::family(word));
    found.ok_or_else(|| Error::NoSuchFamily {
        name: word.to_owned(),
        families: settings::families().chain([TOOLKIT]).collect(),
    })
}

/// A program and its arguments, from the words of the command line.
pub fn command_of(words: &[OsString]) -> Command {
    let mut arguments = words.iter().cloned();
    Command {
        program: arguments.next().unwrap_or_default(),
        arguments: arguments.collect(),
    }
}

/// The machine that a verb looks at: this one, the one under `--root`, or an image, perhaps as it would run on a node.
fn machine(host: Host, common: &Common) -> Result<Host, Error> {
    let mut host = looked_at(host, common)?;
    let there = common.elsewhere();
    if !there.is_empty() {
        host.named_by = format!("cudarun {}", report::shell_words(&there));
    }
    Ok(host)
}

fn looked_at(host: Host, common: &Common) -> Result<Host, Error> {
    let Some(root) = &common.root else {
        return match &common.node {
            Some(file) => Err(Error::OnlyOnNode { file: file.clone() }),
            None => Ok(host),
        };
    };
    if let Some(file) = &common.node {
        must_be_image(&host, common)?;
        let node = described(&host, file)?.node;
        return in_image(open_image(&host, common, root)?, root, file, &node);
    }
    if image::is_image(&host, root) {
        return Ok(open_image(&host, common, root)?.host());
    }
    let cwd = if host.cwd.as_os_str().is_empty() {
        PathBuf::from("/")
    } else {
        host.cwd.clone()
    };
    let there = Host::at(root, host.env.clone(), cwd);
    let there = there.map_err(|error| Error::RootUnusable {
        root: root.clone(),
        error,
    })?;
    if ["/usr", "/etc", "/lib", "/opt", "/nix"]
        .iter()
        .all(|name| there.lstat(name.as_ref()).is_err())
    {
        return Err(Error::unusable(
            "--root",
            root,
            "it has no /usr and no /etc",
        ));
    }
    Ok(there)
}

/// The description of `--node`.
fn described(host: &Host, file: &Path) -> Result<Description, Error> {
    Description::read(host, file).map_err(|why| Error::unusable("--node", file, why.to_string()))
}

/// The beginning of a command for the machine of a description, which has its name.
fn on_node(file: &Path) -> String {
    let name = file.file_stem().unwrap_or_default().to_owned();
    format!("ssh {} cudarun", report::shell_words(&[name]))
}

fn open_image(host: &Host, common: &Common, root: &Path) -> Result<Image, Error> {
    let _progress = progress::begin(host, common.quiet, report::UNPACKING);
    Image::open(host, root).map_err(|fault| Error::unusable("--root", root, fault.0))
}

/// The image of `--root` as it would run on the node of a description.
fn in_image(
    mut image: Image,
    root: &Path,
    file: &Path,
    node: &ContainerNode,
) -> Result<Host, Error> {
    image.mount_driver_of(node).map_err(|error| match error {
        MountError::Image(why) => Error::unusable("--root", root, why),
        MountError::Node(why) => Error::unusable("--node", file, why),
        MountError::OtherWay(machine) => Error::OtherDriverWay {
            file: file.to_owned(),
            machine,
        },
    })?;
    Ok(image.host())
}

/// Refuses a root directory for a verb that can look at images on nodes.
fn must_be_image(host: &Host, common: &Common) -> Result<(), Error> {
    let Some(root) = common
        .root
        .as_ref()
        .filter(|root| !image::is_image(host, root))
    else {
        return Ok(());
    };
    let why = "for a node, it must be an image: oci:DIR[:TAG] or an archive";
    Err(Error::unusable("--root", root, why))
}

/// Text for standard output, where there is one.
pub fn print(text: &str) -> Result<(), Error> {
    let printed = if launch::has_output() {
        report::print(text)
    } else {
        Err(nix::errno::Errno::EBADF.into())
    };
    printed.map_err(Error::io("cannot write to standard output"))
}

/// Writes a page in the form that was asked for: HTML in a file, Markdown, or as the terminal shows it.
fn deliver(
    style: Style,
    common: &Common,
    page_options: &PageOptions,
    page: impl FnOnce(Style) -> String,
    pictures: impl FnOnce() -> String,
    print: impl Fn(&str) -> Result<(), Error>,
) -> Result<(), Error> {
    let page = |style: Style| style.page(&page(style));
    let Some(file) = &page_options.html else {
        return print(&if page_options.markdown {
            report::markdown(&page(style.for_file(false)))
        } else {
            page(style)
        });
    };
    let text = report::html(&page(style.for_file(true)), &pictures());
    if file.as_os_str() == "-" {
        return print(&text);
    }
    // The file is this machine's, whichever is looked at.
    let host = Host::here();
    let file = host.absolute(file);
    storage::publish_again(&host, &file, report::PAGE_BEGIN, text.as_bytes())
        .map_err(|error| Error::unwritten(&file, error))?;
    if !common.quiet {
        say(&report::page_written(&file));
    }
    Ok(())
}

/// The runner for which lines are printed, by the variables of this process.
fn ci_runner(form: CiForm) -> report::CiRunner {
    let here = Host::here();
    let is_github = match form {
        CiForm::Auto => here.env.get(GITHUB).is_some_and(|word| word == "true"),
        CiForm::Github => true,
        CiForm::Plain => false,
    };
    let workspace = here.env.non_empty(WORKSPACE).filter(|_| is_github);
    let workspace = workspace.map_or_else(|| here.cwd.clone(), PathBuf::from);
    report::CiRunner {
        is_github,
        workspace: here.canonical(&workspace).unwrap_or(workspace),
    }
}
