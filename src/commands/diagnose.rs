//! `cudarun diagnose`: from an error message to its cause on this machine, and the command that cures it. The message is a text, or
//! what a program writes to standard error.

use std::ffi::{OsStr, OsString};
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::Duration;

use super::prove::{proof_time, say_proof};
use super::{
    Exit, command_of, deliver, described, doctor, machine, on_node, only_here, print, say,
    say_before, say_notes, say_refusal, settings_of, tell_unused,
};
use crate::catalog::{Fault, catalog};
use crate::causes::{self, Cause, FoundElsewhere, TextOrigin};
use crate::cli::{Common, Diagnose, LibraryOptions, PageOptions};
use crate::crash;
use crate::diagnose::{Log, LogReader, NamedPaths, ProgramEnd};
use crate::doctor::FindingEvidence;
use crate::environment::Diff;
use crate::error::Error;
use crate::fleet::{self, Description, ShownEvidence};
use crate::host::{self, Host, PipedInput};
use crate::launch::{self, Exec};
use crate::pin::Decision;
use crate::pipeline::{self, Change, FailedStart, ProofOptions, Request, StartFacts};
use crate::program::Command;
use crate::report::{self, Diagnosis, ProgramChoice, Style};
use crate::settings::resolve::Purpose;
use crate::text::show;
use crate::variables;

/// How long to wait for the first bytes on a pipe. A batch system's pipe may stay silent as long as the job runs.
const FIRST_DATA_TIMEOUT: Duration = Duration::from_secs(2);

/// Directories that tell nothing about whose machine it is.
const SYSTEM_DIRECTORIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
/// Programs whose environments are asked about one text.
const MAX_PROGRAMS: usize = 4;

/// True if there is a text to explain. It is in an option, or on standard input: where no program is named, or where a pipe or a
/// file brings data.
pub fn has_text(common: &Common, options: &Diagnose) -> bool {
    if options.has_text() || options.as_is {
        return options.has_text();
    }
    let input = host::piped_input(FIRST_DATA_TIMEOUT);
    if input == PipedInput::Silent && !common.quiet {
        say(&report::silent_input(FIRST_DATA_TIMEOUT));
    }
    input == PipedInput::Data
}

pub fn diagnose(host: Host, common: &Common, options: &Diagnose) -> Result<Exit, Error> {
    let log = log_of(&host, common, options)?;
    if !options.has_text() && !common.quiet {
        say(&report::not_started(&options.words));
    }
    if let (Some(file), None) = (&common.node, &common.root) {
        return on_described_node(&host, common, options, file, &log);
    }
    let host = machine(host, common)?;
    let style = Style::stdout(common.color).of(&host);
    if log.chain.leading.is_empty() && log.chain.harmless.is_empty() {
        let whole_message = without_quotes(&host, options);
        let known = Diagnosis {
            whole_message: whole_message.as_deref(),
            ..known_from_text(&log)
        };
        tell(common, options, style, &known)?;
        return Ok(Exit::No);
    }
    let origin = origin(&host, options, &log.paths);
    let programs = programs(&host, options, &log);
    if let [program] = programs.as_slice() {
        explained_for(&host, common, options, &log, origin, program, |found| {
            tell(common, options, style, found)
        })?;
        return Ok(Exit::Yes);
    }
    // The answer is for the one that has the fault, or else for the first. What is wrong with settings is said once.
    let quiet = Common {
        quiet: true,
        ..common.clone()
    };
    for (index, program) in programs.iter().enumerate() {
        let common = if index == 0 { common } else { &quiet };
        let mut has_fault = false;
        explained_for(&host, common, options, &log, origin, program, |found| {
            has_fault = found.causes.iter().any(Cause::is_of_program);
            if has_fault {
                tell(common, options, style, found)?;
            }
            Ok(())
        })?;
        if has_fault {
            return Ok(Exit::Yes);
        }
    }
    explained_for(
        &host,
        &quiet,
        options,
        &log,
        origin,
        &programs[0],
        |found| tell(common, options, style, found),
    )?;
    Ok(Exit::Yes)
}

