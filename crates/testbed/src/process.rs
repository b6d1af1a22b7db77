//! Long-running programs: started with a log and a record of their pid, stopped by that pid alone.

use std::fs::{self, File};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;
use std::sync::mpsc::{Sender, channel};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rustix::process::{Pid, Signal, kill_process};
use serde::{Deserialize, Serialize};

/// How long a program lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until somebody stops it: for `testbed up`.
    Detached,
    /// At most as long as this process, however it ends: for tests.
    Owned,
}

/// A program to be started.
#[derive(Clone, Debug)]
pub struct Spec {
    /// Names the log and the record.
    pub name: String,
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// The network namespace to run in, instead of this process's own.
    pub namespace: Option<String>,
    /// The mount namespace to run in, instead of this process's own.
    pub mounts: Option<PathBuf>,
}

/// A program that was started, perhaps by another process.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Process {
    pid: i32,
    /// When the kernel started it: a pid alone may by now belong to somebody else.
    started: u64,
}

impl Process {
    /// Starts the program, with its log in `dir/logs` and its record in `dir/pids`.
    pub fn start(dir: &Path, spec: &Spec, lifetime: Lifetime) -> Result<Process> {
        let command = prepare(dir, spec, lifetime)?;
        let child = match lifetime {
            Lifetime::Detached => spawn(command),
            Lifetime::Owned => spawn_from_lasting_thread(command),
        };
        let child = child.with_context(|| format!("failed to start {}", spec.program.display()))?;
        let pid = i32::try_from(child.id()).context("a pid out of range")?;
        // Collect the exit status when it comes, so that the dead do not stay in the process table.
        thread::spawn(move || {
            let mut child = child;
            child.wait()
        });
        let started = start_time(pid).unwrap_or(0);
        let process = Process { pid, started };
        let record = record_path(dir, &spec.name);
        fs::write(&record, serde_json::to_vec(&process)?)
            .with_context(|| format!("failed to write {}", record.display()))?;
        Ok(process)
    }

    /// The recorded program of that name, if one was ever started and not yet stopped.
    pub fn recorded(dir: &Path, name: &str) -> Option<Process> {
        serde_json::from_slice(&fs::read(record_path(dir, name)).ok()?).ok()
    }

    /// The names of all recorded programs.
    pub fn recorded_names(dir: &Path) -> Vec<String> {
        let Ok(entries) = fs::read_dir(dir.join("pids")) else {
            return Vec::new();
        };
        let names = entries
            .flatten()
            .filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<String> = names.collect();
        names.sort();
        names
    }

    /// The process id.
    pub fn pid(&self) -> i32 {
        self.pid
    }

    /// Whether it still runs.
    pub fn alive(&self) -> bool {
        start_time(self.pid) == Some(self.started)
    }

    /// Sends a signal if it still runs.
    pub fn signal(&self, signal: Signal) {
        if let (true, Some(pid)) = (self.alive(), Pid::from_raw(self.pid)) {
            // It may have ended since we looked; then there is nothing left to do.
            let _ = kill_process(pid, signal);
        }
    }

    /// Asks it to end, and ends it by force after `grace`.
    pub fn stop(&self, grace: Duration) -> Result<()> {
        self.signal(Signal::TERM);
        if self.wait(grace) {
            return Ok(());
        }
        self.kill()
    }

    /// Ends it at once.
    pub fn kill(&self) -> Result<()> {
        self.signal(Signal::KILL);
        if self.wait(Duration::from_secs(10)) {
            return Ok(());
        }
        Err(anyhow!("process {} does not end, even by force", self.pid))
    }

    fn wait(&self, limit: Duration) -> bool {
        let begin = Instant::now();
        while self.alive() {
            if begin.elapsed() > limit {
                return false;
            }
            thread::sleep(Duration::from_millis(20));
        }
        true
    }
}

/// Stops the recorded program of that name, if it runs, and forgets it.
pub fn stop_recorded(dir: &Path, name: &str, grace: Duration) -> Result<()> {
    if let Some(process) = Process::recorded(dir, name) {
        process
            .stop(grace)
            .with_context(|| format!("failed to stop {name}"))?;
    }
    forget(dir, name)
}

/// Removes the record of a program that has ended.
pub fn forget(dir: &Path, name: &str) -> Result<()> {
    let record = record_path(dir, name);
    match fs::remove_file(&record) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("failed to remove {}", record.display()))
        }
        _ => Ok(()),
    }
}

/// The end of a program's log, to explain why it failed.
pub fn log_tail(dir: &Path, name: &str) -> String {
    let text = fs::read_to_string(log_path(dir, name)).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(15)..].join("\n")
}

