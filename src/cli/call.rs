//! A command called by another program: arguments in, the line of JSON out. Nothing is printed, no signal
//! is caught, and the processes of MPI are not joined.

use super::{Arguments, Context, run, stdout, usage_sentence};
use clap::{CommandFactory, Parser};
use serde_json::Value;
use std::ffi::OsString;
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use tenfill_engine::control::Control;
use tenfill_engine::error::Error;
use tenfill_engine::ingest::Batches;
use tenfill_engine::run::{LogLine, unobserved};
use tenfill_engine::shard::Split;
use tenfill_engine::team::Team;

/// Is called with every line of a run's log.
pub type Observe = Box<dyn Fn(&LogLine) -> ControlFlow<()> + Send + Sync>;

/// What a program hands to a command beside its arguments.
pub struct Outside {
    /// Stops it, and hears of its progress.
    pub control: Control,
    /// Sees the lines of a run's log.
    pub observe: Observe,
    /// Rows for `convert`, in place of every input that is called [`STREAM`](tenfill_engine::ingest::STREAM).
    pub batches: Vec<(Split, Batches)>,
    /// The columns of the modes, whose names may hold commas here.
    pub modes: Option<Vec<String>>,
}

impl Outside {
    /// Nothing but a control.
    pub fn new(control: Control) -> Self {
        Outside { control, observe: Box::new(unobserved), batches: Vec::new(), modes: None }
    }
}

/// Why a call has no answer.
#[derive(Debug)]
pub enum Failure {
    /// The arguments are wrong, in one sentence.
    Usage(String),
    /// The command has failed.
    Failed(Error),
}

/// Runs a command, given by its name and its arguments, and returns what `--json` would print.
///
/// # Errors
///
/// Whatever the command says; a run that was interrupted is an answer.
pub fn call(arguments: Vec<OsString>, outside: Outside) -> Result<Value, Failure> {
    let named = std::iter::once("tenfill".into()).chain(arguments.iter().cloned());
    let parsed = Arguments::try_parse_from(named).map_err(|usage| Failure::Usage(usage_sentence(&usage)))?;
    let context = Context {
        control: outside.control,
        json: true,
        quiet: true,
        stdout: stdout::Stdout::default(),
        team: Team::alone(),
        said_threads: AtomicBool::new(false),
        observe: outside.observe,
        batches: Mutex::new(outside.batches),
        modes: outside.modes,
        words: arguments,
        answer: Some(Mutex::new(Value::Null)),
    };
    run(parsed.command, &context).map_err(Failure::Failed)?;
    let answer = context.answer.and_then(|answer| answer.into_inner().ok());
    Ok(answer.unwrap_or_default())
}

/// The flags of a command that a user may give, in the order of its help; none where there is no such command.
pub fn flags(command: &str) -> Vec<String> {
    let program = Arguments::command();
    let found = program.find_subcommand(command);
    let arguments = found.into_iter().flat_map(clap::Command::get_arguments);
    let shown = arguments.filter(|argument| !argument.is_hide_set());
    shown.filter_map(|argument| argument.get_long().map(str::to_string)).collect()
}

/// The names of all commands.
pub fn commands() -> Vec<String> {
    Arguments::command().get_subcommands().map(|command| command.get_name().to_string()).collect()
}
