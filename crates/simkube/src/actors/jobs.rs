//! Jobs: pods that run to their end, again if they fail, up to a limit.

use serde_json::{Value, json};

use super::Task;
use crate::cluster::Cluster;
use crate::kinds::conditions::{self, Condition};
use crate::request::{Propagation, Request, Subresource};
use crate::resource::Resource;
use crate::store::{Key, split_key};
use crate::time::SimTime;
use crate::value::{
    Object, at, condition_true, controller_ref, flag, int, items, name, namespace, set, slot,
    terminating, text, text_or_empty, uid,
};

const TRACKING: &str = "batch.kubernetes.io/job-tracking";
const BACKOFF_FIRST_MS: u64 = 10_000;
const BACKOFF_MAX_MS: u64 = 600_000;

struct Tally {
    active: Vec<Key>,
    succeeded: i64,
    failed: i64,
    last_failure: Option<SimTime>,
}

impl Cluster {
    pub(crate) fn sync_job(&mut self, job_key: &Key) {
        let job = self.server.store.get(Resource::Jobs, job_key).cloned();
        let Some(job) = job.filter(|j| !terminating(j)) else {
            self.release_pods_of(job_key);
            return;
        };
        if condition_true(&job, "Complete") || condition_true(&job, "Failed") {
            self.release_pods_of(job_key);
            self.expire_job(job_key, &job);
            return;
        }
        let tally = self.tally(&job);
        let completions = int(&job, "spec.completions").unwrap_or(1);
        let limit = int(&job, "spec.backoffLimit").unwrap_or(6);
        if let Some(deadline) = job_deadline(&job) {
            if deadline <= self.now() {
                self.fail_job(
                    job_key,
                    &tally,
                    "DeadlineExceeded",
                    "Job was active longer than specified deadline",
                );
                return;
            }
            self.queue.add(Task::Job(job_key.clone()), deadline);
        }
        if tally.succeeded >= completions {
            self.complete_job(job_key, &tally);
        } else if tally.failed > limit {
            let why = "Job has reached the specified backoff limit";
            self.fail_job(job_key, &tally, "BackoffLimitExceeded", why);
        } else {
            self.write_tally(job_key, &tally);
            self.start_pods(job_key, &job, &tally, completions);
        }
    }

    fn pods_of(&self, job: &Object) -> Vec<(Key, Object)> {
        let pods = self.server.store.within(Resource::Pods, namespace(job));
        let owned =
            |p: &Object| controller_ref(p).is_some_and(|o| text(o, "uid") == Some(uid(job)));
        pods.filter(|(_, p)| owned(p))
            .map(|(k, p)| (k.clone(), p.clone()))
            .collect()
    }

    /// Counts the job's pods; what was counted in status and is gone stays counted.
    fn tally(&mut self, job: &Object) -> Tally {
        let mut tally = Tally {
            active: Vec::new(),
            succeeded: int(job, "status.succeeded").unwrap_or(0),
            failed: int(job, "status.failed").unwrap_or(0),
            last_failure: None,
        };
        for (key, pod) in self.pods_of(job) {
            let tracked = items(&pod, "metadata.finalizers")
                .iter()
                .any(|f| f == TRACKING);
            let phase = text_or_empty(&pod, "status.phase");
            match phase {
                "Succeeded" if tracked => tally.succeeded += 1,
                "Failed" if tracked => tally.failed += 1,
                "Succeeded" | "Failed" => {}
                _ => tally.active.push(key.clone()),
            }
            if phase == "Failed" {
                let ended = ended_at(&pod).unwrap_or(self.now());
                tally.last_failure = tally.last_failure.max(Some(ended));
            }
            if matches!(phase, "Succeeded" | "Failed") && tracked {
                self.untrack(&key);
            }
        }
        tally
    }

    fn untrack(&mut self, pod: &str) {
        let client = self.actors.jobs.clone();
        let _gone = self.server.modify(&client, Resource::Pods, None, pod, |p| {
            if let Some(Value::Array(list)) = p.pointer_mut("/metadata/finalizers") {
                list.retain(|f| f != TRACKING);
            }
        });
    }

    fn release_pods_of(&mut self, job_key: &str) {
        let (ns, job_name) = split_key(job_key);
        let held: Vec<Key> = self
            .server
            .store
            .within(Resource::Pods, ns)
            .filter(|(_, p)| {
                controller_ref(p).is_some_and(|o| {
                    text(o, "kind") == Some("Job") && text(o, "name") == Some(job_name)
                }) && items(p, "metadata.finalizers")
                    .iter()
                    .any(|f| f == TRACKING)
            })
            .map(|(k, _)| k.clone())
            .collect();
        for pod in held {
            self.untrack(&pod);
        }
    }

