//! Labels and annotations, each named once.

/// Which ensemble an object belongs to. Watches select on it, so every object of ours carries it.
pub const ENSEMBLE: &str = "ensemble.dev/ensemble";
/// Which group of the ensemble a member belongs to. Helper pods carry none, so that no Service and
/// no disruption budget ever selects them.
pub const GROUP: &str = "ensemble.dev/group";
/// The number in a member's name.
pub const ORDINAL: &str = "ensemble.dev/ordinal";
/// Which life of that number.
pub const INCARNATION: &str = "ensemble.dev/incarnation";
/// Which of a member's claims an object is.
pub const CLAIM: &str = "ensemble.dev/claim";
/// The zone that a member belongs to: on its claims, which remember it, and on its pod.
pub const ZONE: &str = "ensemble.dev/zone";
/// The integer version of the revision a pod was made from.
pub const REVISION: &str = "ensemble.dev/revision";
/// What a helper pod is for; its only value today is [`PREFETCH`].
pub const PURPOSE: &str = "ensemble.dev/purpose";
/// The value of [`PURPOSE`] of a pod that only pulls images.
pub const PREFETCH: &str = "prefetch";

/// On the Ensemble: some member was Ready once. It outlives a lost status.
pub const BORN: &str = "ensemble.dev/born";
/// On a revision: the API server makes the same pod of it as of the named one.
pub const SAME_AS: &str = "ensemble.dev/same-as";
/// On a pod: the epoch of the controller that last made a late write of an older one fail.
pub const TOUCHED: &str = "ensemble.dev/touched-by-epoch";
/// On a pod that was changed in place: the ids of the containers that the change replaces, as
/// `name=id` with commas. Until all of them are gone, the change is not complete.
pub const REPLACES: &str = "ensemble.dev/replaces";
/// On a pod that was changed in place: by container that the change replaces, the image that it had
/// before, as JSON. Whoever has it again was changed back by somebody else, and will not restart.
pub const REPLACES_IMAGES: &str = "ensemble.dev/replaces-images";
/// On a pod that is being resized: by container, the CPU and memory that it is to have, as JSON. It is
/// taken away once the kubelet has given them.
pub const RESIZES: &str = "ensemble.dev/resizes";
/// On a Service or budget: a digest of what it was made of, to see that it is out of date.
pub const MADE_OF: &str = "ensemble.dev/made-of";
/// On a claim that took the place of a born member's: the last group of its uid, written by a person
/// who knows that its volume holds the member's data.
pub const ACCEPTED: &str = "ensemble.dev/accepted";
/// On a claim: its member was removed for good, and what that says about the claim, [`KEPT`] or
/// [`BY_POLICY`]. It outlives a lost status.
pub const RETIRED: &str = "ensemble.dev/retired";
/// The value of [`RETIRED`] of a claim that is kept whatever policy says.
pub const KEPT: &str = "keep";
/// The value of [`RETIRED`] of a claim that follows `storage.whenScaled`.
pub const BY_POLICY: &str = "when-scaled";
/// On a claim: what happens to it when its Ensemble is deleted.
pub const WHEN_DELETED: &str = "ensemble.dev/when-deleted";
/// The finalizer of an Ensemble whose claims are to be deleted with it.
pub const FINALIZER: &str = "ensemble.dev/claims";

/// As a StatefulSet labels its pods, so that what selects on these goes on working.
pub const STS_POD_NAME: &str = "statefulset.kubernetes.io/pod-name";
/// As a StatefulSet labels its pods.
pub const STS_POD_INDEX: &str = "apps.kubernetes.io/pod-index";
/// As a StatefulSet labels its pods: the name of the revision.
pub const REVISION_HASH: &str = "controller-revision-hash";

/// Recommended label: which instance of an application.
pub const APP_INSTANCE: &str = "app.kubernetes.io/instance";
/// Recommended label: who manages the object.
pub const APP_MANAGED_BY: &str = "app.kubernetes.io/managed-by";
/// The value of [`APP_MANAGED_BY`] and our field manager.
pub const MANAGER: &str = "ensemble";
