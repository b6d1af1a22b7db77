//! What this process remembers besides what the API server stores.
//!
//! Times by our own clock, answers to calls, results of checks. All of it may be lost at any time:
//! what is lost makes us wait longer or ask again, never act sooner.

use crate::engine::Answer;
pub use crate::kinds::Kind;
use crate::time::Time;
use crate::view::Pinned;
use ensemble_api::Reason;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// One object of ours: kind and name.
pub type Key = (Kind, String);

/// A call that was refused or failed, to be tried again.
#[derive(Clone, Debug, PartialEq)]
pub struct Failure {
    /// Why, as one of the known reasons.
    pub reason: Reason,
    /// The API server's words.
    pub message: String,
    /// Since when it fails.
    pub since: Time,
    /// How often it was tried.
    pub tries: u32,
    /// Not again before that.
    pub retry_at: Time,
}

/// An object that stands where one of ours should.
#[derive(Clone, Debug, PartialEq)]
pub struct Taken {
    /// The object.
    pub pin: Pinned,
    /// Whether it is ours by its owner, though its labels say otherwise.
    pub ours_by_owner: bool,
    /// Since when it is known.
    pub since: Time,
    /// Look again at that time.
    pub retry_at: Time,
}

/// The API server's answer to a template.
#[derive(Clone, Debug, PartialEq)]
pub enum Check {
    /// It makes this pod of it (a digest).
    Passed(String),
    /// It refuses.
    Refused(Failure),
}

/// By container: an image.
pub type Images = BTreeMap<String, String>;

/// No images.
static NO_IMAGES: Images = Images::new();

/// A change of a pod that the API server refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The revision that it was to bring.
    pub revision: String,
    /// The API server's words.
    pub message: String,
}

/// A pod that lives although a budget counts it as evicted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Miscount {
    /// The pod's uid.
    pub uid: String,
    /// The budget's entry: since when it counts, by Kubernetes' clock.
    pub entry: String,
    /// Since when this process sees just that.
    pub since: Time,
}

impl Miscount {
    /// Whether it is about that pod and that entry.
    pub fn is_of(&self, uid: &str, entry: &str) -> bool {
        self.uid == uid && self.entry == entry
    }
}

/// One run of a member's engine container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The container's id.
    pub container: String,
    /// Since when this process knows it.
    pub since: Time,
}

/// What became of an errand that is under way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ErrandNews {
    /// It was looked at afresh and may be asked for.
    Confirmed,
    /// It was refused, by us on a fresh view or by the engine, for that cause.
    Refused(String),
}

/// A later leadership than ours has written the status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Overtaken {
    /// Since when we hold the Lease and nobody has written another status.
    pub since: Time,
    /// How often we took over before.
    pub times: u32,
}

/// What came of asking a member's engine to restart for a change of parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestartNews {
    /// For which change, in its words: what it says of that one it says of no other.
    pub of: String,
    /// The engine's words if it did not come up; None if nobody knows.
    pub failed: Option<String>,
}

/// What this process remembers of one pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodMemory {
    /// Since when it was seen Ready without a break.
    pub ready_since: Option<Time>,
    /// Since when it was seen, and not Ready.
    pub unready_since: Option<Time>,
    /// Whether it was seen Ready at some time.
    pub once_ready: bool,
    /// Whether it was seen before its kubelet had said anything of it: nothing of it was missed.
    pub from_its_start: bool,
    /// Since when it was seen ending.
    pub leaving_since: Option<Time>,
    /// Since when an intent of another epoch is known.
    pub foreign_since: Option<Time>,
    /// What the API server refuses to change in it.
    pub refused: Option<Refused>,
    /// Since when its member says without a break that it leads or follows.
    pub up_since: Option<Time>,
    /// What its member last said of itself.
    pub said: Option<Arc<Answer>>,
    /// Which run of the engine's container it is.
    pub run: Option<Run>,
}

/// What is remembered of a pod that was never seen.
static NOTHING: PodMemory = PodMemory {
    ready_since: None,
    unready_since: None,
    once_ready: false,
    from_its_start: false,
    leaving_since: None,
    foreign_since: None,
    up_since: None,
    refused: None,
    said: None,
    run: None,
};

/// What this process remembers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Memory {
    /// By pod uid.
    pub pods: BTreeMap<String, PodMemory>,
    /// By node: since when a pod of ours is bound to it and it is not in our view.
    pub node_missing_since: BTreeMap<String, Time>,
    /// By member: since when one that is asked for has no pod.
    pub absent_since: BTreeMap<String, Time>,
    /// By pod name: since when a pod that is gone is still counted as evicted by a budget.
    pub counted_since: BTreeMap<String, Time>,
    /// By budget and pod: pods that live although the budget counts them as evicted.
    pub miscounted: BTreeMap<(String, String), Miscount>,
    /// Calls that failed.
    pub failures: BTreeMap<Key, Failure>,
    /// Names that somebody else has.
    pub taken: BTreeMap<Key, Taken>,
    /// Uids of pods whose stored intent was refused on a fresh view: to be cleared.
    pub cancelled: BTreeSet<String>,
    /// By revision: what the API server says of it.
    pub checks: BTreeMap<String, Check>,
    /// By revision: the images that the API server makes of those in its template.
    pub admitted: BTreeMap<String, Images>,
    /// Since when nobody is known to lead.
    pub leaderless_since: Option<Time>,
    /// Who leads, at which term, in one word.
    pub led_by: Option<String>,
    /// Since when the one that leads is known to.
    pub led_since: Option<Time>,
    /// Since when the leader says that it keeps the parameters that it was told.
    pub told_since: Option<Time>,
    /// By member: what came of its engine's restart, if that is not known to have gone well.
    pub restarts: BTreeMap<String, RestartNews>,
    /// By the id of an errand: what is known of it beside what is stored.
    pub errands: BTreeMap<String, ErrandNews>,
    /// By the id of an errand: since when this process knows it. The deadline that is stored may be by
    /// another clock.
    pub errands_since: BTreeMap<String, Time>,
    /// That a later leadership than ours has written the status.
    pub overtaken: Option<Overtaken>,
    /// By uid: since when this process knows a request.
    pub requests_since: BTreeMap<String, Time>,
    /// By revision and node: images pulled ahead.
    pub pulled: BTreeSet<(String, String)>,
}

