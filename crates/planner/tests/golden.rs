//! Snapshots as YAML objects, and the plan that follows from each as readable text.
//!
//! `UPDATE_GOLDEN=1 cargo test -p ensemble-planner --test golden` rewrites the plans; read the diff.
#![allow(clippy::unwrap_used)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // It reads files; the planner does not.

use ensemble_planner::memory::{Check, Memory};
use ensemble_planner::snapshot::Nodes;
use ensemble_planner::view::{
    BudgetView, ClaimView, EnsembleView, Meta, NodeView, PodView, RequestView, RevisionView,
    ServiceView, View,
};
use ensemble_planner::{Plan, Snapshot, Time, Write, plan};
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const NOW: Time = Time(1_800_000_000_000);
const LONG_AGO: Time = Time(1_700_000_000_000);

/// The snapshot that the objects in a file make. A document of kind `Known` says what the process
/// remembers.
fn snapshot(text: &str) -> Snapshot {
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).unwrap();
    let mut snap = Snapshot {
        now: NOW,
        epoch: 4,
        ..Snapshot::default()
    };
    let mut nodes = Nodes::new();
    let mut known = Value::Null;
    for object in &objects {
        let meta = Meta::read(object);
        let name = meta.pin.name.clone();
        match object["kind"].as_str().unwrap() {
            "Known" => known = object.clone(),
            "Ensemble" => {
                snap.ensemble = EnsembleView::read(object).unwrap();
                snap.abilities = ensemble_engines::abilities(&snap.ensemble.spec);
            }
            "Pod" => drop(snap.pods.insert(name, PodView::read(object).unwrap())),
            "PersistentVolumeClaim" => {
                drop(snap.claims.insert(name, ClaimView::read(object).unwrap()))
            }
            "ControllerRevision" => drop(
                snap.revisions
                    .insert(name, RevisionView::read(object).unwrap()),
            ),
            "Service" => {
                let read = ServiceView::read(object).unwrap();
                drop(snap.services.insert(name, read));
            }
            "PodDisruptionBudget" => {
                drop(snap.budgets.insert(name, BudgetView::read(object).unwrap()))
            }
            "Node" => drop(nodes.insert(name, NodeView::read(object).unwrap())),
            "EnsembleRequest" => {
                snap.requests
                    .insert(name, RequestView::read(object).unwrap());
            }
            other => panic!("no such kind: {other}"),
        }
    }
    snap.nodes = Some(Arc::new(nodes));
    snap.memory = Arc::new(memory(&snap, &known));
    snap
}

/// Whoever is Ready has been so for long, whoever is not has not been so before.
fn memory(snap: &Snapshot, known: &Value) -> Memory {
    let mut memory = Memory::default();
    for pod in snap.pods.values() {
        let known = memory.pod_mut(&pod.meta.pin.uid);
        if pod.ready {
            known.ready_since = Some(LONG_AGO);
            known.once_ready = true;
        } else {
            known.unready_since = Some(NOW);
        }
    }
    let passed = known["passed"].as_array().into_iter().flatten();
    for revision in passed.filter_map(Value::as_str) {
        let check = Check::Passed(format!("pod of {revision}"));
        memory.checks.insert(revision.to_owned(), check);
    }
    if known["pulled"] == true {
        for (revision, pod) in snap
            .revisions
            .keys()
            .flat_map(|r| snap.pods.values().map(move |p| (r, p)))
        {
            memory.pulled.insert((revision.clone(), pod.node.clone()));
        }
    }
    if let Some(seconds) = known["foreignForSeconds"].as_i64() {
        for intent in &snap.ensemble.status.in_flight {
            let known = memory.pod_mut(&intent.uid);
            known.foreign_since = Some(NOW.plus_ms(-seconds * 1000));
        }
    }
    memory
}

