//! Why a step does not move: one closed list.
//!
//! Each reason is a CamelCase word in conditions, events, metrics and the command line, and has a
//! page of its own, generated from this file. Reasons are never renamed.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What kind of wait it is, in the order in which they explain why a plan does not move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Wait {
    /// It lasts until somebody acts.
    Stalls,
    /// The user holds it.
    Held,
    /// It passes by itself.
    Passes,
    /// It passes with another one, which explains more.
    Follows,
    /// It holds nothing up, and is only told.
    Advice,
}

/// What the page of a reason says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// One sentence.
    pub summary: &'static str,
    /// What it means.
    pub meaning: &'static str,
    /// What has to happen.
    pub clears_when: &'static str,
    /// What a person can do.
    pub remedy: &'static str,
    /// What kind of wait it is.
    pub wait: Wait,
    /// Whether it lasts until somebody acts.
    pub stalls: bool,
    /// The command of `ensemble` to try next, if there is one; else empty.
    pub next: &'static str,
}

macro_rules! reasons {
    ($($name:ident {
        wait: $wait:ident, $(next: $next:literal,)?
        $summary:literal, $meaning:literal, $clears:literal, $remedy:literal
    })*) => {
        /// Why a step does not move.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
        pub enum Reason {
            $(#[doc = $summary] $name,)*
        }

        impl Reason {
            /// All of them.
            pub const ALL: &[Reason] = &[$(Reason::$name,)*];

            /// The word.
            pub fn as_str(self) -> &'static str {
                match self { $(Reason::$name => stringify!($name),)* }
            }

            /// What its page says.
            pub fn page(self) -> Page {
                match self {
                    $(Reason::$name => Page {
                        summary: $summary, meaning: $meaning, clears_when: $clears,
                        remedy: $remedy, wait: Wait::$wait,
                        stalls: matches!(Wait::$wait, Wait::Stalls),
                        next: concat!($($next)?),
                    },)*
                }
            }
        }
    };
}

