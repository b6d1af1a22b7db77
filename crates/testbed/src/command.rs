//! Running other programs to their end, with errors that say what failed and why.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// Runs a program and returns what it printed.
pub fn output(program: &str, arguments: &[&str]) -> Result<String> {
    run(Command::new(program).args(arguments))
}

/// Runs a prepared command and returns what it printed.
pub fn run(command: &mut Command) -> Result<String> {
    let shown = show(command);
    let result = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("failed to start {shown}"))?;
    if !result.status.success() {
        let said = String::from_utf8_lossy(&result.stderr);
        bail!(
            "{shown} ended with {}: {}",
            result.status,
            last_lines(&said, 20)
        );
    }
    Ok(String::from_utf8_lossy(&result.stdout).into_owned())
}

/// Runs a long command with its output in a file, so that it can be followed.
pub fn run_logged(command: &mut Command, log: &Path) -> Result<()> {
    let shown = show(command);
    let file = std::fs::File::create(log)
        .with_context(|| format!("failed to create {}", log.display()))?;
    let copy = file.try_clone().context("failed to share the log file")?;
    let status = command
        .stdin(Stdio::null())
        .stdout(file)
        .stderr(copy)
        .status()
        .with_context(|| format!("failed to start {shown}"))?;
    if !status.success() {
        let said = std::fs::read_to_string(log).unwrap_or_default();
        bail!("{shown} ended with {status}: {}", last_lines(&said, 30));
    }
    Ok(())
}

/// Whether a program can be found.
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let sbin = ["/usr/local/sbin", "/usr/sbin", "/sbin"].map(std::path::PathBuf::from);
    std::env::split_paths(&path)
        .chain(sbin)
        .any(|dir| dir.join(program).is_file())
}

fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words
        .map(|word| word.to_string_lossy())
        .collect::<Vec<_>>()
        .join(" ")
}

fn last_lines(text: &str, count: usize) -> String {
    let lines: Vec<&str> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(count)..].join("\n")
}
