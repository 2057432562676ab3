//! One file per command: arguments to options, one call of the library, results to people.

mod complete;
mod convert;
mod evaluate;
mod export;
mod fold_in;
mod given;
mod inspect;
mod man;
mod predict;
mod progress;
mod recipe;
mod recommend;
mod report;
mod resume;
mod synth;
mod verify;

use crate::control::Control;
use crate::error::{Error, Result};
use clap::{CommandFactory, Parser, Subcommand};
use std::io::{self, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

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
    let arguments = Arguments::parse();
    let stop = Arc::new(AtomicBool::new(false));
    // A limit on file sizes would end the program by this signal; caught, the write fails and says so.
    let _ = signal_hook::flag::register(signal_hook::consts::SIGXFSZ, Arc::new(AtomicBool::new(false)));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The second one ends the program at once; this must be registered before the first.
        let second = signal_hook::flag::register_conditional_shutdown(signal, 130, Arc::clone(&stop));
        let first = signal_hook::flag::register(signal, Arc::clone(&stop));
        if second.is_err() || first.is_err() {
            tell("tenfill: signals cannot be caught here; Ctrl-C will end at once");
        }
    }
    let progress = Arc::new(progress::Bars::new(arguments.global.quiet, arguments.global.verbose));
    let context = Context {
        control: Control::new(stop, Arc::<progress::Bars>::clone(&progress)),
        json: arguments.global.json,
        quiet: arguments.global.quiet,
    };
    let result = run(arguments.command, &context);
    progress.clear();
    match result {
        Ok(code) => code,
        Err(Error::Interrupted) => {
            tell("tenfill: interrupted");
            ExitCode::from(130)
        }
        Err(error) => {
            tell(format_args!("tenfill: {error}"));
            ExitCode::from(1)
        }
    }
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
