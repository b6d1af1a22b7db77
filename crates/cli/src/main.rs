//! The `ensemble` binary.

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches};
use ensemble_cli::args::Cli;
use ensemble_cli::exit::Exit;
use std::process::ExitCode;

/// Rehearsals, and a controller's plans, make and drop small objects most of their time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    let cli = match parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Nothing can be done about a closed terminal.
            let _ = error.print();
            // clap's own code for a wrong argument is 2, which here means something else.
            let asked = matches!(
                error.kind(),
                ErrorKind::DisplayHelp | ErrorKind::DisplayVersion
            );
            return if asked {
                Exit::Converged.into()
            } else {
                Exit::Error.into()
            };
        }
    };
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("ensemble: cannot start: {error}");
            return Exit::Error.into();
        }
    };
    match runtime.block_on(ensemble_cli::run(cli)) {
        Ok(exit) => exit.into(),
        Err(failure) => {
            eprintln!("ensemble: {failure}");
            failure.exit.into()
        }
    }
}

/// As `kubectl ensemble`, help shows what was typed.
fn parse() -> Result<Cli, clap::Error> {
    let program = std::env::args_os().next().unwrap_or_default();
    let file = std::path::Path::new(&program)
        .file_stem()
        .unwrap_or_default();
    let mut command = Cli::command();
    if file.to_string_lossy().starts_with("kubectl-") {
        command = command.bin_name("kubectl ensemble");
    }
    let matches = command.try_get_matches()?;
    Cli::from_arg_matches(&matches)
}
