//! simkube against the real thing: the same questions, the same answers.

use anyhow::Result;
use ensemble_apitests::real;
use simkube::{Cluster, fidelity, probes};

/// How many calls a random sequence has.
const STEPS: usize = 200;
/// How many calls are made if nothing else is said (`make fidelity OPS=100000`).
const CALLS: usize = 3000;

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes many minutes: make fidelity"]
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

#[tokio::test(flavor = "multi_thread")]
#[ignore = "takes many minutes: make fidelity"]
async fn random_calls_get_the_same_answers_from_both() -> Result<()> {
    let told = |name: &str| std::env::var(name).ok().and_then(|v| v.parse().ok());
    let wanted: usize = told("ENSEMBLE_FIDELITY_OPS").unwrap_or(CALLS);
    let from: u64 = told("ENSEMBLE_FIDELITY_SEED").map_or(1, |s: usize| s as u64);
    let divergences = real::ask(move |real| {
        let mut divergences = Vec::new();
        let mut seed = from;
        while real.calls < wanted {
            if let Err(found) = fidelity::compare(&mut Cluster::new(1), real, seed, STEPS) {
                let text: String = found.to_string().chars().take(3000).collect();
                divergences.push(format!("seed {seed}: {text}"));
            }
            seed += 1;
        }
        println!("{} calls, seeds {from} to {}", real.calls, seed - 1);
        divergences
    })
    .await?;
    assert!(divergences.is_empty(), "{}", divergences.join("\n"));
    Ok(())
}
