//! Before anybody is touched: the revision is stored, tried at the API server, and its images are
//! pulled on the nodes concerned.

use crate::cast::Cast;
use crate::memory::{Check, Failure, Kind};
use crate::plan::blocker;
use crate::pull::Pull;
use crate::render::{self, Member};
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::sheet::Sheet;
use crate::view::PodView;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::PrePull;
use ensemble_api::template::images;
use ensemble_api::{Reason, Template, labels};
use serde_json::json;
use std::collections::BTreeSet;

/// What may be made use of.
#[must_use]
pub struct Prepared {
    /// The revision that a missing pod may be created from, if any.
    pub usable: Option<String>,
}

/// Finds out what may be created, and with that whether serving members may be touched.
pub fn run(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) -> Prepared {
    store(snap, revisions, sheet);
    let checked = revisions.stored.is_some() && check(snap, revisions, sheet);
    // Looked at in every pass, since helpers of former targets are cleared away there.
    let pulled = pull(snap, revisions, checked, sheet);
    let paused = snap.ensemble.spec.rollout.paused;
    let target = checked.then(|| revisions.target.clone());
    let base = revisions.base.clone();
    // What fails while a newer revision may not be used yet is repaired at the old one.
    let usable = if checked && pulled && !paused {
        target
    } else {
        base.or(target)
    };
    Prepared { usable }
}

fn store(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) {
    match &revisions.stored {
        None => {
            let body = render::revision(snap, &revisions.target, revisions.number);
            sheet.write(Write::Create {
                kind: Kind::Revision,
                body,
            });
        }
        Some(stored) if stored.meta.controller.as_deref() != Some(snap.ensemble.uid()) => {
            // Kept by a former Ensemble of this name: taken back.
            let body = json!({"metadata": {"ownerReferences": [render::owner(snap)]}});
            let pin = stored.meta.pin.clone();
            sheet.write(Write::Patch {
                kind: Kind::Revision,
                pin,
                body,
            });
        }
        Some(stored) if stored.number != revisions.number => {
            let body = json!({"revision": revisions.number});
            let pin = stored.meta.pin.clone();
            sheet.write(Write::Patch {
                kind: Kind::Revision,
                pin,
                body,
            });
        }
        Some(_) => {}
    }
}

fn trial(snap: &Cast<'_>, revision: &str, sheet: &mut Sheet<'_>) {
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
    sheet.write(Write::Check {
        revision: revision.to_owned(),
        body,
    });
}

/// Whether the API server accepts the target. What already runs needs no trial.
fn check(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) -> bool {
    let target = &revisions.target;
    let running: BTreeSet<&str> = snap
        .members()
        .filter_map(|m| snap.our_pod(m))
        .map(PodView::revision)
        .collect();
    let nothing_to_do = running.contains(target.as_str())
        || running.iter().any(|r| revisions.is_current(r))
        || snap.roster().size() == 0;
    if nothing_to_do {
        return true;
    }
    match snap.memory.checks.get(target) {
        None => {
            trial(snap, target, sheet);
            let blocker = blocker(snap, Reason::Checking, "the API server is asked".into());
            sheet.block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Refused(failure)) => {
            sheet.wake(failure.retry_at);
            if failure.retry_at <= snap.now {
                trial(snap, target, sheet);
            }
            let message = with_fields(snap, target, failure);
            let mut blocker = blocker(snap, failure.reason, message);
            blocker.observed = "dry run refused; no member was touched".into();
            sheet.block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Passed(digest)) => same_as_base(snap, revisions, digest, sheet),
    }
}

/// The API server's words. Of an amount that it cannot read it names no field: that comes first.
fn with_fields(snap: &Cast<'_>, target: &str, failure: &Failure) -> String {
    let stored = snap.revisions.get(target);
    let wrong = stored.map(|r| Template(r.template.clone()).wrong_amounts());
    let wrong = wrong.filter(|_| failure.reason == Reason::TemplateRefused);
    let mut parts: Vec<String> = wrong.iter().flatten().map(ToString::to_string).collect();
    parts.push(failure.message.clone());
    parts.join("; ")
}

