//! What is promised: the rule that keeps it, where that rule lives, and who notices if it is broken.

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Guarantee {
    /// In words.
    pub promise: &'static str,
    /// The rule's name, as reports have it.
    pub predicate: &'static str,
    /// The file that enforces it.
    pub file: &'static str,
    /// Tests that fail if it is broken, by name.
    pub tests: &'static [&'static str],
    /// Rules that a test build switches off by name, each noticed by a test.
    pub mutants: &'static [&'static str],
}

const SAFETY: &str = "crates/planner/src/safety/mod.rs";
const ROLES: &str = "crates/planner/src/safety/roles.rs";
const TURNS: &str = "crates/planner/src/safety/turns.rs";
const CONFIRM: &str = "crates/planner/src/safety/confirm.rs";

/// All of them.
pub const ALL: &[Guarantee] = &[
    Guarantee {
        promise: "Somebody else's objects are never touched, and a pod only if it is the very one that was meant.",
        predicate: "identity-known",
        file: SAFETY,
        tests: &[
            "a_foreign_pod_is_never_touched_and_work_goes_on_once_it_is_gone",
            "an_eviction_is_for_that_very_pod_at_that_very_version",
        ],
        mutants: &["owner-check"],
    },
    Guarantee {
        promise: "Nobody is disrupted on a view that does not show what was just written.",
        predicate: "view-current",
        file: SAFETY,
        tests: &["while_the_view_lags_behind_our_own_writes_nobody_is_disrupted"],
        mutants: &["view-current", "read-your-writes"],
    },
    Guarantee {
        promise: "A member is not disrupted while its claims are not all there, and a used one never gets an empty volume.",
        predicate: "claims-intact",
        file: SAFETY,
        tests: &[
            "a_lost_claim_of_a_used_member_is_reported_and_never_made_anew",
            "a_claim_that_began_to_end_in_between_refuses",
            "a_born_member_does_not_start_on_a_claim_that_took_the_place_of_its_own",
        ],
        mutants: &[
            "claims-intact",
            "born-keeps-its-claims",
            "born-knows-its-claims",
            "ledger-first",
        ],
    },
    Guarantee {
        promise: "If members were used before and no claim of any is left, nothing is created at all.",
        predicate: "data-present",
        file: SAFETY,
        tests: &["if_no_claim_of_any_member_is_left_nothing_is_created"],
        mutants: &["data-missing-halts"],
    },
    Guarantee {
        promise: "A claim goes only by policy or request, written down first, and never while a pod uses it.",
        predicate: "claim-unused",
        file: SAFETY,
        tests: &["a_request_of_the_status_alone_lets_no_claim_go_that_a_pod_uses"],
        mutants: &["claim-unused", "let-go-written-first", "let-go-by-uid"],
    },
    Guarantee {
        promise: "One change at a time, also with two controllers, a late write and a switchover under way.",
        predicate: "one-change-at-a-time",
        file: SAFETY,
        tests: &[
            "a_foreign_intent_refuses_everything",
            "while_the_lead_is_handed_over_nobody_is_disrupted",
            "two_controllers_that_both_believe_to_lead_never_exceed_the_budget",
        ],
        mutants: &["one-change-at-a-time", "no-change-in-a-switch"],
    },
    Guarantee {
        promise: "Never more members are unavailable by our hand than the budget allows; one that is Ready and not in sync is unavailable.",
        predicate: "within-budget",
        file: SAFETY,
        tests: &[
            "a_controller_killed_again_and_again_still_rolls_within_the_budget",
            "a_replica_that_is_ready_and_does_not_stream_uses_up_the_budget",
            "the_lead_is_not_handed_over_while_another_member_is_on_its_way_back",
        ],
        mutants: &[
            "budget-counts-grants",
            "budget-counts-intents",
            "switch-within-budget",
            "ready-is-not-in-sync",
        ],
    },
    Guarantee {
        promise: "An eviction that came to nothing is taken out of our own budget, and never one that is under way.",
        predicate: "eviction-let-finish",
        file: "crates/planner/src/safety/evictions.rs",
        tests: &[
            "a_member_that_lives_on_is_no_longer_counted_as_evicted_after_three_seconds",
            "while_our_own_eviction_is_not_answered_its_entry_stays",
            "an_eviction_that_came_to_nothing_is_taken_back_and_the_next_roll_goes_on",
        ],
        mutants: &["eviction-let-finish"],
    },
    Guarantee {
        promise: "Down is proven, never guessed.",
        predicate: "proven-down",
        file: SAFETY,
        tests: &[
            "two_unhealthy_members_are_not_down_and_wait_for_the_budget",
            "what_is_proven_down_is_deleted_and_what_runs_is_evicted",
        ],
        mutants: &["unhealthy-is-not-down", "node-gone-after-a-while"],
    },
    Guarantee {
        promise: "What was planned is looked at again before it is done, and dropped if the world or the spec has changed.",
        predicate: "still-wanted",
        file: CONFIRM,
        tests: &[
            "a_template_that_was_taken_back_in_between_refuses",
            "a_disruption_is_not_confirmed_by_what_members_said_before_it_was_written_down",
        ],
        mutants: &["still-wanted", "engine-asked-again", "live-confirmation"],
    },
    Guarantee {
        promise: "Nobody who runs is disrupted while it is not known who leads, or while two claim to.",
        predicate: "role-known",
        file: ROLES,
        tests: &[
            "while_the_role_of_a_running_member_is_unknown_and_nobody_leads_nobody_is_touched",
            "two_that_claim_the_lead_stop_everything",
            "one_that_claims_the_lead_while_all_others_are_silent_is_not_believed_without_its_label",
        ],
        mutants: &[
            "role-known",
            "lead-contested",
            "leader-backed",
            "leader-borne-out",
            "sighting-fresh",
            "sighting-of-this-run",
        ],
    },
    Guarantee {
        promise: "The primary is not touched before its lead was handed over and seen to have arrived.",
        predicate: "primary-handed-over",
        file: ROLES,
        tests: &[
            "the_primary_hands_over_to_an_updated_replica_and_is_not_touched",
            "an_upgrade_with_the_lead_at_1_changes_leader_once_and_loses_nothing",
            "one_that_leads_by_now_is_not_sent_what_restarts_it",
        ],
        mutants: &["primary-handed-over", "arrived-at-a-higher-term"],
    },
    Guarantee {
        promise: "New CPU and memory have arrived when the kubelet has given them to the container; the next member waits for that.",
        predicate: "resize-seen-done",
        file: "crates/planner/src/resize.rs",
        tests: &[
            "a_member_is_updated_once_its_kubelet_gave_it_and_the_note_goes",
            "more_cpu_restarts_nobody_moves_no_lead_and_the_kernel_has_it",
        ],
        mutants: &["resize-seen-done"],
    },
    Guarantee {
        promise: "The lead goes only to a replica that the primary sees stream at its term and, in synchronous mode, to the named standby.",
        predicate: "successor-synced",
        file: ROLES,
        tests: &[
            "nobody_is_handed_the_lead_who_does_not_stream_at_its_term",
            "in_synchronous_mode_only_the_named_standby_may_take_over",
            "a_primary_whose_replicas_lag_is_not_touched_until_one_has_caught_up",
        ],
        mutants: &[
            "successor-synced",
            "sync-at-its-term",
            "sync-standby-named",
            "switch-at-the-same-term",
        ],
    },
    Guarantee {
        promise: "Where the primary is to be restarted as it is, a replica is in sync first.",
        predicate: "primary-has-successor",
        file: ROLES,
        tests: &[
            "where_the_primary_is_to_be_restarted_it_is_once_a_replica_is_in_sync",
            "the_primary_restarts_only_while_a_replica_is_in_sync",
        ],
        mutants: &["primary-has-successor"],
    },
    Guarantee {
        promise: "Engines restart in the order that a changed parameter demands: a replica never has less than its primary.",
        predicate: "parameters-in-order",
        file: TURNS,
        tests: &[
            "what_is_raised_restarts_replicas_first_one_at_a_time",
            "what_is_lowered_restarts_the_primary_first",
            "a_restart_is_not_confirmed_if_another_has_the_first_turn_by_now",
        ],
        mutants: &["parameters-in-order"],
    },
    Guarantee {
        promise: "The second turn of restarts waits until everybody of the first had time to notice what changed, and has answered since.",
        predicate: "parameters-noticed",
        file: TURNS,
        tests: &[
            "the_second_turn_waits_until_everybody_of_the_first_had_time_to_notice",
            "the_second_turn_waits_for_one_of_the_first_that_does_not_answer",
            "a_restart_is_not_confirmed_by_what_the_first_turn_said_before_it_could_notice",
        ],
        mutants: &["parameters-noticed"],
    },
    Guarantee {
        promise: "An engine that is starting or stopping is let finish.",
        predicate: "engine-settled",
        file: ROLES,
        tests: &["an_engine_that_stops_or_starts_is_let_finish"],
        mutants: &["engine-settled"],
    },
    Guarantee {
        promise: "While high availability is paused, nobody is touched.",
        predicate: "engine-not-paused",
        file: ROLES,
        tests: &["a_paused_engine_is_left_alone"],
        mutants: &["engine-not-paused"],
    },
];

