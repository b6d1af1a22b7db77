//! Which kinds of objects are served, and by which rules.

use std::borrow::Cow;

/// A served resource. Custom ones are numbered in the order in which their
/// definitions were registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Resource {
    /// v1 namespaces
    Namespaces,
    /// v1 nodes
    Nodes,
    /// v1 persistentvolumes
    PersistentVolumes,
    /// storage.k8s.io/v1 storageclasses
    StorageClasses,
    /// v1 pods
    Pods,
    /// v1 persistentvolumeclaims
    PersistentVolumeClaims,
    /// v1 services
    Services,
    /// v1 configmaps
    ConfigMaps,
    /// v1 secrets
    Secrets,
    /// v1 serviceaccounts
    ServiceAccounts,
    /// v1 events; events.k8s.io/v1 is the same store
    Events,
    /// apps/v1 controllerrevisions
    ControllerRevisions,
    /// policy/v1 poddisruptionbudgets
    PodDisruptionBudgets,
    /// batch/v1 jobs
    Jobs,
    /// coordination.k8s.io/v1 leases
    Leases,
    /// discovery.k8s.io/v1 endpointslices
    EndpointSlices,
    /// A resource that a CustomResourceDefinition brought.
    Custom(u16),
}

/// How many resources are built in.
pub(crate) const BUILT_IN: usize = 16;

impl Resource {
    /// All built-in resources.
    pub const BUILT_INS: [Resource; BUILT_IN] = [
        Resource::Namespaces,
        Resource::Nodes,
        Resource::PersistentVolumes,
        Resource::StorageClasses,
        Resource::Pods,
        Resource::PersistentVolumeClaims,
        Resource::Services,
        Resource::ConfigMaps,
        Resource::Secrets,
        Resource::ServiceAccounts,
        Resource::Events,
        Resource::ControllerRevisions,
        Resource::PodDisruptionBudgets,
        Resource::Jobs,
        Resource::Leases,
        Resource::EndpointSlices,
    ];

    /// What is known of a built-in resource; `None` for custom ones, whose
    /// description is with the cluster ([`Cluster::info`](crate::Cluster::info)).
    #[must_use]
    pub fn built_in(self) -> Option<&'static Info> {
        match self {
            Resource::Custom(_) => None,
            _ => BUILT_IN_INFO.get(self.index()),
        }
    }

    pub(crate) fn index(self) -> usize {
        match self {
            Resource::Namespaces => 0,
            Resource::Nodes => 1,
            Resource::PersistentVolumes => 2,
            Resource::StorageClasses => 3,
            Resource::Pods => 4,
            Resource::PersistentVolumeClaims => 5,
            Resource::Services => 6,
            Resource::ConfigMaps => 7,
            Resource::Secrets => 8,
            Resource::ServiceAccounts => 9,
            Resource::Events => 10,
            Resource::ControllerRevisions => 11,
            Resource::PodDisruptionBudgets => 12,
            Resource::Jobs => 13,
            Resource::Leases => 14,
            Resource::EndpointSlices => 15,
            Resource::Custom(n) => BUILT_IN + usize::from(n),
        }
    }

    pub(crate) fn is_custom(self) -> bool {
        matches!(self, Resource::Custom(_))
    }
}

/// The rules of one resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info {
    /// API group, empty for core.
    pub group: Cow<'static, str>,
    /// API version within the group.
    pub version: Cow<'static, str>,
    /// Plural name, as in a URL.
    pub plural: Cow<'static, str>,
    /// Kind.
    pub kind: Cow<'static, str>,
    /// Whether objects live in a namespace.
    pub namespaced: bool,
    /// Whether `status` is written through its own endpoint.
    pub status: bool,
    /// Whether `metadata.generation` is kept.
    pub generation: bool,
    /// Whether a PUT without resourceVersion is accepted.
    pub unconditional_update: bool,
    /// Whether a PUT on a missing object creates it.
    pub create_on_update: bool,
    /// Whether DELETE answers with the object rather than a Status.
    pub returns_deleted: bool,
}

impl Info {
    /// `group/version`, or `v1`.
    #[must_use]
    pub fn api_version(&self) -> String {
        if self.group.is_empty() {
            self.version.to_string()
        } else {
            format!("{}/{}", self.group, self.version)
        }
    }

