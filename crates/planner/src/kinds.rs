//! The kinds of object that we read or write, each with all that there is to know of it.
//!
//! Watches, the fold into a snapshot, the simulator's translation and the controller's rights are read
//! from [`KINDS`]: a new kind is one row here and one [`View`](crate::view::View).

use crate::shelf::Shelf;
use crate::view::{BudgetView, ClaimView, PodView, RequestView, RevisionView, ServiceView};
use ensemble_api::{GROUP, VERSION};

/// The kinds of object that we read or write.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Kind {
    Ensemble,
    Request,
    Pod,
    Claim,
    Revision,
    Service,
    Budget,
    Node,
}

/// Which ensemble an object concerns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belongs {
    /// It is the ensemble.
    Itself,
    /// The one that it names in its spec.
    BySpec,
    /// The one that its label names. What has no such label is not even watched.
    ByLabel,
    /// Any in its namespace.
    InNamespace,
    /// Any in the cluster.
    InCluster,
}

/// What may be done with a kind or a part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Right {
    /// The subresource, empty for the object itself.
    pub part: &'static str,
    /// As the API server names them.
    pub verbs: &'static [&'static str],
}

/// One row of [`KINDS`].
#[derive(Debug)]
pub struct KindInfo {
    /// Whose row it is.
    pub kind: Kind,
    /// Its API group; empty for the core.
    pub group: &'static str,
    /// The version that we speak.
    pub version: &'static str,
    /// Its name in manifests.
    pub name: &'static str,
    /// Its name in paths.
    pub plural: &'static str,
    /// Whom an object of it concerns.
    pub belongs: Belongs,
    /// Whether its metadata is all that is looked at, and watched.
    pub metadata_only: bool,
    /// What we do with it besides looking.
    pub rights: &'static [Right],
    /// Where a snapshot keeps it, by name; None if it is kept elsewhere.
    pub shelf: Option<Shelf>,
}

/// What is needed to watch a kind.
pub const LOOK: &[&str] = &["get", "list", "watch"];

const fn right(part: &'static str, verbs: &'static [&'static str]) -> Right {
    Right { part, verbs }
}

/// Every kind, in the order of [`Kind`].
pub const KINDS: &[KindInfo] = &[
    KindInfo {
        kind: Kind::Ensemble,
        group: GROUP,
        version: VERSION,
        name: "Ensemble",
        plural: "ensembles",
        belongs: Belongs::Itself,
        metadata_only: false,
        rights: &[
            // For annotations and finalizers; the spec is the user's and is never written.
            right("", &["patch"]),
            right("status", &["update", "patch"]),
            // Owner references that block deletion need it where the admission plugin asks.
            right("finalizers", &["update"]),
        ],
        shelf: None,
    },
    KindInfo {
        kind: Kind::Request,
        group: GROUP,
        version: VERSION,
        name: "EnsembleRequest",
        plural: "ensemblerequests",
        belongs: Belongs::BySpec,
        metadata_only: false,
        rights: &[
            right("", &["patch", "delete"]),
            right("status", &["update", "patch"]),
        ],
        shelf: Some(Shelf::of::<RequestView>()),
    },
    KindInfo {
        kind: Kind::Pod,
        group: "",
        version: "v1",
        name: "Pod",
        plural: "pods",
        belongs: Belongs::ByLabel,
        metadata_only: false,
        rights: &[
            // Updating is for images in place, at the version that was just read.
            right("", &["create", "patch", "update", "delete"]),
            right("eviction", &["create"]),
            right("resize", &["update"]),
        ],
        shelf: Some(Shelf::of::<PodView>()),
    },
    KindInfo {
        kind: Kind::Claim,
        group: "",
        version: "v1",
        name: "PersistentVolumeClaim",
        plural: "persistentvolumeclaims",
        belongs: Belongs::ByLabel,
        metadata_only: false,
        rights: &[right("", &["create", "patch", "delete"])],
        shelf: Some(Shelf::of::<ClaimView>()),
    },
    KindInfo {
        kind: Kind::Revision,
        group: "apps",
        version: "v1",
        name: "ControllerRevision",
        plural: "controllerrevisions",
        belongs: Belongs::ByLabel,
        metadata_only: false,
        rights: &[right("", &["create", "patch", "delete"])],
        shelf: Some(Shelf::of::<RevisionView>()),
    },
    KindInfo {
        kind: Kind::Service,
        group: "",
        version: "v1",
        name: "Service",
        plural: "services",
        belongs: Belongs::ByLabel,
        // Whose a Service is, is all that is asked.
        metadata_only: true,
        rights: &[right("", &["create", "patch", "delete"])],
        shelf: Some(Shelf::of::<ServiceView>()),
    },
    KindInfo {
        kind: Kind::Budget,
        group: "policy",
        version: "v1",
        name: "PodDisruptionBudget",
        plural: "poddisruptionbudgets",
        // Somebody else's budget carries no label of ours and may select any member.
        belongs: Belongs::InNamespace,
        metadata_only: false,
        rights: &[
            right("", &["create", "patch", "delete"]),
            // To take back that a pod counts as evicted which lives.
            right("status", &["patch"]),
        ],
        shelf: Some(Shelf::of::<BudgetView>()),
    },
    KindInfo {
        kind: Kind::Node,
        group: "",
        version: "v1",
        name: "Node",
        plural: "nodes",
        belongs: Belongs::InCluster,
        metadata_only: false,
        rights: &[],
        // All ensembles share one view of them.
        shelf: None,
    },
];

impl Kind {
    /// Its row.
    pub fn info(self) -> &'static KindInfo {
        &KINDS[self as usize]
    }
}

