//! simkube against the real thing: the same questions, the same answers.

use anyhow::Result;
use ensemble_apitests::real::{self, Real};
use serde_json::Value;
use simkube::probes::Api;
use simkube::{
    Cluster, Request, Resource, Response, Status, WatchEvent, WatchOptions, fidelity, probes,
};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many calls a random sequence has.
const STEPS: usize = 200;
/// How many calls are made if nothing else is said (`make fidelity OPS=100000`).
const CALLS: usize = 3000;
/// How many sequences run at once, each in a namespace of its own: at its end a sequence waits for
/// watches to end, which leaves time for the others.
const AT_ONCE: usize = 8;

/// A server that forgets nothing on demand, as no real one does, and that may be without words.
struct Asked<'a> {
    api: &'a mut dyn Api,
    words: bool,
}

/// Refusals of the oldest supported Kubernetes have the same codes, reasons and fields, and other
/// sentences. See docs/rehearsal.md.
fn words_count() -> bool {
    !std::env::var("ENSEMBLE_KUBERNETES").is_ok_and(|v| v == "oldest")
}

impl<'a> Asked<'a> {
    fn new(api: &'a mut dyn Api) -> Self {
        let words = words_count();
        Self { api, words }
    }

    fn without_words(&self, mut status: Status) -> Status {
        if !self.words {
            status.message.clear();
            let causes = status.details.iter_mut().flat_map(|d| &mut d.causes);
            causes.for_each(|cause| cause.message.clear());
        }
        status
    }
}

impl Api for Asked<'_> {
    fn call(&mut self, request: &Request) -> Result<Response, Status> {
        let answer = self.api.call(request);
        answer.map_err(|status| self.without_words(status))
    }
    fn register_crd(&mut self, definition: &Value) -> Result<Resource, Status> {
        self.api.register_crd(definition)
    }
    fn watch(&mut self, r: Resource, o: &WatchOptions) -> Result<Vec<WatchEvent>, Status> {
        self.api.watch(r, o)
    }
    fn compact(&mut self, _: Resource) -> bool {
        false
    }
    fn wait_a_second(&mut self) {
        self.api.wait_a_second();
    }
}

/// Probes with a patch of which the API server undoes all. It counts as a write there, because of
/// managedFields, which simkube does not have: versions say nothing. See docs/rehearsal.md.
const UNDONE: [&str; 2] = ["A31", "A34"];

fn comparable(probe: &str, line: &str) -> String {
    if !UNDONE.contains(&probe) {
        return line.to_owned();
    }
    const VERSION: &str = "\"resourceVersion\":\"R";
    let mut parts = line.split(VERSION);
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |line, part| {
        line + VERSION + part.trim_start_matches(|c: char| c.is_ascii_digit())
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_answers_every_probe_as_simkube_does() -> Result<()> {
    // `ENSEMBLE_PROBE=A34` asks one alone.
    let only = std::env::var("ENSEMBLE_PROBE").ok();
    let differences = real::ask(move |real| {
        let mut differences = Vec::new();
        for probe in probes::all() {
            let left_out = only.as_deref().is_some_and(|id| probe.id != id);
            if probe.is_about_simkube() || left_out {
                continue;
            }
            let theirs = probe.run(&mut Asked::new(real));
            let ours = probe.run(&mut Asked::new(&mut Cluster::new(1)));
            let counts = |failure: &&String| words_count() || !failure.contains(": it says ");
            for failure in theirs.failures.iter().filter(counts) {
                differences.push(format!("{}: {failure}", probe.id));
            }
            let none = String::new();
            for i in 0..ours.transcript.len().max(theirs.transcript.len()) {
                let line = |all: &[String]| comparable(probe.id, all.get(i).unwrap_or(&none));
                let (a, b) = (line(&ours.transcript), line(&theirs.transcript));
                if a != b {
                    differences.push(format!("{}\n  simkube: {a}\n  real:    {b}", probe.id));
                }
            }
        }
        println!("{} calls", real.calls);
        differences
    })
    .await?;
    assert!(differences.is_empty(), "{}", differences.join("\n"));
    Ok(())
}

/// Where sequences begin, how many calls are wanted, and what came of them so far.
struct Tally {
    from: u64,
    wanted: usize,
    begun: AtomicU64,
    calls: AtomicUsize,
    divergences: Mutex<Vec<String>>,
}

impl Tally {
    /// Compares one sequence after the other until enough calls were made.
    fn work(&self, mut real: Real) {
        while self.calls.load(Relaxed) < self.wanted {
            let seed = self.from + self.begun.fetch_add(1, Relaxed);
            let before = real.calls;
            let mut ours = Cluster::new(1);
            let (mut ours, mut theirs) = (Asked::new(&mut ours), Asked::new(&mut real));
            let found = fidelity::compare(&mut ours, &mut theirs, seed, STEPS);
            let calls = self.calls.fetch_add(real.calls - before, Relaxed) + real.calls - before;
            if let Err(found) = found {
                let text: String = found.to_string().chars().take(3000).collect();
                println!("seed {seed}: {text}");
                let mut all = self.divergences.lock().unwrap();
                all.push(format!("seed {seed}: {text}"));
            }
            if seed.is_multiple_of(20) {
                let count = self.divergences.lock().unwrap().len();
                println!("{calls} calls, {count} divergences");
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn random_calls_get_the_same_answers_from_both() -> Result<()> {
    let told = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let tally = Tally {
        from: told("ENSEMBLE_FIDELITY_SEED").map_or(1, |s: usize| s as u64),
        wanted: told("ENSEMBLE_FIDELITY_OPS").unwrap_or(CALLS),
        begun: AtomicU64::new(0),
        calls: AtomicUsize::new(0),
        divergences: Mutex::default(),
    };
    let tally = real::ask(move |real| {
        std::thread::scope(|scope| {
            for _ in 0..AT_ONCE {
                let another = real.another();
                scope.spawn(|| tally.work(another));
            }
        });
        tally
    })
    .await?;
    let calls = tally.calls.into_inner();
    let last = tally.from + tally.begun.into_inner() - 1;
    println!("{calls} calls, seeds {} to {last}", tally.from);
    let divergences = tally.divergences.into_inner().unwrap();
    assert!(divergences.is_empty(), "{}", divergences.join("\n"));
    Ok(())
}