/// The plan as a person would want to read it.
fn text(snap: &Snapshot, plan: &Plan) -> String {
    let mut out = String::new();
    let report = &plan.report;
    writeln!(out, "{:?}, tolerates {}", report.state, report.tolerance).unwrap();
    if let Some(at) = plan.wake_at {
        writeln!(out, "wakes in {} s", (at.0 - snap.now.0) / 1000).unwrap();
    }
    writeln!(out, "\nsteps").unwrap();
    for step in &report.steps {
        let member = step.member.as_deref().unwrap_or("all");
        writeln!(
            out,
            "  {:?} {member}: {:?} ({})",
            step.action, step.state, step.cause
        )
        .unwrap();
        if let Some(blocker) = &step.blocker {
            writeln!(out, "    {}: {}", blocker.reason, blocker.message).unwrap();
        }
    }
    writeln!(out, "\nrules").unwrap();
    for rule in &report.predicates {
        let holds = if rule.holds { "holds" } else { "FAILS" };
        writeln!(out, "  {} {holds}: {}", rule.name, rule.observed).unwrap();
    }
    writeln!(out, "\nwrites").unwrap();
    plan.writes.iter().for_each(|w| write(&mut out, w));
    writeln!(out, "\nconsent").unwrap();
    for permit in &plan.permits {
        let intent = permit.intent(snap);
        writeln!(
            out,
            "  {:?} {} (uid {})",
            intent.method, intent.member, intent.uid
        )
        .unwrap();
    }
    for letting in &plan.lettings {
        writeln!(
            out,
            "  let go {} (uid {})",
            letting.claim().name,
            letting.claim().uid
        )
        .unwrap();
    }
    out
}

fn write(out: &mut String, write: &Write) {
    let name = write.key().1;
    match write {
        Write::Create { kind, .. } => writeln!(out, "  create {kind:?} {name}"),
        Write::Patch { kind, body, .. } => writeln!(out, "  patch {kind:?} {name} {body}"),
        Write::Uncount { pods, .. } => writeln!(out, "  uncount {} in {name}", pods.join(" ")),
        Write::Discard { kind, .. } => writeln!(out, "  discard {kind:?} {name}"),
        Write::Check { revision, .. } => writeln!(out, "  try {revision}"),
        Write::Look { key } => writeln!(out, "  look at {:?} {}", key.0, key.1),
        Write::Answer { body, .. } => writeln!(out, "  answer {name} {body}"),
        Write::Status(status) => {
            let columns = &status.summary;
            let conditions: Vec<String> = status
                .conditions
                .iter()
                .map(|c| format!("{}={} ({})", c.type_, c.status, c.reason))
                .collect();
            let ledger = status.ledger.get("members").cloned().unwrap_or_default();
            writeln!(out, "  status").unwrap();
            writeln!(
                out,
                "    READY {}  UPDATED {}  STEP {}  WAITING {}",
                columns.ready, columns.updated, columns.step, columns.waiting
            )
            .unwrap();
            writeln!(out, "    {}", conditions.join(", ")).unwrap();
            let lives = &ledger.incarnations;
            writeln!(
                out,
                "    ledger: next {}, born {:?}, lives {lives:?}",
                ledger.next, ledger.born
            )
            .unwrap();
            status
                .let_go
                .iter()
                .for_each(|l| writeln!(out, "    lets go {}: {}", l.claim, l.consent).unwrap());
            for i in &status.in_flight {
                writeln!(
                    out,
                    "    intent: {:?} {} by epoch {}",
                    i.method, i.member, i.epoch
                )
                .unwrap();
            }
            Ok(())
        }
    }
    .unwrap();
}

fn snapshots() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let files = std::fs::read_dir(folder)
        .unwrap()
        .map(|f| f.unwrap().path());
    let mut files: Vec<PathBuf> = files
        .filter(|f| f.extension().is_some_and(|e| e == "yaml"))
        .collect();
    files.sort();
    files
}

#[test]
fn each_snapshot_gives_the_plan_beside_it() {
    let files = snapshots();
    assert!(files.len() >= 12, "{files:?}");
    let mut different = Vec::new();
    for file in files {
        let snap = snapshot(&std::fs::read_to_string(&file).unwrap());
        let text = text(&snap, &plan(&snap));
        let golden = file.with_extension("plan");
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            std::fs::write(&golden, &text).unwrap();
        }
        if std::fs::read_to_string(&golden).unwrap_or_default() != text {
            different.push(format!("{}\n{text}", golden.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
