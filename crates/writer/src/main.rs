//! The `writer` command.

use anyhow::{Context, Result};
use clap::{Args, Parser, Subcommand, ValueEnum};
use ensemble_writer::connection::Via;
use ensemble_writer::log::Log;
use ensemble_writer::run::{self, Pace};
use ensemble_writer::tally::{Tally, Window};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// Acknowledged writes were lost.
const LOST: u8 = 3;

/// Writes numbered rows to PostgreSQL all the time, and tells what was lost.
///
/// Run it beside a change of the cluster, then compare what was acknowledged with what is there:
///
///   writer run --log log.jsonl \
///     --via "service=host=orders-primary user=postgres" \
///     --via "hosts=host=orders-0.orders-members,orders-1.orders-members user=postgres target_session_attrs=read-write" &
///   writer check --log log.jsonl --via ... --via ...
#[derive(Parser)]
#[command(
    name = "writer",
    version,
    verbatim_doc_comment,
    after_help = "Exit codes of check: 0 nothing was lost, 3 acknowledged writes were lost, 1 it could not be told."
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Write until SIGTERM or SIGINT
    ///
    /// Each way has a connection and a table (writer_NAME) of its own, and writes one row after the
    /// other, each in a transaction of its own. After any error it connects anew. No statement has
    /// a time limit: in synchronous mode PostgreSQL would acknowledge what was not replicated.
    Run {
        #[command(flatten)]
        ways: Ways,
        /// Where every outcome is logged, as lines of JSON; - is standard output
        #[arg(long, value_name = "FILE", default_value = "-")]
        log: String,
        /// Between two writes of one connection
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 20)]
        every: u64,
        /// After an error, before the next attempt
        #[arg(long, value_name = "MILLISECONDS", default_value_t = 20)]
        retry: u64,
    },
    /// Compare what was acknowledged with what is in the tables
    ///
    /// It may be done while the writer writes. Whatever was acknowledged anywhere in the log must be
    /// there; the other figures speak of the time between --since and --until.
    Check {
        #[command(flatten)]
        ways: Ways,
        /// The log of `writer run`; - is standard input
        #[arg(long, value_name = "FILE")]
        log: String,
        /// Measure from here, in seconds since 1970
        #[arg(long, value_name = "SECONDS")]
        since: Option<f64>,
        /// Measure up to here, in seconds since 1970
        #[arg(long, value_name = "SECONDS")]
        until: Option<f64>,
        /// How long to wait for a primary
        #[arg(long, value_name = "SECONDS", default_value_t = 30)]
        wait: u64,
        /// How the report is written
        #[arg(short, long, value_enum, default_value = "text")]
        output: Output,
    },
}

#[derive(Args)]
struct Ways {
    /// A way to the database: a name, and a connection string as libpq takes it, with one host or
    /// several; may be given more than once
    ///
    /// With several hosts and target_session_attrs=read-write the primary is found without a
    /// Service. A missing password is taken from PGPASSWORD.
    #[arg(long = "via", value_name = "NAME=CONNECTION", required = true)]
    via: Vec<Via>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Text,
    Json,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> ExitCode {
    match start(Cli::parse().command).await {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

async fn start(command: Command) -> Result<ExitCode> {
    match command {
        Command::Run {
            ways,
            log,
            every,
            retry,
        } => {
            let pace = Pace {
                write: Duration::from_millis(every),
                retry: Duration::from_millis(retry),
            };
            write(ways.with_password(), &log, pace).await?;
            Ok(ExitCode::SUCCESS)
        }
        Command::Check {
            ways,
            log,
            since,
            until,
            wait,
            output,
        } => {
            let window = Window {
                since: since.unwrap_or(Window::ALL.since),
                until: until.unwrap_or(Window::ALL.until),
            };
            let ways = ways.with_password();
            let limit = Duration::from_secs(wait);
            let tallies = ensemble_writer::check::check(&log, &ways, window, limit).await?;
            print(&tallies, output)?;
            let lost = tallies.iter().any(|t| !t.lost.is_empty());
            Ok(ExitCode::from(if lost { LOST } else { 0 }))
        }
    }
}

impl Ways {
    fn with_password(self) -> Vec<Via> {
        let password = std::env::var("PGPASSWORD").ok();
        let ways = self.via.into_iter();
        ways.map(|via| via.with_password(password.as_deref()))
            .collect()
    }
}

async fn write(ways: Vec<Via>, log: &str, pace: Pace) -> Result<()> {
    let log = Arc::new(Log::open(Some(log))?);
    let (stop, stopped) = watch::channel(false);
    let writers: Vec<_> = ways
        .into_iter()
        .map(|via| tokio::spawn(run::write(via, log.clone(), pace, stopped.clone())))
        .collect();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
        // The writers may have ended by themselves.
        let _ = stop.send(true);
    });
    for writer in writers {
        writer.await.context("a writer broke down")??;
    }
    Ok(())
}

fn print(tallies: &[Tally], output: Output) -> Result<()> {
    match output {
        Output::Json => println!("{}", serde_json::to_string_pretty(tallies)?),
        Output::Text => tallies.iter().for_each(|tally| print!("{tally}")),
    }
    Ok(())
}
