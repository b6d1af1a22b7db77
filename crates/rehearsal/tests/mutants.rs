//! Each rule is needed: switched off, some bad day ends badly that ends well with it.
//!
//! The rules, scenarios and kinds of fault are fixed. The call at which the faults come is looked for
//! from a hint on, so that this stays quick and does not break when calls move. A rule counts as needed
//! if an invariant is broken without it. That the script does not end is not enough, except for those
//! that say so.
#![allow(clippy::unwrap_used)]

use ensemble_api::Rule;
use ensemble_planner::mutants;
use ensemble_rehearsal::fault::{Fault, What};
use ensemble_rehearsal::scenario::{self, Scenario};
use ensemble_rehearsal::{Violation, hands_off, roles, run, sizes, tight, votes};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A rehearsal makes and drops small objects most of its time.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A rule, and the bad day on which its absence shows.
struct Mutant {
    rule: Rule,
    scenario: &'static str,
    /// What goes wrong, all at one call; nothing on a calm day.
    faults: &'static [What],
    /// At which call it was last seen to matter.
    hint: u32,
    /// Without it the script does not end; no invariant is required to break.
    stalls: bool,
}

/// Without the rule an invariant is broken on a calm day of that scenario.
const fn needed(rule: Rule, scenario: &'static str) -> Mutant {
    Mutant {
        rule,
        scenario,
        faults: &[],
        hint: 0,
        stalls: false,
    }
}

impl Mutant {
    /// Only if these go wrong.
    const fn if_comes(self, faults: &'static [What], hint: u32) -> Self {
        Self {
            faults,
            hint,
            ..self
        }
    }

    /// What is broken is that the script does not end.
    const fn stalls(self) -> Self {
        Self {
            stalls: true,
            ..self
        }
    }
}

/// The view stands still while the one that is to lead dies.
const GONE: &[What] = &[What::Stale, What::NodeDies];
const BLIND: &[What] = &[What::ServerError, What::PodsStale, What::PodDeleted];

const MUTANTS: &[Mutant] = &[
    needed(Rule::IntentByVersion, "lost-claim").if_comes(&[What::LateWrite], 3),
    needed(Rule::LiveConfirmation, "roll-alone").if_comes(BLIND, 32),
    needed(Rule::DeleteByUid, "roll-alone"),
    needed(Rule::QuorumHolds, "votes-careless"),
    needed(Rule::FewVotersGiveWay, "votes-pair").stalls(),
    needed(Rule::ReadYourWrites, "roll-alone")
        .if_comes(&[What::Stale], 7)
        .stalls(),
    needed(Rule::WaitForTerminating, "roll-alone"),
    needed(Rule::OwnerCheck, "foreign").stalls(),
    needed(Rule::LedgerFirst, "scale"),
    needed(Rule::BornKeepsItsClaims, "lost-claim"),
    needed(Rule::BornKnowsItsClaims, "claim-applied-again"),
    needed(Rule::UnhealthyIsNotDown, "unwell-alone"),
    needed(Rule::WithinBudget, "unwell-alone"),
    needed(Rule::BudgetCountsGrants, "roll-alone").stalls(),
    needed(Rule::ResizeSeenDone, "resize"),
    needed(Rule::OnlyWhatChanged, "roles-mirror-label").stalls(),
    needed(Rule::PutBackNoticed, "put-back").stalls(),
    needed(Rule::TakenBackRestartsNothing, "roles-taken-back").stalls(),
    needed(Rule::GenerationsTold, "old-kubelet").stalls(),
    needed(Rule::GrowthPaced, "growth").stalls(),
    needed(Rule::ZonesEven, "zones").stalls(),
    needed(Rule::WaivedForOneMember, "waive"),
    needed(Rule::WaiverExpires, "waive"),
    // Roles: what a member is.
    needed(Rule::ReadyIsNotInSync, "roles-window"),
    needed(Rule::RoleKnown, "roles-careless").if_comes(&[What::RolesSilent], 32),
    needed(Rule::EngineNotPaused, "roles-image-0").if_comes(&[What::EnginePaused], 30),
    needed(Rule::PrimaryHandedOver, "roles-scale-in").if_comes(&[What::SwitchRefused], 3),
    needed(Rule::LeaderBorneOut, "roles-careless").if_comes(&[What::LiarAlone], 32),
    needed(Rule::EngineSettled, "roles-rewind"),
    needed(Rule::RecoveryLetsSettle, "hands-off-paused"),
    needed(Rule::PrimaryHasSuccessor, "roles-careless-restart"),
    needed(Rule::CopiesLeft, "roles-cut-off"),
    needed(Rule::SingleRunsAlone, "roles-to-none-careless"),
    needed(Rule::LastPrimaryFirst, "roles-to-none-slowly"),
    // Roles: a switchover before it is asked for, while it is under way, and if it does not end.
    needed(Rule::SyncStandbyNamed, "roles-switch-unnamed"),
    needed(Rule::SuccessorSynced, "roles-image-0").if_comes(GONE, 54),
    needed(Rule::SwitchWithinBudget, "roles-image-2").if_comes(&[What::PodDeleted], 61),
    needed(Rule::SyncAtItsTerm, "roles-window").if_comes(&[What::OldTermFirst], 0),
    needed(Rule::ArrivedAtAHigherTerm, "roles-image-0").if_comes(&[What::PromotedLate], 50),
    needed(Rule::SwitchStoredFirst, "roles-image-0"),
    needed(Rule::OneChangeAtATime, "roles-switch-and-image"),
    needed(Rule::NoChangeInASwitch, "roles-switch-and-image"),
    needed(Rule::PrimaryRouted, "roles-agent-unnamed"),
    // The member that is named.
    needed(Rule::OfflineKeepsItsClaims, "offline-and-delete"),
    // Roles: parameters.
    needed(Rule::ParametersInOrder, "roles-parameters"),
    needed(Rule::ParametersNoticed, "roles-parameters"),
    needed(Rule::NoneNeedsNoLeader, "roles-to-none-sync-1")
        .if_comes(&[What::PodDeleted], 45)
        .stalls(),
    needed(Rule::SwitchHasADeadline, "roles-image-0")
        .if_comes(&[What::NodeDies], 57)
        .stalls(),
];

