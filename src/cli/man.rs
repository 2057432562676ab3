//! `tenfill man`.

use super::{Arguments as Program, Context};
use clap::CommandFactory;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use tenfill_engine::error::{IoContext, Result};
use tenfill_engine::storage::{AtomicFile, Output, RealDisk};

/// Write the manual pages
///
/// One for the program and one for each command. Earlier pages of tenfill are replaced, and nothing else.
#[derive(clap::Args)]
#[command(after_help = "\
Examples:
  tenfill man -o ~/.local/share/man/man1
  man tenfill-complete")]
pub(super) struct Arguments {
    /// The directory to write them to
    #[arg(short, long, value_name = "DIR")]
    output: PathBuf,
}

pub(super) fn run(arguments: &Arguments, context: &Context) -> Result<ExitCode> {
    let mut program = Program::command();
    program.build();
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
    let mut pages = vec![("tenfill".to_string(), program.clone())];
    pages.extend(commands.map(|command| {
        // Built with the program, a command's display name is tenfill-COMMAND.
        (format!("tenfill-{}", command.get_name()), command.clone())
    }));
    let output = |name: &str| {
        let path = arguments.output.join(format!("{name}.1"));
        let mut output = Output::new(&path, is_page(&path));
        output.hint = "it is no manual page of tenfill, so choose another directory";
        output
    };
    pages.iter().try_for_each(|(name, _)| AtomicFile::check(&output(name)))?;
    for (name, command) in &pages {
        let output = output(name);
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page).context("write", &output.path)?;
        let mut file = AtomicFile::output(&RealDisk, &output)?;
        file.append(&page)?;
        file.commit()?;
    }
    context.print(format_args!("{}: {} pages", arguments.output.display(), pages.len()));
    context.finish(&json!({ "pages": pages.len() }));
    Ok(ExitCode::SUCCESS)
}

/// Whether a file is a manual page of tenfill, of whatever version.
fn is_page(path: &Path) -> bool {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    text.lines().any(|line| line.starts_with(".TH tenfill"))
}
