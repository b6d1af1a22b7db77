//! Before anybody is touched: the revision is stored, tried at the API server, and its images are
//! pulled on the nodes concerned.

use crate::memory::{Check, Failure, Kind};
use crate::plan::{Draft, blocker};
use crate::pull::Pull;
use crate::render::{self, Member};
use crate::roster::MemberId;
use crate::view::PodView;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::PrePull;
use ensemble_api::template::images;
use ensemble_api::{Reason, Template, labels};
use serde_json::json;
use std::collections::BTreeSet;

/// Finds out what may be created and whether serving members may be touched.
pub fn run(draft: &mut Draft<'_>) {
    store(draft);
    let checked = draft.revisions.stored.is_some() && check(draft);
    // Looked at in every pass, since helpers of former targets are cleared away there.
    let pulled = pull(draft, checked);
    let paused = draft.snap.ensemble.spec.rollout.paused;
    draft.may_roll = checked && pulled && !paused;
    let target = checked.then(|| draft.revisions.target.clone());
    let base = draft.revisions.base.clone();
    // What fails while a newer revision may not be used yet is repaired at the old one.
    draft.usable = if draft.may_roll {
        target
    } else {
        base.or(target)
    };
}

fn store(draft: &mut Draft<'_>) {
    let snap = draft.snap;
    let revisions = draft.revisions.clone();
    match &revisions.stored {
        None => {
            let body = render::revision(snap, &revisions.target, revisions.number);
            draft.sheet.write(Write::Create {
                kind: Kind::Revision,
                body,
            });
        }
        Some(stored) if stored.meta.controller.as_deref() != Some(snap.ensemble.uid()) => {
            // Kept by a former Ensemble of this name: taken back.
            let body = json!({"metadata": {"ownerReferences": [render::owner(snap)]}});
            let pin = stored.meta.pin.clone();
            draft.sheet.write(Write::Patch {
                kind: Kind::Revision,
                pin,
                body,
            });
        }
        Some(stored) if stored.number != revisions.number => {
            let body = json!({"revision": revisions.number});
            let pin = stored.meta.pin.clone();
            draft.sheet.write(Write::Patch {
                kind: Kind::Revision,
                pin,
                body,
            });
        }
        Some(_) => {}
    }
}

fn trial(draft: &mut Draft<'_>, revision: &str) {
    let snap = draft.snap;
    let Some(stored) = snap.revisions.get(revision) else {
        return;
    };
    let number = stored.number;
    let member = Member {
        who: MemberId::default(),
        incarnation: 0,
        revision,
        number,
        template: &stored.template,
    };
    let body = render::trial_pod(snap, member);
    draft.sheet.write(Write::Check {
        revision: revision.to_owned(),
        body,
    });
}

/// Whether the API server accepts the target. What already runs needs no trial.
fn check(draft: &mut Draft<'_>) -> bool {
    let snap = draft.snap;
    let target = draft.revisions.target.clone();
    let revisions: BTreeSet<&str> = snap
        .members()
        .filter_map(|m| snap.our_pod(m))
        .map(PodView::revision)
        .collect();
    let nothing_to_do = revisions.contains(target.as_str())
        || revisions.iter().any(|r| draft.revisions.is_current(r))
        || snap.roster().size() == 0;
    if nothing_to_do {
        return true;
    }
    match snap.memory.checks.get(&target) {
        None => {
            trial(draft, &target);
            let blocker = blocker(snap, Reason::Checking, "the API server is asked".into());
            draft
                .sheet
                .block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Refused(failure)) => {
            draft.sheet.wake(failure.retry_at);
            if failure.retry_at <= snap.now {
                trial(draft, &target);
            }
            let message = with_fields(draft, &target, failure);
            let mut blocker = blocker(snap, failure.reason, message);
            blocker.observed = "dry run refused; no member was touched".into();
            draft
                .sheet
                .block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Passed(digest)) => same_as_base(draft, digest.clone()),
    }
}

/// The API server's words. Of an amount that it cannot read it names no field: that comes first.
fn with_fields(draft: &Draft<'_>, target: &str, failure: &Failure) -> String {
    let stored = draft.snap.revisions.get(target);
    let wrong = stored.map(|r| Template(r.template.clone()).wrong_amounts());
    let wrong = wrong.filter(|_| failure.reason == Reason::TemplateRefused);
    let mut parts: Vec<String> = wrong.iter().flatten().map(ToString::to_string).collect();
    parts.push(failure.message.clone());
    parts.join("; ")
}

/// Two revisions are equal if the API server makes the same pod of both: then nobody is rolled.
fn same_as_base(draft: &mut Draft<'_>, digest: String) -> bool {
    let snap = draft.snap;
    let Some(base) = draft.revisions.base.clone() else {
        return true;
    };
    match snap.memory.checks.get(&base) {
        None => {
            trial(draft, &base);
            let blocker = blocker(
                snap,
                Reason::Checking,
                "the old template is compared".into(),
            );
            draft
                .sheet
                .block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Passed(old)) if *old == digest => {
            if let Some(stored) = draft.revisions.stored.clone() {
                let body = json!({"metadata": {"annotations": {labels::SAME_AS: base}}});
                draft.sheet.write(Write::Patch {
                    kind: Kind::Revision,
                    pin: stored.meta.pin,
                    body,
                });
            }
            false
        }
        Some(_) => true,
    }
}

