//! What is wrong with a pod, in the kubelet's and the scheduler's words.

use crate::cast::Cast;
use crate::presence::Presence;
use crate::roster::MemberId;
use crate::snapshot::Snapshot;
use crate::view::{ContainerState, ContainerView, PodView};
use crate::zones;
use ensemble_api::Reason;

/// What keeps a member from serving.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// As one of the known reasons.
    pub reason: Reason,
    /// In words, with names.
    pub message: String,
    /// The node that does not answer, if that is what is wrong.
    pub silent_node: Option<String>,
}

impl Trouble {
    /// What has to happen, with the commands for this node; None if the reason's page says it all.
    pub fn choices(&self) -> Option<String> {
        let node = self.silent_node.as_ref()?;
        Some(format!(
            "Node {node} answers again, then this passes by itself. Only if you know that {node} is powered off: \
             `kubectl taint node {node} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`. If it \
             never comes back: `kubectl delete node {node}`."
        ))
    }

    /// What to type first, for this node; None if it is not about a node.
    pub fn next_command(&self) -> Option<String> {
        let node = self.silent_node.as_ref()?;
        Some(format!("kubectl describe node {node}"))
    }
}

fn trouble(reason: Reason, message: String) -> Option<Trouble> {
    Some(Trouble {
        reason,
        message,
        silent_node: None,
    })
}

/// The same, because a node does not answer.
fn silent(reason: Reason, message: String, node: &str) -> Option<Trouble> {
    Some(Trouble {
        reason,
        message,
        silent_node: Some(node.to_owned()),
    })
}

/// What keeps a member from serving; None if it serves, or is absent.
pub fn of(snap: &Cast<'_>, who: MemberId) -> Option<Trouble> {
    let pod = snap.our_pod(who)?;
    let name = &pod.meta.pin.name;
    match snap.presence(who) {
        Presence::Absent | Presence::Serving => None,
        Presence::Leaving => leaving(snap, pod),
        Presence::Unreachable => silent(
            Reason::NodeUnreachable,
            format!(
                "{name} is on node {}, which is not Ready or not known{}",
                pod.node,
                in_zone(snap, who)
            ),
            &pod.node,
        ),
        _ if !pod.ended.is_empty() => trouble(
            Reason::Terminating,
            format!("{name} has ended ({})", pod.ended),
        ),
        _ => containers(pod).or_else(|| waiting(snap, pod, who)),
    }
}

/// What is wrong with the zone of a member, if it is the whole zone.
fn in_zone(cast: &Cast<'_>, who: MemberId) -> String {
    let zone = cast.placement().zone(who);
    let wrong = zone.and_then(|zone| zones::trouble(cast, zone));
    wrong.map_or(String::new(), |wrong| format!("; {wrong}"))
}

fn leaving(snap: &Snapshot, pod: &PodView) -> Option<Trouble> {
    let name = &pod.meta.pin.name;
    let since = snap.memory.pod(&pod.meta.pin.uid).leaving_since;
    let since = since.unwrap_or(snap.now);
    let stuck = since.plus_seconds(pod.grace_seconds + STUCK_AFTER_GRACE_SECONDS) <= snap.now;
    if node_is_silent(snap, pod) {
        let message = format!(
            "{name} was told to end, and its node {} does not answer: only its kubelet can say whether \
             it still runs, so it is not replaced",
            pod.node
        );
        let reason = match stuck {
            true => Reason::StuckTerminating,
            false => Reason::NodeUnreachable,
        };
        return silent(reason, message, &pod.node);
    }
    if stuck {
        let on = if pod.node.is_empty() {
            "no node".into()
        } else {
            format!("node {}", pod.node)
        };
        return trouble(
            Reason::StuckTerminating,
            format!("{name} on {on} was told to end and has not, long after its grace period"),
        );
    }
    trouble(Reason::Terminating, format!("{name} is ending"))
}

/// Whether the node of a pod is known not to answer. One that somebody has declared off needs nobody any more.
fn node_is_silent(snap: &Snapshot, pod: &PodView) -> bool {
    let node = snap.nodes.as_ref().and_then(|nodes| nodes.get(&pod.node));
    node.is_some_and(|node| !node.ready && !node.out_of_service)
}

/// How long after its grace period a pod counts as stuck.
pub const STUCK_AFTER_GRACE_SECONDS: u32 = 30;

fn waiting(snap: &Cast<'_>, pod: &PodView, who: MemberId) -> Option<Trouble> {
    let name = &pod.meta.pin.name;
    if let Some(why) = pod
        .unschedulable
        .as_ref()
        .filter(|w| w.contains("unbound immediate"))
    {
        return trouble(
            Reason::ClaimPending,
            format!("{name} waits for its volumes: {why}"),
        );
    }
    if let Some(why) = &pod.unschedulable {
        let zone = in_zone(snap, who);
        return trouble(
            Reason::Unschedulable,
            format!("{name} fits no node: {why}{zone}"),
        );
    }
    if pod.anything_runs() && snap.memory.pod(&pod.meta.pin.uid).once_ready {
        return trouble(Reason::NotReady, format!("{name} runs and is not Ready"));
    }
    trouble(Reason::Starting, format!("{name} is starting"))
}

/// The first container that is in trouble.
pub fn containers(pod: &PodView) -> Option<Trouble> {
    pod.containers.iter().find_map(|c| {
        let name = &pod.meta.pin.name;
        let (reason, message) = match &c.state {
            ContainerState::Waiting { reason, message } => (reason, message),
            ContainerState::Ended { reason, exit_code } if ends_again(c) => {
                return crash_loop(name, c, Some((reason, *exit_code)));
            }
            _ => return None,
        };
        match reason.as_str() {
            "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
                trouble(
                    Reason::ImagePullFailing,
                    format!(
                        "{name} cannot pull {} on {}: {}",
                        c.image,
                        pod.node,
                        first_line(message)
                    ),
                )
            }
            "CrashLoopBackOff" => {
                let end = c.last_exit.as_ref().map(|(why, code)| (why, *code));
                crash_loop(name, c, end)
            }
            "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => trouble(
                Reason::ContainerFailing,
                format!(
                    "{name}: container {} cannot start: {}",
                    c.name,
                    first_line(message)
                ),
            ),
            _ => None,
        }
    })
}

/// Between two runs a kubelet shows how the last one ended, and only at the end of that time, for a
/// moment, that it waited. A container that ended once is started again at once.
fn ends_again(container: &ContainerView) -> bool {
    let ended =
        matches!(container.state, ContainerState::Ended { exit_code, .. } if exit_code != 0);
    container.restarts > 0 && (ended || !container.init)
}

fn crash_loop(
    name: &str,
    container: &ContainerView,
    end: Option<(&String, i64)>,
) -> Option<Trouble> {
    let end = end.map_or(String::new(), |(why, code)| {
        format!(" ({why}, exit code {code})")
    });
    let runs = container.restarts + 1;
    trouble(
        Reason::CrashLooping,
        format!(
            "{name}: container {} ended {runs} times{end}",
            container.name
        ),
    )
}

fn first_line(message: &str) -> &str {
    message.lines().next().unwrap_or("no cause given")
}
