//! The safety rules: one closed list for reports, refusals, mutants and the page of guarantees.
//!
//! A rule is a promise, or it guards one: without the guard the promise would not hold. Each is known
//! by one name in kebab case, in reports and in test builds that switch it off. Names are for ever.

/// What is said of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Its name, as reports have it.
    pub name: &'static str,
    /// What it demands, in one sentence.
    pub demands: &'static str,
    /// The promise that it guards; none if it is one itself.
    pub guards: Option<Rule>,
    /// Whether a person may take the risk and do without it for a while. A guard goes with its
    /// promise and is never waived by itself.
    pub waivable: bool,
}

macro_rules! rules {
    ($($promise:ident $name:literal {
        waivable: $waivable:literal, $demands:literal
        $(, $guard:ident $guard_name:literal $guard_demands:literal)*
    })*) => {
        /// A safety rule.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum Rule {
            $(#[doc = $demands] $promise, $(#[doc = $guard_demands] $guard,)*)*
        }

        impl Rule {
            /// All of them, each promise followed by its guards.
            pub const ALL: &[Rule] = &[$(Rule::$promise, $(Rule::$guard,)*)*];

            /// What is said of it.
            pub const fn page(self) -> Page {
                match self {
                    $(
                        Rule::$promise => Page {
                            name: $name, demands: $demands, guards: None, waivable: $waivable,
                        },
                        $(Rule::$guard => Page {
                            name: $guard_name, demands: $guard_demands,
                            guards: Some(Rule::$promise), waivable: false,
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
            "Only the claim with the recorded uid is deleted, not another of the same name."
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
            "A controller stops once a controller that leads later has written the status."
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
            "A replica that is Ready and not in sync counts as unavailable."
    }
    EvictionLetFinish "eviction-let-finish" {
        waivable: false,
        "An eviction that came to nothing is taken out of our own budget, and never one that is under way."
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
            "A terminating pod counts as running until it is gone."
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
            "Answers from before the container restarted do not count."
    }
    PrimaryHandedOver "primary-handed-over" {
        waivable: true,
        "The primary is not touched before its lead was handed over and seen to have arrived.",
        ArrivedAtAHigherTerm "arrived-at-a-higher-term"
            "A switchover is complete only when the new primary leads at a higher term.",
        SwitchHasADeadline "switch-has-a-deadline"
            "A switchover that does not complete in time is abandoned."
    }
    ResizeSeenDone "resize-seen-done" {
        waivable: false,
        "New CPU and memory have arrived when the kubelet has given them to the container; the next member waits for that."
    }
    SuccessorSynced "successor-synced" {
        waivable: true,
        "The lead goes only to a replica that the primary sees stream at its term and, in synchronous mode, to the named standby.",
        SyncAtItsTerm "sync-at-its-term"
            "A replica at a different term than the primary is not in sync.",
        SyncStandbyNamed "sync-standby-named"
            "In synchronous mode only the named standby can become primary.",
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
        FewVotersGiveWay "few-voters-give-way"
            "With one or two voters no change would ever keep the quorum: all others must be there instead."
    }
    ParametersInOrder "parameters-in-order" {
        waivable: false,
        "Engines restart in the order that a changed parameter demands: a replica never has less than its primary."
    }
    ParametersNoticed "parameters-noticed" {
        waivable: true,
        "The second turn of restarts waits until everybody of the first had time to notice what changed, and has answered since."
    }
    EngineSettled "engine-settled" {
        waivable: true,
        "An engine that is starting or stopping is let finish."
    }
    EngineNotPaused "engine-not-paused" {
        waivable: true,
        "While high availability is paused, nobody is touched."
    }
}

impl Rule {
    /// Its name, as reports have it.
    pub const fn as_str(self) -> &'static str {
        self.page().name
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
