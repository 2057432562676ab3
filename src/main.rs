//! The command line: signals and exit codes; everything else is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    tenfill::cli::main()
}
