//! What an upgrade of PostgreSQL costs its clients: `make bench-upgrade`. See docs/bench-upgrade.md.

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use ensemble_e2e::postgres::bench::{Mode, Run, run, table, verdicts};
use ensemble_testbed::harness::Cluster;
use std::fs::{self, File};
use std::io::Write;
use std::path::PathBuf;

/// Upgrades PostgreSQL again and again while a client writes, and prints what that cost the client.
///
/// Each run has a cluster of three members of its own. The lead is at ordinal 0, 1, 2, 0, 1, ... The
/// cluster is the full testbed, or the one that KUBECONFIG names, if it has the testbed's images.
#[derive(Parser)]
#[command(name = "bench-upgrade")]
struct Cli {
    /// How often each change is made
    #[arg(long, default_value_t = 5)]
    runs: u32,
    /// The changes to make; default: all
    #[arg(long, value_enum, value_delimiter = ',')]
    modes: Vec<Mode>,
    /// Whether commits wait for a replica; default: once so, once so
    #[arg(long, value_enum, value_delimiter = ',')]
    commits: Vec<Commits>,
    /// Add every run to this file, as a line of JSON, and include those that are there already
    #[arg(long, value_name = "FILE")]
    keep: Option<PathBuf>,
    /// How the result is written
    #[arg(short, long, value_enum, default_value = "table")]
    output: Output,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Commits {
    Asynchronous,
    Synchronous,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Output {
    Table,
    Json,
}

#[tokio::main]
async fn main() -> Result<()> {
    let cli = Cli::parse();
    let mut runs = kept(&cli)?;
    let failed = if cli.runs == 0 {
        0
    } else {
        make(&cli, &mut runs).await?
    };
    match cli.output {
        Output::Json => println!("{}", serde_json::to_string_pretty(&runs)?),
        Output::Table => {
            println!("{}", table(&runs));
            verdicts(&runs).iter().for_each(|line| println!("{line}"));
        }
    }
    let lost: usize = runs
        .iter()
        .flat_map(|r| &r.tallies)
        .map(|t| t.lost.len())
        .sum();
    ensure!(failed == 0, "{failed} runs failed and are not in the table");
    ensure!(lost == 0, "{lost} acknowledged writes were lost");
    Ok(())
}

fn kept(cli: &Cli) -> Result<Vec<Run>> {
    let Some(text) = cli
        .keep
        .as_ref()
        .and_then(|path| fs::read_to_string(path).ok())
    else {
        return Ok(Vec::new());
    };
    let line = |line: &str| serde_json::from_str(line).context("the file of runs is malformed");
    text.lines().map(line).collect()
}

/// Makes the runs, one change after the other in turn, so that a busy minute of the machine hits all
/// of them alike. A run that fails is told and counted, and the others go on.
async fn make(cli: &Cli, runs: &mut Vec<Run>) -> Result<u32> {
    let cluster = Cluster::connect().await?;
    let modes = if cli.modes.is_empty() {
        Mode::ALL.to_vec()
    } else {
        cli.modes.clone()
    };
    let commits = match cli.commits.is_empty() {
        true => vec![Commits::Asynchronous, Commits::Synchronous],
        false => cli.commits.clone(),
    };
    let mut failed = 0;
    for number in 0..cli.runs {
        for commits in &commits {
            for mode in &modes {
                let synchronous = *commits == Commits::Synchronous;
                match run(&cluster, *mode, synchronous, number % 3).await {
                    Ok(made) => {
                        eprintln!("{}", brief(&made));
                        keep(cli, &made)?;
                        runs.push(made);
                    }
                    Err(error) => {
                        failed += 1;
                        eprintln!("{mode:?}, synchronous {synchronous}, failed: {error:#}");
                    }
                }
            }
        }
    }
    Ok(failed)
}

fn brief(run: &Run) -> String {
    let gaps = run
        .tallies
        .iter()
        .map(|t| format!("{} {:.0} ms", t.via, t.longest_gap_millis));
    let gaps: Vec<String> = gaps.collect();
    let lost: usize = run.tallies.iter().map(|t| t.lost.len()).sum();
    format!(
        "{:?}, synchronous {}, leader at {}: {:.1} s, {} leader changes, pauses {}, lost {lost}",
        run.mode,
        run.synchronous,
        run.leader,
        run.seconds,
        run.leader_changes,
        gaps.join(", ")
    )
}

fn keep(cli: &Cli, run: &Run) -> Result<()> {
    let Some(path) = &cli.keep else {
        return Ok(());
    };
    let mut file = File::options().create(true).append(true).open(path)?;
    writeln!(file, "{}", serde_json::to_string(run)?)
        .with_context(|| format!("cannot write to {}", path.display()))
}
