//! What a plan says: the one type that status, events, metrics and the command line render.

use crate::reason::Reason;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// At most this many steps are stored in status; the rest is counted.
pub const STEPS_MAX: usize = 32;

/// At most this many rules are listed; there are fewer that have a value of their own.
pub const PREDICATES_MAX: usize = 64;

/// One pass of the planner, explained: what is done, what is next, what waits and for what.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[must_use]
pub struct Report {
    /// Identifies the plan: the same goal has the same id.
    #[serde(default)]
    pub id: String,
    /// In one word, how things stand.
    #[serde(default)]
    pub state: State,
    /// The way from here to the goal, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub steps: Vec<Step>,
    /// How many further steps there are beyond those listed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_steps: u32,
    /// Every safety rule with what was observed, also when it holds.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub predicates: Vec<Predicate>,
    /// Safety rules that a person has suspended for a member and a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub waivers: Vec<Waiver>,
    /// How many more members may be lost now before fewer than `replicas - maxUnavailable` serve.
    #[serde(default)]
    pub tolerance: u32,
}

/// How things stand, in one word.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum State {
    /// Not yet looked at.
    #[default]
    Unknown,
    /// All members serve, at the newest revision.
    Ready,
    /// Steps are being taken.
    Working,
    /// The next step waits for something that is expected to pass.
    Waiting,
    /// The next step waits for something that will not pass by itself.
    Stalled,
    /// The user holds the rollout.
    Paused,
    /// The user has stopped all work.
    Suspended,
    /// The Ensemble is being deleted.
    Deleting,
}

/// One item of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Step {
    /// What is done.
    pub action: Action,
    /// To whom.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub member: Option<String>,
    /// Why, from the root: what the user or the world changed.
    pub cause: String,
    /// How far it is.
    pub state: StepState,
    /// Since when it runs or waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Time>,
    /// What it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocker: Option<Blocker>,
}

/// What a step does.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
pub enum Action {
    /// Claims and pod of a member come into being.
    Create,
    /// A member starts and becomes Ready.
    Start,
    /// A pod makes way for one of the new revision, on the same claims.
    Recreate,
    /// Containers restart in the same pod, with new images or new resources.
    InPlace,
    /// CPU and memory change in the same pod, and nothing restarts.
    Resize,
    /// Labels and annotations change on the same pod, and nothing restarts.
    Relabel,
    /// The lead is handed over.
    Switch,
    /// Members follow one leader.
    Follow,
    /// The engine's parameters are set.
    Configure,
    /// The engine restarts in its container.
    Restart,
    /// A pod that has ended makes way for a new one.
    Clear,
    /// A member leaves because of scaling in.
    Remove,
    /// A template is tried at the API server.
    Check,
    /// Images are pulled ahead.
    Pull,
    /// Claims that policy lets go are deleted.
    LetGo,
    /// Services, budgets, labels and owners are brought in order.
    Maintain,
}

/// How far a step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum StepState {
    /// Done.
    Done,
    /// Its turn comes.
    Idle,
    /// It is the next.
    Next,
    /// Under way.
    Running,
    /// It does not move; the blocker says why.
    Blocked,
}

/// Why a step does not move.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Blocker {
    /// Which of the known reasons.
    pub reason: Reason,
    /// The reason in words, with names and values.
    pub message: String,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub observed: String,
    /// What it is held against.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
    /// What has to happen for the step to go on.
    pub clears_when: String,
    /// What a person may type next.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub next_command: String,
}

/// A named safety rule with its value.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Predicate {
    /// Its name: `within-budget`.
    pub name: String,
    /// Whether it holds now.
    pub holds: bool,
    /// What was seen.
    pub observed: String,
    /// What it is held against.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub limit: String,
}

/// A safety rule that a person has suspended for one member and a while.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Waiver {
    /// The rule, by its name: `within-budget`.
    pub rule: String,
    /// The member for which it is suspended, by its pod's name.
    pub member: String,
    /// Until when.
    pub until: Time,
    /// The EnsembleRequest that asked for it.
    pub request: String,
    /// Why, in the asker's words; cut if long.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
}