/// Two revisions are equal if the API server makes the same pod of both: then nobody is rolled.
fn same_as_base(
    snap: &Cast<'_>,
    revisions: &Revisions,
    digest: &str,
    sheet: &mut Sheet<'_>,
) -> bool {
    let Some(base) = &revisions.base else {
        return true;
    };
    match snap.memory.checks.get(base) {
        None => {
            trial(snap, base, sheet);
            let blocker = blocker(
                snap,
                Reason::Checking,
                "the old template is compared".into(),
            );
            sheet.block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Passed(old)) if *old == digest => {
            if let Some(stored) = &revisions.stored {
                let body = json!({"metadata": {"annotations": {labels::SAME_AS: base}}});
                sheet.write(Write::Patch {
                    kind: Kind::Revision,
                    pin: stored.meta.pin.clone(),
                    body,
                });
            }
            false
        }
        Some(_) => true,
    }
}

/// Nodes on which a member that still runs something would need images that it does not have.
fn nodes_to_pull_on(snap: &Cast<'_>, revisions: &Revisions) -> BTreeSet<(String, Vec<String>)> {
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
    pods.filter(|pod| !pod.node.is_empty() && !revisions.is_current(pod.revision()))
        .filter(|pod| {
            // A node that does not answer pulls nothing; its member waits for it anyway.
            snap.nodes
                .as_ref()
                .is_none_or(|n| n.get(&pod.node).is_some_and(|n| n.ready))
        })
        .filter_map(|pod| Some((pod.node.clone(), new_images(pod.revision())?)))
        .collect()
}

fn pull(snap: &Cast<'_>, revisions: &Revisions, checked: bool, sheet: &mut Sheet<'_>) -> bool {
    let target = &revisions.target;
    let required = snap.ensemble.spec.rollout.pre_pull == PrePull::Required;
    let nodes = if required && checked {
        nodes_to_pull_on(snap, revisions)
    } else {
        BTreeSet::new()
    };
    let missing: Vec<_> = nodes
        .into_iter()
        .filter(|(node, _)| !snap.memory.pulled.contains(&(target.clone(), node.clone())))
        .collect();
    let needed_on = missing.iter().map(|(node, _)| node.as_str()).collect();
    discard_helpers(snap, target, &needed_on, sheet);
    let mut failed: Option<String> = None;
    for (node, images) in &missing {
        let name = render::prefetch_name(snap.name(), target, node);
        match snap.pods.get(&name).map(Pull::of) {
            Some(Pull::Failed(cause)) => failed = failed.or(Some(cause)),
            Some(_) => {}
            None => {
                let body = render::prefetch(snap, target, node, images);
                sheet.write(Write::Create {
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
    report_pull(snap, revisions, &missing, failed, sheet);
    false
}

fn report_pull(
    snap: &Cast<'_>,
    revisions: &Revisions,
    missing: &[(String, Vec<String>)],
    failed: Option<String>,
    sheet: &mut Sheet<'_>,
) {
    let outdated = |pod: &PodView| !revisions.is_current(pod.revision());
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
    let mut blocker = blocker(snap, reason, message);
    blocker.observed = "no member was touched".into();
    sheet.block(Action::Pull, None, "a new image", blocker);
}

fn discard_helpers(
    snap: &Cast<'_>,
    target: &str,
    needed_on: &BTreeSet<&str>,
    sheet: &mut Sheet<'_>,
) {
    let useless = snap.helpers().filter(|h| {
        let needed = h.revision() == target && needed_on.contains(h.node.as_str());
        !h.meta.deleting && !needed
    });
    let pins: Vec<_> = useless.map(|h| h.meta.pin.clone()).collect();
    for pin in pins {
        sheet.write(Write::Discard {
            kind: Kind::Pod,
            pin,
        });
    }
}
