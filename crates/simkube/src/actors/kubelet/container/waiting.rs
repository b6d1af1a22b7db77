//! What a kubelet says of a container that waits.

use super::{ContainerSim, State};

impl ContainerSim {
    /// Why it waits, if it does.
    pub fn waiting(&self, initializing: bool) -> Option<(&'static str, String)> {
        let image = &self.image;
        Some(match &self.state {
            State::New | State::Pulling(_) if initializing => ("PodInitializing", String::new()),
            State::New | State::Pulling(_) => ("ContainerCreating", String::new()),
            State::PullFailed {
                shown_until,
                retry_at,
            } if shown_until < retry_at => (
                "ErrImagePull",
                format!("failed to pull and unpack image \"{image}\": not found"),
            ),
            State::PullFailed { .. } => (
                "ImagePullBackOff",
                format!("Back-off pulling image \"{image}\""),
            ),
            State::Backoff(_) => {
                let seconds = (self.crash_backoff_ms / 2000).max(10);
                let name = &self.name;
                (
                    "CrashLoopBackOff",
                    format!("back-off {seconds}s restarting failed container={name}"),
                )
            }
            State::Running(_) | State::Exited { .. } | State::Ended(_) => return None,
        })
    }
}