impl Memory {
    /// What is remembered of a pod; of one that was never seen, nothing.
    pub fn pod(&self, uid: &str) -> &PodMemory {
        self.pods.get(uid).unwrap_or(&NOTHING)
    }

    /// The same, to be changed.
    pub fn pod_mut(&mut self, uid: &str) -> &mut PodMemory {
        self.pods.entry(uid.to_owned()).or_default()
    }

    /// The images that the API server makes of a revision's; none if it was not asked.
    pub fn images(&self, revision: &str) -> &Images {
        self.admitted.get(revision).unwrap_or(&NO_IMAGES)
    }

    /// So long nothing was seen, whether the clock jumped or this process was asleep: what is as it was
    /// has not been so for that time, as far as we know. What was said before is as old as it is.
    pub fn skip(&mut self, ms: i64, now: Time) {
        let later = |since: &mut Time| *since = since.plus_ms(ms).min(now);
        for pod in self.pods.values_mut() {
            let ages = [
                &mut pod.ready_since,
                &mut pod.unready_since,
                &mut pod.leaving_since,
                &mut pod.foreign_since,
                &mut pod.up_since,
            ];
            ages.into_iter().flatten().for_each(later);
            pod.run.iter_mut().for_each(|run| later(&mut run.since));
        }
        let ages = [
            &mut self.leaderless_since,
            &mut self.led_since,
            &mut self.told_since,
        ];
        ages.into_iter().flatten().for_each(later);
        self.node_missing_since.values_mut().for_each(later);
        self.absent_since.values_mut().for_each(later);
        self.counted_since.values_mut().for_each(later);
        self.absent_since.values_mut().for_each(later);
        self.errands_since.values_mut().for_each(later);
        if let Some(overtaken) = &mut self.overtaken {
            later(&mut overtaken.since);
        }
        for miscount in self.miscounted.values_mut() {
            later(&mut miscount.since);
        }
    }

    /// Forgets what came of restarts for any other change of parameters than this one, and with it
    /// how long to wait before the next: a failure belongs to its change.
    pub fn keep_restarts(&mut self, of: Option<&str>) {
        let over = |_: &String, news: &mut RestartNews| Some(news.of.as_str()) != of;
        let over: Vec<_> = self.restarts.extract_if(.., over).collect();
        for (member, _) in over {
            let key = (Kind::Pod, member);
            let by_engine =
                |f: &Failure| matches!(f.reason, Reason::EngineFailing | Reason::EngineUnreachable);
            if self.failures.get(&key).is_some_and(by_engine) {
                self.failures.remove(&key);
            }
        }
    }

    /// Forgets all pods but these.
    pub fn keep_pods(&mut self, uids: &BTreeSet<&str>) {
        self.pods.retain(|uid, _| uids.contains(uid.as_str()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_remembered_of_a_pod_goes_with_it_and_nothing_else_does() {
        let mut memory = Memory::default();
        for uid in ["a", "b"] {
            let known = memory.pod_mut(uid);
            known.ready_since = Some(Time(7));
            known.once_ready = true;
        }
        memory.keep_pods(&["b", "c"].into());
        assert_eq!(*memory.pod("a"), PodMemory::default());
        assert_eq!(memory.pod("b").ready_since, Some(Time(7)));
        assert_eq!(
            memory.pods.len(),
            1,
            "nothing is made up of those that were never seen"
        );
    }

    #[test]
    fn time_in_which_nothing_was_seen_makes_nothing_older_and_no_answer_younger() {
        let mut memory = Memory::default();
        let known = memory.pod_mut("a");
        known.unready_since = Some(Time(10_000));
        known.ready_since = Some(Time(3_609_000));
        memory.leaderless_since = Some(Time(12_000));
        memory.errands_since.insert("s-1".into(), Time(20_000));
        memory.skip(3_590_000, Time(3_612_000));
        assert_eq!(memory.pod("a").unready_since, Some(Time(3_600_000)));
        let seen_since = memory.pod("a").ready_since;
        assert_eq!(seen_since, Some(Time(3_612_000)), "not in the future");
        assert_eq!(memory.pod("a").leaving_since, None);
        assert_eq!(memory.leaderless_since, Some(Time(3_602_000)));
        assert_eq!(memory.errands_since["s-1"], Time(3_610_000));
    }

    #[test]
    fn of_a_pod_that_was_never_seen_nothing_is_remembered() {
        assert_eq!(*Memory::default().pod("a"), PodMemory::default());
    }
}
