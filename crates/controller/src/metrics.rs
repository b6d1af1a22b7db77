//! Metrics, in Prometheus' text format. No pod labels: ensembles are few, pods are many.

use crate::queue::EnsembleKey;
use ensemble_api::Report;
use ensemble_conductor::{Time, Verb};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use std::collections::BTreeMap;
use std::sync::Mutex;

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct EnsembleLabels {
    namespace: String,
    ensemble: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct BlockedLabels {
    namespace: String,
    ensemble: String,
    reason: String,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    kind: &'static str,
    code: String,
}

/// Everything that is counted.
pub struct Metrics {
    registry: Mutex<Registry>,
    tolerance: Family<EnsembleLabels, Gauge>,
    blocked: Family<BlockedLabels, Gauge>,
    waived: Family<EnsembleLabels, Gauge>,
    /// By ensemble: why it waits and since when.
    waits: Mutex<BTreeMap<EnsembleKey, (String, Time)>>,
    calls: Family<CallLabels, Counter>,
    pub plan_seconds: Histogram,
    pub ensembles: Gauge,
    pub leading: Gauge,
    pub ready: Gauge,
    pub calls_waiting: Gauge,
}

impl Metrics {
    pub fn new() -> Self {
        let buckets = [0.000_1, 0.000_3, 0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0];
        let metrics = Self {
            registry: Mutex::new(Registry::default()),
            tolerance: Family::default(),
            blocked: Family::default(),
            waived: Family::default(),
            waits: Mutex::default(),
            calls: Family::default(),
            plan_seconds: Histogram::new(buckets),
            ensembles: Gauge::default(),
            leading: Gauge::default(),
            ready: Gauge::default(),
            calls_waiting: Gauge::default(),
        };
        metrics.register();
        metrics
    }

    fn register(&self) {
        let Ok(mut r) = self.registry.lock() else {
            return;
        };
        let tolerance = "How many more members may be lost now";
        r.register(
            "ensemble_failure_tolerance",
            tolerance,
            self.tolerance.clone(),
        );
        let blocked = "Seconds since the plan waits, by reason";
        r.register("ensemble_blocked_seconds", blocked, self.blocked.clone());
        r.register(
            "ensemble_waivers_in_force",
            "Safety rules that are suspended now for a member",
            self.waived.clone(),
        );
        r.register(
            "ensemble_api_calls",
            "Calls to the API server",
            self.calls.clone(),
        );
        r.register(
            "ensemble_plan_seconds",
            "Time of one plan",
            self.plan_seconds.clone(),
        );
        r.register(
            "ensemble_ensembles",
            "Ensembles looked after",
            self.ensembles.clone(),
        );
        r.register(
            "ensemble_leading",
            "Whether this controller leads",
            self.leading.clone(),
        );
        r.register(
            "ensemble_calls_waiting",
            "Calls that wait",
            self.calls_waiting.clone(),
        );
    }

    /// What a plan says of an ensemble.
    pub fn report(&self, key: &EnsembleKey, report: &Report, now: Time) {
        let labels = EnsembleLabels {
            namespace: key.0.clone(),
            ensemble: key.1.clone(),
        };
        self.tolerance
            .get_or_create(&labels)
            .set(i64::from(report.tolerance));
        let waived = i64::try_from(report.waivers.len()).unwrap_or(i64::MAX);
        self.waived.get_or_create(&labels).set(waived);
        let Ok(mut waits) = self.waits.lock() else {
            return;
        };
        match report.first_blocked() {
            None => drop(waits.remove(key)),
            Some((step, blocker)) => {
                let since = step.since.as_ref().map_or(now, Time::from_stamp);
                waits.insert(key.clone(), (blocker.reason.to_string(), since));
            }
        }
    }

    /// An ensemble is gone.
    pub fn forget(&self, key: &EnsembleKey) {
        let labels = EnsembleLabels {
            namespace: key.0.clone(),
            ensemble: key.1.clone(),
        };
        self.tolerance.remove(&labels);
        self.waived.remove(&labels);
        if let Ok(mut waits) = self.waits.lock() {
            waits.remove(key);
        }
    }

    /// A call was made.
    pub fn called(&self, verb: &Verb, kind: &'static str, code: &str) {
        let verb = match verb {
            Verb::Create { dry_run: false } => "create",
            Verb::Create { dry_run: true } => "dry-run",
            Verb::MergePatch => "patch",
            Verb::MergePatchStatus => "patch-status",
            Verb::Replace => "update",
            Verb::ReplaceResize => "update-resize",
            Verb::ReplaceStatus => "update-status",
            Verb::Delete => "delete",
            Verb::Evict => "evict",
            Verb::Get => "get",
            Verb::List => "list",
        };
        self.calls
            .get_or_create(&CallLabels {
                verb,
                kind,
                code: code.into(),
            })
            .inc();
    }

    /// As Prometheus reads it.
    pub fn text(&self, now: Time) -> String {
        self.blocked.clear();
        if let Ok(waits) = self.waits.lock() {
            for (key, (reason, since)) in waits.iter() {
                let (namespace, ensemble) = key.clone();
                let labels = BlockedLabels {
                    namespace,
                    ensemble,
                    reason: reason.clone(),
                };
                self.blocked
                    .get_or_create(&labels)
                    .set((now.0 - since.0).max(0) / 1000);
            }
        }
        let mut text = String::new();
        if let Ok(registry) = self.registry.lock() {
            // Writing into a String cannot fail.
            let _ = encode(&mut text, &registry);
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ensemble_api::Reason;

    fn key(name: &str) -> EnsembleKey {
        ("shop".to_owned(), name.to_owned())
    }

    /// A report of an ensemble that waits since so many seconds after the epoch.
    fn waits(since: i64) -> Report {
        serde_json::from_value(serde_json::json!({
            "tolerance": 1,
            "steps": [{
                "action": "Recreate", "state": "Blocked", "cause": "template",
                "since": Time(since * 1000).stamp(),
                "blocker": {"reason": Reason::BudgetUsed, "message": "one at a time", "clearsWhen": ""},
            }],
        }))
        .unwrap()
    }

    fn line<'t>(text: &'t str, name: &str) -> Option<&'t str> {
        text.lines().find(|line| line.starts_with(name))
    }

    #[test]
    fn how_long_a_plan_waits_is_counted_when_it_is_asked_for() {
        let metrics = Metrics::new();
        metrics.report(&key("orders"), &waits(100), Time(0));
        let text = metrics.text(Time(160_000));
        let blocked = line(&text, "ensemble_blocked_seconds{").unwrap();
        assert!(
            blocked.contains("reason=\"BudgetUsed\"") && blocked.ends_with(" 60"),
            "{blocked}"
        );
        let tolerance = line(&text, "ensemble_failure_tolerance{").unwrap();
        assert!(tolerance.ends_with(" 1"), "{tolerance}");
    }

    #[test]
    fn a_plan_that_moves_again_and_an_ensemble_that_is_gone_leave_no_number_behind() {
        let metrics = Metrics::new();
        metrics.report(&key("orders"), &waits(100), Time(0));
        metrics.text(Time(160_000));
        metrics.report(&key("orders"), &Report::default(), Time(160_000));
        let text = metrics.text(Time(161_000));
        assert_eq!(line(&text, "ensemble_blocked_seconds{"), None);
        metrics.report(&key("orders"), &waits(100), Time(0));
        metrics.forget(&key("orders"));
        let text = metrics.text(Time(161_000));
        assert_eq!(line(&text, "ensemble_blocked_seconds{"), None);
        assert_eq!(line(&text, "ensemble_failure_tolerance{"), None);
    }

    #[test]
    fn calls_are_counted_by_verb_kind_and_answer() {
        let metrics = Metrics::new();
        let verb = Verb::Create { dry_run: true };
        metrics.called(&verb, "pods", "422");
        metrics.called(&verb, "pods", "422");
        let text = metrics.text(Time(0));
        let calls = line(&text, "ensemble_api_calls_total{").unwrap();
        for part in ["verb=\"dry-run\"", "kind=\"pods\"", "code=\"422\""] {
            assert!(calls.contains(part), "{calls}");
        }
        assert!(calls.ends_with(" 2"), "{calls}");
    }
}
