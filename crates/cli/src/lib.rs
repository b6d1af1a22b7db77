//! The command line of Ensemble.
//!
//! Everything that speaks about an ensemble renders the report that the controller wrote into its
//! status ([`view`]); nothing is computed here that the report does not say. Writes are made as the
//! user, with the user's rights, and never retried.

pub mod args;
pub mod cluster;
pub mod commands;
pub mod docs;
pub mod exit;
pub mod failure;
pub mod file;
pub mod manifests;
pub mod output;
pub mod view;

use args::{Cli, Command};
use clap::CommandFactory;
use cluster::Cluster;
use exit::Exit;
use failure::Failure;

/// Does what was asked.
pub async fn run(cli: Cli) -> Result<Exit, Failure> {
    let global = cli.global;
    match cli.command {
        Command::Status(args) => {
            commands::status::run(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Why(args) => {
            commands::why::run(&Cluster::connect(&global).await?, &global, &args.name).await
        }
        Command::Plan(args) => {
            commands::plan::run(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Simulate(args) => commands::simulate::run(&global, &args),
        Command::History(args) => {
            commands::history::run(&Cluster::connect(&global).await?, &global, &args.name).await
        }
        Command::Pause(args) => {
            commands::pause::run(&Cluster::connect(&global).await?, &global, &args, true).await
        }
        Command::Resume(args) => {
            commands::pause::run(&Cluster::connect(&global).await?, &global, &args, false).await
        }
        Command::Switch(args) => {
            commands::ask::switch(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Remove(args) => {
            commands::removal::remove(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Replace(args) => {
            commands::removal::replace(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Approve(args) => {
            commands::ask::approve(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Waive(args) => {
            commands::waive::run(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Undo(args) => {
            commands::undo::run(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Install(args) => commands::install::run(&global, &args).await,
        Command::Uninstall(args) => {
            commands::uninstall::run(&Cluster::connect(&global).await?, &global, &args).await
        }
        Command::Controller(args) => commands::controller::run(&global, args).await,
        Command::Demo(args) => commands::demo::run(&global, &args),
        Command::Explore(args) => commands::explore::run(&global, &args),
        Command::Explain(args) => commands::explain::run(&global, &args),
        Command::Crd => commands::crd(global.output),
        Command::Version => commands::version(global.output),
        Command::Completion { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "ensemble", &mut script);
            output::print(&String::from_utf8_lossy(&script))?;
            Ok(Exit::Converged)
        }
        Command::Docs { page } => {
            output::print(&docs::page(page))?;
            Ok(Exit::Converged)
        }
    }
}