fn prepare(dir: &Path, spec: &Spec, lifetime: Lifetime) -> Result<Command> {
    fs::create_dir_all(dir.join("logs"))?;
    fs::create_dir_all(dir.join("pids"))?;
    let path = log_path(dir, &spec.name);
    let log = File::options()
        .create(true)
        .append(true)
        .open(&path)
        .with_context(|| format!("failed to open {}", path.display()))?;
    let mut words: Vec<String> = Vec::new();
    if lifetime == Lifetime::Owned {
        words.extend(["setpriv", "--pdeathsig", "KILL"].map(str::to_owned));
    }
    words.extend(enter_words(
        spec.namespace.as_deref(),
        spec.mounts.as_deref(),
    ));
    words.push(spec.program.to_string_lossy().into_owned());
    words.extend(spec.arguments.iter().cloned());
    // All of these replace themselves by the next one, so the pid is the program's own.
    let mut command = Command::new(&words[0]);
    command
        .args(&words[1..])
        .current_dir(dir)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(log.try_clone().context("failed to share the log file")?)
        .stderr(log);
    Ok(command)
}

/// The words that make a command run inside namespaces.
///
/// Not `ip netns exec`: it mounts another /sys, which hides the cgroups from the kubelet.
pub fn enter_words(network: Option<&str>, mounts: Option<&Path>) -> Vec<String> {
    let network = network.map(|name| format!("--net=/run/netns/{name}"));
    let mounts = mounts.map(|path| format!("--mount={}", path.display()));
    let namespaces: Vec<String> = network.into_iter().chain(mounts).collect();
    if namespaces.is_empty() {
        return namespaces;
    }
    std::iter::once("nsenter".to_owned())
        .chain(namespaces)
        .collect()
}

fn spawn(mut command: Command) -> std::io::Result<Child> {
    command.spawn()
}

/// Starts the command from a thread that lives as long as this process.
///
/// The kernel sends the parent-death signal when the *thread* that started a child ends; the
/// threads of tests and of async runtimes come and go.
fn spawn_from_lasting_thread(command: Command) -> std::io::Result<Child> {
    type Job = (Command, Sender<std::io::Result<Child>>);
    static STARTER: OnceLock<Sender<Job>> = OnceLock::new();
    let starter = STARTER.get_or_init(|| {
        let (sender, jobs) = channel::<Job>();
        thread::spawn(move || {
            for (command, reply) in jobs {
                // Whoever asked may be gone; then the child is of no use and is dropped.
                let _ = reply.send(spawn(command));
            }
        });
        sender
    });
    let gone = || std::io::Error::other("the thread that starts programs has ended");
    let (reply, answer) = channel();
    starter.send((command, reply)).map_err(|_| gone())?;
    answer.recv().map_err(|_| gone())?
}

/// The start time of a running process in clock ticks since boot; none for the dead and zombies.
pub(crate) fn start_time(pid: i32) -> Option<u64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name in parentheses may itself contain anything: fields are counted after it.
    let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_whitespace().collect();
    if matches!(*fields.first()?, "Z" | "X") {
        return None;
    }
    fields.get(19)?.parse().ok()
}

fn record_path(dir: &Path, name: &str) -> PathBuf {
    dir.join("pids").join(name)
}

fn log_path(dir: &Path, name: &str) -> PathBuf {
    dir.join("logs").join(format!("{name}.log"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir().join(format!("testbed-{name}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        dir
    }

    fn sleeper() -> Spec {
        Spec {
            name: "sleeper".to_owned(),
            program: PathBuf::from("sleep"),
            arguments: vec!["60".to_owned()],
            namespace: None,
            mounts: None,
        }
    }

    #[test]
    fn a_started_program_is_found_by_its_record_and_stopped_by_its_pid() {
        let dir = scratch("stop");
        Process::start(&dir, &sleeper(), Lifetime::Owned).unwrap();
        let process = Process::recorded(&dir, "sleeper").unwrap();
        assert!(process.alive());
        stop_recorded(&dir, "sleeper", Duration::from_secs(5)).unwrap();
        assert!(!process.alive());
        assert!(Process::recorded(&dir, "sleeper").is_none());
        fs::remove_dir_all(dir).unwrap();
    }

    #[test]
    fn a_record_whose_pid_belongs_to_somebody_else_counts_as_ended() {
        let own = i32::try_from(std::process::id()).unwrap();
        let stale = Process {
            pid: own,
            started: 1,
        };
        assert!(!stale.alive());
        stale.signal(Signal::KILL);
    }
}
