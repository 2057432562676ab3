//! `tenfill man`.

use super::{Arguments as Program, Context};
use clap::CommandFactory;
use serde_json::json;
use std::path::PathBuf;
use std::process::ExitCode;
use tenfill_engine::error::{IoContext, Result};
use tenfill_engine::storage::{RealDisk, make_dir, write_atomic};

/// Write the manual pages
///
/// One for the program and one for each command. Pages of the same names are replaced.
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
    make_dir(&RealDisk, &arguments.output)?;
    let commands = program.get_subcommands().filter(|command| command.get_name() != "help");
    let mut pages = vec![("tenfill".to_string(), program.clone())];
    pages.extend(commands.map(|command| {
        // Built with the program, a command's display name is tenfill-COMMAND.
        (format!("tenfill-{}", command.get_name()), command.clone())
    }));
    for (name, command) in &pages {
        let path = arguments.output.join(format!("{name}.1"));
        let mut page = Vec::new();
        clap_mangen::Man::new(command.clone()).render(&mut page).context("write", &path)?;
        write_atomic(&RealDisk, &path, &page)?;
    }
    context.print(format_args!("{}: {} pages", arguments.output.display(), pages.len()));
    context.finish(&json!({ "pages": pages.len() }));
    Ok(ExitCode::SUCCESS)
}
