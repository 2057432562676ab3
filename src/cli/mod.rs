//! One file per command: arguments to options, one call of the library, results to people.

mod again;
mod append;
mod call;
mod complete;
mod convert;
mod distribute;
mod entries;
mod evaluate;
mod export;
mod fill;
mod flags;
mod fold_in;
mod given;
mod inspect;
mod man;
mod method;
mod outcome;
mod predict;
mod progress;
mod recipe;
mod recommend;
mod report;
mod resume;
mod stdout;
mod synth;
mod verify;

pub use call::{Failure, Observe, Outside, call, commands, flags};

use clap::{CommandFactory, Parser, Subcommand};
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tenfill_engine::control::Control;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::ingest::Batches;
use tenfill_engine::message::printable;
use tenfill_engine::run::unobserved;
use tenfill_engine::shard::Split;
use tenfill_engine::team::Team;
use tenfill_engine::usage::{allow_many_files, ignores_hangup, most_threads};

#[derive(Parser)]
#[command(name = "tenfill", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "\
Examples:
  tenfill complete ratings.csv --rank 4,4,4 -o run     complete a ratings file
  tenfill fill readings.csv -o filled.csv              give a table back without its holes
  tenfill convert ratings.csv.gz -o ratings.tenfill    turn it into shards first
  tenfill inspect ratings.tenfill                      see what is in there
  tenfill COMMAND --help                               options and examples of a command")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

/// Above the options of all commands.
const GENERAL: &str = "Of every command";

#[derive(clap::Args, Clone)]
struct Global {
    /// End with one line of JSON for programs
    #[arg(long, global = true, help_heading = GENERAL)]
    json: bool,
    /// Print results and errors only
    #[arg(long, short, global = true, help_heading = GENERAL)]
    quiet: bool,
    /// Say more about what is being done
    #[arg(long, short, global = true, help_heading = GENERAL)]
    verbose: bool,
}

#[derive(Subcommand)]
enum Command {
    Complete(Box<complete::Arguments>),
    Resume(resume::Arguments),
    Evaluate(evaluate::Arguments),
    Predict(predict::Arguments),
    Recommend(recommend::Arguments),
    FoldIn(fold_in::Arguments),
    Fill(Box<fill::Arguments>),
    Export(export::Arguments),
    Report(report::Arguments),
    Convert(convert::Arguments),
    Append(Box<append::Arguments>),
    Inspect(inspect::Arguments),
    Entries(entries::Arguments),
    Verify(verify::Arguments),
    Distribute(distribute::Arguments),
    Synth(synth::Arguments),
    Man(man::Arguments),
    /// Print shell completions
    ///
    /// For example: tenfill completions bash > ~/.local/share/bash-completion/completions/tenfill
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

/// What every command gets.
struct Context {
    control: Control,
    json: bool,
    quiet: bool,
    stdout: stdout::Stdout,
    /// The processes that do it together; only the first of them speaks.
    team: Team,
    /// Whether it was said that fewer threads are taken than asked for.
    said_threads: AtomicBool,
    /// Sees every line of a run's log.
    observe: Observe,
    /// Rows that the program which called us hands over.
    batches: Mutex<Vec<(Split, Batches)>>,
    /// Columns of modes, likewise.
    modes: Option<Vec<String>>,
    /// The command with its arguments, where it was called by its name.
    words: Vec<OsString>,
    /// Where the line for programs goes, if one has called us.
    answer: Option<Mutex<serde_json::Value>>,
}

impl Context {
    /// How many threads to take: one per core where the user does not say, and never many more.
    fn threads(&self, asked: Option<usize>) -> usize {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let most = most_threads();
        let threads = asked.unwrap_or(cores).clamp(1, most);
        if asked.is_some_and(|asked| asked > most) && !self.said_threads.swap(true, Ordering::Relaxed) {
            self.control.say(format!("taking {most} threads: with {cores} cores more would only wait"));
        }
        threads
    }

    /// Results for people, on standard output; not in quiet or JSON mode.
    fn print(&self, text: impl std::fmt::Display) {
        if !self.quiet && !self.json {
            let text = text.to_string();
            self.stdout.line(text.split('\n').map(printable).collect::<Vec<_>>().join("\n"));
        }
    }

