//! Before anybody is touched: the revision is stored, tried at the API server, and its images are
//! pulled on the nodes concerned.

use crate::cast::Cast;
use crate::change;
use crate::memory::{Check, Failure, Kind};
use crate::plan::blocker;
use crate::quota::Full;
use crate::render::{self, Member};
use crate::revision::Revisions;
use crate::roster::MemberId;
use crate::sheet::Sheet;
use crate::steps::pulling;
use crate::view::PodView;
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::spec::RolloutMethod;
use ensemble_api::{Reason, Rule, Template, labels};
use serde_json::json;
use std::collections::BTreeSet;

/// What may be made use of.
#[must_use]
pub struct Prepared {
    /// The revision that a missing pod may be created from, if any.
    pub usable: Option<String>,
    /// Whether it is known what the API server makes of the images that running pods are to get.
    images_known: bool,
}

impl Prepared {
    /// Whether members that serve may be given that revision.
    pub fn may_roll(&self, target: &str) -> bool {
        self.images_known && self.usable.as_deref() == Some(target)
    }
}

/// Finds out what may be created, and with that whether serving members may be touched.
pub fn run(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) -> Prepared {
    store(snap, revisions, sheet);
    let checked = revisions.stored.is_some() && check(snap, revisions, sheet);
    // Looked at in every pass, since helpers of former targets are cleared away there.
    let pulled = pulling::run(snap, revisions, checked, sheet);
    let paused = snap.ensemble.spec.rollout.paused;
    let target = checked.then(|| revisions.target.clone());
    let base = revisions.base.clone();
    // What fails while a newer revision may not be used yet is repaired at the old one.
    let usable = if checked && pulled && !paused {
        target
    } else {
        base.or(target)
    };
    let ready = checked && pulled;
    let images_known = !ready || learn_images(snap, revisions, sheet);
    Prepared {
        usable,
        images_known,
    }
}

/// Asks the API server once more what it makes of the target, if members that run are to get images of it
/// and nobody remembers: a mirror that it puts into new pods goes into running ones, too.
fn learn_images(snap: &Cast<'_>, revisions: &Revisions, sheet: &mut Sheet<'_>) -> bool {
    let target = &revisions.target;
    let in_place = snap.ensemble.spec.rollout.method == RolloutMethod::InPlaceIfPossible;
    let asked = snap.memory.checks.contains_key(target);
    if !in_place || asked || !any_new_image(snap, revisions) {
        return true;
    }
    trial(snap, target, sheet);
    let message = "the API server is asked for the images of a new pod";
    let blocker = blocker(snap, Reason::Checking, message.into());
    sheet.block(Action::Check, None, "a new image", blocker);
    false
}

/// Whether a member that is there has another image by its revision than by the target.
fn any_new_image(snap: &Cast<'_>, revisions: &Revisions) -> bool {
    let of = |revision: &str| {
        let stored = snap.revisions.get(revision);
        stored.map(|r| change::all_images(&r.template))
    };
    let target = of(&revisions.target);
    let pods = snap.members().filter_map(|m| snap.our_pod(m));
    let mut outdated = pods.filter(|p| !revisions.is_current(p.revision()));
    outdated.any(|p| of(p.revision()) != target)
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
    if nothing_to_do || crate::mutants::is_off(Rule::TemplateTried) {
        return true;
    }
    match snap.memory.checks.get(target) {
        None => {
            trial(snap, target, sheet);
            let blocker = blocker(snap, Reason::Checking, "the API server is asked".into());
            sheet.block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Refused(failure)) if needs_no_room(snap, revisions, failure, sheet) => true,
        Some(Check::Refused(failure)) => {
            sheet.wake(failure.retry_at);
            if failure.retry_at <= snap.now {
                trial(snap, target, sheet);
            }
            let message = with_fields(snap, target, failure);
            let mut blocker = blocker(snap, failure.reason, message);
            blocker.observed = "dry run refused; no member was touched".into();
            if let Some(full) = Full::read(&failure.message) {
                full.explain(&snap.ensemble.namespace, &mut blocker);
            }
            sheet.block(Action::Check, None, "a new template", blocker);
            false
        }
        Some(Check::Passed(digest)) => same_as_base(snap, revisions, digest, sheet),
    }
}

/// Whether only a quota refuses the target, and members can have it all the same: a pod that takes the
/// place of another needs no room beside it. All else was looked at before, and found right.
fn needs_no_room(
    snap: &Cast<'_>,
    revisions: &Revisions,
    failure: &Failure,
    sheet: &mut Sheet<'_>,
) -> bool {
    let Some(full) = Full::read(&failure.message) else {
        return false;
    };
    let pods = snap.members().filter_map(|m| snap.our_pod(m));
    let outdated: BTreeSet<&str> = pods
        .map(PodView::revision)
        .filter(|r| !revisions.is_current(r))
        .collect();
    let fits = |before: &str| match snap.memory.checks.get(before) {
        _ if full.counts_pods_alone() => true,
        Some(Check::Refused(other)) => {
            let other = Full::read(&other.message);
            other.is_some_and(|other| full.asks_for_no_more_than(&other))
        }
        Some(Check::Passed(_)) => crate::mutants::is_off(Rule::NoMoreThanBefore),
        None => {
            trial(snap, before, sheet);
            false
        }
    };
    !outdated.is_empty() && outdated.into_iter().all(fits)
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
