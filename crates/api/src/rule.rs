//! The safety rules: one closed list for reports, refusals, mutants and the page of guarantees.
//!
//! A rule is a promise, or it guards one: without the guard the promise would not hold. Or it is an
//! exception from one, and stands after a semicolon: without it the promise would hold for ever. Each is known
//! by one name in kebab case, in reports and in test builds that switch it off. Names are for ever.

/// What is said of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name, as reports have it.
    pub name: &'static str,
    /// What it demands, in one sentence.
    pub demands: &'static str,
    /// The promise that it guards, or makes an exception from; none if it is a promise itself.
    pub guards: Option<Rule>,
    /// Whether it is an exception: it lets happen what its promise alone would not, is asked after it
    /// and never instead of it.
    pub exempts: bool,
    /// Whether a person may take the risk and do without it for a while. A guard goes with its
    /// promise and is never waived by itself.
    pub waivable: bool,
}

macro_rules! rules {
    ($($promise:ident $name:literal {
        waivable: $waivable:literal, $demands:literal
        $(, $guard:ident $guard_name:literal $guard_demands:literal)*
        $(; $exempt:ident $exempt_name:literal $exempt_demands:literal)*
    })*) => {
        /// A safety rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(
                #[doc = $demands] $promise,
                $(#[doc = $guard_demands] $guard,)*
                $(#[doc = $exempt_demands] $exempt,)*
            )*
        }

        impl Rule {
            /// All of them, each promise followed by its guards and then by its exceptions.
            pub const ALL: &[Rule] = &[$(Rule::$promise, $(Rule::$guard,)* $(Rule::$exempt,)*)*];

            /// What is said of it.
            pub const fn page(self) -> Page {
                match self {
                    $(
                        Rule::$promise => Page {
                            name: $name, demands: $demands, guards: None, exempts: false,
                            waivable: $waivable,
                        },
                        $(Rule::$guard => Page {
                            name: $guard_name, demands: $guard_demands,
                            guards: Some(Rule::$promise), exempts: false, waivable: false,
                        },)*
                        $(Rule::$exempt => Page {
                            name: $exempt_name, demands: $exempt_demands,
                            guards: Some(Rule::$promise), exempts: true, waivable: false,
                        },)*
                    )*
                }
            }
        }
    };
}