    /// A word about a table that was written; where it went to standard output, not into it.
    fn about(&self, output: &Option<std::path::PathBuf>, text: String) {
        match output {
            Some(path) if path != std::path::Path::new("-") => {
                self.print(format_args!("{}: {text}", path.display()));
            }
            _ => self.control.detail(text),
        }
    }

    /// The rows that were handed over; they are there once.
    fn take_batches(&self) -> Vec<(Split, Batches)> {
        std::mem::take(&mut self.batches.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The last line for programs.
    fn finish(&self, json: &serde_json::Value) {
        if let Some(answer) = &self.answer {
            *answer.lock().unwrap_or_else(PoisonError::into_inner) = json.clone();
        } else if self.json {
            self.stdout.line(json);
        }
    }
}

/// Messages: a run must not end because nobody listens to it any more.
fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{}", printable(&flags::in_flags(&text.to_string())));
}

/// The last line for programs of a command that has failed.
fn failure(error: &str, path: Option<&std::path::Path>, line: Option<u64>) -> serde_json::Value {
    serde_json::json!({ "error": error, "path": path.map(std::path::Path::to_string_lossy), "line": line })
}

/// What the standard library says of numbers, as a user would.
fn plain_words(text: &str) -> String {
    [
        ("invalid digit found in string", "this is no whole number from 0 on"),
        ("number too large to fit in target type", "the number is too large"),
        ("cannot parse integer from empty string", "a whole number is missing"),
        ("invalid float literal", "this is no number"),
        ("cannot parse float from empty string", "a number is missing"),
    ]
    .iter()
    .fold(text.into(), |text, (theirs, ours)| text.replace(theirs, ours))
}

/// What is wrong about usage, in one line.
fn usage_sentence(usage: &clap::Error) -> String {
    let text = plain_words(&usage.render().to_string());
    let sentence = text.split("\n\n").next().unwrap_or_default().trim_start_matches("error: ");
    sentence.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Wrong usage is told to programs as well, where they `asked` for it.
fn usage_failure(usage: &clap::Error, asked: bool) {
    if usage.use_stderr() && asked {
        // That it cannot be told changes nothing about what went wrong.
        let _ = writeln!(io::stdout().lock(), "{}", failure(&usage_sentence(usage), None, None));
    }
}

/// Panics that become errors are not printed.
fn hush_guarded_panics() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        if !tenfill_engine::storage::is_guarded() {
            loud(panic);
        }
    }));
}

/// Runs the program.
pub fn main() -> ExitCode {
    main_with(std::env::args_os().collect())
}

/// The same for a program that has the command within it: its arguments, the name first, to its exit code.
pub fn exit_code_of(arguments: Vec<OsString>) -> u8 {
    let code = main_with(arguments);
    (0..=u8::MAX).find(|&number| ExitCode::from(number) == code).unwrap_or(1)
}

fn main_with(arguments: Vec<OsString>) -> ExitCode {
    hush_guarded_panics();
    allow_many_files();
    // Whether programs ask for it must be seen without parsing.
    let json = arguments.iter().any(|argument| argument == "--json");
    let words = arguments.iter().skip(1).cloned().collect();
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(usage) if Team::speaks() => return explain(&usage, json),
        Err(usage) => return ExitCode::from(usage.exit_code() as u8),
    };
    let team = match arguments.command {
        Command::Complete(_) | Command::Resume(_) => Team::join(),
        _ => Ok(Team::alone()),
    };
    let team = match team {
        Ok(team) => team,
        Err(error) => return fail(&error, Team::alone(), arguments.global.json),
    };
    let stop = Arc::new(AtomicBool::new(false));
    // A limit on file sizes would end the program by this signal; caught, the write fails and says so.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    // Schedulers send the third when time is nearly up, and mpirun hands it on to its processes.
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1};
    // A terminal that is closed sends the last; under nohup it must stay ignored.
    let hangup = (!ignores_hangup()).then_some(SIGHUP);
    for signal in [SIGINT, SIGTERM, SIGUSR1].into_iter().chain(hangup) {
        // The second one ends the program at once; this must be registered before the first.
        let second = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop));
        let first = signal_hook::flag::register(signal, Arc::clone(&stop));
        if second.is_err() || first.is_err() {
            tell("tenfill: signals cannot be caught here; Ctrl-C will end at once");
        }
    }
    let quiet = arguments.global.quiet || !team.is_first();
    let progress = Arc::new(progress::Bars::new(quiet, arguments.global.verbose && !quiet));
    let context = Context {
        control: Control::new(stop, Arc::<progress::Bars>::clone(&progress)),
        json: arguments.global.json && team.is_first(),
        quiet,
        stdout: stdout::Stdout::default(),
        team,
        said_threads: AtomicBool::new(false),
        observe: Box::new(unobserved),
        batches: Mutex::default(),
        modes: None,
        words,
        answer: None,
    };
    let result = run(arguments.command, &context);
    let result = result.and_then(|code| team.agree(context.stdout.finish()).map(|()| code));
    progress.clear();
    let code = match result {
        Ok(code) => code,
        Err(error) => fail(&error, team, arguments.global.json),
    };
    team.finish();
    code
}