    /// `Kind.group`, or `Kind` in the core group: how Kubernetes names kinds in errors.
    #[must_use]
    pub fn group_kind(&self) -> String {
        if self.group.is_empty() {
            self.kind.to_string()
        } else {
            format!("{}.{}", self.kind, self.group)
        }
    }

    /// `plural.group`, or `plural` in the core group: how Kubernetes names resources in errors.
    #[must_use]
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() {
            self.plural.to_string()
        } else {
            format!("{}.{}", self.plural, self.group)
        }
    }
}

const NAMESPACED: u8 = 1;
const STATUS: u8 = 2;
const GENERATION: u8 = 4;
const UNCONDITIONAL: u8 = 8;
const CREATE_ON_UPDATE: u8 = 16;
const RETURNS_DELETED: u8 = 32;

const fn info(group: &'static str, plural: &'static str, kind: &'static str, rules: u8) -> Info {
    Info {
        group: Cow::Borrowed(group),
        version: Cow::Borrowed("v1"),
        plural: Cow::Borrowed(plural),
        kind: Cow::Borrowed(kind),
        namespaced: rules & NAMESPACED != 0,
        status: rules & STATUS != 0,
        generation: rules & GENERATION != 0,
        unconditional_update: rules & UNCONDITIONAL != 0,
        create_on_update: rules & CREATE_ON_UPDATE != 0,
        returns_deleted: rules & RETURNS_DELETED != 0,
    }
}

static BUILT_IN_INFO: [Info; BUILT_IN] = [
    info(
        "",
        "namespaces",
        "Namespace",
        STATUS | UNCONDITIONAL | RETURNS_DELETED,
    ),
    info("", "nodes", "Node", STATUS | UNCONDITIONAL),
    info(
        "",
        "persistentvolumes",
        "PersistentVolume",
        STATUS | UNCONDITIONAL | RETURNS_DELETED,
    ),
    info(
        "storage.k8s.io",
        "storageclasses",
        "StorageClass",
        UNCONDITIONAL | RETURNS_DELETED,
    ),
    info(
        "",
        "pods",
        "Pod",
        NAMESPACED | STATUS | GENERATION | UNCONDITIONAL | RETURNS_DELETED,
    ),
    info(
        "",
        "persistentvolumeclaims",
        "PersistentVolumeClaim",
        NAMESPACED | STATUS | UNCONDITIONAL | RETURNS_DELETED,
    ),
    info(
        "",
        "services",
        "Service",
        NAMESPACED | STATUS | UNCONDITIONAL | CREATE_ON_UPDATE | RETURNS_DELETED,
    ),
    info("", "configmaps", "ConfigMap", NAMESPACED | UNCONDITIONAL),
    info("", "secrets", "Secret", NAMESPACED | UNCONDITIONAL),
    info(
        "",
        "serviceaccounts",
        "ServiceAccount",
        NAMESPACED | UNCONDITIONAL | RETURNS_DELETED,
    ),
    info(
        "",
        "events",
        "Event",
        NAMESPACED | UNCONDITIONAL | CREATE_ON_UPDATE,
    ),
    info(
        "apps",
        "controllerrevisions",
        "ControllerRevision",
        NAMESPACED | UNCONDITIONAL,
    ),
    info(
        "policy",
        "poddisruptionbudgets",
        "PodDisruptionBudget",
        NAMESPACED | STATUS | GENERATION,
    ),
    info(
        "batch",
        "jobs",
        "Job",
        NAMESPACED | STATUS | GENERATION | UNCONDITIONAL,
    ),
    info(
        "coordination.k8s.io",
        "leases",
        "Lease",
        NAMESPACED | CREATE_ON_UPDATE,
    ),
    info(
        "discovery.k8s.io",
        "endpointslices",
        "EndpointSlice",
        NAMESPACED | GENERATION | UNCONDITIONAL,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_built_in_finds_its_own_row() {
        assert_eq!(Resource::Pods.built_in().map(|i| &*i.kind), Some("Pod"));
        assert_eq!(
            Resource::Leases.built_in().map(|i| &*i.plural),
            Some("leases")
        );
        for (i, r) in Resource::BUILT_INS.iter().enumerate() {
            assert_eq!(r.index(), i);
        }
        assert_eq!(Resource::Custom(2).index(), BUILT_IN + 2);
    }
}