/// The message, if it was typed without quotes: its second word is no program.
fn without_quotes(host: &Host, options: &Diagnose) -> Option<OsString> {
    let (text, program) = (options.text.as_ref()?, options.words.first()?);
    if doctor::environment(host, program).is_ok() {
        return None;
    }
    let words = options.words.iter().map(OsString::as_os_str);
    let words: Vec<&OsStr> = std::iter::once(text.as_ref()).chain(words).collect();
    Some(words.join(" ".as_ref()))
}

/// A program that may have written the text; none asks about the machine alone.
struct PossibleProgram {
    words: Vec<OsString>,
    choice: ProgramChoice,
}

/// Explains a text for a program that may have written it.
fn explained_for(
    host: &Host,
    common: &Common,
    options: &Diagnose,
    log: &Log,
    origin: TextOrigin,
    program: &PossibleProgram,
    tell: impl FnOnce(&Diagnosis<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let command = command_of(&program.words);
    let command = Some(&command).filter(|_| !program.words.is_empty());
    let library_options = &options.library_options;
    let request = Request::new(host, common, library_options, command, Purpose::Answer);
    let mut settings = settings_of(&request)?;
    let (facts, decision) = request.decision(&mut settings)?;
    let text_origin = if causes::contradicts(&facts.inventory, &log.chain) {
        TextOrigin::Elsewhere
    } else {
        origin
    };
    let text = Diagnosis {
        program: &program.words,
        choice: program.choice,
        text_origin,
        ..known_from_text(log)
    };
    explained(&facts, &decision, common, text, false, tell)
}

/// Adds the causes to what is known from a text, for `tell`.
fn explained(
    facts: &StartFacts<'_>,
    decision: &Decision,
    common: &Common,
    text: Diagnosis<'_>,
    is_pinned: bool,
    tell: impl FnOnce(&Diagnosis<'_>) -> Result<(), Error>,
) -> Result<(), Error> {
    let examination = doctor::examine_of(facts.host, common, &facts.inventory)?;
    let failed = FailedStart {
        is_program_known: !text.choice.is_guess(),
        text_origin: text.text_origin,
        is_pinned,
    };
    let known = facts.of_failure(decision, &examination, common, failed);
    let causes = causes::causes(&known, text.chain);
    tell(&Diagnosis {
        causes: &causes,
        elements: &examination.elements,
        ..text
    })
}

fn known_from_text(log: &Log) -> Diagnosis<'_> {
    let Log {
        chain,
        left_out,
        is_empty,
        ..
    } = log;
    Diagnosis {
        chain,
        causes: &[],
        elements: &[],
        program: &[],
        choice: ProgramChoice::Named,
        text_origin: TextOrigin::Here,
        has_opened_gpu: None,
        whole_message: None,
        left_out: *left_out,
        is_empty: *is_empty,
    }
}

/// Explains a text by what `doctor` has found on the node of a description.
fn on_described_node(
    host: &Host,
    common: &Common,
    options: &Diagnose,
    file: &Path,
    log: &Log,
) -> Result<Exit, Error> {
    let Description {
        examination,
        hidden,
        ..
    } = described(host, file)?;
    let findings = examination.findings.into_iter();
    let findings = findings.map(|finding| (finding.code.clone(), finding));
    let told = |one: ShownEvidence| FindingEvidence::Told {
        at: one.at,
        says: one.says,
    };
    let found: Vec<FoundElsewhere> = findings
        .chain(hidden)
        .filter_map(|(of, finding)| {
            let fault = Fault::named(&finding.code)?;
            let usual = serde_json::to_value(fault.row().severity[0]);
            Some(FoundElsewhere {
                reported: fault,
                holds: Fault::named(&of)?,
                is_milder: usual.is_ok_and(|usual| usual != finding.severity),
                evidence: finding.evidence.into_iter().map(told).collect(),
                remedy: finding.remedy,
            })
        })
        .collect();
    let diagnosis = Diagnosis {
        causes: &causes::causes_found(&found, &log.chain),
        program: &options.words,
        ..known_from_text(log)
    };
    let command = on_node(file);
    let style = Style::stdout(common.color).described(&command, fleet::HOME);
    tell(common, options, style, &diagnosis)?;
    Ok(if diagnosis.is_recognised() {
        Exit::Yes
    } else {
        Exit::No
    })
}

fn tell(
    common: &Common,
    options: &Diagnose,
    style: Style,
    diagnosis: &Diagnosis<'_>,
) -> Result<(), Error> {
    if options.json {
        return print(&report::json::diagnosis(diagnosis));
    }
    let page = |style: Style| report::diagnosis(diagnosis, options.all, common.verbose, style);
    deliver(
        style,
        common,
        &options.page_options,
        page,
        String::new,
        print,
    )
}

/// The programs whose environments are asked: the named one; else imports of the frameworks that the text names, or that print
/// such a message, or that are installed, in the Python whose environment the text names, or else in the first in PATH.
fn programs(host: &Host, options: &Diagnose, log: &Log) -> Vec<PossibleProgram> {
    if !options.words.is_empty() {
        return vec![PossibleProgram {
            words: options.words.clone(),
            choice: ProgramChoice::Named,
        }];
    }
    let python = |site: &PathBuf| Some(site.ancestors().nth(3)?.join("bin/python3"));
    let mut sites = log.paths.sites.iter().filter_map(python);
    let named = sites.find(|python| host.is_executable(python));
    let is_named = named.is_some();
    let python: OsString = named.map_or_else(|| "python3".into(), PathBuf::into_os_string);
    let Ok(environment) = doctor::environment(host, &python) else {
        return vec![PossibleProgram {
            words: Vec::new(),
            choice: ProgramChoice::Guessed,
        }];
    };
    let here: Vec<&String> = doctor::frameworks(host, &environment).collect();
    let writers = log.chain.writers();
    let prints = |module: &str| {
        let framework = catalog().framework_of(module);
        framework.is_some_and(|framework| writers.contains(framework.name.as_str()))
    };
    let mut modules = here.clone();
    let mut choice = ProgramChoice::Guessed;
    if here
        .iter()
        .any(|module| log.paths.modules.contains(*module))
    {
        modules.retain(|module| log.paths.modules.contains(*module));
    } else if here.iter().any(|module| prints(module)) {
        modules.retain(|module| prints(module));
        choice = ProgramChoice::ByMessage;
    } else if here.len() > 1 {
        choice = ProgramChoice::OfSeveral;
    }
    if is_named {
        choice = ProgramChoice::ByPath;
    }
    modules.truncate(MAX_PROGRAMS);
    let mut programs = Vec::new();
    for module in modules {
        programs.push(PossibleProgram {
            words: vec![
                python.clone(),
                "-c".into(),
                format!("import {module}").into(),
            ],
            choice,
        });
    }
    if programs.is_empty() {
        programs.push(PossibleProgram {
            words: vec![python],
            choice,
        });
    }
    programs
}

/// Where the text was written, by the files that it names: those of Python environments, or else libraries outside of the
/// directories that every machine has. Who names the program means one of this machine.
fn origin(host: &Host, options: &Diagnose, paths: &NamedPaths) -> TextOrigin {
    if !options.words.is_empty() {
        return TextOrigin::Here;
    }
    let mut named: Vec<&PathBuf> = paths.sites.iter().collect();
    if named.is_empty() {
        named.extend(&paths.objects);
        named.retain(|path| {
            let mut directories = SYSTEM_DIRECTORIES.iter();
            !directories.any(|directory| path.starts_with(directory))
        });
    }
    if named.is_empty() {
        TextOrigin::Unknown
    } else if named.iter().any(|path| host.stat(path).is_ok()) {
        TextOrigin::Here
    } else {
        TextOrigin::Elsewhere
    }
}

pub fn watch_program(host: &Host, common: &Common, options: &Diagnose) -> Result<Exit, Error> {
    only_here(common, "diagnose PROGRAM")?;
    if let [text] = options.words.as_slice()
        && is_text(host, text)
    {
        return Err(Error::NoProgram { text: text.clone() });
    }
    let command = command_of(&options.words);
    let proof = ProofOptions {
        is_quiet: common.quiet,
        ..ProofOptions::default()
    };
    let request = Request {
        proof,
        ..Request::new(
            host,
            common,
            &options.library_options,
            Some(&command),
            Purpose::Start,
        )
    };
    let mut settings = settings_of(&request)?;
    let (facts, mut decision) = request.decision(&mut settings)?;
    if options.as_is {
        if !common.quiet {
            say_notes(&facts, &decision, facts.follows());
        }
        return watch(&facts, &decision, None, &command, common, Some(options));
    }
    say_before(&facts, &decision, common);
    if decision.is_refused() {
        say_refusal(&facts, &decision, common);
        return Ok(Exit::Refused);
    }
    let proven = facts.prove(&mut decision, &proof)?;
    if !say_proof(&decision, &proven, proof_time(&facts, None), common) {
        return Ok(Exit::Refused);
    }
    let change = Some(&proven.change);
    watch(&facts, &decision, change, &command, common, Some(options))
}

/// Runs the program, and ends with its status. `change` is none if it runs as it is; `options` are none if a setting asks
/// for the explanation, so that there is one only of a known failure.
pub(super) fn watch(
    facts: &StartFacts<'_>,
    decision: &Decision,
    change: Option<&Change>,
    command: &Command,
    common: &Common,
    options: Option<&Diagnose>,
) -> Result<Exit, Error> {
    let mut planned = change.map_or_else(Diff::default, Change::of_start);
    // A second cudarun, which the program starts, would explain the same failure again.
    planned
        .0
        .insert(variables::ON_FAILURE.into(), Some("none".into()));
    let exec = Exec {
        diff: planned,
        ..launch::unchanged(&facts.program.path, command)
    };
    // Made with the first piece, since most programs write nothing to standard error.
    let mut reader: Option<LogReader> = None;
    crash::has_started();
    let tell = options.map(|options| tell_unused(decision, common, options.json));
    let run = || {
        launch::run_relayed(&exec, |piece| {
            reader.get_or_insert_default().take_live(piece);
        })
    };
    let (status, has_opened_gpu) = pipeline::watch_gpus(facts.host, tell, run);
    let status = status?;
    if options.is_none() && reader.is_none() && status.success() {
        return Ok(Exit::Program(status));
    }
    let log = reader.unwrap_or_default().finish();
    let ended = Ended {
        log: &log,
        status,
        command,
        is_pinned: change.is_some(),
        has_opened_gpu,
    };
    if facts.program.needs_nothing() && !log.chain.leading.is_empty() {
        // No library was looked for, because the program shows no need of one. Its failure may.
        let library_options = LibraryOptions::default();
        let request = Request::new(
            facts.host,
            common,
            &library_options,
            Some(command),
            Purpose::Answer,
        );
        // The program may have removed itself, or broken its settings: its status counts all the same.
        let anew = request.settings().and_then(|mut settings| {
            let (facts, decision) = request.decision(&mut settings)?;
            ended.explain(&facts, &decision, common, options);
            Ok(())
        });
        if anew.is_ok() {
            return Ok(Exit::Program(status));
        }
    }
    ended.explain(facts, decision, common, options);
    Ok(Exit::Program(status))
}

/// True for the name of a file that is no program.
fn is_text(host: &Host, file: &OsString) -> bool {
    let file = host.absolute(Path::new(file));
    let start = host.read_start(&file, 4096).unwrap_or_default();
    host.is_file(&file) && !host.is_executable(&file) && !start.contains(&0)
}

/// A program that has ended, with what it wrote to standard error.
struct Ended<'e> {
    log: &'e Log,
    status: ExitStatus,
    command: &'e Command,
    is_pinned: bool,
    has_opened_gpu: Option<bool>,
}