/// Help and versions to standard output, wrong usage to standard error.
fn explain(usage: &clap::Error, json: bool) -> ExitCode {
    let stdout = stdout::Stdout::default();
    stdout.attempt(|| match usage.render().to_string() {
        text if plain_words(&text) != text => write!(io::stderr().lock(), "{}", plain_words(&text)),
        _ => usage.print(),
    });
    usage_failure(usage, json);
    match stdout.finish() {
        Err(error) if !usage.use_stderr() => fail(&error, Team::alone(), false),
        _ => ExitCode::from(usage.exit_code() as u8),
    }
}

/// Says what went wrong. An error that all processes know is told by the first of them; one that only
/// this process knows ends the others, who would wait for it for ever.
fn fail(error: &Error, team: Team, json: bool) -> ExitCode {
    let told = || {
        if json {
            let line = failure(&flags::in_flags(&error.to_string()), error.path(), error.line());
            let _ = writeln!(io::stdout().lock(), "{line}");
        }
    };
    let known = team.is_alone() || matches!(error, Error::Process(_) | Error::Interrupted);
    if !known {
        tell(format_args!("tenfill: process {} on {}: {error}", team.process(), team.host()));
        told();
        team.abort(1);
    }
    if team.is_first() {
        tell(format_args!("tenfill: {error}"));
        told();
    }
    ExitCode::from(if matches!(error, Error::Interrupted) { 130 } else { 1 })
}

fn run(command: Command, context: &Context) -> Result<ExitCode> {
    match command {
        Command::Complete(arguments) => complete::run(*arguments, context),
        Command::Resume(arguments) => resume::run(&arguments, context),
        Command::Evaluate(arguments) => evaluate::run(&arguments, context),
        Command::Predict(arguments) => predict::run(arguments, context),
        Command::Recommend(arguments) => recommend::run(arguments, context),
        Command::FoldIn(arguments) => fold_in::run(arguments, context),
        Command::Fill(arguments) => fill::run(*arguments, context),
        Command::Export(arguments) => export::run(&arguments, context),
        Command::Report(arguments) => report::run(&arguments, context),
        Command::Man(arguments) => man::run(&arguments, context),
        Command::Convert(arguments) => convert::run(arguments, context),
        Command::Entries(arguments) => entries::run(&arguments, context),
        Command::Append(arguments) => append::run(*arguments, context),
        Command::Inspect(arguments) => inspect::run(&arguments, context),
        Command::Verify(arguments) => verify::run(&arguments, context),
        Command::Distribute(arguments) => distribute::run(&arguments, context),
        Command::Synth(arguments) => synth::run(arguments, context),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tenfill", &mut script);
            context.stdout.attempt(|| io::stdout().lock().write_all(&script));
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// A number of threads, at least one.
fn parse_threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("0 threads do nothing: leave it out for one per core".into()),
        Ok(threads) => Ok(threads),
        Err(_) => Err(format!("'{text}' is no number of threads: write 1 or more")),
    }
}

/// A list in one argument; under the name Vec, clap would expect several arguments.
type Dims = Vec<u32>;
type Ranks = Vec<usize>;

/// A list like `4,4,4`.
fn parse_list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    let one = |part: &str| part.trim().parse().map_err(|_| part.trim().to_string());
    let numbers: Result<Vec<T>, String> = text.split([',', 'x']).map(one).collect();
    numbers.map_err(|part| match part.as_str() {
        "" => format!("'{text}' is no list of whole numbers, like 4,4,4"),
        _ => format!("'{part}' is not a whole number"),
    })
}
