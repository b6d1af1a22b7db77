//! Pulling ahead: new images are brought to the nodes concerned by helper pods that run nothing. A helper
//! that finds no room is named, and done without where the spec allows that.

use crate::cast::Cast;
use crate::memory::Kind;
use crate::plan::blocker;
use crate::pull::Pull;
use crate::quota::Full;
use crate::render;
use crate::revision::Revisions;
use crate::sheet::Sheet;
use crate::view::PodView;
use crate::write::Write;
use ensemble_api::Reason;
use ensemble_api::report::Action;
use ensemble_api::spec::PrePull;
use ensemble_api::template::images;
use std::collections::BTreeSet;

/// A node may have room by then: a helper that it rejected goes, and another is tried.
const TRY_AGAIN_MS: i64 = 5 * 60 * 1000;

/// A node, and the images that are to be pulled there.
type Place = (String, Vec<String>);

/// What stands in the way of a pull.
enum Trouble {
    /// The image cannot be had.
    Missing(String),
    /// There is no place for a helper, by the words of whoever refused it.
    NoRoom(String),
}

/// Whether all images are where they are needed, or nobody insists on it.
pub fn run(snap: &Cast<'_>, revisions: &Revisions, checked: bool, sheet: &mut Sheet<'_>) -> bool {
    let target = &revisions.target;
    let policy = snap.ensemble.spec.rollout.pre_pull;
    let places = if policy == PrePull::Skip || !checked {
        BTreeSet::new()
    } else {
        nodes_to_pull_on(snap, revisions)
    };
    let missing: Vec<Place> = places
        .into_iter()
        .filter(|(node, _)| !snap.memory.pulled.contains(&(target.clone(), node.clone())))
        .collect();
    let needed_on = missing.iter().map(|(node, _)| node.as_str()).collect();
    discard_helpers(snap, target, &needed_on, sheet);
    let (mut late, mut waiting, mut trouble) = (Vec::new(), Vec::new(), None);
    for place in missing {
        match look_at(snap, target, &place, sheet) {
            Some(Trouble::NoRoom(why)) if policy == PrePull::IfPossible => late.push((place, why)),
            found => {
                trouble = trouble.or(found);
                waiting.push(place);
            }
        }
    }
    if waiting.is_empty() {
        report_late(snap, revisions, late, sheet);
        return true;
    }
    report_pull(snap, revisions, &waiting, trouble, sheet);
    false
}

/// How far the helper of one node is. One that is missing is created.
fn look_at(
    snap: &Cast<'_>,
    target: &str,
    (node, images): &Place,
    sheet: &mut Sheet<'_>,
) -> Option<Trouble> {
    let name = render::prefetch_name(snap.name(), target, node);
    if let Some(helper) = snap.pods.get(&name) {
        return match Pull::of(helper) {
            Pull::Failed(cause) => Some(Trouble::Missing(cause)),
            Pull::Rejected(cause) => {
                clear_rejected(snap, helper, sheet);
                let why = format!("node {node} rejects the helper pod {name}: {cause}");
                Some(Trouble::NoRoom(why))
            }
            Pull::Pulling | Pull::Pulled => None,
        };
    }
    let body = render::prefetch(snap, target, node, images);
    sheet.write(Write::Create {
        kind: Kind::Pod,
        body,
    });
    let failure = snap.memory.failures.get(&(Kind::Pod, name))?;
    Some(match failure.reason {
        // Who cannot be reached has refused nothing.
        Reason::ApiFailing | Reason::Conflict | Reason::NameTaken => {
            Trouble::Missing(failure.message.clone())
        }
        _ => Trouble::NoRoom(failure.message.clone()),
    })
}

/// A helper that was rejected stays for a while: that it is there keeps the next from being tried.
fn clear_rejected(snap: &Cast<'_>, helper: &PodView, sheet: &mut Sheet<'_>) {
    let pin = &helper.meta.pin;
    let since = snap.memory.pod(&pin.uid).unready_since.unwrap_or(snap.now);
    let until = since.plus_ms(TRY_AGAIN_MS);
    if until > snap.now {
        sheet.wake(until);
    } else if !helper.meta.deleting {
        sheet.write(Write::Discard {
            kind: Kind::Pod,
            pin: pin.clone(),
        });
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

/// Members that wait for images on these nodes, and which images: in words.
fn concerned<'p>(
    snap: &Cast<'_>,
    revisions: &Revisions,
    places: impl Iterator<Item = &'p Place> + Clone,
) -> (String, String) {
    let outdated = |pod: &PodView| !revisions.is_current(pod.revision());
    let nodes: BTreeSet<&str> = places.clone().map(|(node, _)| node.as_str()).collect();
    let concerned = |pod: &&PodView| nodes.contains(pod.node.as_str()) && outdated(pod);
    let pods = snap
        .members()
        .filter_map(|m| snap.our_pod(m))
        .filter(concerned);
    let members: Vec<String> = pods
        .map(|p| format!("{} on {}", p.meta.pin.name, p.node))
        .collect();
    let images: BTreeSet<&str> = places.flat_map(|(_, i)| i).map(String::as_str).collect();
    let images = images.into_iter().collect::<Vec<_>>().join(", ");
    (members.join(", "), images)
}

fn report_pull(
    snap: &Cast<'_>,
    revisions: &Revisions,
    places: &[Place],
    trouble: Option<Trouble>,
    sheet: &mut Sheet<'_>,
) {
    let (members, images) = concerned(snap, revisions, places.iter());
    let (reason, message) = match &trouble {
        Some(Trouble::Missing(cause)) => (
            Reason::ImageMissing,
            format!("{images} cannot be pulled for {members}: {cause}"),
        ),
        Some(Trouble::NoRoom(cause)) => (
            Reason::PullRefused,
            format!("{images} cannot be pulled ahead for {members}: {cause}"),
        ),
        None => (Reason::Pulling, format!("pulling {images} for {members}")),
    };
    let mut blocker = blocker(snap, reason, message);
    blocker.observed = "no member was touched".into();
    if let Some(Trouble::NoRoom(cause)) = &trouble {
        if let Some(full) = Full::read(cause) {
            full.explain(&snap.ensemble.namespace, &mut blocker);
        }
        blocker.next_command = format!(
            "kubectl -n {} patch ensemble {} --type merge -p '{{\"spec\":{{\"rollout\":{{\"prePull\":\"IfPossible\"}}}}}}'",
            snap.ensemble.namespace,
            snap.name()
        );
    }
    sheet.block(Action::Pull, None, "a new image", blocker);
}

/// Says which images are pulled only when their member restarts.
fn report_late(
    snap: &Cast<'_>,
    revisions: &Revisions,
    late: Vec<(Place, String)>,
    sheet: &mut Sheet<'_>,
) {
    let Some((_, why)) = late.first() else {
        return;
    };
    let (members, images) = concerned(snap, revisions, late.iter().map(|(place, _)| place));
    let message = format!("{images} is not pulled ahead for {members}: {why}");
    let mut blocker = blocker(snap, Reason::PulledLate, message);
    blocker.limit = "prePull IfPossible".into();
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
