//! simkube against the real thing: the same questions, the same answers.

use anyhow::Result;
use ensemble_apitests::real::{self, Real};
use simkube::{Cluster, fidelity, probes};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

/// How many calls a random sequence has.
const STEPS: usize = 200;
/// How many calls are made if nothing else is said (`make fidelity OPS=100000`).
const CALLS: usize = 3000;
/// How many sequences run at once, each in a namespace of its own: at its end a sequence waits for
/// watches to end, which leaves time for the others.
const AT_ONCE: usize = 8;

#[tokio::test(flavor = "multi_thread")]
async fn a_real_api_server_answers_every_probe_as_simkube_does() -> Result<()> {
    let differences = real::ask(|real| {
        let mut differences = Vec::new();
        for probe in probes::all() {
            if probe.is_about_simkube() {
                continue;
            }
            let theirs = probe.run(real);
            let ours = probe.run(&mut Cluster::new(1));
            for failure in &theirs.failures {
                differences.push(format!("{}: {failure}", probe.id));
            }
            for (a, b) in ours.transcript.iter().zip(&theirs.transcript) {
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
            let found = fidelity::compare(&mut Cluster::new(1), &mut real, seed, STEPS);
            let calls = self.calls.fetch_add(real.calls - before, Relaxed) + real.calls - before;
            if let Err(found) = found {
                let text: String = found.to_string().chars().take(3000).collect();
                println!("seed {seed}: {text}");
                let mut all = self.divergences.lock().unwrap();
                all.push(format!("seed {seed}: {text}"));
            }
            if seed % 20 == 0 {
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