reasons! {
    TemplateRefused {
        wait: Stalls,
        next: "undo",
        "The API server refuses the template.",
        "Before any member is touched, the new template is sent to the API server as a dry run. It answered with an error, so nobody was touched and the members go on at their old revision.",
        "The template is corrected, or what the API server complains about (a missing ServiceAccount, a quota, a policy) is put right; it is tried again every minute.",
        "Read the message: it is the API server's own. Correct `spec.template`, or run `ensemble undo NAME`."
    }
    ServiceAccountMissing {
        wait: Stalls,
        "The ServiceAccount that the template names does not exist.",
        "The API server refuses pods whose ServiceAccount is missing.",
        "The ServiceAccount is created, or the template names another.",
        "`kubectl create serviceaccount NAME`, or correct `spec.template.spec.serviceAccountName`."
    }
    QuotaExceeded {
        wait: Stalls,
        "A ResourceQuota or LimitRange of the namespace forbids the pod or claim.",
        "The API server refuses to create more than the quota of the namespace allows.",
        "The quota is raised, something else is removed, or the template asks for less; it is tried again with growing pauses.",
        "`kubectl describe quota` shows what is used and what is allowed."
    }
    CreateRefused {
        wait: Stalls,
        "The API server refuses to create an object of a member.",
        "An admission rule or validation said no.",
        "The cause in the message is put right; it is tried again with growing pauses.",
        "Read the message: it is the API server's own."
    }
    Checking {
        wait: Passes,
        "A new template is being tried at the API server.",
        "A dry run of the new template is under way; nobody is touched before it is answered.",
        "The API server answers.",
        "Nothing: it takes a moment."
    }
    Pulling {
        wait: Passes,
        "New images are being pulled on the members' nodes.",
        "Before the first member is touched, small pods that run nothing pull the new images on the nodes concerned.",
        "All nodes have the images.",
        "Nothing. `rollout.prePull: Skip` does without."
    }
    ImageMissing {
        wait: Stalls,
        next: "undo",
        "A new image cannot be pulled.",
        "Pulling ahead failed on a node, so no member was touched; all of them still run what they ran before.",
        "The image can be pulled, the template names another, or the change is undone.",
        "Correct the image in `spec.template`, push the image, or run `ensemble undo NAME`."
    }
    PullRefused {
        wait: Stalls,
        "No helper pod finds room to pull a new image ahead.",
        "Before the first member is touched, small pods that run nothing pull the new images on the nodes concerned. A quota, an admission rule or a full node refuses such a pod, and `rollout.prePull: Required` asks for it, so no member was touched.",
        "There is room for one more pod, or `rollout.prePull` is IfPossible or Skip; it is retried every few minutes.",
        "Make room for one more pod, or set `rollout.prePull: IfPossible`: then the image is pulled when the member restarts."
    }
    PulledLate {
        wait: Advice,
        "A new image is not pulled ahead on a node, because no helper pod finds room.",
        "A quota, an admission rule or a full node refuses the helper pod. `rollout.prePull: IfPossible` allows to do without: the image is pulled when the member restarts, which then takes longer.",
        "All members have the image.",
        "Nothing, if a longer restart does no harm; else make room for one more pod."
    }
    Cloning {
        wait: Follows,
        "A new member waits until others have copied their data.",
        "Every new member copies its data from the primary. At most two do so at a time, or `rollout.maxUnavailable` if that is more, so that the primary is not slowed down.",
        "A new member that copies its data becomes Ready.",
        "Nothing. A larger `rollout.maxUnavailable` lets more members start at a time."
    }
    ImagePutBack {
        wait: Advice,
        "An image that Ensemble wrote was changed back at admission.",
        "Ensemble wrote a new image to a running pod. A mutating webhook or policy of the cluster put the old image back, so the container does not restart. The member is recreated instead: a new pod is admitted anew.",
        "The member is recreated, or the rule lets the change of an image through.",
        "`kubectl get mutatingwebhookconfigurations,mutatingadmissionpolicies` lists the rules; `rollout.method: Recreate` does not change pods in place."
    }
    ImagePullFailing {
        wait: Stalls,
        next: "undo",
        "A member cannot pull its image.",
        "The pod exists and its kubelet cannot pull an image.",
        "The image can be pulled, or the template names another.",
        "Correct the image in `spec.template`, check pull secrets, or run `ensemble undo NAME`."
    }
    ZoneHoldsQuorum {
        wait: Advice,
        "The loss of one zone would cost the quorum.",
        "So many voters are in one zone that those in the others are no majority. If that zone fails, the engine accepts no writes until it is back.",
        "The voters are spread over more zones.",
        "Use at least three zones: add one to `spec.zones.names`, and move members with `ensemble replace`."
    }
    CrashLooping {
        wait: Stalls,
        next: "undo",
        "A member's container starts and ends, again and again.",
        "The kubelet restarts the container with growing pauses. The rollout stops here, within its budget.",
        "The container stays up, or the template is corrected or undone.",
        "`kubectl logs MEMBER --previous` shows why it ended."
    }
    ContainerFailing {
        wait: Stalls,
        next: "undo",
        "A member's container cannot be started.",
        "The kubelet cannot create or start the container: a missing ConfigMap, Secret or key, a bad command or a bad mount.",
        "What the message names is put right, or the template is corrected or undone.",
        "`kubectl describe pod MEMBER` shows the kubelet's events."
    }
    Unschedulable {
        wait: Stalls,
        next: "undo",
        "No node takes the member.",
        "The scheduler finds no node that fits the pod's requests, affinity, taints and volumes.",
        "A node fits, or the template asks for less.",
        "`kubectl describe pod MEMBER` shows the scheduler's count of nodes by cause."
    }
    ResizeDeferred {
        wait: Passes,
        "A member's node has no room now for the CPU and memory that it is to have.",
        "The pod was told to grow, and its kubelet waits until other pods on the node make room. The member serves with what it has; the next one waits.",
        "Room is made on the node: the kubelet looks again when a pod leaves it, and every three minutes.",
        "Make room on the node, ask for less, or set `rollout.method: Recreate`: a new pod may find another node."
    }
    ResizeFailing {
        wait: Passes,
        "A member's kubelet tries to change CPU or memory, and fails.",
        "The kubelet tries again by itself. The member serves with what it has; the next one waits.",
        "The kubelet succeeds, or the template asks for something else.",
        "`kubectl describe pod MEMBER` shows the kubelet's words; `rollout.method: Recreate` gives the member a new pod."
    }
    ResizeInfeasible {
        wait: Stalls,
        next: "undo",
        "A member cannot have the CPU and memory that it is to have.",
        "Its node cannot give them, or the API server refuses, and no node that takes pods is known to be large enough: a new pod would find no place. So the member goes on with what it has, and the next one waits.",
        "The template asks for less, or a larger node comes; where nodes cannot be looked at, `rollout.method: Recreate` says that one will do.",
        "Ask for less in `spec.template`, or run `ensemble undo NAME`."
    }
    Starting {
        wait: Passes,
        "A member is starting.",
        "Its pod was created and is on its way to Ready.",
        "It becomes Ready.",
        "Nothing, unless it takes long: `kubectl describe pod MEMBER`."
    }
    NotReady {
        wait: Passes,
        "A member runs and is not Ready.",
        "Its containers run and its readiness probe does not pass. It counts against the budget, and it is not touched as if it were down: something may still run in it.",
        "It becomes Ready, or it has been so for a minute and a newer template is there for it.",
        "`kubectl describe pod MEMBER` shows the failing probe."
    }
    Settling {
        wait: Follows,
        "A member is Ready, but not yet for long enough.",
        "`minReadySeconds` asks for a while of readiness before the next member may be touched.",
        "The time has passed.",
        "Nothing."
    }
    Terminating {
        wait: Passes,
        "A member's old pod is still ending.",
        "Its successor is created on the same volumes once the old pod is really gone; never two pods for one identity.",
        "The pod is gone.",
        "Nothing: the pod's grace period runs."
    }
    StuckTerminating {
        wait: Stalls,
        "A member's old pod does not end.",
        "It was told to end longer ago than its grace period allows. Ensemble never removes it by force, since it may still run and write to its volumes.",
        "The node's kubelet comes back, the node is deleted, or it is tainted out-of-service by somebody who knows that it is off.",
        "If the node is off for good: `kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`."
    }
    NodeUnreachable {
        wait: Passes,
        "A member's node does not answer.",
        "The node is not Ready, so its kubelet cannot say whether the member still runs, or whether a pod that was told to end has ended. The member is neither replaced nor counted as down.",
        "The node comes back, is deleted, or is tainted out-of-service.",
        "`kubectl describe node NODE`. Only if you know that it is powered off: `kubectl taint node NODE node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`. If it never comes back: `kubectl delete node NODE`. Do not delete the pod with `--force`: it may still run and write to its volumes."
    }
    ClaimMissing {
        wait: Stalls,
        "A claim of a member that has been used before is missing.",
        "All claims of a member are one unit. One of them is gone, and a member that was Ready once never gets an empty volume in its place.",
        "The claim is restored under its name and accepted, or a request gives the member a new life on empty volumes.",
        "Restore the claim from a backup, or `kubectl create` an EnsembleRequest with `rebuild` for that member."
    }
    ClaimReplaced {
        wait: Stalls,
        "A claim of a member is not the one that it was born on.",
        "Somebody deleted the claim and created another of its name, as a restore does, or a manifest that is applied again. Its volume may be empty, and a member that was Ready once never starts on an empty volume unasked.",
        "Somebody says that the claim holds the member's data, or a request gives the member a new life on empty volumes.",
        "If its volume holds the member's data: the `kubectl annotate` of the message. If not: `kubectl create` an EnsembleRequest with `rebuild` for that member."
    }
    ClaimEnding {
        wait: Passes,
        "A claim of a member is being deleted.",
        "It was deleted while in use, and ends when the last pod that uses it ends. The member is not disrupted while its data hangs by that pod.",
        "The data is copied elsewhere and a request rebuilds the member; the deletion of a claim cannot be taken back.",
        "Keep the pod running and copy the data before anything else."
    }
    ClaimPending {
        wait: Passes,
        "A claim of a member is not bound to a volume.",
        "The storage class has not provided a volume yet.",
        "The volume is provided.",
        "`kubectl describe pvc CLAIM` shows the provisioner's events."
    }
    ClaimLost {
        wait: Stalls,
        "The volume behind a claim is lost.",
        "The claim says that its PersistentVolume no longer exists.",
        "The volume is restored, or a request rebuilds the member.",
        "`kubectl describe pvc CLAIM`."
    }
    DataMissing {
        wait: Stalls,
        "Members have been used before, and none of their claims is left.",
        "To create empty volumes now could hide a loss of all data, for example a restore into the wrong namespace. Nothing is created at all.",
        "A claim of a member is restored and accepted, or a request rebuilds the members.",
        "Restore the claims, or `kubectl create` an EnsembleRequest with `rebuild` for the members."
    }
    NameTaken {
        wait: Stalls,
        "Somebody else's object has the name that a member needs.",
        "An object of that name exists and is not ours: its labels or its owner say so. It is never touched.",
        "The object is gone.",
        "Rename or delete the object in the message, if you can do without it."
    }
    BudgetUsed {
        wait: Follows,
        "As many members are unavailable as are allowed.",
        "The next member waits until `rollout.maxUnavailable` leaves room.",
        "An unavailable member becomes Ready.",
        "`ensemble why NAME` names the members that use the budget."
    }
    EvictionRefused {
        wait: Passes,
        "A disruption budget refuses the eviction.",
        "The API server counts disruptions by all parties; somebody else's budget or drain leaves no room now. A pod whose eviction came to nothing, or whose predecessor of the same name was not seen to go, counts as evicted for two minutes, while it runs. In our own budgets that is taken back after a few seconds; in somebody else's Kubernetes has to forget it.",
        "The budget leaves room: it is tried again as soon as that is seen, and with growing pauses.",
        "`kubectl get pdb` shows all budgets."
    }
    ForeignBudget {
        wait: Advice,
        "Somebody else's disruption budget selects the members.",
        "Two budgets on one pod make every eviction fail, so ours stands down.",
        "The other budget is deleted, or `disruption: Unmanaged` says that it is meant.",
        "`kubectl get pdb`; keep one of the two."
    }
    ForeignIntent {
        wait: Passes,
        "A disruption that another controller wrote down is not finished.",
        "A predecessor wrote it down and may still carry it out. It is made impossible first, then cleared.",
        "The pod is touched, so that a late write fails, and the intent is cleared.",
        "Nothing."
    }
    Overtaken {
        wait: Passes,
        "The status was written by a controller with a later leadership than this one.",
        "Another controller looks after the same Ensemble, or the Lease was restored or edited so that its count of leaderships went back. This controller does nothing meanwhile.",
        "Nobody else writes the status for a minute while this controller holds the Lease; then it takes over.",
        "Check that one installation alone looks after the namespace: `kubectl get leases -A`, `kubectl get deployments -A -l app.kubernetes.io/name=ensemble`."
    }
    StatusPruned {
        wait: Advice,
        "The API server does not store all fields of the status.",
        "The definition of the kind Ensemble in the cluster is older than this controller. What it does not know is dropped, and is not sent again before something else changes.",
        "The definition in the cluster is that of this version.",
        "`ensemble install` updates the definitions."
    }
    RoleUnknown {
        wait: Passes,
        "The role of a running member is not known.",
        "Its engine does not answer, or answers what cannot be relied on. A running member of unknown role may be the primary, so nothing is done that would hurt a primary.",
        "The engine answers, or a leader that is backed by the engine's own consensus is seen elsewhere.",
        "`kubectl logs MEMBER`; check that the controller reaches the role API's port (a NetworkPolicy may forbid it)."
    }
    LeadContested {
        wait: Stalls,
        "Two members claim the lead.",
        "More than one member says that it leads. Nobody is touched: which one is right cannot be told from here.",
        "One member claims the lead.",
        "Ask the engine itself (`patronictl list`); restart nothing before it is clear who is right."
    }
    NoLeader {
        wait: Passes,
        "Nobody leads.",
        "All members answer and none leads. The engine's own high availability decides who is next; Ensemble touches nobody meanwhile.",
        "A leader is seen, or nobody has led and nobody was Ready for `engine.recoverAfterSeconds`.",
        "`kubectl logs MEMBER`; `patronictl list`."
    }
    EngineAtWork {
        wait: Passes,
        "A member's engine is at work on its data.",
        "It answers that it is starting, stopping, rewinding, copying or replaying. What is cut short there may have to begin again, or leaves a member without usable data, so it is let finish however long it takes. `engine.recoverAfterSeconds` does not shorten it.",
        "The engine has finished, or has failed and says so.",
        "`kubectl logs MEMBER` shows how far it is. If it is stuck: `ensemble waive NAME engine-settled --member MEMBER --reason TEXT --for 10m`."
    }
    NotInSync {
        wait: Passes,
        "A replica does not follow the primary closely enough.",
        "It is not seen to stream from the current primary, at its term, within `engine.maxLag`. Ready is not in sync: it counts as unavailable until it is.",
        "The primary itself says that the replica streams, and its lag is within the limit.",
        "`kubectl logs MEMBER`; `patronictl list` shows lag and state."
    }
    NoSuccessor {
        wait: Passes,
        "No replica could take over the lead.",
        "Before the primary is touched, a replica must be updated, in sync with it at its term, allowed to lead and, in synchronous mode, named as synchronous standby. None is.",
        "A replica fulfils all of that.",
        "`ensemble status NAME` shows roles and sync."
    }
    LastInSync {
        wait: Passes,
        "The member to remove is the last replica in sync.",
        "Scaling in removes the highest ordinal first. That member is the only replica that has everything the primary has, or the synchronous standby that commits wait for, and no other replica could take its place. Without it the primary would have no successor and its data no second copy, so it stays.",
        "Another replica is in sync with the primary.",
        "The message says which other replica is out of sync and why: repair it first, see `kubectl logs MEMBER`. To take the risk: `ensemble waive NAME copies-left --member MEMBER --reason TEXT --for 10m`."
    }
    PrimaryFirst {
        wait: Passes,
        "The member that was primary last starts first.",
        "No member runs. A replica that stopped before the last writes were made could become primary and discard them, so the member that was primary last starts first and the others wait until a primary is known.",
        "A primary is known, or the first member has not come up within `engine.recoverAfterSeconds`.",
        "Nothing, if the first member starts. `ensemble why NAME` says what it waits for."
    }
    PrimaryLeftOut {
        wait: Stalls,
        "The member that was primary last is not among the members asked for.",
        "All members were stopped, and the one that was primary last has a higher ordinal than `replicas` includes. Its PersistentVolumeClaims hold the newest data, so no other member starts without it.",
        "`replicas` includes that member, or its claims are deleted.",
        "Scale out until that member is included: `kubectl scale ensemble NAME --replicas=N`. Once it is up, scale in again: Ensemble switches over first. To start without its data: `ensemble waive NAME last-primary-first --member MEMBER --reason TEXT --for 10m`."
    }
    QuorumAtRisk {
        wait: Passes,
        "Too few voters would be left.",
        "The engine takes writes only while a majority of its voters is there. Without this member fewer would be left than it needs, so it is not touched.",
        "Another voter is back, and has what its leader has.",
        "`ensemble status NAME` shows who is not there and why."
    }
    SwitchingOver {
        wait: Passes,
        "The lead is being handed over.",
        "The engine was asked; nobody is touched until the lead is seen to have arrived, or the deadline has passed.",
        "The wanted member leads at a higher term.",
        "Nothing: it takes seconds."
    }
    SwitchoverFailed {
        wait: Passes,
        "A switchover was refused or did not arrive in time.",
        "The old primary stays. It is tried again with growing pauses.",
        "A later try succeeds, or the change is undone.",
        "Read the message: it is the engine's own."
    }
    AwaitingApproval {
        wait: Passes,
        next: "approve",
        "The rollout waits for approval before it touches the primary.",
        "`rollout.primary` is Supervised: all replicas are updated, and the switchover begins once somebody approves. The last member that is left waits as well if the engine has moved the lead by itself meanwhile, and also if its container crashes.",
        "A request approves this revision.",
        "`ensemble approve NAME`."
    }
    EngineUnauthorised {
        wait: Stalls,
        "The engine refuses the controller's credentials.",
        "The Secret that `engine` names is missing, may not be read, or holds credentials that the engine does not accept.",
        "The Secret holds what the engine accepts, and the controller may read it; it is read again for every try.",
        "Check the Secret's keys `username`, `password` and `ca.crt`, and grant the controller `get` on it."
    }
    EngineUnsupported {
        wait: Stalls,
        "The engine runs in a mode that Ensemble does not handle.",
        "The message names the mode. In a standby cluster no switchover raises the timeline, so that its arrival cannot be verified. No running member is disrupted; new members are still created.",
        "The engine runs in another mode.",
        "`patronictl list` shows the mode. For a standby cluster: promote it by removing `standby_cluster` with `patronictl edit-config`, or update its pods yourself."
    }
    EngineCutOff {
        wait: Passes,
        "The engine cannot reach the store that says who leads.",
        "Patroni's failsafe mode is active: the primary stays primary only while every other member answers it. To stop any member now would demote the primary, so no member is disrupted.",
        "The members reach the API server again.",
        "Check that the members' pods reach the API server; `kubectl logs MEMBER` names the error."
    }
    EnginePaused {
        wait: Stalls,
        "Somebody has paused the engine's high availability.",
        "In pause Patroni fails over to nobody, and a stopped member neither ends nor frees its lock cleanly, so nobody is touched.",
        "The pause ends.",
        "`patronictl resume`."
    }
    EngineFailing {
        wait: Passes,
        "The engine refuses or fails what it is asked.",
        "A call to the engine's API failed; it is tried again with growing pauses.",
        "The engine does it.",
        "Read the message: it is the engine's own."
    }
    EngineUnreachable {
        wait: Passes,
        "Nobody knows whether the engine did what it was asked.",
        "The engine did not answer, or broke off. What came of it is seen by looking; what did not come about is asked for again with growing pauses.",
        "The engine answers.",
        "Read the message; see whether the member's node and its agent are well."
    }
    RestartPending {
        wait: Stalls,
        "A member waits for a restart, and in which order is not known.",
        "Some value that the engine keeps takes a restart, and nothing is written down about it: the status was lost on the way, or somebody else changed it. Raised, replicas must restart first; lowered, the primary must. A wrong guess stops replicas, so nobody is restarted.",
        "Nobody waits for a restart any more.",
        "`patronictl list` shows who waits. Restart them with `patronictl restart`, in the order that the change demands."
    }
    ParameterRefused {
        wait: Stalls,
        "A parameter cannot be applied.",
        "It cannot have such a value, and no engine was told of it; or an engine did not come up with the new value or did not take it, and then the old values were put back and nobody else was touched.",
        "The parameter in `engine.patroni.parameters` is corrected.",
        "Read the message: it names the parameter and the value."
    }
    RoleLabelMissing {
        wait: Stalls,
        "The primary does not carry the label by which the primary Service finds it.",
        "The engine says who leads, and that pod lacks the role label with the value for a primary: clients of the Service reach nobody.",
        "The label's key and value in `engine` are those that the engine sets.",
        "Compare `kubectl get pods --show-labels` with `engine.patroni.roleLabel` and `primaryValue`. `master` and `primary`, which Patroni writes by itself, are both understood. Patroni writes no label where Kubernetes is not its store."
    }
    GraceTooShort {
        wait: Stalls,
        "The grace period is too short for this engine.",
        "A stopping synchronous standby waits up to twice `loop_wait` until another is named; a shorter `terminationGracePeriodSeconds` kills it in the middle.",
        "`spec.template.spec.terminationGracePeriodSeconds` exceeds twice `loop_wait` by what a shutdown takes.",
        "Raise `terminationGracePeriodSeconds`, or lower `loop_wait`."
    }
    Stalled {
        wait: Stalls,
        next: "undo",
        "The rollout has made no progress for longer than its deadline.",
        "`rollout.progressDeadlineSeconds` has passed. It goes on trying.",
        "A member becomes Ready.",
        "Look at the members that are not Ready; `ensemble undo NAME` goes back."
    }
    Paused {
        wait: Held,
        next: "resume",
        "The user holds the rollout.",
        "`rollout.paused` is true. Members that fail are still repaired.",
        "`rollout.paused` is false.",
        "`ensemble resume NAME`."
    }
    Suspended {
        wait: Passes,
        "The user has stopped all work.",
        "`suspend` is true: nothing is written but this condition.",
        "`suspend` is false.",
        "`kubectl patch ensemble NAME --type merge -p '{\"spec\":{\"suspend\":false}}'`."
    }
    CacheBehind {
        wait: Passes,
        "Ensemble's view of the cluster lags behind its own writes.",
        "No decision is made on a view that does not show what was just written.",
        "The watch catches up, or the objects are listed again after ten seconds.",
        "Nothing, unless it stays: then the API server is overloaded."
    }
    ApiRefused {
        wait: Stalls,
        "The API server refuses a call for lack of rights.",
        "The controller's ServiceAccount may not do what the plan needs.",
        "The rights are granted.",
        "`ensemble install` prints the roles that are needed."
    }
    ApiFailing {
        wait: Passes,
        "The API server does not answer or fails.",
        "A call failed; it is tried again with growing pauses.",
        "The API server answers.",
        "Nothing, unless it stays."
    }
    Conflict {
        wait: Passes,
        "Somebody else changed the object at the same time.",
        "A write was refused because it was made from an older state. It is planned anew from the newest.",
        "The newest state is seen.",
        "Nothing."
    }
    Deleting {
        wait: Passes,
        "The Ensemble is being deleted.",
        "Its pods go with it; its claims follow `storage.whenDeleted`.",
        "All is gone that is to go.",
        "Nothing."
    }
    Invalid {
        wait: Stalls,
        "The Ensemble cannot be read.",
        "A field has a value that this version of Ensemble does not understand.",
        "The field is corrected.",
        "Read the message: it names the field."
    }
}

impl Reason {
    /// The command to try next, for that ensemble; empty if there is none.
    pub fn next_command(self, name: &str) -> String {
        match self.page().next {
            "" => String::new(),
            next => format!("ensemble {next} {name}"),
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_reason_is_documented() {
        for reason in Reason::ALL {
            let page = reason.page();
            for text in [page.summary, page.meaning, page.clears_when, page.remedy] {
                assert!(text.ends_with('.') && text.len() > 7, "{reason}: {text:?}");
            }
        }
    }

    #[test]
    fn a_command_to_try_next_is_named_in_the_remedy_or_undoes_the_change() {
        assert_eq!(
            Reason::Paused.next_command("orders"),
            "ensemble resume orders"
        );
        for reason in Reason::ALL {
            let page = reason.page();
            let remedy = page.remedy.contains(&reason.next_command("NAME"));
            assert!(remedy || page.next == "undo", "{reason}");
        }
    }
}