impl Ended<'_> {
    fn explain(
        &self,
        facts: &StartFacts<'_>,
        decision: &Decision,
        common: &Common,
        options: Option<&Diagnose>,
    ) {
        let Ended {
            log,
            status,
            command,
            is_pinned,
            has_opened_gpu,
        } = *self;
        let style = Style::stderr(common.color).of(facts.host);
        let words: Vec<OsString> = std::iter::once(&command.program)
            .chain(&command.arguments)
            .cloned()
            .collect();
        let text = Diagnosis {
            program: &words,
            has_opened_gpu,
            ..known_from_text(log)
        };
        let is_json = options.is_some_and(|options| options.json);
        let is_page = options.is_some_and(|options| options.page_options.is_asked());
        let worth = ProgramEnd::of(&log.chain, status, facts.inventory.is_without_gpu());
        let is_told = is_json
            || match worth {
                ProgramEnd::Failure => true,
                ProgramEnd::Clue => options.is_some(),
                ProgramEnd::Unknown | ProgramEnd::OnTheCpu(_) => is_page,
                ProgramEnd::Nothing => false,
            };
        if is_told {
            let told = explained(facts, decision, common, text, is_pinned, |diagnosis| {
                if is_json {
                    report::say(&report::json::diagnosis(diagnosis));
                    return Ok(());
                }
                let all = options.is_some_and(|options| options.all);
                let page = |style: Style| {
                    let page = report::diagnosis(diagnosis, all, common.verbose, style);
                    format!("{}\n{page}", report::ended(&command.program, status))
                };
                // Standard output is the program's.
                let print = |text: &str| {
                    report::say(&format!("\n{text}"));
                    Ok(())
                };
                let none = PageOptions::default();
                let page_options = options.map_or(&none, |options| &options.page_options);
                deliver(style, common, page_options, page, String::new, print)
            });
            if let Err(error) = told {
                say(&error.to_string());
            }
        }
        match worth {
            _ if is_json || options.is_none() => {}
            ProgramEnd::OnTheCpu(message) => {
                report::say(&style.page(&report::on_the_cpu(message)));
            }
            ProgramEnd::Nothing
                if status.success() && has_opened_gpu == Some(false) && decision.expects_gpu() =>
            {
                report::say(&style.page(&report::unused_gpu(&words, style)));
            }
            ProgramEnd::Unknown if !is_told => {
                report::say(&style.page(&report::unknown_failure(&command.program, status, style)));
            }
            _ => {}
        }
    }
}

