//! Helper pods that pull images ahead, and how far they are.

use crate::evidence;
use crate::view::{ContainerState, ContainerView, Phase, PodView};
use ensemble_api::Reason;

/// How far a helper is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pull {
    /// It pulls, or has not begun.
    Pulling,
    /// All images are on its node.
    Pulled,
    /// An image cannot be pulled, for that cause.
    Failed(String),
    /// Its kubelet did not take it, for that cause: the node is full, say.
    Rejected(String),
}

impl Pull {
    /// How far a helper is, by its kubelet.
    pub fn of(pod: &PodView) -> Self {
        if let Some(trouble) =
            evidence::containers(pod).filter(|t| t.reason == Reason::ImagePullFailing)
        {
            return Self::Failed(trouble.message);
        }
        let tried = |c: &ContainerView| match &c.state {
            ContainerState::Waiting { reason, .. } => !matches!(
                reason.as_str(),
                "" | "ContainerCreating" | "PodInitializing"
            ),
            _ => true,
        };
        let done = !pod.containers.is_empty() && pod.containers.iter().all(tried);
        match (done, pod.phase) {
            (true, _) => Self::Pulled,
            (false, Phase::Ended) => Self::Rejected(pod.ended.clone()),
            (false, _) => Self::Pulling,
        }
    }
}