/// The page.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Guarantees\n\nEach promise with the rule that keeps it (as `ensemble why` names it), the file that enforces \
         it, tests that fail if it is broken, and the mutants that guard it: the rule switched off in a test build, which \
         some test must notice. A test checks this page against the code.\n\n<!-- Generated by `make docs` from \
         crates/cli/src/docs/guarantees.rs. -->\n",
    );
    let list = |names: &[&str]| {
        let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
        quoted.join(", ")
    };
    for one in ALL {
        text.push_str(&format!(
            "\n## {}\n\n**{}**\n\n- enforced in `{}`\n- tests: {}\n- mutants: {}\n",
            one.predicate,
            one.promise,
            one.file,
            list(one.tests),
            list(one.mutants)
        ));
    }
    text.push_str(
        "\n## What is not promised\n\n- Claims cannot be changed, grown, added or removed yet.\n- In asynchronous mode a \
         primary that is lost takes with it what no replica had; Ensemble only promises that its own acts lose nothing.\n\
         - Restoring etcd to an older state is noticed and the controller starts anew from what is there; what was done to \
         disks meanwhile cannot be undone by anybody.\n- A create that is on its way for half a minute while its sender \
         dies can give a used member an empty claim, if the claim was meanwhile made, used and deleted.\n",
    );
    text
}
