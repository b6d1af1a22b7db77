//! What we know of a member's pod. Down is proven, never guessed.

use crate::snapshot::Snapshot;
use crate::view::{ContainerState, ContainerView, Phase, PodView};
use ensemble_api::Rule;

/// The pod garbage collector of Kubernetes waits as long before it believes it.
pub const NODE_GONE_AFTER_SECONDS: u32 = 40;

/// What is known of a member's pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// There is none.
    Absent,
    /// It exists, and nothing of it runs.
    Down(ProofOfDown),
    /// It runs and was not Ready yet.
    Starting,
    /// It is Ready.
    Serving,
    /// It runs, or may run, and is not Ready.
    Unhealthy,
    /// It was told to end and has not ended.
    Leaving,
    /// Its node does not answer.
    Unreachable,
}

/// How we know that nothing of a pod runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProofOfDown {
    /// No node has taken it.
    Unscheduled,
    /// It has ended for good.
    Ended,
    /// Its kubelet, which is alive and has seen its newest spec, reports no running container.
    NothingRuns,
    /// Its node was deleted.
    NodeGone,
    /// Somebody who knows has said that its node is off.
    NodeOutOfService,
}

impl Presence {
    /// The word for it.
    pub fn word(&self) -> &'static str {
        match self {
            Presence::Absent => "Absent",
            Presence::Down(_) => "Down",
            Presence::Starting => "Starting",
            Presence::Serving => "Serving",
            Presence::Unhealthy => "Unhealthy",
            Presence::Leaving => "Leaving",
            Presence::Unreachable => "Unreachable",
        }
    }

    /// Whether it is proven that nothing of it runs.
    pub fn is_down(&self) -> bool {
        matches!(self, Presence::Down(_))
            || crate::mutants::is_off(Rule::UnhealthyIsNotDown) && *self == Presence::Unhealthy
    }
}

/// What is known of a pod that is ours.
pub fn of_pod(snap: &Snapshot, pod: &PodView) -> Presence {
    if pod.meta.deleting && !crate::mutants::is_off(Rule::WaitForTerminating) {
        return Presence::Leaving;
    }
    if let Some(proof) = proof_of_down(snap, pod) {
        return Presence::Down(proof);
    }
    match (node_answers(snap, &pod.node), pod.ready) {
        (false, _) => Presence::Unreachable,
        (true, true) => Presence::Serving,
        (true, false) if first_run(snap, pod) => Presence::Starting,
        (true, false) => Presence::Unhealthy,
    }
}

/// Whether a node's kubelet reports. Without nodes to look at, nothing says otherwise.
pub(crate) fn node_answers(snap: &Snapshot, node: &str) -> bool {
    let nodes = snap.nodes.as_ref();
    nodes.is_none_or(|nodes| nodes.get(node).is_some_and(|n| n.ready))
}

/// A pod in its first run is on its way rather than unwell; both cost the same, only the words
/// differ.
fn first_run(snap: &Snapshot, pod: &PodView) -> bool {
    let restarted = pod.containers.iter().any(|c| c.restarts > 0);
    !restarted && !snap.memory.pod(&pod.meta.pin.uid).once_ready
}

fn proof_of_down(snap: &Snapshot, pod: &PodView) -> Option<ProofOfDown> {
    if pod.phase == Phase::Ended {
        return Some(ProofOfDown::Ended);
    }
    if pod.node.is_empty() {
        return Some(ProofOfDown::Unscheduled);
    }
    // Without nodes to look at, no kubelet can be known to be alive.
    let Some(nodes) = &snap.nodes else {
        let believed = crate::mutants::is_off(Rule::NodesKnown) && nothing_runs(pod);
        return believed.then_some(ProofOfDown::NothingRuns);
    };
    let Some(node) = nodes.get(&pod.node) else {
        return node_gone(snap, &pod.node);
    };
    if node.out_of_service {
        return Some(ProofOfDown::NodeOutOfService);
    }
    let heard = node.ready && pod.reported && pod.observed_generation >= pod.meta.generation;
    (heard && nothing_runs(pod)).then_some(ProofOfDown::NothingRuns)
}

fn nothing_runs(pod: &PodView) -> bool {
    !pod.containers.is_empty() && !pod.anything_runs() && !about_to_run(pod)
}

/// A node that is missing from our view may only be newer than it. After a while it is gone.
fn node_gone(snap: &Snapshot, node: &str) -> Option<ProofOfDown> {
    if crate::mutants::is_off(Rule::NodeGoneAfterAWhile) {
        return Some(ProofOfDown::NodeGone);
    }
    let since = snap.memory.node_missing_since.get(node)?;
    (since.plus_seconds(NODE_GONE_AFTER_SECONDS) <= snap.now).then_some(ProofOfDown::NodeGone)
}

/// What may run before our next write arrives proves nothing: a container that is being created, and one
/// that has ended and is started again at once, before its kubelet backs off.
fn about_to_run(pod: &PodView) -> bool {
    let ends_once = !crate::mutants::is_off(Rule::EndedOnceIsNotDown);
    let mut containers = pod.containers.iter();
    if ends_once && containers.any(is_restarted_at_once) {
        return true;
    }
    pod.containers.iter().all(|c| match &c.state {
        ContainerState::Waiting { reason, .. } => {
            matches!(
                reason.as_str(),
                "" | "ContainerCreating" | "PodInitializing"
            )
        }
        ContainerState::Running => true,
        ContainerState::Ended { exit_code, .. } => *exit_code == 0,
    })
}

/// It ended for the first time. What runs before the others, and to an end, may be through.
fn is_restarted_at_once(container: &ContainerView) -> bool {
    match container.state {
        ContainerState::Ended { exit_code, .. } => {
            let through = container.init && exit_code == 0;
            container.restarts == 0 && !through
        }
        _ => false,
    }
}