rules! {
    IdentityKnown "identity-known" {
        waivable: false,
        "Somebody else's objects are never touched, and a pod only if it is the very one that was meant.",
        OwnerCheck "owner-check"
            "A pod is ours only if its labels and its owner say so.",
        DeleteByUid "delete-by-uid"
            "Every delete carries the uid of the object as a precondition."
    }
    ViewCurrent "view-current" {
        waivable: false,
        "Nobody is disrupted on a view that does not show what was just written.",
        ReadYourWrites "read-your-writes"
            "A watch cache is behind until it shows Ensemble's own writes."
    }
    ClaimsIntact "claims-intact" {
        waivable: false,
        "A member is not disrupted while its claims are not all there, and a used one never gets an empty volume.",
        BornKeepsItsClaims "born-keeps-its-claims"
            "A missing claim of a member that was Ready once is not created again.",
        BornKnowsItsClaims "born-knows-its-claims"
            "A claim that replaced the one of a used member is not used until you accept it.",
        ClaimsBeforePod "claims-before-pod"
            "A pod is created only when all claims of its member exist.",
        LedgerFirst "ledger-first"
            "An ordinal is recorded in the status before anything is created for it."
    }
    DataPresent "data-present" {
        waivable: false,
        "If members were used before and no claim of any is left, nothing is created at all."
    }
    ClaimUnused "claim-unused" {
        waivable: false,
        "A claim goes only by policy or request, written down first, and never while a pod uses it.",
        LetGoWrittenFirst "let-go-written-first"
            "A claim is deleted only after its deletion was recorded in the status.",
        LetGoByUid "let-go-by-uid"
            "Only the claim with the recorded uid is deleted, not another of the same name.",
        OfflineKeepsItsClaims "offline-keeps-its-claims"
            "The claims of an offline member are kept, whatever storage.whenScaled says: it comes back on them."
    }
    OneChangeAtATime "one-change-at-a-time" {
        waivable: false,
        "One change at a time, also with two controllers, a late write and a switchover under way.",
        NoChangeInASwitch "no-change-in-a-switch"
            "No running member is disrupted during a switchover.",
        IntentByVersion "intent-by-version"
            "A disruption is recorded only at the resourceVersion that it was planned from.",
        SwitchByItsAuthor "switch-by-its-author"
            "Only the controller that recorded a switchover carries it out.",
        SwitchStoredFirst "switch-stored-first"
            "A switchover is recorded before the engine is asked for it.",
        SupersededStandsDown "superseded-stands-down"
            "A controller stops once a controller that leads later has written the status.",
        UnreadyByVersion "unready-by-version"
            "A pod that is not Ready is deleted at the resourceVersion just read: API servers may evict it at any.",
        TakeOverAfterSilence "take-over-after-silence"
            "A controller that was overtaken takes over only after it held the Lease for a minute in which nobody else wrote the status."
    }
    WithinBudget "within-budget" {
        waivable: true,
        "Never more members are unavailable by our hand than the budget allows; one that is Ready and not in sync is unavailable.",
        BudgetCountsGrants "budget-counts-grants"
            "Disruptions granted in the same pass count against the budget.",
        BudgetCountsIntents "budget-counts-intents"
            "Disruptions that are recorded and not finished count against the budget.",
        SwitchWithinBudget "switch-within-budget"
            "No switchover starts while other members recover and the budget leaves no room for one more.",
        ReadyIsNotInSync "ready-is-not-in-sync"
            "A replica that is Ready and not in sync counts as unavailable.",
        RecoveryOneAtATime "recovery-one-at-a-time"
            "Members that were unready for long are recreated one at a time: the next waits until the last one is Ready, or had its time.",
        RecoveryLetsSettle "recovery-lets-settle"
            "A member whose engine has just come up gets recoverAfterSeconds to become Ready, however long it was away before.",
        RecoverySparesOnceReady "recovery-spares-once-ready"
            "Without the right to read nodes, a pod that may have been Ready is not recreated for being unready for long.";
        DownCostsNoBudget "down-costs-no-budget"
            "A member that is proven down is replaced whatever the budget says: it is unavailable already.";
        RecoveryExceedsBudget "recovery-exceeds-budget"
            "A member that was unready for recoverAfterSeconds is replaced by a newer template although the budget is used up.";
        SwitchWaitIsBounded "switch-wait-is-bounded"
            "A switchover does not wait for a member that does not come back within a minute.";
        ApartCostsNoBudget "apart-costs-no-budget"
            "A replica that is Ready and kept from streaming by its own configuration does not count as unavailable."
    }
    EvictionLetFinish "eviction-let-finish" {
        waivable: false,
        "An eviction that came to nothing is taken out of our own budget, and never one that is under way."
    }
    WaivedForOneMember "waived-for-one-member" {
        waivable: false,
        "A rule that you waive is suspended for the one member that the request names, and holds for every other.",
        WaiverExpires "waiver-expires"
            "A waiver ends when its time is up, and with the controller that accepted it.",
        SomeRulesStand "some-rules-stand"
            "Rules about identity, ownership, claims and data are not waived."
    }
    ProvenDown "proven-down" {
        waivable: false,
        "Down is proven, never guessed.",
        NodesKnown "nodes-known"
            "Without the right to read nodes, container statuses do not prove that a member is down.",
        UnhealthyIsNotDown "unhealthy-is-not-down"
            "A member that runs and is not Ready is not down.",
        NodeGoneAfterAWhile "node-gone-after-a-while"
            "A node missing from the watch cache counts as deleted only after a while.",
        WaitForTerminating "wait-for-terminating"
            "A terminating pod counts as running until it is gone.",
        EndedOnceIsNotDown "ended-once-is-not-down"
            "A container that ended once is restarted at once: a member is down only when its kubelet backs off."
    }
    StillWanted "still-wanted" {
        waivable: false,
        "What was planned is looked at again before it is done, and dropped if the world or the spec has changed.",
        EngineAskedAgain "engine-asked-again"
            "Answers from before a disruption was recorded do not confirm it.",
        LiveConfirmation "live-confirmation"
            "A disruption is confirmed on pods that were listed after it was recorded."
    }
    RoleKnown "role-known" {
        waivable: true,
        "Nobody who runs is disrupted while it is not known who leads, or while two claim to.",
        LeadContested "lead-contested"
            "When two members claim to lead, neither is taken for the leader.",
        LeaderBacked "leader-backed"
            "A leader is not trusted while another member names a different one.",
        LeaderBorneOut "leader-borne-out"
            "A leader is trusted only if another member or its pod label confirms it.",
        SightingFresh "sighting-fresh"
            "Old answers of a member do not count.",
        SightingOfThisRun "sighting-of-this-run"
            "Answers from before the container restarted do not count.";
        DownHasNoRole "down-has-no-role"
            "A member that is proven down is replaced while no leader is known: it leads nobody.";
        RecoveryNeedsNoLeader "recovery-needs-no-leader"
            "When nobody led and nobody was Ready for recoverAfterSeconds, members are recreated without a leader.";
        NoneNeedsNoLeader "none-needs-no-leader"
            "When replicas is 0 and no member has led for recoverAfterSeconds, the members that are left are removed without a leader."
    }
    PrimaryHandedOver "primary-handed-over" {
        waivable: true,
        "The primary is not touched before its lead was handed over and seen to have arrived.",
        ArrivedAtAHigherTerm "arrived-at-a-higher-term"
            "A switchover is complete only when the new primary leads at a higher term.",
        SwitchHasADeadline "switch-has-a-deadline"
            "A switchover that does not complete in time is abandoned.",
        SingleRunsAlone "single-runs-alone"
            "Where nobody is to take over, the primary is disrupted only once no other member runs.",
        LockHolderKept "lock-holder-kept"
            "A member that others name as the holder of the leader lock, or that led last and has just stopped, is protected until the lock moves or expires, even if nothing of it runs.";
        OnlyMemberRestarts "only-member-restarts"
            "Where no other member is asked for, there is no replica to hand over to: the primary is disrupted with downtime."
    }
    CopiesLeft "copies-left" {
        waivable: true,
        "Scaling in never removes the last replica in sync, nor the synchronous standby while no other replica can replace it."
    }
    MinimumKept "minimum-kept" {
        waivable: true,
        "A member is removed by request only if as many others serve as spec.scaling.min demands."
    }
    LastPrimaryFirst "last-primary-first" {
        waivable: true,
        "If no member runs, the one that was primary last starts first, and the others wait until a primary is known."
    }
    PrimaryRouted "primary-routed" {
        waivable: false,
        "The primary Service selects the value of the role label that the primary's own pod carries, also while members with agents of two versions are there."
    }
    ResizeSeenDone "resize-seen-done" {
        waivable: false,
        "New CPU and memory have arrived when the kubelet has given them to the container; the next member waits for that."
    }
    OnlyWhatChanged "only-what-changed" {
        waivable: false,
        "A change in place writes only the fields that it changes: what admission made of the rest stays, and nothing else restarts.",
        PutBackNoticed "put-back-noticed"
            "A container whose image an admission rule changed back is not waited for: it will not restart.",
        TakenBackRestartsNothing "taken-back-restarts-nothing"
            "A container that runs the image a change goes back to is not waited for: it will not restart.",
        GenerationsTold "generations-told"
            "Containers are restarted in place only where the kubelet reports the generation it has seen."
    }
    TemplateTried "template-tried" {
        waivable: false,
        "No member is disrupted until the API server accepts the new template and its images are pulled.",
        NoMoreThanBefore "no-more-than-before"
            "A dry run that only a quota refuses counts as accepted only if a new pod asks for no more than the one it replaces."
    }
    GrowthPaced "growth-paced" {
        waivable: false,
        "At most two new members, or maxUnavailable if that is more, copy their data from the primary at a time."
    }
    SuccessorSynced "successor-synced" {
        waivable: true,
        "The lead goes only to a replica that the primary sees stream at its term and, in synchronous mode, to the named standby.",
        SyncAtItsTerm "sync-at-its-term"
            "A replica at a different term than the primary is not in sync.",
        SyncStandbyNamed "sync-standby-named"
            "In synchronous mode only the named standby can become primary.",
        ApartIsNoCopy "apart-is-no-copy"
            "A replica that is kept from streaming by its own configuration is never in sync and never becomes primary.",
        SuccessorFollowsTheLeader "successor-follows-the-leader"
            "A replica that streams from another replica does not become primary.",
        SuccessorApplied "successor-applied"
            "A replica that has more left to replay than `engine.maxLag` does not become primary.",
        SwitchAtTheSameTerm "switch-at-the-same-term"
            "A switchover is sent only if both pods and the term are still those recorded."
    }
    PrimaryHasSuccessor "primary-has-successor" {
        waivable: true,
        "Where the primary is to be restarted as it is, a replica is in sync first."
    }
    QuorumHolds "quorum-holds" {
        waivable: true,
        "Where members vote, as many voters are left as the engine needs when one is disrupted.",
        BudgetKeepsQuorum "budget-keeps-quorum"
            "A PodDisruptionBudget of members that vote keeps a majority, whatever `rollout.maxUnavailable` allows.";
        FewVotersGiveWay "few-voters-give-way"
            "With one or two voters no change would ever keep the quorum: all others must be there instead.";
        VoterMissedAlready "voter-missed-already"
            "A voter that is proven down, or was unready for recoverAfterSeconds, is missed already."
    }
    ParametersInOrder "parameters-in-order" {
        waivable: false,
        "Engines restart in the order that a changed parameter demands: a replica never has less than its primary."
    }
    FailureOfThisChange "failure-of-this-change" {
        waivable: false,
        "A value is put back only if a member did not come up with that very change: a failure of an earlier one condemns no later one."
    }
    ParametersNoticed "parameters-noticed" {
        waivable: true,
        "The second turn of restarts waits until everybody of the first had time to notice what changed, and has answered since."
    }
    EngineSettled "engine-settled" {
        waivable: true,
        "An engine that is starting, stopping, rewinding or copying its data is let finish, however long it takes."
    }
    EngineNotPaused "engine-not-paused" {
        waivable: true,
        "While high availability is paused, no member is disrupted, whatever state its pod is in.",
        PauseRemembered "pause-remembered"
            "A pause that was seen holds until a member answers that it is over.";
        EndedMakesWay "ended-makes-way"
            "A pod that has ended for good is cleared away also during a pause: nothing of it runs or ever will."
    }
    ZoneKept "zone-kept" {
        waivable: false,
        "A member stays in the zone that it was created in, where its volumes are.",
        ZonesEven "zones-even"
            "A new member goes to the zone with the fewest members."
    }
    RolloutNotPaused "rollout-not-paused" {
        waivable: false,
        "While the rollout is paused or the Ensemble is suspended, no member is changed for it."
    }
    Approved "approved" {
        waivable: false,
        "A supervised rollout does not touch the primary, nor the last member that is left, before this revision is approved."
    }
}

