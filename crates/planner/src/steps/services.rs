//! Services: the headless one by which members find each other, and those that lead clients to the primary
//! and to the replicas. One that is not ours by its owner is somebody's own: it is named, never written and
//! never deleted.

use crate::cast::Cast;
use crate::memory::Kind;
use crate::method;
use crate::plan::blocker;
use crate::presence::Presence;
use crate::render::{self, Wanted};
use crate::roster::MemberId;
use crate::sheet::Sheet;
use crate::view::{ContainerState, Meta, PodView};
use crate::write::Write;
use ensemble_api::report::Action;
use ensemble_api::status::Method;
use ensemble_api::{Reason, labels, names};
use serde_json::{Value, json};

/// Keeps them as they are to be.
pub fn run(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    headless(snap, sheet);
    let primary = names::primary(snap.name());
    for (name, service) in snap.from_spec().routed(snap) {
        let held = *name == primary && primary_is_held(snap);
        match service {
            Some(service) if held => wanted(snap, &service.published(), sheet),
            Some(service) => wanted(snap, service, sheet),
            None => unwanted(snap, name, sheet),
        }
    }
}

/// Whose a Service of one of our names is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Whose {
    /// Ours, by its owner.
    Ours,
    /// Left by a former Ensemble of this name: without an owner, and marked as made by us.
    Left,
    /// Somebody's own.
    Foreign,
}

fn whose(snap: &Cast<'_>, found: &Meta, marked: bool) -> Whose {
    match &found.controller {
        Some(uid) if uid == snap.ensemble.uid() => Whose::Ours,
        None if marked => Whose::Left,
        _ => Whose::Foreign,
    }
}

fn headless(snap: &Cast<'_>, sheet: &mut Sheet<'_>) {
    let name = snap.ensemble.spec.service(snap.name());
    // One that the user named may be the user's own: it serves as well, and only has to exist.
    let users_own = snap.ensemble.spec.service_name.is_some();
    let Some(found) = snap.services.get(&name).map(|s| &s.meta) else {
        if !is_taken(snap, &name, users_own, sheet) {
            let body = render::service(snap);
            let kind = Kind::Service;
            sheet.write(Write::Create { kind, body });
        }
        return;
    };
    match whose(snap, found, true) {
        Whose::Ours => {}
        Whose::Left => {
            let body = json!({"metadata": {"ownerReferences": [render::owner(snap)]}});
            patch(found, body, sheet);
        }
        Whose::Foreign if users_own => {}
        Whose::Foreign => name_taken(snap, &name, &found.pin.uid, sheet),
    }
}

fn wanted(snap: &Cast<'_>, service: &Wanted, sheet: &mut Sheet<'_>) {
    let Some(found) = snap.services.get(&service.name).map(|s| &s.meta) else {
        if !is_taken(snap, &service.name, false, sheet) {
            sheet.write(Write::Create {
                kind: Kind::Service,
                body: service.body(snap),
            });
        }
        return;
    };
    let made_of = found.annotations.get(labels::MADE_OF);
    match whose(snap, found, made_of.is_some()) {
        Whose::Ours if made_of == service.stamp.as_ref() => {}
        Whose::Ours | Whose::Left => patch(found, service.refresh(snap), sheet),
        Whose::Foreign => name_taken(snap, &service.name, &found.pin.uid, sheet),
    }
}

/// Only what is ours by owner and name goes.
fn unwanted(snap: &Cast<'_>, name: &str, sheet: &mut Sheet<'_>) {
    let found = snap.services.get(name).map(|s| &s.meta);
    let ours = found.filter(|f| whose(snap, f, false) == Whose::Ours && !f.deleting);
    if let Some(found) = ours {
        sheet.write(Write::Discard {
            kind: Kind::Service,
            pin: found.pin.clone(),
        });
    }
}

fn patch(found: &Meta, body: Value, sheet: &mut Sheet<'_>) {
    sheet.write(Write::Patch {
        kind: Kind::Service,
        pin: found.pin.clone(),
        body,
    });
}

/// Whether something that our watch does not show has the name. It is looked at again from time to time.
fn is_taken(snap: &Cast<'_>, name: &str, accepted: bool, sheet: &mut Sheet<'_>) -> bool {
    let key = (Kind::Service, name.to_owned());
    let Some(taken) = snap.memory.taken.get(&key) else {
        return false;
    };
    if taken.retry_at <= snap.now {
        sheet.write(Write::Look { key });
    }
    sheet.wake(taken.retry_at);
    if !accepted && !taken.pin.uid.is_empty() {
        name_taken(snap, name, &taken.pin.uid, sheet);
    }
    true
}

fn name_taken(snap: &Cast<'_>, name: &str, uid: &str, sheet: &mut Sheet<'_>) {
    let namespace = &snap.ensemble.namespace;
    let message = format!(
        "Service {name} exists and is not this Ensemble's (uid {uid}); Ensemble neither changes nor deletes it"
    );
    let mut blocker = blocker(snap, Reason::NameTaken, message);
    blocker.next_command = format!("kubectl get service {name} -n {namespace} -o yaml");
    sheet.block(Action::Maintain, None, &format!("Service {name}"), blocker);
}

/// Whether the primary is kept in its Service although its pod is not Ready: its engine's container is
/// ready, the engine itself says that it leads, and only another container is not. No other pod may carry
/// the label of a primary, or clients would be led to both.
fn primary_is_held(snap: &Cast<'_>) -> bool {
    let (Some(leader), Some(engine)) = (snap.engine().leader(), &snap.ensemble.spec.engine) else {
        return false;
    };
    let Some(pod) = snap.our_pod(leader).filter(|p| engine_is_ready(snap, p)) else {
        return false;
    };
    let reachable = [Presence::Serving, Presence::Unhealthy, Presence::Starting];
    let Some(label) = engine.role_label() else {
        return false;
    };
    // The Service follows the value that the primary itself carries, the old or the new one.
    let value = pod.meta.label(label.key);
    let leads = value == label.primary || snap.abilities.also_primary.contains(&value);
    let same = snap
        .pods
        .values()
        .filter(|p| p.meta.label(label.key) == value);
    let alone = leads && same.count() == 1;
    let held = another_is_not_ready(snap, pod) || another_is_about_to_restart(snap, leader);
    alone && held && reachable.contains(&snap.presence(leader))
}

fn engine_is_ready(snap: &Cast<'_>, pod: &PodView) -> bool {
    let engine = pod.container(&snap.ensemble.spec.engine_container());
    engine.is_some_and(|c| c.ready && c.state == ContainerState::Running)
}

/// A readiness gate that somebody holds open is obeyed: then all containers are ready and the pod is not.
fn another_is_not_ready(snap: &Cast<'_>, pod: &PodView) -> bool {
    let engine = snap.ensemble.spec.engine_container();
    let mut others = pod
        .containers
        .iter()
        .filter(|c| c.name != engine && !c.init);
    !pod.ready && others.any(|c| !c.ready)
}

/// A change in the same pod is written down that leaves the engine alone.
fn another_is_about_to_restart(snap: &Cast<'_>, leader: MemberId) -> bool {
    let name = snap.name_of(leader);
    let mut stored = snap.ensemble.status.in_flight.iter();
    stored.any(|i| {
        let in_place = i.member == name && i.method == Method::InPlace;
        in_place && !method::touches_engine(snap, leader, &i.target)
    })
}