impl KindInfo {
    /// Whether it lives in a namespace.
    pub const fn is_namespaced(&self) -> bool {
        !matches!(self.belongs, Belongs::InCluster)
    }

    /// Whether only what carries our label is watched.
    pub fn is_labelled(&self) -> bool {
        self.belongs == Belongs::ByLabel
    }

    /// Whether we may do that with it, or with a part of it.
    pub fn allows(&self, part: &str, verb: &str) -> bool {
        let look = part.is_empty() && LOOK.contains(&verb);
        let rights = self.rights.iter().filter(|right| right.part == part);
        look || rights.flat_map(|right| right.verbs).any(|v| *v == verb)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{EnsembleView, NodeView, View};
    use std::collections::BTreeSet;

    #[test]
    fn every_kind_has_its_own_row_in_its_own_place() {
        for (place, info) in KINDS.iter().enumerate() {
            assert_eq!(info.kind as usize, place, "{info:?}");
            assert_eq!(info.kind.info().plural, info.plural);
        }
        let paths: BTreeSet<_> = KINDS.iter().map(|i| (i.group, i.plural)).collect();
        assert_eq!(paths.len(), KINDS.len());
    }

    #[test]
    fn a_shelf_holds_what_its_row_says() {
        let kept = KINDS
            .iter()
            .filter_map(|i| Some((i.kind, i.shelf.as_ref()?.kind())));
        for (row, shelf) in kept {
            assert_eq!(row, shelf);
        }
        // Those that are kept elsewhere have a view, too.
        let elsewhere = KINDS.iter().filter(|i| i.shelf.is_none()).map(|i| i.kind);
        let elsewhere: Vec<Kind> = elsewhere.collect();
        assert_eq!(elsewhere, [EnsembleView::KIND, NodeView::KIND]);
    }

    #[test]
    fn looking_is_allowed_everywhere_and_nothing_else_that_is_not_in_the_row() {
        assert!(KINDS.iter().all(|i| i.allows("", "watch")));
        let pods = Kind::Pod.info();
        assert!(pods.allows("eviction", "create") && pods.allows("", "update"));
        assert!(!pods.allows("exec", "create") && !pods.allows("eviction", "get"));
        assert!(!Kind::Ensemble.info().allows("", "update"));
        assert!(!Kind::Node.info().allows("", "patch"));
    }
}