/// Nodes on which a member that still runs something would need images that it does not have.
fn nodes_to_pull_on(draft: &Draft<'_>) -> BTreeSet<(String, Vec<String>)> {
    let snap = draft.snap;
    let wanted = images(&snap.ensemble.spec.template.0);
    let new_images = |revision: &str| {
        let known = snap.revisions.get(revision).map(|r| images(&r.template));
        let known = known.unwrap_or_default();
        let new = wanted.iter().filter(|i| !known.contains(i));
        let new: Vec<String> = new.map(|i| (*i).to_owned()).collect();
        (!new.is_empty()).then_some(new)
    };
    let members = snap.members().filter(|m| snap.roster().wants(*m));
    let running = members.filter(|m| !snap.presence(*m).is_down());
    let pods = running.filter_map(|m| snap.our_pod(m));
    pods.filter(|pod| !pod.node.is_empty() && !draft.revisions.is_current(pod.revision()))
        .filter(|pod| {
            // A node that does not answer pulls nothing; its member waits for it anyway.
            snap.nodes
                .as_ref()
                .is_none_or(|n| n.get(&pod.node).is_some_and(|n| n.ready))
        })
        .filter_map(|pod| Some((pod.node.clone(), new_images(pod.revision())?)))
        .collect()
}

fn pull(draft: &mut Draft<'_>, checked: bool) -> bool {
    let snap = draft.snap;
    let target = draft.revisions.target.clone();
    let required = snap.ensemble.spec.rollout.pre_pull == PrePull::Required;
    let nodes = if required && checked {
        nodes_to_pull_on(draft)
    } else {
        BTreeSet::new()
    };
    let missing: Vec<_> = nodes
        .into_iter()
        .filter(|(node, _)| !snap.memory.pulled.contains(&(target.clone(), node.clone())))
        .collect();
    discard_helpers(
        draft,
        &missing.iter().map(|(node, _)| node.as_str()).collect(),
    );
    let mut failed: Option<String> = None;
    for (node, images) in &missing {
        let name = render::prefetch_name(snap.name(), &target, node);
        match snap.pods.get(&name).map(Pull::of) {
            Some(Pull::Failed(cause)) => failed = failed.or(Some(cause)),
            Some(_) => {}
            None => {
                let body = render::prefetch(snap, &target, node, images);
                draft.sheet.write(Write::Create {
                    kind: Kind::Pod,
                    body,
                });
                let failure = snap.memory.failures.get(&(Kind::Pod, name));
                failed = failed.or(failure.map(|f| f.message.clone()));
            }
        }
    }
    if missing.is_empty() {
        return true;
    }
    report_pull(draft, &missing, failed);
    false
}

fn report_pull(draft: &mut Draft<'_>, missing: &[(String, Vec<String>)], failed: Option<String>) {
    let snap = draft.snap;
    let outdated = |pod: &PodView| !draft.revisions.is_current(pod.revision());
    let nodes: BTreeSet<&str> = missing.iter().map(|(node, _)| node.as_str()).collect();
    let concerned = |pod: &&PodView| nodes.contains(pod.node.as_str()) && outdated(pod);
    let pods = snap
        .members()
        .filter_map(|m| snap.our_pod(m))
        .filter(concerned);
    let members: Vec<String> = pods
        .map(|p| format!("{} on {}", p.meta.pin.name, p.node))
        .collect();
    let members = members.join(", ");
    let images: BTreeSet<&str> = missing
        .iter()
        .flat_map(|(_, i)| i)
        .map(String::as_str)
        .collect();
    let images = images.into_iter().collect::<Vec<_>>().join(", ");
    let (reason, message) = match failed {
        Some(cause) => (
            Reason::ImageMissing,
            format!("{images} cannot be pulled for {members}: {cause}"),
        ),
        None => (Reason::Pulling, format!("pulling {images} for {members}")),
    };
    let mut blocker = blocker(draft.snap, reason, message);
    blocker.observed = "no member was touched".into();
    draft
        .sheet
        .block(Action::Pull, None, "a new image", blocker);
}

fn discard_helpers(draft: &mut Draft<'_>, needed_on: &BTreeSet<&str>) {
    let snap = draft.snap;
    let target = draft.revisions.target.clone();
    let useless = snap.helpers().filter(|h| {
        let needed = h.revision() == target && needed_on.contains(h.node.as_str());
        !h.meta.deleting && !needed
    });
    let pins: Vec<_> = useless.map(|h| h.meta.pin.clone()).collect();
    for pin in pins {
        draft.sheet.write(Write::Discard {
            kind: Kind::Pod,
            pin,
        });
    }
}
