//! Fingerprints of every scenario's traces, calm and under every single fault at every call: what a
//! change that is to change no behaviour is compared by. `make fingerprints` is the short way.

use ensemble_rehearsal::Scenario;
use ensemble_rehearsal::fingerprint::sheet::{self, Difference, Sample, Schedule, Sheet};
use ensemble_rehearsal::scenario;
use std::io::Write;
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// A rehearsal makes and drops small objects most of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const USAGE: &str = "\
usage: fingerprints [OPTIONS] [SCENARIO...]

Plays every scenario, or those whose names begin with one of the words given, calm and with every
single fault at every call, and prints a line for each: the scenario, the fault, the fingerprint of
what was done, and that of what the Ensemble's status said.

  --sample PART/PARTS  play that part alone, and the calm days; --sample calm: those alone
  --against FILE       compare with an earlier output; exit 1 if something else was done
  --status             exit 1 also if only the status said something else
  --out FILE           write the lines there
  --threads N          use so many cores; all of them unless told
  --exact              the words are whole names
  --trace SCHEDULE     print what the fingerprint of one schedule is made of, line by line, to be
                       compared with that of another build: create, or create:CrashAfter@12";

/// How many schedules that differ are shown.
const SHOWN: usize = 20;

#[derive(Default)]
struct Args {
    sample: Option<Sample>,
    against: Option<String>,
    status: bool,
    out: Option<String>,
    threads: Option<usize>,
    exact: bool,
    trace: Option<String>,
    names: Vec<String>,
}

fn args(mut words: impl Iterator<Item = String>) -> Result<Args, String> {
    let mut args = Args::default();
    while let Some(word) = words.next() {
        let mut value = || words.next().ok_or(format!("{word} needs a value\n{USAGE}"));
        match word.as_str() {
            "--sample" => {
                let text = value()?;
                let calm = Sample { part: 0, parts: 0 };
                args.sample = Some(if text == "calm" { calm } else { text.parse()? });
            }
            "--against" => args.against = Some(value()?),
            "--status" => args.status = true,
            "--out" => args.out = Some(value()?),
            "--threads" => {
                let number = value()?.parse();
                args.threads = Some(number.map_err(|e| format!("--threads: {e}"))?);
            }
            "--exact" => args.exact = true,
            "--trace" => args.trace = Some(value()?),
            option if option.starts_with('-') => return Err(USAGE.into()),
            _ => args.names.push(word),
        }
    }
    Ok(args)
}

impl Args {
    fn names(&self, scenario: &str) -> bool {
        let is = |name: &String| match self.exact {
            true => scenario == name,
            false => scenario.starts_with(name),
        };
        self.names.is_empty() || self.names.iter().any(is)
    }

    fn threads(&self) -> usize {
        let all = || std::thread::available_parallelism().map_or(1, usize::from);
        self.threads.unwrap_or_else(all).max(1)
    }
}

fn main() -> ExitCode {
    let done = args(std::env::args().skip(1)).and_then(|args| match &args.trace {
        Some(schedule) => trace(schedule),
        None => fingerprints(&args),
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("{message}");
            ExitCode::from(2)
        }
    }
}

/// A reader that has gone away (`| head`) is no error.
fn print(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

fn trace(schedule: &str) -> Result<bool, String> {
    let (name, fault) = schedule.split_once(':').unwrap_or((schedule, "calm"));
    let scenario = scenario::find(name).ok_or(format!("there is no scenario {name:?}"))?;
    let schedule = Schedule {
        scenario: name.into(),
        fault: fault.into(),
    };
    let lines = sheet::lines(scenario, &schedule.faults()?);
    print(&(lines.join("\n") + "\n"));
    Ok(true)
}

fn fingerprints(args: &Args) -> Result<bool, String> {
    let sample = args.sample.unwrap_or(Sample::ALL);
    let named = |s: &&Scenario| args.names(s.name);
    let chosen: Vec<Scenario> = scenario::ALL.iter().filter(named).copied().collect();
    if chosen.is_empty() {
        return Err(format!("no scenario begins with {:?}", args.names));
    }
    // Read first: a file that is not there is said before all is played.
    let read = |file: &String| {
        let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
        sheet::read(&text).map_err(|e| format!("{file}: {e}"))
    };
    let earlier = args.against.as_ref().map(read).transpose()?;
    let now = on_all_cores(&chosen, sample, args.threads());
    match &args.out {
        Some(file) => {
            std::fs::write(file, sheet::write(&now)).map_err(|e| format!("{file}: {e}"))?;
        }
        None if earlier.is_none() => print(&sheet::write(&now)),
        None => {}
    }
    let Some(earlier) = earlier else {
        return Ok(true);
    };
    let played = |s: &Schedule| args.names(&s.scenario) && sample.has(s);
    let difference = sheet::compare(&now, &earlier, played);
    tell(&difference, now.len());
    Ok(difference.deeds.is_empty() && (difference.status.is_empty() || !args.status))
}

fn tell(difference: &Difference, schedules: usize) {
    let show = |title: &str, differ: &[Schedule]| {
        println!("{title}: {} of {schedules} schedules", differ.len());
        for schedule in differ.iter().take(SHOWN) {
            println!("  {schedule}");
            let (name, fault) = (&schedule.scenario, &schedule.fault);
            match fault.as_str() {
                "calm" => println!("    fingerprints --trace {name}"),
                _ => {
                    println!("    fingerprints --trace {name}:{fault}");
                    println!("    ensemble explore --scenario {name} --replay {fault}");
                }
            }
        }
    };
    show("something else was done", &difference.deeds);
    show("only the status says something else", &difference.status);
}

/// Each scenario on one core: whoever is free takes the next.
fn on_all_cores(scenarios: &[Scenario], sample: Sample, threads: usize) -> Sheet {
    let began = Instant::now();
    let next = AtomicUsize::new(0);
    let found = Mutex::new(Sheet::new());
    let work = || {
        while let Some(scenario) = scenarios.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut own = Sheet::new();
            sheet::play(scenario, sample, |schedule, numbers| {
                own.insert(schedule, numbers);
            });
            eprintln!(
                "{:>7.1}s  {}: {} schedules",
                began.elapsed().as_secs_f64(),
                scenario.name,
                own.len()
            );
            let mut found = found.lock().unwrap_or_else(PoisonError::into_inner);
            found.append(&mut own);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..threads.min(scenarios.len()) {
            scope.spawn(work);
        }
    });
    found.into_inner().unwrap_or_else(PoisonError::into_inner)
}