const NO_TAGS: &str = "the model's replicas have no tags, all follow the leader and replay at once";
const CALM: &str = "tried: a calm day of every scenario";

/// What stands before the harm of believing the wrong one.
const NAMED: &str = "whoever others name as the holder of the lock is protected as well";

/// Rules that no outcome has shown to be needed; tests of the planner kill all of them. With what stands
/// before the harm here, or what was tried.
const NOT_SHOWN: &[(Rule, &str)] = &[
    (
        Rule::SomeRulesStand,
        "the API server refuses a request for such a rule before we see it",
    ),
    (
        Rule::MinimumKept,
        "whom a request removes leaves by the rules of every other that leaves",
    ),
    (
        Rule::ZoneKept,
        "the simulator's volumes are in a zone, and keep their member there by themselves",
    ),
    (Rule::IdentityKnown, CALM),
    (Rule::ViewCurrent, CALM),
    (Rule::ClaimsIntact, CALM),
    (Rule::ClaimsBeforePod, CALM),
    (Rule::DataPresent, CALM),
    (Rule::ClaimUnused, CALM),
    (Rule::LetGoWrittenFirst, CALM),
    (Rule::LetGoByUid, CALM),
    (Rule::SupersededStandsDown, CALM),
    (
        Rule::UnreadyByVersion,
        "a late eviction that gets through takes a member that serves nobody",
    ),
    (
        Rule::TakeOverAfterSilence,
        "two that take turns write down and confirm like any two controllers; it keeps them from \
         writing against each other for ever",
    ),
    (
        Rule::BudgetCountsIntents,
        "what is granted beside a disruption has a look of its own, which shows the first one done",
    ),
    (Rule::EvictionLetFinish, CALM),
    (Rule::ProvenDown, CALM),
    (Rule::NodesKnown, CALM),
    (Rule::NodeGoneAfterAWhile, CALM),
    (Rule::StillWanted, CALM),
    (Rule::RolloutNotPaused, CALM),
    (Rule::Approved, CALM),
    (Rule::PauseRemembered, CALM),
    (Rule::EndedMakesWay, CALM),
    (Rule::LockHolderKept, CALM),
    (Rule::OnlyMemberRestarts, CALM),
    (Rule::EndedOnceIsNotDown, CALM),
    (Rule::DownHasNoRole, CALM),
    (Rule::RecoveryNeedsNoLeader, CALM),
    (Rule::DownCostsNoBudget, CALM),
    (Rule::RecoveryExceedsBudget, CALM),
    (Rule::RecoveryOneAtATime, CALM),
    (Rule::RecoverySparesOnceReady, CALM),
    (Rule::SwitchWaitIsBounded, CALM),
    (Rule::VoterMissedAlready, CALM),
    (Rule::BudgetKeepsQuorum, CALM),
    (Rule::LeadContested, NAMED),
    (Rule::LeaderBacked, NAMED),
    (Rule::ApartCostsNoBudget, NO_TAGS),
    (Rule::ApartIsNoCopy, NO_TAGS),
    (Rule::SuccessorFollowsTheLeader, NO_TAGS),
    (Rule::SuccessorApplied, NO_TAGS),
    (
        Rule::TemplateTried,
        "no script asks for a template that the API server refuses",
    ),
    (
        Rule::NoMoreThanBefore,
        "the simulated quota counts pods, not what they ask for",
    ),
    (
        Rule::FailureOfThisChange,
        "what came of a restart is forgotten as soon as another change is stored",
    ),
    (
        Rule::SwitchAtTheSameTerm,
        "the engine is asked by the words that were stored, and refuses if another leads by then",
    ),
    (
        Rule::SightingFresh,
        "who is disrupted is asked again just before",
    ),
    (
        Rule::SightingOfThisRun,
        "who is disrupted is asked again just before",
    ),
    (
        Rule::EngineAskedAgain,
        "tried: the leader changes at every call of roles-careless",
    ),
    (
        Rule::SwitchByItsAuthor,
        "only one of two can store it as asked, and only who stored it asks",
    ),
];

