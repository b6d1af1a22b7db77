//! What is promised: where the rule that keeps it lives, and who notices if it is broken. What it
//! promises, and what guards it, the rule says itself.

use ensemble_api::Rule;

/// One promise.
#[derive(Clone, Copy, Debug)]
pub struct Guarantee {
    /// The rule that keeps it.
    pub rule: Rule,
    /// The file that enforces it.
    pub file: &'static str,
    /// Tests that fail if it is broken, by name.
    pub tests: &'static [&'static str],
}

const SAFETY: &str = "crates/planner/src/safety/mod.rs";
const ROLES: &str = "crates/planner/src/safety/roles.rs";
const TURNS: &str = "crates/planner/src/safety/turns.rs";
const CONFIRM: &str = "crates/planner/src/safety/confirm.rs";
const PEOPLE: &str = "crates/planner/src/safety/people.rs";

/// All of them.
pub const ALL: &[Guarantee] = &[
    Guarantee {
        rule: Rule::IdentityKnown,
        file: SAFETY,
        tests: &[
            "a_foreign_pod_is_never_touched_and_work_goes_on_once_it_is_gone",
            "an_eviction_is_for_that_very_pod_at_that_very_version",
        ],
    },
    Guarantee {
        rule: Rule::ViewCurrent,
        file: SAFETY,
        tests: &["while_the_view_lags_behind_our_own_writes_nobody_is_disrupted"],
    },
    Guarantee {
        rule: Rule::ClaimsIntact,
        file: SAFETY,
        tests: &[
            "a_lost_claim_of_a_used_member_is_reported_and_never_made_anew",
            "a_claim_that_began_to_end_in_between_refuses",
            "a_born_member_does_not_start_on_a_claim_that_took_the_place_of_its_own",
        ],
    },
    Guarantee {
        rule: Rule::DataPresent,
        file: SAFETY,
        tests: &["if_no_claim_of_any_member_is_left_nothing_is_created"],
    },
    Guarantee {
        rule: Rule::ClaimUnused,
        file: SAFETY,
        tests: &[
            "a_request_of_the_status_alone_lets_no_claim_go_that_a_pod_uses",
            "the_claims_of_an_offline_member_are_kept_whatever_policy_says",
        ],
    },
    Guarantee {
        rule: Rule::OneChangeAtATime,
        file: SAFETY,
        tests: &[
            "a_foreign_intent_refuses_everything",
            "while_the_lead_is_handed_over_nobody_is_disrupted",
            "two_controllers_that_both_believe_to_lead_never_exceed_the_budget",
        ],
    },
    Guarantee {
        rule: Rule::WithinBudget,
        file: SAFETY,
        tests: &[
            "a_controller_killed_again_and_again_still_rolls_within_the_budget",
            "a_replica_that_is_ready_and_does_not_stream_uses_up_the_budget",
            "the_lead_is_not_handed_over_while_another_member_is_on_its_way_back",
        ],
    },
    Guarantee {
        rule: Rule::EvictionLetFinish,
        file: "crates/planner/src/safety/evictions.rs",
        tests: &[
            "a_member_that_lives_on_is_no_longer_counted_as_evicted_after_three_seconds",
            "while_our_own_eviction_is_not_answered_its_entry_stays",
            "an_eviction_that_came_to_nothing_is_taken_back_and_the_next_roll_goes_on",
        ],
    },
    Guarantee {
        rule: Rule::WaivedForOneMember,
        file: "crates/planner/src/waivers.rs",
        tests: &[
            "it_suspends_its_rule_with_the_guards_of_it_for_its_member_and_nothing_else",
            "no_clock_and_no_loss_makes_it_longer",
            "what_cannot_be_waived_is_refused_by_its_field",
            "to_waive_takes_a_right_of_its_own",
        ],
    },
    Guarantee {
        rule: Rule::ProvenDown,
        file: SAFETY,
        tests: &[
            "two_unhealthy_members_are_not_down_and_wait_for_the_budget",
            "what_is_not_ready_is_deleted_at_its_version_and_what_is_ready_is_evicted",
            "a_container_that_ended_once_is_restarted_at_once_and_its_member_is_not_down",
        ],
    },
    Guarantee {
        rule: Rule::ZoneKept,
        file: "crates/planner/src/zones.rs",
        tests: &[
            "a_member_that_is_made_anew_stays_in_the_zone_of_its_claims",
            "new_members_go_to_the_zone_with_the_fewest_members",
        ],
    },
    Guarantee {
        rule: Rule::StillWanted,
        file: CONFIRM,
        tests: &[
            "a_template_that_was_taken_back_in_between_refuses",
            "a_disruption_is_not_confirmed_by_what_members_said_before_it_was_written_down",
        ],
    },
    Guarantee {
        rule: Rule::RoleKnown,
        file: ROLES,
        tests: &[
            "while_the_role_of_a_running_member_is_unknown_and_nobody_leads_nobody_is_touched",
            "two_that_claim_the_lead_stop_everything",
            "one_that_claims_the_lead_while_all_others_are_silent_is_not_believed_without_its_label",
        ],
    },
    Guarantee {
        rule: Rule::PrimaryHandedOver,
        file: ROLES,
        tests: &[
            "the_primary_hands_over_to_an_updated_replica_and_is_not_touched",
            "an_upgrade_with_the_lead_at_1_changes_leader_once_and_loses_nothing",
            "one_that_leads_by_now_is_not_sent_what_restarts_it",
        ],
    },
    Guarantee {
        rule: Rule::CopiesLeft,
        file: "crates/planner/src/safety/copies.rs",
        tests: &[
            "scaling_in_does_not_remove_the_last_replica_in_sync",
            "the_one_that_commits_wait_for_leaves_only_if_another_can_be_named",
        ],
    },
    Guarantee {
        rule: Rule::MinimumKept,
        file: "crates/planner/src/safety/removal.rs",
        tests: &["nobody_is_removed_below_the_least_number_of_members"],
    },
    Guarantee {
        rule: Rule::LastPrimaryFirst,
        file: "crates/planner/src/safety/first.rs",
        tests: &[
            "from_none_the_one_that_led_last_starts_first_and_the_others_once_it_leads",
            "from_none_nobody_starts_without_the_one_that_led_last",
        ],
    },
    Guarantee {
        rule: Rule::PrimaryRouted,
        file: "crates/planner/src/wanted.rs",
        tests: &[
            "the_primary_service_selects_what_the_primarys_own_pod_carries",
            "when_the_lead_goes_to_a_member_of_the_other_version_its_service_goes_along",
        ],
    },
    Guarantee {
        rule: Rule::OnlyWhatChanged,
        file: "crates/planner/src/method.rs",
        tests: &[
            "a_label_leaves_images_that_admission_rewrote_as_they_are",
            "a_label_restarts_nobody_where_images_are_rewritten_and_a_quota_fits_exactly",
        ],
    },
    Guarantee {
        rule: Rule::TemplateTried,
        file: "crates/planner/src/steps/prepare.rs",
        tests: &[
            "a_new_template_is_stored_tried_and_pulled_before_the_first_member_is_touched",
            "a_trial_that_only_a_quota_of_pods_refuses_stops_nobody",
        ],
    },
    Guarantee {
        rule: Rule::GrowthPaced,
        file: "crates/planner/src/steps/growth.rs",
        tests: &["two_new_members_copy_their_data_at_a_time_and_the_others_say_that_they_wait"],
    },
    Guarantee {
        rule: Rule::ResizeSeenDone,
        file: "crates/planner/src/resize.rs",
        tests: &[
            "a_member_is_updated_once_its_kubelet_gave_it_and_the_note_goes",
            "more_cpu_restarts_nobody_moves_no_lead_and_the_kernel_has_it",
        ],
    },
    Guarantee {
        rule: Rule::SuccessorSynced,
        file: ROLES,
        tests: &[
            "nobody_is_handed_the_lead_who_does_not_stream_at_its_term",
            "in_synchronous_mode_only_the_named_standby_may_take_over",
            "a_primary_whose_replicas_lag_is_not_touched_until_one_has_caught_up",
        ],
    },
    Guarantee {
        rule: Rule::PrimaryHasSuccessor,
        file: ROLES,
        tests: &[
            "where_the_primary_is_to_be_restarted_it_is_once_a_replica_is_in_sync",
            "the_primary_restarts_only_while_a_replica_is_in_sync",
        ],
    },
    Guarantee {
        rule: Rule::QuorumHolds,
        file: "crates/planner/src/safety/quorum.rs",
        tests: &[
            "a_voter_is_not_touched_while_too_few_others_are_there",
            "of_two_voters_one_may_be_touched_while_the_other_is_there",
            "no_single_fault_breaks_a_quorum",
        ],
    },
    Guarantee {
        rule: Rule::ParametersInOrder,
        file: TURNS,
        tests: &[
            "what_is_raised_restarts_replicas_first_one_at_a_time",
            "what_is_lowered_restarts_the_primary_first",
            "a_restart_is_not_confirmed_if_another_has_the_first_turn_by_now",
        ],
    },
    Guarantee {
        rule: Rule::ParametersNoticed,
        file: TURNS,
        tests: &[
            "the_second_turn_waits_until_everybody_of_the_first_had_time_to_notice",
            "the_second_turn_waits_for_one_of_the_first_that_does_not_answer",
            "a_restart_is_not_confirmed_by_what_the_first_turn_said_before_it_could_notice",
        ],
    },
    Guarantee {
        rule: Rule::FailureOfThisChange,
        file: "crates/planner/src/parameters.rs",
        tests: &[
            "a_failure_of_an_earlier_change_does_not_condemn_a_later_one",
            "what_came_of_restarts_is_forgotten_with_the_change_that_they_were_for",
        ],
    },
    Guarantee {
        rule: Rule::EngineSettled,
        file: PEOPLE,
        tests: &[
            "an_engine_that_stops_or_starts_is_let_finish",
            "a_member_at_work_on_its_data_is_let_finish_however_long_it_takes",
        ],
    },
    Guarantee {
        rule: Rule::EngineNotPaused,
        file: PEOPLE,
        tests: &[
            "a_paused_engine_is_left_alone",
            "while_the_engine_is_paused_nobody_is_touched_whatever_else_holds",
        ],
    },
    Guarantee {
        rule: Rule::RolloutNotPaused,
        file: PEOPLE,
        tests: &[
            "a_paused_rollout_touches_nobody_but_repairs_at_the_old_revision",
            "a_pause_or_suspension_in_between_refuses",
        ],
    },
    Guarantee {
        rule: Rule::Approved,
        file: PEOPLE,
        tests: &[
            "a_primary_that_waits_for_approval_waits_also_when_its_container_is_in_back_off",
            "it_waits_also_when_the_engine_has_moved_the_lead_meanwhile",
            "a_disruption_is_not_confirmed_without_the_approval_that_it_was_granted_with",
        ],
    },
];

/// The page.
pub fn markdown() -> String {
    let mut text = String::from(
        "# Guarantees\n\nEach promise with the rule that keeps it (as `ensemble why` names it), the file that enforces \
         it, tests that fail if it is broken, the rules that guard it, and the exemptions from it. An exemption is asked for \
         after all rules that it would override. Each rule, guard and exemption is switched off in a test build, and some \
         test must notice. Tests check this page against the code.\n\n<!-- Generated by \
         `make docs` from crates/cli/src/docs/guarantees.rs and crates/api/src/rule.rs. -->\n",
    );
    let list = |names: &[&str]| {
        let quoted: Vec<String> = names.iter().map(|n| format!("`{n}`")).collect();
        quoted.join(", ")
    };
    for one in ALL {
        text.push_str(&format!(
            "\n## {}\n\n**{}**\n\n- enforced in `{}`\n- tests: {}\n",
            one.rule,
            one.rule.page().demands,
            one.file,
            list(one.tests),
        ));
        for guard in one.rule.guarded_by() {
            let word = match guard.page().exempts {
                true => "exempt by",
                false => "guarded by",
            };
            text.push_str(&format!("- {word} `{guard}`: {}\n", guard.page().demands));
        }
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
