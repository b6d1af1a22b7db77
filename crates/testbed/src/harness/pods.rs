//! Reading the status of pods.

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

/// Whether a condition of the pod is true.
pub fn has_condition(pod: &Pod, kind: &str) -> bool {
    let conditions = pod
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    conditions
        .into_iter()
        .any(|one| one.type_ == kind && one.status == "True")
}

/// Whether the pod is ready and not being deleted.
pub fn is_ready(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_none() && has_condition(pod, "Ready")
}

/// The status of the pod's only, or first, container.
pub fn container_status(pod: &Pod) -> Option<&ContainerStatus> {
    pod.status.as_ref()?.container_statuses.as_ref()?.first()
}