impl Rule {
    /// Its name, as reports have it.
    pub const fn as_str(self) -> &'static str {
        self.page().name
    }

    /// The rule of that name.
    pub fn named(name: &str) -> Option<Rule> {
        Rule::ALL.iter().copied().find(|rule| rule.as_str() == name)
    }

    /// Those that a person may do without for a while.
    pub fn waivable() -> impl Iterator<Item = Rule> {
        Rule::ALL.iter().copied().filter(|r| r.page().waivable)
    }

    /// The rules without which this promise would not hold.
    pub fn guarded_by(self) -> impl Iterator<Item = Rule> {
        let all = Rule::ALL.iter().copied();
        all.filter(move |rule| rule.page().guards == Some(self))
    }
}

impl std::fmt::Display for Rule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kebab(variant: &str) -> String {
        let mut name = String::new();
        for letter in variant.chars() {
            if letter.is_uppercase() && !name.is_empty() {
                name.push('-');
            }
            name.extend(letter.to_lowercase());
        }
        name
    }

    #[test]
    fn every_rule_is_named_as_its_variant_is() {
        for rule in Rule::ALL {
            assert_eq!(rule.as_str(), kebab(&format!("{rule:?}")));
        }
    }

    #[test]
    fn every_rule_says_what_it_demands() {
        for rule in Rule::ALL {
            let text = rule.page().demands;
            assert!(text.ends_with('.') && text.len() > 20, "{rule}: {text:?}");
        }
    }

    #[test]
    fn whose_a_thing_is_and_the_data_of_a_member_are_waived_by_nobody() {
        for rule in [
            Rule::IdentityKnown,
            Rule::OwnerCheck,
            Rule::ClaimsIntact,
            Rule::DataPresent,
        ] {
            assert!(!rule.page().waivable, "{rule}");
        }
    }

    #[test]
    fn a_guard_is_not_waived_by_itself() {
        let guards = Rule::ALL.iter().filter(|r| r.page().guards.is_some());
        for guard in guards {
            assert!(!guard.page().waivable, "{guard}");
        }
    }
}
