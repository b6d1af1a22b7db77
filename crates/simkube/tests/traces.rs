//! simkube's kubelet against what real ones said: traces/*.txt, recorded by `make traces`.

#![allow(clippy::unwrap_used)]

mod common;

use common::NS;
use serde_json::{Value, json};
use simkube::config::{Behaviour, Run};
use simkube::trace::{Conduct, Image, Situation, Step, Trace, situations};
use simkube::{Change, Cluster, Request, Resource};
use std::path::Path;

const NODE: &str = "n1";
const LIMIT_MS: u64 = 1_000_000;

/// What a process in a real container does, as a simulated image.
fn behaviour(conduct: Conduct) -> Behaviour {
    match conduct {
        Conduct::Serves => Behaviour::default(),
        Conduct::Deaf => Behaviour {
            stop_after_ms: None,
            ..Behaviour::default()
        },
        Conduct::Crashes => Behaviour {
            run: Run::Exit {
                after_ms: 1000,
                code: 3,
            },
            ..Behaviour::default()
        },
    }
}

fn image(image: Image) -> String {
    format!("toolbox:{}", image.tag())
}

fn play(situation: &Situation) -> Vec<String> {
    let mut cluster = common::cluster();
    for tag in [Image::One, Image::Two] {
        let images = &mut cluster.config_mut().images;
        images.set(&image(tag), behaviour(situation.conduct));
    }
    let missing = Behaviour::missing();
    cluster
        .config_mut()
        .images
        .set(&image(Image::Missing), missing);
    let from = cluster.log().len();
    let mut pod = situation.pod();
    pod["spec"]["nodeSelector"] = json!({"kubernetes.io/hostname": NODE});
    pod["spec"]["containers"][0]["image"] = image(Image::One).into();
    cluster.create(Resource::Pods, NS, pod).unwrap();
    for step in situation.steps {
        take(&mut cluster, situation, step);
    }
    cluster.advance_ms(3000);
    let mut trace = Trace::default();
    for entry in &cluster.log()[from..] {
        match entry.change {
            _ if entry.resource != Resource::Pods => {}
            Change::Deleted => trace.gone(entry.at),
            Change::Added | Change::Modified => trace.see(entry.at, &entry.object),
        }
    }
    trace.states().to_vec()
}

fn take(cluster: &mut Cluster, situation: &Situation, step: &Step) {
    let name = situation.name;
    let patch = |cluster: &mut Cluster, body: Value| {
        common::patch_pod(cluster, name, body);
    };
    match step {
        Step::Set(wanted) => {
            let mut containers = common::get_pod(cluster, name)["spec"]["containers"].clone();
            containers[0]["image"] = image(*wanted).into();
            patch(cluster, json!({"spec": {"containers": containers}}));
        }
        Step::Delete => {
            cluster
                .call(&Request::delete(Resource::Pods, NS, name))
                .unwrap();
        }
        Step::Free => patch(cluster, json!({"metadata": {"finalizers": null}})),
        Step::CutOff => cluster.partition_node(NODE),
        Step::Connect => cluster.heal_node(NODE),
        Step::Until(what, holds) => {
            let seen = cluster.advance_until(LIMIT_MS, |c| {
                c.get(Resource::Pods, NS, name).is_some_and(|p| holds(&p))
            });
            assert!(seen, "{name}: {what}");
        }
        Step::UntilGone => {
            let gone =
                cluster.advance_until(LIMIT_MS, |c| c.get(Resource::Pods, NS, name).is_none());
            assert!(gone, "{name} is gone");
        }
    }
}

fn recorded(situation: &Situation) -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces");
    let path = dir.join(format!("{}.txt", situation.name));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines.map(str::to_owned).collect()
}

/// The states that only one of the two has: `-` simkube lacks, `+` only simkube has.
fn differences(real: &[String], ours: &[String]) -> Vec<String> {
    // Longest common subsequence, from the end.
    let mut common = vec![vec![0; ours.len() + 1]; real.len() + 1];
    for i in (0..real.len()).rev() {
        for j in (0..ours.len()).rev() {
            common[i][j] = match real[i] == ours[j] {
                true => common[i + 1][j + 1] + 1,
                false => common[i + 1][j].max(common[i][j + 1]),
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut found = Vec::new();
    while i < real.len() || j < ours.len() {
        if i < real.len() && j < ours.len() && real[i] == ours[j] {
            (i, j) = (i + 1, j + 1);
        } else if j == ours.len() || i < real.len() && common[i + 1][j] >= common[i][j + 1] {
            found.push(format!("- {}", real[i]));
            i += 1;
        } else {
            found.push(format!("+ {}", ours[j]));
            j += 1;
        }
    }
    found
}

/// Differences that stay, each with its reason; docs/rehearsal.md says the same.
fn known(situation: &str) -> &'static [&'static str] {
    match situation {
        // A kubelet says why the last attempt failed. Between two attempts to pull there is, behind the
        // scenes, one that a crash back-off refuses; it shows when something else changes just then.
        "missing-image" => &[
            "- Running 3/3 | !ContainersReady:ContainersNotReady !Ready:ContainersNotReady \
             Initialized PodReadyToStartContainers PodScheduled | \
             main:1 CrashLoopBackOff restarts=0 before=(Completed 0)",
            "+ Running 3/3 | !ContainersReady:ContainersNotReady !Ready:ContainersNotReady \
             Initialized PodReadyToStartContainers PodScheduled | \
             main:1 ImagePullBackOff restarts=0 before=(Completed 0)",
        ],
        // A busy kubelet leaves out what has passed before it comes to write; other traces have it.
        "partition" => &[
            "+ Pending 1/1 | !ContainersReady:ContainersNotReady !PodReadyToStartContainers \
             !Ready:ContainersNotReady Initialized PodScheduled | \
             main:1 ContainerCreating restarts=0",
        ],
        // A kubelet that is back may say that the pod is ready before it hears that it is deleted.
        "partition-eviction" => &["- Running 1/2 | deleting 30 | ContainersReady \
             DisruptionTarget:DeletionByTaintManager Initialized PodReadyToStartContainers \
             PodScheduled Ready | main:1 running started ready restarts=0"],
        _ => &[],
    }
}

#[test]
fn pods_of_simkube_go_through_the_states_that_real_kubelets_showed() {
    let mut found = Vec::new();
    for situation in situations() {
        let differences = differences(&recorded(&situation), &play(&situation));
        if differences != known(situation.name) {
            found.push(format!("{}:\n{}", situation.name, differences.join("\n")));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n\n"));
}
