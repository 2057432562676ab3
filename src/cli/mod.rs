//! One file per command: arguments to options, one call of the library, results to people.

mod complete;
mod convert;
mod distribute;
mod evaluate;
mod export;
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
mod synth;
mod verify;

use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use tenfill_engine::control::Control;
use tenfill_engine::error::{Error, Result};
use tenfill_engine::team::Team;

#[derive(Parser)]
#[command(name = "tenfill", version, about, long_about = None, max_term_width = 100)]
#[command(after_help = "\
Examples:
  tenfill complete ratings.csv --rank 4,4,4 -o run     complete a ratings file
  tenfill convert ratings.csv.gz -o ratings.tenfill    turn it into shards first
  tenfill inspect ratings.tenfill                      see what is in there
  tenfill COMMAND --help                               options and examples of a command")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    global: Global,
}

#[derive(clap::Args, Clone)]
struct Global {
    /// End with one line of JSON for programs
    #[arg(long, global = true)]
    json: bool,
    /// Print results and errors only
    #[arg(long, short, global = true)]
    quiet: bool,
    /// Say more about what is being done
    #[arg(long, short, global = true)]
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
    Export(export::Arguments),
    Report(report::Arguments),
    Convert(convert::Arguments),
    Inspect(inspect::Arguments),
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
    /// The processes that do it together; only the first of them speaks.
    team: Team,
}

impl Context {
    /// Results for people, on standard output; not in quiet or JSON mode.
    fn print(&self, text: impl std::fmt::Display) {
        if !self.quiet && !self.json {
            print_line(&text);
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

    /// The last line for programs.
    fn finish(&self, json: &serde_json::Value) {
        if self.json {
            print_line(json);
        }
    }
}

/// Whoever reads our output may stop reading: that is no error.
fn print_line(text: &dyn std::fmt::Display) {
    let _ = writeln!(io::stdout().lock(), "{text}");
}

/// The same for messages: a run must not end because nobody listens to it any more.
fn tell(text: impl std::fmt::Display) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Runs the program.
pub fn main() -> ExitCode {
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(usage) if Team::speaks() => usage.exit(),
        Err(usage) => return ExitCode::from(usage.exit_code() as u8),
    };
    let team = match arguments.command {
        Command::Complete(_) | Command::Resume(_) => Team::join(),
        _ => Ok(Team::alone()),
    };
    let team = match team {
        Ok(team) => team,
        Err(error) => {
            tell(format_args!("tenfill: {error}"));
            return ExitCode::from(1);
        }
    };
    let stop = Arc::new(AtomicBool::new(false));
    // A limit on file sizes would end the program by this signal; caught, the write fails and says so.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    // Schedulers send the third when time is nearly up, and mpirun hands it on to its processes.
    use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
    for signal in [SIGINT, SIGTERM, SIGUSR1] {
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
        team,
    };
    let result = run(arguments.command, &context);
    progress.clear();
    let code = match result {
        Ok(code) => code,
        Err(error) => fail(&error, team),
    };
    team.finish();
    code
}

/// Says what went wrong. An error that all processes know is told by the first of them; one that only
/// this process knows ends the others, who would wait for it for ever.
fn fail(error: &Error, team: Team) -> ExitCode {
    let known = team.is_alone() || matches!(error, Error::Rank(_) | Error::Interrupted);
    if !known {
        tell(format_args!("tenfill: rank {} on {}: {error}", team.rank(), team.host()));
        team.abort(1);
    }
    if team.is_first() {
        tell(format_args!("tenfill: {error}"));
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
        Command::Export(arguments) => export::run(&arguments, context),
        Command::Report(arguments) => report::run(&arguments, context),
        Command::Man(arguments) => man::run(&arguments, context),
        Command::Convert(arguments) => convert::run(arguments, context),
        Command::Inspect(arguments) => inspect::run(&arguments, context),
        Command::Verify(arguments) => verify::run(&arguments, context),
        Command::Distribute(arguments) => distribute::run(&arguments, context),
        Command::Synth(arguments) => synth::run(arguments, context),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "tenfill", &mut script);
            let _ = io::stdout().lock().write_all(&script);
            Ok(ExitCode::SUCCESS)
        }
    }
}

/// How many threads to use where the user does not say.
fn default_threads() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// A list in one argument; under the name Vec, clap would expect several arguments.
type Dims = Vec<u32>;
type Ranks = Vec<usize>;

/// A list like `4,4,4`.
fn parse_list<T: std::str::FromStr>(text: &str) -> Result<Vec<T>, String> {
    text.split([',', 'x'])
        .map(|part| part.trim().parse().map_err(|_| format!("'{part}' is not a whole number")))
        .collect()
}