fn faults(mutant: &Mutant, at_call: u32) -> Vec<Fault> {
    let each = mutant.faults.iter();
    each.map(|what| Fault {
        what: *what,
        at_call,
    })
    .collect()
}

/// What breaks without the rule and does not with it.
fn killed(mutant: &Mutant, scenario: &Scenario) -> Option<(Vec<Fault>, Violation)> {
    let calls = if mutant.faults.is_empty() { 1 } else { 100 };
    let hint_first = std::iter::once(mutant.hint).chain(0..calls);
    for at_call in hint_first {
        let faults = faults(mutant, at_call);
        mutants::switch_off(Some(mutant.rule));
        let broken = run(scenario, &faults, false).err();
        mutants::switch_off(None);
        if let Some(violation) = broken
            && (mutant.stalls || violation.rule != "converges")
            && run(scenario, &faults, false).is_ok()
        {
            return Some((faults, violation));
        }
    }
    None
}

/// Whether a bad day was found on which the rule is needed; it is told.
fn is_killed(mutant: &Mutant) -> bool {
    let scenario = scenario::find(mutant.scenario).unwrap();
    let killed = killed(mutant, scenario);
    if let Some((faults, violation)) = &killed {
        println!(
            "{}: {} with {faults:?} breaks {}: {}",
            mutant.rule, scenario.name, violation.rule, violation.seen
        );
    }
    killed.is_some()
}

/// A rule is switched off for one thread alone: whoever is free takes the next.
#[test]
fn each_rule_is_needed_on_some_bad_day() {
    let next = AtomicUsize::new(0);
    let survivors = Mutex::new(Vec::new());
    let work = || {
        while let Some(mutant) = MUTANTS.get(next.fetch_add(1, Ordering::Relaxed)) {
            if !is_killed(mutant) {
                survivors.lock().unwrap().push(mutant.rule);
            }
        }
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..cores {
            scope.spawn(work);
        }
    });
    let survivors = survivors.into_inner().unwrap();
    assert!(survivors.is_empty(), "no bad day kills {survivors:?}");
}

/// Nobody adds a rule, or moves one from one list to the other, without noticing.
#[test]
fn a_rule_is_either_shown_to_be_needed_or_said_not_to_be_and_noticed_by_the_planners_tests() {
    let noticed = include_str!("../../planner/tests/mutants.rs");
    for rule in Rule::ALL {
        let shown = MUTANTS.iter().filter(|m| m.rule == *rule).count();
        let not_shown = NOT_SHOWN.iter().filter(|(of, _)| of == rule).count();
        assert_eq!(shown + not_shown, 1, "{rule}");
        let case = noticed.contains(&format!("(Rule::{rule:?}, ||"));
        assert!(shown == 1 || case, "{rule}: nothing notices it");
    }
}

#[test]
fn without_faults_the_scenarios_without_a_budget_end_well() {
    mutants::switch_off(None);
    for scenario in scenario::ALONE
        .iter()
        .chain(tight::ALONE)
        .chain(roles::ALONE)
        .chain(sizes::ALONE)
        .chain(hands_off::ALL)
        .chain(votes::ALONE)
    {
        if let Err(violation) = run(scenario, &[], true) {
            let trace = violation.trace.join("\n");
            panic!(
                "{}: {}: {}\n{trace}",
                scenario.name, violation.rule, violation.seen
            );
        }
    }
}