    fn start_pods(&mut self, job_key: &Key, job: &Object, tally: &Tally, completions: i64) {
        if flag(job, "spec.suspend") {
            return;
        }
        if let Some(last) = tally.last_failure.filter(|_| tally.failed > 0) {
            let doublings = u32::try_from(tally.failed - 1).unwrap_or(0).min(16);
            let wait = (BACKOFF_FIRST_MS << doublings).min(BACKOFF_MAX_MS);
            let at = last.plus_ms(wait);
            if at > self.now() && tally.active.is_empty() {
                self.queue.add(Task::Job(job_key.clone()), at);
                return;
            }
        }
        let active = i64::try_from(tally.active.len()).unwrap_or(i64::MAX);
        let parallelism = int(job, "spec.parallelism").unwrap_or(1);
        let missing = (completions - tally.succeeded).min(parallelism) - active;
        for _ in 0..missing.max(0) {
            self.start_pod(job);
        }
    }

    fn start_pod(&mut self, job: &Object) {
        let mut pod = at(job, "spec.template")
            .cloned()
            .unwrap_or_else(|| json!({}));
        set(&mut pod, "metadata.generateName", format!("{}-", name(job)));
        set(&mut pod, "metadata.finalizers", json!([TRACKING]));
        set(
            &mut pod,
            "metadata.ownerReferences",
            json!([{
                "apiVersion": "batch/v1", "kind": "Job", "name": name(job), "uid": uid(job),
                "controller": true, "blockOwnerDeletion": true,
            }]),
        );
        let request = Request::create(Resource::Pods, namespace(job), pod);
        // What the API server refuses now it will refuse again; the job simply does not progress.
        let _refused = self.server.call(&request.client(self.actors.jobs.clone()));
    }

    fn job_status(&mut self, job_key: &str, change: impl FnOnce(&mut Value)) {
        let client = self.actors.jobs.clone();
        let part = Some(Subresource::Status);
        let _gone = self
            .server
            .modify(&client, Resource::Jobs, part, job_key, change);
    }

    fn write_tally(&mut self, job_key: &str, tally: &Tally) {
        let now = self.now().rfc3339();
        let numbers = [
            (
                "active",
                i64::try_from(tally.active.len()).unwrap_or(i64::MAX),
            ),
            ("succeeded", tally.succeeded),
            ("failed", tally.failed),
        ];
        self.job_status(job_key, |job| {
            crate::value::set_default(job, "status.startTime", now);
            for (field, number) in numbers {
                if number > 0 || slot(job, "status").get(field).is_some() {
                    set(job, &format!("status.{field}"), number);
                }
            }
        });
    }

    fn complete_job(&mut self, job_key: &Key, tally: &Tally) {
        self.write_tally(job_key, tally);
        let now = self.now();
        self.job_status(job_key, |job| {
            let why = "Reached expected number of succeeded pods";
            for kind in ["SuccessCriteriaMet", "Complete"] {
                let condition = Condition::pod(kind, true).because("CompletionsReached", why);
                conditions::set(job, now, &condition);
            }
            set(job, "status.completionTime", now.rfc3339());
        });
    }

    fn fail_job(&mut self, job_key: &Key, tally: &Tally, reason: &str, why: &str) {
        self.write_tally(job_key, tally);
        let client = self.actors.jobs.clone();
        for pod in &tally.active {
            let (ns, name) = split_key(pod);
            let _gone = self
                .server
                .call(&Request::delete(Resource::Pods, ns, name).client(client.clone()));
        }
        let now = self.now();
        self.job_status(job_key, |job| {
            for kind in ["FailureTarget", "Failed"] {
                conditions::set(job, now, &Condition::pod(kind, true).because(reason, why));
            }
        });
    }

    fn expire_job(&mut self, job_key: &Key, job: &Object) {
        let Some(ttl) = int(job, "spec.ttlSecondsAfterFinished") else {
            return;
        };
        let finished = items(job, "status.conditions")
            .iter()
            .filter(|c| matches!(text(c, "type"), Some("Complete" | "Failed")))
            .find_map(|c| text(c, "lastTransitionTime").and_then(SimTime::parse))
            .unwrap_or(self.now());
        let at = finished.plus_s(ttl.max(0).unsigned_abs());
        if at > self.now() {
            self.queue.add(Task::Job(job_key.clone()), at);
            return;
        }
        let (ns, job_name) = split_key(job_key);
        let request = Request::delete(Resource::Jobs, ns, job_name)
            .client(self.actors.jobs.clone())
            .uid(uid(job))
            .propagation(Propagation::Foreground);
        let _gone = self.server.call(&request);
    }
}

fn job_deadline(job: &Value) -> Option<SimTime> {
    let seconds = int(job, "spec.activeDeadlineSeconds")?;
    let start = text(job, "status.startTime").and_then(SimTime::parse)?;
    Some(start.plus_s(seconds.max(0).unsigned_abs()))
}

fn ended_at(pod: &Value) -> Option<SimTime> {
    items(pod, "status.containerStatuses")
        .iter()
        .filter_map(|c| text(c, "state.terminated.finishedAt").and_then(SimTime::parse))
        .max()
}
