//! What happens to pods, in words that fit real nodes and simulated ones.

use serde_json::{Value, json};

use super::holds;
use crate::value::{int, items, terminating, text_or_empty};

/// What the process in a pod's only container does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Conduct {
    /// Serves soon, and ends with code 0 when it is asked to.
    Serves,
    /// Serves, and does not listen when it is asked to end.
    Deaf,
    /// Ends with code 3 a second after every start.
    Crashes,
}

/// An image of the container.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Image {
    /// The tag 1.
    One,
    /// The tag 2.
    Two,
    /// A tag that does not exist.
    Missing,
}

impl Image {
    /// Its tag.
    #[must_use]
    pub fn tag(self) -> &'static str {
        match self {
            Image::One => "1",
            Image::Two => "2",
            Image::Missing => "none",
        }
    }
}

/// One thing that happens, or that is waited for.
#[derive(Clone, Copy, Debug)]
pub enum Step {
    /// The image is changed.
    Set(Image),
    /// The pod is deleted as its spec says.
    Delete,
    /// All finalizers are taken away.
    Free,
    /// The node is cut off from the control plane.
    CutOff,
    /// The node is connected again.
    Connect,
    /// Until this is seen.
    Until(&'static str, fn(&Value) -> bool),
    /// Until the pod does not exist.
    UntilGone,
}

/// A pod, and what happens to it.
#[derive(Clone, Copy, Debug)]
pub struct Situation {
    /// Its name, and its file's.
    pub name: &'static str,
    /// What is shown, in a sentence.
    pub says: &'static str,
    /// What the process does.
    pub conduct: Conduct,
    /// How long it may take to end.
    pub grace_s: i64,
    /// Whether something holds the object when the kubelet is done with it.
    pub held: bool,
    /// Whether the pod stays on a node that is not heard any more.
    pub stays: bool,
    /// What happens after the pod was created.
    pub steps: &'static [Step],
}

impl Situation {
    /// The pod without image, command and node, which depend on where it is played.
    #[must_use]
    pub fn pod(&self) -> Value {
        let mut pod = json!({
            "apiVersion": "v1", "kind": "Pod", "metadata": {"name": self.name},
            "spec": {
                "terminationGracePeriodSeconds": self.grace_s,
                "containers": [{
                    "name": "main",
                    "readinessProbe": {
                        "exec": {"command": ["test", "-e", "/tmp/ready"]}, "periodSeconds": 1,
                    },
                }],
            },
        });
        if self.held {
            pod["metadata"]["finalizers"] = json!(["example.com/hold"]);
        }
        if self.stays {
            pod["spec"]["tolerations"] = json!([{"operator": "Exists"}]);
        }
        pod
    }

    /// Whether its node is cut off in it.
    #[must_use]
    pub fn needs_a_node_of_its_own(&self) -> bool {
        self.steps.iter().any(|s| matches!(s, Step::CutOff))
    }
}

const READY: Step = Step::Until("it is ready", |pod| holds(pod, "Ready"));
const NOT_READY: Step = Step::Until("it is not ready", |pod| !holds(pod, "Ready"));
const READY_AGAIN: Step = Step::Until("the new image is ready", |pod| {
    int(pod, "status.observedGeneration") == int(pod, "metadata.generation")
        && restarts(pod) > 0
        && holds(pod, "Ready")
});
const BACKS_OFF: Step = Step::Until("the pull waits", |pod| waits(pod) == "ImagePullBackOff");
const THIRD_RESTART: Step = Step::Until("it crashed four times", |pod| {
    restarts(pod) == 3 && waits(pod) == "CrashLoopBackOff"
});
const ENDED: Step = Step::Until("its processes have ended", |pod| {
    matches!(text_or_empty(pod, "status.phase"), "Succeeded" | "Failed")
});
const DELETED: Step = Step::Until("it is marked for deletion", terminating);

fn container(pod: &Value) -> &Value {
    items(pod, "status.containerStatuses")
        .first()
        .unwrap_or(&Value::Null)
}

fn restarts(pod: &Value) -> i64 {
    int(container(pod), "restartCount").unwrap_or(0)
}

fn waits(pod: &Value) -> &str {
    text_or_empty(container(pod), "state.waiting.reason")
}

const CALM: Situation = Situation {
    name: "",
    says: "",
    conduct: Conduct::Serves,
    grace_s: 30,
    held: false,
    stays: false,
    steps: &[],
};

/// All situations.
#[must_use]
pub fn situations() -> Vec<Situation> {
    vec![
        Situation {
            name: "image-change",
            says: "a new image restarts the container in the same pod",
            steps: &[READY, Step::Set(Image::Two), READY_AGAIN],
            ..CALM
        },
        Situation {
            name: "missing-image",
            says: "an image that does not exist stops the container, and another one cures it",
            steps: &[
                READY,
                Step::Set(Image::Missing),
                BACKS_OFF,
                Step::Set(Image::Two),
                READY_AGAIN,
            ],
            ..CALM
        },
        Situation {
            name: "termination",
            says: "a deleted pod ends and is removed",
            steps: &[READY, Step::Delete, Step::UntilGone],
            ..CALM
        },
        Situation {
            name: "termination-held",
            says: "a finalizer keeps a deleted pod after its processes have ended",
            held: true,
            steps: &[READY, Step::Delete, ENDED, Step::Free, Step::UntilGone],
            ..CALM
        },
        Situation {
            name: "termination-deaf",
            says: "a process that does not listen is killed after the grace period",
            conduct: Conduct::Deaf,
            grace_s: 5,
            held: true,
            steps: &[READY, Step::Delete, ENDED, Step::Free, Step::UntilGone],
            ..CALM
        },
        Situation {
            name: "crash-loop",
            says: "a process that ends is started at once, after 10 s, after 20 s",
            conduct: Conduct::Crashes,
            steps: &[THIRD_RESTART],
            ..CALM
        },
        Situation {
            name: "partition",
            says: "a pod on a silent node counts as not ready until its node is back",
            stays: true,
            steps: &[READY, Step::CutOff, NOT_READY, Step::Connect, READY],
            ..CALM
        },
        Situation {
            name: "partition-eviction",
            says: "a pod that was evicted from a silent node ends when the node is back",
            steps: &[READY, Step::CutOff, DELETED, Step::Connect, Step::UntilGone],
            ..CALM
        },
    ]
}
