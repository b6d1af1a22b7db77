//! The table of probes, asked of simkube.

use simkube::{Cluster, probes};

#[test]
fn simkube_answers_every_probe_as_kubernetes_does() {
    let mut failed = Vec::new();
    for probe in probes::all() {
        let report = probe.run(&mut Cluster::new(1));
        for failure in report.failures {
            failed.push(format!("{} ({}): {failure}", probe.id, probe.says));
        }
    }
    assert!(
        failed.is_empty(),
        "{} failures:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn probes_can_share_a_server_and_give_the_same_answers_in_any_order() {
    let alone = |probe: &probes::Probe| probe.run(&mut Cluster::new(1)).transcript;
    let mut shared = Cluster::new(7);
    for probe in probes::all().iter().rev() {
        let report = probe.run(&mut shared);
        assert_eq!(report.transcript, alone(probe), "{}", probe.id);
    }
}

#[test]
fn no_two_probes_have_the_same_number() {
    let mut ids: Vec<&str> = probes::all().iter().map(|p| p.id).collect();
    ids.sort_unstable();
    let count = ids.len();
    ids.dedup();
    assert_eq!(ids.len(), count);
}