/// Bytes that are read of a long text: at its beginning, and at its end.
const HEAD: usize = 8 << 20;
const TAIL: usize = 56 << 20;
/// Bytes that are read of a pipe or a device, which may never end.
const MAX_STREAM_BYTES: u64 = 1 << 30;
const PIECE: usize = 1 << 20;
const LINE: usize = 4 << 10;

/// Reads the text of an option, or standard input.
fn log_of(host: &Host, common: &Common, options: &Diagnose) -> Result<Log, Error> {
    let unreadable = |path: &Path| Error::io(format!("`{}` cannot be read", show(path)));
    if let Some(text) = &options.text {
        return read_log(text.as_bytes(), None).map_err(unreadable(Path::new("--text")));
    }
    if let Some(file) = options.from.as_ref().filter(|file| *file != Path::new("-")) {
        let (input, size) = host::open_named(&host.absolute(file)).map_err(unreadable(file))?;
        return read_log(input, size).map_err(unreadable(file));
    }
    let (input, is_terminal) = host::standard_input();
    if is_terminal && !common.quiet {
        say("paste the message, then Ctrl-D");
    }
    read_log(input, None).map_err(unreadable(Path::new("-")))
}

/// `size` is that of a file. Without it, the end of the text is kept until all is read.
fn read_log(input: impl Read, size: Option<u64>) -> io::Result<Log> {
    let mut input = BufReader::with_capacity(LINE, input);
    let mut reader = LogReader::default();
    let tail = size.map(|size| size.saturating_sub(TAIL as u64));
    let mut at = 0_u64;
    loop {
        let piece = whole_lines(&mut input)?;
        at += piece.len() as u64;
        if size.is_none() && at > MAX_STREAM_BYTES {
            return Err(io::Error::other(
                "no end within a gigabyte; save it to a file, which may have any size, and name that with --from",
            ));
        }
        match tail {
            _ if reader.taken() < HEAD => reader.take(&piece),
            Some(tail) if at <= tail => reader.pass_over(&piece),
            Some(_) => reader.take(&piece),
            None => reader.keep(&piece, TAIL),
        }
        if piece.len() < PIECE {
            break;
        }
    }
    Ok(reader.finish())
}

/// Reads a piece that ends with a line, if a line ends soon after it.
fn whole_lines(input: &mut impl BufRead) -> io::Result<Vec<u8>> {
    let mut piece = Vec::with_capacity(PIECE + LINE);
    input.take(PIECE as u64).read_to_end(&mut piece)?;
    if piece.len() == PIECE && piece.last() != Some(&b'\n') {
        input.take(LINE as u64).read_until(b'\n', &mut piece)?;
    }
    Ok(piece)
}