/// At most this many waivers are in force at a time.
pub const WAIVERS_MAX: usize = 16;

impl Report {
    /// The step whose wait explains most: one that needs somebody to act before one that passes by
    /// itself, and a cause before what only follows from it.
    pub fn first_blocked(&self) -> Option<(&Step, &Blocker)> {
        let steps = self.steps.iter();
        let blocked = steps.filter_map(|s| s.blocker.as_ref().map(|b| (s, b)));
        blocked.min_by_key(|(_, blocker)| blocker.reason.page().wait)
    }

    /// Cuts the report to what status may hold.
    pub fn bound(mut self) -> Self {
        let excess = self.steps.len().saturating_sub(STEPS_MAX);
        self.steps.truncate(STEPS_MAX);
        self.predicates.truncate(PREDICATES_MAX);
        self.more_steps = u32::try_from(excess).unwrap_or(u32::MAX);
        self.waivers.truncate(WAIVERS_MAX);
        for waiver in &mut self.waivers {
            cut(&mut waiver.reason, 256);
        }
        for step in &mut self.steps {
            if let Some(blocker) = &mut step.blocker {
                cut(&mut blocker.message, 512);
                cut(&mut blocker.observed, 256);
            }
            cut(&mut step.cause, 192);
        }
        self
    }
}

/// Takes out of the middle: the API server quotes what it refuses first and says why last.
fn cut(text: &mut String, at_most: usize) {
    if text.len() > at_most {
        let head = text.floor_char_boundary(at_most - at_most / 3);
        let tail = text.ceil_char_boundary(text.len() - at_most / 3);
        text.replace_range(head..tail, "…");
    }
}

fn is_zero(n: &u32) -> bool {
    *n == 0
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocked(reason: Reason) -> Step {
        Step {
            action: Action::Start,
            member: None,
            cause: String::new(),
            state: StepState::Blocked,
            since: None,
            blocker: Some(Blocker {
                reason,
                message: String::new(),
                observed: String::new(),
                limit: String::new(),
                clears_when: String::new(),
                next_command: String::new(),
            }),
        }
    }

    #[test]
    fn what_lasts_until_somebody_acts_is_named_before_what_passes() {
        let named = |reasons: &[Reason]| {
            let steps = reasons.iter().map(|r| blocked(*r)).collect();
            let report = Report {
                steps,
                ..Report::default()
            };
            report.first_blocked().map(|(_, b)| b.reason)
        };
        let all = [Reason::Pulling, Reason::BudgetUsed, Reason::CrashLooping];
        assert_eq!(named(&all), Some(Reason::CrashLooping));
        assert_eq!(named(&all[..2]), Some(Reason::Pulling));
        assert_eq!(named(&[]), None);
    }

    #[test]
    fn a_long_message_is_cut_in_the_middle_and_still_says_why() {
        let mut step = blocked(Reason::CreateRefused);
        if let Some(blocker) = &mut step.blocker {
            blocker.message = format!(
                "data: Invalid value: {}: field is immutable",
                "ä".repeat(900)
            );
        }
        let steps = vec![step];
        let report = Report {
            steps,
            ..Report::default()
        }
        .bound();
        let message = &report.steps[0].blocker.as_ref().unwrap().message;
        assert!(message.starts_with("data: Invalid") && message.ends_with("field is immutable"));
        assert!(message.len() <= 516, "{}", message.len());
    }

    #[test]
    fn a_long_report_is_cut_and_says_by_how_much() {
        let step = Step {
            action: Action::Create,
            member: None,
            cause: "ä".repeat(300),
            state: StepState::Idle,
            since: None,
            blocker: None,
        };
        let report = Report {
            steps: vec![step; 40],
            ..Report::default()
        }
        .bound();
        assert_eq!((report.steps.len(), report.more_steps), (32, 8));
        assert!(serde_json::to_string(&report).unwrap().len() < 16 * 1024);
    }
}
